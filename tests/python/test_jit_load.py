"""Archives of TorchScript that PyTorch wrote: their programs give what they gave there."""

import copy
import io
import math
import os
import pathlib
import tempfile
import unittest
import warnings
import zipfile

from module_under_test import torch

GOLDENS = pathlib.Path(__file__).parents[1] / "goldens" / "torchscript"
CORTEN = torch.__name__ == "corten"


def load(name):
    """An archive, the arguments of calls, and what they gave."""
    extra = {"expected": b""}
    module = torch.jit.load(str(GOLDENS / f"{name}.pt"), _extra_files=extra)
    content = extra["expected"]
    content = content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape")
    arguments, results = torch.load(io.BytesIO(content), weights_only=True)
    return module, arguments, results


class Programs(unittest.TestCase):
    def same(self, found, expected, path=""):
        if isinstance(expected, torch.Tensor):
            self.assertEqual(found.dtype, expected.dtype, path)
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6, equal_nan=True, msg=path)
        elif isinstance(expected, (list, tuple)):
            self.assertEqual(isinstance(found, list), isinstance(expected, list), path)
            self.assertEqual(len(found), len(expected), path)
            for place, (one, other) in enumerate(zip(found, expected)):
                self.same(one, other, f"{path}[{place}]")
        elif isinstance(expected, dict):
            self.assertEqual(list(found), list(expected), path)
            for key, value in expected.items():
                self.same(found[key], value, f"{path}[{key!r}]")
        elif isinstance(expected, float):
            self.assertIs(type(found), float, path)
            self.assertTrue(math.isclose(found, expected, rel_tol=1e-12) or found != found and expected != expected, path)
        else:
            self.assertEqual((type(found), found), (type(expected), expected), path)

    def check(self, name):
        """That calls of an archive give what they gave in PyTorch, also after it was written and read again."""
        module, arguments, results = load(name)
        for given, expected in zip(copy.deepcopy(arguments), results):
            if isinstance(expected, tuple) and expected and isinstance(expected[0], str) and expected[0] == "raises":
                with self.assertRaises(torch.jit.Error if expected[1] == "Error" else RuntimeError) as raised:
                    module(*given)
                self.assertIn(expected[2], str(raised.exception))
            else:
                self.same(module(*given), expected, name)
        again = torch.jit.load(io.BytesIO(load(name)[0].save_to_buffer()))
        for given, expected in zip(arguments, results):
            if not (isinstance(expected, tuple) and expected and isinstance(expected[0], str)):
                if name != "stateful":
                    self.same(again(*given), expected, f"{name} again")
        return module

    def test_scalars(self):
        self.check("scalars")

    def test_strings(self):
        self.check("strings")

    def test_lists(self):
        self.check("lists")

    def test_control_flow(self):
        self.check("early")

    def test_optional(self):
        self.check("optional")

    def test_errors(self):
        self.check("errors")

    def test_tensors(self):
        self.check("tensors")

    def test_objects(self):
        self.check("objects")

    def test_layers(self):
        module = self.check("layers")
        self.assertEqual(module.count, 3)
        module.train()
        module(torch.ones(2, 2, 6, 6))
        self.assertEqual((module.count, module.words, module.pair), (4, ["x", "y"], (1, 2.5)))
        torch.testing.assert_close(module.twice(torch.ones(1)), torch.full((1,), 2.0))
        self.assertIs(module.tied.weight, getattr(module.convolutions, "0").weight)

    def test_recurrent(self):
        self.check("recurrent")

    def test_state(self):
        module, _, _ = load("stateful")
        torch.testing.assert_close(module(torch.ones(2)), torch.full((2,), 3.0))

    def test_traced(self):
        self.check("traced")

    def test_frozen(self):
        self.check("frozen")


