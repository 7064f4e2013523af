// SPDX-License-Identifier: GPL-2.0

//! What was done and what became of it, counted in memory that all processes
//! share, so that nothing is lost when one of them is killed.

use std::{
    collections::BTreeMap,
    ffi::CStr,
    io, ptr,
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
};

/// Outcomes that are told apart: success, errno values, and all others in one.
const OUTCOMES: usize = 140;
/// More lines than there are.
const LINES: usize = 512;

/// Numbers that the whole run has.
#[repr(C)]
pub struct Totals {
    /// System calls on the device.
    pub calls: AtomicU64,
    /// Words of rings that were changed.
    pub mutations: AtomicU64,
    /// Games with the address space and with processes.
    pub games: AtomicU64,
    /// Messages that the bystanders exchanged.
    pub messages: AtomicU64,
    /// Not zero when the bystanders shall come to an end.
    pub stop: AtomicU64,
    /// What must not happen: bytes that changed where nothing may write.
    pub harm: AtomicU64,
}

#[repr(C)]
struct Shared {
    totals: Totals,
    counts: [[AtomicU32; OUTCOMES]; LINES],
}

/// What a line of the ledger is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// The module handles it.
    Handled,
    /// The core handles it, or nobody.
    Core,
    /// A request in a send ring, by its opcode, and how it completed.
    Request,
    /// The same of what no ring of a process may hold.
    Forbidden,
    /// Something that was done to rings.
    Ring,
    /// Something that was done to memory, files or processes.
    Game,
}

impl Group {
    fn title(self) -> &'static str {
        match self {
            Self::Handled => "calls that a handler of the module answers",
            Self::Core => "calls that the core answers, or nobody",
            Self::Request => "requests in rings, by opcode and completion status",
            Self::Forbidden => "requests that no ring may hold, the same",
            Self::Ring => "operations on rings",
            Self::Game => "games with memory, files and processes",
        }
    }
}

/// A line of the ledger.
#[derive(Clone, Copy)]
pub struct Line(usize);

/// The ledger.
pub struct Ledger {
    shared: &'static Shared,
    names: Vec<(Group, &'static str)>,
}

impl Ledger {
    pub fn new() -> io::Result<Self> {
        // SAFETY: a new mapping disturbs no other.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                size_of::<Shared>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_ANONYMOUS | libc::MAP_SHARED,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: zeroed memory of this size, which is never unmapped; it
        // consists of atomic integers.
        let shared = unsafe { &*start.cast::<Shared>() };
        Ok(Self {
            shared,
            names: Vec::new(),
        })
    }

    /// Adds a line. All lines are added before other processes start.
    pub fn line(&mut self, group: Group, name: &'static str) -> Line {
        assert!(self.names.len() < LINES, "the ledger is too small");
        self.names.push((group, name));
        Line(self.names.len() - 1)
    }

    pub fn totals(&self) -> &Totals {
        &self.shared.totals
    }

    /// Counts an outcome: 0 for success, else an errno value or a status.
    pub fn count(&self, line: Line, outcome: i32) {
        let at = usize::try_from(outcome).map_or(OUTCOMES - 1, |at| at.min(OUTCOMES - 1));
        self.shared.counts[line.0][at].fetch_add(1, Relaxed);
    }

    /// Counts a system call by what it returned.
    pub fn count_call(&self, line: Line, outcome: &io::Result<()>) {
        self.totals().calls.fetch_add(1, Relaxed);
        self.count(line, errno_of(outcome));
    }

    fn outcomes(&self, line: usize) -> BTreeMap<usize, u32> {
        let counts = self.shared.counts[line].iter().enumerate();
        counts
            .map(|(outcome, count)| (outcome, count.load(Relaxed)))
            .filter(|(_, count)| *count > 0)
            .collect()
    }

    /// What the module does for users, and what it was not seen to do, or not to
    /// refuse.
    pub fn gaps(&self) -> Vec<String> {
        let mut gaps = Vec::new();
        for (line, (group, name)) in self.names.iter().enumerate() {
            if !matches!(group, Group::Handled | Group::Request) {
                continue;
            }
            let outcomes = self.outcomes(line);
            if !outcomes.contains_key(&0) {
                gaps.push(format!("{name} never succeeded"));
            }
            if outcomes.keys().all(|outcome| *outcome == 0) {
                gaps.push(format!("{name} never failed"));
            }
        }
        gaps
    }

    /// Prints everything, and in the end what was never reached.
    pub fn print(&self) {
        let mut groups: BTreeMap<Group, Vec<usize>> = BTreeMap::new();
        for (line, (group, _)) in self.names.iter().enumerate() {
            groups.entry(*group).or_default().push(line);
        }
        for (group, lines) in &groups {
            println!("# {}", group.title());
            let (mut reached, mut missed) = (0, Vec::new());
            for &line in lines {
                let (name, outcomes) = (self.names[line].1, self.outcomes(line));
                let good = outcomes.get(&0).copied().unwrap_or(0);
                let all: u32 = outcomes.values().sum();
                let bad: Vec<_> = outcomes
                    .iter()
                    .filter(|(outcome, _)| **outcome != 0)
                    .map(|(outcome, count)| format!("{}:{count}", outcome_name(*group, *outcome)))
                    .collect();
                println!("#   {name}: {good} of {all} succeeded {}", bad.join(" "));
                if good > 0 {
                    reached += 1;
                } else {
                    missed.push(name);
                }
            }
            println!("#   {reached} of {} succeeded at least once", lines.len());
            if !missed.is_empty() && *group != Group::Core {
                println!("#   never: {}", missed.join(", "));
            }
        }
    }
}

/// The errno value of a result, 0 for success.
pub fn errno_of(outcome: &io::Result<()>) -> i32 {
    match outcome {
        Ok(()) => 0,
        Err(error) => error.raw_os_error().unwrap_or(libc::EINVAL),
    }
}

fn outcome_name(group: Group, outcome: usize) -> String {
    if outcome == OUTCOMES - 1 {
        return "other".into();
    }
    if matches!(group, Group::Request | Group::Forbidden) {
        return mrx_selftest_verbs::harness::cq::status_name(outcome as u32).replace(' ', "_");
    }
    // SAFETY: the answer is a string constant, or null for a number that is none.
    let name = unsafe {
        let name = strerrorname_np(outcome as i32);
        if name.is_null() {
            return outcome.to_string();
        }
        CStr::from_ptr(name)
    };
    name.to_string_lossy().into_owned()
}

unsafe extern "C" {
    fn strerrorname_np(errno: i32) -> *const std::ffi::c_char;
}
