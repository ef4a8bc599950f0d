"""Losses."""

from __future__ import annotations

import math
import warnings

import corten
from corten._overriding import dispatch, hand_over, overridden
from ._ops import available, needs, ops
from ._reduction import get_enum, number, reduce as _reduce_as


def _broadcast(input, target):
    """Both expanded to one shape, with a warning if they differ: it is mostly a mistake."""
    if input.size() != target.size():
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size "
            f"({input.size()}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size.",
            stacklevel=3,
        )
    return corten.broadcast_tensors(input, target)


def _weighted(losses, weight, kind):
    """Reduces with weights; the mean divides by their sum."""
    if weight.size() != losses.size():
        raise ValueError("Weights and input must have the same size.")
    weighted = losses * weight
    if kind == 0:
        return weighted
    return weighted.sum() / weight.sum() if kind == 1 else weighted.sum()


@needs("l1_loss")
def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """``|input - target|``."""
    if overridden(input, target, weight):
        given = {} if weight is None else {"weight": weight}
        return hand_over(
            l1_loss, (input, target, weight), input, target, size_average=size_average,
            reduce=reduce, reduction=reduction, **given,
        )
    kind = number(reduction, size_average, reduce)
    input, target = _broadcast(input, target)
    if weight is not None:
        return _weighted((input - target).abs(), weight, kind)
    return ops.l1_loss(input, target, kind)


@needs("mse_loss")
def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """``(input - target) ** 2``."""
    if overridden(input, target, weight):
        return dispatch(mse_loss, (input, target, weight), locals())
    kind = number(reduction, size_average, reduce)
    input, target = _broadcast(input, target)
    if weight is not None:
        return _weighted((input - target).square(), weight, kind)
    return ops.mse_loss(input, target, kind)


@needs("smooth_l1_loss")
def smooth_l1_loss(
    input, target, size_average=None, reduce=None, reduction="mean", beta=1.0
):
    """Squared below ``beta``, absolute above."""
    if overridden(input, target):
        return dispatch(smooth_l1_loss, (input, target), locals())
    kind = number(reduction, size_average, reduce)
    input, target = _broadcast(input, target)
    if beta == 0.0:
        return ops.l1_loss(input, target, kind)
    return ops.smooth_l1_loss(input, target, kind, beta)


@needs("huber_loss")
def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """``delta`` times :func:`smooth_l1_loss` with ``beta=delta``."""
    if overridden(input, target, weight):
        return dispatch(huber_loss, (input, target, weight), locals())
    kind = get_enum(reduction)
    input, target = _broadcast(input, target)
    if weight is not None:
        return _weighted(ops.huber_loss(input, target, 0, delta), weight, kind)
    return ops.huber_loss(input, target, kind, delta)


@needs("nll_loss_nd")
def nll_loss(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None,
    reduction="mean",
):
    """Minus the log-probability of each target class."""
    if overridden(input, target, weight):
        return dispatch(nll_loss, (input, target, weight), locals())
    kind = number(reduction, size_average, reduce)
    return ops.nll_loss_nd(input, target, weight, kind, ignore_index)


@needs("cross_entropy_loss")
def cross_entropy(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None,
    reduction="mean", label_smoothing=0.0,
):
    """:func:`nll_loss` of ``log_softmax(input)``; targets are classes or probabilities."""
    if overridden(input, target, weight):
        return dispatch(cross_entropy, (input, target, weight), locals())
    kind = number(reduction, size_average, reduce)
    return ops.cross_entropy_loss(input, target, weight, kind, ignore_index, label_smoothing)


