"""Modules that quantise values and dequantise them at once, for training that knows of quantisation."""

from __future__ import annotations

from abc import ABC, abstractmethod

import corten
from corten import nn

from ._ranges import iinfo, is_per_channel as _is_per_channel, is_per_tensor as _is_per_tensor
from ._ranges import is_symmetric as _is_symmetric_quant
from .observer import (
    _with_args, FixedQParamsObserver, HistogramObserver, MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver, default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
)

__all__ = [
    "FakeQuantizeBase", "FakeQuantize", "FixedQParamsFakeQuantize", "FusedMovingAvgObsFakeQuantize",
    "disable_fake_quant", "disable_observer", "enable_fake_quant", "enable_observer", "default_fake_quant",
    "default_weight_fake_quant", "default_dynamic_fake_quant",
    "default_fixed_qparams_range_neg1to1_fake_quant", "default_fixed_qparams_range_0to1_fake_quant",
    "default_symmetric_fixed_qparams_fake_quant", "default_affine_fixed_qparams_fake_quant",
    "default_per_channel_weight_fake_quant", "default_embedding_fake_quant",
    "default_embedding_fake_quant_4bit", "default_histogram_fake_quant", "default_fused_act_fake_quant",
    "default_fused_wt_fake_quant", "default_fused_per_channel_wt_fake_quant",
    "fused_wt_fake_quant_range_neg_127_to_127", "fused_per_channel_wt_fake_quant_range_neg_127_to_127",
]


def _is_float_qparams(qscheme):
    return qscheme == corten.per_channel_affine_float_qparams


class FakeQuantizeBase(ABC, nn.Module):
    """What all have: switches for observing and for quantising, which are buffers."""

    def __init__(self):
        super().__init__()
        # In buffers, so that graphs that were compiled or replicated see their changes.
        self.register_buffer("fake_quant_enabled", corten.tensor([1], dtype=corten.uint8))
        self.register_buffer("observer_enabled", corten.tensor([1], dtype=corten.uint8))

    @abstractmethod
    def forward(self, x):
        """The input, quantised and back."""

    @abstractmethod
    def calculate_qparams(self, **kwargs):
        """Scale and zero point."""

    def enable_fake_quant(self, enabled=True):
        """Switches quantising on or off."""
        self.fake_quant_enabled[0] = 1 if enabled else 0

    def disable_fake_quant(self):
        """Switches quantising off."""
        self.enable_fake_quant(False)

    def enable_observer(self, enabled=True):
        """Switches observing on or off."""
        self.observer_enabled[0] = 1 if enabled else 0

    def disable_observer(self):
        """Switches observing off."""
        self.enable_observer(False)

    @classmethod
    def with_args(cls, **kwargs):
        """A constructor of these arguments."""
        made = _with_args(cls, **kwargs)
        made.__module__ = __name__
        return made


