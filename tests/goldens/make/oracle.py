"""Calls of PyTorch operators with random arguments, written down with their results.

One call per line of tests/goldens/oracle/<family>.txt:

    transpose.int t6[2,3][3,1]+0 i0 i1 = at6[3,2][1,3]+0:-2,0,5,...

Arguments: t<dtype>[sizes][strides]+offset is a tensor over a storage with the pattern of
`storage_values`; v<dtype>[sizes]=values one with values of its own; (...) a list of them; i, f, b,
c, s, d, m, I, B stand before integers, floats, bools, complex numbers, strings, dtypes, memory
formats, lists of integers and of bools; n is None. Results are written alike, `a` before a tensor that shares the
storage of the first argument, `!Kind message` for an error.
"""
import pathlib
import random
import warnings

import torch

warnings.simplefilter("ignore")
torch.set_num_threads(1)

NUMBERS = {
    torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4,
    torch.float16: 5, torch.float32: 6, torch.float64: 7, torch.complex32: 8, torch.complex64: 9,
    torch.complex128: 10, torch.bool: 11, torch.bfloat16: 15,
}
FORMATS = {
    torch.contiguous_format: 0, torch.preserve_format: 1,
    torch.channels_last: 2, torch.channels_last_3d: 3,
}
KINDS = {
    "RuntimeError": "Runtime", "IndexError": "Index", "ValueError": "Value", "TypeError": "Type",
    "NotImplementedError": "NotImplemented", "_LinAlgError": "LinAlg",
}


def storage_values(dtype, count):
    """What every storage of `count` elements holds."""
    numbers = [(i * 7 + 3) % 23 - 5 for i in range(count)]
    if dtype == torch.bool:
        return torch.tensor([n % 3 == 0 for n in numbers])
    if dtype == torch.uint8:
        return torch.tensor([n + 5 for n in numbers], dtype=dtype)
    if dtype.is_complex:
        return torch.tensor([complex(n, n + 1) for n in numbers], dtype=dtype)
    return torch.tensor(numbers, dtype=torch.float64).to(dtype)


