"""Observers: modules that note the limits of the values that pass, and make scales and zero points of them."""

from __future__ import annotations

import functools
import warnings
from abc import ABC, abstractmethod
from collections import OrderedDict

import corten
from corten import nn

from ._ranges import (
    calculate_qmin_qmax, check_min_max_valid, dtypes, is_per_channel, is_per_tensor, qparams_of_limits,
    validate_qmin_qmax,
)

_EPS = corten.finfo(corten.float32).eps
_INFINITE = float("inf")


class _PartialWrapper:
    """A constructor with arguments; some of them are made anew at every call."""

    def __init__(self, p):
        self.p = p
        self.callable_args = {}

    def __call__(self, *args, **keywords):
        made = {name: make() for name, make in self.callable_args.items() if name not in keywords}
        return self.p(*args, **keywords, **made)

    def __repr__(self):
        return repr(self.p) + repr(self.callable_args)

    def with_args(self, **kwargs):
        return _with_args(self, **kwargs)

    def with_callable_args(self, **kwargs):
        wrapper = _PartialWrapper(self.p)
        wrapper.callable_args = {**self.callable_args, **kwargs}
        return wrapper


def _with_args(cls_or_self, **kwargs):
    """A constructor of these arguments. Constructors made of one another can be chained.

    Example::

        >>> narrow = MinMaxObserver.with_args(quant_min=0, quant_max=127)
        >>> narrow().quant_max
        127
    """
    return _PartialWrapper(functools.partial(cls_or_self, **kwargs))


def _with_callable_args(cls_or_self, **kwargs):
    """As ``with_args``, but the arguments are functions that are called for every observer."""
    return _PartialWrapper(functools.partial(cls_or_self)).with_callable_args(**kwargs)


class ObserverBase(ABC, nn.Module):
    """What all observers have: a dtype, ``forward``, which observes, and ``calculate_qparams``."""

    def __init__(self, dtype, is_dynamic=False):
        super().__init__()
        self.dtype = dtype
        self.is_dynamic = is_dynamic

    @abstractmethod
    def forward(self, x):
        """Observes the input and returns it."""

    @abstractmethod
    def calculate_qparams(self, **kwargs):
        """Scale and zero point."""

    with_args = classmethod(_with_args)
    with_callable_args = classmethod(_with_callable_args)


_ALLOWED_DTYPES = tuple(dtypes(
    "qint8", "quint8", "quint4x2", "qint32", "int8", "uint8", "int16", "int32", "float8_e5m2",
    "float8_e4m3fn", "uint16",
))


class UniformQuantizationObserverBase(ObserverBase):
    """Observers whose steps are all of one size.

    Args:
        dtype: Of the quantised values.
        qscheme: Affine or symmetric, per tensor or per channel.
        reduce_range: Whether one bit is left free, so that products of pairs fit into 16 bits.
        quant_min, quant_max: The limits of quantised values; those of the dtype if they are not given.
        factory_kwargs: Device and dtype of the buffers.
        eps: The smallest scale.
        is_dynamic: Whether scales are found while a model runs.
    """

    _version = 3

    def __init__(
        self, dtype=corten.quint8, qscheme=corten.per_tensor_affine, reduce_range=False, quant_min=None,
        quant_max=None, factory_kwargs=None, eps=_EPS, is_dynamic=False, **kwargs,
    ):
        factory_kwargs = nn.factory_kwargs(factory_kwargs)
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        self.qscheme = qscheme
        if reduce_range:
            warnings.warn(
                "Please use quant_min and quant_max to specify the range for observers."
                "                     reduce_range will be deprecated in a future release of PyTorch.",
                stacklevel=2,
            )
        self.reduce_range = reduce_range
        self.register_buffer("eps", corten.tensor([eps], **factory_kwargs))
        if not (is_per_tensor(qscheme) or is_per_channel(qscheme)):
            raise AssertionError(
                "Default Observer only works for per_tensor_affine, per_tensor_symmetric, "
                "per_channel_affine, per_channel_symmetric and per_channel_float_qparams quantization scheme"
            )
        if dtype not in _ALLOWED_DTYPES:
            raise AssertionError(f"Default Observer only works for {_ALLOWED_DTYPES} data type")
        self.has_customized_qrange = quant_min is not None and quant_max is not None
        if self.has_customized_qrange:
            validate_qmin_qmax(quant_min, quant_max)
        self.quant_min, self.quant_max = calculate_qmin_qmax(
            quant_min, quant_max, self.has_customized_qrange, dtype, reduce_range
        )

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *others):
        if local_metadata.get("version", None) in (None, 1):
            # The first version had no smallest scale.
            state_dict[prefix + "eps"] = corten.tensor([_EPS])
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *others)

    def _validate_qmin_qmax(self, quant_min, quant_max):
        validate_qmin_qmax(quant_min, quant_max)

    def _symmetric_zero_point(self):
        if self.dtype in (corten.quint8, corten.uint8):
            return (self.quant_min + self.quant_max) // 2 if self.has_customized_qrange else 128
        return 2**15 if self.dtype == corten.uint16 else 0

    def _calculate_qparams(self, min_val, max_val):
        """Scale and zero point for values between these limits."""
        if not check_min_max_valid(min_val, max_val):
            device = min_val.device.type
            return corten.tensor([1.0], device=device), corten.tensor([0], device=device)
        return qparams_of_limits(
            min_val, max_val, self.qscheme, self.quant_min, self.quant_max, self.eps,
            self._symmetric_zero_point(),
        )

    def reset_min_max_vals(self):
        """Forgets what was observed."""
        raise NotImplementedError("Cannot reset min/max values in the given observer.")


