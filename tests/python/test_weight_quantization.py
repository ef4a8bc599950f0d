"""Weights of models as blocks: ``quantize_weights``, and the commands that inspect and convert files."""

import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings

from module_under_test import torch

GOLDENS = pathlib.Path(__file__).parents[1] / "goldens"


class Conv1D(torch.nn.Module):
    """As transformers has it: the weight is of shape (inputs, outputs)."""

    def __init__(self, nf, nx):
        super().__init__()
        self.nf = nf
        self.weight = torch.nn.Parameter(torch.randn(nx, nf))
        self.bias = torch.nn.Parameter(torch.zeros(nf))

    def forward(self, x):
        out = torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight)
        return out.view(*x.shape[:-1], self.nf)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = torch.nn.Embedding(40, 256)
        self.first, self.second = torch.nn.Linear(256, 64), Conv1D(256, 64)
        self.odd, self.head = torch.nn.Linear(256, 33), torch.nn.Linear(256, 40, bias=False)
        self.last = torch.nn.Linear(33, 2)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        x = self.second(self.first(self.tokens(tokens)).relu())
        return self.head(x), self.last(self.odd(x))


@unittest.skipUnless(torch.__name__ == "corten", "PyTorch has no block formats")
class Weights(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.model, self.x = Model().eval(), torch.arange(40).view(4, 10)
        self.expected = self.model(self.x)

    def assert_near(self, tolerance):
        for made, expected in zip(self.model(self.x), self.expected):
            self.assertLess(((made - expected).norm() / expected.norm()).item(), tolerance)

    def test_every_kind_of_module(self):
        report = torch.quantize_weights(self.model, "q8_0", measure=False)
        self.assert_near(0.02)
        formats = {each.name: each.format for each in report}
        self.assertEqual(formats, {
            "tokens.weight": "Q8_0", "first.weight": "Q8_0", "second.weight": "Q8_0", "odd.weight": "Q8_0",
            "last.weight": None,
        })
        self.assertIs(self.model.head.weight, self.model.tokens.weight)
        self.assertIn("no whole blocks", report.kept[0].reason)
        self.assertEqual(self.model.second.weight.shape, (64, 256))
        self.assertEqual(self.model.second.weight.block_format, "Q8_0")
        self.assertTrue(all(0 < each.rms < 0.01 and each.largest > 0 for each in report.quantized))
        self.assertEqual(report[1].nbytes, (64 * 256 * 4, 64 * 8 * 34))
        self.assertIn("4 of 5 weights quantized", str(report))
        # What is quantised already stays so.
        self.assertEqual(len(torch.quantize_weights(self.model, "q4_0", measure=False).quantized), 0)

    def test_formats_of_256(self):
        report = torch.quantize_weights(self.model, "q6_k", measure=False)
        formats = {each.name: (each.format, each.reason) for each in report}
        self.assertEqual(formats["first.weight"], ("Q6_K", ""))
        self.assertEqual(formats["second.weight"][0], "Q8_0")
        self.assertIn("no whole blocks of Q6_K", formats["second.weight"][1])
        self.assert_near(0.05)

    def test_patterns(self):
        report = torch.quantize_weights(self.model, "q8_0", include="*s*", exclude=["second"], measure=False)
        self.assertEqual([each.name for each in report], ["first.weight", "last.weight"])
        # The embedding's weight is the head's, which was not chosen.
        self.assertIsNone(self.model.tokens.weight.block_format)

    def test_what_keeps_its_weights(self):
        model = torch.nn.ModuleList([
            torch.nn.Embedding(4, 32, max_norm=1.0), torch.nn.Embedding(4, 32, dtype=torch.bfloat16),
            torch.nn.Linear(32, 4, dtype=torch.bfloat16), torch.nn.Linear(32, 4, device="meta"),
        ])
        report = torch.quantize_weights(model, measure=False)
        self.assertEqual([each.format for each in report], [None, None, "Q8_0", None])
        self.assertEqual(model[2](torch.ones(1, 32, dtype=torch.bfloat16)).dtype, torch.bfloat16)
        with self.assertRaisesRegex(ValueError, "no block format"):
            torch.quantize_weights(model, "int4")

    def test_measured(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            report = torch.quantize_weights(self.model, "q8_0")
        slower = [each for each in report if "slower" in each.reason]
        self.assertEqual(len([each for each in caught if "stay as they are" in str(each.message)]), bool(slower))
        for each in report:
            if each.format:
                self.assertTrue(each.speed and min(each.speed.values()) > 0.5)
        self.assert_near(0.02)


@unittest.skipUnless(torch.__name__ == "corten", "the commands are Corten's own")
class Commands(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def run_command(self, *arguments):
        command = [sys.executable, "-m", "corten", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True)

    def output(self, *arguments):
        done = self.run_command(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def test_inspect(self):
        lines = self.output("inspect", GOLDENS / "blocks.gguf")
        self.assertIn("general.architecture = 'llama'", lines)
        self.assertIn("test.types = [1, 3, -1]", lines)
        self.assertIn("Q4_K  Q4_K  (3, 256)  432 B", lines)
        self.assertIn("IQ2_XXS  IQ2_XXS  (2, 256)  132 B", lines)
        self.assertIn("16 tensors", lines[-1])
        torch.safetensors.save_file({"a": torch.ones(2, dtype=torch.half)}, self.folder / "x.safetensors", {"by": "me"})
        lines = self.output("inspect", self.folder / "x.safetensors")
        self.assertEqual(lines, ["by = 'me'", "", "a  float16  (2,)  4 B", "1 tensors, 4 B"])

    def test_quantise_and_back(self):
        torch.manual_seed(0)
        tensors = {"blk.w": torch.randn(4, 256), "small": torch.randn(4, 64), "norm": torch.ones(256), "n": torch.arange(3)}
        torch.safetensors.save_file(tensors, self.folder / "x.safetensors")
        lines = self.output("convert", self.folder / "x.safetensors", self.folder / "x.gguf", "--to", "q4_k")
        found = torch.gguf.load(self.folder / "x.gguf")
        self.assertEqual(found.types, {"blk.w": "Q4_K", "small": "Q5_0", "norm": "F32", "n": "I64"})
        self.assertEqual(found.metadata["general.file_type"], 14)
        line, = (each for each in lines if each.startswith("blk.w"))
        self.assertRegex(line, r"blk.w  float32 -> Q4_K  \(4, 256\)  4.0 KiB -> 576 B  error: rms 0.0\d+, max 0.\d+")
        exact = tensors["blk.w"]
        rms = ((found.tensors["blk.w"].to_dense() - exact).norm() / exact.norm()).item()
        self.assertAlmostEqual(float(line.split("rms ")[1].split(",")[0]), rms, places=5)
        self.assertRegex(lines[-1], r"4 tensors, .* error: rms 0.\d+, max 0.\d+")
        self.output("convert", self.folder / "x.gguf", self.folder / "y.safetensors")
        back = torch.safetensors.load_file(self.folder / "y.safetensors")
        self.assertTrue(torch.equal(back["blk.w"], found.tensors["blk.w"].to_dense()))
        self.output("convert", self.folder / "y.safetensors", self.folder / "z.gguf")
        self.assertEqual(torch.gguf.load(self.folder / "z.gguf").metadata, found.metadata)
        self.output("convert", self.folder / "x.gguf", self.folder / "x.pt")
        self.assertEqual(torch.load(self.folder / "x.pt")["blk.w"].block_format, "Q4_K")
        self.output("convert", self.folder / "x.gguf", self.folder / "h.gguf", "--to", "f16")
        self.assertEqual(torch.gguf.load(self.folder / "h.gguf").types["blk.w"], "F16")

    def test_patterns(self):
        tensors = {f"{name}.w": torch.randn(2, 64) for name in ("a", "b", "c")}
        torch.save(tensors, self.folder / "x.pt")
        self.output("convert", self.folder / "x.pt", self.folder / "x.gguf", "--to", "q8_0", "--include", "a.*",
                    "--include", "b.*", "--exclude", "b*")
        found = torch.gguf.load(self.folder / "x.gguf")
        self.assertEqual(list(found.types.values()), ["Q8_0", "F32", "F32"])

    def test_the_same_file_again(self):
        self.output("convert", GOLDENS / "blocks.gguf", self.folder / "x.gguf")
        self.assertEqual((self.folder / "x.gguf").read_bytes(), (GOLDENS / "blocks.gguf").read_bytes())

    def test_what_is_refused(self):
        target = self.folder / "x.safetensors"
        target.write_bytes(b"before")
        for arguments, message in (
            ((GOLDENS / "blocks.gguf", target), "IQ2_XXS"),
            ((GOLDENS / "blocks.gguf", target, "--to", "q4_k"), "hold no blocks"),
            ((GOLDENS / "blocks.gguf", target, "--to", "q9"), "no block format"),
            ((GOLDENS / "blocks.gguf", self.folder / "x.xyz"), "no format"),
            ((self.folder / "none.gguf", target), "none.gguf"),
        ):
            done = self.run_command("convert", *arguments)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(message, done.stderr)
            self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(target.read_bytes(), b"before")


if __name__ == "__main__":
    unittest.main()
