//! Statements of every kind on the same text with one oddity each: what they cost beside the plain text.
//!
//! `cargo run --release --example cliffs -- FOLDER [--runs N] [--threads N]` prints, for each oddity, how long the first answer of a
//! database that was just opened takes and how long a warm one, as a ratio to the plain text. The invariant that it measures: an
//! oddity changes what it touches, not the way of the whole statement. The test of this program asserts that on a small text: EXPLAIN
//! names the same paths, or `PATHS_THAT_DIFFER` says why not.

#![allow(clippy::unwrap_used)]

mod oddity;
mod statements;

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use oddity::{ODDITIES, Prepared};
use statements::STATEMENTS;
use zipfdb::Database;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A statement that one oddity makes slower by this factor is a cliff.
const CLIFF: f64 = 3.0;

/// Below this many milliseconds a difference is of the clock and the scheduler.
const NOISE_MS: f64 = 1.0;

/// Runs before a statement is warm.
const WARM_UPS: usize = 12;

struct Options {
    folder: PathBuf,
    runs: usize,
    threads: usize,
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        eprintln!("usage: cliffs FOLDER [--runs N] [--threads N]");
        return ExitCode::from(2);
    };
    match measure(&options, &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        // `| head -1` reads no further.
        Err(error) if is_closed(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cliffs: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether an error is that nothing reads the output any more.
fn is_closed(error: &(dyn Error + 'static)) -> bool {
    (error.downcast_ref::<io::Error>())
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn options() -> Option<Options> {
    let mut arguments = std::env::args().skip(1);
    let mut options = Options {
        folder: arguments.next()?.into(),
        runs: 5,
        threads: 2,
    };
    while let Some(name) = arguments.next() {
        let value = arguments.next()?.parse().ok().filter(|&value| value > 0)?;
        match name.as_str() {
            "--runs" => options.runs = value,
            "--threads" => options.threads = value,
            _ => return None,
        }
    }
    Some(options)
}

/// Milliseconds of a statement: the first answer of a database that was just opened, and a warm one.
#[derive(Clone, Copy)]
struct Times {
    first: f64,
    warm: f64,
}

fn measure(options: &Options, out: &mut impl Write) -> Result<()> {
    let plain = Prepared::new(&ODDITIES[0], Some(&options.folder), options.threads)?;
    let on_plain = times_of(&plain, options)?;
    writeln!(
        out,
        "## Plain text\n\n| statement | first, ms | warm, ms |\n|---|--:|--:|"
    )?;
    for ((name, _), times) in STATEMENTS.iter().zip(&on_plain) {
        writeln!(out, "| {name} | {:.1} | {:.2} |", times.first, times.warm)?;
    }
    let mut cliffs = Vec::new();
    writeln!(out, "\n## Times the plain text's: first, warm\n")?;
    writeln!(
        out,
        "| oddity | statement | first | warm | ms first | ms warm |\n|---|---|--:|--:|--:|--:|"
    )?;
    for oddity in &ODDITIES[1..] {
        let prepared = Prepared::new(oddity, Some(&options.folder), options.threads)?;
        for (index, times) in times_of(&prepared, options)?.into_iter().enumerate() {
            let (plain, name) = (on_plain[index], STATEMENTS[index].0);
            let (first, warm) = (
                ratio(times.first, plain.first),
                ratio(times.warm, plain.warm),
            );
            writeln!(
                out,
                "| {} | {name} | {first:.2} | {warm:.2} | {:.1} | {:.2} |",
                oddity.name, times.first, times.warm
            )?;
            if first > CLIFF || warm > CLIFF {
                cliffs.push(format!(
                    "{}, {name}: first {first:.1}, warm {warm:.1}",
                    oddity.name
                ));
            }
        }
    }
    writeln!(out, "\n{} of more than {CLIFF} times:", cliffs.len())?;
    for cliff in &cliffs {
        writeln!(out, "- {cliff}")?;
    }
    Ok(())
}

fn ratio(odd: f64, plain: f64) -> f64 {
    odd.max(NOISE_MS) / plain.max(NOISE_MS)
}

/// The medians of each statement.
fn times_of(prepared: &Prepared, options: &Options) -> Result<Vec<Times>> {
    let mut times = Vec::new();
    for (_, sql) in STATEMENTS {
        let first = (0..options.runs)
            .map(|_| milliseconds(&prepared.open(options.threads)?, sql))
            .collect::<Result<Vec<f64>>>()?;
        let database = prepared.open(options.threads)?;
        // What a statement builds for later ones is built once enough time was spent without.
        for _ in 0..WARM_UPS {
            milliseconds(&database, sql)?;
        }
        let warm = (0..options.runs)
            .map(|_| milliseconds(&database, sql))
            .collect::<Result<Vec<f64>>>()?;
        times.push(Times {
            first: median(first),
            warm: median(warm),
        });
    }
    Ok(times)
}

fn milliseconds(database: &Database, sql: &str) -> Result<f64> {
    let begin = Instant::now();
    let mut rows = database.query(sql, ())?;
    while rows.next_batch(8192)?.is_some() {}
    Ok(begin.elapsed().as_secs_f64() * 1e3)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where another path is right: the oddity, what the statement's name contains, and why.
    const PATHS_THAT_DIFFER: &[(&str, &str, &str)] = &[];

    /// What EXPLAIN names as the paths of a statement's scans.
    fn paths(database: &Database, sql: &str) -> Vec<String> {
        let rows = database.query(&format!("EXPLAIN {sql}"), ()).unwrap();
        let lines = rows.map(|row| row.unwrap().values()[0].to_string());
        let paths = lines.filter_map(|line| {
            let path = line.trim().strip_prefix("path: ")?;
            Some(path.split(" (").next()?.split(" in ").next()?.to_owned())
        });
        paths.collect()
    }

    #[test]
    fn an_oddity_does_not_change_the_way_of_a_statement() {
        let plain = Prepared::new(&ODDITIES[0], None, 2).unwrap();
        let plain = plain.open(2).unwrap();
        let mut problems = Vec::new();
        for oddity in &ODDITIES[1..] {
            let prepared = Prepared::new(oddity, None, 2).unwrap();
            let odd = prepared.open(2).unwrap();
            for (name, sql) in STATEMENTS {
                let (expected, found) = (paths(&plain, sql), paths(&odd, sql));
                let is_known = (PATHS_THAT_DIFFER.iter())
                    .any(|(of, part, _)| *of == oddity.name && name.contains(part));
                if expected != found && !is_known {
                    problems.push(format!(
                        "{}, {name}: {found:?}, not {expected:?}",
                        oddity.name
                    ));
                }
            }
        }
        assert!(problems.is_empty(), "\n{}", problems.join("\n"));
    }
}
