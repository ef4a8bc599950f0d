"""Optimizers and schedules, against values measured on PyTorch."""

import copy
import math
import unittest
import warnings

from module_under_test import torch

optim = torch.optim

#: After three steps from (1, 2) on the sum of squares.
AFTER_THREE_STEPS = (
    ("SGD", dict(lr=0.1), (0.5119999647, 1.0239999294)),
    ("SGD", dict(lr=0.1, momentum=0.9, dampening=0.5), (0.2520000339, 0.5040000677)),
    ("SGD", dict(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
     (-0.1404683739, -0.2809367477)),
    ("Adam", dict(lr=0.1), (0.7015863061, 1.7006233931)),
    ("AdamW", dict(lr=0.1), (0.6989112496, 1.6949446201)),
    ("RMSprop", dict(lr=0.1), (3.03e-12, 0.3096873462)),
    ("RMSprop", dict(lr=0.1, centered=True, momentum=0.9), (-1.0394787788, -1.4190866947)),
    ("Adagrad", dict(lr=0.1, lr_decay=0.1), (0.7950814366, 1.7911908627)),
    ("Adadelta", dict(), (0.9903090596, 1.9903007746)),
    ("Adamax", dict(lr=0.1), (0.7154994011, 1.7076482773)),
    ("NAdam", dict(lr=0.1), (0.7527292371, 1.7475085258)),
    ("RAdam", dict(lr=0.1), (0.4623033404, 0.9246066809)),
    ("Rprop", dict(lr=0.1), (0.6359999776, 1.6359999180)),
    ("ASGD", dict(lr=0.1), (0.5119836330, 1.0239672661)),
)


def minimise(name, steps, **settings):
    p = torch.tensor([1.0, 2.0], requires_grad=True)
    optimizer = getattr(optim, name)([p], **settings)
    for _ in range(steps):
        optimizer.zero_grad()
        (p * p).sum().backward()
        optimizer.step()
    return p, optimizer


class Steps(unittest.TestCase):
    def test_values(self):
        for name, settings, expected in AFTER_THREE_STEPS:
            p, _ = minimise(name, 3, **settings)
            for got, want in zip(p.tolist(), expected):
                self.assertAlmostEqual(got, want, delta=2e-6, msg=f"{name} {settings}")

    def test_lbfgs(self):
        for search in (None, "strong_wolfe"):
            p = torch.tensor([1.0, 2.0], requires_grad=True)
            optimizer = optim.LBFGS([p], line_search_fn=search)

            def closure():
                optimizer.zero_grad()
                loss = ((p - 3) ** 4).sum() + (p * p).sum()
                loss.backward()
                return loss

            for _ in range(5):
                optimizer.step(closure)
            self.assertLess(p.grad.abs().max().item(), 1e-3)

    def test_parameters_without_gradient_stay(self):
        p = torch.ones(2, requires_grad=True)
        optimizer = optim.Adam([p])
        optimizer.step()
        self.assertEqual((p.tolist(), dict(optimizer.state)), ([1, 1], {}))

    def test_state_resumes(self):
        for name in ("SGD", "Adam", "AdamW", "RMSprop", "NAdam"):
            settings = {"lr": 0.1, **({"momentum": 0.9} if name == "SGD" else {})}
            p, first = minimise(name, 2, **settings)
            q = p.detach().clone().requires_grad_(True)
            second = getattr(optim, name)([q], **settings)
            second.load_state_dict(copy.deepcopy(first.state_dict()))
            for param, optimizer in ((p, first), (q, second)):
                optimizer.zero_grad()
                (param * param).sum().backward()
                optimizer.step()
            self.assertEqual(p.tolist(), q.tolist(), name)

    def test_groups(self):
        a, b = (torch.ones(1, requires_grad=True) for _ in range(2))
        optimizer = optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.5}], lr=0.1)
        (a + b).sum().backward()
        optimizer.step()
        self.assertAlmostEqual(a.item() - b.item(), 0.4, places=6)
        with self.assertRaises(ValueError):
            optimizer.add_param_group({"params": [a]})

    def test_refusals(self):
        p = torch.ones(1, requires_grad=True)
        for settings in (dict(lr=-1), dict(momentum=-1), dict(nesterov=True)):
            with self.assertRaises(ValueError):
                optim.SGD([p], **settings)
        with self.assertRaises(ValueError):
            optim.SGD([], lr=0.1)
        with self.assertRaises(TypeError):
            optim.SGD(p, lr=0.1)

    def test_hooks(self):
        seen = []
        p = torch.ones(1, requires_grad=True)
        optimizer = optim.SGD([p], lr=0.1)
        optimizer.register_step_pre_hook(lambda *_: seen.append("pre"))
        optimizer.register_step_post_hook(lambda *_: seen.append("post"))
        optimizer.step()
        self.assertEqual(seen, ["pre", "post"])


