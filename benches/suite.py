"""How fast Corten is beside PyTorch: ratios of medians, in one run.

    make bench PYTHON_WITH_TORCH=path/to/python
    PYTHONPATH=python python3 benches/suite.py --groups overhead matmul --threads 1

Every case runs on each module in turn, sample by sample, so that a slow moment of the machine hits
both. A ratio above one means that Corten is faster. Without PyTorch, Corten is timed alone.
"""

import argparse
import importlib
import math
import os
import statistics
import sys
import time
import timeit

# Per group: what all its cases share, then name, statement and, where needed, a preparation.
GROUPS = {
    "overhead": (
        "a, b, m = torch.ones(4), torch.ones(4), torch.ones(2, 2)\n"
        "g = torch.ones(4, requires_grad=True)",
        [
            ("a + b", "a + b"),
            ("a + 1.0", "a + 1.0"),
            ("add_", "a.add_(b, alpha=0.0)"),
            ("add, out=", "torch.add(a, b, out=o)", "o = torch.empty(4)"),
            ("exp", "a.exp()"),
            ("sum", "a.sum()"),
            ("2x2 matrices", "m @ m"),
            ("view", "m.view(4)"),
            ("slice", "a[1:3]"),
            ("transpose", "m.t()"),
            ("item", "s.item()", "s = torch.ones(())"),
            ("shape", "m.shape"),
            ("empty", "torch.empty(4)"),
            ("from a list", "torch.tensor([1.0, 2.0, 3.0])"),
            ("cat", "torch.cat([a, b])"),
            ("a + b, recorded", "g + b"),
            ("no_grad", "with torch.no_grad(): pass"),
            ("linear module", "f(m)", "f = torch.nn.Linear(2, 2)"),
            ("10 products and back", "run()",
             "def run():\n"
             "    y = g\n"
             "    for _ in range(10): y = y * b\n"
             "    y.sum().backward()\n"
             "    g.grad = None"),
        ],
    ),
    "elementwise": (
        "x, y = torch.randn(1000, 1000), torch.randn(1000, 1000)\n"
        "small, half = torch.randn(100, 100), x.bfloat16()",
        [
            ("add, 1e6", "x + y"),
            ("add, 1e4", "small + small"),
            ("add, out=, 1e6", "torch.add(x, y, out=o)", "o = torch.empty(1000, 1000)"),
            ("add, in place, 1e6", "x.add_(y, alpha=0.0)"),
            ("add, bfloat16, 1e6", "half + half"),
            ("add a row, 1e6", "x + row", "row = torch.randn(1000)"),
            ("add a transpose, 1e6", "x + y.t()"),
            ("multiply by a number, 1e6", "x * 1.5"),
            ("divide, 1e6", "x / y"),
            ("exp, 1e6", "x.exp()"),
            ("tanh, 1e6", "x.tanh()"),
            ("sigmoid, 1e6", "x.sigmoid()"),
            ("relu, 1e6", "x.relu()"),
            ("gelu, 1e6", "torch.nn.functional.gelu(x)"),
            ("compare, 1e6", "x > y"),
            ("where, 1e6", "torch.where(c, x, y)", "c = x > y"),
            ("clone, 1e6", "x.clone()"),
            ("to float64, 1e6", "x.double()"),
            ("contiguous of a transpose, 1e6", "x.t().contiguous()"),
        ],
    ),
    "reductions": (
        "x = torch.randn(1000, 1000)",
        [
            ("sum", "x.sum()"),
            ("sum over dim 0", "x.sum(0)"),
            ("sum over dim 1", "x.sum(1)"),
            ("mean", "x.mean()"),
            ("max", "x.max()"),
            ("max over dim 1", "x.max(1)"),
            ("argmax over dim 1", "x.argmax(1)"),
            ("variance over dim 1", "x.var(1)"),
            ("norm", "x.norm()"),
            ("cumsum over dim 1", "x.cumsum(1)"),
            ("logsumexp over dim 1", "x.logsumexp(1)"),
            ("any", "b.any()", "b = x > 100"),
        ],
    ),
    "matmul": (
        "",
        [
            ("64 x 64", "a @ a", "a = torch.randn(64, 64)"),
            ("256 x 256", "a @ a", "a = torch.randn(256, 256)"),
            ("512 x 512", "a @ a", "a = torch.randn(512, 512)"),
            ("512 x 512, transposed", "a @ a.t()", "a = torch.randn(512, 512)"),
            ("512 x 512, float64", "a @ a", "a = torch.randn(512, 512).double()"),
            ("matrix and vector, 1024", "a @ v",
             "a, v = torch.randn(1024, 1024), torch.randn(1024)"),
            ("16 of 64 x 64", "torch.bmm(a, a)", "a = torch.randn(16, 64, 64)"),
            ("linear, 64 of 512 to 512", "torch.nn.functional.linear(x, w, b)",
             "x, w, b = torch.randn(64, 512), torch.randn(512, 512), torch.randn(512)"),
        ],
    ),
    "convolution": (
        "conv = torch.nn.functional",
        [
            ("3x3, 8 of 32x32x32 to 64", "conv.conv2d(x, w, padding=1)",
             "x, w = torch.randn(8, 32, 32, 32), torch.randn(64, 32, 3, 3)"),
            ("3x3, stride 2", "conv.conv2d(x, w, stride=2, padding=1)",
             "x, w = torch.randn(8, 32, 32, 32), torch.randn(64, 32, 3, 3)"),
            ("1x1", "conv.conv2d(x, w)",
             "x, w = torch.randn(8, 64, 28, 28), torch.randn(128, 64, 1, 1)"),
            ("depthwise 3x3", "conv.conv2d(x, w, padding=1, groups=64)",
             "x, w = torch.randn(8, 64, 28, 28), torch.randn(64, 1, 3, 3)"),
            ("one dimension", "conv.conv1d(x, w, padding=2)",
             "x, w = torch.randn(8, 32, 512), torch.randn(32, 32, 5)"),
            ("max pool 2x2", "conv.max_pool2d(x, 2)", "x = torch.randn(8, 32, 64, 64)"),
        ],
    ),
    "normalisation": (
        "f = torch.nn.functional",
        [
            ("softmax, 1024x1024", "x.softmax(1)", "x = torch.randn(1024, 1024)"),
            ("log_softmax, 1024x1024", "x.log_softmax(1)", "x = torch.randn(1024, 1024)"),
            ("layer_norm, 1024x768", "f.layer_norm(x, (768,), w, w)",
             "x, w = torch.randn(1024, 768), torch.ones(768)"),
            ("batch_norm, 16x64x28x28", "f.batch_norm(x, None, None, w, w, training=True)",
             "x, w = torch.randn(16, 64, 28, 28), torch.ones(64)"),
            ("group_norm, 16x64x28x28", "f.group_norm(x, 8, w, w)",
             "x, w = torch.randn(16, 64, 28, 28), torch.ones(64)"),
            ("cross_entropy, 1024x1000", "f.cross_entropy(x, t)",
             "x, t = torch.randn(1024, 1000), torch.randint(0, 1000, (1024,))"),
        ],
    ),
    "training step": (
        "nn, F = torch.nn, torch.nn.functional\n"
        "def step(net, optimizer, x, t):\n"
        "    optimizer.zero_grad()\n"
        "    F.cross_entropy(net(x), t).backward()\n"
        "    optimizer.step()\n"
        "t = torch.randint(0, 10, (64,))",
        [
            ("perceptron, SGD", "step(net, optimizer, x, t)",
             "net = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))\n"
             "optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)\n"
             "x = torch.randn(64, 784)"),
            ("perceptron, AdamW", "step(net, optimizer, x, t)",
             "net = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))\n"
             "optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)\n"
             "x = torch.randn(64, 784)"),
            ("convolutions, AdamW", "step(net, optimizer, x, t)",
             "net = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),\n"
             "    nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),\n"
             "    nn.Flatten(), nn.Linear(32 * 7 * 7, 10))\n"
             "optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)\n"
             "x = torch.randn(64, 1, 28, 28)"),
            ("transformer layer, AdamW", "step(net, optimizer, x, t)",
             "class Net(nn.Module):\n"
             "    def __init__(self):\n"
             "        super().__init__()\n"
             "        self.qkv, self.out = nn.Linear(64, 192), nn.Linear(64, 64)\n"
             "        self.norm, self.head = nn.LayerNorm(64), nn.Linear(64, 10)\n"
             "    def forward(self, x):\n"
             "        q, k, v = self.qkv(self.norm(x)).view(64, 16, 3, 4, 16).permute(2, 0, 3, 1, 4)\n"
             "        h = F.scaled_dot_product_attention(q, k, v, is_causal=True)\n"
             "        x = x + self.out(h.transpose(1, 2).reshape(64, 16, 64))\n"
             "        return self.head(F.gelu(x).mean(1))\n"
             "net = Net()\n"
             "optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)\n"
             "x = torch.randn(64, 16, 64)"),
        ],
    ),
}


