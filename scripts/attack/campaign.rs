//! Trials, how they end, and the table of them.
//!
//! The invariant: what is random in a chain of trials depends only on the seed of the campaign, the name of the row and
//! the number of the chain, so `--seed S --only NAME:CHAIN` makes it again (what a kill interrupts may still differ).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use zipfdb_test_support::harness::{Random, copy_directory, scratch};

/// How a trial or a chain of them failed.
pub type Outcome<T = ()> = Result<T, String>;

/// Failures of a row that are printed in full.
const SHOWN_MAX: usize = 8;

/// Bytes that are printed of a failure.
const FAILURE_SIZE_MAX: usize = 1000;

thread_local! {
    /// The last panic on this thread.
    static PANIC: Cell<Option<String>> = const { Cell::new(None) };
    static IN_TRIAL: Cell<bool> = const { Cell::new(false) };
}

/// Panics of threads that run no trial.
static STRAYS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// A line of the table.
struct Row {
    name: String,
    trials: u64,
    failures: u64,
    outcomes: BTreeMap<&'static str, u64>,
    seconds: f64,
}

/// What was asked for and what came of it.
pub struct Campaign {
    attack: &'static str,
    trials: u64,
    asked_trials: Option<u64>,
    seed: u64,
    /// Chains at a time.
    pub jobs: usize,
    only: Option<(String, u64)>,
    keep: Option<PathBuf>,
    /// Size of the text that `timeouts` works on.
    pub mebibytes: usize,
    rows: Vec<Row>,
}

/// A chain of trials on one directory.
pub struct Trial {
    /// Where it works; gone afterwards.
    pub folder: tempfile::TempDir,
    /// The chain's, from 0.
    pub number: u64,
    /// Unlike that of other chains.
    pub seed: u64,
    outcomes: RefCell<Vec<&'static str>>,
}

impl Trial {
    pub fn random(&self) -> Random {
        Random::new(self.seed)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A trial that ended well, in this way.
    pub fn passed(&self, how: &'static str) {
        self.outcomes.borrow_mut().push(how);
    }
}

impl Campaign {
    pub fn new() -> Campaign {
        std::panic::set_hook(Box::new(|info| {
            let text = info.to_string().replace('\n', " ");
            if IN_TRIAL.get() {
                PANIC.set(Some(text))
            } else {
                STRAYS.lock().unwrap().push(text)
            }
        }));
        Campaign {
            attack: "",
            trials: 0,
            asked_trials: None,
            seed: 1,
            jobs: std::thread::available_parallelism().map_or(1, usize::from),
            only: None,
            keep: None,
            mebibytes: 96,
            rows: Vec::new(),
        }
    }

    /// An option of the command line; none if it makes no sense.
    pub fn set(&mut self, option: &str, value: &str) -> Option<()> {
        match option {
            "--trials" => self.asked_trials = Some(value.parse().ok()?),
            "--seed" => self.seed = value.parse().ok()?,
            "--jobs" => self.jobs = value.parse().ok().filter(|jobs| *jobs > 0)?,
            "--only" => {
                let (name, chain) = value.rsplit_once(':')?;
                self.only = Some((name.to_owned(), chain.parse().ok()?));
            }
            "--keep" => self.keep = Some(PathBuf::from(value)),
            "--mebibytes" => self.mebibytes = value.parse().ok().filter(|size| *size > 0)?,
            _ => return None,
        }
        Some(())
    }

    pub fn begin(&mut self, attack: &'static str, trials: u64) {
        self.attack = attack;
        self.trials = self.asked_trials.unwrap_or(trials);
    }

    /// A share of the trials of this attack.
    pub fn share(&self, percent: u64) -> u64 {
        (self.trials * percent).div_ceil(100)
    }

    /// Runs chains until the given number of trials is reached.
    pub fn run(&mut self, what: &str, trials: u64, chain: impl Fn(&Trial) -> Outcome + Sync) {
        let name = format!("{}/{what}", self.attack);
        let only = self.only.as_ref();
        if only.is_some_and(|(wanted, _)| *wanted != name) {
            return;
        }
        let start = Instant::now();
        let row = Row {
            name: name.clone(),
            trials: 0,
            failures: 0,
            outcomes: BTreeMap::new(),
            seconds: 0.0,
        };
        let row = Mutex::new((0, row));
        std::thread::scope(|scope| {
            for _ in 0..self.jobs {
                scope.spawn(|| {
                    IN_TRIAL.set(true);
                    while let Some(number) = next(&row, trials, only.map(|(_, chain)| *chain)) {
                        let (passed, failure) = self.one(&name, number, &chain);
                        let (_, row) = &mut *row.lock().unwrap();
                        row.add(&passed, failure.is_some());
                        if let Some(failure) = failure
                            && row.failures <= SHOWN_MAX as u64
                        {
                            let seed = self.seed;
                            let failure: String = failure.chars().take(FAILURE_SIZE_MAX).collect();
                            eprintln!("FAILED --seed {seed} --only {name}:{number}\n    {failure}");
                        }
                    }
                });
            }
        });
        let (_, mut row) = row.into_inner().unwrap();
        row.seconds = start.elapsed().as_secs_f64();
        self.rows.push(row);
    }

