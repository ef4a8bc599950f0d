//! Advanced indexing: integer and bool tensors in place of dimensions.
//!
//! Masks become index tensors, index tensors broadcast together, and dimensions with an index move to the
//! front unless they are adjacent.

use super::{Combine, bits_of, index_on};
use crate::failure;
use crate::kernel::{Argument, Template};
use crate::launch::Shape;
use crate::operands::{Operands, contiguous};
use crate::stream::Stream;
use crate::strided_loop::{StridedLoop, byte_strides};
use crate::text;
use corten_core::{Access, DType, Dims, Result, bail, ensure};
use corten_ops::{Tensor, op};

static INDEX: Template = Template { name: "index", text: &[text::INDEX] };
static INDEX_PUT: Template = Template { name: "index_put", text: &[text::INDEX] };

/// The most index tensors of a launch.
const MAX_INDICES: usize = 8;
const OPERANDS: usize = 2 + MAX_INDICES;

/// `Indexed` of `index.cuh`.
#[repr(C)]
struct Indexed {
    count: u32,
    size: [i64; MAX_INDICES],
    step: [i64; MAX_INDICES],
}

/// What an indexed access touches.
pub(crate) struct IndexPlan {
    source: Tensor,
    /// The shape of the result.
    pub(crate) shape: Dims,
    /// The strides of the source over the result's shape, 0 where an index decides.
    source_strides: Dims,
    /// The index tensors with their strides over the result's shape.
    indices: Vec<(Tensor, Dims)>,
    /// The sizes and distances of the indexed dimensions.
    indexed: Vec<(i64, i64)>,
}

/// Plans an access of `self_` by indices.
///
/// # Errors
/// `Index` for indices that do not fit the tensor.
pub(crate) fn index_plan(self_: &Tensor, indices: &[Option<Tensor>]) -> Result<IndexPlan> {
    let mut expanded = expand_masks(self_, indices)?;
    ensure!(
        expanded.len() <= self_.dim(),
        Index,
        "too many indices for tensor of dimension {} (got {})",
        self_.dim(),
        expanded.len()
    );
    expanded.resize(self_.dim(), None);
    let which: Vec<usize> = (0..expanded.len()).filter(|&dim| expanded[dim].is_some()).collect();
    ensure!(
        which.len() <= MAX_INDICES,
        Runtime,
        "CUDA indexing takes at most {MAX_INDICES} indices"
    );
    let given: Vec<Tensor> = expanded.into_iter().flatten().collect();
    let together = broadcast(&given)?;
    let index_shape = together.first().map_or_else(Dims::new, |index| index.sizes());
    let adjacent = which.windows(2).all(|pair| pair[1] == pair[0] + 1);
    let before = if adjacent { which.first().copied().unwrap_or(0) } else { 0 };
    let (sizes, strides) = (self_.sizes(), byte_strides(self_));
    let others: Vec<usize> = (0..sizes.len()).filter(|dim| !which.contains(dim)).collect();
    let mut plan = IndexPlan {
        source: self_.clone(),
        shape: Dims::new(),
        source_strides: Dims::new(),
        indices: Vec::new(),
        indexed: which.iter().map(|&dim| (sizes[dim], strides[dim])).collect(),
    };
    for &dim in &others[..before] {
        plan.push(sizes[dim], strides[dim]);
    }
    let first = plan.shape.len();
    for &size in &index_shape {
        plan.push(size, 0);
    }
    for &dim in &others[before..] {
        plan.push(sizes[dim], strides[dim]);
    }
    ensure!(
        plan.indexed.iter().all(|(size, _)| *size > 0) || plan.shape.contains(&0),
        Index,
        "index is out of bounds for dimension with size 0"
    );
    for index in together {
        let mut own: Dims = Dims::from_elem(0, plan.shape.len());
        own[first..first + index_shape.len()].copy_from_slice(&byte_strides(&index));
        plan.indices.push((index, own));
    }
    Ok(plan)
}

impl IndexPlan {
    fn push(&mut self, size: i64, stride: i64) {
        self.shape.push(size);
        self.source_strides.push(stride);
    }
}

/// Masks as the positions of their true elements; every index in one dtype.
fn expand_masks(self_: &Tensor, indices: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
    let mut expanded = Vec::new();
    for index in indices {
        let Some(index) = index.as_ref().filter(|index| index.defined()) else {
            expanded.push(None);
            continue;
        };
        let is_mask = matches!(index.dtype(), DType::Bool | DType::UInt8);
        if !is_mask {
            ensure!(
                matches!(index.dtype(), DType::Int64 | DType::Int32),
                Index,
                "tensors used as indices must be long, int, byte or bool tensors"
            );
            let own = index_on(self_, index)?;
            expanded.push(Some(op::to_dtype(&own, DType::Int64, false, false, None)?));
            continue;
        }
        let first = expanded.len();
        for (dim, &size) in index.sizes().iter().enumerate() {
            let place = first + dim;
            if self_.sizes().get(place) != Some(&size) {
                bail!(
                    Index,
                    "The shape of the mask {:?} at index {dim} does not match the shape of the indexed tensor \
                     {:?} at index {place}",
                    index.sizes().as_slice(),
                    self_.sizes().as_slice()
                );
            }
        }
        let places = op::nonzero(index)?;
        for dim in 0..index.dim() as i64 {
            expanded.push(Some(index_on(self_, &op::select_int(&places, 1, dim)?)?));
        }
    }
    Ok(expanded)
}

