"""Tensors without data: a :class:`FakeTensorMode` runs a program on sizes, dtypes and devices alone.

A :class:`FakeTensor` stands for a tensor of any device. Operators on it compute their results' sizes and
strides by the shape rules that meta tensors use; nothing is computed and no device is needed.
"""

from __future__ import annotations

import contextlib
import functools
import threading

import corten
from corten import _C, Tensor
from corten.utils._python_dispatch import TorchDispatchMode, _active, _disable_current_modes
from corten.utils._python_dispatch import is_traceable_wrapper_subclass as _is_wrapper

from ._fake_errors import (  # noqa: F401
    DataDependentOutputException, DynamicOutputShapeException, FakeTensorDeviceMismatchError,
    MetadataMismatchError, UnsupportedFakeTensorException, UnsupportedMutationAliasingException,
    UnsupportedOperatorException, describe, render_call,
)

__all__ = []

#: The key of the mode among those of the library: calls arrive at it last.
_FAKE_KEY = 0


class FakeTensorTLS(threading.local):
    """What holds for all modes of a thread."""

    def __init__(self):
        #: In place of the modes' `allow_non_fake_inputs`, where it is no None.
        self.allow_non_fake_inputs_override = None


fake_tensor_tls = FakeTensorTLS()


class FakeTensorConfig:
    """Settings of all modes."""

    debug = False


class FakeTensor(Tensor):
    """A tensor without data that stands for one on its :attr:`fake_device`.

    Args:
        fake_mode: The mode that it belongs to.
        elem: A meta tensor with its sizes, strides and dtype.
        device: The device that it seems to be on.
        constant: The tensor that it stands for, where its values are known.
    """

    __torch_function__ = _C._disabled_torch_function_impl
    _mode_key = _FAKE_KEY

    @staticmethod
    def __new__(cls, fake_mode, elem, device=None, constant=None, real_tensor=None, pytype=None,
                dispatch_keys=None, *, requires_grad=None, _source=None, _is_param=False):
        if elem.device.type != "meta":
            raise AssertionError(f"elem.device.type must be 'meta', got {elem.device.type}")
        if device is None:
            raise TypeError("FakeTensor.__new__() missing required argument: 'device' (or 'fake_device')")
        if elem.layout != corten.strided:
            raise UnsupportedFakeTensorException(f"{elem.layout} nyi in fake tensors")
        device = _with_index(device)
        self = Tensor._make_fake(cls, elem.detach() if elem.requires_grad else elem, device, _source)
        self._elem, self.fake_mode, self.constant = elem, fake_mode, constant
        self.real_tensor, self.pytype, self.dispatch_keys = real_tensor, pytype, dispatch_keys
        if elem.requires_grad if requires_grad is None else requires_grad:
            self.requires_grad_(True)
        if _is_param:
            self._is_param = True
        return self

    def __init__(self, *args, **kwargs):
        pass

    @property
    def fake_device(self):
        """The device that it seems to be on."""
        return self.device

    @staticmethod
    def from_tensor(t, fake_mode):
        """What stands for a tensor in a mode."""
        return fake_mode.from_tensor(t)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if any(not issubclass(kind, FakeTensor) and kind is not Tensor for kind in types):
            return NotImplemented
        mode = next(leaf.fake_mode for leaf in _leaves(args, kwargs) if isinstance(leaf, FakeTensor))
        if active_mode() is not None:
            return NotImplemented
        with mode:
            return func(*args, **kwargs)

    @property
    def shape(self):
        """The sizes, symbolic ones where they are not known."""
        found = self.__dict__.get("_symbolic")
        return Tensor.shape.__get__(self) if found is None else corten.Size(found.numbers(found.sizes))

    def size(self, dim=None):
        """The sizes, or that of one dimension."""
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim=None):
        """The strides, or that of one dimension."""
        found = self.__dict__.get("_symbolic")
        strides = Tensor.stride(self) if found is None else found.numbers(found.strides)
        return strides if dim is None else strides[dim]

    def storage_offset(self):
        """Where in the storage the first element lies."""
        found = self.__dict__.get("_symbolic")
        return Tensor.storage_offset(self) if found is None else found.numbers((found.offset,))[0]

    def numel(self):
        """The number of elements."""
        found = self.__dict__.get("_symbolic")
        return Tensor.numel(self) if found is None else found.numbers((found.numel(),))[0]

    nelement = numel

    def __len__(self):
        if self.dim() == 0:
            raise TypeError("len() of a 0-d tensor")
        return int(self.shape[0])

    @property
    def _has_symbolic_sizes_strides(self):
        """Whether sizes or strides are symbolic."""
        return self.__dict__.get("_symbolic") is not None

    def __repr__(self, *, tensor_contents=None):
        return _text(self)

    __str__ = __repr__

    def __format__(self, spec):
        return repr(self)

    def item(self):
        """The value: that of a constant, a symbolic number where the mode has those."""
        if self.numel() != 1:
            raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
        mode = active_mode() or self.fake_mode
        with mode.within():
            found = mode.value_of(self)
        if not isinstance(found, (int, float, complex)):
            _record_value(self, found)
        return found

    def tolist(self):
        """Nested lists of the values."""
        if self.dim() == 0:
            return self.item()
        if self.dim() == 1:
            return [element.item() for element in self]
        return [row.tolist() for row in self]

    def __bool__(self):
        return bool(self.item())

    def __int__(self):
        return int(self.item())

    def __float__(self):
        return float(self.item())

    def __complex__(self):
        return complex(self.item())

    def __index__(self):
        return self.item().__index__()

    def numpy(self, *, force=False):
        """Fails: there are no values."""
        raise RuntimeError(".numpy() is not supported for tensor subclasses.")

    def __array__(self, dtype=None, copy=None):
        return self.numpy()

    def data_ptr(self):
        """0: there is no memory."""
        return 0

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the "
                "moment.  If you were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm "
                "usage, see https://github.com/pytorch/pytorch/pull/103001"
            )
        with corten.no_grad():
            copied = self.detach().clone()
        copied.requires_grad_(self.requires_grad)
        for mark in ("_is_param", "_is_buffer", "persistent"):
            if mark in self.__dict__:
                setattr(copied, mark, getattr(self, mark))
        memo[id(self)] = copied
        return copied

    def __reduce_ex__(self, protocol):
        raise RuntimeError(
            "a FakeTensor has no data and cannot be pickled or saved; keep its sizes and dtype, or save the tensor "
            "that it stands for"
        )


