//! Calls of operators with sampled arguments.

use corten_autograd::Autograd;
use corten_core::{DType, Device, Layout, MemoryFormat, Result, Scalar, Writer, bail, err};
use corten_ops::schema::{Argument, BaseType, Type, Value};
use corten_ops::{AnyOp, IValue, Stack, Tensor, op, registry};

/// A call with its differentiable tensors pulled out.
pub(crate) struct Call {
    op: &'static dyn AnyOp,
    arguments: Vec<IValue>,
    /// The places of `inputs` in `arguments`: argument and position in its list.
    places: Vec<(usize, Option<usize>)>,
    inputs: Vec<Tensor>,
}

impl Call {
    fn new(op: &'static dyn AnyOp, arguments: Vec<IValue>) -> Self {
        let mut call = Self { op, arguments, places: Vec::new(), inputs: Vec::new() };
        for (i, argument) in call.arguments.iter().enumerate() {
            let mut add = |tensor: &Tensor, nr: Option<usize>| {
                if tensor.requires_grad() {
                    call.places.push((i, nr));
                    call.inputs.push(tensor.clone());
                }
            };
            match argument {
                IValue::Tensor(tensor) => add(tensor, None),
                IValue::TensorList(list) => {
                    list.iter().enumerate().for_each(|(nr, tensor)| add(tensor, Some(nr)));
                }
                _ => {}
            }
        }
        call
    }

    pub(crate) fn name(&self) -> String {
        self.op.schema().full_name()
    }

    pub(crate) fn inputs(&self) -> &[Tensor] {
        &self.inputs
    }

    /// The same call of the in-place form, if there is one and `self` is differentiable.
    pub(crate) fn inplace(&self) -> Option<Self> {
        let schema = self.op.schema();
        let overload = match schema.overload.as_str() {
            "" => String::new(),
            overload => format!(".{overload}"),
        };
        let op = registry::find(&format!("aten::{}_{overload}", schema.name))?;
        let same = op.schema().arguments.len() == self.arguments.len();
        let of_self = self.places.first() == Some(&(0, None));
        (same && of_self).then(|| Self::new(op, self.arguments.clone()))
    }

    /// The same call on the meta device: with other tensors in place of all its own.
    pub(crate) fn on_meta(&self, replace: &dyn Fn(&Tensor) -> Result<Tensor>) -> Result<Self> {
        let one = |tensor: &Tensor| match tensor.defined() {
            true => replace(tensor),
            false => Ok(tensor.clone()),
        };
        let argument = |(value, declared): (&IValue, &Argument)| -> Result<IValue> {
            Ok(match value {
                IValue::None if declared.name == "device" => IValue::Device(Device::META),
                IValue::Tensor(tensor) => IValue::Tensor(one(tensor)?),
                IValue::TensorList(list) => {
                    IValue::TensorList(list.iter().map(one).collect::<Result<_>>()?)
                }
                IValue::OptionalTensorList(list) => IValue::OptionalTensorList(
                    list.iter().map(|t| t.as_ref().map(one).transpose()).collect::<Result<_>>()?,
                ),
                other => other.clone(),
            })
        };
        let declared = &self.op.schema().arguments;
        let arguments = self.arguments.iter().zip(declared).map(argument).collect::<Result<_>>()?;
        Ok(Self { op: self.op, arguments, places: Vec::new(), inputs: Vec::new() })
    }

    /// Calls the operator with the arguments that it was made with.
    pub(crate) fn run_as_given(&self) -> Result<Vec<Tensor>> {
        self.run(&[])
    }

    /// Calls the operator with other differentiable tensors; returns the tensors of the result.
    pub(crate) fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut arguments = self.arguments.clone();
        for (&(i, nr), input) in self.places.iter().zip(inputs) {
            match (&mut arguments[i], nr) {
                (IValue::Tensor(slot), None) => *slot = input.clone(),
                (IValue::TensorList(list), Some(nr)) => list[nr] = input.clone(),
                _ => bail!(Internal, "not a tensor"),
            }
        }
        let mut stack: Stack = arguments.into_iter().collect();
        self.op.call_boxed(&mut stack)?;
        let mut results = Vec::new();
        for value in stack.iter() {
            value.for_each_tensor(&mut |tensor| results.push(tensor.clone()));
        }
        Ok(results)
    }
}

