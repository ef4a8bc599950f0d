//! Attention in one pass over blocks of keys, without storing the weights.
//!
//! For every query the running maximum and sum of the softmax are kept, and what was summed so far is
//! rescaled when the maximum grows. Backward recomputes the weights from the logarithms of the sums.
//!
//! Products read keys, and backward values, across: those of a block are turned once for all queries
//! of a part. Queries are scaled before, and not the many more scores.

use super::support::{contiguous, defined, empty, empty_as, is_shape_only};
use crate::gemm::{Factors, Heads, Mat, MatElement, MatMut, gemm};
use crate::parallel::chunks::{for_each_chunk3, for_each_row_block2};
use crate::parallel::scratch::{Buffered, with_buffer};
use crate::rows::Wide;
use corten_core::{
    Access, AccessSet, DType, Dims, MemoryFormat, Result, ensure, match_dtype, try_collect,
    unwinding,
};
use corten_ops::parallel::num_threads;
use corten_ops::{Tensor, op};
use std::ops::Range;

/// Keys per block.
const KEYS: usize = 512;

/// Elements between the lines of turned keys, which would share their places in the cache otherwise.
const SPACE: usize = 16;

/// Parts of all queries for every thread at least.
const PARTS: usize = 4;

/// Queries per block: the scores of a block stay in the caches next to the processor. Where queries
/// see keys up to their own, few at a time compute few scores that none of them sees.
fn queries_at_once(queries: usize, is_causal: bool) -> usize {
    if queries >= 512 && !is_causal { 128 } else { 64 }
}

/// A number that attention is computed in.
trait Score: Wide + MatElement + Buffered {}

impl<T: Wide + MatElement + Buffered> Score for T {}

/// Attention of a batch of heads and the logarithms of its softmax sums.
///
/// # Errors
/// `Runtime` when shapes or dtypes do not fit.
pub fn flash_attention(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    dropout_p: f64,
    is_causal: bool,
    attn_mask: Option<&Tensor>,
    scale: Option<f64>,
) -> Result<(Tensor, Tensor)> {
    let shape = Shape::of(query, key, value, dropout_p)?;
    let dtype = wide_dtype(query.dtype());
    let [q, k, v] = [query, key, value].map(|tensor| converted(tensor, dtype));
    let (q, k, v) = (q?, k?, v?);
    let bias = Bias::of(attn_mask, &shape, dtype)?;
    let out = empty_as(&shape.output(), query, dtype)?;
    let logs =
        empty_as(&[shape.batch as i64, shape.heads as i64, shape.queries as i64], query, dtype)?;
    let rule = shape.rule(scale, is_causal);
    if out.numel() == 0 {
        op::zero_(&logs)?;
    } else if !is_shape_only(&out) {
        match_dtype!(dtype, "flash_attention", SingleDouble, T => {
            let absent = Tensor::undefined();
            let access = AccessSet::acquire(&[
                (&out, Access::Write),
                (&logs, Access::Write),
                (&q, Access::Read),
                (&k, Access::Read),
                (&v, Access::Read),
                (bias.as_ref().map_or(&absent, |bias| &bias.tensor), Access::Read),
            ])?;
            let operands = Operands::<T> {
                query: Heads::of(&access, 2, &q)?,
                key: Heads::of(&access, 3, &k)?,
                value: Heads::of(&access, 4, &v)?,
                bias: bias.as_ref().map(|bias| Heads::of(&access, 5, &bias.tensor)).transpose()?,
            };
            let (out, logs) = (access.write::<T>(0)?, access.write::<T>(1)?);
            let blocks = [shape.batch * shape.heads, shape.queries, shape.part(&rule)];
            for_each_row_block2((out, shape.width), (logs, 1), blocks, 1, |head, rows, out, logs| {
                forward(&operands.head(head, shape.heads), rows, out, logs, &rule)
            })
        })?;
    }
    // Heads vary fastest in memory, as in PyTorch.
    let logs = op::contiguous(&op::transpose_int(&logs, 1, 2)?, MemoryFormat::Contiguous)?;
    let logs = op::transpose_int(&logs, 1, 2)?;
    Ok((laid_out_as(&converted(&out, query.dtype())?, query)?, logs))
}

