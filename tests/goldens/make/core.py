"""Writes tests/goldens/core_*.txt from an installed torch: facts about the representation.

Run with the interpreter of an environment that has torch; the tests themselves need only the files.
"""

import itertools
import pathlib
import random
import struct

import torch

HERE = pathlib.Path(__file__).resolve().parent.parent
random.seed(20)


def numbers(values):
    return ",".join(str(int(value)) for value in values)


def write(name, lines):
    (HERE / f"core_{name}.txt").write_text("\n".join(lines) + "\n")


def random_geometry():
    rank = random.choice([0, 1, 2, 3, 4, 4, 4, 5, 5, 6])
    sizes = [random.choice([0, 1, 1, 2, 3, 4]) for _ in range(rank)]
    if random.random() < 0.6:
        # A permutation of a dense tensor, sometimes with a gap or an odd stride of a size-1 dimension.
        order = random.sample(range(rank), rank)
        if rank in (4, 5) and random.random() < 0.5:
            order = [0, *range(2, rank), 1]
        strides, stride = [0] * rank, 1
        for d in reversed(order):
            strides[d] = stride
            stride *= max(sizes[d], 1) * random.choice([1, 1, 1, 1, 1, 2])
        for d in range(rank):
            if sizes[d] == 1 and random.random() < 0.3:
                strides[d] = random.choice([0, 1, 5, 60])
    else:
        strides = [random.choice([0, 1, 2, 3, 4, 6, 12, 24]) for _ in range(rank)]
    return sizes, strides


def contiguity():
    lines = []
    for _ in range(3000):
        sizes, strides = random_geometry()
        t = torch.empty_strided(sizes, strides)
        flags = [
            t.is_contiguous(),
            t.is_contiguous(memory_format=torch.channels_last),
            t.is_contiguous(memory_format=torch.channels_last_3d),
            torch.ops.aten.is_non_overlapping_and_dense(t),
        ]
        lines.append(f"{numbers(sizes)};{numbers(strides)};{numbers(flags)}")
    return lines


def views():
    lines = []
    while len(lines) < 3000:
        sizes, strides = random_geometry()
        t = torch.empty_strided(sizes, strides)
        n, shape = t.numel(), []
        if n == 0:
            shape = random.choice([sizes, [0, 3], [2, 0, 2]])
        else:
            while n > 1 and len(shape) < 5:
                size = random.choice([d for d in range(1, n + 1) if n % d == 0])
                shape.append(size)
                n //= size
            shape.append(n)
            if random.random() < 0.4:
                shape = [s for s in sizes if s != 1]
                shape.insert(random.randint(0, len(shape)), 1)
        try:
            result = numbers(t.view(shape).stride()) or "scalar"
        except RuntimeError:
            result = "none"
        lines.append(f"{numbers(sizes)};{numbers(strides)};{numbers(shape)};{result}")
    return lines


DTYPES = [
    "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32",
    "complex64", "complex128", "bool", "bfloat16", "float8_e5m2", "float8_e4m3fn",
    "float8_e5m2fnuz", "float8_e4m3fnuz", "uint16", "uint32", "uint64", "float8_e8m0fnu",
    "bcomplex32",
]


def name(dtype):
    return str(dtype).removeprefix("torch.")


def promotion():
    lines = []
    for a, b in itertools.product(DTYPES, DTYPES):
        x, y = getattr(torch, a), getattr(torch, b)
        try:
            result = name(torch.promote_types(x, y))
        except RuntimeError:
            result = "error"
        lines.append(f"{a};{b};{result};{int(torch.can_cast(x, y))}")
    return lines


def result_types():
    operands = [(d, r) for d in DTYPES if not d.startswith("float8") for r in (0, 1)]
    scalars = {"True": True, "2": 2, "1.5": 1.5, "1j": 1j}
    lines = []
    for default in ("float32", "float64", "float16", "bfloat16"):
        torch.set_default_dtype(getattr(torch, default))
        pairs = itertools.product(operands, [*operands, *scalars])
        for (dtype, rank), other in pairs:
            t = torch.zeros((1,) * rank, dtype=getattr(torch, dtype))
            if isinstance(other, tuple):
                if default != "float32":
                    continue
                text = f"{other[0]}/{other[1]}"
                value = torch.zeros((1,) * other[1], dtype=getattr(torch, other[0]))
            else:
                text, value = other, scalars[other]
            try:
                result = name(torch.result_type(t, value))
            except RuntimeError:
                result = "error"
            lines.append(f"{default};{dtype}/{rank};{text};{result}")
    torch.set_default_dtype(torch.float32)
    return lines


def bits(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


def casts():
    """Bits of f32 values, then what they become in each narrow format."""
    values = [0.0, 1.0, -1.5, float("inf"), -float("inf"), 1e20, -1e20, 3e9, -3e9, 300.7, 65519.0]
    values += [65520.0, 464.0, 465.0, 61439.0, 61440.0, 2.0**-17, 1.5 * 2.0**-17, 2.0**-16]
    patterns = [bits(v) for v in values]
    patterns += [random.getrandbits(32) for _ in range(300)]
    # The range of the 8-bit formats, dense around its ends.
    for _ in range(900):
        sign, exponent = random.getrandbits(1), random.randint(90, 145)
        patterns.append((sign << 31) | (exponent << 23) | random.getrandbits(23))
    ties = (0, 0x100000, 0x180000, 0x200000, 0x400000)
    patterns += [(exponent << 23) | tie for exponent in range(100, 146) for tie in ties]
    patterns = [p for p in patterns if (p & 0x7FFFFFFF) <= 0x7F800000]
    source = torch.tensor(patterns, dtype=torch.int64).to(torch.uint32).view(torch.float32)
    targets = ["float16", "bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz",
               "float8_e4m3fnuz", "float8_e8m0fnu", "uint8", "int8", "int16", "int32", "int64",
               "uint16", "uint32", "uint64"]
    unsigned = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32, 8: torch.uint64}
    columns = []
    for target in targets:
        cast = source.to(getattr(torch, target))
        columns.append(cast.view(unsigned[cast.element_size()]).tolist())
    rows = [f"{p};{numbers(row)}" for p, row in zip(patterns, zip(*columns))]
    return [",".join(targets), *rows]


def float8_values():
    """The f32 bits of every code of every 8-bit format."""
    lines = []
    for target in DTYPES:
        if target.startswith("float8"):
            codes = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(getattr(torch, target))
            values = ["nan" if v != v else str(bits(v)) for v in codes.float().tolist()]
            lines.append(f"{target};{','.join(values)}")
    return lines


def generator():
    lines = []
    for seed, draws in [(0, 0), (0, 3), (42, 5), (1, 700), (2**40 + 7, 1300)]:
        g = torch.Generator().manual_seed(seed)
        if draws:
            torch.randint(0, 2**16, (draws,), generator=g)
        state = bytes(g.get_state().tolist())
        following = torch.empty(4, dtype=torch.int64).random_(0, 2**27, generator=g)
        lines.append(f"{seed};{draws};{state.hex()};{numbers(following)}")
    return lines


write("contiguity", contiguity())
write("views", views())
write("promotion", promotion())
write("result_types", result_types())
write("casts", casts())
write("float8", float8_values())
write("generator", generator())
