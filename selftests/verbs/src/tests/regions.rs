// SPDX-License-Identifier: GPL-2.0

//! Registration of memory.
//!
//! `rdma_rxe` of 7.3 has no zero-based regions, and none of no bytes.

use std::{ptr, rc::Rc};

use mrx::sys;

use crate::harness::{
    check::{fails_with, pointer, same_bytes, status},
    ensure_eq,
    memory::ALL,
    pattern, skip, Memory, Mr, Pair, Qp, QpOptions, Setup, Sge, Test, Work,
};

pub const TESTS: &[Test] = &[
    Test::new("regions: a region of no bytes has keys", empty),
    Test::new(
        "regions: a region of no bytes grants no byte",
        empty_grants_nothing,
    ),
    Test::new(
        "regions: a zero-based region is addressed from zero",
        zero_based,
    ),
    Test::new(
        "regions: a region with an iova is addressed by it",
        with_iova,
    ),
    Test::new(
        "regions: remote write without local write fails with EINVAL",
        rights_that_need_write,
    ),
    Test::new("regions: rights that do not exist fail", unknown_rights),
    Test::new(
        "regions: write access to a read-only mapping fails with EFAULT",
        read_only_mapping,
    ),
    Test::new(
        "regions: a read-only mapping can be registered for reading",
        read_only_region,
    ),
    Test::new(
        "regions: memory that is not there fails with EFAULT",
        no_memory,
    ),
    Test::new("regions: a length that wraps around fails", wrapping_length),
    Test::new(
        "regions: regions may overlap, and end one by one",
        overlapping,
    ),
    Test::new(
        "regions: a region outlives the mapping of its memory",
        unmapped,
    ),
    Test::new("regions: shared memory can be registered", shared_memory),
    Test::new(
        "regions: a region of 256 MiB moves bytes at both ends",
        large,
    )
    .seconds(120),
    Test::new(
        "regions: 1,000 regions at once, each with its own keys",
        thousand,
    )
    .seconds(60),
    Test::new(
        "regions: a receive into a region that is gone fails",
        gone_receive,
    ),
    Test::new(
        "regions: a domain with a region or a queue pair cannot be deallocated",
        domain_in_use,
    ),
    Test::new(
        "regions: a completion queue with a queue pair cannot be destroyed",
        cq_in_use,
    ),
    Test::new(
        "regions: registering and deregistering 2,000 times leaks nothing",
        many_times,
    )
    .seconds(60),
];

fn fetch(pair: &Pair, addr: u64, rkey: u32, len: usize) -> anyhow::Result<Vec<u8>> {
    let plain = pair.region(len, ALL)?;
    pair.a.post(&Work::read(1, &[plain.whole()], addr, rkey))?;
    pair.a
        .send_cq
        .wait()?
        .ok(1, sys::IBV_WC_RDMA_READ)?
        .bytes(len)?;
    Ok(plain.memory.all())
}

fn empty(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    for access in [sys::IBV_ACCESS_ZERO_BASED, ALL | sys::IBV_ACCESS_ZERO_BASED] {
        let (first, second) = (Mr::empty(&pair.pd, access)?, Mr::empty(&pair.pd, access)?);
        anyhow::ensure!(
            first.lkey() != second.lkey(),
            "both have lkey {:#x}",
            first.lkey()
        );
    }
    Ok(())
}

fn empty_grants_nothing(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let region = Mr::empty(&pair.pd, ALL | sys::IBV_ACCESS_ZERO_BASED)?;
    let plain = pair.region(1, ALL)?;
    pair.a
        .post(&Work::read(1, &[plain.whole()], 0, region.rkey()))?;
    pair.a.send_cq.wait()?.is(1, sys::IBV_WC_REM_ACCESS_ERR)?;
    Ok(())
}

fn zero_based(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let bytes = pattern(1, 9000);
    let region = Mr::filled(&pair.pd, &bytes, ALL | sys::IBV_ACCESS_ZERO_BASED)?;
    same_bytes(&fetch(&pair, 0, region.rkey(), 9000)?, &bytes, "from zero")?;
    same_bytes(
        &fetch(&pair, 8999, region.rkey(), 1)?,
        &bytes[8999..],
        "the last byte",
    )
}

fn with_iova(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let bytes = pattern(1, 9000);
    for iova in [0, 0x1000, 0x7fff_ffff_0000, 0xffff_ffff_ff00_0000] {
        let region = Mr::with_iova(&pair.pd, &bytes, iova, ALL)?;
        let found = fetch(&pair, iova + 4000, region.rkey(), 5000)?;
        same_bytes(&found, &bytes[4000..], &format!("from {iova:#x}"))?;
    }
    Ok(())
}

