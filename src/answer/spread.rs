//! Segments on GPUs: which device answers for which segment, and what it is given meanwhile.
//!
//! Invariant: a device gives what the CPU gives, checked against the file table in the same way. With `device = 'auto'` a
//! failure of a device is counted and the CPU answers; else it is the error.

use std::cmp::Reverse;
use std::collections::BTreeMap;
#[cfg(test)]
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rayon::prelude::*;
use zipfdb_kernels::GrammarView;
use zipfdb_kernels::gpu::{Extract, ExtractedBytes, WordQuery};

use super::stored_view::{Lookup, StoredView};
use crate::answer::cost::{Size, Task};
use crate::answer::found::Found;
use crate::runtime::device::{Bringing, Candidates, Device, Kind, OnDevice, Residence, Run};
use crate::runtime::interrupt;
use crate::segment::{LiveSegment, NgramStructure, SegmentView, Unit};
use crate::{Error, Result};

/// For each segment the device that answers; none for the CPU.
type Places<'a> = Vec<Option<&'a Device>>;

/// What the CPU is called where devices are named.
const CPU: &str = "cpu";

impl Task {
    /// What a device needs for it.
    fn kind(self) -> Kind {
        match self {
            Task::Lookups(_) => Kind::Lookups,
            _ => Kind::Words,
        }
    }
}

