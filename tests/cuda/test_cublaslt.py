"""Products of matrices on the device: by the emulated cuBLASLt, and by the package's own kernels."""

import contextlib
import ctypes
import itertools
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cuda_under_test import CudaTest, ON_GPU, torch, usable  # noqa: E402

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
COMPLEX = [torch.complex64, torch.complex128]


def numbers(*sizes, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(sizes, generator=generator, dtype=torch.complex64 if dtype.is_complex else None).to(dtype)
    return torch.randint(-9, 10, sizes, generator=generator).to(dtype)


def layouts(*sizes, dtype=torch.float32, seed=0):
    """A matrix, or a batch, in several layouts: by rows, by columns, within a larger one, with gaps, broadcast."""
    x = numbers(*sizes, dtype=dtype, seed=seed)
    yield "rows", x
    yield "columns", x.mT.contiguous().mT
    wide = torch.zeros(*sizes[:-1], sizes[-1] + 3, dtype=dtype)
    wide[..., 1:-2] = x
    yield "in wider rows", wide[..., 1:-2]
    gaps = torch.zeros(*sizes[:-1], 2 * sizes[-1], dtype=dtype)
    gaps[..., ::2] = x
    yield "gaps", gaps[..., ::2]
    yield "one row", x[..., :1, :].expand(sizes)
    if len(sizes) == 3:
        yield "one matrix", x[:1].expand(sizes)
        yield "batch inside", x.permute(1, 0, 2).contiguous().permute(1, 0, 2)


class Counter:
    """Launches of kernels and products by libraries, and searches for algorithms, on the emulator."""

    def __init__(self):
        folder = Path(os.environ["CORTEN_CUDA_LIB_DIR"])
        self.driver = ctypes.CDLL(str(folder / "libcuda.so.1"), mode=ctypes.RTLD_GLOBAL)
        self.products = ctypes.CDLL(str(folder / "libcublasLt.so.13"))
        for function in (self.driver.cusim_launches, self.products.cusim_searches):
            function.restype = ctypes.c_ulonglong

    def launches(self, function):
        before = self.driver.cusim_launches()
        result = function()
        return self.driver.cusim_launches() - before, result

    def searches(self, function):
        before = self.products.cusim_searches()
        function()
        return self.products.cusim_searches() - before


class Products:
    """What holds for both, as a mixin: the loader must not run it by itself."""

    tolerance = {**CudaTest.tolerance, "torch.float16": 5e-3, "torch.bfloat16": 3e-2, "torch.float32": 5e-5}

    def test_layouts(self):
        for (one, a), (two, b) in itertools.product(layouts(5, 7), layouts(7, 6, seed=1)):
            self.check(torch.mm, a, b, name=f"mm {one} {two}")
        for (one, a), (two, b) in itertools.product(layouts(2, 3, 4), layouts(2, 4, 5, seed=1)):
            self.check(torch.bmm, a, b, name=f"bmm {one} {two}")

    def test_dtypes(self):
        for dtype in [*FLOATS, *COMPLEX, torch.int64, torch.int32, torch.uint8]:
            a, b, c = numbers(9, 70, dtype=dtype), numbers(70, 8, dtype=dtype, seed=1), numbers(9, 8, dtype=dtype, seed=2)
            self.check(torch.mm, a, b, name=f"mm {dtype}")
            self.check(lambda a, b, c: torch.addmm(c, a, b, beta=2, alpha=3), a, b, c, name=f"addmm {dtype}")
            self.check(lambda a, b, c: torch.addmm(c[0], a, b), a, b, c, name=f"addmm of a row {dtype}")
            self.check(lambda a, b: torch.bmm(a.view(3, 3, 70), b.expand(3, 70, 8)), a, b, name=f"bmm {dtype}")
            self.check(lambda a, b: (a @ b[:, 0], torch.dot(a[0], b[:, 1]), torch.vdot(a[0], a[1])), a, b,
                       name=f"vectors {dtype}")

    def test_thin(self):
        for m, n, k in [(1, 1, 1), (1, 40, 300), (40, 1, 300), (1, 1, 3000), (2, 3, 5000), (1, 3, 2051), (70, 1, 7)]:
            for dtype in [torch.float32, torch.float16, torch.complex64]:
                a, b = numbers(m, k, dtype=dtype) / k**0.5, numbers(k, n, dtype=dtype, seed=1)
                for left, right in [(a, b), (a.mT.contiguous().mT, b), (a, b.mT.contiguous().mT)]:
                    self.check(torch.mm, left, right, name=f"{m} {n} {k} {dtype} {left.stride()} {right.stride()}")
                self.check(lambda a, b: torch.addmm(b[0, 0], a, b), a, b, name=f"addmm {m} {n} {k} {dtype}")
        unaligned = numbers(5 * 65 + 1)[1:].view(5, 65)
        self.check(torch.mv, unaligned[:, 1:], numbers(64, seed=1))
        for dtype in [torch.float32, torch.float16, torch.complex64]:
            wide = numbers(3, 2120 * 8, dtype=dtype) / 2
            self.check(torch.mm, numbers(1, 3, dtype=dtype), wide, name=f"wide loads of columns {dtype}")
            self.check(torch.mm, numbers(1, 3, dtype=dtype), wide[:, 4:-3], name=f"narrow loads of columns {dtype}")
        self.check(torch.bmm, numbers(3, 1, 50), numbers(3, 50, 4, seed=1))
        self.check(torch.bmm, numbers(3, 4, 50), numbers(3, 50, 1, seed=1).expand(3, 50, 1))

    def test_empty(self):
        for m, n, k in [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)]:
            a, b, c = numbers(m, k), numbers(k, n, seed=1), numbers(m, n, seed=2)
            self.check(torch.mm, a, b, name=f"{m} {n} {k}")
            self.check(lambda a, b, c: torch.addmm(c, a, b, beta=0.5), a, b, c, name=f"{m} {n} {k}")
        self.check(torch.bmm, numbers(0, 2, 3), numbers(0, 3, 4))
        self.check(torch.bmm, numbers(2, 2, 0), numbers(2, 0, 4))
        self.check(torch.addbmm, numbers(2, 4), numbers(0, 2, 3), numbers(0, 3, 4))

    def test_addends(self):
        a, b = numbers(5, 7), numbers(7, 6, seed=1)
        for name, c in [*layouts(5, 6, seed=2), ("row", numbers(6)), ("column", numbers(5, 1)), ("number", numbers()),
                        ("row with gaps", numbers(12)[::2]), ("one by n", numbers(1, 6))]:
            for beta, alpha in [(1, 1), (0.5, -2), (1, 3), (0, 1)]:
                self.check(lambda a, b, c: torch.addmm(c, a, b, beta=beta, alpha=alpha), a, b, c,
                           name=f"addmm {name} {beta} {alpha}")
        a, b = numbers(3, 5, 7), numbers(3, 7, 6, seed=1)
        for name, c in [*layouts(3, 5, 6, seed=2), ("row", numbers(6)), ("column", numbers(3, 5, 1))]:
            self.check(lambda a, b, c: torch.baddbmm(c, a, b, beta=0.5, alpha=2), a, b, c, name=f"baddbmm {name}")
            self.check(lambda a, b, c: torch.addbmm(c[0] if c.dim() > 1 else c, a, b), a, b, c, name=f"addbmm {name}")
        for c in [numbers(5), numbers(1), numbers()]:
            self.check(lambda a, b, c: torch.addmv(c, a[0], b[0, :, 0], beta=2), a, b, c)

    def test_nan_is_not_read(self):
        a, b, nan = numbers(5, 7), numbers(7, 6, seed=1), torch.full((5, 6), float("nan"))
        self.check(lambda a, b, c: torch.addmm(c, a, b, beta=0), a, b, nan)
        self.check(lambda a, b, c: torch.addmm(c[0], a, b, beta=0), a, b, nan)
        self.check(lambda a, b, c: torch.mm(a, b, out=c), a, b, nan)

    def test_in_place(self):
        a, b, c = numbers(5, 5), numbers(5, 5, seed=1), numbers(5, 5, seed=2)
        self.check(lambda a, b, c: c.clone().addmm_(a, b, beta=2), a, b, c)
        self.check(lambda a, b, c: c.clone().t().addmm_(a, b, beta=2), a, b, c)
        self.check(lambda a, b, c: c.clone().addmm_(a, b, beta=0), a, b, c)

        def aliased(a, b, c):
            a = a.clone()
            return a.addmm_(a, b)

        self.check(aliased, a, b, c)
        self.check(lambda a, b, c: torch.mm(a, b, out=torch.empty(0, device=a.device)), a, b, c)
        self.check(lambda a, b, c: torch.mm(a, b, out=torch.empty(5, 10, device=a.device)[:, ::2]), a, b, c)
        self.check(lambda a, b, c: c.clone().view(1, 5, 5).baddbmm_(a[None], b[None], alpha=2), a, b, c)
        self.check(lambda a, b, c: torch.addmm(c, a, b, out=torch.empty_like(c).t()), a, b, c)

    def test_activations(self):
        for dtype in FLOATS:
            a, b, c = numbers(5, 7, dtype=dtype), numbers(7, 6, dtype=dtype, seed=1), numbers(6, dtype=dtype)
            gelu = torch.nn.functional.gelu
            for add in [c, c.expand(5, 6), c.expand(5, 6).contiguous()]:
                wide = [x.double() for x in (add, a, b)]
                for use_gelu, wanted in [(False, torch.addmm(*wide).relu()), (True, gelu(torch.addmm(*wide), approximate="tanh"))]:
                    found = torch._addmm_activation(*[x.to("cuda") for x in (add, a, b)], use_gelu=use_gelu)
                    self.same(found, wanted.to(dtype), f"{dtype} {use_gelu}")

    def test_bytes(self):
        for m, n, k in [(24, 16, 32), (5, 7, 9), (1, 8, 8), (20, 12, 16)]:
            a, b = numbers(m, k, dtype=torch.int8), numbers(k, n, dtype=torch.int8, seed=1)
            self.check(torch._int_mm, a, b, name=f"{m} {n} {k}")
            self.check(torch._int_mm, a, b.t().contiguous().t(), name=f"{m} {n} {k}")
            self.check(torch._int_mm, a.abs().to(torch.uint8), b, name=f"{m} {n} {k}")

    def test_gradients(self):
        a, b, c = numbers(5, 7), numbers(7, 6, seed=1), numbers(6, seed=2)
        self.check_gradient(torch.addmm, c, a, b)
        self.check_gradient(torch.mm, a, b.t().contiguous().t())
        self.check_gradient(torch.nn.functional.linear, numbers(2, 5, 7), numbers(6, 7, seed=1), c)
        self.check_gradient(torch.bmm, numbers(2, 5, 7), numbers(2, 7, 6, seed=1))
        self.check_gradient(torch.mv, a, numbers(7))

    def test_repeats(self):
        a, b = numbers(3, 5000).cuda(), numbers(5000, 2, seed=1).cuda()
        first = a @ b
        for _ in range(3):
            self.assertTrue(torch.equal(first, a @ b))

    def test_graph(self):
        a, b, c = (x.cuda() for x in (numbers(5, 70), numbers(70, 6, seed=1), numbers(6)))
        graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=side):
            found = torch.addmm(c, a, b)
        for seed in (3, 4):
            a.copy_(numbers(5, 70, seed=seed))
            graph.replay()
            torch.cuda.synchronize()
            self.same(found, torch.addmm(c.cpu(), a.cpu(), b.cpu()))

    def test_streams(self):
        a, b = numbers(64, 80), numbers(80, 64, seed=1)
        wanted, found = a @ b, []
        left, right = a.cuda(), b.cuda()
        torch.cuda.synchronize()
        for _ in range(4):
            with torch.cuda.stream(torch.cuda.Stream()):
                found.append(left @ right)
        torch.cuda.synchronize()
        for one in found:
            self.same(one, wanted)


