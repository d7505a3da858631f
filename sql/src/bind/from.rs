//! FROM: the relation that a SELECT reads, and its columns by their names.
//!
//! Invariant: a relation has all its arguments within their bounds, and the columns here are in the order of the
//! relation's own enum, so that their index is the one of `Expression::Column`.

use std::cell::OnceCell;
use std::collections::HashMap;

use super::Binder;
use super::blocks::{Blocks, BoundSelect, Column};
use crate::error::{Error, Hint, NameKind, Result, quote, shorten};
use crate::functions;
use crate::query::{
    Affinity, CachesColumn, CorporaColumn, DevicesColumn, FilesColumn, FilesWithColumn,
    IndexesColumn, NgramsColumn, Relation, SegmentsColumn, SettingsColumn, Source,
    TermVectorsColumn, WordsColumn,
};
use crate::suggest::{did_you_mean, nearest};
use crate::syntax::{Argument, From, FromKind, Name, Operand};
use crate::value::Value;

/// Words of an n-gram, at most.
const NGRAM_WORDS_MAX: i64 = 8;

/// Words of each file in a term vector by default.
const TERM_VECTOR_WORDS: u64 = 10;

/// What FROM makes known.
pub(super) struct Scope<'a> {
    pub(super) source: Source,
    pub(super) columns: Vec<Column>,
    /// What may stand before the dot of a column.
    table: Option<&'a str>,
    names: NameIndex,
}

/// Finds names without regard to the case of ASCII letters; the first of equal ones.
#[derive(Debug, Default)]
pub(super) struct NameIndex(OnceCell<HashMap<String, usize>>);

impl NameIndex {
    /// Names up to this many are compared one by one.
    const FEW: usize = 16;

    pub(super) fn find<'n, I>(&self, names: I, wanted: &str) -> Option<usize>
    where
        I: ExactSizeIterator<Item = Option<&'n str>>,
    {
        if names.len() <= NameIndex::FEW {
            let mut names = names;
            return names
                .position(|name| name.is_some_and(|name| name.eq_ignore_ascii_case(wanted)));
        }
        let index = self.0.get_or_init(|| {
            let mut index = HashMap::with_capacity(names.len());
            for (at, name) in names.enumerate() {
                if let Some(name) = name {
                    index.entry(name.to_ascii_lowercase()).or_insert(at);
                }
            }
            index
        });
        index.get(&wanted.to_ascii_lowercase()).copied()
    }
}

macro_rules! columns_of {
    ($columns:ty) => {
        <$columns>::ALL
            .iter()
            .map(|column| Column::new(column.name(), column.affinity()))
            .collect::<Vec<Column>>()
    };
}

impl<'a> Scope<'a> {
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        let names = self.columns.iter().map(|column| Some(column.name.as_ref()));
        self.names.find(names, name)
    }

    pub(super) fn new(source: Source, columns: Vec<Column>, table: Option<&'a str>) -> Scope<'a> {
        Scope {
            source,
            columns,
            table,
            names: NameIndex::default(),
        }
    }
}

