//! CUDA devices, through the driver's library, which need not be there.
//!
//! The invariant: a machine without driver, library or device gives an
//! [`Absence`] that says which, never a panic. Every failure names its call.
//! Copies go through pinned memory; kernels are loaded by their first launch.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::fmt;
use std::panic;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;

use super::compile;
use super::device::{DeviceFacts, Gpu};
use super::driver::{
    Argument, DeviceRange, Driver, Kernel, Launch, SHOWN_BYTES, fill_parallel, places_of_shown,
};
use super::error::GpuError;
use super::signature;

/// Bytes of each of the two pieces of pinned memory.
const STAGING_BYTES: usize = 16 << 20;

/// Copies of at most this many bytes are left to the driver.
const SMALL_COPY: usize = 64 << 10;

/// Launches between two events that bound the queue, so at most twice as many launches are ahead of the device: waiting
/// for the device stays short.
const LAUNCHES_AHEAD: u32 = 128;

/// Has a device use memory of the host as integrated ones do, for tests.
const UNIFIED_VARIABLE: &str = "ZIPFDB_CUDA_UNIFIED";

/// Oldest architecture that kernels are written for, as major and minor version.
const ARCHITECTURE_MIN: (i32, i32) = (7, 0);

/// Why there are no devices.
#[derive(Clone, Debug)]
pub struct Absence(String);

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no CUDA device: {}", self.0)
    }
}

/// The CUDA devices of this machine, found by the first call.
///
/// # Errors
///
/// [`Absence`] when there are none.
pub fn devices() -> Result<&'static [Gpu], &'static Absence> {
    static DEVICES: OnceLock<Result<Vec<Gpu>, Absence>> = OnceLock::new();
    let found = DEVICES.get_or_init(|| {
        // SAFETY: loading the driver's library runs no code that relies on ours.
        if !unsafe { sys::is_culib_present() } {
            return Err(Absence("the driver's library is not installed".to_owned()));
        }
        // The library panics where the driver is too old to have a function.
        let found = panic::catch_unwind(find);
        let found = found.unwrap_or_else(|_| Err("the driver is too old".to_owned()));
        found.map_err(Absence)
    });
    match found {
        Ok(devices) => Ok(devices),
        Err(absence) => Err(absence),
    }
}

fn find() -> Result<Vec<Gpu>, String> {
    let failed = |call: &str, error: DriverError| format!("{call} failed: {}", reason(error));
    result::init().map_err(|error| failed("cuInit", error))?;
    let count = result::device::get_count().map_err(|error| failed("cuDeviceGetCount", error))?;
    let mut devices = Vec::new();
    let mut refused = Vec::new();
    for ordinal in 0..count {
        match open(ordinal) {
            Ok(gpu) => devices.push(gpu),
            Err(reason) => refused.push(reason),
        }
    }
    match (devices.is_empty(), refused.is_empty()) {
        (true, true) => Err("the driver lists none".to_owned()),
        (true, false) => Err(refused.join("; ")),
        (false, _) => {
            for reason in refused {
                tracing::warn!("{reason}");
            }
            Ok(devices)
        }
    }
}

