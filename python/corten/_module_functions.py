"""Functions and classes of the package that are written in Python: symbolic numbers, ranges, old names."""

from __future__ import annotations

import math

import corten
from corten import _C
from corten._overriding import as_operator

has_lapack = has_spectral = has_openmp = True
has_mkl = False


class FatalError(Exception):
    """An error after which the process cannot go on."""


class AcceleratorError(RuntimeError):
    """An error of an accelerator, with its code."""

    def __init__(self, message, error_code=None):
        super().__init__(message)
        self.error_code = error_code


class JITException(Exception):
    """An error of a compiled function."""


class DisableTorchFunctionSubclass:
    """A ``with`` block in which classes of tensors do not take operators over."""

    _state = 1

    def __enter__(self):
        self._before = _C._torch_function_state()
        _C._set_torch_function_state(self._state)
        return self

    def __exit__(self, kind, value, traceback):
        _C._set_torch_function_state(self._before)


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """A ``with`` block in which nothing takes operators over."""

    _state = 2


@as_operator
def dequantize(tensor):
    """Floating-point numbers; unquantised tensors become ``float32``."""
    return tensor.dequantize()


def init_num_threads():
    """Sets the number of threads to that of the machine; it is set when it is first needed."""


def is_vulkan_available():
    """Whether Vulkan can be used."""
    return False


def _assert(condition, message):
    """An ``assert`` that traces of programs record."""
    if type(condition) is not corten.Tensor and _C.has_torch_function((condition,)):
        return _C._dispatch_torch_function(_assert, [condition], (condition, message), {})
    if not condition:
        raise AssertionError(message)


@as_operator
def is_distributed(input):
    """Whether a tensor's parts are in several processes."""
    return False


@as_operator
def cudnn_is_acceptable(tensor):
    """Whether cuDNN takes a tensor."""
    return False


@as_operator
def norm_except_dim(v, pow=2, dim=0):
    """Norms over all dimensions but one, of a shape that broadcasts; ``dim=-1``: over all."""
    if dim == -1:
        return v.norm(pow)
    return v.norm(pow, [other for other in builtin_range(v.dim()) if other != dim], keepdim=True)


builtin_range = range


@as_operator
def range(start=0, end=None, step=1, *, out=None, dtype=None, layout=None, device=None,
          requires_grad=False):
    """Deprecated: numbers from ``start`` to ``end``, which is included."""
    import warnings

    if end is None:
        raise TypeError('range() missing 1 required positional arguments: "end"')
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is "
        "inconsistent with Python's range builtin. Instead, use torch.arange, which produces values "
        "in [start, end).",
        stacklevel=3,
    )
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) / step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if dtype is None:
        dtype = corten.get_default_dtype() if out is None else out.dtype
    count = math.floor((end - start) / step) + 1
    steps = corten.arange(count, dtype=corten.float64, device=device)
    made = (start + steps * step).to(dtype)
    if out is not None:
        if out.numel() != count:
            out.resize_(made.shape)
        return out.copy_(made.view(out.shape))
    return made.requires_grad_(requires_grad)


@as_operator
def from_file(filename, shared=None, size=0, *, dtype=None, layout=None, device=None,
              pin_memory=False, requires_grad=False):
    """A tensor over a file that is mapped. With ``shared`` writes reach the file, which is made where it
    is missing, and made as large as it must be.

    Raises:
        RuntimeError: The file cannot be opened or mapped, or is too small.
    """
    if isinstance(size, bool) or not isinstance(size, int):
        kind = type(size).__name__
        raise TypeError(f"from_file(): argument 'size' (position 3) must be int, not {kind}")
    dtype = corten.get_default_dtype() if dtype is None else dtype
    if layout not in (None, corten.strided):
        raise NotImplementedError(f"from_file: files have no tensors of layout {layout}")
    device = corten.empty(0, device=device).device
    if device.type != "cpu":
        raise NotImplementedError(f"from_file: files have no tensors on {device}")
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(
            "Only Tensors of floating point and complex dtype can require gradients"
        )
    nbytes = size * dtype.itemsize
    if nbytes >= 2**63:
        raise RuntimeError(f"Storage size calculation overflowed with sizes=[{size}]")
    storage = corten.UntypedStorage.from_file(filename, bool(shared), nbytes)
    made = corten.empty((0,), dtype=dtype).set_(storage, 0, (size,), (1,))
    return made.requires_grad_(requires_grad)


spmm = corten.mm


@as_operator
def smm(input, mat):
    """The product of a sparse matrix and another one."""
    return corten.mm(input, mat)


def _map(tensor, callable, others, name):
    if any(one.requires_grad for one in (tensor, *others)):
        raise RuntimeError(
            f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead."
        )
    if tensor.device.type != "cpu":
        raise TypeError(f"{name} is only implemented on CPU tensors")
    columns = [other.expand_as(tensor).reshape(-1).tolist() for other in (tensor, *others)]
    convert = float if tensor.is_floating_point() else int
    if tensor.is_complex():
        convert = complex
    results = [_converted(callable(*row), convert) for row in zip(*columns)]
    made = corten.tensor(results, dtype=tensor.dtype).reshape(tensor.shape)
    with corten.no_grad():
        return tensor.copy_(made)


def _converted(value, convert):
    if isinstance(value, str):
        raise TypeError(f"must be real number, not {type(value).__name__}")
    return convert(value)


def apply_(self, callable):
    """Replaces every element by a Python function of it: slow, and only on the CPU."""
    return _map(self, callable, (), "apply_")


def map_(self, tensor, callable):
    """Replaces every element by a Python function of it and another tensor's."""
    return _map(self, callable, (tensor,), "map_")


def map2_(self, x, y, callable):
    """Replaces every element by a Python function of it and two other tensors'."""
    return _map(self, callable, (x, y), "map2_")


def _shape_as_tensor(input):
    """The sizes of a tensor, as a tensor."""
    return corten.tensor(list(input.shape), dtype=corten.int64)


def while_loop(cond_fn, body_fn, carried_inputs):
    """Replaces values by ``body_fn(*values)`` as long as ``cond_fn(*values)`` is true."""
    from corten._higher_order_ops.while_loop import while_loop as loop

    return loop(cond_fn, body_fn, carried_inputs)


def _cast(dtype):
    def cast(input, non_blocking=False):
        return input.to(getattr(corten, dtype))

    cast.__doc__ = f"The elements as {dtype}."
    return cast


for _name, _dtype in (
    ("Byte", "uint8"), ("Char", "int8"), ("Double", "float64"), ("Float", "float32"),
    ("Half", "float16"), ("Int", "int32"), ("Long", "int64"), ("Short", "int16"),
):
    globals()[f"_cast_{_name}"] = _made = _cast(_dtype)
    _made.__name__ = _made.__qualname__ = f"_cast_{_name}"
