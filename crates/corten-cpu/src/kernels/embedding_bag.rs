//! Sums, means and maxima of the rows of a table, bag by bag.

use super::embedding::RowIndex;
use super::support::{contiguous, contiguous_opt, defined, empty, empty_as, is_shape_only};
use crate::parallel::chunks::{for_each_chunk, for_each_chunk2, grain_of};
use crate::rows::{Float, Wide};
use corten_core::{
    Access, AccessSet, DType, Result, bail, ensure, match_dtype, try_collect, try_resize,
    try_to_vec, try_vec,
};
use corten_ops::{Tensor, op};

/// What is made of the rows of a bag.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Sum,
    Mean,
    Max,
}

impl Mode {
    fn of(mode: i64) -> Result<Self> {
        Ok(match mode {
            0 => Self::Sum,
            1 => Self::Mean,
            2 => Self::Max,
            _ => bail!(Runtime, "`mode` must be sum, mean, or max."),
        })
    }
}

/// `_embedding_bag`: the bags; of which bag each index is; how many rows each bag has, counted for
/// means and maxima only; and the rows of the maxima.
///
/// # Errors
/// `Runtime` for arguments that do not fit and for indices that are no row.
pub fn embedding_bag(
    weight: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    _scale_grad_by_freq: bool,
    mode: i64,
    _sparse: bool,
    per_sample_weights: Option<&Tensor>,
    include_last_offset: bool,
    padding_idx: i64,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    let (mode, factors) = (Mode::of(mode)?, defined(per_sample_weights));
    let index = check(weight, indices, offsets, mode, factors, include_last_offset)?;
    let bags = offsets.numel() - i64::from(include_last_offset);
    let len = weight.sizes()[1];
    let new = |sizes: &[i64]| empty_as(sizes, weight, index);
    let out = empty(&[bags, len], weight)?;
    let dense = weight.dtype() != DType::Float64
        && weight.strides()[1] == 1
        && factors.is_none_or(|factors| factors.strides()[0] == 1)
        && padding_idx < 0;
    // Plain sums need no record of the bags.
    let plain = mode == Mode::Sum && dense;
    let bag_of = new(&[if plain { 0 } else { indices.numel() }])?;
    let counts = new(&[bags])?;
    let places = if mode == Mode::Max { new(&[bags, len])? } else { new(&[bags])? };
    if is_shape_only(&out) {
        return Ok((out, bag_of, counts, places));
    }
    // The dense kernel ends the last bag at the last offset; the others at the end of the indices.
    let to_end = include_last_offset && (mode == Mode::Max || !dense);
    let given = Bags::of(indices, offsets, bags as usize, padding_idx, to_end)?;
    let bags = given.within(weight.sizes()[0], mode != Mode::Max && dense)?;
    let rows = if mode == Mode::Max { bags.maxima(weight, &out)? } else { Vec::new() };
    if mode != Mode::Max {
        bags.sums(weight, &out, factors, mode == Mode::Mean)?;
    }
    let sizes: Vec<i64> = match mode {
        Mode::Sum => try_vec(0, bags.count())?,
        _ => try_collect((0..bags.count()).map(|bag| bags.rows_in(bag).count() as i64))?,
    };
    write(&bag_of, &if plain { Vec::new() } else { bags.bag_of_each()? })?;
    write(&counts, &sizes)?;
    write(&places, if mode == Mode::Max { &rows } else { &sizes })?;
    Ok((out, bag_of, counts, places))
}

/// The dtype of the results that are indices.
fn check(
    weight: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    mode: Mode,
    factors: Option<&Tensor>,
    include_last_offset: bool,
) -> Result<DType> {
    let rank = weight.dim();
    ensure!(rank == 2, Runtime, "weight has to be a 2D Tensor, but got Tensor of dimension {rank}");
    let index = corten_core::promote_types(indices.dtype(), offsets.dtype())?;
    let one_of = |place: usize, name: &str, dtype: DType, list: &[DType], listed: &str| {
        ensure!(
            list.contains(&dtype),
            Runtime,
            "Expected tensor for argument #{place} '{name}' to have one of the following scalar \
             types: {listed}; but got torch.{}Tensor instead (while checking arguments for \
             embedding_bag)",
            dtype.type_name()
        );
        Ok(())
    };
    one_of(1, "indices", index, &[DType::Int64, DType::Int32], "Long, Int")?;
    let floats = [DType::Float16, DType::BFloat16, DType::Float32, DType::Float64];
    one_of(1, "weight", weight.dtype(), &floats, "Half, BFloat16, Float, Double")?;
    ensure!(
        matches!(indices.dim(), 1 | 2),
        Runtime,
        "input has to be a 1D or 2D Tensor, but got Tensor of dimension {}",
        indices.dim()
    );
    ensure!(
        offsets.dim() == 1,
        Runtime,
        "offsets has to be a 1D Tensor, but got Tensor of dimension {}",
        offsets.dim()
    );
    if let Some(factors) = factors {
        check_factors(weight, indices, mode, factors)?;
    }
    ensure!(
        !include_last_offset || offsets.numel() >= 1,
        Runtime,
        "include_last_offset: number of offset should be at least 1"
    );
    Ok(index)
}

