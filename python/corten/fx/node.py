"""``Node``: one operation of a graph, and what it is printed as."""

from __future__ import annotations

import builtins
import inspect
import operator
import types
import typing

import corten
from corten import _C, ops

from .immutable_collections import immutable_dict, immutable_list

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

#: Types that annotations of passes name.
Target = typing.Union[typing.Callable[..., typing.Any], str]
BaseArgumentTypes = typing.Union[
    str, int, float, bool, complex, corten.dtype, corten.Tensor, corten.device, corten.memory_format,
    corten.layout,
]
base_types = typing.get_args(BaseArgumentTypes)
Argument = typing.Any

_SIDE_EFFECTS = set()
_RANDOM = frozenset(_C._ops_tagged("impure"))


def has_side_effect(fn):
    """Says that calls of a function stay although nothing uses their results."""
    _SIDE_EFFECTS.add(fn)
    return fn


def map_aggregate(a, fn):
    """Applies ``fn`` to every leaf of nested tuples, lists, dictionaries and slices."""
    if isinstance(a, tuple):
        made = tuple(map_aggregate(item, fn) for item in a)
        return made if not hasattr(a, "_fields") else type(a)(*made)
    if isinstance(a, list):
        return immutable_list(map_aggregate(item, fn) for item in a)
    if isinstance(a, dict):
        return immutable_dict((key, map_aggregate(item, fn)) for key, item in a.items())
    if isinstance(a, slice):
        return slice(*(map_aggregate(item, fn) for item in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a, fn):
    """Applies ``fn`` to every node in nested arguments."""
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda leaf: fn(leaf) if isinstance(leaf, Node) else leaf)


def _find_in_namespaces(func):
    """The public name of a native function."""
    from corten import _C

    name = func.__name__
    # What is there is not in the namespace of the package.
    if hasattr(_C._nn, name):
        return f"torch._C._nn.{name}"
    for space in ("linalg", "fft", "special"):
        if name.startswith(f"{space}_"):
            return f"torch._C._{space}.{name}"
    return f"torch.{name}"


def _qualified_name(func):
    """The name by which generated code finds a function."""
    if isinstance(func, (ops.Overload, ops.Packet)):
        return f"torch.ops.{func}"
    name = getattr(func, "__name__", None)
    if name is None:
        raise RuntimeError(f"{func!r} has no name")
    if getattr(builtins, name, None) is func:
        return name
    module = getattr(func, "__module__", None) or ""
    if isinstance(func, (types.BuiltinMethodType, types.BuiltinFunctionType)) and module.split(".")[0] in (
        "corten", "torch"
    ):
        return _find_in_namespaces(func)
    if isinstance(func, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        return f"torch.Tensor.{name}"
    if module == "corten._module_functions":
        module = "corten"
    if module.startswith("corten.nn.functional"):
        module = "corten.nn.functional"
    module = module.replace("_operator", "operator")
    if module == "corten" or module.startswith("corten."):
        module = "torch" + module[len("corten"):]
    return f"{module}.{name}"


_get_qualified_name = _qualified_name


def _type_repr(obj):
    """A type as annotations write it."""
    if isinstance(obj, type) and not isinstance(obj, types.GenericAlias):
        module = obj.__module__
        if module == "builtins":
            return obj.__qualname__
        if issubclass(obj, corten.Tensor) and obj is corten.Tensor:
            return "torch.Tensor"
        return f"{module}.{obj.__qualname__}".replace("corten.", "torch.", 1)
    if obj is ...:
        return "..."
    if isinstance(obj, types.FunctionType):
        return obj.__name__
    return repr(obj).replace("corten.", "torch.")


def _format_arg(arg):
    if isinstance(arg, list):
        return "[" + ", ".join(map(_format_arg, arg)) + "]"
    if isinstance(arg, tuple):
        return "(" + ", ".join(map(_format_arg, arg)) + ("," if len(arg) == 1 else "") + ")"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{key}: {_format_arg(item)}" for key, item in arg.items()) + "}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


