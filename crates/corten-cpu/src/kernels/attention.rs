//! Attention in one pass over blocks of keys, without storing the weights.
//!
//! Per block of queries the running maximum and sum of the softmax are kept, and what was summed
//! so far is rescaled when the maximum grows. Backward recomputes the weights from the logarithms
//! of the sums.

use super::support::{contiguous, defined, empty, empty_as, is_shape_only};
use crate::chunks::{for_each_chunk3, for_each_row_block2};
use crate::gemm::{Factors, Heads, Mat, MatElement, MatMut, gemm};
use crate::rows::{Wide, match_wide};
use corten_core::{Access, AccessSet, DType, Dims, MemoryFormat, Result, Scalar, ensure};
use corten_ops::{Tensor, op};
use std::ops::Range;

/// Keys per block.
const KEYS: usize = 512;

/// Queries per block: the scores of a block stay in the caches next to the processor. Products bring a
/// block's keys and values into the order of their tiles anew, so many queries share that where all see
/// the same keys.
fn queries_at_once(queries: usize, is_causal: bool) -> usize {
    if queries >= 512 && !is_causal { 128 } else { 64 }
}

/// A number that attention is computed in.
trait Score: Wide + MatElement {}

impl<T: Wide + MatElement> Score for T {}

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
    let rule = Rule { scale: shape.scale(scale), is_causal };
    if !is_shape_only(&out) {
        match_wide!(dtype, "flash_attention", T => {
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
            let at_once = queries_at_once(shape.queries, is_causal);
            let blocks = [shape.batch * shape.heads, shape.queries, at_once];
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
    let rule = Rule { scale: shape.scale(scale), is_causal };
    if !is_shape_only(&dq) {
        match_wide!(dtype, "flash_attention_backward", T => {
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

    fn scale(&self, scale: Option<f64>) -> f64 {
        scale.unwrap_or_else(|| 1.0 / (self.width as f64).sqrt())
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
}

impl Rule {
    /// The keys that some of these queries may see.
    fn keys(&self, queries: &Range<usize>, keys: usize) -> usize {
        if self.is_causal { keys.min(queries.end) } else { keys }
    }
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
    /// The scores of some queries and keys, row by row.
    fn scores(
        &self,
        scores: &mut [T],
        queries: &Range<usize>,
        keys: &Range<usize>,
        rule: &Rule,
    ) -> Result<()> {
        let (rows, cols) = (queries.len(), keys.len());
        let factors = Factors { alpha: Scalar::from(rule.scale), beta: Scalar::Int(0) };
        let target = MatMut::row_major(scores, rows, cols)?;
        gemm(target, self.query.rows(queries.clone()), self.key.rows(keys.clone()).t(), factors)?;
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

fn blocks(end: usize, step: usize) -> impl Iterator<Item = Range<usize>> {
    (0..end).step_by(step).map(move |start| start..(start + step).min(end))
}

/// One block of queries.
fn forward<T: Score>(
    head: &Head<'_, T>,
    queries: Range<usize>,
    out: &mut [T],
    logs: &mut [T],
    rule: &Rule,
) -> Result<()> {
    let width = head.value.shape()[1];
    let (mut largest, mut sums) =
        (vec![T::NEG_INFINITY; queries.len()], vec![T::ZERO; queries.len()]);
    let mut buffer = vec![T::ZERO; queries.len() * KEYS];
    out.fill(T::ZERO);
    for keys in blocks(rule.keys(&queries, head.key.shape()[0]), KEYS) {
        let scores = &mut buffer[..queries.len() * keys.len()];
        head.scores(scores, &queries, &keys, rule)?;
        for (row, line) in scores.chunks_exact_mut(keys.len()).enumerate() {
            let max = T::max_of(line);
            let new = if max > largest[row] || max.is_nan() { max } else { largest[row] };
            if new == T::NEG_INFINITY {
                // Every key so far is masked out.
                line.fill(T::ZERO);
                continue;
            }
            let factor = (largest[row] - new).exp();
            sums[row] = sums[row] * factor + T::exp_minus_in_place(line, new);
            if largest[row] != new {
                T::scale(&mut out[row * width..][..width], factor);
            }
            largest[row] = new;
        }
        let weights = Mat::row_major(scores, queries.len(), keys.len())?;
        let target = MatMut::row_major(out, queries.len(), width)?;
        gemm(target, weights, head.value.rows(keys), Factors::ADD)?;
    }
    for (row, line) in out.chunks_exact_mut(width).enumerate() {
        let masked = largest[row] == T::NEG_INFINITY;
        T::scale(line, if masked { T::ZERO } else { T::ONE / sums[row] });
        logs[row] = if masked { T::NEG_INFINITY } else { largest[row] + sums[row].ln() };
    }
    Ok(())
}

/// What backward is given about a head.
struct Given<'a, T> {
    grad: Mat<'a, T>,
    out: Mat<'a, T>,
    logs: &'a [T],
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
    let scaled = Factors { alpha: Scalar::from(rule.scale), beta: Scalar::Int(1) };
    let at_once = queries_at_once(queries, rule.is_causal);
    let mut buffers = (vec![T::ZERO; at_once * KEYS], vec![T::ZERO; at_once * KEYS]);
    for rows in blocks(queries, at_once) {
        let grad = given.grad.rows(rows.clone());
        let inner: Vec<T> = rows.clone().map(|row| row_dot(given.grad, given.out, row)).collect();
        for cols in blocks(rule.keys(&rows, keys), KEYS) {
            let size = rows.len() * cols.len();
            let (weights, slopes) = (&mut buffers.0[..size], &mut buffers.1[..size]);
            head.scores(weights, &rows, &cols, rule)?;
            for (row, line) in weights.chunks_exact_mut(cols.len()).enumerate() {
                let log = given.logs[rows.start + row];
                if log == T::NEG_INFINITY {
                    line.fill(T::ZERO);
                } else {
                    T::exp_minus_in_place(line, log);
                }
            }
            let shape = [rows.len(), cols.len()];
            let part = cols.start * width..cols.end * width;
            let target = MatMut::row_major(&mut dv[part.clone()], cols.len(), width)?;
            gemm(target, Mat::row_major(weights, shape[0], shape[1])?.t(), grad, Factors::ADD)?;
            let target = MatMut::row_major(slopes, shape[0], shape[1])?;
            gemm(target, grad, head.value.rows(cols.clone()).t(), Factors::PRODUCT)?;
            let lines = slopes.chunks_exact_mut(cols.len()).zip(weights.chunks_exact(cols.len()));
            for ((slopes, weights), &inner) in lines.zip(&inner) {
                T::shift_and_multiply(slopes, inner, weights);
            }
            let slopes = Mat::row_major(slopes, shape[0], shape[1])?;
            let target = &mut dq[rows.start * width..rows.end * width];
            gemm(
                MatMut::row_major(target, rows.len(), width)?,
                slopes,
                head.key.rows(cols.clone()),
                scaled,
            )?;
            let target = MatMut::row_major(&mut dk[part], cols.len(), width)?;
            gemm(target, slopes.t(), head.query.rows(rows.clone()), scaled)?;
        }
    }
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
