//! Trying the signatures of a function in order.

use super::bound::Bound;
use super::check::{Overloaded, Verdict, check, varargs_ints};
use super::mismatch;
use super::signature::{ParamKind, Signature};
use crate::py::call::Args;
use crate::py::errors::type_error;
use crate::py::{Obj, Py, Raised, ffi};
use corten_ops::{AnyOp, IValue};
use smallvec::SmallVec;

/// The signatures of one Python function.
pub(crate) struct Parser {
    pub(crate) signatures: Vec<Signature>,
}

/// Why a signature does not fit.
enum Misfit {
    /// It does not; an exception is set only when one was asked for.
    Quiet,
    Raised(Raised),
}

impl From<Raised> for Misfit {
    fn from(raised: Raised) -> Self {
        Self::Raised(raised)
    }
}

impl Parser {
    /// A parser over signatures written as text.
    pub(crate) fn from_texts(texts: &[&str]) -> Self {
        let mut signatures: Vec<Signature> =
            texts.iter().map(|text| Signature::from_text(text)).collect();
        for signature in &mut signatures {
            let same = |op: &&'static dyn AnyOp| op.def().name == signature.function;
            if corten_ops::registry::all().iter().filter(|op| same(op)).any(|op| op.def().numbers) {
                for param in &mut signature.params {
                    param.numbers = param.kind == ParamKind::Tensor;
                }
            }
        }
        Self { signatures }
    }

    /// PyTorch's functions, unlike its operators, read the default `Mean` of a reduction as no reduction.
    pub(crate) fn reduce_nothing(&mut self) {
        let params = self.signatures.iter_mut().flat_map(|signature| &mut signature.params);
        for param in params.filter(|param| param.name == "reduction") {
            if let IValue::Int(1) = param.default {
                param.default = IValue::Int(0);
            }
        }
    }

    /// Binds the arguments to the first signature that accepts them.
    ///
    /// `this` is the tensor a method was called on; it only counts as a source of overrides.
    pub(crate) fn parse<'a>(&'a self, this: Option<&Obj>, args: Args<'a>) -> Py<Bound<'a>> {
        let mut bound = self.unbound();
        self.parse_to(&mut bound, this, args)?;
        Ok(bound)
    }

    /// No arguments yet, for [`parse_to`](Self::parse_to).
    #[inline(always)]
    pub(crate) fn unbound(&self) -> Bound<'_> {
        Bound {
            signature: &self.signatures[0],
            index: 0,
            slots: SmallVec::new(),
            varargs: None,
            overloaded: Overloaded::new(),
        }
    }

    /// As [`parse`](Self::parse), where the arguments will stay.
    pub(crate) fn parse_to<'a>(
        &'a self,
        bound: &mut Bound<'a>,
        this: Option<&Obj>,
        args: Args<'a>,
    ) -> Py<()> {
        let [only] = &self.signatures[..] else { return self.parse_overloads(bound, this, args) };
        match try_signature(bound, only, this, args, true) {
            Ok(()) => Ok(()),
            Err(Misfit::Raised(raised)) => Err(raised),
            Err(Misfit::Quiet) => Err(type_error(format!("{}(): bad arguments", only.function))),
        }
    }

    fn parse_overloads<'a>(
        &'a self,
        bound: &mut Bound<'a>,
        this: Option<&Obj>,
        args: Args<'a>,
    ) -> Py<()> {
        for (index, signature) in self.signatures.iter().enumerate() {
            match try_signature(bound, signature, this, args, false) {
                Ok(()) => {
                    bound.index = index;
                    return Ok(());
                }
                Err(Misfit::Raised(raised)) => return Err(raised),
                Err(Misfit::Quiet) => {}
            }
        }
        Err(self.no_match(this, args))
    }

    /// The error when no signature fits: that of the only plausible one, else a list of all.
    #[cold]
    fn no_match(&self, this: Option<&Obj>, args: Args<'_>) -> Raised {
        let given = args.positional.len() + args.keywords.len();
        let mut plausible = self.signatures.iter().filter(|signature| {
            (signature.required..=signature.params.len()).contains(&given) && !signature.hidden
        });
        if let (Some(only), None) = (plausible.next(), plausible.next())
            && let Err(Misfit::Raised(raised)) =
                try_signature(&mut self.unbound(), only, this, args, true)
        {
            return raised;
        }
        match mismatch::describe(&self.signatures, args) {
            Ok(message) => type_error(message),
            Err(raised) => raised,
        }
    }
}

