"""Operators that write to sparse tensors: values, dtypes, and the history that they make."""

import copy
import gc
import unittest
import weakref

from module_under_test import torch

CORTEN = torch.__name__ == "corten"
DENSE = [[1.0, 2.0, 0.0], [0.0, 5.0, 6.0]]
#: Operators in place, with the function of dense tensors that they are.
IN_PLACE = {
    "mul number": (lambda x, o: x.mul_(2), lambda x, o: x * 2),
    "mul tensor": (lambda x, o: x.mul_(o), lambda x, o: x * o),
    "div": (lambda x, o: x.div_(4), lambda x, o: x / 4),
    "neg": (lambda x, o: x.neg_(), lambda x, o: -x),
    "relu": (lambda x, o: x.relu_(), lambda x, o: x.relu()),
    "add": (lambda x, o: x.add_(o, alpha=3), lambda x, o: x + 3 * o),
    "sub": (lambda x, o: x.sub_(o), lambda x, o: x - o),
    "twice": (lambda x, o: x.mul_(2).mul_(o), lambda x, o: x * 2 * o),
    "copy": (lambda x, o: x.copy_(o), lambda x, o: o * 1),
    "t": (lambda x, o: x.t_(), lambda x, o: x.t()),
    "transpose": (lambda x, o: x.transpose_(0, 1), lambda x, o: x.transpose(0, 1)),
}
if not CORTEN:
    del IN_PLACE["copy"]  # which has no gradient of what is overwritten


def sparse(layout, numbers=DENSE, **options):
    dense = torch.tensor(numbers, dtype=torch.float64, **options)
    return dense.to_sparse() if layout == "coo" else getattr(dense, f"to_sparse_{layout}")()


class InPlace(unittest.TestCase):
    def check(self, layout, name):
        write, function = IN_PLACE[name]
        leaf, other = sparse(layout).requires_grad_(), sparse(layout, [[2.0, 3.0, 0.0], [0.0, 4.0, 7.0]])
        other.requires_grad_()
        made = leaf * 1.5
        result = write(made, other)
        self.assertIs(result, made)
        self.assertTrue(made.requires_grad)
        made.to_dense().square().sum().backward()
        dense, factor = (x.detach().to_dense().requires_grad_() for x in (leaf, other))
        expected = function(dense * 1.5, factor)
        expected.square().sum().backward()
        self.assertEqual(made.to_dense().tolist(), expected.tolist(), name)
        for x, y in ((leaf, dense), (other, factor)):
            wanted = torch.zeros_like(y) if y.grad is None else y.grad
            places = y.detach() != 0
            found = torch.zeros_like(y) if x.grad is None else x.grad.to_dense()
            self.assertEqual((found * places).tolist(), (wanted * places).tolist(), name)

    def test_history_of_coordinates(self):
        for name in IN_PLACE:
            with self.subTest(name):
                self.check("coo", name)

    def test_history_of_compressed_rows(self):
        for name in ("mul number", "neg", "relu", "add"):
            with self.subTest(name):
                self.check("csr", name)

    def test_a_tensor_without_history_gets_one(self):
        leaf = sparse("coo").requires_grad_()
        for write in (lambda x: x.copy_(leaf), lambda x: x.mul_(leaf), lambda x: x.add_(leaf)):
            x = sparse("coo")
            write(x)
            self.assertTrue(x.requires_grad)
            self.assertIsNotNone(x.grad_fn)

    def test_copy_keeps_the_dtype(self):
        source = sparse("coo").requires_grad_()
        x = torch.zeros(2, 3, dtype=torch.float32).to_sparse()
        x.copy_(source)
        self.assertEqual(x.dtype, torch.float32)
        (x * 2).to_dense().sum().backward()
        self.assertEqual(source.grad.dtype, torch.float64)
        self.assertEqual(source.grad.to_dense().tolist(), [[2.0, 2.0, 0.0], [0.0, 2.0, 2.0]])

    def test_zeros(self):
        for layout in ("coo", "csr"):
            leaf = sparse(layout).requires_grad_()
            x = leaf * 2
            x.zero_()
            self.assertEqual(x._nnz(), 0)
            self.assertEqual(x.to_dense().count_nonzero(), 0)
            x.to_dense().sum().backward()
            if leaf.grad is not None:
                self.assertEqual(leaf.grad.to_dense().count_nonzero(), 0)

    def test_leaves_are_not_written_to(self):
        for layout in ("coo", "csr"):
            leaf = sparse(layout).requires_grad_()
            for write in (lambda x: x.mul_(2), lambda x: x.zero_(), lambda x: x.copy_(sparse(layout))):
                with self.assertRaisesRegex(RuntimeError, "a leaf Variable that requires grad"):
                    write(leaf)
            with torch.no_grad():
                leaf.mul_(2)
            self.assertEqual(leaf.detach().to_dense()[1, 2], 12)

    def check_gradient(self, function, expected):
        """The gradient is right, or is refused since an operand was written to."""
        try:
            found = function()
        except RuntimeError as error:
            self.assertIn("modified by an inplace operation", str(error))
            return
        self.assertEqual(found.to_dense().tolist() if found.layout != torch.strided else found.tolist(), expected)

    def test_operands_of_earlier_operators(self):
        for layout in ("coo", "csr"):
            def of_leaf(operator, write, layout=layout):
                leaf, other = sparse(layout).requires_grad_(), sparse(layout)
                made = operator(leaf, other)
                write(other)
                made.to_dense().sum().backward()
                return leaf.grad

            number = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
            for write in (lambda x: x.mul_(10), lambda x: x.mul_(number), lambda x: x.zero_()):
                self.check_gradient(lambda: of_leaf(lambda a, b: a * b, write), DENSE)

            def of_dense(layout=layout):
                x, y = sparse(layout), torch.ones(3, 2, dtype=torch.float64, requires_grad=True)
                made = x @ y
                x.mul_(10)
                made.sum().backward()
                return y.grad

            self.check_gradient(of_dense, [[1.0, 1.0], [7.0, 7.0], [6.0, 6.0]])

            def of_matrix(layout=layout):
                x, y = sparse(layout).requires_grad_(), torch.ones(3, 2, dtype=torch.float64)
                made = x @ y
                y.mul_(10)
                made.sum().backward()
                return x.grad

            self.check_gradient(of_matrix, [[2.0] * 3] * 2)

    def test_operands_whose_elements_no_gradient_asks_for(self):
        for layout in ("coo", "csr"):
            x, y = sparse(layout), torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
            made = y + x
            x.mul_(10)
            made.add_(1)
            made.sum().backward()
            self.assertEqual(y.grad.tolist(), [[1.0] * 3] * 2)

    def test_no_cycle_is_left(self):
        leaf = sparse("coo").requires_grad_()
        gc.collect()
        gc.disable()
        try:
            x = leaf * 2
            x.mul_(3)
            gone = weakref.ref(x)
            del x
            self.assertIsNone(gone())
        finally:
            gc.enable()

    def test_copies_of_written_leaves(self):
        x = sparse("coo")
        x.mul_(2)
        self.assertEqual(copy.deepcopy(x).to_dense().tolist(), x.to_dense().tolist())