fn open(ordinal: i32) -> Result<Gpu, String> {
    let name = format!("cuda:{ordinal}");
    let failed =
        |call: &str, error: DriverError| format!("{name}: {call} failed: {}", reason(error));
    let device = result::device::get(ordinal).map_err(|error| failed("cuDeviceGet", error))?;
    let attribute = |attribute| {
        // SAFETY: the device is one that the driver listed.
        let value = unsafe { result::device::get_attribute(device, attribute) };
        value.map_err(|error| failed("cuDeviceGetAttribute", error))
    };
    use sys::CUdevice_attribute as Attribute;
    let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    if (major, minor) < ARCHITECTURE_MIN {
        return Err(format!(
            "{name} has architecture {major}.{minor}, older than {}.{}",
            ARCHITECTURE_MIN.0, ARCHITECTURE_MIN.1
        ));
    }
    let processors = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    let cache = attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?;
    let is_integrated = attribute(Attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED)? != 0
        || std::env::var_os(UNIFIED_VARIABLE).is_some();
    // SAFETY: as above.
    let memory = unsafe { result::device::total_mem(device) };
    let memory = memory.map_err(|error| failed("cuDeviceTotalMem", error))?;
    let model =
        result::device::get_name(device).map_err(|error| failed("cuDeviceGetName", error))?;
    let facts = DeviceFacts {
        name: name.clone(),
        model,
        memory: memory as u64,
        cache: u64::try_from(cache).unwrap_or(0),
        processors: u32::try_from(processors).unwrap_or(1),
        architecture: format!("sm_{major}{minor}"),
        is_integrated,
    };
    let driver = Cuda::new(&name, &facts.architecture, device, facts.is_integrated);
    let driver = Arc::new(driver);
    driver.clone().begin_opening();
    Ok(Gpu::new(driver, facts))
}

/// Name and text of an error of the driver.
fn reason(error: DriverError) -> String {
    let name = error.error_name().unwrap_or(c"unknown");
    let text = error.error_string().unwrap_or(c"unknown");
    format!("{} ({})", name.to_string_lossy(), text.to_string_lossy())
}

/// A device, with one stream.
struct Cuda {
    name: String,
    architecture: String,
    device: sys::CUdevice,
    queue: OnceLock<Result<Queue, GpuError>>,
    cubins: Option<PathBuf>,
    /// CPU and device share their memory: what is allocated is both's, and nothing is copied over a bus. An address is
    /// the same for both.
    is_unified: bool,
    loaded: Mutex<Loaded>,
    staging: Mutex<Option<Staging>>,
    /// Pinned pieces of [`SHOWN_BYTES`] that no [`Driver::show`] uses now.
    shown: Mutex<Vec<StagedPiece>>,
}

/// An in-order queue of work for a device.
struct Queue {
    /// Lives as long as the process.
    context: sys::CUcontext,
    stream: sys::CUstream,
    pace: Mutex<Pace>,
}

// SAFETY: contexts, streams, modules and functions of the driver may be used by any thread that has made the
// context current, which every call does; pinned memory and events are reached through a mutex only.
unsafe impl Send for Cuda {}
// SAFETY: as above.
unsafe impl Sync for Cuda {}

#[derive(Default)]
struct Loaded {
    /// By source, name and what they are made for.
    kernels: HashMap<(&'static str, &'static str, Option<u32>), sys::CUfunction>,
}

/// How far launches are ahead of the device.
struct Pace {
    launches: u32,
    /// Set every [`LAUNCHES_AHEAD`] launches, in turn.
    marks: [sys::CUevent; 2],
}

/// Two pieces of pinned memory that take turns.
struct Staging {
    pieces: [StagedPiece; 2],
    /// The piece that was used last.
    turn: usize,
}

struct StagedPiece {
    memory: *mut u8,
    /// When its last copy is done.
    done: sys::CUevent,
}

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Queue {
    /// The first queue of a device, which makes its context: 100 ms on a host of one H200.
    fn of_device(name: &str, device: sys::CUdevice) -> Result<Queue, GpuError> {
        // SAFETY: the device is one that the driver listed.
        let context = unsafe { result::primary_ctx::retain(device) };
        let context = context.map_err(|error| fault(name, "cuDevicePrimaryCtxRetain", error))?;
        Queue::in_context(name, context)
    }

    fn in_context(name: &str, context: sys::CUcontext) -> Result<Queue, GpuError> {
        let fault = |call: &str, error: DriverError| fault(name, call, error);
        // SAFETY: the context is never released.
        unsafe { result::ctx::set_current(context) }
            .map_err(|error| fault("cuCtxSetCurrent", error))?;
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking);
        let mark = || {
            result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)
                .map_err(|error| fault("cuEventCreate", error))
        };
        let pace = Pace {
            launches: 0,
            marks: [mark()?, mark()?],
        };
        Ok(Queue {
            context,
            stream: stream.map_err(|error| fault("cuStreamCreate", error))?,
            pace: Mutex::new(pace),
        })
    }
}

