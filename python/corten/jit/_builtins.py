"""Operators of TorchScript on numbers, strings, lists and dictionaries, and the few on tensors that the
registry leaves to Python."""

from __future__ import annotations

import builtins
import cmath
import copy
import math
import operator
import warnings

import corten


def _true_division(a, b):
    if b == 0 and not isinstance(a, complex) and not isinstance(b, complex):
        return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)
    return a / b


def _floor_division(a, b):
    if isinstance(a, float) or isinstance(b, float):
        return math.floor(a / b) * 1.0 if b else _true_division(a, b)
    return a // b


def _remainder(a, b):
    if isinstance(a, float) or isinstance(b, float):
        return a % b if b else math.nan
    return a % b


def _power(a, b):
    made = a**b
    return made if isinstance(made, complex) else float(made)


def _add(a, b, alpha=1):
    return a + b if alpha == 1 else a + alpha * b


def _sub(a, b, alpha=1):
    return a - b if alpha == 1 else a - alpha * b


def _add_in_place(a, b):
    if isinstance(a, list):
        a.extend(b)
        return a
    return a + b


def _select(values, *index):
    if not isinstance(values, list):
        raise RuntimeError("select takes a tensor or a list")
    return _item(values, *index)


def _item(values, index):
    try:
        if isinstance(values, str) and not values.isascii():
            place = range(_len(values))[index]
            return _decoded(_coded(values)[place:place + 1])
        return values[index]
    except IndexError:
        raise IndexError("list index out of range") from None
    except KeyError:
        raise KeyError(index) from None


def _slice(values, start=None, end=None, step=1):
    if isinstance(values, str) and not values.isascii():
        return _decoded(_coded(values)[start:end:step])
    return values[start:end:step]


def _math(real, complex_function=None):
    def function(a):
        if isinstance(a, complex):
            return complex_function(a)
        try:
            return float(real(a))
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return function


def _log(a, b=None):
    if isinstance(a, complex) or isinstance(b, complex):
        return cmath.log(a) if b is None else cmath.log(a) / cmath.log(b)
    if b is not None:
        return _true_division(_log(a), _log(b))
    return -math.inf if a == 0 else math.nan if a < 0 else math.log(a)


def _replace(text, old, new, count=-1):
    return _replace_text(text, old, new, count)


def _split(text, separator=None, count=-1):
    return _split_text(text, separator, count)


def _text(value):
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, float):
        return _float_text(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_text, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(key)}: {_text(item)}" for key, item in value.items()) + "}"
    return str(value)


def _float_text(value):
    """How streams of C++ print floating point: six digits, a point after whole numbers."""
    if value == math.floor(value) and abs(value) < 1e16 and not math.isinf(value):
        text = f"{value:g}" if abs(value) >= 1e6 else f"{value:.0f}"
        return text if "e" in text else text + "."
    return f"{value:g}"


def _format(text, *values):
    """Curly brackets without anything inside are replaced; nothing of values is reached from there."""
    parts = text.split("{}")
    if len(parts) - 1 > len(values):
        raise RuntimeError("Too few arguments for format string: " + text)
    made = [parts[0]]
    for value, part in zip(values, parts[1:]):
        made += (value if isinstance(value, str) else _text(value), part)
    return "".join(made)


def _percent(text, values):
    return text % (tuple(values) if isinstance(values, (tuple, list)) else (values,))


def _warn(message, stacklevel=2):
    warnings.warn(str(message), stacklevel=3)


def _range_length(low, high, step):
    if step == 0:
        raise RuntimeError("range() arg 3 must not be zero")
    return builtins.len(range(low, high, step))


def _append(values, item):
    values.append(item)
    return values


def _insert(values, index, item):
    values.insert(index, item)


def _set_item(values, key, item):
    values[key] = item
    return values if isinstance(values, list) else None


def _delete(values, key):
    del values[key]


def _remove(values, item):
    place = _index(values, item)
    del values[place]


def _same(a, b):
    equal = a == b
    return bool(equal.all()) if isinstance(equal, corten.Tensor) else bool(equal)


def _index(values, item, *bounds):
    if isinstance(values, str):
        return _on_text("index")(values, item, *bounds)
    for place, value in enumerate(values):
        if _same(value, item):
            return place
    raise ValueError(f"{item!r} is not in list")


def _count(values, item, *bounds):
    if isinstance(values, str):
        return _on_text("count")(values, item, *bounds)
    return sum(_same(value, item) for value in values)


def _contains(values, item):
    if isinstance(values, list):
        return any(_same(value, item) for value in values)
    return item in values


def _pop(values, *arguments):
    return values.pop(*arguments)


def _sort(values, *arguments, reverse=False, **named):
    if arguments and callable(arguments[0]):
        raise RuntimeError("sort with a key is not part of TorchScript")
    values.sort(reverse=bool(arguments[0]) if arguments else reverse)