fn rights_that_need_write(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    for access in [sys::IBV_ACCESS_REMOTE_WRITE, sys::IBV_ACCESS_REMOTE_ATOMIC] {
        fails_with(
            pair.region(100, access).map(drop),
            libc::EINVAL,
            "without local write",
        )?;
    }
    Ok(())
}

fn unknown_rights(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    for access in [1 << 15, 1 << 19, 1 << 31] {
        anyhow::ensure!(
            pair.region(100, access).is_err(),
            "access {access:#x} was accepted"
        );
    }
    Ok(())
}

fn read_only_mapping(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let memory = Memory::mapped(8192, libc::PROT_READ, libc::MAP_PRIVATE)?;
    let region = Mr::over(&pair.pd, &memory, 0..8192, sys::IBV_ACCESS_LOCAL_WRITE);
    fails_with(region.map(drop), libc::EFAULT, "registering it for writing")
}

fn read_only_region(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let memory = Memory::mapped(8192, libc::PROT_READ, libc::MAP_PRIVATE)?;
    let region = Mr::over(&pair.pd, &memory, 0..8192, sys::IBV_ACCESS_REMOTE_READ)?;
    same_bytes(
        &fetch(&pair, region.at(0), region.rkey(), 8192)?,
        &[0; 8192],
        "its bytes",
    )
}

fn no_memory(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let hole = Memory::mapped(8192, libc::PROT_NONE, libc::MAP_PRIVATE)?;
    fails_with(
        Mr::over(&pair.pd, &hole, 0..8192, 0).map(drop),
        libc::EFAULT,
        "no rights",
    )?;
    // A mapping that ends before the region does.
    let memory = Memory::new(8192)?;
    // SAFETY: the second page belongs to `memory`, and nobody touches it.
    unsafe {
        let second =
            ptr::with_exposed_provenance_mut::<libc::c_void>(memory.addr() as usize + 4096);
        status(libc::mprotect(second, 4096, libc::PROT_NONE))?;
    }
    fails_with(
        Mr::over(&pair.pd, &memory, 0..8192, ALL).map(drop),
        libc::EFAULT,
        "half of it",
    )?;
    Mr::over(&pair.pd, &memory, 0..4096, ALL)?;
    Ok(())
}

fn wrapping_length(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let memory = Memory::new(4096)?;
    for length in [usize::MAX - 1, usize::MAX - 4096, 1 << 63, 1 << 50] {
        // SAFETY: the kernel has to refuse it.
        let region = pointer(unsafe {
            let start = ptr::with_exposed_provenance_mut(memory.addr() as usize);
            sys::ibv_reg_mr(
                pair.pd.raw,
                start,
                length,
                sys::IBV_ACCESS_LOCAL_WRITE as i32,
            )
        });
        anyhow::ensure!(region.is_err(), "a length of {length:#x} was accepted");
    }
    Ok(())
}

fn overlapping(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let memory = Memory::new(20_000)?;
    memory.write(0, &pattern(1, 20_000));
    let first = Mr::over(&pair.pd, &memory, 0..15_000, ALL)?;
    let mut second = Mr::over(&pair.pd, &memory, 5000..20_000, ALL)?;
    let third = Mr::over(&pair.pd, &memory, 0..15_000, ALL)?;
    anyhow::ensure!(first.rkey() != third.rkey(), "two regions have one key");
    let wanted = pattern(1, 20_000);
    same_bytes(
        &fetch(&pair, second.at(0), second.rkey(), 15_000)?,
        &wanted[5000..],
        "the second",
    )?;
    second.deregister()?;
    for region in [first, third] {
        let found = fetch(&pair, region.at(0), region.rkey(), 15_000)?;
        same_bytes(&found, &wanted[..15_000], "after the second has ended")?;
    }
    Ok(())
}

fn unmapped(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let bytes = pattern(1, 3 * 4096);
    let region = pair.filled(&bytes, ALL)?;
    let start = ptr::with_exposed_provenance_mut(region.memory.addr() as usize);
    // SAFETY: the mapping is replaced by one of the same size.
    let replaced = unsafe {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        libc::mmap(start, bytes.len(), rights, flags, -1, 0)
    };
    ensure_eq!(replaced, start);
    same_bytes(
        &fetch(&pair, region.at(0), region.rkey(), bytes.len())?,
        &bytes,
        "the old pages",
    )?;
    pair.a.post(&Work::write(
        2,
        &[region.sge(0..10)],
        region.at(4096),
        region.rkey(),
    ))?;
    pair.a.send_cq.wait()?.ok(2, sys::IBV_WC_RDMA_WRITE)?;
    same_bytes(&region.memory.all(), &vec![0; bytes.len()], "the new pages")
}

