//! Products of floats, block by block.
//!
//! The outer loops cut the columns of `b`, the depth, and the rows of `a` so that the blocks in use
//! stay in the caches; [`tile`](crate::tile) does the rest. A factor is copied into the order in
//! which it is read only where reading it as it lies would cost more.

use crate::scratch::{Room, Scratch};
use crate::tile::{Float, Instructions, Job, MOST_COLS, MOST_ROWS, TileSet, Tiles};
use crate::view::{Source, View};
use std::ops::Range;

/// Most steps of the depth at a time: a panel of `b` takes most of a first-level cache of 48 KiB.
const DEPTH: usize = 320;

/// Bytes of a block of `a`, which is used with one panel of `b` after the other: it stays in the
/// second-level cache.
const BYTES_OF_A: usize = 512 << 10;

/// Bytes of a block of `b`.
const BYTES_OF_B: usize = 1 << 20;

/// Lines at multiples of this many bytes share their places in the first-level cache.
const CONFLICT: usize = 4096;

/// So many of them fit.
const WAYS: usize = 8;

/// A block that reaches over more bytes than this lies on more pages than a processor remembers.
const FAR: usize = 256 << 10;

/// `c = beta * c + alpha * a @ b` on this thread; without `beta`, `c` is not read.
///
/// # Safety
/// The factors must be readable and `c` readable and writable over their shapes, `c` must share no
/// element with a factor and none of its own places with each other, and the processor must have
/// the instructions.
///
/// # Panics
/// When the shapes do not fit or there is no depth.
pub unsafe fn product<E: Float>(
    instructions: Instructions,
    c: View<*mut E>,
    a: View<*const E>,
    b: View<*const E>,
    alpha: E,
    beta: Option<E>,
) {
    let [rows, cols] = c.shape;
    assert!(a.shape[0] == rows && b.shape == [a.shape[1], cols], "the shapes do not fit");
    assert!(a.shape[1] > 0, "there is no depth");
    if rows == 0 || cols == 0 {
        return;
    }
    // The transpose of the product is the product of the transposes, in the other order.
    let set = E::tiles(instructions);
    let turned = cost(set, c.t(), b.t(), a.t()) < cost(set, c, a, b);
    let (c, a, b) = if turned { (c.t(), b.t(), a.t()) } else { (c, a, b) };
    let tiles = set.for_cols(c.shape[1]);
    let mut scratch = Scratch::take();
    // SAFETY: the caller's.
    let (a, b) = unsafe { (Source::new(a), Source::new(b)) };
    Walk { c, a, b, tiles, alpha, beta }.run(&mut scratch);
    scratch.give_back();
}

/// About how many cycles a product takes: multiplications, elements of `b` that are copied one by
/// one since its rows do not lie side by side, and elements of the result that are put one by one
/// for every block of the depth.
fn cost<E: Float>(
    set: &TileSet<E>,
    c: View<*mut E>,
    a: View<*const E>,
    b: View<*const E>,
) -> usize {
    let ([rows, cols], depth) = (c.shape, a.shape[1]);
    let width = set.for_cols(cols).cols;
    let of_tiles = rows * depth * cols.next_multiple_of(width) / set.wide.cols;
    let of_b = if b.strides[1] == 1 { 0 } else { depth * cols };
    let of_c = if c.strides[1] == 1 { 0 } else { 2 * rows * cols * depth.div_ceil(DEPTH) };
    of_tiles + of_b + of_c
}

fn steps(length: usize, step: usize) -> impl Iterator<Item = Range<usize>> {
    (0..length).step_by(step).map(move |start| start..(start + step).min(length))
}

/// Some things in groups as equal as can be, of at most `most`: where each starts and ends.
fn even_groups(length: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let count = length.div_ceil(most);
    let (size, longer) = (length / count.max(1), length % count.max(1));
    let start = move |i: usize| i * size + i.min(longer);
    (0..count).map(move |i| start(i)..start(i + 1))
}

/// A product under way.
struct Walk<'a, E: 'static> {
    c: View<*mut E>,
    a: Source<'a, E>,
    b: Source<'a, E>,
    tiles: &'static Tiles<E>,
    alpha: E,
    beta: Option<E>,
}