impl Cuda {
    /// A device that is not open yet.
    fn new(name: &str, architecture: &str, device: sys::CUdevice, is_unified: bool) -> Cuda {
        Cuda {
            name: name.to_owned(),
            architecture: architecture.to_owned(),
            device,
            queue: OnceLock::new(),
            cubins: compile::cache_folder(),
            is_unified,
            loaded: Mutex::default(),
            staging: Mutex::new(None),
            shown: Mutex::default(),
        }
    }

    /// Makes on a thread of its own what the first use of the device needs. The first use gives the error if that fails.
    fn begin_opening(self: Arc<Cuda>) {
        let open = move || {
            let _ = self.queue();
            compile::nvrtc_version();
        };
        let thread = std::thread::Builder::new().name("zipfdb-device".into());
        if let Err(error) = thread.spawn(open) {
            tracing::debug!("no thread opens the device beside other work: {error}");
        }
    }

    fn queue(&self) -> Result<&Queue, GpuError> {
        let queue = self
            .queue
            .get_or_init(|| Queue::of_device(&self.name, self.device));
        queue.as_ref().map_err(Clone::clone)
    }

    /// Runs calls of the driver in this device's context, with its stream; `name` says which in errors.
    fn call<T>(
        &self,
        name: &str,
        call: impl FnOnce(sys::CUstream) -> Result<T, DriverError>,
    ) -> Result<T, GpuError> {
        let queue = self.queue()?;
        // SAFETY: the context lives as long as the process.
        let current = unsafe { result::ctx::set_current(queue.context) };
        current.map_err(|error| fault(&self.name, "cuCtxSetCurrent", error))?;
        call(queue.stream).map_err(|error| fault(&self.name, name, error))
    }

