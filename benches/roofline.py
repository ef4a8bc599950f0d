"""How near kernels come to what the machine can do: a page with two pictures.

    make roofline

The roof of a kernel is the time that its bytes or its operations take at least, whichever is
longer. The machine's figures come from `cargo run --release -p corten-gemm --example roof machine`:
operations in registers, and bytes of the sum of two arrays for every size of what is touched. They
are taken between several passes over the kernels, since a machine that is shared has slow minutes;
each kernel and each roof counts by its best sample, on one thread. Written are `docs/roofline.md`,
`docs/roofline.svg` and `docs/linear.svg`.
"""

import argparse
import math
import pathlib
import subprocess
import timeit

import corten as torch

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Name, preparation, statement, bytes and operations as functions of n, and which operations.
STREAMS = [
    ("copy", "o = torch.empty_like(x)", "o.copy_(x)", 8, 0),
    ("add", "o = torch.empty_like(x)", "torch.add(x, y, out=o)", 12, 1),
    ("exp", "o = torch.empty_like(x)", "torch.exp(x, out=o)", 8, 0),
    ("add of bfloat16", "h = x.bfloat16(); o = torch.empty_like(h)", "torch.add(h, h, out=o)", 4, 1),
    ("sum", "", "x.sum()", 4, 1),
    ("sum of columns", "", "x.sum(0)", 4, 1),
    ("maximum of rows", "", "x.amax(1)", 4, 1),
    ("softmax", "o = torch.empty_like(x)", "torch.softmax(x, 1, out=o)", 8, 0),
    ("layer norm", "", "F.layer_norm(x, (100,))", 8, 0),
    ("cumulative sum", "o = torch.empty_like(x)", "torch.cumsum(x, 1, out=o)", 8, 1),
    ("transposition", "o = torch.empty(100, n // 100).t()", "o.copy_(x)", 8, 0),
    ("index_select", "i = torch.randperm(n // 100); o = torch.empty_like(x)",
     "torch.index_select(x, 0, i, out=o)", 8, 0),
    ("where", "o = torch.empty_like(x); c = x > 0", "torch.where(c, x, y, out=o)", 13, 0),
]
STREAM_SIZES = [10**4, 10**6, 10**8 // 4]

# Name, preparation, statement, sizes n, bytes(n), operations(n), dtype of the operations.
PRODUCTS = [
    ("product of f32", "a = torch.randn(n, n); o = torch.empty(n, n)", "torch.mm(a, a, out=o)",
     [64, 256, 1024], lambda n: 12 * n * n, lambda n: 2 * n**3, "f32"),
    ("product of bf16", "a = torch.randn(n, n).bfloat16(); o = torch.empty_like(a)",
     "torch.mm(a, a, out=o)", [64, 256, 1024], lambda n: 6 * n * n, lambda n: 2 * n**3, "bf16"),
    ("one row times a matrix", "a = torch.randn(n, n); v = torch.randn(1, n)",
     "F.linear(v, a)", [256, 1024, 4096], lambda n: 4 * n * n, lambda n: 2 * n * n, "f32"),
    ("convolution 3x3", "a = torch.randn(1, n, 32, 32); w = torch.randn(n, n, 3, 3)",
     "F.conv2d(a, w, padding=1)", [16, 64, 256],
     lambda n: 8 * n * 1024 + 36 * n * n, lambda n: 18 * n * n * 1024, "f32"),
    ("convolution 1x1", "a = torch.randn(1, n, 32, 32); w = torch.randn(n, n, 1, 1)",
     "F.conv2d(a, w)", [16, 64, 256],
     lambda n: 8 * n * 1024 + 4 * n * n, lambda n: 2 * n * n * 1024, "f32"),
    ("attention", "q = torch.randn(1, 4, n, 64)", "F.scaled_dot_product_attention(q, q, q)",
     [64, 256, 1024], lambda n: 16 * 4 * n * 64, lambda n: 4 * 4 * n * n * 64, "f32"),
]

# Passes over all kernels.
PASSES = 4

LINEAR = ["copy", "add", "exp", "sum", "softmax", "cumulative sum"]
SORT = ("sort", "x = x.reshape(-1)", "torch.sort(x)", 0, 0)
DECADES = [10**k for k in range(3, 9)]


def machine(known=()):
    """Bytes and operations per second, the best of this call and of what is known."""
    command = ["cargo", "run", "--quiet", "--release", "-p", "corten-gemm", "--example", "roof",
               "machine"]
    text = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    best = dict(known)
    for line in text.splitlines():
        name, value = line.split()
        best[name] = max(best.get(name, 0), float(value) * 1e9)
    return best


def bandwidth(roofs, touched):
    """Bytes per second where so many bytes are touched."""
    sizes = sorted(int(name) for name in roofs if name.isdigit())
    return roofs[str(min(sizes, key=lambda size: abs(math.log(size / max(touched, 1)))))]


def best_time(preparation, statement, n, budget=0.15):
    """Seconds of a call, the best of some samples."""
    names = {"torch": torch, "F": torch.nn.functional, "n": n}
    exec(preparation, names)
    timer = timeit.Timer(statement, globals=names)
    once = max(timer.timeit(1), timer.timeit(1))
    calls = max(1, int(0.01 / max(once, 1e-7)))
    samples = max(3, int(budget / max(once * calls, 1e-4)))
    return min(timer.repeat(min(samples, 50), calls)) / calls


def streams(n):
    """The preparation that all streams share."""
    return f"n = {n}; x = torch.randn(n // 100, 100); y = torch.randn(n // 100, 100)\n"


def rows():
    """(family, size, seconds, bytes, operations, dtype) of every kernel."""
    for name, preparation, statement, nbytes, operations in STREAMS:
        for n in STREAM_SIZES:
            seconds = best_time(streams(n) + preparation, statement, n)
            yield name, f"{n:,}", seconds, nbytes * n, operations * n, "f32"
    for name, preparation, statement, sizes, nbytes, operations, dtype in PRODUCTS:
        for n in sizes:
            seconds = best_time(preparation, statement, n)
            yield name, str(n), seconds, nbytes(n), operations(n), dtype


def attained(row, roofs):
    """The part of its roof that a kernel reaches, and whether bytes are the roof."""
    _, _, seconds, nbytes, operations, dtype = row
    by_bytes = nbytes / bandwidth(roofs, nbytes)
    by_operations = operations / roofs[dtype]
    return max(by_bytes, by_operations) / seconds, by_bytes >= by_operations


def table(measured, roofs):
    """The page's table: a line per family."""
    lines = ["| kernel | bound by | " + " | ".join(["small", "middle", "large"]) + " |",
             "|---|---|---|---|---|"]
    for first in range(0, len(measured), 3):
        group = measured[first:first + 3]
        parts = [attained(row, roofs) for row in group]
        cells = [f"{row[1]}: {part:.0%}" for row, (part, _) in zip(group, parts)]
        bound = "bytes" if parts[-1][1] else "operations"
        lines.append(f"| {group[0][0]} | {bound} | {' | '.join(cells)} |")
    return "\n".join(lines)


def svg(width, height, body):
    """A picture."""
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'font-family="sans-serif" font-size="11">\n'
            f'<rect width="{width}" height="{height}" fill="white"/>\n' + "\n".join(body) + "\n</svg>\n")


