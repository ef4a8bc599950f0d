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

/// A block of the first factor, one strip as high as a tile after the other.
pub(crate) struct PackedA<'a, E: 'static> {
    /// Where it lies, if it is not copied.
    first: *const E,
    strides: [isize; 2],
    depth: usize,
    /// How many pieces the depth consists of, how many steps a piece has, and how far it lies from the
    /// next.
    pub segments: (usize, usize, isize),
    groups: Partition,
    layout: PanelLayout,
    packed: &'a [E],
}

/// Some rows of a block, as many as a tile has.
pub(crate) struct PanelA {
    index: usize,
    pub rows: Range<usize>,
}

/// What lies side by side in a strip.
enum PanelLayout {
    /// The steps of a row; the rows are so far apart.
    RowMajor(isize),
    /// The rows of a step; the steps are so far apart.
    ColMajor(isize),
    /// As [`Self::RowMajor`], copied.
    PackedRowMajor(usize),
    /// As [`Self::ColMajor`], copied.
    PackedColMajor(usize),
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
            Operand::Prepacked(..) => unreachable!("a first factor is packed by rows"),
            Operand::Segments(Segments { first, count, distance }) => {
                assert!(depth == (0..count * first.shape()[1]), "a block has all segments");
                let first = first.rows(rows);
                Self {
                    first: first.first(),
                    strides: first.strides(),
                    depth: depth.len(),
                    segments: (count, first.shape()[1], distance),
                    groups: Partition::of(first.shape()[0], packing.mr),
                    layout: PanelLayout::RowMajor(first.strides()[0]),
                    packed: &[],
                }
            }
            Operand::Implicit(made) => {
                let width = depth.len().next_multiple_of(packing.lanes);
                let buffer = buffer.as_mut_slice::<E>(rows.len() * width + PACK_PADDING);
                made.pack(rows.clone(), depth.clone(), buffer, width);
                Self {
                    first: std::ptr::null(),
                    strides: [0, 0],
                    depth: depth.len(),
                    segments: (1, depth.len(), 0),
                    groups: Partition::of(rows.len(), packing.mr),
                    layout: PanelLayout::PackedRowMajor(width),
                    packed: buffer,
                }
            }
        }
    }

    /// Steps that lie side by side are read as they lie, if not too far apart, and so is what is
    /// seldom read.
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
            [row, 1] if !packs_aliasing_a(packing, &a, panels) => PanelLayout::RowMajor(row),
            [_, 1] => PanelLayout::PackedRowMajor(depth.next_multiple_of(packing.lanes)),
            [1, step] if rarely_reused => PanelLayout::ColMajor(step),
            _ => PanelLayout::PackedColMajor(packing.mr.next_multiple_of(packing.pack_a.lanes)),
        };
        let packed: &[E] = match layout {
            PanelLayout::RowMajor(_) | PanelLayout::ColMajor(_) => &[],
            PanelLayout::PackedRowMajor(width) => {
                let buffer = buffer.as_mut_slice::<E>(rows * width);
                pack_panel(&packing.pack_b, buffer, a, width);
                buffer
            }
            PanelLayout::PackedColMajor(width) => {
                let buffer = buffer.as_mut_slice::<E>(groups.count * width * depth);
                pack_panels_a(&packing.pack_a, buffer, a, groups, width);
                buffer
            }
        };
        Self { first: a.first(), strides, depth, segments: (1, depth, 0), groups, layout, packed }
    }

    /// How many strips there are.
    pub(crate) fn count(&self) -> usize {
        self.groups.count
    }

    /// The rows of all strips.
    pub(crate) fn height(&self) -> usize {
        self.groups.length
    }

    /// A strip.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> PanelA {
        PanelA { index, rows: self.groups.get(index) }
    }

    /// Whether the steps of a row lie side by side.
    pub(crate) fn row_major(&self) -> bool {
        matches!(self.layout, PanelLayout::RowMajor(_) | PanelLayout::PackedRowMajor(_))
    }

    /// The first element of a strip, and the distance of its rows or of its steps.
    #[inline]
    pub(crate) fn panel(&self, PanelA { index, rows }: &PanelA) -> (*const E, isize) {
        match self.layout {
            PanelLayout::RowMajor(stride) | PanelLayout::ColMajor(stride) => {
                (self.first.wrapping_offset(rows.start as isize * self.strides[0]), stride)
            }
            PanelLayout::PackedRowMajor(width) => {
                (self.packed[rows.start * width..].as_ptr(), width as isize)
            }
            PanelLayout::PackedColMajor(width) => {
                (self.packed[index * width * self.depth..].as_ptr(), width as isize)
            }
        }
    }
}
