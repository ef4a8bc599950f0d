"""`torch.cuda` on the emulated driver: devices, streams, events, generators, tensors that come and go."""

import contextlib
import copy
import gc
import importlib
import io
import multiprocessing
import os
import pickle
import subprocess
import sys
import unittest
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from emulator import AVAILABLE, MISSING, build  # noqa: E402

if AVAILABLE:
    os.environ["CORTEN_CUDA_LIB_DIR"] = str(build())
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    os.environ["CUSIM_DEVICES"] = "2"

import corten as torch  # noqa: E402

cuda = torch.cuda
nn = torch.nn


def in_fork():
    """Whether a forked process is refused, in PyTorch's words."""
    try:
        cuda.init()
    except RuntimeError as error:
        return str(error), cuda.is_initialized()
    return "no error", cuda.is_initialized()


def put(queue):
    queue.put(in_fork())


class OnTheEmulator(unittest.TestCase):
    def setUp(self):
        if not AVAILABLE:
            self.skipTest(MISSING)
        cuda.set_device(0)


class Devices(OnTheEmulator):
    def test_number_and_state(self):
        self.assertTrue(cuda.is_available())
        self.assertEqual(cuda.device_count(), 2)
        self.assertTrue(cuda.is_initialized())
        self.assertEqual(len(cuda.default_generators), 2)
        self.assertTrue(torch.backends.cuda.is_built())

    def test_properties(self):
        found = cuda.get_device_properties("cuda:1")
        self.assertEqual((found.name, found.major, found.minor), ("Emulated NVIDIA GPU", 9, 0))
        self.assertEqual((found.warp_size, found.multi_processor_count, found.pci_bus_id), (32, 132, 2))
        self.assertEqual(cuda.get_device_name(), found.name)
        self.assertEqual(cuda.get_device_capability(1), (9, 0))
        self.assertRegex(repr(found), (
            r"^_CudaDeviceProperties\(name='Emulated NVIDIA GPU', major=9, minor=0, total_memory=4096MB, "
            r"multi_processor_count=132, uuid=[0-9a-f-]{36}, pci_bus_id=2, pci_device_id=0, pci_domain_id=0, "
            r"L2_cache_size=50MB\)$"))
        self.assertNotEqual(str(found.uuid), str(cuda.get_device_properties(0).uuid))
        with self.assertRaises(AttributeError):
            found.name = "another"
        for wrong in (2, -1, "cuda:7"):
            with self.assertRaisesRegex(AssertionError, "Invalid device id"):
                cuda.get_device_properties(wrong)
        with self.assertRaisesRegex(ValueError, "Expected a cuda device, but got: cpu"):
            cuda.get_device_name("cpu")
        self.assertTrue(cuda.can_device_access_peer(0, 1))

    def test_current_device(self):
        self.assertEqual(cuda.current_device(), 0)
        with cuda.device(1):
            self.assertEqual(cuda.current_device(), 1)
            self.assertEqual(torch.empty(1, device="cuda").device, torch.device("cuda:1"))
            with cuda.device("cuda:0"):
                self.assertEqual(cuda.current_device(), 0)
            self.assertEqual(cuda.current_device(), 1)
            with cuda.device(None), cuda.device(-1), cuda.device("cuda"):
                self.assertEqual(cuda.current_device(), 1)
        self.assertEqual(cuda.current_device(), 0)
        with cuda.device_of(torch.ones(1, device="cuda:1")):
            self.assertEqual(cuda.current_device(), 1)
        with cuda.device_of(torch.ones(1)):
            self.assertEqual(cuda.current_device(), 0)
        cuda.set_device(-1)
        self.assertEqual(cuda.current_device(), 0)
        for wrong in (lambda: cuda.set_device(2), lambda: torch.ones(1, device="cuda:2"),
                      lambda: cuda.device(9).__enter__()):
            with self.assertRaisesRegex(RuntimeError, "CUDA error: invalid device ordinal"):
                wrong()

    def test_forked_process(self):
        cuda.init()
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            process = context.Process(target=put, args=(queue,))
            process.start()
        text, initialized = queue.get(timeout=60)
        process.join()
        self.assertRegex(text, "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing")
        self.assertFalse(initialized)

    def test_visible_devices(self):
        for value, count in (("1", 1), ("", 0), ("0,1", 2), ("9", 0)):
            code = "import corten as torch; print(torch.cuda.device_count(), torch.cuda.is_available())"
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                                  env={**os.environ, "CUDA_VISIBLE_DEVICES": value})
            self.assertEqual(done.stdout.split(), [str(count), str(count > 0)])

    def test_results_of_the_runtime_library(self):
        cuda.check_error(0)
        with self.assertRaisesRegex(cuda.CudaError, r"invalid argument \(1\)"):
            cuda.check_error(1)
        self.assertEqual(cuda.cudart().cudaMemGetInfo(0)[1], 4 << 30)


