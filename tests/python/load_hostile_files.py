"""Loads the files of a folder with little memory and says of each what happened, one JSON line each.

Run as ``load_hostile_files.py MODULE FOLDER``; the order of the files is that of their names.
"""

import importlib
import io
import json
import os
import resource
import signal
import sys

SPARE = 1 << 30
SECONDS = 20


def main(module, folder):
    torch = importlib.import_module(module)
    readers = readers_of(torch)
    limit_memory()
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        for way, read in readers[name.rpartition(".")[2]].items():
            print(json.dumps([name, way, *outcome(torch, read, path), peak()]), flush=True)


def readers_of(torch):
    """The ways to read each kind of file."""
    def buffered(path):
        with open(path, "rb") as file:
            return torch.load(io.BytesIO(file.read()))

    from corten import _npy, safetensors

    return {
        "pt": {"name": torch.load, "buffer": buffered,
               "mmap": lambda path: torch.load(path, mmap=True),
               "meta": lambda path: torch.load(path, map_location="meta")},
        "safetensors": {"name": safetensors.load_file, "load": torch.load},
        "npy": {"name": _npy.load_npy}, "npz": {"name": _npy.load_npz},
    }


def outcome(torch, read, path):
    """``loaded``, or the class and the text of the exception."""
    signal.alarm(SECONDS)
    try:
        touch(torch, read(path))
        return "loaded", ""
    except Exception as error:
        return type(error).__name__, str(error)[:2000]
    finally:
        signal.alarm(0)


def touch(torch, value):
    """Reads what was loaded, so that memory outside of it would be noticed."""
    if isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.numel() < 10**6:
        value.detach().clone()
    elif isinstance(value, dict):
        for item in value.values():
            touch(torch, item)


def limit_memory():
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    limit = pages * resource.getpagesize() + SPARE
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def peak():
    """The most memory that the process had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
