//! SELECT, one function for each kind of relation.
//!
//! Invariant: what a query may ask of a relation is decided here, and nowhere else. The clauses that all of them share
//! are in `clause`.

use super::Binder;
use super::clause::{Output, Relation, is_count, is_substr};
use crate::error::{Error, Hint, NameKind, Result, quote, shorten};
use crate::functions;
use crate::plan::{
    CorporaColumn, Counted, FilesColumn, Keys, OccurrencesColumn, OrderBy, Query, Rows,
    SegmentsColumn, WordCountsColumn,
};
use crate::suggest::did_you_mean;
use crate::syntax::{
    Argument, Call, ColumnName, Expression, ExpressionKind, Item, Name, OperandKind, Select,
};
use crate::value::Value;

/// The columns of a corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CorpusColumn {
    File,
    Word,
    Offset,
    Length,
}

impl Binder<'_> {
    pub(super) fn select(&self, select: &Select) -> Result<Query> {
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

    pub(super) fn substr(
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

    pub(super) fn count<C: Clone + PartialEq>(
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
}
