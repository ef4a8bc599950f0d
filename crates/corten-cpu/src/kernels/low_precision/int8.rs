//! Products with weights in 8 bits that have a scale for each row.

use super::{GRAIN, SKINNY_ROWS, check_float, product_of_tiles, single};
use crate::kernels::support::{empty, empty_as, expect_dtype, is_shape_only};
use crate::parallel::chunks::for_each_chunk;
use crate::rows::loops::compiled;
use corten_core::{Access, AccessSet, DType, Result, ensure};
use corten_ops::{Tensor, op};

const NAME: &str = "_weight_int8pack_mm_cpu";
/// Partial sums, so that additions do not wait for each other.
const SUMS: usize = 32;

/// `self @ mat2.T`, each column times its scale; weights become floats in registers.
///
/// # Errors
/// `Runtime` for dtypes, shapes and strides that do not fit.
pub fn weight_int8pack_mm(self_: &Tensor, mat2: &Tensor, scales: &Tensor) -> Result<Tensor> {
    let sizes = check(self_, mat2, scales)?;
    if is_shape_only(self_) || sizes.contains(&0) {
        return empty(&sizes, self_);
    }
    let (x, scales) = (single(self_)?, single(scales)?);
    let out = match sizes[0] as usize {
        0..=SKINNY_ROWS => skinny(&x, mat2, sizes)?,
        _ => product_of_tiles(&x, sizes[1], |start, rows| {
            single(&op::narrow(mat2, 0, start, rows)?)
        })?,
    };
    let out = op::mul__tensor(&out, &scales)?;
    op::to_dtype(&out, self_.dtype(), false, false, None)
}

fn check(self_: &Tensor, mat2: &Tensor, scales: &Tensor) -> Result<[i64; 2]> {
    let k = self_.size(1)?;
    let n = mat2.size(0)?;
    check_float(NAME, self_)?;
    ensure!(
        self_.stride(1)? == 1 || k < 2,
        Runtime,
        "{NAME} : A must be contiguous on the last dimension."
    );
    ensure!(self_.dim() == 2, Runtime, "{NAME} : expect A to be 2D tensor.");
    ensure!(mat2.dtype() == DType::Int8, Runtime, "{NAME} : expect B to be int8 tensor.");
    ensure!(mat2.is_contiguous(), Runtime, "{NAME} : expect B to be contiguous.");
    ensure!(mat2.dim() == 2 && mat2.size(1)? == k, Runtime, "{NAME} : expect B.size(1) == {k}");
    ensure!(
        scales.dim() == 1 && scales.size(0)? == n,
        Runtime,
        "{NAME} : expect scales to be 1d tensor with size {n}"
    );
    expect_dtype(scales, self_.dtype())?;
    Ok([self_.size(0)?, n])
}

/// The product of few rows, which reads the weights once.
fn skinny(x: &Tensor, weight: &Tensor, [m, n]: [i64; 2]) -> Result<Tensor> {
    let (m, n, k) = (m as usize, n as usize, x.size(1)? as usize);
    let out = empty_as(&[n as i64, m as i64], x, DType::Float32)?;
    let set =
        AccessSet::acquire(&[(&out, Access::Write), (x, Access::Read), (weight, Access::Read)])?;
    let (x, weight) = (set.read::<f32>(1)?, set.read::<i8>(2)?);
    let grain = GRAIN.div_ceil(k * m);
    for_each_chunk(set.write::<f32>(0)?, m, grain, |row, out| {
        let weight = &weight[row * k..][..k];
        for (out, x) in out.iter_mut().zip(x.chunks_exact(k)) {
            *out = dot(x, weight);
        }
        Ok(())
    })?;
    drop(set);
    debug_assert_eq!(out.numel() as usize, m * n);
    op::contiguous(&op::t(&out)?, corten_core::MemoryFormat::Contiguous)
}

fn dot(x: &[f32], weight: &[i8]) -> f32 {
    compiled(|| {
        let mut sums = [0.0f32; SUMS];
        let (xs, ws) = (x.chunks_exact(SUMS), weight.chunks_exact(SUMS));
        let rest: f32 =
            xs.remainder().iter().zip(ws.remainder()).map(|(x, &w)| x * f32::from(w)).sum();
        for (x, weight) in xs.zip(ws) {
            for i in 0..SUMS {
                sums[i] += x[i] * f32::from(weight[i]);
            }
        }
        sums.iter().sum::<f32>() + rest
    })
}