_ObserverBase = UniformQuantizationObserverBase


class _LimitsObserver(UniformQuantizationObserverBase):
    """Observers that hold a least and a greatest value, or one of each by channel."""

    _GAP = " "

    def _register_limits(self, low, high, factory_kwargs):
        factory_kwargs = nn.factory_kwargs(factory_kwargs)
        self.register_buffer("min_val", corten.tensor(low, **factory_kwargs))
        self.register_buffer("max_val", corten.tensor(high, **factory_kwargs))
        if self.qscheme in (corten.per_tensor_symmetric, corten.per_channel_symmetric):
            if self.reduce_range and self.dtype == corten.quint8:
                raise NotImplementedError(
                    f"Cannot reduce range for symmetric{self._GAP}quantization for quint8"
                )

    def _merged(self, low, high):
        """The limits so far and these in one."""
        return corten.min(low, self.min_val), corten.max(high, self.max_val)

    def _moved(self, low, high):
        """The limits so far, moved towards these by the averaging constant."""
        rate, old_low, old_high = self.averaging_constant, self.min_val, self.max_val
        return old_low + rate * (low - old_low), old_high + rate * (high - old_high)

    def calculate_qparams(self):
        """Scale and zero point for the observed limits."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self):
        """The limits."""
        return f"min_val={self.min_val}, max_val={self.max_val}"


class MinMaxObserver(_LimitsObserver):
    """Notes the least and the greatest value of all inputs.

    Example::

        >>> observer = MinMaxObserver()
        >>> _ = observer(torch.tensor([-1.0, 2.0]))
        >>> observer.min_val, observer.max_val
        (tensor(-1.), tensor(2.))
    """

    _GAP = " " * 40

    def __init__(
        self, dtype=corten.quint8, qscheme=corten.per_tensor_affine, reduce_range=False, quant_min=None,
        quant_max=None, factory_kwargs=None, eps=_EPS, is_dynamic=False, **kwargs,
    ):
        if not is_per_tensor(qscheme):
            raise NotImplementedError(
                "MinMaxObserver's qscheme only support torch.per_tensor_symmetric"
                "                     and torch.per_tensor_affine."
            )
        super().__init__(
            dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs
        )
        self._register_limits(_INFINITE, -_INFINITE, factory_kwargs)

    def _update(self, low, high):
        return self._merged(low, high)

    def forward(self, x_orig):
        """Observes the input and returns it."""
        if x_orig.numel():
            found = corten.aminmax(x_orig.detach().to(self.min_val.dtype))
            low, high = self._update(*found)
            self.min_val.copy_(low)
            self.max_val.copy_(high)
        return x_orig

    def reset_min_max_vals(self):
        """Forgets what was observed."""
        self.min_val.fill_(_INFINITE)
        self.max_val.fill_(-_INFINITE)


class MovingAverageMinMaxObserver(MinMaxObserver):
    """Moves its limits towards those of each input by a fraction of the distance, its averaging constant."""

    def __init__(
        self, averaging_constant=0.01, dtype=corten.quint8, qscheme=corten.per_tensor_affine,
        reduce_range=False, quant_min=None, quant_max=None, eps=_EPS, is_dynamic=False, **kwargs,
    ):
        if not is_per_tensor(qscheme):
            raise NotImplementedError(
                "MovingAverageMinMaxObserver's qscheme only support                 "
                "torch.per_tensor_symmetric and torch.per_tensor_affine.                 "
                f"but got: {qscheme}"
            )
        self.averaging_constant = averaging_constant
        if is_dynamic and averaging_constant != 1:
            raise NotImplementedError(
                "MovingAverageMinMaxObserver doesn't support dynamic quantization for averaging constant "
                f"of {averaging_constant}"
            )
        super().__init__(
            dtype=dtype, qscheme=qscheme, reduce_range=reduce_range, quant_min=quant_min,
            quant_max=quant_max, eps=eps, is_dynamic=is_dynamic, **kwargs,
        )

    def _update(self, low, high):
        if self.min_val == _INFINITE and self.max_val == -_INFINITE:
            return low, high
        return self._moved(low, high)


class PerChannelMinMaxObserver(_LimitsObserver):
    """As :class:`MinMaxObserver`, with limits for every slice along ``ch_axis``."""

    _NO_SCHEME = (
        "qscheme only support                     torch.per_channel_symmetric, torch.per_channel_affine "
        "and torch.per_channel_affine_float_qparams."
    )

    def __init__(
        self, ch_axis=0, dtype=corten.quint8, qscheme=corten.per_channel_affine, reduce_range=False,
        quant_min=None, quant_max=None, factory_kwargs=None, eps=_EPS, is_dynamic=False, **kwargs,
    ):
        self._check(qscheme, is_dynamic)
        super().__init__(
            dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs
        )
        self.ch_axis = ch_axis
        self._register_limits([], [], factory_kwargs)

    @classmethod
    def _check(cls, qscheme, is_dynamic):
        family = cls if cls.__module__ == __name__ else PerChannelMinMaxObserver
        if not is_per_channel(qscheme):
            raise NotImplementedError(f"{family.__name__}'s {cls._NO_SCHEME}")
        if is_dynamic:
            raise NotImplementedError(f"{family.__name__} doesn't support dynamic quantization")

    def _update(self, low, high):
        return self._merged(low, high)

    def forward(self, x_orig):
        """Observes the input and returns it."""
        return self._forward(x_orig)

    def _forward(self, x_orig):
        if not x_orig.numel():
            return x_orig
        x = x_orig.detach()
        axes = list(range(x.dim()))
        axes[self.ch_axis], axes[0] = 0, self.ch_axis
        channels = corten.flatten(x.permute(axes).to(self.min_val.dtype), start_dim=1)
        low, high = corten.aminmax(channels, dim=1)
        if self.min_val.numel() and self.max_val.numel():
            low, high = self._update(low, high)
        self.min_val.resize_(low.shape)
        self.max_val.resize_(high.shape)
        self.min_val.copy_(low)
        self.max_val.copy_(high)
        return x_orig

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        version = local_metadata.get("version")
        old = "s" if version is not None and version < 3 else ""
        for name in ("min_val", "max_val"):
            key = prefix + name + old
            if key in state_dict:
                getattr(self, name).resize_(state_dict[key].shape)
            elif strict:
                missing_keys.append(key)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )

    def _load_from_state_dict_script(self, *arguments):
        self._load_from_state_dict(*arguments)

    def reset_min_max_vals(self):
        """Forgets what was observed."""
        self.min_val = corten.rand(0)
        self.max_val = corten.rand(0)


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """As :class:`MovingAverageMinMaxObserver`, with limits for every slice along ``ch_axis``."""

    def __init__(
        self, averaging_constant=0.01, ch_axis=0, dtype=corten.quint8, qscheme=corten.per_channel_affine,
        reduce_range=False, quant_min=None, quant_max=None, eps=_EPS, is_dynamic=False, **kwargs,
    ):
        super().__init__(
            ch_axis=ch_axis, dtype=dtype, qscheme=qscheme, reduce_range=reduce_range, quant_min=quant_min,
            quant_max=quant_max, eps=eps, is_dynamic=is_dynamic, **kwargs,
        )
        self.averaging_constant = averaging_constant

    def _update(self, low, high):
        return self._moved(low, high)


class FixedQParamsObserver(ObserverBase):
    """Has the scale and the zero point that it was made with: for outputs whose limits are known."""

    def __init__(
        self, scale, zero_point, dtype=corten.quint8, qscheme=corten.per_tensor_affine, quant_min=0,
        quant_max=255, is_dynamic=False, **kwargs,
    ):
        if is_dynamic:
            raise NotImplementedError("FixedQParamsObserver doesn't support dynamic quantization")
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        self.quant_min, self.quant_max = quant_min, quant_max
        self.register_buffer("scale", corten.tensor([scale], dtype=corten.float))
        self.register_buffer("zero_point", corten.tensor([zero_point], dtype=corten.int))
        self.qscheme = qscheme

    def forward(self, X):
        """The input."""
        return X

    def calculate_qparams(self):
        """The scale and the zero point."""
        return self.scale, self.zero_point


class _Blind(ObserverBase):
    """Observers that note no limits."""

    def forward(self, x):
        """The input."""
        return x

    def calculate_qparams(self):
        """Raises: there is nothing to make a scale of."""
        raise Exception(f"calculate_qparams should not be called for {type(self).__name__}")


class PlaceholderObserver(_Blind):
    """Notes nothing and passes a dtype on: for half precision and for scales that are found while a model runs."""

    def __init__(
        self, dtype=corten.float32, custom_op_name="", compute_dtype=None, quant_min=None, quant_max=None,
        qscheme=None, eps=None, is_dynamic=False,
    ):
        super().__init__(dtype=dtype, is_dynamic=is_dynamic)
        self.qscheme = corten.per_tensor_affine if qscheme is None else qscheme
        self.quant_min, self.quant_max = quant_min, quant_max
        self.eps = _EPS if eps is None else eps
        self.custom_op = custom_op_name
        if compute_dtype:
            warnings.warn(
                "Please use `is_dynamic` instead of `compute_dtype`.                     `compute_dtype` "
                "will be deprecated in a future release                     of PyTorch.",
                stacklevel=2,
            )

    def extra_repr(self):
        """The dtype."""
        return f"dtype={self.dtype}, is_dynamic={self.is_dynamic}"


class RecordingObserver(_Blind):
    """Keeps copies of all inputs."""

    def __init__(self, dtype=corten.quint8):
        super().__init__(dtype=dtype, is_dynamic=False)
        self.tensor_val = []

    def forward(self, x):
        """Copies the input and returns it."""
        self.tensor_val.append(x.clone())
        return x

    def get_tensor_value(self):
        """The copies."""
        return self.tensor_val


class NoopObserver(_Blind):
    """Notes nothing and passes a dtype on."""

    def __init__(self, dtype=corten.float16, custom_op_name=""):
        super().__init__(dtype=dtype, is_dynamic=False)
        self.custom_op = custom_op_name


class ReuseInputObserver(_Blind):
    """Stands for the observer of an operator's input, for operators that keep values as they are."""

    def __init__(self):
        super().__init__(corten.quint8, is_dynamic=False)