/// Binds the arguments to one signature, raising the specific error when asked to.
fn try_signature<'a>(
    bound: &mut Bound<'a>,
    signature: &'a Signature,
    this: Option<&Obj>,
    args: Args<'a>,
    raise: bool,
) -> Result<(), Misfit> {
    let given = args.positional.len();
    let collects = signature.max_positional == 1 && signature.params[0].kind == ParamKind::IntList;
    if given > signature.max_positional && !collects {
        return Err(misfit(raise, || mismatch::too_many(signature, given)));
    }
    bound.reset(signature);
    if let Some(this) = this
        && !crate::tensor::is_dense_cpu(this)
        && crate::tensor::overrides(this)
    {
        bound.overloaded.push(this.clone());
    }
    let mut position = 0;
    let mut keywords_left = args.keywords.len();
    for (index, param) in signature.params.iter().enumerate() {
        let mut by_keyword = false;
        let object = if position < given {
            if param.keyword_only {
                return Err(misfit(raise, || mismatch::too_many(signature, given)));
            }
            Some(&args.positional[position])
        } else if keywords_left > 0 {
            by_keyword = true;
            find_keyword(param, args)
        } else {
            None
        };
        let Some(object) = object else {
            if param.optional {
                bound.slots.push(std::ptr::null_mut());
                continue;
            }
            return Err(misfit(raise, || mismatch::missing(signature, index)));
        };
        if object.is_none() && param.nullable {
            bound.slots.push(std::ptr::null_mut());
        } else {
            let place = if by_keyword { None } else { Some(position) };
            bind_one(bound, index, object, place, args, raise)?;
            if index == 0 && bound.varargs.is_some() {
                position = given;
                continue;
            }
        }
        if by_keyword {
            keywords_left -= 1;
        } else {
            position += 1;
        }
    }
    if keywords_left > 0 {
        return Err(misfit(raise, || mismatch::extra_keywords(signature, args)));
    }
    Ok(())
}

/// Binds one object to one parameter; where the parameter collects all positional integers, all of
/// them. `place` is the object's position, nothing for a keyword.
fn bind_one<'a>(
    bound: &mut Bound<'a>,
    index: usize,
    object: &Obj,
    place: Option<usize>,
    args: Args<'a>,
    raise: bool,
) -> Result<(), Misfit> {
    let (signature, given) = (bound.signature, args.positional.len());
    let param = &signature.params[index];
    let verdict = check(param, object, index, &mut bound.overloaded)?;
    let collects = signature.max_positional == 1 && signature.params[0].kind == ParamKind::IntList;
    let collect = collects && place == Some(0);
    match verdict {
        Verdict::Accepted if !(collect && given > 1) => bound.slots.push(object.as_ptr()),
        _ if collect && matches!(varargs_ints(args.positional), Verdict::Accepted) => {
            bound.slots.push(std::ptr::null_mut());
            bound.varargs = Some(args.positional);
        }
        Verdict::Accepted => return Err(misfit(raise, || mismatch::too_many(signature, given))),
        refused => {
            return Err(misfit(raise, || {
                mismatch::wrong_type(signature, param, place, object, &refused)
            }));
        }
    }
    Ok(())
}

fn misfit(raise: bool, error: impl FnOnce() -> Raised) -> Misfit {
    if raise { Misfit::Raised(error()) } else { Misfit::Quiet }
}

/// The keyword argument for a parameter, compared by address first: names are interned.
fn find_keyword<'a>(param: &super::signature::Param, args: Args<'a>) -> Option<&'a Obj> {
    let names = std::iter::once(&param.interned).chain(&param.aliases);
    for name in names.clone() {
        for (index, value) in args.keywords.iter().enumerate() {
            if args.keyword_ptr(index) == name.as_ptr() {
                return Some(value);
            }
        }
    }
    for name in names {
        for (index, value) in args.keywords.iter().enumerate() {
            if same_text(args.keyword_ptr(index), name.as_ptr()) {
                return Some(value);
            }
        }
    }
    None
}

fn same_text(a: *mut ffi::PyObject, b: *mut ffi::PyObject) -> bool {
    // SAFETY: both are live strings.
    unsafe { ffi::PyUnicode_Compare(a, b) == 0 && ffi::PyErr_Occurred().is_null() }
}
