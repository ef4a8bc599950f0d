"""What pickles of tensors refer to: functions that rebuild them."""

from __future__ import annotations

import copyreg
import math
import sys
import threading
import traceback
from collections import OrderedDict

import corten

from ._typed_storage import STORAGE_NAMES
from .storage import TypedStorage, is_storage, only_truths, untyped

#: PyTorch pickles memory formats as ``torch._utils.torch.contiguous_format``.
torch = corten

NAME_OF_DTYPE = {dtype: name for name, dtype in STORAGE_NAMES.items()}

#: Per thread, the sparse tensors of the load that runs, to be checked when their data are there.
loading = threading.local()


def byte_view(storage):
    """The bytes of a storage on the CPU. The memory stays as long as the view, whatever becomes of the
    storage."""
    return memoryview(corten._C._lend_storage(storage))


def cpu_bytes(storage):
    """The bytes of a storage, or of its copy on the CPU."""
    return byte_view(storage if storage.device.type == "cpu" else storage.cpu())


def writing_all(file):
    """A function that writes all of a bytes object to a file, of which some write only a part."""

    def write(data):
        view = memoryview(data)
        while view:
            # Other files than raw ones write everything; some of them do not say so.
            written = file.write(view)
            view = view[len(view) if written is None else written:]

    return write


def _element_size(dtype):
    """The bytes of an element.

    Raises:
        RuntimeError: ``dtype`` is no dtype.
    """
    if not isinstance(dtype, corten.dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return dtype.itemsize


def short_dtype(dtype):
    """``float32`` for ``torch.float32``."""
    return str(dtype).split(".")[-1]


def dtypes(aliases=False):
    """All dtypes by name, with the second names of some if asked for."""
    named = {name: value for name, value in vars(corten._C).items() if isinstance(value, corten._C.dtype)}
    return {name: dtype for name, dtype in named.items() if aliases or name == short_dtype(dtype)}


def scalar_type(dtype):
    """``Float`` for ``torch.float32``: the name in messages about types of tensors."""
    return corten.empty(0, dtype=dtype).type().split(".")[-1].removesuffix("Tensor")


def wrap_dim(dim, count):
    """A dimension of ``count``, counted from the first one.

    Raises:
        IndexError: There is none.
    """
    if not -count <= dim < count:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-count}, {count - 1}], but got {dim})"
        )
    return dim % count


def strided_over(made, storage, offset, size, stride):
    """Makes a tensor look at a storage, with strides of any sign."""
    reverse = [dim for dim, step in enumerate(stride) if step < 0]
    if not reverse:
        return made.set_(storage, offset, size, stride)
    offset += sum((size[dim] - 1) * stride[dim] for dim in reverse if size[dim] > 0)
    with corten.no_grad():
        made.set_(storage, offset, size, tuple(abs(step) for step in stride))
    return corten._C._corten.flip_view(made, reverse).detach()


def quantizer_of(tensor):
    """The scheme and the parameters of a quantised tensor, as pickles hold them."""
    scheme = tensor.qscheme()
    if scheme is corten.per_tensor_affine:
        return scheme, tensor.q_scale(), tensor.q_zero_point()
    return (
        scheme, tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points(),
        tensor.q_per_channel_axis(),
    )


def quantized_over(storage, dtype, offset, size, stride, quantizer):
    """A quantised tensor over a storage, with the parameters of ``quantizer_of``.

    Raises:
        RuntimeError: The scheme is none that tensors have.
    """
    scheme, *parameters = quantizer
    options = {"dtype": dtype, "device": storage.device}
    if scheme is corten.per_tensor_affine:
        scale, zero_point = parameters
        made = corten._empty_affine_quantized((0,), scale=scale, zero_point=zero_point, **options)
    elif scheme in (corten.per_channel_affine, corten.per_channel_affine_float_qparams):
        scales, zero_points, axis = parameters
        if type(scales) is list and type(zero_points) is list:
            exact = scheme is corten.per_channel_affine
            scales = corten.tensor(scales, dtype=corten.float64 if exact else corten.float32)
            zero_points = corten.tensor(zero_points, dtype=corten.int64 if exact else corten.float32)
        made = corten._empty_per_channel_affine_quantized(
            (0,), scales=scales, zero_points=zero_points, axis=axis, **options
        )
    else:
        raise RuntimeError(f"Can't deserialize quantized tensor with qscheme {scheme}")
    return made.set_(storage, offset, size, stride)