from ._granularity import (  # noqa: E402
    AffineQuantizedObserverBase, Granularity, MappingType, PerAxis, PerBlock, PerGroup, PerRow, PerTensor,
    PerToken, TorchAODType, ZeroPointDomain, get_block_size,
)
from ._histogram import HistogramObserver  # noqa: E402


def _is_observer_script_module(mod, obs_type_name):
    return False


def _is_activation_post_process(module):
    from .fake_quantize import FakeQuantizeBase

    return isinstance(module, (ObserverBase, FakeQuantizeBase, AffineQuantizedObserverBase))


def _is_per_channel_script_obs_instance(module):
    return False


def get_observer_state_dict(mod):
    """The part of a model's state that is of observers."""
    state = mod.state_dict()
    observed = OrderedDict((k, v) for k, v in state.items() if "activation_post_process" in k)
    observed._metadata = state._metadata
    return observed


def load_observer_state_dict(mod, obs_dict):
    """Loads what :func:`get_observer_state_dict` returned.

    Raises:
        Exception: Keys of observers are missing or have no observer.
    """
    missing, unexpected = [], []
    for name, module in mod.named_modules():
        if _is_activation_post_process(module):
            module._load_from_state_dict(obs_dict, name + ".", {}, False, missing, unexpected, [])
    for problem, keys in (("Missing", missing), ("Unexpected", unexpected)):
        for key in keys:
            if "observer" in key or "activation_post_process" in key:
                raise Exception(f"{problem} keys for observer {key} in state_dict")


