"""`vmap` and derivatives of functions over operators: what a loop over the items gives."""

import importlib
import unittest

from module_under_test import torch

func = importlib.import_module(torch.__name__ + ".func")
F = torch.nn.functional
CORTEN = torch.__name__ == "corten"
F64 = torch.float64
T = torch.tensor


def numbers(*size, start=0):
    return (torch.arange(torch.ones(size).numel(), dtype=F64) + start).reshape(size)


def spread(*size):
    return (numbers(*size) * 0.7 + 0.3).sin()


MATRICES = spread(2, 3, 3) + 3 * torch.eye(3, dtype=F64)
POSITIVE = MATRICES @ MATRICES.mT
CASES = {
    "inv": (torch.linalg.inv, MATRICES), "pinv": (torch.linalg.pinv, MATRICES),
    "solve": (torch.linalg.solve, MATRICES, spread(2, 3)),
    "cholesky": (torch.linalg.cholesky, POSITIVE), "det": (torch.linalg.det, MATRICES),
    "cholesky_inverse": (torch.cholesky_inverse, MATRICES.tril()),
    "lu_factor": (torch.linalg.lu_factor, MATRICES), "slogdet": (torch.linalg.slogdet, MATRICES),
    "ldl": (torch.linalg.ldl_factor, POSITIVE), "power": (lambda a: torch.linalg.matrix_power(a, -2), MATRICES),
    "tensorinv": (lambda a: torch.linalg.tensorinv(a, 1), MATRICES),
    "quantile": (lambda a, q: torch.quantile(a, q, 0), spread(2, 5), T([[0.2, 0.5], [0.1, 0.9]], dtype=F64)),
    **({} if not CORTEN else {"cov": (lambda a, w: torch.cov(a, aweights=w), spread(2, 2, 4), spread(2, 4).abs())}),
    "one_hot": (lambda a: F.one_hot(a, 4), T([[0, 2], [3, 1]])),
    "multi_margin": (F.multi_margin_loss, spread(2, 3, 4), T([[0, 1, 2], [3, 0, 1]])),
    "circular": (lambda a: F.pad(a, (1, 2), mode="circular"), spread(2, 1, 3)),
    "linspace": (lambda a, b: torch.linspace(a, b, 4, dtype=F64, device="cpu"), spread(2), spread(2) + 2),
    "masked_fill": (lambda a, m: a.masked_fill(m, T(3.0, dtype=F64)), spread(2), T([True, False])),
    "where": (torch.where, T([True, False]), spread(2, 3), spread(2, 3) + 1),
    "gather 1 of 0": (lambda a, i: a.gather(0, i), spread(2), T([[0], [0]])),
    "gather 0 of 1": (lambda a, i: a.gather(0, i), spread(2, 3), T([1, 2])),
    "select_scatter": (lambda a, s: a.select_scatter(s, 0, 1), spread(2, 3), spread(2)),
    "matvec": (torch.matmul, spread(2, 1, 3), spread(2, 3)), "vecmat": (torch.matmul, spread(2, 3), spread(2, 3, 1)),
    "linear": (F.linear, spread(2, 3), spread(2, 1, 3)),
    "squeeze_": (lambda a: a.clone().squeeze_(0), spread(2, 1, 3)),
    "unsqueeze_": (lambda a: a.clone().unsqueeze_(-1).mul_(2), spread(2, 3)),
    "transpose_": (lambda a: a.clone().transpose_(0, 1).add_(1), spread(2, 2, 3)),
    "t_": (lambda a: a.clone().t_(), spread(2, 2, 3)),
    "swapaxes_": (lambda a: a.clone().swapaxes_(0, -1), spread(2, 2, 3)),
    "resize_": (lambda a: a.clone().resize_(3, 1), spread(2, 3)),
    "masked_select": (lambda a: a.masked_select(T([True, False, True])), spread(2, 3)),
    "zeros_like": (lambda a: torch.zeros_like(a, device="cpu") + a, spread(2, 3)),
    "svdvals": (torch.linalg.svdvals, MATRICES), "nuc": (lambda a: torch.linalg.matrix_norm(a, "nuc"), MATRICES),
    "prod": (lambda a: a.prod(), T([[0.0, 2.0, 3.0], [1.0, 2.0, 0.0]], dtype=F64)),
}


def flat(result):
    return list(result) if isinstance(result, tuple) else [result]


