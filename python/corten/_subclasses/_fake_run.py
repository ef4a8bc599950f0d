"""How an operator runs on tensors without data."""

from __future__ import annotations

import contextlib

import corten
from corten import _C, Tensor
from corten.utils._python_dispatch import _disable_current_modes
from corten.utils._pytree import tree_leaves, tree_map

from . import _fake_rules as rules
from ._fake_errors import FakeTensorDeviceMismatchError, UnsupportedOperatorException, render_call
from .fake_tensor import FakeTensor, _leaves, _with_index, fake_tensor_tls

#: Constants of at most so many elements are kept.
CONSTANT_NUMEL_LIMIT = 1

_META = corten.device("meta")


class Operator:
    """What is known of an operator from its schema."""

    _known = {}

    def __init__(self, func):
        schema = func._schema if isinstance(func._schema, str) else str(func._schema)
        arguments = schema.partition("(")[2].rpartition(" -> ")[0]
        self.name = func.name()
        self.has_device = "Device? device" in arguments or "Device device" in arguments
        self.aliases = "(a" in schema or "(b" in schema
        self.writes = "!)" in arguments
        self.takes_tensors = "Tensor" in arguments
        self.is_random = "Generator? generator" in arguments
        self.returns_tensors = "Tensor" in schema.rpartition(" -> ")[2]
        short = self.name.partition("::")[2]
        self.packet = short.partition(".")[0]
        self.is_foreach = self.packet.startswith("_foreach_") or self.packet.startswith("_amp_foreach")
        self.namespace = self.name.partition("::")[0]
        self.tags = func.tags
        self.changes_geometry = rules.GEOMETRY_CHANGES.fullmatch(self.packet) is not None

    @classmethod
    def of(cls, func):
        """What is known of an overload."""
        found = cls._known.get(func)
        if found is None:
            found = cls._known[func] = cls(func)
        return found


def run(mode, func, args, kwargs):
    """The result of an operator in a mode; NotImplemented where a class of tensors has to say it."""
    leaves = _leaves(args, kwargs)
    if not isinstance(func, corten.ops.Overload):
        return _run_higher_order(mode, func, args, kwargs)
    if any(_is_unknown(leaf) for leaf in leaves):
        return NotImplemented
    operator = Operator.of(func)
    fakes = [leaf for leaf in leaves if isinstance(leaf, FakeTensor) and leaf.fake_mode is mode]
    if operator.packet in ("lift_fresh", "lift_fresh_copy") and not fakes:
        return _lift(mode, args[0])
    if not fakes and operator.takes_tensors and not any(isinstance(leaf, Tensor) for leaf in leaves) \
            and operator.returns_tensors and not operator.has_device:
        return _of_numbers(mode, func, args, kwargs)
    if len(fakes) != sum(isinstance(leaf, Tensor) for leaf in leaves):
        args, kwargs = _convert(mode, func, operator, args, kwargs)
        leaves = _leaves(args, kwargs)
        fakes = [leaf for leaf in leaves if isinstance(leaf, FakeTensor)]
    if fakes and all(fake.constant is not None for fake in fakes) and not operator.is_random \
            and not operator.changes_geometry:
        found = _fold(mode, func, args, kwargs)
        if found is not _NOTHING:
            return found
    if operator.writes:
        _forget_written(mode, func, args, kwargs)
    return _run(mode, func, operator, args, kwargs, fakes)


def _run(mode, func, operator, args, kwargs, fakes):
    symbolic = mode.shape_env is not None
    fake_kernel = _registered(func)
    if fake_kernel is not None:
        return fake_kernel(mode, func, args, kwargs)
    rule = rules.find(operator)
    if rule is not None:
        result = rule(mode, func, *args, **kwargs)
        if result is not NotImplemented:
            return result
    if symbolic:
        from corten.fx.experimental import _symbolic_tensor

        if _symbolic_tensor.involves_symbols(args, kwargs, fakes):
            return _symbolic_tensor.run(mode, func, operator, args, kwargs, fakes)
    return run_meta(mode, func, operator, args, kwargs, fakes)


