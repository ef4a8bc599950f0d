"""Counts of operations, by module and operator."""

import importlib
import unittest

from module_under_test import torch

nn = torch.nn
flop_counter = importlib.import_module(f"{torch.__name__}.utils.flop_counter")
FlopCounterMode = flop_counter.FlopCounterMode


def counted(function, **options):
    """What a function does, with the operators as texts."""
    with FlopCounterMode(display=False, **options) as counter:
        function()
    found = counter.get_flop_counts()
    return {name: {str(op): n for op, n in counts.items()} for name, counts in found.items()}


class Counts(unittest.TestCase):
    def test_by_module_and_operator(self):
        net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(128, 10))
        x = torch.randn(2, 3, 8, 8)
        conv = {"aten.convolution": 13824, "aten.convolution_backward": 13824}
        linear = {"aten.addmm": 5120, "aten.mm": 10240}
        expected = {"Global": conv | linear, "Sequential": conv | linear, "Sequential.0": conv, "Sequential.3": linear}
        self.assertEqual(counted(lambda: net(x).sum().backward()), expected)
        conv["aten.convolution_backward"] *= 2
        got = counted(lambda: net(x.requires_grad_()).sum().backward())
        self.assertEqual(got["Sequential.0"], conv)

    def test_convolutions(self):
        def run():
            weight = torch.randn(4, 3, 2, 2, requires_grad=True)
            nn.functional.conv_transpose2d(torch.randn(1, 4, 5, 5), weight, stride=2).sum().backward()
            weight = torch.ones(6, 2, 3, requires_grad=True)
            nn.functional.conv1d(torch.ones(2, 4, 9), weight, groups=2).sum().backward()
            nn.functional.conv3d(torch.ones(1, 2, 4, 4, 4), torch.ones(3, 2, 2, 2, 2))

        self.assertEqual(counted(run)["Global"], {"aten.convolution": 6000, "aten.convolution_backward": 4416})

    def test_products(self):
        def run():
            torch.baddbmm(torch.ones(2, 3, 4), torch.ones(2, 3, 5), torch.ones(2, 5, 4))
            torch.einsum("bij,bjk->bik", torch.ones(2, 3, 5), torch.ones(2, 5, 4))
            q = torch.randn(2, 4, 6, 8, requires_grad=True)
            nn.functional.scaled_dot_product_attention(q, q, q).sum().backward()

        name = "aten._scaled_dot_product_flash_attention_for_cpu"
        expected = {"aten.baddbmm": 240, "aten.bmm": 240, name: 9216, f"{name}_backward": 23040}
        self.assertEqual(counted(run)["Global"], expected)

    def test_own_formulas(self):
        def formula(x, out_shape=None, **kwargs):
            return 7 * x[0] + out_shape[0]

        mapping = {torch.ops.aten.exp: formula}
        got = counted(lambda: torch.ones(2).exp(), custom_mapping=mapping)
        self.assertEqual(got["Global"], {"aten.exp": 16})
        flop_counter.register_flop_formula(torch.ops.aten.sin)(formula)
        self.assertEqual(counted(lambda: torch.ones(1).sin())["Global"], {"aten.sin": 8})
        with self.assertRaisesRegex(RuntimeError, "duplicate registrations"):
            flop_counter.register_flop_formula([torch.ops.aten.sin])(formula)

    def test_checkpoints_compute_again(self):
        checkpoint = importlib.import_module(f"{torch.__name__}.utils.checkpoint").checkpoint
        layer = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
        x = torch.randn(2, 4, requires_grad=True)
        once = counted(lambda: layer(x).sum().backward())["Global"]
        again = counted(lambda: checkpoint(layer, x, use_reentrant=False).sum().backward())["Global"]
        self.assertEqual((once["aten.addmm"], again["aten.addmm"]), (128, 192))

    @unittest.skipUnless(torch.__name__ == "corten", "PyTorch's tables need a package")
    def test_table(self):
        with FlopCounterMode(display=False) as counter:
            nn.Linear(100, 100)(torch.ones(10, 100))
            torch.ones(10, 10) @ torch.ones(10, 10)
        lines = counter.get_table().splitlines()
        self.assertEqual(lines[0].split(), ["Module", "FLOP", "%", "Total"])
        self.assertEqual(lines[2].split(), ["Global", "202.000K", "100.00%"])
        self.assertEqual(lines[-1].split(), ["-", "aten.addmm", "200.000K", "99.01%"])


if __name__ == "__main__":
    unittest.main()
