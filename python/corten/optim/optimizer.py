"""What all optimizers share."""

from __future__ import annotations

import warnings
from collections import OrderedDict, defaultdict
from copy import deepcopy

import corten
from corten import Tensor
from corten.utils.hooks import RemovableHandle

__all__ = [
    "Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook", "required",
]

_global_pre_hooks = OrderedDict()
_global_post_hooks = OrderedDict()


class _Required:
    """Stands for a setting without default."""

    def __repr__(self):
        return "<required parameter>"


required = _Required()


def _added(hooks, hook, prepend=False):
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook):
    """Calls ``hook(optimizer, args, kwargs)`` before every step of every optimizer."""
    return _added(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook):
    """Calls ``hook(optimizer, args, kwargs)`` after every step of every optimizer."""
    return _added(_global_post_hooks, hook)


def _with_hooks(step):
    """Wraps a class's `step`: hooks before and after."""

    def hooked_step(self, *args, **kwargs):
        for hook in (*_global_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()):
            answer = hook(self, args, kwargs)
            if answer is None:
                continue
            if not (isinstance(answer, tuple) and len(answer) == 2):
                raise RuntimeError(
                    f"{hook} must return None or a tuple of (new_args, new_kwargs), but got {answer}."
                )
            args, kwargs = answer
        result = step(self, *args, **kwargs)
        for hook in (*self._optimizer_step_post_hooks.values(), *_global_post_hooks.values()):
            hook(self, args, kwargs)
        return result

    hooked_step.__wrapped__ = step
    hooked_step.__name__, hooked_step.__doc__ = "step", step.__doc__
    hooked_step.hooked = True
    return hooked_step


