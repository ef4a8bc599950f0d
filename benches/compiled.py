"""Compiled functions beside eager ones, and beside PyTorch's, in one run.

    python benches/compiled.py CORTEN_PYTHON=PACKAGE [TORCH_PYTHON] [--rounds 12] [--threads 2] [--memory]

The first is a Python with the folder of a release build of the package, as `python3=target/wheel`; the second a Python
with PyTorch and a C++ compiler. Both libraries' processes live throughout and take turns, row by row and round by
round, eager and compiled alternating, so that a drift of the machine hits all alike. Prints medians in milliseconds,
the gains of compilation, and the ratio of the compiled times.

With ``--memory`` the bytes of host memory of Corten are measured instead, by its allocator: the most that a call has
besides what was there before it, and with that, which are parameters and gradients for steps of training. Functions
are recorded at every call there; otherwise those are whose time that pays.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

ROWS = (
    "axpb", "gelu", "silu_gate", "rmsnorm", "softmax", "add_gelu_layernorm", "ten_ops_1k", "mlp_forward", "mlp_step",
    "gpt_forward", "gpt_step", "gpt_token",
)


def _worker(module):
    import importlib

    torch = importlib.import_module(module)
    torch.set_num_threads(int(os.environ["BENCH_THREADS"]))
    for line in sys.stdin:
        name = line.split()[0]
        torch.manual_seed(0)
        eager, step_of, grad = _cases(torch)[name]
        compiled = torch.compile(eager)
        calls = {"eager": step_of(eager), "compiled": step_of(compiled)}
        with torch.set_grad_enabled(grad):
            begin = time.perf_counter()
            calls["compiled"]()
            first = time.perf_counter() - begin
            for _ in range(20):
                for call in calls.values():
                    call()
        print(json.dumps({"first": first}), flush=True)
        for order in iter(sys.stdin.readline, "end\n"):
            del order
            with torch.set_grad_enabled(grad):
                print(json.dumps({kind: _once(call) for kind, call in calls.items()}), flush=True)


def _memory_worker():
    import corten as torch

    torch.set_num_threads(int(os.environ["BENCH_THREADS"]))
    for line in sys.stdin:
        name, kind = line.split()
        torch.manual_seed(0)
        eager, step_of, grad = _cases(torch)[name]
        call = step_of(eager if kind == "eager" else torch.compile(eager, fullgraph=True))
        with torch.set_grad_enabled(grad):
            for _ in range(4):
                call()
            print(json.dumps(_peak(torch, call)), flush=True)


def _peak(torch, call):
    """The bytes before a call, and the most in it."""
    before = torch._C._cpu_memoryStats()["allocated_bytes.all.current"]
    torch._C._cpu_watchMemory(1 << 20)
    call()
    events, dropped = torch._C._cpu_takeMemoryEvents()
    torch._C._cpu_watchMemory(0)
    assert not dropped, "more events than are kept"
    return {"before": before, "most": max((event[3] for event in events), default=before)}


def _measure_memory(options):
    print("row: bytes above those before the call, eager compiled ratio; with those, eager compiled ratio")
    python, _, package = options.corten.partition("=")
    for row in options.rows.split(","):
        found = {}
        for kind in ("eager", "compiled"):
            library = _Library(python, "memory", options.threads, package)
            found[kind] = library.ask(f"{row} {kind}")
            library.process.stdin.close()
            library.process.wait()
        above = [found[kind]["most"] - found[kind]["before"] for kind in ("eager", "compiled")]
        whole = [found[kind]["most"] for kind in ("eager", "compiled")]
        parts = (f"{eager} {compiled} {compiled / max(eager, 1):.3f}" for eager, compiled in (above, whole))
        print(f"{row:20s} " + "; ".join(parts), flush=True)


def _once(call):
    """Seconds of a call: the least of two batches of a few milliseconds."""
    begin = time.perf_counter()
    call()
    count = max(1, int(0.01 / max(time.perf_counter() - begin, 1e-7)))
    best = float("inf")
    for _ in range(2):
        begin = time.perf_counter()
        for _ in range(count):
            call()
        best = min(best, (time.perf_counter() - begin) / count)
    return best


def _cases(torch):
    """By row: the function, what makes a call of it, and whether gradients are recorded."""
    functional = torch.nn.functional
    large = torch.randn(4 << 20)
    gain, bias, small = torch.randn(4 << 20), torch.randn(4 << 20), torch.randn(1024)
    rows, weight = torch.randn(2048, 1024), torch.randn(1024)

    def ten(x):
        for _ in range(5):
            x = x * 0.5 + 1
        return x

    def written_gelu(x):
        return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))

    def softmax(x):
        shifted = (x - x.max(-1, keepdim=True).values).exp()
        return shifted / shifted.sum(-1, keepdim=True)

    def plain(*args):
        return lambda function: lambda: function(*args)

    model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256))
    batch = torch.randn(512, 256)
    gpt, tokens, one = _gpt(torch), torch.randint(0, 256, (8, 64)), torch.randint(0, 256, (1, 1))
    return {
        "axpb": (lambda x, g, b: (x * g + b) * 0.5 + x, plain(large, gain, bias), False),
        "gelu": (written_gelu, plain(large), False),
        "silu_gate": (lambda x, g: functional.silu(x) * g, plain(large[:1 << 20], gain[:1 << 20]), False),
        "rmsnorm": (lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w, plain(rows, weight), False),
        "softmax": (softmax, plain(rows), False),
        "add_gelu_layernorm": (
            lambda x, w: x + functional.gelu(functional.layer_norm(x, (1024,), w)), plain(rows, weight), False),
        "ten_ops_1k": (ten, plain(small), False),
        "mlp_forward": (model.forward, plain(batch), False),
        "mlp_step": (lambda x: model(x).square().mean(), _step(batch), True),
        "gpt_forward": (gpt.forward, plain(tokens), False),
        "gpt_step": (
            lambda x: functional.cross_entropy(gpt(x).flatten(0, 1), x.flatten()), _step(tokens), True),
        "gpt_token": (gpt.forward, plain(one), False),
    }


def _step(batch):
    return lambda function: lambda: function(batch).backward()


def _gpt(torch, layers=4, width=128, heads=4, vocabulary=256):
    """A small GPT: pre-normalised blocks of attention and an MLP."""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
            self.inputs, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x):
            batch, length, _ = x.shape
            parts = self.inputs(self.norms[0](x)).view(batch, length, 3, heads, width // heads)
            query, key, value = parts.permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.output(mixed.transpose(1, 2).reshape(batch, length, width))
            return x + self.mlp(self.norms[1](x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(512, width)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

        def forward(self, tokens):
            x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    return Model()


class _Library:
    """A process with one library."""

    def __init__(self, python, module, threads, package=None):
        environment = {**os.environ, "BENCH_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
        if package:
            environment["PYTHONPATH"] = os.path.abspath(package)
        self.process = subprocess.Popen([python, __file__, "--worker", module], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env=environment, text=True)

    def ask(self, line):
        """An answer of the process."""
        self.tell(line)
        return json.loads(self.process.stdout.readline())

    def tell(self, line):
        """A line without an answer."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()


