//! Modules as PyTorch prints them.

use crate::module::{Item, Module, Visitor};
use std::fmt::Write;

/// A module and its parts as PyTorch's `print(module)` writes them.
///
/// ```
/// use corten::nn::describe;
/// use corten::prelude::*;
///
/// let net = Sequential::new().with(Linear::new(2, 3)?).with(Relu);
/// assert_eq!(
///     describe(&net),
///     "Sequential(\n  (0): Linear(in_features=2, out_features=3, bias=True)\n  (1): ReLU()\n)"
/// );
/// # Ok::<(), corten::Error>(())
/// ```
pub fn describe<M: Module + ?Sized>(module: &M) -> String {
    module.target().describe()
}

/// The children's names and texts.
pub(crate) fn children<M: Module + ?Sized>(module: &M) -> Vec<(String, String)> {
    let text = |(name, item)| match item {
        Item::Module(child) => Some((name, child.describe())),
        _ => None,
    };
    Visitor::parts(module).into_iter().filter_map(text).collect()
}

/// The text of a module from its settings and those of its children.
pub(crate) fn module(name: &str, settings: &str, children: &[(String, String)]) -> String {
    let mut lines: Vec<String> = if settings.is_empty() {
        vec![]
    } else {
        settings.split('\n').map(str::to_owned).collect()
    };
    if children.is_empty() && lines.len() < 2 {
        return format!("{name}({settings})");
    }
    lines.extend(children.iter().map(|(name, text)| format!("({name}): {}", indented(text))));
    format!("{name}(\n  {}\n)", lines.join("\n  "))
}

/// The text of a list, in which runs of equal children are written once.
pub(crate) fn list(name: &str, children: &[(String, String)]) -> String {
    if children.is_empty() {
        return format!("{name}()");
    }
    let mut text = format!("{name}(");
    let mut start = 0;
    for run in children.chunk_by(|a, b| a.1 == b.1) {
        let module = indented(&run[0].1);
        let last = start + run.len() - 1;
        // Writing to a string cannot fail.
        let _ = if run.len() == 1 {
            write!(text, "\n  ({start}): {module}")
        } else {
            write!(text, "\n  ({start}-{last}): {} x {module}", run.len())
        };
        start = last + 1;
    }
    text + "\n)"
}

fn indented(text: &str) -> String {
    text.replace('\n', "\n  ")
}

/// `Display` and `Debug` of a module that is written without the derive macro.
macro_rules! printed {
    ($name:ident $(<$generic:ident: $bound:ident>)?) => {
        $crate::print::printed!(@one Display, $name $(<$generic: $bound>)?);
        $crate::print::printed!(@one Debug, $name $(<$generic: $bound>)?);
    };
    (@one $printed:ident, $name:ident $(<$generic:ident: $bound:ident>)?) => {
        impl $(<$generic: $bound>)? std::fmt::$printed for $name $(<$generic>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&$crate::describe(self))
            }
        }
    };
}

pub(crate) use printed;

/// A value as Python's `repr` writes it.
pub(crate) trait Repr {
    fn repr(&self) -> String;
}

impl Repr for bool {
    fn repr(&self) -> String {
        (if *self { "True" } else { "False" }).to_owned()
    }
}

impl Repr for i64 {
    fn repr(&self) -> String {
        self.to_string()
    }
}

impl Repr for usize {
    fn repr(&self) -> String {
        self.to_string()
    }
}

impl Repr for f64 {
    fn repr(&self) -> String {
        float(*self)
    }
}

impl Repr for &str {
    fn repr(&self) -> String {
        format!("'{self}'")
    }
}

impl<T: Repr> Repr for Option<T> {
    fn repr(&self) -> String {
        self.as_ref().map_or("None".to_owned(), Repr::repr)
    }
}

impl<T: Repr> Repr for [T] {
    fn repr(&self) -> String {
        let parts: Vec<String> = self.iter().map(Repr::repr).collect();
        if let [one] = &parts[..] { format!("({one},)") } else { format!("({})", parts.join(", ")) }
    }
}

impl<T: Repr, const N: usize> Repr for [T; N] {
    fn repr(&self) -> String {
        self[..].repr()
    }
}

impl<T: Repr> Repr for Vec<T> {
    fn repr(&self) -> String {
        self[..].repr()
    }
}

/// The shortest decimal that reads back as the same number, with an exponent below 1e-4 and from
/// 1e16 on.
fn float(value: f64) -> String {
    if !value.is_finite() {
        return match (value.is_nan(), value > 0.0) {
            (true, _) => "nan".to_owned(),
            (false, true) => "inf".to_owned(),
            (false, false) => "-inf".to_owned(),
        };
    }
    let magnitude = value.abs();
    if magnitude == 0.0 || (1e-4..1e16).contains(&magnitude) {
        return format!("{value:?}");
    }
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(("+", exponent), |rest| ("-", rest));
    format!("{digits}e{sign}{exponent:0>2}")
}
