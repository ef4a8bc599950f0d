"""Schedules that split backward: their orders can be run, and train as one process does."""

import types
import unittest

from module_under_test import torch

if torch.__name__ != "corten":
    raise unittest.SkipTest("needs threads as ranks")

import corten.distributed as dist
from corten.distributed.fsdp import fully_shard
from corten.distributed.pipelining import (
    PipelineStage, Schedule1F1B, ScheduleDualPipeV, ScheduleGPipe, ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble, ScheduleLoopedBFS, ScheduleZBVZeroBubble,
)
from corten.distributed.pipelining._backward import SplitBackward
from corten.distributed.pipelining.schedules import get_schedule_class
from corten.testing._internal.distributed.multi_threaded_pg import run_threads

from sharded_models import TransformerBlock, filled

nn, F = torch.nn, torch.nn.functional


def order_of(cls, size, per_rank, microbatches):
    """The actions of all processes, and the process of each stage."""
    stages = [types.SimpleNamespace(
        stage_index=i * size, num_stages=per_rank * size, group_size=size, group_rank=0, has_backward=True,
        stage_index_to_group_rank={j: j % size for j in range(per_rank * size)}) for i in range(per_rank)]
    if cls in (ScheduleZBVZeroBubble, ScheduleDualPipeV):
        stages[1].stage_index = 2 * size - 1
    schedule = cls(stages if per_rank > 1 else stages[0], microbatches, lambda output, target: output)
    return schedule.pipeline_order, schedule._owner


def run_order(order, owner):
    """Does the actions as their inputs are there. Returns what was done; stops where nothing can be."""
    done, place, last = set(), dict.fromkeys(order, 0), len(owner) - 1
    moved = True
    while moved:
        moved = False
        for rank, actions in order.items():
            while place[rank] < len(actions):
                stage, kind, chunk = actions[place[rank]]
                kind = str(kind)
                assert owner[stage] == rank
                needs = {("F", stage - 1, chunk)} if kind == "F" and stage else set()
                if kind in ("B", "I"):
                    needs = {("F", stage, chunk)} | ({("G", stage + 1, chunk)} if stage < last else set())
                if kind == "W":
                    needs = {("I", stage, chunk)}
                if not needs <= done:
                    break
                assert (kind, stage, chunk) not in done
                done.add((kind, stage, chunk))
                if kind in ("B", "I"):
                    done.add(("G", stage, chunk))
                if kind in ("B", "W"):
                    done.add(("whole", stage, chunk))
                place[rank] += 1
                moved = True
    return done


class Orders(unittest.TestCase):
    def test_every_microbatch_runs_everywhere(self):
        several = (ScheduleInterleaved1F1B, ScheduleLoopedBFS, ScheduleInterleavedZeroBubble)
        cases = [(cls, size, 1, n) for cls in (ScheduleGPipe, Schedule1F1B) for size in (1, 2, 5) for n in (1, 3, 8)]
        cases += [(cls, size, k, n) for cls in several for size in (1, 2, 3, 4) for k in (2, 3) for n in (size, 2 * size)]
        cases += [(ScheduleZBVZeroBubble, size, 2, n) for size in (1, 2, 3, 4, 8) for n in (1, 2, 5, 8, 20)]
        cases += [(ScheduleDualPipeV, size, 2, n) for size in (1, 2, 3, 4, 8) for n in (2 * size, 2 * size + 3)]
        for cls, size, per_rank, microbatches in cases:
            with self.subTest(cls.__name__, size=size, stages=per_rank, microbatches=microbatches):
                done = run_order(*order_of(cls, size, per_rank, microbatches))
                self.assertEqual(
                    {key[1:] for key in done if key[0] == "whole"},
                    {(stage, i) for stage in range(size * per_rank) for i in range(microbatches)})

    def test_names_and_errors(self):
        for name in ("InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV"):
            self.assertEqual(get_schedule_class(name.lower()).__name__, f"Schedule{name}")
        with self.assertRaisesRegex(ValueError, "requires exactly 2 stages per rank"):
            order_of(ScheduleZBVZeroBubble, 2, 3, 4)
        with self.assertRaisesRegex(ValueError, "at least as many microbatches as stages"):
            order_of(ScheduleDualPipeV, 2, 2, 3)
        orders, _ = order_of(ScheduleInterleavedZeroBubble, 2, 2, 2)
        self.assertEqual(str(orders[0]), "[0F0, 0F1, 2F0, 2F1, 2I0, 2W0, 2I1, 2W1, 0I0, 0W0, 0I1, 0W1]")


