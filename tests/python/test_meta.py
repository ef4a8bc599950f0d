"""Tensors without data: operators, gradients, modules and optimizers give shapes."""

import unittest

from module_under_test import torch

F, nn = torch.nn.functional, torch.nn


def empty(*sizes, **options):
    return torch.empty(*sizes, device="meta", **options)


def gradients(function, *inputs):
    inputs = [x.requires_grad_() for x in inputs]
    out = function(*inputs)
    grads = torch.autograd.grad(out, inputs, torch.ones_like(out))
    return [(tuple(grad.shape), grad.stride(), grad.device.type) for grad in grads]


class Operators(unittest.TestCase):
    def test_kernels(self):
        image = empty(2, 3, 8, 8).to(memory_format=torch.channels_last)
        out = F.conv2d(image, empty(4, 3, 3, 3), padding=1)
        self.assertEqual((out.shape, out.device.type), ((2, 4, 8, 8), "meta"))
        self.assertEqual(F.max_pool2d(image, 2).stride(), (48, 1, 12, 3))
        self.assertEqual(torch.cat([image, image], 1).stride(), (384, 1, 48, 6))
        self.assertEqual((empty(2, 3) @ empty(3, 4)).shape, (2, 4))
        self.assertEqual(empty(4, 5)[:, torch.tensor([0, 1])].shape, (4, 2))
        self.assertEqual(empty(4, 5)[torch.tensor([True, False, True, True])].shape, (3, 5))
        self.assertEqual(torch.acos(empty(3, dtype=torch.int64)).dtype, torch.float32)
        self.assertEqual(torch.fft.irfft2(empty(5, 6, 7)).shape, (5, 6, 12))

    def test_out_and_in_place(self):
        out = empty(0)
        self.assertIs(torch.mm(empty(2, 3), empty(3, 4), out=out), out)
        self.assertEqual(out.shape, (2, 4))
        target = empty(3, 4)
        index = empty(2, dtype=torch.int64)
        self.assertIs(target.index_add_(0, index, empty(2, 4)), target)
        self.assertIs(target.normal_(), target)
        with self.assertRaises(RuntimeError):
            target.index_add_(0, index, empty(3, 4))

    def test_shapes_that_follow_from_data(self):
        for function in (
            torch.nonzero, torch.unique, torch.unique_consecutive,
            lambda x: x[x > 0], lambda x: torch.masked_select(x, x > 0),
        ):
            with self.assertRaises(NotImplementedError):
                function(empty(3))
        with self.assertRaisesRegex(RuntimeError, "cannot be called on meta tensors"):
            empty(()).item()
        with self.assertRaisesRegex(RuntimeError, "without output_size"):
            empty(3).repeat_interleave(empty(3, dtype=torch.int64))
        repeats = empty(3, dtype=torch.int64)
        self.assertEqual(empty(3, 2).repeat_interleave(repeats, 0, output_size=5).shape, (5, 2))
        self.assertEqual(torch.nonzero_static(empty(3, 2), size=4).shape, (4, 2))

    def test_the_generator_is_left_alone(self):
        torch.manual_seed(1)
        first = torch.rand(3)
        torch.manual_seed(1)
        empty(100).normal_()
        torch.multinomial(empty(4), 2)
        self.assertTrue(torch.equal(torch.rand(3), first))


class Gradients(unittest.TestCase):
    def test_with_zeros_or_without(self):
        matrix = [((3, 3), (3, 1), "meta")]
        self.assertEqual(gradients(lambda x: x.prod(), empty(3, 3)), matrix)
        self.assertEqual(gradients(lambda x: x.cumprod(0), empty(3, 3)), matrix)
        self.assertEqual(gradients(torch.linalg.det, empty(3, 3)), [((3, 3), (1, 3), "meta")])

    def test_masks(self):
        mask = empty(3, 3, dtype=torch.bool)
        for function, source in (
            (lambda x, y: x.masked_fill(mask, y), ()),
            (lambda x, y: x.masked_scatter(mask, y), (20,)),
        ):
            shapes = [grad[0] for grad in gradients(function, empty(3, 3), empty(source))]
            self.assertEqual(shapes, [(3, 3), source])


class Modules(unittest.TestCase):
    def test_training_step(self):
        with torch.device("meta"):
            net = nn.Sequential(
                nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(),
                nn.Flatten(), nn.Linear(288, 10), nn.LayerNorm(10),
            )
            loss = F.cross_entropy(net(torch.randn(2, 3, 8, 8)), torch.zeros(2, dtype=torch.long))
        optimizer = torch.optim.Adam(net.parameters())
        loss.backward()
        optimizer.step()
        self.assertEqual(net[0].weight.grad.device.type, "meta")
        self.assertEqual(net[0].weight.grad.shape, (8, 3, 3, 3))

    def test_recurrence_and_attention(self):
        with torch.device("meta"):
            lstm = nn.LSTM(4, 5, 2, bidirectional=True)
            layer = nn.TransformerEncoderLayer(8, 2, batch_first=True)
            self.assertEqual(lstm(torch.empty(7, 2, 4))[0].stride(), (20, 10, 1))
            layer(torch.empty(2, 5, 8)).sum().backward()
        self.assertEqual(layer.linear1.weight.grad.shape, layer.linear1.weight.shape)

    def test_leaving(self):
        module = nn.Linear(2, 3, device="meta")
        with self.assertRaisesRegex(NotImplementedError, "Please use torch.nn.Module.to_empty"):
            module.to("cpu")
        weight = module.to_empty(device="cpu").weight
        self.assertEqual((weight.device.type, weight.shape), ("cpu", (3, 2)))
        self.assertTrue(weight.requires_grad)
        self.assertEqual(nn.utils.skip_init(nn.Linear, 3, 4).weight.shape, (4, 3))


class MixedDevices(unittest.TestCase):
    def test_refused(self):
        """Operators that need data refuse tensors that have none."""
        matrix, vector = torch.ones(2, 2), torch.ones(2)
        cases = (
            lambda: torch.mv(matrix.to("meta"), vector), lambda: torch.cat([matrix, matrix.to("meta")]),
            lambda: torch.stack([matrix.to("meta"), matrix]), lambda: matrix + matrix.to("meta"),
            lambda: torch.linalg.multi_dot([matrix, matrix.to("meta"), matrix]),
        )
        for number, case in enumerate(cases):
            with self.subTest(number), self.assertRaises(RuntimeError):
                repr(case())


if __name__ == "__main__":
    unittest.main()
