//! Comparing gradients with difference quotients.

use crate::api::{self, BackwardOptions};
use crate::graph;
use crate::modes::no_grad;
use crate::tensor_ext::Autograd;
use corten_core::{
    Complex, DType, GradModeGuard, Reader, Result, TensorOptions, Writer, bail, ensure,
    try_collect, try_to_vec, try_vec,
};
use corten_ops::{Tensor, op};

/// The tolerances of a check.
///
/// ```
/// use corten::autograd::gradcheck::{GradcheckOptions, gradcheck};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let x = tensor![0.5, 2.0; DType::Float64]?.requires_grad_(true)?;
/// let options = GradcheckOptions { atol: 1e-6, ..Default::default() };
/// gradcheck(|inputs| Ok(vec![op::exp(&inputs[0])?]), &[x], options)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct GradcheckOptions {
    /// The step of the difference quotient.
    pub eps: f64,
    /// The absolute tolerance.
    pub atol: f64,
    /// The relative tolerance.
    pub rtol: f64,
    /// How far two analytical gradients may differ.
    pub nondet_tol: f64,
}

impl Default for GradcheckOptions {
    fn default() -> Self {
        Self { eps: 1e-6, atol: 1e-5, rtol: 1e-3, nondet_tol: 0.0 }
    }
}

type Values = Vec<Complex<f64>>;

/// Checks the gradients of `function` at `inputs` against central differences.
///
/// Inputs that require a gradient must be of dtype float64 or complex128. Complex functions are
/// checked in both directions of every element: with gradient $v$ of the output, the gradient $g$
/// of an input must satisfy $\mathrm{Re}(\bar g\,d) = \mathrm{Re}(\bar v\,df)$ for every
/// direction $d$.
///
/// # Errors
/// When they differ, with both values, and whatever `function` raises.
pub fn gradcheck(
    function: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    options: GradcheckOptions,
) -> Result<()> {
    check_inputs(inputs)?;
    let outputs = function(inputs)?;
    let differentiable = |output: &&Tensor| graph::requires_grad(output);
    let indices: Vec<usize> =
        (0..outputs.len()).filter(|&i| differentiable(&&outputs[i])).collect();
    for (nr, input) in inputs.iter().enumerate().filter(|(_, t)| graph::requires_grad(t)) {
        let numerical = numerical_jacobian(&function, inputs, nr, &indices, options.eps)?;
        for (&index, columns) in indices.iter().zip(&numerical) {
            let check = Check { input, nr, output: &outputs[index], index, options };
            check.compare(columns)?;
        }
    }
    check_undefined(&outputs, inputs)
}

/// Checks the second derivatives of `function` at `inputs`: [`gradcheck`] of its gradient.
///
/// # Errors
/// As [`gradcheck`].
pub fn gradgradcheck(
    function: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    options: GradcheckOptions,
) -> Result<()> {
    let outputs = function(inputs)?;
    let kept: Vec<usize> =
        (0..outputs.len()).filter(|&i| graph::requires_grad(&outputs[i])).collect();
    let grads = kept.iter().map(|&index| pattern_like(&outputs[index])?.requires_grad_(true));
    let mut all = inputs.to_vec();
    all.extend(grads.collect::<Result<Vec<_>>>()?);
    let count = inputs.len();
    let wanted: Vec<usize> = (0..count).filter(|&i| graph::requires_grad(&inputs[i])).collect();
    let gradient = |all: &[Tensor]| {
        let (inputs, grads) = all.split_at(count);
        let mut inputs = inputs.to_vec();
        for &index in wanted.iter().filter(|_| !corten_core::grad_mode_enabled()) {
            // The difference quotient evaluates without recording; the gradient needs a record.
            inputs[index] = graph::detached_alias(&inputs[index])?.requires_grad_(true)?;
        }
        let _mode = GradModeGuard::new(true);
        let outputs = function(&inputs)?;
        let outputs: Vec<Tensor> = kept.iter().map(|&index| outputs[index].clone()).collect();
        let wanted: Vec<Tensor> = wanted.iter().map(|&index| inputs[index].clone()).collect();
        let grads: Vec<_> = grads.iter().cloned().map(Some).collect();
        let options = BackwardOptions { retain_graph: None, create_graph: true };
        let found = api::grad(&outputs, &wanted, Some(&grads), options, Some(true), false)?;
        Ok(found.into_iter().flatten().collect())
    };
    gradcheck(gradient, &all, options)
}

