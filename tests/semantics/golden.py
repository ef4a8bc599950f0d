"""Golden cases: lines of Python beside what PyTorch makes of them.

`tests/goldens/semantics/FAMILY.txt` is written by `tests/goldens/make/semantics_FAMILY.py` and
holds sections of cases:

    == narrow (geometry)
    torch.arange(6).narrow(0, -2, 2) => int64 (2,) strides (1,) offset 4

A case is statements separated by "; " with an expression at the end. Behind the arrow stands the
value as the section's describer shows it, or the error's class and words, and then the first
sentences of the warnings. `row("a + b", …)` stands for a row of a table: see `tables.py`.
"""

import contextlib
import pathlib
import re
import sys
import unittest
import warnings

import numpy as np

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(TESTS / "python"))

from module_under_test import torch  # noqa: E402
import tables  # noqa: E402

DIRECTORY = TESTS / "goldens" / "semantics"
ARROW = " => "
# What only some versions of Python and NumPy warn of, and what is said once whatever is asked for.
UNSAID = re.compile("support is experimental|TypedStorage is deprecated|__array_")

# Dtypes that this package computes with and PyTorch mostly stores: docs/SEMANTICS.md.
NARROW = re.compile(r"UInt(16|32|64)|Float8_|dtype=(u16|u32|u64|e5m2|e4m3)\b")
OURS = torch.__name__ == "corten"

SCOPE = {"torch": torch, "np": np, "nan": float("nan"), "inf": float("inf"), "row": tables.row,
         "ALL": tables.ALL}

# Some warnings come once per process; a case must not depend on those before it.
torch.set_warn_always(True)


class Family(unittest.TestCase):
    """Tests of one rule family: `check` runs a section of its golden file."""

    family = ""

    def check(self, section):
        describer, cases = sections(self.family)[section]
        outcomes = [(code, expected, outcome(code, DESCRIBERS[describer])) for code, expected in cases]
        wrong = [f"{code}\n  PyTorch: {expected}\n  here:    {found}" for code, expected, found in outcomes
                 if found != expected and not (OURS and is_beyond(code, expected, found))]
        if wrong:
            self.fail(f"{len(wrong)} of {len(cases)} cases:\n" + "\n".join(wrong[:20]))


def is_beyond(code, expected, found):
    """Whether PyTorch refuses what is computed here: unsigned integers of 16 bits and more, and 8-bit floats."""
    if code.startswith("row(") and NARROW.search(code):
        cells = list(zip(expected.split(), found.split(), strict=True))
        return all(here == there or there == "-" for there, here in cells)
    refused = expected.startswith("NotImplementedError: ") and NARROW.search(expected)
    return bool(refused) and "Error: " not in found


def sections(family, known={}):
    """The sections of a golden file: name to describer and cases."""
    if family not in known:
        text = (DIRECTORY / f"{family}.txt").read_text()
        known[family] = dict(section(part) for part in re.split(r"^== ", text, flags=re.M)[1:])
    return known[family]


def section(text):
    heading, *lines = text.splitlines()
    name, describer = re.fullmatch(r"(.*) \((\w+)\)", heading).groups()
    return name, (describer, [line.rsplit(ARROW, 1) for line in lines if line])


def outcome(code, describe):
    """What running `code` gives, in one line."""
    *statements, expression = code.split("; ")
    scope = dict(SCOPE)
    with warnings.catch_warnings(record=True) as seen, state_of_the_module():
        warnings.simplefilter("always")
        try:
            for statement in statements:
                exec(statement, scope)
            text = describe(value(expression, scope))
        except Exception as error:  # noqa: BLE001 an error is an outcome
            text = f"{type(error).__name__}: {words(error)}"
        said = [f" [{warning.category.__name__}: {words(warning.message).split('. ')[0]}]"
                for warning in seen if not UNSAID.search(str(warning.message))]
    return (text + "".join(dict.fromkeys(said))).replace("\n", "\\n")


def value(code, scope):
    """The value of an expression; None for a statement."""
    try:
        expression = compile(code, "case", "eval")
    except SyntaxError:
        return exec(code, scope)
    return eval(expression, scope)


@contextlib.contextmanager
def state_of_the_module():
    """Leaves the default dtype and the print options as they were."""
    default = torch.get_default_dtype()
    try:
        yield
    finally:
        if torch.get_default_dtype() != default:
            torch.set_default_dtype(default)
        torch.set_printoptions(profile="default")


def words(error):
    """What a message says: not where in PyTorch's sources, nor the name of a kernel."""
    text = re.split(r" \(Triggered internally at|\nException raised from", str(error))[0]
    text = re.sub(r'^"\w+" not implemented', "not implemented", text)
    return text.rstrip().replace("corten", "torch")


def each(describe):
    """Extends a describer of tensors to sequences of them and to all other values."""
    def describer(value):
        if isinstance(value, torch.Tensor):
            return describe(value)
        if isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value):
            return " | ".join(describer(v) for v in value)
        return words(value if isinstance(value, str) else repr(value))
    return describer


@each
def geometry(t):
    lazy = "".join(mark for mark, on in ((" conj", t.is_conj()), (" neg", t.is_neg())) if on)
    dtype, sizes, offset = tables.name(t.dtype), tuple(t.shape), t.storage_offset()
    return f"{dtype} {sizes} strides {t.stride()} offset {offset}{lazy}"


@each
def contents(t):
    sizes = "" if t.numel() else f" of {tuple(t.shape)}"
    return f"{tables.name(t.dtype)} {plain(t).tolist()}{sizes}"


@each
def strides(t):
    return f"{tuple(t.shape)} {t.stride()}"


@each
def bits(t):
    """The elements as hexadecimal numbers; all NaNs are one."""
    flat = plain(t).contiguous().reshape(-1)
    numbers = torch.view_as_real(flat).reshape(-1) if t.is_complex() else flat
    raw, size = numbers.view(torch.uint8).tolist(), numbers.element_size()
    shown = ["nan" if is_nan else bytes(raw[i * size:(i + 1) * size][::-1]).hex()
             for i, is_nan in enumerate(numbers.double().isnan().tolist())]
    if t.is_complex():
        shown = [",".join(parts) for parts in zip(shown[::2], shown[1::2])]
    return " ".join([tables.name(t.dtype), *shown])


def plain(t):
    return t.detach().resolve_conj().resolve_neg()


def text(value):
    return value if isinstance(value, str) else repr(value)


DESCRIBERS = {"geometry": geometry, "contents": contents, "strides": strides, "bits": bits,
              "text": text}
