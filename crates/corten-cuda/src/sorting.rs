//! Sorting lines: tiles in shared memory, merged run by run; and what is taken from sorted lines.

use crate::indexing::bits_of;
use crate::kernel::{Argument, Template, parameters};
use crate::launch::{Shape, THREADS};
use crate::operands::{Operands, contiguous, empty};
use crate::stream::Stream;
use crate::text;
use corten_core::{Access, DType, Result, TensorBase, TensorOptions, ensure, not_implemented_for};
use corten_ops::{Tensor, op};

static SORT_TILES: Template = Template { name: "sort_tiles", text: &[text::SORT] };
static MERGE_RUNS: Template = Template { name: "merge_runs", text: &[text::SORT] };
static TAKE_FIRST: Template = Template { name: "take_first", text: &[text::SORT] };
static TAKE_ONE: Template = Template { name: "take_one", text: &[text::SORT] };

/// Elements of a tile; as in `sort.cuh`.
pub(crate) const TILE: u64 = 1024;

/// Lines of elements, and their order.
pub(crate) struct Sorted {
    /// The lines, contiguous: the dimension that was sorted along is the last.
    pub(crate) input: Tensor,
    /// The positions of each line's elements in their order, as words of 32 bits.
    pub(crate) places: Tensor,
    pub(crate) length: u64,
    pub(crate) lines: u64,
}

/// Sorts along a dimension; equal elements keep their order.
pub(crate) fn sorted(
    self_: &Tensor,
    dim: usize,
    descending: bool,
    name: &'static str,
) -> Result<Sorted> {
    let dtype = self_.dtype();
    if dtype.is_complex() || dtype.itemsize() == 1 && dtype.is_floating_point() {
        return Err(not_implemented_for(name, dtype));
    }
    let input = contiguous(&with_last(self_, dim)?)?;
    let length = input.sizes().last().copied().unwrap_or(1) as u64;
    let lines = input.numel() as u64 / length.max(1);
    ensure!(
        length < u64::from(u32::MAX),
        Runtime,
        "sort: lines of 2^32 elements are too long on CUDA"
    );
    let key = if dtype.itemsize() > 4 { DType::UInt64 } else { DType::UInt32 };
    let room = |dtype| empty(&[input.numel()], dtype, &input);
    let (keys, places) = (room(key)?, room(DType::UInt32)?);
    let tiles = length.div_ceil(TILE);
    ensure!(
        lines * tiles <= i32::MAX as u64,
        Runtime,
        "sort: {lines} lines of {length} elements are too many for one launch"
    );
    {
        let wanted = [(&input, Access::Read), (&keys, Access::Write), (&places, Access::Write)];
        let held = Operands::hold(&wanted)?;
        let (mut from, mut keys, mut to) = (held.at(0), held.at(1), held.at(2));
        let (mut length, mut per_line, mut descending) =
            (length, tiles as u32, u32::from(descending));
        let grid =
            Shape { grid: [(lines * tiles) as u32, 1, 1], block: [THREADS, 1, 1], shared: 0 };
        let stream = Stream::current(input.device().index);
        let parameters = parameters!(from, keys, to, length, per_line, descending);
        // SAFETY: the tensors are contiguous, of as many elements, and held.
        unsafe { SORT_TILES.launch(&[Argument::Storage(dtype)], grid, stream, parameters)? };
    }
    let places = merged(keys, places, length)?;
    Ok(Sorted { input, places, length, lines })
}

/// Merges the sorted tiles of each line; the positions in the order of the whole line.
pub(crate) fn merged(keys: Tensor, places: Tensor, length: u64) -> Result<Tensor> {
    let (mut keys, mut places, mut run) = (keys, places, TILE);
    let mut spare = None;
    while run < length {
        let (to, to_places) = match spare.take() {
            Some(pair) => pair,
            None => (
                empty(&keys.sizes(), keys.dtype(), &keys)?,
                empty(&keys.sizes(), DType::UInt32, &keys)?,
            ),
        };
        let held = Operands::hold(&[
            (&keys, Access::Read),
            (&places, Access::Read),
            (&to, Access::Write),
            (&to_places, Access::Write),
        ])?;
        let (mut n, mut from, mut order) = (keys.numel() as u64, held.at(0), held.at(1));
        let (mut into, mut into_places, mut length, mut size) =
            (held.at(2), held.at(3), length, run);
        let stream = Stream::current(keys.device().index);
        let parameters = parameters!(n, from, order, into, into_places, length, size);
        let of = [Argument::Storage(keys.dtype())];
        // SAFETY: the tensors are contiguous, of as many elements, and held; no two elements of a line
        // have one place.
        unsafe { MERGE_RUNS.launch(&of, Shape::over(keys.numel()), stream, parameters)? };
        drop(held);
        spare = Some((std::mem::replace(&mut keys, to), std::mem::replace(&mut places, to_places)));
        run *= 2;
    }
    Ok(places)
}