class Items(unittest.TestCase):
    def test_values(self):
        for name, (function, *given) in CASES.items():
            several = len(given) > 1
            mixes = [(0,) * len(given)] + ([(0, *(None,) * (len(given) - 1))] if several else [])
            for dims in mixes:
                with self.subTest(name=name, dims=dims):
                    args = [g if dim is not None else g[0] for g, dim in zip(given, dims)]
                    whole = flat(func.vmap(function, in_dims=dims)(*args))
                    for place in range(2):
                        items = [a if d is None else a[place] for a, d in zip(args, dims)]
                        for found, expected in zip(whole, flat(function(*items))):
                            torch.testing.assert_close(found[place], expected)

    def test_last_dimension_and_chunks(self):
        for name in ("inv", "cholesky", "quantile", "linear", "circular"):
            function, *given = CASES[name]
            turned = [g.movedim(0, -1) for g in given]
            expected = flat(func.vmap(function)(*given))
            for found in (
                func.vmap(function, in_dims=-1)(*turned), func.vmap(function, chunk_size=1)(*given),
            ):
                for one, other in zip(flat(found), expected):
                    torch.testing.assert_close(one, other)
            moved = flat(func.vmap(function, out_dims=-1)(*given))
            torch.testing.assert_close(moved[0], expected[0].movedim(0, -1))

    def test_nested(self):
        both = torch.stack([MATRICES, 2 * MATRICES])
        found = func.vmap(func.vmap(torch.linalg.inv))(both)
        torch.testing.assert_close(found, torch.linalg.inv(both))

    def test_gradients(self):
        for name in ("inv", "solve", "cholesky", "det", "svdvals", "nuc", "prod", "multi_margin"):
            function, *given = CASES[name]
            rest = given[1:]
            single = func.grad(lambda a, *others: function(a, *others).sum())
            with self.subTest(name=name):
                found = func.vmap(single)(*given)
                for place in range(2):
                    expected = single(given[0][place], *(r[place] for r in rest))
                    torch.testing.assert_close(found[place], expected)

    def test_checks_are_made_of_all_items(self):
        singular = torch.stack([MATRICES[0], 0 * MATRICES[0]])
        with self.assertRaisesRegex(torch.linalg.LinAlgError, "singular"):
            func.vmap(torch.linalg.inv)(singular)
        with self.assertRaisesRegex(torch.linalg.LinAlgError, "not positive-definite"):
            func.vmap(torch.linalg.cholesky)(-POSITIVE)
        if CORTEN:
            with self.assertRaisesRegex(RuntimeError, r"range \[0, 1\]"):
                func.vmap(lambda q: torch.quantile(spread(3), q))(T([0.5, 1.5], dtype=F64))


class Jacobians(unittest.TestCase):
    def check(self, function, x):
        rows = func.jacrev(function)(x)
        torch.testing.assert_close(func.jacfwd(function)(x), rows)
        y = x.clone().requires_grad_()
        output = function(y)
        for place in range(output.numel()):
            expected, = torch.autograd.grad(output.reshape(-1)[place], y, retain_graph=True)
            torch.testing.assert_close(rows.reshape(-1, *x.shape)[place], expected)

    def test_convolutions(self):
        for rank in (1, 2, 3):
            x, weight = spread(1, 1, *(3,) * rank), spread(2, 1, *(2,) * rank)
            convolution = getattr(F, f"conv{rank}d")
            turned = getattr(F, f"conv_transpose{rank}d")
            self.check(lambda y: convolution(y, weight), x)
            self.check(lambda w: convolution(x, w), weight)
            if rank < 3:
                self.check(lambda y: turned(y, weight.movedim(0, 1)), x)

    def test_complex_intermediates(self):
        """The second derivative of a sum of squares is twice the identity, by way of complex numbers."""
        x = spread(3) + 1
        functions = {
            "cast": lambda z: (z.to(torch.complex128).abs() ** 2).sum(),
            "fft": lambda z: (torch.fft.fft(z).abs() ** 2).sum() / 3,
            "device": lambda z: (z.to("cpu", torch.complex128).abs() ** 2).sum(),
        }
        for name, function in functions.items():
            for outer in (func.jacrev, func.jacfwd):
                with self.subTest(name=name, outer=outer.__name__):
                    found = outer(func.jacrev(function))(x)
                    torch.testing.assert_close(found, 2 * torch.eye(3, dtype=F64))

    def test_hessians(self):
        functions = {
            "inv": lambda a: torch.linalg.inv(a).sum(), "slogdet": lambda a: torch.linalg.slogdet(a)[1],
            "cholesky": lambda a: torch.linalg.cholesky(a @ a.mT).sum(),
        }
        for name, function in functions.items():
            with self.subTest(name=name):
                found = func.hessian(function)(MATRICES[0])
                torch.testing.assert_close(found, func.jacrev(func.jacrev(function))(MATRICES[0]))


class Boxed(unittest.TestCase):
    def test_gradients_of_copies_to_a_device(self):
        """The operator called by its name, with a device, keeps the tensor's history."""
        x = torch.ones(2, requires_grad=True)
        made = torch.ops.aten._to_copy(x, dtype=F64, device=torch.device("cpu"))
        self.assertTrue(made.requires_grad)


if __name__ == "__main__":
    unittest.main()
