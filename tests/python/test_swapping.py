"""Tensors put in the place of others: functional calls, loading, swapping, lazy and differentiable ones."""

import copy
import pickle
import unittest
import warnings
from collections import OrderedDict

from module_under_test import torch

nn = torch.nn


def setUpModule():
    warnings.filterwarnings("ignore", message="Lazy modules")


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(1, 1)
        self.tied_bias = self.l1.bias
        self.register_buffer("buffer", torch.ones(1))

    def forward(self, x):
        return self.l1(x) + self.tied_bias + self.buffer


class FunctionalCalls(unittest.TestCase):
    def test_tied_tensors(self):
        weights = {"l1.weight": torch.ones(1, 1), "l1.bias": torch.ones(1)}
        result = torch.func.functional_call(Tied(), weights, torch.ones(1, 1))
        self.assertEqual(result.item(), 4.0)
        with self.assertRaisesRegex(ValueError, "multiple values for keys"):
            torch.func.functional_call(Tied(), {**weights, "tied_bias": torch.zeros(1)}, torch.ones(1, 1))

    def test_strict(self):
        text = r"Unexpected key\(s\): 'other'.\n\tMissing key\(s\): 'buffer', 'l1.bias', 'l1.weight', 'tied_bias'."
        with self.assertRaisesRegex(RuntimeError, text):
            torch.func.functional_call(Tied(), {"other": torch.ones(1)}, torch.ones(1, 1), strict=True)

    def test_refused(self):
        with self.assertRaisesRegex(TypeError, "is not an instance of torch.Tensor"):
            torch.func.functional_call(Tied(), {"buffer": 3}, torch.ones(1, 1))

    def test_assigned_buffers_come_back(self):
        class Counts(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("count", torch.zeros(1))

            def forward(self, x):
                self.count = self.count + 1
                return x

        module, given = Counts(), {"count": torch.ones(1)}
        torch.func.functional_call(module, given, torch.ones(1))
        self.assertEqual((given["count"].item(), module.count.item()), (2.0, 0.0))


class Loading(unittest.TestCase):
    def test_hooks_of_children_see_their_part(self):
        model = nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.Linear(1, 1)))
        seen = []
        model[1].register_load_state_dict_pre_hook(lambda module, state, *rest: seen.append(sorted(state)))
        model.load_state_dict(model.state_dict())
        self.assertEqual(seen, [["1.0.bias", "1.0.weight"]])

    def test_meta_parameters_are_told_of(self):
        with torch.device("meta"):
            module = nn.Linear(3, 5)
        state = {"weight": torch.ones(5, 3), "bias": torch.ones(5)}
        with self.assertWarnsRegex(UserWarning, "for weight: copying from a non-meta parameter"):
            module.load_state_dict(state)

    def test_swapped_parameters_keep_their_identity(self):
        module = nn.Linear(2, 2)
        before = module.weight
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            module.load_state_dict({"weight": torch.eye(2), "bias": torch.ones(2)})
        finally:
            torch.__future__.set_swap_module_params_on_conversion(False)
        self.assertIs(module.weight, before)
        self.assertEqual(before.tolist(), torch.eye(2).tolist())


class Swapping(unittest.TestCase):
    def test_swap(self):
        a, b = torch.ones(2), nn.Parameter(torch.zeros(3))
        a.mark = 1
        torch.utils.swap_tensors(a, b)
        self.assertIsInstance(a, nn.Parameter)
        self.assertEqual((a.tolist(), b.tolist(), b.mark), ([0.0] * 3, [1.0] * 2, 1))
        self.assertTrue(a.requires_grad)


class Lazy(unittest.TestCase):
    def test_pickled(self):
        module = nn.LazyBatchNorm1d()
        for made in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
            self.assertIsInstance(made.running_mean, nn.UninitializedBuffer)
            self.assertEqual(made(torch.ones(2, 3)).shape, (2, 3))

    def test_operators_are_refused(self):
        param = nn.UninitializedParameter()
        for call in (lambda: torch.add(param, param), lambda: param + param, lambda: torch.empty_like(param)):
            with self.assertRaisesRegex(ValueError, "uninitialized parameter"):
                call()
        with self.assertRaisesRegex(RuntimeError, "share memory on an uninitialized"):
            param.share_memory_()
        with self.assertRaisesRegex(ValueError, "have uninitialized parameters"):
            torch.nn.utils.spectral_norm(nn.LazyLinear(2))


