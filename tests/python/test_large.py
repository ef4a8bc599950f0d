"""Results larger than a cache, which are written in other ways than small ones."""

import unittest

from module_under_test import torch

# More than any cache of a processor that streams, in bytes of `float32`.
NUMEL = (1 << 24) + 77
PIECE = 100_000


class LargeResults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.manual_seed(0)
        cls.a = torch.randn(NUMEL)
        cls.b = torch.randn(NUMEL)

    @classmethod
    def tearDownClass(cls):
        del cls.a, cls.b

    def assert_as_in_pieces(self, operator, *inputs):
        """The whole is what its pieces are, which are small: the first, the last and every fourth between."""
        threads = torch.get_num_threads()
        wholes = []
        for count in (1, 2):
            torch.set_num_threads(count)
            try:
                wholes.append(operator(*inputs))
            finally:
                torch.set_num_threads(threads)
            self.assertEqual(wholes[-1].numel(), NUMEL)
        self.assertTrue(torch.equal(*wholes))
        last = NUMEL // PIECE * PIECE
        for start in (*range(0, last, 4 * PIECE), last):
            piece = operator(*(x[start : start + PIECE] for x in inputs))
            self.assertTrue(torch.equal(wholes[0][start : start + PIECE], piece))

    def test_pointwise_results(self):
        self.assert_as_in_pieces(torch.add, self.a, self.b)
        self.assert_as_in_pieces(lambda x: torch.exp(x.double()), self.a)
        self.assert_as_in_pieces(lambda x, y: torch.where(x > y, x, 0.5), self.a, self.b)
        self.assert_as_in_pieces(lambda x: x.bfloat16().relu().sin(), self.a)

    def test_conversions(self):
        for dtype in (torch.bfloat16, torch.float64, torch.int16, torch.complex64):
            self.assert_as_in_pieces(lambda x, dtype=dtype: x.to(dtype), self.a)
        self.assert_as_in_pieces(lambda x: x.bfloat16().float(), self.a)

    def test_copies(self):
        self.assert_as_in_pieces(torch.clone, self.a)
        halves = torch.cat([self.a, self.b[5:]])
        self.assertTrue(torch.equal(halves[:NUMEL], self.a))
        self.assertTrue(torch.equal(halves[NUMEL:], self.b[5:]))

    def test_targets_that_start_within_a_line(self):
        out = torch.zeros(NUMEL + 5)
        torch.sub(self.a, self.b, out=out[3:-2])
        self.assertTrue(torch.equal(out[3:-2], self.a - self.b))
        out[1:-4].copy_(self.a)
        self.assertTrue(torch.equal(out[1:-4], self.a))
        self.assertEqual([out[0].item(), out[-1].item()], [0.0, 0.0])

    def test_targets_that_are_sources(self):
        expected = self.a + 1.0
        a, b = self.a.clone(), self.b.clone()
        a.add_(1.0)
        self.assertTrue(torch.equal(a, expected))
        torch.sub(b, a, out=b)
        self.assertTrue(torch.equal(b, self.b - expected))
        moved = a[:-3].clone()
        a[3:].copy_(a[:-3].clone())
        self.assertTrue(torch.equal(a[3:], moved))

    def test_rows_with_gaps(self):
        out = torch.zeros(4096, 4096)
        x = self.a[: 4095 * 4095].view(4095, 4095)
        torch.neg(x, out=out[1:, 1:])
        self.assertTrue(torch.equal(out[1:, 1:], -x))
        self.assertEqual(out[0].abs().sum().item() + out[:, 0].abs().sum().item(), 0.0)
        padded = torch.nn.functional.pad(x[:, :31].repeat(1, 133), (1, 2))
        self.assertTrue(torch.equal(padded[:, 1:32], x[:, :31]))

    def test_batches_normalised_by_running_statistics(self):
        normalise = torch.nn.functional.batch_norm
        x = self.a[: 16 * 32 * 180 * 180].view(16, 32, 180, 180)
        mean, variance = torch.randn(32), torch.rand(32) + 0.5
        weight, bias = self.b[:32], self.b[-32:]
        for values in (x, x.contiguous(memory_format=torch.channels_last)):
            whole = normalise(values, mean, variance, weight, bias)
            for sample in range(len(values)):
                part = normalise(values[sample : sample + 1], mean, variance, weight, bias)
                self.assertTrue(torch.equal(whole[sample], part[0]))


if __name__ == "__main__":
    unittest.main()
