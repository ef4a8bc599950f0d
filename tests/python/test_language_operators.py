"""The operators of language models beside compositions of others."""

import math
import unittest

import corten as torch
from corten.nn import functional as F

ops = torch.ops.corten
FLOATS = {torch.float32: 2e-6, torch.float64: 1e-12, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def close(case, found, expected, bound):
    """Whether results are equal but for roundings."""
    case.assertEqual((found.shape, found.dtype), (expected.shape, expected.dtype))
    if found.numel():
        scale = max(1.0, float(expected.double().abs().max()))
        case.assertLessEqual(float((found.double() - expected.double()).abs().max()), bound * scale)


class Norm(unittest.TestCase):
    def test_rows(self):
        torch.manual_seed(0)
        for dtype, bound in FLOATS.items():
            for shape in ((7,), (3, 5), (2, 3, 257), (4, 64), (0, 8), (3, 1)):
                x, weight, residual = torch.randn(shape).to(dtype), torch.randn(shape[-1:]), torch.randn(shape).to(dtype)
                wide = torch.float64 if dtype == torch.float64 else torch.float32
                normal = F.rms_norm(x.to(wide), shape[-1:], None, 1e-5)
                for scaled, expected in ((None, normal), (weight, normal * weight.to(wide))):
                    close(self, ops.fused_rms_norm(x, scaled, 1e-5), expected.to(dtype), bound)
                    close(self, ops.fused_rms_norm(x, scaled, 1e-5, residual=residual),
                          (expected + residual.to(wide)).to(dtype), bound)
        x = torch.randn(6, 4).t()
        close(self, ops.fused_rms_norm(x), F.rms_norm(x, (6,), None, 1e-6), 2e-6)

    def test_errors(self):
        x = torch.ones(2, 4)
        for wrong in ((x, torch.ones(3)), (torch.tensor(1.0), None)):
            self.assertRaises(RuntimeError, ops.fused_rms_norm, *wrong)
        self.assertRaises(RuntimeError, lambda: ops.fused_rms_norm(x, residual=torch.ones(4)))
        self.assertRaises(NotImplementedError, ops.fused_rms_norm, x.long())


class Rotary(unittest.TestCase):
    def expected(self, x, cos, sin, interleaved):
        n = cos.shape[-1]
        turned, rest = x[..., :2 * n], x[..., 2 * n:]
        if interleaved:
            a, b = turned[..., ::2], turned[..., 1::2]
            made = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
        else:
            a, b = turned.chunk(2, -1)
            made = torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
        return torch.cat((made, rest.expand(made.shape[:-1] + rest.shape[-1:])), -1)

    def test_pairs(self):
        torch.manual_seed(1)
        shapes = (((8,), (4,)), ((3, 2, 8), (3, 1, 3)), ((2, 3, 5, 34), (3, 1, 17)), ((2, 3, 5, 34), (2, 1, 5, 16)),
                  ((4, 64), (32,)), ((0, 4), (2,)))
        for dtype, bound in FLOATS.items():
            for shape, table in shapes:
                x, angles = torch.randn(shape).to(dtype), torch.randn(table) * 10
                wide = torch.float64 if dtype == torch.float64 else torch.float32
                cos, sin = angles.to(wide).cos(), angles.to(wide).sin()
                for interleaved in (False, True):
                    found = ops.rotary_embedding(x, cos, sin, interleaved=interleaved)
                    close(self, found, self.expected(x.to(wide), cos, sin, interleaved).to(dtype), bound)

    def test_gradient(self):
        torch.manual_seed(2)
        angles = torch.randn(3, 1, 4, dtype=torch.float64)
        for interleaved in (False, True):
            x = torch.randn(3, 2, 10, dtype=torch.float64, requires_grad=True)
            self.assertTrue(torch.autograd.gradcheck(
                lambda x: ops.rotary_embedding(x, angles.cos(), angles.sin(), interleaved=interleaved), (x,)))

    def test_errors(self):
        x = torch.ones(2, 3, 8)
        for table in ((5,), (2, 4), (1, 1, 1, 4)):
            self.assertRaises(RuntimeError, ops.rotary_embedding, x, torch.ones(table), torch.ones(table))
        self.assertRaises(RuntimeError, ops.rotary_embedding, x, torch.ones(4), torch.ones(3))
        self.assertRaises(NotImplementedError, ops.rotary_embedding, x.int(), torch.ones(4), torch.ones(4))


class Gated(unittest.TestCase):
    def test_values_and_gradients(self):
        torch.manual_seed(3)
        for dtype, bound in FLOATS.items():
            gate, up = (torch.randn(5, 33).mul(3).to(dtype) for _ in range(2))
            wide = torch.float64 if dtype == torch.float64 else torch.float32
            close(self, ops.swiglu(gate, up), (F.silu(gate.to(wide)) * up.to(wide)).to(dtype), bound)
            expected = F.gelu(gate.to(wide), approximate="tanh") * up.to(wide)
            close(self, ops.geglu(gate, up), expected.to(dtype), bound)
        far = torch.tensor([-1e4, -50.0, 0.0, 50.0, 1e4])
        self.assertEqual(ops.geglu(far, torch.ones(5)).tolist(), [0, 0, 0, 50, 1e4])
        self.assertEqual(ops.swiglu(far, torch.ones(5))[[0, 2, 3, 4]].tolist(), [0, 0, 50, 1e4])
        for gated in (ops.swiglu, ops.geglu):
            inputs = [torch.randn(3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2)]
            self.assertTrue(torch.autograd.gradcheck(gated, inputs))


def attended(query, keys, values, past, scale, window, soft_cap):
    """Attention of one sequence by matrices: (query heads, tokens, width)."""
    group = query.shape[0] // keys.shape[0]
    keys, values = keys.repeat_interleave(group, 0), values.repeat_interleave(group, 0)
    scores = query @ keys.transpose(-1, -2) * scale
    if soft_cap:
        scores = soft_cap * torch.tanh(scores / soft_cap)
    own = torch.arange(query.shape[1])[:, None] + past
    places = torch.arange(keys.shape[1])
    seen = places <= own
    if window:
        seen &= places > own - window
    return torch.softmax(scores.masked_fill(~seen, -math.inf), -1) @ values


class CacheOfKeys(unittest.TestCase):
    def filled(self, dtype, batch, heads, tokens, width, value_width, page=0):
        """Keys and values, and caches that hold them as they are, or in pages in another order."""
        made = []
        for size in (width, value_width):
            rows = torch.randn(batch, heads, tokens, size)
            if page:
                per_sequence = -(-tokens // page)
                table = torch.randperm(batch * per_sequence).view(batch, per_sequence) if not made else made[0][3]
                shape = (batch * per_sequence, heads, page, size)
            else:
                table, shape = None, (batch, heads, tokens + 3, size)
            cache, scales, past = torch.zeros(shape, dtype=dtype), None, torch.zeros(batch, dtype=torch.int64)
            if dtype == torch.int8:
                scales = torch.zeros(shape[:-1] + (1,))
                stored, own = ops.quantize_rows(rows)
                ops.kv_cache_write_(scales, own, past, block_table=table)
                ops.kv_cache_write_(cache, stored, past, block_table=table)
                rows = stored * own
            else:
                # A part at once, the others behind it.
                ops.kv_cache_write_(cache, rows[:, :, :2], past, block_table=table)
                ops.kv_cache_write_(cache, rows[:, :, 2:], past + 2, block_table=table)
                rows = rows.to(dtype).float()
            made.append((rows, cache, scales, table))
        return made

    def check(self, dtype, sizes, page, tokens, **rule):
        batch, heads, group, length, width, value_width = sizes
        (keys, key_cache, key_scales, table), (values, value_cache, value_scales, _) = self.filled(
            dtype, batch, heads, length, width, value_width, page)
        query = torch.randn(batch, heads * group, tokens, width)
        past = torch.tensor([length - tokens - i for i in range(batch)])
        found = ops.kv_cache_attention(query, key_cache, value_cache, past, block_table=table, key_scales=key_scales,
                                       value_scales=value_scales, **rule)
        scale = rule.get("scale") or width ** -0.5
        for i in range(batch):
            end = int(past[i]) + tokens
            expected = attended(query[i], keys[i, :, :end], values[i, :, :end], int(past[i]), scale,
                                rule.get("window", 0), rule.get("soft_cap", 0))
            close(self, found[i], expected, 1e-5)

    def test_attention(self):
        torch.manual_seed(4)
        rules = ({}, {"scale": 0.3}, {"window": 5}, {"soft_cap": 1.5}, {"window": 300, "soft_cap": 2.0, "scale": 1.0})
        for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int8):
            for page in (0, 7, 32):
                for tokens in (1, 3, 12):
                    for rule in rules[:2 if page == 7 else 5]:
                        self.check(dtype, (2, 2, 3, 21, 24, 24), page, tokens, **rule)

    def test_shapes(self):
        torch.manual_seed(5)
        # Stretches of 256 tokens are put together; one head for all queries, and one for each.
        for sizes in ((1, 1, 4, 600, 64, 64), (1, 3, 1, 300, 16, 40), (1, 1, 5, 257, 7, 3), (3, 2, 2, 13, 1, 1),
                      (1, 1, 1, 513, 33, 32)):
            for page in (0, 16):
                for tokens in (1, 9):
                    self.check(torch.float16, sizes, page, tokens, **({"window": 290} if sizes[3] > 400 else {}))

    def test_dtypes_of_queries(self):
        torch.manual_seed(6)
        rows = self.filled(torch.float32, 1, 2, 20, 16, 16)
        (keys, key_cache, *_), (values, value_cache, *_) = rows
        for dtype, bound in ((torch.float64, 1e-6), (torch.float16, 2e-3), (torch.bfloat16, 2e-2)):
            for tokens in (1, 10):
                query = torch.randn(1, 2, tokens, 16).to(dtype)
                found = ops.kv_cache_attention(query, key_cache, value_cache, torch.tensor([20 - tokens]))
                expected = attended(query[0].float(), keys[0], values[0], 20 - tokens, 0.25, 0, 0)
                close(self, found[0], expected.to(dtype), bound)

    def test_transformers_layouts(self):
        torch.manual_seed(7)
        keys, key_cache, *_ = self.filled(torch.float32, 1, 2, 9, 8, 8)[0]
        query = torch.randn(1, 3, 4, 8).transpose(1, 2)
        found = ops.kv_cache_attention(query, key_cache, key_cache, torch.tensor([6], dtype=torch.int32))
        close(self, found[0], attended(query[0], keys[0], keys[0], 6, 8 ** -0.5, 0, 0), 1e-5)

    def test_quantised_rows(self):
        torch.manual_seed(8)
        for dtype in (torch.float32, torch.bfloat16):
            x = torch.randn(3, 4, 50).to(dtype)
            rows, scales = ops.quantize_rows(x)
            self.assertEqual((rows.dtype, scales.dtype, scales.shape), (torch.int8, torch.float32, (3, 4, 1)))
            self.assertEqual(int(rows.abs().amax()), 127)
            self.assertLessEqual(float(((rows * scales - x.float()).abs() / scales).max()), 0.502)
        rows, scales = ops.quantize_rows(torch.zeros(2, 3))
        self.assertEqual((rows.tolist(), scales.tolist()), ([[0] * 3] * 2, [[0.0]] * 2))
        self.assertEqual(ops.quantize_rows(torch.ones(2, 0))[1].tolist(), [[0.0]] * 2)

    def test_meta(self):
        cache, past = torch.zeros(1, 2, 9, 8, device="meta"), torch.zeros(1, dtype=torch.int64, device="meta")
        query = torch.zeros(1, 4, 3, 8, device="meta")
        self.assertEqual(ops.kv_cache_attention(query, cache, cache, past).shape, (1, 4, 3, 8))
        self.assertEqual(ops.kv_cache_write_(cache, torch.zeros(1, 2, 3, 8, device="meta"), past).device.type, "meta")
        rows, scales = ops.quantize_rows(query)
        self.assertEqual((rows.dtype, scales.shape), (torch.int8, (1, 4, 3, 1)))
        table = torch.zeros(3, 4, device="meta")
        self.assertEqual(ops.rotary_embedding(query, table, table).shape, query.shape)
        self.assertEqual(ops.fused_rms_norm(query).shape, query.shape)
        self.assertEqual(ops.swiglu(query, query).shape, query.shape)

    def test_errors(self):
        cache, past = torch.zeros(2, 2, 9, 8), torch.tensor([1, 2])
        query, rows = torch.zeros(2, 4, 1, 8), torch.zeros(2, 2, 1, 8)
        table = torch.tensor([[0], [1]])
        write, attend = ops.kv_cache_write_, ops.kv_cache_attention
        for wrong in (torch.tensor([1]), torch.tensor([1.0, 2.0]), torch.tensor([1, 2, 3])):
            self.assertRaises(RuntimeError, write, cache, rows, wrong)
            self.assertRaises(RuntimeError, attend, query, cache, cache, wrong)
        for wrong in (torch.tensor([0, 9]), torch.tensor([-1, 0]), torch.tensor([0, 2 ** 63 - 1])):
            self.assertRaises(IndexError, write, cache, rows, wrong)
            self.assertRaises(IndexError, attend, query, cache, cache, wrong)
        for wrong in (torch.tensor([[0], [2]]), torch.tensor([[-1], [0]])):
            self.assertRaises(IndexError, lambda: write(cache, rows, past, block_table=wrong))
            self.assertRaises(IndexError, lambda: attend(query, cache, cache, past, block_table=wrong))
        self.assertRaises(RuntimeError, lambda: write(cache, rows, past, block_table=table[0]))
        self.assertRaises(RuntimeError, write, cache, rows[..., :4], past)
        self.assertRaises(RuntimeError, write, cache.transpose(1, 2), rows.transpose(1, 2), past)
        self.assertRaises(NotImplementedError, write, cache.long(), rows, past)
        self.assertRaises(RuntimeError, attend, query[:, :3], cache, cache, past)
        self.assertRaises(RuntimeError, attend, query[..., :4], cache, cache, past)
        self.assertRaises(RuntimeError, attend, query, cache, cache.half(), past)
        self.assertRaises(RuntimeError, attend, query, cache.char(), cache.char(), past)
        self.assertRaises(NotImplementedError, attend, query, cache.double(), cache.double(), past)
        self.assertRaises(NotImplementedError, attend, query.int(), cache, cache, past)
        self.assertRaises(ValueError, lambda: attend(query, cache, cache, past, window=-1))
        self.assertRaises(RuntimeError, lambda: attend(query, cache, cache, past, key_scales=torch.zeros(2, 2, 9, 1)))


if __name__ == "__main__":
    unittest.main()
