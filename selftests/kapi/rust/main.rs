// SPDX-License-Identifier: GPL-2.0

//! Tests, in Rust, of regions with attributes as kernel modules see them.
//!
//! - [`consumer`]: the abstraction that modules in Rust use.
//! - [`tests`]: the tests. [`scene`]: what they do them with.
//!
//! The results are in the log, as KTAP.

#![allow(unreachable_pub)]

mod bindings;
#[path = "../../../rust/kernel/rdma/mr/consumer.rs"]
mod consumer;
mod scene;
mod tests;

use bindings::{
    ib_device,
    kapi_kind,
    kapi_kind_KAPI_ANY as ANY,
    kapi_kind_KAPI_EXTENDED as EXTENDED,
    kapi_kind_KAPI_PLAIN as PLAIN, //
};
use core::ptr::NonNull;
use kernel::{
    error::{
        from_result,
        to_result, //
    },
    prelude::*,
};
use scene::Scene;

module! {
    type: KapiModule,
    name: "mrx_kapi_rust",
    authors: ["The mrx authors"],
    description: "Tests of regions with attributes, in Rust",
    license: "GPL",
}

struct KapiModule;

impl kernel::Module for KapiModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        // SAFETY: The function is called as `kapi_run` says.
        to_result(unsafe { bindings::kapi_run(Some(run)) })?;
        Ok(Self)
    }
}

/// Why a test failed.
pub struct Failure {
    line: u32,
    what: &'static str,
    error: Option<Error>,
}

impl Failure {
    fn at(line: u32, what: &'static str) -> Self {
        Self {
            line,
            what,
            error: None,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            line: 0,
            what: "something that has to work does not",
            error: Some(error),
        }
    }
}

type Test = (&'static str, kapi_kind, fn(&Scene) -> Result<(), Failure>);

const TESTS: &[Test] = &[
    (
        "a direct region carries the bytes of a write",
        ANY,
        tests::direct_region,
    ),
    ("a domain counts its regions", ANY, tests::counted),
    ("a region of nothing is refused", ANY, tests::bad_attributes),
    (
        "an indirect region is not available",
        PLAIN,
        tests::no_indirect_region,
    ),
    (
        "ranges are written and sent to ranges",
        EXTENDED,
        tests::ranges,
    ),
    ("patterns take turns", EXTENDED, tests::patterns),
    (
        "a layout of a layout is read",
        EXTENDED,
        tests::read_through_levels,
    ),
    (
        "keys change with the number of pieces",
        EXTENDED,
        tests::keys,
    ),
    ("what is refused changes nothing", EXTENDED, tests::refusals),
    (
        "a waiting layout stands from its request on",
        EXTENDED,
        tests::waiting_layout,
    ),
    (
        "a region grants what all its pieces grant",
        EXTENDED,
        tests::one_sided_rights,
    ),
    (
        "operations stand in until they are dropped",
        PLAIN,
        tests::operations,
    ),
    (
        "a device with operations takes no others",
        EXTENDED,
        tests::no_other_operations,
    ),
];

/// # Safety
///
/// To be called by `kapi_run`: the device is there during the call.
unsafe extern "C" fn run(device: *mut ib_device, kind: kapi_kind) -> c_int {
    from_result(|| {
        let device = NonNull::new(device).ok_or(EINVAL)?;
        let wanted = || TESTS.iter().filter(|(_, place, _)| place & kind != 0);
        pr_info!("1..{}\n", wanted().count());
        for (number, (name, _, test)) in wanted().enumerate() {
            // SAFETY: By the requirements of this function.
            let good = unsafe { passes(device, *test) };
            let verdict = if good { "ok" } else { "not ok" };
            pr_info!("{} {} {}\n", verdict, number + 1, name);
        }
        Ok(0)
    })
}

/// # Safety
///
/// The device is there during the call.
unsafe fn passes(device: NonNull<ib_device>, test: fn(&Scene) -> Result<(), Failure>) -> bool {
    let outcome = || {
        // SAFETY: By the requirements of this function.
        let scene = unsafe { Scene::new(device) }?;
        let users = scene.users();
        test(&scene)?;
        if scene.users() != users {
            return Err(Failure::at(0, "objects are left in the domain"));
        }
        Ok(())
    };
    let Err(failure) = outcome() else {
        return true;
    };
    pr_info!("# line {}: {}\n", failure.line, failure.what);
    if let Some(error) = failure.error {
        pr_info!("# {:?}\n", error);
    }
    false
}
