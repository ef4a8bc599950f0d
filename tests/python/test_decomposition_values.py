"""Decompositions of operators with their own kernels as the reference: values, dtypes, strides and what is written."""

import importlib
import re
import unittest

from module_under_test import torch

decomp = importlib.import_module(f"{torch.__name__}._decomp")
make_fx = importlib.import_module(f"{torch.__name__}.fx.experimental.proxy_tensor").make_fx

CALLS = """
    _chunk_cat([x, x], 0, 2)
    _chunk_cat([x, x[:, :3]], 1, 2)
    _unsafe_masked_index(x, m, [i3.unsqueeze(1), i4], 0)
    _unsafe_masked_index_put_accumulate(x, m, [i3.unsqueeze(1), i4], x)
    affine_grid_generator(theta, [2, 3, 4, 5], False)
    affine_grid_generator(theta, [2, 3, 4, 5], True)
    affine_grid_generator(theta3, [2, 3, 4, 5, 2], False)
    alias_copy(x)
    block_diag([x, x[0], x])
    channel_shuffle(im, 2)
    pixel_shuffle(im, 2)
    pixel_unshuffle(im, 2)
    col2im(cols, [6, 6], [2, 2], [1, 1], [0, 0], [2, 2])
    col2im(cols, [4, 4], [2, 2], [1, 1], [1, 1], [2, 2])
    diagonal_copy(x, 1)
    expand_copy(x, [2, 3, 4])
    floor_divide.Scalar(x, 2)
    glu_backward(x[:, :2], x, 1)
    hann_window(5)
    hann_window.periodic(5, False)
    isin.Scalar_Tensor(2, i)
    linspace.Tensor_Tensor(s0, s1, 5)
    linspace.Scalar_Tensor(0, s1, 5)
    linspace.Tensor_Scalar(s0, 2.0, 5)
    logspace(0, 1, 5)
    logspace(0.5, 3, 5, 2.0)
    logspace.Tensor_Tensor(s0, s1, 5)
    logspace.Scalar_Tensor(0, s1, 5)
    logspace.Tensor_Scalar(s0, 2.0, 5)
    max_unpool2d(im, un, [8, 8])
    max_unpool3d(vol, un3, [4, 4, 4], [2, 2, 2], [0, 0, 0])
    multi_margin_loss(x, i3)
    multi_margin_loss(x, i3, 2, 0.5, x[0], 2)
    multi_margin_loss(x, i3, 1, 1, None, 0)
    multi_margin_loss(x[0], i3[0], 1, 1, None, 1)
    multilabel_margin_loss_forward(x, ml, 1)
    multilabel_margin_loss_forward(x, ml, 0)
    multilabel_margin_loss_forward(x[0], ml[0], 2)
    mvlgamma(p + 3, 3)
    norm.Scalar(x)
    norm.Scalar(x, 3)
    norm.ScalarOpt_dim(x, 2, [1])
    norm.ScalarOpt_dim_dtype(x, 2, [1], True, dtype=f64)
    norm.ScalarOpt_dtype(x, 1, dtype=f64)
    reflection_pad1d_backward(torch.ones(3, 7), x, [1, 2])
    reflection_pad2d_backward(torch.ones(2, 4, 7, 7), im, [1, 2, 2, 1])
    reflection_pad3d_backward(torch.ones(2, 1, 5, 5, 5), vol, [1, 1, 1, 1, 1, 1])
    special_log_ndtr(x)
    special_xlog1py.other_scalar(x, 2)
    special_xlog1py.self_scalar(2, p)
    split_with_sizes_copy(x, [1, 2])
    squeeze_copy(x.unsqueeze(0))
    squeeze_copy.dim(x.unsqueeze(0), 0)
    squeeze_copy.dims(x.unsqueeze(0), [0])
    t_copy(x)
    transpose_copy.int(x, 0, 1)
    unfold_copy(x, 1, 2, 1)
    unsqueeze_copy(x, 1)
    upsample_linear1d(x.unsqueeze(0), [7], False)
    upsample_linear1d(x.unsqueeze(0), [7], True)
    upsample_linear1d(x.unsqueeze(0), [7], False, 1.7)
    xlogy.Scalar_Other(x, 2)
    xlogy.Scalar_Self(2, p)
"""
WRITES = """
    addcdiv_(x, x, x)
    addcmul_(x, x, x, value=2)
    celu_(x)
    deg2rad_(x)
    elu_(x)
    fill_.Scalar(x, 2)
    fill_.Tensor(x, s0)
    frac_(x)
    gelu_(x)
    hardsigmoid_(x)
    hardswish_(x)
    hardtanh_(x)
    heaviside_(x, x)
    index_add_(x, 0, i, x2)
    index_copy_(x, 0, i, x2)
    index_fill_.int_Scalar(x, 0, i, 2)
    index_fill_.int_Tensor(x, 0, i, s0)
    leaky_relu_(x)
    lerp_.Scalar(x, x, 0.3)
    lerp_.Tensor(x, x, x)
    logit_(p)
    masked_fill_.Scalar(x, m, 1)
    masked_fill_.Tensor(x, m, s0)
    mish_(x)
    mvlgamma_(p3, 2)
    nan_to_num_(x)
    rad2deg_(x)
    renorm_(x, 2, 0, 1.0)
    sgn_(x)
    silu_(x)
    sinc_(x)
    threshold_(x, 0.2, 1.0)
    tril_(x)
    triu_(x)
    xlogy_.Scalar_Other(x, 2)
    xlogy_.Tensor(x, p)
    zero_(x)
"""


