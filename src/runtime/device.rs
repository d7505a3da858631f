//! The GPUs of a database: the ones that may be used, and the segments in their memory.
//!
//! Invariant: a structure in a device's memory is a copy of one of the segment, so it may be evicted at any time. It stays while
//! memory allows, the least recently used is evicted first, and all are freed with their segment. No lock is held while a device
//! works.
//!
//! While a device works with one segment, the grammar of the next may be copied beside that; it is given up when the memory
//! is needed.
//!
//! Operations in `answer` run the kernels, and estimate whether a device is faster than the CPU.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use rayon::ThreadPool;
use zipfdb_kernels::GrammarView;
use zipfdb_kernels::gpu::{
    self, Buffer, ComingGrammar, DeviceFacts, DeviceGrammar, DeviceLists, DeviceStructures,
    DeviceWordUses, DeviceWords, FileUses, Gpu, GpuError, symbol_coder, weights,
};
use zipfdb_sql::setting::Device as Setting;

use crate::{Error, Result};

/// The CPU threads and the GPUs that a database computes with.
pub(crate) struct Devices {
    pool: Arc<ThreadPool>,
    wanted: Mutex<Wanted>,
    /// The GPUs, opened when first asked for; empty if the machine has none.
    opened: OnceLock<Vec<Arc<Device>>>,
    /// Nanoseconds of work that the CPU did while devices were not open.
    passed_up: AtomicU64,
}

/// The devices and the memory limit that SET chose.
#[derive(Clone, Copy, Default)]
struct Wanted {
    device: Setting,
    memory_limit: Option<u64>,
}

/// One GPU.
pub(crate) struct Device {
    gpu: Gpu,
    /// The structures of segments in its memory.
    residents: Mutex<Vec<Resident>>,
    /// The grammars that are being copied to its memory in advance.
    coming: Mutex<Vec<Arc<Coming>>>,
    /// Whether a prefetched structure was evicted during this query.
    is_short: AtomicBool,
    /// A logical clock that orders uses of residents.
    clock: AtomicU64,
    failures: AtomicU64,
}

/// A device, and the flag that stops work on it.
#[derive(Clone)]
pub(crate) struct OnDevice<'a> {
    device: &'a Device,
    gpu: Gpu,
}

/// A structure of a segment in the memory of a device.
struct Resident {
    /// The number of the segment's [`Residence`].
    owner: u64,
    structure: Structure,
    /// The value of the clock at its last use.
    used: u64,
}

/// A grammar that is being copied to a device.
struct Coming {
    /// As in [`Resident`].
    owner: u64,
    kind: Kind,
    stop: Arc<AtomicBool>,
    /// The copy, until it is taken or given up. Locked while the copy runs, which waits for no thread of a pool.
    grammar: Mutex<Option<ComingGrammar>>,
}

/// Guard of a prefetched grammar: dropped, it gives the grammar up unless a query has taken it.
pub(crate) struct Bringing<'a> {
    device: &'a Device,
    coming: Arc<Coming>,
}

enum Structure {
    Words(Arc<ResidentWords>),
    Lookups(Arc<DeviceStructures>),
    Lists(Arc<DeviceLists>),
}

/// The operations that a structure serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Counts of all words and n-grams, and phrases.
    Words,
    /// Counts, searches and extracts in batches.
    Lookups,
    /// Files that have all of some words.
    Lists,
}

impl Structure {
    fn kind(&self) -> Kind {
        match self {
            Structure::Words(_) => Kind::Words,
            Structure::Lookups(_) => Kind::Lookups,
            Structure::Lists(_) => Kind::Lists,
        }
    }
}

/// A grammar over words, for counts of all words and n-grams, and for phrases.
pub(crate) struct ResidentWords {
    pub(crate) grammar: DeviceWords,
    /// The weight of each symbol.
    pub(crate) weights: Buffer<u32>,
    file_uses: OnceLock<FileUses>,
    word_uses: OnceLock<DeviceWordUses>,
}