def check_unnamed(tensor):
    """Refuses a tensor with names of dimensions, for which files have no place."""
    if tensor.has_names():
        raise RuntimeError(
            "NYI: Named tensors don't support serialization. Please drop names via `tensor = "
            "tensor.rename(None)` before serialization."
        )


def is_wrapper(tensor):
    """Whether a tensor has no elements, and a class that says what operators make of it."""
    if type(tensor).__torch_dispatch__ is corten.Tensor.__torch_dispatch__:
        return False
    try:
        tensor.untyped_storage()
    except NotImplementedError:
        return True
    return False


def reduce_tensor(tensor):
    """The function and arguments by which a pickle rebuilds a plain tensor."""
    if is_wrapper(tensor):
        return _rebuild_wrapper_subclass, (
            type(tensor), tensor.dtype, tuple(tensor.size()), tensor.stride(), tensor.storage_offset(),
            tensor.layout, tensor.device, tensor.requires_grad,
        )
    if tensor.block_format is not None:
        format, stored, size, is_transposed = corten._C._blocks_of(tensor)
        return _rebuild_block_tensor, (format, stored, size, is_transposed, tensor.requires_grad)
    if tensor.layout not in (corten.strided, corten.sparse_coo):
        return _rebuild_sparse_tensor, (tensor.layout, (*tensor._parts, tensor.size()))
    if tensor.layout != corten.strided:
        parts = (tensor._indices(), tensor._values(), tensor.size(), tensor.is_coalesced())
        return _rebuild_sparse_tensor, (tensor.layout, parts)
    if tensor.device.type == "meta":
        arguments = (tensor.dtype, tuple(tensor.size()), tensor.stride(), tensor.requires_grad)
        return _rebuild_meta_tensor_no_storage, arguments
    check_unnamed(tensor)
    name = short_dtype(tensor.dtype)
    requires_grad = tensor.requires_grad
    if min(tensor.stride(), default=0) < 0:
        # Readers know no negative strides.
        tensor = tensor.detach().contiguous()
    untyped = tensor.untyped_storage()
    shape = (tensor.storage_offset(), tuple(tensor.size()), tuple(tensor.stride()))
    flags = {
        flag: True for flag, is_set in (("conj", tensor.is_conj()), ("neg", tensor.is_neg()))
        if is_set
    }
    tail = (requires_grad, OrderedDict())
    if tensor.is_quantized:
        storage = TypedStorage(wrap_storage=untyped, dtype=tensor.dtype, _internal=True)
        return _rebuild_qtensor, (storage, *shape, quantizer_of(tensor), *tail)
    if name in NAME_OF_DTYPE:
        storage = TypedStorage(wrap_storage=untyped, dtype=tensor.dtype, _internal=True)
        arguments = (storage, *shape, *tail)
        return _rebuild_tensor_v2, (*arguments, flags) if flags else arguments
    arguments = (untyped, *shape, *tail, tensor.dtype)
    return _rebuild_tensor_v3, (*arguments, flags) if flags else arguments


def check_bounds(storage, itemsize, offset, size, stride):
    """That elements at these places lie inside a storage, so that it need not grow.

    Raises:
        RuntimeError: They do not.
    """
    size, stride = tuple(size), tuple(stride)
    if not all(isinstance(number, int) for number in (offset, *size, *stride)):
        raise TypeError("the offset, the sizes and the strides of a tensor must be ints")
    if len(size) != len(stride):
        raise RuntimeError(
            f"mismatch in length of strides and shape: {len(stride)} and {len(size)} numbers"
        )
    if min((offset, *size, *stride)) < 0 or math.prod(size) > _LARGEST:
        raise RuntimeError(
            f"Trying to create tensor with negative or too large dimension, stride or offset: "
            f"{_listed(size)}, {_listed(stride)}, {_number(offset)}"
        )
    last = sum((n - 1) * step for n, step in zip(size, stride))
    needed = (offset + last + 1) * itemsize if math.prod(size) else 0
    if needed > storage.nbytes():
        raise RuntimeError(
            f"setStorage: sizes {_listed(size)}, strides {_listed(stride)}, storage offset "
            f"{_number(offset)}, and itemsize {itemsize} requiring a storage size of "
            f"{_number(needed)} are out of bounds for storage of size {storage.nbytes()}"
        )