fn broadcast(indices: &[Tensor]) -> Result<Vec<Tensor>> {
    op::broadcast_tensors(indices).map_err(|_| {
        let shapes: Vec<String> =
            indices.iter().map(|index| format!("{:?}", index.sizes().as_slice())).collect();
        corten_core::err!(
            Index,
            "shape mismatch: indexing tensors could not be broadcast together with shapes {}",
            shapes.join(", ")
        )
    })
}

/// `out = source[indices]`; `out` has the plan's shape.
///
/// # Errors
/// `Runtime` for more elements than a launch takes; an index out of bounds is reported later.
pub(crate) fn index_into(plan: &IndexPlan, out: &Tensor) -> Result<()> {
    let dtype = bits_of(out.dtype());
    let arguments = [Argument::Storage(dtype), Argument::Storage(DType::Int64)];
    run(plan, out, Access::Read, &INDEX, &arguments)
}

/// `source[indices] = values`, or combined with them; the values have the plan's shape.
///
/// # Errors
/// As [`index_into`].
pub(crate) fn put_at(plan: &IndexPlan, values: &Tensor, how: Combine) -> Result<()> {
    let dtype = if how == Combine::Assign { bits_of(values.dtype()) } else { values.dtype() };
    let arguments = [
        Argument::Storage(dtype),
        Argument::Storage(DType::Int64),
        Argument::Value(dtype),
        Argument::Number(how as u32),
    ];
    run(plan, values, Access::Write, &INDEX_PUT, &arguments)
}

fn run(
    plan: &IndexPlan,
    other: &Tensor,
    source_access: Access,
    template: &'static Template,
    arguments: &[Argument],
) -> Result<()> {
    if other.numel() == 0 {
        return Ok(());
    }
    let mut strides = vec![byte_strides(other), plan.source_strides.clone()];
    strides.extend(plan.indices.iter().map(|(_, own)| own.clone()));
    strides.resize(OPERANDS, Dims::from_elem(0, plan.shape.len()));
    let walk = StridedLoop::new(&plan.shape, strides);
    let mut geometry = walk.geometry()?;
    let mut n = walk.numel() as u32;
    let other_access = if source_access == Access::Write { Access::Read } else { Access::Write };
    let mut wanted = vec![(other, other_access), (&plan.source, source_access)];
    wanted.extend(plan.indices.iter().map(|(index, _)| (index, Access::Read)));
    let held = Operands::hold(&wanted)?;
    let mut at = [std::ptr::null_mut::<u8>(); OPERANDS];
    for (i, place) in at.iter_mut().enumerate().take(wanted.len()) {
        *place = held.at(i);
    }
    let mut indexed = Indexed {
        count: plan.indexed.len() as u32,
        size: [1; MAX_INDICES],
        step: [0; MAX_INDICES],
    };
    for (k, (size, step)) in plan.indexed.iter().enumerate() {
        (indexed.size[k], indexed.step[k]) = (*size, *step);
    }
    let stream = Stream::current(other.device().index);
    let mut report = failure::address(stream.device())?;
    let mut parameters = [
        (&raw mut n).cast(),
        (&raw mut at).cast(),
        geometry.as_mut_ptr().cast(),
        (&raw mut indexed).cast(),
        (&raw mut report).cast(),
    ];
    // SAFETY: the operands are held; the kernels follow no index out of bounds.
    unsafe { template.launch(arguments, Shape::over(i64::from(n)), stream, &mut parameters)? };
    drop(held);
    Ok(())
}

/// Values in the shape of an access, in the dtype of what is written.
///
/// # Errors
/// `Runtime` for shapes that cannot be broadcast.
pub(crate) fn fit_values(plan: &IndexPlan, values: &Tensor) -> Result<Tensor> {
    let fits = corten_core::geometry::infer_broadcast(&values.sizes(), &plan.shape);
    let single = values.numel() == 1 && values.dim() <= plan.shape.len();
    ensure!(
        single || fits.is_ok_and(|shape| shape == plan.shape),
        Runtime,
        "shape mismatch: value tensor of shape {:?} cannot be broadcast to indexing result of shape {:?}",
        values.sizes().as_slice(),
        plan.shape.as_slice()
    );
    let values = if single { op::reshape(values, &[])? } else { values.clone() };
    op::expand(&values, &plan.shape, false)
}

/// Whether values must be copied before they are written to the tensor whose memory they share.
pub(crate) fn apart(values: &Tensor, self_: &Tensor) -> Result<Tensor> {
    match values.is_alias_of(self_) {
        true => contiguous(&op::clone(values, None)?),
        false => Ok(values.clone()),
    }
}
