//! What device work costs, for `calibrate`.
//!
//! Nanoseconds of the wall clock, as a query waits for them: with copies of what is found, and of grammars where the
//! constant says so. A task takes some time however small it is, which the same task on a few tokens measures.

use std::hint::black_box;
use std::time::Instant;

use zipfdb_kernels::gpu::{
    self, DeviceInserts, DeviceLists, DeviceQueries, DeviceStructures, DeviceWords, Extract,
    FileUses, Gpu, GpuError, SearchResults, WordQuery, word_file_counts,
};
use zipfdb_kernels::{
    Content, FileOrder, GAP, GrammarView, Lengths, Parameters, Parents, Signatures, Structures,
    SymbolText, construct, count_in_file, extract, locate_in_file, place_inserts,
};
use zipfdb_storage::{EncodedGrammar, SegmentReader};

use super::arrays::Arrays;
use super::encode::{STEPS, timed_encoding};
use super::kernels::{Batches, Work};
use crate::Result;

/// The constants in order, each with its first line of documentation.
pub const CONSTANTS: [(&str, &str); 18] = [
    (
        "DEVICE_START_COST",
        "Starting work on a device, and fetching what it found.",
    ),
    ("DEVICE_BYTE_COST", "Copying a byte to or from a device."),
    (
        "DEVICE_WORDS_COST",
        "Copying a symbol of a grammar over words to a device.",
    ),
    (
        "DEVICE_FILE_COUNT_COST",
        "Counting words by file on a device, for each symbol.",
    ),
    (
        "DEVICE_NGRAM_COST",
        "Counting n-grams on a device, for each symbol.",
    ),
    (
        "DEVICE_NGRAM_FILE_COST",
        "Counting n-grams by file on a device, for each symbol.",
    ),
    (
        "DEVICE_BUILD_COST",
        "Copying a grammar to a device and building what look-ups need, for each symbol.",
    ),
    (
        "DEVICE_LOOKUP_COST",
        "Answering a look-up of a batch on a device.",
    ),
    (
        "DEVICE_LISTS_COST",
        "Copying the lists of words that a symbol stands for to a device, with what finds ids in them.",
    ),
    (
        "DEVICE_LIST_LOOKUP_COST",
        "Looking a word of a query up in such lists on a device, with all that is found.",
    ),
    (
        "BATCH_LOOKUP_COST",
        "Answering a look-up of a batch on the CPU.",
    ),
    (
        "CONSTRUCT_COST",
        "Building a grammar on the CPU, for each token.",
    ),
    (
        "DEVICE_CONSTRUCT_COST",
        "Building a grammar on a device, for each token.",
    ),
    (
        "ENCODE_COST",
        "Encoding a symbol of a grammar on the CPU: counting, choosing a model, coding.",
    ),
    (
        "ENCODE_MODEL_COST",
        "The part of this that the CPU does for a device: choosing a model.",
    ),
    (
        "DEVICE_ENCODE_COST",
        "Counting and coding a symbol on a device.",
    ),
    ("INSERT_COST", "Placing one of many inserts on the CPU."),
    (
        "DEVICE_INSERT_COST",
        "Placing one of many inserts on a device, with copies.",
    ),
];

/// Tokens of a corpus that has nothing to do.
const FEW: usize = 1_000;

/// Words of the n-grams that are counted.
const N: usize = 3;

/// Bytes that are copied there and back.
const COPIED: usize = 256 << 20;

/// Bytes for windows of n-grams.
const MEMORY: usize = 16 << 30;

/// Look-ups that the CPU answers.
const CPU_LOOKUPS: usize = 2_000;

/// Words of a query that intersects lists, and how many there are.
const QUERY_WORDS: usize = 2;
const LIST_QUERIES: usize = 100_000;

/// Ids of a hash bucket, and candidates of a batch of such queries.
const HASH_BUCKET: usize = 16;
const BATCH_CANDIDATES: usize = 1 << 20;