_LARGEST = 2**63 - 1


def _listed(numbers):
    return "[" + ", ".join(map(_number, numbers[:8])) + (", ...]" if len(numbers) > 8 else "]")


def _number(value):
    """A number, which files may make too long to be shown."""
    return str(value) if abs(value) < 2**64 else f"(a number of {value.bit_length()} bits)"


def _over(storage, dtype, offset, size, stride):
    if not is_storage(storage):
        raise TypeError(f"a storage is expected, not {type(storage).__name__}")
    source = untyped(storage)
    check_bounds(source, dtype.itemsize, offset, size, stride)
    tensor = corten.empty((0,), dtype=dtype, device=source.device)
    return tensor.set_(source, offset, size, stride)


def _finished(tensor, requires_grad, hooks, metadata):
    for flag, method in (("conj", "_conj"), ("neg", "_neg_view")):
        if metadata and metadata.get(flag):
            tensor = getattr(tensor, method)()
    if requires_grad:
        tensor.requires_grad_(True)
    if hooks:
        tensor._backward_hooks = hooks
    return tensor


def _rebuild_tensor(storage, storage_offset, size, stride):
    """A tensor over a storage of known dtype."""
    if not isinstance(storage, TypedStorage):
        raise TypeError(f"a storage is expected, not {type(storage).__name__}")
    return _over(storage, storage.dtype, storage_offset, size, stride)


def _rebuild_tensor_v2(
    storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None
):
    """A tensor over a storage of known dtype, with flags."""
    tensor = _rebuild_tensor(storage, storage_offset, size, stride)
    return _finished(tensor, requires_grad, backward_hooks, metadata)


def _rebuild_tensor_v3(
    storage, storage_offset, size, stride, requires_grad, backward_hooks, dtype, metadata=None
):
    """A tensor over bytes."""
    tensor = _over(storage, dtype, storage_offset, size, stride)
    return _finished(tensor, requires_grad, backward_hooks, metadata)


def _rebuild_parameter(data, requires_grad, backward_hooks):
    """A parameter over ``data``."""
    from corten.nn import Parameter

    return _finished(Parameter(data, requires_grad), False, backward_hooks, None)


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    """A parameter with further attributes."""
    param = _rebuild_parameter(data, requires_grad, backward_hooks)
    set_state(param, state)
    return param


def set_state(target, state):
    """Sets attributes as pickles save them: a dictionary, or a pair with one of slots."""
    slots = None
    if isinstance(state, tuple):
        state, slots = state
    for name, value in (*(state or {}).items(), *(slots or {}).items()):
        if not isinstance(name, str) or name.startswith("__"):
            raise TypeError("attributes have names without leading double underscores")
        setattr(target, name, value)


def _rebuild_sparse_tensor(layout, data):
    """A sparse tensor of its parts."""
    from .sparse import _compressed, _coordinate, _entries, _invariants

    if layout == corten.sparse_coo:
        indices, values, size, *coalesced = data
        tensors, check, make = (indices, values), _coordinate.check, _entries._made
        rest = corten.Size(size), bool(coalesced and coalesced[0])
    elif layout in _compressed.LAYOUTS:
        *tensors, size = data
        check, make, rest = _invariants.check, _compressed.shell, (corten.Size(size), layout)
        if len(tensors) != 3:
            raise TypeError("a sparse compressed tensor has three parts")
    else:
        raise NotImplementedError(f"rebuilding sparse tensor for layout {layout}")
    if not all(isinstance(part, corten.Tensor) for part in tensors):
        raise TypeError("the parts of a sparse tensor are tensors")
    pending = getattr(loading, "sparse", None)
    if pending is None:
        check(*tensors, *rest)
    else:
        pending.append((check, (*tensors, *rest)))
    return make(*tensors, *rest)


def _rebuild_block_tensor(format, stored, size, is_transposed, requires_grad):
    """A block-quantised tensor over its bytes."""
    made = corten._C._block_tensor(format, stored, tuple(size))
    return (made.t() if is_transposed else made).requires_grad_(bool(requires_grad))


