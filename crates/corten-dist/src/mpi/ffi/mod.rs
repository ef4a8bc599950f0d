//! A library of MPI, and the calls that run in it. All `unsafe` of the engine is in this folder.

mod loader;
mod process;
mod reduce;
mod reduction;
mod table;

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr;

use corten_core::DType;

pub(in crate::mpi) use loader::Opened;
pub(in crate::mpi) use process::{at_exit, host_name};
pub(in crate::mpi) use reduction::Reduction;
pub(in crate::mpi) use table::RawHandle;
use table::{Constants, Functions, Status};
use table::{Datatype, Dialect};

use crate::buffer::Buffer;
use crate::reduction::Combination;
use crate::{DistError, Result};

/// A started library. One thread at a time calls it, and where [`Mpi::is_shared`] says no, only the one that
/// started it.
pub(in crate::mpi) struct Mpi<H> {
    functions: Functions<H>,
    constants: Constants<H>,
    /// Reductions that MPI does not have, made when first needed.
    operations: RefCell<HashMap<(DType, Combination), H>>,
    /// Whether this started the library, and so has to end it.
    is_owner: bool,
    /// Whether any thread may call it.
    is_shared: bool,
}

// SAFETY: handles name objects of the library, which belong to no thread. One thread at a time calls it, and
// others than the one that started it only where it was granted that several may.
unsafe impl<H> Send for Mpi<H> {}

/// What is done with the opened library, whichever handles it has.
pub(in crate::mpi) trait Task {
    /// What comes out.
    type Output;

    /// Does it.
    fn run<H: RawHandle>(self, mpi: Mpi<H>) -> Self::Output;
}

/// Starts the library, unless the program has, and runs `task` with it.
///
/// # Errors
/// `Backend` where functions are missing, or the library does not start.
pub(in crate::mpi) fn with_library<T: Task>(library: &Opened, task: T) -> Result<T::Output> {
    Ok(match dialect(library) {
        Dialect::OpenMpi => {
            task.run(Mpi::start(Functions::of(library)?, table::open_mpi(library)?)?)
        }
        Dialect::Mpich => task.run(Mpi::start(Functions::of(library)?, table::mpich())?),
        Dialect::Standard => task.run(Mpi::start(Functions::of(library)?, table::standard())?),
    })
}

/// Which binary interface a library has. The standard one goes by the file's name, since the library may
/// bring the other one with it.
fn dialect(library: &Opened) -> Dialect {
    if library.name.contains("mpi_abi") {
        Dialect::Standard
    } else if library.find(c"ompi_mpi_comm_world").is_some() {
        Dialect::OpenMpi
    } else {
        Dialect::Mpich
    }
}

/// A communicator. Given up with [`Mpi::free`], or never.
#[derive(Clone, Copy)]
pub(in crate::mpi) struct Communicator<H>(H);

// SAFETY: as for the library.
unsafe impl<H> Send for Communicator<H> {}

/// A call on its way. Memory of one that has not ended is never freed: MPI may still write there.
pub(in crate::mpi) struct Request<H> {
    handle: H,
    buffers: ManuallyDrop<[Option<Buffer>; 2]>,
    is_done: bool,
}

// SAFETY: as for the library.
unsafe impl<H> Send for Request<H> {}

impl<H> Drop for Request<H> {
    fn drop(&mut self) {
        if self.is_done {
            // SAFETY: the buffers are dropped here alone, once.
            unsafe { ManuallyDrop::drop(&mut self.buffers) };
        }
    }
}

/// What is known of a call that has ended.
#[derive(Clone, Copy, Debug)]
pub(in crate::mpi) struct Received {
    /// The sender; only for receiving calls.
    pub(in crate::mpi) source: usize,
    /// How many bytes came; only for receiving calls.
    pub(in crate::mpi) bytes: usize,
}

