//! Causal attention over a cache of keys and values.
//!
//! Tokens that are decoded one by one read the cache once: a stretch of it is attended to by all query heads that share
//! its head, and stretches are put together by their maxima and sums (flash decoding). The many tokens of a prompt go
//! through `scaled_dot_product_attention`.

use super::super::support::{contiguous, defined, empty, is_shape_only};
use super::cache::TokenRows;
use super::products::{STRETCH, Scores, WeightedSums};
use crate::parallel::chunks::{for_each_chunk, grain_of};
use crate::parallel::scratch::with_buffer;
use crate::rows::Wide;
use crate::rows::loops::Vectorised;
use crate::vec::convert::convert_row;
use corten_core::{
    Access, AccessSet, DType, Element, MemoryFormat, Result, Scalar, bf16, ensure, f16,
    not_implemented_for, try_vec, unwinding,
};
use corten_ops::{Tensor, op};
use std::ops::Range;

/// Tokens whose keys or values are converted at once: they stay in the first-level cache.
const TILE: usize = 16;
/// For fewer queries than this the cache is read as it is.
const FEW_QUERIES: i64 = 8;

/// Causal attention of the queries of new tokens over a cache that has them already.
///
/// # Errors
/// `Runtime` when shapes do not fit, `Index` for tokens outside of the cache, `NotImplemented` for other dtypes.
pub fn kv_cache_attention(
    query: &Tensor,
    key_cache: &Tensor,
    value_cache: &Tensor,
    past: &Tensor,
    scale: Option<f64>,
    window: i64,
    soft_cap: f64,
    block_table: Option<&Tensor>,
    key_scales: Option<&Tensor>,
    value_scales: Option<&Tensor>,
) -> Result<Tensor> {
    let caches = [(key_cache, defined(key_scales)), (value_cache, defined(value_scales))];
    check(query, caches, window)?;
    let shape = query.sizes();
    let out = empty(&[shape[0], shape[1], shape[2], value_cache.size(3)?], query)?;
    if is_shape_only(&out) {
        return Ok(out);
    }
    let (batch, tokens) = (shape[0], shape[2]);
    let name = "kv_cache_attention";
    let places = TokenRows::of(name, &key_cache.sizes(), past, block_table, (batch, tokens))?;
    if out.numel() == 0 {
        return Ok(out);
    }
    let width = shape[3].max(1) as f64;
    let rule = Rule { scale: scale.unwrap_or(1.0 / width.sqrt()), window, soft_cap };
    if tokens >= FEW_QUERIES {
        return prompt(query, caches, &places, &rule);
    }
    let wide = contiguous(&op::to_dtype(query, DType::Float32, false, false, None)?)?;
    let made = if query.dtype() == DType::Float32 { out } else { empty(&out.sizes(), &wide)? };
    match key_cache.dtype() {
        DType::Float32 => decode::<f32>(&made, &wide, caches, &places, &rule)?,
        DType::Float16 => decode::<f16>(&made, &wide, caches, &places, &rule)?,
        DType::BFloat16 => decode::<bf16>(&made, &wide, caches, &places, &rule)?,
        _ => decode::<i8>(&made, &wide, caches, &places, &rule)?,
    }
    op::to_dtype(&made, query.dtype(), false, false, None)
}

/// How scores are made of products, and which tokens are seen.
struct Rule {
    scale: f64,
    window: i64,
    soft_cap: f64,
}

impl Rule {
    /// The tokens that a query sees which has `past` tokens before it.
    fn seen(&self, past: usize) -> Range<usize> {
        let window = if self.window == 0 { usize::MAX } else { self.window as usize };
        (past + 1).saturating_sub(window)..past + 1
    }
}

