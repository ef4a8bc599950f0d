"""Tensor-parallel and sequence-parallel models: losses, gradients and collectives."""

from __future__ import annotations

import contextlib
import copy
import importlib
import unittest

from module_under_test import torch

import dtensor_models as models
from dtensor_world import run_ranks

dt, parallel = models.dt, models.parallel
debug = importlib.import_module(f"{torch.__name__}.distributed.tensor.debug")
F = torch.nn.functional


def model_of(seed):
    """The same model on every rank."""
    generator = torch.Generator().manual_seed(seed)
    model = models.Model().double()
    with torch.no_grad():
        for one in model.parameters():
            one.copy_(torch.randn(one.shape, generator=generator, dtype=torch.float64) * 0.3)
    return model


def worst_difference(mode, ranks, steps):
    """The largest difference of losses and gradients between one process and several, over some steps."""
    mesh = dt.init_device_mesh("cpu", (ranks,))
    whole = model_of(1)
    spread = copy.deepcopy(whole)
    if mode == "tensor":
        models.tensor_parallel(spread, mesh)
    else:
        models.sequence_parallel(spread, mesh, loss=mode == "loss")
    optimizers = [torch.optim.AdamW(one.parameters(), lr=0.01, foreach=False) for one in (whole, spread)]
    generator, worst = torch.Generator().manual_seed(2), 0.0
    for _ in range(steps):
        tokens = torch.randint(0, models.VOCABULARY, (2, models.LENGTH + 1), generator=generator)
        inputs, targets = tokens[:, :-1], tokens[:, 1:].flatten()
        expected = F.cross_entropy(whole(inputs).flatten(0, 1), targets)
        with parallel.loss_parallel() if mode == "loss" else contextlib.nullcontext():
            if mode == "loss":
                targets = dt.distribute_tensor(targets, mesh, [dt.Replicate()])
            loss = F.cross_entropy(spread(inputs).flatten(0, 1), targets)
            for one in optimizers:
                one.zero_grad()
            expected.backward()
            loss.backward()
        worst = max(worst, abs(expected.item() - loss.item()))
        for one, other in zip(whole.parameters(), spread.parameters()):
            found = other.grad.full_tensor() if isinstance(other.grad, dt.DTensor) else other.grad
            worst = max(worst, (one.grad - found).abs().max().item())
        for one in optimizers:
            one.step()
    return worst


class Training(unittest.TestCase):
    """Steps of a small GPT."""

    def check(self, mode, ranks, steps):
        for worst in run_ranks(ranks, lambda: worst_difference(mode, ranks, steps)):
            self.assertLess(worst, 1e-6)

    def test_tensor_parallel(self):
        self.check("tensor", 2, 50)

    def test_sequence_parallel_with_loss_parallel(self):
        self.check("loss", 2, 50)

    def test_four_ranks(self):
        self.check("tensor", 4, 3)
        self.check("sequence", 4, 3)
        self.check("loss", 4, 3)


def block_plan():
    """A layer whose activations lie in parts of the sequence."""
    part, whole = dt.Shard(1), dt.Replicate()
    return {
        "norm1": parallel.SequenceParallel(), "norm2": parallel.SequenceParallel(),
        "attention": parallel.PrepareModuleInput(input_layouts=(part,), desired_input_layouts=(whole,)),
        **{f"attention.{name}": parallel.ColwiseParallel() for name in ("query", "key", "value")},
        "attention.out": parallel.RowwiseParallel(output_layouts=part, use_local_output=False),
        "feedforward": parallel.PrepareModuleInput(input_layouts=(part,), desired_input_layouts=(whole,)),
        "feedforward.up": parallel.ColwiseParallel(),
        "feedforward.down": parallel.RowwiseParallel(output_layouts=part, use_local_output=False),
    }


#: What CommDebugMode of PyTorch 2.15 counts on two ranks: forward and backward.
COUNTS = {
    "feedforward": ({"all_reduce": 1}, {}),
    "feedforward of an input with a gradient": ({"all_reduce": 1}, {"all_reduce": 1}),
    "attention": ({"all_reduce": 1}, {"all_reduce": 3}),
    "tensor parallel": ({"all_gather_into_tensor": 1, "all_reduce": 4}, {"all_reduce": 5}),
    "block": ({"all_gather_into_tensor": 2, "reduce_scatter_tensor": 2},
              {"all_gather_into_tensor": 1, "reduce_scatter_tensor": 2}),
    "sequence parallel": ({"all_gather_into_tensor": 4, "reduce_scatter_tensor": 4},
                          {"all_gather_into_tensor": 4, "reduce_scatter_tensor": 3}),
}


