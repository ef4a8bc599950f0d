"""Configurations: constructors of the observers, or of the fake quantisers, of activations and of weights."""

from __future__ import annotations

import warnings
from collections import namedtuple
from typing import Any

import corten
from corten import nn

from . import fake_quantize as fq, observer as ob
from ._deprecated import deprecated
from .fake_quantize import FakeQuantize, FakeQuantizeBase, FusedMovingAvgObsFakeQuantize
from .observer import (
    _PartialWrapper, HistogramObserver, MinMaxObserver, MovingAverageMinMaxObserver, NoopObserver,
    PlaceholderObserver, ReuseInputObserver,
)

__all__ = [
    "QConfig", "QConfigDynamic", "default_qconfig", "default_debug_qconfig", "default_per_channel_qconfig",
    "default_dynamic_qconfig", "float16_dynamic_qconfig", "float16_static_qconfig",
    "per_channel_dynamic_qconfig", "float_qparams_weight_only_qconfig",
    "float_qparams_weight_only_qconfig_4bit", "default_quint8_weight_qconfig", "default_qat_qconfig",
    "default_dynamic_qat_qconfig", "default_weight_only_qconfig", "default_activation_only_qconfig",
    "default_qat_qconfig_v2", "default_reuse_input_qconfig", "default_symmetric_qnnpack_qconfig",
    "default_per_channel_symmetric_qnnpack_qconfig", "default_symmetric_qnnpack_qat_qconfig",
    "default_per_channel_symmetric_qnnpack_qat_qconfig", "default_embedding_qat_qconfig",
    "default_embedding_qat_qconfig_4bit", "get_default_qconfig", "get_default_qat_qconfig",
    "get_default_qconfig_dict", "get_default_qat_qconfig_dict", "QConfigAny", "qconfig_equals",
]

QConfigAny = Any
_INSTANCE = (
    "{} received observer instance, please pass observer class instead. "
    "Use MyObserver.with_args(x=1) to override arguments to constructor if needed"
)


class QConfig(namedtuple("QConfig", ["activation", "weight"])):
    """Constructors of a layer's observers.

    Example::

        >>> qconfig = QConfig(MinMaxObserver, MinMaxObserver.with_args(dtype=torch.qint8))
        >>> qconfig.weight().dtype
        torch.qint8
    """

    __slots__ = ()

    def __new__(cls, activation, weight):
        if isinstance(activation, nn.Module) or isinstance(weight, nn.Module):
            raise ValueError(_INSTANCE.format("QConfig"))
        return super().__new__(cls, activation, weight)


@deprecated(
    "`QConfigDynamic` is going to be deprecated in PyTorch 1.12, please use `QConfig` instead",
    category=FutureWarning,
)
class QConfigDynamic(namedtuple("QConfigDynamic", ["activation", "weight"])):
    """The older form of a configuration whose scales are found while a model runs."""

    __slots__ = ()

    def __new__(cls, activation=nn.Identity, weight=nn.Identity):
        if isinstance(weight, nn.Module):
            raise ValueError(_INSTANCE.format("QConfigDynamic"))
        return super().__new__(cls, activation, weight)


_half = PlaceholderObserver.with_args(dtype=corten.float16)
_half_dynamic = PlaceholderObserver.with_args(dtype=corten.float16, is_dynamic=True)
_narrow_histogram = HistogramObserver.with_args(dtype=corten.qint8, reduce_range=False, eps=2**-12)
_narrow_fused = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=corten.qint8,
    reduce_range=False, eps=2**-12,
)
_no_activation = NoopObserver.with_args(dtype=corten.float32)

