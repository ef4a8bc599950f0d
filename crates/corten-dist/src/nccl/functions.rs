//! NCCL's functions as Rust calls them, and the structures that they take.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;

use super::library::{Nccl, Symbols, loaded};
use crate::error::{DistError, Result};

/// A communicator of the library.
pub(super) type Comm = *mut c_void;

/// Success.
pub(super) const SUCCESS: c_int = 0;
/// The call goes on on a thread of the library; the communicator says when it has ended.
pub(super) const IN_PROGRESS: c_int = 7;
/// The color of ranks that take part in a split without being in a part.
pub(super) const NO_COLOR: c_int = -1;
/// A setting that the library decides.
pub(super) const UNDEFINED: c_int = c_int::MIN;

/// What the ranks of a communicator have in common before they meet.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct UniqueId(pub(super) [u8; 128]);

/// `ncclConfig_t` as of 2.18. Later libraries know by its size and version that the rest is not there.
#[repr(C)]
pub(super) struct Config {
    size: usize,
    magic: c_uint,
    version: c_uint,
    pub(super) blocking: c_int,
    pub(super) cga_cluster_size: c_int,
    pub(super) min_ctas: c_int,
    pub(super) max_ctas: c_int,
    pub(super) net_name: *const c_char,
    pub(super) split_share: c_int,
}

impl Config {
    /// Settings that the library decides, for a library of this version.
    pub(super) fn new(version: (u32, u32, u32)) -> Self {
        let (major, minor, patch) = version.min((2, 18, 0));
        Self {
            size: size_of::<Self>(),
            magic: 0xcafe_beef,
            version: major * 10_000 + minor * 100 + patch,
            blocking: UNDEFINED,
            cga_cluster_size: UNDEFINED,
            min_ctas: UNDEFINED,
            max_ctas: UNDEFINED,
            net_name: std::ptr::null(),
            split_share: UNDEFINED,
        }
    }
}

macro_rules! functions {
    ($($(#[$needed:ident])? $field:ident $symbol:literal ($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions; those that older libraries lack are `None`.
        pub(super) struct Functions {
            $(pub(super) $field: functions!(@type $($needed)? ($($argument),*) -> $result),)*
            /// Which library they are of.
            pub(super) library: Nccl,
        }

        impl Functions {
            fn of(library: Nccl, symbols: Symbols) -> Result<Self> {
                $(
                    let address = symbols.get($symbol);
                    // SAFETY: NCCL's function of this name has this type in every version of interface 2;
                    // a null address is `None`.
                    let $field = unsafe {
                        std::mem::transmute::<
                            *mut c_void,
                            Option<unsafe extern "C" fn($($argument),*) -> $result>,
                        >(address)
                    };
                    let $field = functions!(@take $($needed)? $field, $symbol, library);
                )*
                Ok(Self { $($field,)* library })
            }
        }
    };
    (@type needed ($($argument:ty),*) -> $result:ty) => {
        unsafe extern "C" fn($($argument),*) -> $result
    };
    (@type ($($argument:ty),*) -> $result:ty) => {
        Option<unsafe extern "C" fn($($argument),*) -> $result>
    };
    (@take needed $field:ident, $symbol:literal, $library:ident) => {
        $field.ok_or_else(|| lacks(&$library, $symbol))?
    };
    (@take $field:ident, $symbol:literal, $library:ident) => {
        $field
    };
}

functions! {
    #[needed] get_unique_id c"ncclGetUniqueId" (*mut UniqueId) -> c_int;
    #[needed] get_error_string c"ncclGetErrorString" (c_int) -> *const c_char;
    get_last_error c"ncclGetLastError" (Comm) -> *const c_char;
    #[needed] comm_init_rank c"ncclCommInitRank" (*mut Comm, c_int, UniqueId, c_int) -> c_int;
    comm_init_rank_config c"ncclCommInitRankConfig"
        (*mut Comm, c_int, UniqueId, c_int, *mut Config) -> c_int;
    comm_split c"ncclCommSplit" (Comm, c_int, c_int, *mut Comm, *mut Config) -> c_int;
    comm_finalize c"ncclCommFinalize" (Comm) -> c_int;
    #[needed] comm_destroy c"ncclCommDestroy" (Comm) -> c_int;
    #[needed] comm_abort c"ncclCommAbort" (Comm) -> c_int;
    #[needed] comm_get_async_error c"ncclCommGetAsyncError" (Comm, *mut c_int) -> c_int;
    #[needed] all_reduce c"ncclAllReduce"
        (*const c_void, *mut c_void, usize, c_int, c_int, Comm, *mut c_void) -> c_int;
    #[needed] broadcast c"ncclBroadcast"
        (*const c_void, *mut c_void, usize, c_int, c_int, Comm, *mut c_void) -> c_int;
    #[needed] reduce c"ncclReduce"
        (*const c_void, *mut c_void, usize, c_int, c_int, c_int, Comm, *mut c_void) -> c_int;
    #[needed] all_gather c"ncclAllGather"
        (*const c_void, *mut c_void, usize, c_int, Comm, *mut c_void) -> c_int;
    #[needed] reduce_scatter c"ncclReduceScatter"
        (*const c_void, *mut c_void, usize, c_int, c_int, Comm, *mut c_void) -> c_int;
    #[needed] send c"ncclSend" (*const c_void, usize, c_int, c_int, Comm, *mut c_void) -> c_int;
    #[needed] recv c"ncclRecv" (*mut c_void, usize, c_int, c_int, Comm, *mut c_void) -> c_int;
    #[needed] group_start c"ncclGroupStart" () -> c_int;
    #[needed] group_end c"ncclGroupEnd" () -> c_int;
    red_op_create_pre_mul_sum c"ncclRedOpCreatePreMulSum"
        (*mut c_int, *const c_void, c_int, c_int, Comm) -> c_int;
    red_op_destroy c"ncclRedOpDestroy" (c_int, Comm) -> c_int;
}

fn lacks(library: &Nccl, name: &CStr) -> DistError {
    DistError::runtime(format!(
        "{} is too old for the back end nccl: it has no {}; `pip install nvidia-nccl-cu13` brings a newer one",
        library.path.display(),
        name.to_string_lossy()
    ))
}

/// The functions of the library that [`super::find`] finds. It is loaded once.
///
/// # Errors
/// `Runtime` where there is none, or a very old one.
pub(super) fn functions(folders: &[PathBuf]) -> Result<&'static Functions> {
    static FUNCTIONS: OnceLock<Functions> = OnceLock::new();
    if let Some(functions) = FUNCTIONS.get() {
        return Ok(functions);
    }
    let (library, symbols) = loaded(folders)?;
    let functions = Functions::of(library, symbols)?;
    Ok(FUNCTIONS.get_or_init(|| functions))
}

impl Functions {
    /// What a status means.
    pub(super) fn words(&self, status: c_int) -> String {
        // SAFETY: the library gives a C string that is never freed, for any number.
        let text = unsafe { (self.get_error_string)(status) };
        let last = self.get_last_error.map_or(std::ptr::null(), |last| {
            // SAFETY: without a communicator the library gives what it noted last, as a C string that stays.
            unsafe { last(std::ptr::null_mut()) }
        });
        let read = |text: *const c_char| match text.is_null() {
            true => String::new(),
            // SAFETY: not null, and a C string.
            false => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
        };
        let (text, last) = (read(text), read(last));
        let (major, minor, patch) = self.library.version;
        let last = if last.is_empty() { last } else { format!(" Last error: {last}") };
        format!("{text} (NCCL {major}.{minor}.{patch}, error {status}).{last}")
    }
}
