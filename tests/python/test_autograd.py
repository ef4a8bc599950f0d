"""Recording and backward passes as Python sees them."""

import importlib
import time
import unittest
import warnings

from module_under_test import torch

forward_ad = importlib.import_module(torch.__name__ + ".autograd.forward_ad")
functional = importlib.import_module(torch.__name__ + ".autograd.functional")
checkpoints = importlib.import_module(torch.__name__ + ".utils.checkpoint")


def leaf(*values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


class ExceptionsInHooks(unittest.TestCase):
    """Exceptions come through also from passes that run without the interpreter lock."""

    def setUp(self):
        # The pass after one that took long gives the lock up.
        slow = leaf(1.0)
        slow.register_hook(lambda grad: time.sleep(0.005))
        slow.sum().backward()

    def check(self, output):
        with self.assertRaisesRegex(ValueError, "boom"):
            output.sum().backward()
        # The engine is usable afterwards.
        other = leaf(2.0)
        other.sum().backward()
        self.assertEqual(other.grad.item(), 1.0)

    @staticmethod
    def fail(*args):
        raise ValueError("boom")

    def test_in_a_tensor_hook(self):
        x = leaf(1.0)
        x.register_hook(self.fail)
        self.check(x * 2)

    def test_in_node_hooks(self):
        y = leaf(1.0) * 2
        y.grad_fn.register_hook(self.fail)
        self.check(y)

    def test_in_node_prehooks(self):
        y = leaf(1.0) * 2
        y.grad_fn.register_prehook(self.fail)
        self.check(y)

    def test_after_accumulation(self):
        x = leaf(1.0)
        x.register_post_accumulate_grad_hook(self.fail)
        self.check(x * 2)

    def test_in_backward_functions(self):
        class Failing(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, grad):
                raise ValueError("boom")

        self.check(Failing.apply(leaf(1.0)))

    def test_in_unpacking(self):
        with torch.autograd.graph.saved_tensors_hooks(lambda saved: saved, self.fail):
            y = leaf(1.0).exp()
        self.check(y)


class Functions(unittest.TestCase):
    def test_results_that_are_no_tensors_have_no_gradient(self):
        seen = []

        class Mixed(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a, b):
                return a * 2, "text", b * 3, None

            @staticmethod
            def backward(ctx, *grads):
                seen.extend(grads)
                return grads[0] * 2, grads[2] * 3

        a, b = leaf(1.0), leaf(1.0)
        first, text, third, nothing = Mixed.apply(a, b)
        (first + third).sum().backward()
        self.assertEqual((text, nothing), ("text", None))
        self.assertEqual([grad is None for grad in seen], [False, True, False, True])
        self.assertEqual((a.grad.item(), b.grad.item()), (2.0, 3.0))


class InPlace(unittest.TestCase):
    def test_comparisons_cut_the_gradient(self):
        for name in ("eq_", "ne_", "lt_", "le_", "gt_", "ge_"):
            x = leaf(1.0, 2.0)
            y = x * 3
            getattr(y, name)(2.0)
            y.sum().backward()
            self.assertEqual(x.grad.tolist(), [0.0, 0.0], name)

    def test_names_of_nodes(self):
        def name(change):
            y = torch.rand(2, 1, 3, requires_grad=True) * 1
            change(y)
            return y.grad_fn.name()

        self.assertEqual(name(lambda y: y.fill_(1)), "FillBackward2")
        self.assertEqual(name(lambda y: y.transpose_(0, 1)), "TransposeBackward1")
        self.assertEqual(name(lambda y: y.squeeze_()), "SqueezeBackward3")
        self.assertEqual(name(lambda y: y.squeeze_(1)), "SqueezeBackward4")
        self.assertEqual(name(lambda y: y.unsqueeze_(1)), "UnsqueezeBackward1")
        activations = torch.nn.functional
        self.assertEqual(name(activations.leaky_relu_), "LeakyReluBackward1")
        self.assertEqual(name(activations.celu_), "CeluBackward1")
        self.assertEqual(name(lambda y: activations.threshold_(y, 0, 1)), "ThresholdBackward1")
        self.assertEqual(name(lambda y: y[0].zero_()), "torch::autograd::CopySlices")

    def test_activations_keep_their_result(self):
        for change in (
            lambda y: torch.nn.functional.elu_(y, 0.5),
            lambda y: torch.nn.functional.leaky_relu_(y, 0.1),
            lambda y: torch.nn.functional.celu_(y, 0.5),
        ):
            x = leaf(-1.0, 2.0)
            expected = torch.autograd.grad(change(x.clone()).sum(), x)[0]
            step = 1e-6
            numeric = (change(x.detach() + step) - change(x.detach() - step)) / (2 * step)
            self.assertTrue(torch.allclose(expected, numeric, atol=1e-6))

    def test_a_result_from_which_the_argument_cannot_be_told(self):
        y = torch.nn.functional.leaky_relu_(leaf(-1.0) * 1, -0.5)
        with self.assertRaisesRegex(RuntimeError, "In-place leakyReLu backward"):
            y.sum().backward()

    def test_what_was_saved_is_checked_even_if_its_gradient_is_not_asked_for(self):
        x = leaf(1.0, 2.0)
        with torch.no_grad():
            view = x.view(2)
        result = view.exp()
        result.unsqueeze_(0)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            result.sum().backward()


class Refusals(unittest.TestCase):
    """Tensors for which an operator has no derivative must not ask for one."""

    def check(self, name, argument, call):
        message = f"The function '{name}' is not differentiable with respect to argument '{argument}'"
        with self.assertRaisesRegex(RuntimeError, message):
            call()
        with torch.no_grad():
            call()

    def test_losses(self):
        f = torch.nn.functional
        scores, weight = torch.rand(4, 3), torch.rand(3, requires_grad=True)
        classes = torch.tensor([0, 1, 2, 0])
        self.check("nll_loss_forward", "weight", lambda: f.nll_loss(scores, classes, weight))
        self.check("nll_loss_forward", "weight", lambda: f.cross_entropy(scores, classes, weight))
        images, places = scores[:, :, None, None], classes[:, None, None]
        self.check("nll_loss2d_forward", "weight", lambda: f.cross_entropy(images, places, weight))
        entropy = f.binary_cross_entropy
        self.check("binary_cross_entropy", "weight", lambda: entropy(scores, scores, weight))
        logits = f.binary_cross_entropy_with_logits
        name = "binary_cross_entropy_with_logits"
        self.check(name, "weight", lambda: logits(scores, scores, weight))
        self.check(name, "pos_weight", lambda: logits(scores, scores, pos_weight=weight))
        target = torch.ones(4, 3, requires_grad=True)
        self.check("soft_margin_loss", "target", lambda: f.soft_margin_loss(scores, target))

    def test_running_statistics(self):
        values, mean, var = torch.rand(4, 3), torch.zeros(3), torch.ones(3)
        normalized = torch.nn.functional.batch_norm
        mean.requires_grad_()
        self.check("native_batch_norm", "running_mean", lambda: normalized(values, mean, var))
        mean, var = mean.detach(), var.requires_grad_()
        self.check("native_batch_norm", "running_var", lambda: normalized(values, mean, var))

    def test_the_noise_of_a_randomized_activation(self):
        noise = torch.zeros(2, requires_grad=True) * 1
        draw = torch._C._nn.rrelu_with_noise
        self.check("rrelu_with_noise", "noise", lambda: draw(torch.rand(2), noise, 0.1, 0.3, True))

    def test_what_is_differentiable_passes(self):
        values = torch.rand(2, 3, requires_grad=True)
        bias = torch.rand(3, requires_grad=True)
        result = torch.nn.functional.layer_norm(values, [3], bias, bias)
        (grad,) = torch.autograd.grad(result.pow(2).sum(), values, create_graph=True)
        self.assertEqual(torch.autograd.grad(grad.sum(), bias)[0].shape, bias.shape)


class SavedNumbers(unittest.TestCase):
    def test_factors_of_one_are_told_too(self):
        values = torch.rand(2, 2, requires_grad=True)
        node = torch.addmm(values, values, values).grad_fn
        self.assertEqual((node._saved_alpha, node._saved_beta), (1, 1))
        node = torch.addmm(values, values, values, alpha=2.5, beta=3).grad_fn
        self.assertEqual((node._saved_alpha, node._saved_beta), (2.5, 3))

    def test_gradients_of_matrices_that_lie_by_columns_do_so(self):
        for alpha in (1, 2):
            factor = torch.rand(4, 3).t().requires_grad_()
            row = torch.rand(3, 2, requires_grad=True)
            torch.addmm(row, factor, torch.rand(4, 2), alpha=alpha).sum().backward()
            self.assertEqual(factor.grad.stride(), factor.stride())


class NodeNames(unittest.TestCase):
    def test_letters_after_digits_are_capitals(self):
        values = torch.rand(1, 1, 4, 4, requires_grad=True)
        larger = torch.nn.functional.interpolate(values, scale_factor=2)
        self.assertEqual(larger.grad_fn.name(), "UpsampleNearest2DBackward0")
        self.assertEqual(values.log1p().grad_fn.name(), "Log1PBackward0")
        self.assertEqual(torch.fft.rfft(values).grad_fn.name(), "FftR2CBackward0")

    def test_first_halves_of_operators_are_not_told(self):
        values = torch.rand(3, 2, requires_grad=True)
        self.assertEqual(torch.pdist(values).grad_fn.name(), "PdistBackward0")
        loss = torch.nn.functional.nll_loss(values, torch.tensor([0, 1, 0]))
        self.assertEqual(loss.grad_fn.name(), "NllLossBackward0")


class RandomizedActivation(unittest.TestCase):
    def setUp(self):
        self.input = leaf(1.0, -2.0, 3.0, -0.5)
        self.noise = torch.zeros(4, dtype=torch.float64)

    def test_the_gradient_is_what_was_drawn(self):
        for inplace in (False, True):
            with self.subTest(inplace=inplace):
                argument = self.input * 1
                call = torch._C._nn.rrelu_with_noise_ if inplace else torch._C._nn.rrelu_with_noise
                result = call(argument, self.noise, 0.1, 0.3, True)
                self.assertEqual(result.grad_fn.name(), f"RreluWithNoiseBackward{int(inplace)}")
                self.assertEqual((argument._version, self.noise._version), (int(inplace), 0))
                (grad,) = torch.autograd.grad(result.sum(), self.input)
                self.assertEqual(grad.tolist(), self.noise.tolist())
                self.assertTrue(0.1 <= grad[1].item() <= 0.3 and grad[0].item() == 1)

    def test_without_training_it_is_the_mean(self):
        result = torch.nn.functional.rrelu(self.input, 0.25, 0.75)
        (grad,) = torch.autograd.grad(result.sum(), self.input)
        self.assertEqual(grad.tolist(), [1.0, 0.5, 1.0, 0.5])

    def test_twice(self):
        for training in (False, True):
            weights = leaf(1.0, 2.0, 3.0, 4.0)
            result = torch.nn.functional.rrelu(self.input * weights, training=training)
            (grad,) = torch.autograd.grad(result.sum(), weights, create_graph=True)
            slope = grad.detach() / self.input.detach()
            (second,) = torch.autograd.grad(grad.sum(), self.input)
            self.assertTrue(torch.allclose(second, slope))

    def test_in_place_with_a_negative_mean(self):
        result = torch._C._nn.rrelu_with_noise_(self.input * 1, self.noise, -0.3, 0.1, False)
        with self.assertRaisesRegex(RuntimeError, "negative slope which is not supported"):
            result.sum().backward()

    def test_what_does_not_fit(self):
        draw = torch._C._nn.rrelu_with_noise
        with self.assertRaisesRegex(RuntimeError, "noise tensor shape must match"):
            draw(self.input, self.noise[:3], 0.1, 0.3, True)
        with self.assertRaisesRegex(RuntimeError, "expected scalar type Double but found Float"):
            draw(self.input, self.noise.float(), 0.1, 0.3, True)
        with self.assertRaisesRegex(NotImplementedError, "not implemented for 'Long'"):
            draw(self.input.detach().long(), self.noise.long(), 0.1, 0.3, True)


class Derivatives(unittest.TestCase):
    def test_steep_margins_in_half_precision(self):
        # 1 - s(x) is 0 there, and s(-x) is not.
        values = torch.tensor([8.0], dtype=torch.bfloat16, requires_grad=True)
        target = torch.ones(1, dtype=torch.bfloat16)
        loss = torch.nn.functional.soft_margin_loss(values, target, reduction="sum")
        (grad,) = torch.autograd.grad(loss, values, create_graph=True)
        (second,) = torch.autograd.grad(grad, values)
        self.assertAlmostEqual(second.item() / 3.351e-4, 1.0, delta=0.03)

    def test_orthonormal_factors_of_wide_matrices_twice(self):
        torch.manual_seed(0)
        for dtype in (torch.float64, torch.complex128):
            for shape in ((2, 5), (2, 2, 3)):
                matrix = torch.randn(shape, dtype=dtype, requires_grad=True)

                def factors(matrix):
                    return tuple(torch.linalg.qr(matrix))

                self.assertTrue(torch.autograd.gradcheck(factors, matrix))
                self.assertTrue(torch.autograd.gradgradcheck(factors, matrix))

    def test_products(self):
        x, v = leaf(1.0, 2.0), torch.tensor([1.0, -1.0], dtype=torch.float64)
        cube = lambda x: x**3
        total = lambda x: (x**3).sum()
        self.assertEqual(functional.vjp(cube, x, v)[1].tolist(), [3.0, -12.0])
        self.assertEqual(functional.jvp(cube, x, v)[1].tolist(), [3.0, -12.0])
        self.assertEqual(functional.vhp(total, x, v)[1].tolist(), [6.0, -12.0])
        self.assertEqual(functional.hvp(total, x, v)[1].tolist(), [6.0, -12.0])

    def test_matrices(self):
        x = leaf(1.0, 2.0)
        jacobian = functional.jacobian(lambda x: x**2, x)
        self.assertEqual(jacobian.tolist(), [[2.0, 0.0], [0.0, 4.0]])
        hessian = functional.hessian(lambda x: (x**3).sum(), x)
        self.assertEqual(hessian.tolist(), [[6.0, 0.0], [0.0, 12.0]])
        columns = functional.jacobian(
            lambda x: x**2, x, vectorize=True, strategy="forward-mode"
        )
        self.assertEqual(columns.tolist(), jacobian.tolist())

    def test_strict_mode_refuses_what_does_not_depend(self):
        constant = lambda x: torch.ones(2, dtype=torch.float64)
        self.assertEqual(functional.vjp(constant, leaf(1.0), torch.ones(2))[1].tolist(), [0.0])
        with self.assertRaisesRegex(RuntimeError, "Output 0 of the user-provided function"):
            functional.vjp(constant, leaf(1.0), torch.ones(2), strict=True)


class ForwardMode(unittest.TestCase):
    x = torch.tensor([1.0, 2.0], dtype=torch.float64)
    v = torch.tensor([1.0, -1.0], dtype=torch.float64)

    def tangent(self, function):
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(function(forward_ad.make_dual(self.x, self.v))).tangent

    def test_tangents(self):
        self.assertEqual(self.tangent(lambda x: x**3).tolist(), [3.0, -12.0])
        self.assertEqual(self.tangent(lambda x: x.sum()).item(), 0.0)
        self.assertIsNone(self.tangent(lambda x: x.detach()))

    def test_writes_through_views(self):
        def change(x):
            x = x * 1
            x.view(2)[0].mul_(5)
            return x

        self.assertEqual(self.tangent(change).tolist(), [5.0, -1.0])
        self.assertEqual(self.v.tolist(), [1.0, -1.0])

    def test_both_modes(self):
        x = self.x.clone().requires_grad_()
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, self.v)
            (gradient,) = torch.autograd.grad((dual**3).sum(), dual, create_graph=True)
            product = forward_ad.unpack_dual(gradient).tangent
            self.assertEqual(product.tolist(), [6.0, -12.0])
            forward_ad.unpack_dual((dual**3).sum()).tangent.backward()
        self.assertEqual(x.grad.tolist(), [6.0, -12.0])

    def test_levels(self):
        with self.assertRaisesRegex(RuntimeError, "no level exists"):
            forward_ad.make_dual(self.x, self.v)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(self.x, self.v)
            with self.assertRaisesRegex(RuntimeError, "Nested forward mode"):
                forward_ad.enter_dual_level()
        self.assertIsNone(forward_ad.unpack_dual(dual).tangent)


