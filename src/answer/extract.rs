//! Extracts: bytes of files, of one range, many at once, or whole.
//!
//! Invariant: bytes are those of the current texts. Each segment extracts by the cheapest of the access paths below; ranges
//! across the border between two parts of a file are joined; inserted pieces stand between stored ones. Devices answer a batch if
//! they take all of it.

use std::io::{self, Write};
use std::ops::Range;
use std::time::Instant;

use rayon::prelude::*;
use zipfdb_kernels::gpu::{DeviceStructures, Extract, ExtractedBytes, Gpu};
use zipfdb_kernels::{expand_file, extract};

use super::access_path::{AccessPath, PartitionOperation, PathName, Run, answer};
use super::batch_results::{Found, FoundPart};
use super::corpus_view::{CorpusView, TASK_QUESTIONS_MIN};
use super::edited_text::{ask_stored, joined};
use super::stored_view::{SegmentViews, StoredView};
use crate::Result;
use crate::overlay::Piece;
use crate::runtime::device::OnDevice;
use crate::runtime::interrupt::check;
use crate::segment::cost::{EXTRACT_COST, TEXT_BLOCK_COST};
use crate::segment::{SegmentView, StructureKind};

/// A range of bytes of a file of a segment, as far as it goes.
pub(crate) struct FileExtract;

/// A range of bytes of a file of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartRange {
    pub(crate) file: u32,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl PartitionOperation for FileExtract {
    type Question<'a> = PartRange;
    type Answer = Vec<u8>;

    const PATHS: &'static [AccessPath<FileExtract>] = &[
        AccessPath {
            name: PathName::Expansions,
            needs: &[StructureKind::Text],
            cost: |_, _| Some(EXTRACT_COST),
            run: |range, segment, _| {
                let begin = Instant::now();
                let bytes = by_expansions(range, segment)?;
                segment.spend_on_chunks(begin);
                Ok(bytes)
            },
        },
        AccessPath {
            name: PathName::RootChunks,
            needs: &[],
            cost: |_, segment| segment.root_chunks_cost(),
            run: |range, segment, run| {
                let PartRange {
                    file,
                    offset,
                    length,
                } = *range;
                segment.extract_from_chunks(file, offset, length, run.stop)
            },
        },
        AccessPath {
            name: PathName::TextBlocks,
            needs: &[],
            cost: |_, segment| segment.is_packed().then_some(TEXT_BLOCK_COST),
            run: |range, segment, _| {
                let packed = segment.extract_packed(range.file, range.offset, range.length)?;
                packed.map_or_else(|| by_expansions(range, segment), Ok)
            },
        },
        AccessPath {
            name: PathName::Decode,
            needs: &[StructureKind::Bodies],
            cost: |range, segment| segment.alone_cost(range.file, StructureKind::Grammar),
            run: |range, segment, _| {
                let PartRange {
                    file,
                    offset,
                    length,
                } = *range;
                let begin = Instant::now();
                let alone = segment.ask_alone(file, StructureKind::Grammar, |alone| {
                    alone.extract(offset, length)
                })?;
                segment.spend_on_chunks(begin);
                alone.map_or_else(|| by_expansions(range, segment), Ok)
            },
        },
    ];
}

fn by_expansions(range: &PartRange, segment: &SegmentView) -> Result<Vec<u8>> {
    Ok(extract(
        segment.content()?,
        range.file,
        range.offset,
        range.length,
    ))
}

impl SegmentView {
    /// Writes a file; the inner error is the target's.
    fn write_content(&self, file: u32, target: &mut dyn Write) -> Result<io::Result<()>> {
        if let Some(written) = self.write_packed(file, target)? {
            return Ok(written);
        }
        if let Some(bytes) = self.ask_alone(file, StructureKind::Grammar, |alone| {
            alone.extract(0, u64::MAX)
        })? {
            return Ok(target.write_all(&bytes));
        }
        Ok(expand_file(self.content()?, file, target))
    }