/// How the elements of sampled tensors lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrangement {
    /// In order, without gaps.
    Dense,
    /// In order, with a gap after every element.
    Gaps,
    /// The first dimension is the innermost.
    Reversed,
}

impl Arrangement {
    pub(crate) const ALL: [Self; 3] = [Self::Dense, Self::Gaps, Self::Reversed];

    fn arrange(self, tensor: &Tensor) -> Result<Tensor> {
        let rank = tensor.dim() as i64;
        if rank == 0 || self == Self::Dense {
            return Ok(tensor.clone());
        }
        if self == Self::Gaps {
            let doubled = op::repeat_interleave_self_int(tensor, 2, Some(rank - 1), None)?;
            return op::slice_tensor(&doubled, rank - 1, None, None, 2);
        }
        let reversed: Vec<i64> = (0..rank).rev().collect();
        let turned = op::contiguous(&op::permute(tensor, &reversed)?, MemoryFormat::Contiguous)?;
        op::permute(&turned, &reversed)
    }
}

/// Makes arguments of one dtype.
pub(crate) struct Sampler {
    dtype: DType,
    arrangement: Arrangement,
    made: std::cell::Cell<usize>,
}

impl Sampler {
    pub(crate) fn new(dtype: DType, arrangement: Arrangement) -> Self {
        Self { dtype, arrangement, made: std::cell::Cell::new(0) }
    }

    /// A tensor that requires a gradient, with distinct values between `low` and `high`.
    fn tensor(&self, sizes: &[i64], low: f64, high: f64) -> Result<Tensor> {
        let nr = self.made.replace(self.made.get() + 1);
        let count: i64 = sizes.iter().product();
        // A permutation of equally spaced values: distinct, and in no order.
        let step = (high - low) / (count.max(1) as f64 + 1.0);
        let stride = [5, 7, 11, 13, 17].into_iter().find(|s| count % s != 0).unwrap_or(1);
        let value = |i: i64| {
            let place = (i * stride + nr as i64 * 3) % count.max(1);
            low + step * (place as f64 + 0.5 + 0.31 * ((nr % 3) as f64))
        };
        self.filled(sizes, &(0..count).map(value).collect::<Vec<_>>())
    }

    fn filled(&self, sizes: &[i64], values: &[f64]) -> Result<Tensor> {
        let real = detached_tensor(DType::Float64, sizes, values)?;
        let tensor = if self.dtype.is_complex() {
            let imaginary: Vec<f64> = values.iter().rev().map(|value| 0.6 * value - 0.1).collect();
            op::complex(&real, &detached_tensor(DType::Float64, sizes, &imaginary)?)?
        } else {
            real
        };
        op::detach(&self.arrangement.arrange(&tensor)?)?.requires_grad_(true)
    }

    pub(crate) fn by_schema(&self, op: &'static dyn AnyOp) -> Result<Call> {
        let arguments = op.schema().arguments.iter().map(|argument| self.argument(argument));
        Ok(Call::new(op, arguments.collect::<Result<_>>()?))
    }

    fn argument(&self, argument: &Argument) -> Result<IValue> {
        if let Some(default) = &argument.default {
            return self.default(default, &argument.ty);
        }
        self.required(argument.ty.bare())
    }

    fn required(&self, ty: &Type) -> Result<IValue> {
        Ok(match ty {
            Type::Base(BaseType::Tensor) => self.tensor(&[2, 3], 0.15, 0.95)?.into(),
            Type::Base(BaseType::Scalar) => Scalar::Float(0.7).into(),
            Type::Base(BaseType::ScalarType) => DType::Float64.into(),
            Type::Base(BaseType::Int | BaseType::SymInt) => 1_i64.into(),
            Type::Base(BaseType::Float) => 0.3.into(),
            Type::Base(BaseType::Bool) => false.into(),
            Type::Optional(_) => IValue::None,
            Type::List(inner, _) => match inner.bare() {
                Type::Base(BaseType::Tensor) => {
                    let pair = [self.tensor(&[2, 3], 0.1, 0.9)?, self.tensor(&[2, 3], 0.1, 0.9)?];
                    pair.as_slice().into()
                }
                _ => IValue::IntList([0].as_slice().into()),
            },
            other => bail!(Value, "no sample for {other:?}"),
        })
    }

