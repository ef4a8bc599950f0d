//! How a product is computed.

use crate::kernel::skinny::Form;
use crate::types::view::View;

/// The most rows, or columns, of a product whose large factor is read as it lies.
pub const FEW: usize = 16;

/// The most rows where columns of the large factor lie side by side, unless it lies in memory: tiles
/// of more rows read what is in a cache as fast, and keep their sums in registers.
const FEW_IN_CACHE: usize = 4;

/// Bytes of a large factor that a cache may hold.
const CACHE: usize = 2 << 20;

/// The least columns that lie side by side where they are added up line by line: tiles read shorter
/// lines nearly in the order in which they lie.
const LONG: usize = 256;

/// Where few columns, that nearly fill registers of so many lanes, meet rows of fewer steps than so many times
/// their number, tiles take less time than it takes to add up the lanes of every sum.
const LANES: usize = 8;
const SHORT: usize = 8;

/// The most multiplications of a product for which tiles are too much ado.
const TINY: usize = 64;

/// The most multiplications of a product for which registers are too much ado.
const LEAST: usize = 16;

/// How a product is computed. It is chosen for the whole of a product, before that is cut into
/// parts, since the order in which the terms of an element are added up depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way(pub(crate) Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Tile by tile.
    Tiles,
    /// Element by element.
    Tiny,
    /// The second factor as it lies, or the first one, with the product turned.
    Few { turned: bool, form: Form },
}

impl Way {
    /// Tile by tile, which fits every product.
    pub const TILES: Self = Self(Kind::Tiles);

    /// The way for the product of two factors.
    #[must_use]
    pub fn of<E>(a: View<*const E>, b: View<*const E>) -> Self {
        let (rows, cols) = (a.shape[0], b.shape[1]);
        let turned = cols < rows;
        let (few, large) = if turned { (cols, a.t()) } else { (rows, b) };
        let [depth, length] = large.shape;
        let few_for_lines = if depth.saturating_mul(length).saturating_mul(size_of::<E>()) <= CACHE
        {
            FEW_IN_CACHE
        } else {
            FEW
        };
        let work = rows.saturating_mul(cols).saturating_mul(depth);
        let whole = few >= LANES && few.next_multiple_of(LANES) - few <= few / 3;
        let short = turned && rows > FEW && whole && depth < few.saturating_mul(SHORT);
        Self(match large.strides {
            _ if work <= LEAST => Kind::Tiny,
            [1, _] if few <= FEW && !short => Kind::Few { turned, form: Form::Steps },
            [_, 1] if few <= few_for_lines && length >= LONG => {
                Kind::Few { turned, form: Form::Columns }
            }
            _ if work <= TINY => Kind::Tiny,
            _ => Kind::Tiles,
        })
    }
}
