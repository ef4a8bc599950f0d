"""Arrays, views and capsules keep the memory that they were made over, whatever is done to the tensor
and its storage afterwards."""

import copy
import gc
import os
import tempfile
import unittest
import warnings
from multiprocessing.reduction import ForkingPickler

from module_under_test import SANITIZED, torch

try:
    import numpy as np
except ImportError:
    np = None

CORTEN = torch.__name__ == "corten"
#: Elements of tensors in blocks of two classes and in one that is mapped.
SIZES = (24, 400, 800_000)


def dlpack_later(make):
    """What reads a capsule that is taken when it is first read."""
    def export(x):
        capsule, taken = make(x), []

        def read():
            if not taken:
                taken.append(torch.from_dlpack(capsule))
            return taken[0].tolist()

        return read

    return export


def array(make):
    def export(x):
        seen = make(x)
        return lambda: seen.tolist()

    return export


def bytes_as_floats(make):
    def export(x):
        seen = make(x)
        return lambda: memoryview(seen).cast("B").cast("f").tolist()

    return export


def from_storage(x):
    part = x.untyped_storage()[0:x.nbytes]
    return lambda: torch.empty(0).set_(part).tolist()


def read_only(x):
    wrapper = torch.utils.dlpack.ReadOnlyTensorWrapper(x)
    seen = np.from_dlpack(wrapper)
    return lambda: seen.tolist()


def exporters():
    """Functions of a tensor that return a function that reads what was exported."""
    made = {
        "capsule": dlpack_later(lambda x: x.__dlpack__()),
        "versioned capsule": dlpack_later(lambda x: x.__dlpack__(max_version=(1, 0))),
        "to_dlpack": dlpack_later(torch.utils.dlpack.to_dlpack),
        "from_dlpack": array(torch.from_dlpack),
        "storage slice": from_storage,
    }
    if CORTEN:
        made["bytes"] = bytes_as_floats(lambda x: torch._utils.byte_view(x.untyped_storage()))
    if np is not None:
        made.update({
            "numpy": array(lambda x: x.numpy()),
            "numpy force": array(lambda x: x.numpy(force=True)),
            "numpy of data": array(lambda x: x.data.numpy()),
            "numpy of a view": array(lambda x: x.view(2, -1).t().numpy().T.reshape(-1)),
            "asarray": array(np.asarray),
            "__array__": array(lambda x: x.__array__()),
            "np.array without a copy": array(lambda x: np.array(x, copy=None)
                                             if np.__version__ >= "2" else np.array(x, copy=False)),
            "memoryview": bytes_as_floats(lambda x: memoryview(x.numpy())),
            "np.from_dlpack": array(np.from_dlpack),
            "tensor of an array": array(lambda x: torch.from_numpy(x.numpy())),
            "read only": read_only,
        })
    return made


