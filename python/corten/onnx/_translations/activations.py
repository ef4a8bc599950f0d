"""Activation functions and losses of each element."""

from __future__ import annotations

import math

from corten.onnx._graph import BOOL, Value
from corten.onnx._table import translation
from corten.onnx._translations.pointwise import unary


@translation("relu")
def relu(g, self):
    return g.op("Relu", self)


@translation("relu6")
def relu6(g, self):
    return g.op("Clip", self, g.like(0, self), g.like(6, self))


@translation("silu")
def silu(g, self):
    return g.op("Mul", self, unary(g, "Sigmoid", self))


@translation("mish")
def mish(g, self):
    return g.op("Mish", self)


@translation("gelu")
def gelu(g, self, *, approximate="none"):
    if g.opset >= 20:
        return g.op("Gelu", self, approximate=approximate)
    half = g.binary("Mul", self, 0.5)
    if approximate == "tanh":
        cube = g.binary("Mul", g.binary("Mul", self, self), self)
        inner = g.binary("Mul", g.binary("Add", self, g.binary("Mul", cube, 0.044715)), math.sqrt(2 / math.pi))
        return g.binary("Mul", half, g.binary("Add", unary(g, "Tanh", inner), 1.0))
    error = unary(g, "Erf", g.binary("Mul", self, math.sqrt(0.5)))
    return g.binary("Mul", half, g.binary("Add", error, 1.0))


@translation("elu")
def elu(g, self, alpha=1, scale=1, input_scale=1):
    value = self if input_scale == 1 else g.binary("Mul", self, input_scale)
    if alpha != 1 and input_scale != 1:
        g.refuse("scales of input and result together are not supported")
    found = g.op("Elu", value, shape=self.shape, alpha=float(alpha))
    return found if scale == 1 else g.binary("Mul", found, scale)


@translation("selu")
def selu(g, self):
    return g.op("Selu", self)


@translation("celu")
def celu(g, self, alpha=1.0):
    return g.op("Celu", self, alpha=float(alpha))


@translation("leaky_relu")
def leaky_relu(g, self, negative_slope=0.01):
    return g.op("LeakyRelu", self, alpha=float(negative_slope))


@translation("rrelu")
def rrelu(g, self, lower=0.125, upper=1 / 3, training=False, generator=None):
    if training:
        g.refuse("it draws random numbers in training mode; call model.eval() first")
    return g.op("LeakyRelu", self, alpha=(lower + upper) / 2)


@translation("prelu", "_prelu_kernel")
def prelu(g, self, weight):
    if weight.rank == 1 and self.rank > 2 and weight.shape[0] != 1:
        weight = g.unsqueeze(weight, range(1, self.rank - 1))
    return g.op("PRelu", self, weight)


@translation("hardtanh")
def hardtanh(g, self, min_val=-1, max_val=1):
    return g.op("Clip", self, g.like(min_val, self), g.like(max_val, self))


@translation("hardsigmoid")
def hardsigmoid(g, self):
    return g.op("HardSigmoid", self, alpha=1 / 6)


@translation("hardswish")
def hardswish(g, self):
    return g.op("HardSwish", self)


@translation("softplus")
def softplus(g, self, beta=1, threshold=20):
    value = self if beta == 1 else g.binary("Mul", self, beta)
    soft = g.op("Softplus", value, shape=self.shape)
    soft = soft if beta == 1 else g.binary("Div", soft, beta)
    linear = g.op("Greater", value, g.like(threshold, value), dtype=BOOL)
    return g.op("Where", linear, self, soft, dtype=self.dtype)


@translation("log_sigmoid", "log_sigmoid_forward")
def log_sigmoid(g, self):
    found = unary(g, "Neg", unary(g, "Softplus", unary(g, "Neg", self)))
    return (found, None) if "forward" in g.label else found


@translation("softsign")
def softsign(g, self):
    return g.op("Softsign", self)


