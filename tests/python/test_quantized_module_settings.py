"""How modules of ``torch.ao.nn`` are made: devices and dtypes of what they hold, and settings they do not know."""

from __future__ import annotations

import inspect
import subprocess
import sys
import unittest
import warnings

from module_under_test import torch

nnqat, nnqa, nnq = torch.nn.qat, torch.nn.quantizable, torch.nn.quantized


def _two():
    return torch.nn.Parameter(torch.tensor(2.0))


def _weights(config):
    return {"qconfig": getattr(torch.ao.quantization, config)}


#: Arguments that modules can be made with; those in the second table take device and dtype in ``factory_kwargs`` or not
#: at all.
MADE = {
    nnqat.Conv1d: ((3, 3, 3), _weights("default_qconfig")),
    nnqat.Conv2d: ((3, 3, 3), _weights("default_qconfig")),
    nnqat.Conv3d: ((3, 3, 3), _weights("default_qconfig")),
    nnqat.Linear: ((5, 2), _weights("default_qconfig")),
    nnqat.Embedding: ((10, 12), _weights("float_qparams_weight_only_qconfig")),
    nnqat.EmbeddingBag: ((10, 12), _weights("float_qparams_weight_only_qconfig")),
    nnqa.LSTM: ((5, 6), {}),
    nnqa.LSTMCell: ((5, 6), {}),
    nnqa.MultiheadAttention: ((10, 2), {}),
    nnq.BatchNorm2d: ((2,), {}),
    nnq.BatchNorm3d: ((2,), {}),
    nnq.Hardswish: ((0.1, 0), {}),
    nnq.LeakyReLU: ((0.01, 0), {}),
    nnq.LayerNorm: ((2, _two(), _two(), 0.1, 0), {}),
    nnq.GroupNorm: ((2, 4, _two(), _two(), 0.1, 0), {}),
    nnq.InstanceNorm1d: ((2, _two(), _two(), 0.1, 0), {}),
    nnq.InstanceNorm2d: ((2, _two(), _two(), 0.1, 0), {}),
    nnq.InstanceNorm3d: ((2, _two(), _two(), 0.1, 0), {}),
    nnq.Conv1d: ((3, 3, 3), {}),
    nnq.Conv2d: ((3, 3, 3), {}),
    nnq.Conv3d: ((3, 3, 3), {}),
    nnq.ConvTranspose1d: ((3, 3, 3), {}),
    nnq.ConvTranspose2d: ((3, 3, 3), {}),
    nnq.ConvTranspose3d: ((3, 4, (3, 3, 5)), {"stride": (2, 1, 1), "padding": (4, 2, 2), "output_padding": 1}),
}
OTHERS = {
    nnq.Quantize: ((0.1, 0), {"dtype": torch.quint8}), nnq.DeQuantize: ((), {}), nnq.Dropout: ((), {}),
    nnq.ELU: ((0.01, 0), {}), nnq.ReLU6: ((), {}), nnq.Sigmoid: ((0.1, 0), {}), nnq.Softmax: ((), {}),
    nnq.PReLU: ((0.01, 0), {}), nnq.Linear: ((5, 2), {}), nnq.Embedding: ((10, 4), {}), nnq.EmbeddingBag: ((10, 4), {}),
    nnq.FloatFunctional: ((), {}), nnq.FXFloatFunctional: ((), {}), nnq.QFunctional: ((), {}),
    nnq.LSTM: ((5, 6), {}), nnq.MultiheadAttention: ((10, 2), {}),
}


