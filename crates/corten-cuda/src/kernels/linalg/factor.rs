//! Factorisations in place, by blocks of columns.

use super::matrices::{View, block, in_parts, sizes, vector_stride};
use super::solve::{Triangle, solve_triangle, subtract_product, swap_rows};
use crate::kernel::{Argument, Template, parameters};
use crate::launch::{Shape, THREADS};
use crate::operands::Operands;
use crate::stream::Stream;
use crate::text;
use corten_core::{Access, Result};
use corten_ops::{Tensor, op};

pub(super) const TEXT: &[&str] = &[text::LINALG];
static CHOLESKY: Template = Template { name: "cholesky", text: TEXT };
static LU_PANEL: Template = Template { name: "lu_panel", text: TEXT };
static QR_PANEL: Template = Template { name: "qr_panel", text: TEXT };
static APPLY: Template = Template { name: "apply_reflections", text: TEXT };

/// Columns that one block factors.
const PANEL: i64 = 32;
/// Up to so many columns a matrix is factored at once.
const WHOLE: i64 = 96;

/// A block of threads for each of `count` matrices.
pub(super) fn per_matrix(count: u32) -> Shape {
    Shape { grid: [count, 1, 1], block: [THREADS, 1, 1], shared: 0 }
}

/// A warp for each of `columns` columns of `count` matrices.
pub(super) fn per_column(columns: u32, count: u32) -> Shape {
    Shape { grid: [columns.div_ceil(THREADS / 32), count, 1], block: [THREADS, 1, 1], shared: 0 }
}

/// The Cholesky factors of lower triangles; what is above the diagonal is overwritten.
pub(super) fn cholesky(a: &Tensor, info: &Tensor) -> Result<()> {
    let [_, n, _] = sizes(a)?.map(i64::from);
    if n <= WHOLE {
        return cholesky_block(a, info, 0);
    }
    for start in (0..n).step_by(PANEL as usize) {
        let end = (start + PANEL).min(n);
        let diagonal = block(a, [start, end], [start, end])?;
        cholesky_block(&diagonal, info, start as u32)?;
        if end < n {
            // L21 L11^H = A21, as conj(L11) L21^T = A21^T.
            let below = block(a, [end, n], [start, end])?;
            let sides = op::transpose_int(&below, -2, -1)?;
            let triangle = Triangle { upper: false, unit: false, conjugated: true };
            solve_triangle(&diagonal, &sides, triangle)?;
            let rest = block(a, [end, n], [end, n])?;
            subtract_product(&rest, (&below, false), (&sides, true))?;
        }
    }
    Ok(())
}

fn cholesky_block(a: &Tensor, info: &Tensor, mut first: u32) -> Result<()> {
    let [count, mut n, _] = sizes(a)?;
    let held = Operands::hold(&[(a, Access::Write), (info, Access::Write)])?;
    let (mut data, mut info_at, mut view) = (held.at(0), held.at(1), View::of(a));
    let stream = Stream::current(a.device().index);
    // SAFETY: the matrices are those of the tensor, and `info` has a number for each; both are held.
    unsafe {
        let parameters = parameters!(data, view, info_at, n, first);
        CHOLESKY.launch(&[Argument::Value(a.dtype())], per_matrix(count), stream, parameters)?;
    }
    drop(held);
    Ok(())
}

/// LU factors; `pivots` [batch, steps] become the rows exchanged, counted from 1.
pub(super) fn lu(a: &Tensor, pivots: &Tensor, info: &Tensor, pivot: bool) -> Result<()> {
    let [_, m, n] = sizes(a)?.map(i64::from);
    let steps = m.min(n);
    if steps <= WHOLE && n <= 4 * WHOLE {
        return lu_panel(a, pivots, info, 0, pivot);
    }
    for start in (0..steps).step_by(PANEL as usize) {
        let end = (start + PANEL).min(steps);
        let panel = block(a, [start, m], [start, end])?;
        lu_panel(&panel, &op::narrow(pivots, 1, start, end - start)?, info, start as u32, pivot)?;
        if pivot {
            let range = start as u32..end as u32;
            swap_rows(&block(a, [0, m], [0, start])?, pivots, range.clone(), false)?;
            swap_rows(&block(a, [0, m], [end, n])?, pivots, range, false)?;
        }
        let right = block(a, [start, end], [end, n])?;
        let triangle = Triangle { upper: false, unit: true, conjugated: false };
        solve_triangle(&block(a, [start, end], [start, end])?, &right, triangle)?;
        let below = block(a, [end, m], [start, end])?;
        subtract_product(&block(a, [end, m], [end, n])?, (&below, false), (&right, false))?;
    }
    Ok(())
}

