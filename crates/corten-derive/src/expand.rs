//! The generated code.

use crate::attributes::{OfField, OfType};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DataEnum, DeriveInput, Error, Field, Fields, Member, Result, Type};

/// The implementations for a type; `nn` is where the crate of modules is found.
pub(crate) fn module(input: &DeriveInput, nn: &TokenStream) -> Result<TokenStream> {
    let settings = OfType::read(&input.attrs)?;
    let methods = match &input.data {
        Data::Struct(data) => of_struct(input, &settings, &data.fields, nn)?,
        Data::Enum(data) => of_enum(data, nn)?,
        Data::Union(_) => return Err(Error::new_spanned(input, "a union cannot be a module")),
    };
    let (generics, arguments, conditions) = input.generics.split_for_impl();
    let name = &input.ident;
    let printing = (!settings.no_debug).then(|| {
        let traits = [quote!(::core::fmt::Display), quote!(::core::fmt::Debug)];
        let each = traits.iter().map(|printed| {
            quote! {
                #[automatically_derived]
                impl #generics #printed for #name #arguments #conditions {
                    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                        f.write_str(&#nn::describe(self))
                    }
                }
            }
        });
        quote!(#(#each)*)
    });
    Ok(quote! {
        #[automatically_derived]
        impl #generics #nn::Module for #name #arguments #conditions {
            #methods
        }
        #printing
    })
}

/// A field: how it is reached, and what its attributes say.
struct Shown<'a> {
    member: Member,
    field: &'a Field,
    settings: OfField,
}

impl Shown<'_> {
    /// Whether these are the module's own hooks.
    fn is_hooks(&self) -> bool {
        let Type::Path(path) = &self.field.ty else { return false };
        path.path.segments.last().is_some_and(|segment| segment.ident == "Hooks")
    }

    fn name(&self) -> String {
        match (&self.settings.rename, &self.member) {
            (Some(name), _) => name.clone(),
            (None, Member::Named(name)) => {
                let name = name.to_string();
                name.strip_prefix("r#").map_or(name.clone(), str::to_owned)
            }
            (None, Member::Unnamed(index)) => index.index.to_string(),
        }
    }
}

fn of_struct(
    input: &DeriveInput,
    settings: &OfType,
    fields: &Fields,
    nn: &TokenStream,
) -> Result<TokenStream> {
    let mut shown = Vec::new();
    for (member, field) in fields.members().zip(fields) {
        shown.push(Shown { member, field, settings: OfField::read(&field.attrs)? });
    }
    let visits = shown.iter().filter(|f| !f.settings.skip && !f.is_hooks()).map(|field| {
        let (member, name) = (&field.member, field.name());
        if field.settings.flatten {
            quote!(#nn::Module::visit(&self.#member, visitor);)
        } else {
            quote!(visitor.field(#name, &self.#member);)
        }
    });
    let copies = shown.iter().map(|field| {
        let member = &field.member;
        if field.settings.skip || field.is_hooks() {
            quote!(#member: ::core::clone::Clone::clone(&self.#member))
        } else {
            quote!(#member: #nn::ModuleField::deep_clone_field(&self.#member, memo)?)
        }
    });
    let name = settings.name.clone().unwrap_or_else(|| input.ident.to_string());
    let repr = settings.repr.then(|| {
        quote! {
            fn extra_repr(&self) -> ::std::string::String {
                self.repr()
            }
        }
    });
    let hooks = shown.iter().find(|field| field.is_hooks()).map(|field| {
        let member = &field.member;
        quote! {
            fn hooks(&self) -> ::core::option::Option<&#nn::Hooks> {
                ::core::option::Option::Some(&self.#member)
            }
        }
    });
    Ok(quote! {
        fn visit<'a>(&'a self, visitor: &mut #nn::Visitor<'a>) {
            let _ = &visitor;
            #(#visits)*
        }

        fn name(&self) -> &'static str {
            #name
        }

        #repr
        #hooks

        fn deep_clone_with(&self, memo: &mut #nn::Memo) -> #nn::Result<Self> {
            let _ = &memo;
            ::core::result::Result::Ok(Self { #(#copies),* })
        }
    })
}

fn of_enum(data: &DataEnum, nn: &TokenStream) -> Result<TokenStream> {
    let mut names = Vec::new();
    for variant in &data.variants {
        let Fields::Unnamed(fields) = &variant.fields else {
            return Err(Error::new_spanned(variant, "a variant of a module holds one module"));
        };
        if fields.unnamed.len() != 1 {
            return Err(Error::new_spanned(variant, "a variant of a module holds one module"));
        }
        names.push(&variant.ident);
    }
    Ok(quote! {
        fn visit<'a>(&'a self, visitor: &mut #nn::Visitor<'a>) {
            match self { #(Self::#names(inner) => #nn::Module::visit(inner, visitor),)* }
        }

        fn name(&self) -> &'static str {
            match self { #(Self::#names(inner) => #nn::Module::name(inner),)* }
        }

        fn extra_repr(&self) -> ::std::string::String {
            match self { #(Self::#names(inner) => #nn::Module::extra_repr(inner),)* }
        }

        fn hooks(&self) -> ::core::option::Option<&#nn::Hooks> {
            match self { #(Self::#names(inner) => #nn::Module::hooks(inner),)* }
        }

        fn target(&self) -> &dyn #nn::Module {
            match self { #(Self::#names(inner) => #nn::Module::target(inner),)* }
        }

        fn deep_clone_with(&self, memo: &mut #nn::Memo) -> #nn::Result<Self> {
            ::core::result::Result::Ok(match self {
                #(Self::#names(inner) => Self::#names(#nn::Module::deep_clone_with(inner, memo)?),)*
            })
        }
    })
}
