//! `Statement` to `Plan`: names are looked up, types checked, parameters put in.
//!
//! Invariant: every "no such ..." error of the SQL front end is made here, with its place and a hint. It knows the names
//! of corpora and columns, no more: whether a file exists is found when the plan is carried out.

use crate::error::{Error, Hint, NameKind, Result, quote, shorten};
use crate::functions;
use crate::lex::Source;
use crate::plan::{
    CorporaColumn, Counted, FilesColumn, Keys, OccurrencesColumn, OnError, OrderBy, Plan, Query,
    Rows, SegmentsColumn, Tokenizer, WordCountsColumn,
};
use crate::suggest::{did_you_mean, nearest};
use crate::syntax::{
    Argument, Call, ColumnName, Condition, Expression, ExpressionKind, From, Item, Name, Operand,
    OperandKind, OptionSetting, Select, Statement, StatementKind,
};
use crate::value::Value;

/// The names that a statement can use.
pub trait Schema {
    /// Names of all corpora.
    fn corpora(&self) -> Vec<String>;

    /// Names of the columns by which `segments('corpus')` shows the bytes of each section of a segment. None may be the
    /// name of a column that it has already, such as `files`.
    fn section_columns(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The least and the greatest `segment_size`.
pub const SEGMENT_SIZE_MIN: u64 = 64 << 10;
/// See `SEGMENT_SIZE_MIN`.
pub const SEGMENT_SIZE_MAX: u64 = 1 << 30;

/// Checks a statement against the schema and turns it into a plan. `parameters[0]` is the value of `?1`.
///
/// # Errors
/// Unknown names, values of wrong types, clauses that do not fit together, a wrong number of parameters.
pub fn bind(statement: &Statement, schema: &dyn Schema, parameters: &[Value]) -> Result<Plan> {
    let binder = Binder {
        source: &statement.source,
        schema,
        parameters,
    };
    if parameters.len() != statement.parameters {
        return Err(Error::Parameters {
            at: statement.source.at(0),
            expected: statement.parameters,
            found: parameters.len(),
        });
    }
    match &statement.kind {
        StatementKind::CreateCorpus {
            name,
            if_not_exists,
            options,
        } => binder.create_corpus(name, *if_not_exists, options),
        StatementKind::DropCorpus { name, if_exists } => binder.drop_corpus(name, *if_exists),
        StatementKind::CopyFrom {
            corpus,
            path,
            options,
        } => binder.copy_from(corpus, path, options),
        StatementKind::CopyTo { corpus, directory } => Ok(Plan::CopyTo {
            corpus: binder.corpus(&corpus.text, corpus.at)?,
            directory: binder.path(directory, "the directory")?,
        }),
        StatementKind::Check { corpus } => Ok(Plan::Check {
            corpus: binder.corpus(&corpus.text, corpus.at)?,
        }),
        StatementKind::Select(select) => Ok(Plan::Query(binder.select(select)?)),
    }
}

/// Whether a corpus may have this name: 1 to 255 bytes, no control characters, no space at either end.
pub fn is_corpus_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= crate::limits::NAME_BYTES_MAX
        && !name.chars().any(char::is_control)
        && name.trim() == name
}

struct Binder<'a> {
    source: &'a Source,
    schema: &'a dyn Schema,
    parameters: &'a [Value],
}

/// The columns of a relation by their names.
struct Relation<'a, C> {
    from: &'a From,
    columns: Vec<(String, C)>,
}

impl<C> Relation<'_, C> {
    fn find(&self, name: &str) -> Option<&(String, C)> {
        self.columns
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    /// The column's name as it was declared, which names the result's column, as in SQLite.
    fn declared_name<'n>(&'n self, name: &'n str) -> &'n str {
        self.find(name).map_or(name, |(known, _)| known)
    }
}

/// The columns of a corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CorpusColumn {
    File,
    Word,
    Offset,
    Length,
}

/// What SELECT and ORDER BY come to.
struct Output<C> {
    columns: Vec<C>,
    names: Vec<String>,
    order_by: Vec<OrderBy>,
}

