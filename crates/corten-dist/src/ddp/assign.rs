//! Which parameters share a bucket.

use corten_core::{DType, Device, Result, ensure};
use corten_ops::Tensor;

/// Buckets as lists of indices, and the limit of bytes under which each was closed.
pub type Assignment = (Vec<Vec<usize>>, Vec<usize>);

/// Puts tensors into buckets in the order given. A bucket is closed when it has at least as many bytes
/// as the limit; the limits are those of the first bucket, the second and so on, the last one that of
/// all others. Tensors of different dtypes or devices are in different buckets, which have their limits
/// one by one; a tensor with a sparse gradient has a bucket for itself.
///
/// `indices` are what the tensors are called in the result; without them they are numbered, and the
/// buckets are ordered by their smallest number.
///
/// # Errors
/// `Runtime` when there is no tensor or no limit, or the lists differ in length.
pub fn assign_buckets(
    tensors: &[Tensor],
    limits: &[usize],
    expect_sparse: &[bool],
    indices: &[usize],
) -> Result<Assignment> {
    ensure!(!tensors.is_empty(), Runtime, "assign_buckets: expected at least one tensor");
    ensure!(!limits.is_empty(), Runtime, "assign_buckets: expected at least one size limit");
    for (given, what) in
        [(expect_sparse.len(), "expect_sparse_gradient"), (indices.len(), "tensor_indices")]
    {
        ensure!(
            given == 0 || given == tensors.len(),
            Runtime,
            "assign_buckets: {what} has {given} entries for {} tensors",
            tensors.len()
        );
    }
    let mut closed: Vec<(Vec<usize>, usize)> = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    for (position, tensor) in tensors.iter().enumerate() {
        let index = indices.get(position).copied().unwrap_or(position);
        if expect_sparse.get(position) == Some(&true) {
            closed.push((vec![index], 0));
            continue;
        }
        let key = (tensor.dtype(), tensor.device());
        let bucket = match open.iter_mut().position(|bucket| bucket.key == key) {
            Some(found) => &mut open[found],
            None => {
                open.push(Open { key, indices: Vec::new(), bytes: 0, limit: 0 });
                let last = open.len() - 1;
                &mut open[last]
            }
        };
        bucket.indices.push(index);
        bucket.bytes += tensor.numel() as usize * tensor.dtype().itemsize();
        let limit = limits[bucket.limit];
        if bucket.bytes >= limit {
            closed.push((std::mem::take(&mut bucket.indices), limit));
            bucket.bytes = 0;
            bucket.limit = (bucket.limit + 1).min(limits.len() - 1);
        }
    }
    for bucket in open.into_iter().filter(|bucket| !bucket.indices.is_empty()) {
        closed.push((bucket.indices, limits[bucket.limit]));
    }
    if indices.is_empty() {
        closed.sort_by_key(|(indices, _)| indices.iter().min().copied());
    }
    Ok(closed.into_iter().unzip())
}

/// A bucket that tensors of one kind still come to.
struct Open {
    key: (DType, Device),
    indices: Vec<usize>,
    bytes: usize,
    /// Which limit is its own.
    limit: usize,
}