impl StoredView {
    /// Decides where some work is done for each segment: devices get the largest first, each as much as the others.
    fn places(&self, task: Task) -> Places<'_> {
        let threads = self.devices().threads();
        let costs = (self.segments.iter()).map(|segment| segment.cpu_cost(task, threads));
        let costs: Vec<f64> = costs.collect();
        let mut places: Places<'_> = vec![None; self.segments.len()];
        let (devices, is_forced) = match self.devices().candidates(costs.iter().sum()) {
            Candidates::None => return places,
            Candidates::Maybe(devices) => (devices, false),
            Candidates::Only(devices) => (devices, true),
        };
        let mut order: Vec<usize> = (0..self.segments.len()).collect();
        order.sort_by_key(|&index| Reverse(self.segments[index].size().0));
        let mut loads = vec![0u64; devices.len()];
        for index in order {
            let segment = &self.segments[index];
            if segment.has_answer(task) {
                continue;
            }
            // A device that holds the segment keeps it; else the one with the least to do takes it.
            let holds = |&place: &usize| devices[place].holds(segment.residence(), task.kind());
            let least = || (0..devices.len()).min_by_key(|&place| loads[place]);
            let Some(place) = (0..devices.len()).find(holds).or_else(least) else {
                continue;
            };
            if is_forced || segment.device_cost(task, devices[place]) < costs[index] {
                loads[place] += segment.size().0;
                places[index] = Some(&**devices[place]);
            }
        }
        places
    }

    /// Where some work will be done, as EXPLAIN shows it.
    pub(crate) fn describe_places(&self, task: Option<Task>) -> String {
        let Some(task) = task else {
            return format!("device: {CPU}");
        };
        let (places, threads) = (self.places(task), self.devices().threads());
        let time = |cost: f64| format!("about {:.0?}", Duration::from_nanos(cost as u64));
        let on_cpu: f64 = self
            .segments
            .iter()
            .map(|segment| segment.cpu_cost(task, threads))
            .sum();
        let mut names: Vec<&str> = places
            .iter()
            .flatten()
            .map(|device| device.name())
            .collect();
        names.sort_unstable();
        names.dedup();
        if names.is_empty() {
            let Candidates::Maybe(devices) = self.devices().candidates(on_cpu) else {
                return format!("device: {CPU}");
            };
            let segments = self.segments.iter();
            let costs = devices.first().map(|device| {
                let costs = segments.map(|segment| segment.device_cost(task, device));
                (device.name(), costs.sum::<f64>())
            });
            return match costs {
                Some((name, cost)) if cost.is_finite() => {
                    let (here, there) = (time(on_cpu), time(cost));
                    format!("device: {CPU} ({here}); not {name} ({there})")
                }
                _ => format!("device: {CPU}"),
            };
        }
        if places.iter().any(Option::is_none) {
            names.push(CPU);
        }
        let costs = places
            .iter()
            .zip(&self.segments)
            .map(|(place, segment)| match place {
                None => segment.cpu_cost(task, threads),
                // The grammar is what the CPU makes too, so there is no estimate without it.
                Some(device) => match segment.device_cost(task, device) {
                    cost if cost.is_finite() => cost,
                    _ => segment.cpu_cost(task, threads),
                },
            });
        let there = costs.sum();
        format!(
            "device: {} ({}); not {CPU} ({})",
            names.join(", "),
            time(there),
            time(on_cpu)
        )
    }

    /// How words would be counted by file on the CPU, and if in several ways, in how many segments each.
    pub(crate) fn describe_counts(&self) -> Option<String> {
        let places = self.places(Task::FileCounts);
        let here = (places.iter().zip(&self.segments)).filter(|(place, _)| place.is_none());
        let mut sources: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, segment) in here {
            *sources.entry(segment.counts_source()).or_default() += 1;
        }
        let source = |(source, count): (&&str, &usize)| match sources.len() {
            1 => (*source).to_owned(),
            _ => format!("{source} in {count}"),
        };
        let parts: Vec<String> = sources.iter().map(source).collect();
        (!parts.is_empty()).then(|| format!("counts: {}", parts.join(", ")))
    }

    /// Lets each segment keep something for n-grams.
    #[cfg(test)]
    pub(super) fn build_ngrams(&self, kind: NgramStructure) -> Result<()> {
        (self.segments.iter()).try_for_each(|segment| {
            SegmentView::of(segment).build_ngrams(kind, &AtomicBool::new(false))
        })
    }

    /// Whether all segments keep where words are.
    pub(crate) fn keeps_places(&self, unit: Unit) -> bool {
        let mut segments = self.segments.iter();
        segments.all(|segment| SegmentView::of(segment).has_places(unit))
    }

    /// Lets each segment keep where words are.
    #[cfg(test)]
    pub(crate) fn build_places(&self) -> Result<()> {
        (self.segments.iter()).try_for_each(|segment| SegmentView::of(segment).build_places())
    }

    /// Where n-grams would come from on the CPU, if that is not the grammar.
    pub(crate) fn describe_ngrams(&self) -> Option<String> {
        let mut sources: BTreeMap<NgramStructure, usize> = BTreeMap::new();
        for source in self
            .segments
            .iter()
            .filter_map(|segment| segment.ngram_structure())
        {
            *sources.entry(source).or_default() += 1;
        }
        let all = self.segments.len();
        let source = |(source, &count): (&NgramStructure, &usize)| {
            let name = source.name();
            match count == all {
                true => name.to_owned(),
                false => format!("{name} in {count} of {all} segments"),
            }
        };
        let parts: Vec<String> = sources.iter().map(source).collect();
        (!parts.is_empty()).then(|| format!("n-grams: from {}", parts.join(", ")))
    }

    /// The segment at a place, to work with.
    pub(super) fn segment_at(&self, index: usize) -> SegmentView {
        SegmentView::of(&self.segments[index])
    }

    /// Has each segment answered; see [`StoredView::each`].
    pub(super) fn each_segment<A: Send>(
        &self,
        task: Task,
        run: Run<'_>,
        on_cpu: impl Fn(&SegmentView) -> Result<A> + Sync,
        on_device: impl Fn(&SegmentView, &OnDevice<'_>) -> Result<A> + Sync,
    ) -> Result<Vec<A>> {
        self.each(
            task,
            run,
            |_| true,
            |index| on_cpu(&self.segment_at(index)),
            |index, device| on_device(&self.segment_at(index), device),
        )
    }

    /// Has each segment answered by its place, on its device or on the CPU; devices work side by side. Those that nothing is
    /// asked of have an answer without work.
    pub(super) fn each<A: Send>(
        &self,
        task: Task,
        run: Run<'_>,
        is_asked: impl Fn(usize) -> bool + Sync,
        on_cpu: impl Fn(usize) -> Result<A> + Sync,
        on_device: impl Fn(usize, &OnDevice<'_>) -> Result<A> + Sync,
    ) -> Result<Vec<A>> {
        let places = self.places(task);
        let count = self.segments.len();
        if places.iter().all(Option::is_none) {
            return (0..count)
                .map(|index| run.note(CPU, || on_cpu(index)))
                .collect();
        }
        let kind = task.kind();
        let mut lanes: Vec<(Option<&Device>, Vec<usize>)> = Vec::new();
        for (index, &place) in places.iter().enumerate() {
            let is_same = |lane: &&mut (Option<&Device>, Vec<usize>)| {
                lane.0.map(Device::name) == place.map(Device::name)
            };
            match lanes.iter_mut().find(is_same) {
                Some(lane) => lane.1.push(index),
                None => lanes.push((place, vec![index])),
            }
        }
        let answer = |index: usize| {
            interrupt::check(run.stop)?;
            let Some(device) = places[index] else {
                return run.note(CPU, || on_cpu(index));
            };
            self.segments[index].residence().enter(self.devices());
            match run.note(device.name(), || on_device(index, &device.until(run.stop))) {
                Err(error @ Error::Gpu(_)) if self.devices().falls_back() => {
                    device.count_failure(&error);
                    run.note(CPU, || on_cpu(index))
                }
                result => result,
            }
        };
        let answers = lanes.par_iter_mut().map(|(device, lane)| {
            let Some(device) = device else {
                let answers = lane.iter().map(|&index| Ok((index, answer(index)?)));
                return answers.collect::<Result<Vec<(usize, A)>>>();
            };
            device.begin_question();
            // What is there comes first, before it has to make room.
            let holds = |index: usize| device.holds(self.segments[index].residence(), kind);
            lane.sort_by_key(|&index| (is_asked(index), !holds(index)));
            let mut answers = Vec::with_capacity(lane.len());
            // What was brought is held until it was worked with.
            let mut brought = None;
            for place in 0..lane.len() {
                let (found, next) =
                    self.ahead(&lane[place..], kind, device, run, &is_asked, &answer);
                answers.push((lane[place], found?));
                drop(std::mem::replace(&mut brought, next));
            }
            Ok(answers)
        });
        let answers: Vec<Vec<(usize, A)>> = answers.collect::<Result<_>>()?;
        let mut answers: Vec<(usize, A)> = answers.into_iter().flatten().collect();
        answers.sort_unstable_by_key(|&(index, _)| index);
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
    }

    /// Has the first of some segments answered, and the grammar of the second brought to the device beside that.
    fn ahead<'d, A: Send>(
        &self,
        lane: &[usize],
        kind: Kind,
        device: &'d Device,
        run: Run<'_>,
        is_asked: &(impl Fn(usize) -> bool + Sync),
        answer: &(impl Fn(usize) -> Result<A> + Sync),
    ) -> (Result<A>, Option<Bringing<'d>>) {
        let Some(&second) = lane.get(1).filter(|&&index| is_asked(index)) else {
            return (answer(lane[0]), None);
        };
        let segment = self.segment_at(second);
        let stay: Vec<&Residence> = (lane.iter())
            .map(|&index| self.segments[index].residence())
            .collect();
        let bring = || {
            interrupt::check(run.stop).ok()?;
            // A segment that is damaged says so when its turn comes.
            let view = segment.grammar_of(kind).ok()?;
            let on_device = device.until(run.stop);
            on_device.bring(segment.residence(), kind, view, &stay)
        };
        // What the host has already is under way before the device begins; else the host makes it meanwhile.
        let brought = if segment.has_grammar_of(kind) {
            bring()
        } else {
            None
        };
        rayon::join(
            || answer(lane[0]),
            || {
                let brought = match segment.has_grammar_of(kind) {
                    true => brought,
                    false => bring(),
                };
                if let (Some(brought), Ok(view)) = (&brought, segment.grammar_of(kind)) {
                    brought.copy(view);
                }
                brought
            },
        )
    }
}

