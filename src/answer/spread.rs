//! Partitions shared out among devices and the CPU: where each is answered, what that is estimated to take, and the work itself.
//!
//! Invariant: a device gives what the CPU gives, checked against the file table in the same way. With `device = 'auto'` a
//! failure of a device is counted and the CPU answers; else it is the error.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use rayon::prelude::*;
use zipfdb_kernels::GrammarView;

use super::cost::{
    BATCH_LOOKUP_COST, DEVICE_BUILD_COST, DEVICE_LIST_LOOKUP_COST, DEVICE_LISTS_COST,
    DEVICE_LOOKUP_COST, DEVICE_START_COST, DEVICE_WORDS_COST, Size,
};
use super::path::{CPU, PartitionOperation, PathName, Run, about, answer, choose};
use super::stored_view::StoredView;
use crate::runtime::device::{Bringing, Candidates, Device, Kind, OnDevice, Residence};
use crate::runtime::interrupt;
use crate::segment::{SegmentView, StructureKind};
use crate::{Error, Result};

/// An operation that devices do too.
pub(crate) trait DeviceOperation: PartitionOperation {
    /// Nanoseconds that a device works on a partition once it has the words of that; infinite if the CPU makes the answer
    /// anyway.
    fn device_work(size: Size) -> f64;

    /// As a path of the CPU.
    fn run_on(
        question: &Self::Question<'_>,
        segment: &SegmentView,
        device: &OnDevice<'_>,
    ) -> Result<Self::Answer>;
}

/// Where and how one partition is answered.
struct Choice<'a> {
    path: PathName,
    /// Nanoseconds for what has to be decoded and built first, wherever it is answered.
    missing: f64,
    /// Nanoseconds for the rest on the CPU.
    work: f64,
    /// The device that takes it instead, and what the rest is estimated to take there.
    device: Option<(&'a Device, f64)>,
}

/// Where and how all partitions are answered.
pub(crate) struct SpreadPlan<'a> {
    choices: Vec<Choice<'a>>,
    /// What a device would take for all, if devices were looked at and none takes a partition.
    refused: Option<(&'a Device, f64)>,
    /// Whether a device was demanded, and takes a partition.
    is_demanded: bool,
    /// Nanoseconds for what is found.
    more: f64,
}

impl<'a> SpreadPlan<'a> {
    /// The same with so many nanoseconds more.
    pub(crate) fn plus(mut self, cost: f64) -> SpreadPlan<'a> {
        self.more += cost;
        self
    }

    /// For each partition the device that answers, and the estimate.
    pub(super) fn places(&self) -> (Vec<Option<&'a Device>>, Vec<f64>) {
        let choices = self.choices.iter();
        choices
            .map(|choice| (choice.device.map(|(device, _)| device), choice.cost()))
            .unzip()
    }

    /// Whether `SET device` demands this plan: it names a device, which takes a partition.
    pub(crate) fn is_demanded(&self) -> bool {
        self.is_demanded
    }

    /// What all partitions together are estimated to take, one after the other, in nanoseconds.
    pub(crate) fn cost(&self) -> f64 {
        self.choices.iter().map(Choice::cost).sum::<f64>() + self.more
    }

    /// The paths, and if there are several, in how many partitions each.
    pub(crate) fn paths(&self) -> Cow<'static, str> {
        if let Some(first) = self.choices.first()
            && self.is_all_by(first.path)
        {
            return Cow::Borrowed(first.path.name());
        }
        let mut paths: BTreeMap<PathName, usize> = BTreeMap::new();
        for choice in &self.choices {
            *paths.entry(choice.path).or_default() += 1;
        }
        let all = self.choices.len();
        let paths = paths.iter();
        let paths =
            paths.map(|(path, count)| format!("{} in {count} of {all} segments", path.name()));
        Cow::Owned(paths.collect::<Vec<String>>().join(", "))
    }

    /// Whether there are partitions, and all are answered by one path.
    pub(crate) fn is_all_by(&self, path: PathName) -> bool {
        !self.choices.is_empty() && self.choices.iter().all(|choice| choice.path == path)
    }

    /// Where, as EXPLAIN shows it.
    pub(crate) fn device_line(&self) -> Cow<'static, str> {
        let is_on_cpu = self.choices.iter().all(|choice| choice.device.is_none());
        if is_on_cpu && self.refused.is_none() {
            return Cow::Borrowed("device: cpu");
        }
        let on_cpu: f64 = self.choices.iter().map(Choice::cpu_cost).sum();
        let devices = self.choices.iter().filter_map(|choice| choice.device);
        let mut names: Vec<&str> = devices.map(|(device, _)| device.name()).collect();
        names.sort_unstable();
        names.dedup();
        if names.is_empty() {
            return match self.refused {
                Some((device, cost)) if cost.is_finite() => {
                    let (here, there) = (about(on_cpu), about(cost));
                    let name = device.name();
                    Cow::Owned(format!("device: {CPU} ({here}); not {name} ({there})"))
                }
                _ => Cow::Borrowed("device: cpu"),
            };
        }
        if self.choices.iter().any(|choice| choice.device.is_none()) {
            names.push(CPU);
        }
        let (names, there, here) = (names.join(", "), about(self.cost()), about(on_cpu));
        Cow::Owned(format!("device: {names} ({there}); not {CPU} ({here})"))
    }
}

