//! Hashes of contents.

use crate::kernels::support::{contiguous, match_types};
use corten_core::{Reader, Result, Writer, cast};
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
    match_types!(self_.dtype(), "xor_sum_cpu", T => {
        let input = Reader::<T>::new(&input)?;
        let mut out = Writer::<u64>::new(&out)?;
        for (i, out) in out.iter_mut().enumerate() {
            let line = &input[i * count..][..count];
            *out = hash_of(line);
        }
        Ok(())
    }, [
        Bool bool, UInt8 u8, Int8 i8, Int16 i16, Int32 i32, Int64 i64,
        Float16 ::corten_core::f16, BFloat16 ::corten_core::bf16, Float32 f32, Float64 f64,
    ])?;
    Ok(out)
}

/// Eight hashes in turn, which the order of elements does not matter to.
fn hash_of<T: corten_core::Element>(line: &[T]) -> u64 {
    let mut lanes = [0; 8];
    let chunks = line.chunks_exact(lanes.len());
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane ^= bits(x);
        }
    }
    let all = lanes.into_iter().chain(rest.iter().map(|&x| bits(x)));
    all.fold(0, |hash, bits| hash ^ bits)
}

fn bits<T: corten_core::Element>(x: T) -> u64 {
    match T::DTYPE.is_floating_point() {
        true => cast::<T, f64>(x).to_bits(),
        false => cast::<T, i64>(x) as u64,
    }
}
