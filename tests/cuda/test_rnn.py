"""Recurrent networks: layers, directions, packed sequences, projections and cells as on the CPU."""

import copy
import sys
import unittest
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cuda_under_test import CudaTest, torch, usable  # noqa: E402

nn = torch.nn
rnn = nn.utils.rnn


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, rnn.PackedSequence):
        return [value.data]
    return [tensor for part in value for tensor in tensors(part)]


@usable
class Recurrent(CudaTest):
    tolerance = {"torch.float32": 2e-5, "torch.float16": 5e-3, "torch.bfloat16": 4e-2}

    def compare(self, module, *inputs, call=lambda module, *inputs: module(*inputs)):
        def results(module, inputs):
            module.zero_grad()
            out = [part for part in tensors(call(module, *inputs)) if part.is_floating_point()]
            sum((part * part).sum() for part in out).backward()
            leaves = [leaf for leaf in tensors(inputs) if leaf.requires_grad]
            return out + [leaf.grad for leaf in leaves] + [parameter.grad for parameter in module.parameters()]

        wanted = results(module, inputs)
        device = copy.deepcopy(module).to("cuda")
        found = results(device, [leaf.detach().to("cuda").requires_grad_(leaf.requires_grad) for leaf in inputs])
        self.assertEqual(len(found), len(wanted))
        for i, (one, other) in enumerate(zip(found, wanted)):
            self.assertEqual((one.dtype, one.shape, one.device.type), (other.dtype, other.shape, "cuda"))
            limit = self.tolerance.get(str(one.dtype), 1e-11)
            error = (one.cpu().double() - other.double()).abs().max() / (1 + other.double().abs().max())
            self.assertLess(error.item(), limit, f"{type(module).__name__} {i}")

    def sequence(self, *sizes, dtype=torch.float32):
        return torch.randn(*sizes, dtype=dtype, requires_grad=True)

    def test_networks(self):
        for kind in (nn.LSTM, nn.GRU, nn.RNN):
            with self.subTest(kind.__name__):
                self.compare(kind(5, 6, num_layers=2, bidirectional=True), self.sequence(4, 3, 5))
                self.compare(kind(5, 6, bias=False, batch_first=True), self.sequence(3, 4, 5))
                self.compare(kind(3, 40), self.sequence(2, 9, 3))
        self.compare(nn.RNN(5, 6, nonlinearity="relu"), self.sequence(4, 3, 5))
        self.compare(nn.LSTM(5, 6).double(), self.sequence(4, 3, 5, dtype=torch.float64))
        self.compare(nn.GRU(5, 6), self.sequence(4, 5), call=lambda m, x: m(x))

    def test_states(self):
        for kind in (nn.LSTM, nn.GRU):
            states = [self.sequence(1, 3, 6) for _ in range(2 if kind is nn.LSTM else 1)]
            self.compare(kind(5, 6), self.sequence(4, 3, 5), *states,
                         call=lambda m, x, *s: m(x, tuple(s) if len(s) == 2 else s[0]))

    def test_half(self):
        for dtype in (torch.float16, torch.bfloat16):
            for kind in (nn.LSTM, nn.GRU):
                with self.subTest(f"{kind.__name__} {dtype}"):
                    self.compare(kind(5, 6).to(dtype), self.sequence(4, 3, 5, dtype=dtype))

    def test_packed(self):
        def packed(module, x):
            return module(rnn.pack_padded_sequence(x, [4, 3, 1]))

        for kind in (nn.LSTM, nn.GRU, nn.RNN):
            self.compare(kind(5, 6, bidirectional=True), self.sequence(4, 3, 5), call=packed)

    def test_projection(self):
        self.compare(nn.LSTM(5, 6, proj_size=3, num_layers=2), self.sequence(4, 3, 5))

    def test_cells(self):
        for kind in (nn.LSTMCell, nn.GRUCell, nn.RNNCell):
            self.compare(kind(5, 6), self.sequence(3, 5))
            self.compare(kind(5, 6, bias=False), self.sequence(5))

    def test_second_derivatives(self):
        module = nn.LSTM(2, 3).double().to("cuda")
        x = torch.randn(2, 1, 2, dtype=torch.float64, device="cuda", requires_grad=True)
        self.assertTrue(torch.autograd.gradgradcheck(lambda x: module(x)[0], (x,)))

    def test_nothing_is_computed_on_the_host(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            x = torch.randn(3, 2, 5, device="cuda")
            for kind in (nn.LSTM, nn.GRU):
                kind(5, 6).to("cuda")(x)[0].sum().backward()


if __name__ == "__main__":
    unittest.main()
