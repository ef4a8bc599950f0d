"""Writes docs/ecosystem.md from the results of programs that were run on both libraries.

    python benches/ecosystem.py --results results.json --programs FOLDER [--imports imports.json]
    python benches/ecosystem.py --measure-imports imports.json PACKAGE ...

``results.json`` has, by program, what each side printed (``out``), its exit status (``rc``) and its time
(``wall``), and whether they agree (``status``). Versions are those of the environment that this runs in.
For imports, ``TORCH_PYTHON`` is a Python with PyTorch and the packages, this one has them under Corten's alias.
"""

from __future__ import annotations

import argparse
import ast
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "ecosystem.md"
#: Names of results in the page.
WORDS = {"ok": "as PyTorch", "differs": "differs", "exception": "refused", "import error": "refused"}

HEAD = """# Packages on Corten

Programs of public packages, run unmodified with `corten as-torch install` (or `corten run program.py`) and with
PyTorch. "As PyTorch" means that what they print agrees to 0.001. Times are those of the whole
program with one thread, beside PyTorch's. This page is made by `benches/ecosystem.py`.

Before you try a package, `corten ops --missing PACKAGE` reads its files and lists the names of
PyTorch that it uses and that are not here, and where.
"""

MOVING = """
## Moving a program to Corten

| what a program does | with PyTorch | here |
|---|---|---|
{rows}
"""

#: What differs on purpose.
DIFFERENCES = (
    ("`import torch`", "PyTorch", "`corten as-torch install` makes `torch` this package in an environment; "
     "`corten run program.py` does so for one program; `corten as-torch remove` leaves no trace"),
    ("names without behaviour", "–", "can be imported; calling one raises `NotImplementedError` that says which; "
     "`isinstance` with such a class is false"),
    ("`torch.compile`", "compiles", "runs the function as it is; settings of the compiler are kept and have no effect"),
    ("`torch.jit.script`, `trace`", "TorchScript", "run as Python, or as the recorded trace; archives are "
     "read and written: [torchscript.md](torchscript.md)"),
    ("`torch.export`, `torch.onnx.export`", "write a program", "raise"),
    ("`torch.distributed`", "joins processes", "`is_available()` is false; collectives raise `ValueError` (not "
     "initialised), `init_process_group` raises"),
    ("CUDA, MPS, XPU, MTIA", "drive GPUs", "`is_available()` is false; tensors are made on `cpu` and `meta`"),
    ("block-sparse quantised weights", "`torch.ao.nn.sparse`", "names that raise"),
    ("`uint1` … `int7`, `bits8` …", "dtypes of little use", "names with the attributes of a dtype; operators refuse them"),
    ("libraries linked to libtorch", "load", "do not load: operators of packages in C++ are native here or absent"),
    ("sums of float32", "order depends on the machine", "another order: the last digits differ"),
    ("`torch.__config__`, `torch.version.cuda`", "the build of PyTorch", "this build; no CUDA"),
    ("`torch.classes`", "classes of C++ libraries", "raise"),
    ("debug builds", "–", "say on standard error at import that they are slow"),
)


def packages_of(program):
    """The distributions whose packages a program imports, with their versions."""
    owners = importlib.metadata.packages_distributions()
    found = {}
    for node in ast.walk(ast.parse(program.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module]
        for name in names:
            top = name.partition(".")[0]
            for dist in owners.get(top, ())[:1]:
                if top not in ("torch", "numpy", "corten"):
                    found[dist] = importlib.metadata.version(dist)
    return found


def what(program, entry):
    """What a program does: its first sentence if it has one, or what it prints about."""
    doc = ast.get_docstring(ast.parse(program.read_text()))
    if doc:
        return doc.splitlines()[0]
    words = []
    for line in entry["ref"]["out"].splitlines():
        word = line.split(" ")[0].strip(":,")
        if word.replace("_", "").isalpha() and word not in words:
            words.append(word)
    return ", ".join(words[:8]) or program.stem.partition("_")[2].replace("_", " ")


def row(name, entry, folder, imports):
    """One line of the table, or None for a program that is not there."""
    program = folder / f"{name}.py"
    if not program.exists() or "corten" not in entry:
        return None
    packages = packages_of(program)
    shown = ", ".join(f"{dist} {version}" for dist, version in sorted(packages.items())) or "PyTorch alone"
    status = entry.get("status", "")
    result = WORDS.get(status, status)
    if status not in ("ok", ""):
        detail = entry.get("detail", "").replace("|", "/").replace("\n", " ")[:120]
        result = f"{result}: {detail}" if detail else result
    ours, theirs = entry["corten"]["wall"], entry.get("ref", {}).get("wall")
    time = f"{ours:.1f} s / {theirs:.1f} s" if theirs and status == "ok" else "–"
    known = [imports[dist] for dist in packages if dist in imports]
    loading = "; ".join(f"{ours:.1f} s / {theirs:.1f} s" for ours, theirs in known) or "–"
    return f"| {shown} | {what(program, entry)} | {result} | {time} | {loading} |"


def page(results, folder, imports):
    """The text of the page."""
    lines = [HEAD, "| packages | what was run | result | time, here / PyTorch | import, here / PyTorch |",
             "|---|---|---|---|---|"]
    rows = [row(name, entry, folder, imports) for name, entry in sorted(results.items())]
    lines += filter(None, rows)
    good = sum(entry.get("status") == "ok" for entry in results.values())
    lines.append(f"\n{good} of {len(results)} programs give PyTorch's results.")
    moving = "\n".join(f"| {' | '.join(cells)} |" for cells in DIFFERENCES)
    return "\n".join(lines) + "\n" + MOVING.format(rows=moving)


def seconds(python, statement, environment):
    """The least time that a new process takes for a statement."""
    def once():
        code = f"import time; t = time.perf_counter()\n{statement}\nprint(time.perf_counter() - t)"
        done = subprocess.run([python, "-c", code], env=environment, capture_output=True, text=True, check=True)
        return float(done.stdout.split()[-1])

    return statistics.median(once() for _ in range(3))


def measure(packages, target):
    """Writes how long the imports of packages take here and with PyTorch."""
    found = {}
    plain = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    theirs = {**plain, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))}
    for package in packages:
        statement = f"import {package}"
        try:
            here = seconds(sys.executable, statement, plain)
            found[package] = here, seconds(os.environ["TORCH_PYTHON"], statement, theirs)
        except subprocess.CalledProcessError as error:
            sys.stderr.write(f"{package}: {error.stderr.splitlines()[-1]}\n")
    owners = importlib.metadata.packages_distributions()
    named = {owners.get(package, [package])[0]: times for package, times in found.items()}
    Path(target).write_text(json.dumps(named, indent=1) + "\n")


def main():
    """Writes the page, or the times of imports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--programs", type=Path)
    parser.add_argument("--imports", type=Path)
    parser.add_argument("--measure-imports", metavar="FILE")
    parser.add_argument("--out", type=Path, default=PAGE)
    parser.add_argument("packages", nargs="*")
    chosen = parser.parse_args()
    if chosen.measure_imports:
        measure(chosen.packages, chosen.measure_imports)
        return
    if chosen.results is None or chosen.programs is None:
        parser.error("--results and --programs are needed")
    imports = json.loads(chosen.imports.read_text()) if chosen.imports else {}
    chosen.out.write_text(page(json.loads(chosen.results.read_text()), chosen.programs, imports))


if __name__ == "__main__":
    main()