def run_meta(mode, func, operator, args, kwargs, fakes):
    """The result of the kernel for meta tensors."""
    device = _result_device(func, operator, args, kwargs, fakes)
    pairs = [(fake, fake._elem) for fake in fakes]
    meta_args, meta_kwargs = to_meta(operator, args, kwargs)
    try:
        with _disable_current_modes():
            result = func(*meta_args, **meta_kwargs)
    except NotImplementedError as error:
        return run_fallback_kernel(mode, func, args, kwargs, error)
    return wrap(mode, operator, result, device, pairs, fakes)


def to_meta(operator, args, kwargs):
    """Arguments with meta tensors in place of those without data."""
    args, kwargs = _mapped(args), {name: _meta_of(value) for name, value in kwargs.items()}
    if operator.has_device and (not operator.takes_tensors or kwargs.get("device") is not None):
        kwargs["device"] = _META
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
    if operator.has_device and kwargs.get("generator") is not None:
        kwargs.pop("generator")
    return args, kwargs


def _mapped(values):
    return [_meta_of(value) for value in values]


def _meta_of(value):
    if isinstance(value, FakeTensor):
        return value._elem
    if type(value) in (list, tuple):
        return type(value)(_meta_of(one) for one in value)
    if isinstance(value, corten.Generator):
        return None
    return value


def wrap(mode, operator, result, device, pairs, fakes, mark=None):
    """Results of a kernel for meta tensors as tensors without data. Those that are or share the storage of an
    argument stay so."""
    if result is None or not operator.returns_tensors:
        _update_geometry(operator, fakes)
        return result
    lists = isinstance(result, (list, tuple))
    found = [
        _wrap_one(mode, operator, one, _device_of(device, place), pairs, mark, place)
        for place, one in enumerate(result if lists else (result,))
    ]
    if operator.writes and mark is None:
        _update_geometry(operator, fakes)
    return type(result)(found) if type(result) in (list, tuple) else tuple(found) if lists else found[0]


def _device_of(device, place):
    if isinstance(device, list):
        return device[place] if place < len(device) else device[0]
    return device


def _wrap_one(mode, operator, one, device, pairs, mark, place):
    if isinstance(one, (list, tuple)):
        return type(one)(_wrap_one(mode, operator, x, device, pairs, mark, place) for x in one)
    if not isinstance(one, Tensor):
        return one
    same = next((fake for fake, elem in pairs if elem is one), None)
    if same is not None and (operator.writes or operator.aliases):
        if operator.writes:
            if mark is not None:
                mark(same, place, True)
            return same
        one = one.detach()
    source = None
    if operator.aliases and pairs:
        key = one.untyped_storage()._cdata
        source = next((fake for fake, elem in pairs if elem.untyped_storage()._cdata == key), None)
    made = FakeTensor(mode, one, device, _source=source)
    if mark is not None:
        mark(made, place)
    return made


def _update_geometry(operator, fakes):
    """Lets arguments whose sizes, strides or storage were changed in place follow their meta tensors."""
    if not operator.changes_geometry and not operator.name.endswith("out"):
        return
    for fake in fakes:
        elem = fake._elem
        sizes, strides = elem.shape, elem.stride()
        if Tensor.shape.__get__(fake) != sizes or Tensor.stride(fake) != strides:
            other = next((
                one for one in fakes if one is not fake
                and one._elem.untyped_storage()._cdata == elem.untyped_storage()._cdata
            ), None)
            fake._set_fake_geometry(elem, other)


def _result_device(func, operator, args, kwargs, fakes):
    """The device of results: where asked for, else that of the tensors."""
    asked = kwargs.get("device") if operator.has_device else None
    if asked is not None:
        return _with_index(asked)
    if not fakes:
        return corten.device("cpu")
    if rules.FIRST_DEVICE.fullmatch(operator.packet):
        return fakes[0].device
    if operator.is_foreach:
        first = next((arg for arg in args if isinstance(arg, (list, tuple))), None)
        return [one.device for one in first] if first and isinstance(first[0], Tensor) else fakes[0].device
    return common_device(func, fakes)


