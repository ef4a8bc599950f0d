"""Which functions ``__torch_function__`` can take over, with their names and parameters."""

from __future__ import annotations

import functools
import importlib
import inspect
import types

import corten
from corten import Tensor, _overriding

_IGNORED = """
typename is_tensor is_storage set_default_tensor_type set_default_device get_default_device set_rng_state
get_rng_state manual_seed initial_seed seed thread_safe_generator save load set_printoptions fork
get_default_dtype get_num_interop_threads get_num_threads init_num_threads is_anomaly_enabled
is_anomaly_check_nan_enabled is_grad_enabled set_anomaly_enabled set_flush_denormal
set_num_interop_threads set_num_threads wait as_tensor from_numpy from_dlpack tensor device dtype finfo
iinfo memory_format layout qscheme set_grad_enabled no_grad enable_grad inference_mode
is_inference_mode_enabled arange as_strided bartlett_window blackman_window broadcast_shapes can_cast
compile cond cudnn_is_acceptable empty empty_permuted empty_strided eye from_file full fill
hamming_window hann_window kaiser_window linspace logspace normal ones promote_types rand rand_like randn
randn_like randint randint_like randperm range result_type scalar_tensor sparse_coo_tensor
sparse_compressed_tensor sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor
sym_constrain_range sym_constrain_range_for_size sym_fresh_size tril_indices triu_indices vander zeros
set_autocast_enabled is_autocast_enabled set_autocast_dtype get_autocast_dtype clear_autocast_cache
set_autocast_cpu_enabled is_autocast_cpu_enabled get_autocast_cpu_dtype set_autocast_cpu_dtype
set_autocast_xla_enabled is_autocast_xla_enabled get_autocast_xla_dtype set_autocast_xla_dtype
set_autocast_ipu_enabled is_autocast_ipu_enabled get_autocast_ipu_dtype set_autocast_ipu_dtype
get_autocast_gpu_dtype set_autocast_gpu_dtype autocast_increment_nesting autocast_decrement_nesting
is_autocast_cache_enabled set_autocast_cache_enabled is_vulkan_available
are_deterministic_algorithms_enabled are_negative_steps_enabled set_negative_steps use_deterministic_algorithms
is_deterministic_algorithms_warn_only_enabled set_deterministic_debug_mode get_device_module
get_deterministic_debug_mode set_float32_matmul_precision get_float32_matmul_precision
is_warn_always_enabled set_warn_always vmap frombuffer asarray fft.fftfreq fft.rfftfreq install_as_torch
compiled_with_cxx11_abi swap_default_allocator set_default_dtype
nn.functional.assert_int_or_pair nn.functional.upsample nn.functional.upsample_bilinear
nn.functional.upsample_nearest nn.functional.has_torch_function
nn.functional.has_torch_function_unary nn.functional.has_torch_function_variadic
nn.functional.handle_torch_function nn.functional.boolean_dispatch nn.functional.grouped_mm
nn.functional.scaled_mm nn.functional.sigmoid nn.functional.hardsigmoid nn.functional.tanh
nn.functional.hardswish nn.init.calculate_gain nn.init.uniform nn.init.normal nn.init.constant nn.init.eye
nn.init.dirac nn.init.xavier_uniform nn.init.xavier_normal nn.init.kaiming_uniform
nn.init.kaiming_normal nn.init.orthogonal nn.init.sparse
""".split()

_IGNORED_METHODS = """
__delitem__ __dir__ __getattribute__ __init__ __iter__ __init_subclass__ __delattr__ __setattr__
__torch_function__ __torch_dispatch__ __new__ __class__ __subclasshook__ __hash__ cholesky as_subclass eig
lstsq qr reinforce new new_tensor new_empty new_empty_strided new_zeros new_ones new_full _make_subclass
solve symeig stride unflatten to_sparse_coo to_sparse_csr to_sparse_csc to_sparse_bsr to_sparse_bsc
_to_sparse _typed_storage _make_wrapper_subclass _make_shell _conj _neg_view _is_zerotensor
to_padded_tensor _use_count __array_priority__ _has_symbolic_sizes_strides _register_hook
_register_post_accumulate_grad_hook _backward __weakref__ __dict__
""".split()


