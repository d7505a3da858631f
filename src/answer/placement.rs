//! Spreads partitions over devices and the CPU: where each is answered, the estimated cost, and the work itself.
//!
//! Invariant: a device returns what the CPU returns, checked against the file table in the same way. With `device = 'auto'` a
//! failure of a device is counted and the CPU answers; else it is the error.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use rayon::prelude::*;
use zipfdb_kernels::GrammarView;

use super::access_path::{CPU, PartitionOperation, PathName, Run, about, answer, choose};
use super::stored_view::StoredView;
use crate::runtime::device::{Bringing, Candidates, Device, Kind, OnDevice, Residence};
use crate::runtime::interrupt;
use crate::segment::cost::{
    BATCH_LOOKUP_COST, DEVICE_BUILD_COST, DEVICE_LIST_LOOKUP_COST, DEVICE_LISTS_COST,
    DEVICE_LOOKUP_COST, DEVICE_START_COST, DEVICE_WORDS_COST, Size,
};
use crate::segment::{SegmentView, StructureKind};
use crate::{Error, Result};

/// An operation that devices do too.
pub(crate) trait DeviceOperation: PartitionOperation {
    /// The time of a device for a partition once it has its words, in nanoseconds; infinite if the CPU makes the answer in any
    /// case.
    fn device_work(size: Size) -> f64;

    /// Runs the operation on a device; the answer is that of a path of the CPU.
    fn run_on(
        question: &Self::Question<'_>,
        segment: &SegmentView,
        device: &OnDevice<'_>,
    ) -> Result<Self::Answer>;
}

/// The path and device of one partition.
struct Choice<'a> {
    path: PathName,
    /// Nanoseconds of decoding and building, for the CPU or a device.
    missing: f64,
    /// Nanoseconds for the rest on the CPU.
    work: f64,
    /// The device that takes the partition, and the estimated time for the rest there.
    device: Option<(&'a Device, f64)>,
}

/// The paths and devices of all partitions.
pub(crate) struct PlacementPlan<'a> {
    choices: Vec<Choice<'a>>,
    /// The cost of the best device, if devices were compared and none takes a partition.
    refused: Option<(&'a Device, f64)>,
    /// Whether a device was demanded, and takes a partition.
    is_demanded: bool,
    /// Nanoseconds of further work on the answers.
    more: f64,
}

impl<'a> PlacementPlan<'a> {
    /// The same with `cost` more nanoseconds.
    pub(crate) fn plus(mut self, cost: f64) -> PlacementPlan<'a> {
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

    /// The estimated time for all partitions, one after the other, in nanoseconds.
    pub(crate) fn cost(&self) -> f64 {
        self.choices.iter().map(Choice::cost).sum::<f64>() + self.more
    }

    /// The paths, and if there are several, the number of partitions of each.
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

