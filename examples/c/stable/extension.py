"""What `extension.cpp` does, printed: python extension.py LIBRARY [torch|corten]. Both print the same."""

import ctypes
import gc
import importlib
import sys

path, name = sys.argv[1], sys.argv[2]
torch = importlib.import_module(name)
torch.ops.load_library(path)
ops = torch.ops.stable_test


def show(label, *values):
    print(label, *(value.tolist() if isinstance(value, torch.Tensor) else repr(value) for value in values))


x = torch.arange(12, dtype=torch.float32).reshape(3, 4)
big = torch.arange(100000, dtype=torch.float32)
show("axpy", ops.axpy(x, x, 2.0), bool((ops.axpy(big, big, 1.0) == big * 2).all()))
y = x.clone()
z = ops.add_one_(y)
show("in place", y, z is y)
show("values", ops.values(-3, 0.25, True, "straße\0x", torch.int16, torch.device("cpu"), torch.strided,
                          torch.channels_last))
show("values", ops.values(2**40, float("inf"), False, "", torch.bfloat16, torch.device("meta"), torch.sparse_coo,
                          torch.preserve_format))
show("optionals", ops.optionals())
show("optionals", ops.optionals(1, 2.5, False, "text", x, torch.device("cpu"), torch.float64, [1, 2],
                                torch.Generator()))
tensors, integers, floats = ops.lists([1, 2], [0.5], [True, False], [x, y], [x, None])
show("lists", integers, floats, [one.shape for one in tensors], tensors[0] is y)
show("empty lists", *ops.lists([], [], [], [], []))
result = ops.many(x)
show("many", *result[1:6], result[0], result[6] is x)
for one in (x, x.t(), x[1:, 1:3], torch.tensor(3), torch.zeros(0, 2), x.to("meta"), torch.zeros(2, dtype=torch.bool),
            torch.zeros(1, dtype=torch.complex64), torch.zeros(3, dtype=torch.uint16)):
    show("about", ops.about(one))
for index, one in enumerate(ops.surface(x, torch.arange(1, 5))):
    show(f"surface {index}", one.dtype, one)
memory = ops.blob(4)
view = memory[1:]
show("blob", memory, memory.storage_offset(), ops.freed())
del memory
gc.collect()
show("blob", view, ops.freed())
del view
gc.collect()
show("freed", ops.freed())
for how in ("check", "range", "number", "object", "operator", "threads", "again", "device"):
    try:
        ops.fails(x, how)
    except Exception as error:
        # What stands behind differs: places of files, names of types, what the library itself says.
        text = str(error).split("\n")[0].split(" (")[0] if how in ("check", "range", "again", "threads") else ""
        show(how, type(error).__name__, text.partition("Exception raised")[0].split(", ")[-1])
try:
    ops.axpy(x, x[:1], 1.0)
except RuntimeError as error:
    show("sizes", "one size, got 12 and 4" in str(error))

library = ctypes.PyDLL(path)
for function in (library.negated_object, library.same_dtype_object, library.same_device_object):
    function.restype, function.argtypes = ctypes.py_object, [ctypes.py_object]
library.negated_object.argtypes = [ctypes.py_object, ctypes.c_void_p]
show("object", library.negated_object(x, None))
parameter = library.negated_object(x, id(torch.nn.Parameter))
show("object", type(parameter).__name__, isinstance(parameter, torch.nn.Parameter))
show("object", library.same_dtype_object(torch.float16), library.same_device_object(torch.device("cpu")),
     library.same_device_object(torch.device("cuda:1")))
