"""Packed parameters: what ``torch.classes.quantized`` holds for layers of quantised networks.

A weight is kept as an opaque tensor of its integers, which the first product packs for its instructions, and its
scales and zero points.
"""

from __future__ import annotations

import copyreg

import corten

__all__ = ["ScriptObject"]


class ScriptObject:
    """An object of ``torch.classes``. Pickles hold one by the name of its class and its state."""

    _qualified_name = None

    @property
    def __class__(self):
        # Pickles name this class, whatever the object holds.
        return ScriptObject

    def _become(self, cls):
        object.__dict__["__class__"].__set__(self, cls)

    def __new__(cls, *args, **kwargs):
        return super().__new__(cls)

    def __getstate__(self):
        return self._state(), self._qualified_name

    def __setstate__(self, state):
        state, name = state
        from corten._quantized import embedding, recurrent  # noqa: F401  (they add their classes)

        if name not in CLASSES:
            raise RuntimeError(f"Unknown type name {name!r}: there is no such class in torch.classes")
        self._become(CLASSES[name])
        self._restore(state)

    def _become(self, kind):
        object.__dict__["__class__"].__set__(self, kind)

    @property
    def __class__(self):
        # Pickles name this class, as PyTorch's do, and pickling compares it with an object's own.
        return ScriptObject

    def __reduce_ex__(self, protocol):
        return copyreg.__newobj__, (ScriptObject,), self.__getstate__()

    def __deepcopy__(self, memo):
        # The parameters of a packed object do not change.
        copy = ScriptObject()
        copy.__setstate__(self.__getstate__())
        return copy

    def __repr__(self):
        return f"ScriptObject <{self._qualified_name}>"

    def _method_names(self):
        """The names of the methods."""
        return ["__getstate__", "__setstate__", *self._methods]

    def _has_method(self, name):
        """Whether there is a method of a name."""
        return name in self._method_names()


#: Files of PyTorch name it so.
ScriptObject.__module__ = "corten"


def _scales(weight, operator, axis=0):
    """The integers of a weight, and its scales and zero points as tensors.

    Raises:
        RuntimeError: The weight is not quantised in a way that the operator has products for.
    """
    if not isinstance(weight, corten.Tensor) or not weight.is_quantized:
        raise NotImplementedError(
            f"Could not run 'quantized::{operator}' with arguments from the 'CPU' backend: the weight is not quantized"
        )
    if weight.dtype is not corten.qint8:
        raise RuntimeError(f"quantized::{operator}: the weight must be of dtype torch.qint8, but it is {weight.dtype}")
    scheme = weight.qscheme()
    if scheme == corten.per_tensor_affine:
        return (
            weight.int_repr(), corten.tensor([weight.q_scale()], dtype=corten.float64),
            corten.tensor([weight.q_zero_point()]),
        )
    if scheme != corten.per_channel_affine:
        raise RuntimeError(f"Unsupported qscheme: {scheme}")
    if weight.q_per_channel_axis() != axis:
        raise RuntimeError(
            f"quantized::{operator}: the scales must be along dimension {axis} of the weight, but they are along "
            f"{weight.q_per_channel_axis()}"
        )
    return weight.int_repr(), weight.q_per_channel_scales(), weight.q_per_channel_zero_points()


def _engine():
    from corten.backends import quantized

    return quantized.engine


def _checked_bias(bias, outputs):
    if bias is None:
        return None
    if bias.dim() != 1:
        raise RuntimeError("bias should be a vector (1D Tensor)")
    if bias.size(0) != outputs:
        raise RuntimeError(f"bias should have K elements: {outputs}")
    return bias.detach().contiguous()


class _Weight(ScriptObject):
    """A weight of signed bytes and a bias."""

    def _set_weight(self, integers, scales, zero_points, per_tensor, axis):
        self._shape, self._dtype = tuple(integers.shape), integers.dtype
        self._scales, self._zero_points, self._axis = scales, zero_points, axis
        self._per_tensor = per_tensor
        self._symmetric = not bool(zero_points.any())
        self._parts = (integers.to_mkldnn(), scales, zero_points)

    def _quantised(self, integers):
        """The quantised tensor of integers."""
        if self._per_tensor:
            scale, zero = self._scales.item(), int(self._zero_points.item())
            return corten._make_per_tensor_quantized_tensor(integers, scale, zero)
        return corten._make_per_channel_quantized_tensor(integers, self._scales, self._zero_points, self._axis)

    def bias(self):
        """The bias, if there is one."""
        return self._bias


