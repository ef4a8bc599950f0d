"""``PartsTensor``: a tensor without memory of its own, whose operators are those of its parts."""

from __future__ import annotations

from corten import _C
from corten._C import Tensor

#: Methods that do not ask ``__torch_function__`` by themselves: conversions, questions to the memory, and
#: the operators that the registry lists.
_SILENT = (
    "__array_wrap__", "__bool__", "__complex__", "__delitem__", "__dlpack__", "__float__",
    "__index__", "__int__", "__invert__", "__iter__", "__contains__", "bfloat16",
    "bool", "byte", "cdouble", "cfloat", "chalf", "char", "cpu", "cuda", "data_ptr",
    "double", "float", "half", "index_put_", "int", "is_contiguous", "is_pinned", "long", "new_tensor",
    "numpy", "pin_memory", "register_hook", "retain_grad", "share_memory_", "short", "sparse_mask",
    "storage_offset", "stride", "to_sparse", "to_sparse_csr", "tolist", "type", "untyped_storage",
    "values", "indices", *_C._ops_tagged("parts_method"),
)


class PartsTensor(Tensor):
    """The base of such classes. They define ``_recorded``, the dense tensor that carries the
    history, and ``_call``, which is asked for every operator by its name."""

    #: Functions that are written in Python run; the operators in them are asked for.
    _of_parts = True

    @property
    def _recorded(self):
        raise NotImplementedError

    @classmethod
    def _call(cls, name, func, args, kwargs):
        raise NotImplementedError

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return cls._call(getattr(func, "__name__", str(func)), func, args, kwargs or {})

    @property
    def requires_grad(self):
        """Whether the values require a gradient."""
        return self._recorded.requires_grad

    @requires_grad.setter
    def requires_grad(self, flag):
        self._recorded.requires_grad = flag

    def requires_grad_(self, requires_grad=True):
        """Asks for a gradient of the values."""
        self._recorded.requires_grad_(requires_grad)
        return self

    @property
    def is_leaf(self):
        """Whether the values are not the result of a recorded operator."""
        return self._recorded.is_leaf

    @property
    def grad_fn(self):
        """The node that made the values."""
        return self._recorded.grad_fn

    @property
    def retains_grad(self):
        """Whether a gradient is kept that is not a leaf's."""
        return self._recorded.retains_grad

    @property
    def data(self):
        """The tensor without its history."""
        return self.detach()

    __hash__ = Tensor.__hash__

    def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
        """Accumulates gradients into the leaves that this tensor depends on."""
        from corten.autograd import backward

        backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def recorded(tensor):
    """What carries a tensor's history: the tensor, or a part of it."""
    return tensor._recorded if isinstance(tensor, PartsTensor) else tensor


def _asking(name):
    original = getattr(Tensor, name, None)

    def method(self, *args, **kwargs):
        found = type(self)._call(name, original, (self, *args), kwargs)
        if found is NotImplemented:
            raise TypeError(f"{name} is not implemented for {type(self).__name__}")
        return found

    method.__name__ = name
    method.__qualname__ = f"PartsTensor.{name}"
    return method


def _attribute(name):
    def read(self):
        return _asking(name)(self)

    return property(read)


for _name in _SILENT:
    setattr(PartsTensor, _name, _asking(_name))
for _name in ("T", "H", "mT", "mH", "real", "imag"):
    setattr(PartsTensor, _name, _attribute(_name))
del _name


class Plain:
    """A block in which the methods of the shell itself are meant."""

    def __enter__(self):
        self._before = _C._torch_function_state()
        _C._set_torch_function_state(2)

    def __exit__(self, kind, value, traceback):
        _C._set_torch_function_state(self._before)
