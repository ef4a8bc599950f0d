//! Products with a prepacked weight.

use super::engine::instructions;
use super::{Base, Mat, MatElement, MatMut, PART_ALIGNMENT, check_shapes, in_parts};
#[cfg(target_arch = "x86_64")]
use corten_core::bf16;
use corten_core::{Element, Result, bug, check_memory, try_vec};
use corten_gemm::{MatrixRef, PrepackedB};
#[cfg(target_arch = "x86_64")]
use corten_gemm::{PrepackedBf16, gemm_prepacked_bf16};
use corten_ops::Tensor;
use corten_ops::opaque::Prepared;

/// A weight, a row per output feature, whose transpose is prepacked.
pub(crate) enum PackedWeight {
    Single(PrepackedB<f32>),
    #[cfg(target_arch = "x86_64")]
    Half(PrepackedBf16),
}

impl PackedWeight {
    /// A weight of `f32`, which has rows and columns.
    pub(crate) fn of_single(weight: Mat<'_, f32>) -> Result<Self> {
        check_memory(2 * size_of::<f32>() * weight.rows * weight.cols)?;
        // SAFETY: the matrix is borrowed for longer.
        let turned = unsafe { MatrixRef::new(weight.t().view()) };
        Ok(Self::Single(PrepackedB::of(turned, instructions())))
    }

    /// A weight of `bf16`, where the processor multiplies pairs of them.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn of_half(weight: Mat<'_, bf16>) -> Result<Option<Self>> {
        check_memory(2 * size_of::<bf16>() * weight.rows * weight.cols)?;
        // SAFETY: the matrix is borrowed for longer; either type is its 16 bits.
        let turned = unsafe { MatrixRef::new(weight.t().view().cast()) };
        Ok(PrepackedBf16::of(turned, instructions()).map(Self::Half))
    }

    /// The numbers of input and of output features.
    pub(crate) fn shape(&self) -> [usize; 2] {
        match self {
            Self::Single(packed) => packed.shape(),
            #[cfg(target_arch = "x86_64")]
            Self::Half(packed) => packed.shape(),
        }
    }

    /// The elements as a row-major matrix, a row per output feature.
    fn rows<T: Element + Default>(
        &self,
        elements: impl Iterator<Item = (usize, usize, T)>,
    ) -> Result<Tensor> {
        let [inputs, outputs] = self.shape();
        let mut rows = try_vec(T::default(), inputs * outputs)?;
        elements.for_each(|(step, col, element)| rows[col * inputs + step] = element);
        Tensor::from_vec(rows, &[outputs as i64, inputs as i64])
    }
}

impl Prepared for PackedWeight {
    fn to_dense(&self) -> Result<Tensor> {
        match self {
            Self::Single(packed) => self.rows(packed.elements()),
            #[cfg(target_arch = "x86_64")]
            Self::Half(packed) => {
                self.rows(packed.elements().map(|(i, j, half)| (i, j, bf16::from_bits(half.0))))
            }
        }
    }
}

/// What a packed weight can be multiplied by.
pub(crate) trait Packable: MatElement {
    /// `c = base + a @ b` with the transpose of a weight, on several threads where it pays.
    ///
    /// # Errors
    /// `Runtime` when the shapes do not fit.
    fn product_of_packed(
        c: MatMut<'_, Self>,
        a: Mat<'_, Self>,
        weight: &PackedWeight,
        base: Base<'_, Self>,
    ) -> Result<()>;
}

impl Packable for f32 {
    fn product_of_packed(
        c: MatMut<'_, f32>,
        a: Mat<'_, f32>,
        weight: &PackedWeight,
        base: Base<'_, f32>,
    ) -> Result<()> {
        #[cfg_attr(not(target_arch = "x86_64"), allow(irrefutable_let_patterns))]
        let PackedWeight::Single(packed) = weight else {
            bug!("a packed weight of {:?} in a product of f32", weight.shape());
        };
        check_shapes([c.rows, c.cols], a.shape(), packed.shape())?;
        let alignment = packed.panel_cols().max(PART_ALIGNMENT);
        in_parts(&c, a.cols, alignment, |rows, cols, c| {
            let start = base.part(&rows, &cols).start([c.rows, c.cols], 1.0);
            let (c, a) = (c.view(), a.rows(rows).view());
            // SAFETY: the matrices lie where their pointers say, `c` shares memory with no other
            // one, and there is a value for every row, or column.
            unsafe { corten_gemm::gemm_prepacked(c, a, (packed, cols), start) };
        })
    }
}

#[cfg(target_arch = "x86_64")]
impl Packable for bf16 {
    fn product_of_packed(
        mut c: MatMut<'_, bf16>,
        a: Mat<'_, bf16>,
        weight: &PackedWeight,
        base: Base<'_, bf16>,
    ) -> Result<()> {
        let PackedWeight::Half(packed) = weight else {
            bug!("a packed weight of {:?} in a product of bf16", weight.shape());
        };
        check_shapes([c.rows, c.cols], a.shape(), packed.shape())?;
        let beta = (!matches!(base, Base::Nothing)).then_some(1.0);
        base.fill(&mut c);
        in_parts(&c, a.cols, packed.panel_cols().max(PART_ALIGNMENT), |rows, cols, c| {
            let (c, a) = (c.view().cast(), a.rows(rows).view().cast());
            // SAFETY: either type is its 16 bits; the matrices lie where their pointers say, and `c`
            // shares memory with no other one.
            unsafe { gemm_prepacked_bf16(c, a, (packed, cols), beta) };
        })
    }
}
