"""``OptimizedModule``: what ``compile`` makes of a module."""

from __future__ import annotations

from corten.nn.modules.module import Module

__all__ = ["OptimizedModule"]


class OptimizedModule(Module):
    """A module around another one, which it runs, and of which it has all attributes.

    The names of its parameters and the keys of its state begin with ``_orig_mod``.
    """

    def __init__(self, mod, dynamo_ctx=None):
        super().__init__()
        self._modules["_orig_mod"] = mod
        object.__setattr__(self, "dynamo_ctx", dynamo_ctx)
        call = mod.__call__
        object.__setattr__(self, "forward", call if dynamo_ctx is None else dynamo_ctx(call))
        object.__setattr__(self, "_torchdynamo_orig_callable", mod.forward)

    def __reduce__(self):
        return type(self), (self._orig_mod, self.dynamo_ctx)

    @property
    def training(self):
        """Whether the module inside is being trained."""
        return self._orig_mod.training

    @training.setter
    def training(self, value):
        inside = self._modules.get("_orig_mod")
        if inside is not None:
            inside.training = value

    def __getattr__(self, name):
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name, value):
        if name == "training" or name in self.__dict__ or "_modules" not in self.__dict__:
            object.__setattr__(self, name, value)
        elif "_orig_mod" in self._modules and name != "_orig_mod":
            setattr(self._orig_mod, name, value)
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name):
        delattr(self._orig_mod, name)

    def __len__(self):
        return len(self._orig_mod)

    def __contains__(self, item):
        return item in self._orig_mod


def is_dynamo_supported():
    """Whether functions can be compiled."""
    return True


is_inductor_supported = is_dynamo_supported