def _rebuild_qtensor(
    storage, storage_offset, size, stride, quantizer_params, requires_grad, backward_hooks
):
    """A quantised tensor over a storage of integers."""
    if not isinstance(storage, TypedStorage):
        raise TypeError(f"a storage is expected, not {type(storage).__name__}")
    if type(quantizer_params) is not tuple or not quantizer_params:
        raise TypeError("a scheme and its parameters are expected")
    source, dtype = untyped(storage), storage.dtype
    if quantizer_params[0] in (corten.per_channel_affine, corten.per_channel_affine_float_qparams):
        check_channels(size, *quantizer_params[1:])
    check_quantized_bounds(source, dtype, storage_offset, size, stride)
    tensor = quantized_over(source, dtype, storage_offset, size, stride, quantizer_params)
    return _finished(tensor, requires_grad, backward_hooks, None)


def check_channels(size, scales, zero_points, axis):
    """That there are a scale and a zero point for each index of a dimension.

    Raises:
        ValueError: There are not.
    """
    if type(axis) is not int or not 0 <= axis < len(size):
        raise ValueError(
            f"_rebuild_qtensor: per_channel axis {axis} out of range for size {tuple(size)}"
        )
    counts = [len(part) if type(part) is list else part.numel() for part in (scales, zero_points)]
    if counts != [size[axis]] * 2:
        raise ValueError(
            "_rebuild_qtensor: per_channel scales/zero_points length must equal "
            f"size[axis]={size[axis]}, got scales={counts[0]}, zero_points={counts[1]}"
        )


