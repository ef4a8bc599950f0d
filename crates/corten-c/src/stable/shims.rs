//! Operators as functions of C: `aoti_torch_cpu_*` and a few others.
//!
//! `stable.txt` has their names: `aoti_torch_cpu_add_Scalar` is `add.Scalar` of `aten`, and so is what stands behind
//! `aoti_torch_aten_` and, for a few, `aoti_torch_`. Their parameters follow from the schemas. So there is no function for each: the entries are a few instructions that
//! note which operator is meant and what lies in the registers, and one function reads the arguments as the schema has
//! them, as a function of variable arguments would. Only x86-64 has them, under System V's calling convention.
//!
//! | type | parameters |
//! |---|---|
//! | `Tensor`, `Generator` | a handle, which is lent |
//! | `int` | `int64_t` |
//! | `bool`, `ScalarType`, `Layout`, `MemoryFormat` | `int32_t` |
//! | `float`, `Scalar` | `double` |
//! | `str` | `const char *` |
//! | `Device` | `int32_t` for the type and `int32_t` for the index |
//! | `T?` | a pointer to the parameter, which may be null; the index of a device has none |
//! | `T[]` | a pointer to the elements and `int64_t` for their number |
//! | results | a pointer for each, except for operators that write to their arguments, which come first if named `out` |

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod entries;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(super) use entries::functions;

/// The functions by name.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub(super) fn functions() -> impl Iterator<Item = (String, u64)> {
    std::iter::empty()
}
