//! From one layout to another: dense, coordinates, compressed rows and columns, blocks.

use super::dense::{
    arange, at, floor_div, joined, long, modulo, repeat, sum_by, times_plus, to, zeros, zeros_of,
};
use super::{Matrices, by_rows, in_blocks, index_names, is_compressed};
use crate::sparse::{Compressed, Coo};
use crate::{Tensor, op};
use corten_core::{DType, Dims, Layout, Result, Scalar, bail, ensure};

/// Three numbers for every entry, as `int64`: of its batch, its row and its column, of blocks.
#[derive(Clone)]
pub(crate) struct Coordinates {
    pub(crate) batch: Tensor,
    pub(crate) row: Tensor,
    pub(crate) column: Tensor,
}

impl Coordinates {
    /// Where the entries of a tensor are.
    pub(crate) fn of(x: &Matrices) -> Result<Self> {
        let compressed = &x.parts.compressed_indices;
        let groups = (compressed.sizes().last().copied().unwrap_or(1) - 1).max(0);
        let counts = long(&op::reshape(&op::diff(compressed, 1, -1, None, None)?, &[-1])?)?;
        let group = repeat(&arange(counts.numel(), &counts)?, &counts)?;
        let plain = long(&op::reshape(&x.parts.plain_indices, &[-1])?)?;
        ensure!(
            group.numel() == plain.numel(),
            Runtime,
            "`{}[..., -1] == nnz` is not satisfied.",
            index_names(x.layout()).0
        );
        let (batch, along) = (floor_div(&group, groups)?, modulo(&group, groups)?);
        let (row, column) = if x.by_rows() { (along, plain) } else { (plain, along) };
        Ok(Self { batch, row, column })
    }

    /// The three, in the order of a tiled dense tensor's dimensions.
    pub(crate) fn all(&self) -> [&Tensor; 3] {
        [&self.batch, &self.row, &self.column]
    }

    /// One number for each place in a grid of so many rows and columns.
    pub(crate) fn flat(&self, [rows, columns]: [i64; 2]) -> Result<Tensor> {
        times_plus(&times_plus(&self.batch, rows, &self.row)?, columns, &self.column)
    }
}

/// A dense tensor as blocks: (batches, rows, columns, block, dense dimensions).
pub(crate) fn tiles(dense: &Tensor, [height, width]: [i64; 2], start: usize) -> Result<Tensor> {
    let sizes = dense.sizes();
    let batches: i64 = sizes[..start].iter().product();
    let split = [batches, sizes[start] / height, height, sizes[start + 1] / width, width];
    op::transpose_int(&op::reshape(dense, &joined(&[&split, &sizes[start + 2..]]))?, 2, 3)
}

/// The dense tensor; entries at the same place are added up.
pub(crate) fn dense_of(x: &Matrices) -> Result<Tensor> {
    let (start, [height, width], [rows, columns]) = (x.start(), x.block(), x.grid());
    let rest = &x.sizes[start + 2..];
    let values = &x.parts.values;
    let tiled = joined(&[&[x.count(), rows, columns, height, width], rest]);
    let made = zeros(&tiled, values)?;
    let entries = joined(&[&[x.count() * x.nnz(), height, width], rest]);
    let entries = op::reshape(values, &entries)?;
    let places = Coordinates::of(x)?;
    let places: Vec<_> = places.all().into_iter().map(|place| Some(place.clone())).collect();
    let made = op::index_put_(&made, &places, &entries, values.dtype() != DType::Bool)?;
    op::reshape(&op::transpose_int(&made, 2, 3)?, &x.sizes)
}

/// The elements of a dense or sparse tensor at the places of another one, in the shape of its values.
pub(crate) fn entries_at(x: &Tensor, pattern: &Matrices) -> Result<Tensor> {
    if let Some(other) = Matrices::of(x)
        && other.layout() == pattern.layout()
        && same_places(&other, pattern)?
    {
        return op::values(x);
    }
    let dense = match x.layout() {
        Layout::Strided => x.clone(),
        _ => op::to_dense(x, None, None)?,
    };
    let tiled = tiles(&dense, pattern.block(), pattern.start())?;
    let found = at(&tiled, &Coordinates::of(pattern)?.all())?;
    op::reshape(&found, &pattern.parts.values.sizes())
}

