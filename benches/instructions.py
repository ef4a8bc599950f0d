"""How many instructions small calls take, counted by callgrind, beside the counts on record.

    make instructions            compares: a count more than 5 % above the record is an error
    make instructions-record     puts the counts on record, in benches/instructions.json

A count is of one call, of the instructions in Corten's own code: the interpreter's and the C
library's are left out, so that another version of Python does not change it. Two runs of different
length are subtracted, so that what happens once does not count either. Another compiler makes other
code: counts are compared only where it is the one on record.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORD = pathlib.Path(__file__).with_suffix(".json")
LIMIT = 1.05
SHORT, LONG = 500, 1500

# Cases of benches/lab/src/bin/calls.rs.
RUST = ("add", "add_recorded", "mul_recorded", "exp", "view", "view_recorded", "linear_recorded")

PYTHON = ("a + b", "a * 2.0", "g + b", "a[0]", "a.view(1, 1)", "m(row)")

SETTING = """
import corten as torch
torch.set_num_threads(1)
a, b, g = torch.ones(1), torch.ones(1), torch.ones(1, requires_grad=True)
m, row = torch.nn.Linear(16, 16), torch.ones(1, 16)
"""

REPEAT = """
def repeat():
    for _ in range({count}):
        {statement}
repeat()
"""


def instructions(path, ours):
    """The instructions in objects whose name ends so, of a profile that callgrind wrote.

    Its format: https://valgrind.org/docs/manual/cl-format.html
    """
    names, total, counted, inclusive = {}, 0, False, False
    for line in path.read_text().splitlines():
        if line.startswith("ob="):
            number, name = re.match(r"ob=\((\d+)\)(?: (.*))?", line).groups()
            name = names.setdefault(number, name)
            counted = name.endswith(ours)
        elif line.startswith("cob="):
            number, name = re.match(r"cob=\((\d+)\)(?: (.*))?", line).groups()
            names.setdefault(number, name)
        elif line.startswith("calls="):
            inclusive = True
        elif re.match(r"[-+*\d]", line):
            if counted and not inclusive:
                total += int(line.split()[1])
            inclusive = False
    return total


def profile(command, ours):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "profile"
        subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={path}", *command],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT / "target/counted/python")},
        )
        return instructions(path, ours)


def rust(case, count):
    return profile([str(ROOT / "target/release/calls"), case, str(count)], "/calls")


def python(longer):
    """All statements, one of them more often. To start takes far longer than to run all of them."""
    parts = (REPEAT.format(count=LONG if statement == longer else SHORT, statement=statement)
             for statement in PYTHON)
    return profile([sys.executable, "-S", "-c", SETTING + "".join(parts)], "_C.abi3.so")


def per_call():
    """The counts of all cases."""
    # Counts do not depend on what else runs.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        short = pool.submit(python, None)
        pairs = {f"Rust {case}": [pool.submit(rust, case, count) for count in (SHORT, LONG)]
                 for case in RUST}
        pairs |= {f"Python {case}": [short, pool.submit(python, case)] for case in PYTHON}
    return {case: round((long.result() - short.result()) / (LONG - SHORT))
            for case, (short, long) in pairs.items()}


def compiler():
    return subprocess.check_output(["rustc", "--version"], text=True).strip()


def compare(counts, record):
    worse = []
    for case, count in counts.items():
        known = record["counts"].get(case)
        note = "new" if known is None else f"{count / known - 1:+.1%}"
        print(f"  {case:24}{count:8}  {note}")
        if known is None or count > LIMIT * known:
            worse.append(case)
    return worse


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--record", action="store_true", help="put the counts on record")
    arguments = arguments.parse_args()
    if shutil.which("valgrind") is None:
        print("valgrind is not installed: instructions are not counted")
        return 0
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {"compiler": None, "counts": {}}
    if not arguments.record and record["compiler"] != compiler():
        print(f"counts on record are of {record['compiler']}: not compared with {compiler()}")
        return 0
    counts = per_call()
    worse = compare(counts, record)
    if arguments.record:
        RECORD.write_text(json.dumps({"compiler": compiler(), "counts": counts}, indent=4) + "\n")
        return 0
    if worse:
        print(f"more instructions than on record: {', '.join(worse)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
