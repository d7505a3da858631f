//! A device with typed memory and launches.
//!
//! The invariant: a [`Buffer`] holds as many items as it says, and launches
//! are checked by their wrappers, never by kernels. Work is in order: what a
//! launch writes, the next one reads. Once a flag that ends the work is set,
//! nothing is started any more.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use bytemuck::Pod;

use super::driver::{Argument, DeviceRange, Driver, Kernel, Launch, NamedArgument, fill_parallel};
use super::error::GpuError;
use super::pool::{Block, Pool};
use super::signature;
use crate::memory::huge_pages::on_huge_pages;
use crate::stop;

/// Bytes that are copied between two checks of the flags that end work.
const COPY_STEP: usize = 128 << 20;

/// Facts of a device.
#[derive(Clone, Debug)]
pub struct DeviceFacts {
    /// As in `SET device = 'cuda:0'`.
    pub name: String,
    /// As the driver calls it.
    pub model: String,
    /// Bytes of its memory.
    pub memory: u64,
    /// Bytes of its second-level cache.
    pub cache: u64,
    /// Multiprocessors.
    pub processors: u32,
    /// As `sm_90`.
    pub architecture: String,
    /// Whether it shares memory with the CPU: then its structures are in memory of both.
    pub is_integrated: bool,
}

/// A device, cheap to clone.
#[derive(Clone, Debug)]
pub struct Gpu {
    driver: Arc<dyn Driver>,
    /// A second queue, created on first use.
    beside: Arc<OnceLock<Arc<dyn Driver>>>,
    pool: Arc<Pool>,
    facts: Arc<DeviceFacts>,
    /// Any of them ends the work.
    stops: Vec<Arc<AtomicBool>>,
}

/// `len` items in device memory.
#[derive(Debug)]
pub struct Buffer<T> {
    block: Block,
    len: usize,
    items: PhantomData<T>,
}

impl<T> Buffer<T> {
    /// Number of items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where some items lie, as [`Gpu::show`] takes it.
    ///
    /// # Panics
    ///
    /// When the range ends behind the buffer.
    pub(crate) fn range(&self, items: Range<usize>) -> DeviceRange {
        assert!(items.end <= self.len, "more items than the buffer has");
        DeviceRange {
            from: self.block.address + (items.start * size_of::<T>()) as u64,
            bytes: items.len() * size_of::<T>(),
        }
    }

    /// Forgets the items from `len` on.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// The address of an item, as an argument; `index` may be the length.
    pub fn at(&self, index: usize) -> Argument<'_> {
        assert!(index <= self.len, "index {index} of {} items", self.len);
        Argument::Array {
            address: self.block.address + (index * size_of::<T>()) as u64,
            bytes: 0,
            item: size_of::<T>(),
            memory: PhantomData,
        }
    }
}

impl<'a, T> From<&'a Buffer<T>> for Argument<'a> {
    fn from(buffer: &'a Buffer<T>) -> Argument<'a> {
        Argument::Array {
            address: buffer.block.address,
            bytes: buffer.len * size_of::<T>(),
            item: size_of::<T>(),
            memory: PhantomData,
        }
    }
}

impl<'a, T> From<&'a mut Buffer<T>> for Argument<'a> {
    fn from(buffer: &'a mut Buffer<T>) -> Argument<'a> {
        Argument::from(&*buffer)
    }
}

impl<'a, T> From<&'a &Buffer<T>> for Argument<'a> {
    fn from(buffer: &'a &Buffer<T>) -> Argument<'a> {
        Argument::from(*buffer)
    }
}

impl<'a> From<&Argument<'a>> for Argument<'a> {
    fn from(argument: &Argument<'a>) -> Argument<'a> {
        *argument
    }
}

impl From<u32> for Argument<'_> {
    fn from(value: u32) -> Self {
        Argument::U32(value)
    }
}

impl From<u64> for Argument<'_> {
    fn from(value: u64) -> Self {
        Argument::U64(value)
    }
}

impl From<usize> for Argument<'_> {
    fn from(value: usize) -> Self {
        Argument::U64(value as u64)
    }
}

impl<'a, T: Pod> From<&'a ArgumentStruct<T>> for Argument<'a> {
    fn from(numbers: &'a ArgumentStruct<T>) -> Argument<'a> {
        Argument::Struct(bytemuck::bytes_of(&numbers.0))
    }
}

