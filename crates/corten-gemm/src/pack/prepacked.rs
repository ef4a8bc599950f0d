//! Prepacked operands: a `b` that is packed once for many products, as weights are.

use crate::pack::packing::Packing;
use crate::types::element::Scalar;
use crate::types::isa::Isa;
use crate::types::params::{KC, PACK_PADDING};
use crate::types::partition::Partition;
use crate::types::workspace::Buffer;
use std::ops::Range;

/// A `b` in micro-panels of NR columns, block of the depth by block. The last micro-panel is padded to
/// whole vectors.
pub struct PrepackedB<E: 'static> {
    shape: [usize; 2],
    packing: &'static Packing<E>,
    /// The instruction set whose micro-kernels it is packed for.
    isa: Isa,
    buffer: Buffer,
}

impl<E: Scalar> PrepackedB<E> {
    /// Has `pack` write every micro-panel, given its rows and columns, its buffer, and its width.
    pub(crate) fn pack_with(
        shape: [usize; 2],
        isa: Isa,
        packing: &'static Packing<E>,
        pack: impl Fn([Range<usize>; 2], &mut [E], usize),
    ) -> Self {
        let mut packed = Self { shape, packing, isa, buffer: Buffer::default() };
        let (count, panels) = (packed.count(), packed.panels());
        let buffer = packed.buffer.as_mut_slice::<E>(count + PACK_PADDING);
        for (offset, [depth_range, cols]) in panels {
            let width = cols.len().next_multiple_of(packing.lanes);
            let to = &mut buffer[offset..][..width * depth_range.len() + PACK_PADDING];
            pack([depth_range, cols], to, width);
        }
        packed
    }

    /// Every element with its row and column.
    pub fn elements(&self) -> impl Iterator<Item = (usize, usize, E)> {
        self.panels().into_iter().flat_map(move |(offset, [depth_range, cols])| {
            let width = cols.len().next_multiple_of(self.packing.lanes);
            let rows = self.buffer.as_slice::<E>(offset + width * depth_range.len())[offset..]
                .chunks(width);
            depth_range.zip(rows).flat_map(move |(step, row)| {
                cols.clone().zip(row).map(move |(col, &element)| (step, col, element))
            })
        })
    }
}

impl<E> PrepackedB<E> {
    /// The number of rows and of columns.
    #[must_use]
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// The columns of a micro-panel: products begin at a multiple of these.
    #[must_use]
    pub fn panel_cols(&self) -> usize {
        self.packing.nr()
    }

    pub(crate) fn isa(&self) -> Isa {
        self.isa
    }

    /// Whether it has so many rows, and these columns, which begin a micro-panel.
    pub(crate) fn has(&self, rows: usize, cols: Range<usize>) -> bool {
        let begins = cols.start.is_multiple_of(self.packing.nr());
        begins && rows == self.shape[0] && cols.start <= cols.end && cols.end <= self.shape[1]
    }

    /// The columns, padded to whole vectors.
    fn width(&self) -> usize {
        self.shape[1].next_multiple_of(self.packing.lanes)
    }

    fn count(&self) -> usize {
        self.shape[0] * self.width()
    }

    /// Where a micro-panel of a block of the depth begins.
    fn offset(&self, depth_range: &Range<usize>, col: usize) -> usize {
        depth_range.start * self.width() + col * depth_range.len()
    }

    /// The offset, steps and columns of all micro-panels, in memory order.
    fn panels(&self) -> Vec<(usize, [Range<usize>; 2])> {
        let [depth, cols] = self.shape;
        let blocks = Partition::of(depth, KC).all().flat_map(|depth_range| {
            let panels = Partition::whole(cols, self.packing.nr()).all();
            panels.map(move |cols| {
                (self.offset(&depth_range, cols.start), [depth_range.clone(), cols])
            })
        });
        blocks.collect()
    }

    /// The first element of the micro-panel that begins with a column, for a block of the depth.
    pub(crate) fn panel(&self, depth_range: &Range<usize>, col: usize) -> *const E {
        assert!(self.has(self.shape[0], col..self.shape[1]) && depth_range.end <= self.shape[0]);
        self.buffer.as_ptr::<E>().wrapping_add(self.offset(depth_range, col))
    }
}
