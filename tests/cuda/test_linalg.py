"""Factorisations, systems and decompositions of matrices on the device, compared with the CPU."""

import unittest

from cuda_under_test import CudaTest, torch, usable

LA = torch.linalg
ALL = [torch.float32, torch.float64, torch.complex64, torch.complex128]


def numbers(*sizes, dtype=torch.float64, seed=0):
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def positive(*sizes, dtype=torch.float64):
    a = numbers(*sizes, sizes[-1], dtype=dtype)
    return a @ a.mH + sizes[-1] * torch.eye(sizes[-1], dtype=dtype)


@usable
class Factors(CudaTest):
    tolerance = {**CudaTest.tolerance, "torch.float32": 2e-4, "torch.complex64": 2e-4}

    def test_cholesky(self):
        for dtype in ALL:
            a = positive(2, 3, 7, dtype=dtype)
            for upper in (False, True):
                self.check(lambda a: LA.cholesky_ex(a, upper=upper), a, name=f"{dtype} {upper}")
                self.check(lambda a: (torch.cholesky_inverse(LA.cholesky(a, upper=upper), upper=upper),
                                      torch.cholesky_solve(a[..., :2], LA.cholesky(a, upper=upper), upper)), a)
        self.check(LA.cholesky, positive(130))
        bad = positive(3, 4)
        bad[1, 2, 2] = -1
        self.assertEqual(LA.cholesky_ex(bad.cuda()).info.tolist(), [0, 3, 0])
        with self.assertRaisesRegex(LA.LinAlgError, r"\(Batch element 1\): .* minor of order 3"):
            LA.cholesky(bad.cuda())

    def test_lu(self):
        for dtype in ALL:
            for sizes in [(4, 4), (2, 3, 5, 7), (6, 3), (2, 1, 1), (0, 3)]:
                a = numbers(*sizes, dtype=dtype)
                self.check(lambda a: (*LA.lu_factor_ex(a), *LA.lu(a)), a, name=f"{dtype} {sizes}")
        for sizes in [(130, 110), (100, 120)]:
            self.check(LA.lu_factor, numbers(*sizes), name=str(sizes))
        self.check(LA.lu_factor_ex, torch.ones(2, 3, 3, dtype=torch.float64))
        a = numbers(3, 6, 4).cuda()
        p, l, u = LA.lu(a, pivot=False)
        self.assertTrue(torch.allclose(l @ u, a))

    def test_systems(self):
        for dtype in ALL:
            a, b = numbers(2, 5, 5, dtype=dtype), numbers(3, 2, 5, 4, dtype=dtype, seed=1)
            for adjoint in (False, True):
                for left in (False, True):
                    def solve(a, b):
                        lu, pivots = LA.lu_factor(a)
                        return LA.lu_solve(lu, pivots, b if left else b.mT, left=left, adjoint=adjoint)

                    self.check(solve, a, b, name=f"{dtype} {left} {adjoint}")
            self.check(lambda a, b: (LA.solve(a, b), LA.inv(a), LA.det(a), *LA.slogdet(a), LA.tensorinv(a[0], 1)), a, b)
        self.check(LA.solve, numbers(150, 150), numbers(150, 20))
        self.check(lambda a: LA.inv_ex(a).info, torch.zeros(2, 3, 3, dtype=torch.float64))
        with self.assertRaisesRegex(LA.LinAlgError, "The diagonal element 1 is zero"):
            LA.inv(torch.zeros(3, 3).cuda())

    def test_pivots_that_are_no_rows_are_reported(self):
        lu = numbers(3, 3).cuda()
        with self.assertRaisesRegex(RuntimeError, "device-side assert"):
            LA.lu_solve(lu, torch.tensor([1, 9, 3], dtype=torch.int32).cuda(), lu)
            torch.cuda.synchronize()
        with self.assertRaisesRegex(RuntimeError, "device-side assert"):
            torch.lu_unpack(lu, torch.tensor([1, -4, 3], dtype=torch.int32).cuda())
            torch.cuda.synchronize()

    def test_triangular_systems(self):
        for dtype in ALL:
            a = numbers(2, 6, 6, dtype=dtype) + 4 * torch.eye(6, dtype=dtype)
            b = numbers(1, 6, 3, dtype=dtype, seed=1)
            for upper in (False, True):
                for unit in (False, True):
                    def solve(a, b):
                        options = {"upper": upper, "unitriangular": unit}
                        return [LA.solve_triangular(a, b, **options), LA.solve_triangular(a.mT, b, **options),
                                LA.solve_triangular(a.conj(), b, **options), LA.solve_triangular(a[0].mH, b, **options),
                                LA.solve_triangular(a, b.mT, left=False, **options)]

                    self.check(solve, a, b, name=f"{dtype} {upper} {unit}")
        a = numbers(150, 150) + 40 * torch.eye(150)
        for upper in (False, True):
            self.check(lambda a, b: LA.solve_triangular(a, b, upper=upper), a, numbers(150, 33))

    def test_qr(self):
        for dtype in ALL:
            for sizes in [(5, 5), (2, 7, 4), (2, 3, 6)]:
                a = numbers(*sizes, dtype=dtype)
                self.check(torch.geqrf, a, name=f"{dtype} {sizes}")
                self.check(lambda a: (*LA.qr(a), *LA.qr(a, "complete")), a, name=f"{dtype} {sizes}")
                for left in (False, True):
                    for transpose in (False, True):
                        c = numbers(*sizes[:-2], sizes[-2], 3, dtype=dtype, seed=1)

                        def product(a, c):
                            h, tau = torch.geqrf(a)
                            return torch.ormqr(h, tau, c if left else c.mT, left, transpose)

                        self.check(product, a, c, name=f"{dtype} {sizes} {left} {transpose}")
        self.check(torch.geqrf, numbers(90, 70))
        self.check(torch.geqrf, torch.zeros(3, 2))

    def test_indefinite_matrices(self):
        for dtype in ALL:
            for hermitian in (False, True):
                a = numbers(3, 9, 9, dtype=dtype)
                a = a + (a.mH if hermitian else a.mT)
                a[1, 0, 0] = 0
                b = numbers(3, 9, 2, dtype=dtype, seed=1)

                def solve(a, b):
                    ld, pivots, info = LA.ldl_factor_ex(a, hermitian=hermitian)
                    return ld, pivots, info, LA.ldl_solve(ld, pivots, b, hermitian=hermitian)

                self.check(solve, a, b, name=f"{dtype} {hermitian}")

    def test_gradients(self):
        def parts(a):
            spd = a @ a.mT + torch.eye(4, dtype=a.dtype, device=a.device)
            return [LA.cholesky(spd), LA.inv(a), LA.qr(a).R.abs(), LA.solve(a, spd), LA.det(a), LA.eigvalsh(spd), LA.svdvals(a)]

        self.check_gradient(parts, numbers(2, 4, 4))


