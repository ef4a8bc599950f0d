"""Fused attention: values and gradients as from matrix products and a softmax in float64."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cuda_under_test import CudaTest, torch, usable  # noqa: E402

F = torch.nn.functional
SDPBackend, sdpa_kernel = torch.nn.attention.SDPBackend, torch.nn.attention.sdpa_kernel
f16, bf16, f32, f64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
ERRORS = {f16: 4e-3, bf16: 3e-2, f32: 2e-5, f64: 1e-11}


def by_formula(q, k, v, mask, causal, scale):
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.zeros(mask.shape, dtype=f64).masked_fill(~mask, -float("inf"))
    weights = torch.softmax(scores if mask is None else scores + mask, -1)
    return torch.nan_to_num(weights, 0.0) @ v


@usable
class Attention(CudaTest):
    def compare(self, dtype, heads, lengths, widths, *, batch=1, shared=1, causal=False, mask=None, scale=None,
                swapped=False):
        """Sizes are of (queries, keys), widths of (keys, values)."""
        def make(heads, length, width):
            sizes = (batch, length, heads, width) if swapped else (batch, heads, length, width)
            made = torch.randn(sizes, dtype=f64).to(dtype)
            return made.transpose(1, 2) if swapped else made

        q, k = make(heads, lengths[0], widths[0]), make(heads // shared, lengths[1], widths[0])
        v, grad = make(heads // shared, lengths[1], widths[1]), make(heads, lengths[0], widths[1])
        learned = mask is not None and mask.dtype != torch.bool

        def leaves(change):
            made = [change(tensor).detach().requires_grad_() for tensor in (q, k, v)]
            bias = mask if mask is None or not learned else change(mask).detach().requires_grad_()
            return made, bias

        (a, b, c), bias = leaves(lambda tensor: tensor.to(f64))
        out = by_formula(a, b.repeat_interleave(shared, 1), c.repeat_interleave(shared, 1), bias, causal, scale)
        wanted = [out, *torch.autograd.grad(out, [a, b, c] + [bias] * learned, grad.to(f64))]
        (a, b, c), bias = leaves(lambda tensor: tensor.to("cuda"))
        bias = bias if bias is None else bias.to("cuda")
        out = F.scaled_dot_product_attention(a, b, c, bias, 0.0, causal, scale=scale, enable_gqa=shared > 1)
        self.assertIn("Efficient", out.grad_fn.name())
        found = [out, *torch.autograd.grad(out, [a, b, c] + [bias] * learned, grad.to("cuda"))]
        for name, one, other in zip(("out", "query", "key", "value", "mask"), found, wanted):
            error = (one.cpu().to(f64) - other).abs().max() / other.abs().max().clamp(min=1e-30)
            self.assertLess(error.item(), ERRORS[dtype], name)

    def test_dtypes(self):
        for dtype in ERRORS:
            with self.subTest(dtype):
                self.compare(dtype, 2, (17, 21), (8, 8), batch=2)
                self.compare(dtype, 1, (70, 80), (20, 20), causal=True, swapped=True)

    def test_masks(self):
        self.compare(f32, 2, (9, 12), (8, 8), mask=torch.rand(9, 12) > 0.3)
        self.compare(f16, 2, (9, 12), (8, 8), mask=torch.randn(2, 9, 12), batch=2)
        self.compare(f32, 2, (9, 12), (8, 8), mask=torch.randn(2, 1, 1, 12), batch=2)
        nothing = torch.ones(9, 12, dtype=torch.bool)
        nothing[3] = False
        q, k = torch.randn(1, 1, 9, 8), torch.randn(1, 1, 12, 8)
        self.check_gradient(lambda q, k: F.scaled_dot_product_attention(q, k, k, nothing.to(q.device))[0, 0], q, k)

    def test_shapes(self):
        self.compare(f32, 1, (5, 7), (8, 20))
        self.compare(f16, 1, (5, 7), (40, 16))
        self.compare(f16, 4, (9, 12), (16, 16), shared=2)
        self.compare(f32, 1, (1, 1), (1, 1))
        self.compare(f32, 1, (5, 7), (7, 7), scale=0.3)
        self.compare(f16, 1, (20, 40), (160, 256))

    def test_long(self):
        self.compare(f16, 1, (200, 150), (16, 16), causal=True)
        self.compare(f32, 1, (150, 200), (16, 16), causal=True, swapped=True)

    def test_dropout(self):
        q, k, v = (torch.randn(1, 2, 40, 16, device="cuda", requires_grad=True) for _ in range(3))
        torch.manual_seed(5)
        out = F.scaled_dot_product_attention(q, k, v, dropout_p=0.4)
        grads = torch.autograd.grad(out.sum(), [q, k, v])
        torch.manual_seed(5)
        # With unit vectors as values the outputs are the weights, dropped ones are zero.
        kept = torch.cat([F.scaled_dot_product_attention(q, k, eye, dropout_p=0.4) for eye in [torch.eye(
            40, device="cuda").expand(1, 2, 40, 40)]]).detach()
        weights = torch.softmax(q @ k.transpose(-1, -2) / 4, -1)
        mask = (kept != 0).to(f32) / 0.6
        self.assertLess((weights * mask - kept).abs().max().item(), 1e-5)
        self.assertLess(abs((kept == 0).float().mean().item() - 0.4), 0.05)
        wanted = (weights * mask) @ v
        self.assertLess((out - wanted).abs().max().item(), 1e-5)
        for one, other in zip(grads, torch.autograd.grad(wanted.sum(), [q, k, v])):
            self.assertLess((one - other).abs().max().item(), 1e-5)
        self.assertEqual(F.scaled_dot_product_attention(q, k, v, dropout_p=1.0).abs().max().item(), 0.0)

    def test_second_derivatives(self):
        q, k, v = (torch.randn(1, 1, 3, 4, dtype=f64, device="cuda", requires_grad=True) for _ in range(3))
        self.assertTrue(torch.autograd.gradgradcheck(F.scaled_dot_product_attention, (q, k, v)))

    def test_switches(self):
        q = torch.randn(1, 2, 5, 8, device="cuda", requires_grad=True)

        def node():
            return F.scaled_dot_product_attention(q, q, q).grad_fn.name()

        self.assertIn("Efficient", node())
        with sdpa_kernel(SDPBackend.MATH):
            self.assertNotIn("Efficient", node())
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION), self.assertRaisesRegex(RuntimeError, "No available kernel"):
            node()
        torch.backends.cuda.enable_mem_efficient_sdp(False)
        try:
            self.assertNotIn("Efficient", node())
        finally:
            torch.backends.cuda.enable_mem_efficient_sdp(True)

    def test_modules(self):
        layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.check_gradient(lambda x, *_: layer.to(x.device)(x), torch.randn(2, 5, 16), name="encoder layer")
        heads = torch.nn.MultiheadAttention(16, 2, batch_first=True)
        layer.eval()
        with torch.no_grad():
            self.check(lambda x: layer.to(x.device)(x), torch.randn(2, 5, 16), name="evaluated")
            self.check(lambda x: heads.to(x.device)(x, x, x, need_weights=False)[0], torch.randn(2, 5, 16))
            self.check(lambda x: heads.to(x.device)(x, x, x), torch.randn(2, 5, 16), name="with weights")


if __name__ == "__main__":
    unittest.main()
