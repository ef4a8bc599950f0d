"""Compiled functions and modules: archives of them give what their Python gives."""

import copy
import io
import unittest

import scripted_programs as programs
from module_under_test import torch

nn = torch.nn
CORTEN = torch.__name__ == "corten"


def again(made):
    """What an archive of a module or function gives."""
    file = io.BytesIO()
    torch.jit.save(made, file)
    file.seek(0)
    return torch.jit.load(file)


class Compiled(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def same(self, found, expected):
        if isinstance(expected, torch.Tensor):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        elif isinstance(expected, (list, tuple)):
            self.assertEqual(len(found), len(expected))
            for one, other in zip(found, expected):
                self.same(one, other)
        elif isinstance(expected, dict):
            self.assertEqual(list(found), list(expected))
            self.same(list(found.values()), list(expected.values()))
        else:
            self.assertEqual(found, expected)

    def check(self, program, *arguments):
        """That a program gives the same as Python, compiled, and from an archive."""
        if isinstance(program, nn.Module):
            program.eval()
        expected = program(*copy.deepcopy(arguments))
        made = torch.jit.script(program)
        self.same(made(*copy.deepcopy(arguments)), expected)
        loaded = again(made)
        self.same(loaded(*arguments), expected)
        return loaded

    def test_control_flow(self):
        self.check(programs.control, torch.randn(3, 4))
        self.check(programs.control, torch.randn(3, 4), 5, False, ["a", "b"])

    def test_objects(self):
        self.check(programs.objects, torch.randn(3, 4))

    def test_unions(self):
        self.check(programs.union, torch.ones(2))
        self.check(programs.union, torch.ones(2), 3)

    def test_containers(self):
        self.check(programs.containers, [torch.ones(2)], {"a": torch.ones(2), "skip": torch.ones(1)})

    def test_errors_of_programs(self):
        loaded = again(torch.jit.script(programs.raising))
        self.assertEqual(loaded(torch.ones(1), 2).item(), 2.0)
        with self.assertRaisesRegex(torch.jit.Error, "7 is too large"):
            loaded(torch.ones(1), 7)

    def test_module(self):
        loaded = self.check(programs.Network(), torch.randn(2, 3, 8, 8))
        self.assertEqual(loaded.extra(torch.ones(1)).item(), 3.0)
        self.assertEqual((loaded.names, loaded.flag, loaded.k), (["a", "b"], True, None))
        self.check(programs.Network(), torch.randn(2, 3, 8, 8), torch.tensor([1, 2]))

    def test_derived(self):
        self.check(programs.Derived(), torch.randn(2, 3, 8, 8))

    def test_recurrent(self):
        self.check(programs.Recurrent(), torch.randn(2, 5, 3))

    def test_attention(self):
        if CORTEN:
            self.check(programs.Attention(), torch.randn(2, 5, 8))
            self.check(programs.Attention(), torch.randn(2, 5, 8), torch.arange(10).view(2, 5) > 7)

    def test_training(self):
        module = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2))
        loaded, x = again(torch.jit.script(module)), torch.randn(4, 3)
        self.same(loaded(x), module(x))
        self.same(loaded.state_dict(), module.state_dict())

    def test_parameters_are_kept_up(self):
        module = torch.jit.script(nn.Linear(2, 2))
        with torch.no_grad():
            module.weight.fill_(3.0)
        self.assertEqual(again(module).weight.unique().tolist(), [3.0])
        self.same(again(copy.deepcopy(module)).weight, module.weight)

    def test_shared_parameters(self):
        module = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
        module[1].weight = module[0].weight
        whole = nn.Sequential(*module)
        loaded = again(torch.jit.script(whole))
        self.assertEqual(len(list(loaded.parameters())), 3)

    def test_code(self):
        self.assertIn("def forward(self", torch.jit.script(nn.Linear(2, 2)).code)
        self.assertIn("forward(", torch.jit.script(programs.Network()).code)

    def test_layers(self):
        x = torch.randn(2, 4, 6, 6)
        for layer in (
            nn.Conv2d(4, 2, 3, padding="same"), nn.Conv2d(4, 2, 3, padding=1, padding_mode="reflect"), nn.ConvTranspose2d(4, 2, 3, 2),
            nn.BatchNorm2d(4), nn.InstanceNorm2d(4, affine=True), nn.GroupNorm(2, 4), nn.LocalResponseNorm(2), nn.ReLU(), nn.ReLU6(),
            nn.LeakyReLU(0.2), nn.ELU(), nn.SiLU(), nn.Mish(), nn.Hardswish(), nn.Hardsigmoid(), nn.Hardtanh(), nn.GELU("tanh"),
            nn.Softmax(1), nn.LogSoftmax(-1), nn.Softplus(), nn.Softsign(), nn.Tanhshrink(), nn.GLU(1), nn.PReLU(), nn.Sigmoid(),
            nn.MaxPool2d(2, 1), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(2), nn.AdaptiveAvgPool2d((None, 3)), nn.AdaptiveMaxPool2d(2),
            nn.Flatten(), nn.Unflatten(1, (2, 2)), nn.Identity(), nn.PixelShuffle(2), nn.ChannelShuffle(2),
            nn.Upsample(scale_factor=2, mode="bilinear"), nn.Upsample(size=(3, 4)), nn.ZeroPad2d(1), nn.ReflectionPad2d((1, 2, 0, 1)),
            nn.ReplicationPad2d(1), nn.ConstantPad2d(1, 2.0), nn.Dropout2d(0.5), nn.LayerNorm([6, 6]), nn.Linear(6, 2, bias=False),
            nn.Unfold(2), nn.CircularPad2d(1), nn.Threshold(0.1, 2.0),
        ):
            with self.subTest(layer=type(layer).__name__):
                self.check(layer, x)

    def test_losses(self):
        x, y = torch.randn(3, 4), torch.rand(3, 4)
        for loss, *given in (
            (nn.MSELoss(), x, y), (nn.L1Loss(reduction="sum"), x, y), (nn.SmoothL1Loss(), x, y), (nn.HuberLoss(), x, y),
            (nn.CrossEntropyLoss(label_smoothing=0.1), x, torch.tensor([0, 1, 3])), (nn.BCEWithLogitsLoss(), x, y),
            (nn.NLLLoss(), x.log_softmax(1), torch.tensor([0, 1, 3])), (nn.BCELoss(), x.sigmoid(), y), (nn.KLDivLoss(), x, y),
        ):
            with self.subTest(loss=type(loss).__name__):
                self.check(loss, *given)

    def test_functions_of_source(self):
        unit = torch.jit.CompilationUnit("""
            def twice(x):
                return x * 2

            def more(x, n: int):
                y = twice(x)
                for i in range(n):
                    y += i
                return y
        """)
        self.assertEqual(unit.more(torch.ones(1), 3).item(), 5.0)


class Refused(unittest.TestCase):
    def test_statements(self):
        kind = torch.jit.frontend.NotSupportedError
        for function, text in ((programs.trying, "try blocks aren't supported"), (programs.making, "ambda")):
            with self.assertRaisesRegex(kind if CORTEN else Exception, text) as raised:
                torch.jit.script(function)
            self.assertIn("HERE", str(raised.exception))

    def test_variable_arguments(self):
        with self.assertRaisesRegex(Exception if not CORTEN else RuntimeError, "variable number of arguments"):
            torch.jit.script(programs.variable).save(io.BytesIO())

    @unittest.skipUnless(CORTEN, "PyTorch saves no modules that were not compiled")
    def test_plain_modules_are_not_saved(self):
        with self.assertRaisesRegex(RuntimeError, "neither scripted nor traced"):
            torch.jit.save(nn.Linear(1, 1), io.BytesIO())


if __name__ == "__main__":
    unittest.main()