fn check(query: &Tensor, caches: [(&Tensor, Option<&Tensor>); 2], window: i64) -> Result<()> {
    let [(key, _), (value, _)] = caches;
    let (q, k, v) = (query.sizes(), key.sizes(), value.sizes());
    let fits = q.len() == 4 && k.len() == 4 && v.len() == 4 && k[..3] == v[..3] && q[3] == k[3];
    ensure!(
        fits && (k[1] > 0 && q[1] % k[1] == 0 || q[1] == k[1]),
        Runtime,
        "kv_cache_attention: expected a query and caches of 4 dimensions with the same width, and query heads that the \
         heads of the cache divide, but got sizes {:?}, {:?} and {:?}",
        q.as_slice(),
        k.as_slice(),
        v.as_slice()
    );
    ensure!(
        window >= 0,
        Value,
        "kv_cache_attention: expected a window of at least 0, but got {window}"
    );
    let dtype = key.dtype();
    if !query.dtype().is_floating_point() {
        return Err(not_implemented_for("kv_cache_attention", query.dtype()));
    }
    if !matches!(dtype, DType::Float32 | DType::Float16 | DType::BFloat16 | DType::Int8) {
        return Err(not_implemented_for("kv_cache_attention", dtype));
    }
    for (cache, scales) in caches {
        ensure!(
            cache.dtype() == dtype && cache.is_contiguous(),
            Runtime,
            "kv_cache_attention: expected contiguous caches of one dtype, but got {dtype} and {}",
            cache.dtype()
        );
        let mut sizes = cache.sizes();
        sizes[3] = 1;
        let fits = match scales {
            Some(scales) => {
                scales.sizes() == sizes
                    && scales.dtype() == DType::Float32
                    && scales.is_contiguous()
            }
            None => dtype != DType::Int8,
        };
        ensure!(
            fits && (scales.is_none() || dtype == DType::Int8),
            Runtime,
            "kv_cache_attention: expected contiguous float32 scales of size {:?} beside a cache of int8, and none beside \
             others",
            sizes.as_slice()
        );
    }
    Ok(())
}

/// An element of a cache.
trait Cached: Element {
    /// Rows as single precision: themselves, or converted into the buffer.
    fn single<'a>(rows: &'a [Self], buffer: &'a mut [f32]) -> &'a [f32];
}

impl Cached for f32 {
    fn single<'a>(rows: &'a [f32], _: &'a mut [f32]) -> &'a [f32] {
        rows
    }
}

macro_rules! cached {
    ($($element:ty),+) => {$(
        impl Cached for $element {
            fn single<'a>(rows: &'a [Self], buffer: &'a mut [f32]) -> &'a [f32] {
                let buffer = &mut buffer[..rows.len()];
                convert_row(rows, buffer);
                buffer
            }
        }
    )+};
}

cached!(f16, bf16, i8);

/// The operands of [`decode`], in memory.
struct Operands<'a, T> {
    query: &'a [f32],
    key: &'a [T],
    value: &'a [T],
    key_scales: Option<&'a [f32]>,
    value_scales: Option<&'a [f32]>,
    places: &'a TokenRows,
    rule: &'a Rule,
    /// Tokens of each sequence, heads of the cache, query heads that share one of them.
    tokens: usize,
    heads: usize,
    group: usize,
    /// Elements of a key and of a value.
    width: usize,
    value_width: usize,
}

