"""Operators made of functions, and the kernels that their derivatives and batch rules become."""

from __future__ import annotations

import inspect

import corten
from corten import _C
from corten._library import fake_impl
from corten._library.infer_schema import infer_schema
from corten.autograd import Function
from corten.sparse import _entries as _sparse
from corten.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

_Tensor = corten.Tensor


def implement(name, key, function):
    """Makes a function the kernel of an operator for a dispatch key.

    Raises:
        NotImplementedError: The kernel would never be called there.
    """
    number = _C._library_impl(name, key, _sparse.kernel(function))
    if key.startswith("Sparse"):
        _sparse.replaced(name, 1)
    return number


def custom_op(name, fn=None, /, *, mutates_args, device_types=None, schema=None, tags=None):
    """Makes an operator ``namespace::name`` out of a function.

    The schema follows from the annotations unless it is given; ``mutates_args`` names the arguments
    that the function writes to; ``device_types`` restricts the function to tensors of these.
    """

    def make(function):
        text = schema or infer_schema(function, mutates_args=mutates_args)
        namespace, separator, base = name.partition("::")
        if not separator or not namespace or not base:
            raise ValueError(f"Expected `name` to be of the form 'namespace::name', got {name}")
        definition = CustomOpDef(namespace, base, text, function)
        definition.register_kernel(device_types)(function)
        return definition

    return make if fn is None else make(fn)


class CustomOpDef:
    """An operator made by ``custom_op``: call it, or register more about it."""

    def __init__(self, namespace, name, schema, fn):
        self._namespace, self._name, self._schema = namespace, name, schema
        self._init_fn = fn
        self._qualname = _C._library_define(namespace, name + schema)
        vars(getattr(corten.ops, namespace)).pop(name, None)
        self._derivative = None
        self._written = _written(schema)
        _C._library_impl(self._qualname, "Meta", self._no_fake)
        _C._library_impl(
            self._qualname, "Autograd", autograd_kernel(self._qualname, lambda: self._derivative)
        )

    def _no_fake(self, *_args, **_kwargs):
        raise RuntimeError(
            f"There was no fake impl registered for {self}. This is necessary for "
            f"torch.compile/export/fx tracing to work. Please use `{self._name}.register_fake` to "
            "add an fake impl."
        )

    @property
    def _opoverload(self):
        return getattr(getattr(corten.ops, self._namespace), self._name).default

    def register_kernel(self, device_types, fn=None, /):
        """Registers a function as the kernel for device types, ``None`` for all."""
        types = (device_types,) if isinstance(device_types, (str, type(None))) else device_types

        def register(function):
            kernel = _checked(self, function)
            for device in types:
                key = "CompositeExplicitAutograd" if device is None else device.upper()
                implement(self._qualname, "Meta" if device == "meta" else key, kernel)
            return function

        return register if fn is None else register(fn)

    def register_fake(self, fn, /):
        """Registers what gives shapes, dtypes and strides of the results without data."""
        _C._library_impl(self._qualname, "Meta", fn)
        fake_impl.register(self._qualname, fn)
        return fn

    def register_autograd(self, backward, /, *, setup_context=None):
        """Registers the derivative: see ``library.register_autograd``."""
        if self._written:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self} with schema "
                f"{self._schema}. Please create a functional operator and register an autograd "
                "formula for that."
            )
        self._derivative = (backward, setup_context)

    def register_autocast(self, device_type, cast_inputs):
        """Casts floating-point tensors where casts are on: see ``library.register_autocast``."""
        check_autocast(device_type)
        if device_type == "cpu":
            kernel = autocast_kernel(self._qualname, cast_inputs)
            _C._library_impl(self._qualname, "AutocastCPU", kernel)

    def register_torch_dispatch(self, torch_dispatch_class, fn=None, /):
        """Takes calls over from modes: see ``library.register_torch_dispatch``."""
        return take_over(self._qualname, torch_dispatch_class, fn)

    def register_vmap(self, func, /):
        """Registers the rule for batches: see ``library.register_vmap``."""
        _C._library_impl(self._qualname, "FuncTorchBatched", vmap_kernel(self._qualname, func))
        return func

    def __call__(self, *args, **kwargs):
        return self._opoverload(*args, **kwargs)

    def __repr__(self):
        return f"<CustomOpDef({self._qualname})>"


def _written(schema):
    """The names of the arguments that a schema says are written to."""
    inside = schema[schema.index("(") + 1:schema.rindex("->")]
    return [part.split()[1].partition("=")[0] for part in inside.split(", ") if "!)" in part]


