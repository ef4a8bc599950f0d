"""Modules that hold modules or parameters."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from itertools import chain, islice

import corten
from corten.nn.parameter import Parameter

from .module import Module, _addindent

__all__ = ["Container", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"]


class Container(Module):
    """Older base of containers."""

    def __init__(self, **kwargs):
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


class _Numbered(Module):
    """Children named by their positions."""

    def _slot(self, index):
        """The name of position `index`."""
        index = operator.index(index)
        size = len(self)
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of range")
        return next(islice(self._modules, index % size, None))

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __getitem__(self, index):
        if isinstance(index, slice):
            return self._of(list(self._modules.items())[index])
        return self._modules[self._slot(index)]

    def __setitem__(self, index, module):
        setattr(self, self._slot(index), module)

    def __delitem__(self, index):
        if isinstance(index, slice):
            for name in list(self._modules)[index]:
                delattr(self, name)
        else:
            delattr(self, self._slot(index))
        self._renumber(list(self._modules.values()))

    def _renumber(self, modules):
        self._modules = {str(i): module for i, module in enumerate(modules)}

    def pop(self, index):
        """Removes and returns the module at ``index``."""
        module = self[index]
        del self[index]
        return module

    def append(self, module):
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index, module):
        """Adds a module before ``index``."""
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._renumber(modules)

    def __dir__(self):
        return [name for name in super().__dir__() if not name.isdigit()]


class Sequential(_Numbered):
    """Modules called one after another, each with the result of the one before."""

    def __init__(self, *args):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            named = args[0].items()
        else:
            named = ((str(i), module) for i, module in enumerate(args))
        for name, module in named:
            self.add_module(name, module)

    def _of(self, items):
        return type(self)(OrderedDict(items))

    def forward(self, input):
        for module in self:
            input = module(input)
        return input

    def insert(self, index, module):
        """Adds a module before ``index``."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        size = len(self)
        if not -size <= index <= size:
            raise IndexError(f"Index out of range: {index}")
        super().insert(index, module)
        return self

    def extend(self, sequential):
        """Adds all modules of another sequence."""
        for module in sequential:
            self.append(module)
        return self

    def __add__(self, other):
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return Sequential(*self, *other)

    def __iadd__(self, other):
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return self.extend(list(other))

    def __mul__(self, times):
        if not isinstance(times, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(times)}")
        if times <= 0:
            raise ValueError(f"Non-positive multiplication factor {times} for {type(self)}")
        return Sequential(*(module for _ in range(times) for module in self))

    __rmul__ = __mul__

    def __imul__(self, times):
        repeated = self * times
        return self.extend(list(repeated)[len(self):])


class ModuleList(_Numbered):
    """A list of modules, each registered."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self += modules

    def _of(self, items):
        return type(self)(module for _, module in items)

    def __iadd__(self, modules):
        return self.extend(modules)

    def __add__(self, other):
        return ModuleList(chain(self, other))

    def extend(self, modules):
        """Adds all modules of an iterable."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}"
            )
        for i, module in enumerate(list(modules), len(self)):
            self.add_module(str(i), module)
        return self

    def __repr__(self):
        """Runs of equal modules are written once with their count."""
        texts = [repr(module) for module in self]
        if not texts:
            return f"{self._get_name()}()"
        lines, start = [], 0
        for i in range(1, len(texts) + 1):
            if i < len(texts) and texts[i] == texts[start]:
                continue
            count = i - start
            if count == 1:
                text = f"({start}): {texts[start]}"
            else:
                text = f"({start}-{i - 1}): {count} x {texts[start]}"
            lines.append(_addindent(text, 2))
            start = i
        body = "\n  ".join(lines)
        return f"{self._get_name()}(\n  {body}\n)"


class ModuleDict(Module):
    """A dictionary of modules, each registered."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key):
        return self._modules[key]

    def __setitem__(self, key, module):
        self.add_module(key, module)

    def __delitem__(self, key):
        del self._modules[key]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key):
        return key in self._modules

    def clear(self):
        """Removes all modules."""
        self._modules.clear()

    def pop(self, key):
        """Removes and returns the module named ``key``."""
        return self._modules.pop(key)

    def keys(self):
        """The names."""
        return self._modules.keys()

    def items(self):
        """Pairs of name and module."""
        return self._modules.items()

    def values(self):
        """The modules."""
        return self._modules.values()

    def update(self, modules):
        """Adds modules from a mapping or from pairs."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleDict.update should be called with an iterable of key/value pairs, but got "
                f"{type(modules).__name__}"
            )
        for key, module in _pairs(modules, "ModuleDict"):
            self[key] = module


