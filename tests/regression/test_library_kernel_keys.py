"""Kernels that programs register: each is called for the tensors that its key names, or refused."""

import importlib
import unittest

from module_under_test import torch

library = importlib.import_module(torch.__name__ + ".library")
CORTEN = torch.__name__ == "corten"
x = torch.ones(2, 2)
REACHED = {
    "CPU": lambda: x, "Meta": lambda: torch.ones(2, device="meta"), "SparseCPU": lambda: x.to_sparse(),
    "SparseCsrCPU": lambda: x.to_sparse_csr(), "AutogradCPU": lambda: x.clone().requires_grad_(),
    "Autograd": lambda: x.clone().requires_grad_(),
    "Conjugate": lambda: torch.ones(2, dtype=torch.complex64).conj(),
    "Negative": lambda: torch.ones(2, dtype=torch.complex64).conj().imag,
}
DEVICES = "CUDA XLA MPS XPU HPU Lazy MTIA PrivateUse1 AutogradCUDA AutocastCUDA SparseCUDA".split()
# No tensor and no mode has them.
REFUSED = (
    "Dense Sparse SparseCsr Quantized QuantizedCPU QuantizedCUDA NestedTensor NestedTensorCPU "
    "AutogradNestedTensor FuncTorchGradWrapper PythonTLSSnapshot "
    "PythonDispatcher FuncTorchDynamicLayerBackMode FuncTorchBatchedDecomposition "
    "CompositeImplicitAutogradNestedTensor CompositeExplicitAutogradNonFunctional "
    "AutogradFunctionality Batched FPGA Vulkan Metal"
).split()


class Keys(unittest.TestCase):
    def setUp(self):
        self.library = library.Library(f"keys_{self._testMethodName}", "DEF")
        self.library.define("twice(Tensor x) -> Tensor")
        self.operator = getattr(torch.ops, self.library.ns).twice

    def tearDown(self):
        self.library._destroy()

    def test_reached(self):
        for key, make in REACHED.items():
            with self.subTest(key=key):
                with library._scoped_library(self.library.ns, "IMPL") if not CORTEN else _scoped(
                    self.library.ns
                ) as scoped:
                    called = []
                    scoped.impl("twice", lambda y: called.append(key) or torch.zeros(1), key)
                    self.assertEqual(self.operator(make()).tolist(), [0.0])
                    self.assertEqual(called, [key])

    def test_sparse_kernels(self):
        """They are given the sparse tensor, and what they call on it is what others would get."""
        self.library.impl("twice", lambda s: (s * 2).to_dense(), "SparseCPU")
        self.library.impl("twice", lambda s: s.to_dense() * 3, "SparseCsrCPU")
        self.assertEqual(self.operator(x.to_sparse()).tolist(), [[2.0, 2.0]] * 2)
        self.assertEqual(self.operator(x.to_sparse_csr()).tolist(), [[3.0, 3.0]] * 2)

    def test_composite_kernels(self):
        self.library.impl("twice", lambda s: (s + s).to_dense(), "CompositeImplicitAutograd")
        leaf = x.to_sparse().requires_grad_()
        self.operator(leaf).sum().backward()
        self.assertEqual(leaf.grad.to_dense().tolist(), [[2.0, 2.0]] * 2)

    def test_missing(self):
        self.library.impl("twice", lambda s: s, "CPU")
        for made, backend in ((x.to_sparse(), "SparseCPU"), (x.to_sparse_csr(), "SparseCsrCPU")):
            with self.assertRaisesRegex(
                NotImplementedError, f"Could not run '{self.library.ns}::twice' .*'{backend}' backend"
            ):
                self.operator(made)

    @unittest.skipUnless(CORTEN, "PyTorch has kernels of its own there")
    def test_operators_of_aten(self):
        sparse = x.to_sparse()
        with _scoped("aten") as scoped:
            scoped.impl("digamma", lambda s: torch.zeros(1), "SparseCPU")
            self.assertEqual(torch.digamma(sparse).tolist(), [0.0])
        with self.assertRaises(NotImplementedError):
            torch.digamma(sparse)

    def test_devices(self):
        """Of devices that are not there, too: programs register kernels for all of them."""
        for key in DEVICES:
            self.library.impl("twice", lambda y: y, key)

    @unittest.skipUnless(CORTEN, "PyTorch takes them")
    def test_refused(self):
        for key in REFUSED:
            with self.subTest(key=key), self.assertRaisesRegex(
                NotImplementedError, f"a kernel at the dispatch key {key} would never be called"
            ):
                self.library.impl("twice", lambda y: y, key)
        with self.assertRaisesRegex(RuntimeError, "could not parse dispatch key"):
            self.library.impl("twice", lambda y: y, "NoSuchKey")


class _scoped:
    def __init__(self, namespace):
        self.made = library.Library(namespace, "IMPL")

    def __enter__(self):
        return self.made

    def __exit__(self, *exception):
        self.made._destroy()


if __name__ == "__main__":
    unittest.main()
