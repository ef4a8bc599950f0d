"""torch.onnx.export: graphs are read back and run by onnx_evaluator, and by ONNX Runtime where it is installed."""

import os
import tempfile
import unittest

import corten as torch
import onnx_evaluator
from corten._C import _onnx_read

F = torch.nn.functional


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


class Net(torch.nn.Module):
    """A small network with everything that weights have names for."""

    def __init__(self):
        super().__init__()
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU(inplace=True), torch.nn.MaxPool2d(2)
        )
        self.head = torch.nn.Linear(4, 5)
        self.register_buffer("scale", torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]))

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3))) * self.scale


def written(a, b):
    y = a.clone()
    view = y.view(-1)
    y.add_(1)
    y[:, 1] = b
    first, second = y.chunk(2, 1)
    first.zero_()
    return y, view, y.t(), second


def masked(a):
    a = a.clone()
    a[a > 0] = 7.0
    return a


def sample(*shape):
    torch.manual_seed(len(shape))
    return torch.randn(*shape)


X = sample(2, 3, 4)
INDEX = torch.tensor([1, 0])
CASES = {
    "arithmetic": (lambda a, b: (a + b * 2 - 1) / (b.abs() + 1), sample(2, 3), sample(3)),
    "numbers of two types": (lambda a, b: (a + b, a * 2, b * 1.5, b / 2, b // 2, b % 3), sample(3), torch.tensor([-3, 4, 5])),
    "functions": (lambda a: (a.exp(), a.sigmoid(), a.tanh(), a.erf(), a.abs().sqrt(), a.neg(), a.floor(), a.square()), X),
    "exact near zero": (lambda a: (torch.expm1(a), torch.log1p(a)), torch.tensor([1e-9, -1e-7, 0.0, 0.5])),
    "activations": (lambda a: (F.relu(a), F.silu(a), F.gelu(a), F.softplus(a), F.hardtanh(a), F.relu6(a)), X),
    "comparisons": (lambda a, b: (a > b, a == b, a != b, (a > 0) & (b <= 0), ~(a > 0)), sample(3, 4), sample(4)),
    "choices": (lambda a: (torch.where(a > 0, a, 0.0), a.masked_fill(a > 0, 2.0), a.clamp(-0.5, 0.5), a.clamp(min=0)), X),
    "reductions": (lambda a: (a.sum(), a.mean(1), a.amax(-1, keepdim=True), a.sum((0, 2)), a.var(1), a.std(), a.argmax(1)), X),
    "softmax": (lambda a: (a.softmax(-1), a.log_softmax(1)), X),
    "scans and order": (lambda a: (a.cumsum(1), a.topk(2)[0], a.sort(1)[0], a.sort(1)[1]), X),
    "products": (lambda a, b: (a @ b, a.t() @ a, torch.addmm(b[0], a, b), F.linear(a, b.t(), b[0])), sample(3, 4), sample(4, 5)),
    "layer norm": (lambda a, w: (F.layer_norm(a, [4]), F.layer_norm(a, [4], w, w)), X, sample(4)),
    "views": (lambda a: (a.view(4, 6), a.permute(2, 0, 1), a.transpose(0, 1), a.flatten(1), a.unsqueeze(-1), a[None, :, 0]), X),
    "parts": (lambda a: (a[:, 1:], a[:, -1], a[..., ::2], a.narrow(1, 1, 2), a.flip(1)), X),
    "joins": (lambda a, b: (torch.cat([a, b], 1), torch.stack([a, a], -1), a.repeat(2, 1), a.expand(2, 2, 3)), sample(2, 3), sample(2, 2)),
    "splits": (lambda a: (*a.split(2, 2), *a.chunk(3, 1), *a.unbind(0)), X),
    "triangles": (lambda a: (a.tril(), a.triu(1)), sample(3, 4)),
    "indices": (lambda a, i: (a[i], a[:, i], a[i, i], a.index_select(1, i), a[:, i, i]), X, INDEX),
    "gathers": (lambda a, i: (a.gather(1, i), a.scatter(1, i, a[:, :2])), sample(3, 4), torch.tensor([[0, 1], [1, 2], [2, 3]])),
    "embedding": (lambda i, w: F.embedding(i, w), torch.tensor([[1, 2], [0, 2]]), sample(3, 4)),
    "writes": (written, sample(3, 4), sample(3)),
    "writes by masks": (masked, sample(3, 4)),
    "constants": (lambda a: a + torch.arange(4) + torch.ones(4) * torch.tensor([1.0, 2.0, 3.0, 4.0]), X),
    "types": (lambda a: (a.double(), a.int(), (a * 2).half().float()), X),
    "attention": (lambda q, k: (F.scaled_dot_product_attention(q, k, k), F.scaled_dot_product_attention(q, q, q, is_causal=True)),
                  sample(1, 2, 3, 4), sample(1, 2, 5, 4)),
    "dropout that does not run": (lambda a: F.dropout(a, 0.5, False), X),
}


def export(function, args, **options):
    module = function if isinstance(function, torch.nn.Module) else Function(function)
    return torch.onnx.export(module.eval(), args, **options)


def described(program):
    return _onnx_read(program.serialize())


def flat(results):
    return list(results) if isinstance(results, (tuple, list)) else [results]


class Graphs(unittest.TestCase):
    def check(self, function, args, **options):
        program = export(function, args, **options)
        model = described(program)
        feed = dict(zip((value["name"] for value in model["graph"]["inputs"]), args))
        with torch.no_grad():
            expected = flat(function(*args))
        found = onnx_evaluator.run(model, feed)
        self.assertEqual(len(found), len(expected))
        for one, other, info in zip(found, expected, model["graph"]["outputs"]):
            self.assertEqual(one.dtype, other.dtype)
            self.assertEqual(onnx_evaluator.DTYPES[info["type"]], other.dtype)
            self.assertEqual(info["shape"], list(other.shape))
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
        return program

    def test_operators(self):
        for name, (function, *args) in CASES.items():
            with self.subTest(name):
                self.check(function, tuple(args))

    def test_a_network(self):
        torch.manual_seed(0)
        program = self.check(Net().eval(), (sample(2, 3, 8, 8),))
        names = [name for name, _ in described(program)["graph"]["initializers"]]
        self.assertEqual(names[:2], ["features.0.weight", "features.0.bias"])
        self.assertIn("scale", names)
        kinds = [node["op_type"] for node in described(program)["graph"]["nodes"]]
        self.assertEqual([kinds.count(kind) for kind in ("Conv", "BatchNormalization", "Relu", "MaxPool", "Gemm")], [1] * 5)

    def test_versions_without_newer_operators(self):
        for opset in (18, 21, 23):
            program = self.check(lambda a: F.gelu(a), (X,), opset_version=opset)
            self.assertEqual(described(program)["opset"], {"": opset})
        self.assertNotIn("Gelu", [node.op_type for node in export(F.gelu, (X,), opset_version=18).model.graph.nodes])
        with self.assertWarnsRegex(UserWarning, "version 18"):
            export(F.relu, (X,), opset_version=11)
        with self.assertRaisesRegex(ValueError, "opset_version 99"):
            export(F.relu, (X,), opset_version=99)

    def test_shared_weights_are_written_once(self):
        class Tied(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.embed, self.out = torch.nn.Embedding(5, 4), torch.nn.Linear(4, 5, bias=False)
                self.out.weight = self.embed.weight

            def forward(self, x):
                return self.out(self.embed(x))

        program = self.check(Tied().eval(), (torch.tensor([[1, 2]]),))
        names = [name for name, tensor in described(program)["graph"]["initializers"] if tensor.numel() == 20]
        self.assertEqual(len(names), 1)


class Names(unittest.TestCase):
    def test_inputs_and_outputs(self):
        module = Function(lambda first, second: (first + second, first))
        graph = described(export(module, (sample(2), sample(2)), input_names=["a", "b"], output_names=["sum"]))["graph"]
        self.assertEqual([value["name"] for value in graph["inputs"]], ["a", "b"])
        self.assertEqual(graph["outputs"][0]["name"], "sum")
        graph = described(export(Net(), (sample(1, 3, 8, 8),)))["graph"]
        self.assertEqual([value["name"] for value in graph["inputs"]], ["x"])
        self.assertEqual([value["name"] for value in graph["outputs"]], ["mul"])
        self.assertEqual(graph["name"], "main_graph")

    def test_producer_and_metadata(self):
        model = described(export(Net(), (sample(1, 3, 8, 8),)))
        self.assertEqual((model["producer_name"], model["ir_version"]), ("pytorch", 10))
        metadata = model["graph"]["nodes"][0]["metadata"]
        self.assertIn("features.0", metadata["pkg.torch.onnx.name_scopes"])
        self.assertIn("conv2d", metadata["pkg.torch.onnx.fx_node"])

    def test_arguments_that_are_no_tensors(self):
        class Scaled(torch.nn.Module):
            def forward(self, x, factor=1.0, other=None):
                return x * factor if other is None else x + other

        graph = described(torch.onnx.export(Scaled(), (sample(2),), kwargs={"factor": 3.0}))["graph"]
        self.assertEqual([value["name"] for value in graph["inputs"]], ["x"])


class Files(unittest.TestCase):
    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "net.onnx")
            program = torch.onnx.export(Net().eval(), (sample(1, 3, 8, 8),), path, external_data=False)
            with open(path, "rb") as file:
                self.assertEqual(file.read(), program.serialize())
            self.assertEqual(os.listdir(folder), ["net.onnx"])
            program.save(path, external_data=True)
            self.assertEqual(sorted(os.listdir(folder)), ["net.onnx", "net.onnx.data"])
            from corten.onnx._reading import load

            weights = dict(load(path)["graph"]["initializers"])
            torch.testing.assert_close(weights["features.0.weight"], program.exported_program.state_dict["features.0.weight"].detach())
            with open(path, "rb") as file, self.assertRaisesRegex(ValueError, "another file"):
                _onnx_read(file.read())
            program.save(path, include_initializers=False, keep_initializers_as_inputs=True)
            graph = load(path)["graph"]
            self.assertEqual(graph["initializers"], [])
            self.assertIn("features.0.weight", [value["name"] for value in graph["inputs"]])

    def test_what_is_no_model(self):
        for data in (b"", b"no model", os.urandom(64)):
            with self.assertRaises((ValueError, TypeError)):
                _onnx_read(data)

    def test_the_command_that_inspects_files(self):
        from corten._files import describe

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "net.onnx")
            torch.onnx.export(Net().eval(), (sample(1, 3, 8, 8),), path)
            text = "\n".join(describe(path))
            for part in ("features.0.weight", "Conv: 1", "ai.onnx 20"):
                self.assertIn(part, text)

    def test_other_weights(self):
        program = export(Net(), (sample(1, 3, 8, 8),))
        program.apply_weights({"scale": torch.zeros(5)})
        x = sample(1, 3, 8, 8)
        self.assertEqual(onnx_evaluator.run(described(program), {"x": x})[0].abs().sum().item(), 0)
        with self.assertWarnsRegex(UserWarning, "not found"):
            program.apply_weights({"other": torch.zeros(5)})


class Translations(unittest.TestCase):
    def test_of_the_caller(self):
        table = {torch.ops.aten.relu.default: lambda g, x: g.op("LeakyRelu", x, alpha_f=0.5)}
        graph = export(F.relu, (X,), custom_translation_table=table).model.graph
        self.assertEqual([(node.op_type, node.attributes) for node in graph.nodes], [("LeakyRelu", {"alpha": 0.5})])

    def test_registered(self):
        torch.onnx.register_custom_op_symbolic("aten::relu", lambda g, x: g.op("mine::Relu", x), 18)
        try:
            program = export(F.relu, (X,))
        finally:
            torch.onnx.unregister_custom_op_symbolic("aten::relu", 18)
        self.assertEqual(described(program)["graph"]["nodes"][0]["domain"], "mine")
        self.assertEqual(described(program)["opset"], {"": 20, "mine": 1})
        with self.assertRaisesRegex(ValueError, "domain::name"):
            torch.onnx.register_custom_op_symbolic("relu", None, 18)

    def test_refusals_say_why(self):
        for function, args, text in (
            (lambda a: torch.linalg.qr(a)[0], (sample(3, 3),), "No ONNX function found for .*qr"),
            (lambda a: torch.view_as_complex(a), (sample(3, 2),), "complex"),
        ):
            with self.assertRaisesRegex(torch.onnx.OnnxExporterError, text):
                export(function, args)

    def test_code_knows_that_it_is_exported(self):
        graph = export(lambda a: a * 2 if torch.onnx.is_in_onnx_export() else a + 1, (X,)).model.graph
        self.assertEqual([node.op_type for node in graph.nodes], ["Mul"])
        self.assertFalse(torch.onnx.is_in_onnx_export())


class Runtime(unittest.TestCase):
    def test_results_of_onnx_runtime(self):
        try:
            import onnx
            import onnxruntime  # noqa: F401
        except ImportError as error:
            print(f"test_onnx: results were not compared with ONNX Runtime's: {error}")
            return
        for name, (function, *args) in CASES.items():
            with self.subTest(name), torch.no_grad():
                program = export(function, tuple(args))
                onnx.checker.check_model(program.model_proto, full_check=True)
                for one, other in zip(program(*args), flat(function(*args))):
                    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    unittest.main()
