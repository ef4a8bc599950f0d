"""fully_shard over ranks that are threads: training as in one process, policies, states, errors."""

import os
import tempfile
import unittest
import warnings

from module_under_test import torch

if torch.__name__ != "corten":
    raise unittest.SkipTest("needs threads as ranks")

import corten.distributed as dist
import corten.distributed.checkpoint as dcp
from corten.distributed._composable import checkpoint, replicate as in_place_replicate
from corten.distributed._composable.replicate_with_fsdp import ReplicateModule, replicate
from corten.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl, CheckpointWrapper, apply_activation_checkpointing, checkpoint_wrapper, offload_wrapper,
)
from corten.distributed.checkpoint.state_dict import (
    StateDictOptions, get_model_state_dict, get_optimizer_state_dict, set_model_state_dict,
    set_optimizer_state_dict,
)
from corten.distributed.device_mesh import init_device_mesh
from corten.distributed.fsdp import (
    CPUOffloadPolicy, DataParallelMeshDims, FSDPModule, FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard,
    register_fsdp_forward_method,
)
from corten.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from corten.distributed.fsdp.wrap import ModuleWrapPolicy, enable_wrap, size_based_auto_wrap_policy, wrap
from corten.distributed.tensor import DTensor, Replicate, Shard
from corten.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from corten.testing._internal.distributed.multi_threaded_pg import run_threads

from sharded_models import GPT, Residual, ResNet, filled, token_batches, token_loss
from sharded_training import MLP, differences, inputs, share, sharded, squares, trained_beside

nn = torch.nn


