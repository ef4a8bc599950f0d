"""Utility modules: devices, futures, TorchScript, settings of files."""

import importlib
import os
import tempfile
import unittest
import warnings

from module_under_test import torch

T = torch.tensor


class Devices(unittest.TestCase):
    def test_what_is_not_there(self):
        self.assertFalse(torch.cuda.is_available() or torch.mps.is_available())
        self.assertEqual((torch.cuda.device_count(), torch.cuda.memory_allocated()), (0, 0))
        self.assertEqual(torch.cuda.get_rng_state_all(), [])
        with self.assertRaises((RuntimeError, AssertionError)):
            torch.cuda.synchronize()
        with self.assertRaises((RuntimeError, AssertionError)):
            torch.cuda.FloatTensor(3)
        with torch.cuda.device(-1), torch.cuda.stream(None):
            pass
        self.assertTrue(torch.cuda.Event().query())
        self.assertEqual(torch.cpu.current_device(), "cpu")
        with torch.cpu.stream(torch.cpu.Stream()) as _:
            torch.cpu.synchronize()


class Futures(unittest.TestCase):
    def test_chain(self):
        future = torch.futures.Future()
        later = future.then(lambda f: f.wait() + 1)
        failed = future.then(lambda f: 1 / 0)
        future.set_result(1)
        self.assertEqual(torch.futures.wait_all([future, later]), [1, 2])
        with self.assertRaises(Exception):
            failed.wait()
        with self.assertRaises(RuntimeError):
            future.set_result(2)


class Script(unittest.TestCase):
    def test_decorated_functions_run(self):
        @torch.jit.ignore
        def helper(x):
            return x + 1

        @torch.jit.unused
        def unused(x):
            return x

        self.assertEqual(helper(T(1)).item() + unused(T(1)).item(), 3)
        model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()).eval()
        x = torch.ones(1, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for compiled in (torch.jit.script(model), torch.jit.trace(model, x)):
                self.assertTrue(torch.equal(compiled(x), model(x)))
            self.assertTrue(torch.equal(torch.jit.freeze(torch.jit.script(model))(x), model(x)))
        self.assertFalse(torch.jit.is_scripting() or torch.jit.is_tracing())
        self.assertEqual(torch.jit.annotate(int, 3), 3)


class Hub(unittest.TestCase):
    def test_local_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "hubconf.py"), "w") as file:
                file.write("dependencies = ['os']\ndef net(size=2):\n    return size * 2\n")
            self.assertEqual(torch.hub.load(folder, "net", source="local", size=3), 6)
            with self.assertRaisesRegex(RuntimeError, "Cannot find callable x in hubconf"):
                torch.hub.load(folder, "x", source="local")


class Files(unittest.TestCase):
    def test_settings(self):
        settings = torch.serialization
        self.assertIsNone(settings.get_default_load_endianness())
        settings.set_default_load_endianness(settings.LoadEndianness.LITTLE)
        self.assertEqual(settings.get_default_load_endianness(), settings.LoadEndianness.LITTLE)
        settings.set_default_load_endianness(None)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.pt")
            torch.save({"a": T([1.0]), "f": os.path.join}, path)
            unsafe = settings.get_unsafe_globals_in_checkpoint(path)
            self.assertEqual(unsafe, ["posixpath.join"])
            with settings.skip_data():
                torch.save({"a": T([1.0, 2.0])}, path)
            self.assertEqual(torch.load(path)["a"].shape, (2,))


class Benchmarks(unittest.TestCase):
    def test_timer(self):
        import importlib

        benchmark = importlib.import_module(f"{torch.__name__}.utils.benchmark")
        timer = benchmark.Timer("x + x", globals={"x": torch.ones(3)}, label="add")
        once = timer.timeit(10)
        self.assertGreater(once.mean, 0)
        several = timer.blocked_autorange(min_run_time=0.01)
        self.assertGreater(several.median, 0)
        self.assertIn("add", repr(several))
        self.assertEqual(several.num_threads, 1)


class Tensors(unittest.TestCase):
    def test_functions_of_elements(self):
        x = T([1.0, 2.0])
        self.assertEqual(x.apply_(lambda v: v * 2).tolist(), [2, 4])
        self.assertEqual(x.map_(torch.ones(2), lambda a, b: a + b).tolist(), [3, 5])
        self.assertEqual(T([1, 2]).apply_(lambda v: v + 0.5).tolist(), [1, 2])
        with self.assertRaises(TypeError):
            x.apply_(lambda v: "a")
        self.assertEqual(T([1.0]).polygamma(1).item(), torch.polygamma(1, T([1.0])).item())

    def test_recurrent_functions(self):
        torch.manual_seed(0)
        lstm = torch.nn.LSTM(3, 4, 2, bidirectional=True)
        x, states = torch.randn(5, 2, 3), (torch.zeros(4, 2, 4), torch.zeros(4, 2, 4))
        results = torch.lstm(x, states, lstm._flat_weights, True, 2, 0.0, False, True, False)
        output, (h, c) = lstm(x)
        for a, b in zip(results, (output, h, c)):
            self.assertTrue(torch.allclose(a, b))

    def test_symbols_are_numbers(self):
        self.assertEqual((torch.sym_max(1, 2.0), torch.sym_int(-1.7)), (2.0, -1))
        self.assertFalse(isinstance(3, torch.SymInt))


class Helpers(unittest.TestCase):
    """Names with an underscore or deep in a module that programs import all the same."""

    def module(self, name):
        return importlib.import_module(f"{torch.__name__}.{name}")

    def test_flat_tensors(self):
        utils, tensors = self.module("_utils"), [torch.ones(2, 3), torch.zeros(4)]
        flat = utils._flatten_dense_tensors(tensors)
        parts = utils._unflatten_dense_tensors(flat, tensors)
        self.assertEqual([tuple(part.shape) for part in parts], [(2, 3), (4,)])
        groups = utils._take_tensors([*tensors, T([1]), torch.ones(5)], 30)
        self.assertEqual([[len(x) for x in group] for group in groups], [[2], [4], [5], [1]])

    def test_prefixes(self):
        consume = self.module("nn.modules.utils").consume_prefix_in_state_dict_if_present
        state = torch.nn.DataParallel(torch.nn.Sequential(torch.nn.Linear(1, 1))).state_dict()
        consume(state, "module.")
        self.assertEqual(list(state), ["0.weight", "0.bias"])
        self.assertEqual(list(state._metadata), ["", "0"])

    def test_imports(self):
        for name, member in (
            ("nn.modules.transformer", "_get_clones"), ("profiler.profiler", "profile"),
            ("utils.data.dataloader", "_SingleProcessDataLoaderIter"), ("onnx", "export"),
            ("backends.cuda", "sdp_kernel"), ("_inductor.config", "triton"), ("_dynamo", "config"),
        ):
            self.assertTrue(hasattr(self.module(name), member), name)
        self.assertNotEqual(torch.distributed.ReduceOp.SUM, torch.distributed.ReduceOp.MAX)
        self.assertIsNone(torch.distributed.group.WORLD)
        with torch.backends.cuda.sdp_kernel(enable_flash=False):
            self.assertFalse(torch.backends.cuda.flash_sdp_enabled())
        self.assertTrue(torch.backends.cuda.flash_sdp_enabled())

    def test_default_device(self):
        with torch.device("meta"):
            self.assertEqual(torch.fft.fftfreq(4).device.type, "meta")
            self.assertEqual(torch.vander(torch.ones(2)).device.type, "meta")


if __name__ == "__main__":
    unittest.main()
