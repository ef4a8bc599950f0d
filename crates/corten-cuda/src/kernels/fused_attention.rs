//! Attention over tiles and its gradients.

use crate::device::gpu;
use crate::generator::reserve;
use crate::kernel::{Argument, Template, parameters};
use crate::launch::Shape;
use crate::operands::{Operands, contiguous, empty};
use crate::stream::Stream;
use crate::text;
use corten_core::{Access, DType, Result, Scalar, bail, ensure, not_implemented_for};
use corten_ops::{Tensor, op};

static FORWARD: Template =
    Template { name: "attention_forward", text: &[text::RANDOM, text::MMA, text::ATTENTION] };
static INNER: Template =
    Template { name: "attention_inner", text: &[text::RANDOM, text::MMA, text::ATTENTION] };
static BACKWARD_KEYS: Template =
    Template { name: "attention_backward_keys", text: &[text::RANDOM, text::MMA, text::ATTENTION] };
static BACKWARD_QUERIES: Template = Template {
    name: "attention_backward_queries",
    text: &[text::RANDOM, text::MMA, text::ATTENTION],
};

/// The largest head.
const MOST_WIDTH: i64 = 256;
/// Columns of gradients that a block sums.
const MOST_COLUMNS: u32 = 128;
/// Shared memory that every GPU since compute capability 8.0 has for a block.
const SHARED: u32 = 99 << 10;

/// `Attention` of `attention.cuh`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Geometry {
    heads: u32,
    queries: u32,
    keys: u32,
    width: u32,
    value_width: u32,
    shared_by: u32,
    causal: u32,
    wide: u32,
    query: [i64; 3],
    key: [i64; 3],
    value: [i64; 3],
    out: [i64; 3],
    grad: [i64; 3],
    logs: [i64; 3],
    bias: [i64; 4],
    scale: f64,
    kept_scale: f64,
    seed: u64,
    offset: u64,
    drops: u32,
    kept: u32,
}

/// How scores are formed.
#[derive(Clone, Copy)]
pub(super) struct Rule {
    pub(super) is_causal: bool,
    pub(super) scale: Option<f64>,
    pub(super) dropout_p: f64,
    /// Where the random numbers of the dropout begin.
    pub(super) seed: u64,
    pub(super) offset: u64,
}

/// The operands of a call.
pub(super) struct Call {
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Option<Tensor>,
    geometry: Geometry,
    batch: i64,
}

/// Distances of batches, heads and rows of a tensor whose rows are contiguous.
fn strides(tensor: &Tensor) -> [i64; 3] {
    let strides = tensor.strides();
    [strides[0], strides[1], strides[2]]
}

/// The tensor, or a copy where elements of its rows are no neighbours.
fn with_rows(tensor: &Tensor) -> Result<Tensor> {
    match tensor.strides().last() {
        Some(1) => Ok(tensor.clone()),
        _ => contiguous(tensor),
    }
}

fn check([query, key, value]: [&Tensor; 3], rule: &Rule) -> Result<()> {
    let dtype = query.dtype();
    let (q, k, v) = (query.sizes(), key.sizes(), value.sizes());
    let fits = q.len() == 4
        && k.len() == 4
        && v.len() == 4
        && q[0] == k[0]
        && k[..3] == v[..3]
        && q[3] == k[3]
        && k[1] > 0
        && q[1] % k[1] == 0
        && q[3].max(v[3]) <= MOST_WIDTH
        && [query, key, value].iter().all(|tensor| tensor.dtype() == dtype);
    ensure!(
        fits,
        Runtime,
        "attention on CUDA: expected query, key and value of one dtype and of sizes (B, H, T, E) with at \
         most {MOST_WIDTH} columns, but got sizes {:?}, {:?} and {:?}",
        q.as_slice(),
        k.as_slice(),
        v.as_slice()
    );
    ensure!(
        (0.0..=1.0).contains(&rule.dropout_p),
        Runtime,
        "dropout probability has to be between 0 and 1, but got {}",
        rule.dropout_p
    );
    Ok(())
}