impl<E: Float> Walk<'_, E> {
    fn run(&mut self, scratch: &mut Scratch) {
        let [rows, depth] = self.a.shape();
        let at_once = DEPTH.min(depth) * size_of::<E>();
        let width = self.tiles.cols;
        let cols_at_once = (BYTES_OF_B / at_once).next_multiple_of(width);
        let rows_at_once = BYTES_OF_A.div_ceil(at_once);
        for cols in steps(self.c.shape[1], cols_at_once) {
            for depth in even_groups(depth, DEPTH) {
                let beta = if depth.start == 0 { self.beta } else { Some(E::ONE) };
                let b = self.b.part(depth.clone(), cols.clone());
                let panels = Panels::of(b, width, rows, &mut scratch.b);
                for rows in steps(rows, rows_at_once) {
                    let a = self.a.part(rows.clone(), depth.clone());
                    let strips =
                        Strips::of(a, self.tiles.by_rows.len(), panels.count, &mut scratch.a);
                    self.block(&panels, &strips, [rows.start, cols.start], beta);
                }
            }
        }
    }

    /// Every panel of a block of `b` with every strip of a block of `a`.
    fn block(
        &mut self,
        panels: &Panels<'_, E>,
        strips: &Strips<'_, E>,
        start: [usize; 2],
        beta: Option<E>,
    ) {
        for panel in 0..panels.count {
            let (b, b_stride, cols) = panels.get(panel);
            for rows in strips.groups() {
                let (a, a_strides) = strips.get(rows.clone());
                let place = [start[0] + rows.start, start[1] + panel * panels.width];
                let job = Job {
                    depth: strips.a.shape()[1],
                    a,
                    a_strides,
                    b,
                    b_stride,
                    c: self.c.place(place),
                    c_stride: self.c.strides[0],
                    cols,
                    alpha: self.alpha,
                    beta,
                };
                self.one(rows.len(), job);
            }
        }
    }

    /// One tile; through a copy where the columns of the result do not lie side by side.
    fn one(&mut self, rows: usize, job: Job<E>) {
        let tile = self.tiles.by_rows[rows - 1];
        if self.c.strides[1] == 1 {
            // SAFETY: `Panels` and `Strips` give whole panels and strips of the depth, the result
            // has the rows and columns of the job, and the tile is of the level in use.
            unsafe { tile(&job) };
            return;
        }
        let mut sums = [E::ZERO; MOST_ROWS * MOST_COLS];
        let width = self.tiles.cols as isize;
        let apart = Job { c: sums.as_mut_ptr(), c_stride: width, beta: None, ..job };
        // SAFETY: as above; the copy has room for all rows and columns of a tile.
        unsafe { tile(&apart) };
        let put = |row: usize, col: usize| {
            let offset = row as isize * job.c_stride + col as isize * self.c.strides[1];
            let sum = sums[row * self.tiles.cols + col];
            // SAFETY: the result has the rows and columns of the job.
            unsafe {
                let to = job.c.wrapping_offset(offset);
                *to = job.beta.map_or(sum, |beta| beta * *to + sum);
            }
        };
        // In the order in which the result lies.
        if job.c_stride.abs() < self.c.strides[1].abs() {
            (0..job.cols).for_each(|col| (0..rows).for_each(|row| put(row, col)));
        } else {
            (0..rows).for_each(|row| (0..job.cols).for_each(|col| put(row, col)));
        }
    }
}

/// A block of `b`, one panel as wide as a tile after the other.
struct Panels<'a, E> {
    b: Source<'a, E>,
    width: usize,
    count: usize,
    /// The panels from this one on are copied.
    first_copied: usize,
    copied: &'a [E],
}

impl<'a, E: Float> Panels<'a, E> {
    /// The last panel is copied if it is not whole, since a tile reads all of its columns.
    fn of(b: Source<'a, E>, width: usize, rows: usize, room: &'a mut Room) -> Self {
        let [depth, cols] = b.shape();
        let (count, whole) = (cols.div_ceil(width), cols / width);
        let apart = b.strides()[0].unsigned_abs() * size_of::<E>();
        let far = apart.is_multiple_of(CONFLICT) || apart * depth > FAR;
        let often = rows > if far { 2 * MOST_ROWS } else { 8 * MOST_ROWS };
        let first_copied = if b.strides()[1] == 1 && !often { whole } else { 0 };
        let copied = room.elements::<E>((count - first_copied) * width * depth);
        let rest = b.cols(first_copied * width..cols);
        if b.strides()[1] == 1 {
            copy_rows(copied, rest, width);
        } else {
            for (panel, to) in copied.chunks_exact_mut(width * depth).enumerate() {
                let end = ((panel + 1) * width).min(rest.shape()[1]);
                copy_panel(to, rest.cols(panel * width..end), width);
            }
        }
        Self { b, width, count, first_copied, copied }
    }

