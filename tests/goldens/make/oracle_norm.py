"""tests/goldens/oracle/norm.txt"""
import torch

from oracle import write
from oracle_pool_images import image

KINDS = (torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16)


def parameters(m, size, dtype, count, absent=0.3):
    """Parameters of one dtype, each maybe absent."""
    if dtype in (torch.bfloat16, torch.float16):
        dtype = m.rng.choice((dtype, torch.float32))
    return [None if m.rng.random() < absent else
            m.tensor([size] if isinstance(size, int) else size, dtype) for _ in range(count)]


def batch(m):
    x = image(m, m.rng.choice((0, 1, 2, 2, 3)), KINDS)
    if x.dim() < 2:
        raise ValueError("PyTorch reads beyond the sizes")
    c = x.shape[1]
    weight, bias = parameters(m, c, x.dtype, 2)
    if x.dtype in (torch.bfloat16, torch.float16):
        # Statistics in half precision cost PyTorch more digits than a tolerance should forgive.
        weight, bias = m.tensor((c,), torch.float32), m.tensor((c,), torch.float32)
    stats = weight if weight is not None else bias
    dtype = x.dtype if stats is None else stats.dtype
    training = m.rng.random() < 0.6
    mean, var = (None, None)
    if not training or m.rng.random() < 0.5:
        mean, var = m.tensor((c,), dtype), m.tensor((c,), dtype).abs().contiguous().clone() + 1
    return x, weight, bias, mean, var, training


def batch_norm(m):
    x, *rest, training = batch(m)
    return [x, *rest, training, 0.25, 1e-5, False]


def native_batch_norm(m):
    x, *rest, training = batch(m)
    return [x, *rest, training, 0.25, 1e-5]


def batch_backward(m):
    x, weight, bias, mean, var, training = batch(m)
    if x.numel() == 0:
        raise ValueError("PyTorch divides by zero")
    out, save_mean, save_invstd = torch.native_batch_norm(x, weight, bias, mean, var, training, 0, 1e-5)
    grad = m.tensor(out.shape, x.dtype)
    mask = [True] * 3 if m.rng.random() < 0.7 else [m.rng.random() < 0.5 for _ in range(3)]
    return [grad, x, weight, mean, var, save_mean, save_invstd, training, 1e-5, mask]


def row(m):
    shape = m.sizes(m.rng.randint(1, 3))
    x = m.tensor(shape, m.dtype(KINDS))
    count = m.rng.randint(1, len(shape))
    normalized = shape[len(shape) - count:]
    if m.rng.random() < 0.04:
        normalized = [n + 1 for n in normalized]
    return x, normalized


def layer_norm(m):
    x, shape = row(m)
    return [x, shape, *parameters(m, shape, x.dtype, 2), 0.1]


def layer_backward(m):
    x, shape, weight, bias, eps = layer_norm(m)
    out, mean, rstd = torch.native_layer_norm(x, shape, weight, bias, eps)
    grad = m.tensor(out.shape, x.dtype)
    mask = [True, weight is not None, bias is not None]
    return [grad, x, shape, mean, rstd, weight, bias, mask]


def rms_norm(m):
    x, shape = row(m)
    return [x, shape, *parameters(m, shape, x.dtype, 1), m.rng.choice((None, 1e-5, 0.1))]


def grouped(m):
    groups = m.rng.randint(1, 3)
    c = groups * m.rng.randint(1, 2)
    shape = [m.rng.randint(0 if m.rng.random() < 0.1 else 1, 3), c]
    shape += [m.rng.randint(1, 3) for _ in range(m.rng.randint(0, 2))]
    x = image(m, len(shape) - 2, KINDS, shape)
    if m.rng.random() < 0.04:
        groups += 1
    return x, groups, *parameters(m, c, x.dtype, 2)


def group_norm(m):
    x, groups, weight, bias = grouped(m)
    return [x, groups, weight, bias, 0.1]


def native_group_norm(m):
    x, groups, weight, bias = grouped(m)
    n, c = x.shape[:2]
    if n == 0 or c % groups:
        raise ValueError("PyTorch divides by zero")
    return [x, weight, bias, n, c, x[0, 0].numel() if n else 1, groups, 0.1]


def group_backward(m):
    x, weight, bias, n, c, plane, groups, eps = native_group_norm(m)
    out, mean, rstd = torch.native_group_norm(x, weight, bias, n, c, plane, groups, eps)
    if weight is None and mean.dtype != x.dtype:
        raise ValueError("PyTorch forgets the mixed types")
    grad = m.tensor(out.shape, x.dtype)
    return [grad, x, mean, rstd, weight, n, c, plane, groups, [True] * 3]


def instance_norm(m):
    x = image(m, m.rng.choice((1, 2, 3)), (torch.float32, torch.float64))
    if x.numel() == 0:
        raise ValueError("PyTorch selects from nothing")
    c = x.shape[1]
    dtype = x.dtype
    weight, bias = parameters(m, c, dtype, 2)
    if weight is not None and bias is not None and weight.dtype != dtype:
        dtype = weight.dtype
    mean = var = None
    if m.rng.random() < 0.3 and weight is None and bias is None:
        mean, var = m.tensor((c,), dtype), m.tensor((c,), dtype).abs().contiguous().clone() + 1
    use = mean is None or m.rng.random() < 0.6
    return [x, weight, bias, mean, var, use, 0.25, 0.1, False]


write("norm", [
    ("batch_norm", batch_norm), ("native_batch_norm", native_batch_norm),
    ("native_batch_norm_backward", batch_backward), ("native_layer_norm", layer_norm),
    ("layer_norm", layer_norm), ("native_layer_norm_backward", layer_backward),
    ("rms_norm", rms_norm), ("group_norm", group_norm), ("native_group_norm", native_group_norm),
    ("native_group_norm_backward", group_backward), ("instance_norm", instance_norm),
], per_case=30)