fn check_factors(weight: &Tensor, indices: &Tensor, mode: Mode, factors: &Tensor) -> Result<()> {
    ensure!(
        mode == Mode::Sum,
        Runtime,
        "embedding_bag: per_sample_weights only supported with mode='sum'"
    );
    ensure!(
        factors.dtype() == weight.dtype(),
        Runtime,
        "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 \
         'per_sample_weights'; but type torch.{}Tensor does not equal torch.{}Tensor (while \
         checking arguments for embedding_bag)",
        weight.dtype().type_name(),
        factors.dtype().type_name()
    );
    ensure!(
        factors.dim() == 1 && factors.numel() == indices.numel(),
        Runtime,
        "Expected per_sample_weights.value().numel() == indices.numel() to be true, but got false. \
         \x20(Could this error message be improved?  If so, please report an enhancement request \
         to PyTorch.)"
    );
    Ok(())
}

/// Stands for the bag of an index that is in none.
const NO_BAG: i64 = -1;

/// Which indices belong to which bag.
struct Bags {
    indices: Vec<i64>,
    /// Where each bag begins, and the end of the last.
    starts: Vec<usize>,
    padding: i64,
}

impl Bags {
    fn of(
        indices: &Tensor,
        offsets: &Tensor,
        count: usize,
        padding: i64,
        to_end: bool,
    ) -> Result<Self> {
        let (indices, mut given) = (indices.to_vec::<i64>()?, offsets.to_vec::<i64>()?);
        if let (Some(&first), Some(&last)) = (given.first(), given.last()) {
            ensure!(
                first == 0,
                Runtime,
                "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start \
                 from position 0. However, got {first}\n[ torch.{}Tensor{{}} ]",
                offsets.dtype().type_name()
            );
            ensure!(
                last <= indices.len() as i64,
                Runtime,
                "offsets[-1] can not be greater than input's length {} but got offsets[-1] of {last}",
                indices.len()
            );
        }
        if to_end {
            given.truncate(count);
        }
        Self::between(indices, &given, count, padding)
    }

    /// The bags, of indices that name rows. PyTorch words the error by the kernel that finds it,
    /// and programs look for either.
    fn within(self, rows: i64, dense: bool) -> Result<Self> {
        for (place, index) in self.indices.iter().enumerate() {
            let inside = (0..rows).contains(index);
            ensure!(
                inside || !dense,
                Runtime,
                "Index {place} of input takes value {index} which is not in the valid range [0, \
                 {rows})"
            );
            ensure!(
                inside,
                Runtime,
                "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be \
                 {index}"
            );
        }
        Ok(self)
    }

    fn between(indices: Vec<i64>, given: &[i64], count: usize, padding: i64) -> Result<Self> {
        let ends = indices.len() as i64;
        let mut starts: Vec<i64> = try_to_vec(given)?;
        try_resize(&mut starts, count.saturating_add(1), ends)?;
        ensure!(
            starts[0] >= 0
                && starts.windows(2).all(|pair| pair[0] <= pair[1])
                && starts[count] <= ends,
            Runtime,
            "Expected i < index_size to be true, but got false.  (Could this error message be \
             improved?  If so, please report an enhancement request to PyTorch.)"
        );
        let starts = try_collect(starts.into_iter().map(|start| start as usize))?;
        Ok(Self { indices, starts, padding })
    }

    fn count(&self) -> usize {
        self.starts.len() - 1
    }

    /// The places and rows of a bag, without padding.
    fn rows_in(&self, bag: usize) -> impl Iterator<Item = (usize, usize)> {
        let places = self.starts[bag]..self.starts[bag + 1];
        let rows = places.map(|place| (place, self.indices[place]));
        rows.filter(|(_, row)| *row != self.padding).map(|(place, row)| (place, row as usize))
    }

    /// The bag of each index, and -1 for those behind the last.
    fn bag_of_each(&self) -> Result<Vec<i64>> {
        let mut each = try_vec(NO_BAG, self.indices.len())?;
        for bag in 0..self.count() {
            each[self.starts[bag]..self.starts[bag + 1]].fill(bag as i64);
        }
        Ok(each)
    }

