"""Pickles of TorchScript archives: a reader that knows only the opcodes and names they are made of, and
the writer. The functions ``build_intlist`` and others are names that archives refer to."""

from __future__ import annotations

import struct
from collections import OrderedDict

import corten
from corten import _utils
from corten.storage import untyped

_LISTS = {
    "build_intlist": "int", "build_doublelist": "float", "build_boollist": "bool", "build_tensorlist": "Tensor",
    "build_complexlist": "complex",
}
_MARK = object()


class Global:
    """A name of another module in a pickle."""

    __slots__ = ("module", "name")

    def __init__(self, module, name):
        self.module, self.name = module, name


class Begun:
    """An object before its attributes: the name of its class."""

    __slots__ = ("name",)

    def __init__(self, name):
        self.name = name


class Reader:
    """Reads one pickle. ``find_class`` gives the class of a qualified name, ``make`` an object of a class
    with its state, ``storage`` the storage of a reference."""

    def __init__(self, data, find_class, make, storage):
        self.data, self.position = memoryview(data), 0
        self.find_class, self.make, self.storage = find_class, make, storage
        self.stack, self.memo = [], {}

    def load(self):
        """The object.

        Raises:
            RuntimeError: The pickle is damaged, or holds something that archives do not.
        """
        try:
            while True:
                code = self.take(1)[0]
                if code == 0x2E:  # STOP
                    return self.stack.pop()
                action = _ACTIONS.get(code)
                if action is None:
                    raise RuntimeError(f"Unknown opcode for unpickling at {self.position - 1}: {code}")
                action(self)
        except (IndexError, KeyError, TypeError, ValueError, struct.error, AttributeError) as error:
            raise RuntimeError(f"the pickle of a TorchScript archive is damaged: {error!r:.200}") from error

    def take(self, count):
        """The next bytes."""
        end = self.position + count
        if count < 0 or end > len(self.data):
            raise RuntimeError("Unexpected end of pickler archive.")
        found = self.data[self.position:end]
        self.position = end
        return found

    def line(self):
        """The next line of text."""
        found = bytearray()
        while (byte := self.take(1)[0]) != 0x0A:
            found.append(byte)
        return found.decode()

    def items(self):
        """What lies above the last mark."""
        stack = self.stack
        place = len(stack) - 1
        while stack[place] is not _MARK:
            place -= 1
            if place < 0:
                raise RuntimeError("Mark stack out of range")
        found = stack[place + 1:]
        del stack[place:]
        return found

    def number(self, form):
        """The next number of a fixed size."""
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def reduce(self):
        """A call of a name of the fixed list."""
        arguments, function = self.stack.pop(), self.stack.pop()
        if type(arguments) is not tuple:
            raise RuntimeError("a call in a pickle has no tuple of arguments")
        if not isinstance(function, Global):
            raise RuntimeError("a pickle calls something that is no function")
        self.stack.append(self.called(function, arguments))

    def called(self, function, arguments):
        """The result of a call."""
        module, name = function.module, function.name
        if module == "torch.jit._pickle":
            if name in _LISTS:
                return list(arguments[0])
            if name in ("restore_type_tag", "build_tensor_from_id"):
                return arguments[0]
        if module == "torch._utils" and name in ("_rebuild_tensor_v2", "_rebuild_parameter", "_rebuild_qtensor"):
            return self.rebuilt(name, arguments)
        if (module, name) == ("torch", "device"):
            return corten.device(*arguments)
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict()
        if module.startswith("__torch__"):
            return self.find_class(f"{module}.{name}").of_values(arguments)
        raise RuntimeError(f"a TorchScript archive may not refer to {module[:100]}.{name[:100]}")

    def rebuilt(self, name, arguments):
        """A tensor of a storage."""
        if name == "_rebuild_parameter":
            return corten.nn.Parameter(arguments[0], bool(arguments[1]))
        return getattr(_utils, name)(*arguments)

    def build(self):
        """An object with its attributes."""
        state, begun = self.stack.pop(), self.stack.pop()
        if not isinstance(begun, Begun):
            raise RuntimeError("a pickle sets the state of something that has none")
        self.stack.append(self.make(self.find_class(begun.name), state))

    def new_object(self):
        """An object whose attributes follow."""
        self.stack.pop()
        kind = self.stack.pop()
        if not isinstance(kind, Global) or not kind.module.startswith("__torch__"):
            raise RuntimeError("a pickle makes an object of something that is no class of the archive")
        self.stack.append(Begun(f"{kind.module}.{kind.name}"))

    def reference(self):
        """A storage."""
        self.stack.append(self.storage(self.stack.pop()))

    def set_items(self):
        """Items of a dictionary."""
        found = self.items()
        target = self.stack[-1]
        if not isinstance(target, dict):
            raise RuntimeError("a pickle sets items of something that is no dictionary")
        for key, value in zip(found[::2], found[1::2]):
            target[key] = value

    def extend(self, found):
        """Elements of a list."""
        if type(self.stack[-1]) is not list:
            raise RuntimeError("a pickle appends to something that is no list")
        self.stack[-1].extend(found)


