// SPDX-License-Identifier: GPL-2.0

//! What regions with attributes do, as a module in Rust sees it.

use crate::{
    bindings::{
        self,
        ib_mr,
        ib_mr_init_attr,
        ib_pd,
        ib_sge, //
    },
    consumer::{
        Dimension,
        Direct,
        Indirect,
        Keys,
        Operations,
        Pattern,
        Registration,
        Source,
        Start, //
    },
    scene::{
        Scene,
        Side::{
            Source as From,
            Target as To, //
        },
        Status,
        Step, //
    },
    Failure, //
};
use core::ptr::NonNull;
use kernel::{
    error::from_err_ptr,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

/// Ends the test if the condition does not hold.
macro_rules! check {
    ($condition:expr) => {
        if !$condition {
            return Err(Failure::at(line!(), stringify!($condition)));
        }
    };
}

/// Ends the test unless the result is that error.
macro_rules! refused {
    ($error:expr, $result:expr) => {
        check!(matches!($result, Err(e) if e == $error))
    };
}

type Outcome = Result<(), Failure>;

const PAGES: u32 = 4;

/// A region of the whole buffer of the target.
macro_rules! target {
    ($scene:ident, $domain:ident) => {{
        let region = Direct::new(&$domain, PAGES)?;
        $scene.register(&region, To)?;
        region
    }};
}

pub fn direct_region(scene: &Scene) -> Outcome {
    let domain = scene.domain()?;
    let target = target!(scene, domain);
    let local = scene.part(&domain, From, 100, 5000);
    let write = Step::write(local, scene.at(To, 4000), target.rkey());
    check!(scene.perform(write)? == Status::SUCCESS);
    check!(scene.has_moved([(100, 4000, 5000)])?);
    Ok(())
}

pub fn counted(scene: &Scene) -> Outcome {
    let domain = scene.domain()?;
    let before = scene.users();
    let region = Direct::new(&domain, 1)?;
    check!(scene.users() == before + 1);
    drop(region);
    check!(scene.users() == before);
    Ok(())
}

pub fn bad_attributes(scene: &Scene) -> Outcome {
    let domain = scene.domain()?;
    let before = scene.users();
    refused!(EINVAL, Direct::new(&domain, 0));
    refused!(EINVAL, Indirect::new(&domain, 0));
    check!(scene.users() == before);
    Ok(())
}

pub fn no_indirect_region(scene: &Scene) -> Outcome {
    let domain = scene.domain()?;
    let before = scene.users();
    refused!(EOPNOTSUPP, Indirect::new(&domain, 1));
    check!(scene.users() == before);
    Ok(())
}

pub fn ranges(scene: &Scene) -> Outcome {
    let domain = scene.domain()?;
    let target = target!(scene, domain);
    let mut from = Indirect::new(&domain, 2)?;
    let mut to = Indirect::new(&domain, 3)?;
    from.set_ranges(
        &[
            scene.part(&domain, From, 300, 64),
            scene.part(&domain, From, 9, 4000),
        ],
        Start::Now,
        Keys::MayChange,
    )?;
    to.set_ranges(
        &[
            scene.part(&target, To, 8000, 10),
            scene.part(&target, To, 0, 4000),
            scene.part(&target, To, 12_000, 54),
        ],
        Start::Now,
        Keys::MayChange,
    )?;
    let moves = [
        (300, 8000, 10),
        (310, 0, 54),
        (9, 54, 3946),
        (3955, 12_000, 54),
    ];
    let whole = from.range(0, 4064);
    check!(scene.perform(Step::write(whole, 0, to.rkey()))? == Status::SUCCESS);
    check!(scene.has_moved(moves)?);
    scene.fill();
    check!(scene.perform(Step::send(whole, to.range(0, 4064)))? == Status::SUCCESS);
    check!(scene.has_moved(moves)?);
    Ok(())
}

pub fn patterns(scene: &Scene) -> Outcome {
    let domain = scene.domain()?;
    let target = target!(scene, domain);
    let row = |count| {
        [Dimension {
            offset_stride: 32,
            datum_count: count,
        }]
    };
    let (two, four) = (row(2), row(4));
    let mut mix = Indirect::new(&domain, 2)?;
    let entry = |at, repeat, dimensions| Pattern {
        first: scene.part(&domain, From, at, 8),
        repeat,
        dimensions,
    };
    // A two and B four, 1:2, is ABBABB.
    mix.set_patterns(
        &[entry(0, 1, &two), entry(4096, 2, &four)],
        Start::Now,
        Keys::MayChange,
    )?;
    let write = Step::write(mix.range(0, 48), scene.at(To, 0), target.rkey());
    check!(scene.perform(write)? == Status::SUCCESS);
    let places = [0, 4096, 4128, 32, 4160, 4192];
    check!(scene.has_moved(
        places
            .iter()
            .enumerate()
            .map(|(n, &place)| (place, 8 * n, 8))
    )?);
    Ok(())
}

pub fn read_through_levels(scene: &Scene) -> Outcome {
    let domain = scene.domain()?;
    let source = Direct::new(&domain, PAGES)?;
    scene.register(&source, From)?;
    let mut inner = Indirect::new(&domain, 1)?;
    inner.set_ranges(
        &[scene.part(&source, From, 1000, 500)],
        Start::Now,
        Keys::MayChange,
    )?;
    // While `outer` is there, neither `inner` can get another layout nor `source` end: that does
    // not compile.
    let mut outer = Indirect::new(&domain, 2)?;
    outer.set_ranges(
        &[inner.range(400, 100), inner.range(0, 100)],
        Start::Now,
        Keys::MayChange,
    )?;
    let local = scene.part(&domain, To, 0, 200);
    check!(scene.perform(Step::read(local, 0, outer.rkey()))? == Status::SUCCESS);
    check!(scene.has_moved([(1400, 0, 100), (1000, 100, 100)])?);
    Ok(())
}

pub fn keys(scene: &Scene) -> Outcome {
    let domain = scene.domain()?;
    let target = target!(scene, domain);
    let mut region = Indirect::new(&domain, 2)?;
    let part = |at| scene.part(&domain, From, at, 16);
    region.set_ranges(&[part(0), part(32)], Start::Now, Keys::MayChange)?;
    let (lkey, rkey) = (region.lkey(), region.rkey());

    region.set_ranges(&[part(8), part(64)], Start::Now, Keys::MustStay)?;
    check!((region.lkey(), region.rkey()) == (lkey, rkey));
    refused!(
        ESTALE,
        region.set_ranges(&[part(0)], Start::Now, Keys::MustStay)
    );
    check!((region.lkey(), region.rkey()) == (lkey, rkey));

    let write = Step::write(region.range(0, 32), scene.at(To, 0), target.rkey());
    check!(scene.perform(write)? == Status::SUCCESS);
    check!(scene.has_moved([(8, 0, 16), (64, 16, 16)])?);

    region.set_ranges(&[part(0)], Start::Now, Keys::MayChange)?;
    check!(region.lkey() != lkey && region.rkey() != rkey);
    check!(scene.perform(write)? == Status::PROTECTION);
    Ok(())
}

pub fn refusals(scene: &Scene) -> Outcome {
    let domain = scene.domain()?;
    let target = target!(scene, domain);
    let mut region = Indirect::new(&domain, 2)?;
    let part = scene.part(&target, To, 0, 16);
    region.set_ranges(&[part, part], Start::Now, Keys::MayChange)?;
    let rkey = region.rkey();
    let mut refuses = |ranges: &[_], error| {
        let set = region.set_ranges(ranges, Start::Now, Keys::MayChange);
        matches!(set, Err(e) if e == error)
    };
    check!(refuses(&[], EINVAL));
    check!(refuses(&[scene.part(&target, To, 0, 0)], EINVAL));
    check!(refuses(
        &[scene.part(&target, To, u64::from(PAGES) << 12, 1)],
        EFAULT
    ));
    check!(refuses(&[part; 3], EOPNOTSUPP));
    check!(region.rkey() == rkey);
    let local = scene.part(&domain, From, 50, 16);
    check!(scene.perform(Step::write(local, 16, rkey))? == Status::SUCCESS);
    check!(scene.has_moved([(50, 0, 16)])?);
    Ok(())
}

pub fn waiting_layout(scene: &Scene) -> Outcome {
    let domain = scene.domain()?;
    let target = target!(scene, domain);
    let mut region = Indirect::new(&domain, 1)?;
    let part = |at| scene.part(&domain, From, at, 32);
    region.set_ranges(&[part(700)], Start::Now, Keys::MayChange)?;
    region.set_ranges(&[part(900)], Start::WithWorkRequest, Keys::MustStay)?;
    let write = |at| Step::write(region.range(0, 32), scene.at(To, at), target.rkey());
    let done = scene.perform_all([write(0), Step::bind(&region), write(100)])?;
    check!(done == [Status::SUCCESS; 3]);
    check!(scene.has_moved([(700, 0, 32), (900, 100, 32)])?);

    check!(scene.perform(Step::bind(&region))? == Status::BIND);
    scene.connect()?;
    check!(scene.perform(write(0))? == Status::SUCCESS);
    Ok(())
}

pub fn one_sided_rights(scene: &Scene) -> Outcome {
    let domain = scene.domain()?;
    let mut region = Indirect::new(&domain, 1)?;
    region.set_ranges(
        &[scene.part(&domain, To, 0, 64)],
        Start::Now,
        Keys::MayChange,
    )?;
    let local = scene.part(&domain, From, 0, 64);
    check!(scene.perform(Step::write(local, 0, region.rkey()))? == Status::REMOTE_ACCESS);
    check!(scene.has_moved([])?);
    Ok(())
}

/// The operations of a driver that counts what it is asked.
struct Counting;

static CREATED: Atomic<u32> = Atomic::new(0);
static PIECES: Atomic<u32> = Atomic::new(0);

impl Operations for Counting {
    fn create(pd: NonNull<ib_pd>, attr: &ib_mr_init_attr) -> Result<NonNull<ib_mr>> {
        let kind = bindings::ib_mr_type_IB_MR_TYPE_MEM_REG;
        CREATED.add(1, Relaxed);
        // SAFETY: The domain is alive during the call.
        let mr =
            unsafe { bindings::ib_alloc_mr(pd.as_ptr(), kind, attr.max_reg_descriptors as u32) };
        NonNull::new(from_err_ptr(mr)?).ok_or(ENOMEM)
    }

    fn set_ranges(_mr: NonNull<ib_mr>, _flags: u32, list: &[ib_sge]) -> Result {
        PIECES.store(list.len() as u32, Relaxed);
        if list.len() > 2 {
            return Err(ENOSPC);
        }
        Ok(())
    }
}

pub fn operations(scene: &Scene) -> Outcome {
    let domain = scene.domain()?;
    let users = scene.users();
    CREATED.store(0, Relaxed);
    PIECES.store(0, Relaxed);
    {
        // SAFETY: The device is there as long as the scene is.
        let registration = unsafe { Registration::<Counting>::new(scene.device()?) }?;
        // SAFETY: As above.
        refused!(EEXIST, unsafe {
            Registration::<Counting>::new(scene.device()?)
        });
        let mut region = Indirect::new(&domain, 3)?;
        check!(CREATED.load(Relaxed) == 1);
        let part = scene.part(&domain, From, 0, 8);
        region.set_ranges(&[part; 2], Start::Now, Keys::MayChange)?;
        check!(PIECES.load(Relaxed) == 2);
        let many = region.set_ranges(&[part; 3], Start::Now, Keys::MayChange);
        refused!(ENOSPC, many);
        let row = [Dimension {
            offset_stride: 8,
            datum_count: 1,
        }];
        let pattern = Pattern {
            first: part,
            repeat: 1,
            dimensions: &row,
        };
        let unknown = region.set_patterns(&[pattern], Start::Now, Keys::MayChange);
        refused!(EOPNOTSUPP, unknown);
        drop(region);
        drop(registration);
    }
    refused!(EOPNOTSUPP, Indirect::new(&domain, 3));
    check!(CREATED.load(Relaxed) == 1);
    check!(scene.users() == users);
    Ok(())
}

pub fn no_other_operations(scene: &Scene) -> Outcome {
    // SAFETY: The device is there as long as the scene is.
    refused!(EEXIST, unsafe {
        Registration::<Counting>::new(scene.device()?)
    });
    Ok(())
}
