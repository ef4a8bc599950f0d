"""Models cut into stages by tracing: what stages have and hand on; training as in one process."""

import threading
import unittest

from module_under_test import torch

if torch.__name__ != "corten":
    raise unittest.SkipTest("needs threads as ranks")

import corten.distributed as dist
from corten.distributed.pipelining import (
    Pipe, Schedule1F1B, ScheduleGPipe, ScheduleInterleavedZeroBubble, SplitPoint, build_stage, pipe_split, pipeline,
)
from corten.distributed.pipelining.stage import _PipelineStage
from corten.testing._internal.distributed.multi_threaded_pg import run_threads

from sharded_models import GPT, filled, token_batches, token_loss

nn, F = torch.nn, torch.nn.functional

#: One program is traced at a time; in the ranks of a program, which are processes, nothing else happens.
tracing = threading.Lock()


class Chain(nn.Module):
    """Layers with a value that goes past some of them."""

    def __init__(self, marked=False):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(3)])
        self.norm = nn.BatchNorm1d(4)
        self.last = nn.Linear(4, 2)
        self.register_buffer("scale", torch.full((4,), 2.0))
        self.marked = marked

    def forward(self, x, places, shift=None):
        x = start = self.first(x) + places.unsqueeze(-1)
        for i, layer in enumerate(self.layers):
            if self.marked and i:
                pipe_split()
            x = self.norm(layer(x)) if i == 1 else layer(x)
        x = x * self.scale + start
        x = self.last(x if shift is None else x + shift)
        return {"result": x, "places": places}


BEGINNINGS = {"layers.1": SplitPoint.BEGINNING, "layers.2": SplitPoint.BEGINNING}


def example(rows=2):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(rows, 4, generator=generator, dtype=torch.float64), torch.arange(rows)


class Cuts(unittest.TestCase):
    def test_stages_have_their_parts(self):
        model = filled(Chain())
        pipe = pipeline(model, example(), split_spec=BEGINNINGS)
        self.assertIsInstance(pipe, Pipe)
        self.assertEqual(pipe.num_stages, 3)
        names = [[name for name, _ in pipe.get_stage_module(i).named_parameters()] for i in range(3)]
        self.assertEqual(names, [
            ["first.weight", "first.bias", "layers.0.0.weight", "layers.0.0.bias"],
            ["layers.1.0.weight", "layers.1.0.bias", "norm.weight", "norm.bias"],
            ["layers.2.0.weight", "layers.2.0.bias", "last.weight", "last.bias"]])
        self.assertIs(pipe.get_stage_module(1).norm.weight, model.norm.weight)
        self.assertIn("scale", dict(pipe.get_stage_module(2).named_buffers()))
        self.assertIn("norm.running_mean", dict(pipe.get_stage_module(1).named_buffers()))
        self.assertNotIn("forward", vars(model.layers[1]))
        self.assertIn("submod_pp_2", str(pipe))
        self.assertEqual(pipe.info().num_stages, 3)
        with self.assertRaisesRegex(ValueError, "Invalid stage index 3"):
            pipe.get_stage_module(3)

    def test_results_are_those_of_the_model(self):
        args, shift = example(), torch.ones(4, dtype=torch.float64)

        def by_policy(traced):
            for node in list(traced.graph.nodes):
                if node.name in ("linear_1", "linear_3", "linear_4"):
                    with traced.graph.inserting_before(node):
                        traced.graph.call_function(pipe_split)
            return traced

        ends = {"first": SplitPoint.END, "layers.1.0": SplitPoint.END, "last": SplitPoint.END}
        for kwargs in ({}, {"shift": shift}):
            for options, count, marked in (
                ({"split_spec": BEGINNINGS}, 3, False), ({"split_spec": ends}, 3, False), ({}, 3, True),
                ({"split_policy": by_policy}, 4, False), ({}, 1, False),
            ):
                with self.subTest(options=options, marked=marked, keywords=list(kwargs)):
                    model, reference = filled(Chain(marked)), filled(Chain())
                    pipe = pipeline(model, args, kwargs, **options)
                    self.assertEqual(pipe.num_stages, count)
                    for _ in range(2):
                        found, expected = pipe(*args, **kwargs), reference(*args, **kwargs)
                        torch.testing.assert_close(found, expected)
                    # Writes to buffers are where the values are.
                    torch.testing.assert_close(model.norm.running_mean, reference.norm.running_mean)
                    torch.testing.assert_close(pipe.split_gm(*args, **kwargs), expected)

    def test_errors(self):
        with self.assertRaisesRegex(ValueError, "Cannot specify both"):
            pipeline(Chain(), example(), split_spec={}, split_policy=lambda traced: traced)
        with self.assertRaisesRegex(AttributeError, "Specified target nothing"):
            pipeline(filled(Chain()), example(), split_spec={"nothing": SplitPoint.END})
        with self.assertRaisesRegex(ValueError, "Unknown split point type"):
            pipeline(filled(Chain()), example(), split_spec={"last": 1})
        self.assertIsNone(pipe_split())