impl Binder<'_> {
    /// Binds FROM; `bound` are the SELECTs before this one. The blocks of a view are added.
    pub(super) fn from<'a>(
        &self,
        from: Option<&'a From>,
        bound: &[BoundSelect],
        blocks: &mut Blocks,
    ) -> Result<Scope<'a>> {
        let Some(From { kind, alias }) = from else {
            return Ok(Scope::new(Source::Nothing, Vec::new(), None));
        };
        let alias = alias.as_ref().map(|alias| alias.text.as_str());
        Ok(match kind {
            FromKind::Subquery(select) => {
                let BoundSelect { block, columns } = &bound[*select];
                Scope::new(Source::Block(*block), columns.clone(), alias)
            }
            FromKind::Union(selects) => {
                let blocks = selects.iter().map(|select| bound[*select].block).collect();
                let mut columns = Vec::new();
                if let Some((first, rest)) = selects.split_first() {
                    columns = bound[*first].columns.clone();
                    for (index, column) in columns.iter_mut().enumerate() {
                        let mut others = rest.iter().map(|select| &bound[*select].columns[index]);
                        if others.any(|other| other.affinity != column.affinity) {
                            column.affinity = Affinity::None;
                        }
                    }
                }
                Scope::new(Source::Union(blocks), columns, alias)
            }
            FromKind::Corpus(name) => {
                if self.find_corpus(&name.text).is_none()
                    && let Some(view) = self.find_view(&name.text)
                {
                    let BoundSelect { block, columns } = self.view(name, &view, blocks)?;
                    let table = alias.or(Some(&name.text));
                    return Ok(Scope::new(Source::Block(block), columns, table));
                }
                let corpus = self.corpus(&name.text, name.at)?;
                let source = Source::Relation(Relation::Words { corpus });
                Scope::new(source, columns_of!(WordsColumn), alias.or(Some(&name.text)))
            }
            FromKind::TableFunction { name, arguments } => {
                let (relation, columns) = self.table_function(name, arguments)?;
                let source = Source::Relation(relation);
                Scope::new(source, columns, alias.or(Some(&name.text)))
            }
        })
    }

    /// The files of a corpus, whose columns may have this name before their dots.
    pub(super) fn files_scope<'a>(&self, relation: Relation, table: &'a str) -> Scope<'a> {
        let source = Source::Relation(relation);
        Scope::new(source, columns_of!(FilesColumn), Some(table))
    }

    fn table_function(
        &self,
        name: &Name,
        arguments: &[Argument],
    ) -> Result<(Relation, Vec<Column>)> {
        let function = name.text.to_ascii_lowercase();
        let call = TableCall {
            binder: self,
            name,
            arguments,
        };
        Ok(match function.as_str() {
            "corpora" => {
                call.take([], "no arguments")?;
                (Relation::Corpora, columns_of!(CorporaColumn))
            }
            "devices" => {
                call.take([], "no arguments")?;
                (Relation::Devices, columns_of!(DevicesColumn))
            }
            "settings" => {
                call.take([], "no arguments")?;
                (Relation::Settings, columns_of!(SettingsColumn))
            }
            "segments" => {
                let [corpus] = call.take(["corpus"], CORPUS)?;
                let mut columns = columns_of!(SegmentsColumn);
                let sections = self.schema.section_columns().into_iter();
                columns.extend(sections.map(|name| Column::new(name, Affinity::Integer)));
                let corpus = call.corpus(corpus, CORPUS)?;
                (Relation::Segments { corpus }, columns)
            }
            "indexes" => {
                let [corpus] = call.take(["corpus"], CORPUS)?;
                let corpus = call.corpus(corpus, CORPUS)?;
                (Relation::Indexes { corpus }, columns_of!(IndexesColumn))
            }
            "files_with" => {
                let (corpus, words) = call.take_words()?;
                let relation = Relation::FilesWith { corpus, words };
                (relation, columns_of!(FilesWithColumn))
            }
            "caches" => {
                let [corpus] = call.take(["corpus"], CORPUS)?;
                let corpus = call.corpus(corpus, CORPUS)?;
                (Relation::Caches { corpus }, columns_of!(CachesColumn))
            }
            "files" => {
                let [corpus] = call.take(["corpus"], CORPUS)?;
                let corpus = call.corpus(corpus, CORPUS)?;
                (Relation::Files { corpus }, columns_of!(FilesColumn))
            }
            "ngrams" => {
                let expected = "a corpus in single quotes and a number of words";
                let [corpus, n] = call.take(["corpus", "n"], expected)?;
                let corpus = call.corpus(corpus, expected)?;
                let n = n.ok_or_else(|| call.wrong_arguments(expected))?;
                let count = call.integer(n, "n")?;
                if !(1..=NGRAM_WORDS_MAX).contains(&count) {
                    let bounds = format!("in 1..={NGRAM_WORDS_MAX}");
                    return Err(call.out_of_range(n, "n", bounds, count));
                }
                // In range by the test above.
                let n = count as u32;
                (Relation::Ngrams { corpus, n }, columns_of!(NgramsColumn))
            }
            "term_vectors" => {
                let expected = "a corpus in single quotes and perhaps a number of words";
                let [corpus, k] = call.take(["corpus", "k"], expected)?;
                let corpus = call.corpus(corpus, expected)?;
                let mut words = TERM_VECTOR_WORDS;
                if let Some(k) = k {
                    let count = call.integer(k, "k")?;
                    words = u64::try_from(count)
                        .ok()
                        .filter(|count| *count > 0)
                        .ok_or_else(|| call.out_of_range(k, "k", "at least 1".to_owned(), count))?;
                }
                let relation = Relation::TermVectors { corpus, k: words };
                (relation, columns_of!(TermVectorsColumn))
            }
            _ => return Err(self.no_table_function(name)),
        })
    }

    fn no_table_function(&self, name: &Name) -> Error {
        let hint = match self.find_corpus(&name.text) {
            Some(corpus) => Hint::new(format!(
                "{} is a corpus; write it without parentheses",
                quote(&corpus)
            )),
            None => did_you_mean(&name.text, &functions::TABLE, "table functions are"),
        };
        self.no_such(name.at, NameKind::TableFunction, &name.text, hint)
    }

    pub(super) fn check_table(&self, scope: &Scope<'_>, table: &Name) -> Result<()> {
        let hint = match scope.table {
            Some(known) if known.eq_ignore_ascii_case(&table.text) => return Ok(()),
            Some(known) => Hint::new(format!("columns of this query belong to {}", quote(known))),
            None if matches!(scope.source, Source::Block(_)) => {
                Hint::new("a subquery has the name that follows it: `FROM (SELECT ...) AS t`")
            }
            None => Hint::NONE,
        };
        Err(self.no_such(table.at, NameKind::Table, &table.text, hint))
    }

    /// The error for a name that is neither a column nor an alias.
    pub(super) fn no_column<'n>(
        &self,
        scope: &'n Scope<'_>,
        name: &Name,
        aliases: impl Iterator<Item = &'n str>,
    ) -> Error {
        let text = &name.text;
        let known: Vec<&str> = scope
            .columns
            .iter()
            .map(|column| column.name.as_ref())
            .collect();
        let corpus = match &scope.source {
            Source::Relation(Relation::Words { corpus }) => Some(corpus),
            _ => None,
        };
        let is_one_of = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(text));
        let candidates = known.iter().copied().chain(aliases);
        let hint = if let Some(nearest) = nearest(text, candidates) {
            Hint::new(format!("did you mean {}?", quote(nearest)))
        } else if name.quoted {
            Hint::new(format!(
                "text is written in single quotes: '{}'",
                shorten(text)
            ))
        } else if let Some(corpus) = corpus
            && is_one_of(&["content", "bytes", "words"])
        {
            Hint::new(format!(
                "files have it: `FROM files('{}')`",
                shorten(corpus)
            ))
        } else if let Some(corpus) = corpus
            && is_one_of(&["ngram"])
        {
            Hint::new(format!(
                "n-grams have it: `FROM ngrams('{}', 2)`",
                shorten(corpus)
            ))
        } else if scope.source == Source::Nothing {
            Hint::new("there is no FROM; text is written in single quotes")
        } else {
            did_you_mean(text, &known, "columns are")
        };
        self.no_such(name.at, NameKind::Column, text, hint)
    }
}

