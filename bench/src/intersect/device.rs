//! The tables of queries on a device: Tables 3 and 7 of the paper, and figures 5 and 6 as tables.
//!
//! A time is that of whole batches, from queries on the host to ids on the host; that of kernels alone stands beside it. All
//! answers are compared with those of the CPU, id for id.

use std::rc::Rc;

use rayon::prelude::*;
use zipfdb_bench_kernels::{
    DeviceCodedLists, ListIndex, ListSearch, Profile, SearchMethod, SearchedLists, intersect_plain,
};
use zipfdb_kernels::gpu::{DeviceLists, Gpu, QueryIds, devices};
use zipfdb_kernels::postings::{PostingsList, encode_ids};

use super::{Lists, NATURAL, Suite, median, thread_median};
use crate::Result;
use crate::report::Table;

/// Candidates of a batch, of the paper's tables (section 6.1).
const THRESHOLD: usize = 1 << 20;

/// Candidates of a batch, from small to large (figures 5 and 6).
const THRESHOLDS: [usize; 6] = [1 << 14, 1 << 16, 1 << 17, 1 << 18, 1 << 20, 1 << 21];

/// Numbers of words of a query that have a column of their own.
const WORDS: std::ops::RangeInclusive<usize> = 2..=6;

/// Methods of the CPU to compare with; the first is the paper's baseline.
const CPU_METHODS: [SearchMethod; 5] = [
    SearchMethod::SkipList,
    SearchMethod::Galloping,
    SearchMethod::Vectors,
    SearchMethod::Hash16,
    SearchMethod::Hash32,
];

/// Lists of queries, which name them by place.
struct Workload<'a> {
    lists: Vec<&'a [u32]>,
    queries: Vec<Vec<u32>>,
    universe: u32,
}

