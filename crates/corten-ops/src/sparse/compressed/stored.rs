//! The parts of compressed tensors, and what is known of them.

use super::{Matrices, by_rows};
use crate::Tensor;
use corten_core::{Result, ensure};

fn checked(tensor: &Tensor, name: &str, rows: bool) -> Result<Matrices> {
    let found = Matrices::of(tensor);
    ensure!(
        found.as_ref().is_some_and(|x| by_rows(x.layout()) == rows),
        Runtime,
        "{name} expected sparse {} compressed tensor layout but got {}",
        if rows { "row" } else { "column" },
        tensor.layout()
    );
    Matrices::expect(tensor, name)
}

macro_rules! parts {
    ($($(#[$doc:meta])* $name:ident = $part:ident of rows $rows:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// `Runtime` for a tensor of another layout.
        pub fn $name(self_: &Tensor) -> Result<Tensor> {
            let part = checked(self_, stringify!($name), $rows)?.parts.$part;
            Ok(part.base().shallow_copy_and_detach(corten_core::VersionCounter::Shared, true)?.into())
        }
    )*};
}

parts! {
    /// Where the entries of each row begin, and the end of the last.
    crow_indices = compressed_indices of rows true;
    /// The column of each entry.
    col_indices = plain_indices of rows true;
    /// Where the entries of each column begin, and the end of the last.
    ccol_indices = compressed_indices of rows false;
    /// The row of each entry.
    row_indices = plain_indices of rows false;
}

/// The entries, as a view of them.
///
/// # Errors
/// `Runtime` for a tensor of another layout.
pub fn values(self_: &Tensor) -> Result<Tensor> {
    let values = Matrices::expect(self_, "values")?.parts.values;
    Ok(values.base().shallow_copy_and_detach(corten_core::VersionCounter::Shared, true)?.into())
}

/// How many entries each matrix has.
///
/// # Errors
/// `Runtime` for a tensor of another layout.
pub fn nnz(self_: &Tensor) -> Result<i64> {
    Ok(Matrices::expect(self_, "_nnz")?.nnz())
}

/// The dimensions that indices stand for: rows and columns.
///
/// # Errors
/// None.
pub fn sparse_dim(_self: &Tensor) -> Result<i64> {
    Ok(2)
}

/// The dimensions of each value.
///
/// # Errors
/// `Runtime` for a tensor of another layout.
pub fn dense_dim(self_: &Tensor) -> Result<i64> {
    Ok(Matrices::expect(self_, "dense_dim")?.dense_sizes().len() as i64)
}
