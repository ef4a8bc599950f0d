"""Tensors without data: sizes, strides, dtypes and devices of whole programs."""

import copy
import pickle
import unittest

from module_under_test import torch

fake_tensor = __import__(f"{torch.__name__}._subclasses.fake_tensor", fromlist=["_"])
FakeTensor, FakeTensorMode = fake_tensor.FakeTensor, fake_tensor.FakeTensorMode
nn, F = torch.nn, torch.nn.functional


class Factories(unittest.TestCase):
    """What is made inside of a mode."""

    def test_texts(self):
        with FakeTensorMode():
            for made, text in (
                (torch.empty(2, 3), "FakeTensor(..., size=(2, 3))"),
                (torch.empty(2, dtype=torch.int64), "FakeTensor(..., size=(2,), dtype=torch.int64)"),
                (torch.ones(2, device="cuda"), "FakeTensor(..., device='cuda:0', size=(2,))"),
                (torch.tensor(3.0), "FakeTensor(..., size=())"),
                (torch.empty(2, dtype=torch.bool), "FakeTensor(..., size=(2,), dtype=torch.bool)"),
                (torch.empty(2, requires_grad=True), "FakeTensor(..., size=(2,), requires_grad=True)"),
                (torch.empty(2, requires_grad=True) + 1, "FakeTensor(..., size=(2,), grad_fn=<AddBackward0>)"),
                (nn.Parameter(torch.empty(2)), "Parameter(FakeTensor(..., size=(2,), requires_grad=True))"),
            ):
                with self.subTest(text):
                    self.assertEqual(repr(made).replace(torch.__name__, "torch"), text)

    def test_devices_that_are_not_there(self):
        with FakeTensorMode():
            x = torch.randn(3, 4, device="cuda")
            y = (x @ x.t()).relu()
            self.assertEqual((y.device, y.shape), (torch.device("cuda", 0), (3, 3)))
            self.assertTrue(y.is_cuda)
            self.assertEqual(y.cpu().device.type, "cpu")
            self.assertEqual(torch.empty(2).to("cuda:1").device.index, 1)
            self.assertEqual(torch.zeros(3).to(torch.device("cuda")).device, torch.device("cuda", 0))
            self.assertEqual(torch.empty(2).to("meta").device.type, "meta")
            self.assertEqual(torch.zeros_like(x).device, x.device)
            self.assertEqual(x.new_zeros(2).device, x.device)

    def test_tensors_made_of_values_are_constants(self):
        with FakeTensorMode():
            self.assertEqual(torch.tensor(3.0).item(), 3.0)
            self.assertEqual((torch.tensor(3) + 1).item(), 4)
            self.assertEqual(torch.tensor([3])[0].item(), 3)
            self.assertEqual(int(torch.tensor(3)), 3)
            self.assertEqual(list(range(torch.tensor(3))), [0, 1, 2])
            self.assertEqual(torch.tensor([1]).tolist(), [1])
            written = torch.tensor(3.0)
            written.add_(torch.randn(()))
            with self.assertRaises(fake_tensor.DataDependentOutputException):
                written.item()


class Errors(unittest.TestCase):
    """What has no answer without data, and mixtures."""

    def test_answers_that_depend_on_data(self):
        with FakeTensorMode():
            x = torch.randn(3)
            for call in (lambda: x.sum().item(), lambda: bool(x.sum()), lambda: torch.equal(x, x), x.tolist):
                with self.assertRaises(fake_tensor.DataDependentOutputException):
                    call()
            for call in (
                x.nonzero, lambda: x[x > 0], lambda: torch.unique(x), lambda: torch.masked_select(x, x > 0),
                lambda: torch.repeat_interleave(torch.tensor([1, 2])), lambda: torch.bincount(torch.tensor([1, 2])),
            ):
                with self.assertRaises(fake_tensor.DynamicOutputShapeException):
                    call()
            with self.assertRaisesRegex(RuntimeError, "2 elements cannot be converted to Scalar"):
                torch.empty(2).item()

    def test_devices_are_not_mixed(self):
        with FakeTensorMode():
            with self.assertRaisesRegex(RuntimeError, "found at least two devices, cpu and cuda:0"):
                torch.empty(2, 3) + torch.empty(2, 3, device="cuda")
            self.assertTrue((torch.empty(()) + torch.empty(2, device="cuda")).is_cuda)

    def test_tensors_with_data(self):
        mode, real = FakeTensorMode(), torch.randn(2, 3)
        with mode, self.assertRaisesRegex(AssertionError, "Please convert all Tensors to FakeTensors first"):
            real + 1
        with self.assertRaisesRegex(AssertionError, "Please convert all Tensors"):
            mode.from_tensor(real) + real
        with mode, self.assertRaisesRegex(AssertionError, "metadata mutating ops"):
            real.t_()
        with FakeTensorMode(allow_non_fake_inputs=True):
            self.assertIsInstance(real + 1, FakeTensor)
        with self.assertRaisesRegex(AssertionError, "Mixing fake modes"):
            mode.from_tensor(real) + FakeTensorMode().from_tensor(real)

    def test_pickles_and_arrays_are_refused(self):
        with FakeTensorMode():
            x = torch.empty(3)
        for call in (lambda: pickle.dumps(x), x.numpy):
            with self.assertRaises((RuntimeError, AttributeError, TypeError)):
                call()