    fn sums(
        &self,
        weight: &Tensor,
        out: &Tensor,
        factors: Option<&Tensor>,
        mean: bool,
    ) -> Result<()> {
        let (table, factors) = (contiguous(weight)?, contiguous_opt(factors)?);
        let len = weight.sizes()[1] as usize;
        let absent = Tensor::undefined();
        match_dtype!(weight.dtype(), "embedding_bag", Float, T => {
            let access = AccessSet::acquire(&[
                (out, Access::Write),
                (&table, Access::Read),
                (factors.as_ref().unwrap_or(&absent), Access::Read),
            ])?;
            let table = access.read::<T>(1)?;
            let factors = factors.as_ref().map(|_| access.read::<T>(2)).transpose()?;
            for_each_chunk(access.write::<T>(0)?, len, grain_of(len), |bag, out| {
                T::fill(out, &mut Vec::new(), |out| {
                    out.fill(<T as Float>::Wide::ZERO);
                    let mut count = 0;
                    for (place, row) in self.rows_in(bag) {
                        let factor = factors.map(|factors| factors[place].widen());
                        for (sum, value) in out.iter_mut().zip(&table[row * len..][..len]) {
                            let value = value.widen();
                            *sum += factor.map_or(value, |factor| value * factor);
                        }
                        count += 1;
                    }
                    if mean && count > 0 {
                        let count = <T as Float>::Wide::of(f64::from(count));
                        let share = |sum: <T as Float>::Wide| sum / count;
                        out.iter_mut().for_each(|sum| *sum = share(*sum));
                    }
                });
                Ok(())
            })
        })
    }

    /// Writes the maxima of the bags and gives the rows that they are in; an empty bag is zero.
    fn maxima(&self, weight: &Tensor, out: &Tensor) -> Result<Vec<i64>> {
        let table = contiguous(weight)?;
        let len = weight.sizes()[1] as usize;
        let mut found = try_vec(0, self.count() * len)?;
        match_dtype!(weight.dtype(), "embedding_bag", Float, T => {
            let access = AccessSet::acquire(&[(out, Access::Write), (&table, Access::Read)])?;
            let (out, table) = (access.write::<T>(0)?, access.read::<T>(1)?);
            for_each_chunk2((out, len), (&mut found, len), grain_of(len), |bag, out, found| {
                out.fill(T::narrow(<T as Float>::Wide::ZERO));
                for (nr, (_, row)) in self.rows_in(bag).enumerate() {
                    let values = &table[row * len..][..len];
                    for ((best, place), &value) in out.iter_mut().zip(found.iter_mut()).zip(values) {
                        if nr == 0 || value.widen() > best.widen() {
                            (*best, *place) = (value, row as i64);
                        }
                    }
                }
                Ok(())
            })
        })?;
        Ok(found)
    }
}

/// Writes indices.
fn write(out: &Tensor, values: &[i64]) -> Result<()> {
    let access = AccessSet::acquire(&[(out, Access::Write)])?;
    match out.dtype() {
        DType::Int32 => {
            let out = access.write::<i32>(0)?;
            out.iter_mut().zip(values).for_each(|(out, &value)| *out = value as i32);
        }
        _ => access.write::<i64>(0)?.copy_from_slice(values),
    }
    Ok(())
}

/// The bag of each index: as recorded, or from the offsets.
fn recorded(indices: &Tensor, offsets: &Tensor, bag_of: &Tensor, count: usize) -> Result<Vec<i64>> {
    if bag_of.numel() == indices.numel() {
        return bag_of.to_vec();
    }
    let bags = Bags::between(indices.to_vec()?, &offsets.to_vec::<i64>()?, count, -1)?;
    bags.bag_of_each()
}

/// `_embedding_bag_backward`: the gradient of the table.
///
/// # Errors
/// `Runtime` for arguments that do not fit, `NotImplemented` for sparse gradients.
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
    if is_shape_only(grad) {
        return empty(&[num_weights, grad.size(1)?], grad);
    }
    let bags = recorded(indices, offsets, offset2bag, bag_size.numel() as usize)?;
    let bags = Tensor::from_slice(&bags, &[bags.len() as i64])?;
    embedding_bag_dense_backward(
        grad,
        indices,
        &bags,
        bag_size,
        maximum_indices,
        num_weights,
        scale_grad_by_freq,
        mode,
        per_sample_weights,
        padding_idx,
    )
}