impl Choice<'_> {
    fn cost(&self) -> f64 {
        match self.device {
            // The CPU makes what a device has no estimate for.
            Some((_, cost)) if cost.is_finite() => self.missing + cost,
            _ => self.cpu_cost(),
        }
    }

    fn cpu_cost(&self) -> f64 {
        self.missing + self.work
    }
}

/// For each segment the device that answers; none for the CPU.
type Places<'a> = Vec<Option<&'a Device>>;

impl StoredView {
    /// How so many questions to each of some segments, by their places, would be answered on the CPU.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn plan_questions<'q, O: PartitionOperation>(
        &self,
        questions: impl Iterator<Item = (usize, u64, O::Question<'q>)>,
        forced: Option<PathName>,
    ) -> Result<SpreadPlan<'_>> {
        let choices = questions.map(|(index, count, question)| {
            let chosen = choose::<O>(&question, &self.segment_at(index), forced)?;
            Ok(Choice {
                path: chosen.path.name,
                missing: chosen.missing,
                work: chosen.work * count as f64,
                device: None,
            })
        });
        Ok(SpreadPlan {
            choices: choices.collect::<Result<_>>()?,
            refused: None,
            is_demanded: false,
            more: 0.0,
        })
    }

    /// As `plan_questions`, of look-ups, which devices answer where they are demanded.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(super) fn plan_lookups<'q, O: PartitionOperation>(
        &self,
        questions: impl Iterator<Item = (usize, u64, O::Question<'q>)>,
    ) -> Result<SpreadPlan<'_>> {
        if !self.devices().are_demanded() {
            return self.plan_questions::<O>(questions, None);
        }
        let questions: Vec<(usize, u64, O::Question<'q>)> = questions.collect();
        let asked: Vec<usize> = questions.iter().map(|&(index, ..)| index).collect();
        let count = questions.iter().map(|&(_, count, _)| count).sum();
        let mut plan = self.plan_questions::<O>(questions.into_iter(), None)?;
        if let Some(LookupPlaces { places, costs }) = self.lookup_places(count) {
            for (choice, index) in plan.choices.iter_mut().zip(asked) {
                choice.path = PathName::Device;
                choice.missing = self.segment_at(index).missing(&[StructureKind::Grammar]);
                choice.device = places[index].map(|device| (device, costs[index]));
            }
            plan.is_demanded = true;
        }
        Ok(plan)
    }

    /// How an operation would be answered by all segments on the CPU.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn plan_on_cpu<O: PartitionOperation>(
        &self,
        question: &O::Question<'_>,
        forced: Option<PathName>,
    ) -> Result<SpreadPlan<'_>> {
        let all = 0..self.segments.len();
        let questions = all.map(|index| (index, 1, question.clone()));
        self.plan_questions::<O>(questions, forced)
    }

    /// How an operation would be answered: by the cheapest path of each segment, or by devices where they are cheaper.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn plan<O: DeviceOperation>(
        &self,
        question: &O::Question<'_>,
        forced: Option<PathName>,
    ) -> Result<SpreadPlan<'_>> {
        let plan = self.plan_on_cpu::<O>(question, forced)?;
        if forced.is_some_and(|path| path != PathName::Device) {
            return Ok(plan);
        }
        let device_cost = |index: usize, device: &Device| {
            self.device_cost(index, device, Kind::Words, O::device_work)
        };
        Ok(self.placed(plan, Kind::Words, device_cost))
    }

    /// The plan for queries on lists of files, of which the number and the number of their words are given. `question` stands for
    /// one word of one of them.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(super) fn plan_lists<O: PartitionOperation>(
        &self,
        question: &O::Question<'_>,
        (queries, words): (u64, u64),
        forced: Option<PathName>,
    ) -> Result<SpreadPlan<'_>> {
        let all = 0..self.segments.len();
        let questions = all.map(|index| (index, words, question.clone()));
        let mut plan = self.plan_questions::<O>(questions, forced)?;
        let threads = (self.devices().threads() as u64).min(queries).max(1) as f64;
        for choice in &mut plan.choices {
            choice.work /= threads;
        }
        let work = |_| words as f64 * DEVICE_LIST_LOOKUP_COST;
        let needs = &[StructureKind::WordFiles];
        Ok(self.placed_apart(plan, forced, Kind::Lists, needs, work))
    }

    /// How look-ups in all files would be answered, or by devices where they are cheaper. A device needs `needs` of the host until
    /// it has the segment, and then works as long as `work` says.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(super) fn plan_apart<O: PartitionOperation>(
        &self,
        (question, count): (&O::Question<'_>, u64),
        forced: Option<PathName>,
        kind: Kind,
        needs: &[StructureKind],
        work: impl Fn(Size) -> f64,
    ) -> Result<SpreadPlan<'_>> {
        let all = 0..self.segments.len();
        let questions = all.map(|index| (index, count, question.clone()));
        let plan = self.plan_questions::<O>(questions, forced)?;
        Ok(self.placed_apart(plan, forced, kind, needs, work))
    }

    /// As `placed`, where a device needs other structures of the host than the CPU's paths do, and none once it has the segment.
    fn placed_apart<'a>(
        &'a self,
        mut plan: SpreadPlan<'a>,
        forced: Option<PathName>,
        kind: Kind,
        needs: &[StructureKind],
        work: impl Fn(Size) -> f64,
    ) -> SpreadPlan<'a> {
        if forced.is_some_and(|path| path != PathName::Device) || !self.devices().may_take_any() {
            return plan;
        }
        for choice in &mut plan.choices {
            choice.work += choice.missing;
            choice.missing = 0.0;
        }
        let device_cost = |index: usize, device: &Device| {
            let missing = match device.holds(self.segments[index].residence(), kind) {
                true => 0.0,
                false => self.segment_at(index).missing(needs),
            };
            missing + self.device_cost(index, device, kind, &work)
        };
        self.placed(plan, kind, device_cost)
    }

    /// A plan, made again if its work is what devices are looked for and found.
    pub(super) fn planned_with_devices<'a>(
        &self,
        plan: impl Fn() -> Result<SpreadPlan<'a>>,
    ) -> Result<SpreadPlan<'a>> {
        let first = plan()?;
        match self.devices().look_for(first.cost()) {
            true => plan(),
            false => Ok(first),
        }
    }

    /// A plan for the CPU whose partitions go to devices where these are cheaper.
    fn placed<'a>(
        &'a self,
        mut plan: SpreadPlan<'a>,
        kind: Kind,
        device_cost: impl Fn(usize, &Device) -> f64,
    ) -> SpreadPlan<'a> {
        let costs: Vec<f64> = plan.choices.iter().map(|choice| choice.work).collect();
        // An answer that costs nothing is there.
        let is_there = |index: usize| plan.choices[index].cpu_cost() == 0.0;
        let places = self.places(kind, &costs, is_there, &device_cost);
        let is_on_cpu = places.iter().all(Option::is_none);
        let candidates = self.devices().candidates(costs.iter().sum());
        plan.is_demanded = !is_on_cpu && matches!(candidates, Candidates::Only(_));
        if is_on_cpu && let Candidates::Maybe(devices) = candidates {
            let choices = plan.choices.iter().enumerate();
            plan.refused = devices.first().map(|device| {
                let costs =
                    choices.map(|(index, choice)| choice.missing + device_cost(index, device));
                (&***device, costs.sum())
            });
        }
        for (index, (choice, place)) in plan.choices.iter_mut().zip(places).enumerate() {
            choice.device = place.map(|device| (device, device_cost(index, device)));
            if place.is_some() {
                choice.path = PathName::Device;
            }
        }
        plan
    }

    /// What a device takes for a segment, with what it has to be given; the host has made that.
    fn device_cost(
        &self,
        index: usize,
        device: &Device,
        kind: Kind,
        work: impl Fn(Size) -> f64,
    ) -> f64 {
        let segment = &self.segments[index];
        let size = segment.extent();
        let given = match kind {
            _ if device.holds(segment.residence(), kind) => 0.0,
            Kind::Words => DEVICE_WORDS_COST,
            Kind::Lookups => DEVICE_BUILD_COST,
            Kind::Lists => DEVICE_LISTS_COST,
        };
        DEVICE_START_COST + size.symbols as f64 * given + work(size)
    }

    /// Decides which device takes each segment, whose costs on the CPU are given: devices get the largest first, each as much
    /// as the others. What is there stays.
    fn places(
        &self,
        kind: Kind,
        cpu_costs: &[f64],
        is_there: impl Fn(usize) -> bool,
        device_cost: impl Fn(usize, &Device) -> f64,
    ) -> Places<'_> {
        let mut places: Places<'_> = vec![None; self.segments.len()];
        let (devices, is_forced) = match self.devices().candidates(cpu_costs.iter().sum()) {
            Candidates::None => return places,
            Candidates::Maybe(devices) => (devices, false),
            Candidates::Only(devices) => (devices, true),
        };
        let mut order: Vec<usize> = (0..self.segments.len()).collect();
        order.sort_by_key(|&index| Reverse(self.segments[index].size().0));
        let mut loads = vec![0u64; devices.len()];
        for index in order {
            let segment = &self.segments[index];
            if is_there(index) {
                continue;
            }
            // A device that holds the segment keeps it; else the one with the least to do takes it.
            let holds = |&place: &usize| devices[place].holds(segment.residence(), kind);
            let least = || (0..devices.len()).min_by_key(|&place| loads[place]);
            let Some(place) = (0..devices.len()).find(holds).or_else(least) else {
                continue;
            };
            if is_forced || device_cost(index, devices[place]) < cpu_costs[index] {
                loads[place] += segment.size().0;
                places[index] = Some(&**devices[place]);
            }
        }
        places
    }

    /// Which devices answer a batch of `count` look-ups of any kind; none if the CPU answers.
    pub(super) fn lookup_places(&self, count: u64) -> Option<LookupPlaces<'_>> {
        self.lookup_places_at(count, |_| BATCH_LOOKUP_COST)
    }

    /// As `lookup_places`, for look-ups like `question`. The CPU takes less than the general estimate where a table or lists that
    /// answer them are in memory.
    pub(super) fn lookup_places_of<O: PartitionOperation>(
        &self,
        count: u64,
        question: &O::Question<'_>,
    ) -> Option<LookupPlaces<'_>> {
        self.lookup_places_at(count, |index| {
            let chosen = choose::<O>(question, &self.segment_at(index), None);
            // A damaged segment says so when it answers.
            let work = chosen.map_or(f64::INFINITY, |chosen| chosen.work);
            work.min(BATCH_LOOKUP_COST)
        })
    }

    /// As `lookup_places`. `cost_on_cpu` gives the nanoseconds that a thread takes for a look-up in a segment.
    fn lookup_places_at(
        &self,
        count: u64,
        cost_on_cpu: impl Fn(usize) -> f64,
    ) -> Option<LookupPlaces<'_>> {
        if !self.devices().may_take_any() {
            return None;
        }
        let each_cost = count as f64 / self.devices().threads().max(1) as f64;
        let all = 0..self.segments.len();
        let on_cpu: Vec<f64> = all.map(|index| each_cost * cost_on_cpu(index)).collect();
        self.devices().look_for(on_cpu.iter().sum());
        let work = |_| count as f64 * DEVICE_LOOKUP_COST;
        let cost =
            |index: usize, device: &Device| self.device_cost(index, device, Kind::Lookups, work);
        let places = self.places(Kind::Lookups, &on_cpu, |_| false, cost);
        let is_all = !places.is_empty() && places.iter().all(Option::is_some);
        let cost_of = |(index, place): (usize, &Option<&Device>)| {
            place.map_or(on_cpu[index], |device| cost(index, device))
        };
        is_all.then(|| LookupPlaces {
            costs: places.iter().enumerate().map(cost_of).collect(),
            places,
        })
    }

    /// Whether devices answer so many look-ups at once.
    pub(crate) fn takes_lookups(&self, count: u64) -> bool {
        self.lookup_places(count).is_some()
    }

    /// Has each segment answer by its cheapest path, or on its device.
    pub(super) fn each_segment<O: DeviceOperation>(
        &self,
        question: &O::Question<'_>,
        run: Run<'_>,
    ) -> Result<Vec<O::Answer>> {
        let answers = self.each_asked::<O>(question, |_| true, run)?;
        Ok(answers.into_iter().flatten().collect())
    }

    /// Has those segments answer that are asked, by their places.
    pub(super) fn each_asked<O: DeviceOperation>(
        &self,
        question: &O::Question<'_>,
        is_asked: impl Fn(usize) -> bool + Sync,
        run: Run<'_>,
    ) -> Result<Vec<Option<O::Answer>>> {
        let plan = self.planned_with_devices(|| self.plan::<O>(question, run.forced))?;
        let (places, costs) = plan.places();
        self.spread(
            (Kind::Words, &places, &costs),
            run,
            &is_asked,
            |index| match is_asked(index) {
                true => answer::<O>(question, &self.segment_at(index), run).map(Some),
                false => Ok(None),
            },
            |index, device| match is_asked(index) {
                true => O::run_on(question, &self.segment_at(index), device).map(Some),
                false => Ok(None),
            },
        )
    }

    /// Has each segment answered by its place, on its device or on the CPU; devices work side by side. Those that nothing is
    /// asked of have an answer without work.
    pub(super) fn spread<A: Send>(
        &self,
        (kind, places, costs): (Kind, &[Option<&Device>], &[f64]),
        run: Run<'_>,
        is_asked: impl Fn(usize) -> bool + Sync,
        on_cpu: impl Fn(usize) -> Result<A> + Sync,
        on_device: impl Fn(usize, &OnDevice<'_>) -> Result<A> + Sync,
    ) -> Result<Vec<A>> {
        let count = self.segments.len();
        if places.iter().all(Option::is_none) {
            return (0..count).map(on_cpu).collect();
        }
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
                return on_cpu(index);
            };
            self.segments[index].residence().enter(self.devices());
            let work = || on_device(index, &device.until(run.stop));
            match run.on_device(device.name(), costs[index], work) {
                Err(error @ Error::Gpu(_)) if self.devices().falls_back() => {
                    device.count_failure(&error);
                    on_cpu(index)
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
            let view = segment.grammar_of(kind).ok()??;
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
                if let (Some(brought), Ok(Some(view))) = (&brought, segment.grammar_of(kind)) {
                    brought.copy(view);
                }
                brought
            },
        )
    }
}

