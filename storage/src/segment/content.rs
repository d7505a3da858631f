//! Verifies that a segment's grammar expands to the files in its table.

use super::coding::Fault;
use super::{Dictionary, FileEntry};
use crate::Grammar;
use rayon::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// Expands every file and compares size, words and checksum; stops a file as soon as it is too long. Ends soon with any answer
/// once `stop` is set.
pub fn verify(
    files: &[FileEntry],
    dictionary: &Dictionary,
    grammar: &Grammar,
    stop: &AtomicBool,
) -> Result<(), Fault> {
    let go_on = || {
        if stop.load(Ordering::Relaxed) {
            Err(Fault("the verification was stopped"))
        } else {
            Ok(())
        }
    };
    // The caller has one root for each file.
    files.par_iter().enumerate().try_for_each(|(index, file)| {
        expand(
            file,
            grammar.root_of(index as u32),
            dictionary,
            grammar,
            |_| go_on(),
        )
    })
}

/// Expands a file part by part, and compares size, words and checksum. `take` says whether to go on.
pub fn expand<E: From<Fault>>(
    file: &FileEntry,
    root: &[u32],
    dictionary: &Dictionary,
    grammar: &Grammar,
    mut take: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut take = |hasher: &mut crc32fast::Hasher, bytes: &[u8]| {
        hasher.update(bytes);
        take(bytes)
    };
    let mut hasher = crc32fast::Hasher::new();
    let mut buffer = Vec::with_capacity(BUFFER);
    let (mut bytes, mut words) = (0u64, 0u64);
    let mut stack = vec![root];
    while let Some(symbols) = stack.last_mut() {
        let Some((&symbol, rest)) = symbols.split_first() else {
            stack.pop();
            continue;
        };
        *symbols = rest;
        match symbol.checked_sub(grammar.terminal_count) {
            Some(rule) => {
                if rest.is_empty() {
                    stack.pop(); // keeps the stack as short as the levels
                }
                stack.push(grammar.body(rule));
            }
            None => {
                let token = dictionary.token(symbol);
                bytes += token.len() as u64;
                words += u64::from(symbol < dictionary.word_tokens());
                if bytes > file.bytes {
                    return Err(Fault("a file is longer than the file table says").into());
                }
                if buffer.len() + token.len() > BUFFER {
                    take(&mut hasher, &buffer)?;
                    buffer.clear();
                }
                if token.len() > BUFFER {
                    take(&mut hasher, token)?;
                } else {
                    buffer.extend_from_slice(token);
                }
            }
        }
    }
    take(&mut hasher, &buffer)?;
    if bytes != file.bytes {
        return Err(Fault("a file is shorter than the file table says").into());
    }
    if words != file.words {
        return Err(Fault("a file has not as many words as the file table says").into());
    }
    if hasher.finalize() != file.crc32 {
        let fault = Fault("the checksum of a file's content is not that of the file table");
        return Err(fault.into());
    }
    Ok(())
}

/// Bytes that are hashed at once.
const BUFFER: usize = 1 << 15;
