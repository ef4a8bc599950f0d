//! Grids, products and repetitions of vectors.

use crate::{Tensor, op};
use corten_core::{DType, Dims, MemoryFormat, Result, bail, ensure, geometry, warn_once};
use std::sync::atomic::AtomicBool;

/// Views of the tensors in the shape that they broadcast to.
///
/// # Errors
/// `Runtime` when the shapes do not broadcast.
pub fn broadcast_tensors(tensors: &[Tensor]) -> Result<Vec<Tensor>> {
    let mut shape = Dims::new();
    for tensor in tensors {
        shape = geometry::infer_broadcast(&shape, &tensor.sizes())?;
    }
    let expand = |tensor: &Tensor| {
        if tensor.sizes() == shape { Ok(tensor.clone()) } else { op::expand(tensor, &shape, false) }
    };
    tensors.iter().map(expand).collect()
}

/// Coordinate grids of the given vectors, the first one along the first dimension.
///
/// # Errors
/// `Runtime` for no tensors, other ranks than 0 and 1, or several dtypes.
pub fn meshgrid(tensors: &[Tensor]) -> Result<Vec<Tensor>> {
    static WARNED: AtomicBool = AtomicBool::new(false);
    warn_once(
        &WARNED,
        "torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.",
    );
    meshgrid_indexing(tensors, "ij")
}

/// Coordinate grids of the given vectors; `xy` exchanges the first two.
///
/// # Errors
/// Those of [`meshgrid`]; `Runtime` for another indexing.
pub fn meshgrid_indexing(tensors: &[Tensor], indexing: &str) -> Result<Vec<Tensor>> {
    ensure!(!tensors.is_empty(), Runtime, "meshgrid expects a non-empty TensorList");
    for tensor in tensors {
        ensure!(
            tensor.dim() <= 1,
            Runtime,
            "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {tensor}"
        );
        ensure!(
            tensor.dtype() == tensors[0].dtype(),
            Runtime,
            "meshgrid expects all tensors to have the same dtype"
        );
        ensure!(
            tensor.device() == tensors[0].device(),
            Runtime,
            "meshgrid expects all tensors to have the same device"
        );
    }
    let exchange = match indexing {
        "xy" => tensors.len() >= 2,
        "ij" => false,
        other => bail!(
            Runtime,
            "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: {other}"
        ),
    };
    let mut vectors = tensors.to_vec();
    if exchange {
        vectors.swap(0, 1);
    }
    let shape: Dims = vectors.iter().map(|vector| vector.numel()).collect();
    // Bounded: tensors.
    let mut grids = Vec::with_capacity(vectors.len());
    for (dim, vector) in vectors.iter().enumerate() {
        let mut sizes: Dims = shape.iter().map(|_| 1).collect();
        sizes[dim] = -1;
        grids.push(op::expand(&op::view(vector, &sizes)?, &shape, false)?);
    }
    if exchange {
        grids.swap(0, 1);
    }
    Ok(grids)
}

/// All combinations of one element of each vector, one per row.
///
/// # Errors
/// `Runtime` for tensors that are no vectors.
pub fn cartesian_prod(tensors: &[Tensor]) -> Result<Tensor> {
    for tensor in tensors {
        ensure!(
            tensor.dim() == 1,
            Runtime,
            "Expect a 1D vector, but got shape {:?}",
            tensor.sizes().as_slice()
        );
    }
    if let [only] = tensors {
        return Ok(only.clone());
    }
    let columns = op::meshgrid_indexing(tensors, "ij")?
        .iter()
        .map(|grid| op::flatten_using_ints(grid, 0, -1))
        .collect::<Result<Vec<_>>>()?;
    op::stack(&columns, 1)
}

