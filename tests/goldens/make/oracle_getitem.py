"""tests/goldens/oracle/getitem.txt: `tensor[items]` and `tensor[items] = value`.

    get t6[2,3][3,1]+0 ( i0 S,2, ) = at6[2][1]+0:...
    set t6[2,3][3,1]+0 ( N E b1 v4[2]=0,1 ) f1.5 = at6[2,3]...

S<start>,<stop>,<step> is a slice, N None, E an ellipsis.
"""
import pathlib

import torch

from oracle import KINDS, Maker, argument, result

ALL = (torch.float32, torch.int64, torch.float64, torch.bool, torch.uint8, torch.complex64)


def item(m, t, dim):
    """One item and how many dimensions it is for."""
    size = t.shape[dim] if dim < t.dim() else 2
    kind = m.rng.random()
    if kind < 0.25:
        return m.rng.randint(-size, size - 1) if size and m.rng.random() < 0.95 else size, 1
    if kind < 0.5:
        bound = lambda: m.rng.choice((None, None, *range(-4, 5)))
        return slice(bound(), bound(), m.rng.choice((None, None, 1, 2, -1))), 1
    if kind < 0.58:
        return None, 0
    if kind < 0.66:
        return m.rng.random() < 0.8, 0
    if kind < 0.86:
        shape = m.rng.choice(([2], [2], [1], [], [2, 2], [0]))
        count = torch.Size(shape).numel()
        values = [m.rng.randint(-size, size - 1) if size else 0 for _ in range(count)]
        dtype = m.rng.choice((torch.int64, torch.int64, torch.int64, torch.int32, torch.float32, torch.int16)
                             if m.rng.random() < 0.2 else (torch.int64,))
        return torch.tensor(values, dtype=dtype).reshape(shape), 1
    k = m.rng.randint(0, min(2, max(t.dim() - dim, 0)))
    shape = list(t.shape[dim:dim + k])
    if shape and m.rng.random() < 0.06:
        shape[0] += 1
    values = [m.rng.random() < 0.5 for _ in range(torch.Size(shape).numel())]
    dtype = torch.bool if m.rng.random() < 0.9 else torch.uint8
    return torch.tensor(values, dtype=torch.bool).reshape(shape).to(dtype), k


def items(m, t):
    chosen, dim, seen = [], 0, False
    for _ in range(m.rng.randint(0, 4)):
        if not seen and m.rng.random() < 0.12:
            chosen.append(...)
            seen = True
            left = m.rng.randint(0, max(t.dim() - dim, 0))
            dim = max(t.dim() - left, dim)
            continue
        if dim >= t.dim() and m.rng.random() < 0.85:
            chosen.append(None)
            continue
        one, dims = item(m, t, dim)
        chosen.append(one)
        dim += dims
    return chosen


def word(one):
    if isinstance(one, slice):
        return "S" + ",".join("" if b is None else str(b) for b in (one.start, one.stop, one.step))
    if one is None:
        return "N"
    if one is ...:
        return "E"
    if isinstance(one, torch.Tensor):
        return "v" + argument(one + 0 if one.dtype != torch.bool else one & True)[1:] \
            if not argument_is_pattern(one) else pattern_free(one)
    return argument(one)


def argument_is_pattern(t):
    return argument(t).startswith("t")


def pattern_free(t):
    """A tensor whose values happen to be the pattern, written with its values."""
    from oracle import NUMBERS, flat_values, numbers
    return f"v{NUMBERS[t.dtype]}[{numbers(t.shape)}]={flat_values(t)}"


def failure(error):
    text = str(error).split("\nException raised")[0].split("\n\n")[0].strip()
    if "INTERNAL ASSERT" in text or "setStorage" in text or type(error).__name__ not in KINDS:
        return None
    return f"!{KINDS[type(error).__name__]} {text}".replace("\n", "\\n")


def main():
    m = Maker(3)
    lines = set()
    for _ in range(900):
        t = m.tensor(dtype=m.dtype(ALL))
        index = items(m, t)
        shown = f"{argument(t)} ( {' '.join(word(i) for i in index)} )"
        key = index[0] if len(index) == 1 and m.rng.random() < 0.7 else tuple(index)
        storages = {t.untyped_storage().data_ptr()} - {0}
        try:
            answer = result(t[key], storages)
        except Exception as error:
            answer = failure(error)
        if answer and len(answer) < 1200:
            lines.add(f"get {shown} = {answer}")
    for _ in range(700):
        t = m.tensor(dtype=m.dtype(ALL), plain=True)
        index = items(m, t)
        key = index[0] if len(index) == 1 else tuple(index)
        try:
            shape = list(t[key].shape)
        except Exception:
            shape = m.sizes()
        if m.rng.random() < 0.4:
            value = m.rng.choice((0, 1, 2.5, True, -1))
        else:
            # Places may be named twice: the value is the same everywhere then.
            shape = [1] * len(shape)
            shape = shape[m.rng.choice((0, 0, 1)):] if m.rng.random() < 0.8 else [1, *shape]
            if m.rng.random() < 0.05:
                shape = [5]
            value = m.tensor(shape, t.dtype if m.rng.random() < 0.8 else m.dtype(ALL))
        shown = f"{argument(t)} ( {' '.join(word(i) for i in index)} ) {argument(value)}"
        storages = {t.untyped_storage().data_ptr()} - {0}
        try:
            t[key] = value
            answer = result(t, storages)
        except Exception as error:
            answer = failure(error)
        if answer and len(answer) < 1200:
            lines.add(f"set {shown} = {answer}")
    target = pathlib.Path(__file__).parent.parent / "oracle" / "getitem.txt"
    target.write_text("\n".join(sorted(lines)) + "\n")
    print(target, len(lines), "calls", target.stat().st_size, "bytes")


main()