@needs("poisson_nll_loss")
def poisson_nll_loss(
    input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None,
    reduction="mean",
):
    """Negative log-likelihood of a Poisson distribution with mean ``exp(input)``."""
    if overridden(input, target):
        return dispatch(poisson_nll_loss, (input, target), locals())
    return ops.poisson_nll_loss(
        input, target, log_input, full, eps, number(reduction, size_average, reduce)
    )


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """Negative log-likelihood of a normal distribution with mean ``input`` and variance ``var``."""
    if overridden(input, target, var):
        return dispatch(gaussian_nll_loss, (input, target, var), locals())
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * corten.ones_like(input)
    elif (var < 0).any():
        raise ValueError("var has negative entry/entries")
    if var.size() != input.size():
        if input.size()[:-1] == var.size():
            var = var.unsqueeze(-1)
        elif input.size()[:-1] != var.size()[:-1] or var.size(-1) != 1:
            different = sum(b for a, b in zip(input.size(), var.size()) if a != b)
            if var.dim() != input.dim() or different != 1:
                raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    var = var.clone()
    with corten.no_grad():
        var.clamp_(min=eps)
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduce_as(loss, reduction)


@needs("kl_div")
def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """Kullback–Leibler divergence from log-probabilities ``input`` to ``target``."""
    if overridden(input, target):
        return dispatch(kl_div, (input, target), locals())
    if size_average is None and reduce is None and reduction == "batchmean":
        total = ops.kl_div(input, target, 2, log_target=log_target)
        return total / input.size()[0] if input.dim() != 0 else total
    if reduction == "mean" and size_average is None and reduce is None:
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math "
            "definition.'mean' will be changed to behave the same as 'batchmean' in the next "
            "major release.",
            stacklevel=2,
        )
    kind = number(reduction, size_average, reduce)
    return ops.kl_div(input, target, kind, log_target=log_target)


