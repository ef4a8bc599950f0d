//! Caches of keys and values: rows of new tokens written behind those of earlier ones.

use super::super::support::{contiguous, defined, empty_as, is_shape_only};
use crate::parallel::chunks::{for_each_chunk2, grain_of};
use crate::rows::Float;
use crate::vec::convert::convert_row;
use corten_core::{
    Access, AccessSet, DType, Element, Result, bail, bf16, ensure, err, f16, match_dtype,
    not_implemented_for, try_to_vec,
};
use corten_ops::{Tensor, op};

/// Where the tokens of each sequence lie in a cache.
pub(super) struct TokenRows {
    /// Tokens that each sequence had before.
    pub(super) past: Vec<i64>,
    /// The pages of each sequence, one row per sequence; empty for a cache without pages.
    table: Vec<i64>,
    pages: usize,
    /// Heads of the cache, and tokens of a page, or of a sequence.
    heads: usize,
    pub(super) page_tokens: usize,
}

impl TokenRows {
    /// Checks that a cache has room for `tokens` more tokens of `batch` sequences.
    pub(super) fn of(
        name: &str,
        cache: &[i64],
        past: &Tensor,
        table: Option<&Tensor>,
        (batch, tokens): (i64, i64),
    ) -> Result<Self> {
        let past = integers(name, "past", past)?;
        let (first, heads, page_tokens) = (cache[0], cache[1], cache[2]);
        let mut made = Self {
            past,
            table: Vec::new(),
            pages: 1,
            heads: heads as usize,
            page_tokens: page_tokens as usize,
        };
        let mut room = page_tokens;
        match defined(table) {
            Some(table) => {
                ensure!(
                    table.dim() == 2 && table.size(0)? == batch,
                    Runtime,
                    "{name}: expected a block_table of {batch} rows, but got size {:?}",
                    table.sizes().as_slice()
                );
                made.pages = table.size(1)? as usize;
                made.table = integers(name, "block_table", table)?;
                room = room.saturating_mul(table.size(1)?);
            }
            None => ensure!(
                first == batch,
                Runtime,
                "{name}: expected a cache of {batch} sequences, but got {first}"
            ),
        }
        ensure!(
            made.past.len() as i64 == batch,
            Runtime,
            "{name}: expected {batch} numbers in past, but got {}",
            made.past.len()
        );
        for (sequence, &past) in made.past.iter().enumerate() {
            let end = past.checked_add(tokens).filter(|&end| past >= 0 && end <= room);
            let Some(end) = end else {
                bail!(
                    Index,
                    "{name}: {tokens} tokens behind {past} do not fit into a cache of {room}"
                )
            };
            let used = (end as usize).div_ceil(made.page_tokens.max(1));
            let pages = made.table.get(sequence * made.pages..).unwrap_or(&[]);
            if let Some(page) = pages.iter().take(used).find(|page| !(0..first).contains(*page)) {
                bail!(Index, "{name}: block_table names page {page} of a cache of {first} pages")
            }
        }
        Ok(made)
    }

    /// The row of a token in the cache, of all rows in the order of memory. Rows follow each other up to the end of
    /// the page.
    pub(super) fn row(&self, sequence: usize, head: usize, token: usize) -> usize {
        let (page, token) = match self.table.is_empty() {
            true => (sequence, token),
            false => {
                let page = token / self.page_tokens;
                (self.table[sequence * self.pages + page] as usize, token % self.page_tokens)
            }
        };
        (page * self.heads + head) * self.page_tokens + token
    }

    /// The pages of the first tokens of a sequence; `None` for a cache without pages.
    pub(super) fn pages_of(&self, sequence: usize, tokens: usize) -> Option<&[i64]> {
        let used = tokens.div_ceil(self.page_tokens.max(1));
        (!self.table.is_empty()).then(|| &self.table[sequence * self.pages..][..used])
    }
}

fn integers(name: &str, argument: &str, tensor: &Tensor) -> Result<Vec<i64>> {
    ensure!(
        tensor.dtype().is_integral(false),
        Runtime,
        "{name}: expected integers in {argument}, but got {}",
        tensor.dtype()
    );
    if tensor.dtype() == DType::Int64 && tensor.is_contiguous() && tensor.device().is_cpu() {
        let set = AccessSet::acquire(&[(tensor, Access::Read)])?;
        return try_to_vec(set.read::<i64>(0)?);
    }
    tensor.to_vec::<i64>()
}