    /// Extracts ranges of files, which ascend, on a device.
    pub(super) fn extract_on(
        &self,
        device: &OnDevice<'_>,
        ranges: &[Extract],
    ) -> Result<Vec<FoundPart<ExtractedBytes>>> {
        let of_file = |range: &Extract| range.file;
        let in_part = |range: Extract, file, bytes: Option<&Range<u64>>| {
            let all = 0..u64::MAX;
            let bytes = bytes.unwrap_or(&all);
            let from = range.offset.max(bytes.start);
            let to = range.offset.saturating_add(range.length).min(bytes.end);
            (from < to).then(|| Extract {
                file,
                offset: from - bytes.start,
                length: to - from,
            })
        };
        let ask = |gpu: &Gpu, on: &DeviceStructures, ranges: &[Extract]| {
            let found = on.extract(gpu, ranges)?.download(gpu)?;
            Ok(FoundPart::of_batch(found, ranges.len()))
        };
        let add = |bytes: &mut FoundPart<ExtractedBytes>, more: FoundPart<_>, _| {
            bytes.extend(more.items().iter().copied());
        };
        self.look_up_on(device, ranges, of_file, in_part, ask, add)
    }
}

/// Bytes of extracts that a device makes at a time: its memory / 8, clamped to [MIN, MAX].
const EXTRACT_SHARE: u64 = 8;
const EXTRACT_BYTES_MIN: u64 = 64 << 10;
const EXTRACT_BYTES_MAX: u64 = 64 << 20;

