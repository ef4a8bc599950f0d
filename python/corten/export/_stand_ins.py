"""The tensors that stand for the inputs and the state of a module while it is exported: they have no elements."""

from __future__ import annotations

import corten
from corten._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from corten.export import _symbols

__all__ = ["StandIns"]


class StandIns:
    """Makes the tensors that a module is run with.

    Args:
        mod: The module.
        args: Its positional inputs.
        kwargs: Its named inputs.
        dynamic_shapes: Which sizes are not fixed.
    """

    def __init__(self, mod, args, kwargs, dynamic_shapes):
        self.sizes = _symbols.sizes_of(mod, args, kwargs, dynamic_shapes)
        self.fake_mode = FakeTensorMode(
            allow_non_fake_inputs=True, shape_env=self.sizes.shape_env if self.sizes else None, export=True,
            static_shapes=True,
        )

    def mode(self):
        """A block in which operators compute sizes."""
        return self.fake_mode

    def convert(self, value):
        """What stands for a tensor, the same for the same one."""
        return self.fake_mode.from_tensor(value)

    def convert_input(self, place, value):
        """What stands for a leaf of the user's inputs."""
        if self.sizes is not None:
            return self.sizes.convert(self.fake_mode, place, value)
        return self.convert(value) if isinstance(value, corten.Tensor) else value

    def constant(self, value):
        """A tensor that was made of numbers, and what stands for it."""
        if isinstance(value, FakeTensor):
            if value.constant is None:
                raise RuntimeError("the values of a tensor that was made of numbers are not known")
            with unset_fake_temporarily():
                return value.constant.detach().clone(), value
        with unset_fake_temporarily():
            kept = value.detach().clone()
        made = self.fake_mode.fake_tensor_converter.from_real_tensor(self.fake_mode, value, make_constant=True)
        return kept, made

    def describe(self, value):
        """What is kept of a tensor: its shape, strides, dtype and device."""
        value = self.convert(value)
        with self.fake_mode:
            return value.detach()

    def finish(self, recorder):
        """Adds to the graph what sizes need."""
        if self.sizes is not None:
            self.sizes.finish(recorder)

    def range_constraints(self):
        """The ranges of sizes that are not known."""
        return self.sizes.range_constraints() if self.sizes is not None else {}
