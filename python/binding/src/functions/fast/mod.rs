//! Fast paths before the argument parser: tensors that override nothing and Python numbers as positional
//! arguments go straight to a typed operator.
//!
//! Note [Calls by signature]: when the overloads of a name are parsed, the parser's choice is found for
//! each of a few lists of argument types, such as two tensors, or a tensor and an integer. Where the
//! operator that is chosen has one of the signatures in `typed.rs`, such arguments are passed to it
//! without parsing. A call that is of no such form goes to the parser, which raises the errors, too.

mod select;
mod typed;

use super::estimate::is_long_call;
use super::group::{Mode, Table};
use super::overload::Overload;
use crate::args::{Interned, Operand, ParamKind, Signature, operand};
use crate::py::gil::detach_if;
use crate::py::{Args, Obj, Py, ffi};
use crate::tensor;
use crate::types::structseq;
use corten_core::{Dims, Result, Scalar};
use corten_ops::registry::Cost;
use corten_ops::{IValue, OpKind, Tensor};
use select::{Given, chosen};
use smallvec::SmallVec;
use typed::{Call, Target};

/// The calls of a name that need no parser.
#[derive(Default)]
pub(crate) struct FastCalls {
    alone: Call<typed::OfTensor>,
    with_tensor: Call<typed::OfTwo>,
    /// A third argument that is `None`.
    with_none: bool,
    with_two_tensors: Call<typed::OfThree>,
    with_out: Call<typed::OfThree>,
    with_int: Call<typed::WithInt>,
    with_float: Call<typed::WithFloat>,
    with_bool: Call<typed::WithBool>,
    with_two_ints: Call<typed::WithTwoInts>,
    with_three_ints: Call<typed::WithThreeInts>,
    with_ints: Call<typed::WithInts>,
    /// Integers may be given one by one, as well.
    collects: bool,
    along: Option<Along>,
    of_list: Call<typed::OfList>,
    of_list_along: Call<typed::OfListAlongDim>,
    of_sizes: Call<typed::OfSizes>,
    of_int: Call<typed::OfInt>,
    /// How the work grows; nothing for views, which are never long.
    cost: Option<Cost>,
}

/// A reduction over a dimension, which may stay.
struct Along {
    call: Reduction,
    /// The overload.
    index: usize,
    /// The names of both arguments, if these lead to the same overload.
    names: Option<[Interned; 2]>,
}

enum Reduction {
    One(Box<typed::AlongDim>),
    Pair(Box<typed::PairAlongDim>),
}

/// The overloads of a name, in the order in which the parser tries them.
struct Overloads<'a> {
    signatures: &'a [Signature],
    overloads: &'a [Overload],
    mode: Mode,
}