impl StoredView {
    /// The bytes `offset..offset + length` of a stored file, as far as it goes.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn extract(&self, file: usize, offset: u64, length: u64) -> Result<Vec<u8>> {
        let segments = SegmentViews::new(self);
        self.extract_of(&segments, (file, offset, length), Run::to_the_end())
    }

    /// As `extract`, on segments that are pinned.
    pub(super) fn extract_of(
        &self,
        segments: &SegmentViews<'_>,
        (file, offset, length): (usize, u64, u64),
        run: Run<'_>,
    ) -> Result<Vec<u8>> {
        let end = offset.saturating_add(length);
        let parts = self.index.parts(file);
        let first = parts.partition_point(|part| part.first_byte + part.bytes <= offset);
        let mut bytes = Vec::new();
        let parts = parts[first..].iter();
        for part in parts.take_while(|part| part.first_byte < end) {
            let from = offset.max(part.first_byte);
            let range = PartRange {
                file: part.file,
                offset: from - part.first_byte,
                length: end - from,
            };
            let extracted = answer::<FileExtract>(&range, segments.of(part), run)?;
            if bytes.is_empty() {
                bytes = extracted;
            } else {
                bytes.extend_from_slice(&extracted);
            }
        }
        Ok(bytes)
    }

    /// The bytes of many ranges of stored files.
    fn extract_each(&self, ranges: &[(usize, u64, u64)], run: Run<'_>) -> Result<Vec<Vec<u8>>> {
        let found = self.extracts(ranges, run)?;
        Ok(found.into_each(|bytes, _, more| bytes.extend_from_slice(more)))
    }

    /// The bytes of many ranges of stored files, each in the parts that it was found in.
    ///
    /// # Errors
    /// If a segment is damaged, a device fails, or the run must end.
    pub(crate) fn extracts(
        &self,
        ranges: &[(usize, u64, u64)],
        run: Run<'_>,
    ) -> Result<Found<ExtractedBytes>> {
        if let Some(extracts) = self.extracts_on_devices(ranges, run)? {
            return Ok(extracts);
        }
        // By the segment in which each begins; neighbours of a file lie in the same blocks, which are decoded once.
        let segment_of = |number: usize| {
            let parts = self.index.parts(ranges[number].0);
            parts.first().map_or(0, |part| part.segment as usize)
        };
        let mut order: Vec<usize> = (0..ranges.len()).collect();
        order.par_sort_unstable_by_key(|&number| (segment_of(number), ranges[number], number));
        let mut found = Vec::with_capacity(ranges.len());
        for numbers in self.in_room(&order, |&number| segment_of(number)) {
            let segments = SegmentViews::new(self);
            for &number in numbers {
                for part in self.index.parts(ranges[number].0) {
                    segments.of(part).prepare_extracts()?;
                }
            }
            let tasks = numbers.par_iter().with_min_len(TASK_QUESTIONS_MIN);
            let of_group = tasks.map(|&number| {
                check(run.stop)?;
                let bytes = self.extract_of(&segments, ranges[number], run)?;
                Ok(((number, 0), FoundPart::Own(bytes)))
            });
            found.extend(of_group.collect::<Result<Vec<_>>>()?);
        }
        Ok(Found::new(ranges.len(), found))
    }

    /// Extracts ranges of these files if devices do so for all segments; none if the CPU does.
    fn extracts_on_devices(
        &self,
        ranges: &[(usize, u64, u64)],
        run: Run<'_>,
    ) -> Result<Option<Found<ExtractedBytes>>> {
        let any = PartRange {
            file: 0,
            offset: 0,
            length: 1,
        };
        let count = ranges.len() as u64;
        let Some(places) = self.lookup_places_of::<FileExtract>(count, &any) else {
            return Ok(None);
        };
        let devices = self.devices().all().iter();
        let memory = devices.map(|device| device.memory_limit()).min();
        let piece =
            (memory.unwrap_or(0) / EXTRACT_SHARE).clamp(EXTRACT_BYTES_MIN, EXTRACT_BYTES_MAX);
        // For each segment its part of each range, in pieces that a device makes at a time.
        let mut asked: Vec<Vec<(usize, u64, Extract)>> = vec![Vec::new(); self.segments().len()];
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
        let found = self.spread(
            places.spread(),
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

    /// Writes a stored file; the inner error is the target's.
    fn write_file(&self, file: usize, target: &mut dyn Write) -> Result<io::Result<()>> {
        for part in self.index.parts(file) {
            if let Err(error) = self.segment(part).write_content(part.file, target)? {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }
}

impl CorpusView {
    /// The bytes `offset..offset + length` of a file, as far as it goes.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn extract(&self, file: usize, offset: u64, length: u64) -> Result<Vec<u8>> {
        match self.resolve(file) {
            (_, Some(edit)) => edit.text.extract(offset, length),
            (Some(stored), None) => self.stored().extract(stored, offset, length),
            (None, None) => Ok(Vec::new()),
        }
    }

    /// The bytes of many ranges of files.
    ///
    /// # Errors
    /// If there is no such file, a segment is damaged, a device fails, or the run must end.
    pub(crate) fn extract_many<F: AsRef<str> + Sync>(
        &self,
        ranges: &[(F, u64, u64)],
        run: Run<'_>,
    ) -> Result<Vec<Vec<u8>>> {
        let files = self.find_many(ranges.par_iter().map(|(file, ..)| file.as_ref()))?;
        let ranges = files.into_iter().zip(ranges);
        let ranges = ranges.map(|(file, &(_, offset, length))| (file, offset, length));
        self.extract_each(&ranges.collect::<Vec<_>>(), run)
    }

    /// The bytes of many ranges of files, given by their places.
    ///
    /// # Errors
    /// If a segment is damaged, a device fails, or the run must end.
    pub(crate) fn extract_each(
        &self,
        ranges: &[(usize, u64, u64)],
        run: Run<'_>,
    ) -> Result<Vec<Vec<u8>>> {
        if self.pending().is_none() {
            return self.stored().extract_each(ranges, run);
        }
        let pieces: Vec<Vec<Piece>> = (ranges.par_iter())
            .with_min_len(TASK_QUESTIONS_MIN)
            .map(|&(file, offset, length)| self.pieces(file, offset, length))
            .collect();
        // One question to the stored files for all stored bytes.
        let mut asked = Vec::with_capacity(ranges.len());
        for (pieces, &(file, ..)) in pieces.iter().zip(ranges) {
            ask_stored(pieces, self.resolve(file).0, &mut asked);
        }
        let mut found = self.stored().extract_each(&asked, run)?.into_iter();
        let texts = pieces.iter().map(|pieces| joined(pieces, &mut found));
        Ok(texts.collect())
    }

    /// The pieces of a range of a file, as far as it goes.
    pub(super) fn pieces(&self, file: usize, offset: u64, length: u64) -> Vec<Piece> {
        match self.resolve(file).1 {
            Some(edit) => edit.text.pieces(offset, length),
            None => {
                let end = offset.saturating_add(length).min(self.files()[file].bytes);
                let stored = (offset < end).then(|| Piece::Stored(offset..end));
                stored.into_iter().collect()
            }
        }
    }

    /// Writes a file; the inner error is the target's.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn write_file(&self, file: usize, target: &mut dyn Write) -> Result<io::Result<()>> {
        match self.resolve(file) {
            (_, Some(edit)) => edit.text.write(target),
            (Some(stored), None) => self.stored().write_file(stored, target),
            (None, None) => Ok(Ok(())),
        }
    }

    /// Whether bytes of a file can be extracted without building a structure first.
    pub(crate) fn can_extract_now(&self, file: usize) -> bool {
        self.holds_for_parts(file, |segment| segment.has(StructureKind::Text))
    }
}