/// Whether the entries of two tensors are at the same places.
pub(crate) fn same_places(a: &Matrices, b: &Matrices) -> Result<bool> {
    Ok(super::dense::same(&a.parts.compressed_indices, &b.parts.compressed_indices)?
        && super::dense::same(&a.parts.plain_indices, &b.parts.plain_indices)?)
}

/// The size of blocks that an operator is given, checked.
pub(crate) fn block_size(
    name: &str,
    layout: Layout,
    given: Option<&[i64]>,
    sizes: [i64; 2],
) -> Result<[i64; 2]> {
    if in_blocks(layout) != given.is_some() {
        bail!(
            Runtime,
            "dense_to_sparse: conversion from Strided to {layout} {} blocksize argument given is not \
             supported",
            if given.is_some() { "with" } else { "without" }
        );
    }
    let Some(given) = given else { return Ok([1, 1]) };
    let &[height, width] = given else {
        bail!(Runtime, "{name}: blocksize needs to be a tuple of size 2, but got {}", given.len());
    };
    ensure!(
        height > 0 && width > 0,
        Runtime,
        "{name}: blocksize needs to be positive, but got {given:?}"
    );
    ensure!(
        sizes[0] % height == 0 && sizes[1] % width == 0,
        Runtime,
        "{name}: tensor sparse size ({},{}) must be divisible by given blocksize ({height},{width})",
        sizes[0],
        sizes[1]
    );
    Ok([height, width])
}

/// The elements or blocks of a dense tensor that are not zero.
pub(crate) fn from_dense(
    dense: &Tensor,
    layout: Layout,
    blocksize: Option<&[i64]>,
    dense_dim: Option<i64>,
) -> Result<Matrices> {
    let name = format!("dense_to_{}", layout.name());
    let (dim, dense_dim) = (dense.dim() as i64, dense_dim.unwrap_or(0));
    ensure!(dim >= 2, Index, "{name}: a matrix is expected, but got a tensor of {dim} dimensions");
    ensure!(
        (0..=dim - 2).contains(&dense_dim),
        Runtime,
        "{name}: dense_dim argument must be in [0,{}] range, but {dense_dim} is given",
        dim - 2
    );
    let (start, sizes) = ((dim - 2 - dense_dim) as usize, dense.sizes());
    let block = block_size(&name, layout, blocksize, [sizes[start], sizes[start + 1]])?;
    ensure!(
        !sizes[..start].contains(&0),
        Runtime,
        "to_{}: Expected product of batch dimensions to be non-zero.",
        layout.name()
    );
    compress(dense, layout, block, start)
}

fn compress(dense: &Tensor, layout: Layout, block: [i64; 2], start: usize) -> Result<Matrices> {
    let sizes = dense.sizes();
    let batches = &sizes[..start];
    let tiled = tiles(dense, block, start)?;
    let filled = op::ne_scalar(&tiled, Scalar::Int(0))?;
    let filled = op::any_dim(&op::flatten_using_ints(&filled, 3, -1)?, -1, false)?;
    let along = if by_rows(layout) { filled } else { op::transpose_int(&filled, 1, 2)? };
    let counts = op::sum_dim_intlist(&along, Some(&[-1]), false, Some(DType::Int64))?;
    let each = entries_of_each(&counts)?;
    let found = op::unbind_int(&op::nonzero(&along)?, 1)?;
    let [number, group, plain] = &found[..] else {
        corten_core::bug!("places of {} dimensions", found.len());
    };
    let chosen = if by_rows(layout) { [number, group, plain] } else { [number, plain, group] };
    let mut values = at(&tiled, &chosen)?;
    if !in_blocks(layout) {
        values = op::select_int(&op::select_int(&values, 1, 0)?, 1, 0)?;
    }
    let parts = Compressed {
        layout,
        compressed_indices: op::reshape(&ends(&counts)?, &joined(&[batches, &[-1]]))?,
        plain_indices: op::reshape(plain, &joined(&[batches, &[each]]))?,
        values: op::reshape(&values, &joined(&[batches, &[each], &values.sizes()[1..]]))?,
    };
    Ok(Matrices { parts, sizes })
}