/// The tensor with a dimension moved to the end.
pub(crate) fn with_last(tensor: &Tensor, dim: usize) -> Result<Tensor> {
    match tensor.dim() {
        0 => op::unsqueeze(tensor, 0),
        rank if dim + 1 == rank => Ok(tensor.clone()),
        _ => op::transpose_int(tensor, dim as i64, -1),
    }
}

/// A tensor on the device of `like` as one without data was planned.
pub(crate) fn as_planned(planned: &Tensor, like: &Tensor) -> Result<Tensor> {
    let options = TensorOptions::default().dtype(planned.dtype()).device(like.device());
    Ok(TensorBase::empty_strided(&planned.sizes(), &planned.strides(), options)?.into())
}

/// Calls `write` with tensors that are contiguous and have the dimension last, and copies them to the
/// outputs where they are others.
pub(crate) fn staged(
    outputs: (&Tensor, &Tensor),
    dim: usize,
    write: impl FnOnce(&Tensor, &Tensor) -> Result<()>,
) -> Result<()> {
    let stage = |out: &Tensor| -> Result<(Tensor, Tensor)> {
        let moved = with_last(out, dim)?;
        let own = match moved.is_contiguous() {
            true => moved.clone(),
            false => empty(&moved.sizes(), out.dtype(), out)?,
        };
        Ok((moved, own))
    };
    let (values, indices) = (stage(outputs.0)?, stage(outputs.1)?);
    write(&values.1, &indices.1)?;
    for (moved, own) in [values, indices] {
        if !moved.is_same(&own) {
            op::copy_(&moved, &own, false)?;
        }
    }
    Ok(())
}

/// The first elements of sorted lines.
pub(crate) fn first(sorted: &Sorted, outputs: (&Tensor, &Tensor), dim: usize) -> Result<()> {
    staged(outputs, dim, |values, indices| {
        let mut n = values.numel() as u64;
        let mut count = values.sizes().last().copied().unwrap_or(1) as u64;
        let held = Operands::hold(&[
            (&sorted.input, Access::Read),
            (&sorted.places, Access::Read),
            (values, Access::Write),
            (indices, Access::Write),
        ])?;
        let (mut from, mut places) = (held.at(0), held.at(1));
        let (mut to, mut at, mut length) = (held.at(2), held.at(3), sorted.length);
        let of = [Argument::Storage(bits_of(sorted.input.dtype()))];
        let stream = Stream::current(values.device().index);
        let parameters = parameters!(n, from, places, to, at, length, count);
        // SAFETY: the tensors are contiguous and held; positions are within their lines.
        unsafe { TAKE_FIRST.launch(&of, Shape::over(values.numel()), stream, parameters)? };
        drop(held);
        Ok(())
    })
}

/// Which element of a sorted line is taken; the numbers of `sort.cuh`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chosen {
    Kth(i64),
    Median { ignore_nan: bool },
    Mode,
}

pub(crate) fn one(sorted: &Sorted, outputs: (&Tensor, &Tensor), chosen: Chosen) -> Result<()> {
    let (kind, mut k) = match chosen {
        Chosen::Kth(k) => (0, k as u64 - 1),
        Chosen::Median { ignore_nan } => (1 + u32::from(ignore_nan), 0),
        Chosen::Mode => (3, 0),
    };
    let (values, indices) = outputs;
    let held = Operands::hold(&[
        (&sorted.input, Access::Read),
        (&sorted.places, Access::Read),
        (values, Access::Write),
        (indices, Access::Write),
    ])?;
    let (mut from, mut places, mut lines) = (held.at(0), held.at(1), sorted.lines);
    let (mut to, mut at, mut length) = (held.at(2), held.at(3), sorted.length);
    let of = [Argument::Storage(sorted.input.dtype()), Argument::Number(kind)];
    let stream = Stream::current(sorted.input.device().index);
    let parameters = parameters!(lines, from, places, to, at, length, k);
    // SAFETY: the tensors are contiguous and held; each line gives one element.
    unsafe { TAKE_ONE.launch(&of, Shape::over(lines as i64), stream, parameters)? };
    drop(held);
    Ok(())
}