class FakeQuantize(FakeQuantizeBase):
    """Quantises with the scale and the zero point of an observer that sees the same inputs.

    Args:
        observer: Constructor of the observer.
        quant_min, quant_max: The limits of quantised values, within those of the observer's dtype.
        is_dynamic: Whether scales are found for every input alone.
        observer_kwargs: Further arguments of the observer.
    """

    def __init__(
        self, observer=MovingAverageMinMaxObserver, quant_min=None, quant_max=None, is_dynamic=False,
        **observer_kwargs,
    ):
        super().__init__()
        if quant_min is not None and quant_max is not None:
            if quant_min > quant_max:
                raise AssertionError("quant_min must be less than or equal to quant_max")
            dtype = observer_kwargs.get("dtype", corten.quint8)
            if hasattr(observer, "p"):
                dtype = getattr(observer.p, "keywords", {}).get("dtype", dtype)
            if iinfo(dtype).min > quant_min:
                raise AssertionError("quant_min out of bound")
            if quant_max > iinfo(dtype).max:
                raise AssertionError("quant_max out of bound")
            observer_kwargs.update(quant_min=quant_min, quant_max=quant_max)
        observer_kwargs["is_dynamic"] = is_dynamic
        self.activation_post_process = observing = observer(**observer_kwargs)
        self.quant_min, self.quant_max = observing.quant_min, observing.quant_max
        self.is_dynamic, self.dtype, self.qscheme = observing.is_dynamic, observing.dtype, observing.qscheme
        zeros = corten.float if _is_float_qparams(observing.qscheme) else corten.int
        self.register_buffer("scale", corten.tensor([1.0], dtype=corten.float))
        self.register_buffer("zero_point", corten.tensor([0], dtype=zeros))
        self.ch_axis = getattr(observing, "ch_axis", -1)
        self.is_per_channel = _is_per_channel(self.qscheme)
        if not (self.is_per_channel or _is_per_tensor(self.qscheme)):
            raise AssertionError(
                "Only per channel and per tensor quantization are supported in fake quantize got qscheme: "
                + str(self.qscheme)
            )

    def calculate_qparams(self):
        """Scale and zero point of what was observed."""
        return self.activation_post_process.calculate_qparams()

    def forward(self, X):
        """The input, quantised and back; observed first."""
        observing = self.activation_post_process
        if self.observer_enabled[0] == 1:
            observing(X.detach())
            for buffer, found in zip((self.scale, self.zero_point), self.calculate_qparams()):
                if self.scale.shape != found.shape or buffer.shape != found.shape:
                    buffer.resize_(found.shape)
                buffer.copy_(found.to(buffer.device))
        if self.fake_quant_enabled[0] == 1:
            limits = (observing.quant_min, observing.quant_max)
            if self.is_per_channel:
                X = corten.fake_quantize_per_channel_affine(
                    X, self.scale, self.zero_point, self.ch_axis, *limits
                )
            else:
                X = corten.fake_quantize_per_tensor_affine(X, self.scale, self.zero_point, *limits)
        return X

    def extra_repr(self):
        """Switches, limits, dtype, scheme, scale and zero point."""
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, "
            f"quant_min={self.activation_post_process.quant_min}, "
            f"quant_max={self.activation_post_process.quant_max}, dtype={self.dtype}, "
            f"qscheme={self.qscheme}, ch_axis={self.ch_axis}, scale={self.scale}, "
            f"zero_point={self.zero_point}"
        )

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = self.scale
        destination[prefix + "zero_point"] = self.zero_point

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        for name in ("scale", "zero_point"):
            if prefix + name in state_dict:
                getattr(self, name).resize_(state_dict[prefix + name].shape)
            elif strict:
                missing_keys.append(prefix + name)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class FixedQParamsFakeQuantize(FakeQuantize):
    """Quantises with a scale and a zero point that do not change."""

    def __init__(self, observer):
        super().__init__(observer=observer)
        observing = self.activation_post_process
        if type(observing) is not FixedQParamsObserver:
            raise AssertionError(
                f"{type(self).__name__}'s observer must be a {FixedQParamsObserver.__name__}"
            )
        self._observer_ctr = observer
        self.scale, self.zero_point = observing.scale, observing.zero_point
        if not _is_per_tensor(self.qscheme):
            raise AssertionError(
                "Only per tensor quantization is supported FixedQParamsFakeQuantize module, got qscheme:"
                + str(self.qscheme)
            )

    def calculate_qparams(self):
        """The scale and the zero point."""
        return self.scale, self.zero_point

    def extra_repr(self):
        """Switches, scale, zero point, dtype, limits and scheme."""
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, "
            f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}, "
            f"quant_min={self.activation_post_process.quant_min}, "
            f"quant_max={self.activation_post_process.quant_max}, qscheme={self.qscheme}"
        )


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """Observes by moving averages and quantises in one operator."""

    def __init__(
        self, observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, **observer_kwargs
    ):
        super().__init__(observer, quant_min, quant_max, **observer_kwargs)
        if not isinstance(
            self.activation_post_process,
            (MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver),
        ):
            raise AssertionError(
                "Fused observer+fake_quant module only works with MovingAverageMinMaxObserver"
            )
        self.register_buffer("fake_quant_enabled", corten.tensor([1], dtype=corten.long))
        self.register_buffer("observer_enabled", corten.tensor([1], dtype=corten.long))
        self.is_symmetric_quant = _is_symmetric_quant(self.activation_post_process.qscheme)

    def extra_repr(self):
        """Switches, scale, zero point, dtype, limits and scheme."""
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, "
            f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}, "
            f"quant_min={self.activation_post_process.quant_min}, "
            f"quant_max={self.activation_post_process.quant_max}, qscheme={self.qscheme}, "
            f"reduce_range={self.activation_post_process.reduce_range}"
        )

    def forward(self, X):
        """The input, quantised and back; observed first."""
        observing = self.activation_post_process
        return corten.fused_moving_avg_obs_fake_quant(
            X, self.observer_enabled, self.fake_quant_enabled, observing.min_val, observing.max_val,
            self.scale, self.zero_point, observing.averaging_constant, observing.quant_min,
            observing.quant_max, self.ch_axis, self.is_per_channel, self.is_symmetric_quant,
        )