/// How many entries every batch has, given those of each row.
fn entries_of_each(counts: &Tensor) -> Result<i64> {
    if counts.size(0)? == 0 {
        return Ok(0);
    }
    let totals = op::sum_dim_intlist(counts, Some(&[-1]), false, None)?;
    let totals = totals.to_vec::<i64>()?;
    ensure!(
        totals.iter().all(|total| *total == totals[0]),
        Runtime,
        "Expect the same number of specified elements per batch."
    );
    Ok(totals[0])
}

/// Where the entries of every row end, after a zero.
fn ends(counts: &Tensor) -> Result<Tensor> {
    let zero = zeros_of(&[counts.size(0)?, 1], counts, DType::Int64)?;
    op::cat(&[zero, op::cumsum(counts, -1, None)?], -1)
}

/// What entries in any order become a tensor of.
pub(crate) struct Arrangement<'a> {
    pub(crate) sizes: &'a [i64],
    pub(crate) layout: Layout,
    /// The number of batch dimensions.
    pub(crate) start: usize,
    /// The dtype of the indices.
    pub(crate) dtype: DType,
    /// Whether values at the same place are added up.
    pub(crate) sums: bool,
}

impl Arrangement<'_> {
    /// The tensor of values at some places.
    pub(crate) fn of(&self, places: &Coordinates, values: &Tensor) -> Result<Matrices> {
        let (layout, start) = (self.layout, self.start);
        let (height, width) = match in_blocks(layout) {
            true => (values.size(1)?.max(1), values.size(2)?.max(1)),
            false => (1, 1),
        };
        let (rows, columns) = (self.sizes[start] / height, self.sizes[start + 1] / width);
        let (groups, width, group, plain) = match by_rows(layout) {
            true => (rows, columns, &places.row, &places.column),
            false => (columns, rows, &places.column, &places.row),
        };
        let flat = times_plus(&times_plus(&places.batch, groups, group)?, width, plain)?;
        let (flat, values) = match self.sums {
            true => {
                let (flat, inverse, _) = op::_unique2(&flat, true, true, false)?;
                let sums = sum_by(&inverse, values, flat.numel())?;
                (flat, sums)
            }
            false => {
                let (flat, order) = op::sort_stable(&flat, Some(true), 0, false)?;
                (flat, op::index_select(values, 0, &order)?)
            }
        };
        self.assembled(&flat, &values, groups, width)
    }

    fn assembled(
        &self,
        flat: &Tensor,
        values: &Tensor,
        groups: i64,
        width: i64,
    ) -> Result<Matrices> {
        let batches = &self.sizes[..self.start];
        let count: i64 = batches.iter().product();
        let counts = op::bincount(&floor_div(flat, width)?, None, count * groups)?;
        let counts = op::reshape(&counts, &[count, groups])?;
        let each = entries_of_each(&counts)?;
        let ends = to(&ends(&counts)?, self.dtype)?;
        let plain = to(&modulo(flat, width)?, self.dtype)?;
        let parts = Compressed {
            layout: self.layout,
            compressed_indices: op::reshape(&ends, &joined(&[batches, &[groups + 1]]))?,
            plain_indices: op::reshape(&plain, &joined(&[batches, &[each]]))?,
            values: op::reshape(values, &joined(&[batches, &[each], &values.sizes()[1..]]))?,
        };
        Ok(Matrices { parts, sizes: Dims::from_slice(self.sizes) })
    }
}

