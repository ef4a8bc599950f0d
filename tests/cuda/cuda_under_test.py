"""The package with a CUDA device: the emulator's, or with CORTEN_TEST_GPU=1 the machine's."""

import os
import tempfile
import unittest
from pathlib import Path

from emulator import AVAILABLE, MISSING, build

ON_GPU = os.environ.get("CORTEN_TEST_GPU") == "1"

if AVAILABLE and not ON_GPU:
    libraries = build()
    os.environ["CORTEN_CUDA_LIB_DIR"] = str(libraries)
    os.environ.setdefault("CORTEN_KERNEL_CACHE", str(libraries / "loaded"))
    os.environ.setdefault("CUSIM_DEVICES", "2")
    # A host access to device memory ends the process.
    os.environ.setdefault("CUSIM_STRICT", "1")

import corten as torch  # noqa: E402

# Results are compared with those of the CPU: convolutions must not round to TensorFloat-32, as they do by default.
torch.backends.cudnn.allow_tf32 = False

usable = unittest.skipUnless(AVAILABLE or ON_GPU, MISSING)


def to_cuda(value):
    """Tensors in a value on the device."""
    if isinstance(value, torch.Tensor):
        return value.detach().to("cuda").requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(to_cuda(item) for item in value)
    return value


def flat(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


class CudaTest(unittest.TestCase):
    """Compares what the device computes with what the CPU does."""

    tolerance = {"torch.float16": 2e-3, "torch.bfloat16": 2e-2, "torch.float32": 2e-5, "torch.complex64": 3e-5}

    def same(self, found, wanted, name=""):
        self.assertEqual(found.device.type, "cuda", name)
        self.assertEqual((found.dtype, found.shape, found.stride()), (wanted.dtype, wanted.shape, wanted.stride()), name)
        found, wanted = found.detach().cpu(), wanted.detach()
        tolerance = self.tolerance.get(str(wanted.dtype), 1e-11)
        if not (wanted.is_floating_point() or wanted.is_complex()):
            self.assertTrue(torch.equal(found, wanted), f"{name}: {found} {wanted}")
            return
        wide = torch.complex128 if wanted.is_complex() else torch.float64
        close = torch.allclose(found.to(wide), wanted.to(wide), tolerance, tolerance, equal_nan=True)
        self.assertTrue(close, f"{name}: {found} {wanted}")

    def check(self, function, *arguments, name=""):
        """`function` of the arguments on the CPU and on the device."""
        wanted, found = flat(function(*arguments)), flat(function(*to_cuda(list(arguments))))
        self.assertEqual(len(found), len(wanted))
        for one, other in zip(found, wanted):
            self.same(one, other, name)

    def check_gradient(self, function, *arguments, name=""):
        """As `check`, with the gradients of all floating-point arguments."""
        def gradients(*arguments):
            leaves = [a for a in arguments if isinstance(a, torch.Tensor) and a.requires_grad]
            result = function(*arguments)
            total = sum((part * part).sum() for part in flat(result) if part.is_floating_point())
            return flat(result) + list(torch.autograd.grad(total, leaves))

        self.check(gradients, *[a.requires_grad_() if isinstance(a, torch.Tensor) and a.is_floating_point() else a
                                for a in arguments], name=name)
