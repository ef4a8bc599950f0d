"""What programs see of memory and time: history with frames, settings, caching off, profiles, synchronisations,
measures, the number of GPUs."""

import json
import os
import pickle
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cuda_under_test import ON_GPU, CudaTest, torch, usable  # noqa: E402

cuda = torch.cuda


def allocate_something():
    return torch.empty(12345, device="cuda")


def frame_names(found):
    return [frame["name"] for frame in found["frames"]]


@usable
class History(CudaTest):
    def tearDown(self):
        cuda.memory._record_memory_history(enabled=None)

    def test_frames(self):
        cuda.memory._record_memory_history(max_entries=100)
        x = allocate_something()
        with tempfile.TemporaryDirectory() as folder:
            cuda.memory._dump_snapshot(f"{folder}/snapshot")
            found = pickle.loads(Path(folder, "snapshot").read_bytes())
        taken = [one for one in found["device_traces"][0] if one["action"] == "alloc" and one["addr"] == x.data_ptr()]
        self.assertEqual(frame_names(taken[-1])[:2], ["allocate_something", "test_frames"])
        frame = taken[-1]["frames"][0]
        self.assertEqual((Path(frame["filename"]).name, type(frame["line"])), (Path(__file__).name, int))
        block, = (block for segment in found["segments"] for block in segment["blocks"]
                  if block["address"] == x.data_ptr())
        self.assertIn("allocate_something", frame_names(block))
        self.assertEqual(found["allocator_settings"]["expandable_segments"], False)
        address = x.data_ptr()
        del x
        freed = [one for one in cuda.memory._snapshot(0)["device_traces"][0]
                 if one["action"] == "free_requested" and one["addr"] == address]
        self.assertEqual(frame_names(freed[-1])[0], "test_frames")

    def test_what_is_recorded(self):
        cuda.memory._record_memory_history("state")
        x = allocate_something()
        found = cuda.memory._snapshot()
        block, = (block for segment in found["segments"] for block in segment["blocks"]
                  if block["address"] == x.data_ptr())
        self.assertIn("allocate_something", frame_names(block))
        cuda.memory._record_memory_history(context=None, clear_history=True)
        y = allocate_something()
        trace = cuda.memory._snapshot()["device_traces"][0]
        self.assertEqual([one["frames"] for one in trace if one["action"] == "alloc"], [[]])
        cuda.memory._record_memory_history(True, trace_alloc_max_entries=5, trace_alloc_record_context=True)
        del x, y
        with self.assertRaisesRegex(RuntimeError, "enabled: expected one of"):
            cuda.memory._record_memory_history("everything")

    def test_who_holds_memory(self):
        cuda.memory._record_memory_history()
        held = allocate_something()
        cuda.set_per_process_memory_fraction(0.01)
        try:
            with self.assertRaises(torch.OutOfMemoryError) as raised:
                torch.empty(1 << 30, device="cuda")
        finally:
            cuda.set_per_process_memory_fraction(1.0)
        self.assertIn("(allocate_something)", str(raised.exception))
        del held


@usable
class Caching(CudaTest):
    def test_turned_off(self):
        cuda.init()
        before = cuda.memory_reserved()
        with cuda.caching_allocator_disabled():
            x = torch.ones(1 << 20, device="cuda")
        self.assertEqual(cuda.memory_reserved(), before)
        self.assertEqual(x.sum().item(), 1 << 20)
        del x
        text = ("import corten as torch; x = torch.ones(1000, device='cuda') + 1; "
                "print(x.sum().item(), torch.cuda.memory_reserved())")
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True,
                              env={**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})
        self.assertEqual(done.stdout.split(), ["2000.0", "0"])


@usable
class Synchronisation(CudaTest):
    def test_reports(self):
        x = torch.ones(3, device="cuda")
        try:
            cuda.set_sync_debug_mode("warn")
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                x + 1
                self.assertEqual(len(seen), 0)
                x.sum().item()
            self.assertIn("called a synchronizing CUDA operation", [str(one.message) for one in seen])
            cuda.set_sync_debug_mode(2)
            self.assertEqual(cuda.get_sync_debug_mode(), 2)
            with self.assertRaisesRegex(RuntimeError, "called a synchronizing CUDA operation"):
                x.cpu()
            cuda.synchronize()
        finally:
            cuda.set_sync_debug_mode("default")
        self.assertEqual(x.cpu().sum(), 3)
        for wrong in ("all", 3):
            with self.assertRaisesRegex(RuntimeError, "invalid value of debug_mode"):
                cuda.set_sync_debug_mode(wrong)


