"""Calls that show an operator or a module, found by trying: arguments follow from the schema."""

from __future__ import annotations

import inspect
import itertools
import warnings

import corten
from stub_schemas import plain, split

#: What a tensor may be, the plainest first.
TENSORS = (
    "torch.tensor([[1.0, -2.0], [3.0, 4.0]])", "torch.tensor([0.5, -0.25, 0.75])",
    "torch.tensor([[2, 1], [0, 3]])", "torch.tensor([[True, False]])",
    "torch.arange(16.0).view(1, 1, 4, 4)", "torch.arange(8.0).view(1, 2, 4)",
    "torch.arange(64.0).view(1, 1, 4, 4, 4)", "torch.tensor([[2.0, 1.0], [1.0, 2.0]])",
    "torch.tensor([1 + 2j, 3 - 1j])", "torch.ones(1, 2, 2)", "torch.tensor(2.0)",
)
#: What further tensors may be, beside the same as the first.
OTHERS = ("x", "torch.tensor([0, 1])", "torch.tensor([1.0, 2.0])", "torch.tensor([True, False])",
          "torch.tensor([[0, 1], [1, 0]])", "torch.ones(1, 1, 2, 2)", "torch.tensor(1)", "torch.ones(3)")
NUMBERS = {
    "int": ("0", "1", "2"), "SymInt": ("2", "1", "0"), "float": ("0.5", "1.0"), "Scalar": ("2", "0.5"),
    "bool": ("False", "True"), "ScalarType": ("torch.float64",), "complex": ("1j",),
    "MemoryFormat": ("torch.contiguous_format",), "Device": ('"cpu"',),
    "str": ('"sum"', '"ij,jk->ik"', '"right"', '"mean"', '"reflect"'), "Dimname": ('"n"',),
}
LISTS = {
    "int": ("[2]", "[0]", "[1]", "[2, 2]", "[0, 1]", "[1, 0]", "[1, 1]", "[4]", "[2, 2, 2]", "[1, 1, 1]"),
    "float": ("[0.5]", "[1.0, 1.0]"), "Scalar": ("[2]", "[2, 2]"), "bool": ("[True]", "[True, False]"),
    "Tensor": ("[x, x]", "[x]"), "str": ('["n"]',),
}
#: Calls of operators whose arguments must fit each other: ``{name: (x, call)}``.
IMAGE, GRID = "torch.arange(16.0).view(1, 1, 4, 4)", "torch.zeros(1, 2, 2, 2)"
VOLUME = "torch.arange(8.0).view(1, 1, 2, 2, 2)"
GIVEN = {
    "clamp": (TENSORS[0], "torch.clamp(x, min=-1, max=3)"), "clip": (TENSORS[0], "torch.clip(x, -1, 3)"),
    "conv1d": (TENSORS[5], "torch.conv1d(x, torch.ones(1, 2, 2))"),
    "conv2d": (IMAGE, "torch.conv2d(x, torch.ones(1, 1, 2, 2))"),
    "conv3d": (VOLUME, "torch.conv3d(x, torch.ones(1, 1, 2, 2, 2))"),
    "conv_transpose1d": (TENSORS[5], "torch.conv_transpose1d(x, torch.ones(2, 1, 2))"),
    "conv_transpose2d": (IMAGE, "torch.conv_transpose2d(x, torch.ones(1, 1, 2, 2), stride=2)"),
    "conv_transpose3d": (VOLUME, "torch.conv_transpose3d(x, torch.ones(1, 1, 1, 1, 1))"),
    "convolution": (IMAGE, "torch.convolution(x, torch.ones(1, 1, 2, 2), None, [1, 1], [0, 0], [1, 1], "
                           "False, [0, 0], 1)"),
    "im2col": (IMAGE, "torch.nn.functional.unfold(x, 2, stride=2)"),
    "col2im": (GRID, "torch.nn.functional.fold(torch.ones(1, 4, 4), [4, 4], 2, stride=2)"),
    "replication_pad2d": (IMAGE, 'torch.nn.functional.pad(x, [1, 1, 0, 0], mode="replicate")'),
    "replication_pad3d": (VOLUME, 'torch.nn.functional.pad(x, [1, 0, 0, 0, 0, 0], mode="replicate")'),
    "reflection_pad2d": (IMAGE, 'torch.nn.functional.pad(x, [1, 1, 0, 0], mode="reflect")'),
    "reflection_pad3d": (VOLUME, 'torch.nn.functional.pad(x, [1, 0, 0, 0, 0, 0], mode="reflect")'),
    "bincount": ("torch.tensor([0, 1, 1, 3])", "torch.bincount(x)"),
    "addmv": ("torch.ones(2)", "torch.addmv(x, torch.tensor([[1.0, 2.0], [3.0, 4.0]]), x)"),
    "addbmm": ("torch.ones(1, 2, 2)", "torch.addbmm(torch.zeros(2, 2), x, x)"),
    "tensordot": (TENSORS[0], "torch.tensordot(x, x, dims=1)"),
    "rot90": (TENSORS[0], "torch.rot90(x, 1, [0, 1])"), "mT": (TENSORS[0], "x.mT"), "mH": (TENSORS[8], "x[None].mH"),
    "lu_solve": (TENSORS[7], "torch.lu_solve(torch.ones(2, 1), *torch.linalg.lu_factor(x))"),
    "lu_unpack": (TENSORS[7], "torch.lu_unpack(*torch.linalg.lu_factor(x))"),
    "linalg_lu_solve": (TENSORS[7], "torch.linalg.lu_solve(*torch.linalg.lu_factor(x), torch.ones(2, 1))"),
    "linalg_ldl_solve": (TENSORS[7], "torch.linalg.ldl_solve(*torch.linalg.ldl_factor(x), torch.ones(2, 1))"),
    "linalg_solve_triangular": (TENSORS[7], "torch.linalg.solve_triangular(x.triu(), torch.ones(2, 1), upper=True)"),
    "batch_norm": (TENSORS[0], "torch.nn.functional.batch_norm(x, None, None, training=True)"),
    "instance_norm": (TENSORS[5], "torch.nn.functional.instance_norm(x)"),
    "native_layer_norm": (TENSORS[0], "torch.native_layer_norm(x, [2], None, None, 1e-5)"),
    "native_group_norm": (TENSORS[5], "torch.native_group_norm(x, None, None, 1, 2, 4, 2, 1e-5)"),
    "nll_loss2d": (IMAGE, "torch.nn.functional.nll_loss(x, torch.zeros(1, 4, 4, dtype=torch.long))"),
    "affine_grid_generator": ("torch.eye(2, 3)[None]", "torch.nn.functional.affine_grid(x, [1, 1, 2, 2], "
                              "align_corners=False)"),
    "grid_sampler": (IMAGE, f"torch.grid_sampler(x, {GRID}, 0, 0, False)"),
    "grid_sampler_2d": (IMAGE, f"torch.grid_sampler_2d(x, {GRID}, 0, 0, False)"),
    "grid_sampler_3d": (VOLUME, "torch.grid_sampler_3d(x, torch.zeros(1, 1, 1, 1, 3), 0, 0, False)"),
    "fractional_max_pool2d": (IMAGE, "torch.nn.functional.fractional_max_pool2d(x, 2, output_size=2)"),
    "fractional_max_pool3d": (VOLUME, "torch.nn.functional.fractional_max_pool3d(x, 2, output_size=1)"),
    "max_unpool2d": (IMAGE, "torch.nn.functional.max_unpool2d("
                            "*torch.nn.functional.max_pool2d(x, 2, return_indices=True), 2)"),
    "max_unpool3d": (VOLUME, "torch.nn.functional.max_unpool3d("
                             "*torch.nn.functional.max_pool3d(x, 2, return_indices=True), 2)"),
    "nonzero_static": (TENSORS[2], "torch.nonzero_static(x, size=3)"),
    "index_reduce": (TENSORS[0], 'x.index_reduce(0, torch.tensor([0]), torch.ones(1, 2), "amax")'),
    "scatter_reduce": (TENSORS[0], 'x.scatter_reduce(0, torch.tensor([[0, 1]]), torch.ones(1, 2), "sum")'),
    "segment_reduce": (TENSORS[0], 'torch.segment_reduce(x, "max", lengths=torch.tensor([1, 1]))'),
    "stft": ("torch.arange(8.0)", "torch.stft(x, 4, window=torch.ones(4), return_complex=True)"),
    "istft": ("torch.arange(8.0)", "torch.istft(torch.stft(x, 4, window=torch.ones(4), return_complex=True), 4, "
                                   "window=torch.ones(4))"),
}
ATTEMPTS = 400
LONGEST = 700


