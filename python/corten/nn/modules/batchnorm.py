"""Normalisation by statistics that are kept over batches."""

from __future__ import annotations

import corten
from corten.nn import functional as F
from corten.nn import init
from corten.nn.parameter import Parameter, UninitializedBuffer, UninitializedParameter

from .lazy import LazyModuleMixin
from .module import Module

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LazyBatchNorm1d", "LazyBatchNorm2d",
    "LazyBatchNorm3d", "SyncBatchNorm",
]


class _NormBase(Module):
    """Scale and shift per channel, with or without running statistics."""

    _version = 2
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]

    def __init__(
        self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True,
        device=None, dtype=None, *, bias=True,
    ):
        super().__init__()
        made = {"device": device, "dtype": dtype}
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = Parameter(corten.empty(num_features, **made))
        else:
            self.register_parameter("weight", None)
        if affine and bias:
            self.bias = Parameter(corten.empty(num_features, **made))
        else:
            self.register_parameter("bias", None)
        if track_running_stats:
            self.register_buffer("running_mean", corten.zeros(num_features, **made))
            self.register_buffer("running_var", corten.ones(num_features, **made))
            count = corten.tensor(0, dtype=corten.long, device=self.running_mean.device)
            self.register_buffer("num_batches_tracked", count)
        else:
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                self.register_buffer(name, None)
        self.reset_parameters()

    def reset_running_stats(self):
        """Forgets the running statistics."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self):
        """Sets scale 1 and shift 0 and forgets the running statistics."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input):
        raise NotImplementedError

    def extra_repr(self):
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        version = local_metadata.get("version")
        if (version is None or version < 2) and self.track_running_stats:
            # Files of version 1 had no counter.
            key = prefix + "num_batches_tracked"
            if key not in state_dict:
                own = self.num_batches_tracked
                known = own is not None and own.device.type != "meta"
                state_dict[key] = own if known else corten.tensor(0, dtype=corten.long)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class _BatchNorm(_NormBase):
    def forward(self, input):
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # plain average over all batches
                factor = 1.0 / float(self.num_batches_tracked)
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        keep = not self.training or self.track_running_stats
        return F.batch_norm(
            input, self.running_mean if keep else None, self.running_var if keep else None,
            self.weight, self.bias, by_batch, factor, self.eps,
        )


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """Takes the number of channels from the first input."""

    def __init__(
        self, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None,
        dtype=None, *, bias=True,
    ):
        made = {"device": device, "dtype": dtype}
        super().__init__(0, eps, momentum, False, False, **made)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(**made)
            if bias:
                self.bias = UninitializedParameter(**made)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**made)
            self.running_var = UninitializedBuffer(**made)
            self.num_batches_tracked = corten.tensor(0, dtype=corten.long, device=device)

    def reset_parameters(self):
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input):
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[self._channel_dim(input)]
        tensors = [self.weight, self.bias] if self.affine else []
        if self.track_running_stats:
            tensors += [self.running_mean, self.running_var]
        for tensor in tensors:
            if tensor is not None:
                tensor.materialize((self.num_features,))
        self.reset_parameters()

    def _channel_dim(self, input):
        return 1


def _refuse_rank(input, ranks):
    if input.dim() not in ranks:
        expected = " or ".join(f"{rank}D" for rank in ranks)
        raise ValueError(f"expected {expected} input (got {input.dim()}D input)")


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of (N, C) or (N, C, L) inputs."""

    def _check_input_dim(self, input):
        _refuse_rank(input, (2, 3))


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of (N, C, H, W) inputs."""

    def _check_input_dim(self, input):
        _refuse_rank(input, (4,))


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of (N, C, D, H, W) inputs."""

    def _check_input_dim(self, input):
        _refuse_rank(input, (5,))


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation with statistics over all processes; here, over the one there is."""

    def __init__(
        self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True,
        process_group=None, device=None, dtype=None, *, bias=True,
    ):
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    @classmethod
    def convert_sync_batchnorm(cls, module, process_group=None):
        """``module`` with every batch normalisation replaced by this one."""
        converted = module
        if isinstance(module, _BatchNorm):
            converted = cls(
                module.num_features, module.eps, module.momentum, module.affine,
                module.track_running_stats, process_group,
            )
            for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
                setattr(converted, name, getattr(module, name))
            converted.training = module.training
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """A :class:`BatchNorm1d` that takes ``num_features`` from its first input."""

    cls_to_become = BatchNorm1d
    _check_input_dim = BatchNorm1d._check_input_dim


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """A :class:`BatchNorm2d` that takes ``num_features`` from its first input."""

    cls_to_become = BatchNorm2d
    _check_input_dim = BatchNorm2d._check_input_dim


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """A :class:`BatchNorm3d` that takes ``num_features`` from its first input."""

    cls_to_become = BatchNorm3d
    _check_input_dim = BatchNorm3d._check_input_dim
