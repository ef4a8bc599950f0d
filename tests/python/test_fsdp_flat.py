"""FullyShardedDataParallel over ranks that are threads: training as in one process, dictionaries, whole parameters."""

import copy
import unittest
import warnings

from module_under_test import torch

if torch.__name__ != "corten":
    raise unittest.SkipTest("needs threads as ranks")

import functools

import corten.distributed as dist
from corten.distributed.device_mesh import init_device_mesh
from corten.distributed.fsdp import (
    CPUOffload, FullOptimStateDictConfig, FullStateDictConfig, FullyShardedDataParallel as FSDP,
    LocalStateDictConfig, MixedPrecision, OptimStateKeyType, ShardedStateDictConfig, ShardingStrategy, StateDictType,
)
from corten.distributed.fsdp._flat_param import FlatParameter
from corten.distributed.fsdp.wrap import (
    CustomPolicy, ModuleWrapPolicy, always_wrap_policy, size_based_auto_wrap_policy, transformer_auto_wrap_policy,
)
from corten.distributed.tensor import DTensor
from corten.testing._internal.distributed.multi_threaded_pg import run_threads

from sharded_models import GPT, TransformerBlock, filled, token_batches, token_loss
from sharded_training import MLP, inputs, share, squares, trained_alone

nn = torch.nn
Strategy = ShardingStrategy


def setUpModule():
    warnings.simplefilter("ignore")


def wrapped(model, **options):
    """A model whose blocks are wrapped, and itself."""
    options.setdefault("auto_wrap_policy", ModuleWrapPolicy({nn.Sequential, TransformerBlock}))
    return FSDP(model, **options)


def whole(model):
    """The parameters of a wrapped model, whole."""
    with FSDP.summon_full_params(model, writeback=False):
        return {name: param.detach().clone() for name, param in model.named_parameters()}


def trained(build, batches, loss, optimizer=torch.optim.SGD, size=2, clip=None, lr=0.1, step=None, **options):
    """The largest difference between training with a wrapper and in one process."""
    reference, _ = trained_alone(build, batches, loss, optimizer, size, clip, lr)
    expected = dict(reference.named_parameters())

    def run():
        own = {name: value() if callable(value) and name in ("device_mesh",) else value
               for name, value in options.items()}
        model = wrapped(filled(build()), **own)
        ours = optimizer(model.parameters(), lr=lr)
        for batch in batches():
            ours.zero_grad()
            part = share(batch, dist.get_rank(), size)
            loss(model(part[0]), *part[1:]).backward()
            if clip is not None:
                model.clip_grad_norm_(clip)
            ours.step()
        found = whole(model)
        assert found.keys() == expected.keys(), (found.keys(), expected.keys())
        return max((found[name] - expected[name]).abs().max().item() for name in expected)

    return max(run_threads(size, run))


