"""Names that packages import: all are there, and those without behaviour say so when they are used."""

import collections
import contextlib
import importlib
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path

from module_under_test import torch

OURS = torch.__name__ == "corten"
ROOT = torch.__name__
GOLDENS = Path(__file__).resolve().parent.parent / "goldens"
HOME = str(Path(torch.__file__).resolve().parent.parent)


def module(name):
    return importlib.import_module(f"{ROOT}.{name}" if name else ROOT)


def find(name):
    """What a dotted name of PyTorch means."""
    found = module("")
    parts = name.split(".")[1:]
    for count, part in enumerate(parts, 1):
        try:
            found = getattr(found, part)
        except AttributeError:
            if not isinstance(found, types.ModuleType):
                raise
            found = importlib.import_module(".".join([ROOT, *parts[:count]]))
    return found


def foreign(home):
    """Whether a declaration is of a package that is not installed."""
    return importlib.util.find_spec(home.split()[0].partition(".")[0].replace("torch", ROOT)) is None


def run(text, *arguments, path=HOME):
    return subprocess.run(
        [sys.executable, *arguments, *(["-c", text] if text else [])], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": path}, timeout=300, check=True,
    ).stdout


class Names(unittest.TestCase):
    def test_every_name_of_the_packages_is_there(self):
        missing = []
        for name in (GOLDENS / "names_of_packages.txt").read_text().split():
            try:
                find(name)
            except (AttributeError, ImportError) as error:
                missing.append(f"{name}: {error}")
        self.assertEqual(missing, [])

    @unittest.skipUnless(OURS, "PyTorch has their behaviour")
    def test_names_without_behaviour_say_so(self):
        from corten._absent import AbsentError

        counts = collections.Counter()
        for name in (GOLDENS / "names_of_packages.txt").read_text().split():
            value = find(name)
            if getattr(value, "is_absent", False) is not True or isinstance(value, torch.dtype):
                continue
            counts["class" if isinstance(value, type) else "function"] += 1
            with self.subTest(name=name), self.assertRaises(NotImplementedError) as caught:
                value()
            self.assertIsInstance(caught.exception, AbsentError)
            self.assertRegex(str(caught.exception), "name of PyTorch|operator of PyTorch")
            self.assertIn(name.rpartition(".")[2], str(caught.exception))
        self.assertGreater(min(counts.values()), 2)

    @unittest.skipUnless(OURS, "declarations of this package")
    def test_every_declaration_gives_a_value(self):
        from corten._absent import _declarations

        failed = []
        for path in sorted(_declarations.FOLDER.glob("*.txt")):
            if path.stem == "operators":
                continue
            for key, section in _declarations._sections(path.stem).items():
                there = _declarations._module(ROOT, f"torch.{key}".rstrip("."))
                failed += [
                    f"{key}.{name}" for name, (kind, rest) in section.names.items()
                    if not hasattr(there, name) and not (kind in ("from", "import") and foreign(rest))
                ]
        self.assertEqual(failed, [])

    @unittest.skipUnless(OURS, "names that are not loaded before they are asked for")
    def test_nothing_is_loaded_before_it_is_asked_for(self):
        out = run("import corten, sys; print(*(m for m in sys.modules if '_declarations' in m or 'corten.distributed' in m))")
        self.assertEqual(out.strip(), "")

    def test_what_neither_has_is_missing(self):
        for name in ("", "nn", "distributed", "_C", "distributed.fsdp", "utils._pytree"):
            with self.subTest(name=name):
                self.assertFalse(hasattr(module(name), "no_such_name"))
                self.assertFalse(hasattr(module(name), "__wrapped__"))
        with self.assertRaises(ModuleNotFoundError):
            module("distributed.no_such_module")
        with self.assertRaises(ImportError):
            exec(f"from {ROOT}.distributed import no_such_name")


