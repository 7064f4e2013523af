// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Generates the bindings from the headers that C programs use, so that there
//! is one place for every number.

use std::{env, path::PathBuf};

fn main() {
    let top = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("..");
    let include = top.join("include");
    let uapi = include.join("uapi");
    println!("cargo::rerun-if-changed=wrapper.h");
    println!(
        "cargo::rerun-if-changed={}",
        include.join("infiniband/mrx.h").display()
    );
    println!(
        "cargo::rerun-if-changed={}",
        uapi.join("rdma/mrx_user_ioctl.h").display()
    );
    println!("cargo::rustc-link-lib=ibverbs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmrx.so.0");

    let target = bindgen::RustTarget::stable(82, 0).unwrap_or_default();
    bindgen::Builder::default()
        .header("wrapper.h")
        .clang_arg(format!("-I{}", include.display()))
        .clang_arg(format!("-I{}", uapi.display()))
        .rust_target(target)
        .allowlist_item("_?_?_?ibv_.*|verbs_context|IBV_.*|(ib_)?uverbs_.*|ib_uverbs_.*|UVERBS_.*|rdma_driver_id|RDMA_DRIVER_.*|IB_USER_VERBS_.*|mrx_.*|MRX_.*")
        // Ours: this crate defines them.
        .blocklist_function("(mrx|ibv_mr_set_layout|ibv_query_mr_layout)_.*")
        // In verbs.h a macro of the same name stands before it; this one is the
        // symbol of old programs, with a shorter structure.
        .blocklist_function("ibv_query_port")
        .prepend_enum_name(false)
        .derive_default(true)
        .generate_comments(false)
        .layout_tests(false)
        .generate()
        .expect("bindgen reads the verbs headers")
        .write_to_file(PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("bindings.rs"))
        .expect("the output folder is writable");
}
