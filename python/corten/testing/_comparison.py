"""``assert_close``: values that agree but for rounding."""

from __future__ import annotations

import cmath
import collections.abc
import warnings
from typing import Any

import corten

__all__ = ["assert_allclose", "assert_close", "default_tolerances"]

#: Relative and absolute tolerance by dtype; other dtypes are compared exactly.
_TOLERANCES = {
    corten.float16: (1e-3, 1e-5), corten.bfloat16: (1.6e-2, 1e-5), corten.float32: (1.3e-6, 1e-5),
    corten.float64: (1e-7, 1e-7), corten.complex32: (1e-3, 1e-5), corten.complex64: (1.3e-6, 1e-5),
    corten.complex128: (1e-7, 1e-7),
}


def default_tolerances(*inputs, dtype_precisions=None):
    """The greatest tolerances among the dtypes of tensors, or dtypes."""
    table = _TOLERANCES if dtype_precisions is None else dtype_precisions
    dtypes = [v.dtype if isinstance(v, corten.Tensor) else v for v in inputs]
    rtols, atols = zip(*(table.get(dtype, (0.0, 0.0)) for dtype in dtypes))
    return max(rtols), max(atols)


class _Options:
    """What :func:`assert_close` was asked for."""

    def __init__(self, **fields):
        self.__dict__.update(fields)


class _Mismatch(Exception):
    """Values differ, at a place in containers."""

    def __init__(self, kind, message, at):
        super().__init__(message)
        self.kind, self.message, self.at = kind, message, at


def assert_close(
    actual: Any, expected: Any, *, allow_subclasses: bool = True, rtol=None, atol=None,
    equal_nan: bool = False, check_device: bool = True, check_dtype: bool = True,
    check_layout: bool = True, check_stride: bool = False, msg=None,
):
    """Raises unless ``|actual - expected| <= atol + rtol * |expected|`` everywhere.

    Tensors, numbers, arrays, and sequences and mappings of them are compared, with dtype, device and
    layout unless told otherwise. ``msg`` replaces the message, or is called with it.

    Raises:
        AssertionError: The values are not close.
        TypeError: They cannot be compared.
        ValueError: Only one tolerance is given.
    """
    if (rtol is None) != (atol is None):
        missing = "rtol" if rtol is None else "atol"
        raise ValueError(
            f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}."
        )
    options = _Options(
        allow_subclasses=allow_subclasses, rtol=rtol, atol=atol, equal_nan=equal_nan,
        check_device=check_device, check_dtype=check_dtype, check_layout=check_layout,
        check_stride=check_stride,
    )
    try:
        _compare(actual, expected, options, ())
    except _Mismatch as found:
        text = found.message
        if found.at:
            text += "\n\nThe failure occurred for item " + "".join(f"[{key!r}]" for key in found.at)
        if msg is not None:
            text = msg(text) if callable(msg) else msg
        kind = found.kind
    else:
        return
    raise kind(text)


def assert_allclose(actual, expected, rtol=None, atol=None, equal_nan=True, msg=""):
    """Deprecated: :func:`assert_close` without checks of dtype, device and stride."""
    warnings.warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future "
        "release. Please use `torch.testing.assert_close()` instead. You can find detailed upgrade "
        "instructions in https://github.com/pytorch/pytorch/issues/61844.",
        FutureWarning,
        stacklevel=2,
    )
    actual, expected = corten.as_tensor(actual), corten.as_tensor(expected)
    if rtol is None and atol is None:
        rtol, atol = default_tolerances(actual, expected)
    assert_close(
        actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=True,
        check_dtype=False, check_stride=False, msg=msg or None,
    )


def _compare(actual, expected, options, at):
    sequences = (list, tuple, collections.abc.Sequence)
    strings = (str, bytes)
    if isinstance(actual, sequences) and isinstance(expected, sequences) and not (
        isinstance(actual, strings) or isinstance(expected, strings)
    ):
        if len(actual) != len(expected):
            raise _Mismatch(
                AssertionError,
                f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", at,
            )
        for i in range(len(actual)):
            _compare(actual[i], expected[i], options, (*at, i))
        return
    mappings = collections.abc.Mapping
    if isinstance(actual, mappings) and isinstance(expected, mappings):
        _compare_mappings(actual, expected, options, at)
        return
    _compare_values(actual, expected, options, at)


def _compare_mappings(actual, expected, options, at):
    ours, theirs = set(actual), set(expected)
    if ours != theirs:
        raise _Mismatch(
            AssertionError,
            "The keys of the mappings do not match:\n"
            f"Missing keys in the actual mapping: {sorted(theirs - ours)}\n"
            f"Additional keys in the actual mapping: {sorted(ours - theirs)}", at,
        )
    keys = list(ours)
    try:
        keys = sorted(keys)
    except TypeError:
        pass
    for key in keys:
        _compare(actual[key], expected[key], options, (*at, key))


def _is_array(value):
    return type(value).__module__ == "numpy" and hasattr(value, "__array_interface__")


def _is_numpy_bool(value):
    return type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_")


