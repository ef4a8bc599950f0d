//! Rows of a matrix of blocks, unpacked and interleaved for products with several rows of activations.

use super::Kernel;
use super::vector::{Dot, MADDUBS};
use super::wide::Wide;
use crate::Unpacked;
use crate::unpacked::Packing;

/// As many rows as vectors have places, each group of four levels of one row beside those of the next.
#[derive(Default)]
pub(super) struct Panel {
    /// Four levels of each row, then the next four.
    pub(super) levels: Vec<u8>,
    /// A scale of each row, then those of the next group.
    pub(super) scales: Vec<f32>,
    /// The minimums, of formats that have them.
    pub(super) minimums: Vec<f32>,
    unpacked: Unpacked,
}

/// Whether the levels of a panel are signed bytes: those above 63 overflow sums of two products in 16 bits.
pub(super) const fn is_signed(dot: u8, zero: u8) -> bool {
    dot == MADDUBS && zero == 128
}

impl Panel {
    /// Takes rows of so many elements; those that are missing are zeros.
    #[inline(always)]
    pub(super) fn fill<K: Kernel, const DOT: u8>(
        &mut self,
        v: Dot<DOT>,
        rows: &[u8],
        elements: usize,
    ) where
        Dot<DOT>: Wide,
    {
        let count = Dot::<DOT>::ROWS;
        let groups = elements / <K::Packing as Packing>::GROUP;
        self.levels.resize(elements * count, 0);
        self.scales.clear();
        self.scales.resize(groups * count, 0.0);
        self.minimums.clear();
        self.minimums.resize(groups * count, 0.0);
        let each = elements / (32 * K::GROUPS) * K::NBYTES;
        for (row, bytes) in rows.chunks_exact(each).take(count).enumerate() {
            for (number, block) in bytes.chunks_exact(K::NBYTES).enumerate() {
                self.put_scales::<K>(block, number, row, count);
                for group in 0..K::GROUPS {
                    let levels = K::levels(v, block, group);
                    let levels =
                        if is_signed(DOT, K::ZERO) { v.flip_signs(levels) } else { levels };
                    let start = (number * K::GROUPS + group) * 8;
                    for (place, four) in v.fours(levels).into_iter().enumerate() {
                        let at = ((start + place) * count + row) * 4;
                        self.levels[at..at + 4].copy_from_slice(&four.to_le_bytes());
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn put_scales<K: Kernel>(&mut self, block: &[u8], number: usize, row: usize, count: usize) {
        K::Packing::scales(block, &mut self.unpacked);
        let groups = 32 * K::GROUPS / <K::Packing as Packing>::GROUP;
        for group in 0..groups {
            let at = (number * groups + group) * count + row;
            self.scales[at] = self.unpacked.scales[group];
            if <K::Packing as Packing>::HAS_MINIMUMS {
                self.minimums[at] = self.unpacked.minimums[group];
            }
        }
    }
}