class Maker:
    """Random arguments."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def sizes(self, rank=None, low=1, high=4):
        rank = self.rng.choice((0, 1, 2, 2, 3, 3, 4)) if rank is None else rank
        sizes = [self.rng.randint(low, high) for _ in range(rank)]
        if sizes and self.rng.random() < 0.08:
            sizes[self.rng.randrange(rank)] = 0
        return sizes

    def dtype(self, kinds=None):
        kinds = kinds or (torch.float32, torch.int64, torch.float64, torch.bool, torch.uint8,
                          torch.int32, torch.complex64, torch.float16)
        return self.rng.choice(kinds)

    def tensor(self, sizes=None, dtype=None, plain=False):
        """A tensor in a random layout over its own storage."""
        sizes = self.sizes() if sizes is None else list(sizes)
        dtype = self.dtype() if dtype is None else dtype
        rank = len(sizes)
        kind = 0 if plain else self.rng.random()
        order = list(range(rank))
        steps, offset, expanded = [1] * rank, 0, []
        if kind > 0.4:
            self.rng.shuffle(order)
        if kind > 0.65:
            steps = [self.rng.choice((1, 1, 2)) for _ in sizes]
            offset = self.rng.choice((0, 1, 3))
        if kind > 0.85:
            expanded = [d for d in range(rank) if self.rng.random() < 0.3]
        stride, strides = 1, [0] * rank
        for d in reversed(order):
            if d in expanded:
                continue
            strides[d] = stride * steps[d]
            stride *= max(sizes[d], 1) * steps[d]
        last = sum((n - 1) * s for n, s in zip(sizes, strides)) if 0 not in sizes else -1
        flat = storage_values(dtype, offset + last + 1)
        return flat.as_strided(sizes, strides, offset)

    def dim(self, rank, bad=0.08):
        if self.rng.random() < bad:
            return self.rng.choice((rank + 1, -rank - 2))
        rank = max(rank, 1)
        return self.rng.randrange(-rank, rank)


def numbers(values):
    return ",".join(str(v) for v in values)


def element(v):
    if isinstance(v, bool):
        return str(int(v))
    if isinstance(v, complex):
        return f"{v.real!r}_{v.imag!r}"
    return repr(v)


def flat_values(tensor):
    plain = tensor.resolve_conj().resolve_neg()
    if plain.dtype == torch.complex32:
        plain = plain.to(torch.complex64)
    return ",".join(element(v) for v in plain.flatten().tolist())


def argument(value):
    if value is None:
        return "n"
    if isinstance(value, torch.Tensor):
        own = storage_values(value.dtype, value.untyped_storage().nbytes() // value.itemsize)
        whole = value.as_strided((own.numel(),), (1,), 0)
        if torch.equal(whole, own):
            return (f"t{NUMBERS[value.dtype]}[{numbers(value.shape)}]"
                    f"[{numbers(value.stride())}]+{value.storage_offset()}")
        assert value.is_contiguous() and value.storage_offset() == 0
        return f"v{NUMBERS[value.dtype]}[{numbers(value.shape)}]={flat_values(value)}"
    if isinstance(value, bool):
        return f"b{int(value)}"
    if isinstance(value, int):
        return f"i{value}"
    if isinstance(value, float):
        return f"f{value!r}"
    if isinstance(value, complex):
        return f"c{element(value)}"
    if isinstance(value, str):
        return f"s{value}"
    if isinstance(value, torch.dtype):
        return f"d{NUMBERS[value]}"
    if isinstance(value, torch.memory_format):
        return f"m{FORMATS[value]}"
    if isinstance(value, (list, tuple)) and value and all(isinstance(v, bool) for v in value):
        return f"B{numbers(int(v) for v in value)}"
    if isinstance(value, (list, tuple)) and all(isinstance(v, int) for v in value):
        return f"I{numbers(value)}"
    return "( " + " ".join(argument(v) for v in value) + " )"


def result(value, storages):
    if isinstance(value, torch.Tensor):
        shared = "a" if value.untyped_storage().data_ptr() in storages else ""
        return (f"{shared}t{NUMBERS[value.dtype]}[{numbers(value.shape)}]"
                f"[{numbers(value.stride())}]+{value.storage_offset()}:{flat_values(value)}")
    if isinstance(value, (list, tuple)):
        return "( " + " ".join(result(v, storages) for v in value) + " )"
    return argument(value)


def line(name, args):
    """One call with its result, or None when that cannot be written down."""
    base, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.aten, base), overload or "default")
    args = list(args)
    for formal in op._schema.arguments[len(args):]:
        default = formal.default_value
        if formal.name == "memory_format" and isinstance(default, int):
            default = [k for k, v in FORMATS.items() if v == default][0]
        if formal.name == "dtype" and isinstance(default, int):
            default = [k for k, v in NUMBERS.items() if v == default][0]
        args.append(default)
    shown = " ".join(argument(a) for a in args)
    first = next((a for a in args if isinstance(a, torch.Tensor)), None)
    storages = {first.untyped_storage().data_ptr()} - {0} if first is not None else set()
    names = [formal.name for formal in op._schema.arguments]
    kwargs = {n: a for n, a, f in zip(names, args, op._schema.arguments) if f.kwarg_only}
    positional = [a for a, f in zip(args, op._schema.arguments) if not f.kwarg_only]
    try:
        answer = op(*positional, **kwargs)
    except Exception as error:
        text = str(error).split("\nException raised")[0].split("\n\n")[0].strip()
        if "INTERNAL ASSERT" in text or "Triggered" in text or "Expected a value of type" in text:
            return None
        kind = KINDS.get(type(error).__name__)
        if kind is None:
            return None
        return f"{name} {shown} = !{kind} {text}".replace("\n", "\\n")
    return f"{name} {shown} = {result(answer, storages)}"


def write(family, cases, per_case=25, seed=7):
    """Runs every generator `per_case` times."""
    make = Maker(seed)
    lines = []
    for name, generate in cases:
        seen = set()
        for _ in range(per_case):
            try:
                text = line(name, generate(make))
            except (IndexError, RuntimeError, ZeroDivisionError, ValueError):
                continue
            if text and text not in seen and len(text) < 1500:
                seen.add(text)
                lines.append(text)
    target = pathlib.Path(__file__).parent.parent / "oracle" / f"{family}.txt"
    target.write_text("\n".join(lines) + "\n")
    print(target, len(lines), "calls", target.stat().st_size, "bytes")
