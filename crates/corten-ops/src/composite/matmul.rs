//! Products of tensors of any rank, from products of matrices and vectors.

use super::support::{requires_grad, type_id_name};
use crate::meta::cpp_name;
use crate::{Tensor, op, opaque};
use corten_core::geometry::{infer_broadcast, wrap_dim};
use corten_core::{Dims, Result, Scalar, bail, ensure};

/// Products of every element of one vector with every element of another.
///
/// # Errors
/// `Runtime` unless both are vectors.
pub fn outer(self_: &Tensor, vec2: &Tensor) -> Result<Tensor> {
    for (tensor, name) in [(self_, "self"), (vec2, "vec2")] {
        ensure!(
            tensor.dim() == 1,
            Runtime,
            "outer: Expected 1-D argument {name}, but got {}-D",
            tensor.dim()
        );
    }
    op::mul_tensor(&op::reshape(self_, &[self_.sizes()[0], 1])?, vec2)
}

/// Sums of products over the last dimension of both tensors.
///
/// # Errors
/// `Runtime` when the last dimensions differ.
pub fn inner(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    if self_.dim() == 0 || other.dim() == 0 {
        return op::mul_tensor(self_, other);
    }
    check_inner(self_, other)?;
    op::tensordot(self_, other, &[-1], &[-1])
}

/// As [`inner`], into `out`.
///
/// # Errors
/// As for [`inner`].
pub fn inner_out(self_: &Tensor, other: &Tensor, out: &Tensor) -> Result<Tensor> {
    if self_.dim() == 0 || other.dim() == 0 {
        return op::mul_out(self_, other, out);
    }
    check_inner(self_, other)?;
    op::tensordot_out(self_, other, &[-1], &[-1], out)
}

fn check_inner(self_: &Tensor, other: &Tensor) -> Result<()> {
    ensure!(
        self_.size(-1)? == other.size(-1)?,
        Runtime,
        "inner() the last dimension must match on both input tensors but got shapes {:?} and {:?}",
        self_.sizes().as_slice(),
        other.sizes().as_slice()
    );
    Ok(())
}

/// The matrix product with PyTorch's rules for ranks.
///
/// # Errors
/// `Runtime` when shapes or dtypes do not fit.
pub fn matmul(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    let (left, right) = (self_.dim(), other.dim());
    ensure!(
        left != 0 && right != 0,
        Runtime,
        "both arguments to matmul need to be at least 1D, but they are {left}D and {right}D"
    );
    match (left, right) {
        (1, 1) => op::dot(self_, other),
        (2, 1) => op::mv(self_, other),
        (1, 2) => op::squeeze__dim(&op::mm(&op::unsqueeze(self_, 0)?, other)?, 0),
        (2, 2) => op::mm(self_, other),
        _ if folds(self_, other) => fold(self_, other),
        _ => batched(self_, other),
    }
}

/// Whether the batch of the larger tensor is folded into the rows of one matrix. That needs a copy
/// unless the batch is dense; with a gradient the copy is cheaper than a batch of gradients of the
/// smaller tensor.
fn folds(self_: &Tensor, other: &Tensor) -> bool {
    let (left, right) = (self_.dim(), other.dim());
    if left.max(right) < 3 || left.min(right) > 2 {
        return false;
    }
    let (large, small) = if left >= right { (self_, other) } else { (other, self_) };
    if requires_grad(small) || opaque::is_opaque(small) {
        return true;
    }
    if left == 2 {
        return false;
    }
    if large.numel() == 0 {
        return true;
    }
    let (mut sizes, mut strides) = (large.sizes(), large.strides());
    if left < right {
        let last = sizes.len() - 1;
        sizes.swap(last - 1, last);
        strides.swap(last - 1, last);
    }
    (0..sizes.len() - 2).all(|d| strides[d] == strides[d + 1] * sizes[d + 1])
}