impl Overloads<'_> {
    /// The overload for a tensor and these arguments, and how many it takes.
    fn find(&self, rest: &[Given], named: &[(&str, Given)]) -> Option<(usize, usize)> {
        let mut given = SmallVec::<[Given; 4]>::new();
        given.extend((self.mode == Mode::Function).then_some(Given::Tensor));
        given.extend(rest.iter().copied());
        let index = chosen(self.signatures, &given, named)?;
        Some((index, rest.len() + 1))
    }

    fn target(&self, (index, given): (usize, usize)) -> Option<Target> {
        let overload = self.overloads.get(index).filter(|one| one.warning.is_none())?;
        Target::new(overload, self.signatures.get(index)?, self.mode, given)
    }

    /// The call for a tensor and these arguments.
    fn call<F: ?Sized>(&self, rest: &[Given], typed: fn(Target) -> Call<F>) -> Call<F> {
        typed(self.target(self.find(rest, &[])?)?)
    }

    /// The call of a function for these arguments.
    fn function<F: ?Sized>(&self, given: &[Given], typed: fn(Target) -> Call<F>) -> Call<F> {
        if self.mode == Mode::Method {
            return None;
        }
        typed(self.target((chosen(self.signatures, given, &[])?, given.len()))?)
    }

    /// One integer, which does not stand for several.
    fn with_int(&self) -> Call<typed::WithInt> {
        let (index, _) = self.find(&[Given::Int], &[])?;
        let param = self.signatures[index].params.get(usize::from(self.mode == Mode::Function))?;
        if param.kind == ParamKind::IntList && param.count > 1 {
            return None;
        }
        self.call(&[Given::Int], typed::with_int)
    }

    fn with_out(&self) -> Call<typed::OfThree> {
        let (index, _) = self.find(&[Given::Tensor], &[("out", Given::Tensor)])?;
        let overload = self.overloads.get(index).filter(|one| one.warning.is_none())?;
        let (_, Some(1)) = overload.out_param? else { return None };
        let plan = overload.out.as_ref()?;
        typed::of_two_and_out(Target::of_plan(plan, &self.signatures[index], self.mode, 2)?)
    }

    fn along(&self) -> Option<Along> {
        let found = self.find(&[Given::Int, Given::Bool], &[])?;
        let (index, _) = found;
        if self.find(&[Given::Int], &[])?.0 != index {
            return None;
        }
        let first = usize::from(self.mode == Mode::Function);
        let params = self.signatures[index].params.get(first..first + 2)?;
        let [dim, keep] = params else { return None };
        let stays_not = matches!(keep.default, IValue::Bool(false));
        if dim.kind == ParamKind::IntList && dim.count > 1 || !stays_not {
            return None;
        }
        let one = self.target(found).and_then(typed::along_dim).map(Reduction::One);
        let call = match one {
            Some(one) => one,
            None => Reduction::Pair(typed::pair_along_dim(self.target(found)?)?),
        };
        let named = [(dim.name.as_str(), Given::Int), (keep.name.as_str(), Given::Bool)];
        let same = |rest: &[Given], named: &[(&str, Given)]| {
            self.find(rest, named).is_some_and(|(other, _)| other == index)
        };
        let all = same(&[], &named[..1]) && same(&[], &named) && same(&[Given::Int], &named[1..]);
        Some(Along { call, index, names: all.then_some([dim.interned, keep.interned]) })
    }

    /// How the work of all overloads grows, where that is the same; nothing for views.
    fn cost(&self) -> Option<Cost> {
        let mut defs =
            self.overloads.iter().filter_map(|one| Some(one.without_out.as_ref()?.op.def()));
        let first = defs.next()?;
        (first.kind != OpKind::View).then_some(first.cost)
    }
}

impl FastCalls {
    /// Those of overloads in the order in which the parser tries them.
    pub(super) fn of(signatures: &[Signature], overloads: &[Overload], mode: Mode) -> Self {
        use Given::{Bool, Float, Int, Ints, None, Tensor, Tensors};
        let all = Overloads { signatures, overloads, mode };
        let two = all.find(&[Tensor], &[]);
        let with_ints = all.call(&[Ints], typed::with_ints);
        let one_by_one = all.find(&[Int, Int], &[]);
        let same =
            one_by_one.map(|(index, _)| index) == all.find(&[Ints], &[]).map(|(index, _)| index);
        let collected = one_by_one.is_some_and(|(index, _)| select::collects(&signatures[index]));
        Self {
            alone: all.call(&[], typed::of_tensor),
            with_tensor: all.call(&[Tensor], typed::of_two),
            with_none: two.is_some()
                && all.find(&[Tensor, None], &[]).map(|(index, _)| index)
                    == two.map(|(index, _)| index),
            with_two_tensors: all.call(&[Tensor, Tensor], typed::of_three),
            with_out: all.with_out(),
            with_int: all.with_int(),
            with_float: all.call(&[Float], typed::with_float),
            with_bool: all.call(&[Bool], typed::with_bool),
            with_two_ints: all.call(&[Int, Int], typed::with_two_ints),
            with_three_ints: all.call(&[Int, Int, Int], typed::with_three_ints),
            collects: with_ints.is_some() && same && collected,
            with_ints,
            along: all.along(),
            of_list: all.function(&[Tensors], typed::of_list),
            of_list_along: all.function(&[Tensors, Int], typed::of_list_along_dim),
            of_sizes: all.function(&[Ints], typed::of_sizes),
            of_int: all.function(&[Int], typed::of_int),
            cost: all.cost(),
        }
    }

    /// Calls the operator, if the arguments are of one of the forms.
    #[inline]
    pub(super) fn call(
        &self,
        table: &Table,
        this: Option<&Obj>,
        args: Args<'_>,
    ) -> Option<Py<Obj>> {
        let (first, rest) = match this {
            Some(this) => (this, args.positional),
            None => args.positional.split_first()?,
        };
        if !tensor::is_dense_cpu(first) {
            return if this.is_none() { self.call_function(first, rest, args) } else { None };
        }
        let x = tensor::this(first);
        if args.names.is_some() {
            return self.call_named(table, x, rest, args);
        }
        match rest {
            [] => self.run(&[x], self.alone.as_ref()?, |call| call(x)),
            [second] => self.call_two(table, x, second),
            [second, third] if self.along.is_some() && third.is_bool() => {
                self.reduce(table, x, int(second)?, third.is(&Obj::bool(true)))
            }
            [second, third] if self.with_two_ints.is_some() => {
                let (m, n) = (int(second)?, int(third)?);
                self.run(&[x], self.with_two_ints.as_ref()?, |call| call(x, m, n))
            }
            [second, third] if !self.collects => self.call_three(x, second, third),
            [a, b, c] if self.with_three_ints.is_some() => {
                let (m, n, o) = (int(a)?, int(b)?, int(c)?);
                self.run(&[x], self.with_three_ints.as_ref()?, |call| call(x, m, n, o))
            }
            ints if self.collects => self.call_collected(x, ints),
            _ => None,
        }
    }

