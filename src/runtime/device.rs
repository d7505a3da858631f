//! What a database knows of GPUs: which ones may be used, and which segments lie in their memory.
//!
//! Invariant: what lies in a device's memory is a copy of what the segment holds, so it may go at any time. It stays while
//! memory allows, the least recently used leaves first, and goes with its segment. No lock is held while a device works.
//!
//! While a device works with one segment, the grammar of the next may be copied beside that; it is given up when the memory
//! is needed.
//!
//! What is computed there is asked for in `answer`, where it is also estimated whether that pays.

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

/// What a database computes with: the threads of the CPU and the GPUs.
pub(crate) struct Devices {
    pool: Arc<ThreadPool>,
    wanted: Mutex<Wanted>,
    /// Opened when one is first asked for; none if there are none.
    opened: OnceLock<Vec<Arc<Device>>>,
    /// Nanoseconds of work that the CPU did while devices were not open.
    passed_up: AtomicU64,
}

/// What SET has said.
#[derive(Clone, Copy, Default)]
struct Wanted {
    device: Setting,
    memory_limit: Option<u64>,
}

/// One GPU.
pub(crate) struct Device {
    gpu: Gpu,
    /// What lies in its memory.
    residents: Mutex<Vec<Resident>>,
    /// What is copied there for work that comes next.
    coming: Mutex<Vec<Arc<Coming>>>,
    /// Whether something that came had to go again, since a question began.
    is_short: AtomicBool,
    /// Counts uses of residents.
    clock: AtomicU64,
    failures: AtomicU64,
}

/// A device that works until a flag is set.
#[derive(Clone)]
pub(crate) struct OnDevice<'a> {
    device: &'a Device,
    gpu: Gpu,
}

/// What lies in a device's memory of a segment.
struct Resident {
    /// The number of the segment's [`Residence`].
    owner: u64,
    structure: Structure,
    /// When it was last used.
    used: u64,
}

/// A grammar on its way to a device.
struct Coming {
    /// As in [`Resident`].
    owner: u64,
    kind: Kind,
    stop: Arc<AtomicBool>,
    /// Until it is taken or given up. Locked while it is copied, which waits for no thread of a pool.
    grammar: Mutex<Option<ComingGrammar>>,
}

/// Has a grammar come to a device as long as it is held; then it is given up, unless it was taken.
pub(crate) struct Bringing<'a> {
    device: &'a Device,
    coming: Arc<Coming>,
}

enum Structure {
    Words(Arc<ResidentWords>),
    Lookups(Arc<DeviceStructures>),
    Lists(Arc<DeviceLists>),
}

/// What a structure is for.
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
    /// How often each symbol occurs.
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

    /// What counts by file need, built when it is first asked for.
    pub(crate) fn file_uses(&self, gpu: &Gpu) -> Result<&FileUses> {
        if let Some(uses) = self.file_uses.get() {
            return Ok(uses);
        }
        let built = FileUses::new(gpu, &self.grammar)?;
        Ok(self.file_uses.get_or_init(|| built))
    }

    /// What places of phrases need, built when it is first asked for.
    pub(crate) fn word_uses(&self, gpu: &Gpu) -> Result<&DeviceWordUses> {
        if let Some(uses) = self.word_uses.get() {
            return Ok(uses);
        }
        let built = DeviceWordUses::new(gpu, &self.grammar)?;
        Ok(self.word_uses.get_or_init(|| built))
    }
}

/// A segment's place in the memory of devices, which it gives up when it is dropped.
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

    /// Has the segment leave these devices when it is dropped.
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

