"""Programs of several ranks for ``test_distributed_ddp.py``. Each asserts on every rank; run as a script it is one
rank of a world of processes: ``ddp_cases.py CASE RANK SIZE FILE BACKEND``."""

from __future__ import annotations

import copy
import io
import sys
import warnings

import corten as torch
import corten.distributed as dist
from corten import nn
from corten.nn import functional as F  # noqa: N812
from corten.nn.parallel import DistributedDataParallel as DDP

DOUBLE = torch.float64
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


class Layer(nn.Module):
    """A layer of a GPT."""

    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, words=17, width=8, layers=1):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(6, width)
        self.blocks = nn.Sequential(*(Layer(width) for _ in range(layers)))
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, x):
        h = self.words(x) + self.places(torch.arange(x.shape[1]))
        return self.head(self.blocks(h))


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.GroupNorm(2, channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return F.relu(x + self.conv2(F.relu(self.norm(self.conv1(x)))))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.body = nn.Sequential(Residual(4), nn.AvgPool2d(2), Residual(4))
        self.head = nn.Linear(4, 5)

    def forward(self, x):
        return self.head(self.body(self.stem(x)).mean((2, 3)))


def seeded(make, seed=0, dtype=DOUBLE):
    """A module whose numbers depend on the seed alone; ranks that are threads share the generator."""
    module = make().to(dtype)
    generator = torch.Generator()
    generator.manual_seed(seed)
    with torch.no_grad():
        for tensor in module.parameters():
            tensor.copy_(torch.randn(tensor.shape, generator=generator, dtype=dtype) * 0.3)
    return module


def draw(shape, seed):
    generator = torch.Generator()
    generator.manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=DOUBLE)


def words(count, seed):
    generator = torch.Generator()
    generator.manual_seed(seed)
    return torch.randint(0, 17, (count, 6), generator=generator)


def close(a, b, tolerance=1e-6):
    assert a.shape == b.shape, (a.shape, b.shape)
    assert (a - b).abs().max().item() <= tolerance, (a - b).abs().max().item()


def same_everywhere(module):
    """All ranks have the same bits."""
    flat = torch.cat([tensor.detach().reshape(-1).to(DOUBLE) for tensor in module.state_dict().values()])
    others = [torch.empty_like(flat) for _ in range(dist.get_world_size())]
    dist.all_gather(others, flat)
    assert all(torch.equal(flat, other) for other in others)


def gpt_loss(model, batch):
    return F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())


def resnet_loss(model, batch):
    x = draw((2, 3, 4, 4), batch)
    return F.mse_loss(model(x), draw((2, 5), batch + 1000))


def train(model, optimizer, losses, steps, hook=lambda: None):
    values = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = losses(step)
        loss.backward()
        hook()
        optimizer.step()
        values.append(loss.detach())
    return torch.stack(values)