fn check_inputs(inputs: &[Tensor]) -> Result<()> {
    ensure!(
        inputs.iter().any(|input| graph::requires_grad(input)),
        Value,
        "gradcheck expects at least one input tensor to require gradient, but none of the them \
         have requires_grad=True."
    );
    for (nr, input) in inputs.iter().enumerate().filter(|(_, input)| graph::requires_grad(input)) {
        ensure!(
            matches!(input.dtype(), DType::Float64 | DType::Complex128),
            Value,
            "Input #{nr} requires gradient and is not a double precision floating point or complex."
        );
        ensure!(
            input.is_non_overlapping_and_dense() || !input.strides().contains(&0),
            Runtime,
            "The {nr}th input has a dimension with stride 0. gradcheck only supports inputs that \
             are non-overlapping to be able to compute the numerical gradients correctly. You \
             should call .contiguous on the input before passing it to gradcheck."
        );
    }
    Ok(())
}

/// The elements in row-major order.
fn values(tensor: &Tensor) -> Result<Values> {
    no_grad(|| {
        let tensor = op::resolve_neg(&op::resolve_conj(&graph::detached_alias(tensor)?)?)?;
        let complex = op::to_dtype(&tensor, DType::Complex128, false, false, None)?;
        let complex = op::contiguous(&complex, corten_core::MemoryFormat::Contiguous)?;
        try_to_vec(&Reader::<Complex<f64>>::new(&complex)?)
    })
}

/// A tensor with the geometry and dtype of `like` and the given elements.
fn with_values(like: &Tensor, values: &[Complex<f64>]) -> Result<Tensor> {
    no_grad(|| {
        let options = TensorOptions::from(DType::Complex128);
        let buffer = Tensor::from(corten_core::TensorBase::empty(&like.sizes(), options)?);
        Writer::<Complex<f64>>::new(&buffer)?.copy_from_slice(values);
        let result = op::clone(&graph::detached_alias(like)?, None)?;
        let source = if like.dtype().is_complex() { buffer } else { op::real(&buffer)? };
        op::copy_(&result, &source, false)
    })
}

/// Fixed numbers without pattern that a formula could cancel.
fn pattern_like(like: &Tensor) -> Result<Tensor> {
    let number = |i: usize| ((i * 7919 + 13) % 29) as f64 / 17.0 - 0.7;
    let count = like.numel() as usize;
    let imaginary = |i| if like.dtype().is_complex() { number(3 * i + 1) } else { 0.0 };
    let values: Values = try_collect((0..count).map(|i| Complex::new(number(i), imaginary(i))))?;
    with_values(like, &values)
}

/// One derivative of every output element per element of the input and direction.
struct Column {
    element: usize,
    direction: Complex<f64>,
    derivative: Values,
}

fn directions(tensor: &Tensor) -> &'static [Complex<f64>] {
    const ALL: [Complex<f64>; 2] = [Complex::new(1.0, 0.0), Complex::new(0.0, 1.0)];
    if tensor.dtype().is_complex() { &ALL } else { &ALL[..1] }
}

fn numerical_jacobian(
    function: &impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    nr: usize,
    outputs: &[usize],
    eps: f64,
) -> Result<Vec<Vec<Column>>> {
    let original = values(&inputs[nr])?;
    let mut columns: Vec<Vec<Column>> = outputs.iter().map(|_| Vec::new()).collect();
    let evaluate = |element: usize, step: Complex<f64>| {
        let mut moved = original.clone();
        moved[element] += step;
        let mut arguments: Vec<Tensor> =
            inputs.iter().map(graph::detached_alias).collect::<Result<_>>()?;
        arguments[nr] = with_values(&inputs[nr], &moved)?;
        let results = no_grad(|| function(&arguments))?;
        outputs.iter().map(|&index| values(&results[index])).collect::<Result<Vec<_>>>()
    };
    for element in 0..original.len() {
        for &direction in directions(&inputs[nr]) {
            let above = evaluate(element, direction * eps)?;
            let below = evaluate(element, -direction * eps)?;
            for (columns, (above, below)) in columns.iter_mut().zip(above.iter().zip(&below)) {
                let quotient = |(a, b): (&Complex<f64>, &Complex<f64>)| (a - b) / (2.0 * eps);
                let derivative = above.iter().zip(below).map(quotient).collect();
                columns.push(Column { element, direction, derivative });
            }
        }
    }
    Ok(columns)
}