class Memory(OnTheEmulator):
    def setUp(self):
        super().setUp()
        gc.collect()
        cuda.empty_cache()

    def test_sizes(self):
        free, total = cuda.mem_get_info(1)
        self.assertLessEqual(free, total)
        self.assertEqual(total, 4 << 30)
        before = cuda.memory_allocated()
        cuda.reset_peak_memory_stats()
        x = torch.empty(1000, device="cuda")
        self.assertEqual(cuda.memory_allocated() - before, 4096)
        y = torch.empty(3 << 20, dtype=torch.uint8, device="cuda")
        self.assertEqual(cuda.memory_allocated() - before, 4096 + (3 << 20))
        self.assertGreaterEqual(cuda.memory_reserved(), cuda.memory_allocated())
        del y
        self.assertEqual(cuda.memory_allocated() - before, 4096)
        self.assertEqual(cuda.max_memory_allocated() - before, 4096 + (3 << 20))
        held = cuda.memory_reserved()
        cuda.empty_cache()
        self.assertEqual(held - cuda.memory_reserved(), 20 << 20)
        self.assertGreaterEqual(cuda.max_memory_reserved(), held)
        cuda.reset_peak_memory_stats(0)
        self.assertEqual(cuda.max_memory_allocated(), cuda.memory_allocated())
        del x
        self.assertEqual(torch.accelerator.memory_allocated(), cuda.memory_allocated())

    def test_statistics(self):
        x = torch.empty(10, device="cuda")
        flat, nested = cuda.memory_stats(), cuda.memory_stats_as_nested_dict()
        for name in ("allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes",
                     "active_bytes", "inactive_split_bytes", "requested_bytes"):
            for pool in ("all", "small_pool", "large_pool"):
                for kind in ("current", "peak", "allocated", "freed"):
                    self.assertIn(f"{name}.{pool}.{kind}", flat)
        for name in ("num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc", "num_device_free",
                     "max_split_size"):
            self.assertIn(name, flat)
        self.assertEqual(nested["allocated_bytes"]["all"]["current"], flat["allocated_bytes.all.current"])
        self.assertEqual(list(flat), sorted(flat))
        cuda.reset_accumulated_memory_stats()
        self.assertEqual(cuda.memory_stats()["allocation.all.allocated"], 0)
        summary = cuda.memory_summary()
        self.assertIn("PyTorch CUDA memory summary, device ID 0", summary)
        self.assertIn("from large pool", summary)
        self.assertNotIn("from large pool", cuda.memory_summary(abbreviated=True))
        self.assertEqual(len({len(line) for line in summary.splitlines()}), 1)
        del x

    def test_snapshot(self):
        x = torch.empty(100, device="cuda")
        found = [one for one in cuda.memory_snapshot()
                 if one["address"] <= x.data_ptr() < one["address"] + one["total_size"]]
        self.assertEqual(len(found), 1)
        self.assertEqual((found[0]["device"], found[0]["segment_type"], found[0]["stream"]), (0, "small", 0))
        self.assertEqual(found[0]["segment_pool_id"], (0, 0))
        block, = (one for one in found[0]["blocks"] if one["address"] == x.data_ptr())
        self.assertEqual((block["size"], block["requested_size"], block["state"]), (512, 400, "active_allocated"))
        self.assertEqual(sum(one["size"] for one in found[0]["blocks"]), found[0]["total_size"])
        self.assertEqual(set(cuda.memory._snapshot()), {
            "segments", "device_traces", "allocator_settings", "external_annotations"})

    def test_too_little(self):
        with self.assertRaisesRegex(torch.OutOfMemoryError, "CUDA out of memory. Tried to allocate 16.00 GiB"):
            torch.empty(1 << 34, device="cuda", dtype=torch.uint8)
        cuda.set_per_process_memory_fraction(0.25, 1)
        try:
            self.assertEqual(cuda.get_per_process_memory_fraction(1), 0.25)
            with self.assertRaises(torch.OutOfMemoryError):
                torch.empty(2 << 30, device="cuda:1", dtype=torch.uint8)
        finally:
            cuda.set_per_process_memory_fraction(1.0, 1)
        for wrong, kind in ((2.0, ValueError), (1, TypeError)):
            with self.assertRaises(kind):
                cuda.set_per_process_memory_fraction(wrong)
        with self.assertRaisesRegex(RuntimeError, "invalid argument to reset_peak_memory_stats"):
            cuda.reset_peak_memory_stats(7)

    def test_single_blocks(self):
        before = cuda.memory_allocated(1)
        address = cuda.caching_allocator_alloc(5000, 1)
        self.assertEqual(cuda.memory_allocated(1) - before, 5120)
        cuda.caching_allocator_delete(address)
        self.assertEqual(cuda.memory_allocated(1), before)
        with self.assertRaisesRegex(RuntimeError, "invalid device pointer: 0x7"):
            cuda.caching_allocator_delete(7)
        with self.assertRaises(TypeError):
            cuda.caching_allocator_alloc(10, stream="one")

    def test_streams_that_use_a_tensor(self):
        other = cuda.Stream()
        x = torch.ones(1000, device="cuda")
        address = x.data_ptr()
        other.wait_stream(cuda.current_stream())
        with cuda.stream(other):
            y = x + 1
        x.record_stream(other)
        del x
        self.assertNotEqual(torch.empty(1000, device="cuda").data_ptr() if not other.query() else 0, address)
        other.synchronize()
        self.assertEqual(y.sum().item(), 2000)
        with self.assertRaises(RuntimeError):
            torch.ones(1).record_stream(other)

    def test_pools(self):
        pool = cuda.MemPool()
        with cuda.use_mem_pool(pool):
            x = torch.empty(100, device="cuda")
            self.assertEqual(pool.use_count(), 2)
        y = torch.empty(100, device="cuda")
        self.assertEqual(pool.use_count(), 1)
        segments = pool.snapshot()
        self.assertEqual(len(segments), 1)
        inside = range(segments[0]["address"], segments[0]["address"] + segments[0]["total_size"])
        self.assertIn(x.data_ptr(), inside)
        self.assertNotIn(y.data_ptr(), inside)
        self.assertEqual(segments[0]["segment_pool_id"], pool.id)


