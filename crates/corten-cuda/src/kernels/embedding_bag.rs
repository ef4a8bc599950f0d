//! Sums, means and maxima of the rows of a table, bag by bag, and their gradients.

use crate::failure;
use crate::flat_launch::Flat;
use crate::indexing::{Combine, Scattered, scatter_into};
use crate::kernel::{Argument, Template, parameters};
use crate::operands::{contiguous, empty, like_planned, on_meta, on_meta_opt, zeros};
use crate::text;
use corten_core::{Access, DType, Result, ensure};
use corten_ops::{Tensor, op};

static BAGS: Template = Template { name: "bags", text: &[text::INDEX, text::BAG] };
static BAG_OF_EACH: Template = Template { name: "bag_of_each", text: &[text::INDEX, text::BAG] };
static BAG_SIZES: Template = Template { name: "bag_sizes", text: &[text::INDEX, text::BAG] };
static GRADIENT: Template = Template { name: "bag_gradient", text: &[text::INDEX, text::BAG] };
static PRODUCTS: Template = Template { name: "bag_products", text: &[text::INDEX, text::BAG] };

const MEAN: i64 = 1;
const MAX: i64 = 2;

/// `BagShape` of `bag.cuh`.
#[repr(C)]
#[derive(Clone, Copy)]
struct BagShape {
    bags: u64,
    columns: u64,
    rows: u64,
    indices: u64,
    starts: u64,
    padding: i64,
}

fn words(tensor: &Tensor) -> Result<Tensor> {
    contiguous(&op::to_dtype(tensor, DType::Int64, false, false, None)?)
}

fn flat_words(tensor: &Tensor) -> Result<Tensor> {
    words(&op::reshape(tensor, &[-1])?)
}

/// Which indices belong to which bag.
struct Bags {
    indices: Tensor,
    offsets: Tensor,
    shape: BagShape,
}

impl Bags {
    /// The bag of each index; -1 for those in none.
    fn of_each(&self) -> Result<Tensor> {
        let out = empty(&[self.shape.indices as i64], DType::Int64, &self.indices)?;
        self.count(&BAG_OF_EACH, &[(&out, Access::Write), (&self.offsets, Access::Read)])?;
        Ok(out)
    }

    /// The rows of each bag, without padding.
    fn sizes(&self) -> Result<Tensor> {
        let out = empty(&[self.shape.bags as i64], DType::Int64, &self.indices)?;
        let given = [(&self.indices, Access::Read), (&self.offsets, Access::Read)];
        self.count(&BAG_SIZES, &[(&out, Access::Write), given[0], given[1]])?;
        Ok(out)
    }

    fn count(&self, template: &'static Template, tensors: &[(&Tensor, Access)]) -> Result<()> {
        let (mut shape, n) = (self.shape, tensors[0].0.numel());
        let mut report = failure::address(self.indices.device().index)?;
        let call = Flat { template, of: &[Argument::Number(0)], tensors };
        // SAFETY: the tensors are contiguous and as long as the shape tells; offsets are not followed beyond.
        unsafe { call.over(n, parameters!(shape, report)) }
    }
}

/// `_embedding_bag`: the bags; of which bag each index is; how many rows each bag has; and the rows of the
/// maxima.
///
/// # Errors
/// Those of the CPU's checks; offsets and indices out of bounds are reported later. For the functions below
/// likewise.
pub fn embedding_bag(
    weight: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    scale_grad_by_freq: bool,
    mode: i64,
    sparse: bool,
    per_sample_weights: Option<&Tensor>,
    include_last_offset: bool,
    padding_idx: i64,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    let factors = on_meta_opt(per_sample_weights)?;
    let planned = op::_embedding_bag(
        &on_meta(weight)?,
        &on_meta(indices)?,
        &on_meta(offsets)?,
        scale_grad_by_freq,
        mode,
        sparse,
        factors.as_ref(),
        include_last_offset,
        padding_idx,
    )?;
    let out = like_planned(&planned.0, weight)?;
    let bags = planned.2.numel();
    // A last offset that is given ends the last bag of sums that need no record.
    let plain = planned.1.numel() == 0 && mode != MAX;
    let starts = if plain { offsets.numel() } else { offsets.numel().min(bags) };
    let shape = BagShape {
        bags: bags as u64,
        columns: weight.size(1)? as u64,
        rows: weight.size(0)? as u64,
        indices: indices.numel() as u64,
        starts: starts as u64,
        padding: if padding_idx < 0 { i64::MIN } else { padding_idx },
    };
    let (indices, offsets) = (flat_words(indices)?, flat_words(offsets)?);
    let given = Bags { indices, offsets, shape };
    let places = combine(weight, &given, per_sample_weights, mode, &out)?;
    let record = |plan: &Tensor, own: &Tensor| op::to_dtype(own, plan.dtype(), false, false, None);
    let none = zeros(&[bags], DType::Int64, weight)?;
    let sizes = if mode == 0 { none } else { given.sizes()? };
    let of_each = match planned.1.numel() {
        0 => empty(&[0], DType::Int64, weight)?,
        _ => given.of_each()?,
    };
    let last = if mode == MAX { &places } else { &sizes };
    // No two results share their memory.
    let last = op::clone(&record(&planned.3, last)?, None)?;
    Ok((out, record(&planned.1, &of_each)?, record(&planned.2, &sizes)?, last))
}

