//! What stands in `#[module(…)]`.

use syn::{Attribute, LitStr, Result};

/// The attributes of a type.
#[derive(Default)]
pub(crate) struct OfType {
    pub(crate) name: Option<String>,
    pub(crate) repr: bool,
    pub(crate) no_debug: bool,
}

impl OfType {
    pub(crate) fn read(attributes: &[Attribute]) -> Result<Self> {
        let mut found = Self::default();
        for attribute in attributes.iter().filter(|a| a.path().is_ident("module")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("name") {
                    found.name = Some(meta.value()?.parse::<LitStr>()?.value());
                } else if meta.path.is_ident("repr") {
                    found.repr = true;
                } else if meta.path.is_ident("no_debug") {
                    found.no_debug = true;
                } else {
                    return Err(meta.error("expected `name = \"…\"`, `repr` or `no_debug`"));
                }
                Ok(())
            })?;
        }
        Ok(found)
    }
}

/// The attributes of a field.
#[derive(Default)]
pub(crate) struct OfField {
    pub(crate) skip: bool,
    pub(crate) flatten: bool,
    pub(crate) rename: Option<String>,
}

impl OfField {
    pub(crate) fn read(attributes: &[Attribute]) -> Result<Self> {
        let mut found = Self::default();
        for attribute in attributes.iter().filter(|a| a.path().is_ident("module")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("skip") {
                    found.skip = true;
                } else if meta.path.is_ident("flatten") {
                    found.flatten = true;
                } else if meta.path.is_ident("rename") {
                    found.rename = Some(meta.value()?.parse::<LitStr>()?.value());
                } else {
                    return Err(meta.error("expected `skip`, `flatten` or `rename = \"…\"`"));
                }
                Ok(())
            })?;
        }
        Ok(found)
    }
}
