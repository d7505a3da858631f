//! Kernels to machine code of one architecture, by NVRTC, kept on disk.
//!
//! Each kernel is compiled alone, when it is first launched: a question needs a few of those of a file, and the compiler takes
//! seconds for all of them and some hundredths of one for what they share.
//!
//! The invariant: what is kept is used only if its key, which is all that the
//! compiler saw, is the same byte for byte and its checksum is right; anything
//! else is compiled anew. Without NVRTC, what is kept still runs.

use std::ffi::{CStr, CString};
use std::fs;
use std::io::Write;
use std::iter;
use std::panic;
use std::path::{Path, PathBuf};
use std::process;
use std::ptr;
use std::sync::OnceLock;

use cudarc::nvrtc::result::NvrtcError;
use cudarc::nvrtc::sys;
use rayon::prelude::*;

use super::driver::{Header, Kernel, Source};
use super::error::GpuError;
use super::signature;

/// What every source may include beside its own headers.
pub(crate) const HEADERS: [Header; 2] = [
    ("device.cuh", include_str!("device.cuh")),
    ("primitives.cuh", include_str!("primitives.cuh")),
];

/// First bytes of a kept file; the last is the version of its layout.
const MAGIC: [u8; 8] = *b"ZIPFCUB\x01";

/// Machine code of `kernel`, from `folder` if it exists there, else compiled and stored there.
pub(crate) fn cubin(
    kernel: Kernel,
    architecture: &str,
    folder: Option<&Path>,
) -> Result<Vec<u8>, GpuError> {
    let unit = Unit::new(kernel, architecture);
    let version = nvrtc_version();
    let path = folder.map(|folder| folder.join(unit.file_name(architecture)));
    if let Some(path) = &path
        && let Some((key, cubin)) = read_kept(path)
        && unit.matches(&key, version)
    {
        return Ok(cubin);
    }
    let cubin = unit.compile(architecture)?;
    if let Some(path) = &path {
        let key = unit.key(version.unwrap_or_default());
        // Not being able to keep it costs time at the next start, nothing else.
        if let Err(error) = keep(path, &key, &cubin) {
            tracing::warn!("{error}");
        }
    }
    Ok(cubin)
}

/// Compiles all kernels of some sources for an architecture, as `sm_90`, which needs no device: file names, and bytes of machine
/// code.
pub fn compile_sources(
    sources: &[&'static Source],
    architecture: &str,
) -> Result<Vec<(&'static str, usize)>, GpuError> {
    let compiled = sources.par_iter().map(|source| {
        let kernels = signature::kernels(source).into_par_iter();
        let sizes = kernels.map(|name| {
            let cubin = cubin(source.kernel(name), architecture, None)?;
            Ok(cubin.len())
        });
        let size: Result<usize, GpuError> = sizes.sum();
        Ok((source.name, size?))
    });
    compiled.collect()
}

/// Where compiled kernels of this user are kept: `zipfdb/` in the folder for caches.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let caches = variable("XDG_CACHE_HOME").map(PathBuf::from);
    let caches = caches.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".cache")))?;
    Some(caches.join("zipfdb"))
}

/// What a source may include.
fn headers_of(source: &Source) -> impl Iterator<Item = &Header> {
    HEADERS.iter().chain(source.headers)
}

/// What the compiler sees.
struct Unit {
    kernel: Kernel,
    /// The source without its other kernels.
    text: String,
    options: Vec<String>,
}

impl Unit {
    fn new(kernel: Kernel, architecture: &str) -> Unit {
        let mut options = vec![
            format!("--gpu-architecture={architecture}"),
            "--std=c++17".to_owned(),
            "--generate-line-info".to_owned(),
        ];
        let constants = kernel.source.constants.iter();
        options.extend(constants.map(|(name, value)| format!("-D{name}={value}ull")));
        options.extend(kernel.made_for.map(|number| format!("-DMADE_FOR={number}")));
        Unit {
            text: only(kernel.source.text, kernel.name),
            kernel,
            options,
        }
    }

