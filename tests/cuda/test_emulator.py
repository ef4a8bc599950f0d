"""The CUDA emulator: what kernels compute on it, the order of streams, and that it catches planted bugs."""

import contextlib
import ctypes
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from emulator import AVAILABLE, MISSING, CompileError, CudaError, Sim, build, compile  # noqa: E402

INT, FLOAT = ctypes.c_int, ctypes.c_float
SEEDS = range(16)

VECTOR = """
template <class T, int K> __global__ void __launch_bounds__(256) axpy(T a, const T* __restrict__ x, T* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = a * x[i] + y[i] + K;
}
extern "C" __global__ void __launch_bounds__(128) fill(int* out, int value, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = value;
}
extern "C" __global__ void increment(int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i]++;
}
"""

# The sum of a block: shuffles in a warp, shared memory between warps. BARRIER is what the planted bugs change.
REDUCE = """
__device__ __forceinline__ int warp_sum(int v) {
  for (int d = 16; d; d >>= 1) v += __shfl_down_sync(0xffffffffu, v, d);
  return v;
}
extern "C" __global__ void block_sum(const int* x, int* out, int n) {
  __shared__ int part[32];
  int v = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += x[i];
  v = warp_sum(v);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  BARRIER;
  if (threadIdx.x < 32) {
    v = warp_sum(threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0);
    if (threadIdx.x == 0) out[blockIdx.x] = v;
  }
}
"""


@contextlib.contextmanager
def stderr_text():
    """What the libraries write to the standard error stream, as a list of one string after the block."""
    text, saved = [], os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield text
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            file.seek(0)
            text.append(file.read().decode())


def setUpModule():
    if not AVAILABLE:
        print(MISSING, file=sys.stderr)
        raise unittest.SkipTest(MISSING)
    build()


class EmulatorTest(unittest.TestCase):
    def fails(self, code, call, *args, **kwargs):
        with self.assertRaises(CudaError) as caught:
            call(*args, **kwargs)
        self.assertEqual(caught.exception.code, code)

    def launch_fails(self, code, sim, *args, **kwargs):
        """The launch leaves `code` in the context; returns what was reported."""
        with stderr_text() as text:
            sim.launch(*args, **kwargs)
            self.fails(code, sim.sync)
        self.fails(code, sim.alloc, 16)  # the error stays
        return text[0]