def check_quantized_bounds(storage, dtype, offset, size, stride):
    """``check_bounds`` of elements of which a byte may hold several."""
    per_byte = {corten.quint4x2: 2, corten.quint2x4: 4}.get(dtype, 1)
    if per_byte > 1:
        # Rows begin at whole bytes, and strides count elements.
        size = tuple(size)
        check_bounds(storage, 0, offset, size, stride)
        size = (*size[:-1], -(-size[-1] // per_byte)) if size else (1,)
        stride = tuple(math.prod(size[dim + 1:]) for dim in range(len(size)))
    check_bounds(storage, dtype.itemsize, offset, size, stride)


def _rebuild_device_tensor_from_numpy(data, dtype, device, requires_grad):
    """A tensor of another device that was saved as an array."""
    return _rebuild_device_tensor_from_cpu_tensor(
        corten.from_numpy(data), dtype, device, requires_grad
    )


def _rebuild_meta_tensor_no_storage(dtype, size, stride, requires_grad):
    """A tensor without data."""
    return corten.empty_strided(
        size, stride, dtype=dtype, device="meta", requires_grad=requires_grad
    )


def _rebuild_device_tensor_from_cpu_tensor(data, dtype, device, requires_grad):
    """A tensor of another device that was saved as a CPU tensor."""
    tensor = data.to(device=device, dtype=dtype)
    tensor.requires_grad = requires_grad
    return tensor


def _flatten_dense_tensors(tensors):
    """All elements of tensors of one dtype, one tensor behind the other."""
    return corten.cat([tensor.contiguous().view(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat, tensors):
    """Parts of ``flat`` with the shapes of ``tensors``."""
    parts = flat.split([tensor.numel() for tensor in tensors])
    return tuple(part.view_as(tensor) for part, tensor in zip(parts, tensors))


def _take_tensors(tensors, size_limit):
    """Groups of tensors of one dtype, each of about ``size_limit`` bytes."""
    groups = {}
    for tensor in tensors:
        group = groups.setdefault(tensor.type(), [0, []])
        size = tensor.numel() * tensor.element_size()
        if group[1] and group[0] + size > size_limit:
            yield group[1]
            group[:] = 0, []
        group[0] += size
        group[1].append(tensor)
    for _, taken in groups.values():
        if taken:
            yield taken


def _rebuild_nested_tensor(buffer, sizes, strides, storage_offsets):
    """The nested tensor in the strided layout whose items lie in one buffer."""
    from corten.nested._strided import made, of_items

    rows = list(zip(sizes.tolist(), strides.tolist(), storage_offsets.tolist()))
    for size, stride, offset in rows:
        check_bounds(buffer.untyped_storage(), buffer.element_size(), offset, size, stride)
    ends = [offset for _, _, offset in rows]
    items = [buffer.as_strided(size, stride, offset) for size, stride, offset in rows]
    dense = all(item.is_contiguous() for item in items)
    counts = [item.numel() for item in items]
    if dense and ends == [sum(counts[:place]) for place in range(len(rows))] \
            and buffer.numel() == sum(counts):
        return made(buffer, sizes.tolist())
    return of_items(items)


def _rebuild_wrapper_subclass(cls, dtype, size, stride, storage_offset, layout, device,
                              requires_grad):
    """A tensor without memory of its own; its parts follow as attributes."""
    if cls.__torch_dispatch__ is not corten.Tensor.__torch_dispatch__:
        return corten.Tensor._make_wrapper_subclass(
            cls, tuple(size), strides=tuple(stride), storage_offset=storage_offset, dtype=dtype,
            layout=layout, device=corten.device(device), requires_grad=requires_grad,
        )
    made = corten.Tensor._make_shell(
        cls, tuple(size), dtype=dtype, layout=layout, device=corten.device(device)
    )
    made.__dict__["_requires_grad_as_saved"] = requires_grad
    return made


def _get_obj_state(obj):
    """The attributes of an instance; a pair of them and of those of its slots, where its class has slots."""
    slots = {name: getattr(obj, name) for name in copyreg._slotnames(type(obj)) if hasattr(obj, name)}
    return (dict(obj.__dict__), slots) if slots else dict(obj.__dict__)


def _set_obj_state(obj, state):
    """Gives an instance the attributes that another one had.

    Raises:
        RuntimeError: ``state`` is not what :func:`_get_obj_state` gives.
    """
    if isinstance(state, tuple) and len(state) != 2:
        raise RuntimeError(f"Invalid serialized state: {state}")
    for part in state if isinstance(state, tuple) else (state,):
        for name, value in (part or {}).items():
            setattr(obj, name, value)
    return obj


class KeyErrorMessage(str):
    """A message whose lines are kept: `KeyError` prints its argument's representation."""

    def __repr__(self):
        return str(self)


class ExceptionWrapper:
    """An exception on its way to another thread or process, with its traceback as text."""

    def __init__(self, exc_info=None, where="in background"):
        kind, error, trace = exc_info if exc_info is not None else sys.exc_info()
        self.exc_type, self.where = kind, where
        self.exc_msg = "".join(traceback.format_exception(kind, error, trace))
        self.name = kind.__name__

    def reraise(self):
        """Raises an exception of the same class with the first one's traceback as text."""
        message = f"Caught {self.name} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            message = KeyErrorMessage(message)
        try:
            error = self.exc_type(message)
        except Exception:
            raise RuntimeError(message) from None
        raise error


def _get_available_device_type():
    """The type of a device other than the CPU, or None."""
    found = corten.accelerator.current_accelerator()
    return None if found is None else found.type


def _get_device_module(device_type):
    """The module of a type of devices.

    Raises:
        RuntimeError: There is none.
    """
    module = getattr(corten, device_type, None)
    if module is None:
        raise RuntimeError(
            f"Device '{device_type}' does not have a corresponding module registered as "
            f"'torch.{device_type}'."
        )
    return module


def _get_all_device_indices():
    """The numbers of all GPUs."""
    return list(range(corten.accelerator.device_count()))


def _get_device_index(device, optional=False, allow_cpu=False):
    """The number of a device.

    Raises:
        ValueError: It is no GPU, or its number is not known.
    """
    if isinstance(device, str):
        device = corten.device(device)
    found = device if isinstance(device, int) else None
    if isinstance(device, corten.device):
        if not allow_cpu and device.type == "cpu":
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        found = -1 if device.type == "cpu" else device.index
    if found is None and not optional:
        raise ValueError(
            f"Expected a torch.device with a specified index or an integer, but got:{device}"
        )
    return found


def _import_dotted_name(name):
    """What a dotted name means."""
    import importlib

    module, *names = name.split(".")
    found = importlib.import_module(module)
    for part in names:
        found = getattr(found, part)
    return found


def classproperty(func):
    """A property of a class."""

    class Property:
        def __get__(self, instance, owner):
            return func(owner)

    return Property()


def is_compiling():
    """Whether the calling code is being compiled or exported."""
    from corten.compiler import is_compiling as asked

    return asked()


def render_call(fn, args, kwargs):
    """A call as text."""
    name = corten.overrides.resolve_name(fn) or str(fn)
    parts = [repr(value) for value in args] + [f"{key}={value!r}" for key, value in kwargs.items()]
    return f"{name}({', '.join(parts)})"