    /// Runs one of the calls, without the interpreter lock where it is long.
    #[inline(always)]
    fn run<F: ?Sized + Sync>(
        &self,
        tensors: &[&Tensor],
        call: &F,
        run: impl FnOnce(&F) -> Result<Tensor> + Send,
    ) -> Option<Py<Obj>> {
        Some(match detach_if(self.is_long(tensors), || run(call)) {
            Ok(made) => tensor::wrap_owned(made),
            Err(error) => Err(error.into()),
        })
    }

    #[inline]
    fn is_long(&self, tensors: &[&Tensor]) -> bool {
        self.cost.is_some_and(|cost| is_long_call(cost, tensors))
    }

    fn call_two(&self, table: &Table, x: &Tensor, second: &Obj) -> Option<Py<Obj>> {
        match operand(second) {
            Operand::Tensor(y) => self.run(&[x, y], self.with_tensor.as_ref()?, |call| call(x, y)),
            Operand::Number(Scalar::Int(n)) => match &self.along {
                Some(Along { call: Reduction::Pair(_), .. }) => self.reduce(table, x, n, false),
                _ => self.run(&[x], self.with_int.as_ref()?, |call| call(x, n)),
            },
            Operand::Number(Scalar::Float(n)) => {
                self.run(&[x], self.with_float.as_ref()?, |call| call(x, n))
            }
            Operand::Number(Scalar::Bool(n)) => {
                self.run(&[x], self.with_bool.as_ref()?, |call| call(x, n))
            }
            Operand::Number(_) => None,
            Operand::Other => {
                let call = self.with_ints.as_ref()?;
                let dims = integers(second)?;
                self.run(&[x], call, |call| call(x, &dims))
            }
        }
    }

    fn call_three(&self, x: &Tensor, second: &Obj, third: &Obj) -> Option<Py<Obj>> {
        let y = dense(second)?;
        if third.is_none() {
            let call = self.with_tensor.as_ref().filter(|_| self.with_none)?;
            return self.run(&[x, y], call, |call| call(x, y));
        }
        let call = self.with_two_tensors.as_ref()?;
        let z = dense(third)?;
        self.run(&[x, y, z], call, |call| call(x, y, z))
    }

    /// Integers one by one.
    fn call_collected(&self, x: &Tensor, given: &[Obj]) -> Option<Py<Obj>> {
        let call = self.with_ints.as_ref()?;
        let mut numbers = [0; 6];
        let ints = numbers.get_mut(..given.len())?;
        for (place, object) in ints.iter_mut().zip(given) {
            *place = int(object)?;
        }
        let ints = &*ints;
        self.run(&[x], call, |call| call(x, ints))
    }

    /// Keyword arguments: those of a reduction, or an output for two tensors.
    fn call_named(
        &self,
        table: &Table,
        x: &Tensor,
        rest: &[Obj],
        args: Args<'_>,
    ) -> Option<Py<Obj>> {
        if let Some(along) = &self.along {
            let (dim, keep) = along.named(rest, args)?;
            return self.reduce(table, x, dim, keep);
        }
        let (call, [second], [given]) = (self.with_out.as_ref()?, rest, args.keywords) else {
            return None;
        };
        if args.keyword_ptr(0) != crate::py::name!("out").as_ptr() {
            return None;
        }
        let (y, out) = (dense(second)?, dense(given)?);
        let done = detach_if(self.is_long(&[x, y, out]), || call(x, y, out));
        Some(done.map(|_| given.clone()).map_err(Into::into))
    }

