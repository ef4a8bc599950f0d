"""Reading pickles of tensors without running what is in them.

Only the opcodes that saved weights need are understood, and only functions and classes of a fixed
list (and those the user adds) are called. Whatever else is in a file, the answer is an exception.
"""

from __future__ import annotations

import _compat_pickle
import contextlib
import pickle
import struct
from collections import Counter, OrderedDict

from . import _utils

_user_globals = {}

_DTYPES = (
    *_utils.dtypes(aliases=True), "per_tensor_affine", "per_tensor_symmetric", "per_channel_affine",
    "per_channel_symmetric", "per_channel_affine_float_qparams",
)
_REBUILDERS = (
    "_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_parameter",
    "_rebuild_parameter_with_state", "_rebuild_sparse_tensor", "_rebuild_meta_tensor_no_storage",
    "_rebuild_device_tensor_from_cpu_tensor", "_rebuild_device_tensor_from_numpy",
    "_rebuild_qtensor",
)
_BLOCKED = ("sys", "os", "posix", "nt")
#: How many parts a key of a dictionary may have: hashing visits them all, on the C stack.
_LARGEST_KEY = 1000
_PIECE = 1 << 24


class StorageClass:
    """What files call ``torch.FloatStorage`` and the like."""

    def __init__(self, name):
        self.name = name
        self.dtype = _utils.STORAGE_NAMES.get(name)


class StandIn:
    """An object whose class is not on the list: what the file says of it, of which nothing is run."""

    def __new__(cls, *args):
        made = super().__new__(cls)
        made.parts = list(args)
        return made

    def __setstate__(self, state):
        self.parts.append(state)


#: Whether unknown classes and functions are stood in for.
_standing_in = False


@contextlib.contextmanager
def stand_ins():
    """Reads files with objects of any class; those of unknown ones become :class:`StandIn`."""
    global _standing_in
    before, _standing_in = _standing_in, True
    try:
        yield
    finally:
        _standing_in = before


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
    last = name[len("torch."):] if name.startswith("torch.") else ""
    if last in (*_utils.STORAGE_NAMES, *_utils.QUANTISED_STORAGES, "UntypedStorage"):
        return StorageClass(last)
    if name == "torch.storage.UntypedStorage":
        return StorageClass("UntypedStorage")
    if name == "torch.serialization._get_layout":
        return _layout_of()
    return None


def _layout_of():
    from .serialization import _get_layout

    return _get_layout


def _functions():
    """Functions of the fixed list, by the names that files call them by."""
    found = {f"torch._utils.{name}": getattr(_utils, name) for name in _REBUILDERS}
    found["torch._tensor._rebuild_from_type_v2"] = _rebuild_from_type
    found["torch.serialization._get_layout"] = _layout_of()
    found["_codecs.encode"] = _encode
    return found


def _rebuild_from_type(function, new_type, args, state):
    """A tensor of a subclass, with attributes; the function and the class are on the list, too."""
    import corten

    from . import _tensor

    if new_type not in (corten.Tensor, corten.nn.Parameter) and not _is_user_class(new_type):
        raise pickle.UnpicklingError(f"tensors cannot be made instances of {_kind(new_type)}")
    made = _called(function, args)
    return _tensor._rebuild_from_type_v2(lambda: made, new_type, (), state)


def _classes():
    """Classes of the fixed list."""
    import corten

    return {
        "collections.OrderedDict": OrderedDict, "collections.Counter": Counter,
        "builtins.bytearray": bytearray, "builtins.set": set, "builtins.complex": complex,
        "torch.Size": corten.Size, "torch.device": corten.device, "torch.Tensor": corten.Tensor,
        "torch.nn.parameter.Parameter": corten.nn.Parameter,
    }


def _builtin_global(name):
    """The object of an allowed name, or None."""
    import corten

    special = torch_global(name)
    if special is not None:
        return special
    for table in (_functions(), _classes()):
        if name in table:
            return table[name]
    home, _, last = name.rpartition(".")
    if home == "torch" and (last in _DTYPES or last.endswith("Tensor")):
        from . import _legacy

        return getattr(corten, last, None) if last in _DTYPES else getattr(_legacy, last, None)
    return None


def _find(module, name):
    """The allowed object behind GLOBAL, with names of Python 2 translated."""
    module, name = _compat_pickle.NAME_MAPPING.get((module, name), (module, name))
    module = _compat_pickle.IMPORT_MAPPING.get(module, module)
    full = f"{module}.{name}"
    shown = full if len(full) < 200 else full[:200] + "..."
    if module.partition(".")[0] in _BLOCKED:
        raise pickle.UnpicklingError(
            f"Trying to load unsupported GLOBAL {shown} whose module {shown.rpartition('.')[0]} is "
            "blocked."
        )
    found = _user_globals.get(full)
    found = _builtin_global(full) if found is None else found
    if found is None and _standing_in:
        return type(name, (StandIn,), {"__module__": module})
    if found is None:
        shown = shown.removeprefix("builtins.")
        raise pickle.UnpicklingError(
            f"Unsupported global: GLOBAL {shown} was not an allowed global by default. Please use "
            f"`torch.serialization.add_safe_globals([{shown}])` or the "
            f"`torch.serialization.safe_globals([{shown}])` context manager to allowlist this "
            "global if you trust this class/function."
        )
    return found