def _push(make):
    return lambda reader: reader.stack.append(make(reader))


def _text(form):
    return lambda reader: bytes(reader.take(reader.number(form))).decode()


def _tuple_of(count):
    def action(reader):
        found = tuple(reader.stack[-count:])
        if len(found) != count:
            raise RuntimeError("the stack of a pickle is empty")
        reader.stack[-count:] = [found]

    return action


def _put(form):
    return lambda reader: reader.memo.__setitem__(reader.number(form), reader.stack[-1])


def _get(form):
    return _push(lambda reader: reader.memo[reader.number(form)])


def _long(reader):
    return int.from_bytes(reader.take(reader.number("B")), "little", signed=True)


def _append(reader):
    item = reader.stack.pop()
    reader.extend([item])


def _set_item(reader):
    value, key = reader.stack.pop(), reader.stack.pop()
    reader.stack[-1][key] = value


_ACTIONS = {
    0x80: lambda reader: reader.take(1), 0x28: _push(lambda reader: _MARK), 0x4E: _push(lambda reader: None),
    0x88: _push(lambda reader: True), 0x89: _push(lambda reader: False), 0x4B: _push(lambda reader: reader.number("B")),
    0x4D: _push(lambda reader: reader.number("H")), 0x4A: _push(lambda reader: reader.number("i")), 0x8A: _push(_long),
    0x47: _push(lambda reader: struct.unpack(">d", reader.take(8))[0]), 0x58: _push(_text("I")),
    0x8C: _push(_text("B")), 0x5D: _push(lambda reader: []), 0x29: _push(lambda reader: ()),
    0x7D: _push(lambda reader: {}), 0x74: _push(lambda reader: tuple(reader.items())), 0x85: _tuple_of(1),
    0x86: _tuple_of(2), 0x87: _tuple_of(3), 0x6C: _push(lambda reader: list(reader.items())),
    0x65: lambda reader: reader.extend(reader.items()), 0x61: _append, 0x75: lambda reader: reader.set_items(),
    0x73: _set_item, 0x71: _put("B"), 0x72: _put("I"), 0x68: _get("B"), 0x6A: _get("I"),
    0x63: _push(lambda reader: Global(reader.line(), reader.line())), 0x52: lambda reader: reader.reduce(),
    0x81: lambda reader: reader.new_object(), 0x62: lambda reader: reader.build(),
    0x51: lambda reader: reader.reference(),
}


