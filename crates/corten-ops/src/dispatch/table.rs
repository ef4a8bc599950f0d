//! The kernel table of one operator.

use super::groups::{
    backend_of_autograd, is_autograd, is_backend, is_quantized, is_sparse, passes_views,
    without_highest,
};
use super::registration::Registration;
use super::{Target, fallback};
use crate::boxed::Stack;
use crate::registry::{AnyOp, OpDef, OpKind};
use crate::schema::Schema;
use crate::stub::Stub;
use corten_core::{DispatchKey, Error, KeySet, NUM_RUNTIME_KEYS, Result, bug, err, tls};
use std::any::{Any, TypeId};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// A kernel over the stack, for any operator.
pub type BoxedKernel = Arc<dyn Fn(&BoxedCall, &mut Stack) -> Result<()> + Send + Sync>;

/// A call on its way to a boxed kernel: the operator and the keys not yet handled.
///
/// ```
/// use corten::ops::{BoxedCall, Library, Stack, Target};
/// use corten::prelude::*;
///
/// # fn main() -> Result<()> {
/// let library = Library::new("example_of_calls");
/// library.define("same(Tensor self) -> Tensor")?;
/// let kernel = |call: &BoxedCall, _: &mut Stack| -> Result<()> {
///     assert_eq!(call.op().def().name, "same");
///     Ok(())
/// };
/// let registered = library.implement("same", Target::CompositeImplicitAutograd, kernel)?;
/// let mut stack = Stack::new();
/// stack.push(tensor![1.0]?);
/// corten::ops::call("example_of_calls::same", &mut stack)?;
/// registered.remove();
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct BoxedCall {
    op: &'static dyn AnyOp,
    keys: KeySet,
    kernel: BoxedKernel,
}

impl BoxedCall {
    /// The operator that is called.
    pub fn op(&self) -> &'static dyn AnyOp {
        self.op
    }

    /// The keys of the call, the handled one on top.
    pub fn keys(&self) -> KeySet {
        self.keys
    }

    /// Runs the kernel.
    ///
    /// # Errors
    /// The kernel's.
    pub fn run(&self, stack: &mut Stack) -> Result<()> {
        (self.kernel)(self, stack)
    }

    /// Goes on to the next kernel below the one that handles this call.
    ///
    /// # Errors
    /// The kernel's, or `NotImplemented` when there is none.
    pub fn redispatch(&self, stack: &mut Stack) -> Result<()> {
        self.op.call_boxed_at(without_highest(self.keys), stack)
    }
}

/// A kernel whose signature is known to the operator it belongs to.
///
/// Note [Erased kernels]: everything about a table but the last step of a call is the same for all
/// signatures, so it is compiled once and not once per signature, of which there are hundreds. The
/// function pointer is kept as `fn()`; function pointer types are ABI-compatible with each other,
/// and [`TypedOp`], the only one to make and to read an `Erased`, gives it its type back before it
/// is called.
#[derive(Clone, Copy)]
struct Erased(fn());

impl Erased {
    const fn of<F: Copy>(kernel: F) -> Self {
        const { assert!(size_of::<F>() == size_of::<fn()>()) };
        // SAFETY: `F` is a function pointer type: only this crate makes operators, from those.
        Self(unsafe { std::mem::transmute_copy::<F, fn()>(&kernel) })
    }

    /// # Safety
    /// The kernel must have been made from an `F`.
    unsafe fn typed<F: Copy>(self) -> F {
        // SAFETY: the caller's; the sizes were compared when it was made.
        unsafe { std::mem::transmute_copy::<fn(), F>(&self.0) }
    }
}

/// Calls a kernel with the arguments on the stack; see Note [Erased kernels].
type Adapter = fn(fn(), &mut Stack) -> Result<()>;

/// One place of the table, never freed: readers take no lock.
enum Entry {
    Typed(Erased),
    Boxed(BoxedKernel),
    Fallthrough,
}

struct Registered {
    target: Target,
    id: u64,
    entry: &'static Entry,
}

/// What a lookup found.
///
/// ```
/// use corten::ops::Found;
///
/// let found: Found<fn()> = Found::Typed(|| ());
/// assert!(matches!(found, Found::Typed(_)));
/// ```
pub enum Found<F> {
    /// A kernel with the operator's own signature.
    Typed(F),
    /// A kernel over the stack.
    Boxed(BoxedCall),
}

