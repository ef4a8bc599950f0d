"""The table of cuDNN's functions and constants beside NVIDIA's headers and library, where these are installed.

Headers and libraries are looked for in NVIDIA_FOLDERS (folders with `include` and `lib`, separated by colons), in
`site-packages/nvidia/*` and in CUDA_HOME; neither needs a GPU.
"""

import ctypes
import os
import re
import shutil
import site
import subprocess
import tempfile
import unittest
from pathlib import Path

TABLE = Path(__file__).resolve().parents[2] / "crates/corten-cuda/src/driver/cudnn_table.rs"
CXX = os.environ.get("CXX", "g++")
PREFIXES = {"data_type": "CUDNN_DATA_", "math": "CUDNN_", "format": "CUDNN_", "mode": "CUDNN_", "determinism": "CUDNN_"}
CLASSES = {"c_int": "Int32", "usize": "UInt64"}
# The headers name CUDA's types for streams and devices only; these stand in for CUDA's own header.
CUDA = "#include <stddef.h>\ntypedef struct CUstream_st *cudaStream_t; typedef struct CUgraph_st *cudaGraph_t;\n" \
       "typedef int cudaError_t; typedef int libraryPropertyType; typedef int cudaDataType;\n"
CHECKS = """
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <cstddef>
#include <type_traits>
struct Pointer { template <class T> static constexpr bool fits = std::is_pointer_v<T>; };
struct Int32 { template <class T> static constexpr bool fits = (std::is_enum_v<T> || std::is_same_v<T, int>) && sizeof(T) == 4; };
struct UInt64 { template <class T> static constexpr bool fits = std::is_integral_v<T> && std::is_unsigned_v<T> && sizeof(T) == 8; };
template <class... K, class... A> constexpr bool matches(cudnnStatus_t (*)(A...)) {
  if constexpr (sizeof...(K) != sizeof...(A)) return false;
  else return (K::template fits<A> && ...);
}
template <class P> constexpr bool performance() {
  return sizeof(P) == 48 && offsetof(P, algo) == 0 && offsetof(P, status) == 4 && offsetof(P, time) == 8 &&
         offsetof(P, memory) == 16 && offsetof(P, determinism) == 24 && offsetof(P, mathType) == 28;
}
static_assert(sizeof(cudnnStatus_t) == 4 && std::is_same_v<decltype(&cudnnGetVersion), size_t (*)()>);
static_assert(std::is_same_v<decltype(&cudnnGetErrorString), const char *(*)(cudnnStatus_t)>);
static_assert(performance<cudnnConvolutionFwdAlgoPerf_t>() && performance<cudnnConvolutionBwdDataAlgoPerf_t>());
static_assert(performance<cudnnConvolutionBwdFilterAlgoPerf_t>() && CUDNN_STATUS_SUCCESS == 0 && CUDNN_MAJOR == 9);
"""


def folders():
    given = os.environ.get("NVIDIA_FOLDERS", "").split(":") + [os.environ.get("CUDA_HOME", "")]
    found = [Path(folder) for folder in given if folder]
    for root in site.getsitepackages():
        found += sorted(Path(root).glob("nvidia/*"), reverse=True)
    return found


def constants(text):
    """(name in NVIDIA's headers, value) of every constant of the table."""
    for module, body in re.findall(r"pub\(crate\) mod (\w+) \{(.*?)\n\}", text, re.S):
        for name, value in re.findall(r"const (\w+): i32 = (\d+);", body):
            yield PREFIXES[module] + name, value
    yield "CUDNN_STATUS_NOT_SUPPORTED", re.search(r"const NOT_SUPPORTED: i32 = (\d+)", text)[1]


def functions(text):
    """(name, classes of its arguments) of every function of the table."""
    table = text[text.index("    Cudnn {"):]
    for name, arguments in re.findall(r"^ {8}(cudnn\w+)\((.*?)\);", table, re.S | re.M):
        kinds = [kind.strip() for kind in arguments.replace("\n", " ").split(",") if kind.strip()]
        yield name, [CLASSES.get(kind, "Pointer") for kind in kinds]


class Table(unittest.TestCase):
    def test_everything_is_read(self):
        text = TABLE.read_text()
        table = text[text.index("    Cudnn {"):text.index("/// An opened cuDNN")]
        self.assertEqual(len(list(functions(text))), table.count("        cudnn"))
        self.assertEqual(len(list(constants(text))), 12)

    @unittest.skipUnless(shutil.which(CXX), f"it takes a C++ compiler, here {CXX}")
    def test_headers(self):
        include = [folder / "include" for folder in folders() if (folder / "include" / "cudnn.h").exists()]
        if not include:
            self.skipTest("cudnn.h is not installed (pip install nvidia-cudnn-cu13)")
        text = TABLE.read_text()
        rows = [f"static_assert({name} == {value});" for name, value in constants(text)]
        rows += [f"static_assert(matches<{', '.join(kinds)}>(&{name}));" for name, kinds in functions(text)]
        with tempfile.TemporaryDirectory() as folder:
            for header in ("cuda_runtime_api.h", "cuda_runtime.h"):
                (Path(folder) / header).write_text(f"#pragma once\n#ifndef CT_CUDA\n#define CT_CUDA\n{CUDA}#endif\n")
            (Path(folder) / "library_types.h").write_text("")
            program = Path(folder) / "table.cpp"
            program.write_text(CHECKS + "\n".join(rows) + "\n")
            command = [CXX, "-std=c++17", "-fsyntax-only", "-Wno-deprecated-declarations", f"-I{folder}",
                       *[f"-I{path}" for path in include], program]
            done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr[:4000])

    def test_symbols(self):
        found = [folder / "lib" / "libcudnn.so.9" for folder in folders()]
        found = [path for path in found if path.exists()]
        if not found:
            self.skipTest("libcudnn.so.9 is not installed (pip install nvidia-cudnn-cu13)")
        library = ctypes.CDLL(str(found[0]))
        for name in [*dict(functions(TABLE.read_text())), "cudnnGetVersion", "cudnnGetErrorString"]:
            self.assertTrue(hasattr(library, name), name)


if __name__ == "__main__":
    unittest.main()
