//! Writes the generated part of this crate from `ops/*.toml`.

fn main() -> std::process::ExitCode {
    corten_codegen::build::cuda()
}
