//! Products of floats, block by block.
//!
//! The outer loops cut the columns of the result, the depth, and the rows so that the blocks in use
//! stay in the caches; [`pack`](crate::pack) puts them in order and [`tile`](crate::tile) does the
//! rest.

use crate::moves::{Lines, Scale};
use crate::pack::{Columns, Groups, Panels, Right, Strips, Sums};
use crate::scratch::{Room, Scratch};
use crate::tile::{Float, Instructions, TileSet};
use crate::view::{Source, View};
use std::ops::Range;

/// Most steps of the depth at a time: a panel of `b` fills a first-level cache of 48 KiB.
const DEPTH: usize = 192;

/// Bytes of a block of `a`, which is used with one panel of `b` after the other: it stays in the
/// second-level cache.
const BYTES_OF_A: usize = 512 << 10;

/// Bytes of a block of `b` that more than one block of `a` uses.
const BYTES_OF_B: usize = 1 << 20;

/// Strips whose sums go to a place apart at a time, if they do: when they are turned, enough of them
/// for whole cache lines of the result.
const STRIPS_APART: usize = 8;

/// What the sums of a product are added to.
#[derive(Clone, Copy)]
pub enum Start<E> {
    /// Nothing: what the result holds is not read.
    Nothing,
    /// What the result holds, times a factor.
    Scaled(E),
    /// A value per row.
    PerRow(*const E),
    /// A value per column.
    PerColumn(*const E),
}

impl<E> Start<E> {
    fn t(self) -> Self {
        match self {
            Self::PerRow(values) => Self::PerColumn(values),
            Self::PerColumn(values) => Self::PerRow(values),
            other => other,
        }
    }
}

/// `c = start + alpha * a @ b` on this thread.
///
/// # Safety
/// The factors and the values of `start` must be readable and `c` readable and writable over their
/// shapes, `c` must share no element with them and none of its own places with each other, and the
/// processor must have the instructions.
///
/// # Panics
/// When the shapes do not fit or there is no depth.
pub unsafe fn product<E: Float>(
    instructions: Instructions,
    c: View<*mut E>,
    a: View<*const E>,
    b: View<*const E>,
    alpha: E,
    start: Start<E>,
) {
    assert!(b.shape == [a.shape[1], c.shape[1]], "the shapes do not fit");
    // The transpose of the product is the product of the transposes, in the other order.
    let set = E::tiles(instructions);
    let turned = cost(set, c.t(), b.t(), a.t()) < cost(set, c, a, b);
    let (c, a, b, start) = if turned { (c.t(), b.t(), a.t(), start.t()) } else { (c, a, b, start) };
    // SAFETY: the caller's.
    unsafe { walk(set, c, a, Right::Matrix(Source::new(b)), alpha, start) }
}

/// [`product`] with a second factor that is made as it is needed.
///
/// # Safety
/// As for [`product`].
///
/// # Panics
/// When the shapes do not fit or there is no depth.
pub unsafe fn product_with_columns<E: Float>(
    instructions: Instructions,
    c: View<*mut E>,
    a: View<*const E>,
    b: &dyn Columns<E>,
    start: Start<E>,
) {
    // SAFETY: the caller's.
    unsafe { walk(E::tiles(instructions), c, a, Right::Made(b), E::ONE, start) }
}

/// # Safety
/// As for [`product`].
unsafe fn walk<E: Float>(
    set: &'static TileSet<E>,
    c: View<*mut E>,
    a: View<*const E>,
    b: Right<'_, E>,
    alpha: E,
    start: Start<E>,
) {
    assert!(a.shape[0] == c.shape[0], "the shapes do not fit");
    assert!(a.shape[1] > 0, "there is no depth");
    if c.shape.contains(&0) {
        return;
    }
    let mut scratch = Scratch::take();
    // SAFETY: the caller's.
    let a = unsafe { Source::new(a) };
    Walk { c, a, b, set, alpha, start }.run(&mut scratch);
    scratch.give_back();
}

/// About how many cycles a product takes: multiplications, copies of `b`, which are slower where
/// its rows do not lie side by side, and those of the result where its do not, for every block of
/// the depth.
fn cost<E: Float>(
    set: &TileSet<E>,
    c: View<*mut E>,
    a: View<*const E>,
    b: View<*const E>,
) -> usize {
    let ([rows, cols], depth) = (c.shape, a.shape[1]);
    // A step multiplies twice in a cycle, and loads one row of `b` and an element of `a` per row.
    let panels = Groups::of(cols.div_ceil(set.lanes), set.registers());
    let width = panels.get(0).len();
    let of_tiles = rows * depth * panels.count * (3 * width).max(6 + width) / 6;
    let of_b = if b.strides[1] == 1 { depth * cols / 8 } else { depth * cols / 4 };
    let of_c = if c.strides[1] == 1 { 0 } else { rows * cols * depth.div_ceil(DEPTH) / 2 };
    of_tiles + of_b + of_c
}

fn steps(length: usize, step: usize) -> impl Iterator<Item = Range<usize>> {
    (0..length).step_by(step).map(move |start| start..(start + step).min(length))
}

/// A product under way.
struct Walk<'a, E: 'static> {
    c: View<*mut E>,
    a: Source<'a, E>,
    b: Right<'a, E>,
    set: &'static TileSet<E>,
    alpha: E,
    start: Start<E>,
}

