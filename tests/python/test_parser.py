"""Arguments: what is accepted, and the words in which the rest is refused."""

import unittest

from module_under_test import torch


class Accepted(unittest.TestCase):
    def setUp(self):
        self.t = torch.arange(6.0).reshape(2, 3)

    def test_sizes_one_by_one_or_together(self):
        for sizes in ((3, 2), ((3, 2),), ([3, 2],), (torch.Size([3, 2]),)):
            self.assertEqual(tuple(self.t.view(*sizes).shape), (3, 2))
            self.assertEqual(tuple(torch.zeros(*sizes).shape), (3, 2))

    def test_names_of_numpy(self):
        self.assertEqual(self.t.sum(axis=1, keepdims=True).tolist(), [[3.0], [12.0]])
        self.assertEqual(torch.sum(x=self.t).item(), 15.0)

    def test_numbers_as_tensors(self):
        self.assertEqual(torch.add(1, 2).item(), 3)
        self.assertEqual(torch.mul(self.t, 2)[1, 2].item(), 10.0)

    def test_tensors_as_numbers(self):
        self.assertEqual(tuple(self.t.unsqueeze(torch.tensor(0)).shape), (1, 2, 3))
        self.assertEqual(tuple(torch.zeros(torch.tensor(2), 3).shape), (2, 3))

    def test_none_where_the_default_is_none(self):
        self.assertIs(torch.empty(2, dtype=None).dtype, torch.float32)
        self.assertEqual(self.t.sum(dim=None).item(), 15.0)

    def test_none_where_the_default_is_an_empty_list(self):
        self.assertEqual(self.t.amax(None).item(), 5.0)
        self.assertEqual(torch.roll(self.t, 1, None).tolist(), [[5.0, 0.0, 1.0], [2.0, 3.0, 4.0]])
        image = torch.arange(16.0).reshape(1, 1, 4, 4)
        for pool in (torch.nn.functional.avg_pool2d, torch.max_pool2d):
            self.assertEqual(pool(image, 2, stride=None).tolist(), pool(image, 2).tolist())

    def test_python_types_as_dtypes(self):
        for kind, dtype in ((float, torch.float64), (int, torch.int64), (bool, torch.bool)):
            self.assertIs(torch.zeros(1, dtype=kind).dtype, dtype)

    def test_results_have_names(self):
        result = torch.max(self.t, dim=1)
        self.assertEqual(result.values.tolist(), [2.0, 5.0])
        self.assertEqual(result.indices.tolist(), [2, 2])
        values, indices = result
        self.assertIs(values, result[0])
        self.assertIs(type(result), torch.return_types.max)

    def test_out(self):
        out = torch.empty(0)
        self.assertIs(torch.add(self.t, 1, out=out), out)
        self.assertEqual(tuple(out.shape), (2, 3))
        values, indices = torch.empty(0), torch.empty(0, dtype=torch.int64)
        result = torch.max(self.t, 1, out=(values, indices))
        self.assertIs(result.values, values)

    def test_deprecated_orders_warn(self):
        with self.assertWarns(UserWarning):
            self.assertEqual(self.t.add(2, self.t)[0, 1].item(), 3.0)