/// Gradients of [`flash_attention`] with respect to query, key and value.
///
/// # Errors
/// `Runtime` when shapes or dtypes do not fit.
pub fn flash_attention_backward(
    grad_out: &Tensor,
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    out: &Tensor,
    logsumexp: &Tensor,
    dropout_p: f64,
    is_causal: bool,
    attn_mask: Option<&Tensor>,
    scale: Option<f64>,
) -> Result<(Tensor, Tensor, Tensor)> {
    let shape = Shape::of(query, key, value, dropout_p)?;
    let dtype = wide_dtype(query.dtype());
    ensure!(
        grad_out.sizes() == query.sizes() && out.sizes() == query.sizes(),
        Runtime,
        "flash attention: expected a gradient of size {:?} but got {:?}",
        query.sizes().as_slice(),
        grad_out.sizes().as_slice()
    );
    let inputs = [grad_out, query, key, value, out].map(|tensor| converted(tensor, dtype));
    let [g, q, k, v, o] = inputs;
    let (g, q, k, v, o) = (g?, q?, k?, v?, o?);
    let logs = contiguous(&converted(logsumexp, dtype)?)?;
    let bias = Bias::of(attn_mask, &shape, dtype)?;
    let (dq, dk, dv) = (empty(&q.sizes(), &q)?, empty(&k.sizes(), &k)?, empty(&v.sizes(), &v)?);
    let rule = shape.rule(scale, is_causal);
    if dq.numel() == 0 || dk.numel() == 0 {
        [&dq, &dk, &dv].into_iter().try_for_each(|grad| op::zero_(grad).map(drop))?;
    } else if !is_shape_only(&dq) {
        match_dtype!(dtype, "flash_attention_backward", SingleDouble, T => {
            let absent = Tensor::undefined();
            let access = AccessSet::acquire(&[
                (&dq, Access::Write),
                (&dk, Access::Write),
                (&dv, Access::Write),
                (&g, Access::Read),
                (&q, Access::Read),
                (&k, Access::Read),
                (&v, Access::Read),
                (&o, Access::Read),
                (&logs, Access::Read),
                (bias.as_ref().map_or(&absent, |bias| &bias.tensor), Access::Read),
            ])?;
            let (grads, outs) = (Heads::<T>::of(&access, 3, &g)?, Heads::<T>::of(&access, 7, &o)?);
            let operands = Operands::<T> {
                query: Heads::of(&access, 4, &q)?,
                key: Heads::of(&access, 5, &k)?,
                value: Heads::of(&access, 6, &v)?,
                bias: bias.as_ref().map(|bias| Heads::of(&access, 9, &bias.tensor)).transpose()?,
            };
            let logs = access.read::<T>(8)?;
            let (query_size, key_size) = (shape.queries * shape.width, shape.keys * shape.width);
            let dq = (access.write::<T>(0)?, query_size);
            let dk = (access.write::<T>(1)?, key_size);
            let dv = (access.write::<T>(2)?, key_size);
            for_each_chunk3(dq, dk, dv, 1, |head, dq, dk, dv| {
                let place = [head / shape.heads, head % shape.heads];
                let given = Given {
                    grad: grads.get(place),
                    out: outs.get(place),
                    logs: &logs[head * shape.queries..][..shape.queries],
                };
                backward(&operands.head(head, shape.heads), &given, [dq, dk, dv], &rule)
            })
        })?;
    }
    let narrow = |grad: &Tensor, like: &Tensor| laid_out_as(&converted(grad, like.dtype())?, like);
    Ok((narrow(&dq, query)?, narrow(&dk, key)?, narrow(&dv, value)?))
}

/// Sizes of a batch of heads.
struct Shape {
    batch: usize,
    heads: usize,
    queries: usize,
    keys: usize,
    width: usize,
}

