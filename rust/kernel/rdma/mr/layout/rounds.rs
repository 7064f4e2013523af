// SPDX-License-Identifier: GPL-2.0

//! Which entry of an interleaved layout has its turn at a position.
//!
//! Every entry has full turns, then perhaps a last shorter one, then none. So the rounds of a
//! layout fall into few *phases*, within which all rounds are alike: at most two for each entry,
//! and just one if all entries end together with a full turn. A round is found by a search for
//! the phase and a division.
//!
//! Which entry a byte of the round belongs to is found in a binary tree whose leaves are the turns
//! of the phase, in order, and whose forks know how many bytes lie to their left. Neighbouring
//! phases differ in one or a few turns and share all of the tree but the way to these. Entries
//! without a turn are not in the tree, and forks with only one side do not exist, so the tree of
//! few turns is low however many entries there are.

use super::{
    platform::{
        count_visit,
        Table, //
    },
    units::exact,
    ByteLength,
    LayoutError,
    Position, //
};
use core::{
    cmp,
    num::NonZeroU64, //
};

/// How many data an entry contributes to each round.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Turns {
    data: NonZeroU64,
    /// Data of a full turn; at most `data`.
    full: NonZeroU64,
    /// The number of full turns.
    full_turns: u64,
    /// Data of the turn after the full ones; 0 if there is none.
    last: u64,
}

impl Turns {
    pub(super) fn new(data: NonZeroU64, repeat: NonZeroU64) -> Self {
        let full = data.min(repeat);
        Self {
            data,
            full,
            full_turns: data.get() / full,
            last: data.get() % full,
        }
    }

    /// The number of all data.
    pub(super) fn data(&self) -> u64 {
        self.data.get()
    }

    /// The number of data in round `round`.
    pub(super) fn in_round(&self, round: u64) -> u64 {
        match round.cmp(&self.full_turns) {
            cmp::Ordering::Less => self.full.get(),
            cmp::Ordering::Equal => self.last,
            cmp::Ordering::Greater => 0,
        }
    }

    /// The number of data in the rounds before `round`, in which the entry still has a turn.
    pub(super) fn before(&self, round: u64) -> u64 {
        exact::mul(self.full.get(), round)
    }
}

/// A subtree of the turns of a round.
#[derive(Clone, Copy)]
pub(super) enum Branch {
    /// The turn of one entry.
    Turn(u32),
    /// A row in the table of forks.
    Fork(u32),
}

struct Fork {
    left: Branch,
    right: Branch,
    left_bytes: u64,
}

/// Rounds that are alike.
///
/// # Invariants
///
/// `first_round < end_round`, and `bytes` is the sum of the turns under `root`.
struct Phase {
    start: Position,
    first_round: u64,
    end_round: u64,
    /// The bytes of each round.
    bytes: NonZeroU64,
    root: Branch,
}

/// The turns of all rounds.
///
/// # Invariants
///
/// Each phase starts where the one before it ends, the first at round 0 and position 0. The
/// branches of a fork are turns, or forks that stand before it in the table.
pub(super) struct Rounds {
    phases: Table<Phase>,
    forks: Table<Fork>,
}

/// The turn of an entry in a round.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    phase: u32,
    pub(super) entry: u32,
    pub(super) round: u64,
}

impl Turn {
    /// The turn of the next entry in the same round, if that entry has one.
    pub(super) fn neighbour(&self) -> Self {
        Self {
            entry: self.entry.saturating_add(1),
            ..*self
        }
    }
}

/// A byte of a turn.
pub(super) struct Found {
    pub(super) turn: Turn,
    /// The bytes of the turn before this one.
    pub(super) offset: ByteLength,
    /// No other entry has a turn from here on.
    pub(super) alone: bool,
}

impl Rounds {
    /// The rounds of entries with the given turns and bytes for each datum.
    ///
    /// The bytes of all turns together must fit in 64 bits.
    pub(super) fn new(
        entries: impl ExactSizeIterator<Item = (Turns, NonZeroU64)>,
    ) -> Result<Self, LayoutError> {
        let mut forks = Table::with_capacity(entries.len().saturating_sub(1))?;
        let mut level = Level::of_entries(entries)?;
        while level.ends.len() > 1 {
            level = level.join_pairs(&mut forks)?;
        }

        let mut phases = Table::with_capacity(level.states.len().saturating_sub(1))?;
        let mut start = Position(0);
        for (state, next) in level.states.iter().zip(level.states.iter().skip(1)) {
            let (Some(bytes), Some(root)) = (NonZeroU64::new(state.bytes), state.branch) else {
                continue;
            };
            phases.push(Phase {
                start,
                first_round: state.round,
                end_round: next.round,
                bytes,
                root,
            })?;
            let rounds = exact::sub(next.round, state.round);
            start = start.plus(ByteLength(exact::mul(bytes.get(), rounds)));
        }
        Ok(Self { phases, forks })
    }

    pub(super) fn memory(&self) -> usize {
        self.phases.memory().saturating_add(self.forks.memory())
    }

    /// The turn that the byte at `position`, which is in the layout, belongs to.
    pub(super) fn find(&self, position: Position) -> Option<Found> {
        let after = self.phases.partition_point(|phase| {
            count_visit();
            phase.start <= position
        });
        let index = after.checked_sub(1)?;
        let phase = self.phases.get(index)?;
        let into_phase = position.since(phase.start).0;

        self.find_in_round(
            u32::try_from(index).ok()?,
            exact::add(phase.first_round, into_phase / phase.bytes),
            into_phase % phase.bytes,
        )
    }