def counted():
    """The same, here."""
    mesh = dt.init_device_mesh("cpu", (2,))
    x = torch.rand(2, models.LENGTH, models.WIDTH)
    leaf = x.clone().requires_grad_()
    tokens = torch.zeros(2, models.LENGTH, dtype=torch.int64)
    spread = dt.distribute_tensor(x, mesh, [dt.Shard(1)]).requires_grad_()
    feedforward = parallel.parallelize_module(models.Feedforward(), mesh, models.feedforward_plan())
    cases = {
        "feedforward": (feedforward, x), "feedforward of an input with a gradient": (feedforward, leaf),
        "attention": (parallel.parallelize_module(models.Attention(), mesh, models.attention_plan()), leaf),
        "tensor parallel": (models.tensor_parallel(models.Model(), mesh), tokens),
        "block": (parallel.parallelize_module(models.Block(), mesh, block_plan()), spread),
        "sequence parallel": (models.sequence_parallel(models.Model(), mesh), tokens),
    }
    found = {}
    for name, (module, given) in cases.items():
        with debug.CommDebugMode() as forward:
            result = module(given)
        with debug.CommDebugMode() as backward:
            result.sum().backward()
        found[name] = (names(forward), names(backward))
    return found


def names(mode):
    """Counts by the names of operators."""
    return {str(one).rpartition(".")[2]: count for one, count in mode.get_comm_counts().items()}


class Collectives(unittest.TestCase):
    """How many collectives models run."""

    def test_counts(self):
        for found in run_ranks(2, counted):
            self.assertEqual(found, COUNTS)

    def test_clipping(self):
        def clipped():
            mesh = dt.init_device_mesh("cpu", (2,))
            module = parallel.parallelize_module(models.Feedforward(), mesh, models.feedforward_plan())
            module(torch.rand(2, models.LENGTH, models.WIDTH)).sum().backward()
            with debug.CommDebugMode() as mode:
                torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            return names(mode)

        self.assertEqual(run_ranks(2, clipped), [{"all_reduce": 1}] * 2)


class Plans(unittest.TestCase):
    """What plans accept."""

    def test_errors(self):
        def refused():
            mesh = dt.init_device_mesh("cpu", (1,))
            with self.assertRaisesRegex(NotImplementedError, "only support nn.Linear and nn.Embedding"):
                parallel.parallelize_module(torch.nn.ReLU(), mesh, parallel.ColwiseParallel())
            with self.assertRaisesRegex(TypeError, "Expect Union"):
                parallel.parallelize_module(torch.nn.ReLU(), mesh, 3)
            with self.assertRaisesRegex(ValueError, "only accepts a 1D DeviceMesh"):
                parallel.parallelize_module(
                    torch.nn.ReLU(), dt.init_device_mesh("cpu", (1, 1)), parallel.ColwiseParallel())
            with self.assertWarnsRegex(UserWarning, "could not be resolved"):
                parallel.parallelize_module(models.Feedforward(), mesh, {"absent": parallel.ColwiseParallel()})

        run_ranks(1, refused)

    def test_inputs_and_outputs(self):
        class Doubled(torch.nn.Module):
            def forward(self, x, *, y):
                return x * 2, y

        def prepared():
            mesh = dt.init_device_mesh("cpu", (2,))
            part, whole = dt.Shard(0), dt.Replicate()
            module = parallel.parallelize_module(Doubled(), mesh, parallel.PrepareModuleInputOutput(
                input_layouts=(part,), desired_input_layouts=(whole,), input_kwarg_layouts={"y": part},
                desired_input_kwarg_layouts={"y": dt.Shard(-1)}, output_layouts=(whole, None),
                desired_output_layouts=(dt.Shard(1), None)))
            x, y = module(torch.ones(2, 4), y=torch.ones(2, 4))
            self.assertEqual(tuple(x.shape), (4, 2))
            self.assertEqual((y.placements, tuple(y.shape)), ((dt.Shard(1),), (4, 4)))

        run_ranks(2, prepared)


if __name__ == "__main__":
    unittest.main()