impl Call {
    pub(super) fn of(
        [query, key, value]: [&Tensor; 3],
        bias: Option<&Tensor>,
        rule: &Rule,
    ) -> Result<Self> {
        let dtype = query.dtype();
        if !dtype.is_floating_point() || dtype.itemsize() == 1 {
            return Err(not_implemented_for("attention", dtype));
        }
        check([query, key, value], rule)?;
        let (q, k, v) = (query.sizes(), key.sizes(), value.sizes());
        let bias = match bias.filter(|bias| bias.defined()) {
            Some(bias) => Some(expanded(bias, dtype, [q[0], q[1], q[2], k[2]])?),
            None => None,
        };
        let [query, key, value] = [query, key, value].map(with_rows);
        let (query, key, value) = (query?, key?, value?);
        let kept = 1.0 - rule.dropout_p;
        let mut geometry = Geometry {
            heads: q[1] as u32,
            queries: q[2] as u32,
            keys: k[2] as u32,
            width: q[3] as u32,
            value_width: v[3] as u32,
            shared_by: (q[1] / k[1]) as u32,
            causal: u32::from(rule.is_causal),
            query: strides(&query),
            key: strides(&key),
            value: strides(&value),
            scale: rule.scale.unwrap_or_else(|| 1.0 / (q[3] as f64).sqrt()),
            kept_scale: if kept == 0.0 { 0.0 } else { 1.0 / kept },
            seed: rule.seed,
            offset: rule.offset,
            drops: u32::from(rule.dropout_p > 0.0),
            kept: (kept * 4_294_967_296.0) as u32,
            ..Geometry::default()
        };
        if let Some(bias) = &bias {
            let strides = bias.strides();
            geometry.bias = [strides[0], strides[1], strides[2], strides[3]];
        }
        Ok(Self { query, key, value, bias, geometry, batch: q[0] })
    }

    fn dtype(&self) -> DType {
        self.query.dtype()
    }

    /// The dtype that sums and logarithms have.
    pub(super) fn wide_dtype(&self) -> DType {
        if self.dtype() == DType::Float64 { DType::Float64 } else { DType::Float32 }
    }

    fn arguments(&self, keys: u32, columns: u32) -> [Argument; 5] {
        let bias = self.bias.as_ref().map_or(self.dtype(), |bias| bias.dtype());
        [
            Argument::Storage(self.dtype()),
            Argument::Storage(bias),
            Argument::Storage(self.wide_dtype()),
            Argument::Number(keys),
            Argument::Number(columns),
        ]
    }

    fn is_empty(&self) -> bool {
        [&self.query, &self.key, &self.value].iter().any(|tensor| tensor.numel() == 0)
    }

    /// Elements of a row in shared memory.
    fn row(&self, columns: u32) -> u32 {
        columns.next_multiple_of(16) + 16 / self.dtype().itemsize() as u32
    }

    /// Warps of a block, eights of rows in a tile, and bytes of shared memory: own rows of one width, and tiles
    /// of another one, in elements per row.
    fn tiling(&self, own: u32, tile: u32, eights: &[u32]) -> Result<[u32; 3]> {
        let size = self.dtype().itemsize() as u32;
        let device = &gpu(self.query.device().index)?.properties;
        let most = (device.shared_memory_per_block_optin as u32).clamp(48 << 10, SHARED);
        for warps in [4, 2, 1] {
            for &eights in eights {
                let bytes = (16 * warps * own + 8 * eights * tile) * size;
                if bytes <= most {
                    return Ok([warps, eights, bytes]);
                }
            }
        }
        bail!(
            Runtime,
            "attention on CUDA: heads of this size do not fit the device's shared memory"
        )
    }

