//! FROM: the relation that a SELECT reads, and its columns by their names.
//!
//! Invariant: a relation has all its arguments within their bounds, and the columns here are in the order of the
//! relation's own enum, so that their index is the one of `Expression::Column`.

use std::cell::OnceCell;
use std::collections::HashMap;

use super::Binder;
use super::blocks::{Blocks, BoundSelect, Column};
use super::regexp_check::RegexpPlace;
use crate::error::{Error, Hint, NameKind, Result, quote, shorten};
use crate::functions;
use crate::query::{
    Affinity, AttributeColumn, CachesColumn, CorporaColumn, DevicesColumn, DuplicatesColumn,
    FilesColumn, FilesWithColumn, GrepColumn, IndexesColumn, LinesColumn, LongestMatchesColumn,
    MetadataColumn, NextWordsColumn, NgramsColumn, OverlapColumn, PhraseColumn, RejectsColumn,
    Relation, SegmentsColumn, SettingsColumn, Source, TermVectorsColumn, WordsColumn,
};
use crate::regexp::GREP_FLAGS;
use crate::search_call::{ArgumentKind, SearchCall, SearchFunction};
use crate::suggest::{did_you_mean, nearest};
use crate::syntax::{Argument, From, FromKind, Name, Operand, OperandKind};
use crate::value::Value;

/// Words of an n-gram, at most.
const NGRAM_WORDS_MAX: i64 = 8;

/// Words of each file in a term vector by default.
const TERM_VECTOR_WORDS: u64 = 10;

/// Words of a match that is attributed, of an n-gram that texts share, and of a repeat, at least, by default.
const ATTRIBUTED_WORDS: u64 = 8;
const OVERLAP_WORDS: u64 = 13;
const DUPLICATE_WORDS: u64 = 50;

