"""Quantised tensors in files, pickles, copies and state dictionaries."""

import copy
import io
import os
import pickle
import unittest
import warnings

import quantised_programs as programs

torch = __import__(os.environ.get("CORTEN_TEST_MODULE", "corten"))
SAVED = ("quantised_kinds_saved_by_torch.pt", "quantised_kinds_saved_by_torch_legacy.pt")


class Files(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore")
        self.kinds = programs.tensors(torch)

    def assert_same(self, found, wanted):
        self.assertEqual(programs.shown(torch, found), programs.shown(torch, wanted))

    def test_files_of_pytorch(self):
        for name in SAVED:
            loaded = torch.load(programs.GOLDENS / name)
            for kind, wanted in self.kinds.items():
                with self.subTest(file=name, kind=kind):
                    self.assert_same(loaded[kind], wanted)
            self.assertEqual(loaded["part"].int_repr().tolist(), [[40, 110, 7]])
            self.assertEqual(loaded["turned"].stride(), (1, 3))
            shared = {loaded[kind].untyped_storage().data_ptr() for kind in ("quint8", "again", "part")}
            self.assertEqual(len(shared), 1)

    def test_round_trips(self):
        for zipped in (True, False):
            file = io.BytesIO()
            torch.save(self.kinds, file, _use_new_zipfile_serialization=zipped)
            file.seek(0)
            for kind, found in torch.load(file).items():
                with self.subTest(zipped=zipped, kind=kind):
                    self.assert_same(found, self.kinds[kind])

    def test_pickles_and_copies(self):
        for kind, tensor in self.kinds.items():
            with self.subTest(kind=kind):
                self.assert_same(pickle.loads(pickle.dumps(tensor)), tensor)
                copied = copy.deepcopy({"a": tensor, "b": tensor.detach()})
                self.assert_same(copied["a"], tensor)
                self.assertNotEqual(copied["a"].data_ptr(), tensor.data_ptr())
                self.assertEqual(copied["a"].data_ptr(), copied["b"].data_ptr())

    def test_storages(self):
        q = self.kinds["qint32"]
        storage = q.storage()
        self.assertEqual((storage.dtype, len(storage)), (torch.qint32, 6))
        self.assertEqual(storage.pickle_storage_type(), "QInt32Storage")
        self.assertEqual(storage.tolist(), [10, -20, 6, 30, 100, -3])
        self.assertEqual(storage[1], -20)
        self.assertEqual(self.kinds["quint4x2"].untyped_storage().nbytes(), 4)

    @unittest.skipIf(torch.__name__ == "torch", "PyTorch sends no quantizer")
    def test_other_processes(self):
        from multiprocessing.reduction import ForkingPickler

        import_module = __import__(f"{torch.__name__}.multiprocessing")
        self.assertTrue(import_module.multiprocessing)
        for kind in ("quint8", "qint8", "qint32"):
            sent = pickle.loads(ForkingPickler.dumps(self.kinds[kind]))
            self.assert_same(sent, self.kinds[kind])

    def test_state_dict(self):
        module = torch.nn.Module()
        module.register_buffer("weight", self.kinds["channels"])
        file = io.BytesIO()
        torch.save(module.state_dict(), file)
        file.seek(0)
        other = torch.nn.Module()
        other.register_buffer("weight", torch.empty_like(self.kinds["channels"]))
        other.load_state_dict(torch.load(file))
        self.assert_same(other.weight, module.weight)

    def test_damaged_parameters(self):
        rebuild = torch._utils._rebuild_qtensor
        storage = self.kinds["quint8"].storage()
        good = (torch.per_tensor_affine, 0.5, 1)
        for arguments in (
            (storage, 0, (2, 4), (4, 1), good),
            (storage, 5, (2,), (1,), good),
            (self.kinds["quint4x2"].storage(), 0, (2, 9), (9, 1), good),
            (storage, 0, (2,), (1,), (torch.per_channel_symmetric, 1)),
            (storage, 0, (2, 3), (3, 1), (torch.per_channel_affine, [0.1], [0], 0)),
            (storage, 0, (2, 3), (3, 1), (torch.per_channel_affine, [0.1, 0.2], [0, 0], 2)),
        ):
            with self.assertRaises((RuntimeError, ValueError)):
                made = rebuild(*arguments, False, {})
                # PyTorch grows the storage.
                raise RuntimeError(made.shape) if torch.__name__ == "torch" else AssertionError(made.shape)


if __name__ == "__main__":
    unittest.main()