impl<'a> Workload<'a> {
    fn new(lists: &'a Lists, queries: &[Vec<u32>]) -> Workload<'a> {
        let mut words: Vec<u32> = queries.concat();
        words.sort_unstable();
        words.dedup();
        let place = |word: &u32| words.binary_search(word).expect("a word of a query") as u32;
        let queries = queries
            .iter()
            .map(|query| query.iter().map(place).collect());
        Workload {
            queries: queries.collect(),
            lists: words.iter().map(|&word| lists.list(word)).collect(),
            universe: lists.universe,
        }
    }

    fn ids(&self) -> usize {
        self.lists.iter().map(|list| list.len()).sum()
    }

    /// Candidates of each query.
    fn candidates(&self) -> impl Iterator<Item = usize> {
        self.queries.iter().map(|query| {
            let counts = query.iter().map(|&list| self.lists[list as usize].len());
            counts.min().unwrap_or(0)
        })
    }

    fn batches(&self, threshold: usize) -> usize {
        let (mut batches, mut items) = (0, 0);
        for candidates in self.candidates() {
            items += candidates;
            if items >= threshold {
                (batches, items) = (batches + 1, 0);
            }
        }
        batches + usize::from(items > 0)
    }

    /// Queries a second of a method of the CPU, on one thread and on all, and the answers.
    fn on_cpu(&self, method: SearchMethod, runs: usize) -> (f64, f64, QueryIds) {
        let index = |ids: &&'a [u32]| ListIndex::new(method, ids, self.universe);
        let indices: Vec<ListIndex<'_>> = self.lists.par_iter().map(index).collect();
        let answer = |query: &Vec<u32>| {
            let lists = query.iter().map(|&list| &indices[list as usize]);
            let lists: Vec<&ListIndex<'_>> = lists.collect();
            let mut ids = Vec::new();
            intersect_plain(&lists, &mut ids);
            ids
        };
        let mut answers: Vec<Vec<u32>> = Vec::new();
        let all = median(runs, || {
            answers = self.queries.par_iter().map(answer).collect()
        });
        let one = thread_median(runs, || {
            for query in &self.queries {
                std::hint::black_box(answer(query));
            }
        });
        let mut found = QueryIds {
            offsets: vec![0],
            ids: Vec::new(),
        };
        for ids in answers {
            found.ids.extend(ids);
            found.offsets.push(found.ids.len());
        }
        let count = self.queries.len() as f64;
        (count / one, count / all, found)
    }
}

/// Lists on a device, and a way to search them.
struct DeviceMethod {
    name: String,
    bytes_per_id: f64,
    lists: ListsOnDevice,
}

enum ListsOnDevice {
    Hashed(DeviceLists),
    Searched(Rc<SearchedLists>, ListSearch),
    Coded(DeviceCodedLists),
}

impl DeviceMethod {
    fn run(&self, gpu: &Gpu, queries: &[Vec<u32>], threshold: usize) -> Result<QueryIds> {
        Ok(match &self.lists {
            ListsOnDevice::Hashed(lists) => lists.intersect(gpu, queries, threshold)?,
            ListsOnDevice::Searched(lists, search) => {
                lists.intersect(gpu, queries, *search, threshold)?
            }
            ListsOnDevice::Coded(lists) => lists.intersect(gpu, queries, threshold)?,
        })
    }
}

impl Suite<'_> {
    /// Tables 3 and 7 on a device, by threshold, and by number of words.
    pub(super) fn device(
        &mut self,
        order: &str,
        lists: &Lists,
        queries: &[Vec<u32>],
    ) -> Result<()> {
        let gpu = match devices() {
            Ok(devices) => &devices[0],
            Err(absence) => {
                eprintln!("no device: {absence}");
                return Ok(());
            }
        };
        let work = Workload::new(lists, queries);
        let count = work.queries.len() as f64;
        eprintln!(
            "{}: {} queries of {} lists of {} ids below {}; the shortest of a query has {:.0} on average",
            gpu.facts().model,
            work.queries.len(),
            work.lists.len(),
            work.ids(),
            work.universe,
            work.candidates().sum::<usize>() as f64 / count.max(1.0),
        );
        let (mut skip_list, mut best, mut expected) = (f64::NAN, 0.0f64, None);
        let titles = ["queries/s on 1 thread", "on all threads"];
        let mut table = Table::new(format!("beside a device, {order}"), titles).detail();
        for method in CPU_METHODS {
            let (one, all, found) = work.on_cpu(method, self.runs);
            if method == SearchMethod::SkipList {
                skip_list = one;
            }
            best = best.max(all);
            if *expected.get_or_insert_with(|| found.clone()) != found {
                return Err(format!("{} finds other ids", method.name()).into());
            }
            table.row(method.name(), [one, all]);
        }
        self.tables.push(table);
        let expected = expected.unwrap_or_default();
        let methods = device_methods(gpu, &work)?;
        let titles = [
            "queries/s",
            "ms a batch",
            "kernels, ms a batch",
            "queries/s of kernels",
            "to skip lists on 1 thread",
            "to the CPU's best on all",
            "bytes an id",
        ];
        let mut speeds = Table::new(format!("on a device, {order}"), titles);
        speeds.is_detail = order != NATURAL;
        let titles = THRESHOLDS.map(|threshold| format!("c = {}K", threshold >> 10));
        let title = format!("queries/s by threshold, {order}");
        let mut by_threshold = Table::new(title, titles).detail();
        let titles = WORDS.map(|words| format!("{words} words"));
        let mut by_words = Table::new(format!("queries/s by words, {order}"), titles).detail();
        let of_words: Vec<Vec<Vec<u32>>> = WORDS
            .map(|words| {
                let queries = work.queries.iter().filter(|query| query.len() == words);
                queries.cloned().collect()
            })
            .collect();
        for method in &methods {
            let seconds = |queries: &[Vec<u32>], threshold: usize| -> Result<f64> {
                let mut outcome = Ok(());
                let seconds = median(self.runs, || {
                    if let Err(error) = method.run(gpu, queries, threshold) {
                        outcome = Err(error);
                    }
                });
                outcome?;
                Ok(seconds)
            };
            if method.run(gpu, &work.queries, THRESHOLD)? != expected {
                return Err(format!("{} finds other ids on the device", method.name).into());
            }
            let whole = seconds(&work.queries, THRESHOLD)?;
            let (profiled, profile) = Profile::of(gpu);
            method.run(&profiled, &work.queries, THRESHOLD)?;
            let kernels = profile.take()?;
            let nanoseconds: u64 = kernels.iter().map(|kernel| kernel.nanoseconds).sum();
            let kernels = nanoseconds as f64 / 1e9;
            let batches = work.batches(THRESHOLD).max(1) as f64;
            let numbers = [
                count / whole,
                whole * 1e3 / batches,
                kernels * 1e3 / batches,
                count / kernels,
                count / whole / skip_list,
                count / whole / best,
                method.bytes_per_id,
            ];
            let swept = THRESHOLDS.map(|threshold| seconds(&work.queries, threshold));
            let swept: Vec<f64> = swept.into_iter().collect::<Result<_>>()?;
            let swept = swept.into_iter().map(|seconds| count / seconds);
            let by_count = of_words.iter().map(|queries| {
                let rate = |seconds: f64| queries.len() as f64 / seconds;
                seconds(queries, THRESHOLD).map(rate)
            });
            let by_count = by_count.collect::<Result<Vec<f64>>>()?;
            speeds.row(&*method.name, numbers);
            by_threshold.row(&*method.name, swept);
            by_words.row(&*method.name, by_count);
        }
        self.tables.extend([speeds, by_threshold, by_words]);
        Ok(())
    }
}

