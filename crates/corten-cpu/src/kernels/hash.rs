//! Hashes of contents.

use crate::kernels::support::contiguous;
use crate::vec::convert::convert_row;
use corten_core::{Element, Reader, Result, Writer, match_dtype};
use corten_ops::meta::Reduce;
use corten_ops::{Tensor, op};

/// `hash_tensor`: the exclusive or of all bits, floating-point numbers as doubles.
///
/// # Errors
/// `Runtime` for an unknown mode, `NotImplemented` for complex numbers.
pub fn hash_tensor(self_: &Tensor, dim: &[i64], keepdim: bool, mode: i64) -> Result<Tensor> {
    let out = corten_ops::meta::tools::hash_tensor(self_, dim, keepdim, mode)?;
    let reduce = Reduce::over_or_all(self_, Some(dim), keepdim)?;
    let count = reduce.count() as usize;
    let mut order: Vec<i64> = Vec::new();
    let rank = self_.dim();
    let mut reduced = Vec::new();
    for i in 0..rank {
        let goes = dim.is_empty()
            || dim
                .iter()
                .any(|&dim| corten_core::geometry::wrap_dim(dim, rank).is_ok_and(|d| d == i));
        if goes { reduced.push(i as i64) } else { order.push(i as i64) }
    }
    order.extend(reduced);
    let input = contiguous(&op::permute(self_, &order)?)?;
    match_dtype!(self_.dtype(), "xor_sum_cpu", OrderedBool, T => {
        let input = Reader::<T>::new(&input)?;
        let mut out = Writer::<u64>::new(&out)?;
        for (i, out) in out.iter_mut().enumerate() {
            let line = &input[i * count..][..count];
            *out = hash_of(line);
        }
        Ok(())
    })?;
    Ok(out)
}

/// The exclusive or of the elements' bits as doubles or as 64-bit integers.
fn hash_of<T: Element>(line: &[T]) -> u64 {
    match T::DTYPE.is_floating_point() {
        true => hash_as::<T, f64>(line, f64::to_bits),
        false => hash_as::<T, i64>(line, |x| x as u64),
    }
}

/// Widens a block at a time, by the loops that do it with vectors.
fn hash_as<T: Element, W: Element + Default>(line: &[T], bits: impl Fn(W) -> u64) -> u64 {
    let mut wide = [W::default(); BLOCK];
    line.chunks(BLOCK).fold(0, |hash, chunk| {
        let wide = &mut wide[..chunk.len()];
        convert_row(chunk, wide);
        wide.iter().fold(hash, |hash, &x| hash ^ bits(x))
    })
}

/// Elements that are widened at a time.
const BLOCK: usize = 256;