fn fold(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    let turned = other.dim() > self_.dim();
    let large = if turned { op::transpose_int(other, -2, -1)? } else { self_.clone() };
    let small = match (turned, self_.dim()) {
        (false, _) => other.clone(),
        (true, 2) => op::t(self_)?,
        (true, _) => self_.clone(),
    };
    let sizes = large.sizes();
    let (last, leading) = (sizes[sizes.len() - 1], &sizes[..sizes.len() - 1]);
    let rows = op::reshape(&large, &[leading.iter().product(), last])?;
    let mut shape = Dims::from_slice(leading);
    if small.dim() == 1 {
        return op::_unsafe_view(&op::mv(&rows, &small)?, &shape);
    }
    shape.push(small.sizes()[1]);
    let product = op::_unsafe_view(&op::mm(&rows, &small)?, &shape)?;
    if turned {
        op::contiguous(&op::transpose_int(&product, -2, -1)?, corten_core::MemoryFormat::Contiguous)
    } else {
        Ok(product)
    }
}

fn batched(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    let (left, right) = (self_.sizes(), other.sizes());
    let matrix = |sizes: &Dims| sizes.len().saturating_sub(2);
    let (left_batch, right_batch) = (&left[..matrix(&left)], &right[..matrix(&right)]);
    if left.len() == 3 && right.len() == 3 && left_batch != right_batch {
        // With a gradient, a batch of one is better folded than repeated.
        if left_batch == [1] && requires_grad(self_) {
            return matmul(&op::squeeze_dim(self_, 0)?, other);
        }
        if right_batch == [1] && requires_grad(other) {
            return matmul(self_, &op::squeeze_dim(other, 0)?);
        }
    }
    let rows = if left.len() > 1 { left[left.len() - 2] } else { 1 };
    let inner = left[left.len() - 1];
    let vector = right.len() == 1;
    let (depth, columns) =
        if vector { (right[0], 1) } else { (right[right.len() - 2], right[right.len() - 1]) };
    let mut shape = infer_broadcast(left_batch, right_batch)?;
    let count: i64 = shape.iter().product();
    let with = |tail: &[i64]| {
        let mut sizes = shape.clone();
        sizes.extend_from_slice(tail);
        sizes
    };
    let a = op::expand(self_, &with(&[rows, inner]), false)?;
    let a = op::reshape(&a, &[count, rows, inner])?;
    let product = if vector {
        let b = op::reshape(&op::expand(other, &with(&[depth]), false)?, &[count, depth])?;
        op::squeeze_dim(&op::bmm(&a, &op::unsqueeze(&b, 2)?)?, -1)?
    } else {
        let b = op::expand(other, &with(&[depth, columns]), false)?;
        op::bmm(&a, &op::reshape(&b, &[count, depth, columns])?)?
    };
    if left.len() > 1 {
        shape.push(rows);
    }
    if !vector {
        shape.push(columns);
    }
    op::_unsafe_view(&product, &shape)
}

/// `input @ weight.T + bias`.
///
/// # Errors
/// `Runtime` when shapes or dtypes do not fit.
pub fn linear(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let (rank, weight_rank) = (input.dim(), weight.dim());
    ensure!(
        rank != 0 && weight_rank != 0,
        Runtime,
        "both arguments to linear need to be at least 1D, but they are {rank}D and {weight_rank}D"
    );
    if opaque::is_opaque(weight) || opaque::is_opaque(input) {
        return op::mkldnn_linear(input, weight, bias);
    }
    let one = Scalar::Int(1);
    let Some(bias) = super::support::defined(bias) else {
        return op::matmul(input, &op::t(weight)?);
    };
    if rank == 2 {
        return op::addmm(bias, input, &op::t(weight)?, one, one);
    }
    if input.is_contiguous() && bias.dim() == 1 {
        let sizes = input.sizes();
        let (last, leading) = (sizes[rank - 1], &sizes[..rank - 1]);
        let rows = op::view(input, &[leading.iter().product(), last])?;
        let product = op::addmm(bias, &rows, &op::t(weight)?, one, one)?;
        let mut shape = Dims::from_slice(leading);
        shape.push(product.sizes()[1]);
        return op::_unsafe_view(&product, &shape);
    }
    let product = op::matmul(input, &op::t(weight)?)?;
    op::add__tensor(&product, bias, one)
}

