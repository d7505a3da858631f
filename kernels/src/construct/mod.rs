//! Grammar construction: terminals in, a pruned and numbered grammar out.
//!
//! The driver of three stages, each a module of its own: [`pair_rounds`]
//! replaces repeated pairs by rules, [`prune`] inlines the rules that do not
//! pay, [`renumber`] orders what is left by level and body. The invariant: the
//! result is a function of the arguments alone, never of threads or memory.
//! This module knows nothing of text; a terminal is a number.
//!
//! [`pair_rounds`]: crate::construct::pair_rounds
//! [`prune`]: crate::construct::prune
//! [`renumber`]: crate::construct::renumber

pub(crate) mod construct_gpu;
pub(crate) mod constructed;
pub(crate) mod intern_gpu;
pub(crate) mod pair_rounds;
pub(crate) mod pair_rounds_gpu;
pub(crate) mod pairs;
pub(crate) mod prune;
pub(crate) mod prune_gpu;
pub(crate) mod renumber;
pub(crate) mod renumber_gpu;
pub(crate) mod step;
pub mod symbol_coder_gpu;

use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::construct::constructed::{Constructed, Parameters, Round, Stage};
use crate::memory::huge_pages::on_huge_pages;
use crate::stop::{self, Stopped};

/// Tokens and files that [`construct`] takes at most, together.
pub const TOKENS_MAX: usize = 5 << 28;

/// An empty array with room for `tokens` tokens of `files` files and for what construction puts between them, since it works in
/// the same memory. `None` if the system has no memory for it.
pub fn token_buffer(tokens: usize, files: usize) -> Option<Vec<u32>> {
    let mut buffer = Vec::new();
    let room = pair_rounds::room(tokens, files);
    buffer.try_reserve_exact(room).ok()?;
    Some(on_huge_pages(buffer))
}

/// Builds the grammar of some files.
///
/// `tokens` holds the terminals of all files one after the other, each below
/// `terminal_count`; its memory is worked in, see [`token_buffer`]. `file_offsets` is `[files + 1]`
/// into it. `on_stage` is called as each stage begins.
///
/// Takes memory of about 14 bytes a token at its peak, the tokens included, and time
/// in proportion to the sum of the rounds' lengths, some ten times the tokens.
///
/// # Panics
///
/// When `file_offsets` does not rise from 0 to `tokens.len()`, a token is not
/// below `terminal_count`, alpha's denominator is 0, there are more tokens and
/// files than [`TOKENS_MAX`], or ids could run out:
/// `terminal_count + tokens.len() / 2` is `u32::MAX` at most.
pub fn construct(
    tokens: Vec<u32>,
    file_offsets: &[u32],
    terminal_count: u32,
    parameters: &Parameters,
    on_stage: &mut dyn FnMut(Stage),
) -> Constructed {
    let on_round = &mut |_: &Round| {};
    let never = AtomicBool::new(false);
    let constructed = construct_observed(
        tokens,
        file_offsets,
        terminal_count,
        parameters,
        on_stage,
        on_round,
        &never,
    );
    constructed.expect("the flag is never set")
}

/// As [`construct`], calls `on_round` after each round, and ends early when `stop` is set.
///
/// # Errors
///
/// [`Stopped`], some passes over the tokens after `stop` was set: the flag is checked between passes.
pub fn construct_observed(
    mut tokens: Vec<u32>,
    file_offsets: &[u32],
    terminal_count: u32,
    parameters: &Parameters,
    on_stage: &mut dyn FnMut(Stage),
    on_round: &mut dyn FnMut(&Round),
    stop: &AtomicBool,
) -> Result<Constructed, Stopped> {
    check(&tokens, file_offsets, terminal_count, parameters);
    on_stage(Stage::Rounds);
    let files = file_offsets.len() - 1;
    pair_rounds::insert_separators(&mut tokens, file_offsets);
    let paired =
        pair_rounds::pair_rounds(tokens, files, terminal_count, parameters, on_round, stop)?;
    on_stage(Stage::Prune);
    let rounds = paired.rounds;
    let pruned = prune::prune(paired, terminal_count);
    stop::check(stop)?;
    Ok(renumber::renumber(pruned, terminal_count, rounds))
}

fn check(tokens: &[u32], file_offsets: &[u32], terminal_count: u32, parameters: &Parameters) {
    assert!(parameters.alpha_denominator > 0, "alpha has denominator 0");
    assert!(
        file_offsets.first() == Some(&0),
        "file offsets do not begin with 0"
    );
    assert!(
        file_offsets.last().map(|&end| end as usize) == Some(tokens.len()),
        "file offsets do not end with the number of tokens"
    );
    assert!(
        file_offsets.is_sorted(),
        "file offsets are not in ascending order"
    );
    assert!(
        tokens.len() + file_offsets.len() - 1 <= TOKENS_MAX,
        "more tokens and files than fit into one grammar"
    );
    // Every rule shortens the sequence by two symbols at least.
    assert!(
        u64::from(terminal_count) + tokens.len() as u64 / 2 <= u64::from(u32::MAX),
        "the ids of terminals and rules together could exceed 32 bits"
    );
    let tokens = tokens.par_iter().with_min_len(1 << 14);
    assert!(
        tokens.max().is_none_or(|&token| token < terminal_count),
        "a token is not below the number of terminals"
    );
}
