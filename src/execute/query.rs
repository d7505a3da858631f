//! SELECT: which rows a query gives, in which order, and how each is made.
//!
//! Each source of rows has one function here. It collects small items (a file,
//! a word and its count, an offset), orders and cuts them, and returns rows that
//! are made from the items one by one.

use std::cmp::Ordering;
use std::sync::Arc;

use zipfdb_sql::plan::{
    CorporaColumn, Counted, FilesColumn, Keys, OccurrencesColumn, Query, Rows as Source,
    SegmentsColumn, WordCountsColumn,
};
use zipfdb_sql::{Value, substr_range};
use zipfdb_storage::SegmentInfo;

use super::order::Order;
use crate::rows::{Column, Row, Rows};
use crate::snapshot::{FileSummary, Snapshot};
use crate::{Database, Result};

/// Answers a query.
pub(super) fn query(database: &Database, query: Query) -> Result<Rows> {
    let output = Output {
        columns: query.columns.into_iter().map(Column::new).collect(),
    };
    let order = Order {
        order_by: &query.order_by,
        limit: query.limit,
        offset: query.offset,
    };
    match query.rows {
        Source::Corpora { corpora, columns } => {
            let items = corpora_items(database, &corpora)?;
            output.rows(items_by_value(
                items,
                columns.len(),
                &order,
                |item, column| item.value(columns[column]),
            ))
        }
        Source::Segments { corpus, columns } => {
            let items = database.corpus(&corpus)?.segments()?;
            output.rows(items_by_value(
                items,
                columns.len(),
                &order,
                |item, column| segment_value(item, columns[column]),
            ))
        }
        Source::Files {
            corpus,
            files,
            columns,
        } => {
            let snapshot = database.corpus(&corpus)?.snapshot()?;
            files_rows(output, snapshot, &files, columns, &order)
        }
        Source::WordCounts {
            corpus,
            files,
            words,
            columns,
        } => {
            let snapshot = database.corpus(&corpus)?.snapshot()?;
            let items =
                order.apply(
                    word_counts(&snapshot, &files, &words)?,
                    |a, b, column| match columns[column] {
                        WordCountsColumn::Word => a.0.cmp(&b.0),
                        WordCountsColumn::Count => a.1.cmp(&b.1),
                    },
                );
            let width = output.columns.len();
            output.rows(items.into_iter().map(move |(word, count)| {
                let shown = columns[..width].iter();
                let values = shown.map(|column| match column {
                    WordCountsColumn::Word => text(word.clone()),
                    WordCountsColumn::Count => integer(count),
                });
                Ok(Row::new(values.collect()))
            }))
        }
        Source::Occurrences {
            corpus,
            files,
            words,
            columns,
        } => {
            let snapshot = database.corpus(&corpus)?.snapshot()?;
            occurrences_rows(output, snapshot, &files, words, columns, &order)
        }
        Source::Count(counted) => {
            let row = vec![integer(count(database, counted)?); output.columns.len()];
            let items = order.apply(vec![row], |_, _, _| Ordering::Equal);
            output.rows(items.into_iter().map(|values| Ok(Row::new(values))))
        }
    }
}

/// The columns of the answer; rows may be made from more columns than are shown.
struct Output {
    columns: Vec<Column>,
}

impl Output {
    fn rows(self, rows: impl Iterator<Item = Result<Row>> + Send + 'static) -> Result<Rows> {
        let width = self.columns.len();
        let shown = rows.map(move |row| {
            let mut values = row?.into_values();
            values.truncate(width);
            Ok(Row::new(values))
        });
        Ok(Rows::new(self.columns, shown))
    }
}