/// Places and values of single numbers; blocks are taken apart.
pub(crate) fn single_entries(x: &Matrices) -> Result<(Coordinates, Tensor)> {
    let (places, values) = (Coordinates::of(x)?, x.flat_values()?);
    if !x.in_blocks() {
        return Ok((places, values));
    }
    let [height, width] = x.block();
    let shape = [places.row.numel(), height, width];
    let spread = |number: &Tensor, factor: i64, offsets: &Tensor| {
        let apart = op::reshape(number, &[-1, 1, 1])?;
        let apart = times_plus(&apart, factor, offsets)?;
        op::reshape(&op::expand(&apart, &shape, false)?, &[-1])
    };
    let down = op::reshape(&arange(height, &places.row)?, &[-1, 1])?;
    let right = arange(width, &places.row)?;
    let nothing = zeros(&[1], &places.batch)?;
    let places = Coordinates {
        batch: spread(&places.batch, 1, &nothing)?,
        row: spread(&places.row, height, &down)?,
        column: spread(&places.column, width, &right)?,
    };
    Ok((places, op::flatten_using_ints(&values, 0, 2)?))
}

/// Single numbers gathered to the blocks they lie in.
pub(crate) fn blocks_of(
    places: &Coordinates,
    values: &Tensor,
    [height, width]: [i64; 2],
    goal: &Arrangement<'_>,
) -> Result<Matrices> {
    let (rows, columns) = (goal.sizes[goal.start] / height, goal.sizes[goal.start + 1] / width);
    let block = Coordinates {
        batch: places.batch.clone(),
        row: floor_div(&places.row, height)?,
        column: floor_div(&places.column, width)?,
    };
    let (found, inverse, _) = op::_unique2(&block.flat([rows, columns])?, true, true, false)?;
    let sizes = joined(&[&[found.numel(), height, width], &values.sizes()[1..]]);
    let inside = [inverse, modulo(&places.row, height)?, modulo(&places.column, width)?];
    let inside: Vec<_> = inside.into_iter().map(Some).collect();
    let made = op::index_put_(&zeros(&sizes, values)?, &inside, values, false)?;
    let line = floor_div(&found, columns)?;
    let places = Coordinates {
        batch: floor_div(&line, rows)?,
        row: modulo(&line, rows)?,
        column: modulo(&found, columns)?,
    };
    goal.of(&places, &made)
}

/// The entries in coordinate format; batches are sparse dimensions.
pub(crate) fn to_coordinates(x: &Matrices) -> Result<Tensor> {
    let (places, values) = single_entries(x)?;
    let mut number = places.batch;
    let mut indices = vec![places.column, places.row];
    for &size in x.batches().iter().rev() {
        indices.push(modulo(&number, size)?);
        number = floor_div(&number, size)?;
    }
    indices.reverse();
    let coalesced = x.layout() == Layout::SparseCsr;
    Coo { indices: op::stack(&indices, 0)?, values, coalesced }.tensor(&x.sizes)
}

/// A compressed tensor in another layout.
pub(crate) fn converted(
    x: &Matrices,
    layout: Layout,
    blocksize: Option<&[i64]>,
    dense_dim: Option<i64>,
) -> Result<Matrices> {
    let (old, name) = (x.layout(), format!("to_{}", layout.name()));
    let caller = if old == layout { "to_sparse" } else { "sparse_compressed_to_sparse" };
    ensure!(
        dense_dim.is_none_or(|given| given == x.dense_sizes().len() as i64),
        Runtime,
        "{name}: conversion from {old} to {layout} with dense_dim argument given is not supported"
    );
    ensure!(
        !in_blocks(old) || in_blocks(layout),
        Runtime,
        "sparse_compressed_{name}: expected SparseCsr or SparseCsc layout but got {old}"
    );
    if in_blocks(old) {
        let block = x.block();
        let given = blocksize.unwrap_or(&block);
        ensure!(
            given == block,
            Runtime,
            "{caller}: conversion from {old} to {layout} with blocksize changed from {block:?} to \
             {given:?} is not supported"
        );
    }
    if old == layout {
        return Ok(x.clone());
    }
    let (start, dtype) = (x.start(), x.parts.compressed_indices.dtype());
    let goal = Arrangement { sizes: &x.sizes, layout, start, dtype, sums: false };
    if in_blocks(old) || !in_blocks(layout) {
        return goal.of(&Coordinates::of(x)?, &x.flat_values()?);
    }
    ensure!(
        start == 0,
        Runtime,
        "{caller}: conversion from {old} to {layout} for batched inputs is not supported"
    );
    let block = block_size(&name, layout, blocksize, x.matrix_sizes())?;
    let (places, values) = single_entries(x)?;
    blocks_of(&places, &values, block, &goal)
}