class Refused(unittest.TestCase):
    def setUp(self):
        self.t = torch.ones(2, 3)

    def refuses(self, call, kind, *texts):
        with self.assertRaises(kind) as caught:
            call()
        for text in texts:
            self.assertIn(text, str(caught.exception))

    def test_wrong_types(self):
        self.refuses(lambda: torch.zeros(2.5), TypeError,
                     "zeros(): argument 'size' (position 1) must be tuple of ints, not float")
        self.refuses(lambda: torch.add(self.t, "x"), TypeError,
                     "add(): argument 'other' (position 2) must be Tensor, not str")
        self.refuses(lambda: self.t.unsqueeze(True), TypeError,
                     "unsqueeze(): argument 'dim' (position 1) must be int, not bool")
        self.refuses(lambda: torch.add(self.t, self.t, alpha="x"), TypeError,
                     "add(): argument 'alpha' must be Number, not str")
        self.refuses(lambda: torch.empty(2, dtype="float32"), TypeError,
                     "empty(): argument 'dtype' must be torch.dtype, not str")

    def test_elements_of_lists(self):
        self.refuses(lambda: torch.zeros((2, 2.5)), TypeError,
                     "zeros(): argument 'size' failed to unpack the object at pos 2 with error "
                     '"type must be tuple of ints,but got float"')
        self.refuses(lambda: torch.cat([self.t, 1]), TypeError,
                     "expected Tensor as element 1 in argument 0, but got int")

    def test_counts(self):
        self.refuses(lambda: torch.transpose(self.t, 0), TypeError,
                     'transpose() missing 1 required positional arguments: "dim1"')
        self.refuses(lambda: torch.transpose(self.t, 0, 1, 2), TypeError,
                     "transpose() takes 3 positional arguments but 4 were given")
        self.refuses(lambda: self.t.relu(1), TypeError,
                     "TensorBase.relu() takes no arguments (1 given)")
        self.refuses(lambda: self.t.permute([0, 1], 2), TypeError,
                     "permute() takes 1 positional argument but 2 were given")

    def test_keywords(self):
        self.refuses(lambda: torch.zeros(2, foo=1), TypeError,
                     "zeros() got an unexpected keyword argument 'foo'")

    def test_several_signatures(self):
        self.refuses(lambda: self.t.view("x"), TypeError,
                     "view() received an invalid combination of arguments - got (str), but "
                     "expected one of:\n * (torch.dtype dtype)\n"
                     "      didn't match because some of the arguments have invalid types: (!str!)"
                     "\n * (tuple of ints size)\n")
        self.refuses(lambda: self.t.max(1, 2, 3), TypeError,
                     "max() received an invalid combination of arguments - got (int, int, int), "
                     "but expected one of:\n * ()\n * (Tensor other)\n"
                     " * (int dim, bool keepdim = False)\n")

    def test_operators(self):
        self.refuses(lambda: self.t + "x", TypeError,
                     "unsupported operand type(s) for +: 'Tensor' and 'str'")
        self.refuses(lambda: self.t < "x", TypeError,
                     "'<' not supported between instances of 'Tensor' and 'str'")
        self.assertIs(self.t == "x", False)
        self.assertIs(self.t != None, True)  # noqa: E711

    def test_indices(self):
        for index in (1.5, (0, 0, 0), 5, slice(None, None, -1)):
            kind = ValueError if isinstance(index, slice) else IndexError
            self.refuses(lambda index=index: self.t[index], kind)

    def test_numbers_that_are_not_there(self):
        self.refuses(lambda: bool(self.t), RuntimeError, "is ambiguous")
        self.refuses(lambda: int(self.t), ValueError, "only one element tensors")
        self.refuses(lambda: self.t.item(), RuntimeError,
                     "a Tensor with 6 elements cannot be converted to Scalar")
        self.refuses(lambda: len(torch.tensor(1)), TypeError, "len() of a 0-d tensor")
        self.refuses(lambda: [1, 2][self.t], TypeError, "only integer tensors of a single element")


class Data(unittest.TestCase):
    def test_dtypes_of_numbers(self):
        cases = (([1, 2], torch.int64), ([1, 1.5], torch.float32), ([True, 1], torch.int64),
                 ([True, False], torch.bool), ([1, 1j], torch.complex64), ([], torch.float32))
        for data, dtype in cases:
            self.assertIs(torch.tensor(data).dtype, dtype, data)

    def test_shapes(self):
        self.assertEqual(tuple(torch.tensor([[]]).shape), (1, 0))
        self.assertEqual(tuple(torch.tensor([[[]], [[]]]).shape), (2, 1, 0))
        with self.assertRaisesRegex(ValueError, r"expected sequence of length 2 at dim 1 \(got 1\)"):
            torch.tensor([[1, 2], [3]])

    def test_ranges(self):
        self.assertEqual(torch.tensor([-1], dtype=torch.uint8).item(), 255)
        with self.assertRaises(RuntimeError):
            torch.tensor([300], dtype=torch.uint8)
        with self.assertRaisesRegex(ValueError, "Overflow when unpacking long long"):
            torch.tensor([2**63])
        self.assertEqual(torch.tensor([1.9, -1.9], dtype=torch.int32).tolist(), [1, -1])

    def test_what_is_no_data(self):
        with self.assertRaisesRegex(ValueError, "too many dimensions .str."):
            torch.tensor(["a"])
        with self.assertRaisesRegex(RuntimeError, "Could not infer dtype of NoneType"):
            torch.tensor([None])


if __name__ == "__main__":
    unittest.main()
