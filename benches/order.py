"""Writes python/binding/order.ld: which functions the linker lays side by side, in which order.

    make order

The functions are those that small calls run through, as callgrind counts them; the order is LLD's,
which puts callers beside what they call. Names are stored without the hashes that differ between
compilers, so that the list serves them all; a name that is gone does no harm. Needs valgrind, nm, and
a compiler that links with LLD.
"""

import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ORDER = ROOT / "python" / "binding" / "order.ld"
LIBRARY = ROOT / "target" / "release" / "lib_C.so"
REPEATS = 200
# Fewer calls than this are of loading, not of running.
FREQUENT = REPEATS // 2
# A generic function has one name for all types.
ALIKE = 3

PROGRAM = """
import corten as torch
import corten.nn.functional as F
torch.set_num_threads(1)
x, b, g = torch.ones(4), torch.ones(4), torch.ones(4, requires_grad=True)
y, square = g * 1.0, torch.ones(8, 8)
m, row = torch.nn.Linear(16, 16), torch.ones(1, 16)
def repeat():
    for _ in range({count}):
        x + b; x - b; x * b; x / b; x * 2.0; -x; x + 1; x.add_(b); torch.add(x, b, out=x)
        g + b; y + b; g * 2.0; g.exp(); y.exp(); g.view(2, 2); g[0]
        x.exp(); x.sqrt(); x.tanh(); x.relu(); x.abs(); x > 0; torch.where(x > 0, x, b)
        x.view(2, 2); x.reshape(2, 2); x[0]; x[1:3]; x.unsqueeze(0); x.detach(); x.clone()
        square.t(); square.transpose(0, 1); square.permute(1, 0); square @ square
        x.sum(); x.mean(); x.max(); square.sum(0); square.max(1); F.softmax(x, 0); x[0].item()
        torch.cat((x, b)); torch.stack((x, b)); x.copy_(b); x.to(torch.float64); x[0] = 1.0
        torch.empty(4); torch.zeros(4); torch.arange(4); torch.randn(4); x.shape; x.dtype
        with torch.no_grad():
            x + b
        loss = (m(row) * 2.0).sum()
        loss.backward()
repeat()
"""


def build(*link_args):
    """Builds the package's library with the names of its functions and without an order."""
    flags = [flag for arg in link_args for flag in ("-C", f"link-arg={arg}")]
    command = ["cargo", "rustc", "--quiet", "--release", "--package", "corten-python", "--lib", "--"]
    environment = {**os.environ, "CORTEN_LINK_ORDER": "off"}
    subprocess.run([*command, "-C", "strip=none", *flags], cwd=ROOT, env=environment, check=True)


def functions():
    """The functions of the library by address."""
    listing = subprocess.run(
        ["nm", "--numeric-sort", LIBRARY], capture_output=True, text=True, check=True
    ).stdout
    rows = (line.split() for line in listing.splitlines())
    return [row[2] for row in rows if len(row) == 3 and row[1] in "tT"]


def calls(profile):
    """How often a function calls another, in a profile that callgrind wrote.

    Its format: https://valgrind.org/docs/manual/cl-format.html
    """
    names, found = {}, collections.Counter()
    caller = callee = None
    for line in profile.read_text().splitlines():
        if match := re.match(r"(c?)fn=\((\d+)\)(?: (.*))?", line):
            inner, number, name = match.groups()
            # A recursive call has the depth behind its name.
            name = names.setdefault(number, re.sub(r"'\d+$", "", name or ""))
            if inner:
                callee = name
            else:
                caller = name
        elif line.startswith("calls="):
            found[caller, callee] += int(line[6:].split()[0])
    return found


def pattern(name):
    """The sections of the functions of this name, whatever compiler made them."""
    name = re.sub(r"\.llvm\.\d+$", "", name)
    name = re.sub(r"17h[0-9a-f]{16}E", "17h*", name)
    return re.sub(r"Cs[0-9A-Za-z]{8,13}_", "Cs*_", name)


def main():
    layout = argparse.RawDescriptionHelpFormatter
    argparse.ArgumentParser(description=__doc__, formatter_class=layout).parse_args()
    build()
    known = set(functions())
    package = ROOT / "python" / "corten" / "_C.abi3.so"
    package.unlink(missing_ok=True)
    package.write_bytes(LIBRARY.read_bytes())
    with tempfile.TemporaryDirectory() as folder:
        profile = pathlib.Path(folder, "profile")
        subprocess.run(
            ["valgrind", "--tool=callgrind", "--demangle=no", f"--callgrind-out-file={profile}"]
            + [sys.executable, "-c", PROGRAM.format(count=REPEATS)],
            env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
            capture_output=True,
            check=True,
        )
        edges = {
            pair: count
            for pair, count in calls(profile).items()
            if count >= FREQUENT and known.issuperset(pair)
        }
        graph = pathlib.Path(folder, "graph")
        graph.write_text("".join(f"{a} {b} {n}\n" for (a, b), n in edges.items()))
        build(f"-Wl,--call-graph-ordering-file={graph}")
    hot = {name for pair in edges for name in pair}
    ordered = functions()
    alike = collections.Counter(map(pattern, ordered))
    patterns = dict.fromkeys(pattern(name) for name in ordered if name in hot)
    # Behind the others: with the frequent ones come those for other types, which are not frequent.
    patterns = sorted(patterns, key=lambda name: alike[name] > ALIKE)
    lines = "".join(f"    *(.text.{name})\n" for name in patterns)
    text = f"""/* Written by `make order`: the functions of small calls, side by side. See build.rs. */
SECTIONS
{{
  .text :
  {{
{lines}    *(.text .text.*)
  }}
}}
INSERT AFTER .init;
"""
    ORDER.write_text(text)
    print(f"{ORDER.relative_to(ROOT)}: {len(patterns)} names")


if __name__ == "__main__":
    main()
