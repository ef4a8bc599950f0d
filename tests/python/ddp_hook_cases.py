"""Communication hooks of DistributedDataParallel."""

from __future__ import annotations

import corten as torch
import corten.distributed as dist
from corten import nn
from corten.nn import functional as F  # noqa: N812
from corten.nn.parallel import DistributedDataParallel as DDP
from ddp_world import ResNet, case, close, draw, resnet_loss, same_everywhere, seeded, train


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
