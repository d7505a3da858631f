//! Access paths: the ways to answer an operation on a partition, and the one choice among them.
//!
//! Invariant: every path of an operation gives the same answer, so the choice only affects time. An operation lists its paths as
//! [`PartitionOperation::PATHS`]; a listed path is chosen, forced, shown by EXPLAIN and tested like the others. Partitions are
//! segments here; `placement` spreads them over devices.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::segment::cost::{Size, making_cost};
use crate::segment::{LiveSegment, SegmentView, StructureKind};
use crate::{Error, Result};

/// An access path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PathName {
    /// The totals in file tables.
    Totals,
    /// The totals of words in a segment.
    WordTotals,
    /// Some files that are all files.
    AllFiles,
    /// A few blocks of a dictionary and of the counts beside it.
    WordBlocks,
    /// Weights of all symbols, top-down.
    Weights,
    /// The table of words and files, in memory.
    CountTable,
    /// Weights of symbols in files, top-down.
    FileWeights,
    /// Files expanded, and their words counted.
    ByWords,
    /// Tables of words for each rule, bottom-up.
    LocalTables,
    /// Lists of an index on disk.
    Postings,
    /// Places of words in an index on disk.
    OccurrenceIndex,
    /// A suffix array in an index on disk.
    SuffixIndex,
    /// N-grams in an index on disk.
    NgramIndex,
    /// Each of several words by the best path of its own.
    EachWord,
    /// Lists of where each word occurs.
    OccurrenceLists,
    NgramTable,
    SuffixArray,
    /// Each of several phrases by the best path of its own.
    EachPhrase,
    /// From a symbol up to the rules and roots that use it.
    Parents,
    /// All bodies and roots, for n-grams that cross symbols.
    Crossings,
    /// The steps of an automaton over rules, each made once.
    RuleSteps,
    /// The root of one file.
    Decode,
    /// The roots of all files, one after the other; none is kept.
    RootScan,
    /// Down from the root to the bytes.
    Expansions,
    /// Blocks of packed text.
    TextBlocks,
    /// Single chunks of the roots.
    RootChunks,
    /// All packed text, searched for a word.
    TextScan,
    /// All words in order.
    RootStream,
    /// A device.
    Device,
}

impl PathName {
    /// The name in EXPLAIN.
    pub(crate) fn name(self) -> &'static str {
        match self {
            PathName::Totals => "totals",
            PathName::WordTotals => "word_totals",
            PathName::AllFiles => "all_files",
            PathName::WordBlocks => "word_blocks",
            PathName::Weights => "weights",
            PathName::CountTable => "count_table",
            PathName::FileWeights => "file_weights",
            PathName::ByWords => "by_words",
            PathName::LocalTables => "local_tables",
            PathName::Postings => "postings",
            PathName::OccurrenceIndex => "occurrence_index",
            PathName::SuffixIndex => "suffix_index",
            PathName::NgramIndex => "ngram_index",
            PathName::EachWord => "each_word",
            PathName::OccurrenceLists => "occurrence_lists",
            PathName::NgramTable => "ngram_table",
            PathName::SuffixArray => "suffix_array",
            PathName::EachPhrase => "each_phrase",
            PathName::Parents => "parents",
            PathName::Crossings => "crossings",
            PathName::RuleSteps => "rule_steps",
            PathName::Decode => "decode",
            PathName::RootScan => "root_scan",
            PathName::Expansions => "expansions",
            PathName::TextBlocks => "text_blocks",
            PathName::RootChunks => "root_chunks",
            PathName::TextScan => "text_scan",
            PathName::RootStream => "root_stream",
            PathName::Device => "device",
        }
    }
}

/// An operation on one partition.
pub(crate) trait PartitionOperation: Sized + 'static {
    type Question<'a>: Clone + Sync;
    type Answer: Send;

    /// Its paths on the CPU; paths by structures that may be in memory come first.
    const PATHS: &'static [AccessPath<Self>];
}

/// One way to answer an operation on a segment.
pub(crate) struct AccessPath<O: PartitionOperation> {
    pub(crate) name: PathName,
    /// The structures that it needs.
    pub(crate) needs: &'static [StructureKind],
    /// The estimated time with these structures, in nanoseconds; infinite if the path is not due yet, none if the segment does
    /// not have it.
    pub(crate) cost: for<'a> fn(&O::Question<'a>, &SegmentView) -> Option<f64>,
    pub(crate) run: for<'a, 'r> fn(&O::Question<'a>, &SegmentView, Run<'r>) -> Result<O::Answer>,
}

