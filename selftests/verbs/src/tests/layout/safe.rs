// SPDX-License-Identifier: GPL-2.0

//! The Rust interface of libmrx.

use std::ptr::NonNull;

use mrx::{
    sys, Access, Advice, Advise, BindRequest, Context, Dimension, Entry, Layout, Pd, RawRange,
    Region, SetLayout, SetLayoutError,
};

use super::scene::pair;
use crate::harness::{
    check::{same_bytes, status},
    ensure_eq, pattern, resources, Pair, Setup, Sge, Test, Work,
};

pub const TESTS: &[Test] = &[
    Test::new(
        "safe interface: a layout of two ranges has their bytes",
        two_ranges,
    ),
    Test::new(
        "safe interface: a pattern has its bytes, and is read back",
        interleaved,
    ),
    Test::new(
        "safe interface: an indirect region is filled, and read back",
        indirect,
    ),
    Test::new("safe interface: errors say what is wrong", errors),
    Test::new(
        "safe interface: a bind request makes a staged layout active",
        bind,
    ),
    Test::new("safe interface: advice is taken, or refused", advice),
    Test::new("safe interface: all that was made ends in order", order),
];

fn access() -> Access {
    Access::LOCAL_WRITE | Access::REMOTE_READ
}

/// A region over its own memory, with these bytes in it.
fn filled<'a>(pd: &'a Pd<'_>, bytes: &[u8]) -> std::io::Result<Region<'a>> {
    let region = Region::with_memory(pd, bytes.len(), access())?;
    region.write(0, bytes)?;
    Ok(region)
}

/// The domain of a pair of queue pairs.
fn domain(pair: &Pair) -> anyhow::Result<Pd<'_>> {
    let raw = NonNull::new(pair.pd.raw).ok_or_else(|| anyhow::anyhow!("no domain"))?;
    // SAFETY: the answer borrows the pair, which holds the domain.
    Ok(unsafe { Pd::from_raw(raw) })
}

fn fetch(pair: &Pair, region: &Region<'_>, len: usize) -> anyhow::Result<Vec<u8>> {
    let plain = pair.region(len, crate::harness::memory::ALL)?;
    let whole: Sge = plain.whole();
    pair.a
        .post(&Work::read(1, &[whole], region.base(), region.rkey()))?;
    pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_RDMA_READ)?;
    Ok(plain.memory.all())
}

fn two_ranges(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let pd = domain(&pair)?;
    let (one, other) = (
        filled(&pd, &pattern(1, 100))?,
        filled(&pd, &pattern(2, 5000))?,
    );
    let mut message = Region::empty(&pd, access())?;
    message.set_layout_sg(SetLayout::NOW, &[one.range(90..100), other.range(0..4000)])?;
    let wanted = [&pattern(1, 100)[90..], &pattern(2, 5000)[..4000]].concat();
    same_bytes(&fetch(&pair, &message, 4010)?, &wanted, "the layout")?;
    let mut bytes = [0; 10];
    one.read(90, &mut bytes)?;
    same_bytes(&bytes, &wanted[..10], "the region's own bytes")?;
    anyhow::ensure!(
        one.read(91, &mut bytes).is_err(),
        "more bytes than there are were read"
    );
    Ok(())
}

fn interleaved(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let pd = domain(&pair)?;
    let bytes = pattern(1, 1000);
    let region = filled(&pd, &bytes)?;
    let mut every_third = Region::empty(&pd, access())?;
    let dimensions = vec![
        Dimension {
            stride: 3,
            count: 10,
        },
        Dimension {
            stride: 300,
            count: 2,
        },
    ];
    let entry = Entry {
        first: region.range(7..8),
        repeated: 2,
        dimensions: dimensions.clone(),
    };
    every_third.set_layout_interleaved(SetLayout::NOW, &[entry])?;
    let wanted: Vec<_> = (0..20)
        .map(|n| bytes[7 + n % 10 * 3 + n / 10 * 300])
        .collect();
    same_bytes(&fetch(&pair, &every_third, 20)?, &wanted, "the pattern")?;
    let Some(Layout::Interleaved(found)) = every_third.layout()? else {
        anyhow::bail!("no pattern was read back");
    };
    ensure_eq!(found.len(), 1);
    ensure_eq!(found[0].dimensions, dimensions);
    ensure_eq!(found[0].repeated, 2);
    ensure_eq!(found[0].first.lkey, region.lkey());
    Ok(())
}

