"""Averages of weights that begin in the middle of a run, with the number of an epoch, as trainers begin them."""

import math
import unittest
import warnings

from module_under_test import torch

SWALR = torch.optim.swa_utils.SWALR


def stepped(kind, rate=0.004):
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = kind([weight], lr=rate)
    schedule = torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0)
    for _ in range(3):
        optimizer.zero_grad()
        weight.square().sum().backward()
        optimizer.step()
        schedule.step()
    return optimizer


def rates(schedule, count):
    found = []
    for _ in range(count):
        found.append(schedule.get_last_lr()[0])
        schedule.optimizer.step()
        schedule.step()
    return found


def expected(strategy, epochs, count, first=0.004, last=0.01):
    done = [min(1, i / epochs) for i in range(count)]
    if strategy == "cos":
        done = [(1 - math.cos(math.pi * part)) / 2 for part in done]
    return [last * part + first * (1 - part) for part in done]


class BeginNow(unittest.TestCase):
    def setUp(self):
        catcher = warnings.catch_warnings()
        catcher.__enter__()
        self.addCleanup(catcher.__exit__, None, None, None)
        warnings.simplefilter("ignore")

    def test_from_the_rate_of_the_optimizer(self):
        for kind in (torch.optim.Adam, torch.optim.SGD):
            for strategy in ("cos", "linear"):
                for last_epoch in (-1, 3, 30):
                    schedule = SWALR(stepped(kind), 0.01, 10, strategy, last_epoch)
                    found = rates(schedule, 13)
                    for a, b in zip(found, expected(strategy, 10, 13)):
                        self.assertAlmostEqual(a, b, places=9, msg=(kind, strategy, last_epoch, found))

    def test_before_the_first_step_with_initial_rates_of_averages(self):
        for strategy in ("cos", "linear"):
            for last_epoch in (-1, 3, 30):
                optimizer = torch.optim.Adam([torch.nn.Parameter(torch.ones(2))], lr=0.1)
                torch.optim.lr_scheduler.ConstantLR(optimizer, 0.04)
                # Some trainers take the averages' rate for the initial one.
                optimizer.param_groups[0]["initial_lr"] = 0.01
                found = rates(SWALR(optimizer, [0.01], 10, strategy, last_epoch), 13)
                for a, b in zip(found, expected(strategy, 10, 13)):
                    self.assertAlmostEqual(a, b, places=9, msg=(strategy, last_epoch, found))

    def test_states_have_no_further_entry(self):
        plain = SWALR(stepped(torch.optim.Adam), 0.01)
        later = SWALR(stepped(torch.optim.Adam), 0.01, last_epoch=4)
        self.assertEqual(sorted(plain.state_dict()), sorted(later.state_dict()))
        self.assertNotIn("_begins_now", plain.state_dict())


if __name__ == "__main__":
    unittest.main()
