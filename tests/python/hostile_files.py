"""A corpus of broken and hostile files, made from sound ones: mutations, truncations, tricks.

``corpus(torch, marker)`` yields ``(name, reader, content, verdict)``. The reader is ``pt``,
``safetensors``, ``npy`` or ``npz``; the verdict is ``refused``, or ``any`` where a mutation may be
harmless. Code in the files, if it ran, would write the file ``marker``.
"""

import io
import json
import pickle
import random
import struct
import zipfile
import zlib

from hostile_pickles import payloads

LEGACY = {"_use_new_zipfile_serialization": False}


def corpus(torch, marker):
    """All files."""
    good = sound(torch)
    flips = random.Random(20)
    for name, reader, data, count in (
        ("zip", "pt", good["zip"], 80), ("legacy", "pt", good["legacy"], 60),
        ("safetensors", "safetensors", good["safetensors"], 40),
        ("npy", "npy", good["npy"], 25), ("npz", "npz", good["npz"], 25),
    ):
        yield from _flipped(name, reader, data, count, flips)
    yield from _truncated(good)
    yield from zip_tricks(good["zip"])
    for name, content in payloads(marker):
        yield f"pickle {name}", "pt", zip_around(content), "refused"
    yield from legacy_tricks(torch, good["legacy"], marker)
    yield from safetensors_tricks()
    yield from npy_tricks()


def sound(torch):
    """One good file per format, as bytes."""
    import importlib

    import numpy

    safetensors = importlib.import_module(f"{torch.__name__}.safetensors")
    base = torch.arange(24.0).view(4, 6)
    value = {
        "a": base, "view": base[1:, ::2], "half": torch.ones(5, dtype=torch.float16),
        "flags": torch.tensor([True, False]), "list": [1, 2.5, "text", None, (2**70,)],
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "state": torch.nn.Linear(2, 2).state_dict(),
    }
    made = {}
    for name, options in (("zip", {}), ("legacy", LEGACY)):
        buffer = io.BytesIO()
        torch.save(value, buffer, **options)
        made[name] = buffer.getvalue()
    tensors = {"a": base, "half": value["half"], "flags": value["flags"]}
    made["safetensors"] = safetensors.save(tensors, {"k": "v"})
    array, arrays = io.BytesIO(), io.BytesIO()
    numpy.save(array, base.numpy())
    numpy.savez_compressed(arrays, a=base.numpy(), b=numpy.array([True, False]))
    made["npy"], made["npz"] = array.getvalue(), arrays.getvalue()
    return made


def _flipped(name, reader, data, count, places):
    for number in range(count):
        changed = bytearray(data)
        # Half of them where the structure is: at the two ends.
        span = len(data) if number % 2 else min(len(data), 300)
        place = places.randrange(span)
        if number % 4 == 0:
            place = len(data) - 1 - place
        changed[place] ^= 1 << places.randrange(8)
        yield f"{name} flip {number} at {place}", reader, bytes(changed), "any"