COLORS = ["#8fb8de", "#3f7cac", "#17324d", "#c8553d", "#588157", "#9a6fb0", "#b08900"]


def bars(measured, roofs):
    """A picture with three bars per kernel: the parts of their roofs."""
    body, left, scale = [], 170, 440
    for part in (0, 0.25, 0.5, 0.75, 1):
        x = left + part * scale
        body.append(f'<line x1="{x}" y1="20" x2="{x}" y2="{24 + 14 * len(measured)}" stroke="#ccc"/>'
                    f'<text x="{x}" y="14" text-anchor="middle">{part:.0%}</text>')
    for i, row in enumerate(measured):
        part, y = attained(row, roofs)[0], 24 + 14 * i
        label = f"{row[0]}, {row[1]}"
        body.append(f'<text x="{left - 6}" y="{y + 9}" text-anchor="end">{label}</text>'
                    f'<rect x="{left}" y="{y}" width="{min(part, 1.25) * scale:.1f}" height="10" '
                    f'fill="{COLORS[i % 3]}"/>'
                    f'<text x="{left + min(part, 1.25) * scale + 4:.1f}" y="{y + 9}">{part:.0%}</text>')
    return svg(left + int(1.25 * scale) + 40, 40 + 14 * len(measured), body)


def growth():
    """Nanoseconds per element of some streams, for every decade of elements."""
    known = {case[0]: case for case in STREAMS}
    for case in [known[name] for name in LINEAR] + [SORT]:
        name, preparation, statement = case[:3]
        decades = DECADES if name != "sort" else DECADES[:-1]
        yield name, [(n, best_time(streams(n) + preparation, statement, n) / n * 1e9) for n in decades]


