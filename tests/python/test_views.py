"""Views: sizes, strides, offsets, sharing, versions."""

import unittest

from module_under_test import torch


def geometry(t):
    return tuple(t.shape), t.stride(), t.storage_offset()


class Geometry(unittest.TestCase):
    def setUp(self):
        self.t = torch.arange(24).view(2, 3, 4)

    def check(self, view, shape, stride, offset=0):
        self.assertEqual(geometry(view), (shape, stride, offset))

    def test_slices(self):
        self.check(self.t[:, ::2], (2, 2, 4), (12, 8, 1))
        self.check(self.t[:, 5:9], (2, 0, 4), (12, 4, 1), 12)
        self.check(self.t[:, -1:], (2, 1, 4), (12, 4, 1), 8)

    def test_unsqueeze_and_transpose(self):
        self.check(self.t.unsqueeze(-1), (2, 3, 4, 1), (12, 4, 1, 1))
        self.check(self.t.transpose(0, 2).unsqueeze(1), (4, 1, 3, 2), (1, 12, 4, 12))

    def test_unfold(self):
        self.check(self.t.unfold(2, 3, 2), (2, 3, 1, 3), (12, 4, 2, 1))

    def test_diagonal(self):
        self.check(self.t.diagonal(), (4, 2), (1, 16))
        self.check(self.t.diagonal(1, 1, 2), (2, 3), (12, 5), 1)
        self.check(self.t.diagonal(-1, 1, 2), (2, 2), (12, 5), 4)
        self.check(self.t.diagonal(9, 1, 2), (2, 0), (12, 5))

    def test_expand_then_clone(self):
        self.assertEqual(torch.ones(1, 3).expand(4, 3).clone().stride(), (3, 1))

    def test_channels_last(self):
        t = torch.empty(2, 3, 4, 5).to(memory_format=torch.channels_last)
        self.assertEqual(t.stride(), (60, 1, 15, 3))
        self.assertTrue(t.is_contiguous(memory_format=torch.channels_last))

    def test_view_of_a_permuted_tensor(self):
        t = torch.arange(24).view(2, 3, 4).permute(0, 2, 1)
        self.assertEqual(t.view(2, 1, 4, 3, 1).stride(), (12, 4, 1, 4, 4))
        with self.assertRaisesRegex(RuntimeError, "view size is not compatible"):
            t.view(24)

    def test_view_as_another_dtype(self):
        self.assertEqual(tuple(torch.ones(2, 3).view(torch.int16).shape), (2, 6))
        self.assertEqual(tuple(torch.ones(2, 4).view(torch.float64).shape), (2, 2))

    def test_complex_parts(self):
        z = torch.zeros(2, 3, dtype=torch.complex64)
        self.check(z.real, (2, 3), (6, 2))
        self.check(z.imag, (2, 3), (6, 2), 1)

    def test_pieces(self):
        sizes = lambda pieces: [p.size(0) for p in pieces]
        self.assertEqual(sizes(torch.arange(10).chunk(4)), [3, 3, 3, 1])
        self.assertEqual(sizes(torch.arange(10).tensor_split(4)), [3, 3, 2, 2])
        self.assertEqual(sizes(torch.arange(6).chunk(4)), [2, 2, 2])

    def test_as_strided_stays_in_bounds(self):
        with self.assertRaises(RuntimeError):
            self.t.as_strided((9, 9), (9, 9))

    def test_dim_out_of_range(self):
        with self.assertRaisesRegex(
            IndexError, r"Dimension out of range \(expected to be in range of \[-3, 2\], but got 3\)"
        ):
            self.t.transpose(0, 3)

    def test_expand_error(self):
        with self.assertRaisesRegex(RuntimeError, r"The expanded size of the tensor \(4\) must match"):
            torch.ones(3).expand(4)


