"""The table of cuBLASLt's functions and constants beside NVIDIA's headers and library, where these are installed.

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

TABLE = Path(__file__).resolve().parents[2] / "crates/corten-cuda/src/driver/cublaslt_table.rs"
CXX = os.environ.get("CXX", "g++")
PREFIXES = {
    "data_type": "CUDA_", "compute": "CUBLAS_COMPUTE_", "desc": "CUBLASLT_MATMUL_DESC_",
    "layout": "CUBLASLT_MATRIX_LAYOUT_", "preference": "CUBLASLT_MATMUL_PREF_",
    "reduction": "CUBLASLT_REDUCTION_SCHEME_", "epilogue": "CUBLASLT_EPILOGUE_", "operation": "CUBLAS_OP_",
}
CLASSES = {"c_int": "Int32", "u64": "UInt64", "i64": "Int64", "usize": "UInt64"}
CHECKS = """
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cstddef>
#include <type_traits>
struct Pointer { template <class T> static constexpr bool fits = std::is_pointer_v<T>; };
struct Int32 { template <class T> static constexpr bool fits = (std::is_enum_v<T> || std::is_same_v<T, int>) && sizeof(T) == 4; };
struct Int64 { template <class T> static constexpr bool fits = std::is_integral_v<T> && std::is_signed_v<T> && sizeof(T) == 8; };
struct UInt64 { template <class T> static constexpr bool fits = std::is_integral_v<T> && std::is_unsigned_v<T> && sizeof(T) == 8; };
template <class... K, class... A> constexpr bool matches(cublasStatus_t (*)(A...)) {
  if constexpr (sizeof...(K) != sizeof...(A)) return false;
  else return (K::template fits<A> && ...);
}
static_assert(sizeof(cublasStatus_t) == 4 && std::is_same_v<decltype(&cublasLtGetVersion), size_t (*)()>);
static_assert(matches<Pointer>(&cublasCreate_v2) && matches<Pointer, Pointer>(&cublasSetStream_v2));
static_assert(sizeof(cublasLtMatmulAlgo_t) == 64 && sizeof(cublasLtMatmulHeuristicResult_t) == 96);
static_assert(offsetof(cublasLtMatmulHeuristicResult_t, algo) == 0);
static_assert(offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) == 64);
static_assert(offsetof(cublasLtMatmulHeuristicResult_t, state) == 72);
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
        for name, value in re.findall(r"const (\w+): \w+ = (\d+);", body):
            yield PREFIXES[module] + (name.removeprefix("IN_") if module == "compute" else name), value
    yield "CUBLAS_STATUS_NOT_SUPPORTED", re.search(r"const NOT_SUPPORTED: i32 = (\d+)", text)[1]
    for value, name in re.findall(r'(\d+) => "(CUBLAS_STATUS_\w+)"', text):
        yield name, value


def functions(text):
    """(name, classes of its arguments) of every function of the table."""
    table = text[text.index("function_table!"):]
    for name, arguments in re.findall(r"^ {8}(cublasLt\w+)\((.*?)\);", table, re.S | re.M):
        kinds = [kind.strip() for kind in arguments.replace("\n", " ").split(",") if kind.strip()]
        yield name, [CLASSES.get(kind, "Pointer") for kind in kinds]