/// The answers of a segment to look-ups of a batch.
type Ask<A> = fn(&SegmentView, &OnDevice<'_>, &[WordQuery]) -> Result<Vec<A>>;

/// Bytes of extracts that a device makes at a time: this part of its memory,
const EXTRACT_SHARE: u64 = 8;

/// and at least and at most so many.
const EXTRACT_BYTES: (u64, u64) = (64 << 10, 64 << 20);

impl StoredView {
    /// Answers look-ups, sorted by segment, where devices do so for all segments; those of words that a segment does not
    /// have are left out. None if the CPU is to answer.
    pub(super) fn on_devices<'a, A: Send>(
        &self,
        lookups: &'a [Lookup],
        run: Run<'_>,
        ask: Ask<A>,
    ) -> Result<Option<Vec<(&'a Lookup, A)>>> {
        let task = Task::Lookups(lookups.len() as u64);
        if !self.is_all_on_devices(task) {
            return Ok(None);
        }
        let of_segment = |index: usize| -> Vec<&Lookup> {
            let from = lookups.partition_point(|lookup| (lookup.part.segment as usize) < index);
            let to = lookups.partition_point(|lookup| lookup.part.segment as usize <= index);
            let known = lookups[from..to].iter();
            known
                .filter(|lookup| lookup.word.first < lookup.word.end)
                .collect()
        };
        let asked: Vec<Vec<&Lookup>> = (0..self.segments.len()).map(of_segment).collect();
        let found = self.each(
            task,
            run,
            |index| !asked[index].is_empty(),
            |_| Ok(None),
            |index, device| {
                let lookups = &asked[index];
                if lookups.is_empty() {
                    return Ok(Some(Vec::new()));
                }
                let queries = lookups.iter().map(|lookup| WordQuery {
                    word: lookup.word,
                    file: lookup.part.file,
                });
                let found = ask(
                    &self.segment_at(index),
                    device,
                    &queries.collect::<Vec<_>>(),
                )?;
                Ok(Some(lookups.iter().copied().zip(found).collect::<Vec<_>>()))
            },
        )?;
        // One that failed has the CPU answer all.
        let found: Option<Vec<_>> = found.into_iter().collect();
        Ok(found.map(|found| found.into_iter().flatten().collect()))
    }

    /// Extracts ranges of these files where devices do so for all segments; none if the CPU is to.
    pub(super) fn extracts_on_devices(
        &self,
        ranges: &[(usize, u64, u64)],
        run: Run<'_>,
    ) -> Result<Option<Found<ExtractedBytes>>> {
        let task = Task::Lookups(ranges.len() as u64);
        if !self.is_all_on_devices(task) {
            return Ok(None);
        }
        let devices = self.devices().all().iter();
        let memory = devices.map(|device| device.memory_limit()).min();
        let piece = (memory.unwrap_or(0) / EXTRACT_SHARE).clamp(EXTRACT_BYTES.0, EXTRACT_BYTES.1);
        // For each segment what it has of each range, in pieces that a device makes at a time.
        let mut asked: Vec<Vec<(usize, u64, Extract)>> = vec![Vec::new(); self.segments.len()];
        if let [only] = &mut asked[..] {
            only.reserve(ranges.len());
        }
        for (question, &(file, offset, length)) in ranges.iter().enumerate() {
            let end = offset.saturating_add(length);
            for part in self.index.parts(file) {
                let to = end.min(part.first_byte + part.bytes);
                let mut from = offset.max(part.first_byte);
                while from < to {
                    let length = piece.min(to - from);
                    let extract = Extract {
                        file: part.file,
                        offset: from - part.first_byte,
                        length,
                    };
                    asked[part.segment as usize].push((question, from, extract));
                    from += length;
                }
            }
        }
        for asked in &mut asked {
            asked.par_sort_unstable_by_key(|&(question, from, extract)| {
                (extract.file, question, from)
            });
        }
        let found = self.each(
            task,
            run,
            |index| !asked[index].is_empty(),
            |_| Ok(None),
            |index, device| {
                let mut found = Vec::with_capacity(asked[index].len());
                let mut rest = &asked[index][..];
                while !rest.is_empty() {
                    let mut bytes = 0u64;
                    let fits = |(_, _, extract): &&(usize, u64, Extract)| {
                        bytes += extract.length;
                        bytes <= piece
                    };
                    let count = rest.iter().take_while(fits).count().max(1);
                    let (now, later) = rest.split_at(count);
                    let queries: Vec<Extract> =
                        now.iter().map(|&(_, _, extract)| extract).collect();
                    let extracts = self.segment_at(index).extract_on(device, &queries)?;
                    let places = now.iter().map(|&(question, from, _)| (question, from));
                    found.extend(places.zip(extracts));
                    rest = later;
                }
                Ok(Some(found))
            },
        )?;
        let Some(found) = found.into_iter().collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let found = found.into_iter().flatten().collect();
        Ok(Some(Found::new(ranges.len(), found)))
    }

    /// Whether devices answer so many look-ups at once.
    pub(crate) fn takes_lookups(&self, count: u64) -> bool {
        self.is_all_on_devices(Task::Lookups(count))
    }

    /// Whether devices do some work for all segments, of which there are some.
    fn is_all_on_devices(&self, task: Task) -> bool {
        let places = self.places(task);
        !places.is_empty() && places.iter().all(Option::is_some)
    }
}

