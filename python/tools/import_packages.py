"""Imports every module of installed packages on this package and lists those that fail over a name of PyTorch.

    PYTHONPATH=python python python/tools/import_packages.py [--jobs N] [PACKAGE ...]

Without packages: all installed ones that need PyTorch. Modules are imported in processes of some fifty each.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

#: Imports the modules whose names come on standard input, and prints what went wrong as JSON lines.
_CHILD = """
import importlib, json, sys, traceback, warnings
warnings.simplefilter("ignore")
out = sys.stdout
sys.stdout = sys.stderr
sys.argv = ["import"]
for name in sys.stdin.read().split():
    try:
        importlib.import_module(name)
        row = [name, None, None, None]
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        where = next((f for f in reversed(frames) if "importlib" not in f.filename and "/corten/" not in f.filename), None)
        place = where and f"{where.filename}:{where.lineno}"
        row = [name, type(error).__name__, str(error)[:400], place]
    out.write(json.dumps(row) + chr(10))
    out.flush()
"""


_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "MPLBACKEND": "agg", "CUDA_VISIBLE_DEVICES": ""}


def packages():
    """Top-level packages of the distributions that need PyTorch."""
    found = set()
    for dist in importlib.metadata.distributions():
        needs = {re.split(r"[^\w.-]", line, maxsplit=1)[0].lower() for line in dist.requires or ()}
        if "torch" in needs or "torchvision" in needs:
            tops = {str(file).split("/")[0] for file in dist.files or () if str(file).endswith(".py")}
            found.update(top.removesuffix(".py") for top in tops if re.fullmatch(r"[A-Za-z]\w*(\.py)?", top))
    return sorted(found - {"corten", "torch", "functorch", "test", "tests", "docs", "examples"})


def modules(package):
    """The names of all modules of a package, from its files."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return [package] if spec else []
    root = Path(next(iter(spec.submodule_search_locations)))
    names = []
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        if parts[-1] == "__main__" or not all(part.isidentifier() for part in parts):
            continue
        names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


def attempt(names, timeout, alias):
    """Imports modules in one process; those after a crash in another one."""
    rows = []
    paths = os.pathsep.join(filter(None, (alias, os.environ.get("PYTHONPATH"))))
    while names:
        try:
            done = subprocess.run(
                [sys.executable, "-c", _CHILD], input="\n".join(names), capture_output=True, text=True,
                timeout=timeout, env={**os.environ, **_ENVIRONMENT, "PYTHONPATH": paths},
            )
            text, why = done.stdout, f"exit status {done.returncode}"
        except subprocess.TimeoutExpired as error:
            text, why = (error.stdout or b"").decode(errors="replace"), "timeout"
        got = [json.loads(line) for line in text.splitlines() if line.startswith("[")]
        rows += got
        names = names[len(got):]
        if names:
            rows.append([names[0], "Crash", why, None])
            names = names[1:]
    return rows


def concerns_torch(row):
    """Whether a failure is over PyTorch."""
    return row[1] == "Crash" or "torch" in f"{row[2]} {row[1]}" or "corten" in row[2] or row[1] == "AbsentError"


def main():
    """Prints the failures and how many modules there were."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=300)
    parser.add_argument("--all", action="store_true", help="also failures over other things than PyTorch")
    parser.add_argument("packages", nargs="*")
    chosen = parser.parse_args()
    names = [name for package in chosen.packages or packages() for name in modules(package)]
    parts = [names[i:i + 50] for i in range(0, len(names), 50)]
    with tempfile.TemporaryDirectory() as alias, concurrent.futures.ThreadPoolExecutor(chosen.jobs) as pool:
        command = [sys.executable, "-m", "corten", "as-torch", "install", "--target", alias]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        done = pool.map(lambda part: attempt(part, chosen.timeout, alias), parts)
        rows = [row for part in done for row in part]
    failed = [row for row in rows if row[1] is not None]
    groups = collections.defaultdict(list)
    for row in failed:
        if chosen.all or concerns_torch(row):
            groups[row[1], row[2]].append(row)
    for (kind, message), same in sorted(groups.items(), key=lambda pair: -len(pair[1])):
        sys.stdout.write(f"{len(same)} × {kind}: {message}\n    {same[0][0]}  {same[0][3]}\n")
    about = sum(map(len, groups.values()))
    sys.stdout.write(f"{len(rows)} modules, {len(failed)} failed, {about} listed\n")


if __name__ == "__main__":
    main()
