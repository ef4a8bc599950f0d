"""Modules that learn their sizes from their first input."""

from __future__ import annotations

import warnings

from corten.nn.parameter import is_lazy

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """Lets a module start with uninitialised parameters.

    A class defines ``initialize_parameters(*inputs)`` and ``cls_to_become``, the class the module
    turns into after its first call.
    """

    cls_to_become = None

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )
        warnings.warn(
            "Lazy modules are a new feature under heavy development so changes to the API or "
            "functionality can happen at any moment.",
            stacklevel=2,
        )

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, tensor in (*self._parameters.items(), *self._buffers.items()):
            if tensor is None or name in self._non_persistent_buffers_set:
                continue
            as_is = keep_vars or is_lazy(tensor)
            destination[prefix + name] = tensor if as_is else tensor.detach()

    def _lazy_load_hook(self, state_dict, prefix, *args):
        """Gives lazy tensors the shapes of what is about to be loaded."""
        import corten

        for name, tensor in (*self._parameters.items(), *self._buffers.items()):
            given = state_dict.get(prefix + name)
            if is_lazy(tensor) and given is not None and not is_lazy(given):
                with corten.no_grad():
                    tensor.materialize(given.shape)

    def initialize_parameters(self, *args, **kwargs):
        """Gives the parameters their shapes."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self):
        """Whether a parameter or buffer still waits for its shape."""
        return any(
            is_lazy(tensor) for tensor in (*self._parameters.values(), *self._buffers.values())
        )

    def _infer_parameters(self, module, args, kwargs=None):
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(
                f"module {self._get_name()} has not been fully initialized"
            )
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become
