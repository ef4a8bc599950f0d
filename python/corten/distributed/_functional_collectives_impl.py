"""The operators ``_c10d_functional::*``: collectives that give new tensors and leave their inputs alone.

Note [Works of results]: an operator starts a collective and gives its result at once, which must not be read
before :func:`wait_tensor`. Which works a tensor waits for stands in a table by its storage. The table holds
the tensor, so that its memory cannot become another's; entries whose works are done are dropped whenever
one is added.
"""

from __future__ import annotations

import threading

import corten
from corten import library
from corten._C import _distributed_c10d as native
from corten._C._distributed_c10d import ReduceOp
from corten.distributed._c10d.world import _resolve_process_group

_SCHEMAS = (
    "all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor",
    "all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)",
    "all_reduce_coalesced(Tensor[] inputs, str reduce_op, str group_name) -> Tensor[]",
    "all_reduce_coalesced_(Tensor(a!)[] inputs, str reduce_op, str group_name) -> ()",
    "all_gather_into_tensor(Tensor input, int group_size, str group_name) -> Tensor",
    "all_gather_into_tensor_out(Tensor input, int group_size, str group_name, *, Tensor(a!) out) -> Tensor(a!)",
    "all_gather_into_tensor_coalesced(Tensor[] inputs, int group_size, str group_name) -> Tensor[]",
    "reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str group_name) -> Tensor",
    "reduce_scatter_tensor_out(Tensor input, str reduce_op, int group_size, str group_name, *, Tensor(a!) out) "
    "-> Tensor(a!)",
    "reduce_scatter_tensor_coalesced(Tensor[] inputs, str reduce_op, int group_size, str group_name) -> Tensor[]",
    "all_to_all_single(Tensor input, SymInt[] output_split_sizes, SymInt[] input_split_sizes, str group_name) "
    "-> Tensor",
    "broadcast(Tensor input, int src, str group_name) -> Tensor",
    "broadcast_(Tensor(a!) input, int src, str group_name) -> Tensor(a!)",
    "wait_tensor(Tensor tensor) -> Tensor",
)

_pending = {}
_lock = threading.Lock()


def _key(tensor):
    return tensor.untyped_storage().data_ptr()


def _register(tensor, work):
    """Has a tensor wait for a work."""
    if work is None:
        return
    if tensor.numel() == 0:
        work.wait()
        return
    with _lock:
        for key in [key for key, entry in _pending.items() if _is_done(*entry)]:
            del _pending[key]
        _pending.setdefault(_key(tensor), (tensor, []))[1].append(work)


def _is_done(tensor, works):
    # The stream of a device has to wait for works that are done, too.
    return tensor.device.type == "cpu" and all(each.is_completed() and each.is_success() for each in works)


def complete(tensor):
    """Waits until a tensor may be read."""
    if _pending:
        with _lock:
            _, works = _pending.pop(_key(tensor), (None, ()))
        for work in works:
            work.wait()
    # What others registered.
    if native._get_work_registry_size():
        for work in native._take_works(tensor):
            work.wait()


def pending_count():
    """How many tensors nobody has waited for."""
    return len(_pending)


def _op(name):
    try:
        return getattr(ReduceOp, name.upper())
    except AttributeError:
        raise ValueError(f"Unknown reduce operation: {name}") from None


def _real(tensor):
    return corten.view_as_real(tensor) if tensor.is_complex() else tensor


def _dense(tensor):
    return tensor.detach().contiguous()


def _started(kind, **values):
    options = kind()
    options.asyncOp = True
    for name, value in values.items():
        setattr(options, name, value)
    return options


def _check_complex(name, tensors, reduce_op):
    if any(tensor.is_complex() for tensor in tensors) and reduce_op not in ("sum", "avg"):
        raise ValueError(f"{name} does not support {reduce_op} on complex tensors")


def _all_reduce_(tensor, reduce_op, group_name):
    _check_complex("all_reduce", [tensor], reduce_op)
    options = _started(native.AllreduceOptions, reduceOp=_op(reduce_op))
    _register(tensor, _resolve_process_group(group_name).allreduce([_real(tensor)], options))
    return tensor


def _all_reduce(tensor, reduce_op, group_name):
    return _all_reduce_(tensor.detach().clone(memory_format=corten.contiguous_format), reduce_op, group_name)


def _all_reduce_coalesced_(tensors, reduce_op, group_name):
    _check_complex("all_reduce", tensors, reduce_op)
    options = _started(native.AllreduceCoalescedOptions, reduceOp=_op(reduce_op))
    work = _resolve_process_group(group_name).allreduce_coalesced([_real(each) for each in tensors], options)
    for each in tensors:
        _register(each, work)