    /// Whether rows of some operands can be loaded by 16 bytes, a bit for each.
    fn set_wide(&mut self, operands: [(*mut u8, [i64; 3]); 4]) {
        let size = self.dtype().itemsize() as i64;
        for (bit, (at, strides)) in operands.into_iter().enumerate() {
            let wide = at.addr() % 16 == 0 && strides.iter().all(|stride| stride * size % 16 == 0);
            self.geometry.wide |= u32::from(wide) << bit;
        }
    }

    /// Attention into `out`, whose rows are contiguous, and the logarithms of the softmax sums.
    pub(super) fn forward(mut self, out: &Tensor, logs: &Tensor) -> Result<()> {
        if self.is_empty() {
            op::zero_(out)?;
            op::zero_(logs)?;
            return Ok(());
        }
        self.geometry.out = strides(out);
        self.geometry.logs = strides(logs);
        let columns = eights(self.geometry.value_width, &[4, 8, 12, 16, 24, 32]);
        let (depth, value) = (self.row(self.geometry.width), self.row(8 * columns));
        let [warps, keys, shared] = self.tiling(depth, depth + value, &[8, 4, 2])?;
        let absent = Tensor::undefined();
        let (query, key, value) = (self.query.clone(), self.key.clone(), self.value.clone());
        let bias = self.bias.clone().unwrap_or_else(|| absent.clone());
        let held = Operands::hold(&[
            (out, Access::Write),
            (logs, Access::Write),
            (&query, Access::Read),
            (&key, Access::Read),
            (&value, Access::Read),
            (&bias, Access::Read),
        ])?;
        let mut at: [*mut u8; 6] = std::array::from_fn(|index| held.at(index));
        let own = self.geometry;
        let none = (std::ptr::null_mut(), [1; 3]);
        self.set_wide([(at[2], own.query), (at[3], own.key), (at[4], own.value), none]);
        let shape = self.shape(own.queries, own.heads, warps, shared, 1)?;
        let arguments = self.arguments(keys, columns);
        let [mut out_at, mut logs_at, mut query_at, mut key_at, mut value_at, mut bias_at] = at;
        let (mut geometry, stream) = (self.geometry, Stream::current(query.device().index));
        let parameters =
            parameters!(geometry, query_at, key_at, value_at, bias_at, out_at, logs_at);
        // SAFETY: the geometry is that of the tensors, which are held.
        unsafe { FORWARD.launch(&arguments, shape, stream, parameters)? };
        at.fill(std::ptr::null_mut());
        drop(held);
        Ok(())
    }

    /// Blocks for so many rows of so many heads of each batch.
    fn shape(&self, rows: u32, heads: u32, warps: u32, shared: u32, across: u32) -> Result<Shape> {
        let blocks = i64::from(rows.div_ceil(16 * warps)) * i64::from(heads) * self.batch;
        ensure!(blocks <= i64::from(i32::MAX), Runtime, "attention on CUDA: too many heads");
        Ok(Shape { grid: [blocks as u32, across, 1], block: [32 * warps, 1, 1], shared })
    }