const CORPUS: &str = "one argument, the name of a corpus in single quotes";

/// A call of a table function.
struct TableCall<'c> {
    binder: &'c Binder<'c>,
    name: &'c Name,
    arguments: &'c [Argument],
}

impl<'c> TableCall<'c> {
    /// The arguments by their names: those without a name come first, in this order.
    fn take<const N: usize>(
        &self,
        names: [&str; N],
        expected: &'static str,
    ) -> Result<[Option<&'c Operand>; N]> {
        let mut taken = [None; N];
        let mut named = false;
        for (index, Argument { name, value }) in self.arguments.iter().enumerate() {
            let index = match name {
                None if index >= N || named => return Err(self.wrong_arguments(expected)),
                None => index,
                Some(name) => {
                    named = true;
                    let index = names
                        .iter()
                        .position(|known| known.eq_ignore_ascii_case(&name.text));
                    index.ok_or_else(|| {
                        let hint = did_you_mean(&name.text, &names, "arguments are");
                        let binder = self.binder;
                        binder.no_such(name.at, NameKind::Argument, &name.text, hint)
                    })?
                }
            };
            if taken[index].replace(value).is_some() {
                let message = format!("argument {} is given twice", quote(names[index]));
                return Err(self.binder.conflict(value.at, message, Hint::NONE));
            }
        }
        Ok(taken)
    }