def _pairs(source, name):
    """The items of a mapping, or pairs checked to be pairs."""
    if isinstance(source, (Mapping, ModuleDict, ParameterDict)):
        yield from source.items()
        return
    for j, pair in enumerate(source):
        if not isinstance(pair, Iterable):
            raise TypeError(
                f"{name} update sequence element #{j} should be Iterable; is {type(pair).__name__}"
            )
        if len(pair) != 2:
            raise ValueError(
                f"{name} update sequence element #{j} has length {len(pair)}; 2 is required"
            )
        yield pair


def _held(value):
    """Tensors become parameters; other values stay."""
    if isinstance(value, corten.Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


def _described(key, value, kind_of=corten.typename):
    if not isinstance(value, corten.Tensor):
        return f"  ({key}): Object of type: {type(value).__name__}"
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    size = "x".join(str(n) for n in value.size())
    device = f" (GPU {value.get_device()})" if value.is_cuda else ""
    return f"  ({key}): {kind} containing: [{kind_of(value)} of size {size}{device}]"


class ParameterList(Module):
    """A list whose tensors are parameters."""

    def __init__(self, values=None):
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def _slot(self, index):
        index = operator.index(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range")
        return str(index % len(self))

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(self[i] for i in range(*index.indices(len(self))))
        return getattr(self, self._slot(index))

    def __setitem__(self, index, value):
        setattr(self, self._slot(index), _held(value))

    def __len__(self):
        return self._size

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __iadd__(self, values):
        return self.extend(values)

    def __dir__(self):
        return [name for name in super().__dir__() if not name.isdigit()]

    def append(self, value):
        """Adds a value at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values):
        """Adds all values of an iterable."""
        if not isinstance(values, Iterable) or isinstance(values, corten.Tensor):
            raise TypeError(
                "ParameterList.extend should be called with an iterable, but got "
                f"{type(values).__name__}"
            )
        for value in values:
            self.append(value)
        return self

    def extra_repr(self):
        return "\n".join(_described(i, value, lambda x: x.dtype) for i, value in enumerate(self))

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary whose tensors are parameters."""

    def __init__(self, parameters=None):
        super().__init__()
        self._keys = {}
        if parameters is not None:
            self.update(parameters)

    @staticmethod
    def _attribute(key):
        if not isinstance(key, str):
            raise TypeError(
                f"Index given to ParameterDict cannot be used as a key as it is not a string "
                f"(type is '{type(key).__name__}'). Open an issue on github if you need "
                "non-string keys."
            )
        return key

    def __getitem__(self, key):
        return getattr(self, self._attribute(key))

    def __setitem__(self, key, value):
        self._keys[key] = None
        setattr(self, self._attribute(key), _held(value))

    def __delitem__(self, key):
        del self._keys[key]
        delattr(self, self._attribute(key))

    def __len__(self):
        return len(self._keys)

    def __iter__(self):
        return iter(self._keys)

    def __reversed__(self):
        return reversed(list(self._keys))

    def __contains__(self, key):
        return key in self._keys

    def copy(self):
        """A new dictionary of the same values."""
        return ParameterDict(OrderedDict((key, self[key]) for key in self._keys))

    def setdefault(self, key, default=None):
        """The value of ``key``, set to ``default`` if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self):
        """Removes all values."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key):
        """Removes and returns the value of ``key``."""
        value = self[key]
        del self[key]
        return value

    def popitem(self):
        """Removes and returns the last pair."""
        key, _ = self._keys.popitem()
        value = self[key]
        delattr(self, self._attribute(key))
        return key, value

    def get(self, key, default=None):
        """The value of ``key``, or ``default``."""
        return self[key] if key in self else default

    def fromkeys(self, keys, default=None):
        """A new dictionary with the value ``default`` for each key."""
        return ParameterDict((key, default) for key in keys)

    def keys(self):
        """The names."""
        return self._keys.keys()

    def items(self):
        """Pairs of name and value."""
        return ((key, self[key]) for key in self._keys)

    def values(self):
        """The values."""
        return (self[key] for key in self._keys)

    def update(self, parameters):
        """Adds values from a mapping or from pairs."""
        if not isinstance(parameters, Iterable):
            raise TypeError(
                "ParametersDict.update should be called with an iterable of key/value pairs, but "
                f"got {type(parameters).__name__}"
            )
        pairs = list(_pairs(parameters, "ParameterDict"))
        if isinstance(parameters, dict) and not isinstance(parameters, OrderedDict):
            pairs.sort(key=lambda pair: pair[0])
        for key, value in pairs:
            self[key] = value

    def extra_repr(self):
        return "\n".join(_described(key, value) for key, value in self.items())

    def __call__(self, input):
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other):
        joined = self.copy()
        joined.update(other)
        return joined

    def __ror__(self, other):
        joined = ParameterDict(OrderedDict(other.items()))
        joined.update(self)
        return joined

    def __ior__(self, other):
        self.update(other)
        return self