    fn function(&self, kernel: Kernel) -> Result<sys::CUfunction, GpuError> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (kernel.source.name, kernel.name, kernel.made_for);
        if let Some(&function) = loaded.kernels.get(&key) {
            return Ok(function);
        }
        let cubin = compile::cubin(kernel, &self.architecture, self.cubins.as_deref())?;
        let module = self.call("cuModuleLoadData", |_| {
            // SAFETY: a whole cubin, from the compiler or with the checksum it was kept with.
            unsafe { result::module::load_data(cubin.as_ptr().cast()) }
        })?;
        let name = CString::new(kernel.name).expect("names of kernels have no NUL");
        let function = self.call(&format!("cuModuleGetFunction({})", kernel.name), |_| {
            // SAFETY: the module is loaded and never unloaded.
            unsafe { result::module::get_function(module, name) }
        })?;
        self.compare_parameters(kernel, function)?;
        loaded.kernels.insert(key, function);
        Ok(function)
    }

    /// Makes sure that a function takes what its source declares, where the driver reports it: from CUDA 12.4 on.
    fn compare_parameters(
        &self,
        kernel: Kernel,
        function: sys::CUfunction,
    ) -> Result<(), GpuError> {
        // SAFETY: the library is loaded; the symbol is looked for and not used.
        let found = unsafe { sys::culib().get::<*const c_void>(b"cuFuncGetParamInfo\0") };
        let is_known = found.is_ok();
        let Some(parameters) = signature::parameters(kernel.source, kernel.name) else {
            return Ok(());
        };
        if !is_known {
            return Ok(());
        }
        let call = format!("cuFuncGetParamInfo({})", kernel.name);
        let mut sizes = Vec::with_capacity(parameters.len());
        loop {
            let (mut offset, mut size) = (0, 0);
            let mut is_end = false;
            self.call(&call, |_| {
                // SAFETY: the function is loaded, and both numbers live through the call.
                let result = unsafe {
                    sys::cuFuncGetParamInfo(function, sizes.len(), &mut offset, &mut size)
                };
                is_end = result == sys::CUresult::CUDA_ERROR_INVALID_VALUE;
                if is_end { Ok(()) } else { result.result() }
            })?;
            if is_end {
                break;
            }
            sizes.push(size);
        }
        let declared = parameters.iter().map(|parameter| parameter.kind.size());
        let is_same = sizes.len() == parameters.len()
            && (declared.zip(&sizes))
                .all(|(declared, size)| declared.is_none_or(|known| known == *size));
        if is_same {
            return Ok(());
        }
        Err(GpuError::Call {
            device: self.name.clone(),
            call,
            reason: format!(
                "its parameters have {sizes:?} bytes, and it is declared as {parameters:?}"
            ),
        })
    }

    /// Waits for launches of long ago if many have been started since.
    fn keep_pace(&self) -> Result<(), GpuError> {
        let mut pace = self
            .queue()?
            .pace
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        pace.launches += 1;
        if pace.launches < LAUNCHES_AHEAD {
            return Ok(());
        }
        pace.launches = 0;
        pace.marks.swap(0, 1);
        let mark = pace.marks[0];
        self.call("cuEventSynchronize", |stream| {
            // SAFETY: the event and the stream live as long as the device; an event that was never recorded is done.
            unsafe {
                result::event::synchronize(mark)?;
                result::event::record(mark, stream)
            }
        })
    }

    /// Calls `copy` with pinned pieces in turn, for each part of `bytes` bytes: part, its memory.
    fn staged(
        &self,
        bytes: usize,
        mut copy: impl FnMut(usize, usize, &StagedPiece) -> Result<(), GpuError>,
    ) -> Result<(), GpuError> {
        let mut staging = self.staging.lock().unwrap_or_else(PoisonError::into_inner);
        let staging = match &mut *staging {
            Some(staging) => staging,
            none => none.insert(self.new_staging()?),
        };
        for first in (0..bytes).step_by(STAGING_BYTES) {
            staging.turn = (staging.turn + 1) % staging.pieces.len();
            let piece = &staging.pieces[staging.turn];
            copy(first, STAGING_BYTES.min(bytes - first), piece)?;
        }
        Ok(())
    }

    fn new_staging(&self) -> Result<Staging, GpuError> {
        let piece = || self.new_piece(STAGING_BYTES);
        Ok(Staging {
            pieces: [piece()?, piece()?],
            turn: 0,
        })
    }

    fn new_piece(&self, bytes: usize) -> Result<StagedPiece, GpuError> {
        let memory = self.call("cuMemHostAlloc", |_| {
            // SAFETY: never freed, as devices live as long as the process.
            unsafe { result::malloc_host(bytes, 0) }
        })?;
        let done = self.call("cuEventCreate", |_| {
            result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)
        })?;
        Ok(StagedPiece {
            memory: memory.cast(),
            done,
        })
    }
}

fn fault(device: &str, call: &str, error: DriverError) -> GpuError {
    GpuError::Call {
        device: device.to_owned(),
        call: call.to_owned(),
        reason: reason(error),
    }
}

/// Copies on several threads.
fn copy_parallel(to: &mut [u8], from: &[u8]) {
    fill_parallel(to, |begin, part| {
        part.copy_from_slice(&from[begin..begin + part.len()]);
    });
}

impl Driver for Cuda {
    fn allocate(&self, bytes: usize) -> Result<u64, GpuError> {
        if self.is_unified {
            return self.call("cuMemHostAlloc", |_| {
                // SAFETY: more than 0 bytes; the pool frees it once. With unified addressing, which all devices that
                // kernels are written for have, the device uses the host's address.
                let memory = unsafe { result::malloc_host(bytes, sys::CU_MEMHOSTALLOC_DEVICEMAP)? };
                Ok(memory as u64)
            });
        }
        self.call("cuMemAlloc", |_| {
            // SAFETY: more than 0 bytes; the pool frees it once.
            unsafe { result::malloc_sync(bytes) }
        })
    }

