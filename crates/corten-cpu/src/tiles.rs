//! Copies of blocks that are turned on the way.

use crate::strided::{Rows, copy_rows};
use crate::vec::transpose::{SIDE, Turn, turn};

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
        match transposed && n0 >= TILE && n1 >= TILE {
            true => copy_tiles(size, from, to, n0, n1),
            false => copy_rows(size, from, to, n0, n1),
        }
    }
}

/// Rows of the target that are written in turn, so that the source is read in runs.
const BAND: usize = 4 * TILE;

/// Copies in tiles, so that the lines of the source that a tile reads stay in the cache.
///
/// # Safety
/// As for [`copy_block`].
unsafe fn copy_tiles(size: usize, from: Rows, to: Rows, n0: usize, n1: usize) {
    let turn = turn().filter(|_| size == 4);
    for band in (0..n1).step_by(BAND) {
        for column in (0..n0).step_by(TILE) {
            for row in (band..n1.min(band + BAND)).step_by(TILE) {
                let moved = |rows: Rows| rows.element(column).row(row as i64);
                let (width, height) = (TILE.min(n0 - column), TILE.min(n1 - row));
                // SAFETY: the tile lies within the block.
                unsafe {
                    match turn {
                        Some(turn) if width == TILE && height == TILE => {
                            turn_tile(turn, moved(from), moved(to));
                        }
                        _ => copy_rows(size, moved(from), moved(to), width, height),
                    }
                }
            }
        }
    }
}

/// # Safety
/// As for [`copy_block`], with a whole tile of elements of 32 bits.
unsafe fn turn_tile(turn: Turn, from: Rows, to: Rows) {
    for row in (0..TILE).step_by(SIDE) {
        for column in (0..TILE).step_by(SIDE) {
            let moved = |rows: Rows| rows.element(column).row(row as i64).at;
            // SAFETY: the part lies within the tile.
            unsafe { turn(moved(from), from.inner, moved(to), to.outer) };
        }
    }
}
