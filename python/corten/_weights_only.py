"""Reading pickles of tensors without running what is in them.

Only the opcodes that saved weights need are understood, and only functions and classes of a fixed
list (and those the user adds) are called.
"""

from __future__ import annotations

import _compat_pickle
import pickle
import struct
from collections import Counter, OrderedDict

from . import _utils

_user_globals = {}

_DTYPES = (
    "float64", "double", "float32", "float", "float16", "half", "bfloat16", "int64", "long",
    "int32", "int", "int16", "short", "int8", "uint8", "uint16", "uint32", "uint64", "bool",
    "complex32", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
    "float8_e5m2fnuz", "float8_e8m0fnu",
)
_REBUILDERS = (
    "_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_parameter",
    "_rebuild_parameter_with_state", "_rebuild_sparse_tensor", "_rebuild_meta_tensor_no_storage",
    "_rebuild_device_tensor_from_cpu_tensor",
)
_BLOCKED = ("sys", "os", "posix", "nt")


class StorageClass:
    """What files call ``torch.FloatStorage`` and the like."""

    def __init__(self, name):
        self.name = name
        self.dtype = _utils.STORAGE_NAMES.get(name)


def full_name(obj):
    """``module.name`` of a function or class, as files spell it."""
    module = obj.__module__
    if module == "corten" or module.startswith("corten."):
        module = "torch" + module[len("corten"):]
    return f"{module}.{obj.__qualname__}"


def add_safe_globals(objects):
    """Lets pickles use further functions and classes; pairs are (object, name)."""
    for obj in objects:
        obj, name = obj if isinstance(obj, tuple) else (obj, full_name(obj))
        _user_globals[name] = obj


def torch_global(name):
    """What a file means by ``torch.…`` where it is not simply the same name here; else None."""
    import corten

    if name.startswith("torch.") and name[len("torch."):] in (*_utils.STORAGE_NAMES, "UntypedStorage"):
        return StorageClass(name[len("torch."):])
    if name == "torch.storage.UntypedStorage":
        return StorageClass("UntypedStorage")
    if name == "torch.serialization._get_layout":
        return lambda layout: getattr(corten, layout.split(".")[-1])
    return None


def _builtin_global(name):
    """The object of an allowed name, or None."""
    import corten

    plain = {
        "collections.OrderedDict": OrderedDict, "collections.Counter": Counter,
        "_codecs.encode": _encode, "builtins.bytearray": bytearray, "builtins.set": set,
        "builtins.complex": complex, "torch.Size": corten.Size, "torch.device": corten.device,
        "torch.Tensor": corten.Tensor,
    }
    if name in plain:
        return plain[name]
    special = torch_global(name)
    if special is not None:
        return special
    if name == "torch.nn.parameter.Parameter":
        return corten.nn.Parameter
    home, _, last = name.rpartition(".")
    if home == "torch._utils" and last in _REBUILDERS:
        return getattr(_utils, last)
    if home == "torch" and last in _DTYPES:
        return getattr(corten, last, None)
    return None


def _encode(text, encoding):
    """How protocol 2 stores bytes."""
    return text.encode(encoding)


def _find(module, name):
    """The allowed object behind GLOBAL, with names of Python 2 translated."""
    module, name = _compat_pickle.NAME_MAPPING.get((module, name), (module, name))
    module = _compat_pickle.IMPORT_MAPPING.get(module, module)
    full = f"{module}.{name}"
    if module.partition(".")[0] in _BLOCKED:
        raise pickle.UnpicklingError(
            f"Trying to load unsupported GLOBAL {full} whose module {module} is blocked."
        )
    found = _user_globals.get(full)
    found = _builtin_global(full) if found is None else found
    if found is None:
        raise pickle.UnpicklingError(
            f"Unsupported global: GLOBAL {full} was not an allowed global by default. Please use "
            f"`torch.serialization.add_safe_globals([{name}])` or the "
            f"`torch.serialization.safe_globals([{name}])` context manager to allowlist this "
            "global if you trust this class/function."
        )
    return found


_MARK = object()


