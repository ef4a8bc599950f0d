//! Matrices of 2:4 sparsity: of four neighbours in a row at most two are not zero.

// Note [Semi-structured matrices]
// A matrix of (m, k) is kept as the two elements of each four that may be other than zero, (m, k / 2),
// and metadata: two numbers of two bits for each four say where they were. Of `float32` one of two
// elements is kept, and the metadata is that of four halves of elements. Words of metadata lie in the
// order in which tensor cores read them, so that tensors and files are those of PyTorch's CUTLASS
// back end: rows are interleaved in groups, two by two words are swizzled, and pairs of columns are
// stored one behind the other.
//
// A single tensor of both, as the other back end has it, ends with the metadata row by row.

use super::support::{contiguous, defined, empty, empty_as};
use crate::parallel::chunks::{for_each_chunk, for_each_chunk2, grain_of};
use corten_core::{
    Access, AccessSet, DType, Element, Result, Scalar, bail, bf16, ensure, err, f16,
};
use corten_ops::{Tensor, op};

/// So many rows are expanded at once for a product.
const TILE: i64 = 128;

/// How matrices of a dtype are compressed.
#[derive(Clone, Copy)]
struct Format {
    /// The elements that stand beside each other in a group: 4, or 2 of which one is kept.
    group: usize,
    /// The dtype of a word of metadata.
    word: DType,
    /// The groups that a word tells of.
    per_word: usize,
    /// The number of rows must be a multiple of this.
    rows: i64,
}

impl Format {
    fn of(dtype: DType) -> Result<Self> {
        Ok(match dtype {
            DType::Int8 => Self { group: 4, word: DType::Int32, per_word: 8, rows: 16 },
            DType::Float16 | DType::BFloat16 => {
                Self { group: 4, word: DType::Int16, per_word: 4, rows: 32 }
            }
            DType::Float32 => Self { group: 2, word: DType::Int16, per_word: 4, rows: 32 },
            other => bail!(Runtime, "Invalid datatype {other} of dense matrix"),
        })
    }

    /// The place of a word of the metadata of `rows` rows.
    fn place(self, row: usize, column: usize, rows: usize) -> usize {
        let (group, interleaved) = if self.per_word == 4 { (32, 4) } else { (16, 2) };
        let row = row / group * group + row % 8 * interleaved + row % group / 8;
        let (row, column) = match (row % 2, column % 2) {
            (0, 1) => (row + 1, column - 1),
            (1, 0) => (row - 1, column + 1),
            _ => (row, column),
        };
        column / 2 * rows * 2 + row * 2 + column % 2
    }
}

macro_rules! match_kept {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            DType::Int8 => {
                type $t = i8;
                $body
            }
            DType::Float16 => {
                type $t = f16;
                $body
            }
            DType::BFloat16 => {
                type $t = bf16;
                $body
            }
            DType::Float32 => {
                type $t = f32;
                $body
            }
            other => bail!(Runtime, "Invalid datatype {other} of dense matrix"),
        }
    };
}

/// A matrix as the elements that are kept and the metadata.
///
/// # Errors
/// `Runtime` for another dtype, sizes that do not fit, and more than two of four elements that are not
/// zero.
pub fn to_semi_structured(dense: &Tensor) -> Result<(Tensor, Tensor)> {
    ensure!(
        dense.dim() == 2,
        Runtime,
        "Expected 2-dimensional dense tensor, got {}-dimensional tensor",
        dense.dim()
    );
    let format = Format::of(dense.dtype())?;
    let (m, k) = (dense.size(0)?, dense.size(1)?);
    ensure!(
        m % format.rows == 0,
        Runtime,
        "Number of rows of dense matrix {m} must be divisible by {}",
        format.rows
    );
    // Words are stored in pairs of columns.
    let step = 2 * (format.group * format.per_word) as i64;
    ensure!(
        k % step == 0,
        Runtime,
        "Number of columns of dense matrix {k} must be divisible by {step}"
    );
    let (values, codes) = compressed(dense, format)?;
    let columns = k as usize / (format.group * format.per_word);
    // Bounded: less than the tensor itself takes.
    let mut words = vec![0u32; m as usize * columns];
    for (number, codes) in codes.chunks(format.per_word).enumerate() {
        let place = format.place(number / columns, number % columns, m as usize);
        words[place] = packed(codes);
    }
    let sizes = [m, columns as i64];
    let meta = match format.word {
        DType::Int16 => Tensor::from_vec(words.iter().map(|&word| word as i16).collect(), &sizes),
        _ => Tensor::from_vec(words.iter().map(|&word| word as i32).collect(), &sizes),
    }?;
    Ok((values, meta))
}