class Kinds(unittest.TestCase):
    def test_isinstance_with_classes_without_behaviour(self):
        tensor = module("distributed.tensor").DTensor
        self.assertFalse(isinstance(torch.ones(2), tensor))
        self.assertTrue(issubclass(tensor, torch.Tensor))
        fsdp = module("distributed.fsdp").FullyShardedDataParallel
        self.assertFalse(isinstance(torch.nn.Linear(1, 1), fsdp))
        self.assertTrue(issubclass(fsdp, torch.nn.Module))
        self.assertEqual(fsdp.__name__, "FullyShardedDataParallel")
        self.assertIs(fsdp, module("distributed.fsdp").FullyShardedDataParallel)
        with self.assertRaises(Exception):
            fsdp(torch.nn.Linear(1, 1))

    def test_one_object_under_all_its_names(self):
        self.assertIs(module("distributed.tensor").DTensor, module("distributed._tensor").DTensor)
        self.assertIs(module("distributed").DeviceMesh, module("distributed.device_mesh").DeviceMesh)
        self.assertIs(module("distributed").all_reduce, module("distributed.distributed_c10d").all_reduce)
        self.assertIs(module("jit._script").script, module("jit").script)
        self.assertEqual(module("_C").DispatchKey.CPU.name, "CPU")

    def test_enumerations_exceptions_and_named_tuples_are_real(self):
        shard = module("distributed.fsdp").ShardingStrategy
        self.assertEqual([one.name for one in shard][:2], ["FULL_SHARD", "SHARD_GRAD_OP"])
        self.assertEqual(int(torch.onnx.OperatorExportTypes.ONNX), 0)
        error = module("_dynamo.exc").Unsupported
        self.assertTrue(issubclass(error, RuntimeError))
        fused = collections.namedtuple("Same", module("distributed.fsdp").StateDictSettings._fields) if hasattr(
            module("distributed.fsdp").StateDictSettings, "_fields") else None
        self.assertIsNone(fused)
        config = module("ao.quantization").QConfig(1, 2)
        self.assertEqual(tuple(config), (1, 2))

    def test_annotations_with_such_names(self):
        mesh = module("distributed.device_mesh").DeviceMesh

        def function(a: mesh | None = None, b: "list[mesh]" = ()) -> mesh:
            return a

        self.assertIsNone(function())

        class Mine(mesh):
            pass

        self.assertTrue(issubclass(Mine, mesh))

    @unittest.skipUnless(OURS, "interfaces of what is not here")
    def test_subclasses_of_interfaces_can_be_made(self):
        sharder = module("distributed._shard.api").Sharder

        class Mine(sharder):
            def shard(self):
                return 3

        self.assertEqual(Mine().shard(), 3)
        with self.assertRaises(NotImplementedError):
            sharder()

    @unittest.skipUnless(OURS, "members of what is not here")
    def test_members_of_classes_without_behaviour(self):
        sharded = module("distributed._shard.sharded_tensor").ShardedTensor
        with self.assertRaisesRegex(NotImplementedError, "ShardedTensor"):
            sharded([])
        self.assertFalse(hasattr(module("distributed.device_mesh").DeviceMesh, "no_such"))

    def test_dtypes_that_are_stored_only(self):
        for name in ("uint1", "uint7", "int4", "bits8", "float4_e2m1fn_x2"):
            with self.subTest(name=name):
                dtype = getattr(torch, name)
                self.assertIsInstance(dtype, torch.dtype)
                self.assertEqual((repr(dtype), dtype.itemsize, dtype in {dtype: 1}), (f"torch.{name}", 1, True))
                made = torch.arange(4, dtype=torch.uint8).view(dtype)
                self.assertEqual(made[1:].view(torch.uint8).tolist(), [1, 2, 3])
                for refused in (lambda: made + made, lambda: made.float(), lambda: torch.ones(2).to(dtype)):
                    self.assertRaises(NotImplementedError, refused)

    def test_operators(self):
        aten = torch.ops.aten
        self.assertEqual(str(aten._sparse_addmm.default), "aten._sparse_addmm.default")
        self.assertIn("dtype", str(aten.mm.dtype))
        self.assertFalse(hasattr(aten, "no_such_operator") or hasattr(aten.mm, "no_such_overload"))
        if OURS:
            with self.assertRaisesRegex(NotImplementedError, "_scaled_grouped_mm"):
                aten._scaled_grouped_mm(1)
            self.assertIs(aten.mm.dtype.overloadpacket, aten.mm)

    @unittest.skipUnless(OURS, "the native module of this package")
    def test_parts_of_the_native_module_stay(self):
        functions = torch._C._functions
        importlib.import_module("corten._C._functions")
        importlib.import_module("corten._C._distributed_c10d")
        self.assertIs(torch._C._functions, functions)
        self.assertTrue(hasattr(torch._C._functions, "abs"))

    @unittest.skipUnless(OURS, "the alias")
    def test_under_pytorch_s_name(self):
        out = run(
            "from corten._as_torch import install_as_torch; install_as_torch()\n"
            "import torch, torch.distributed.fsdp as f\n"
            "from torch.distributed.tensor import DTensor\n"
            "print(DTensor.__module__, f.__name__, f.FullyShardedDataParallel.__module__, torch.export.__name__)\n"
            "import corten.distributed.fsdp; print(corten.distributed.fsdp is f, isinstance(torch.ones(1), DTensor))\n"
            "from torch.ao.quantization import *; print(torch.distributed.rpc.RRef.__name__)\n"
        )
        self.assertEqual(out.splitlines(), [
            "torch.distributed.tensor torch.distributed.fsdp "
            "torch.distributed.fsdp.fully_sharded_data_parallel torch.export",
            "True False", "RRef",
        ])