def out_(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.add(torch.ones(2 * len(x)), 1, out=x)


def data_(x):
    x.data = torch.zeros(3)


def swap_(x):
    if hasattr(torch.utils, "swap_tensors"):
        torch.utils.swap_tensors(x, torch.zeros(3))


def send(x):
    assert torch.multiprocessing  # which teaches the pickler
    ForkingPickler.dumps(x)


def module_(x, change):
    module = torch.nn.Module()
    module.weight = torch.nn.Parameter(x)
    x.set_()
    change(module)


def assigned(module):
    module.load_state_dict({"weight": torch.zeros_like(module.weight)}, assign=True)


def typed(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return x.storage()


def other(x):
    return torch.zeros(2 * len(x)).untyped_storage()


#: Everything that gives a tensor or a storage other memory, or frees it.
OPERATIONS = {
    "data": data_,
    "set_": lambda x: x.set_(),
    "set_ to a tensor": lambda x: x.set_(torch.zeros(3)),
    "set_ to a storage": lambda x: x.set_(other(x)),
    "set_ that grows": lambda x: x.set_(x.untyped_storage(), 0, (5 * len(x),), (1,)),
    "resize_": lambda x: x.resize_(7 * len(x)),
    "resize_as_": lambda x: x.resize_as_(torch.empty(3 * len(x))),
    "out": out_,
    "storage resize_ to nothing": lambda x: x.untyped_storage().resize_(0),
    "storage resize_": lambda x: x.untyped_storage().resize_(9 * x.nbytes),
    "storage resize_ to less": lambda x: x.untyped_storage().resize_(8),
    "typed storage resize_": lambda x: typed(x).resize_(9 * len(x)),
    "share_memory_": lambda x: x.share_memory_(),
    "storage share_memory_": lambda x: x.untyped_storage().share_memory_(),
    "typed storage share_memory_": lambda x: typed(x).share_memory_(),
    "pickle for a process": send,
    "swap_tensors": swap_,
    "module share_memory": lambda x: module_(x, lambda m: m.share_memory()),
    "module to": lambda x: module_(x, lambda m: m.to(torch.float64)),
    "module load": lambda x: module_(x, assigned),
    "module to_empty": lambda x: module_(x, lambda m: m.to_empty(device="cpu")),
    "deepcopy": copy.deepcopy,
    "nothing": lambda x: None,
}


def junk(length):
    """Tensors of the same size, in the memory that was freed last."""
    return [torch.full((length,), -7.0) for _ in range(6)]


class Lent(unittest.TestCase):
    @unittest.skipUnless(CORTEN, "arrays of PyTorch read memory that was freed")
    def test_every_exporter_with_every_operation(self):
        done = 0
        for length in SIZES[:2]:
            expected = [float(n) for n in range(length)]
            for export_name, export in exporters().items():
                for name, operation in OPERATIONS.items():
                    x = torch.arange(length, dtype=torch.float32)
                    read = export(x)
                    try:
                        operation(x)
                    except RuntimeError as error:
                        self.assertIn("not resizable", str(error))
                    for _ in range(2):  # with the tensor, and without
                        kept = junk(length)
                        self.assertEqual(read(), expected, (export_name, name, length))
                        x = None
                    del kept
                    done += 1
        self.assertGreaterEqual(done, 2 * 5 * len(OPERATIONS))

    @unittest.skipUnless(CORTEN, "arrays of PyTorch read memory that was freed")
    def test_large_blocks(self):
        length = SIZES[2]
        for export_name, export in exporters().items():
            for name in ("share_memory_", "storage resize_ to nothing", "data", "resize_"):
                x = torch.ones(length)
                read = export(x)
                try:
                    OPERATIONS[name](x)
                except RuntimeError as error:
                    self.assertIn("not resizable", str(error))
                del x
                kept = junk(length)
                seen = read() if export_name == "numpy" else None
                if seen is not None:
                    self.assertEqual(seen, [1.0] * length, (export_name, name))
                del read, kept
        gc.collect()

    @unittest.skipUnless(np, "numpy is not installed")
    def test_gradients(self):
        x = torch.ones(40, requires_grad=True)
        for replace in (
            lambda: x.backward(torch.ones(40)), lambda: setattr(x, "grad", torch.zeros(40)),
            lambda: setattr(x, "grad", None), lambda: torch.optim.SGD([x], 1.0).zero_grad(),
            lambda: x.grad.set_(torch.zeros(2)) if CORTEN else None,
        ):
            x.grad = torch.full((40,), 3.0)
            seen = x.grad.numpy() if replace is not None else None
            first = seen.copy()
            replace()
            if x.grad is None or x.grad.data_ptr() != seen.ctypes.data:
                kept = junk(40)
                self.assertEqual(seen.tolist(), first.tolist())
                del kept

    @unittest.skipUnless(np, "numpy is not installed")
    def test_arrays_and_tensors_still_share(self):
        x = torch.arange(6.0)
        seen, part = x.numpy(), x.untyped_storage()[4:12]
        taken = torch.from_dlpack(x)
        x[1] = 9
        seen[2] = 8
        self.assertEqual(x.tolist(), [0, 9, 8, 3, 4, 5])
        self.assertEqual(taken.tolist(), x.tolist())
        self.assertEqual(torch.empty(0).set_(part).tolist(), [9, 8])
        taken[5] = 7
        self.assertEqual((x[5].item(), seen[5]), (7, 7))
        with self.assertRaisesRegex(RuntimeError, "not resizable"):
            x.resize_(100)

    @unittest.skipUnless(np, "numpy is not installed")
    def test_sharing_with_processes_leaves_arrays_behind(self):
        x = torch.arange(4.0)
        before = x.numpy()
        x.share_memory_()
        after = x.numpy()
        x[0] = 5
        self.assertEqual((after[0], x.is_shared()), (5, True))
        if CORTEN:
            self.assertEqual(before.tolist(), [0, 1, 2, 3])
        again = x.untyped_storage().data_ptr()
        x.share_memory_()
        self.assertEqual(x.untyped_storage().data_ptr(), again)
        send(x)
        self.assertEqual(x.untyped_storage().data_ptr(), again)

    @unittest.skipIf(SANITIZED, "the address sanitizer keeps freed memory")
    @unittest.skipUnless(np and CORTEN, "an implementation of Corten")
    def test_memory_is_freed_with_the_last_share(self):
        page = torch.ones(2_000_000)
        seen, start = page.numpy(), page.data_ptr()
        view = memoryview(seen)
        page.set_()
        del seen
        self.assertEqual(view[1_999_999], 1.0)
        self.assertNotEqual(torch.ones(2_000_000).data_ptr(), start)
        del view
        gc.collect()
        starts = {tensor.data_ptr() for tensor in [torch.ones(2_000_000) for _ in range(3)]}
        self.assertIn(start, starts)

    @unittest.skipUnless(np and CORTEN, "an implementation of Corten")
    def test_mapped_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "data")
            for shared in (True, False):
                with open(path, "wb") as file:
                    file.write(bytes(range(1, 33)))
                x = torch.from_file(path, shared, 32, dtype=torch.uint8)
                seen = x.numpy()
                x.set_()
                del x
                self.assertEqual(seen.tolist(), list(range(1, 33)))
                seen[0] = 99
                with open(path, "rb") as file:
                    self.assertEqual(file.read(1), b"\x63" if shared else b"\x01")

    @unittest.skipUnless(np, "numpy is not installed")
    def test_empty_tensors(self):
        for shape in ((0,), (3, 0), (0, 2)):
            x = torch.empty(shape)
            seen, taken = x.numpy(), torch.from_dlpack(x)
            x.set_(torch.ones(3))
            self.assertEqual((seen.shape, tuple(taken.shape)), (shape, shape))
        self.assertEqual(torch.UntypedStorage(0)[0:0].nbytes(), 0)


if __name__ == "__main__":
    unittest.main()
