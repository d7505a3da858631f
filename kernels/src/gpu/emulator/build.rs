//! Compiles the emulator and files of kernels, once for each content.
//!
//! The invariant: a file in the folder of outputs is complete, and its name says
//! all it was made of; so any number of processes may build at the same time.
//! Loads nothing and runs nothing but the compiler. The program carries all
//! sources, so it can be run where they are not.

use std::collections::HashMap;
use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::super::compile::HEADERS;
use super::super::driver::{Header, Source};

/// What kernels are compiled to find, besides barriers and masks that are
/// wrong, which are always found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Check {
    /// Bad accesses to memory and undefined operations.
    Memory,
    /// Accesses of two threads to the same memory that nothing orders.
    Races,
}

macro_rules! emulator_files {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../emulator/", $name)))),*]
    };
}

/// The headers of the emulator, beside those of kernels.
const EMULATOR_HEADERS: [Header; 5] = emulator_files![
    "fiber.hpp",
    "intrinsics.hpp",
    "races.hpp",
    "runtime.hpp",
    "schedule.hpp",
];

/// The sources of the emulator.
const EMULATOR_SOURCES: [Header; 4] =
    emulator_files!["fiber.cpp", "main.cpp", "races.cpp", "schedule.cpp"];

/// Most threads of a block in CUDA, for kernels that set no limit.
const BLOCK_THREADS_MAX: &str = "1024";

const COMMON_OPTIONS: [&str; 4] = ["-std=c++17", "-g", "-fno-omit-frame-pointer", "-pthread"];
const KERNEL_OPTIONS: [&str; 5] = [
    "-O1",
    "-fPIC",
    "-DZIPFDB_EMULATOR",
    // Two files may have kernels of one name.
    "-fvisibility=hidden",
    // `#pragma unroll` is for devices.
    "-Wno-unknown-pragmas",
];
const SANITIZERS: [&str; 2] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
/// Calls of functions at each access, which the emulator has itself.
const HOOKS: &str = "-fsanitize=thread";

/// A C++ compiler and the emulator that it built.
pub(super) struct Toolchain {
    compiler: String,
    /// Whether kernels are compiled with sanitizers.
    pub(super) sanitized: bool,
    pub(super) executable: PathBuf,
    directory: PathBuf,
    /// Where headers lie.
    include: PathBuf,
    /// Fingerprint of everything that goes into a library except its source.
    fingerprint: u64,
    /// By the address of the source. All threads that need a library wait for its
    /// one compilation.
    libraries: Mutex<HashMap<(usize, Check), Library>>,
}

type Library = Arc<OnceLock<Result<PathBuf, String>>>;