def _update(values, other):
    values.update(other)


def _keys(values):
    return list(values)


def _values(values):
    return values.values() if isinstance(values, corten.Tensor) else list(values.values())


def _items(values):
    return list(values.items())


def _get(values, key, default=None):
    return values.get(key, default)


def _integer(value):
    return int(value.item()) if isinstance(value, corten.Tensor) else int(value)


def _number(value):
    return float(value.item()) if isinstance(value, corten.Tensor) else float(value)


def _truth(value):
    return bool(value.item()) if isinstance(value, corten.Tensor) else bool(value)


def _complex(*values):
    return complex(*(value.item() if isinstance(value, corten.Tensor) else value for value in values))


def _numbers(value):
    """Dtype as the keyword of a call that makes tensors."""
    from corten.jit._operators import of_number

    return None if value is None else of_number("ScalarType", value)


def _tensor(data, *, dtype=None, device=None, requires_grad=False):
    return corten.tensor(data, dtype=_numbers(dtype), device=device, requires_grad=requires_grad)


def _as_tensor(data, *, dtype=None, device=None):
    return corten.as_tensor(data, dtype=_numbers(dtype), device=device)


_TO = ("dtype", "non_blocking", "copy", "memory_format")


def _to(x, *arguments, **named):
    """All forms of ``to``; dtypes and memory formats are numbers."""
    from corten.jit._operators import of_number

    given = list(arguments)
    target, found = None, dict(named)
    if given and (isinstance(given[0], (corten.Tensor, corten.device, str)) or given[0] is None and len(given) > 1
                  and not isinstance(given[1], bool)):
        target = given.pop(0)
        if isinstance(target, corten.Tensor):
            target, found["dtype"] = target.device, target.dtype
            found.update(zip(_TO[1:], given))
            given = []
    if given and isinstance(given[0], bool):
        given.insert(0, None)
    if len(given) > 4 or len(given) == 6:  # dtype, layout, device, pin_memory, non_blocking, copy, memory_format
        dtype, _, target, _, *rest = given
        found.update(zip(_TO, (dtype, *rest)))
    else:
        found.update(zip(_TO, given))
    target = found.pop("device", target)
    found.pop("layout", None), found.pop("pin_memory", None)
    other = found.pop("other", None)
    if other is not None:
        target, found["dtype"] = other.device, other.dtype
    dtype, layout = found.get("dtype"), found.get("memory_format")
    made = {key: found[key] for key in ("non_blocking", "copy") if found.get(key)}
    if dtype is not None:
        made["dtype"] = of_number("ScalarType", dtype)
    if layout is not None:
        made["memory_format"] = of_number("MemoryFormat", layout)
    if target is not None:
        made["device"] = target
    return x.to(**made) if made else x


def _size(x, dim=None):
    return list(x.shape) if dim is None else x.shape[_name_or_number(x, dim)]


def _name_or_number(x, dim):
    return x.names.index(dim) if isinstance(dim, str) else dim


def _stride(x, dim=None):
    return list(x.stride()) if dim is None else x.stride(dim)


def _is_contiguous(x, memory_format=None):
    from corten.jit._operators import of_number

    return x.is_contiguous() if memory_format is None else x.is_contiguous(
        memory_format=of_number("MemoryFormat", memory_format))


def _raise(message, kind="RuntimeError"):
    """Raises the error of a program."""
    from corten.jit._running import ProgramError

    raise ProgramError(kind or "RuntimeError", "" if message is None else _text(message))


def _print(*values):
    print(*map(_text, values))


def _minimum(*values, dim=None, keepdim=False):
    return min(*values)


def _maximum(*values):
    return max(*values)


def _len(values):
    return builtins.len(_coded(values))


def _number_of_dtype(x):
    from corten.jit._operators import number_of

    return number_of(x.dtype)


def _number_of_layout(x):
    from corten.jit._operators import number_of

    return number_of(x.layout)


def _result_type(a, b):
    from corten.jit._operators import number_of

    return number_of(corten.result_type(a, b))


def _tolist(x, *kind):
    return x.tolist()


def _unwrapped(value, *message):
    if value is None:
        raise RuntimeError(message[0] if message else "Unwrapping null optional")
    return value


def _grad_mode(enabled):
    corten._C._set_grad_enabled(enabled)


def _arange_of(start, end, step=1, **named):
    named = {key: value for key, value in named.items() if value is not None and key in ("device", "dtype")}
    if "dtype" in named:
        named["dtype"] = _numbers(named["dtype"])
    return corten.range(start, end, step, **named)


def _rnn(name):
    """A recurrent layer, with sizes of batches as the second argument or not."""

    def function(*arguments):
        return tuple(getattr(corten._VF, name)(*arguments))

    return function