class Sampler:
    """One case on one module."""

    def __init__(self, module, shared, statement, preparation, seconds):
        names = {"torch": module}
        module.manual_seed(0)
        exec(shared + "\n" + preparation, names)
        self.timer = timeit.Timer(statement, globals=names)
        self.timer.timeit(1)
        self.samples, self.calls = [], 1
        while (taken := self.timer.timeit(self.calls)) < seconds / 4:
            self.calls *= 4
        self.calls = max(1, math.ceil(self.calls * seconds / taken))

    def sample(self):
        self.samples.append(self.timer.timeit(self.calls) / self.calls)

    def median(self):
        return statistics.median(self.samples)


# Seconds until the idle threads of one library have stopped to wait for work actively, on the cores
# that the other one is about to use.
PAUSE = 0.01


def measure(modules, shared, case, options):
    """The median seconds of one case per module."""
    _, statement, *preparation = case
    samplers = [
        Sampler(module, shared, statement, "\n".join(preparation), options.seconds)
        for module in modules
    ]
    for _ in range(options.rounds):
        for sampler in samplers:
            if options.threads != 1:
                time.sleep(PAUSE)
            sampler.sample()
    return [sampler.median() for sampler in samplers]


def run_group(modules, name, options):
    """Prints a line per case and the mean ratio; returns the ratios. A case that raises is shown."""
    shared, cases = GROUPS[name]
    print(f"\n{name:32}" + "".join(f"{module.__name__:>12} µs" for module in modules))
    ratios = []
    for case in cases:
        try:
            medians = measure(modules, shared, case, options)
        except Exception as error:
            print(f"  {case[0]:30}{type(error).__name__}: {error}")
            continue
        line = f"  {case[0]:30}" + "".join(f"{median * 1e6:15.2f}" for median in medians)
        if len(medians) == 2:
            ratios.append(medians[1] / medians[0])
            line += f"{ratios[-1]:8.2f}x"
        print(line, flush=True)
    if ratios:
        print(f"  {'geometric mean':30}{'':30}{statistics.geometric_mean(ratios):8.2f}x")
    return ratios


def installed():
    """Corten, and PyTorch if this interpreter has it."""
    modules = [importlib.import_module("corten")]
    try:
        modules.append(importlib.import_module("torch"))
    except ImportError:
        print("PyTorch is not installed here: Corten alone, without ratios.")
    return modules


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--groups", nargs="*", default=list(GROUPS), choices=list(GROUPS))
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=11, help="samples per case and module")
    parser.add_argument("--seconds", type=float, default=0.01, help="length of a sample")
    options = parser.parse_args()
    modules = installed()
    for module in modules:
        module.set_num_threads(options.threads)
    print(f"{options.threads} threads, medians of {options.rounds} samples, Python "
          f"{sys.version.split()[0]}, " + ", ".join(f"{m.__name__} {m.__version__}" for m in modules))
    ratios = [ratio for group in options.groups for ratio in run_group(modules, group, options)]
    if ratios:
        print(f"\n{'torch/corten, geometric mean of all':62}{statistics.geometric_mean(ratios):8.2f}x")


if __name__ == "__main__":
    main()
