//! Sums of bytes that stand for numbers.

use crate::kernels::support::flat;
use crate::parallel::chunks::for_each_run;
use crate::rows::loops::compiled;
use corten_core::{Access, AccessSet, DType, Result, TensorBase, ensure};
use corten_ops::Tensor;

/// Elements that are worth a thread.
const GRAIN: usize = 1 << 15;
/// Elements of a call of the loop.
const CHUNK: usize = 64;

/// The scales and zero points of both operands and of the sum.
#[derive(Clone, Copy)]
struct Scales {
    factors: [f32; 2],
    zeros: [f32; 2],
    inverse: f32,
    zero: f32,
    least: f32,
}

/// The bytes that stand for sums, of two tensors whose elements lie in the same order, without gaps.
///
/// # Errors
/// `Runtime` for other dtypes, shapes or strides.
pub fn sum(
    a: &Tensor,
    b: &Tensor,
    a_scale: f64,
    a_zero_point: i64,
    b_scale: f64,
    b_zero_point: i64,
    scale: f64,
    zero_point: i64,
    relu: bool,
) -> Result<Tensor> {
    ensure!(
        a.dtype() == DType::UInt8 && b.dtype() == DType::UInt8,
        Runtime,
        "expected operands of uint8, but got {} and {}",
        a.dtype().name(),
        b.dtype().name()
    );
    ensure!(
        a.sizes() == b.sizes() && a.strides() == b.strides() && a.is_non_overlapping_and_dense(),
        Runtime,
        "expected operands of one shape and the same strides, without gaps, but got {:?} and {:?}",
        a.sizes().as_slice(),
        b.sizes().as_slice()
    );
    let out: Tensor = TensorBase::empty_strided(&a.sizes(), &a.strides(), DType::UInt8)?.into();
    let scales = Scales {
        factors: [a_scale as f32, b_scale as f32],
        zeros: [a_zero_point as f32, b_zero_point as f32],
        inverse: 1.0 / scale as f32,
        zero: zero_point as f32,
        least: if relu { zero_point as f32 } else { 0.0 },
    };
    let flats = [flat(&out)?, flat(a)?, flat(b)?];
    let access = AccessSet::acquire(&[
        (&flats[0], Access::Write),
        (&flats[1], Access::Read),
        (&flats[2], Access::Read),
    ])?;
    let (a, b) = (access.read::<u8>(1)?, access.read::<u8>(2)?);
    for_each_run(access.write::<u8>(0)?, 1, GRAIN, |range, out| {
        add(&a[range.clone()], &b[range], scales, out);
        Ok(())
    })?;
    drop(access);
    Ok(out)
}

fn add(a: &[u8], b: &[u8], scales: Scales, out: &mut [u8]) {
    compiled(|| {
        let [a_chunks, b_chunks] = [a.chunks(CHUNK), b.chunks(CHUNK)];
        for ((a, b), out) in a_chunks.zip(b_chunks).zip(out.chunks_mut(CHUNK)) {
            for i in 0..out.len().min(a.len()).min(b.len()) {
                out[i] = sum_of(a[i], b[i], scales);
            }
        }
    });
}

#[inline(always)]
fn sum_of(a: u8, b: u8, scales: Scales) -> u8 {
    let Scales { factors, zeros, inverse, zero, least } = scales;
    let number = (f32::from(a) - zeros[0]) * factors[0] + (f32::from(b) - zeros[1]) * factors[1];
    let bounded = ((number * inverse).round_ties_even() + zero).max(least);
    bounded.min(255.0) as u8
}
