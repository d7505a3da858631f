//! The words at the ends of a file.

use zipfdb_kernels::GrammarView;

/// The first `count` words of a file, or with `from_end` the last ones; in order of the text.
pub(crate) fn edge_words(
    view: GrammarView<'_>,
    file: u32,
    count: usize,
    from_end: bool,
) -> Vec<u32> {
    let mut words = Vec::with_capacity(count.min(64));
    let mut stack = vec![view.file_root(file)];
    while let Some(symbols) = stack.last_mut() {
        if words.len() == count {
            break;
        }
        let next = if from_end {
            symbols.split_last()
        } else {
            symbols.split_first()
        };
        let Some((&symbol, rest)) = next else {
            stack.pop();
            continue;
        };
        *symbols = rest;
        match view.rule(symbol) {
            None => words.push(symbol),
            Some(rule) => stack.push(view.body(rule)),
        }
    }
    if from_end {
        words.reverse();
    }
    words
}
