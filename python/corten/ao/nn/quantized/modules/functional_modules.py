"""Operations of tensors as modules, so that their results can be observed and quantized."""

from __future__ import annotations

import corten
from corten import nn

__all__ = ["FloatFunctional", "FXFloatFunctional", "QFunctional"]


class _Float(nn.Module):
    """Operations in float; what a result passes is up to the class."""

    def forward(self, x):
        raise RuntimeError(
            "FloatFunctional is not intended to use the 'forward'. Please use the underlying operation"
        )

    def _result(self, r):
        return r

    def add(self, x, y):
        """The sum of two tensors."""
        return self._result(corten.add(x, y))

    def add_scalar(self, x, y):
        """The sum of a tensor and a number, which is not observed."""
        return corten.add(x, y)

    def mul(self, x, y):
        """The product of two tensors."""
        return self._result(corten.mul(x, y))

    def mul_scalar(self, x, y):
        """The product of a tensor and a number, which is not observed."""
        return corten.mul(x, y)

    def cat(self, x, dim=0):
        """Tensors one after the other along a dimension."""
        return self._result(corten.cat(x, dim=dim))

    def add_relu(self, x, y):
        """The rectified sum of two tensors."""
        return self._result(nn.functional.relu(corten.add(x, y)))

    def matmul(self, x, y):
        """The matrix product of two tensors."""
        return self._result(corten.matmul(x, y))


class FloatFunctional(_Float):
    """Operations in float whose results pass an observer."""

    def __init__(self):
        super().__init__()
        self.activation_post_process = nn.Identity()

    def _result(self, r):
        return self.activation_post_process(r)


class FXFloatFunctional(_Float):
    """Operations in float, for models that are traced: observers are put beside them."""


class QFunctional(nn.Module):
    """Operations of quantized tensors, whose results have the module's scale and zero point."""

    def __init__(self):
        super().__init__()
        self.scale = 1.0
        self.zero_point = 0
        self.activation_post_process = nn.Identity()

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = corten.tensor(self.scale)
        destination[prefix + "zero_point"] = corten.tensor(self.zero_point)

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        self.scale = float(state_dict.pop(prefix + "scale"))
        self.zero_point = int(state_dict.pop(prefix + "zero_point"))
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )

    def _get_name(self):
        return "QFunctional"

    def extra_repr(self):
        return f"scale={self.scale}, zero_point={self.zero_point}"

    def forward(self, x):
        raise RuntimeError("Functional is not intended to use the 'forward'. Please use the underlying operation")

    def _run(self, op, *operands, **options):
        result = op(*operands, scale=self.scale, zero_point=self.zero_point, **options)
        return self.activation_post_process(result)

    def add(self, x, y):
        """The sum of two tensors."""
        return self._run(corten.ops.quantized.add, x, y)

    def add_scalar(self, x, y):
        """The sum of a tensor and a number, at a scale and zero point that follow from the input's."""
        return corten.ops.quantized.add_scalar(x, y)

    def mul(self, x, y):
        """The product of two tensors."""
        return self._run(corten.ops.quantized.mul, x, y)

    def mul_scalar(self, x, y):
        """The product of a tensor and a number, at a scale and zero point that follow from the input's."""
        return corten.ops.quantized.mul_scalar(x, y)

    def cat(self, x, dim=0):
        """Tensors one after the other along a dimension."""
        return self._run(corten.ops.quantized.cat, x, dim=dim)

    def add_relu(self, x, y):
        """The rectified sum of two tensors."""
        return self._run(corten.ops.quantized.add_relu, x, y)

    def matmul(self, x, y):
        """The matrix product of two tensors."""
        return corten.ops.quantized.matmul(x, y, scale=self.scale, zero_point=self.zero_point)

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """The module with the parameters that the observer of a float one found."""
        if type(mod) is not FloatFunctional:
            raise AssertionError(
                f"QFunctional.from_float expects an instance of FloatFunctional, got {type(mod).__name__}"
            )
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        made = QFunctional()
        made.scale = float(scale)
        made.zero_point = int(zero_point)
        return made
