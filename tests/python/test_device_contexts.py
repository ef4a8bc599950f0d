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


if __name__ == "__main__":
    unittest.main()
