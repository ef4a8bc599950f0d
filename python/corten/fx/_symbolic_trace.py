"""Tracing: a program is run with values that are not known, and its operations become a graph."""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import warnings
from types import FunctionType

import corten
from corten import nn
from corten.utils import _pytree as pytree

from ._codegen import _PyTreeCodeGen, _PyTreeInfo
from .graph import Graph
from .graph_module import GraphModule
from ._compatibility import compatibility as compatibility
from ._patching import (  # noqa: F401
    Patcher as _Patcher, autowrap_check as _autowrap_check, create_wrapped_func as _create_wrapped_func,
    create_wrapped_method as _create_wrapped_method, first_proxy as _find_proxy_among,
    patch_wrapped_functions as _patch_wrapped_functions, wrapped_functions as _wrapped_fns_to_patch,
    wrapped_methods as _wrapped_methods_to_patch,
)
from .proxy import Proxy, Scope, ScopeContextManager, TracerBase

__all__ = ["ProxyableClassMeta", "Tracer", "symbolic_trace", "wrap"]

_tracing = 0
_orig_module_call, _orig_module_getattr = nn.Module.__call__, nn.Module.__getattr__
HAS_VARSTUFF = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class ScriptObject:
    """An object of TorchScript, of which there are none."""


class PHBase:
    """Stands for an input in ``concrete_args``."""

    def __repr__(self):
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """An input in ``concrete_args``, with a key and attributes for its node."""

    def __init__(self, ph_key=None):
        self.ph_key = ph_key


def is_fx_tracing():
    """Whether a program is being traced."""
    return _tracing > 0


is_fx_symbolic_tracing = is_fx_tracing


def _transfer_attributes(source, node):
    for name, value in vars(source).items():
        if hasattr(value, "__call__"):
            continue
        setattr(node, name, value)


