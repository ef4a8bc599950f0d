//! One operator for every tensor of a list: `_foreach_*`.

use crate::joint::jointly;
use crate::{Tensor, op};
use corten_core::{DType, MemoryFormat, Result, Scalar, ensure};

const ONE: Scalar = Scalar::Int(1);

fn some(list: &[Tensor]) -> Result<()> {
    ensure!(!list.is_empty(), Runtime, "Tensor list must have at least one tensor.");
    Ok(())
}

/// Fails unless there are as many of each.
fn as_many(list: &[Tensor], other: &[Tensor]) -> Result<()> {
    some(list)?;
    ensure!(
        list.len() == other.len(),
        Runtime,
        "Tensor lists must have the same number of tensors, got {} and {}",
        list.len(),
        other.len()
    );
    Ok(())
}

fn as_many_numbers(list: &[Tensor], numbers: &[Scalar]) -> Result<()> {
    some(list)?;
    ensure!(
        list.len() == numbers.len(),
        Runtime,
        "Tensor list must have same number of elements as scalar list."
    );
    Ok(())
}

/// The numbers in a vector, one for each tensor.
fn numbers_of(list: &[Tensor], numbers: &Tensor) -> Result<Vec<Scalar>> {
    ensure!(
        numbers.device().is_cpu(),
        Runtime,
        "Expected scalars to be on CPU, got {} instead.",
        numbers.device()
    );
    ensure!(numbers.is_contiguous(), Runtime, "Expected scalars to be contiguous.");
    ensure!(
        numbers.dim() == 1,
        Runtime,
        "Expected packed scalar Tensor to be of dimension 1. Got {} instead.",
        numbers.dim()
    );
    ensure!(
        numbers.numel() == list.len() as i64,
        Runtime,
        "Expected length of scalars to match input of length {} but got {} instead.",
        list.len(),
        numbers.numel()
    );
    op::unbind_int(numbers, 0)?.iter().map(op::item).collect()
}

macro_rules! unary {
    ($($name:ident $name_:ident;)+) => {$(
        #[doc = concat!("`", stringify!($name), "` of every tensor.")]
        ///
        /// # Errors
        /// Those of the operator; `Runtime` without tensors.
        pub fn $name(self_: &[Tensor]) -> Result<Vec<Tensor>> {
            some(self_)?;
            jointly(self_, || self_.iter().map(op::$name).collect())
        }

        #[doc = concat!("`", stringify!($name_), "` of every tensor.")]
        ///
        /// # Errors
        /// Those of the operator; `Runtime` without tensors.
        pub fn $name_(self_: &[Tensor]) -> Result<()> {
            some(self_)?;
            jointly(self_, || self_.iter().try_for_each(|tensor| op::$name_(tensor).map(drop)))
        }
    )+};
}

unary! {
    abs abs_; acos acos_; asin asin_; atan atan_; ceil ceil_; cos cos_; cosh cosh_; erf erf_;
    erfc erfc_; exp exp_; expm1 expm1_; floor floor_; frac frac_; lgamma lgamma_; log log_;
    log10 log10_; log1p log1p_; log2 log2_; neg neg_; reciprocal reciprocal_; round round_;
    rsqrt rsqrt_; sigmoid sigmoid_; sign sign_; sin sin_; sinh sinh_; sqrt sqrt_; tan tan_;
    tanh tanh_; trunc trunc_;
}