/// The codes of groups in one word, the first in its lowest bits.
fn packed(codes: &[u8]) -> u32 {
    codes.iter().rev().fold(0, |word, &code| word << 4 | u32::from(code))
}

/// The elements that are kept, and a code of four bits for each group.
fn compressed(dense: &Tensor, format: Format) -> Result<(Tensor, Vec<u8>)> {
    let (m, k) = (dense.size(0)?, dense.size(1)?);
    let (dense, group) = (contiguous(dense)?, format.group);
    let values = empty(&[m, k / 2], &dense)?;
    // Bounded: less than the tensor itself takes.
    let mut codes = vec![0u8; m as usize * k as usize / group];
    if codes.is_empty() {
        return Ok((values, codes));
    }
    match_kept!(dense.dtype(), T => {
        let access =
            AccessSet::acquire(&[(&values, Access::Write), (&dense, Access::Read)])?;
        let (kept, given) = (access.write::<T>(0)?, access.read::<T>(1)?);
        let (kept, codes) = ((kept, k as usize / 2), (&mut codes[..], k as usize / group));
        for_each_chunk2(kept, codes, grain_of(k as usize), |row, kept, codes| {
            let given = &given[row * k as usize..][..k as usize];
            compress_row(given, kept, codes, group).map_err(|column| no_pattern(row, column, group))
        })
    })?;
    Ok((values, codes))
}

fn no_pattern(row: usize, column: usize, group: usize) -> corten_core::Error {
    err!(
        Runtime,
        "_to_sparse_semi_structured: the dense matrix has no {}:{group} sparsity: more than {} of the \
         elements of row {row} in columns {column} to {} are not zero",
        group / 2,
        group / 2,
        column + group - 1
    )
}

/// Compresses a row; fails with the column of a group of which too many elements are not zero.
fn compress_row<T: Element + PartialEq + Default>(
    row: &[T],
    kept: &mut [T],
    codes: &mut [u8],
    group: usize,
) -> std::result::Result<(), usize> {
    let filled = |element: T| element != T::default();
    let groups = row.chunks_exact(group).zip(kept.chunks_exact_mut(group / 2)).zip(codes);
    for (number, ((elements, kept), code)) in groups.enumerate() {
        if elements.iter().filter(|&&element| filled(element)).count() > group / 2 {
            return Err(number * group);
        }
        if let [first, second] = *elements {
            let is_first = filled(first);
            *code = if is_first { 0b0100 } else { 0b1110 };
            kept[0] = if is_first { first } else { second };
            continue;
        }
        let flags = [0, 1, 2, 3].map(|i| filled(elements[i]));
        let (low, high) = kept_of(flags);
        *code = (high << 2 | low) as u8;
        kept[0] = elements[low];
        kept[1] = elements[high];
    }
    Ok(())
}

/// The two places of four that are kept: those of the elements that are not zero, and where there are
/// less of these, the ones that PyTorch takes.
fn kept_of(flags: [bool; 4]) -> (usize, usize) {
    match flags {
        [true, true, ..] => (0, 1),
        [true, false, _, true] => (0, 3),
        [true, false, ..] => (0, 2),
        [false, true, _, true] => (1, 3),
        [false, true, ..] => (1, 2),
        [false, false, ..] => (2, 3),
    }
}

