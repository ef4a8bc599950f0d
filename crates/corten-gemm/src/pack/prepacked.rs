//! Second factors in the order in which tiles read them, made once for many products.

#[cfg(target_arch = "x86_64")]
use crate::kernel::micro_kernel::vnni2_kernels;
use crate::kernel::micro_kernel::{MicroKernels, Number};
use crate::pack::blocks::{Operand, PACK_PADDING, pack_panel};
#[cfg(target_arch = "x86_64")]
use crate::pack::interleave::{Interleaved, Vnni2Layout};
use crate::types::element::Scalar;
use crate::types::isa::{Isa, has_amx};
use crate::types::low_precision::Bf16;
use crate::types::params::KC;
use crate::types::partition::Partition;
use crate::types::view::MatrixRef;
#[cfg(target_arch = "x86_64")]
use crate::types::vnni::Vnni2;
use crate::types::workspace::Buffer;
use std::ops::Range;

/// A second factor whose panels lie one after the other, block of the depth by block. Panels are as
/// wide as the widest tile, but for the last one, which is filled up to whole registers.
pub struct PrepackedB<E: 'static> {
    shape: [usize; 2],
    kernels: &'static MicroKernels<E>,
    buffer: Buffer,
}

impl<E: Number> PrepackedB<E> {
    /// The panels of a matrix for the tiles of these instructions.
    #[must_use]
    pub fn of(b: MatrixRef<'_, E>, isa: Isa) -> Self {
        Self::of_factor(Operand::Matrix(b), b.shape(), E::micro_kernels(isa))
    }
}

impl<E: Scalar> PrepackedB<E> {
    pub(crate) fn of_factor(
        factor: Operand<'_, E>,
        shape: [usize; 2],
        kernels: &'static MicroKernels<E>,
    ) -> Self {
        let mut packed = Self { shape, kernels, buffer: Buffer::default() };
        let (count, panels) = (packed.count(), packed.panels());
        let buffer = packed.buffer.as_mut_slice::<E>(count + PACK_PADDING);
        for (place, [chunks, cols]) in panels {
            let width = cols.len().next_multiple_of(kernels.lanes);
            let to = &mut buffer[place..][..width * chunks.len() + PACK_PADDING];
            match factor {
                Operand::Matrix(b) => pack_panel(&kernels.pack, to, b.part(chunks, cols), width),
                Operand::Implicit(columns) => columns.pack(chunks, cols, to, width),
                Operand::Prepacked(..) | Operand::Segments(_) => {
                    unreachable!("panels are made of what is none")
                }
            }
        }
        packed
    }

    /// Every element with its row and column.
    pub fn elements(&self) -> impl Iterator<Item = (usize, usize, E)> {
        self.panels().into_iter().flat_map(move |(place, [chunks, cols])| {
            let width = cols.len().next_multiple_of(self.kernels.lanes);
            let strided =
                self.buffer.reused::<E>(place + width * chunks.len())[place..].chunks(width);
            chunks.zip(strided).flat_map(move |(step, line)| {
                cols.clone().zip(line).map(move |(col, &element)| (step, col, element))
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

    /// The columns of a panel: products take columns from a multiple of so many on.
    #[must_use]
    pub fn panel_cols(&self) -> usize {
        self.kernels.cols()
    }

    pub(crate) fn kernels(&self) -> &'static MicroKernels<E> {
        self.kernels
    }

    /// Whether it has so many rows, and these columns, which begin a panel.
    pub(crate) fn has(&self, rows: usize, cols: Range<usize>) -> bool {
        let begins = cols.start.is_multiple_of(self.kernels.cols());
        begins && rows == self.shape[0] && cols.start <= cols.end && cols.end <= self.shape[1]
    }

    /// The columns filled up to whole registers.
    fn width(&self) -> usize {
        self.shape[1].next_multiple_of(self.kernels.lanes)
    }

    fn count(&self) -> usize {
        self.shape[0] * self.width()
    }

    /// Where a panel of a block of the depth begins.
    fn place(&self, chunks: &Range<usize>, col: usize) -> usize {
        chunks.start * self.width() + col * chunks.len()
    }

    /// The places, steps and columns of all panels, in the order in which they lie.
    fn panels(&self) -> Vec<(usize, [Range<usize>; 2])> {
        let [depth, cols] = self.shape;
        let blocks = Partition::of(depth, KC).all().flat_map(|chunks| {
            let panels = Partition::whole(cols, self.kernels.cols()).all();
            panels.map(move |cols| (self.place(&chunks, cols.start), [chunks.clone(), cols]))
        });
        blocks.collect()
    }

    /// The first element of the panel that begins with a column, for a block of the depth.
    pub(crate) fn panel(&self, chunks: &Range<usize>, col: usize) -> *const E {
        assert!(self.has(self.shape[0], col..self.shape[1]) && chunks.end <= self.shape[0]);
        self.buffer.as_ptr::<E>().wrapping_add(self.place(chunks, col))
    }
}

/// A second factor of 16-bit floats whose panels lie one after the other, in pairs along the depth.
#[cfg(target_arch = "x86_64")]
pub struct PrepackedBf16 {
    pub(crate) pairs: PrepackedB<Vnni2>,
    depth: usize,
    /// Those whose tiles it is for.
    pub(crate) isa: Isa,
}

#[cfg(target_arch = "x86_64")]
impl PrepackedBf16 {
    /// The panels of a matrix, where the instructions multiply pairs.
    #[must_use]
    pub fn of(b: MatrixRef<'_, Bf16>, isa: Isa) -> Option<Self> {
        let has_pairs = is_x86_feature_detected!("avx512bf16");
        let has_tiles = isa < Isa::Amx || has_amx();
        if isa < Isa::Avx512Bf16 || !has_pairs || !has_tiles {
            return None;
        }
        let [depth, cols] = b.shape();
        // SAFETY: the processor has the instructions.
        let columns = unsafe { Interleaved::<Vnni2Layout>::new(b, true) };
        let shape = [depth.div_ceil(2), cols];
        let pairs = PrepackedB::of_factor(Operand::Implicit(&columns), shape, vnni2_kernels(isa));
        Some(Self { pairs, depth, isa })
    }

    /// The number of rows and of columns.
    #[must_use]
    pub fn shape(&self) -> [usize; 2] {
        [self.depth, self.pairs.shape[1]]
    }

    /// As [`PrepackedB::panel_cols`].
    #[must_use]
    pub fn panel_cols(&self) -> usize {
        self.pairs.panel_cols()
    }

    /// Every element with its row and column.
    pub fn elements(&self) -> impl Iterator<Item = (usize, usize, Bf16)> {
        let both = self.pairs.elements().flat_map(|(pair, col, Vnni2(bits))| {
            let [first, second] = [bits as u16, (bits >> 16) as u16].map(Bf16);
            [(2 * pair, col, first), (2 * pair + 1, col, second)]
        });
        both.filter(|(row, ..)| *row < self.depth)
    }
}