class Settings(unittest.TestCase):
    def test_every_public_module_is_here(self):
        for package in (nnqat, nnqa, nnq):
            for name in package.modules.__all__:
                with self.subTest(name=name):
                    kind = getattr(package.modules, name)
                    self.assertTrue(inspect.isclass(kind))
                    self.assertIn(kind, {**MADE, **OTHERS})

    def test_device_and_dtype(self):
        for kind, (args, settings) in MADE.items():
            for dtype in (torch.float32, torch.float64):
                with self.subTest(kind=kind, dtype=dtype):
                    moved = [arg.detach().to(dtype) if isinstance(arg, torch.Tensor) else arg for arg in args]
                    moved = [torch.nn.Parameter(arg) if isinstance(arg, torch.Tensor) else arg for arg in moved]
                    module = kind(*moved, **settings, device="cpu", dtype=dtype)
                    held = dict(module.named_parameters()) | dict(module.named_buffers())
                    for name, tensor in held.items():
                        self.assertEqual(str(tensor.device), "cpu")
                        if tensor.is_floating_point():
                            self.assertEqual(tensor.dtype, dtype, name)

    def test_unknown_settings_are_refused(self):
        for kind, (args, settings) in {**MADE, **OTHERS}.items():
            with self.subTest(kind=kind), self.assertRaises(TypeError):
                kind(*args, **settings, no_such_setting=1)

    def test_the_rest_can_be_made(self):
        for kind, (args, settings) in OTHERS.items():
            with self.subTest(kind=kind):
                self.assertFalse(list(kind(*args, **settings).parameters()) and kind is nnq.Linear)

    @unittest.skipUnless(torch.__name__ == "corten", "how this package is loaded")
    def test_they_are_loaded_when_they_are_asked_for(self):
        program = (
            "import corten, sys; print([name for name in sys.modules if name.startswith('corten.ao')]);"
            "corten.ao.nn.qat; print('corten.ao.nn.quantized' in sys.modules)"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.split(), ["[]", "False"])

    def test_older_names(self):
        import importlib

        root = torch.__name__
        for name in ("intrinsic", "qat", "quantizable", "quantized"):
            older = importlib.import_module(f"{root}.nn.{name}")
            newer = importlib.import_module(f"{root}.ao.nn.{name}")
            for public in set(newer.modules.__all__) & set(dir(older)):
                self.assertIs(getattr(older, public), getattr(newer, public))
        old = importlib.import_module(f"{root}.nn.quantized.modules.conv")
        self.assertIs(old.Conv2d, nnq.Conv2d)
        old = importlib.import_module(f"{root}.nn.intrinsic.qat.modules.conv_fused")
        self.assertIs(old.ConvBn2d, importlib.import_module(f"{root}.ao.nn.intrinsic.qat").ConvBn2d)

    def test_conversions_that_need_observers_say_so(self):
        for kind, text in ((nnq.LSTM, "non-observed LSTM"), (nnq.MultiheadAttention, "non-observed MHA")):
            with self.assertRaisesRegex(NotImplementedError, text):
                kind.from_float(torch.nn.Linear(1, 1))
        for kind, text in ((nnqa.LSTM, "non-quantizable LSTM"), (nnqa.MultiheadAttention, "prepare an MHA")):
            with self.assertRaisesRegex(NotImplementedError, text):
                kind.from_observed(torch.nn.Linear(1, 1))

    @unittest.skipUnless(torch.__name__ == "corten", "what is not here")
    def test_block_sparse_weights_are_absent(self):
        absent = torch.ao.nn.sparse.quantized.Linear
        with self.assertRaisesRegex(NotImplementedError, "sparse.quantized.*Linear"):
            absent(4, 4, 1, 4)

    def test_dropout_of_quantizable_recurrence_is_said_to_be_ignored(self):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            nnqa.LSTM(2, 3, dropout=0.5)
        texts = [str(one.message) for one in said]
        self.assertTrue(any("is ignored" in text for text in texts), texts)
        self.assertTrue(any("num_layers greater than 1" in text for text in texts), texts)
        with self.assertRaisesRegex(ValueError, "dropout should be a number"):
            nnqa.LSTM(2, 3, dropout=2)


if __name__ == "__main__":
    unittest.main()
