// SPDX-License-Identifier: GPL-2.0

//! Which regions can have a layout, what the device promises, and what is read
//! back.

use mrx::sys;

use super::scene::{fetch, gather, pair, put, small, Scene, ZERO_BASED};
use crate::harness::{
    check::{fails_with, same_bytes},
    ensure_eq,
    memory::ALL,
    pattern, Mr, Pair, Setup, Test, Work,
};

pub const TESTS: &[Test] = &[
    Test::new(
        "holders: the capabilities are at least those that are promised",
        caps,
    ),
    Test::new("holders: an empty zero-based region", empty_zero_based),
    Test::new(
        "holders: an empty region without the zero-based flag",
        empty_based,
    ),
    Test::new("holders: an indirect region", indirect),
    Test::new(
        "holders: an indirect region without a layout gives nothing away",
        indirect_empty,
    ),
    Test::new(
        "holders: creating a region of no descriptors, type or flags that exist fails with EINVAL",
        create_wrong,
    ),
    Test::new(
        "holders: creating an indirect region with IBV_ACCESS_ON_DEMAND fails with EINVAL",
        create_on_demand,
    ),
    Test::new(
        "holders: a plain region's own pages are out of reach while a layout stands",
        plain,
    ),
    Test::new(
        "holders: a plain zero-based region is addressed from zero with its layout",
        plain_zero_based,
    ),
    Test::new(
        "holders: a region with an iova is addressed from it with its layout",
        with_iova,
    ),
    Test::new("holders: a layout is read back as it was set", read_back),
    Test::new(
        "holders: reading back with too little room fails with ENOSPC",
        too_little_room,
    ),
    Test::new("holders: a region without a layout says so", no_layout),
    Test::new(
        "holders: a layout grants what its holder was given and no more",
        rights,
    ),
    Test::new(
        "holders: one layout may follow another on the same region",
        replace,
    ),
];

fn caps(setup: &Setup) -> anyhow::Result<()> {
    let caps = pair(setup)?.context.layout_caps()?;
    let all = sys::IBV_MR_SET_LAYOUT_SG
        | sys::IBV_MR_SET_LAYOUT_INTERLEAVED
        | sys::IBV_MR_SET_LAYOUT_INTERLEAVED_REPEAT
        | sys::IBV_MR_SET_LAYOUT_INTERLEAVED_NONUNIFORM_REPEAT
        | sys::IBV_MR_SET_LAYOUT_INTERLEAVED_NONUNIFORM_DATUM_TOTAL;
    ensure_eq!(caps.cap_flags & u64::from(all), u64::from(all));
    ensure_eq!(caps.max_num_sg >= 65_536, true);
    ensure_eq!(caps.max_num_interleaved >= 1024, true);
    ensure_eq!(caps.max_mr_stride_dimension >= 8, true);
    ensure_eq!(caps.max_mr_nesting_level >= 4, true);
    ensure_eq!(caps.max_inline_num_sg <= caps.max_num_sg, true);
    ensure_eq!(
        caps.max_inline_num_interleaved <= caps.max_num_interleaved,
        true
    );
    Ok(())
}

/// The small layout reads as it should under both keys.
fn reads(pair: &Pair, scene: &Scene) -> anyhow::Result<()> {
    let (holder, expected) = (&scene.holder, scene.expected(0, 100));
    same_bytes(&fetch(pair, holder, 0, 100)?, &expected, "as remote key")?;
    same_bytes(&gather(pair, holder, 0, 100)?, &expected, "as local key")
}

/// The small layout on this holder can be read and written under both keys.
fn holds(setup: &Setup, make: impl Fn(&Pair) -> std::io::Result<Mr>) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let mut scene = small(&pair, make(&pair)?)?;
    reads(&pair, &scene)?;
    put(&pair, &scene.holder, 50, &[7; 20])?;
    scene.wrote(50, &[7; 20]);
    scene.check()
}

fn empty_zero_based(setup: &Setup) -> anyhow::Result<()> {
    holds(setup, |pair| Mr::empty(&pair.pd, ZERO_BASED))
}

fn empty_based(setup: &Setup) -> anyhow::Result<()> {
    holds(setup, |pair| Mr::empty(&pair.pd, ALL))
}

fn indirect(setup: &Setup) -> anyhow::Result<()> {
    holds(setup, |pair| Mr::indirect(&pair.pd, 2, ALL))
}

fn indirect_empty(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let holder = Mr::indirect(&pair.pd, 2, ALL)?;
    let plain = pair.region(1, ALL)?;
    pair.a
        .post(&Work::read(1, &[plain.whole()], 0, holder.rkey()))?;
    pair.a.send_cq.wait()?.is(1, sys::IBV_WC_REM_ACCESS_ERR)?;
    Ok(())
}