/// A matrix with the given matrices along its diagonal and zeros elsewhere.
///
/// # Errors
/// `Runtime` above rank 2.
pub fn block_diag(tensors: &[Tensor]) -> Result<Tensor> {
    let mut blocks = Vec::with_capacity(tensors.len());
    for (position, tensor) in tensors.iter().enumerate() {
        let rank = tensor.dim();
        ensure!(
            rank <= 2,
            Runtime,
            "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {position} \
             has {rank} dimensions"
        );
        blocks.push(match rank {
            0 => op::reshape(tensor, &[1, 1])?,
            1 => op::unsqueeze(tensor, 0)?,
            _ => tensor.clone(),
        });
    }
    let Some(first) = blocks.first() else {
        return op::empty_memory_format(&[1, 0], None, None, None, None, None);
    };
    let width = blocks.iter().fold(0i64, |sum, block| sum.saturating_add(block.sizes()[1]));
    // Bounded: tensors.
    let (mut rows, mut left) = (Vec::with_capacity(blocks.len()), 0);
    for block in &blocks {
        let sizes = block.sizes();
        let zero = op::zeros(&[1, 1], Some(block.dtype()), None, Some(first.device()), None)?;
        let zeros = |columns| op::expand(&zero, &[sizes[0], columns], false);
        let right = width - left - sizes[1];
        rows.push(op::cat(&[zeros(left)?, block.clone(), zeros(right)?], 1)?);
        left += sizes[1];
    }
    op::cat(&rows, 0)
}

/// Each slice of one dimension, or element of the flattened tensor, as often as `repeats` says.
///
/// # Errors
/// `Runtime` for repeats that do not fit; `Index` for a dimension out of range.
pub fn repeat_interleave_self_tensor(
    self_: &Tensor,
    repeats: &Tensor,
    dim: Option<i64>,
    output_size: Option<i64>,
) -> Result<Tensor> {
    let (input, dim) = match dim {
        Some(dim) => (self_.clone(), dim),
        None => (op::flatten_using_ints(self_, 0, -1)?, 0),
    };
    let length = input.size(dim)?;
    let repeats = if repeats.dim() == 0 || (repeats.dim() == 1 && repeats.numel() == 1) {
        op::expand(&op::reshape(repeats, &[1])?, &[length], false)?
    } else {
        repeats.clone()
    };
    ensure!(repeats.dim() == 1, Runtime, "repeats must be 0-dim or 1-dim tensor");
    ensure!(
        repeats.numel() == length,
        Runtime,
        "repeats must have the same size as input along dim, but got repeats.size(0) = {} and \
         input.size({dim}) = {length}",
        repeats.numel()
    );
    // Positions need not fit in the type of short integers.
    let repeats = match repeats.dtype() {
        DType::Int8 | DType::Int16 | DType::UInt8 => {
            op::to_dtype(&repeats, DType::Int64, false, false, None)?
        }
        _ => repeats,
    };
    op::index_select(&input, dim, &op::repeat_interleave_tensor(&repeats, output_size)?)
}

/// Each slice of one dimension, or element of the flattened tensor, repeated.
///
/// # Errors
/// `Runtime` for a negative count; `Index` for a dimension out of range.
pub fn repeat_interleave_self_int(
    self_: &Tensor,
    repeats: i64,
    dim: Option<i64>,
    output_size: Option<i64>,
) -> Result<Tensor> {
    let (input, dim) = match dim {
        Some(dim) => (self_.clone(), dim),
        None => (op::flatten_using_ints(self_, 0, -1)?, 0),
    };
    ensure!(repeats >= 0, Runtime, "Repeats must be non-negative");
    let place = geometry::wrap_dim(dim, input.dim())?;
    let mut sizes = input.sizes();
    let Some(&length) = sizes.get(place) else {
        bail!(Index, "Dimension specified as {dim} but tensor has no dimensions")
    };
    if let Some(given) = output_size {
        ensure!(
            given == length * repeats,
            Runtime,
            "repeat_interleave: Invalid output_size, expected {} but got {given}",
            length * repeats
        );
    }
    sizes.insert(place + 1, repeats);
    let repeated = op::expand(&op::unsqueeze(&input, place as i64 + 1)?, &sizes, false)?;
    let copy = op::clone(&repeated, Some(MemoryFormat::Contiguous))?;
    op::flatten_using_ints(&copy, place as i64, place as i64 + 1)
}