class Unpickler:
    """The machine: a stack, a memo, and one method per opcode."""

    def __init__(self, file, *, encoding="bytes"):
        self.read, self.readline = file.read, file.readline
        self.encoding = encoding
        self.stack, self.memo = [], {}

    def persistent_load(self, saved_id):
        """Resolves a reference to something outside the pickle."""
        raise pickle.UnpicklingError("unsupported persistent id encountered")

    def load(self):
        """The pickled object."""
        while True:
            opcode = self.read(1)
            if not opcode:
                raise EOFError("Ran out of input")
            if opcode == pickle.STOP:
                return self.stack.pop()
            handler = _HANDLERS.get(opcode)
            if handler is None:
                raise pickle.UnpicklingError(f"Unsupported operand {opcode[0]}")
            handler(self)

    def _number(self, form):
        return struct.unpack(form, self.read(struct.calcsize(form)))[0]

    def _above_mark(self):
        at = len(self.stack) - 1
        while self.stack[at] is not _MARK:
            at -= 1
        items = self.stack[at + 1:]
        del self.stack[at:]
        return items

    def _tuple(self, count):
        items = tuple(self.stack[-count:])
        self.stack[-count:] = [items]

    def _text(self, form):
        data = self.read(self._number(form))
        return data if self.encoding == "bytes" else data.decode(self.encoding)

    def _proto(self):
        version = self._number("<B")
        if version not in range(6):
            raise pickle.UnpicklingError(f"Unsupported protocol {version}")

    def _global(self):
        module = self.readline()[:-1].decode("utf-8")
        name = self.readline()[:-1].decode("utf-8")
        self.stack.append(_find(module, name))

    def _new_object(self):
        args, cls = self.stack.pop(), self.stack.pop()
        allowed = (corten_parameter(), OrderedDict, *_user_globals.values())
        if cls not in allowed:
            raise pickle.UnpicklingError(
                f"Can only create new object for nn.Parameter or classes allowlisted via "
                f"`add_safe_globals` but got {cls}"
            )
        self.stack.append(cls.__new__(cls, *args))

    def _reduce(self):
        # Whatever GLOBAL pushed is on the list; nothing else on the stack may be called.
        args, function = self.stack.pop(), self.stack[-1]
        if isinstance(function, StorageClass) or not callable(function):
            raise pickle.UnpicklingError(f"Trying to call reduce for unrecognized function {function}")
        self.stack[-1] = function(*args)

    def _build(self):
        state, target = self.stack.pop(), self.stack[-1]
        if type(target) in _user_globals.values():
            if hasattr(target, "__setstate__"):
                target.__setstate__(state)
            else:
                target.__dict__.update(state)
        elif isinstance(target, OrderedDict):
            target.__dict__.update(state)
        elif hasattr(target, "__setstate__") and type(target).__module__.startswith("corten"):
            target.__setstate__(state)
        else:
            raise pickle.UnpicklingError(
                "Can only build Tensor, Parameter, OrderedDict or types allowlisted via "
                f"`add_safe_globals`, but got {type(target)}"
            )

    def _append_all(self, items):
        target = self.stack[-1]
        if type(target) is not list:
            raise pickle.UnpicklingError(f"Can only append to lists, but got {type(target)}")
        target.extend(items)

    def _set_items(self, pairs):
        target = self.stack[-1]
        if type(target) not in (dict, OrderedDict, Counter):
            raise pickle.UnpicklingError(f"Can only set items of dicts, but got {type(target)}")
        for key, value in zip(pairs[::2], pairs[1::2]):
            target[key] = value

    def _persistent(self):
        saved_id = self.stack.pop()
        if not isinstance(saved_id, tuple):
            raise pickle.UnpicklingError(f"persistent_load id must be tuple but got {type(saved_id)}")
        self.stack.append(self.persistent_load(saved_id))

    def _memoize(self, key):
        self.memo[key] = self.stack[-1]

    def _pushed(make):  # noqa: N805
        return lambda self: self.stack.append(make(self))

    handlers = {
        pickle.PROTO: _proto,
        pickle.GLOBAL: _global,
        pickle.NEWOBJ: _new_object,
        pickle.REDUCE: _reduce,
        pickle.BUILD: _build,
        pickle.BINPERSID: _persistent,
        pickle.MARK: _pushed(lambda self: _MARK),
        pickle.NONE: _pushed(lambda self: None),
        pickle.NEWTRUE: _pushed(lambda self: True),
        pickle.NEWFALSE: _pushed(lambda self: False),
        pickle.EMPTY_TUPLE: _pushed(lambda self: ()),
        pickle.EMPTY_LIST: _pushed(lambda self: []),
        pickle.EMPTY_DICT: _pushed(lambda self: {}),
        pickle.EMPTY_SET: _pushed(lambda self: set()),
        pickle.BININT: _pushed(lambda self: self._number("<i")),
        pickle.BININT1: _pushed(lambda self: self._number("<B")),
        pickle.BININT2: _pushed(lambda self: self._number("<H")),
        pickle.LONG1: _pushed(lambda self: pickle.decode_long(self.read(self._number("<B")))),
        pickle.BINFLOAT: _pushed(lambda self: self._number(">d")),
        pickle.BINUNICODE: _pushed(
            lambda self: self.read(self._number("<I")).decode("utf-8", "surrogatepass")
        ),
        pickle.SHORT_BINSTRING: _pushed(lambda self: self._text("<B")),
        pickle.BINSTRING: _pushed(lambda self: self._text("<i")),
        pickle.TUPLE: _pushed(lambda self: tuple(self._above_mark())),
        pickle.TUPLE1: lambda self: self._tuple(1),
        pickle.TUPLE2: lambda self: self._tuple(2),
        pickle.TUPLE3: lambda self: self._tuple(3),
        pickle.APPEND: lambda self: self._append_all([self.stack.pop()]),
        pickle.APPENDS: lambda self: self._append_all(self._above_mark()),
        pickle.SETITEM: lambda self: self._set_items([self.stack.pop(-2), self.stack.pop()]),
        pickle.SETITEMS: lambda self: self._set_items(self._above_mark()),
        pickle.BINPUT: lambda self: self._memoize(self._number("<B")),
        pickle.LONG_BINPUT: lambda self: self._memoize(self._number("<I")),
        pickle.BINGET: _pushed(lambda self: self.memo[self._number("<B")]),
        pickle.LONG_BINGET: _pushed(lambda self: self.memo[self._number("<I")]),
    }
    del _pushed


_HANDLERS = Unpickler.handlers


def corten_parameter():
    """The class of parameters."""
    from corten.nn import Parameter

    return Parameter
