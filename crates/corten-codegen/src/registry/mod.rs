//! The operator registry: what `ops/*.toml` declares, checked and completed.

mod check;
mod derive;
mod file;
mod irregular;
mod missing;
mod read;
mod selection;

pub use derive::{inplace_of, out_of};
pub use missing::{Missing, missing};

pub(crate) use self::read::NAMED_BY_SPACE;
use crate::formula::Formula;
use crate::rust::camel;
use crate::schema::Schema;
use serde::Deserialize;
use std::fmt;
use std::path::Path;

/// Everything that is declared.
#[derive(Debug, Default)]
pub struct Registry {
    /// The operators, family by family in the order of their files' names.
    pub ops: Vec<Op>,
}

/// Where something is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The file, such as `ops/reduce.toml`.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// How the work of an operator grows with the elements of its arguments; `corten_ops` has the same.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Cost {
    /// With their number.
    #[default]
    Stream,
    /// Faster, as in products of matrices.
    Product,
}

/// The dtype that automatic casts give an operator's floating-point arguments; `corten_ops` has the same.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Autocast {
    /// The thread's lower precision.
    Lower,
    /// `float32`.
    Float32,
    /// The widest of the arguments' and the lower precision.
    Widest,
}

/// How `uint64` is computed with the bits of `int64`; `corten_ops` has the same.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Uint64 {
    /// The same modulo 2^64.
    Modular,
    /// By the order of elements.
    Ordered,
    /// A quotient that is rounded.
    Quotient,
    /// What a quotient leaves.
    Remainder,
    /// A quotient by a power of two.
    Shift,
}

/// A mistake in a declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where.
    pub location: Location,
    /// The schema, where there is one.
    pub schema: String,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.message)?;
        if !self.schema.is_empty() {
            write!(f, "\n    in {}", self.schema)?;
        }
        Ok(())
    }
}

/// Which forms of an operator there are beside the declared one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variants {
    /// A function of the Python module.
    pub function: bool,
    /// A method of `Tensor`.
    pub method: bool,
    /// `add_` is derived.
    pub inplace: bool,
    /// `add.out` is derived.
    pub out: bool,
    /// `view_copy` is derived from `view`, as an operator of its own.
    pub copy: bool,
}

/// One `[[op]]`.
#[derive(Debug)]
pub struct Op {
    /// The line of its schema.
    pub location: Location,
    /// The name of its file without ending: `reduce`.
    pub family: String,
    /// The feature of the CPU crate without which its kernels are absent.
    pub feature: Option<String>,
    /// The forms that a selective build leaves out.
    pub left_out: Vec<Form>,
    /// The namespace: `aten`, or the one that the declared schema names.
    pub namespace: String,
    /// The declared schema, without its namespace.
    pub schema: Schema,
    /// The derived in-place schema.
    pub inplace: Option<Schema>,
    /// The derived out schema.
    pub out: Option<Schema>,
    /// Which forms there are.
    pub variants: Variants,
    /// Python homes beside the module and `Tensor`.
    pub python: Vec<String>,
    /// How it is computed.
    pub body: Body,
    /// How its gradient is computed.
    pub grad: Grad,
    /// The node's name where it is not derived.
    pub node: Option<String>,
    /// How the gradient of the in-place form is computed where that is another way.
    pub grad_inplace: Option<Grad>,
    /// The name of the in-place form's node where it is another.
    pub node_inplace: Option<String>,
    /// Whether the derived out form takes only an output of the result's dtype.
    pub exact_out: bool,
    /// The operator's own words where an output has a dtype that the derived out form does not take:
    /// `{expected}` and `{got}` stand for the dtypes, `{result}` for the result's name.
    pub out_error: Option<String>,
    /// Whether the derived out form of a composite operator leaves the result's history in the output,
    /// where the others refuse arguments that require gradients.
    pub out_history: bool,
    /// How it runs on batches: a function of `corten_ops::batched::rules`. Without one, item by
    /// item, or as other pointwise operators.
    pub batch: Option<String>,
    /// How the names of its results follow: a function of `corten_ops::names::rules`. Without one,
    /// pointwise operators unify names, and others refuse them.
    pub names: Option<String>,
    /// How its work grows with its arguments.
    pub cost: Cost,
    /// What automatic casts do to the arguments of the declared form.
    pub autocast: Option<Autocast>,
    /// The same on GPUs.
    pub autocast_cuda: Option<Autocast>,
    /// Tensor arguments that hold positions, counts or truth values: they never require a gradient.
    pub nondiff: Vec<String>,
    /// Sets that it belongs to.
    pub tags: Vec<String>,
    /// Whether a Python number may stand for a tensor argument.
    pub numbers: bool,
    /// How `uint64` is computed with the bits of `int64`.
    pub uint64: Option<Uint64>,
    /// Parameter lists that Python accepts with a warning.
    pub deprecated: Vec<String>,
    /// Functions of `corten_ops::any` for further dispatch keys, as pairs of key and path.
    pub any_at: Vec<(String, String)>,
    /// Kernels of the CPU crate for further dispatch keys, as pairs of key and path.
    pub kernel_at: Vec<(String, String)>,
    /// What computes it where a tensor is in coordinate format: paths below `corten_ops::sparse`.
    pub sparse: Option<Paths>,
    /// The same where a tensor is in one of the compressed layouts.
    pub sparse_csr: Option<Paths>,
    /// What computes the declared, the in-place and the out form where a tensor is quantised: paths below
    /// `corten_ops::quantized`, or `itself`.
    pub quantized: [Option<String>; 3],
    /// The Rust method's name where it is not derived.
    pub rust: Option<String>,
    /// What it does.
    pub doc: String,
}