/// What FROM makes known.
pub(super) struct Scope<'a> {
    pub(super) source: Source,
    pub(super) columns: Vec<Column>,
    /// The last columns, if they are metadata of files.
    pub(super) metadata: Vec<MetadataColumn>,
    /// The number of columns that `*` stands for, the first ones.
    pub(super) shown: usize,
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
            shown: columns.len(),
            columns,
            metadata: Vec::new(),
            table,
            names: NameIndex::default(),
        }
    }

    /// The columns of a relation, and behind them the metadata of files.
    fn of_relation(
        binder: &Binder<'_>,
        relation: Relation,
        mut columns: Vec<Column>,
        table: &'a str,
    ) -> Scope<'a> {
        let (own, corpus) = (columns.len(), relation.corpus_of_files());
        let has_file = (relation.columns_of_files()).is_some_and(|(_, file)| file.is_some());
        let metadata = corpus.map_or_else(Vec::new, |corpus| binder.schema.metadata(corpus));
        let declared = metadata.iter();
        columns.extend(declared.map(|column| Column::new(column.name.clone(), column.affinity())));
        let shown = if has_file { columns.len() } else { own };
        let scope = Scope::new(Source::Relation(relation), columns, Some(table));
        Scope {
            metadata,
            shown,
            ..scope
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
                let (relation, columns) = (Relation::Words { corpus }, columns_of!(WordsColumn));
                Scope::of_relation(self, relation, columns, alias.unwrap_or(&name.text))
            }
            FromKind::TableFunction { name, arguments } => {
                let (relation, columns) = self.table_function(name, arguments)?;
                Scope::of_relation(self, relation, columns, alias.unwrap_or(&name.text))
            }
        })
    }

    /// The files of a corpus, whose columns may have this name before their dots.
    pub(super) fn files_scope<'a>(&self, relation: Relation, table: &'a str) -> Scope<'a> {
        Scope::of_relation(self, relation, columns_of!(FilesColumn), table)
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
            "rejects" => {
                call.take([], "no arguments")?;
                (Relation::Rejects, columns_of!(RejectsColumn))
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
            "grep" => {
                let expected = "a corpus in single quotes, a regular expression and perhaps flags";
                let [corpus, regex, flags] = call.take(["corpus", "regex", "flags"], expected)?;
                let corpus = call.corpus(corpus, expected)?;
                let regex = regex.ok_or_else(|| call.wrong_arguments(expected))?;
                let flags = flags.map_or(Ok(String::new()), |flags| call.grep_flags(flags))?;
                let regex = call.regexp(regex, &flags)?;
                let relation = Relation::Grep {
                    corpus,
                    regex,
                    flags,
                };
                (relation, columns_of!(GrepColumn))
            }
            "lines" => {
                let [corpus] = call.take(["corpus"], CORPUS)?;
                let corpus = call.corpus(corpus, CORPUS)?;
                (Relation::Lines { corpus }, columns_of!(LinesColumn))
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
                    let hint = if count > NGRAM_WORDS_MAX {
                        Hint::new("phrase('corpus', 'text') has the places of any number of words")
                    } else {
                        Hint::NONE
                    };
                    return Err(call.out_of_range(n, "n", bounds, count, hint));
                }
                // In range by the test above.
                let n = count as u32;
                (Relation::Ngrams { corpus, n }, columns_of!(NgramsColumn))
            }
            "term_vectors" => {
                let expected = "a corpus in single quotes and perhaps a number of words";
                let [corpus, k] = call.take(["corpus", "k"], expected)?;
                let corpus = call.corpus(corpus, expected)?;
                let words = call.positive(k, "k", TERM_VECTOR_WORDS)?;
                let relation = Relation::TermVectors { corpus, k: words };
                (relation, columns_of!(TermVectorsColumn))
            }
            "phrase" | "next_words" | "longest_matches" | "attribute" | "overlap"
            | "duplicates" => {
                return call.any_length(&function);
            }
            _ => match SearchFunction::named(&function) {
                Some(function) => return call.search(function),
                None => return Err(self.no_table_function(name)),
            },
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
        self.take_into(&names, expected, &mut taken)?;
        Ok(taken)
    }

    /// As [`TableCall::take`], into a slice that has a place for each name.
    fn take_into(
        &self,
        names: &[&str],
        expected: &'static str,
        taken: &mut [Option<&'c Operand>],
    ) -> Result<()> {
        let mut named = false;
        for (index, Argument { name, value }) in self.arguments.iter().enumerate() {
            let index = match name {
                None if index >= names.len() || named => return Err(self.wrong_arguments(expected)),
                None => index,
                Some(name) => {
                    named = true;
                    let index = names
                        .iter()
                        .position(|known| known.eq_ignore_ascii_case(&name.text));
                    index.ok_or_else(|| {
                        let hint = did_you_mean(&name.text, names, "arguments are");
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
        Ok(())
    }

    /// A table function of search.
    fn search(&self, function: SearchFunction) -> Result<(Relation, Vec<Column>)> {
        let (parameters, expected) = (function.arguments(), function.expected());
        let names: Vec<&str> = parameters.iter().map(|(name, _)| *name).collect();
        let mut taken = vec![None; names.len()];
        self.take_into(&names, expected, &mut taken)?;
        if taken[..function.required()].contains(&None) {
            return Err(self.wrong_arguments(expected));
        }
        let mut call = SearchCall {
            function,
            corpus: self.corpus(taken[0], expected)?,
            reference: None,
            arguments: Vec::new(),
            measures: Vec::new(),
        };
        let mut measures = function.measures().to_owned();
        for (&(name, kind), operand) in parameters.iter().zip(taken).skip(1) {
            let Some(operand) = operand else { continue };
            if !self.binder.is_known(operand) {
                continue;
            }
            let value = self.search_argument(operand, name, kind)?;
            match (name, &value) {
                ("measures", Value::Text(list)) => measures = list.to_string(),
                ("reference", _) => call.reference = Some(self.corpus(Some(operand), expected)?),
                _ => call.arguments.push((name, value)),
            }
        }
        let measures = measures.split(',').map(str::trim);
        let measures = measures.filter(|measure| !measure.is_empty());
        call.measures = measures.map(str::to_ascii_lowercase).collect();
        let columns = call.columns();
        let columns = columns.map(|(name, affinity)| Column::new(name.to_owned(), affinity));
        let columns = columns.collect();
        Ok((Relation::Search(call), columns))
    }

    /// The value of an argument of search, if it has the type.
    fn search_argument(&self, operand: &Operand, name: &str, kind: ArgumentKind) -> Result<Value> {
        let value = self.binder.value(&operand.kind);
        let what = || format!("{name} of {}", self.function());
        match (kind, value) {
            (ArgumentKind::Integer(least), Value::Integer(given)) if *given < least => {
                let bounds = format!("at least {least}");
                Err(self.out_of_range(operand, name, bounds, *given, Hint::NONE))
            }
            (ArgumentKind::Text | ArgumentKind::Any, Value::Text(_))
            | (
                ArgumentKind::Integer(_) | ArgumentKind::Number | ArgumentKind::Any,
                Value::Integer(_),
            )
            | (ArgumentKind::Number, Value::Real(_)) => Ok(value.clone()),
            (ArgumentKind::Text, _) => {
                Err((self.binder).wrong_type(operand, &what(), "TEXT", Hint::NONE))
            }
            (ArgumentKind::Integer(_), _) => {
                Err((self.binder).wrong_type(operand, &what(), "INTEGER", Hint::NONE))
            }
            (ArgumentKind::Number, _) => {
                Err((self.binder).wrong_type(operand, &what(), "a number", Hint::NONE))
            }
            (ArgumentKind::Any, _) => {
                Err((self.binder).wrong_type(operand, &what(), "TEXT or INTEGER", Hint::NONE))
            }
        }
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

    /// A call of a function for phrases of any length.
    fn any_length(&self, function: &str) -> Result<(Relation, Vec<Column>)> {
        const TEXT: &str = "a corpus in single quotes and a text";
        const TEXT_AND_WORDS: &str =
            "a corpus in single quotes, a text and perhaps a number of words";
        Ok(match function {
            "next_words" => {
                let expected = "a corpus in single quotes, a context and perhaps `backoff => true`";
                let [corpus, context, backoff] =
                    self.take(["corpus", "context", "backoff"], expected)?;
                let relation = Relation::NextWords {
                    corpus: self.corpus(corpus, expected)?,
                    context: self.bytes(context, "the context", expected)?,
                    backoff: match backoff {
                        None => false,
                        Some(backoff) => self.integer(backoff, "backoff")? != 0,
                    },
                };
                (relation, columns_of!(NextWordsColumn))
            }
            "phrase" => {
                let [corpus, text] = self.take(["corpus", "text"], TEXT)?;
                let relation = Relation::Phrase {
                    corpus: self.corpus(corpus, TEXT)?,
                    text: self.bytes(text, "the text", TEXT)?,
                };
                (relation, columns_of!(PhraseColumn))
            }
            "longest_matches" => {
                let [corpus, text] = self.take(["corpus", "text"], TEXT)?;
                let relation = Relation::LongestMatches {
                    corpus: self.corpus(corpus, TEXT)?,
                    text: self.bytes(text, "the text", TEXT)?,
                };
                (relation, columns_of!(LongestMatchesColumn))
            }
            "attribute" => {
                let names = ["corpus", "text", "words"];
                let [corpus, text, words] = self.take(names, TEXT_AND_WORDS)?;
                let relation = Relation::Attribute {
                    corpus: self.corpus(corpus, TEXT_AND_WORDS)?,
                    text: self.bytes(text, "the text", TEXT_AND_WORDS)?,
                    words_min: self.positive(words, "words", ATTRIBUTED_WORDS)?,
                };
                (relation, columns_of!(AttributeColumn))
            }
            "overlap" => {
                let [corpus, text, n] = self.take(["corpus", "text", "n"], TEXT_AND_WORDS)?;
                let relation = Relation::Overlap {
                    corpus: self.corpus(corpus, TEXT_AND_WORDS)?,
                    text: self.bytes(text, "the text", TEXT_AND_WORDS)?,
                    n: self.positive(n, "n", OVERLAP_WORDS)?,
                };
                (relation, columns_of!(OverlapColumn))
            }
            _ => {
                let expected = "a corpus in single quotes and perhaps a number of words";
                let [corpus, words] = self.take(["corpus", "words"], expected)?;
                let relation = Relation::Duplicates {
                    corpus: self.corpus(corpus, expected)?,
                    words_min: self.positive(words, "words", DUPLICATE_WORDS)?,
                };
                (relation, columns_of!(DuplicatesColumn))
            }
        })
    }

    /// A number of at least 1, or the default.
    fn positive(&self, operand: Option<&Operand>, name: &str, default: u64) -> Result<u64> {
        let Some(operand) = operand else {
            return Ok(default);
        };
        let number = self.integer(operand, name)?;
        (u64::try_from(number).ok().filter(|&number| number > 0)).ok_or_else(|| {
            let bounds = "at least 1".to_owned();
            self.out_of_range(operand, name, bounds, number, Hint::NONE)
        })
    }

    /// The bytes of a TEXT or BLOB.
    fn bytes(
        &self,
        operand: Option<&Operand>,
        name: &str,
        expected: &'static str,
    ) -> Result<Vec<u8>> {
        let operand = operand.ok_or_else(|| self.wrong_arguments(expected))?;
        match self.binder.value(&operand.kind) {
            _ if !self.binder.is_known(operand) => Ok(Vec::new()),
            Value::Text(text) => Ok(text.as_bytes().to_vec()),
            Value::Blob(text) => Ok(text.to_vec()),
            _ => {
                let what = format!("{name} of {}", self.function());
                Err(self.binder.wrong_type(operand, &what, "TEXT", Hint::NONE))
            }
        }
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

    /// A regular expression with these flags.
    fn regexp(&self, operand: &Operand, flags: &str) -> Result<String> {
        if !self.binder.is_known(operand) {
            return Ok(String::new());
        }
        let what = format!("the regular expression of {}", self.function());
        let regexp = self.binder.text(operand, &what)?;
        let is_literal = matches!(operand.kind, OperandKind::Literal(_));
        let place = RegexpPlace {
            at: operand.at,
            is_literal,
        };
        self.binder.check_regexp(&regexp, flags, place)?;
        Ok(regexp)
    }

    /// The flags of a regular expression.
    fn grep_flags(&self, operand: &Operand) -> Result<String> {
        if !self.binder.is_known(operand) {
            return Ok(String::new());
        }
        let what = format!("the flags of {}", self.function());
        let flags = self.binder.text(operand, &what)?;
        match flags.chars().find(|flag| !GREP_FLAGS.contains(*flag)) {
            None => Ok(flags),
            Some(flag) => {
                let message = format!("{} is no flag", quote(flag.encode_utf8(&mut [0; 4])));
                let hint = Hint::new(format!("flags are the letters of {}", quote(GREP_FLAGS)));
                Err(self.binder.conflict(operand.at, message, hint))
            }
        }
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

    fn out_of_range(
        &self,
        operand: &Operand,
        name: &str,
        bounds: String,
        found: i64,
        hint: Hint,
    ) -> Error {
        Error::OutOfRange {
            at: self.binder.source.at(operand.at),
            what: format!("{name} of {}", self.function()),
            bounds,
            found: found.to_string(),
            hint,
        }
    }
}
