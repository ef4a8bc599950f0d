//! One type and two adapters per distinct signature.

use super::ops::keys;
use crate::rust::Signature;
use std::collections::BTreeMap;

/// The distinct signatures of all overloads, by name.
#[derive(Default)]
pub(super) struct Signatures(BTreeMap<String, Signature>);

impl Extend<Signature> for Signatures {
    fn extend<I: IntoIterator<Item = Signature>>(&mut self, signatures: I) {
        self.0.extend(signatures.into_iter().map(|signature| (signature.name(), signature)));
    }
}

impl Signatures {
    /// The items of `mod sig`.
    pub(super) fn items(&self) -> String {
        let items: Vec<String> =
            self.0.iter().map(|(name, signature)| one(name, signature)).collect();
        super::formatted(&items.join("\n"))
    }
}

fn one(name: &str, signature: &Signature) -> String {
    let types = signature.types();
    let output = signature.output.rust();
    let letters: Vec<String> = (0..signature.parameters.len()).map(|i| format!("a{i}")).collect();
    let parameters = signature.parameters.iter().zip(&letters);
    let declared: Vec<String> =
        parameters.map(|(p, letter)| format!("{letter}: {}", p.ty.parameter())).collect();
    let (declared, passed) = (declared.join(", "), letters.join(", "));
    let pushes: String = letters.iter().map(|letter| format!("stack.push({letter});")).collect();
    let gets: Vec<String> = (0..letters.len()).map(|i| format!("stack[{i}].get()?")).collect();
    let gets = gets.join(", ");
    let comma = if letters.is_empty() { "" } else { ", " };
    let keys = keys(signature, &letters);
    format!(
        "/// `({types}) -> {output}`.
        pub type {name} = fn({types}) -> Result<{output}>;

        #[inline]
        pub(super) fn call_{name}(found: Found<{name}>{comma}{declared}) -> Result<{output}> {{
            match found {{
                Found::Typed(kernel) => kernel({passed}),
                Found::Boxed(call) => stacked_{name}(call{comma}{passed}),
            }}
        }}

        #[cold]
        fn stacked_{name}(call: BoxedCall{comma}{declared}) -> Result<{output}> {{
            let mut stack = Stack::new();
            {pushes}
            call.run(&mut stack)?;
            returns(stack)
        }}

        pub(super) fn boxed_{name}(kernel: {name}, stack: &mut Stack) -> Result<()> {{
            let results = kernel({gets})?;
            stack.replace(results);
            Ok(())
        }}

        impl Signed<{name}> {{
            /// Calls the operator.
            ///
            /// # Errors
            /// Those of its kernel.
            #[inline]
            pub fn call(self{comma}{declared}) -> Result<{output}> {{
                call_{name}(self.lookup({keys})?{comma}{passed})
            }}
        }}
        "
    )
}
