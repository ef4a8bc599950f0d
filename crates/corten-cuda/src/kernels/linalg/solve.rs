//! Triangular systems, products that are subtracted, exchanged rows.

use super::factor::TEXT;
use super::matrices::{View, block, in_parts, sizes, vector_stride};
use crate::failure;
use crate::kernel::{Argument, Template, parameters};
use crate::launch::{Shape, THREADS};
use crate::operands::Operands;
use crate::stream::Stream;
use crate::text;
use corten_core::{Access, Result};
use corten_ops::{Tensor, op};
use std::ops::Range;

static SOLVE: Template = Template { name: "solve_triangle", text: TEXT };
static PRODUCT: Template = Template { name: "subtract_product", text: TEXT };
static SWAP: Template = Template { name: "swap_rows", text: TEXT };
static LDL_SOLVE: Template = Template { name: "ldl_solve", text: &[text::LINALG, text::LDL] };

/// `LA_ORDER` and `LA_COLUMNS` of `linalg.cuh`.
const ORDER: i64 = 64;
const COLUMNS: u32 = 16;

/// What of a triangular matrix counts.
#[derive(Clone, Copy)]
pub(super) struct Triangle {
    pub(super) upper: bool,
    pub(super) unit: bool,
    pub(super) conjugated: bool,
}

/// Replaces `x` by the solution of `a x' = x`.
pub(super) fn solve_triangle(a: &Tensor, x: &Tensor, triangle: Triangle) -> Result<()> {
    let [_, n, columns] = sizes(x)?.map(i64::from);
    if x.numel() == 0 {
        return Ok(());
    }
    if n <= ORDER {
        return solve_block(a, x, triangle);
    }
    let half = (n / 2 + ORDER / 2 - 1) / (ORDER / 2) * (ORDER / 2);
    let (top, bottom) = (block(x, [0, half], [0, columns])?, block(x, [half, n], [0, columns])?);
    let first = block(a, [0, half], [0, half])?;
    let last = block(a, [half, n], [half, n])?;
    if triangle.upper {
        solve_triangle(&last, &bottom, triangle)?;
        let beside = block(a, [0, half], [half, n])?;
        subtract_product(&top, (&beside, triangle.conjugated), (&bottom, false))?;
        return solve_triangle(&first, &top, triangle);
    }
    solve_triangle(&first, &top, triangle)?;
    let below = block(a, [half, n], [0, half])?;
    subtract_product(&bottom, (&below, triangle.conjugated), (&top, false))?;
    solve_triangle(&last, &bottom, triangle)
}

fn solve_block(a: &Tensor, x: &Tensor, triangle: Triangle) -> Result<()> {
    in_parts(&[x, a], |parts| {
        let [x, a] = parts else { return Ok(()) };
        let [batches, mut n, mut columns] = sizes(x)?;
        let held = Operands::hold(&[(x, Access::Write), (a, Access::Read)])?;
        let (mut sides, mut from) = (held.at(0), held.at(1));
        let (mut x_view, mut a_view) = (View::of(x), View::of(a));
        let grid = [columns.div_ceil(COLUMNS), batches, 1];
        let shape = Shape { grid, block: [THREADS, 1, 1], shared: 0 };
        let flags = [triangle.upper, triangle.unit, triangle.conjugated];
        let [upper, unit, conjugated] = flags.map(|flag| Argument::Number(u32::from(flag)));
        let arguments = [Argument::Value(x.dtype()), upper, unit, conjugated];
        let stream = Stream::current(x.device().index);
        // SAFETY: the triangle has as many rows as `x`; both are held.
        unsafe {
            let parameters = parameters!(from, a_view, sides, x_view, n, columns);
            SOLVE.launch(&arguments, shape, stream, parameters)?;
        }
        drop(held);
        Ok(())
    })
}