/// Numbers that a kernel takes as one struct, in the order in which they lie there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArgumentStruct<T>(pub(crate) T);

/// Numbers as arguments, which are copied.
macro_rules! number_arguments {
    ($($number:ty),*) => {
        $(impl From<&$number> for Argument<'_> {
            fn from(value: &$number) -> Self {
                Argument::from(*value)
            }
        })*
    };
}

number_arguments!(u32, u64, usize);

/// Arguments of a kernel by the names of its parameters, in any order: buffers, structs, `u32`, and `u64` or `usize`, which
/// kernels take as `u64`. A name alone is the variable of that name, borrowed.
#[doc(hidden)]
#[macro_export]
macro_rules! arguments {
    (@of $name:ident) => {
        $crate::gpu::building_blocks::Argument::from(&$name)
    };
    (@of $name:ident $argument:expr) => {
        $crate::gpu::building_blocks::Argument::from($argument)
    };
    ($($name:ident $(: $argument:expr)?),* $(,)?) => {
        &[$((stringify!($name), $crate::arguments!(@of $name $($argument)?))),*]
    };
}
pub use arguments;

impl Gpu {
    pub(crate) fn new(driver: Arc<dyn Driver>, facts: DeviceFacts) -> Gpu {
        let pool = Pool::new(driver.clone(), facts.name.clone(), facts.memory);
        Gpu {
            driver,
            beside: Arc::default(),
            pool: Arc::new(pool),
            facts: Arc::new(facts),
            stops: Vec::new(),
        }
    }

    /// The same device with memory of its own: what it uses, keeps and may use is counted apart.
    pub fn with_memory_limit(&self, bytes: u64) -> Gpu {
        let pool = Pool::new(self.driver.clone(), self.facts.name.clone(), bytes);
        Gpu {
            pool: Arc::new(pool),
            ..self.clone()
        }
    }

    /// The same device for work that ends with [`GpuError::Stopped`] soon after a flag was set: this one, or one that was
    /// given before.
    pub fn until(&self, stop: &Arc<AtomicBool>) -> Gpu {
        let mut gpu = self.clone();
        gpu.stops.push(stop.clone());
        gpu
    }

    /// The same device and memory for work that no flag ends.
    pub(crate) fn to_the_end(&self) -> Gpu {
        Gpu {
            stops: Vec::new(),
            ..self.clone()
        }
    }

    /// The same device and memory for work beside that of this one, with which only [`Gpu::follow`] makes an order. What it
    /// uses must not be freed before it is done.
    ///
    /// # Errors
    ///
    /// [`GpuError::Call`].
    pub(crate) fn beside(&self) -> Result<Gpu, GpuError> {
        let driver = match self.beside.get() {
            Some(driver) => driver,
            None => {
                let made = self.driver.beside()?;
                self.beside.get_or_init(|| made)
            }
        };
        Ok(Gpu {
            driver: driver.clone(),
            ..self.clone()
        })
    }

    /// Has what is started from now on wait for all that was started on `other`, the same device.
    ///
    /// # Errors
    ///
    /// [`GpuError::Call`].
    pub(crate) fn follow(&self, other: &Gpu) -> Result<(), GpuError> {
        self.driver.wait_for(other.driver.fence()?)
    }

    /// Whether it is the same device with the same memory.
    pub(crate) fn shares_memory(&self, other: &Gpu) -> bool {
        Arc::ptr_eq(&self.pool, &other.pool)
    }

    /// `Err` once a flag is set.
    fn check_stops(&self) -> Result<(), GpuError> {
        let mut stops = self.stops.iter();
        stops.try_for_each(|stop| stop::check(stop).map_err(GpuError::Stopped))
    }

    /// What it works with.
    #[doc(hidden)]
    pub fn driver(&self) -> Arc<dyn Driver> {
        self.driver.clone()
    }

    /// The same device with the same memory, through another driver of it.
    #[doc(hidden)]
    pub fn with_driver(&self, driver: Arc<dyn Driver>) -> Gpu {
        Gpu {
            driver,
            ..self.clone()
        }
    }

    /// What is known of it.
    pub fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    /// Bytes of its memory in use by us.
    pub fn memory_used(&self) -> u64 {
        self.pool.used()
    }