def _cell(name):
    def function(*arguments):
        found = getattr(corten, name)(*arguments)
        return tuple(found) if name == "lstm_cell" else found

    return function


def _all_of(values, **named):
    return builtins.all(values)


def _any_of(values):
    return builtins.any(values)


def _joined(separator, values):
    return separator.join(values)


def _coded(value):
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


def _decoded(value):
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, (list, tuple)):
        return type(value)(map(_decoded, value))
    return value


def _on_text(name):
    """A method of strings, which are bytes of UTF-8: letters are those of ASCII."""
    of_text, of_bytes = getattr(str, name), getattr(bytes, name, None)

    def function(text, *arguments, **named):
        if text.isascii() or of_bytes is None:
            return of_text(text, *arguments, **named)
        return _decoded(of_bytes(_coded(text), *map(_coded, arguments), **named))

    return function


_replace_text, _split_text = _on_text("replace"), _on_text("split")


def _bounded(name):
    """Methods whose end is −1 for the end of the text."""
    function = _on_text(name)

    def call(text, part, start=0, end=-1):
        return function(text, part, start, _len(text) if end == -1 else end)

    return call


_PLAIN_TEXT = (
    "capitalize", "center", "expandtabs", "isalnum", "isalpha", "isdecimal", "isdigit", "isidentifier", "islower",
    "isnumeric", "isprintable", "isspace", "istitle", "isupper", "ljust", "lower", "lstrip", "partition", "rjust",
    "rpartition", "rsplit", "rstrip", "splitlines", "strip", "swapcase", "title", "upper", "zfill", "encode",
)

#: Operators of numbers, strings, lists and dictionaries, for calls without a tensor as argument.
SCALAR = {
    **{
        name: _math(getattr(math, name), getattr(cmath, name)) for name in dir(math)
        if hasattr(cmath, name) and callable(getattr(math, name)) and not name.startswith("_")
    },
    "add": _add, "sub": _sub, "mul": operator.mul, "div": _true_division, "floordiv": _floor_division,
    "remainder": _remainder, "mathremainder": math.remainder, "fmod": math.fmod, "pow": _power,
    "__round_to_zero_floordiv": lambda a, b: int(a / b), "add_": _add_in_place, "sub_": _sub, "mul_": operator.mul,
    "div_": _true_division, "neg": operator.neg, "eq": lambda a, b: _same(a, b), "ne": lambda a, b: not _same(a, b),
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "__and__": operator.and_,
    "__or__": operator.or_, "__xor__": operator.xor, "__lshift__": operator.lshift, "__rshift__": operator.rshift,
    "bitwise_not": operator.invert, "abs": builtins.abs, "select": _select, "slice": _slice, "floor": math.floor,
    "ceil": math.ceil, "round": lambda a: float(builtins.round(a)), "copysign": math.copysign, "gcd": math.gcd,
    "sqrt": _math(math.sqrt, cmath.sqrt), "exp": _math(math.exp, cmath.exp), "expm1": _math(math.expm1), "log": _log,
    "log10": _math(math.log10, cmath.log10), "log1p": _math(math.log1p), "log2": _math(math.log2),
    "erf": _math(math.erf), "erfc": _math(math.erfc), "lgamma": _math(math.lgamma), "gamma": _math(math.gamma),
    "atan2": math.atan2, "degrees": math.degrees, "radians": math.radians, "fabs": math.fabs, "modf": math.modf,
    "frexp": math.frexp, "ldexp": math.ldexp, "factorial": math.factorial, "isnan": cmath.isnan, "isinf": cmath.isinf,
    "isfinite": cmath.isfinite, "angle": cmath.phase, "polar": cmath.rect, "divmod": builtins.divmod,
    "hypot": math.hypot, "all": _all_of, "any": _any_of, "sum": builtins.sum, "sort": _sort, "copy": copy.copy,
    "split": _split, "index": _index, "count": _count, "insert": _insert, "get": _get, "replace": _replace,
    "reverse": lambda values: values.reverse(), "clear": lambda values: values.clear(), "hash": hash,
    "copy_": _numbers, "minimum": _minimum, "maximum": _maximum,
    "broadcast_shapes": lambda a, b: list(corten.broadcast_shapes(a, b)),
}

