"""``corten inspect FILE`` and ``corten convert FROM TO``: tensors in .pt, .safetensors, .npz, .npy."""

from __future__ import annotations

import os
import sys
from collections import Counter

import corten

from . import _atomic, _weights_only


#: In how many places the same container is looked into.
_MOST_PLACES = 64
_PICKLED = (".pt", ".pth", ".bin", ".ckpt")


def read(path):
    """What is in a file.

    Raises:
        ValueError: The ending says no format.
    """
    kind = os.path.splitext(path)[1].lower()
    if kind == ".safetensors":
        from corten import safetensors

        return safetensors.load_file(path)
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


def write(value, path):
    """Writes tensors to a file, in the format that its ending says."""
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
        safetensors.save_file({name: t.contiguous().clone() for name, t in found.items()}, path)
    elif kind == ".npz":
        import numpy

        with _atomic.replaced(path) as file:
            numpy.savez(file, **{name: _array(t) for name, t in found.items()})
    elif kind == ".npy":
        import numpy

        if len(found) != 1:
            raise ValueError(f"a .npy file holds one tensor, not {len(found)}")
        with _atomic.replaced(path) as file:
            numpy.save(file, _array(next(iter(found.values()))))
    else:
        raise ValueError(f"{path}: the ending {kind!r} says no format that is known")


def _array(tensor):
    tensor = tensor.detach()
    if tensor.dtype == corten.bfloat16 or tensor.dtype.itemsize == 1 and tensor.is_floating_point():
        tensor = tensor.float()  # NumPy has no such dtype; float32 holds the same numbers
    return tensor.resolve_conj().resolve_neg().numpy()


def _inside(value):
    """What a container holds, each with its name in it; the parts of an unknown object have none."""
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
    """Lines about the tensors of a file: name, dtype, shape, bytes, and what shares memory."""
    owners, total, count = {}, 0, 0
    for name, tensor in tensors(read(path)):
        storage = tensor.untyped_storage()
        key = storage.data_ptr() or id(tensor)
        line = f"{name}  {str(tensor.dtype).split('.')[-1]}  {tuple(tensor.shape)}"
        line += f"  {_size(tensor.numel() * tensor.element_size())}"
        if key in owners and storage.nbytes():
            line += f"  shares memory with {owners[key]}"
        else:
            owners[key] = name
            total += storage.nbytes()
        if not tensor.is_contiguous():
            line += f"  strides {tensor.stride()}"
        count += 1
        yield line
    yield f"{count} tensors, {_size(total)}"


def _size(nbytes):
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


def convert_main(arguments):
    """``corten convert FROM TO``"""
    if len(arguments) != 2:
        sys.exit("usage: corten convert FROM TO")
    source, target = arguments
    try:
        write(read(source), target)
    except Exception as error:  # of a file that can hold anything
        sys.exit(f"corten convert: {error}")