/// Attention of a few queries of each sequence: a thread takes a stretch of the cache for all query heads that share a
/// head. What it finds are sums of values, weighted relative to its largest score, that score and the sum of weights.
fn decode<T: Cached>(
    out: &Tensor,
    query: &Tensor,
    [(key, key_scales), (value, value_scales)]: [(&Tensor, Option<&Tensor>); 2],
    places: &TokenRows,
    rule: &Rule,
) -> Result<()> {
    let absent = Tensor::undefined();
    let set = AccessSet::acquire(&[
        (out, Access::Write),
        (query, Access::Read),
        (key, Access::Read),
        (value, Access::Read),
        (key_scales.unwrap_or(&absent), Access::Read),
        (value_scales.unwrap_or(&absent), Access::Read),
    ])?;
    let shape: [usize; 4] = std::array::from_fn(|place| query.sizes()[place] as usize);
    let heads = key.size(1)? as usize;
    let operands = Operands::<T> {
        query: set.read(1)?,
        key: set.read(2)?,
        value: set.read(3)?,
        key_scales: key_scales.map(|_| set.read(4)).transpose()?,
        value_scales: value_scales.map(|_| set.read(5)).transpose()?,
        places,
        rule,
        tokens: shape[2],
        heads,
        group: shape[1] / heads,
        width: shape[3],
        value_width: value.size(3)? as usize,
    };
    let longest = places.past.iter().map(|&past| rule.seen(past as usize + shape[2] - 1).len());
    let stretches = longest.max().unwrap_or(0).div_ceil(STRETCH).max(1);
    let each = operands.group * (operands.value_width + 2);
    let count = shape[0] * heads * shape[2];
    let mut found = try_vec(0.0f32, count * stretches * each)?;
    let grain = grain_of(STRETCH * operands.group * operands.width / 4);
    for_each_chunk(&mut found, each, grain, |i, found| {
        operands.stretch(i / stretches, i % stretches, found);
        Ok(())
    })?;
    operands.combine(set.write::<f32>(0)?, &found, stretches);
    Ok(())
}

