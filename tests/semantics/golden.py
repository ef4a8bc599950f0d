"""Golden cases: lines of Python beside what PyTorch makes of them.

`tests/goldens/semantics/FAMILY.txt` is written by `tests/goldens/make/semantics_FAMILY.py` and
holds sections of cases:

    == narrow (geometry)
    torch.arange(6).narrow(0, -2, 2) => int64 (2,) strides (1,) offset 4

A case is statements separated by "; " with an expression at the end. Behind the arrow stands the
value as the section's describer shows it, or the error's class and words, and then the
first sentences of the warnings.
`row("a + b", …)` stands for a row of a table: the dtypes of `a + b` for every dtype of `b`.
"""

import contextlib
import pathlib
import re
import struct
import sys
import unittest
import warnings

import numpy as np

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(TESTS / "python"))

from module_under_test import torch  # noqa: E402

DIRECTORY = TESTS / "goldens" / "semantics"
ARROW = " => "

# Some warnings come once per process; a case must not depend on those before it.
torch.set_warn_always(True)

nan, inf = float("nan"), float("inf")


class Family(unittest.TestCase):
    """Tests of one rule family: `check` runs a section of its golden file."""

    family = ""

    def check(self, section):
        name, cases = sections(self.family)[section]
        outcomes = [(code, expected, outcome(code, DESCRIBERS[name])) for code, expected in cases]
        wrong = [f"{code}\n  PyTorch: {expected}\n  here:    {found}"
                 for code, expected, found in outcomes if found != expected]
        if wrong:
            self.fail(f"{len(wrong)} of {len(cases)} cases:\n" + "\n".join(wrong[:20]))


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
        said = [f" [{w.category.__name__}: {words(w.message).split('. ')[0]}]" for w in seen
                if not re.search("support is experimental|TypedStorage is deprecated|__array_", str(w.message))]
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
    """What a message says, without where in PyTorch's sources it comes from."""
    text = re.split(r" \(Triggered internally at|\nException raised from", str(error))[0]
    text = re.sub(r'^"\w+" not implemented', "not implemented", text)  # the name of a kernel
    return text.rstrip().replace("corten", "torch")


def name(dtype):
    return str(dtype).removeprefix("torch.")


def each(describe):
    """Extends a describer of tensors to sequences of them and to all other values."""
    def describer(value):
        if isinstance(value, torch.Tensor):
            return describe(value)
        if isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value):
            return " | ".join(describer(v) for v in value)
        return words(value if isinstance(value, str) else repr(value))
    return describer


def plain(t):
    return t.detach().resolve_conj().resolve_neg()


@each
def geometry(t):
    bits = "".join(mark for mark, on in ((" conj", t.is_conj()), (" neg", t.is_neg())) if on)
    return f"{name(t.dtype)} {tuple(t.shape)} strides {t.stride()} offset {t.storage_offset()}{bits}"


@each
def contents(t):
    return f"{name(t.dtype)} {plain(t).tolist()}" + (f" of {tuple(t.shape)}" if not t.numel() else "")


@each
def strides(t):
    return f"{tuple(t.shape)} {t.stride()}"


@each
def bits(t):
    """The elements as hexadecimal numbers; all NaNs are one."""
    t = plain(t).contiguous()
    raw = t.reshape(-1).view(torch.uint8).tolist()
    size = t.element_size()
    parts = size // 2 if t.is_complex() else size
    hexes = [bytes(raw[i:i + parts][::-1]).hex() for i in range(0, len(raw), parts)]
    numbers = torch.view_as_real(t) if t.is_complex() else t
    unordered = numbers.reshape(-1).double().isnan().tolist()
    hexes = ["nan" if not_one else text for text, not_one in zip(hexes, unordered)]
    step = 2 if t.is_complex() else 1
    return f"{name(t.dtype)} " + " ".join(",".join(hexes[i:i + step]) for i in range(0, len(hexes), step))


def text(value):
    return value if isinstance(value, str) else repr(value)


DTYPES = {
    "b1": "bool", "u8": "uint8", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "c32": "complex32",
    "c64": "complex64", "c128": "complex128", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "e5m2": "float8_e5m2", "e4m3": "float8_e4m3fn",
}
SHORT = {long: short for short, long in DTYPES.items()} | {"bcomplex32": "bc32"}
# Those that nearly all operators take; the others are for storing and exchange.
USUAL = tuple(short for short in DTYPES if short not in ("c32", "u16", "u32", "u64", "e5m2", "e4m3"))


def row(expression, dtypes=USUAL, **operands):
    """Dtypes of an expression of its operands for every dtype X; "-" is an error.

    An operand is Python code in which the short name of a dtype stands for the dtype. Complex
    numbers in 16 bits, which few operators take, are a dot.
    """
    scope = SCOPE | {short: getattr(torch, long) for short, long in DTYPES.items()}
    code = compile(expression, "case", "eval")
    operands = {name: compile(text, name, "eval") for name, text in operands.items()}
    return " ".join(cell(code, operands, scope | {"X": scope[short]}, dtypes) for short in dtypes)


def cell(code, operands, scope, dtypes):
    try:
        values = {name: eval(text, scope) for name, text in operands.items()}
        scope |= values
        if dtypes is USUAL and len(values) == 2 and is_half_complex(*values.values()):
            return "."
        result = eval(code, scope)
    except Exception:  # noqa: BLE001 the words are in other sections
        return "-"
    if isinstance(result, torch.Tensor):
        result = result.dtype
    return SHORT[name(result)] if isinstance(result, torch.dtype) else str(result)


def is_half_complex(a, b):
    result = torch.result_type(a, b)
    return result.is_complex and result.itemsize == 4


DESCRIBERS = {f.__name__: f for f in (text,)}
DESCRIBERS |= {"geometry": geometry, "contents": contents, "strides": strides, "bits": bits}
SCOPE = {"torch": torch, "np": np, "nan": nan, "inf": inf, "struct": struct, "row": row, "ALL": tuple(DTYPES)}