class Training(unittest.TestCase):
    def test_arrangements(self):
        mesh = lambda *shape: lambda: init_device_mesh("cpu", shape, mesh_dim_names=("a", "b")[:len(shape)])  # noqa
        arrangements = {
            "default": {}, "no policy": {"auto_wrap_policy": None},
            "gradients": {"sharding_strategy": Strategy.SHARD_GRAD_OP},
            "whole": {"sharding_strategy": Strategy.NO_SHARD},
            "offload": {"cpu_offload": CPUOffload(True)}, "mesh": {"device_mesh": mesh(2)},
            "hybrid": {"sharding_strategy": Strategy.HYBRID_SHARD, "device_mesh": mesh(2, 2)},
            "hybrid of gradients": {"sharding_strategy": Strategy._HYBRID_SHARD_ZERO2, "device_mesh": mesh(2, 2)},
            "no prefetch": {"backward_prefetch": None, "sync_module_states": True},
            "by size": {"auto_wrap_policy": functools.partial(size_based_auto_wrap_policy, min_num_params=30)},
            "by function": {"auto_wrap_policy": CustomPolicy(lambda m: isinstance(m, nn.Linear))},
            "all": {"auto_wrap_policy": always_wrap_policy},
        }
        for name, options in arrangements.items():
            for use_orig_params in (False, True):
                with self.subTest(name, use_orig_params=use_orig_params):
                    size = 4 if "hybrid" in name else 2
                    worst = trained(
                        lambda: MLP(2), lambda: inputs(2), squares, size=size, use_orig_params=use_orig_params,
                        **options)
                    self.assertLess(worst, 1e-12)

    def test_shared_weights_and_clipping(self):
        policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={TransformerBlock})
        for use_orig_params in (False, True):
            worst = trained(
                lambda: GPT(layers=1), lambda: token_batches(3, 4), token_loss, torch.optim.AdamW, clip=0.1, lr=1e-2,
                auto_wrap_policy=policy, use_orig_params=use_orig_params)
            self.assertLess(worst, 1e-6)

    def test_gradients_of_several_passes(self):
        def run(strategy, use_orig_params):
            reference = filled(MLP(2))
            model = wrapped(filled(MLP(2)), sharding_strategy=strategy, use_orig_params=use_orig_params)
            batches = list(inputs(3))
            for (x,) in batches:
                squares(reference(x)).backward()
            with model.no_sync():
                for (x,) in batches[:-1]:
                    squares(model(x.chunk(2)[dist.get_rank()])).backward()
                self.assertTrue(all(p.grad is None for p in model.parameters()))
            squares(model(batches[-1][0].chunk(2)[dist.get_rank()])).backward()
            with self.assertRaisesRegex(RuntimeError, "on inner FSDP instances"):
                with model.module[0].no_sync():
                    pass
            norm = nn.utils.clip_grad_norm_(reference.parameters(), 1e-3)
            torch.testing.assert_close(model.clip_grad_norm_(1e-3), norm)
            if not use_orig_params:
                return
            with FSDP.summon_full_params(model, with_grads=True):
                for a, b in zip(model.parameters(), reference.parameters()):
                    torch.testing.assert_close(a.grad, b.grad)

        for strategy in (Strategy.FULL_SHARD, Strategy.NO_SHARD):
            for use_orig_params in (False, True):
                run_threads(2, run, strategy, use_orig_params)

    def test_mixed_precision(self):
        def run():
            seen, low = [], torch.bfloat16
            model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
            model.register_buffer("scale", torch.ones(2))
            model[0].register_forward_pre_hook(lambda m, args: seen.append((args[0].dtype, m.weight.dtype)))
            model[1].register_forward_pre_hook(lambda m, args: seen.append((args[0].dtype, m.weight.dtype)))
            model = wrapped(
                model, auto_wrap_policy=ModuleWrapPolicy({nn.Linear}),
                mixed_precision=MixedPrecision(param_dtype=low, reduce_dtype=torch.float32, buffer_dtype=low))
            output = model(torch.randn(4, 4))
            output.sum().backward()
            self.assertEqual(model.module.scale.dtype, low)
            self.assertEqual(model.state_dict()["scale"].dtype, torch.float32)
            self.assertEqual({v.dtype for k, v in model.state_dict().items() if "num" not in k}, {torch.float32})
            return output.dtype, seen, {p.dtype for p in model.parameters()}, {p.grad.dtype for p in model.parameters()}

        full = torch.float32
        for result in run_threads(2, run):
            self.assertEqual(
                result, (torch.bfloat16, [(torch.bfloat16, torch.bfloat16), (full, full)], {full}, {full}))

    def test_recomputed_blocks_and_frozen_parameters(self):
        def run(use_orig_params):
            from corten.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing

            reference, model = filled(MLP(2)), filled(MLP(2))
            for one in (reference, model):
                one[0][0].requires_grad_(False) if use_orig_params else one[0].requires_grad_(False)
            model = wrapped(model, use_orig_params=use_orig_params)
            apply_activation_checkpointing(model, check_fn=lambda m: type(m) is nn.Sequential)
            (x,) = next(inputs(1))
            for one in (model, reference):
                part = x.chunk(2)[dist.get_rank()] if one is model else x
                squares(one(part)).backward()
                torch.optim.SGD([p for p in one.parameters() if p.requires_grad], lr=0.1).step()
            for a, b in zip(whole(model).values(), reference.parameters()):
                torch.testing.assert_close(a, b)

        for use_orig_params in (False, True):
            run_threads(2, run, use_orig_params)

    def test_recurrent_modules(self):
        class Recurrent(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell, self.last = nn.LSTM(4, 3), nn.Linear(3, 4)

            def forward(self, x):
                return self.last(self.cell(x.unsqueeze(1))[0])

        for use_orig_params in (False, True):
            worst = trained(
                Recurrent, lambda: inputs(2), squares, use_orig_params=use_orig_params,
                auto_wrap_policy=ModuleWrapPolicy({nn.LSTM}))
            self.assertLess(worst, 1e-12)

    def test_hook_of_communication(self):
        def reduce(state, grad, output):
            state.append(grad.numel())
            dist.reduce_scatter_tensor(output, grad.div(2))

        def run():
            model, reference, state = wrapped(filled(MLP(2))), filled(MLP(2)), []
            model.register_comm_hook(state, reduce)
            (x,) = next(inputs(1))
            for one in (model, reference):
                squares(one(x.chunk(2)[dist.get_rank()] if one is model else x)).backward()
                torch.optim.SGD(one.parameters(), lr=0.1).step()
            self.assertEqual(len(state), 2)
            for a, b in zip(whole(model).values(), reference.parameters()):
                torch.testing.assert_close(a, b)

        run_threads(2, run)


class Parameters(unittest.TestCase):
    def test_names_and_sizes(self):
        def run():
            model = wrapped(filled(MLP(2)))
            names = [name for name, _ in model.named_parameters()]
            self.assertEqual(names, [
                "_fsdp_wrapped_module.0._fsdp_wrapped_module._flat_param",
                "_fsdp_wrapped_module.1._fsdp_wrapped_module._flat_param"])
            flat = next(model.parameters())
            self.assertIsInstance(flat, FlatParameter)
            self.assertNotIsInstance(nn.Parameter(torch.ones(1)), FlatParameter)
            self.assertEqual(flat.shape, ((28 + 7 + 28 + 4 + 1) // 2,))
            self.assertEqual(len(FSDP.fsdp_modules(model)), 3)
            self.assertEqual(FSDP.fsdp_modules(model, root_only=True), [model])
            self.assertIs(model.module[0], model[0])
            self.assertTrue(model.check_is_root() and not model[0].check_is_root())
            named = wrapped(filled(MLP(2)), use_orig_params=True)
            shapes = {name: tuple(p.shape) for name, p in named.named_parameters()}
            self.assertIn("_fsdp_wrapped_module.0._fsdp_wrapped_module.0.weight", shapes)
            self.assertEqual(sum(shape[0] for shape in shapes.values()), 2 * (67 + dist.get_rank() == 67 and 34 or 33))
            self.assertEqual(repr(model).count("FullyShardedDataParallel"), 3)

        run_threads(2, run)

    def test_whole_parameters(self):
        def run(use_orig_params):
            model = wrapped(filled(MLP(2)), use_orig_params=use_orig_params)
            reference = filled(MLP(2))
            with FSDP.summon_full_params(model):
                self.assertEqual([n for n, _ in model.named_parameters()], [n for n, _ in reference.named_parameters()])
                for a, b in zip(model.parameters(), reference.parameters()):
                    self.assertTrue(torch.equal(a, b))
                    a.data.mul_(2)
            with FSDP.summon_full_params(model, writeback=False):
                for a, b in zip(model.parameters(), reference.parameters()):
                    self.assertTrue(torch.equal(a, 2 * b))
                    a.data.zero_()
            model.apply(lambda m: m.bias.data.fill_(3) if isinstance(m, nn.Linear) else None)
            with FSDP.summon_full_params(model, writeback=False, rank0_only=True, offload_to_cpu=True):
                self.assertEqual(len(list(model.parameters())), 8 if dist.get_rank() == 0 or use_orig_params else 2)
            with self.assertRaisesRegex(NotImplementedError, "writeback=True and rank0_only=True"):
                with FSDP.summon_full_params(model, rank0_only=True):
                    pass
            with FSDP.summon_full_params(model):
                self.assertEqual(float(model[0][0].bias.min()), 3.0)
            model.float()
            self.assertEqual(whole(model)["1.0.weight"].dtype, torch.float32)
            squares(model(torch.ones(2, 4))).backward()
            self.assertEqual({p.grad.dtype for p in model.parameters() if p.numel()}, {torch.float32})

        for use_orig_params in (False, True):
            run_threads(2, run, use_orig_params)

    def test_modules_without_memory(self):
        def run():
            with torch.device("meta"):
                model = MLP(2)
            model = wrapped(model, device_id=torch.device("cpu"), sync_module_states=True)
            first = whole(model)["0.0.weight"]
            copies = [torch.empty_like(first) for _ in range(2)]
            dist.all_gather(copies, first)
            self.assertTrue(torch.equal(*copies))
            self.assertFalse(first.is_meta)

        run_threads(2, run)

    def test_what_is_left_alone(self):
        def run():
            model = MLP(2)
            left = model[0][0]
            model = FSDP(model, ignored_modules=[left])
            self.assertIs(model[0][0].weight, left.weight)
            self.assertEqual(left.weight.shape, (7, 4))
            self.assertEqual(model.state_dict()["0.0.weight"].shape, (7, 4))
            with self.assertRaisesRegex(ValueError, "Cannot pass both ignored_modules and ignored_states"):
                FSDP(MLP(1), ignored_modules=[], ignored_states=[])
            with self.assertRaisesRegex(ValueError, "uniform dtype"):
                FSDP(nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1).double()))
            with self.assertRaisesRegex(ValueError, "uniform `requires_grad`"):
                FSDP(nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1).requires_grad_(False)))

        run_threads(2, run)


