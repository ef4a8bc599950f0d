"""The operator registry: ``corten.ops.aten.add.Tensor`` calls one overload.

``python -m corten.ops`` lists the operators; ``--json`` prints everything known about them;
``--missing PACKAGE`` lists the names of PyTorch that a package uses and that are not here.
"""

from __future__ import annotations

import functools
import re

from corten import _C
from corten._schemas import parse_schema


def all():
    """Every overload as a dictionary: name, schema, kind, homes, doc, source, gradient."""
    return _C._ops()


class Overload:
    """One overload of an operator."""

    def __init__(self, name):
        self._qualified = name
        packet, _, overload = name.partition("::")[2].partition(".")
        self.__name__ = f"{packet}.{overload or 'default'}"

    def __call__(self, *args, **kwargs):
        if kwargs and not kwargs.keys().isdisjoint(self._outputs):
            if len(self._outputs) == 1:
                kwargs["out"] = kwargs.pop(self._outputs[0])
            elif kwargs.keys() >= set(self._outputs):
                kwargs["out"] = tuple(kwargs.pop(name) for name in self._outputs)
        return self._as_dispatched(_C._op_call(self._qualified, *args, **kwargs))

    @functools.cached_property
    def _results(self):
        """How results become the dispatcher's: lists where the schema has a list, plain tuples where
        it has several, None where it has none. Functions give tuples, with names for several."""
        returned = self.schema.rpartition("-> ")[2]
        if returned == "()":
            return lambda result: None
        if returned.startswith("("):
            lists = [part.split()[0].endswith("]") for part in returned[1:-1].split(",")]
            if not any(lists):
                return tuple
            return lambda result: tuple(list(x) if many else x for many, x in zip(lists, result))
        return list if returned.endswith("]") else None

    @functools.cached_property
    def _outputs(self):
        """The schema's names of what is written, where they differ from the ``out`` of functions."""
        keywords = self.schema.partition("*, ")[2].rpartition(") ->")[0]
        names = re.findall(r"Tensor\(\w+!\)(?:\[\])? (\w+)", keywords)
        return [] if names == ["out"] else names

    @functools.cached_property
    def schema(self):
        """The schema: a text with its parts as attributes."""
        return parse_schema(_C._op_schema(self._qualified))

    @property
    def _schema(self):
        return self.schema

    @functools.cached_property
    def tags(self):
        """Sets that the operator belongs to, as :class:`corten.Tag`."""
        from corten._tags import tags_of

        return tags_of(self._qualified, self.schema)

    @property
    def is_view(self):
        """Whether the results share memory with an argument that is not written to."""
        return not self.schema.is_mutable and any(one.alias_info is not None for one in self.schema.arguments)

    _name = property(lambda self: self._qualified)
    _opname = property(lambda self: self._qualified)
    op = property(lambda self: self)

    def redispatch(self, keyset, /, *args, **kwargs):
        """The result of a call as if the arguments had the keys of a set."""
        result = _C._op_call_at(self._qualified, _signed(keyset.raw_repr()), *args, **kwargs)
        return result if self._results is None else self._results(result)

    def decompose(self, *args, **kwargs):
        """The result of a call of what the operator is made of, where it is made of others; else
        ``NotImplemented``."""
        from corten._dispatch_keys import DispatchKey

        kernel = self.py_kernels.get(DispatchKey.CompositeImplicitAutograd)
        if kernel is not None:
            return kernel(*args, **kwargs)
        if not self._is_made_of_others:
            return NotImplemented
        # A key without a kernel of its own finds the composite one.
        result = _C._op_call_at(self._qualified, _C._keyset_of("AutogradCPU"), *args, **kwargs)
        return result if self._results is None else self._results(result)

    def _can_decompose(self):
        from corten._dispatch_keys import DispatchKey

        return DispatchKey.CompositeImplicitAutograd in self.py_kernels or self._is_made_of_others

    @functools.cached_property
    def _is_made_of_others(self):
        """Whether the operator is made of others. Overloads for numbers are not: they are other overloads' calls."""
        from corten._tags import _declared

        if not any(key == "CompositeImplicitAutograd" for key, _ in _C._op_kernels(self._qualified)):
            return False
        return _declared().get(self._qualified, ("", (), ""))[2] != "composite wrap_scalar"

    @functools.cached_property
    def py_kernels(self):
        """Functions that were registered by :meth:`py_impl`, by their keys, and modes' and classes'."""
        return {}

    def py_impl(self, key):
        """Registers a function for a dispatch key, or for a class of modes or of tensors."""

        def register(function):
            if key in self.py_kernels:
                raise RuntimeError(f"Trying to override a python impl for {key} on operator {self._qualified}")
            self.py_kernels[key] = function
            if isinstance(key, type):
                from corten.utils._python_dispatch import register_rule

                register_rule(self._qualified, key, _rule_of(function))
            return function

        return register

    def has_kernel_for_dispatch_key(self, key):
        """Whether a kernel is registered for a key."""
        return key in self.py_kernels or _C._dispatch_has_kernel_for_dispatch_key(self._qualified, key)

    def has_kernel_for_any_dispatch_key(self, keys):
        """Whether a kernel is registered for one of the keys of a set."""
        return any(self.has_kernel_for_dispatch_key(key) for key in keys)

    @property
    def _op(self):
        """What the overload calls: itself, as there is nothing in between."""
        return self

    @functools.cached_property
    def _is_composite(self):
        """Whether the operator calls others, and has no kernel of its own."""
        return self._can_decompose()

    def _as_dispatched(self, result):
        return result if self._results is None else self._results(result)

    @property
    def _overloadname(self):
        return self.__name__.partition(".")[2] or "default"

    @property
    def namespace(self):
        """``aten``, or another one."""
        return self._qualified.partition("::")[0]

    @property
    def overloadpacket(self):
        """The operator that this is an overload of."""
        packet = self._qualified.partition("::")[2].partition(".")[0]
        return getattr(__getattr__(self.namespace), packet)

    def name(self):
        """``aten::add.Tensor``."""
        return self._qualified

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return Overload, (self._qualified,)

    def __str__(self):
        packet = self.__name__.partition(".")[0]
        return f"{self.namespace}.{packet}.{self._overloadname}"

    def __repr__(self):
        packet = self.__name__.partition(".")[0]
        return f"<OpOverload(op='{self.namespace}.{packet}', overload='{self._overloadname}')>"