/// A path that takes at most this time, in nanoseconds, is taken at once: estimating the others would take as long.
const INSTANT_COST: f64 = 2_000.0;

/// A path on a segment, with its estimated cost.
pub(crate) struct ChosenPath<O: PartitionOperation> {
    pub(crate) path: &'static AccessPath<O>,
    /// Nanoseconds for the missing structures.
    pub(crate) missing: f64,
    /// Nanoseconds for a question with all structures.
    pub(crate) work: f64,
}

impl<O: PartitionOperation> ChosenPath<O> {
    fn new(
        path: &'static AccessPath<O>,
        question: &O::Question<'_>,
        segment: &SegmentView,
    ) -> Option<ChosenPath<O>> {
        let work = (path.cost)(question, segment)?;
        let missing = segment.missing(path.needs);
        Some(ChosenPath {
            path,
            missing,
            work,
        })
    }

    pub(super) fn cost(&self) -> f64 {
        self.missing + self.work
    }
}

/// The cheapest path on a segment, or the forced one if the operation has it there.
///
/// # Errors
/// If no path can answer, which is a damaged segment.
#[inline]
pub(crate) fn choose<O: PartitionOperation>(
    question: &O::Question<'_>,
    segment: &SegmentView,
    forced: Option<PathName>,
) -> Result<ChosenPath<O>> {
    if let Some(forced) = forced {
        let mut paths = O::PATHS.iter().filter(|path| path.name == forced);
        let found = paths.find_map(|path| ChosenPath::new(path, question, segment));
        if let Some(found) = found {
            return Ok(found);
        }
    }
    let mut best: Option<ChosenPath<O>> = None;
    for path in O::PATHS {
        let Some(chosen) = ChosenPath::new(path, question, segment) else {
            continue;
        };
        let cost = chosen.cost();
        if best.as_ref().is_none_or(|best| cost < best.cost()) {
            best = Some(chosen);
        }
        if cost <= INSTANT_COST {
            break;
        }
    }
    best.ok_or_else(|| segment.inconsistent("no access path answers"))
}

/// The answer of a segment on the CPU by its cheapest path.
///
/// # Errors
/// If the segment is damaged or the run must end.
#[inline]
pub(crate) fn answer<O: PartitionOperation>(
    question: &O::Question<'_>,
    segment: &SegmentView,
    run: Run<'_>,
) -> Result<O::Answer> {
    let chosen = choose::<O>(question, segment, run.forced)?;
    let path = chosen.path;
    let Some(log) = run.log else {
        return (path.run)(question, segment, run);
    };
    let (begin, made) = (Instant::now(), segment.making_time());
    let answer = (path.run)(question, segment, run)?;
    log.add(
        (CPU, path.name),
        RunRecord {
            runs: 1,
            time: begin.elapsed(),
            making: segment.making_time().saturating_sub(made),
            estimate: chosen.cost(),
        },
    );
    Ok(answer)
}

/// The name of the CPU among devices.
pub(crate) const CPU: &str = "cpu";

impl LiveSegment {
    /// The sizes for estimates.
    pub(crate) fn extent(&self) -> Size {
        let (symbols, tokens) = self.size();
        let (words, files) = self.text_size();
        Size {
            symbols,
            tokens,
            words,
            files,
        }
    }

    /// The number of threads that share work on it.
    pub(crate) fn thread_count(&self) -> f64 {
        self.threads.max(1) as f64
    }
}

impl SegmentView {
    /// The time of decoding and building missing structures, in nanoseconds of all threads.
    pub(crate) fn missing(&self, wanted: &[StructureKind]) -> f64 {
        if wanted.iter().all(|&kind| self.is_there(kind)) {
            return 0.0;
        }
        let mut wanted = wanted.to_vec();
        if self.is_packed() {
            // Words of packed text come from all of its tokens, which are its grammar.
            wanted.push(StructureKind::Grammar);
        }
        making_cost(&wanted, self.extent(), |kind| self.is_there(kind)) / self.thread_count()
    }
}

/// The work of one path on a device or the CPU.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunRecord {
    /// The number of partitions that it answered for, or of runs.
    runs: u64,
    time: Duration,
    /// The time of decoding and building.
    making: Duration,
    /// Nanoseconds.
    estimate: f64,
}

/// The work for a question: by device and path.
#[derive(Default)]
pub(crate) struct RunLog(Mutex<RunRecords>);

