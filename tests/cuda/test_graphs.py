"""CUDA graphs: records, replays, their memory, and what a record refuses."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from cuda_under_test import CudaTest, torch, usable  # noqa: E402


@usable
class Graphs(CudaTest):
    def test_replay(self):
        x = torch.arange(4.0, device="cuda")
        record = torch.cuda.CUDAGraph()
        (x * 2 + 1).sum()
        with torch.cuda.graph(record):
            y = x * 2 + 1
            total = y.sum()
        for start in (0, 5):
            x.copy_(torch.arange(4.0) + start)
            record.replay()
            self.assertEqual(y.cpu().tolist(), [2 * (i + start) + 1 for i in range(4)])
            self.assertEqual(total.item(), 16 + 8 * start)
        record.reset()
        with self.assertRaisesRegex(RuntimeError, "without a preceding successful capture"):
            record.replay()

    def test_memory_of_a_record_is_its_own(self):
        x = torch.ones(1000, device="cuda")
        record = torch.cuda.CUDAGraph()
        with torch.cuda.graph(record):
            y = (x + 1) * 3
        record.replay()
        others = [torch.zeros(1000, device="cuda") for _ in range(20)]
        torch.cuda.synchronize()
        self.assertEqual(y.sum().item(), 6000)
        self.assertEqual(sum(other.sum().item() for other in others), 0)
        first = record.pool()
        second = torch.cuda.CUDAGraph()
        with torch.cuda.graph(second, pool=first):
            z = y - 1
        self.assertEqual(second.pool(), first)
        record.replay()
        second.replay()
        self.assertEqual(z[0].item(), 5)

    def test_refusals(self):
        record = torch.cuda.CUDAGraph()
        with self.assertRaisesRegex(RuntimeError, "must be captured on a non-default stream"):
            record.capture_begin()
        with self.assertRaisesRegex(ValueError, "Unknown capture error mode"):
            with torch.cuda.graph(record, capture_error_mode="other"):
                pass
        x = torch.ones(3, device="cuda")
        with self.assertRaises(RuntimeError):
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                x.sum().item()
        self.assertFalse(torch.cuda.is_current_stream_capturing())
        self.assertEqual((x + 1).sum().item(), 6)

    def test_graphed_callables(self):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
        reference = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
        reference.load_state_dict(model.state_dict())
        model.cuda()
        graphed = torch.cuda.make_graphed_callables(model, (torch.randn(5, 4, device="cuda", requires_grad=True),))
        for seed in range(3):
            x = torch.randn(5, 4, generator=torch.Generator().manual_seed(seed))
            there = x.cuda().requires_grad_()
            here = x.clone().requires_grad_()
            (graphed(there) ** 2).sum().backward()
            (reference(here) ** 2).sum().backward()
            self.same(there.grad, here.grad)
            for one, other in zip(model.parameters(), reference.parameters()):
                self.same(one.grad, other.grad)


if __name__ == "__main__":
    unittest.main()