class Pinned(OnTheEmulator):
    def test_copies_in_pinned_memory(self):
        x = torch.arange(12.0).reshape(3, 4).t()
        self.assertFalse(x.is_pinned())
        made = x.pin_memory()
        self.assertTrue(made.is_pinned() and made.untyped_storage().is_pinned())
        self.assertEqual((made.tolist(), made.stride()), (x.tolist(), x.stride()))
        self.assertEqual(made.pin_memory().data_ptr(), made.data_ptr())
        self.assertTrue(made[1:].is_pinned())
        self.assertEqual(torch.ones(0).pin_memory().shape, (0,))
        self.assertEqual(torch.ones(1).expand(3).pin_memory().tolist(), [1, 1, 1])
        self.assertTrue(x.untyped_storage().pin_memory().is_pinned())
        with self.assertRaisesRegex(RuntimeError, "only dense CPU tensors can be pinned"):
            x.cuda().pin_memory()

    def test_factories(self):
        for made in (torch.empty(3, pin_memory=True), torch.ones(2, 2, pin_memory=True),
                     torch.zeros_like(torch.ones(3), pin_memory=True), torch.full((2,), 5, pin_memory=True),
                     torch.empty_strided((2, 2), (1, 2), pin_memory=True)):
            self.assertTrue(made.is_pinned())
        self.assertEqual(torch.ones(2, 2, pin_memory=True).tolist(), [[1, 1], [1, 1]])
        with self.assertRaisesRegex(RuntimeError, "Only dense CPU tensors can be pinned"):
            torch.empty(2, device="cuda", pin_memory=True)

    def test_transfers(self):
        x = torch.arange(5000.0).pin_memory()
        there = x.to("cuda", non_blocking=True)
        back = torch.empty(5000, pin_memory=True)
        back.copy_(there * 2, non_blocking=True)
        cuda.synchronize()
        self.assertTrue(torch.equal(back, x * 2))

    def test_loader(self):
        data = torch.utils.data.TensorDataset(torch.arange(8.0), torch.arange(8))
        for first, second in torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True):
            self.assertTrue(first.is_pinned() and second.is_pinned())
            self.assertEqual(first.cuda(non_blocking=True).tolist(), second.tolist())

    def test_statistics(self):
        x = torch.empty(3000, dtype=torch.uint8, pin_memory=True)
        stats = cuda.host_memory_stats()
        self.assertGreaterEqual(stats["active_bytes.current"], 4096)
        del x
        self.assertLess(cuda.host_memory_stats()["active_bytes.current"], stats["active_bytes.current"])
        cuda.reset_peak_host_memory_stats()
        torch.accelerator.empty_host_cache()


