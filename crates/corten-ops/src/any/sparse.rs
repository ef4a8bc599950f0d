//! Operators of sparse tensors on tensors of other layouts, and what makes a sparse tensor of dense
//! parts.

use crate::Tensor;
use corten_core::{Result, bail};

pub use crate::sparse::coordinate::parts::{with_dims, with_dims_and_tensors};

macro_rules! refused {
    ($($(#[$doc:meta])* $name:ident = $shown:literal -> $result:ty;)*) => {
        $($(#[$doc])*
        ///
        /// # Errors
        /// `Runtime` always.
        pub fn $name(self_: &Tensor) -> Result<$result> {
            bail!(
                Runtime,
                "{} expected sparse {}tensor layout but got {}",
                $shown,
                if $shown == "values" { "" } else { "coordinate " },
                self_.layout()
            );
        })*
    };
}

refused! {
    /// Refused: the tensor has no indices.
    indices = "indices" -> Tensor;
    /// Refused: the tensor has no entries.
    values = "values" -> Tensor;
    /// Refused: the tensor has no entries.
    is_coalesced = "is_coalesced" -> bool;
}

/// The dimensions that indices count: none.
///
/// # Errors
/// None.
pub fn sparse_dim(_self: &Tensor) -> Result<i64> {
    Ok(0)
}

/// The dimensions that no indices count: all.
///
/// # Errors
/// None.
pub fn dense_dim(self_: &Tensor) -> Result<i64> {
    Ok(self_.dim() as i64)
}