class Distributed(unittest.TestCase):
    @unittest.skipUnless(OURS, "no processes can be joined here")
    def test_collectives_need_a_group(self):
        there = torch.distributed
        self.assertEqual((there.is_available(), there.is_initialized()), (True, False))
        x = torch.ones(1)
        calls = {
            "all_reduce": [x], "all_gather_object": [[None], 3], "send": [x, 1], "new_group": [], "get_rank": [],
            "barrier": [], "scatter": [x],
        }
        for name, arguments in calls.items():
            with self.subTest(name=name), self.assertRaisesRegex(ValueError, "not been initialized"):
                getattr(there, name)(*arguments)
        with self.assertRaisesRegex(ValueError, "RANK expected"):
            there.init_device_mesh("cpu", (1,))

    def test_kinds_of_reductions(self):
        operations = torch.distributed.ReduceOp
        self.assertEqual(operations.SUM, operations.RedOpType.SUM)
        self.assertIn("SUM", str(operations.SUM))

    @unittest.skipUnless(OURS, "names of ways to talk")
    def test_backends(self):
        self.assertEqual(torch.distributed.Backend("GLOO"), "gloo")
        self.assertIsNone(torch.distributed.GroupMember.WORLD)


class Trees(unittest.TestCase):
    def setUp(self):
        self.pytree = module("utils._pytree")
        pair = collections.namedtuple("Pair", "a b")
        self.tree = {
            "x": [1, (2, None)], "y": pair(1, 2), "z": collections.deque([1], maxlen=3),
            "o": collections.OrderedDict(a=1), "d": collections.defaultdict(list, {"k": [3]}),
        }

    def test_paths(self):
        names = [self.pytree.keystr(path) for path, _ in self.pytree.tree_leaves_with_path(self.tree)]
        self.assertEqual(names, [
            "['x'][0]", "['x'][1][0]", "['x'][1][1]", "['y'].a", "['y'].b", "['z'][0]", "['o']['a']",
            "['d']['k'][0]",
        ])
        path = (self.pytree.MappingKey("x"), self.pytree.SequenceKey(1), self.pytree.SequenceKey(0))
        self.assertEqual(self.pytree.key_get(self.tree, path), 2)
        mapped = self.pytree.tree_map_with_path(lambda path, leaf: (self.pytree.keystr(path), leaf), {"a": [1]})
        self.assertEqual(mapped, {"a": [("['a'][0]", 1)]})

    def test_structures_as_text(self):
        tree = {"x": [1, (2,)], "z": collections.deque([1], maxlen=3), "d": collections.defaultdict(list, k=[3])}
        spec = self.pytree.tree_structure(tree)
        text = self.pytree.treespec_dumps(spec)
        leaf = {"type": None, "context": None, "children_spec": []}
        self.assertEqual(json.loads(text), [1, {
            "type": "builtins.dict", "context": '["x", "z", "d"]', "children_spec": [
                {"type": "builtins.list", "context": "null", "children_spec": [
                    leaf, {"type": "builtins.tuple", "context": "null", "children_spec": [leaf]},
                ]},
                {"type": "collections.deque", "context": "3", "children_spec": [leaf]},
                {"type": "collections.defaultdict", "context": {
                    "default_factory_module": "builtins", "default_factory_name": "list",
                    "dict_context": ["k"],
                }, "children_spec": [{"type": "builtins.list", "context": "null", "children_spec": [leaf]}]},
            ],
        }])
        self.assertEqual(self.pytree.treespec_loads(text), spec)
        with self.assertRaisesRegex(NotImplementedError, "_register_namedtuple"):
            self.pytree.treespec_dumps(self.pytree.tree_structure(self.tree["y"]))
        with self.assertRaisesRegex(ValueError, "Unknown protocol"):
            self.pytree.treespec_dumps(spec, protocol=3)

    def test_registry(self):
        nodes = self.pytree.SUPPORTED_NODES
        self.assertEqual(nodes[dict].flatten_fn({"a": 1}), ([1], ["a"]))
        self.assertIs(self.pytree._get_node_type(self.tree["y"]), collections.namedtuple)
        self.assertEqual(self.pytree.tree_flatten(torch.Size([1, 2]))[0], [1, 2])
        largest = torch.ones(2, 2).max(0)
        self.assertIs(self.pytree._get_node_type(largest), torch.return_types.max)
        self.assertTrue(self.pytree.is_structseq(largest))
        self.assertFalse(self.pytree.is_structseq(self.tree["y"]))

        class Box:
            def __init__(self, value):
                self.value = value

        self.pytree.register_pytree_node(Box, lambda box: ([box.value], None), lambda values, _: Box(*values))
        self.addCleanup(lambda: Box in nodes and self.pytree._deregister_pytree_node(Box))
        self.assertEqual(self.pytree.tree_map(lambda leaf: leaf + 1, Box(1)).value, 2)
        with self.assertRaisesRegex(ValueError, "flatten_with_keys_fn"):
            self.pytree.tree_flatten_with_path(Box(1))
        with self.assertRaisesRegex(ValueError, "already registered"):
            self.pytree.register_pytree_node(Box, None, None)
        self.pytree._deregister_pytree_node(Box)
        self.assertTrue(self.pytree.tree_is_leaf(Box(1)))

    def test_flatten_up_to(self):
        spec = self.pytree.tree_structure({"a": 1, "b": 2})
        self.assertEqual(spec.flatten_up_to({"b": (2, 3), "a": 1}), [1, (2, 3)])
        for wrong, words in (([1], "type mismatch"), ({"a": 1}, "arity mismatch"), ({"a": 1, "c": 2}, "keys mismatch")):
            with self.subTest(wrong=wrong), self.assertRaisesRegex(ValueError, words):
                spec.flatten_up_to(wrong)