class LinearPackedParamsBase(_Weight):
    """The weight of a linear layer, and its bias."""

    _qualified_name = "__torch__.torch.classes.quantized.LinearPackedParamsBase"
    _methods = ["bias", "unpack"]

    def __init__(self, weight, bias=None):
        if weight.dim() != 2:
            raise RuntimeError("The weight tensor for quantized::linear_prepack (fbgemm) should be 2-dimensional.")
        integers, scales, zero_points = _scales(weight, "linear_prepack")
        self.onednn = _engine() == "onednn"
        if self.onednn and bool(zero_points.any()):
            raise RuntimeError(
                "quantized::linear_prepack: ONEDNN only supports symmetric quantization of weight, whose zero point "
                "must be 0."
            )
        if not self.onednn:
            # FBGEMM keeps scales in 32 bits.
            scales = scales.float().double()
        per_tensor = weight.qscheme() == corten.per_tensor_affine
        self._set_weight(integers, scales, zero_points, per_tensor, 0)
        self._bias = _checked_bias(bias, weight.size(0))

    def unpack(self):
        """The quantised weight and the bias."""
        return self._quantised(self._parts[0].to_dense()), self._bias

    def _state(self):
        return self.unpack()

    def _restore(self, state):
        weight, bias = state
        if weight.is_quantized:
            self.__init__(weight, bias)
        else:
            self._become(LinearPackedParamsFp16)
            self.__init__(weight, bias)


class LinearPackedParamsFp16(ScriptObject):
    """The weight of a linear layer in ``float16``, and its bias."""

    _qualified_name = LinearPackedParamsBase._qualified_name
    _methods = LinearPackedParamsBase._methods

    def __init__(self, weight, bias=None):
        if weight.dtype is not corten.float32:
            raise RuntimeError(f"linear_prepack_fp16: expected a weight of float32, but got {weight.dtype}")
        # Numbers beyond float16 become its largest.
        self.weight = weight.detach().clamp(-65504.0, 65504.0).half().float()
        self._bias = bias

    def unpack(self):
        """The weight in ``float32`` and the bias."""
        return self.weight, self._bias

    def bias(self):
        """The bias, if there is one."""
        return self._bias

    def _state(self):
        return self.unpack()

    def _restore(self, state):
        self.__init__(*state)