#[derive(Default)]
struct RunRecords {
    records: BTreeMap<(String, PathName), RunRecord>,
    /// The work for all partitions together.
    preparations: BTreeMap<&'static str, Duration>,
}

impl RunLog {
    /// A run that is recorded, until the flag is set.
    pub(crate) fn until<'a>(&'a self, stop: &'a Arc<AtomicBool>) -> Run<'a> {
        Run {
            log: Some(self),
            ..Run::until(stop)
        }
    }

    fn add(&self, (device, path): (&str, PathName), more: RunRecord) {
        let mut records = self.0.lock();
        let record = (records.records)
            .entry((device.to_owned(), path))
            .or_default();
        record.runs += more.runs;
        record.time += more.time;
        record.making += more.making;
        record.estimate += more.estimate;
    }

    /// The paths that ran.
    #[cfg(test)]
    pub(crate) fn paths(&self) -> Vec<PathName> {
        let records = self.0.lock();
        records.records.keys().map(|&(_, path)| path).collect()
    }

    /// The line of EXPLAIN ANALYZE; none if nothing was recorded.
    pub(crate) fn line(&self) -> Option<String> {
        let records = self.0.lock();
        let runs = records.records.iter().map(|((device, path), record)| {
            let name = match path {
                PathName::Device => device.clone(),
                path => format!("{device} by {}", path.name()),
            };
            let plural = if record.runs == 1 { "" } else { "s" };
            let (runs, time) = (record.runs, record.time);
            let mut line = format!("{name}, {runs} partition{plural} in {time:.1?}");
            if !record.making.is_zero() {
                line.push_str(&format!(
                    ", {:.1?} of it decoding and building",
                    record.making
                ));
            }
            if record.estimate.is_finite() {
                line.push_str(&format!(" (estimated {})", about(record.estimate)));
            }
            line
        });
        let mut parts: Vec<String> = runs.collect();
        if parts.is_empty() {
            return None;
        }
        let preparations = records.preparations.iter();
        parts.extend(preparations.map(|(name, time)| format!("{name} in {time:.1?}")));
        Some(format!("ran on: {}", parts.join("; ")))
    }
}

/// An estimate in nanoseconds, as in EXPLAIN.
pub(crate) fn about(cost: f64) -> String {
    // Estimates are below 500 years.
    format!("about {:.0?}", Duration::from_nanos(cost as u64))
}

/// The conditions of a run: a stop flag, a forced path, and a log of the work.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) stop: &'a Arc<AtomicBool>,
    pub(crate) log: Option<&'a RunLog>,
    /// Taken wherever it can answer, at any cost.
    pub(crate) forced: Option<PathName>,
}

impl<'a> Run<'a> {
    /// A run until the flag is set.
    pub(crate) fn until(stop: &'a Arc<AtomicBool>) -> Run<'a> {
        Run {
            stop,
            log: None,
            forced: None,
        }
    }

    /// The same by the cheapest paths.
    pub(crate) fn unforced(self) -> Run<'a> {
        Run {
            forced: None,
            ..self
        }
    }

    /// A run without a stop flag.
    pub(crate) fn to_the_end() -> Run<'static> {
        static NEVER: OnceLock<Arc<AtomicBool>> = OnceLock::new();
        Run::until(NEVER.get_or_init(Arc::default))
    }

    /// Runs the work of a partition on a device, and records it.
    pub(crate) fn on_device<A>(
        &self,
        device: &str,
        estimate: f64,
        work: impl FnOnce() -> Result<A>,
    ) -> Result<A> {
        let begin = Instant::now();
        let result = work()?;
        if let Some(log) = self.log {
            let record = RunRecord {
                runs: 1,
                time: begin.elapsed(),
                making: Duration::ZERO,
                estimate,
            };
            log.add((device, PathName::Device), record);
        }
        Ok(result)
    }

    /// Makes the structures of all partitions, and records it if it took a while.
    pub(crate) fn preparing<A>(
        &self,
        name: &'static str,
        work: impl FnOnce() -> Result<A>,
    ) -> Result<A> {
        /// Less time means that the structures were in memory.
        const WORTH_TELLING: Duration = Duration::from_micros(10);
        let begin = Instant::now();
        let made = work()?;
        let time = begin.elapsed();
        if let Some(log) = self.log.filter(|_| time >= WORTH_TELLING) {
            *log.0.lock().preparations.entry(name).or_default() += time;
        }
        Ok(made)
    }
}

impl From<zipfdb_kernels::Stopped> for Error {
    fn from(_: zipfdb_kernels::Stopped) -> Error {
        Error::Interrupted
    }
}
