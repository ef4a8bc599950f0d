"""Every operator of the registry beside PyTorch's, at one large size, on one thread.

    make bench-ops PYTHON_WITH_TORCH=path/to/python
    PYTHONPATH=python python3 benches/operators.py --only 'upsample*' --worst 20

An operator gets its arguments by their types and names, from the first set of operands that PyTorch
accepts; `ARGUMENTS` names those that need others. Both libraries get the same values, and their
samples alternate. In-place and `out=` forms run the kernels of the functional form and are left out.
"""

import argparse
import fnmatch
import math
import statistics
import sys
import time
import warnings

# The operands, by the dimensions that operators ask for. Values suit every domain: (0, 1), or
# small counts for integers.
OPERANDS = {
    "matrix": "torch.rand(1000, 1000)",
    "images": "torch.rand(8, 16, 96, 96)",
    "sequences": "torch.rand(8, 64, 2048)",
    "volumes": "torch.rand(2, 8, 40, 40, 40)",
    "vector": "torch.rand(1_000_000)",
    "square": "torch.rand(200, 200) + 20 * torch.eye(200)",
    "batches": "torch.rand(64, 100, 100)",
    "integers": "torch.randint(1, 5, (1000, 1000))",
    "truth": "torch.rand(1000, 1000) > 0.5",
    "complex": "torch.rand(1000, 1000, dtype=torch.complex64)",
}

# By argument name, where the type alone does not say what is meant. `x` is the operand.
BY_NAME = {
    "dim": "1", "dim0": "0", "dim1": "1", "dim2": "1", "dims": "[0, 1]", "axis0": "0", "axis1": "1",
    "source": "x[:1] if x.dim() else x", "index": "torch.zeros_like(x, dtype=torch.long)",
    "indices": "torch.randint(0, 1000, (1000,))", "mask": "x > 0.5", "condition": "x > 0.5",
    "size": "x.shape", "sizes": "x.shape", "shape": "x.shape", "normalized_shape": "x.shape[1:]",
    "output_size": "[(n + 1) // 2 for n in x.shape[2:]]", "kernel_size": "[3] * (x.dim() - 2)",
    "p": "0.5", "n": "2", "end": "1_000_000", "start": "0", "steps": "1_000_000", "high": "100",
    "low": "0", "step": "1", "k": "10", "eps": "1e-5", "reduce": "'sum'", "equation": "'ij,jk->ik'",
    "output_mask": "[True, True, True]", "groups": "1", "ignore_index": "-100", "chunks": "4",
    "split_size": "10", "sections": "4", "repeats": "[2] * x.dim()", "upscale_factor": "2",
    "downscale_factor": "2", "window_length": "1_000_000", "num_samples": "10", "value": "0.5",
    "dtype": "torch.float64", "N": "x.shape[0]", "C": "x.shape[1]", "group": "4",
    "HxW": "math.prod(x.shape[2:])", "num_groups": "4", "pad": "[2] * (2 * max(1, x.dim() - 2))",
    "momentum": "0.1", "fill_value": "0.5", "reduction": "1", "normalization": "0",
    "interpolation_mode": "0", "padding_mode": "0", "scale_factors": "None", "generator": "None",
    "shifts": "[1]", "tensor1": "x", "tensor2": "x", "n_fft": "256", "onesided": "True",
    "mat2": "x.t()", "other": "x", "lambd": "0.5", "decimals": "2", "row": "1000", "col": "1000",
    "input_size": "x.shape", "input_sizes": "x.shape", "device": "torch.device('cpu')",
}

BY_TYPE = {
    "Tensor": "x", "Number": "0.5", "number": "0.5", "int": "1", "float": "0.5", "bool": "False",
    "List[Tensor]": "[x, x]", "List[int]": "[1]", "List[float]": "[0.5]", "List[bool]": "[True]",
    "str": "'sum'", "List[Optional[Tensor]]": "[torch.randint(0, len(x), (len(x),))]",
    "List[number]": "[0.5]", "List[Number]": "[0.5]",
}

# Overloads and operators whose arguments must fit each other: positional, then named ones.
ARGUMENTS = {}


def schema_arguments(operator, x, names):
    """The arguments of an overload without a default, by name and type."""
    values = []
    for argument in operator._schema.arguments:
        if argument.has_default_value() or argument.kwarg_only:
            continue
        kind = str(argument.type)
        if kind.startswith("Optional["):
            text = "None"
        elif argument.name in BY_NAME and not (kind == "Tensor" and argument.name in ("p", "n", "end", "start", "value", "source")):
            text = BY_NAME[argument.name]
        else:
            text = BY_TYPE.get(kind)
        if text is None:
            raise LookupError(f"{argument.name}: {kind}")
        value = eval(text, names | {"x": x})
        if kind == "List[int]" and isinstance(value, int):
            value = [value]
        values.append(value)
    return values, {}