/// Operators of a tensor and a number: with one number and with a number for each tensor.
macro_rules! with_number {
    ($($scalar:ident $scalar_:ident $list:ident $list_:ident: $run:expr, $run_:expr;)+) => {$(
        #[doc = concat!("`", stringify!($scalar), "` of every tensor.")]
        ///
        /// # Errors
        /// Those of the operator; `Runtime` for an empty list.
        pub fn $scalar(self_: &[Tensor], scalar: Scalar) -> Result<Vec<Tensor>> {
            some(self_)?;
            let run: fn(&Tensor, Scalar) -> Result<Tensor> = $run;
            jointly(self_, || self_.iter().map(|tensor| run(tensor, scalar)).collect())
        }

        #[doc = concat!("`", stringify!($scalar), "` of every tensor, in place.")]
        ///
        /// # Errors
        /// As there.
        pub fn $scalar_(self_: &[Tensor], scalar: Scalar) -> Result<()> {
            some(self_)?;
            let run: fn(&Tensor, Scalar) -> Result<Tensor> = $run_;
            jointly(self_, || self_.iter().try_for_each(|tensor| run(tensor, scalar).map(drop)))
        }

        #[doc = concat!("`", stringify!($list), "` of every tensor and its number.")]
        ///
        /// # Errors
        /// Those of the operator; `Runtime` for lists that do not fit.
        pub fn $list(self_: &[Tensor], scalars: &[Scalar]) -> Result<Vec<Tensor>> {
            as_many_numbers(self_, scalars)?;
            let run: fn(&Tensor, Scalar) -> Result<Tensor> = $run;
            jointly(self_, || self_.iter().zip(scalars).map(|(tensor, &scalar)| run(tensor, scalar)).collect())
        }

        #[doc = concat!("`", stringify!($list), "` of every tensor and its number, in place.")]
        ///
        /// # Errors
        /// As there.
        pub fn $list_(self_: &[Tensor], scalars: &[Scalar]) -> Result<()> {
            as_many_numbers(self_, scalars)?;
            let run: fn(&Tensor, Scalar) -> Result<Tensor> = $run_;
            let mut pairs = self_.iter().zip(scalars);
            jointly(self_, || pairs.try_for_each(|(tensor, &scalar)| run(tensor, scalar).map(drop)))
        }
    )+};
}

with_number! {
    add_scalar add_scalar_ add_scalarlist add_scalarlist_:
        |x, y| op::add_scalar(x, y, ONE), |x, y| op::add__scalar(x, y, ONE);
    sub_scalar sub_scalar_ sub_scalarlist sub_scalarlist_:
        |x, y| op::sub_scalar(x, y, ONE), |x, y| op::sub__scalar(x, y, ONE);
    mul_scalar mul_scalar_ mul_scalarlist mul_scalarlist_: op::mul_scalar, op::mul__scalar;
    div_scalar div_scalar_ div_scalarlist div_scalarlist_: op::div_scalar, op::div__scalar;
    clamp_min_scalar clamp_min_scalar_ clamp_min_scalarlist clamp_min_scalarlist_:
        op::clamp_min, op::clamp_min_;
    clamp_max_scalar clamp_max_scalar_ clamp_max_scalarlist clamp_max_scalarlist_:
        op::clamp_max, op::clamp_max_;
    pow_scalar pow_scalar_ pow_scalarlist pow_scalarlist_: op::pow_tensor_scalar, op::pow__scalar;
}

/// Operators of two lists.
macro_rules! with_list {
    ($($list:ident $list_:ident: $run:expr, $run_:expr;)+) => {$(
        #[doc = concat!("`", stringify!($list), "` of the tensors of two lists.")]
        ///
        /// # Errors
        /// Those of the operator; `Runtime` for lists that do not fit.
        pub fn $list(self_: &[Tensor], other: &[Tensor]) -> Result<Vec<Tensor>> {
            as_many(self_, other)?;
            let run: fn(&Tensor, &Tensor) -> Result<Tensor> = $run;
            jointly(self_, || self_.iter().zip(other).map(|(x, y)| run(x, y)).collect())
        }

        #[doc = concat!("`", stringify!($list), "` of the tensors of two lists, in place.")]
        ///
        /// # Errors
        /// As there.
        pub fn $list_(self_: &[Tensor], other: &[Tensor]) -> Result<()> {
            as_many(self_, other)?;
            let run: fn(&Tensor, &Tensor) -> Result<Tensor> = $run_;
            jointly(self_, || self_.iter().zip(other).try_for_each(|(x, y)| run(x, y).map(drop)))
        }
    )+};
}

with_list! {
    mul_list mul_list_: op::mul_tensor, op::mul__tensor;
    div_list div_list_: op::div_tensor, op::div__tensor;
    clamp_min_list clamp_min_list_: op::clamp_min_tensor, op::clamp_min__tensor;
    clamp_max_list clamp_max_list_: op::clamp_max_tensor, op::clamp_max__tensor;
    pow_list pow_list_: op::pow_tensor_tensor, op::pow__tensor;
}