class Training(unittest.TestCase):
    def test_adam_with_clipped_gradients(self):
        worst = trained_beside(
            lambda: GPT(layers=1), sharded, lambda: token_batches(2, 4), token_loss, torch.optim.AdamW,
            clip=1.0, lr=1e-2)
        self.assertLess(worst, 1e-6)

    def test_arrangements(self):
        def prefetching(model):
            model = sharded(model)
            blocks = list(model.children())
            for a, b in zip(blocks, blocks[1:]):
                a.set_modules_to_forward_prefetch([b])
                b.set_modules_to_backward_prefetch([a])
            return model

        def groups(model):
            mesh = init_device_mesh("cpu", (2,))
            fully_shard([model[0], model[1]], mesh=mesh)
            return fully_shard(model, mesh=mesh)

        def checkpointed(model):
            apply_activation_checkpointing(model, check_fn=lambda m: type(m) is nn.Sequential)
            self.assertIsInstance(model[0], CheckpointWrapper)
            return sharded(model)

        def in_place(model):
            for block in model:
                checkpoint(block)
            return sharded(model)

        def replicas(model):
            mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
            return sharded(model, mesh)

        def averaged(model):
            model = in_place_replicate(model)
            self.assertIsInstance(model, MLP)
            return model

        def replicated(model):
            mesh = init_device_mesh("cpu", (2,))
            for block in model:
                replicate(block, mesh=mesh)
            model = replicate(model, mesh=mesh)
            self.assertIsInstance(model, ReplicateModule)
            return model

        arrangements = {
            "default": sharded, "whole": lambda m: sharded(m, reshard_after_forward=False),
            "smaller": lambda m: sharded(m, reshard_after_forward=2),
            "last": lambda m: sharded(m, shard_placement_fn=lambda p: Shard(0)),
            "offload": lambda m: sharded(m, offload_policy=CPUOffloadPolicy()),
            "root": lambda m: fully_shard(m), "prefetch": prefetching, "groups": groups,
            "checkpointed": checkpointed, "in place": in_place, "replicas": replicas,
            "replicated": replicated, "averaged": averaged,
        }
        for name, shard in arrangements.items():
            with self.subTest(name):
                size = 4 if name in ("smaller", "replicas") else 2
                worst = trained_beside(lambda: MLP(2), shard, lambda: inputs(2), squares, size=size)
                self.assertLess(worst, 1e-12)

    def test_mixed_precision(self):
        def run():
            policy = MixedPrecisionPolicy(
                param_dtype=torch.bfloat16, reduce_dtype=torch.float32, output_dtype=torch.float32)
            seen = []
            model = filled(MLP()).float()
            model[1].register_forward_pre_hook(
                lambda module, args: seen.append((args[0].dtype, module[0].weight.dtype)))
            model = sharded(model, mp_policy=policy)
            output = model(torch.randn(2, 4))
            output.sum().backward()
            grads = {p.grad.dtype for p in model.parameters()}
            return output.dtype, seen, {p.dtype for p in model.parameters()}, grads

        for result in run_threads(2, run):
            low, full = torch.bfloat16, torch.float32
            self.assertEqual(result, (full, [(low, low)], {full}, {full}))
        for dtype, tolerance in ((torch.float16, 1e-2), (torch.bfloat16, 2e-2)):
            policy = MixedPrecisionPolicy(reduce_dtype=dtype)
            worst = trained_beside(
                MLP, lambda m, policy=policy: sharded(m, mp_policy=policy), inputs, squares)
            self.assertLess(worst, tolerance)

    def test_gradients_of_several_passes(self):
        def run():
            model, reference = filled(MLP()), filled(MLP())
            sharded(model)
            batches = list(inputs())
            for i, (x,) in enumerate(batches):
                last = i == len(batches) - 1
                model.set_is_last_backward(last)
                model.set_requires_gradient_sync(last)
                squares(model(x.chunk(2)[dist.get_rank()])).backward()
                self.assertEqual(model[0][0].weight.grad is not None, last)
                squares(reference(x)).backward()
            for a, b in zip(model.parameters(), reference.parameters()):
                self.assertLess((a.grad.full_tensor() - b.grad).abs().max().item(), 1e-12)

        run_threads(2, run)

    def test_reduction_that_is_asked_for(self):
        def run():
            model, reference = sharded(filled(MLP())), filled(MLP())
            with self.assertRaisesRegex(RuntimeError, "requires manual backward finalization"):
                model.finalize_backward()
            model.set_manual_backward_finalization(True)
            (x,) = next(inputs())
            for async_op in (False, True):
                squares(model(x.chunk(2)[dist.get_rank()])).backward()
                handle = model.finalize_backward(async_op=async_op)
                if async_op:
                    with self.assertRaisesRegex(RuntimeError, "must be waited on before forward"):
                        model(x)
                    handle.wait()
                squares(reference(x)).backward()
            for a, b in zip(model.parameters(), reference.parameters()):
                self.assertLess((a.grad.full_tensor() - b.grad).abs().max().item(), 1e-12)

        run_threads(2, run)

    def test_replicas_reduce_later(self):
        def run():
            mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
            model, reference = sharded(filled(MLP()), mesh), filled(MLP())
            for i, (x,) in enumerate(inputs(2)):
                model.set_requires_all_reduce(i == 1)
                squares(model(x.chunk(4)[dist.get_rank()])).backward()
                squares(reference(x)).backward()
            for a, b in zip(model.parameters(), reference.parameters()):
                self.assertEqual(tuple(a.placements), (Replicate(), Shard(0)))
                self.assertLess((a.grad.full_tensor() - b.grad).abs().max().item(), 1e-12)

        run_threads(4, run)

    def test_parts_that_a_rank_does_not_use(self):
        class Choice(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

            def forward(self, x):
                return self.a(x) if dist.get_rank() == 0 else self.b(x)

        def run():
            model = fully_shard(filled(Choice()))
            model.set_reduce_scatter_unused_params(True)
            model(torch.ones(1, 4, dtype=torch.float64)).sum().backward()
            return [p.grad.full_tensor().tolist() for p in model.parameters()]

        for grads in run_threads(2, run):
            self.assertEqual(grads, [[[0.5] * 4] * 4, [0.5] * 4] * 2)


class Modules(unittest.TestCase):
    def test_what_becomes_of_a_module(self):
        def run():
            model = sharded(filled(MLP()))
            self.assertEqual(type(model).__name__, "FSDPMLP")
            self.assertIsInstance(model, FSDPModule)
            self.assertIsInstance(model, MLP)
            weight = model[0][0].weight
            self.assertIsInstance(weight, DTensor)
            self.assertEqual(tuple(weight.placements), (Shard(0),))
            self.assertEqual((weight.shape, weight.to_local().shape[0]), ((7, 4), 4 - dist.get_rank()))
            block = model[0]
            block.unshard()
            self.assertNotIsInstance(block[0].weight, DTensor)
            self.assertEqual(block[0].weight.shape, (7, 4))
            block.reshard()
            self.assertIs(block[0].weight, weight)
            block.unshard(async_op=True).wait()
            self.assertEqual(type(model.state_dict()["0.0.weight"]), DTensor)
            self.assertIs(block[0].weight, weight)
            with self.assertRaisesRegex(AssertionError, "does not support deepcopy"):
                __import__("copy").deepcopy(model)

        run_threads(2, run)

    def test_made_on_the_meta_device(self):
        whole = filled(MLP())

        def run():
            model = MLP().to("meta").double()
            sharded(model)
            with self.assertRaisesRegex(RuntimeError, "meta"):
                model(torch.ones(1, 4, dtype=torch.float64))
            model._get_fsdp_state().reset_iter_state()
            model.to_empty(device="cpu")
            state = {key: value.clone() for key, value in whole.state_dict().items()}
            set_model_state_dict(model, state, options=StateDictOptions(full_state_dict=True))
            self.assertEqual(differences(model, whole), 0.0)
            model(torch.ones(1, 4, dtype=torch.float64)).sum().backward()
            self.assertIsNotNone(model[0][0].weight.grad)

        run_threads(2, run)

    def test_casts_and_ignored_parameters(self):
        def run():
            model = filled(MLP())
            ignored = model[0][0].weight
            fully_shard(model, ignored_params={ignored})
            self.assertIs(model[0][0].weight, ignored)
            model(torch.ones(2, 4, dtype=torch.float64)).sum().backward()
            self.assertIsNotNone(ignored.grad)
            other = sharded(filled(MLP()))
            other.float()
            other(torch.ones(2, 4)).sum().backward()
            self.assertEqual(other[0][0].weight.grad.dtype, torch.float32)

        run_threads(2, run)

    def test_frozen_parameters(self):
        def run():
            model = filled(MLP())
            for parameter in model[1].parameters():
                parameter.requires_grad_(False)
            sharded(model)
            model(torch.ones(2, 4, dtype=torch.float64)).sum().backward()
            return [parameter.grad is not None for parameter in model.parameters()]

        for found in run_threads(2, run):
            self.assertEqual(found, [True] * 4 + [False] * 4 + [True] * 4)

    def test_other_methods_and_other_passes(self):
        class Two(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(4, 4)

            def forward(self, x):
                return self.a(x)

            def twice(self, x):
                return self.a(self.a(x))

        def run():
            model = fully_shard(filled(Two()))
            register_fsdp_forward_method(model, "twice")
            x = torch.ones(1, 4, dtype=torch.float64)
            model.twice(x).sum().backward()
            expected = filled(Two())
            expected.twice(x).sum().backward()
            grad = model.a.weight.grad.full_tensor()
            self.assertLess((grad - expected.a.weight.grad).abs().max().item(), 1e-12)
            with self.assertRaisesRegex(ValueError, "does not have a method thrice"):
                register_fsdp_forward_method(model, "thrice")
            with torch.no_grad():
                model(x)
            # A pass that fails is forgotten.
            with self.assertRaises(RuntimeError):
                model(torch.ones(1, 5, dtype=torch.float64))
            model.reset_iter_state()
            model.zero_grad()
            model(x).sum().backward()
            self.assertIsNotNone(model.a.weight.grad)

        run_threads(2, run)

    def test_a_module_that_runs_twice_and_nested_outputs(self):
        class Twice(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

            def forward(self, x):
                y = self.a(x)
                return {"last": [self.a(torch.tanh(self.b(y)))], "first": y}

        def run():
            model, reference = filled(Twice()), filled(Twice())
            for module in (model.a, model.b, model):
                fully_shard(module)
            for (x,) in inputs(2):
                for one in (model, reference):
                    output = one(x)
                    (output["last"][0].pow(2).sum() + output["first"].sum()).backward()
            for a, b in zip(model.parameters(), reference.parameters()):
                self.assertLess((a.grad.full_tensor() - b.grad).abs().max().item(), 1e-12)

        run_threads(2, run)

    def test_scaled_gradients(self):
        def run():
            model = fully_shard(filled(nn.Linear(4, 4)))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scaler = ShardedGradScaler("cpu", init_scale=4.0)
            found = []
            for is_bad in (False, True):
                before = model.weight.full_tensor()
                scaler.scale(model(torch.ones(1, 4, dtype=torch.float64)).sum()).backward()
                if is_bad and dist.get_rank() == 1:
                    model.weight.grad.to_local()[0, 0] = float("inf")
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                moved = (before - model.weight.full_tensor()).abs().max().item()
                found.append((round(moved, 9), scaler.get_scale()))
            return found

        self.assertEqual(run_threads(2, run), [[(0.1, 4.0), (0.0, 2.0)]] * 2)

    def test_data_dimensions_of_a_mesh(self):
        def run():
            mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
            model = fully_shard(filled(nn.Linear(4, 4)), mesh=mesh, dp_mesh_dims=DataParallelMeshDims(shard="data"))
            self.assertEqual(tuple(model.weight.placements), (Shard(0),))
            self.assertEqual(model.weight.to_local().shape, (2, 4))
            with self.assertRaisesRegex(ValueError, "Mesh dim name 'x' not found"):
                fully_shard(nn.Linear(2, 2), mesh=mesh, dp_mesh_dims=DataParallelMeshDims(shard="x"))

        run_threads(4, run)

    def test_what_is_refused(self):
        def run():
            mesh = init_device_mesh("cpu", (2,))
            with self.assertRaisesRegex(ValueError, "does not support containers"):
                fully_shard(nn.ModuleList([nn.Linear(2, 2)]), mesh=mesh)
            scalar = nn.Module()
            scalar.register_parameter("x", nn.Parameter(torch.tensor(1.0)))
            with self.assertRaisesRegex(ValueError, "scalar parameters"):
                fully_shard(scalar, mesh=mesh)
            with self.assertRaisesRegex(ValueError, "should be a factor of 2"):
                fully_shard(nn.Linear(2, 2), mesh=mesh, reshard_after_forward=3)
            with self.assertRaisesRegex(NotImplementedError, "uneven sharding on dim 1"):
                fully_shard(nn.Linear(3, 2), mesh=mesh, shard_placement_fn=lambda p: Shard(p.dim() - 1))
            model = fully_shard(nn.Linear(2, 2), mesh=mesh)
            with self.assertRaisesRegex(AssertionError, "can only be applied to a module once"):
                fully_shard(model, mesh=mesh)
            self.assertNotIsInstance(model, FullyShardedDataParallel)

        run_threads(2, run)


class States(unittest.TestCase):
    def test_a_checkpoint_of_two_ranks_is_loaded_by_others(self):
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path = os.path.join(folder, "checkpoint")

            def train(steps, saved):
                model = sharded(filled(MLP(1)))
                optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
                rank, size = dist.get_rank(), dist.get_world_size()
                if saved:
                    state = {
                        "model": get_model_state_dict(model),
                        "optimizer": get_optimizer_state_dict(model, optimizer),
                    }
                    dcp.load(state, checkpoint_id=path)
                    set_model_state_dict(model, state["model"])
                    set_optimizer_state_dict(model, optimizer, state["optimizer"])
                for batch in list(inputs(3, 12))[steps]:
                    squares(model(*share(batch, rank, size))).backward()
                    optimizer.step()
                    optimizer.zero_grad()
                if not saved:
                    dcp.save({
                        "model": get_model_state_dict(model),
                        "optimizer": get_optimizer_state_dict(model, optimizer),
                    }, checkpoint_id=path)
                return model

            def first():
                train(slice(0, 2), False)

            def rest():
                model = train(slice(2, 3), True)
                return differences(model, reference)

            run_threads(2, first)
            reference = filled(MLP(1))
            optimizer = torch.optim.AdamW(reference.parameters(), lr=1e-2)
            for (x,) in inputs(3, 12):
                squares(reference(x)).backward()
                optimizer.step()
                optimizer.zero_grad()
            for size in (1, 3, 4):
                with self.subTest(size=size):
                    self.assertLess(max(run_threads(size, rest)), 1e-6)

    def test_tensor_parallel_and_sharded(self):
        class Pair(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(4, 10), nn.Linear(10, 4)

            def forward(self, x):
                return self.b(torch.tanh(self.a(x)))

        def build():
            return filled(nn.Sequential(Pair(), Pair()))

        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")

            def run():
                mesh = init_device_mesh("cpu", (3, 2), mesh_dim_names=("data", "tensor"))
                model, reference = build(), build()
                for pair in model:
                    parallelize_module(pair, mesh["tensor"], {"a": ColwiseParallel(), "b": RowwiseParallel()})
                    fully_shard(pair, mesh=mesh["data"])
                fully_shard(model, mesh=mesh["data"])
                ours, theirs = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, reference))
                for (x,) in inputs(2, 9):
                    squares(model(x.chunk(3)[mesh["data"].get_local_rank()])).backward()
                    squares(reference(x)).backward()
                    for optimizer in (ours, theirs):
                        optimizer.step()
                        optimizer.zero_grad()
                self.assertLess(differences(model, reference), 1e-12)
                # Parts that are cut twice in one dimension are boxes of the whole, too.
                state = get_model_state_dict(model)
                dcp.save(state, checkpoint_id=folder)
                dist.barrier()
                found = {key: torch.zeros(value.shape, dtype=value.dtype) for key, value in state.items()}
                dcp.load(found, checkpoint_id=folder, no_dist=True)
                for key, value in state.items():
                    self.assertTrue(torch.equal(found[key], value.full_tensor()), key)

            run_threads(6, run)

    def test_whole_states(self):
        whole = filled(MLP())

        def run():
            model = sharded(filled(MLP(), seed=5))
            options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
            given = {k: v.clone() for k, v in whole.state_dict().items()} if dist.get_rank() == 0 else {}
            set_model_state_dict(model, given, options=options)
            found = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
            return differences(model, whole), sorted(found)

        (a, keys), (b, none) = run_threads(2, run)
        self.assertEqual((a, b, keys, none), (0.0, 0.0, sorted(whole.state_dict()), []))


class Wrapping(unittest.TestCase):
    def test_checkpointed_modules_give_the_same_gradients(self):
        x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
        expected = filled(MLP())
        expected(x).sum().backward()
        for make in (
            checkpoint_wrapper, offload_wrapper,
            lambda m: checkpoint_wrapper(m, checkpoint_impl=CheckpointImpl.REENTRANT),
        ):
            model = make(filled(MLP()))
            model(x).sum().backward()
            for (name, a), (other, b) in zip(model.named_parameters(), expected.named_parameters()):
                self.assertEqual(name, other)
                self.assertTrue(torch.equal(a.grad, b.grad))
            self.assertEqual(list(model.state_dict()), list(expected.state_dict()))
            model.load_state_dict(expected.state_dict())
            self.assertEqual(len(model[0]), 3)

    def test_policies(self):
        model = ResNet()
        apply_activation_checkpointing(model, auto_wrap_policy=ModuleWrapPolicy({Residual}))
        self.assertTrue(all(isinstance(block, CheckpointWrapper) for block in model.blocks))
        self.assertNotIsInstance(model.stem, CheckpointWrapper)
        self.assertTrue(size_based_auto_wrap_policy(model.head, False, 10, min_num_params=5))
        self.assertFalse(size_based_auto_wrap_policy(model.head, False, 4, min_num_params=5))
        linear = nn.Linear(2, 2)
        self.assertIs(wrap(linear), linear)
        with enable_wrap(wrapper_cls=CheckpointWrapper):
            self.assertIsInstance(wrap(linear), CheckpointWrapper)
            with self.assertRaises(NotImplementedError), enable_wrap(wrapper_cls=CheckpointWrapper):
                pass


if __name__ == "__main__":
    unittest.main()