def _assert_is_none(value, msg):
    if value is not None:
        raise AssertionError(msg)


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
    _wrapped_fns_to_patch[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


class Tracer(TracerBase):
    """Makes graphs of programs. Subclasses choose what is looked into (:meth:`is_leaf_module`) and
    how calls and values are recorded."""

    def __init__(self, autowrap_modules=(math,), autowrap_functions=(), param_shapes_constant=False):
        super().__init__()
        self._autowrap_search = list(autowrap_modules)
        self._autowrap_function_ids = {
            id(value) for module in autowrap_modules for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        }
        self._autowrap_function_ids.update(map(id, autowrap_functions))
        self.param_shapes_constant = param_shapes_constant
        self.root, self.graph, self.tensor_attrs = None, None, {}
        self.submodule_paths = None
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
        homes = ("corten.nn", "torch.nn", "corten.ao.nn", "torch.ao.nn")
        return type(m).__module__.startswith(homes) and not isinstance(m, nn.Sequential)

    def path_of_module(self, mod):
        """The name of a module below the root."""
        if self.submodule_paths and mod in self.submodule_paths:
            return self.submodule_paths[mod]
        for name, module in self.root.named_modules():
            if module is mod:
                return name
        raise NameError("module is not installed as a submodule")

    def call_module(self, m, forward, args, kwargs):
        """What a call of a module gives: ``forward(*args, **kwargs)``, or the value of a node."""
        name = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(name, type(m))):
            count = self.num_calls.get(name, 0)
            self.num_calls[name] = count + 1
            self.module_stack[f"{name}@{count}" if count else name] = name, type(m)
            try:
                if not self.is_leaf_module(m, name):
                    return forward(*args, **kwargs)
                return self.create_proxy("call_module", name, args, kwargs)
            finally:
                self.module_stack.popitem()

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
        """What to call, and the values to call it with: placeholders for the parameters of a function.

        ``*args`` and ``**kwargs`` are one value each; what is called takes them as such. Where
        ``concrete_args`` has trees of placeholders, these are the values of their leaves."""
        plain = inspect.unwrap(root_fn)
        code, hints = plain.__code__, getattr(plain, "__annotations__", {})
        signature = inspect.signature(plain)
        count, flags = code.co_argcount + code.co_kwonlyargcount, code.co_flags
        names, args = list(code.co_varnames), [self.root] if is_module else []
        if count == 0 and is_module:
            raise RuntimeError("``self`` argument cannot be part of *args expansion!")
        if isinstance(concrete_args, tuple):
            if concrete_args and flags & HAS_VARSTUFF and count == 1:
                return root_fn, args + self._numbered(concrete_args)
            if count - len(args) != len(concrete_args):
                raise RuntimeError(
                    f"Tracing expected {count - len(args)} arguments but got {len(concrete_args)} concrete arguments"
                )
            concrete_args = dict(zip(names[len(args):count], concrete_args))
        for name in names[len(args):count]:
            args.append(self._placeholder(name, signature.parameters.get(name), hints, concrete_args))
        called, rest = root_fn, iter(names[count:])
        for flag, stars in ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**")):
            if flags & flag:
                args.append(self._placeholder(stars + next(rest), None, {}, concrete_args))
        if code.co_kwonlyargcount or flags & HAS_VARSTUFF:
            called = _patch_function(plain, len(args))
        return self._flattened(called, args, names[:count])

    def _numbered(self, concrete_args):
        """A placeholder for each of some arguments that have no names."""
        made = []
        for place, value in enumerate(concrete_args):
            made.append(self.create_proxy("placeholder", f"input_{place}", (), {}))
            if isinstance(value, PHBase) and value is not PH:
                _transfer_attributes(value, made[-1].node)
        return made

    def _flattened(self, called, args, names):
        """A function of the leaves of arguments, if these are trees."""
        leaves, spec = pytree.tree_flatten(tuple(args))
        if all(child.is_leaf() for child in spec.children()):
            return called, args
        self.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(names, spec, None))

        def of_leaves(*args):
            result, out_spec = pytree.tree_flatten(called(*pytree.tree_unflatten(list(args), spec)))
            codegen = self.graph._codegen
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
            return result

        return of_leaves, leaves

    def _placeholder(self, name, parameter, hints, concrete_args):
        default = () if parameter is None or parameter.default is inspect.Parameter.empty else (
            parameter.default,
        )
        if name[0] == "*":
            default = ()
        if name not in (concrete_args or {}):
            return self.create_proxy("placeholder", name, default, {}, type_expr=hints.get(name))
        count = itertools.count(1)
        kind = hints.get(name)

        def one(value):
            made = self.create_proxy("placeholder", f"{name}_{next(count)}", default, {}, type_expr=kind)
            if isinstance(value, PHBase):
                if value is not PH:
                    _transfer_attributes(value, made.node)
                return made
            self._specialise(name, value, made)
            return value

        return pytree.tree_map(one, concrete_args[name])

    def _specialise(self, name, value, made):
        """Records that an input must be what it was in the trace."""
        if value is None:
            message = f"{name} has been specialized to have value None but got another value"
            self.create_proxy("call_function", _assert_is_none, (made, message), {})
        elif type(value) in (bool, int, float):
            message = f"{name} has been specialized to have value {value} but got another value"
            corten._assert(made == value, message)
        elif isinstance(value, str):
            message = f"{name} has been specialized to have value {value} but got another value"
            corten._assert(made == value, message)
        else:
            warnings.warn(
                f"Was not able to add assertion to guarantee correct input {name} to specialized function. It is up "
                "to the user to make sure that your inputs match the inputs you specialized the function with."
            )

    def trace(self, root, concrete_args=None):
        """The graph of a module or function; ``concrete_args`` gives parameters known values."""
        global _tracing
        if isinstance(root, nn.Module):
            self.root, function = root, type(root).forward
            if "forward" in vars(root):
                function = vars(root)["forward"].__func__
            self.submodule_paths = {module: name for name, module in root.named_modules()}
        else:
            self.root, function = nn.Module(), root
        self.graph = Graph(tracer_cls=type(self))
        self.tensor_attrs, self._parameter_proxies = self._tensors_of(self.root), {}
        names = getattr(inspect.unwrap(function), "__globals__", {})
        called, args = self.create_args_for_root(function, isinstance(root, nn.Module), concrete_args)
        hints = getattr(inspect.unwrap(function), "__annotations__", {})
        _tracing += 1
        try:
            with _Patcher() as patcher:
                self._patch(patcher, names)
                result = self.create_arg(called(*args))
            self.create_node("output", "output", (result,), {}, type_expr=hints.get("return"))
        finally:
            _tracing -= 1
            self.submodule_paths = None
        return self.graph

    def _tensors_of(self, module):
        """The plain tensors among the attributes of modules, by name."""
        found = {}
        for path, part in module.named_modules():
            for name, value in vars(part).items():
                if isinstance(value, corten.Tensor):
                    found[value] = f"{path}.{name}" if path else name
        return found

    def _patch(self, patcher, names):
        # What is there now: a tracer may run in a module that another one looks into.
        original_call, original_getattr = nn.Module.__call__, nn.Module.__getattr__

        def call(module, *args, **kwargs):
            def forward(*args, **kwargs):
                return original_call(module, *args, **kwargs)

            forwards = getattr(getattr(type(module), "forward", None), "__globals__", {})
            _autowrap_check(patcher, forwards, self._autowrap_function_ids)
            return self.call_module(module, forward, args, kwargs)

        def read(module, name):
            value = original_getattr(module, name)
            return self.getattr(name, value, self._parameter_proxies)

        patcher.patch_method(nn.Module, "__getattr__", read, deduplicate=False)
        patcher.patch_method(nn.Module, "__call__", call, deduplicate=False)
        _patch_wrapped_functions(patcher)
        for space in (names, *map(vars, self._autowrap_search)):
            _autowrap_check(patcher, space, self._autowrap_function_ids)


def _patch_function(fn, nargs):
    """A function that takes values of ``*args`` and ``**kwargs`` as they are: nothing can be unpacked."""
    code = fn.__code__.replace(
        co_flags=fn.__code__.co_flags & ~HAS_VARSTUFF, co_argcount=nargs, co_posonlyargcount=0,
        co_kwonlyargcount=0,
    )
    return FunctionType(code, fn.__globals__, fn.__name__, None, fn.__closure__)


class ProxyableClassMeta(type):
    """The metaclass of classes whose instances may be made of values that are not known."""

    def __init__(cls, name, bases, attrs):
        super().__init__(name, bases, attrs)

    def __call__(cls, *args, **kwargs):
        proxy = _find_proxy_among(args, kwargs)
        if proxy is None:
            return super().__call__(*args, **kwargs)
        return proxy.tracer.create_proxy("call_function", cls, args, kwargs)


def symbolic_trace(root, concrete_args=None):
    """A module whose graph is that of another module or function."""
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, nn.Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
