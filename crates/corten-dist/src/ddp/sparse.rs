//! Sums of sparse tensors: every rank gets the entries of all.

use super::comm::{Collectives, Pending};
use corten_core::{Result, ensure};
use corten_ops::{Tensor, op};
use std::sync::Arc;

/// Starts the sum of tensors in coordinate format. The ranks' numbers of entries differ, and are waited
/// for at once.
///
/// # Errors
/// `Runtime` for other layouts, or when the ranks' tensors differ in size; those of the group.
pub(super) fn all_reduce(group: &dyn Collectives, tensor: &Tensor) -> Result<Arc<dyn Pending>> {
    ensure!(
        tensor.layout() == corten_core::Layout::Sparse,
        Runtime,
        "all_reduce: expected a dense tensor or one in coordinate format, but got {:?}",
        tensor.layout()
    );
    let own = op::coalesce(tensor)?;
    let (indices, values) = (op::_indices(&own)?, op::_values(&own)?);
    let entries = values.sizes()[0];
    let shape = Tensor::from_slice(&[entries, indices.sizes()[0]], &[2])?;
    let shape = op::to_device(&shape, values.device(), shape.dtype(), false, false, None)?;
    let shapes = gather(group, &shape)?;
    let mut counts = Vec::with_capacity(shapes.len());
    for (rank, shape) in shapes.iter().enumerate() {
        let found = shape.to_vec::<i64>()?;
        ensure!(
            found[1] == indices.sizes()[0],
            Runtime,
            "all_reduce: rank {rank} has a sparse tensor of {} sparse dimensions, and this one of {}",
            found[1],
            indices.sizes()[0]
        );
        counts.push(found[0]);
    }
    let most = counts.iter().copied().max().unwrap_or(0);
    // Rows of one length, so that every back end can gather them.
    let indices =
        padded(&op::clone(&op::t(&indices)?, Some(corten_core::MemoryFormat::Contiguous))?, most)?;
    let values = padded(&values, most)?;
    let (all_indices, all_values) = (room(group, &indices)?, room(group, &values)?);
    let works =
        [group.all_gather(&all_indices, &indices)?, group.all_gather(&all_values, &values)?];
    let sizes = tensor.sizes().to_vec();
    Ok(Arc::new(Sum { works, all_indices, all_values, counts, sizes }))
}

/// Room for a tensor of each rank.
fn room(group: &dyn Collectives, input: &Tensor) -> Result<Vec<Tensor>> {
    (0..group.size()).map(|_| op::empty_like(input, None, None, None, None, None)).collect()
}

fn gather(group: &dyn Collectives, input: &Tensor) -> Result<Vec<Tensor>> {
    let outputs = room(group, input)?;
    group.all_gather(&outputs, input)?.wait()?;
    Ok(outputs)
}

/// Zeros behind the rows.
fn padded(rows: &Tensor, count: i64) -> Result<Tensor> {
    let mut sizes = rows.sizes().to_vec();
    sizes[0] = count - sizes[0];
    let zeros = op::new_zeros(rows, &sizes, None, None, None, None)?;
    op::cat(&[op::detach(rows)?, zeros], 0)
}

/// Entries on their way.
struct Sum {
    works: [Arc<dyn Pending>; 2],
    all_indices: Vec<Tensor>,
    all_values: Vec<Tensor>,
    counts: Vec<i64>,
    sizes: Vec<i64>,
}

impl Pending for Sum {
    fn wait(&self) -> Result<Tensor> {
        for work in &self.works {
            work.wait()?;
        }
        let cut = |all: &[Tensor]| -> Result<Vec<Tensor>> {
            all.iter()
                .zip(&self.counts)
                .map(|(rows, &count)| op::narrow(rows, 0, 0, count))
                .collect()
        };
        let indices = op::t(&op::cat(&cut(&self.all_indices)?, 0)?)?;
        let values = op::cat(&cut(&self.all_values)?, 0)?;
        let sum = op::sparse_coo_tensor_indices_size(
            &indices,
            &values,
            &self.sizes,
            None,
            None,
            None,
            None,
            None,
        )?;
        op::coalesce(&sum)
    }
}