class Hooks(unittest.TestCase):
    def test_global_hooks_by_name(self):
        calls = []
        names = nn.modules.module
        names.register_module_forward_hook(lambda *values: calls.append(1))
        nn.ReLU()(torch.ones(1))
        names._global_forward_hooks = OrderedDict()
        nn.ReLU()(torch.ones(1))
        self.assertEqual(calls, [1])

    def test_global_backward_hooks_of_one_kind(self):
        names = nn.modules.module
        handle = names.register_module_backward_hook(lambda *values: None)
        try:
            with self.assertRaisesRegex(RuntimeError, "Cannot use both regular backward hooks and full"):
                names.register_module_full_backward_hook(lambda *values: None)
        finally:
            handle.remove()


class Differentiable(unittest.TestCase):
    def test_gradients_of_settings(self):
        """Two steps of SGD with a learning rate and a decay, differentiated by hand."""
        lr = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
        decay = torch.tensor(0.25, dtype=torch.float64, requires_grad=True)
        start = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
        x = start.clone()
        optimizer = torch.optim.SGD([x], lr=lr, weight_decay=decay, differentiable=True)
        for _ in range(2):
            x.grad = torch.tensor([3.0], dtype=torch.float64)
            optimizer.step()
        x.sum().backward()
        keep = 1 - 0.5 * 0.25
        first = keep * 2 - 0.5 * 3
        self.assertAlmostEqual(start.grad.item(), keep**2)
        self.assertAlmostEqual(lr.grad.item(), -(0.25 * 2 + 3) * keep - (0.25 * first + 3))
        self.assertAlmostEqual(decay.grad.item(), -0.5 * 2 * keep - 0.5 * first)

    def test_adam(self):
        lr = torch.tensor(0.1, requires_grad=True)
        x = torch.ones(3, requires_grad=True).clone()
        optimizer = torch.optim.Adam([x], lr=lr, differentiable=True, amsgrad=True)
        for _ in range(2):
            x.grad = torch.tensor([1.0, 2.0, 3.0])
            optimizer.step()
        x.sum().backward()
        self.assertAlmostEqual(lr.grad.item(), -6.0, places=3)


class Orthogonal(unittest.TestCase):
    def test_assigned_matrices_are_kept(self):
        for kind in ("matrix_exp", "cayley", "householder"):
            for size in ((3, 3), (5, 3), (3, 5)):
                with self.subTest(kind=kind, size=size):
                    module = nn.Linear(size[1], size[0], bias=False, dtype=torch.float64)
                    nn.utils.parametrizations.orthogonal(module, "weight", kind)
                    tall = torch.linalg.qr(torch.randn(max(size), min(size), dtype=torch.float64)).Q
                    matrix = tall if size[0] >= size[1] else tall.mT
                    module.weight = matrix
                    self.assertLess((module.weight - matrix).abs().max().item(), 1e-12)

    def test_refused(self):
        module = nn.Linear(3, 4)
        nn.utils.parametrizations.orthogonal(module, "weight", "cayley", use_trivialization=False)
        with self.assertRaises(NotImplementedError):
            module.weight = torch.ones(4, 3)


class Checks(unittest.TestCase):
    def test_conditions(self):
        torch._check(True)
        for check, kind in ((torch._check, RuntimeError), (torch._check_index, IndexError),
                            (torch._check_value, ValueError), (torch._check_type, TypeError)):
            with self.assertRaisesRegex(kind, "the text"):
                check(False, lambda: "the text")
        with self.assertRaisesRegex(TypeError, "cond must be a bool"):
            torch._check(1)
        with self.assertRaises(RuntimeError):
            torch._check_tensor_all(torch.tensor([True, False]))

    def test_operators(self):
        with self.assertRaisesRegex(RuntimeError, "got zero"):
            torch._assert_async(torch.tensor(0))
        self.assertEqual([value.item() for value in torch._aminmax(torch.tensor([3, 1, 2]))], [1, 3])
        expanded, strided = torch.ones(3, 1).expand(3, 3), torch.ones(3, 3)[::2]
        self.assertEqual(
            [torch._debug_has_internal_overlap(x) for x in (torch.ones(3), expanded, strided)], [0, 1, 2]
        )
        self.assertEqual(torch._is_all_true(torch.tensor([True, False])).item(), False)


if __name__ == "__main__":
    unittest.main()