impl Toolchain {
    /// `None` without a C++ compiler, which it says.
    pub(super) fn find() -> Option<&'static Self> {
        static TOOLCHAIN: OnceLock<Option<Toolchain>> = OnceLock::new();
        let found = TOOLCHAIN.get_or_init(Self::build).as_ref();
        if found.is_none() {
            eprintln!("skipped: no C++ compiler");
        }
        found
    }

    fn build() -> Option<Self> {
        let compiler = env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
        let version = Command::new(&compiler).arg("--version").output().ok()?;
        let executable = env::current_exe().expect("a test knows where it is");
        let parent = executable.parent().expect("a file lies in a folder");
        let profile = if parent.file_name() == Some(OsStr::new("deps")) {
            parent.parent().unwrap_or(parent)
        } else {
            parent
        };
        let directory = profile.join("emulator");
        fs::create_dir_all(&directory)
            .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));

        let mut hasher = DefaultHasher::new();
        (&compiler, &version.stdout).hash(&mut hasher);
        (COMMON_OPTIONS, KERNEL_OPTIONS, SANITIZERS).hash(&mut hasher);
        (HEADERS, EMULATOR_HEADERS).hash(&mut hasher);
        let fingerprint = hasher.finish();
        EMULATOR_SOURCES.hash(&mut hasher);
        let include = directory.join(format!("sources-{:016x}", hasher.finish()));
        let files = HEADERS.iter().chain(&EMULATOR_HEADERS);
        write_files(&include, files.chain(&EMULATOR_SOURCES))
            .unwrap_or_else(|error| panic!("{}: {error}", include.display()));
        let sources = EMULATOR_SOURCES.map(|(name, _)| include.join(name));
        let executable = |name: &str, options: &[&str]| {
            let path = directory.join(format!("{name}-{:016x}", hasher.finish()));
            make(&path, |output| {
                let mut command = Command::new(&compiler);
                // Kernels are checked, not what runs them.
                command
                    .args(COMMON_OPTIONS)
                    .args(["-O2", "-Wall", "-rdynamic"]);
                command.arg("-o").arg(output).args(&sources);
                command.args(options).arg("-ldl");
                vec![command]
            })
            .map(|()| path)
        };
        let sanitized = ["-DEMULATOR_SANITIZED", "-Wl,--no-as-needed"];
        let sanitized = [&sanitized[..], &SANITIZERS[..1]].concat();
        let (sanitized, executable) = match executable("emulator", &sanitized) {
            Ok(path) => (true, path),
            Err(error) => match executable("emulator-plain", &[]) {
                Ok(path) => {
                    eprintln!("kernels are emulated without sanitizers: {error}");
                    (false, path)
                }
                Err(error) => panic!("{error}"),
            },
        };
        Some(Self {
            compiler,
            sanitized,
            executable,
            directory,
            fingerprint,
            include,
            libraries: Mutex::default(),
        })
    }

    /// The kernels of a source, compiled, or what the compiler says.
    pub(super) fn library(&self, source: &'static Source, check: Check) -> Result<PathBuf, String> {
        let address = std::ptr::from_ref(source) as usize;
        let library = Arc::clone(lock(&self.libraries).entry((address, check)).or_default());
        library.get_or_init(|| self.compile(source, check)).clone()
    }

    fn compile(&self, source: &Source, check: Check) -> Result<PathBuf, String> {
        let mut hasher = DefaultHasher::new();
        (self.fingerprint, self.sanitized, check).hash(&mut hasher);
        (source.name, source.text, source.headers, source.constants).hash(&mut hasher);
        let name = format!("{}-{:016x}.so", source.name, hasher.finish());
        let library = self.directory.join(name);
        let with_table = library.with_extension("cpp");
        let object = library.with_extension("o");
        let headers = library.with_extension("headers");
        make(&library, |output| {
            // If this fails, the compiler says that there is no such file.
            let _ = fs::write(&with_table, with_table_of_kernels(source, check));
            let _ = write_files(&headers, source.headers);
            let mut compile = Command::new(&self.compiler);
            compile.args(COMMON_OPTIONS).args(KERNEL_OPTIONS);
            let is_sanitized = check == Check::Memory && self.sanitized;
            compile.args(match check {
                Check::Memory if is_sanitized => &SANITIZERS[..],
                Check::Memory => &[],
                Check::Races => &[HOOKS],
            });
            for folder in [&self.include, &headers] {
                compile.arg("-I").arg(folder);
            }
            for (name, value) in source.constants {
                compile.arg(format!("-D{name}={value}"));
            }
            compile.arg("-c").arg("-o").arg(&object).arg(&with_table);
            // Linked without the run-time library of the hooks.
            let mut link = Command::new(&self.compiler);
            link.args(["-shared", "-Wl,-Bsymbolic", "-o"]);
            link.arg(output).arg(&object);
            if is_sanitized {
                link.arg(SANITIZERS[0]);
            }
            vec![compile, link]
        })?;
        // Not needed any more, and another process may have removed them.
        let _ = fs::remove_file(object);
        let _ = fs::remove_dir_all(headers);
        Ok(library)
    }
}

/// Writes files into a folder, unless it is there.
fn write_files<'a>(
    folder: &Path,
    files: impl IntoIterator<Item = &'a Header>,
) -> std::io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let partial = folder.with_extension(format!("{}.partial", std::process::id()));
    fs::create_dir_all(&partial)?;
    for (name, text) in files {
        fs::write(partial.join(name), text)?;
    }
    match fs::rename(&partial, folder) {
        // Another process was first.
        Err(_) if folder.is_dir() => fs::remove_dir_all(&partial),
        renamed => renamed,
    }
}