impl<E: Float> Walk<'_, E> {
    fn run(&self, scratch: &mut Scratch) {
        let ([rows, depth], cols) = (self.a.shape(), self.c.shape[1]);
        let at_once = DEPTH.min(depth) * size_of::<E>();
        let rows_at_once = BYTES_OF_A.div_ceil(at_once).next_multiple_of(self.set.rows());
        // With one block of `a`, every panel is used at once and only once.
        let kept = rows > rows_at_once;
        let cols_at_once =
            if kept { (BYTES_OF_B / at_once).next_multiple_of(self.set.cols()) } else { cols };
        for cols in steps(cols, cols_at_once) {
            for depth in Groups::of(depth, DEPTH).all() {
                let part = [depth.clone(), cols.clone()];
                let mut panels = Panels::of(&self.b, part, rows, kept, self.set, &mut scratch.b);
                for rows in steps(rows, rows_at_once) {
                    let a = self.a.part(rows.clone(), depth.clone());
                    let strips = Strips::of(a, panels.count(), self.set, &mut scratch.a);
                    let place = [rows.start, cols.start];
                    self.block(&mut panels, &strips, place, depth.start == 0, &mut scratch.c);
                }
            }
        }
    }

    /// Every panel of a block of `b` with every strip of a block of `a`. The place of the block is
    /// given.
    fn block(
        &self,
        panels: &mut Panels<'_, E>,
        strips: &Strips<'_, E>,
        start: [usize; 2],
        first: bool,
        room: &mut Room,
    ) {
        let first_time = start[0] == 0;
        for index in 0..panels.count() {
            let mut panel = panels.get(index, first_time, strips.by_rows());
            let width = panel.registers * self.set.lanes;
            let later = |strip| panels.later(index + 1, first_time, strip, strips.count());
            // Whether tiles write to the result itself.
            let direct = self.c.strides[1] == 1
                && panel.cols.len() == width
                && self.alpha == E::ONE
                && !(first && matches!(self.start, Start::Scaled(beta) if beta != E::ONE));
            for group in steps(strips.count(), if direct { 1 } else { STRIPS_APART }) {
                let rows = strips.rows(group.start).start..strips.rows(group.end - 1).end;
                let place = [start[0] + rows.start, panel.cols.start];
                let size = [rows.len(), panel.cols.len()];
                let beta = if first { self.begin(place, size) } else { Some(E::ONE) };
                let c = self.c.place(place);
                let (c_stride, add) = (self.c.strides[0], beta.is_some());
                if direct {
                    let sums = Sums { c, c_stride, add, later: later(group.start) };
                    // SAFETY: the place has the rows and columns of the strip and the panel.
                    unsafe { strips.tile(group.start, &mut panel, sums) };
                    continue;
                }
                let sums = room.elements::<E>(rows.len() * width);
                for strip in group {
                    let to = &mut sums[(strips.rows(strip).start - rows.start) * width..];
                    let (c, c_stride) = (to.as_mut_ptr(), width as isize);
                    let sums = Sums { c, c_stride, add: false, later: later(strip) };
                    // SAFETY: there is room for all rows and all columns of the panel.
                    unsafe { strips.tile(strip, &mut panel, sums) };
                }
                self.put(sums, width, size, c, Scale { alpha: self.alpha, beta });
            }
        }
    }

    /// Brings sums to the result.
    fn put(&self, sums: &[E], width: usize, [rows, cols]: [usize; 2], c: *mut E, scale: Scale<E>) {
        let [row, col] = self.c.strides;
        let from = Lines { first: sums.as_ptr(), stride: width as isize, count: rows, len: cols };
        let moves = &self.set.moves;
        // SAFETY: there are sums for all rows and columns, and they are places of the result.
        unsafe {
            if col == 1 {
                let to = Lines { first: c, stride: row, count: rows, len: cols };
                return (moves.put)(from, to, scale);
            }
            if row == 1 {
                let to = Lines { first: c, stride: col, count: cols, len: rows };
                return (moves.put_turned)(from, to, scale);
            }
            for i in 0..rows {
                for j in 0..cols {
                    let sum = scale.alpha * sums[i * width + j];
                    let to = c.wrapping_offset(i as isize * row + j as isize * col);
                    *to = scale.beta.map_or(sum, |beta| beta * *to + sum);
                }
            }
        }
    }

    /// Brings the values that the sums of a tile are added to, and returns their factor.
    fn begin(&self, place: [usize; 2], size: [usize; 2]) -> Option<E> {
        let (values, steps) = match self.start {
            Start::Nothing => return None,
            Start::Scaled(beta) => return Some(beta),
            Start::PerRow(values) => (values.wrapping_add(place[0]), [1, 0]),
            Start::PerColumn(values) => (values.wrapping_add(place[1]), [0, 1]),
        };
        let first = self.c.place(place);
        // In the order in which the result lies.
        let by_rows = self.c.strides[1].abs() <= self.c.strides[0].abs();
        let [outer, inner] = if by_rows { [0, 1] } else { [1, 0] };
        for i in 0..size[outer] {
            let line = first.wrapping_offset(i as isize * self.c.strides[outer]);
            let values = values.wrapping_add(i * steps[outer]);
            for j in 0..size[inner] {
                // SAFETY: the tile lies in the result; a value per row or per column is readable.
                unsafe {
                    *line.wrapping_offset(j as isize * self.c.strides[inner]) =
                        *values.add(j * steps[inner]);
                }
            }
        }
        Some(E::ONE)
    }
}
