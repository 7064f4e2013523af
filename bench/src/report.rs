// SPDX-License-Identifier: GPL-2.0

//! What was measured, and what it is held against.

use serde::Serialize;

/// Of what a value is.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Bandwidth; more is better.
    #[serde(rename = "MiB/s")]
    MibPerSecond,
    /// A rate; more is better.
    #[serde(rename = "1/s")]
    PerSecond,
    /// A time; less is better.
    #[serde(rename = "us")]
    Microseconds,
}

impl Unit {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::MibPerSecond => "MiB/s",
            Self::PerSecond => "per second",
            Self::Microseconds => "microseconds",
        }
    }

    /// How many times as good `value` is as `other`.
    pub fn times(self, value: f64, other: f64) -> f64 {
        match self {
            Self::Microseconds => other / value,
            Self::MibPerSecond | Self::PerSecond => value / other,
        }
    }
}

/// One value.
#[derive(Clone, Serialize)]
pub struct Record {
    /// The table that it is in.
    pub table: &'static str,
    /// What was done.
    pub row: String,
    /// By whom or how.
    pub subject: &'static str,
    /// The value.
    pub value: f64,
    /// Its unit.
    pub unit: Unit,
}

/// A ratio that the project wants to see. Nothing fails when it does not.
#[derive(Clone, Serialize)]
pub struct Goal {
    /// What is compared.
    pub name: String,
    /// How many times as good it is.
    pub times: f64,
    /// How many times as good it should be.
    pub goal: f64,
    /// Whether it is.
    pub met: bool,
}

/// Where it was measured.
#[derive(Clone, Serialize)]
pub struct Machine {
    /// The kernel's release.
    pub kernel: String,
    /// The processor as the kernel names it.
    pub cpu: String,
    /// How many the guest has.
    pub cpus: usize,
    /// kvm, tcg, or what the caller said.
    pub accelerator: String,
}

/// Everything.
#[derive(Serialize)]
pub struct Report {
    /// Where
    pub machine: Machine,
    /// What
    pub records: Vec<Record>,
    /// Against what
    pub goals: Vec<Goal>,
    /// Groups that could not be measured, and why.
    pub failures: Vec<String>,
}

impl Report {
    /// Nothing yet.
    pub fn new(machine: Machine) -> Self {
        Self {
            machine,
            records: Vec::new(),
            goals: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// Adds a value.
    pub fn add(
        &mut self,
        table: &'static str,
        row: impl Into<String>,
        subject: &'static str,
        value: f64,
        unit: Unit,
    ) {
        self.records.push(Record {
            table,
            row: row.into(),
            subject,
            value,
            unit,
        });
    }

    /// A value that was added.
    pub fn find(&self, table: &str, row: &str, subject: &str) -> Option<&Record> {
        let is = |record: &&Record| {
            record.table == table && record.row == row && record.subject == subject
        };
        self.records.iter().find(is)
    }

    /// Holds one value of a row against another, if both are there.
    pub fn hold(&mut self, table: &str, row: &str, subject: &str, against: &str, goal: f64) {
        let found = (
            self.find(table, row, subject),
            self.find(table, row, against),
        );
        let (Some(value), Some(other)) = found else {
            return;
        };
        let times = value.unit.times(value.value, other.value);
        let name = format!("{row}: {subject} against {against}");
        self.goals.push(Goal {
            name,
            times,
            goal,
            met: times >= goal,
        });
    }
}

/// Bytes, in the largest unit that keeps it a whole number.
pub fn bytes(count: usize) -> String {
    match count {
        0 => "0 B".to_owned(),
        n if n % (1 << 20) == 0 => format!("{} MiB", n >> 20),
        n if n % (1 << 10) == 0 => format!("{} KiB", n >> 10),
        n => format!("{n} B"),
    }
}

/// A number with separators.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
