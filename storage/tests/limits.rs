//! A process with little address space, few descriptors or small files: errors, but no signal, and nothing half done.
//!
//! What sled does in files of its own cannot be failed call by call in here, so children are started under limits of
//! the operating system.

#![cfg(target_os = "linux")]

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::scenario::{
    CREATE, State, Step, build, child, child_argument, reopen, scratch, states, steps,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use zipfdb_storage::Store;

const SIGSEGV: i32 = 11;

/// Sets a limit, then opens a database, which may fail, and works on it.
#[test]
fn child_that_works_under_a_limit() {
    let Some(argument) = child_argument() else {
        return;
    };
    // Its global pool panics where threads cannot start.
    (rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .use_current_thread())
    .build_global()
    .unwrap();
    let (limit, path) = argument.split_once(' ').unwrap();
    let (resource, value) = limit.split_once('=').unwrap();
    let value: u64 = value.parse().unwrap();
    match resource {
        "space" => {
            let used = std::fs::read_to_string("/proc/self/statm").unwrap();
            let pages: u64 = used.split(' ').next().unwrap().parse().unwrap();
            set_limit(Resource::As, pages * 4096 + value);
        }
        "files" => {
            let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64 - 1;
            set_limit(Resource::Nofile, open + value);
        }
        _ => {} // set by the parent process
    }
    match Store::open(path, CREATE) {
        Err(error) => eprintln!("refused: {error}"),
        Ok(store) => {
            for step in later_steps() {
                if let Err(error) = step.perform(&store) {
                    eprintln!("failed: {error}");
                    break;
                }
            }
            drop(store);
        }
    }
    eprintln!("ended");
}

fn set_limit(resource: Resource, value: u64) {
    let maximum = getrlimit(resource).maximum;
    let limit = Rlimit {
        current: Some(value),
        maximum,
    };
    setrlimit(resource, limit).unwrap();
}

fn later_steps() -> Vec<Step> {
    vec![
        Step::Create("later"),
        Step::publish("later", &["l1", "l2"]),
        Step::publish("bb", &["b9"]),
        Step::Drop("later"),
    ]
}

/// Starts the child on a copy of a database, and looks what is left.
fn work_under(limit: &str, path: &Path, start: impl FnOnce(&mut Command) -> Output) -> String {
    build(path, &steps());
    let argument = format!("{limit} {}", path.display());
    let mut command = child("limits::child_that_works_under_a_limit", &argument);
    command.env("RUST_BACKTRACE", "0");
    let output = start(&mut command);
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_ne!(output.status.signal(), Some(SIGSEGV), "{limit}: {messages}");
    // Where memory ends anywhere else, the process is ended by Rust.
    assert!(
        !messages.contains("panicked at") || messages.contains("memory allocation"),
        "{limit}: {messages}"
    );
    let before = states(&steps()).pop().unwrap();
    let mut possible: Vec<State> = vec![before.clone()];
    for step in later_steps() {
        let mut next = possible.last().unwrap().clone();
        step.apply(&mut next);
        possible.push(next);
    }
    let found = reopen(path);
    assert!(possible.contains(&found), "{limit}: {found:?}");
    messages
}

#[test]
fn a_process_with_little_address_space_is_not_ended_by_sled() {
    let directory = scratch();
    let mut ended = 0;
    // sled with its threads needs some 22, and 64 more for each arena that the allocator takes.
    let few = (17..24).chain([1, 3, 5, 9, 13]);
    let steps = few.chain((80..92).step_by(2)).chain([134, 150, 300, 700]);
    for mebibytes in steps {
        let path = directory.path().join(format!("{mebibytes}.zdb"));
        let limit = format!("space={}", mebibytes << 20);
        let messages = work_under(&limit, &path, |command| command.output().unwrap());
        ended += usize::from(messages.contains("ended"));
    }
    assert!(ended >= 16, "{ended} of 22 came to their end");
}

#[test]
fn a_process_with_few_descriptors_gets_errors_and_no_panic() {
    let directory = scratch();
    for files in 0..12 {
        let path = directory.path().join(format!("{files}.zdb"));
        let limit = format!("files={files}");
        let messages = work_under(&limit, &path, |command| command.output().unwrap());
        assert!(messages.contains("ended"), "{messages}");
    }
}

/// Every write beyond the size limit of a file fails, sled's as well.
#[test]
fn a_process_whose_files_must_stay_small_goes_on_without_sled() {
    let directory = scratch();
    for blocks in [0, 1, 2, 4, 8, 16, 17, 32] {
        let path = directory.path().join(format!("{blocks}.zdb"));
        let messages = work_under("size=0", &path, |command| {
            let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(script).arg(command.get_program());
            shell.args(command.get_args());
            for (name, value) in command.get_envs() {
                shell.env(name, value.unwrap());
            }
            shell.stdout(Stdio::null()).output().unwrap()
        });
        assert!(messages.contains("ended"), "{messages}");
    }
}