def compare_with_one_process(make, loss_of, batches, steps, **options):
    """Losses and parameters of steps equal those that rank 0 gets alone from the batches of all ranks."""
    rank, size = dist.get_rank(), dist.get_world_size()
    alone, wanted = seeded(make), torch.empty(steps, dtype=DOUBLE)
    if rank == 0:
        optimizer = torch.optim.SGD(alone.parameters(), lr=0.05, momentum=0.9)
        wanted = train(
            alone, optimizer,
            lambda step: sum(loss_of(alone, batches(step, each)) for each in range(size)) / size, steps,
        )
    for tensor in [wanted, *alone.parameters()]:
        dist.broadcast(tensor.detach(), 0)
    # Other numbers on other ranks: those of rank 0 count.
    model = DDP(seeded(make, seed=rank), **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    found = train(model, optimizer, lambda step: loss_of(model, batches(step, rank)), steps)
    dist.all_reduce(found)
    close(found / size, wanted)
    for mine, theirs in zip(model.module.parameters(), alone.parameters()):
        close(mine, theirs)
    same_everywhere(model)
    return model


@case
def gpt():
    compare_with_one_process(
        Gpt, gpt_loss, lambda step, rank: words(2, 10 * step + rank), 50, bucket_cap_mb=0.001
    )


@case
def gpt_with_views():
    model = compare_with_one_process(
        Gpt, gpt_loss, lambda step, rank: words(2, 10 * step + rank), 5, gradient_as_bucket_view=True
    )
    storages = {param.grad.untyped_storage().data_ptr() for param in model.parameters()}
    assert len(storages) < len(list(model.parameters()))
    data = model._get_ddp_logging_data()
    assert data["has_rebuilt_buckets"] == 1 and data["iteration"] == 5


@case
def resnet():
    compare_with_one_process(ResNet, resnet_loss, lambda step, rank: 10 * step + rank, 50)


@case
def static_graph():
    compare_with_one_process(
        Gpt, gpt_loss, lambda step, rank: words(2, 10 * step + rank), 4, static_graph=True
    )


@case
def static_graph_with_checkpoints():
    """Parameters that a pass reaches twice, from passes within passes."""
    from corten.utils.checkpoint import checkpoint

    rank, size = dist.get_rank(), dist.get_world_size()

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.unused = nn.Linear(3, 3), nn.Linear(2, 2)

        def forward(self, x):
            x = checkpoint(self.layer, x, use_reentrant=True)
            return checkpoint(self.layer, x, use_reentrant=True)

    model = DDP(seeded(Twice), static_graph=True)
    for step in range(4):
        model.zero_grad()
        x = draw((2, 3), step * size + rank).requires_grad_()
        model(x).sum().backward()
        alone = seeded(Twice)
        for each in range(size):
            (alone(draw((2, 3), step * size + each).requires_grad_()).sum() / size).backward()
        close(model.module.layer.weight.grad, alone.layer.weight.grad, 1e-12)
        assert model.module.unused.weight.grad is None


@case
def no_sync():
    rank, size = dist.get_rank(), dist.get_world_size()
    alone = seeded(ResNet)
    for each in range(size):
        for micro in range(3):
            (resnet_loss(alone, 10 * micro + each) / size).backward()
    for options in ({}, {"gradient_as_bucket_view": True}):
        model = DDP(seeded(ResNet), **options)
        with model.no_sync():
            for micro in range(2):
                resnet_loss(model, 10 * micro + rank).backward()
            assert not model.require_backward_grad_sync
        resnet_loss(model, 20 + rank).backward()
        for mine, theirs in zip(model.parameters(), alone.parameters()):
            close(mine.grad, theirs.grad, 1e-12)


class Branches(nn.Module):
    """Uses one of two layers; the third never."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))

    def forward(self, x, which):
        return self.layers[which](x)


@case
def unused_parameters():
    rank, size = dist.get_rank(), dist.get_world_size()
    x = torch.ones(1, 2, dtype=DOUBLE)
    for options in ({}, {"gradient_as_bucket_view": True}):
        model = DDP(seeded(Branches), find_unused_parameters=True, **options)
        for step in range(3):
            model.zero_grad()
            model(x, min(rank, 1)).sum().backward()
            close(model.module.layers[0].bias.grad, torch.ones(2, dtype=DOUBLE) / size, 1e-12)
            close(
                model.module.layers[1].bias.grad, torch.ones(2, dtype=DOUBLE) * (size - 1) / size, 1e-12
            )
            assert model.module.layers[2].weight.grad is None
    model = DDP(seeded(Branches))
    model(x, 0).sum().backward()
    try:
        model(x, 0)
    except RuntimeError as error:
        text = str(error)
        assert text.startswith("Expected to have finished reduction in the prior iteration before starting")
        assert f"did not receive grad for rank {rank}: 2 3 4 5\n" in text, text
    else:
        raise AssertionError("no error")
    assert model._get_ddp_logging_data()["has_error"] == 1


@case
def outputs_that_the_loss_leaves_out():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            return {"a": self.a(x), "b": [self.b(x)]}

    model = DDP(seeded(Two), find_unused_parameters=True)
    for _ in range(3):
        model(torch.ones(1, 2, dtype=DOUBLE))["a"].sum().backward()
    assert model.module.b.weight.grad is None and model.module.a.weight.grad is not None


@case
def buffers():
    rank = dist.get_rank()

    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2, dtype=DOUBLE))
            self.register_buffer("seen", torch.full((2,), float(dist.get_rank()), dtype=DOUBLE))
            self.register_buffer("count", torch.tensor(dist.get_rank()))

        def forward(self, x):
            self.seen += x
            return self.weight * self.seen

    model = DDP(Counter())
    assert model.module.count.item() == 0 and model.module.seen[0].item() == 0
    for step in range(3):
        model(torch.full((2,), float(rank + 1), dtype=DOUBLE)).sum().backward()
        assert model.module.seen[0].item() == step + rank + 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = DDP(Counter(), broadcast_buffers=False)
    assert any("broadcast_buffers" in str(each.message) for each in caught)
    assert model.module.count.item() == rank and not model.will_sync_module_buffers()
    model = DDP(Counter(), forward_sync_buffers=False)
    assert model.module.count.item() == 0
    model._register_buffer_comm_hook(None, lambda state, named: None)
    model(torch.ones(2, dtype=DOUBLE)).sum().backward()


@case
def states():
    rank = dist.get_rank()
    model = DDP(seeded(ResNet, seed=rank))
    resnet_loss(model, rank).backward()
    state = model.state_dict()
    assert all(name.startswith("module.") for name in state)
    other = DDP(seeded(ResNet, seed=5))
    other.load_state_dict(state)
    same_everywhere(other)
    for mine, theirs in zip(model.parameters(), other.parameters()):
        assert torch.equal(mine, theirs)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    read = torch.load(file, weights_only=False)
    resnet_loss(read, rank).backward()
    for mine, theirs in zip(model.parameters(), read.parameters()):
        close(mine.grad, theirs.grad, 1e-12)
    part = DDP(seeded(ResNet), process_group=dist.new_group(list(range(dist.get_world_size()))))
    try:
        copy.deepcopy(part)
    except RuntimeError as error:
        assert "DDP Pickling/Unpickling are only supported" in str(error)
    else:
        raise AssertionError("no error")


@case
def mixed_precision():
    from corten.nn.parallel.distributed import _MixedPrecision

    low, full, seen = torch.bfloat16, torch.float32, []

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.cell, self.last = nn.Linear(4, 6), nn.GRU(6, 4), nn.Linear(6, 4)
            self.again = self.first
            self.register_buffer("scale", torch.ones(6))

        def forward(self, x, factor):
            seen.append((x.dtype, factor.dtype, self.first.weight.dtype, self.scale.dtype))
            x = self.cell(self.first(x) * self.scale)[0]
            return self.last(self.again(x)) * factor

    def filled():
        return seeded(Model, 1, full)

    generator = torch.Generator().manual_seed(dist.get_rank())
    x = torch.randn(3, 2, 4, generator=generator)
    for reduce_dtype in (None, full):
        model = filled()
        ddp = DDP(model, mixed_precision=_MixedPrecision(low, reduce_dtype, low))
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
        before = [parameter.detach().clone() for parameter in model.parameters()]
        output = ddp(x, factor=torch.ones(()))
        assert output.dtype == low and seen.pop() == (low, low, low, low)
        assert {p.dtype for p in model.parameters()} == {full} and model.first.weight.dtype == full
        assert all(weight.dtype == full for weight in model.cell._flat_weights)
        with torch.no_grad():
            assert model.first.weight is dict(model.named_parameters())["first.weight"]
        output.float().pow(2).sum().backward()
        # The same by hand.
        alone = filled().to(low)
        alone(x.to(low), torch.ones((), dtype=low)).float().pow(2).sum().backward()
        dtype = reduce_dtype or low
        for parameter, other in zip(model.parameters(), alone.parameters()):
            expected = other.grad.to(dtype) / dist.get_world_size()
            dist.all_reduce(expected)
            assert parameter.grad.dtype == full
            torch.testing.assert_close(parameter.grad, expected.float(), rtol=0, atol=0)
        optimizer.step()
        assert all((a - b).abs().max() > 0 for a, b in zip(before, model.parameters()))


@case
def hooks_that_know_the_module():
    import gc
    import weakref

    from corten.distributed.algorithms.ddp_comm_hooks import default_hooks as default

    class State:
        pass

    def hook(state, bucket):
        state.calls += 1
        return default.allreduce_hook(None, bucket)

    model = DDP(nn.Linear(2, 2))
    state = State()
    state.model, state.calls = model, 0
    model.register_comm_hook(state, hook)
    model(torch.ones(1, 2)).sum().backward()
    assert state.calls == 1
    left = weakref.ref(model), weakref.ref(state)
    del model, state
    gc.collect()
    assert [one() for one in left] == [None, None], "a module and the state of its hook keep each other"


@case
def hooks():
    from corten.distributed.algorithms.ddp_comm_hooks import default_hooks as default
    from corten.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, register_ddp_comm_hook

    rank, size = dist.get_rank(), dist.get_world_size()
    alone = seeded(ResNet)
    for each in range(size):
        (resnet_loss(alone, each) / size).backward()

    def check(model, tolerance):
        for _ in range(2):
            model.zero_grad()
            resnet_loss(model, rank).backward()
        for mine, theirs in zip(model.parameters(), alone.parameters()):
            close(mine.grad, theirs.grad, tolerance)

    for view in (False, True):
        for kind, tolerance in (("ALLREDUCE", 1e-12), ("FP16_COMPRESS", 2e-2), ("BF16_COMPRESS", 5e-2)):
            model = DDP(seeded(ResNet), gradient_as_bucket_view=view)
            register_ddp_comm_hook(getattr(DDPCommHookType, kind), model)
            check(model, tolerance)
        for kind, tolerance in (("ALLREDUCE", 1e-12), ("FP16_COMPRESS", 2e-2)):
            model = DDP(seeded(ResNet), gradient_as_bucket_view=view)
            model._register_builtin_comm_hook(getattr(dist.BuiltinCommHookType, kind))
            check(model, tolerance)
        model = DDP(seeded(ResNet), gradient_as_bucket_view=view)
        model.register_comm_hook(None, default.fp16_compress_wrapper(default.allreduce_hook))
        check(model, 2e-2)
        assert model._get_ddp_logging_data()["comm_hook"] == "fp16_compress_wrapper_hook"

    seen = []

    def spy(state, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        seen.append((bucket.index(), bucket.is_last(), len(bucket.gradients()), bucket.parameters()))
        assert sum(each.numel() for each in bucket.gradients()) == bucket.buffer().numel()
        return default.allreduce_hook(state, bucket)

    model = DDP(seeded(ResNet), bucket_cap_mb=1e-4)
    model.register_comm_hook(None, spy)
    check(model, 1e-12)
    second = seen[1:]
    assert [each[0] for each in second] == list(range(len(second))) and len(second) > 1
    assert [each[1] for each in second] == [False] * (len(second) - 1) + [True]
    for wrong, kind in ((3, TypeError), (lambda state, bucket: 3, TypeError)):
        model = DDP(seeded(ResNet))
        try:
            model.register_comm_hook(None, wrong)
            resnet_loss(model, rank).backward()
        except kind:
            pass
        else:
            raise AssertionError("no error")
    model = DDP(seeded(ResNet))
    model.register_comm_hook(None, default.allreduce_hook)
    try:
        model.register_comm_hook(None, default.allreduce_hook)
    except RuntimeError as error:
        assert "can only be called once" in str(error)
    else:
        raise AssertionError("no error")


@case
def power_sgd():
    from corten.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power

    rank, size = dist.get_rank(), dist.get_world_size()
    for hook, options in (
        (power.powerSGD_hook, {}),
        (power.powerSGD_hook, {"batch_tensors_with_same_shape": True, "warm_start": False}),
        (power.batched_powerSGD_hook, {}),
    ):
        model = DDP(seeded(lambda: nn.Sequential(nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 12))))
        state = power.PowerSGDState(
            None, matrix_approximation_rank=4, start_powerSGD_iter=2, min_compression_rate=1,
            orthogonalization_epsilon=1e-8, **options,
        )
        model.register_comm_hook(state, hook)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        x, y = draw((16, 12), rank), draw((16, 12), 50 + rank)
        losses = train(model, optimizer, lambda step: F.mse_loss(model(x), y), 20)
        same_everywhere(model)
        assert losses[-1] < losses[0] and state.iter == 20 and state.compression_stats()[0] > 1
    # A matrix of full rank is sent as it is.
    model = DDP(seeded(lambda: nn.Linear(3, 3, bias=False)))
    state = power.PowerSGDState(
        None, matrix_approximation_rank=3, start_powerSGD_iter=2, min_compression_rate=0.1
    )
    model.register_comm_hook(state, power.powerSGD_hook)
    for step in range(4):
        model.zero_grad()
        model(draw((4, 3), step * size + rank)).square().sum().backward()
        alone = seeded(lambda: nn.Linear(3, 3, bias=False))
        for each in range(size):
            (alone(draw((4, 3), step * size + each)).square().sum() / size).backward()
        close(model.module.weight.grad, alone.weight.grad, 1e-9)


@case
def quantized_hooks():
    from corten.distributed.algorithms.ddp_comm_hooks import quantization_hooks as quantization

    rank, size = dist.get_rank(), dist.get_world_size()
    make = lambda: nn.Linear(5, 5)  # noqa: E731
    alone = seeded(make, dtype=torch.float32)
    for each in range(size):
        (alone(draw((4, 5), each).float()).square().mean() / size).backward()
    for hook in (quantization.quantization_pertensor_hook, quantization.quantization_perchannel_hook):
        model = DDP(seeded(make, dtype=torch.float32))
        model.register_comm_hook(None, hook)
        model(draw((4, 5), rank).float()).square().mean().backward()
        close(model.module.weight.grad, alone.weight.grad, 1e-2)


@case
def uneven_inputs():
    rank, size = dist.get_rank(), dist.get_world_size()
    make = lambda: nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))  # noqa: E731
    for static_size in (True, False):
        for unused in (False, True):
            model = DDP(seeded(make), find_unused_parameters=unused)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            passes = 0
            with model.join(divide_by_initial_world_size=static_size):
                for step in range(4 + 2 * rank):
                    optimizer.zero_grad()
                    model(draw((4, 3), step)).sum().backward()
                    optimizer.step()
                    passes += 1
            assert passes == 4 + 2 * rank
            same_everywhere(model)
            assert model._get_ddp_logging_data()["join_uneven_inputs"] == 1
    # The gradients of the ranks that have inputs, divided by their number.
    model = DDP(seeded(lambda: nn.Linear(1, 1, bias=False)))
    with model.join(divide_by_initial_world_size=False):
        for step in range(1 + rank):
            model.zero_grad()
            model(torch.full((1, 1), float(rank + 1), dtype=DOUBLE)).sum().backward()
            active = range(step, size)
            wanted = sum(each + 1 for each in active) / len(active)
            assert abs(model.module.weight.grad.item() - wanted) < 1e-12
    try:
        with model.join(throw_on_early_termination=True):
            for _ in range(2 + rank):
                model(torch.ones(1, 1, dtype=DOUBLE)).sum().backward()
    except RuntimeError as error:
        text = str(error)
        assert "exhausted" in text, text
    else:
        raise AssertionError("no error")


@case
def zero():
    from corten.distributed.optim import ZeroRedundancyOptimizer

    rank = dist.get_rank()
    batches = lambda step: 10 * step + rank  # noqa: E731
    for views in (False, True):
        plain = DDP(seeded(ResNet))
        optimizer = torch.optim.AdamW(plain.parameters(), lr=1e-2, weight_decay=0.1)
        train(plain, optimizer, lambda step: resnet_loss(plain, batches(step)), 3)
        model = DDP(seeded(ResNet))
        spread = ZeroRedundancyOptimizer(
            model.parameters(), torch.optim.AdamW, parameters_as_bucket_view=views, lr=1e-2,
            weight_decay=0.1,
        )
        train(model, spread, lambda step: resnet_loss(model, batches(step)), 3)
        for mine, theirs in zip(model.parameters(), plain.parameters()):
            assert torch.equal(mine, theirs)
        assert len(spread.optim.state) < len(optimizer.state)
        try:
            spread.state_dict()
        except RuntimeError as error:
            assert "has not been consolidated on this rank" in str(error)
        else:
            raise AssertionError("no error")
        spread.consolidate_state_dict(to=0)
        states = [spread.state_dict() if rank == 0 else None]
        dist.broadcast_object_list(states, src=0)
        whole, wanted = states[0], optimizer.state_dict()
        assert set(whole["state"]) == set(wanted["state"])
        for index, state in wanted["state"].items():
            for name, value in state.items():
                close(whole["state"][index][name], value, 0)
        again = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1)
        again.load_state_dict(whole)
        assert again.optim.param_groups[0]["lr"] == 1e-2
        train(plain, optimizer, lambda step: resnet_loss(plain, batches(step)), 3)
        train(model, again, lambda step: resnet_loss(model, batches(step)), 3)
        for mine, theirs in zip(model.parameters(), plain.parameters()):
            assert torch.equal(mine, theirs)


@case
def zero_and_join():
    from corten.distributed.algorithms.join import Join
    from corten.distributed.optim import ZeroRedundancyOptimizer

    rank = dist.get_rank()
    model = DDP(seeded(lambda: nn.Linear(3, 3)))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    with Join([model, optimizer]):
        for step in range(3 + rank):
            optimizer.zero_grad()
            model(draw((2, 3), step)).sum().backward()
            optimizer.step()
    same_everywhere(model)


@case
def optimizers_in_backward():
    from corten.distributed.optim import _apply_optimizer_in_backward, _get_in_backward_optimizers

    rank = dist.get_rank()
    plain = DDP(seeded(ResNet))
    train(
        plain, torch.optim.SGD(plain.parameters(), lr=0.1), lambda step: resnet_loss(plain, step + rank), 4
    )
    for view in (False, True):
        module = seeded(ResNet)
        _apply_optimizer_in_backward(torch.optim.SGD, module.parameters(), {"lr": 0.1})
        assert len(_get_in_backward_optimizers(module)) == len(list(module.parameters()))
        model = DDP(module, gradient_as_bucket_view=view)
        for step in range(4):
            resnet_loss(model, step + rank).backward()
            assert all(param.grad is None for param in module.parameters())
        for mine, theirs in zip(module.parameters(), plain.parameters()):
            close(mine, theirs, 1e-12)


@case
def ignored_and_delayed_parameters():
    rank, size = dist.get_rank(), dist.get_world_size()
    module = seeded(lambda: nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), seed=rank)
    DDP._set_params_and_buffers_to_ignore_for_model(module, ["0.weight"])
    model = DDP(module)
    x = torch.full((1, 2), float(rank + 1), dtype=DOUBLE)
    model(x).sum().backward()
    own = [torch.empty(2, 2, dtype=DOUBLE) for _ in range(size)]
    dist.all_gather(own, module[0].weight.grad)
    assert not torch.equal(own[0], own[1])
    assert len(list(DDP._get_data_parallel_params(module))) == 3
    module = seeded(lambda: nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), dtype=torch.float32)
    named = dict(module.named_parameters())
    delayed = [(name, named[name]) for name in ("0.weight", "0.bias")]
    model = DDP(
        module, delay_all_reduce_named_params=delayed, param_to_hook_all_reduce=named["1.weight"]
    )
    assert len(list(model._module_parameters)) == 2
    model(x.float()).sum().backward()
    assert named["0.weight"].grad is not None


@case
def sparse_gradients():
    rank, size = dist.get_rank(), dist.get_world_size()
    make = lambda: nn.Embedding(5, 2, sparse=True)  # noqa: E731
    model = DDP(seeded(make))
    for _ in range(2):
        model.zero_grad()
        model(torch.tensor([0, rank])).sum().backward()
    grad = model.module.weight.grad
    wanted = torch.zeros(5, 2, dtype=DOUBLE)
    for each in range(size):
        wanted[0] += 1 / size
        wanted[each] += 1 / size
    assert grad.is_sparse
    close(grad.to_dense(), wanted, 1e-12)


@case
def refusals():
    rank, size = dist.get_rank(), dist.get_world_size()

    def refused(kind, text, function):
        try:
            function()
        except kind as error:
            assert text in str(error), str(error)
        else:
            raise AssertionError(f"no error: {text}")

    frozen = seeded(lambda: nn.Linear(2, 2))
    for param in frozen.parameters():
        param.requires_grad_(False)
    refused(RuntimeError, "doesn't have any parameter that requires a gradient", lambda: DDP(frozen))
    linear = seeded(lambda: nn.Linear(2, 2))
    refused(ValueError, "device_ids can only be None or contain a single element.",
            lambda: DDP(linear, device_ids=[0, 1]))
    refused(ValueError, "only work with single-device/multiple-device GPU modules or CPU modules",
            lambda: DDP(linear, device_ids=[0]))
    refused(RuntimeError, "appears not to match sizes of the same param in process",
            lambda: DDP(nn.Linear(2, 2 + rank)))
    refused(RuntimeError, "DDP expects same model across all ranks",
            lambda: DDP(nn.Linear(2, 2, bias=rank == 0)))
    model = DDP(linear)
    refused(ValueError, "sample rate", lambda: model._set_ddp_runtime_logging_sample_rate(0))
    model(torch.ones(1, 2, dtype=DOUBLE)).sum().backward()
    refused(RuntimeError, "should be called before training loop starts", model._set_static_graph)
    data = DDP(seeded(lambda: nn.Linear(2, 2)))._get_ddp_logging_data()
    assert data["world_size"] == size and data["rank"] == rank and data["module_name"] == "Linear"


@case
def manual_finalization():
    rank, size = dist.get_rank(), dist.get_world_size()
    model = DDP(seeded(lambda: nn.Linear(1, 1, bias=False)), lazy_bucket_allocation=True)
    model.require_manual_backward_finalization = True
    for step in range(3):
        model.zero_grad()
        loss = model(torch.full((1, 1), float(rank + 1), dtype=DOUBLE)).sum()
        assert model.should_finalize_after_backward == (step == 0), step
        loss.backward()
        model.finalize_backward()
        model._check_reducer_finalized()
        assert model.module.weight.grad.item() == sum(range(1, size + 1)) / size


@case
def several_forward_passes():
    rank, size = dist.get_rank(), dist.get_world_size()
    model = DDP(seeded(lambda: nn.Linear(1, 1, bias=False)))
    for _ in range(3):
        model.zero_grad()
        first = model(torch.full((1, 1), float(rank), dtype=DOUBLE))
        second = model(torch.full((1, 1), 2.0, dtype=DOUBLE))
        (first + second).sum().backward()
        assert abs(model.module.weight.grad.item() - (2 + (size - 1) / 2)) < 1e-12


@case
def sampler():
    from corten.utils.data import DataLoader, DistributedSampler, TensorDataset

    rank, size = dist.get_rank(), dist.get_world_size()
    data = TensorDataset(torch.arange(11))
    for drop_last in (False, True):
        sampler = DistributedSampler(data, shuffle=True, seed=3, drop_last=drop_last)
        assert (sampler.rank, sampler.num_replicas) == (rank, size)
        sampler.set_epoch(1)
        mine = torch.cat([batch for batch, in DataLoader(data, batch_size=2, sampler=sampler)])
        all_parts = [torch.empty_like(mine) for _ in range(size)]
        dist.all_gather(all_parts, mine)
        seen = torch.cat(all_parts)
        assert len(seen) == sampler.total_size
        assert len(set(seen.tolist())) == (sampler.total_size if drop_last else 11)


def main(name, rank, size, file, backend):
    dist.init_process_group(
        backend, init_method=f"file://{file}", rank=int(rank), world_size=int(size)
    )
    CASES[name]()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
