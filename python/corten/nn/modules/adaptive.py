"""Softmax over many classes, the rare ones in clusters."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence

import corten
from corten.nn import functional as F

from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-softmax whose head covers frequent classes and one entry per cluster of rarer ones.

    Classes are sorted by frequency; ``cutoffs`` are where the clusters begin. Each further
    cluster's projection is narrower by ``div_value``.
    """

    def __init__(
        self, in_features, n_classes, cutoffs, div_value=4.0, head_bias=False, device=None,
        dtype=None,
    ):
        super().__init__()
        made = {"device": device, "dtype": dtype}
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        rising = cutoffs == sorted(set(cutoffs)) and all(int(c) == c for c in cutoffs)
        if not rising or min(cutoffs) <= 0 or max(cutoffs) > n_classes - 1:
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
                "order, where each value is between 1 and n_classes-1"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **made)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            hidden = int(in_features // div_value ** (i + 1))
            out = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(Sequential(
                Linear(in_features, hidden, bias=False, **made),
                Linear(hidden, out, bias=False, **made),
            ))

    def reset_parameters(self):
        """Draws all projections anew."""
        self.head.reset_parameters()
        for inner, outer in self.tail:
            inner.reset_parameters()
            outer.reset_parameters()

    def forward(self, input_, target_):
        """The log-probability of each target, and minus their mean."""
        if not isinstance(target_, corten.Tensor) and not isinstance(target_, Sequence):
            raise TypeError("target should be a tensor")
        batched = target_.dim() > 0
        if batched and input_.size(0) != target_.size(0):
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if target_.dim() > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if input_.dim() != (2 if batched else 1):
            expected = "2D" if batched else "1D"
            raise RuntimeError(
                f"{'1D' if batched else '0D'} target tensor expects {expected} input tensors, but "
                f"found inputs with size {input_.size()}"
            )
        input = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        output = self._target_log_probs(input, target)
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _target_log_probs(self, input, target):
        output = input.new_empty(target.size())
        head_index = target.new_empty(target.size())
        used = 0
        bounds = [0, *self.cutoffs]
        for i, (low, high) in enumerate(zip(bounds, bounds[1:])):
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            if i == 0:
                head_index.index_copy_(0, rows, target[rows])
                output = output.index_fill(0, rows, 0)
            else:
                inside = target[rows] - low
                log_probs = F.log_softmax(self.tail[i - 1](input.index_select(0, rows)), dim=1)
                head_index.index_fill_(0, rows, self.shortlist_size + i - 1)
                own = log_probs.gather(1, inside.unsqueeze(1)).squeeze(1)
                output = output.index_copy(0, rows, own)
            used += rows.numel()
        if used != target.numel():
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found. "
            )
        head = F.log_softmax(self.head(input), dim=1)
        return output + head.gather(1, head_index.unsqueeze(1)).squeeze(1)

    def _all_log_probs(self, input, head_output):
        head = F.log_softmax(head_output, dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            inside = F.log_softmax(cluster(input), dim=1)
            parts.append(inside + head[:, self.shortlist_size + i].unsqueeze(1))
        return corten.cat(parts, 1)

    def log_prob(self, input):
        """Log-probabilities of all classes."""
        return self._all_log_probs(input, self.head(input))

    def predict(self, input):
        """The most probable class of each row; clusters are opened only where they win."""
        head_output = self.head(input)
        best = head_output.argmax(dim=1)
        in_tail = best >= self.shortlist_size
        if not in_tail.any():
            return best
        if in_tail.all():
            return self._all_log_probs(input, head_output).argmax(dim=1)
        best[in_tail] = self._all_log_probs(input[in_tail], head_output[in_tail]).argmax(dim=1)
        return best
