//! Signatures: parameters with kinds, defaults and aliases, read from schema text.

use crate::py::ffi;
use corten_core::{DType, Layout, MemoryFormat};
use corten_ops::IValue;
use std::ffi::CString;

/// What a parameter accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParamKind {
    Tensor,
    TensorList,
    OptionalTensorList,
    Scalar,
    ScalarList,
    Int,
    IntList,
    Float,
    FloatList,
    Complex,
    Bool,
    BoolList,
    Str,
    DType,
    Layout,
    MemoryFormat,
    Device,
    Generator,
    Storage,
    Stream,
    Object,
}

impl ParamKind {
    /// The kind of a schema type such as `int[2]?` or `Tensor(a!)`, with the list length if any.
    pub(crate) fn from_schema(text: &str) -> Option<(Self, u8, bool)> {
        let mut base = String::new();
        let mut depth = 0;
        for c in text.chars() {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ if depth == 0 => base.push(c),
                _ => {}
            }
        }
        let nullable = base.ends_with('?');
        let base = base.trim_end_matches('?');
        if let Some(open) = base.find('[') {
            let count = base[open + 1..].trim_end_matches(']').parse().unwrap_or(0);
            let kind = match &base[..open] {
                "Tensor" => Self::TensorList,
                "Tensor?" => Self::OptionalTensorList,
                "int" | "SymInt" => Self::IntList,
                "float" => Self::FloatList,
                "bool" => Self::BoolList,
                "Scalar" => Self::ScalarList,
                _ => return None,
            };
            return Some((kind, count, nullable));
        }
        let kind = match base {
            "Tensor" => Self::Tensor,
            "Scalar" => Self::Scalar,
            "int" | "SymInt" => Self::Int,
            "float" => Self::Float,
            "complex" => Self::Complex,
            "bool" => Self::Bool,
            "str" => Self::Str,
            "ScalarType" => Self::DType,
            "Layout" => Self::Layout,
            "MemoryFormat" => Self::MemoryFormat,
            "Device" => Self::Device,
            "Generator" => Self::Generator,
            "Storage" => Self::Storage,
            "Stream" => Self::Stream,
            "any" => Self::Object,
            _ => return None,
        };
        Some((kind, 0, nullable))
    }

    /// The name that messages print.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tensor => "Tensor",
            Self::TensorList | Self::OptionalTensorList => "tuple of Tensors",
            Self::Scalar => "Number",
            Self::ScalarList => "tuple of Scalars",
            Self::Int => "int",
            Self::IntList => "tuple of ints",
            Self::Float => "float",
            Self::FloatList => "tuple of floats",
            Self::Complex => "complex",
            Self::Bool => "bool",
            Self::BoolList => "tuple of bools",
            Self::Str => "str",
            Self::DType => "torch.dtype",
            Self::Layout => "torch.layout",
            Self::MemoryFormat => "torch.memory_format",
            Self::Device => "torch.device",
            Self::Generator => "torch.Generator",
            Self::Storage => "torch.Storage",
            Self::Stream => "Stream",
            Self::Object => "object",
        }
    }
}

/// An interned string that lives as long as the process.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interned(*mut ffi::PyObject);

// SAFETY: the object is immutable, immortal in effect, and used with the lock held.
unsafe impl Send for Interned {}
// SAFETY: as above.
unsafe impl Sync for Interned {}

impl Interned {
    /// Interns the text.
    pub(crate) fn new(text: &str) -> Self {
        let text = CString::new(text).unwrap_or_default();
        // SAFETY: the text is terminated; the reference is kept for ever.
        Self(unsafe { ffi::PyUnicode_InternFromString(text.as_ptr()) })
    }

    /// The string object.
    pub(crate) fn as_ptr(self) -> *mut ffi::PyObject {
        self.0
    }
}