def _signed(word):
    return word - (1 << 64) if word >> 63 else word


def _rule_of(function):
    """A function that is registered for a mode, as what takes calls over from it."""
    return lambda mode, func, types, args, kwargs: function(mode, *args, **(kwargs or {}))


class Packet:
    """The overloads of one operator; calling it picks the first that accepts the arguments."""

    def __init__(self, name):
        self._qualified_op_name = name
        self.__name__ = name.partition("::")[2]
        self._overloads = _C._op_overloads(name)

    def overloads(self):
        """The names of the overloads."""
        return [name or "default" for name in self._overloads]

    def __getattr__(self, overload):
        name = "" if overload == "default" else overload
        if overload.startswith("__") or name not in self._overloads:
            return _absent("overload", *self._qualified_op_name.split("::"), overload)
        qualified = f"{self._qualified_op_name}.{name}" if name else self._qualified_op_name
        found = Overload(qualified)
        setattr(self, overload, found)
        return found

    def __call__(self, *args, **kwargs):
        error = None
        for overload in self._overloads:
            try:
                return getattr(self, overload or "default")(*args, **kwargs)
            except TypeError as refused:
                error = error or refused
        raise error

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return Packet, (self._qualified_op_name,)

    def __str__(self):
        return self._qualified_op_name.replace("::", ".")

    def __repr__(self):
        return f"<OpOverloadPacket(op='{self._qualified_op_name.replace('::', '.')}')>"


def _absent(kind, space, name, *overload):
    """An operator of PyTorch that is not here.

    Raises:
        AttributeError: PyTorch has none of this name either.
    """
    from corten._absent import _operators

    found = None
    if not (name.startswith("__") or overload and overload[0].startswith("__")):
        found = getattr(_operators, kind)(space, name, *overload)
    if found is not None:
        return found
    if overload:
        raise AttributeError(f"{space}::{name} has no overload {overload[0]!r}")
    raise AttributeError(f"'_OpNamespace' '{space}' object has no attribute '{name}'")


def _packed_packet(name):
    """An operator that takes packed parameters, or nothing."""
    from corten import _quantized

    return _quantized.packet(name)


def _higher_order(name):
    """An operator that takes functions, or nothing."""
    import corten._higher_order_ops  # noqa: F401
    from corten._ops import higher_order

    return higher_order.get(name)


def _size_packet(name):
    """An operator that gives sizes, or nothing."""
    from corten import _size_operators

    return _size_operators.packet(name)


class Namespace:
    """The operators of one namespace."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, operator):
        qualified = f"{self._name}::{operator}"
        if operator.startswith("__") and operator.endswith("__") and not _C._op_overloads(qualified):
            raise AttributeError(operator)
        if self._name == "higher_order" and (found := _higher_order(operator)) is not None:
            return found
        if self._name == "aten" and (found := _size_packet(operator)) is not None:
            pass
        elif _C._op_overloads(qualified):
            found = Packet(qualified)
        elif self._name == "quantized" and (found := _packed_packet(operator)) is not None:
            pass
        else:
            found = _absent("packet", self._name, operator)
        setattr(self, operator, found)
        return found


#: Libraries of packages whose operators are in the registry: folder and name of the file.
_BUILT_IN = {
    ("torchvision", "_C"), ("torchvision", "_C_stable"), ("torchvision", "image"), ("torchvision", "image_stable"),
}

#: The paths that were given to `load_library`.
loaded_libraries = set()


def load_library(path):
    """Loads a library that registers operators: one that was built for PyTorch's stable C ABI, or with
    ``corten_library.h``.

    Libraries of the stable ABI, which PyTorch loads as well, register their operators and kernels when they are
    loaded. Of others the function ``corten_library_init`` is called once, with the functions of the C interface.
    The operators of torchvision are in the registry, so that there is nothing to load.

    Raises:
        OSError: The library cannot be loaded, as all that were built for PyTorch's C++ interface.
        RuntimeError: An operator cannot be registered, or the library was built for another version of the
            interface; other classes as its function fails.
    """
    import os

    path = os.path.realpath(path)
    folder, name = os.path.split(path)
    if (os.path.basename(folder), name.partition(".")[0]) not in _BUILT_IN:
        refusal = _C._load_library(path)
        if isinstance(refusal, str):
            raise OSError(refusal)
    loaded_libraries.add(path)


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    if name in globals():
        return globals()[name]
    globals()[name] = found = Namespace(name)
    return found


def _main(arguments):
    import sys

    if "--missing" in arguments:
        from corten._missing import main

        return main(arguments)
    if "--json" in arguments:
        import json

        json.dump(all(), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        for op in all():
            sys.stdout.write(op["schema"] + "\n")


if __name__ == "__main__":
    import sys as _sys

    _main(_sys.argv[1:])
