//! A block of `a` in micro-panels.

use crate::pack::operand::{Operand, Segments};
use crate::pack::pack_panel::{pack_panel, pack_panels_a};
use crate::pack::packing::{MAX_UNPACKED_PANELS, Packing, packs_aliasing_a};
use crate::types::element::Scalar;
use crate::types::params::PACK_PADDING;
use crate::types::partition::Partition;
use crate::types::view::MatrixRef;
use crate::types::workspace::Buffer;
use std::ops::Range;

/// A block of `a`, in micro-panels of MR rows.
pub(crate) struct PackedA<'a, E: 'static> {
    /// The first element, if it is not packed.
    first: *const E,
    strides: [isize; 2],
    depth: usize,
    /// The number of segments that the depth consists of, the steps of one, and the distance of two.
    pub segments: (usize, usize, isize),
    groups: Partition,
    layout: PanelLayout,
    packed: &'a [E],
}

/// The rows of a micro-panel.
pub(crate) struct PanelA {
    index: usize,
    pub rows: Range<usize>,
}

/// The layout of a micro-panel.
enum PanelLayout {
    /// The steps of a row are contiguous; the leading dimension is that of rows.
    RowMajorInPlace(isize),
    /// The rows of a step are contiguous; the leading dimension is that of steps.
    ColMajorInPlace(isize),
    /// As [`Self::RowMajorInPlace`], packed.
    RowMajorPacked(usize),
    /// As [`Self::ColMajorInPlace`], packed.
    ColMajorPacked(usize),
}

impl<'a, E: Scalar> PackedA<'a, E> {
    pub(crate) fn of(
        a: Operand<'a, E>,
        [rows, depth]: [Range<usize>; 2],
        panels: usize,
        packing: &'static Packing<E>,
        buffer: &'a mut Buffer,
    ) -> Self {
        match a {
            Operand::Matrix(a) => Self::of_matrix(a.part(rows, depth), panels, packing, buffer),
            Operand::Prepacked(..) => unreachable!("`a` is not prepacked"),
            Operand::Segments(Segments { first, count, distance }) => {
                assert!(depth == (0..count * first.shape()[1]), "a block has all segments");
                let first = first.rows(rows);
                Self {
                    first: first.first(),
                    strides: first.strides(),
                    depth: depth.len(),
                    segments: (count, first.shape()[1], distance),
                    groups: Partition::of(first.shape()[0], packing.mr),
                    layout: PanelLayout::RowMajorInPlace(first.strides()[0]),
                    packed: &[],
                }
            }
            Operand::Implicit(implicit) => {
                let width = depth.len().next_multiple_of(packing.lanes);
                let buffer = buffer.as_mut_slice::<E>(rows.len() * width + PACK_PADDING);
                implicit.pack(rows.clone(), depth.clone(), buffer, width);
                Self {
                    first: std::ptr::null(),
                    strides: [0, 0],
                    depth: depth.len(),
                    segments: (1, depth.len(), 0),
                    groups: Partition::of(rows.len(), packing.mr),
                    layout: PanelLayout::RowMajorPacked(width),
                    packed: buffer,
                }
            }
        }
    }

    /// A row-major `a` is read in place unless its rows alias in the cache, and so is what few
    /// micro-panels of `b` use.
    fn of_matrix(
        a: MatrixRef<'a, E>,
        panels: usize,
        packing: &'static Packing<E>,
        buffer: &'a mut Buffer,
    ) -> Self {
        let (strides, [rows, depth]) = (a.strides(), a.shape());
        let groups = Partition::of(rows, packing.mr);
        let rarely_reused = panels <= MAX_UNPACKED_PANELS;
        let layout = match strides {
            [row, 1] if !packs_aliasing_a(packing, &a, panels) => PanelLayout::RowMajorInPlace(row),
            [_, 1] => PanelLayout::RowMajorPacked(depth.next_multiple_of(packing.lanes)),
            [1, step] if rarely_reused => PanelLayout::ColMajorInPlace(step),
            _ => PanelLayout::ColMajorPacked(packing.mr.next_multiple_of(packing.pack_a.lanes)),
        };
        let packed: &[E] = match layout {
            PanelLayout::RowMajorInPlace(_) | PanelLayout::ColMajorInPlace(_) => &[],
            PanelLayout::RowMajorPacked(width) => {
                let buffer = buffer.as_mut_slice::<E>(rows * width);
                pack_panel(&packing.pack_b, buffer, a, width);
                buffer
            }
            PanelLayout::ColMajorPacked(width) => {
                let buffer = buffer.as_mut_slice::<E>(groups.count * width * depth);
                pack_panels_a(&packing.pack_a, buffer, a, groups, width);
                buffer
            }
        };
        Self { first: a.first(), strides, depth, segments: (1, depth, 0), groups, layout, packed }
    }

    /// The number of micro-panels.
    pub(crate) fn count(&self) -> usize {
        self.groups.count
    }

    /// The rows of all micro-panels.
    pub(crate) fn height(&self) -> usize {
        self.groups.length
    }

    /// A micro-panel.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> PanelA {
        PanelA { index, rows: self.groups.get(index) }
    }

    /// Whether the steps of a row are contiguous.
    pub(crate) fn row_major(&self) -> bool {
        matches!(self.layout, PanelLayout::RowMajorInPlace(_) | PanelLayout::RowMajorPacked(_))
    }

    /// The first element of a micro-panel, and its leading dimension.
    #[inline]
    pub(crate) fn panel(&self, PanelA { index, rows }: &PanelA) -> (*const E, isize) {
        match self.layout {
            PanelLayout::RowMajorInPlace(stride) | PanelLayout::ColMajorInPlace(stride) => {
                (self.first.wrapping_offset(rows.start as isize * self.strides[0]), stride)
            }
            PanelLayout::RowMajorPacked(width) => {
                (self.packed[rows.start * width..].as_ptr(), width as isize)
            }
            PanelLayout::ColMajorPacked(width) => {
                (self.packed[index * width * self.depth..].as_ptr(), width as isize)
            }
        }
    }
}
