"""Whether a backend supports what a configuration asks for."""

from __future__ import annotations

import warnings

import corten
from corten.fx import Node

from ..fake_quantize import FakeQuantizeBase, FixedQParamsFakeQuantize
from ..observer import FixedQParamsObserver, ObserverBase, PlaceholderObserver, _is_activation_post_process
from ..qconfig import float16_dynamic_qconfig, float16_static_qconfig, qconfig_equals
from .utils import node_arg_is_bias, node_arg_is_weight

FLOAT = PlaceholderObserver.with_args(dtype=corten.float)

_SUGGESTION = (
    "Please use torch.ao.quantization.get_default_qconfig_mapping or "
    "torch.ao.quantization.get_default_qat_qconfig_mapping. Example:\n"
    '    qconfig_mapping = get_default_qconfig_mapping("fbgemm")\n'
    "    model = prepare_fx(model, qconfig_mapping, example_inputs)"
)


def dtype_and_dynamic(constructor):
    """The dtype of what a constructor makes, and whether its scale is found while a model runs."""
    if not constructor:
        return None, False
    made = constructor()
    return made.dtype, getattr(made, "is_dynamic", False)


def _get_observer_from_activation_post_process(activation_post_process):
    """The observer of a fake quantiser, or the observer itself."""
    if isinstance(activation_post_process, ObserverBase):
        return activation_post_process
    if not isinstance(activation_post_process, FakeQuantizeBase):
        raise AssertionError("activation_post_process must be an ObserverBase or FakeQuantizeBase")
    return activation_post_process.activation_post_process


def _warn(message):
    warnings.warn(message, stacklevel=2)
    return False


def _within_range(observer, limits, qconfig, what):
    low, high = limits.quant_min_lower_bound, limits.quant_max_upper_bound
    if low is None or high is None:
        return True
    least, most = getattr(observer, "quant_min", None), getattr(observer, "quant_max", None)
    if least is None or most is None:
        return _warn(f"QConfig {what} must specify 'quant_min' and 'quant_max', ignoring {qconfig}")
    if least < low or most > high:
        return _warn(
            f"QConfig {what} quantization range must fall within the backend's:\nQConfig range = "
            f"({least}, {most}), BackendConfig range = ({low}, {high}), ignoring {qconfig}"
        )
    return True


def _scale_large_enough(observer, limits, qconfig, what):
    bound = limits.scale_min_lower_bound
    if bound is None:
        return True
    eps = getattr(observer, "eps", None)
    if eps is None:
        return _warn(f"QConfig {what} must specify 'eps', ignoring {qconfig}")
    if eps < bound:
        return _warn(
            f"QConfig {what} eps ({eps}) must be greater than or equal to the backend's min scale value "
            f"({bound}), ignoring {qconfig}"
        )
    return True


def _fixed_as_asked(made, observer, limits, qconfig):
    scale, zero_point = limits.scale_exact_match, limits.zero_point_exact_match
    if scale is None or zero_point is None:
        return True
    if any(qconfig_equals(qconfig, half) for half in (float16_static_qconfig, float16_dynamic_qconfig)):
        return True
    if not isinstance(made, (FixedQParamsObserver, FixedQParamsFakeQuantize)):
        return _warn(
            "QConfig must specify a FixedQParamsObserver or a FixedQParamsFakeQuantize for fixed qparams "
            f"ops, ignoring {qconfig}.\n{_SUGGESTION}"
        )
    if observer.scale != scale or observer.zero_point != zero_point:
        return _warn(
            f"QConfig fixed scale ({observer.scale}) and zero point ({observer.zero_point}) do not match "
            f"the backend's ({scale} and {zero_point}), ignoring {qconfig}.\n{_SUGGESTION}"
        )
    return True


def _qconfig_satisfies_dtype_config_constraints(qconfig, dtype_with_constraints, is_activation=True):
    """Whether the observers of a configuration keep to the limits of a backend; with a warning if not."""
    limits = dtype_with_constraints
    if qconfig is None or limits.dtype is None:
        return True
    constructor = qconfig.activation if is_activation else qconfig.weight
    if constructor is None:
        return True
    made, what = constructor(), "activation" if is_activation else "weight"
    if not _is_activation_post_process(made):
        raise AssertionError("activation_post_process must be an activation post process")
    if made.dtype != limits.dtype:
        return True
    observer = _get_observer_from_activation_post_process(made)
    return (
        _within_range(observer, limits, qconfig, what)
        and _scale_large_enough(observer, limits, qconfig, what)
        and _fixed_as_asked(made, observer, limits, qconfig)
    )


def _input_supported(arg, node, qconfig, config):
    if isinstance(arg, (list, tuple)):
        return all(_input_supported(one, node, qconfig, config) for one in arg)
    if not isinstance(arg, Node):
        return True
    info = node.meta["target_dtype_info"]
    if node_arg_is_weight(node, arg):
        dtype, _dynamic = dtype_and_dynamic(info.get("weight_obs_or_fq_ctr"))
        fits = _qconfig_satisfies_dtype_config_constraints(
            qconfig, config.weight_dtype_with_constraints, is_activation=False
        )
        return config.weight_dtype is None or (dtype == config.weight_dtype and fits)
    if node_arg_is_bias(node, arg):
        dtype, _dynamic = dtype_and_dynamic(info.get("bias_obs_or_fq_ctr"))
        return config.bias_dtype is None or dtype == config.bias_dtype
    dtype, dynamic = dtype_and_dynamic(info.get("input_act_obs_or_fq_ctr"))
    return config.input_dtype is None or (
        config.input_dtype == dtype
        and bool(config.is_dynamic) == bool(dynamic)
        and _qconfig_satisfies_dtype_config_constraints(qconfig, config.input_dtype_with_constraints)
    )


def _output_supported(node, qconfig, config):
    info = node.meta["target_dtype_info"]
    dtype, dynamic = dtype_and_dynamic(info.get("output_act_obs_or_fq_ctr", FLOAT))
    if dynamic:
        dtype = corten.float32
    fits = _qconfig_satisfies_dtype_config_constraints(qconfig, config.output_dtype_with_constraints)
    return config.output_dtype is None or (dtype == config.output_dtype and fits)


def supported(match, root, dtype_configs):
    """Whether one of a pattern's combinations of dtypes is what its nodes are to have."""
    if match.nodes is None or len(match.nodes) < 1:
        raise AssertionError("matched_node_pattern must be non-empty")
    for config in dtype_configs:
        args = [*root.args, *root.kwargs.values()]
        inputs = all(_input_supported(arg, root, match.qconfig, config) for arg in args)
        if inputs and _output_supported(match.nodes[0], match.qconfig, config):
            return True
    return False
