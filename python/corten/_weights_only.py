"""Reading pickles of tensors without running what is in them: the rules of the native machine.

Only the opcodes that saved weights need are understood, and only functions and classes of a fixed
list (and those the user adds) are called. Whatever else is in a file, the answer is an exception.
"""

from __future__ import annotations

import _compat_pickle
import contextlib
import pickle
from collections import Counter, OrderedDict

from . import _C, _utils
from .storage import TypedStorage

_user_globals = {}

_DTYPES = (
    *_utils.dtypes(aliases=True), "per_tensor_affine", "per_tensor_symmetric", "per_channel_affine",
    "per_channel_symmetric", "per_channel_affine_float_qparams",
)
_REBUILDERS = (
    "_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_parameter",
    "_rebuild_parameter_with_state", "_rebuild_sparse_tensor", "_rebuild_meta_tensor_no_storage",
    "_rebuild_device_tensor_from_cpu_tensor", "_rebuild_device_tensor_from_numpy",
    "_rebuild_qtensor", "_rebuild_block_tensor",
)
_BLOCKED = ("sys", "os", "posix", "nt")
#: How many parts a key of a dictionary may have: hashing visits them all, on the C stack.
_LARGEST_KEY = 1000


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
    if last in (*_utils.STORAGE_NAMES, "UntypedStorage"):
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
    """The rules of the machine, which runs natively: what names mean, what may be called and changed."""

    #: What saved weights need.
    opcodes = b"".join((
        pickle.PROTO, pickle.GLOBAL, pickle.NEWOBJ, pickle.REDUCE, pickle.BUILD, pickle.BINPERSID, pickle.MARK,
        pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE, pickle.EMPTY_TUPLE, pickle.EMPTY_LIST, pickle.EMPTY_DICT,
        pickle.EMPTY_SET, pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.LONG1, pickle.BINFLOAT,
        pickle.BINUNICODE, pickle.SHORT_BINSTRING, pickle.BINSTRING, pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2,
        pickle.TUPLE3, pickle.APPEND, pickle.APPENDS, pickle.SETITEM, pickle.SETITEMS, pickle.BINPUT,
        pickle.LONG_BINPUT, pickle.BINGET, pickle.LONG_BINGET,
    ))
    ordered_dict, typed_storage = OrderedDict, TypedStorage
    rebuild_tensor = staticmethod(_utils._rebuild_tensor_v2)
    find_class, call = staticmethod(_find), staticmethod(_called)

    def __init__(self, file, *, encoding="bytes"):
        self._file, self.encoding = file, encoding

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
            return _C._unpickle(self._file, self)
        except _FromOutside as error:
            raise error.__cause__ from None
        except (pickle.UnpicklingError, EOFError, RuntimeError, MemoryError):
            raise
        except Exception as error:
            # Objects of the file are not shown: lists that hold one list twice, and so on, have
            # texts of exponential length.
            parts = [str(part)[:300] for part in error.args if isinstance(part, (str, int))]
            raise pickle.UnpicklingError(f"{type(error).__name__}: {' '.join(parts)}") from None

    @staticmethod
    def create(cls, args):
        """A new object of a class, not initialised."""
        if cls is OrderedDict or cls is corten_parameter():
            return _called(cls, args)
        if _is_user_class(cls):
            return cls.__new__(cls, *args)
        raise pickle.UnpicklingError(
            f"Can only create new object for nn.Parameter or classes allowlisted via "
            f"`add_safe_globals` but got {_kind(cls)}"
        )

    @staticmethod
    def build(target, state):
        """Gives an object its attributes."""
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

    @staticmethod
    def append_all(target, items):
        """Adds to what is no list."""
        if not _is_stand_in(type(target)):
            raise pickle.UnpicklingError(f"Can only append to lists, but got {type(target)}")
        target.parts.append(items)

    @staticmethod
    def set_items(target, pairs):
        """Adds to a dictionary of any class, by keys of any size."""
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

    def persistent(self, saved_id):
        """Resolves a reference, of which only those to storages are allowed."""
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
            return self.persistent_load(saved_id)
        except Exception as error:  # of the caller's functions, perhaps: it stays what it is
            raise _FromOutside from error


def _kind(obj):
    return obj if isinstance(obj, type) else type(obj)


def corten_parameter():
    """The class of parameters."""
    from corten.nn import Parameter

    return Parameter
