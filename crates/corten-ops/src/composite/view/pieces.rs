//! Tensors taken apart.

use crate::any::view::room_for_pieces;
use crate::{Tensor, op};
use corten_core::{DType, Result, ensure, try_vec};

/// At most `chunks` pieces of equal size; the last one may be shorter.
///
/// # Errors
/// `Runtime` for scalars and for a count that is not positive.
pub fn chunk(self_: &Tensor, chunks: i64, dim: i64) -> Result<Vec<Tensor>> {
    ensure!(self_.dim() > 0, Runtime, "chunk expects at least a 1-dimensional tensor");
    ensure!(chunks > 0, Runtime, "chunk expects `chunks` to be greater than 0, got: {chunks}");
    let size = self_.size(dim)?;
    let piece = size / chunks + i64::from(size % chunks != 0);
    if piece == 0 && size == 0 {
        // As many empty pieces as asked for.
        let sizes = try_vec(0, chunks as usize)?;
        return op::split_with_sizes(self_, &sizes, dim);
    }
    op::split_tensor(self_, piece, dim)
}

/// As [`chunk`]; the pieces do not count as views.
///
/// # Errors
/// Those of [`chunk`].
pub fn unsafe_chunk(self_: &Tensor, chunks: i64, dim: i64) -> Result<Vec<Tensor>> {
    ensure!(self_.dim() > 0, Runtime, "chunk expects at least a 1-dimensional tensor");
    ensure!(chunks > 0, Runtime, "chunk expects `chunks` to be greater than 0, got: {chunks}");
    let size = self_.size(dim)?;
    let piece = size / chunks + i64::from(size % chunks != 0);
    if piece == 0 && size == 0 {
        let sizes = try_vec(0, chunks as usize)?;
        return op::unsafe_split_with_sizes(self_, &sizes, dim);
    }
    op::unsafe_split_tensor(self_, piece, dim)
}

/// `split_with_sizes` under the name of `split`.
///
/// # Errors
/// Those of `split_with_sizes`.
pub fn split_sizes(self_: &Tensor, split_size: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    op::split_with_sizes(self_, split_size, dim)
}

fn check_rank(self_: &Tensor) -> Result<()> {
    ensure!(
        self_.dim() > 0,
        Runtime,
        "tensor_split expected at least a 1-dimensional tensor, but got a tensor with {} dims",
        self_.dim()
    );
    Ok(())
}

/// `sections` pieces, the first ones longer by one where the size is not divisible.
///
/// # Errors
/// `Runtime` for scalars and for a count that is not positive.
pub fn tensor_split_sections(self_: &Tensor, sections: i64, dim: i64) -> Result<Vec<Tensor>> {
    check_rank(self_)?;
    let size = self_.size(dim)?;
    ensure!(sections > 0, Runtime, "number of sections must be larger than 0, got {sections}");
    let (least, longer) = (size / sections, size % sections);
    let mut pieces = room_for_pieces(sections as usize)?;
    let mut start = 0;
    let mut piece = |index| {
        let length = least + i64::from(index < longer);
        let piece = op::slice_tensor(self_, dim, Some(start), Some(start + length), 1);
        start += length;
        piece
    };
    for index in 0..sections {
        pieces.push(piece(index)?);
    }
    Ok(pieces)
}

/// Pieces that end at the given positions, and the rest.
///
/// # Errors
/// `Runtime` for scalars.
pub fn tensor_split_indices(self_: &Tensor, indices: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    check_rank(self_)?;
    let size = self_.size(dim)?;
    let mut pieces = room_for_pieces(indices.len() + 1)?;
    let mut start = 0;
    for &end in indices.iter().chain([&size]) {
        pieces.push(op::slice_tensor(self_, dim, Some(start), Some(end), 1)?);
        start = end;
    }
    Ok(pieces)
}