@usable
class Library(Products, CudaTest):
    """By cuBLASLt, where a product is one for it."""

    @classmethod
    def setUpClass(cls):
        torch.cuda.init()
        torch._C._cuda_checkCublasLt()


@usable
class OwnKernels(Products, CudaTest):
    @classmethod
    def setUpClass(cls):
        torch._C._cuda_useCublasLt(False)

    @classmethod
    def tearDownClass(cls):
        torch._C._cuda_useCublasLt(True)


@usable
@unittest.skipIf(ON_GPU, "launches are counted on the emulator")
class Counts(CudaTest):
    def test_a_search_for_each_kind_of_product(self):
        counter = Counter()
        a, b = numbers(11, 13).cuda(), numbers(13, 12, seed=1).cuda()
        self.assertEqual(counter.searches(lambda: [a @ b for _ in range(3)]), 1)
        self.assertEqual(counter.searches(lambda: a.t().contiguous().t() @ b), 1)
        self.assertEqual(counter.searches(lambda: a @ b), 0)

    def test_linear(self):
        counter = Counter()
        for wanted, dtype in itertools.product([True, False], [torch.float32, torch.bfloat16]):
            torch._C._cuda_useCublasLt(wanted)
            self.addCleanup(torch._C._cuda_useCublasLt, True)
            layer = torch.nn.Linear(14, 10, device="cuda", dtype=dtype)
            x = numbers(2, 6, 14, dtype=dtype).cuda().requires_grad_()
            grad = numbers(2, 6, 10, dtype=dtype).cuda()
            layer(x).backward(grad)
            launches, y = counter.launches(lambda: layer(x))
            self.assertEqual(launches, 1)
            leaves = [x, layer.weight, layer.bias]
            launches, _ = counter.launches(lambda: torch.autograd.grad(y, leaves, grad))
            self.assertEqual(launches, 3, "two products and the sum of the bias")

    def test_products_of_views(self):
        counter = Counter()
        a, b = numbers(5, 7).cuda(), numbers(6, 7, seed=1).cuda()
        batch = numbers(3, 4, 6).cuda()
        for name, function in {"transposes": lambda: (a.t() @ b[:5]).t() @ a.t(),
                               "part of rows": lambda: (a[:, 1:4] @ b[1:4, 2:5], a[:, 1:4] @ b[:3])}.items():
            self.assertEqual(counter.launches(function)[0], 2, name)
        self.assertEqual(counter.launches(lambda: torch.bmm(batch, batch.mT))[0], 1)
        self.assertEqual(counter.launches(lambda: torch.bmm(batch.transpose(0, 1), batch.permute(1, 2, 0)))[0], 1)
        self.assertEqual(counter.launches(lambda: torch.addmm(b[:5], a[:, :5], a[:5], beta=2))[0], 1)
        self.assertEqual(counter.launches(lambda: b[:5].addmm_(a[:, :5], a[:5]))[0], 1)


