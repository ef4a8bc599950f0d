"""Normalisation on the device: layers, groups and batches with their gradients, compared with the CPU."""

import unittest

from cuda_under_test import CudaTest, torch, usable

F = torch.nn.functional
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


@usable
class Norm(CudaTest):
    tolerance = {**CudaTest.tolerance, "torch.float16": 1e-2, "torch.bfloat16": 6e-2, "torch.float32": 1e-4}

    def test_layer_norm(self):
        for dtype in FLOATS:
            for shape, normalized in [((5, 70), (70,)), ((3, 4, 6), (4, 6)), ((2, 3, 300), (300,)), ((7,), (7,))]:
                x = (torch.randn(shape) * 2 + 1).to(dtype)
                weight, bias = torch.randn(normalized).to(dtype), torch.randn(normalized).to(dtype)
                self.check(lambda x, w, b: torch.native_layer_norm(x, normalized, w, b, 1e-5), x, weight, bias)
                if dtype in (torch.float32, torch.float64):
                    self.check_gradient(lambda x, w, b: F.layer_norm(x, normalized, w, b), x, weight, bias)
                    self.check_gradient(lambda x: F.layer_norm(x, normalized), x)

    def test_layer_norm_of_many_rows(self):
        self.check_gradient(lambda x, w, b: F.layer_norm(x, (9,), w, b), torch.randn(700, 9), torch.randn(9), torch.randn(9))

    def test_layer_norm_with_parameters_of_single_precision(self):
        x, weight, bias = torch.randn(6, 33).half(), torch.randn(33), torch.randn(33)
        self.check(lambda x, w, b: torch.native_layer_norm(x, (33,), w, b, 1e-5), x, weight, bias)

    def test_strided_and_empty_rows(self):
        self.check(lambda x: F.layer_norm(x.t(), (8,)), torch.randn(8, 5))
        self.check(lambda x: F.layer_norm(x, (4,)), torch.randn(0, 4))

    def test_group_norm(self):
        for dtype in FLOATS:
            for groups, shape in [(1, (2, 6, 5)), (3, (2, 6, 4, 5)), (6, (3, 6, 7))]:
                x = torch.randn(shape).to(dtype)
                weight, bias = torch.randn(6).to(dtype), torch.randn(6).to(dtype)
                self.check(lambda x, w, b: F.group_norm(x, groups, w, b), x, weight, bias)
                if dtype in (torch.float32, torch.float64):
                    self.check_gradient(lambda x, w, b: F.group_norm(x, groups, w, b), x, weight, bias)
                    self.check_gradient(lambda x: F.group_norm(x, groups), x)

    def test_batch_norm_in_training(self):
        for dtype in FLOATS:
            for shape in [(6, 5), (3, 5, 7), (2, 5, 4, 3), (2, 5, 3, 2, 2)]:
                x = (torch.randn(shape) + 3).to(dtype)
                weight, bias, mean, var = (torch.rand(5).to(dtype) + 0.5 for _ in range(4))

                def run(x, w, b, mean, var):
                    mean, var = mean.clone(), var.clone()
                    out = F.batch_norm(x, mean, var, w, b, True, 0.2)
                    return out, mean, var

                self.check(run, x, weight, bias, mean, var)
                if dtype in (torch.float32, torch.float64):
                    self.check_gradient(lambda x, w, b: F.batch_norm(x, None, None, w, b, True), x, weight, bias)

    def test_batch_norm_in_evaluation(self):
        for shape in [(6, 5), (3, 5, 7), (2, 5, 4, 3)]:
            x, weight, bias, mean, var = torch.randn(shape), *(torch.rand(5) + 0.5 for _ in range(4))
            self.check_gradient(
                lambda x, w, b: F.batch_norm(x, mean.to(x.device), var.to(x.device), w, b, False), x, weight, bias)
            self.check(lambda x, m, v: F.batch_norm(x, m, v, training=False), x, mean, var)

    def test_batch_norm_where_channels_come_last(self):
        x = torch.randn(2, 5, 4, 3).contiguous(memory_format=torch.channels_last)
        self.check_gradient(lambda x, w: F.batch_norm(x, None, None, w, None, True), x, torch.randn(5))

    def test_instance_and_root_mean_square_norms(self):
        self.check_gradient(lambda x: F.instance_norm(x), torch.randn(2, 3, 4, 5))
        self.check_gradient(lambda x, w: F.rms_norm(x, (6,), w), torch.randn(4, 6), torch.randn(6))

    def test_many_blocks_give_the_same_sums_every_time(self):
        x = torch.randn(40, 3, 50).to("cuda").requires_grad_()
        first, again = (torch.autograd.grad(F.batch_norm(x, None, None, training=True).pow(3).sum(), x)[0] for _ in range(2))
        self.assertTrue(torch.equal(first, again))

    def test_errors(self):
        x = torch.randn(2, 6).to("cuda")
        with self.assertRaises(RuntimeError):
            F.layer_norm(x, (5,))
        with self.assertRaises(RuntimeError):
            torch.native_layer_norm(torch.ones(2, 3, dtype=torch.int64).to("cuda"), (3,), None, None, 1e-5)


if __name__ == "__main__":
    unittest.main()