def _record_value(fake, number):
    """Makes a number that is left open a node of the trace in which its tensor is one."""
    from corten._ops import proxy_mode

    tracing = proxy_mode()
    if tracing is not None:
        from corten.fx.experimental._proxy_call import record_value

        record_value(tracing.tracer, fake, number)


def _text(fake):
    content = f"FakeTensor(..., {describe(fake)}"
    if fake.grad_fn is not None:
        content += f", grad_fn=<{type(fake.grad_fn).__name__}>"
    elif fake.requires_grad:
        mark = "requires_grad=True"
        content += f",\n           {mark}" if len(content) + len(mark) > 78 else f", {mark}"
    content += ")"
    return f"Parameter({content})" if getattr(fake, "_is_param", False) else content


@functools.lru_cache(maxsize=None)
def _with_index(device):
    """A device with the index that it has where none is given."""
    if not isinstance(device, corten.device):
        device = corten.device(device)
    if device.index is not None or device.type not in ("cuda", "hpu", "xpu", "mps", "mtia"):
        return device
    return corten.device(device.type, 0)


def _leaves(args, kwargs):
    """The values among arguments and in lists of them."""
    found = []
    for value in args:
        found.extend(value) if type(value) in (list, tuple) else found.append(value)
    for value in kwargs.values():
        found.extend(value) if type(value) in (list, tuple) else found.append(value)
    return found


def _lift_arguments():
    """Lets calls arrive with symbolic numbers from now on."""
    from corten.fx.experimental import _symbolic_tensor
    from corten.utils import _python_dispatch

    _python_dispatch.lift_arguments = _symbolic_tensor.lift_arguments


def active_mode():
    """The mode that is in force, or None."""
    return next((mode for mode in reversed(_active.modes) if isinstance(mode, FakeTensorMode)), None)