@usable
@unittest.skipIf(ON_GPU, "NVIDIA's library says less")
class Emulator(unittest.TestCase):
    """The emulated library refuses what would be wrong on a GPU."""

    def setUp(self):
        torch.cuda.init()
        torch._C._cuda_checkCublasLt()
        self.library = Counter().products
        self.tensors = [torch.zeros(64, device="cuda") for _ in range(3)]
        self.handle = self.made(self.library.cublasLtCreate)

    def made(self, create, *arguments):
        out = ctypes.c_void_p()
        self.assertEqual(create(ctypes.byref(out), *arguments), 0)
        return out

    def layout(self, rows, columns, leading):
        return self.made(self.library.cublasLtMatrixLayoutCreate, 0, *map(ctypes.c_int64, (rows, columns, leading)))

    def status(self, shapes=((4, 4, 4),) * 3, addresses=None, epilogue=1, bias=0, alignment=256, spoil=None):
        """Of a search and of the product after it; addresses of a, b and the result."""
        library, size = self.library, ctypes.c_size_t
        addresses = addresses or [tensor.data_ptr() for tensor in self.tensors]
        description = self.made(library.cublasLtMatmulDescCreate, 68, 0)
        for attribute, value in [(7, ctypes.c_uint32(epilogue)), (8, ctypes.c_uint64(bias))]:
            library.cublasLtMatmulDescSetAttribute(description, attribute, ctypes.byref(value), size(ctypes.sizeof(value)))
        a, b, d = (self.layout(*shape) for shape in shapes)
        wish = self.made(library.cublasLtMatmulPreferenceCreate)
        for attribute in range(5, 9):
            library.cublasLtMatmulPreferenceSetAttribute(wish, attribute, ctypes.byref(ctypes.c_uint32(alignment)), size(4))
        result, count = (ctypes.c_uint64 * 12)(), ctypes.c_int()
        found = library.cublasLtMatmulAlgoGetHeuristic(self.handle, description, a, b, d, d, wish, 1, result, ctypes.byref(count))
        if found:
            return "search", found
        if spoil is not None:
            result[0] = spoil
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        a_at, b_at, d_at = map(ctypes.c_void_p, addresses)
        status = library.cublasLtMatmul(self.handle, description, ctypes.byref(one), a_at, a, b_at, b, ctypes.byref(zero),
                                        d_at, d, d_at, d, result, None, size(0), None)
        torch.cuda.synchronize()
        return "product", status

    def test_what_is_wrong(self):
        a, b, d = (tensor.data_ptr() for tensor in self.tensors)
        self.assertEqual(self.status(), ("product", 0))
        self.assertEqual(self.status(shapes=((4, 4, 3), (4, 4, 4), (4, 4, 4))), ("search", 7), "leading dimension")
        self.assertEqual(self.status(shapes=((4, 3, 4), (4, 4, 4), (4, 4, 4))), ("search", 7), "depths differ")
        self.assertEqual(self.status(epilogue=4), ("search", 7), "a bias without an address")
        self.assertEqual(self.status(addresses=[a + 4, b, d]), ("product", 7), "alignment that was promised")
        self.assertEqual(self.status(addresses=[a + 4, b, d], alignment=4), ("product", 0))
        self.assertEqual(self.status(addresses=[a, b, a + 32], alignment=4), ("product", 7), "the result overlaps a factor")
        self.assertEqual(self.status(addresses=[4096, b, d]), ("product", 7), "memory of nobody")
        self.assertEqual(self.status(spoil=0), ("product", 7), "an algorithm that no search has found")
        segment = 2 << 20
        big = ((4, 4, segment), (4, 4, 4), (4, 4, 4))
        self.assertEqual(self.status(shapes=big), ("product", 7), "columns beyond the memory")

    def test_a_destroyed_object_is_noticed(self):
        layout = self.layout(4, 4, 4)
        self.assertEqual(self.library.cublasLtMatrixLayoutDestroy(layout), 0)
        self.assertEqual(self.library.cublasLtMatrixLayoutDestroy(layout), 7)