def waves(*shape):
    """Numbers of both signs."""
    count = torch.Size(shape).numel()
    return torch.sin(torch.arange(count, dtype=torch.float32) * 1.7 + 0.3).reshape(shape)


def values():
    """The tensors that calls name."""
    x = waves(3, 4)
    return {
        "x": x, "x2": waves(2, 4), "p": x.abs() * 0.9 + 0.05, "p3": x.abs() + 3, "m": x > 0,
        "i": torch.tensor([0, 2]), "i3": torch.tensor([0, 1, 2]), "i4": torch.tensor([0, 1, 2, 3]),
        "theta": waves(2, 2, 3), "theta3": waves(2, 3, 4), "im": waves(2, 4, 4, 4), "cols": waves(2, 8, 9),
        "s0": torch.tensor(0.5), "s1": torch.tensor(2.0), "vol": waves(2, 1, 3, 3, 3),
        "ml": torch.tensor([[0, 2, -1, 1], [1, -1, 0, 0], [3, 2, 1, 0]]),
        "un": (torch.arange(128) % 64).reshape(2, 4, 4, 4), "un3": (torch.arange(54) % 27).reshape(2, 1, 3, 3, 3),
    }


def call(text):
    """The function of a call, and its arguments."""
    found = values()
    names = [name for name in found if re.search(rf"\b{name}\b", text)]
    head, _, rest = text.partition("(")
    head += "" if "." in head else ".default"
    known = {"aten": torch.ops.aten, "torch": torch, "f64": torch.float64}
    return eval(f"lambda {', '.join(names)}: aten.{head}({rest}", known), [found[name] for name in names]


class Values(unittest.TestCase):
    def check(self, text, table):
        function, args = call(text)
        _, ours = call(text)
        made = make_fx(function, decomposition_table=table)(*call(text)[1])
        left = [node.target for node in made.graph.nodes if node.target in table]
        self.assertEqual(left, [])
        wanted, got = (torch.utils._pytree.tree_leaves(one) for one in (function(*args), made(*ours)))
        for one, other in zip([*wanted, *args], [*got, *ours], strict=True):
            self.assertEqual((one.dtype, one.shape, one.stride()), (other.dtype, other.shape, other.stride()))
            torch.testing.assert_close(other, one, equal_nan=True)

    def test_calls(self):
        table = decomp.core_aten_decompositions()
        for text in CALLS.split("\n")[1:-1]:
            with self.subTest(text):
                self.check(text.strip(), table)

    def test_calls_that_write(self):
        table = decomp.core_aten_decompositions()
        for text in WRITES.split("\n")[1:-1]:
            with self.subTest(text):
                self.check(text.strip(), table)

    def test_random_numbers_and_memory(self):
        table = decomp.core_aten_decompositions()
        p = torch.full((1000,), 0.25)
        made = make_fx(torch.ops.aten.bernoulli.default, decomposition_table=table)(p)(p)
        self.assertEqual(sorted(made.unique().tolist()), [0.0, 1.0])
        self.assertLess(abs(made.mean().item() - 0.25), 0.1)
        for x in (torch.ones(2, 3), torch.ones(3, 2).t(), torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last)):
            made = make_fx(lambda x: torch.empty_like(x), decomposition_table=table)(x)(x)
            self.assertEqual((made.shape, made.stride()), (x.shape, x.stride()))

    def test_composite_operators_are_named(self):
        table, aten = decomp.core_aten_decompositions(), torch.ops.aten
        self.assertIn(aten.linear.default, table)
        self.assertNotIn(aten.reshape.default, table)
        self.assertNotIn(aten.mm.default, table)
        x = torch.ones(2, 3)
        self.assertTrue(torch.equal(table[aten.linear.default](x, x), torch.full((2, 2), 3.0)))


class Programs(unittest.TestCase):
    def targets(self, program):
        return [str(node.target) for node in program.graph.nodes if node.op == "call_function"]

    def test_operators_that_are_kept(self):
        class Module(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = torch.nn.Linear(4, 2)

            def forward(self, x):
                return torch.nn.functional.silu(torch.nn.functional.dropout(self.inner(x), training=False))

        x = torch.ones(3, 4)
        module = Module()
        program = torch.export.export(module, (x,))
        table = torch.export.default_decompositions()
        del table[torch.ops.aten.linear.default]
        kept = program.run_decompositions(table)
        self.assertIn("aten.linear.default", self.targets(kept))
        self.assertIn("aten.sigmoid.default", self.targets(kept))
        everything = program.run_decompositions({})
        self.assertIn("aten.silu.default", self.targets(everything))
        self.assertIn("aten.linear.default", self.targets(everything))
        self.assertNotIn("aten.linear.default", self.targets(program.run_decompositions()))
        for one in (kept, everything):
            torch.testing.assert_close(one.module()(x), module(x))

    def test_numbers_of_tensors(self):
        class Module(torch.nn.Module):
            def forward(self, x, n):
                k = n.item()
                torch._check(k >= 0)
                torch._check(k < 100)
                return x.new_zeros(k) + 1, x * k

        program = torch.export.export(Module(), (torch.ones(3), torch.tensor(4))).run_decompositions()
        self.assertIn("aten._local_scalar_dense.default", self.targets(program))
        rows, scaled = program.module()(torch.ones(3), torch.tensor(5))
        self.assertTrue(torch.equal(rows, torch.ones(5)))
        self.assertTrue(torch.equal(scaled, torch.full((3,), 5.0)))
        with self.assertRaisesRegex(RuntimeError, "u0 < 100"):
            program.module()(torch.ones(3), torch.tensor(500))


if __name__ == "__main__":
    unittest.main()