/// The devices that answer look-ups, one for each segment, and what they take.
pub(super) struct LookupPlaces<'a> {
    places: Places<'a>,
    costs: Vec<f64>,
}

impl LookupPlaces<'_> {
    /// What [`StoredView::spread`] takes.
    pub(super) fn spread(&self) -> (Kind, &[Option<&Device>], &[f64]) {
        (Kind::Lookups, &self.places, &self.costs)
    }
}

/// What the CPU's threads take for so many look-ups of a batch, in nanoseconds.
pub(crate) fn lookups_cost(count: u64, threads: usize) -> f64 {
    count as f64 * BATCH_LOOKUP_COST / threads.max(1) as f64
}

impl SegmentView {
    /// The grammar that a kind of structure is made of; lists are made of none.
    fn grammar_of(&self, kind: Kind) -> Result<Option<GrammarView<'_>>> {
        match kind {
            Kind::Words => Ok(Some(self.word_grammar()?.view())),
            Kind::Lookups => self.view().map(Some),
            Kind::Lists => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::cmp::Reverse;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use zipfdb_kernels::FileOrder;
    use zipfdb_kernels::gpu::{self, Extract, GpuError, WordQuery};

    use super::super::device_parts::in_batches;
    use super::super::frequent_words::FrequentWords;
    use super::super::ngram_packing::{CountAnswer, NgramAnswer, NgramCountPart, NgramFilePart};
    use super::super::ngrams::{
        CountOrder, NgramFileOrder, NgramFileQuestion, NgramOrder, NgramQuestion,
    };
    use super::super::path::{Run, RunLog, answer};
    use super::super::phrase::{PhraseCount, PhrasePositions};
    use super::super::top::Top;
    use super::super::word_counts::WordTotals;
    use super::DeviceOperation;
    use crate::runtime::device::{Kind, OnDevice};
    use crate::segment::SegmentView;
    use crate::{CopyOptions, Corpus, Database, Error};

    /// A corpus of some segments; none if there are no devices.
    fn pets() -> Option<Database> {
        let texts = ["a", "b", "c"].map(|name| {
            let text = format!("the {name} cat and the dog ").repeat(3000);
            (name.to_owned(), text)
        });
        corpus_of("pets", &texts)
    }

    /// A corpus of files with these names and texts, in segments of 64 KiB; none if there are no devices.
    fn corpus_of(name: &str, texts: &[(String, String)]) -> Option<Database> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in texts {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let database = Database::in_memory().unwrap();
        if gpu::devices().is_err() {
            // For this database alone: tests beside it work on the CPU.
            let devices = &database.inner().shared().runtime.devices;
            if !devices.open(&gpu::emulated(2)) {
                println!("skipped: no CUDA device");
                return None;
            }
        }
        let create = format!("CREATE CORPUS {name} WITH (segment_size = '64KiB')");
        database
            .execute(&format!("SET device = 'cpu'; {create}"))
            .unwrap();
        let corpus = database.corpus(name).unwrap();
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
            RunLog::default(),
        );
        let segments = stored.segments().len();
        // So much work that any device is cheaper.
        let ask = || {
            let fails = |_: usize, _: &OnDevice<'_>| {
                Err(Error::Gpu(GpuError::Limit {
                    what: "tests",
                    items: 2,
                    limit: 1,
                }))
            };
            let run = log.until(&never);
            let on_cpu = |index: usize| {
                answer::<WordTotals>(&(), &stored.segment_at(index), run).map(|_| "cpu")
            };
            let (places, costs) = (vec![None; segments], vec![0.0; segments]);
            let taken = stored.lookup_places(1 << 40);
            let places = (taken.as_ref())
                .map_or((Kind::Lookups, &places[..], &costs[..]), |taken| {
                    taken.spread()
                });
            stored.spread(places, run, |_| true, on_cpu, fails)
        };
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
            stored.segment_at(index).ngrams_on(device, &all_ngrams(2))
        };
        let places = stored.lookup_places(1 << 40).unwrap();
        let run = Run::until(&stop);
        let answer = stored.spread(
            places.spread(),
            run,
            |_| true,
            |_| Ok(NgramAnswer::Parts(Vec::new())),
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
    fn single_look_ups_run_on_a_device_that_is_demanded() {
        let Some(database) = pets() else { return };
        let statements = [
            "SELECT COUNT(word) FROM pets WHERE file = 'a' AND word = 'cat'",
            "SELECT file, word, COUNT(*) FROM pets WHERE file IN ('a', 'c') AND word IN ('a', 'the') GROUP BY file, word",
            "SELECT offset FROM pets WHERE file = 'b' AND word = 'dog'",
            "SELECT offset FROM pets WHERE file = 'b' AND word = 'cow'",
            "SELECT substr(content, 3, 40) FROM files('pets') WHERE file = 'c'",
            "SELECT COUNT(*) FROM ngrams('pets', 2) WHERE ngram = 'the cat'",
            "SELECT file, position, offset FROM ngrams('pets', 3) WHERE ngram IN ('a dog and', 'the dog and')",
            "SELECT file, offset FROM ngrams('pets', 1) WHERE ngram = 'cat'",
        ];
        let device = &database.inner().shared().runtime.devices.all()[0];
        let ask = |sql: &str| -> Vec<String> {
            let rows = database.query(sql).unwrap();
            rows.map(|row| format!("{:?}", row.unwrap())).collect()
        };
        for _ in 0..2 {
            for sql in statements {
                database.execute("SET device = 'cpu'").unwrap();
                let mut expected = ask(sql);
                database.execute("SET device = 'cuda:0'").unwrap();
                device.limit_memory(Some(0));
                device.limit_memory(None);
                let mut found = ask(sql);
                // A word that no segment has is not looked for.
                assert_eq!(device.segments() > 0, !sql.contains("cow"), "{sql}");
                expected.sort_unstable();
                found.sort_unstable();
                assert_eq!(found, expected, "{sql}");
                if !sql.contains("content") {
                    let plan = ask(&format!("EXPLAIN {sql}")).concat();
                    assert!(
                        plan.contains("path: device (") && plan.contains(device.name()),
                        "{plan}"
                    );
                }
            }
            let corpus = database.corpus("pets").unwrap();
            let words = ["cat", "the", "none", "b"];
            let search = |setting: &str| {
                database.execute(setting).unwrap();
                corpus.snapshot().unwrap().search_words(&words).unwrap()
            };
            let expected = search("SET device = 'cpu'");
            device.limit_memory(Some(0));
            device.limit_memory(None);
            assert_eq!(search("SET device = 'cuda:0'"), expected);
            assert!(device.segments() > 0);
            corpus
                .insert_many(&[("a", 8, "cat the "), ("b", 4, "dog "), ("c", 5, "x")])
                .unwrap();
        }
        assert_eq!(device.failures(), 0);
    }

    #[test]
    fn rows_of_all_ngrams_leave_a_device_when_they_are_wanted() {
        // One segment with n-grams for some batches.
        let mut state = 7u32;
        let words = (0..9_000).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            format!("w{} ", (state >> 16) % 90)
        });
        let text = ("f".to_owned(), words.collect());
        let Some(database) = corpus_of("one", &[text]) else {
            return;
        };
        let counted = |n: usize, more: &str| {
            format!("SELECT ngram, COUNT(*) AS n FROM ngrams('one', {n}) {more}")
        };
        let statements = [
            counted(3, "GROUP BY ngram ORDER BY n DESC, ngram"),
            counted(2, "GROUP BY ngram ORDER BY n, ngram LIMIT 9 OFFSET 5000"),
            counted(
                2,
                "WHERE ngram LIKE '%w7%' GROUP BY ngram ORDER BY n DESC, ngram",
            ),
            counted(3, "GROUP BY ngram"),
            counted(1, "GROUP BY ngram"),
            counted(3, "WHERE ngram LIKE '%w7%' GROUP BY ngram"),
            format!(
                "SELECT COUNT(*), SUM(n) FROM ({})",
                counted(3, "GROUP BY ngram")
            ),
        ];
        let ask = |sql: &str| -> Vec<String> {
            let rows = database.query(sql).unwrap();
            let mut rows: Vec<String> = rows.map(|row| format!("{:?}", row.unwrap())).collect();
            if !sql.contains("ORDER BY") {
                rows.sort_unstable();
            }
            rows
        };
        for sql in &statements {
            database.execute("SET device = 'cpu'").unwrap();
            let expected = ask(sql);
            database.execute("SET device = 'cuda:0'").unwrap();
            assert_eq!(ask(sql), expected, "{sql}");
        }
        let device = &database.inner().shared().runtime.devices.all()[0];
        let mut rows = database.query(&statements[3]).unwrap();
        rows.next().unwrap().unwrap();
        let with_rows = device.memory_used();
        drop(rows);
        // Threads of the pool let go of what they have copied before they do anything else.
        let corpus = database.corpus("one").unwrap();
        corpus.snapshot().unwrap().pool().broadcast(|_| ());
        assert!(device.memory_used() < with_rows);
        assert_eq!(device.failures(), 0);
    }

    #[test]
    fn batches_of_words_are_looked_up_in_lists_on_devices() {
        // Word k is in every k-th file, and files are long enough for some segments; one of them is in parts.
        let texts: Vec<(String, String)> = (0..90)
            .map(|file| {
                let words = (1..40).filter(|word| file % word == 0);
                let text: String = words.map(|word| format!("w{word} ")).collect();
                let copies = if file == 60 { 1500 } else { 20 + file };
                (format!("f{file:02}"), text.repeat(copies))
            })
            .collect();
        let Some(database) = corpus_of("numbers", &texts) else {
            return;
        };
        let corpus = database.corpus("numbers").unwrap();
        let queries: Vec<Vec<String>> = (0..200usize)
            .map(|query| {
                let words =
                    (0..query % 5).map(|k| 1 + (query * (7 + k) + 3 * k) % (41 - query / 7));
                words.map(|word| format!("w{word}")).collect()
            })
            .collect();
        let devices = database.inner().shared().runtime.devices.all();
        let run_line = |sql: &str| -> String {
            let rows = database.query(&format!("EXPLAIN ANALYZE {sql}")).unwrap();
            rows.map(|row| format!("{:?}", row.unwrap())).collect()
        };
        let mut texts = texts;
        for is_edited in [false, true] {
            if is_edited {
                let edits = [
                    ("f00", 0, "w39 new "),
                    ("f07", 4, "x"),
                    ("f60", 9, " w7 w7 "),
                ];
                corpus.insert_many(&edits).unwrap();
                for (name, at, text) in edits {
                    let file = texts.iter_mut().find(|(file, _)| file == name).unwrap();
                    file.1.insert_str(at as usize, text);
                }
                database
                    .execute("DELETE FROM numbers WHERE file = 'f12'")
                    .unwrap();
                texts.retain(|(file, _)| file != "f12");
            }
            let expected: Vec<Vec<&str>> = (queries.iter())
                .map(|query| {
                    let files = texts.iter().filter(|(_, text)| {
                        let words: Vec<&str> = text.split_whitespace().collect();
                        query.iter().all(|word| words.contains(&&word[..]))
                    });
                    files.map(|(file, _)| &file[..]).collect()
                })
                .collect();
            let snapshot = corpus.snapshot().unwrap();
            database.execute("SET device = 'cpu'").unwrap();
            assert_eq!(snapshot.intersect_many(&queries).unwrap(), expected);
            assert!(
                !run_line("SELECT file FROM files_with('numbers', 'w2', 'w3')").contains("cuda")
            );
            database.execute("SET device = 'cuda'").unwrap();
            assert_eq!(snapshot.intersect_many(&queries).unwrap(), expected);
            let plan = run_line("SELECT file FROM files_with('numbers', 'w2', 'w3')");
            assert!(
                plan.contains("path: device (") && plan.contains("ran on: "),
                "{plan}"
            );
            let ran = plan.split("ran on: ").nth(1).unwrap();
            assert!(
                devices.iter().any(|device| ran.contains(device.name())),
                "{plan}"
            );
        }
        assert!(devices.iter().all(|device| device.failures() == 0));
        let segments = corpus.snapshot().unwrap().view().segments().len() as u64;
        assert!(segments > 2);
        let snapshot = corpus.snapshot().unwrap();
        let plan = snapshot.view().plan_files_of_all(&queries, None).unwrap();
        let (places, _) = plan.places();
        for (place, segment) in places.iter().zip(snapshot.view().stored().segments()) {
            assert!(place.unwrap().holds(segment.residence(), Kind::Lists));
        }
        // With so few files no device is worth a batch.
        database.execute("SET device = 'auto'").unwrap();
        let (places, _) = snapshot
            .view()
            .plan_files_of_all(&queries, None)
            .unwrap()
            .places();
        assert!(places.iter().all(Option::is_none));
    }

    #[test]
    fn lists_that_do_not_fit_are_copied_for_some_queries_at_a_time() {
        let texts: Vec<(String, String)> = (0..300)
            .map(|file| {
                let words = (1..60).filter(|word| file % word < 3);
                let text: String = words.map(|word| format!("w{word} ")).collect();
                (format!("f{file:03}"), text)
            })
            .collect();
        let Some(database) = corpus_of("numbers", &texts) else {
            return;
        };
        let queries: Vec<Vec<String>> = (1..60)
            .map(|word| vec![format!("w{word}"), format!("w{}", word * 7 % 60)])
            .collect();
        let snapshot = database.corpus("numbers").unwrap().snapshot().unwrap();
        let expected = snapshot.intersect_many(&queries).unwrap();
        assert!(expected.iter().filter(|files| !files.is_empty()).count() > 20);
        database.execute("SET device = 'cuda:0'").unwrap();
        let device = &database.inner().shared().runtime.devices.all()[0];
        let mut in_parts = 0;
        for limit in (10..24).map(|bits| 1 << bits) {
            device.limit_memory(Some(0));
            device.limit_memory(Some(limit));
            match snapshot.intersect_many(&queries) {
                Ok(found) => {
                    assert_eq!(found, expected, "{limit}");
                    in_parts += usize::from(device.segments() == 0);
                }
                Err(error) => {
                    assert!(matches!(error, Error::Gpu(GpuError::Memory { .. })));
                    assert_eq!(in_parts, 0, "{limit}");
                }
            }
        }
        assert!(in_parts > 0 && device.segments() > 0);
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
        let plan = stored.plan_ngrams(2, None).unwrap();
        for (choice, segment) in plan.choices.iter().zip(stored.segments()) {
            let (device, _) = choice.device.unwrap();
            assert!(device.holds(segment.residence(), Kind::Words));
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
        type Ask<'a> = Box<dyn Fn(&OnDevice<'_>) -> crate::Result<String> + 'a>;
        let order = CountOrder {
            descending: true,
            ranks: None,
        };
        let by_count_question = NgramQuestion {
            rows: Some(NgramOrder::Count(order)),
            ..all_ngrams(2)
        };
        let words = segment.word_grammar().unwrap().view().terminal_count;
        // Backwards.
        let ranks: Arc<[u32]> = (0..words).rev().collect();
        type FileRows = Vec<(Vec<u32>, Vec<(u32, u32)>)>;
        let with_files = |on: &OnDevice<'_>, rows, top| -> crate::Result<(bool, FileRows)> {
            let question = NgramFileQuestion {
                set: 2.into(),
                order: FileOrder::Count,
                top,
                rows,
                segments: 1,
                memory: usize::MAX,
            };
            let answer = segment.ngram_files_on(on, &question)?;
            let is_kept = matches!(answer, NgramAnswer::OnDevice(_));
            let mut rows = Vec::new();
            for part in answer
                .into_parts()?
                .into_iter()
                .map(NgramFilePart::into_plain)
            {
                let files = (0..part.files.rows()).map(|row| part.files.row(row).to_vec());
                rows.extend(part.words.chunks(2).map(<[u32]>::to_vec).zip(files));
            }
            Ok((is_kept, rows))
        };
        let asks: [Ask<'_>; 16] = [
            Box::new(|on| Ok(format!("{:?}", segment.totals_on(on)?))),
            Box::new(|on| Ok(format!("{:?}", segment.word_files_on(on)?))),
            Box::new(|on| Ok(format!("{:?}", segment.file_words_on(on)?))),
            Box::new(|on| {
                let found = FrequentWords::run_on(&7, segment, on)?;
                assert_eq!(found, segment.file_words_on(on)?.largest(7));
                Ok(format!("{found:?}"))
            }),
            Box::new(|on| {
                Ok(format!(
                    "{:?}",
                    joined(segment.ngrams_on(on, &all_ngrams(3))?)
                ))
            }),
            Box::new(|on| {
                Ok(format!(
                    "{:?}",
                    joined(segment.ngrams_on(on, &all_ngrams(8))?)
                ))
            }),
            Box::new(|on| {
                let top = Top {
                    limit: 9,
                    descending: true,
                    counts: (0, 12),
                };
                let question = NgramQuestion {
                    top: Some(top),
                    ..all_ngrams(2)
                };
                // In parts more are found than are used.
                let (words, counts) = joined(segment.ngrams_on(on, &question)?);
                let mut rows: Vec<_> = words.chunks(2).zip(counts).collect();
                top.retain(&mut rows, |&(_, count)| u64::from(count));
                let all = joined(segment.ngrams_on(on, &all_ngrams(2))?);
                let mut expected: Vec<_> = all.0.chunks(2).zip(all.1).collect();
                top.retain(&mut expected, |&(_, count)| u64::from(count));
                assert_eq!(rows, expected);
                Ok(format!("{rows:?}"))
            }),
            Box::new(|on| {
                let answer = segment.ngrams_on(on, &by_count_question)?;
                let is_in_order = matches!(answer, NgramAnswer::OnDevice(_));
                let (words, counts) = joined(answer);
                let mut rows: Vec<_> = counts
                    .into_iter()
                    .map(Reverse)
                    .zip(words.chunks(2))
                    .collect();
                assert_eq!(rows.is_sorted(), is_in_order);
                // In parts they come in their own order.
                rows.sort_unstable();
                Ok(format!("{rows:?}"))
            }),
            Box::new(|on| Ok(format!("{:?}", with_files(on, None, None)?.1))),
            Box::new(|on| {
                let (is_kept, rows) = with_files(on, Some(NgramFileOrder::Words), None)?;
                assert!(is_kept || rows.is_sorted_by_key(|row| &row.0));
                Ok(format!("{rows:?}"))
            }),
            Box::new(|on| {
                let top = Top::of_all(5, true);
                let counted = |rows: FileRows| {
                    let rows = rows.into_iter().flat_map(|(words, files)| {
                        files.into_iter().map(move |file| (words.clone(), file))
                    });
                    let mut rows: Vec<_> = rows.collect();
                    // In parts more are found than are used.
                    top.retain(&mut rows, |&(_, (_, count))| u64::from(count));
                    rows
                };
                let rows = counted(with_files(on, None, Some(top))?.1);
                assert_eq!(rows, counted(with_files(on, None, None)?.1));
                Ok(format!("{rows:?}"))
            }),
            Box::new(|on| {
                let of_texts = NgramFileOrder::Texts(ranks.clone());
                let (is_kept, mut rows) = with_files(on, Some(of_texts), None)?;
                let of_row = |row: &(Vec<u32>, Vec<(u32, u32)>)| {
                    let words = row.0.iter();
                    words
                        .map(|&word| ranks[word as usize])
                        .collect::<Vec<u32>>()
                };
                assert_eq!(rows.is_sorted_by_key(of_row), is_kept);
                // In parts they come in their own order.
                rows.sort_unstable();
                Ok(format!("{rows:?}"))
            }),
            Box::new(|on| {
                let (words, counts) = joined(segment.ngrams_on(on, &all_ngrams(2))?);
                let ngrams = words.chunks(2).zip(counts).step_by(97);
                let mut all = Vec::new();
                for (words, count) in ngrams {
                    let count = u64::from(count);
                    assert_eq!(PhraseCount::run_on(&words, segment, on)?, count);
                    let places = PhrasePositions::run_on(&words, segment, on)?;
                    assert_eq!(places.len() as u64, count);
                    assert!(places.is_sorted());
                    all.push(places);
                }
                Ok(format!("{all:?}"))
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

    fn all_ngrams(n: usize) -> NgramQuestion {
        NgramQuestion {
            set: n.into(),
            top: None,
            rows: None,
            segments: 1,
            memory: usize::MAX,
        }
    }

    fn joined(answer: CountAnswer) -> (Vec<u32>, Vec<u32>) {
        let parts = answer
            .into_parts()
            .unwrap()
            .into_iter()
            .map(NgramCountPart::into_plain);
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
