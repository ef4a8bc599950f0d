//! The exponential of matrices: the diagonal Padé approximant of order 13, scaled and squared
//! (Higham, "The scaling and squaring method for the matrix exponential revisited", 2005).

use super::identity;
use crate::meta::linalg::{check_numbers, check_square};
use crate::{Tensor, op};
use corten_core::{MemoryFormat, Result, Scalar};

/// The coefficients of the approximant.
const COEFFICIENTS: [f64; 14] = [
    64_764_752_532_480_000.0,
    32_382_376_266_240_000.0,
    7_771_770_303_897_600.0,
    1_187_353_796_428_800.0,
    129_060_195_264_000.0,
    10_559_470_521_600.0,
    670_442_572_800.0,
    33_522_128_640.0,
    1_323_241_920.0,
    40_840_800.0,
    960_960.0,
    16_380.0,
    182.0,
    1.0,
];

/// The norm up to which the approximant is exact in double precision.
const RADIUS: f64 = 5.371_920_351_148_152;

/// The exponential of matrices.
///
/// # Errors
/// `Runtime` for other than square matrices, `NotImplemented` for integers.
pub fn linalg_matrix_exp(self_: &Tensor) -> Result<Tensor> {
    check_square(self_, "linalg.matrix_exp")?;
    check_numbers(self_, "linalg.matrix_exp", true)?;
    if self_.numel() == 0 || self_.device().is_meta() {
        return op::clone(self_, Some(MemoryFormat::Contiguous));
    }
    if self_.size(-1)? == 1 {
        return op::clone(&op::exp(self_)?, Some(MemoryFormat::Contiguous));
    }
    let wide = op::to_dtype(self_, self_.dtype().opmath(), false, false, None)?;
    let norms = op::linalg_vector_norm(&wide, Scalar::Int(1), Some(&[-2]), true, None)?;
    let norms = op::amax(&norms, &[-1], true)?;
    let halvings = op::ceil(&op::log2(&op::div_scalar(&norms, Scalar::Float(RADIUS))?)?)?;
    let halvings = op::nan_to_num(&halvings, Some(0.0), Some(0.0), Some(0.0))?;
    let halvings = op::clamp(&halvings, Some(Scalar::Int(0)), Some(Scalar::Int(1100)))?;
    let scaled = op::div_tensor(&wide, &op::exp2(&halvings)?)?;
    let mut result = approximant(&scaled)?;
    let most = op::item(&op::max(&halvings)?)?.to_i64();
    for step in 0..most {
        let squared = op::matmul(&result, &result)?;
        let wanted = op::gt_scalar(&halvings, Scalar::Int(step))?;
        result = op::where_self(&wanted, &squared, &result)?;
    }
    let result = op::to_dtype(&result, self_.dtype(), false, false, None)?;
    op::contiguous(&result, MemoryFormat::Contiguous)
}

fn approximant(a: &Tensor) -> Result<Tensor> {
    let one = identity(a)?;
    let second = op::matmul(a, a)?;
    let fourth = op::matmul(&second, &second)?;
    let sixth = op::matmul(&fourth, &second)?;
    let powers = [&one, &second, &fourth, &sixth];
    let even = polynomial(&powers, &sixth, 0)?;
    let odd = op::matmul(a, &polynomial(&powers, &sixth, 1)?)?;
    let (numerator, denominator) = (
        op::add_tensor(&even, &odd, Scalar::Int(1))?,
        op::sub_tensor(&even, &odd, Scalar::Int(1))?,
    );
    Ok(op::linalg_solve_ex(&denominator, &numerator, true, false)?.0)
}

/// Every second term, from `first` on, of the polynomial in the squares.
fn polynomial(powers: &[&Tensor; 4], sixth: &Tensor, first: usize) -> Result<Tensor> {
    let term = |power: usize| Scalar::Float(COEFFICIENTS[2 * power + first]);
    let mut high = op::mul_scalar(powers[1], term(4))?;
    high = op::add_tensor(&high, &op::mul_scalar(powers[2], term(5))?, Scalar::Int(1))?;
    high = op::add_tensor(&high, &op::mul_scalar(powers[3], term(6))?, Scalar::Int(1))?;
    let mut sum = op::matmul(sixth, &high)?;
    for (power, matrix) in powers.iter().enumerate() {
        sum = op::add_tensor(&sum, &op::mul_scalar(matrix, term(power))?, Scalar::Int(1))?;
    }
    Ok(sum)
}