impl Shape {
    fn of(query: &Tensor, key: &Tensor, value: &Tensor, dropout_p: f64) -> Result<Self> {
        ensure!(
            dropout_p == 0.0,
            Runtime,
            "scaled_dot_product_attention_flash_attention: Currently do not support dropout > 0"
        );
        let (q, k, v) = (query.sizes(), key.sizes(), value.sizes());
        ensure!(
            q.len() == 4 && k.len() == 4 && v.len() == 4,
            Runtime,
            "scaled_dot_product_attention_flash_attention: Accept only 4 dims inputs shape of {{B, \
             H, T, K}}"
        );
        ensure!(
            q[3] == k[3] && k[3] == v[3],
            Runtime,
            "scaled_dot_product_attention_flash_attention: Q/K/V should have the same head size"
        );
        ensure!(
            q[..2] == k[..2] && k[..3] == v[..3],
            Runtime,
            "scaled_dot_product_attention_flash_attention: Q/K/V should have the same batch and \
             heads, and K/V the same length"
        );
        let dtype = query.dtype();
        ensure!(
            dtype.is_floating_point() && dtype == key.dtype() && dtype == value.dtype(),
            Runtime,
            "scaled_dot_product_attention_flash_attention: Expected data type in FP32, FP64, BF16, \
             FP16, but got {} instead.",
            dtype.type_name()
        );
        let [batch, heads, queries, width] = [q[0], q[1], q[2], q[3]].map(|size| size as usize);
        Ok(Self { batch, heads, queries, keys: k[2] as usize, width })
    }

    fn output(&self) -> [i64; 4] {
        [self.batch, self.heads, self.queries, self.width].map(|size| size as i64)
    }

    fn rule(&self, scale: Option<f64>, is_causal: bool) -> Rule {
        let scale = scale.unwrap_or_else(|| 1.0 / (self.width as f64).sqrt());
        Rule { scale, is_causal, at_once: queries_at_once(self.queries, is_causal) }
    }

    /// Queries of a part: all of a head where the heads keep the threads busy.
    fn part(&self, rule: &Rule) -> usize {
        let parts = (PARTS * num_threads()).div_ceil((self.batch * self.heads).max(1));
        self.queries.div_ceil(parts).next_multiple_of(rule.at_once)
    }
}

/// What is added to the scores, as a tensor of rank 4 whose last two dimensions are whole.
struct Bias {
    tensor: Tensor,
}

impl Bias {
    fn of(mask: Option<&Tensor>, shape: &Shape, dtype: DType) -> Result<Option<Self>> {
        let Some(mask) = defined(mask) else { return Ok(None) };
        let rank = mask.dim();
        let scores = [shape.batch, shape.heads, shape.queries, shape.keys].map(|size| size as i64);
        let sizes = mask.sizes();
        let fits = rank <= 4
            && sizes.iter().rev().zip(scores.iter().rev()).all(|(&a, &b)| a == b || a == 1);
        ensure!(
            fits,
            Runtime,
            "scaled_dot_product_attention_flash_attention: Attention mask of size {:?} does not \
             broadcast to {scores:?}",
            sizes.as_slice()
        );
        let mut leading = Dims::from_elem(1, 4 - rank);
        leading.extend_from_slice(&sizes);
        (leading[2], leading[3]) = (scores[2], scores[3]);
        let whole = op::expand(mask, &leading, false)?;
        Ok(Some(Self { tensor: contiguous(&converted(&whole, dtype)?)? }))
    }
}

/// How scores are formed.
struct Rule {
    scale: f64,
    is_causal: bool,
    /// Queries per block, however many a part has: results do not depend on the threads.
    at_once: usize,
}

impl Rule {
    /// The keys that some of these queries may see.
    fn keys(&self, queries: &Range<usize>, keys: usize) -> usize {
        if self.is_causal { keys.min(queries.end) } else { keys }
    }

    /// Those of them that lie in a block, which may begin behind the last one.
    fn seen(&self, queries: &Range<usize>, block: &Range<usize>) -> Range<usize> {
        block.start..self.keys(queries, block.end).max(block.start)
    }
}