class Sharing(unittest.TestCase):
    def test_a_write_through_one_view_is_seen_through_all(self):
        t = torch.zeros(3, 4)
        t[1].fill_(2)
        t.t()[0, 2] = 5
        self.assertEqual(t.tolist(), [[0, 0, 0, 0], [2, 2, 2, 2], [5, 0, 0, 0]])

    def test_version_counter(self):
        x = torch.zeros(4)
        seen = [x._version]

        def step(action):
            action()
            seen.append(x._version)

        step(lambda: x.add_(1))
        step(lambda: x.view(2, 2).mul_(2))
        step(lambda: x.data.add_(1))
        step(lambda: x.detach().add_(1))
        step(lambda: x.__setitem__(0, 5))
        step(lambda: x.copy_(torch.ones(4)))
        step(lambda: x.resize_(4))
        step(lambda: x.zero_())
        step(lambda: torch.add(x, 1, out=x))
        self.assertEqual(seen, [0, 1, 2, 2, 3, 4, 5, 5, 6, 7])

    def test_resize_keeps_the_storage(self):
        x = torch.arange(6)
        x.resize_(2, 2)
        self.assertEqual(x.untyped_storage().nbytes(), 48)
        x.resize_(4, 4)
        self.assertEqual(x.untyped_storage().nbytes(), 128)


class Indexing(unittest.TestCase):
    def setUp(self):
        self.t = torch.arange(24).view(2, 3, 4)

    def test_integers_are_selects(self):
        self.assertEqual(tuple(self.t[0, :, [0, 1]].shape), (3, 2))
        self.assertEqual(tuple(self.t[[0, 1], :, [0, 1]].shape), (2, 3))
        self.assertEqual(tuple(self.t[[0, 1], None, [0, 1]].shape), (2, 1, 4))
        self.assertEqual(tuple(self.t[:, [0, 1], [0, 1]].shape), (2, 2))

    def test_masks(self):
        mask = torch.tensor([[True, False, True], [False, True, False]])
        self.assertEqual(tuple(self.t[mask].shape), (3, 4))
        self.assertEqual(self.t[mask, 0].tolist(), [0, 8, 16])
        with self.assertRaisesRegex(IndexError, r"The shape of the mask \[2\] at index 0"):
            self.t[0][torch.tensor([True, False])]

    def test_assignment(self):
        z = torch.zeros(3)
        z[[0, 0, 1]] = torch.tensor([1.0, 2.0, 3.0])
        self.assertEqual(z.tolist(), [2, 3, 0])
        z = torch.zeros(3)
        z.index_put_((torch.tensor([0, 0, 1]),), torch.ones(3), accumulate=True)
        self.assertEqual(z.tolist(), [2, 1, 0])
        z = torch.zeros(3, dtype=torch.int64)
        z[1] = 1.7
        self.assertEqual(z.tolist(), [0, 1, 0])
        z[z > 0] = 7
        self.assertEqual(z.tolist(), [0, 7, 0])

    def test_truth_values(self):
        self.assertEqual(tuple(self.t[True].shape), (1, 2, 3, 4))
        self.assertEqual(tuple(self.t[False].shape), (0, 2, 3, 4))
        self.assertEqual(tuple(self.t[0, True].shape), (1, 3, 4))

    def test_errors(self):
        cases = [
            (IndexError, "index 5 is out of bounds for dimension 0 with size 2", lambda: self.t[5]),
            (IndexError, "too many indices for tensor of dimension 3", lambda: self.t[0, 0, 0, 0]),
            (IndexError, "invalid index of a 0-dim tensor", lambda: self.t[0, 0, 0][0]),
            (IndexError, "tensors used as indices must be long", lambda: self.t[torch.ones(1)]),
            (IndexError, "index 9 is out of bounds", lambda: self.t[torch.tensor([9])]),
            (IndexError, "shape mismatch: indexing tensors", lambda: self.t[[0, 1], [0, 1, 2]]),
            (ValueError, "step must be greater than zero", lambda: self.t[::-1]),
        ]
        for error, text, action in cases:
            with self.subTest(text), self.assertRaisesRegex(error, text):
                action()


if __name__ == "__main__":
    unittest.main()