class Kernels(EmulatorTest):
    def test_vector_add(self):
        n = 100_003
        for seed in [0, 1]:
            sim = Sim(seed=seed)
            axpy = sim.functions(VECTOR, ["axpy<float, 4>"])
            x, y = sim.upload("f", range(n)), sim.upload("f", [2.0] * n)
            sim.launch(axpy, -(-n // 256), 256, FLOAT(0.5), x, y, INT(n))
            self.assertEqual(list(sim.download("f", y, n)), [0.5 * i + 6 for i in range(n)])

    def test_block_reduction(self):
        for seed in SEEDS:
            sim = Sim(seed=seed)
            block_sum = sim.functions(REDUCE.replace("BARRIER", "__syncthreads()"), plain=["block_sum"])
            n, blocks = 5000, 3
            x, out = sim.upload("i", [i * i % 97 for i in range(n)]), sim.alloc(4 * blocks)
            sim.launch(block_sum, blocks, 256, x, out, INT(n))
            expected = [sum(i * i % 97 for i in range(n) if i // 256 % blocks == b) for b in range(blocks)]
            self.assertEqual(list(sim.download("i", out, blocks)), expected)

    def test_dynamic_shared_memory_and_barrier_counts(self):
        text = """extern "C" __global__ void reverse(const double* x, double* y, int* counts) {
          CT_DYN_SMEM(double, s);
          int t = threadIdx.x + blockDim.x * threadIdx.y, n = blockDim.x * blockDim.y;
          s[t] = x[t];
          int count = __syncthreads_count(x[t] > 9.5);
          int all = __syncthreads_and(x[t] >= 0), any = __syncthreads_or(x[t] < 0);
          y[t] = s[n - 1 - t];
          counts[t] = count * 100 + all * 10 + any;
        }"""
        sim = Sim(seed=5)
        reverse = sim.functions(text, plain=["reverse"])
        x, y, counts = sim.upload("d", range(60)), sim.alloc(8 * 60), sim.alloc(4 * 60)
        sim.launch(reverse, 1, (20, 3, 1), x, y, counts, shared=8 * 60)
        self.assertEqual(list(sim.download("d", y, 60)), [59.0 - i for i in range(60)])
        self.assertEqual(list(sim.download("i", counts, 60)), [5010] * 60)
        self.fails(1, sim.launch, reverse, 1, 60, x, y, counts, shared=64 << 10)
        sim.cu.cuFuncSetAttribute(reverse, 8, 64 << 10)
        sim.launch(reverse, 1, 60, x, y, counts, shared=64 << 10)
        sim.sync()

    def test_warp_collectives(self):
        text = """extern "C" __global__ void warp(long long* out) {
          int t = threadIdx.x;
          long long wide = (1ll << 40) + t;
          out[t] = __shfl_sync(~0u, wide, 3);
          out[t + 40] = __shfl_up_sync(~0u, t, 2);
          out[t + 80] = __shfl_xor_sync(~0u, wide, 1);
          out[t + 120] = __shfl_down_sync(~0u, t, 1, 8);
          out[t + 160] = __ballot_sync(~0u, t % 3 == 0);
          out[t + 200] = __any_sync(~0u, t == 35) * 2 + __all_sync(~0u, t < 32);
          out[t + 240] = __reduce_max_sync(~0u, t);
          if (t % 2) out[t + 280] = __shfl_sync(0xaaaaaaaau, t, 5);
          else out[t + 280] = __popc(__match_any_sync(0x55555555u, t / 8));
        }"""
        for seed in SEEDS:
            sim = Sim(seed=seed)
            out = sim.alloc(8 * 320)
            sim.launch(sim.functions(text, plain=["warp"]), 1, 40, out)
            got = list(sim.download("q", out, 320))
            lanes = [t % 32 for t in range(40)]
            size = [32 if t < 32 else 8 for t in range(40)]
            base = [t - t % 32 for t in range(40)]
            self.assertEqual(got[:40], [2**40 + b + 3 for b in base])
            self.assertEqual(got[40:80], [t if lane < 2 else t - 2 for t, lane in enumerate(lanes)])
            self.assertEqual(got[80:120], [2**40 + (t ^ 1) for t in range(40)])
            self.assertEqual(got[120:160], [t if t % 8 == 7 else t + 1 for t in range(40)])
            self.assertEqual(got[160:200], [sum(1 << i for i in range(n) if (b + i) % 3 == 0) for b, n in zip(base, size)])
            self.assertEqual(got[200:240], [1] * 32 + [2] * 8)
            self.assertEqual(got[240:280], [31] * 32 + [39] * 8)
            self.assertEqual(got[280:320], [b + 5 if t % 2 else 4 for t, b in enumerate(base)])

    def test_atomics(self):
        text = """extern "C" __global__ void count(int* i, float* f, unsigned long long* u, unsigned short* h) {
          int t = blockIdx.x * blockDim.x + threadIdx.x;
          atomicAdd(&i[0], 1); atomicMax(&i[1], t); atomicMin(&i[2], t); atomicOr(&i[3], 1 << t % 20);
          atomicXor(&i[4], t); atomicAnd(&i[5], ~(1 << t % 5)); atomicExch(&i[6], 7);
          atomicAdd(f, 0.5f); atomicAdd(u, 1ull << 33);
          unsigned short old = *h, seen;
          do { seen = old; old = atomicCAS(h, seen, (unsigned short)(seen + 3)); } while (old != seen);
        }"""
        for seed in SEEDS:
            sim = Sim(seed=seed)
            i, f = sim.upload("i", [0, -1, 999, 0, 0, -1, 0]), sim.upload("f", [1.0])
            u, h = sim.upload("Q", [1]), sim.upload("H", [10, 0])
            sim.launch(sim.functions(text, plain=["count"]), 10, 64, i, f, u, h)
            xor = 0
            for t in range(640):
                xor ^= t
            self.assertEqual(list(sim.download("i", i, 7)), [640, 639, 0, 2**20 - 1, xor, -32, 7])
            self.assertEqual(sim.download("f", f, 1)[0], 321.0)
            self.assertEqual(sim.download("Q", u, 1)[0], 1 + (640 << 33))
            self.assertEqual(sim.download("H", h, 1)[0], 10 + 3 * 640)

    def test_device_functions(self):
        text = """extern "C" __global__ void math(double* d, float* f, unsigned long long* i) {
          d[0] = erfinv(0.3); d[1] = erfinv(-0.999999); d[2] = erfcinv(1e-200); d[3] = normcdfinv(0.975); d[4] = normcdf(1.0);
          d[5] = erfcx(30.0); d[6] = cyl_bessel_i0(2.5); d[7] = rsqrt(16.0); d[8] = erfinv(1e-12); d[9] = erfinv(1.0);
          f[0] = rsqrtf(4); f[1] = __expf(1); f[2] = __fdividef(1, 8); f[3] = fmaf(2, 3, 4); f[4] = exp(2.0f);
          f[5] = sinpi(0.5f); f[6] = max(1.0f, 2.0f); f[7] = __int_as_float(0x40400000); f[8] = __saturatef(7);
          i[0] = __umulhi(0x80000000u, 6); i[1] = __umul64hi(1ull << 63, 6); i[2] = __clz(1); i[3] = __clzll(1);
          i[4] = __popc(0xff00ff); i[5] = __ffs(8); i[6] = __brev(1); i[7] = min(3u, 2); i[8] = __float_as_int(1.0f);
          i[9] = __double_as_longlong(1.0); i[10] = __float2int_rz(1e20f); i[11] = __float2int_rn(2.5f);
          i[12] = __byte_perm(0x33221100, 0x77665544, 0x7250); i[13] = __funnelshift_r(1, 3, 1); i[14] = sizeof(float4);
        }"""
        sim = Sim()
        d, f, i = sim.alloc(80), sim.alloc(36), sim.alloc(120)
        sim.launch(sim.functions(text, plain=["math"]), 1, 1, d, f, i)
        expected = [0.27246271472675435, -3.458910737275499, 21.374783049026254, 1.959963984540054, 0.8413447460685429,
                    0.01879588886141675, 3.2898391440501231, 0.25, 8.862269254527579e-13, math.inf]
        for got, want in zip(sim.download("d", d, 10), expected):
            self.assertTrue(got == want or abs(got / want - 1) < 1e-7, (got, want))
        for got, want in zip(sim.download("f", f, 9), [0.5, math.e, 0.125, 10, math.exp(2), 1, 2, 3, 1]):
            self.assertAlmostEqual(got, want, places=5)
        self.assertEqual(list(sim.download("Q", i, 15)), [3, 3, 31, 63, 16, 4, 1 << 31, 2, 0x3F800000, 0x3FF << 52,
                                                         2**31 - 1, 2, 0x77225500, 1 << 31, 16])

    def test_globals(self):
        text = """__constant__ int table[4] = {1, 2, 3, 4}; __device__ float scale;
        extern "C" __global__ void look(float* out) { out[threadIdx.x] = table[threadIdx.x] * scale; }"""
        sim = Sim()
        image, (table, scale) = compile(text, ["table", "&scale"])
        module = sim.out(sim.cu.cuModuleLoadData, ctypes.c_void_p, image)
        size, pointer = ctypes.c_size_t(), ctypes.c_void_p()
        sim.cu.cuModuleGetGlobal_v2(ctypes.byref(pointer), ctypes.byref(size), module, table)
        self.assertEqual(size.value, 16)
        sim.cu.cuModuleGetGlobal_v2(ctypes.byref(pointer), ctypes.byref(size), module, scale)
        sim.cu.cuMemcpyAsync(pointer, (FLOAT * 1)(2.5), ctypes.c_size_t(4), None)
        look = sim.out(sim.cu.cuModuleGetFunction, ctypes.c_void_p, module, b"look")
        out = sim.alloc(16)
        sim.launch(look, 1, 4, out)
        self.assertEqual(list(sim.download("f", out, 4)), [2.5, 5.0, 7.5, 10.0])

    def test_compile_errors_are_in_the_log(self):
        with self.assertRaises(CompileError) as caught:
            compile("__global__ void f(int* x) {\n  *x = undeclared;\n}")
        code, log = caught.exception.args
        self.assertEqual(code, 6)
        self.assertIn("test.cu:2", log)
        self.assertIn("undeclared", log)

    def test_options(self):
        text = """#if __CUDA_ARCH__ != 900 || !CT_SIM
        #error architecture
        #endif
        extern "C" __global__ void f(int* x) { *x = VALUE; }"""
        image, _ = compile(text, options=["--gpu-architecture=sm_90a", "-DVALUE=17", "--use_fast_math", "-std=c++17"])
        sim = Sim()
        module = sim.out(sim.cu.cuModuleLoadData, ctypes.c_void_p, image)
        out = sim.alloc(4)
        sim.launch(sim.out(sim.cu.cuModuleGetFunction, ctypes.c_void_p, module, b"f"), 1, 1, out)
        self.assertEqual(sim.download("i", out, 1)[0], 17)


class Streams(EmulatorTest):
    def test_events_order_streams(self):
        for seed in SEEDS:
            sim = Sim(seed=seed)
            fill, increment = sim.functions(VECTOR, plain=["fill", "increment"])
            a, b, event, out = sim.stream(), sim.stream(), sim.event(), sim.alloc(4000)
            for round in range(5):
                sim.launch(fill, 2, 128, out, INT(round), INT(1000), stream=a)
                sim.cu.cuEventRecord(event, a)
                sim.cu.cuStreamWaitEvent(b, event, 0)
                sim.launch(increment, 10, 100, out, INT(1000), stream=b)
                sim.cu.cuEventRecord(event, b)
                sim.cu.cuStreamWaitEvent(a, event, 0)
            self.assertEqual(list(sim.download("i", out, 1000, stream=a)), [5] * 1000)

    def test_legacy_stream_waits_for_blocking_streams(self):
        for seed in SEEDS:
            sim = Sim(seed=seed)
            fill, increment = sim.functions(VECTOR, plain=["fill", "increment"])
            blocking, out = sim.stream(flags=0), sim.alloc(400)
            sim.launch(fill, 1, 128, out, INT(3), INT(100), stream=blocking)
            sim.launch(increment, 1, 100, out, INT(100))
            sim.launch(increment, 1, 100, out, INT(100), stream=blocking)
            self.assertEqual(list(sim.download("i", out, 100)), [5] * 100)

    def test_queries_and_times(self):
        pending = 0
        for seed in SEEDS:
            sim = Sim(seed=seed)
            fill = sim.functions(VECTOR, plain=["fill"])
            stream, start, end, out = sim.stream(), sim.event(), sim.event(), sim.alloc(400)
            sim.cu.cuEventQuery(start)  # not recorded: nothing to wait for
            sim.cu.cuEventRecord(start, stream)
            sim.launch(fill, 1, 128, out, INT(1), INT(100), stream=stream)
            sim.cu.cuEventRecord(end, stream)
            while True:
                try:
                    sim.cu.cuEventQuery(end)
                    break
                except CudaError as error:
                    self.assertEqual(error.code, 600)
                    pending += 1
            sim.cu.cuStreamQuery(stream)
            self.assertGreaterEqual(sim.out(sim.cu.cuEventElapsedTime, FLOAT, start, end), 0)
            untimed = sim.event(flags=2)
            self.fails(400, sim.out, sim.cu.cuEventElapsedTime, FLOAT, start, untimed)
        self.assertGreater(pending, 0)

    def test_copies_of_pinned_memory_are_asynchronous(self):
        late = 0
        for seed in SEEDS:
            sim = Sim(seed=seed)
            host, device, stream = sim.pinned(4), sim.alloc(4), sim.stream()
            host[:] = b"abcd"
            sim.cu.cuMemcpyHtoDAsync_v2(device, ctypes.addressof(host), ctypes.c_size_t(4), stream)
            host[:] = b"WXYZ"  # too early
            got = sim.download("i", device, 1, stream=stream).tobytes()
            self.assertIn(got, [b"abcd", b"WXYZ"])
            late += got == b"WXYZ"
            pageable = ctypes.create_string_buffer(b"1234")
            sim.cu.cuMemcpyHtoDAsync_v2(device, pageable, ctypes.c_size_t(4), stream)
            pageable.value = b"zzzz"  # the source has been read
            self.assertEqual(sim.download("i", device, 1, stream=stream).tobytes(), b"1234")
        self.assertGreater(late, 0)

    def test_host_functions(self):
        sim = Sim(seed=3)
        order, stream, out = [], sim.stream(), sim.alloc(4)
        callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda value: order.append(value))
        for value in [1, 2, 3]:
            sim.cu.cuLaunchHostFunc(stream, callback, ctypes.c_void_p(value))
        sim.cu.cuMemsetD32Async(out, 7, ctypes.c_size_t(1), stream)
        self.assertEqual(sim.download("i", out, 1, stream=stream)[0], 7)
        self.assertEqual(order, [1, 2, 3])

    def test_host_function_that_waits_for_another_thread(self):
        for seed in SEEDS:
            sim = Sim(seed=seed)
            fill = sim.functions(VECTOR, plain=["fill"])
            a, b, x, y = sim.stream(), sim.stream(), sim.alloc(400), sim.alloc(400)
            results = []

            def other():  # calls the driver while the first thread is in the host function
                sim.use(0)
                sim.launch(fill, 1, 128, y, INT(4), INT(100), stream=b)
                results.append(list(sim.download("i", y, 100, stream=b)))

            thread = threading.Thread(target=other)
            callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: (thread.start(), thread.join())[1])
            sim.cu.cuLaunchHostFunc(a, callback, None)
            sim.launch(fill, 1, 128, x, INT(3), INT(100), stream=a)
            self.assertEqual(list(sim.download("i", x, 100, stream=a)), [3] * 100)
            self.assertEqual(results, [[4] * 100])

    def test_threads(self):
        sim = Sim(seed=1)
        fill, increment = sim.functions(VECTOR, plain=["fill", "increment"])
        results = {}

        def work(index):
            sim.use(0)
            stream, out = sim.stream(), sim.alloc(400)
            sim.launch(fill, 1, 128, out, INT(index), INT(100), stream=stream)
            for _ in range(50):
                sim.launch(increment, 1, 100, out, INT(100), stream=stream)
            sim.cu.cuStreamSynchronize(stream)
            results[index] = list(sim.download("i", out, 100, stream=stream))

        threads = [threading.Thread(target=work, args=[index]) for index in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, {index: [index + 50] * 100 for index in range(8)})

    def test_a_seed_gives_the_same_order_again(self):
        def order(seed):
            sim, ran = Sim(seed=seed), []
            append = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda value: ran.append(value))
            streams = [sim.stream() for _ in range(5)]
            for i in range(20):
                sim.cu.cuLaunchHostFunc(streams[i % 5], append, ctypes.c_void_p(i + 1))
            sim.sync()
            return ran

        self.assertEqual(order(4), order(4))
        self.assertEqual(sorted(order(4)), list(range(1, 21)))
        self.assertGreater(len({tuple(order(seed)) for seed in SEEDS}), len(SEEDS) // 2)

    def test_forked_process(self):
        sim = Sim()
        child = os.fork()
        if child == 0:
            try:
                sim.cu.cuInit(0)
            except CudaError as error:
                os._exit(error.code)
            os._exit(0)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 3)

    def test_capture_and_replay(self):
        for seed in SEEDS:
            sim = Sim(seed=seed)
            fill, increment = sim.functions(VECTOR, plain=["fill", "increment"])
            a, b, fork, join, out = sim.stream(), sim.stream(), sim.event(), sim.event(), sim.alloc(400)
            sim.launch(fill, 1, 128, out, INT(0), INT(100), stream=a)
            sim.cu.cuStreamBeginCapture_v2(a, 0)
            self.assertEqual(self.capturing(sim, a), 1)
            sim.launch(increment, 1, 100, out, INT(100), stream=a)
            sim.cu.cuEventRecord(fork, a)
            sim.cu.cuStreamWaitEvent(b, fork, 0)
            sim.launch(increment, 1, 50, out, INT(50), stream=b)
            sim.cu.cuEventRecord(join, b)
            sim.cu.cuStreamWaitEvent(a, join, 0)
            sim.launch(increment, 1, 100, out, INT(100), stream=a)
            graph = ctypes.c_void_p()
            sim.cu.cuStreamEndCapture(a, ctypes.byref(graph))
            self.assertEqual(self.capturing(sim, b), 0)
            count = ctypes.c_size_t()
            sim.cu.cuGraphGetNodes(graph, None, ctypes.byref(count))
            self.assertEqual(count.value, 3)
            executable = sim.out(sim.cu.cuGraphInstantiateWithFlags, ctypes.c_void_p, graph, 0)
            sim.cu.cuGraphDestroy(graph)
            self.assertEqual(list(sim.download("i", out, 100, stream=a)), [0] * 100)  # capturing runs nothing
            for _ in range(4):
                sim.cu.cuGraphLaunch(executable, a)
            self.assertEqual(list(sim.download("i", out, 100, stream=a)), [12] * 50 + [8] * 50)
            sim.cu.cuGraphExecDestroy(executable)

    def capturing(self, sim, stream):
        status = INT()
        sim.cu.cuStreamIsCapturing(stream, ctypes.byref(status))
        return status.value

    def test_errors_of_captures(self):
        sim, graph = Sim(), ctypes.c_void_p()
        a, b, event = sim.stream(), sim.stream(), sim.event()
        end = lambda stream: sim.cu.cuStreamEndCapture(stream, ctypes.byref(graph))  # noqa: E731
        sim.cu.cuStreamBeginCapture_v2(a, 0)
        self.fails(900, sim.alloc, 16)
        self.fails(901, end, a)
        sim.cu.cuStreamBeginCapture_v2(a, 2)
        sim.alloc(16)  # the relaxed mode allows it
        self.fails(900, sim.cu.cuStreamSynchronize, a)
        self.fails(901, end, a)
        sim.cu.cuStreamBeginCapture_v2(a, 1)
        sim.cu.cuEventRecord(event, a)
        self.fails(907, sim.cu.cuEventQuery, event)
        sim.cu.cuStreamWaitEvent(b, event, 0)
        self.fails(903, end, b)
        end(a)
        self.fails(401, end, a)
        sim.cu.cuStreamBeginCapture_v2(a, 2)
        pointer = sim.alloc(16)
        sim.cu.cuEventRecord(event, a)
        sim.cu.cuStreamWaitEvent(b, event, 0)
        sim.cu.cuMemsetD8Async(pointer, 0, ctypes.c_size_t(16), b)
        self.fails(904, end, a)  # nothing joins the other stream
        sim.cu.cuStreamBeginCapture_v2(a, 2)
        sim.cu.cuEventRecord(event, b)
        sim.cu.cuMemsetD8Async(pointer, 0, ctypes.c_size_t(16), a)
        end(a)


class Memory(EmulatorTest):
    def test_poison_at_allocation_and_free(self):
        sim = Sim()
        pointer = sim.alloc(1000)
        self.assertEqual(set(sim.download("B", pointer, 1000)), {0xEE})
        self.assertEqual(set(sim.pinned(100).raw), {0xEE})

    def test_limit(self):
        sim = Sim(mem=1 << 20, devices=1)
        first = sim.alloc(600_000)
        self.fails(2, sim.alloc, 600_000)
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        sim.cu.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        self.assertEqual((free.value, total.value), ((1 << 20) - 600_064, 1 << 20))
        sim.cu.cuMemFree_v2(first)
        sim.alloc(600_000)

    def test_limited_address_space(self):
        program = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
sys.path.insert(0, {str(Path(__file__).parent)!r})
from emulator import Sim
sim = Sim()
assert list(sim.download("i", sim.upload("i", [1, 2, 3]), 3)) == [1, 2, 3]
"""
        subprocess.run([sys.executable, "-c", program], check=True)

    def test_two_devices(self):
        for seed in SEEDS:
            sim = Sim(seed=seed)
            count = sim.out(sim.cu.cuDeviceGetCount, INT)
            self.assertEqual(count, 2)
            fill = sim.functions(VECTOR, plain=["fill"])
            first, stream0 = sim.alloc(400), sim.stream()
            sim.launch(fill, 1, 128, first, INT(11), INT(100), stream=stream0)
            done = sim.event()
            sim.cu.cuEventRecord(done, stream0)
            sim.use(1)
            second, stream1 = sim.alloc(400), sim.stream()
            self.assertEqual(sim.out(sim.cu.cuPointerGetAttribute, INT, 9, second), 1)
            self.assertEqual(sim.out(sim.cu.cuPointerGetAttribute, INT, 9, first), 0)
            self.fails(400, sim.launch, fill, 1, 128, second, INT(1), INT(100), stream=stream1)  # a module of the other context
            sim.cu.cuStreamWaitEvent(stream1, done, 0)
            sim.cu.cuMemcpyPeerAsync(second, None, first, None, ctypes.c_size_t(400), stream1)
            self.assertEqual(list(sim.download("i", second, 100, stream=stream1)), [11] * 100)

    def test_visible_devices(self):
        try:
            for text, count in [("1", 1), ("0,1", 2), ("1,7,0", 1)]:
                os.environ["CUDA_VISIBLE_DEVICES"] = text
                self.assertEqual((lambda sim: sim.out(sim.cu.cuDeviceGetCount, INT))(Sim()), count)
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
            self.fails(100, Sim)
        finally:
            del os.environ["CUDA_VISIBLE_DEVICES"]

    def test_virtual_memory(self):
        sim, granularity = Sim(devices=1, mem=8 << 20), 2 << 20
        location = (INT * 8)(1, 0, 1, 0)
        handles = [sim.out(sim.cu.cuMemCreate, ctypes.c_void_p, ctypes.c_size_t(granularity), location, 0) for _ in range(2)]
        base = sim.out(sim.cu.cuMemAddressReserve, ctypes.c_void_p, ctypes.c_size_t(8 * granularity), ctypes.c_size_t(0), None, 0)
        for i, handle in enumerate(handles):
            sim.cu.cuMemMap(base + i * granularity, ctypes.c_size_t(granularity), ctypes.c_size_t(0), handle, 0)
        access = (INT * 3)(1, 0, 3)
        sim.cu.cuMemSetAccess(base, ctypes.c_size_t(2 * granularity), access, ctypes.c_size_t(1))
        sim.cu.cuMemsetD32Async(base, 5, ctypes.c_size_t(granularity // 2), None)  # both mappings
        self.assertEqual(set(sim.download("i", base, granularity // 2)), {5})
        self.fails(1, sim.download, "i", base + 2 * granularity, 1)
        self.fails(2, sim.alloc, 5 << 20)
        sim.cu.cuMemUnmap(base, ctypes.c_size_t(2 * granularity))
        for handle in handles:
            sim.cu.cuMemRelease(handle)
        sim.cu.cuMemAddressFree(base, ctypes.c_size_t(8 * granularity))
        sim.alloc(5 << 20)

    def test_memory_is_shared_between_processes(self):
        sim = Sim()
        handle, pointer = ctypes.create_string_buffer(64), sim.upload("i", [1, 2, 3])
        sim.sync()
        sim.cu.cuIpcGetMemHandle(handle, pointer)
        program = f"""
import ctypes, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from emulator import Sim
class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 64)]
sim = Sim()
pointer = sim.out(sim.cu.cuIpcOpenMemHandle_v2, ctypes.c_void_p, Handle.from_buffer_copy(bytes.fromhex(sys.argv[1])), 1)
assert list(sim.download("i", pointer, 3)) == [1, 2, 3]
sim.cu.cuMemsetD32Async(pointer, 9, ctypes.c_size_t(2), None)
sim.sync()
sim.cu.cuIpcCloseMemHandle(pointer)
"""
        subprocess.run([sys.executable, "-c", program, handle.raw.hex()], check=True)
        self.assertEqual(list(sim.download("i", pointer, 3)), [9, 9, 3])


class Errors(EmulatorTest):
    def test_injected_errors(self):
        sim = Sim(fail="cuMemAlloc_v2:3,cuStreamSynchronize:1:719")
        sim.alloc(16), sim.alloc(16)
        self.fails(2, sim.alloc, 16)
        sim.alloc(16)
        self.fails(719, sim.cu.cuStreamSynchronize, None)
        sim.cu.cuStreamSynchronize(None)

    def test_invalid_arguments(self):
        sim = Sim()
        fill = sim.functions(VECTOR, plain=["fill"])
        pointer = sim.alloc(16)
        self.fails(1, sim.launch, fill, 1, 2048, pointer, INT(0), INT(1))
        self.fails(1, sim.launch, fill, 0, 32, pointer, INT(0), INT(1))
        self.fails(1, sim.download, "i", pointer, 5)  # past the end
        self.fails(1, sim.cu.cuMemFree_v2, pointer + 4)
        self.fails(400, sim.cu.cuStreamSynchronize, 12345)
        self.fails(101, sim.use, 2)
        self.fails(500, sim.functions, VECTOR, plain=["absent"])
        text = ctypes.c_char_p()
        sim.cu.cuGetErrorString(700, ctypes.byref(text))
        self.assertEqual(text.value, b"an illegal memory access was encountered")


class PlantedBugs(EmulatorTest):
    def test_missing_barrier(self):
        wrong = 0
        for seed in SEEDS:
            sim = Sim(seed=seed)
            block_sum = sim.functions(REDUCE.replace("BARRIER", ""), plain=["block_sum"])
            x, out = sim.upload("i", [1] * 1024), sim.alloc(4)
            sim.launch(block_sum, 1, 256, x, out, INT(1024))
            wrong += sim.download("i", out, 1)[0] != 1024
        self.assertGreater(wrong, len(SEEDS) // 2)

    def test_divergent_barrier(self):
        returned = """extern "C" __global__ void f(int n) { if (threadIdx.x >= n) return; __syncthreads(); }"""
        branches = """extern "C" __global__ void f(int n) {
          if (threadIdx.x < n) {
            __syncthreads();
          } else {
            __syncthreads();
          }
        }"""
        collective = """extern "C" __global__ void f(int n) { if (threadIdx.x < n) __syncwarp(); else __syncthreads(); }"""
        for text in [returned, branches, collective]:
            for seed in SEEDS:
                sim = Sim(seed=seed)
                message = self.launch_fails(719, sim, sim.functions(text, plain=["f"]), 1, 64, INT(20))
                self.assertIn("cusim: kernel f: divergent", message)
                self.assertIn("block (0, 0, 0)", message)

    def test_write_out_of_bounds(self):
        for seed in SEEDS:
            sim = Sim(seed=seed)
            fill = sim.functions(VECTOR, plain=["fill"])
            out = sim.alloc(400)
            message = self.launch_fails(700, sim, fill, 1, 128, out, INT(0), INT(101))
            self.assertIn("kernel fill: write outside the 400 bytes", message)
        sim = Sim()
        fill, out = sim.functions(VECTOR, plain=["fill"]), sim.alloc(400)
        message = self.launch_fails(700, sim, fill, 1, 128, out + (1 << 30), INT(0), INT(10))
        self.assertIn("kernel fill: access to address", message)

    def test_write_past_shared_memory(self):
        text = """extern "C" __global__ void f() { CT_DYN_SMEM(int, s); s[threadIdx.x] = 1; }"""
        sim = Sim()
        message = self.launch_fails(719, sim, sim.functions(text, plain=["f"]), 1, 64, shared=4 * 63)
        self.assertIn("dynamic shared memory", message)
        far = text.replace("s[threadIdx.x]", "s[threadIdx.x + 65536]")
        sim = Sim()
        message = self.launch_fails(700, sim, sim.functions(far, plain=["f"]), 1, 64)
        self.assertIn("access to address", message)

    def test_shared_memory_is_not_zero(self):
        text = """extern "C" __global__ void f(int* out) {
          __shared__ int s[4];
          atomicAdd(&s[0], 1);
          __syncthreads();
          out[blockIdx.x] = s[0];
        }"""
        sim, values = Sim(), None
        out = sim.alloc(8)
        sim.launch(sim.functions(text, plain=["f"]), 2, 32, out)
        values = list(sim.download("i", out, 2))
        self.assertEqual(values, [0xEEEEEEEE - 2**32 + 32] * 2)

    def test_missing_wait_between_streams(self):
        wrong = 0
        for seed in SEEDS:
            sim = Sim(seed=seed)
            fill = sim.functions(VECTOR, plain=["fill"])
            a, b, out = sim.stream(), sim.stream(), sim.alloc(400)
            sim.launch(fill, 1, 128, out, INT(5), INT(100), stream=a)
            wrong += list(sim.download("i", out, 100, stream=b)) != [5] * 100
        self.assertGreater(wrong, len(SEEDS) // 4)
        self.assertLess(wrong, len(SEEDS))  # it may also go well

    def test_use_after_free(self):
        text = """extern "C" __global__ void copy(const int* x, int* y) { y[threadIdx.x] = x[threadIdx.x]; }"""
        for seed in SEEDS:
            sim = Sim(seed=seed)
            copy = sim.functions(text, plain=["copy"])
            freed, out = sim.upload("i", range(64)), sim.alloc(256)
            sim.cu.cuMemFree_v2(freed)
            sim.launch(copy, 1, 64, freed, out)
            self.assertEqual(list(sim.download("i", out, 64)), [0xDDDDDDDD - 2**32] * 64)
            self.fails(1, sim.download, "i", freed, 1)

    def test_race_of_blocks(self):
        """Blocks run one after another, so that a race gives the right sum: only watching the accesses finds it."""
        texts = {
            "write the same": """*out += x[blockIdx.x];""",
            "read and write the same": """out[blockIdx.x] = blockIdx.x ? out[blockIdx.x - 1] : 0;""",
            "": """atomicAdd(out, x[blockIdx.x]);""",
        }
        for message, body in texts.items():
            text = 'extern "C" __global__ void f(const int* x, int* out) { if (threadIdx.x == 0) { %s } }' % body
            for seed in SEEDS[:4]:
                sim = Sim(seed=seed, races=1)
                f, x, out = sim.functions(text, plain=["f"]), sim.upload("i", range(8)), sim.upload("i", [0] * 8)
                if message:
                    found = self.launch_fails(719, sim, f, 8, 32, x, out)
                    self.assertRegex(found, "kernel f: race of blocks, which (read and )?write the same address, block")
                else:
                    sim.launch(f, 8, 32, x, out)
                    self.assertEqual(sim.download("i", out, 1)[0], 28)

    def test_read_of_memory_that_nobody_has_written(self):
        text = """extern "C" __global__ void sum(const int* x, int* out) { atomicAdd(out, x[threadIdx.x]); }"""
        for seed in SEEDS:
            sim = Sim(seed=seed)
            total, x, out = sim.functions(text, plain=["sum"]), sim.alloc(256), sim.upload("i", [0])
            sim.launch(total, 1, 64, x, out)
            self.assertEqual(sim.download("i", out, 1)[0], (64 * 0xEEEEEEEE + 2**31) % 2**32 - 2**31)

    def test_misaligned_vector(self):
        text = """extern "C" __global__ void f(float* x) { *(float2*)x = make_float2(1, 2); }"""
        sim = Sim()
        f, out = sim.functions(text, plain=["f"]), sim.alloc(64)
        sim.launch(f, 1, 1, out + 8)
        self.assertEqual(list(sim.download("f", out + 8, 2)), [1.0, 2.0])
        self.assertIn("misaligned address", self.launch_fails(716, sim, f, 1, 1, out + 4))

    def test_index_outside_a_shared_array(self):
        text = """extern "C" __global__ void f(int* out, int n) {
          __shared__ int s[32];
          s[threadIdx.x] = n;
          *out = s[n];
        }"""
        sim = Sim()
        f, out = sim.functions(text, plain=["f"]), sim.alloc(64)
        sim.launch(f, 1, 32, out, INT(31))
        self.assertEqual(sim.download("i", out, 1)[0], 31)
        self.assertIn("index outside an array", self.launch_fails(716, sim, f, 1, 33, out, INT(31)))

    def test_division_by_zero(self):
        text = """extern "C" __global__ void f(int* x, int n) { *x = 5 / n; }"""
        sim = Sim()
        message = self.launch_fails(719, sim, sim.functions(text, plain=["f"]), 1, 1, sim.alloc(4), INT(0))
        self.assertIn("division by zero", message)

    def strict(self, body):
        """Runs a program that has device memory `pointer`, with the checks that cost time."""
        program = f"""
