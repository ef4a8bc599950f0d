"""Output tensors of operators: recorded arguments are refused, and dtypes that do not fit are named."""

import unittest
import warnings

from module_under_test import torch

linalg = torch.linalg

#: Calls of operators that are made of others.
COMPOSITE = {
    "matmul": lambda a, v, out: torch.matmul(a, a, out=out),
    "matmul of vectors": lambda a, v, out: torch.matmul(v, v, out=out),
    "multi_dot": lambda a, v, out: linalg.multi_dot([a, a, a], out=out),
    "inv": lambda a, v, out: linalg.inv(a, out=out),
    "det": lambda a, v, out: linalg.det(a, out=out),
    "matrix_power": lambda a, v, out: linalg.matrix_power(a, 2, out=out),
    "outer": lambda a, v, out: torch.outer(v, v, out=out),
    "kron": lambda a, v, out: torch.kron(a, a, out=out),
    "eigvalsh": lambda a, v, out: linalg.eigvalsh(a, out=out),
    "svdvals": lambda a, v, out: linalg.svdvals(a, out=out),
    "solve": lambda a, v, out: linalg.solve(a, a, out=out),
    "cholesky": lambda a, v, out: linalg.cholesky(a, out=out),
    "vecdot": lambda a, v, out: linalg.vecdot(a, a, out=out),
    "hstack": lambda a, v, out: torch.hstack([a, a], out=out),
    "vstack": lambda a, v, out: torch.vstack([a, a], out=out),
    "dstack": lambda a, v, out: torch.dstack([a, a], out=out),
    "column_stack": lambda a, v, out: torch.column_stack([a, a], out=out),
    "concat": lambda a, v, out: torch.concat([a, a], out=out),
    "std": lambda a, v, out: torch.std(a, 1, out=out),
    "var": lambda a, v, out: torch.var(a, 1, out=out),
    "diff": lambda a, v, out: torch.diff(a, out=out),
}
COMPLEX = {
    "fft": lambda a, v, out: torch.fft.fft(a, out=out),
    "fft2": lambda a, v, out: torch.fft.fft2(a, out=out),
    "rfft": lambda a, v, out: torch.fft.rfft(a, out=out),
}


class Recorded(unittest.TestCase):
    def refused(self, calls, dtype):
        for name, call in calls.items():
            with self.subTest(name):
                a = (2 * torch.eye(2)).requires_grad_()
                v = torch.ones(2, requires_grad=True)
                out = torch.empty(0, dtype=dtype)
                with self.assertRaisesRegex(RuntimeError, r"functions with out=\.\.\. arguments"):
                    call(a, v, out)
                self.assertFalse(out.requires_grad)
                with torch.no_grad():
                    self.assertFalse(call(a, v, out).requires_grad)
                self.assertIs(call(a.detach(), v.detach(), out), out)

    def test_composites_refuse_arguments_that_require_gradients(self):
        self.refused(COMPOSITE, torch.float32)
        self.refused(COMPLEX, torch.complex64)

    def test_outputs_that_require_gradients_are_refused(self):
        out = torch.zeros(2, 2, requires_grad=True)
        with self.assertRaisesRegex(RuntimeError, r"functions with out=\.\.\. arguments"):
            torch.matmul(torch.eye(2), torch.eye(2), out=out)

    def test_some_composites_record_the_copy(self):
        a = torch.tensor([[3.0, 4.0]], requires_grad=True)
        linalg.norm(a, out=torch.empty(())).backward()
        self.assertEqual(a.grad.tolist(), (a.detach() / 5).tolist())
        a = (2 * torch.eye(2)).requires_grad_()
        torch.tensordot(a, a, 1, out=torch.empty(0)).sum().backward()
        self.assertEqual(a.grad.tolist(), [[4.0, 4.0], [4.0, 4.0]])