_SYMMETRIC = dict(dtype=corten.qint8, qscheme=corten.per_tensor_symmetric)
_SYMMETRIC_CHANNELS = dict(dtype=corten.qint8, qscheme=corten.per_channel_symmetric)
_WITHOUT_LEAST = dict(quant_min=-127, quant_max=127, eps=2**-12)
_FLOAT_ZEROS = dict(qscheme=corten.per_channel_affine_float_qparams, ch_axis=0)
_FIXED = dict(dtype=corten.quint8, quant_min=0, quant_max=255)

default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_placeholder_observer = PlaceholderObserver
default_debug_observer = RecordingObserver
default_weight_observer = MinMaxObserver.with_args(**_SYMMETRIC)
weight_observer_range_neg_127_to_127 = MinMaxObserver.with_args(**_SYMMETRIC, **_WITHOUT_LEAST)
default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(**_SYMMETRIC_CHANNELS)
per_channel_weight_observer_range_neg_127_to_127 = PerChannelMinMaxObserver.with_args(
    **_SYMMETRIC_CHANNELS, **_WITHOUT_LEAST
)
default_dynamic_quant_observer = PlaceholderObserver.with_args(**_FIXED, is_dynamic=True)
default_float_qparams_observer = PerChannelMinMaxObserver.with_args(dtype=corten.quint8, **_FLOAT_ZEROS)
default_float_qparams_observer_4bit = PerChannelMinMaxObserver.with_args(
    dtype=corten.quint4x2, **_FLOAT_ZEROS
)
default_fixed_qparams_range_neg1to1_observer = FixedQParamsObserver.with_args(
    scale=2.0 / 256.0, zero_point=128, **_FIXED
)
default_fixed_qparams_range_0to1_observer = FixedQParamsObserver.with_args(
    scale=1.0 / 256.0, zero_point=0, **_FIXED
)
default_symmetric_fixed_qparams_observer = default_fixed_qparams_range_neg1to1_observer
default_affine_fixed_qparams_observer = default_fixed_qparams_range_0to1_observer
default_reuse_input_observer = ReuseInputObserver