@usable
class Spectra(CudaTest):
    tolerance = {**CudaTest.tolerance, "torch.float32": 3e-5, "torch.complex64": 3e-5, "torch.float64": 1e-10}

    def check_basis(self, basis, name):
        eye = torch.eye(basis.shape[-1], dtype=basis.dtype).cuda()
        bound = 2e-5 if basis.dtype in (torch.float32, torch.complex64) else 1e-12
        self.assertLess((basis.mH @ basis - eye).abs().max().item(), bound, name)
        return bound

    def check_eigh(self, a, name):
        for uplo in "LU":
            values, vectors = LA.eigh(a.cuda(), UPLO=uplo)
            self.same(values, LA.eigvalsh(a, UPLO=uplo), name)
            self.same(LA.eigvalsh(a.cuda(), UPLO=uplo), LA.eigvalsh(a, UPLO=uplo), name)
            bound = self.check_basis(vectors, name)
            triangle = a.tril() + a.tril(-1).mH if uplo == "L" else a.triu() + a.triu(1).mH
            size = max(1.0, a.abs().max().item()) * a.shape[-1]
            error = (triangle.cuda() @ vectors - vectors * values.unsqueeze(-2)).abs().max().item()
            self.assertLess(error, bound * size, name)

    def test_hermitian_matrices(self):
        for dtype in ALL:
            for n in (1, 2, 5, 12):
                a = numbers(2, n, n, dtype=dtype)
                if dtype.is_complex:
                    a = a + a.mH
                self.check_eigh(a, f"{dtype} {n}")
        self.check_eigh(torch.diag(torch.tensor([3.0, -3.0, 0.0, 0.0])).double(), "degenerate")
        self.check_eigh(torch.zeros(3, 3), "zeros")
        self.check_eigh(1e-30 * numbers(4, 4, dtype=torch.float32), "small")
        self.check_eigh(numbers(131, 131), "steps")

    def check_svd(self, a, name):
        for full in (False, True):
            u, s, vh = LA.svd(a.cuda(), full_matrices=full)
            wanted = LA.svd(a, full_matrices=full)
            self.assertEqual((u.shape, vh.shape), (wanted.U.shape, wanted.Vh.shape))
            self.same(s, wanted.S, name)
            self.same(LA.svdvals(a.cuda()), wanted.S, name)
            bound = self.check_basis(u, name)
            self.check_basis(vh.mH, name)
            k = s.shape[-1]
            error = (u[..., :k] * s.unsqueeze(-2) @ vh[..., :k, :] - a.cuda()).abs().max().item()
            self.assertLess(error, bound * max(1.0, a.abs().max().item()) * 4, name)

    def test_singular_values(self):
        for dtype in ALL:
            for sizes in [(4, 4), (2, 7, 3), (3, 6), (1, 5), (5, 1)]:
                self.check_svd(numbers(*sizes, dtype=dtype), f"{dtype} {sizes}")
        rank_one = numbers(6, 1) @ numbers(1, 5)
        for a, name in [(rank_one, "rank one"), (torch.zeros(4, 3), "zeros"), (torch.eye(5).repeat(2, 1), "equal values")]:
            self.check_svd(a, name)
        self.check_svd(numbers(140, 133), "steps")
        self.check(lambda a: (LA.pinv(a), LA.matrix_rank(a), LA.cond(a), LA.norm(a, "nuc"), LA.lstsq(a, a).rank), numbers(5, 3))

    def test_numbers_that_are_not_finite(self):
        a = numbers(2, 3, 3)
        a[1, 0, 0] = float("nan")
        with self.assertRaisesRegex(LA.LinAlgError, r"\(Batch element 1\): .* non-finite"):
            LA.svd(a.cuda())
        with self.assertRaisesRegex(LA.LinAlgError, "failed to converge"):
            LA.eigh(a.cuda())

    def test_general_matrices(self):
        self.check(LA.eigvals, numbers(2, 4, 4))
        values, vectors = LA.eig(numbers(4, 4).cuda())
        self.assertEqual(values.device.type, "cuda")
        values, vectors = values.cpu(), vectors.cpu()
        self.assertTrue(torch.allclose(vectors * values, (numbers(4, 4) + 0j) @ vectors))


if __name__ == "__main__":
    unittest.main()
