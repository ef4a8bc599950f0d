"""What linear maps and convolutions share that train as one with their batch normalisation."""

from __future__ import annotations

import corten
from corten.ao.nn import intrinsic as nni
from corten.ao.nn.qat.modules._checks import check_given, check_source
from corten.nn import init
from corten.nn.parameter import Parameter

__all__ = ["NormalizedModule"]


class NormalizedModule(nni._FusedModule):
    """A map whose weight is scaled by its batch normalisation before it is quantized.

    Note [Folding in training]: the statistics of the batch normalisation are those of the map's float
    results, so these are recovered from the product with the folded weight by dividing by the factor
    that the weight was scaled with.
    """

    def _set_normalization(self, width, bias, norm, eps, momentum, freeze_bn, qconfig):
        check_given(qconfig)
        self.qconfig = qconfig
        self.freeze_bn = freeze_bn if self.training else True
        self.bn = norm(width, eps, momentum, True, True)
        self.weight_fake_quant = qconfig.weight()
        if bias and self.bias is None:
            self.bias = Parameter(corten.empty(width))
        self.reset_bn_parameters()
        if self.training and not freeze_bn:
            self.update_bn_stats()
        else:
            self.freeze_bn_stats()

    def reset_running_stats(self):
        """Forgets the running statistics."""
        self.bn.reset_running_stats()

    def reset_bn_parameters(self):
        """Draws the scale of the normalisation, sets its shift to zero and forgets its statistics."""
        self.bn.reset_running_stats()
        init.uniform_(self.bn.weight)
        init.zeros_(self.bn.bias)

    def update_bn_stats(self):
        """Lets the normalisation follow the statistics of batches in training."""
        self.freeze_bn = False
        self.bn.training = True
        return self

    def freeze_bn_stats(self):
        """Lets the normalisation keep its statistics, in training too."""
        self.freeze_bn = True
        self.bn.training = False
        return self

    def train(self, mode=True):
        """Sets the mode; the parts follow only while the statistics are not frozen."""
        self.training = mode
        if not self.freeze_bn:
            for module in self.children():
                module.train(mode)
        return self

    def _running_std(self):
        if self.bn.running_var is None:
            raise AssertionError("self.bn.running_var must not be None")
        return corten.sqrt(self.bn.running_var + self.bn.eps)

    def _across(self, values):
        """Values of channels in the shape of results."""
        return values.reshape([1, -1] + [1] * (self.weight.dim() - 2))

    def _folded_weight(self, factor):
        shape = [-1] + [1] * (self.weight.dim() - 1)
        return self.weight_fake_quant(self.weight * factor.reshape(shape))

    def _normalized(self, product):
        """The normalised results; ``product`` is the map with a weight and without a bias."""
        factor = self.bn.weight / self._running_std()
        result = product(self._folded_weight(factor)) / self._across(factor)
        if self.bias is not None:
            result = result + self._across(self.bias)
        return self.bn(result)

    @classmethod
    def _check_float(cls, mod, expected, kind="qconfig"):
        if type(mod) is not expected:
            raise AssertionError(f"qat.{cls.__name__}.from_float only works for {expected.__name__}")
        check_source(mod, kind)

    def _share(self, source, bn):
        """Takes the parameters and statistics of a float module and of its normalisation."""
        self.weight = source.weight
        self.bias = source.bias
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            setattr(self.bn, name, getattr(bn, name))
        return self

    def _norm_arguments(self):
        """What folding takes of the normalisation."""
        bn = self.bn
        if bn.running_var is None or bn.running_mean is None:
            raise AssertionError("self.bn.running_var and self.bn.running_mean must not be None")
        return bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
