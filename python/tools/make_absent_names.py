"""Writes the declarations of PyTorch's names that have no behaviour here (see Note [Absent names]).

    PYTHONHASHSEED=0 PYTHONPATH=python python python/tools/make_absent_names.py

The seed of hashes is fixed, so that sets are written in the same order each time.
It needs PyTorch, whose modules it walks; what the package has itself is left out.
"""

from __future__ import annotations

import datetime
import enum
import importlib
import inspect
import logging
import sys
import textwrap
import types
import typing
import warnings
from pathlib import Path

import torch

import corten
from corten import _absent
from corten._absent import _declarations

FOLDER = _declarations.FOLDER
#: Parts of PyTorch that programs do not import: generators of kernels, tests, examples, transports.
SKIPPED = (
    "_C_flatbuffer", "_awaits", "_dynamo.polyfills", "_dynamo.repro", "_dynamo.variables", "_export.db",
    "_export.passes", "_functorch._activation", "_functorch._aot_autograd", "_higher_order_ops.",
    "_inductor.", "_lazy", "_library.", "_logging._", "_native", "_numpy", "_prims.", "_refs",
    "_strobelight", "_vendor", "ao.pruning._experimental", "backends._", "bin", "contrib",
    "cuda._graph", "distributed._nccl4py", "distributed._shard", "distributed._tools",
    "distributed._transport", "distributed.checkpoint.examples",
    "distributed.elastic.rendezvous.etcd", "distributed.flight_recorder", "distributed.tensor._ops",
    "distributed.tensor.debug.", "distributed.tensor.examples", "distributions",
    "fx.experimental.migrate_gradual_types", "fx.experimental.unification", "nn.utils.",
    "_decomp.", "_meta_registrations", "_subclasses.complex_tensor", "_torch_docs", "onnx._internal", "optim._", "profiler._cuspy", "test", "testing._internal",
    "utils._strobelight", "utils.benchmark.examples", "utils.benchmark.op_fuzzers",
    "utils.bottleneck", "utils.data.datapipes", "utils.hipify", "utils.jit.log", "utils.tensorboard",
    "utils.viz",
)
#: Modules of these parts that they do.
KEPT = frozenset("""
_higher_order_ops.associative_scan _higher_order_ops.auto_functionalize _higher_order_ops.cond
_higher_order_ops.effects _higher_order_ops.flex_attention _higher_order_ops.scan
_higher_order_ops.triton_kernel_wrap _higher_order_ops.utils _higher_order_ops.while_loop
_higher_order_ops.wrap _inductor.async_compile _inductor.codecache _inductor.codegen
_inductor.compile_fx _inductor.config _inductor.cpu_vec_isa _inductor.cudagraph_trees
_inductor.custom_graph_pass _inductor.decomposition _inductor.exc _inductor.fx_passes
_inductor.graph _inductor.ir _inductor.kernel _inductor.lowering _inductor.metrics
_inductor.package _inductor.pattern_matcher _inductor.runtime _inductor.runtime.autotune_cache
_inductor.runtime.cache_dir_utils _inductor.runtime.hints _inductor.runtime.runtime_utils
_inductor.runtime.triton_helpers _inductor.runtime.triton_heuristics _inductor.select_algorithm
_inductor.utils _inductor.virtualized _library.autograd _library.custom_ops
_library.fake_class_registry _library.fake_impl _library.infer_schema _library.opaque_object
_library.triton _library.utils distributed._shard distributed._shard.api
distributed._shard.checkpoint distributed._shard.sharded_optim distributed._shard.sharded_tensor
distributed._shard.sharding_spec distributed.tensor.debug._comm_mode nn.utils._expanded_weights
nn.utils._named_member_accessor nn.utils._per_sample_grad onnx._internal
onnx._internal.exporter onnx._internal.torchscript_exporter optim._adafactor optim._functional
optim._muon optim._multi_tensor testing._internal testing._internal.common_cuda
testing._internal.common_device_type testing._internal.common_utils
""".split())
#: First names with a file of their own; all other sections are in ``others.txt``.
AREAS = ("_C", "_dynamo", "_inductor", "ao", "distributed", "export", "fx", "nn", "onnx", "quantization", "utils")
#: The interpreter remembers where names are in modules without ``__getattr__`` only.
HOT = {"nn.functional", "linalg", "special", "fft"}
COMPLETED = '''"""Modules of the package that answer for names of PyTorch that they do not have. Written by
python/tools/make_absent_names.py (tidy: table)."""

COMPLETED = frozenset("""
{names}
""".split())

#: Those of one file here that are packages in PyTorch.
PACKAGES = frozenset("""
{packages}
""".split())
'''
#: Namespaces of operators.
SPACES = ("_c10d_functional", "_quantized", "aten", "c10d", "mkldnn", "prims", "quantized", "quantized_decomposed")
BASES = (BaseException, dict, list)
#: Private modules whose private names programs use, too.
OPEN = ("_C", "_custom_ops", "_functorch", "_guards", "_jit_internal", "_ops", "_subclasses", "_tensor_str", "_utils", "utils._")