class Node:
    """One operation of a graph. ``op`` says of what kind, ``target`` what is called or read, and
    ``args`` and ``kwargs`` hold other nodes where their values are needed."""

    def __init__(self, graph, name, op, target, args, kwargs, return_type=None):
        if op == "call_function":
            if not callable(target):
                raise ValueError(
                    f"Node [graph = {graph}, name = '{name}'] target {target} has type "
                    f"{type(target)} but a Callable is expected"
                )
        elif not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target)} "
                "but a str is expected"
            )
        self.graph, self.name, self.op, self.target = graph, name, op, target
        self.type = return_type
        self.meta = {}
        self.users = {}
        self._input_nodes = {}
        self._prev = self._next = self
        self._erased = False
        self._args, self._kwargs = (), {}
        self._set(args, kwargs)

    def _set(self, args, kwargs):
        for old in self._input_nodes:
            old.users.pop(self, None)
        self._input_nodes = {}

        def note(node):
            self._input_nodes.setdefault(node)
            node.users.setdefault(self)
            return node

        self._args, self._kwargs = map_arg(tuple(args), note), map_arg(dict(kwargs), note)

    @property
    def args(self):
        """The positional arguments."""
        return self._args

    @args.setter
    def args(self, args):
        self._set(args, self._kwargs)

    @property
    def kwargs(self):
        """The named arguments."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs):
        self._set(self._args, kwargs)

    @property
    def all_input_nodes(self):
        """The nodes among the arguments, each once."""
        return list(self._input_nodes)

    @property
    def next(self):
        """The following node."""
        return self._next

    @property
    def prev(self):
        """The node before."""
        return self._prev

    @property
    def stack_trace(self):
        """Where the operation was recorded, if that was asked for."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace):
        self.meta["stack_trace"] = trace

    def __repr__(self):
        return self.name

    def __lt__(self, other):
        return self._place() < other._place()

    def __gt__(self, other):
        return other < self

    def __le__(self, other):
        return self is other or self < other

    def __ge__(self, other):
        return self is other or other < self

    def _place(self):
        for place, node in enumerate(self.graph.nodes):
            if node is self:
                return place
        raise RuntimeError(f"{self} is not in its graph")

    def _remove_from_list(self):
        self._prev._next, self._next._prev = self._next, self._prev

    def prepend(self, x):
        """Moves ``x`` before this node."""
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is x:
            return
        x._remove_from_list()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x

    def append(self, x):
        """Moves ``x`` behind this node."""
        self._next.prepend(x)

    def update_arg(self, idx, arg):
        """Replaces one positional argument."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx, arg):
        """Inserts a positional argument."""
        if not 0 <= idx <= len(self._args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key, arg):
        """Replaces one named argument."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_all_uses_with(self, replace_with, delete_user_cb=lambda user: True, *,
                              propagate_meta=False):
        """Lets the nodes that use this one use another; gives them."""
        if propagate_meta:
            for key, value in self.meta.items():
                replace_with.meta.setdefault(key, value)
        changed = []
        for user in list(self.users):
            if delete_user_cb(user):
                user.replace_input_with(self, replace_with)
                changed.append(user)
        return changed

    def replace_input_with(self, old_input, new_input):
        """Exchanges one node among the arguments."""
        def swap(node):
            return new_input if node is old_input else node

        self._set(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    def is_impure(self, impure_random=True):
        """Whether the operation does more than give a result."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            name = getattr(self.target, "__name__", "")
            if impure_random and name in _RANDOM and self._is_random():
                return True
            return self.target in _SIDE_EFFECTS or name == "_assert"
        if self.op == "call_module":
            owner = self.graph.owning_module
            if owner is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            module = owner.get_submodule(self.target)
            return getattr(module, "_is_impure", False)
        return False

    def _is_random(self):
        return "functional" not in (getattr(self.target, "__module__", "") or "")

    def _pretty_print_target(self, target):
        if isinstance(target, str):
            return target
        name = getattr(target, "__name__", None)
        if name is not None and getattr(builtins, name, None) is target:
            return f"builtins.{name}"
        if name is not None and getattr(operator, name, None) is target:
            return f"operator.{name}"
        return _qualified_name(target)

    def format_node(self, placeholder_names=None, maybe_return_typename=None, *,
                    include_tensor_metadata=False):
        """A line about the node; of placeholders and the output it may go to the lists given."""
        uses = f"[num_users={len(self.users)}]"
        kind = f"{_type_repr(self.type)} " if self.type else ""
        if self.op == "placeholder":
            if placeholder_names is not None:
                placeholder_names.append(
                    self.target + (f": {_type_repr(self.type)}" if self.type else "")
                )
            default = f"(default={self.args[0]})" if self.args else ""
            kind = f": {kind}" if kind else ": "
            return f"%{self.name} {kind}{uses} = placeholder[target={self.target}]{default}"
        kind = f": {kind}" if kind else ": "
        if self.op == "get_attr":
            return f"%{self.name} {kind}{uses} = get_attr[target={self.target}]"
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {_type_repr(self.type)}"
            return f"return {self.args[0]}"
        return (
            f"%{self.name} {kind}{uses} = {self.op}[target={self._pretty_print_target(self.target)}]"
            f"(args = {_format_arg(self.args)}, kwargs = {_format_arg(self.kwargs)})"
        )

    def normalized_arguments(self, root, arg_types=None, kwarg_types=None,
                             normalize_to_only_use_kwargs=False):
        """The arguments with defaults filled in, as ``(args, kwargs)``; None where the signature of
        what is called is not known."""
        target = self.target
        if self.op == "call_module":
            target = root.get_submodule(target).forward
        elif self.op != "call_function":
            return None
        try:
            bound = inspect.signature(target).bind(*self.args, **self.kwargs)
        except (TypeError, ValueError):
            return None
        bound.apply_defaults()
        if normalize_to_only_use_kwargs:
            return (), dict(bound.arguments)
        return bound.args, bound.kwargs
