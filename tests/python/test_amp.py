"""Automatic casts and the scaling of losses."""

import pickle
import unittest
import warnings

from module_under_test import torch

F = torch.nn.functional
single, brain = torch.float32, torch.bfloat16


class Casts(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore")
        self.x = torch.randn(4, 4)
        self.b = self.x.bfloat16()

    def test_dtypes_of_results(self):
        x, b = self.x, self.b
        images = torch.randn(1, 2, 8, 8)
        labels = torch.zeros(4, dtype=torch.long)
        expected = [
            (lambda: x @ x, brain), (lambda: b @ x, brain),
            (lambda: x.double() @ x.double(), torch.float64),
            (lambda: F.prelu(x, torch.ones(1)), brain), (lambda: torch.linalg.vecdot(x, x), brain),
            (lambda: torch.cat([x, b]), single), (lambda: torch.stack([b, b]), brain),
            (lambda: F.mse_loss(b, b), single), (lambda: torch.prod(b), single),
            (lambda: torch.softmax(b, -1), brain), (lambda: x + b, single),
            (lambda: torch.exp(b), brain), (lambda: F.cross_entropy(b, labels), single),
            (lambda: F.layer_norm(b, (4,)), brain),
            (lambda: F.conv2d(images, torch.randn(3, 2, 3, 3)), brain),
            (lambda: F.scaled_dot_product_attention(x[None], x[None], x[None]), brain),
            (lambda: torch.mm(x, x, out=torch.empty(4, 4)), single), (lambda: x.mv(x[0]), single),
            (lambda: F.linear(x, x), brain), (lambda: torch.einsum("ij,jk", x, x), brain),
            (lambda: x.clone().addmm_(x, x), single),
            (lambda: torch.nn.MultiheadAttention(4, 2)(x, x, x)[0], brain),
            (lambda: torch.index_copy(x, 0, torch.tensor([0]), b[:1]), single),
        ]
        with torch.autocast("cpu"):
            for place, (compute, dtype) in enumerate(expected):
                self.assertEqual(compute().dtype, dtype, place)
        self.assertEqual((x @ x).dtype, single)

    def test_values_are_those_of_the_short_dtype(self):
        with torch.autocast("cpu"):
            product = self.x @ self.x
        self.assertTrue(torch.equal(product, self.b @ self.b))

    def test_recurrent_layers(self):
        x = torch.randn(5, 2, 4)
        with torch.autocast("cpu"):
            for layer, dtype in (
                (torch.nn.LSTM(4, 3), brain), (torch.nn.GRU(4, 3), single), (torch.nn.RNN(4, 3), brain),
            ):
                self.assertEqual(layer(x)[0].dtype, dtype)

    def test_nesting(self):
        with torch.autocast("cpu"):
            self.assertTrue(torch.is_autocast_enabled("cpu"))
            with torch.autocast("cpu", enabled=False):
                self.assertEqual((self.x @ self.x).dtype, single)
            with torch.autocast("cpu", dtype=torch.float16):
                self.assertEqual((self.x @ self.x).dtype, torch.float16)
            self.assertEqual((self.x @ self.x).dtype, brain)
        self.assertFalse(torch.is_autocast_enabled("cpu"))
        self.assertEqual(torch.get_autocast_dtype("cpu"), brain)

        @torch.autocast("cpu")
        def product(a):
            return a @ a

        self.assertEqual(product(self.x).dtype, brain)

    def test_gradients_and_cache(self):
        weight = torch.nn.Parameter(torch.randn(4, 4))
        with torch.autocast("cpu"):
            ((self.x @ weight) + (self.x @ weight)).float().sum().backward()
        self.assertEqual(weight.grad.dtype, single)
        expected = 2 * self.b.float().sum(0).unsqueeze(1).expand(4, 4)
        self.assertTrue(torch.allclose(weight.grad, expected, rtol=2e-2, atol=2e-2))
        with torch.no_grad():
            weight.fill_(1.0)
        with torch.autocast("cpu"):
            # A new region casts the parameter anew.
            self.assertTrue(torch.equal(self.x @ weight, self.b @ torch.ones(4, 4).bfloat16()))

    def test_refused(self):
        with self.assertRaisesRegex(ValueError, "Expected `device_type` of type `str`"):
            torch.autocast(3)
        with self.assertRaisesRegex(RuntimeError, "device type at start of device string: nope"):
            torch.autocast("nope")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            with torch.autocast("cpu", dtype=torch.float64):
                self.assertFalse(torch.is_autocast_enabled("cpu"))
        self.assertIn("the target dtype is not supported", str(seen[0].message))

    def test_functions(self):
        seen = []

        class Double(torch.autograd.Function):
            @staticmethod
            @torch.amp.custom_fwd(device_type="cpu", cast_inputs=single)
            def forward(ctx, x, extra):
                seen.append((torch.is_autocast_enabled("cpu"), x.dtype, extra["k"].dtype))
                return x * 2

            @staticmethod
            @torch.amp.custom_bwd(device_type="cpu")
            def backward(ctx, grad):
                seen.append(torch.is_autocast_enabled("cpu"))
                return grad * 2, None

        with torch.autocast("cpu"):
            Double.apply(self.b.clone().requires_grad_(), {"k": self.b}).sum().backward()
        self.assertEqual(seen[0][:2], (False, single))
        self.assertEqual(seen[1], False)


class Scaling(unittest.TestCase):
    def setUp(self):
        self.model = torch.nn.Linear(4, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)

    def step(self, factor=1.0):
        self.optimizer.zero_grad()
        self.scaler.scale(self.model(torch.ones(1, 4)).sum() * factor).backward()

    def test_scale_follows_the_gradients(self):
        scales = []
        for factor in (1.0, 1.0, 1.0, float("inf"), 1.0):
            before = self.model.weight.detach().clone()
            self.step(factor)
            self.scaler.step(self.optimizer)
            self.scaler.update()
            scales.append((self.scaler.get_scale(), self.scaler._get_growth_tracker()))
            moved = not torch.equal(before, self.model.weight)
            self.assertEqual(moved, factor == 1.0)
        self.assertEqual(scales, [(4, 1), (8, 0), (8, 1), (4, 0), (4, 1)])

    def test_order_of_calls(self):
        self.step()
        self.scaler.unscale_(self.optimizer)
        self.assertEqual(self.model.bias.grad.tolist(), [1, 1])
        with self.assertRaisesRegex(RuntimeError, r"unscale_\(\) has already been called"):
            self.scaler.unscale_(self.optimizer)
        self.scaler.step(self.optimizer)
        with self.assertRaisesRegex(RuntimeError, r"step\(\) has already been called"):
            self.scaler.step(self.optimizer)
        with self.assertRaisesRegex(AssertionError, "only be pickled at the beginning"):
            pickle.dumps(self.scaler)
        self.scaler.update()
        with self.assertRaisesRegex(AssertionError, "No inf checks were recorded prior to update"):
            self.scaler.update()
        again = torch.amp.GradScaler("cpu")
        again.load_state_dict(self.scaler.state_dict())
        self.assertEqual(again.get_scale(), 4.0)
        self.assertEqual(pickle.loads(pickle.dumps(self.scaler)).get_scale(), 4.0)

    def test_disabled(self):
        scaler = torch.amp.GradScaler("cpu", enabled=False)
        loss = torch.ones(2)
        self.assertIs(scaler.scale(loss), loss)
        self.assertEqual((scaler.get_scale(), scaler.state_dict()), (1.0, {}))


if __name__ == "__main__":
    unittest.main()