@needs("binary_cross_entropy")
def binary_cross_entropy(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """Cross entropy of probabilities ``input`` with ``target`` in [0, 1]."""
    if overridden(input, target, weight):
        return dispatch(binary_cross_entropy, (input, target, weight), locals())
    kind = number(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size "
            f"({input.size()}) is deprecated. Please ensure they have the same size."
        )
    if weight is not None:
        weight = weight.expand(corten.broadcast_shapes(weight.shape, target.shape))
    return ops.binary_cross_entropy(input, target, weight, kind)


@needs("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
):
    """:func:`binary_cross_entropy` of ``sigmoid(input)``, computed stably."""
    relevant = input, target, weight, pos_weight
    if overridden(*relevant):
        return dispatch(binary_cross_entropy_with_logits, relevant, locals())
    kind = number(reduction, size_average, reduce)
    if target.size() != input.size():
        raise ValueError(
            f"Target size ({target.size()}) must be the same as input size ({input.size()})"
        )
    return ops.binary_cross_entropy_with_logits(input, target, weight, pos_weight, kind)


@needs("hinge_embedding_loss")
def hinge_embedding_loss(
    input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"
):
    """``input`` where the target is 1, ``max(0, margin - input)`` where it is −1."""
    if overridden(input, target):
        return dispatch(hinge_embedding_loss, (input, target), locals())
    kind = number(reduction, size_average, reduce)
    return ops.hinge_embedding_loss(input, target, margin, kind)


@needs("cosine_embedding_loss")
def cosine_embedding_loss(
    input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"
):
    """``1 - cos`` where the target is 1, ``max(0, cos - margin)`` where it is −1."""
    if overridden(input1, input2, target):
        return dispatch(cosine_embedding_loss, (input1, input2, target), locals())
    kind = number(reduction, size_average, reduce)
    return ops.cosine_embedding_loss(input1, input2, target, margin, kind)


@needs("margin_ranking_loss")
def margin_ranking_loss(
    input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"
):
    """``max(0, -target * (input1 - input2) + margin)``."""
    if overridden(input1, input2, target):
        return dispatch(margin_ranking_loss, (input1, input2, target), locals())
    kind = number(reduction, size_average, reduce)
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return ops.margin_ranking_loss(input1, input2, target, margin, kind)


@needs("soft_margin_loss")
def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """``log(1 + exp(-target * input))``."""
    if overridden(input, target):
        return dispatch(soft_margin_loss, (input, target), locals())
    return ops.soft_margin_loss(input, target, number(reduction, size_average, reduce))


@needs("multilabel_margin_loss")
def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """Margin of each wrong class behind each right one; targets are lists ended by −1."""
    if overridden(input, target):
        return dispatch(multilabel_margin_loss, (input, target), locals())
    return ops.multilabel_margin_loss(input, target, number(reduction, size_average, reduce))


@needs("log_sigmoid")
def multilabel_soft_margin_loss(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """Mean over the classes of the logistic loss of each."""
    if overridden(input, target, weight):
        return dispatch(multilabel_soft_margin_loss, (input, target, weight), locals())
    kind = number(reduction, size_average, reduce)
    loss = -(target * ops.log_sigmoid(input) + (1 - target) * ops.log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    loss = loss.sum(dim=input.dim() - 1) / input.size(input.dim() - 1)
    return _reduce_as(loss, kind)


@needs("multi_margin_loss")
def multi_margin_loss(
    input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """``max(0, margin - input[y] + input[i]) ** p`` over the wrong classes ``i``."""
    if overridden(input, target, weight):
        return dispatch(multi_margin_loss, (input, target, weight), locals())
    kind = number(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    return ops.multi_margin_loss(input, target, p, margin, weight, kind)


@needs("triplet_margin_loss")
def triplet_margin_loss(
    anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None,
    reduce=None, reduction="mean",
):
    """``max(0, d(anchor, positive) - d(anchor, negative) + margin)``."""
    if overridden(anchor, positive, negative):
        return dispatch(triplet_margin_loss, (anchor, positive, negative), locals())
    kind = number(reduction, size_average, reduce)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return ops.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, kind)


@needs("pairwise_distance")
def triplet_margin_with_distance_loss(
    anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False,
    reduction="mean",
):
    """:func:`triplet_margin_loss` with any distance."""
    if overridden(anchor, positive, negative):
        return dispatch(triplet_margin_with_distance_loss, (anchor, positive, negative), locals())
    distance = ops.pairwise_distance if distance_function is None else distance_function
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {anchor.ndim}D, positive {positive.ndim}D, and negative "
            f"{negative.ndim}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = corten.minimum(far, distance(positive, negative))
    return _reduce_as((margin + near - far).clamp_min(0), reduction)


@needs("ctc_loss")
def ctc_loss(
    log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean",
    zero_infinity=False,
):
    """Connectionist temporal classification: minus the log-probability of all alignments."""
    relevant = log_probs, targets, input_lengths, target_lengths
    if overridden(*relevant):
        return dispatch(ctc_loss, relevant, locals())
    return ops.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, get_enum(reduction),
        zero_infinity,
    )


@needs("cross_entropy_loss", "linear")
def linear_cross_entropy(
    input, linear_weight, target, *, linear_bias=None, weight=None, reduction="mean",
    ignore_index=None, label_smoothing=0.0, options=None,
):
    """:func:`cross_entropy` of a linear map of ``input``.

    ``linear_weight`` is (classes, …, features); the dimensions between make a loss for each of
    their positions. ``options``, how to save memory, changes no value.
    """
    relevant = input, linear_weight, target, linear_bias, weight
    if overridden(*relevant):
        return dispatch(linear_cross_entropy, relevant, locals())
    shape = linear_weight.shape[:-1]
    if len(shape) > 1 and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} "
            f"requires batched input, (N, {linear_weight.shape[-1]}), got unbatched input with "
            f"shape {tuple(input.shape)}"
        )
    bias = None if linear_bias is None else linear_bias.flatten()
    logits = ops.linear(input, linear_weight.flatten(0, -2), bias)
    logits = logits.unflatten(-1, shape) if len(shape) > 1 else logits
    ignore_index = -100 if ignore_index is None else ignore_index
    return cross_entropy(
        logits, target, weight, ignore_index=ignore_index, reduction=reduction,
        label_smoothing=label_smoothing,
    )


__all__ = available(globals())