    fn free(&self, address: u64) {
        if self.is_unified {
            let freed = self.call("cuMemFreeHost", |stream| {
                // SAFETY: from `allocate`, freed once, and nothing that was launched uses it any more.
                unsafe {
                    result::stream::synchronize(stream)?;
                    result::free_host(address as *mut c_void)
                }
            });
            if let Err(error) = freed {
                tracing::warn!("{error}");
            }
            return;
        }
        let freed = self.call("cuMemFree", |_| {
            // SAFETY: from `allocate`, freed once; the driver waits for what uses it.
            unsafe { result::free_sync(address) }
        });
        if let Err(error) = freed {
            tracing::warn!("{error}");
        }
    }

    fn upload(&self, to: u64, bytes: &[u8]) -> Result<(), GpuError> {
        if self.is_unified {
            self.synchronize()?;
            // SAFETY: the range was checked by `Gpu` and is the host's memory; nothing that was launched uses it any
            // more, and no other thread has it.
            let target = unsafe { std::slice::from_raw_parts_mut(to as *mut u8, bytes.len()) };
            copy_parallel(target, bytes);
            return Ok(());
        }
        if bytes.len() <= SMALL_COPY {
            return self.call("cuMemcpyHtoDAsync", |stream| {
                // SAFETY: the range was checked by `Gpu`; pageable memory is read before the call returns.
                unsafe { result::memcpy_htod_async(to, bytes, stream) }
            });
        }
        self.upload_filled(to, bytes.len(), &mut |first, staged| {
            copy_parallel(staged, &bytes[first..first + staged.len()]);
        })
    }

    fn upload_filled(
        &self,
        to: u64,
        bytes: usize,
        fill: &mut dyn FnMut(usize, &mut [u8]),
    ) -> Result<(), GpuError> {
        if self.is_unified {
            self.synchronize()?;
            // SAFETY: as in `upload`.
            fill(0, unsafe {
                std::slice::from_raw_parts_mut(to as *mut u8, bytes)
            });
            return Ok(());
        }
        self.staged(bytes, |first, len, piece| {
            self.call("cuMemcpyHtoDAsync", |stream| {
                // SAFETY: the piece is ours while we hold its mutex, as long as STAGING_BYTES, and its last copy
                // is waited for; the device's range was checked by `Gpu`.
                unsafe {
                    result::event::synchronize(piece.done)?;
                    let staged = std::slice::from_raw_parts_mut(piece.memory, len);
                    fill(first, staged);
                    result::memcpy_htod_async(to + first as u64, staged, stream)?;
                    result::event::record(piece.done, stream)
                }
            })
        })
    }