impl ResidentWords {
    fn new(gpu: &Gpu, grammar: DeviceGrammar) -> Result<ResidentWords> {
        let grammar = DeviceWords::new(gpu, grammar)?;
        Ok(ResidentWords {
            weights: weights(gpu, &grammar)?,
            grammar,
            file_uses: OnceLock::new(),
            word_uses: OnceLock::new(),
        })
    }

    /// The structure for counts by file, built when first asked for.
    pub(crate) fn file_uses(&self, gpu: &Gpu) -> Result<&FileUses> {
        if let Some(uses) = self.file_uses.get() {
            return Ok(uses);
        }
        let built = FileUses::new(gpu, &self.grammar)?;
        Ok(self.file_uses.get_or_init(|| built))
    }

    /// The structure for places of phrases, built when first asked for.
    pub(crate) fn word_uses(&self, gpu: &Gpu) -> Result<&DeviceWordUses> {
        if let Some(uses) = self.word_uses.get() {
            return Ok(uses);
        }
        let built = DeviceWordUses::new(gpu, &self.grammar)?;
        Ok(self.word_uses.get_or_init(|| built))
    }
}

/// A segment's identity in the memory of devices; dropped, it evicts the segment's structures.
pub(crate) struct Residence {
    id: u64,
    devices: OnceLock<Weak<Devices>>,
}

impl Residence {
    pub(crate) fn new() -> Residence {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Residence {
            id: LAST.fetch_add(1, Ordering::Relaxed),
            devices: OnceLock::new(),
        }
    }

    /// Registers devices whose copies of the segment are evicted when this is dropped.
    pub(crate) fn enter(&self, devices: &Arc<Devices>) {
        self.devices.get_or_init(|| Arc::downgrade(devices));
    }
}

impl Drop for Residence {
    fn drop(&mut self) {
        if let Some(devices) = self.devices.get().and_then(Weak::upgrade) {
            for device in devices.opened.get().into_iter().flatten() {
                let mut residents = device.residents.lock();
                residents.retain(|resident| resident.owner != self.id);
            }
        }
    }
}

/// The CPU does work that it is estimated to finish in fewer nanoseconds.
const DEVICE_WORK_MIN: f64 = 500_000.0;

