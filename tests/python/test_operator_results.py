"""Results of operators that are called through the registry: lists, tuples, None."""

import unittest

from module_under_test import torch

aten = torch.ops.aten


def outline(result):
    """Classes of a result and of what is in it."""
    if isinstance(result, (list, tuple)):
        return type(result), [outline(item) for item in result]
    return type(result)


class Lists(unittest.TestCase):
    def check(self, result, count, item=torch.Tensor):
        self.assertIs(type(result), list)
        self.assertEqual([type(one) for one in result], [item] * count)

    def test_parts(self):
        x = torch.arange(24.0).reshape(2, 3, 4)
        for result, count in (
            (aten.split(x, 1), 2), (aten.split.Tensor(x, 2, 1), 2), (aten.split_with_sizes(x, [1, 1]), 2),
            (aten.chunk(x, 2, -1), 2), (aten.unbind(x), 2), (aten.unbind.int(x, 1), 3),
            (aten.tensor_split(x, 2), 2), (aten.hsplit(x, 3), 3), (aten.vsplit(x, 2), 2),
            (aten.dsplit(x, 2), 2), (aten.unsafe_split(x, 1), 2), (aten.unsafe_chunk(x, 2), 2),
            (aten.split_copy(x, 1), 2), (aten.unbind_copy(x), 2),
        ):
            self.check(result, count)

    def test_others(self):
        x = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
        for result, count in (
            (aten.meshgrid.indexing([x[0], x[1]], indexing="ij"), 2), (aten.broadcast_tensors([x, x[0]]), 2),
            (aten.atleast_2d([x, x[0]]), 2), (aten.where(x > 0), 2), (aten.nonzero_numpy(x), 2),
            (aten.gradient(x), 2), (aten._foreach_add([x, x], 1.0), 2), (aten._foreach_norm([x]), 1),
        ):
            self.check(result, count)

    def test_functions_give_tuples(self):
        x = torch.arange(4.0)
        self.assertIs(type(torch.split(x, 2)), tuple)
        self.assertIs(type(x.unbind()), tuple)


class Several(unittest.TestCase):
    def test_plain_tuples(self):
        x = torch.tensor([[3.0, 1.0], [2.0, 5.0]])
        for result in (
            aten.max(x, 0), aten.max.dim(x, 0), aten.sort(x), aten.topk(x, 1), aten.linalg_svd(x),
            aten.linalg_qr(x), aten.slogdet(x), aten.aminmax(x), aten.frexp(x), aten.mode(x),
            aten.cummax(x, 0), aten.var_mean(x), aten._unique2(x), aten.native_layer_norm(x, [2], None, None, 1e-5),
        ):
            self.assertIs(type(result), tuple)
        self.assertIsNot(type(torch.max(x, 0)), tuple)

    def test_out(self):
        x = torch.tensor([3.0, 1.0])
        values, places = torch.empty(0), torch.empty(0, dtype=torch.int64)
        result = aten.sort.values(x, values=values, indices=places)
        self.assertIs(type(result), tuple)
        self.assertIs(result[0], values)

    def test_lists_among_several(self):
        hist, edges = aten.histogramdd(torch.rand(5, 2), [2, 3])
        self.assertEqual(outline((hist, edges)), (tuple, [torch.Tensor, (list, [torch.Tensor] * 2)]))

    def test_nothing(self):
        x = torch.zeros(2)
        self.assertIsNone(aten._foreach_add_([x, x], 1.0))
        self.assertEqual(x.tolist(), [2.0, 2.0])


class FromOutside(unittest.TestCase):
    def setUp(self):
        self.library = torch.library.Library("operator_results", "FRAGMENT")
        self.addCleanup(self.library._destroy)

    def define(self, schema, function):
        self.library.define(schema)
        name = schema.partition("(")[0]
        self.library.impl(name, function, "CPU")
        return getattr(torch.ops.operator_results, name)

    def test_kernels(self):
        x = torch.ones(2)
        for schema, function, expected in (
            ("parts(Tensor x) -> Tensor[]", lambda x: (x + 1, x + 2), (list, [torch.Tensor] * 2)),
            ("pair(Tensor x) -> (Tensor, Tensor[])", lambda x: [x + 1, (x + 2,)],
             (tuple, [torch.Tensor, (list, [torch.Tensor])])),
            ("sizes(Tensor x) -> int[]", lambda x: (3, 4), (list, [int, int])),
            ("numbers(Tensor x) -> float[]", lambda x: [3.5, 4.5], (list, [float, float])),
            ("flags(Tensor x) -> bool[]", lambda x: [True, False], (list, [bool, bool])),
            ("one(Tensor x) -> int", lambda x: 3, int),
        ):
            with self.subTest(schema=schema):
                self.assertEqual(outline(self.define(schema, function)(x)), expected)

    def test_functions_made_operators(self):
        @torch.library.custom_op(
            "operator_results::copies", mutates_args=(), schema="(Tensor x, int n) -> Tensor[]"
        )
        def copies(x, n):
            return [x.clone() for _ in range(n)]

        x = torch.ones(2, requires_grad=True)
        for result in (copies(x, 2), torch.ops.operator_results.copies(x, 2)):
            self.assertEqual(outline(result), (list, [torch.Tensor] * 2))


class InModes(unittest.TestCase):
    def test_modes_see_them_and_callers_do_not(self):
        from importlib import import_module

        seen = []
        base = import_module(f"{torch.__name__}.utils._python_dispatch").TorchDispatchMode

        class Watch(base):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                result = func(*args, **(kwargs or {}))
                seen.append(type(result))
                return result

        x = torch.arange(4.0)
        with Watch():
            parts, extremum = torch.split(x, 2), x.max(0)
        self.assertEqual(seen, [list, tuple])
        self.assertIs(type(parts), tuple)
        self.assertEqual(extremum.values.item(), 3.0)


if __name__ == "__main__":
    unittest.main()
