// SPDX-License-Identifier: GPL-2.0

//! Processes that end with layouts over layouts, whatever came first.

use mrx::sys;

use super::scene::ZERO_BASED;
use crate::harness::{
    memory::ALL,
    peer::{hear, tell, Peer},
    resources::{come_back_to, count},
    Context, Mr, Pd, Setup, Test,
};
use std::rc::Rc;

pub const TESTS: &[Test] = &[
    Test::new(
        "exit: regions of layouts go in whatever order they were made",
        any_order,
    ),
    Test::new(
        "exit: regions of layouts go with a process that is killed",
        killed,
    ),
];

/// Which regions a domain gets, and what is set over what: memory, a layout over
/// it, a layout over both, and one over all that waits for its bind request.
const REGIONS: usize = 4;

/// All orders of the numbers below [`REGIONS`].
fn orders() -> Vec<[usize; REGIONS]> {
    let all = 0..REGIONS.pow(REGIONS as u32);
    let digits =
        all.map(|number| std::array::from_fn(|digit| number / REGIONS.pow(digit as u32) % REGIONS));
    let each_once = |order: &[usize; REGIONS]| (0..REGIONS).all(|n| order.contains(&n));
    digits.filter(each_once).collect()
}

/// Makes the regions in an order, and layouts over them.
fn make(pd: &Rc<Pd>, order: [usize; REGIONS]) -> anyhow::Result<Vec<Mr>> {
    let mut made: [Option<Mr>; REGIONS] = Default::default();
    for region in order {
        made[region] = Some(match region {
            0 => Mr::new(pd, 4096, ALL)?,
            1 => Mr::empty(pd, ZERO_BASED)?,
            2 => Mr::indirect(pd, 2, ALL)?,
            _ => Mr::empty(pd, ZERO_BASED)?,
        });
    }
    let made: Vec<Mr> = made.into_iter().flatten().collect();
    let [memory, lower, middle, upper] = &made[..] else {
        anyhow::bail!("not all regions were made");
    };
    lower.set_layout(&[memory.sge(100..200)])?;
    middle.set_layout(&[lower.piece(0, 50), memory.sge(0..50)])?;
    let all = [memory.sge(0..1), lower.piece(0, 1), middle.piece(0, 1)];
    upper.set_layout_with(sys::IBV_MR_SET_LAYOUT_WITH_POST_WR, &all)?;
    Ok(made)
}

/// All orders, each in a domain of its own, which nothing takes down.
fn make_all(setup: &Setup) -> anyhow::Result<()> {
    let orders = orders();
    anyhow::ensure!(orders.len() == 24, "{} orders", orders.len());
    let context = Context::open(setup)?;
    for order in orders {
        std::mem::forget(make(&context.pd()?, order)?);
    }
    std::mem::forget(context);
    Ok(())
}

fn any_order(setup: &Setup) -> anyhow::Result<()> {
    let before = count(&setup.device)?;
    Peer::start(|_| make_all(setup))?.finish()?;
    come_back_to(&setup.device, &before)
}

fn killed(setup: &Setup) -> anyhow::Result<()> {
    let before = count(&setup.device)?;
    let mut peer = Peer::start(|mut stream| {
        make_all(setup)?;
        tell(&mut stream, 0)?;
        loop {
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
    })?;
    hear(&mut peer.stream)?;
    peer.kill()?;
    come_back_to(&setup.device, &before)
}
