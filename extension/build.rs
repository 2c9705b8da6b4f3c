//! Links the unwinder into the library. As a library of its own (libgcc_s.so) it would be opened and mapped by every new
//! connection that predicts, and it asks the processor what it can do, which takes a virtual machine many microseconds.
//!
//! Calls of the server's `CopyErrorData` are linked to the function of `memory.rs`, which calls the server's.

use std::path::PathBuf;
use std::{env, fs};

/// What the linker reads in place of the library of that name.
const SCRIPT: &str = "INPUT(-lgcc_eh -lgcc)\n";

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let gnu_linux = env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux")
        && env::var("CARGO_CFG_TARGET_ENV").as_deref() == Ok("gnu");
    if let (true, Some(folder)) = (gnu_linux, env::var_os("OUT_DIR").map(PathBuf::from)) {
        fs::write(folder.join("libgcc_s.so"), SCRIPT)?;
        println!("cargo::rustc-link-search=native={}", folder.display());
    }
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,--wrap=CopyErrorData");
    }
    Ok(())
}