__all__ = [
    "default_affine_fixed_qparams_observer", "default_debug_observer", "default_dynamic_quant_observer",
    "default_fixed_qparams_range_0to1_observer", "default_fixed_qparams_range_neg1to1_observer",
    "default_float_qparams_observer", "default_float_qparams_observer_4bit", "default_histogram_observer",
    "default_observer", "default_per_channel_weight_observer", "default_placeholder_observer",
    "default_reuse_input_observer", "default_symmetric_fixed_qparams_observer", "default_weight_observer",
    "get_observer_state_dict", "load_observer_state_dict",
    "per_channel_weight_observer_range_neg_127_to_127", "weight_observer_range_neg_127_to_127",
    "FixedQParamsObserver", "HistogramObserver", "MinMaxObserver", "MovingAverageMinMaxObserver",
    "MovingAveragePerChannelMinMaxObserver", "NoopObserver", "ObserverBase", "PerChannelMinMaxObserver",
    "PlaceholderObserver", "RecordingObserver", "ReuseInputObserver", "UniformQuantizationObserverBase",
    "AffineQuantizedObserverBase", "Granularity", "MappingType", "PerAxis", "PerBlock", "PerGroup",
    "PerRow", "PerTensor", "PerToken", "TorchAODType", "ZeroPointDomain", "get_block_size",
]
