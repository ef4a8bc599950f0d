//! What the parts of compressed tensors must be.

use super::dense::{any, arange, long, repeat, times_plus};
use super::{by_rows, in_blocks, index_names, is_compressed};
use crate::{Tensor, op};
use corten_core::{DType, Layout, Result, Scalar, ensure, err};

/// The parts of a tensor, and what they are checked against.
struct Candidate<'a> {
    compressed: &'a Tensor,
    plain: &'a Tensor,
    values: &'a Tensor,
    sizes: &'a [i64],
    layout: Layout,
}

/// Checks that parts make a tensor of this size and layout.
///
/// # Errors
/// `Runtime` where they do not.
pub fn validate(
    compressed_indices: &Tensor,
    plain_indices: &Tensor,
    values: &Tensor,
    size: &[i64],
    layout: Layout,
    _check_pinning: Option<bool>,
) -> Result<()> {
    ensure!(
        is_compressed(layout),
        Runtime,
        "_validate_sparse_compressed_tensor_args expected sparse compressed tensor layout but got \
         {layout}"
    );
    Candidate { compressed: compressed_indices, plain: plain_indices, values, sizes: size, layout }
        .check()
}

macro_rules! validators {
    ($($(#[$doc:meta])* $name:ident => $layout:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// `Runtime` where they do not.
        pub fn $name(
            compressed_indices: &Tensor,
            plain_indices: &Tensor,
            values: &Tensor,
            size: &[i64],
            check_pinning: Option<bool>,
        ) -> Result<()> {
            let layout = Layout::$layout;
            validate(compressed_indices, plain_indices, values, size, layout, check_pinning)
        }
    )*};
}

validators! {
    /// Checks that parts make a tensor of this size whose rows are compressed.
    validate_csr => SparseCsr;
    /// Checks that parts make a tensor of this size whose columns are compressed.
    validate_csc => SparseCsc;
    /// Checks that parts make a tensor of this size whose rows of blocks are compressed.
    validate_bsr => SparseBsr;
    /// Checks that parts make a tensor of this size whose columns of blocks are compressed.
    validate_bsc => SparseBsc;
}

/// The dimensions behind the entries that make a block.
const fn inner_dims(layout: Layout) -> usize {
    if in_blocks(layout) { 2 } else { 0 }
}

impl Candidate<'_> {
    fn check(&self) -> Result<()> {
        let (first, second) = index_names(self.layout);
        let start = self.check_dimensions()?;
        let grid = self.check_shapes(start)?;
        let (compressed, plain) = (self.compressed.dtype(), self.plain.dtype());
        ensure!(
            compressed == plain,
            Runtime,
            "{first} and {second} must have the same dtype, bot got {} and {}, respectively",
            compressed.type_name(),
            plain.type_name()
        );
        ensure!(
            matches!(compressed, DType::Int32 | DType::Int64),
            Runtime,
            "{first} and {second} dtype must be Int or Long, but got {}",
            compressed.type_name()
        );
        let (device, of_values) = (self.compressed.device(), self.values.device());
        ensure!(
            device == self.plain.device() && device == of_values,
            Runtime,
            "device of {first} (={device}) must match device of values (={of_values})"
        );
        let [groups, width] = if by_rows(self.layout) { grid } else { [grid[1], grid[0]] };
        check_places(self.compressed, self.plain, groups, width, by_rows(self.layout))
    }

    /// That numbers of dimensions fit together; gives the number of batch dimensions.
    fn check_dimensions(&self) -> Result<usize> {
        let (first, second) = index_names(self.layout);
        for (name, part) in [(first, self.compressed), (second, self.plain)] {
            ensure!(
                part.dim() == 0 || part.strides()[part.dim() - 1] == 1,
                Runtime,
                "expected {name} to be a contiguous tensor per batch"
            );
        }
        let dims = [self.compressed.dim(), self.plain.dim(), self.values.dim()];
        ensure!(dims[0] >= 1, Runtime, "{first} must have dimensionality >= 1 but got {}", dims[0]);
        ensure!(
            dims[0] == dims[1],
            Runtime,
            "{first} and {second} dimensionalities must be equal but got {} and {}, respectively",
            dims[0],
            dims[1]
        );
        let (start, inner) = (dims[0] - 1, inner_dims(self.layout));
        require_entries(self.values, start, inner)?;
        let dense = dims[2] - start - inner - 1;
        ensure!(
            self.sizes.len() == start + 2 + dense,
            Runtime,
            "tensor dimensionality must be sum of batch, base, and dense dimensionalities (={start} + \
             2 + {dense}) but got {}",
            self.sizes.len()
        );
        Ok(start)
    }

    /// That shapes fit together; gives the numbers of rows and columns of blocks.
    fn check_shapes(&self, start: usize) -> Result<[i64; 2]> {
        let (first, second) = index_names(self.layout);
        let shapes = [self.compressed.sizes(), self.plain.sizes(), self.values.sizes()];
        let (sizes, inner) = (self.sizes, inner_dims(self.layout));
        let least = sizes.iter().copied().min().unwrap_or(0);
        ensure!(
            least >= 0,
            Runtime,
            "Trying to create tensor with negative dimension {least}: {sizes:?}"
        );
        ensure!(
            shapes.iter().all(|shape| shape[..start] == sizes[..start]),
            Runtime,
            "all batch dimensions of {first} (={:?}), {second} (={:?}), and values (={:?}) must be \
             equal to tensor batch dimensions (={:?})",
            &shapes[0][..start],
            &shapes[1][..start],
            &shapes[2][..start],
            &sizes[..start]
        );
        let mut grid = [sizes[start], sizes[start + 1]];
        for (place, size) in grid.iter_mut().enumerate().take(inner) {
            let block = shapes[2][start + 1 + place];
            ensure!(
                *size % block.max(1) == 0,
                Runtime,
                "tensor shape[{}] (={size}) must be divisible with blocksize[{place}] (={block}) as \
                 defined by values shape",
                start + place
            );
            *size /= block.max(1);
        }
        ensure!(
            shapes[2][start + 1 + inner..] == sizes[start + 2..],
            Runtime,
            "the dense dimensions of values (={:?}) must be those of the size (={:?})",
            &shapes[2][start + 1 + inner..],
            &sizes[start + 2..]
        );
        let rows = by_rows(self.layout);
        let groups = grid[usize::from(!rows)];
        ensure!(
            shapes[0][start] == groups + 1,
            Runtime,
            "{first}.shape[-1] must be equal to the number of {}{} + 1 (={}), but got {}",
            if rows { "row" } else { "column" },
            if inner > 0 { " blocks" } else { "s" },
            groups + 1,
            shapes[0][start]
        );
        ensure!(
            shapes[1][start] == shapes[2][start],
            Runtime,
            "{second}.shape[-1] must be equal to nnz (={}) as defined by values.shape[{start}], but got \
             {}",
            shapes[2][start],
            shapes[1][start]
        );
        Ok(grid)
    }
}