class Model(nn.Sequential):
    def __init__(self):
        super().__init__(*[nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 4)) for _ in range(4)])


def batches(steps):
    generator = torch.Generator().manual_seed(5)
    for _ in range(steps):
        yield torch.randn(2, 8, 4, generator=generator, dtype=torch.float64)


class Training(unittest.TestCase):
    def test_as_in_one_process(self):
        reference = filled(Model())
        optimizer = torch.optim.SGD(reference.parameters(), lr=0.1)
        for x, target in batches(3):
            F.mse_loss(reference(x), target).backward()
            optimizer.step()
            optimizer.zero_grad()

        def run(cls):
            rank, model = dist.get_rank(), filled(Model())
            count = 4 if cls is ScheduleInterleavedZeroBubble else 2
            step = 4 // count
            spec = {str(i): SplitPoint.BEGINNING for i in range(step, 4, step)}
            with tracing:
                pipe = pipeline(model, (torch.zeros(2, 4, dtype=torch.float64),), split_spec=spec)
            stages = [pipe.build_stage(i, "cpu") for i in range(rank, count, 2)]
            self.assertIsInstance(stages[0], _PipelineStage)
            schedule = cls(stages if count == 4 else stages[0], 4, F.mse_loss)
            optimizer = torch.optim.SGD([p for one in stages for p in one.submod.parameters()], lr=0.1)
            for x, target in batches(3):
                schedule.step(*((x,) if rank == 0 else ()), target=target if rank else None)
                optimizer.step()
                optimizer.zero_grad()
            return {name: value for one in stages for name, value in one.submod.named_parameters()}

        expected = dict(reference.named_parameters())
        for cls in (ScheduleGPipe, Schedule1F1B, ScheduleInterleavedZeroBubble):
            found = {}
            for part in run_threads(2, run, cls):
                found.update(part)
            self.assertEqual(found.keys(), expected.keys())
            for name, value in expected.items():
                torch.testing.assert_close(found[name], value)

    def test_a_language_model(self):
        tokens, targets = next(iter(token_batches(1, 4)))
        model = filled(GPT())
        token_loss(model(tokens), targets).backward()
        weight = model.tokens.weight.grad

        def run():
            rank = dist.get_rank()
            with tracing:
                pipe = pipeline(filled(GPT()), (tokens[:2],), split_spec={"blocks.1": SplitPoint.BEGINNING})
            stage = build_stage(pipe.get_stage_module(rank), rank, pipe.info(), torch.device("cpu"))
            schedule = ScheduleGPipe(stage, 2, token_loss)
            schedule.step(*((tokens,) if rank == 0 else ()), target=targets if rank else None)
            shared = dict(stage.submod.named_parameters())
            return next(value.grad for name, value in shared.items() if name in ("tokens.weight", "head.weight"))

        # Each stage has the gradient of its use of the weight that both have.
        torch.testing.assert_close(sum(run_threads(2, run)), weight)


if __name__ == "__main__":
    unittest.main()