/// Rows of items whose values are cheap: all of them are made first, then ordered.
fn items_by_value<T>(
    items: Vec<T>,
    width: usize,
    order: &Order<'_>,
    value: impl Fn(&T, usize) -> Value,
) -> std::vec::IntoIter<Result<Row>> {
    let rows: Vec<Vec<Value>> = items
        .iter()
        .map(|item| (0..width).map(|column| value(item, column)).collect())
        .collect();
    let rows = order.apply(rows, |a, b, column| a[column].compare(&b[column]));
    let rows: Vec<Result<Row>> = rows
        .into_iter()
        .map(|values| Ok(Row::new(values)))
        .collect();
    rows.into_iter()
}

/// A row of `corpora()`.
struct CorpusItem {
    name: String,
    tokenizer: &'static str,
    segments: u64,
    files: u64,
    bytes: u64,
    words: u64,
    size: u64,
}

impl CorpusItem {
    fn value(&self, column: CorporaColumn) -> Value {
        match column {
            CorporaColumn::Corpus => Value::Text(self.name.clone()),
            CorporaColumn::Tokenizer => Value::Text(self.tokenizer.to_owned()),
            CorporaColumn::Segments => integer(self.segments),
            CorporaColumn::Files => integer(self.files),
            CorporaColumn::Bytes => integer(self.bytes),
            CorporaColumn::Words => integer(self.words),
            CorporaColumn::Size => integer(self.size),
            CorporaColumn::Ratio => ratio(self.size, self.bytes),
        }
    }
}

fn corpora_items(database: &Database, corpora: &Keys) -> Result<Vec<CorpusItem>> {
    let names = database.corpora();
    let wanted = names.into_iter().filter(|name| has(corpora, name));
    wanted
        .map(|name| {
            let corpus = database.corpus(&name)?;
            let segments = corpus.segments()?;
            let sum = |part: fn(&SegmentInfo) -> u64| segments.iter().map(part).sum();
            Ok(CorpusItem {
                tokenizer: corpus.settings()?.tokenizer.name(),
                segments: segments.len() as u64,
                files: corpus.snapshot()?.files().len() as u64,
                bytes: sum(|segment| segment.bytes),
                words: sum(|segment| segment.words),
                size: sum(|segment| segment.size),
                name,
            })
        })
        .collect()
}

fn segment_value(segment: &SegmentInfo, column: SegmentsColumn) -> Value {
    match column {
        SegmentsColumn::Segment => integer(segment.segment_id),
        SegmentsColumn::Files => integer(segment.files.into()),
        SegmentsColumn::Bytes => integer(segment.bytes),
        SegmentsColumn::Words => integer(segment.words),
        SegmentsColumn::Size => integer(segment.size),
        SegmentsColumn::Tokens => integer(segment.tokens.into()),
        SegmentsColumn::Rules => integer(segment.rules.into()),
        SegmentsColumn::Depth => integer(segment.levels.into()),
        SegmentsColumn::Symbols => integer(segment.symbols),
        SegmentsColumn::RootSymbols => integer(segment.root_symbols),
        SegmentsColumn::Ratio => ratio(segment.size, segment.bytes),
        SegmentsColumn::Section(index) => match segment.sections.get(index) {
            Some((_, size)) => integer(*size),
            None => Value::Null,
        },
    }
}