/// The devices that [`Devices::candidates`] lets a plan choose from.
pub(crate) enum Candidates<'a> {
    /// The CPU alone.
    None,
    /// These devices, where they are cheaper than the CPU.
    Maybe(Vec<&'a Arc<Device>>),
    /// These devices, at any cost.
    Only(Vec<&'a Arc<Device>>),
}

/// Time to open the devices, contexts included, in nanoseconds: 200 to 250 ms on a host of one H100.
const FINDING_COST: u64 = 250_000_000;

impl Devices {
    /// The devices of a database with these threads.
    pub(crate) fn new(pool: Arc<ThreadPool>) -> Devices {
        Devices {
            pool,
            wanted: Mutex::default(),
            opened: OnceLock::new(),
            passed_up: AtomicU64::new(0),
        }
    }

    /// Devices for tests that use the CPU alone, with one thread.
    #[cfg(test)]
    pub(crate) fn none() -> Arc<Devices> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
        Arc::new(Devices::new(Arc::new(pool.expect("a thread"))))
    }

    /// The threads of the database. All parallel work runs on them.
    pub(crate) fn pool(&self) -> &ThreadPool {
        &self.pool
    }

    /// The number of threads of the database.
    pub(crate) fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Applies what SET chose.
    ///
    /// # Errors
    /// If the machine has no such device.
    pub(crate) fn want(&self, device: Setting, memory_limit: Option<u64>) -> Result<()> {
        if let Setting::Cuda(number) = device {
            let invalid = |reason: String| Error::Invalid {
                subject: "device".into(),
                reason: format!("{reason}; hint: SET device = 'auto' or 'cpu'"),
            };
            let count = match self.opened.get() {
                Some(opened) if !opened.is_empty() => opened.len(),
                _ => {
                    let found = gpu::devices();
                    found.map_err(|absence| invalid(absence.to_string()))?.len()
                }
            };
            if let Some(number) = number
                && number as usize >= count
            {
                return Err(invalid(format!(
                    "there is no cuda:{number}, only {count} in all"
                )));
            }
        }
        *self.wanted.lock() = Wanted {
            device,
            memory_limit,
        };
        for device in self.opened.get().into_iter().flatten() {
            device.limit_memory(memory_limit);
        }
        Ok(())
    }

    /// All devices, in order of number.
    pub(crate) fn all(&self) -> &[Arc<Device>] {
        (self.opened).get_or_init(|| self.limited(gpu::devices().unwrap_or_default()))
    }

    fn limited(&self, found: &[Gpu]) -> Vec<Arc<Device>> {
        let limit = self.wanted.lock().memory_limit;
        let limited = |gpu: &Gpu| Arc::new(Device::new(gpu, limit));
        found.iter().map(limited).collect()
    }

    /// Sets the devices by hand. Returns whether `found` has any and no devices were opened before.
    #[cfg(test)]
    pub(crate) fn open(&self, found: &[Gpu]) -> bool {
        !found.is_empty() && self.opened.set(self.limited(found)).is_ok()
    }

    /// The devices that may take work of `cpu_cost` nanoseconds on the CPU. With `device = 'auto'` these are the open ones.
    pub(crate) fn candidates(&self, cpu_cost: f64) -> Candidates<'_> {
        let wanted = self.wanted.lock().device;
        let is_asked = || self.opened.get().is_some() && cpu_cost >= DEVICE_WORK_MIN;
        match wanted {
            Setting::Cpu => return Candidates::None,
            Setting::Auto if !is_asked() => return Candidates::None,
            _ => {}
        }
        let all = self.all();
        match wanted {
            _ if all.is_empty() => Candidates::None,
            Setting::Cpu => Candidates::None,
            Setting::Auto => Candidates::Maybe(all.iter().collect()),
            Setting::Cuda(None) => Candidates::Only(all.iter().collect()),
            Setting::Cuda(Some(number)) => {
                Candidates::Only(all.iter().skip(number as usize).take(1).collect())
            }
        }
    }

    /// Records work of `cpu_cost` nanoseconds on the CPU that is about to begin. With `device = 'auto'` the devices are opened once
    /// the recorded work equals the cost of opening them, the rule of ski rental. Returns whether this call opened any.
    pub(crate) fn look_for(&self, cpu_cost: f64) -> bool {
        if self.opened.get().is_some()
            || cpu_cost < DEVICE_WORK_MIN
            || self.wanted.lock().device != Setting::Auto
        {
            return false;
        }
        let cost = (cpu_cost as u64).min(FINDING_COST); // longer work counts as `FINDING_COST`
        let before = self.passed_up.fetch_add(cost, Ordering::Relaxed);
        before + cost >= FINDING_COST && !self.all().is_empty()
    }

    /// Whether a device may take work of `cpu_cost` nanoseconds on the CPU, which it records.
    pub(crate) fn may_take(&self, cpu_cost: f64) -> bool {
        self.look_for(cpu_cost);
        !matches!(self.candidates(cpu_cost), Candidates::None)
    }

    /// The device that builds a grammar of `tokens` tokens, given the costs on the CPU and on a device; none if the CPU is
    /// cheaper, or no device has the memory.
    pub(crate) fn for_construction(
        &self,
        tokens: usize,
        costs: (f64, f64),
    ) -> Option<&Arc<Device>> {
        self.look_for(costs.0);
        self.constructing(tokens, costs)
    }

    /// Whether [`Devices::for_construction`] will find a device. Records no work: that is done when the work begins. Work that
    /// costs more than opening the devices opens them here.
    pub(crate) fn will_construct(&self, tokens: usize, costs: (f64, f64)) -> bool {
        if costs.0 >= FINDING_COST as f64 {
            self.look_for(costs.0);
        }
        self.constructing(tokens, costs).is_some()
    }

    fn constructing(&self, tokens: usize, costs: (f64, f64)) -> Option<&Arc<Device>> {
        /// Peak memory of construction for each token.
        const TOKEN_BYTES: u64 = 64;
        if tokens >= gpu::TOKENS_MAX {
            return None;
        }
        // A segment has less than 2^32 tokens.
        self.with_memory(tokens as u64 * TOKEN_BYTES, costs)
    }

    /// The device that encodes bodies and roots of `symbols` symbols in all, `distinct` of them distinct, given the costs on the
    /// CPU and on a device; none if the CPU is cheaper, or no device has the memory.
    pub(crate) fn for_encoding(
        &self,
        symbols: usize,
        distinct: usize,
        costs: (f64, f64),
    ) -> Option<&Arc<Device>> {
        /// Peak memory of encoding for each symbol, and of its counts for each distinct symbol.
        const SYMBOL_BYTES: u64 = 56;
        const DISTINCT_BYTES: u64 = 40;
        const COUNTS_BYTES: u64 = 16 << 20;
        if symbols >= symbol_coder::SYMBOLS_MAX {
            return None;
        }
        self.look_for(costs.0);
        // Both are less than 2^32.
        let bytes = symbols as u64 * SYMBOL_BYTES + distinct as u64 * DISTINCT_BYTES;
        self.with_memory(bytes + COUNTS_BYTES, costs)
    }

    /// The first device with `bytes` of memory, for work with these costs on the CPU and on a device; none if the CPU is cheaper.
    fn with_memory(&self, bytes: u64, costs: (f64, f64)) -> Option<&Arc<Device>> {
        let mut devices = self.chosen(costs).into_iter();
        devices.find(|device| bytes <= device.memory_limit())
    }

    /// The first device for work with these costs on the CPU and on a device; none if the CPU is cheaper.
    pub(crate) fn for_work(&self, costs: (f64, f64)) -> Option<&Arc<Device>> {
        self.look_for(costs.0);
        self.chosen(costs).into_iter().next()
    }

    /// The devices for work with these costs on the CPU and on a device; none if the CPU is cheaper. Records no work.
    fn chosen(&self, (on_cpu, on_device): (f64, f64)) -> Vec<&Arc<Device>> {
        match self.candidates(on_cpu) {
            Candidates::Maybe(devices) if on_device < on_cpu => devices,
            Candidates::Only(devices) => devices,
            Candidates::None | Candidates::Maybe(_) => Vec::new(),
        }
    }

    /// Whether the cost on devices is worth estimating: the machine may have some, and SET allows them.
    pub(crate) fn may_take_any(&self) -> bool {
        match self.wanted.lock().device {
            Setting::Cpu => false,
            Setting::Auto => self.opened.get().is_none_or(|opened| !opened.is_empty()),
            Setting::Cuda(_) => true,
        }
    }

    /// Whether SET names devices, and the machine has them.
    pub(crate) fn are_demanded(&self) -> bool {
        let wanted = self.wanted.lock().device;
        matches!(wanted, Setting::Cuda(_)) && !self.all().is_empty()
    }

    /// Whether the CPU answers when a device fails.
    pub(crate) fn falls_back(&self) -> bool {
        self.wanted.lock().device == Setting::Auto
    }
}

