"""Random programs over tensors: views, in-place calls, control flow on values, random numbers and gradients.

A program is a list of steps that is drawn once; running it twice from the same seed does the same calls.
"""

import random

from module_under_test import torch

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "uint8", "bool")

UNARY = ("relu", "tanh", "sigmoid", "exp", "neg", "abs", "sin", "square", "sqrt", "erf", "floor", "sign")
BINARY = ("add", "sub", "mul", "maximum", "minimum", "atan2", "div")
COMPARE = ("eq", "lt", "ge", "ne")
REDUCE = ("sum", "mean", "amax", "amin", "prod", "logsumexp", "cumsum", "softmax", "log_softmax", "argmax", "std")
INPLACE = ("relu_", "mul_", "add_", "zero_", "fill_", "sub_", "tanh_", "copy_", "clamp_", "neg_")


class Machine:
    """Runs the steps of one program over its values."""

    def __init__(self, seed, grads, sizes=(1, 2, 3, 4, 5), largest=4096):
        self.draw = random.Random(seed)
        self.largest = largest
        self.grads = grads
        generator = torch.Generator().manual_seed(seed)
        self.values = []
        for number in range(self.draw.randint(2, 4)):
            dtype = getattr(torch, self.draw.choice(FLOATS if self.draw.random() < 0.8 else INTEGERS))
            shape = [self.draw.choice(sizes) for _ in range(self.draw.randint(0, 3))]
            value = torch.randn(shape, generator=generator) * 2
            value = value.abs().to(dtype) if dtype == torch.uint8 else value.to(dtype)
            if grads and dtype.is_floating_point:
                value = value.requires_grad_()
            self.values.append(value)
        self.inputs = list(self.values)
        self.seen = []

    def pick(self):
        return self.draw.choice(self.values[-6:])

    def keep(self, value):
        if isinstance(value, (tuple, list)):
            value = value[0]
        if isinstance(value, torch.Tensor) and value.numel() <= self.largest:
            self.values.append(value)

    def run(self, length):
        for _ in range(length):
            step = self.draw.choice(STEPS)
            state = self.draw.getstate()
            try:
                step(self)
            except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError) as error:
                self.seen.append(type(error).__name__)
            # Both runs draw the same numbers, whatever failed.
            self.draw.setstate(state)
            self.draw.random()
        return self

    def backward(self):
        total = None
        for value in self.values:
            if value.requires_grad and value.dtype.is_floating_point:
                part = value.double().sum()
                total = part if total is None else total + part
        if total is None:
            return []
        try:
            total.backward()
        except RuntimeError as error:
            return [type(error).__name__]
        return [value.grad for value in self.inputs if value.is_leaf]


def unary(m):
    m.keep(getattr(torch, m.draw.choice(UNARY))(m.pick()))


def binary(m):
    m.keep(getattr(torch, m.draw.choice(BINARY))(m.pick(), m.pick()))


def scalar(m):
    value, number = m.pick(), m.draw.choice((2, 0.5, -1, 3))
    kind = m.draw.randrange(5)
    m.keep((lambda: value + number, lambda: number - value, lambda: value * number,
            lambda: value / number, lambda: value ** 2)[kind]())


def compare(m):
    m.keep(getattr(torch, m.draw.choice(COMPARE))(m.pick(), m.pick()))


def where(m):
    a, b = m.pick(), m.pick()
    m.keep(torch.where(a > 0, a, b))


def reduce(m):
    value, name = m.pick(), m.draw.choice(REDUCE)
    dim = m.draw.randint(-value.dim(), max(value.dim() - 1, 0)) if value.dim() else 0
    m.keep(getattr(torch, name)(value, dim))


def whole(m):
    m.keep(getattr(m.pick(), m.draw.choice(("sum", "mean", "max", "clone", "contiguous", "norm")))())


def view(m):
    value, kind = m.pick(), m.draw.randrange(8)
    dims = value.dim()
    if kind == 0:
        m.keep(value.t() if dims == 2 else value.reshape(-1))
    elif kind == 1 and dims:
        dim = m.draw.randrange(dims)
        m.keep(value.select(dim, m.draw.randrange(value.size(dim))))
    elif kind == 2 and dims:
        dim = m.draw.randrange(dims)
        m.keep(value.narrow(dim, 0, m.draw.randint(1, value.size(dim))))
    elif kind == 3:
        m.keep(value.unsqueeze(m.draw.randint(0, dims)))
    elif kind == 4:
        m.keep(value.expand(2, *value.shape))
    elif kind == 5:
        m.keep(value.flatten())
    elif kind == 6:
        m.keep(value.permute(*reversed(range(dims))))
    else:
        m.keep(value.detach())


def inplace(m):
    value, name = m.pick(), m.draw.choice(INPLACE)
    if value.is_leaf and value.requires_grad:
        return
    if name in ("mul_", "add_", "sub_"):
        getattr(value, name)(m.draw.choice((2, m.pick())))
    elif name == "fill_":
        value.fill_(3)
    elif name == "copy_":
        value.copy_(m.pick())
    elif name == "clamp_":
        value.clamp_(-1, 2)
    else:
        getattr(value, name)()