/// Rows of `files('c')`. Content is fetched when its row is asked for, unless it decides the order.
fn files_rows(
    output: Output,
    snapshot: Snapshot,
    files: &Keys,
    columns: Vec<FilesColumn>,
    order: &Order<'_>,
) -> Result<Rows> {
    let snapshot = Arc::new(snapshot);
    let value = {
        let snapshot = snapshot.clone();
        move |file: &FileSummary, column: FilesColumn| file_value(&snapshot, file, column)
    };
    let wanted = selected(&snapshot, files);
    let sorts_by_content = order.order_by.iter().any(|key| {
        matches!(
            columns[key.column],
            FilesColumn::Content | FilesColumn::Substr { .. }
        )
    });
    let items: Vec<FileSummary> = if sorts_by_content {
        let mut keyed = Vec::with_capacity(wanted.len());
        for file in wanted {
            let keys: Result<Vec<Value>> = columns
                .iter()
                .enumerate()
                .map(
                    |(index, column)| match order.order_by.iter().any(|key| key.column == index) {
                        true => value(&file, *column),
                        false => Ok(Value::Null),
                    },
                )
                .collect();
            keyed.push((keys?, file));
        }
        let ordered = order.apply(keyed, |a, b, column| a.0[column].compare(&b.0[column]));
        ordered.into_iter().map(|(_, file)| file).collect()
    } else {
        order.apply(wanted, |a, b, column| match columns[column] {
            FilesColumn::File => a.name.cmp(&b.name),
            FilesColumn::Bytes => a.bytes.cmp(&b.bytes),
            FilesColumn::Words => a.words.cmp(&b.words),
            FilesColumn::Content | FilesColumn::Substr { .. } | FilesColumn::Null => {
                Ordering::Equal
            }
        })
    };
    let width = output.columns.len();
    output.rows(items.into_iter().map(move |file| {
        let shown = columns[..width].iter();
        let values: Result<Vec<Value>> = shown.map(|column| value(&file, *column)).collect();
        Ok(Row::new(values?))
    }))
}

fn file_value(snapshot: &Snapshot, file: &FileSummary, column: FilesColumn) -> Result<Value> {
    Ok(match column {
        FilesColumn::File => Value::Text(file.name.clone()),
        FilesColumn::Content => Value::Blob(snapshot.extract(&file.name, 0, file.bytes)?),
        FilesColumn::Bytes => integer(file.bytes),
        FilesColumn::Words => integer(file.words),
        FilesColumn::Substr { start, length } => {
            let range = substr_range(start, length, file.bytes);
            Value::Blob(snapshot.extract(&file.name, range.start, range.end - range.start)?)
        }
        FilesColumn::Null => Value::Null,
    })
}

/// Each word that is wanted and occurs in the files that are wanted, with its count, in order of its bytes.
fn word_counts(snapshot: &Snapshot, files: &Keys, words: &Keys) -> Result<Vec<(Vec<u8>, u64)>> {
    if let Keys::These(words) = words {
        let counted = words.iter().map(|word| {
            let count = count_word(snapshot, files, word)?;
            Ok((word.clone().into_bytes(), count))
        });
        let counted: Result<Vec<_>> = counted.collect();
        return Ok(counted?.into_iter().filter(|item| item.1 > 0).collect());
    }
    if matches!(files, Keys::All) {
        return snapshot.word_count();
    }
    let mut all = Vec::new();
    for file in selected(snapshot, files) {
        all.extend(snapshot.word_count_of(&file.name)?);
    }
    all.sort_unstable();
    all.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
    Ok(all)
}