class Behaviours(unittest.TestCase):
    def test_hub(self):
        self.assertEqual(torch.hub.HASH_REGEX.search("resnet18-f37072fd.pth").group(1), "f37072fd")
        self.assertTrue(torch.hub.get_dir().startswith(torch.hub._get_torch_home()))
        with torch.hub.tqdm(total=2, disable=True) as bar:
            bar.update(2)

    def test_optimizers(self):
        helpers = module("optim.optimizer")
        one, two = torch.ones(3), torch.ones(2, dtype=torch.float64)
        groups = torch.optim.Optimizer._group_tensors_by_device_and_dtype([[one, two, one], [one, one, one]], True)
        self.assertEqual(groups[torch.device("cpu"), torch.float32][1], [0, 2])
        self.assertEqual(len(groups[torch.device("cpu"), torch.float64][0][1]), 1)
        self.assertEqual(helpers._default_to_fused_or_foreach([one], False, True), (True, False))
        self.assertEqual(helpers._default_to_fused_or_foreach([one], True, True), (False, False))
        self.assertIn("cuda", helpers._get_capturable_supported_devices())
        self.assertEqual((helpers._get_value(torch.tensor(2.0)), helpers._get_value(3)), (2.0, 3))

    def test_settings(self):
        config = module("_dynamo.config")
        before = config.suppress_errors
        with config.patch(suppress_errors=not before):
            self.assertIs(config.suppress_errors, not before)
        self.assertIs(config.suppress_errors, before)

        @config.patch("verbose", True)
        def function():
            return config.verbose

        self.assertTrue(function())
        with self.assertRaises(AttributeError):
            config.no_such_setting = 1

    def test_marks_of_functions(self):
        inside = module("_jit_internal")

        @torch.jit.ignore
        def ignored(x):
            return x

        self.assertTrue(inside.is_ignored_fn(ignored))
        self.assertFalse(inside.is_ignored_fn(lambda x: x))
        annotations = module("jit.annotations")
        self.assertTrue(inside.is_list(annotations.List[int]) and inside.is_optional(annotations.Optional[int]))
        self.assertIsNone(annotations.BroadcastingList2[int])
        self.assertTrue(issubclass(torch.jit.TracerWarning, Warning))

    def test_native_functions(self):
        native = torch._C
        self.assertIsNone(native._get_tracing_state())
        self.assertFalse(native._are_functorch_transforms_active())
        self.assertTrue(torch.func.vmap(lambda x: x + native._are_functorch_transforms_active())(torch.zeros(2)).all())
        self.assertEqual(native._get_privateuse1_backend_name(), "privateuseone")
        tensor = torch.ones(3)
        self.assertEqual((native._is_alias_of(tensor, tensor[1:]), native._is_alias_of(tensor, torch.ones(3))), (True, False))
        parse = native._nn._parse_to
        self.assertEqual(parse("cpu", torch.float16, True), (torch.device("cpu"), torch.float16, True, None))
        self.assertEqual(parse(torch.float64), (None, torch.float64, False, None))
        self.assertEqual(parse(tensor), (torch.device("cpu"), torch.float32, False, None))
        self.assertEqual(parse(memory_format=torch.channels_last), (None, None, False, torch.channels_last))
        with torch.overrides.BaseTorchFunctionMode():
            self.assertTrue(native._is_torch_function_mode_enabled())

    def test_functions(self):
        self.assertEqual(torch._shape_as_tensor(torch.ones(2, 3)).tolist(), [2, 3])
        self.assertEqual(torch._cast_Long(torch.tensor([1.5])).dtype, torch.int64)
        worker = module("utils.data._utils.worker")
        self.assertEqual(worker._generate_state(12345, 0), [1617105738, 966875728, 3978802469, 1788008128])
        self.assertEqual(worker._generate_state(2**40 + 7, 3), [400740237, 3779043709, 3128233089, 477537302])
        utilities = module("_utils")
        self.assertEqual((utilities._get_device_index("cuda:1"), utilities._get_device_index(3)), (1, 3))
        with self.assertRaisesRegex(ValueError, "non cpu"):
            utilities._get_device_index("cpu")
        self.assertIs(utilities._get_device_module("cpu"), torch.cpu)

    @unittest.skipUnless(OURS, "PyTorch compiles the loop")
    def test_loops(self):
        made = torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), torch.ones(2)))
        self.assertEqual([value.tolist() for value in made], [3, [8.0, 8.0]])
        with self.assertRaises(RuntimeError):
            torch.while_loop(lambda x: x < 1, lambda x: (x, x), (torch.tensor(0),))

    def test_block_masks_of_blocks(self):
        flex = module("nn.attention.flex_attention")
        mask = flex.create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256, device="cpu")
        made = flex.BlockMask.from_kv_blocks(
            mask.kv_num_blocks, mask.kv_indices, mask.full_kv_num_blocks, mask.full_kv_indices, mask_mod=mask.mask_mod
        )
        for name in ("q_num_blocks", "q_indices", "full_q_num_blocks", "full_q_indices"):
            self.assertTrue(torch.equal(getattr(made, name), getattr(mask, name)), name)
        self.assertEqual((made.seq_lengths, made.BLOCK_SIZE), ((256, 256), (128, 128)))
        with self.assertRaises(AssertionError):
            flex.BlockMask.from_kv_blocks(mask.kv_num_blocks, mask.kv_indices, mask.kv_num_blocks)

    def test_questions_about_traces(self):
        self.assertIsNone(module("_guards").active_fake_mode())
        self.assertIsNone(module("_guards").TracingContext.try_get())
        shapes = module("fx.experimental.symbolic_shapes")
        self.assertEqual((shapes.guard_or_false(3 > 2), shapes.statically_known_true(False)), (True, False))
        self.assertFalse(shapes.has_free_symbols(3))
        self.assertIsNone(module("fx.experimental.proxy_tensor").get_proxy_mode())
        self.assertFalse(module("_subclasses.fake_tensor").is_fake(torch.ones(2)))
        batches = module("_C._functorch")
        self.assertFalse(batches.is_batchedtensor(torch.ones(2)))
        self.assertEqual(batches.maybe_get_level(torch.ones(2)), -1)
        seen = []
        torch.func.vmap(lambda x: seen.append(batches.is_batchedtensor(x)) or x)(torch.ones(2))
        self.assertEqual(seen, [True])

    @unittest.skipUnless(OURS, "no calls of other processes")
    def test_functions_that_need_other_processes(self):
        rpc = module("distributed.rpc")
        self.assertFalse(rpc.is_available())

        @rpc.api._require_initialized
        def function():
            return 1

        with self.assertRaisesRegex(RuntimeError, "RPC has not been initialized"):
            function()

    @unittest.skipUnless(OURS, "accelerators of this build")
    def test_devices_that_are_not_there(self):
        for there in (torch.xpu, torch.mtia):
            self.assertEqual((there.is_available(), there.device_count(), there.get_rng_state_all()), (False, 0, []))
            self.assertEqual(there.memory_allocated(), 0)
            with self.assertRaises((RuntimeError, AssertionError)):
                there.synchronize()
        with self.assertRaisesRegex(AssertionError, "XPU"):
            torch.xpu.mem_get_info()


