"""Convolutions by the emulated cuDNN, beside the CPU's."""

import ctypes
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cuda_under_test import ON_GPU, CudaTest, torch, usable  # noqa: E402

F = torch.nn.functional
CUDNN = torch.backends.cudnn
ROLES = ["output", "image", "weight"]


class Seen(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in
                ["computed", "heuristics", "timed", "descriptors", "algorithm", "math", "format", "role"]]


def seen():
    """What the emulated library has been asked for."""
    library = ctypes.CDLL(str(Path(os.environ["CORTEN_CUDA_LIB_DIR"]) / "libcudnn.so.9"))
    library.cusim_cudnn_seen.restype = ctypes.POINTER(Seen)
    return Seen.from_buffer_copy(library.cusim_cudnn_seen().contents)


def since(before):
    after = seen()
    return {name: getattr(after, name) - getattr(before, name) for name in ["computed", "heuristics", "timed"]}


def numbers(*sizes, seed=0, dtype=torch.float32):
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed)).to(dtype)


@usable
@unittest.skipIf(ON_GPU, "the emulated library is asked for what it has seen")
class Convolution(CudaTest):
    tolerance = {**CudaTest.tolerance, "torch.float32": 2e-4, "torch.float16": 1e-2, "torch.bfloat16": 6e-2}

    def setUp(self):
        CUDNN.enabled, CUDNN.benchmark, CUDNN.deterministic, CUDNN.allow_tf32 = True, False, False, False
        torch.zeros(1).cuda()
        self.assertEqual((CUDNN.is_available(), CUDNN.version()), (True, 90100))

    CASES = [
        (1, (2, 4, 9), (6, 4, 3), {"stride": 2, "padding": 1}),
        (1, (2, 4, 9), (6, 2, 3), {"groups": 2, "dilation": 2}),
        (2, (2, 3, 7, 8), (8, 3, 3, 2), {"padding": (1, 0)}),
        (2, (1, 4, 9, 6), (4, 2, 2, 3), {"groups": 2, "stride": (2, 1), "dilation": (1, 2)}),
        (2, (2, 6, 6, 5), (6, 1, 3, 3), {"groups": 6, "padding": 1}),
        (3, (1, 2, 4, 5, 3), (6, 2, 2, 3, 2), {"padding": 1, "stride": (1, 2, 1)}),
    ]

    def counted(self, count, check, *arguments, **options):
        before = seen()
        check(*arguments, **options)
        self.assertEqual(since(before)["computed"], count, options)

    def test_convolutions_and_gradients(self):
        for rank, image, kernel, options in self.CASES:
            conv = getattr(F, f"conv{rank}d")
            x, w, b = numbers(*image), numbers(*kernel, seed=1), numbers(kernel[0], seed=2)
            name = f"{image} {kernel} {options}"
            self.counted(3, self.check_gradient, lambda x, w, b: conv(x, w, b, **options), x, w, b, name=name)
            for dtype in (torch.float64, torch.float16, torch.bfloat16):
                self.counted(1, self.check, lambda x, w, b: conv(x, w, b, **options), x.to(dtype), w.to(dtype), b.to(dtype),
                             name=f"{name} {dtype}")

    def test_transposed_convolutions_and_gradients(self):
        for rank, image, kernel, options in [
            (1, (2, 4, 5), (4, 3, 3), {"stride": 2, "output_padding": 1}),
            (2, (1, 4, 5, 4), (4, 2, 3, 2), {"groups": 2, "stride": (2, 1), "padding": 1}),
            (3, (1, 2, 3, 3, 2), (2, 3, 2, 2, 2), {"stride": 2}),
        ]:
            conv = getattr(F, f"conv_transpose{rank}d")
            b = numbers(kernel[1] * options.get("groups", 1), seed=2)
            self.counted(3, self.check_gradient, lambda x, w, b: conv(x, w, b, **options), numbers(*image),
                         numbers(*kernel, seed=1), b, name=f"{image} {kernel} {options}")

    def test_channels_last(self):
        for sizes, kernel in [((2, 3, 6, 5), (4, 3, 3, 3)), ((1, 3, 4, 3, 5), (4, 3, 2, 2, 2))]:
            last = torch.channels_last if len(sizes) == 4 else torch.channels_last_3d
            conv = F.conv2d if len(sizes) == 4 else F.conv3d
            x, w, b = numbers(*sizes).to(memory_format=last), numbers(*kernel, seed=1), numbers(4, seed=2)
            self.counted(1, self.check, lambda x, w, b: conv(x, w, b, padding=1), x, w, b, name=str(sizes))
            self.assertEqual(seen().format, 1)
            # The weights' gradients of volumes are refused, and are the package's own.
            count = 3 if len(sizes) == 4 else 2
            self.counted(count, self.check_gradient, lambda x, w, b: conv(x, w, b, padding=1), x, w, b, name=str(sizes))

    def test_refused(self):
        x = numbers(2, 3, 6, 5, dtype=torch.float64).to(memory_format=torch.channels_last)
        self.counted(0, self.check_gradient, F.conv2d, x, numbers(4, 3, 3, 3, dtype=torch.float64, seed=1))
        for dtype in (torch.complex64, torch.int64):
            self.counted(0, self.check, F.conv2d, (4 * numbers(1, 2, 4, 4)).to(dtype), (4 * numbers(3, 2, 2, 2)).to(dtype))
        self.counted(0, self.check, F.conv2d, numbers(0, 2, 4, 4), numbers(3, 2, 2, 2))

    def test_plans_are_kept(self):
        x, w = numbers(1, 2, 11, 7).cuda(), numbers(3, 2, 2, 2).cuda()
        before = seen()
        for _ in range(4):
            F.conv2d(x, w)
        self.assertEqual(since(before), {"computed": 4, "heuristics": 1, "timed": 0})
        F.conv2d(x, w, padding=1)
        self.assertEqual(since(before), {"computed": 5, "heuristics": 2, "timed": 0})

    def test_settings(self):
        x, w = numbers(1, 2, 6, 9), numbers(3, 2, 2, 2, seed=1)
        self.counted(1, self.check, F.conv2d, x, w)
        self.assertEqual((seen().algorithm, seen().math), (0, 3))
        CUDNN.deterministic = True
        self.counted(1, self.check, F.conv2d, x, w)
        self.assertEqual(seen().algorithm, 1)
        CUDNN.deterministic = False
        torch.use_deterministic_algorithms(True)
        self.counted(1, self.check, F.conv2d, x, w)
        self.assertEqual(seen().algorithm, 1)
        torch.use_deterministic_algorithms(False)
        CUDNN.benchmark = True
        before = seen()
        self.check(F.conv2d, x, w)
        self.check(F.conv2d, x, w)
        self.assertEqual(since(before), {"computed": 2, "heuristics": 1, "timed": 1})
        self.assertEqual(seen().algorithm, 1)
        CUDNN.enabled = False
        self.counted(0, self.check, F.conv2d, x, w)
        with CUDNN.flags(enabled=True, allow_tf32=False):
            self.counted(1, self.check, F.conv2d, x, w)
        self.counted(0, self.check, F.conv2d, x, w)

    def test_precision_of_float32(self):
        x, w = numbers(1, 8, 6, 9), numbers(3, 8, 2, 2, seed=1)
        wanted = F.conv2d(x, w)

        def error():
            return (F.conv2d(x.cuda(), w.cuda()).cpu() - wanted).abs().max().item()

        os.environ["CUSIM_TF32"] = "1"
        self.addCleanup(os.environ.pop, "CUSIM_TF32")
        self.assertLess(error(), 1e-5)
        CUDNN.allow_tf32 = True
        self.assertEqual((error() > 1e-4, seen().math), (True, 0))
        CUDNN.conv.fp32_precision = "ieee"
        self.assertLess(error(), 1e-5)
        CUDNN.conv.fp32_precision = "none"
        self.check(F.conv2d, x.double(), w.double())
        F.conv2d(x.half().cuda(), w.half().cuda())
        self.assertEqual(seen().math, 1)

    def test_streams_and_graphs(self):
        x, w = numbers(2, 3, 8, 8).cuda(), numbers(4, 3, 3, 3, seed=1).cuda()
        wanted = F.conv2d(x, w).cpu()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            found = F.conv2d(x * 2, w)
        torch.cuda.current_stream().wait_stream(stream)
        self.assertTrue(torch.allclose(found.cpu(), 2 * wanted, atol=1e-4))
        CUDNN.benchmark = True
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = F.conv2d(x, w, padding=1)
        x.mul_(3)
        graph.replay()
        self.assertTrue(torch.allclose(found[:, :, 1:-1, 1:-1].cpu(), 3 * wanted, atol=1e-4))

    def test_absent(self):
        program = "import corten as t; x = t.ones(1, 2, 4, 4).cuda(); w = t.ones(3, 2, 2, 2).cuda(); " \
                  "print(t.backends.cudnn.is_available(), t.backends.cudnn.version(), t.conv2d(x, w).sum().item())"
        environment = {**os.environ, "CORTEN_CUDNN": "0"}
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        self.assertEqual(done.stdout.strip(), "False None 216.0", done.stderr)


if __name__ == "__main__":
    unittest.main()