    fn file_name(&self, architecture: &str) -> String {
        let Kernel { name, made_for, .. } = self.kernel;
        let source = self.kernel.source.name.trim_end_matches(".cu");
        let made_for = made_for.map_or(String::new(), |number| format!("-{number}"));
        format!("{source}-{name}{made_for}-{architecture}.cubin")
    }

    /// All that the compiler sees, and which compiler it is.
    fn key(&self, version: (i32, i32)) -> Vec<u8> {
        let mut key = format!("nvrtc {}.{}\n", version.0, version.1);
        key.push_str(&self.options.join(" "));
        let own = (self.kernel.source.name, &self.text[..]);
        let headers = headers_of(self.kernel.source).map(|&(name, text)| (name, text));
        for (name, text) in iter::once(own).chain(headers) {
            key.push_str(&format!("\n{name} {}\n", text.len()));
            key.push_str(text);
        }
        key.into_bytes()
    }

    /// Without a compiler the version of the one that was used does not matter.
    fn matches(&self, key_kept: &[u8], version: Option<(i32, i32)>) -> bool {
        let rest = |key: &[u8]| {
            let line = key.iter().position(|&byte| byte == b'\n');
            key[line.unwrap_or(0)..].to_vec()
        };
        match version {
            Some(version) => key_kept == self.key(version),
            None => rest(key_kept) == rest(&self.key((0, 0))),
        }
    }

    /// Compiles it for `architecture`, as `sm_90`.
    fn compile(&self, architecture: &str) -> Result<Vec<u8>, GpuError> {
        let source = self.kernel.source;
        let failed = |log: String| GpuError::Compile {
            source_name: source.name.to_owned(),
            architecture: architecture.to_owned(),
            log,
        };
        if nvrtc_version().is_none() {
            let hint = "libnvrtc is not installed; hint: install the CUDA toolkit's NVRTC, \
                    or `pip install nvidia-cuda-nvrtc` and name its folder in LD_LIBRARY_PATH";
            return Err(failed(hint.to_owned()));
        }
        let c_string = |text: &str| CString::new(text).expect("sources and options have no NUL");
        let text = c_string(&self.text);
        let name = c_string(source.name);
        let headers = headers_of(source).map(|(name, text)| (c_string(name), c_string(text)));
        let headers: Vec<(CString, CString)> = headers.collect();
        let header_names: Vec<_> = headers.iter().map(|(name, _)| name.as_ptr()).collect();
        let header_texts: Vec<_> = headers.iter().map(|(_, text)| text.as_ptr()).collect();
        let mut program = ptr::null_mut();
        // SAFETY: all strings end with NUL and live until the program is destroyed; as many headers as names.
        let created = unsafe {
            sys::nvrtcCreateProgram(
                &mut program,
                text.as_ptr(),
                name.as_ptr(),
                headers.len() as i32, // a few
                header_texts.as_ptr(),
                header_names.as_ptr(),
            )
        };
        let described = |error: NvrtcError| failed(format!("{:?}", error.0));
        created.result().map_err(described)?;
        let program = Program(program);
        let options: Vec<CString> = self.options.iter().map(|option| c_string(option)).collect();
        let options: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        let count = options.len() as i32;
        // SAFETY: the program is live, and `count` is the number of options.
        let compiled = unsafe { sys::nvrtcCompileProgram(program.0, count, options.as_ptr()) };
        if compiled.result().is_err() {
            return Err(failed(program.log()));
        }
        program.cubin().map_err(described)
    }
}

/// The text of a source with empty lines where its other kernels are, so that lines keep their numbers.
///
/// A kernel begins with a line that says `extern "C" __global__`, and ends with a line that is `}` alone or with the first.
fn only(text: &str, kernel: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = begin_of_kernel(rest) {
        let whole = &rest[start..];
        let body = whole.find('{').unwrap_or(whole.len());
        let line_end = whole[body..]
            .find('\n')
            .map_or(whole.len(), |end| body + end + 1);
        let end = if whole[body..line_end].trim_end().ends_with('}') {
            line_end
        } else {
            whole
                .find("\n}\n")
                .map_or(whole.len(), |end| end + "\n}\n".len())
        };
        let (whole, behind) = whole.split_at(end);
        kept.push_str(&rest[..start]);
        let head = &whole[..whole.find('{').unwrap_or(whole.len())];
        let mut names = head.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        if names.any(|name| name == kernel) {
            kept.push_str(whole)
        } else {
            kept.extend(whole.matches('\n'))
        }
        rest = behind;
    }
    kept.push_str(rest);
    kept
}