def check_key(key):
    """That hashing a key of a dictionary is harmless.

    Tuples hash by visiting all that is in them, as deep as it goes and as often as it comes up.
    """
    todo, seen = [key], 0
    while todo:
        part = todo.pop()
        if type(part) is tuple:
            todo.extend(part[:_LARGEST_KEY])
            seen += len(part) + 1
        if seen > _LARGEST_KEY:
            raise pickle.UnpicklingError("a key of a dictionary or a member of a set is too large")
    return key


# What the classes of the list may be called with: what their pickles call them with.


def _encode(text, encoding):
    """How protocol 2 stores bytes."""
    if encoding not in ("latin1", "latin-1") or not isinstance(text, str):
        raise pickle.UnpicklingError("bytes are encoded as latin1")
    return text.encode(encoding)


def _ordered(pairs=()):
    return OrderedDict((check_key(key), value) for key, value in pairs)


def _counter(counts=()):
    if type(counts) is not dict:
        raise pickle.UnpicklingError("counts are saved as dictionaries")
    return Counter(counts)


def _set(members=()):
    return {check_key(member) for member in members}


def _bytearray(data=b"", encoding=None):
    if isinstance(data, int):
        raise pickle.UnpicklingError("bytes are expected, not their number")
    return bytearray(data) if encoding is None else bytearray(_encode(data, encoding))


_CALLS = {OrderedDict: _ordered, Counter: _counter, set: _set, bytearray: _bytearray}


def _called(function, args):
    """The result of a function that a file may call.

    Raises:
        UnpicklingError: It may not call it.
    """
    import corten

    if type(args) is not tuple:
        raise pickle.UnpicklingError("arguments are saved as a tuple")
    for allowed in _user_globals.values():
        if function is allowed:
            return function(*args)
    if type(function) is type and function in _CALLS:
        return _CALLS[function](*args)
    if _is_stand_in(function):
        return function(*args)
    calls = (complex, corten.Size, corten.device, corten.nn.Parameter, *_functions().values())
    if any(function is allowed for allowed in calls):
        return function(*args)
    shown = getattr(function, "__qualname__", None) or type(function).__name__
    raise pickle.UnpicklingError(f"Trying to call reduce for unrecognized function {shown}")


def _is_stand_in(cls):
    return isinstance(cls, type) and issubclass(cls, StandIn)


def _is_user_class(cls):
    return _is_stand_in(cls) or any(cls is allowed for allowed in _user_globals.values())


class _FromOutside(Exception):
    """Carries an exception of ``persistent_load`` through the machine."""


