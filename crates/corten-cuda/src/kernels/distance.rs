//! Distances between rows, and their gradients.

use crate::kernel::{Argument, Template};
use crate::launch::Shape;
use crate::operands::{Operands, contiguous, empty, on_meta, zeros};
use crate::stream::Stream;
use crate::text;
use corten_core::{Access, DType, Result, Scalar, not_implemented_for};
use corten_ops::{Tensor, op};

static CDIST: Template = Template { name: "cdist", text: &[text::DISTANCE] };
static CDIST_BACKWARD: Template = Template { name: "cdist_backward", text: &[text::DISTANCE] };
static PDIST: Template = Template { name: "pdist", text: &[text::DISTANCE] };
static PDIST_BACKWARD: Template = Template { name: "pdist_backward", text: &[text::DISTANCE] };

/// `Rows` of `distance.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Rows {
    n: u64,
    rows: i64,
    others: i64,
    columns: i64,
    power: f64,
    norm: u32,
}

impl Rows {
    fn of(n: i64, [rows, others, columns]: [i64; 3], power: f64) -> Self {
        let norm = match power {
            0.0 => 0,
            1.0 => 1,
            2.0 => 2,
            f64::INFINITY => 3,
            _ => 4,
        };
        Self { n: n as u64, rows, others, columns, power, norm }
    }
}

fn check(tensor: &Tensor, name: &'static str) -> Result<()> {
    match tensor.dtype() {
        DType::Float32 | DType::Float64 => Ok(()),
        other => Err(not_implemented_for(name, other)),
    }
}

/// A thread per element of the result, which comes first in `parameters` after the rows.
fn launch(template: &'static Template, rows: Rows, out: &Tensor, inputs: &[&Tensor]) -> Result<()> {
    if rows.n == 0 {
        return Ok(());
    }
    let mut wanted = vec![(out, Access::Write)];
    wanted.extend(inputs.iter().map(|&input| (input, Access::Read)));
    let held = Operands::hold(&wanted)?;
    let mut rows = rows;
    let mut at: Vec<*mut u8> = (0..wanted.len()).map(|i| held.at(i)).collect();
    let mut all = vec![(&raw mut rows).cast()];
    all.extend(at.iter_mut().map(|address| std::ptr::from_mut(address).cast()));
    let arguments = [Argument::Storage(out.dtype()), Argument::Value(out.dtype())];
    let stream = Stream::current(out.device().index);
    // SAFETY: the tensors are contiguous, have the sizes that the rows tell, and are held.
    unsafe { template.launch(&arguments, Shape::over(rows.n as i64), stream, &mut all)? };
    drop(held);
    Ok(())
}

/// Two batches of rows with a common batch shape.
struct Batches {
    first: Tensor,
    second: Tensor,
    sizes: [i64; 3],
}

impl Batches {
    /// `lead` is the common batch shape.
    fn of(x1: &Tensor, x2: &Tensor, lead: &[i64]) -> Result<Self> {
        let sizes = [x1.size(-2)?, x2.size(-2)?, x1.size(-1)?];
        let wide = |tensor: &Tensor, rows: i64| {
            contiguous(&op::expand(tensor, &[lead, &[rows, sizes[2]]].concat(), false)?)
        };
        Ok(Self { first: wide(x1, sizes[0])?, second: wide(x2, sizes[1])?, sizes })
    }

    /// Whether Euclidean distances come from a matrix product: from more than 25 rows on, unless the mode
    /// decides.
    fn by_products(&self, mode: Option<i64>) -> bool {
        const MANY: i64 = 25;
        let many = self.sizes[..2].iter().any(|&rows| rows > MANY);
        self.sizes[2] > 0 && (mode == Some(1) || (mode.unwrap_or(0) == 0 && many))
    }

    /// The root of |a|^2 - 2 a b + |b|^2, with the three terms in one product.
    fn euclidean(&self) -> Result<Tensor> {
        let squares = |rows: &Tensor| {
            op::sum_dim_intlist(&op::mul_tensor(rows, rows)?, Some(&[-1]), true, None)
        };
        let (a, b) = (squares(&self.first)?, squares(&self.second)?);
        let one = |like: &Tensor| op::ones_like(like, None, None, None, None, None);
        let doubled = op::mul_scalar(&self.first, Scalar::from(-2.0))?;
        let left = op::cat(&[doubled, a.clone(), one(&a)?], -1)?;
        let right = op::cat(&[self.second.clone(), one(&b)?, b], -1)?;
        let squared = op::matmul(&left, &op::transpose_int(&right, -1, -2)?)?;
        op::sqrt_(&op::clamp_min_(&squared, Scalar::from(0.0))?)
    }
}

