// SPDX-License-Identifier: GPL-2.0

//! Regions that a layout uses.

use mrx::sys;

use super::scene::{fetch, pair, small, ZERO_BASED};
use crate::harness::{
    check::{fails_with, pointer, same_bytes, status},
    command::command,
    ensure_eq,
    memory::ALL,
    pattern, Mr, Setup, Test, Work,
};

pub const TESTS: &[Test] = &[
    Test::new(
        "uses: a region that a layout uses cannot be deregistered",
        deregister,
    ),
    Test::new(
        "uses: a region that a layout uses cannot be re-registered",
        reregister,
    ),
    Test::new(
        "uses: a region that a layout uses cannot get a layout",
        set_layout,
    ),
    Test::new(
        "uses: deregistration in reverse order works at every level",
        reverse_order,
    ),
    Test::new(
        "uses: a new layout lets the regions of the old one go",
        let_go,
    ),
    Test::new(
        "uses: a region that occurs many times is free after one deregistration",
        many_times,
    ),
    Test::new("uses: a domain with a layout cannot be deallocated", domain),
    Test::new("uses: a deregistered layout's keys fail", keys_fail),
];

fn busy(result: std::io::Result<()>, what: &str) -> anyhow::Result<()> {
    fails_with(result, libc::EBUSY, what)
}

fn deregister(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let mut scene = small(&pair, Mr::empty(&pair.pd, ZERO_BASED)?)?;
    for n in 0..2 {
        busy(
            scene.regions[n].deregister(),
            "deregistering a region in use",
        )?;
        let wanted = scene.expected(0, 100);
        same_bytes(
            &fetch(&pair, &scene.holder, 0, 100)?,
            &wanted,
            "the layout, afterwards",
        )?;
        let own = scene.regions[n].memory.all();
        same_bytes(
            &fetch(&pair, &scene.regions[n], 0, 100)?,
            &own,
            "the region, afterwards",
        )?;
    }
    scene.holder.deregister()?;
    scene.regions[0].deregister()?;
    scene.regions[1].deregister()?;
    Ok(())
}

fn reregister(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let scene = small(&pair, Mr::empty(&pair.pd, ZERO_BASED)?)?;
    let region = &scene.regions[0];
    // The library of rxe has no call for this.
    // SAFETY: the region is live, and so is its context.
    let (descriptor, mr_handle) =
        unsafe { ((*(*region.raw).context).cmd_fd, (*region.raw).handle) };
    let change = sys::ib_uverbs_rereg_mr {
        mr_handle,
        flags: sys::IBV_REREG_MR_CHANGE_ACCESS,
        access_flags: sys::IBV_ACCESS_LOCAL_WRITE,
        ..Default::default()
    };
    let refused = command(descriptor, change).map(drop);
    busy(refused, "re-registering a region in use")?;
    same_bytes(
        &fetch(&pair, &scene.holder, 0, 100)?,
        &scene.expected(0, 100),
        "the layout",
    )
}

fn set_layout(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let scene = small(&pair, Mr::empty(&pair.pd, ZERO_BASED)?)?;
    let other = pair.region(10, ALL)?;
    let Err(refusal) = scene.regions[0].set_layout(&[other.whole()]) else {
        anyhow::bail!("a region in use got a layout");
    };
    ensure_eq!(refusal.code, sys::IBV_MR_SET_LAYOUT_ERR_INPUT);
    ensure_eq!(refusal.errno, libc::EBUSY);
    same_bytes(
        &fetch(&pair, &scene.holder, 0, 100)?,
        &scene.expected(0, 100),
        "the layout",
    )
}

fn reverse_order(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let mut stack = vec![pair.region(100, ALL)?];
    for level in 0..4 {
        let holder = Mr::empty(&pair.pd, ZERO_BASED)?;
        holder.set_layout(&[stack[level].piece(0, 50), stack[0].piece(0, 50)])?;
        stack.push(holder);
    }
    for (level, region) in stack.iter_mut().enumerate().take(4) {
        busy(region.deregister(), &format!("level {level}"))?;
    }
    for level in (0..5).rev() {
        stack[level].deregister()?;
        if level >= 2 {
            busy(stack[0].deregister(), "the ground")?;
        }
    }
    Ok(())
}

fn let_go(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let mut scene = small(&pair, Mr::empty(&pair.pd, ZERO_BASED)?)?;
    scene.regions.push(pair.filled(&pattern(7, 100), ALL)?);
    scene
        .holder
        .set_layout(&[scene.regions[2].whole(), scene.regions[1].sge(0..1)])?;
    scene.regions[0].deregister()?;
    busy(scene.regions[1].deregister(), "a region of the new layout")?;
    scene
        .holder
        .set_layout(&[scene.regions[2].sge(0..50), scene.regions[2].sge(50..100)])?;
    scene.regions[1].deregister()?;
    same_bytes(
        &fetch(&pair, &scene.holder, 0, 100)?,
        &pattern(7, 100),
        "the new layout",
    )
}

fn many_times(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let mut region = pair.region(1000, ALL)?;
    let mut first = Mr::empty(&pair.pd, ZERO_BASED)?;
    let mut second = Mr::empty(&pair.pd, ZERO_BASED)?;
    let ranges: Vec<_> = (0..500).map(|at| region.sge(at..at + 2)).collect();
    first.set_layout(&ranges)?;
    second.set_layout(&ranges)?;
    first.set_layout(&ranges)?;
    first.deregister()?;
    busy(region.deregister(), "the region under the second layout")?;
    second.deregister()?;
    region.deregister()?;
    Ok(())
}

fn domain(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    // SAFETY: the context is open.
    let pd = pointer(unsafe { sys::ibv_alloc_pd(pair.context.raw) })?;
    let attr = sys::mrx_mr_init_attr {
        type_: sys::MRX_MR_TYPE_INDIRECT,
        max_descriptors: 1,
        access: ALL,
        flags: 0,
    };
    // SAFETY: the domain is live, and each object is used until it is released.
    unsafe {
        let region = pointer(mrx::ffi::mrx_create_mr(pd, &attr))?;
        busy(
            status(sys::ibv_dealloc_pd(pd)),
            "deallocating a domain in use",
        )?;
        status(sys::ibv_dereg_mr(region))?;
        status(sys::ibv_dealloc_pd(pd))?;
    }
    Ok(())
}

fn keys_fail(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let mut scene = small(&pair, Mr::empty(&pair.pd, ZERO_BASED)?)?;
    let rkey = scene.holder.rkey();
    scene.holder.deregister()?;
    let plain = pair.region(8, ALL)?;
    pair.a.post(&Work::read(1, &[plain.whole()], 0, rkey))?;
    pair.a.send_cq.wait()?.is(1, sys::IBV_WC_REM_ACCESS_ERR)?;
    Ok(())
}
