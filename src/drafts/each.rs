//! A pass over the text of all files, chunk by chunk, in any order.

use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use rayon::prelude::*;
use zipfdb_storage::CorpusSettings;

use super::pipeline::{chunk_bytes, unreadable};
use super::read::{Chunk, DraftReader, read_file};
use super::texts::Texts;
use crate::Result;
use crate::runtime::interrupt::check;

/// Calls `visit` with each text or chunk of a text and its number, on all threads of the current pool and in any order. Returns
/// the results.
///
/// # Errors
/// [`crate::Error::Unreadable`] of a text that cannot be read, [`crate::Error::Interrupted`] once `stop` is set.
pub(crate) fn each_text<A: Send>(
    texts: &dyn Texts,
    settings: &CorpusSettings,
    stop: &AtomicBool,
    visit: impl Fn(usize, &[u8]) -> A + Sync,
) -> Result<Vec<(usize, A)>> {
    let bytes = chunk_bytes(settings);
    let reader = DraftReader::new(texts, settings.tokenizer, bytes, bytes);
    let reader = Mutex::new(reader);
    let workers = (0..rayon::current_num_threads()).into_par_iter();
    let found = workers.map(|_| {
        let (mut text, mut found) = (Vec::new(), Vec::new());
        loop {
            check(stop)?;
            let chunk = reader.lock().next(&mut text, stop);
            match chunk.map_err(|failure| unreadable(texts, failure.source, &failure.error))? {
                None => return Ok(found),
                Some(Chunk::Part { source, unread, .. }) => {
                    unread
                        .map_or(Ok(()), |part| part.read(&mut text))
                        .map_err(|error| unreadable(texts, source, &error))?;
                    found.push((source, visit(source, &text)));
                }
                Some(Chunk::Files(sources)) => {
                    for source in sources {
                        read_file(texts, source, &mut text)
                            .map_err(|error| unreadable(texts, source, &error))?;
                        found.push((source, visit(source, &text)));
                    }
                }
            }
        }
    });
    let found: Vec<Vec<(usize, A)>> = found.collect::<Result<_>>()?;
    Ok(found.into_iter().flatten().collect())
}
