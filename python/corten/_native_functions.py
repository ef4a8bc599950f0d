"""Functions of PyTorch's native module that packages call, beside those of the native module here."""

from __future__ import annotations

import corten
from corten import _C
from corten._dispatch_keys import *  # noqa: F403
from corten._dispatch_tables import *  # noqa: F403

#: Settings of compiled code and of fusers, which there are not here: kept, as PyTorch's are without effect on
#: functions that are not compiled.
_settings = {
    "_jit_set_profiling_executor": True, "_jit_set_profiling_mode": True, "_jit_set_num_profiled_runs": 1,
    "_jit_set_bailout_depth": 20, "_jit_set_texpr_reductions_enabled": False, "_jit_set_autocast_mode": True,
}
_switches = {
    "_set_graph_executor_optimize": True, "_set_math_sdp_allow_fp16_bf16_reduction": False,
    "_jit_set_texpr_fuser_enabled": True, "_jit_override_can_fuse_on_gpu": True,
    "_jit_override_can_fuse_on_cpu": False, "_jit_override_can_fuse_on_cpu_legacy": False,
    "_jit_set_nvfuser_enabled": False, "_jit_set_nvfuser_guard_mode": False,
    "_jit_set_inline_everything_mode": False, "_jit_set_te_must_use_llvm_cpu": True,
}
_readers = {
    "_get_graph_executor_optimize": "_set_graph_executor_optimize",
    "_get_math_sdp_allow_fp16_bf16_reduction": "_set_math_sdp_allow_fp16_bf16_reduction",
    "_jit_texpr_fuser_enabled": "_jit_set_texpr_fuser_enabled",
    "_jit_can_fuse_on_gpu": "_jit_override_can_fuse_on_gpu",
    "_jit_can_fuse_on_cpu": "_jit_override_can_fuse_on_cpu",
    "_jit_can_fuse_on_cpu_legacy": "_jit_override_can_fuse_on_cpu_legacy",
}
_has_mps = _has_xpu = _has_mkldnn = False
_has_cuda = "_cuda_init" in vars(_C)


def _setting(name):
    def change(value):
        before, _settings[name] = _settings[name], value
        return before

    change.__doc__ = "Keeps a setting of compiled code and returns the one from before."
    return change


def _switch(name):
    def change(value):
        _switches[name] = value

    change.__doc__ = "Keeps a setting of compiled code."
    return change


def _reader(name):
    return lambda: _switches[_readers[name]]


for _kinds, _make in ((_settings, _setting), (_switches, _switch), (_readers, _reader)):
    for _name in _kinds:
        globals()[_name] = _made = _make(_name)
        _made.__name__ = _made.__qualname__ = _name


def _is_tracing():
    """Whether a graph is being recorded."""
    return _C._get_tracing_state() is not None


def _log_api_usage_once(event):
    """Tells a logger, which there is not, that a part of the library was used."""


def _get_accelerator(check=None):
    """The device that is not the CPU, or the CPU."""
    return corten.accelerator.current_accelerator() or corten.device("cpu")


def _get_default_device():
    """The type of the device that tensors are made on."""
    return corten.get_default_device().type


def _are_functorch_transforms_active():
    """Whether a transform of functions is running."""
    if _C._is_transform_active():
        return True
    # The level of the next batch says whether there are batches.
    level = _C._vmap_increment_nesting(1, "error")
    _C._vmap_decrement_nesting(level)
    return level > 1


def _is_torch_function_mode_enabled():
    """Whether a mode takes functions over."""
    return _C._len_torch_function_stack() > 0


def _is_alias_of(a, b):
    """Whether two tensors are over one storage."""
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata


def _cuda_isInBadFork():
    """Whether this process was forked from one that uses GPUs."""
    return False


def _cuda_getDeviceCount():
    """How many GPUs there are."""
    return 0


def _cuda_clearCublasWorkspaces():
    """Frees what matrix products keep on GPUs: nothing."""


def _is_default_mobile_cpu_allocator_set():
    """Whether memory comes from an allocator for phones."""
    return False


def _len_torch_dispatch_stack():
    """How many modes take operators over."""
    from corten.utils._python_dispatch import _get_current_dispatch_mode_stack

    return len(_get_current_dispatch_mode_stack())


def _parse_to(*args, **kwargs):
    """The device, the dtype, whether not to wait, and the memory format that arguments of ``Tensor.to`` say."""
    names = ("device", "dtype", "non_blocking", "copy", "memory_format")
    if args and isinstance(args[0], corten.Tensor):
        other, *args = args
        return (other.device, other.dtype, *_rest(args, kwargs, names[2:]))
    if args and isinstance(args[0], corten.dtype):
        return (None, args[0], *_rest(args[1:], kwargs, names[2:]))
    if "other" in kwargs:
        other = kwargs.pop("other")
        return (other.device, other.dtype, *_rest(args, kwargs, names[2:]))
    given = {**dict(zip(names, args)), **kwargs}
    if len(args) > len(names) or not given.keys() <= set(names):
        raise TypeError(f"to() received an invalid combination of arguments: {args}, {kwargs}")
    device, dtype = given.get("device"), given.get("dtype")
    if dtype is not None and not isinstance(dtype, corten.dtype):
        raise TypeError(f"to(): argument 'dtype' must be torch.dtype, not {type(dtype).__name__}")
    device = None if device is None else corten.device(device)
    return device, dtype, bool(given.get("non_blocking", False)), given.get("memory_format")


def _rest(args, kwargs, names):
    given = {**dict(zip(names, args)), **kwargs}
    return bool(given.get("non_blocking", False)), given.get("memory_format")