impl<H: RawHandle> Mpi<H> {
    fn start(functions: Functions<H>, constants: Constants<H>) -> Result<Self> {
        let mut mpi = Self {
            functions,
            constants,
            operations: RefCell::default(),
            is_owner: false,
            is_shared: true,
        };
        let (mut started, mut ended, mut level) = (0, 0, 0);
        // SAFETY: these two may be called at any time, and write a number each.
        unsafe {
            mpi.check("MPI_Initialized", (mpi.functions.MPI_Initialized)(&mut started))?;
            mpi.check("MPI_Finalized", (mpi.functions.MPI_Finalized)(&mut ended))?;
        }
        if ended != 0 {
            return Err(DistError::backend(
                "MPI was ended in this process, and cannot start again",
            ));
        }
        if started != 0 {
            // SAFETY: MPI has been started and not been ended.
            let code = unsafe { (mpi.functions.MPI_Query_thread)(&mut level) };
            mpi.check("MPI_Query_thread", code)?;
            if level < mpi.constants.thread_multiple {
                return Err(DistError::backend(
                    "the program has started MPI without MPI_THREAD_MULTIPLE, but the mpi back end calls it \
                     from a thread of its own; mpi4py asks for it by default (mpi4py.rc.thread_level)",
                ));
            }
            return Ok(mpi);
        }
        let wanted = mpi.constants.thread_multiple;
        // SAFETY: MPI has not been started; without arguments it takes those of the environment.
        let code = unsafe {
            (mpi.functions.MPI_Init_thread)(ptr::null_mut(), ptr::null_mut(), wanted, &mut level)
        };
        mpi.check("MPI_Init_thread", code)?;
        (mpi.is_owner, mpi.is_shared) = (true, level >= wanted);
        if level < mpi.constants.thread_funneled {
            return Err(DistError::backend("this MPI cannot be called from a thread of a program"));
        }
        Ok(mpi)
    }

    /// Turns a code that a function returned into an error.
    fn check(&self, name: &str, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let (mut text, mut len) = ([0_u8; 1024], 0);
        // SAFETY: a message has 512 characters at most in every library; the function may be called for
        // any code.
        let told = unsafe { (self.functions.MPI_Error_string)(code, text.as_mut_ptr(), &mut len) };
        let len = if told == 0 { (len.max(0) as usize).min(text.len()) } else { 0 };
        let text = String::from_utf8_lossy(&text[..len]);
        let text = text.trim_matches(['\0', '\n', ' ']);
        Err(DistError::backend(format!("{name} failed with code {code}: {text}")))
    }

    /// The name and version of the library.
    pub(in crate::mpi) fn version(&self) -> String {
        // The standard allows 8192 characters.
        let (mut text, mut len) = (vec![0_u8; 1 << 14], 0);
        // SAFETY: the buffer has room for the longest text.
        let code = unsafe { (self.functions.MPI_Get_library_version)(text.as_mut_ptr(), &mut len) };
        let len = if code == 0 { (len.max(0) as usize).min(text.len()) } else { 0 };
        let text = String::from_utf8_lossy(&text[..len]).into_owned();
        text.lines().next().unwrap_or_default().trim_matches(['\0', ' ']).to_owned()
    }

    /// Whether any thread may call it, one at a time, and not only the one that started it.
    pub(in crate::mpi) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Ends the library, if this started it, on the thread that did. Waits until all ranks do so.
    pub(in crate::mpi) fn finish(self) {
        let mut ended = 0;
        // SAFETY: may be called at any time.
        let code = unsafe { (self.functions.MPI_Finalized)(&mut ended) };
        if self.is_owner && code == 0 && ended == 0 {
            // SAFETY: this started MPI on this thread, and makes no call afterwards. What it returns changes
            // nothing any more.
            let _ = unsafe { (self.functions.MPI_Finalize)() };
        }
    }

    /// All ranks of the program.
    pub(in crate::mpi) fn world(&self) -> Communicator<H> {
        Communicator(self.constants.world)
    }