class Casts(unittest.TestCase):
    def test_in_place_results_fit_the_dtype(self):
        for layout in ("coo", "csr"):
            x = sparse(layout).to(torch.int64)
            for name in ("sin", "sqrt", "tanh", "expm1", "erf"):
                with self.assertRaisesRegex(RuntimeError, "result type Float can't be cast"):
                    getattr(x, f"{name}_")()
            with self.assertRaisesRegex(RuntimeError, "can't be cast|must match dtype"):
                x.mul_(2.5)
            x.neg_()
            self.assertEqual(x.to_dense()[1, 2], -6)

    def test_absolute_values_of_complex_numbers(self):
        x = sparse("csr").to(torch.complex64)
        with self.assertRaisesRegex(RuntimeError, "not supported"):
            x.abs_()

    @unittest.skipUnless(CORTEN, "PyTorch copies the entries of outputs only")
    def test_outputs_take_the_shape(self):
        out = torch.ones(1, 3, dtype=torch.float64).to_sparse_csr()
        torch.sin(sparse("csr"), out=out)
        self.assertEqual(out.shape, (2, 3))
        self.assertEqual(out.to_dense().tolist(), sparse("csr").to_dense().sin().tolist())
        with self.assertRaisesRegex(RuntimeError, "can't be cast"):
            torch.sin(sparse("csr"), out=out.to(torch.int32))

    def test_methods_of_the_class(self):
        """Methods called by the class ask the tensor's layout, too."""
        for layout in ("coo", "csr"):
            for name, kind in (
                ("double", torch.float64), ("float", torch.float32), ("half", torch.float16),
                ("long", torch.int64), ("int", torch.int32), ("bool", torch.bool),
                ("cfloat", torch.complex64), ("cdouble", torch.complex128), ("byte", torch.uint8),
            ):
                made = getattr(torch.Tensor, name)(sparse(layout))
                self.assertEqual((made.dtype, made.layout), (kind, sparse(layout).layout), name)
                self.assertEqual(getattr(sparse(layout), name)().dtype, kind)
                self.assertEqual(made._nnz(), 4)


if __name__ == "__main__":
    unittest.main()
