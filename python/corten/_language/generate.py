"""The command ``corten generate``."""

import argparse
import codecs
import sys
import time

import corten

from .model import Cache, Model
from .tokenizer import Tokenizer


class Sampler:
    """Chooses tokens: logits are divided by the temperature, then top-k, top-p and min-p leave out the less likely."""

    def __init__(self, temperature=0.0, top_k=0, top_p=1.0, min_p=0.0, seed=0):
        self.temperature, self.top_k, self.top_p, self.min_p = temperature, top_k, top_p, min_p
        self.generator = corten.Generator()
        self.generator.manual_seed(seed)

    def pick(self, logits):
        """The token for the logits of one position."""
        if self.temperature <= 0:
            return int(logits.argmax())
        logits, tokens = corten.topk(logits, min(self.top_k or len(logits), len(logits)))
        chances = corten.softmax(logits / self.temperature, 0)
        kept = chances >= self.min_p * chances[0]
        # The token that passes the border is kept.
        kept &= chances.cumsum(0) - chances < self.top_p
        kept[0] = True
        place = corten.multinomial(chances * kept, 1, generator=self.generator)
        return int(tokens[place])


def generate(model, tokens, sampler, ends, most):
    """The tokens that a model puts behind some, one by one: an iterator."""
    cache = Cache(model.config, len(tokens) + most)
    for _ in range(most):
        token = sampler.pick(model(tokens, cache))
        if token in ends:
            return
        yield token
        tokens = [token]


def _arguments(words):
    parser = argparse.ArgumentParser("corten generate", description="A language model of a GGUF file continues a prompt.")
    parser.add_argument("model", help="a GGUF file")
    parser.add_argument("-p", "--prompt", required=True, help="what is continued")
    parser.add_argument("--max-tokens", type=int, default=128, help="tokens behind the prompt (128)")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 takes the most likely token (0)")
    parser.add_argument("--top-k", type=int, default=0, help="the number of most likely tokens that are left")
    parser.add_argument("--top-p", type=float, default=1.0, help="the probability that these have together")
    parser.add_argument("--min-p", type=float, default=0.0, help="the least part of the largest probability")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (0)")
    parser.add_argument("--threads", type=int, help="threads of kernels")
    return parser.parse_args(words)


def main(words):
    """Continues a prompt: the text goes to the standard output as it comes, the speed to the standard error."""
    arguments = _arguments(words)
    if arguments.threads:
        corten.set_num_threads(arguments.threads)
    file = corten.gguf.load(arguments.model)
    model, tokenizer = Model(file), Tokenizer(file.metadata)
    tokens = tokenizer.encode(arguments.prompt)
    if not tokens:
        raise SystemExit("corten generate: the prompt has no tokens")
    sampler = Sampler(arguments.temperature, arguments.top_k, arguments.top_p, arguments.min_p, arguments.seed)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    start, first, count = time.perf_counter(), None, 0
    for token in generate(model, tokens, sampler, tokenizer.ends, arguments.max_tokens):
        first, count = first or time.perf_counter(), count + 1
        print(decoder.decode(tokenizer.bytes_of(token)), end="", flush=True)
    print(decoder.decode(b"", True))
    end = time.perf_counter()
    first = first or end
    print(f"{len(tokens)} tokens of the prompt: {len(tokens) / (first - start):.1f} tokens/s; {count} tokens behind it: "
          f"{max(count - 1, 0) / max(end - first, 1e-9):.1f} tokens/s", file=sys.stderr)
