"""Pipelines over ranks that are threads: schedules train as one process does; microbatches; errors."""

import unittest

from module_under_test import torch

if torch.__name__ != "corten":
    raise unittest.SkipTest("needs threads as ranks")

import corten.distributed as dist
from corten.distributed.device_mesh import init_device_mesh
from corten.distributed.fsdp import fully_shard
from corten.distributed.pipelining import (
    PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B, ScheduleLoopedBFS,
)
from corten.distributed.pipelining.microbatch import (
    TensorChunkSpec, _Replicate, merge_chunks, split_args_kwargs_into_chunks, sum_reducer,
)
from corten.distributed.pipelining.schedules import get_schedule_class
from corten.testing._internal.distributed.multi_threaded_pg import run_threads

from sharded_models import GPT, filled, token_batches, token_loss

nn, F = torch.nn, torch.nn.functional


class Layer(nn.Module):
    """A stage with two inputs and outputs, one of them whole numbers, and a scale by keyword."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, places, scale=None):
        x = torch.tanh(self.linear(x)) + places.unsqueeze(-1)
        return (x if scale is None else x * scale), places


class Last(Layer):
    def forward(self, x, places):
        return super().forward(x, places)[0]


def layers(count):
    return filled(nn.Sequential(*[Layer() for _ in range(count - 1)], Last()))


def whole(model, x, places):
    value = (x, places)
    for layer in model:
        value = layer(*value)
    return value


def loss_of(output, target):
    return F.mse_loss(output, target)


def batches(steps, rows=8):
    generator = torch.Generator().manual_seed(4)
    for i in range(steps):
        count = rows if i % 2 == 0 else rows // 2
        x = torch.randn(count, 4, generator=generator, dtype=torch.float64)
        target = torch.randn(count, 4, generator=generator, dtype=torch.float64)
        yield x, torch.arange(count) % 3, target


def trained_alone(stages, steps, scale=1.0):
    """Outputs, losses and the model after training in one process."""
    model = layers(stages)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    outputs = []
    for x, places, target in batches(steps):
        output = whole(model, x, places)
        (loss_of(output, target) * scale).backward()
        optimizer.step()
        optimizer.zero_grad()
        outputs.append(output.detach())
    return model, outputs


def trained_in_stages(make, stages, steps, microbatches):
    """The same by a schedule: the outputs in the last stage's rank, and this rank's stages."""
    rank, size = dist.get_rank(), dist.get_world_size()
    model = layers(stages)
    mine = {i: model[i] for i in range(rank, stages, size)}
    made = [PipelineStage(module, i, stages, "cpu") for i, module in mine.items()]
    schedule = make(made, microbatches)
    parameters = [p for module in mine.values() for p in module.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    outputs, losses = [], []
    for x, places, target in batches(steps):
        arguments = (x, places) if 0 in mine else ()
        target = target if stages - 1 in mine else None
        outputs.append(schedule.step(*arguments, target=target, losses=losses))
        optimizer.step()
        optimizer.zero_grad()
    evaluated = schedule.eval(*arguments, target=target)
    return mine, outputs, losses, evaluated


def single(cls):
    return lambda stages, count: cls(stages[0], count, loss_of)


def multi(cls):
    return lambda stages, count: cls(stages, count, loss_of)


class Schedules(unittest.TestCase):
    def check(self, make, size, stages, microbatches=4, steps=4):
        reference, expected = trained_alone(stages, steps)

        def run():
            return trained_in_stages(make, stages, steps, microbatches)

        for rank, (mine, outputs, losses, evaluated) in enumerate(run_threads(size, run)):
            for i, module in mine.items():
                for a, b in zip(module.parameters(), reference[i].parameters()):
                    self.assertLess((a - b).abs().max().item(), 1e-12)
            if stages - 1 not in mine:
                self.assertEqual((outputs, losses, evaluated), ([None] * steps, [], None))
                continue
            for output, one in zip(outputs, expected):
                self.assertLess((output - one).abs().max().item(), 1e-12)
            self.assertEqual(len(losses), microbatches)
            self.assertFalse(evaluated.requires_grad)

    def test_one_stage_in_each_rank(self):
        for cls in (ScheduleGPipe, Schedule1F1B):
            for size, microbatches in ((1, 2), (2, 4), (3, 2), (3, 4)):
                with self.subTest(cls.__name__, size=size, microbatches=microbatches):
                    self.check(single(cls), size, size, microbatches)

    def test_several_stages_in_each_rank(self):
        for cls in (ScheduleInterleaved1F1B, ScheduleLoopedBFS):
            for size, stages in ((1, 2), (2, 4), (2, 6)):
                with self.subTest(cls.__name__, size=size, stages=stages):
                    self.check(multi(cls), size, stages)

    def test_gradients_of_the_sum(self):
        def run():
            stages = [PipelineStage(layers(2)[dist.get_rank()], dist.get_rank(), 2, "cpu")]
            schedule = ScheduleGPipe(stages[0], 4, loss_of, scale_grads=False)
            x, places, target = next(batches(1))
            schedule.step(*((x, places) if dist.get_rank() == 0 else ()), target=target)
            return stages[0].submod.linear.weight.grad

        model = layers(2)
        x, places, target = next(batches(1))
        (4 * loss_of(whole(model, x, places), target)).backward()
        for grad, layer in zip(run_threads(2, run), model):
            self.assertLess((grad - layer.linear.weight.grad).abs().max().item(), 1e-12)

    def test_keywords_and_chunk_specs(self):
        def run():
            rank = dist.get_rank()
            stage = PipelineStage(layers(2)[rank], rank, 2, "cpu")
            spec = {"args_chunk_spec": (TensorChunkSpec(0), TensorChunkSpec(0)),
                    "kwargs_chunk_spec": {"scale": _Replicate()}} if rank == 0 else {}
            schedule = ScheduleGPipe(stage, 2, **spec)
            x, places, _ = next(batches(1))
            return schedule.eval(x, places, scale=2.0) if rank == 0 else schedule.eval()

        model = layers(2)
        x, places, _ = next(batches(1))
        expected = model[1](*model[0](x, places, scale=2.0))
        self.assertLess((run_threads(2, run)[1] - expected).abs().max().item(), 1e-12)

    def test_batches_that_are_cut_already(self):
        def scaled(output, target, scale=1.0):
            return F.mse_loss(output, target) * scale

        def run(cut):
            stage = PipelineStage(layers(1)[0], 0, 1, "cpu")
            schedule = ScheduleGPipe(stage, 2, scaled)
            x, places, target = next(batches(1))
            losses = []
            if cut:
                inputs = list(zip(x.chunk(2), places.chunk(2)))
                schedule.step(arg_mbs=inputs, target_mbs=list(target.chunk(2)), losses=losses,
                              loss_kwargs={"scale": 3.0})
            else:
                schedule.step(x, places, target=target, losses=losses, loss_kwargs={"scale": 3.0})
            with self.assertRaisesRegex(ValueError, "Expecting 2 arg_mbs but got 1"):
                schedule.step(arg_mbs=[(x, places)], target=target)
            return losses, stage.submod.linear.weight.grad

        (a, first), (b, second) = run_threads(1, run, True)[0], run_threads(1, run, False)[0]
        self.assertEqual(a, b)
        self.assertTrue(torch.equal(first, second))

    def test_gpt_for_50_steps(self):
        class Start(nn.Module):
            def __init__(self, model):
                super().__init__()
                self.tokens, self.places, self.block = model.tokens, model.places, model.blocks[0]

            def forward(self, tokens):
                return self.block(self.tokens(tokens) + self.places.weight[:tokens.shape[1]])

        class End(nn.Module):
            def __init__(self, model):
                super().__init__()
                self.block, self.norm, self.head = model.blocks[1], model.norm, model.head

            def forward(self, x):
                return self.head(self.norm(self.block(x)))

        def build():
            model = GPT()
            # Stages share no parameters.
            model.head = nn.Linear(6, 13, bias=False)
            return filled(model)

        def run():
            rank = dist.get_rank()
            module = (Start, End)[rank](build())
            schedule = Schedule1F1B(PipelineStage(module, rank, 2, "cpu"), 2, token_loss)
            optimizer = torch.optim.SGD(module.parameters(), lr=1e-2, momentum=0.9)
            for tokens, targets in token_batches(50, 4):
                schedule.step(*((tokens,) if rank == 0 else ()), target=targets if rank else None)
                optimizer.step()
                optimizer.zero_grad()
            return dict(module.named_parameters())

        model = build()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
        for tokens, targets in token_batches(50, 4):
            token_loss(model(tokens), targets).backward()
            optimizer.step()
            optimizer.zero_grad()
        start, end = run_threads(2, run)
        for found, expected in ((start, Start(model)), (end, End(model))):
            for name, parameter in expected.named_parameters():
                self.assertLess((found[name] - parameter).abs().max().item(), 1e-6)

    def test_sharded_stages(self):
        reference, _ = trained_alone(2, 2)

        def run():
            mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("stage", "data"))
            stage_rank, data_rank = mesh.get_coordinate()
            module = layers(2)[stage_rank]
            fully_shard(module, mesh=mesh["data"])
            stage = PipelineStage(module, stage_rank, 2, "cpu", group=mesh.get_group("stage"))
            schedule = Schedule1F1B(stage, 2, loss_of)
            optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
            for x, places, target in batches(2):
                x, places, target = (part.chunk(2)[data_rank] for part in (x, places, target))
                schedule.step(*((x, places) if stage.is_first else ()), target=target)
                optimizer.step()
                optimizer.zero_grad()
            return stage_rank, [parameter.full_tensor() for parameter in module.parameters()]

        for i, found in run_threads(4, run):
            for a, b in zip(found, reference[i].parameters()):
                self.assertLess((a - b).abs().max().item(), 1e-12)

    def test_what_is_wrong_is_said(self):
        def run():
            example = (torch.zeros(1, 4), torch.zeros(1, dtype=torch.int64))
            stage = PipelineStage(Last(), 0, 1, "cpu", input_args=example)
            with self.assertRaisesRegex(ValueError, "Expecting 4 arg_mbs but got 2"):
                ScheduleGPipe(stage, 4).step(torch.zeros(2, 4), torch.arange(2))
            with self.assertRaisesRegex(TypeError, "losses must be a list"):
                ScheduleGPipe(stage, 1).step(torch.zeros(1, 4), torch.arange(1), losses=())
            with self.assertRaisesRegex(ValueError, "Stage 0 input 0: expected .*1, 4.*got .*2, 4"):
                ScheduleGPipe(stage, 1).step(torch.zeros(2, 4), torch.arange(2))
            schedule = ScheduleGPipe(stage, 1, loss_of)
            with self.assertRaisesRegex(RuntimeError, "the loss needs a target"):
                schedule.step(torch.zeros(1, 4), torch.arange(1))
            with torch.no_grad(), self.assertRaisesRegex(RuntimeError, "call eval"):
                schedule.step(torch.zeros(1, 4), torch.arange(1))
            with self.assertRaisesRegex(RuntimeError, r"\[Stage 0\] failed to run forward of microbatch 0"):
                PipelineStage(nn.Linear(4, 4), 0, 1, "cpu").forward_one_chunk(0, (torch.zeros(1, 5),))
            with self.assertRaisesRegex(ValueError, "out of range"):
                PipelineStage(Last(), 1, 1, "cpu")
            with self.assertRaisesRegex(ValueError, "must be equal to the group size"):
                ScheduleGPipe(PipelineStage(Last(), 0, 2, "cpu"), 1)
            with self.assertRaisesRegex(ValueError, "at least two stages"):
                ScheduleLoopedBFS([stage], 1)
            with self.assertRaisesRegex(ValueError, "Unknown schedule name"):
                get_schedule_class("none")
            self.assertIs(get_schedule_class("1f1b"), Schedule1F1B)

        run_threads(1, run)


class Microbatches(unittest.TestCase):
    def test_split_and_merged(self):
        x, y = torch.arange(10).reshape(5, 2), torch.arange(6).reshape(2, 3)
        args, kwargs = split_args_kwargs_into_chunks(
            (x, 7), {"y": y}, 3, kwargs_chunk_spec={"y": TensorChunkSpec(1)})
        self.assertEqual([len(one[0]) for one in args], [2, 2, 1])
        self.assertEqual([one[1] for one in args], [7, 7, 7])
        self.assertEqual([one["y"].shape for one in kwargs], [(2, 1)] * 3)
        self.assertTrue(torch.equal(merge_chunks([one[0] for one in args], None), x))
        merged = merge_chunks(
            [{"y": one["y"], "n": 1.0} for one in kwargs], {"y": TensorChunkSpec(1), "n": sum_reducer})
        self.assertTrue(torch.equal(merged["y"], y))
        self.assertEqual(merged["n"], 3.0)
        self.assertEqual(len(split_args_kwargs_into_chunks((x,), None, 8)[0]), 5)
        with self.assertRaisesRegex(ValueError, "Unsupported chunk spec"):
            split_args_kwargs_into_chunks((3,), None, 2, args_chunk_spec=(TensorChunkSpec(0),))
        self.assertEqual(TensorChunkSpec.from_tuple((0, 1)), (TensorChunkSpec(0), TensorChunkSpec(1)))


if __name__ == "__main__":
    unittest.main()
