"""Attention with scores that a program changes or masks."""

import importlib
import unittest

from module_under_test import torch

F = torch.nn.functional
flex = importlib.import_module(f"{torch.__name__}.nn.attention.flex_attention")


def causal(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


class FlexAttention(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.inputs = [torch.randn(2, 4, 5, 8) for _ in range(3)]

    def check(self, got, **options):
        expected = F.scaled_dot_product_attention(*self.inputs, **options)
        self.assertTrue(torch.allclose(got, expected, atol=1e-5))

    def test_scores_and_masks(self):
        self.check(flex.flex_attention(*self.inputs, scale=0.3), scale=0.3)
        mask = flex.create_block_mask(causal, None, None, 5, 5, device="cpu")
        self.check(flex.flex_attention(*self.inputs, block_mask=mask), is_causal=True)
        bias = torch.randn(4, 9)
        got = flex.flex_attention(
            *self.inputs, score_mod=lambda score, b, h, q, k: score + bias[h, q - k + 4])
        place = torch.arange(5)
        self.check(got, attn_mask=bias[:, place[:, None] - place + 4])

    def test_nothing_kept(self):
        mask = flex.create_block_mask(lambda b, h, q, k: (q > 2) & (k >= 0), None, None, 5, 5, device="cpu")
        got = flex.flex_attention(*self.inputs, block_mask=mask)
        self.assertEqual(got[:, :, :3].abs().sum().item(), 0)
        got, lse = flex.flex_attention(*self.inputs, return_lse=True)
        self.assertEqual((got.shape, lse.shape), ((2, 4, 5, 8), (2, 4, 5)))

    def test_masks(self):
        near = flex.and_masks(causal, lambda b, h, q, k: q - k < 2)
        self.assertEqual(flex.create_mask(near, 1, 1, 3, 3, device="cpu")[0, 0].int().tolist(),
                         [[1, 0, 0], [1, 1, 0], [0, 1, 1]])
        last = flex.or_masks(causal, lambda b, h, q, k: k == 2)
        self.assertEqual(flex.create_mask(last, 1, 1, 2, 3, device="cpu")[0, 0].int().tolist(),
                         [[1, 0, 1], [1, 1, 1]])

    def test_blocks(self):
        mask = flex.create_block_mask(causal, 2, 4, 300, 300, device="cpu")
        self.assertEqual(mask.shape, (2, 4, 300, 300))
        self.assertEqual(mask.kv_num_blocks[0, 0].tolist(), [1, 1, 3])
        self.assertEqual(mask.kv_indices[0, 0].tolist(), [[0, 1, 2], [1, 0, 2], [0, 1, 2]])
        self.assertEqual(mask.full_kv_num_blocks[0, 0].tolist(), [0, 1, 0])
        self.assertEqual(mask.to_dense()[0, 0].tolist(), [[1, 0, 0], [1, 1, 0], [1, 1, 1]])
        self.assertAlmostEqual(mask.sparsity(), 100 / 3, places=4)
        self.assertEqual(mask[0].shape, (1, 4, 300, 300))
        self.assertIn("sparsity=33.33%", repr(mask))

    def test_refusals(self):
        q, k, v = self.inputs
        with self.assertRaisesRegex(ValueError, "Try setting enable_gqa=True"):
            flex.flex_attention(q, k[:, :2], v[:, :2])
        self.assertEqual(flex.flex_attention(q, k[:, :2], v[:, :2], enable_gqa=True).shape, q.shape)
        with self.assertRaises(NotImplementedError):
            flex.flex_attention(q[0], k[0], v[0])
        mask = flex.create_block_mask(causal, None, None, 300, 300, device="cpu")
        with self.assertRaisesRegex(RuntimeError, "larger length"):
            flex.flex_attention(q, k, v, block_mask=mask)


if __name__ == "__main__":
    unittest.main()
