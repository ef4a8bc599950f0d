"""Checkpoints of several processes: PyTorch's format, other numbers of processes, saves that are killed."""

import io
import os
import pathlib
import shutil
import tempfile
import threading
import unittest
import warnings

from module_under_test import torch

if torch.__name__ != "corten":
    raise unittest.SkipTest("needs threads as ranks")

import corten.distributed as dist
import corten.distributed.checkpoint as dcp
from corten.distributed.checkpoint import state_dict as names
from corten.distributed.checkpoint.format_utils import dcp_to_torch_save, torch_save_to_dcp
from corten.distributed.device_mesh import init_device_mesh
from corten.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from corten.testing._internal.distributed.multi_threaded_pg import run_threads

GOLDEN = pathlib.Path(__file__).parent.parent / "goldens" / "distributed_checkpoint"


class Folder(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = os.path.join(holder.name, "checkpoint")
        # Those of saves in one process and over a checkpoint.
        caught = warnings.catch_warnings(action="ignore")
        caught.__enter__()
        self.addCleanup(caught.__exit__, None, None, None)

    def save(self, state, **options):
        return dcp.save(state, checkpoint_id=self.folder, **options)

    def load(self, state, **options):
        dcp.load(state, checkpoint_id=self.folder, **options)
        return state

    def check_equal(self, a, b):
        if not isinstance(a, dict):
            self.assertIs(type(a), type(b))
        if isinstance(a, torch.Tensor):
            self.assertEqual(a.dtype, b.dtype)
            self.assertTrue(torch.equal(a, b))
        elif isinstance(a, dict):
            self.assertEqual(list(a), list(b))
            for key in a:
                self.check_equal(a[key], b[key])
        elif isinstance(a, (list, tuple)):
            self.assertEqual(len(a), len(b))
            for one, other in zip(a, b):
                self.check_equal(one, other)
        else:
            self.assertEqual(a, b)


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(4, 5)
        self.b = torch.nn.BatchNorm1d(5)

    def forward(self, x):
        return self.b(self.a(x)).relu()


def trained():
    torch.manual_seed(0)
    network = Network()
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.1)
    network(torch.randn(6, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    return network, optimizer


def zeros(value):
    if isinstance(value, torch.Tensor):
        return torch.zeros_like(value)
    if isinstance(value, dict):
        return {key: zeros(part) for key, part in value.items()}
    if isinstance(value, list):
        return [zeros(part) for part in value]
    return None


def rows():
    return torch.arange(15, dtype=torch.float32).reshape(5, 3)


class OneProcess(Folder):
    def test_values_of_all_kinds_come_back(self):
        network, optimizer = trained()
        state = {
            "network": network.state_dict(), "optimizer": optimizer.state_dict(), "step": 3,
            "list": [1, torch.arange(3)], "half": torch.randn(3, 4).bfloat16().t(),
            "empty": torch.empty(0, 3), "number": torch.tensor(2.5), "tuple": (1, "x"),
            "part": torch.arange(10)[2:5], "complex": torch.tensor([1 + 2j]), "none": None,
        }
        metadata = self.save(state)
        self.assertEqual(metadata.version, "1.0.0")
        self.assertEqual(sorted(os.listdir(self.folder)), [".metadata", "__0_0.distcp"])
        found = self.load(zeros(state))
        # Dictionaries are loaded as they are in memory; numbers of parameters are keys of text there.
        found["optimizer"]["state"] = state["optimizer"]["state"] if (
            list(map(str, found["optimizer"]["state"])) == list(map(str, state["optimizer"]["state"]))
        ) else None
        self.check_equal(found, state)

    def test_objects_with_a_state(self):
        class Counter:
            count = 3

            def state_dict(self):
                return {"count": self.count, "tensor": torch.ones(2)}

            def load_state_dict(self, state):
                self.loaded = state

        network, _ = trained()
        self.save({"counter": Counter(), "network": network})
        counter, other = Counter(), Network()
        self.load({"counter": counter, "network": other})
        self.assertEqual(counter.loaded["count"], 3)
        for a, b in zip(network.state_dict().values(), other.state_dict().values()):
            self.assertTrue(torch.equal(a, b))

    def test_objects_of_classes(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            warnings.filterwarnings("ignore", message="torch.distributed is disabled")
            self.save({"plain": {"a": (1, None)}, "path": pathlib.PurePosixPath("x")})
            # What needs no functions of the file runs none.
            self.assertEqual(self.load({"plain": {"a": 0}})["plain"], {"a": (1, None)})
        self.assertEqual(self.load({"path": None})["path"], pathlib.PurePosixPath("x"))

    def test_what_is_wrong_is_said(self):
        self.save({"a": rows(), "n": 1})
        with self.assertRaisesRegex(dcp.CheckpointException, r"Missing key in checkpoint state_dict: b\."):
            self.load({"b": rows()})
        words = r"Size mismatch between saved .*5, 3.* and current: .*5, 4.* for a"
        with self.assertRaisesRegex(dcp.CheckpointException, words):
            self.load({"a": torch.zeros(5, 4)})
        with self.assertRaisesRegex(RuntimeError, "`checkpoint_id` must be specified"):
            dcp.save({})
        with self.assertRaisesRegex(dcp.CheckpointException, "overwrite"):
            dcp.save({"a": rows()}, storage_writer=dcp.FileSystemWriter(self.folder, overwrite=False))
        with self.assertRaisesRegex(dcp.CheckpointException, "metadata is None"), self.assertLogs():
            dcp.load({"a": rows()}, checkpoint_id=self.folder + "_absent")
        with self.assertRaisesRegex(dcp.CheckpointException, "duplicated flatten key a.b"):
            self.save({"a.b": 1, "a": {"b": 2}})
        planner = dcp.DefaultLoadPlanner(allow_partial_load=True)
        state = self.load({"a": torch.zeros(5, 3), "b": torch.ones(2)}, planner=planner)
        self.assertTrue(torch.equal(state["a"], rows()))
        self.assertTrue(torch.equal(state["b"], torch.ones(2)))

    def test_a_new_checkpoint_takes_the_place_of_the_old_one(self):
        for i in range(3):
            self.save({"a": rows() + i, "n": i})
            self.assertEqual(len(os.listdir(self.folder)), 2)
        state = self.load({"a": torch.zeros(5, 3), "n": None})
        self.assertTrue(torch.equal(state["a"], rows() + 2))
        self.assertEqual(state["n"], 2)

    def test_many_files_and_threads(self):
        state = {f"t{i}": torch.full((i,), float(i)) for i in range(9)} | {"n": 4}
        for options in ({"single_file_per_rank": False}, {"thread_count": 3}, {"sync_files": False}):
            dcp.save(state, storage_writer=dcp.FileSystemWriter(self.folder, **options))
            found = self.load(zeros(state))
            self.check_equal(found, state)

    def test_saved_in_the_background(self):
        tensor = rows()
        future = dcp.async_save({"a": tensor, "n": [1, 2]}, checkpoint_id=self.folder)
        tensor.zero_()
        self.assertEqual(future.result(timeout=60).version, "1.0.0")
        self.assertTrue(torch.equal(self.load({"a": torch.zeros(5, 3)})["a"], rows()))
        writer = dcp.FileSystemWriter(self.folder, cache_staged_state_dict=True)
        for i in range(2):
            dcp.async_save({"a": rows() + i}, storage_writer=writer).result(timeout=60)
            self.assertTrue(torch.equal(self.load({"a": torch.zeros(5, 3)})["a"], rows() + i))
        broken = dcp.async_save({"a": threading.Lock()}, checkpoint_id=self.folder)
        with self.assertRaises(dcp.CheckpointException):
            broken.result(timeout=60)

    def test_files_of_one_process_and_back(self):
        state = {"a": rows(), "nested": {"b": [torch.ones(2), 3]}, "n": 5}
        path = self.folder + ".pt"
        torch.save(state, path)
        torch_save_to_dcp(path, self.folder)
        dcp_to_torch_save(self.folder, path + "2")
        self.check_equal(torch.load(path + "2", weights_only=True), state)

    def test_some_keys(self):
        from corten.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys

        self.save({"model": {"a": rows(), "b": torch.ones(2)}, "n": 1})
        found = _load_state_dict_from_keys("model", checkpoint_id=self.folder)
        self.assertEqual(sorted(found["model"]), ["a", "b"])
        self.assertEqual(list(_load_state_dict_from_keys({"n"}, checkpoint_id=self.folder)), ["n"])

    def test_parts_of_larger_tensors(self):
        whole = torch.arange(12.0).reshape(6, 2)
        part = torch.cat([whole[4:6], whole[0:2]])
        part.global_shape, part.global_offsets = (6, 2), ((4, 0), (0, 0))
        part.local_offsets, part.local_sizes = ((0, 0), (2, 0)), ((2, 2), (2, 2))
        self.assertIsInstance(part, dcp.CheckpointableTensor)
        metadata = self.save({"a": part})
        self.assertEqual(tuple(metadata.state_dict_metadata["a"].size), (6, 2))
        other = torch.zeros(2, 2)
        other.global_shape, other.global_offsets = (6, 2), ((0, 0),)
        other.local_offsets, other.local_sizes = ((0, 0),), ((2, 2),)
        self.load({"a": other})
        self.assertTrue(torch.equal(other, whole[:2]))
        part.local_sizes = ((2, 2), (3, 2))
        with self.assertRaisesRegex(dcp.CheckpointException, "is outside"):
            self.save({"a": part})

    def test_safetensors(self):
        state = {"a": rows(), "b": torch.ones(2, dtype=torch.bfloat16), "c": torch.arange(3)}
        mapping = {"a": 1, "b": 2, "c": 2}
        dcp.save(state, storage_writer=dcp.HuggingFaceStorageWriter(self.folder, mapping))
        self.assertEqual(sorted(os.listdir(self.folder)), [
            "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
            "model.safetensors.index.json",
        ])
        found = zeros(state)
        dcp.load(found, storage_reader=dcp.HuggingFaceStorageReader(self.folder))
        self.check_equal(found, state)

    def test_meta_tensors_get_memory(self):
        self.save({"a": rows()})
        state = self.load({"a": torch.empty(5, 3, device="meta")})
        self.assertTrue(torch.equal(state["a"], rows()))

    def test_a_reader_of_parts_of_files(self):
        from corten.distributed.checkpoint.utils import _create_file_view

        view = _create_file_view(io.BytesIO(b"0123456789"), 2, 5)
        self.assertEqual(view.read(2), b"23")
        self.assertEqual((view.tell(), view.seek(-2, os.SEEK_END), view.read()), (2, 3, b"56"))
        view.seek(0)
        buffer = bytearray(9)
        self.assertEqual(view.readinto(buffer), 5)
        self.assertEqual(bytes(buffer[:5]), b"23456")

    def test_ours_has_the_names_of_pytorch(self):
        self.save({"a": rows()})
        data = pathlib.Path(self.folder, ".metadata").read_bytes()
        self.assertNotIn(b"corten", data)
        for name in (b"torch.distributed.checkpoint.metadata", b"_StorageInfo", b"_MEM_FORMAT_ENCODING"):
            self.assertIn(name, data)


class Names(unittest.TestCase):
    OPTIONS = (
        {}, {"flatten_optimizer_state_dict": True}, {"full_state_dict": True}, {"cpu_offload": True},
        {"full_state_dict": True, "cpu_offload": True},
    )

    def test_states_go_from_one_model_to_another(self):
        for options in self.OPTIONS:
            with self.subTest(options):
                options = names.StateDictOptions(**options)
                network, optimizer = trained()
                model_state, optimizer_state = names.get_state_dict(network, optimizer, options=options)
                self.assertIn("a.weight", model_state)
                other = Network()
                other_optimizer = torch.optim.AdamW(other.parameters(), lr=0.3)
                result = names.set_state_dict(
                    other, other_optimizer, model_state_dict=model_state,
                    optim_state_dict=optimizer_state, options=options,
                )
                self.assertEqual((result.missing_keys, result.unexpected_keys), ([], []))
                for a, b in zip(network.state_dict().values(), other.state_dict().values()):
                    self.assertTrue(torch.equal(a, b))
                ours, theirs = optimizer.state_dict(), other_optimizer.state_dict()
                self.assertEqual(ours["param_groups"], theirs["param_groups"])
                for key, state in ours["state"].items():
                    for name, value in state.items():
                        self.assertTrue(torch.equal(value, theirs["state"][key][name]), name)

    def test_optimizers_without_state_get_one(self):
        network = Network()
        before = [p.clone() for p in network.parameters()]
        optimizer = torch.optim.Adam(network.parameters(), lr=0.1, weight_decay=0.1)
        state = names.get_optimizer_state_dict(network, optimizer)
        self.assertEqual(sorted(state["state"]), ["a.bias", "a.weight", "b.bias", "b.weight"])
        for a, b in zip(network.parameters(), before):
            self.assertTrue(torch.equal(a, b))
            self.assertIsNone(a.grad)
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.1)

    def test_frozen_parameters_and_wrappers(self):
        from corten.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

        network, _ = trained()
        network.a.bias.requires_grad_(False)
        network.a = checkpoint_wrapper(network.a)
        keys = list(names.get_model_state_dict(network))
        self.assertEqual(keys[:2], ["a.weight", "a.bias"])
        options = names.StateDictOptions(ignore_frozen_params=True)
        self.assertNotIn("a.bias", names.get_model_state_dict(network, options=options))
        state = names.get_model_state_dict(network)
        names.set_model_state_dict(Network(), state)

    def test_what_is_wrong_is_said(self):
        network, optimizer = trained()
        with self.assertRaisesRegex(ValueError, "full_state_dict must be True when broadcast_from_rank0"):
            names.get_model_state_dict(
                network, options=names.StateDictOptions(broadcast_from_rank0=True))
        with self.assertRaisesRegex(RuntimeError, "Optimizers are not passed in"):
            names.get_optimizer_state_dict(network, [])
        state = names.get_optimizer_state_dict(network, optimizer)
        del state["state"]["a.bias"]
        with self.assertRaisesRegex(RuntimeError, "Missing optimizer state for parameter 'a.bias'"):
            names.set_optimizer_state_dict(network, optimizer, state)


class OfPyTorch(Folder):
    def expected(self):
        return {
            "model": {
                "rows": rows(), "columns": rows().double() / 7, "same": rows().bfloat16(),
                "whole": torch.arange(6).reshape(2, 3).t(), "number": torch.tensor(2.5),
            },
            "steps": 7, "list": [1, torch.tensor([True, False]), {"name": "x"}],
            "settings": {"betas": (0.9, 0.99), "nothing": None},
        }

    def test_what_two_processes_of_pytorch_saved(self):
        found = zeros(self.expected())
        dcp.load(found, checkpoint_id=GOLDEN)
        self.check_equal(found, self.expected())

    def test_as_a_file_of_one_process(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "whole.pt")
            dcp_to_torch_save(GOLDEN, path)
            self.check_equal(torch.load(path, weights_only=True), self.expected())

    def test_three_ranks(self):
        def load():
            mesh = init_device_mesh("cpu", (3,))
            state = {"model": {
                "rows": distribute_tensor(torch.zeros(5, 3), mesh, [Shard(1)]),
                "columns": distribute_tensor(torch.zeros(5, 3, dtype=torch.float64), mesh, [Shard(0)]),
            }}
            dcp.load(state, checkpoint_id=GOLDEN)
            return [state["model"][name].full_tensor() for name in ("rows", "columns")]

        for found, columns in run_threads(3, load):
            self.assertTrue(torch.equal(found, rows()))
            self.assertTrue(torch.equal(columns, rows().double() / 7))


def spread_state(mesh, value):
    """Tensors of all placements, with `value` added to what they hold."""
    made = {
        "rows": (rows(), [Shard(0)]), "columns": (rows() * 2, [Shard(1)]), "same": (rows() * 3, [Replicate()]),
        "long": (torch.arange(7.0), [Shard(0)]), "few": (torch.arange(2.0), [Shard(0)]),
    }
    placed = {}
    for name, (tensor, placements) in made.items():
        if mesh.ndim == 2:
            placements = [Replicate(), *placements] if name != "columns" else [Shard(0), Shard(1)]
        placed[name] = distribute_tensor(tensor + value, mesh, placements)
    return placed


class SeveralRanks(Folder):
    def saved_by(self, size, shape=None):
        def save():
            mesh = init_device_mesh("cpu", shape or (size,), mesh_dim_names=("a", "b")[:len(shape or (1,))])
            return dcp.save(
                {"spread": spread_state(mesh, 1.0), "n": 3, "whole": torch.arange(4)},
                checkpoint_id=self.folder)

        return run_threads(size, save)

    def loaded_by(self, size, shape=None):
        def load():
            mesh = init_device_mesh("cpu", shape or (size,), mesh_dim_names=("a", "b")[:len(shape or (1,))])
            state = {"spread": spread_state(mesh, -100.0), "n": None, "whole": torch.zeros(4, dtype=torch.int64)}
            dcp.load(state, checkpoint_id=self.folder)
            return state["n"], state["whole"], {k: v.full_tensor() for k, v in state["spread"].items()}

        expected = {
            "rows": rows(), "columns": rows() * 2, "same": rows() * 3, "long": torch.arange(7.0),
            "few": torch.arange(2.0),
        }
        for number, whole, spread in run_threads(size, load):
            self.assertEqual(number, 3)
            self.assertTrue(torch.equal(whole, torch.arange(4)))
            for name, tensor in expected.items():
                self.assertTrue(torch.equal(spread[name], tensor + 1), name)

    def test_two_ranks_then_others(self):
        self.saved_by(2)
        files = sorted(name for name in os.listdir(self.folder) if name != ".metadata")
        self.assertEqual(files, ["__0_0.distcp", "__1_0.distcp"])
        for size, shape in ((1, None), (3, None), (4, None), (4, (2, 2))):
            with self.subTest(size=size, shape=shape):
                self.loaded_by(size, shape)
        # One process without a group.
        state = {"spread": {"rows": torch.zeros(5, 3)}}
        dcp.load(state, checkpoint_id=self.folder)
        self.assertTrue(torch.equal(state["spread"]["rows"], rows() + 1))

    def test_other_ranks_then_two(self):
        for size, shape in ((4, (2, 2)), (3, None), (1, None)):
            with self.subTest(size=size, shape=shape):
                self.saved_by(size, shape)
                self.loaded_by(2)

    def test_what_several_have_is_written_once(self):
        metadata, *_ = self.saved_by(4, (2, 2))
        self.assertEqual(len(metadata.state_dict_metadata["spread.same"].chunks), 1)
        self.assertEqual(len(metadata.state_dict_metadata["whole"].chunks), 1)
        self.assertEqual(len(metadata.state_dict_metadata["spread.columns"].chunks), 4)

    def test_an_error_of_one_rank_is_raised_in_all(self):
        folder = self.folder

        def save():
            state = {"a": torch.ones(2)}
            if dist.get_rank() == 1:
                state["a.b"], state["a"] = 1, {"b": 2}
            try:
                dcp.save(state, checkpoint_id=folder)
            except dcp.CheckpointException as error:
                return list(error.failures), str(error)
            return None

        for ranks, text in run_threads(3, save):
            self.assertEqual(ranks, [1])
            self.assertIn("duplicated flatten key a.b", text)

    def test_plans_are_kept_between_saves(self):
        folder = self.folder

        def save(mesh, value, key):
            planner = dcp.DefaultSavePlanner(enable_plan_caching=True)
            planner._cached_plans_key = key
            dcp.save({"a": distribute_tensor(rows() + value, mesh, [Shard(0)])}, checkpoint_id=folder, planner=planner)

        def run():
            mesh = init_device_mesh("cpu", (2,))
            # Threads are in one process: each has plans of its own.
            for value in range(3):
                save(mesh, value, f"rank {dist.get_rank()}")
            state = {"a": distribute_tensor(torch.zeros(5, 3), mesh, [Shard(0)])}
            dcp.load(state, checkpoint_id=folder)
            return state["a"].full_tensor()

        for found in run_threads(2, run):
            self.assertTrue(torch.equal(found, rows() + 2))

    def test_without_talking(self):
        folder = self.folder

        def run():
            rank = dist.get_rank()
            dcp.save({"a": torch.full((2,), float(rank))}, checkpoint_id=folder, use_collectives=False)
            state = {"a": torch.zeros(2)}
            dcp.load(state, checkpoint_id=folder)
            return state["a"].tolist()

        with self.assertLogs("corten.distributed.checkpoint.state_dict_loader", "WARNING"):
            self.assertEqual(run_threads(2, run), [[0.0, 0.0], [1.0, 1.0]])

    def test_consolidated_safetensors(self):
        folder = self.folder

        def run():
            mesh = init_device_mesh("cpu", (2,))
            writer = dcp.HuggingFaceStorageWriter(folder, save_distributed=True, enable_consolidation=True)
            dcp.save({"a": distribute_tensor(rows(), mesh, [Shard(0)])}, storage_writer=writer)

        run_threads(2, run)
        state = {"a": torch.zeros(5, 3)}
        dcp.load(state, storage_reader=dcp.HuggingFaceStorageReader(os.path.join(folder, "sharded")))
        self.assertTrue(torch.equal(state["a"], rows()))
        from corten.safetensors import load_file

        whole = load_file(os.path.join(folder, "model-00001-of-00001.safetensors"))
        self.assertTrue(torch.equal(whole["a"], rows()))

    def test_full_dictionaries_of_spread_models(self):
        torch.manual_seed(0)
        source = Network()
        whole = {key: value.clone() for key, value in source.state_dict().items()}

        def run():
            mesh = init_device_mesh("cpu", (2,))
            network = Network()
            for name, parameter in list(network.a.named_parameters()):
                spread = distribute_tensor(torch.zeros_like(parameter), mesh, [Shard(0)])
                network.a.register_parameter(name, torch.nn.Parameter(spread))
            options = names.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
            given = {k: v.clone() for k, v in whole.items()} if dist.get_rank() == 0 else {}
            names.set_model_state_dict(network, given, options=options)
            self.assertIsInstance(network.a.weight, DTensor)
            options = names.StateDictOptions(full_state_dict=True)
            return names.get_model_state_dict(network, options=options)

        for state in run_threads(2, run):
            self.assertEqual(list(state), list(whole))
            for key, value in whole.items():
                self.assertTrue(torch.equal(state[key], value), key)


class Killed(Folder):
    OPERATIONS = ("open", "rename", "replace", "unlink", "remove", "fsync", "mkdir")

    def killed_at(self, place, state):
        """Saves in a process that ends itself before file operation number `place`; whether it got there."""
        child = os.fork()
        if child:
            _, status = os.waitpid(child, 0)
            return os.waitstatus_to_exitcode(status) == 9
        code = 1
        try:
            count = [0]

            def counted(function):
                def wrapper(*args, **kwargs):
                    if count[0] == place:
                        os._exit(9)
                    count[0] += 1
                    return function(*args, **kwargs)

                return wrapper

            for name in self.OPERATIONS:
                setattr(os, name, counted(getattr(os, name)))
            pathlib.Path.open = counted(pathlib.Path.open)
            pathlib.Path.unlink = counted(pathlib.Path.unlink)
            self.save(state)
            code = 0
        finally:
            os._exit(code)

    def test_a_killed_save_leaves_the_former_checkpoint(self):
        self.save({"a": rows(), "n": 0})
        place, former, newer = 0, 0, 0
        while True:
            kept = self.folder + f"_{place}"
            shutil.copytree(self.folder, kept)
            reached = self.killed_at(place, {"a": rows() + 1, "n": 1})
            state = self.load({"a": torch.zeros(5, 3), "n": None})
            self.assertIn(state["n"], (0, 1))
            self.assertTrue(torch.equal(state["a"], rows() + state["n"]))
            former, newer = former + (state["n"] == 0), newer + (state["n"] == 1)
            # What the killed process left is gone after the next save.
            self.save({"a": rows() + 2, "n": 2})
            self.assertEqual(len(os.listdir(self.folder)), 2)
            shutil.rmtree(self.folder)
            os.rename(kept, self.folder)
            if not reached:
                break
            place += 1
        self.assertGreaterEqual(former, 5)
        self.assertGreaterEqual(newer, 2)


if __name__ == "__main__":
    unittest.main()
