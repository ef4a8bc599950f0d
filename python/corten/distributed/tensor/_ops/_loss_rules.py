"""Losses."""

from __future__ import annotations

from corten.distributed.tensor._op_schema import Decision
from corten.distributed.tensor._sharding_prop import choose, rule, whole_rule
from corten.distributed.tensor.placement_types import Partial, Replicate, Shard, _all_reduce, _Parts

__all__ = []

_NONE, _MEAN = 0, 1


def _items(call, mesh_dim):
    """Parts of what losses are computed of: items of the batch, and places of images."""
    spec = call.spec("self")
    found = []
    one = spec.placements[mesh_dim]
    for candidate in (one, _as_scores(call.current("target", mesh_dim), spec)):
        if isinstance(candidate, Shard) and candidate.dim != _classes(spec) and candidate not in found:
            found.append(candidate)
    return found


def _classes(spec):
    return 1 if spec.ndim > 1 else 0


def _as_scores(one, spec):
    """The placement of scores for parts of targets, which have no dimension of classes."""
    if not isinstance(one, Shard) or spec.ndim < 2:
        return one
    return Shard(one.dim + (one.dim >= 1))


def _as_targets(one):
    return Shard(one.dim - (one.dim > 1))


def _forward_candidates(call, mesh_dim):
    found = [call.replicated()]
    reduction = call["reduction"]
    for one in _items(call, mesh_dim):
        target = _as_targets(one)
        outputs = [target if reduction == _NONE else Partial(), Replicate()]
        found.append(call.candidate(outputs, self=one, target=target))
    return found


@whole_rule("nll_loss_forward", "nll_loss2d_forward")
def nll_loss(call):
    """Negative log likelihoods: parts of items; sums and means are terms of sums, and the weight by which means
    are divided is summed over the ranks."""
    decision = choose(call, _forward_candidates)
    split = [i for i, one in enumerate(decision.inputs[call.at("self")]) if isinstance(one, _Parts)]
    if not split:
        return decision
    reduction = call["reduction"]

    def run(func, args, kwargs, mesh):
        args = list(args)
        if reduction == _NONE:
            return func(*args, **kwargs)
        # Places: self, target, weight, reduction, ignore_index. Sums are reduction 2.
        args[3] = 2
        total, weight = func(*args, **kwargs)
        if args[0].numel() == 0:
            total, weight = args[0].new_zeros(()), args[0].new_zeros(())
        for i in split:
            weight = _all_reduce(weight, "sum", mesh, i)
        return (total / weight if reduction == _MEAN else total), weight

    return Decision(decision.outputs, decision.inputs, run=run)


@rule("nll_loss_backward", "nll_loss2d_backward")
def nll_loss_gradient(call, mesh_dim):
    """Parts of items."""
    found = [call.replicated()]
    for one in _items(call, mesh_dim):
        target = _as_targets(one)
        gradient = target if call["reduction"] == _NONE else Replicate()
        found.append(call.candidate(one, self=one, target=target, grad_output=gradient))
    return found


_POINTWISE = ("mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "soft_margin_loss", "l1_loss",
              "binary_cross_entropy_with_logits", "kl_div")


@rule(*_POINTWISE)
def pointwise_losses(call, mesh_dim):
    """Losses of single elements: sums and means of parts are terms of sums and, of equal parts, of means."""
    from corten.distributed.tensor._ops._pointwise_rules import aligned
    from corten.distributed.tensor._ops._reduction_rules import _is_even

    reduction = call.get("reduction", _MEAN)
    found = aligned(call, mesh_dim)
    if reduction == _NONE:
        return found
    terms = Partial("avg") if reduction == _MEAN else Partial()
    even = all(_is_even(spec, range(spec.ndim)) for spec in call.specs)
    one_shape = all(spec.shape == call.specs[0].shape for spec in call.specs)
    made = [found[0]]
    if one_shape and (even or reduction != _MEAN):
        made += [candidate._replace(outputs=[terms]) for candidate in found[1:]]
    return made


@rule(*(f"{name}_backward" for name in _POINTWISE))
def pointwise_loss_gradients(call, mesh_dim):
    """Gradients of losses of single elements; those of means are divided by the number of elements of the whole,
    which parts do not know."""
    from corten.distributed.tensor._ops._pointwise_rules import aligned

    if call.get("reduction", _MEAN) == _MEAN:
        return [call.replicated()]
    return aligned(call, mesh_dim)