#: Names of the functions that functions are overridden with.
_HELPERS = frozenset(vars(_overriding)) - {"functools"}


def ignored():
    """Functions that cannot be overridden."""
    found = set()
    for name in _IGNORED:
        try:
            found.add(functools.reduce(getattr, name.split("."), corten))
        except AttributeError:
            continue
    methods = (getattr(Tensor, name, None) for name in _IGNORED_METHODS)
    found.update(method for method in methods if callable(method))
    return found


def _names_of_package():
    """The names of the package, without its submodules, which would be loaded."""
    return sorted({*vars(corten), *corten._LAZY, *corten._FUNCTIONAL} - corten._SUBMODULES)


def _spaces():
    for path in ("", "functional", "nn.functional", "nn.init", "linalg", "fft", "foreach", "special"):
        space = importlib.import_module(f"corten.{path}" if path else "corten")
        names = _names_of_package() if not path else dir(space)
        yield "torch." + path if path else "torch", space, names
    yield "torch.Tensor", Tensor, dir(Tensor)


def _is_public(name, space):
    if space is Tensor:
        return True
    if name in _HELPERS:
        return False
    return name[:1].islower() and (not name.endswith("_") or space.__name__.endswith(".foreach"))


@functools.cache
def overridable():
    """The functions by namespace, and the names of all."""
    skipped, found, names = ignored(), {}, {}
    for prefix, space, members in _spaces():
        for name in members:
            value = getattr(space, name, None)
            if name == "unique_dim" or isinstance(value, types.ModuleType):
                continue
            if space is Tensor and (name in _IGNORED_METHODS or getattr(object, name, None) == value):
                continue
            if not callable(value):
                if space is Tensor and hasattr(value, "__get__") and hasattr(value, "__set__"):
                    names[value.__get__] = f"{prefix}.{name}.__get__"
                    names[value.__set__] = f"{prefix}.{name}.__set__"
                    found.setdefault(value, []).append(value.__get__)
                continue
            if getattr(value, "__hash__", None) is None:
                continue
            names[value] = f"{prefix}.{name}"
            if _is_public(name, space) and value not in skipped and not isinstance(value, type):
                found.setdefault(space, []).append(value)
    return found, names


def dummy(function):
    """A function with the parameters of another, which returns −1."""

    def override(*args, **kwargs):
        return -1

    try:
        override.__signature__ = inspect.signature(function)
    except (ValueError, TypeError):
        override.__signature__ = _signature_of_operator(function)
    return override


def _needed(schema):
    """The parameters by position of a schema that have no default."""
    inside = schema[schema.index("(") + 1:schema.rindex("->")].rstrip().removesuffix(")")
    names = []
    for part in inside.split(", "):
        if part == "*":
            break
        if " " in part and "=" not in part:
            names.append(part.rpartition(" ")[2])
    return names


def _signature_of_operator(function):
    """The parameters that an operator needs: those of the overload with the fewest."""
    name = getattr(function, "__name__", "")
    packet = getattr(corten.ops.aten, name, None) if name and not name.startswith("__") else None
    overloads = [] if packet is None else [one for one in packet.overloads() if not one.endswith("out")]
    # Overloads that PyTorch alone has are without a schema.
    schemas = [getattr(getattr(packet, one), "_schema", None) for one in overloads]
    needed = min((_needed(str(one)) for one in schemas if one), key=len, default=["input"])
    kinds = inspect.Parameter
    return inspect.Signature([
        *(kinds("input" if one == "self" else one, kinds.POSITIONAL_OR_KEYWORD) for one in needed),
        kinds("kwargs", kinds.VAR_KEYWORD),
    ])