def arguments(schema):
    """``(name, type)`` of the arguments that a call must give."""
    listed = schema.partition("(")[2].rpartition(") -> ")[0]
    for argument in split(listed):
        if argument == "*":
            return
        kind, _, name = argument.rpartition(" ")
        if "=" not in name:
            yield name, plain(kind)


def candidates(kind, first):
    """Expressions for an argument; ``x`` is the first tensor."""
    optional, kind = kind.endswith("?"), kind.rstrip("?")
    base, bracket, _ = kind.partition("[")
    if bracket:
        found = LISTS.get(base.rstrip("?").replace("SymInt", "int"), ())
    elif base == "Tensor":
        found = ("x",) if first else OTHERS
    else:
        found = NUMBERS.get(base, ())
    return (*found, "None") if optional else found


def calls(schema, path, method):
    """Texts of calls to try: ``(what x is, the call)``."""
    given = list(arguments(schema))
    tensors = [name for name, kind in given if kind.startswith("Tensor")]
    first = tensors[0] if tensors else None
    options = [candidates(kind, name == first) for name, kind in given]
    for x in TENSORS if tensors else (None,):
        for chosen in itertools.islice(itertools.product(*options), ATTEMPTS // len(TENSORS)):
            if method:
                yield x, f"x.{path}({', '.join(chosen[1:])})"
            else:
                yield x, f"{path}({', '.join(chosen)})"


def evaluate(x, call, change=lambda tensor: tensor):
    """The value of a call."""
    names = {"torch": corten}
    if x is not None:
        names["x"] = change(eval(x, dict(names)))  # noqa: S307
    corten.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(call, names)  # noqa: S307


def shows_something(value):
    """Whether a result is worth a page: tensors with elements, numbers, lists of them."""
    if isinstance(value, corten.Tensor):
        return value.numel() > 0
    if isinstance(value, (tuple, list)):
        return bool(value) and all(shows_something(one) or one is None for one in value)
    return value is not None


def given(name):
    """The example that is written above, or nothing."""
    if name not in GIVEN:
        return None
    x, call = GIVEN[name]
    return x, call, evaluate(x, call)


def example(schema, path, method=False):
    """``(what x is, call, value)`` of the first call that works, or nothing."""
    spare = None
    for x, call in calls(schema, path, method):
        try:
            value = evaluate(x, call)
            text = repr(value)
        except Exception:
            continue
        if shows_something(value) and len(text) <= LONGEST and "nan" not in text:
            return x, call, value
        spare = spare or (x, call, value)
    return spare


def printed(value):
    """A result as the prompt shows it; only the shape where it is long."""
    text = repr(value)
    if len(text) > LONGEST and isinstance(value, corten.Tensor):
        return f"# a tensor of {value.dtype} and shape {list(value.shape)}"
    return text if len(text) <= LONGEST else text[:LONGEST] + " …"


#: Arguments of modules by name; others that must be given are 2.
OF_MODULES = {
    "in_features": 4, "out_features": 2, "in_channels": 2, "out_channels": 4, "num_channels": 4,
    "num_features": 2, "input_size": 4, "hidden_size": 3, "num_groups": 2, "normalized_shape": 4,
    "num_embeddings": 5, "embedding_dim": 3, "embed_dim": 4, "d_model": 4, "nhead": 2, "num_heads": 2,
    "kernel_size": 2, "output_size": 2, "n_classes": 8, "cutoffs": [2, 4], "lower": 0.1, "upper": 0.3,
    "threshold": 0.1, "value": 0.0, "unflattened_size": (2, 2), "dim": 1, "num_layers": 1,
    "upscale_factor": 2, "downscale_factor": 2, "output_ratio": 0.5, "norm_type": 2, "groups": 2,
    "in1_features": 4, "in2_features": 4, "dim_feedforward": 8, "p": 0.5,
}
INPUTS = (
    "torch.ones(1, 4)", "torch.ones(1, 2, 4)", "torch.ones(1, 2, 4, 4)", "torch.ones(1, 2, 4, 4, 4)",
    "torch.ones(1, 4, 4, 4)", "torch.ones(2, 4), torch.ones(2, 4)", "torch.tensor([[0, 1]])",
    "torch.ones(3, 1, 4), torch.ones(3, 1, 4), torch.ones(3, 1, 4)", "torch.zeros(2, 4), torch.tensor([0, 1])",
    "torch.ones(3, 1, 4), torch.ones(3, 1, 4)", "torch.ones(2, 4), torch.ones(2)",
    "torch.ones(2, 4), torch.ones(2, 4), torch.ones(2)", "torch.ones(2, 4), torch.ones(2, 4), torch.ones(2, 4)",
    "torch.ones(1, 2, 4), torch.tensor([[1, 0]])", "torch.ones(1, 4, 4)",
)


#: Modules that are made of others, or need one argument of several.
MADE = {
    "RNNBase": ('"LSTM", 4, 3'), "LSTM": "4, 3", "GRU": "4, 3", "RNN": "4, 3",
    "TransformerEncoder": "torch.nn.TransformerEncoderLayer(4, 2, 8), 1",
    "TransformerDecoder": "torch.nn.TransformerDecoderLayer(4, 2, 8), 1",
    "FractionalMaxPool2d": "2, output_size=2", "FractionalMaxPool3d": "2, output_size=2",
}


def construction(cls):
    """The text that makes a module, by the names of the arguments that it must be given."""
    if cls.__name__ in MADE:
        return f"torch.nn.{cls.__name__}({MADE[cls.__name__]})"
    found = []
    for parameter in list(inspect.signature(cls).parameters.values()):
        given = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        if given and parameter.default is parameter.empty:
            found.append(repr(OF_MODULES.get(parameter.name, 2)))
    return f"torch.nn.{cls.__name__}({', '.join(found)})"


def module_example(cls):
    """``(construction, module, inputs, output)``; the last two are None where no input is known."""
    made = construction(cls)
    try:
        corten.manual_seed(0)
        module = evaluate(None, made)
    except Exception:
        return made, None, None, None
    for inputs in INPUTS:
        try:
            module.eval()
            output = module(*evaluate(None, f"({inputs},)"))
            repr(output)
        except Exception:
            continue
        return made, module.train(), inputs, output
    return made, module.train(), None, None
