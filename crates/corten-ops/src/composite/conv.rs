//! Convolutions by rank, of single samples, and with padding by name.

use crate::{Tensor, op};
use corten_core::{Dims, Result, Scalar, ensure};

/// `convolution` with the choices of a GPU library, which are ignored.
///
/// # Errors
/// Those of `convolution`.
pub fn _convolution(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    transposed: bool,
    output_padding: &[i64],
    groups: i64,
    _benchmark: bool,
    _deterministic: bool,
    _cudnn_enabled: bool,
    _allow_tf32: bool,
) -> Result<Tensor> {
    op::convolution(
        input,
        weight,
        bias,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
    )
}

/// Convolution with padding by name.
///
/// # Errors
/// `Runtime` for an unknown name or a strided convolution with `same`.
pub fn _convolution_mode(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &str,
    dilation: &[i64],
    groups: i64,
) -> Result<Tensor> {
    match padding {
        "valid" => convolution(input, weight, bias, stride, &[0], dilation, groups),
        "same" => same(input, weight, bias, stride, dilation, groups),
        _ => corten_core::bail!(Runtime, "Invalid padding string: '{padding}'"),
    }
}

fn convolution(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    groups: i64,
) -> Result<Tensor> {
    let output_padding = &[0, 0, 0][..weight.dim().saturating_sub(2).clamp(1, 3)];
    op::convolution(input, weight, bias, stride, padding, dilation, false, output_padding, groups)
}

/// The output has the size of the input. What cannot be padded on both sides alike is padded on
/// the right.
fn same(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    dilation: &[i64],
    groups: i64,
) -> Result<Tensor> {
    let (rank, kernel) = (weight.dim(), weight.sizes());
    ensure!(
        rank > 2 && input.dim() == rank,
        Runtime,
        "Expected {rank}-dimensional input for {rank}-dimensional weight, but got {}-dimensional \
         input of size {:?} instead",
        input.dim(),
        input.sizes().as_slice()
    );
    let spatial = rank - 2;
    ensure!(
        (stride.len() == spatial || stride.len() == 1) && !stride.is_empty(),
        Runtime,
        "stride cannot broadcast to {spatial} dimensions"
    );
    ensure!(
        (dilation.len() == spatial || dilation.len() == 1) && !dilation.is_empty(),
        Runtime,
        "dilation cannot broadcast to {spatial} dimensions"
    );
    ensure!(
        stride.iter().all(|&step| step == 1),
        Runtime,
        "padding='same' is not supported for strided convolutions"
    );
    let total = |axis: usize| {
        let dilation = if dilation.len() == 1 { dilation[0] } else { dilation[axis] };
        dilation * (kernel[axis + 2] - 1)
    };
    let padding: Dims = (0..spatial).map(|axis| total(axis) / 2).collect();
    if (0..spatial).all(|axis| total(axis) % 2 == 0) {
        return convolution(input, weight, bias, stride, &padding, dilation, groups);
    }
    // Pads are listed from the last dimension on, left and right.
    let extra: Vec<i64> = (0..spatial).rev().flat_map(|axis| [0, total(axis) % 2]).collect();
    let padded = op::constant_pad_nd(input, &extra, Scalar::Int(0))?;
    convolution(&padded, weight, bias, stride, &padding, dilation, groups)
}

/// Calls `f` with a batch: the input, or the only sample of one.
fn batchwise(
    input: &Tensor,
    rank: usize,
    name: &str,
    f: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let found = input.dim();
    ensure!(
        found == rank + 1 || found == rank + 2,
        Runtime,
        "Expected {}D (unbatched) or {}D (batched) input to {name}, but got input of size: {:?}",
        rank + 1,
        rank + 2,
        input.sizes().as_slice()
    );
    if found == rank + 2 {
        return f(input);
    }
    op::squeeze_dim(&f(&op::unsqueeze(input, 0)?)?, 0)
}

macro_rules! convolutions {
    ($($name:ident, $with_padding:ident, $transposed:ident, $rank:literal, $text:literal, $transposed_text:literal;)*) => {$(
        #[doc = concat!("Convolution of ", $text, " or of a batch of them.")]
        ///
        /// # Errors
        /// Those of `convolution`.
        pub fn $name(
            input: &Tensor,
            weight: &Tensor,
            bias: Option<&Tensor>,
            stride: &[i64],
            padding: &[i64],
            dilation: &[i64],
            groups: i64,
        ) -> Result<Tensor> {
            batchwise(input, $rank, stringify!($name), |input| {
                convolution(input, weight, bias, stride, padding, dilation, groups)
            })
        }

        #[doc = concat!("Convolution of ", $text, " with padding by name.")]
        ///
        /// # Errors
        /// Those of `_convolution_mode`.
        pub fn $with_padding(
            input: &Tensor,
            weight: &Tensor,
            bias: Option<&Tensor>,
            stride: &[i64],
            padding: &str,
            dilation: &[i64],
            groups: i64,
        ) -> Result<Tensor> {
            batchwise(input, $rank, stringify!($name), |input| {
                op::_convolution_mode(input, weight, bias, stride, padding, dilation, groups)
            })
        }

        #[doc = concat!("Transposed convolution of ", $text, " or of a batch of them.")]
        ///
        /// # Errors
        /// Those of `convolution`.
        pub fn $transposed(
            input: &Tensor,
            weight: &Tensor,
            bias: Option<&Tensor>,
            stride: &[i64],
            padding: &[i64],
            output_padding: &[i64],
            groups: i64,
            dilation: &[i64],
        ) -> Result<Tensor> {
            batchwise(input, $rank, $transposed_text, |input| {
                op::convolution(
                    input, weight, bias, stride, padding, dilation, true, output_padding, groups,
                )
            })
        }
    )*};
}

convolutions! {
    conv1d, conv1d_padding, conv_transpose1d, 1, "a signal", "conv_transpose1d";
    conv2d, conv2d_padding, conv_transpose2d, 2, "an image", "conv_transpose2d";
    conv3d, conv3d_padding, conv_transpose3d, 3, "a volume", "conv_transpose3d";
}