class Writer:
    """Writes one pickle, with the opcodes that readers of archives know. ``class_of`` gives the name of
    an object's class and its attributes with their types; storages are kept in ``storages``."""

    def __init__(self, class_of):
        self.class_of, self.parts, self.memo, self.kept = class_of, [b"\x80\x02"], {}, []
        self.storages = {}

    def dump(self, value, kind=None):
        """The bytes of the pickle of a value of a type."""
        self.push(value, kind)
        self.parts.append(b".")
        return b"".join(self.parts)

    def put(self, key):
        """Remembers what was written last."""
        number = self.memo[key] = len(self.memo)
        self.parts.append(b"q" + bytes([number]) if number < 256 else b"r" + struct.pack("<I", number))

    def got(self, key):
        """Whether something was written already, and is referred to."""
        number = self.memo.get(key)
        if number is not None:
            self.parts.append(b"h" + bytes([number]) if number < 256 else b"j" + struct.pack("<I", number))
        return number is not None

    def name(self, module, name):
        """A function or class."""
        if not self.got((module, name)):
            self.parts.append(f"c{module}\n{name}\n".encode())
            self.put((module, name))

    def text(self, value):
        """A string."""
        if not self.got(("str", value)):
            data = value.encode()
            self.parts.append(b"X" + struct.pack("<I", len(data)) + data)
            self.put(("str", value))

    def integer(self, value):
        """An integer of 64 bits."""
        if 0 <= value < 256:
            self.parts.append(b"K" + bytes([value]))
        elif 0 <= value < 1 << 16:
            self.parts.append(b"M" + struct.pack("<H", value))
        elif -(1 << 31) <= value < 1 << 31:
            self.parts.append(b"J" + struct.pack("<i", value))
        else:
            self.parts.append(b"\x8a\x08" + struct.pack("<q", value))

    def push(self, value, kind=None):
        """A value; ``kind`` is the type that was declared."""
        while kind is not None and kind.name in ("Optional", "Final"):
            kind = kind.parts[0]
        if isinstance(value, (bool, type(None))):
            self.parts.append({True: b"\x88", False: b"\x89", None: b"N"}[value])
        elif isinstance(value, corten.Tensor):
            self.tensor(value)
        elif isinstance(value, float) or kind is not None and kind.name == "float" and type(value) is int:
            self.parts.append(b"G" + struct.pack(">d", value))
        elif type(value) is int:
            self.integer(value)
        elif isinstance(value, str):
            self.text(value)
        elif isinstance(value, corten.device):
            self.name("torch", "device")
            self.text(str(value))
            self.parts.append(b"\x85R")
        else:
            self.container(value, kind)

    def container(self, value, kind):
        """A list, tuple, dictionary or object."""
        if isinstance(value, (corten.dtype, corten.layout, corten.memory_format)):
            from corten.jit._operators import number_of

            self.integer(number_of(value))
        elif isinstance(value, list):
            self.list(value, kind)
        elif isinstance(value, dict):
            self.dict(value, kind)
        elif isinstance(value, tuple) and not hasattr(value, "_fields"):
            parts = kind.parts if kind is not None and kind.name == "Tuple" else ()
            self.tuple(value, parts if len(parts) == len(value) else [None] * len(value))
        else:
            self.object(value)

    def tuple(self, values, kinds):
        """A tuple."""
        if not values:
            self.parts.append(b")")
            return
        self.parts.append(b"(")
        for value, kind in zip(values, kinds):
            self.push(value, kind)
        self.parts.append(b"t")

    def list(self, values, kind):
        """A list with the type of its elements."""
        if kind is None or kind.name != "List":
            from corten.jit._types import of_value

            kind = of_value(values)
        inner = str(kind.parts[0])
        named = {element: name for name, element in _LISTS.items()}.get(inner)
        self.name("torch.jit._pickle", named or "restore_type_tag")
        self.parts.append(b"(](")
        for value in values:
            self.push(value, kind.parts[0])
        self.parts.append(b"e")
        if named is None:
            self.text(f"List[{inner}]")
        self.parts.append(b"tR")

    def dict(self, values, kind):
        """A dictionary with the types of its keys and values."""
        if kind is None or kind.name != "Dict":
            from corten.jit._types import of_value

            kind = of_value(values)
        self.name("torch.jit._pickle", "restore_type_tag")
        self.parts.append(b"(}(")
        for key, value in values.items():
            self.push(key, kind.parts[0])
            self.push(value, kind.parts[1])
        self.parts.append(b"u")
        self.text(str(kind))
        self.parts.append(b"tR")

    def object(self, value):
        """An object of a class, once."""
        if self.got(id(value)):
            return
        self.kept.append(value)
        name, attributes = self.class_of(value)
        module, _, last = name.rpartition(".")
        self.name(module, last)
        if hasattr(attributes, "value"):
            self.parts.append(b")\x81")
            self.push(attributes.value)
            self.parts.append(b"b")
            self.put(id(value))
            return
        if not isinstance(attributes, dict):
            self.tuple(tuple(attributes), [None] * len(attributes))
            self.parts.append(b"R")
            return
        self.parts.append(b")\x81}(")
        for key, (item, kind) in attributes.items():
            self.text(key)
            self.push(item, kind)
        self.parts.append(b"ub")
        self.put(id(value))

    def tensor(self, value):
        """A tensor, over a storage that follows in a record of its own; once, whoever has it."""
        if self.got(("tensor", id(value))):
            return
        self.kept.append(value)
        rebuild, arguments = _utils.reduce_tensor(value.detach().requires_grad_(value.requires_grad))
        if rebuild is not _utils._rebuild_tensor_v2 or len(arguments) != 6:
            raise RuntimeError("tensors of this layout or dtype have no place in an archive of TorchScript")
        typed = arguments[0]
        storage = untyped(typed)
        key, _ = self.storages.setdefault(storage._cdata, (str(len(self.storages)), storage))
        self.name("torch._utils", rebuild.__name__)
        self.parts.append(b"((")
        self.text("storage")
        self.name("torch", typed._pickle_storage_type())
        self.text(key)
        self.text(str(storage.device))
        self.integer(storage.nbytes() // typed.dtype.itemsize)
        self.parts.append(b"tQ")
        for part in arguments[1:4]:
            self.push(part)
        self.push(bool(arguments[4]))
        self.name("collections", "OrderedDict")
        self.parts.append(b")RtR")
        self.put(("tensor", id(value)))
