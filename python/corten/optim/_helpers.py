"""What optimizers outside of the package take from PyTorch's."""

from __future__ import annotations

import functools
from typing import Any, Iterable, TypeAlias, Union

import corten

NAMES = frozenset((
    "ParamsT", "_capturable_doc", "_default_to_fused_or_foreach", "_device_dtype_check_for_fused",
    "_differentiable_doc", "_disable_dynamo_if_unsupported", "_dispatch_sqrt", "_foreach_doc",
    "_fused_doc", "_get_capturable_supported_devices", "_get_foreach_kernels_supported_devices",
    "_get_fused_kernels_supported_devices", "_get_scalar_dtype", "_get_value", "_maximize_doc",
    "_params_doc", "_stack_if_compiling", "_to_scalar", "_use_grad_for_differentiable",
    "_view_as_real",
))

ParamsT: TypeAlias = Union[
    Iterable["corten.Tensor"], Iterable[dict[str, Any]], Iterable[tuple[str, "corten.Tensor"]]
]

_params_doc = "params (iterable): parameters, pairs of a name and a parameter, or groups of them"
_foreach_doc = "foreach (bool, optional): whether lists of tensors are updated at once"
_fused_doc = "fused (bool, optional): whether an update is one kernel"
_capturable_doc = "capturable (bool, optional): whether a step can be recorded in a graph of a GPU"
_differentiable_doc = "differentiable (bool, optional): whether gradients flow through a step"
_maximize_doc = "maximize (bool, optional): whether the objective is to grow"


def _use_grad_for_differentiable(func):
    """Runs a step with gradients recorded where ``defaults["differentiable"]`` says so."""

    @functools.wraps(func)
    def step(self, *args, **kwargs):
        with corten.set_grad_enabled(self.defaults["differentiable"]):
            return func(self, *args, **kwargs)

    return step


def _disable_dynamo_if_unsupported(single_tensor_fn=None):
    """A decorator of steps that are not compiled: the function itself."""
    return lambda func: func


def _get_foreach_kernels_supported_devices():
    return ["cuda", "xpu", "mtia", "privateuseone"]


def _get_fused_kernels_supported_devices():
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone"]


def _get_capturable_supported_devices(supports_xla=True):
    devices = ["cuda", "xpu", "hpu", "privateuseone"]
    return [*devices, "xla"] if supports_xla else devices


def _default_to_fused_or_foreach(params, differentiable, use_fused=False):
    """Whether parameters are updated in one kernel, and whether in lists, where a program does not say."""
    if differentiable:
        return False, False

    def all_on(devices, floating):
        return all(
            p is None or (
                type(p) in (corten.Tensor, corten.nn.Parameter) and p.device.type in devices
                and (not floating or p.is_floating_point())
            ) for p in params
        )

    fused = use_fused and all_on(_get_fused_kernels_supported_devices(), True)
    return fused, not fused and all_on(_get_foreach_kernels_supported_devices(), False)


def _device_dtype_check_for_fused(p, cuda_unsupported=False):
    devices = _get_fused_kernels_supported_devices()
    if cuda_unsupported:
        devices.remove("cuda")
    if not (p.device.type in devices and corten.is_floating_point(p)):
        raise RuntimeError(
            "`fused=True` requires all the params to be floating point Tensors of supported devices: "
            f"{devices} but {p.dtype} and {p.device.type}"
        )


def _get_value(x):
    """The number that a tensor holds."""
    return x.item() if isinstance(x, corten.Tensor) else x


def _to_scalar(x):
    """A tensor without dimensions in place of one of one element."""
    return x.squeeze() if isinstance(x, corten.Tensor) and x.dim() != 0 else x


def _stack_if_compiling(x):
    """The numbers themselves, as nothing is compiled."""
    return x


def _dispatch_sqrt(x):
    return x.sqrt() if isinstance(x, corten.Tensor) else x**0.5


def _get_scalar_dtype(is_fused=None):
    """The dtype of a count of steps."""
    if is_fused:
        return corten.float32
    return corten.float64 if corten.get_default_dtype() == corten.float64 else corten.float32


def _view_as_real(params, *state_and_grads):
    """Puts views of real numbers in place of complex tensors."""
    for i, p in enumerate(params):
        if corten.is_complex(p):
            params[i] = corten.view_as_real(p)
            for states in state_and_grads:
                states[i] = corten.view_as_real(states[i])


def group_tensors(tensorlistlist, with_indices):
    """Lists of tensors that belong together, apart for each device and dtype of the first list."""
    groups = {}
    for i, row in enumerate(zip(*tensorlistlist)):
        lists, places = groups.setdefault(
            (row[0].device, row[0].dtype), ([[] for _ in tensorlistlist], [])
        )
        for tensors, tensor in zip(lists, row):
            tensors.append(tensor)
        places.append(i)
    return {
        key: (lists, places if with_indices else []) for key, (lists, places) in groups.items()
    }