    /// Gradients of query, key and value, and those of the scores if they are asked for.
    pub(super) fn backward(
        mut self,
        grad: &Tensor,
        out: &Tensor,
        logs: &Tensor,
        needs_bias: bool,
    ) -> Result<[Tensor; 4]> {
        let (grad, out) = (with_rows(grad)?, with_rows(out)?);
        let like = |tensor: &Tensor| empty(&tensor.sizes(), tensor.dtype(), tensor);
        let grads = [like(&self.query)?, like(&self.key)?, like(&self.value)?];
        let [dq, dk, dv] = grads;
        let bias = self.bias.clone().unwrap_or_else(Tensor::undefined);
        let dbias = match needs_bias && bias.defined() {
            true => empty(&bias.sizes(), bias.dtype(), &bias)?,
            false => Tensor::undefined(),
        };
        let results = [dq, dk, dv, dbias];
        if self.is_empty() {
            for result in results.iter().filter(|result| result.defined()) {
                op::zero_(result)?;
            }
            return Ok(results);
        }
        self.geometry.grad = strides(&grad);
        self.geometry.out = strides(&out);
        self.geometry.logs = strides(logs);
        let wide = self.wide_dtype();
        let inner = empty(&[self.batch, self.query.size(1)?, self.query.size(2)?], wide, &grad)?;
        let (query, key, value) = (self.query.clone(), self.key.clone(), self.value.clone());
        let [dq, dk, dv, dbias] = &results;
        let held = Operands::hold(&[
            (&query, Access::Read),
            (&key, Access::Read),
            (&value, Access::Read),
            (&bias, Access::Read),
            (&grad, Access::Read),
            (logs, Access::Read),
            (&inner, Access::Write),
            (&out, Access::Read),
            (dq, Access::Write),
            (dk, Access::Write),
            (dv, Access::Write),
            (dbias, Access::Write),
        ])?;
        let at: [*mut u8; 12] = std::array::from_fn(|index| held.at(index));
        let own = self.geometry;
        self.set_wide([
            (at[0], own.query),
            (at[1], own.key),
            (at[2], own.value),
            (at[4], own.grad),
        ]);
        self.launch_backward(at, inner.numel())?;
        drop(held);
        Ok(results)
    }

    fn launch_backward(&self, at: [*mut u8; 12], rows: i64) -> Result<()> {
        let stream = Stream::current(self.query.device().index);
        let [mut query, mut key, mut value, mut bias, mut grad, mut logs] =
            [at[0], at[1], at[2], at[3], at[4], at[5]];
        let [mut inner, mut out, mut dq, mut dk, mut dv, mut dbias] =
            [at[6], at[7], at[8], at[9], at[10], at[11]];
        let (mut geometry, mut rows) = (self.geometry, rows as u64);
        let of = [Argument::Storage(self.dtype()), Argument::Storage(self.wide_dtype())];
        // SAFETY: the geometry is that of the tensors, which are held; a row is 32 threads'.
        unsafe {
            let parameters = parameters!(geometry, grad, out, inner, rows);
            INNER.launch(&of, Shape::over(rows as i64 * 32), stream, parameters)?;
        }
        let (width, value_width) = (geometry.width, geometry.value_width);
        let (columns, across) = columns_of(width.max(value_width));
        let rows_of = self.row(width.max(8 * columns * across))
            + self.row(value_width.max(8 * columns * across));
        let tiles: &[u32] = if columns > 8 { &[4, 2] } else { &[8, 4, 2] };
        let [warps, tile, shared] = self.tiling(rows_of, rows_of, tiles)?;
        let key_heads = geometry.heads / geometry.shared_by;
        let shape = self.shape(geometry.keys, key_heads, warps, shared, across)?;
        // SAFETY: as above.
        unsafe {
            let parameters =
                parameters!(geometry, query, key, value, bias, grad, logs, inner, dk, dv);
            BACKWARD_KEYS.launch(&self.arguments(tile, columns), shape, stream, parameters)?;
        }
        let (columns, across) = columns_of(width);
        let rows_of = self.row(width.max(8 * columns * across)) + self.row(value_width);
        let [warps, tile, shared] = self.tiling(rows_of, rows_of, tiles)?;
        let shape = self.shape(geometry.queries, geometry.heads, warps, shared, across)?;
        // SAFETY: as above.
        unsafe {
            let parameters =
                parameters!(geometry, query, key, value, bias, grad, logs, inner, dq, dbias);
            BACKWARD_QUERIES.launch(&self.arguments(tile, columns), shape, stream, parameters)
        }
    }
}

/// The least of some counts of eight columns that are enough.
fn eights(columns: u32, counts: &[u32]) -> u32 {
    let enough = counts.iter().find(|&&count| 8 * count >= columns);
    enough.or(counts.last()).copied().unwrap_or(4)
}

