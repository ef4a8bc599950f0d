"""Tensors, gradients and neural networks, with PyTorch's interface.

Only the native module and the methods of ``Tensor`` are loaded with the package; submodules and
the less common functions follow when they are first used.
"""

from __future__ import annotations

import importlib as _importlib
import sys as _sys

from corten import _absent

_absent.install()

from corten import _C  # noqa: E402

#: Functions of ``corten.functional``: operators with more freedom in their arguments.
_FUNCTIONAL = frozenset((
    "align_tensors", "broadcast_shapes", "combinations", "get_device", "is_complex", "is_conj", "is_floating_point",
    "is_inference", "is_neg", "is_same_size", "is_signed", "lu", "unique", "unravel_index",
    *_C._ops_tagged("python_function"),
))


def _bind():
    """Fills the namespace: what is written by hand goes before the registry's functions."""
    names = globals()
    for space in (vars(_C), vars(_C._functions)):
        for name, value in space.items():
            if not name.startswith("_") and name not in _FUNCTIONAL and name != "unique_dim":
                names.setdefault(name, value)


_bind()
__version__ = _C.__version__
if _C._is_debug:
    from corten._doctor import tell_of_debug_build as _tell_of_debug_build

    _tell_of_debug_build()
_mkldnn = _C._mkldnn
_segment_reduce = _C._functions.segment_reduce


#: Parts of the native module, and where their names are.
_PARTS = {"_functorch": "corten._functorch._native", "_distributed_c10d": "corten._distributed_c10d"}


class _NativePart(type(_C)):
    """A part of the native module whose names are loaded when they are first asked for."""

    def __getattr__(self, name):
        native = _importlib.import_module(_PARTS[self.__name__.rpartition(".")[2]])
        if (name == "__all__" or not name.startswith("__")) and hasattr(native, name):
            return getattr(native, name)
        from corten._absent import value_of

        return value_of(self, name)


def _tracing_state():
    """The graph that is being recorded, with where in the model; nothing where none is."""
    graphs = _sys.modules.get("corten.jit._graphs")
    return None if graphs is None else graphs.tracing_state()


_C._get_tracing_state = _tracing_state
for _part in _PARTS:
    _sys.modules[f"corten._C.{_part}"] = _NativePart(f"corten._C.{_part}")
    setattr(_C, _part, _sys.modules[f"corten._C.{_part}"])
# What pickles of PyTorch's functions name.
_C._VariableFunctionsClass = _C._VariableFunctions = _C._functions

from corten import _tensor as _tensor  # noqa: E402
from corten import _tensor_methods as _tensor_methods  # noqa: E402
from corten._constants import *  # noqa: E402, F403
from corten._tensor import typename  # noqa: E402, F401


def _compressed_with_dims(*args, **kwargs):
    """The kernel of ``_sparse_compressed_tensor_with_dims``, loaded when it is first called."""
    from corten.sparse._factories import compressed_with_dims

    return compressed_with_dims(*args, **kwargs)


_C._library_impl(
    "aten::_sparse_compressed_tensor_with_dims", "CompositeImplicitAutograd", _compressed_with_dims
)