/// `c -= a b`, the factors conjugated where it says so.
pub(super) fn subtract_product(
    c: &Tensor,
    (a, a_conjugated): (&Tensor, bool),
    (b, b_conjugated): (&Tensor, bool),
) -> Result<()> {
    if c.numel() == 0 || a.numel() == 0 {
        return Ok(());
    }
    in_parts(&[c, a, b], |parts| {
        let [c, a, b] = parts else { return Ok(()) };
        let [batches, mut m, mut n] = sizes(c)?;
        let [_, _, mut steps] = sizes(a)?;
        let held = Operands::hold(&[(c, Access::Write), (a, Access::Read), (b, Access::Read)])?;
        let (mut to, mut left, mut right) = (held.at(0), held.at(1), held.at(2));
        let (mut c_view, mut a_view, mut b_view) = (View::of(c), View::of(a), View::of(b));
        let grid = [m.div_ceil(32), n.div_ceil(32), batches];
        let shape = Shape { grid, block: [THREADS, 1, 1], shared: 0 };
        let conjugated = u32::from(a_conjugated) + 2 * u32::from(b_conjugated);
        let arguments = [Argument::Value(c.dtype()), Argument::Number(conjugated)];
        let stream = Stream::current(c.device().index);
        // SAFETY: the shapes of the three fit; all are held.
        unsafe {
            let parameters = parameters!(to, c_view, left, a_view, right, b_view, m, n, steps);
            PRODUCT.launch(&arguments, shape, stream, parameters)?;
        }
        drop(held);
        Ok(())
    })
}

/// Exchanges the rows of `x` as some of `pivots` [batch, steps] tell, or takes that back.
pub(super) fn swap_rows(
    x: &Tensor,
    pivots: &Tensor,
    range: Range<u32>,
    backward: bool,
) -> Result<()> {
    if x.numel() == 0 || range.is_empty() {
        return Ok(());
    }
    in_parts(&[x, pivots], |parts| {
        let [x, pivots] = parts else { return Ok(()) };
        let [batches, mut rows, mut columns] = sizes(x)?;
        let held = Operands::hold(&[(x, Access::Write), (pivots, Access::Read)])?;
        let (mut data, mut pivots_at) = (held.at(0), held.at(1));
        let (mut view, mut stride) = (View::of(x), vector_stride(pivots));
        let (mut begin, mut end) = (range.start, range.end);
        let mut failure = failure::address(x.device().index)?;
        let grid = [columns.div_ceil(128), batches, 1];
        let shape = Shape { grid, block: [128, 1, 1], shared: 0 };
        let arguments = [Argument::Value(x.dtype()), Argument::Number(u32::from(backward))];
        let stream = Stream::current(x.device().index);
        // SAFETY: pivots that are no rows are reported and not followed; both tensors are held.
        unsafe {
            let parameters =
                parameters!(data, view, rows, columns, pivots_at, stride, begin, end, failure);
            SWAP.launch(&arguments, shape, stream, parameters)?;
        }
        drop(held);
        Ok(())
    })
}

/// Replaces `x` by the solution with the factors of `ldl_factor`.
pub(super) fn ldl_solve(a: &Tensor, pivots: &Tensor, x: &Tensor, hermitian: bool) -> Result<()> {
    in_parts(&[x, a, pivots], |parts| {
        let [x, a, pivots] = parts else { return Ok(()) };
        let [batches, mut n, mut columns] = sizes(x)?;
        let held =
            Operands::hold(&[(x, Access::Write), (a, Access::Read), (pivots, Access::Read)])?;
        let (mut sides, mut from, mut pivots_at) = (held.at(0), held.at(1), held.at(2));
        let (mut x_view, mut a_view) = (View::of(x), View::of(a));
        let mut stride = vector_stride(pivots);
        let mut failure = failure::address(x.device().index)?;
        let grid = [columns.div_ceil(64), batches, 1];
        let shape = Shape { grid, block: [64, 1, 1], shared: 0 };
        let arguments = [Argument::Value(x.dtype()), Argument::Number(u32::from(hermitian))];
        let stream = Stream::current(x.device().index);
        // SAFETY: as in `swap_rows`; matrices and right-hand sides have as many rows.
        unsafe {
            let parameters =
                parameters!(from, a_view, pivots_at, stride, sides, x_view, n, columns, failure);
            LDL_SOLVE.launch(&arguments, shape, stream, parameters)?;
        }
        drop(held);
        Ok(())
    })
}

/// Solves with LU factors: `A X = B`, or with the transpose, or with conjugated matrices.
pub(super) fn lu_solve(
    factors: &Tensor,
    pivots: &Tensor,
    x: &Tensor,
    [transposed, conjugated]: [bool; 2],
) -> Result<()> {
    let steps = 0..sizes(x)?[1];
    let lower = |upper| Triangle { upper, unit: true, conjugated };
    let upper = |upper| Triangle { upper, unit: false, conjugated };
    if transposed {
        let turned = op::transpose_int(factors, -2, -1)?;
        solve_triangle(&turned, x, upper(false))?;
        solve_triangle(&turned, x, lower(true))?;
        return swap_rows(x, pivots, steps, true);
    }
    swap_rows(x, pivots, steps, false)?;
    solve_triangle(factors, x, lower(false))?;
    solve_triangle(factors, x, upper(true))
}
