//! N-grams of several partitions put together where they are.
//!
//! The invariant: the result is that of one partition with all the texts: n-grams ascend, and what belongs to equal ones is added up.
//! The n-grams of all partitions are sorted together by their words, so they must fit into memory several times.

use crate::FileOrder;
use crate::count::tables_gpu::{DeviceTable, keyed};
use crate::gpu::device::{Buffer, Gpu, arguments};
use crate::gpu::driver::{Argument, Source, THREADS};
use crate::gpu::error::GpuError;
use crate::gpu::primitives;
use crate::ngrams::all_ngrams_gpu::{DeviceNgramFiles, DeviceNgrams, rank_rows};
use crate::ngrams::ngram_order_gpu::order_by_words;
use crate::ngrams::ngram_rows_gpu::{DeviceNgramFileRows, DeviceNgramRows};

pub(crate) static SOURCE: Source = Source {
    name: "ngram_merge.cu",
    text: include_str!("ngram_merge.cu"),
    headers: &[],
    constants: &[("NGRAM_MERGE_THREADS", THREADS as u64)],
};

/// N-grams of a partition, and what their words and files are in the whole.
#[derive(Debug)]
pub struct MergedPart<'a, Rows> {
    /// The n-grams.
    pub rows: &'a Rows,
    /// By word of the partition; ascending.
    pub words: Vec<u32>,
    /// By file of the partition. Counts without files need none.
    pub files: Vec<u32>,
}

/// N-grams that no partition has, one for each place.
#[derive(Clone, Copy, Debug)]
pub struct CutPlaces<'a> {
    /// `[places * n]`: the words of each.
    pub words: &'a [u32],
    /// `[places]`: the file of each.
    pub files: &'a [u32],
}

/// All rows one after the other, as they were put in order.
struct Sorted {
    /// `[rows * n]`
    words: Buffer<u32>,
    /// By place.
    order: Buffer<u32>,
    /// `[rows + 1]`: how many distinct n-grams come before each place.
    places: Buffer<u32>,
    /// How many there are.
    distinct: usize,
    n: usize,
}

impl DeviceNgramRows {
    /// The n-grams of all parts, on the device that has those of the first one; none if they are more than a u32 counts. `words`
    /// are those of the whole, whose sums of counts fit 32 bits.
    ///
    /// Memory: three times what the n-grams take, and 24 bytes for each.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    ///
    /// # Panics
    ///
    /// When there are no parts, or their n-grams are not of as many words.
    pub fn merged(
        parts: &[MergedPart<'_, DeviceNgramRows>],
        cut: CutPlaces<'_>,
        words: usize,
    ) -> Result<Option<DeviceNgramRows>, GpuError> {
        let (gpu, n) = (&parts[0].rows.gpu, parts[0].rows.n);
        let on_device: Vec<Here<'_, DeviceNgrams>> = parts
            .iter()
            .map(|part| part.rows.on(gpu))
            .collect::<Result<_, _>>()?;
        let lists = on_device.iter().map(|here| &here.get().words);
        let Some(sorted) = Sorted::new(
            gpu,
            n,
            lists.zip(parts.iter().map(|part| &part.words[..])),
            cut,
            words,
        )?
        else {
            return Ok(None);
        };
        let counts = gpu.allocate::<u32>(sorted.order.len())?;
        let mut first = 0;
        for here in &on_device {
            let from = &here.get().counts;
            gpu.copy(&counts, first, from, from.len())?;
            first += from.len();
        }
        gpu.upload_to(&counts, first, &vec![1; cut.files.len()])?;
        let sums = gpu.zeroed::<u32>(sorted.distinct)?;
        let words = sorted.distinct_rows(gpu, Some((&counts, &sums)), None)?;
        Ok(Some(
            DeviceNgrams {
                words,
                counts: sums,
            }
            .into_rows(gpu, n),
        ))
    }

    /// The n-grams, on a device.
    fn on(&self, gpu: &Gpu) -> Result<Here<'_, DeviceNgrams>, GpuError> {
        if gpu.shares_memory(&self.gpu) {
            return Ok(Here::Kept(&self.ngrams));
        }
        let DeviceNgrams { words, counts } = &self.ngrams;
        Ok(Here::Copied(DeviceNgrams {
            words: gpu.copy_of(&self.gpu, words)?,
            counts: gpu.copy_of(&self.gpu, counts)?,
        }))
    }
}