def is_skipped(key):
    """Whether a module is left out."""
    if key in KEPT:
        return False
    return any(
        key.startswith(part) if part[-1] in "._" else key == part or key.startswith(part + ".")
        for part in SKIPPED
    )


def names_of_modules():
    """The modules of PyTorch that are looked at, below ``torch``."""
    root = Path(torch.__file__).parent
    keys = set()
    for path in root.rglob("*.py"):
        key = ".".join(path.relative_to(root).with_suffix("").parts)
        key = key.removesuffix("__init__").rstrip(".")
        if not key.endswith("__main__") and not is_skipped(key):
            keys.add(key)
    return keys


def native_modules(module, key, found):
    """The parts of the native module, which are attributes only."""
    for name, part in list(vars(module).items()):
        if isinstance(part, types.ModuleType) and part.__name__.startswith("torch._C"):
            if f"{key}.{name}" not in found and part is not torch._C:
                found[f"{key}.{name}"] = part
                native_modules(part, f"{key}.{name}", found)


def load():
    """PyTorch's modules by their names below ``torch``."""
    found = {}
    for key in sorted(names_of_modules()):
        name = f"torch.{key}".rstrip(".")
        try:
            module = importlib.import_module(name)
            # Modules with properties stand before the ones that have the names.
            found[key] = vars(module).get("m", module) if type(module) is not types.ModuleType else module
        except Exception as error:
            sys.stderr.write(f"{name}: {error}\n")
    found["_C"] = torch._C
    native_modules(torch._C, "_C", found)
    return found


def ours(key):
    """The package's module of this name, or None.

    Raises:
        ImportError: It is there and cannot be imported without the declarations, which are not in force.
    """
    module, name = corten, "corten"
    for part in filter(None, key.split(".")):
        name = f"{name}.{part}"
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            # A module that is there needs a name that only the declarations gave, unless it misses a package.
            own = (error.name or "").partition(".")[0] == "corten"
            if own and not (isinstance(error, ModuleNotFoundError) and error.name == name):
                raise
            try:
                module = getattr(module, part, None)
            except ImportError:
                return None
            if not isinstance(module, types.ModuleType):
                return None
    return module


def is_there(module, name):
    """Whether the package has a name."""
    try:
        return hasattr(module, name)
    except Exception:
        return True


def attribute(value, name):
    """A text that is an attribute, or None."""
    try:
        found = getattr(value, name, None)
    except Exception:
        return None
    return found if isinstance(found, str) else None


def is_public(key):
    """Whether the private names of a module are declared, too."""
    return key.startswith(OPEN) or not any(part.startswith("_") for part in key.split("."))


def is_one_of_torch(value):
    """Whether a value is a function, class or object that PyTorch made once."""
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        return (attribute(value, "__module__") or "").partition(".")[0] == "torch"
    return isinstance(value, (datetime.timedelta, datetime.datetime))


def settings_of(module):
    """The settings of a module of settings, which are no attributes of it."""
    found = vars(module).get("_config", {})
    return found if type(module).__name__.startswith("ConfigModule") else ()


def literal(value, depth=0):
    """Whether a value can be written down."""
    kind = type(value)
    if value is None or kind in (bool, int, str, bytes):
        text = repr(value)
        here = str(Path(torch.__file__).parent.parent), str(Path.cwd())
        # Numbers of this size are addresses.
        address = kind is int and 1 << 40 < value < 1 << 48
        return len(text) < 300 and not any(place in text for place in here) and not address
    if kind is float:
        return value - value == 0
    if depth < 2 and kind in (tuple, list, set):
        return len(value) < 40 and all(literal(one, depth + 1) for one in value)
    if depth < 2 and kind is dict:
        return len(value) < 40 and all(literal(one, depth + 1) for one in (*value, *value.values()))
    return False