class Table(unittest.TestCase):
    def test_everything_is_read(self):
        text = TABLE.read_text()
        table = text[text.index("    CublasLt {"):text.index("/// The version of an")]
        self.assertEqual(len(list(functions(text))), table.count("        cublasLt"))
        self.assertGreater(len(list(constants(text))), 35)

    @unittest.skipUnless(shutil.which(CXX), f"it takes a C++ compiler, here {CXX}")
    def test_headers(self):
        include = [folder / "include" for folder in folders() if (folder / "include").is_dir()]
        for name in ("cublasLt.h", "driver_types.h", "crt/host_defines.h"):
            if not any((folder / name).exists() for folder in include):
                self.skipTest(f"{name} is not installed (pip install nvidia-cublas nvidia-cuda-runtime nvidia-cuda-crt)")
        text = TABLE.read_text()
        lines = [f"static_assert({name} == {value});" for name, value in constants(text)]
        lines += [f"static_assert(matches<{', '.join(kinds)}>(&{name}));" for name, kinds in functions(text)]
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "table.cpp"
            program.write_text(CHECKS + "\n".join(lines) + "\n")
            command = [CXX, "-std=c++17", "-fsyntax-only", *[f"-I{path}" for path in include], program]
            done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr[:4000])

    def check_attributes(self, library):
        """The sizes with which attributes are set: descriptors need no GPU."""
        values = dict(constants(TABLE.read_text()))
        description, layout, preference = (ctypes.c_void_p() for _ in range(3))
        pairs = [("CUBLAS_COMPUTE_32F", "CUDA_R_32F"), ("CUBLAS_COMPUTE_16F", "CUDA_R_16F"), ("CUBLAS_COMPUTE_64F", "CUDA_C_64F"),
                 ("CUBLAS_COMPUTE_32I", "CUDA_R_32I"), ("CUBLAS_COMPUTE_32F_FAST_TF32", "CUDA_C_32F")]
        for compute, scale in pairs:
            made = library.cublasLtMatmulDescCreate(ctypes.byref(description), int(values[compute]), int(values[scale]))
            self.assertEqual(made, 0, compute)
        size = ctypes.c_uint64
        self.assertEqual(library.cublasLtMatrixLayoutCreate(ctypes.byref(layout), 0, size(3), size(4), ctypes.c_int64(3)), 0)
        self.assertEqual(library.cublasLtMatmulPreferenceCreate(ctypes.byref(preference)), 0)
        sets = {
            "MatmulDesc": (description, "CUBLASLT_MATMUL_DESC_", {
                "TRANSA": ctypes.c_int32(1), "TRANSB": ctypes.c_int32(1), "EPILOGUE": ctypes.c_uint32(36),
                "BIAS_POINTER": ctypes.c_uint64(4096)}),
            "MatrixLayout": (layout, "CUBLASLT_MATRIX_LAYOUT_", {
                "BATCH_COUNT": ctypes.c_int32(2), "STRIDED_BATCH_OFFSET": ctypes.c_int64(12)}),
            "MatmulPreference": (preference, "CUBLASLT_MATMUL_PREF_", {
                "MAX_WORKSPACE_BYTES": ctypes.c_uint64(32 << 20), "REDUCTION_SCHEME_MASK": ctypes.c_uint32(2),
                **{f"MIN_ALIGNMENT_{x}_BYTES": ctypes.c_uint32(16) for x in "ABCD"}}),
        }
        for kind, (thing, prefix, attributes) in sets.items():
            setter = getattr(library, f"cublasLt{kind}SetAttribute")
            for name, value in attributes.items():
                attribute, bytes = int(values[prefix + name]), ctypes.c_size_t(ctypes.sizeof(value))
                self.assertEqual(setter(thing, attribute, ctypes.byref(value), bytes), 0, name)

    def test_symbols(self):
        libraries = [path for folder in folders() for path in (folder / "lib").glob("libcublasLt.so.1[23]")]
        if not libraries:
            self.skipTest("libcublasLt is not installed (pip install nvidia-cublas)")
        for path in libraries:
            try:
                library = ctypes.CDLL(str(path))
            except OSError as error:
                self.skipTest(str(error))
            for name in [name for name, _ in functions(TABLE.read_text())] + ["cublasLtGetVersion"]:
                self.assertTrue(hasattr(library, name), f"{name} in {path}")
            self.check_attributes(library)
            library.cublasLtGetVersion.restype = ctypes.c_size_t
            self.assertEqual(library.cublasLtGetVersion() // 10000, int(path.name.rpartition(".")[2]))


if __name__ == "__main__":
    unittest.main()
