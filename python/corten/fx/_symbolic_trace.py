"""Tracing: a program is run with values that are not known, and its operations become a graph."""

from __future__ import annotations

import builtins
import functools
import inspect
import math
import types

import corten
from corten import nn

from .graph import Graph
from .graph_module import GraphModule
from .node import map_aggregate
from .proxy import Proxy, TracerBase

__all__ = ["ProxyableClassMeta", "Tracer", "symbolic_trace", "wrap"]

#: The dictionaries and names of functions that are not looked into.
_wrapped = {}
_tracing = 0


def is_fx_tracing():
    """Whether a program is being traced."""
    return _tracing > 0


def _assert_is_none(value, msg):
    if value is not None:
        raise AssertionError(msg)


def _first_proxy(args, kwargs):
    found = []
    map_aggregate((args, kwargs), lambda leaf: found.append(leaf) if isinstance(leaf, Proxy) else None)
    return found[0] if found else None


def wrap(fn_or_name):
    """Says, at the top level of a module, that calls of a function are recorded, not looked into."""
    if callable(fn_or_name):
        name = fn_or_name.__name__
    elif isinstance(fn_or_name, str):
        name = fn_or_name
    else:
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    frame = inspect.currentframe().f_back
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


def _recorded(function):
    """A function whose calls with unknown values become nodes."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        proxy = _first_proxy(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    return call


class _Patches:
    """Changes of modules and classes that are undone at the end."""

    _missing = object()

    def __init__(self):
        self._undo = []

    def item(self, space, name, value):
        """Sets an entry of a dictionary."""
        old = space.get(name, self._missing)
        self._undo.append(lambda: space.pop(name, None) if old is self._missing else space.update({name: old}))
        space[name] = value

    def attribute(self, owner, name, value):
        """Sets an attribute of a class."""
        old = vars(owner).get(name, self._missing)
        self._undo.append(
            lambda: delattr(owner, name) if old is self._missing else setattr(owner, name, old)
        )
        setattr(owner, name, value)

    def undo(self):
        """Sets everything as it was."""
        for step in reversed(self._undo):
            step()


class Tracer(TracerBase):
    """Makes graphs of programs. Subclasses choose what is looked into (:meth:`is_leaf_module`) and
    how calls and values are recorded."""

    def __init__(self, autowrap_modules=(math,), autowrap_functions=(), param_shapes_constant=False):
        self._autowrap_modules = tuple(autowrap_modules)
        self._autowrap = {
            id(value): value for module in autowrap_modules for value in vars(module).values()
            if callable(value)
        }
        self._autowrap.update((id(function), function) for function in autowrap_functions)
        self.param_shapes_constant = param_shapes_constant
        self.root, self.graph, self.tensor_attrs = None, None, {}
        self._parameter_proxies = {}

    def create_arg(self, a):
        """As :meth:`TracerBase.create_arg`; parameters, buffers and modules are read as attributes,
        other tensors become attributes of the root."""
        if isinstance(a, nn.Parameter):
            for name, parameter in self.root.named_parameters():
                if a is parameter:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, nn.Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        if isinstance(a, corten.Tensor):
            return self.create_node("get_attr", self._name_of_tensor(a), (), {})
        return super().create_arg(a)

    def _name_of_tensor(self, tensor):
        for name, buffer in self.root.named_buffers():
            if tensor is buffer:
                return name
        found = self.tensor_attrs.get(tensor)
        if found is None:
            place = 0
            while hasattr(self.root, f"_tensor_constant{place}"):
                place += 1
            found = self.tensor_attrs[tensor] = f"_tensor_constant{place}"
            setattr(self.root, found, tensor)
        return found

    def is_leaf_module(self, m, module_qualified_name):
        """Whether calls of a module are recorded: by default of those of ``nn``, but containers."""
        home = type(m).__module__
        return home.startswith(("corten.nn", "torch.nn")) and not isinstance(m, nn.Sequential)

    def path_of_module(self, mod):
        """The name of a module below the root."""
        for name, module in self.root.named_modules():
            if module is mod:
                return name
        raise NameError("module is not installed as a submodule")

    def call_module(self, m, forward, args, kwargs):
        """What a call of a module gives: ``forward(*args, **kwargs)``, or the value of a node."""
        name = self.path_of_module(m)
        if not self.is_leaf_module(m, name):
            return forward(*args, **kwargs)
        return self.create_proxy("call_module", name, args, kwargs)

    def getattr(self, attr, attr_val, parameter_proxy_cache):
        """What a read of an attribute of a module gives."""
        kinds = [(nn.Parameter, "named_parameters")]
        if self.proxy_buffer_attributes:
            kinds.append((corten.Tensor, "named_buffers"))
        for kind, members in kinds:
            if isinstance(attr_val, kind):
                for name, value in getattr(self.root, members)():
                    if attr_val is value:
                        if name not in parameter_proxy_cache:
                            parameter_proxy_cache[name] = self.create_proxy("get_attr", name, (), {})
                        return parameter_proxy_cache[name]
        return attr_val

    def create_args_for_root(self, root_fn, is_module, concrete_args=None):
        """Placeholders for the parameters of a function, and the arguments to call it with."""
        code = inspect.unwrap(root_fn).__code__
        signature = inspect.signature(root_fn)
        hints = getattr(inspect.unwrap(root_fn), "__annotations__", {})
        count = code.co_argcount + code.co_kwonlyargcount
        names, args = list(code.co_varnames), [self.root] if is_module else []
        if count == 0 and is_module and not code.co_flags & inspect.CO_VARARGS:
            raise RuntimeError("``self`` argument cannot be part of *args expansion!")
        place = 1 if is_module else 0
        named = {}
        for number, name in enumerate(names[place:count], place):
            value = self._placeholder(name, signature.parameters.get(name), hints, concrete_args)
            if number < code.co_argcount:
                args.append(value)
            else:
                named[name] = value
        rest = iter(names[count:])
        for flag, stars in ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**")):
            if code.co_flags & flag:
                value = self.create_proxy("placeholder", stars + next(rest), (), {})
                if stars == "*":
                    args.append(value)
                else:
                    named["**"] = value
        return args, named

    def _placeholder(self, name, parameter, hints, concrete_args):
        default = () if parameter is None or parameter.default is inspect.Parameter.empty else (
            parameter.default,
        )
        if concrete_args is None or name not in concrete_args:
            return self.create_proxy("placeholder", name, default, {}, type_expr=hints.get(name))
        value, kind = concrete_args[name], hints.get(name)
        made = self.create_proxy("placeholder", f"{name}_1", default, {}, type_expr=kind)
        if value is None:
            message = f"{name} has been specialized to have value None but got another value"
            self.create_proxy("call_function", _assert_is_none, (made, message), {})
        elif isinstance(value, (bool, int, float, str)):
            message = f"{name} has been specialized to have value {value} but got another value"
            corten._assert(made == value, message)
        return value

    def trace(self, root, concrete_args=None):
        """The graph of a module or function; ``concrete_args`` gives parameters known values."""
        global _tracing
        if isinstance(root, nn.Module):
            self.root, function = root, type(root).forward
            if "forward" in vars(root):
                function = vars(root)["forward"].__func__
        else:
            self.root, function = nn.Module(), root
        self.graph = Graph(tracer_cls=type(self))
        self.tensor_attrs, self._parameter_proxies = self._tensors_of(self.root), {}
        args, named = self.create_args_for_root(function, isinstance(root, nn.Module), concrete_args)
        patches = _Patches()
        _tracing += 1
        try:
            self._patch(patches, getattr(inspect.unwrap(function), "__globals__", {}))
            result = self._call(function, args, named)
            hints = getattr(inspect.unwrap(function), "__annotations__", {})
            self.create_node("output", "output", (self.create_arg(result),), {}, type_expr=hints.get("return"))
        finally:
            patches.undo()
            _tracing -= 1
        return self.graph

    def _call(self, function, args, named):
        """Values of ``*args`` and ``**kwargs`` are handed over as they are: nothing can be unpacked."""
        code = inspect.unwrap(function).__code__
        if not code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
            return function(*args, **named)
        flat = types.FunctionType(
            code.replace(
                co_flags=code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS),
                co_argcount=code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4)
                + bool(code.co_flags & 8), co_kwonlyargcount=0,
            ),
            inspect.unwrap(function).__globals__, function.__name__, None, inspect.unwrap(function).__closure__,
        )
        stars = [named.pop("**")] if "**" in named else []
        first, rest = args[:code.co_argcount], args[code.co_argcount:]
        return flat(*first, *named.values(), *rest, *stars)

    def _tensors_of(self, module):
        """The plain tensors among the attributes of modules, by name."""
        found = {}
        for path, part in module.named_modules():
            for name, value in vars(part).items():
                if isinstance(value, corten.Tensor):
                    found[value] = f"{path}.{name}" if path else name
        return found

    def _patch(self, patches, names):
        original_call, original_getattr = nn.Module.__call__, nn.Module.__getattr__

        def call(module, *args, **kwargs):
            def forward(*args, **kwargs):
                self._autowrap_names(patches, getattr(getattr(type(module), "forward", None), "__globals__", {}))
                return original_call(module, *args, **kwargs)

            return self.call_module(module, forward, args, kwargs)

        def read(module, name):
            value = original_getattr(module, name)
            return self.getattr(name, value, self._parameter_proxies)

        patches.attribute(nn.Module, "__getattr__", read)
        patches.attribute(nn.Module, "__call__", call)
        for (_, name), space in _wrapped.items():
            function = space[name] if name in space else getattr(builtins, name)
            patches.item(space, name, _recorded(function))
        self._seen = set()
        for space in (names, *map(vars, self._autowrap_modules)):
            self._autowrap_names(patches, space)

    def _autowrap_names(self, patches, names):
        """Also what a module imported by name is recorded."""
        if id(names) in self._seen:
            return
        self._seen.add(id(names))
        for name, value in list(names.items()):
            if name.startswith("_"):
                continue
            if id(value) in self._autowrap:
                patches.item(names, name, _recorded(value))


class ProxyableClassMeta(type):
    """The metaclass of classes whose instances may be made of values that are not known."""

    def __init__(cls, name, bases, attrs):
        super().__init__(name, bases, attrs)

    def __call__(cls, *args, **kwargs):
        proxy = _first_proxy(args, kwargs)
        if proxy is None:
            return super().__call__(*args, **kwargs)
        return proxy.tracer.create_proxy("call_function", cls, args, kwargs)


def symbolic_trace(root, concrete_args=None):
    """A module whose graph is that of another module or function."""
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, nn.Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
