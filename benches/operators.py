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

# Operators, or single overloads, whose arguments must fit each other. `x` is a matrix, `i` are
# images, `v` a vector, `b` batches of matrices, `s` a square matrix, `n` integers.
ARGUMENTS = {
    "prelu": "i, torch.rand(16)", "glu_backward": "x[:, :500], x, 1",
    "meshgrid": "[v[:1000], v[:1000]]", "meshgrid.indexing": "[v[:1000], v[:1000]], indexing='ij'",
    "cartesian_prod": "[v[:1000], v[:1000]]", "diag_embed": "x[:, :200]", "diagflat": "v[:1000]",
    "convolution_backward": "torch.rand(8, 32, 94, 94), i, torch.rand(32, 16, 3, 3), [32], [1, 1], "
                            "[0, 0], [1, 1], False, [0, 0], 1, [True, True, True]",
    "_convolution_mode": "i, torch.rand(32, 16, 3, 3), None, [1, 1], 'same', [1, 1], 1",
    "conv1d": "torch.rand(8, 64, 2048), torch.rand(64, 64, 3)", "conv2d": "i, torch.rand(32, 16, 3, 3)",
    "conv3d": "torch.rand(2, 8, 40, 40, 40), torch.rand(8, 8, 3, 3, 3)",
    "conv_transpose1d": "torch.rand(8, 64, 2048), torch.rand(64, 64, 3)",
    "conv_transpose2d.input": "i, torch.rand(16, 32, 3, 3)",
    "conv_transpose3d.input": "torch.rand(2, 8, 40, 40, 40), torch.rand(8, 8, 3, 3, 3)",
    "im2col": "i, [3, 3], [1, 1], [1, 1], [1, 1]",
    "col2im": "torch.rand(8, 144, 9216), [96, 96], [3, 3], [1, 1], [1, 1], [1, 1]",
    "_fft_c2r": "torch.fft.rfft(x), [1], 0, 1000",
    "istft": "torch.stft(v, 256, window=torch.ones(256), return_complex=True), 256, None, None, torch.ones(256)",
    "grid_sampler": "i, torch.rand(8, 96, 96, 2) * 2 - 1, 0, 0, False",
    "grid_sampler_2d": "i, torch.rand(8, 96, 96, 2) * 2 - 1, 0, 0, False",
    "grid_sampler_2d_backward": "i, i, torch.rand(8, 96, 96, 2) * 2 - 1, 0, 0, False, [True, True]",
    "grid_sampler_3d": "torch.rand(2, 4, 40, 40, 40), torch.rand(2, 40, 40, 40, 3) * 2 - 1, 0, 0, False",
    "affine_grid_generator": "torch.rand(8, 2, 3), [8, 16, 256, 256], False",
    "fractional_max_pool2d": "i, [2, 2], [48, 48], torch.rand(8, 16, 2)",
    "fractional_max_pool3d": "torch.rand(2, 8, 40, 40, 40), [2, 2, 2], [20, 20, 20], torch.rand(2, 8, 3)",
    "max_unpool2d": "*torch.nn.functional.max_pool2d(i, 2, return_indices=True), [96, 96]",
    "max_pool2d_with_indices_backward": "torch.rand(8, 16, 48, 48), i, [2, 2], [2, 2], [0, 0], [1, 1], "
        "False, torch.nn.functional.max_pool2d(i, 2, return_indices=True)[1]",
    "histogramdd": "torch.rand(100_000, 2), [20, 20]", "bincount": "torch.randint(0, 1000, (1_000_000,))",
    "index.Tensor": "x, [torch.randint(0, 1000, (1000,))]",
    "index_put": "x, [torch.randint(0, 1000, (1000,))], x",
    "index_select": "x, 0, torch.randint(0, 1000, (1000,))",
    "index_add": "x, 0, torch.randint(0, 1000, (1000,)), x", "index_copy": "x, 0, torch.randperm(1000), x",
    "index_fill.int_Scalar": "x, 0, torch.randint(0, 1000, (500,)), 1.0",
    "index_reduce": "x, 0, torch.randint(0, 1000, (1000,)), x, 'amax'",
    "gather": "x, 1, torch.randint(0, 1000, (1000, 1000))",
    "scatter.src": "x, 1, torch.randint(0, 1000, (1000, 1000)), x",
    "scatter_add": "x, 1, torch.randint(0, 1000, (1000, 1000)), x",
    "scatter_reduce.two": "x, 1, torch.randint(0, 1000, (1000, 1000)), x, 'amax'",
    "take": "x, torch.randint(0, 1_000_000, (1000, 1000))",
    "nonzero_static": "x > 0.5, size=600_000", "masked_fill.Tensor": "x, x > 0.5, torch.tensor(1.0)",
    "embedding": "x, torch.randint(0, 1000, (1000,))",
    "embedding_dense_backward": "x, torch.randint(0, 1000, (1000,)), 1000, -1, False",
    "linalg_solve_triangular": "s, s, upper=True", "triangular_solve": "s, s",
    "linalg_lu_solve": "*torch.linalg.lu_factor(s), s", "lu_solve": "s, *torch.linalg.lu_factor(s)",
    "linalg_householder_product": "*torch.geqrf(s)", "orgqr": "*torch.geqrf(s)",
    "ormqr": "*torch.geqrf(s), s", "linalg_ldl_solve": "*torch.linalg.ldl_factor(s + s.t()), s",
    "linalg_eigvals": "s", "linalg_eig": "s", "linalg_svd": "s", "linalg_svdvals": "s", "svd": "s",
    "linalg_pinv": "s", "pinverse": "s", "linalg_eigh": "s + s.t()", "linalg_eigvalsh": "s + s.t()",
    "linalg_pinv.atol_rtol_tensor": "s", "linalg_pinv.atol_rtol_float": "s",
    "linalg_matrix_norm": "x, 1", "linalg_cond": "s", "linalg_matrix_rank": "s",
    "linalg_qr": "s", "qr": "s", "linalg_lstsq": "s, s", "linalg_matrix_exp": "s / 100", "matrix_exp": "s / 100",
    "nll_loss": "x, torch.randint(0, 1000, (1000,))", "nll_loss_nd": "x, torch.randint(0, 1000, (1000,))",
    "cross_entropy_loss": "x, torch.randint(0, 1000, (1000,))",
    "nll_loss_forward": "x, torch.randint(0, 1000, (1000,)), None, 1, -100",
    "nll_loss2d": "i, torch.randint(0, 16, (8, 96, 96))",
    "cosine_embedding_loss": "x, x, torch.ones(1000)", "multi_margin_loss": "x, torch.randint(0, 1000, (1000,))",
    "multilabel_margin_loss": "x[:100, :100], torch.randint(0, 100, (100, 100))",
    "ctc_loss.IntList": "torch.rand(200, 16, 40).log_softmax(2), torch.randint(1, 40, (16, 50)), [200] * 16, [50] * 16",
    "bmm": "b, b", "baddbmm": "b, b, b", "mv": "x, v[:1000]", "addmv": "v[:1000], x, v[:1000]",
    "addbmm": "b[0], b, b", "addr": "x, v[:1000], v[:1000]", "outer": "v[:1000], v[:1000]",
    "ger": "v[:1000], v[:1000]", "dot": "v, v", "vdot": "v, v",
    "batch_norm": "i, torch.ones(16), torch.zeros(16), torch.zeros(16), torch.ones(16), True, 0.1, 1e-5, False",
    "native_batch_norm": "i, torch.ones(16), torch.zeros(16), torch.zeros(16), torch.ones(16), True, 0.1, 1e-5",
    "native_batch_norm_backward": "i, i, torch.ones(16), torch.zeros(16), torch.ones(16), torch.zeros(16), "
        "torch.ones(16), True, 1e-5, [True, True, True]",
    "instance_norm": "i, None, None, None, None, True, 0.1, 1e-5, False",
    "layer_norm": "x, [1000], torch.ones(1000), torch.ones(1000)",
    "native_layer_norm": "x, [1000], torch.ones(1000), torch.ones(1000), 1e-5",
    "native_layer_norm_backward": "x, x, [1000], torch.zeros(1000, 1), torch.ones(1000, 1), torch.ones(1000), "
        "torch.ones(1000), [True, True, True]",
    "native_group_norm_backward": "i, i, torch.zeros(8, 4), torch.ones(8, 4), torch.ones(16), 8, 16, 9216, 4, "
        "[True, True, True]",
    "reflection_pad1d": "torch.rand(8, 64, 2048), [2, 2]", "reflection_pad2d": "i, [2, 2, 2, 2]",
    "replication_pad1d": "torch.rand(8, 64, 2048), [2, 2]", "replication_pad2d": "i, [2, 2, 2, 2]",
    "reflection_pad2d_backward": "torch.rand(8, 16, 100, 100), i, [2, 2, 2, 2]",
    "replication_pad2d_backward": "torch.rand(8, 16, 100, 100), i, [2, 2, 2, 2]",
    "reflection_pad3d": "torch.rand(2, 8, 40, 40, 40), [1] * 6", "replication_pad3d": "torch.rand(2, 8, 40, 40, 40), [1] * 6",
    "clamp": "x, 0.2, 0.8", "clip": "x, 0.2, 0.8", "clamp.Tensor": "x, x, x", "clip.Tensor": "x, x, x",
    "adaptive_max_pool2d_backward": "torch.rand(8, 16, 48, 48), i, torch.nn.functional.adaptive_max_pool2d(i, 48, return_indices=True)[1]",
    "value_selecting_reduction_backward": "v[:1000], 1, torch.randint(0, 1000, (1000,)), [1000, 1000], False",
    "cummaxmin_backward": "x, x, torch.randint(0, 1000, (1000, 1000)), 1",
    "mvlgamma": "x + 5, 2", "special_multigammaln": "x + 5, 2", "kron": "x[:50, :50], x[:20, :20]",
    "cross": "torch.rand(300_000, 3), torch.rand(300_000, 3), 1",
    "linalg_cross": "torch.rand(300_000, 3), torch.rand(300_000, 3)",
    "linalg_vander": "v[:1000]", "vander": "v[:1000]", "combinations": "v[:1000]",
    "_cdist_forward": "x, x, 2.0, None", "cdist": "x, x", "pdist": "x", "_pdist_forward": "x",
    "upsample_nearest2d_backward": "torch.rand(8, 16, 192, 192), [192, 192], [8, 16, 96, 96]",
    "upsample_bilinear2d_backward": "torch.rand(8, 16, 192, 192), [192, 192], [8, 16, 96, 96], False",
    "upsample_bicubic2d_backward": "torch.rand(8, 16, 192, 192), [192, 192], [8, 16, 96, 96], False",
    "upsample_nearest2d.vec": "i, [192, 192], None", "upsample_bilinear2d.vec": "i, [192, 192], False, None",
    "upsample_bicubic2d.vec": "i, [192, 192], False, None", "_upsample_bilinear2d_aa.vec": "i, [48, 48], False, None",
    "upsample_nearest2d": "i, [192, 192]", "upsample_bilinear2d": "i, [192, 192], False",
    "upsample_bicubic2d": "i, [192, 192], False",
    "unflatten.int": "x, 1, [10, 100]", "movedim.int": "x, 0, 1", "movedim.intlist": "x, [0], [1]",
    "select.int": "x, 0, 5", "select_copy.int": "x, 0, 5", "split.sizes": "x, [500, 500]",
    "split_with_sizes": "x, [500, 500]", "split_with_sizes_copy": "x, [500, 500]",
    "unfold": "x, 1, 10, 5", "unfold_copy": "x, 1, 10, 5", "view_as_complex": "torch.rand(500_000, 2)",
    "select_backward": "v[:1000], [1000, 1000], 0, 5", "diagonal_backward": "v[:1000], [1000, 1000], 0, 0, 1",
    "unfold_backward": "torch.rand(1000, 199, 10), [1000, 1000], 1, 10, 5",
    "select_scatter": "x, v[:1000], 0, 5", "diagonal_scatter": "x, v[:1000]",
    "repeat_interleave.self_Tensor": "x, torch.full((1000,), 2), 0", "repeat_interleave.self_int": "x, 2, 0",
    "scaled_dot_product_attention": "torch.rand(4, 8, 256, 64), torch.rand(4, 8, 256, 64), torch.rand(4, 8, 256, 64)",
    "nanquantile": "x, torch.tensor([0.1, 0.5]), 1", "quantile": "x, torch.tensor([0.1, 0.5]), 1",
    "div.Tensor_mode": "x, x, rounding_mode='floor'", "div.Scalar_mode": "x, 0.3, rounding_mode='floor'",
    "bitwise_and.Scalar": "n, 3", "bitwise_or.Scalar": "n, 3", "bitwise_xor.Scalar": "n, 3",
    "bitwise_left_shift.Tensor_Scalar": "n, 3", "bitwise_right_shift.Tensor_Scalar": "n, 3",
    "isin.Tensor_Tensor": "n, torch.arange(100)", "linalg_polar": "s", "nuclear_norm": "s",
    "_linalg_eigvals": "s", "_linalg_svd": "s", "masked_scatter": "x, x > 0.5, x",
    "put": "x, torch.randperm(1_000_000), v", "scatter.reduce": "x, 1, torch.zeros(1000, 1000, dtype=torch.long), x, reduce='add'",
    "round.decimals": "x, decimals=2", "sort.stable": "x, stable=True", "argsort.stable": "x, stable=True",
}

