"""Fake quantisation whose scale and zero point are trained."""

from __future__ import annotations

import math

import corten
from corten import nn

from ._ranges import iinfo, is_symmetric
from .fake_quantize import FakeQuantizeBase

__all__: list[str] = []


class _LearnableFakeQuantize(FakeQuantizeBase):
    """Quantises with a scale and a zero point that are observed, or trained as parameters.

    Args:
        observer: Constructor of the observer.
        quant_min, quant_max: The limits of quantised values.
        scale, zero_point: What the parameters begin with.
        channel_len: The number of channels, or -1 for one scale.
        use_grad_scaling: Whether gradients of the parameters are divided by the root of the number of
            values times the greatest quantised value.
        observer_kwargs: Further arguments of the observer.
    """

    def __init__(
        self, observer, quant_min=0, quant_max=255, scale=1.0, zero_point=0.0, channel_len=-1,
        use_grad_scaling=False, **observer_kwargs,
    ):
        super().__init__()
        if quant_min >= quant_max:
            raise AssertionError("quant_min must be strictly less than quant_max.")
        self.quant_min, self.quant_max = quant_min, quant_max
        observer_kwargs.update(quant_min=quant_min, quant_max=quant_max)
        self.use_grad_scaling = use_grad_scaling
        if channel_len != -1 and not (isinstance(channel_len, int) and channel_len > 0):
            raise AssertionError("Channel size must be a positive integer.")
        count = abs(channel_len)
        self.scale = nn.Parameter(corten.tensor([scale] * count))
        self.zero_point = nn.Parameter(corten.tensor([zero_point] * count))
        self.activation_post_process = observing = observer(**observer_kwargs)
        if iinfo(observing.dtype).min > quant_min:
            raise AssertionError("quant_min out of bound")
        if quant_max > iinfo(observing.dtype).max:
            raise AssertionError("quant_max out of bound")
        self.dtype, self.qscheme = observing.dtype, observing.qscheme
        self.ch_axis = getattr(observing, "ch_axis", -1)
        for name, value in (("fake_quant_enabled", 1), ("static_enabled", 1), ("learning_enabled", 0)):
            self.register_buffer(name, corten.tensor([value], dtype=corten.uint8))
        self.bitwidth = int(math.log2(quant_max - quant_min + 1))
        self.register_buffer("eps", corten.tensor([corten.finfo(corten.float32).eps]))

    def enable_param_learning(self):
        """Scale and zero point are trained."""
        return self.toggle_qparam_learning(True).toggle_fake_quant(True).toggle_observer_update(False)

    def enable_static_estimate(self):
        """Scale and zero point are observed, and values quantised."""
        self.toggle_qparam_learning(False).toggle_fake_quant(True).toggle_observer_update(True)

    def enable_static_observation(self):
        """Values are observed and not changed."""
        self.toggle_qparam_learning(False).toggle_fake_quant(False).toggle_observer_update(True)

    def toggle_observer_update(self, enabled=True):
        """Switches observing on or off."""
        self.static_enabled[0] = int(enabled)
        return self

    def enable_observer(self, enabled=True):
        """Switches observing on or off."""
        self.toggle_observer_update(enabled)

    def toggle_qparam_learning(self, enabled=True):
        """Switches the training of scale and zero point on or off."""
        self.learning_enabled[0] = int(enabled)
        self.scale.requires_grad = enabled
        self.zero_point.requires_grad = enabled
        return self

    def toggle_fake_quant(self, enabled=True):
        """Switches quantising on or off."""
        self.fake_quant_enabled[0] = int(enabled)
        return self

    def observe_quant_params(self):
        """Prints scale and zero point."""
        print(f"_LearnableFakeQuantize Scale: {self.scale.detach()}")
        print(f"_LearnableFakeQuantize Zero Point: {self.zero_point.detach()}")

    def calculate_qparams(self):
        """The scale, and the zero point as an integer within the limits."""
        self.scale.data.clamp_(min=self.eps.item())
        zero_point = self.zero_point.detach().round().clamp(self.quant_min, self.quant_max)
        return self.scale.detach(), zero_point.long()

    def forward(self, X):
        """The input, quantised and back."""
        if self.static_enabled[0] == 1:
            self.activation_post_process(X.detach())
            scale, zero_point = self.activation_post_process.calculate_qparams()
            self.scale.data.copy_(scale.to(self.scale.device))
            self.zero_point.data.copy_(zero_point.to(self.zero_point.device))
        else:
            self.scale.data.clamp_(min=self.eps.item())
        if self.fake_quant_enabled[0] != 1:
            return X
        if is_symmetric(self.qscheme):
            self.zero_point.data.zero_()
        factor = 1.0 / (X.numel() * self.quant_max) ** 0.5 if self.use_grad_scaling else 1.0
        rest = (self.quant_min, self.quant_max, factor)
        if self.qscheme in (corten.per_channel_symmetric, corten.per_channel_affine):
            return corten._fake_quantize_learnable_per_channel_affine(
                X, self.scale, self.zero_point, self.ch_axis, *rest
            )
        return corten._fake_quantize_learnable_per_tensor_affine(X, self.scale, self.zero_point, *rest)
