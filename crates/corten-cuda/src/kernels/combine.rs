//! Putting tensors together.

use crate::kernel::{Argument, Template, parameters};
use crate::launch::Shape;
use crate::operands::{Operands, contiguous, on_meta};
use crate::stream::Stream;
use crate::text;
use corten_core::geometry::{self, wrap_dim};
use corten_core::{Access, DType, Dims, Result, TensorBase, TensorOptions, can_cast, ensure};
use corten_ops::iter::resize_output;
use corten_ops::{Tensor, op};

static CAT: Template = Template { name: "cat", text: &[text::COMBINE] };

/// The most parts of a launch; as in `combine.cuh`.
const MOST_PARTS: usize = 64;

/// `Parts` of `combine.cuh`.
#[repr(C)]
struct Parts {
    from: [*mut u8; MOST_PARTS],
    start: [u64; MOST_PARTS],
    length: [u64; MOST_PARTS],
}

/// A part of the result: a tensor, where it begins along the dimension and how long it is.
struct CatPart {
    tensor: Tensor,
    start: i64,
    length: i64,
}

/// Tensors one after another along `dim`.
///
/// # Errors
/// As the CPU's.
pub fn cat(tensors: &[Tensor], dim: i64) -> Result<Tensor> {
    let planned = plan(tensors, dim)?;
    let options = TensorOptions::default().dtype(planned.dtype()).device(tensors[0].device());
    let out = TensorBase::empty_strided(&planned.sizes(), &planned.strides(), options)?.into();
    fill(tensors, dim, &out)?;
    Ok(out)
}

/// As [`cat`], into `out`.
///
/// # Errors
/// As [`cat`]; `Type` when the result cannot be cast to the dtype of `out`.
pub fn cat_out(tensors: &[Tensor], dim: i64, out: &Tensor) -> Result<Tensor> {
    let planned = plan(tensors, dim)?;
    ensure!(
        can_cast(planned.dtype(), out.dtype()),
        Type,
        "torch.cat(): input types can't be cast to the desired output type {}",
        out.dtype().type_name()
    );
    resize_output(out, &planned.sizes())?;
    geometry::assert_no_internal_overlap(out)?;
    for tensor in tensors {
        geometry::assert_no_overlap(out, tensor)?;
    }
    fill(tensors, dim, out)?;
    Ok(out.clone())
}

/// The result without data.
fn plan(tensors: &[Tensor], dim: i64) -> Result<Tensor> {
    for (position, tensor) in tensors.iter().enumerate() {
        ensure!(
            tensor.dim() > 0,
            Runtime,
            "zero-dimensional tensor (at position {position}) cannot be concatenated"
        );
        ensure!(
            tensor.device() == tensors[0].device(),
            Runtime,
            "torch.cat(): all input tensors must be on the same device. Received {} and {}",
            tensors[0].device(),
            tensor.device()
        );
    }
    let copies: Vec<Tensor> = tensors.iter().map(on_meta).collect::<Result<_>>()?;
    op::cat(&copies, dim)
}

fn fill(tensors: &[Tensor], dim: i64, out: &Tensor) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let (dim, dtype, key) = (wrap_dim(dim, out.dim())?, out.dtype(), out.storage_key());
    let in_order = out.is_contiguous() && !out.is_neg() && !out.is_conj();
    let (mut start, mut parts) = (0, Vec::new());
    for tensor in tensors.iter().filter(|tensor| !(tensor.dim() == 1 && tensor.numel() == 0)) {
        let length = tensor.sizes()[dim];
        let plain = tensor.dtype() == dtype && !tensor.is_conj() && !tensor.is_neg();
        if in_order && plain && tensor.is_contiguous() && tensor.storage_key() != key {
            parts.push(CatPart { tensor: contiguous(tensor)?, start, length });
        } else {
            op::copy_(&op::narrow(out, dim as i64, start, length)?, tensor, false)?;
        }
        start += length;
    }
    parts.chunks(MOST_PARTS).try_for_each(|parts| copy_parts(parts, dim, out))
}

/// The widest words in which all parts and their places can be copied.
fn word(inner: usize, parts: &[CatPart], at: &[usize]) -> usize {
    let fits = |size: usize| {
        at.iter().all(|at| at.is_multiple_of(size))
            && parts.iter().all(|part| {
                (part.start as usize * inner).is_multiple_of(size)
                    && (part.length as usize * inner).is_multiple_of(size)
            })
    };
    [16, 8, 4, 2].into_iter().find(|&size| fits(size)).unwrap_or(1)
}

fn copy_parts(parts: &[CatPart], dim: usize, out: &Tensor) -> Result<()> {
    let sizes: Dims = out.sizes();
    let outer = sizes[..dim].iter().product::<i64>() as u64;
    let inner = sizes[dim + 1..].iter().product::<i64>() as usize * out.itemsize();
    let row = sizes[dim] as usize * inner;
    let wanted: Vec<(&Tensor, Access)> = std::iter::once((out, Access::Write))
        .chain(parts.iter().map(|part| (&part.tensor, Access::Read)))
        .collect();
    let held = Operands::hold(&wanted)?;
    let mut at: Vec<usize> = (0..wanted.len()).map(|i| held.at(i).addr()).collect();
    at.push(row);
    let size = word(inner, parts, &at);
    let mut list = Parts {
        from: [std::ptr::null_mut(); MOST_PARTS],
        start: [0; MOST_PARTS],
        length: [0; MOST_PARTS],
    };
    let mut most = 0;
    for (i, part) in parts.iter().enumerate() {
        let length = (part.length as usize * inner / size) as u64;
        (list.from[i], list.start[i]) =
            (held.at(i + 1), (part.start as usize * inner / size) as u64);
        list.length[i] = length;
        most = most.max(length * outer);
    }
    if most == 0 {
        return Ok(());
    }
    let blocks = most.div_ceil(256).min(4096) as u32;
    let shape = Shape { grid: [blocks, parts.len() as u32, 1], block: [256, 1, 1], shared: 0 };
    let (mut to, mut outer, mut row) = (held.at(0), outer, (row / size) as u64);
    let stream = Stream::current(out.device().index);
    let arguments = [Argument::Storage(of_size(size))];
    // SAFETY: the operands are held and contiguous; rows and places are whole words within them.
    unsafe { CAT.launch(&arguments, shape, stream, parameters!(list, to, outer, row))? };
    drop(held);
    Ok(())
}

fn of_size(size: usize) -> DType {
    match size {
        1 => DType::UInt8,
        2 => DType::Int16,
        4 => DType::Int32,
        8 => DType::Int64,
        _ => DType::Complex128,
    }
}
