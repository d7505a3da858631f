//! Many small files out of large ones, as data set A of G-TADOC has them: 134,631 files of web pages and mail.
//!
//! The same texts and number give the same files. They are cut at the ends of lines where lines are short enough.

use std::fs;
use std::io::Read;
use std::path::Path;

use crate::Result;
use crate::corpus::Corpus;

/// Files of a directory.
const DIRECTORY_FILES: usize = 1_000;

/// Writes the texts of all corpora, one after the other, as `count` files of about equal size below `directory`.
pub fn split(corpora: &[Corpus], count: usize, directory: &Path) -> Result<()> {
    let mut text = Vec::new();
    for corpus in corpora {
        corpus.reader().read_to_end(&mut text)?;
    }
    let mut start = 0;
    for file in 0..count {
        let end = match file + 1 {
            last if last == count => text.len(),
            next => cut(&text, start, text.len() / count * next, text.len() / count),
        };
        let folder = directory.join(format!("{:03}", file / DIRECTORY_FILES));
        if file % DIRECTORY_FILES == 0 {
            fs::create_dir_all(&folder)?;
        }
        fs::write(folder.join(format!("{file:06}.txt")), &text[start..end])?;
        start = end;
    }
    Ok(())
}

/// Where the file that begins at `start` ends: behind the last line end of those about `size` bytes that end at `target`,
/// without one behind the last space, without one at a character.
fn cut(text: &[u8], start: usize, target: usize, size: usize) -> usize {
    let from = start.max(target.saturating_sub(size / 2)).min(target);
    let window = &text[from..target];
    let after_last = |byte: u8| window.iter().rposition(|&other| other == byte);
    match after_last(b'\n').or_else(|| after_last(b' ')) {
        Some(at) => from + at + 1,
        None => {
            let is_start = |&at: &usize| text[at] & 0xc0 != 0x80;
            (target.max(start)..text.len())
                .find(is_start)
                .unwrap_or(text.len())
        }
    }
}