# PyTorch crashes, or takes memory without end, on the arguments that the rules would find.
SKIPPED = {
    "fractional_max_pool2d_backward", "fractional_max_pool3d_backward", "linalg_pinv.rcond_tensor",
    "linalg_matrix_rank.tol_tensor", "_cdist_backward", "_pdist_backward",
}

SHARED = "x, v = torch.rand(1000, 1000), torch.rand(1_000_000)\n" \
         "i, b = torch.rand(8, 16, 96, 96), torch.rand(64, 100, 100)\n" \
         "s, n = torch.rand(200, 200) + 20 * torch.eye(200), torch.randint(0, 100, (1000, 1000))"


def suits(kind, value, torch):
    """Whether a value can be an argument of this type of the schema."""
    if kind == "Tensor":
        return isinstance(value, torch.Tensor)
    if kind in ("int", "number", "Number", "float"):
        return isinstance(value, (int, float)) and not (kind == "int" and isinstance(value, float))
    if kind.startswith("List[int]"):
        return isinstance(value, (int, list, tuple))
    return True


def schema_arguments(operator, x, names):
    """The arguments of an overload without a default: positional, then named ones."""
    values, named = [], {}
    for argument in operator._schema.arguments:
        if argument.has_default_value():
            continue
        kind = str(argument.type)
        texts = ["None"] if kind.startswith("Optional[") else [
            text for text in (BY_NAME.get(argument.name), BY_TYPE.get(kind)) if text is not None]
        candidates = [eval(text, names | {"x": x}) for text in texts]
        fitting = [value for value in candidates if suits(kind, value, names["torch"])]
        if not fitting:
            raise LookupError(f"{argument.name}: {kind}")
        value = [fitting[0]] if kind == "List[int]" and isinstance(fitting[0], int) else fitting[0]
        if argument.kwarg_only:
            named[argument.name] = value
        else:
            values.append(value)
    return values, named


def find_arguments(torch, operator, key):
    """The first arguments that PyTorch accepts, with the name of their operand."""
    names = {"torch": torch, "math": math}
    text = ARGUMENTS.get(key)
    if text is not None:
        torch.manual_seed(0)
        exec(SHARED, names)
        args, kwargs = eval(f"collect({text})", names | {"collect": lambda *a, **k: (list(a), k)})
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
        if key in SKIPPED:
            untimed.append((key, "skipped"))
            continue
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
