"""``SparseTensor``: the tensor, its history, and its entries."""

from __future__ import annotations

import functools
import operator

import corten
from corten import _C
from corten._C import Tensor

#: The operators of sparse tensors by name, filled by the modules that define them.
OPERATORS = {}
_ASKED_OF_SHELL = frozenset((
    "shape", "dtype", "ndim", "grad_fn", "is_leaf", "grad", "is_quantized", "requires_grad",
    "_version", "output_nr", "retains_grad", "_grad", "_base", "retain_grad",
))


class State:
    """The parts of a tensor, and how often their values were written to: equal to that of the same
    parts only, unwritten."""

    def __init__(self, parts):
        self.parts, self.version = parts, None if parts[-1].is_inference() else parts[-1]._version

    def __eq__(self, other):
        same = len(self.parts) == len(other.parts) and all(map(operator.is_, self.parts, other.parts))
        return same and self.version == other.version

    def unwritten(self):
        """Whether the values are what they were."""
        return self.version is None or self.parts[-1]._version == self.version


class SparseTensor(Tensor):
    """A tensor in coordinate format: ``indices`` of shape (sparse dimensions, entries), ``values``
    of shape (entries, dense dimensions…). The same place may come up several times until
    :meth:`coalesce`."""

    _of_parts = True

    @property
    def _held(self):
        """Indices and values, without history."""
        return self._sparse_parts()[:2]

    @property
    def _coalesced(self):
        """Whether the places are known to differ and to be in order."""
        return self._sparse_parts()[2]

    def _put(self, indices, values, coalesced, size=None):
        """Puts other parts in the place of these."""
        with _C_plain():
            size = tuple(Tensor.size(self)) if size is None else tuple(size)
        self._set_sparse_parts(indices, values, size, coalesced)

    @property
    def _parts(self):
        """Indices and values; gradients flow through the values."""
        if self.requires_grad and corten.is_grad_enabled():
            return self._held[0], Values.apply(self)
        return self._held

    @property
    def data(self):
        """The same entries without history."""
        return self.detach()

    @data.setter
    def data(self, other):
        if not isinstance(other, SparseTensor) or other.shape != self.shape:
            raise RuntimeError(
                "Attempted to set the data of a sparse tensor to a tensor of an incompatible type or "
                "size"
            )
        self._put(*other._sparse_parts())

    def __deepcopy__(self, memo):
        if not self.is_leaf:
            return Tensor.__deepcopy__(self, memo)  # refuses
        if id(self) not in memo:
            copied = self.detach().clone()
            memo[id(self)] = copied.requires_grad_() if self.requires_grad else copied
            if "_is_param" in self.__dict__:
                copied._is_param = True
        return memo[id(self)]

    def __repr__(self, *, tensor_contents=None):
        from ._printing import described_by_coordinates

        return described_by_coordinates(self)

    __hash__ = Tensor.__hash__

    def _nnz(self):
        """How many entries there are."""
        return self._held[0].size(1)

    def _indices(self):
        """The places of the entries, whether they differ or not."""
        return self._held[0]

    def _values(self):
        """The entries, without history."""
        return self._held[1]

    def _state(self):
        return State(self._held), tuple(self.shape), self._coalesced

    def _as_it_was(self, state):
        (indices, values), size, coalesced = state[0].parts, *state[1:]
        return _shell(indices, values, size, coalesced) if state[0].unwritten() else None

    def __reduce_ex__(self, protocol):
        from corten import _utils

        return _utils.reduce_tensor(self)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", str(func))
        kwargs = kwargs or {}
        if name in ("__get__", "__set__", "grad"):
            name = getattr(getattr(func, "__self__", None), "__name__", name)
            if name in _ASKED_OF_SHELL:
                with _C_plain():
                    return func(*args, **kwargs)
        name = name.strip("_") if name.startswith("__") else name
        made = dispatched(func, name, args, kwargs)
        if made is not NotImplemented:
            return made
        found = OPERATORS.get(name)
        if found is not None:
            return found(*args, **kwargs)
        with _C_plain():
            return func(*args, **kwargs)


_C._set_sparse_class(SparseTensor)


class _C_plain:
    """A block in which the methods of dense tensors are meant."""

    def __enter__(self):
        self._before = _C._torch_function_state()
        _C._set_torch_function_state(2)

    def __exit__(self, kind, value, traceback):
        _C._set_torch_function_state(self._before)


#: Operators of `aten` that programs gave kernels for sparse tensors, with how many.
REPLACED = {}


def replaced(qualified, count):
    """Notes that a kernel of an operator for sparse tensors was registered, or removed."""
    namespace, _, name = qualified.partition("::")
    if namespace == "aten":
        name = name.partition(".")[0]
        REPLACED[name] = REPLACED.get(name, 0) + count


