//! Products whose factors tiles read as they lie: for small ones, deciding on blocks takes longer than
//! multiplying.

use crate::driver::epilogue::Start;
use crate::driver::gemm::DEPTH;
use crate::kernel::micro_kernel::{Job, Sealed, TileSet};
use crate::pack::blocks::{Groups, copies_rows, is_used_often};
use crate::pack::pack_kernels::Lines;
use crate::types::view::{Source, View, bytes_apart};

/// A second factor that reaches over no more bytes stays in the first-level cache as it lies.
const NEAR: usize = 32 << 10;

/// A product of factors that lie so that tiles read them.
pub(crate) struct Lying<'a, E: 'static> {
    c: View<*mut E>,
    a: Source<'a, E>,
    b: Source<'a, E>,
    start: Start<E>,
    set: &'static TileSet<E>,
    /// The registers of every panel.
    panels: Groups,
}

impl<'a, E: Sealed> Lying<'a, E> {
    /// A product that is computed in this way, if it is one: with lines side by side, whole registers, and a
    /// second factor that is small, or used so seldom that it is not copied.
    pub(crate) fn of(
        set: &'static TileSet<E>,
        c: View<*mut E>,
        a: Source<'a, E>,
        b: Source<'a, E>,
        start: Start<E>,
    ) -> Option<Self> {
        let ([rows, cols], depth) = (c.shape, a.shape()[1]);
        let lies = [c.strides[1], a.strides()[1], b.strides()[1]] == [1; 3];
        let starts = !matches!(start, Start::Scaled(beta) if beta != E::ONE);
        let whole = depth <= DEPTH && cols.is_multiple_of(set.lanes);
        if !lies || !starts || !whole {
            return None;
        }
        let reach = bytes_apart::<E>(b.strides()[0]).saturating_mul(depth);
        if reach > NEAR && is_used_often(&b, depth, rows) {
            return None;
        }
        let panels = Groups::of(cols / set.lanes, set.registers());
        (!copies_rows(set, &a, panels.count)).then_some(Self { c, a, b, start, set, panels })
    }

    /// # Safety
    /// The result must be readable and writable, and the values of `start` readable, over its shape, and the
    /// processor must have the instructions of the tiles.
    pub(crate) unsafe fn run(&self) {
        let strips = Groups::of(self.c.shape[0], self.set.rows());
        let ([a_row, _], [b_row, _], [c_row, _]) =
            (self.a.strides(), self.b.strides(), self.c.strides);
        for registers in self.panels.all() {
            let (tiles, col) =
                (self.set.by_rows[registers.len() - 1], registers.start * self.set.lanes);
            for strip in strips.all() {
                let row = strip.start as isize;
                let job = Job {
                    depth: self.a.shape()[1],
                    pieces: 1,
                    piece_distance: 0,
                    a: self.a.first().wrapping_offset(row * a_row),
                    a_stride: a_row,
                    b: self.b.first().wrapping_add(col),
                    b_stride: b_row,
                    b_copy: std::ptr::null_mut(),
                    later: Lines::NONE,
                    c: self.c.data.wrapping_offset(row * c_row).wrapping_add(col),
                    c_stride: c_row,
                    start: self.start.at([strip.start, col]),
                };
                // SAFETY: all strips and panels lie in the matrices; the caller's.
                unsafe { tiles[strip.len() - 1](&job) };
            }
        }
    }
}