/// Where the first line is that begins a kernel.
fn begin_of_kernel(text: &str) -> Option<usize> {
    const BEGIN: &str = "extern \"C\" __global__";
    if text.starts_with(BEGIN) {
        Some(0)
    } else {
        text.find(&format!("\n{BEGIN}")).map(|before| before + 1)
    }
}

/// Layout: magic, CRC32 of the rest, length of the key as `u32`, key, machine code.
fn read_kept(path: &Path) -> Option<(Vec<u8>, Vec<u8>)> {
    let bytes = fs::read(path).ok()?;
    let rest = bytes.strip_prefix(&MAGIC)?;
    let (checksum, rest) = rest.split_first_chunk::<4>()?;
    if crc32fast::hash(rest) != u32::from_le_bytes(*checksum) {
        return None;
    }
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (key, cubin) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    Some((key.to_vec(), cubin.to_vec()))
}

fn keep(path: &Path, key: &[u8], cubin: &[u8]) -> Result<(), GpuError> {
    let failed = |error: std::io::Error| GpuError::Cache {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    let mut rest = u32::try_from(key.len())
        .expect("sources are far smaller than 4 GiB")
        .to_le_bytes()
        .to_vec();
    rest.extend_from_slice(key);
    rest.extend_from_slice(cubin);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    // Another process may write the same: the last one to rename wins, both are right.
    let beside = path.with_extension(format!("{}.tmp", process::id()));
    let mut file = fs::File::create(&beside).map_err(failed)?;
    let written = file
        .write_all(&MAGIC)
        .and_then(|()| file.write_all(&crc32fast::hash(&rest).to_le_bytes()))
        .and_then(|()| file.write_all(&rest))
        .and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&beside);
        failed(error)
    })
}

/// The version of NVRTC, `None` if it is not installed.
pub(crate) fn nvrtc_version() -> Option<(i32, i32)> {
    static VERSION: OnceLock<Option<(i32, i32)>> = OnceLock::new();
    *VERSION.get_or_init(|| {
        // SAFETY: loading NVRTC runs no code that relies on ours.
        if !unsafe { sys::is_culib_present() } {
            return None;
        }
        let version = panic::catch_unwind(|| {
            let mut version = (0, 0);
            // SAFETY: both point to integers that live through the call.
            let result = unsafe { sys::nvrtcVersion(&mut version.0, &mut version.1) };
            result.result().ok().map(|()| version)
        });
        version.ok().flatten()
    })
}

/// A program of NVRTC, destroyed when dropped.
struct Program(sys::nvrtcProgram);

impl Program {
    fn log(&self) -> String {
        let mut size = 0;
        // SAFETY: the program is live; the size is written before the log is.
        let sized = unsafe { sys::nvrtcGetProgramLogSize(self.0, &mut size) };
        if sized.result().is_err() {
            return "without a log".to_owned();
        }
        let mut log = vec![0u8; size.max(1)];
        // SAFETY: the log has exactly the size that was asked for.
        let _ = unsafe { sys::nvrtcGetProgramLog(self.0, log.as_mut_ptr().cast()) };
        let log = CStr::from_bytes_until_nul(&log).unwrap_or_default();
        log.to_string_lossy().trim().to_owned()
    }