impl Device {
    fn new(gpu: &Gpu, memory_limit: Option<u64>) -> Device {
        let device = Device {
            gpu: gpu.with_memory_limit(0),
            residents: Mutex::default(),
            coming: Mutex::default(),
            is_short: AtomicBool::new(false),
            clock: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        };
        device.limit_memory(memory_limit);
        device
    }

    pub(crate) fn limit_memory(&self, limit: Option<u64>) {
        let memory = self.gpu.facts().memory;
        let limit = limit.unwrap_or(memory / 10 * 9).min(memory);
        self.gpu.set_memory_limit(limit);
        while self.gpu.memory_used() > limit && self.evict(None) {}
    }

    /// The name, such as `cuda:0`.
    pub(crate) fn name(&self) -> &str {
        &self.facts().name
    }

    pub(crate) fn facts(&self) -> &DeviceFacts {
        self.gpu.facts()
    }

    pub(crate) fn memory_limit(&self) -> u64 {
        self.gpu.memory_limit()
    }

    pub(crate) fn memory_used(&self) -> u64 {
        self.gpu.memory_used()
    }

    #[cfg(test)]
    pub(crate) fn take_memory_used_max(&self) -> u64 {
        self.gpu.take_memory_used_max()
    }

    /// The number of segments with a structure in its memory.
    pub(crate) fn segments(&self) -> u64 {
        let residents = self.residents.lock();
        let mut owners: Vec<u64> = residents.iter().map(|resident| resident.owner).collect();
        owners.sort_unstable();
        owners.dedup();
        owners.len() as u64
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Counts a failure after which the CPU does the work.
    pub(crate) fn count_failure(&self, error: &Error) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        tracing::warn!("{error}; the CPU answers instead");
    }

