"""Quantised modules that PyTorch saved, whole and as state dicts, and files of our own."""

from __future__ import annotations

import io
import unittest
import warnings
from pathlib import Path

import quantized_module_cases as cases
from module_under_test import torch

FILE = Path(__file__).parents[1] / "goldens" / "quantized_modules_saved_by_torch.pt"


def read():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.load(FILE, weights_only=False)


def again(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


class Saved(unittest.TestCase):
    def equal(self, found, expected):
        if isinstance(expected, (tuple, list)):
            self.assertEqual(len(found), len(expected))
            for pair in zip(found, expected):
                self.equal(*pair)
        elif expected.is_quantized:
            self.assertEqual(found.dtype, expected.dtype)
            self.assertTrue(torch.equal(found.int_repr(), expected.int_repr()))
            self.assertEqual(found.q_scale(), expected.q_scale())
            self.assertEqual(found.q_zero_point(), expected.q_zero_point())
        else:
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)

    def test_state_of_a_converted_model(self):
        saved = read()
        nn, nnq = torch.nn, torch.ao.nn.quantized
        model = nn.Sequential(
            nnq.Quantize(1.0, 0, torch.quint8), torch.ao.nn.intrinsic.quantized.ConvReLU2d(2, 4, 3), nn.Identity(),
            nnq.Conv2d(4, 4, 1, groups=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nnq.Linear(4, 3), nnq.DeQuantize(),
        )
        model.load_state_dict(saved["state"])
        self.equal(model(saved["image"]), saved["result"])
        self.assertEqual(list(model.state_dict()), list(saved["state"]))
        if torch.__name__ == "corten":
            # PyTorch reads its convolutions without the dictionaries of a module.
            self.equal(again(model)(saved["image"]), saved["result"])

    def test_whole_modules(self):
        saved = read()
        self.equal(saved["linear"](saved["linear input"]), saved["linear result"])
        self.equal(saved["table"](saved["places"]), saved["rows of the table"])
        for kind in ("LSTM", "GRU", "LSTMCell", "Linear"):
            with self.subTest(kind=kind):
                rows = saved["rows"][0] if kind == "LSTMCell" else saved["rows"]
                self.equal(saved[kind](rows), saved[f"{kind} result"])
                self.equal(again(saved[kind])(rows), saved[f"{kind} result"])

    def test_states_of_dynamic_modules(self):
        saved = read()
        for kind in ("LSTM", "GRU", "LSTMCell", "Linear"):
            with self.subTest(kind=kind):
                rows = saved["rows"][0] if kind == "LSTMCell" else saved["rows"]
                module = getattr(torch.ao.nn.quantized.dynamic, kind)(4, 3)
                module.load_state_dict(saved[f"{kind} state"])
                self.equal(module(rows), saved[f"{kind} result"])
        table = torch.ao.nn.quantized.Embedding(6, 8)
        table.load_state_dict(saved["table state"])
        self.equal(table(saved["places"]), saved["rows of the table"])


if __name__ == "__main__":
    unittest.main()