    /// This process's number, and how many there are.
    pub(in crate::mpi) fn rank_and_size(&self, of: Communicator<H>) -> Result<(usize, usize)> {
        let (mut rank, mut size) = (0, 0);
        // SAFETY: the communicator is valid, and each call writes a number.
        unsafe {
            self.check("MPI_Comm_rank", (self.functions.MPI_Comm_rank)(of.0, &mut rank))?;
            self.check("MPI_Comm_size", (self.functions.MPI_Comm_size)(of.0, &mut size))?;
        }
        Ok((rank.max(0) as usize, size.max(0) as usize))
    }

    /// A communicator of the same ranks whose calls do not meet those of this one. All ranks call this.
    pub(in crate::mpi) fn duplicate(&self, of: Communicator<H>) -> Result<Communicator<H>> {
        let mut made = H::of(0);
        // SAFETY: the communicator is valid; the call writes a handle.
        self.check("MPI_Comm_dup", unsafe { (self.functions.MPI_Comm_dup)(of.0, &mut made) })?;
        self.return_errors(Communicator(made))
    }

    /// A communicator of some ranks, all of which call this with the same list and tag, and no others.
    pub(in crate::mpi) fn subset(
        &self,
        of: Communicator<H>,
        ranks: &[usize],
        tag: i32,
    ) -> Result<Communicator<H>> {
        let ranks = ranks.iter().map(|&rank| count(rank)).collect::<Result<Vec<_>>>()?;
        let len = count(ranks.len())?;
        let (mut all, mut some, mut made) = (H::of(0), H::of(0), H::of(0));
        // SAFETY: the communicator is valid, the list has `len` numbers, and each call writes a handle that
        // the next ones take.
        unsafe {
            let mpi = &self.functions;
            self.check("MPI_Comm_group", (mpi.MPI_Comm_group)(of.0, &mut all))?;
            let code = (mpi.MPI_Group_incl)(all, len, ranks.as_ptr(), &mut some);
            self.check("MPI_Group_incl", code)?;
            let code = (mpi.MPI_Comm_create_group)(of.0, some, tag, &mut made);
            self.check("MPI_Comm_create_group", code)?;
            self.check("MPI_Group_free", (mpi.MPI_Group_free)(&mut some))?;
            self.check("MPI_Group_free", (mpi.MPI_Group_free)(&mut all))?;
        }
        self.return_errors(Communicator(made))
    }

    /// Has the library report errors of a communicator instead of ending the process.
    fn return_errors(&self, of: Communicator<H>) -> Result<Communicator<H>> {
        // SAFETY: both handles are valid.
        let code =
            unsafe { (self.functions.MPI_Comm_set_errhandler)(of.0, self.constants.errors_return) };
        self.check("MPI_Comm_set_errhandler", code)?;
        Ok(of)
    }

    /// Gives a communicator up, on which nothing runs.
    pub(in crate::mpi) fn free(&self, communicator: Communicator<H>) -> Result<()> {
        let mut handle = communicator.0;
        // SAFETY: the communicator is valid; who gives it up does not use it any more.
        self.check("MPI_Comm_free", unsafe { (self.functions.MPI_Comm_free)(&mut handle) })
    }

    /// The largest tag of a message.
    pub(in crate::mpi) fn largest_tag(&self) -> Result<i32> {
        let (mut value, mut found) = (ptr::null_mut(), 0);
        let (world, key) = (self.constants.world, self.constants.tag_ub);
        // SAFETY: the key is one of MPI's own, whose values are numbers that live as long as the library.
        let code =
            unsafe { (self.functions.MPI_Comm_get_attr)(world, key, &mut value, &mut found) };
        self.check("MPI_Comm_get_attr", code)?;
        // The standard promises this many.
        if found == 0 || value.is_null() {
            return Ok(32767);
        }
        // SAFETY: as above.
        Ok(unsafe { *value })
    }

