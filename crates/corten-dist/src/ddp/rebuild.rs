//! Buckets in the order in which gradients come.

use super::assign::assign_buckets;
use super::faults;
use super::reducer::{Reducer, State};
use corten_core::{GradModeGuard, Result, ensure};
use corten_ops::{Tensor, op};

pub(super) fn rebuild(reducer: &Reducer) -> Result<bool> {
    let _mode = GradModeGuard::new(false);
    let mut state = reducer.lock();
    faults::ensure_prior_reduction_finished(reducer, &state)?;
    if !reducer.should_rebuild(&state) || state.order.is_empty() {
        return Ok(false);
    }
    let own = new_assignment(reducer, &state)?;
    let agreed = agree(reducer, &own)?;
    state.has_rebuilt = true;
    state.order = Vec::new();
    state.set_buckets(&reducer.params, &reducer.expect_sparse, &agreed, &reducer.options)?;
    Ok(true)
}

/// The buckets of this rank's order.
fn new_assignment(reducer: &Reducer, state: &State) -> Result<Vec<Vec<usize>>> {
    let count = reducer.params.len();
    ensure!(
        state.order.len() == count,
        Runtime,
        "rebuilt parameter indices size is not same as original model parameters size. Original \
         model param size is: {count} versus rebuilt params size of: {}",
        state.order.len()
    );
    let options = &reducer.options;
    let limits = if options.bucket_bytes_cap_list.is_empty() {
        let mut limits = vec![options.bucket_bytes_cap];
        if options.first_bucket_bytes_cap < options.bucket_bytes_cap {
            limits.insert(0, options.first_bucket_bytes_cap);
        }
        limits
    } else {
        options.bucket_bytes_cap_list.clone()
    };
    let tensors: Vec<Tensor> =
        state.order.iter().map(|&index| reducer.params[index].clone()).collect();
    let sparse: Vec<bool> = state.order.iter().map(|&index| reducer.expect_sparse[index]).collect();
    Ok(assign_buckets(&tensors, &limits, &sparse, &state.order)?.0)
}

/// The buckets of rank 0, which all use: gradients may come in another order on each rank.
fn agree(reducer: &Reducer, own: &[Vec<usize>]) -> Result<Vec<Vec<usize>>> {
    let count = reducer.params.len();
    // The number of buckets, their sizes, and the indices one after another.
    let mut words = vec![0_i64; 2 * count + 1];
    words[0] = own.len() as i64;
    for (word, bucket) in words[1..].iter_mut().zip(own) {
        *word = bucket.len() as i64;
    }
    for (word, &index) in words[count + 1..].iter_mut().zip(own.iter().flatten()) {
        *word = index as i64;
    }
    let table = Tensor::from_vec(words, &[2 * count as i64 + 1])?;
    let device = reducer.params[0].device();
    let table = if device.is_cpu() {
        table
    } else {
        op::to_device(&table, device, table.dtype(), false, false, None)?
    };
    let agreed = reducer.group().broadcast(&table, 0)?.wait()?.to_vec::<i64>()?;
    let mut indices = agreed[count + 1..].iter().map(|&index| index as usize);
    let sizes = agreed[1..=count].iter().take(agreed[0] as usize);
    Ok(sizes.map(|&size| indices.by_ref().take(size as usize).collect()).collect())
}
