"""Every operator called with quantised tensors: it works where its declaration says how, and else is refused."""

import re
import unittest
import warnings

import corten as torch

#: What other arguments are, by type.
VALUES = {
    "int": 0, "SymInt": 0, "float": 0.5, "bool": False, "Scalar": 1, "ScalarType": torch.float32,
    "str": "none", "MemoryFormat": torch.contiguous_format, "Layout": torch.strided,
    "Device": torch.device("cpu"), "complex": 1j,
}

#: Operators that take quantised tensors: those that do not look at their numbers, and those with kernels for them.
WORKS = set("""
    aten::_assert_tensor_metadata
    aten::_debug_has_internal_overlap aten::_foreach_clone aten::_foreach_copy aten::_foreach_copy_
    aten::_foreach_max aten::_foreach_sigmoid aten::_foreach_tanh aten::_neg_view aten::_prelu_kernel
    aten::_to_copy aten::adaptive_avg_pool1d aten::adaptive_avg_pool1d.out aten::adjoint aten::alias
    aten::alpha_dropout aten::alpha_dropout_ aten::argsort aten::argsort.stable aten::as_strided
    aten::as_strided_ aten::atleast_1d aten::atleast_1d.Sequence aten::atleast_2d aten::atleast_2d.Sequence
    aten::atleast_3d aten::atleast_3d.Sequence aten::avg_pool1d aten::avg_pool1d.out aten::broadcast_tensors
    aten::cat aten::clone aten::column_stack aten::column_stack.out aten::concat aten::concat.out
    aten::concatenate aten::concatenate.out aten::conj aten::conj_physical aten::contiguous aten::copy_
    aten::dequantize.self aten::dequantize.tensors aten::detach aten::detach_ aten::detach_copy
    aten::detach_copy.out aten::diagonal aten::dropout aten::dropout_ aten::dstack aten::dstack.out
    aten::empty_like aten::empty_quantized aten::eq.Scalar aten::eq.Tensor aten::equal aten::expand_as
    aten::feature_alpha_dropout aten::feature_alpha_dropout_ aten::feature_dropout aten::feature_dropout_
    aten::fill.Scalar aten::fill_.Scalar aten::fill_diagonal_ aten::flatten.using_ints aten::flip
    aten::flip_view aten::fliplr aten::flipud aten::full_like aten::ge.Scalar aten::ge.Tensor aten::gelu
    aten::gelu_ aten::greater.Scalar aten::greater.Tensor aten::greater_equal.Scalar aten::greater_equal.Tensor
    aten::gt.Scalar aten::gt.Tensor aten::hardsigmoid aten::hardsigmoid.out aten::hardtanh aten::hardtanh.out
    aten::hardtanh_ aten::hsplit.array aten::hstack aten::hstack.out aten::int_repr aten::is_set_to
    aten::le.Scalar aten::le.Tensor aten::leaky_relu aten::leaky_relu.out aten::leaky_relu_ aten::less.Scalar
    aten::less.Tensor aten::less_equal.Scalar aten::less_equal.Tensor aten::lift_fresh aten::lt.Scalar
    aten::lt.Tensor aten::mH
    aten::mT aten::matrix_H aten::max aten::max.dim aten::max_pool1d aten::mean aten::mean.dim aten::min
    aten::min.dim aten::moveaxis.int aten::moveaxis.intlist aten::movedim.int aten::movedim.intlist aten::msort
    aten::msort.out aten::narrow aten::narrow_copy aten::narrow_copy.out aten::ne.Scalar aten::ne.Tensor
    aten::new_empty aten::not_equal.Scalar aten::not_equal.Tensor aten::numpy_T aten::ones_like aten::positive
    aten::q_per_channel_axis aten::q_per_channel_scales aten::q_per_channel_zero_points aten::q_scale
    aten::q_zero_point aten::quantized_max_pool1d aten::ravel aten::real aten::relu aten::relu6 aten::relu6_
    aten::relu_ aten::repeat_interleave.self_int aten::reshape_as aten::resize_ aten::resize_as_
    aten::resolve_conj aten::resolve_neg aten::rot90 aten::row_stack aten::row_stack.out aten::select.int
    aten::sigmoid aten::slice.Tensor aten::sort aten::sort.stable aten::special_expit aten::squeeze
    aten::squeeze.dim aten::squeeze.dims aten::squeeze_ aten::squeeze_.dim aten::squeeze_.dims aten::stack
    aten::std aten::std.correction aten::std.dim aten::std.out aten::swapaxes aten::swapaxes_ aten::swapdims
    aten::swapdims_ aten::t aten::t_ aten::tanh aten::tensor_split.indices aten::threshold aten::tile
    aten::to.dtype_layout aten::to.other aten::to_dense aten::topk aten::transpose.int aten::transpose_
    aten::type_as aten::unbind.int aten::unsqueeze aten::unsqueeze_ aten::view_as aten::vsplit.array
    aten::vstack aten::vstack.out quantized::add quantized::add.Scalar quantized::add.Scalar2
    quantized::add.Scalar_out quantized::add.out quantized::add_out quantized::add_relu
    quantized::add_relu.Scalar quantized::add_relu.Scalar2 quantized::add_relu.Scalar_out
    quantized::add_relu.out quantized::add_relu_out quantized::add_scalar quantized::add_scalar_out
    quantized::add_scalar_relu quantized::add_scalar_relu_out quantized::cat quantized::cat_relu quantized::celu
    quantized::dropout quantized::elu quantized::hardswish quantized::leaky_relu quantized::mul
    quantized::mul.Scalar quantized::mul.Scalar2 quantized::mul.Scalar_out quantized::mul.out quantized::mul_out
    quantized::mul_relu quantized::mul_relu.Scalar quantized::mul_relu.Scalar2 quantized::mul_relu.Scalar_out
    quantized::mul_relu.out quantized::mul_relu_out quantized::mul_scalar quantized::mul_scalar_out
    quantized::mul_scalar_relu quantized::mul_scalar_relu_out quantized::relu6 quantized::sigmoid
    quantized::softmax quantized::threshold
""".split())


