//! How a product is computed.

use crate::few::Form;
use crate::view::View;

/// The most rows, or columns, of a product whose large factor is read as it lies.
const FEW: usize = 16;

/// The most rows where columns of the large factor lie side by side, unless it lies in memory: tiles
/// of more rows read what is in a cache as fast, and keep their sums in registers.
const FEW_IN_CACHE: usize = 4;

/// Bytes of a large factor that a cache may hold.
const CACHE: usize = 2 << 20;

/// How a product is computed. It is chosen for the whole of a product, before that is cut into
/// parts, since the order in which the terms of an element are added up depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way(pub(crate) Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Tile by tile.
    Tiles,
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
        let in_cache = large.shape[0] * large.shape[1] * size_of::<E>() <= CACHE;
        Self(match large.strides {
            _ if few > FEW => Kind::Tiles,
            [1, _] => Kind::Few { turned, form: Form::Steps },
            [_, 1] if few <= FEW_IN_CACHE || !in_cache => Kind::Few { turned, form: Form::Columns },
            _ => Kind::Tiles,
        })
    }
}