/// The room that a part works in.
struct Room<'a, T> {
    /// The keys and the values of a block, a line per number of a head.
    keys: &'a mut [T],
    values: &'a mut [T],
    /// The scores of a block of queries, and their gradients.
    scores: &'a mut [T],
    slopes: &'a mut [T],
    /// The queries of a block, scaled.
    queries: &'a mut [T],
}

impl<T: Score> Room<'_, T> {
    /// Calls `body` with room for so many queries at a time, of so many numbers; for backward with
    /// that for values and gradients.
    fn with<R>(
        [at_once, keys, width]: [usize; 3],
        backward: bool,
        body: impl FnOnce(Room<'_, T>) -> R,
    ) -> R {
        let (turned, scores) = (width * (keys + SPACE), at_once * keys);
        let copies = if backward { 2 } else { 1 };
        with_buffer((turned + scores) * copies + at_once * width, |buffer| {
            let (keys, rest) = buffer.split_at_mut(turned);
            let (values, rest) = rest.split_at_mut(turned * (copies - 1));
            let (scores, rest) = rest.split_at_mut(scores);
            let (slopes, queries) = rest.split_at_mut(scores.len() * (copies - 1));
            body(Room { keys, values, scores, slopes, queries })
        })
    }
}

/// Rows as columns, in some room.
fn turned<'a, T: Score>(rows: Mat<'_, T>, room: &'a mut [T]) -> Result<Mat<'a, T>> {
    let [count, width] = rows.shape();
    let (shape, strides) = ([width, count], [count + SPACE, 1]);
    MatMut::strided(room, shape, strides)?.copy_of(rows.t())?;
    Mat::strided(room, shape, strides)
}

struct Operands<'a, T> {
    query: Heads<'a, T>,
    key: Heads<'a, T>,
    value: Heads<'a, T>,
    bias: Option<Heads<'a, T>>,
}

/// The matrices of one head.
struct Head<'a, T> {
    query: Mat<'a, T>,
    key: Mat<'a, T>,
    value: Mat<'a, T>,
    bias: Option<Mat<'a, T>>,
}

impl<'a, T: Score> Operands<'a, T> {
    fn head(&self, index: usize, heads: usize) -> Head<'a, T> {
        let place = [index / heads, index % heads];
        Head {
            query: self.query.get(place),
            key: self.key.get(place),
            value: self.value.get(place),
            bias: self.bias.as_ref().map(|bias| bias.get(place)),
        }
    }
}

impl<T: Score> Head<'_, T> {
    /// Some queries, scaled.
    fn scaled<'a>(
        &self,
        queries: &Range<usize>,
        rule: &Rule,
        room: &'a mut [T],
    ) -> Result<Mat<'a, T>> {
        let (count, width) = (queries.len(), self.query.shape()[1]);
        let room = &mut room[..count * width];
        MatMut::row_major(room, count, width)?.copy_of(self.query.rows(queries.clone()))?;
        T::scale(room, T::of(rule.scale));
        Mat::row_major(room, count, width)
    }

    /// The scores of some queries, given scaled, and some keys, given as columns; row by row.
    fn scores(
        &self,
        scores: &mut [T],
        [queries, keys]: [&Range<usize>; 2],
        [scaled, turned]: [Mat<'_, T>; 2],
        rule: &Rule,
    ) -> Result<()> {
        let (rows, cols) = (queries.len(), keys.len());
        gemm(MatMut::row_major(scores, rows, cols)?, scaled, turned, Factors::PRODUCT)?;
        for (row, line) in scores.chunks_exact_mut(cols).take(rows).enumerate() {
            let query = queries.start + row;
            if let Some(bias) = self.bias.and_then(|bias| bias.row_slice(query)) {
                T::add_row(line, &bias[keys.clone()]);
            }
            if rule.is_causal {
                let seen = (query + 1).saturating_sub(keys.start).min(cols);
                line[seen..].fill(T::NEG_INFINITY);
            }
        }
        Ok(())
    }
}

fn blocks(range: Range<usize>, step: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(step).map(move |start| start..(start + step).min(end))
}

