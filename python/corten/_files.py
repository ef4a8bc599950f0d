"""Files of tensors by their endings, and ``corten inspect FILE``: .gguf, .safetensors, .onnx, .pt, .npz, .npy."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter

import corten

from . import _C, _atomic, _weights_only, gguf


#: In how many places the same container is looked into.
_MOST_PLACES = 64
#: The entry of a safetensors file that holds the metadata of a GGUF file.
GGUF_METADATA = "gguf"
#: Longer texts of metadata are cut short, and of lists as many elements are shown.
_LONGEST, _MOST_SHOWN = 72, 4
_PICKLED = (".pt", ".pth", ".bin", ".ckpt")


def read(path):
    """What is in a file.

    Raises:
        ValueError: The ending says no format.
    """
    kind = os.path.splitext(path)[1].lower()
    if kind == ".gguf":
        return gguf.load(path)
    if kind == ".safetensors":
        from corten import safetensors

        return safetensors.load_file(path)
    if kind == ".onnx":
        from corten.onnx._reading import weights

        return weights(path)
    if kind in (".npz", ".npy"):
        from corten import _npy

        return {"array": _npy.load_npy(path)} if kind == ".npy" else _npy.load_npz(path)
    if kind in _PICKLED or os.path.exists(path) and _looks_pickled(path):
        # Wherever the tensors were when they were saved: this machine may lack that device. Objects
        # of other classes are not made; only the tensors in them are of interest.
        with _weights_only.stand_ins():
            return corten.load(path, map_location="cpu", weights_only=True)
    raise ValueError(f"{path}: the ending {kind!r} says no format that is known")


def _looks_pickled(path):
    """Whether a file without a known ending begins as files of ``save`` do."""
    with open(path, "rb") as file:
        return file.read(2) in (b"PK", b"\x80\x02")


def metadata(path, value):
    """What a file says beside its tensors."""
    if not isinstance(value, dict) or hasattr(value, "metadata"):
        return value.metadata if hasattr(value, "metadata") else {}
    if os.path.splitext(path)[1].lower() != ".safetensors":
        return {}
    from corten import safetensors

    with safetensors.safe_open(path) as file:
        found = file.metadata() or {}
    try:
        return dict(json.loads(found[GGUF_METADATA])) if GGUF_METADATA in found else found
    except ValueError:
        return found


def check_ending(path):
    """That the ending of a name says a format that is written.

    Raises:
        ValueError: It does not.
    """
    kind = os.path.splitext(path)[1].lower()
    if kind not in (*_PICKLED, ".gguf", ".safetensors", ".npz", ".npy"):
        raise ValueError(f"{path}: the ending {kind!r} says no format that is known")


def write(value, path, metadata=None, model=None):
    """Writes tensors to a file, in the format that its ending says.

    Args:
        metadata: What the file says beside its tensors, where the format has a place for that.
        model: A GGUF file whose metadata tell the types of integers.
    """
    check_ending(path)
    kind = os.path.splitext(path)[1].lower()
    found = dict(tensors(value))
    if kind in _PICKLED:
        # What stands for an object of an unknown class is no such object.
        unknown = any(isinstance(item, _weights_only.StandIn) for _, item in _walk(value))
        corten.save(found if unknown else value, path)
        return
    if kind == ".safetensors":
        from corten import safetensors

        # The format has no sharing: every tensor gets bytes of its own.
        texts = {"format": "pt", GGUF_METADATA: json.dumps(metadata)} if metadata else None
        safetensors.save_file({name: t.contiguous().clone() for name, t in found.items()}, path, texts)
    elif kind == ".gguf":
        gguf.save({name: t.detach() for name, t in found.items()}, path, metadata, model)
    elif kind == ".npz":
        import numpy

        with _atomic.replaced(path) as file:
            numpy.savez(file, **{name: _array(t) for name, t in found.items()})
    else:
        import numpy

        if len(found) != 1:
            raise ValueError(f"a .npy file holds one tensor, not {len(found)}")
        with _atomic.replaced(path) as file:
            numpy.save(file, _array(next(iter(found.values()))))


def _array(tensor):
    tensor = tensor.detach()
    if tensor.dtype == corten.bfloat16 or tensor.dtype.itemsize == 1 and tensor.is_floating_point():
        tensor = tensor.float()  # NumPy has no such dtype; float32 holds the same numbers
    return tensor.resolve_conj().resolve_neg().numpy()


def _inside(value):
    """What a container holds, each with its name in it; the parts of an unknown object have none."""
    if isinstance(value, gguf.File):
        return list(value.tensors.items())
    if isinstance(value, dict):
        return [(str(key), item) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [(str(place), item) for place, item in enumerate(value)]
    if isinstance(value, _weights_only.StandIn):
        return [("", part) for part in value.parts]
    return []


def _walk(value):
    """All that nested containers hold, with its place. A container that holds itself is entered once, and
    one that is held in many places in the first few."""
    todo, entered = [("", value, frozenset())], Counter()
    while todo:
        name, item, around = todo.pop()
        yield name, item
        inside = _inside(item)
        if inside and id(item) not in around and entered[id(item)] < _MOST_PLACES:
            entered[id(item)] += 1
            around |= {id(item)}
            parts = ((".".join(filter(None, (name, key))), part, around) for key, part in inside)
            todo += reversed(list(parts))


def tensors(value):
    """The tensors in nested containers, with their places as names."""
    for name, item in _walk(value):
        if isinstance(item, corten.Tensor):
            yield name or "tensor", item


def describe(path):
    """Lines about a file: its metadata; of each tensor name, dtype, shape, bytes, and what shares memory."""
    value, owners, total, count, by_type = read(path), {}, 0, 0, Counter()
    said = metadata(path, value)
    yield from (f"{name} = {_shown(entry)}" for name, entry in said.items())
    if said:
        yield ""
    types = value.types if isinstance(value, gguf.File) else {}
    shapes = value.shapes if isinstance(value, gguf.File) else {}
    for name, tensor in tensors(value):
        line = f"{name}  {types.get(name) or type_of(tensor)}  {tuple(shapes.get(name, tensor.shape))}"
        line += f"  {size(nbytes_of(tensor))}"
        key, held = _memory_of(tensor)
        by_type[types.get(name) or type_of(tensor)] += nbytes_of(tensor)
        if key in owners and held:
            line += f"  shares memory with {owners[key]}"
        else:
            owners[key] = name
            total += held
        if not tensor.is_contiguous():
            line += f"  strides {tensor.stride()}"
        count += 1
        yield line
    parts = ", ".join(f"{kind} {size(nbytes)}" for kind, nbytes in by_type.most_common())
    yield f"{count} tensors, {size(total)}" + (f" ({parts})" if types and len(by_type) > 1 else "")


def type_of(tensor):
    """The format of a block-quantised tensor, or the dtype."""
    return tensor.block_format or str(tensor.dtype).split(".")[-1]


def nbytes_of(tensor):
    """The bytes of the elements."""
    return tensor.numel() * tensor.element_size() if tensor.block_format is None else _C._blocks_of(tensor)[1].numel()


def _memory_of(tensor):
    """What tells the memory of a tensor from that of others, and its size."""
    if tensor.block_format is not None:
        stored = _C._blocks_of(tensor)[1]
        return stored.data_ptr() or id(tensor), stored.numel()
    storage = tensor.untyped_storage()
    return storage.data_ptr() or id(tensor), storage.nbytes()


def _shown(entry):
    """An entry of metadata, cut short."""
    if isinstance(entry, list) and len(entry) > _MOST_SHOWN:
        first = ", ".join(_shown(each) for each in entry[:_MOST_SHOWN])
        return f"[{first}, ...]  {len(entry)} elements"
    text = repr(entry)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...  {len(text)} characters"


def size(nbytes):
    """A number of bytes with its unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if nbytes < 1024 or unit == "GiB":
            return f"{nbytes:.0f} {unit}" if unit == "B" else f"{nbytes:.1f} {unit}"
        nbytes /= 1024
    return ""


def inspect_main(arguments):
    """``corten inspect FILE...``"""
    if not arguments:
        sys.exit("usage: corten inspect FILE...")
    for path in arguments:
        if len(arguments) > 1:
            print(f"{path}:")
        try:
            for line in describe(path):
                print(line)
        except Exception as error:  # of a file that can hold anything
            sys.exit(f"corten inspect: {error}")