_UNSIGNED = dict(quant_min=0, quant_max=255, dtype=corten.quint8)
_SIGNED = dict(quant_min=-128, quant_max=127, dtype=corten.qint8)
_WITHOUT_LEAST = dict(quant_min=-127, quant_max=127, dtype=corten.qint8, eps=2**-12)
_TENSOR = dict(observer=MovingAverageMinMaxObserver)
_CHANNEL = dict(observer=MovingAveragePerChannelMinMaxObserver)
_AFFINE = dict(qscheme=corten.per_tensor_affine)
_SYMMETRIC = dict(qscheme=corten.per_tensor_symmetric)
_SYMMETRIC_CHANNELS = dict(qscheme=corten.per_channel_symmetric)
_ROWS = dict(qscheme=corten.per_channel_affine_float_qparams, ch_axis=0, averaging_constant=1)

default_fake_quant = FakeQuantize.with_args(**_TENSOR, **_UNSIGNED, **_AFFINE, reduce_range=True)
default_weight_fake_quant = FakeQuantize.with_args(**_TENSOR, **_SIGNED, **_SYMMETRIC, reduce_range=False)
default_dynamic_fake_quant = FakeQuantize.with_args(
    **_TENSOR, **_UNSIGNED, is_dynamic=True, averaging_constant=1
)
default_fixed_qparams_range_neg1to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_neg1to1_observer
)
default_fixed_qparams_range_0to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_0to1_observer
)
default_symmetric_fixed_qparams_fake_quant = default_fixed_qparams_range_neg1to1_fake_quant
default_affine_fixed_qparams_fake_quant = default_fixed_qparams_range_0to1_fake_quant
default_per_channel_weight_fake_quant = FakeQuantize.with_args(
    **_CHANNEL, **_SIGNED, **_SYMMETRIC_CHANNELS, reduce_range=False, ch_axis=0
)
default_embedding_fake_quant = FakeQuantize.with_args(**_CHANNEL, **_UNSIGNED, **_ROWS)
default_embedding_fake_quant_4bit = FakeQuantize.with_args(**_CHANNEL, dtype=corten.quint4x2, **_ROWS)
default_histogram_fake_quant = FakeQuantize.with_args(
    observer=HistogramObserver, **_UNSIGNED, **_AFFINE, reduce_range=True
)
default_fused_act_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(**_TENSOR, **_UNSIGNED)
default_fused_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(**_TENSOR, **_SIGNED, **_SYMMETRIC)
default_fused_per_channel_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(
    **_CHANNEL, **_SIGNED, **_SYMMETRIC_CHANNELS
)
fused_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(
    **_TENSOR, **_WITHOUT_LEAST, **_SYMMETRIC
)
fused_per_channel_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(
    **_CHANNEL, **_WITHOUT_LEAST, **_SYMMETRIC_CHANNELS
)


def _is_fake_quant_script_module(mod):
    return False


def disable_fake_quant(mod):
    """Switches quantising off; for ``model.apply``."""
    if isinstance(mod, FakeQuantizeBase):
        mod.disable_fake_quant()


def enable_fake_quant(mod):
    """Switches quantising on; for ``model.apply``."""
    if isinstance(mod, FakeQuantizeBase):
        mod.enable_fake_quant()


def disable_observer(mod):
    """Switches observing off; for ``model.apply``."""
    if isinstance(mod, FakeQuantizeBase):
        mod.disable_observer()


def enable_observer(mod):
    """Switches observing on; for ``model.apply``."""
    if isinstance(mod, FakeQuantizeBase):
        mod.enable_observer()