default_qconfig = QConfig(ob.default_observer, ob.default_weight_observer)
default_debug_qconfig = QConfig(ob.default_debug_observer, ob.default_weight_observer)
default_per_channel_qconfig = QConfig(ob.default_observer, ob.default_per_channel_weight_observer)
default_dynamic_qconfig = QConfig(ob.default_dynamic_quant_observer, ob.default_weight_observer)
float16_dynamic_qconfig = QConfig(_half_dynamic, _half)
float16_static_qconfig = QConfig(_half, PlaceholderObserver.with_args(dtype=corten.float16))
per_channel_dynamic_qconfig = QConfig(
    ob.default_dynamic_quant_observer, ob.default_per_channel_weight_observer
)
float_qparams_weight_only_qconfig = QConfig(
    ob.default_placeholder_observer, ob.default_float_qparams_observer
)
float_qparams_weight_only_qconfig_4bit = QConfig(
    ob.default_placeholder_observer, ob.default_float_qparams_observer_4bit
)
default_qat_qconfig = QConfig(fq.default_fake_quant, fq.default_weight_fake_quant)
default_dynamic_qat_qconfig = QConfig(fq.default_dynamic_fake_quant, fq.default_weight_fake_quant)
default_weight_only_qconfig = QConfig(nn.Identity, fq.default_weight_fake_quant)
default_activation_only_qconfig = QConfig(fq.default_fake_quant, nn.Identity)
default_qat_qconfig_v2 = QConfig(fq.default_fused_act_fake_quant, fq.default_fused_wt_fake_quant)
default_reuse_input_qconfig = QConfig(ob.default_reuse_input_observer, NoopObserver)
default_symmetric_qnnpack_qconfig = QConfig(_narrow_histogram, ob.weight_observer_range_neg_127_to_127)
default_per_channel_symmetric_qnnpack_qconfig = QConfig(
    _narrow_histogram, ob.per_channel_weight_observer_range_neg_127_to_127
)
default_symmetric_qnnpack_qat_qconfig = QConfig(_narrow_fused, fq.fused_wt_fake_quant_range_neg_127_to_127)
default_per_channel_symmetric_qnnpack_qat_qconfig = QConfig(
    _narrow_fused, fq.fused_per_channel_wt_fake_quant_range_neg_127_to_127
)
default_embedding_qat_qconfig = QConfig(_no_activation, fq.default_embedding_fake_quant)
default_embedding_qat_qconfig_4bit = QConfig(_no_activation, fq.default_embedding_fake_quant_4bit)
default_quint8_weight_qconfig = QConfig(HistogramObserver, MinMaxObserver)

_default_fp32_placeholder_qconfig = QConfig(
    PlaceholderObserver.with_args(dtype=corten.float32), PlaceholderObserver.with_args(dtype=corten.float32)
)
_default_quint8_placeholder_qconfig = QConfig(PlaceholderObserver.with_args(dtype=corten.quint8), None)

#: By backend: whether one bit of activations is left free (None: not said), and whether weights have
#: scales by channel.
_BACKENDS = {
    "fbgemm": (True, True), "x86": (True, True), "qnnpack": (False, False), "onednn": (None, True),
}


def _backend(backend):
    if backend not in _BACKENDS:
        raise AssertionError(
            f"backend: {backend} not supported. backend must be one of {list(_BACKENDS)}"
        )
    return _BACKENDS[backend]


def get_default_qconfig(backend="x86", version=0):
    """The configuration for calibration of a backend: ``fbgemm``, ``x86``, ``qnnpack`` or ``onednn``."""
    reduce_range, channels = _backend(backend)
    if version != 0:
        raise AssertionError(
            f"Version number: {version} in get_default_qconfig is not supported. Version number must be 0"
        )
    if backend == "onednn" and not corten.cpu._is_vnni_supported():
        warnings.warn(
            "Default qconfig of oneDNN backend with reduce_range of false may have accuracy issues on CPU "
            "without Vector Neural Network Instruction support.",
            stacklevel=2,
        )
    weight = ob.default_per_channel_weight_observer if channels else ob.default_weight_observer
    return QConfig(HistogramObserver.with_args(reduce_range=bool(reduce_range)), weight)


def get_default_qat_qconfig(backend="x86", version=1):
    """The configuration for training of a backend; version 1 observes and quantises in one operator."""
    reduce_range, channels = _backend(backend)
    if version not in (0, 1):
        raise AssertionError(
            f"Version number: {version}in get_default_qat_qconfig is not supported. "
            "Version number must be 0 or 1"
        )
    limits = dict(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255)
    if reduce_range is not None:
        limits["reduce_range"] = reduce_range
    if version == 0:
        weight = fq.default_per_channel_weight_fake_quant if channels else fq.default_weight_fake_quant
        return QConfig(FakeQuantize.with_args(**limits), weight)
    weight = fq.default_fused_per_channel_wt_fake_quant if channels else fq.default_fused_wt_fake_quant
    return QConfig(FusedMovingAvgObsFakeQuantize.with_args(**limits), weight)


