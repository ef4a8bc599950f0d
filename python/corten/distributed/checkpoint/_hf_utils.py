"""What files of safetensors say of checkpoints that they are part of."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass

import corten

CUSTOM_METADATA_KEY = "DCP_SHARDING_INFO"
DEFAULT_EXTRA_METADATA_KEY = "__metadata__"
SAVED_OFFSETS_KEY = "saved_offsets"
SHAPE_KEY = "shape"
DATA_KEY = "data"
DTYPE_KEY = "dtype"
DATA_OFFSETS_KEY = "data_offsets"
DTYPE_MAP = {
    "F16": corten.float16, "F32": corten.float32, "F64": corten.float64, "I8": corten.int8,
    "U8": corten.uint8, "I16": corten.int16, "U16": corten.uint16, "I32": corten.int32,
    "U32": corten.uint32, "I64": corten.int64, "U64": corten.uint64, "BF16": corten.bfloat16,
    "BOOL": corten.bool, "F8_E4M3": corten.float8_e4m3fn, "F8_E5M2": corten.float8_e5m2,
}
HF_DCP_VERSION = 1.0
DCP_VERSION_KEY = "DCP_VERSION"
DCP_SHARDING_INFO_KEY = "DCP_SHARDING_INFO"
FORMAT_KEY = "format"
FORMAT_VALUE = "pt"
NUM_BYTES_FOR_HEADER_LEN = 8
SHARDED_DIR_NAME = "sharded"
SUFFIX = ".safetensors"
_LARGEST_HEADER = 100_000_000


@dataclass
class _HFStorageInfo:
    """Where a tensor is: the file, and its shape and dtype there."""

    relative_path: str
    shape: corten.Size
    dtype: corten.dtype


def _gen_file_name(index, largest_index, shard_index=None):
    """The name of file ``index`` of ``largest_index``, both counted from 1."""
    start = "" if shard_index is None else f"shard-{shard_index:05d}-"
    return f"{start}model-{index:05d}-of-{largest_index:05d}{SUFFIX}"


def _get_safetensors_file_metadata(file_bytes):
    """The header of an open file, and where the data begin.

    Raises:
        ValueError: It is no file of safetensors.
    """
    prefix = file_bytes.read(NUM_BYTES_FOR_HEADER_LEN)
    if len(prefix) != NUM_BYTES_FOR_HEADER_LEN:
        raise ValueError("not a safetensors file: the length of the header is missing")
    (length,) = struct.unpack("<Q", prefix)
    if length > _LARGEST_HEADER:
        raise ValueError(f"not a safetensors file: a header of {length} bytes")
    header = file_bytes.read(length)
    if len(header) != length:
        raise ValueError("not a safetensors file: the header is cut off")
    return json.loads(header), NUM_BYTES_FOR_HEADER_LEN + length


def _get_dtype(dtype_str):
    """The dtype of a name in the header.

    Raises:
        ValueError: There is none of that name.
    """
    if dtype_str not in DTYPE_MAP:
        raise ValueError(f"safetensors: the dtype {dtype_str} is not known")
    return DTYPE_MAP[dtype_str]


def _get_dcp_custom_metadata(metadata):
    """Where the tensors of a file belong in those that they are parts of, if it says so."""
    own = metadata.get(DEFAULT_EXTRA_METADATA_KEY) or {}
    text = own.get(CUSTOM_METADATA_KEY)
    return None if text is None else json.loads(text)


_metadata_fn = "model.safetensors.index.json"
