"""Random numbers of a device: PyTorch's numbers for a seed, moments, layouts, and what is refused."""

import math
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cuda_under_test import CudaTest, torch, usable  # noqa: E402


def philox(seed, subsequence, block):
    """A block of Philox4x32-10, as Salmon et al. (2011) define it."""
    k0, k1, mask = seed & 0xFFFFFFFF, seed >> 32, 0xFFFFFFFF
    a, b, c, d = block & mask, block >> 32, subsequence & mask, subsequence >> 32
    for _ in range(10):
        p, q = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (q >> 32) ^ b ^ k0, q & mask, (p >> 32) ^ d ^ k1, p & mask
        k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
    return a, b, c, d


def seeded(seed, make):
    torch.cuda.manual_seed(seed)
    return make().cpu()


@usable
class Streams(CudaTest):
    def test_published_numbers(self):
        # What PyTorch's documentation and issue 79496 of pytorch/pytorch show for CUDA.
        rand = seeded(0, lambda: torch.rand(5, device="cuda"))
        randn = seeded(10, lambda: torch.randn(3, device="cuda"))
        self.assertEqual([round(x, 4) for x in rand.tolist()], [0.3990, 0.5167, 0.0249, 0.9401, 0.9459])
        self.assertEqual([round(x, 4) for x in randn.tolist()], [-0.1029, 1.6810, -0.2708])

    def test_elements_by_thread(self):
        torch.cuda.manual_seed(7)
        numbers = torch.randint(0, 1000, (700,), device="cuda").tolist()
        self.assertEqual(numbers, [philox(7, t, 0)[0] % 1000 for t in range(700)])
        # The second launch goes on where the first has stopped.
        numbers = torch.randint(0, 1000, (10,), device="cuda").tolist()
        self.assertEqual(numbers, [philox(7, t, 1)[0] % 1000 for t in range(10)])
        wide = seeded(7, lambda: torch.empty(9, dtype=torch.int64, device="cuda").random_(0, 2**40)).tolist()
        words = [philox(7, t, 0) for t in range(9)]
        self.assertEqual(wide, [(a << 32 | b) % 2**40 for a, b, _, _ in words])

    def test_elements_a_grid_apart(self):
        found = torch.cuda.get_device_properties(0)
        grid = found.multi_processor_count * (found.max_threads_per_multi_processor // 256) * 256
        numbers = seeded(3, lambda: torch.randint(0, 2**20, (grid + 5,), device="cuda"))[grid:].tolist()
        self.assertEqual(numbers, [philox(3, t, 0)[1] % 2**20 for t in range(5)])

    def test_state(self):
        torch.cuda.manual_seed(5)
        torch.rand(10, device="cuda")
        state = torch.cuda.get_rng_state()
        first = torch.rand(100, device="cuda")
        torch.cuda.set_rng_state(state)
        self.assertTrue(torch.equal(first, torch.rand(100, device="cuda")))
        generator = torch.Generator("cuda").manual_seed(5)
        torch.cuda.manual_seed(5)
        own = torch.empty(40, device="cuda").normal_(generator=generator)
        self.assertTrue(torch.equal(own, torch.empty(40, device="cuda").normal_()))
        with self.assertRaises(RuntimeError):
            torch.empty(4, device="cuda").uniform_(generator=torch.Generator())


@usable
class Distributions(CudaTest):
    def moments(self, make, mean, deviation, within=0.12):
        values = seeded(1, make).double()
        self.assertAlmostEqual(values.mean().item(), mean, delta=within * max(1, deviation))
        self.assertAlmostEqual(values.std().item(), deviation, delta=within * max(1, deviation))

    def test_moments(self):
        for dtype in [torch.float32, torch.float64, torch.float16, torch.bfloat16]:
            def empty():
                return torch.empty(6000, dtype=dtype, device="cuda")
            self.moments(lambda: empty().uniform_(-1, 3), 1, 4 / math.sqrt(12))
            self.moments(lambda: empty().normal_(2, 3), 2, 3)
            self.moments(lambda: empty().exponential_(2), 0.5, 0.5)
            self.moments(lambda: empty().bernoulli_(0.3), 0.3, math.sqrt(0.21))
            self.moments(lambda: empty().geometric_(0.5), 2, math.sqrt(2))
            self.moments(lambda: empty().log_normal_(0, 0.25), math.exp(1 / 32), 0.262)
            median = seeded(1, lambda: empty().cauchy_(3, 2)).double().median().item()
            self.assertAlmostEqual(median, 3, delta=0.3)
        self.moments(lambda: torch.empty(6000, dtype=torch.complex64, device="cuda").normal_().abs(), 0.886, 0.463)

    def test_bounds(self):
        for dtype in [torch.float32, torch.float16, torch.bfloat16]:
            values = seeded(2, lambda: torch.empty(5000, dtype=dtype, device="cuda").uniform_(1, 2)).double()
            self.assertTrue(((values >= 1) & (values < 2)).all().item())
        self.assertTrue((seeded(2, lambda: torch.empty(5000, device="cuda").exponential_()) > 0).all().item())

    def test_integers(self):
        for dtype in [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool]:
            values = seeded(4, lambda: torch.empty(3000, dtype=dtype, device="cuda").random_()).long()
            top = 2 if dtype == torch.bool else 2**8 if dtype == torch.uint8 else torch.iinfo(dtype).max
            self.assertTrue(((values >= 0) & (values <= top)).all().item())
            self.assertGreater(values.double().mean().item(), top / 2.2 if dtype != torch.bool else 0.45)
        values = seeded(4, lambda: torch.randint(-5, 5, (3000,), device="cuda"))
        self.assertEqual(sorted(set(values.tolist())), list(range(-5, 5)))

    def test_layouts(self):
        base = torch.zeros(6, 8, device="cuda")
        torch.cuda.manual_seed(3)
        base[:, ::2].uniform_(1, 2)
        found = base.cpu()
        self.assertTrue((found[:, ::2] >= 1).all().item() and (found[:, 1::2] == 0).all().item())
        # Elements are drawn in the order of memory.
        flat = seeded(3, lambda: torch.empty(48, device="cuda").uniform_(1, 2))
        turned = seeded(3, lambda: torch.empty(8, 6, device="cuda").t().uniform_(1, 2))
        self.assertTrue(torch.equal(turned.t().reshape(-1), flat))
        self.assertEqual(torch.empty(0, 3, device="cuda").normal_().shape, (0, 3))

    def test_probabilities(self):
        p = torch.tensor([0.0, 1.0, 0.5, 0.25]).repeat(1500).to("cuda")
        drawn = seeded(6, lambda: torch.bernoulli(p)).reshape(-1, 4).mean(0)
        self.assertEqual((drawn[0].item(), drawn[1].item()), (0, 1))
        self.assertAlmostEqual(drawn[2].item(), 0.5, delta=0.06)
        self.assertAlmostEqual(drawn[3].item(), 0.25, delta=0.06)

    def test_multinomial(self):
        weights = torch.tensor([[0.0, 1, 3, 0, 4], [1, 0, 0, 0, 0]], device="cuda")
        drawn = seeded(8, lambda: torch.multinomial(weights, 4000, replacement=True))
        self.assertTrue((drawn[1] == 0).all().item())
        shares = [(drawn[0] == i).double().mean().item() for i in range(5)]
        self.assertEqual((shares[0], shares[3]), (0, 0))
        for share, wanted in zip(shares, [0, 0.125, 0.375, 0, 0.5]):
            self.assertAlmostEqual(share, wanted, delta=0.04)
        drawn = seeded(8, lambda: torch.multinomial(torch.ones(3, 40, device="cuda"), 40))
        self.assertEqual(drawn.sort(-1)[0].tolist(), [list(range(40))] * 3)
        with self.assertRaisesRegex(RuntimeError, "inf.*nan.*< 0"):
            torch.multinomial(torch.tensor([1.0, -1], device="cuda"), 1)

    def test_refused(self):
        x = torch.empty(3, device="cuda")
        for call in [lambda: x.uniform_(2, 1), lambda: x.normal_(0, -1), lambda: x.exponential_(0),
                     lambda: x.bernoulli_(2), lambda: x.geometric_(1.5), lambda: x.cauchy_(0, 0),
                     lambda: x.log_normal_(0, -1), lambda: x.random_(3, 3)]:
            with self.assertRaises(RuntimeError):
                call()

    def test_dropout(self):
        x = torch.ones(4000, device="cuda", requires_grad=True)
        torch.cuda.manual_seed(1)
        y = torch.nn.functional.dropout(x, 0.25)
        y.sum().backward()
        kept = (y.detach().cpu() > 0).double().mean().item()
        self.assertAlmostEqual(kept, 0.75, delta=0.05)
        self.assertTrue(torch.equal(x.grad.cpu(), y.detach().cpu()))


if __name__ == "__main__":
    unittest.main()
