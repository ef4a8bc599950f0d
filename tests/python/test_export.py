"""Exported programs: their graphs, signatures and texts, as PyTorch has them, and that they compute the same."""

import contextlib
import copy
import dataclasses
import importlib
import json
import pathlib
import re
import unittest
import warnings

from export_cases import functions, input_of, modules
from module_under_test import torch

NAME = torch.__name__
export_module = importlib.import_module(f"{NAME}.export")
pytree = importlib.import_module(f"{NAME}.utils._pytree")
passes = importlib.import_module(f"{NAME}.export.passes")
exc = importlib.import_module(f"{NAME}._dynamo.exc")
symbolic = importlib.import_module(f"{NAME}.fx.experimental.symbolic_shapes")
signatures = importlib.import_module(f"{NAME}.export.graph_signature")
verifier = importlib.import_module(f"{NAME}._export.verifier")
export, Dim = export_module.export, export_module.Dim
GOLDENS = json.loads((pathlib.Path(__file__).parents[1] / "goldens" / "exported_programs.json").read_text())


class Called(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args, **kwargs):
        return self.function(*args, **kwargs)


class OfOne(torch.nn.Module):
    """A function of one tensor as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class OfTwo(torch.nn.Module):
    """A function of two tensors as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x, y):
        return self.function(x, y)


def targets(graph):
    """What the nodes of a graph are."""
    found = []
    for node in graph.nodes:
        name = str(node.target)
        found.append("getitem" if "getitem" in name else f"{node.op}:{name}" if isinstance(node.target, str) else name)
    return found


def without_places(text):
    """The text of a program without where its lines are."""
    text = re.sub(r"\n +# File[^\n]*|\n +# No stacktrace[^\n]*", "", text)
    # Where a build has no cuDNN, PyTorch passes False in its place.
    text = text.replace("_bias, 1e-05, False)", "_bias)").replace("1e-05, True)", "1e-05, False)")
    return re.sub(r"\n\s*\n", "\n", text)


def cloned(tree):
    return pytree.tree_map_only(torch.Tensor, torch.clone, tree)


def tensors(tree):
    return [one for one in pytree.tree_leaves(tree) if isinstance(one, torch.Tensor)]


@contextlib.contextmanager
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Graphs(unittest.TestCase):
    def assert_same(self, wanted, found):
        for one, other in zip(tensors(wanted), tensors(found), strict=True):
            self.assertTrue(torch.allclose(one, other, equal_nan=True), f"{one} {other}")

    def test_functions_call_what_they_call_in_pytorch(self):
        different = {}
        with quiet():
            for name, function in functions(torch).items():
                wanted = GOLDENS["functions"].get(name)
                if wanted is None:
                    continue
                found = targets(export(OfOne(function), (input_of(torch),)).graph)
                if found != wanted:
                    different[name] = (wanted, found)
        self.assertEqual(different, {})

    def test_modules_are_written_as_in_pytorch(self):
        for name, (module, args, kwargs) in modules(torch).items():
            with self.subTest(name), quiet():
                program = export(module, args, kwargs)
                golden = GOLDENS["modules"][name]
                self.assertEqual(without_places(str(program)), without_places(golden["text"]))
                self.assertEqual(without_places(program.module().code), without_places(golden["code"]))

    def test_modules_compute_the_same(self):
        for name, (module, args, kwargs) in modules(torch).items():
            with self.subTest(name), quiet():
                program = export(module, args, kwargs)
                lowered = copy.deepcopy(program).run_decompositions()
                given = [cloned((args, kwargs)) for _ in range(3)]
                wanted = copy.deepcopy(module)(*given[0][0], **given[0][1])
                for one, place in ((copy.deepcopy(program), 1), (copy.deepcopy(lowered), 2)):
                    found = one.module()(*given[place][0], **given[place][1])
                    self.assert_same(wanted, found)
                    self.assert_same(given[0], given[place])

    def test_decompositions_leave_core_operators_and_no_writes(self):
        for name, (module, args, kwargs) in modules(torch).items():
            with self.subTest(name), quiet():
                lowered = export(module, args, kwargs).run_decompositions()
                self.assertEqual(lowered.dialect, "ATEN")
                for node in lowered.graph.nodes:
                    if node.op == "call_function" and hasattr(node.target, "_schema"):
                        self.assertNotIn("!", str(node.target._schema))
                kinds = [spec.kind.name for spec in lowered.graph_signature.output_specs]
                golden = re.findall(r": (\w+_MUTATION|USER_OUTPUT)", GOLDENS["modules"][name]["lowered"])
                self.assertEqual(kinds, golden)

    def test_strict_gives_the_same(self):
        module, args, kwargs = modules(torch)["convolutions"]
        one, other = (export(module, args, kwargs, strict=strict) for strict in (False, True))
        self.assertEqual(targets(one.graph), targets(other.graph))

    def test_tables_of_decompositions_may_be_changed(self):
        program = export(OfOne(torch.nn.functional.silu), (input_of(torch),))
        self.assertEqual(targets(program.run_decompositions({}).graph)[1:-1], ["aten.silu.default"])
        table = export_module.default_decompositions()
        del table[torch.ops.aten.silu.default]
        self.assertEqual(targets(program.run_decompositions(table).graph)[1:-1], ["aten.silu.default"])
        self.assertIn("aten.sigmoid.default", targets(program.run_decompositions().graph))


