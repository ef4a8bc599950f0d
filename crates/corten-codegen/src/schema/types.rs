//! The types of the schema language.

/// A type with its alias annotations.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// A type without parts.
    Base(BaseType),
    /// `T?`.
    Optional(Box<Type>),
    /// `T[]` or, where one element stands for all, `T[n]`.
    List(Box<Type>, Option<usize>),
    /// `(T, U)`.
    Tuple(Vec<Type>),
    /// `Dict(K, V)`, `Future(T)`: a named type with parameters.
    Generic(String, Vec<Type>),
    /// `T(a!)`: what the value shares memory with.
    Aliased(Box<Type>, Alias),
}

/// A type without parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BaseType {
    /// `Tensor`.
    Tensor,
    /// `Scalar`: a number of any kind.
    Scalar,
    /// `int`.
    Int,
    /// `SymInt`: an integer that a tracer may leave open.
    SymInt,
    /// `float`.
    Float,
    /// `bool`.
    Bool,
    /// `str`.
    Str,
    /// `complex`.
    Complex,
    /// `Device`.
    Device,
    /// `Layout`.
    Layout,
    /// `MemoryFormat`.
    MemoryFormat,
    /// `ScalarType`: a dtype.
    ScalarType,
    /// `Generator`.
    Generator,
    /// `Storage`.
    Storage,
    /// Any other name: type variables, script classes.
    Named(String),
}

/// An alias annotation: `(a)`, `(a!)`, `(a -> *)`, `(a|b)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The sets that the value belongs to; `*` is every set.
    pub before: Vec<String>,
    /// Whether the value is written to.
    pub write: bool,
    /// The sets after the call, where they differ.
    pub after: Option<Vec<String>>,
}

impl Alias {
    /// Whether two values may share memory.
    pub fn meets(&self, other: &Alias) -> bool {
        self.before.iter().any(|set| other.before.contains(set))
    }
}

const BASE_TYPES: [(&str, BaseType); 14] = [
    ("Tensor", BaseType::Tensor),
    ("Scalar", BaseType::Scalar),
    ("int", BaseType::Int),
    ("SymInt", BaseType::SymInt),
    ("float", BaseType::Float),
    ("bool", BaseType::Bool),
    ("str", BaseType::Str),
    ("complex", BaseType::Complex),
    ("Device", BaseType::Device),
    ("Layout", BaseType::Layout),
    ("MemoryFormat", BaseType::MemoryFormat),
    ("ScalarType", BaseType::ScalarType),
    ("Generator", BaseType::Generator),
    ("Storage", BaseType::Storage),
];

impl BaseType {
    /// The type of that name.
    pub fn named(name: &str) -> Self {
        match BASE_TYPES.iter().find(|(known, _)| *known == name) {
            Some((_, base)) => base.clone(),
            None => Self::Named(name.to_owned()),
        }
    }

    /// The name in schemas.
    pub fn name(&self) -> &str {
        match self {
            Self::Named(name) => name,
            known => BASE_TYPES.iter().find(|(_, base)| base == known).map_or("", |(name, _)| name),
        }
    }
}

impl Type {
    /// The alias annotation, wherever in the type it stands.
    pub fn alias(&self) -> Option<&Alias> {
        match self {
            Self::Aliased(_, alias) => Some(alias),
            Self::Optional(inner) | Self::List(inner, _) => inner.alias(),
            Self::Tuple(parts) | Self::Generic(_, parts) => parts.iter().find_map(Self::alias),
            Self::Base(_) => None,
        }
    }

    /// The type below its outermost alias annotation.
    pub fn bare(&self) -> &Type {
        match self {
            Self::Aliased(inner, _) => inner.bare(),
            other => other,
        }
    }

    /// The type without any alias annotation.
    pub fn without_alias(&self) -> Type {
        match self {
            Self::Aliased(inner, _) => inner.without_alias(),
            Self::Optional(inner) => Self::Optional(Box::new(inner.without_alias())),
            Self::List(inner, size) => Self::List(Box::new(inner.without_alias()), *size),
            Self::Tuple(parts) => Self::Tuple(parts.iter().map(Self::without_alias).collect()),
            Self::Generic(name, parts) => {
                Self::Generic(name.clone(), parts.iter().map(Self::without_alias).collect())
            }
            Self::Base(base) => Self::Base(base.clone()),
        }
    }

    /// Whether this is a list, which may be absent.
    pub fn is_list(&self) -> bool {
        match self {
            Self::List(..) => true,
            Self::Optional(inner) | Self::Aliased(inner, _) => inner.is_list(),
            _ => false,
        }
    }

    /// Whether this is `Tensor`.
    pub fn is_tensor(&self) -> bool {
        matches!(self.bare(), Self::Base(BaseType::Tensor))
    }

    /// Whether this is `Tensor`, `Tensor?`, `Tensor[]` or `Tensor?[]`.
    pub fn holds_tensors(&self) -> bool {
        match self.bare() {
            Self::Optional(inner) | Self::List(inner, _) => inner.holds_tensors(),
            other => other.is_tensor(),
        }
    }

    /// The type below one `?`.
    pub fn unwrap_optional(&self) -> Option<&Type> {
        match self.bare() {
            Self::Optional(inner) => Some(inner.bare()),
            _ => None,
        }
    }
}