    fn default(&self, value: &Value, ty: &Type) -> Result<IValue> {
        let base = match ty.bare() {
            Type::Optional(inner) => inner.bare(),
            other => other,
        };
        Ok(match (value, base) {
            (Value::None, _) => IValue::None,
            (Value::Bool(flag), _) => (*flag).into(),
            (Value::Int(number), Type::List(..)) => [*number].as_slice().into(),
            (Value::Int(_), Type::Base(BaseType::MemoryFormat)) => MemoryFormat::Contiguous.into(),
            (Value::Int(_), Type::Base(BaseType::Layout)) => Layout::Strided.into(),
            (Value::Int(number), Type::Base(BaseType::Float)) => (*number as f64).into(),
            (Value::Int(number), _) => (*number).into(),
            (Value::Float(text), _) => {
                text.parse::<f64>().map_err(|error| err!(Value, "{error}"))?.into()
            }
            (Value::Str(text), _) => text.trim_matches(['"', '\'']).into(),
            (Value::List(list), Type::List(inner, _)) => match inner.bare() {
                Type::Base(BaseType::Bool) => {
                    let flag = |value: &Value| *value == Value::Bool(true);
                    list.iter().map(flag).collect::<Vec<_>>().into()
                }
                _ => {
                    let number = |value: &Value| if let Value::Int(n) = value { *n } else { 0 };
                    list.iter().map(number).collect::<Vec<_>>().into()
                }
            },
            (Value::Name(name), Type::Base(BaseType::MemoryFormat)) => match name.as_str() {
                "preserve_format" => MemoryFormat::Preserve.into(),
                _ => MemoryFormat::Contiguous.into(),
            },
            (Value::Name(name), _) if name == "Mean" => 1_i64.into(),
            (other, _) => bail!(Value, "no sample for the default {other:?}"),
        })
    }

    /// Arguments written as text, separated by spaces; what is missing takes its default.
    ///
    /// `f2x3` a tensor, `f2x3:-1:1` with values in that range, `=1,2,0` a vector of these values,
    /// `i=0,2` integers, `i2x2=0,1,1,0` with a shape, `j…` likewise of 32 bits, `b=1,0,1` a mask,
    /// `l(f2,f3)` a list, `o(_,i=0)` a list with gaps, `[1,2]` integers, `"sum"` a string, `true`, `3`, `0.5`, `_`
    /// nothing, `name:…` an argument by name. `c…` is a tensor without gradient.
    pub(crate) fn by_text(&self, op: &'static dyn AnyOp, text: &str) -> Result<Call> {
        let declared = &op.schema().arguments;
        let mut given: Vec<Option<IValue>> = declared.iter().map(|_| None).collect();
        for (i, word) in text.split_whitespace().enumerate() {
            let named = word.split_once(':').and_then(|(name, value)| {
                let place = declared.iter().position(|argument| argument.name == name)?;
                Some((place, value))
            });
            let (place, value) = named.unwrap_or((i, word));
            let Some(argument) = declared.get(place) else {
                bail!(Value, "too many arguments");
            };
            given[place] = Some(self.word(value, argument.ty.bare())?);
        }
        let fill = |(given, argument): (Option<IValue>, &Argument)| match given {
            Some(value) => Ok(value),
            None => self.argument(argument),
        };
        let arguments = given.into_iter().zip(declared).map(fill).collect::<Result<_>>()?;
        Ok(Call::new(op, arguments))
    }