class Casts(OnTheEmulator):
    def test_dtypes(self):
        x = torch.rand(4, 4, device="cuda")
        half = x.half()
        with torch.autocast("cuda"):
            self.assertTrue(torch.is_autocast_enabled("cuda"))
            self.assertFalse(torch.is_autocast_enabled("cpu"))
            for made, dtype in (
                (x @ x, torch.float16), (nn.functional.linear(x, x), torch.float16), (torch.mv(x, x[0]), torch.float16),
                (half.softmax(0), torch.float32), (half.exp(), torch.float32), (half.sum(), torch.float32),
                (half.pow(2), torch.float32), (nn.functional.layer_norm(half, (4,)), torch.float32),
                (nn.functional.mse_loss(half, half), torch.float32), (half.cumsum(0), torch.float32),
                (torch.cat([x, half]), torch.float32), (torch.addcmul(half, x, half), torch.float32),
                (half + half, torch.float16), (x + half, torch.float32), (half.relu(), torch.float16),
                (x.double() @ x.double(), torch.float64),
            ):
                self.assertEqual(made.dtype, dtype)
            on_host = torch.ones(2, 2)
            self.assertEqual((on_host @ on_host).dtype, torch.float32)
            with torch.autocast("cuda", enabled=False):
                self.assertEqual((x @ x).dtype, torch.float32)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                self.assertEqual((x @ x).dtype, torch.bfloat16)
        self.assertEqual((x @ x).dtype, torch.float32)
        with torch.autocast("cpu"):
            self.assertEqual((x @ x).dtype, torch.float32)
            self.assertEqual((torch.ones(2, 2) @ torch.ones(2, 2)).dtype, torch.bfloat16)

    def test_gradients(self):
        layer = nn.Linear(4, 3).cuda()
        x = torch.rand(5, 4, device="cuda")
        with torch.autocast("cuda"):
            loss = nn.functional.mse_loss(layer(x), torch.zeros(5, 3, device="cuda"))
        loss.backward()
        self.assertEqual((loss.dtype, layer.weight.grad.dtype), (torch.float32, torch.float32))
        exact = torch.autograd.grad((layer(x) ** 2).mean(), layer.weight)[0]
        self.assertTrue(torch.allclose(layer.weight.grad, exact, atol=1e-2))


class Communication(OnTheEmulator):
    def test_between_devices(self):
        comm = importlib.import_module("corten.cuda.comm")
        x = torch.arange(6.0).reshape(3, 2)
        copies = comm.broadcast(x.cuda(), [0, 1])
        self.assertEqual([str(one.device) for one in copies], ["cuda:0", "cuda:1"])
        self.assertEqual(comm.reduce_add(list(copies), 1).tolist(), (x * 2).tolist())
        parts = comm.scatter(x, ["cuda:0", "cuda:1"], chunk_sizes=[1, 2])
        self.assertEqual([one.shape[0] for one in parts], [1, 2])
        self.assertEqual(comm.gather(parts, destination=1).device, torch.device("cuda:1"))
        self.assertEqual(comm.gather(parts, destination="cpu").tolist(), x.tolist())
        lists = comm.broadcast_coalesced([x.cuda(), x.cuda() + 1], [0, 1])
        self.assertEqual([one.device.index for one in lists[1]], [1, 1])
        self.assertEqual(comm.reduce_add_coalesced(lists, 0)[1].tolist(), (x * 2 + 2).tolist())
        with self.assertRaisesRegex(AssertionError, "input 0 is on CPU"):
            comm.reduce_add([x, x.cuda()])
        with self.assertRaisesRegex(RuntimeError, "Exactly one of 'devices' and 'out'"):
            comm.broadcast(x)


