"""Schedules that go on from every step, in every way, equal those that ran through."""

import math
import unittest
import warnings

from module_under_test import torch

schedules = torch.optim.lr_scheduler
STEPS = 60
RATES = (0.1, 0.02)


def optimizer(kind="sgd", initial=None):
    groups = [{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": rate} for rate in RATES]
    for group, rate in zip(groups, initial or ()):
        group["initial_lr"] = rate
    if kind == "adam":
        return torch.optim.Adam(groups)
    return torch.optim.SGD(groups, lr=0.5, momentum=0.9)


class Halving:
    """A function with a state."""

    def __init__(self):
        self.base = 0.5

    def __call__(self, epoch):
        return self.base ** (epoch // 7)


def lambdas(epoch):
    return 0.9 if epoch % 3 else 1.05


#: Schedules by name. Each takes an optimizer and `last_epoch`.
SIMPLE = {
    "lambda": lambda o, n: schedules.LambdaLR(o, [lambda e: 0.95**e, Halving()], n),
    "multiplicative": lambda o, n: schedules.MultiplicativeLR(o, [lambdas, lambda e: 0.97], n),
    "step": lambda o, n: schedules.StepLR(o, 7, 0.5, n),
    "step of one": lambda o, n: schedules.StepLR(o, 1, 0.9, n),
    "milestones": lambda o, n: schedules.MultiStepLR(o, [5, 5, 13, 40], 0.3, n),
    "constant": lambda o, n: schedules.ConstantLR(o, 0.25, 9, n),
    "zero, then constant": lambda o, n: schedules.ConstantLR(o, 0, 9, n),
    "linear": lambda o, n: schedules.LinearLR(o, 0.1, 0.7, 20, n),
    "linear to zero": lambda o, n: schedules.LinearLR(o, 1.0, 0.0, 20, n),
    "exponential": lambda o, n: schedules.ExponentialLR(o, 0.93, n),
    "polynomial": lambda o, n: schedules.PolynomialLR(o, 30, 2.0, n),
    "cosine": lambda o, n: schedules.CosineAnnealingLR(o, 10, 0.001, n),
    "long cosine": lambda o, n: schedules.CosineAnnealingLR(o, 100, 0.0, n),
    "restarts": lambda o, n: schedules.CosineAnnealingWarmRestarts(o, 7, 1, 0.001, n),
    "longer restarts": lambda o, n: schedules.CosineAnnealingWarmRestarts(o, 3, 2, 0.0, n),
    "restarts by threes": lambda o, n: schedules.CosineAnnealingWarmRestarts(o, 1, 3, 0.01, n),
    "average": lambda o, n: torch.optim.swa_utils.SWALR(o, [0.05, 0.5], 12, "cos", n),
    "linear average": lambda o, n: torch.optim.swa_utils.SWALR(o, 0.05, 5, "linear", n),
    "average at once": lambda o, n: torch.optim.swa_utils.SWALR(o, 0.05, 0, "linear", n),
}
MOMENTUM = {
    "triangles": lambda o, n: schedules.CyclicLR(o, [0.01, 0.02], [0.1, 0.3], 8, 5, last_epoch=n),
    "shrinking triangles": lambda o, n: schedules.CyclicLR(
        o, 0.01, 0.1, 6, mode="triangular2", base_momentum=[0.7, 0.6], last_epoch=n),
    "exponential triangles": lambda o, n: schedules.CyclicLR(
        o, 0.01, 0.1, 6, mode="exp_range", gamma=0.97, last_epoch=n),
    "triangles alone": lambda o, n: schedules.CyclicLR(o, 0.01, 0.1, 6, cycle_momentum=False, last_epoch=n),
    "one cycle": lambda o, n: schedules.OneCycleLR(o, [0.1, 0.5], 70, last_epoch=n),
    "one cycle in three phases": lambda o, n: schedules.OneCycleLR(
        o, 0.1, 70, anneal_strategy="linear", three_phase=True, last_epoch=n),
    "one short cycle": lambda o, n: schedules.OneCycleLR(o, 0.1, 70, pct_start=1 / 70, last_epoch=n),
}


def chain(*makers):
    return lambda o, n: schedules.ChainedScheduler([make(o, n) for make in makers])


CHAINS = {
    "step of exponential": chain(SIMPLE["step"], SIMPLE["exponential"]),
    "constant of exponential": chain(SIMPLE["constant"], SIMPLE["exponential"]),
    "three": chain(SIMPLE["linear"], SIMPLE["milestones"], SIMPLE["exponential"]),
}


def sequence(milestones, *makers):
    def make(o, n):
        return schedules.SequentialLR(o, [make(o, -1) for make in makers], milestones, n)

    return make


SEQUENCES = {
    "warm-up": sequence([8], SIMPLE["linear"], SIMPLE["cosine"]),
    "three": sequence([4, 20], SIMPLE["constant"], SIMPLE["longer restarts"], SIMPLE["step"]),
    "exponential after constant": sequence([8], SIMPLE["constant"], SIMPLE["exponential"]),
    "chain in a sequence": sequence([9], SIMPLE["constant"], CHAINS["step of exponential"]),
    "sequence in a sequence": sequence(
        [30], sequence([8], SIMPLE["linear"], SIMPLE["exponential"]), SIMPLE["step"]),
}
ALL = {**SIMPLE, **MOMENTUM, **{f"chain: {k}": v for k, v in CHAINS.items()},
       **{f"sequence: {k}": v for k, v in SEQUENCES.items()}}


def settings(o):
    """What schedules set."""
    kinds = []
    for group in o.param_groups:
        momentum = group["betas"][0] if "betas" in group else group["momentum"]
        kinds += [float(group["lr"]), float(momentum)]
    return kinds


def steps(o, scheduler, count):
    seen = [settings(o)]
    for _ in range(count):
        o.step()
        scheduler.step()
        seen.append(settings(o))
    return seen


def run(make, kind):
    """The settings of all epochs, and the states of optimizer and schedule at each."""
    o = optimizer(kind)
    scheduler, seen, states = make(o, -1), [], []
    for _ in range(STEPS + 2):
        seen.append(settings(o))
        states.append((o.state_dict(), scheduler.state_dict()))
        o.step()
        scheduler.step()
    return seen, states


class Resumed(unittest.TestCase):
    def setUp(self):
        catcher = warnings.catch_warnings()
        catcher.__enter__()
        self.addCleanup(catcher.__exit__, None, None, None)
        warnings.simplefilter("ignore")

    def check(self, o, scheduler, expected, where):
        found = steps(o, scheduler, 3)
        for row, right in zip(found, expected):
            for a, b in zip(row, right):
                self.assertTrue(math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12), (where, found, expected[:4]))

    def each(self, table, kinds=("sgd",)):
        for name, make in table.items():
            for kind in kinds:
                seen, states = run(make, kind)
                for n in range(STEPS + 1):
                    with self.subTest(name, kind=kind, n=n):
                        yield make, kind, n, seen, states

    def test_from_states(self):
        for make, kind, n, seen, states in self.each(ALL):
            o = optimizer(kind)
            scheduler = make(o, -1)
            o.load_state_dict(states[n][0])
            scheduler.load_state_dict(states[n][1])
            self.check(o, scheduler, seen[n:], n)

    def test_from_an_epoch_and_the_optimizer_before_its_step(self):
        table = {k: v for k, v in ALL.items() if not k.startswith("chain")}
        for make, kind, n, seen, states in self.each(table):
            o = optimizer(kind)
            o.load_state_dict(states[n][0])
            self.check(o, make(o, n), seen[n + 1:], n)

    def test_from_an_epoch_and_the_optimizer_after_its_step(self):
        for make, kind, n, seen, states in self.each(ALL):
            o = optimizer(kind)
            o.load_state_dict(states[n + 1][0])
            self.check(o, make(o, n), seen[n + 1:], n)

    def test_from_an_epoch_and_initial_rates(self):
        for make, kind, n, seen, states in self.each(ALL):
            o = optimizer(kind, [group["initial_lr"] for group in states[0][0]["param_groups"]])
            self.check(o, make(o, n), seen[n + 1:], n)

    def test_momentum_of_adam(self):
        for make, kind, n, seen, states in self.each(MOMENTUM, ("adam",)):
            o = optimizer(kind)
            o.load_state_dict(states[n][0])
            self.check(o, make(o, n), seen[n + 1:], n)

    def test_tensor_rates(self):
        for make, kind, n, seen, _ in self.each({k: SIMPLE[k] for k in ("step", "cosine", "longer restarts")}):
            o = optimizer(kind, RATES)
            for group, rate in zip(o.param_groups, RATES):
                group["lr"] = torch.tensor(rate, dtype=torch.float64)
            self.check(o, make(o, n), seen[n + 1:], n)


class Plateau(unittest.TestCase):
    METRICS = [1 / (1 + i % 13) + (i > 30) * 0.01 * i for i in range(STEPS + 4)]

    def test_from_states(self):
        for options in ({}, {"mode": "max", "cooldown": 3}, {"threshold_mode": "abs", "min_lr": [1e-3, 1e-2]}):
            def make(o):
                return schedules.ReduceLROnPlateau(o, factor=0.5, patience=2, **options)

            o = optimizer()
            scheduler, seen, states = make(o), [], []
            for metric in self.METRICS:
                seen.append(settings(o))
                states.append((o.state_dict(), scheduler.state_dict()))
                scheduler.step(metric)
            for n in range(STEPS + 1):
                o = optimizer()
                scheduler = make(o)
                o.load_state_dict(states[n][0])
                scheduler.load_state_dict(states[n][1])
                for i in range(n, n + 3):
                    self.assertEqual(settings(o), seen[i])
                    scheduler.step(self.METRICS[i])


class Epochs(unittest.TestCase):
    def setUp(self):
        catcher = warnings.catch_warnings()
        catcher.__enter__()
        self.addCleanup(catcher.__exit__, None, None, None)
        warnings.simplefilter("ignore")

    def test_given(self):
        table = {**SIMPLE, **MOMENTUM}
        for name in ("multiplicative", "average", "linear average", "average at once"):
            del table[name]  # these know only the next epoch from the last
        for name, make in table.items():
            seen, _ = run(make, "sgd")
            for n in range(0, STEPS, 7):
                o = optimizer()
                scheduler = make(o, -1)
                scheduler.step(n)
                with self.subTest(name, n=n):
                    for a, b in zip(settings(o), seen[n]):
                        self.assertTrue(math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12), (a, b))

    def test_fractions_of_periods(self):
        for first, factor in ((5, 1), (3, 2), (1, 3), (2, 10)):
            o = optimizer()
            scheduler = schedules.CosineAnnealingWarmRestarts(o, first, factor, 0.01)
            for i in range(8 * STEPS):
                epoch = i / 8
                start, length = 0, first
                while epoch >= start + length:
                    start, length = start + length, length * factor
                scheduler.step(epoch)
                wave = (1 + math.cos(math.pi * (epoch - start) / length)) / 2
                for group, rate in zip(o.param_groups, RATES):
                    self.assertAlmostEqual(group["lr"], 0.01 + (rate - 0.01) * wave, 12)
                self.assertEqual((scheduler.T_i, scheduler.last_epoch), (length, math.floor(epoch)))

    def test_later_milestone_at_once(self):
        o = optimizer()
        parts = [schedules.ConstantLR(o, 0.5), schedules.ExponentialLR(o, 0.5)]
        scheduler = schedules.SequentialLR(o, parts, [0])
        rates = [row[0] for row in steps(o, scheduler, 3)]
        self.assertEqual(rates, [0.1, 0.05, 0.025, 0.0125])


if __name__ == "__main__":
    unittest.main()
