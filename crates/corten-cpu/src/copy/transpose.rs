//! Copies of blocks that are turned on the way.

use crate::copy::strided::{Rows, copy_rows};
use crate::rows::loops::compiled;
use crate::vec::prefetch_early;
use crate::vec::transpose::{SIDE, Turn, turn};
use corten_core::Element;
use std::array::from_fn;
use std::ops::Range;

/// Side of the square tiles in which a transposed block is copied.
pub(crate) const TILE: usize = 16;

/// Copies rows of elements, in tiles where the source's lie across.
///
/// # Safety
/// Both must be `n1` rows of `n0` elements of `size` bytes.
pub(crate) unsafe fn copy_block(size: usize, from: Rows, to: Rows, n0: usize, n1: usize) {
    let dense = size as i64;
    let transposed = to.inner == dense && from.outer == dense && from.inner != dense;
    // SAFETY: the caller's.
    unsafe {
        match transposed && n1 >= SIDE {
            true if n0 >= SIDE => copy_tiles(size, from, to, n0, n1),
            true if to.outer == dense * n0 as i64 => weave(size, from, to, n0, n1),
            _ => copy_rows(size, from, to, n0, n1),
        }
    }
}

/// Copies a few rows of the source, which are dense, to elements side by side: the colours of
/// pixels, or the columns of shuffled ones.
///
/// # Safety
/// As for [`copy_block`], with rows of the target that lie one behind the other.
unsafe fn weave(size: usize, from: Rows, to: Rows, n0: usize, n1: usize) {
    // SAFETY: the caller's.
    unsafe {
        match (size, n0) {
            (2, 2) => compiled(|| weave_rows::<u16, 2>(from, to, n1)),
            (2, 3) => compiled(|| weave_rows::<u16, 3>(from, to, n1)),
            (2, 4) => compiled(|| weave_rows::<u16, 4>(from, to, n1)),
            (4, 2) => compiled(|| weave_rows::<u32, 2>(from, to, n1)),
            (4, 3) => compiled(|| weave_rows::<u32, 3>(from, to, n1)),
            (4, 4) => compiled(|| weave_rows::<u32, 4>(from, to, n1)),
            (8, 2) => compiled(|| weave_rows::<u64, 2>(from, to, n1)),
            _ => copy_rows(size, from, to, n0, n1),
        }
    }
}

/// # Safety
/// As for [`weave`] with `N` rows of elements of type `T`.
#[inline(always)]
unsafe fn weave_rows<T: Copy, const N: usize>(from: Rows, to: Rows, n1: usize) {
    let rows: [*const T; N] = from_fn(|k| from.element(k).at.cast_const().cast());
    let to = to.at.cast::<[T; N]>();
    for i in 0..n1 {
        // SAFETY: the caller's.
        unsafe { to.add(i).write_unaligned(rows.map(|row| row.add(i).read_unaligned())) };
    }
}

/// Rows of the target that are written in turn, so that the source is read in runs.
const BAND: usize = 16 * TILE;

/// Rows ahead of the ones at work whose places in the source are fetched into the cache: so many runs
/// at a time are more than a processor foresees.
const AHEAD: usize = 4 * TILE;

/// Copies in tiles, so that the lines of the source that a tile reads stay in the cache.
///
/// # Safety
/// As for [`copy_block`].
unsafe fn copy_tiles(size: usize, from: Rows, to: Rows, n0: usize, n1: usize) {
    let turn = turn(size).filter(|_| n0 >= SIDE && n1 >= SIDE);
    for band in (0..n1).step_by(BAND) {
        for column in (0..n0).step_by(TILE) {
            for row in (band..n1.min(band + BAND)).step_by(TILE) {
                let (columns, rows) = (column..n0.min(column + TILE), row..n1.min(row + TILE));
                let ahead = if row + AHEAD < n1 { columns.clone() } else { 0..0 };
                for column in ahead {
                    let later = from.element(column).row((row + AHEAD) as i64);
                    prefetch_early(later.at.cast_const(), TILE * size);
                }
                // SAFETY: the tile lies within the block.
                unsafe {
                    match turn {
                        Some(turn) => turn_tile(turn, from, to, [columns, rows], [n0, n1]),
                        None => {
                            let moved = |rows: Rows| rows.element(column).row(row as i64);
                            copy_rows(size, moved(from), moved(to), columns.len(), rows.len());
                        }
                    }
                }
            }
        }
    }
}

/// Turns a tile in registers. Where the block ends within a register, some elements are copied
/// twice.
///
/// # Safety
/// As for [`copy_block`], with `n0` and `n1` not smaller than `SIDE`, elements of the function's size,
/// and the columns and rows of the tile within the block.
unsafe fn turn_tile(
    turn: Turn,
    from: Rows,
    to: Rows,
    [columns, rows]: [Range<usize>; 2],
    [n0, n1]: [usize; 2],
) {
    for row in rows.step_by(SIDE) {
        for column in columns.clone().step_by(SIDE) {
            let (column, row) = (column.min(n0 - SIDE), row.min(n1 - SIDE));
            let moved = |rows: Rows| rows.element(column).row(row as i64).at;
            // SAFETY: the part lies within the block.
            unsafe { turn(moved(from), from.inner, moved(to), to.outer) };
        }
    }
}

/// The columns of a matrix as rows: `to[c * rows + r] = from[r * columns + c]`, for as many rows as
/// there are.
pub(crate) fn turn_matrix<T: Element>(from: &[T], columns: usize, to: &mut [T]) {
    let (size, rows) = (size_of::<T>(), from.len().checked_div(columns).unwrap_or(0));
    assert!(rows * columns == from.len() && to.len() == from.len());
    let bytes = |elements: usize| (elements * size) as i64;
    let at = from.as_ptr().cast_mut().cast();
    let source = Rows { at, inner: bytes(columns), outer: bytes(1) };
    let target = Rows { at: to.as_mut_ptr().cast(), inner: bytes(1), outer: bytes(rows) };
    // SAFETY: both are matrices of these sizes, and the source is not written.
    unsafe { copy_block(size, source, target, rows, columns) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turned_and_back<T: Element + From<u16> + PartialEq>() {
        for (rows, columns) in [
            (0, 3),
            (1, 7),
            (7, 1),
            (2, 19),
            (3, 35),
            (4, 70),
            (8, 8),
            (9, 15),
            (16, 5),
            (33, 10),
            (70, 131),
        ] {
            let from: Vec<T> = (0..(rows * columns) as u16).map(T::from).collect();
            let mut to = from.clone();
            turn_matrix(&from, columns, &mut to);
            for (at, value) in to.iter().enumerate() {
                assert!(*value == from[at % rows * columns + at / rows], "{rows} {columns} {at}");
            }
            let mut back = to.clone();
            turn_matrix(&to, rows.max(1), &mut back);
            assert!(back == from);
        }
    }

    #[test]
    fn matrices_of_every_size_are_turned() {
        turned_and_back::<u16>();
        turned_and_back::<f32>();
        turned_and_back::<i32>();
        turned_and_back::<f64>();
        turned_and_back::<i64>();
    }
}
