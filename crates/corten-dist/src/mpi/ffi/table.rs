//! The functions of MPI that are called here, and its constants in three dialects.
//!
//! Handles of MPICH (and of Intel MPI and MVAPICH, which share its binary interface) are of type
//! `int`; those of Open MPI and of the standard binary interface of MPI 5 are pointers, in Open MPI
//! to variables of the library, in the standard to small numbers. What differs is in [`Constants`],
//! whose values are those of the libraries' `mpi.h`.

use std::ffi::{CStr, c_int, c_void};

use super::loader::Opened;
use crate::Result;

/// What a library takes for a handle: of a communicator, datatype, operation, request or group.
pub(in crate::mpi) trait RawHandle: Copy + 'static {
    /// The handle with this number, or at this address.
    fn of(word: usize) -> Self;
}

impl RawHandle for c_int {
    fn of(word: usize) -> Self {
        (word as u32).cast_signed()
    }
}

impl RawHandle for *mut c_void {
    fn of(word: usize) -> Self {
        word as Self
    }
}

/// What MPI writes about a message. The longest of the libraries' structures has 32 bytes.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Status(pub(super) [c_int; 16]);

/// What MPI calls to reduce: elements of the first are combined with those of the second, into which
/// the results go; the third is how many there are, the last a datatype, which is not looked at.
pub(super) type UserFunction =
    unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut c_void);

/// A name that ends with a zero, as a C string.
const fn c_name(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}

macro_rules! functions {
    ($h:ident; $($name:ident($($argument:ty),* $(,)?);)+) => {
        /// The functions of a library whose handles are `H`. They return an error code, 0 for success.
        #[allow(non_snake_case, reason = "the names of MPI")]
        pub(super) struct Functions<$h> {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> c_int,)+
        }

        impl<$h: RawHandle> Functions<$h> {
            /// Looks all functions up.
            ///
            /// # Errors
            /// `Backend` with the first that the library does not export.
            pub(super) fn of(library: &Opened) -> Result<Self> {
                Ok(Self {
                    $($name: {
                        let symbol = library.symbol(c_name(concat!(stringify!($name), "\0")))?;
                        // SAFETY: the function has this signature by the MPI standard, where the
                        // library's handles are `H`, which whoever chose the dialect has found out.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument),*) -> c_int,
                            >(symbol)
                        }
                    },)+
                })
            }
        }
    };
}

functions! { H;
    MPI_Get_library_version(*mut u8, *mut c_int);
    MPI_Initialized(*mut c_int);
    MPI_Finalized(*mut c_int);
    MPI_Init_thread(*mut c_int, *mut c_void, c_int, *mut c_int);
    MPI_Query_thread(*mut c_int);
    MPI_Finalize();
    MPI_Error_string(c_int, *mut u8, *mut c_int);
    MPI_Comm_rank(H, *mut c_int);
    MPI_Comm_size(H, *mut c_int);
    MPI_Comm_dup(H, *mut H);
    MPI_Comm_group(H, *mut H);
    MPI_Comm_create_group(H, H, c_int, *mut H);
    MPI_Comm_free(*mut H);
    MPI_Comm_set_errhandler(H, H);
    MPI_Comm_get_attr(H, c_int, *mut *mut c_int, *mut c_int);
    MPI_Group_incl(H, c_int, *const c_int, *mut H);
    MPI_Group_free(*mut H);
    MPI_Op_create(UserFunction, c_int, *mut H);
    MPI_Test(*mut H, *mut c_int, *mut Status);
    MPI_Get_count(*const Status, H, *mut c_int);
    MPI_Isend(*const c_void, c_int, H, c_int, c_int, H, *mut H);
    MPI_Irecv(*mut c_void, c_int, H, c_int, c_int, H, *mut H);
    MPI_Ibarrier(H, *mut H);
    MPI_Ibcast(*mut c_void, c_int, H, c_int, H, *mut H);
    MPI_Iallreduce(*const c_void, *mut c_void, c_int, H, H, H, *mut H);
    MPI_Ireduce(*const c_void, *mut c_void, c_int, H, H, c_int, H, *mut H);
    MPI_Ireduce_scatter_block(*const c_void, *mut c_void, c_int, H, H, H, *mut H);
    MPI_Iallgather(*const c_void, c_int, H, *mut c_void, c_int, H, H, *mut H);
    MPI_Igather(*const c_void, c_int, H, *mut c_void, c_int, H, c_int, H, *mut H);
    MPI_Iscatter(*const c_void, c_int, H, *mut c_void, c_int, H, c_int, H, *mut H);
}

/// Which binary interface a library has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mpi) enum Dialect {
    /// Open MPI: handles are the addresses of variables.
    OpenMpi,
    /// MPICH, Intel MPI, MVAPICH, Cray MPI: handles are of type `int`.
    Mpich,
    /// The standard binary interface of MPI 5, `libmpi_abi`.
    Standard,
}