def _sparse_factory(name):
    """The kernel of a factory for sparse layouts, loaded when it is first called."""

    def kernel(size, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
        from corten.sparse._factories import without_entries

        return without_entries(name, size, dtype, layout, device)

    return kernel


for _key in ("SparseCsrCPU", "SparseCsrMeta"):
    _C._library_impl("aten::empty.memory_format", _key, _sparse_factory("empty"))
    _C._library_impl("aten::zeros", _key, _sparse_factory("zeros"))

_SUBMODULES = frozenset((
    "__config__", "__future__", "_VF", "_dynamo", "_export", "_higher_order_ops", "_ops", "export", "_guards", "_inductor", "_jit_internal", "_subclasses", "_utils", "accelerator", "amp", "ao", "array_api",
    "autograd", "backends", "compiler", "cpu", "cuda", "distributed", "distributions", "fft", "foreach", "func",
    "functional", "fx", "futures", "gguf", "hub", "jit", "library", "linalg", "masked", "mps", "mtia", "multiprocessing", "nested", "nn", "ops",
    "onnx", "optim", "overrides", "profiler", "quasirandom", "random", "return_types", "safetensors", "serialization",
    "signal", "sparse", "special", "storage", "testing", "torch_version", "types", "utils", "version",
    "xpu",
))

#: Where names live that are loaded when they are first asked for.
_LAZY = {
    "save": "serialization", "load": "serialization", "UntypedStorage": "storage",
    "TypedStorage": "storage", "is_storage": "storage", "return_types": "return_types",
    "vmap": "func", "fork_rng": "random", "thread_safe_generator": "random",
    "set_default_device": "utils._device", "get_default_device": "utils._device",
    "compile": "compiler._compile", "cond": "_higher_order_ops.cond", "seed": "random",
    "get_device_module": "utils._device", "_register_device_module": "utils._device", "set_warn_always": "_settings",
    "is_warn_always_enabled": "_settings", "use_deterministic_algorithms": "_settings",
    "are_deterministic_algorithms_enabled": "_settings",
    "is_deterministic_algorithms_warn_only_enabled": "_settings",
    "set_deterministic_debug_mode": "_settings", "get_deterministic_debug_mode": "_settings",
    "set_float32_matmul_precision": "_settings", "get_float32_matmul_precision": "_settings",
    "set_flush_denormal": "_settings", "set_default_tensor_type": "_settings",
    **dict.fromkeys(("block_bytes", "block_tensor", "quantize_blocks"), "_blocks"),
    "quantize_weights": "_weight_quantization",
    "ScriptObject": "_quantized.packed", "quantized_gru": "_quantized.recurrent",
    "quantized_lstm": "_quantized.recurrent",
    "svd_lowrank": "_lowrank", "pca_lowrank": "_lowrank",
    "compiled_with_cxx11_abi": "_settings", "install_as_torch": "_as_torch", "set_negative_steps": "_settings",
    "are_negative_steps_enabled": "_settings",
    **dict.fromkeys((
        "DisableTorchFunction",
        "DisableTorchFunctionSubclass", "AcceleratorError", "FatalError", "cudnn_is_acceptable",
        "from_file", "has_lapack", "has_mkl", "has_openmp", "has_spectral", "init_num_threads",
        "_assert", "_cast_Byte", "_cast_Char", "_cast_Double", "_cast_Float", "_cast_Half", "_cast_Int",
        "_cast_Long", "_cast_Short", "_shape_as_tensor", "while_loop", "is_distributed", "is_vulkan_available", "norm_except_dim", "range",
    ), "_module_functions"),
    **dict.fromkeys((
        "sym_constrain_range", "sym_constrain_range_for_size", "sym_float", "sym_fresh_size", "sym_int", "sym_ite",
        "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum",
    ), "_symbolic_functions"),
    **dict.fromkeys(("SymBool", "SymFloat", "SymInt"), "_symbolic_numbers"),
    **dict.fromkeys((
        "gru", "gru_cell", "lstm", "lstm_cell", "rnn_relu", "rnn_relu_cell", "rnn_tanh",
        "rnn_tanh_cell",
    ), "_recurrent"),
    **{f"sparse_{kind}_tensor": "sparse" for kind in ("bsc", "bsr", "compressed", "coo", "csc", "csr")},
    **dict.fromkeys((
        "_check", "_check_index", "_check_is_size", "_check_not_implemented", "_check_tensor_all",
        "_check_tensor_all_with", "_check_type", "_check_value", "_check_with",
    ), "_checks"),
    "classes": "_classes", "_storage_classes": "_legacy", "_tensor_classes": "_legacy",
    "Tag": "_tags", "dequantize": "_module_functions", "spmm": "_module_functions", "smm": "_module_functions", "lobpcg": "_lobpcg",
    "conv_tbc": "nn.functional.grouped",
    **dict.fromkeys((
        "cholesky", "eig", "lstsq", "matrix_rank", "qr", "solve", "symeig",
    ), "_removed"),
    **dict.fromkeys(("dsmm", "hsmm", "hspmm", "saddmm", "sspaddmm"), "sparse._products"),
    **dict.fromkeys((
        "ccol_indices_copy", "col_indices_copy", "crow_indices_copy", "indices_copy", "resize_as_sparse_",
        "row_indices_copy", "values_copy",
    ), "sparse._resize"),
    **dict.fromkeys((
        "_convert_indices_from_coo_to_csr", "_convert_indices_from_csr_to_coo",
        "_validate_sparse_bsc_tensor_args", "_validate_sparse_bsr_tensor_args",
        "_validate_sparse_compressed_tensor_args", "_validate_sparse_csc_tensor_args",
        "_validate_sparse_csr_tensor_args", "_validate_compressed_sparse_indices",
    ), "sparse._compressed_forms"),
    "_sparse_broadcast_to": "sparse._forms",
    "_validate_sparse_coo_tensor_args": "sparse._coordinate",
    **dict.fromkeys((
        "_disable_functionalization", "_enable_functionalization", "_freeze_functional_tensor",
        "_from_functional_tensor", "_functionalize_sync", "_is_functional_tensor", "_mirror_autograd_meta_to",
        "_sync", "_to_functional_tensor",
    ), "_functionalization"),
    "JITException": "_module_functions", "ScriptModule": "jit", "ScriptFunction": "jit", "fork": "jit",
    "wait": "jit", "CompilationUnit": "jit", "Future": "futures", "FileCheck": "testing",
    "autocast": "amp", "GradScaler": "amp", "Stream": "_streams", "Event": "_streams",
    **dict.fromkeys((
        "is_autocast_enabled", "set_autocast_enabled", "get_autocast_dtype", "set_autocast_dtype",
        "get_autocast_cpu_dtype", "set_autocast_cpu_dtype", "get_autocast_gpu_dtype",
        "set_autocast_gpu_dtype", "get_autocast_ipu_dtype", "set_autocast_ipu_dtype",
        "get_autocast_xla_dtype", "set_autocast_xla_dtype", "is_autocast_cpu_enabled",
        "set_autocast_cpu_enabled", "is_autocast_ipu_enabled", "set_autocast_ipu_enabled",
        "is_autocast_xla_enabled", "set_autocast_xla_enabled",
    ), "amp._state"),
}

#: Those of them whose functions say that they are from this module.
_PRIVATE = frozenset(("_blocks", "_checks", "_module_functions", "_recurrent", "_settings", "amp._state"))


def __getattr__(name):
    if name in _SUBMODULES:
        try:
            return _importlib.import_module(f"corten.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"corten.{name}":
                raise
    elif name in _LAZY:
        value = getattr(_importlib.import_module(f"corten.{_LAZY[name]}"), name)
        if _LAZY[name] in _PRIVATE and hasattr(value, "__module__"):
            value.__module__ = __name__
        globals()[name] = value
        return value
    elif name == "Storage":
        return __getattr__(_C._functions.empty(0).type().split(".")[-1].replace("Tensor", "Storage"))
    elif name.endswith("Tensor") or name.endswith("Storage"):
        from corten import _legacy

        if name in _legacy.__all__:
            globals()[name] = value = getattr(_legacy, name)
            return value
    elif name in _FUNCTIONAL:
        from corten import functional

        if name in functional.__all__:
            globals()[name] = value = getattr(functional, name)
            return value
    elif name.startswith("_sym_"):
        from corten import _symbolic_functions

        if hasattr(_symbolic_functions, name):
            return getattr(_symbolic_functions, name)
    elif name.startswith("_") and hasattr(_C._functions, name):
        return getattr(_C._functions, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    from corten import functional

    return sorted({*globals(), *_SUBMODULES, *_LAZY, *_FUNCTIONAL.intersection(functional.__all__)})


_absent.complete_native(_C)
_absent.complete(_sys.modules[__name__])