    /// Whether a call has ended; nothing while it has not.
    ///
    /// # Errors
    /// `Backend` with what went wrong; the call has ended, then.
    pub(in crate::mpi) fn test(&self, request: &mut Request<H>) -> Result<Option<Received>> {
        let (mut flag, mut status) = (0, Status::default());
        // SAFETY: the request is one of this library that has not ended, and the status has room for the
        // library's own.
        let code =
            unsafe { (self.functions.MPI_Test)(&mut request.handle, &mut flag, &mut status) };
        self.check("MPI_Test", code)?;
        if flag == 0 {
            return Ok(None);
        }
        request.is_done = true;
        let mut bytes = 0;
        // SAFETY: the status was filled by the call above.
        let code = unsafe {
            (self.functions.MPI_Get_count)(&status, self.datatype(Datatype::Byte), &mut bytes)
        };
        let source = status.0[self.constants.status_source];
        Ok(Some(Received {
            source: source.max(0) as usize,
            bytes: if code == 0 { bytes.max(0) as usize } else { 0 },
        }))
    }

    fn datatype(&self, datatype: Datatype) -> H {
        self.constants.datatypes[datatype as usize]
    }

    fn operation(&self, reduction: Reduction) -> Result<H> {
        let (dtype, combination) = (reduction.dtype, reduction.combination);
        let Some(function) = reduce::user_function(dtype, combination) else {
            return Ok(self.constants.operations[combination as usize]);
        };
        if let Some(&made) = self.operations.borrow().get(&(dtype, combination)) {
            return Ok(made);
        }
        let mut made = H::of(0);
        // SAFETY: the function takes what MPI gives it, and commutes.
        let code = unsafe { (self.functions.MPI_Op_create)(function, 1, &mut made) };
        self.check("MPI_Op_create", code)?;
        self.operations.borrow_mut().insert((dtype, combination), made);
        Ok(made)
    }

    /// Runs a function that starts a call.
    fn begin(
        &self,
        name: &str,
        buffers: [Option<&Buffer>; 2],
        start: impl FnOnce(&Functions<H>, &mut H) -> c_int,
    ) -> Result<Request<H>> {
        let mut handle = self.constants.request_null;
        self.check(name, start(&self.functions, &mut handle))?;
        let buffers = ManuallyDrop::new(buffers.map(|buffer| buffer.cloned()));
        Ok(Request { handle, buffers, is_done: false })
    }

    /// Sends bytes.
    pub(in crate::mpi) fn send(
        &self,
        buffer: &Buffer,
        (to, tag): (usize, i32),
        comm: Communicator<H>,
    ) -> Result<Request<H>> {
        let (len, to) = (count(buffer.nbytes())?, count(to)?);
        let byte = self.datatype(Datatype::Byte);
        // SAFETY: the request keeps the `len` bytes of the buffer until the call has ended.
        self.begin("MPI_Isend", [Some(buffer), None], |mpi, request| unsafe {
            (mpi.MPI_Isend)(buffer.pointer().cast(), len, byte, to, tag, comm.0, request)
        })
    }

    /// Receives bytes, from any rank where none is given.
    pub(in crate::mpi) fn receive(
        &self,
        buffer: &Buffer,
        (from, tag): (Option<usize>, i32),
        comm: Communicator<H>,
    ) -> Result<Request<H>> {
        let from = from.map_or(Ok(self.constants.any_source), count)?;
        let (len, byte) = (count(buffer.nbytes())?, self.datatype(Datatype::Byte));
        // SAFETY: the request keeps the `len` bytes of the buffer until the call has ended.
        self.begin("MPI_Irecv", [Some(buffer), None], |mpi, request| unsafe {
            (mpi.MPI_Irecv)(buffer.pointer().cast(), len, byte, from, tag, comm.0, request)
        })
    }

    /// Ends when all ranks have begun it.
    pub(in crate::mpi) fn barrier(&self, comm: Communicator<H>) -> Result<Request<H>> {
        // SAFETY: the communicator is valid.
        self.begin("MPI_Ibarrier", [None, None], |mpi, request| unsafe {
            (mpi.MPI_Ibarrier)(comm.0, request)
        })
    }