fn lu_panel(a: &Tensor, pivots: &Tensor, info: &Tensor, mut first: u32, pivot: bool) -> Result<()> {
    let [count, mut m, mut n] = sizes(a)?;
    let held =
        Operands::hold(&[(a, Access::Write), (pivots, Access::Write), (info, Access::Write)])?;
    let (mut data, mut pivots_at, mut info_at) = (held.at(0), held.at(1), held.at(2));
    let (mut view, mut stride) = (View::of(a), vector_stride(pivots) as u32);
    let stream = Stream::current(a.device().index);
    let arguments = [Argument::Value(a.dtype()), Argument::Number(u32::from(pivot))];
    // SAFETY: the matrices are those of the tensor; there are pivots for each step and a number of `info`
    // for each matrix; all are held.
    unsafe {
        let parameters = parameters!(data, view, m, n, pivots_at, stride, info_at, first);
        LU_PANEL.launch(&arguments, per_matrix(count), stream, parameters)?;
    }
    drop(held);
    Ok(())
}

/// QR factors: R above the diagonal, reflections below, their factors in `tau` [batch, steps].
pub(super) fn qr(a: &Tensor, tau: &Tensor) -> Result<()> {
    let [_, m, n] = sizes(a)?.map(i64::from);
    let steps = m.min(n);
    for start in (0..steps).step_by(PANEL as usize) {
        let end = (start + PANEL).min(steps);
        let panel = block(a, [start, m], [start, end])?;
        let own = op::narrow(tau, 1, start, end - start)?;
        qr_panel(&panel, &own)?;
        apply_reflections(&panel, &own, &block(a, [start, m], [end, n])?, true)?;
    }
    Ok(())
}

fn qr_panel(a: &Tensor, tau: &Tensor) -> Result<()> {
    let [count, mut m, mut n] = sizes(a)?;
    let held = Operands::hold(&[(a, Access::Write), (tau, Access::Write)])?;
    let (mut data, mut tau_at) = (held.at(0), held.at(1));
    let (mut view, mut stride) = (View::of(a), vector_stride(tau) as u32);
    let stream = Stream::current(a.device().index);
    // SAFETY: the matrices are those of the tensor, with a factor for each step; both are held.
    unsafe {
        let parameters = parameters!(data, view, m, n, tau_at, stride);
        QR_PANEL.launch(&[Argument::Value(a.dtype())], per_matrix(count), stream, parameters)?;
    }
    drop(held);
    Ok(())
}

/// Multiplies `x` with the product of reflections from the left, or with its adjoint.
pub(super) fn apply_reflections(
    vectors: &Tensor,
    tau: &Tensor,
    x: &Tensor,
    adjoint: bool,
) -> Result<()> {
    if x.numel() == 0 || tau.numel() == 0 {
        return Ok(());
    }
    in_parts(&[x, vectors, tau], |parts| {
        let [x, vectors, tau] = parts else { return Ok(()) };
        let [batches, mut rows, mut columns] = sizes(x)?;
        let held =
            Operands::hold(&[(x, Access::Write), (vectors, Access::Read), (tau, Access::Read)])?;
        let (mut data, mut from, mut tau_at) = (held.at(0), held.at(1), held.at(2));
        let (mut view, mut vectors_view) = (View::of(x), View::of(vectors));
        let (mut stride, mut count) = (vector_stride(tau), tau.sizes()[1] as u32);
        let shape = per_column(columns, batches);
        let stream = Stream::current(x.device().index);
        let arguments = [Argument::Value(x.dtype()), Argument::Number(u32::from(adjoint))];
        // SAFETY: the reflections have as many rows as the columns of `x`; all are held.
        unsafe {
            let parameters =
                parameters!(from, vectors_view, tau_at, stride, count, rows, data, view, columns);
            APPLY.launch(&arguments, shape, stream, parameters)?;
        }
        drop(held);
        Ok(())
    })
}