/// For every output feature $k$ the form $x_1^\top W_k x_2 + b_k$.
///
/// # Errors
/// `Runtime` when shapes do not fit.
pub fn bilinear(
    input1: &Tensor,
    input2: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    let bias = super::support::defined(bias);
    check_bilinear(input1, input2, weight, bias)?;
    let (sizes1, sizes2, form) = (input1.sizes(), input2.sizes(), weight.sizes());
    let mut shape = Dims::from_slice(&sizes1[..sizes1.len() - 1]);
    let count: i64 = shape.iter().product();
    let [features, first, second] = [form[0], form[1], form[2]];
    let x1 = op::reshape(input1, &[count, sizes1[sizes1.len() - 1]])?;
    let x2 = op::reshape(input2, &[count, sizes2[sizes2.len() - 1], 1])?;
    // (first, features * second), so that one product of matrices applies every form to x1.
    let forms = op::reshape(&op::permute(weight, &[1, 0, 2])?, &[first, features * second])?;
    let half = op::reshape(&op::mm(&x1, &forms)?, &[count, features, second])?;
    shape.push(features);
    let out = op::reshape(&op::bmm(&half, &x2)?, &shape)?;
    match bias {
        Some(bias) => op::add_tensor(&out, bias, Scalar::Int(1)),
        None => Ok(out),
    }
}

fn check_bilinear(
    input1: &Tensor,
    input2: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
) -> Result<()> {
    ensure!(
        input1.dim() == input2.dim(),
        Runtime,
        "bilinear(): input dimensions do not match: got {} and {}",
        input1.dim(),
        input2.dim()
    );
    ensure!(
        input1.dim() > 0 && weight.dim() == 3,
        Runtime,
        "bilinear(): expected inputs of at least one dimension and a weight of three"
    );
    let (sizes1, sizes2, form) = (input1.sizes(), input2.sizes(), weight.sizes());
    let last = sizes1.len() - 1;
    for dim in 0..last {
        ensure!(
            sizes1[dim] == sizes2[dim],
            Runtime,
            "bilinear(): input batch dimensions do not match at dim {dim}: got {} and {}",
            sizes1[dim],
            sizes2[dim]
        );
    }
    for (number, size) in [(1, sizes1[last]), (2, sizes2[last])] {
        ensure!(
            size == form[number],
            Runtime,
            "bilinear(): input{number} size does not match weight size: got {size} but expected {}",
            form[number]
        );
    }
    ensure!(
        bias.is_none_or(|bias| bias.sizes().as_slice() == [form[0]]),
        Runtime,
        "bilinear(): bias size does not match weight size: got {:?} but expected {}",
        bias.map(|bias| bias.sizes().to_vec()),
        form[0]
    );
    let dtypes = [input1, input2, weight].map(|tensor| tensor.dtype());
    let [first, second, third] = dtypes.map(type_id_name);
    let bias = bias.map(|bias| bias.dtype());
    ensure!(
        dtypes[1..].iter().chain(&bias).all(|dtype| *dtype == dtypes[0]),
        Runtime,
        "All tensors must have the same dtype, got input1: {first}, input2: {second}, weight: {third}{}",
        bias.map(|bias| format!(", bias: {}", type_id_name(bias))).unwrap_or_default()
    );
    Ok(())
}

