// SPDX-License-Identifier: GPL-2.0

//! A hostile process: threads that make calls, one that writes to rings, and
//! one that plays with what they stand on.

use std::{
    fs, io,
    os::fd::AsRawFd,
    sync::atomic::Ordering::Relaxed,
    time::{Duration, Instant},
};

use crate::{
    arena::{Arena, PAGE},
    caller::Caller,
    coverage::Coverage,
    device::{gids, File},
    ledger::{errno_of, Ledger},
    schema::QP,
    world::{Index, World},
};

/// Device files that a process has open.
const FILES: usize = 2;
/// Words of rings that are changed before the kernel is made to look, at most.
const BURST: u32 = 50;

/// What a hostile process is told.
#[derive(Clone)]
pub struct Orders {
    pub device: String,
    pub seed: u64,
    pub threads: usize,
    /// When it ends, if nobody kills it before.
    pub lifetime: Duration,
    /// Its canaries can be written to, and nothing is paged on demand.
    pub confined: bool,
    /// Its device may go while it runs.
    pub device_goes: bool,
    pub coverage: Option<Coverage>,
}

/// Is hostile until the time is over, and ends with everything live.
pub fn run(ledger: &'static Ledger, index: Index, orders: &Orders) -> ! {
    std::panic::set_hook(Box::new(|panic| {
        println!("# a hostile process panics: {panic}");
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(101) }
    }));
    if let Err(error) = be_hostile(ledger, index, orders) {
        println!("# a hostile process cannot start: {error}");
    }
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(1) }
}

fn be_hostile(ledger: &'static Ledger, index: Index, orders: &Orders) -> io::Result<()> {
    let mut random = fastrand::Rng::with_seed(orders.seed);
    let world: &'static World = Box::leak(Box::new(World {
        ledger,
        lines: index.lines,
        method_lines: index.methods,
        command_lines: index.commands,
        opcode_lines: index.opcodes,
        receive_line: index.receive,
        operation_lines: index.operations,
        arena: Arena::new(orders.confined)?,
        gids: gids(&orders.device),
        buffers: buffers(),
        confined: orders.confined,
        device_goes: orders.device_goes,
        coverage: orders.coverage,
    }));
    let files: &'static [File] = Vec::leak((0..FILES).map(|_| File::new()).collect());
    let end = Instant::now() + orders.lifetime;
    for file in files {
        while let Err(error) = file.open(&orders.device) {
            // The device may just be on its way out, or not be there yet.
            ledger.count(world.lines.opened, errno_of(&Err(error)));
            if Instant::now() >= end {
                // SAFETY: ends the process at once.
                unsafe { libc::_exit(0) }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    for thread in 0..orders.threads {
        let caller = Caller::new(world, &files[thread % FILES], random.u64(..))?;
        // Who does not end is told by these names.
        let builder = |name: &str| std::thread::Builder::new().name(name.into());
        match thread {
            0 => builder("vandal").spawn(move || vandalise(caller))?,
            _ => builder("caller").spawn(move || call(caller))?,
        };
    }
    let mut player = Caller::new(world, &files[0], random.u64(..))?;
    player.trace();
    while Instant::now() < end {
        player.play(&orders.device);
        player.file = &files[player.random.usize(0..FILES)];
        look_for_harm(world, orders);
        std::thread::sleep(Duration::from_millis(player.random.u64(1..12)));
    }
    look_for_harm(world, orders);
    player.depart()
}

fn look_for_harm(world: &World, orders: &Orders) {
    let harm = world.arena.harm();
    if harm > 0 {
        println!(
            "# {harm} words changed in memory that was never registered (seed {})",
            orders.seed
        );
        world.ledger.totals().harm.fetch_add(harm, Relaxed);
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(1) }
    }
}

/// Makes calls for ever.
fn call(mut caller: Caller<'_>) {
    caller.trace();
    let mut generation = 0;
    loop {
        let opened = caller.file.generation.load(Relaxed);
        if generation != opened {
            generation = opened;
            caller.begin();
        }
        match caller.random.u8(0..64) {
            0..27 => caller.method(),
            27..48 => caller.command(),
            48..54 => caller.post_by_hand(),
            54..57 => caller.receive_by_hand(),
            57..61 => caller.drain(),
            _ => caller.converse(),
        }
    }
}

/// Changes rings for ever.
fn vandalise(mut caller: Caller<'_>) {
    caller.trace();
    loop {
        // What is broken has to be ready first.
        let connected = match caller.random.u8(0..6) {
            0 => caller.connect(),
            _ => None,
        };
        for _ in 0..caller.random.u32(1..BURST) {
            caller.disturb();
        }
        let owner = connected.map_or_else(|| caller.handle(QP), |(near, _)| near.handle);
        caller.doorbell(owner);
        // Calm now and then, so that something is left to be broken.
        let calm = caller.random.u64(0..20);
        std::thread::sleep(Duration::from_micros(calm * calm * 20));
    }
}

/// Buffers of other drivers, as far as there are any.
fn buffers() -> Vec<i32> {
    /// `UDMABUF_CREATE`, and `struct udmabuf_create`.
    const UDMABUF_CREATE: u64 = 0x4018_7542;
    #[repr(C)]
    struct Create {
        memfd: u32,
        flags: u32,
        offset: u64,
        size: u64,
    }
    let Ok(driver) = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/udmabuf")
    else {
        return Vec::new();
    };
    let mut buffers = Vec::new();
    for pages in [1, 16] {
        // SAFETY: a name that ends with a zero, and a file of ours.
        let memory = unsafe {
            let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
            let memory = libc::memfd_create(c"buffer".as_ptr(), flags);
            libc::ftruncate(memory, (pages * PAGE) as i64);
            libc::fcntl(memory, libc::F_ADD_SEALS, libc::F_SEAL_SHRINK);
            memory
        };
        let create = Create {
            memfd: memory as u32,
            flags: 1,
            offset: 0,
            size: (pages * PAGE) as u64,
        };
        // SAFETY: the structure that the driver reads, and a file of ours.
        unsafe {
            let buffer = libc::ioctl(driver.as_raw_fd(), UDMABUF_CREATE, &raw const create);
            libc::close(memory);
            if buffer >= 0 {
                buffers.push(buffer);
            }
        }
    }
    buffers
}
