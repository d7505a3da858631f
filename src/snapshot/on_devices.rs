//! Segments on GPUs: which device answers for which segment, and what it is asked.
//!
//! Invariant: a device gives what the CPU gives, checked against the file table in the same way. With `device = 'auto'` a
//! failure of a device is counted and the CPU answers; else it is the error.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rayon::prelude::*;
use zipfdb_kernels::gpu::{
    self, DeviceGrammar, DeviceQueries, DeviceStructures, Extract, Gpu, SearchResults, Terminals,
    WordQuery,
};
use zipfdb_kernels::{CountTable, FileOrder, NgramCounts, NgramFiles};

use super::segment_view::SegmentView;
use super::stored_view::{Lookup, StoredView};
use crate::device::{Candidates, Device, Kind, Run};
use crate::strategy::{Size, Task};
use crate::{Error, Result, interrupt};

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
        let costs = self.segments.iter().map(|segment| segment.cpu_cost(task));
        let costs: Vec<f64> = costs.collect();
        let mut places: Places<'_> = vec![None; self.segments.len()];
        let (devices, is_forced) = match self.devices().candidates(costs.iter().sum()) {
            Candidates::None => return places,
            Candidates::Maybe(devices) => (devices, false),
            Candidates::Only(devices) => (devices, true),
        };
        let mut order: Vec<usize> = (0..self.segments.len()).collect();
        order.sort_by_key(|&index| std::cmp::Reverse(self.segments[index].size().0));
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
        let places = self.places(task);
        let time = |cost: f64| format!("about {:.0?}", Duration::from_nanos(cost as u64));
        let on_cpu: f64 = self
            .segments
            .iter()
            .map(|segment| segment.cpu_cost(task))
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
                None => segment.cpu_cost(task),
                // The grammar is what the CPU makes too, so there is no estimate without it.
                Some(device) => match segment.device_cost(task, device) {
                    cost if cost.is_finite() => cost,
                    _ => segment.cpu_cost(task),
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

    /// Has each segment answered; see [`StoredView::each`].
    pub(super) fn each_segment<'a, A: Send>(
        &'a self,
        task: Task,
        run: Run<'_>,
        on_cpu: impl Fn(&'a SegmentView) -> Result<A> + Sync,
        on_device: impl Fn(&'a SegmentView, &Device) -> Result<A> + Sync,
    ) -> Result<Vec<A>> {
        self.each(
            task,
            run,
            |index| on_cpu(&self.segments[index]),
            |index, device| on_device(&self.segments[index], device),
        )
    }

    /// Has each segment answered by its place, on its device or on the CPU; devices work side by side.
    pub(super) fn each<A: Send>(
        &self,
        task: Task,
        run: Run<'_>,
        on_cpu: impl Fn(usize) -> Result<A> + Sync,
        on_device: impl Fn(usize, &Device) -> Result<A> + Sync,
    ) -> Result<Vec<A>> {
        let places = self.places(task);
        let count = self.segments.len();
        if places.iter().all(Option::is_none) {
            return (0..count)
                .map(|index| run.note(CPU, || on_cpu(index)))
                .collect();
        }
        let name = |place: &Option<&Device>| place.map_or(CPU, Device::name).to_owned();
        let mut lanes: Vec<(String, Vec<usize>)> = Vec::new();
        for (index, place) in places.iter().enumerate() {
            let name = name(place);
            match lanes.iter_mut().find(|lane| lane.0 == name) {
                Some(lane) => lane.1.push(index),
                None => lanes.push((name, vec![index])),
            }
        }
        let answer = |index: usize| {
            interrupt::check(run.stop)?;
            let Some(device) = places[index] else {
                return run.note(CPU, || on_cpu(index));
            };
            self.segments[index].residence().enter(self.devices());
            match run.note(device.name(), || on_device(index, device)) {
                Err(error @ Error::Gpu(_)) if self.devices().falls_back() => {
                    device.count_failure(&error);
                    run.note(CPU, || on_cpu(index))
                }
                result => result,
            }
        };
        let answers = lanes.par_iter().map(|(_, lane)| {
            let answers = lane.iter().map(|&index| Ok((index, answer(index)?)));
            answers.collect::<Result<Vec<(usize, A)>>>()
        });
        let answers: Vec<Vec<(usize, A)>> = answers.collect::<Result<_>>()?;
        let mut answers: Vec<(usize, A)> = answers.into_iter().flatten().collect();
        answers.sort_unstable_by_key(|&(index, _)| index);
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
    }
}

/// An answer of a segment to look-ups of a batch.
type Answers<A> = fn(&SegmentView, &Device, &[WordQuery]) -> Result<Vec<A>>;

/// Bytes of extracts that a device makes at a time.
const EXTRACT_BYTES: u64 = 64 << 20;

impl StoredView {
    /// Answers look-ups, sorted by segment, where devices do so for all segments; those of words that a segment does not
    /// have are left out. None if the CPU is to answer.
    pub(super) fn on_devices<'a, A: Send>(
        &self,
        lookups: &'a [Lookup],
        answers: Answers<A>,
    ) -> Result<Option<Vec<(&'a Lookup, A)>>> {
        let task = Task::Lookups(lookups.len() as u64);
        if !self.is_all_on_devices(task) {
            return Ok(None);
        }
        let range = |index: usize| {
            let from = lookups.partition_point(|lookup| (lookup.part.segment as usize) < index);
            let to = lookups.partition_point(|lookup| lookup.part.segment as usize <= index);
            let known = lookups[from..to].iter();
            known
                .filter(|lookup| lookup.word.first < lookup.word.end)
                .collect::<Vec<_>>()
        };
        let never = AtomicBool::new(false);
        let found = self.each(
            task,
            Run::until(&never),
            |_| Ok(None),
            |index, device| {
                let lookups = range(index);
                if lookups.is_empty() {
                    return Ok(Some(Vec::new()));
                }
                let queries = lookups.iter().map(|lookup| WordQuery {
                    word: lookup.word,
                    file: lookup.part.file,
                });
                let found = answers(&self.segments[index], device, &queries.collect::<Vec<_>>())?;
                Ok(Some(lookups.into_iter().zip(found).collect::<Vec<_>>()))
            },
        )?;
        // One that failed has the CPU answer all.
        let found: Option<Vec<_>> = found.into_iter().collect();
        Ok(found.map(|found| found.into_iter().flatten().collect()))
    }

    /// Extracts ranges of these files where devices do so for all segments; none if the CPU is to.
    pub(super) fn extracts_on_devices<F>(
        &self,
        ranges: &[(F, u64, u64)],
        files: &[usize],
    ) -> Result<Option<Vec<Vec<u8>>>> {
        let task = Task::Lookups(ranges.len() as u64);
        if !self.is_all_on_devices(task) {
            return Ok(None);
        }
        // For each segment what it has of each range; parts of a file ascend.
        let mut asked: Vec<Vec<(usize, usize, Extract)>> = vec![Vec::new(); self.segments.len()];
        for (question, (&(_, offset, length), &file)) in ranges.iter().zip(files).enumerate() {
            let end = offset.saturating_add(length);
            for (place, part) in self.index.parts(file).iter().enumerate() {
                let from = offset.max(part.first_byte);
                let to = end.min(part.first_byte + part.bytes);
                if from < to {
                    let extract = Extract {
                        file: part.file,
                        offset: from - part.first_byte,
                        length: to - from,
                    };
                    asked[part.segment as usize].push((question, place, extract));
                }
            }
        }
        let never = AtomicBool::new(false);
        let found = self.each(
            task,
            Run::until(&never),
            |_| Ok(None),
            |index, device| {
                let mut found = Vec::with_capacity(asked[index].len());
                let mut rest = &asked[index][..];
                while !rest.is_empty() {
                    let mut bytes = 0u64;
                    let fits = |(_, _, extract): &&(usize, usize, Extract)| {
                        bytes += extract.length;
                        bytes <= EXTRACT_BYTES
                    };
                    let count = rest.iter().take_while(fits).count().max(1);
                    let (now, later) = rest.split_at(count);
                    let queries: Vec<Extract> =
                        now.iter().map(|&(_, _, extract)| extract).collect();
                    let extracts = self.segments[index].extract_on(device, &queries)?;
                    let places = now.iter().map(|&(question, place, _)| (question, place));
                    found.extend(places.zip(extracts));
                    rest = later;
                }
                Ok(Some(found))
            },
        )?;
        let Some(found) = found.into_iter().collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let mut found: Vec<_> = found.into_iter().flatten().collect();
        found.sort_unstable_by_key(|&(key, _)| key);
        let mut extracts = vec![Vec::new(); ranges.len()];
        for ((question, _), bytes) in found {
            let extract: &mut Vec<u8> = &mut extracts[question];
            match extract.is_empty() {
                true => *extract = bytes,
                false => extract.extend_from_slice(&bytes),
            }
        }
        Ok(Some(extracts))
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

    fn cpu_cost(&self, task: Task) -> f64 {
        match self.has_answer(task) {
            true => 0.0,
            false => task.cpu_cost(self.estimates(), rayon::current_num_threads()),
        }
    }

    fn device_cost(&self, task: Task, device: &Device) -> f64 {
        let is_resident = device.holds(self.residence(), task.kind());
        task.device_cost(self.estimates(), is_resident)
    }

    /// How often each word occurs.
    pub(super) fn totals_on(&self, device: &Device) -> Result<Vec<u32>> {
        let words = self.word_count()? as usize;
        let totals =
            device.with_words(self.residence(), self.word_grammar()?.view(), |gpu, on| {
                let mut totals = vec![0u32; words];
                gpu.download_from(&on.weights, 0, &mut totals)?;
                Ok(totals)
            })?;
        self.check_totals(&totals)?;
        Ok(totals)
    }

    /// A row for each word: its files with counts.
    pub(super) fn word_files_on(&self, device: &Device) -> Result<CountTable> {
        device.with_words(self.residence(), self.word_grammar()?.view(), |gpu, on| {
            let table = gpu::word_file_counts(gpu, &on.grammar, on.uses(gpu)?)?;
            Ok(table.download(gpu)?)
        })
    }

    /// A row for each file: its words with counts.
    pub(super) fn file_words_on(&self, device: &Device) -> Result<CountTable> {
        device.with_words(self.residence(), self.word_grammar()?.view(), |gpu, on| {
            let table = gpu::file_word_counts(gpu, &on.grammar, on.uses(gpu)?)?;
            Ok(table.download(gpu)?)
        })
    }

    /// All n-grams with their counts, in parts.
    pub(super) fn ngrams_on(&self, device: &Device, n: usize) -> Result<Vec<NgramCounts>> {
        device.with_words(self.residence(), self.word_grammar()?.view(), |gpu, on| {
            let memory = window_bytes(gpu);
            let parts = gpu::ngram_counts(gpu, &on.grammar, &on.weights, n, memory)?;
            let parts = parts.iter().map(|part| Ok(part.download(gpu)?));
            parts.collect()
        })
    }

    /// All n-grams with their files, in parts.
    pub(super) fn ngram_files_on(
        &self,
        device: &Device,
        n: usize,
        order: FileOrder,
    ) -> Result<Vec<NgramFiles>> {
        device.with_words(self.residence(), self.word_grammar()?.view(), |gpu, on| {
            let (memory, uses) = (window_bytes(gpu), on.uses(gpu)?);
            let parts =
                gpu::ngram_file_counts(gpu, &on.grammar, &on.weights, uses, n, order, memory)?;
            let parts = parts.iter().map(|part| Ok(part.download(gpu)?));
            parts.collect()
        })
    }

    /// How often each word occurs in its file; none of the words is missing from the segment.
    pub(super) fn count_on(&self, device: &Device, queries: &[WordQuery]) -> Result<Vec<u64>> {
        let build = |gpu: &Gpu| self.structures_on(gpu);
        device.with_lookups(self.residence(), build, |gpu, on| {
            let queries = DeviceQueries::upload(gpu, queries)?;
            Ok(gpu.download(&on.count(gpu, &queries)?)?)
        })
    }

    /// Where each word occurs in its file.
    pub(super) fn search_on(
        &self,
        device: &Device,
        queries: &[WordQuery],
    ) -> Result<Vec<Vec<u64>>> {
        let build = |gpu: &Gpu| self.structures_on(gpu);
        let found = device.with_lookups(self.residence(), build, |gpu, on| {
            let queries = DeviceQueries::upload(gpu, queries)?;
            Ok(SearchResults::download(gpu, &on.search(gpu, &queries)?)?)
        })?;
        Ok((0..queries.len())
            .map(|query| found.get(query).to_vec())
            .collect())
    }

    /// Bytes of files.
    pub(super) fn extract_on(&self, device: &Device, ranges: &[Extract]) -> Result<Vec<Vec<u8>>> {
        let build = |gpu: &Gpu| self.structures_on(gpu);
        let found = device.with_lookups(self.residence(), build, |gpu, on| {
            Ok(on.extract(gpu, ranges)?.download(gpu)?)
        })?;
        Ok((0..ranges.len())
            .map(|range| found.get(range).to_vec())
            .collect())
    }

    /// Builds what look-ups need.
    fn structures_on(&self, gpu: &Gpu) -> Result<DeviceStructures> {
        let view = self.view()?;
        let signatures = self.signatures(view)?;
        let dictionary = self.dictionary()?;
        let mut offsets = Vec::with_capacity(dictionary.len() as usize + 1);
        let mut bytes = Vec::new();
        offsets.push(0);
        for token in dictionary.iter() {
            bytes.extend_from_slice(token);
            offsets.push(bytes.len() as u64);
        }
        if u32::try_from(bytes.len()).is_err() {
            return Err(self.inconsistent("its tokens have 4 GiB or more"));
        }
        let terminals = Terminals {
            offsets: &offsets,
            bytes: &bytes,
            signatures: &signatures.bits[..view.terminal_count as usize],
        };
        let built = DeviceStructures::new(gpu, DeviceGrammar::upload(gpu, view)?, terminals)?;
        let lengths = built
            .file_starts
            .windows(2)
            .map(|range| range[1] - range[0]);
        match lengths.eq(self.files()?.iter().map(|file| file.bytes)) {
            true => Ok(built),
            false => Err(self.inconsistent("a file has not as many bytes as it says")),
        }
    }
}

/// Memory for windows of n-grams: what leaves room for sorting them.
fn window_bytes(gpu: &Gpu) -> usize {
    /// So many that a sort takes them.
    const MOST: u64 = 4 << 30;
    let free = gpu.memory_limit().saturating_sub(gpu.memory_used());
    // At most 2^32 bytes; less where addresses are short.
    usize::try_from((free / 4).min(MOST)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::AtomicBool;

    use zipfdb_kernels::gpu::{self, GpuError};

    use crate::device::{Kind, Log};
    use crate::strategy::Task;
    use crate::{CopyOptions, Database, Error};

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
        let create = "CREATE CORPUS pets WITH (segment_size = '64KiB')";
        database.execute(create).unwrap();
        let corpus = database.corpus("pets").unwrap();
        corpus
            .copy_from(folder.path(), &CopyOptions::default())
            .unwrap();
        Some(database)
    }

    #[test]
    fn the_cpu_answers_for_a_device_that_fails_unless_that_was_asked_for() {
        let Some(database) = pets() else { return };
        let snapshot = database.corpus("pets").unwrap().snapshot().unwrap();
        let (stored, never, log) = (
            snapshot.view().stored(),
            AtomicBool::new(false),
            Log::default(),
        );
        // So much work that any device is cheaper.
        let task = Task::Lookups(1 << 40);
        let ask = || {
            let fails = |_, _: &_| {
                Err(Error::Gpu(GpuError::Limit {
                    what: "tests",
                    items: 2,
                    limit: 1,
                }))
            };
            stored.each(task, log.until(&never), |_| Ok("cpu"), fails)
        };
        let segments = stored.segments().len();
        assert!(segments > 2);
        assert_eq!(ask().unwrap(), vec!["cpu"; segments]);
        let devices = &database.shared().devices;
        let failures: u64 = devices.all().iter().map(|device| device.failures()).sum();
        assert_eq!(failures, segments as u64);
        assert!(log.line().unwrap().starts_with("ran on: cpu"));
        database.execute("SET device = 'cuda'").unwrap();
        assert!(matches!(ask(), Err(Error::Gpu(_))));
        database.execute("SET device = 'cpu'").unwrap();
        assert_eq!(ask().unwrap(), vec!["cpu"; segments]);
    }

    #[test]
    fn segments_are_shared_out_and_stay_where_they_are() {
        let Some(database) = pets() else { return };
        database.execute("SET device = 'cuda'").unwrap();
        let snapshot = database.corpus("pets").unwrap().snapshot().unwrap();
        let devices = database.shared().devices.all();
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
        let device = &database.shared().devices.all()[0];
        let segments = snapshot.view().segments();
        let use_segment = |index: usize| segments[index].totals_on(device).unwrap();
        (0..segments.len()).for_each(|index| drop(use_segment(index)));
        use_segment(0);
        let used = device.memory_used();
        // A byte less than all of them: one must go, and it is not the one that was used last.
        let limit = format!("SET gpu_memory_limit = {}", (used - 1).max(1 << 16));
        database.execute(&limit).unwrap();
        let holds = |index: usize| device.holds(segments[index].residence(), Kind::Words);
        assert!(holds(0) && !holds(1) && holds(2), "{used}");
    }

    #[test]
    fn grammars_are_built_on_devices() {
        let Some(database) = pets() else { return };
        let device = &database.shared().devices.all()[0];
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
