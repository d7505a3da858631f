//! Grammar construction on a GPU.
//!
//! The invariant: the grammar is that of the CPU's `construct`, word for word,
//! on any input. Tokens come from the host or are on the device already; the
//! grammar stays on the device until it is asked for.

use std::sync::atomic::AtomicBool;

use crate::construct::constructed::{Constructed, Parameters, Stage};
use crate::construct::pair_rounds_gpu;
use crate::construct::prune_gpu;
use crate::construct::renumber_gpu;
use crate::construct::step::{Step, check_stop};
use crate::gpu::device::{Buffer, Gpu};
use crate::gpu::error::GpuError;
use crate::grammar::grammar_gpu::DeviceGrammar;

/// Tokens and files that [`construct`] takes at most, together.
pub const TOKENS_MAX: usize = 1 << 29;

/// A grammar on a device.
#[derive(Debug)]
pub struct DeviceConstructed {
    /// What was built.
    pub grammar: DeviceGrammar,
    /// Rounds that construction took.
    pub rounds: u32,
}

impl DeviceConstructed {
    /// Copies it to the host.
    ///
    /// # Errors
    ///
    /// [`GpuError`], also of what made it.
    pub fn download(&self, gpu: &Gpu) -> Result<Constructed, GpuError> {
        let grammar = &self.grammar;
        Ok(Constructed {
            rule_offsets: gpu.download(&grammar.rule_offsets)?,
            symbols: gpu.download(&grammar.symbols)?,
            level_offsets: grammar.level_offsets.clone(),
            root_offsets: gpu.download(&grammar.root_offsets)?,
            root: gpu.download(&grammar.root)?,
            rounds: self.rounds,
        })
    }
}

/// Builds the grammar of some files, in device memory: what [`crate::construct`] builds of the same arguments.
///
/// Takes device memory of about 60 bytes a token at its peak.
///
/// # Errors
///
/// [`GpuError`]; [`GpuError::Stopped`] soon after `stop` was set.
///
/// # Panics
///
/// As [`crate::construct`].
pub fn construct(
    gpu: &Gpu,
    tokens: &[u32],
    file_offsets: &[u32],
    terminal_count: u32,
    parameters: &Parameters,
    on_stage: &mut dyn FnMut(Stage),
    stop: &AtomicBool,
) -> Result<DeviceConstructed, GpuError> {
    on_stage(Stage::Rounds);
    check_size(tokens.len(), file_offsets.len())?;
    let tokens = gpu.upload(tokens)?;
    let (count, on_prune) = (terminal_count, &mut || on_stage(Stage::Prune));
    construct_uploaded(
        gpu,
        &tokens,
        file_offsets,
        count,
        parameters,
        on_prune,
        stop,
    )
}

/// As [`construct`], from tokens on the device. `on_prune` is called as the second stage begins.
///
/// # Errors
///
/// As [`construct`].
///
/// # Panics
///
/// As [`construct`].
pub fn construct_uploaded(
    gpu: &Gpu,
    tokens: &Buffer<u32>,
    file_offsets: &[u32],
    terminal_count: u32,
    parameters: &Parameters,
    on_prune: &mut dyn FnMut(),
    stop: &AtomicBool,
) -> Result<DeviceConstructed, GpuError> {
    let file_offsets = gpu.upload(file_offsets)?;
    let on_step = &mut |step| {
        if step == Step::Prune {
            on_prune();
        }
    };
    construct_resident(
        gpu,
        tokens,
        &file_offsets,
        terminal_count,
        parameters,
        on_step,
        stop,
    )
}

/// As [`construct`], from tokens and file offsets on the device.
///
/// `on_step` is called as the launches of each step begin.
///
/// # Errors
///
/// As [`construct`].
///
/// # Panics
///
/// As [`construct`].
pub fn construct_resident(
    gpu: &Gpu,
    tokens: &Buffer<u32>,
    file_offsets: &Buffer<u32>,
    terminal_count: u32,
    parameters: &Parameters,
    on_step: &mut dyn FnMut(Step),
    stop: &AtomicBool,
) -> Result<DeviceConstructed, GpuError> {
    assert!(parameters.alpha_denominator > 0, "alpha has denominator 0");
    assert!(!file_offsets.is_empty(), "file offsets do not begin with 0");
    // Every rule shortens the sequence by two symbols at least.
    assert!(
        u64::from(terminal_count) + tokens.len() as u64 / 2 <= u64::from(u32::MAX),
        "the ids of terminals and rules together could exceed 32 bits"
    );
    check_size(tokens.len(), file_offsets.len())?;
    let paired = pair_rounds_gpu::pair_rounds(
        gpu,
        tokens,
        file_offsets,
        terminal_count,
        parameters,
        on_step,
        stop,
    )?;
    check_stop(stop)?;
    // One round for each length of a sequence.
    let rounds = paired.round_ends.len() as u32;
    on_step(Step::Prune);
    let pruned = prune_gpu::prune(gpu, paired, file_offsets.len() - 1, terminal_count)?;
    check_stop(stop)?;
    on_step(Step::Renumber);
    let renumbered = renumber_gpu::renumber(gpu, &pruned, terminal_count)?;
    on_step(Step::Root);
    let root = pruned.root(gpu, &renumbered.ids)?;
    let grammar = DeviceGrammar {
        terminal_count,
        rule_offsets: renumbered.rule_offsets,
        symbols: renumbered.symbols,
        level_offsets: renumbered.level_offsets,
        level_symbols: renumbered.level_symbols,
        root_offsets: pruned.root_offsets,
        root,
    };
    Ok(DeviceConstructed { grammar, rounds })
}

