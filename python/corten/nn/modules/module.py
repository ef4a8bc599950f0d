"""The base of everything with parameters."""

from __future__ import annotations

import inspect
import itertools
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import corten
from corten import Tensor, _C
from corten.nn.modules import _hooks
from corten.nn.modules._conversion import _applied_parameter, _parse_to
from corten.nn.modules._hooks import (  # noqa: F401
    HookMixin, register_module_backward_hook, register_module_buffer_registration_hook,
    register_module_forward_hook, register_module_forward_pre_hook,
    register_module_full_backward_hook, register_module_full_backward_pre_hook,
    register_module_module_registration_hook, register_module_parameter_registration_hook,
)
from corten.nn.modules._state import _EXTRA_STATE_KEY_SUFFIX, StateMixin, _IncompatibleKeys  # noqa: F401
from corten.nn.parameter import Buffer, Parameter

__all__ = [
    "Module", "register_module_backward_hook", "register_module_buffer_registration_hook",
    "register_module_forward_hook", "register_module_forward_pre_hook",
    "register_module_full_backward_hook", "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook", "register_module_parameter_registration_hook",
]

_HOOK_DICTS = (
    "_backward_pre_hooks", "_backward_hooks", "_forward_hooks", "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


def _addindent(text, spaces):
    first, *rest = text.split("\n")
    return "\n".join([first, *(" " * spaces + line for line in rest)])


class _CallSignature:
    """The signature of modules as functions, which `inspect` asks instances for: classes have their own."""

    def __get__(self, instance, owner):
        if instance is None:
            raise AttributeError("__signature__")
        kinds = inspect.Parameter
        return inspect.Signature([
            kinds("args", kinds.VAR_POSITIONAL), kinds("kwargs", kinds.VAR_KEYWORD),
        ])


# A class of Python comes first, as it does for any class beside a module: so instances have the same
# layout whatever the order of bases, and their class can be changed.
class Module(HookMixin, StateMixin, _C._ModuleBase):
    """A part of a model: parameters, buffers and children, and a ``forward`` over them.

    Assigning a :class:`Parameter` or another module to an attribute registers it.
    """

    dump_patches = False
    __signature__ = _CallSignature()
    _version = 1
    call_super_init = False
    training: bool

    def __init__(self, *args, **kwargs):
        if not self.call_super_init and (args or kwargs):
            name = type(self).__name__
            if kwargs:
                word = next(iter(kwargs))
                raise TypeError(f"{name}.__init__() got an unexpected keyword argument '{word}'")
            raise TypeError(
                f"{name}.__init__() takes 1 positional argument but {len(args) + 1} were given"
            )
        own = self.__dict__
        own["training"] = True
        own["_parameters"] = {}
        own["_buffers"] = {}
        own["_non_persistent_buffers_set"] = set()
        own["_is_full_backward_hook"] = None
        for hooks in _HOOK_DICTS:
            own[hooks] = OrderedDict()
        own["_modules"] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def _forward_unimplemented(self, *args: Any) -> Any:
        """The computation; every module defines its own."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    # Modules define it with any parameters: no override is wrong to a type checker.
    forward: Callable[..., Any] = _forward_unimplemented

    # The base calls `forward` by itself where no hook is set.
    def _call_impl(self, *args, **kwargs):
        own = self.__dict__
        if (
            own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"]
            or own["_backward_pre_hooks"] or any(_hooks._CALL_HOOKS)
        ):
            return self._call_with_hooks(args, kwargs)
        return self.forward(*args, **kwargs)

    # Registration

    def _check_name(self, name, kind):
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')

    def register_buffer(self, name, tensor, persistent=True):
        """Adds a tensor that is state but no parameter; a persistent one is in ``state_dict``."""
        self._check_name(name, "buffer")
        if hasattr(self, name) and name not in self._buffers:
            raise KeyError(f"attribute '{name}' already exists")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{corten.typename(tensor)}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            )
        tensor = _hooks._replaced(_hooks._global_buffer_registration_hooks, self, name, tensor)
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name, param):
        """Adds a parameter; None reserves the name."""
        self._check_name(name, "parameter")
        if hasattr(self, name) and name not in self._parameters:
            raise KeyError(f"attribute '{name}' already exists")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{corten.typename(param)}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                "created explicitly. To express them as functions of other Tensors, compute them "
                "in forward()."
            )
        param = _hooks._replaced(_hooks._global_parameter_registration_hooks, self, name, param)
        self._parameters[name] = param

    def add_module(self, name, module):
        """Adds a child; None reserves the name."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{corten.typename(module)} is not a Module subclass")
        if not isinstance(name, str):
            raise TypeError(f"module name should be a string. Got {corten.typename(name)}")
        if hasattr(self, name) and name not in self._modules:
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            raise KeyError(f'module name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError('module name can\'t be empty string ""')
        module = _hooks._replaced(_hooks._global_module_registration_hooks, self, name, module)
        self._modules[name] = module

    def register_module(self, name, module):
        """Same as :meth:`add_module`."""
        self.add_module(name, module)

    # Attributes

    def __setattr__(self, name, value):
        own = self.__dict__
        if isinstance(value, Parameter):
            self._forget(name, "_parameters", "parameters")
            self.register_parameter(name, value)
        elif name in own.get("_parameters", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{corten.typename(value)}' as parameter '{name}' "
                    "(torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, None)
        elif isinstance(value, Module):
            self._forget(name, "_modules", "module")
            hooks = _hooks._global_module_registration_hooks
            own["_modules"][name] = _hooks._replaced(hooks, self, name, value)
        elif name in own.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{corten.typename(value)}' as child module '{name}' "
                    "(torch.nn.Module or None expected)"
                )
            own["_modules"][name] = None
        elif isinstance(value, Buffer) or name in own.get("_buffers", ()):
            self._set_buffer(name, value)
        else:
            object.__setattr__(self, name, value)

    def _forget(self, name, keep, kind):
        """Removes `name` wherever it is an attribute of another kind."""
        own = self.__dict__
        if keep not in own:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        own.pop(name, None)
        own["_non_persistent_buffers_set"].discard(name)
        for members in ("_parameters", "_buffers", "_modules"):
            if members != keep:
                own[members].pop(name, None)

    def _set_buffer(self, name, value):
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(
                f"cannot assign '{corten.typename(value)}' as buffer '{name}' "
                "(torch.nn.Buffer, torch.Tensor or None expected)"
            )
        if isinstance(value, Buffer):
            persistent = value.persistent
            for members in ("_parameters", "_modules"):
                self.__dict__[members].pop(name, None)
        else:
            persistent = name not in self._non_persistent_buffers_set
        if "persistent" in inspect.signature(self.register_buffer).parameters:
            self.register_buffer(name, value, persistent)
            return
        # Classes may have methods from before there were other buffers.
        if not persistent:
            raise RuntimeError(
                "Registering a non-persistent buffer on a Module subclass that implements register_buffer() "
                "without the persistent argument is not allowed."
            )
        self.register_buffer(name, value)

    def __delattr__(self, name):
        for members in (self._parameters, self._buffers, self._modules):
            if name in members:
                del members[name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self):
        names = {*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers}
        return sorted(name for name in names if not name[0].isdigit())

    def __setstate__(self, state):
        self.__dict__.update(state)
        for hooks in _HOOK_DICTS:
            self.__dict__.setdefault(hooks, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    # Walking

    def _named_members(self, members, prefix="", recurse=True, remove_duplicate=True):
        """Named values of `members(module)`, each object once."""
        seen = set()
        modules = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse else [(prefix, self)]
        )
        for path, module in modules:
            for name, value in members(module):
                if value is None or value in seen:
                    continue
                if remove_duplicate:
                    seen.add(value)
                yield f"{path}.{name}" if path else name, value

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        """Pairs of name and parameter; a shared parameter appears once."""
        yield from self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def parameters(self, recurse=True):
        """The parameters of this module and, unless ``recurse=False``, of its descendants."""
        if type(self).named_parameters is not Module.named_parameters:
            for _, param in self.named_parameters(recurse=recurse):
                yield param
            return
        # Without the names, which cost most of the time.
        seen = set()
        for module in self._descendants() if recurse else (self,):
            for param in module._parameters.values():
                if param is not None and param not in seen:
                    seen.add(param)
                    yield param

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        """Pairs of name and buffer."""
        yield from self._named_members(
            lambda module: module._buffers.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse=True):
        """The buffers of this module and its descendants."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_children(self):
        """Pairs of name and direct child."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self):
        """The direct children."""
        for _, module in self.named_children():
            yield module

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        """Pairs of path and module, this one first."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, path, remove_duplicate)

    def modules(self):
        """This module and all its descendants, each once."""
        yield from self._descendants()

    def _descendants(self):
        """The modules of ``named_modules``, in its order, without their paths."""
        usual = Module.named_modules
        memo = set()
        ahead = [self]
        while ahead:
            module = ahead.pop()
            if module is None:
                continue
            if type(module).named_modules is not usual:
                for _, found in module.named_modules(memo):
                    yield found
            elif module not in memo:
                memo.add(module)
                yield module
                if children := module._modules:
                    ahead += reversed(children.values())

    def get_submodule(self, target):
        """The descendant at the dotted path ``target``."""
        module = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target, module, strict=False):
        """Puts ``module`` at the dotted path ``target``."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def _get_tensor(self, target, members, kind):
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        if name not in getattr(module, members) and not isinstance(getattr(module, name), Parameter):
            raise AttributeError(f"`{name}` is not {kind}")
        return getattr(module, name)

    def get_parameter(self, target):
        """The parameter at the dotted path ``target``."""
        return self._get_tensor(target, "_parameters", "an nn.Parameter")

    def get_buffer(self, target):
        """The buffer at the dotted path ``target``."""
        return self._get_tensor(target, "_buffers", "a buffer")

    def apply(self, fn):
        """Calls ``fn`` on every descendant, children first, then on this module."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # Modes

    def train(self, mode=True):
        """Puts this module and its descendants in training (or evaluation) mode."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self):
        """Same as ``train(False)``."""
        return self.train(False)

    def compile(self, *args, **kwargs):
        """Compiles the module's call in place, with the options of :func:`corten.compile`."""
        self.__dict__.pop("_call_impl", None)
        self.__dict__["_call_impl"] = corten.compile(self._call_impl, *args, **kwargs)

    def __getstate__(self):
        state = self.__dict__.copy()
        # What `compile` put there calls this module and no copy of it.
        state.pop("_call_impl", None)
        return state

    def requires_grad_(self, requires_grad=True):
        """Sets whether the parameters need gradients."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        """Drops the parameters' gradients, or fills them with zeros."""
        for param in self.parameters():
            if param.grad is None:
                continue
            if set_to_none:
                param.grad = None
            else:
                param.grad = param.grad.detach()
                param.grad.zero_()

    # Conversion

    def _apply(self, fn, recurse=True):
        """Replaces every parameter, gradient and buffer `t` by `fn(t)`."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, param in self._parameters.items():
            if param is not None:
                self._parameters[name] = _applied_parameter(param, fn, f"{self._get_name()}.{name}")
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args, **kwargs):
        """Moves to a device and casts floating point and complex tensors, in place."""
        device, dtype, non_blocking, memory_format = _parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={dtype}"
            )
        if dtype is not None and dtype.is_complex:
            warnings.warn("Complex modules are a new feature under active development.", stacklevel=2)

        def convert(tensor):
            cast = dtype if tensor.is_floating_point() or tensor.is_complex() else None
            layout = {}
            if memory_format is not None and tensor.dim() in (4, 5):
                layout["memory_format"] = memory_format
            try:
                return tensor.to(device, cast, non_blocking, **layout)
            except NotImplementedError as error:
                if str(error) != "Cannot copy out of meta tensor; no data!":
                    raise
                raise NotImplementedError(
                    f"{error} Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() "
                    "when moving module from meta to a different device."
                ) from None

        return self._apply(convert)

    def _replicate_for_data_parallel(self):
        """A module with the same members, whose parameters can be replaced by copies on a device."""
        replica = self.__new__(type(self))
        replica.__dict__ = self.__dict__.copy()
        replica._parameters = {}
        replica._buffers = replica._buffers.copy()
        replica._modules = replica._modules.copy()
        replica._is_replica = True
        return replica

    def to_empty(self, *, device, recurse=True):
        """Moves to a device without keeping the values."""
        return self._apply(lambda t: corten.empty_like(t, device=device), recurse=recurse)

    def type(self, dst_type):
        """Casts every tensor to ``dst_type``."""
        return self._apply(lambda t: t.type(dst_type))

    def _cast_floating(self, dtype):
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self):
        """Casts floating point tensors to float32."""
        return self._cast_floating(corten.float32)

    def double(self):
        """Casts floating point tensors to float64."""
        return self._cast_floating(corten.float64)

    def half(self):
        """Casts floating point tensors to float16."""
        return self._cast_floating(corten.float16)

    def bfloat16(self):
        """Casts floating point tensors to bfloat16."""
        return self._cast_floating(corten.bfloat16)

    def cpu(self):
        """Moves every tensor to the CPU."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device=None):
        """Moves every tensor to a GPU."""
        return self._apply(lambda t: t.cuda(device))

    def xpu(self, device=None):
        """Moves every tensor to an Intel GPU."""
        return self._apply(lambda t: t.xpu(device))

    def mtia(self, device=None):
        """Moves every tensor to an MTIA device."""
        return self._apply(lambda t: t.mtia(device))

    def ipu(self, device=None):
        """Moves every tensor to an IPU."""
        return self._apply(lambda t: t.to("ipu"))

    def share_memory(self):
        """Moves every tensor to shared memory."""
        return self._apply(lambda t: t.share_memory_())

    # Printing

    def _get_name(self):
        return type(self).__name__

    def extra_repr(self):
        """What stands between the parentheses of ``repr``."""
        return ""

    def __repr__(self):
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [
            f"({name}): {_addindent(repr(module), 2)}" for name, module in self._modules.items()
        ]
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({lines[0]})"
        if not lines and not children:
            return f"{self._get_name()}()"
        body = "\n  ".join(itertools.chain(lines, children))
        return f"{self._get_name()}(\n  {body}\n)"


_C._set_module_rules(_hooks._CALL_HOOKS, Module._call_impl)

sys.modules[__name__].__class__ = _hooks.HookNames
