//! Products of floats, block by block.
//!
//! The outer loops cut the columns of the result, the depth, and the rows so that the blocks in use
//! stay in the caches; [`pack`](crate::pack) puts them in order and [`tile`](crate::tile) does the
//! rest.

use crate::moves::Lines;
use crate::pack::{Columns, Panels, Right, Strips, even_groups};
use crate::scratch::Scratch;
use crate::tile::{Float, Instructions, Job, MOST_COLS, MOST_ROWS, Tile, TileSet};
use crate::view::{Source, View};
use std::ops::Range;

/// Most steps of the depth at a time: a panel of `b` takes most of a first-level cache of 48 KiB.
const DEPTH: usize = 320;

/// Bytes of a block of `a`, which is used with one panel of `b` after the other: it stays in the
/// second-level cache.
const BYTES_OF_A: usize = 512 << 10;

/// Bytes of a block of `b` that more than one block of `a` uses.
const BYTES_OF_B: usize = 1 << 20;

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
    let of_tiles = rows * depth * cols.div_ceil(set.lanes) / 2;
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
            for depth in even_groups(depth, DEPTH) {
                let part = [depth.clone(), cols.clone()];
                let mut panels =
                    Panels::of(&self.b, part, rows, kept, self.set, &mut scratch.b);
                for rows in steps(rows, rows_at_once) {
                    let a = self.a.part(rows.clone(), depth.clone());
                    let strips = Strips::of(a, panels.count(), self.set, &mut scratch.a);
                    self.block(&mut panels, &strips, rows.start, depth.start == 0);
                }
            }
        }
    }

    /// Every panel of a block of `b` with every strip of a block of `a`, whose first row is given.
    fn block(
        &self,
        panels: &mut Panels<'_, E>,
        strips: &Strips<'_, E>,
        start: usize,
        first: bool,
    ) {
        for index in 0..panels.count() {
            let panel = panels.get(index, start == 0);
            let tiles = strips.tiles()[panel.registers - 1];
            for (index, rows) in strips.groups().enumerate() {
                let (a, a_strides) = strips.get(index, rows.clone());
                let place = [start + rows.start, panel.cols.start];
                let size = [rows.len(), panel.cols.len()];
                let job = Job {
                    depth: strips.depth(),
                    a,
                    a_strides,
                    b: panel.first,
                    b_stride: panel.stride,
                    c: self.c.place(place),
                    c_stride: self.c.strides[0],
                    cols: panel.cols.len(),
                    alpha: self.alpha,
                    beta: if first { self.begin(place, size) } else { Some(E::ONE) },
                };
                self.one(tiles[rows.len() - 1], rows.len(), job);
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

    /// One tile; through a copy where the columns of the result do not lie side by side.
    fn one(&self, tile: Tile<E>, rows: usize, job: Job<E>) {
        if self.c.strides[1] == 1 {
            // SAFETY: `Panels` and `Strips` give whole panels and strips of the depth, the result
            // has the rows and columns of the job, and the tile is of the level in use.
            unsafe { tile(&job) };
            return;
        }
        let mut sums = [E::ZERO; MOST_ROWS * MOST_COLS];
        let width = self.set.cols();
        let apart = Job { c: sums.as_mut_ptr(), c_stride: width as isize, beta: None, ..job };
        // SAFETY: as above; the copy has room for all rows and columns of a tile.
        unsafe { tile(&apart) };
        if job.c_stride == 1 {
            let from =
                Lines { first: sums.as_ptr(), stride: width as isize, count: rows, len: job.cols };
            let to =
                Lines { first: job.c, stride: self.c.strides[1], count: job.cols, len: rows };
            // SAFETY: the copy holds the rows and columns of a tile, the result those of the job.
            unsafe { (self.set.moves.put_turned)(from, to, job.beta) };
            return;
        }
        for row in 0..rows {
            for col in 0..job.cols {
                let offset = row as isize * job.c_stride + col as isize * self.c.strides[1];
                let sum = sums[row * width + col];
                // SAFETY: the result has the rows and columns of the job.
                unsafe {
                    let to = job.c.wrapping_offset(offset);
                    *to = job.beta.map_or(sum, |beta| beta * *to + sum);
                }
            }
        }
    }
}