def kernel(function):
    """A program's kernel, in which operators on sparse tensors are those of their classes."""

    @functools.wraps(function)
    def asking(*args, **kwargs):
        before = _C._torch_function_state()
        if before == 0:
            return function(*args, **kwargs)
        if not any(isinstance(a, Tensor) and a.layout != _C.strided for a in (*args, *kwargs.values())):
            return function(*args, **kwargs)
        _C._set_torch_function_state(0)
        try:
            return function(*args, **kwargs)
        finally:
            _C._set_torch_function_state(before)

    return asking


def dispatched(func, name, args, kwargs):
    """What the dispatcher finds for a sparse tensor: of operators of other namespaces, and of those
    that programs gave kernels. ``NotImplemented`` for all others."""
    operator = getattr(func, "__self__", None)
    if not REPLACED.get(name) and getattr(operator, "_namespace", "aten") == "aten":
        return NotImplemented
    with _C_plain():
        try:
            return func(*args, **kwargs)
        except NotImplementedError as error:
            if not str(error).startswith(f"Could not run 'aten::{name}"):
                raise
    return NotImplemented


def lacks_data(x):
    """Whether a tensor has no elements to look at: of the meta device, or one that stands for another."""
    return x.is_meta or hasattr(x, "fake_mode")


def check_not_traced(dense):
    """Refuses traces in which nobody knows the entries of a dense tensor: a graph would have none of them."""
    from corten._ops import proxy_mode
    from corten._subclasses.fake_tensor import UnsupportedFakeTensorException

    if proxy_mode() is not None:
        raise UnsupportedFakeTensorException(
            f"to_sparse: the entries of a tensor of shape {list(dense.shape)} without data are not known, so that they "
            "cannot be recorded; trace with tracing_mode='real'"
        )


def _shell(indices, values, size, coalesced):
    """A tensor of these parts, without history and without checks."""
    with _C_plain():
        return Tensor._make_sparse(SparseTensor, indices, values, tuple(size), bool(coalesced))


def _made(indices, values, size, coalesced):
    """A tensor of its parts, through which gradients reach the values."""
    if values.requires_grad and corten.is_grad_enabled():
        return SparseCooTensor.apply(values, indices, tuple(size), coalesced)
    return _shell(indices, values, size, coalesced)


def enabled(backward):
    """A backward function in which operators ask ``__torch_function__``, wherever it is called."""

    @functools.wraps(backward)
    def function(*args):
        before = _C._torch_function_state()
        _C._set_torch_function_state(0)
        try:
            return backward(*args)
        finally:
            _C._set_torch_function_state(before)

    return function


class SparseCooTensor(corten.autograd.Function):
    """The values put together to a tensor."""

    @staticmethod
    def forward(ctx, values, indices, size, coalesced):
        ctx.indices = indices
        return _shell(indices, values, size, coalesced)

    @staticmethod
    @enabled
    def backward(ctx, grad):
        return _at(grad, ctx.indices), None, None, None


class Values(corten.autograd.Function):
    """The values of a tensor."""

    @staticmethod
    def forward(ctx, x):
        ctx.place = x._held[0], tuple(x.shape), x._coalesced
        return x._held[1].detach()

    @staticmethod
    @enabled
    def backward(ctx, grad):
        indices, size, coalesced = ctx.place
        made = _made(indices, grad, size, coalesced)
        if coalesced:
            return made
        # Entries at the same place are one element: what arrives for each of them is its gradient.
        counts = _coalesce(_shell(indices, corten.ones_like(grad), size, False))._held[1]
        summed = _coalesce(made)
        return _made(summed._held[0], summed._parts[1] / counts, size, True)


class Modified(Tensor):
    """Stands for an operand that was written to after an operator had been recorded: its gradient may
    ask for the shape, not for the elements."""

    _of_parts = True

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", str(func))
        if name in ("__get__", "size", "dim"):
            asked = getattr(getattr(func, "__self__", None), "__name__", name)
            if name != "__get__" or asked in _ASKED_OF_SHELL or asked == "device":
                with _C_plain():
                    return func(*args, **(kwargs or {}))
        cls._refused()

    @staticmethod
    def _refused(*args):
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace "
            "operation"
        )

    _held = _parts = _kind = _coalesced = T = H = mT = mH = property(_refused.__func__)


def _stand_in(x):
    with _C_plain():
        made = Tensor._make_shell(
            Modified, tuple(x.shape), dtype=x.dtype, layout=_C.sparse_coo, device=x.device
        )
        return made.requires_grad_(x.requires_grad)