fn check_size(tokens: usize, files: usize) -> Result<(), GpuError> {
    let items = tokens + files;
    if items <= TOKENS_MAX {
        Ok(())
    } else {
        Err(GpuError::Limit {
            what: "tokens and files",
            items: items as u64,
            limit: TOKENS_MAX as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::gpu::test_devices::{Numbers, on_devices};

    fn built(
        gpu: &Gpu,
        files: &[Vec<u32>],
        parameters: &Parameters,
    ) -> Result<Constructed, GpuError> {
        let tokens = files.concat();
        let terminal_count = tokens.iter().max().map_or(0, |most| most + 1);
        let mut file_offsets = vec![0];
        for file in files {
            file_offsets.push(file_offsets[file_offsets.len() - 1] + file.len() as u32);
        }
        let mut stages = Vec::new();
        let found = construct(
            gpu,
            &tokens,
            &file_offsets,
            terminal_count,
            parameters,
            &mut |stage| stages.push(stage),
            &AtomicBool::new(false),
        )?
        .download(gpu)?;
        assert_eq!(stages, [Stage::Rounds, Stage::Prune]);
        let expected = crate::construct(
            tokens,
            &file_offsets,
            terminal_count,
            parameters,
            &mut |_| {},
        );
        assert_eq!(found.rounds, expected.rounds);
        assert_eq!(found.level_offsets, expected.level_offsets);
        assert!(found.rule_offsets == expected.rule_offsets);
        assert!(found.symbols == expected.symbols);
        assert!(found.root_offsets == expected.root_offsets);
        assert!(found.root == expected.root);
        Ok(found)
    }

    /// Checks that a device builds what the CPU builds.
    fn check(gpu: &Gpu, files: &[Vec<u32>]) -> Result<Constructed, GpuError> {
        built(gpu, files, &Parameters::default())
    }

    /// Words as in text: low ones are frequent.
    fn words(numbers: &mut Numbers, length: usize, end: u32) -> Vec<u32> {
        let below = |end: u32, number: u64| (number % u64::from(end)) as u32;
        let mut word = || {
            let low = below(end, numbers.one()) + 1;
            let lower = below(low, numbers.one()) + 1;
            below(lower, numbers.one())
        };
        (0..length).map(|_| word()).collect()
    }

    /// Runs, repeats and copies next to each other.
    fn repeats(numbers: &mut Numbers, length: usize, alphabet: u32, longest: u32) -> Vec<u32> {
        let mut text: Vec<u32> = Vec::new();
        while text.len() < length {
            let count = 1 + numbers.below(1, longest)[0] as usize;
            let symbols = numbers.below(2, alphabet);
            match numbers.below(1, 4)[0] {
                0 => text.extend(std::iter::repeat_n(symbols[0], count)),
                1 => text.extend(symbols.repeat(count)),
                2 => text.extend(numbers.below(count, alphabet)),
                _ => {
                    let first = numbers.one() as usize % (text.len() + 1);
                    let end = text.len().min(first + count);
                    text.extend_from_within(first..end);
                }
            }
        }
        text
    }

    #[test]
    fn nothing_and_little_equal_the_twin() {
        on_devices(|gpu| {
            check(gpu, &[])?;
            check(gpu, &[vec![]])?;
            check(gpu, &[vec![], vec![0], vec![]])?;
            check(gpu, &[vec![0, 1]])?;
            check(gpu, &[vec![0, 1], vec![0, 1]])?;
            check(gpu, &[vec![0, 0, 0]])?;
            check(gpu, &vec![vec![]; 5_000])?;
            Ok(())
        });
    }

    #[test]
    fn all_short_runs_equal_the_twin() {
        on_devices(|gpu| {
            let run = |length: usize| vec![0; length];
            check(gpu, &(0..70).map(run).collect::<Vec<_>>())?;
            let run = |length: usize| [vec![1], vec![0; length], vec![1]].concat();
            check(gpu, &(0..70).map(run).collect::<Vec<_>>())?;
            for length in [4, 5, 7, 8] {
                check(gpu, &[vec![0; length]])?;
            }
            Ok(())
        });
    }

    #[test]
    fn runs_over_many_tiles_equal_the_twin() {
        on_devices(|gpu| {
            for length in [2047, 2048, 4097, 20_001] {
                check(gpu, &[vec![0; length]])?;
            }
            let odd = [vec![1; 2001], vec![0; 6_001], vec![1; 4_000]].concat();
            check(gpu, &[vec![], odd.clone(), vec![], odd])?;
            for period in [2, 3] {
                check(gpu, &[(0..10_000).map(|i| i % period).collect()])?;
            }
            Ok(())
        });
    }

    #[test]
    fn a_long_run_equals_the_twin() {
        on_devices(|gpu| {
            let length = match gpu.facts().name.as_str() {
                "emulator" => 30_000,
                _ => 10_000_000,
            };
            check(gpu, &[vec![0; length]])?;
            Ok(())
        });
    }

    #[test]
    fn a_round_that_replaces_little_halves_the_threshold() {
        on_devices(|gpu| {
            let mut text: Vec<u32> = Vec::new();
            // Pairs that occur 3 to 8 times, with what occurs once around them.
            for count in 3..=8 {
                for _ in 0..count {
                    let once = 100 + text.len() as u32;
                    text.extend([2 * count, 2 * count + 1, once]);
                }
            }
            text.extend(1_000..9_000);
            let parameters = Parameters {
                alpha_numerator: 1,
                alpha_denominator: 1,
            };
            // Rounds at the thresholds 8, 4 and 3.
            assert_eq!(built(gpu, &[text], &parameters)?.rounds, 3);
            Ok(())
        });
    }

    #[test]
    fn texts_that_repeat_themselves_equal_the_twin() {
        on_devices(|gpu| {
            let mut numbers = Numbers::new(1);
            for (alphabet, longest) in [(1, 3), (2, 30), (3, 1), (5, 200), (30, 9)] {
                let text = repeats(&mut numbers, 7_000, alphabet, longest);
                check(gpu, &[text[..1000].to_vec(), vec![], text[1000..].to_vec()])?;
            }
            Ok(())
        });
    }

    #[test]
    fn words_in_several_files_equal_the_twin_with_any_alpha() {
        on_devices(|gpu| {
            let mut numbers = Numbers::new(2);
            let mut files: Vec<Vec<u32>> = [3_000, 0, 9_000, 1]
                .map(|length| words(&mut numbers, length, 2_000))
                .to_vec();
            files.push(files[2].clone());
            for (alpha_numerator, alpha_denominator) in [(1, 10), (0, 1), (1, 2), (u32::MAX, 1)] {
                let parameters = Parameters {
                    alpha_numerator,
                    alpha_denominator,
                };
                built(gpu, &files, &parameters)?;
            }
            Ok(())
        });
    }

    #[test]
    fn levels_of_many_rules_equal_the_twin() {
        on_devices(|gpu| {
            // Each pair stands alone, three times.
            let text: Vec<u32> = (0..4_200u32)
                .flat_map(|i| [i % 1_400 * 2, i % 1_400 * 2 + 1, 2_800 + i])
                .collect();
            let parameters = Parameters {
                alpha_numerator: 0,
                alpha_denominator: 1,
            };
            let grammar = built(gpu, &[text], &parameters)?;
            assert_eq!(grammar.level_offsets, [0, 1_400]);
            Ok(())
        });
    }

    #[test]
    fn counts_that_fall_along_a_text_make_the_same_depth() {
        on_devices(|gpu| {
            let text: Vec<u32> = (0..130).collect();
            let files: Vec<Vec<u32>> = (1..=text.len()).map(|end| text[..end].to_vec()).collect();
            let grammar = check(gpu, &files)?;
            // Deeper than where priorities change.
            assert!(grammar.rounds > 64, "{} rounds", grammar.rounds);
            Ok(())
        });
    }

    #[test]
    fn long_equal_and_nested_bodies_equal_the_twin() {
        on_devices(|gpu| {
            let text: Vec<u32> = (0..3_000).collect();
            let grammar = check(gpu, &[text.repeat(2)])?;
            assert_eq!(grammar.level_offsets.len(), 2);
            let text = [&text[..700], &text[..300], &text[..700], &text[200..900]].concat();
            check(gpu, &[text.repeat(3), text])?;
            Ok(())
        });
    }

    #[test]
    fn stop_ends_it() {
        on_devices(|gpu| {
            let stop = AtomicBool::new(true);
            let tokens = vec![0; 100];
            let parameters = Parameters::default();
            let found = construct(gpu, &tokens, &[0, 100], 1, &parameters, &mut |_| {}, &stop);
            assert!(matches!(found, Err(GpuError::Stopped(_))));
            Ok(())
        });
    }
}
