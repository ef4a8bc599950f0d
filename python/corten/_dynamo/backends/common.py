"""Backends out of compilers of the two passes."""

from __future__ import annotations

__all__ = ["aot_autograd", "device_from_inputs", "fake_tensor_unsupported"]


class AotAutograd:
    """A backend that gives the graphs of both passes to compilers."""

    def __init__(self, **kwargs):
        self.kwargs = kwargs
        self.__name__ = "compiler_fn"

    def __call__(self, gm, example_inputs, **kwargs):
        from corten._functorch.aot_autograd import aot_module_simplified
        from corten._functorch.compilers import nop

        options = {"fw_compiler": nop, **self.kwargs}
        if callable(options.get("decompositions")):
            options["decompositions"] = options["decompositions"]()
        return aot_module_simplified(gm, tuple(example_inputs), **options)


def aot_autograd(**kwargs):
    """A backend that gives the graphs of both passes to compilers: the arguments are those of
    ``aot_module_simplified``."""
    return AotAutograd(**kwargs)


def fake_tensor_unsupported(fn):
    """A backend that is given tensors with data, as all are."""
    return fn


def device_from_inputs(example_inputs):
    """The device of the first tensor."""
    return next(one.device for one in example_inputs if hasattr(one, "device"))
