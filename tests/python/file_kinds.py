"""Every kind of thing that files of weights hold, made by whichever module is asked."""

from collections import Counter, OrderedDict

DTYPES = (
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool",
    "complex64", "complex128",
)
NEWER_DTYPES = (
    "uint16", "uint32", "uint64", "complex32", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
    "float8_e5m2fnuz",
)


def kinds(torch):
    """A dictionary of them, by what they are."""
    bits = torch.tensor([[0, 1], [1, 1], [0, 0]], dtype=torch.uint8)
    made = {name: bits.to(getattr(torch, name)) for name in DTYPES + NEWER_DTYPES}
    made.update(_views(torch))
    made.update(_parameters(torch))
    made.update(_states(torch))
    made["plain"] = {
        "set": {1, 2}, "bytes": b"bytes", "array": bytearray(b"xy"), "large": 2**100, "less": -2**70,
        "complex": 1 + 2j, "ordered": OrderedDict(a=1), "counted": Counter("aab"), "text": "é\ud800",
        "dtype": torch.float16, "device": torch.device("cpu"), "size": torch.Size([2, 3]),
        "layout": torch.strided, "nothing": None, "float": 0.1, "tuple": (1, (2, [3])), "flag": True,
    }
    return made


def _views(torch):
    base = torch.arange(24.0).view(2, 3, 4)
    waves, others = torch.tensor([1 + 2j, 3 - 1j]), torch.tensor([1 + 2j, 3 - 1j])
    return {
        "shared": [base, base[1], base[:, 1:, ::2], base.permute(2, 0, 1), base.view(-1)[5:],
                   base.expand(2, 2, 3, 4), base[:0]],
        "conjugate": waves.conj(), "negative": others.conj().imag, "empty": torch.empty(0, 3),
        "number": torch.tensor(5.0), "meta": torch.ones(2, 3, device="meta"),
        "sparse": torch.tensor([[0, 2.0, 0], [1, 0, 3]]).to_sparse(),
        "repeated": torch.sparse_coo_tensor(
            torch.tensor([[0, 0], [1, 1]]), torch.tensor([1.0, 2.0]), (2, 2)
        ),
    }


def _parameters(torch):
    named = torch.nn.Parameter(torch.ones(2))
    named.tag = "x"
    noted = torch.ones(3)
    noted.note = "hi"
    return {
        "parameter": torch.nn.Parameter(torch.ones(2)), "named parameter": named, "noted": noted,
        "frozen": torch.nn.Parameter(torch.ones(2), requires_grad=False),
        "buffer": torch.nn.Buffer(torch.ones(2)), "leaf": torch.ones(2, requires_grad=True),
    }


def _states(torch):
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    for value in net.state_dict().values():
        value.copy_(torch.ones_like(value))
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW([weight], lr=0.5)
    weight.grad = torch.ones(3)
    optimizer.step()
    schedule = torch.optim.lr_scheduler.StepLR(torch.optim.SGD([weight], lr=1.0), 5)
    return {"state": net.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()}


def described(torch, value):
    """A value as plain lists and texts, to be compared."""
    if isinstance(value, torch.Tensor):
        return _tensor(torch, value)
    if isinstance(value, dict):
        items = [(str(key), described(torch, item)) for key, item in value.items()]
        return [type(value).__name__, items, str(getattr(value, "_metadata", None))]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, [described(torch, item) for item in value]]
    return [type(value).__name__, ascii(value).replace("corten.", "torch.")]


def _tensor(torch, x):
    flags = [isinstance(x, torch.nn.Parameter), isinstance(x, torch.nn.Buffer), x.requires_grad, x.is_leaf]
    head = [str(x.dtype).split(".")[-1], list(x.shape), *flags, x.device.type, str(x.layout).split(".")[-1]]
    if x.device.type == "meta":
        return head + [list(x.stride())]
    if x.layout != torch.strided:
        return head + [described(torch, x._indices()), described(torch, x._values()), x.is_coalesced()]
    attributes = {name: str(attribute) for name, attribute in x.__dict__.items() if name != "_is_buffer"}
    place = [list(x.stride()), x.storage_offset(), x.untyped_storage().nbytes(), x.is_conj(), x.is_neg()]
    return head + place + [str(x.detach().tolist()), attributes]
