"""tests/goldens/oracle/conv.txt"""
import torch

from oracle import storage_values, write

KINDS = (torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16)


def image(m, sizes, dtype):
    """A batch of images, sometimes with the channels last in memory."""
    sizes = list(sizes)
    if len(sizes) == 4 and m.rng.random() < 0.35 and 0 not in sizes:
        n, c, h, w = sizes
        flat = storage_values(dtype, n * c * h * w)
        return flat.as_strided(sizes, (h * w * c, 1, w * c, c))
    return m.tensor(sizes, dtype)


def numbers(m, rank, pick):
    if m.rng.random() < 0.25:
        return [m.rng.choice(pick)]
    return [m.rng.choice(pick) for _ in range(rank)]


class Case:
    """Arguments of a convolution that fit, or nearly."""

    def __init__(self, m, rank, transposed, kinds=KINDS):
        self.groups = m.rng.choice((1, 1, 1, 2, 3))
        depthwise = m.rng.random() < 0.2
        cin = 1 if depthwise else m.rng.randint(1, 2)
        cout = m.rng.randint(1, 2)
        n = m.rng.choice((1, 2, 2))
        kernel = [m.rng.randint(1, 3) for _ in range(rank)]
        space = [m.rng.randint(2 if rank < 3 else 1, 5 if rank < 3 else 3) for _ in range(rank)]
        dtype = m.dtype(kinds)
        channels = cin * self.groups
        if m.rng.random() < 0.04:
            channels += 1
        self.input = image(m, (n, channels, *space), dtype)
        shape = ((cin * self.groups, cout) if transposed else (cout * self.groups, cin))
        self.weight = image(m, (*shape, *kernel), dtype if m.rng.random() < 0.97 else torch.float64)
        bias = cout * self.groups + (1 if m.rng.random() < 0.03 else 0)
        self.bias = m.rng.choice((None, m.tensor((bias,), dtype)))
        self.stride = numbers(m, rank, (1, 1, 2, 2, 3))
        self.padding = numbers(m, rank, (0, 0, 1, 2))
        self.dilation = numbers(m, rank, (1, 1, 1, 2))
        self.output_padding = numbers(m, rank, (0, 0, 0, 1)) if transposed else [0] * rank
        if m.rng.random() < 0.04:
            m.rng.choice((self.stride, self.padding))[0] = -1
        self.transposed = transposed

    def unbatched(self, m):
        if m.rng.random() < 0.25 and self.input.shape[0] == 1:
            self.input = self.input.select(0, 0).clone(memory_format=torch.contiguous_format)
        return self


def convolution(m):
    c = Case(m, m.rng.choice((1, 2, 2, 2, 3)), m.rng.random() < 0.4)
    return [c.input, c.weight, c.bias, c.stride, c.padding, c.dilation, c.transposed,
            c.output_padding, c.groups]


def integers(m):
    c = Case(m, m.rng.choice((1, 2)), False, (torch.int64, torch.int32))
    return [c.input, c.weight, c.bias, c.stride, c.padding, [1], False,
            c.output_padding, c.groups]


def backward(m):
    c = Case(m, m.rng.choice((1, 2, 2, 2, 3)), m.rng.random() < 0.4,
             (torch.float32, torch.float64, torch.bfloat16))
    out = torch.convolution(c.input, c.weight, None, c.stride, c.padding, c.dilation, c.transposed,
                            c.output_padding, c.groups)
    grad = image(m, out.shape, out.dtype)
    mask = [True, True, True]
    return [grad, c.input, c.weight, [out.shape[1]], c.stride, c.padding, c.dilation, c.transposed,
            c.output_padding, c.groups, mask]


def plain(rank):
    def generate(m):
        c = Case(m, rank, False, KINDS + (torch.complex64,)).unbatched(m)
        return [c.input, c.weight, c.bias, c.stride, c.padding, c.dilation, c.groups]
    return generate


def named(rank):
    def generate(m):
        c = Case(m, rank, False, (torch.float32,)).unbatched(m)
        stride = c.stride if m.rng.random() < 0.2 else [1]
        padding = m.rng.choice(("same", "same", "valid", "none"))
        return [c.input, c.weight, c.bias, stride, padding, c.dilation, c.groups]
    return generate


def transposed(rank):
    def generate(m):
        c = Case(m, rank, True).unbatched(m)
        probe = torch.ops.aten.convolution(
            c.input.double() if c.input.dim() == rank + 2 else c.input[None].double(), c.weight.double(),
            None, c.stride, c.padding, c.dilation, True, c.output_padding, c.groups)
        if probe.numel() == 0:
            raise ValueError("PyTorch's backends differ")
        return [c.input, c.weight, c.bias, c.stride, c.padding, c.output_padding, c.groups,
                c.dilation]
    return generate


def block(m):
    return [numbers(m, 2, (1, 2, 2, 3)), numbers(m, 2, (1, 1, 2)), numbers(m, 2, (0, 0, 1)),
            numbers(m, 2, (1, 1, 2))]


def im2col(m):
    sizes = [m.rng.randint(1, 2), m.rng.randint(1, 2), m.rng.randint(2, 5), m.rng.randint(2, 5)]
    tensor = m.tensor(sizes[m.rng.choice((0, 0, 1)):], m.dtype(KINDS + (torch.complex64,)))
    return [tensor, *block(m)]


def col2im(m):
    sizes = [m.rng.randint(1, 2), m.rng.randint(1, 2), m.rng.randint(2, 5), m.rng.randint(2, 5)]
    numbers = block(m)
    columns = torch.ops.aten.im2col(torch.zeros(sizes), *numbers)
    shape = list(columns.shape)
    if m.rng.random() < 0.08:
        shape[m.rng.choice((1, 2))] += 1
    tensor = m.tensor(shape, m.dtype(KINDS + (torch.complex64,)))
    return [tensor, sizes[2:], *numbers]


write("conv", [
    ("convolution", convolution), ("convolution", integers), ("convolution_backward", backward),
    ("conv1d", plain(1)), ("conv2d", plain(2)), ("conv3d", plain(3)), ("conv1d.padding", named(1)),
    ("conv2d.padding", named(2)), ("conv3d.padding", named(3)),
    ("conv_transpose1d", transposed(1)), ("conv_transpose2d.input", transposed(2)),
    ("conv_transpose3d.input", transposed(3)), ("im2col", im2col), ("col2im", col2im),
], per_case=40)