class Writer:
    """Declares the names of modules."""

    def __init__(self, modules):
        self.modules = modules
        self.ours = {key: ours(key) for key in modules}
        self.keys = {module.__name__: key for key, module in modules.items()}
        self.keys.update((f"torch.{key}".rstrip("."), key) for key in modules)
        self.by_identity = {id(module): key for key, module in modules.items()}
        self.places = {}
        for key, module in sorted(modules.items(), key=lambda pair: (pair[0].count("."), pair[0])):
            for name, value in list(vars(module).items()):
                if is_one_of_torch(value):
                    if self.ours[key] is not None and is_there(self.ours[key], name):
                        self.places.setdefault(id(value), (key, name))

    def is_hidden(self, home):
        """Whether a name is a private one of a private module, which is not declared there."""
        key = self.keys.get(home[0])
        if key is None or not home[1].startswith("_") or is_public(key):
            return False
        value = getattr(self.modules[key], home[1], None)
        there = self.ours[key] is not None and is_there(self.ours[key], home[1])
        return not there and not self.is_defined_in(key, value)

    def home(self, value, given=None):
        """Where a name that is not a module's own comes from, as a module and a name, or None."""
        if id(value) in self.places:
            key, name = self.places[id(value)]
            return f"torch.{key}".rstrip("."), name
        module, name = attribute(value, "__module__"), attribute(value, "__qualname__")
        name = name or attribute(value, "__name__") or given
        if module is None or name is None or "<" in name:
            return None
        for there in (module, f"{module}.{name.rpartition('.')[0]}"):
            if there not in self.keys and there.startswith("torch."):
                continue
            if getattr(sys.modules.get(there), name.rpartition(".")[2], None) is value:
                inside = there == "torch" or there.startswith("torch.")
                if not inside:
                    return there, name.rpartition(".")[2]
                if there in self.keys:
                    return f"torch.{self.keys[there]}".rstrip("."), name.rpartition(".")[2]
        return None

    def section(self, key):
        """The lines that declare what the package does not have of a module."""
        module, mine = self.modules[key], self.ours[key]
        public = is_public(key)
        self.inner = hasattr(module, "__path__")
        lines, groups = [], {}
        for name in sorted(set(dir(module)) | set(settings_of(module)) | set(getattr(module, "__all__", ()))):
            if name.startswith("__") or (mine is not None and is_there(mine, name)):
                continue
            if name.startswith("_") and not public and not self.is_defined_in(key, getattr(module, name, None)):
                continue
            settings = key.rpartition(".")[2] in ("config", "_config")
            declared = self.declare(key, name, getattr(module, name, None), public or settings)
            if declared is None:
                continue
            head, rest = declared
            if rest is None:
                lines.append(head)
            else:
                groups.setdefault(head, []).append(rest)
        lines += [f"{head} {' '.join(rest)}" for head, rest in sorted(groups.items())]
        return lines

    def is_defined_in(self, key, value):
        """Whether a function or class is a module's own."""
        own = isinstance(value, (type, types.FunctionType))
        return own and attribute(value, "__module__") == f"torch.{key}".rstrip(".")

    def declare(self, key, name, value, public):
        """A whole line and None, or the beginning of one and what is added to it."""
        if isinstance(value, types.ModuleType):
            return self.submodule(key, name, value, public)
        if isinstance(value, logging.Logger):
            return (f"logger {name}", None) if public else None
        if isinstance(value, enum.Enum):
            return self.member(name, value)
        if isinstance(getattr(type(value), "__members__", None), dict):
            return self.member(name, value)
        if isinstance(value, torch.dtype) and not is_there(corten, str(value).split(".")[-1]):
            signed = name.startswith("int")
            return (f"dtype {name} {value.itemsize} {signed}", None) if not key else None
        if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
            there = str(value).split(".")[-1]
            return ("from torch import", f"{name}={there}") if is_there(corten, there) else None
        if isinstance(value, (typing.TypeVar, typing.ParamSpec)):
            return ("typevar", name) if public else None
        if literal(value):
            return (f"value {name} {value!r}", None) if public else None
        home = self.home(value, name)
        here = f"torch.{key}".rstrip(".")
        if home is not None and home != (here, name) and not self.is_hidden(home):
            defined_here = attribute(value, "__module__") == here
            return self.reference(name, home, public or defined_here)
        if type(value).__module__ in ("typing", "types", "typing_extensions") and not callable_only(value):
            return ("type", name) if public else None
        if isinstance(value, type):
            return self.classes(name, value)
        if callable(value):
            return None if hasattr(value, "_schema") else ("def", name)
        made_by = type(value).__module__
        return ("object", name) if made_by == here or made_by.startswith("torch.ao") else None

    def member(self, name, value):
        home = self.home(type(value))
        known = value.name in type(value).__members__
        return (f"from {home[0]}.{home[1]} import", f"{name}={value.name}") if home and known else None

    def submodule(self, key, name, value, public):
        there = value.__name__
        if id(value) in self.by_identity:
            there = f"torch.{self.by_identity[id(value)]}".rstrip(".")
        if there in self.keys:
            # Sections are found by their names.
            section = there == f"torch.{key}.{name}".replace("..", ".") and self.ours[self.keys[there]] is None
            return (f"import {name} {there}", None) if public and not section else None
        if there.startswith("torch") or not public or name.startswith("_"):
            return None
        return f"import {name} {there}", None

    def reference(self, name, home, public):
        there, original = home
        inside = there == "torch" or there.startswith("torch.")
        if inside and not (public or self.inner):
            return None
        if not inside and (not public or name.startswith("_") or there.startswith("__")):
            return None
        return f"from {there} import", name if name == original else f"{name}={original}"

    def classes(self, name, value):
        if issubclass(value, enum.Enum):
            base = next((b.__name__ for b in (enum.IntFlag, enum.Flag, enum.IntEnum) if issubclass(value, b)),
                        "StrEnum" if issubclass(value, str) else "Enum")
            members = {one: member.value if literal(member.value) else one
                       for one, member in value.__members__.items()}
            return f"enum {name} {base} {members!r}", None
        if isinstance(getattr(value, "__members__", None), dict) and not issubclass(value, BaseException):
            return f"enum {name} IntEnum { {one: int(m) for one, m in value.__members__.items()}!r}", None
        if issubclass(value, tuple) and hasattr(value, "_fields"):
            last = [f for f in value._fields if f in value._field_defaults]
            defaults = {f: d if literal(d := value._field_defaults[f]) else None for f in last}
            return f"tuple {name} {','.join(value._fields)} {defaults!r}", None
        parts = [self.base(base) for base in value.__bases__]
        if getattr(value, "_is_protocol", False) or inspect.isabstract(value):
            parts.insert(0, "interface")
        inside = " ".join(filter(None, parts))
        return "class", f"{name}({inside})" if inside else name

    def base(self, base):
        """The dotted name of a base that absent classes have, or None."""
        if base in BASES or (issubclass(base, BaseException) and base.__module__ == "builtins"):
            return f"builtins.{base.__name__}"
        home = self.home(base)
        if home is None or not (home[0] == "torch" or home[0].startswith("torch.")):
            return None
        return None if self.is_hidden(home) else ".".join(home)