class FakeTensorMode(TorchDispatchMode):
    """A block in which tensors have no data.

    Args:
        allow_fallback_kernels: Whether operators without a shape rule run on zeros to tell their shapes.
        allow_non_fake_inputs: Whether operators take tensors with data, and stand-ins are made of them.
        shape_env: What keeps the symbols of sizes, where sizes shall be symbolic.
        static_shapes: Whether sizes are numbers; they are unless there is a `shape_env`.
    """

    _mode_key = _FAKE_KEY

    def __init__(self, *, allow_fallback_kernels=True, allow_non_fake_inputs=False, shape_env=None,
                 static_shapes=None, export=False):
        super().__init__()
        from ._fake_convert import FakeTensorConverter

        self.allow_fallback_kernels = allow_fallback_kernels
        self.allow_non_fake_inputs = allow_non_fake_inputs
        self.shape_env = shape_env
        if shape_env is not None:
            _lift_arguments()
        self.static_shapes = shape_env is None if static_shapes is None else static_shapes
        self.export = export
        self.allow_meta = True
        self.allow_scalar_outputs = False
        self.propagate_real_tensors = False
        self.in_kernel_invocation = False
        self.cache_enabled = False
        self.fake_tensor_converter = FakeTensorConverter()
        self.enter_stack, self._checks = [], []
        self._asked_by_program = False

    @classmethod
    def is_infra_mode(cls):
        """True: the mode belongs to the library."""
        return True

    def is_our_fake(self, t):
        """Whether a tensor is one of this mode."""
        return isinstance(t, FakeTensor) and t.fake_mode is self

    def __enter__(self):
        before = active_mode()
        if before is self:
            self.enter_stack.append((False, None))
            return self
        if before is not None:
            _active.modes.remove(before)
        self.enter_stack.append((True, before))
        super().__enter__()
        if self.shape_env is not None:
            from ._hint_checks import HintChecks, ValueCalls

            self._checks.append((ValueCalls() if self.static_shapes else HintChecks(self)).__enter__())
        return self

    def __exit__(self, kind, value, traceback):
        entered, before = self.enter_stack.pop()
        if entered:
            if self._checks:
                self._checks.pop().__exit__(kind, value, traceback)
            super().__exit__(kind, value, traceback)
            if before is not None:
                TorchDispatchMode.__enter__(before)

    def within(self):
        """A block in which the mode is in force, unless it is anyway."""
        return self

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.dispatch(func, types, args, kwargs or {})

    def dispatch(self, func, types, args=(), kwargs=None):
        """The result of an operator."""
        from . import _fake_run
        from ._hint_checks import Floats

        if Floats.active is not None:
            Floats.active.see(args, kwargs or {})
        return _fake_run.run(self, func, args, kwargs or {})

    def value_of(self, fake):
        """The only value of a tensor."""
        before, self._asked_by_program = self._asked_by_program, True
        try:
            found = corten.ops.aten._local_scalar_dense.default(fake)
        finally:
            self._asked_by_program = before
        expr = None if self.shape_env is None else self.shape_env.value_by_sample(found)
        if expr is None:
            return found
        number = self.shape_env.number(expr)
        if fake.dtype != corten.bool:
            return number
        from corten._ops import disabled_proxy_modes, proxy_mode

        # The value itself is what a trace knows, not how it was compared.
        with disabled_proxy_modes() if proxy_mode() is not None else contextlib.nullcontext():
            return number == 1

    def from_tensor(self, tensor, *, static_shapes=None, source=None, symbolic_context=None, trace=True):
        """What stands for a tensor: the same for the same tensor, with its views, gradient and history.

        Args:
            static_shapes: Whether its sizes are numbers; as the mode says unless given.
            source: Where the tensor comes from, in guards.
            symbolic_context: Which of its sizes are symbolic, and how.

        Raises:
            UnsupportedFakeTensorException: Nothing can stand for it.
        """
        unusual = (static_shapes, source, symbolic_context) != (None, None, None)
        if isinstance(tensor, FakeTensor) and tensor.fake_mode is self and not unusual:
            return tensor
        static = self.static_shapes if static_shapes is None else static_shapes
        if static and symbolic_context is not None:
            raise AssertionError("cannot set both static_shapes and symbolic_context")
        return self.fake_tensor_converter.from_real_tensor(
            self, tensor, shape_env=None if static else self.shape_env, source=source,
            symbolic_context=symbolic_context,
        )


