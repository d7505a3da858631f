//! The words of all files, decoded on a device.
//!
//! The invariant: words are those of the files, in order, each with its file. Only for grammars whose words are not many times
//! their symbols: others are better not decoded.

use crate::count::rule_words_gpu::{self, RECORD_CONSTANT, RuleWords};
use crate::gpu::GpuError;
use crate::gpu::device::{Buffer, Gpu, arguments};
use crate::gpu::driver::{Launch, Source, THREADS};
use crate::gpu::primitives;
use crate::grammar::words_gpu::DeviceWords;

/// Words of a tile of the root that is decoded.
const ROOT_TILE: usize = 2048;

/// Words of a vector of 16 bytes.
const VECTOR_WORDS: usize = 4;

pub(crate) static SOURCE: Source = Source {
    name: "root_words.cu",
    text: include_str!("root_words.cu"),
    headers: &[rule_words_gpu::HEADER],
    constants: &[
        ("ROOT_WORDS_THREADS", THREADS as u64),
        ("ROOT_WORDS_TILE", ROOT_TILE as u64),
        RECORD_CONSTANT,
    ],
};

/// The words of all files, `word << file_bits | file`, in order of files; `None` without room for what that takes.
pub(crate) fn root_words(
    gpu: &Gpu,
    grammar: &DeviceWords,
    file_bits: u32,
) -> Result<Option<Buffer<u32>>, GpuError> {
    let (_, roots) = grammar.sizes();
    let Some(RuleWords { flat, .. }) = RuleWords::new(gpu, grammar)? else {
        return Ok(None);
    };
    let sizes = gpu.allocate::<u32>(roots)?;
    let arguments = arguments! {
        root: &grammar.root,
        count: roots,
        terminals: grammar.terminal_count,
        flat,
        sizes,
    };
    let kernel = SOURCE.kernel("word_sizes_kernel");
    gpu.launch_looping(kernel.moving(roots * 2 * 4), roots, arguments)?;
    let places = primitives::scan::<u32, u32>(gpu, &sizes)?;
    drop(sizes);
    // Fewer than a sort takes.
    let words = gpu.item(&places, roots)? as usize;
    let room = gpu.memory_limit().saturating_sub(gpu.memory_used());
    if (words * size_of::<u32>()) as u64 > room {
        return Ok(None);
    }
    // Words of windows are loaded by whole vectors.
    let mut keys = gpu.allocate::<u32>(words.next_multiple_of(VECTOR_WORDS))?;
    keys.truncate(words);
    let arguments = arguments! {
        root: &grammar.root,
        root_files: &grammar.root_files,
        // Places in the root are u32.
        root_count: roots as u32,
        places,
        count: words,
        flat,
        terminals: grammar.terminal_count,
        file_bits,
        keys,
    };
    let launch = Launch::tiles(words, ROOT_TILE);
    gpu.launch(
        SOURCE
            .kernel("root_words_kernel")
            .moving(roots * 3 * 4 + words * 4),
        launch,
        arguments,
    )?;
    Ok(Some(keys))
}
