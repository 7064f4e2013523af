// SPDX-License-Identifier: GPL-2.0

//! Generates the structures of the rings from the kernel's header.

use std::{env, path::PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=wrapper.h");
    let target = bindgen::RustTarget::stable(82, 0).unwrap_or_default();
    bindgen::Builder::default()
        .header("wrapper.h")
        .rust_target(target)
        .allowlist_type("rxe_.*")
        .prepend_enum_name(false)
        .derive_default(true)
        .generate_comments(false)
        .layout_tests(false)
        .generate()
        .expect("bindgen reads the kernel's headers")
        .write_to_file(PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("abi.rs"))
        .expect("the output folder is writable");
}