/// Has a file written by commands, one after the other, unless it is there.
fn make(path: &Path, commands: impl FnOnce(&Path) -> Vec<Command>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    if path.exists() {
        return Ok(());
    }
    let lock = File::create(path.with_extension("lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    if path.exists() {
        return Ok(());
    }
    let partial = path.with_extension("partial");
    for mut command in commands(&partial) {
        let output = command.output().map_err(failed)?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
    }
    fs::rename(partial, path).map_err(failed)
}

/// The source, followed by a table of its kernels with which they can be called by name.
fn with_table_of_kernels(source: &Source, check: Check) -> String {
    let mut text = format!(
        "#line 1 \"{}\"\n{}\n#line 1 \"table of kernels\"\n#include \"runtime.hpp\"\n\
         extern \"C\" {{ __attribute__((visibility(\"default\"))) emulator::Kernel zipfdb_kernels[] = {{\n",
        source.name, source.text
    );
    for (name, threads_max) in kernels(source.text) {
        text +=
            &format!("    emulator::Registration<{name}>::kernel(\"{name}\", {threads_max}),\n");
    }
    text += "    {nullptr, 0, 0, nullptr, nullptr},\n}; }\n";
    if check == Check::Races {
        text +=
            "extern \"C\" { __attribute__((visibility(\"default\"))) char zipfdb_finds_races; }\n";
    }
    text
}

/// Name and largest block, an expression, of each `__global__` function that is written out.
pub(super) fn kernels(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for (start, _) in text.match_indices("__global__") {
        let line = text[..start].rsplit('\n').next().unwrap_or_default();
        if line.contains("//") || line.trim_start().starts_with('#') {
            continue;
        }
        let mut rest = &text[start + "__global__".len()..];
        let mut threads_max = BLOCK_THREADS_MAX;
        while let Some(open) = rest.find('(') {
            let is_not_part = |c: char| !(c.is_alphanumeric() || c == '_');
            let name = rest[..open].trim_end().rsplit(is_not_part).next();
            let name = name.unwrap_or_default();
            if name != "__launch_bounds__" {
                found.push((name, threads_max));
                break;
            }
            let (bounds, after) = in_parentheses(&rest[open..]);
            threads_max = bounds;
            rest = after;
        }
    }
    found
}

/// What stands up to the first comma in the parentheses that `text` opens with, and what follows them.
fn in_parentheses(text: &str) -> (&str, &str) {
    let (mut depth, mut comma) = (0, None);
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' if depth == 1 => return (&text[1..comma.unwrap_or(at)], &text[at + 1..]),
            ')' => depth -= 1,
            ',' if depth == 1 => comma = comma.or(Some(at)),
            _ => {}
        }
    }
    (BLOCK_THREADS_MAX, "")
}

/// A panic elsewhere leaves nothing half done here.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::sources::SOURCES;

    #[test]
    fn all_sources_are_carried() {
        let mut found = Vec::new();
        let mut folders = ["src", "emulator"]
            .map(|folder| Path::new(env!("CARGO_MANIFEST_DIR")).join(folder))
            .to_vec();
        while let Some(folder) = folders.pop() {
            // The program may run where the sources are not.
            for entry in fs::read_dir(folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                match path.extension().and_then(OsStr::to_str) {
                    Some("cu" | "cuh" | "hpp" | "cpp") => {
                        found.push(path.file_name().unwrap().to_str().unwrap().to_owned());
                    }
                    _ if path.is_dir() => folders.push(path),
                    _ => {}
                }
            }
        }
        let own_headers = SOURCES.iter().flat_map(|source| source.headers);
        let carried = (HEADERS.iter().chain(&EMULATOR_HEADERS))
            .chain(&EMULATOR_SOURCES)
            .chain(own_headers);
        let mut names: Vec<&str> = carried.map(|(name, _)| *name).collect();
        names.extend(SOURCES.iter().map(|source| source.name));
        // Kernels of the emulator's own tests.
        names.push("tests.cu");
        found.retain(|name| !names.contains(&name.as_str()));
        assert_eq!(found, [""; 0]);
    }
}
