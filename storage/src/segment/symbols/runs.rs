//! The symbols of chunks: which of them are coded, one after the other, and what is before the first.

use super::model::Chunk;
use crate::Grammar;

/// A run of symbols coded one after the other: what is before it, if that is known, and the symbols.
pub type Run<'a> = (Option<u32>, &'a [u32]);

/// The runs of a chunk: one a body, less its first symbol; or one piece of the root.
pub fn runs<'a>(grammar: &'a Grammar, chunk: &Chunk) -> impl Iterator<Item = Run<'a>> + use<'a> {
    let (rules, root) = match chunk {
        Chunk::Bodies(chunk) => (chunk.rules.clone(), None),
        Chunk::Root(range) => (0..0, Some((None, &grammar.root[range.clone()]))),
    };
    let bodies = rules.map(|rule| {
        let body = grammar.body(rule as u32); // rules fit u32
        (Some(body[0]), &body[1..])
    });
    bodies.chain(root)
}

/// How many symbols a chunk codes.
pub fn coded_symbols(grammar: &Grammar, chunk: &Chunk) -> usize {
    match chunk {
        Chunk::Bodies(chunk) => {
            let symbols =
                grammar.rule_offsets[chunk.rules.end] - grammar.rule_offsets[chunk.rules.start];
            symbols as usize - chunk.rules.len()
        }
        Chunk::Root(range) => range.len(),
    }
}