impl SegmentView {
    /// The grammar that a kind of structure is made of.
    fn grammar_of(&self, kind: Kind) -> Result<GrammarView<'_>> {
        match kind {
            Kind::Words => Ok(self.word_grammar()?.view()),
            Kind::Lookups => self.view(),
        }
    }
}

impl LiveSegment {
    /// What is estimated with.
    fn estimates(&self) -> Size {
        let (symbols, tokens) = self.size();
        // File tables are read when a corpus is opened; a damaged one is an error of that.
        let files = self.files().unwrap_or_default();
        Size {
            symbols,
            tokens,
            words: files.iter().map(|file| file.words).sum(),
            files: files.len() as u64,
        }
    }

    fn cpu_cost(&self, task: Task, threads: usize) -> f64 {
        match task {
            _ if self.has_answer(task) => 0.0,
            Task::Ngrams | Task::NgramFiles => match self.ngram_structure() {
                Some(NgramStructure::Suffixes) => task.suffixes_cost(self.estimates(), threads),
                Some(NgramStructure::Table) => task.table_cost(self.estimates(), threads),
                None => task.cpu_cost(self.estimates(), threads),
            },
            _ => task.cpu_cost(self.estimates(), threads),
        }
    }

    fn device_cost(&self, task: Task, device: &Device) -> f64 {
        let is_resident = device.holds(self.residence(), task.kind());
        task.device_cost(self.estimates(), is_resident)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use zipfdb_kernels::FileOrder;
    use zipfdb_kernels::gpu::{self, Extract, GpuError, WordQuery};

    use super::super::device_parts::in_batches;
    use super::super::merge::rows;
    use super::super::ngram_packing::{NgramCountPart, NgramFilePart};
    use crate::answer::cost::Task;
    use crate::runtime::device::{Kind, Log, OnDevice, Run};
    use crate::segment::SegmentView;
    use crate::{CopyOptions, Corpus, Database, Error};

    /// A corpus of some segments, and whether there are devices.
    fn pets() -> Option<Database> {
        gpu::emulate(2);
        gpu::devices().ok()?;
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            let text = format!("the {name} cat and the dog ").repeat(3000);
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let database = Database::in_memory().unwrap();
        let create = "SET device = 'cpu'; CREATE CORPUS pets WITH (segment_size = '64KiB')";
        database.execute(create).unwrap();
        let corpus = database.corpus("pets").unwrap();
        corpus
            .copy_from(folder.path(), &CopyOptions::default())
            .unwrap();
        database.execute("SET device = 'auto'").unwrap();
        Some(database)
    }

    #[test]
    fn the_cpu_answers_for_a_device_that_fails_unless_that_was_asked_for() {
        let Some(database) = pets() else { return };
        let snapshot = database.corpus("pets").unwrap().snapshot().unwrap();
        let (stored, never, log) = (
            snapshot.view().stored(),
            Arc::new(AtomicBool::new(false)),
            Log::default(),
        );
        // So much work that any device is cheaper.
        let task = Task::Lookups(1 << 40);
        let ask = || {
            let fails = |_: usize, _: &OnDevice<'_>| {
                Err(Error::Gpu(GpuError::Limit {
                    what: "tests",
                    items: 2,
                    limit: 1,
                }))
            };
            stored.each(task, log.until(&never), |_| true, |_| Ok("cpu"), fails)
        };
        let segments = stored.segments().len();
        assert!(segments > 2);
        assert_eq!(ask().unwrap(), vec!["cpu"; segments]);
        let devices = &database.inner().shared().runtime.devices;
        let failures: u64 = devices.all().iter().map(|device| device.failures()).sum();
        assert_eq!(failures, segments as u64);
        assert!(log.line().unwrap().starts_with("ran on: cpu"));
        database.execute("SET device = 'cuda'").unwrap();
        assert!(matches!(ask(), Err(Error::Gpu(_))));
        database.execute("SET device = 'cpu'").unwrap();
        assert_eq!(ask().unwrap(), vec!["cpu"; segments]);
    }

