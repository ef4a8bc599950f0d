## Corten in Nim, over its C interface. Written by bindings.py.
##
## Every operator is a procedure, overloaded as in its schema: `add_` is `addInplace`, a leading underscore
## is `internal`. References are counted by Nim (`--mm:arc` or `--mm:orc`). Errors are `CortenError`.

import std/options

{.passL: "-lcorten".}
{.push header: "corten.h".}

type
  Handle* = pointer
  Value* {.importc: "CortenValue", bycopy.} = object
    tag* {.importc: "tag".}: uint32
    length* {.importc: "length".}: csize_t
    u* {.importc: "u".}: Content
  Content {.importc: "union CortenContent", bycopy.} = object
    tensor: Handle
    integer: int64
    number: cdouble
    boolean: bool
    tensors: ptr UncheckedArray[Handle]
  Device* {.importc: "CortenDevice", bycopy.} = object
    kind* {.importc: "type".}: int32
    index* {.importc: "index".}: int32

proc corten_last_error(): cstring {.importc.}
proc corten_tensor_free(t: Handle) {.importc.}
proc corten_tensor_new_reference(t: Handle): Handle {.importc.}
proc corten_tensor_from_copy(data: pointer, sizes: ptr int64, dim: csize_t, dtype: int32, t: ptr Handle): int32 {.importc.}
proc corten_tensor_copy_to(t: Handle, data: pointer, nbytes: csize_t): int32 {.importc.}
proc corten_tensor_numel(t: Handle): int64 {.importc.}
proc corten_tensor_dim(t: Handle): int64 {.importc.}
proc corten_tensor_sizes(t: Handle, sizes: ptr int64, capacity: csize_t): int32 {.importc.}
proc corten_tensor_item(t: Handle, number: ptr cdouble): int32 {.importc.}
proc corten_tensor_set_requires_grad(t: Handle, requires: bool): int32 {.importc.}
proc corten_tensor_grad(t: Handle, grad: ptr Handle): int32 {.importc.}
proc corten_tensor_set_grad(t: Handle, grad: Handle): int32 {.importc.}
proc corten_backward(ts: ptr Handle, grads: ptr Handle, count: csize_t, retain, create: bool): int32 {.importc.}
proc corten_set_grad_enabled(enabled: bool): bool {.importc.}
proc corten_manual_seed(seed: uint64): int32 {.importc.}
proc corten_call(name, overload: cstring, inputs: ptr Value, n: csize_t, outputs: ptr Value, m: ptr csize_t): int32 {.importc.}
proc corten_values_free(values: ptr Value, count: csize_t) {.importc.}
proc corten_none(): Value {.importc.}
proc corten_of_tensor(t: Handle): Value {.importc.}
proc corten_of_int(i: int64): Value {.importc.}
proc corten_of_double(d: cdouble): Value {.importc.}
proc corten_of_bool(b: bool): Value {.importc.}
proc corten_of_string(s: cstring): Value {.importc.}
proc corten_of_ints(p: ptr int64, n: csize_t): Value {.importc.}
proc corten_of_doubles(p: ptr cdouble, n: csize_t): Value {.importc.}
proc corten_of_bools(p: ptr bool, n: csize_t): Value {.importc.}
proc corten_of_tensors(p: ptr Handle, n: csize_t): Value {.importc.}
proc corten_of_dtype(d: int32): Value {.importc.}
proc corten_of_layout(d: int32): Value {.importc.}
proc corten_of_memory_format(d: int32): Value {.importc.}
proc corten_of_device(d: Device): Value {.importc.}

{.pop.}

type
  CortenError* = object of CatchableError
  Tensor* = object ## A reference to a tensor.
    handle*: Handle
  Scalar* = distinct Value ## A number of any kind.
  DType* = enum
    kUint8, kInt8, kInt16, kInt32, kInt64, kFloat16, kFloat32, kFloat64, kComplex32, kComplex64, kComplex128, kBool,
    kBfloat16 = 15
  Layout* = enum strided
  MemoryFormat* = enum contiguousFormat, preserveFormat, channelsLast, channelsLast3d

proc `=destroy`(t: var Tensor) =
  if t.handle != nil: corten_tensor_free(t.handle)

proc `=copy`(t: var Tensor, other: Tensor) =
  if t.handle != other.handle:
    `=destroy`(t)
    t.handle = corten_tensor_new_reference(other.handle)

