"""Files of exported programs: those that PyTorch wrote, our own, and damaged ones."""

import copy
import importlib
import io
import json
import pathlib
import struct
import tempfile
import unittest
import warnings
import zipfile

from export_cases import modules
from module_under_test import torch

NAME = torch.__name__
export_module = importlib.import_module(f"{NAME}.export")
package = importlib.import_module(f"{NAME}.export.pt2_archive._package")
pytree = importlib.import_module(f"{NAME}.utils._pytree")
load, save = export_module.load, export_module.save
FOLDER = pathlib.Path(__file__).parents[1] / "goldens" / "exported"


def written(program, **options):
    """The bytes of a program's file."""
    file = io.BytesIO()
    save(program, file, **options)
    return file.getvalue()


def exported(name):
    """A program, its inputs, and the module that it was made of."""
    module, args, kwargs = modules(torch)[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return export_module.export(module, args, kwargs), args, kwargs


def changed(data, name, change):
    """A file with one record changed."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(made, "w") as new:
        for path in old.namelist():
            content = old.read(path)
            if path.endswith(name):
                content = change(content)
            if content is not None:
                new.writestr(path, content)
    return io.BytesIO(made.getvalue())


def edited(data, change):
    """A file with another graph."""
    def edit(content):
        found = json.loads(content)
        change(found)
        return json.dumps(found).encode()

    return changed(data, "models/model.json", edit)


class Files(unittest.TestCase):
    def assert_results(self, wanted, found):
        leaves = pytree.tree_leaves(found)
        self.assertEqual(len(wanted), len(leaves))
        for one, other in zip(wanted, leaves):
            if isinstance(one, dict):
                self.assertEqual((one["dtype"].split(".")[1], one["shape"]), (str(other.dtype).split(".")[1], list(other.shape)))
                values = torch.tensor(one["values"], dtype=torch.float64).reshape(one["shape"])
                self.assertTrue(torch.allclose(other.detach().double(), values, atol=1e-5))
            else:
                self.assertEqual(one, other)

    def test_files_of_pytorch(self):
        paths = sorted(FOLDER.glob("*.pt2"))
        self.assertGreater(len(paths), 5)
        for path in paths:
            with self.subTest(path.stem):
                extra = {}
                program = load(path, extra_files=extra)
                args, kwargs = program.example_inputs
                found = copy.deepcopy(program).module()(*args, **kwargs)
                self.assert_results(json.loads(extra["results.json"]), found)
                program.validate()
                self.assertIn("ExportedProgram:", str(program))
                again = load(io.BytesIO(written(program)))
                self.assertEqual(str(again), str(program))

    def test_sizes_that_are_not_fixed(self):
        module = load(FOLDER / "sizes.pt2").module()
        found = module(torch.ones(5, 4))
        self.assertEqual([tuple(one.shape) for one in found], [(10, 2), (6, 2), (5, 4)])
        self.assertEqual(found[2].tolist(), [[5] * 4] * 5)
        with self.assertRaisesRegex(AssertionError, "Guard failed"):
            module(torch.ones(99, 4))

    def test_own_files(self):
        for name in modules(torch):
            with self.subTest(name):
                program, args, kwargs = exported(name)
                again = load(io.BytesIO(written(program)))
                # Where graphs are read is not written, so that their nodes have other names.
                self.assertEqual(str(again.graph_signature), str(program.graph_signature))
                self.assertEqual(*([str(node.target) for node in one.graph.nodes] for one in (again, program)))
                self.assertEqual(again.dialect, program.dialect)
                self.assertEqual(list(again.state_dict), list(program.state_dict))
                self.assertEqual(list(again.constants), list(program.constants))
                cloned = [pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs)) for _ in range(2)]
                wanted = copy.deepcopy(program).module()(*cloned[0][0], **cloned[0][1])
                found = again.module()(*cloned[1][0], **cloned[1][1])
                for one, other in zip(pytree.tree_leaves(wanted), pytree.tree_leaves(found), strict=True):
                    self.assertTrue(torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other)

    def test_paths_and_further_records(self):
        program, _, _ = exported("without_gradients")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "some.pt2"
            save(program, path, extra_files={"notes.txt": "text"})
            with zipfile.ZipFile(path) as archive:
                self.assertEqual(archive.read("some/archive_format"), b"pt2")
                self.assertEqual(archive.read("some/.data/version"), b"6\n")
                offset = archive.getinfo("some/models/model.json").header_offset
            data = path.read_bytes()
            names, extra = struct.unpack("<HH", data[offset + 26:offset + 30])
            self.assertEqual((offset + 30 + names + extra) % 64, 0)
            found = {"notes.txt": ""}
            load(str(path), extra_files=found)
            self.assertEqual(found, {"notes.txt": "text"})
            self.assertTrue(package.is_pt2_package(str(path)))
        with self.assertRaisesRegex(TypeError, "must be an instance of 'ExportedProgram'"):
            save(3, io.BytesIO())

    def test_shared_memory_stays_shared(self):
        program, _, _ = exported("everything")
        again = load(io.BytesIO(written(program)))
        first, second = (again.state_dict[f"{name}.weight"] for name in ("linear", "tied"))
        self.assertEqual(first.untyped_storage().data_ptr(), second.untyped_storage().data_ptr())


class Damaged(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.data = written(exported("convolutions")[0])

    def refused(self, file, text="", kind=RuntimeError):
        with self.assertRaisesRegex(kind, text):
            load(file)

    def test_no_archive(self):
        self.refused(io.BytesIO(b"nothing"), "not an archive")
        self.refused(changed(self.data, "archive_format", lambda _: None), "archive_format")
        self.refused(changed(self.data, "archive_format", lambda _: b"other"), "its format is 'other'")
        for size in (10, 1000, len(self.data) - 30):
            self.refused(io.BytesIO(self.data[:size]))

    def test_compiled_programs(self):
        made = io.BytesIO()
        with package.PT2ArchiveWriter(made) as writer:
            writer.write_bytes("data/aotinductor/model/a.so", b"\0")
        self.refused(made, "compiled by AOTInductor", NotImplementedError)

    def test_graphs_that_are_none(self):
        def nodes(found):
            return found["graph_module"]["graph"]["nodes"]

        def call(name):
            return lambda found: nodes(found)[0].update(target=name)

        for change, text in (
            (call("os.system"), "no operator that programs may call"),
            (call("torch.ops.aten.conv2d.nothing"), "no operator"),
            (call("torch.ops.aten.__class__.default"), "no operator"),
            (call("builtins.eval"), "no operator"),
            (lambda found: found["schema_version"].update(major=99), "Serialized schema version"),
            (lambda found: found["opset_version"].update(aten=99), "opset version"),
            (lambda found: nodes(found)[1]["inputs"][0]["arg"].update(as_tensor={"name": "unknown"}), "before it is defined"),
            (lambda found: nodes(found).append(nodes(found)[0]), "defined twice"),
            (lambda found: nodes(found)[0].update(inputs=3), "expected a list"),
            (lambda found: nodes(found)[0].pop("inputs"), "lacks inputs"),
            (lambda found: found["graph_module"]["graph"]["inputs"][0].update(as_tensor={"name": "a b"}), "no name of a value"),
            (lambda found: found["graph_module"]["signature"]["input_specs"].pop(), "Number of graph inputs"),
            (lambda found: found["graph_module"]["module_call_graph"][0]["signature"].update(in_spec="[]"), "structure of a tree"),
        ):
            with self.subTest(text):
                with self.assertRaises(Exception) as caught:
                    load(edited(self.data, change))
                self.assertIn(type(caught.exception).__name__, ("SerializeError", "SpecViolationError"))
                self.assertRegex(str(caught.exception), text)

    def test_expressions_are_not_executed(self):
        data = (FOLDER / "sizes.pt2").read_bytes()
        for text in ("__import__('os').system('false')", "Symbol('a b')", "Pow(Integer(2)", "Integer(" * 300 + "1" + ")" * 300):
            def change(found, text=text):
                values = found["graph_module"]["graph"]["tensor_values"]["x"]["sizes"]
                values[0]["as_expr"]["expr_str"] = text

            with self.subTest(text[:20]):
                self.refused(edited(data, change), "not the expression of a size")

    def test_tensors_that_do_not_fit(self):
        def config(change):
            def edit(content):
                found = json.loads(content)
                change(next(iter(found["config"].values())))
                return json.dumps(found).encode()

            return changed(self.data, "model_weights_config.json", edit)

        for change, text in (
            (lambda meta: meta["tensor_meta"]["sizes"].append({"as_int": 1 << 40}), "strides"),
            (lambda meta: meta["tensor_meta"]["sizes"][0].update(as_int=1 << 40), "bytes are too few"),
            (lambda meta: meta["tensor_meta"]["storage_offset"].update(as_int=-1), "cannot be a size"),
            (lambda meta: meta["tensor_meta"].update(dtype=77), "a number of ScalarType"),
            (lambda meta: meta.update(path_name="../weight_0"), "no record of tensors"),
            (lambda meta: meta.update(path_name="weight_99"), "no readable record"),
            (lambda meta: meta.update(use_pickle=True), "only plain tensors"),
        ):
            with self.subTest(text):
                self.refused(config(change), text)

    def test_inputs_are_not_unpickled_blindly(self):
        import pickle

        class Runs:
            def __reduce__(self):
                return print, ("executed",)

        program = load(changed(self.data, "sample_inputs/model.pt", lambda _: pickle.dumps(Runs())))
        self.assertIsNone(program.example_inputs)


if __name__ == "__main__":
    unittest.main()
