"""``corten convert FROM TO``: tensors of a file in another format, or as other numbers."""

from __future__ import annotations

import argparse
import os
import sys
from fnmatch import fnmatchcase

import corten

from . import _blocks, _files, gguf

_DTYPES = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16"}
#: What GGUF files say of the type that most of their weights have.
_FILE_TYPES = {
    "f32": 0, "f16": 1, "bf16": 32, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q2_K": 10, "Q3_K": 11,
    "Q4_K": 14, "Q5_K": 16, "Q6_K": 18, "IQ4_NL": 25, "IQ4_XS": 30, "MXFP4": 38,
}


class _Errors:
    """Errors of tensors, and of all of them together."""

    def __init__(self):
        self.largest, self.squared, self.squares = 0.0, 0.0, 0.0

    def of(self, made, original):
        """The line about a tensor."""
        largest, squared, squares = _blocks.error_of(made, original)
        self.largest = max(self.largest, largest)
        self.squared, self.squares = self.squared + squared, self.squares + squares
        return f"error: rms {_blocks.relative(squared, squares):.6f}, max {largest:.6g}"

    def __str__(self):
        return f"error: rms {_blocks.relative(self.squared, self.squares):.6f}, max {self.largest:.6g}"


def _is_chosen(name, options):
    """Whether the patterns choose a tensor."""
    if options.include and not any(fnmatchcase(name, pattern) for pattern in options.include):
        return False
    return not any(fnmatchcase(name, pattern) for pattern in options.exclude)


def _as_target(tensor, target):
    """A tensor as numbers of the type that was asked for, or what it is where it cannot be."""
    if not tensor.is_floating_point():
        return tensor
    if target in _DTYPES:
        return tensor.to_dense().to(getattr(corten, _DTYPES[target]))
    if tensor.dim() < 2 or tensor.block_format == target:
        return tensor
    fitting = _blocks.fitting_format(target, tensor.shape[-1])
    return tensor if fitting is None else _blocks.quantize_blocks(tensor.to_dense(), fitting)


def converted(found, options, keeps_blocks):
    """Tensors by name as the options want them, and a line about each that became another.

    Yields:
        Name, tensor, line or None.
    """
    errors, before, after = _Errors(), 0, 0
    for name, tensor in found.items():
        made = tensor
        if options.to is not None and _is_chosen(name, options):
            made = _as_target(tensor, options.to)
        if made.block_format is not None and not keeps_blocks:
            made = made.to_dense()
        before, after = before + _files.nbytes_of(tensor), after + _files.nbytes_of(made)
        line = None
        if made is not tensor:
            line = f"{name}  {_files.type_of(tensor)} -> {_files.type_of(made)}  {tuple(tensor.shape)}"
            line += f"  {_files.size(_files.nbytes_of(tensor))} -> {_files.size(_files.nbytes_of(made))}"
            line += f"  {errors.of(made, tensor)}"
        yield name, made, line
    yield None, None, f"{len(found)} tensors, {_files.size(before)} -> {_files.size(after)}, {errors}"


def _said(source, value, options, chosen):
    """The metadata of the file that is written."""
    said = _files.metadata(source, value)
    kinds = [_files.type_of(tensor) for tensor in chosen.values()]
    if options.to is not None and os.path.splitext(options.target)[1].lower() == ".gguf":
        said = {**said, "general.file_type": _FILE_TYPES[options.to]} if options.to in _FILE_TYPES else said
        if any(kind in _blocks.FORMATS for kind in kinds):
            said = {**said, "general.quantization_version": 2}
    return said


def convert(options):
    """Converts a file; prints a line for each tensor that changed.

    Raises:
        ValueError: An ending says no format, or the format has no place for what was asked for.
    """
    _files.check_ending(options.target)
    kind = os.path.splitext(options.target)[1].lower()
    keeps_blocks = kind not in (".safetensors", ".npz", ".npy")
    if options.to in _blocks.FORMATS and not keeps_blocks:
        raise ValueError(f"files {kind} hold no blocks: --to takes {', '.join(_DTYPES)} for them")
    value = _files.read(options.source)
    model = value if isinstance(value, gguf.File) else None
    found = dict(_files.tensors(value))
    if model is not None and kind != ".gguf":
        unknown = [name for name in model.quantized if found[name].block_format is None]
        if unknown:
            raise ValueError(f"{unknown[0]}: weights of the type {model.types[unknown[0]]} are not known")
    if options.to is None and model is None and kind != ".gguf":
        _files.write(value, options.target, _files.metadata(options.source, value))
        return
    made = {}
    for name, tensor, line in converted(found, options, keeps_blocks):
        if name is not None:
            made[name] = tensor
        if line is not None:
            print(line, flush=True)
    _files.write(made, options.target, _said(options.source, value, options, made), model)


def _target(text):
    try:
        return text.lower() if text.lower() in _DTYPES else _blocks.format_name(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}, and {', '.join(_DTYPES)}") from None


def _parser():
    parser = argparse.ArgumentParser(
        prog="corten convert",
        description="Writes the tensors of a file in the format that the ending of the new one says: .gguf, "
        ".safetensors, .pt, .npz, .npy.",
    )
    parser.add_argument("source", metavar="FROM")
    parser.add_argument("target", metavar="TO")
    parser.add_argument(
        "--to", type=_target, metavar="TYPE",
        help="f32, f16, bf16, f64, or a block format (" + ", ".join(sorted(_blocks.FORMATS)).lower() + "): floats become "
        "it. Vectors are left as they are by block formats; rows that are no whole blocks of 256 get one of 32.",
    )
    for option, what in (("--include", "only tensors"), ("--exclude", "no tensors")):
        parser.add_argument(
            option, action="append", default=[], metavar="PATTERN",
            help=f"{what} whose names match, as 'blk.*.ffn_*'; may be given several times",
        )
    return parser


def main(arguments):
    """``corten convert FROM TO``"""
    options = _parser().parse_args(arguments)
    try:
        convert(options)
    except Exception as error:  # of a file that can hold anything
        sys.exit(f"corten convert: {error}")