@usable
class Settings(CudaTest):
    def setUp(self):
        self.matmul = torch.backends.cuda.matmul
        self.addCleanup(self.restore)

    def restore(self):
        self.matmul.fp32_precision = torch.backends.fp32_precision = "none"
        self.matmul.allow_fp16_accumulation = False
        self.matmul.allow_fp16_reduced_precision_reduction = self.matmul.allow_bf16_reduced_precision_reduction = True
        torch.set_float32_matmul_precision("highest")
        torch.use_deterministic_algorithms(False)

    def is_exact(self):
        """Whether products of float32 keep bits that TF32 has not."""
        x = torch.full((8, 8), 1 + 2.0**-20, device="cuda")
        return (x @ torch.eye(8, device="cuda"))[3, 3].item() == 1 + 2.0**-20

    def test_tf32(self):
        matmul = self.matmul
        self.assertEqual((matmul.allow_tf32, torch.get_float32_matmul_precision()), (False, "highest"))
        self.assertTrue(self.is_exact())
        matmul.allow_tf32 = True
        self.assertEqual((matmul.fp32_precision, torch.get_float32_matmul_precision()), ("tf32", "high"))
        self.assertFalse(self.is_exact())
        torch.set_float32_matmul_precision("highest")
        self.assertEqual((matmul.allow_tf32, matmul.fp32_precision), (False, "ieee"))
        self.assertTrue(self.is_exact())
        for precision in ("high", "medium"):
            torch.set_float32_matmul_precision(precision)
            self.assertTrue(matmul.allow_tf32)
            self.assertFalse(self.is_exact())
        matmul.fp32_precision = "ieee"
        self.assertTrue(self.is_exact())
        torch.backends.fp32_precision = "tf32"
        self.assertTrue(self.is_exact())
        matmul.fp32_precision = "none"
        self.assertEqual(matmul.fp32_precision, "tf32")
        self.assertFalse(self.is_exact())
        for wrong in ("bf16", "exact"):
            with self.assertRaises(RuntimeError):
                matmul.fp32_precision = wrong
        with self.assertRaisesRegex(RuntimeError, "expects a bool, but got str"):
            matmul.allow_tf32 = "yes"

    def test_reductions(self):
        matmul, name = self.matmul, "allow_fp16_reduced_precision_reduction"
        for value, wanted in [(False, (False, True)), ((False, False), (False, False)), ([True], (True, True)), (True, (True, True))]:
            setattr(matmul, name, value)
            self.assertEqual((getattr(matmul, name), getattr(matmul, f"{name}_split_k")), wanted)
            a, b = numbers(5, 80, dtype=torch.float16), numbers(80, 6, dtype=torch.float16)
            self.tolerance = {"torch.float16": 5e-3}
            self.check(torch.mm, a, b)
        with self.assertRaisesRegex(RuntimeError, "allow_splitk=False is not supported"):
            setattr(matmul, name, (True, False))
        for wrong in (3, (), (True, True, True), (1,)):
            with self.assertRaises(TypeError):
                setattr(matmul, name, wrong)
        for name in ("allow_anything", "_private"):
            with self.assertRaisesRegex(AttributeError, "Unknown attribute"):
                setattr(matmul, name, True)
        with self.assertRaisesRegex(AttributeError, "Unknown attribute"):
            matmul.allow_anything

    def test_sums_in_half(self):
        self.matmul.allow_fp16_accumulation = True
        self.assertTrue(self.matmul.allow_fp16_accumulation)
        a, b, c = (numbers(*sizes, dtype=torch.float16) for sizes in [(5, 16), (16, 6), (6,)])
        self.tolerance = {"torch.float16": 2e-2}
        self.check(lambda a, b, c: (a @ b, torch.addmm(c, a, b, beta=0.5, alpha=2), torch.addmm(c, a, b)), a, b, c)

    def test_handle(self):
        handle = torch.cuda.current_blas_handle()
        self.assertGreater(handle, 0)
        self.assertEqual(torch.cuda.current_blas_handle(), handle)
        with torch.cuda.device(1 if torch.cuda.device_count() > 1 else 0):
            self.assertEqual(torch.cuda.current_blas_handle() == handle, torch.cuda.device_count() == 1)

    def run_program(self, text, **environment):
        done = subprocess.run([sys.executable, "-c", text], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
                              capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_deterministic(self):
        x = numbers(4, 4).cuda()
        torch.use_deterministic_algorithms(True)
        if os.environ.get("CUBLAS_WORKSPACE_CONFIG") not in (":4096:8", ":16:8"):
            with self.assertRaisesRegex(RuntimeError, "not deterministic because it uses CuBLAS.*CUBLAS_WORKSPACE_CONFIG=:4096:8"):
                x @ x
            torch.use_deterministic_algorithms(True, warn_only=True)
            with self.assertWarnsRegex(UserWarning, "not deterministic because it uses CuBLAS"):
                x @ x
        program = (f"import {torch.__name__} as torch\ntorch.use_deterministic_algorithms(True)\n"
                   "x = torch.ones(4, 4, device='cuda')\nprint((x @ x).sum().item())")
        self.assertEqual(self.run_program(program, CUBLAS_WORKSPACE_CONFIG=":16:8"), "64.0\n")

    def test_without_the_library(self):
        program = (f"import warnings, {torch.__name__} as torch\nx = torch.ones(4, 4, device='cuda')\n"
                   "print((x @ x).sum().item())\n"
                   "with warnings.catch_warnings(record=True) as seen:\n"
                   "    warnings.simplefilter('always')\n"
                   "    print(torch.backends.cuda.preferred_blas_library('cublaslt').name, [str(one.message) for one in seen])")
        found = self.run_program(program, CORTEN_CUBLASLT="0")
        self.assertEqual(found, "64.0\nCublaslt ['products of matrices are computed without cuBLASLt: cuBLASLt is "
                                "turned off by CORTEN_CUBLASLT=0']\n")
        self.assertEqual(self.run_program(program), "64.0\nCublaslt []\n")


if __name__ == "__main__":
    unittest.main()