fn require_entries(values: &Tensor, start: usize, inner: usize) -> Result<()> {
    ensure!(
        values.dim() > start + inner,
        Runtime,
        "values must have dimensionality > sum of batch and block dimensionalities (={start} + \
         {inner}) but got {}",
        values.dim()
    );
    Ok(())
}

/// Checks that the indices of `nnz` entries are those of `cdim` rows (columns) of width `dim`.
///
/// # Errors
/// `Runtime` where they are not.
pub fn validate_indices(
    is_crow: bool,
    compressed_idx: &Tensor,
    plain_idx: &Tensor,
    cdim: i64,
    dim: i64,
    nnz: i64,
) -> Result<()> {
    let layout = if is_crow { Layout::SparseCsr } else { Layout::SparseCsc };
    let (first, second) = index_names(layout);
    let last = |tensor: &Tensor| tensor.sizes().last().copied().unwrap_or(0);
    let expected = i128::from(cdim) + 1;
    ensure!(
        i128::from(last(compressed_idx)) == expected,
        Runtime,
        "{first} have wrong shape: {first}.shape[-1] = {} is not equal to {} + 1 = {}",
        last(compressed_idx),
        if is_crow { "nrows" } else { "ncols" },
        expected
    );
    ensure!(
        last(plain_idx) == nnz,
        Runtime,
        "{second} have wrong shape: {second}.shape[-1] = {} is not equal to nnz = {nnz}",
        last(plain_idx)
    );
    ensure!(
        compressed_idx.dtype() == plain_idx.dtype(),
        Runtime,
        "Found dtype {} but expected {}",
        compressed_idx.dtype().type_name(),
        plain_idx.dtype().type_name()
    );
    check_places(compressed_idx, plain_idx, cdim, dim, is_crow)
}