/// `_cdist_forward`.
///
/// # Errors
/// `Runtime` for shapes that do not fit, `NotImplemented` for other dtypes than `f32` and `f64`; for the
/// functions below likewise.
pub fn cdist_forward(
    x1: &Tensor,
    x2: &Tensor,
    p: f64,
    compute_mode: Option<i64>,
) -> Result<Tensor> {
    let planned = op::_cdist_forward(&on_meta(x1)?, &on_meta(x2)?, p, compute_mode)?;
    check(x1, "cdist_cuda")?;
    corten_core::ensure!(
        x1.dtype() == x2.dtype(),
        Runtime,
        "expected scalar type {} but found {}",
        x1.dtype().type_name(),
        x2.dtype().type_name()
    );
    let out = empty(&planned.sizes(), x1.dtype(), x1)?;
    let sizes = planned.sizes();
    let batches = Batches::of(x1, x2, &sizes[..sizes.len() - 2])?;
    if p == 2.0 && batches.by_products(compute_mode) && out.numel() > 0 {
        return batches.euclidean();
    }
    let rows = Rows::of(out.numel(), batches.sizes, p);
    launch(&CDIST, rows, &out, &[&batches.first, &batches.second])?;
    Ok(out)
}

/// `_cdist_backward`.
///
/// # Errors
/// As above.
pub fn cdist_backward(
    grad_output: &Tensor,
    x1: &Tensor,
    x2: &Tensor,
    p: f64,
    cdist: &Tensor,
) -> Result<Tensor> {
    let [grad, first, second, distances] = [grad_output, x1, x2, cdist].map(on_meta);
    let planned = op::_cdist_backward(&grad?, &first?, &second?, p, &distances?)?;
    check(x1, "cdist_cuda_backward")?;
    let sizes = planned.sizes();
    let batches = Batches::of(x1, x2, &sizes[..sizes.len() - 2])?;
    let shape = [&sizes[..sizes.len() - 2], &batches.sizes[..2]].concat();
    let wide = |tensor: &Tensor| contiguous(&op::expand(tensor, &shape, false)?);
    let out = zeros(&sizes, x1.dtype(), x1)?;
    let rows = Rows::of(out.numel(), batches.sizes, p);
    let inputs = [&batches.first, &batches.second, &wide(grad_output)?, &wide(cdist)?];
    launch(&CDIST_BACKWARD, rows, &out, &inputs)?;
    Ok(out)
}

/// `_pdist_forward`.
///
/// # Errors
/// As above.
pub fn pdist_forward(self_: &Tensor, p: f64) -> Result<Tensor> {
    let planned = op::_pdist_forward(&on_meta(self_)?, p)?;
    check(self_, "pdist_cuda")?;
    let out = empty(&planned.sizes(), self_.dtype(), self_)?;
    let rows = self_.size(0)?;
    let shape = Rows::of(out.numel(), [rows, rows, self_.size(1)?], p);
    launch(&PDIST, shape, &out, &[&contiguous(self_)?])?;
    Ok(out)
}

/// `_pdist_backward`.
///
/// # Errors
/// As above.
pub fn pdist_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    p: f64,
    pdist: &Tensor,
) -> Result<Tensor> {
    let [grad, input, distances] = [grad_output, self_, pdist].map(on_meta);
    op::_pdist_backward(&grad?, &input?, p, &distances?)?;
    check(self_, "pdist_cuda_backward")?;
    let out = empty(&self_.sizes(), self_.dtype(), self_)?;
    let rows = self_.size(0)?;
    let shape = Rows::of(out.numel(), [rows, rows, self_.size(1)?], p);
    let inputs = [&contiguous(self_)?, &contiguous(grad_output)?, &contiguous(pdist)?];
    launch(&PDIST_BACKWARD, shape, &out, &inputs)?;
    Ok(out)
}