@translation("softshrink")
def softshrink(g, self, lambd=0.5):
    return g.op("Shrink", self, lambd=float(lambd), bias=float(lambd))


@translation("hardshrink")
def hardshrink(g, self, lambd=0.5):
    return g.op("Shrink", self, lambd=float(lambd), bias=0.0)


@translation("tanhshrink")
def tanhshrink(g, self):
    return g.binary("Sub", self, unary(g, "Tanh", self))


@translation("threshold")
def threshold(g, self, threshold, value):
    above = g.op("Greater", self, g.like(threshold, self), dtype=BOOL)
    return g.op("Where", above, self, g.like(value, self), dtype=self.dtype)


@translation("glu")
def glu(g, self, dim=-1):
    dim = dim % self.rank
    half = None if self.shape[dim] is None or isinstance(self.shape[dim], str) else self.shape[dim] // 2
    if half is None:
        first, second = g.op("Split", self, outputs=2, axis=dim, num_outputs=2)
    else:
        first, second = g.op("Split", self, g.vector([half, half]), outputs=2, axis=dim)
    return g.op("Mul", first, g.op("Sigmoid", second))


@translation("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
def distance_loss(g, self, target, reduction=1, beta=1.0):
    difference = g.binary("Sub", self, target)
    if "mse" in g.label:
        found = g.binary("Mul", difference, difference)
    elif "smooth" in g.label or "huber" in g.label:
        found = _huber(g, difference, beta, "smooth" in g.label)
    else:
        found = unary(g, "Abs", difference)
    return reduced(g, found, reduction)


def _huber(g, difference, beta, divided):
    size = unary(g, "Abs", difference)
    square = g.binary("Mul", g.binary("Mul", difference, difference), 0.5 / beta if divided else 0.5)
    linear = g.binary("Sub", size, 0.5 * beta)
    linear = linear if divided else g.binary("Mul", linear, beta)
    near = g.op("Less", size, g.like(beta, size), dtype=BOOL)
    return g.op("Where", near, square, linear, dtype=difference.dtype, shape=difference.shape)


def reduced(g, value, reduction):
    """The elements of a loss, their mean or their sum."""
    if reduction == 0:
        return value
    return g.reduce("ReduceMean" if reduction == 1 else "ReduceSum", value, keepdims=False)


@translation("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(g, self, target, weight=None, pos_weight=None, reduction=1):
    positive = unary(g, "Softplus", unary(g, "Neg", self))
    positive = positive if pos_weight is None else g.binary("Mul", positive, pos_weight)
    rest = g.binary("Mul", g.binary("Sub", g.like(1.0, target), target), unary(g, "Softplus", self))
    found = g.binary("Add", g.binary("Mul", target, positive), rest)
    return reduced(g, found if weight is None else g.binary("Mul", found, weight), reduction)


@translation("cross_entropy_loss")
def cross_entropy_loss(g, self, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    if label_smoothing or target.dtype == self.dtype:
        g.refuse("smoothed labels and probabilities as targets are not supported")
    return _negative_log_likelihood(g, "SoftmaxCrossEntropyLoss", self, target, weight, reduction, ignore_index)


@translation("nll_loss", "nll_loss_nd", "nll_loss_forward", "nll_loss2d_forward")
def nll_loss(g, self, target, weight=None, reduction=1, ignore_index=-100):
    found = _negative_log_likelihood(g, "NegativeLogLikelihoodLoss", self, target, weight, reduction, ignore_index)
    return (found, None) if "forward" in g.label else found


def _negative_log_likelihood(g, op_type, scores, target, weight, reduction, ignore_index):
    if isinstance(ignore_index, Value):
        g.refuse("the index to ignore must be a constant")
    name = ("none", "mean", "sum")[reduction]
    if scores.rank == 1:
        scores, target = g.unsqueeze(scores, [0]), g.unsqueeze(target, [0])
    return g.op(op_type, scores, target, weight, reduction=name, ignore_index=ignore_index)