def _compare_values(actual, expected, options, at):
    if actual is None or expected is None:
        if actual is not expected:
            text = f"None mismatch: {actual} is not {expected}"
            raise _Mismatch(AssertionError, text, at)
        return
    booleans = [isinstance(v, bool) or _is_numpy_bool(v) for v in (actual, expected)]
    if all(booleans):
        if bool(actual) is not bool(expected):
            text = f"Booleans mismatch: {bool(actual)} is not {bool(expected)}"
            raise _Mismatch(AssertionError, text, at)
        return
    numbers = (int, float, complex)
    if isinstance(actual, numbers) and isinstance(expected, numbers):
        _compare_numbers(actual, expected, options, at)
        return
    related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
    if not options.allow_subclasses:
        related = type(actual) is type(expected)
    tensors = isinstance(actual, corten.Tensor) and isinstance(expected, corten.Tensor)
    arrays = _is_array(actual) and _is_array(expected)
    if not (tensors and related or arrays and related or _mixed_numbers(actual, expected)):
        raise _Mismatch(
            TypeError,
            f"No comparison pair was able to handle inputs of type {type(actual)} and "
            f"{type(expected)}.", at,
        )
    if not tensors and not arrays:
        _compare_numbers(actual.item() if _is_array(actual) else actual, expected, options, at)
        return
    _compare_tensors(corten.as_tensor(actual), corten.as_tensor(expected), options, at)


def _mixed_numbers(actual, expected):
    """A number of NumPy's and one of Python's that it derives from, or the reverse."""
    numbers = (int, float, complex)
    return (_is_array(actual) and getattr(actual, "ndim", 1) == 0 and isinstance(expected, numbers)) or (
        _is_array(expected) and getattr(expected, "ndim", 1) == 0 and isinstance(actual, numbers)
    )


def _limit(value, tolerance, exact):
    return "" if exact else f" (up to {tolerance} allowed)"


def _compare_numbers(actual, expected, options, at):
    actual = actual.item() if hasattr(actual, "item") else actual
    expected = expected.item() if hasattr(expected, "item") else expected
    if options.check_dtype and type(actual) is not type(expected):
        raise _Mismatch(
            AssertionError, f"The (d)types do not match: {type(actual)} != {type(expected)}.", at
        )
    rtol, atol = options.rtol, options.atol
    if rtol is None:
        exact = isinstance(actual, int) and isinstance(expected, int)
        rtol = atol = 0.0 if exact else 1e-7
    _judge_numbers(actual, expected, rtol, atol, options.equal_nan, at)


def _judge_numbers(actual, expected, rtol, atol, equal_nan, at):
    if actual == expected or equal_nan and cmath.isnan(actual) and cmath.isnan(expected):
        return
    difference = abs(actual - expected)
    allowed = atol + rtol * abs(expected)
    if cmath.isfinite(difference) and difference <= allowed:
        return
    exact = rtol == 0 and atol == 0
    relative = float("inf") if expected == 0 else difference / abs(expected)
    raise _Mismatch(
        AssertionError,
        f"Scalars are not {'equal' if exact else 'close'}!\n\n"
        f"Expected {expected} but got {actual}.\n"
        f"Absolute difference: {difference}{_limit(difference, atol, exact)}\n"
        f"Relative difference: {relative}{_limit(relative, rtol, exact)}", at,
    )


def _compare_tensors(actual, expected, options, at):
    _compare_attributes(actual, expected, options, at)
    rtol, atol = options.rtol, options.atol
    if rtol is None:
        rtol, atol = default_tolerances(actual, expected)
    if actual.device != expected.device:
        actual, expected = actual.cpu(), expected.cpu()
    if actual.layout != expected.layout or actual.layout is not corten.strided:
        actual = actual.to_dense() if actual.layout is not corten.strided else actual
        expected = expected.to_dense() if expected.layout is not corten.strided else expected
    if actual.dtype != expected.dtype:
        dtype = corten.promote_types(actual.dtype, expected.dtype)
        actual, expected = actual.to(dtype), expected.to(dtype)
    if actual.device.type == "meta":
        raise _Mismatch(
            NotImplementedError, "Comparing meta tensors is currently not supported", at
        )
    actual, expected = actual.detach(), expected.detach()
    close = corten.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=options.equal_nan)
    if close.all():
        return
    if actual.dim() == 0:
        _judge_numbers(actual.item(), expected.item(), rtol, atol, options.equal_nan, at)
    raise _Mismatch(AssertionError, _description(actual, expected, close, rtol, atol), at)


def _compare_attributes(actual, expected, options, at):
    checks = [("shape", True, lambda t: t.shape)]
    checks.append(("layout", options.check_layout, lambda t: t.layout))
    checks.append(("device", options.check_device, lambda t: t.device))
    checks.append(("dtype", options.check_dtype, lambda t: t.dtype))
    strided = actual.layout is corten.strided and expected.layout is corten.strided
    checks.append(("stride()", options.check_stride and strided, lambda t: t.stride()))
    for name, wanted, get in checks:
        if wanted and get(actual) != get(expected):
            raise _Mismatch(
                AssertionError,
                f"The values for attribute '{name}' do not match: {get(actual)} != "
                f"{get(expected)}.", at,
            )


def _description(actual, expected, close, rtol, atol):
    """What differs most, and where."""
    if not actual.dtype.is_floating_point and not actual.dtype.is_complex:
        actual, expected = actual.to(corten.int64), expected.to(corten.int64)
    exact = rtol == 0 and atol == 0
    differ = ~close
    count, total = int(differ.sum()), close.numel()
    absolute = (actual - expected).abs()
    absolute[close] = 0
    relative = absolute / expected.abs()
    relative[close] = 0

    def greatest(values):
        flat = int(values.flatten().argmax())
        place = tuple(int(i) for i in corten.unravel_index(corten.tensor(flat), values.shape))
        return values.flatten()[flat].item(), place

    lines = [
        f"Tensor-likes are not {'equal' if exact else 'close'}!", "",
        f"Mismatched elements: {count} / {total} ({count / total:.1%})",
    ]
    for name, values, tolerance in (("absolute", absolute, atol), ("relative", relative, rtol)):
        value, place = greatest(values)
        allowed = _limit(value, tolerance, exact)
        lines.append(f"Greatest {name} difference: {value} at index {place}{allowed}")
    return "\n".join(lines)