def assign(m):
    value = m.pick()
    if value.dim() and not (value.is_leaf and value.requires_grad):
        value[m.draw.randrange(value.size(0))] = m.draw.choice((1, m.pick()))


def index(m):
    value = m.pick()
    if value.dim():
        positions = [m.draw.randrange(value.size(0)) for _ in range(m.draw.randint(1, 4))]
        kind = m.draw.randrange(4)
        where_ = torch.tensor(positions)
        if kind == 0:
            m.keep(value[where_])
        elif kind == 1:
            m.keep(value.index_select(0, where_))
        elif kind == 2:
            m.keep(value[value > 0])
        else:
            m.keep(torch.nonzero(value))


def branch(m):
    value = m.pick()
    if value.numel() and bool((value > 0).any()):
        m.keep(value + 1)
    else:
        m.keep(value * 3)


def look(m):
    value, kind = m.pick(), m.draw.randrange(4)
    if kind == 0 and value.numel() == 1:
        m.seen.append(value.item())
    elif kind == 1:
        m.seen.append(value.tolist())
    elif kind == 2:
        m.seen.append(repr(value))
    else:
        m.seen.append(tuple(value.stride()))


def factory(m):
    shape = [m.draw.randint(1, 4) for _ in range(m.draw.randint(0, 2))]
    kind = m.draw.randrange(6)
    m.keep((lambda: torch.zeros(shape), lambda: torch.ones(shape, dtype=torch.float64),
            lambda: torch.full(shape, 2.5), lambda: torch.arange(m.draw.randint(1, 6)),
            lambda: torch.zeros_like(m.pick()), lambda: torch.tensor([1.0, 2.0]))[kind]())


def numbers(m):
    shape = [m.draw.randint(1, 4) for _ in range(m.draw.randint(0, 2))]
    kind = m.draw.randrange(6)
    if kind == 0:
        m.keep(torch.rand(shape))
    elif kind == 1:
        m.keep(torch.randn(shape))
    elif kind == 2:
        m.keep(torch.nn.functional.dropout(m.pick(), 0.5))
    elif kind == 3:
        m.keep(torch.randint(0, 9, shape))
    elif kind == 4:
        m.keep(torch.rand_like(m.pick()))
    else:
        m.keep(torch.bernoulli(torch.sigmoid(m.pick())))


def join(m):
    a = m.pick()
    m.keep(m.draw.choice((torch.cat, torch.stack))([a, a * 2]))


def product(m):
    a = m.pick()
    m.keep(a.reshape(-1, 1) @ m.pick().reshape(1, -1))


def convert(m):
    m.keep(m.pick().to(getattr(torch, m.draw.choice(FLOATS + INTEGERS))))


def without_grad(m):
    with torch.no_grad():
        unary(m)
        inplace(m)


def layer(m):
    value = m.pick()
    kind = m.draw.randrange(3)
    if value.dim():
        if kind == 0:
            m.keep(torch.nn.functional.layer_norm(value, value.shape[-1:]))
        elif kind == 1:
            m.keep(torch.nn.functional.gelu(value))
        else:
            m.keep(torch.nn.functional.silu(value) * value)


STEPS = (
    unary, unary, binary, binary, binary, scalar, scalar, compare, where, reduce, reduce, whole, view, view, view,
    inplace, inplace, inplace, assign, index, branch, look, factory, numbers, join, product, convert, without_grad,
    layer,
)


def outcome(seed, call, length=24, **options):
    """What a program leaves: values, what it looked at, gradients, the next random number."""
    grads = seed % 2 == 0
    torch.manual_seed(seed)
    machine = Machine(seed, grads, **options)
    call(machine.run, length)
    found = call(machine.backward) if grads else []
    return machine.values, machine.seen, found, torch.rand(3)


def difference(seed, one, other):
    """The first difference of two outcomes, in words; None where they are equal bit for bit."""
    if repr(one[1]) != repr(other[1]):
        return f"program {seed}: looked at {one[1]} and {other[1]}"
    for part in (0, 2):
        if len(one[part]) != len(other[part]):
            return f"program {seed}: {len(one[part])} and {len(other[part])} values"
        for number, (a, b) in enumerate(zip(one[part], other[part])):
            if not same(a, b):
                return f"program {seed}: value {number} of part {part}: {a} and {b}"
    if not torch.equal(one[3], other[3]):
        return f"program {seed}: other random numbers"
    return None


def same(a, b):
    """Whether two results are equal bit for bit, with dtypes, shapes, strides and versions."""
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return a == b if not (a is None and b is None) else True
    alike = (a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride()
             and a.requires_grad == b.requires_grad and a._version == b._version
             and a.is_leaf == b.is_leaf)
    if not alike:
        return False
    a, b = a.detach().contiguous(), b.detach().contiguous()
    if a.dtype.is_floating_point:
        return torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(7.0), b.nan_to_num(7.0)) \
            and torch.equal(a.signbit(), b.signbit())
    return torch.equal(a, b)