struct Check<'a> {
    input: &'a Tensor,
    nr: usize,
    output: &'a Tensor,
    index: usize,
    options: GradcheckOptions,
}

impl Check<'_> {
    fn compare(&self, columns: &[Column]) -> Result<()> {
        let count = self.output.numel() as usize;
        for row in 0..count {
            for &weight in directions(self.output) {
                let analytical = self.analytical(row, weight)?;
                let again = self.analytical(row, weight)?;
                self.check_repeatable(&analytical, &again)?;
                for column in columns {
                    let numerical = (weight.conj() * column.derivative[row]).re;
                    let gradient = analytical[column.element];
                    let analytical = (gradient.conj() * column.direction).re;
                    self.check_close(row, column.element, numerical, analytical)?;
                }
            }
        }
        Ok(())
    }

    fn analytical(&self, row: usize, weight: Complex<f64>) -> Result<Values> {
        let mut one_hot = try_vec(Complex::new(0.0, 0.0), self.output.numel() as usize)?;
        one_hot[row] = weight;
        let seed = with_values(self.output, &one_hot)?;
        let options = BackwardOptions { retain_graph: Some(true), create_graph: false };
        let found = api::grad(
            std::slice::from_ref(self.output),
            std::slice::from_ref(self.input),
            Some(&[Some(seed)]),
            options,
            Some(true),
            false,
        )?;
        match found.into_iter().next().flatten() {
            Some(grad) => {
                self.check_metadata(&grad)?;
                values(&grad)
            }
            None => try_vec(Complex::new(0.0, 0.0), self.input.numel() as usize),
        }
    }

    fn check_metadata(&self, grad: &Tensor) -> Result<()> {
        ensure!(
            grad.sizes() == self.input.sizes() && grad.dtype() == self.input.dtype(),
            Runtime,
            "grad is incorrect size or type for input {}: {:?} {} instead of {:?} {}",
            self.nr,
            grad.sizes(),
            grad.dtype(),
            self.input.sizes(),
            self.input.dtype()
        );
        Ok(())
    }

    fn check_repeatable(&self, first: &Values, second: &Values) -> Result<()> {
        let differs = |(a, b): (&Complex<f64>, &Complex<f64>)| {
            let same = a == b || (a.is_nan() && b.is_nan());
            !same && (a - b).norm() > self.options.nondet_tol
        };
        ensure!(
            !first.iter().zip(second).any(differs),
            Runtime,
            "Backward is not reentrant, i.e., running backward with same input and grad_output \
             multiple times gives different values, although analytical gradient matches \
             numerical gradient. The tolerance for nondeterminism was {}.",
            self.options.nondet_tol
        );
        Ok(())
    }

    fn check_close(
        &self,
        row: usize,
        element: usize,
        numerical: f64,
        analytical: f64,
    ) -> Result<()> {
        let GradcheckOptions { atol, rtol, .. } = self.options;
        let close = (numerical - analytical).abs() <= atol + rtol * numerical.abs();
        if close || (numerical.is_nan() && analytical.is_nan()) {
            return Ok(());
        }
        bail!(
            Runtime,
            "Jacobian mismatch for output {} with respect to input {}, at output element {row} \
             and input element {element}: numerical {numerical}, analytical {analytical}",
            self.index,
            self.nr
        )
    }
}

/// Backward functions must accept undefined gradients and give nothing or zeros for them.
fn check_undefined(outputs: &[Tensor], inputs: &[Tensor]) -> Result<()> {
    let wanted: Vec<Tensor> =
        inputs.iter().filter(|input| graph::requires_grad(input)).cloned().collect();
    let outputs: Vec<Tensor> =
        outputs.iter().filter(|output| graph::requires_grad(output)).cloned().collect();
    if outputs.is_empty() {
        return Ok(());
    }
    let undefined: Vec<_> = outputs.iter().map(|_| Some(Tensor::undefined())).collect();
    let options = BackwardOptions { retain_graph: Some(true), create_graph: false };
    let found = api::grad(&outputs, &wanted, Some(&undefined), options, Some(true), false)?;
    for grad in found.iter().flatten() {
        ensure!(
            values(grad)?.iter().all(|value| value.norm() == 0.0),
            Runtime,
            "Expected all input grads to be undefined or zero when all output grads are undefined \
             or zero."
        );
    }
    Ok(())
}