def find_arguments(torch, operator, key):
    """The first arguments that PyTorch accepts, with the name of their operand."""
    names = {"torch": torch, "math": math}
    base = key.partition(".")[0]
    text = ARGUMENTS.get(key, ARGUMENTS.get(base))
    if text is not None:
        collect = eval(f"lambda *args, **kwargs: (list(args), kwargs)", {})
        args, kwargs = eval(f"collect({text})", names | {"collect": collect})
        operator(*args, **kwargs)
        return "given", args, kwargs
    refusal = None
    for name, text in OPERANDS.items():
        torch.manual_seed(0)
        x = eval(text, names)
        try:
            args, kwargs = schema_arguments(operator, x, names)
            operator(*args, **kwargs)
            return name, args, kwargs
        except Exception as error:
            refusal = refusal or error
    raise LookupError(str(refusal).partition("\n")[0])


def converted(value, torch, corten):
    """A value of PyTorch's in Corten's types, the same in every element and stride."""
    if isinstance(value, torch.Tensor):
        return corten.from_numpy(value.numpy())
    if isinstance(value, (torch.dtype, torch.device)):
        text = str(value).removeprefix("torch.")
        return getattr(corten, text, None) or corten.device(text)
    if isinstance(value, (list, tuple)):
        return type(value)(converted(one, torch, corten) for one in value) \
            if not isinstance(value, torch.Size) else list(value)
    return value


def once(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def medians(calls, rounds=5, budget=0.02):
    """Seconds per call of each function; their samples alternate."""
    counts = []
    for call in calls:
        call()
        counts.append(max(1, int(budget / max(once(call), 1e-7))))
    samples = [[] for _ in calls]
    for _ in range(rounds):
        for call, count, taken in zip(calls, counts, samples):
            start = time.perf_counter()
            for _ in range(count):
                call()
            taken.append((time.perf_counter() - start) / count)
    return [statistics.median(taken) for taken in samples]


def overloads(corten, only):
    """The functional overloads, as `name.overload`."""
    for entry in corten.ops.all():
        key = entry["name"].partition("::")[2]
        if entry["kind"] in ("functional", "view") and fnmatch.fnmatch(key, only):
            yield key


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="*", help="operators that match this pattern")
    parser.add_argument("--worst", type=int, default=20, help="how many to list")
    parser.add_argument("--untimed", action="store_true", help="list those that were not timed, and why")
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        sys.exit("bench-ops compares with PyTorch: give PYTHON_WITH_TORCH=path/to/python")
    import corten
    warnings.simplefilter("ignore")
    for module in (torch, corten):
        module.set_num_threads(1)
        module.set_grad_enabled(False)
    timed, untimed = [], []
    for key in overloads(corten, options.only):
        name, _, overload = key.partition(".")
        try:
            theirs = getattr(getattr(torch.ops.aten, name), overload or "default")
            ours = getattr(getattr(corten.ops.aten, name), overload or "default")
            operand, args, kwargs = find_arguments(torch, theirs, key)
            mine = converted(args, torch, corten), {k: converted(v, torch, corten) for k, v in kwargs.items()}
            ours(*mine[0], **mine[1])
        except Exception as error:
            untimed.append((key, f"{type(error).__name__}: {error}".partition("\n")[0]))
            continue
        seconds = medians([lambda: theirs(*args, **kwargs), lambda: ours(*mine[0], **mine[1])])
        timed.append((seconds[1] / seconds[0], key, operand, *seconds))
        if sys.stderr.isatty():
            print(f"\r{len(timed)} {key:60}", end="", file=sys.stderr)
    timed.sort(reverse=True)
    print(f"{'operator':44}{'operand':12}{'torch ms':>10}{'corten ms':>11}{'torch/corten':>14}")
    for ratio, key, operand, theirs, ours in timed[:options.worst]:
        print(f"{key:44}{operand:12}{theirs * 1e3:10.3f}{ours * 1e3:11.3f}{1 / ratio:14.2f}")
    slow = sum(ratio > 3 for ratio, *_ in timed)
    mean = math.exp(-statistics.fmean(math.log(ratio) for ratio, *_ in timed)) if timed else math.nan
    print(f"{len(timed)} timed, {slow} slower than a third of PyTorch's speed, "
          f"geometric mean {mean:.2f}; {len(untimed)} not timed")
    if options.untimed:
        for key, why in untimed:
            print(f"  {key:44}{why[:110]}")


if __name__ == "__main__":
    main()