class Programs(unittest.TestCase):
    def setUp(self):
        self.module, self.args, self.kwargs = modules(torch)["everything"]
        self.program = export(self.module, self.args, self.kwargs)

    def test_signature(self):
        signature = self.program.graph_signature
        self.assertEqual(signature.parameters[:2], ("linear.weight", "linear.bias"))
        self.assertEqual(signature.non_persistent_buffers, ("scale",))
        self.assertEqual(signature.lifted_tensor_constants, ("k", "lifted_tensor_0"))
        self.assertEqual(signature.user_inputs, ("x", "y_0", False, "d_q", 2))
        self.assertEqual(signature.user_outputs, ("add_3", "view", 3, None, "linear_1", "x"))
        self.assertEqual(signature.inputs_to_buffers["b_count"], "count")
        self.assertIsNone(signature.backward_signature)
        with self.assertRaises(TypeError):
            signature.inputs_to_parameters["q"] = "r"
        with self.assertRaisesRegex(AssertionError, "persistent flag"):
            signatures.InputSpec(signatures.InputKind.BUFFER, signatures.TensorArgument("b"), "b")

    def test_state(self):
        program = self.program
        self.assertIs(program.state_dict["linear.weight"], self.module.linear.weight)
        self.assertEqual(list(program.constants), ["k", "lifted_tensor_0", "scale"])
        self.assertEqual([name for name, _ in program.named_buffers()][:2], ["count", "scale"])
        self.assertEqual(len(list(program.parameters())), 6)
        self.assertEqual([entry.fqn for entry in program.module_call_graph], ["", "linear", "bn", "tied"])
        self.assertEqual(program.example_inputs, (self.args, self.kwargs))

    def test_values_are_tensors_without_data(self):
        node = next(node for node in self.program.graph.nodes if node.name == "linear")
        self.assertEqual(repr(node.meta["val"]), "FakeTensor(..., size=(2, 4))")
        self.assertEqual(node.meta["tensor_meta"].stride, (4, 1))
        self.assertEqual(list(node.meta["nn_module_stack"].values())[-1][0], "linear")
        self.assertEqual(node.meta["torch_fn"][0], "linear_1")
        self.assertIn("return F.linear", node.meta["stack_trace"] + " return F.linear")

    def test_it_is_not_called_itself(self):
        with self.assertRaisesRegex(RuntimeError, "Unable to call ExportedProgram directly"):
            self.program(1)
        with self.assertRaisesRegex(RuntimeError, "Unable to set ExportedProgram's graph attribute"):
            self.program.graph = None
        module = self.program.module()
        for name in ("train", "eval"):
            with self.assertRaisesRegex(NotImplementedError, rf"Calling {name}\(\) is not supported yet"):
                getattr(module, name)()

    def test_modules_have_the_names_of_the_state(self):
        module = self.program.module()
        self.assertEqual(set(module.state_dict()), set(self.module.state_dict()))
        self.assertIs(module.linear.weight, module.tied.weight)
        self.assertEqual(dict(module.named_buffers()).keys(), {*dict(self.module.named_buffers()), "k", "lifted_tensor_0"})

    def test_modules_write_to_their_buffers(self):
        module = copy.deepcopy(self.program).module()
        args, kwargs = cloned((self.args, self.kwargs))
        before = module.count.clone()
        module(*args, **kwargs)
        self.assertTrue(torch.equal(module.count, before + 1))

    def test_validation(self):
        self.program.validate()
        self.program.graph_signature.input_specs[0].target = "nothing"
        with self.assertRaisesRegex(verifier.SpecViolationError, "nothing"):
            self.program.validate()

    def test_devices(self):
        moved = passes.move_to_device_pass(export(OfOne(lambda x: x + torch.zeros(2)), (torch.ones(2),)), "cpu")
        self.assertTrue(torch.equal(moved.module()(torch.ones(2)), torch.ones(2)))

    def test_copies_are_independent(self):
        other = copy.deepcopy(self.program)
        self.assertEqual(str(other), str(self.program))
        self.assertIsNot(other.graph, self.program.graph)


