"""Results written into given tensors, several or a list of them."""

import unittest

from module_under_test import torch


class Lists(unittest.TestCase):
    def test_copies_of_views(self):
        x = torch.arange(6.0).reshape(2, 3)
        first, second = torch.empty(3), torch.empty(0)
        self.assertIsNone(torch.unbind_copy(x, out=[first, second]))
        self.assertEqual((first.tolist(), second.tolist()), ([0, 1, 2], [3, 4, 5]))
        columns = (torch.empty(2, 1), torch.empty(2, 2, dtype=torch.float32))
        self.assertIsNone(torch.split_with_sizes_copy(x, [1, 2], 1, out=columns))
        self.assertEqual(columns[1].tolist(), [[1, 2], [4, 5]])
        rows = [torch.empty(1, 3), torch.empty(1, 3, dtype=torch.float64)]
        torch.split_copy(x, 1, out=rows)
        self.assertEqual((rows[1].tolist(), rows[1].dtype), ([[3, 4, 5]], torch.float64))

    def test_refusals(self):
        x = torch.ones(2, 3)
        for out, words in (
            ([torch.empty(3)], "expected an out= argument of size 2, got size 1"),
            ([torch.empty(3), torch.empty(3, dtype=torch.int32)], "to have dtype float"),
        ):
            with self.assertRaisesRegex(RuntimeError, words):
                torch.unbind_copy(x, out=out)
        with self.assertRaises(TypeError):
            torch.unbind_copy(x, out=torch.empty(2, 3))


class Named(unittest.TestCase):
    """Operators by their schemas, in which results have names of their own."""

    def test_by_the_names_of_schemas(self):
        aten = torch.ops.aten
        grad, output, out = torch.ones(2), torch.tensor([0.25, 0.5]), torch.empty(2)
        for call in (aten.sigmoid_backward.grad_input, aten.sigmoid_backward):
            out.zero_()
            self.assertIs(call(grad, output, grad_input=out), out)
            self.assertEqual(out.tolist(), [0.1875, 0.25])
        values, places = torch.empty(2), torch.empty(2, dtype=torch.int64)
        aten.max.dim_max(torch.tensor([[1.0, 5], [3, 2]]), 0, max=values, max_values=places)
        self.assertEqual((values.tolist(), places.tolist()), ([3, 5], [1, 0]))
        self.assertIs(aten.add.out(grad, grad, out=out), out)
        with self.assertRaises((TypeError, RuntimeError)):
            aten.max.dim_max(torch.ones(2, 2), 0, max=values)


class Several(unittest.TestCase):
    def test_batch_norm(self):
        x = torch.tensor([[1.0, 2], [3, 6]])
        out = torch.empty(2, 2), torch.empty(2), torch.empty(0)
        found = torch._native_batch_norm_legit(x, None, None, True, 0.1, 0.0, out=out)
        self.assertIs(found[0], out[0])
        self.assertEqual(out[0].tolist(), [[-1, -1], [1, 1]])
        self.assertEqual((out[1].tolist(), out[2].tolist()), ([2, 4], [1, 0.5]))


if __name__ == "__main__":
    unittest.main()
