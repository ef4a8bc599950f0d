"""Loops that take several elements, rows or lines at a time, at and beside the sizes they take."""

import math
import unittest

from module_under_test import torch

F = torch.nn.functional
SIZES = (1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 130)


def counted(*shape):
    """Small whole numbers that repeat with no period of the loops."""
    return (torch.arange(math.prod(shape)) * 7 % 11 - 5).reshape(shape).float()


class Reductions(unittest.TestCase):
    def test_columns_with_not_a_number(self):
        for width in SIZES:
            x = counted(5, width)
            x[3, width // 2] = math.nan
            for largest, sign in ((x.amax(0), 1), (-(-x).amin(0), 1)):
                self.assertTrue(math.isnan(largest[width // 2]))
                for column in set(range(width)) - {width // 2}:
                    self.assertEqual(largest[column], max(x[:, column].tolist()))

    def test_first_of_equal_extremes(self):
        for width in SIZES:
            for rows in (1, 2, 5, 17, 40):
                x = counted(rows, width) // 4
                values, indices = x.max(0)
                least, at = (-x).double().min(0)
                self.assertTrue(torch.equal(least, -values.double()) and torch.equal(at, indices))
                for column in range(width):
                    own = x[:, column].tolist()
                    self.assertEqual(values[column], max(own))
                    self.assertEqual(indices[column], own.index(max(own)))

    def test_first_not_a_number_is_the_extreme(self):
        for rows in (3, 20):
            x = counted(rows, 300)
            x[1, ::3] = math.nan
            x[-1] = math.nan
            for reduce in (torch.max, torch.min):
                values, indices = reduce(x, 0)
                self.assertTrue(values.isnan().all())
                self.assertEqual(indices.tolist(), [1 if i % 3 == 0 else rows - 1 for i in range(300)])
            x = torch.full((rows, 300), -math.inf)
            self.assertEqual(x.max(0).indices.tolist(), [0] * 300)

    def test_slices_side_by_side_add_up_as_alone(self):
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
            for length in (1, 3, 8, 9, 17, 30, 31, 64, 100, 150, 600):
                x = (counted(21, length) * 1.1 + 0.37).exp().to(dtype)
                x[3, 0] = -0.0
                sums = x.sum(1)
                means = x.mean(1)
                for row, alone in enumerate(x):
                    self.assertEqual(sums[row].item(), alone.sum().item())
                    self.assertEqual(means[row].item(), alone.mean().item())
                x[::2, length // 2] = math.nan
                for row, alone in enumerate(x):
                    self.assertEqual(x.nansum(1)[row].item(), alone.nansum().item())
                    self.assertEqual(alone.nansum().item(), alone.nan_to_num(0.0).sum().item())
        self.assertEqual(str(torch.full((9, 4), -0.0).sum(1)[0].item()), "0.0")

    def test_variance_of_infinity(self):
        for width in SIZES:
            x = counted(3, width)
            for row in range(3):
                y = x.clone()
                y[row] = math.inf
                self.assertTrue(y.var(0).isnan().all())
                self.assertTrue(y.std(0).isnan().all())
                self.assertTrue(y.var(1)[row].isnan())

    def test_products(self):
        for width in SIZES:
            x = 1 + counted(2, width).abs() % 2
            twos = (x == 2).sum(1)
            self.assertEqual(x.prod(1).tolist(), [2.0 ** n for n in twos.tolist()])
            self.assertEqual(x.double().prod().item(), 2.0 ** twos.sum().item())
            self.assertEqual(x.long()[:, :50].prod(1).tolist(), (2 ** (x == 2)[:, :50].sum(1)).tolist())

    def test_running_sums_side_by_side(self):
        for lines in (1, 3, 4, 5, 9):
            for length in (0, 1, 5, 64):
                x = counted(lines, length)
                sums = x.cumsum(1).tolist()
                for line, own in zip(sums, x.tolist()):
                    self.assertEqual(line, [sum(own[: i + 1]) for i in range(length)])


class Sorting(unittest.TestCase):
    def test_short_lines(self):
        for length in (1, 2, 7, 8, 9, 16, 17, 31, 32, 33):
            for dtype in (torch.float32, torch.int64, torch.float64, torch.uint8):
                x = (counted(5, length) % 7).to(dtype)
                for descending in (False, True):
                    values, indices = x.sort(dim=1, descending=descending, stable=True)
                    for row, own in enumerate(x.tolist()):
                        sign = -1 if descending else 1
                        order = sorted(range(length), key=lambda i: sign * own[i])
                        self.assertEqual(indices[row].tolist(), order)
                        self.assertEqual(values[row].tolist(), [own[i] for i in order])

    def test_not_a_number_is_last(self):
        for dtype in (torch.float32, torch.float64):
            x = counted(3, 12).to(dtype)
            x[1, 4] = math.nan
            values, indices = x.sort(1)
            self.assertEqual(indices[1, -1], 4)
            self.assertTrue(values[1, -1].isnan())
            self.assertEqual(x.topk(2).indices[1, 0], 4)

    def test_few_of_different_elements(self):
        for length in (1, 5, 8, 13, 30, 60, 200):
            x = torch.stack([(torch.arange(length) * step % 211 - 40).double() for step in (1, 3, 50)])
            for dtype in (torch.float32, torch.float64, torch.int64):
                for k in {1, min(length, 3), min(length, 20)}:
                    for largest in (False, True):
                        values, indices = x.to(dtype).topk(k, largest=largest)
                        expected = x.sort(1, descending=largest)
                        self.assertEqual(values.tolist(), expected.values[:, :k].tolist())
                        self.assertEqual(indices.tolist(), expected.indices[:, :k].tolist())


class Slices(unittest.TestCase):
    def test_added_along_every_dimension(self):
        for dim in range(3):
            for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
                x = counted(4, 5, 6).permute(order).contiguous().permute(
                    *(order.index(d) for d in range(3)))
                index = torch.tensor([1, 3, 1])
                source = counted(*(3 if d == dim else n for d, n in enumerate(x.shape)))
                expected = x.clone()
                for i, at in enumerate(index.tolist()):
                    expected.select(dim, at).add_(source.select(dim, i))
                self.assertTrue(torch.equal(x.clone().index_add_(dim, index, source), expected))

    def test_no_elements(self):
        x = torch.zeros(3, 0)
        self.assertEqual(x.index_add(0, torch.tensor([2]), torch.zeros(1, 0)).shape, (3, 0))
        self.assertEqual(torch.zeros(0, 3).index_add(1, torch.tensor([2]), torch.zeros(0, 1)).shape, (0, 3))


class Broadcasts(unittest.TestCase):
    def test_outer_products_with_short_rows(self):
        for width in (1, 2, 5, 20, 31):
            a, b = counted(3, 4), counted(2, width)
            product = torch.kron(a, b)
            for i in range(6):
                for j in range(4 * width):
                    self.assertEqual(product[i, j], a[i // 2, j // width] * b[i % 2, j % width])

    def test_short_rows_into_dense_and_strided_results(self):
        a, b = counted(40, 1), counted(1, 5)
        rows = [[p + q for q in b[0].tolist()] for p in a[:, 0].tolist()]
        self.assertEqual((a + b).tolist(), rows)
        for dtype in (torch.float16, torch.bfloat16, torch.float64):
            self.assertEqual((a.to(dtype) + b.to(dtype)).tolist(), rows)
        out = torch.empty(5, 40).t()
        torch.add(a, b, out=out)
        self.assertEqual(out.tolist(), rows)


class ShortFloats(unittest.TestCase):
    def same(self, got, expected):
        own = expected.isnan()
        self.assertTrue(torch.equal(got.isnan(), own))
        zeros = torch.zeros_like(got)
        got, expected = (torch.where(own, zeros, x).view(torch.int16) for x in (got, expected))
        self.assertTrue(torch.equal(got, expected))

    def test_every_number_is_computed_with_as_a_single_and_rounded(self):
        bits = torch.arange(-(1 << 15), 1 << 15).to(torch.int16)
        others = bits.view(256, 256).t().reshape(-1)
        for dtype in (torch.float16, torch.bfloat16):
            for start, stop in ((0, 1 << 16), (3, 1 << 16), (1, 40_000), (7, 23), (9, 40)):
                a, b = (x.view(dtype)[start:stop] for x in (bits, others))
                for f in (torch.add, torch.sub, torch.mul, torch.maximum):
                    self.same(f(a, b), f(a.float(), b.float()).to(dtype))
                    self.same(f(a, b[-1:]), f(a.float(), b[-1:].float()).to(dtype))
                    own = a.clone()
                    self.same(f(own, b, out=own), f(a, b))
                self.same(a.relu(), a.float().relu().to(dtype))
                self.same(torch.lerp(a, b, b), torch.lerp(a.float(), b.float(), b.float()).to(dtype))


class LargeResults(unittest.TestCase):
    """Results that a cache of 32 MiB does not hold, at addresses that no line of memory begins at."""

    LENGTH = 9_000_011

    @classmethod
    def setUpClass(cls):
        some = counted(100_003)
        cls.x = some.repeat(cls.LENGTH // len(some) + 1)[: cls.LENGTH]

    @classmethod
    def tearDownClass(cls):
        del cls.x

    def same(self, result, part):
        for start in range(0, len(result), 1_000_001):
            stop = min(start + 1_000_001, len(result))
            self.assertTrue(torch.equal(result[start:stop], part(slice(start, stop))))

    def test_equal_small_ones(self):
        x, y = self.x, self.x.roll(50_000) + 0.5
        for start in (0, 3):
            a, b = x[start:], y[start:]
            room = torch.empty(len(x))
            out = room[start:]
            torch.add(a, b, out=out)
            self.same(out, lambda part: a[part] + b[part])
            torch.mul(a, 3.0, out=out)
            self.same(out, lambda part: a[part] * 3.0)
            torch.exp(a, out=out)
            self.same(out, lambda part: a[part].exp())
            torch.addcmul(a, b, b, value=0.5, out=out)
            self.same(out, lambda part: torch.addcmul(a[part], b[part], b[part], value=0.5))
            out.copy_(a)
            self.same(out, lambda part: a[part])
            out.fill_(2.5)
            self.assertTrue((out == 2.5).all())
            room[start + 5: -3].zero_()
            self.assertEqual((out != 0).sum(), 8)

    def test_of_other_dtypes(self):
        x = self.x[1:]
        for dtype in (torch.float64, torch.int32):
            self.same(x.to(dtype), lambda part: x[part].to(dtype))
        for dtype in (torch.uint8, torch.bfloat16):
            y = x.abs().to(dtype)
            self.same(y.float(), lambda part: y[part].float())
        z = x.double()
        self.same(z + z, lambda part: z[part] + z[part])
        h = torch.cat([x, x]).bfloat16()[3:]
        out = torch.empty_like(torch.cat([h, h[:5]]))[5:]
        torch.mul(h, h, out=out)
        self.same(out, lambda part: h[part] * h[part])
        self.same(h.relu(), lambda part: h[part].relu())
        self.same(h + 1.5, lambda part: h[part] + 1.5)

    def test_of_rows(self):
        x = self.x[2:]
        for width in (100, 4_001):
            rows = x[: len(x) // width * width].view(-1, width)
            for other in (rows[:1], rows[:, :1]):
                total = rows + other
                for row in (0, 1, len(rows) // 2, len(rows) - 1):
                    self.assertTrue(torch.equal(total[row], rows[row] + other[row % len(other)]))
        joined = torch.cat([x, x[:77], x])
        self.assertTrue(torch.equal(joined[: len(x)], x))
        self.assertTrue(torch.equal(joined[len(x): -len(x)], x[:77]))
        self.assertTrue(torch.equal(joined[-len(x):], x))


class Windows(unittest.TestCase):
    def test_largest_and_where(self):
        for length in (9, 40, 600):
            for kernel, stride in ((1, 1), (2, 2), (3, 3), (3, 1), (3, 2), (5, 4)):
                x = counted(1, 2, length)
                x[0, 1] = -math.inf
                values, places = F.max_pool1d(x, kernel, stride, return_indices=True)
                for channel in range(2):
                    own = x[0, channel].tolist()
                    for i, (value, place) in enumerate(zip(values[0, channel].tolist(), places[0, channel].tolist())):
                        window = own[i * stride: i * stride + kernel]
                        self.assertEqual(value, max(window))
                        self.assertEqual(place, i * stride + window.index(max(window)))

    def test_not_a_number_is_largest(self):
        x = counted(1, 1, 64)
        x[0, 0, 30] = math.nan
        values, places = F.max_pool1d(x, 4, 2, return_indices=True)
        self.assertEqual(values[0, 0].isnan().nonzero().flatten().tolist(), [14, 15])
        self.assertEqual(places[0, 0, 14:16].tolist(), [30, 30])


    def test_only_the_batch_may_be_empty(self):
        self.assertEqual(F.max_pool1d(torch.ones(0, 3, 5), 2).shape, (0, 3, 2))
        for shape in ((0, 5), (3, 0), (2, 0, 5), (2, 3, 0), (5,), (1, 2, 3, 4)):
            for requires_grad in (False, True):
                with self.assertRaisesRegex(RuntimeError, "max_pool1d: Expected 2D or 3D"):
                    F.max_pool1d(torch.ones(shape, requires_grad=requires_grad), 2)


class Losses(unittest.TestCase):
    def test_of_differences(self):
        x = torch.tensor([0.0, 0.5, -2.0, 3.0], requires_grad=True)
        target = torch.zeros(4)
        cases = [
            (F.mse_loss, {}, [0, 0.25, 4, 9], [0, 1, -4, 6]),
            (F.huber_loss, {"delta": 2.0}, [0, 0.125, 2, 4], [0, 0.5, -2, 2]),
            (F.smooth_l1_loss, {"beta": 2.0}, [0, 0.0625, 1, 2], [0, 0.25, -1, 1]),
            (F.smooth_l1_loss, {"beta": 0.0}, [0, 0.5, 2, 3], [0, 1, -1, 1]),
        ]
        for loss, options, values, slopes in cases:
            self.assertEqual(loss(x, target, reduction="none", **options).tolist(), values)
            for reduction, share in (("sum", 1), ("mean", 4)):
                result = loss(x, target, reduction=reduction, **options)
                self.assertEqual(result.item(), sum(values) / share)
                (grad,) = torch.autograd.grad(result, x)
                self.assertEqual(grad.tolist(), [slope / share for slope in slopes])

    def test_dtypes(self):
        x = torch.tensor([1.0, 2.0])
        self.assertEqual(F.mse_loss(x, torch.tensor([True, False]), reduction="none").tolist(), [0, 4])
        self.assertEqual(F.mse_loss(x, x.double()).dtype, torch.float64)
        self.assertEqual(F.huber_loss(x, x.double()).dtype, torch.float32)
        with self.assertRaisesRegex(NotImplementedError, "\"mse_cpu\" not implemented for 'ComplexFloat'"):
            F.mse_loss(x, x.to(torch.complex64))


class Conjugates(unittest.TestCase):
    def test_copies_of_lazy_tensors(self):
        z = torch.tensor([1 + 2j, 3 - 4j])
        self.assertEqual(z.conj().clone().tolist(), [1 - 2j, 3 + 4j])
        self.assertFalse(z.conj().clone().is_conj())
        self.assertEqual(z.conj().imag.clone().tolist(), [-2, 4])
        self.assertEqual(z.conj().imag.neg().clone().tolist(), [2, -4])


if __name__ == "__main__":
    unittest.main()