fn from_coordinates(x: &Tensor, layout: Layout, blocksize: Option<&[i64]>) -> Result<Matrices> {
    let name = layout.name();
    let x = op::coalesce(x)?;
    let Coo { indices, values, .. } = Coo::expect(&x, &format!("coo_to_{name}"))?;
    ensure!(
        indices.size(0)? == 2,
        Runtime,
        "coo_to_{name}: conversion from Sparse to {layout} for input tensors with sparse_dim()!=2 is \
         not supported"
    );
    let (row, column) = (op::select_int(&indices, 0, 0)?, op::select_int(&indices, 0, 1)?);
    let places = Coordinates { batch: zeros(&row.sizes(), &row)?, row, column };
    let sizes = x.sizes();
    let goal = Arrangement { sizes: &sizes, layout, start: 0, dtype: DType::Int64, sums: false };
    if !in_blocks(layout) {
        return goal.of(&places, &values);
    }
    let block = block_size(&format!("to_{name}"), layout, blocksize, [sizes[0], sizes[1]])?;
    blocks_of(&places, &values, block, &goal)
}

/// A tensor of any layout in one of the compressed layouts.
pub(crate) fn to_layout(
    x: &Tensor,
    layout: Layout,
    blocksize: Option<&[i64]>,
    dense_dim: Option<i64>,
) -> Result<Tensor> {
    if let Some(matrices) = Matrices::of(x) {
        if matrices.layout() == layout && blocksize.is_none() && dense_dim.is_none() {
            return Ok(x.clone());
        }
        return converted(&matrices, layout, blocksize, dense_dim)?.tensor();
    }
    match x.layout() {
        Layout::Strided => from_dense(x, layout, blocksize, dense_dim)?.tensor(),
        _ => from_coordinates(x, layout, blocksize)?.tensor(),
    }
}

/// The entries that are not zero, by rows.
///
/// # Errors
/// `Runtime` where batches have different numbers of entries, or there is no way between the layouts.
pub fn to_csr(self_: &Tensor, dense_dim: Option<i64>) -> Result<Tensor> {
    to_layout(self_, Layout::SparseCsr, None, dense_dim)
}

/// The entries that are not zero, by columns.
///
/// # Errors
/// As [`to_csr`].
pub fn to_csc(self_: &Tensor, dense_dim: Option<i64>) -> Result<Tensor> {
    to_layout(self_, Layout::SparseCsc, None, dense_dim)
}

/// The blocks that are not zero, by rows.
///
/// # Errors
/// As [`to_csr`], and where blocks of this size do not fit.
pub fn to_bsr(self_: &Tensor, blocksize: &[i64], dense_dim: Option<i64>) -> Result<Tensor> {
    to_layout(self_, Layout::SparseBsr, Some(blocksize), dense_dim)
}

/// The blocks that are not zero, by columns.
///
/// # Errors
/// As [`to_bsr`].
pub fn to_bsc(self_: &Tensor, blocksize: &[i64], dense_dim: Option<i64>) -> Result<Tensor> {
    to_layout(self_, Layout::SparseBsc, Some(blocksize), dense_dim)
}

/// A compressed tensor in another sparse layout: by default in coordinates.
///
/// # Errors
/// As [`to_bsr`].
pub fn to_sparse(
    self_: &Tensor,
    layout: Option<Layout>,
    blocksize: Option<&[i64]>,
    dense_dim: Option<i64>,
) -> Result<Tensor> {
    match layout.filter(|&layout| is_compressed(layout)) {
        Some(layout) => to_layout(self_, layout, blocksize, dense_dim),
        None => to_coordinates(&Matrices::expect(self_, "to_sparse")?),
    }
}