def arguments(schema, make):
    """Values for the arguments of a schema that have no default, or None where there is a type without one."""
    given, named = [], {}
    inner = schema[schema.index("(") + 1:schema.rindex(") ->")]
    keyword = False
    depth, parts, part = 0, [], ""
    for letter in inner:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += letter
    if part.strip():
        parts.append(part.strip())
    for text in parts:
        if text == "*":
            keyword = True
            continue
        declared, _, default = text.partition("=")
        kind, name = declared.rsplit(" ", 1)
        kind = re.sub(r"\(.*?\)", "", kind)
        base, _, length = kind.partition("[")
        is_tensor = base.rstrip("?") == "Tensor"
        if default and not is_tensor:
            continue
        if is_tensor:
            value = make() if not length else [make(), make()]
        elif base.rstrip("?") in VALUES:
            value = VALUES[base.rstrip("?")]
            value = value if not length else [value or 1]
        else:
            return None
        if keyword:
            named[name] = value
        else:
            given.append(value)
    return given, named


class Walk(unittest.TestCase):
    def test_every_operator(self):
        x = torch.tensor([[1.0, -2.0, 0.55], [3.0, 10.0, -0.3]])
        makers = [
            lambda: torch.quantize_per_tensor(x, 0.1, 10, torch.quint8),
            lambda: torch.quantize_per_channel(
                x, torch.tensor([0.1, 0.2]), torch.tensor([1, 2]), 0, torch.qint8),
            lambda: torch.quantize_per_tensor(x, 0.5, 3, torch.quint4x2),
            lambda: torch.empty(2, 3, dtype=torch.qint32),
            lambda: torch.zeros(2, 3, dtype=torch.bits8),
            lambda: torch.zeros(4, dtype=torch.uint8).view(torch.qint8),
            lambda: torch.zeros(2, 3, dtype=torch.float4_e2m1fn_x2),
        ]
        worked = set()
        for number, make in enumerate(makers):
            for operator in torch.ops.all():
                name = operator["name"]
                if not any("Tensor" in word for word in operator["schema"].partition("->")[0].split()):
                    continue
                found = arguments(operator["schema"], make)
                if found is None:
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        torch._C._op_call(name, *found[0], **found[1])
                    except Exception as error:
                        self.assertNotIsInstance(error, (SystemError, MemoryError), name)
                        self.assertNotIn("panicked", str(error), name)
                        self.assertNotIn("INTERNAL", str(error), name)
                    else:
                        if number < 4:
                            worked.add(name)
        self.assertFalse(sorted(worked - WORKS), "these took quantised tensors")


if __name__ == "__main__":
    unittest.main()