def rates(make, steps=6):
    p = torch.ones(1, requires_grad=True)
    optimizer = optim.SGD([p], lr=1.0, momentum=0.9)
    schedule = make(optimizer)
    found = []
    for _ in range(steps):
        found.append(round(optimizer.param_groups[0]["lr"], 6))
        optimizer.step()
        schedule.step()
    return found


class Together(unittest.TestCase):
    """Parameters that are moved in one pass over their memory, beside others moved step by step."""

    CASES = [
        ("SGD", {}), ("SGD", dict(weight_decay=0.1, maximize=True)),
        ("SGD", dict(momentum=0.9, dampening=0.3)), ("SGD", dict(momentum=0.9, nesterov=True, weight_decay=0.1)),
        ("Adam", {}), ("Adam", dict(betas=(0.3, 0.6), weight_decay=0.1)),
        ("Adam", dict(amsgrad=True, maximize=True)), ("AdamW", dict(weight_decay=0.1, amsgrad=True)),
        ("Adadelta", {}), ("Adadelta", dict(lr=0.3, rho=0.7, eps=1e-4, weight_decay=0.1, maximize=True)),
    ]

    @staticmethod
    def parameters(dtype):
        torch.manual_seed(0)
        last = torch.randn(2, 3, 5, 4, dtype=dtype).to(memory_format=torch.channels_last)
        whole = torch.randn(20, 30, dtype=dtype)
        tensors = (torch.randn(40000, dtype=dtype), last, whole[::2, 3:], torch.randn((), dtype=dtype),
                   torch.randn(0, 3, dtype=dtype), torch.randn(7, 5, dtype=dtype).t())
        return [torch.nn.Parameter(t) for t in tensors]

    def test_digits_are_those_of_the_operators(self):
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            for name, settings in self.CASES:
                found = []
                for together in (True, False):
                    params = self.parameters(dtype)
                    optimizer = getattr(optim, name)(params, **settings)
                    if not together:
                        optimizer._is_fused = lambda group, params: False
                    torch.manual_seed(1)
                    for step in range(4):
                        for p in params:
                            p.grad = torch.randn_like(p)
                        if step == 0:
                            # Its state begins later than that of the others.
                            params[0].grad = None
                        versions = [p._version for p in params]
                        optimizer.step()
                        moved = [p._version > version for p, version in zip(params, versions)]
                        self.assertEqual(moved, [step > 0] + [True] * 5)
                    state = [v for p in params for v in optimizer.state[p].values() if v is not None]
                    found.append(params + state)
                for a, b in zip(*found):
                    self.assertTrue(torch.equal(a, b), (name, settings, dtype, a.shape))

    def test_gradients_of_other_kinds(self):
        dense = torch.ones(3, 2, requires_grad=True)
        sparse, halved = torch.ones(3, 2, requires_grad=True), torch.ones(2, dtype=torch.complex64, requires_grad=True)
        dense.grad = torch.ones(3, 2)
        sparse.grad = torch.ones(3, 2).to_sparse()
        halved.grad = torch.ones(2, dtype=torch.complex64)
        optim.SGD([dense, sparse, halved], lr=0.25).step()
        self.assertEqual(dense.tolist(), [[0.75, 0.75]] * 3)
        self.assertEqual(sparse.tolist(), [[0.75, 0.75]] * 3)
        self.assertEqual(halved.tolist(), [0.75, 0.75])
        halved.grad = torch.ones(2, dtype=torch.complex64)
        optim.SGD([halved], lr=0.25, momentum=0.9).step()
        self.assertEqual(halved.tolist(), [0.5, 0.5])

    def test_lists(self):
        param, grad, buffer = torch.ones(3), torch.full((3,), 2.0), torch.empty(3)
        settings = dict(weight_decay=0.0, momentum=0.5, lr=0.25, dampening=0.0, nesterov=False, maximize=False)
        torch._fused_sgd_([param], [grad], [buffer], **settings, is_first_step=True)
        self.assertEqual((param.tolist(), buffer.tolist()), ([0.5] * 3, [2.0] * 3))
        scaled = grad * 4
        torch._fused_sgd_([param], [scaled], [buffer], **settings, is_first_step=False, grad_scale=torch.tensor(4.0))
        self.assertEqual((param.tolist(), buffer.tolist(), scaled.tolist()), ([-0.25] * 3, [3.0] * 3, [2.0] * 3))
        skipped = dict(grad_scale=torch.tensor(4.0), found_inf=torch.tensor(1.0))
        torch._fused_sgd_([param], [scaled], [buffer], **settings, is_first_step=False, **skipped)
        self.assertEqual((param.tolist(), scaled.tolist()), ([-0.25] * 3, [2.0] * 3))

    @unittest.skipIf(torch.__name__ == "torch", "PyTorch reads beyond the end")
    def test_lists_that_do_not_belong_together(self):
        settings = dict(weight_decay=0.0, lr=1.0, dampening=0.0, nesterov=False, maximize=False, is_first_step=False)
        for grads, momentum, buffers in (
            ([torch.ones(2)], 0.0, []), ([], 0.0, []), ([torch.ones(3)], 0.5, []),
            ([torch.ones(3)], 0.5, [torch.ones(4)]), ([torch.ones(3).double()], 0.0, []),
        ):
            param = torch.ones(3)
            with self.assertRaisesRegex(RuntimeError, "fused step needs as many|same shape and dtype"):
                torch._fused_sgd_([param], grads, buffers, momentum=momentum, **settings)
            self.assertEqual(param.tolist(), [1.0] * 3)


