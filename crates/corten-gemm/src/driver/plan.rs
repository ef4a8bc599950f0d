//! How a product is computed.

use crate::kernel::select::Number;
use crate::pack::packing::max_unpacked_panels;
use crate::types::isa::Isa;
use crate::types::view::View;

/// The most rows, or columns, of a product whose large factor is read as it lies.
pub const MAX_SKINNY: usize = 16;

/// The most rows where columns of the large factor lie side by side, unless it lies in memory: tiles
/// of more rows read what is in a cache as fast, and keep their sums in registers.
const MAX_SKINNY_IN_CACHE: usize = 4;

/// Bytes of a large factor that a cache may hold.
const CACHED_BYTES: usize = 2 << 20;

/// The least columns that lie side by side where they are added up line by line: tiles read shorter
/// lines nearly in the order in which they lie.
const MIN_AXPY_COLUMNS: usize = 256;

/// Where few columns, that nearly fill registers of so many lanes, meet rows of fewer steps than so many times
/// their number, tiles take less time than it takes to add up the lanes of every sum.
const DOT_LANES: usize = 8;
const MIN_DOT_DEPTH: usize = 8;

/// The most multiplications of a product for which tiles are too much ado.
const MAX_NAIVE: usize = 64;

/// The most multiplications of a product for which registers are too much ado.
const MAX_ALWAYS_NAIVE: usize = 16;

/// How a product is computed. It is chosen for the whole of a product, before that is cut into
/// parts, since the order in which the terms of an element are added up depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan(pub(crate) Algorithm);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// Tile by tile.
    Blocked,
    /// Element by element.
    Naive,
    /// The second factor as it lies, or the first one, with the product turned.
    Skinny { transposed: bool, form: GemvForm },
}

impl Plan {
    /// Tile by tile, which fits every product.
    pub const BLOCKED: Self = Self(Algorithm::Blocked);

    /// The way for the product of two factors.
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

/// Which of the large factor's elements lie side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GemvForm {
    /// The steps of a column.
    Dot,
    /// The columns of a step.
    Axpy,
}

/// Whether a product with so many columns copies rows of its first factor that lie at a multiple of
/// [`L1_ALIAS_STRIDE`].
#[must_use]
pub fn packs_aliasing_rows<E: Number>(isa: Isa, cols: usize) -> bool {
    let kernels = E::micro_kernels(isa);
    cols.div_ceil(kernels.packing.nr()) > max_unpacked_panels(&kernels.packing)
}
