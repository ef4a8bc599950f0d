"""Shape rules that programs register for their operators."""

from __future__ import annotations

import contextlib

_kernels = {}
_current = None


def register(name, function):
    """Remembers the shape rule of an operator; returns what forgets it."""
    _kernels[name] = function
    return lambda: _kernels.pop(name, None)


def runner(func):
    """What runs the shape rule that a program registered for an operator, or None."""
    kernel = _kernels.get(func.name()) if _kernels else None
    if kernel is None:
        return None

    def run(mode, func, args, kwargs):
        with mode, set_ctx_getter(lambda: FakeImplCtx(mode, func)):
            return kernel(*args, **kwargs)

    return run


@contextlib.contextmanager
def set_ctx_getter(getter):
    """A block in which shape rules get their context from a function."""
    global _current
    before, _current = _current, getter
    try:
        yield
    finally:
        _current = before


def get_ctx():
    """The context of the shape rule that runs.

    Raises:
        RuntimeError: None runs.
    """
    if _current is None:
        raise RuntimeError(
            "Attempted to call get_ctx() in a function that was not called by torch.library.register_fake's "
            "machinery. get_ctx() can only be called inside of a function registered with register_fake, in a "
            "FakeTensorMode"
        )
    return _current()


class FakeImplCtx:
    """What a shape rule may ask for: sizes that depend on data."""

    def __init__(self, mode, func):
        self._mode, self._shape_env, self._func = mode, mode.shape_env, func

    def new_dynamic_size(self, *, min=0, max=None):
        """A size that depends on data, within bounds.

        Raises:
            DynamicOutputShapeException: The mode has no symbols.
            ValueError: The bounds are no numbers, or negative.
        """
        from corten._subclasses._fake_errors import DynamicOutputShapeException

        if self._shape_env is None or not self._shape_env.allow_dynamic_output_shape_ops:
            raise DynamicOutputShapeException(self._func)
        if not isinstance(min, int) or max is not None and not isinstance(max, int):
            raise ValueError(f"ctx.new_dynamic_size(min={min}, max={max}): expected min and max to be statically "
                             "known ints but got SymInt. This is not supported.")
        if min < 0:
            raise ValueError(f"ctx.new_dynamic_size(min={min}, ...): expected min to be greater than or equal to 0: "
                             "this API can only create non-negative sizes.")
        return self._shape_env.new_dynamic_size(min=min, max=max)

    create_unbacked_symint = new_dynamic_size