class Streams(OnTheEmulator):
    def test_current_and_default(self):
        self.assertEqual(cuda.current_stream(), cuda.default_stream())
        self.assertEqual(cuda.default_stream().cuda_stream, 0)
        made = cuda.Stream()
        self.assertNotEqual(made, cuda.default_stream())
        with cuda.stream(made):
            self.assertEqual(cuda.current_stream(), made)
            self.assertEqual(torch.accelerator.current_stream().stream_id, made.stream_id)
            x = torch.ones(1000, device="cuda") + 1
        self.assertEqual(cuda.current_stream(), cuda.default_stream())
        made.synchronize()
        self.assertTrue(made.query())
        self.assertEqual(x.sum().item(), 2000)
        with cuda.stream(None):
            self.assertEqual(cuda.current_stream(), cuda.default_stream())

    def test_stream_of_another_device(self):
        other = cuda.Stream("cuda:1")
        self.assertEqual((other.device, other.device_index, other.device_type), (torch.device("cuda:1"), 1, 1))
        with cuda.stream(other):
            self.assertEqual((cuda.current_device(), cuda.current_stream()), (1, other))
            self.assertEqual(torch.ones(2, device="cuda").device.index, 1)
        self.assertEqual(cuda.current_device(), 0)
        self.assertEqual(cuda.current_stream(1), cuda.default_stream(1))
        with other:
            self.assertEqual(cuda.current_stream(), other)
        self.assertEqual((cuda.current_device(), cuda.current_stream(1)), (0, cuda.default_stream(1)))
        cuda.set_stream(other)
        self.assertEqual(cuda.current_device(), 1)
        cuda.set_stream(cuda.default_stream(1))

    def test_pool_and_priorities(self):
        made = [cuda.Stream() for _ in range(33)]
        self.assertEqual(len({one.cuda_stream for one in made}), 32)
        self.assertEqual(made[0], made[32])
        self.assertEqual(hash(made[0]), hash(made[32]))
        self.assertLessEqual(cuda.Stream(priority=-1).priority, -1)
        self.assertEqual(cuda.Stream().priority, 0)
        self.assertFalse(made[0].is_capturing() or cuda.is_current_stream_capturing())

    def test_kinds(self):
        one = cuda.Stream()
        self.assertRegex(repr(one), "^<torch.cuda.Stream device=cuda:0 cuda_stream=0x[0-9a-f]+>$")
        self.assertIsInstance(one, torch.Stream)
        again = cuda.Stream(stream_id=one.stream_id, device_index=one.device_index, device_type=one.device_type)
        self.assertEqual(again, one)
        self.assertEqual(again.cuda_stream, one.cuda_stream)
        external = cuda.ExternalStream(one.cuda_stream)
        self.assertEqual((external.cuda_stream, external.device), (one.cuda_stream, one.device))
        self.assertEqual(cuda.get_stream_from_external(one.cuda_stream).cuda_stream, one.cuda_stream)
        with cuda.stream(external):
            self.assertEqual((torch.ones(3, device="cuda") * 2).tolist(), [2, 2, 2])
        general = torch.Stream("cuda:1")
        self.assertRegex(repr(general), "torch.Stream device_type=cuda, device_index=1, stream_id=")
        general.synchronize()
        self.assertTrue(torch.Stream("cpu").query())

    def test_events(self):
        start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        self.assertEqual(repr(start), "<torch.cuda.Event uninitialized>")
        self.assertTrue(start.query())
        with self.assertRaisesRegex(ValueError, "Both events must be recorded before calculating elapsed time."):
            start.elapsed_time(end)
        start.record()
        x = torch.ones(1000, device="cuda").cumsum(0)
        end.record()
        end.synchronize()
        self.assertTrue(end.query())
        self.assertGreaterEqual(start.elapsed_time(end), 0.0)
        self.assertEqual(x[-1].item(), 1000)
        self.assertRegex(repr(start), "^<torch.cuda.Event 0x[0-9a-f]+>$")
        plain = cuda.current_stream().record_event()
        plain.synchronize()
        with self.assertRaisesRegex(ValueError, "enable_timing=True"):
            plain.elapsed_time(end)
        self.assertIsInstance(plain, torch.Event)
        self.assertEqual(plain.device, torch.device("cuda:0"))
        self.assertEqual(len(cuda.Event(interprocess=True).ipc_handle()), 64)
        with self.assertRaisesRegex(RuntimeError, "does not match recording stream's device"):
            plain.record(cuda.Stream("cuda:1"))

    def test_order_between_streams(self):
        for _ in range(8):
            one, two = cuda.Stream(), cuda.Stream()
            with cuda.stream(one):
                x = torch.full((5000,), 3.0, device="cuda")
                x += 1
            two.wait_stream(one)
            with cuda.stream(two):
                y = x * 2
            x.record_stream(two)
            del x
            done = two.record_event()
            cuda.current_stream().wait_event(done)
            self.assertEqual(y.tolist(), [8.0] * 5000)

    def test_accelerator(self):
        accelerator = torch.accelerator
        self.assertEqual(accelerator.current_accelerator(), torch.device("cuda"))
        self.assertEqual((accelerator.is_available(), accelerator.device_count()), (True, 2))
        accelerator.set_device_index(1)
        self.assertEqual((accelerator.current_device_index(), cuda.current_device()), (1, 1))
        with accelerator.device_index(0):
            self.assertEqual(cuda.current_device(), 0)
        self.assertEqual(cuda.current_device(), 1)
        accelerator.synchronize()
        accelerator.set_device_index(0)
        self.assertIs(torch.get_device_module(), cuda)
        self.assertIs(torch.get_device_module("cuda:1"), cuda)
        self.assertIn(torch.bfloat16, accelerator.get_device_capability()["supported_dtypes"])
        self.assertEqual(accelerator.Graph(pool=(1, 2)).graph_pool, (1, 2))