impl DeviceNgramFileRows {
    /// As [`DeviceNgramRows::merged`]; the files of an n-gram come in an order.
    ///
    /// Memory: three times what the n-grams take, 24 bytes for each, and 64 for each of its files.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    ///
    /// # Panics
    ///
    /// As [`DeviceNgramRows::merged`].
    pub fn merged(
        parts: &[MergedPart<'_, DeviceNgramFileRows>],
        cut: CutPlaces<'_>,
        words: usize,
        order: FileOrder,
    ) -> Result<Option<DeviceNgramFileRows>, GpuError> {
        let (gpu, n) = (&parts[0].rows.gpu, parts[0].rows.n);
        let on_device: Vec<Here<'_, DeviceNgramFiles>> = parts
            .iter()
            .map(|part| part.rows.on(gpu))
            .collect::<Result<_, _>>()?;
        let tables = || on_device.iter().map(|here| &here.get().files);
        let count = tables().map(DeviceTable::entries).sum::<usize>() + cut.files.len();
        let lists = on_device.iter().map(|here| &here.get().words);
        let sorted = Sorted::new(
            gpu,
            n,
            lists.zip(parts.iter().map(|part| &part.words[..])),
            cut,
            words,
        )?;
        let Some(sorted) = sorted.filter(|_| u32::try_from(count).is_ok()) else {
            return Ok(None);
        };
        let row_of = gpu.allocate::<u32>(sorted.order.len())?;
        let words = sorted.distinct_rows(gpu, None, Some(&row_of))?;
        let distinct = sorted.distinct;
        drop(sorted);
        let (keys, counts) = (gpu.allocate::<u64>(count)?, gpu.allocate::<u64>(count)?);
        let (mut first_row, mut first) = (0, 0);
        for (table, part) in tables().zip(parts) {
            let (rows, entries) = (table.rows(), table.entries());
            let owners = primitives::expand(gpu, &table.offsets, entries)?;
            let files = gpu.upload(&part.files)?;
            let arguments = arguments! {
                entries: &table.entries,
                owners,
                count: entries,
                row_of: row_of.at(first_row),
                files,
                keys: keys.at(first),
                counts: counts.at(first),
            };
            let kernel = SOURCE.kernel("merged_keys_kernel");
            gpu.launch_looping(kernel.moving(entries * (8 + 4 + 2 * 8)), entries, arguments)?;
            (first_row, first) = (first_row + rows, first + entries);
        }
        let mut rows = vec![0; cut.files.len()];
        gpu.download_from(&row_of, first_row, &mut rows)?;
        let of_cuts = rows.iter().zip(cut.files);
        let of_cuts = of_cuts.map(|(&row, &file)| u64::from(row) << 32 | u64::from(file));
        gpu.upload_to(&keys, first, &of_cuts.collect::<Vec<u64>>())?;
        gpu.upload_to(&counts, first, &vec![1; cut.files.len()])?;
        drop(row_of);
        let row_bits = usize::BITS - distinct.saturating_sub(1).leading_zeros();
        let (keys, counts) = primitives::sort_pairs(gpu, keys, counts, 0..32 + row_bits)?;
        let (keys, sums) = primitives::sums_by_key(gpu, &keys, Some(&counts))?;
        drop(counts);
        let narrow = gpu.allocate::<u32>(sums.len())?;
        let arguments = arguments! { numbers: &sums, count: sums.len(), narrow };
        let kernel = SOURCE.kernel("narrow_kernel");
        gpu.launch_looping(kernel.moving(sums.len() * 12), sums.len(), arguments)?;
        drop(sums);
        let files = keyed(gpu, &keys, &narrow, distinct)?;
        drop((keys, narrow));
        if order == FileOrder::Count && distinct > 0 {
            // A row that occurs once has one file.
            let lengths = files.lengths(gpu)?;
            rank_rows(gpu, &files, &lengths, 1)?;
        }
        let merged = DeviceNgramFiles { words, files };
        Ok(Some(merged.into_rows(gpu, n)?))
    }

    /// The n-grams, on a device.
    fn on(&self, gpu: &Gpu) -> Result<Here<'_, DeviceNgramFiles>, GpuError> {
        if gpu.shares_memory(&self.gpu) {
            return Ok(Here::Kept(&self.ngrams));
        }
        let DeviceNgramFiles { words, files } = &self.ngrams;
        Ok(Here::Copied(DeviceNgramFiles {
            words: gpu.copy_of(&self.gpu, words)?,
            files: DeviceTable {
                offsets: gpu.copy_of(&self.gpu, &files.offsets)?,
                entries: gpu.copy_of(&self.gpu, &files.entries)?,
            },
        }))
    }
}

/// What is on a device, there already or copied to it.
enum Here<'a, T> {
    Kept(&'a T),
    Copied(T),
}

impl<T> Here<'_, T> {
    fn get(&self) -> &T {
        match self {
            Here::Kept(kept) => kept,
            Here::Copied(copied) => copied,
        }
    }
}