/// Sums of products along one dimension, the first tensor conjugated.
///
/// # Errors
/// `NotImplemented` for integers, `Runtime` when shapes do not broadcast.
pub fn linalg_vecdot(x: &Tensor, y: &Tensor, dim: i64) -> Result<Tensor> {
    for tensor in [x, y] {
        let dtype = tensor.dtype();
        ensure!(
            dtype.is_floating_point() || dtype.is_complex(),
            NotImplemented,
            "linalg.vecdot: Expected a floating point or complex tensor as input. Got {}",
            dtype.type_name()
        );
    }
    if x.dim() == 1 && y.dim() == 1 && x.dtype() == y.dtype() {
        return op::vdot(x, y);
    }
    let x = if x.dtype().is_complex() { op::conj(x)? } else { x.clone() };
    op::sum_dim_intlist(&op::mul_tensor(&x, y)?, Some(&[dim]), false, None)
}

/// Sums of products over the paired dimensions of two tensors.
///
/// # Errors
/// `Runtime` when paired dimensions differ in size.
pub fn tensordot(
    self_: &Tensor,
    other: &Tensor,
    dims_self: &[i64],
    dims_other: &[i64],
) -> Result<Tensor> {
    ensure!(
        dims_self.len() == dims_other.len(),
        Runtime,
        "both dimension lists should have same length"
    );
    ensure!(self_.dtype() == other.dtype(), Runtime, "both inputs should have same dtype");
    let (mut a, mut b) = (self_.clone(), other.clone());
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for (&given1, &given2) in dims_self.iter().zip(dims_other) {
        let (d1, d2) = (wrap_dim(given1, self_.dim())?, wrap_dim(given2, other.dim())?);
        let (size1, size2) = (size_at(self_, d1), size_at(other, d2));
        // A dimension of size 1 broadcasts: the other one is summed first.
        match (size1, size2) {
            (1, size) if size != 1 => {
                b = op::sum_dim_intlist(&b, Some(&[d2 as i64]), true, Some(b.dtype()))?
            }
            (size, 1) if size != 1 => {
                a = op::sum_dim_intlist(&a, Some(&[d1 as i64]), true, Some(a.dtype()))?
            }
            _ => ensure!(
                size1 == size2,
                Runtime,
                "contracted dimensions need to match, but first has size {size1} in dim {given1} \
                 and second has size {size2} in dim {given2}"
            ),
        }
        left.push(d1);
        right.push(d2);
    }
    let kept =
        |rank: usize, used: &[usize]| (0..rank).filter(|d| !used.contains(d)).collect::<Vec<_>>();
    let (left_kept, right_kept) = (kept(a.dim(), &left), kept(b.dim(), &right));
    let product =
        |tensor: &Tensor, dims: &[usize]| dims.iter().map(|&d| size_at(tensor, d)).product::<i64>();
    let order = |first: &[usize], second: &[usize]| {
        first.iter().chain(second).map(|&d| d as i64).collect::<Vec<_>>()
    };
    let (rows, depth, columns) =
        (product(&a, &left_kept), product(&a, &left), product(&b, &right_kept));
    let mut shape: Dims = left_kept.iter().map(|&d| size_at(&a, d)).collect();
    shape.extend(right_kept.iter().map(|&d| size_at(&b, d)));
    let a = op::reshape(&op::permute(&a, &order(&left_kept, &left))?, &[rows, depth])?;
    let b = op::reshape(&op::permute(&b, &order(&right, &right_kept))?, &[depth, columns])?;
    op::reshape(&op::mm(&a, &b)?, &shape)
}

/// The size of a dimension; a rank-0 tensor counts as one of size 1.
fn size_at(tensor: &Tensor, dim: usize) -> i64 {
    tensor.sizes().get(dim).copied().unwrap_or(1)
}

/// Product of a chain of matrices.
///
/// # Errors
/// `Runtime` unless all are matrices that fit.
pub fn chain_matmul(matrices: &[Tensor]) -> Result<Tensor> {
    for matrix in matrices {
        ensure!(
            matrix.dim() == 2,
            Runtime,
            "Tensor dimension is {}, expected 2 instead.",
            matrix.dim()
        );
    }
    match matrices {
        [] => bail!(Runtime, "chain_matmul(): Expected one or more matrices"),
        [only] => op::clone(only, None),
        _ => op::linalg_multi_dot(matrices),
    }
}