class Schedules(unittest.TestCase):
    S = optim.lr_scheduler

    def test_simple(self):
        S = self.S
        self.assertEqual(rates(lambda o: S.StepLR(o, 2)), [1, 1, 0.1, 0.1, 0.01, 0.01])
        self.assertEqual(rates(lambda o: S.MultiStepLR(o, [1, 3], 0.5)), [1, 0.5, 0.5, 0.25, 0.25, 0.25])
        self.assertEqual(rates(lambda o: S.ConstantLR(o, 0.5, 2)), [0.5, 0.5, 1, 1, 1, 1])
        self.assertEqual(rates(lambda o: S.LinearLR(o, 0.5, 1, 4)), [0.5, 0.625, 0.75, 0.875, 1, 1])
        self.assertEqual(rates(lambda o: S.ExponentialLR(o, 0.5), 4), [1, 0.5, 0.25, 0.125])
        self.assertEqual(rates(lambda o: S.LambdaLR(o, lambda e: 1 / (e + 1)), 3), [1, 0.5, 0.333333])
        self.assertEqual(rates(lambda o: S.PolynomialLR(o, 4), 5), [1, 0.75, 0.5, 0.25, 0])

    def test_cosine(self):
        want = [round((1 + math.cos(math.pi * e / 5)) / 2, 6) for e in range(6)]
        self.assertEqual(rates(lambda o: self.S.CosineAnnealingLR(o, 5)), want)

    def test_one_cycle(self):
        found = rates(lambda o: self.S.OneCycleLR(o, 1.0, total_steps=10), 10)
        self.assertEqual((found[0], max(found), found[2]), (0.04, 1.0, 1.0))
        self.assertAlmostEqual(found[-1], 4e-6)

    def test_sequence(self):
        S = self.S
        make = lambda o: S.SequentialLR(o, [S.ConstantLR(o, 0.1, 2), S.ExponentialLR(o, 0.9)], [3])  # noqa: E731
        self.assertEqual(rates(make), [0.1, 0.1, 1.0, 1.0, 0.9, 0.81])

    def test_plateau(self):
        p = torch.ones(1, requires_grad=True)
        optimizer = optim.SGD([p], lr=1.0)
        schedule = self.S.ReduceLROnPlateau(optimizer, patience=1, factor=0.5)
        for metric in (1.0, 1.0, 1.0, 1.0):
            schedule.step(metric)
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.5)

    def test_order_warning(self):
        optimizer = optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
        schedule = self.S.StepLR(optimizer, 1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            schedule.step()
        self.assertTrue(any("before `optimizer.step()`" in str(w.message) for w in caught))

    def test_state(self):
        optimizer = optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
        schedule = self.S.StepLR(optimizer, 2)
        optimizer.step()
        schedule.step()
        other = self.S.StepLR(optimizer, 5)
        other.load_state_dict(schedule.state_dict())
        self.assertEqual((other.step_size, other.last_epoch), (2, 1))


class Matrices(unittest.TestCase):
    def test_momentum_of_halves_stays(self):
        p = torch.nn.Parameter(torch.ones(2, 2, dtype=torch.bfloat16))
        p.grad = torch.tensor([[4.0, 0.0], [0.0, 2.0]], dtype=torch.bfloat16)
        optimizer = optim.Muon([p], momentum=0.5, nesterov=False)
        optimizer.step()
        kept = optimizer.state[p]["momentum_buffer"]
        self.assertEqual(kept.tolist(), [[2.0, 0.0], [0.0, 1.0]])

    def test_rate_as_a_tensor_has_its_own_dtype(self):
        for rate in (torch.tensor(0.1), torch.tensor([0.1])):
            p = torch.nn.Parameter(torch.ones(2, 2, dtype=torch.float64))
            p.grad = torch.zeros(2, 2, dtype=torch.float64)
            optim.Muon([p], lr=rate, weight_decay=0.5).step()
            self.assertEqual(p[0, 0].item(), 0.949999988079071)


class Averages(unittest.TestCase):
    def test_mean_of_models(self):
        net = torch.nn.Linear(1, 1, bias=False)
        average = optim.swa_utils.AveragedModel(net)
        for value in (1.0, 3.0):
            torch.nn.init.constant_(net.weight, value)
            average.update_parameters(net)
        self.assertEqual(average.module.weight.item(), 2.0)


if __name__ == "__main__":
    unittest.main()
