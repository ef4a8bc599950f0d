"""Programs over quantised tensors, one expression a line of tests/goldens/quantised_programs.txt, and what they
give as text: the same on PyTorch, which made tests/goldens/quantised.json, and here."""

import warnings
from pathlib import Path

GOLDENS = Path(__file__).resolve().parent.parent / "goldens"


def programs():
    """Names and expressions of ``q`` and ``torch``."""
    lines = (GOLDENS / "quantised_programs.txt").read_text().splitlines()
    return [tuple(line.split(": ", 1)) for line in lines if line and not line.startswith("#")]


def tensors(torch):
    """Quantised tensors of each kind by name, made afresh."""
    x = torch.tensor([[1.0, -2.0, 0.55], [3.0, 10.0, -0.3]])
    scales = torch.tensor([0.1, 0.2])
    per_channel, per_tensor = torch.quantize_per_channel, torch.quantize_per_tensor
    return {
        "quint8": per_tensor(x, 0.1, 10, torch.quint8),
        "qint8": per_tensor(x, 0.1, 0, torch.qint8),
        "qint32": per_tensor(x, 0.1, 0, torch.qint32),
        "channels": per_channel(x, scales, torch.tensor([10, 0]), 0, torch.quint8),
        "floats": per_channel(x, scales, torch.tensor([10.0, 0.5]), 0, torch.quint8),
        "quint4x2": per_tensor(x, 0.5, 3, torch.quint4x2),
        "quint4x2_floats": per_channel(
            x, torch.tensor([0.5, 0.7]), torch.tensor([3.0, 0.5]), 0, torch.quint4x2
        ),
    }


def name_of(value):
    return str(value).replace("corten.", "torch.")


def shown_tensor(torch, tensor):
    if not tensor.is_quantized:
        return f"T {name_of(tensor.dtype)} {tuple(tensor.shape)} {tensor.stride()} {tensor.tolist()}"
    text = f"{name_of(tensor.dtype)} {tuple(tensor.shape)} {tensor.stride()}"
    if tensor.qscheme() is torch.per_tensor_affine:
        quantizer = f"{tensor.q_scale():g} {tensor.q_zero_point()}"
    else:
        scales, points = tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()
        quantizer = (
            f"{name_of(tensor.qscheme())} {tensor.q_per_channel_axis()} {name_of(scales.dtype)} "
            f"{scales.tolist()} {name_of(points.dtype)} {points.tolist()}"
        )
    return f"Q {text} {quantizer} {tensor.int_repr().tolist()}"


def shown(torch, value):
    """A result as text."""
    if isinstance(value, torch.Tensor):
        return shown_tensor(torch, value)
    if isinstance(value, str):
        return name_of(repr(value))
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(shown(torch, part) for part in value) + "]"
    return name_of(repr(value))


def outcome(torch, kind, expression):
    """What an expression gives of one kind of tensor: ``= text``, or ``! class: message``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        q = tensors(torch)[kind] if kind else None
        try:
            return "= " + shown(torch, eval(expression, {"torch": torch, "q": q}))
        except Exception as error:
            return f"! {type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"


#: Programs that PyTorch refuses, or gives wrong axes, truncated zero points or refused strides of, by the kinds of
#: tensors for which they work here or are refused.
CHANNELS, FLOATS = {"channels"}, {"floats", "quint4x2_floats"}
WHOLE = {"quint8", "qint8", "qint32"}
MORE = {
    "select1": CHANNELS | FLOATS, "squeeze_": CHANNELS, "t_": CHANNELS, "copy_noncontig": WHOLE, "ifill": WHOLE,
    **dict.fromkeys((
        "slice", "slice1", "unsq", "narrow", "chunk", "split", "unbind", "hsplit", "iter", "clone", "empty_like",
        "ones_like", "full_like", "copy_f", "copy_q", "setitem", "setitem_t", "fill", "fillt", "equal", "set_st",
        "setdata",
    ), FLOATS),
}

#: Programs whose results for elements that share bytes PyTorch reads from the tensor's own bytes.
OF_BYTES = {
    "base", "deq", "view", "reshape", "unsq1", "sq", "squeeze", "flatten", "detach", "view_as", "unflatten", "ravel",
    "to_same", "to_cpu", "int_repr", "repr", "isq", "qscheme", "type", "layout", "dequ_l", "deepcopy", "q_scale",
}


def agree(name, found, wanted):
    """Whether an outcome is the one on record. Some programs end the process there; here each gives something."""
    program, _, kind = name.partition(" ")
    if wanted == "crash" or kind in MORE.get(program, ()):
        return True
    if kind.startswith("quint4x2") and program not in OF_BYTES and not found.startswith("! TypeError"):
        return True
    if wanted.startswith("= "):
        return found == wanted
    kinds = [text.split(":")[0][2:] for text in (found, wanted)]
    same = kinds[0] == kinds[1] or set(kinds) <= {"RuntimeError", "NotImplementedError"}
    return found.startswith("! ") and same
