"""Views with negative strides: slices with negative steps, and every operator on them."""

import copy
import io
import pickle
import unittest
import warnings
import zlib

import corten
import forward_cases
import numpy as np
from corten import ops

# Operators that look at strides, offsets or the storage itself, or whose answer is the layout.
OF_LAYOUT = (
    "as_strided", "_reshape_alias", "set_", "resize", "is_set_to", "view_as_complex", "flip_view",
    "_unsafe_view", "view", "unsafe_split", "detach_",
)


class Reversed(forward_cases.Maker):
    """Makes arguments as views with negative strides, of the same elements."""

    def __init__(self, torch, kind, dtype, layout):
        super().__init__(torch, kind, dtype, "contiguous")

    def arrange(self, values, sizes, dtype):
        tensor = super().arrange(values, sizes, dtype)
        if not sizes or 0 in sizes:
            return tensor
        whole = (slice(None, None, -1),) * len(sizes)
        result = tensor.flip(tuple(range(len(sizes))))[whole]
        assert all(step < 0 for step, size in zip(result.stride(), sizes) if size > 1)
        return result


def output_of(operator, case, sizes):
    """An output for an operator that takes one: to be resized, or of these sizes and with negative strides."""
    dtype = getattr(corten, case[2])
    if sizes is None:
        return corten.empty(0, dtype=dtype)
    whole = (slice(None, None, -1),) * len(sizes)
    return corten.zeros(sizes, dtype=dtype)[whole] if sizes else corten.zeros(sizes, dtype=dtype)


def call(maker, operator, case, sizes=None):
    """What an operator gives: dtypes, sizes and bytes of tensors, or the class of the error."""
    words, kind, dtype, _, _ = case
    schema = operator.schema
    positional, keywords = maker(corten, kind, dtype, "contiguous").arguments(schema, words)
    for argument in schema.outputs:
        keywords[argument.name] = output_of(operator, case, sizes)
    if operator.random:
        corten.manual_seed(11)
    try:
        result = forward_cases.find(corten, operator, None)(*positional, **keywords)
        written = dict(zip((a.name for a in schema.arguments), positional)) | keywords
        after = [written[a.name] for a in schema.written if a.name in written]
        return [without_layout(forward_cases.outcome(corten, r, bytes, False, operator.unwritten))
                for r in (result, *after)]
    except Exception as error:  # pylint: disable=broad-exception-caught
        return ["error", type(error).__name__]


def without_layout(told):
    if told[0] == "tensor":
        return [*told[:3], told[4]]
    return [without_layout(part) if isinstance(part, list) else part for part in told]


def agree(one, other):
    """Whether results are the same up to the order in which sums are computed."""
    if one == other:
        return True
    if type(one) is not type(other) or not isinstance(one, list) or len(one) != len(other):
        return False
    if one[:1] == ["tensor"] and one[:3] == other[:3] and one[1] in ("float32", "float64", "complex64", "complex128"):
        left, right = (np.frombuffer(told[3], one[1]) for told in (one, other))
        return np.allclose(left, right, 1e-4, 1e-5, equal_nan=True)
    if one[:1] == ["number"]:
        return np.allclose(complex(one[2]), complex(other[2]), 1e-4, 1e-5, equal_nan=True)
    return all(agree(a, b) for a, b in zip(one, other))