def _truncated(good):
    for name, reader, borders in (
        ("zip", "pt", _zip_borders(good["zip"])), ("npz", "npz", _zip_borders(good["npz"])),
        ("legacy", "pt", _legacy_borders(good["legacy"])),
        ("safetensors", "safetensors", (0, 4, 8, 9, 30)), ("npy", "npy", (0, 5, 7, 9, 40, 128)),
    ):
        data = good[name]
        for end in sorted({*borders, len(data) // 2, len(data) - 1}):
            if end < len(data):
                yield f"{name} cut at {end}", reader, data[:end], "refused"


def _zip_borders(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist():
            start = info.header_offset
            yield from (start, start + 4, start + 30)
            name, extra = struct.unpack("<HH", data[start + 26:start + 30])
            begin = start + 30 + name + extra
            yield from (begin, begin + info.compress_size // 2, begin + info.compress_size)
        yield from (archive.start_dir, archive.start_dir + 46, len(data) - 22, len(data) - 2)


def _legacy_borders(data):
    file = io.BytesIO(data)
    for _ in range(3):
        pickle.load(file)
        yield file.tell()
    import pickletools

    for number, (_, _, place) in enumerate(pickletools.genops(data[file.tell():])):
        if number % 12 == 0:
            yield file.tell() + place
    yield from (len(data) - size for size in (4, 8, 9, 16, 100, 300))


# Zip files


def zip_bytes(entries):
    """A zip file of entries ``(name, content, changes)``, where changes are what its headers say
    instead of the truth."""
    out, directory = bytearray(), bytearray()
    for name, content, changes in entries:
        method = changes.get("method", 0)
        stored = changes.get("stored", content)
        if method == 8 and "stored" not in changes:
            packer = zlib.compressobj(9, zlib.DEFLATED, -15)
            stored = packer.compress(content) + packer.flush()
        fields = (
            changes.get("flags", 0), method, 0, 0, changes.get("crc", zlib.crc32(content)),
            changes.get("stored_size", len(stored)), changes.get("size", len(content)),
        )
        raw = name.encode()
        offset = changes.get("offset", len(out))
        local = changes.get("local_name", name).encode()
        out += struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 20, *fields, len(local), 0) + local + stored
        directory += struct.pack(
            "<4sHHHHHHIIIHHHHHII", b"PK\1\2", 20, 20, *fields, len(raw), 0, 0, 0, 0, 0, offset
        ) + raw
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, len(entries), len(entries), len(directory), len(out), 0)
    return bytes(out + directory + end)


def zip_around(data, storages=(("0", bytes(16)),), **records):
    """A saved object whose pickle is ``data``."""
    entries = [("x/data.pkl", data, {}), ("x/byteorder", b"little", {}), ("x/version", b"3\n", {})]
    entries += [(f"x/data/{key}", content, {}) for key, content in storages]
    entries += [(f"x/{name}", content, {}) for name, content in records.items()]
    return zip_bytes(entries)


def zip_tricks(good):
    """What can be wrong with the container."""
    with zipfile.ZipFile(io.BytesIO(good)) as archive:
        names = [name.split("/", 1)[1] for name in archive.namelist()]
        contents = {name: archive.read("archive/" + name) for name in names}

    def entries(folder="x", without=(), changes=None):
        changes = changes or {}
        return [
            (f"{folder}/{name}", content, changes.get(name, {}))
            for name, content in contents.items() if name not in without
        ]

    def case(name, made, verdict="refused"):
        return f"zip {name}", "pt", zip_bytes(made), verdict

    yield case("no trick at all", entries(), "loads")
    yield case("compressed", entries(changes={name: {"method": 8} for name in names}), "loads")
    yield case("without checksums", entries(changes={name: {"crc": 0} for name in names}), "loads")
    yield case("path traversal", entries("../../../tmp"), "any")
    yield case("absolute names", entries("/tmp"), "any")
    yield case("further record outside", [*entries(), ("../../evil", b"x", {})], "loads")
    yield case("no folder", [(n.split("/", 1)[1], c, o) for n, c, o in entries()])
    yield case("no records", [])
    yield case("no pickle", entries(without=("data.pkl",)))
    for key in ("data/0", "data/1", "data/2"):
        yield case(f"without {key}", entries(without=(key,)))
    yield case("two pickles", [*entries(), ("x/data.pkl", b"\x80\2N.", {})])
    yield case("two storages of a name", [*entries(), ("x/data/0", bytes(96), {})])
    yield case("TorchScript", [*entries(), ("x/constants.pkl", b"\x80\2).", {})])
    for content in (b"", b"middle", b"\xff\xfe", b"LITTLE", b"little\n" * 10**6):
        yield case(f"byte order {content[:8]}", [
            *entries(without=("byteorder",)), ("x/byteorder", content, {})
        ])
    yield case("no byte order", entries(without=("byteorder", "version")), "loads")
    for target in ("data.pkl", "data/0"):
        for label, change in {
            "wrong checksum": {"crc": 1}, "longer than the file": {"size": 2**31, "stored_size": 2**31},
            "4 GiB": {"size": 2**32 - 2}, "shorter": {"size": 3, "stored_size": 3}, "empty": {"size": 0, "stored_size": 0},
            "encrypted": {"flags": 1}, "unknown method": {"method": 99}, "LZMA": {"method": 14},
            "another local name": {"local_name": "x/data/9"}, "at another's place": {"offset": 0 if target != "data.pkl" else 300},
            "place beyond the file": {"offset": 2**31}, "inflated size": {"method": 8, "size": 2**32 - 2},
            "inflated a little": {"method": 8, "size": 2000}, "no deflate stream": {"method": 0, "stored_size": 9},
        }.items():
            yield case(f"{target} {label}", entries(changes={target: change}))
    count = 3 * 10**8
    bomb = {"method": 8, "stored": _deflated(bytes(10**6), count // 10**6), "size": count, "crc": 0}
    yield case("bomb as pickle", [("x/data.pkl", b"", bomb)])
    yield case("bomb as storage", [("x/data.pkl", _storage_pickle(count // 4), {}), ("x/data/0", b"", bomb)])
    lists = {"method": 8, "stored": _deflated(b"]" * 10**6, 30), "size": 30 * 10**6, "crc": 0}
    yield case("bomb of lists", [("x/data.pkl", b"", lists)])
    yield "zip long comment", "pt", good[:-2] + b"\xff\xff" + b"c" * 100, "any"
    yield "zip many entries", "pt", good[:-12] + b"\xff\xff\xff\xff" + good[-8:], "any"
    yield "zip prefixed", "pt", b"junk" * 10 + good, "refused"
    yield "zip magic only", "pt", b"PK\3\4", "refused"
    yield "zip end record only", "pt", b"PK\3\4" + b"PK\5\6" + bytes(18), "refused"
    yield "zip twice", "pt", good + good, "any"


def _deflated(piece, times):
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    return b"".join(packer.compress(piece) for _ in range(times)) + packer.flush()


def _storage_pickle(count, kind="FloatStorage", key="0"):
    from hostile_pickles import tensor

    return tensor(count=count, kind=kind, key=key, size=(1,), stride=(1,))


# The older stream


def legacy_tricks(torch, good, marker):
    """What can be wrong with the stream."""
    from hostile_pickles import tensor

    head = [pickle.dumps(0x1950A86A20F9469CFC6C, 2), pickle.dumps(1001, 2),
            pickle.dumps({"protocol_version": 1001, "little_endian": True, "type_sizes": {}}, 2)]

    def stream(body, keys=("0",), data=struct.pack("<q", 4) + bytes(16), parts=head):
        return b"".join([*parts, body, pickle.dumps(list(keys), 2), data])

    def case(name, made, verdict="refused"):
        return f"legacy {name}", "pt", made, verdict

    one = tensor(legacy=True)
    yield case("no trick at all", stream(one), "loads")
    for place, value in ((0, 7), (0, "text"), (0, [[1]]), (1, 1002), (1, True), (1, None), (2, {}), (2, 5),
                         (2, {"little_endian": "yes"}), (2, {"little_endian": [1]})):
        parts = list(head)
        parts[place] = pickle.dumps(value, 2)
        yield case(f"part {place} is {value}", stream(one, parts=parts))
    for keys in ((), ("1",), ("0", "0"), (0,), ("0", "1"), ([],), (("0",),)):
        yield case(f"keys {keys}", stream(one, keys))
    for count in (-1, 0, 3, 5, 2**62, -2**63):
        yield case(f"data of {count} elements", stream(one, data=struct.pack("<q", count) + bytes(16)))
    for count in (-4, 2**40, 2**62, 2**70, 2.0, True, None, "4"):
        yield case(f"storage of {count} elements", stream(tensor(legacy=True, count=count)))
    for view in ((), 5, ("1", 3, 9), ("1", -1, 2), ("1", 0, 2**62), ("1", 0, -1), ([], 0, 2), ("1", "0", 2)):
        yield case(f"view {view}", stream(tensor(legacy=True, view=view)))
    yield case("view of a part", stream(tensor(legacy=True, view=("1", 1, 2), size=(2,))), "loads")
    many = b"\x80\2(" + b"".join(
        tensor(legacy=True, key=str(n), count=2**33)[2:-1] for n in range(50)
    ) + b"l."
    yield case("many huge storages", stream(many))
    yield case("tar file", bytes(257) + b"ustar\x0000" + bytes(600))
    for name, content in payloads(marker):
        if "persistent" not in name:
            yield case(f"pickle {name}", stream(content))
    parts = [*head[:2], b"\x80\2cos\nsystem\nX\4\0\0\0true\x85R."]
    yield case("code as system information", stream(one, parts=parts))
    yield case("code as keys", b"".join([*head, one, b"\x80\2cos\nsystem\nX\4\0\0\0true\x85R."]))


# Safetensors


def safetensors_tricks():
    """What can be wrong with the header."""
    fine = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}

    def case(name, head, data=bytes(8), size=None, verdict="refused"):
        text = head if isinstance(head, bytes) else json.dumps(head).encode()
        size = len(text) if size is None else size
        content = (size % 2**64).to_bytes(8, "little") + text + data
        return f"safetensors {name}", "safetensors", content, verdict

    yield case("no trick at all", {"a": fine}, verdict="loads")
    for size in (0, 1, 2**20, 99_999_999, 100_000_001, 2**63, 2**64 - 1, 3, 60):
        yield case(f"header of {size} bytes", {"a": fine}, size=size)
    for data in (b"", bytes(7), bytes(9)):
        yield case(f"{len(data)} bytes of data", {"a": fine}, data)
    for part, values in {
        "dtype": ("F31", "", None, 5, [], "f32", {"F32": 1}),
        "shape": ([3], [-2], [-2, -1], [2.0], ["2"], [True, 2], None, 2, {}, [2**62, 8], [2, 2**64], [0],
                  [2**32, 2**32, 0], [[2]], [None]),
        "data_offsets": ([8, 0], [0], [0, 8, 8], [], [-8, 0], [0, 2**64], ["0", 8], None, [1, 9], [0.0, 8.0],
                         [4, 12], {}, [None, 8], [[0], 8]),
    }.items():
        for value in values:
            yield case(f"{part} {value}", {"a": {**fine, part: value}})
    yield case("overlap", {"a": fine, "b": fine})
    yield case("hole", {"a": fine, "b": {**fine, "data_offsets": [12, 20]}}, bytes(20))
    yield case("partial overlap", {"a": fine, "b": {**fine, "data_offsets": [4, 12]}}, bytes(12))
    yield case("doubled name", b'{"a":%s,"a":%s}' % ((json.dumps(fine).encode(),) * 2))
    yield case("doubled key", b'{"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}')
    yield case("missing part", {"a": {"dtype": "F32", "shape": [2]}})
    yield case("entry is a list", {"a": [1]})
    yield case("entry is text", {"a": "x"})
    for text in (b"", b"[]", b"null", b'"x"', b"{", b"{}}", b"{'a':1}", b"\xff{}", b"{\"a\xff\":1}",
                 b"[" * 100_000, b'{"a":' * 50_000, b"{\"a\":" + b"9" * 10_000 + b"}", b'{"a":NaN}', b"1"):
        yield case(f"text {text[:12]}", text)
    yield case("metadata of numbers", {"__metadata__": {"k": 1}, "a": fine})
    yield case("metadata is a list", {"__metadata__": [], "a": fine})


# NumPy's files


def npy(head, data=bytes(16), version=(1, 0), size=None):
    """An array file with this text as its header."""
    text = head.encode("latin1") if isinstance(head, str) else head
    size = len(text) if size is None else size
    return b"\x93NUMPY" + bytes(version) + size.to_bytes(2 if version[0] == 1 else 4, "little") + text + data


def npy_tricks():
    """What can be wrong with arrays, and with the zip file of several."""
    def head(descr="'<f4'", order="False", shape="(4,)", more=""):
        return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, {more}}}"

    def case(name, content, verdict="refused"):
        return f"npy {name}", "npy", content, verdict

    yield case("no trick at all", npy(head()), "loads")
    yield case("Fortran order", npy(head(order="True", shape="(2, 2)")), "loads")
    yield case("big-endian", npy(head("'>f4'")), "loads")
    yield case("empty", npy(head(shape="(0, 5)")), "loads")
    yield case("a number", npy(head(shape="()")), "loads")
    for shape in ("(5,)", "(-4,)", "(-2, -2)", "(2**2,)", "(4.0,)", "(True,)", "4", "[4]", "(10**6, 10**6)",
                  "(4611686018427387904, 4)", "(9223372036854775807,)", "(99999999999999999999,)",
                  "('4',)", "((4,),)", "(0, 99999999999999999999)", "None", "(" * 500 + ")" * 500):
        yield case(f"shape {shape[:30]}", npy(head(shape=shape)))
    for descr in ("'|O'", "'O'", "'<U4'", "'|S4'", "'<M8[s]'", "'|V4'", "[('a', '<f4')]", "'<f3'", "''",
                  "'f4'", "'<f16'", "None", "4", "'<f4' * 9", "b'<f4'", "('<f4', (2,))", "{'<f4'}"):
        yield case(f"dtype {descr}", npy(head(descr)))
    for order in ("0", "None", "'False'", "2 > 1", "[]"):
        yield case(f"order {order}", npy(head(order=order)))
    code = "__import__('os').system('true')"
    for text in (code, f"{{'descr': {code}}}", head(shape=f"({code},)"), head(f"[x for x in {code}]"),
                 "", "{", "5", "[]", "{}", head(more="'x': 1"), "(" * 9000, "-" * 9000 + "1", "[" * 9000 + "]" * 9000,
                 "{'descr': '<f4'}", "\0" * 20, head() + ";" + code, "'" * 3 + "x" * 50, "9" * 9000):
        yield case(f"header {text[:40]!r}", npy(text))
    yield case("version 9", npy(head(), version=(9, 0)))
    yield case("version 0", npy(head(), version=(0, 0)))
    for size in (0, 3, 60000):
        yield case(f"header of {size} bytes", npy(head(), size=size))
    yield case("header of 4 GiB", npy(head(), version=(2, 0), size=2**32 - 1))
    yield case("long header", npy(head() + " " * 50_000, version=(2, 0)))
    for name, entries, verdict in (
        ("no trick at all", [("a.npy", npy(head()), {"method": 8})], "loads"),
        ("no array", [("a.npy", b"text", {})], "refused"),
        ("objects", [("a.npy", npy(head("'|O'")), {})], "refused"),
        ("pickle", [("a.npy", b"\x80\2cos\nsystem\nX\4\0\0\0true\x85R.", {})], "refused"),
        ("names outside", [("../../a.npy", npy(head()), {})], "loads"),
        ("doubled name", [("a.npy", npy(head()), {})] * 2, "refused"),
        ("huge", [("a.npy", npy(head()), {"method": 8, "size": 2**32 - 2})], "refused"),
        ("checksum", [("a.npy", npy(head()), {"crc": 5})], "refused"),
        ("overlap", [("a.npy", npy(head()), {}), ("b.npy", npy(head()), {"offset": 0})], "refused"),
    ):
        yield f"npz {name}", "npz", zip_bytes(entries), verdict
