//! `Driver`: memory, copies and launches of a device, untyped and in order.
//!
//! The invariant: the calls of one driver take effect one after the other, in
//! the order in which they were made. Memory that is freed may still be used
//! by what was launched before. Between two queues of a device nothing but
//! fences makes an order.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::thread;

use super::error::GpuError;

/// Bytes that a thread copies to or from pinned memory, at least.
const COPY_GRAIN: usize = 1 << 20;

/// Threads that copy together, at most.
const COPY_THREADS: usize = 8;

/// Bytes that [`Driver::show`] shows at most.
pub(crate) const SHOWN_BYTES: usize = 1 << 20;

/// What is shown begins at multiples of this.
pub(crate) const SHOWN_ALIGNMENT: usize = size_of::<u128>();

/// Bytes of a device that are shown.
#[derive(Clone, Copy, Debug)]
pub struct DeviceRange {
    pub from: u64,
    pub bytes: usize,
}

/// Where ranges lie that are shown together, and how many bytes they take there.
pub(crate) fn places_of_shown(ranges: &[DeviceRange]) -> (Vec<Range<usize>>, usize) {
    let mut end = 0;
    let places = ranges.iter().map(|range| {
        let begin = end;
        end += range.bytes.next_multiple_of(SHOWN_ALIGNMENT);
        begin..begin + range.bytes
    });
    (places.collect(), end)
}

/// Fills memory on several threads of its own, part by part; `fill` gets the offset of a part. A pool thread that waited for other
/// threads would take up other work meanwhile, which might wait for the memory that is filled.
pub(crate) fn fill_parallel(to: &mut [u8], fill: impl Fn(usize, &mut [u8]) + Sync) {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.min(COPY_THREADS).min(to.len() / COPY_GRAIN);
    let size = to.len().div_ceil(threads.max(1)).max(1);
    thread::scope(|scope| {
        let mut parts = (0..).step_by(size).zip(to.chunks_mut(size));
        let own = parts.next();
        for (begin, part) in parts {
            let fill = &fill;
            scope.spawn(move || fill(begin, part));
        }
        if let Some((begin, part)) = own {
            fill(begin, part);
        }
    });
}

/// A file that `.cu` files include: its name, and its text.
pub type Header = (&'static str, &'static str);

/// A `.cu` file.
#[derive(Debug)]
pub struct Source {
    /// Its name, as in messages.
    pub name: &'static str,
    /// What stands in it.
    pub text: &'static str,
    /// What it includes beside the headers that all may.
    pub headers: &'static [Header],
    /// Numbers that both sides need: `-Dname=value`.
    pub constants: &'static [(&'static str, u64)],
}

/// Threads of a block, if a kernel has no reason for others.
pub const THREADS: u32 = 256;

impl Source {
    /// One of its kernels.
    pub const fn kernel(&'static self, name: &'static str) -> Kernel {
        Kernel {
            source: self,
            name,
            made_for: None,
            bytes: None,
            is_whole: false,
        }
    }
}

/// A kernel by its name in a `.cu` file.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// The file it stands in.
    pub source: &'static Source,
    /// As it is declared there.
    pub name: &'static str,
    /// The number that its machine code is made for, if for one: what `MADE_FOR_OR` in the `.cu` file gives.
    pub made_for: Option<u32>,
    /// What a launch has to read and to write at least, each byte once, where the host knows it: for profiles.
    pub bytes: Option<usize>,
    /// Whether these are the arrays that it is given.
    pub is_whole: bool,
}

impl Kernel {
    /// Says that its machine code is made for a number: the compiler, which takes long for many cases, sees one.
    pub const fn made_for(self, number: u32) -> Kernel {
        Kernel {
            made_for: Some(number),
            ..self
        }
    }

    /// Says what the launch has to read and to write.
    pub const fn moving(self, bytes: usize) -> Kernel {
        Kernel {
            bytes: Some(bytes),
            ..self
        }
    }

    /// Says that the launch has to read or to write all arrays that it is given from their beginnings on.
    pub const fn whole(self) -> Kernel {
        Kernel {
            is_whole: true,
            ..self
        }
    }

    /// The kernel of a launch with these arguments, which knows its bytes.
    pub(crate) fn given(self, arguments: &[Argument]) -> Kernel {
        let bytes_of = |argument: &Argument| match *argument {
            Argument::Array { bytes, .. } => bytes,
            Argument::U32(_) | Argument::U64(_) | Argument::Struct(_) => 0,
        };
        if self.is_whole {
            self.moving(arguments.iter().map(bytes_of).sum())
        } else {
            self
        }
    }
}

/// How many threads run a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// Blocks, if 0 nothing is launched.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
}

impl Launch {
    /// A thread for each item.
    pub fn each(items: usize) -> Launch {
        Launch::tiles(items, THREADS as usize)
    }

    /// A block for each `tile` items.
    pub fn tiles(items: usize, tile: usize) -> Launch {
        let blocks = i32::try_from(items.div_ceil(tile));
        Launch {
            // At least 0. Blocks are numbered up to 2^31, far more than there are items in memory.
            blocks: blocks.expect("device memory holds fewer items") as u32,
            threads: THREADS,
        }
    }
}

