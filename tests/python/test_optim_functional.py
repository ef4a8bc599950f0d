"""The steps of optimizers as functions: what the classes do, on lists."""

import importlib
import inspect
import unittest
import warnings

from module_under_test import torch

functional = importlib.import_module(f"{torch.__name__}.optim.functional")
BETAS = {"beta1": 0.9, "beta2": 0.99}
ADAM = {**BETAS, "lr": 0.1, "weight_decay": 0.1, "eps": 1e-8, "amsgrad": True, "maximize": False}

#: For each function: the class, its settings, the lists of state, the function's settings.
CASES = {
    "sgd": ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
            ["momentum_buffer"], {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1,
                                  "dampening": 0, "maximize": False}),
    "adam": ("Adam", {"lr": 0.1, "betas": (0.9, 0.99), "amsgrad": True, "weight_decay": 0.1},
             ["exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step"], ADAM),
    "adamw": ("AdamW", {"lr": 0.1, "betas": (0.9, 0.99), "amsgrad": True, "weight_decay": 0.1},
              ["exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step"], ADAM),
    "adadelta": ("Adadelta", {"lr": 0.5}, ["square_avg", "acc_delta", "step"],
                 {"lr": 0.5, "rho": 0.9, "eps": 1e-6, "weight_decay": 0, "maximize": False}),
    "adagrad": ("Adagrad", {"lr": 0.5, "lr_decay": 0.1}, ["sum", "step"],
                {"lr": 0.5, "lr_decay": 0.1, "eps": 1e-10, "weight_decay": 0, "maximize": False}),
    "adamax": ("Adamax", {"lr": 0.1, "betas": (0.9, 0.99)}, ["exp_avg", "exp_inf", "step"],
               {**BETAS, "lr": 0.1, "eps": 1e-8, "weight_decay": 0}),
    "asgd": ("ASGD", {"lr": 0.1, "t0": 1}, ["ax", "mu", "eta", "step"],
             {"lr": 0.1, "lambd": 1e-4, "t0": 1, "alpha": 0.75, "weight_decay": 0}),
    "nadam": ("NAdam", {"lr": 0.1, "betas": (0.9, 0.99)},
              ["exp_avg", "exp_avg_sq", "mu_product", "step"],
              {**BETAS, "lr": 0.1, "weight_decay": 0, "momentum_decay": 4e-3, "eps": 1e-8}),
    "radam": ("RAdam", {"lr": 0.1, "betas": (0.9, 0.99)}, ["exp_avg", "exp_avg_sq", "step"],
              {**BETAS, "lr": 0.1, "weight_decay": 0, "eps": 1e-8}),
    "rmsprop": ("RMSprop", {"lr": 0.1, "momentum": 0.5, "centered": True},
                ["square_avg", "grad_avg", "momentum_buffer", "step"],
                {"lr": 0.1, "alpha": 0.99, "eps": 1e-8, "weight_decay": 0, "momentum": 0.5,
                 "centered": True}),
    "rprop": ("Rprop", {"lr": 0.1}, ["prev", "step_size", "step"],
              {"step_size_min": 1e-6, "step_size_max": 50, "etaminus": 0.5, "etaplus": 1.2}),
    "adafactor": ("Adafactor", {"lr": 0.1}, ["row_var", "col_var", "variance", "step"],
                  {"lr": 0.1, "d": 1.0, "beta2_decay": -0.8, "weight_decay": 0.0, "eps1": None,
                   "eps2": 1e-3, "maximize": False}),
    "muon": ("Muon", {"lr": 0.1}, ["momentum_buffer"],
             {"lr": 0.1, "weight_decay": 0.1, "momentum": 0.95, "nesterov": True, "ns_steps": 5,
              "ns_coefficients": (3.4445, -4.775, 2.0315), "eps": 1e-7, "adjust_lr_fn": None,
              "has_complex": False}),
}


class Functions(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore")

    def test_steps(self):
        for name, (cls, given, keys, settings) in CASES.items():
            p = torch.nn.Parameter(torch.tensor([[1.0, -2], [3, 4], [0.5, 2]]))
            optimizer = getattr(torch.optim, cls)([p], **given)
            grads = [torch.tensor([[1.0, 2], [-3, 0.5], [2, 1]]), torch.tensor([[0.5, -1], [1, 1], [3, -2]])]
            p.grad = grads[0].clone()
            optimizer.step()
            # The second step is done by the function, on copies of what the first one left.
            lists = []
            for key in keys:
                value = optimizer.state[p].get(key)
                lists.append([value if value is None else value.clone()])
            twin = p.detach().clone()
            getattr(functional, name)([twin], [grads[1].clone()], *lists, **settings)
            p.grad = grads[1].clone()
            optimizer.step()
            self.assertTrue(torch.allclose(twin, p.detach()), name)
            for key, (found,) in zip(keys, lists):
                expected = optimizer.state[p].get(key)
                self.assertEqual(found is None, expected is None, (name, key))
                if found is not None:
                    self.assertTrue(torch.allclose(found, expected), (name, key))

    def test_details(self):
        for maximize, expected in ((False, 0.9), (True, 1.1)):
            p, buffers = torch.ones(2), [None]
            functional.sgd([p], [torch.ones(2)], buffers, lr=0.1, momentum=0.9, weight_decay=0,
                           dampening=0, nesterov=False, maximize=maximize)
            self.assertAlmostEqual(p[0].item(), expected, 5)
            self.assertEqual(abs(buffers[0][0].item()), 1)
        grad = torch.sparse_coo_tensor([[1]], [2.0], (3,))
        p, mean, square = torch.ones(3), torch.zeros(3), torch.zeros(3)
        functional.sparse_adam([p], [grad], [mean], [square], [1], **BETAS, lr=0.1, eps=1e-8,
                               maximize=False)
        self.assertEqual([round(x, 4) for x in p.tolist()], [1, 0.9, 1])
        self.assertAlmostEqual(mean[1].item(), 0.2, 5)
        names = list(inspect.signature(functional.adam).parameters)
        self.assertEqual(names[:6], ["params", "grads", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs",
                                     "state_steps"])
        with self.assertRaises(TypeError):
            functional.adam([p], [p], [p], [p], [p], [p])


if __name__ == "__main__":
    unittest.main()