    /// Gives the bytes of `root` to all.
    pub(in crate::mpi) fn broadcast(
        &self,
        buffer: &Buffer,
        root: usize,
        comm: Communicator<H>,
    ) -> Result<Request<H>> {
        let (len, root) = (count(buffer.nbytes())?, count(root)?);
        let byte = self.datatype(Datatype::Byte);
        // SAFETY: the request keeps the `len` bytes of the buffer until the call has ended.
        self.begin("MPI_Ibcast", [Some(buffer), None], |mpi, request| unsafe {
            (mpi.MPI_Ibcast)(buffer.pointer().cast(), len, byte, root, comm.0, request)
        })
    }

    /// Reduces elements on all ranks, in place where no input is given.
    pub(in crate::mpi) fn all_reduce(
        &self,
        input: Option<&Buffer>,
        output: &Buffer,
        reduction: Reduction,
        comm: Communicator<H>,
    ) -> Result<Request<H>> {
        let len = elements(output, reduction)?;
        let send = self.or_in_place(input, output.nbytes())?;
        let (datatype, op) = (self.datatype(reduction.datatype), self.operation(reduction)?);
        // SAFETY: the request keeps both buffers, each of `len` elements, until the call has ended.
        self.begin("MPI_Iallreduce", [input, Some(output)], |mpi, request| unsafe {
            let recv = output.pointer().cast();
            (mpi.MPI_Iallreduce)(send, recv, len, datatype, op, comm.0, request)
        })
    }

    /// Reduces elements on `root`. `root` gives no input, or one beside its output; the others an input
    /// alone.
    pub(in crate::mpi) fn reduce(
        &self,
        input: Option<&Buffer>,
        output: Option<&Buffer>,
        reduction: Reduction,
        root: usize,
        comm: Communicator<H>,
    ) -> Result<Request<H>> {
        let Some(given) = output.or(input) else { return Err(no_buffer("MPI_Ireduce")) };
        let (len, root) = (elements(given, reduction)?, count(root)?);
        let send = self.or_in_place(input, given.nbytes())?;
        let recv = output.map_or(ptr::null_mut(), Buffer::pointer).cast();
        let (datatype, op) = (self.datatype(reduction.datatype), self.operation(reduction)?);
        // SAFETY: the request keeps both buffers, each of `len` elements, until the call has ended. Ranks
        // but `root` need no output.
        self.begin("MPI_Ireduce", [input, output], |mpi, request| unsafe {
            (mpi.MPI_Ireduce)(send, recv, len, datatype, op, root, comm.0, request)
        })
    }

    /// Reduces elements and gives each rank its part. The input has as many times the elements of the
    /// output as there are ranks.
    pub(in crate::mpi) fn reduce_scatter(
        &self,
        input: &Buffer,
        output: &Buffer,
        reduction: Reduction,
        comm: Communicator<H>,
    ) -> Result<Request<H>> {
        let len = elements(output, reduction)?;
        self.check_times(input, output, comm)?;
        let (datatype, op) = (self.datatype(reduction.datatype), self.operation(reduction)?);
        // SAFETY: the request keeps the `len` elements of the output, and the input with as many for each
        // rank, until the call has ended.
        self.begin(
            "MPI_Ireduce_scatter_block",
            [Some(input), Some(output)],
            |mpi, request| unsafe {
                let (send, recv) = (input.pointer().cast(), output.pointer().cast());
                (mpi.MPI_Ireduce_scatter_block)(send, recv, len, datatype, op, comm.0, request)
            },
        )
    }

    /// Gives the bytes of each rank to all, one after another; without an input each rank's are in their
    /// place of the output.
    pub(in crate::mpi) fn all_gather(
        &self,
        input: Option<&Buffer>,
        output: &Buffer,
        comm: Communicator<H>,
    ) -> Result<Request<H>> {
        let (_, size) = self.rank_and_size(comm)?;
        let bytes = output.nbytes() / size.max(1);
        let send = self.or_in_place(input, bytes)?;
        let (len, byte) = (count(bytes)?, self.datatype(Datatype::Byte));
        // SAFETY: the request keeps the `len` bytes of the input, and the output with as many for each rank,
        // until the call has ended.
        self.begin("MPI_Iallgather", [input, Some(output)], |mpi, request| unsafe {
            let recv = output.pointer().cast();
            (mpi.MPI_Iallgather)(send, len, byte, recv, len, byte, comm.0, request)
        })
    }