@usable
class Profiles(CudaTest):
    def test_times_of_devices(self):
        activities = torch.profiler.ProfilerActivity
        self.assertIn(activities.CUDA, torch.profiler.supported_activities())
        x = torch.randn(64, 64, device="cuda", requires_grad=True)
        with torch.profiler.profile(activities=[activities.CPU, activities.CUDA]) as profile:
            with torch.profiler.record_function("forward"):
                y = (x @ x).sum()
            y.backward()
            torch.ones(3) + 1
        found = {one.key: one for one in profile.key_averages()}
        self.assertGreater(found["aten::mm"].self_device_time_total, 0)
        self.assertEqual(found["aten::mm"].count, 3)
        self.assertGreaterEqual(found["forward"].device_time_total, found["aten::sum"].device_time_total)
        self.assertEqual(found["forward"].self_device_time_total, 0)
        self.assertEqual(found["aten::add"].device_time_total, 0)
        table = profile.key_averages().table(sort_by="cuda_time_total")
        for title in ("Self CUDA", "Self CUDA %", "CUDA total", "CUDA time avg", "Self CUDA time total: "):
            self.assertIn(title, table)
        with self.assertWarnsRegex(FutureWarning, "use `device_time_total` instead"):
            self.assertEqual(found["aten::mm"].cuda_time_total, found["aten::mm"].device_time_total)
        with tempfile.TemporaryDirectory() as folder:
            profile.export_chrome_trace(f"{folder}/trace.json")
            events = json.loads(Path(folder, "trace.json").read_text())["traceEvents"]
        kernels = [one for one in events if one.get("cat") == "kernel"]
        self.assertIn("aten::mm", [one["name"] for one in kernels])
        self.assertEqual({one["pid"] for one in kernels}, {0})

    def test_without_devices(self):
        x = torch.ones(3, device="cuda")
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            x + 1
        self.assertNotIn("Self CUDA", profile.key_averages().table())
        with torch.autograd.profiler.profile(use_device="cuda") as old:
            x + 1
        self.assertTrue(any(event.device_span is not None for event in old.events()))

    def test_marks_and_profilers(self):
        with cuda.nvtx.range("step {}", 1):
            cuda.nvtx.mark("here")
        cuda.nvtx.range_end(cuda.nvtx.range_start("other"))
        with cuda.profiler.profile():
            pass


@usable
@unittest.skipIf(ON_GPU, "the values are those of the emulated library")
class Measures(CudaTest):
    def test_values(self):
        self.assertEqual((cuda.utilization(), cuda.memory_usage(), cuda.temperature("cuda:1"), cuda.power_draw(),
                          cuda.clock_rate(), cuda.device_memory_used()), (30, 20, 42, 90000, 1980, 1 << 30))
        self.assertEqual(cuda.list_gpu_processes(0), "GPU:0\nprocess       4321 uses      512.000 MB GPU memory")
        self.assertEqual(cuda.list_gpu_processes(1), "GPU:1\nno processes are running")

    def test_visible_devices(self):
        first, second = (f"GPU-656d756c-6174-6564-2064-6576696365{i:02}" for i in range(2))
        cases = [
            ("", 0), ("0", 1), ("1,0", 2), ("1,1", 0), ("0,5,1", 1), ("-1", 0), ("none", 0), ("2,0", 0), ("0x1", 1),
            (first, 1), (f"{second},{first}", 2), (f"{first},{first}", 0), ("GPU-656d", 0), (f"{first},GPU-9", 1),
        ]
        text = (
            "import os\nimport corten as torch\n"
            f"for value, count in {cases!r}:\n"
            "    os.environ['CUDA_VISIBLE_DEVICES'] = value\n"
            "    assert torch.cuda.device_count() == count, (value, torch.cuda.device_count())\n"
            "    assert torch.cuda.is_available() == (count > 0)\n"
            "os.environ['CUDA_VISIBLE_DEVICES'] = '1'\n"
            "torch.cuda.init()\n"
            "os.environ['CUDA_VISIBLE_DEVICES'] = '0,1'\n"
            "assert torch.cuda.device_count() == 1\n")
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)


@usable
class Surface(CudaTest):
    def test_accelerator_graph(self):
        x = torch.ones(3, device="cuda")
        x + 1
        with cuda.stream(cuda.Stream()):
            record = torch.accelerator.Graph()
            with record:
                y = x + 1
        cuda.synchronize()
        record.replay()
        self.assertEqual(y.tolist(), [2, 2, 2])

    def test_default_class(self):
        torch.set_default_tensor_type("torch.cuda.HalfTensor")
        try:
            self.assertEqual((torch.ones(1).device.type, torch.ones(1).dtype), ("cuda", torch.float16))
        finally:
            torch.set_default_tensor_type(torch.FloatTensor)
        self.assertEqual((torch.ones(1).device.type, torch.ones(1).dtype), ("cpu", torch.float32))

    def test_sharing_and_pinning(self):
        x = torch.ones(2, device="cuda")
        self.assertTrue(x.share_memory_().is_shared())
        self.assertTrue(torch.tensor([1, 2], pin_memory=True).is_pinned())
        with self.assertRaisesRegex(RuntimeError, "Only dense CPU tensors can be pinned"):
            torch.tensor([1], device="cuda", pin_memory=True)

    def test_dlpack_to_the_host(self):
        x = torch.arange(3.0, device="cuda")
        made = torch.from_dlpack(x, device="cpu")
        self.assertEqual((made.device.type, made.tolist()), ("cpu", [0, 1, 2]))
        self.assertEqual(torch.from_dlpack(torch.ones(2), device="cuda").device.type, "cuda")
        with self.assertRaisesRegex(BufferError, "cannot move from cuda:0"):
            torch.from_dlpack(x, device="cpu", copy=False)

    def test_names(self):
        for name in ("FloatTensor", "HalfStorage", "default_generators", "OutOfMemoryError", "AcceleratorError"):
            self.assertIn(name, dir(cuda))
            self.assertTrue(hasattr(cuda, name), name)


if __name__ == "__main__":
    unittest.main()