/// The places of an operator's runtime keys; null where not computed yet.
type Table = [AtomicPtr<Entry>; NUM_RUNTIME_KEYS];

/// An operator with its kernels.
///
/// Note [Lazy dispatch tables]: a full table has 138 places, most never read. Computing all of
/// them for every operator at start-up would touch more than a megabyte, so a place stays null
/// until a call needs it and is then computed from the registrations by the rules of
/// `resolve`. The table itself is made when the first place is: a program that uses a few hundred
/// operators has a few hundred tables, and its binary has none. A new registration clears it.
pub(crate) struct OpTable {
    def: &'static OpDef,
    boxed: Adapter,
    /// The function pointer type of the kernels.
    signature: fn() -> TypeId,
    /// Functionality bits whose kernels are known to fall through for every backend.
    skipped: AtomicU64,
    table: AtomicPtr<Table>,
    /// The kernel that comes with the declaration, where there is one for every backend.
    builtin: Option<(Target, Entry)>,
    /// The loops of an operator over an iterator.
    stub: Option<&'static Stub>,
    registered: Mutex<Vec<Registered>>,
    schema: OnceLock<Schema>,
}

/// An operator whose signature is the function pointer type `F`.
///
/// ```
/// use corten::ops::op;
///
/// assert_eq!(op::EXP.def().qualified_name(), "aten::exp");
/// ```
pub struct TypedOp<F: 'static> {
    table: OpTable,
    signature: PhantomData<F>,
}

impl<F: Copy + Send + Sync + 'static> TypedOp<F> {
    /// An operator whose kernels come from the backends; `boxed` adapts its signature to the stack.
    pub(crate) const fn new(def: &'static OpDef, boxed: fn(F, &mut Stack) -> Result<()>) -> Self {
        Self::with_builtin(def, boxed, None, None)
    }

    /// An operator with one kernel for every backend and a gradient of its own.
    pub(crate) const fn explicit(
        def: &'static OpDef,
        boxed: fn(F, &mut Stack) -> Result<()>,
        kernel: F,
    ) -> Self {
        Self::with_builtin(def, boxed, Some((Target::CompositeExplicitAutograd, kernel)), None)
    }

    /// An operator over an iterator: as `explicit`, for the devices that `stub` has a loop of.
    pub(crate) const fn iterator(
        def: &'static OpDef,
        boxed: fn(F, &mut Stack) -> Result<()>,
        kernel: F,
        stub: &'static Stub,
    ) -> Self {
        let builtin = Some((Target::CompositeExplicitAutograd, kernel));
        Self::with_builtin(def, boxed, builtin, Some(stub))
    }

    /// An operator made of others, differentiable through them.
    pub(crate) const fn implicit(
        def: &'static OpDef,
        boxed: fn(F, &mut Stack) -> Result<()>,
        kernel: F,
    ) -> Self {
        Self::with_builtin(def, boxed, Some((Target::CompositeImplicitAutograd, kernel)), None)
    }

    const fn with_builtin(
        def: &'static OpDef,
        boxed: fn(F, &mut Stack) -> Result<()>,
        builtin: Option<(Target, F)>,
        stub: Option<&'static Stub>,
    ) -> Self {
        // SAFETY: both are function pointers whose arguments and results are ABI-compatible: the
        // first argument is a function pointer in either. `OpTable` passes what `Erased::of` made
        // of an `F`.
        let boxed =
            unsafe { std::mem::transmute::<fn(F, &mut Stack) -> Result<()>, Adapter>(boxed) };
        let builtin = match builtin {
            Some((target, kernel)) => Some((target, Entry::Typed(Erased::of(kernel)))),
            None => None,
        };
        let table = OpTable::new(def, boxed, TypeId::of::<F>, builtin, stub);
        Self { table, signature: PhantomData }
    }

    /// The declaration.
    pub fn def(&self) -> &'static OpDef {
        self.table.def
    }

    /// The operator whatever its signature.
    pub const fn any(&'static self) -> &'static dyn AnyOp {
        &self.table
    }

    /// Registers a kernel. The last registration to a target wins.
    pub fn implement(&'static self, target: impl Into<Target>, kernel: F) {
        self.table.register(target.into(), Entry::Typed(Erased::of(kernel)));
    }

    /// Lets calls pass the given keys without stopping.
    pub fn implement_fallthrough(&'static self, target: impl Into<Target>) {
        self.table.register(target.into(), Entry::Fallthrough);
    }

    /// The kernel for a key set that already includes the thread's sets.
    ///
    /// # Errors
    /// `NotImplemented` when no kernel serves the keys.
    #[inline]
    pub fn lookup(&'static self, keys: KeySet) -> Result<Found<F>> {
        Ok(match self.table.lookup(keys)? {
            // SAFETY: typed entries of this table are made from `F` alone.
            Found::Typed(kernel) => Found::Typed(unsafe { kernel.typed::<F>() }),
            Found::Boxed(call) => Found::Boxed(call),
        })
    }
}