/// Sums and differences of the tensors of two lists, and of every tensor with one number.
macro_rules! with_alpha {
    ($($list:ident $list_:ident: $run:ident, $run_:ident;)+) => {$(
        #[doc = concat!("`", stringify!($run), "` of the tensors of two lists.")]
        ///
        /// # Errors
        /// Those of the operator; `Runtime` for lists that do not fit.
        pub fn $list(self_: &[Tensor], other: &[Tensor], alpha: Scalar) -> Result<Vec<Tensor>> {
            as_many(self_, other)?;
            jointly(self_, || self_.iter().zip(other).map(|(x, y)| op::$run(x, y, alpha)).collect())
        }

        #[doc = concat!("`", stringify!($run_), "` of the tensors of two lists.")]
        ///
        /// # Errors
        /// As there.
        pub fn $list_(self_: &[Tensor], other: &[Tensor], alpha: Scalar) -> Result<()> {
            as_many(self_, other)?;
            jointly(self_, || self_.iter().zip(other).try_for_each(|(x, y)| op::$run_(x, y, alpha).map(drop)))
        }
    )+};
}

with_alpha! {
    add_list add_list_: add_tensor, add__tensor;
    sub_list sub_list_: sub_tensor, sub__tensor;
}

fn check_number(number: &Tensor) -> Result<()> {
    ensure!(
        number.dim() == 0 && number.numel() == 1,
        Runtime,
        "scalar tensor expected to be 0 dim but it has {} dimensions and {} elements.",
        number.dim(),
        number.numel()
    );
    Ok(())
}

/// A tensor of rank 0 added to every tensor.
///
/// # Errors
/// Those of the operator; `Runtime` for an empty list and another rank; below likewise.
pub fn add_tensor(self_: &[Tensor], other: &Tensor, alpha: Scalar) -> Result<Vec<Tensor>> {
    check_number(other)?;
    some(self_)?;
    jointly(self_, || self_.iter().map(|x| op::add_tensor(x, other, alpha)).collect())
}

/// A tensor of rank 0 added to every tensor, in place.
pub fn add_tensor_(self_: &[Tensor], other: &Tensor, alpha: Scalar) -> Result<()> {
    check_number(other)?;
    some(self_)?;
    jointly(self_, || self_.iter().try_for_each(|x| op::add__tensor(x, other, alpha).map(drop)))
}

macro_rules! with_one_tensor {
    ($($name:ident $name_:ident: $run_:ident;)+) => {$(
        #[doc = concat!("`", stringify!($name), "` of every tensor with one of rank 0.")]
        ///
        /// # Errors
        /// As for [`add_tensor`].
        pub fn $name(self_: &[Tensor], other: &Tensor) -> Result<Vec<Tensor>> {
            check_number(other)?;
            some(self_)?;
            jointly(self_, || self_.iter().map(|x| op::$name(x, other)).collect())
        }

        #[doc = concat!("`", stringify!($name_), "` of every tensor with one of rank 0.")]
        ///
        /// # Errors
        /// As for [`add_tensor`].
        pub fn $name_(self_: &[Tensor], other: &Tensor) -> Result<()> {
            check_number(other)?;
            some(self_)?;
            jointly(self_, || self_.iter().try_for_each(|x| op::$run_(x, other).map(drop)))
        }
    )+};
}

with_one_tensor! { mul_tensor mul_tensor_: mul__tensor; div_tensor div_tensor_: div__tensor; }

/// Powers of one number.
///
/// # Errors
/// Those of the operator; `Runtime` for an empty list.
pub fn pow_scalarandtensor(self_: Scalar, exponent: &[Tensor]) -> Result<Vec<Tensor>> {
    some(exponent)?;
    jointly(exponent, || exponent.iter().map(|exponent| op::pow_scalar(self_, exponent)).collect())
}

