//! Whether all ranks have the same parameters, and making them equal.

use super::comm::Collectives;
use corten_core::{Result, ensure};
use corten_ops::{Tensor, op};

/// Compares the number of parameters, their sizes and their strides over the ranks.
///
/// # Errors
/// `Runtime` where they differ, with the words of PyTorch; those of the group.
pub fn verify_params(group: &dyn Collectives, params: &[Tensor]) -> Result<()> {
    let mut words = Vec::new();
    for param in params {
        words.push(param.dim() as i64);
        words.extend(param.sizes().iter());
        words.extend(param.strides().iter());
    }
    let device = params.first().map(|param| param.device());
    let gather = |words: &[i64]| -> Result<Vec<Vec<i64>>> {
        let input = Tensor::from_slice(words, &[words.len() as i64])?;
        let input = match device {
            Some(device) if !device.is_cpu() => {
                op::to_device(&input, device, input.dtype(), false, false, None)?
            }
            _ => input,
        };
        let outputs =
            (0..group.size()).map(|_| op::empty_like(&input, None, None, None, None, None));
        let outputs = outputs.collect::<Result<Vec<_>>>()?;
        group.all_gather(&outputs, &input)?.wait()?;
        outputs.iter().map(Tensor::to_vec::<i64>).collect()
    };
    let counts = gather(&[params.len() as i64, words.len() as i64])?;
    let rank = group.rank();
    for (other, count) in counts.iter().enumerate() {
        ensure!(
            count[0] == params.len() as i64,
            Runtime,
            "DDP expects same model across all ranks, but Rank {rank} has {} params, while rank \
             {other} has inconsistent {} params.",
            params.len(),
            count[0]
        );
    }
    let longest = counts.iter().map(|count| count[1]).max().unwrap_or(0);
    words.resize(longest as usize, -1);
    let all = gather(&words)?;
    for (index, param) in params.iter().enumerate() {
        for (other, theirs) in all.iter().enumerate() {
            // Every rank is compared with the first, and the first with all.
            if other == 0 || rank == 0 {
                let start = place_of(theirs, index);
                compare(param, rank, index, other, theirs.get(start..).unwrap_or(&[]))?;
            }
        }
    }
    Ok(())
}

/// Where the words of a parameter begin.
fn place_of(words: &[i64], index: usize) -> usize {
    (0..index).fold(0, |place, _| {
        let dims = words.get(place).copied().unwrap_or(0).max(0);
        place + 1 + 2 * dims as usize
    })
}

fn compare(param: &Tensor, rank: usize, index: usize, other: usize, words: &[i64]) -> Result<()> {
    let (sizes, strides) = (param.sizes(), param.strides());
    let dims = sizes.len();
    let same_dims = words.first() == Some(&(dims as i64));
    ensure!(
        same_dims && words.get(1..=dims) == Some(&sizes[..]),
        Runtime,
        "[{rank}]: params[{index}] in this process with sizes {:?} appears not to match sizes of the \
         same param in process {other}.",
        &sizes[..]
    );
    ensure!(
        words.get(dims + 1..=2 * dims) == Some(&strides[..]),
        Runtime,
        "[{rank}]: params[{index}] in this process with strides {:?} appears not to match strides of \
         the same param in process {other}.",
        &strides[..]
    );
    Ok(())
}

/// Copies the tensors of rank `source` to all, several at a time: as many as have `buffer_bytes` together.
///
/// # Errors
/// Those of the group.
pub fn broadcast_coalesced(
    group: &dyn Collectives,
    tensors: &[Tensor],
    buffer_bytes: usize,
    source: usize,
) -> Result<()> {
    if tensors.is_empty() {
        return Ok(());
    }
    let _mode = corten_core::GradModeGuard::new(false);
    let (buckets, _) = super::assign_buckets(tensors, &[buffer_bytes.max(1)], &[], &[])?;
    // The next part is on its way while the last one is written.
    let mut under_way = std::collections::VecDeque::new();
    for bucket in buckets {
        let members: Vec<Tensor> = bucket.iter().map(|&index| tensors[index].clone()).collect();
        let flat = flatten(&members)?;
        under_way.push_back((group.broadcast(&flat, source)?, flat, members));
        if under_way.len() > 2
            && let Some((work, flat, members)) = under_way.pop_front()
        {
            work.wait()?;
            write_back(&flat, &members)?;
        }
    }
    for (work, flat, members) in under_way {
        work.wait()?;
        write_back(&flat, &members)?;
    }
    Ok(())
}

fn flatten(tensors: &[Tensor]) -> Result<Tensor> {
    let flat = |tensor: &Tensor| {
        let plain = op::detach(tensor)?;
        op::reshape(&plain, &[-1])
    };
    let parts = tensors.iter().map(flat).collect::<Result<Vec<_>>>()?;
    op::cat(&parts, 0)
}

fn write_back(flat: &Tensor, tensors: &[Tensor]) -> Result<()> {
    let mut start = 0;
    for tensor in tensors {
        let numel = tensor.numel();
        let part = op::view(&op::narrow(flat, 0, start, numel)?, &tensor.sizes())?;
        op::copy_(tensor, &part, false)?;
        start += numel;
    }
    Ok(())
}
