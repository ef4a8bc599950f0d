"""What schedules keep of their arguments, what their states hold, and the orders they warn of."""

import copy
import pickle
import types
import unittest
import warnings

from module_under_test import torch

schedules = torch.optim.lr_scheduler


def optimizer(lr=0.1):
    return torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=lr, momentum=0.9)


class Arguments(unittest.TestCase):
    def test_tensors_are_copied(self):
        makers = (
            lambda o, t: schedules.CyclicLR(o, base_lr=t, max_lr=t, base_momentum=t, max_momentum=t),
            lambda o, t: schedules.OneCycleLR(o, max_lr=t, total_steps=10, base_momentum=t, max_momentum=t),
            lambda o, t: torch.optim.swa_utils.SWALR(o, swa_lr=t),
        )
        for maker in makers:
            value = torch.tensor(0.2)
            opt = optimizer(torch.tensor(0.1))
            schedule = maker(opt, value)
            names = [name for name in opt.param_groups[0] if name not in ("params", "lr", "momentum")]
            before = copy.deepcopy({name: opt.param_groups[0][name] for name in names})
            for _ in range(2):
                value.mul_(0.5)
                opt.step()
                schedule.step()
            for name in names:
                self.assertEqual(opt.param_groups[0][name], before[name], name)


class States(unittest.TestCase):
    def test_cycles(self):
        schedule = schedules.CyclicLR(optimizer(), 1, 5, mode="triangular2")
        self.assertIsInstance(schedule._scale_fn_ref, types.FunctionType)
        state = schedule.state_dict()
        self.assertNotIn("_scale_fn_ref", state)
        self.assertIsNone(state["_scale_fn_custom"])
        other = schedules.CyclicLR(optimizer(), 1, 5)
        other.load_state_dict(pickle.loads(pickle.dumps(state)))
        self.assertEqual([other.scale_fn(x) for x in (1, 2, 3)], [1.0, 0.5, 0.25])

    def test_functions_of_older_states(self):
        schedule = schedules.OneCycleLR(optimizer(), max_lr=25, total_steps=10)
        del schedule._anneal_func_type
        state = schedule.state_dict()
        state["anneal_func"] = schedules.OneCycleLR._annealing_cos
        schedule.load_state_dict(state)
        schedule.optimizer.step()
        schedule.step()


class Orders(unittest.TestCase):
    def test_steps_in_the_wrong_order(self):
        opt = optimizer()
        schedule = schedules.StepLR(opt, 3)
        with self.assertWarnsRegex(UserWarning, "how-to-adjust-learning-rate"):
            schedule.step()

    def test_replaced_steps(self):
        opt = optimizer()
        schedule = schedules.StepLR(opt, 3)
        step = opt.step
        opt.step = types.MethodType(lambda self, *args: step(*args), opt)
        opt.step()
        with self.assertWarnsRegex(UserWarning, r"`optimizer.step\(\)` has been overridden"):
            schedule.step()

    def test_the_right_order(self):
        opt = optimizer()
        schedule = schedules.StepLR(opt, 3)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            opt.step()
            schedule.step()


class Loaders(unittest.TestCase):
    def test_workers(self):
        data = torch.utils.data
        with self.assertRaisesRegex(ValueError, r"multi-process loading \(num_workers > 0\), but got"):
            data.DataLoader([1], multiprocessing_context="fork")
        with self.assertRaisesRegex(ValueError, "should specify a valid start method in"):
            data.DataLoader([1], num_workers=1, multiprocessing_context="bad")
        with self.assertWarnsRegex(UserWarning, "excessive worker creation"):
            data.DataLoader([1], num_workers=10000)


if __name__ == "__main__":
    unittest.main()