def _median(samples, kind):
    return statistics.median(sample[kind] for sample in samples)


def main():
    """Measures all rows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("corten")
    parser.add_argument("torch", nargs="?")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--memory", action="store_true")
    options = parser.parse_args()
    if options.memory:
        return _measure_memory(options)
    python, _, package = options.corten.partition("=")
    libraries = {"corten": _Library(python, "corten", options.threads, package)}
    if options.torch:
        libraries["torch"] = _Library(options.torch, "torch", options.threads)
    print("row: library eager compiled gain first-call (ms); compiled PyTorch / compiled Corten")
    for row in options.rows.split(","):
        first = {name: library.ask(row)["first"] for name, library in libraries.items()}
        samples = {name: [] for name in libraries}
        for _ in range(options.rounds):
            for name, library in libraries.items():
                samples[name].append(library.ask("sample"))
        parts = []
        for name, library in libraries.items():
            library.tell("end")
            eager, compiled = _median(samples[name], "eager"), _median(samples[name], "compiled")
            parts.append(f"{name} {eager * 1e3:.3f} {compiled * 1e3:.3f} {eager / compiled:.2f}x {first[name] * 1e3:.1f}")
        if options.torch:
            ratio = _median(samples["torch"], "compiled") / _median(samples["corten"], "compiled")
            parts.append(f"{ratio:.2f}")
        print(f"{row:20s} " + "; ".join(parts), flush=True)
    for library in libraries.values():
        library.process.stdin.close()
        library.process.wait()


if __name__ == "__main__":
    if sys.argv[1:3] == ["--worker", "memory"]:
        _memory_worker()
    elif sys.argv[1:2] == ["--worker"]:
        _worker(sys.argv[2])
    else:
        main()
