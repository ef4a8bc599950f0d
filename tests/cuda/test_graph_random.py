"""Random numbers in CUDA graphs, kept records, hooks of graphs."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cuda_under_test import CudaTest, torch, usable  # noqa: E402

cuda = torch.cuda


@usable
class RandomNumbers(CudaTest):
    def draws(self):
        p = torch.full((5,), 0.5, device="cuda")
        return [
            torch.rand(300, device="cuda"), torch.randn(7, device="cuda", dtype=torch.float64), torch.bernoulli(p),
            torch.randint(100, (9,), device="cuda"), torch.nn.functional.dropout(torch.ones(50, device="cuda"), 0.3),
            torch.multinomial(p, 6, replacement=True), torch.empty(4, device="cuda").exponential_(),
        ]

    def test_replays_draw_what_calls_would(self):
        self.draws()
        record = cuda.CUDAGraph()
        with cuda.graph(record):
            recorded = self.draws()
        torch.manual_seed(11)
        wanted = [self.draws() for _ in range(3)]
        after = torch.rand(3, device="cuda")
        torch.manual_seed(11)
        for one in wanted:
            record.replay()
            for found, expected in zip(recorded, one):
                self.assertTrue(torch.equal(found, expected))
        self.assertTrue(torch.equal(torch.rand(3, device="cuda"), after))

    def test_registered_generators(self):
        generator = torch.Generator("cuda").manual_seed(4)
        record = cuda.CUDAGraph()
        record.register_generator_state(generator)
        torch.rand(1, device="cuda")
        with cuda.graph(record):
            own, default = torch.rand(8, device="cuda", generator=generator), torch.rand(8, device="cuda")
        self.assertEqual(generator.get_offset(), 0)
        torch.manual_seed(1)
        record.replay()
        found = own.clone(), default.clone()
        self.assertEqual(generator.get_offset(), 4)
        generator.manual_seed(4)
        torch.manual_seed(1)
        self.assertTrue(torch.equal(found[0], torch.rand(8, device="cuda", generator=generator)))
        self.assertTrue(torch.equal(found[1], torch.rand(8, device="cuda")))
        with self.assertRaisesRegex(RuntimeError, "generator not in capture mode"):
            with cuda.graph(cuda.CUDAGraph()):
                torch.rand(3, device="cuda", generator=generator)

    def test_callables_with_dropout(self):
        model = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.Dropout(0.5)).cuda()
        graphed = cuda.make_graphed_callables(model, (torch.randn(3, 4, device="cuda", requires_grad=True),))
        x = torch.randn(3, 4, device="cuda", requires_grad=True)
        first = graphed(x).clone()
        second = graphed(x)
        self.assertFalse(torch.equal(first == 0, second == 0))
        model.zero_grad(set_to_none=True)
        second.sum().backward()
        kept = (second != 0).sum(0) * 2.0
        self.assertTrue(torch.equal(model[0].bias.grad, kept))


@usable
class Records(CudaTest):
    def test_kept_record(self):
        x = torch.arange(3.0, device="cuda")
        record = cuda.CUDAGraph(keep_graph=True)
        x + 1
        with self.assertRaisesRegex(RuntimeError, "until capture_end\\(\\) has been called"):
            record.raw_cuda_graph()
        with self.assertRaisesRegex(RuntimeError, "must have been called before calling instantiate"):
            record.instantiate()
        with cuda.graph(record):
            y = x + 1
        self.assertNotEqual(record.raw_cuda_graph(), 0)
        with self.assertRaisesRegex(RuntimeError, "until instantiate\\(\\) has been called"):
            record.raw_cuda_graph_exec()
        with tempfile.TemporaryDirectory() as folder:
            record.debug_dump(f"{folder}/graph.dot")
            self.assertIn("digraph", Path(folder, "graph.dot").read_text())
        record.replay()
        self.assertEqual(y.tolist(), [1, 2, 3])
        record.instantiate()
        x += 1
        record.replay()
        self.assertEqual(y.tolist(), [2, 3, 4])

    def test_record_that_is_not_kept(self):
        x = torch.ones(2, device="cuda")
        record = cuda.CUDAGraph()
        x * 2
        with cuda.graph(record):
            y = x * 2
        for refused in (record.raw_cuda_graph, lambda: record.debug_dump("nowhere")):
            with self.assertRaisesRegex(RuntimeError, "unless CUDAGraph was initialized with keep_graph=true"):
                refused()
        with self.assertRaisesRegex(RuntimeError, "only when keep_graph=true"):
            record.instantiate()
        record.replay()
        self.assertEqual(y.tolist(), [2, 2])

    def test_hooks(self):
        seen = []
        record = cuda.CUDAGraph()
        handle = cuda.graphs.register_graph_replay_end_hook(lambda graph: seen.append("end"))
        start = record.register_replay_start_hook(lambda graph: seen.append("start"))
        record.register_capture_start_hook(lambda graph: seen.append(cuda.is_current_stream_capturing()))
        record.register_post_instantiate_hook(lambda graph: seen.append("made"))
        record.register_destroy_callback(lambda: seen.append("gone"))
        x = torch.ones(2, device="cuda")
        x + 1
        with cuda.graph(record):
            x + 1
        record.replay()
        handle.remove()
        start.remove()
        record.replay()
        record.reset()
        self.assertEqual(seen, [True, "made", "start", "end", "gone"])

    def test_capture_into_a_pool(self):
        pool = cuda.MemPool()
        x = torch.ones(2, device="cuda")
        x + 1
        record = cuda.CUDAGraph()
        with cuda.graph(record, pool=pool):
            y = x + 1
        self.assertEqual(record.pools(), [pool.id])
        record.replay()
        self.assertEqual(y.tolist(), [2, 2])


if __name__ == "__main__":
    unittest.main()