#: Operators that take everything themselves, by name in `aten` or by full name.
ALWAYS = {
    **{name: _on_text(name) for name in _PLAIN_TEXT},
    **{name: _bounded(name) for name in ("find", "rfind", "rindex", "startswith", "endswith")},
    "join": _joined, "format": _format, "percentFormat": _percent, "str": _text, "ord": ord, "chr": chr, "bin": bin,
    "oct": oct, "hex": hex, "len": _len, "append": _append, "extend": lambda values, other: values.extend(other),
    "pop": _pop, "popitem": lambda values: values.popitem(), "remove": _remove, "_set_item": _set_item,
    "Delete": _delete, "setdefault": lambda values, key, item: values.setdefault(key, item), "update": _update,
    "keys": _keys, "items": _items, "values": _values, "list": builtins.list,
    "dict": lambda *values: builtins.dict(*values),
    "sorted": builtins.sorted, "__contains__": _contains, "__getitem__": _item, "__not__": operator.not_,
    "__is__": operator.is_, "__isnot__": operator.is_not, "__range_length": _range_length,
    "__derive_index": lambda index, start, step: start + index * step, "Int": _integer, "Float": _number,
    "Bool": _truth, "Complex": _complex, "IntImplicit": _integer, "FloatImplicit": _number, "ComplexImplicit": _complex,
    "ScalarImplicit": lambda value: value.item(), "tensor": _tensor, "as_tensor": _as_tensor, "to": _to, "size": _size,
    "sym_size": _size, "stride": _stride, "sym_stride": _stride, "dim": lambda x: x.dim(), "numel": lambda x: x.numel(),
    "sym_numel": lambda x: x.numel(), "storage_offset": lambda x: x.storage_offset(), "is_contiguous": _is_contiguous,
    "element_size": lambda x: x.element_size(), "get_device": lambda x: x.get_device(), "cpu": lambda x: x.cpu(),
    "cuda": lambda x: x.cuda(), "data": lambda x: x.data, "warn": _warn, "manual_seed": corten.manual_seed,
    "_unwrap_optional": _unwrapped, "device": corten.device, "set_grad_enabled": _grad_mode, "_print": _print,
    "is_grad_enabled": corten.is_grad_enabled, "is_scripting": lambda: True, "_is_tracing": lambda: False,
    "_get_tracing_state": lambda: False, "has_torch_function": lambda *values: False, "result_type": _result_type,
    "requires_grad_": lambda x, value=True: x.requires_grad_(value), "range": _arange_of, "Size": builtins.list,
    "numpy_T": lambda x: x.T, "mT": lambda x: x.mT, "mH": lambda x: x.mH, "matrix_H": lambda x: x.H,
    "wait": lambda future: future.wait(), "is_autocast_enabled": lambda: False, "is_autocast_cpu_enabled": lambda: False,
    "_assert": lambda condition, message="": None if condition else _raise(message, "AssertionError"),
    **{name: (lambda name: lambda x, *arguments: getattr(x, name)(*arguments))(name) for name in (
        "is_complex", "is_conj", "is_floating_point", "is_inference", "is_neg", "is_pinned", "is_same_size",
        "is_signed", "pin_memory", "polygamma_")},
    **{name: (lambda name: lambda x: getattr(x, name))(name) for name in ("is_leaf", "output_nr", "retains_grad")},
    **{name: _rnn(name) for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")},
    **{name: _cell(name) for name in ("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")},
    "norm_except_dim": lambda *arguments: corten.norm_except_dim(*arguments),
    "prim::NumToTensor": corten.tensor, "prim::unchecked_unwrap_optional": lambda value: value,
    "prim::data": lambda x: x.data, "prim::grad": lambda x: x.grad, "prim::min": _minimum, "prim::max": _maximum,
    "prim::abs": builtins.abs, "prim::RaiseException": _raise, "prim::Print": _print, "prim::device": lambda x: x.device,
    "prim::dtype": _number_of_dtype, "prim::layout": _number_of_layout, "prim::requires_grad": lambda x: x.requires_grad,
    "prim::tolist": _tolist, "prim::type": lambda x: x.type, "prim::index": lambda x: x.index,
    "prim::name": lambda x: x.name, "prim::itemsize": lambda x: x.itemsize, "prim::nbytes": lambda x: x.nbytes,
    "prim::EnumName": lambda x: x.name, "prim::EnumValue": lambda x: x.value, "prim::id": id,
    "prim::rangelist": lambda count: builtins.list(range(count)), "prim::StringIndex": _item, "prim::TupleIndex": _item,
    "prim::unchecked_cast": lambda value: value, "prim::shape": lambda x: builtins.list(x.shape),
    "prim::IfThenElse": lambda condition, a, b: a if condition else b,
    "prim::AutogradAnyNonZero": lambda *values: True, "prim::TimePoint": lambda: 0,
    **{f"prim::{name}": (lambda name: lambda x: getattr(x, name))(name) for name in (
        "is_cpu", "is_cuda", "is_ipu", "is_maia", "is_meta", "is_mkldnn", "is_mps", "is_mtia", "is_nested", "is_quantized",
        "is_sparse", "is_sparse_csr", "is_vulkan", "is_xla", "is_xpu")},
}