    /// Whether a structure of a segment is in its memory.
    pub(crate) fn holds(&self, residence: &Residence, kind: Kind) -> bool {
        let residents = self.residents.lock();
        let mut residents = residents.iter();
        residents
            .any(|resident| resident.owner == residence.id && resident.structure.kind() == kind)
    }

    /// The device for work that ends when `stop` is set.
    pub(crate) fn until<'a>(&'a self, stop: &Arc<AtomicBool>) -> OnDevice<'a> {
        OnDevice {
            device: self,
            gpu: self.gpu.until(stop),
        }
    }

    /// Runs `work` on the device without a segment.
    ///
    /// # Errors
    /// As [`OnDevice::with_words`].
    pub(crate) fn with_gpu<A>(&self, work: impl Fn(&Gpu) -> Result<A>) -> Result<A> {
        let (device, gpu) = (self, self.gpu.clone());
        OnDevice { device, gpu }.with_gpu(work)
    }

    fn find<S>(
        &self,
        residence: &Residence,
        select: impl Fn(&Structure) -> Option<S>,
    ) -> Option<S> {
        let mut residents = self.residents.lock();
        residents.iter_mut().find_map(|resident| {
            let found = select(&resident.structure).filter(|_| resident.owner == residence.id)?;
            resident.used = self.clock.fetch_add(1, Ordering::Relaxed);
            Some(found)
        })
    }

    /// Stores a structure, replacing one that another thread may have built meanwhile.
    fn keep(&self, residence: &Residence, structure: Structure) {
        let used = self.clock.fetch_add(1, Ordering::Relaxed);
        let (owner, kind) = (residence.id, structure.kind());
        let mut residents = self.residents.lock();
        residents.retain(|resident| (resident.owner, resident.structure.kind()) != (owner, kind));
        residents.push(Resident {
            owner,
            structure,
            used,
        });
    }

    /// Begins a query: prefetching is allowed again.
    pub(crate) fn begin_question(&self) {
        self.is_short.store(false, Ordering::Relaxed);
    }

    /// The prefetched grammar of a segment, if the copy is complete.
    fn arrived(
        &self,
        gpu: &Gpu,
        residence: &Residence,
        kind: Kind,
    ) -> Result<Option<DeviceGrammar>> {
        let mut coming = self.coming.lock();
        let is_it = |coming: &Arc<Coming>| (coming.owner, coming.kind) == (residence.id, kind);
        let Some(place) = coming.iter().position(is_it) else {
            return Ok(None);
        };
        let found = coming.swap_remove(place);
        drop(coming);
        let grammar = found.grammar.lock().take();
        match grammar {
            Some(grammar) => Ok(grammar.arrive(gpu)?),
            None => Ok(None),
        }
    }

    /// Gives up all prefetched grammars. Returns whether there was one.
    fn give_up_coming(&self) -> bool {
        let coming = std::mem::take(&mut *self.coming.lock());
        let given_up = coming.iter().filter(|coming| coming.give_up()).count();
        if given_up > 0 {
            self.is_short.store(true, Ordering::Relaxed);
        }
        given_up > 0
    }

    /// Evicts the least recently used structure other than `but`. Returns whether there was one.
    fn evict(&self, but: Option<(&Residence, Kind)>) -> bool {
        let but = but.map(|(residence, kind)| (residence.id, kind));
        self.evict_but(|owner, kind| Some((owner, kind)) == but)
    }

    /// Evicts the least recently used structure for which `stays` is false. Returns whether there was one.
    fn evict_but(&self, stays: impl Fn(u64, Kind) -> bool) -> bool {
        let mut residents = self.residents.lock();
        let places = residents.iter().enumerate();
        let others = places.filter(|(_, r)| !stays(r.owner, r.structure.kind()));
        let oldest = others.min_by_key(|(_, resident)| resident.used);
        let Some((place, _)) = oldest else {
            return false;
        };
        residents.swap_remove(place);
        true
    }
}