/// A dtype of MPI that a reduction or a message has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of MPI")]
pub(in crate::mpi) enum Datatype {
    Byte,
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Float,
    Double,
    FloatComplex,
    DoubleComplex,
}

/// What has another value in each dialect.
pub(super) struct Constants<H> {
    pub(super) world: H,
    /// In the order of [`Datatype`].
    pub(super) datatypes: [H; 13],
    /// In the order of [`crate::reduction::Combination`].
    pub(super) operations: [H; 7],
    pub(super) request_null: H,
    pub(super) errors_return: H,
    pub(super) in_place: *mut c_void,
    pub(super) any_source: c_int,
    pub(super) tag_ub: c_int,
    pub(super) thread_funneled: c_int,
    pub(super) thread_multiple: c_int,
    /// Where the sender stands in a [`Status`].
    pub(super) status_source: usize,
}

/// The numbers of MPICH's `mpi.h`.
pub(super) fn mpich() -> Constants<c_int> {
    let handle = |word: u32| word.cast_signed();
    Constants {
        world: handle(0x4400_0000),
        datatypes: [
            0x4c00_010d,
            0x4c00_0137,
            0x4c00_0238,
            0x4c00_0439,
            0x4c00_083a,
            0x4c00_013b,
            0x4c00_023c,
            0x4c00_043d,
            0x4c00_083e,
            0x4c00_040a,
            0x4c00_080b,
            0x4c00_0840,
            0x4c00_1041,
        ]
        .map(handle),
        operations: [
            0x5800_0003,
            0x5800_0004,
            0x5800_0002,
            0x5800_0001,
            0x5800_0006,
            0x5800_0008,
            0x5800_000a,
        ]
        .map(handle),
        request_null: handle(0x2c00_0000),
        errors_return: handle(0x5400_0001),
        in_place: std::ptr::without_provenance_mut(usize::MAX),
        any_source: -2,
        tag_ub: 0x6440_0001,
        thread_funneled: 1,
        thread_multiple: 3,
        status_source: 2,
    }
}

/// The numbers of the standard's `mpi_abi.h`.
pub(super) fn standard() -> Constants<*mut c_void> {
    let handle = std::ptr::without_provenance_mut::<c_void>;
    Constants {
        world: handle(0x101),
        datatypes: [
            0x247, 0x240, 0x248, 0x250, 0x258, 0x241, 0x249, 0x251, 0x259, 0x210, 0x214, 0x212,
            0x216,
        ]
        .map(handle),
        operations: [0x21, 0x24, 0x22, 0x23, 0x28, 0x29, 0x2a].map(handle),
        request_null: handle(0x180),
        errors_return: handle(0x143),
        in_place: handle(1),
        any_source: -1,
        tag_ub: 501,
        thread_funneled: 1024,
        thread_multiple: 4096,
        status_source: 0,
    }
}

/// The addresses of Open MPI's variables, and the numbers of its `mpi.h`.
///
/// # Errors
/// `Backend` where the library does not export a variable.
pub(super) fn open_mpi(library: &Opened) -> Result<Constants<*mut c_void>> {
    let all = |names: &[&'static CStr]| {
        names.iter().map(|name| library.symbol(name)).collect::<Result<Vec<_>>>()
    };
    let datatypes = all(&[
        c"ompi_mpi_byte",
        c"ompi_mpi_int8_t",
        c"ompi_mpi_int16_t",
        c"ompi_mpi_int32_t",
        c"ompi_mpi_int64_t",
        c"ompi_mpi_uint8_t",
        c"ompi_mpi_uint16_t",
        c"ompi_mpi_uint32_t",
        c"ompi_mpi_uint64_t",
        c"ompi_mpi_float",
        c"ompi_mpi_double",
        c"ompi_mpi_c_float_complex",
        c"ompi_mpi_c_double_complex",
    ])?;
    let operations = all(&[
        c"ompi_mpi_op_sum",
        c"ompi_mpi_op_prod",
        c"ompi_mpi_op_min",
        c"ompi_mpi_op_max",
        c"ompi_mpi_op_band",
        c"ompi_mpi_op_bor",
        c"ompi_mpi_op_bxor",
    ])?;
    Ok(Constants {
        world: library.symbol(c"ompi_mpi_comm_world")?,
        datatypes: std::array::from_fn(|index| datatypes[index]),
        operations: std::array::from_fn(|index| operations[index]),
        request_null: library.symbol(c"ompi_request_null")?,
        errors_return: library.symbol(c"ompi_mpi_errors_return")?,
        in_place: std::ptr::without_provenance_mut(1),
        any_source: -1,
        tag_ub: 0,
        thread_funneled: 1,
        thread_multiple: 3,
        status_source: 0,
    })
}