    /// One chain: trials that passed, and how it failed.
    fn one(
        &self,
        name: &str,
        number: u64,
        chain: &impl Fn(&Trial) -> Outcome,
    ) -> (Vec<&'static str>, Option<String>) {
        // FNV-1a, so that rows differ.
        let named = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3_u64)
        });
        let trial = Trial {
            folder: scratch(),
            number,
            seed: named ^ (self.seed << 32).wrapping_add(number.wrapping_mul(1000)),
            outcomes: RefCell::default(),
        };
        PANIC.take();
        let result = catch_unwind(AssertUnwindSafe(|| chain(&trial)));
        let panic = PANIC.take();
        let failure = match (result, panic) {
            (Ok(Err(failure)), _) => Some(failure),
            (_, Some(panic)) => Some(panic),
            (Err(_), None) => Some("a panic without a word".to_owned()),
            (Ok(Ok(())), None) => None,
        };
        if let (Some(_), Some(keep)) = (&failure, &self.keep) {
            let _ = std::fs::create_dir_all(keep);
            let target = keep.join(format!("{}-{number}", name.replace('/', "-")));
            let _ = std::fs::remove_dir_all(&target);
            copy_directory(trial.folder.path(), &target);
        }
        (trial.outcomes.take(), failure)
    }

    /// Something that cannot be tried here.
    pub fn skip(&mut self, what: &str, reason: &str) {
        eprintln!("skipped {}/{what}: {reason}", self.attack);
    }

    /// Whether anything failed, panics of detached threads included.
    pub fn has_failed(&self) -> bool {
        let failures = self.rows.iter().map(|row| row.failures).sum::<u64>();
        failures > 0 || !STRAYS.lock().unwrap().is_empty()
    }

    /// Writes the table of what was found.
    ///
    /// # Errors
    /// If the output is closed or full.
    pub fn print(&self, mut out: impl Write) -> io::Result<()> {
        for stray in STRAYS.lock().unwrap().iter() {
            writeln!(out, "FAILED panic of a thread: {stray}")?;
        }
        writeln!(
            out,
            "{:<28} {:>7} {:>8} {:>8}  outcomes",
            "attack", "trials", "failures", "seconds"
        )?;
        for row in &self.rows {
            let outcomes = row.outcomes.iter();
            let outcomes: Vec<String> = outcomes
                .map(|(how, count)| format!("{how} {count}"))
                .collect();
            writeln!(
                out,
                "{:<28} {:>7} {:>8} {:>8.0}  {}",
                row.name,
                row.trials,
                row.failures,
                row.seconds,
                outcomes.join(", ")
            )?;
        }
        let sum = |count: fn(&Row) -> u64| self.rows.iter().map(count).sum::<u64>();
        let (trials, failures) = (sum(|row| row.trials), sum(|row| row.failures));
        writeln!(out, "{:<28} {trials:>7} {failures:>8}", "all")
    }
}

/// The number of the next chain, or `None` after the last.
fn next(row: &Mutex<(u64, Row)>, trials: u64, only: Option<u64>) -> Option<u64> {
    let (chains, row) = &mut *row.lock().unwrap();
    let is_over = match only {
        Some(_) => *chains > 0,
        None => row.trials >= trials,
    };
    if is_over {
        return None;
    }
    *chains += 1;
    Some(only.unwrap_or(*chains - 1))
}

impl Row {
    fn add(&mut self, passed: &[&'static str], has_failed: bool) {
        // A chain without any trial counts as one, so that there is an end.
        let count = passed.len() as u64 + u64::from(has_failed);
        self.trials += count.max(1);
        self.failures += u64::from(has_failed);
        for how in passed {
            *self.outcomes.entry(how).or_default() += 1;
        }
    }
}

/// `Err` unless it holds.
pub fn ensure(holds: bool, problem: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(problem()) }
}

/// Copies a directory over what may be there.
pub fn copy_anew(source: &Path, target: &Path) {
    let _ = std::fs::remove_dir_all(target);
    copy_directory(source, target);
}