fn indirect(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let pd = domain(&pair)?;
    let region = filled(&pd, &pattern(1, 100))?;
    let mut made = Region::indirect(&pd, 3, access())?;
    ensure_eq!(made.layout()?, None);
    made.set_layout_sg(SetLayout::NOW, &[region.range(1..2), region.range(50..100)])?;
    let range = |at: u64, length| RawRange {
        addr: region.base() + at,
        length,
        lkey: region.lkey(),
    };
    ensure_eq!(
        made.layout()?,
        Some(Layout::Sg(vec![range(1, 1), range(50, 50)]))
    );
    ensure_eq!(
        made.layout_info()?.map(|info| (info.length, info.nesting)),
        Some((51_u64, 1_u32))
    );
    Ok(())
}

fn errors(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let pd = domain(&pair)?;
    let region = filled(&pd, &pattern(1, 100))?;
    let mut made = Region::indirect(&pd, 3, access())?;
    let (one, outside) = (region.range(0..10), region.range(91..101));
    made.set_layout_sg(SetLayout::NOW, &[one])?;
    let outcome = made.set_layout_sg(SetLayout::NOW, &[outside]);
    anyhow::ensure!(
        matches!(outcome, Err(SetLayoutError::Input(_))),
        "outside: {outcome:?}"
    );
    let outcome = made.set_layout_sg(SetLayout::NOW, &[]);
    anyhow::ensure!(
        matches!(outcome, Err(SetLayoutError::Input(_))),
        "nothing: {outcome:?}"
    );
    let outcome = made.set_layout_sg(SetLayout::AVOID_INVALIDATION, &[one, one]);
    anyhow::ensure!(
        matches!(outcome, Err(SetLayoutError::WouldInvalidate)),
        "keys: {outcome:?}"
    );
    let outcome = made.set_layout_sg(SetLayout::NOW, &[one; 4]);
    anyhow::ensure!(outcome.is_err(), "more ranges than it was made for");
    Ok(())
}

fn bind(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let pd = domain(&pair)?;
    let region = filled(&pd, &pattern(1, 100))?;
    let mut made = Region::empty(&pd, access())?;
    made.set_layout_sg(SetLayout::NOW, &[region.range(0..10)])?;
    made.set_layout_sg(SetLayout::WITH_POST_WR, &[region.range(50..60)])?;
    same_bytes(&fetch(&pair, &made, 10)?, &pattern(1, 100)[..10], "before")?;
    let mut request = BindRequest::new(&made, 7);
    let mut bad = std::ptr::null_mut();
    // SAFETY: the queue pair is live, and the request outlives the call.
    status(unsafe { sys::ibv_post_send(pair.a.raw, request.as_mut_ptr(), &mut bad) })?;
    pair.a.send_cq.wait()?.is(7, sys::IBV_WC_SUCCESS)?;
    same_bytes(&fetch(&pair, &made, 10)?, &pattern(1, 100)[50..60], "after")
}

fn order(setup: &Setup) -> anyhow::Result<()> {
    // Ends here on a device without layouts.
    drop(pair(setup)?);
    let before = resources::count(&setup.device)?;
    {
        let context = Context::open(&setup.device)?;
        let caps = context.layout_caps()?;
        anyhow::ensure!(caps.max_ranges >= 65_536, "{caps:?}");
        let pd = Pd::new(&context)?;
        let ground = filled(&pd, &pattern(1, 100))?;
        let mut first = Region::empty(&pd, access())?;
        first.set_layout_sg(SetLayout::NOW, &[ground.range(0..50), ground.range(20..70)])?;
        let mut second = Region::indirect(&pd, 2, access())?;
        second.set_layout_sg(
            SetLayout::NOW,
            &[first.range(10..90), ground.range(99..100)],
        )?;
        ensure_eq!(second.layout_info()?.map(|info| info.nesting), Some(2_u32));
    }
    resources::come_back_to(&setup.device, &before)
}

fn advice(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let pd = domain(&pair)?;
    let pinned = filled(&pd, &pattern(1, 100))?;
    let paged = Region::with_memory(&pd, 1 << 20, access() | Access::ON_DEMAND)?;
    let whole = paged.range(0..1 << 20);
    for flags in [Advise::FLUSH, Advise::LATER] {
        for advice in [
            Advice::Prefetch,
            Advice::PrefetchWrite,
            Advice::PrefetchNoFault,
        ] {
            pd.advise(advice, flags, &[whole, paged.range(5..6)])?;
            let error = pd.advise(advice, flags, &[pinned.range(0..100)]).err();
            ensure_eq!(
                error.and_then(|error| error.raw_os_error()),
                Some(libc::EINVAL)
            );
        }
    }
    Ok(())
}