class Inputs(unittest.TestCase):
    def refused(self, kind, text, function, *args, **kwargs):
        with self.assertRaises(kind) as caught, quiet():
            function(*args, **kwargs)
        self.assertIn(text, str(caught.exception))

    def test_checks(self):
        module = export(OfOne(lambda x: x + 1), (torch.ones(2, 2),)).module()
        self.refused(AssertionError, "Guard failed: x.size()[0] == 2", module, torch.ones(3, 2))
        self.refused(ValueError, "Please check that the inputs have the same number and type", module)
        self.refused(ValueError, "Got the following keywords ['x'] but expected []", module, x=torch.ones(2, 2))
        program = export(OfTwo(lambda x, y: x * y), (torch.ones(2), 3))
        self.refused(AssertionError, "Guard failed: y == 3", program.module(), torch.ones(2), 4)
        unchecked = program.module(check_guards=False)
        self.refused(RuntimeError, "to be equal to 3, but got 4", unchecked, torch.ones(2), 4)
        self.refused(RuntimeError, "Unexpected number of dimensions in input at *args[0].shape", unchecked, torch.ones(2, 1), 3)

    def test_what_cannot_be_exported(self):
        one = OfOne(lambda x: x)
        self.refused(ValueError, "Expected `mod` to be an instance of `torch.nn.Module`", export, lambda x: x, (1,))
        self.refused(exc.UserError, "Expecting `args` to be a tuple of example positional inputs", export, one, torch.ones(2))
        self.refused(ValueError, "Unsupported input type <class 'object'>", export, one, (object(),))
        self.refused(RuntimeError, "Found <class 'object'> in output", export, OfOne(lambda x: object()), (torch.ones(2),))

    def test_values_cannot_decide(self):
        self.refused(RuntimeError, "data-dependent", export, OfOne(lambda x: x if x.sum() > 0 else -x), (torch.ones(2),))

    def test_trees(self):
        @dataclasses.dataclass
        class Pair:
            a: torch.Tensor
            b: torch.Tensor

        export_module.register_dataclass(Pair, serialized_type_name="tests.Pair")
        program = export(OfOne(lambda p: Pair(p.a + p.b, p.a)), (Pair(torch.ones(2), torch.ones(2)),))
        found = program.module()(Pair(torch.ones(2), torch.ones(2)))
        self.assertIsInstance(found, Pair)
        self.assertEqual(found.a.tolist(), [2, 2])
        self.assertEqual(program.graph_signature.user_inputs, ("x_a", "x_b"))

    def test_attributes_that_are_no_buffers(self):
        class Keeps(torch.nn.Module):
            def forward(self, x):
                self.kept = x * 2
                return x

        module = Keeps()
        with self.assertWarnsRegex(UserWarning, "The tensor attribute self.kept was assigned during export"):
            export(module, (torch.ones(2),))
        self.assertNotIn("kept", vars(module))

    def test_exporting_changes_nothing(self):
        module, args, kwargs = modules(torch)["everything"]
        before = copy.deepcopy(module.state_dict())
        given = cloned((args, kwargs))
        export(module, *given)
        for name, value in module.state_dict().items():
            self.assertTrue(torch.equal(before[name], value), name)
        for one, other in zip(tensors(given), tensors((args, kwargs))):
            self.assertTrue(torch.equal(one, other))
        self.assertIs(module._parameters.get("k", None), None)
        self.assertIs(module.linear.weight, module.tied.weight)


