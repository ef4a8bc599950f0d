//! Products with weights in 4 bits whose groups of columns have a scale and an offset.

// Note [Packed weights of 4 bits]
// Rows lie in blocks of 64. For each column a block has 32 bytes: byte `i` holds row `i` in its low and
// row `i + 32` in its high bits. What is left over, 16, 32 or 48 rows, is one block whose byte `i` holds
// the rows `2 i` and `2 i + 1`. This is what PyTorch packs on processors with AVX-512; here it does not
// depend on the processor, so that files can be moved.

use super::{SKINNY_ROWS, check_float, product_of_tiles, single};
use crate::kernels::support::{contiguous, empty, empty_as, expect_dtype, is_shape_only};
use crate::parallel::chunks::for_each_chunk;
use crate::rows::loops::compiled;
use corten_core::{Access, AccessSet, DType, MemoryFormat, Result, ensure};
use corten_ops::{Tensor, op};

const MM: &str = "_weight_int4pack_mm_cpu";
const CONVERT: &str = "_convert_weight_to_int4pack_cpu";
/// The rows of a block.
const BLOCK: usize = 64;
/// The multiplications of a block's column are worth so much of a thread.
const GRAIN: usize = 1 << 16;

/// Packs a matrix of small integers; see Note [Packed weights of 4 bits].
///
/// # Errors
/// `Runtime` for another dtype and sizes that do not fit.
pub fn convert(self_: &Tensor, _inner_k_tiles: i64) -> Result<Tensor> {
    ensure!(self_.dim() == 2, Runtime, "{CONVERT} : expect weight to be 2D tensor.");
    ensure!(self_.dtype() == DType::Int32, Runtime, "{CONVERT} : expect weight to be kInt.");
    let (n, k) = (self_.size(0)?, self_.size(1)?);
    ensure!(n % 16 == 0, Runtime, "{CONVERT} : expect N to be dividable by 16");
    ensure!(k % 2 == 0, Runtime, "_convert_weight_to_int4pack: expect K to be dividable by 2");
    let packed = empty_as(&[n, k / 2], self_, DType::UInt8)?;
    if is_shape_only(self_) || packed.numel() == 0 {
        return Ok(packed);
    }
    let weight = contiguous(self_)?;
    let set = AccessSet::acquire(&[(&packed, Access::Write), (&weight, Access::Read)])?;
    let (weight, k) = (set.read::<i32>(1)?, k as usize);
    let at = |row: usize, column: usize| (weight[row * k + column] & 15) as u8;
    for (number, bytes) in set.write::<u8>(0)?.chunks_mut(BLOCK * k / 2).enumerate() {
        let (first, half) = (number * BLOCK, bytes.len() / k);
        for (column, bytes) in bytes.chunks_exact_mut(half).enumerate() {
            for (i, byte) in bytes.iter_mut().enumerate() {
                let [low, high] = rows_of(i, half).map(|row| at(first + row, column));
                *byte = high << 4 | low;
            }
        }
    }
    drop(set);
    Ok(packed)
}

/// The rows of a block whose elements byte `i` of each column holds.
fn rows_of(i: usize, half: usize) -> [usize; 2] {
    if half == BLOCK / 2 { [i, i + half] } else { [2 * i, 2 * i + 1] }
}

/// The weights, their scales and offsets, by blocks of rows.
struct Weights<'a> {
    bytes: &'a [u8],
    /// Scale and offset of every row, group after group.
    numbers: &'a [f32],
    rows: usize,
    columns: usize,
    group: usize,
}

impl Weights<'_> {
    /// The bytes of a block, and how many there are for a column.
    fn block(&self, number: usize) -> (&[u8], usize) {
        let rows = BLOCK.min(self.rows - number * BLOCK);
        (&self.bytes[number * BLOCK * self.columns / 2..][..rows * self.columns / 2], rows / 2)
    }

    /// Scale and offset of a row in a group.
    fn numbers_of(&self, group: usize, row: usize) -> [f32; 2] {
        let at = 2 * (group * self.rows + row);
        [self.numbers[at], self.numbers[at + 1]]
    }

    /// The elements of a block of rows, row by row.
    fn expand(&self, number: usize, out: &mut [f32]) {
        let (bytes, half) = self.block(number);
        for i in 0..half {
            let rows = rows_of(i, half);
            for (group, bytes) in bytes.chunks(self.group * half).enumerate() {
                let numbers = rows.map(|row| self.numbers_of(group, number * BLOCK + row));
                let columns = bytes[i..].iter().step_by(half).enumerate();
                for (column, byte) in columns {
                    let column = group * self.group + column;
                    for (row, q) in [(0, byte & 15), (1, byte >> 4)] {
                        let [scale, zero] = numbers[row];
                        out[rows[row] * self.columns + column] =
                            (f32::from(q) - 8.0) * scale + zero;
                    }
                }
            }
        }
    }

    /// The products of a block of rows with a vector. Steps are multiplied group by group, and what
    /// scale and offset make of them is added.
    fn multiply(&self, number: usize, x: &[f32], out: &mut [f32; BLOCK]) {
        let (bytes, half) = self.block(number);
        *out = [0.0; BLOCK];
        let groups = x.chunks(self.group).zip(bytes.chunks(self.group * half));
        for (group, (x, bytes)) in groups.enumerate() {
            let steps = steps(bytes, half, x);
            let total: f32 = x.iter().sum();
            for i in 0..half {
                let [low, high] = rows_of(i, half);
                for (row, steps) in [(low, steps[0][i]), (high, steps[1][i])] {
                    let [scale, zero] = self.numbers_of(group, number * BLOCK + row);
                    out[row] += steps * scale + total * zero;
                }
            }
        }
    }
}