fn shared_memory(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let memory = Memory::mapped(20_000, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED)?;
    let region = Mr::over(&pair.pd, &memory, 100..20_000, ALL)?;
    memory.write(0, &pattern(1, 20_000));
    let found = fetch(&pair, region.at(0), region.rkey(), 19_900)?;
    same_bytes(&found, &pattern(1, 20_000)[100..], "the region")
}

fn large(setup: &Setup) -> anyhow::Result<()> {
    const LEN: usize = 256 << 20;
    let pair = Pair::new(setup)?;
    let Ok(memory) = Memory::new(LEN) else {
        return skip("there is too little memory");
    };
    let region = Mr::over(&pair.pd, &memory, 0..LEN, ALL)?;
    let bytes = pattern(1, 100_000);
    let source = pair.filled(&bytes, ALL)?;
    for at in [0, (128 << 20) - 50_000, LEN - 100_000] {
        pair.a.post(&Work::write(
            2,
            &[source.whole()],
            region.at(at),
            region.rkey(),
        ))?;
        pair.a.send_cq.wait()?.ok(2, sys::IBV_WC_RDMA_WRITE)?;
        same_bytes(&memory.read(at..at + 100_000), &bytes, &format!("at {at}"))?;
    }
    pair.a.post(&Work::write(
        3,
        &[source.whole()],
        region.at(LEN - 99_999),
        region.rkey(),
    ))?;
    pair.a.send_cq.wait()?.is(3, sys::IBV_WC_REM_ACCESS_ERR)?;
    Ok(())
}

fn thousand(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let regions = (0..1000_u64)
        .map(|n| Mr::filled(&pair.pd, &n.to_ne_bytes(), ALL))
        .collect::<std::io::Result<Vec<_>>>()?;
    let mut keys: Vec<_> = regions.iter().map(Mr::rkey).collect();
    keys.sort_unstable();
    keys.dedup();
    ensure_eq!(keys.len(), 1000, "different keys");
    for (n, region) in regions.iter().enumerate() {
        let found = fetch(&pair, region.at(0), region.rkey(), 8)?;
        same_bytes(&found, &(n as u64).to_ne_bytes(), &format!("region {n}"))?;
    }
    Ok(())
}

fn gone_receive(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let (mut target, source) = (pair.region(100, ALL)?, pair.region(100, ALL)?);
    pair.b.post_recv(2, &[target.whole()])?;
    target.deregister()?;
    pair.a.post(&Work::send(1, &[source.whole()]))?;
    let received = pair.b.recv_cq.wait()?;
    anyhow::ensure!(received.status() != sys::IBV_WC_SUCCESS, "it succeeded");
    pair.a.send_cq.wait()?.is(1, sys::IBV_WC_REM_OP_ERR)?;
    Ok(())
}

fn domain_in_use(setup: &Setup) -> anyhow::Result<()> {
    let context = crate::harness::Context::open(setup)?;
    let pd = context.pd()?;
    let region = Mr::new(&pd, 100, ALL)?;
    // SAFETY: the domain is live, and has to stay so.
    let deallocate = || status(unsafe { sys::ibv_dealloc_pd(pd.raw) });
    fails_with(deallocate(), libc::EBUSY, "with a region")?;
    drop(region);
    let qp = Qp::new(&pd, &QpOptions::default())?;
    fails_with(deallocate(), libc::EBUSY, "with a queue pair")?;
    drop(qp);
    Ok(())
}

fn cq_in_use(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    // SAFETY: the queue is live, and has to stay so.
    let destroyed = status(unsafe { sys::ibv_destroy_cq(pair.a.send_cq.raw) });
    fails_with(destroyed, libc::EBUSY, "with a queue pair")?;
    pair.a.post(&Work::write(1, &[], 0, 0))?;
    pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_RDMA_WRITE)?;
    Ok(())
}

fn many_times(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let before = crate::harness::resources::count(&setup.device)?;
    let memory: Rc<Memory> = Memory::new(64 << 10)?;
    for n in 0..2000 {
        let region = Mr::over(&pair.pd, &memory, n..(64 << 10), ALL)?;
        let Sge { length, .. } = region.sge(0..(64 << 10) - n);
        ensure_eq!(length as usize, (64 << 10) - n);
    }
    crate::harness::resources::come_back_to(&setup.device, &before)
}