/// Rows of the occurrences of words: by file, then offset, unless the query orders them otherwise.
fn occurrences_rows(
    output: Output,
    snapshot: Snapshot,
    files: &Keys,
    words: Vec<String>,
    columns: Vec<OccurrencesColumn>,
    order: &Order<'_>,
) -> Result<Rows> {
    /// An occurrence: its file and its word by index, and where it is.
    struct Occurrence {
        file: usize,
        offset: u64,
        word: usize,
    }
    let names: Vec<String> = match files {
        Keys::All => snapshot
            .files()
            .iter()
            .map(|file| file.name.clone())
            .collect(),
        Keys::These(_) => selected(&snapshot, files)
            .into_iter()
            .map(|file| file.name)
            .collect(),
    };
    let mut items = Vec::new();
    for (word_index, word) in words.iter().enumerate() {
        let found: Vec<(String, Vec<u64>)> = match files {
            Keys::All => snapshot.search(word)?,
            Keys::These(_) => {
                let pairs: Vec<(&str, &str)> = names
                    .iter()
                    .map(|name| (name.as_str(), word.as_str()))
                    .collect();
                let offsets = snapshot.search_many(&pairs)?;
                names.iter().cloned().zip(offsets).collect()
            }
        };
        for (file, offsets) in found {
            let file = names
                .binary_search(&file)
                .expect("a search finds files of its snapshot only");
            items.extend(offsets.into_iter().map(|offset| Occurrence {
                file,
                offset,
                word: word_index,
            }));
        }
    }
    items.sort_unstable_by_key(|item| (item.file, item.offset));
    // Names and words are sorted, so their indices order as they do.
    let items = order.apply(items, |a, b, column| match columns[column] {
        OccurrencesColumn::File => a.file.cmp(&b.file),
        OccurrencesColumn::Word => a.word.cmp(&b.word),
        OccurrencesColumn::Offset => a.offset.cmp(&b.offset),
        OccurrencesColumn::Length => words[a.word].len().cmp(&words[b.word].len()),
    });
    let width = output.columns.len();
    output.rows(items.into_iter().map(move |item| {
        let shown = columns[..width].iter();
        let values = shown.map(|column| match column {
            OccurrencesColumn::File => Value::Text(names[item.file].clone()),
            OccurrencesColumn::Word => Value::Text(words[item.word].clone()),
            OccurrencesColumn::Offset => integer(item.offset),
            OccurrencesColumn::Length => integer(words[item.word].len() as u64),
        });
        Ok(Row::new(values.collect()))
    }))
}

fn count(database: &Database, counted: Counted) -> Result<u64> {
    Ok(match counted {
        Counted::Corpora { corpora } => {
            let names = database.corpora();
            names.iter().filter(|name| has(&corpora, name)).count() as u64
        }
        Counted::Segments { corpus } => database.corpus(&corpus)?.segments()?.len() as u64,
        Counted::Files { corpus, files } => {
            let snapshot = database.corpus(&corpus)?.snapshot()?;
            selected(&snapshot, &files).len() as u64
        }
        Counted::Words {
            corpus,
            files,
            words,
        } => {
            let snapshot = database.corpus(&corpus)?.snapshot()?;
            match words {
                Keys::All => selected(&snapshot, &files)
                    .iter()
                    .map(|file| file.words)
                    .sum(),
                Keys::These(words) => {
                    let counts = words.iter().map(|word| count_word(&snapshot, &files, word));
                    counts.sum::<Result<u64>>()?
                }
            }
        }
    })
}

fn count_word(snapshot: &Snapshot, files: &Keys, word: &str) -> Result<u64> {
    if matches!(files, Keys::All) {
        return snapshot.count(word);
    }
    let names = selected(snapshot, files);
    let pairs: Vec<(&str, &str)> = names
        .iter()
        .map(|file| (file.name.as_str(), word))
        .collect();
    Ok(snapshot.count_many(&pairs)?.into_iter().sum())
}

/// The files that are wanted and exist, in order of name.
fn selected(snapshot: &Snapshot, files: &Keys) -> Vec<FileSummary> {
    match files {
        Keys::All => snapshot.files().to_vec(),
        Keys::These(names) => {
            let found = names.iter().filter_map(|name| snapshot.file(name));
            found.cloned().collect()
        }
    }
}

fn has(keys: &Keys, name: &str) -> bool {
    match keys {
        Keys::All => true,
        Keys::These(names) => names.iter().any(|key| key == name),
    }
}

/// A word as SQL sees it: text, or a blob where its bytes are not UTF-8.
fn text(bytes: Vec<u8>) -> Value {
    match String::from_utf8(bytes) {
        Ok(text) => Value::Text(text),
        Err(error) => Value::Blob(error.into_bytes()),
    }
}

/// Counts and offsets are far below 2^63: a database of that size does not exist.
fn integer(value: u64) -> Value {
    Value::Integer(i64::try_from(value).unwrap_or(i64::MAX))
}

fn ratio(size: u64, bytes: u64) -> Value {
    match bytes {
        0 => Value::Null,
        bytes => Value::Real(size as f64 / bytes as f64),
    }
}