impl Sorted {
    /// Sorts lists of n-grams of n words, each with the numbers that its words have in the whole, and those of places; `words` are in
    /// the whole. None if there are more than a u32 counts.
    fn new<'a>(
        gpu: &Gpu,
        n: usize,
        lists: impl Iterator<Item = (&'a Buffer<u32>, &'a [u32])> + Clone,
        cut: CutPlaces<'_>,
        words: usize,
    ) -> Result<Option<Sorted>, GpuError> {
        let len = lists.clone().map(|(list, _)| list.len()).sum::<usize>() + cut.words.len();
        let rows = len / n;
        if u32::try_from(rows).is_err() {
            return Ok(None);
        }
        let all = gpu.allocate::<u32>(len)?;
        let mut first = 0;
        for (list, numbers) in lists {
            let numbers = gpu.upload(numbers)?;
            let arguments = arguments! {
                words: list,
                count: list.len(),
                numbers,
                out: all.at(first),
            };
            let kernel = SOURCE.kernel("numbered_words_kernel");
            gpu.launch_looping(kernel.moving(list.len() * 2 * 4), list.len(), arguments)?;
            first += list.len();
        }
        gpu.upload_to(&all, first, cut.words)?;
        let order = order_by_words(gpu, &all, n, words, None)?;
        let flags = gpu.allocate::<u32>(rows)?;
        // N-grams have few words.
        let arguments = arguments! { words: &all, n: n as u32, order, rows, flags };
        let kernel = SOURCE.kernel("distinct_flags_kernel");
        gpu.launch_looping(kernel.moving((len + rows * 2) * 4), rows, arguments)?;
        let places = primitives::scan::<u32, u32>(gpu, &flags)?;
        Ok(Some(Sorted {
            distinct: gpu.item(&places, rows)? as usize,
            words: all,
            order,
            places,
            n,
        }))
    }

    /// `[distinct * n]`: the words of the distinct n-grams. Adds counts of rows, the first, to the second, or says what each row becomes.
    fn distinct_rows(
        &self,
        gpu: &Gpu,
        counts: Option<(&Buffer<u32>, &Buffer<u32>)>,
        row_of: Option<&Buffer<u32>>,
    ) -> Result<Buffer<u32>, GpuError> {
        let words = gpu.allocate::<u32>(self.distinct * self.n)?;
        fn given(buffer: Option<&Buffer<u32>>) -> Argument<'_> {
            buffer.map_or(Argument::NONE, Argument::from)
        }
        let rows = self.order.len();
        let arguments = arguments! {
            words: &self.words,
            // at most 8
            n: self.n as u32,
            counts: given(counts.map(|(counts, _)| counts)),
            order: &self.order,
            places: &self.places,
            rows,
            words_out: &words,
            counts_out: given(counts.map(|(_, sums)| sums)),
            row_of: given(row_of),
        };
        let kernel = SOURCE.kernel("distinct_rows_kernel");
        gpu.launch_looping(kernel.moving(rows * (self.n + 4) * 4), rows, arguments)?;
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::gpu::test_devices::{Numbers, on_devices};

    /// Words of the whole.
    const WORDS: u32 = 500_000;

    /// N-grams with files and counts, and the numbers of words and files.
    struct Part {
        ngrams: BTreeMap<Vec<u32>, Vec<(u32, u32)>>,
        words: Vec<u32>,
        files: Vec<u32>,
    }

    impl Part {
        fn random(numbers: &mut Numbers, rows: usize, n: usize) -> Part {
            let few = 60;
            let mut words = numbers.below(few, WORDS);
            words.sort_unstable();
            words.dedup();
            let files = numbers.below(9, 12);
            let few = words.len() as u32;
            let ngrams = (0..rows).map(|_| {
                let length = numbers.below(1, 4)[0] as usize + 1;
                let counts = numbers.below(length, 5);
                (
                    numbers.below(n, few),
                    (0..)
                        .zip(counts.into_iter().map(|count| count + 1))
                        .collect(),
                )
            });
            let ngrams = ngrams.collect();
            Part {
                ngrams,
                words,
                files,
            }
        }

        fn counts_on(&self, gpu: &Gpu, n: usize) -> Result<DeviceNgramRows, GpuError> {
            let sum = |files: &Vec<(u32, u32)>| files.iter().map(|&(_, count)| count).sum();
            let counts: Vec<u32> = self.ngrams.values().map(sum).collect();
            let words: Vec<u32> = self.ngrams.keys().flatten().copied().collect();
            let (words, counts) = (gpu.upload(&words)?, gpu.upload(&counts)?);
            Ok(DeviceNgrams { words, counts }.into_rows(gpu, n))
        }

        fn files_on(&self, gpu: &Gpu, n: usize) -> Result<DeviceNgramFileRows, GpuError> {
            let words: Vec<u32> = self.ngrams.keys().flatten().copied().collect();
            let (mut offsets, mut entries) = (vec![0], Vec::new());
            for files in self.ngrams.values() {
                let files = files.iter();
                entries
                    .extend(files.map(|&(file, count)| u64::from(file) << 32 | u64::from(count)));
                offsets.push(entries.len() as u32);
            }
            let files = DeviceTable {
                offsets: gpu.upload(&offsets)?,
                entries: gpu.upload(&entries)?,
            };
            let words = gpu.upload(&words)?;
            DeviceNgramFiles { words, files }.into_rows(gpu, n)
        }
    }

    /// What each part has on a device, with the numbers of its words and files.
    fn with_numbers<'a, Rows>(parts: &[Part], rows: &'a [Rows]) -> Vec<MergedPart<'a, Rows>> {
        let each = parts.iter().zip(rows);
        let each = each.map(|(part, rows)| MergedPart {
            rows,
            words: part.words.clone(),
            files: part.files.clone(),
        });
        each.collect()
    }

    #[test]
    fn merged_ngrams_are_those_of_the_whole() {
        on_devices(|gpu| {
            // Another part of the memory: what is there is copied.
            let elsewhere = gpu.with_memory_limit(64 << 20);
            for (rows, n, places) in [(0, 3, 0), (0, 2, 5), (400, 2, 60), (300, 8, 7), (900, 1, 3)]
            {
                let mut numbers = Numbers::new((rows + n) as u64);
                let parts: Vec<Part> = (0..3)
                    .map(|_| Part::random(&mut numbers, rows, n))
                    .collect();
                let of_parts = |place: usize| {
                    let part = &parts[place % 3];
                    let some = part.ngrams.keys().next().cloned().unwrap_or(vec![0; n]);
                    some.iter()
                        .map(|&word| part.words[word as usize])
                        .collect::<Vec<u32>>()
                };
                // Some of n-grams that parts have, some of others.
                let cut_words = (0..places).flat_map(|place| match place % 2 {
                    0 => of_parts(place),
                    _ => numbers.below(n, WORDS),
                });
                let cut_words: Vec<u32> = cut_words.collect();
                let cut_files = numbers.below(places, 12);
                let cut = CutPlaces {
                    words: &cut_words,
                    files: &cut_files,
                };
                let mut all: BTreeMap<Vec<u32>, BTreeMap<u32, u32>> = BTreeMap::new();
                for part in &parts {
                    for (ngram, files) in &part.ngrams {
                        let ngram = ngram.iter().map(|&word| part.words[word as usize]);
                        let of_ngram = all.entry(ngram.collect()).or_default();
                        for &(file, count) in files {
                            *of_ngram.entry(part.files[file as usize]).or_default() += count;
                        }
                    }
                }
                for (ngram, &file) in cut_words.chunks(n).zip(&cut_files) {
                    *all.entry(ngram.to_vec())
                        .or_default()
                        .entry(file)
                        .or_default() += 1;
                }
                let words: Vec<u32> = all.keys().flatten().copied().collect();
                let about = format!("{rows} {n} {places}");
                let on = |place: usize| if place == 1 { &elsewhere } else { gpu };
                let rows = (parts.iter().enumerate())
                    .map(|(place, part)| part.counts_on(on(place), n))
                    .collect::<Result<Vec<_>, _>>()?;
                let given = with_numbers(&parts, &rows);
                let found = DeviceNgramRows::merged(&given, cut, WORDS as usize)?;
                let found = found.expect("are few");
                let found = found.ngrams.download(&found.gpu)?;
                assert_eq!(found.words, words, "{about}");
                let counts: Vec<u32> = all.values().map(|files| files.values().sum()).collect();
                assert_eq!(found.counts, counts, "{about}");
                let rows = (parts.iter().enumerate())
                    .map(|(place, part)| part.files_on(on(place), n))
                    .collect::<Result<Vec<_>, _>>()?;
                let given = with_numbers(&parts, &rows);
                for order in [FileOrder::File, FileOrder::Count] {
                    let found = DeviceNgramFileRows::merged(&given, cut, WORDS as usize, order)?;
                    let found = found.expect("are few");
                    let found = found.ngrams.download(&found.gpu)?;
                    assert_eq!(found.words, words, "{about}");
                    for (row, files) in all.values().enumerate() {
                        let mut files: Vec<(u32, u32)> =
                            files.iter().map(|(&file, &count)| (file, count)).collect();
                        if order == FileOrder::Count {
                            files.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
                        }
                        assert_eq!(found.files.row(row), files, "{about} {order:?}");
                    }
                    assert_eq!(found.files.rows(), all.len(), "{about}");
                }
            }
            Ok(())
        });
    }
}
