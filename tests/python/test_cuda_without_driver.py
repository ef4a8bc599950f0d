"""`torch.cuda` on a machine without an NVIDIA driver: quick answers, and PyTorch's words where one is needed."""

import subprocess
import sys
import threading
import unittest
import warnings

from module_under_test import torch

cuda = torch.cuda
NO_DRIVER = (
    "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver "
    "from http://www.nvidia.com/Download/index.aspx"
)


@unittest.skipIf(cuda.is_available(), "there is a GPU")
@unittest.skipUnless(torch.backends.cuda.is_built(), "built without the back end for GPUs")
class WithoutDriver(unittest.TestCase):
    def refused(self, call, words=NO_DRIVER):
        with self.assertRaises(RuntimeError) as caught:
            call()
        self.assertIn(words, str(caught.exception))
        self.assertNotIsInstance(caught.exception, AssertionError)

    def test_answers(self):
        self.assertEqual((cuda.is_available(), cuda.device_count(), cuda.is_initialized()), (False, 0, False))
        self.assertEqual((cuda.is_bf16_supported(), cuda.is_tf32_supported()), (False, False))
        self.assertEqual(cuda.default_generators, ())
        self.assertIn("sm_90", cuda.get_arch_list())
        self.assertIn("-gencode compute=compute_90,code=sm_90", cuda.get_gencode_flags())
        self.assertIsNotNone(torch.version.cuda)
        self.assertEqual(cuda.get_rng_state_all(), [])
        self.assertEqual((cuda.memory_allocated(), cuda.max_memory_reserved()), (0, 0))
        self.assertEqual((dict(cuda.memory_stats()), cuda.memory_snapshot(), dict(cuda.host_memory_stats())), ({}, [], {}))
        self.assertEqual(cuda.get_allocator_backend(), "native")
        self.assertFalse(cuda._is_in_bad_fork())

    def test_what_does_nothing(self):
        for call in (lambda: cuda.manual_seed(1), lambda: cuda.manual_seed_all(1), cuda.seed, cuda.seed_all,
                     lambda: cuda.set_rng_state_all([]), cuda.empty_cache, lambda: cuda.set_device(-1),
                     lambda: cuda.set_stream(None), lambda: cuda.set_rng_state(torch.zeros(16, dtype=torch.uint8)),
                     torch.accelerator.empty_cache, torch.accelerator.reset_peak_memory_stats):
            self.assertIsNone(call())
        with cuda.device(-1), cuda.stream(None), cuda.device_of(torch.ones(1)):
            self.assertEqual(torch.ones(2).sum().item(), 2)

    def test_what_needs_a_driver(self):
        x = torch.ones(2)
        for call in (
            cuda.init, cuda.current_device, lambda: cuda.set_device(0), cuda.get_device_name,
            lambda: cuda.get_device_properties(0), cuda.get_device_capability, cuda.synchronize,
            lambda: cuda.can_device_access_peer(0, 1), cuda.current_stream, cuda.default_stream,
            lambda: cuda.Event().record(), lambda: cuda.device(0).__enter__(), cuda.mem_get_info,
            lambda: cuda.set_per_process_memory_fraction(0.5), lambda: cuda.caching_allocator_alloc(8),
            cuda.initial_seed, cuda.get_rng_state, cuda.cudart, cuda.get_sync_debug_mode, cuda.ipc_collect,
            lambda: cuda.FloatTensor(2), lambda: cuda.FloatStorage(2), x.cuda, lambda: x.to("cuda"),
            lambda: x.to(0), lambda: torch.ones(2, device="cuda:9"), x.pin_memory,
            lambda: torch.UntypedStorage(4, device="cuda"), lambda: x.type("torch.cuda.FloatTensor"),
            lambda: torch.nn.Linear(2, 2).cuda(), torch.accelerator.current_device_index,
            torch.accelerator.synchronize, torch.accelerator.current_stream,
            lambda: torch.random.fork_rng([0]).__enter__(), cuda.profiler.start,
        ):
            self.refused(call)
        for call in (cuda.Stream, lambda: torch.Stream("cuda"), lambda: torch.Generator("cuda")):
            with self.assertRaisesRegex(RuntimeError, "Found no NVIDIA driver|CUDA driver version is insufficient"):
                call()

    def test_values_of_arguments(self):
        for call, kind, words in (
            (lambda: cuda.device("cpu"), ValueError, "Expected a cuda device, but got: cpu"),
            (lambda: cuda.Event().elapsed_time(cuda.Event()), ValueError, "enable_timing=True"),
            (lambda: cuda.Event(True).elapsed_time(cuda.Event(True)), ValueError, "Both events must be recorded"),
            (lambda: cuda.reset_peak_memory_stats(), RuntimeError, "invalid argument to reset_peak_memory_stats"),
            (lambda: cuda.check_error(1), cuda.CudaError, r"invalid argument \(1\)"),
            (lambda: cuda._get_device_index(None) if hasattr(cuda, "_get_device_index") else 1 / 0, ValueError,
             "Expected a torch.device with a specified index or an integer, but got:None"),
            (lambda: torch.ones(2).__cuda_array_interface__, AttributeError, "on non-CUDA tensor type"),
        ):
            with self.assertRaisesRegex(kind, words):
                call()
        self.assertEqual(cuda.device("cuda:3").idx, 3)
        self.assertEqual((torch.device(1), torch.device("cuda", 1)), (torch.device("cuda:1"),) * 2)
        self.assertTrue(cuda.Event().query())
        self.assertEqual(repr(cuda.Event()), "<torch.cuda.Event uninitialized>")

    def test_accelerator(self):
        self.assertEqual((torch.accelerator.is_available(), torch.accelerator.device_count()), (False, 0))
        self.assertEqual(torch.accelerator.current_accelerator(), torch.device("cuda"))
        self.assertIsNone(torch.accelerator.current_accelerator(True))
        self.assertIs(torch.get_device_module(), cuda)
        self.assertIs(torch.get_device_module("cuda"), cuda)
        self.refused(torch.accelerator.Graph, "Graph is not supported on device type: cuda")

    def test_casts_and_scalers_turn_themselves_off(self):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            self.assertFalse(torch.amp.GradScaler("cuda").is_enabled())
            with torch.autocast("cuda"):
                self.assertEqual((torch.ones(2, 2) @ torch.ones(2, 2)).dtype, torch.float32)
        self.assertTrue(any("CUDA is not available" in str(one.message) for one in seen))
        self.assertEqual(torch.get_autocast_dtype("cuda"), torch.float16)
        self.assertFalse(torch.is_autocast_enabled("cuda"))

    def test_default_device(self):
        torch.set_default_device("cuda")
        try:
            self.refused(lambda: torch.ones(1))
            self.refused(torch.get_default_device)
        finally:
            torch.set_default_device(None)
        self.assertEqual(torch.get_default_device(), torch.device("cpu"))

    def test_settings(self):
        backend = torch.backends.cuda
        self.assertEqual(backend.preferred_linalg_library("cusolver").name, "Cusolver")
        self.assertEqual(backend.preferred_linalg_library("default").name, "Default")
        self.assertEqual(backend.preferred_blas_library().name, "Cublas")
        with self.assertRaisesRegex(RuntimeError, "Unknown input value"):
            backend.preferred_blas_library("none")
        with self.assertRaisesRegex(RuntimeError, "expected 0 <= device index < 0, but got device with index 0"):
            backend.cufft_plan_cache[0]
        self.refused(lambda: backend.cufft_plan_cache.max_size)
        self.assertFalse(backend.fp16_bf16_reduction_math_sdp_allowed())

    def test_other_threads(self):
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(cuda.is_available())) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(answers, [False] * 8)


class BeforeTheFirstUse(unittest.TestCase):
    def test_import_opens_no_library_of_cuda(self):
        code = (
            f"import {torch.__name__} as torch\n"
            "x = torch.ones(3, requires_grad=True)\n"
            "torch.manual_seed(0); torch.rand(3); (x * 2).sum().backward(); torch.device('cuda:1')\n"
            "maps = open('/proc/self/maps').read()\n"
            "assert 'libcuda.so' not in maps and 'libnvrtc' not in maps, maps\n"
        )
        if torch.__name__ == "torch":
            self.skipTest("PyTorch is linked with these libraries")
        subprocess.run([sys.executable, "-c", code], check=True)


if __name__ == "__main__":
    unittest.main()