def is_fake(x):
    """Whether a tensor has no data, or is made of such."""
    if isinstance(x, FakeTensor):
        return True
    if isinstance(x, Tensor) and _is_wrapper(x):
        inner = [is_fake(getattr(x, name)) for name in x.__tensor_flatten__()[0]]
        if any(inner) != all(inner):
            raise AssertionError("got mixed fake and real tensors!")
        return bool(inner) and inner[0]
    return is_fake(_functional_inner(x)) if _functional_inner(x) is not None else False


is_fake_tensor = is_fake


def _functional_inner(x):
    """The tensor inside of a functional one, or None."""
    if isinstance(x, Tensor) and not isinstance(x, FakeTensor):
        elem = getattr(x, "elem", None)
        return elem if isinstance(elem, Tensor) else None
    return None


def maybe_get_fake_mode(t):
    """The mode that a tensor without data belongs to, or None."""
    if isinstance(t, FakeTensor):
        return t.fake_mode
    if isinstance(t, Tensor) and _is_wrapper(t):
        modes = [maybe_get_fake_mode(getattr(t, name)) for name in t.__tensor_flatten__()[0]]
        if any(mode is not modes[0] for mode in modes):
            raise AssertionError("All fake tensor modes must be the same")
        return modes[0] if modes else None
    inner = _functional_inner(t)
    return None if inner is None else maybe_get_fake_mode(inner)


def maybe_get_fake_device(x):
    """The device that a tensor without data seems to be on, or None."""
    return x.fake_device if isinstance(x, FakeTensor) else None


def maybe_get_fake_constant(x):
    """The tensor with the values of one without data, where they are known, or None."""
    return x.constant if isinstance(x, FakeTensor) else None


def maybe_get_real_tensor(x):
    """The tensor that was computed beside one without data: None."""
    return None


@contextlib.contextmanager
def unset_fake_temporarily():
    """A block in which tensors have data; gives the mode that was in force."""
    mode = active_mode()
    place = None if mode is None else next(i for i, one in enumerate(_active.modes) if one is mode)
    if mode is not None:
        _active.modes.pop(place)
        _C._set_dispatch_modes_enabled(bool(_active.modes))
    try:
        yield mode
    finally:
        if mode is not None:
            _active.modes.insert(min(place, len(_active.modes)), mode)
            _C._set_dispatch_modes_enabled(True)


def get_plain_tensors(subclass, *, out):
    """The tensors that one of a class with ``__tensor_flatten__`` is made of, added to a list."""
    names, _ = subclass.__tensor_flatten__()
    for name in names:
        inner = getattr(subclass, name)
        if hasattr(type(inner), "__tensor_flatten__"):
            get_plain_tensors(inner, out=out)
        else:
            out.append(inner)
    return out


def no_dispatch():
    """A block in which no mode is in force."""
    return _disable_current_modes()


class FakeCopyMode(corten.overrides.TorchFunctionMode):
    """A block in which copies of tensors are tensors without data of a mode."""

    def __init__(self, fake_mode):
        self.fake_mode = fake_mode

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in (Tensor.clone, corten.clone):
            return func(self.fake_mode.from_tensor(args[0], static_shapes=True), **kwargs)
        if func is Tensor.__deepcopy__ or getattr(func, "__name__", None) == "__deepcopy__":
            tensor, memo = args
            if id(tensor) not in memo:
                memo[id(tensor)] = self.fake_mode.from_tensor(tensor, static_shapes=True)
            return memo[id(tensor)]
        with corten._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)


for _error in (
    DataDependentOutputException, DynamicOutputShapeException, FakeTensorDeviceMismatchError, MetadataMismatchError,
    UnsupportedFakeTensorException, UnsupportedMutationAliasingException, UnsupportedOperatorException,
):
    _error.__module__ = __name__

if not _C._op_overloads("aten::lift_fresh"):
    _C._library_define("aten", "lift_fresh(Tensor(a) self) -> Tensor(a)")
    _C._library_impl("aten::lift_fresh", "CompositeExplicitAutograd", lambda tensor: tensor)


def __getattr__(name):
    if name == "FakeTensorConverter":
        from ._fake_convert import FakeTensorConverter

        return FakeTensorConverter
    if name in ("run_fallback_kernel", "in_kernel_invocation_manager"):
        from . import _fake_run

        return getattr(_fake_run, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


