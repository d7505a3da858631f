//! How long each kernel takes, for benchmarks.
//!
//! The invariant: a profiled device does what the device does, in the same
//! order, and adds events around each launch, fill and copy. Without one
//! nothing is measured and nothing costs. An event is about 2 us, so that short
//! kernels look longer than they are.

use std::sync::{Arc, Mutex, PoisonError};

use zipfdb_kernels::gpu::building_blocks::{Argument, Driver, Kernel, Launch};
use zipfdb_kernels::gpu::{Gpu, GpuError};

/// What was launched on a device since it began to be profiled.
#[derive(Debug)]
pub struct Profile(Arc<Profiler>);

/// All launches of one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelTime {
    /// The kernel, or `fill` and `copy`.
    pub name: &'static str,
    /// Its file, or `driver`.
    pub source: &'static str,
    /// How often it was launched.
    pub launches: u64,
    /// Time on the device.
    pub nanoseconds: u64,
    /// The longest launch.
    pub nanoseconds_max: u64,
    /// Bytes that it had to read and to write, each once; `None` if launches do not say.
    pub bytes: Option<u64>,
}

impl Profile {
    /// A device like `gpu`, with the same memory, that is profiled.
    pub fn of(gpu: &Gpu) -> (Gpu, Profile) {
        let profiler = Arc::new(Profiler {
            driver: gpu.driver(),
            timed: Mutex::default(),
        });
        (gpu.with_driver(profiler.clone()), Profile(profiler))
    }

    /// What was launched since the last call, the longest first.
    ///
    /// # Errors
    ///
    /// [`GpuError`], also of what was launched.
    pub fn take(&self) -> Result<Vec<KernelTime>, GpuError> {
        let timed = std::mem::take(&mut *self.0.lock());
        let mut kernels: Vec<KernelTime> = Vec::new();
        for Timed { what, marks } in timed {
            let nanoseconds = self.0.driver.elapsed(marks[0], marks[1])?;
            let (name, source) = (what.name, what.source);
            let known = kernels
                .iter_mut()
                .find(|kernel| (kernel.name, kernel.source) == (name, source));
            match known {
                Some(kernel) => {
                    kernel.launches += 1;
                    kernel.nanoseconds += nanoseconds;
                    kernel.nanoseconds_max = kernel.nanoseconds_max.max(nanoseconds);
                    kernel.bytes = kernel.bytes.zip(what.bytes).map(|(a, b)| a + b);
                }
                None => kernels.push(KernelTime {
                    name,
                    source,
                    launches: 1,
                    nanoseconds,
                    nanoseconds_max: nanoseconds,
                    bytes: what.bytes,
                }),
            }
        }
        kernels.sort_by_key(|kernel| std::cmp::Reverse(kernel.nanoseconds));
        Ok(kernels)
    }
}

/// A driver between events.
#[derive(Debug)]
struct Profiler {
    driver: Arc<dyn Driver>,
    timed: Mutex<Vec<Timed>>,
}

#[derive(Debug)]
struct Timed {
    what: Work,
    marks: [u64; 2],
}

#[derive(Clone, Copy, Debug)]
struct Work {
    name: &'static str,
    source: &'static str,
    bytes: Option<u64>,
}

impl Profiler {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Timed>> {
        self.timed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn timed(
        &self,
        what: Work,
        work: impl FnOnce(&dyn Driver) -> Result<(), GpuError>,
    ) -> Result<(), GpuError> {
        let from = self.driver.mark()?;
        work(&*self.driver)?;
        let marks = [from, self.driver.mark()?];
        self.lock().push(Timed { what, marks });
        Ok(())
    }
}

fn of_driver(name: &'static str, bytes: usize) -> Work {
    Work {
        name,
        source: "driver",
        bytes: Some(bytes as u64),
    }
}

impl Driver for Profiler {
    fn allocate(&self, bytes: usize) -> Result<u64, GpuError> {
        self.driver.allocate(bytes)
    }

    fn free(&self, address: u64) {
        self.driver.free(address);
    }

    fn upload(&self, to: u64, bytes: &[u8]) -> Result<(), GpuError> {
        self.driver.upload(to, bytes)
    }

    fn upload_filled(
        &self,
        to: u64,
        bytes: usize,
        fill: &mut dyn FnMut(usize, &mut [u8]),
    ) -> Result<(), GpuError> {
        self.driver.upload_filled(to, bytes, fill)
    }

    fn download(&self, from: u64, bytes: &mut [u8]) -> Result<(), GpuError> {
        self.driver.download(from, bytes)
    }

    fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), GpuError> {
        let what = of_driver("copy", 2 * bytes);
        self.timed(what, |driver| driver.copy(to, from, bytes))
    }

    fn copy_from(
        &self,
        to: u64,
        other: &dyn Driver,
        from: u64,
        bytes: usize,
    ) -> Result<(), GpuError> {
        let what = of_driver("copy from another device", bytes);
        self.timed(what, |driver| driver.copy_from(to, other, from, bytes))
    }

    fn fill(&self, to: u64, byte: u8, bytes: usize) -> Result<(), GpuError> {
        let what = of_driver("fill", bytes);
        self.timed(what, |driver| driver.fill(to, byte, bytes))
    }

    fn launch(
        &self,
        kernel: Kernel,
        launch: Launch,
        arguments: &[Argument],
    ) -> Result<(), GpuError> {
        let what = Work {
            name: kernel.name,
            source: kernel.source.name,
            bytes: kernel.bytes.map(|bytes| bytes as u64),
        };
        self.timed(what, |driver| driver.launch(kernel, launch, arguments))
    }

    fn synchronize(&self) -> Result<(), GpuError> {
        self.driver.synchronize()
    }

    /// A queue that is not observed: copies go there.
    fn beside(&self) -> Result<Arc<dyn Driver>, GpuError> {
        self.driver.beside()
    }

    fn fence(&self) -> Result<u64, GpuError> {
        self.driver.fence()
    }

    fn wait_for(&self, fence: u64) -> Result<(), GpuError> {
        self.driver.wait_for(fence)
    }

    fn mark(&self) -> Result<u64, GpuError> {
        self.driver.mark()
    }

    fn elapsed(&self, from: u64, to: u64) -> Result<u64, GpuError> {
        self.driver.elapsed(from, to)
    }
}

#[cfg(test)]
mod tests {
    use zipfdb_kernels::gpu::primitives;
    use zipfdb_kernels::gpu::test_devices::on_devices;

    use super::*;

    #[test]
    fn every_launch_is_counted_with_the_bytes_it_must_move() {
        on_devices(|gpu| {
            let (profiled, profile) = Profile::of(gpu);
            let items = profiled.upload(&vec![1u32; 5_000])?;
            let sums = primitives::scan::<u32, u32>(&profiled, &items)?;
            primitives::scan::<u32, u32>(&profiled, &items)?;
            assert_eq!(profiled.item(&sums, 5_000)?, 5_000);
            let kernels = profile.take()?;
            let scan = kernels.iter().find(|k| k.name == "scan_u32_u32_kernel");
            let scan = scan.expect("was launched");
            assert_eq!((scan.launches, scan.source), (2, "primitives.cu"));
            assert_eq!(scan.bytes, Some(2 * (5_000 + 5_001) * 4));
            assert!(scan.nanoseconds >= scan.nanoseconds_max);
            let fill = kernels.iter().find(|k| k.name == "fill");
            assert_eq!(fill.map(|k| k.launches), Some(2));
            // Nothing is launched on the device itself.
            primitives::scan::<u32, u32>(gpu, &items)?;
            assert_eq!(profile.take()?, []);
            Ok(())
        });
    }
}
