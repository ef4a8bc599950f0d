"""Language models of GGUF files: tokens, logits and the command."""

import contextlib
import io
import json
import pathlib
import sys
import unittest

import numpy

import corten
import corten.__main__
from corten._language.generate import Sampler, generate
from corten._language.model import Cache, Model
from corten._language.tokenizer import Tokenizer

GOLDENS = pathlib.Path(__file__).resolve().parent.parent / "goldens/language_models"


def load(name):
    return corten.gguf.load(str(GOLDENS / f"{name}.gguf"))


class Tokens(unittest.TestCase):
    def test_texts(self):
        expected = json.loads((GOLDENS / "tokens.json").read_text())
        for name, theirs in (("llama", "llama"), ("bpe", "bpe")):
            tokenizer = Tokenizer(load(name).metadata)
            for text, tokens in expected[theirs]:
                self.assertEqual(tokenizer.encode(text, False), tokens, (name, text))
                self.assertEqual(tokenizer.decode(tokens), text)

    def test_rules(self):
        # The rules of other tokenizers of bytes, on the vocabulary of one.
        expected = json.loads((GOLDENS / "tokens.json").read_text())
        for name, rules in (("qwen2", "qwen2"), ("qwen3", "gpt-2"), ("gemma2", "smollm")):
            model = json.loads((GOLDENS / name / "tokenizer.json").read_text())["model"]
            texts = sorted(model["vocab"], key=model["vocab"].get)
            tokenizer = Tokenizer({
                "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": rules, "tokenizer.ggml.tokens": texts,
                "tokenizer.ggml.merges": [" ".join(pair) for pair in model["merges"]]})
            for text, tokens in expected[name]:
                self.assertEqual(tokenizer.encode(text, False), tokens, (name, text))

    def test_special(self):
        tokenizer = Tokenizer(load("bpe").metadata)
        turn, man = tokenizer.ids["<turn>"], tokenizer.encode("man", False)
        self.assertEqual(tokenizer.encode("man<turn>man<turn>"), [tokenizer.begin, *man, turn, *man, turn])
        self.assertRaises(NotImplementedError, Tokenizer, {"tokenizer.ggml.model": "bert"})


class Models(unittest.TestCase):
    def test_logits(self):
        golden = numpy.load(GOLDENS / "expected.npz")
        expected, tokens = corten.from_numpy(golden["gguf_rounded_logits"]), golden["gguf_tokens"].tolist()
        model = Model(load("gemma3"))
        for step in (1, 5):
            cache, rows = Cache(model.config, 40, corten.float32), []
            for start in range(0, 40, step):
                rows.append(model(tokens[start:start + step], cache))
            rows = rows[4::5] if step == 1 else rows
            apart = (corten.stack(rows) - expected).square().mean().sqrt()
            self.assertLess(float(apart), 0.02 * float(expected.square().mean().sqrt()))
        self.assertRaises(IndexError, model, [1], cache)

    def test_llama(self):
        golden = numpy.load(GOLDENS / "expected.npz")
        model = Model(load("llama"))
        cache = Cache(model.config, 40, corten.float32)
        logits = [model([token], cache) for token in golden["llama_tokens"].tolist()]
        apart = (corten.stack(logits[4::5]) - corten.from_numpy(golden["llama_logits"])).abs().max()
        self.assertLess(float(apart), 1e-4)

    def test_sampling(self):
        logits = corten.tensor([0.0, 2.0, 1.0, -1.0, 3.0])

        def drawn(**settings):
            sampler = Sampler(2.0, **settings)
            return sorted({sampler.pick(logits) for _ in range(200)})

        self.assertEqual(drawn(), [0, 1, 2, 3, 4])
        self.assertEqual(drawn(top_k=3), [1, 2, 4])
        self.assertEqual(drawn(top_p=0.5), [1, 4])
        self.assertEqual(drawn(top_p=0.0), [4])
        self.assertEqual(drawn(min_p=0.3), [1, 2, 4])
        self.assertEqual(Sampler().pick(logits), 4)

    def test_ends(self):
        model = Model(load("gemma3"))
        tokens = list(generate(model, [2, 7], Sampler(), set(), 6))
        self.assertEqual(len(tokens), 6)
        self.assertEqual(list(generate(model, [2, 7], Sampler(), {tokens[0]}, 6)), [])


class Command(unittest.TestCase):
    def run_with(self, *words):
        out, errors, before = io.StringIO(), io.StringIO(), sys.argv
        sys.argv = ["corten", "generate", str(GOLDENS / "gemma3.gguf"), *words]
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
                corten.__main__.main()
        finally:
            sys.argv = before
        return out.getvalue(), errors.getvalue()

    def test_text_and_speed(self):
        text, speed = self.run_with("-p", "the fruit", "--max-tokens", "5")
        self.assertIn("tokens/s", speed)
        self.assertEqual(text, self.run_with("-p", "the fruit", "--max-tokens", "5", "--temperature", "0")[0])
        sampled = ("-p", "the fruit", "--max-tokens", "8", "--temperature", "2", "--top-k", "50", "--seed", "3")
        self.assertEqual(self.run_with(*sampled)[0], self.run_with(*sampled)[0])


if __name__ == "__main__":
    unittest.main()