def _state(x):
    """What writing to an operand changes; ``None`` for all that are no tensors."""
    if not isinstance(x, Tensor):
        return None
    if hasattr(type(x), "_as_it_was"):
        return x._state()
    return None if x.is_inference() else x._version


def _as_recorded(x, state):
    """An operand as it was when the operator was recorded."""
    if state is None or state == _state(x):
        return x
    if hasattr(type(x), "_as_it_was") and not corten.is_grad_enabled():
        made = x._as_it_was(state)
        if made is not None:
            return made.requires_grad_() if x.requires_grad else made
    return _stand_in(x)


class Same(corten.autograd.Function):
    """A sparse tensor as it is now, with its history."""

    @staticmethod
    def forward(ctx, x):
        return x.detach()

    @staticmethod
    def backward(ctx, grad):
        return grad


class Written(corten.autograd.Function):
    """A sparse tensor that takes over the parts of another one and its history."""

    @staticmethod
    def forward(ctx, x, made, put):
        put(x, made)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return None, grad, None


def before(x):
    """A tensor as it is before an operator writes to it, so that no node of the history that the
    operator makes holds the tensor itself.

    Raises:
        RuntimeError: The tensor is a leaf that requires a gradient.
    """
    if not (x.requires_grad and corten.is_grad_enabled()):
        return x
    if x.is_leaf:
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation."
        )
    return Same.apply(x)


def write(x, made, put):
    """Writes a tensor, by ``put``, and its history into another one, of which :func:`before` gave the
    operand that it was made of."""
    if corten.is_grad_enabled() and (x.requires_grad or made.requires_grad):
        return Written.apply(x, made, put)
    put(x, made)
    return x


def recorded(name, forward, backward):
    """An operator whose gradients may be dense or sparse: ``backward`` takes both, and the operands,
    and returns one gradient for each operand."""

    def run(ctx, *args):
        ctx.args, ctx.states = args, [_state(arg) for arg in args]
        return forward(*args)

    @enabled
    def backwards(ctx, grad):
        return backward(grad, *map(_as_recorded, ctx.args, ctx.states))

    members = {"forward": staticmethod(run), "backward": staticmethod(backwards)}
    function = type(corten.autograd.Function)(name, (corten.autograd.Function,), members)

    @functools.wraps(forward)
    def operator(*args):
        if corten.is_grad_enabled() and any(isinstance(a, Tensor) and a.requires_grad for a in args):
            return function.apply(*args)
        return forward(*args)

    return operator


def _at(x, indices):
    """The elements of a dense or sparse tensor at some places."""
    if not isinstance(x, SparseTensor):
        x = x if x.layout == _C.strided else x.to_dense()
        count = indices.size(0)
        return x[tuple(indices)] if count else x.expand(indices.size(1), *x.shape)
    held = x._held[0]
    if held is indices or held.shape == indices.shape and bool((held == indices).all()):
        return x._parts[1]
    held, values = _coalesce(x)._parts
    wanted, there = _flat(indices, x.shape), _flat(held, x.shape)
    if there.numel() == 0:
        return values.new_zeros((wanted.numel(), *values.shape[1:]))
    at = corten.searchsorted(there, wanted).clamp(max=there.numel() - 1)
    missing = there[at] != wanted
    return values[at].masked_fill(missing.reshape(-1, *(1,) * (values.dim() - 1)), 0)


def _flat(indices, size):
    """One number for every place."""
    flat = corten.zeros(indices.size(1), dtype=corten.int64, device=indices.device)
    for row, length in zip(indices, size):
        flat = flat * length + row
    return flat


def _coalesce(x):
    return x if x._coalesced else _summed(x)


def _for_sums(values):
    """Values in a dtype in which many of them add up: sums of half precision soon stop growing."""
    return values.float() if values.dtype in (corten.float16, corten.bfloat16) else values


def _added_up(x):
    indices, values = x._held
    if not indices.size(1):
        return _shell(indices, values, x.shape, True)
    flat = _flat(indices, x.shape)
    places, inverse = corten.unique(flat, return_inverse=True)
    kind, values = values.dtype, _for_sums(values)
    summed = values.new_zeros((places.numel(), *values.shape[1:])).index_add(0, inverse, values)
    summed = summed.to(kind)
    if indices.size(0) == 0:
        return _shell(indices[:, :places.numel()], summed, x.shape, True)
    rows = []
    for size in reversed(tuple(x.shape)[:indices.size(0)]):
        rows.append(places % size)
        places = places.div(size, rounding_mode="floor")
    return _shell(corten.stack(rows[::-1]), summed, x.shape, True)


_summed = recorded("Coalesce", _added_up, lambda grad, x: (grad,))