def _as_dict(name):
    message = (
        f"`torch.ao.quantization.{name}_dict` is deprecated and will be removed in a future version. "
        f"Please use `torch.ao.quantization.{name}_mapping` instead."
    )
    return deprecated(message, category=FutureWarning)


@_as_dict("get_default_qconfig")
def get_default_qconfig_dict(backend="x86", version=0):
    """The mapping of :func:`get_default_qconfig_mapping` as a dictionary."""
    from .qconfig_mapping import get_default_qconfig_mapping

    return get_default_qconfig_mapping(backend, version).to_dict()


@_as_dict("get_default_qat_qconfig")
def get_default_qat_qconfig_dict(backend="x86", version=1):
    """The mapping of :func:`get_default_qat_qconfig_mapping` as a dictionary."""
    from .qconfig_mapping import get_default_qat_qconfig_mapping

    return get_default_qat_qconfig_mapping(backend, version).to_dict()


def _assert_valid_qconfig(qconfig, mod):
    if qconfig is None or qconfig.weight is None:
        return
    if isinstance(mod, (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)):
        if isinstance(qconfig.weight(), ob.PerChannelMinMaxObserver):
            raise AssertionError(
                "Per channel weight observer is not supported yet for ConvTranspose{n}d."
            )


def _add_module_to_qconfig_obs_ctr(qconfig, module):
    """The configuration with observers that are made on the module's device."""
    if module is None or qconfig is None or qconfig._fields != ("activation", "weight"):
        return qconfig

    def on_device_of_module():
        if not isinstance(module, nn.Module):
            raise AssertionError("module must be an instance of torch.nn.Module")
        devices = {p.device for p in module.parameters()} | {p.device for p in module.buffers()}
        return {"device": next(iter(devices))} if devices else None

    def placed(constructor):
        # Constructors that take no factory_kwargs stay as they are.
        try:
            constructor.with_args(factory_kwargs=None)()
            return constructor.with_callable_args(factory_kwargs=on_device_of_module)
        except (AttributeError, TypeError):
            return constructor

    return QConfig(placed(qconfig.activation), placed(qconfig.weight))


def _obs_or_fq_ctr_equals(obs_or_fq1, obs_or_fq2):
    if isinstance(obs_or_fq1, _PartialWrapper) and isinstance(obs_or_fq2, _PartialWrapper):
        return _partial_wrapper_equals(obs_or_fq1, obs_or_fq2)
    return obs_or_fq1 == obs_or_fq2


def _partial_wrapper_equals(obs_or_fq1, obs_or_fq2):
    first, second = dict(obs_or_fq1.p.keywords), dict(obs_or_fq2.p.keywords)
    if "observer" in first and "observer" in second:
        if not _obs_or_fq_ctr_equals(first.pop("observer"), second.pop("observer")):
            return False
    same = obs_or_fq1.p.func == obs_or_fq2.p.func and obs_or_fq1.p.args == obs_or_fq2.p.args
    return same and first == second


def qconfig_equals(q1, q2):
    """Whether two configurations make the same observers."""
    if q1 is None or q2 is None:
        return q1 == q2
    try:
        return _obs_or_fq_ctr_equals(q1.activation, q2.activation) and _obs_or_fq_ctr_equals(
            q1.weight, q2.weight
        )
    except AttributeError:
        return q1 == q2


def _activation_is_memoryless(qconfig):
    """Whether the observer of activations forgets all inputs but the last."""
    made = qconfig.activation()
    if isinstance(made, FakeQuantizeBase) and hasattr(made, "activation_post_process"):
        made = made.activation_post_process
    return getattr(made, "averaging_constant", None) == 1


def _is_reuse_input_qconfig(qconfig):
    return (
        qconfig is not None
        and isinstance(qconfig.activation(), ReuseInputObserver)
        and isinstance(qconfig.weight(), NoopObserver)
    )