    /// The most bytes in use at a time since the last call.
    pub fn take_memory_used_max(&self) -> u64 {
        self.pool.take_used_max()
    }

    /// Bytes of its memory that may be in use.
    pub fn memory_limit(&self) -> u64 {
        self.pool.limit()
    }

    /// Sets how many bytes may be in use; what is in use stays.
    pub fn set_memory_limit(&self, bytes: u64) {
        self.pool.set_limit(bytes);
    }

    /// Items with any content.
    ///
    /// # Errors
    ///
    /// [`GpuError::Memory`].
    pub fn allocate<T: Pod>(&self, len: usize) -> Result<Buffer<T>, GpuError> {
        let block = self.pool.take(len.saturating_mul(size_of::<T>()))?;
        Ok(Buffer {
            block,
            len,
            items: PhantomData,
        })
    }

    /// Items whose bytes are all 0.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn zeroed<T: Pod>(&self, len: usize) -> Result<Buffer<T>, GpuError> {
        self.filled(len, 0)
    }

    /// Items whose bytes are all `byte`.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn filled<T: Pod>(&self, len: usize, byte: u8) -> Result<Buffer<T>, GpuError> {
        let buffer = self.allocate(len)?;
        self.fill(&buffer, byte)?;
        Ok(buffer)
    }

    /// Sets all bytes of some items.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn fill<T: Pod>(&self, buffer: &Buffer<T>, byte: u8) -> Result<(), GpuError> {
        match buffer.len * size_of::<T>() {
            0 => Ok(()),
            bytes => self.driver.fill(buffer.block.address, byte, bytes),
        }
    }

    /// Sets all bytes of `len` items from `first` on.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    ///
    /// # Panics
    ///
    /// If the buffer has fewer than `first + len` items.
    pub(crate) fn fill_items<T: Pod>(
        &self,
        buffer: &Buffer<T>,
        first: usize,
        len: usize,
        byte: u8,
    ) -> Result<(), GpuError> {
        assert!(first + len <= buffer.len, "more items than the buffer has");
        let address = buffer.block.address + (first * size_of::<T>()) as u64;
        match len * size_of::<T>() {
            0 => Ok(()),
            bytes => self.driver.fill(address, byte, bytes),
        }
    }

    /// A copy of some items on the device.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn upload<T: Pod>(&self, items: &[T]) -> Result<Buffer<T>, GpuError> {
        let buffer = self.allocate(items.len())?;
        self.upload_to(&buffer, 0, items)?;
        Ok(buffer)
    }

    /// Copies some items over those from `first` on.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    ///
    /// # Panics
    ///
    /// When they do not fit.
    pub fn upload_to<T: Pod>(
        &self,
        buffer: &Buffer<T>,
        first: usize,
        items: &[T],
    ) -> Result<(), GpuError> {
        assert!(
            first + items.len() <= buffer.len,
            "more items than the buffer has"
        );
        let mut to = buffer.block.address + (first * size_of::<T>()) as u64;
        for bytes in bytemuck::cast_slice::<T, u8>(items).chunks(COPY_STEP) {
            self.check_stops()?;
            self.driver.upload(to, bytes)?;
            to += bytes.len() as u64;
        }
        Ok(())
    }

    /// A copy of some items that lie in pieces, one after the other.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub(crate) fn upload_pieces<T: Pod>(&self, pieces: &[&[T]]) -> Result<Buffer<T>, GpuError> {
        let len = pieces.iter().map(|piece| piece.len()).sum();
        let buffer = self.allocate(len)?;
        let mut begin = 0;
        let pieces = pieces.iter().map(|piece| {
            let bytes = bytemuck::cast_slice::<T, u8>(piece);
            begin += bytes.len();
            (begin - bytes.len(), bytes)
        });
        let pieces: Vec<(usize, &[u8])> = pieces.collect();
        let mut fill = |first: usize, to: &mut [u8]| {
            fill_parallel(to, |begin, part| copy_pieces(&pieces, first + begin, part));
        };
        if begin > 0 {
            self.check_stops()?;
            (self.driver).upload_filled(buffer.block.address, begin, &mut fill)?;
        }
        Ok(buffer)
    }

    /// Copies items that are computed on the way, each of its index.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub(crate) fn upload_each<T: Pod>(
        &self,
        len: usize,
        item: impl Fn(usize) -> T,
    ) -> Result<Buffer<T>, GpuError> {
        let buffer = self.allocate(len)?;
        let bytes = len * size_of::<T>();
        if bytes > 0 {
            self.check_stops()?;
            let mut fill = |begin: usize, part: &mut [u8]| {
                let indices = begin / size_of::<T>()..;
                for (index, to) in indices.zip(bytemuck::cast_slice_mut(part)) {
                    *to = item(index);
                }
            };
            (self.driver).upload_filled(buffer.block.address, bytes, &mut fill)?;
        }
        Ok(buffer)
    }

    /// All items, when what was launched is done.
    ///
    /// # Errors
    ///
    /// [`GpuError`], also of earlier launches.
    pub fn download<T: Pod>(&self, buffer: &Buffer<T>) -> Result<Vec<T>, GpuError> {
        let mut items = on_huge_pages(vec![T::zeroed(); buffer.len]);
        self.download_from(buffer, 0, &mut items)?;
        Ok(items)
    }

    /// One item, when what was launched is done.
    ///
    /// # Errors
    ///
    /// [`GpuError`], also of earlier launches.
    ///
    /// # Panics
    ///
    /// When there is no such item.
    pub fn item<T: Pod>(&self, buffer: &Buffer<T>, index: usize) -> Result<T, GpuError> {
        let mut item = [T::zeroed()];
        self.download_from(buffer, index, &mut item)?;
        Ok(item[0])
    }

    /// The items from `first` on, when what was launched is done.
    ///
    /// # Errors
    ///
    /// [`GpuError`], also of earlier launches.
    ///
    /// # Panics
    ///
    /// If the buffer has fewer than `first + items.len()` items.
    pub fn download_from<T: Pod>(
        &self,
        buffer: &Buffer<T>,
        first: usize,
        items: &mut [T],
    ) -> Result<(), GpuError> {
        assert!(
            first + items.len() <= buffer.len,
            "more items than the buffer has"
        );
        let mut from = buffer.block.address + (first * size_of::<T>()) as u64;
        for bytes in bytemuck::cast_slice_mut::<T, u8>(items).chunks_mut(COPY_STEP) {
            self.check_stops()?;
            self.driver.download(from, bytes)?;
            from += bytes.len() as u64;
        }
        Ok(())
    }

    /// Shows some ranges, together at most as many bytes as [`Driver::show`] does, when what was launched is done. Several threads may
    /// do so at once.
    ///
    /// # Errors
    ///
    /// [`GpuError`], also of earlier launches.
    ///
    /// # Panics
    ///
    /// When they have more bytes than [`Driver::show`] shows.
    pub(crate) fn show<const RANGES: usize>(
        &self,
        ranges: [DeviceRange; RANGES],
        see: impl FnOnce([&[u8]; RANGES]),
    ) -> Result<(), GpuError> {
        self.check_stops()?;
        let mut see = Some(see);
        self.driver.show(&ranges, &mut |shown| {
            if let Some(see) = see.take() {
                see(std::array::from_fn(|range| shown[range]));
            }
        })
    }

    /// Copies the first `len` items of one buffer over those of another from `first` on.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    ///
    /// # Panics
    ///
    /// If a buffer is too short.
    pub fn copy<T: Pod>(
        &self,
        to: &Buffer<T>,
        first: usize,
        from: &Buffer<T>,
        len: usize,
    ) -> Result<(), GpuError> {
        assert!(len <= from.len, "more items than there are");
        assert!(first + len <= to.len, "more items than the buffer has");
        if len == 0 {
            return Ok(());
        }
        let address = to.block.address + (first * size_of::<T>()) as u64;
        self.driver
            .copy(address, from.block.address, len * size_of::<T>())
    }

    /// A copy of a buffer of another device.
    ///
    /// # Errors
    ///
    /// [`GpuError`], also of what was launched there.
    pub(crate) fn copy_of<T: Pod>(
        &self,
        other: &Gpu,
        buffer: &Buffer<T>,
    ) -> Result<Buffer<T>, GpuError> {
        let copy = self.allocate(buffer.len)?;
        let bytes = buffer.len * size_of::<T>();
        if bytes > 0 {
            let (to, from) = (copy.block.address, buffer.block.address);
            (self.driver).copy_from(to, &*other.driver, from, bytes)?;
        }
        Ok(copy)
    }

    /// Copies `len` items from `from` on over those from `to` on, of the same buffer; the ranges do not overlap.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    ///
    /// # Panics
    ///
    /// If the buffer is too short, or the ranges overlap.
    pub(crate) fn copy_within<T: Pod>(
        &self,
        buffer: &Buffer<T>,
        to: usize,
        from: usize,
        len: usize,
    ) -> Result<(), GpuError> {
        assert!(to + len <= buffer.len, "more items than the buffer has");
        assert!(from + len <= buffer.len, "more items than there are");
        assert!(to + len <= from || from + len <= to, "ranges overlap");
        let address = |index: usize| buffer.block.address + (index * size_of::<T>()) as u64;
        match len {
            0 => Ok(()),
            _ => {
                let bytes = len * size_of::<T>();
                self.driver.copy(address(to), address(from), bytes)
            }
        }
    }

    /// Starts a kernel, unless it has no threads. Arguments that are not those that its source declares, by name and kind, are
    /// an error.
    ///
    /// The caller has checked that the kernel stays within its arguments.
    #[doc(hidden)]
    pub fn launch(
        &self,
        kernel: Kernel,
        launch: Launch,
        arguments: &[NamedArgument],
    ) -> Result<(), GpuError> {
        self.check_stops()?;
        let arguments =
            signature::in_order(kernel, arguments).map_err(|reason| GpuError::Call {
                device: self.facts.name.clone(),
                call: "launch".to_owned(),
                reason,
            })?;
        match launch.blocks {
            0 => Ok(()),
            _ => (self.driver).launch(kernel.given(&arguments), launch, &arguments),
        }
    }

    /// Waits for all that was started.
    ///
    /// # Errors
    ///
    /// [`GpuError`] of what was started.
    pub fn synchronize(&self) -> Result<(), GpuError> {
        self.driver.synchronize()
    }

    /// Runs something and measures it on the device, in nanoseconds.
    ///
    /// # Errors
    ///
    /// [`GpuError`] of either.
    pub fn timed<T>(
        &self,
        run: impl FnOnce() -> Result<T, GpuError>,
    ) -> Result<(T, u64), GpuError> {
        let from = self.driver.mark()?;
        let result = run()?;
        let to = self.driver.mark()?;
        Ok((result, self.driver.elapsed(from, to)?))
    }

    /// A launch that keeps every multiprocessor busy, for kernels that loop over items.
    #[doc(hidden)]
    pub fn looping(&self, items: usize) -> Launch {
        /// Blocks that a multiprocessor holds.
        const RESIDENT: u32 = 8;
        let launch = Launch::each(items);
        Launch {
            blocks: launch.blocks.min(self.facts.processors * RESIDENT),
            ..launch
        }
    }

    /// Starts a kernel that loops over items.
    #[doc(hidden)]
    pub fn launch_looping(
        &self,
        kernel: Kernel,
        items: usize,
        arguments: &[NamedArgument],
    ) -> Result<(), GpuError> {
        self.launch(kernel, self.looping(items), arguments)
    }
}

