//! Attacks on a database that a host program has embedded, and a table of what they found.
//!
//! `attack KIND` runs trials; each works on a directory of its own, most of it in children, which are this program again
//! (`child`). A child is the host: a panic there, even one that is caught, a signal other than the attack's own,
//! or a child that does not end is a failure. So is a state that no order of acknowledged changes explains, and a loss
//! without a message.
//! The model of a database is that of `test-model`. `README.md` beside this file says how to run it.

#![allow(clippy::unwrap_used)]
// Elsewhere nothing of it is used.
#![cfg_attr(not(target_os = "linux"), allow(dead_code, unused_imports))]

use std::io;
use std::process::ExitCode;

#[cfg(target_os = "linux")]
use campaign::Campaign;

#[cfg(target_os = "linux")]
mod beside;
#[cfg(target_os = "linux")]
mod campaign;
#[cfg(target_os = "linux")]
mod child;
#[cfg(target_os = "linux")]
mod damage;
#[cfg(target_os = "linux")]
mod faults;
#[cfg(target_os = "linux")]
mod hostile;
#[cfg(target_os = "linux")]
mod kill;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "linux")]
mod power;
#[cfg(target_os = "linux")]
mod program;
#[cfg(target_os = "linux")]
mod timeouts;

/// An attack and its default number of trials.
#[cfg(target_os = "linux")]
type Attack = (&'static str, fn(&mut Campaign), u64);

#[cfg(target_os = "linux")]
const ATTACKS: [Attack; 8] = [
    ("kill", kill::attack, 1000),
    ("beside", beside::attack, 1000),
    ("power", power::attack, 1000),
    ("damage", damage::attack, 2000),
    ("faults", faults::attack, 1000),
    ("limits", limits::attack, 200),
    ("hostile", hostile::attack, 800),
    ("timeouts", timeouts::attack, 0),
];

const USAGE: &str = "usage: attack all|kill|beside|power|damage|faults|limits|hostile|timeouts [--trials N] [--seed S] [--jobs N] \
[--only NAME:CHAIN] [--keep FOLDER] [--mebibytes N]";

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("attack: this needs Linux");
    ExitCode::from(2)
}

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "child") {
        program::main(&arguments[1..]);
        return ExitCode::SUCCESS;
    }
    let Some((attack, options)) = arguments.split_first() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let mut chosen = ATTACKS
        .iter()
        .filter(|(name, _, _)| attack == name || (attack == "all" && *name != "timeouts"))
        .peekable();
    if chosen.peek().is_none() || options.len() % 2 != 0 {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    }
    let mut campaign = Campaign::new();
    for option in options.chunks_exact(2) {
        if campaign.set(&option[0], &option[1]).is_none() {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    for (name, run, trials) in chosen {
        campaign.begin(name, *trials);
        run(&mut campaign);
    }
    match campaign.print(io::stdout().lock()) {
        // `| head -1` reads no further; what failed is the exit code's to show.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("attack: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::from(u8::from(campaign.has_failed())),
    }
}