/// The codes of a matrix's groups, row by row, from words in the order of tensor cores.
fn codes_of(values: &Tensor, meta: &Tensor, format: Format) -> Result<Vec<u8>> {
    let (m, kept) = (values.size(0)?, values.size(1)?);
    ensure!(
        meta.dim() == 2,
        Runtime,
        "Expected 2-dimensional meta tensor, got {}-dimensional tensor",
        meta.dim()
    );
    ensure!(
        meta.dtype() == format.word,
        Runtime,
        "Invalid datatype {} of meta matrix",
        meta.dtype()
    );
    ensure!(
        meta.size(0)? == m,
        Runtime,
        "Number of rows of meta matrix {} must be equal to number of columns of sparse matrix {m}",
        meta.size(0)?
    );
    let columns = meta.size(1)? as usize;
    let expected = columns * format.group * format.per_word / 2;
    let whole = columns.is_multiple_of(2) && m % format.rows == 0;
    ensure!(
        expected as i64 == kept && whole,
        Runtime,
        "Number of columns of sparse matrix {kept} different from the {expected}, expected according to \
         the number of columns of meta matrix"
    );
    let words = op::to_dtype(meta, DType::Int64, false, false, None)?.to_vec::<i64>()?;
    // Bounded: less than the tensor itself takes.
    let mut codes = Vec::with_capacity(words.len() * format.per_word);
    for number in 0..words.len() {
        let word = words[format.place(number / columns, number % columns, m as usize)];
        codes.extend((0..format.per_word).map(|i| (word >> (4 * i)) as u8 & 0b1111));
    }
    Ok(codes)
}

/// Rows of a dense matrix from what was kept of them.
fn expanded(values: &Tensor, codes: &[u8], group: usize) -> Result<Tensor> {
    let (m, kept) = (values.size(0)?, values.size(1)? as usize);
    let values = contiguous(values)?;
    let dense = op::zero_(&empty(&[m, 2 * kept as i64], &values)?)?;
    let (columns, per_row) = (2 * kept, 2 * kept / group);
    if dense.numel() == 0 {
        return Ok(dense);
    }
    match_kept!(values.dtype(), T => {
        let access = AccessSet::acquire(&[(&dense, Access::Write), (&values, Access::Read)])?;
        let (dense, values) = (access.write::<T>(0)?, access.read::<T>(1)?);
        for_each_chunk(dense, columns, grain_of(columns), |row, dense| {
            let kept = values[row * kept..][..kept].chunks_exact(group / 2);
            let codes = &codes[row * per_row..][..per_row];
            for ((dense, kept), &code) in dense.chunks_exact_mut(group).zip(kept).zip(codes) {
                if let [element] = *kept {
                    dense[usize::from(code & 0b11 != 0)] = element;
                    continue;
                }
                dense[usize::from(code & 0b11)] = kept[0];
                dense[usize::from(code >> 2)] = kept[1];
            }
            Ok(())
        })
    })?;
    Ok(dense)
}

/// The dense matrix of what was kept of it.
///
/// # Errors
/// `Runtime` where elements and metadata do not fit together.
pub fn to_dense(packed: &Tensor, meta: &Tensor) -> Result<Tensor> {
    ensure!(
        packed.dim() == 2,
        Runtime,
        "Expected 2-dimensional sparse tensor, got {}-dimensional tensor",
        packed.dim()
    );
    let format = Format::of(packed.dtype())?;
    expanded(packed, &codes_of(packed, meta, format)?, format.group)
}