@unittest.skipUnless(OURS, "a command of this package")
class Missing(unittest.TestCase):
    TEXT = '''
import torch as th
import torch.nn.functional as F
from torch.distributed._shard.sharded_tensor import ShardedTensor
from torch import no_such_function
try:
    from torch import another_missing
except ImportError:
    another_missing = None

def later(x):
    return th.nested.no_such_attribute(F.relu(x), th.ones(2).no_method())

class A(th.nn.Module):
    kind = th.no_such_kind
'''

    def test_uses(self):
        from corten import _missing

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "program.py"
            path.write_text(self.TEXT)
            rows = {use.name: (state, use.line, use.at_import, use.guarded) for state, use in _missing.missing(str(path))}
            self.assertEqual(rows, {
                "torch.distributed._shard.sharded_tensor.ShardedTensor": ("raises", 4, True, False),
                "torch.no_such_function": ("missing", 5, True, False),
                "torch.another_missing": ("missing", 7, True, True),
                "torch.nested.no_such_attribute": ("missing", 12, False, False),
                "torch.no_such_kind": ("missing", 15, True, False),
            })
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                _missing.main(["--missing", str(path)])
            lines = out.getvalue().splitlines()
            self.assertIn(f"  torch.no_such_function  {path}:5  at import", lines)
            self.assertIn(f"  torch.another_missing  {path}:7  at import, guarded", lines)
            self.assertIn(f"  torch.nested.no_such_attribute  {path}:12  inside a function", lines)
            printed = json.loads(run(None, "-m", "corten", "ops", "--missing", "--json", str(path)))
            self.assertEqual(len(printed), 5)

    def test_an_unknown_package(self):
        from corten import _missing

        with self.assertRaises(SystemExit):
            _missing.main(["--missing", "no_such_package_anywhere"])


if __name__ == "__main__":
    unittest.main()
