"""Writes the golden cases of tests/semantics: code, and what PyTorch makes of it."""

import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
os.environ["CORTEN_TEST_MODULE"] = "torch"
sys.path.insert(0, str(HERE.parent.parent / "semantics"))

import golden  # noqa: E402

# Corten has no such operator; cases that call one are left out.
ABSENT = (
    "scatter_reduce scatter_reduce_ index_reduce_ gcd_ _foreach_add_ "
    "block_diag cartesian_prod meshgrid logspace share_memory_"
).split()

# Cases in which Corten differs from PyTorch, as far as is known.
DIFFERENT = set((HERE / "semantics_different.txt").read_text().splitlines())


def write(family, sections):
    """Writes a golden file from `{section: (describer, codes)}`."""
    lines = [f"Made with PyTorch by tests/goldens/make/semantics_{family}.py; see golden.py."]
    count = 0
    for title, (describer, codes) in sections.items():
        lines += ["", f"== {title} ({describer})"]
        for code in dict.fromkeys(codes):
            if code in DIFFERENT or re.search(rf"\.({'|'.join(ABSENT)})\(", code):
                continue
            found = golden.outcome(code, golden.DESCRIBERS[describer])
            assert not found.startswith(("NameError", "SyntaxError")), (code, found)
            if is_unstable(found):
                print("left out:", code, found)
                continue
            lines.append(code + golden.ARROW + found)
            count += 1
    golden.DIRECTORY.mkdir(exist_ok=True)
    target = golden.DIRECTORY / f"{family}.txt"
    target.write_text("\n".join(lines) + "\n")
    print(target, count, "cases", target.stat().st_size, "bytes")


def is_unstable(text):
    """Whether an outcome names a place in PyTorch's sources or in memory."""
    return "INTERNAL ASSERT" in text or " object at 0x" in text
