"""Makes tests/goldens/blocks.gguf, a file with every type of metadata and every block format, and blocks.npz, its
weights: needs the package ``gguf``.

Formats that the package quantises hold quantised numbers, the others random bits with sensible scales.
"""

import pathlib

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFValueType as Value

FOLDER = pathlib.Path(__file__).parents[1]
QUANTISED = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")
#: Where the blocks of the other formats have numbers in half precision.
HALVES = {"Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,), "IQ4_XS": (0,)}
SHAPE = (3, 256)


def blocks(name, random):
    """Rows of blocks of a format, as bytes."""
    kind = Type[name]
    if name in QUANTISED:
        return gguf.quantize(random.standard_normal(SHAPE).astype(np.float32), kind)
    elements, nbytes = gguf.GGML_QUANT_SIZES[kind]
    made = random.integers(0, 256, (SHAPE[0] * SHAPE[1] // elements, nbytes), dtype=np.uint8)
    for place in HALVES.get(name, ()):
        scales = (random.random(len(made)) * 0.01 + 0.001).astype(np.float16)
        made[:, place : place + 2] = scales.view(np.uint8).reshape(-1, 2)
    if name == "MXFP4":
        made[:, 0] = random.integers(120, 130, len(made))
    return made.reshape(SHAPE[0], -1)


def main():
    random = np.random.default_rng(61)
    writer = gguf.GGUFWriter(FOLDER / "blocks.gguf", "llama")
    for name, kind, value in (
        ("u8", Value.UINT8, 200), ("i8", Value.INT8, -5), ("u16", Value.UINT16, 60000), ("i16", Value.INT16, -300),
        ("u32", Value.UINT32, 4000000000), ("i32", Value.INT32, 7), ("u64", Value.UINT64, 2**60), ("i64", Value.INT64, 5),
        ("f32", Value.FLOAT32, 0.1), ("f64", Value.FLOAT64, 0.1), ("flag", Value.BOOL, True), ("text", Value.STRING, "ü"),
    ):
        writer.add_key_value(f"test.{name}", value, kind)
    writer.add_array("test.tokens", ["a", "b"])
    writer.add_key_value("test.bytes", [1, 2, 255], Value.ARRAY, Value.UINT8)
    writer.add_key_value("test.types", [1, 3, -1], Value.ARRAY, Value.INT32)
    writer.add_key_value("test.scores", [0.5, -0.25], Value.ARRAY, Value.FLOAT64)
    weights = {}
    for name in (*QUANTISED, *HALVES, "MXFP4"):
        made = blocks(name, random)
        writer.add_tensor(name, made, raw_dtype=Type[name])
        weights[name] = gguf.dequantize(made, Type[name])
    for name, array in (("F32", np.ones((2, 3), np.float32)), ("F16", np.full(4, 0.5, np.float16))):
        writer.add_tensor(name, array)
    # A type that has no kernels.
    elements, nbytes = gguf.GGML_QUANT_SIZES[Type.IQ2_XXS]
    writer.add_tensor("IQ2_XXS", random.integers(0, 256, (2, 256 // elements * nbytes), dtype=np.uint8),
                      raw_dtype=Type.IQ2_XXS)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    np.savez_compressed(FOLDER / "blocks.npz", **weights)


if __name__ == "__main__":
    main()
