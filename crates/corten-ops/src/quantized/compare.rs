//! Comparisons of what the integers stand for.

use crate::{Tensor, op};
use corten_core::{DType, Result, ensure};

/// What the integers stand for, or the tensor itself where it is not quantised.
fn floats(tensor: &Tensor) -> Result<Tensor> {
    if tensor.is_quantized() { op::dequantize_self(tensor) } else { Ok(tensor.clone()) }
}

fn check_out(out: &Tensor) -> Result<()> {
    ensure!(out.dtype() == DType::Bool, Runtime, "The 'out' tensor must have dtype 'torch.bool'");
    Ok(())
}

macro_rules! comparisons {
    ($($name:ident $out:ident: $op:ident $op_out:ident, $doc:literal;)+) => {$(
        #[doc = $doc]
        ///
        /// # Errors
        /// Those of the comparison of floats.
        pub fn $name(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
            op::$op(&floats(self_)?, &floats(other)?)
        }

        #[doc = concat!("[`", stringify!($name), "`] into a tensor.")]
        ///
        /// # Errors
        /// As there.
        pub fn $out(self_: &Tensor, other: &Tensor, out: &Tensor) -> Result<Tensor> {
            check_out(out)?;
            op::$op_out(&floats(self_)?, &floats(other)?, out)
        }
    )+};
}

comparisons! {
    eq eq_out: eq_tensor eq_tensor_out, "Whether elements are equal.";
    ne ne_out: ne_tensor ne_tensor_out, "Whether elements differ.";
    lt lt_out: lt_tensor lt_tensor_out, "Whether elements are less.";
    le le_out: le_tensor le_tensor_out, "Whether elements are not greater.";
    gt gt_out: gt_tensor gt_tensor_out, "Whether elements are greater.";
    ge ge_out: ge_tensor ge_tensor_out, "Whether elements are not less.";
}
