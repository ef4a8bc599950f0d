"""How modules are moved and cast, and what they say of themselves."""

import inspect
import unittest

from module_under_test import torch

nn = torch.nn


class To(unittest.TestCase):
    def test_arguments(self):
        net = nn.Linear(2, 2)
        for arguments in ((torch.device("cpu"), True), (None, True), (torch.long,)):
            with self.assertRaises(TypeError):
                net.to(*arguments)
        with self.assertRaises(RuntimeError):
            net.to("cpu", copy=True)
        self.assertIs(net.to("cpu", torch.float64, True).weight.dtype, torch.float64)
        self.assertIs(net.to(torch.ones(1)).weight.dtype, torch.float32)

    def test_parameters_that_are_exchanged(self):
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            net = nn.Linear(2, 2)
            net(torch.ones(1, 2)).sum().backward()
            weight = net.weight
            data = weight.data_ptr()
            net.double()
            self.assertIs(net.weight, weight)
            self.assertIsInstance(weight, nn.Parameter)
            self.assertEqual((weight.dtype, weight.grad.dtype), (torch.float64, torch.float64))
            self.assertNotEqual(weight.data_ptr(), data)
        finally:
            torch.__future__.set_swap_module_params_on_conversion(False)

    def test_parameters_that_are_replaced(self):
        torch.__future__.set_overwrite_module_params_on_conversion(True)
        try:
            net = nn.Linear(2, 2)
            weight = net.weight
            net.double()
            self.assertIsNot(net.weight, weight)
            self.assertEqual(weight.dtype, torch.float32)
        finally:
            torch.__future__.set_overwrite_module_params_on_conversion(False)


class Members(unittest.TestCase):
    def test_signatures(self):
        self.assertEqual(str(inspect.signature(nn.ReLU())), "(*args, **kwargs)")
        self.assertEqual(list(inspect.signature(nn.ReLU).parameters)[0], "inplace")

    def test_buffers_of_older_classes(self):
        class Older(nn.Linear):
            def __init__(self):
                super().__init__(2, 2)
                self.extra = nn.Buffer(torch.ones(2))

            def register_buffer(self, name, value):
                super().register_buffer(name, value, True)

        self.assertEqual(list(dict(Older().named_buffers())), ["extra"])

    def test_buffers_do_not_replace_attributes(self):
        net = nn.Module()
        net.name = 5
        with self.assertRaises(KeyError):
            net.name = nn.Buffer(torch.ones(1))

    def test_devices_of_buffers(self):
        with torch.device("meta"):
            norm = nn.BatchNorm1d(3)
        self.assertEqual({str(b.device) for b in norm.buffers()}, {"meta"})

    def test_states_of_spectral_norms(self):
        net = nn.utils.spectral_norm(nn.Linear(2, 3))
        state = net.state_dict()
        self.assertEqual(state._metadata[""]["spectral_norm"], {"weight.version": 1})
        # Older states have the weight and no second vector.
        v, weight = state.pop("weight_v"), net.weight.detach()
        state["weight"] = weight.clone()
        del state._metadata[""]["spectral_norm"]
        net.load_state_dict(state)
        sigma = torch.dot(net.weight_u, net.weight_orig @ net.weight_v)
        torch.testing.assert_close(net.weight_orig / sigma, weight)
        self.assertEqual(net.weight_v.shape, v.shape)


class Parametrizations(unittest.TestCase):
    def test_a_second_one_starts_from_what_is_there(self):
        class Double(nn.Module):
            def forward(self, x):
                return 2 * x

            def right_inverse(self, x):
                return x / 2

        class PlusOne(nn.Module):
            def forward(self, x):
                return x + 1

        net = nn.Linear(2, 2)
        register = nn.utils.parametrize.register_parametrization
        before = net.weight.detach().clone()
        register(net, "weight", Double())
        self.assertTrue(torch.equal(net.weight, before))
        register(net, "weight", PlusOne())
        torch.testing.assert_close(net.weight.detach(), before + 1)

        class Wrong(Double):
            def right_inverse(self, x):
                return x.to(torch.float64)

        with self.assertRaisesRegex(ValueError, "must have the same dtype"):
            register(net, "weight", Wrong())

    def test_buffers(self):
        class Zero(nn.Module):
            def forward(self, x):
                return x * 0

        net = nn.Module()
        net.value = nn.Buffer(torch.ones(3))
        nn.utils.parametrize.register_parametrization(net, "value", Zero())
        nn.utils.parametrize.remove_parametrizations(net, "value")
        self.assertEqual(net.value.tolist(), [0.0, 0.0, 0.0])

    def test_complex_spectral_norm(self):
        torch.manual_seed(0)
        net = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2, dtype=torch.cfloat), n_power_iterations=30)
        largest = torch.linalg.svdvals(net.weight)[0].item()
        self.assertAlmostEqual(largest, 1.0, places=2)


class Sequences(unittest.TestCase):
    def test_empty_ones_and_casts(self):
        rnn = nn.utils.rnn
        with self.assertRaisesRegex(RuntimeError, "empty tensor"):
            rnn.pack_padded_sequence(torch.randn(0, 0), [])
        packed = rnn.pack_sequence([torch.ones(3), torch.ones(2)])
        for name, dtype in (("short", torch.int16), ("char", torch.int8), ("byte", torch.uint8)):
            self.assertIs(getattr(packed, name)().data.dtype, dtype)


if __name__ == "__main__":
    unittest.main()