    /// The turn after `turn`, which ends before `position` and is not the last; the entry after
    /// that of `turn` has none in this round.
    pub(super) fn find_next(&self, turn: &Turn, position: Position) -> Option<Found> {
        let phase = self.phases.get(turn.phase as usize)?;
        let rounds = exact::sub(turn.round, phase.first_round);
        let into_phase = position.since(phase.start).0;
        let into_round = exact::sub(into_phase, exact::mul(rounds, phase.bytes.get()));
        if into_round < phase.bytes.get() {
            return self.find_in_round(turn.phase, turn.round, into_round);
        }

        let round = exact::add(turn.round, 1);
        let later = u32::from(round == phase.end_round);
        self.find_in_round(turn.phase.saturating_add(later), round, 0)
    }

    /// The turn that byte `into_round` of round `round` of a phase belongs to.
    fn find_in_round(&self, phase: u32, round: u64, into_round: u64) -> Option<Found> {
        let root = self.phases.get(phase as usize)?.root;
        let mut offset = into_round;
        let mut branch = root;
        loop {
            count_visit();
            match branch {
                Branch::Turn(entry) => {
                    return Some(Found {
                        turn: Turn {
                            phase,
                            entry,
                            round,
                        },
                        offset: ByteLength(offset),
                        alone: matches!(root, Branch::Turn(_)),
                    })
                }
                Branch::Fork(fork) => {
                    let fork = self.forks.get(fork as usize)?;
                    branch = match offset.checked_sub(fork.left_bytes) {
                        Some(right) => {
                            offset = right;
                            fork.right
                        }
                        None => fork.left,
                    };
                }
            }
        }
    }
}

/// What a group of neighbouring entries contributes to each round from `round` on.
#[derive(Clone, Copy)]
struct State {
    round: u64,
    bytes: u64,
    branch: Option<Branch>,
}

/// The history of each group of one size, in order.
///
/// A history starts at round 0 and ends with a state that has no branch.
struct Level {
    states: Table<State>,
    /// Where the history of each group ends in `states`.
    ends: Table<usize>,
}

impl Level {
    fn with_capacity(groups: usize, states: usize) -> Result<Self, LayoutError> {
        Ok(Self {
            states: Table::with_capacity(states)?,
            ends: Table::with_capacity(groups)?,
        })
    }

    fn of_entries(
        entries: impl ExactSizeIterator<Item = (Turns, NonZeroU64)>,
    ) -> Result<Self, LayoutError> {
        let groups = entries.len();
        let mut level = Self::with_capacity(groups, groups.saturating_mul(2))?;
        for (entry, (turns, length)) in (0u32..).zip(entries) {
            let mut add = |round, data| {
                level.states.push(State {
                    round,
                    bytes: exact::mul(data, length.get()),
                    branch: (data > 0).then_some(Branch::Turn(entry)),
                })
            };
            add(0, turns.full.get())?;
            add(turns.full_turns, turns.last)?;
            if turns.last > 0 {
                add(exact::add(turns.full_turns, 1), 0)?;
            }
            level.close_group()?;
        }
        Ok(level)
    }

    fn close_group(&mut self) -> Result<(), LayoutError> {
        let end = self.states.len();
        self.ends.push(end)
    }

    /// The history of group `group`; empty if there is no such group.
    fn group(&self, group: usize) -> &[State] {
        let end = |group: usize| self.ends.get(group).copied();
        let start = group.checked_sub(1).map_or(Some(0), end);
        start
            .zip(end(group))
            .and_then(|(start, end)| self.states.get(start..end))
            .unwrap_or_default()
    }

    /// The next level: a group for every two of this one.
    fn join_pairs(&self, forks: &mut Table<Fork>) -> Result<Self, LayoutError> {
        let groups = self.ends.len();
        let mut next = Self::with_capacity(groups.div_ceil(2), self.states.len())?;
        for left in (0..groups).step_by(2) {
            let right = self.group(left.saturating_add(1));
            next.join(self.group(left), right, forks)?;
            next.close_group()?;
        }
        Ok(next)
    }

    /// Appends the history of two groups as one.
    fn join(
        &mut self,
        mut left: &[State],
        mut right: &[State],
        forks: &mut Table<Fork>,
    ) -> Result<(), LayoutError> {
        let nothing = State {
            round: 0,
            bytes: 0,
            branch: None,
        };
        let (mut now_left, mut now_right) = (nothing, nothing);

        while let Some(round) = earlier(left.first(), right.first()) {
            take_at(round, &mut left, &mut now_left);
            take_at(round, &mut right, &mut now_right);
            self.states.push(State {
                round,
                bytes: exact::add(now_left.bytes, now_right.bytes),
                branch: fork(&now_left, &now_right, forks)?,
            })?;
        }
        Ok(())
    }
}

/// The earlier of the rounds at which two states begin.
fn earlier(left: Option<&State>, right: Option<&State>) -> Option<u64> {
    left.into_iter().chain(right).map(|state| state.round).min()
}

/// Moves the first of `states` to `now` if it begins at `round`.
fn take_at(round: u64, states: &mut &[State], now: &mut State) {
    if let Some((first, rest)) = states.split_first() {
        if first.round == round {
            *now = *first;
            *states = rest;
        }
    }
}

/// The branch for two states side by side.
fn fork(
    left: &State,
    right: &State,
    forks: &mut Table<Fork>,
) -> Result<Option<Branch>, LayoutError> {
    let (Some(left_branch), Some(right_branch)) = (left.branch, right.branch) else {
        return Ok(left.branch.or(right.branch));
    };
    let index = u32::try_from(forks.len()).map_err(|_| LayoutError::TooManyDescriptors)?;
    forks.push(Fork {
        left: left_branch,
        right: right_branch,
        left_bytes: left.bytes,
    })?;
    Ok(Some(Branch::Fork(index)))
}
