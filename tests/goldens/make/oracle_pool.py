"""tests/goldens/oracle/pool.txt"""
import torch

from oracle import write
from oracle_pool_images import image

KINDS = (torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64,
         torch.int32, torch.uint8)
FLOATS = (torch.float32, torch.float64, torch.bfloat16)


def numbers(m, rank, pick):
    if m.rng.random() < 0.25:
        return [m.rng.choice(pick)]
    return [m.rng.choice(pick) for _ in range(rank if m.rng.random() < 0.97 else rank + 1)]


def windows(m, rank, dilated):
    kernel = numbers(m, rank, (1, 2, 2, 3))
    stride = m.rng.choice(([], numbers(m, rank, (1, 2, 2, 3))))
    padding = numbers(m, rank, (0, 0, 0, 1))
    args = [kernel, stride, padding]
    if dilated:
        args.append(numbers(m, rank, (1, 1, 2)))
    if m.rng.random() < 0.04:
        broken = m.rng.choice([a for a in args if a])
        broken[0] = m.rng.choice((0, -1, 4))
    return [*args, m.rng.random() < 0.4]


def max_pool(rank, kinds=KINDS):
    return lambda m: [image(m, rank, kinds), *windows(m, rank, True)]


def avg_pool(rank):
    def generate(m):
        args = [image(m, rank, KINDS), *windows(m, rank, False), m.rng.random() < 0.5]
        return args if rank == 1 else [*args, m.rng.choice((None, None, 3, 0))]
    return generate


def max_backward(rank):
    def generate(m):
        x, args = image(m, rank, FLOATS), windows(m, rank, True)
        op = getattr(torch.ops.aten, f"max_pool{rank}d_with_indices")
        out, indices = op(x, *args)
        grad = image(m, rank, sizes=list(out.shape), dtype=x.dtype)
        return [grad, x, *args, indices.contiguous()]
    return generate


def avg_backward(rank):
    def generate(m):
        x, args = image(m, rank, FLOATS), windows(m, rank, False)
        args += [m.rng.random() < 0.5, m.rng.choice((None, None, 3))]
        out = getattr(torch.ops.aten, f"avg_pool{rank}d")(x, *args)
        return [image(m, rank, sizes=list(out.shape), dtype=x.dtype), x, *args]
    return generate


def adaptive(rank, kinds=FLOATS):
    def generate(m):
        length = rank if m.rng.random() < 0.97 else rank + 1
        return [image(m, rank, kinds), [m.rng.randint(0 if m.rng.random() < .1 else 1, 4) for _ in range(length)]]
    return generate


def adaptive_backward(rank, kind):
    def generate(m):
        x, sizes = adaptive(rank)(m)
        op = getattr(torch.ops.aten, ("_" if kind == "avg" else "") + f"adaptive_{kind}_pool{rank}d")
        out = op(x, sizes)
        first = out if kind == "avg" else out[0]
        args = [image(m, rank, sizes=list(first.shape), dtype=x.dtype), x]
        return args if kind == "avg" else [*args, out[1].contiguous()]
    return generate


write("pool", [
    ("max_pool1d", max_pool(1, FLOATS)), ("max_pool1d_with_indices", max_pool(1, FLOATS)),
    ("max_pool2d", max_pool(2)), ("max_pool3d", max_pool(3)),
    ("max_pool2d_with_indices", max_pool(2)), ("max_pool3d_with_indices", max_pool(3)),
    ("max_pool2d_with_indices_backward", max_backward(2)),
    ("max_pool3d_with_indices_backward", max_backward(3)),
    ("avg_pool1d", avg_pool(1)), ("avg_pool2d", avg_pool(2)), ("avg_pool3d", avg_pool(3)),
    ("avg_pool2d_backward", avg_backward(2)), ("avg_pool3d_backward", avg_backward(3)),
    ("adaptive_avg_pool1d", adaptive(1)), ("adaptive_avg_pool2d", adaptive(2)),
    ("adaptive_avg_pool3d", adaptive(3)), ("_adaptive_avg_pool2d", adaptive(2)),
    ("_adaptive_avg_pool3d", adaptive(3)), ("adaptive_max_pool1d", adaptive(1)),
    ("adaptive_max_pool2d", adaptive(2)), ("adaptive_max_pool3d", adaptive(3)),
    ("_adaptive_avg_pool2d_backward", adaptive_backward(2, "avg")),
    ("_adaptive_avg_pool3d_backward", adaptive_backward(3, "avg")),
    ("adaptive_max_pool2d_backward", adaptive_backward(2, "max")),
    ("adaptive_max_pool3d_backward", adaptive_backward(3, "max")),
], per_case=30)
