"""Functions whose gradients are written by hand."""

from __future__ import annotations

import functools
import itertools

from corten import _C
from corten._C import _function_apply

__all__ = [
    "BackwardCFunction", "Function", "FunctionCtx", "FunctionMeta", "InplaceFunction",
    "NestedIOFunction", "once_differentiable",
]


class FunctionCtx:
    """What ``forward`` and ``backward`` of one call share; the methods are native."""

    def save_for_backward(self, *tensors):
        """Keeps inputs and outputs for the backward pass."""
        self.to_save = tensors

    def mark_dirty(self, *args):
        """Says which inputs are modified in place."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args):
        """Says which outputs have no gradient."""
        self.non_differentiable = args

    def set_materialize_grads(self, value):
        """Whether absent gradients become zeros. Default: yes."""
        self.materialize_grads = value


class BackwardCFunction(_C._FunctionBase):
    """The node of a call: what ``forward`` gets as its context."""

    def apply(self, *args):
        """Runs the backward function, as the engine does."""
        return self._forward_cls._backward_method()(self, *args)


class FunctionMeta(type):
    """Gives every function the class of its nodes."""

    _ids = itertools.count()

    def __init__(cls, name, bases, attributes):
        backward = type(name + "Backward", (BackwardCFunction,), {"_forward_cls": cls})
        backward._autograd_function_id = next(FunctionMeta._ids)
        backward.__module__ = cls.__module__
        cls._backward_cls = backward
        super().__init__(name, bases, attributes)


class Function(_C._FunctionBase, metaclass=FunctionMeta):
    """A differentiable function: ``forward`` computes, ``backward`` gives the gradients.

    Both are static methods; ``MyFunction.apply(x)`` calls. ``forward`` gets a context as its first
    argument, or ``setup_context(ctx, inputs, output)`` is defined beside it.
    """

    generate_vmap_rule = False

    def __init__(self, *args, **kwargs):
        import warnings

        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all "
            "static, so you should invoke them on the class itself. Instantiating an autograd "
            "function will raise an error in a future version of PyTorch.",
            DeprecationWarning, stacklevel=2,
        )

    def __call__(self, *args, **kwargs):
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use "
            "new-style autograd function with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def forward(*args, **kwargs):
        """Computes the outputs."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Keeps what the backward pass needs, where ``forward`` has no context."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx, *grad_outputs):
        """One gradient per argument of ``forward``, ``None`` where there is none."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx, *grad_inputs):
        """The derivative along a direction, for forward mode."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with "
            "forward mode AD."
        )

    @staticmethod
    def vmap(info, in_dims, *args):
        """How the function acts on batches."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod "
            "or set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args, **kwargs):
        """Calls the function and records the call."""
        if kwargs:
            args = _bound(cls, args, kwargs)
        return _function_apply(cls, *args)

    @classmethod
    def _transformed(cls, *args):
        from corten.autograd import _transforms

        return _transforms.apply(cls, args)

    @classmethod
    def _has_setup_context(cls):
        return cls.setup_context is not Function.setup_context

    @classmethod
    def _backward_method(cls):
        has_backward = cls.backward is not Function.backward
        has_vjp = cls.vjp is not Function.vjp
        if has_backward and has_vjp:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You "
                "should only implement one of them."
            )
        return cls.vjp if has_vjp else cls.backward


def _bound(cls, args, kwargs):
    """Keyword arguments of a function with ``setup_context`` in their places."""
    import inspect

    if not cls._has_setup_context():
        raise TypeError(f"{cls.__name__}.apply() takes no keyword arguments")
    bound = inspect.signature(cls.forward).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args


def once_differentiable(fn):
    """Marks a ``backward`` that cannot be differentiated itself."""

    @functools.wraps(fn)
    def wrapper(ctx, *args):
        with _C.no_grad():
            outputs = fn(ctx, *args)
        if not _C.is_grad_enabled():
            return outputs
        if not any(isinstance(arg, _C.Tensor) and arg.requires_grad for arg in args):
            return outputs
        given = outputs if isinstance(outputs, tuple) else (outputs,)
        refused = tuple(
            _Refuse.apply(output) if isinstance(output, _C.Tensor) else output for output in given
        )
        return refused if isinstance(outputs, tuple) else refused[0]

    return wrapper


class InplaceFunction(Function):
    """A function that may work in place."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(Function):
    """A function whose inputs and outputs may be nested; kept for its name."""


class _Refuse(Function):
    @staticmethod
    def forward(ctx, tensor):
        ctx.set_materialize_grads(False)
        return tensor.detach().requires_grad_(False).clone()

    @staticmethod
    def backward(ctx, grad):
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )
