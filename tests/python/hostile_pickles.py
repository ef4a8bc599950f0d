"""Pickles that ask for what no file may have: written opcode by opcode."""

import pickle
import struct

REBUILD = ("torch._utils", "_rebuild_tensor_v2")
STOP = b"."


def call(module, name):
    """GLOBAL."""
    return f"c{module}\n{name}\n".encode()


def value(obj):
    """The opcodes that push a plain object; bytes are opcodes already."""
    if isinstance(obj, bytes):
        return obj
    if isinstance(obj, str):
        data = obj.encode()
        return b"X" + struct.pack("<I", len(data)) + data
    if isinstance(obj, tuple):
        return b"(" + b"".join(map(value, obj)) + b"t"
    if isinstance(obj, int) and not isinstance(obj, bool):
        data = pickle.encode_long(obj)
        return b"\x8a" + bytes([len(data)]) + data
    return pickle.dumps(obj, 2)[2:-1]


def reduce(function, *args):
    """A call."""
    return call(*function) + value(args) + b"R"


def storage(kind="FloatStorage", key="0", location="cpu", count=4, legacy=False, view=None):
    """A reference to a storage."""
    kind = call("torch", kind) if isinstance(kind, str) else kind
    parts = ("storage", kind, key, location, count)
    return value((*parts, view) if legacy else parts) + b"Q"


def tensor(size=(4,), stride=(1,), offset=0, rest=(False, reduce(("collections", "OrderedDict"))),
           source=None, **reference):
    """The pickle of one tensor."""
    made = source if source is not None else storage(**reference)
    return b"\x80\2" + reduce(REBUILD, made, offset, size, stride, *rest) + STOP


def _rebuilt(name, *args):
    return b"\x80\2" + reduce(("torch._utils", name), *args) + STOP


def payloads(marker):
    """``(name, pickle)``; every one is to be refused."""
    yield from _code(marker)
    yield from _machine()
    yield from _growth()
    yield from _references()
    yield from _tensors()


def _code(marker):
    command = f"echo x > {marker}"
    source = f"open({marker!r}, 'w')"
    for module, name, argument in (
        ("os", "system", command), ("posix", "system", command), ("nt", "system", command),
        ("subprocess", "getoutput", command), ("subprocess", "Popen", command),
        ("builtins", "eval", source), ("__builtin__", "eval", source), ("builtins", "exec", source),
        ("builtins", "compile", source), ("builtins", "__import__", "os"), ("builtins", "open", marker),
        ("builtins", "getattr", "x"), ("__builtin__", "execfile", marker), ("importlib", "import_module", "os"),
        ("pickle", "loads", "x"), ("_pickle", "loads", "x"), ("sys", "exit", "x"), ("runpy", "run_path", marker),
        ("torch", "load", marker), ("torch.hub", "load", "x"), ("torch.serialization", "load", marker),
        ("corten", "load", marker), ("corten.serialization", "load", marker), ("torch", "ops.load_library", marker),
        ("torch.ops", "load_library", marker), ("torch._utils", "corten.load", marker),
        ("torch._utils", "_rebuild_parameter.__globals__", "x"), ("torch", "os.system", command),
        ("torch.nn.parameter", "OrderedDict", "x"), ("collections", "namedtuple", "x"),
        ("functools", "partial", "x"), ("operator", "attrgetter", "x"), ("codecs", "decode", "x"),
        ("numpy", "load", marker), ("torch.storage", "_load_from_bytes", "x"), ("", "", "x"), ("torch", "", "x"),
        ("no.such.module", "name", "x"), ("torch", "NoSuchStorage", "x"), ("torch._utils", "math.prod", "x"),
        ("é", "ü", "x"), ("x" * 10_000, "y", "x"),
    ):
        yield f"code {module[:20]}.{name[:20]}", b"\x80\2" + reduce((module, name), argument) + STOP
    layout = reduce(("torch.serialization", "_get_layout"), "torch.load")
    yield "code by a layout", b"\x80\2" + layout + STOP
    yield "code by calling what a layout gave", b"\x80\2" + layout + value((marker,)) + b"R."
    system = call("os", "system")
    for opcode in (b"o", b"i", b"\x93", b"\x92", b"P", b"\x82\x01", b"\x95" + bytes(8)):
        yield f"code with opcode {opcode[:1].hex()}", b"\x80\2" + value("os") + value("system") + opcode + STOP
    yield "code as instance", b"\x80\2(" + value(command) + b"ios\nsystem\n."
    yield "code as stack global", b"\x80\4" + value("os") + value("system") + b"\x93" + value((command,)) + b"R."
    yield "code by build", b"\x80\2" + reduce(("collections", "OrderedDict")) + value((1, 2)) + b"b."
    yield "code in bytes", b"\x80\2" + reduce(("_codecs", "encode"), "x", "zlib_codec") + STOP
    yield "code in state", b"\x80\2" + reduce(
        ("torch._utils", "_rebuild_parameter_with_state"), tensor()[2:-1], False, None,
        {"__class__": "x"}) + STOP
    yield "code as class of a tensor", b"\x80\2" + reduce(
        ("torch._tensor", "_rebuild_from_type_v2"), call(*REBUILD), call("collections", "OrderedDict"),
        (), {}) + STOP
    yield "code as function of a tensor", b"\x80\2" + reduce(
        ("torch._tensor", "_rebuild_from_type_v2"), call("torch", "Tensor"), call("torch", "Tensor"),
        (2**40,), {}) + STOP
    yield "code blocked by name only", b"\x80\2" + system + STOP


def _machine():
    for name, body in {
        "empty": b"", "protocol only": b"\x80\2", "protocol 9": b"\x80\x09N.", "nothing to return": b"\x80\2.",
        "unknown opcode": b"\x80\2\xff.", "no stop": b"\x80\2N", "call of nothing": b"\x80\2R.",
        "call of a list": b"\x80\2])R.", "call of a number": b"\x80\2K\1)R.", "arguments are a list": b"\x80\2" + call("builtins", "set") + b"]R.",
        "set items of a list": b"\x80\2]K\1K\2s.", "set items without a value": b"\x80\2}(K\1u.",
        "append to a dict": b"\x80\2}K\1a.", "append to a tuple": b"\x80\2)K\1a.", "append to nothing": b"\x80\2a.",
        "no mark": b"\x80\2K\1t.", "marks only": b"\x80\2" + b"(" * 1000 + b".", "appends without mark": b"\x80\2]e.",
        "tuple of one of nothing": b"\x80\2\x85.", "tuple of three of two": b"\x80\2NN\x87.",
        "memo unknown": b"\x80\2h\5.", "long memo unknown": b"\x80\2j\xff\xff\xff\xff.", "memo of nothing": b"\x80\2q\0.",
        "build of nothing": b"\x80\2b.", "build of a list": b"\x80\2]}b.", "build of a dict": b"\x80\2}}b.",
        "object of a list": b"\x80\2])\x81.", "object of a function": b"\x80\2" + call(*REBUILD) + b")\x81.",
        "object of Tensor": b"\x80\2" + call("torch", "Tensor") + b"\x8a\6\0\0\0\0\0\1\x85\x81.",
        "call of Tensor": b"\x80\2" + call("torch", "Tensor") + b"\x8a\6\0\0\0\0\0\1\x85R.",
        "call of a dtype": b"\x80\2" + call("torch", "float32") + b")R.",
        "text beyond the end": b"\x80\2X\xff\xff\xff\xffabc.", "text not UTF-8": b"\x80\2X\2\0\0\0\xff\xfe.",
        "bytes beyond the end": b"\x80\2U\xffabc.", "bytes of negative length": b"\x80\2T\xff\xff\xff\xffabc.",
        "number cut": b"\x80\2J\1.", "float cut": b"\x80\2G\1.", "long cut": b"\x80\2\x8a\xff\1.", "LONG4": b"\x80\2\x8b\xff\xff\xff\x7f\1.",
        "text number": b"\x80\2L" + b"9" * 10**5 + b"L\n.", "global cut": b"\x80\2ctorch\nfloat", "global not UTF-8": b"\x80\2c\xff\n\xfe\n.",
        "key is a list": b"\x80\2}]K\1s.", "key is a dict": b"\x80\2}}K\1s.", "member is a list": b"\x80\2" + call("builtins", "set") + b"(]lR.",
    }.items():
        yield f"machine {name}", body


def _growth():
    depth = 200_000
    yield "growth tuples as key", b"\x80\2})" + b"\x85" * depth + b"K\1s."
    yield "growth laughing key", b"\x80\2})" + b"q\0h\0\x86" * 60 + b"K\1s."
    deep = b")" + b"\x85" * depth
    yield "growth tuples in a set", b"\x80\2" + call("builtins", "set") + b"](" + deep + b"e\x85R."
    yield "growth tuples as key of OrderedDict", b"\x80\2" + call("collections", "OrderedDict") + b"](" + deep + b"K\1\x86e\x85R."
    laugh = b"]" + b"q\0](h\0h\0e" * 60
    for place in ("key", "location", "count", "kind", "tag"):
        parts = {"kind": call("torch", "FloatStorage"), "key": "0", "location": "cpu", "count": 4, "tag": "storage"}
        parts[place] = laugh
        body = value((parts["tag"], parts["kind"], parts["key"], parts["location"], parts["count"]))
        yield f"growth laughing {place} of persistent id", b"\x80\2" + body + b"Q."
    for name, function in (("device", ("torch", "device")), ("Size", ("torch", "Size")), ("complex", ("builtins", "complex")),
                           ("rebuilder", REBUILD), ("bytearray", ("builtins", "bytearray")), ("layout", ("torch.serialization", "_get_layout")),
                           ("Counter", ("collections", "Counter"))):
        yield f"growth laughing argument of {name}", b"\x80\2" + call(*function) + laugh + b"\x85R."
    yield "growth call of a laughing list", b"\x80\2" + laugh + b")R."
    yield "growth object of a laughing list", b"\x80\2" + laugh + b")\x81."
    yield "growth bytearray", b"\x80\2" + reduce(("builtins", "bytearray"), 2**40) + STOP
    yield "growth bytes", b"\x80\2" + reduce(("_codecs", "encode"), 5, "latin1") + STOP
    yield "growth list holds itself as sizes", tensor(size=b"]q\0h\0a", stride=b"h\0")


def _references():
    for name, parts in {
        "empty": (), "short": ("storage",), "four": ("storage", call("torch", "FloatStorage"), "0", "cpu"),
        "six": ("storage", call("torch", "FloatStorage"), "0", "cpu", 4, 5),
        "another kind": ("module", 1, 2, 3, 4), "number": (1, 2, 3, 4, 5), "None": (None,) * 5,
        "class is text": ("storage", "FloatStorage", "0", "cpu", 4),
        "class is a dtype": ("storage", call("torch", "float32"), "0", "cpu", 4),
        "class is a function": ("storage", call(*REBUILD), "0", "cpu", 4),
        "class is quantised": ("storage", call("torch", "QInt8Storage"), "0", "cpu", 4),
        "key is a number": ("storage", call("torch", "FloatStorage"), 0, "cpu", 4),
        "key is a path": ("storage", call("torch", "FloatStorage"), "../data.pkl", "cpu", 4),
        "key is unknown": ("storage", call("torch", "FloatStorage"), "7", "cpu", 4),
        "place is a number": ("storage", call("torch", "FloatStorage"), "0", 7, 4),
        "place is unknown": ("storage", call("torch", "FloatStorage"), "0", "moon", 4),
        "place is CUDA": ("storage", call("torch", "FloatStorage"), "0", "cuda:0", 4),
        "place is long": ("storage", call("torch", "FloatStorage"), "0", "x" * 10**5, 4),
        **{f"count {count}": ("storage", call("torch", "FloatStorage"), "0", "cpu", count)
           for count in (-1, -2**63, 3, 5, 2**40, 2**61, 2**62, 2**63, 2**64 + 4, 2**1000, 4.0, True, None, "4")},
    }.items():
        yield f"persistent id {name}", b"\x80\2" + value(parts) + b"Q."
    yield "persistent id is a list", b"\x80\2]Q."
    yield "persistent id is a number", b"\x80\2K\1Q."
    yield "persistent id as text", b"\x80\2P0\n."
    yield "persistent id two sizes", b"\x80\2" + storage() + storage(count=8) + b"\x86."
    yield "persistent id two dtypes", b"\x80\2" + storage() + storage("DoubleStorage") + b"\x86."


