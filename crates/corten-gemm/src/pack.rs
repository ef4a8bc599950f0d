//! Blocks of both factors in the order in which tiles read them. A factor is copied only where
//! reading it as it lies would cost more.

use crate::moves::{Lines, Moves};
use crate::scratch::Room;
use crate::tile::{Float, MOST_ROWS, Tile, TileSet};
use crate::view::Source;
use std::ops::Range;

/// Lines at multiples of this many bytes share their places in the first-level cache.
const CONFLICT: usize = 4096;

/// A block that reaches over more bytes than this lies on more pages than a processor remembers.
const FAR: usize = 256 << 10;

/// A strip that up to so many panels use is read as it lies.
const FEW_PANELS: usize = 2;

/// Elements that [`Columns::fill`] may write behind its last line.
pub const SLACK: usize = 16;

/// A second factor that is made as it is needed, a few columns at a time.
pub trait Columns<E> {
    /// Writes the element of row `depth.start + i` and column `cols.start + j` to place `j` of line
    /// `i`, for both ranges. Lines are `width` apart; what is left of them may hold anything, and
    /// so may [`SLACK`] elements behind the last one.
    fn fill(&self, depth: Range<usize>, cols: Range<usize>, to: &mut [E], width: usize);
}

/// The second factor.
pub(crate) enum Right<'a, E> {
    Matrix(Source<'a, E>),
    Made(&'a dyn Columns<E>),
}

/// A block of the second factor, one panel as wide as a tile after the other.
pub(crate) struct Panels<'a, E: 'static> {
    right: &'a Right<'a, E>,
    depth: Range<usize>,
    cols: Range<usize>,
    set: &'static TileSet<E>,
    in_place: bool,
    /// Whether every copied panel has a place of its own, for more than one use.
    kept: bool,
    room: &'a mut [E],
}

/// A panel as a tile reads it.
pub(crate) struct Panel<E> {
    pub first: *const E,
    pub stride: isize,
    /// Which columns of the factor it holds.
    pub cols: Range<usize>,
    /// How many registers they fill.
    pub registers: usize,
}

impl<'a, E: Float> Panels<'a, E> {
    pub(crate) fn of(
        right: &'a Right<'a, E>,
        [depth, cols]: [Range<usize>; 2],
        rows: usize,
        kept: bool,
        set: &'static TileSet<E>,
        room: &'a mut Room,
    ) -> Self {
        let in_place = match right {
            Right::Matrix(b) => b.strides()[1] == 1 && !is_used_often(b, depth.len(), rows),
            Right::Made(_) => false,
        };
        let width = if kept { cols.len().next_multiple_of(set.lanes) } else { set.cols() };
        let room = room.elements::<E>(width * depth.len() + SLACK);
        Self { right, depth, cols, set, in_place, kept, room }
    }

    pub(crate) fn count(&self) -> usize {
        self.cols.len().div_ceil(self.set.cols())
    }

    /// A panel, which is copied if this is the first time, or if no copies are kept. One that is
    /// not whole is copied always, since a tile reads all of its columns.
    pub(crate) fn get(&mut self, index: usize, first_time: bool) -> Panel<E> {
        let lanes = self.set.lanes;
        let registers = even_group(self.cols.len().div_ceil(lanes), self.set.tiles.len(), index);
        let start = self.cols.start + registers.start * lanes;
        let cols = start..(self.cols.start + registers.end * lanes).min(self.cols.end);
        let width = registers.len() * lanes;
        if let Right::Matrix(b) = self.right
            && self.in_place
            && cols.len() == width
        {
            let first = b.part(self.depth.clone(), cols.clone()).first();
            return Panel { first, stride: b.strides()[0], cols, registers: registers.len() };
        }
        let place = if self.kept { registers.start * lanes * self.depth.len() } else { 0 };
        let to = &mut self.room[place..][..width * self.depth.len() + SLACK];
        if first_time || !self.kept {
            match self.right {
                Right::Matrix(b) => {
                    copy_panel(&self.set.moves, to, b.part(self.depth.clone(), cols.clone()), width);
                }
                Right::Made(columns) => columns.fill(self.depth.clone(), cols.clone(), to, width),
            }
        }
        Panel { first: to.as_ptr(), stride: width as isize, cols, registers: registers.len() }
    }
}

fn is_used_often<E: Float>(b: &Source<'_, E>, depth: usize, rows: usize) -> bool {
    let apart = b.strides()[0].unsigned_abs() * size_of::<E>();
    let far = apart.is_multiple_of(CONFLICT) || apart * depth > FAR;
    rows > if far { 2 * MOST_ROWS } else { 8 * MOST_ROWS }
}

/// Copies a matrix to lines `width` apart.
fn copy_panel<E: Float>(moves: &Moves<E>, to: &mut [E], from: Source<'_, E>, width: usize) {
    let ([rows, cols], [row, col]) = (from.shape(), from.strides());
    assert!(cols <= width && width.is_multiple_of(moves.lanes) && rows * width <= to.len());
    let lines = |stride, count, len| Lines { first: from.first(), stride, count, len };
    if col == 1 {
        // SAFETY: the matrix is readable, `to` holds all lines, and the moves are of the level in
        // use.
        unsafe { (moves.copy)(lines(row, rows, cols), to.as_mut_ptr(), width) }
    } else if row == 1 {
        // SAFETY: as above.
        unsafe { (moves.turn)(lines(col, cols, rows), to.as_mut_ptr(), width) }
    } else {
        for (i, line) in to.chunks_exact_mut(width).enumerate().take(rows) {
            line.fill(E::ZERO);
            (0..cols).for_each(|j| line[j] = from.at([i, j]));
        }
    }
}

/// Which things are in a group, if they are in groups as equal as can be, of at most `most`.
pub(crate) fn even_group(length: usize, most: usize, index: usize) -> Range<usize> {
    let count = length.div_ceil(most).max(1);
    let (size, longer) = (length / count, length % count);
    let start = |i: usize| i * size + i.min(longer);
    start(index)..start(index + 1)
}

/// All of these groups.
pub(crate) fn even_groups(length: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    (0..length.div_ceil(most)).map(move |i| even_group(length, most, i))
}

/// A block of the first factor, one strip as high as a tile after the other.
pub(crate) struct Strips<'a, E: 'static> {
    a: Source<'a, E>,
    set: &'static TileSet<E>,
    copied: Option<&'a [E]>,
}

impl<'a, E: Float> Strips<'a, E> {
    /// What is seldom read is read as it lies.
    pub(crate) fn of(
        a: Source<'a, E>,
        panels: usize,
        set: &'static TileSet<E>,
        room: &'a mut Room,
    ) -> Self {
        if panels <= FEW_PANELS {
            return Self { a, set, copied: None };
        }
        let [rows, depth] = a.shape();
        let copied = room.elements::<E>(rows.div_ceil(set.rows()) * set.strip * depth);
        let places = copied.chunks_exact_mut(set.strip * depth);
        for (to, rows) in places.zip(even_groups(rows, set.rows())) {
            copy_panel(&set.strip_moves, to, a.rows(rows).t(), set.strip);
        }
        Self { a, set, copied: Some(copied) }
    }

    /// The rows of every strip.
    pub(crate) fn groups(&self) -> impl Iterator<Item = Range<usize>> + use<E> {
        even_groups(self.a.shape()[0], self.set.rows())
    }

    /// The steps of the depth.
    pub(crate) fn depth(&self) -> usize {
        self.a.shape()[1]
    }

    /// Strips as tiles read them, and the tiles by registers and rows.
    pub(crate) fn tiles(&self) -> &'static [&'static [Tile<E>]] {
        if self.copied.is_some() { self.set.packed } else { self.set.tiles }
    }

    /// The first element of a strip, and the distances of its rows and of its steps.
    pub(crate) fn get(&self, index: usize, rows: Range<usize>) -> (*const E, [isize; 2]) {
        match self.copied {
            Some(copied) => {
                let step = self.set.strip;
                (copied[index * step * self.depth()..].as_ptr(), [1, step as isize])
            }
            None => (self.a.rows(rows).first(), self.a.strides()),
        }
    }
}
