"""Rows of tables over dtypes."""

import numpy as np

from module_under_test import torch

DTYPES = {
    "b1": "bool", "u8": "uint8", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "c32": "complex32",
    "c64": "complex64", "c128": "complex128", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "e5m2": "float8_e5m2", "e4m3": "float8_e4m3fn",
}
ALL = tuple(DTYPES)
# Those that nearly all operators take; the others are for storing and exchange.
RARE = ("c32", "u16", "u32", "u64", "e5m2", "e4m3")
USUAL = tuple(short for short in DTYPES if short not in RARE)

SHORT = {long: short for short, long in DTYPES.items()} | {"bcomplex32": "bc32"}
SCOPE = {short: getattr(torch, long) for short, long in DTYPES.items()} | {"torch": torch, "np": np}


def row(expression, dtypes=USUAL, **operands):
    """Dtypes of an expression of its operands for every dtype X; "-" is an error.

    An operand is Python code in which the short name of a dtype stands for the dtype. Complex
    numbers in 16 bits, which few operators take, are a dot.
    """
    code = compile(expression, "case", "eval")
    operands = {name: compile(text, name, "eval") for name, text in operands.items()}
    return " ".join(cell(code, operands, SCOPE | {"X": SCOPE[short]}, dtypes) for short in dtypes)


def cell(code, operands, scope, dtypes):
    try:
        values = {name: eval(text, scope) for name, text in operands.items()}
        if dtypes is USUAL and len(values) == 2 and is_half_complex(*values.values()):
            return "."
        result = eval(code, scope | values)
    except Exception:  # noqa: BLE001 the words are in other sections
        return "-"
    if isinstance(result, torch.Tensor):
        result = result.dtype
    return SHORT[name(result)] if isinstance(result, torch.dtype) else str(result)


def is_half_complex(a, b):
    result = torch.result_type(a, b)
    return result.is_complex and result.itemsize == 4


def name(dtype):
    return str(dtype).removeprefix("torch.")