/// Copies what pieces, of which are given where they begin in all of them together, have from `begin` on.
fn copy_pieces(pieces: &[(usize, &[u8])], begin: usize, mut to: &mut [u8]) {
    // Pieces that are empty begin where the next one does.
    let first = pieces.partition_point(|&(start, _)| start <= begin) - 1;
    let mut skipped = begin - pieces[first].0;
    for (_, piece) in &pieces[first..] {
        let from = &piece[skipped..];
        let (part, rest) = to.split_at_mut(from.len().min(to.len()));
        part.copy_from_slice(&from[..part.len()]);
        to = rest;
        skipped = 0;
        if to.is_empty() {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::gpu::DeviceWords;
    use crate::gpu::test_devices::on_devices;
    use crate::grammar::test_grammars;
    use crate::grammar::weights_gpu::{self, weights};

    #[test]
    fn pieces_are_copied_from_any_byte_on() {
        let texts: [&[u8]; 6] = [b"", b"abc", b"", b"d", b"efghij", b""];
        let all = texts.concat();
        let pieces = [(0, texts[0]), (0, texts[1]), (3, texts[2])];
        let pieces = [&pieces[..], &[(3, texts[3]), (4, texts[4]), (10, texts[5])]].concat();
        for begin in 0..all.len() {
            for end in begin..=all.len() {
                let mut copy = vec![0; end - begin];
                copy_pieces(&pieces, begin, &mut copy);
                assert_eq!(copy, all[begin..end], "{begin}..{end}");
            }
        }
    }

    #[test]
    fn arguments_that_the_source_does_not_declare_are_refused() {
        on_devices(|gpu| {
            let (numbers, bytes) = (gpu.upload(&[1_u32, 2])?, gpu.upload(&[3_u8; 8])?);
            let kernel = weights_gpu::SOURCE.kernel("rank_counts_kernel");
            let launched = |kernel, arguments: &[NamedArgument<'_>]| {
                let launch = Launch::each(2);
                let reason = gpu
                    .launch(kernel, launch, arguments)
                    .map_err(|error| match error {
                        GpuError::Call { reason, .. } => reason,
                        error => error.to_string(),
                    });
                reason.err().unwrap_or_default()
            };
            let (keys, count, most, counts) = (&numbers, 2u32, 2u32, &numbers);
            let missing = arguments! { keys, count, most };
            let expected =
                "parameter `u32* counts` of rank_counts_kernel in weights.cu is not given once";
            assert_eq!(launched(kernel, missing), expected);
            let twice = arguments! { keys, count, most, counts, counts };
            assert_eq!(launched(kernel, twice), expected);
            let unknown = arguments! { keys, count, least: most, counts };
            let expected = "rank_counts_kernel in weights.cu has no parameter `least`";
            assert_eq!(launched(kernel, unknown), expected);
            let refused = |arguments: &[NamedArgument<'_>], parameter: &str, given: &str| {
                let expected = format!(
                    "parameter `{parameter}` of rank_counts_kernel in weights.cu cannot be {given}"
                );
                assert_eq!(launched(kernel, arguments), expected);
            };
            let wide = arguments! { keys, count: 2u64, most, counts };
            refused(wide, "u32 count", "a number of 8 bytes");
            let narrow = arguments! { keys, count, most, counts: &bytes };
            refused(narrow, "u32* counts", "an array of items of 1 bytes");
            let no_array = arguments! { keys, count, most, counts: 0u32 };
            refused(no_array, "u32* counts", "a number of 4 bytes");
            let address = arguments! { keys: 7u64, count, most, counts };
            refused(address, "const u32* keys", "a number of 8 bytes");
            let unknown = weights_gpu::SOURCE.kernel("no_kernel");
            assert_eq!(launched(unknown, &[]), "no kernel no_kernel in weights.cu");
            let in_another_order = arguments! { counts, most: 5u32, count, keys };
            assert_eq!(launched(kernel, in_another_order), "");
            assert_eq!(gpu.download(&numbers)?, [4, 3]);
            Ok(())
        });
    }

    #[test]
    fn nothing_is_started_once_a_flag_is_set() {
        on_devices(|gpu| {
            let grammar = test_grammars::repeated_text(2).word_grammar();
            let stops = [Arc::default(), Arc::default()];
            let gpu = gpu.with_memory_limit(64 << 20);
            let until = gpu.until(&stops[0]).until(&stops[1]);
            let words = DeviceWords::upload(&until, grammar.view())?;
            let used = gpu.memory_used();
            weights(&until, &words)?;
            for stop in &stops {
                stop.store(true, Ordering::Relaxed);
                let found = weights(&until, &words).map(drop);
                assert!(matches!(found, Err(GpuError::Stopped(_))), "{found:?}");
                let found = until.download(&words.root).map(drop);
                assert!(matches!(found, Err(GpuError::Stopped(_))), "{found:?}");
                let found = DeviceWords::upload(&until, grammar.view()).map(drop);
                assert!(matches!(found, Err(GpuError::Stopped(_))), "{found:?}");
                assert_eq!(gpu.memory_used(), used);
                // Others go on.
                weights(&gpu, &words)?;
                stop.store(false, Ordering::Relaxed);
            }
            Ok(())
        });
    }
}
