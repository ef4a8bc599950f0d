"""PyTorch's operator database for this library: its samples as tensors of this library, its functions by their names."""

import builtins
import functools
import hashlib
import importlib
import inspect
import random
import types

import numpy
import torch

import corten

#: NumPy has no such numbers: they travel as integers of their size.
_AS_INTEGERS = {torch.bfloat16: torch.int16, torch.complex32: torch.int32}
_NAMESPACES = (
    "", "nn.functional", "linalg", "fft", "special", "signal.windows", "masked", "sparse", "nested", "nn.init",
    "autograd", "functional",
)


class NotCarried(Exception):
    """An argument that has no counterpart here."""


def database(names=()):
    """The entries of the database that run on the CPU; those with certain names."""
    from torch.testing._internal.common_methods_invocations import op_db

    _take_seeds()
    return [
        op for op in op_db if op.supported_dtypes("cpu") and (not names or op.name in names or op.full_name in names)
    ]


def samples(op, dtype, requires_grad=False, limit=0):
    """Samples of an entry, the same ones each time; `limit` of them at most where that is not 0."""
    text = f"{op.full_name}/{dtype}"
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")
    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed)
    found = list(op.sample_inputs_func(op, "cpu", dtype, requires_grad))
    if limit and len(found) > limit:
        places = sorted(random.Random(seed).sample(range(len(found)), limit))
        return [(place, found[place]) for place in places]
    return list(enumerate(found))


def _take_seeds():
    """Lets PyTorch's functions with random numbers take the seed of the call."""
    import sys

    for name, module in list(sys.modules.items()):
        if name.startswith("torch.testing") and hasattr(module, "wrapper_set_seed"):
            module.wrapper_set_seed = wrapper_set_seed


def wrapper_set_seed(op, *args, **kwargs):
    """A call of a function: whoever calls sets the seed."""
    return op(*args, **kwargs)


@functools.cache
def _names():
    """The public names of PyTorch's functions."""
    found = {}
    for namespace in _NAMESPACES:
        module = functools.reduce(getattr, filter(None, namespace.split(".")), torch)
        for name in dir(module):
            value = getattr(module, name, None)
            if callable(value) and not isinstance(value, type):
                found.setdefault(id(value), (f"{namespace}.{name}" if namespace else name, value))
    for name in dir(torch.Tensor):
        value = getattr(torch.Tensor, name, None)
        if callable(value) and not isinstance(value, type):
            found.setdefault(id(value), (f"Tensor.{name}", value))
    return found


def named(dotted):
    """What has a name here.

    Raises:
        NotCarried: Nothing has it.
    """
    found = corten
    for part in dotted.split("."):
        if not hasattr(found, part) and isinstance(found, types.ModuleType):
            try:
                found = importlib.import_module(f"{found.__name__}.{part}")
                continue
            except ImportError:
                raise NotCarried(f"absent: {dotted}") from None
        try:
            found = getattr(found, part)
        except AttributeError:
            raise NotCarried(f"absent: {dotted}") from None
    return found


_functions = {}


def function(fn):
    """This library's counterpart of a function: that of the same name, or the same code over counterparts."""
    if id(fn) in _names():
        dotted = _names()[id(fn)][0]
        return _method(dotted[7:]) if dotted.startswith("Tensor.") else named(dotted)
    if id(fn) not in _functions:
        _functions[id(fn)] = fn, _made(fn)
    return _functions[id(fn)][1]