/// The softmax of some queries under way.
struct Softmax<T> {
    largest: Vec<T>,
    sums: Vec<T>,
}

impl<T: Score> Softmax<T> {
    fn of(queries: usize) -> Self {
        Self {
            largest: unwinding::vec(T::NEG_INFINITY, queries),
            sums: unwinding::vec(T::ZERO, queries),
        }
    }

    /// Makes weights of more scores of a query, and scales what was summed before.
    fn take(&mut self, query: usize, scores: &mut [T], summed: &mut [T]) {
        let largest = self.largest[query];
        let max = T::max_of(scores);
        let new = if max > largest || max.is_nan() { max } else { largest };
        if new == T::NEG_INFINITY {
            // Every key so far is masked out.
            return scores.fill(T::ZERO);
        }
        let factor = (largest - new).exp();
        self.sums[query] = self.sums[query] * factor + T::exp_minus_in_place(scores, new);
        if largest != new {
            T::scale(summed, factor);
        }
        self.largest[query] = new;
    }

    /// Divides what was summed; returns the logarithm of the softmax's sum.
    fn finish(&self, query: usize, summed: &mut [T]) -> T {
        let (largest, sum) = (self.largest[query], self.sums[query]);
        let masked = largest == T::NEG_INFINITY;
        T::scale(summed, if masked { T::ZERO } else { T::ONE / sum });
        if masked { T::NEG_INFINITY } else { largest + sum.ln() }
    }
}

/// Some queries of a head.
fn forward<T: Score>(
    head: &Head<'_, T>,
    queries: Range<usize>,
    out: &mut [T],
    logs: &mut [T],
    rule: &Rule,
) -> Result<()> {
    let (keys, width) = (head.key.shape()[0], head.value.shape()[1]);
    let at_once = rule.at_once;
    let mut softmax = Softmax::of(queries.len());
    out.fill(T::ZERO);
    Room::with([at_once.min(queries.len()), KEYS.min(keys), width], false, |room: Room<'_, T>| {
        for block in blocks(0..rule.keys(&queries, keys), KEYS) {
            let turned = turned(head.key.rows(block.clone()), room.keys)?;
            for rows in blocks(queries.clone(), at_once) {
                let seen = rule.seen(&rows, &block);
                if seen.is_empty() {
                    continue;
                }
                let factors = [head.scaled(&rows, rule, room.queries)?, turned.cols(0..seen.len())];
                let scores = &mut room.scores[..rows.len() * seen.len()];
                head.scores(scores, [&rows, &seen], factors, rule)?;
                let first = rows.start - queries.start;
                let out = &mut out[first * width..][..rows.len() * width];
                let lines = scores.chunks_exact_mut(seen.len()).zip(out.chunks_exact_mut(width));
                for (row, (scores, out)) in lines.enumerate() {
                    softmax.take(first + row, scores, out);
                }
                let weights = Mat::row_major(scores, rows.len(), seen.len())?;
                let target = MatMut::row_major(out, rows.len(), width)?;
                gemm(target, weights, head.value.rows(seen), Factors::ADD)?;
            }
        }
        Ok(())
    })?;
    for (row, (line, log)) in out.chunks_exact_mut(width).zip(logs).enumerate() {
        *log = softmax.finish(row, line);
    }
    Ok(())
}

/// What backward is given about a head.
struct Given<'a, T> {
    grad: Mat<'a, T>,
    out: Mat<'a, T>,
    logs: &'a [T],
}

impl<T: Score> Given<'_, T> {
    /// Makes weights of scores, in rows of so many, of the queries from the given one on.
    fn weights(&self, first: usize, scores: &mut [T], keys: usize) {
        for (scores, &log) in scores.chunks_exact_mut(keys).zip(&self.logs[first..]) {
            if log == T::NEG_INFINITY {
                scores.fill(T::ZERO);
            } else {
                T::exp_minus_in_place(scores, log);
            }
        }
    }
}

