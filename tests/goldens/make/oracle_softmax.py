"""tests/goldens/oracle/softmax.txt"""
import torch

from oracle import write

KINDS = (torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64,
         torch.bool)
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def plain(m):
    x = m.tensor(dtype=m.dtype(KINDS))
    dtype = m.rng.choice((None, None, torch.float32, torch.float64))
    return [x, m.dim(x.dim()), dtype]


def kernel(m):
    x = m.tensor(dtype=m.dtype(KINDS))
    return [x, m.dim(x.dim()), False]


def long_rows(m):
    x = m.tensor(m.rng.choice(((2, 37), (19, 2), (1, 70), (2, 17, 2))), m.dtype(FLOATS))
    return [x, m.dim(x.dim()), False]


def backward(m):
    sizes = m.sizes()
    dtype = m.dtype(FLOATS)
    grad, out = m.tensor(sizes, dtype), m.tensor(sizes, dtype)
    return [grad, out, m.dim(len(sizes)), dtype]


def log_backward(m):
    grad, out, dim, dtype = backward(m)
    return [grad, (out / 8).contiguous().clone(), dim, dtype]


def masked(m):
    x = m.tensor(dtype=m.dtype(FLOATS)).contiguous().clone()
    if x.dim() and m.rng.random() < 0.5:
        x = x.masked_fill(x < 3, float("-inf"))
    return [x, m.dim(x.dim()), None]


write("softmax", [
    ("softmax.int", plain), ("log_softmax.int", plain), ("_softmax", kernel),
    ("_log_softmax", kernel), ("_softmax", long_rows), ("_log_softmax", long_rows),
    ("_softmax_backward_data", backward), ("_log_softmax_backward_data", log_backward),
    ("_safe_softmax", masked), ("_softmax", masked_kernel := lambda m: [*masked(m)[:2], False]),
    ("_log_softmax", masked_kernel),
], per_case=30)