proc check(status: int32) =
  if status != 0: raise newException(CortenError, $corten_last_error())

converter toScalar*(i: int): Scalar = Scalar(corten_of_int(i))
converter toScalar*(d: float): Scalar = Scalar(corten_of_double(d))
converter toScalar*(b: bool): Scalar = Scalar(corten_of_bool(b))

proc toValue(t: Tensor): Value = corten_of_tensor(t.handle)
proc toValue(i: int): Value = corten_of_int(i)
proc toValue(d: float): Value = corten_of_double(d)
proc toValue(b: bool): Value = corten_of_bool(b)
proc toValue(s: Scalar): Value = Value(s)
proc toValue(s: string): Value = corten_of_string(s.cstring)
proc toValue(d: DType): Value = corten_of_dtype(d.ord.int32)
proc toValue(d: Layout): Value = corten_of_layout(d.ord.int32)
proc toValue(d: MemoryFormat): Value = corten_of_memory_format(d.ord.int32)
proc toValue(d: Device): Value = corten_of_device(d)

template address[T](list: openArray[T], kind: type): untyped =
  if list.len == 0: nil else: cast[ptr kind](unsafeAddr list[0])

proc toValue(list: openArray[int]): Value = corten_of_ints(address(list, int64), list.len.csize_t)
proc toValue(list: openArray[float]): Value = corten_of_doubles(address(list, cdouble), list.len.csize_t)
proc toValue(list: openArray[bool]): Value = corten_of_bools(address(list, bool), list.len.csize_t)
proc toValue(list: openArray[Tensor]): Value = corten_of_tensors(address(list, Handle), list.len.csize_t)
proc toValue(t: Option[Tensor]): Value = (if t.isSome: corten_of_tensor(t.unsafeGet.handle) else: corten_none())
proc toValue[T: not Tensor](x: Option[T]): Value = (if x.isSome: toValue(x.unsafeGet) else: corten_none())

proc call(name, overload: cstring, inputs: openArray[Value], outputs: var openArray[Value]) =
  var count = outputs.len.csize_t
  let place = if outputs.len == 0: nil else: addr outputs[0]
  check corten_call(name, overload, address(inputs, Value), inputs.len.csize_t, place, addr count)

proc fromValue(v: var Value, t: var Tensor) = t.handle = v.u.tensor
proc fromValue(v: var Value, i: var int) = i = v.u.integer.int
proc fromValue(v: var Value, d: var float) = d = v.u.number
proc fromValue(v: var Value, b: var bool) = b = v.u.boolean
proc fromValue(v: var Value, s: var Scalar) = s = Scalar(v)
proc fromValue(v: var Value, list: var seq[Tensor]) =
  for i in 0 ..< v.length.int: list.add Tensor(handle: corten_tensor_new_reference(v.u.tensors[i]))
  corten_values_free(addr v, 1)

proc manualSeed*(seed: int) = check corten_manual_seed(seed.uint64)

proc tensor*(elements: openArray[float32], sizes: openArray[int]): Tensor =
  ## A tensor with a copy of the elements.
  check corten_tensor_from_copy(unsafeAddr elements[0], address(sizes, int64), sizes.len.csize_t, kFloat32.ord.int32,
                                addr result.handle)

proc sizes*(t: Tensor): seq[int] =
  result = newSeq[int](corten_tensor_dim(t.handle))
  check corten_tensor_sizes(t.handle, address(result, int64), result.len.csize_t)

proc toSeq*(t: Tensor): seq[float32] =
  ## The elements of a tensor of single precision, in order.
  result = newSeq[float32](corten_tensor_numel(t.handle))
  check corten_tensor_copy_to(t.handle, address(result, pointer), (result.len * 4).csize_t)

proc number*(t: Tensor): float = check corten_tensor_item(t.handle, addr result)
proc requiresGrad*(t: Tensor): Tensor =
  check corten_tensor_set_requires_grad(t.handle, true)
  t
proc backward*(t: Tensor) = check corten_backward(unsafeAddr t.handle, nil, 1, false, false)
proc grad*(t: Tensor): Tensor = check corten_tensor_grad(t.handle, addr result.handle)
proc clearGrad*(t: Tensor) = check corten_tensor_set_grad(t.handle, nil)

template noGrad*(body: untyped) =
  ## Nothing in the block is recorded.
  let was = corten_set_grad_enabled(false)
  try: body
  finally: discard corten_set_grad_enabled(was)