/// What [`Devices::candidates`] may choose from.
pub(crate) enum Candidates<'a> {
    /// Only the CPU.
    None,
    /// Devices where they are cheaper.
    Maybe(Vec<&'a Arc<Device>>),
    /// Devices, whatever they cost.
    Only(Vec<&'a Arc<Device>>),
}

/// Nanoseconds that opening the devices takes, contexts included: 200 to 250 ms on a host of one H100.
const FINDING_COST: u64 = 250_000_000;

impl Devices {
    /// The devices of a database that has these threads.
    pub(crate) fn new(pool: Arc<ThreadPool>) -> Devices {
        Devices {
            pool,
            wanted: Mutex::default(),
            opened: OnceLock::new(),
            passed_up: AtomicU64::new(0),
        }
    }

    /// Devices of which a test asks nothing, with a thread.
    #[cfg(test)]
    pub(crate) fn none() -> Arc<Devices> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
        Arc::new(Devices::new(Arc::new(pool.expect("a thread"))))
    }

    /// The threads of the database. All that is parallel runs on them: there is no other pool for it.
    pub(crate) fn pool(&self) -> &ThreadPool {
        &self.pool
    }

    /// How many threads the database has.
    pub(crate) fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Takes what SET says.
    ///
    /// # Errors
    /// If there is no such device.
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

    /// Has these devices, whatever the machine has. Returns whether there are any, and none were opened before.
    #[cfg(test)]
    pub(crate) fn open(&self, found: &[Gpu]) -> bool {
        !found.is_empty() && self.opened.set(self.limited(found)).is_ok()
    }

    /// The devices that may take work of `cpu_cost` nanoseconds on the CPU. With `device = 'auto'` a device counts once it is open.
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
    /// the recorded work costs as much as opening them, the rule of ski rental. Returns whether this call opened any.
    pub(crate) fn look_for(&self, cpu_cost: f64) -> bool {
        if self.opened.get().is_some()
            || cpu_cost < DEVICE_WORK_MIN
            || self.wanted.lock().device != Setting::Auto
        {
            return false;
        }
        let cost = (cpu_cost as u64).min(FINDING_COST); // whatever is longer counts as much
        let before = self.passed_up.fetch_add(cost, Ordering::Relaxed);
        before + cost >= FINDING_COST && !self.all().is_empty()
    }

    /// Whether a device may take work of `cpu_cost` nanoseconds on the CPU, which it records.
    pub(crate) fn may_take(&self, cpu_cost: f64) -> bool {
        self.look_for(cpu_cost);
        !matches!(self.candidates(cpu_cost), Candidates::None)
    }

    /// The device that builds a grammar of so many tokens, which costs so much on the CPU and on a device; none if the CPU is
    /// to, or no device has the memory.
    pub(crate) fn for_construction(
        &self,
        tokens: usize,
        costs: (f64, f64),
    ) -> Option<&Arc<Device>> {
        self.look_for(costs.0);
        self.constructing(tokens, costs)
    }

    /// Whether [`Devices::for_construction`] will find a device. Records no work: that is done when the work begins. Work that takes
    /// as long as opening the devices opens them here.
    pub(crate) fn will_construct(&self, tokens: usize, costs: (f64, f64)) -> bool {
        if costs.0 >= FINDING_COST as f64 {
            self.look_for(costs.0);
        }
        self.constructing(tokens, costs).is_some()
    }

    fn constructing(&self, tokens: usize, costs: (f64, f64)) -> Option<&Arc<Device>> {
        /// What construction takes at its peak.
        const TOKEN_BYTES: u64 = 64;
        if tokens >= gpu::TOKENS_MAX {
            return None;
        }
        // A segment has less than 2^32 tokens.
        self.with_memory(tokens as u64 * TOKEN_BYTES, costs)
    }

    /// The device that encodes bodies and roots of so many symbols in all, so many of them distinct, which costs so much on the
    /// CPU and on a device; none if the CPU is to, or no device has the memory.
    pub(crate) fn for_encoding(
        &self,
        symbols: usize,
        distinct: usize,
        costs: (f64, f64),
    ) -> Option<&Arc<Device>> {
        /// What encoding takes at its peak, and for counts.
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

    /// The first device with so much memory, for work that costs so much on the CPU and on a device; none if the CPU is to do it.
    fn with_memory(&self, bytes: u64, costs: (f64, f64)) -> Option<&Arc<Device>> {
        let mut devices = self.chosen(costs).into_iter();
        devices.find(|device| bytes <= device.memory_limit())
    }

    /// The device for work that costs so much on the CPU and on a device; none if the CPU is to do it.
    pub(crate) fn for_work(&self, costs: (f64, f64)) -> Option<&Arc<Device>> {
        self.look_for(costs.0);
        self.chosen(costs).into_iter().next()
    }

    /// The devices for work that costs so much on the CPU and on a device; none if the CPU is to do it. Records no work.
    fn chosen(&self, (on_cpu, on_device): (f64, f64)) -> Vec<&Arc<Device>> {
        match self.candidates(on_cpu) {
            Candidates::Maybe(devices) if on_device < on_cpu => devices,
            Candidates::Only(devices) => devices,
            Candidates::None | Candidates::Maybe(_) => Vec::new(),
        }
    }

    /// Whether work is worth an estimate of what devices would take: there may be some, and they may be used.
    pub(crate) fn may_take_any(&self) -> bool {
        match self.wanted.lock().device {
            Setting::Cpu => false,
            Setting::Auto => self.opened.get().is_none_or(|opened| !opened.is_empty()),
            Setting::Cuda(_) => true,
        }
    }

    /// Whether SET has named devices, and there are some.
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

    /// As `cuda:0`.
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

    /// How many segments have something in its memory.
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

    /// Counts a failure for which the CPU works.
    pub(crate) fn count_failure(&self, error: &Error) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        tracing::warn!("{error}; the CPU answers instead");
    }

    /// Whether a structure of a segment lies in its memory.
    pub(crate) fn holds(&self, residence: &Residence, kind: Kind) -> bool {
        let residents = self.residents.lock();
        let mut residents = residents.iter();
        residents
            .any(|resident| resident.owner == residence.id && resident.structure.kind() == kind)
    }

    /// The device for work that ends when a flag is set.
    pub(crate) fn until<'a>(&'a self, stop: &Arc<AtomicBool>) -> OnDevice<'a> {
        OnDevice {
            device: self,
            gpu: self.gpu.until(stop),
        }
    }

    /// Works with the device alone.
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

    /// Keeps a structure, in place of one that another thread may have built meanwhile.
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

    /// A question begins.
    pub(crate) fn begin_question(&self) {
        self.is_short.store(false, Ordering::Relaxed);
    }

    /// The grammar that has come for a segment, if all of it has.
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

    /// Gives up what is on its way; says whether there was something.
    fn give_up_coming(&self) -> bool {
        let coming = std::mem::take(&mut *self.coming.lock());
        let given_up = coming.iter().filter(|coming| coming.give_up()).count();
        if given_up > 0 {
            self.is_short.store(true, Ordering::Relaxed);
        }
        given_up > 0
    }

    /// Has the least recently used leave for work with a kind of structure of a segment, but not that. Says whether there was
    /// one.
    fn evict(&self, but: Option<(&Residence, Kind)>) -> bool {
        let but = but.map(|(residence, kind)| (residence.id, kind));
        self.evict_but(|owner, kind| Some((owner, kind)) == but)
    }

    /// Has the least recently used leave, but not what is to stay. Says whether there was one.
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
    /// Takes memory for the grammar of a segment that is worked with next, if there is some: others leave for it, but not
    /// those in `stay`, which are worked with before or soon after. What fails is done anew when its turn comes.
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

    /// Works with the words of a segment.
    ///
    /// # Errors
    /// What the device or `work` fails with; of memory only when nothing of other segments is there any more.
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

    /// Works with what look-ups in a segment need, which `build` makes of the grammar if that has come.
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

    /// Works with the lists of all words of a segment, which `build` copies.
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

    /// Works with the words of a part of a segment, of which nothing stays.
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

    /// Works with the device alone.
    ///
    /// # Errors
    /// As [`OnDevice::with_words`].
    pub(crate) fn with_gpu<A>(&self, work: impl Fn(&Gpu) -> Result<A>) -> Result<A> {
        self.with_room(None, || work(&self.gpu))
    }

    /// Works again and again until there is enough memory, or nothing left that could leave.
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
    /// Gives the grammar up; says whether it was there.
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