def _made(fn):
    if isinstance(fn, functools.partial):
        return functools.partial(
            function(fn.func), *map(value, fn.args), **{name: value(one) for name, one in fn.keywords.items()}
        )
    if isinstance(fn, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return named("ops." + str(fn).replace("::", "."))
    if isinstance(fn, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        return _method(fn.__name__)
    if isinstance(fn, types.BuiltinFunctionType) and fn.__module__ == "_operator":
        return fn
    if not isinstance(fn, types.FunctionType):
        raise NotCarried(f"function {fn!r}"[:80])
    if fn.__name__ == "wrapper_set_seed":
        return wrapper_set_seed
    known = {"__builtins__": builtins, "__name__": "samples_of_torch"}
    cells = None if fn.__closure__ is None else tuple(types.CellType() for _ in fn.__closure__)
    made = types.FunctionType(fn.__code__, known, fn.__name__, None, cells)
    _functions[id(fn)] = fn, made
    for name in _names_of(fn.__code__):
        if name in fn.__globals__:
            known[name] = _reached(fn.__globals__[name])
    for cell, before in zip(cells or (), fn.__closure__ or ()):
        cell.cell_contents = _reached(before.cell_contents)
    made.__defaults__ = fn.__defaults__ and tuple(map(_reached, fn.__defaults__))
    made.__kwdefaults__ = fn.__kwdefaults__ and {name: _reached(one) for name, one in fn.__kwdefaults__.items()}
    return made


def _names_of(code):
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names_of(constant)
    return found


def _method(name):
    def call(tensor, *args, **kwargs):
        return getattr(tensor, name)(*args, **kwargs)

    call.__name__ = name
    return call


class _Namespace:
    """A module of PyTorch's, whose names are looked up here when they are used."""

    def __init__(self, dotted):
        self._dotted = dotted

    def __getattr__(self, name):
        return named(f"{self._dotted}.{name}")


def _reached(one):
    """The counterpart of what a function reaches."""
    if one is torch:
        return corten
    if isinstance(one, types.ModuleType):
        inside = one.__name__.startswith("torch.") and not one.__name__.startswith("torch.testing")
        return _Namespace(one.__name__[6:]) if inside else one
    if one is torch.Tensor:
        return corten.Tensor
    if isinstance(one, (torch.dtype, torch.memory_format, torch.layout)):
        return named(str(one).rpartition(".")[2])
    if isinstance(one, type) or not callable(one):
        return one
    inside = (getattr(one, "__module__", None) or "").startswith("torch.") or id(one) in _names()
    return function(one) if inside or isinstance(one, functools.partial) else one


def value(one, known=None):
    """The counterpart of an argument; tensors that share storage do so here.

    Raises:
        NotCarried: There is none.
    """
    known = {} if known is None else known
    if isinstance(one, torch.Tensor):
        if id(one) not in known:
            known[id(one)] = one, _tensor(one, known)
        return known[id(one)][1]
    if one is None or isinstance(one, (bool, int, float, complex, str, type(...), numpy.ndarray, numpy.generic)):
        return one
    if isinstance(one, (torch.dtype, torch.memory_format, torch.layout)):
        return named(str(one).rpartition(".")[2])
    if isinstance(one, torch.device):
        return corten.device(str(one))
    if isinstance(one, torch.Size):
        return corten.Size(one)
    if isinstance(one, torch.Generator):
        raise NotCarried("generator")
    if isinstance(one, (list, tuple)):
        made = [value(item, known) for item in one]
        return type(one)(*made) if hasattr(one, "_fields") else type(one)(made)
    if isinstance(one, dict):
        return {name: value(item, known) for name, item in one.items()}
    if isinstance(one, slice):
        return slice(value(one.start, known), value(one.stop, known), value(one.step, known))
    return _object(one)


def _object(one):
    if isinstance(one, torch.nn.Module):
        if list(one.parameters()) or list(one.buffers()):
            raise NotCarried("module with parameters")
        names = [name for name in inspect.signature(type(one).__init__).parameters if name != "self"]
        held = {name: getattr(one, name, getattr(one, "norm", None)) for name in names}
        return named("nn." + type(one).__name__)(**held)
    kind = type(one).__name__.lstrip("_")
    if kind in ("ScalingType", "SwizzleType", "SDPBackend"):
        return getattr(named(f"nn.functional.{kind}"), one.name)
    if kind == "LinearCrossEntropyOptions":
        return named(f"nn.{kind}")(**{name: value(getattr(one, name)) for name in inspect.signature(type(one)).parameters})
    if callable(one):
        return function(one)
    raise NotCarried(f"argument of type {type(one).__name__}")


def _tensor(one, known):
    requires_grad, one = one.requires_grad, one.detach()
    if type(one) is not torch.Tensor or one.is_quantized or one.device.type not in ("cpu", "meta"):
        raise NotCarried(f"tensor {type(one).__name__} of {one.device}")
    if one.layout == torch.sparse_coo:
        made = corten.sparse_coo_tensor(_tensor(one._indices(), {}), _tensor(one._values(), {}), tuple(one.shape))
        made = made._coalesced_(True) if one.is_coalesced() else made
    elif one.layout != torch.strided:
        rows = one.layout in (torch.sparse_csr, torch.sparse_bsr)
        plain, compressed = ("col", "crow") if rows else ("row", "ccol")
        parts = [_tensor(getattr(one, f"{name}_indices")(), {}) for name in (compressed, plain)]
        made = corten.sparse_compressed_tensor(
            *parts, _tensor(one.values(), {}), tuple(one.shape), layout=named(str(one.layout).rpartition(".")[2])
        )
    elif one.device.type == "meta":
        made = corten.empty_strided(
            tuple(one.shape), one.stride(), dtype=named(str(one.dtype).rpartition(".")[2]), device="meta"
        )
    elif one.is_conj():
        made = _strided(one.conj(), known).conj()
    else:
        made = _strided(one.resolve_neg(), known)
    return made.requires_grad_(True) if requires_grad else made


def _strided(one, known):
    storage = one.untyped_storage()
    count = storage.nbytes() // one.element_size()
    key = "storage", storage.data_ptr(), one.dtype
    if key not in known or not count:
        whole = torch.empty(0, dtype=one.dtype).set_(storage, 0, (count,), (1,))
        as_integers = _AS_INTEGERS.get(one.dtype)
        if one.dtype.is_floating_point and one.element_size() == 1:
            as_integers = torch.uint8
        array = (whole if as_integers is None else whole.view(as_integers)).numpy().copy()
        made = corten.from_numpy(array).clone()
        if as_integers is not None:
            made = made.view(named(str(one.dtype).rpartition(".")[2]))
        known[key] = storage, made
        if one.is_contiguous() and count == one.numel() and one.dim() != 1:
            # Not a view of what nobody has.
            made = known[key][1].reshape(one.shape).clone()
            known[key] = storage, made.view(-1)
            return made
    made = known[key][1]
    if one.dim() == 1 and count == one.numel() and one.is_contiguous() and made._base is None:
        return made
    return made.as_strided(tuple(one.shape), one.stride(), one.storage_offset())
