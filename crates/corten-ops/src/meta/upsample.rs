//! Shapes of resampled images.

use crate::Tensor;
use corten_core::{Result, TensorBase, TensorOptions, ensure};

const NAMES: [&str; 3] = ["D", "H", "W"];

fn listed(sizes: &[i64]) -> String {
    let names = &NAMES[3 - sizes.len().min(3)..];
    let parts: Vec<String> =
        names.iter().zip(sizes).map(|(name, size)| format!("{name}: {size}")).collect();
    parts.join(", ")
}

/// The full shape of the result.
///
/// # Errors
/// `Runtime` for ranks and sizes that do not fit.
pub fn shape(input: &[i64], output: &[i64], rank: usize) -> Result<Vec<i64>> {
    ensure!(
        output.len() == rank,
        Runtime,
        "It is expected output_size equals to {rank}, but got size {}",
        output.len()
    );
    ensure!(
        input.len() == rank + 2,
        Runtime,
        "It is expected input_size equals to {}, but got size {}",
        rank + 2,
        input.len()
    );
    ensure!(
        input[2..].iter().chain(output).all(|&size| size > 0),
        Runtime,
        "Input and output sizes should be greater than 0, but got input ({}){} output ({})",
        listed(&input[2..]),
        if rank == 1 { " and" } else { "" },
        listed(output)
    );
    Ok([&input[..2], output].concat())
}

/// The result without its data, laid out as the input is.
///
/// # Errors
/// As for [`shape`]; `Runtime` for inputs without elements.
pub fn result(input: &Tensor, output: &[i64], rank: usize) -> Result<Tensor> {
    let sizes = input.sizes();
    let shape = shape(&sizes, output, rank)?;
    ensure!(
        input.numel() != 0 || sizes[1..].iter().all(|&size| size != 0),
        Runtime,
        "Non-empty {}D data tensor expected but got a tensor with sizes {:?}",
        rank + 2,
        sizes.as_slice()
    );
    like(input, &shape)
}

/// The gradient of the input without its data.
///
/// # Errors
/// As for [`shape`]; `Runtime` for a gradient of another shape than the result's.
pub fn gradient(grad: &Tensor, output: &[i64], input: &[i64], rank: usize) -> Result<Tensor> {
    let shape = shape(input, output, rank)?;
    ensure!(
        grad.dim() == rank + 2,
        Runtime,
        "Expected grad_output to be a tensor of dimension {} but got: dimension {}",
        rank + 2,
        grad.dim()
    );
    for (i, (&size, &found)) in shape.iter().zip(grad.sizes().iter()).enumerate() {
        ensure!(
            size == found,
            Runtime,
            "Expected grad_output to have the same shape as output; output.size({i}) = {size} but \
             got grad_output.size({i}) = {found}"
        );
    }
    like(grad, input)
}

fn like(tensor: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let options = TensorOptions::new().dtype(tensor.dtype()).device(tensor.device());
    Ok(TensorBase::empty(sizes, options.memory_format(tensor.suggest_memory_format()))?.into())
}

/// Defines the shape functions of one operator and of its gradient.
macro_rules! shapes {
    ($($name:ident $backward:ident $rank:literal ($($x:ident: $t:ty),*);)+) => {$(
        /// The result without its data.
        ///
        /// # Errors
        /// `Runtime` for ranks and sizes that do not fit.
        pub fn $name(self_: &Tensor, output_size: &[i64] $(, $x: $t)*) -> Result<Tensor> {
            $(let _ = $x;)*
            result(self_, output_size, $rank)
        }

        /// The gradient without its data.
        ///
        /// # Errors
        /// `Runtime` for ranks and sizes that do not fit.
        pub fn $backward(
            grad_output: &Tensor,
            output_size: &[i64],
            input_size: &[i64]
            $(, $x: $t)*
        ) -> Result<Tensor> {
            $(let _ = $x;)*
            gradient(grad_output, output_size, input_size, $rank)
        }
    )+};
}

shapes! {
    plain1d plain1d_backward 1 (scale: Option<f64>);
    plain2d plain2d_backward 2 (h: Option<f64>, w: Option<f64>);
    plain3d plain3d_backward 3 (d: Option<f64>, h: Option<f64>, w: Option<f64>);
    aligned1d aligned1d_backward 1 (align: bool, scale: Option<f64>);
    aligned2d aligned2d_backward 2 (align: bool, h: Option<f64>, w: Option<f64>);
    aligned3d aligned3d_backward 3 (align: bool, d: Option<f64>, h: Option<f64>, w: Option<f64>);
}
