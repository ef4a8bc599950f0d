//! The positions of the true elements of a mask.

use crate::kernel::{Argument, Template, parameters};
use crate::launch::Shape;
use crate::operands::{Operands, contiguous, empty};
use crate::stream::Stream;
use crate::text;
use corten_core::{Access, DType, Result, ensure};
use corten_ops::{Tensor, op};

static TRUE_PLACES: Template = Template { name: "true_places", text: &[text::SELECT] };
static COORDINATES: Template = Template { name: "coordinates", text: &[text::SELECT] };

/// Elements of a block; as in `select.cuh`.
const TILE: i64 = 4096;
/// The most dimensions that positions are split into; as in `select.cuh`.
const MOST_RANK: usize = 64;

/// `Extents` of `select.cuh`.
#[repr(C)]
struct Extents {
    rank: u32,
    size: [i64; MOST_RANK],
}

/// The row-major positions of the true elements of a mask, in order. Waits for the device to know how
/// many there are.
///
/// # Errors
/// Those of the driver.
pub(crate) fn true_places(mask: &Tensor) -> Result<Tensor> {
    let mask = contiguous(mask)?;
    let n = mask.numel();
    if n == 0 {
        return empty(&[0], DType::Int64, &mask);
    }
    let tiles = (n as u64).div_ceil(TILE as u64) as i64;
    let counts = empty(&[tiles], DType::Int64, &mask)?;
    places_or_counts(&mask, &counts, None)?;
    let ends = op::cumsum(&counts, 0, None)?;
    let total = op::item(&op::select_int(&ends, 0, -1)?)?.to_i64();
    let places = empty(&[total], DType::Int64, &mask)?;
    if total > 0 {
        places_or_counts(&mask, &ends, Some(&places))?;
    }
    Ok(places)
}

fn places_or_counts(mask: &Tensor, counts: &Tensor, places: Option<&Tensor>) -> Result<()> {
    let mut wanted = vec![(mask, Access::Read), (counts, Access::Write)];
    wanted.extend(places.map(|places| (places, Access::Write)));
    let held = Operands::hold(&wanted)?;
    let (mut from, mut n, mut ends) = (held.at(0), mask.numel() as u64, held.at(1));
    let mut to = if places.is_some() { held.at(2) } else { std::ptr::null_mut() };
    let shape = Shape { grid: [counts.numel() as u32, 1, 1], block: [256, 1, 1], shared: 0 };
    let of = [Argument::Number(u32::from(places.is_some()))];
    let stream = Stream::current(mask.device().index);
    // SAFETY: the tensors are contiguous and held; there is a count for each tile, and a place for each
    // true element.
    unsafe { TRUE_PLACES.launch(&of, shape, stream, parameters!(from, n, ends, to))? };
    drop(held);
    Ok(())
}

/// The positions in each dimension of a shape, dimension by dimension: a tensor of [rank, count].
///
/// # Errors
/// `Runtime` for more dimensions than kernels take.
pub(crate) fn coordinates(places: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    ensure!(
        sizes.len() <= MOST_RANK,
        Runtime,
        "nonzero takes at most {MOST_RANK} dimensions on CUDA"
    );
    let out = empty(&[sizes.len() as i64, places.numel()], DType::Int64, places)?;
    if out.numel() == 0 {
        return Ok(out);
    }
    let mut extents = Extents { rank: sizes.len() as u32, size: [1; MOST_RANK] };
    extents.size[..sizes.len()].copy_from_slice(sizes);
    let held = Operands::hold(&[(places, Access::Read), (&out, Access::Write)])?;
    let (mut count, mut from, mut to) = (places.numel() as u64, held.at(0), held.at(1));
    let stream = Stream::current(places.device().index);
    let parameters = parameters!(count, from, to, extents);
    let shape = Shape::over(places.numel());
    // SAFETY: both are contiguous and held; the result has a row for each dimension.
    unsafe { COORDINATES.launch(&[Argument::Number(0)], shape, stream, parameters)? };
    drop(held);
    Ok(out)
}