/// A parameter.
pub(crate) struct Param {
    /// The name, as text and as an interned string.
    pub(crate) name: String,
    pub(crate) interned: Interned,
    /// NumPy's names for it.
    pub(crate) aliases: Vec<Interned>,
    pub(crate) kind: ParamKind,
    /// The fixed length of a list; a single number stands for that many.
    pub(crate) count: u8,
    /// Integers that PyTorch calls symbolic: whatever `operator.index` takes.
    pub(crate) symbolic: bool,
    /// There is a default, so the argument may be left out.
    pub(crate) optional: bool,
    /// `None` may be given: the default.
    pub(crate) nullable: bool,
    pub(crate) keyword_only: bool,
    /// A Python number may stand for the tensor.
    pub(crate) numbers: bool,
    /// The default as messages print it.
    pub(crate) default_text: Option<String>,
    /// The default as the dispatcher takes it.
    pub(crate) default: IValue,
}

impl Param {
    /// Reads `type name=default`.
    pub(crate) fn from_text(text: &str, keyword_only: bool) -> Option<Self> {
        let (declaration, default) = match split_default(text) {
            (declaration, Some(default)) => (declaration, Some(default.trim())),
            (declaration, None) => (declaration, None),
        };
        let (ty, name) = declaration.trim().rsplit_once(' ')?;
        let (kind, count, nullable) = ParamKind::from_schema(ty.trim())?;
        let mut param = Self::new(name, kind, count, nullable, keyword_only, default);
        param.symbolic = ty.contains("SymInt");
        Some(param)
    }

    /// A parameter from its parts.
    pub(crate) fn new(
        name: &str,
        kind: ParamKind,
        count: u8,
        nullable: bool,
        keyword_only: bool,
        default: Option<&str>,
    ) -> Self {
        let aliases = match name {
            "dim" => &["axis"][..],
            "keepdim" => &["keepdims"],
            "input" => &["x", "a", "x1"],
            "other" => &["x2"],
            _ => &[],
        };
        Self {
            name: name.to_owned(),
            interned: Interned::new(name),
            aliases: aliases.iter().map(|alias| Interned::new(alias)).collect(),
            kind,
            count,
            symbolic: false,
            optional: default.is_some(),
            // An empty list stands for what `None` says, and PyTorch takes that, too.
            nullable: nullable || matches!(default, Some("None" | "[]")),
            keyword_only,
            numbers: false,
            default_text: default.map(|text| printed_default(kind, text)),
            default: default.map_or(IValue::None, |text| default_value(kind, count, text)),
        }
    }
}

/// A signature: the parameters of one overload as Python sees them.
pub(crate) struct Signature {
    pub(crate) function: String,
    pub(crate) params: Vec<Param>,
    /// Left out of the list that an error message prints.
    pub(crate) hidden: bool,
    /// How many parameters may be positional.
    pub(crate) max_positional: usize,
    /// How many arguments at least.
    pub(crate) required: usize,
}

impl Signature {
    /// A signature of these parameters.
    pub(crate) fn new(function: &str, params: Vec<Param>) -> Self {
        Self {
            function: function.to_owned(),
            max_positional: params.iter().filter(|param| !param.keyword_only).count(),
            required: params.iter().filter(|param| !param.optional).count(),
            hidden: false,
            params,
        }
    }

    /// Reads `name(type name=default, *, …)`. A text that is no signature has no parameters.
    pub(crate) fn from_text(text: &str) -> Self {
        let (function, rest) = text.split_once('(').unwrap_or((text, ")"));
        let list = rest.rsplit_once(')').map_or(rest, |(list, _)| list);
        let mut params = Vec::new();
        let mut keyword_only = false;
        for argument in split_arguments(list) {
            if argument == "*" {
                keyword_only = true;
            } else if let Some(param) = Param::from_text(argument, keyword_only) {
                params.push(param);
            } else {
                debug_assert!(false, "not a parameter: {argument} in {text}");
            }
        }
        Self::new(function.trim(), params)
    }

    /// The parameter list as messages print it.
    pub(crate) fn display(&self) -> String {
        let mut text = String::from("(");
        let mut starred = false;
        for (index, param) in self.params.iter().enumerate() {
            if index > 0 {
                text.push_str(", ");
            }
            if param.keyword_only && !starred {
                text.push_str("*, ");
                starred = true;
            }
            text.push_str(param.kind.name());
            text.push(' ');
            text.push_str(&param.name);
            if let Some(default) = &param.default_text {
                text.push_str(" = ");
                text.push_str(default);
            }
        }
        text.push(')');
        text
    }
}

