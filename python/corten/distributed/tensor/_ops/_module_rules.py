"""Operators of layers: normalisations, convolutions, pooling, dropout."""

from __future__ import annotations

from corten.distributed.tensor._op_schema import Candidate
from corten.distributed.tensor._sharding_prop import rule
from corten.distributed.tensor.placement_types import Partial, Shard, _Parts

__all__ = []


def _outer(call):
    """How many dimensions in front of the normalised ones there are."""
    return call.spec("input").ndim - len(call["normalized_shape"])


@rule("native_layer_norm", "_fused_rms_norm")
def layer_norm(call, mesh_dim):
    """Parts along the dimensions that are not normalised; weights are replicated."""
    found = [call.replicated()]
    one = call.current("input", mesh_dim)
    if isinstance(one, _Parts) and one.dim < _outer(call):
        found.append(call.candidate(one, input=one))
    return found


@rule("native_layer_norm_backward", "_fused_rms_norm_backward")
def layer_norm_gradient(call, mesh_dim):
    """Parts along the dimensions that are not normalised; the gradients of weights are terms of sums."""
    found = [call.replicated()]
    gradient = "grad_out"
    outer = _outer(call)
    for name in ("input", gradient):
        one = call.current(name, mesh_dim)
        if not isinstance(one, _Parts) or one.dim >= outer:
            continue
        given = {"input": one, gradient: one}
        given |= {state: one for state in ("mean", "rstd") if call.at(state) is not None}
        outputs = [one] + [Partial()] * (len(call.results) - 1)
        found.append(Candidate(
            [None if meta is None else out for out, meta in zip(outputs, call.results)], call.inputs(**given)))
    return found


@rule("native_group_norm", "native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm",
      "native_batch_norm_backward",
      "native_group_norm_backward", "_native_batch_norm_legit_no_training", "_batch_norm_with_update",
      "batch_norm_backward", "_native_batch_norm_legit_functional")
def group_norm(call, mesh_dim):
    """Statistics over items: every rank computes the whole."""
    return [call.replicated()]


@rule("convolution", "_convolution")
def convolution(call, mesh_dim):
    """Parts of the batch with the whole weight, or of the output channels."""
    found = [call.replicated()]
    if call.spec("input").ndim != call.spec("weight").ndim:
        return found
    found.append(call.candidate(Shard(0), input=Shard(0)))
    if call["groups"] == 1 and not call["transposed"]:
        found.append(call.candidate(Shard(1), weight=Shard(0), bias=Shard(0)))
    return [one for one in found if _is_in_use(call, mesh_dim, one)]


def _is_in_use(call, mesh_dim, candidate):
    """Whether a tensor lies so already: parts are not made where there are none."""
    wanted = [
        spec.placements[mesh_dim] == one for spec, one in zip(call.specs, candidate.inputs) if isinstance(one, _Parts)]
    return not wanted or any(wanted)


@rule("convolution_backward")
def convolution_gradient(call, mesh_dim):
    """Parts of the batch, whose weights' gradients are terms of sums, or of the output channels."""
    found = [call.replicated()]
    given = {"grad_output": Shard(0), "input": Shard(0)}
    outputs = [Shard(0), Partial(), Partial()]
    found.append(Candidate(_present(outputs, call), call.inputs(**given)))
    if call["groups"] == 1 and not call["transposed"]:
        given = {"grad_output": Shard(1), "weight": Shard(0)}
        outputs = [Partial(), Shard(0), Shard(0)]
        found.append(Candidate(_present(outputs, call), call.inputs(**given)))
    return [one for one in found if _is_in_use(call, mesh_dim, one)]


def _present(outputs, call):
    return [None if meta is None else out for out, meta in zip(outputs, call.results)]


@rule("max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d", "upsample_nearest2d", "upsample_bilinear2d",
      "max_pool2d_with_indices_backward", "avg_pool2d_backward", "_adaptive_avg_pool2d_backward", "constant_pad_nd",
      "reflection_pad1d", "reflection_pad2d", "replication_pad2d", "glu", "glu_backward", "pixel_shuffle", "im2col",
      "pixel_unshuffle", "channel_shuffle", "avg_pool1d", "max_pool1d")
def pooling(call, mesh_dim):
    """What sees single items of a batch: parts of the batch, and of the channels where nothing of them is joined."""
    found = [call.replicated()]
    ndim = call.specs[0].ndim
    if call.name == "constant_pad_nd":
        touched = {ndim - 1 - i // 2 for i, amount in enumerate(call["pad"]) if amount != 0}
        dims = [dim for dim in range(ndim) if dim not in touched]
    elif call.name.startswith("glu"):
        at = call["dim"] % ndim
        dims = [dim for dim in range(ndim) if dim != at]
    else:
        dims = [0] if ndim == 4 else []
    for spec in call.specs:
        one = spec.placements[mesh_dim]
        if isinstance(one, _Parts) and one.dim in dims and all(other.ndim == ndim for other in call.specs):
            found.append(Candidate([one] * len(call.results), [one] * len(call.specs)))
    return found