class Checkpoints(unittest.TestCase):
    @staticmethod
    def part(a, b):
        return torch.nn.functional.dropout((a * b).sin() * a.exp(), 0.5)

    def gradients(self, call):
        torch.manual_seed(0)
        a, b = torch.rand(4, 3, requires_grad=True), torch.rand(4, 3, requires_grad=True)
        call(a, b).sum().backward()
        return a.grad, b.grad

    def test_gradients_and_random_numbers_are_those_of_the_plain_call(self):
        plain = self.gradients(self.part)
        for reentrant in (True, False):
            found = self.gradients(
                lambda a, b: checkpoints.checkpoint(self.part, a, b, use_reentrant=reentrant)
            )
            for one, other in zip(plain, found):
                self.assertTrue(torch.equal(one, other))

    def test_the_part_is_computed_again_up_to_what_is_needed(self):
        steps = []

        def part(x):
            steps.append("sin")
            x = x.sin()
            steps.append("cos")
            x = x.cos()
            steps.append("end")
            return x + 1

        x = leaf(1.0)
        checkpoints.checkpoint(part, x, use_reentrant=False).sum().backward()
        self.assertEqual(steps, ["sin", "cos", "end", "sin", "cos"])

    def test_double_backward(self):
        x = leaf(1.0, 2.0)
        y = checkpoints.checkpoint(lambda x: x**3, x, use_reentrant=False)
        (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        first.sum().backward()
        self.assertEqual(x.grad.tolist(), [6.0, 12.0])

    def test_parts_that_differ_are_refused(self):
        calls = []

        def part(x):
            calls.append(x)
            return (x if len(calls) == 1 else x[:1]).sin() * 1.0

        y = checkpoints.checkpoint(part, leaf(1.0, 2.0), use_reentrant=False)
        with self.assertRaisesRegex(checkpoints.CheckpointError, "different metadata"):
            y.sum().backward()

    def test_the_reentrant_kind_goes_to_all_leaves_only(self):
        x = leaf(1.0)
        y = checkpoints.checkpoint(lambda x: x * 2, x, use_reentrant=True)
        with self.assertRaisesRegex(RuntimeError, "incompatible with .grad()"):
            torch.autograd.grad(y.sum(), x)

    def test_the_kind_should_be_named(self):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            checkpoints.checkpoint(lambda x: x * 2, leaf(1.0))
        self.assertIn("use_reentrant parameter should be passed", str(seen[0].message))


class Checks(unittest.TestCase):
    def test_other_strides(self):
        """Inputs and outputs that are not contiguous are checked at every element."""
        autograd = importlib.import_module(f"{torch.__name__}.autograd")
        x = torch.arange(6.0, dtype=torch.float64).view(2, 3).t().requires_grad_()
        for function in (lambda x: x.sin(), lambda x: x.t().sin(), lambda x: x.t().contiguous().sin()):
            self.assertTrue(autograd.gradcheck(function, (x,)))
            self.assertTrue(autograd.gradgradcheck(function, (x,)))
        self.assertFalse(autograd.gradcheck(lambda x: x.t() * x.t().detach(), (x,), raise_exception=False))


if __name__ == "__main__":
    unittest.main()