class Dtypes(unittest.TestCase):
    def words(self, text, call, *dtypes):
        with self.assertRaises(RuntimeError) as caught:
            outs = tuple(torch.empty(0, dtype=dtype) for dtype in dtypes)
            call(outs[0] if len(outs) == 1 else outs)
        self.assertTrue(str(caught.exception).startswith(text), str(caught.exception))

    def test_what_results_cannot_be_cast_to(self):
        a, b = 2 * torch.eye(2), torch.ones(2, 2)
        castable = {
            "cholesky_inverse": lambda out: torch.cholesky_inverse(a, out=out),
            "cholesky_solve": lambda out: torch.cholesky_solve(b, a, out=out),
            "linalg.cond": lambda out: linalg.cond(a, out=out),
            "linalg.pinv": lambda out: linalg.pinv(a, out=out),
            "tensorinv": lambda out: linalg.tensorinv(a, 1, out=out),
            "tensorsolve": lambda out: linalg.tensorsolve(a, torch.ones(2), out=out),
            "matrix_power": lambda out: linalg.matrix_power(a, 3, out=out),
            "torch.linalg.householder_product": lambda out: linalg.householder_product(
                a, torch.ones(2), out=out
            ),
        }
        for name, call in castable.items():
            with self.subTest(name):
                self.words(
                    f"{name}: Expected result to be safely castable from Float dtype, but got result "
                    "with dtype Int", call, torch.int32,
                )
        self.words(
            "torch.linalg.matrix_rank: Expected result to be safely castable from Long dtype",
            lambda out: linalg.matrix_rank(a, out=out), torch.bool,
        )

    def test_results_with_names(self):
        a = torch.eye(2)
        cases = (
            ("eigenvalues", (torch.int32, torch.complex64)),
            ("eigenvectors", (torch.complex64, torch.int32)),
        )
        for name, dtypes in cases:
            self.words(
                f"torch.linalg.eig: Expected {name} to be safely castable from ComplexFloat dtype, but got "
                f"{name} with dtype Int", lambda out: linalg.eig(a, out=out), *dtypes,
            )
        self.words(
            "torch.geqrf: Expected tau to be safely castable from Float dtype, but got tau with dtype Int",
            lambda out: torch.geqrf(a, out=out), torch.float32, torch.int32,
        )

    def test_outputs_of_the_results_dtype_only(self):
        a, v = torch.eye(2), torch.ones(2)
        cases = {
            "linalg.norm expected out tensor dtype Float but got: ComplexFloat":
                lambda out: linalg.norm(a, out=out),
            "linalg.matrix_norm expected out tensor dtype Float but got: ComplexFloat":
                lambda out: linalg.matrix_norm(a, out=out),
            "result dtype ComplexFloat does not match input dtype Float":
                lambda out: torch.dot(v, v, out=out),
            "tensordot: Expected the output tensor to have dtype Float":
                lambda out: torch.tensordot(a, a, 1, out=out),
            "multi_dot(): expected out tensor to have dtype float but got c10::complex<float>":
                lambda out: linalg.multi_dot([a, a], out=out),
            "linalg.vecdot: Expected out of dtypeFloat but found ComplexFloat":
                lambda out: linalg.vecdot(a, a, out=out),
            "expected scalar type Float but found ComplexFloat":
                lambda out: linalg.solve_triangular(a, a, upper=True, out=out),
        }
        for text, call in cases.items():
            with self.subTest(text):
                self.words(text, call, torch.complex64)
        self.words(
            "nonzero_static: Expected out tensor to have scalar type Long",
            lambda out: torch.nonzero_static(v, size=1, out=out), torch.float32,
        )
        self.words(
            "torch.frexp() expects mantissa to have dtype ",
            lambda out: torch.frexp(v, out=out), torch.float64, torch.int32,
        )

    def test_wider_outputs_are_cast_to(self):
        out = torch.empty(0, dtype=torch.complex64)
        self.assertIs(linalg.tensorinv(2 * torch.eye(2), 1, out=out), out)
        self.assertEqual(out.tolist(), [[0.5, 0], [0, 0.5]])


class Resized(unittest.TestCase):
    def test_frequencies_warn_as_ranges_do(self):
        for function in (torch.fft.fftfreq, torch.fft.rfftfreq):
            with self.assertWarnsRegex(UserWarning, "The out tensor will be resized"):
                out = function(8, out=torch.empty(()))
            self.assertEqual(out.tolist(), function(8).tolist())


class Repeated(unittest.TestCase):
    def test_warnings_of_windows_can_be_asked_for_each_time(self):
        signal, spectrum = torch.ones(100), torch.ones(51, 5, dtype=torch.complex128)
        calls = (
            lambda: torch.stft(signal, 10, return_complex=True),
            lambda: torch.istft(spectrum, n_fft=100, length=100),
            lambda: torch.istft(spectrum, n_fft=100, length=1000, window=torch.ones(100)),
        )
        torch.set_warn_always(True)
        try:
            for call in calls * 2:
                with warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always")
                    call()
                self.assertEqual(len(said), 1)
        finally:
            torch.set_warn_always(False)


if __name__ == "__main__":
    unittest.main()