    fn download(&self, from: u64, bytes: &mut [u8]) -> Result<(), GpuError> {
        if self.is_unified {
            self.synchronize()?;
            // SAFETY: the range was checked by `Gpu` and is the host's memory, and what was launched is done.
            let source = unsafe { std::slice::from_raw_parts(from as *const u8, bytes.len()) };
            copy_parallel(bytes, source);
            return Ok(());
        }
        if bytes.len() <= SMALL_COPY {
            return self.call("cuMemcpyDtoHAsync", |stream| {
                // SAFETY: the range was checked by `Gpu`, and the copy is waited for.
                unsafe {
                    result::memcpy_dtoh_async(bytes, from, stream)?;
                    result::stream::synchronize(stream)
                }
            });
        }
        // What the piece before holds is copied out while the next one is filled.
        let mut filled: Option<(usize, usize, *mut u8, sys::CUevent)> = None;
        let len_all = bytes.len();
        let mut take = |filled: Option<(usize, usize, *mut u8, sys::CUevent)>| {
            let Some((first, len, memory, done)) = filled else {
                return Ok(());
            };
            self.call("cuMemcpyDtoHAsync", |_| {
                // SAFETY: the piece is ours while `staged` holds its mutex, and its copy is waited for.
                unsafe {
                    result::event::synchronize(done)?;
                    let staged = std::slice::from_raw_parts(memory, len);
                    copy_parallel(&mut bytes[first..first + len], staged);
                }
                Ok(())
            })
        };
        self.staged(len_all, |first, len, piece| {
            self.call("cuMemcpyDtoHAsync", |stream| {
                // SAFETY: what the piece held was copied out a turn ago; the device's range was checked by `Gpu`.
                unsafe {
                    result::event::synchronize(piece.done)?;
                    let staged = std::slice::from_raw_parts_mut(piece.memory, len);
                    result::memcpy_dtoh_async(staged, from + first as u64, stream)?;
                    result::event::record(piece.done, stream)
                }
            })?;
            let before = filled.replace((first, len, piece.memory, piece.done));
            let taken = take(before);
            if first + len == len_all {
                taken?;
                return take(filled.take());
            }
            taken
        })
    }

    fn show(&self, ranges: &[DeviceRange], see: &mut dyn FnMut(&[&[u8]])) -> Result<(), GpuError> {
        let (places, bytes) = places_of_shown(ranges);
        assert!(bytes <= SHOWN_BYTES, "{bytes} bytes are shown at once");
        if self.is_unified {
            self.synchronize()?;
            let bytes_of = |range: &DeviceRange| match range.bytes {
                // Aligned as all others.
                0 => bytemuck::cast_slice::<u128, u8>(&[]),
                // SAFETY: as in `download`.
                bytes => unsafe { std::slice::from_raw_parts(range.from as *const u8, bytes) },
            };
            see(&ranges.iter().map(bytes_of).collect::<Vec<_>>());
            return Ok(());
        }
        let free = || self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let piece = free().pop();
        // What a failed copy may still write to is not used again.
        let piece = piece.map_or_else(|| self.new_piece(SHOWN_BYTES), Ok)?;
        let copied = self.call("cuMemcpyDtoHAsync", |stream| {
            // SAFETY: the piece has SHOWN_BYTES, and while it is out of the list no other call uses it. `Gpu` has checked the
            // device's ranges, and the copies are waited for.
            unsafe {
                let piece_bytes = std::slice::from_raw_parts_mut(piece.memory, bytes);
                for (range, place) in ranges
                    .iter()
                    .zip(&places)
                    .filter(|(range, _)| range.bytes > 0)
                {
                    let to = &mut piece_bytes[place.clone()];
                    result::memcpy_dtoh_async(to, range.from, stream)?;
                }
                result::event::record(piece.done, stream)?;
                result::event::synchronize(piece.done)?;
                Ok(&*piece_bytes)
            }
        })?;
        see(&places
            .into_iter()
            .map(|place| &copied[place])
            .collect::<Vec<_>>());
        free().push(piece);
        Ok(())
    }

    fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), GpuError> {
        self.call("cuMemcpyDtoDAsync", |stream| {
            // SAFETY: both ranges were checked by `Gpu`.
            unsafe { result::memcpy_dtod_async(to, from, bytes, stream) }
        })
    }

    fn copy_from(
        &self,
        to: u64,
        other: &dyn Driver,
        from: u64,
        bytes: usize,
    ) -> Result<(), GpuError> {
        other.synchronize()?;
        self.call("cuMemcpyAsync", |stream| {
            // SAFETY: both ranges were checked by `Gpu`, and addresses identify the device that they belong to. Nothing writes to the
            // source any more, and the copy is waited for.
            unsafe { sys::cuMemcpyAsync(to, from, bytes, stream).result() }
        })?;
        self.synchronize()
    }

    fn fill(&self, to: u64, byte: u8, bytes: usize) -> Result<(), GpuError> {
        self.call("cuMemsetD8Async", |stream| {
            // SAFETY: the range was checked by `Gpu`.
            unsafe { result::memset_d8_async(to, byte, bytes, stream) }
        })
    }

    fn launch(
        &self,
        kernel: Kernel,
        launch: Launch,
        arguments: &[Argument],
    ) -> Result<(), GpuError> {
        let function = self.function(kernel)?;
        self.keep_pace()?;
        let mut values: Vec<u64> = arguments
            .iter()
            .map(|argument| match *argument {
                // Little-endian: the first four bytes are the number.
                Argument::U32(value) => u64::from(value),
                Argument::U64(value) => value,
                Argument::Array { address, .. } => address,
                // A struct is copied from where it lies.
                Argument::Struct(_) => 0,
            })
            .collect();
        let mut pointers: Vec<*mut c_void> = values
            .iter_mut()
            .zip(arguments)
            .map(|(value, argument)| match argument {
                Argument::Struct(bytes) => bytes.as_ptr().cast_mut().cast(),
                _ => (&raw mut *value).cast(),
            })
            .collect();
        self.call(&format!("cuLaunchKernel({})", kernel.name), |stream| {
            // SAFETY: `Gpu::launch` has compared the arguments with the kernel's declaration, and `compare_parameters` that with
            // the function. Launch wrappers check that it stays within its buffers; tests on the emulator check that too.
            // Structs are copied by the call and not written to.
            unsafe {
                result::launch_kernel(
                    function,
                    (launch.blocks, 1, 1),
                    (launch.threads, 1, 1),
                    0,
                    stream,
                    &mut pointers,
                )
            }
        })
    }

    fn synchronize(&self) -> Result<(), GpuError> {
        self.call("cuStreamSynchronize", |stream| {
            // SAFETY: the stream lives as long as the device.
            unsafe { result::stream::synchronize(stream) }
        })
    }

    fn beside(&self) -> Result<Arc<dyn Driver>, GpuError> {
        let queue = Queue::in_context(&self.name, self.queue()?.context)?;
        let mut beside = Cuda::new(&self.name, &self.architecture, self.device, self.is_unified);
        beside.queue = OnceLock::from(Ok(queue));
        Ok(Arc::new(beside))
    }

    fn fence(&self) -> Result<u64, GpuError> {
        self.call("cuEventRecord", |stream| {
            let event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?;
            // SAFETY: the event is new; `wait_for` destroys it.
            unsafe { result::event::record(event, stream)? };
            Ok(event as u64)
        })
    }

    fn wait_for(&self, fence: u64) -> Result<(), GpuError> {
        let event = fence as sys::CUevent;
        self.call("cuStreamWaitEvent", |stream| {
            let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
            // SAFETY: from `fence`, and destroyed once, which what waits for it survives.
            unsafe {
                let waits = result::stream::wait_event(stream, event, flags);
                result::event::destroy(event)?;
                waits
            }
        })
    }

    fn mark(&self) -> Result<u64, GpuError> {
        self.call("cuEventRecord", |stream| {
            let event = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT)?;
            // SAFETY: the event is new; `elapsed` destroys it.
            unsafe { result::event::record(event, stream)? };
            Ok(event as u64)
        })
    }

    fn elapsed(&self, from: u64, to: u64) -> Result<u64, GpuError> {
        let (from, to) = (from as sys::CUevent, to as sys::CUevent);
        self.call("cuEventElapsedTime", |_| {
            // SAFETY: both are from `mark`, and destroyed once.
            unsafe {
                result::event::synchronize(to)?;
                let milliseconds = result::event::elapsed(from, to)?;
                result::event::destroy(from)?;
                result::event::destroy(to)?;
                // Not negative, and far below 2^63 nanoseconds.
                Ok((f64::from(milliseconds) * 1e6) as u64)
            }
        })
    }
}
