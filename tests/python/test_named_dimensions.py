"""Names of dimensions: how they are given, what operators make of them, and what they refuse."""

import collections
import copy
import importlib
import io
import pickle
import unittest
import warnings

from module_under_test import torch

F = importlib.import_module(torch.__name__ + ".nn.functional")


def setUpModule():
    warnings.filterwarnings("ignore", "Named tensors and all their associated APIs")


@unittest.skipUnless(hasattr(torch.Tensor, "refine_names"), "PyTorch dropped names")
class Case(unittest.TestCase):
    def check(self, tensor, *names):
        self.assertEqual(tensor.names, names)
        self.assertEqual(len(tensor.names), tensor.dim())

    def refuses(self, words, function, *args, error=RuntimeError, **kwargs):
        with self.assertRaises(error) as raised:
            function(*args, **kwargs)
        self.assertIn(words, str(raised.exception))


class Giving(Case):
    def test_factories(self):
        for made in (
            torch.zeros(2, 3, names=("N", "C")), torch.ones((2, 3), names=["N", "C"]),
            torch.empty(2, 3, names=("N", "C")), torch.rand(2, 3, names=("N", "C")),
            torch.randn(2, 3, names=("N", "C")), torch.full((2, 3), 1.5, names=("N", "C")),
            torch.tensor([[1, 2, 3], [4, 5, 6]], names=("N", "C")),
            torch.rand(2, 3, generator=torch.Generator(), names=("N", "C")),
        ):
            self.check(made, "N", "C")
        self.check(torch.zeros(2, 3, names=None), None, None)
        self.check(torch.zeros(2, 3, names=("N", None), dtype=torch.int64, requires_grad=False), "N", None)
        self.check(torch.zeros((), names=()))
        self.assertTrue(torch.zeros(2, names=("N",), requires_grad=True).requires_grad)
        self.refuses(
            "Number of names (1) and number of dimensions in tensor (2) do not match. Attempted to "
            "create a tensor with names ['N']", torch.zeros, 2, 3, names=("N",),
        )
        self.refuses("Cannot construct a tensor with duplicate names. Got names: ['N', 'N'].",
                     torch.zeros, 2, 3, names=("N", "N"))
        for name in ("", "1N", "N-C", "N C", "é"):
            self.refuses(
                "Invalid name: a valid identifier contains only digits, alphabetical characters, and/or "
                f"underscore and starts with a non-digit. got: '{name}'.", torch.zeros, 2, names=(name,),
            )
        self.refuses("", torch.zeros, 2, names="N", error=TypeError)
        self.refuses("", torch.zeros, 2, names=(1,), error=TypeError)
        self.refuses("", torch.arange, 3, names=("N",), error=TypeError)

    def test_attribute(self):
        x = torch.zeros(2, 3)
        self.check(x, None, None)
        self.assertFalse(x.has_names())
        x.names = ["N", None]
        self.check(x, "N", None)
        self.assertTrue(x.has_names())
        x.names = (None, None)
        self.assertFalse(x.has_names())
        x.names = ("a", "b")
        x.names = None
        self.assertFalse(x.has_names())
        with self.assertRaises(RuntimeError):
            x.names = ("a",)

    def test_rename(self):
        x = torch.rand(2, 3, 5, 7, names=("N", "C", "H", "W"))
        renamed = x.rename(W="width", H="height")
        self.check(renamed, "N", "C", "height", "width")
        self.check(x, "N", "C", "H", "W")
        self.assertEqual(renamed.data_ptr(), x.data_ptr())
        self.check(x.rename("...", "height", "width"), "N", "C", "height", "width")
        self.check(x.rename("batch", ..., "width"), "batch", "C", "H", "width")
        self.check(x.rename(None), None, None, None, None)
        self.check(x.rename("a", "b", None, "d"), "a", "b", None, "d")
        self.check(x.rename(N=None), None, "C", "H", "W")
        self.assertIs(x.rename_(C="channels"), x)
        self.check(x, "N", "channels", "H", "W")
        self.check(x.rename_(None), None, None, None, None)
        self.check(torch.zeros(()).rename())
        y = torch.zeros(2, names=("N",))
        self.refuses("rename: This function takes either positional args or keyword args, but not both. Use "
                     "tensor.rename(*names) to name dims and tensor.rename(**rename_map) to rename dims.",
                     y.rename, "a", N="b")
        self.refuses("rename: Tried to rename dim 'C' to dim D in Tensor[('N',)] but dim 'C' does not exist",
                     y.rename, C="D")
        self.refuses("rename_: Tried to rename dim 'C' to dim D", y.rename_, C="D")
        self.refuses("More than one Ellipsis ('...') found in names", y.rename, ..., ...)
        self.refuses("Number of names (2)", y.rename, "a", "b")

    def test_refine_names(self):
        images = torch.randn(2, 3, 4, 4)
        self.check(images.refine_names("N", "C", "H", "W"), "N", "C", "H", "W")
        x = torch.randn(2, 3, 5, 7, 1).refine_names("A", ..., "B", "C")
        self.check(x, "A", None, None, "B", "C")
        self.check(x.refine_names("A", "x", "y", "B", "C"), "A", "x", "y", "B", "C")
        y = torch.zeros(2, 3, names=("N", None))
        self.refuses("refine_names: cannot coerce Tensor['N', None] to Tensor['M', 'C'] because 'N' is "
                     "different from 'M' at index 0", y.refine_names, "M", "C")
        self.refuses("refine_names: cannot coerce Tensor['N', None] to Tensor[None, 'C'] because 'N' is more "
                     "specific than None at index 0", y.refine_names, None, "C")
        self.refuses("because they have a different number of dims (2 and 1 respectively).", y.refine_names, "N")

    def test_align(self):
        x = torch.arange(720).reshape(2, 3, 4, 5, 6).refine_names("A", "B", "C", "D", "E")
        moved = x.align_to("E", "D", ...)
        self.check(moved, "E", "D", "A", "B", "C")
        self.assertTrue(torch.equal(moved.rename(None), x.rename(None).permute(4, 3, 0, 1, 2)))
        moved = x.align_to("E", "A", "new", "C", "B", "D")
        self.check(moved, "E", "A", "new", "C", "B", "D")
        self.assertEqual(tuple(moved.shape), (6, 2, 1, 4, 3, 5))
        self.check(x.align_to(..., "new", "A"), "B", "C", "D", "E", "new", "A")
        partly = torch.zeros(2, 3, 4, names=("A", None, "B"))
        moved = partly.align_to("B", ...)
        self.check(moved, "B", "A", None)
        self.assertEqual(tuple(moved.shape), (4, 2, 3))
        scale = torch.arange(3.0).refine_names("C")
        images = torch.ones(2, 3, 4, 4, names=("N", "C", "H", "W"))
        aligned = scale.align_as(images)
        self.check(aligned, "N", "C", "H", "W")
        self.assertEqual(tuple(aligned.shape), (1, 3, 1, 1))
        scaled = images * aligned
        self.check(scaled, "N", "C", "H", "W")
        self.assertEqual(scaled.sum(["N", "H", "W"]).tolist(), [0.0, 32.0, 64.0])
        self.refuses("align_to: All input dims must be named. Found unnamed dim at index 1 of "
                     "Tensor['A', None, 'B']", partly.align_to, "A", "B", "C")
        self.refuses("align_to: Cannot find dim 'C'", scale.align_to, "N")
        self.refuses("align_to: the desired order of dimensions cannot contain a None name",
                     x.align_to, None, ...)

    def test_align_tensors(self):
        x, y = torch.zeros(2, 3, names=("N", "C")), torch.zeros(3, names=("C",))
        for made in torch.align_tensors(x, y):
            self.check(made, "N", "C")
        self.assertEqual(torch.align_tensors(x, y)[1].shape, (1, 3))
        self.refuses("Could not align Tensor['H'] and Tensor['N', 'C'] because ['H'] is not a subsequence of "
                     "['N', 'C']. ", torch.align_tensors, x, torch.zeros(3, names=("H",)))

    def test_flatten(self):
        images = torch.arange(120).reshape(2, 3, 4, 5).refine_names("N", "C", "H", "W")
        flat = images.flatten(["C", "H", "W"], "features")
        self.check(flat, "N", "features")
        self.assertEqual(flat.rename(None).tolist(), images.rename(None).flatten(1).tolist())
        self.check(images.flatten("H", "W", "pixels"), "N", "C", "pixels")
        self.check(images.flatten(1, 2, "rows"), "N", "rows", "W")
        self.check(images.flatten(dims=("N", "C"), out_dim="both"), "both", "H", "W")
        self.check(images.flatten(1), "N", None)
        one = torch.zeros(3, names=("x",))
        self.check(one.flatten(["x"], "y"), "y")
        self.check(one, "x")
        self.refuses("flatten(tensor, dims, out_dim): dims ['C', 'W'] must be consecutive in "
                     "Tensor['N', 'C', 'H', 'W']", images.flatten, ["C", "W"], "both")
        self.refuses("dims cannot be empty", images.flatten, [], "both")
        back = flat.unflatten("features", [("C", 3), ("H", 4), ("W", 5)])
        self.check(back, "N", "C", "H", "W")
        self.assertTrue(torch.equal(back, images))
        self.check(flat.unflatten("features", collections.OrderedDict(C=3, pixels=20)), "N", "C", "pixels")
        self.check(flat.unflatten(1, (("C", 3), ("pixels", 20))), "N", "C", "pixels")
        self.check(torch.zeros(6).unflatten(0, (("a", 2), ("b", 3))), "a", "b")
        self.refuses("unflatten: input is a named tensor but no names were given for unflattened sizes",
                     flat.unflatten, 1, (3, 20))

    def test_lookup(self):
        x = torch.zeros(2, 3, names=("N", "C"))
        self.assertEqual((x.size("C"), x.size(dim="N"), x.stride("N")), (3, 2, 3))
        self.refuses("Name 'H' not found in Tensor['N', 'C'].", x.size, "H")
        self.refuses("Name 'H' not found in Tensor['N', 'C'].", x.sum, "H")
        self.refuses("Please look up dimensions by name, got: name = None.", x.sum, ["N", None])
        # Of a tensor without names, a name is an argument of the wrong type.
        self.refuses("", torch.zeros(2).sum, "N", error=TypeError)
        self.refuses("", torch.zeros(2).size, "N", error=TypeError)

    def test_warning(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch._C._set_warn_always(True)
            try:
                torch.zeros(2, names=("N",))
            finally:
                torch._C._set_warn_always(False)
        self.assertEqual(len(caught), 1)
        self.assertIn(
            "Named tensors and all their associated APIs are an experimental feature and subject to change. "
            "Please do not use them for anything important until they are released as stable.",
            str(caught[0].message),
        )


class Printing(Case):
    def test_names(self):
        self.assertEqual(
            repr(torch.zeros(2, 3, names=("N", "C"))),
            "tensor([[0., 0., 0.],\n        [0., 0., 0.]], names=('N', 'C'))",
        )
        self.assertEqual(repr(torch.tensor([1, 2], names=("N",))), "tensor([1, 2], names=('N',))")
        x = torch.ones(1, 2, names=(None, "C"), requires_grad=True)
        self.assertEqual(repr(x), "tensor([[1., 1.]], requires_grad=True, names=(None, 'C'))")
        self.assertIn("names=('N',)", repr(torch.arange(5000).rename("N")))
        self.assertIn("names=('N',)", repr(torch.zeros(3, device="meta").rename("N")))


class Inference(Case):
    def test_unify(self):
        a = torch.randn(3, 3, names=("N", None))
        b = torch.randn(3, 3, names=(None, "C"))
        for made in (a + b, a.mul(b), torch.atan2(a, b), a < b, torch.where(a > 0, a, b), torch.lerp(a, b, 0.5),
                     torch.maximum(a, b), a.pow(b), torch.addcmul(a, a, b), a - b, a / b, a == b):
            self.check(made, "N", "C")
        self.check(a + 1, "N", None)
        self.check(2 - a, "N", None)
        self.check(a + torch.zeros(3), "N", None)
        x = torch.zeros(2, names=("X",))
        self.check(torch.zeros(3, 2) + x, None, "X")
        z = torch.zeros(2, names=("Z",))
        self.refuses("Error when attempting to broadcast dims ['X'] and dims ['Z']: dim 'X' and dim 'Z' are at "
                     "the same position from the right but do not match.", lambda: x + z)
        tall = torch.zeros(2, 2, names=("X", None))
        self.refuses("Misaligned dims when attempting to broadcast dims ['X', None] and dims ['X']: dim 'X' "
                     "appears in a different position from the right across both lists.", lambda: tall + x)

    def test_keep(self):
        x = torch.rand(2, 3, names=("N", "C"))
        for made in (
            x.abs(), x.cos(), -x, x.clamp(0, 1), x.double(), x.to(torch.float16), x.contiguous(), x.clone(),
            x.detach(), x.data, x.softmax("C"), x.log_softmax(dim="C"), F.relu(x), F.softmax(x, dim="C"),
            F.dropout(x, 0.5), torch.dropout(x, 0.5, True), x.cumsum("C"), x.cumprod(0), x.bernoulli(),
            torch.zeros_like(x), torch.rand_like(x), torch.full_like(x, 3), x.narrow(1, 0, 2), x[:, 1:], x[...],
            x.masked_fill(x > 0.5, 0.0), x.index_fill("C", torch.tensor([0]), 1.0), x.sort("C")[0],
            x.sort(dim="C", descending=True)[1], x.argsort("C"), x.topk(1)[0], x.index_select("C", torch.tensor([0])),
            x.cummax("C")[0], x.logcumsumexp(1), x.isnan(), x.flip(0), x.roll(1, 0), x.type_as(x), x.bool(),
            x.requires_grad_(False), x.round(), x.square(), torch.absolute(x), torch.tril(x), x.chunk(2, "N")[0],
            x.split(1, "C")[2], torch.split(x, 2, "C")[0], torch.chunk(x, 3, dim="C")[1], torch.softmax(x, "C"),
            torch.cumsum(x, dim="C"), x.gather("C", torch.zeros(2, 3, dtype=torch.int64)), F.log_softmax(x, "C"),
            x.cumsum("C", dtype=torch.float64), torch.normal(x, 1.0), x.cpu(), x.logical_not(), x.nan_to_num(), F.gelu(x), F.celu(x),
        ):
            self.check(made, "N", "C")

    def test_reduce(self):
        x = torch.rand(2, 3, 4, 5, names=("N", "C", "H", "W"))
        self.check(x.sum(["N", "C"]), "H", "W")
        self.check(x.sum(["N", "C"], keepdim=True), "N", "C", "H", "W")
        self.assertEqual(x.sum("C").rename(None).tolist(), x.rename(None).sum(1).tolist())
        for made in (
            x.sum("C"), x.mean("C"), x.prod("C"), x.max("C")[0], x.min("C").indices, x.median("C")[0],
            x.mode("C")[1], x.std("C"), x.var("C"), x.logsumexp("C"), x.argmax("C"), x.amax("C"), x.all("C"),
            x.any(dim="C"), x.kthvalue(1, "C")[0], x.nanmedian("C")[0], torch.std_mean(x, "C")[1],
            torch.var_mean(x, dim="C")[0], torch.norm(x, 2, "C"), x.norm(dim="C"), x.select("C", 0), x[:, 0],
            x.unbind("C")[1], torch.sum(x, "C"), torch.sum(x, dim="C"), torch.sum(x, axis="C"), x.nansum("C"),
            x.count_nonzero(1), x.aminmax(dim=1).min,
        ):
            self.check(made, "N", "H", "W")
        for made in (
            x.std("C", unbiased=False), x.max("C", keepdim=False).values, torch.logsumexp(x, ["C"]),
            torch.select(x, "C", 0), torch.unbind(x, "C")[0], x.sum("C", dtype=torch.float64), x.sum(dim=("C",)),
            torch.median(x, dim="C")[1], x.all(dim="C"), torch.linalg.vector_norm(x, dim="C"),
        ):
            self.check(made, "N", "H", "W")
        for row in x:
            self.check(row, "C", "H", "W")
        self.assertEqual(x.max("C", keepdim=True).values.names, ("N", "C", "H", "W"))
        for made in (x.sum(), x.mean(), x.max(), x.prod(), x.std(), x.all(), x.argmin(), x.norm(), x.median()):
            self.check(made)
        self.assertEqual(x.sum().item(), x.rename(None).sum().item())
        y = torch.zeros(1, 3, 1, names=("N", "C", "H"))
        self.check(y.squeeze(), "C")
        self.check(y.squeeze("N"), "C", "H")
        self.check(y.squeeze("C"), "N", "C", "H")
        self.check(y.unsqueeze(1), "N", None, "C", "H")
        self.check(y[None], None, "N", "C", "H")

    def test_permute(self):
        x = torch.rand(2, 3, 4, names=("N", "C", "L"))
        self.check(x.transpose("N", "C"), "C", "N", "L")
        self.assertEqual(tuple(x.transpose("N", "C").shape), (3, 2, 4))
        self.check(x.transpose(1, 2), "N", "L", "C")
        self.check(x.permute(2, 0, 1), "L", "N", "C")
        self.check(x.permute("L", "N", "C"), "L", "N", "C")
        self.check(x.movedim(0, 2), "C", "L", "N")
        self.check(x.mT, "N", "L", "C")
        self.check(x.swapaxes(0, 1), "C", "N", "L")
        self.check(x.select("N", 0).t(), "L", "C")
        self.check(x.select("N", 0).T, "L", "C")
        self.check(x.expand(5, 2, 3, 4), None, "N", "C", "L")
        self.check(x.diagonal(0, 0, 1), "L", None)
        self.check(x.diagonal(outdim="E", dim1="N", dim2="L", offset=1), "C", "E")
        self.check(x.diagonal(dim1="N", dim2="L"), "C", None)
        self.check(torch.transpose(x, "N", "L"), "L", "C", "N")
        self.check(torch.flatten(x, ["C", "L"], "both"), "N", "both")
        self.check(torch.zeros(1, 3, names=("N", "C")).expand(2, 3), "N", "C")

    def test_products(self):
        a, b = torch.rand(2, 3, names=("N", "D")), torch.rand(3, 4, names=("in", "out"))
        self.check(a.mm(b), "N", "out")
        self.check(a @ b, "N", "out")
        self.check(torch.matmul(a, torch.rand(3, 4)), "N", None)
        vector = torch.rand(3, names=("D",))
        self.check(a.mv(vector), "N")
        self.check(vector @ b, "out")
        self.check(vector.dot(vector))
        batches = torch.rand(5, 2, 3, names=("B", "N", "D"))
        self.check(batches.bmm(torch.rand(5, 3, 4, names=("B", "in", "out"))), "B", "N", "out")
        self.check(batches @ b, "B", "N", "out")
        self.check(torch.addmm(torch.zeros(4, names=("out",)), a, b), "N", "out")
        self.check(torch.addmv(torch.zeros(2, names=("N",)), a, vector), "N")
        self.check(F.linear(a, torch.rand(4, 3), torch.rand(4)), "N", None)
        self.check(torch.outer(vector, torch.rand(2, names=("E",))), "D", "E")
        self.refuses("Matrix multiplying Tensor['N', 'D'] with Tensor['D', 'N'] would produce output tensor with "
                     "duplicate names ['N', 'N']. Please rename the input tensors with `Tensor.rename` to "
                     "prevent this.", a.mm, a.t())
        self.refuses("Misaligned dims when batch matrix multiplying", batches.matmul,
                     torch.rand(3, 4, names=("B", "out")))
        self.refuses("Error when attempting to broadcast dims ['B'] and dims ['A']", batches.bmm,
                     torch.rand(5, 3, 4, names=("A", "in", "out")))

    def test_joining(self):
        a, b = torch.ones(2, 3, names=("N", None)), torch.zeros(2, 1, names=(None, "C"))
        self.check(torch.cat([a, b], 1), "N", "C")
        self.check(torch.cat([a, b], dim=1), "N", "C")
        self.check(torch.cat([a, a], "N"), "N", None)
        self.check(torch.stack([a, a], 1), "N", None, None)
        self.refuses("do not match", torch.cat, [a, a.rename("M", None)])
        mask = torch.tensor([[True, False, True]] * 2)
        self.check(a.masked_select(mask), None)
        self.assertEqual(a.masked_select(mask).tolist(), [1.0] * 4)

    def test_equality(self):
        a = torch.ones(2, names=("N",))
        self.assertTrue(torch.equal(a, torch.ones(2, names=("N",))))
        self.assertFalse(torch.equal(a, torch.ones(2, names=("C",))))
        self.assertFalse(torch.equal(a, torch.ones(2)))
        self.assertTrue(torch.allclose(a, torch.ones(2)))
        self.assertEqual((a.tolist(), a[0].item(), bool(a[0])), ([1.0, 1.0], 1.0, True))

    def test_unsupported(self):
        x = torch.zeros(4, names=("N",))
        for call, name in ((lambda: x.view(2, 2), "aten::view"), (lambda: x.as_strided((2,), (1,)), "aten::as_strided"),
                           (lambda: x[torch.tensor([0])], "aten::index.Tensor"), (lambda: x.histc(), "aten::histc")):
            self.refuses(
                f"{name} is not yet supported with named tensors. Please drop names via `tensor = "
                "tensor.rename(None)`, call the op with an unnamed tensor, and set names on the result of the "
                "operation.", call,
            )
        self.assertEqual(tuple(x.rename(None).view(2, 2).shape), (2, 2))


class Writing(Case):
    def test_in_place(self):
        x, y = torch.randn(3, 3), torch.randn(3, 3, names=("N", "C"))
        x += y
        self.check(x, "N", "C")
        y.abs_().mul_(2).add_(torch.ones(3, names=("C",)))
        self.check(y, "N", "C")
        y.zero_().fill_(1).uniform_().normal_()
        self.check(y, "N", "C")
        half = torch.randn(3, 3, names=("N", None))
        self.refuses("Name mismatch: specified out tensor with names ['N', None] are not the same as the computed "
                     "output names ['N', 'C']. Please rename the out tensor's dims with `Tensor.rename`.",
                     half.add_, y)
        self.refuses("do not match", y.add_, torch.zeros(3, 3, names=("C", "N")))
        self.check(y.t_(), "C", "N")
        self.check(y.transpose_(0, 1), "N", "C")
        self.check(y.unsqueeze_(0), None, "N", "C")
        self.check(y.squeeze_(), "N", "C")
        self.check(y.transpose_("N", "C"), "C", "N")
        self.check(y.unsqueeze_(1).rename_("C", "one", "N").squeeze_("one"), "C", "N")
        self.check(y.index_fill_("C", torch.tensor([0]), 0.0), "C", "N")
        self.check(y.clamp_(0, 1).masked_fill_(y > 0.5, 0.0), "C", "N")

    def test_copy(self):
        source = torch.arange(6.0).reshape(2, 3).refine_names("N", "C")
        target = torch.zeros(2, 3)
        target.copy_(source)
        self.check(target, "N", "C")
        self.assertEqual(target.rename(None).tolist(), [[0, 1, 2], [3, 4, 5]])
        self.refuses("do not match", torch.zeros(2, 3, names=("N", "D")).copy_, source)
        target.copy_(torch.ones(3))
        self.check(target, "N", "C")

    def test_out(self):
        a, b = torch.randn(3, 3, names=("N", None)), torch.randn(3, 3, names=(None, "C"))
        out = torch.empty(3, 3)
        self.assertIs(torch.add(a, b, out=out), out)
        self.check(out, "N", "C")
        torch.add(a, b, out=out)
        torch.sum(a, 1, out=(total := torch.empty(3)))
        self.check(total, "N")
        self.refuses("Name mismatch: specified out tensor with names ['A', 'B'] are not the same as the computed "
                     "output names ['N', 'C']", torch.add, a, b, out=torch.empty(3, 3, names=("A", "B")))
        unnamed = torch.ones(3, 3)
        self.refuses("Name mismatch", torch.add, unnamed, unnamed, out=torch.empty(3, 3, names=("A", "B")))

    def test_resize(self):
        x = torch.zeros(2, 3, names=("N", "C"))
        self.check(x.resize_(2, 3), "N", "C")
        self.check(x.resize_as_(torch.zeros(2, 3)), "N", "C")
        self.refuses("Cannot resize named tensor with resize_ or resize_as_ (tried to resize Tensor['N', 'C'] with "
                     "size [2, 3] to [6]).", x.resize_, 6)

    def test_data(self):
        x = torch.zeros(2, names=("N",))
        x.data = torch.ones(3)
        self.check(x, None)
        x.data = torch.ones(2, 2, names=("A", "B"))
        self.check(x, "A", "B")
        self.assertEqual((x + x).sum("B").tolist(), [4.0, 4.0])


class Elsewhere(Case):
    def test_gradients(self):
        x = torch.tensor([1.0, -2.0, 3.0], names=("D",))
        weight = torch.tensor([2.0, 0.5, 1.0], names=("D",), requires_grad=True)
        loss = (x - weight).abs()
        self.check(loss, "D")
        loss.backward(torch.tensor([1.0, 2.0, 3.0]))
        self.check(weight.grad, None)
        self.assertEqual(weight.grad.tolist(), [1.0, 2.0, -3.0])
        weight.grad.zero_()
        grad = torch.ones(3).refine_names("C")
        (x - weight).abs().backward(grad)
        self.check(weight.grad, None)
        self.assertEqual(weight.grad.tolist(), [1.0, 1.0, -1.0])

    def test_gradients_of_products(self):
        a = torch.rand(2, 3, names=("N", "D"), requires_grad=True)
        b = torch.rand(4, 3, names=("out", "in"), requires_grad=True)
        total = ((a @ b.t()).softmax("out") * torch.arange(4.0)).sum("out").square().mean()
        total.backward()
        plain = [t.detach().rename(None).requires_grad_() for t in (a, b)]
        ((plain[0] @ plain[1].t()).softmax(1) * torch.arange(4.0)).sum(1).square().mean().backward()
        for named, wanted in zip((a, b), plain):
            self.check(named.grad, None, None)
            self.assertEqual(named.grad.tolist(), wanted.grad.tolist())

    def test_second_derivatives(self):
        x = torch.tensor([1.0, 2.0], names=("D",), requires_grad=True)
        (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        self.check(first, None)
        (second,) = torch.autograd.grad(first.sum(), x)
        self.assertEqual(second.tolist(), [6.0, 12.0])
        flat = x.rename("E").align_to("new", "E").flatten(["new", "E"], "all")
        (grad,) = torch.autograd.grad((flat * flat).sum(), x)
        self.assertEqual(grad.tolist(), [2.0, 4.0])

    def test_versions_and_views(self):
        x = torch.zeros(2, 3, names=("N", "C"))
        row = x.select("N", 0)
        row.add_(1)
        self.assertEqual(x.rename(None).tolist(), [[1.0] * 3, [0.0] * 3])
        self.assertEqual(x._version, row._version)
        x[1] = 5
        self.assertEqual(x.select("N", 1).tolist(), [5.0] * 3)
        with torch.no_grad():
            self.check(x.rename(C="D")[0], "D")
        with torch.inference_mode():
            self.check(torch.zeros(2, names=("N",)) + 1, "N")

    def test_copies(self):
        x = torch.ones(2, 3, names=("N", "C"), requires_grad=True)
        self.check(copy.deepcopy(x), "N", "C")
        words = "NYI: Named tensors don't support serialization. Please drop names via `tensor = tensor.rename(None)`"
        self.refuses(words, pickle.dumps, x)
        self.refuses(words, copy.copy, x)
        self.refuses(words, torch.save, x, io.BytesIO())
        torch.save(x.rename(None), io.BytesIO())

    def test_many_dimensions(self):
        names = tuple("abcdefgh")
        x = torch.ones((1,) * 8, names=names)
        self.check(x + x, *names)
        self.check(x.sum(["b", "h"]), *"acdefg")
        self.check(x.align_to("h", ...), *"habcdefg")

    def test_other_functions(self):
        x = torch.ones(2, 3, names=("N", "C"))
        self.check(torch.func.vmap(lambda row: row + 1)(torch.ones(4, 3)) + x.select("N", 0), None, "C")
        self.assertEqual(x.numpy().shape, (2, 3))
        with torch.profiler.profile() as profile:
            self.check(x.abs(), "N", "C")
        self.assertTrue(any(event.key == "aten::abs" for event in profile.key_averages()))


if __name__ == "__main__":
    unittest.main()