/// `addcmul` and `addcdiv` with one factor, a factor for each tensor, and these in a tensor.
macro_rules! with_product {
    ($($scalar:ident $scalar_:ident $list:ident $list_:ident $tensor:ident $tensor_:ident:
        $run:ident $run_:ident;)+) => {$(
        #[doc = concat!("`", stringify!($run), "` of the tensors of three lists.")]
        ///
        /// # Errors
        /// Those of the operator; `Runtime` for lists that do not fit; below likewise.
        pub fn $scalar(
            self_: &[Tensor],
            tensor1: &[Tensor],
            tensor2: &[Tensor],
            value: Scalar,
        ) -> Result<Vec<Tensor>> {
            $list(self_, tensor1, tensor2, &vec![value; self_.len()])
        }

        #[doc = concat!("`", stringify!($run_), "` of the tensors of three lists.")]
        pub fn $scalar_(
            self_: &[Tensor],
            tensor1: &[Tensor],
            tensor2: &[Tensor],
            value: Scalar,
        ) -> Result<()> {
            $list_(self_, tensor1, tensor2, &vec![value; self_.len()])
        }

        #[doc = concat!("`", stringify!($run), "` of the tensors of three lists and their factors.")]
        pub fn $list(
            self_: &[Tensor],
            tensor1: &[Tensor],
            tensor2: &[Tensor],
            scalars: &[Scalar],
        ) -> Result<Vec<Tensor>> {
            as_many(self_, tensor1)?;
            as_many(self_, tensor2)?;
            as_many_numbers(self_, scalars)?;
            let operands = self_.iter().zip(tensor1).zip(tensor2).zip(scalars);
            jointly(self_, || operands.map(|(((x, a), b), &value)| op::$run(x, a, b, value)).collect())
        }

        #[doc = concat!("`", stringify!($run_), "` of the tensors of three lists and their factors.")]
        pub fn $list_(
            self_: &[Tensor],
            tensor1: &[Tensor],
            tensor2: &[Tensor],
            scalars: &[Scalar],
        ) -> Result<()> {
            as_many(self_, tensor1)?;
            as_many(self_, tensor2)?;
            as_many_numbers(self_, scalars)?;
            let mut operands = self_.iter().zip(tensor1).zip(tensor2).zip(scalars);
            jointly(self_, || operands.try_for_each(|(((x, a), b), &value)| op::$run_(x, a, b, value).map(drop)))
        }

        #[doc = concat!("`", stringify!($run), "` with the factors in a vector.")]
        pub fn $tensor(
            self_: &[Tensor],
            tensor1: &[Tensor],
            tensor2: &[Tensor],
            scalars: &Tensor,
        ) -> Result<Vec<Tensor>> {
            $list(self_, tensor1, tensor2, &numbers_of(self_, scalars)?)
        }

        #[doc = concat!("`", stringify!($run_), "` with the factors in a vector.")]
        pub fn $tensor_(
            self_: &[Tensor],
            tensor1: &[Tensor],
            tensor2: &[Tensor],
            scalars: &Tensor,
        ) -> Result<()> {
            $list_(self_, tensor1, tensor2, &numbers_of(self_, scalars)?)
        }
    )+};
}

with_product! {
    addcmul_scalar addcmul_scalar_ addcmul_scalarlist addcmul_scalarlist_ addcmul_tensor
        addcmul_tensor_: addcmul addcmul_;
    addcdiv_scalar addcdiv_scalar_ addcdiv_scalarlist addcdiv_scalarlist_ addcdiv_tensor
        addcdiv_tensor_: addcdiv addcdiv_;
}

/// `lerp` of the tensors of three lists.
///
/// # Errors
/// Those of the operator; `Runtime` for lists that do not fit; below likewise.
pub fn lerp_list(self_: &[Tensor], tensors1: &[Tensor], weights: &[Tensor]) -> Result<Vec<Tensor>> {
    as_many(self_, tensors1)?;
    as_many(self_, weights)?;
    let operands = self_.iter().zip(tensors1).zip(weights);
    jointly(self_, || operands.map(|((x, end), weight)| op::lerp_tensor(x, end, weight)).collect())
}

/// [`lerp_list`] in place.
pub fn lerp_list_(self_: &[Tensor], tensors1: &[Tensor], weights: &[Tensor]) -> Result<()> {
    as_many(self_, tensors1)?;
    as_many(self_, weights)?;
    let mut operands = self_.iter().zip(tensors1).zip(weights);
    jointly(self_, || {
        operands.try_for_each(|((x, end), weight)| op::lerp__tensor(x, end, weight).map(drop))
    })
}

/// `lerp` with one weight.
pub fn lerp_scalar(self_: &[Tensor], tensors1: &[Tensor], weight: Scalar) -> Result<Vec<Tensor>> {
    lerp_scalarlist(self_, tensors1, &vec![weight; self_.len()])
}