class Generators(OnTheEmulator):
    def test_state(self):
        made = torch.Generator("cuda:1").manual_seed(7)
        state = made.get_state()
        self.assertEqual((state.dtype, state.device.type, state.shape), (torch.uint8, "cpu", (16,)))
        self.assertEqual(state.tolist(), [7] + [0] * 15)
        self.assertEqual((made.device, made.initial_seed()), (torch.device("cuda:1"), 7))
        made.set_offset(8)
        self.assertEqual(made.get_offset(), 8)
        self.assertEqual(made.get_state().tolist(), [7] + [0] * 7 + [8] + [0] * 7)
        again = torch.Generator("cuda:1")
        again.set_state(made.get_state())
        self.assertEqual((again.initial_seed(), again.get_offset()), (7, 8))
        self.assertEqual(pickle.loads(pickle.dumps(made)).get_state().tolist(), made.get_state().tolist())
        self.assertEqual(made.clone_state().get_offset(), 8)
        self.assertEqual(torch.Generator("cuda").initial_seed(), 67280421310721)
        for wrong, words in ((lambda: made.set_offset(3), "offset must be a multiple of 4"),
                             (lambda: made.set_state(torch.zeros(3, dtype=torch.uint8)), "RNG state is wrong size"),
                             (lambda: torch.Generator().get_offset(), "CPU Generator does not use offset"),
                             (lambda: torch.Generator("cuda:5"), "invalid device ordinal")):
            with self.assertRaisesRegex(RuntimeError, words):
                wrong()

    def test_device_of_a_generator(self):
        on_gpu, on_host = torch.Generator("cuda"), torch.Generator()
        with self.assertRaisesRegex(RuntimeError, "Expected a 'cuda' device type for generator but found 'cpu'"):
            torch.randn(3, device="cuda", generator=on_host)
        for wrong in (lambda: torch.randn(3, generator=on_gpu), lambda: torch.randperm(3, generator=on_gpu),
                      lambda: torch.empty(3).uniform_(generator=on_gpu)):
            with self.assertRaisesRegex(RuntimeError, "Expected a 'cpu' device type for generator but found 'cuda'"):
                wrong()

    def test_seeds(self):
        def draw():
            return torch.rand(50, device="cuda").tolist(), torch.randperm(9, device="cuda").tolist()

        torch.manual_seed(3)
        first = draw()
        self.assertNotEqual(draw(), first)
        torch.manual_seed(3)
        self.assertEqual(draw(), first)
        cuda.manual_seed(3)
        self.assertEqual(draw()[0], first[0])
        cuda.manual_seed_all(11)
        self.assertEqual([cuda.get_rng_state(index)[0].item() for index in range(2)], [11, 11])
        self.assertEqual(cuda.initial_seed(), 11)
        saved = cuda.get_rng_state_all()
        here = draw()
        cuda.set_rng_state_all(saved)
        self.assertEqual(draw(), here)
        with torch.random.fork_rng():
            forked = draw()
        self.assertEqual(draw(), forked)
        cuda.seed_all()
        self.assertEqual(cuda.get_rng_state(0).tolist(), cuda.get_rng_state(1).tolist())
        made = torch.Generator("cuda")
        numbers = torch.rand(5, device="cuda", generator=made.manual_seed(1)).tolist()
        self.assertEqual(torch.rand(5, device="cuda", generator=made.manual_seed(1)).tolist(), numbers)
        self.assertGreater(made.get_offset(), 0)

    def test_seed_before_the_first_use(self):
        code = ("import corten as torch\n"
                "torch.manual_seed(5)\n"
                "a = torch.rand(4, device='cuda').tolist()\n"
                "torch.manual_seed(5)\n"
                "assert torch.rand(4, device='cuda').tolist() == a\n"
                "assert torch.cuda.initial_seed() == 5")
        subprocess.run([sys.executable, "-c", code], check=True)


