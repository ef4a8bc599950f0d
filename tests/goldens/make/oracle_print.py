"""tests/goldens/oracle/print.txt: tensors as text.

    4 1000 3 80 - t6[2][1]+0 = tensor([-2.,  5.])

Before the tensor: precision, threshold, edgeitems, linewidth, sci_mode (1, 0 or -). Newlines are
written as \\n.
"""
import math
import pathlib

import torch

from oracle import NUMBERS, Maker, flat_values, numbers

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
ALL = FLOATS + (torch.int64, torch.int32, torch.uint8, torch.int8, torch.bool, torch.complex64,
                torch.complex128)


def numbers_like(m, kind):
    pick = {
        "whole": lambda: float(m.rng.randint(-20, 20)),
        "small": lambda: m.rng.uniform(-1, 1),
        "mixed": lambda: m.rng.uniform(-1, 1) * 10 ** m.rng.randint(-6, 6),
        "large": lambda: float(m.rng.randint(0, 10**9)),
        "odd": lambda: m.rng.choice((math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, 2.0, 1e-5)),
        "hundreds": lambda: round(m.rng.uniform(-1000, 1000), 2),
    }[kind]
    return pick


def value(m, dtype, pick):
    if dtype.is_complex:
        return complex(pick(), pick())
    if dtype.is_floating_point:
        return pick()
    if dtype == torch.bool:
        return m.rng.random() < 0.5
    number = pick()
    number = 0 if not math.isfinite(number) else int(number)
    info = torch.iinfo(dtype)
    return max(info.min, min(info.max, number))


def main():
    m = Maker(11)
    lines = []
    kinds = ("whole", "small", "mixed", "large", "odd", "hundreds")
    for i in range(1200):
        dtype = m.dtype(ALL)
        sizes = m.sizes(m.rng.choice((0, 1, 1, 2, 2, 3, 4)), 1, m.rng.choice((2, 3, 5, 12)))
        if m.rng.random() < 0.03:
            sizes = [m.rng.choice((30, 120))]
        count = torch.Size(sizes).numel()
        if count > 160:
            continue
        pick = numbers_like(m, m.rng.choice(kinds))
        t = torch.tensor([value(m, dtype, pick) for _ in range(count)], dtype=dtype).reshape(sizes)
        options = (4, 1000, 3, 80, None)
        if i % 3 == 0:
            options = (m.rng.choice((2, 4, 6)), m.rng.choice((5, 10, 1000)), m.rng.choice((1, 2, 3)),
                       m.rng.choice((40, 80, 120)), m.rng.choice((None, None, True, False)))
        names = ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")
        torch.set_printoptions(profile="default")
        torch.set_printoptions(**dict(zip(names, options)))
        torch._tensor_str.PRINT_OPTS.sci_mode = options[4]
        text = str(t).replace("\n", "\\n")
        if len(text) > 500:
            continue
        sci = {None: "-", True: "1", False: "0"}[options[4]]
        shown = f"v{NUMBERS[dtype]}[{numbers(sizes)}]={flat_values(t)}"
        lines.append(f"{options[0]} {options[1]} {options[2]} {options[3]} {sci} {shown} = {text}")
    target = pathlib.Path(__file__).parent.parent / "oracle" / "print.txt"
    target.write_text("\n".join(lines) + "\n")
    print(target, len(lines), "cases", target.stat().st_size, "bytes")


main()
