//! Devices for tests: kernels compiled for the host, in a process of their own.
//!
//! The invariant: what a kernel does depends on its arguments and the seed,
//! never on time or on what ran before. A mistake of a kernel ends its process,
//! and what that said is the error of this and of all later calls. What is
//! emulated and how is said in `kernels/emulator/README.md`; nothing here
//! knows it.

mod build;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::env;
use std::fmt;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::mem;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Instant;

pub(crate) use build::Check;
use build::{Toolchain, lock};

use super::device::{DeviceFacts, Gpu};
use super::driver::{Argument, Driver, Kernel, Launch};
use super::error::GpuError;

/// The variable that sets the seed of all choices of a run.
const SEED_VARIABLE: &str = "ZIPFDB_EMULATOR_SEED";
const SEED: u64 = 1;

/// The variable that sets what kernels' own tests look for: `races`, or memory errors.
const CHECK_VARIABLE: &str = "ZIPFDB_EMULATOR_CHECK";

/// How many emulated devices there are for others than kernels' tests.
#[cfg(feature = "emulator")]
const COUNT_VARIABLE: &str = "ZIPFDB_EMULATOR";

/// The number of emulated devices, once decided.
#[cfg(feature = "emulator")]
static WANTED: OnceLock<usize> = OnceLock::new();

/// The device's name.
const NAME: &str = "emulator";

/// Memory that it says it has.
const MEMORY: u64 = 4 << 30;

/// The time that marks count from.
static BEGIN: OnceLock<Instant> = OnceLock::new();

/// Idle processes. Starting one takes longer than most tests.
static IDLE: Mutex<Vec<Process>> = Mutex::new(Vec::new());

/// A record of the requests to emulated devices; `None` unless a test records them.
static ASKED: Mutex<Option<Vec<Asked>>> = Mutex::new(None);

/// Something that an emulated device was asked for. Queues of a device are numbered from 0.
#[cfg_attr(not(feature = "emulator"), allow(dead_code))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A copy to the device, in bytes.
    Upload(u32, usize),
    /// A kernel.
    Launch(u32, &'static str),
    /// What follows waits for another queue.
    Wait(u32),
}

/// An emulated device, through one of its queues. Queue 0 works at once. Others copy as late as they may: when queue 0
/// waits for them, so that code that forgets to wait reads nothing.
pub(crate) struct Emulator {
    seed: u64,
    check: Check,
    toolchain: &'static Toolchain,
    queue: u32,
    shared: Arc<Shared>,
}

/// What the queues of a device share.
struct Shared {
    state: Mutex<State>,
    /// Copies of other queues than 0 that have not been made.
    late: Mutex<Vec<(u64, Vec<u8>)>>,
}

enum State {
    Running(Process),
    /// Why there is no process any more.
    Ended(String),
}

impl Emulator {
    #[cfg(test)]
    /// One device for each check, under the seed of the environment. None
    /// without a C++ compiler, which it says.
    pub(crate) fn for_each_check() -> impl Iterator<Item = Self> {
        let checks = [Check::Memory, Check::Races];
        checks.into_iter().filter_map(Self::start)
    }

    /// A device under the seed of the environment. `None` without a C++
    /// compiler, which it says.
    pub(crate) fn start(check: Check) -> Option<Self> {
        let seed = match env::var(SEED_VARIABLE) {
            Ok(text) => text
                .parse()
                .unwrap_or_else(|_| panic!("{SEED_VARIABLE} is a number, not `{text}`")),
            Err(_) => SEED,
        };
        Self::with_seed(check, seed)
    }

    /// The same under a seed of the caller.
    pub(crate) fn with_seed(check: Check, seed: u64) -> Option<Self> {
        let toolchain = Toolchain::find()?;
        let idle = lock(&IDLE).pop();
        let process = idle.unwrap_or_else(|| Process::start(toolchain));
        let emulator = Self {
            seed,
            check,
            toolchain,
            queue: 0,
            shared: Arc::new(Shared {
                state: Mutex::new(State::Running(process)),
                late: Mutex::default(),
            }),
        };
        emulator
            .request("reset", |process| process.send(b'R', &[seed]))
            .unwrap_or_else(|error| panic!("{error}"));
        Some(emulator)
    }