class Modules(unittest.TestCase):
    def test_class(self):
        module, _, _ = load("layers")
        self.assertIsInstance(module, torch.jit.ScriptModule)
        self.assertIsInstance(module, torch.nn.Module)
        self.assertEqual(module.original_name, "Layers")
        self.assertIn("RecursiveScriptModule(", repr(module))
        self.assertIn("def forward(self", module.code)
        self.assertFalse(module.training)
        self.assertEqual([name for name, _ in module.named_children()], ["convolutions", "layers", "named", "tied"])

    def test_state_dict(self):
        module, arguments, results = load("layers")
        self.assertIn("layers.0.running_mean", module.state_dict())
        self.assertNotIn("extra", module.state_dict())
        other, _, _ = load("layers")
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.zero_()
        other.load_state_dict(module.state_dict())
        torch.testing.assert_close(other(*arguments[0]), results[0], rtol=1e-5, atol=1e-6)

    def test_gradients(self):
        module, arguments, _ = load("layers")
        module(*arguments[0]).sum().backward()
        self.assertTrue(all(parameter.grad is not None for parameter in module.parameters()))

    def test_copies_and_dtypes(self):
        module, arguments, results = load("layers")
        twin = copy.deepcopy(module)
        with torch.no_grad():
            twin.scale.zero_()
        torch.testing.assert_close(module(*arguments[0]), results[0], rtol=1e-5, atol=1e-6)
        double = copy.deepcopy(module).double()
        self.assertEqual(double(arguments[0][0].double()).dtype, torch.float64)
        self.assertIs(module.copy().scale, module.scale) if CORTEN else None

    @unittest.skipUnless(CORTEN, "PyTorch has no hooks on these modules")
    def test_hooks(self):
        module, arguments, _ = load("layers")
        seen = []
        module.register_forward_hook(lambda one, given, result: seen.append(result.shape))
        module(*arguments[0])
        self.assertEqual(seen, [torch.Size([2, 3])])

    def test_map_location(self):
        module = torch.jit.load(str(GOLDENS / "layers.pt"), map_location="cpu")
        self.assertEqual(module.scale.device.type, "cpu")
        if CORTEN:
            meta = torch.jit.load(str(GOLDENS / "layers.pt"), map_location="meta")
            self.assertEqual(meta.scale.device.type, "meta")

    def test_arguments(self):
        module, _, _ = load("early")
        self.assertEqual(module(torch.ones(2), n=-1).tolist(), [-1.0, -1.0])
        for given in ((torch.ones(2), "x"), (torch.ones(2),), (1, 2), (torch.ones(2), 1, 2)):
            with self.assertRaises(RuntimeError):
                module(*given)

    def test_files(self):
        module, _, _ = load("early")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.pt")
            module.save(path, _extra_files={"note.txt": "some text"})
            extra = {"note.txt": ""}
            again = torch.jit.load(path, _extra_files=extra)
            self.assertIn(extra["note.txt"], ("some text", b"some text"))
            self.assertEqual(again.code, module.code)
            with self.assertRaises(ValueError):
                torch.jit.load(os.path.join(folder, "none.pt"))

    def test_load_of_tensors_points_here(self):
        path = str(GOLDENS / "early.pt")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with self.assertRaisesRegex(RuntimeError, "TorchScript archives"):
                torch.load(path)
            module = torch.load(path, weights_only=False)
        self.assertIsInstance(module, torch.jit.ScriptModule)