class Tensors(OnTheEmulator):
    def setUp(self):
        super().setUp()
        self.host = torch.arange(6.0).reshape(2, 3)

    def test_to_and_from(self):
        x = self.host
        for made, index in ((x.cuda(), 0), (x.cuda(1), 1), (x.cuda("cuda:1"), 1), (x.to("cuda"), 0), (x.to(1), 1),
                            (x.to(torch.device("cuda", 1)), 1), (torch.tensor(x.tolist(), device=1), 1),
                            (x.cuda().to("cuda:1"), 1), (x.to("cuda", non_blocking=True), 0)):
            self.assertEqual(made.device, torch.device("cuda", index))
            self.assertEqual((made.get_device(), made.is_cuda, made.is_cpu), (index, True, False))
            self.assertTrue(torch.equal(made.cpu(), x))
        self.assertEqual(torch.device(1), torch.device("cuda:1"))
        self.assertEqual(x.cuda().type(), "torch.cuda.FloatTensor")
        made = x.cuda()
        self.assertIs(made.cuda(), made)
        self.assertIs(made.to("cuda:0"), made)
        with cuda.device(1):
            self.assertEqual(x.cuda().device.index, 1)
        with self.assertRaisesRegex(RuntimeError, "found at least two devices, cuda:0 and cpu!"):
            made + x
        with self.assertRaisesRegex(RuntimeError, "cuda:0 and cuda:1!"):
            made + x.cuda(1)
        with self.assertRaisesRegex(TypeError, "can't convert cuda:0 device type tensor to numpy"):
            made.numpy()
        self.assertIn("device='cuda:0'", repr(made))

    def test_default_device(self):
        with torch.device("cuda:1"):
            self.assertEqual(torch.ones(2).device.index, 1)
        torch.set_default_device("cuda")
        try:
            self.assertEqual(torch.get_default_device(), torch.device("cuda:0"))
            self.assertTrue(torch.tensor([1.0]).is_cuda and nn.Linear(2, 2).weight.is_cuda)
        finally:
            torch.set_default_device(None)
        self.assertFalse(torch.ones(1).is_cuda)

    def test_copies(self):
        x = self.host.cuda()
        for made in (copy.deepcopy(x), copy.copy(x), pickle.loads(pickle.dumps(x)), x.clone()):
            self.assertEqual(made.device, x.device)
            self.assertTrue(torch.equal(made, x))
        model = nn.Linear(3, 2).cuda()
        again = copy.deepcopy(model)
        self.assertTrue(again.weight.is_cuda)
        self.assertNotEqual(again.weight.data_ptr(), model.weight.data_ptr())
        self.assertTrue(all(not one.is_cuda for one in model.cpu().parameters()))

    def test_storages(self):
        storage = self.host.untyped_storage()
        there = storage.cuda(1)
        self.assertEqual((there.device, there.nbytes(), there.is_cuda), (torch.device("cuda:1"), 24, True))
        self.assertEqual(there.get_device(), 1)
        self.assertEqual(there.cuda(0).device.index, 0)
        self.assertEqual(bytes(there.cpu()), bytes(storage))
        self.assertEqual(there.clone().device.index, 1)
        self.assertEqual(cuda.FloatStorage(3).device.type, "cuda")

    def test_files(self):
        file = io.BytesIO()
        torch.save({"a": self.host.cuda(), "b": self.host.to("cuda:1")}, file)

        def loaded(**kwargs):
            file.seek(0)
            found = torch.load(file, **kwargs)
            self.assertTrue(torch.equal(found["a"].cpu(), self.host))
            return [str(found[name].device) for name in "ab"]

        self.assertEqual(loaded(), ["cuda:0", "cuda:1"])
        self.assertEqual(loaded(map_location="cpu"), ["cpu", "cpu"])
        self.assertEqual(loaded(map_location="cuda"), ["cuda:0", "cuda:0"])
        self.assertEqual(loaded(map_location="cuda:1"), ["cuda:1", "cuda:1"])
        self.assertEqual(loaded(map_location=torch.device("cuda", 1)), ["cuda:1", "cuda:1"])
        self.assertEqual(loaded(map_location={"cuda:0": "cuda:1", "cuda:1": "cpu"}), ["cuda:1", "cpu"])
        self.assertEqual(loaded(map_location=lambda storage, place: storage.cuda(1)), ["cuda:1", "cuda:1"])
        with self.assertRaisesRegex(RuntimeError, "object on CUDA device 5 but torch.cuda.device_count\\(\\) is 2"):
            loaded(map_location="cuda:5")

    def test_legacy_classes(self):
        made = cuda.FloatTensor([1, 2])
        self.assertEqual((made.device.type, made.tolist()), ("cuda", [1, 2]))
        self.assertEqual(cuda.LongTensor(2, 3).shape, (2, 3))
        self.assertIsInstance(made, cuda.FloatTensor)
        self.assertNotIsInstance(made, torch.FloatTensor)
        self.assertNotIsInstance(torch.ones(1), cuda.FloatTensor)
        self.assertNotIsInstance(made, cuda.HalfTensor)
        self.assertEqual(str(cuda.HalfTensor), "torch.cuda.HalfTensor")
        half = torch.ones(2).type(cuda.HalfTensor)
        self.assertEqual((half.dtype, half.device.type), (torch.float16, "cuda"))
        self.assertTrue(torch.ones(2).type("torch.cuda.FloatTensor").is_cuda)
        with self.assertRaisesRegex(RuntimeError, "expects device type: cuda but device type: cpu"):
            cuda.FloatTensor(2, device="cpu")

    def test_dlpack(self):
        x = self.host.cuda(1)
        self.assertEqual(x.__dlpack_device__(), (2, 1))
        made = torch.from_dlpack(x)
        self.assertEqual((made.device, made.data_ptr()), (x.device, x.data_ptr()))
        made += 1
        self.assertTrue(torch.equal(x.cpu(), self.host + 1))
        with cuda.device(1):
            other = cuda.Stream()
        for stream in (None, -1, 1, other.cuda_stream):
            self.assertTrue(torch.equal(torch.from_dlpack(x.__dlpack__(stream=stream)).cpu(), x.cpu()))
        for wrong in (0, 2):
            with self.assertRaises(BufferError):
                x.__dlpack__(stream=wrong)
        with self.assertRaises(TypeError):
            x.__dlpack__(stream="one")

    def test_dlpack_tells_the_stream(self):
        given = []

        class Producer:
            def __init__(self, tensor):
                self.tensor = tensor

            def __dlpack_device__(self):
                return self.tensor.__dlpack_device__()

            def __dlpack__(self, **kwargs):
                given.append(kwargs.get("stream", "none"))
                return self.tensor.__dlpack__(**kwargs)

        made, stream = Producer(self.host.cuda()), cuda.Stream()
        torch.from_dlpack(made)
        with cuda.stream(stream):
            torch.from_dlpack(made)
        torch.from_dlpack(Producer(self.host))
        self.assertEqual(given, [1, stream.cuda_stream, "none"])

    def test_cuda_array_interface(self):
        x = self.host.cuda()
        found = x.__cuda_array_interface__
        self.assertEqual(found, {
            "typestr": "<f4", "shape": (2, 3), "strides": None, "data": (x.data_ptr(), False), "version": 2,
        })
        self.assertEqual(x.t().__cuda_array_interface__["strides"], (4, 12))
        self.assertEqual(x[:, :0].__cuda_array_interface__["data"], (0, False))
        self.assertEqual(x.bool().__cuda_array_interface__["typestr"], "|b1")
        with self.assertRaisesRegex(RuntimeError, "requires grad"):
            x.requires_grad_().__cuda_array_interface__
        with self.assertRaisesRegex(AttributeError, "on non-CUDA tensor type: torch.FloatTensor"):
            self.host.__cuda_array_interface__


class Training(OnTheEmulator):
    def losses(self, device, scaler=None):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        x = torch.linspace(-1, 1, 40).reshape(10, 4).to(device)
        y = x.sum(1, keepdim=True)
        losses = []
        for _ in range(5):
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            if scaler is None:
                loss.backward()
                optimizer.step()
            else:
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            losses.append(loss.item())
        return losses

    def test_losses_are_those_of_the_host(self):
        for ours, theirs in zip(self.losses("cuda"), self.losses("cpu")):
            self.assertAlmostEqual(ours, theirs, 5)

    def test_scaler(self):
        scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
        self.assertTrue(scaler.is_enabled())
        for ours, theirs in zip(self.losses("cuda", scaler), self.losses("cpu")):
            self.assertAlmostEqual(ours, theirs, 4)
        self.assertEqual(scaler.get_scale(), 1024.0)

    def test_unsupported_names_say_so(self):
        for refused in (lambda: cuda.memory.CUDAPluggableAllocator("a", "b", "c"), cuda.current_solver_handle):
            with contextlib.suppress(NotImplementedError):
                refused()
                self.fail("it is supported, and needs a test of its own")


if __name__ == "__main__":
    unittest.main()