/// An operator that is known at run time only, but whose signature is known: a typed call without its name.
///
/// ```
/// use corten::ops::{Signed, registry};
/// use corten::{Result, Tensor};
///
/// let exp = registry::find("aten::exp").and_then(Signed::<fn(&Tensor) -> Result<Tensor>>::of);
/// assert!(exp.is_some());
/// ```
pub struct Signed<F: 'static> {
    table: &'static OpTable,
    signature: PhantomData<F>,
}

impl<F> Clone for Signed<F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Signed<F> {}

impl<F: Copy + 'static> Signed<F> {
    /// The operator, if `F` is the function pointer type of its kernels.
    pub fn of(op: &'static dyn AnyOp) -> Option<Self> {
        let table = (op as &dyn Any).downcast_ref::<OpTable>()?;
        let is_signature = (table.signature)() == TypeId::of::<F>();
        is_signature.then_some(Self { table, signature: PhantomData })
    }

    /// The kernel for a key set that already includes the thread's sets.
    ///
    /// # Errors
    /// `NotImplemented` when no kernel serves the keys.
    #[inline]
    pub(crate) fn lookup(self, keys: KeySet) -> Result<Found<F>> {
        Ok(match self.table.lookup(keys)? {
            // SAFETY: typed entries of this table are made from its signature alone, which is `F`.
            Found::Typed(kernel) => Found::Typed(unsafe { kernel.typed::<F>() }),
            Found::Boxed(call) => Found::Boxed(call),
        })
    }
}

impl OpTable {
    /// An operator of another crate, which has boxed kernels only.
    pub(crate) fn outside(def: &'static OpDef) -> Self {
        let never: Adapter = |_, _| bug!("an operator from outside has no typed kernel");
        Self::new(def, never, TypeId::of::<()>, None, None)
    }

    const fn new(
        def: &'static OpDef,
        boxed: Adapter,
        signature: fn() -> TypeId,
        builtin: Option<(Target, Entry)>,
        stub: Option<&'static Stub>,
    ) -> Self {
        Self {
            builtin,
            stub,
            def,
            boxed,
            signature,
            skipped: AtomicU64::new(0),
            table: AtomicPtr::new(std::ptr::null_mut()),
            registered: Mutex::new(Vec::new()),
            schema: OnceLock::new(),
        }
    }

    /// The kernel for a key set that already includes the thread's sets.
    ///
    /// # Errors
    /// `NotImplemented` when no kernel serves the keys.
    #[inline]
    fn lookup(&'static self, keys: KeySet) -> Result<Found<Erased>> {
        let keys = keys.without(KeySet(self.skipped.load(Ordering::Relaxed)));
        match self.entry(keys.highest_runtime_index()) {
            Some(Entry::Typed(kernel)) => Ok(Found::Typed(*kernel)),
            _ => self.search(keys),
        }
    }

    /// The entry of a runtime key, if it was computed before.
    #[inline]
    fn entry(&'static self, index: usize) -> Option<&'static Entry> {
        let place = self.table()?[index].load(Ordering::Acquire);
        // SAFETY: a place is null or holds a reference from `Box::leak`, published with Release;
        // entries are never freed or changed.
        unsafe { place.as_ref() }
    }

    fn search(&'static self, mut keys: KeySet) -> Result<Found<Erased>> {
        loop {
            let index = keys.highest_runtime_index();
            let entry = match self.entry(index) {
                Some(entry) => entry,
                None => self.resolve(keys, index)?,
            };
            match entry {
                Entry::Typed(kernel) => return Ok(Found::Typed(*kernel)),
                Entry::Boxed(kernel) => {
                    return Ok(Found::Boxed(BoxedCall { op: self, keys, kernel: kernel.clone() }));
                }
                Entry::Fallthrough => keys = without_highest(keys),
            }
        }
    }

    fn register(&'static self, target: Target, entry: Entry) -> u64 {
        let mut registered = self.registrations();
        let id = registered.iter().map(|one| one.id).max().unwrap_or(0) + 1;
        registered.push(Registered { target, id, entry: Box::leak(Box::new(entry)) });
        self.clear_table();
        id
    }

    fn clear_table(&self) {
        self.skipped.store(0, Ordering::Relaxed);
        for place in self.table().into_iter().flatten() {
            place.store(std::ptr::null_mut(), Ordering::Release);
        }
    }

    #[inline]
    fn table(&self) -> Option<&'static Table> {
        // SAFETY: null, or a table from `Box::leak` published with Release and never freed.
        unsafe { self.table.load(Ordering::Acquire).as_ref() }
    }