/// Writes the rows of new tokens into a cache.
///
/// # Errors
/// `Runtime` when shapes do not fit, `Index` where the cache has no room, `NotImplemented` for other dtypes.
pub fn kv_cache_write_(
    cache: &Tensor,
    values: &Tensor,
    past: &Tensor,
    block_table: Option<&Tensor>,
) -> Result<Tensor> {
    let (sizes, shape) = (cache.sizes(), values.sizes());
    ensure!(
        sizes.len() == 4 && shape.len() == 4 && sizes[1] == shape[1] && sizes[3] == shape[3],
        Runtime,
        "kv_cache_write_: expected a cache and values of 4 dimensions with the same heads and width, but got sizes \
         {:?} and {:?}",
        sizes.as_slice(),
        shape.as_slice()
    );
    ensure!(
        cache.is_contiguous(),
        Runtime,
        "kv_cache_write_: expected a contiguous cache, but got strides {:?}",
        cache.strides().as_slice()
    );
    if is_shape_only(cache) {
        return Ok(cache.clone());
    }
    let (batch, tokens) = (shape[0], shape[2]);
    let places = TokenRows::of("kv_cache_write_", &sizes, past, block_table, (batch, tokens))?;
    if values.numel() == 0 {
        return Ok(cache.clone());
    }
    let values = contiguous(values)?;
    let shape = [batch, shape[1], tokens, shape[3]].map(|size| size as usize);
    match (values.dtype(), cache.dtype()) {
        (DType::Int8, DType::Int8) => put::<i8, i8>(cache, &values, &places, shape)?,
        (from, DType::Float32) => {
            match_dtype!(from, "kv_cache_write_", Float, T => put::<T, f32>(cache, &values, &places, shape))?;
        }
        (from, DType::BFloat16) => {
            match_dtype!(from, "kv_cache_write_", Float, T => put::<T, bf16>(cache, &values, &places, shape))?;
        }
        (from, DType::Float16) => {
            match_dtype!(from, "kv_cache_write_", Float, T => put::<T, f16>(cache, &values, &places, shape))?;
        }
        (_, to) => return Err(not_implemented_for("kv_cache_write_", to)),
    }
    Ok(cache.clone())
}

fn put<A: Element, B: Element>(
    cache: &Tensor,
    values: &Tensor,
    places: &TokenRows,
    [batch, heads, tokens, width]: [usize; 4],
) -> Result<()> {
    let set = AccessSet::acquire(&[(cache, Access::Write), (values, Access::Read)])?;
    let (cache, values) = (set.write::<B>(0)?, set.read::<A>(1)?);
    let rows = (0..batch * heads * tokens).zip(values.chunks_exact(width));
    for (row, values) in rows {
        let (head, token) = (row / tokens, row % tokens);
        let (sequence, head) = (head / heads, head % heads);
        let token = places.past[sequence] as usize + token;
        let start = places.row(sequence, head, token) * width;
        convert_row(values, &mut cache[start..start + width]);
    }
    Ok(())
}

/// The rows of the last dimension as int8, and their scales.
///
/// # Errors
/// `Runtime` for a tensor without dimensions, `NotImplemented` for dtypes that are no floating-point numbers.
pub fn quantize_rows(input: &Tensor) -> Result<(Tensor, Tensor)> {
    let mut sizes = input.sizes();
    let out = empty_as(&sizes, input, DType::Int8)?;
    let last = sizes.last_mut();
    let last = last
        .ok_or_else(|| err!(Runtime, "quantize_rows: expected an input of at least 1 dimension"))?;
    let width = std::mem::replace(last, 1) as usize;
    let scales = empty_as(&sizes, input, DType::Float32)?;
    if !input.dtype().is_floating_point() {
        return Err(not_implemented_for("quantize_rows", input.dtype()));
    }
    if is_shape_only(&out) {
        return Ok((out, scales));
    }
    if width == 0 {
        op::zero_(&scales)?;
        return Ok((out, scales));
    }
    let input = contiguous(input)?;
    match_dtype!(input.dtype(), "quantize_rows", Float, T => {
        let set = AccessSet::acquire(&[
            (&out, Access::Write),
            (&scales, Access::Write),
            (&input, Access::Read),
        ])?;
        let (out, scales, input) = (set.write::<i8>(0)?, set.write::<f32>(1)?, set.read::<T>(2)?);
        for_each_chunk2((out, width), (scales, 1), grain_of(width), |row, out, scale| {
            scale[0] = quantize(&input[row * width..][..width], out);
            Ok(())
        })
    })?;
    Ok((out, scales))
}

/// The nearest integers to a row, and their scale.
fn quantize<T: Float>(row: &[T], out: &mut [i8]) -> f32 {
    let single = |&x: &T| corten_core::cast::<T, f32>(x);
    let most = row.iter().map(single).fold(0.0f32, |most, x| most.max(x.abs()));
    let scale = most / 127.0;
    let factor = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    for (to, x) in out.iter_mut().zip(row) {
        *to = (single(x) * factor).round_ties_even() as i8;
    }
    scale
}