impl<T: Cached> Operands<'_, T> {
    /// Sequence, head and token of a number.
    fn parts(&self, number: usize) -> (usize, usize, usize) {
        let (head, token) = (number / self.tokens, number % self.tokens);
        (head / self.heads, head % self.heads, token)
    }

    /// The row of the query, and of the result, of a query head.
    fn row(&self, (sequence, head, token): (usize, usize, usize), member: usize) -> usize {
        ((sequence * self.heads + head) * self.group + member) * self.tokens + token
    }

    /// What a stretch has for the queries of a token that share a head.
    fn stretch(&self, number: usize, stretch: usize, found: &mut [f32]) {
        let parts @ (sequence, head, token) = self.parts(number);
        let seen = self.rule.seen(self.places.past[sequence] as usize + token);
        let start = seen.start + stretch * STRETCH;
        let range = start.min(seen.end)..(start + STRETCH).min(seen.end);
        let (sums, ends) = found.split_at_mut(self.group * self.value_width);
        if range.is_empty() {
            ends.fill(f32::NEG_INFINITY);
            return;
        }
        let (group, widest) = (self.group, self.width.max(self.value_width));
        let sizes = [group * self.width, group * STRETCH];
        with_buffer(sizes[0] + sizes[1] + TILE * widest, |buffer: &mut [f32]| {
            let (queries, rest) = buffer.split_at_mut(sizes[0]);
            let (scores, tile) = rest.split_at_mut(sizes[1]);
            for (member, query) in queries.chunks_exact_mut(self.width.max(1)).enumerate() {
                let row = self.row(parts, member);
                let from = &self.query[row * self.width..][..self.width];
                f32::affine(query, from, self.rule.scale as f32, 0.0);
            }
            self.scores(queries, (sequence, head), range.clone(), scores, tile);
            let (largest, totals) = ends.split_at_mut(group);
            for (member, scores) in scores.chunks_exact_mut(STRETCH).enumerate() {
                let scores = &mut scores[..range.len()];
                largest[member] = f32::max_of(scores);
                totals[member] = f32::exp_minus_in_place(scores, largest[member]);
            }
            self.sums(scores, (sequence, head), range, sums, tile);
        });
    }

    /// Calls a function with runs of tokens of a range that follow each other in memory: the first, counted from the
    /// beginning of the range, and the rows.
    fn each_tile(
        &self,
        (sequence, head): (usize, usize),
        range: Range<usize>,
        mut with: impl FnMut(usize, Range<usize>),
    ) {
        let (mut token, page) = (range.start, self.places.page_tokens);
        while token < range.end {
            let count = TILE.min(range.end - token).min(page - token % page);
            let row = self.places.row(sequence, head, token);
            with(token - range.start, row..row + count);
            token += count;
        }
    }

    fn scores(
        &self,
        queries: &[f32],
        place: (usize, usize),
        range: Range<usize>,
        scores: &mut [f32],
        buffer: &mut [f32],
    ) {
        let cap = self.rule.soft_cap as f32;
        self.each_tile(place, range, |first, rows| {
            let width = self.width;
            let keys = T::single(&self.key[rows.start * width..rows.end * width], buffer);
            f32::run(Scores { queries, keys, width, first, scores });
            let count = rows.len();
            for scores in scores.chunks_exact_mut(STRETCH) {
                let scores = &mut scores[first..first + count];
                if let Some(scales) = self.key_scales {
                    scores.iter_mut().zip(&scales[rows.clone()]).for_each(|(x, scale)| *x *= scale);
                }
                if cap != 0.0 {
                    scores.iter_mut().for_each(|x| *x = cap * (*x / cap).tanh());
                }
            }
        });
    }

    /// The sums of values, weighted by `scores`.
    fn sums(
        &self,
        scores: &mut [f32],
        place: (usize, usize),
        range: Range<usize>,
        sums: &mut [f32],
        buffer: &mut [f32],
    ) {
        sums.fill(0.0);
        let width = self.value_width;
        self.each_tile(place, range, |first, rows| {
            if let Some(scales) = self.value_scales {
                for scores in scores.chunks_exact_mut(STRETCH) {
                    let scores = scores[first..].iter_mut();
                    scores.zip(&scales[rows.clone()]).for_each(|(x, scale)| *x *= scale);
                }
            }
            let values = T::single(&self.value[rows.start * width..rows.end * width], buffer);
            f32::run(WeightedSums { scores, first, values, width, sums });
        });
    }

    /// Puts the stretches together.
    fn combine(&self, out: &mut [f32], found: &[f32], stretches: usize) {
        let (width, group) = (self.value_width, self.group);
        let each = group * (width + 2);
        for (number, found) in found.chunks_exact(stretches * each).enumerate() {
            let parts = self.parts(number);
            for member in 0..group {
                let row = self.row(parts, member);
                let out = &mut out[row * width..][..width];
                let ends = |part: &[f32]| {
                    let ends = &part[group * width..];
                    (ends[member], ends[group + member])
                };
                let largest = found.chunks_exact(each).map(|part| ends(part).0);
                let largest = largest.fold(f32::NEG_INFINITY, f32::max);
                let (mut total, mut is_first) = (0.0, true);
                for part in found.chunks_exact(each) {
                    let (most, sum) = ends(part);
                    if most == f32::NEG_INFINITY && sum == f32::NEG_INFINITY {
                        continue;
                    }
                    let factor = (most - largest).exp();
                    let sums = &part[member * width..][..width];
                    for (out, &x) in out.iter_mut().zip(sums) {
                        *out = if is_first { x * factor } else { x.mul_add(factor, *out) };
                    }
                    total += sum * factor;
                    is_first = false;
                }
                f32::scale(out, 1.0 / total);
            }
        }
    }
}

/// Attention of many queries, sequence by sequence.
fn prompt(
    query: &Tensor,
    caches: [(&Tensor, Option<&Tensor>); 2],
    places: &TokenRows,
    rule: &Rule,
) -> Result<Tensor> {
    let tokens = query.size(2)?;
    let wide = op::to_dtype(query, DType::Float32, false, false, None)?;
    let mut made = Vec::new();
    for (sequence, &past) in places.past.iter().enumerate() {
        let first = rule.seen(past as usize).start;
        let range = first..(past + tokens) as usize;
        let [key, value] = caches.map(|(cache, scales)| {
            let rows = rows_of(cache, places, sequence, range.clone())?;
            let scales = scales.map(|scales| rows_of(scales, places, sequence, range.clone()));
            scales.transpose()?.map_or(Ok(rows.clone()), |scales| op::mul_tensor(&rows, &scales))
        });
        let query = op::narrow(&wide, 0, sequence as i64, 1)?;
        made.push(one_prompt(&query, &key?, &value?, past - first as i64, rule)?);
    }
    let made = if made.len() == 1 { made.remove(0) } else { op::cat(&made, 0)? };
    op::to_dtype(&made, query.dtype(), false, false, None)
}