/// The product of a compressed matrix, of which some rows at a time are expanded, and a dense one.
fn product(
    values: &Tensor,
    codes: &[u8],
    mat2: &Tensor,
    out_dtype: Option<DType>,
) -> Result<Tensor> {
    let (m, kept, group) = (values.size(0)?, values.size(1)?, Format::of(values.dtype())?.group);
    ensure!(
        mat2.dim() == 2 && mat2.size(0)? == 2 * kept,
        Runtime,
        "_sparse_semi_structured_mm: mat1 and mat2 shapes cannot be multiplied ({m}x{} and {:?})",
        2 * kept,
        mat2.sizes().as_slice()
    );
    ensure!(
        mat2.dtype() == values.dtype(),
        Runtime,
        "_sparse_semi_structured_mm: Expected mat1 and mat2 to have the same dtype, but got {} and {}",
        values.dtype().type_name(),
        mat2.dtype().type_name()
    );
    let is_int8 = values.dtype() == DType::Int8;
    ensure!(
        out_dtype.is_none_or(|dtype| dtype == values.dtype() || is_int8 && dtype == DType::Int32),
        Runtime,
        "_sparse_semi_structured_mm: Setting out_dtype is only supported for int8 input, to int32"
    );
    let wide = |tensor: &Tensor| match is_int8 {
        true => op::to_dtype(tensor, DType::Int32, false, false, None),
        false => Ok(tensor.clone()),
    };
    let dense = wide(mat2)?;
    let out = empty_as(&[m, mat2.size(1)?], mat2, dense.dtype())?;
    let per_row = 2 * kept as usize / group;
    for start in (0..m).step_by(TILE as usize) {
        let rows = TILE.min(m - start);
        let codes = &codes[start as usize * per_row..][..rows as usize * per_row];
        let tile = expanded(&op::narrow(values, 0, start, rows)?, codes, group)?;
        op::mm_out(&wide(&tile)?, &dense, &op::narrow(&out, 0, start, rows)?)?;
    }
    if !is_int8 || out_dtype == Some(DType::Int32) {
        return Ok(out);
    }
    let bounded = op::clamp(&out, Some(Scalar::Int(-128)), Some(Scalar::Int(127)))?;
    op::to_dtype(&bounded, DType::Int8, false, false, None)
}

/// The product of a compressed matrix and a dense one.
///
/// # Errors
/// `Runtime` where shapes or dtypes do not fit.
pub fn mm(
    mat1: &Tensor,
    mat1_meta: &Tensor,
    mat2: &Tensor,
    out_dtype: Option<DType>,
) -> Result<Tensor> {
    ensure!(
        mat1.dim() == 2,
        Runtime,
        "_sparse_semi_structured_mm: Expected mat1 argument to be 2D tensor, got {} dims",
        mat1.dim()
    );
    let codes = codes_of(mat1, mat1_meta, Format::of(mat1.dtype())?)?;
    product(mat1, &codes, mat2, out_dtype)
}

/// `beta * input + alpha * (mat1 @ mat2)`, where `input` has a number for each row, or is a matrix.
///
/// # Errors
/// As [`mm`].
pub fn addmm(
    input: &Tensor,
    mat1: &Tensor,
    mat1_meta: &Tensor,
    mat2: &Tensor,
    alpha: Scalar,
    beta: Scalar,
    out_dtype: Option<DType>,
) -> Result<Tensor> {
    let made = mm(mat1, mat1_meta, mat2, out_dtype)?;
    let start = if input.dim() == 1 { op::unsqueeze(input, 1)? } else { input.clone() };
    let start = op::expand(&start, &made.sizes(), false)?;
    let sum = op::add_tensor(&op::mul_scalar(&made, alpha)?, &start, beta)?;
    op::to_dtype(&sum, made.dtype(), false, false, None)
}

/// `activation(input @ weight.T + bias)`.
///
/// # Errors
/// As [`mm`], and for an unknown activation.
pub fn linear(
    input: &Tensor,
    weight: &Tensor,
    meta: &Tensor,
    bias: Option<&Tensor>,
    activation: Option<&str>,
    out_dtype: Option<DType>,
) -> Result<Tensor> {
    ensure!(
        weight.dim() == 2 && input.dim() > 0,
        Runtime,
        "_sparse_semi_structured_linear: Expected weight argument to be 2D tensor, got {} dims",
        weight.dim()
    );
    let mut sizes = input.sizes();
    let last = sizes.last().copied().unwrap_or(0);
    let rows = op::t(&op::reshape(input, &[-1, last])?)?;
    let made = mm(weight, meta, &contiguous(&rows)?, out_dtype)?;
    let mut made = op::t(&made)?;
    if let Some(bias) = defined(bias) {
        made = op::add_tensor(&made, bias, Scalar::Int(1))?;
    }
    made = match activation.unwrap_or("none") {
        "none" | "" => made,
        "relu" => op::relu(&made)?,
        "silu" => op::silu(&made)?,
        other => {
            bail!(Runtime, "_sparse_semi_structured_linear: Unsupported activation \"{other}\"")
        }
    };
    if let Some(size) = sizes.last_mut() {
        *size = weight.size(0)?;
    }
    op::reshape(&made, &sizes)
}