    #[cfg(test)]
    /// Whether the compiler has what finds bad accesses.
    pub(crate) fn is_sanitized(&self) -> bool {
        self.toolchain.sanitized
    }

    fn write(&self, to: u64, bytes: &[u8]) -> Result<(), GpuError> {
        self.request("upload", |process| {
            process.put(b'U', &[to, bytes.len() as u64])?;
            process.requests.write_all(bytes)?;
            process.answer()
        })
    }

    /// Makes the copies of other queues than 0.
    fn catch_up(&self) -> Result<(), GpuError> {
        let late = mem::take(&mut *lock(&self.shared.late));
        let mut late = late.iter();
        late.try_for_each(|(to, bytes)| self.write(*to, bytes))
    }

    /// Sends what `ask` sends and waits for the answer, which `ask` has read
    /// when it returns.
    fn request<T>(
        &self,
        call: &'static str,
        ask: impl FnOnce(&mut Process) -> io::Result<Answer<T>>,
    ) -> Result<T, GpuError> {
        let failed = |message: &str| {
            Err(GpuError::Call {
                device: NAME.to_owned(),
                call: call.to_owned(),
                reason: message.to_owned(),
            })
        };
        let mut state = lock(&self.shared.state);
        let process = match &mut *state {
            State::Running(process) => process,
            State::Ended(message) => return failed(message),
        };
        match ask(process) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(message)) => failed(&message),
            Err(error) => {
                let ended = mem::replace(&mut *state, State::Ended(String::new()));
                let message = match ended {
                    State::Running(process) => process.last_words(&error),
                    State::Ended(message) => message,
                };
                let result = failed(&message);
                *state = State::Ended(message);
                result
            }
        }
    }
}

/// Begins to note what emulated devices are asked for.
#[cfg(feature = "emulator")]
pub fn record_asked() {
    *lock(&ASKED) = Some(Vec::new());
}

/// What emulated devices were asked for since [`record_asked`].
#[cfg(feature = "emulator")]
pub fn take_asked() -> Vec<Asked> {
    lock(&ASKED).take().unwrap_or_default()
}

fn note(asked: Asked) {
    if let Some(list) = &mut *lock(&ASKED) {
        list.push(asked);
    }
}

/// Has [`devices`](super::devices) give `count` emulated devices where there are no others, which costs a C++ compiler some
/// time. The first call counts, of this or of `devices`.
#[cfg(feature = "emulator")]
pub fn emulate(count: usize) {
    // The first call decides.
    let _ = WANTED.set(count);
}

/// Emulated devices, if they were asked for: by [`emulate`], or by a variable of the environment. None without a C++
/// compiler, which it says.
#[cfg(feature = "emulator")]
pub(crate) fn devices() -> Option<&'static [Gpu]> {
    static DEVICES: OnceLock<Vec<Gpu>> = OnceLock::new();
    let wanted = *WANTED.get_or_init(|| {
        let count = env::var(COUNT_VARIABLE).ok();
        count.and_then(|count| count.parse().ok()).unwrap_or(0)
    });
    let devices = DEVICES.get_or_init(|| emulated(wanted));
    (!devices.is_empty()).then_some(devices)
}

/// A number of emulated devices, whatever [`devices`](super::devices) gives. None without a C++ compiler, which it says.
#[cfg(feature = "emulator")]
pub fn emulated(count: usize) -> Vec<Gpu> {
    let names = (0..count).map(|index| format!("{NAME}:{index}"));
    names.filter_map(named).collect()
}

/// An emulated device for tests of kernels. `None` without a C++ compiler, which it says.
pub(crate) fn gpu() -> Option<Gpu> {
    named(NAME.to_owned())
}