class Dictionaries(unittest.TestCase):
    def test_of_models(self):
        def run(kind, config, use_orig_params, strategy):
            model = wrapped(filled(MLP(2)), use_orig_params=use_orig_params, sharding_strategy=strategy)
            reference = filled(MLP(2)).state_dict()
            with FSDP.state_dict_type(model, kind, config):
                state = copy.deepcopy(model.state_dict())
                self.assertEqual(FSDP.get_state_dict_type(model).state_dict_type, kind)
                if kind == StateDictType.LOCAL_STATE_DICT:
                    self.assertEqual(list(state), ["0._flat_param", "1._flat_param"])
                elif config == FullStateDictConfig(rank0_only=True) and dist.get_rank():
                    self.assertEqual(len(state), 0)
                else:
                    self.assertEqual(list(state), list(reference))
                for name, value in state.items():
                    if isinstance(value, DTensor):
                        value = value.full_tensor()
                    if name in reference:
                        self.assertTrue(torch.equal(value, reference[name]))
                        self.assertLess(value.untyped_storage().nbytes(), 8 * value.numel() + 64)
                    state[name] = state[name] * 2
                if config != FullStateDictConfig(rank0_only=True):
                    model.load_state_dict(state)
                    found = whole(model)
                    for name, value in reference.items():
                        self.assertTrue(torch.equal(found[name], 2 * value))
            self.assertEqual(FSDP.get_state_dict_type(model).state_dict_type, StateDictType.FULL_STATE_DICT)
            squares(model(torch.ones(2, 4, dtype=torch.float64))).backward()

        full = StateDictType.FULL_STATE_DICT
        for use_orig_params in (False, True):
            for strategy in (Strategy.FULL_SHARD, Strategy.SHARD_GRAD_OP, Strategy.NO_SHARD):
                run_threads(2, run, full, FullStateDictConfig(offload_to_cpu=True), use_orig_params, strategy)
            strategy = Strategy.FULL_SHARD
            run_threads(2, run, full, FullStateDictConfig(rank0_only=True), use_orig_params, strategy)
            sharded = StateDictType.SHARDED_STATE_DICT, ShardedStateDictConfig()
            run_threads(2, run, *sharded, use_orig_params, strategy)
            local = StateDictType.LOCAL_STATE_DICT, LocalStateDictConfig()
            run_threads(2, run, *local, use_orig_params, strategy)

    def test_of_optimizers(self):
        def train(model, optimizer, steps):
            for (x,) in list(inputs(4))[steps]:
                optimizer.zero_grad()
                squares(model(x.chunk(2)[dist.get_rank()] if isinstance(model, FSDP) else x)).backward()
                optimizer.step()

        def run(before, after, kind):
            reference = filled(MLP(2))
            alone = torch.optim.AdamW(reference.parameters(), lr=1e-2)
            train(reference, alone, slice(0, 2))
            model = wrapped(filled(MLP(2)), use_orig_params=before)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
            train(model, optimizer, slice(0, 2))
            FSDP.set_state_dict_type(model, kind)
            state, weights = FSDP.optim_state_dict(model, optimizer), model.state_dict()
            names = dict(enumerate(name for name, _ in reference.named_parameters()))
            self.assertEqual(sorted(state["state"]), sorted(names.values()))
            self.assertEqual(state["param_groups"][0]["params"], list(names.values()))
            for number, one in alone.state_dict()["state"].items():
                for key, value in one.items():
                    found = state["state"][names[number]][key]
                    torch.testing.assert_close(
                        found.full_tensor() if isinstance(found, DTensor) else found, value)
            model = wrapped(MLP(2).double(), use_orig_params=after, auto_wrap_policy=None)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
            FSDP.set_state_dict_type(model, kind)
            model.load_state_dict(weights)
            optimizer.load_state_dict(FSDP.optim_state_dict_to_load(model, optimizer, state))
            train(model, optimizer, slice(2, 4))
            train(reference, alone, slice(2, 4))
            for a, b in zip(whole(model).values(), reference.parameters()):
                torch.testing.assert_close(a, b)

        for kind in (StateDictType.FULL_STATE_DICT, StateDictType.SHARDED_STATE_DICT):
            for before, after in ((False, True), (True, False), (True, True)):
                run_threads(2, run, before, after, kind)

    def test_of_optimizers_in_the_first_process(self):
        def run():
            model = wrapped(filled(MLP(2)))
            optimizer = torch.optim.AdamW(model.parameters())
            (x,) = next(inputs(1))
            squares(model(x)).backward()
            optimizer.step()
            FSDP.set_state_dict_type(
                model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(rank0_only=True),
                FullOptimStateDictConfig(rank0_only=True))
            state = FSDP.optim_state_dict(model, optimizer)
            self.assertEqual(bool(state), dist.get_rank() == 0)
            load = FSDP.optim_state_dict_to_load(model, optimizer, state)
            for number, one in load["state"].items():
                torch.testing.assert_close(one["exp_avg"], optimizer.state_dict()["state"][number]["exp_avg"])
            if dist.get_rank() == 0:
                plain = filled(MLP(2))
                numbers = FSDP.rekey_optim_state_dict(state, OptimStateKeyType.PARAM_ID, plain)
                torch.optim.AdamW(plain.parameters()).load_state_dict(numbers)
                names = FSDP.rekey_optim_state_dict(numbers, OptimStateKeyType.PARAM_NAME, plain)
                self.assertEqual(names["param_groups"], state["param_groups"])
            with self.assertRaisesRegex(RuntimeError, "Expected state_dict_config of type"):
                FSDP.set_state_dict_type(model, StateDictType.FULL_STATE_DICT, ShardedStateDictConfig())

        run_threads(2, run)

    def test_by_functions_of_checkpoints(self):
        from corten.distributed.checkpoint.state_dict import (
            StateDictOptions, get_state_dict, set_state_dict,
        )

        def run(use_orig_params, options):
            model = wrapped(filled(MLP(2)), use_orig_params=use_orig_params)
            optimizer = torch.optim.AdamW(model.parameters())
            squares(model(torch.ones(2, 4, dtype=torch.float64))).backward()
            optimizer.step()
            weights, states = get_state_dict(model, optimizer, options=options)
            self.assertEqual(list(weights), list(MLP(2).state_dict()))
            self.assertEqual(sorted(states["state"]), sorted(weights))
            full = options is not None and options.full_state_dict
            self.assertEqual({type(value) for value in weights.values()}, {torch.Tensor if full else DTensor})
            other = wrapped(MLP(2).double(), use_orig_params=not use_orig_params)
            taking = torch.optim.AdamW(other.parameters())
            set_state_dict(other, taking, model_state_dict=weights, optim_state_dict=states, options=options)
            for a, b in zip(whole(model).values(), whole(other).values()):
                self.assertTrue(torch.equal(a, b))
            again = get_state_dict(other, taking, options=StateDictOptions(full_state_dict=True))[1]
            for name, one in get_state_dict(
                    model, optimizer, options=StateDictOptions(full_state_dict=True))[1]["state"].items():
                self.assertTrue(torch.equal(one["exp_avg"], again["state"][name]["exp_avg"]))

        for use_orig_params in (False, True):
            for options in (None, StateDictOptions(full_state_dict=True)):
                run_threads(2, run, use_orig_params, options)


if __name__ == "__main__":
    unittest.main()
