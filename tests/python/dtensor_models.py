"""A GPT-like model, whole and tensor-parallel."""

from __future__ import annotations

import importlib

from module_under_test import torch

nn, F = torch.nn, torch.nn.functional
dt = importlib.import_module(f"{torch.__name__}.distributed.tensor")
parallel = importlib.import_module(f"{torch.__name__}.distributed.tensor.parallel")

WIDTH, HEADS, LENGTH, VOCABULARY = 8, 4, 6, 12


class Attention(nn.Module):
    """Causal attention with separate projections."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (part(x).view(batch, length, -1, WIDTH // HEADS).transpose(1, 2)
                   for part in (self.query, self.key, self.value))
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(found.transpose(1, 2).reshape(batch, length, -1))


class Feedforward(nn.Module):
    """Two linear layers."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    """One layer."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention, self.feedforward = Attention(), Feedforward()

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feedforward(self.norm2(x))


class Model(nn.Module):
    """Tokens, layers, scores."""

    def __init__(self, layers=1):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(layers))
        self.norm = nn.LayerNorm(WIDTH)
        self.scores = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.scores(self.norm(x))


def feedforward_plan():
    """Columns, then rows."""
    return {"up": parallel.ColwiseParallel(), "down": parallel.RowwiseParallel()}


def attention_plan():
    """The heads over the ranks."""
    return {**{name: parallel.ColwiseParallel() for name in ("query", "key", "value")},
            "out": parallel.RowwiseParallel()}


def tensor_parallel(model, mesh):
    """Weights over the ranks; activations between layers replicated."""
    plan = {"tokens": parallel.RowwiseParallel(input_layouts=dt.Replicate()),
            "places": parallel.RowwiseParallel(input_layouts=dt.Replicate()),
            "scores": parallel.ColwiseParallel(output_layouts=dt.Replicate())}
    for name, one in (*(("attention." + k, v) for k, v in attention_plan().items()),
                      *(("feedforward." + k, v) for k, v in feedforward_plan().items())):
        plan["layers.*." + name] = one
    return parallel.parallelize_module(model, mesh, plan)


def sequence_parallel(model, mesh, loss=False):
    """As well, the activations between layers in parts of the sequence."""
    part, whole = dt.Shard(1), dt.Replicate()
    plan = {
        "tokens": parallel.RowwiseParallel(input_layouts=whole, output_layouts=part, use_local_output=False),
        "places": parallel.RowwiseParallel(input_layouts=whole, output_layouts=dt.Shard(0), use_local_output=False),
        "layers.*.norm1": parallel.SequenceParallel(), "layers.*.norm2": parallel.SequenceParallel(),
        "layers.*.attention": parallel.PrepareModuleInput(
            input_layouts=(part,), desired_input_layouts=(whole,), use_local_output=False),
        "layers.*.attention.out": parallel.RowwiseParallel(output_layouts=part, use_local_output=False),
        "layers.*.feedforward": parallel.PrepareModuleInput(
            input_layouts=(part,), desired_input_layouts=(whole,), use_local_output=False),
        "layers.*.feedforward.up": parallel.ColwiseParallel(),
        "layers.*.feedforward.down": parallel.RowwiseParallel(output_layouts=part, use_local_output=False),
        "norm": parallel.SequenceParallel(),
        "scores": parallel.ColwiseParallel(
            input_layouts=part, output_layouts=dt.Shard(-1) if loss else whole, use_local_output=not loss),
    }
    for name in ("query", "key", "value"):
        plan[f"layers.*.attention.{name}"] = parallel.ColwiseParallel()
    return parallel.parallelize_module(model, mesh, plan)