/// A matrix as one tensor: the elements that are kept, and the metadata row by row.
///
/// # Errors
/// As [`to_semi_structured`].
pub fn compress(input: &Tensor) -> Result<Tensor> {
    ensure!(
        input.dim() == 2 && input.size(1)? % 16 == 0 && input.dtype() != DType::Float32,
        Runtime,
        "_cslt_compress: expected a matrix of float16, bfloat16 or int8 with a multiple of 16 columns, \
         but got {} of size {:?}",
        input.dtype(),
        input.sizes().as_slice()
    );
    let format = Format::of(input.dtype())?;
    let (values, codes) = compressed(input, format)?;
    // Bounded: less than the tensor itself takes.
    let bytes: Vec<u8> = codes.chunks(2).map(|pair| packed(pair) as u8).collect();
    let count = bytes.len() as i64;
    let meta = op::view_dtype(&Tensor::from_vec(bytes, &[count])?, input.dtype())?;
    op::cat(&[op::reshape(&values, &[-1])?, meta], 0)
}

/// The product of such a tensor and a dense matrix.
///
/// # Errors
/// `Runtime` where shapes or dtypes do not fit.
pub fn cslt_mm(
    compressed_a: &Tensor,
    dense_b: &Tensor,
    bias: Option<&Tensor>,
    alpha: Option<&Tensor>,
    out_dtype: Option<DType>,
    transpose_result: bool,
    _alg_id: i64,
    _split_k: i64,
    _split_k_mode: i64,
) -> Result<Tensor> {
    let k = if dense_b.dim() == 2 { dense_b.size(0)? } else { 0 };
    let width = if compressed_a.dtype() == DType::Int8 { 10 } else { 9 };
    let numel = compressed_a.numel();
    ensure!(
        k > 0 && k % 16 == 0 && numel % (k / 16 * width) == 0,
        Runtime,
        "_cslt_sparse_mm: a compressed tensor of {numel} elements cannot be multiplied with {:?}",
        dense_b.sizes().as_slice()
    );
    let m = numel / (k / 16 * width);
    let flat = op::reshape(&contiguous(compressed_a)?, &[-1])?;
    let values = op::reshape(&op::narrow(&flat, 0, 0, m * k / 2)?, &[m, k / 2])?;
    let meta = op::narrow(&flat, 0, m * k / 2, numel - m * k / 2)?;
    let meta = op::clone(&meta, Some(corten_core::MemoryFormat::Contiguous))?;
    let bytes = op::view_dtype(&meta, DType::UInt8)?.to_vec::<u8>()?;
    // Bounded: less than the tensor itself takes.
    let codes: Vec<u8> = bytes.iter().flat_map(|&byte| [byte & 0b1111, byte >> 4]).collect();
    let mut made = product(&values, &codes, dense_b, out_dtype)?;
    let kind = made.dtype();
    if let Some(alpha) = defined(alpha) {
        let alpha = op::reshape(alpha, &[-1, 1])?;
        made = op::to_dtype(&op::mul_tensor(&made, &alpha)?, kind, false, false, None)?;
    }
    if let Some(bias) = defined(bias) {
        made = op::add_tensor(&made, &op::unsqueeze(bias, 1)?, Scalar::Int(1))?;
        made = op::to_dtype(&made, kind, false, false, None)?;
    }
    if transpose_result { contiguous(&op::t(&made)?) } else { Ok(made) }
}

/// The number of the algorithm for a product: there is one.
///
/// # Errors
/// None.
pub fn cslt_mm_search(
    _compressed_a: &Tensor,
    _dense_b: &Tensor,
    _bias: Option<&Tensor>,
    _alpha: Option<&Tensor>,
    _out_dtype: Option<DType>,
    _transpose_result: bool,
) -> Result<i64> {
    Ok(0)
}