fn create_wrong(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let right = sys::mrx_mr_init_attr {
        type_: sys::MRX_MR_TYPE_INDIRECT,
        max_descriptors: 2,
        access: ALL,
        flags: 0,
    };
    let cases = [
        sys::mrx_mr_init_attr {
            max_descriptors: 0,
            ..right
        },
        sys::mrx_mr_init_attr {
            max_descriptors: u32::MAX,
            ..right
        },
        sys::mrx_mr_init_attr {
            max_descriptors: i32::MAX as u32,
            ..right
        },
        sys::mrx_mr_init_attr { type_: 77, ..right },
        sys::mrx_mr_init_attr {
            flags: 1 << 7,
            ..right
        },
        // Remote write without local write
        sys::mrx_mr_init_attr {
            access: sys::IBV_ACCESS_REMOTE_WRITE,
            ..right
        },
    ];
    for (n, attr) in cases.iter().enumerate() {
        fails_with(
            Mr::created(&pair.pd, attr).map(drop),
            libc::EINVAL,
            &format!("case {n}"),
        )?;
    }
    Mr::created(&pair.pd, &right)?;
    Ok(())
}

fn create_on_demand(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    for access in [ALL, sys::IBV_ACCESS_LOCAL_WRITE, 0] {
        let access = access | sys::IBV_ACCESS_ON_DEMAND;
        let region = Mr::indirect(&pair.pd, 2, access).map(drop);
        fails_with(region, libc::EINVAL, &format!("access {access:#x}"))?;
    }
    Ok(())
}

fn plain(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let own = pattern(3, 4096);
    let holder = Mr::filled(&pair.pd, &own, ALL)?;
    let memory = holder.memory.clone();
    let mut scene = small(&pair, holder)?;
    reads(&pair, &scene)?;
    put(&pair, &scene.holder, 0, &[9; 100])?;
    scene.wrote(0, &[9; 100]);
    scene.check()?;
    same_bytes(&memory.all(), &own, "the holder's own pages")?;
    // Its own pages go on behind the layout, and are not there.
    let target = pair.region(1, ALL)?;
    pair.a.post(&Work::read(
        1,
        &[target.whole()],
        scene.holder.at(100),
        scene.holder.rkey(),
    ))?;
    pair.a.send_cq.wait()?.is(1, sys::IBV_WC_REM_ACCESS_ERR)?;
    Ok(())
}

fn plain_zero_based(setup: &Setup) -> anyhow::Result<()> {
    holds(setup, |pair| {
        Mr::filled(&pair.pd, &pattern(3, 30), ZERO_BASED)
    })
}

fn with_iova(setup: &Setup) -> anyhow::Result<()> {
    holds(setup, |pair| {
        Mr::with_iova(&pair.pd, &pattern(3, 30), 0x55_0000_0000, ALL)
    })
}

fn read_back(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let scene = small(&pair, Mr::empty(&pair.pd, ZERO_BASED)?)?;
    let found = scene.holder.layout()?;
    ensure_eq!(found.kind, sys::MRX_LAYOUT_SG);
    ensure_eq!(found.length, 100_u64);
    ensure_eq!(found.nesting, 1);
    let set: Vec<_> = scene
        .ranges
        .iter()
        .map(|range| (range.addr, range.length, range.lkey))
        .collect();
    ensure_eq!(found.ranges, set);
    Ok(())
}

fn too_little_room(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let scene = small(&pair, Mr::empty(&pair.pd, ZERO_BASED)?)?;
    let mut room = [crate::harness::Sge::default(); 1];
    // SAFETY: there is room for one entry.
    let status = unsafe { mrx::ffi::mrx_query_layout_sg(scene.holder.raw, 1, room.as_mut_ptr()) };
    ensure_eq!(status, libc::ENOSPC);
    Ok(())
}

fn no_layout(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    for region in [
        Mr::empty(&pair.pd, ALL)?,
        pair.region(100, ALL)?,
        Mr::indirect(&pair.pd, 5, ALL)?,
    ] {
        let info = region.layout_info()?;
        ensure_eq!(info.kind, sys::MRX_LAYOUT_NONE);
        ensure_eq!(info.num_descriptors, 0);
        ensure_eq!(info.nesting_level, 0);
    }
    Ok(())
}

fn rights(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let scene = small(
        &pair,
        Mr::empty(
            &pair.pd,
            sys::IBV_ACCESS_REMOTE_READ | sys::IBV_ACCESS_ZERO_BASED,
        )?,
    )?;
    same_bytes(
        &fetch(&pair, &scene.holder, 0, 100)?,
        &scene.expected(0, 100),
        "what it grants",
    )?;
    let plain = pair.region(8, ALL)?;
    pair.a
        .post(&Work::write(1, &[plain.whole()], 0, scene.holder.rkey()))?;
    pair.a.send_cq.wait()?.is(1, sys::IBV_WC_REM_ACCESS_ERR)?;
    scene.check()?;
    let other =
        crate::harness::Pair::in_domain(&pair.pd, &Default::default(), &Default::default())?;
    other.a.post(&Work::read(
        2,
        &[scene.holder.piece(0, 8)],
        plain.at(0),
        plain.rkey(),
    ))?;
    other.a.send_cq.wait()?.is(2, sys::IBV_WC_LOC_PROT_ERR)?;
    scene.check()
}

fn replace(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let mut scene = small(&pair, Mr::empty(&pair.pd, ZERO_BASED)?)?;
    scene.regions.push(pair.filled(&pattern(7, 500), ALL)?);
    for len in [1, 500, 20] {
        scene.holder.set_layout(&[scene.regions[2].sge(0..len)])?;
        same_bytes(
            &fetch(&pair, &scene.holder, 0, len)?,
            &pattern(7, 500)[..len],
            "the new one",
        )?;
        ensure_eq!(scene.holder.layout()?.length, len as u64);
    }
    Ok(())
}