/// How an operator is computed.
#[derive(Debug)]
pub enum Body {
    /// Over an iterator, by a loop that is generated from an expression.
    Pointwise {
        /// The expression.
        expr: Formula,
        /// Shapes and dtypes.
        meta: MetaRule,
    },
    /// Over an iterator, by a hand-written loop.
    Iterator {
        /// The loop: a path below `corten_cpu::kernels`.
        kernel: String,
        /// Shapes and dtypes.
        meta: MetaRule,
    },
    /// By a function of the device crate.
    Kernel {
        /// A path below `corten_cpu::kernels`.
        kernel: String,
        /// The same for the in-place form.
        inplace: Option<String>,
        /// The same for the out form.
        out: Option<String>,
        /// What gives the result without its data.
        meta: Option<MetaKernel>,
    },
    /// By its kernels at further keys alone: those of sparse layouts and of quantised tensors.
    Sparse,
    /// By a function for all devices; the gradient is separate.
    Any(Paths),
    /// By calls of other operators, through which it is differentiable.
    Composite(Paths),
    /// By the same operator on tensors, into which its numbers are wrapped.
    WrapScalar,
    /// By the view operator with this schema, whose result is copied.
    CopyOf(Schema),
}

/// Hand-written functions for the forms of an operator.
#[derive(Debug, Clone)]
pub struct Paths {
    /// For the declared form.
    pub main: String,
    /// For the in-place form; without it the result is computed and copied.
    pub inplace: Option<String>,
    /// For the out form; without it the result is computed and copied.
    pub out: Option<String>,
}

/// What stands for a kernel on the meta device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetaKernel {
    /// A function: a path below `corten_ops::meta`.
    Function(String),
    /// The kernel, which stops before it looks at data.
    Itself,
}

/// Where the shapes and dtypes of an iterator operator come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetaRule {
    /// The rule of pointwise operators.
    Pointwise {
        /// How the computation's dtype follows from the inputs'.
        promote: &'static str,
        /// The dtypes accepted.
        domain: &'static str,
    },
    /// A function: a path below `corten_ops::meta`.
    Function(String),
}

/// How a gradient is computed.
#[derive(Clone, Debug)]
pub enum Grad {
    /// It is declared not to exist.
    None,
    /// The operator is a composite.
    Composite,
    /// The autograd crate has a kernel of its own for it.
    Manual,
    /// By one formula per argument.
    Formulas {
        /// The arguments' names and formulas, in schema order.
        formulas: Vec<(String, Formula)>,
        /// Which outputs are differentiable.
        outputs: u32,
    },
    /// By one formula for all arguments.
    Multi {
        /// The formula.
        formula: Formula,
        /// The arguments whose gradients it returns.
        args: Vec<String>,
        /// Which outputs are differentiable.
        outputs: u32,
    },
}

/// The schemas of one operator with the role of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As declared.
    Declared,
    /// The derived in-place form.
    Inplace,
    /// The derived out form.
    Out,
}

impl Op {
    /// The schemas: the declared one, then the derived ones.
    pub fn forms(&self) -> impl Iterator<Item = (Form, &Schema)> {
        let inplace = self.inplace.iter().map(|schema| (Form::Inplace, schema));
        let out = self.out.iter().map(|schema| (Form::Out, schema));
        std::iter::once((Form::Declared, &self.schema)).chain(inplace).chain(out)
    }