def _checked(definition, function):
    """The function as a kernel: what it writes to gets a new version, and its results must be new
    tensors."""
    signature = inspect.signature(function)

    def kernel(*args, **kwargs):
        result = function(*args, **kwargs)
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, _Tensor)]
        storages = {leaf.untyped_storage().data_ptr() for leaf in given if leaf.numel()}
        for one in tree_leaves(result):
            if not isinstance(one, _Tensor) or one.numel() == 0:
                continue
            if one.untyped_storage().data_ptr() in storages:
                raise RuntimeError(
                    f"{definition._qualname} (with implementation in {function.__module__}): The "
                    "output of this custom operator (1) must not also be an input to this custom "
                    "operator and (2) may not alias any inputs to this custom operator or other "
                    "returns. The most common way to trigger this error is if we have y = "
                    "custom_op(x) and y and x are the same Tensor. Please instead return a clone "
                    "of the offending output tensor(s) (e.g. return x.clone()) or refactor the "
                    "custom operator to not return y."
                )
        if definition._written:
            bound = signature.bind(*args, **kwargs).arguments
            for name in definition._written:
                for one in tree_leaves(bound.get(name)):
                    if isinstance(one, _Tensor):
                        _C._increment_version(one)
        return result

    return kernel


def autograd_kernel(name, derivative):
    """The kernel of an operator above its device kernels, which records its derivative."""

    def kernel(*args, **kwargs):
        leaves, spec = tree_flatten((args, kwargs))
        recorded = _C.is_grad_enabled() and any(
            isinstance(leaf, _Tensor) and leaf.requires_grad for leaf in leaves
        )
        if not recorded:
            return _C._op_call_below_autograd(name, *args, **kwargs)
        parts = _Parts(name, spec, derivative)
        result = _Recorded.apply(parts, *leaves)
        return tree_unflatten(list(result), parts.output)

    return kernel


class _Parts:
    """What the calls of `_Recorded` share beside tensors."""

    def __init__(self, name, spec, derivative):
        self.name, self.spec, self.derivative = name, spec, derivative
        self.output = None


class _Recorded(Function):
    """An operator whose backward function was registered apart."""

    @staticmethod
    def forward(ctx, parts, *leaves):
        args, kwargs = tree_unflatten(list(leaves), parts.spec)
        ctx.parts = parts
        result = _C._op_call_below_autograd(parts.name, *args, **kwargs)
        outputs, parts.output = tree_flatten(result)
        _, setup = parts.derivative() or (None, None)
        if setup is not None:
            extra = {"keyword_only_inputs": kwargs} if kwargs else {}
            setup(ctx=ctx, inputs=args, output=result, **extra)
        return tuple(outputs)

    @staticmethod
    def backward(ctx, *grads):
        parts = ctx.parts
        backward, _ = parts.derivative() or (None, None)
        if backward is None:
            raise RuntimeError(
                f"Trying to backward through {parts.name}.default but no autograd formula was "
                "registered. Please use register_autograd to add one."
            )
        found = backward(ctx, *tree_unflatten(list(grads), parts.output)) if (
            parts.output.type in (tuple, list) and parts.output.num_leaves > 1
        ) else backward(ctx, *grads)
        found = found if isinstance(found, tuple) else (found,)
        return (None, *_per_leaf(parts, found))


def _per_leaf(parts, found):
    """One gradient per leaf of the arguments, out of one per argument."""
    args, kwargs = parts.spec.children_specs
    if len(found) != len(args.children_specs):
        raise RuntimeError(
            f"{parts.name}: the backward function returned {len(found)} gradients, expected one "
            f"for each of the {len(args.children_specs)} inputs"
        )
    leaves = []
    for gradient, spec in zip(found, args.children_specs):
        if spec.is_leaf():
            leaves.append(gradient)
        elif gradient is None:
            leaves.extend([None] * spec.num_leaves)
        else:
            leaves.extend(tree_leaves(gradient, is_leaf=lambda leaf: leaf is None))
    return leaves + [None] * kwargs.num_leaves


def take_over(name, mode_class, function):
    """Registers what takes an operator over from modes, or gives the decorator that does."""
    from corten.utils._python_dispatch import register_rule

    def register(rule):
        register_rule(name, mode_class, rule)
        return rule

    return register if function is None else register(function)


def check_autocast(device_type):
    """That casts can be registered for a kind of device.

    Raises:
        ValueError: They cannot.
    """
    if not isinstance(device_type, str):
        raise TypeError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if device_type not in ("cpu", "cuda"):
        raise ValueError(f"Unknown device type: {device_type}")


def autocast_kernel(name, dtype):
    """The kernel of an operator that casts what it gets, and calls it without further casts."""

    def cast(value):
        if isinstance(value, _Tensor) and value.is_floating_point() and value.device.type == "cpu" \
                and value.dtype != corten.float64:
            return value.to(dtype)
        return value

    def kernel(*args, **kwargs):
        leaves, spec = tree_flatten((args, kwargs))
        args, kwargs = tree_unflatten([cast(leaf) for leaf in leaves], spec)
        with corten.amp.autocast("cpu", enabled=False):
            return _C._op_call(name, *args, **kwargs)

    return kernel


def vmap_kernel(name, rule):
    """The kernel of an operator for batches, from a function of values and their dimensions."""
    from corten.autograd._transforms import own_rule

    def kernel(*args, **kwargs):
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, _Tensor)]
        levels = [_C._batch_level(tensor) for tensor in tensors]
        level = max(level for level in levels if level is not None)
        return own_rule(lambda *given: rule(*given, **kwargs), name, args, level)

    return kernel