/// Writes the bags to `out`; gives the rows of maxima.
fn combine(
    weight: &Tensor,
    given: &Bags,
    factors: Option<&Tensor>,
    mode: i64,
    out: &Tensor,
) -> Result<Tensor> {
    let sizes = if mode == MAX { out.sizes().to_vec() } else { vec![0] };
    let places = empty(&sizes, DType::Int64, weight)?;
    let table = contiguous(weight)?;
    let factors = factors.filter(|own| own.defined()).map(contiguous).transpose()?;
    let undefined = Tensor::default();
    let tensors = [
        (out, Access::Write),
        (&places, Access::Write),
        (&table, Access::Read),
        (&given.indices, Access::Read),
        (&given.offsets, Access::Read),
        (factors.as_ref().unwrap_or(&undefined), Access::Read),
    ];
    let dtype = weight.dtype();
    let of = [Argument::Storage(dtype), Argument::Value(dtype), Argument::Number(mode as u32)];
    let (mut shape, mut report) = (given.shape, failure::address(weight.device().index)?);
    let call = Flat { template: &BAGS, of: &of, tensors: &tensors };
    // SAFETY: the tensors are contiguous and of the sizes that the shape tells; indices are looked at before
    // they are followed.
    unsafe { call.over(out.numel(), parameters!(shape, report))? };
    Ok(places)
}

/// The bag of each index: as recorded, or from the offsets.
fn recorded(indices: &Tensor, offsets: &Tensor, bag_of: &Tensor, bags: i64) -> Result<Tensor> {
    if bag_of.numel() == indices.numel() {
        return words(bag_of);
    }
    let shape = BagShape {
        bags: bags as u64,
        columns: 1,
        rows: i64::MAX as u64,
        indices: indices.numel() as u64,
        starts: offsets.numel() as u64,
        padding: i64::MIN,
    };
    Bags { indices: flat_words(indices)?, offsets: flat_words(offsets)?, shape }.of_each()
}

/// `_embedding_bag_backward`: the gradient of the table.
pub fn embedding_bag_backward(
    grad: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    offset2bag: &Tensor,
    bag_size: &Tensor,
    maximum_indices: &Tensor,
    num_weights: i64,
    scale_grad_by_freq: bool,
    mode: i64,
    sparse: bool,
    per_sample_weights: Option<&Tensor>,
    padding_idx: i64,
) -> Result<Tensor> {
    ensure!(!sparse, NotImplemented, "embedding_bag: sparse gradients need sparse tensors");
    let bag_of = recorded(indices, offsets, offset2bag, bag_size.numel())?;
    embedding_bag_dense_backward(
        grad,
        indices,
        &bag_of,
        bag_size,
        maximum_indices,
        num_weights,
        scale_grad_by_freq,
        mode,
        per_sample_weights,
        padding_idx,
    )
}

/// How often each row is named.
fn frequencies(indices: &Tensor, count: i64) -> Result<Tensor> {
    let counts = zeros(&[count], DType::Float32, indices)?;
    let ones = op::ones_like(indices, Some(DType::Float32), None, None, None, None)?;
    scatter_into(&counts, 0, indices, &ones, &Scattered::by(Combine::Add))?;
    Ok(counts)
}