class NegativeSteps(unittest.TestCase):
    """The switch, and what the views are."""

    def setUp(self):
        corten.set_negative_steps(True)
        self.addCleanup(corten.set_negative_steps, False)

    def test_the_switch_is_off_at_first(self):
        self.assertTrue(corten.are_negative_steps_enabled())
        corten.set_negative_steps(False)
        x = corten.arange(4)
        with self.assertRaisesRegex(ValueError, "step must be greater than zero"):
            x[::-1]
        with self.assertRaisesRegex(ValueError, "step must be greater than zero"):
            x[::-1] = 0

    def test_slices_are_those_of_numpy(self):
        ends = (None, -9, -5, -4, -1, 0, 1, 3, 4, 9)
        array = np.arange(5)
        x = corten.arange(5)
        for start in ends:
            for stop in ends:
                for step in (-1, -2, -3, -7, -(2**62)):
                    key = slice(start, stop, step)
                    self.assertEqual(x[key].tolist(), array[key].tolist(), key)
        array, x = np.arange(60).reshape(3, 4, 5), corten.arange(60).reshape(3, 4, 5)
        for key in ((slice(None), slice(None, None, -2)), (Ellipsis, slice(None, None, -1)), (1, slice(3, 0, -1)),
                    (slice(None, None, -1), None, 2), (slice(None, None, -1), slice(None), slice(4, 1, -2))):
            self.assertEqual(x[key].tolist(), array[key].tolist(), key)
            if None not in key:
                self.assertEqual(x[key].stride(), tuple(s // 8 for s in array[key].strides))
        with self.assertRaisesRegex(ValueError, "slice step cannot be zero"):
            x[::0]

    def test_they_are_views(self):
        x = corten.arange(6.0)
        view = x[::-2]
        self.assertEqual((view.stride(), view.storage_offset(), view.is_contiguous()), ((-2,), 5, False))
        self.assertEqual(view.data_ptr(), x.data_ptr() + 20)
        self.assertEqual(view.untyped_storage().data_ptr(), x.untyped_storage().data_ptr())
        view.mul_(10)
        view[0] = -1
        self.assertEqual(x.tolist(), [0, 10, 2, 30, 4, -1])
        x[::-1] = corten.arange(6.0)
        self.assertEqual(x.tolist(), [5, 4, 3, 2, 1, 0])
        x[4:1:-1] += 100
        self.assertEqual(x.tolist(), [5, 4, 103, 102, 101, 0])
        x.copy_(x[::-1])
        self.assertEqual(x.tolist(), [0, 101, 102, 103, 4, 5])
        self.assertEqual(x._version, 6)
        self.assertTrue(view.contiguous().is_contiguous() and view.clone().stride() == (1,))

    def test_views_of_views(self):
        x = corten.arange(24).reshape(2, 3, 4)
        array = x.numpy()
        view, expected = x[:, ::-1], array[:, ::-1]
        for one, other in (
            (view.transpose(0, 2), expected.transpose(2, 1, 0)), (view[1], expected[1]), (view[:, 1], expected[:, 1]),
            (view.permute(1, 2, 0), expected.transpose(1, 2, 0)), (view[:, ::-1], array),
            (view.unsqueeze(1), expected[:, None]), (view.diagonal(0, 1, 2), expected.diagonal(0, 1, 2)),
            (view[..., None, :].squeeze(), expected), (view.reshape(6, 4), expected.reshape(6, 4)),
            (view.flatten(), expected.flatten()), (view.narrow(1, 1, 2), expected[:, 1:]),
            (view.unfold(2, 2, 1)[..., 1], expected[..., 1:]), (view.expand(2, 2, 3, 4)[1], expected),
            (view.view(2, 3, 2, 2), expected.reshape(2, 3, 2, 2)), (view.detach(), expected),
            (view.view(corten.int32)[..., ::2], expected), (view.chunk(3, 1)[0], expected[:, :1]),
            (corten.stack(view.unbind(1), 1), expected), (view.contiguous(), expected),
        ):
            self.assertEqual(one.tolist(), other.tolist())
        self.assertEqual(view[:, ::-1].stride(), x.stride())
        self.assertTrue(view[:, ::-1].is_contiguous())

    def test_metadata_in_place(self):
        view = corten.arange(6).reshape(2, 3)[:, ::-1]
        self.assertEqual(view.t_().stride(), (-1, 3))
        self.assertEqual(view.unsqueeze_(0).tolist(), [[[2, 5], [1, 4], [0, 3]]])
        view.resize_(2)
        self.assertEqual((view.stride(), view.storage_offset()), ((1,), 2))
        view = corten.arange(3)[::-1]
        self.assertEqual(corten.arange(3).set_(view).tolist(), [2, 1, 0])
        with self.assertRaisesRegex(RuntimeError, "Negative strides are not supported"):
            view.as_strided((2,), (-1,))

    def test_outputs_and_resizing(self):
        x = corten.arange(4.0)
        corten.add(x[::-1], 1, out=x[::-1])
        self.assertEqual(x.tolist(), [1, 2, 3, 4])
        out = corten.zeros(3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            corten.add(x, 1, out=out[::-1])
        values, indices = corten.zeros(4), corten.zeros(4, dtype=corten.int64)
        corten.sort(x[::-1], out=(values[::-1], indices[::-1]))
        self.assertEqual((values.tolist(), indices.tolist()), ([4, 3, 2, 1], [0, 1, 2, 3]))

    def test_exports(self):
        x = corten.arange(6.0).reshape(2, 3)
        view = x[::-1, ::-1]
        array = view.numpy()
        self.assertEqual(array.tolist(), [[5, 4, 3], [2, 1, 0]])
        array[0, 0] = -1
        self.assertEqual(x[1, 2].item(), -1)
        exported = np.from_dlpack(view)
        self.assertEqual(exported.tolist(), array.tolist())
        self.assertTrue(all(step > 0 for step in exported.strides))
        with self.assertRaisesRegex(BufferError, "negative strides"):
            view.__dlpack__(copy=False)
        self.assertEqual(str(view), str(view.contiguous()))
        self.assertEqual(np.asarray(view).tolist(), view.tolist())
        self.assertEqual(view.to(corten.float64).sum().item(), view.contiguous().sum().item())

    def test_files_and_copies(self):
        x = corten.arange(6.0).reshape(2, 3)
        view = x[:, ::-1]
        for made in (copy.copy(view), copy.deepcopy(view), pickle.loads(pickle.dumps(view)), self.saved(view)):
            self.assertEqual(made.tolist(), view.tolist())
        self.assertTrue(all(step > 0 for step in self.saved(view).stride()))
        leaf = view.detach().requires_grad_()
        self.assertTrue(self.saved(leaf).requires_grad)
        self.assertEqual(self.saved([view, x])[0].tolist(), view.tolist())

    def saved(self, value):
        file = io.BytesIO()
        corten.save(value, file)
        return corten.load(io.BytesIO(file.getvalue()))

    def test_gradients(self):
        x = corten.arange(6.0, dtype=corten.float64).reshape(2, 3).requires_grad_()
        weights = corten.arange(1.0, 7, dtype=corten.float64).reshape(2, 3)
        (x[:, ::-1] * weights).sum().backward()
        self.assertEqual(x.grad.tolist(), weights.flip(1).tolist())
        self.assertTrue(corten.autograd.gradcheck(lambda t: (t[::-1, ::-2] ** 3).cumsum(1), (x,)))
        self.assertTrue(corten.autograd.gradgradcheck(lambda t: t[::-1, ::-2] ** 3, (x,)))

        def in_place(t):
            y = t * 2
            view = y[:, ::-1]
            view[0].mul_(t[1])
            view.pow_(2)
            y[::-1] *= t
            return y, view

        def reference(t):
            y = t * 2
            view = y.flip(1)
            view = corten.stack([view[0] * t[1], view[1]]) ** 2
            y = (view.flip(1).flip(0) * t).flip(0)
            return y, y.flip(1)

        for one, other in zip(in_place(x), reference(x)):
            corten.testing.assert_close(one, other)
        self.assertTrue(corten.autograd.gradcheck(in_place, (x,)))
        for place in (0, 1):
            one, = corten.autograd.grad(in_place(x)[place].sum(), x)
            other, = corten.autograd.grad(reference(x)[place].sum(), x)
            corten.testing.assert_close(one, other)

    def test_leaves_with_negative_strides(self):
        leaf = corten.arange(4.0)[::-1].requires_grad_()
        (leaf * corten.arange(4.0)).sum().backward()
        self.assertEqual(leaf.grad.tolist(), [0, 1, 2, 3])
        with self.assertRaisesRegex(RuntimeError, "a leaf Variable that requires grad"):
            leaf.mul_(2)
        with corten.no_grad():
            leaf.mul_(2)
        self.assertEqual(leaf.tolist(), [6, 4, 2, 0])
        base = corten.arange(4.0)[::-1].detach()
        base[1:].mul_(leaf[1:])
        base.sum().backward()
        self.assertEqual(leaf.grad.tolist(), [0, 3, 3, 3])

    def test_transforms(self):
        x = corten.arange(12.0).reshape(3, 4)
        self.assertEqual(corten.vmap(lambda row: row[::-1] * 2)(x).tolist(), (x.flip(1) * 2).tolist())
        self.assertEqual(corten.vmap(lambda row: row * 2)(x[:, ::-1]).tolist(), (x.flip(1) * 2).tolist())
        self.assertEqual(corten.vmap(lambda row: row.sum())(x[::-1]).tolist(), x.sum(1).flip(0).tolist())
        weights = corten.arange(1.0, 5)
        found = corten.func.grad(lambda row: (row[::-1] * weights).sum())(x[0])
        self.assertEqual(found.tolist(), [4, 3, 2, 1])
        value, tangent = corten.func.jvp(lambda row: row[::-1] ** 2, (weights,), (corten.ones(4),))
        self.assertEqual((value.tolist(), tangent.tolist()), ([16, 9, 4, 1], [8, 6, 4, 2]))

    def test_meta(self):
        x = corten.zeros(3, 4, device="meta")[:, ::-1]
        self.assertEqual((x.stride(), (x + 1).shape, (x + 1).stride()), ((4, -1), (3, 4), (4, 1)))

    def test_kernels_from_outside(self):
        library = corten.library.Library("negative_strides_test", "DEF")
        library.define("strides(Tensor x) -> Tensor")
        library.impl("strides", lambda x: corten.tensor(x.stride()), "CPU")
        found = corten.ops.negative_strides_test.strides(corten.zeros(2, 3)[::-1])
        self.assertEqual(found.tolist(), [3, 1])


class EveryOperator(unittest.TestCase):
    """The operators of the registry, on views with negative strides and on contiguous tensors."""

    def setUp(self):
        corten.set_negative_steps(True)
        self.addCleanup(corten.set_negative_steps, False)
        self.enterContext(warnings.catch_warnings())
        warnings.simplefilter("ignore")

    def test_results_are_the_same(self):
        differences, compared = [], 0
        for operator in forward_cases.operators(ops.all()):
            outputs = operator.schema.outputs
            if operator.schema.base.startswith(OF_LAYOUT) or len(outputs) > 1 or any(a.list for a in outputs):
                continue
            turn, cases = zlib.crc32(operator.schema.base.encode()), {}
            for case in operator.cases():
                if case[3] == "contiguous":
                    cases.setdefault(str(case[0]), []).append(case)
            for one_sample in cases.values():
                # Of each sample two classes of dtypes: real floating point, and one of the others in turn.
                for case in (one_sample[3], one_sample[turn % 5]):
                    wanted = call(forward_cases.Maker, operator, case)
                    sizes = wanted[0][2] if outputs and wanted[0][0] == "tensor" else None
                    found = call(Reversed, operator, case, sizes)
                    if not agree(wanted, found):
                        differences.append(f"{operator.name} {case}: {str(found)[:200]} instead of {str(wanted)[:200]}")
                    compared += wanted[0] != "error"
        self.assertEqual(differences[:30], [], f"{len(differences)} calls differ")
        self.assertGreaterEqual(compared, 2500)


if __name__ == "__main__":
    unittest.main()