/// All methods, each with lists of its own on the device.
fn device_methods(gpu: &Gpu, work: &Workload<'_>) -> Result<Vec<DeviceMethod>> {
    let ids = work.lists.concat();
    let mut offsets = vec![0];
    for list in &work.lists {
        offsets.push(offsets[offsets.len() - 1] + u32::try_from(list.len())?);
    }
    let mut methods = Vec::new();
    let lists = Rc::new(SearchedLists::new(gpu, &offsets, &ids, work.universe)?);
    for search in ListSearch::ALL {
        let name = match search {
            ListSearch::Binary => "BS",
            ListSearch::Interpolation => "IS",
            ListSearch::Line => "LR",
            ListSearch::LocalLines => "local LR",
            ListSearch::MergeFind => "PMF",
        };
        methods.push(DeviceMethod {
            name: name.to_owned(),
            bytes_per_id: lists.bytes(search) as f64 / ids.len() as f64,
            lists: ListsOnDevice::Searched(lists.clone(), search),
        });
    }
    for bucket in [16, 32] {
        let lists = DeviceLists::new(gpu, &offsets, &ids, work.universe, bucket)?;
        methods.push(DeviceMethod {
            name: format!("HS{bucket}"),
            bytes_per_id: lists.bytes() as f64 / ids.len() as f64,
            lists: ListsOnDevice::Hashed(lists),
        });
    }
    for codec in DeviceCodedLists::CODECS {
        let encode = |ids: &&[u32]| {
            let mut bytes = Vec::new();
            encode_ids(codec, ids, work.universe, &mut bytes);
            bytes
        };
        let encoded: Vec<Vec<u8>> = work.lists.par_iter().map(encode).collect();
        let opened = encoded.iter().zip(&work.lists).map(|(bytes, ids)| {
            PostingsList::new(codec, bytes, ids.len(), work.universe).expect("was encoded")
        });
        let lists = DeviceCodedLists::new(gpu, codec, &opened.collect::<Vec<_>>())?;
        methods.push(DeviceMethod {
            name: codec.name().to_owned(),
            bytes_per_id: lists.bytes() as f64 / ids.len() as f64,
            lists: ListsOnDevice::Coded(lists),
        });
    }
    Ok(methods)
}
