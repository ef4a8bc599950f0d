//! Any text is a schema or an error, and a schema prints as a text that parses to the same.

#![no_main]

use corten_codegen::schema::Schema;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(schema) = Schema::parse(text) else { return };
    let printed = schema.to_string();
    let again = Schema::parse(&printed).unwrap_or_else(|error| panic!("{printed}: {error}"));
    assert_eq!(again.to_string(), printed);
});