/// An argument of a kernel, as wide as its parameter. It borrows the memory that it is the address of: memory that is freed
/// before the launch is started may have another owner by then.
#[derive(Clone, Copy, Debug)]
pub enum Argument<'a> {
    /// A number of 32 bits.
    U32(u32),
    /// A number of 64 bits.
    U64(u64),
    /// The address of an array, or of an item of one.
    Array {
        /// On the device.
        address: u64,
        /// Bytes of the array; 0 for an item.
        bytes: usize,
        /// Bytes of an item.
        item: usize,
        /// What is borrowed.
        memory: PhantomData<&'a ()>,
    },
    /// Numbers in one struct, laid out as in C.
    Struct(&'a [u8]),
}

/// The name of a parameter, and the argument for it.
pub type NamedArgument<'a> = (&'static str, Argument<'a>);

impl Argument<'_> {
    /// No array, where a kernel takes none.
    pub const NONE: Argument<'static> = Argument::U64(0);

    /// Bytes of the parameter that it is for.
    pub(crate) fn size(&self) -> usize {
        match self {
            Argument::U32(_) => size_of::<u32>(),
            Argument::U64(_) | Argument::Array { .. } => size_of::<u64>(),
            Argument::Struct(bytes) => bytes.len(),
        }
    }
}

/// One in-order queue of work on one device. Addresses are the device's.
pub trait Driver: Send + Sync + fmt::Debug {
    /// Some bytes, more than 0, with any content, aligned to 256.
    fn allocate(&self, bytes: usize) -> Result<u64, GpuError>;

    /// Gives memory of [`Driver::allocate`] back, when all that was launched is done.
    fn free(&self, address: u64);

    /// Copies to the device; `bytes` may be changed as soon as this returns.
    fn upload(&self, to: u64, bytes: &[u8]) -> Result<(), GpuError>;

    /// Copies to the device what `fill` puts into the host's memory, part by part: it gets the offset of a part. Parts are
    /// aligned to 16.
    fn upload_filled(
        &self,
        to: u64,
        bytes: usize,
        fill: &mut dyn FnMut(usize, &mut [u8]),
    ) -> Result<(), GpuError> {
        let mut filled = vec![0u128; bytes.div_ceil(size_of::<u128>())];
        let filled = &mut bytemuck::cast_slice_mut(&mut filled)[..bytes];
        fill(0, filled);
        self.upload(to, filled)
    }

    /// Copies from the device, and waits for it.
    fn download(&self, from: u64, bytes: &mut [u8]) -> Result<(), GpuError>;

    /// Copies some ranges from the device, together at most `SHOWN_BYTES` by `places_of_shown`, waits for them, and shows them where
    /// they lie then, aligned to 16. Several threads may do so at once.
    fn show(&self, ranges: &[DeviceRange], see: &mut dyn FnMut(&[&[u8]])) -> Result<(), GpuError> {
        let (places, bytes) = places_of_shown(ranges);
        let mut copied = vec![0u128; bytes / size_of::<u128>()];
        let copied: &mut [u8] = bytemuck::cast_slice_mut(&mut copied);
        for (range, place) in ranges.iter().zip(&places) {
            if range.bytes > 0 {
                self.download(range.from, &mut copied[place.clone()])?;
            }
        }
        let shown: Vec<&[u8]> = places.into_iter().map(|place| &copied[place]).collect();
        see(&shown);
        Ok(())
    }

    /// Copies within the device, between ranges that do not overlap.
    fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), GpuError>;

    /// Copies from another device, once what was started there is done, and waits for it.
    fn copy_from(
        &self,
        to: u64,
        other: &dyn Driver,
        from: u64,
        bytes: usize,
    ) -> Result<(), GpuError> {
        let mut copied = vec![0; bytes];
        other.download(from, &mut copied)?;
        self.upload(to, &copied)
    }

    /// Sets each of some bytes.
    fn fill(&self, to: u64, byte: u8, bytes: usize) -> Result<(), GpuError>;

    /// Starts a kernel. Its source is compiled by the first launch.
    fn launch(
        &self,
        kernel: Kernel,
        launch: Launch,
        arguments: &[Argument],
    ) -> Result<(), GpuError>;

    /// Waits for all that was started, and says whether it failed.
    fn synchronize(&self) -> Result<(), GpuError>;

    /// The same device and memory through another queue, whose calls take effect beside those of this one.
    fn beside(&self) -> Result<Arc<dyn Driver>, GpuError>;

    /// Marks this moment of the queue, for one [`Driver::wait_for`].
    fn fence(&self) -> Result<u64, GpuError>;

    /// Has what this queue is given from now on take effect after what another queue of the device was given before its
    /// fence, which is used up.
    fn wait_for(&self, fence: u64) -> Result<(), GpuError>;

    /// Marks this moment of the queue; see [`Driver::elapsed`].
    fn mark(&self) -> Result<u64, GpuError>;

    /// Nanoseconds of the device between two marks; waits for the second. Both are used up.
    fn elapsed(&self, from: u64, to: u64) -> Result<u64, GpuError>;
}