/// `_embedding_bag_dense_backward`: the gradient of the table where the bag of each index is known.
pub fn embedding_bag_dense_backward(
    grad: &Tensor,
    indices: &Tensor,
    offset2bag: &Tensor,
    bag_size: &Tensor,
    maximum_indices: &Tensor,
    num_weights: i64,
    scale_grad_by_freq: bool,
    mode: i64,
    per_sample_weights: Option<&Tensor>,
    padding_idx: i64,
) -> Result<Tensor> {
    let (bags, columns) = (grad.size(0)?, grad.size(1)?);
    let sizes_fit = bag_size.numel() == bags && offset2bag.numel() == indices.numel();
    ensure!(sizes_fit, Runtime, "embedding_bag: expected a gradient of {} bags", bag_size.numel());
    ensure!((0..=MAX).contains(&mode), Runtime, "`mode` must be sum, mean, or max.");
    let dtype = grad.dtype();
    if mode == MAX {
        let out = zeros(&[num_weights, columns], dtype, grad)?;
        let empty_bags = op::unsqueeze(&op::eq_scalar(bag_size, 0.into())?, 1)?;
        let grad = op::masked_fill_scalar(grad, &empty_bags, 0.into())?;
        return op::scatter_add_(&out, 0, &words(maximum_indices)?, &grad);
    }
    // Sums of 16-bit numbers are made in 32 bits.
    let wide = if dtype == DType::Float64 { DType::Float64 } else { DType::Float32 };
    let out = zeros(&[num_weights, columns], wide, grad)?;
    let (indices, grad) = (flat_words(indices)?, contiguous(grad)?);
    let (bag_of, sizes) = (words(offset2bag)?, words(bag_size)?);
    let frequencies = match scale_grad_by_freq && indices.numel() > 0 {
        true => frequencies(&indices, num_weights)?,
        false => Tensor::default(),
    };
    let factors = per_sample_weights.filter(|own| own.defined()).map(contiguous).transpose()?;
    let undefined = Tensor::default();
    let tensors = [
        (&out, Access::Write),
        (&grad, Access::Read),
        (&indices, Access::Read),
        (&bag_of, Access::Read),
        (if mode == MEAN { &sizes } else { &undefined }, Access::Read),
        (&frequencies, Access::Read),
        (factors.as_ref().unwrap_or(&undefined), Access::Read),
    ];
    let mut shape = BagShape {
        bags: bags as u64,
        columns: columns as u64,
        rows: num_weights as u64,
        indices: indices.numel() as u64,
        starts: 0,
        padding: if padding_idx < 0 { i64::MIN } else { padding_idx },
    };
    let mut report = failure::address(out.device().index)?;
    let of = [Argument::Storage(dtype), Argument::Value(wide)];
    let call = Flat { template: &GRADIENT, of: &of, tensors: &tensors };
    // SAFETY: the tensors are contiguous and of the sizes that the shape tells; indices and bags are looked at
    // before they are followed.
    unsafe { call.over(indices.numel() * columns, parameters!(shape, report))? };
    op::to_dtype(&out, dtype, false, false, None)
}

/// `_embedding_bag_per_sample_weights_backward`: products of the bags' gradients with the rows.
pub fn per_sample_weights_backward(
    grad: &Tensor,
    weight: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    offset2bag: &Tensor,
    mode: i64,
    padding_idx: i64,
) -> Result<Tensor> {
    ensure!(
        mode == 0,
        Runtime,
        "embedding_bag_backward: per_sample_weights only supported for mode='sum'"
    );
    let fits = grad.dim() == 2 && weight.dim() == 2 && grad.size(1)? == weight.size(1)?;
    ensure!(fits, Runtime, "embedding_bag_backward: expected a gradient as wide as the table");
    let (count, dtype) = (indices.numel(), grad.dtype());
    let out = empty(&[count], dtype, grad)?;
    let bag_of = recorded(indices, offsets, offset2bag, grad.size(0)?)?;
    let indices = flat_words(indices)?;
    let table = contiguous(&op::to_dtype(weight, dtype, false, false, None)?)?;
    let grad = contiguous(grad)?;
    let mut shape = BagShape {
        bags: grad.size(0)? as u64,
        columns: grad.size(1)? as u64,
        rows: table.size(0)? as u64,
        indices: count as u64,
        starts: 0,
        padding: if padding_idx < 0 { i64::MIN } else { padding_idx },
    };
    let tensors = [
        (&out, Access::Write),
        (&grad, Access::Read),
        (&table, Access::Read),
        (&indices, Access::Read),
        (&bag_of, Access::Read),
    ];
    let (mut n, mut report) = (count as u64, failure::address(out.device().index)?);
    if count > 0 {
        let of = [Argument::Storage(dtype), Argument::Value(dtype)];
        let call = Flat { template: &PRODUCTS, of: &of, tensors: &tensors };
        let shape_of = crate::launch::Shape::over(count * 32);
        // SAFETY: as above; a warp for each index.
        unsafe { call.launch(shape_of, parameters!(n), parameters!(shape, report))? };
    }
    Ok(out)
}