    /// The first element of a panel, the distance of its rows, and how many columns it has.
    fn get(&self, panel: usize) -> (*const E, isize, usize) {
        let first = panel * self.width;
        let cols = self.width.min(self.b.shape()[1] - first);
        if panel < self.first_copied {
            return (self.b.first().wrapping_add(first), self.b.strides()[0], cols);
        }
        let start = (panel - self.first_copied) * self.width * self.b.shape()[0];
        (self.copied[start..].as_ptr(), self.width as isize, cols)
    }
}

/// Copies all panels row after row, which is the order in which `b` lies, and zeros beyond its last
/// column.
fn copy_rows<E: Float>(to: &mut [E], b: Source<'_, E>, width: usize) {
    let [depth, _] = b.shape();
    for row in 0..depth {
        let Some(line) = b.row(row) else { continue };
        for (panel, part) in line.chunks(width).enumerate() {
            let to = &mut to[(panel * depth + row) * width..][..width];
            to[..part.len()].copy_from_slice(part);
            to[part.len()..].fill(E::ZERO);
        }
    }
}

/// Copies a panel column after column, and zeros beyond its last column.
fn copy_panel<E: Float>(to: &mut [E], b: Source<'_, E>, width: usize) {
    if b.shape()[1] < width {
        to.fill(E::ZERO);
    }
    copy_columns(to, b.t(), width);
}

/// Rows that are turned into columns at a time.
const TURNED: usize = 8;

/// Writes row `i` of a matrix to the places `i`, `i + width`, `i + 2 * width` ...
fn copy_columns<E: Float>(to: &mut [E], from: Source<'_, E>, width: usize) {
    let [rows, depth] = from.shape();
    let mut first = 0;
    while first + TURNED <= rows {
        let lines: [Option<&[E]>; TURNED] = std::array::from_fn(|i| from.row(first + i));
        let [Some(a), Some(b), Some(c), Some(d), Some(e), Some(f), Some(g), Some(h)] = lines else {
            break;
        };
        for (step, to) in to.chunks_exact_mut(width).enumerate().take(depth) {
            let turned = [a[step], b[step], c[step], d[step], e[step], f[step], g[step], h[step]];
            to[first..first + TURNED].copy_from_slice(&turned);
        }
        first += TURNED;
    }
    for i in first..rows {
        let places = to.chunks_exact_mut(width).map(|line| &mut line[i]);
        match from.row(i) {
            Some(line) => places.zip(line).for_each(|(to, &value)| *to = value),
            None => places.zip(0..depth).for_each(|(to, step)| *to = from.at([i, step])),
        }
    }
}

/// A block of `a`, one strip as high as a tile after the other.
struct Strips<'a, E> {
    a: Source<'a, E>,
    /// The rows of the highest strip.
    most: usize,
    copied: Option<&'a [E]>,
}

impl<'a, E: Float> Strips<'a, E> {
    /// Rows that lie side by side are read as they are, and what is near or seldom read.
    fn of(a: Source<'a, E>, most: usize, panels: usize, room: &'a mut Room) -> Self {
        let reach = a.strides()[1].unsigned_abs() * a.shape()[1] * size_of::<E>();
        if a.strides()[1] == 1 || panels <= 2 || reach < FAR / 4 {
            let apart = a.strides()[0].unsigned_abs() * size_of::<E>();
            let most = if apart.is_multiple_of(CONFLICT) { most.min(WAYS) } else { most };
            return Self { a, most, copied: None };
        }
        let [rows, depth] = a.shape();
        let copied = room.elements::<E>(rows * depth);
        for rows in even_groups(rows, most) {
            copy_strip(&mut copied[rows.start * depth..rows.end * depth], a.rows(rows));
        }
        Self { a, most, copied: Some(copied) }
    }

    /// The rows of every strip.
    fn groups(&self) -> impl Iterator<Item = Range<usize>> + use<E> {
        even_groups(self.a.shape()[0], self.most)
    }

    /// The first element of a strip, and the distances of its rows and of its steps.
    fn get(&self, rows: Range<usize>) -> (*const E, [isize; 2]) {
        match self.copied {
            Some(copied) => {
                let first = copied[rows.start * self.a.shape()[1]..].as_ptr();
                (first, [1, rows.len() as isize])
            }
            None => (self.a.rows(rows).first(), self.a.strides()),
        }
    }
}

/// Copies a strip column after column.
fn copy_strip<E: Float>(to: &mut [E], a: Source<'_, E>) {
    let [rows, _] = a.shape();
    if a.strides()[0] != 1 {
        return copy_columns(to, a, rows);
    }
    for (step, to) in to.chunks_exact_mut(rows).enumerate() {
        let Some(column) = a.t().row(step) else { continue };
        // Not by `copy_from_slice`: a call would take longer than so few elements.
        to.iter_mut().zip(column).for_each(|(to, &value)| *to = value);
    }
}