/// Splits an argument list at its top-level commas.
pub(crate) fn split_arguments(list: &str) -> Vec<&str> {
    let (mut depth, mut quote, mut start) = (0_i32, None, 0);
    let mut parts = Vec::new();
    for (at, c) in list.char_indices() {
        match (quote, c) {
            (Some(open), _) if open == c => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(' | '[') => depth += 1,
            (None, ')' | ']') => depth -= 1,
            (None, ',') if depth == 0 => {
                parts.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = list[start..].trim();
    if !last.is_empty() {
        parts.push(last);
    }
    parts
}

/// Splits `int dim=0` at the equals sign that is not inside brackets.
fn split_default(text: &str) -> (&str, Option<&str>) {
    let mut depth = 0_i32;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '=' if depth == 0 => return (&text[..at], Some(&text[at + 1..])),
            _ => {}
        }
    }
    (text, None)
}

fn printed_default(kind: ParamKind, text: &str) -> String {
    match text {
        _ if kind == ParamKind::DType => "None".to_owned(),
        "contiguous_format" => "torch.contiguous_format".to_owned(),
        "preserve_format" => "torch.preserve_format".to_owned(),
        "[]" => "()".to_owned(),
        other => other.to_owned(),
    }
}

/// The value of a default in the schema language.
pub(crate) fn default_value(kind: ParamKind, count: u8, text: &str) -> IValue {
    if text == "None" {
        return IValue::None;
    }
    let numbers = || {
        split_arguments(text.trim_start_matches(['[', '(']).trim_end_matches([']', ')']))
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let repeated = |items: Vec<String>| {
        // Bounded: what the schema says.
        if items.len() == 1 && count > 1 { vec![items[0].clone(); count as usize] } else { items }
    };
    match kind {
        ParamKind::IntList => {
            let items = repeated(numbers());
            IValue::IntList(items.iter().filter_map(|item| item.parse().ok()).collect())
        }
        ParamKind::FloatList => {
            IValue::DoubleList(numbers().iter().filter_map(|item| item.parse().ok()).collect())
        }
        ParamKind::BoolList => IValue::BoolList(
            repeated(numbers()).iter().map(|item| item.eq_ignore_ascii_case("true")).collect(),
        ),
        ParamKind::ScalarList => IValue::ScalarList(Vec::new()),
        ParamKind::TensorList => IValue::TensorList(Vec::new()),
        ParamKind::OptionalTensorList => IValue::OptionalTensorList(Vec::new()),
        ParamKind::Bool => IValue::Bool(text.eq_ignore_ascii_case("true")),
        ParamKind::Int => enum_or_int(text),
        ParamKind::Float => text.parse().map_or(IValue::None, IValue::Double),
        ParamKind::Scalar | ParamKind::Complex => scalar_default(text),
        ParamKind::Str => IValue::String(text.trim_matches(['\'', '"']).into()),
        ParamKind::MemoryFormat => IValue::MemoryFormat(match text {
            "preserve_format" => MemoryFormat::Preserve,
            _ => MemoryFormat::Contiguous,
        }),
        ParamKind::Layout => IValue::Layout(Layout::Strided),
        ParamKind::DType => match (text, text.parse()) {
            ("long", _) => IValue::DType(DType::Int64),
            (_, Ok(number)) => DType::from_number(number).map_or(IValue::None, IValue::DType),
            _ => DType::from_name(text).map_or(IValue::None, IValue::DType),
        },
        _ => IValue::None,
    }
}

fn enum_or_int(text: &str) -> IValue {
    match text {
        "Mean" => IValue::Int(1),
        "Sum" => IValue::Int(2),
        _ => text.parse().map_or(IValue::None, IValue::Int),
    }
}

fn scalar_default(text: &str) -> IValue {
    if let Ok(value) = text.parse::<i64>() {
        return IValue::Int(value);
    }
    match text {
        "True" | "true" => IValue::Bool(true),
        "False" | "false" => IValue::Bool(false),
        _ => text.parse().map_or(IValue::None, IValue::Double),
    }
}