/// `tensor_split` with the number of sections, or the positions, in a tensor.
///
/// # Errors
/// `Runtime` unless it is an i64 CPU tensor of rank 0 or 1.
pub fn tensor_split_tensor(self_: &Tensor, split: &Tensor, dim: i64) -> Result<Vec<Tensor>> {
    check_rank(self_)?;
    ensure!(
        split.device().is_cpu(),
        Runtime,
        "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on {}",
        split.device()
    );
    ensure!(
        split.dtype() == DType::Int64,
        Runtime,
        "tensor_split expected tensor_indices_or_sections to have dtype of long, but got {}",
        split.dtype().type_name()
    );
    ensure!(
        split.dim() <= 1,
        Runtime,
        "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or \
         one-dimensional tensor, but got a tensor with {} dims",
        split.dim()
    );
    if split.dim() == 0 {
        return op::tensor_split_sections(self_, op::item(split)?.to_i64(), dim);
    }
    let positions = split.to_vec::<i64>()?;
    op::tensor_split_indices(self_, &positions, dim)
}

/// Fails unless the tensor has the rank, and the dimension the size, that a split needs.
fn check_split(
    name: &str,
    self_: &Tensor,
    rank: usize,
    dim: usize,
    sections: Option<i64>,
) -> Result<()> {
    let sizes = self_.sizes();
    ensure!(
        sizes.len() >= rank,
        Runtime,
        "torch.{name} requires a tensor with at least {rank} dimension, but got a tensor with {} \
         dimensions!",
        sizes.len()
    );
    if let Some(sections) = sections {
        ensure!(
            sections != 0 && sizes[dim] % sections == 0,
            Runtime,
            "torch.{name} attempted to split along dimension {dim}, but the size of the dimension \
             {} is not divisible by the split_size {sections}!",
            sizes[dim]
        );
    }
    Ok(())
}

fn horizontal(self_: &Tensor) -> usize {
    usize::from(self_.dim() > 1)
}

/// Equal pieces along the second dimension, of vectors along the first.
///
/// # Errors
/// `Runtime` for scalars and where the size is not divisible.
pub fn hsplit_int(self_: &Tensor, sections: i64) -> Result<Vec<Tensor>> {
    let dim = horizontal(self_);
    check_split("hsplit", self_, 1, dim, Some(sections))?;
    op::tensor_split_sections(self_, sections, dim as i64)
}

/// Pieces along the second dimension, of vectors along the first.
///
/// # Errors
/// `Runtime` for scalars.
pub fn hsplit_array(self_: &Tensor, indices: &[i64]) -> Result<Vec<Tensor>> {
    let dim = horizontal(self_);
    check_split("hsplit", self_, 1, dim, None)?;
    op::tensor_split_indices(self_, indices, dim as i64)
}

/// Equal pieces along the first dimension.
///
/// # Errors
/// `Runtime` below rank 2 and where the size is not divisible.
pub fn vsplit_int(self_: &Tensor, sections: i64) -> Result<Vec<Tensor>> {
    check_split("vsplit", self_, 2, 0, Some(sections))?;
    op::tensor_split_sections(self_, sections, 0)
}

/// Pieces along the first dimension.
///
/// # Errors
/// `Runtime` below rank 2.
pub fn vsplit_array(self_: &Tensor, indices: &[i64]) -> Result<Vec<Tensor>> {
    check_split("vsplit", self_, 2, 0, None)?;
    op::tensor_split_indices(self_, indices, 0)
}

/// Equal pieces along the third dimension.
///
/// # Errors
/// `Runtime` below rank 3 and where the size is not divisible.
pub fn dsplit_int(self_: &Tensor, sections: i64) -> Result<Vec<Tensor>> {
    check_split("dsplit", self_, 3, 2, Some(sections))?;
    op::tensor_split_sections(self_, sections, 2)
}

/// Pieces along the third dimension.
///
/// # Errors
/// `Runtime` below rank 3.
pub fn dsplit_array(self_: &Tensor, indices: &[i64]) -> Result<Vec<Tensor>> {
    check_split("dsplit", self_, 3, 2, None)?;
    op::tensor_split_indices(self_, indices, 2)
}