    /// The devices, as in EXPLAIN.
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
            // Without an estimate for the device, the CPU makes the answer.
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
    /// Plans questions to some segments on the CPU, given the places of the segments and the number of questions to each.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn plan_questions<'q, O: PartitionOperation>(
        &self,
        questions: impl Iterator<Item = (usize, u64, O::Question<'q>)>,
        forced: Option<PathName>,
    ) -> Result<PlacementPlan<'_>> {
        let choices = questions.map(|(index, count, question)| {
            let chosen = choose::<O>(&question, &self.segment_at(index), forced)?;
            Ok(Choice {
                path: chosen.path.name,
                missing: chosen.missing,
                work: chosen.work * count as f64,
                device: None,
            })
        });
        Ok(PlacementPlan {
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
    ) -> Result<PlacementPlan<'_>> {
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

    /// Plans an operation on all segments on the CPU.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn plan_on_cpu<O: PartitionOperation>(
        &self,
        question: &O::Question<'_>,
        forced: Option<PathName>,
    ) -> Result<PlacementPlan<'_>> {
        let all = 0..self.segments.len();
        let questions = all.map(|index| (index, 1, question.clone()));
        self.plan_questions::<O>(questions, forced)
    }

    /// Plans an operation: by the cheapest path of each segment, or on devices where they are cheaper.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn plan<O: DeviceOperation>(
        &self,
        question: &O::Question<'_>,
        forced: Option<PathName>,
    ) -> Result<PlacementPlan<'_>> {
        let plan = self.plan_on_cpu::<O>(question, forced)?;
        if forced.is_some_and(|path| path != PathName::Device) {
            return Ok(plan);
        }
        let device_cost = |index: usize, device: &Device| {
            self.device_cost(index, device, Kind::Words, O::device_work)
        };
        Ok(self.placed(plan, Kind::Words, device_cost))
    }

    /// Plans queries on lists of files, given their number and that of their words. `question` stands for one word of one of
    /// them.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(super) fn plan_lists<O: PartitionOperation>(
        &self,
        question: &O::Question<'_>,
        (queries, words): (u64, u64),
        forced: Option<PathName>,
    ) -> Result<PlacementPlan<'_>> {
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

    /// Plans look-ups in all files, on devices where they are cheaper. A device needs `needs` of the host until it has the
    /// segment, and then works as long as `work` says.
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
    ) -> Result<PlacementPlan<'_>> {
        let all = 0..self.segments.len();
        let questions = all.map(|index| (index, count, question.clone()));
        let plan = self.plan_questions::<O>(questions, forced)?;
        Ok(self.placed_apart(plan, forced, kind, needs, work))
    }

    /// As `placed`, where a device needs other structures of the host than the CPU's paths do, and none once it has the segment.
    fn placed_apart<'a>(
        &'a self,
        mut plan: PlacementPlan<'a>,
        forced: Option<PathName>,
        kind: Kind,
        needs: &[StructureKind],
        work: impl Fn(Size) -> f64,
    ) -> PlacementPlan<'a> {
        if forced.is_some_and(|path| path != PathName::Device) || !self.devices().may_take_any() {
            return plan;
        }
        for choice in &mut plan.choices {
            choice.work += choice.missing;
            choice.missing = 0.0;
        }
        let device_cost = |index: usize, device: &Device| {
            let missing = if device.holds(self.segments[index].residence(), kind) {
                0.0
            } else {
                self.segment_at(index).missing(needs)
            };
            missing + self.device_cost(index, device, kind, &work)
        };
        self.placed(plan, kind, device_cost)
    }

    /// A plan, made again if its cost opens devices.
    pub(super) fn planned_with_devices<'a>(
        &self,
        plan: impl Fn() -> Result<PlacementPlan<'a>>,
    ) -> Result<PlacementPlan<'a>> {
        let first = plan()?;
        if self.devices().look_for(first.cost()) {
            plan()
        } else {
            Ok(first)
        }
    }

    /// A plan for the CPU whose partitions go to devices where these are cheaper.
    fn placed<'a>(
        &'a self,
        mut plan: PlacementPlan<'a>,
        kind: Kind,
        device_cost: impl Fn(usize, &Device) -> f64,
    ) -> PlacementPlan<'a> {
        let costs: Vec<f64> = plan.choices.iter().map(|choice| choice.work).collect();
        // An answer without cost is in memory.
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

    /// The cost of a segment on a device, with the copy of its structure; the host has made that.
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

    /// Chooses the device of each segment, given the costs on the CPU: the largest segments first, so that the load of devices is
    /// balanced. Segments stay on devices that hold them.
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
            // A device that holds the segment keeps it; else the one with the least load takes it.
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

    /// The devices that answer a batch of `count` look-ups of any kind; none if the CPU answers.
    pub(super) fn lookup_places(&self, count: u64) -> Option<LookupPlaces<'_>> {
        self.lookup_places_at(count, |_| BATCH_LOOKUP_COST)
    }

    /// As `lookup_places`, for look-ups like `question`. The CPU takes less than the general estimate where a table or lists in
    /// memory answer them.
    pub(super) fn lookup_places_of<O: PartitionOperation>(
        &self,
        count: u64,
        question: &O::Question<'_>,
    ) -> Option<LookupPlaces<'_>> {
        self.lookup_places_at(count, |index| {
            let chosen = choose::<O>(question, &self.segment_at(index), None);
            // A damaged segment is reported when it answers.
            let work = chosen.map_or(f64::INFINITY, |chosen| chosen.work);
            work.min(BATCH_LOOKUP_COST)
        })
    }

    /// As `lookup_places`. `cost_on_cpu` returns the time of a look-up in a segment on one thread, in nanoseconds.
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

    /// Whether devices answer a batch of `count` look-ups.
    pub(crate) fn takes_lookups(&self, count: u64) -> bool {
        self.lookup_places(count).is_some()
    }

    /// The answer of each segment by its cheapest path, or on its device.
    pub(super) fn each_segment<O: DeviceOperation>(
        &self,
        question: &O::Question<'_>,
        run: Run<'_>,
    ) -> Result<Vec<O::Answer>> {
        let answers = self.each_asked::<O>(question, |_| true, run)?;
        Ok(answers.into_iter().flatten().collect())
    }

    /// The answers of the asked segments, by their places.
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
            |index| {
                if is_asked(index) {
                    answer::<O>(question, &self.segment_at(index), run).map(Some)
                } else {
                    Ok(None)
                }
            },
            |index, device| {
                if is_asked(index) {
                    O::run_on(question, &self.segment_at(index), device).map(Some)
                } else {
                    Ok(None)
                }
            },
        )
    }

    /// Runs each segment's work by its place, on its device or on the CPU; devices work side by side. Segments that are not asked
    /// have an answer without work.
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
            // Segments on the device come first, before they may be evicted for others.
            let holds = |index: usize| device.holds(self.segments[index].residence(), kind);
            lane.sort_by_key(|&index| (is_asked(index), !holds(index)));
            let mut answers = Vec::with_capacity(lane.len());
            // A prefetched grammar is held until it was used.
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

    /// Answers the first of some segments on a device, and prefetches the grammar of the second meanwhile.
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
            // A damaged segment is reported when its turn comes.
            let view = segment.grammar_of(kind).ok()??;
            let on_device = device.until(run.stop);
            on_device.bring(segment.residence(), kind, view, &stay)
        };
        // A grammar in memory is copied before the device begins; another one is made meanwhile.
        let brought = if segment.has_grammar_of(kind) {
            bring()
        } else {
            None
        };
        rayon::join(
            || answer(lane[0]),
            || {
                let brought = if segment.has_grammar_of(kind) {
                    brought
                } else {
                    bring()
                };
                if let (Some(brought), Ok(Some(view))) = (&brought, segment.grammar_of(kind)) {
                    brought.copy(view);
                }
                brought
            },
        )
    }
}

/// The devices that answer look-ups, one for each segment, and their costs.
pub(super) struct LookupPlaces<'a> {
    places: Places<'a>,
    costs: Vec<f64>,
}

impl LookupPlaces<'_> {
    /// The arguments for [`StoredView::spread`].
    pub(super) fn spread(&self) -> (Kind, &[Option<&Device>], &[f64]) {
        (Kind::Lookups, &self.places, &self.costs)
    }
}

/// The time of `count` look-ups of a batch on the CPU's threads, in nanoseconds.
pub(crate) fn lookups_cost(count: u64, threads: usize) -> f64 {
    count as f64 * BATCH_LOOKUP_COST / threads.max(1) as f64
}

impl SegmentView {
    /// The grammar that a kind of structure is made of; none for lists.
    fn grammar_of(&self, kind: Kind) -> Result<Option<GrammarView<'_>>> {
        match kind {
            Kind::Words => Ok(Some(self.word_grammar()?.view())),
            Kind::Lookups => self.view().map(Some),
            Kind::Lists => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests;