impl<'a> OnDevice<'a> {
    /// Prefetches the grammar of the next segment, if memory can be had: segments are evicted for it, except those in `stay`,
    /// which are used before it or soon after. On a failure the grammar is copied when its turn comes.
    pub(crate) fn bring(
        &self,
        residence: &Residence,
        kind: Kind,
        view: GrammarView<'_>,
        stay: &[&Residence],
    ) -> Option<Bringing<'a>> {
        let device = self.device;
        if device.is_short.load(Ordering::Relaxed) || device.holds(residence, kind) {
            return None;
        }
        let stays = |owner, of| of == kind && stay.iter().any(|residence| residence.id == owner);
        let grammar = loop {
            match ComingGrammar::begin(&self.gpu, view) {
                Ok(grammar) => break grammar,
                Err(GpuError::Memory { .. }) if device.evict_but(stays) => {}
                Err(_) => return None,
            }
        };
        let coming = Arc::new(Coming {
            owner: residence.id,
            kind,
            stop: Arc::default(),
            grammar: Mutex::new(Some(grammar)),
        });
        device.coming.lock().push(coming.clone());
        Some(Bringing { device, coming })
    }

    fn arrived(&self, residence: &Residence, kind: Kind) -> Result<Option<DeviceGrammar>> {
        self.device.arrived(&self.gpu, residence, kind)
    }

    /// Runs `work` on the words of a segment.
    ///
    /// # Errors
    /// Those of the device and of `work`; out of memory only when no structure of another segment is left to evict.
    pub(crate) fn with_words<A>(
        &self,
        residence: &Residence,
        view: GrammarView<'_>,
        work: impl Fn(&Gpu, &ResidentWords) -> Result<A>,
    ) -> Result<A> {
        self.with_room(Some((residence, Kind::Words)), || {
            let kept = self.device.find(residence, |structure| match structure {
                Structure::Words(words) => Some(words.clone()),
                Structure::Lookups(_) | Structure::Lists(_) => None,
            });
            let words = match kept {
                Some(words) => words,
                None => {
                    let grammar = match self.arrived(residence, Kind::Words)? {
                        Some(grammar) => grammar,
                        None => DeviceGrammar::upload(&self.gpu, view)?,
                    };
                    let words = Arc::new(ResidentWords::new(&self.gpu, grammar)?);
                    self.device.keep(residence, Structure::Words(words.clone()));
                    words
                }
            };
            work(&self.gpu, &words)
        })
    }

    /// Runs `work` on the look-up structure of a segment, which `build` makes, of the prefetched grammar if there is one.
    ///
    /// # Errors
    /// As [`OnDevice::with_words`], and of `build`.
    pub(crate) fn with_lookups<A>(
        &self,
        residence: &Residence,
        build: impl Fn(&Gpu, Option<DeviceGrammar>) -> Result<DeviceStructures>,
        work: impl Fn(&Gpu, &DeviceStructures) -> Result<A>,
    ) -> Result<A> {
        self.with_room(Some((residence, Kind::Lookups)), || {
            let kept = self.device.find(residence, |structure| match structure {
                Structure::Lookups(structures) => Some(structures.clone()),
                Structure::Words(_) | Structure::Lists(_) => None,
            });
            let structures = match kept {
                Some(structures) => structures,
                None => {
                    let arrived = self.arrived(residence, Kind::Lookups)?;
                    let structures = Arc::new(build(&self.gpu, arrived)?);
                    self.device
                        .keep(residence, Structure::Lookups(structures.clone()));
                    structures
                }
            };
            work(&self.gpu, &structures)
        })
    }

    /// Runs `work` on the lists of all words of a segment, which `build` copies.
    ///
    /// # Errors
    /// As [`OnDevice::with_words`], and of `build`.
    pub(crate) fn with_lists<A>(
        &self,
        residence: &Residence,
        build: impl Fn(&Gpu) -> Result<DeviceLists>,
        work: impl Fn(&Gpu, &DeviceLists) -> Result<A>,
    ) -> Result<A> {
        self.with_room(Some((residence, Kind::Lists)), || {
            let kept = self.device.find(residence, |structure| match structure {
                Structure::Lists(lists) => Some(lists.clone()),
                Structure::Words(_) | Structure::Lookups(_) => None,
            });
            let lists = match kept {
                Some(lists) => lists,
                None => {
                    let lists = Arc::new(build(&self.gpu)?);
                    self.device.keep(residence, Structure::Lists(lists.clone()));
                    lists
                }
            };
            work(&self.gpu, &lists)
        })
    }

    /// Runs `work` on the words of a part of a segment; the structure is dropped afterwards.
    ///
    /// # Errors
    /// As [`OnDevice::with_words`].
    pub(crate) fn with_some_words<A>(
        &self,
        view: GrammarView<'_>,
        work: impl Fn(&Gpu, &ResidentWords) -> Result<A>,
    ) -> Result<A> {
        self.with_gpu(|gpu| {
            let words = ResidentWords::new(gpu, DeviceGrammar::upload(gpu, view)?)?;
            work(gpu, &words)
        })
    }

    /// Runs `work` on the device without a segment.
    ///
    /// # Errors
    /// As [`OnDevice::with_words`].
    pub(crate) fn with_gpu<A>(&self, work: impl Fn(&Gpu) -> Result<A>) -> Result<A> {
        self.with_room(None, || work(&self.gpu))
    }

    /// Repeats `work`, evicting one structure after each failure for lack of memory, until none is left to evict.
    fn with_room<A>(
        &self,
        but: Option<(&Residence, Kind)>,
        work: impl Fn() -> Result<A>,
    ) -> Result<A> {
        loop {
            match work() {
                Err(Error::Gpu(GpuError::Memory { .. }))
                    if self.device.give_up_coming() || self.device.evict(but) => {}
                result => return result,
            }
        }
    }
}

impl Coming {
    /// Gives the grammar up. Returns whether it was there.
    fn give_up(&self) -> bool {
        self.stop.store(true, Ordering::Relaxed);
        self.grammar.lock().take().is_some()
    }
}

impl Bringing<'_> {
    /// Copies the grammar, unless it was given up.
    pub(crate) fn copy(&self, view: GrammarView<'_>) {
        if let Some(grammar) = &mut *self.coming.grammar.lock()
            && let Err(error) = grammar.copy(view, &self.coming.stop)
        {
            tracing::debug!("{error}");
        }
    }
}

impl Drop for Bringing<'_> {
    fn drop(&mut self) {
        let mut all = self.device.coming.lock();
        all.retain(|coming| !Arc::ptr_eq(coming, &self.coming));
        drop(all);
        self.coming.give_up();
    }
}

impl fmt::Debug for Devices {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Devices")
    }
}

impl From<GpuError> for Error {
    fn from(error: GpuError) -> Error {
        match error {
            GpuError::Stopped(_) => Error::Interrupted,
            error => Error::Gpu(error),
        }
    }
}