    /// A corpus and at least one word, none of which has a name.
    fn take_words(&self) -> Result<(String, Vec<Vec<u8>>)> {
        let expected = "a corpus in single quotes and at least one word";
        let named = self
            .arguments
            .iter()
            .find_map(|argument| argument.name.as_ref());
        if let Some(name) = named {
            let hint = Hint::new("the corpus comes first, then the words");
            return Err((self.binder).no_such(name.at, NameKind::Argument, &name.text, hint));
        }
        let [corpus, words @ ..] = self.arguments else {
            return Err(self.wrong_arguments(expected));
        };
        if words.is_empty() {
            return Err(self.wrong_arguments(expected));
        }
        let words =
            words.iter().map(
                |Argument { value, .. }| match self.binder.value(&value.kind) {
                    _ if !self.binder.is_known(value) => Ok(Vec::new()),
                    Value::Text(word) => Ok(word.as_bytes().to_vec()),
                    Value::Blob(word) => Ok(word.to_vec()),
                    _ => {
                        let what = format!("a word of {}", self.function());
                        Err(self.binder.wrong_type(value, &what, "TEXT", Hint::NONE))
                    }
                },
            );
        let words = words.collect::<Result<_>>()?;
        Ok((self.corpus(Some(&corpus.value), expected)?, words))
    }

    fn function(&self) -> String {
        format!("{}()", self.name.text.to_ascii_lowercase())
    }

    fn wrong_arguments(&self, expected: &'static str) -> Error {
        Error::WrongArguments {
            at: self.binder.source.at(self.name.at),
            function: self.function(),
            expected,
            found: match self.arguments.len() {
                0 => "none".to_owned(),
                count => count.to_string(),
            },
            hint: Hint::NONE,
        }
    }

    fn corpus(&self, operand: Option<&Operand>, expected: &'static str) -> Result<String> {
        let operand = operand.ok_or_else(|| self.wrong_arguments(expected))?;
        if !self.binder.is_known(operand) {
            return Ok(String::new());
        }
        let what = format!("the corpus of {}", self.function());
        let corpus = self.binder.text(operand, &what)?;
        self.binder.corpus(&corpus, operand.at)
    }

    fn integer(&self, operand: &Operand, name: &str) -> Result<i64> {
        match self.binder.value(&operand.kind) {
            // Any value within the bounds will do.
            _ if !self.binder.is_known(operand) => Ok(1),
            Value::Integer(value) => Ok(*value),
            _ => {
                let what = format!("{name} of {}", self.function());
                Err(self
                    .binder
                    .wrong_type(operand, &what, "INTEGER", Hint::NONE))
            }
        }
    }

    fn out_of_range(&self, operand: &Operand, name: &str, bounds: String, found: i64) -> Error {
        Error::OutOfRange {
            at: self.binder.source.at(operand.at),
            what: format!("{name} of {}", self.function()),
            bounds,
            found: found.to_string(),
            hint: Hint::NONE,
        }
    }
}