    fn reduce(&self, table: &Table, x: &Tensor, dim: i64, keep: bool) -> Option<Py<Obj>> {
        let along = self.along.as_ref()?;
        match &along.call {
            Reduction::One(call) => self.run(&[x], &**call, |call| call(x, dim, keep)),
            Reduction::Pair(call) => {
                let overload = table.overloads.get(along.index)?;
                let done = detach_if(self.is_long(&[x]), || call(x, dim, keep));
                Some(done.map_err(Into::into).and_then(|both| pair(overload, both)))
            }
        }
    }

    /// A function without a tensor in front: of a list of tensors, or of sizes.
    fn call_function(&self, first: &Obj, rest: &[Obj], args: Args<'_>) -> Option<Py<Obj>> {
        if args.names.is_some() {
            return None;
        }
        if self.of_list.is_some() || self.of_list_along.is_some() {
            return self.call_list(first, rest);
        }
        if let Some(call) = &self.of_sizes {
            let one_by_one = || args.positional.iter().map(int).collect::<Option<Dims>>();
            let sizes = match rest {
                [] if first.is_tuple() || first.is_list() => integers(first)?,
                _ => one_by_one()?,
            };
            // A long one is not worth a look at its size: the parser gives the lock up for it.
            let numel = sizes.iter().try_fold(1_i64, |numel, &size| numel.checked_mul(size))?;
            return if numel < SMALL { self.run(&[], call, |call| call(&sizes)) } else { None };
        }
        let (Some(call), []) = (&self.of_int, rest) else { return None };
        let n = int(first)?;
        self.run(&[], call, |call| call(n))
    }

    /// A short list of tensors, and perhaps a dimension.
    fn call_list(&self, list: &Obj, rest: &[Obj]) -> Option<Py<Obj>> {
        let length = if list.is_tuple() || list.is_list() { list.sequence_len() } else { 0 };
        if length == 0 || length > 4 {
            return None;
        }
        let mut tensors = SmallVec::<[Tensor; 4]>::new();
        for at in 0..length {
            let item = list.sequence_item(at).map_err(crate::py::Raised::clear).ok()?;
            tensors.push(dense(&item)?.clone());
        }
        let all: SmallVec<[&Tensor; 4]> = tensors.iter().collect();
        match rest {
            [] => self.run(&all, self.of_list.as_ref()?, |call| call(&tensors)),
            [dim] => {
                let dim = int(dim)?;
                self.run(&all, self.of_list_along.as_ref()?, |call| call(&tensors, dim))
            }
            _ => None,
        }
    }
}

impl Along {
    /// The dimension and whether it stays, of which some have names.
    fn named(&self, rest: &[Obj], args: Args<'_>) -> Option<(i64, bool)> {
        let names = self.names.as_ref()?;
        let mut given = [rest.first(), rest.get(1)];
        if rest.len() > 2 {
            return None;
        }
        for (at, value) in args.keywords.iter().enumerate() {
            let key = args.keyword_ptr(at);
            let place = names.iter().position(|name| name.as_ptr() == key)?;
            if given[place].replace(value).is_some() {
                return None;
            }
        }
        let [Some(dim), keep] = given else { return None };
        let keep = match keep {
            None => false,
            Some(keep) if keep.is_bool() => keep.is(&Obj::bool(true)),
            Some(_) => return None,
        };
        Some((int(dim)?, keep))
    }
}

/// Two results as the named tuple of the operator.
fn pair(overload: &Overload, (a, b): (Tensor, Tensor)) -> Py<Obj> {
    let values = vec![tensor::wrap_owned(a)?, tensor::wrap_owned(b)?];
    let name = overload.without_out.as_ref().map_or("", |plan| plan.op.def().name);
    match overload.fields.len() {
        2 => structseq::result(overload.result_type(name, false)?, values),
        _ => Obj::tuple(values.into_iter().map(Ok)),
    }
}

/// Factories of more elements may give the interpreter lock up.
const SMALL: i64 = 2048;

/// A tensor that certainly overrides nothing.
#[inline]
fn dense(object: &Obj) -> Option<&Tensor> {
    tensor::is_dense_cpu(object).then(|| tensor::this(object))
}

/// One integer of the class `int` itself.
#[inline]
fn int(object: &Obj) -> Option<i64> {
    if object.type_ptr() != &raw mut ffi::PyLong_Type {
        return None;
    }
    object.to_i64().map_err(crate::py::Raised::clear).ok()
}

/// A tuple or list of integers.
fn integers(list: &Obj) -> Option<Dims> {
    if !list.is_tuple() && !list.is_list() {
        return None;
    }
    let item = |at| list.sequence_item(at).map_err(crate::py::Raised::clear).ok();
    (0..list.sequence_len()).map(|at| int(&item(at)?)).collect()
}
