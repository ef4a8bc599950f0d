"""Writes stubs (``.pyi``) for the modules whose names come from the registry or are loaded lazily.

    python python/tools/make_stubs.py [FOLDER]

The folder is that of the package, ``python/corten``, unless another one is given; modules without
a stub are read by type checkers as they are.
"""

from __future__ import annotations

import importlib
import inspect
import keyword
import pathlib
import sys
import types

import corten
from corten import _C
from stub_schemas import parameters, result, with_numbers

HERE = pathlib.Path(__file__).resolve().parent.parent / "corten"
COMMON = '''\
# Written by python/tools/make_stubs.py; do not edit.
# mypy: disable-error-code="overload-cannot-match"
from builtins import bool as _bool, complex as _complex, float as _float, int as _int
from typing import Any, Callable, ClassVar, Iterator, Literal, NamedTuple, Sequence, overload
'''
HEAD = COMMON + '''
Number = _int | _float | _bool | _complex
DeviceLike = device | str | _int
_dtype = dtype
_layout = layout
_memory_format = memory_format
_Generator = Generator
_device = device
'''
BORROWED = '''\
from corten._C import (
    DeviceLike as DeviceLike, Number as Number, StorageBase as StorageBase, Tensor as Tensor,
    _dtype as _dtype, _Generator as _Generator, _layout as _layout,
    _memory_format as _memory_format,
)
'''
ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor",
              "lshift", "rshift")