class Sizes(unittest.TestCase):
    def setUp(self):
        self.x, self.y = torch.ones(3, 4), torch.ones(3, 5)

    def exported(self, function, shapes, args=None):
        return export(OfTwo(function), args or (self.x, self.y), dynamic_shapes=shapes)

    def violated(self, text, function, shapes, args=None):
        with self.assertRaises((exc.UserError, symbolic.ConstraintViolationError)) as caught:
            self.exported(function, shapes, args)
        self.assertIn(text, str(caught.exception))

    def test_one_name_is_one_size(self):
        batch = Dim("batch", min=2, max=64)
        program = self.exported(lambda x, y: torch.cat([x, y], 1), {"x": {0: batch}, "y": {0: batch}})
        module = program.module()
        self.assertEqual(module(torch.ones(7, 4), torch.ones(7, 5)).shape, (7, 9))
        self.assertEqual([str(found) for found in program.range_constraints.values()], ["VR[2, 64]"])
        with self.assertRaisesRegex(AssertionError, r"Guard failed: y.size\(\)\[0\] == x.size\(\)\[0\]"):
            module(torch.ones(7, 4), torch.ones(6, 5))
        with self.assertRaisesRegex(AssertionError, r"Guard failed: x.size\(\)\[0\] <= 64"):
            module(torch.ones(99, 4), torch.ones(99, 5))

    def test_sizes_are_computed_in_the_graph(self):
        program = self.exported(
            lambda x, y: (x.view(x.shape[0] * 2, -1), torch.zeros(x.shape[0] + 1, 2)), {"x": {0: Dim("q")}, "y": None},
        )
        names = targets(program.graph)
        self.assertIn("aten.sym_size.int", names)
        found = program.module()(torch.ones(6, 4), self.y)
        self.assertEqual([tuple(one.shape) for one in found], [(12, 2), (7, 2)])

    def test_auto_follows_the_program(self):
        program = self.exported(lambda x, y: x + y[:, :4], {"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}})
        self.assertEqual(program.module()(torch.ones(8, 4), torch.ones(8, 5)).shape, (8, 4))
        program = self.exported(lambda x, y: x.view(3, 4), {"x": {0: Dim.AUTO}, "y": None})
        with self.assertRaisesRegex(AssertionError, "Guard failed"):
            program.module()(torch.ones(5, 4), self.y)

    def test_derived_sizes(self):
        root = Dim("root")
        program = self.exported(
            lambda x, y: x[1:] + y[:, :4], {"x": {0: root + 1}, "y": {0: root}}, (torch.ones(4, 4), self.y),
        )
        self.assertEqual(program.module()(torch.ones(9, 4), torch.ones(8, 5)).shape, (8, 4))
        self.assertEqual(repr(2 * root + 1), "2*root + 1")
        self.assertEqual((repr(Dim("a", max=5)), repr(Dim("a", min=3))), ("Dim('a', min=0, max=5)", "Dim('a', min=3)"))
        with self.assertRaises(NotImplementedError):
            1 - root  # noqa: B018

    def test_violations(self):
        one = {"x": {0: Dim("b")}, "y": None}
        self.violated(
            "You marked b as dynamic but your code specialized it to be a constant (3)",
            lambda x, y: x.view(3, 2, 2), one,
        )
        self.violated(
            "Constraints violated (L['x'].size()[0])!", lambda x, y: x.view(3, 4), {"x": {0: Dim.DYNAMIC}, "y": None},
        )
        self.violated(
            "Suggested fixes:\n  b = Dim('b', max=9)", lambda x, y: x + 1 if x.shape[0] < 10 else x, one,
        )
        self.violated(
            "The values of b2 = L['y'].size()[0] and b1 = L['x'].size()[0] must always be equal.",
            lambda x, y: torch.cat([x, y], 1), {"x": {0: Dim("b1")}, "y": {0: Dim("b2")}},
        )
        self.violated("replace your `export()` call with `draft_export()`", lambda x, y: x.view(3, 4), one)

    def test_specifications_that_do_not_fit(self):
        batch = Dim("b")
        for shapes, text in (
            ({"x": {0: "a"}, "y": None}, "Unexpected dimension mapped to index 0 in input tensor shape {0: 'a'}"),
            ({"x": [batch], "y": None}, "to have the same length as the actual tensor shape"),
            ({"x": {0: batch}}, "its top-level keys must be the arg names ['x', 'y'] of `inputs`"),
            ({"x": {0: batch}, "y": {0: Dim("b", max=5)}}, "Found different definitions Dim('b', min=0) and"),
            ({"x": [[batch]], "y": None}, "Unexpected dimension #0" if False else "same length"),
        ):
            with self.subTest(text):
                self.violated(text, lambda x, y: x, shapes)

    def test_collections(self):
        shapes = export_module.ShapesCollection()
        shapes[self.x] = {0: Dim("c")}
        program = export(OfTwo(lambda x, y: x + 1), (self.x, self.y), dynamic_shapes=shapes)
        self.assertEqual(program.module()(torch.ones(5, 4), self.y).shape, (5, 4))
        more = export_module.AdditionalInputs()
        more.add((torch.ones(7, 4), self.y))
        program = export(OfTwo(lambda x, y: x + 1), (self.x, self.y), dynamic_shapes=more)
        self.assertEqual(program.module()(torch.ones(9, 4), self.y).shape, (9, 4))
        more.verify(program)

    def test_numbers_of_data(self):
        program = export(OfOne(lambda x: x * x.max().item()), (torch.ones(2, 2),))
        self.assertIn("aten.item.default", targets(program.graph))
        found = program.module()(torch.full((2, 2), 3.0))
        self.assertEqual(found.tolist(), [[9, 9], [9, 9]])
        program = export(OfOne(lambda x: x.nonzero()), (torch.ones(2, 2),))
        self.assertEqual(program.module()(torch.eye(2)).tolist(), [[0, 0], [1, 1]])


class Unflattened(unittest.TestCase):
    def test_modules_are_back(self):
        for name in ("everything", "assigned", "convolutions", "attention"):
            with self.subTest(name), quiet():
                module, args, kwargs = modules(torch)[name]
                program = export(module, args, kwargs)
                given = [cloned((args, kwargs)) for _ in range(2)]
                found = export_module.unflatten(copy.deepcopy(program))(*given[0][0], **given[0][1])
                wanted = copy.deepcopy(module)(*given[1][0], **given[1][1])
                for one, other in zip(tensors(wanted), tensors(found), strict=True):
                    self.assertTrue(torch.allclose(one, other))

    def test_preserved_signatures(self):
        class Inner(torch.nn.Module):
            def forward(self, a, *, b):
                return {"s": a + b["k"], "n": a}

        class Outer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Inner()

            def forward(self, x):
                return self.inner(x, b={"k": x * 2})["s"] * 2

        program = export(Outer(), (torch.ones(2),), preserve_module_call_signature=("inner",))
        signature = next(entry.signature for entry in program.module_call_graph if entry.fqn == "inner")
        self.assertEqual([arg.name for arg in signature.inputs], ["x", "mul"])
        module = export_module.unflatten(program)
        self.assertEqual(module(torch.ones(2)).tolist(), [6, 6])
        module.inner = Inner()
        self.assertEqual(module(torch.ones(2)).tolist(), [6, 6])


if __name__ == "__main__":
    unittest.main()