class Optimizer:
    """Parameters in groups, each group with its settings, and state per parameter.

    ``params`` is an iterable of parameters, of pairs of name and parameter, or of groups:
    dictionaries with ``"params"`` and settings that override ``defaults``.
    """

    def __init__(self, params, defaults):
        self.defaults = defaults
        self._optimizer_step_pre_hooks = OrderedDict()
        self._optimizer_step_post_hooks = OrderedDict()
        self._optimizer_state_dict_pre_hooks = OrderedDict()
        self._optimizer_state_dict_post_hooks = OrderedDict()
        self._optimizer_load_state_dict_pre_hooks = OrderedDict()
        self._optimizer_load_state_dict_post_hooks = OrderedDict()
        self._patch_step_function()
        if isinstance(params, (set, frozenset)):
            warnings.warn(
                "optimizer parameters need to be organized in ordered collections, since the order "
                "of tensors in sets changes between runs: use a list",
                FutureWarning,
                stacklevel=3,
            )
            params = list(params)
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {corten.typename(params)}"
            )
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _patch_step_function(self):
        cls = type(self)
        if not getattr(cls.step, "hooked", None):
            cls.step = _with_hooks(cls.step)

    def __getstate__(self):
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state):
        self.__dict__.update(state)
        for hooks in ("step", "state_dict", "load_state_dict"):
            for side in ("pre", "post"):
                self.__dict__.setdefault(f"_optimizer_{hooks}_{side}_hooks", OrderedDict())
        self._patch_step_function()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self):
        text = type(self).__name__ + " ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            text += "".join(f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params")
        return text + ")"

    def register_step_pre_hook(self, hook):
        """Calls ``hook(optimizer, args, kwargs)`` before each step."""
        return _added(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook):
        """Calls ``hook(optimizer, args, kwargs)`` after each step."""
        return _added(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook, prepend=False):
        """Calls ``hook(optimizer)`` before saving."""
        return _added(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook, prepend=False):
        """Calls ``hook(optimizer, state_dict)`` after saving; a result replaces it."""
        return _added(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook, prepend=False):
        """Calls ``hook(optimizer, state_dict)`` before loading; a result replaces it."""
        return _added(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook, prepend=False):
        """Calls ``hook(optimizer)`` after loading."""
        return _added(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    @staticmethod
    def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices=False):
        """Lists of tensors that belong together, apart for each device and dtype of the first list."""
        from ._helpers import group_tensors

        return group_tensors(tensorlistlist, with_indices)

    def zero_grad(self, set_to_none=True):
        """Drops the gradients of all parameters, or fills them with zeros."""
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is None:
                    continue
                if set_to_none:
                    param.grad = None
                else:
                    param.grad = param.grad.detach()
                    param.grad.zero_()

    def step(self, closure=None):
        """Updates the parameters; ``closure`` recomputes the loss, which is returned."""
        raise NotImplementedError

    def add_param_group(self, param_group):
        """Adds a group; settings it lacks come from the defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, Tensor):
            params = [params]
        elif isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        params = list(params)
        named = [isinstance(param, tuple) for param in params]
        if any(named):
            if not all(named):
                raise ValueError(
                    "all optimizer params should be with/without names. Some param names are missing"
                )
            param_group["param_names"] = [param[0] for param in params]
            params = [param[1] for param in params]
        param_group["params"] = params
        self._check_params(param_group)
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(
                    f"parameter group didn't specify a value of required optimization parameter {name}"
                )
            param_group.setdefault(name, default)
        self.param_groups.append(param_group)

    def _check_params(self, group):
        params = group["params"]
        for param in params:
            if not isinstance(param, Tensor):
                raise TypeError(
                    f"optimizer can only optimize Tensors, but one of the params is {corten.typename(param)}"
                )
            if not self.defaults.get("differentiable") and not (param.is_leaf or param.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        if len(params) != len({id(param) for param in params}):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this "
                "will cause an error; see github.com/pytorch/pytorch/issues/40967 for more "
                "information",
                stacklevel=4,
            )
        if self.param_groups and ("param_names" in group) != ("param_names" in self.param_groups[0]):
            raise ValueError(
                "all optimizer param groups should be with/without names. cannot add param group "
                "with names to the optimizer" if "param_names" in group else
                "all optimizer param groups should be with/without names. cannot add param group "
                "without names to the optimizer"
            )
        known = {id(param) for other in self.param_groups for param in other["params"]}
        if any(id(param) in known for param in params):
            raise ValueError("some parameters appear in more than one parameter group")

    # Saving

    def state_dict(self):
        """State and settings; parameters are numbered over all groups."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers = {}
        groups = []
        for group in self.param_groups:
            packed = {key: value for key, value in group.items() if key != "params"}
            for param in group["params"]:
                numbers.setdefault(id(param), len(numbers))
            packed["params"] = [numbers[id(param)] for param in group["params"]]
            groups.append(packed)
        state = {
            numbers[id(key)] if isinstance(key, Tensor) else key: value
            for key, value in self.state.items()
        }
        result = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            answer = hook(self, result)
            result = result if answer is None else answer
        return result

    def load_state_dict(self, state_dict):
        """Takes over what :meth:`state_dict` gave; state is cast as the parameters are."""
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            answer = hook(self, state_dict)
            state_dict = state_dict if answer is None else answer
        groups = deepcopy(state_dict["param_groups"])
        if len(groups) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(self.param_groups, groups)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )
        params = {
            number: param
            for group, own in zip(groups, self.param_groups)
            for number, param in zip(group["params"], own["params"])
        }
        state = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in params:
                state[params[key]] = _cast_like(params[key], value)
            else:
                state[key] = value
        for group, own in zip(groups, self.param_groups):
            group["params"] = own["params"]
            if "param_names" in own and "param_names" not in group:
                group["param_names"] = own["param_names"]
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)


def _cast_like(param, value, key=None):
    """Copies of state with the device and, but for step counts, the dtype of its parameter."""
    if isinstance(value, Tensor):
        if key == "step":
            return value.clone()
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device, copy=True)
        return value.to(device=param.device, copy=True)
    if isinstance(value, dict):
        return {name: _cast_like(param, item, name) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast_like(param, item) for item in value)
    return value


def __getattr__(name):
    from . import _helpers

    if name.startswith("__") or name not in _helpers.NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_helpers, name)