def _all_reduce_coalesced(tensors, reduce_op, group_name):
    copies = [each.detach().clone(memory_format=corten.contiguous_format) for each in tensors]
    _all_reduce_coalesced_(copies, reduce_op, group_name)
    return copies


def _longer(tensor, group_size):
    """An empty tensor for what the ranks of a group have, one after the other."""
    if tensor.dim() == 0:
        return tensor.new_empty((group_size,))
    return tensor.new_empty((tensor.shape[0] * group_size, *tensor.shape[1:]))


def _shorter(tensor, group_size):
    if tensor.dim() == 0 or tensor.shape[0] % group_size:
        raise ValueError(
            f"reduce_scatter: dimension 0 of the input, of the shape {tuple(tensor.shape)}, is not divisible by "
            f"the group's size {group_size}"
        )
    return tensor.new_empty((tensor.shape[0] // group_size, *tensor.shape[1:]))


def _all_gather_into_tensor_out(tensor, group_size, group_name, *, out):
    work = _resolve_process_group(group_name)._allgather_base(
        _real(out), _real(_dense(tensor)), _started(native.AllgatherOptions)
    )
    _register(out, work)
    return out


def _all_gather_into_tensor(tensor, group_size, group_name):
    return _all_gather_into_tensor_out(tensor, group_size, group_name, out=_longer(tensor.detach(), group_size))


def _all_gather_into_tensor_coalesced(tensors, group_size, group_name):
    outs = [_longer(each.detach(), group_size) for each in tensors]
    work = _resolve_process_group(group_name).allgather_into_tensor_coalesced(
        [_real(each) for each in outs], [_real(_dense(each)) for each in tensors], _started(native.AllgatherOptions)
    )
    for each in outs:
        _register(each, work)
    return outs


def _reduce_scatter_tensor_out(tensor, reduce_op, group_size, group_name, *, out):
    _check_complex("reduce_scatter_tensor", [tensor], reduce_op)
    options = _started(native.ReduceScatterOptions, reduceOp=_op(reduce_op))
    _register(out, _resolve_process_group(group_name)._reduce_scatter_base(_real(out), _real(_dense(tensor)), options))
    return out


def _reduce_scatter_tensor(tensor, reduce_op, group_size, group_name):
    out = _shorter(tensor.detach(), group_size)
    return _reduce_scatter_tensor_out(tensor, reduce_op, group_size, group_name, out=out)


def _reduce_scatter_tensor_coalesced(tensors, reduce_op, group_size, group_name):
    _check_complex("reduce_scatter_tensor", tensors, reduce_op)
    outs = [_shorter(each.detach(), group_size) for each in tensors]
    work = _resolve_process_group(group_name).reduce_scatter_tensor_coalesced(
        [_real(each) for each in outs], [_real(_dense(each)) for each in tensors],
        _started(native.ReduceScatterOptions, reduceOp=_op(reduce_op)),
    )
    for each in outs:
        _register(each, work)
    return outs


def _of_splits(tensor, output_split_sizes):
    return tensor.new_empty((sum(output_split_sizes), *tensor.shape[1:]))


def _all_to_all_single(tensor, output_split_sizes, input_split_sizes, group_name):
    out = _of_splits(tensor.detach(), output_split_sizes)
    work = _resolve_process_group(group_name).alltoall_base(
        _real(out), _real(_dense(tensor)), list(output_split_sizes), list(input_split_sizes),
        _started(native.AllToAllOptions),
    )
    _register(out, work)
    return out


def _broadcast_(tensor, src, group_name):
    options = _started(native.BroadcastOptions, rootRank=src, rootTensor=0)
    _register(tensor, _resolve_process_group(group_name).broadcast([_real(tensor)], options))
    return tensor


def _broadcast(tensor, src, group_name):
    return _broadcast_(tensor.detach().clone(memory_format=corten.contiguous_format), src, group_name)


def _wait_tensor(tensor):
    complete(tensor)
    return tensor.detach()


_KERNELS = {
    "all_reduce": _all_reduce, "all_reduce_": _all_reduce_, "all_reduce_coalesced": _all_reduce_coalesced,
    "all_reduce_coalesced_": _all_reduce_coalesced_, "all_gather_into_tensor": _all_gather_into_tensor,
    "all_gather_into_tensor_out": _all_gather_into_tensor_out,
    "all_gather_into_tensor_coalesced": _all_gather_into_tensor_coalesced,
    "reduce_scatter_tensor": _reduce_scatter_tensor, "reduce_scatter_tensor_out": _reduce_scatter_tensor_out,
    "reduce_scatter_tensor_coalesced": _reduce_scatter_tensor_coalesced,
    "all_to_all_single": _all_to_all_single, "broadcast": _broadcast, "broadcast_": _broadcast_,
    "wait_tensor": _wait_tensor,
}


def _like(tensor, *_):
    return corten.empty_like(tensor, memory_format=corten.contiguous_format)


def _itself(tensor, *_):
    return tensor


#: Shapes of results, for tensors without data.
_FAKES = {
    "all_reduce": _like, "broadcast": _like, "wait_tensor": _like, "all_reduce_": _itself, "broadcast_": _itself,
    "all_reduce_coalesced": lambda tensors, *_: [_like(each) for each in tensors],
    "all_reduce_coalesced_": lambda tensors, *_: None,
    "all_gather_into_tensor": lambda tensor, size, _: _longer(tensor, size),
    "all_gather_into_tensor_out": lambda tensor, size, _, *, out: out,
    "all_gather_into_tensor_coalesced": lambda tensors, size, _: [_longer(each, size) for each in tensors],
    "reduce_scatter_tensor": lambda tensor, op, size, _: _shorter(tensor, size),
    "reduce_scatter_tensor_out": lambda tensor, op, size, _, *, out: out,
    "reduce_scatter_tensor_coalesced": lambda tensors, op, size, _: [_shorter(each, size) for each in tensors],
    "all_to_all_single": lambda tensor, outputs, inputs, _: _of_splits(tensor, outputs),
}


def _keep(*names):
    def setup(ctx, inputs, output):
        for name, value in zip(names, inputs, strict=True):
            if name != "input":
                setattr(ctx, name, value)

    return setup


def _setup_all_reduce(ctx, inputs, output):
    tensor, ctx.reduce_op, ctx.group_name = inputs
    if ctx.reduce_op in ("min", "max"):
        complete(output)
        ctx.save_for_backward(tensor, output)


def _ready(tensor):
    complete(tensor)
    return tensor


def _all_reduce_backward(ctx, grad):
    if ctx.reduce_op not in ("sum", "avg", "min", "max"):
        raise RuntimeError(
            "all_reduce backward only supports `sum`, `premul_sum`, `avg`, `max`, `min` reductions, got "
            f"'{ctx.reduce_op}'"
        )
    of_extreme = ctx.reduce_op in ("min", "max")
    found = _ready(_all_reduce(grad, "sum" if of_extreme else ctx.reduce_op, ctx.group_name))
    if of_extreme:
        # Ranks that share the extreme value share the gradient.
        value, extreme = ctx.saved_tensors
        mask = (value == extreme) | (value.isnan() & extreme.isnan())
        count = _ready(_all_reduce(mask.to(corten.float32), "sum", ctx.group_name))
        found = corten.where(mask, (found / count).to(found.dtype), 0)
    return found, None, None


def _all_gather_backward(ctx, grad):
    return _ready(_reduce_scatter_tensor(grad, "sum", ctx.group_size, ctx.group_name)), None, None


def _reduce_scatter_backward(ctx, grad):
    if ctx.reduce_op != "sum":
        raise RuntimeError(
            f"reduce_scatter_tensor backward only supports 'sum' reduction, got '{ctx.reduce_op}'"
        )
    return _ready(_all_gather_into_tensor(grad, ctx.group_size, ctx.group_name)), None, None, None


def _all_to_all_backward(ctx, grad):
    found = _all_to_all_single(grad, ctx.input_split_sizes, ctx.output_split_sizes, ctx.group_name)
    return _ready(found), None, None, None


_DERIVATIVES = {
    "all_reduce": (_all_reduce_backward, _setup_all_reduce),
    "all_gather_into_tensor": (_all_gather_backward, _keep("input", "group_size", "group_name")),
    "reduce_scatter_tensor": (_reduce_scatter_backward, _keep("input", "reduce_op", "group_size", "group_name")),
    "all_to_all_single": (
        _all_to_all_backward, _keep("input", "output_split_sizes", "input_split_sizes", "group_name")
    ),
    "wait_tensor": (lambda ctx, grad: grad, None),
}

lib = library.Library("_c10d_functional", "DEF")
lib_autograd = library.Library("_c10d_functional_autograd", "DEF")


def _define():
    for schema in _SCHEMAS:
        name = schema.partition("(")[0]
        homes = [lib]
        if name in ("all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single"):
            homes.append(lib_autograd)
        for home in homes:
            home.define(schema)
            home.impl(name, _KERNELS[name], "CompositeExplicitAutograd")
            library.register_fake(f"{home.ns}::{name}", _FAKES[name])
            if name in _DERIVATIVES:
                backward, setup = _DERIVATIVES[name]
                library.register_autograd(f"{home.ns}::{name}", backward, setup_context=setup)


_define()
