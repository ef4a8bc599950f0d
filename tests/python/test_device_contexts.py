"""Functions that make tensors, inside of contexts that say where."""

import importlib
import unittest

from module_under_test import torch

set_device = importlib.import_module(torch.__name__ + ".utils._device").set_device


class Contexts(unittest.TestCase):
    makers = (
        lambda **o: torch.tensor([1.0], **o), lambda **o: torch.as_tensor([1.0], **o),
        lambda **o: torch.asarray([1.0], **o), lambda **o: torch.ones(1, **o), lambda **o: torch.arange(3, **o),
        lambda **o: torch.full((1,), 2.0, **o), lambda **o: torch.signal.windows.hann(4, **o),
        lambda **o: torch.signal.windows.nuttall(4, **o), lambda **o: torch.eye(2, **o),
    )

    def test_every_maker(self):
        for maker in self.makers:
            with torch.device("meta"):
                self.assertEqual([maker().device.type, maker(device=None).device.type, maker(device="cpu").device.type],
                                 ["meta", "meta", "cpu"])
            self.assertEqual(maker().device.type, "cpu")

    def test_decorators(self):
        @set_device("meta")
        def one():
            return torch.tensor([1.0])

        @set_device("meta")
        def several():
            yield torch.ones(1)
            yield torch.tensor(2)

        self.assertEqual([made.device.type for made in (one(), *several())], ["meta"] * 3)
        self.assertEqual(torch.tensor(1).device.type, "cpu")


class Factories(unittest.TestCase):
    MADE = {
        "tensor": lambda: torch.tensor([1.0]),
        "as_tensor": lambda: torch.as_tensor([1.0]),
        "asarray": lambda: torch.asarray([1.0]),
        "sparse_coo_tensor": lambda: torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (2,)),
        "sparse_csr_tensor": lambda: torch.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 2.0], (2, 2)),
        "arange": lambda: torch.arange(3),
        "scalar_tensor": lambda: torch.scalar_tensor(1.0),
        "tril_indices": lambda: torch.tril_indices(2, 2),
        "hann_window": lambda: torch.hann_window(3),
        "normal_parameters": lambda: torch.nn.Linear(2, 2).weight,
        "running statistics": lambda: torch.nn.BatchNorm1d(2).running_mean,
    }

    def test_all(self):
        for name, make in self.MADE.items():
            with self.subTest(name=name):
                with torch.device("meta"):
                    self.assertEqual(make().device.type, "meta")
                torch.set_default_device("meta")
                try:
                    self.assertEqual(make().device.type, "meta")
                    with torch.device("cpu"):
                        self.assertEqual(make().device.type, "cpu")
                finally:
                    torch.set_default_device(None)
                self.assertEqual(make().device.type, "cpu")

    def test_named_devices_go_before(self):
        with torch.device("meta"):
            self.assertEqual(torch.tensor([1.0], device="cpu").device.type, "cpu")
            self.assertEqual(torch.zeros(2, device="cpu").device.type, "cpu")


if __name__ == "__main__":
    unittest.main()
