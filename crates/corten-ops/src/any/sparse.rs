//! Operators of sparse tensors on tensors of other layouts, and what makes a sparse tensor of dense
//! parts.

use crate::{Tensor, op};
use corten_core::{Layout, Result, Scalar, bail, ensure};

pub use crate::sparse::coordinate::convert::from_dense;
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

/// `beta * self + alpha * (mat1 @ mat2)`.
///
/// # Errors
/// Those of `addmm`.
pub fn addmm(
    self_: &Tensor,
    mat1: &Tensor,
    mat2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    op::addmm(self_, mat1, mat2, beta, alpha)
}

/// A dense tensor in a sparse layout.
///
/// # Errors
/// `Runtime` where the layout does not take blocks, or its own.
pub fn to_sparse(
    self_: &Tensor,
    layout: Option<Layout>,
    blocksize: Option<&[i64]>,
    dense_dim: Option<i64>,
) -> Result<Tensor> {
    let layout = layout.unwrap_or(Layout::Sparse);
    if layout == Layout::Strided {
        return op::clone(self_, None);
    }
    if layout == Layout::Sparse {
        ensure!(
            blocksize.is_none(),
            Runtime,
            "dense_to_sparse: conversion from Strided to Sparse with blocksize argument given is not \
             supported"
        );
        return from_dense(self_, self_.dim() as i64 - dense_dim.unwrap_or(0));
    }
    crate::sparse::compressed::to_layout(self_, layout, blocksize, dense_dim)
}
