"""Makes packs of compiled kernels: `sm_XY.pack`, from the kernels that a workload has used.

    python tests/cuda/kernel_pack.py OUT [--architectures 80,90,100,120] [--kernels FOLDER]

FOLDER is a kernel cache (CORTEN_KERNEL_CACHE) that programs have filled, on a GPU or on the emulator; without it the
workload of pack_workload.py runs on the emulator. NVRTC compiles without a GPU. A pack is found in the folder that
CORTEN_KERNEL_PACK names, or in `kernels` beside the extension module.
"""

import argparse
import os
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

import compile_all
from emulator import build

MAGIC, ROW = b"cortenP1", 32
# What a deflated kernel may refer back to.
WINDOW = 32768


def fnv1a(data):
    value = 0x6C62272E07BB014262B821756295C58D
    for byte in data:
        value = ((value ^ byte) * 0x0000000001000000000000000000013B) & (2**128 - 1)
    return value


def cached(folder):
    """Of every kernel in a cache: its version, its source (instantiation, line end, text), its symbol and image."""
    for path in sorted(Path(folder).glob("*")):
        data = path.read_bytes() if path.is_file() else b""
        if not data.startswith(compile_all.MAGIC):
            continue
        parts, at = [], len(compile_all.MAGIC)
        while at < len(data):
            length = int.from_bytes(data[at:at + 8], "little")
            parts.append(data[at + 8:at + 8 + length])
            at += 8 + length
        version, _, _, _, source = parts[0].split(b" ", 4)
        yield version, source, parts[1], parts[2]


def write(path, kernels):
    """A pack of kernels: keys to symbols and images."""
    bodies = {key: b"".join(struct.pack("<Q", len(part)) + part for part in kernel) for key, kernel in kernels.items()}
    # Kernels of a text have much in common: the others are written as what differs from some of them.
    step = max(1, len(bodies) // 3)
    dictionary = b"".join(bodies[key] for key in sorted(bodies)[::step][:3])[-WINDOW:]
    deflated = {}
    for key, body in bodies.items():
        writer = zlib.compressobj(9, wbits=-15, zdict=dictionary) if dictionary else zlib.compressobj(9, wbits=-15)
        deflated[key] = writer.compress(body) + writer.flush()
    offset, rows = 16 + ROW * len(bodies) + len(dictionary), []
    for key in sorted(bodies):
        rows.append(key.to_bytes(16, "little") + struct.pack("<QII", offset, len(deflated[key]), len(bodies[key])))
        offset += len(deflated[key])
    head = MAGIC + struct.pack("<II", len(bodies), len(dictionary))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join([head, *rows, dictionary, *[deflated[key] for key in sorted(bodies)]]))
    return offset


def key_of(version, source):
    return fnv1a(version + b" " + source)


def run_workload(folder):
    environment = dict(os.environ, CORTEN_KERNEL_CACHE=str(folder), CORTEN_KERNEL_PACK="", CORTEN_QUIET="1")
    if os.environ.get("CORTEN_TEST_GPU") != "1":
        libraries = build()
        environment.update(CORTEN_CUDA_LIB_DIR=str(libraries), CUSIM_CACHE=str(libraries / "kernels"))
    subprocess.run([sys.executable, str(Path(__file__).with_name("pack_workload.py"))], env=environment, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--architectures", default="80,90,100,120")
    parser.add_argument("--kernels", type=Path)
    given = parser.parse_args()
    nvrtc = compile_all.open_nvrtc()
    if nvrtc is None:
        sys.exit("kernel_pack: NVRTC is not installed (pip install nvidia-cuda-nvrtc==13.0.*)")
    with tempfile.TemporaryDirectory() as temporary:
        if given.kernels is None:
            run_workload(temporary)
        sources = {(version, source) for version, source, _, _ in cached(given.kernels or temporary)}
    for architecture in given.architectures.split(","):
        begun, kernels = time.monotonic(), {}
        for version, source in sources:
            expression, text = source.decode().split("\n", 1)
            made = compile_all.compile(nvrtc, text, expression, architecture)
            if isinstance(made, str):
                sys.exit(f"sm_{architecture} {expression}: {made[:2000]}")
            kernels[key_of(version, source)] = made
        raw = sum(len(image) for _, image in kernels.values())
        size = write(given.out / f"sm_{architecture}.pack", kernels)
        print(f"sm_{architecture}: {len(kernels)} kernels, {raw / 1e6:.2f} MB of cubins, {size / 1e6:.2f} MB packed, "
              f"{time.monotonic() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main()
