"""tests/goldens/oracle/attention.txt"""
import torch

from oracle import write

KINDS = (torch.float32, torch.float32, torch.float64, torch.bfloat16)


def small(m, sizes, dtype):
    """Numbers small enough for a softmax that is not one-hot."""
    tensor = m.tensor(sizes, dtype)
    return tensor if m.rng.random() < 0.3 else (tensor / 8).contiguous().clone()


def shapes(m, rank):
    lead = [m.rng.randint(1, 2) for _ in range(rank - 2)]
    queries, keys, width = m.rng.randint(1, 4), m.rng.randint(1, 5), m.rng.randint(1, 4)
    return lead, queries, keys, width


def mask(m, lead, queries, keys, dtype):
    if m.rng.random() < 0.5:
        return None
    sizes = m.rng.choice(((queries, keys), (1, keys), (queries, 1), (*lead, queries, keys)))
    if m.rng.random() < 0.5:
        return m.tensor(sizes, torch.bool)
    return m.tensor(sizes, dtype)


def attention(m):
    rank = m.rng.choice((2, 3, 4, 4, 4))
    lead, queries, keys, width = shapes(m, rank)
    dtype = m.dtype(KINDS)
    values = width if m.rng.random() < 0.8 else width + 1
    q, k, v = (small(m, (*lead, *s), dtype) for s in ((queries, width), (keys, width), (keys, values)))
    bias = mask(m, lead, queries, keys, dtype)
    causal = bias is None and m.rng.random() < 0.4
    return [q, k, v, bias, 0.0, causal]


def math(m):
    return attention(m)


def flash(m):
    lead, queries, keys, width = shapes(m, 4)
    dtype = m.dtype(KINDS)
    q, k, v = (small(m, (*lead, *s), dtype) for s in ((queries, width), (keys, width), (keys, width)))
    return [q, k, v, 0.0, m.rng.random() < 0.4]


write("attention", [
    ("scaled_dot_product_attention", attention), ("_scaled_dot_product_attention_math", math),
], per_case=80)