/// The constants on one segment of a corpus.
pub fn costs(
    gpu: &Gpu,
    arrays: &Arrays,
    segment: &SegmentReader,
) -> Result<[f64; CONSTANTS.len()]> {
    let (tokens, offsets) = (&arrays.tokens[..], &arrays.file_offsets[..]);
    let few = &tokens[..tokens.len().min(FEW)];
    // At most FEW.
    let few_offsets = [0, few.len() as u32];
    let nothing = Tasks::measure(gpu, &Work::new(gpu, few, &few_offsets, arrays)?)?;
    let work = Work::new(gpu, tokens, offsets, arrays)?;
    let tasks = Tasks::measure(gpu, &work)?;
    let symbols = (work.view().symbols.len() + work.view().root.len()) as f64;
    let of = |task: fn(&Tasks) -> f64| (task(&tasks) - task(&nothing)).max(0.0) / symbols;

    let bytes = vec![1u8; COPIED];
    let copied = nanoseconds(|| gpu.download(&gpu.upload(&bytes)?))?;
    let batches = Batches::new(gpu, &work, arrays)?;
    let built = nanoseconds(|| {
        let structures = batches.structures(gpu, &work)?;
        gpu.synchronize()?;
        Ok(structures)
    })?;
    let (on_device, on_cpu) = lookups(gpu, &batches, &work, arrays)?;
    let begin = Instant::now();
    let parameters = Parameters::default();
    let terminals = arrays.terminal_count();
    black_box(construct(
        tokens.to_vec(),
        offsets,
        terminals,
        &parameters,
        &mut |_| {},
    ));
    let constructed = begin.elapsed().as_nanos() as f64;
    // Its copies are counted apart.
    let resident = nanoseconds(|| {
        work.construct(gpu)?;
        gpu.synchronize()
    })?;
    let copies = nanoseconds(|| {
        gpu.upload(tokens)?;
        gpu.synchronize()
    })?;
    let (inserted, inserted_there) = inserts(gpu, &batches)?;
    let (lists_copied, list_lookup) = lists(gpu, arrays)?;
    let encoding = encoding(gpu, segment)?;
    let starts = [nothing.file_counts, nothing.ngrams, nothing.ngram_files];
    Ok([
        starts.iter().sum::<f64>() / starts.len() as f64,
        copied / 2.0 / COPIED as f64,
        of(|tasks| tasks.upload),
        of(|tasks| tasks.file_counts),
        of(|tasks| tasks.ngrams),
        of(|tasks| tasks.ngram_files),
        built / symbols,
        on_device,
        lists_copied / symbols,
        list_lookup,
        on_cpu,
        constructed / tokens.len() as f64,
        (resident - copies).max(0.0) / tokens.len() as f64,
        encoding.on_cpu / symbols,
        encoding.model / symbols,
        encoding.on_device / symbols,
        inserted,
        inserted_there,
    ])
}

/// Times of the tasks on a resident grammar over words, and of its copy.
struct Tasks {
    upload: f64,
    file_counts: f64,
    ngrams: f64,
    ngram_files: f64,
}

impl Tasks {
    fn measure(gpu: &Gpu, work: &Work<'_>) -> Result<Tasks> {
        let view = work.word_view();
        let words = DeviceWords::upload(gpu, view)?;
        let counts = gpu::weights(gpu, &words)?;
        let uses = FileUses::new(gpu, &words)?;
        Ok(Tasks {
            upload: nanoseconds(|| {
                let words = DeviceWords::upload(gpu, view)?;
                gpu::weights(gpu, &words)?;
                gpu.synchronize()
            })?,
            file_counts: nanoseconds(|| {
                let uses = FileUses::new(gpu, &words)?;
                word_file_counts(gpu, &words, &uses)?.download(gpu)
            })?,
            ngrams: nanoseconds(|| {
                let mut shown = 0;
                for part in gpu::ngram_counts(gpu, &words, &counts, N, MEMORY)? {
                    let rows = part.into_rows(gpu, N);
                    for piece in 0..rows.pieces() {
                        rows.show(piece, true, |_, counts| shown += counts.len())?;
                    }
                }
                Ok(shown)
            })?,
            ngram_files: nanoseconds(|| {
                let order = FileOrder::Count;
                let mut shown = 0;
                for part in gpu::ngram_file_counts(gpu, &words, &counts, &uses, N, order, MEMORY)? {
                    let rows = part.into_rows(gpu, N)?;
                    for piece in 0..rows.pieces() {
                        rows.show(piece, true, |ngrams| shown += ngrams.entries())?;
                    }
                }
                Ok(shown)
            })?,
        })
    }
}

/// A count, a search and an extract on average: on the device, and with one thread of the CPU.
fn lookups(
    gpu: &Gpu,
    batches: &Batches<'_>,
    work: &Work<'_>,
    arrays: &Arrays,
) -> Result<(f64, f64)> {
    let structures: DeviceStructures = batches.structures(gpu, work)?;
    let on_device = nanoseconds(|| {
        let queries = DeviceQueries::upload(gpu, &batches.queries)?;
        let counts = gpu.download(&structures.count(gpu, &queries)?)?;
        let queries = DeviceQueries::upload(gpu, &batches.queries)?;
        let places = SearchResults::download(gpu, &structures.search(gpu, &queries)?)?;
        let bytes = structures.extract(gpu, &batches.extracts)?.download(gpu)?;
        Ok((counts, places, bytes))
    })?;
    drop(structures);
    let asked = batches.queries.len() * 2 + batches.extracts.len();

    let view: GrammarView<'_> = work.view();
    let lengths = Lengths::new(view, |terminal| arrays.token(terminal).len() as u64);
    let signatures = Signatures::new(view, |terminal| arrays.word_of[terminal as usize]);
    let parents = Parents::new(view);
    let text = SymbolText::new(view, &lengths, |terminal| arrays.token(terminal));
    let structures = Structures {
        view,
        lengths: &lengths,
        signatures: &signatures,
        parents: Some(&parents),
    };
    let content = Content {
        view,
        lengths: &lengths,
        text: &text,
    };
    let offsets = &arrays.file_offsets;
    let begin = Instant::now();
    for WordQuery { word, file } in &batches.queries[..CPU_LOOKUPS] {
        let tokens = u64::from(offsets[*file as usize + 1] - offsets[*file as usize]);
        let terminals = word.first..word.end;
        black_box(count_in_file(
            view,
            Some(&parents),
            &signatures,
            terminals,
            *file,
            tokens,
        ));
        black_box(locate_in_file(structures, *word, *file, tokens));
    }
    for query in &batches.extracts[..CPU_LOOKUPS] {
        let Extract {
            file,
            offset,
            length,
        } = *query;
        black_box(extract(content, file, offset, length));
    }
    let on_cpu = begin.elapsed().as_nanos() as f64;
    Ok((on_device / asked as f64, on_cpu / (3 * CPU_LOOKUPS) as f64))
}

