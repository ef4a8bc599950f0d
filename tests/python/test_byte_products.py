"""`_int_mm`: products of matrices of bytes whose sums are integers of 32 bits."""

import unittest

from module_under_test import torch


def bytes_of(shape, dtype, seed):
    """Bytes of every value, the extreme ones more often."""
    generator = torch.Generator().manual_seed(seed)
    low, high = (0, 256) if dtype == torch.uint8 else (-128, 128)
    values = torch.randint(low, high, shape, generator=generator)
    extreme = torch.randint(0, 4, shape, generator=generator)
    values = torch.where(extreme == 0, torch.full_like(values, low), values)
    return torch.where(extreme == 1, torch.full_like(values, high - 1), values).to(dtype)


def product(a, b):
    return torch.mm(a.to(torch.int32), b.to(torch.int32))


SHAPES = [(1, 1, 1), (3, 5, 2), (17, 33, 9), (1, 300, 260), (64, 64, 64), (16, 4096, 31), (200, 77, 3)]


class Values(unittest.TestCase):
    def check(self, a, b):
        got = torch._int_mm(a, b)
        self.assertEqual(got.dtype, torch.int32)
        self.assertTrue(torch.equal(got, product(a, b)), (a.shape, a.stride(), b.stride()))

    def test_dense_factors(self):
        for dtype in (torch.int8, torch.uint8):
            for m, k, n in SHAPES:
                a, b = bytes_of((m, k), dtype, 1), bytes_of((k, n), torch.int8, 2)
                self.check(a, b)
                self.check(a, bytes_of((n, k), torch.int8, 3).t())
                self.check(bytes_of((k, m), dtype, 4).t(), b)

    def test_strides(self):
        for dtype in (torch.int8, torch.uint8):
            a, b = bytes_of((40, 90), dtype, 1), bytes_of((90, 70), torch.int8, 2)
            self.check(a[:, 1:86], b[3:88])
            self.check(a[::2, ::3], b[::3, 1::2])
            self.check(a[:1].expand(20, 90), b)
            self.check(a, b[:, :1].expand(90, 33))
            self.check(a[:, :1].expand(40, 90), b[:1].expand(90, 70))

    def test_two_threads_give_the_same(self):
        before = torch.get_num_threads()
        try:
            torch.set_num_threads(2)
            for shape in ((150, 70, 300), (500, 90, 40), (4, 2000, 900), (1, 900, 2000)):
                m, k, n = shape
                self.check(bytes_of((m, k), torch.int8, 1), bytes_of((k, n), torch.int8, 2))
                self.check(bytes_of((m, k), torch.uint8, 1), bytes_of((n, k), torch.int8, 2).t())
        finally:
            torch.set_num_threads(before)

    def test_nothing_to_multiply(self):
        def empty(*shape):
            return torch.empty(shape, dtype=torch.int8)

        self.assertEqual(torch._int_mm(empty(0, 4), empty(4, 5)).shape, (0, 5))
        self.assertEqual(torch._int_mm(empty(3, 4), empty(4, 0)).shape, (3, 0))
        zeros = torch.zeros(3, 5, dtype=torch.int32)
        self.assertTrue(torch.equal(torch._int_mm(empty(3, 0), empty(0, 5)), zeros))
        out = torch.ones(3, 5, dtype=torch.int32)
        self.assertTrue(torch.equal(torch._int_mm(empty(3, 0), empty(0, 5), out=out), zeros))

    def test_products_of_bytes_keep_their_low_bits(self):
        for dtype in (torch.int8, torch.uint8):
            for m, k, n in SHAPES:
                a, b = bytes_of((m, k), dtype, 1), bytes_of((k, n), dtype, 2)
                self.assertTrue(torch.equal(a @ b, product(a, b).to(dtype)))


class Results(unittest.TestCase):
    def setUp(self):
        self.a, self.b = bytes_of((3, 4), torch.int8, 1), bytes_of((4, 5), torch.int8, 2)

    def test_out(self):
        out = torch.full((3, 5), 7, dtype=torch.int32)
        self.assertIs(torch._int_mm(self.a, self.b, out=out), out)
        self.assertTrue(torch.equal(out, product(self.a, self.b)))

    def test_out_that_is_a_factor(self):
        memory = torch.arange(36, dtype=torch.int32).reshape(6, 6) * 0x01020304
        a = memory.view(torch.int8)[:, :6]
        wanted = product(a, a)
        torch._int_mm(a, a, out=memory)
        self.assertTrue(torch.equal(memory, wanted))

    def test_meta(self):
        got = torch._int_mm(self.a.to("meta"), self.b.to("meta"))
        self.assertEqual((got.shape, got.dtype, got.device.type), ((3, 5), torch.int32, "meta"))


class Errors(unittest.TestCase):
    def refused(self, message, *args, error=RuntimeError, **named):
        with self.assertRaises(error) as raised:
            torch._int_mm(*args, **named)
        self.assertIn(message, str(raised.exception))

    def test_factors(self):
        def zeros(*shape, dtype=torch.int8):
            return torch.zeros(shape, dtype=dtype)

        self.refused("_int_mm: self must be a matrix, got 1-D tensor", zeros(3), zeros(3, 4))
        self.refused("Dimension out of range", zeros(3, 4), zeros(4), error=IndexError)
        shapes = "_int_mm: mat1 and mat2 shapes cannot be multiplied (32x64 and 32x64)"
        self.refused(shapes, zeros(32, 64), zeros(32, 64))
        for dtype, name in ((torch.int32, "int"), (torch.float32, "float"), (torch.bool, "bool")):
            message = f"int_mm_out_cpu: Expected self dtype to be int8 or uint8 but got {name}"
            self.refused(message, zeros(3, 4, dtype=dtype), zeros(4, 5))
        for dtype, name in ((torch.uint8, "unsigned char"), (torch.int64, "long int")):
            message = f"int_mm_out_cpu: Expected mat2 dtype to be of type int8 but got {name}"
            self.refused(message, zeros(3, 4), zeros(4, 5, dtype=dtype))

    def test_results(self):
        a, b = torch.zeros(3, 4, dtype=torch.int8), torch.zeros(4, 5, dtype=torch.int8)

        def refused(message, *shape, dtype=torch.int32):
            out = torch.zeros(shape, dtype=dtype)
            self.refused(f"int_mm_out_cpu: Expected result{message}", a, b, out=out)

        refused(" dtype to be of type kInt but got long int", 3, 5, dtype=torch.int64)
        refused(".size(0) to be 3 but got 2", 2, 5)
        refused(".size(0) to be 3 but got 15", 15)
        refused(".size(1) to be 5 but got 6", 3, 6)
        refused(" to be of dimension 2 but got 3", 3, 5, 1)
        out = torch.zeros(5, 3, dtype=torch.int32).t()
        self.refused("int_mm_out_cpu: Expected result to be contiguous.", a, b, out=out)


if __name__ == "__main__":
    unittest.main()