/// Eights of columns that a block sums, and how many blocks have all of them.
fn columns_of(width: u32) -> (u32, u32) {
    let columns = eights(width.min(MOST_COLUMNS), &[4, 8, 12, 16]);
    (columns, width.div_ceil(8 * columns))
}

/// What is added to the scores, in the dtype of the operands or float32.
fn expanded(bias: &Tensor, dtype: DType, scores: [i64; 4]) -> Result<Tensor> {
    let bias = match bias.dtype() {
        DType::Bool => {
            let zeros = op::zeros_like(bias, Some(dtype), None, None, None, None)?;
            let dropped = op::logical_not(bias)?;
            op::masked_fill__scalar(&zeros, &dropped, Scalar::from(f64::NEG_INFINITY))?
        }
        own if own == dtype || own == DType::Float32 => bias.clone(),
        _ => op::to_dtype(bias, dtype, false, false, None)?,
    };
    op::expand(&bias, &scores, false)
}

/// Attention, the logarithms of the softmax sums, and where the random numbers of the dropout begin.
///
/// # Errors
/// `Runtime` for sizes that do not fit, `NotImplemented` for a dtype that is not floating-point.
pub fn efficient_attention(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    attn_bias: Option<&Tensor>,
    _compute_log_sumexp: bool,
    dropout_p: f64,
    is_causal: bool,
    scale: Option<f64>,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    let mut rule = Rule { is_causal, scale, dropout_p, seed: 0, offset: 0 };
    if dropout_p > 0.0 {
        let state =
            reserve(query.device().index, None, (key.size(-2)? as u64).next_multiple_of(4))?;
        (rule.seed, rule.offset) = (state.seed, state.offset);
    }
    let call = Call::of([query, key, value], attn_bias, &rule)?;
    let (q, v) = (query.sizes(), value.sizes());
    // Heads are inside positions, so that they can be joined without a copy.
    let out = empty(&[q[0], q[2], q[1], v[3]], query.dtype(), query)?;
    let out = op::transpose_int(&out, 1, 2)?;
    let logs = empty(&[q[0], q[1], q[2]], call.wide_dtype(), query)?;
    call.forward(&out, &logs)?;
    let number = |number: u64| Scalar::Int(number as i64);
    let [seed, offset] = [rule.seed, rule.offset]
        .map(|value| op::scalar_tensor(number(value), Some(DType::Int64), None, None, None));
    Ok((out, logs, seed?, offset?))
}

/// The gradients of [`efficient_attention`]; that of the bias has the scores' sizes.
///
/// # Errors
/// As for [`efficient_attention`].
pub fn efficient_attention_backward(
    grad_out_: &Tensor,
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    attn_bias: &Tensor,
    out: &Tensor,
    logsumexp: &Tensor,
    philox_seed: &Tensor,
    philox_offset: &Tensor,
    dropout_p: f64,
    grad_input_mask: &[bool],
    is_causal: bool,
    scale: Option<f64>,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    let mut rule = Rule { is_causal, scale, dropout_p, seed: 0, offset: 0 };
    if dropout_p > 0.0 {
        rule.seed = op::item(philox_seed)?.to_i64() as u64;
        rule.offset = op::item(philox_offset)?.to_i64() as u64;
    }
    let call = Call::of([query, key, value], Some(attn_bias), &rule)?;
    ensure!(
        grad_out_.sizes() == out.sizes() && grad_out_.dtype() == query.dtype(),
        Runtime,
        "attention on CUDA: expected a gradient of size {:?} but got {:?}",
        out.sizes().as_slice(),
        grad_out_.sizes().as_slice()
    );
    let needs_bias = grad_input_mask.get(3) == Some(&true);
    let [dq, dk, dv, dbias] = call.backward(grad_out_, out, logsumexp, needs_bias)?;
    Ok((dq, dk, dv, dbias))
}
