//! The plan of a product: which algorithm computes it.

use crate::kernel::select::Number;
use crate::pack::packing::max_unpacked_panels;
use crate::types::isa::Isa;
use crate::types::view::View;

/// The most rows, or columns, of a skinny product, whose large operand is streamed without packing.
pub const MAX_SKINNY: usize = 16;

/// The most rows of a skinny product in axpy form whose large operand is cached: micro-kernels read that
/// as fast, and keep their sums in registers.
const MAX_SKINNY_IN_CACHE: usize = 4;

/// Bytes of a large operand that a cache may hold. This is no share of a cache of the processor, since
/// the rounding of a result depends on its plan.
const CACHED_BYTES: usize = 2 << 20;

/// The least contiguous columns of the axpy form: micro-kernels read shorter rows nearly in memory
/// order.
const MIN_AXPY_COLUMNS: usize = 256;

/// Where the columns of a skinny product nearly fill vectors of so many lanes, and the depth is less
/// than so many times their number, micro-kernels take less time than the reduction of the dot products.
const DOT_LANES: usize = 8;
const MIN_DOT_DEPTH: usize = 8;

/// The most multiplications of a product that is not worth packing.
const MAX_NAIVE: usize = 64;

/// The most multiplications of a product that is not worth vectors.
const MAX_ALWAYS_NAIVE: usize = 16;

/// How a product is computed. A plan is made for a whole product, before that is partitioned over
/// threads, since the order of summation depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan(pub(crate) Algorithm);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// By micro-kernels, with blocking and packing.
    Blocked,
    /// By the textbook triple loop.
    Naive,
    /// By GEMV kernels that stream `b`, or `a` in the product of the transposes.
    Skinny { transposed: bool, form: GemvForm },
}

impl Plan {
    /// The blocked algorithm, which fits every product.
    pub const BLOCKED: Self = Self(Algorithm::Blocked);

    /// The plan for the product of two operands.
    #[must_use]
    pub fn of<E>(a: View<*const E>, b: View<*const E>) -> Self {
        let (rows, cols) = (a.shape[0], b.shape[1]);
        let transposed = cols < rows;
        let (small, large) = if transposed { (cols, a.t()) } else { (rows, b) };
        let [depth, length] = large.shape;
        let max_axpy =
            if depth.saturating_mul(length).saturating_mul(size_of::<E>()) <= CACHED_BYTES {
                MAX_SKINNY_IN_CACHE
            } else {
                MAX_SKINNY
            };
        let work = rows.saturating_mul(cols).saturating_mul(depth);
        let whole = small >= DOT_LANES && small.next_multiple_of(DOT_LANES) - small <= small / 3;
        let short =
            transposed && rows > MAX_SKINNY && whole && depth < small.saturating_mul(MIN_DOT_DEPTH);
        Self(match large.strides {
            _ if work <= MAX_ALWAYS_NAIVE => Algorithm::Naive,
            [1, _] if small <= MAX_SKINNY && !short => {
                Algorithm::Skinny { transposed, form: GemvForm::Dot }
            }
            [_, 1] if small <= max_axpy && length >= MIN_AXPY_COLUMNS => {
                Algorithm::Skinny { transposed, form: GemvForm::Axpy }
            }
            _ if work <= MAX_NAIVE => Algorithm::Naive,
            _ => Algorithm::Blocked,
        })
    }
}

/// The form of a GEMV kernel, by which elements of the large operand are contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GemvForm {
    /// The steps of a column.
    Dot,
    /// The columns of a step.
    Axpy,
}

/// Whether a product with so many columns packs rows of `a` at a multiple of [`L1_ALIAS_STRIDE`](crate::L1_ALIAS_STRIDE).
#[must_use]
pub fn packs_aliasing_rows<E: Number>(isa: Isa, cols: usize) -> bool {
    let kernels = E::micro_kernels(isa);
    cols.div_ceil(kernels.packing.nr()) > max_unpacked_panels(&kernels.packing)
}
