"""``corten inspect FILE`` and ``corten convert FROM TO``: tensors in .pt, .safetensors, .npz, .npy."""

from __future__ import annotations

import os
import sys

import corten

from . import _atomic


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
    if kind in (".pt", ".pth", ".bin", ".ckpt"):
        return corten.load(path, weights_only=True)
    raise ValueError(f"{path}: the ending {kind!r} says no format that is known")


def write(value, path):
    """Writes tensors to a file, in the format that its ending says."""
    kind = os.path.splitext(path)[1].lower()
    if kind in (".pt", ".pth", ".bin", ".ckpt"):
        corten.save(value, path)
        return
    found = dict(tensors(value))
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


def tensors(value, name=""):
    """The tensors in nested containers, with their places as names."""
    if isinstance(value, corten.Tensor):
        yield name or "tensor", value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from tensors(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        for place, item in enumerate(value):
            yield from tensors(item, f"{name}.{place}" if name else str(place))


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
        except (OSError, ValueError, RuntimeError) as error:
            sys.exit(f"corten inspect: {error}")


def convert_main(arguments):
    """``corten convert FROM TO``"""
    if len(arguments) != 2:
        sys.exit("usage: corten convert FROM TO")
    source, target = arguments
    try:
        write(read(source), target)
    except (OSError, ValueError, RuntimeError) as error:
        sys.exit(f"corten convert: {error}")