/// An insert on average: with one thread of the CPU, and on the device, with copies.
fn inserts(gpu: &Gpu, batches: &Batches<'_>) -> Result<(f64, f64)> {
    let (sizes, inserts) = (&batches.sizes, &batches.inserts);
    let on_cpu = nanoseconds(|| Ok(place_inserts(sizes, inserts).is_ok()))?;
    let on_device = nanoseconds(|| {
        let uploaded = DeviceInserts::upload(gpu, sizes, inserts)?;
        Ok(uploaded.place(gpu)?.download(gpu)?.is_ok())
    })?;
    let placed = inserts.len() as f64;
    Ok((on_cpu / placed, on_device / placed))
}

/// The lists of all words copied, and a word of a query looked up in them.
fn lists(gpu: &Gpu, arrays: &Arrays) -> Result<(f64, f64)> {
    let mut files_of: Vec<Vec<u32>> = vec![Vec::new(); arrays.words.len()];
    for (file, range) in (0..).zip(arrays.file_offsets.windows(2)) {
        for &token in &arrays.tokens[range[0] as usize..range[1] as usize] {
            let word = arrays.word_of[token as usize];
            if word != GAP && files_of[word as usize].last() != Some(&file) {
                files_of[word as usize].push(file);
            }
        }
    }
    let (mut offsets, mut ids) = (vec![0], Vec::new());
    for files in files_of {
        ids.extend(files);
        offsets.push(u32::try_from(ids.len())?);
    }
    let files = u32::try_from(arrays.files.len())?;
    let copy = || {
        let lists = DeviceLists::new(gpu, &offsets, &ids, files, HASH_BUCKET)?;
        gpu.synchronize()?;
        Ok(lists)
    };
    let copied = nanoseconds(copy)?;
    let lists = copy()?;
    let of_text = (arrays.tokens.iter()).map(|&token| arrays.word_of[token as usize]);
    let words: Vec<u32> = of_text.filter(|&word| word != GAP).collect();
    // Words at places that lie far apart, so that frequent ones come more often.
    let step = (words.len() / LIST_QUERIES / QUERY_WORDS).max(1);
    let asked: Vec<u32> = words.into_iter().step_by(step).collect();
    let queries: Vec<Vec<u32>> = asked
        .chunks_exact(QUERY_WORDS)
        .take(LIST_QUERIES)
        .map(<[u32]>::to_vec)
        .collect();
    let found = nanoseconds(|| lists.intersect(gpu, &queries, BATCH_CANDIDATES))?;
    let looked_up = (queries.len() * QUERY_WORDS).max(1);
    Ok((copied, found / looked_up as f64))
}

/// Nanoseconds of encoding a grammar.
struct Encoding {
    /// On one thread of the CPU.
    on_cpu: f64,
    /// What the CPU does where a device counts and codes.
    model: f64,
    /// What the device does then.
    on_device: f64,
}

fn encoding(gpu: &Gpu, segment: &SegmentReader) -> Result<Encoding> {
    let (grammar, dictionary) = (segment.grammar()?, segment.dictionary()?);
    let begin = Instant::now();
    black_box(EncodedGrammar::new(&grammar, &dictionary));
    let on_cpu = begin.elapsed().as_nanos() as f64;
    // Kernels are compiled in the first of two.
    let (mut all, mut steps) = (0.0, [0.0; STEPS.len()]);
    for _ in 0..2 {
        let begin = Instant::now();
        black_box(timed_encoding(gpu, &grammar, &dictionary, &mut steps)?);
        all = begin.elapsed().as_nanos() as f64;
    }
    let on_device = steps.iter().sum::<f64>() * 1e6; // of milliseconds
    Ok(Encoding {
        on_cpu,
        model: (all - on_device).max(0.0),
        on_device,
    })
}

/// The median of a few runs after one that is not timed.
fn nanoseconds<T>(run: impl Fn() -> std::result::Result<T, GpuError>) -> Result<f64> {
    const RUNS: usize = 5;
    black_box(run()?);
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let begin = Instant::now();
        black_box(run()?);
        times.push(begin.elapsed().as_nanos() as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[RUNS / 2])
}