def best_points(samples):
    """The smallest figures of some passes over a stream."""
    decades = zip(*(points for _, points in samples))
    return samples[0][0], [min(points, key=lambda point: point[1]) for points in decades]


def curves(grown):
    """A picture of nanoseconds per element by the number of elements, both by powers of ten."""
    values = [value for _, points in grown for _, value in points]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    x = lambda n: 60 + 90 * (math.log10(n) - 3)
    y = lambda value: 20 + 300 * (high - math.log10(value)) / (high - low)
    body = []
    for power in range(low, high + 1):
        at = y(10.0**power)
        body.append(f'<line x1="60" y1="{at:.1f}" x2="510" y2="{at:.1f}" stroke="#ccc"/>'
                    f'<text x="54" y="{at + 4:.1f}" text-anchor="end">{10.0**power:g} ns</text>')
    for n in DECADES:
        body.append(f'<text x="{x(n)}" y="338" text-anchor="middle">{n:.0e}</text>')
    for i, (name, points) in enumerate(grown):
        line = " ".join(f"{x(n):.1f},{y(value):.1f}" for n, value in points)
        last = points[-1]
        body.append(f'<polyline points="{line}" fill="none" stroke="{COLORS[i]}" stroke-width="2"/>'
                    f'<text x="{x(last[0]) + 6:.1f}" y="{y(last[1]) + 4:.1f}" fill="{COLORS[i]}">{name}</text>')
    return svg(630, 350, body)


def page(measured, grown, roofs):
    """The text."""
    steps = []
    for name, points in grown:
        ratios = [b[1] / a[1] for a, b in zip(points[1:], points[2:])]
        cells = " | ".join(f"{value:.3f}" for _, value in points) + (" | " if name == "sort" else "")
        steps.append(f"| {name} | {cells} | {max(ratios):.1f} |")
    touched = [f"{int(size) / 2**20:g} MiB: {roofs[size] / 1e9:.0f} GB/s"
               for size in ("131072", "1048576", "16777216", "268435456")]
    return f"""# How near the kernels come to their roofs

Made by `make roofline` (`benches/roofline.py`), on one thread. The roof of a kernel is the time that
its bytes or its operations take at least. Roofs of this run: {roofs['f32'] / 1e9:.0f} billion operations per second on
`f32`, {roofs['bf16'] / 1e9:.0f} on `bf16`; sums of two arrays that touch {', '.join(touched)}.
Parts above 100 % read more than they write, or use non-temporal stores or prefetch, which
the plain loop of that sum does not; products of `bf16` use tile registers (AMX) where there are any,
which the roof, that of plain vectors, knows nothing of. Streams are named by their elements, products
by the side of their matrices or by their channels, attention by its positions.

![parts of the roof](roofline.svg)

{table(measured, roofs)}

## Cost by size

Nanoseconds per element, and the largest step from one decade to the next from 10^4 elements on.

![nanoseconds per element](linear.svg)

| kernel | {' | '.join(f'{n:.0e}' for n in DECADES)} | largest step |
|---|{'---|' * (len(DECADES) + 1)}
{chr(10).join(steps)}
"""


def main():
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs")
    out = parser.parse_args().out
    torch.set_num_threads(1)
    torch.manual_seed(0)
    roofs, measured, grown = machine(), [], []
    for _ in range(PASSES):
        measured.append(list(rows()))
        grown.append(list(growth()))
        roofs = machine(roofs)
    measured = [min(samples, key=lambda row: row[2]) for samples in zip(*measured)]
    grown = [best_points(samples) for samples in zip(*grown)]
    (out / "roofline.svg").write_text(bars(measured, roofs))
    (out / "linear.svg").write_text(curves(grown))
    (out / "roofline.md").write_text(page(measured, grown, roofs))
    print(table(measured, roofs))


if __name__ == "__main__":
    main()