class _Conv(_Weight):
    """The weight of a convolution, its bias and its numbers."""

    _methods = [
        "weight", "bias", "unpack", "stride", "padding", "output_padding", "dilation", "groups", "transpose",
    ]
    _dims = 2

    def __init__(self, weight, bias, stride, padding, output_padding, dilation, groups, transpose):
        dims = self._dims
        if weight.dim() != dims + 2:
            raise RuntimeError(f"Weights are expected to have {dims + 2} dimensions")
        lists = {"stride": stride, "padding": padding, "output_padding": output_padding, "dilation": dilation}
        for name, numbers in lists.items():
            if len(numbers) != dims:
                raise RuntimeError(f"quantized::conv_prepack: {name} should have {dims} elements for {dims}d convolution.")
        self._lists = {name: [int(n) for n in numbers] for name, numbers in lists.items()}
        self._groups, self._transpose = int(groups), bool(transpose)
        integers, scales, zero_points = _scales(weight, f"conv{dims}d_prepack", 1 if transpose else 0)
        self._original_shape = tuple(weight.shape)
        self.onednn = self._chosen_engine(zero_points)
        per_tensor = weight.qscheme() == corten.per_tensor_affine
        outputs = weight.size(1) * self._groups if transpose else weight.size(0)
        if not per_tensor and scales.numel() != outputs:
            scales, zero_points = scales.repeat(self._groups), zero_points.repeat(self._groups)
        self._set_weight(
            self._turned(integers) if transpose else integers, scales, zero_points, per_tensor, 1 if transpose else 0
        )
        self._bias = _checked_bias(bias, outputs)

    def _chosen_engine(self, zero_points):
        """Whether the convolution rounds as oneDNN's."""
        engine, symmetric = _engine(), not bool(zero_points.any())
        if engine == "onednn" and not symmetric:
            raise RuntimeError(
                "quantized::qconv_prepack: ONEDNN only supports symmetric quantization of weight, whose zero point "
                "must be 0."
            )
        few = self._groups <= 100 and not self._transpose
        return few and (engine == "onednn" or engine == "x86" and symmetric)

    def _turned(self, integers):
        """The weight of a transposed convolution as that of a convolution."""
        inputs, outputs, *kernel = integers.shape
        each = integers.reshape(self._groups, inputs // self._groups, outputs, *kernel)
        each = each.transpose(1, 2).reshape(self._groups * outputs, inputs // self._groups, *kernel)
        return each.flip(list(range(2, each.dim()))).contiguous()

    def _turned_back(self, integers):
        inputs, outputs, *kernel = self._original_shape
        each = integers.flip(list(range(2, integers.dim())))
        each = each.reshape(self._groups, outputs, inputs // self._groups, *kernel)
        return each.transpose(1, 2).reshape(self._original_shape).contiguous()

    def unpack(self):
        """The quantised weight and the bias."""
        integers = self._parts[0].to_dense()
        if not self._transpose:
            return self._quantised(integers), self._bias
        scales, zero_points = self._scales, self._zero_points
        if not self._per_tensor and self._groups > 1:
            self._scales, self._zero_points = (x[: self._original_shape[1]] for x in (scales, zero_points))
        try:
            return self._quantised(self._turned_back(integers)), self._bias
        finally:
            self._scales, self._zero_points = scales, zero_points

    def weight(self):
        """The quantised weight."""
        return self.unpack()[0]

    def stride(self):
        """The distance of two windows."""
        return self._lists["stride"]

    def padding(self):
        """The pixels around the image."""
        return self._lists["padding"]

    def output_padding(self):
        """The pixels behind the image of a transposed convolution."""
        return self._lists["output_padding"]

    def dilation(self):
        """The distance of two pixels of a window."""
        return self._lists["dilation"]

    def groups(self):
        """The number of groups."""
        return self._groups

    def transpose(self):
        """Whether it is a transposed convolution."""
        return self._transpose

    def _state(self):
        weight, bias = self.unpack()
        numbers = [self._dims]
        for name in ("stride", "padding", "dilation", "output_padding"):
            numbers += self._lists[name]
        numbers += [self._groups, int(self._transpose)]
        return "2", [corten.tensor(numbers, dtype=corten.int16), weight], [bias]

    def _restore(self, state):
        version, tensors, optional = state
        if version not in ("2", 2):
            raise RuntimeError(f"the version {version!r} of packed parameters of convolutions is not known")
        numbers, dims = tensors[0].tolist(), self._dims
        if numbers[0] != dims or len(numbers) != 4 * dims + 3:
            raise RuntimeError(f"packed parameters of {dims} dimensions cannot have the numbers {numbers}")
        stride, padding, dilation, output_padding = (
            numbers[1 + dims * i : 1 + dims * (i + 1)] for i in range(4)
        )
        groups, transpose = numbers[-2:]
        bias = optional[0] if optional else None
        self.__init__(tensors[1], bias, stride, padding, output_padding, dilation, groups, bool(transpose))


class Conv2dPackedParamsBase(_Conv):
    """The weight of a convolution of images, or of signals as images of height 1."""

    _qualified_name = "__torch__.torch.classes.quantized.Conv2dPackedParamsBase"


class Conv3dPackedParamsBase(_Conv):
    """The weight of a convolution of volumes."""

    _qualified_name = "__torch__.torch.classes.quantized.Conv3dPackedParamsBase"
    _dims = 3


#: The classes by their names.
CLASSES = {cls._qualified_name: cls for cls in (LinearPackedParamsBase, Conv2dPackedParamsBase, Conv3dPackedParamsBase)}


def register(cls):
    """Adds a class, by its name."""
    CLASSES[cls._qualified_name] = cls
    return cls