class Split(unittest.TestCase):
    def compare(self, model, *inputs):
        inputs = [value.requires_grad_() for value in inputs]
        output = model(*inputs)
        seed = torch.randn_like(output)
        names, params = zip(*model.named_parameters())
        expected = torch.autograd.grad(output, [*inputs, *params], seed, allow_unused=True)
        split = SplitBackward([model(*inputs)], [seed], inputs)
        self.assertTrue(all(param.grad is None for param in params))
        for found, value in zip(split.input_grads, expected):
            torch.testing.assert_close(found, value)
        split.finish()
        for name, param, value in zip(names, params, expected[len(inputs):]):
            with self.subTest(name):
                if value is None:
                    self.assertIsNone(param.grad)
                else:
                    torch.testing.assert_close(param.grad, value)

    def test_gradients_are_those_of_the_whole(self):
        class Shared(nn.Module):
            def __init__(self):
                super().__init__()
                self.one, self.two, self.unused = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(1, 1)
                self.scale = nn.Parameter(torch.ones(3))

            def forward(self, x, y):
                # A weight that is used twice, one that is used through another operator, and two inputs.
                x = self.two(torch.tanh(self.one(x)))
                return self.one(x) * self.scale.exp() + torch.einsum("ij,kj->ik", y, self.two.weight)

        torch.manual_seed(0)
        self.compare(filled(Shared()), *torch.randn(2, 4, 3, dtype=torch.float64))
        self.compare(filled(TransformerBlock(6, 2)), torch.randn(2, 4, 6, dtype=torch.float64))
        recurrent = nn.LSTM(3, 4).double()
        recurrent.forward = (lambda forward: lambda x: forward(x)[0])(recurrent.forward)
        self.compare(recurrent, torch.randn(5, 2, 3, dtype=torch.float64))
        norm = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2))
        self.compare(norm.double(), torch.randn(3, 2, 4, 4, dtype=torch.float64))

    def test_an_output_that_the_inputs_do_not_reach(self):
        weight = torch.randn(3, requires_grad=True)
        x = torch.randn(3, requires_grad=True)
        split = SplitBackward([weight * 2, x * weight], [torch.ones(3), torch.ones(3)], [x])
        split.finish()
        torch.testing.assert_close(weight.grad, 2 + x.detach())
        torch.testing.assert_close(split.input_grads[0], weight.detach())


def layers(count):
    return filled(nn.Sequential(*[nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 4)) for _ in range(count)]))


def batches(steps):
    generator = torch.Generator().manual_seed(5)
    for _ in range(steps):
        yield torch.randn(2, 8, 4, generator=generator, dtype=torch.float64)


class Training(unittest.TestCase):
    def test_as_in_one_process(self):
        for cls, size, per_rank in (
            (ScheduleInterleavedZeroBubble, 2, 2), (ScheduleInterleavedZeroBubble, 1, 2),
            (ScheduleZBVZeroBubble, 1, 2), (ScheduleZBVZeroBubble, 2, 2), (ScheduleDualPipeV, 2, 2),
        ):
            with self.subTest(cls.__name__, size=size):
                self.check(cls, size, per_rank)

    def check(self, cls, size, per_rank, microbatches=4):
        stages = size * per_rank
        reference = layers(stages)
        optimizer = torch.optim.SGD(reference.parameters(), lr=0.1)
        for x, target in batches(2):
            F.mse_loss(reference(x), target).backward()
            optimizer.step()
            optimizer.zero_grad()

        def run():
            rank = dist.get_rank()
            mine = list(range(rank, stages, size))
            if cls is not ScheduleInterleavedZeroBubble:
                mine = [rank, stages - 1 - rank]
            model = layers(stages)
            schedule = cls([PipelineStage(model[i], i, stages, "cpu") for i in mine], microbatches, F.mse_loss)
            optimizer = torch.optim.SGD([p for i in mine for p in model[i].parameters()], lr=0.1)
            for x, target in batches(2):
                schedule.step(*((x,) if 0 in mine else ()), target=target if stages - 1 in mine else None)
                optimizer.step()
                optimizer.zero_grad()
            evaluated = schedule.eval(*((x,) if 0 in mine else ()))
            return {i: model[i] for i in mine}, evaluated

        for mine, evaluated in run_threads(size, run):
            for i, module in mine.items():
                for a, b in zip(module.parameters(), reference[i].parameters()):
                    self.assertLess((a - b).abs().max().item(), 1e-12)
            if stages - 1 in mine:
                torch.testing.assert_close(evaluated, reference(x).detach())

    def test_weights_that_a_module_does_itself(self):
        def run():
            done, model = [], layers(2)
            stages = [
                PipelineStage(model[i], i, 2, "cpu", dw_builder=lambda i=i: lambda: done.append(i)) for i in (0, 1)
            ]
            x, target = next(batches(1))
            ScheduleZBVZeroBubble(stages, 2, F.mse_loss).step(x, target=target)
            return sorted(done)

        self.assertEqual(run_threads(1, run), [[0, 0, 1, 1]])

    def test_sharded_stages_are_refused(self):
        def run():
            model = layers(2)
            fully_shard(model[1])
            stages = [PipelineStage(model[i], i, 2, "cpu") for i in (0, 1)]
            x, target = next(batches(1))
            with self.assertRaisesRegex(NotImplementedError, "cannot run a FSDPSequential"):
                ScheduleZBVZeroBubble(stages, 2, F.mse_loss).step(x, target=target)

        run_threads(1, run)


if __name__ == "__main__":
    unittest.main()