fn named(name: String) -> Option<Gpu> {
    let facts = DeviceFacts {
        name,
        model: "host emulator".to_owned(),
        memory: MEMORY,
        cache: 0,
        // Few, so that kernels that loop do so.
        processors: 1,
        architecture: "host".to_owned(),
        is_integrated: false,
    };
    let check = match env::var(CHECK_VARIABLE).as_deref() {
        Ok("races") => Check::Races,
        Ok("memory") | Err(_) => Check::Memory,
        Ok(other) => panic!("{CHECK_VARIABLE} is `memory` or `races`, not `{other}`"),
    };
    Some(Gpu::new(Arc::new(Emulator::start(check)?), facts))
}

impl fmt::Debug for Emulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Emulator")
            .field("seed", &self.seed)
            .field("check", &self.check)
            .finish_non_exhaustive()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let state = mem::replace(&mut *lock(&self.state), State::Ended(String::new()));
        if let State::Running(process) = state {
            lock(&IDLE).push(process);
        }
    }
}

impl Driver for Emulator {
    fn allocate(&self, bytes: usize) -> Result<u64, GpuError> {
        assert!(bytes > 0, "an allocation has at least one byte");
        self.request("allocate", |process| {
            process.put(b'A', &[bytes as u64])?;
            process.number()
        })
    }

    fn free(&self, address: u64) {
        let freed = self.request("free", |process| process.send(b'F', &[address]));
        // A free reports no error; the next request does.
        if let Err(GpuError::Call { reason, .. }) = freed {
            *lock(&self.shared.state) = State::Ended(reason);
        }
    }

    fn upload(&self, to: u64, bytes: &[u8]) -> Result<(), GpuError> {
        note(Asked::Upload(self.queue, bytes.len()));
        match self.queue {
            0 => self.write(to, bytes),
            _ => {
                lock(&self.shared.late).push((to, bytes.to_vec()));
                Ok(())
            }
        }
    }

    fn download(&self, from: u64, bytes: &mut [u8]) -> Result<(), GpuError> {
        if self.queue > 0 {
            self.catch_up()?;
        }
        self.request("download", |process| {
            let answer = process.send(b'D', &[from, bytes.len() as u64])?;
            process.answers.read_exact(bytes)?;
            Ok(answer)
        })
    }

    fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), GpuError> {
        self.request("copy", |process| {
            process.send(b'C', &[to, from, bytes as u64])
        })
    }

    fn fill(&self, to: u64, byte: u8, bytes: usize) -> Result<(), GpuError> {
        self.request("fill", |process| {
            process.send(b'S', &[to, byte.into(), bytes as u64])
        })
    }

    fn launch(
        &self,
        kernel: Kernel,
        launch: Launch,
        arguments: &[Argument],
    ) -> Result<(), GpuError> {
        note(Asked::Launch(self.queue, kernel.name));
        let library = self.toolchain.library(kernel.source, self.check);
        let library = library.map_err(|log| GpuError::Compile {
            source_name: kernel.source.name.to_owned(),
            architecture: NAME.to_owned(),
            log,
        })?;
        self.request("launch", |process| {
            let index = match process.load(kernel.source.name, library)? {
                Ok(index) => index,
                Err(message) => return Ok(Err(message)),
            };
            process.put(b'L', &[index])?;
            process.put_text(kernel.name)?;
            let sizes = [launch.blocks, launch.threads].map(u64::from);
            process.put_numbers(&sizes)?;
            process.put_numbers(&[arguments.len() as u64])?;
            for argument in arguments {
                process.put_numbers(&[argument.size() as u64])?;
                match *argument {
                    Argument::U32(value) => process.put_numbers(&[value.into()])?,
                    Argument::U64(value) => process.put_numbers(&[value])?,
                    Argument::Array { address, .. } => process.put_numbers(&[address])?,
                    Argument::Struct(bytes) => process.requests.write_all(bytes)?,
                }
            }
            process.answer()
        })
    }

    /// On queue 0 nothing is left to wait for: every call waits for its answer.
    fn synchronize(&self) -> Result<(), GpuError> {
        if self.queue > 0 {
            self.catch_up()?;
        }
        self.request("synchronize", |_| Ok(Ok(())))
    }

    fn beside(&self) -> Result<Arc<dyn Driver>, GpuError> {
        Ok(Arc::new(Self {
            queue: self.queue + 1,
            shared: self.shared.clone(),
            ..*self
        }))
    }

    fn fence(&self) -> Result<u64, GpuError> {
        Ok(self.queue.into())
    }

    fn wait_for(&self, fence: u64) -> Result<(), GpuError> {
        note(Asked::Wait(self.queue));
        match fence {
            0 => Ok(()),
            _ => self.catch_up(),
        }
    }

    fn mark(&self) -> Result<u64, GpuError> {
        // Less than 584 years since the first mark.
        Ok(BEGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64)
    }

    fn elapsed(&self, from: u64, to: u64) -> Result<u64, GpuError> {
        Ok(to - from)
    }
}