    #[test]
    fn work_on_a_device_ends_when_it_is_stopped() {
        let Some(database) = pets() else { return };
        database.execute("SET device = 'cuda:0'").unwrap();
        let snapshot = database.corpus("pets").unwrap().snapshot().unwrap();
        let stored = snapshot.view().stored();
        let stop = Arc::new(AtomicBool::new(false));
        let begun = AtomicUsize::new(0);
        let on_device = |index: usize, device: &OnDevice<'_>| {
            // Work goes well until somebody stops it.
            stored.segment_at(index).totals_on(device).unwrap();
            begun.fetch_add(1, Ordering::Relaxed);
            stop.store(true, Ordering::Relaxed);
            stored.segment_at(index).ngrams_on(device, &2.into())
        };
        let task = Task::Lookups(1 << 40);
        let answer = stored.each(
            task,
            Run::until(&stop),
            |_| true,
            |_| Ok(Vec::new()),
            on_device,
        );
        assert!(matches!(answer, Err(Error::Interrupted)));
        assert_eq!(begun.into_inner(), 1);
        // The CPU does not go on instead.
        assert_eq!(
            database.inner().shared().runtime.devices.all()[0].failures(),
            0
        );
        assert_eq!(snapshot.ngram_counts(2).unwrap().len(), 10);
    }

    #[test]
    fn segments_are_shared_out_and_stay_where_they_are() {
        let Some(database) = pets() else { return };
        database.execute("SET device = 'cuda'").unwrap();
        let snapshot = database.corpus("pets").unwrap().snapshot().unwrap();
        let devices = database.inner().shared().runtime.devices.all();
        snapshot.ngram_counts(2).unwrap();
        let held = |device: usize| devices[device].segments();
        let all: u64 = (0..devices.len()).map(held).sum();
        assert_eq!(all, snapshot.view().segments().len() as u64);
        let used = (0..devices.len()).filter(|&device| held(device) > 0);
        assert_eq!(used.count() as u64, all.min(devices.len() as u64));
        let stored = snapshot.view().stored();
        let places = stored.places(Task::Ngrams);
        for (place, segment) in places.iter().zip(stored.segments()) {
            assert!(place.unwrap().holds(segment.residence(), Kind::Words));
        }
    }

    #[test]
    fn what_was_used_least_recently_makes_room() {
        let Some(database) = pets() else { return };
        database.execute("SET device = 'cuda:0'").unwrap();
        let snapshot = database.corpus("pets").unwrap().snapshot().unwrap();
        let device = &database.inner().shared().runtime.devices.all()[0];
        let segments = snapshot.view().segments();
        let never = Arc::default();
        let use_segment = |index: usize| {
            SegmentView::of(&segments[index])
                .totals_on(&device.until(&never))
                .unwrap()
        };
        (0..segments.len()).for_each(|index| drop(use_segment(index)));
        use_segment(0);
        let used = device.memory_used();
        // A byte less than all of them: one must go, and it is not the one that was used last.
        device.limit_memory(Some(used - 1));
        let holds = |index: usize| device.holds(segments[index].residence(), Kind::Words);
        assert!(holds(0) && !holds(1) && holds(2), "{used}");
    }

    /// A corpus of files of so many words each, hardly a pair of which repeats, so that most is in the roots.
    fn random_words(database: &Database, name: &str, files: &[usize]) -> Corpus {
        let folder = tempfile::tempdir().unwrap();
        let mut state = 3u64;
        for (file, &words) in files.iter().enumerate() {
            let text = (0..words).map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                format!("w{}", (state >> 33) % 400)
            });
            let text = text.collect::<Vec<_>>().join(" ");
            std::fs::write(folder.path().join(format!("{file:03}")), text).unwrap();
        }
        let create = format!("SET device = 'cpu'; CREATE CORPUS {name}");
        database.execute(&create).unwrap();
        let corpus = database.corpus(name).unwrap();
        corpus
            .copy_from(folder.path(), &CopyOptions::default())
            .unwrap();
        corpus
    }

    /// Asks a corpus of one segment for everything, with all memory and with a share of what that takes.
    fn check_parts(database: &Database, corpus: &Corpus, share: (u64, u64)) {
        let words = ["w1", "w22", "w333", "w44", "w155", "none"];
        database.execute("SET device = 'cuda:0'").unwrap();
        let snapshot = corpus.snapshot().unwrap();
        let segment = &snapshot.view().stored().segment_at(0);
        let files = 0..segment.files().unwrap().len() as u32;
        let tokens = words.map(|word| segment.find_word(word.as_bytes()).unwrap());
        let queries = files.clone().flat_map(|file| {
            let tokens = tokens.into_iter().filter(|word| word.first < word.end);
            tokens.map(move |word| WordQuery { word, file })
        });
        let queries: Vec<WordQuery> = queries.cycle().take(1200).collect();
        let mut sorted = queries.clone();
        sorted.sort_by_key(|query| query.file);
        let ranges = files.flat_map(|file| {
            [
                (0, 300),
                (u64::from(file), 7),
                (150, u64::MAX),
                (9000, 9000),
            ]
            .map(|range| Extract {
                file,
                offset: range.0,
                length: range.1,
            })
        });
        let ranges: Vec<Extract> = ranges.collect();
        let device = &database.inner().shared().runtime.devices.all()[0];
        let by_count = FileOrder::Count;
        type Ask<'a> = Box<dyn Fn(&OnDevice<'_>) -> crate::Result<String> + 'a>;
        let asks: [Ask<'_>; 9] = [
            Box::new(|on| Ok(format!("{:?}", segment.totals_on(on)?))),
            Box::new(|on| Ok(format!("{:?}", segment.word_files_on(on)?))),
            Box::new(|on| Ok(format!("{:?}", segment.file_words_on(on)?))),
            Box::new(|on| Ok(format!("{:?}", joined(segment.ngrams_on(on, &3.into())?)))),
            Box::new(|on| Ok(format!("{:?}", joined(segment.ngrams_on(on, &8.into())?)))),
            Box::new(|on| {
                let parts = segment.ngram_files_on(on, &2.into(), by_count)?.into_iter();
                let parts = parts.map(NgramFilePart::into_plain);
                let rows = parts.map(|part| (part.words, rows(&part.files.into_table())));
                let (words, rows): (Vec<_>, Vec<_>) = rows.unzip();
                Ok(format!("{:?} {:?}", words.concat(), rows.concat()))
            }),
            Box::new(|on| Ok(format!("{:?}", segment.count_on(on, &sorted)?))),
            Box::new(|on| Ok(format!("{:?}", segment.search_on(on, &sorted)?))),
            Box::new(|on| Ok(format!("{:?}", segment.extract_on(on, &ranges)?))),
        ];
        let never = Arc::default();
        for (number, ask) in asks.iter().enumerate() {
            device.limit_memory(Some(0));
            device.limit_memory(None);
            device.take_memory_used_max();
            let whole = ask(&device.until(&never)).unwrap();
            let used = device.take_memory_used_max();
            let limit = used * share.0 / share.1;
            device.limit_memory(Some(0));
            device.limit_memory(Some(limit));
            device.take_memory_used_max();
            let found = ask(&device.until(&never)).unwrap();
            assert_eq!(found, whole, "{number} in {limit} of {used}");
            assert!(device.take_memory_used_max() <= limit);
        }
        // Not even the rules fit.
        device.limit_memory(Some(0));
        device.limit_memory(Some(2000));
        let error = asks[0](&device.until(&never)).unwrap_err().to_string();
        let needed = "bytes of memory are needed at least";
        assert!(error.contains(needed), "{error}");
        device.limit_memory(None);
    }

    #[test]
    fn what_does_not_fit_is_done_in_parts() {
        let Some(database) = pets() else { return };
        let many = random_words(&database, "many", &[100; 70]);
        check_parts(&database, &many, (3, 4));
    }

    #[test]
    fn a_file_that_does_not_fit_is_done_in_parts() {
        let Some(database) = pets() else { return };
        let one = random_words(&database, "one", &[2000]);
        check_parts(&database, &one, (2, 3));
        let few = random_words(&database, "few", &[10, 900, 0, 200]);
        check_parts(&database, &few, (3, 4));
    }

    fn joined(parts: Vec<NgramCountPart>) -> (Vec<u32>, Vec<u32>) {
        let parts = parts.into_iter().map(NgramCountPart::into_plain);
        let parts = parts.map(|part| (part.words, part.counts));
        let (words, counts): (Vec<_>, Vec<_>) = parts.unzip();
        (words.concat(), counts.concat())
    }

    #[test]
    fn batches_are_halved_until_they_fit() {
        let questions: Vec<u32> = (0..100).collect();
        let asked = std::cell::RefCell::new(Vec::new());
        let memory = |bytes| {
            Err(Error::Gpu(GpuError::Memory {
                device: "test".into(),
                bytes,
                needed: bytes,
                limit: 0,
            }))
        };
        let ask = |batch: &[u32]| {
            asked.borrow_mut().push(batch.len());
            match batch.len() {
                0..=30 => Ok(batch.to_vec()),
                len => memory(len as u64),
            }
        };
        let mut answers = Vec::new();
        in_batches(&questions, 1, &mut answers, ask).unwrap();
        assert_eq!(answers, questions);
        assert_eq!(*asked.borrow(), [100, 50, 25, 25, 25, 25]);
        let mut answers = Vec::new();
        let found = in_batches(&questions, 40, &mut answers, ask);
        assert!(matches!(found, Err(Error::Gpu(_))) && answers.is_empty());
    }

    #[test]
    fn grammars_are_built_on_devices() {
        let Some(database) = pets() else { return };
        let device = &database.inner().shared().runtime.devices.all()[0];
        assert_eq!(device.take_memory_used_max(), 0);
        database.execute("SET device = 'cuda'").unwrap();
        database.execute("RECOMPRESS pets").unwrap();
        database
            .execute("INSERT INTO pets (file, content) VALUES ('d', 'a new cat')")
            .unwrap();
        database.execute("RECOMPRESS pets").unwrap();
        assert!(device.take_memory_used_max() > 0);
        assert_eq!(device.segments(), 0);
    }
}