def common_device(func, fakes):
    """The device that tensors have in common; tensors without dimensions on the host go with any.

    Raises:
        FakeTensorDeviceMismatchError: They are on several devices.
    """
    first = fakes[0].device
    if all(fake.device == first for fake in fakes):
        return first
    common, is_scalar = None, False
    for fake in fakes:
        device = fake.device
        scalar = device.type == "cpu" and fake.dim() == 0
        if common is None or is_scalar and device != common:
            common, is_scalar = device, scalar
        elif device == common:
            is_scalar = is_scalar and scalar
        elif not scalar:
            raise FakeTensorDeviceMismatchError(func, common, device)
    return common


def _is_unknown(leaf):
    """Whether a tensor is of a class that has to say itself what operators do."""
    if not isinstance(leaf, Tensor) or isinstance(leaf, FakeTensor):
        return False
    kind = type(leaf)
    return kind is not Tensor and kind.__torch_dispatch__ is not _C._disabled_torch_dispatch_impl \
        and kind is not corten.nn.Parameter and kind is not corten.nn.Buffer


def _convert(mode, func, operator, args, kwargs):
    """Arguments with stand-ins for tensors with data, where these are allowed."""
    override = fake_tensor_tls.allow_non_fake_inputs_override
    allowed = mode.allow_non_fake_inputs if override is None else override

    def convert(value):
        if type(value) in (list, tuple):
            return type(value)(convert(one) for one in value)
        if not isinstance(value, Tensor) or isinstance(value, FakeTensor) and value.fake_mode is mode:
            return value
        if value.dim() == 0 and type(value) is Tensor and value._is_wrapped_number():
            return value
        if type(value) is Tensor and vars(value).pop("_made_inside", False):
            return _lift(mode, value)
        if operator.changes_geometry:
            raise AssertionError(
                "Can't call metadata mutating ops on non-Fake Tensor inputs. Found in "
                + render_call(func, args, kwargs)
            )
        if isinstance(value, FakeTensor):
            raise AssertionError(f"Mixing fake modes NYI x.fake_mode={value.fake_mode} vs self={mode}")
        if not allowed:
            raise AssertionError(
                "Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with "
                f"'allow_non_fake_inputs'. Found in {render_call(func, args, kwargs)}"
            )
        return mode.from_tensor(value, static_shapes=True)

    return [convert(value) for value in args], {name: convert(value) for name, value in kwargs.items()}


def _lift(mode, tensor):
    """What stands for a tensor that was just made of values, which are kept where there is one."""
    if isinstance(tensor, FakeTensor) or type(tensor) is not Tensor:
        return tensor
    if _may_be_constant(tensor):
        with _disable_current_modes():
            kept = tensor.detach().clone()
        return mode.fake_tensor_converter.from_real_tensor(mode, kept, make_constant=True)
    return mode.fake_tensor_converter.from_real_tensor(mode, tensor)


def _may_be_constant(tensor):
    return tensor.numel() <= CONSTANT_NUMEL_LIMIT and tensor.layout == corten.strided \
        and not isinstance(tensor, FakeTensor) and tensor.device.type != "meta"


def _of_numbers(mode, func, args, kwargs):
    """An operator on numbers alone computes them."""
    with _disable_current_modes():
        result = func(*args, **kwargs)
    if not isinstance(result, Tensor):
        return tree_map(lambda one: _lift(mode, one) if isinstance(one, Tensor) else one, result)
    return _lift(mode, result)


_NOTHING = object()


