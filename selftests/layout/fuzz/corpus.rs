// SPDX-License-Identifier: GPL-2.0

//! Inputs in files that people can read and write: bytes as pairs of hexadecimal digits, with
//! spaces where one likes, and comments from `#` to the end of a line.

use std::{
    fmt::Write,
    fs, io,
    path::{Path, PathBuf},
};

/// What an input file is called.
const EXTENSION: &str = "hex";

/// The inputs of a folder with their names, sorted by these; or the one in a file.
pub fn read(path: &Path) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut files = vec![path.to_path_buf()];
    if path.is_dir() {
        files = fs::read_dir(path)?
            .map(|entry| Ok(entry?.path()))
            .collect::<io::Result<_>>()?;
        files.retain(|file| file.extension().is_some_and(|found| found == EXTENSION));
        files.sort();
    }
    files.iter().map(|file| read_file(file)).collect()
}

fn read_file(file: &Path) -> io::Result<(String, Vec<u8>)> {
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let input = parse(&fs::read_to_string(file)?).ok_or_else(|| {
        let problem = format!("{} is not in hexadecimal", file.display());
        io::Error::new(io::ErrorKind::InvalidData, problem)
    })?;
    Ok((name.into_owned(), input))
}

/// The bytes that `text` stands for, if it is in order.
pub fn parse(text: &str) -> Option<Vec<u8>> {
    let content = |line: &'_ str| line.split('#').next().unwrap_or_default().to_owned();
    let digits: Vec<u8> = text
        .lines()
        .flat_map(|line| content(line).into_bytes())
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    let value = |digit: u8| char::from(digit).to_digit(16);
    let byte = |pair: &[u8]| match pair {
        &[high, low] => Some(((value(high)? << 4) | value(low)?) as u8),
        _ => None,
    };
    digits.chunks(2).map(byte).collect()
}

/// The text of an input, with a comment above it.
pub fn format(input: &[u8], comment: &[String]) -> String {
    let mut text = String::new();
    for line in comment {
        let _ = writeln!(text, "# {line}");
    }
    for row in input.chunks(16) {
        let row: Vec<_> = row.iter().map(|byte| format!("{byte:02x}")).collect();
        let _ = writeln!(text, "{}", row.join(" "));
    }
    text
}

/// Writes an input into a folder and returns the file, whose name tells inputs apart.
pub fn write(folder: &Path, input: &[u8], comment: &[String]) -> io::Result<PathBuf> {
    let hash = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = input.iter().fold(0xcbf2_9ce4_8422_2325, hash);
    let file = folder.join(format!("failing-{hash:016x}.{EXTENSION}"));
    fs::write(&file, format(input, comment))?;
    Ok(file)
}