    /// The table, made if this is its first place. The registrations' lock is held.
    fn table_or_init(&self) -> &'static Table {
        self.table().unwrap_or_else(|| {
            let table = [const { AtomicPtr::new(std::ptr::null_mut()) }; NUM_RUNTIME_KEYS];
            let table: &'static Table = Box::leak(Box::new(table));
            self.table.store(std::ptr::from_ref(table).cast_mut(), Ordering::Release);
            table
        })
    }

    fn registrations(&self) -> MutexGuard<'_, Vec<Registered>> {
        self.registered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find_entry(
        &'static self,
        registered: &[Registered],
        key: DispatchKey,
    ) -> Option<&'static Entry> {
        let last = |target: Target| {
            let explicit = registered.iter().rev().find(|one| one.target == target);
            let builtin = self.builtin.as_ref().filter(|(other, _)| *other == target);
            explicit.map(|one| one.entry).or(builtin.map(|(_, entry)| entry))
        };
        // Kernels of a sparse layout are registered for all devices at once.
        let layout = key.functionality();
        let of_layout = is_sparse(key) && layout != key;
        let at_layout = || if of_layout { last(layout) } else { None };
        if let Some(entry) = last(key).or_else(at_layout) {
            return Some(entry);
        }
        if passes_views(key) && self.def.kind == OpKind::View {
            return Some(&Entry::Fallthrough);
        }
        let backend = is_backend(key) || key == DispatchKey::Undefined;
        let explicit = last(Target::CompositeExplicitAutograd);
        // Without a loop for the device, or memory to compute in, the kernel could only refuse: a
        // fallback goes before it.
        let refuses = (self.lacks_loop(key) || key == DispatchKey::MkldnnCPU)
            && fallback::of(key, self.def).is_some();
        // No loop over memory serves a tensor without a storage.
        let over_memory = is_sparse(key) && (self.stub.is_some() || shows_memory(self.def));
        // What reads integers as numbers is wrong about those that stand for others.
        let over_integers = is_quantized(key) && !rearranges(self.def);
        if backend && explicit.is_some() && !refuses && !over_memory && !over_integers {
            return explicit;
        }
        if let Some(entry) = last(Target::CompositeImplicitAutograd) {
            let has_kernel = |key| last(key).is_some();
            let shadowed = explicit.is_some() || backend_of_autograd(key).is_some_and(has_kernel);
            let batched = key == DispatchKey::FuncTorchBatched && self.def.batch.is_none();
            let functional = key == DispatchKey::Functionalize && explicit.is_none();
            if backend || batched || functional || (is_autograd(key) && !shadowed) {
                return Some(entry);
            }
        }
        last(Target::Autograd).filter(|_| is_autograd(key))
    }

    fn lacks_loop(&self, key: DispatchKey) -> bool {
        self.stub.zip(key.backend()).is_some_and(|(stub, backend)| !stub.serves(backend))
    }

    /// Computes one place of the table, in the order: the key itself, composite explicit,
    /// composite implicit, the autograd alias, the key's fallback.
    #[cold]
    fn resolve(&'static self, keys: KeySet, index: usize) -> Result<&'static Entry> {
        if self.def.is_left_out() {
            return Err(left_out(self.def));
        }
        let registered = self.registrations();
        let key = keys.highest_key();
        let entry = match self.find_entry(&registered, key) {
            Some(entry) => entry,
            None => match fallback::of(key, self.def) {
                Some(fallback::Fallback::Fallthrough) => &Entry::Fallthrough,
                Some(fallback::Fallback::Kernel(kernel)) => {
                    Box::leak(Box::new(Entry::Boxed(kernel)))
                }
                None => {
                    drop(registered);
                    return Err(missing_kernel(self.def, key, &self.kernels()));
                }
            },
        };
        if matches!(entry, Entry::Fallthrough)
            && key.backend().is_none()
            && key != DispatchKey::Undefined
        {
            self.skipped.fetch_or(KeySet::from_key(key).0, Ordering::Relaxed);
        }
        let place = &self.table_or_init()[index];
        place.store(std::ptr::from_ref(entry).cast_mut(), Ordering::Release);
        Ok(entry)
    }
}

