"""PyTorch's stable C ABI by its functions, as extensions call them; on PyTorch these are PyTorch's own."""

import ctypes
import os
import pathlib
import subprocess
import sys
import unittest

from module_under_test import torch

CORTEN = torch.__name__ == "corten"
VERSION = (2 << 56) | (15 << 48)


def library():
    if not CORTEN:
        return ctypes.CDLL(str(pathlib.Path(torch.__file__).parent / "lib/libtorch_cpu.so"))
    from corten import _C

    _C._provide_stable_abi()
    return ctypes.CDLL("libtorch_cpu.so", mode=os.RTLD_NOLOAD | os.RTLD_NOW)


KERNEL = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_uint64), ctypes.c_uint64, ctypes.c_uint64)


class StableAbi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not sys.platform.startswith("linux"):
            raise unittest.SkipTest("libraries are made in memory on Linux alone")
        cls.abi = library()
        cls.abi.torch_exception_get_what_without_backtrace.restype = ctypes.c_char_p
        cls.abi.aoti_torch_abi_version.restype = ctypes.c_uint64

    def call(self, name, *arguments):
        """Calls a function that fails with a message."""
        status = getattr(self.abi, name)(*arguments)
        if status != 0:
            raise RuntimeError(self.abi.torch_exception_get_what_without_backtrace().decode())

    def get(self, kind, name, *arguments):
        """Calls a function that stores its result behind the last argument."""
        place = kind()
        self.call(name, *arguments, ctypes.byref(place))
        return place.value

    def tensor(self, numbers, *sizes):
        """A handle of a tensor of doubles."""
        count = max(len(numbers), 1)
        memory = (ctypes.c_double * count)(*numbers)
        sizes = sizes or (len(numbers),)
        strides = [1] * len(sizes)
        for dim in range(len(sizes) - 2, -1, -1):
            strides[dim] = strides[dim + 1] * sizes[dim + 1]
        lists = [(ctypes.c_int64 * max(len(sizes), 1))(*one) for one in (sizes, strides)]
        borrowed = self.get(ctypes.c_void_p, "aoti_torch_create_tensor_from_blob", memory,
                            ctypes.c_int64(len(sizes)), *lists, ctypes.c_int64(0), 7, 0, -1)
        owned = self.get(ctypes.c_void_p, "aoti_torch_clone", ctypes.c_void_p(borrowed))
        self.call("aoti_torch_delete_tensor_object", ctypes.c_void_p(borrowed))
        return owned

    def numbers(self, handle):
        """The elements of a tensor of doubles, of which the handle is given back."""
        handle = ctypes.c_void_p(handle)
        count = self.get(ctypes.c_int64, "aoti_torch_get_numel", handle)
        copy = self.get(ctypes.c_void_p, "aoti_torch_clone", handle)
        data = self.get(ctypes.c_void_p, "torch_get_const_data_ptr", ctypes.c_void_p(copy))
        found = list((ctypes.c_double * count).from_address(data)) if count else []
        self.call("aoti_torch_delete_tensor_object", ctypes.c_void_p(copy))
        self.call("aoti_torch_delete_tensor_object", handle)
        return found

    def dispatch(self, name, overload, words, results):
        stack = (ctypes.c_uint64 * max(len(words), results, 1))(*words)
        self.call("torch_call_dispatcher", name.encode(), overload.encode(), stack, ctypes.c_uint64(VERSION))
        return stack[:results]

    def test_versions_and_numbers(self):
        self.assertEqual(self.abi.aoti_torch_abi_version() >> 48, VERSION >> 48)
        self.assertEqual(self.abi.aoti_torch_dtype_bfloat16(), 15)
        self.assertEqual(self.abi.aoti_torch_device_type_meta(), 14)
        self.assertEqual(self.abi.torch_tag_view_copy(), 19)
        self.assertEqual(self.abi.torch_dtype_float4_e2m1fn_x2(), 45)

    def test_every_symbol_on_record_is_found(self):
        home = pathlib.Path(__file__).resolve().parents[2]
        recorded = (home / "crates/corten-c/stable.txt").read_text().split()
        self.assertGreater(len(recorded), 340)
        lacking = [name for name in recorded if not hasattr(self.abi, name)]
        # Functions of GPUs are in another library of PyTorch.
        self.assertEqual([name for name in lacking if CORTEN or "cuda" not in name], [])
        if CORTEN:
            from corten import _C

            self.assertEqual(list(_C._stable_abi_symbols()), recorded)

    def test_metadata(self):
        handle = ctypes.c_void_p(self.tensor(range(6), 2, 3))
        self.assertEqual(self.get(ctypes.c_int64, "aoti_torch_get_dim", handle), 2)
        sizes = self.get(ctypes.c_void_p, "aoti_torch_get_sizes", handle)
        strides = self.get(ctypes.c_void_p, "aoti_torch_get_strides", handle)
        self.assertEqual(list((ctypes.c_int64 * 2).from_address(sizes)), [2, 3])
        self.assertEqual(list((ctypes.c_int64 * 2).from_address(strides)), [3, 1])
        self.assertEqual(self.get(ctypes.c_int64, "aoti_torch_get_storage_size", handle), 48)
        self.assertIs(self.get(ctypes.c_bool, "torch_has_storage", handle), True)
        with self.assertRaisesRegex(RuntimeError, "out of range"):
            self.get(ctypes.c_int64, "aoti_torch_get_size", handle, ctypes.c_int64(5))
        self.call("aoti_torch_delete_tensor_object", handle)

    def test_calls_by_name(self):
        found, = self.dispatch("aten::relu", "", [self.tensor([-1, 2])], 1)
        self.assertEqual(self.numbers(found), [0, 2])
        values, indices = self.dispatch("aten::sort", "", [self.tensor([3, 1, 2]), 2**64 - 1, 1], 2)
        self.assertEqual(self.numbers(values), [3, 2, 1])
        self.call("aoti_torch_delete_tensor_object", ctypes.c_void_p(indices))
        with self.assertRaisesRegex(RuntimeError, "Could not find schema for aten::nope"):
            self.dispatch("aten::nope", "", [], 0)
        with self.assertRaisesRegex(RuntimeError, "Not yet supported conversion.*Scalar"):
            self.dispatch("aten::add", "Scalar", [self.tensor([1]), 0, 0], 1)
        with self.assertRaisesRegex(RuntimeError, "cannot be multiplied"):
            self.dispatch("aten::mm", "", [self.tensor([1, 2], 1, 2), self.tensor([1, 2], 1, 2)], 1)

    def test_operators_with_parameters_of_c(self):
        x = ctypes.c_void_p(self.tensor(range(16), 1, 1, 4, 4))
        two, none = (ctypes.c_int64 * 2)(2, 2), (ctypes.c_int64 * 2)(0, 0)
        size = ctypes.c_int64(2)
        found = self.get(ctypes.c_void_p, "aoti_torch_cpu_avg_pool2d", x, two, size, two, size, none, size, 0, 1, None)
        self.assertEqual(self.numbers(found), [2.5, 4.5, 10.5, 12.5])
        five = ctypes.c_int64(5)
        found = self.get(ctypes.c_void_p, "aoti_torch_cpu_avg_pool2d", x, two, size, two, size, none, size, 0, 1,
                         ctypes.byref(five))
        self.assertEqual(self.numbers(found), [2, 3.6, 8.4, 10])
        total = self.get(ctypes.c_void_p, "aoti_torch_cpu_add_Scalar", x, ctypes.c_double(2), ctypes.c_double(0.5))
        self.assertEqual(self.numbers(total), [one + 1 for one in range(16)])
        four = (ctypes.c_int64 * 1)(16)
        flat = self.get(ctypes.c_void_p, "aoti_torch_cpu_reshape", x, four, ctypes.c_int64(1))
        values, indices = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("aoti_torch_cpu_topk", ctypes.c_void_p(flat), ctypes.c_int64(2), ctypes.c_int64(0), 1, 1,
                  ctypes.byref(values), ctypes.byref(indices))
        self.assertEqual(self.numbers(values.value), [15, 14])
        self.call("aoti_torch_delete_tensor_object", indices)
        self.call("aoti_torch_aten_fill__Scalar", ctypes.c_void_p(flat), ctypes.c_double(7))
        self.assertEqual(self.numbers(flat), [7] * 16)
        self.call("aoti_torch_delete_tensor_object", x)

    def test_convolution_has_arguments_on_the_stack(self):
        x, weight = self.tensor(range(9), 1, 1, 3, 3), self.tensor([1, 0, 0, 1], 1, 1, 2, 2)
        ones, none, two = (ctypes.c_int64 * 2)(1, 1), (ctypes.c_int64 * 2)(0, 0), ctypes.c_int64(2)
        bias = ctypes.c_void_p(self.tensor([100]))
        for place, expected in ((None, [4, 6, 10, 12]), (ctypes.byref(bias), [104, 106, 110, 112])):
            found = self.get(ctypes.c_void_p, "aoti_torch_cpu_convolution", ctypes.c_void_p(x), ctypes.c_void_p(weight),
                             place, ones, two, none, two, ones, two, 0, none, two, ctypes.c_int64(1))
            self.assertEqual(self.numbers(found), expected)
        for handle in (x, weight, bias.value):
            self.call("aoti_torch_delete_tensor_object", ctypes.c_void_p(handle))

    def test_factories(self):
        size = (ctypes.c_int64 * 2)(2, 2)
        dtype, device = ctypes.c_int32(7), ctypes.c_int32(0)
        found = self.get(ctypes.c_void_p, "aoti_torch_aten_full", size, ctypes.c_int64(2), ctypes.c_double(1.5),
                         ctypes.byref(dtype), None, ctypes.byref(device), -1, None)
        self.assertEqual(self.numbers(found), [1.5] * 4)

    def test_kernels_of_python_functions(self):
        def double(words, arguments, results):
            handle = ctypes.c_void_p(words[0])
            words[0] = self.get(ctypes.c_void_p, "aoti_torch_aten_subtract_Tensor", handle, handle,
                                ctypes.c_double(-1))
            self.call("aoti_torch_delete_tensor_object", handle)
            seen.append((arguments, results))

        seen = []
        type(self).kernel = KERNEL(double)
        made = ctypes.c_void_p()
        self.call("aoti_torch_library_init_fragment", b"stable_abi_test", b"file", 1, ctypes.byref(made))
        self.call("aoti_torch_library_def", made, b"double(Tensor x, int? n=None) -> Tensor")
        kernels = ctypes.c_void_p()
        self.call("aoti_torch_library_init_impl", b"stable_abi_test", b"CPU", b"file", 1, ctypes.byref(kernels))
        self.call("torch_library_impl", kernels, b"double", self.kernel, ctypes.c_uint64(VERSION))
        x = torch.tensor([1.0, 2.0])
        self.assertEqual(torch.ops.stable_abi_test.double(x).tolist(), [2, 4])
        self.assertEqual(seen, [(2, 1)])
        self.assertEqual(torch.ops.stable_abi_test.double.default(x).tolist(), [2, 4])
        with self.assertRaises(NotImplementedError):
            torch.ops.stable_abi_test.double(torch.empty(2, device="meta"))
        with self.assertRaises(RuntimeError):
            self.call("aoti_torch_library_def", made, b"no schema")

    def test_texts_and_lists(self):
        text = ctypes.c_void_p(self.get(ctypes.c_void_p, "torch_new_string_handle", b"a\0b", ctypes.c_size_t(3)))
        self.assertEqual(self.get(ctypes.c_size_t, "torch_string_length", text), 3)
        data = self.get(ctypes.c_void_p, "torch_string_c_str", text)
        self.assertEqual(ctypes.string_at(data, 4), b"a\0b\0")
        self.call("torch_delete_string", text)
        made = ctypes.c_void_p(self.get(ctypes.c_void_p, "torch_new_list_reserve_size", ctypes.c_size_t(1)))
        for word in (5, 6):
            self.call("torch_list_push_back", made, ctypes.c_uint64(word))
        self.call("torch_list_set_item", made, ctypes.c_size_t(0), ctypes.c_uint64(7))
        self.assertEqual(self.get(ctypes.c_uint64, "torch_list_get_item", made, ctypes.c_size_t(0)), 7)
        with self.assertRaises(RuntimeError):
            self.get(ctypes.c_uint64, "torch_list_get_item", made, ctypes.c_size_t(2))
        self.call("torch_delete_list", made)

    def test_numbers_as_tensors(self):
        for name, kind, number, dtype in (("float32", ctypes.c_float, 1.5, 6), ("float64", ctypes.c_double, 0.1, 7),
                                          ("uint8", ctypes.c_uint8, 200, 0), ("int8", ctypes.c_int8, -3, 1),
                                          ("uint64", ctypes.c_uint64, 2**64 - 1, 29), ("bool", ctypes.c_bool, True, 11)):
            with self.subTest(name):
                handle = ctypes.c_void_p(self.get(ctypes.c_void_p, f"aoti_torch_scalar_to_tensor_{name}", kind(number)))
                self.assertEqual(self.get(ctypes.c_int32, "aoti_torch_get_dtype", handle), dtype)
                self.assertEqual(self.get(kind, f"aoti_torch_item_{name}", handle), number)
                self.call("aoti_torch_delete_tensor_object", handle)
        large = ctypes.c_void_p(self.tensor([300.5]))
        with self.assertRaisesRegex(RuntimeError, "overflow"):
            self.get(ctypes.c_int8, "aoti_torch_item_int8", large)
        self.assertEqual(self.get(ctypes.c_int16, "aoti_torch_item_int16", large), 300)
        self.call("aoti_torch_delete_tensor_object", large)

    def test_devices_by_name(self):
        kind, index = ctypes.c_uint32(), ctypes.c_int32()
        for text, expected in ((b"cuda:3", (1, 3)), (b"cpu", (0, -1)), (b"meta", (14, -1))):
            self.call("torch_parse_device_string", text, ctypes.byref(kind), ctypes.byref(index))
            self.assertEqual((kind.value, index.value), expected)
        with self.assertRaisesRegex(RuntimeError, "Expected one of cpu, cuda"):
            self.call("torch_parse_device_string", b"nope", ctypes.byref(kind), ctypes.byref(index))

    @unittest.skipUnless(CORTEN, "PyTorch's name is PyTorch's")
    def test_extension_modules_find_the_libraries(self):
        code = ("import ctypes, os; from corten import install_as_torch; install_as_torch();\n"
                "for name in 'torch', 'torch_cpu', 'c10':\n"
                "    ctypes.CDLL(f'lib{name}.so', mode=os.RTLD_NOLOAD | os.RTLD_NOW)\n")
        subprocess.run([sys.executable, "-c", code], check=True)

    @unittest.skipUnless(CORTEN, "of PyTorch the message is another")
    def test_libraries_that_cannot_be_loaded(self):
        with self.assertRaisesRegex(OSError, "no/such/library.so"):
            torch.ops.load_library("/no/such/library.so")


if __name__ == "__main__":
    unittest.main()