/// Gradients of one head.
fn backward<T: Score>(
    head: &Head<'_, T>,
    given: &Given<'_, T>,
    [dq, dk, dv]: [&mut [T]; 3],
    rule: &Rule,
) -> Result<()> {
    let ([queries, width], keys) = (head.query.shape(), head.key.shape()[0]);
    [&mut *dq, &mut *dk, &mut *dv].into_iter().for_each(|grad| grad.fill(T::ZERO));
    let at_once = rule.at_once;
    let inner: Vec<T> = try_collect((0..queries).map(|row| row_dot(given.grad, given.out, row)))?;
    Room::with([at_once.min(queries), KEYS.min(keys), width], true, |room: Room<'_, T>| {
        for block in blocks(0..rule.keys(&(0..queries), keys), KEYS) {
            let turned_keys = turned(head.key.rows(block.clone()), room.keys)?;
            let turned_values = turned(head.value.rows(block.clone()), room.values)?;
            for rows in blocks(0..queries, at_once) {
                let seen = rule.seen(&rows, &block);
                if seen.is_empty() {
                    continue;
                }
                let shape = [rows.len(), seen.len()];
                let scaled = head.scaled(&rows, rule, room.queries)?;
                let weights = &mut room.scores[..shape[0] * shape[1]];
                let factors = [scaled, turned_keys.cols(0..shape[1])];
                head.scores(weights, [&rows, &seen], factors, rule)?;
                given.weights(rows.start, weights, shape[1]);
                let weights = Mat::row_major(weights, shape[0], shape[1])?;
                let part = seen.start * width..seen.end * width;
                let grad = given.grad.rows(rows.clone());
                let target = MatMut::row_major(&mut dv[part.clone()], shape[1], width)?;
                gemm(target, weights.t(), grad, Factors::ADD)?;
                let slopes = &mut room.slopes[..shape[0] * shape[1]];
                let target = MatMut::row_major(slopes, shape[0], shape[1])?;
                gemm(target, grad, turned_values.cols(0..shape[1]), Factors::PRODUCT)?;
                for (row, slopes) in slopes.chunks_exact_mut(shape[1]).enumerate() {
                    let weights = weights.row_slice(row).unwrap_or_default();
                    T::shift_and_multiply(slopes, inner[rows.start + row], weights);
                }
                let slopes = Mat::row_major(slopes, shape[0], shape[1])?;
                let target = MatMut::row_major(&mut dk[part], shape[1], width)?;
                gemm(target, slopes.t(), scaled, Factors::ADD)?;
                let target = &mut dq[rows.start * width..rows.end * width];
                let target = MatMut::row_major(target, shape[0], width)?;
                gemm(target, slopes, head.key.rows(seen), Factors::ADD)?;
            }
        }
        Ok(())
    })?;
    T::scale(dq, T::of(rule.scale));
    Ok(())
}

fn row_dot<T: Score>(a: Mat<'_, T>, b: Mat<'_, T>, row: usize) -> T {
    match (a.row_slice(row), b.row_slice(row)) {
        (Some(a), Some(b)) => T::dot(a, b),
        _ => (0..a.shape()[1]).fold(T::ZERO, |sum, col| sum + a.get(row, col) * b.get(row, col)),
    }
}

fn wide_dtype(dtype: DType) -> DType {
    if dtype == DType::Float64 { dtype } else { DType::Float32 }
}

fn converted(tensor: &Tensor, dtype: DType) -> Result<Tensor> {
    if tensor.dtype() == dtype {
        return Ok(tensor.clone());
    }
    let out = empty_as(&tensor.sizes(), tensor, dtype)?;
    op::copy_(&out, tensor, false)
}

/// The tensor in the order of dimensions in which `like` lies: heads may be inside positions.
fn laid_out_as(tensor: &Tensor, like: &Tensor) -> Result<Tensor> {
    let strides = like.strides();
    if strides[1] >= strides[2] {
        return Ok(tensor.clone());
    }
    let turned = contiguous(&op::transpose_int(tensor, 1, 2)?)?;
    op::transpose_int(&turned, 1, 2)
}
