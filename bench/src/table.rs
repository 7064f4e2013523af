// SPDX-License-Identifier: GPL-2.0

//! The tables, as text.

use crate::report::{grouped, Goal, Record, Report};

/// Three digits at least, and no more after the point than that takes.
fn number(value: f64) -> String {
    match value {
        v if !v.is_finite() => "-".to_owned(),
        v if v >= 1000.0 => grouped(v.round() as u64),
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// The different values of a field, in order of appearance.
fn distinct<'a, T: PartialEq + 'a>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

/// Prints one table. The first column is what the others are compared with.
pub fn print(report: &Report, table: &str) {
    let records: Vec<&Record> = report.records.iter().filter(|r| r.table == table).collect();
    let Some(first) = records.first() else {
        return;
    };
    let subjects = distinct(records.iter().map(|record| record.subject));
    let rows = distinct(records.iter().map(|record| record.row.as_str()));
    let cell = |row: &str, subject: &str| -> String {
        let of = |subject| report.find(table, row, subject);
        match (of(subject), of(subjects[0])) {
            (None, _) => "-".to_owned(),
            (Some(record), Some(base)) if subject != subjects[0] => {
                let times = record.unit.times(base.value, record.value);
                format!("{} ({}x)", number(record.value), number(times))
            }
            (Some(record), _) => number(record.value),
        }
    };
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| subjects.iter().map(|subject| cell(row, subject)).collect())
        .collect();
    let label = rows
        .iter()
        .map(|row| row.chars().count())
        .max()
        .unwrap_or(0);
    let widths: Vec<usize> = (0..subjects.len())
        .map(|n| {
            let widest = cells
                .iter()
                .map(|row| row[n].chars().count())
                .max()
                .unwrap_or(0);
            widest.max(subjects[n].chars().count())
        })
        .collect();

    println!("\n{table}, {}", first.unit.name());
    let line = |name: &str, texts: Vec<&str>| {
        let texts = texts
            .iter()
            .zip(&widths)
            .map(|(text, width)| format!("  {text:>width$}"));
        println!("  {name:<label$}{}", texts.collect::<String>());
    };
    line("", subjects.clone());
    for (row, texts) in rows.iter().zip(&cells) {
        line(row, texts.iter().map(String::as_str).collect());
    }
}

/// Prints what the values are held against.
pub fn print_goals(goals: &[Goal]) {
    if goals.is_empty() {
        return;
    }
    println!("\nGoals (nothing fails for being slow)");
    let width = goals
        .iter()
        .map(|goal| goal.name.chars().count())
        .max()
        .unwrap_or(0);
    for Goal {
        name,
        times,
        goal,
        met,
    } in goals
    {
        let verdict = if *met { "reached" } else { "not reached" };
        println!(
            "  {name:<width$}  {:>7}x  goal {goal}x  {verdict}",
            number(*times)
        );
    }
}