/// Product of a chain of matrices in the cheapest order; the ends may be vectors.
///
/// # Errors
/// `Runtime` when ranks or shapes do not fit.
pub fn linalg_multi_dot(tensors: &[Tensor]) -> Result<Tensor> {
    let count = tensors.len();
    ensure!(count >= 2, Runtime, "multi_dot(): expected at least 2 tensors but got {count}");
    let mut chain = tensors.to_vec();
    let mut shape = Dims::new();
    for (end, name, dim) in [(0, "first", 0), (count - 1, "last", 1)] {
        let rank = chain[end].dim();
        ensure!(
            rank == 1 || rank == 2,
            Runtime,
            "multi_dot(): the {name} tensor must be 1D or 2D but got {rank}D"
        );
        if rank == 1 {
            chain[end] = op::unsqueeze(&chain[end], if end == 0 { 0 } else { -1 })?;
        } else {
            shape.push(chain[end].sizes()[dim]);
        }
    }
    for (place, matrix) in chain.iter().enumerate() {
        ensure!(
            matrix.dim() == 2,
            Runtime,
            "multi_dot(): tensor {place} must be 2D but got {}D",
            matrix.dim()
        );
        check_alike(&chain[0], matrix, place)?;
    }
    for (place, pair) in chain.windows(2).enumerate() {
        let (a, b) = (pair[0].sizes(), pair[1].sizes());
        ensure!(
            a[1] == b[0],
            Runtime,
            "multi_dot(): tensors {place} and {} with shapes {:?} and {:?} cannot be multiplied",
            place + 1,
            a.as_slice(),
            b.as_slice()
        );
    }
    let product = multiply_chain(&chain, &cheapest_order(&chain), 0, count - 1)?;
    op::view(&product, &shape)
}

/// The matrices of a chain have one dtype and one device.
fn check_alike(first: &Tensor, matrix: &Tensor, place: usize) -> Result<()> {
    ensure!(
        first.device() == matrix.device(),
        Runtime,
        "multi_dot(): all tensors must be on the same device but tensor 0 is on {} and tensor \
         {place} on {}",
        first.device(),
        matrix.device()
    );
    ensure!(
        first.dtype() == matrix.dtype(),
        Runtime,
        "multi_dot(): all tensors must have be the same dtype but tensor 0 is {} and tensor {place} \
         {}",
        cpp_name(first.dtype()),
        cpp_name(matrix.dtype())
    );
    Ok(())
}

/// For every span of the chain the place of its last product (dynamic programming).
fn cheapest_order(chain: &[Tensor]) -> Vec<Vec<usize>> {
    let count = chain.len();
    let mut sizes: Vec<i64> = chain.iter().map(|matrix| matrix.sizes()[0]).collect();
    sizes.push(chain[count - 1].sizes()[1]);
    // Bounded: pairs of matrices.
    let mut costs = vec![vec![0i64; count]; count];
    // Bounded: pairs of matrices.
    let mut splits = vec![vec![0; count]; count];
    for span in 1..count {
        for first in 0..count - span {
            let last = first + span;
            let cost = |split: usize| {
                let product = sizes[first] * sizes[split + 1] * sizes[last + 1];
                costs[first][split] + costs[split + 1][last] + product
            };
            let best = (first..last).min_by_key(|&split| cost(split)).unwrap_or(first);
            (costs[first][last], splits[first][last]) = (cost(best), best);
        }
    }
    splits
}

fn multiply_chain(
    chain: &[Tensor],
    splits: &[Vec<usize>],
    first: usize,
    last: usize,
) -> Result<Tensor> {
    if first == last {
        return Ok(chain[first].clone());
    }
    let split = splits[first][last];
    let left = multiply_chain(chain, splits, first, split)?;
    op::mm(&left, &multiply_chain(chain, splits, split + 1, last)?)
}