    /// Gives the bytes of each rank to `root`, which alone has an output.
    pub(in crate::mpi) fn gather(
        &self,
        input: &Buffer,
        output: Option<&Buffer>,
        root: usize,
        comm: Communicator<H>,
    ) -> Result<Request<H>> {
        if let Some(output) = output {
            self.check_times(output, input, comm)?;
        }
        let (len, root, byte) =
            (count(input.nbytes())?, count(root)?, self.datatype(Datatype::Byte));
        let recv = output.map_or(ptr::null_mut(), Buffer::pointer).cast();
        // SAFETY: the request keeps the `len` bytes of the input, and the output with as many for each rank,
        // until the call has ended. Ranks but `root` need no output.
        self.begin("MPI_Igather", [Some(input), output], |mpi, request| unsafe {
            let send = input.pointer().cast();
            (mpi.MPI_Igather)(send, len, byte, recv, len, byte, root, comm.0, request)
        })
    }

    /// Gives each rank its bytes from `root`, which alone has an input.
    pub(in crate::mpi) fn scatter(
        &self,
        input: Option<&Buffer>,
        output: &Buffer,
        root: usize,
        comm: Communicator<H>,
    ) -> Result<Request<H>> {
        if let Some(input) = input {
            self.check_times(input, output, comm)?;
        }
        let (len, root, byte) =
            (count(output.nbytes())?, count(root)?, self.datatype(Datatype::Byte));
        let send = input.map_or(ptr::null_mut(), Buffer::pointer).cast_const().cast();
        // SAFETY: the request keeps the `len` bytes of the output, and the input with as many for each rank,
        // until the call has ended. Ranks but `root` need no input.
        self.begin("MPI_Iscatter", [input, Some(output)], |mpi, request| unsafe {
            let recv = output.pointer().cast();
            (mpi.MPI_Iscatter)(send, len, byte, recv, len, byte, root, comm.0, request)
        })
    }

    /// The input's address, or what stands for the output's. The input must have `bytes` bytes.
    fn or_in_place(&self, input: Option<&Buffer>, bytes: usize) -> Result<*const c_void> {
        match input {
            Some(input) if input.nbytes() == bytes => Ok(input.pointer().cast_const().cast()),
            Some(input) => Err(wrong_size(input.nbytes(), bytes)),
            None => Ok(self.constants.in_place.cast_const()),
        }
    }

    /// Whether `whole` has the bytes of `part` for each rank.
    fn check_times(&self, whole: &Buffer, part: &Buffer, comm: Communicator<H>) -> Result<()> {
        let (_, size) = self.rank_and_size(comm)?;
        match part.nbytes().checked_mul(size) {
            Some(bytes) if bytes == whole.nbytes() => Ok(()),
            _ => Err(wrong_size(whole.nbytes(), part.nbytes().saturating_mul(size))),
        }
    }
}

fn wrong_size(found: usize, expected: usize) -> DistError {
    corten_core::err!(Internal, "a buffer of {found} bytes where {expected} are expected").into()
}

fn no_buffer(name: &str) -> DistError {
    corten_core::err!(Internal, "{name} without memory").into()
}

/// How many elements a buffer has.
fn elements(buffer: &Buffer, reduction: Reduction) -> Result<c_int> {
    count(buffer.nbytes() / reduction.dtype.itemsize().max(1))
}

/// A number as MPI takes it.
fn count(number: usize) -> Result<c_int> {
    c_int::try_from(number)
        .map_err(|_| corten_core::err!(Internal, "{number} is more than MPI can count").into())
}
