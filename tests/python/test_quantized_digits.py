"""A network that reads digits loses at most half a point of accuracy when it is quantised."""

from __future__ import annotations

import unittest
import warnings
from importlib import import_module
from pathlib import Path

from module_under_test import torch

ROOT = Path(__file__).resolve().parents[2]
nn = torch.nn


def digits():
    """The last 397 digits, which the network was not trained on, and their labels."""
    lines = (ROOT / "examples" / "data" / "digits.csv").read_text().split()[1400:]
    data = torch.tensor([[int(x) for x in line.split(",")] for line in lines])
    return data[:, :64].float().reshape(-1, 1, 8, 8) / 16, data[:, 64]


def network():
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(384, 10),
    )
    model.load_state_dict(torch.load(ROOT / "tests" / "goldens" / "digits_network.pt"))
    return model.eval()


class Digits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        warnings.simplefilter("ignore")
        cls.q = import_module(f"{torch.__name__}.ao.quantization")
        cls.x, cls.y = digits()
        cls.float = cls.accuracy(network())

    @classmethod
    def accuracy(cls, model):
        with torch.no_grad():
            return (model(cls.x).argmax(1) == cls.y).double().mean().item()

    def check(self, model):
        self.assertGreater(self.float, 0.95)
        self.assertGreaterEqual(self.accuracy(model), self.float - 0.005)

    def test_static(self):
        for backend in ("x86", "qnnpack"):
            with self.subTest(backend=backend):
                model = self.q.fuse_modules(network(), [["0", "1", "2"], ["3", "4"]])
                model = self.q.QuantWrapper(model)
                model.qconfig = self.q.get_default_qconfig(backend)
                model = self.q.prepare(model)
                model(self.x[:64])
                self.check(self.q.convert(model))

    def test_static_graph(self):
        fx = import_module(f"{torch.__name__}.ao.quantization.quantize_fx")
        prepared = fx.prepare_fx(network(), self.q.get_default_qconfig_mapping("x86"), (self.x[:1],))
        prepared(self.x[:64])
        self.check(fx.convert_fx(prepared))

    def test_dynamic(self):
        self.check(self.q.quantize_dynamic(network(), {nn.Linear}))

    def test_training(self):
        model = network().train()
        self.q.fuse_modules_qat(model, [["0", "1", "2"], ["3", "4"]], inplace=True)
        model = self.q.QuantWrapper(model).train()
        model.qconfig = self.q.get_default_qat_qconfig("x86")
        model = self.q.prepare_qat(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        for part in torch.arange(64).split(32):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(self.x[part]), self.y[part]).backward()
            optimizer.step()
        self.check(self.q.convert(model.eval()))


if __name__ == "__main__":
    unittest.main()