#: Members of ``Tensor`` that are no operators of the registry, or mean more than it says.
MEMBERS = {
    **{f"__{prefix}{name}__": ("other: Any", "Tensor") for name in ARITHMETIC for prefix in ("", "r", "i")},
    **{f"__{name}__": ("other: Any", "Tensor") for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{f"__{name}__": ("", "Tensor") for name in ("neg", "pos", "abs", "invert")},
    "__len__": ("", "_int"), "__bool__": ("", "_bool"), "__int__": ("", "_int"),
    "__float__": ("", "_float"), "__complex__": ("", "_complex"), "__index__": ("", "_int"),
    "__hash__": ("", "_int"), "__contains__": ("item: Any", "_bool"),
    "__getitem__": ("index: Any", "Tensor"), "__setitem__": ("index: Any, value: Any", "None"),
    "__iter__": ("", "Iterator[Tensor]"), "__array__": ("dtype: Any = None, copy: Any = None", "Any"),
    "item": ("", "Any"), "tolist": ("", "Any"), "numpy": ("*, force: _bool = False", "Any"),
    "backward": ("gradient: Tensor | None = None, retain_graph: _bool | None = None, "
                 "create_graph: _bool = False, inputs: Any = None", "None"),
    "to": ("*args: Any, **kwargs: Any", "Tensor"), "type": ("*args: Any, **kwargs: Any", "Any"),
    "view": ("*args: Any, **kwargs: Any", "Tensor"), "dim": ("", "_int"), "numel": ("", "_int"),
    "new_tensor": ("data: Any, **kwargs: Any", "Tensor"), "element_size": ("", "_int"),
    "requires_grad_": ("requires_grad: _bool = True", "Tensor"), "data_ptr": ("", "_int"),
    "register_hook": ("hook: Callable[[Tensor], Any]", "Any"), "is_contiguous": ("*args: Any, **kwargs: Any", "_bool"),
    "register_post_accumulate_grad_hook": ("hook: Callable[[Tensor], None]", "Any"),
    "stride": ("*args: Any", "Any"), "storage_offset": ("", "_int"), "get_device": ("", "_int"),
    "is_floating_point": ("", "_bool"), "is_complex": ("", "_bool"), "nelement": ("", "_int"),
    "split": ("split_size: Any, dim: _int = 0", "tuple[Tensor, ...]"), "apply_": ("callable: Any", "Tensor"),
    "norm": ("*args: Any, **kwargs: Any", "Tensor"), "unique": ("*args: Any, **kwargs: Any", "Any"),
    "expand": ("*args: Any, **kwargs: Any", "Tensor"), "copy_": ("src: Tensor, non_blocking: _bool = False", "Tensor"),
    **{name: ("*args: Any, **kwargs: Any", "Tensor") for name in (
        "float", "double", "half", "bfloat16", "int", "long", "short", "char", "byte", "bool", "cpu",
        "cuda", "detach", "detach_", "clone", "contiguous", "cfloat", "cdouble", "new_zeros", "new_ones",
        "new_empty", "new_full", "pin_memory", "share_memory_", "retain_grad", "masked_fill", "sum",
        "mean", "std", "var", "argmax", "argmin", "repeat", "scatter", "scatter_", "uniform_", "normal_",
    )},
}
ATTRIBUTES = {
    "shape": "Size", "dtype": "_dtype", "device": "_device", "layout": "_layout", "ndim": "_int",
    "itemsize": "_int", "nbytes": "_int", "requires_grad": "_bool", "grad": "Tensor | None",
    "data": "Tensor", "is_leaf": "_bool", "T": "Tensor", "H": "Tensor", "mT": "Tensor",
    "mH": "Tensor", "real": "Tensor", "imag": "Tensor", "retains_grad": "_bool",
}
#: Functions that take more kinds of arguments than their schemas say.
FUNCTIONS = {
    "tensor": ("data: Any, *, dtype: _dtype | None = None, device: DeviceLike | None = None, "
               "requires_grad: _bool = False, pin_memory: _bool = False", "Tensor"),
    "as_tensor": ("data: Any, dtype: _dtype | None = None, device: DeviceLike | None = None", "Tensor"),
    "asarray": ("obj: Any, **kwargs: Any", "Tensor"), "from_numpy": ("ndarray: Any", "Tensor"),
    "manual_seed": ("seed: _int", "_Generator"), "is_tensor": ("obj: Any", "_bool"),
    "is_grad_enabled": ("", "_bool"), "get_default_dtype": ("", "_dtype"),
    "set_default_dtype": ("d: _dtype", "None"), "initial_seed": ("", "_int"),
    "get_num_threads": ("", "_int"), "set_num_threads": ("number: _int", "None"),
    "arange": ("*args: Any, **kwargs: Any", "Tensor"), "where": ("*args: Any, **kwargs: Any", "Any"),
    "get_rng_state": ("", "Tensor"), "set_rng_state": ("new_state: Tensor", "None"),
    "numel": ("input: Tensor", "_int"), "normal": ("*args: Any, **kwargs: Any", "Tensor"),
    **{name: ("input: Tensor, *args: Any, **kwargs: Any", "Tensor") for name in (
        "sum", "mean", "std", "var", "argmax", "argmin", "masked_fill", "norm",
    )},
}


def definitions(ops, method, indent="", decorator=None, names=None):
    """One definition per operator, or one per overload with ``@overload``."""
    by_name = {}
    for op in ops:
        name = op["name"].partition("::")[2].partition(".")[0]
        if names is not None:
            name = names(name)
        if name is None or keyword.iskeyword(name):
            continue
        listed = parameters(op["schema"], method, op["kind"] == "out")
        if listed is None:  # a parameter is called by a keyword of Python
            listed = ", ".join(["self"] * method + ["*args: Any", "**kwargs: Any"])
        overloads = by_name.setdefault(name, {})
        overloads[listed] = result(op["schema"])
        spread = with_numbers(listed)
        if spread is not None:
            overloads[spread] = overloads[listed]
    for name, overloads in sorted(by_name.items()):
        written = (MEMBERS if method else FUNCTIONS).get(name)
        if written is not None:
            overloads = {", ".join(["self"] * method + [written[0]] * bool(written[0])): written[1]}
        overloads = distinct(overloads)
        many = len(overloads) > 1
        for listed, returned in overloads.items():
            if many:
                yield f"{indent}@overload"
            if decorator:
                yield f"{indent}{decorator}"
            yield f"{indent}def {name}({listed}) -> {returned}: ..."


def distinct(overloads):
    """The overloads of which no earlier one takes all the arguments."""
    kept = {}
    for listed, returned in sorted(overloads.items(), key=lambda item: -item[0].count(" | ")):
        narrow = [part.replace("Tensor | Number", "Number") for part in kept]
        narrow += [part.replace("Tensor | Number", "Tensor") for part in kept]
        narrow += [part.replace(", *, out: Tensor | None = None", "") for part in (*kept, *narrow)]
        if listed not in narrow:
            kept[listed] = returned
    return kept


def python_parameters(function):
    """The parameters of a Python function, without types."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return "*args: Any, **kwargs: Any"
    parts, slash, star = [], False, False
    for parameter in found:
        slash = slash or parameter.kind is parameter.POSITIONAL_ONLY
        if slash and parameter.kind is not parameter.POSITIONAL_ONLY:
            parts.append("/")
            slash = False
        text = parameter.name
        if parameter.kind is parameter.VAR_POSITIONAL:
            text, star = f"*{text}", True
        elif parameter.kind is parameter.VAR_KEYWORD:
            text = f"**{text}"
        elif parameter.kind is parameter.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        if text != "self":
            text += ": Any" + (" = ..." if parameter.default is not parameter.empty else "")
        parts.append(text)
    return ", ".join([*parts, "/"] if slash else parts)


def class_members(cls, generated=()):
    """Members of a native class."""
    for name, value in sorted(vars(cls).items()):
        if name in generated or name in ("__new__", "__dict__", "__doc__", "__module__"):
            continue
        if cls is _C.Tensor and name in MEMBERS:
            listed, returned = MEMBERS[name]
            ignore = "  # type: ignore[override]" if name in ("__eq__", "__ne__") else ""
            listed = f"self, {listed}" if listed else "self"
            yield f"    def {name}({listed}) -> {returned}: ...{ignore}"
        elif name.startswith("__") and name in dir(object):
            continue
        elif type(value).__name__ in ("getset_descriptor", "property", "member_descriptor"):
            yield f"    {name}: {ATTRIBUTES.get(name, 'Any') if cls is _C.Tensor else 'Any'}"
        elif isinstance(value, types.FunctionType):
            yield f"    def {name}({python_parameters(value)}) -> Any: ..."
        elif isinstance(value, (classmethod, staticmethod)):
            yield f"    @{type(value).__name__}"
            yield f"    def {name}(*args: Any, **kwargs: Any) -> Any: ..."
        elif callable(value):
            yield f"    def {name}(self, *args: Any, **kwargs: Any) -> Any: ..."


def native(ops):
    """The stub of the extension module."""
    yield HEAD
    for name in ("dtype", "layout", "memory_format", "qscheme", "device", "Generator", "finfo",
                 "iinfo", "StorageBase", "_Node", "_FunctionBase"):
        yield f"class {name}:"
        yield from class_members(getattr(_C, name))
        if name in ("device", "Generator", "finfo", "iinfo", "StorageBase"):
            yield "    def __init__(self, *args: Any, **kwargs: Any) -> None: ..."
        yield "    ...\n"
    yield '''\
class _GradMode:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, *args: Any) -> None: ...
    def __call__(self, function: Any) -> Any: ...
'''
    yield "class _ModuleBase:\n    def __getattr__(self, name: str) -> Any: ..."
    yield "    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...\n"
    for name in ("no_grad", "enable_grad", "set_grad_enabled", "inference_mode"):
        yield f"class {name}(_GradMode): ..."
    yield "\nclass Size(tuple[_int, ...]):\n    def numel(self) -> _int: ...\n"
    methods = [op for op in ops if op["method"] and op["kind"] != "out"]
    names = {op["name"].partition("::")[2].partition(".")[0] for op in methods}
    yield "class Tensor:"
    yield "    def __init__(self, *args: Any, **kwargs: Any) -> None: ..."
    yield "    @overload\n    def size(self) -> Size: ...\n    @overload\n    def size(self, dim: _int) -> _int: ..."
    yield from class_members(_C.Tensor, names | {"size"})
    yield from definitions([op for op in methods if op["name"].split("::")[1].split(".")[0] != "size"], True, "    ")
    # Attributes and functions of the subclasses that programs write.
    yield ""
    for name, value in sorted(vars(_C).items()):
        if isinstance(value, (_C.dtype, _C.layout, _C.memory_format, _C.qscheme)):
            yield f"{name}: {'_' if type(value).__name__ != 'qscheme' else ''}{type(value).__name__}"
    yield "def __getattr__(name: str) -> Any: ..."


def namespace(module, ops, names=None, without=(), only=None):
    """The stub of a module: what it defines, and what it takes from the registry."""
    registered = {}
    for op in ops:
        name = op["name"].partition("::")[2].partition(".")[0]
        name = name if names is None else names(name)
        if name is not None:
            registered.setdefault(name, []).append(op)
    for name in sorted(dir(module) if only is None else only):
        if name in without or name.startswith("_") or keyword.iskeyword(name):
            continue
        value = getattr(module, name)
        home = getattr(value, "__module__", None) or ""
        if isinstance(value, types.ModuleType):
            if value.__name__.startswith("corten"):
                package, _, last = value.__name__.rpartition(".")
                yield f"from {package} import {last} as {name}" if package else f"import {last} as {name}"
            elif value.__name__.startswith("torch."):
                yield f"{name}: Any"
            elif module.__name__ != "corten" and value.__name__ in sys.stdlib_module_names:
                yield f"import {value.__name__} as {name}"
        elif isinstance(value, type):
            if home == "corten" and name in corten._LAZY:
                home = f"corten.{corten._LAZY[name]}"
            if home.startswith("corten"):
                home = "corten._C" if vars(_C).get(name) is value else home
                yield f"from {home} import {value.__name__} as {name}"
            elif home == "builtins" and name != value.__name__:
                yield f"from builtins import {value.__name__} as {name}"
        elif isinstance(value, (_C.dtype, _C.layout, _C.memory_format, _C.qscheme)):
            yield f"from corten._C import {name} as {name}"
        elif name in FUNCTIONS:
            listed, returned = FUNCTIONS[name]
            yield f"def {name}({listed}) -> {returned}: ..."
        elif isinstance(value, types.BuiltinFunctionType):
            found = registered.get(name)
            if found:
                yield from definitions(found, False, names=lambda _, name=name: name)
            else:
                yield f"def {name}(*args: Any, **kwargs: Any) -> Any: ..."
        elif isinstance(value, types.FunctionType):
            yield f"def {name}({python_parameters(value)}) -> Any: ..."
        elif isinstance(value, (bool, int, float, str)):
            yield f"{name}: _{type(value).__name__}" if not isinstance(value, str) else f"{name}: str"
        else:
            yield f"{name}: Any"


def without_prefix(prefix):
    """Names of operators without what their namespace repeats."""
    return lambda name: name.removeprefix(prefix) if name.startswith(prefix) else None


def stubs():
    """``(path, text)`` of every stub."""
    ops = [op for op in _C._ops() if op["name"].startswith("aten::")]
    yield "_C.pyi", "\n".join(native(ops)) + "\n"
    submodules = [f"from corten import {name} as {name}" for name in sorted(corten._SUBMODULES)
                  if not name.startswith("_")]
    top = [*submodules, "from corten import _C as _C", "__version__: str", *namespace(
        corten, ops, without=corten._SUBMODULES | {"annotations", "NoneType"}
    )]
    yield "__init__.pyi", "\n".join([COMMON, BORROWED, *top]) + "\n"
    for name in ("fft", "linalg", "special"):
        module = importlib.import_module(f"corten.{name}")
        body = namespace(module, ops, without_prefix(f"{name}_"), without=("annotations", "Tensor"))
        yield f"{name}.pyi", "\n".join([COMMON, BORROWED, *body]) + "\n"
    modules = importlib.import_module("corten.nn.modules")
    yield "nn/modules/__init__.pyi", "\n".join([COMMON, *namespace(modules, (), only=modules.__all__)]) + "\n"
    functional = importlib.import_module("corten.nn.functional")
    body = namespace(functional, ops, without=("annotations", "Tensor", "TYPE_CHECKING"))
    yield "nn/functional/__init__.pyi", "\n".join([COMMON, BORROWED, *body]) + "\n"


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    for path, text in stubs():
        (folder / path).write_text(text)


if __name__ == "__main__":
    main()