def callable_only(value):
    """Whether a value of Python's own modules is a function."""
    return isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType, type))


def completed(writer):
    """The package's modules that answer for absent names, but for those of which names are read all the time."""
    found = {key for key in writer.modules if writer.ours[key] is not None and writer.section(key)}
    return sorted((found | set(packages(writer))) - HOT - {""})


def packages(writer):
    """Modules of one file here that are packages in PyTorch."""
    parents = {key.rpartition(".")[0] for key in writer.modules} - {""}
    return sorted(
        key for key in parents
        if writer.ours.get(key) is not None and "__path__" not in vars(writer.ours[key])
    )


def write(writer):
    """Writes the files."""
    names, inside = (
        textwrap.fill(" ".join(keys), 100, break_long_words=False, break_on_hyphens=False)
        for keys in (completed(writer), packages(writer))
    )
    (FOLDER.parent / "_completed.py").write_text(COMPLETED.format(names=names, packages=inside))
    texts = {}
    for key in sorted(writer.modules):
        lines = [] if key in HOT else writer.section(key)
        inside = any(other.startswith(key + ".") for other in writer.modules)
        if not lines and not inside and writer.ours[key] is not None:
            continue
        area = key.partition(".")[0]
        area = area if area in AREAS else "others"
        texts.setdefault(area, []).extend([f"[{key}{'*' if inside else ''}]", *lines])
    for old in FOLDER.glob("*.txt"):
        old.unlink()
    for area, lines in texts.items():
        (FOLDER / f"{area}.txt").write_text("\n".join(lines) + "\n")


def operators():
    """The operators of PyTorch, with their overloads, that the package does not have."""
    found = {}
    for full in sorted(torch._C._dispatch_get_all_op_names()):
        space, _, rest = full.partition("::")
        name, _, overload = rest.partition(".")
        if space in SPACES and overload not in corten._C._op_overloads(f"{space}::{name}"):
            found.setdefault(space, {}).setdefault(name, []).append(overload or "default")
    lines = []
    for space, packets in found.items():
        lines.append(f"[{space}]")
        lines += [f"{name} {' '.join(overloads)}" for name, overloads in packets.items()]
    (FOLDER / "operators.txt").write_text("\n".join(lines) + "\n")


def without_absent_names():
    """Takes the declarations that there are out of force."""

    def value(module, name):
        raise KeyError(name)

    _declarations.value = value
    _declarations.kind_of_section = lambda fullname: None


def main():
    """Writes all files."""
    warnings.simplefilter("ignore")
    without_absent_names()
    write(Writer(load()))
    importlib.import_module("torch.ao.quantization.fx._decomposed")
    operators()


if __name__ == "__main__":
    main()