/// Whether the results of an operator are views of memory. Aliases of the whole are not.
fn shows_memory(def: &OpDef) -> bool {
    def.kind == OpKind::View && !matches!(def.name, "alias" | "detach")
}

/// Whether an operator changes how elements are reached and leaves them as they are.
fn rearranges(def: &OpDef) -> bool {
    def.kind == OpKind::View || def.is_view_inplace
}

/// See docs/SELECTIVE.md: silence would run it without its gradient.
#[cold]
fn left_out(def: &OpDef) -> Error {
    err!(
        NotImplemented,
        "{} was left out of this program: it is not in the list of operators that CORTEN_OPERATORS \
         named when it was built",
        def.qualified_name()
    )
}

#[cold]
fn missing_kernel(def: &OpDef, key: DispatchKey, kernels: &[(Target, &str)]) -> Error {
    let name = def.qualified_name();
    let mut available: Vec<String> = kernels.iter().map(|(target, _)| target.to_string()).collect();
    available.sort();
    available.dedup();
    let available = available.join(", ");
    if key == DispatchKey::Undefined {
        return err!(
            NotImplemented,
            "There were no tensor arguments to this function (e.g., you passed an empty list of \
             Tensors), but no fallback function is registered for schema {name}. Available \
             functions are [{available}]."
        );
    }
    if key == DispatchKey::Meta {
        return err!(
            NotImplemented,
            "{name}: attempted to run this operator with Meta tensors, but there was no fake impl or \
             Meta kernel registered."
        );
    }
    err!(
        NotImplemented,
        "Could not run '{name}' with arguments from the '{key}' backend. '{name}' is only \
         available for these backends: [{available}]."
    )
}

impl AnyOp for OpTable {
    fn def(&self) -> &'static OpDef {
        self.def
    }

    fn schema(&self) -> &Schema {
        self.schema.get_or_init(|| self.def.parse_schema())
    }

    fn call_boxed(&'static self, stack: &mut Stack) -> Result<()> {
        let mut keys = KeySet::EMPTY;
        for value in stack.iter() {
            value.for_each_tensor(&mut |tensor| keys |= tensor.key_set());
        }
        let keys = self.def.factory_keys(self.schema(), keys, stack);
        match self.call_boxed_at(tls::effective(keys), stack) {
            Err(error) => super::widened::retry(self, stack, error), // See Note [Widened dtypes]
            done => done,
        }
    }

    fn call_boxed_at(&'static self, keys: KeySet, stack: &mut Stack) -> Result<()> {
        let expected = self.schema().arguments.len();
        crate::boxed::check_argument_count(self.def.name, stack.len(), expected)?;
        match self.lookup(keys)? {
            Found::Typed(kernel) => (self.boxed)(kernel.0, stack),
            Found::Boxed(call) => call.run(stack),
        }
    }

    fn implement_boxed(&'static self, target: Target, kernel: BoxedKernel) -> Registration {
        let id = self.register(target, Entry::Boxed(kernel));
        Registration { op: self, id }
    }

    fn pass_through(&'static self, target: Target) -> Registration {
        let id = self.register(target, Entry::Fallthrough);
        Registration { op: self, id }
    }

    fn deregister(&self, id: u64) {
        self.registrations().retain(|one| one.id != id);
        self.clear_table();
    }

    fn kernels(&self) -> Vec<(Target, &'static str)> {
        let describe = |entry: &Entry| match entry {
            Entry::Typed(_) => "typed",
            Entry::Boxed(_) => "boxed",
            Entry::Fallthrough => "fallthrough",
        };
        let builtin = self.builtin.iter().map(|(target, entry)| (*target, describe(entry)));
        let registered = self.registrations();
        builtin.chain(registered.iter().map(|one| (one.target, describe(one.entry)))).collect()
    }

    fn was_called(&self) -> bool {
        self.table().is_some()
    }

    fn has_kernel_for(&'static self, keys: KeySet) -> bool {
        self.find_entry(&self.registrations(), keys.highest_key()).is_some()
    }
}