    fn word(&self, word: &str, ty: &Type) -> Result<IValue> {
        let inner = |prefix: &str| {
            let list = word.strip_prefix(prefix)?.strip_suffix(')')?;
            Some(list.split(';').map(|part| self.parse_tensor(part)).collect::<Result<Vec<_>>>())
        };
        if word == "_" {
            return Ok(IValue::None);
        }
        if let Some(list) = inner("l(") {
            let list: Vec<Tensor> = list?.into_iter().flatten().collect();
            return Ok(list.into());
        }
        if let Some(list) = inner("o(") {
            return Ok(list?.into());
        }
        if let Some(list) = word.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return numbers(list, ty);
        }
        if let Some(text) = word.strip_prefix('"') {
            return Ok(text.trim_end_matches('"').into());
        }
        if let "true" | "false" = word {
            return Ok((word == "true").into());
        }
        if word == "float64" {
            return Ok(DType::Float64.into());
        }
        if let Ok(number) = word.parse::<i64>() {
            let float = matches!(ty, Type::Base(BaseType::Float));
            return Ok(if float { (number as f64).into() } else { number.into() });
        }
        if let Ok(number) = word.parse::<f64>() {
            return Ok(number.into());
        }
        match self.parse_tensor(word)? {
            Some(tensor) => Ok(tensor.into()),
            None => Ok(IValue::None),
        }
    }

    fn parse_tensor(&self, word: &str) -> Result<Option<Tensor>> {
        if word == "_" {
            return Ok(None);
        }
        // A leading `=` is a tensor of the sampled kind.
        let (kind, word) = match word.strip_prefix('=') {
            Some(_) => ("f", word),
            None => word.split_at(1),
        };
        let (shape, rest) = word.split_at(word.find(['=', ':']).unwrap_or(word.len()));
        let parse = |text: &str| {
            text.parse::<f64>().map_err(|error| err!(Value, "{text:?} in {word}: {error}"))
        };
        let mut sizes: Vec<i64> =
            shape.split('x').filter(|s| !s.is_empty()).map(|s| s.parse().unwrap_or(0)).collect();
        if let Some(range) = rest.strip_prefix(':') {
            let (low, high) = range.split_once(':').unwrap_or((range, "1"));
            return self.tensor(&sizes, parse(low)?, parse(high)?).map(Some);
        }
        let Some(list) = rest.strip_prefix('=') else {
            let tensor = self.tensor(&sizes, 0.15, 0.95)?;
            return if kind == "c" { op::detach(&tensor).map(Some) } else { Ok(Some(tensor)) };
        };
        let values =
            list.split(',').filter(|s| !s.is_empty()).map(parse).collect::<Result<Vec<_>>>()?;
        // `cs=4` is of rank 0, `c=4` a vector.
        if shape != "s" && sizes.is_empty() {
            sizes = vec![values.len() as i64];
        }
        if shape == "s" {
            sizes.clear();
        }
        Ok(Some(match kind {
            "i" => detached_tensor(DType::Int64, &sizes, &values)?,
            "j" => detached_tensor(DType::Int32, &sizes, &values)?,
            "b" => detached_tensor(DType::Bool, &sizes, &values)?,
            "c" => detached_tensor(DType::Float64, &sizes, &values)?,
            _ => self.filled(&sizes, &values)?,
        }))
    }
}

fn numbers(list: &str, ty: &Type) -> Result<IValue> {
    let base = match ty {
        Type::Optional(inner) => inner.bare(),
        other => other,
    };
    let words = list.split(',').filter(|word| !word.is_empty());
    let element = match base {
        Type::List(inner, _) => inner.bare(),
        other => other,
    };
    Ok(match element {
        Type::Base(BaseType::Bool) => words.map(|word| word == "true").collect::<Vec<_>>().into(),
        Type::Base(BaseType::Float) => {
            words.map(|word| word.parse().unwrap_or(f64::NAN)).collect::<Vec<f64>>().into()
        }
        _ => words.map(|word| word.parse().unwrap_or(i64::MIN)).collect::<Vec<i64>>().into(),
    })
}

/// A tensor without gradient.
fn detached_tensor(dtype: DType, sizes: &[i64], values: &[f64]) -> Result<Tensor> {
    let base = corten_core::TensorBase::empty(sizes, DType::Float64)?;
    let tensor = Tensor::from(base);
    Writer::<f64>::new(&tensor)?.copy_from_slice(values);
    op::to_dtype(&tensor, dtype, false, false, None)
}