class Unpickler:
    """The machine: a stack, those below the marks, a memo, and one method per opcode."""

    def __init__(self, file, *, encoding="bytes"):
        self._read, self.readline = file.read, file.readline
        self.encoding = encoding
        self.stack, self.below, self.memo = [], [], {}

    def persistent_load(self, saved_id):
        """Resolves a reference to something outside the pickle."""
        raise pickle.UnpicklingError("unsupported persistent id encountered")

    def load(self):
        """The pickled object.

        Raises:
            UnpicklingError: The file asks for what is not allowed, or makes no sense.
            EOFError: It ends before the object does.
            RuntimeError: A tensor of it makes no sense.
        """
        try:
            return self._run()
        except _FromOutside as error:
            raise error.__cause__ from None
        except (pickle.UnpicklingError, EOFError, RuntimeError, MemoryError):
            raise
        except Exception as error:
            # Objects of the file are not shown: lists that hold one list twice, and so on, have
            # texts of exponential length.
            parts = [str(part)[:300] for part in error.args if isinstance(part, (str, int))]
            raise pickle.UnpicklingError(f"{type(error).__name__}: {' '.join(parts)}") from None

    def _run(self):
        while True:
            opcode = self._read(1)
            if not opcode:
                raise EOFError("Ran out of input")
            if opcode == pickle.STOP:
                return self._pop()
            handler = _HANDLERS.get(opcode)
            if handler is None:
                raise pickle.UnpicklingError(f"Unsupported operand {opcode[0]}")
            handler(self)

    def read(self, count):
        """The next bytes."""
        if count < 0:
            raise pickle.UnpicklingError("negative length")
        # Files make room for what they are asked to read before they look how much there is.
        data = self._read(min(count, _PIECE))
        while len(data) < count and (more := self._read(min(count - len(data), _PIECE))):
            data += more
        if len(data) != count:
            raise EOFError("Ran out of input: pickle data was truncated")
        return data

    def _pop(self):
        if not self.stack:
            raise pickle.UnpicklingError("the stack of the pickle is empty")
        return self.stack.pop()

    def _top(self):
        if not self.stack:
            raise pickle.UnpicklingError("the stack of the pickle is empty")
        return self.stack[-1]

    def _number(self, form):
        return struct.unpack(form, self.read(struct.calcsize(form)))[0]

    def _mark(self):
        self.below.append(self.stack)
        self.stack = []

    def _above_mark(self):
        if not self.below:
            raise pickle.UnpicklingError("the pickle has no mark")
        items, self.stack = self.stack, self.below.pop()
        return items

    def _tuple(self, count):
        if len(self.stack) < count:
            raise pickle.UnpicklingError("the stack of the pickle is empty")
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
        lines = [self.readline(), self.readline()]
        if not all(line.endswith(b"\n") for line in lines):
            raise EOFError("Ran out of input: pickle data was truncated")
        self.stack.append(_find(*(line[:-1].decode("utf-8") for line in lines)))

    def _new_object(self):
        args, cls = self._pop(), self._pop()
        if cls is OrderedDict or cls is corten_parameter():
            made = _called(cls, args)
        elif _is_user_class(cls):
            made = cls.__new__(cls, *args)
        else:
            raise pickle.UnpicklingError(
                f"Can only create new object for nn.Parameter or classes allowlisted via "
                f"`add_safe_globals` but got {_kind(cls)}"
            )
        self.stack.append(made)

    def _reduce(self):
        args, function = self._pop(), self._top()
        self.stack[-1] = _called(function, args)

    def _build(self):
        state, target = self._pop(), self._top()
        if _is_user_class(type(target)):
            if hasattr(target, "__setstate__"):
                target.__setstate__(state)
            else:
                _utils.set_state(target, state)
        elif type(target) is OrderedDict:
            if type(state) is not dict:
                raise pickle.UnpicklingError("the attributes of a dictionary are a dictionary")
            target.__dict__.update(state)
        elif type(target) is corten_parameter():
            target.__setstate__(state)
        else:
            raise pickle.UnpicklingError(
                "Can only build Tensor, Parameter, OrderedDict or types allowlisted via "
                f"`add_safe_globals`, but got {type(target)}"
            )

    def _append_all(self, items):
        target = self._top()
        if _is_stand_in(type(target)):
            target.parts.append(items)
            return
        if type(target) is not list:
            raise pickle.UnpicklingError(f"Can only append to lists, but got {type(target)}")
        target.extend(items)

    def _set_items(self, pairs):
        target = self._top()
        if _is_stand_in(type(target)):
            target.parts.append({})
            target = target.parts[-1]
        if type(target) not in (dict, OrderedDict, Counter):
            raise pickle.UnpicklingError(
                "Can only SETITEM for dict, collections.OrderedDict, collections.Counter, but got "
                f"{type(target)}"
            )
        if len(pairs) % 2:
            raise pickle.UnpicklingError("a key of a dictionary has no value")
        for key, value in zip(pairs[::2], pairs[1::2]):
            target[check_key(key)] = value

    def _set_item(self):
        value, key = self._pop(), self._pop()
        self._set_items([key, value])

    def _persistent(self):
        saved_id = self._pop()
        if type(saved_id) is not tuple:
            raise pickle.UnpicklingError(
                f"persistent_load id must be tuple or int, but got {type(saved_id)}"
            )
        if not saved_id or saved_id[0] not in ("storage", b"storage"):
            raise pickle.UnpicklingError(
                "Only persistent_load of storage is allowed, but got "
                f"{type(saved_id[0]) if saved_id else 'nothing'}"
            )
        try:
            found = self.persistent_load(saved_id)
        except Exception as error:  # of the caller's functions, perhaps: it stays what it is
            raise _FromOutside from error
        self.stack.append(found)

    def _memoize(self, key):
        self.memo[key] = self._top()

    def _remember(self, key):
        if key not in self.memo:
            raise pickle.UnpicklingError(f"Memo value not found at index {key}")
        self.stack.append(self.memo[key])

    def _pushed(make):  # noqa: N805
        def push(self):
            made = make(self)  # which may change the stack for the one below it
            self.stack.append(made)

        return push

    handlers = {
        pickle.PROTO: _proto,
        pickle.GLOBAL: _global,
        pickle.NEWOBJ: _new_object,
        pickle.REDUCE: _reduce,
        pickle.BUILD: _build,
        pickle.BINPERSID: _persistent,
        pickle.MARK: _mark,
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
        pickle.APPEND: lambda self: self._append_all([self._pop()]),
        pickle.APPENDS: lambda self: self._append_all(self._above_mark()),
        pickle.SETITEM: _set_item,
        pickle.SETITEMS: lambda self: self._set_items(self._above_mark()),
        pickle.BINPUT: lambda self: self._memoize(self._number("<B")),
        pickle.LONG_BINPUT: lambda self: self._memoize(self._number("<I")),
        pickle.BINGET: lambda self: self._remember(self._number("<B")),
        pickle.LONG_BINGET: lambda self: self._remember(self._number("<I")),
    }
    del _pushed


_HANDLERS = Unpickler.handlers


def _kind(obj):
    return obj if isinstance(obj, type) else type(obj)


def corten_parameter():
    """The class of parameters."""
    from corten.nn import Parameter

    return Parameter
