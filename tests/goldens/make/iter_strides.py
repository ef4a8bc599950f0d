"""Output strides of elementwise operators in PyTorch, for tests/goldens/iter_strides.bin.

Each case: number of inputs (1 neg, 2 add, 3 addcmul), then for every input and last for the
output: rank, sizes, strides. All numbers are unsigned LEB128.
"""
import pathlib
import random

import torch

CASES = 6000


def layout(shape, rng):
    """A tensor of this shape in a random layout."""
    rank = len(shape)
    kind = rng.random()
    if kind < 0.3 or rank == 0:
        return torch.empty(shape)
    if kind < 0.45 and rank in (4, 5):
        form = torch.channels_last if rank == 4 else torch.channels_last_3d
        return torch.empty(shape, memory_format=form)
    order = list(range(rank))
    rng.shuffle(order)
    steps = [rng.choice((1, 1, 1, 2)) for _ in shape]
    base = torch.empty([shape[d] * steps[d] for d in order])
    view = base.permute([order.index(d) for d in range(rank)])
    for d, step in enumerate(steps):
        view = view[(slice(None),) * d + (slice(None, None, step),)]
    return view


def operand(shape, rng):
    """A tensor that broadcasts to the shape."""
    own = [1 if rng.random() < 0.15 else size for size in shape]
    if rng.random() < 0.2:
        own = own[rng.randint(0, len(own)):]
    if rng.random() < 0.15:
        kept = [1 if rng.random() < 0.5 else size for size in own]
        return layout(kept, rng).expand(own)
    return layout(own, rng)


def leb(number, out):
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)


def main():
    rng = random.Random(20)
    data = bytearray()
    for _ in range(CASES):
        rank = rng.choice((0, 1, 2, 2, 3, 3, 4, 4, 5))
        sizes = (1, 2, 2, 3, 4) if rng.random() < 0.95 else (0, 1, 2, 3)
        shape = [rng.choice(sizes) for _ in range(rank)]
        inputs = [operand(shape, rng) for _ in range(rng.choice((1, 2, 2, 3)))]
        result = (torch.neg, torch.add, torch.addcmul)[len(inputs) - 1](*inputs)
        leb(len(inputs), data)
        for tensor in [*inputs, result]:
            for number in (tensor.dim(), *tensor.shape, *tensor.stride()):
                leb(number, data)
    target = pathlib.Path(__file__).parent.parent / "iter_strides.bin"
    target.write_bytes(bytes(data))
    print(target, len(data), "bytes")


main()