/// [`lerp_scalar`] in place.
pub fn lerp_scalar_(self_: &[Tensor], tensors1: &[Tensor], weight: Scalar) -> Result<()> {
    lerp_scalarlist_(self_, tensors1, &vec![weight; self_.len()])
}

/// `lerp` with a weight for each tensor.
pub fn lerp_scalarlist(
    self_: &[Tensor],
    tensors1: &[Tensor],
    weight: &[Scalar],
) -> Result<Vec<Tensor>> {
    as_many(self_, tensors1)?;
    as_many_numbers(self_, weight)?;
    let operands = self_.iter().zip(tensors1).zip(weight);
    jointly(self_, || operands.map(|((x, end), &weight)| op::lerp_scalar(x, end, weight)).collect())
}

/// [`lerp_scalarlist`] in place.
pub fn lerp_scalarlist_(self_: &[Tensor], tensors1: &[Tensor], weight: &[Scalar]) -> Result<()> {
    as_many(self_, tensors1)?;
    as_many_numbers(self_, weight)?;
    let mut operands = self_.iter().zip(tensors1).zip(weight);
    jointly(self_, || {
        operands.try_for_each(|((x, end), &weight)| op::lerp__scalar(x, end, weight).map(drop))
    })
}

/// The greatest element of every tensor.
///
/// # Errors
/// Those of `max`; `Runtime` for an empty list.
pub fn max(self_: &[Tensor]) -> Result<Vec<Tensor>> {
    some(self_)?;
    jointly(self_, || self_.iter().map(op::max).collect())
}

/// The norm of every tensor.
///
/// # Errors
/// Those of `linalg_vector_norm`; `Runtime` for an empty list.
pub fn norm_scalar(self_: &[Tensor], ord: Scalar, dtype: Option<DType>) -> Result<Vec<Tensor>> {
    some(self_)?;
    jointly(self_, || {
        self_.iter().map(|x| op::linalg_vector_norm(x, ord, None, false, dtype)).collect()
    })
}

/// The products of the matrices of two lists.
///
/// # Errors
/// Those of `mm`; `Runtime` for lists that do not fit.
pub fn mm(self_: &[Tensor], mat2: &[Tensor]) -> Result<Vec<Tensor>> {
    as_many(self_, mat2)?;
    jointly(self_, || self_.iter().zip(mat2).map(|(a, b)| op::mm(a, b)).collect())
}

/// A copy of every tensor.
///
/// # Errors
/// Those of `clone`; `Runtime` for an empty list.
pub fn clone(self_: &[Tensor], memory_format: Option<MemoryFormat>) -> Result<Vec<Tensor>> {
    some(self_)?;
    jointly(self_, || self_.iter().map(|tensor| op::clone(tensor, memory_format)).collect())
}

/// Copies every tensor of another list.
///
/// # Errors
/// Those of `copy_`; `Runtime` for lists that do not fit.
pub fn copy_(self_: &[Tensor], src: &[Tensor], non_blocking: bool) -> Result<()> {
    as_many(self_, src)?;
    jointly(self_, || {
        self_.iter().zip(src).try_for_each(|(x, src)| op::copy_(x, src, non_blocking).map(drop))
    })
}

/// Every tensor of another list with the shape and dtype of these.
///
/// # Errors
/// As for [`copy_`].
pub fn copy(self_: &[Tensor], src: &[Tensor], non_blocking: bool) -> Result<Vec<Tensor>> {
    as_many(self_, src)?;
    let pairs = self_.iter().zip(src);
    jointly(self_, || {
        pairs.map(|(x, src)| op::copy_(&op::clone(x, None)?, src, non_blocking)).collect()
    })
}

/// Zeros in place of every tensor.
///
/// # Errors
/// Those of `zero_`; `Runtime` for an empty list.
pub fn zero_(self_: &[Tensor]) -> Result<()> {
    some(self_)?;
    jointly(self_, || self_.iter().try_for_each(|tensor| op::zero_(tensor).map(drop)))
}

/// Zeros like every tensor.
///
/// # Errors
/// As for [`zero_`].
pub fn zero(self_: &[Tensor]) -> Result<Vec<Tensor>> {
    some(self_)?;
    jointly(self_, || {
        self_.iter().map(|tensor| op::zeros_like(tensor, None, None, None, None, None)).collect()
    })
}