/// The sums of `x` times the steps from the middle, for the rows in low and in high bits.
fn steps(bytes: &[u8], half: usize, x: &[f32]) -> [[f32; BLOCK / 2]; 2] {
    let mut sums = [[0.0f32; BLOCK / 2]; 2];
    compiled(|| {
        if half == BLOCK / 2 {
            for (bytes, &x) in bytes.chunks_exact(BLOCK / 2).zip(x) {
                for i in 0..BLOCK / 2 {
                    sums[0][i] += x * (i32::from(bytes[i] & 15) - 8) as f32;
                    sums[1][i] += x * (i32::from(bytes[i] >> 4) - 8) as f32;
                }
            }
            return;
        }
        for (bytes, &x) in bytes.chunks_exact(half).zip(x) {
            for (i, byte) in bytes.iter().enumerate() {
                sums[0][i] += x * (i32::from(byte & 15) - 8) as f32;
                sums[1][i] += x * (i32::from(byte >> 4) - 8) as f32;
            }
        }
    });
    sums
}

/// `self @ w.T` for weights that `convert` has packed.
///
/// # Errors
/// `Runtime` for dtypes, shapes, strides and groups that do not fit.
pub fn mm(self_: &Tensor, mat2: &Tensor, group: i64, scale_and_zeros: &Tensor) -> Result<Tensor> {
    let sizes = check(self_, mat2, group, scale_and_zeros)?;
    if is_shape_only(self_) || sizes.contains(&0) {
        return empty(&sizes, self_);
    }
    let (x, numbers, k) = (single(self_)?, single(scale_and_zeros)?, self_.size(1)? as usize);
    let set = AccessSet::acquire(&[(mat2, Access::Read), (&numbers, Access::Read)])?;
    let weights = Weights {
        bytes: set.read::<u8>(0)?,
        numbers: set.read::<f32>(1)?,
        rows: sizes[1] as usize,
        columns: k,
        group: group as usize,
    };
    let out = match sizes[0] as usize {
        0..=SKINNY_ROWS => skinny(&x, &weights, sizes)?,
        _ => product_of_tiles(&x, sizes[1], |start, rows| {
            let tile = empty(&[rows, k as i64], &x)?;
            let set = AccessSet::acquire(&[(&tile, Access::Write)])?;
            weights.expand(start as usize / BLOCK, set.write::<f32>(0)?);
            drop(set);
            Ok(tile)
        })?,
    };
    op::to_dtype(&out, self_.dtype(), false, false, None)
}

fn check(self_: &Tensor, mat2: &Tensor, group: i64, numbers: &Tensor) -> Result<[i64; 2]> {
    let (k, n) = (self_.size(1)?, mat2.size(0)?);
    check_float(MM, self_)?;
    ensure!(self_.is_contiguous(), Runtime, "{MM} : expect A to be contiguous.");
    ensure!(self_.dim() == 2, Runtime, "{MM} : expect A to be 2D tensor.");
    ensure!(mat2.dtype() == DType::UInt8, Runtime, "{MM} : expect B to be uint8 tensor.");
    ensure!(mat2.is_contiguous(), Runtime, "{MM} : expect B to be contiguous.");
    ensure!(
        mat2.dim() == 2 && mat2.size(1)? == k / 2 && k % 2 == 0,
        Runtime,
        "{MM} : expect B.size(1) to be K/2, got {}",
        mat2.size(1)?
    );
    ensure!(n % 16 == 0, Runtime, "{MM} : expect N to be dividable by 16");
    ensure!(
        matches!(group, 32 | 64 | 128 | 256),
        Runtime,
        "_weight_int4pack_mm_cpu: expect qGroupSize to be 32, 64, 128 or 256, got {group}"
    );
    ensure!(
        numbers.dim() == 3 && numbers.size(1)? == n && numbers.size(2)? == 2,
        Runtime,
        "_weight_int4pack_mm_cpu: expect qScaleAndZeros to be 3d tensor with sizes [:, {n}, 2]"
    );
    ensure!(
        numbers.size(0)? >= (k + group - 1) / group,
        Runtime,
        "_weight_int4pack_mm_cpu: expect qScaleAndZeros to have {} groups, got {}",
        (k + group - 1) / group,
        numbers.size(0)?
    );
    expect_dtype(numbers, self_.dtype())?;
    Ok([self_.size(0)?, n])
}

/// The product of few rows, which reads the weights once.
fn skinny(x: &Tensor, weights: &Weights<'_>, [m, n]: [i64; 2]) -> Result<Tensor> {
    let (blocks, m) = ((n as usize).div_ceil(BLOCK), m as usize);
    let out = empty(&[(blocks * BLOCK) as i64, m as i64], x)?;
    let set = AccessSet::acquire(&[(&out, Access::Write), (x, Access::Read)])?;
    let x = set.read::<f32>(1)?;
    let grain = GRAIN.div_ceil(BLOCK * weights.columns * m);
    for_each_chunk(set.write::<f32>(0)?, BLOCK * m, grain, |number, out| {
        let mut row = [0.0; BLOCK];
        for (i, x) in x.chunks_exact(weights.columns).enumerate() {
            weights.multiply(number, x, &mut row);
            out.iter_mut().skip(i).step_by(m).zip(row).for_each(|(out, value)| *out = value);
        }
        Ok(())
    })?;
    drop(set);
    op::contiguous(&op::t(&op::narrow(&out, 0, 0, n)?)?, MemoryFormat::Contiguous)
}