    /// Whether the loop runs over an iterator.
    pub fn is_iterator(&self) -> bool {
        matches!(self.body, Body::Pointwise { .. } | Body::Iterator { .. })
    }

    /// A form's schema as it is registered: without what its Rust name begins with.
    pub fn registered(&self, schema: &Schema) -> Schema {
        let prefix = format!("{}__", self.namespace);
        let name = schema.name.strip_prefix(&prefix).unwrap_or(&schema.name).to_owned();
        Schema { name, ..schema.clone() }
    }

    /// The name of its node: PyTorch's.
    pub fn shown_node(&self) -> String {
        let name = self.schema.name.strip_suffix("_forward").unwrap_or(&self.schema.name);
        let derived = || format!("{}Backward0", camel(name));
        self.node.clone().unwrap_or_else(derived)
    }

    /// How it runs on batches, where that is not item by item.
    pub fn batch_rule(&self) -> Option<&str> {
        let derived = match &self.body {
            Body::Pointwise { .. } => Some("pointwise"),
            Body::Iterator { meta: MetaRule::Pointwise { .. }, .. } => Some("pointwise"),
            _ => None,
        };
        self.batch.as_deref().or(derived)
    }

    /// How the names of its results follow, where it takes named tensors.
    pub fn names_rule(&self) -> Option<&str> {
        let derived = match &self.body {
            Body::Pointwise { .. } | Body::WrapScalar => Some("unify"),
            Body::Iterator { meta: MetaRule::Pointwise { .. }, .. } => Some("unify"),
            _ => None,
        };
        self.names.as_deref().or(derived)
    }

    /// The kind of implementation with its function, for tables.
    pub fn implementation(&self) -> String {
        match &self.body {
            Body::Pointwise { expr, .. } => format!("pointwise {expr}"),
            Body::Iterator { kernel, .. } => format!("iterator {kernel}"),
            Body::Kernel { kernel, .. } => format!("kernel {kernel}"),
            Body::Any(paths) => format!("any {}", paths.main),
            Body::Composite(paths) => format!("composite {}", paths.main),
            Body::WrapScalar => "composite wrap_scalar".to_owned(),
            Body::Sparse => "sparse".to_owned(),
            Body::CopyOf(view) => format!("copy of {}", view.full_name()),
        }
    }

    /// A mistake in this declaration.
    pub fn mistake(&self, message: impl Into<String>) -> Mistake {
        Mistake {
            location: self.location.clone(),
            schema: self.schema.to_string(),
            message: message.into(),
        }
    }
}

impl Registry {
    /// Reads every `*.toml` of a directory.
    ///
    /// # Errors
    /// Every mistake found, in the order of files and lines.
    pub fn read(directory: &Path) -> Result<Self, Vec<Mistake>> {
        let (registry, mut mistakes) = read::directory(directory);
        mistakes.extend(check::all(&registry));
        if mistakes.is_empty() { Ok(registry) } else { Err(mistakes) }
    }

    /// Reads every `*.toml` of a directory and keeps the operators without mistakes.
    pub fn read_sound(directory: &Path) -> (Self, Vec<Mistake>) {
        let (mut registry, mut mistakes) = read::directory(directory);
        let found = check::all(&registry);
        registry.ops.retain(|op| found.iter().all(|mistake| mistake.location != op.location));
        mistakes.extend(found);
        (registry, mistakes)
    }

    /// Reads one file's text; for tests.
    ///
    /// # Errors
    /// Every mistake found.
    pub fn from_text(file: &str, text: &str) -> Result<Self, Vec<Mistake>> {
        let mut registry = Self::default();
        let mut mistakes = Vec::new();
        read::file(file, text, &mut registry, &mut mistakes);
        mistakes.extend(check::all(&registry));
        if mistakes.is_empty() { Ok(registry) } else { Err(mistakes) }
    }

    /// The operators that have an overload of that name.
    pub fn overloads<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Op> {
        self.ops.iter().filter(move |op| op.schema.name == name)
    }

    /// For an operator with numbers where another has tensors: the other one, and for each of
    /// its arguments whether the number must be wrapped.
    pub fn tensor_overload(&self, op: &Op) -> Option<(&Op, Vec<bool>)> {
        self.ops
            .iter()
            .filter(|base| base.schema.name == op.schema.name)
            .find_map(|base| Some((base, derive::wrapped_arguments(&op.schema, &base.schema)?)))
    }
}
