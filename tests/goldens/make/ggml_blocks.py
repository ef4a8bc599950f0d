"""Blocks of GGML's formats and the weights that GGML's reference (the package ``gguf``) makes of them.

Needs ``gguf`` and NumPy. Writes ``ggml_blocks.npz``: ``X_bytes`` and ``X_weights`` for each format, and ``X_source``,
of which ``X_bytes`` are the blocks, for the formats that the package quantises to.
"""

import pathlib

import numpy
from gguf import GGMLQuantizationType, quants

#: Where the scales in half precision are, of the formats that are only taken apart.
SCALES = {
    "Q2_K": (84, (80, 82)), "Q3_K": (110, (108,)), "Q4_K": (144, (0, 2)), "Q5_K": (176, (0, 2)),
    "Q6_K": (210, (208,)), "IQ4_NL": (18, (0,)), "IQ4_XS": (136, (0,)),
}
QUANTISED = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4")


def sources(generator):
    """Blocks of ordinary, small, large, constant and zero weights."""
    blocks = generator.standard_normal((12, 32)).astype(numpy.float32)
    blocks[4] *= 1e-4
    blocks[5] *= 3e3
    blocks[6] = 0
    blocks[7] = 0.25
    blocks[8] = numpy.abs(blocks[8])
    blocks[9] = -numpy.abs(blocks[9])
    return blocks


def main():
    generator = numpy.random.default_rng(0)
    found = {}
    for name in QUANTISED:
        kind = GGMLQuantizationType[name]
        found[f"{name}_source"] = sources(generator)
        found[f"{name}_bytes"] = quants.quantize(found[f"{name}_source"], kind).reshape(-1)
    for name, (size, places) in SCALES.items():
        blocks = generator.integers(0, 256, (6, size), dtype=numpy.uint8)
        for place in places:
            scale = (generator.standard_normal(6) * 0.1).astype(numpy.float16)
            blocks[:, place:place + 2] = scale.view(numpy.uint8).reshape(6, 2)
        found[f"{name}_bytes"] = blocks.reshape(-1)
    for name in (*QUANTISED, *SCALES):
        kind = GGMLQuantizationType[name]
        found[f"{name}_weights"] = quants.dequantize(found[f"{name}_bytes"], kind).reshape(-1)
    numpy.savez_compressed(pathlib.Path(__file__).parent.parent / "ggml_blocks.npz", **found)


main()
