"""What gradcheck and gradgradcheck find, and what they say."""

import unittest
import warnings

from module_under_test import torch

gradcheck, gradgradcheck = torch.autograd.gradcheck, torch.autograd.gradgradcheck


def double(*shape, dtype=None):
    return torch.rand(*shape, dtype=torch.float64 if dtype is None else dtype).add(0.5).requires_grad_()


class Wrong(torch.autograd.Function):
    """x ** 2 with a gradient that is too large by a tenth."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        return 2.2 * x * grad


class Jacobians(unittest.TestCase):
    def test_right_ones_pass(self):
        for fast in (False, True):
            for dtype in (torch.float64, torch.complex128):
                x, y = double(2, 3, dtype=dtype), double(3, dtype=dtype)
                for function in (
                    lambda x, y: x * y, lambda x, y: (x.exp(), (x * y).abs()), lambda x, y: (x @ y).real if x.is_complex() else x @ y,
                ):
                    self.assertTrue(gradcheck(function, (x, y), fast_mode=fast))
                    self.assertTrue(gradcheck(function, (x, y), fast_mode=fast, check_forward_ad=True,
                                              check_batched_grad=True))

    def test_from_real_to_complex(self):
        for fast in (False, True):
            self.assertTrue(gradcheck(torch.complex, (double(2, 2), double(2, 2)), fast_mode=fast))

    def test_wrong_ones_are_found(self):
        for fast in (False, True):
            with self.assertRaisesRegex(RuntimeError, "Jacobian mismatch for output 0 with respect to input 0"):
                gradcheck(Wrong.apply, (double(3),), fast_mode=fast)
            self.assertFalse(gradcheck(Wrong.apply, (double(3),), fast_mode=fast, raise_exception=False))

    def test_complex_outputs_are_named(self):
        def function(x):
            y = x.clone()
            y.register_hook(lambda grad: grad + 1e-2)
            return y

        with self.assertRaisesRegex(RuntimeError, "While considering the imaginary part of complex outputs only"):
            gradcheck(function, (double(2, 2, dtype=torch.complex128),))

    def test_second_derivatives(self):
        for fast in (False, True):
            self.assertTrue(gradgradcheck(lambda x, y: (x ** 3 * y).sin(), (double(2), double(2)), fast_mode=fast))
            self.assertTrue(gradgradcheck(lambda x: x.exp(), (double(2, 3),), fast_mode=fast,
                                          gen_non_contig_grad_outputs=True))

    def test_no_differentiable_output(self):
        self.assertTrue(gradcheck(lambda x: (), (double(2),)))
        with self.assertRaisesRegex(RuntimeError, "Numerical gradient for function expected to be zero"):
            gradcheck(lambda x: x.detach() * 2, (double(2),))


class ForwardMode(unittest.TestCase):
    def test_wrong_tangents_are_found(self):
        class Tangent(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, grad):
                return grad

            @staticmethod
            def jvp(ctx, tangent):
                return tangent * 1.1

        for fast in (False, True):
            x = double(3)
            self.assertTrue(gradcheck(Tangent.apply, (x,), fast_mode=fast))
            with self.assertRaisesRegex(RuntimeError, "Jacobian computed with forward mode mismatch for output 0"):
                gradcheck(Tangent.apply, (x,), check_forward_ad=True, fast_mode=fast)

    def test_batches(self):
        self.assertTrue(gradcheck(lambda x, n: (x * n, x.sin()), (double(2), 3), check_forward_ad=True,
                                  check_batched_forward_grad=True))


class OtherFaults(unittest.TestCase):
    def test_random_backward(self):
        class Jitter(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, grad):
                return grad * (1 + torch.rand_like(grad) * 1e-6)

        for fast in (False, True):
            with self.assertRaisesRegex(RuntimeError, "Backward is not reentrant"):
                gradcheck(Jitter.apply, (double(3),), fast_mode=fast)
            self.assertTrue(gradcheck(Jitter.apply, (double(3),), fast_mode=fast, nondet_tol=1e-5))

    def test_gradients_that_are_not_multiplied(self):
        def function(x):
            y = x.clone()
            y.register_hook(lambda grad: grad + 1e-2)
            return y

        with self.assertRaisesRegex(RuntimeError, "backward not multiplied by grad_output"):
            gradcheck(function, (double(1),), atol=1e-1)

    def test_inputs(self):
        with self.assertRaisesRegex(ValueError, "at least one input tensor to require gradient"):
            gradcheck(lambda x: x, (torch.rand(2),), raise_exception=False)
        with self.assertRaisesRegex(RuntimeError, "The 0th input has a dimension with stride 0"):
            gradcheck(lambda x: x, (double(1).expand(2, 2),), raise_exception=False)
        with self.assertWarnsRegex(UserWarning, "Input #0 requires gradient and is not a double precision"):
            gradcheck(lambda x: x, (torch.ones(1, requires_grad=True),), atol=1e-1)

    def test_options(self):
        with self.assertRaisesRegex(AssertionError, "Expected at least one of"):
            gradcheck(lambda x: x, (double(1),), check_backward_ad=False)

    def test_outputs_that_change_shape(self):
        def function(x):
            return torch.cat([x, x]) if bool((x >= 1).all()) else x

        for fast in (False, True):
            with self.assertRaisesRegex(AssertionError, "return outputs with the same shape"):
                gradcheck(function, (torch.ones(1, dtype=torch.float64, requires_grad=True),), fast_mode=fast)

    def test_absent_gradients_do_not_warn_where_all_is_right(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertTrue(gradcheck(lambda x: x * 2, (double(2),)))


if __name__ == "__main__":
    unittest.main()