/// A compressed tensor in coordinate format with so many sparse dimensions.
///
/// # Errors
/// `Runtime` for another number than 2.
pub fn to_sparse_dim(self_: &Tensor, sparse_dim: i64) -> Result<Tensor> {
    ensure!(
        sparse_dim == 2,
        Runtime,
        "sparse_compressed_to_sparse: conversion from {} to Sparse with sparse_dim argument !=2 is not \
         supported",
        self_.layout()
    );
    to_coordinates(&Matrices::expect(self_, "to_sparse")?)
}

/// A compressed tensor as a dense one.
///
/// # Errors
/// `Runtime` where a dtype is given.
pub fn to_dense(
    self_: &Tensor,
    dtype: Option<DType>,
    _masked_grad: Option<bool>,
) -> Result<Tensor> {
    ensure!(
        dtype.is_none(),
        Runtime,
        "dtype argument is not supported by {}_to_dense",
        self_.layout().name()
    );
    dense_of(&Matrices::expect(self_, "to_dense")?)
}

/// The ends of rows for the sorted rows of entries.
///
/// # Errors
/// `Runtime` for more than one dimension.
pub fn indices_from_coo_to_csr(self_: &Tensor, size: i64, out_int32: bool) -> Result<Tensor> {
    ensure!(
        self_.dim() <= 1,
        Runtime,
        "Input is supposed to be a vector, but got {} dimensional tensor.",
        self_.dim()
    );
    let counts = op::bincount(&long(&op::reshape(self_, &[-1])?)?, None, size)?;
    let ends = op::reshape(&ends(&op::unsqueeze(&counts, 0)?)?, &[-1])?;
    to(&ends, if out_int32 { DType::Int32 } else { DType::Int64 })
}

/// Rows and columns of entries, after the numbers of their batches, one row for each dimension.
///
/// # Errors
/// Those of the operators.
pub fn indices_from_csr_to_coo(
    crow_indices: &Tensor,
    col_indices: &Tensor,
    out_int32: bool,
    transpose: bool,
) -> Result<Tensor> {
    let counts = op::diff(crow_indices, 1, -1, None, None)?;
    let rows = counts.sizes().last().copied().unwrap_or(0);
    let counts = long(&op::reshape(&counts, &[-1])?)?;
    let line = repeat(&arange(counts.numel(), &counts)?, &counts)?;
    let columns = long(&op::reshape(col_indices, &[-1])?)?;
    let mut number = floor_div(&line, rows)?;
    let mut places = vec![columns, modulo(&line, rows)?];
    if transpose {
        places.swap(0, 1);
    }
    let batches = col_indices.sizes();
    for &size in batches[..batches.len().saturating_sub(1)].iter().rev() {
        places.push(modulo(&number, size)?);
        number = floor_div(&number, size)?;
    }
    places.reverse();
    to(&op::stack(&places, 0)?, if out_int32 { DType::Int32 } else { DType::Int64 })
}

/// The elements of a tensor at the places that `mask`, a compressed tensor, has.
///
/// # Errors
/// `Runtime` for another shape.
pub fn sparse_mask(self_: &Tensor, mask: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.sizes() == mask.sizes(),
        Runtime,
        "sparse_mask(): operands have incompatible sizes; self has size {:?} but mask has size {:?}",
        self_.sizes().as_slice(),
        mask.sizes().as_slice()
    );
    let mask = Matrices::expect(mask, "sparse_mask")?;
    mask.with_values(entries_at(self_, &mask)?).tensor()
}

/// The elements of a tensor at the places of a compressed one, in the shape of its values.
///
/// # Errors
/// `Runtime` where `pattern` is not compressed.
pub fn entries_like(x: &Tensor, pattern: &Tensor) -> Result<Tensor> {
    entries_at(x, &Matrices::expect(pattern, "entries_like")?)
}
