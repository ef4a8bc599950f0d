//! A block of `b` in micro-panels.

use crate::pack::operand::Operand;
use crate::pack::pack_panel::pack_panel;
use crate::pack::packing::{Packing, packing_pays};
use crate::pack::prefetch::PrefetchQueue;
use crate::types::element::Scalar;
use crate::types::params::PACK_PADDING;
use crate::types::params::Params;
use crate::types::partition::Partition;
use crate::types::strided_rows::StridedRows;
use crate::types::workspace::Buffer;
use std::ops::Range;

/// A block of `b`, in micro-panels of NR columns.
pub(crate) struct PackedB<'a, E: 'static> {
    b: Operand<'a, E>,
    depth: Range<usize>,
    /// The depth of the next block, if its micro-panels are used after these.
    next_depth: Option<Range<usize>>,
    cols: Range<usize>,
    packing: &'static Packing<E>,
    groups: Partition,
    unpacked: bool,
    /// Whether every packed micro-panel keeps a buffer of its own, for more than one use.
    reused: bool,
    buffer: &'a mut [E],
}

/// A micro-panel of `b`, packed or in place.
pub(crate) struct PanelB<E> {
    pub first: *const E,
    pub stride: isize,
    /// Its columns.
    pub cols: Range<usize>,
    /// The vectors of a row.
    pub vectors: usize,
    /// Where the first micro-kernel packs it to, if it does.
    pub copy: Option<*mut E>,
}

impl<E> PanelB<E> {
    /// The micro-panel after it has been packed.
    pub(crate) fn set_packed(&mut self, width: usize) {
        if let Some(copy) = self.copy.take() {
            (self.first, self.stride) = (copy, width as isize);
        }
    }
}

impl<'a, E: Scalar> PackedB<'a, E> {
    pub(crate) fn of(
        b: Operand<'a, E>,
        [depth, cols]: [Range<usize>; 2],
        rows: usize,
        reused: bool,
        packing: &'static Packing<E>,
        buffer: &'a mut Buffer,
    ) -> Self {
        let unpacked = match b {
            Operand::Matrix(b) => b.strides()[1] == 1 && !packing_pays(&b, depth.len(), rows),
            Operand::Implicit(_) | Operand::Segments(_) => false,
            Operand::Prepacked(..) => true,
        };
        let width = if reused { cols.len().next_multiple_of(packing.lanes) } else { packing.nr() };
        let packed =
            if let Operand::Prepacked(..) = b { 0 } else { width * depth.len() + PACK_PADDING };
        let buffer = buffer.as_mut_slice::<E>(packed);
        let groups = match b {
            Operand::Prepacked(..) => {
                Partition::whole(cols.len().div_ceil(packing.lanes), packing.nr_vectors)
            }
            _ => Partition::of(cols.len().div_ceil(packing.lanes), packing.nr_vectors),
        };
        Self { b, depth, next_depth: None, cols, packing, groups, unpacked, reused, buffer }
    }

    /// With the block that is used after this one.
    pub(crate) fn next_depth(self, next_depth: Option<Range<usize>>) -> Self {
        Self { next_depth, ..self }
    }

    pub(crate) fn count(&self) -> usize {
        self.groups.count
    }

    /// The columns of a micro-panel, and its vectors among those of the block.
    fn cols(&self, index: usize) -> (Range<usize>, Range<usize>) {
        let (lanes, vectors) = (self.packing.lanes, self.groups.get(index));
        let end = (vectors.end * lanes).min(self.cols.len());
        (self.cols.start + vectors.start * lanes..self.cols.start + end, vectors)
    }

    /// Where a packed micro-panel begins, given its vectors.
    fn offset(&self, vectors: &Range<usize>) -> usize {
        if self.reused { vectors.start * self.packing.lanes * self.depth.len() } else { 0 }
    }

    /// The rows of the next micro-panel, packed or not, to be prefetched in `parts` while this one
    /// is used.
    pub(crate) fn prefetch_next(
        &self,
        next: usize,
        first_time: bool,
        parts: usize,
    ) -> PrefetchQueue<E> {
        let prefetch_rows = match self.next_depth.clone() {
            _ if next < self.count() => self.prefetch_rows(next, first_time),
            Some(depth) if !self.unpacked => self.matrix_rows(depth, self.cols(0).0),
            _ => None,
        };
        PrefetchQueue::of(prefetch_rows.unwrap_or(StridedRows::EMPTY), parts)
    }

    /// The rows that a micro-panel is packed from, or the packed ones where they may be far.
    fn prefetch_rows(&self, index: usize, first_time: bool) -> Option<StridedRows<*const E>> {
        let (cols, vectors) = self.cols(index);
        let steps = self.depth.len();
        if self.unpacked {
            return None;
        }
        if self.reused && !first_time {
            if size_of_val(&*self.buffer) <= Params::get(self.packing.isa).b_resident_bytes {
                return None;
            }
            let first = self.buffer[self.offset(&vectors)..].as_ptr();
            let stride = (vectors.len() * self.packing.lanes) as isize;
            return Some(StridedRows { first, stride, count: steps, len: 0 });
        }
        self.matrix_rows(self.depth.clone(), cols)
    }

    /// Rows of a row-major `b`.
    fn matrix_rows(
        &self,
        depth: Range<usize>,
        cols: Range<usize>,
    ) -> Option<StridedRows<*const E>> {
        match self.b {
            Operand::Matrix(b) if b.strides()[1] == 1 => {
                let (count, b) = (depth.len(), b.part(depth, cols));
                Some(StridedRows { first: b.first(), stride: b.strides()[0], count, len: 0 })
            }
            _ => None,
        }
    }

    /// A micro-panel, which is packed on first use, or always if packed ones are not kept. A narrow
    /// one is always packed, since micro-kernels read whole vectors.
    pub(crate) fn get(&mut self, index: usize, first_time: bool, row_major: bool) -> PanelB<E> {
        let lanes = self.packing.lanes;
        let (cols, range) = self.cols(index);
        let (vectors, width) = (range.len(), range.len() * lanes);
        if let Operand::Prepacked(packed, start) = self.b {
            let first = packed.panel(&self.depth, start + cols.start);
            return PanelB { first, stride: width as isize, cols, vectors, copy: None };
        }
        let offset = self.offset(&range);
        let to = &mut self.buffer[offset..][..width * self.depth.len() + PACK_PADDING];
        let copy = first_time || !self.reused;
        let mut panel =
            PanelB { first: to.as_ptr(), stride: width as isize, cols, vectors, copy: None };
        match self.b {
            Operand::Matrix(b) => {
                let b = b.part(self.depth.clone(), panel.cols.clone());
                let whole = panel.cols.len() == width && b.strides()[1] == 1;
                let fused = row_major && vectors == self.packing.nr_vectors;
                if whole && (self.unpacked || copy && fused) {
                    (panel.first, panel.stride) = (b.first(), b.strides()[0]);
                    panel.copy = (!self.unpacked).then_some(to.as_mut_ptr());
                } else if copy {
                    pack_panel(&self.packing.pack_b, to, b, width);
                }
            }
            Operand::Implicit(columns) if copy => {
                columns.pack(self.depth.clone(), panel.cols.clone(), to, width);
            }
            Operand::Implicit(_) | Operand::Prepacked(..) => {}
            Operand::Segments(_) => unreachable!("`b` is not segmented"),
        }
        panel
    }
}
