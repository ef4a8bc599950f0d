"""Writes inputs for the fuzzers into a folder, made from the files of tests/goldens.

    python fuzz/make_seeds.py target/fuzz/corpus

Beside the files themselves these are their parts, as fuzz/targets/built describes them.
"""

import pathlib
import struct
import sys
import zipfile

GOLDENS = pathlib.Path(__file__).parent.parent / "tests" / "goldens"
LONGEST = 1 << 15


def built(pieces):
    return b"\xff" + b"".join(struct.pack("<H", len(piece)) + piece for piece in pieces)


def of_archive(path):
    """The pickle, the byte order and the storages of an archive of PyTorch."""
    with zipfile.ZipFile(path) as archive:
        folder = archive.namelist()[0].split("/")[0]
        names = set(archive.namelist())
        pieces = [archive.read(f"{folder}/data.pkl")]
        has_order = f"{folder}/byteorder" in names
        pieces.append(archive.read(f"{folder}/byteorder") if has_order else b"little")
        at = 0
        while f"{folder}/data/{at}" in names:
            pieces.append(archive.read(f"{folder}/data/{at}"))
            at += 1
        return pieces


def of_arrays(path):
    """Headers and data of the arrays of a `.npz` file."""
    pieces = []
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            array = archive.read(name)
            if array[6] == 1 and len(array) < 4096:
                end = 10 + struct.unpack("<H", array[8:10])[0]
                pieces += [array[10:end], array[end:]]
    return pieces


def headers():
    """A header for each dtype of NumPy, in both byte orders."""
    kinds = "b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16".split()
    for order in "<>":
        for kind in kinds:
            size = int(kind[1:])
            for fortran in (False, True):
                text = f"{{'descr': '{order}{kind}', 'fortran_order': {fortran}, 'shape': (2, 3), }}\n"
                yield [text.encode(), bytes(6 * size)]


def models():
    """Headers of safetensors files with all dtypes."""
    kinds = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "F8_E8M0": 1, "I16": 2, "U16": 2,
             "F16": 2, "BF16": 2, "I32": 4, "U32": 4, "F32": 4, "C64": 8, "F64": 8, "I64": 8, "U64": 8,
             "F4": 1, "F6_E2M3": 1}
    for kind, size in kinds.items():
        text = f'{{"__metadata__":{{"format":"pt"}},"a":{{"dtype":"{kind}","shape":[2,3],"data_offsets":[0,{6 * size}]}}}}'
        yield [text.encode(), bytes(6 * size)]


def text(value):
    return struct.pack("<Q", len(value)) + value


def model(element_type):
    """A GGUF file with every kind of metadata and a tensor."""
    values = [(0, b"\1"), (1, b"\xff"), (2, b"\1\0"), (3, b"\1\0"), (4, bytes(4)), (5, bytes(4)), (6, bytes(4)),
              (7, b"\1"), (8, text(b"llama")), (9, struct.pack("<IQ", 8, 2) + text(b"a") + text(b"b")),
              (9, struct.pack("<IQIQ", 9, 1, 1, 2) + b"\1\2"), (10, b"\xff" * 8), (11, bytes(8)), (12, bytes(8))]
    head = b"GGUF" + struct.pack("<IQQ", 3, 2, len(values) + 1)
    for number, (kind, value) in enumerate(values):
        head += text(b"key.%d" % number) + struct.pack("<I", kind) + value
    head += text(b"general.alignment") + struct.pack("<II", 4, 32)
    head += text(b"weight") + struct.pack("<IQQIQ", 2, 256, 2, element_type, 0)
    head += text(b"bias") + struct.pack("<IQIQ", 1, 2, 0, 4096)
    return head + bytes(-len(head) % 32) + bytes(range(256)) * 17


def varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(number, value):
    return varint(number << 3 | 2) + varint(len(value)) + value


def events():
    """Records of each kind of value."""
    time = b"\x09" + struct.pack("<d", 1.5) + b"\x10\x07"
    tag = field(1, b"loss")
    doubles = struct.pack("<3d", 1.0, 2.0, 3.0)
    histogram = b"".join(varint(n << 3 | 1) + struct.pack("<d", n) for n in range(1, 6))
    tensor = field(2, b"\x12\x02\x08\x01")
    values = [
        tag + b"\x15" + struct.pack("<f", 0.5),
        tag + field(4, b"\x08\x02\x10\x03\x18\x03" + field(4, b"\x89PNG")),
        tag + field(5, histogram + field(6, doubles) + field(7, doubles)),
        tag + field(8, tensor + field(8, b"a text")),
        tag + field(8, tensor + field(6, doubles[:8])),
        tag + field(8, tensor + field(5, b"\0\0\0\0")),
    ]
    yield [time + field(3, b"brain.Event:2")]
    yield [time + field(5, b"".join(field(1, value) for value in values))]
    for value in values:
        yield [time + field(5, field(1, value))]


def main():
    out = pathlib.Path(sys.argv[1])

    def put(target, name, data):
        if len(data) <= LONGEST:
            (out / target).mkdir(parents=True, exist_ok=True)
            (out / target / name).write_bytes(data)

    for path in sorted(GOLDENS.glob("*.pt")):
        put("torch", path.name, path.read_bytes())
        if zipfile.is_zipfile(path):
            pieces = of_archive(path)
            put("torch", f"{path.stem}.built", built(pieces))
            put("pickle", path.stem, pieces[0])
        else:
            put("pickle", path.stem, path.read_bytes())
    for path in sorted(GOLDENS.glob("*.npz")):
        put("npy", f"{path.stem}.built", built(of_arrays(path)[:16]))
    for number in [0, 1, 2, 8, 12, 15, 24, 27, 28, 30, 39]:
        put("gguf", f"model{number}", model(number))
    for target, inputs in (("npy", headers()), ("safetensors", models()), ("tensorboard", events())):
        for number, pieces in enumerate(inputs):
            put(target, f"built{number}", built(pieces))


if __name__ == "__main__":
    main()