def archive(code, attributes=b"}", name="M", version=b"3\n"):
    """The bytes of an archive of one class."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        file.writestr("a/data.pkl", b"\x80\x02c__torch__\n" + name.encode() + b"\n)\x81" + attributes + b"b.")
        file.writestr("a/code/__torch__.py", code)
        file.writestr("a/constants.pkl", b"\x80\x02).")
        file.writestr("a/version", version)
    data.seek(0)
    return data


def method(body):
    """The code of a class with a method."""
    return "class M(Module):\n  __parameters__ = []\n  __buffers__ = []\n  def forward(self, x: Tensor):\n    " + body + "\n"


@unittest.skipUnless(CORTEN, "what is refused is this reader's own")
class Hostile(unittest.TestCase):
    """Archives that try to reach Python."""

    def refused(self, body):
        with self.assertRaises(RuntimeError, msg=body):
            torch.jit.load(archive(method(body)))(torch.ones(2))

    def test_runs(self):
        self.assertEqual(torch.jit.load(archive(method("return torch.add(x, 1)")))(torch.ones(1)).item(), 2.0)

    def test_names(self):
        for body in (
            "return __import__('os')", "return open('/etc/passwd')", "return eval('1')", "return exec('1')",
            "return globals()", "return __builtins__", "return __h_get(x, 'shape')", "return type(x)", "return object",
            "return vars(x)", "return dir(x)", "return compile('1', '', 'eval')", "return input()", "return super()",
            "import os", "global x", "return lambda: 1", "return (yield x)", "return setattr",
        ):
            self.refused(body)

    def test_attributes(self):
        for body in (
            "return x.__class__", "return x.__class__.__mro__", "return x.numpy", "return (x).__reduce__()",
            "return getattr(x, '__class__')", "return self.__class__", "return self.save", "return self._modules",
            "return self.state_dict()", "return self.register_buffer('a', x)", "return 'a'.__class__", "return [].__class__",
            "return 'a'.format", "return (x).tolist.__self__", "return self.__dict__", "return (x).numpy()",
            "return (x).register_hook(x)", "return (x).__array__()", "return ''.format_map({})", "self.__class__ = x",
            "return getattr(self, 'save')", "return x.untyped_storage()", "return x.data_ptr()", "return (x).share_memory_()",
        ):
            self.refused(body)

    def test_formats_reach_nothing(self):
        made = torch.jit.load(archive(method("return torch.format('{0.__class__} {}', x.dim())")))
        self.assertEqual(made(torch.ones(2)), "{0.__class__} 1")

    def test_operators(self):
        for body in (
            "torch.save(x, '/tmp/never_written')", "return torch.from_file('/etc/passwd')", "return torch.no_such_operator(x)",
            "return ops.os.system('true')", "return torch.load('x')", "return ops.prim.PythonOp(x)", "return torch._C.x(x)",
            "return __torch__.os.system('true')", "return torch.hub.load('x')",
        ):
            self.refused(body)
        self.assertFalse(os.path.exists("/tmp/never_written"))

    def test_statements(self):
        for code in (
            "import os\n", "x = open('/etc/passwd')\n" + method("return x"), "class M(Module):\n  x = 1\n", "@f\nclass M(Module):\n  pass\n",
            "class M(Module, metaclass=int):\n  pass\n", "class M(int):\n  pass\n", "class M(Module):\n  a : os.system\n",
            "class M(Module):\n  a : List[(lambda: 1)()]\n", "class M(Module):\n  a : Final[int] = open('x')\n",
            "def M():\n  pass\n", "class M(Module):\n  __slots__ = []\n", "print('no')\n", "class M(Module):\n  print('no')\n",
            "class M(NamedTuple):\n  a : int\n", "while True:\n  pass\n", "class M(Module):\n  def forward(self, x=open('x')):\n    return x\n",
            "class M(Module):\n  def forward(self, *args):\n    return args\n", "class M(" * 2000, "(" * 5000, "\0",
        ):
            with self.assertRaises(RuntimeError, msg=code[:80]):
                torch.jit.load(archive(code))(torch.ones(1))

    def test_deep_code(self):
        self.refused("return " + "-" * 100000 + "x")
        self.refused("return x" + " + x" * 20000)

    def test_recursion(self):
        code = "def f(x: Tensor) -> Tensor:\n  return __torch__.f(x)\n" + method("return __torch__.f(x)")
        with self.assertRaises(RuntimeError):
            torch.jit.load(archive(code))(torch.ones(1))

    def test_pickles(self):
        good = method("return x")
        for attributes in (
            b"cos\nsystem\nX\x04\x00\x00\x00true\x85R", b"}X\x01\x00\x00\x00acbuiltins\neval\n(X\x01\x00\x00\x001tRs",
            b"ctorch.jit._pickle\n__import__\n(X\x02\x00\x00\x00ostR", b"c__torch__\nNone\n)R", b"\xff", b"", b"(" * 100,
            b"ctorch._utils\n_import_dotted_name\n(X\x02\x00\x00\x00ostR", b"}(X\x01\x00\x00\x00a", b"i", b"\x93", b"\x82\x01",
            b"c__torch__\nM\n\x85R", b"ccopyreg\n_reconstructor\n)R",
        ):
            with self.assertRaises(RuntimeError, msg=attributes):
                torch.jit.load(archive(good, attributes))

    def test_missing_parts(self):
        with self.assertRaisesRegex(RuntimeError, "no value for the attribute"):
            torch.jit.load(archive("class M(Module):\n  a : int\n"))
        with self.assertRaisesRegex(RuntimeError, "is no int"):
            torch.jit.load(archive("class M(Module):\n  a : int\n", b"}X\x01\x00\x00\x00aNs"))
        with self.assertRaises(RuntimeError):
            torch.jit.load(archive("class N(Module):\n  pass\n"))
        with self.assertRaises(RuntimeError):
            torch.jit.load(archive(method("return x"), version=b"999\n"))
        with self.assertRaises(RuntimeError):
            torch.jit.load(io.BytesIO(b"nothing"))


@unittest.skipUnless(CORTEN, "archives are made by hand")
class OldVersions(unittest.TestCase):
    def test_division(self):
        body = "return torch.div(x, 2)"
        old = torch.jit.load(archive(method(body), version=b"3\n"))
        new = torch.jit.load(archive(method(body), version=b"4\n"))
        x = torch.tensor([3, -3])
        self.assertEqual((old(x).tolist(), new(x).tolist()), ([1, -1], [1.5, -1.5]))
        self.assertEqual(old(x.double()).tolist(), [1.5, -1.5])

    def test_full_and_linspace(self):
        old = torch.jit.load(archive(method("return torch.full([2], 1)"), version=b"3\n"))
        self.assertEqual(old(torch.ones(1)).dtype, torch.float32)
        spaced = torch.jit.load(archive(method("return torch.linspace(0, 1)"), version=b"3\n"))
        self.assertEqual(spaced(torch.ones(1)).shape, (100,))


if __name__ == "__main__":
    unittest.main()