/// `_embedding_bag_dense_backward`: the gradient of the table where the bag of each index is known.
///
/// # Errors
/// `Runtime` for arguments that do not fit.
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
    let (mode, bags, len) = (Mode::of(mode)?, grad.size(0)?, grad.size(1)?);
    let sizes_fit = bag_size.numel() == bags && offset2bag.numel() == indices.numel();
    ensure!(sizes_fit, Runtime, "embedding_bag: expected a gradient of {} bags", bag_size.numel());
    let out = empty(&[num_weights, len], grad)?;
    if is_shape_only(&out) {
        return Ok(out);
    }
    let grad = contiguous(grad)?;
    if mode == Mode::Max {
        return max_backward(&out, &grad, bag_size, maximum_indices);
    }
    let spread = Spread {
        bags: offset2bag.to_vec()?,
        places: RowIndex::of(&indices.to_vec::<i64>()?, num_weights as usize, padding_idx)?,
        sizes: if mode == Mode::Mean { Some(bag_size.to_vec()?) } else { None },
        by_frequency: scale_grad_by_freq,
    };
    ensure!(
        spread.bags.iter().all(|bag| (NO_BAG..bags).contains(bag)),
        Runtime,
        "embedding_bag: a bag is out of range"
    );
    let factors = contiguous_opt(per_sample_weights)?;
    let absent = Tensor::undefined();
    match_dtype!(grad.dtype(), "embedding_bag_backward", Float, T => {
        let access = AccessSet::acquire(&[
            (&out, Access::Write),
            (&grad, Access::Read),
            (factors.as_ref().unwrap_or(&absent), Access::Read),
        ])?;
        let factors = factors.as_ref().map(|_| access.read::<T>(2)).transpose()?;
        spread.run(access.write::<T>(0)?, access.read::<T>(1)?, factors, len as usize)
    })?;
    Ok(out)
}

/// How the gradients of bags go to the rows of the table.
struct Spread {
    bags: Vec<i64>,
    places: RowIndex,
    /// Rows per bag, for means.
    sizes: Option<Vec<i64>>,
    by_frequency: bool,
}

impl Spread {
    fn run<T: Float>(
        &self,
        out: &mut [T],
        grad: &[T],
        factors: Option<&[T]>,
        len: usize,
    ) -> Result<()> {
        let of = <T as Float>::Wide::of;
        for_each_chunk(out, len, grain_of(len), |row, out| {
            let places = self.places.of_row(row);
            T::fill(out, &mut Vec::new(), |out| {
                out.fill(<T as Float>::Wide::ZERO);
                for &place in places.iter().filter(|place| self.bags[**place] != NO_BAG) {
                    let bag = self.bags[place] as usize;
                    let factor = factors.map_or(of(1.0), |factors| factors[place].widen());
                    let size = self.sizes.as_ref().map_or(1, |sizes| sizes[bag]);
                    let frequency = if self.by_frequency { places.len() } else { 1 };
                    let factor = factor / of(size as f64) / of(frequency as f64);
                    for (sum, grad) in out.iter_mut().zip(&grad[bag * len..][..len]) {
                        *sum += grad.widen() * factor;
                    }
                }
            });
            Ok(())
        })
    }
}

/// Every gradient goes to the row of its maximum; those of empty bags are lost.
fn max_backward(out: &Tensor, grad: &Tensor, bag_size: &Tensor, rows: &Tensor) -> Result<Tensor> {
    op::zero_(out)?;
    let empty = op::unsqueeze(&op::eq_scalar(bag_size, 0.into())?, 1)?;
    let grad = op::masked_fill_scalar(grad, &empty, 0.into())?;
    let rows = op::to_dtype(rows, DType::Int64, false, false, None)?;
    op::scatter_add_(out, 0, &rows, &grad)
}

/// `_embedding_bag_per_sample_weights_backward`: products of the bags' gradients with the rows.
///
/// # Errors
/// `Runtime` for other modes than sums and shapes that do not fit.
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
    let out = empty(&[indices.numel()], grad)?;
    if is_shape_only(&out) {
        return Ok(out);
    }
    let bags = recorded(indices, offsets, offset2bag, grad.size(0)? as usize)?;
    if grad.size(0)? == 0 {
        return op::zero_(&out);
    }
    let bags = Tensor::from_slice(&bags, &[bags.len() as i64])?;
    let outside = op::eq_scalar(&bags, NO_BAG.into())?;
    let bags = op::clamp_min(&bags, 0.into())?;
    let (grads, rows) = (op::index_select(grad, 0, &bags)?, op::index_select(weight, 0, indices)?);
    let sums = op::sum_dim_intlist(&op::mul_tensor(&grads, &rows)?, Some(&[1]), false, None)?;
    let padding = op::eq_scalar(indices, padding_idx.into())?;
    let without = op::logical_or(&padding, &outside)?;
    op::masked_fill_scalar(&sums, &without, 0.into())
}