/// That the numbers in the indices are in order.
fn check_places(
    compressed: &Tensor,
    plain: &Tensor,
    groups: i64,
    width: i64,
    rows: bool,
) -> Result<()> {
    if compressed.device().is_meta() {
        return Ok(());
    }
    let layout = if rows { Layout::SparseCsr } else { Layout::SparseCsc };
    let (first, second) = index_names(layout);
    let (counted, other) = if rows { ("nrows", "ncols") } else { ("ncols", "nrows") };
    let (ends, number) = (long(compressed)?, Scalar::Int);
    let steps = op::diff(&ends, 1, -1, None, None)?;
    let nnz = plain.sizes().last().copied().unwrap_or(0);
    ensure!(
        !any(&op::select_int(&ends, -1, 0)?)?,
        Runtime,
        "`{first}[..., 0] == 0` is not satisfied."
    );
    let last = op::select_int(&ends, -1, -1)?;
    ensure!(
        !any(&op::ne_scalar(&last, number(nnz))?)?,
        Runtime,
        "`{first}[..., -1] == nnz` is not satisfied."
    );
    let outside = |tensor: &Tensor, most: i64| {
        Ok::<_, corten_core::Error>(
            any(&op::lt_scalar(tensor, number(0))?)? || any(&op::gt_scalar(tensor, number(most))?)?,
        )
    };
    ensure!(
        !outside(&ends, nnz)? && !outside(&steps, width)?,
        Runtime,
        "`0 <= {first}[..., 1:] - {first}[..., :-1] <= {other}` is not satisfied."
    );
    ensure!(
        !outside(&long(plain)?, width - 1)?,
        Runtime,
        "`0 <= {second} < {other}` is not satisfied."
    );
    // The row of an entry and its place in it, as one number, grow from entry to entry.
    let counts = op::reshape(&steps, &[-1])?;
    let group = repeat(&arange(counts.numel(), &counts)?, &counts)?;
    let flat = times_plus(&group, width, &long(&op::reshape(plain, &[-1])?)?)?;
    let falls = op::le_scalar(&op::diff(&flat, 1, -1, None, None)?, number(0))?;
    ensure!(
        groups < 0 || !any(&falls)?,
        Runtime,
        "`{second}[..., {first}[..., i - 1]:{first}[..., i]] for all i = 1, ..., {counted} are sorted \
         and distinct along the last dimension values` is not satisfied."
    );
    Ok(())
}

/// The least size that these parts fit in.
pub(super) fn estimated_size(
    compressed: &Tensor,
    plain: &Tensor,
    values: &Tensor,
    layout: Layout,
) -> Result<Vec<i64>> {
    let (first, second) = index_names(layout);
    ensure!(
        compressed.dim() >= 1,
        Runtime,
        "{first} must have dimensionality >= 1 but got {}",
        compressed.dim()
    );
    ensure!(
        compressed.dim() == plain.dim(),
        Runtime,
        "{first} and {second} dimensionalities must be equal but got {} and {}, respectively",
        compressed.dim(),
        plain.dim()
    );
    let (start, inner) = (compressed.dim() - 1, inner_dims(layout));
    require_entries(values, start, inner)?;
    let shape = values.sizes();
    let block = if inner > 0 { [shape[start + 1], shape[start + 2]] } else { [1, 1] };
    let groups = compressed.sizes()[start] - 1;
    let width = match plain.numel() > 0 && !plain.device().is_meta() {
        true => op::item(&op::max(&long(plain)?)?)?.to_i64().checked_add(1),
        false => Some(0),
    };
    let too_large = || err!(Runtime, "{second} has indices of sizes that cannot be counted");
    let width = width.ok_or_else(too_large)?;
    let (rows, columns) = if by_rows(layout) { (groups, width) } else { (width, groups) };
    let mut sizes = compressed.sizes()[..start].to_vec();
    for (count, each) in [(rows, block[0]), (columns, block[1])] {
        sizes.push(count.checked_mul(each).ok_or_else(too_large)?);
    }
    sizes.extend_from_slice(&shape[start + 1 + inner..]);
    Ok(sizes)
}
