"""Devices that are absent: every way to name one says what is missing."""

import io
import unittest
import zipfile

from module_under_test import torch

nn = torch.nn
#: What PyTorch says, built with or without support for a device; its classes are AssertionError and
#: RuntimeError, of which NotImplementedError is one.
WORDS = (
    r"not compiled with (CUDA|XPU) enabled|Found no NVIDIA driver|not linked with support for|"
    r"Could not run 'aten::|invalid argument to exchangeDevice|CUDA driver version is insufficient|"
    r"Storage device not recognized|has no attribute|compiled without XPU"
)


def ways(device):
    x, module = torch.ones(2), nn.Linear(2, 2)
    return {
        "to": lambda: x.to(device), "to by name": lambda: x.to(device=device, dtype=torch.float64),
        "type of device": lambda: x.to(torch.device(device)),
        "ones": lambda: torch.ones(2, device=device), "empty": lambda: torch.empty(2, device=device),
        "tensor": lambda: torch.tensor([1.0], device=device),
        "as_tensor": lambda: torch.as_tensor([1.0], device=device),
        "asarray": lambda: torch.asarray([1.0], device=device),
        "arange": lambda: torch.arange(3, device=device), "eye": lambda: torch.eye(3, device=device),
        "randn": lambda: torch.randn(3, device=device), "full": lambda: torch.full((2,), 1.0, device=device),
        "linspace": lambda: torch.linspace(0, 1, 5, device=device),
        "randperm": lambda: torch.randperm(3, device=device),
        "zeros_like": lambda: torch.zeros_like(x, device=device),
        "new_ones": lambda: x.new_ones(2, device=device),
        "empty_strided": lambda: torch.empty_strided((2,), (1,), device=device),
        "module": lambda: module.to(device), "new module": lambda: nn.Linear(2, 2, device=device),
        "parameter": lambda: nn.Parameter(x).to(device),
        "storage": lambda: torch.UntypedStorage(4, device=device),
        "storage to": lambda: x.untyped_storage().to(device=torch.device(device)),
        "context": lambda: in_context(device),
    }


def in_context(device):
    with torch.device(device):
        return torch.ones(2)


def saved_on(device):
    """A file whose tensors say that they were on a device."""
    written, changed = io.BytesIO(), io.BytesIO()
    torch.save({"a": torch.arange(4.0), "b": {"c": torch.ones(2, 2)}}, written)
    with zipfile.ZipFile(written) as source, zipfile.ZipFile(changed, "w", zipfile.ZIP_STORED) as target:
        for name in source.namelist():
            content = source.read(name)
            if name.endswith("data.pkl"):
                marked = device.encode()
                old, new = b"X\x03\x00\x00\x00cpu", b"X" + len(marked).to_bytes(4, "little") + marked
                assert old in content
                content = content.replace(old, new)
            target.writestr(name, content)
    return changed.getvalue()


@unittest.skipIf(torch.cuda.is_available(), "it is there")
class Absent(unittest.TestCase):
    def test_ways_to_name_one(self):
        for device in ("cuda", "cuda:0", "cuda:7", "xpu", "mps"):
            for name, way in ways(device).items():
                with self.subTest(name, device=device):
                    with self.assertRaisesRegex((AssertionError, RuntimeError, AttributeError), WORDS) as caught:
                        way()
                    self.assertNotIn("Allocator", str(caught.exception))

    def test_methods(self):
        x, module = torch.ones(2), nn.Linear(2, 2)
        for way in (x.cuda, lambda: x.cuda(0), lambda: x.cuda("cuda:0"), module.cuda, x.double().cuda, module.xpu,
                    x.untyped_storage().cuda, lambda: x.type("torch.cuda.FloatTensor"), torch.cuda.init,
                    torch.cuda.current_device, torch.cuda.synchronize, lambda: torch.cuda.set_device(0),
                    torch.cuda.get_device_name, lambda: torch.cuda.FloatTensor(2)):
            with self.assertRaisesRegex((AssertionError, RuntimeError), WORDS):
                way()
        self.assertEqual((torch.cuda.device_count(), torch.cuda.is_available()), (0, False))

    @unittest.skipIf(torch.__name__ == "torch", "depends on how it was built")
    def test_classes(self):
        built = torch.backends.cuda.is_built()
        words = "Found no NVIDIA driver on your system" if built else "Torch not compiled with CUDA enabled"
        for kind in (AssertionError, RuntimeError, NotImplementedError):
            with self.assertRaisesRegex(kind, "not linked with support for mps devices"):
                torch.ones(2, device="mps")
            if built and kind is not RuntimeError:
                continue
            with self.assertRaisesRegex(kind, words):
                torch.ones(2).cuda()
            with self.assertRaisesRegex(kind, words):
                torch.cuda.init()

    def test_forked_generators(self):
        with self.assertRaises((AssertionError, RuntimeError)), torch.random.fork_rng([0]):
            pass
        with torch.random.fork_rng([]):
            pass

    def test_files(self):
        for device, name in (("cuda:0", "cuda"), ("cuda", "cuda"), ("xpu:0", "xpu"), ("mps", "mps")):
            file = saved_on(device)
            words = "Attempting to deserialize object on a|Storage device not recognized|not compiled|without XPU"
            with self.assertRaisesRegex((RuntimeError, AssertionError), words):
                torch.load(io.BytesIO(file))
            for where in ("cpu", torch.device("cpu"), {device: "cpu"}, lambda storage, _: storage):
                loaded = torch.load(io.BytesIO(file), map_location=where)
                self.assertEqual(loaded["a"].tolist(), [0, 1, 2, 3])
                self.assertEqual(loaded["b"]["c"].device.type, "cpu")
        with self.assertRaisesRegex(RuntimeError, "torch.cuda.is_available\\(\\) is False"):
            torch.load(io.BytesIO(saved_on("cpu")), map_location="cuda")


if __name__ == "__main__":
    unittest.main()