    fn cubin(&self) -> Result<Vec<u8>, NvrtcError> {
        let mut size = 0;
        // SAFETY: the program is live and compiled.
        unsafe { sys::nvrtcGetCUBINSize(self.0, &mut size) }.result()?;
        let mut cubin = vec![0u8; size];
        // SAFETY: the buffer has exactly the size that was asked for.
        unsafe { sys::nvrtcGetCUBIN(self.0, cubin.as_mut_ptr().cast()) }.result()?;
        Ok(cubin)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: created by NVRTC and destroyed once.
        let _ = unsafe { sys::nvrtcDestroyProgram(&mut self.0) };
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::sources::SOURCES;

    static SOURCE: Source = Source {
        name: "nothing.cu",
        text: "extern \"C\" __global__ void nothing_kernel() {}",
        headers: &[],
        constants: &[("ITEMS", 3)],
    };

    fn kept(change: impl FnOnce(&mut Vec<u8>)) -> Option<(Vec<u8>, Vec<u8>)> {
        let folder = std::env::temp_dir().join(format!("zipfdb-cubin-{}", process::id()));
        let path = folder.join("some").join(format!("{:p}.cubin", &change));
        keep(&path, b"key\nrest", b"code").unwrap();
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
        let kept = read_kept(&path);
        fs::remove_file(&path).unwrap();
        kept
    }

    #[test]
    fn a_damaged_file_is_a_miss() {
        let whole = Some((b"key\nrest".to_vec(), b"code".to_vec()));
        assert_eq!(kept(|_| ()), whole);
        for byte in 0..8 + 4 + 4 + 8 + 4 {
            assert_eq!(kept(|bytes| bytes[byte] ^= 1), None, "byte {byte}");
            assert_eq!(kept(|bytes| bytes.truncate(byte)), None, "cut at {byte}");
        }
    }

    #[test]
    fn another_source_option_or_compiler_is_a_miss() {
        let unit = |text, kernel: fn(&'static Source) -> Kernel| {
            let source = Box::leak(Box::new(Source { text, ..SOURCE }));
            Unit::new(kernel(source), "sm_90")
        };
        let nothing: fn(&'static Source) -> Kernel = |source| source.kernel("nothing_kernel");
        let own = unit(SOURCE.text, nothing);
        let kept = own.key((13, 0));
        assert!(own.matches(&kept, Some((13, 0))));
        assert!(own.matches(&kept, None));
        assert!(!own.matches(&kept, Some((13, 1))));
        let special = unit(SOURCE.text, |source| {
            source.kernel("nothing_kernel").made_for(3)
        });
        assert!(!special.matches(&kept, None));
        let other = unit(
            "extern \"C\" __global__ void nothing_kernel(int a) {}",
            nothing,
        );
        assert!(!other.matches(&kept, None));
        let names = [&own, &special].map(|unit| unit.file_name("sm_90"));
        assert_eq!(
            names,
            [
                "nothing-nothing_kernel-sm_90.cubin",
                "nothing-nothing_kernel-3-sm_90.cubin"
            ]
        );
    }

    #[test]
    fn a_unit_has_one_kernel_and_all_lines() {
        for source in SOURCES {
            let mut lengths = 0;
            let shared = only(source.text, "no_such_kernel");
            assert!(!shared.contains("__global__"), "{}", source.name);
            for name in signature::kernels(source) {
                let text = only(source.text, name);
                assert_eq!(text.lines().count(), source.text.lines().count(), "{name}");
                assert_eq!(text.matches("__global__").count(), 1, "{name}");
                assert!(text.contains(&format!("{name}(")), "{name}");
                lengths += text.len() - shared.len();
            }
            // Together they are all of the source; a kernel that is left out leaves its lines.
            let left = source.text.len() - shared.len();
            assert_eq!(lengths, left, "{}", source.name);
        }
    }

    #[test]
    fn a_wrong_kernel_is_an_error_with_its_line() {
        let text = "extern \"C\" __global__ void wrong_kernel() {\n    nothing;\n}";
        static WRONG: OnceLock<Source> = OnceLock::new();
        let source = WRONG.get_or_init(|| Source { text, ..SOURCE });
        let Err(error) = cubin(source.kernel("wrong_kernel"), "sm_90", None) else {
            panic!("compiled");
        };
        match nvrtc_version() {
            Some(_) => assert!(error.to_string().contains("nothing.cu(2)"), "{error}"),
            None => assert!(error.to_string().contains("hint: install"), "{error}"),
        }
    }
}