import ctypes, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from emulator import Sim
sim = Sim(strict=1)
pointer = sim.upload("i", [7])
assert list(sim.download("i", pointer, 1)) == [7]
sys.stdout.write("before"), sys.stdout.flush()
""" + body
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertTrue(done.stdout.startswith("before"), done.stderr)
        return done

    def test_host_access_to_device_memory(self):
        done = self.strict("ctypes.c_int.from_address(pointer).value")
        self.assertEqual(done.returncode, -signal.SIGSEGV)
        self.assertIn("the host accesses device memory", done.stderr)

    def test_kernel_access_to_host_memory(self):
        done = self.strict("""
copy = sim.functions('extern "C" __global__ void copy(const int* x, int* y) { *y = *x; }', plain=["copy"])
pinned, pageable = sim.pinned(4), (ctypes.c_int * 1000)()
sim.launch(copy, 1, 1, ctypes.addressof(pinned), pointer)
sim.sync()
unused = sim.functions('extern "C" __global__ void unused(const int* x, int* y) { *y = 1; }', plain=["unused"])
sim.launch(unused, 1, 1, ctypes.addressof(pageable), pointer)
sim.sync()
sys.stdout.write(" and after"), sys.stdout.flush()
sim.launch(copy, 1, 1, ctypes.addressof(pageable), pointer)
sim.sync()
""")
        self.assertIn("cusim: kernel copy: access to address", done.stderr)
        self.assertEqual(done.stdout, "before and after", done.stderr)
        self.assertIn("CudaError: cuCtxSynchronize: error 700", done.stderr)

    def test_strict_use_after_free(self):
        done = self.strict("""
copy = sim.functions('extern "C" __global__ void copy(const int* x, int* y) { *y = *x; }', plain=["copy"])
freed = sim.upload("i", [1])
sim.cu.cuMemFree_v2(freed)
sim.launch(copy, 1, 1, freed, pointer)
sim.sync()
""")
        self.assertIn("cusim: kernel copy: access to address", done.stderr)
        self.assertIn("error 700", done.stderr)


if __name__ == "__main__":
    unittest.main()