/// What the process answers, or why it refuses. It lives on in either case.
type Answer<T> = Result<T, String>;

/// The emulator's process and the requests sent to it.
struct Process {
    child: Child,
    requests: BufWriter<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// Gives all of standard error once the process has ended.
    messages: JoinHandle<String>,
    /// The index of each library that it has loaded.
    libraries: HashMap<PathBuf, u64>,
}

impl Process {
    fn start(toolchain: &Toolchain) -> Self {
        let mut child = Command::new(&toolchain.executable)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", toolchain.executable.display()));
        let mut stderr = child.stderr.take().expect("it was asked for");
        Self {
            requests: BufWriter::new(child.stdin.take().expect("it was asked for")),
            answers: BufReader::new(child.stdout.take().expect("it was asked for")),
            messages: thread::spawn(move || {
                let mut bytes = Vec::new();
                // What was read until then is all there is.
                let _ = stderr.read_to_end(&mut bytes);
                String::from_utf8_lossy(&bytes).into_owned()
            }),
            libraries: HashMap::new(),
            child,
        }
    }

    /// What the process said before it ended, when a request failed with `error`.
    fn last_words(mut self, error: &io::Error) -> String {
        drop(self.requests);
        let status = match self.child.wait() {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        let messages = self.messages.join().unwrap_or_default();
        match messages.trim() {
            "" => format!("the emulator ended without a word: {status}; {error}"),
            messages => messages.to_owned(),
        }
    }

    /// The index of a library, which is loaded when it is first needed.
    fn load(&mut self, source: &str, library: PathBuf) -> io::Result<Answer<u64>> {
        if let Some(index) = self.libraries.get(&library) {
            return Ok(Ok(*index));
        }
        self.put(b'O', &[])?;
        self.put_text(source)?;
        self.put_text(&library.to_string_lossy())?;
        let index = self.number()?;
        if let Ok(index) = index {
            self.libraries.insert(library, index);
        }
        Ok(index)
    }

    fn send(&mut self, request: u8, numbers: &[u64]) -> io::Result<Answer<()>> {
        self.put(request, numbers)?;
        self.answer()
    }

    fn put(&mut self, request: u8, numbers: &[u64]) -> io::Result<()> {
        self.requests.write_all(&[request])?;
        self.put_numbers(numbers)
    }

    fn put_numbers(&mut self, numbers: &[u64]) -> io::Result<()> {
        for number in numbers {
            self.requests.write_all(&number.to_ne_bytes())?;
        }
        Ok(())
    }

    fn put_text(&mut self, text: &str) -> io::Result<()> {
        self.put_numbers(&[text.len() as u64])?;
        self.requests.write_all(text.as_bytes())
    }

    /// Sends what was put and waits for the answer to it.
    fn answer(&mut self) -> io::Result<Answer<()>> {
        self.requests.flush()?;
        let mut refused = [0];
        self.answers.read_exact(&mut refused)?;
        if refused == [0] {
            return Ok(Ok(()));
        }
        let size = self.read_number()?;
        let mut message = String::new();
        (&mut self.answers)
            .take(size)
            .read_to_string(&mut message)?;
        Ok(Err(message))
    }

    /// The same for an answer that is a number.
    fn number(&mut self) -> io::Result<Answer<u64>> {
        match self.answer()? {
            Ok(()) => Ok(Ok(self.read_number()?)),
            Err(message) => Ok(Err(message)),
        }
    }

    fn read_number(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.answers.read_exact(&mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }
}
