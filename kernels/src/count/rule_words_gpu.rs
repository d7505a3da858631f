//! The words of all rules of a grammar over words, on a device.
//!
//! The invariant: a rule has its words in its record, or where its record says, if totals say that there was room.

use crate::gpu::GpuError;
use crate::gpu::device::{Buffer, Gpu, arguments};
use crate::gpu::driver::{Header, Source, THREADS};
use crate::grammar::words_gpu::DeviceWords;

/// Words of a rule that lie in its record.
pub(crate) const RECORD: usize = 8;

/// What kernels that read words of rules include, and the constant that it needs.
pub(crate) const HEADER: Header = ("rule_words.cuh", include_str!("rule_words.cuh"));
pub(crate) const RECORD_CONSTANT: (&str, u64) = ("RULE_WORDS_RECORD", RECORD as u64);

pub(crate) static SOURCE: Source = Source {
    name: "rule_words.cu",
    text: include_str!("rule_words.cu"),
    headers: &[HEADER],
    constants: &[("RULE_WORDS_THREADS", THREADS as u64), RECORD_CONSTANT],
};

/// The words of rules, each with room for those of all below it.
pub(crate) struct RuleWords {
    /// Records, and behind them words of rules that have more.
    pub(crate) flat: Buffer<u32>,
    /// Words behind records; words of rules in the root; keys with counts.
    pub(crate) totals: Buffer<u64>,
}

impl RuleWords {
    /// `None` where records have no room.
    pub(crate) fn new(gpu: &Gpu, grammar: &DeviceWords) -> Result<Option<RuleWords>, GpuError> {
        let (bodies, roots) = grammar.sizes();
        let size = grammar.rules() * RECORD + bodies + roots;
        let room = gpu.memory_limit().saturating_sub(gpu.memory_used());
        if size > u32::MAX as usize || (size * size_of::<u32>()) as u64 > room {
            return Ok(None);
        }
        let flat = gpu.allocate::<u32>(size)?;
        let totals = gpu.zeroed::<u64>(3)?;
        let root_counts = &grammar.whole.counts;
        for level in 0..grammar.levels() {
            let range = grammar.level_rules(level);
            let arguments = arguments! {
                symbols: &grammar.symbols,
                rule_offsets: &grammar.rule_offsets,
                first_rule: range.start,
                end_rule: range.end,
                // Rules are u32.
                rules: grammar.rules() as u32,
                terminals: grammar.terminal_count,
                root_counts: root_counts.at(grammar.terminal_count as usize),
                flat,
                flat_size: size,
                totals,
            };
            let kernel = SOURCE.kernel("level_records_kernel");
            gpu.launch_looping(kernel, range.len(), arguments)?;
        }
        Ok(Some(RuleWords { flat, totals }))
    }
}
