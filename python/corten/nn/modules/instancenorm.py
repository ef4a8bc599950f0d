"""Normalisation of each channel of each sample."""

from __future__ import annotations

import warnings

from corten.nn import functional as F

from .batchnorm import _LazyNormBase, _NormBase

__all__ = [
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LazyInstanceNorm1d",
    "LazyInstanceNorm2d", "LazyInstanceNorm3d",
]


class _InstanceNorm(_NormBase):
    _rank = 0

    def __init__(
        self, num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False,
        device=None, dtype=None, *, bias=True,
    ):
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _get_no_batch_dim(self):
        return self._rank + 1

    def _check_input_dim(self, input):
        ranks = (self._rank + 1, self._rank + 2)
        if input.dim() not in ranks:
            raise ValueError(f"expected {ranks[0]}D or {ranks[1]}D input (got {input.dim()}D input)")

    def forward(self, input):
        self._check_input_dim(input)
        batched = input.dim() != self._get_no_batch_dim()
        channels = input.size(1 if batched else 0)
        if channels != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={int(batched)} to match num_features "
                    f"({self.num_features}), but got: {channels}."
                )
            warnings.warn(
                f"input's size at dim={int(batched)} does not match num_features. You can silence "
                "this warning by not passing in num_features, which is not used because "
                "affine=False",
                stacklevel=2,
            )
        result = self._normalize(input if batched else input.unsqueeze(0))
        return result if batched else result.squeeze(0)

    def _normalize(self, input):
        factor = self.momentum if self.momentum is not None else 0.0
        return F.instance_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self.track_running_stats, factor, self.eps,
        )

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        if local_metadata.get("version") is None and not self.track_running_stats:
            stale = [
                prefix + name for name in ("running_mean", "running_var")
                if prefix + name in state_dict
            ]
            if stale:
                error_msgs.append(
                    f"Unexpected running stats buffer(s) {' and '.join(stale)} for "
                    f"{type(self).__name__} with track_running_stats=False."
                )
                for key in stale:
                    state_dict.pop(key)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of (C, L) or (N, C, L) inputs."""

    _rank = 1


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of (C, H, W) or (N, C, H, W) inputs."""

    _rank = 2


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of (C, D, H, W) or (N, C, D, H, W) inputs."""

    _rank = 3


class _LazyInstanceNorm(_LazyNormBase):
    def __init__(
        self, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None,
        dtype=None, *, bias=True,
    ):
        super().__init__(
            eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _channel_dim(self, input):
        return -self._rank - 1


class LazyInstanceNorm1d(_LazyInstanceNorm, _InstanceNorm):
    """An :class:`InstanceNorm1d` that takes ``num_features`` from its first input."""

    cls_to_become = InstanceNorm1d
    _rank = 1


class LazyInstanceNorm2d(_LazyInstanceNorm, _InstanceNorm):
    """An :class:`InstanceNorm2d` that takes ``num_features`` from its first input."""

    cls_to_become = InstanceNorm2d
    _rank = 2


class LazyInstanceNorm3d(_LazyInstanceNorm, _InstanceNorm):
    """An :class:`InstanceNorm3d` that takes ``num_features`` from its first input."""

    cls_to_become = InstanceNorm3d
    _rank = 3