def _fold(mode, func, args, kwargs):
    """The result of an operator on tensors whose values are known, where it is small."""
    known = _constants(args), {name: _constants(value) for name, value in kwargs.items()}
    if any(_is_symbolic(leaf) for leaf in _leaves(args, kwargs)):
        return _NOTHING
    device = kwargs.get("device")
    if device is not None and _with_index(device).type != "cpu":
        return _NOTHING
    with _disable_current_modes():
        result = func(*known[0], **known[1])
    tensors = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
    if not all(map(_may_be_constant, tensors)):
        for tensor in tensors:
            mode.fake_tensor_converter.invalidate_constant_aliases(tensor)
        return _NOTHING
    fakes = [leaf for leaf in _leaves(args, kwargs) if isinstance(leaf, FakeTensor)]

    def wrapped(tensor):
        same = next((fake for fake in fakes if fake.constant is tensor), None)
        if same is not None:
            return same
        return mode.fake_tensor_converter.from_real_tensor(mode, tensor, make_constant=True)

    return tree_map(lambda one: wrapped(one) if isinstance(one, Tensor) else one, result)


def _is_symbolic(value):
    return hasattr(value, "node") and type(value).__name__ in ("SymInt", "SymFloat", "SymBool")


def _constants(value):
    if isinstance(value, FakeTensor):
        return value.constant
    if type(value) in (list, tuple):
        return type(value)(_constants(one) for one in value)
    return value


def _forget_written(mode, func, args, kwargs):
    """Forgets the values of tensors that are written to."""
    for leaf in _leaves(args, kwargs)[:1] + [
        one for name, value in kwargs.items() if name.startswith("out") for one in _leaves((value,), {})
    ]:
        if isinstance(leaf, FakeTensor) and leaf.constant is not None:
            mode.fake_tensor_converter.invalidate_constant_aliases(leaf.constant)
            leaf.constant = None


def _registered(func):
    """What runs the shape rule that a program registered for an operator, or None."""
    from corten._library import fake_impl

    return fake_impl.runner(func)


def run_fallback_kernel(mode, func, args, kwargs, error):
    """The result of the operator on zeros, for what has no shape rule.

    Raises:
        UnsupportedOperatorException: The mode does not allow that, or the operator is one of a program.
    """
    operator = Operator.of(func)
    leaves = _leaves(args, kwargs)
    if not mode.allow_fallback_kernels or operator.namespace not in ("aten", "prims", "quantized", "torchvision"):
        raise UnsupportedOperatorException(func) from error
    fakes = [leaf for leaf in leaves if isinstance(leaf, FakeTensor)]
    reals = {}

    def real(value):
        if isinstance(value, FakeTensor):
            if id(value) not in reals:
                reals[id(value)] = _zeros_of(value)
            return reals[id(value)]
        if type(value) in (list, tuple):
            return type(value)(real(one) for one in value)
        return value

    with _disable_current_modes():
        result = func(*map(real, args), **{name: real(value) for name, value in kwargs.items()})
    by_real = {id(tensor): fake for fake in fakes for tensor in (reals[id(fake)],)}
    device = _result_device(func, operator, args, kwargs, fakes)

    def fake_of(one):
        if not isinstance(one, Tensor):
            return one
        if id(one) in by_real:
            return by_real[id(one)]
        meta = corten.empty_strided(one.shape, one.stride(), dtype=one.dtype, device="meta")
        return FakeTensor(mode, meta, _device_of(device, 0))

    with _disable_current_modes():
        return tree_map(fake_of, result)


def _zeros_of(fake):
    if fake.constant is not None:
        return fake.constant
    made = corten.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype)
    return made.zero_()


def _run_higher_order(mode, func, args, kwargs):
    """The result of an operator that takes functions, by the rule that it has for modes without data."""
    rule = getattr(func, "python_key_table", {}).get(type(mode)) if hasattr(func, "python_key_table") else None
    if rule is not None:
        return rule(mode, *args, **kwargs)
    with mode:
        return func(*args, **kwargs)


@contextlib.contextmanager
def in_kernel_invocation_manager(fake_mode):
    """A block in which a kernel for meta tensors runs."""
    before, fake_mode.in_kernel_invocation = fake_mode.in_kernel_invocation, True
    try:
        yield
    finally:
        fake_mode.in_kernel_invocation = before