class Conversion(unittest.TestCase):
    """Stand-ins of tensors with data."""

    def test_the_same_each_time(self):
        mode, real = FakeTensorMode(), torch.randn(3, 4).t()
        fake = mode.from_tensor(real)
        self.assertIs(mode.from_tensor(real), fake)
        self.assertEqual((fake.shape, fake.stride(), fake.dtype), (real.shape, real.stride(), real.dtype))
        self.assertIs(mode.from_tensor(fake), fake)
        self.assertTrue(fake_tensor.is_fake(fake))
        self.assertFalse(fake_tensor.is_fake(real))
        self.assertIs(fake_tensor.maybe_get_fake_mode(fake), mode)
        self.assertIs(torch._guards.detect_fake_mode([1, fake]), mode)

    def test_views_parameters_and_history(self):
        mode = FakeTensorMode()
        base = torch.randn(4, 6)
        view = mode.from_tensor(base[1:, ::2])
        self.assertTrue(view._is_view())
        self.assertEqual((view.shape, view.stride(), view.storage_offset()), ((3, 3), (6, 2), 6))
        self.assertIs(view._base, mode.from_tensor(base))
        parameter = nn.Parameter(base)
        fake = mode.from_tensor(parameter)
        self.assertIsInstance(fake, nn.Parameter)
        self.assertTrue(fake.requires_grad and fake.is_leaf)
        self.assertFalse(mode.from_tensor(parameter * 2).is_leaf)
        parameter.grad = torch.ones(4, 6)
        self.assertEqual(FakeTensorMode().from_tensor(parameter).grad.shape, (4, 6))

    def test_copies(self):
        module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
        with fake_tensor.FakeCopyMode(FakeTensorMode()):
            copied = copy.deepcopy(module)
        self.assertTrue(all(isinstance(p, FakeTensor) for p in copied.parameters()))
        self.assertTrue(all(isinstance(b, FakeTensor) for b in copied.buffers()))
        with FakeTensorMode():
            again = copy.deepcopy(nn.Linear(2, 3))
            self.assertIsInstance(again.weight, nn.Parameter)
            self.assertEqual(again.weight.shape, (3, 2))

    def test_mode_is_left_for_a_while(self):
        with FakeTensorMode() as mode:
            with fake_tensor.unset_fake_temporarily() as left:
                self.assertIs(left, mode)
                self.assertEqual(torch.ones(2).tolist(), [1.0, 1.0])
            self.assertIsInstance(torch.ones(2), FakeTensor)


class Programs(unittest.TestCase):
    """Whole programs."""

    def test_training(self):
        with FakeTensorMode():
            model = nn.Sequential(
                nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                nn.Linear(8 * 16 * 16, 10),
            ).to_empty(device="cuda")
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
            x, y = torch.randn(4, 3, 32, 32, device="cuda"), torch.randint(10, (4,), device="cuda")
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            for parameter in model.parameters():
                self.assertEqual(parameter.grad.shape, parameter.shape)
                self.assertEqual(parameter.grad.device, parameter.device)
            self.assertEqual(loss.device.type, "cuda")

    def test_models_too_large_for_memory(self):
        with FakeTensorMode():
            layer = nn.Linear(1 << 20, 1 << 20, device="cuda", dtype=torch.bfloat16)
            result = layer(torch.empty(8, 1 << 20, device="cuda", dtype=torch.bfloat16))
            self.assertEqual((result.shape, result.dtype), ((8, 1 << 20), torch.bfloat16))

    def test_transformers(self):
        with FakeTensorMode():
            layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
            self.assertEqual(layer(torch.randn(2, 5, 16)).shape, (2, 5, 16))
            lstm = nn.LSTM(8, 16, 2, batch_first=True)
            out, (h, c) = lstm(torch.randn(3, 5, 8))
            self.assertEqual((out.shape, h.shape, c.shape), ((3, 5, 16), (2, 3, 16), (2, 3, 16)))

    def test_writes_and_views(self):
        with FakeTensorMode():
            x = torch.zeros(4, 6)
            row = x[1]
            self.assertTrue(row._is_view())
            before = x._version
            row.add_(1)
            self.assertGreater(x._version, before)
            x.t_()
            self.assertEqual((x.shape, x.stride()), ((6, 4), (1, 6)))
            x.unsqueeze_(0)
            self.assertEqual(x.shape, (1, 6, 4))
            x[:, 0] = 3
            out = torch.empty(0)
            torch.add(torch.ones(2, 3), 1, out=out)
            self.assertEqual(out.shape, (2, 3))
            y = torch.randn(3, requires_grad=True)
            (y * 2).sum().backward()
            self.assertEqual(y.grad.shape, (3,))


@torch.library.custom_op("test_fake::rows", mutates_args=())
def rows(x: torch.Tensor) -> torch.Tensor:
    """The rows with a positive sum."""
    return x[x.sum(1) > 0].clone()


@rows.register_fake
def _(x):
    count = torch.library.get_ctx().new_dynamic_size()
    return x.new_empty(count, x.shape[1])


class CustomOperators(unittest.TestCase):
    """Shape rules of programs."""

    def test_sizes_that_depend_on_data(self):
        symbolic_shapes = __import__(f"{torch.__name__}.fx.experimental.symbolic_shapes", fromlist=["_"])
        with FakeTensorMode(shape_env=symbolic_shapes.ShapeEnv()):
            made = rows(torch.randn(4, 3))
            self.assertEqual(str(made.shape[0]), "u0")
            self.assertEqual(made.shape[1], 3)
        with FakeTensorMode(), self.assertRaises(fake_tensor.DynamicOutputShapeException):
            rows(torch.randn(4, 3))


if __name__ == "__main__":
    unittest.main()