impl Binder<'_> {
    fn not_supported(&self, at: usize, what: impl Into<String>, hint: Hint) -> Error {
        Error::NotSupported {
            at: self.source.at(at),
            what: what.into(),
            hint,
        }
    }

    fn conflict(&self, at: usize, message: impl Into<String>, hint: Hint) -> Error {
        Error::Conflict {
            at: self.source.at(at),
            message: message.into(),
            hint,
        }
    }

    fn no_such(&self, at: usize, kind: NameKind, name: &str, hint: Hint) -> Error {
        Error::NoSuch {
            at: self.source.at(at),
            kind,
            name: quote(name),
            hint,
        }
    }

    // --- corpora and values

    fn find_corpus(&self, name: &str) -> Option<String> {
        let corpora = self.schema.corpora();
        corpora
            .into_iter()
            .find(|corpus| corpus.eq_ignore_ascii_case(name))
    }

    /// The corpus' name as it was created. Case does not matter in ASCII letters.
    fn corpus(&self, name: &str, at: usize) -> Result<String> {
        if let Some(corpus) = self.find_corpus(name) {
            return Ok(corpus);
        }
        let corpora = self.schema.corpora();
        let candidates: Vec<&str> = corpora.iter().map(String::as_str).collect();
        let hint = match name.to_ascii_lowercase().as_str() {
            "corpora" => Hint::new("the list of corpora is `corpora()`"),
            function @ ("segments" | "files") => {
                Hint::new(format!("the table function is `{function}('corpus')`"))
            }
            _ if candidates.is_empty() => {
                Hint::new("there are no corpora yet; `CREATE CORPUS name` makes one")
            }
            _ => did_you_mean(name, &candidates, "corpora are"),
        };
        Err(self.no_such(at, NameKind::Corpus, name, hint))
    }

    fn value<'v>(&'v self, operand: &'v OperandKind) -> &'v Value {
        match operand {
            OperandKind::Literal(value) => value,
            // Parameter numbers begin at 1, and `bind` has compared the highest with the number of values.
            OperandKind::Parameter(number) => &self.parameters[number - 1],
        }
    }

    fn wrong_type(
        &self,
        operand: &Operand,
        what: &str,
        expected: &'static str,
        hint: Hint,
    ) -> Error {
        let value = self.value(&operand.kind);
        let mut found = match value {
            Value::Blob(bytes) => format!("a value of {} bytes", bytes.len()),
            other => shorten(&other.to_string()),
        };
        if let OperandKind::Parameter(number) = operand.kind {
            found = format!("parameter ?{number} ({found})");
        }
        Error::WrongType {
            at: self.source.at(operand.at),
            what: what.to_owned(),
            expected,
            found,
            found_type: value.type_name(),
            hint,
        }
    }

    fn text(&self, operand: &Operand, what: &str) -> Result<String> {
        match self.value(&operand.kind) {
            Value::Text(text) => Ok(text.clone()),
            _ => Err(self.wrong_type(operand, what, "TEXT", Hint::NONE)),
        }
    }

    fn path(&self, operand: &Operand, what: &str) -> Result<String> {
        let path = self.text(operand, what)?;
        if path.is_empty() || path.contains('\0') {
            return Err(Error::OutOfRange {
                at: self.source.at(operand.at),
                what: what.to_owned(),
                bounds: "a path".to_owned(),
                found: format!("'{}'", shorten(&path)),
                hint: Hint::NONE,
            });
        }
        Ok(path)
    }

    // --- statements

    fn create_corpus(
        &self,
        name: &Name,
        if_not_exists: bool,
        options: &[OptionSetting],
    ) -> Result<Plan> {
        if !is_corpus_name(&name.text) {
            return Err(Error::OutOfRange {
                at: self.source.at(name.at),
                what: "a corpus' name".to_owned(),
                bounds: "1 to 255 bytes without control characters and without spaces around it"
                    .to_owned(),
                found: quote(&name.text),
                hint: Hint::NONE,
            });
        }
        let (mut tokenizer, mut segment_size) = (None, None);
        for OptionSetting { key, value } in options {
            match key.text.to_ascii_lowercase().as_str() {
                "tokenizer" => tokenizer = Some(self.tokenizer(value)?),
                "segment_size" => segment_size = Some(self.segment_size(value)?),
                _ => return Err(self.no_such_option(key, &["tokenizer", "segment_size"])),
            }
        }
        if let Some(existing) = self.find_corpus(&name.text)
            && !if_not_exists
        {
            return Err(Error::CorpusExists {
                at: self.source.at(name.at),
                name: quote(&existing),
                hint: Hint::new("`CREATE CORPUS IF NOT EXISTS` leaves it as it is"),
            });
        }
        Ok(Plan::CreateCorpus {
            name: name.text.clone(),
            if_not_exists,
            tokenizer,
            segment_size,
        })
    }

    fn no_such_option(&self, key: &Name, options: &[&str]) -> Error {
        let listed = if options.len() == 1 {
            "the only option is"
        } else {
            "options are"
        };
        self.no_such(
            key.at,
            NameKind::Option,
            &key.text,
            did_you_mean(&key.text, options, listed),
        )
    }

    fn tokenizer(&self, operand: &Operand) -> Result<Tokenizer> {
        let name = self.text(operand, "the tokenizer")?;
        let found = Tokenizer::ALL
            .into_iter()
            .find(|tokenizer| tokenizer.name().eq_ignore_ascii_case(&name));
        found.ok_or_else(|| {
            let hint = did_you_mean(
                &name,
                &Tokenizer::ALL.map(Tokenizer::name),
                "tokenizers are",
            );
            self.no_such(operand.at, NameKind::Tokenizer, &name, hint)
        })
    }

    fn segment_size(&self, operand: &Operand) -> Result<u64> {
        let value = self.value(&operand.kind);
        let size = match value {
            Value::Integer(size) => u64::try_from(*size).ok(),
            Value::Text(text) => parse_size(text),
            _ => {
                return Err(self.wrong_type(
                    operand,
                    "segment_size",
                    "INTEGER or TEXT",
                    Hint::NONE,
                ));
            }
        };
        size.filter(|size| (SEGMENT_SIZE_MIN..=SEGMENT_SIZE_MAX).contains(size))
            .ok_or_else(|| Error::OutOfRange {
                at: self.source.at(operand.at),
                what: "segment_size".to_owned(),
                bounds: "a size in '64KiB'..='1GiB'".to_owned(),
                found: shorten(&value.to_string()),
                hint: Hint::new("sizes are bytes, or text with a unit: B, KiB, MiB, GiB"),
            })
    }

    fn drop_corpus(&self, name: &Name, if_exists: bool) -> Result<Plan> {
        let found = match self.find_corpus(&name.text) {
            Some(found) => found,
            None if if_exists => name.text.clone(),
            None => self.corpus(&name.text, name.at)?,
        };
        Ok(Plan::DropCorpus {
            name: found,
            if_exists,
        })
    }

    fn copy_from(&self, corpus: &Name, path: &Operand, options: &[OptionSetting]) -> Result<Plan> {
        let mut on_error = OnError::default();
        let corpus = self.corpus(&corpus.text, corpus.at)?;
        for OptionSetting { key, value } in options {
            if !key.text.eq_ignore_ascii_case("on_error") {
                return Err(self.no_such_option(key, &["on_error"]));
            }
            let chosen = self.text(value, "on_error")?;
            on_error = match chosen.to_ascii_lowercase().as_str() {
                "stop" => OnError::Stop,
                "skip" => OnError::Skip,
                _ => {
                    return Err(Error::OutOfRange {
                        at: self.source.at(value.at),
                        what: "on_error".to_owned(),
                        bounds: "'stop' or 'skip'".to_owned(),
                        found: format!("'{}'", shorten(&chosen)),
                        hint: Hint::NONE,
                    });
                }
            };
        }
        Ok(Plan::CopyFrom {
            corpus,
            path: self.path(path, "the path")?,
            on_error,
        })
    }

    // --- queries

    fn select(&self, select: &Select) -> Result<Query> {
        let from = &select.from;
        let Some(arguments) = &from.arguments else {
            let corpus = self.corpus(&from.name.text, from.name.at)?;
            return self.select_corpus(select, corpus);
        };
        let function = from.name.text.to_ascii_lowercase();
        match function.as_str() {
            "corpora" => {
                if let Some(argument) = arguments.first() {
                    return Err(self.wrong_arguments(
                        argument.at(),
                        "corpora()",
                        "no arguments",
                        arguments.len(),
                    ));
                }
                self.select_corpora(select)
            }
            "segments" => {
                let corpus = self.corpus_argument(&from.name, arguments, "segments()")?;
                self.select_segments(select, corpus)
            }
            "files" => {
                let corpus = self.corpus_argument(&from.name, arguments, "files()")?;
                self.select_files(select, corpus)
            }
            _ => Err(self.no_table_function(&from.name)),
        }
    }

    fn no_table_function(&self, name: &Name) -> Error {
        let lower = name.text.to_ascii_lowercase();
        if functions::TABLE_LATER.contains(&lower.as_str()) {
            return self.not_supported(name.at, format!("`{lower}()`"), Hint::NONE);
        }
        let hint = match self.find_corpus(&name.text) {
            Some(corpus) => Hint::new(format!(
                "{} is a corpus; write it without parentheses",
                quote(&corpus)
            )),
            None => did_you_mean(&name.text, &functions::TABLE, "table functions are"),
        };
        self.no_such(name.at, NameKind::TableFunction, &name.text, hint)
    }

    fn wrong_arguments(
        &self,
        at: usize,
        function: &str,
        expected: &'static str,
        found: usize,
    ) -> Error {
        Error::WrongArguments {
            at: self.source.at(at),
            function: function.to_owned(),
            expected,
            found: match found {
                0 => "none".to_owned(),
                count => count.to_string(),
            },
            hint: Hint::NONE,
        }
    }

    /// The corpus that a table function's only argument names.
    fn corpus_argument(
        &self,
        name: &Name,
        arguments: &[Argument],
        function: &str,
    ) -> Result<String> {
        let expected = "one argument, the name of a corpus in single quotes";
        match arguments {
            [Argument::Operand(operand)] => {
                let corpus = self.text(operand, &format!("the argument of {function}"))?;
                self.corpus(&corpus, operand.at)
            }
            [other] => Err(Error::WrongArguments {
                at: self.source.at(other.at()),
                function: function.to_owned(),
                expected,
                found: match other {
                    Argument::Column(column) => format!("the name {}", quote(&column.name.text)),
                    Argument::Star { .. } | Argument::Operand(_) => "`*`".to_owned(),
                },
                hint: match other {
                    Argument::Column(column) => Hint::new(format!(
                        "write `{}('{}')`",
                        name.text.to_ascii_lowercase(),
                        shorten(&column.name.text)
                    )),
                    Argument::Star { .. } | Argument::Operand(_) => Hint::NONE,
                },
            }),
            _ => {
                let at = arguments.get(1).map_or(name.at, Argument::at);
                Err(self.wrong_arguments(at, function, expected, arguments.len()))
            }
        }
    }

    fn select_corpora(&self, select: &Select) -> Result<Query> {
        let relation = Relation {
            from: &select.from,
            columns: CorporaColumn::ALL
                .map(|column| (column.name().to_owned(), column))
                .to_vec(),
        };
        self.no_group_by(select)?;
        let mut corpora = Keys::All;
        for condition in &select.conditions {
            match self.condition_column(&relation, condition)? {
                CorporaColumn::Corpus => self.restrict(&mut corpora, condition, "corpus")?,
                other => return Err(self.no_condition(condition, other.name(), "corpus")),
            }
        }
        if self.counts(select) {
            return self.count(select, &relation, Counted::Corpora { corpora });
        }
        let output = self.output(select, &relation, Some(&relation.columns), &|expression| {
            self.plain_column(&relation, expression)
        })?;
        self.query(select, output, |columns| Rows::Corpora { corpora, columns })
    }

    fn select_segments(&self, select: &Select, corpus: String) -> Result<Query> {
        let fixed = SegmentsColumn::FIXED
            .into_iter()
            .filter_map(|column| Some((column.name()?.to_owned(), column)));
        let sections = self.schema.section_columns().into_iter().enumerate();
        let relation = Relation {
            from: &select.from,
            columns: fixed
                .chain(sections.map(|(index, name)| (name, SegmentsColumn::Section(index))))
                .collect(),
        };
        self.no_group_by(select)?;
        if let Some(condition) = select.conditions.first() {
            self.condition_column(&relation, condition)?;
            return Err(self.not_supported(condition.left.at, "WHERE on segments()", Hint::NONE));
        }
        if self.counts(select) {
            return self.count(select, &relation, Counted::Segments { corpus });
        }
        let output = self.output(select, &relation, Some(&relation.columns), &|expression| {
            self.plain_column(&relation, expression)
        })?;
        self.query(select, output, |columns| Rows::Segments { corpus, columns })
    }

    fn select_files(&self, select: &Select, corpus: String) -> Result<Query> {
        let relation = Relation {
            from: &select.from,
            columns: FilesColumn::ALL
                .into_iter()
                .filter_map(|column| Some((column.name()?.to_owned(), column)))
                .collect(),
        };
        self.no_group_by(select)?;
        let mut files = Keys::All;
        for condition in &select.conditions {
            match self.condition_column(&relation, condition)? {
                FilesColumn::File => self.restrict(&mut files, condition, "file")?,
                other => {
                    return Err(self.no_condition(
                        condition,
                        other.name().unwrap_or("this"),
                        "file",
                    ));
                }
            }
        }
        if self.counts(select) {
            return self.count(select, &relation, Counted::Files { corpus, files });
        }
        let output = self.output(select, &relation, Some(&relation.columns), &|expression| {
            self.files_column(&relation, expression)
        })?;
        for key in &output.order_by {
            if let FilesColumn::Content | FilesColumn::Substr { .. } = output.columns[key.column] {
                return Err(self.not_supported(
                    self.order_at(select, &output, key),
                    "ORDER BY content",
                    Hint::NONE,
                ));
            }
        }
        self.query(select, output, |columns| Rows::Files {
            corpus,
            files,
            columns,
        })
    }

    fn order_at(&self, select: &Select, output: &Output<FilesColumn>, key: &OrderBy) -> usize {
        let index = output
            .order_by
            .iter()
            .position(|other| other == key)
            .unwrap_or(0);
        select
            .order_by
            .get(index)
            .map_or(select.at, |term| term.expression.at)
    }

    fn files_column(
        &self,
        relation: &Relation<'_, FilesColumn>,
        expression: &Expression,
    ) -> Result<FilesColumn> {
        match &expression.kind {
            ExpressionKind::Call(call) if is_substr(call) => {
                self.substr(relation, expression.at, call)
            }
            _ => self.plain_column(relation, expression),
        }
    }

    fn substr(
        &self,
        relation: &Relation<'_, FilesColumn>,
        at: usize,
        call: &Call,
    ) -> Result<FilesColumn> {
        let (content, start, length) = match call.arguments.as_slice() {
            [content, start] => (content, start, None),
            [content, start, length] => (content, start, Some(length)),
            other => {
                let expected = "content, a start and perhaps a length";
                return Err(self.wrong_arguments(at, "substr()", expected, other.len()));
            }
        };
        let of_content = match content {
            Argument::Column(column) => self.column(relation, column)? == FilesColumn::Content,
            Argument::Star { .. } | Argument::Operand(_) => false,
        };
        if !of_content {
            return Err(self.not_supported(
                content.at(),
                "substr() of anything but content",
                Hint::NONE,
            ));
        }
        let start = self.integer_argument(start, "the start in substr()")?;
        let length = length
            .map(|length| self.integer_argument(length, "the length in substr()"))
            .transpose()?;
        Ok(match (start, length) {
            (None, _) | (_, Some(None)) => FilesColumn::Null,
            (Some(start), length) => FilesColumn::Substr {
                start,
                length: length.flatten(),
            },
        })
    }

    /// The integer, or none for NULL.
    fn integer_argument(&self, argument: &Argument, what: &str) -> Result<Option<i64>> {
        match argument {
            Argument::Operand(operand) => match self.value(&operand.kind) {
                Value::Integer(value) => Ok(Some(*value)),
                Value::Null => Ok(None),
                _ => Err(self.wrong_type(operand, what, "INTEGER", Hint::NONE)),
            },
            Argument::Star { at } => Err(self.not_supported(*at, "`*` in substr()", Hint::NONE)),
            Argument::Column(column) => {
                Err(self.not_supported(column.at(), format!("a column as {what}"), Hint::NONE))
            }
        }
    }

    fn select_corpus(&self, select: &Select, corpus: String) -> Result<Query> {
        let relation = Relation {
            from: &select.from,
            columns: [
                ("file", CorpusColumn::File),
                ("word", CorpusColumn::Word),
                ("offset", CorpusColumn::Offset),
                ("length", CorpusColumn::Length),
            ]
            .map(|(name, column)| (name.to_owned(), column))
            .to_vec(),
        };
        let (mut files, mut words) = (Keys::All, Keys::All);
        for condition in &select.conditions {
            match self.condition_column(&relation, condition)? {
                CorpusColumn::File => self.restrict(&mut files, condition, "file")?,
                CorpusColumn::Word => self.restrict(&mut words, condition, "word")?,
                CorpusColumn::Offset => {
                    return Err(self.no_condition(condition, "offset", "file and word"));
                }
                CorpusColumn::Length => {
                    return Err(self.no_condition(condition, "length", "file and word"));
                }
            }
        }
        if !select.group_by.is_empty() {
            self.group_by_word(select, &relation)?;
            let output = self.output(select, &relation, None, &|expression| {
                self.word_counts_column(&relation, expression)
            })?;
            return self.query(select, output, |columns| Rows::WordCounts {
                corpus,
                files,
                words,
                columns,
            });
        }
        if self.counts(select) {
            return self.count(
                select,
                &relation,
                Counted::Words {
                    corpus,
                    files,
                    words,
                },
            );
        }
        let output = self.output(select, &relation, None, &|expression| match self
            .plain_column(&relation, expression)?
        {
            CorpusColumn::File => Ok(OccurrencesColumn::File),
            CorpusColumn::Word => Ok(OccurrencesColumn::Word),
            CorpusColumn::Offset => Ok(OccurrencesColumn::Offset),
            CorpusColumn::Length => Ok(OccurrencesColumn::Length),
        })?;
        let Keys::These(words) = words else {
            return Err(self.not_supported(
                select.at,
                "a list of all words of a corpus",
                Hint::new("add `WHERE word = '...'`, or `GROUP BY word` for each word once"),
            ));
        };
        self.query(select, output, |columns| Rows::Occurrences {
            corpus,
            files,
            words,
            columns,
        })
    }

    fn no_group_by(&self, select: &Select) -> Result<()> {
        match select.group_by.first() {
            None => Ok(()),
            Some(expression) => {
                Err(self.not_supported(expression.at, "GROUP BY on a table function", Hint::NONE))
            }
        }
    }

    /// Checks that GROUP BY is `word`, by its name, by an alias or by its number.
    fn group_by_word(&self, select: &Select, relation: &Relation<'_, CorpusColumn>) -> Result<()> {
        for expression in &select.group_by {
            let item = |index: usize| match select.items.get(index) {
                Some(Item::Expression { expression, .. }) => Some(expression),
                _ => None,
            };
            let named = match &expression.kind {
                ExpressionKind::Operand(OperandKind::Literal(Value::Integer(number))) => {
                    let index =
                        self.ordinal(expression.at, *number, select.items.len(), "GROUP BY")?;
                    item(index)
                }
                ExpressionKind::Column(ColumnName { table: None, name })
                    if relation.find(&name.text).is_none() =>
                {
                    select
                        .items
                        .iter()
                        .enumerate()
                        .find_map(|(index, candidate)| match candidate {
                            Item::Expression {
                                alias: Some(alias), ..
                            } if alias.text.eq_ignore_ascii_case(&name.text) => item(index),
                            _ => None,
                        })
                }
                _ => None,
            };
            let grouped = named.unwrap_or(expression);
            let is_word = match &grouped.kind {
                ExpressionKind::Column(column) => {
                    self.column(relation, column)? == CorpusColumn::Word
                }
                ExpressionKind::Operand(_) => false,
                ExpressionKind::Call(call) => {
                    if is_count(call) {
                        return Err(self.conflict(
                            expression.at,
                            "GROUP BY cannot use COUNT",
                            Hint::NONE,
                        ));
                    }
                    return Err(self.unknown_function(grouped.at, call));
                }
            };
            if !is_word {
                return Err(self.not_supported(
                    expression.at,
                    "GROUP BY anything but word",
                    Hint::new("`SELECT file, words FROM files('corpus')` tells the number of words of each file"),
                ));
            }
        }
        Ok(())
    }

    fn word_counts_column(
        &self,
        relation: &Relation<'_, CorpusColumn>,
        expression: &Expression,
    ) -> Result<WordCountsColumn> {
        if let ExpressionKind::Call(call) = &expression.kind
            && is_count(call)
        {
            self.check_count(relation, expression.at, call)?;
            return Ok(WordCountsColumn::Count);
        }
        match self.plain_column(relation, expression)? {
            CorpusColumn::Word => Ok(WordCountsColumn::Word),
            _ => Err(self.conflict(
                expression.at,
                "only `word` and COUNT(*) can be selected or sorted by with GROUP BY word",
                Hint::NONE,
            )),
        }
    }

    /// Whether a query without GROUP BY counts.
    fn counts(&self, select: &Select) -> bool {
        select.items.iter().any(|item| match item {
            Item::Expression { expression, .. } => {
                matches!(&expression.kind, ExpressionKind::Call(call) if is_count(call))
            }
            Item::Star { .. } => false,
        })
    }

    fn count<C: Clone + PartialEq>(
        &self,
        select: &Select,
        relation: &Relation<'_, C>,
        counted: Counted,
    ) -> Result<Query> {
        let output =
            self.output(
                select,
                relation,
                None,
                &|expression| match &expression.kind {
                    ExpressionKind::Call(call) if is_count(call) => {
                        self.check_count(relation, expression.at, call)
                    }
                    ExpressionKind::Column(column) => {
                        self.column(relation, column)?;
                        Err(self.conflict(
                    expression.at,
                    "a column cannot stand beside COUNT without GROUP BY",
                    Hint::new("`SELECT word, COUNT(*) FROM corpus GROUP BY word` counts each word"),
                ))
                    }
                    _ => self.plain_column(relation, expression).map(|_| ()),
                },
            )?;
        // One row needs no order.
        let output = Output {
            order_by: Vec::new(),
            ..output
        };
        self.query(select, output, |_| Rows::Count(counted))
    }

    /// Checks the argument of COUNT: nothing that is counted here is ever NULL, so it makes no difference.
    fn check_count<C: Clone>(
        &self,
        relation: &Relation<'_, C>,
        at: usize,
        call: &Call,
    ) -> Result<()> {
        match call.arguments.as_slice() {
            [Argument::Star { .. }] => Ok(()),
            [Argument::Column(column)] => {
                self.column(relation, column)?;
                if column.name.text.eq_ignore_ascii_case("ratio") {
                    return Err(self.not_supported(
                        column.at(),
                        "COUNT(ratio)",
                        Hint::new("COUNT(*) counts rows"),
                    ));
                }
                Ok(())
            }
            [Argument::Operand(operand)] if *self.value(&operand.kind) != Value::Null => Ok(()),
            [Argument::Operand(operand)] => Err(self.not_supported(
                operand.at,
                "COUNT(NULL)",
                Hint::new("COUNT(*) counts rows"),
            )),
            other => Err(self.wrong_arguments(at, "COUNT()", "`*` or one column", other.len())),
        }
    }

    // --- parts of queries

    fn query<C>(
        &self,
        select: &Select,
        output: Output<C>,
        rows: impl FnOnce(Vec<C>) -> Rows,
    ) -> Result<Query> {
        let Output {
            columns,
            names,
            order_by,
        } = output;
        Ok(Query {
            rows: rows(columns),
            columns: names,
            order_by,
            limit: self.row_count(select.limit.as_ref(), "LIMIT")?,
            offset: self
                .row_count(select.offset.as_ref(), "OFFSET")?
                .unwrap_or(0),
        })
    }

    /// As in SQLite, a negative number is as if the clause were missing.
    fn row_count(&self, operand: Option<&Operand>, clause: &str) -> Result<Option<u64>> {
        let Some(operand) = operand else {
            return Ok(None);
        };
        match self.value(&operand.kind) {
            Value::Integer(count) => Ok(u64::try_from(*count).ok()),
            _ => Err(self.wrong_type(operand, clause, "INTEGER", Hint::NONE)),
        }
    }

    /// Binds SELECT and ORDER BY. `column_of` knows which expressions there are; `star` what `*` stands for.
    fn output<C: Clone + PartialEq, R>(
        &self,
        select: &Select,
        relation: &Relation<'_, R>,
        star: Option<&[(String, C)]>,
        column_of: &dyn Fn(&Expression) -> Result<C>,
    ) -> Result<Output<C>> {
        let mut columns = Vec::new();
        let mut names = Vec::new();
        let mut aliases = Vec::new();
        for item in &select.items {
            match item {
                Item::Star { at, table } => {
                    if let Some(table) = table {
                        self.check_table(&select.from, table)?;
                    }
                    let Some(star) = star else {
                        return Err(self.not_supported(
                            *at,
                            "`*` here",
                            Hint::new(
                                "name the columns, such as `file, offset` or `word, COUNT(*)`",
                            ),
                        ));
                    };
                    for (name, column) in star {
                        columns.push(column.clone());
                        names.push(name.clone());
                        aliases.push(None);
                    }
                }
                Item::Expression {
                    expression,
                    alias,
                    text,
                } => {
                    columns.push(column_of(expression)?);
                    names.push(match (alias, &expression.kind) {
                        (Some(alias), _) => alias.text.clone(),
                        (None, ExpressionKind::Column(column)) => {
                            relation.declared_name(&column.name.text).to_owned()
                        }
                        (None, _) => text.clone(),
                    });
                    aliases.push(alias.as_ref().map(|alias| alias.text.as_str()));
                }
            }
        }
        let mut order_by = Vec::with_capacity(select.order_by.len());
        for term in &select.order_by {
            let expression = &term.expression;
            let alias_of = |name: &Name| {
                aliases.iter().position(|alias| {
                    alias.is_some_and(|alias| alias.eq_ignore_ascii_case(&name.text))
                })
            };
            let index = match &expression.kind {
                ExpressionKind::Operand(OperandKind::Literal(Value::Integer(number))) => {
                    self.ordinal(expression.at, *number, names.len(), "ORDER BY")?
                }
                ExpressionKind::Operand(_) => {
                    let hint = Hint::new("sort by a column, an alias or the number of a column");
                    return Err(self.not_supported(expression.at, "ORDER BY a constant", hint));
                }
                ExpressionKind::Column(ColumnName { table: None, name })
                    if alias_of(name).is_some() =>
                {
                    alias_of(name).unwrap_or_default()
                }
                ExpressionKind::Column(_) | ExpressionKind::Call(_) => {
                    let column = column_of(expression)?;
                    columns
                        .iter()
                        .position(|other| *other == column)
                        .unwrap_or_else(|| {
                            columns.push(column);
                            columns.len() - 1
                        })
                }
            };
            order_by.push(OrderBy {
                column: index,
                descending: term.descending,
            });
        }
        Ok(Output {
            columns,
            names,
            order_by,
        })
    }

    /// The index that a column's number in ORDER BY or GROUP BY stands for.
    fn ordinal(&self, at: usize, number: i64, columns: usize, clause: &str) -> Result<usize> {
        match usize::try_from(number) {
            Ok(number) if (1..=columns).contains(&number) => Ok(number - 1),
            _ => Err(Error::OutOfRange {
                at: self.source.at(at),
                what: format!("the number of a column in {clause}"),
                bounds: format!("in 1..={columns}"),
                found: number.to_string(),
                hint: Hint::NONE,
            }),
        }
    }

    fn check_table(&self, from: &From, table: &Name) -> Result<()> {
        let known = from.alias.as_ref().unwrap_or(&from.name);
        if known.text.eq_ignore_ascii_case(&table.text) {
            return Ok(());
        }
        let hint = Hint::new(format!(
            "columns of this query belong to {}",
            quote(&known.text)
        ));
        Err(self.no_such(table.at, NameKind::Table, &table.text, hint))
    }

    fn column<C: Clone>(&self, relation: &Relation<'_, C>, column: &ColumnName) -> Result<C> {
        if let Some(table) = &column.table {
            self.check_table(relation.from, table)?;
        }
        let name = &column.name;
        if let Some((_, column)) = relation.find(&name.text) {
            return Ok(column.clone());
        }
        let is_corpus = relation.from.arguments.is_none();
        if is_corpus && name.text.eq_ignore_ascii_case("position") {
            let hint = Hint::new("`offset` is the byte where the word begins");
            return Err(self.not_supported(name.at, "the column `position`", hint));
        }
        let known: Vec<&str> = relation
            .columns
            .iter()
            .map(|(known, _)| known.as_str())
            .collect();
        let hint = if let Some(nearest) = nearest(&name.text, known.iter().copied()) {
            Hint::new(format!("did you mean {}?", quote(nearest)))
        } else if name.quoted {
            Hint::new(format!(
                "text is written in single quotes: '{}'",
                shorten(&name.text)
            ))
        } else if ["content", "bytes", "words"].contains(&name.text.to_ascii_lowercase().as_str())
            && is_corpus
        {
            Hint::new(format!(
                "files have it: `FROM files('{}')`",
                shorten(&relation.from.name.text)
            ))
        } else {
            did_you_mean(&name.text, &known, "columns are")
        };
        Err(self.no_such(name.at, NameKind::Column, &name.text, hint))
    }

    /// An expression that must be a column.
    fn plain_column<C: Clone>(
        &self,
        relation: &Relation<'_, C>,
        expression: &Expression,
    ) -> Result<C> {
        match &expression.kind {
            ExpressionKind::Column(column) => self.column(relation, column),
            ExpressionKind::Operand(_) => {
                Err(self.not_supported(expression.at, "a constant in SELECT", Hint::NONE))
            }
            ExpressionKind::Call(call) => Err(self.unknown_function(expression.at, call)),
        }
    }

    /// The error for a function that cannot stand where it does.
    fn unknown_function(&self, at: usize, call: &Call) -> Error {
        let function = call.function.to_ascii_lowercase();
        if is_count(call) {
            return self.conflict(at, "COUNT cannot stand here", Hint::NONE);
        }
        if is_substr(call) {
            let hint =
                Hint::new("`SELECT substr(content, 1, 100) FROM files('corpus')` reads from files");
            return self.not_supported(at, "substr() here", hint);
        }
        if functions::SCALAR_LATER.contains(&function.as_str()) {
            let hint = match function.as_str() {
                "length" | "octet_length" => Hint::new("`bytes` of files() is the size of a file"),
                _ => Hint::NONE,
            };
            return self.not_supported(at, format!("`{function}()`"), hint);
        }
        if functions::TABLE.contains(&function.as_str())
            || functions::TABLE_LATER.contains(&function.as_str())
        {
            let hint = Hint::new("table functions stand behind FROM");
            return self.no_such(at, NameKind::Function, &call.function, hint);
        }
        let hint = did_you_mean(&function, &functions::SCALAR, "functions are");
        self.no_such(at, NameKind::Function, &call.function, hint)
    }

    fn condition_column<C: Clone>(
        &self,
        relation: &Relation<'_, C>,
        condition: &Condition,
    ) -> Result<C> {
        let at = condition.left.at;
        match &condition.left.kind {
            ExpressionKind::Column(column) => self.column(relation, column),
            ExpressionKind::Operand(_) => {
                Err(self.not_supported(at, "a condition without a column", Hint::NONE))
            }
            ExpressionKind::Call(call) if is_count(call) => {
                Err(self.conflict(at, "COUNT cannot stand in WHERE", Hint::NONE))
            }
            ExpressionKind::Call(call) => Err(self.unknown_function(at, call)),
        }
    }

    fn no_condition(&self, condition: &Condition, column: &str, others: &str) -> Error {
        let hint = Hint::new(format!("conditions can be on {others}"));
        self.not_supported(condition.left.at, format!("a condition on {column}"), hint)
    }

    /// Narrows `keys` to what a condition allows. A comparison with NULL is never true.
    fn restrict(&self, keys: &mut Keys, condition: &Condition, column: &str) -> Result<()> {
        let mut wanted = Vec::with_capacity(condition.values.len());
        for operand in &condition.values {
            match self.value(&operand.kind) {
                Value::Text(text) => wanted.push(text.clone()),
                Value::Null => {}
                value @ (Value::Integer(_) | Value::Real(_) | Value::Blob(_)) => {
                    let hint = match (value, &operand.kind) {
                        (Value::Integer(number), OperandKind::Literal(_)) => {
                            Hint::new(format!("write '{number}'"))
                        }
                        _ => Hint::NONE,
                    };
                    return Err(self.wrong_type(operand, column, "TEXT", hint));
                }
            }
        }
        wanted.sort_unstable();
        wanted.dedup();
        if let Keys::These(before) = keys {
            wanted.retain(|key| before.binary_search(key).is_ok());
        }
        *keys = Keys::These(wanted);
        Ok(())
    }
}

fn is_count(call: &Call) -> bool {
    call.function.eq_ignore_ascii_case("count")
}

fn is_substr(call: &Call) -> bool {
    call.function.eq_ignore_ascii_case("substr") || call.function.eq_ignore_ascii_case("substring")
}

/// Reads `64MiB`, `512 KiB`, `1000`: a whole number and perhaps a unit, whose case does not matter.
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "kib" => 10,
        "mib" => 20,
        "gib" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}
