//! What crash tests need besides a database: directories, chance, and children to kill.
//!
//! The invariant: what is random depends on a seed that is printed and can be given. Shared by the tests of several crates.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A directory for tests that open and sync thousands of times: in memory where the system has such a place. None of
/// them asks whether the disk keeps what it is given.
pub fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

/// All files below a directory with their content.
pub fn contents(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(path).unwrap() {
        let entry = entry.unwrap().path();
        if entry.is_dir() {
            files.extend(contents(&entry));
            files.insert(entry, Vec::new());
        } else {
            let bytes = std::fs::read(&entry).unwrap();
            files.insert(entry, bytes);
        }
    }
    files
}

pub fn copy_directory(source: &Path, target: &Path) {
    std::fs::create_dir(target).unwrap();
    for entry in std::fs::read_dir(source).unwrap() {
        let entry = entry.unwrap();
        let target = target.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_directory(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Small, fast, and the same everywhere.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(2).wrapping_add(1))
    }

    /// The seed that the environment gives, or `default`; printed, so that a failure can be run again.
    pub fn seed(default: u64) -> u64 {
        let seed = std::env::var("ZIPFDB_SEED")
            .ok()
            .map_or(default, |seed| seed.parse().unwrap());
        println!("ZIPFDB_SEED={seed}");
        seed
    }

    /// Below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }
}

/// Set in a test process that another test started to do something in a directory.
const CHILD_VARIABLE: &str = "ZIPFDB_CHILD";

/// This test program again, to run only `test`, which finds `argument` in [`child_argument`].
///
/// It reports what it does on standard error: standard output is the test harness's.
pub fn child(test: &str, argument: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD_VARIABLE, argument)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

pub fn start_child(test: &str, argument: &str) -> Child {
    child(test, argument).spawn().unwrap()
}

/// What the parent said, in a child.
pub fn child_argument() -> Option<String> {
    std::env::var(CHILD_VARIABLE).ok()
}