def _tensors():
    for name, parts in {
        "size too long": {"size": (5,)}, "size negative": {"size": (-1,)}, "sizes negative": {"size": (-2, -2), "stride": (1, 1)},
        "size huge": {"size": (2**62,)}, "sizes overflow": {"size": (2**32, 2**32), "stride": (0, 0)},
        "sizes overflow with zero": {"size": (2**63, 0), "stride": (1, 1)}, "size beyond 64 bits": {"size": (2**64 + 4,)},
        "size of 2000 bits": {"size": (2**2000,)}, "offset beyond": {"offset": 1}, "offset negative": {"offset": -1},
        "offset huge": {"offset": 2**63 - 1}, "offset beyond 64 bits": {"offset": 2**64},
        "stride beyond": {"stride": (2,)}, "stride negative": {"stride": (-1,)}, "stride huge": {"size": (2,), "stride": (2**62,)},
        "stride overflows": {"size": (5,), "stride": (2**62,)}, "fewer strides": {"stride": ()}, "more strides": {"stride": (1, 1)},
        "sizes as text": {"size": ("4",)}, "sizes as floats": {"size": (4.0,)}, "size is None": {"size": None}, "size is text": {"size": "4"},
        "size is a number": {"size": 4}, "offset is text": {"offset": "0"}, "offset is None": {"offset": None},
        "no storage": {"source": b"N"}, "storage is a list": {"source": b"]"}, "storage is text": {"source": value("0")},
        "storage is a tensor": {"source": tensor()[2:-1]}, "storage is a class": {"source": call("torch", "FloatStorage")},
        "too few arguments": {"rest": ()}, "too many arguments": {"rest": (False, None, None, 1, 2)},
        "gradient of integers": {"rest": (True, None), "kind": "IntStorage"}, "metadata is a list": {"rest": (False, None, b"](K\1e")},
    }.items():
        yield f"tensor {name}", tensor(**parts)
    one = tensor()[2:-1]
    yield "tensor parameter of a list", _rebuilt("_rebuild_parameter", b"]", True, None)
    yield "tensor parameter of an integer tensor", _rebuilt("_rebuild_parameter", tensor(kind="IntStorage")[2:-1], True, None)
    yield "tensor v3 without dtype", _rebuilt("_rebuild_tensor_v3", storage(), 0, (4,), (1,), False, None, None)
    yield "tensor v3 with a class as dtype", _rebuilt("_rebuild_tensor_v3", storage(), 0, (4,), (1,), False, None, call("torch", "Size"))
    yield "tensor v3 of a wider dtype", _rebuilt("_rebuild_tensor_v3", storage(), 0, (4,), (1,), False, None, call("torch", "float64"))
    yield "tensor quantised", _rebuilt("_rebuild_qtensor", storage(), 0, (4,), (1,), (), False, None)
    yield "tensor meta of negative size", _rebuilt("_rebuild_meta_tensor_no_storage", call("torch", "float32"), (-1,), (1,), False)
    yield "tensor meta of impossible size", _rebuilt("_rebuild_meta_tensor_no_storage", call("torch", "float32"), (2**62, 2**62), (1, 1), False)
    yield "tensor meta without dtype", _rebuilt("_rebuild_meta_tensor_no_storage", "float32", (1,), (1,), False)
    yield "tensor on no device", _rebuilt("_rebuild_device_tensor_from_cpu_tensor", one, call("torch", "float32"), "moon", False)
    layout = reduce(("torch.serialization", "_get_layout"), "torch.sparse_coo")
    integers = tensor(kind="LongStorage", count=2, size=(1, 2), stride=(2, 1))[2:-1]
    for name, parts in {
        "indices are floats": (one, one, (4,)), "few indices": (integers, one, (4,)), "no parts": (), "lists": (b"]", b"]", (4,)),
        "size negative": (integers, tensor(size=(2,))[2:-1], (-4,)), "size too small": (integers, tensor(size=(2,))[2:-1], (0,)),
        "size huge": (integers, tensor(size=(2,))[2:-1], (2**70,)), "more sizes": (integers, tensor(size=(2,))[2:-1], (4, 4)),
        "not coalesced": (integers, tensor(size=(2,))[2:-1], (4,), True),
        "dense part differs": (integers, tensor(size=(2, 2), stride=(2, 1))[2:-1], (4, 3)),
    }.items():
        body = _rebuilt("_rebuild_sparse_tensor", layout, parts)
        yield f"tensor sparse {name}", body
    two, rows = tensor(size=(2,))[2:-1], tensor(kind="LongStorage", count=2, size=(2,))[2:-1]
    layout = reduce(("torch.serialization", "_get_layout"), "torch.sparse_csr")
    for name, parts in {
        "few parts": (rows, two, (1, 4)), "lists": (b"]", b"]", b"]", (1, 4)), "ends are floats": (two, two, two, (1, 4)),
        "size negative": (rows, rows, two, (1, -4)), "size huge": (rows, rows, two, (1, 2**70)), "one size": (rows, rows, two, (4,)),
        "size too small": (rows, rows, two, (1, 0)), "more rows": (rows, rows, two, (9, 4)),
        "other entries": (rows, rows, tensor(size=(3,))[2:-1], (1, 4)), "no size": (rows, rows, two, None),
    }.items():
        yield f"tensor compressed {name}", _rebuilt("_rebuild_sparse_tensor", layout, parts)
    yield "tensor sparse of another layout", _rebuilt("_rebuild_sparse_tensor", reduce(("torch.serialization", "_get_layout"), "torch.strided"), (one, one, (4,)))
