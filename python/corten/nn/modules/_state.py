"""Saving a module's state to a dictionary and loading it back."""

from __future__ import annotations

import warnings
from collections import OrderedDict, namedtuple

import corten
from corten.nn.parameter import Parameter, is_lazy
from corten.utils.hooks import RemovableHandle

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ("missing_keys", "unexpected_keys"))):
    """The names that a load found on one side only."""

    __slots__ = ()

    def __repr__(self):
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class _WithModule:
    """A load hook that also gets the module, held weakly so that copies stay independent."""

    def __init__(self, hook, module):
        import weakref

        self.hook = hook
        self.module = weakref.ref(module)

    def __call__(self, *args):
        return self.hook(self.module(), *args)

    def __getstate__(self):
        return {"hook": self.hook, "module": self.module()}

    def __setstate__(self, state):
        import weakref

        self.hook, self.module = state["hook"], weakref.ref(state["module"])


class StateMixin:
    """What a module offers for saving and loading."""

    def get_extra_state(self):
        """Further state to save; a class that overrides this overrides ``set_extra_state`` too."""
        raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be called.")

    def set_extra_state(self, state):
        """Takes back what ``get_extra_state`` gave."""
        raise RuntimeError("Reached a code path in Module.set_extra_state() that should never be called.")

    def _overrides(self, method):
        return getattr(type(self), method) is not getattr(StateMixin, method)

    # Saving

    def register_state_dict_post_hook(self, hook):
        """Calls ``hook(module, state_dict, prefix, local_metadata)`` after saving."""
        hook._from_public_api = True
        handle = RemovableHandle(self._state_dict_hooks)
        self._state_dict_hooks[handle.id] = hook
        return handle

    def register_state_dict_pre_hook(self, hook):
        """Calls ``hook(module, prefix, keep_vars)`` before saving."""
        handle = RemovableHandle(self._state_dict_pre_hooks)
        self._state_dict_pre_hooks[handle.id] = hook
        return handle

    def _register_state_dict_hook(self, hook):
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was "
                "previously registered via register_state_dict_post_hook"
            )
        handle = RemovableHandle(self._state_dict_hooks)
        self._state_dict_hooks[handle.id] = hook
        return handle

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        """Adds this module's own tensors, without its children's."""
        persistent = (
            item for item in self._buffers.items()
            if item[0] not in self._non_persistent_buffers_set
        )
        for name, tensor in (*self._parameters.items(), *persistent):
            if tensor is not None:
                destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if self._overrides("get_extra_state"):
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
        """All parameters and persistent buffers by name; the tensors share the module's memory."""
        if args:
            names = ("destination", "prefix", "keep_vars")
            given = dict(zip(names, args))
            destination = given.get("destination", destination)
            prefix = given.get("prefix", prefix)
            keep_vars = given.get("keep_vars", keep_vars)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for hook in self._state_dict_hooks.values():
            answer = hook(self, destination, prefix, metadata)
            if getattr(hook, "_from_public_api", False):
                if answer is not None:
                    raise RuntimeError("state_dict post-hook must return None")
            elif answer is not None:
                destination = answer
        return destination

    # Loading

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        handle = RemovableHandle(self._load_state_dict_pre_hooks)
        self._load_state_dict_pre_hooks[handle.id] = _WithModule(hook, self) if with_module else hook
        return handle

    def register_load_state_dict_pre_hook(self, hook):
        """Calls ``hook(module, state_dict, prefix, ...)`` before this module loads."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook):
        """Calls ``hook(module, incompatible_keys)`` after it; the keys may be edited in place."""
        handle = RemovableHandle(self._load_state_dict_post_hooks)
        self._load_state_dict_post_hooks[handle.id] = hook
        return handle

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        """Copies this module's own tensors out of ``state_dict``, without its children's."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        persistent = {
            name: buffer for name, buffer in self._buffers.items()
            if name not in self._non_persistent_buffers_set
        }
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, own in (*self._parameters.items(), *persistent.items()):
            if own is None:
                continue
            key = prefix + name
            if key in state_dict:
                error = self._load_one(name, own, key, state_dict[key], assign)
                if error:
                    error_msgs.append(error)
            elif strict:
                missing_keys.append(key)
        self._load_extra_state(state_dict, prefix, strict, missing_keys, unexpected_keys)
        if strict:
            unexpected_keys += self._own_unexpected(state_dict, prefix, persistent)

    def _load_one(self, name, own, key, value, assign):
        """Copies or assigns one tensor; returns what went wrong, if anything."""
        if not isinstance(value, corten.Tensor):
            return (
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like '
                f"object from checkpoint but received {type(value)}"
            )
        if not is_lazy(own):
            if own.dim() == 0 and value.dim() == 1 and value.numel() == 1:
                value = value[0]  # scalars were saved with one dimension once
            if value.shape != own.shape:
                return (
                    f"size mismatch for {key}: copying a param with shape {value.shape} from "
                    f"checkpoint, the shape in current model is {own.shape}."
                )
        try:
            with corten.no_grad():
                self._put_loaded(name, own, key, value, assign)
        except Exception as error:
            shapes = "" if is_lazy(own) else (
                f"whose dimensions in the model are {own.size()} and whose dimensions in the "
                f"checkpoint are {value.size()}, "
            )
            return (
                f'While copying the parameter named "{key}", {shapes}an exception occurred : '
                f"{error.args}."
            )
        return None

    def _put_loaded(self, name, own, key, value, assign):
        if own.is_meta and not value.is_meta and not assign:
            warnings.warn(
                f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter "
                "in the current model, which is a no-op. (Did you mean to pass `assign=True` to "
                "assign items in the state dictionary to their corresponding key in the module "
                "instead of copying them in place?)",
                stacklevel=5,
            )
        if assign and isinstance(own, Parameter):
            value = _like_parameter(value, own)
        if corten.__future__.get_swap_module_params_on_conversion():
            loaded = own.module_load(value, assign=assign)
            if loaded is value or loaded is own:
                raise RuntimeError(
                    "module_load returned one of self or other, please .detach() the result if "
                    "returning one of the inputs in module_load"
                )
            if isinstance(own, Parameter):
                loaded = _like_parameter(loaded, own)
            corten.utils.swap_tensors(own, loaded)
        elif assign:
            setattr(self, name, value)
        else:
            own.copy_(value)

    def _load_extra_state(self, state_dict, prefix, strict, missing_keys, unexpected_keys):
        key = prefix + _EXTRA_STATE_KEY_SUFFIX
        if self._overrides("set_extra_state"):
            if key in state_dict:
                self.set_extra_state(state_dict[key])
            elif strict:
                missing_keys.append(key)
        elif strict and key in state_dict:
            unexpected_keys.append(key)

    def _own_unexpected(self, state_dict, prefix, persistent):
        extra = prefix + _EXTRA_STATE_KEY_SUFFIX
        for key in state_dict:
            if not key.startswith(prefix) or key == extra:
                continue
            head, _, rest = key[len(prefix):].partition(".")
            # A longer name belongs to a child, if there is one of that name.
            if rest:
                if head not in self._modules:
                    yield key
            elif head not in self._parameters and head not in persistent:
                yield key

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Copies tensors by name from ``state_dict`` into this module and its children.

        With ``strict`` every name must occur on both sides. With ``assign`` the tensors themselves
        are taken instead of their values. Returns the missing and unexpected names.
        """
        from collections.abc import Mapping

        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata
        load = _Load(metadata or {}, strict, assign)
        load.module(self, "", state_dict)
        if strict:
            load.note("Unexpected", load.unexpected)
            load.note("Missing", load.missing)
        if load.errors:
            lines = "\n\t".join(load.errors)
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{lines}"
            )
        return _IncompatibleKeys(load.missing, load.unexpected)


def _like_parameter(tensor, own):
    """A parameter of a tensor's data that requires gradients as a module's own one does."""
    if not isinstance(tensor, Parameter):
        return Parameter(tensor, requires_grad=own.requires_grad)
    return tensor.requires_grad_(own.requires_grad)


class _Load:
    """One walk of load_state_dict over a tree of modules."""

    def __init__(self, metadata, strict, assign):
        self.metadata = metadata
        self.strict, self.assign = strict, assign
        self.missing, self.unexpected, self.errors = [], [], []

    def module(self, module, prefix, state_dict):
        local = dict(self.metadata.get(prefix[:-1], {}))
        if self.assign:
            local["assign_to_params_buffers"] = True
        module._load_from_state_dict(
            state_dict, prefix, local, True, self.missing, self.unexpected, self.errors
        )
        for name, child in module._modules.items():
            if child is not None:
                path = f"{prefix}{name}."
                # Hooks of a child see its own part, as in PyTorch.
                part = {key: value for key, value in state_dict.items() if key.startswith(path)}
                self.module(child, path, part)
        keys = _IncompatibleKeys(self.missing, self.unexpected)
        for hook in module._load_state_dict_post_hooks.values():
            if hook(module, keys) is not None:
                raise AssertionError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected "
                    "to return new values, if incompatible_keys need to be modified, it should be "
                    "done inplace."
                )

    def note(self, kind, keys):
        if keys:
            names = ", ".join(f'"{key}"' for key in keys)
            self.errors.insert(0, f"{kind} key(s) in state_dict: {names}. ")