/// Some tokens of a sequence in a cache as single precision, of shape (1, heads, tokens, width).
fn rows_of(
    cache: &Tensor,
    places: &TokenRows,
    sequence: usize,
    range: Range<usize>,
) -> Result<Tensor> {
    let rows = match places.pages_of(sequence, range.end) {
        None => op::narrow(cache, 0, sequence as i64, 1)?,
        Some(pages) => {
            let pages = Tensor::from_vec(pages.to_vec(), &[pages.len() as i64])?;
            let found = op::transpose_int(&op::index_select(cache, 0, &pages)?, 0, 1)?;
            let sizes = found.sizes();
            op::reshape(&found, &[1, sizes[0], sizes[1] * sizes[2], sizes[3]])?
        }
    };
    let rows = op::narrow(&rows, 2, range.start as i64, range.len() as i64)?;
    op::to_dtype(&rows, DType::Float32, false, false, None)
}

/// Attention of the queries of one sequence, `past` of whose keys are before the first query.
fn one_prompt(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    past: i64,
    rule: &Rule,
) -> Result<Tensor> {
    let (heads, tokens, keys) = (query.size(1)?, query.size(2)?, key.size(2)?);
    let group = heads / key.size(1)?;
    let is_windowed = rule.window != 0 && rule.window < keys;
    if past == 0 && !is_windowed && rule.soft_cap == 0.0 {
        return op::scaled_dot_product_attention(
            query,
            key,
            value,
            None,
            0.0,
            true,
            Some(rule.scale),
            group > 1,
        );
    }
    let mask = mask(tokens, keys, past, rule)?;
    if rule.soft_cap == 0.0 {
        return op::scaled_dot_product_attention(
            query,
            key,
            value,
            Some(&mask),
            0.0,
            false,
            Some(rule.scale),
            group > 1,
        );
    }
    // Query heads that share a head are rows of one product.
    let shape = [1, key.size(1)?, group * tokens, query.size(3)?];
    let scores = op::matmul(&op::reshape(query, &shape)?, &op::transpose_int(key, -1, -2)?)?;
    let capped = op::tanh(&op::mul_scalar(&scores, Scalar::from(rule.scale / rule.soft_cap))?)?;
    let scores = op::mul_scalar(&capped, Scalar::from(rule.soft_cap))?;
    let scores = op::reshape(&scores, &[1, heads, tokens, keys])?;
    let weights = op::softmax_int(&op::add_tensor(&scores, &mask, Scalar::Int(1))?, -1, None)?;
    let weights = op::reshape(&weights, &[1, shape[1], group * tokens, keys])?;
    let out = op::matmul(&weights, value)?;
    op::reshape(
        &op::contiguous(&out, MemoryFormat::Contiguous)?,
        &[1, heads, tokens, value.size(3)?],
    )
}

/// 0 for keys that a query sees, and minus infinity for others: (queries, keys).
fn mask(tokens: i64, keys: i64, past: i64, rule: &Rule) -> Result<Tensor> {
    let mut mask = Vec::new();
    unwinding::resize(&mut mask, (tokens * keys) as usize, f32::NEG_INFINITY);
    for (token, row) in mask.chunks_exact_mut(keys as usize).enumerate() {
        row[rule.seen(past as usize + token)].fill(0.0);
    }
    Tensor::from_vec(mask, &[tokens, keys])
}
