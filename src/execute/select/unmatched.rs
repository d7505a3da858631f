//! Notices on comparisons that are true of no word or n-gram: `word = 'the of'`, `ngram LIKE 'the  of'`.
//!
//! Words and n-grams are compared, also those of a subquery or view and those in lower or upper case, with values that do not
//! depend on the row: literals, parameters, results computed from them, and answers of subqueries.
//!
//! Invariant: a comparison with a notice is true of no row, in any corpus. Where that is not certain there is no notice. Plans
//! are not changed.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use zipfdb_sql::query::{
    Block, Collation, Comparison, Expression, ExpressionId, Function, Matcher, NgramsColumn, Query,
    Relation, Source, TermVectorsColumn, WordsColumn,
};
use zipfdb_storage::{PathText, Tokenizer};

use super::literals::LITERAL_BYTES_MAX;
use super::word_text::{
    PatternFault, is_cut_by_case, is_plain_word, is_sequence, is_word, pattern_fault, words_of,
};
use crate::Value;
use crate::expression::{Layout, Pattern, Program};
use crate::handles::session::Session;
use crate::notice::Notice;
use crate::runtime::interrupt::Interrupt;
use crate::runtime::memory::ValueMemory;

/// The most notices of a statement: a list of IN may have many literals.
pub(super) const NOTICES_MAX: usize = 5;

/// The most words of an n-gram.
const NGRAM_WORDS_MAX: usize = 8;

/// The notices of the queries of a statement.
pub(super) fn notices(
    session: &Session,
    queries: &[Query],
    interrupt: &Interrupt,
) -> UnmatchedNotices {
    let mut found = UnmatchedNotices::default();
    for (binding, query) in (0..).zip(queries) {
        for block in &query.blocks {
            found.look_at(session, query, block, (binding, interrupt));
        }
    }
    found
}

/// The notices of a statement, each once.
#[derive(Default)]
pub(super) struct UnmatchedNotices {
    notices: Vec<Notice>,
    /// The tokenizers of corpora, by name; none for a corpus that is gone.
    tokenizers: RefCell<HashMap<String, Option<Tokenizer>>>,
}

impl UnmatchedNotices {
    /// Checks a block of a query, perhaps with answers in place of subqueries; `binding` is the number of its parameter set.
    pub(super) fn look_at(
        &mut self,
        session: &Session,
        query: &Query,
        block: &Block,
        (binding, interrupt): (u64, &Interrupt),
    ) {
        if self.notices.len() == NOTICES_MAX {
            return;
        }
        let compared = ComparedBlock {
            session,
            query,
            block,
            binding,
            interrupt,
            values: ValueMemory::new(&session.shared().runtime.settings.lock()),
            program: OnceCell::new(),
            tokenizers: &self.tokenizers,
        };
        for notice in compared.notices() {
            self.add(notice);
        }
    }

    /// Adds a notice, unless it is known or there are enough.
    pub(super) fn add(&mut self, notice: Notice) {
        if self.notices.len() < NOTICES_MAX && !self.notices.contains(&notice) {
            self.notices.push(notice);
        }
    }

    /// Adds notices on the same statement from elsewhere.
    pub(super) fn add_all(&mut self, others: UnmatchedNotices) {
        others
            .notices
            .into_iter()
            .for_each(|notice| self.add(notice));
    }

    pub(super) fn into_notices(self) -> Vec<Notice> {
        self.notices
    }
}

/// A text in a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ComparedText<'a> {
    corpus: &'a str,
    /// Words of an n-gram; none for a word.
    n: Option<usize>,
    /// The case in which it is compared, if not its own.
    case: Option<LetterCase>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LetterCase {
    Lower,
    Upper,
}

impl LetterCase {
    fn name(self) -> &'static str {
        match self {
            LetterCase::Lower => "lower",
            LetterCase::Upper => "upper",
        }
    }

    fn of(self, text: &str) -> String {
        match self {
            LetterCase::Lower => text.to_lowercase(),
            LetterCase::Upper => text.to_uppercase(),
        }
    }
}

/// The reason why nothing equals a value.
enum ValueFault {
    /// A text with this number of words, which differs.
    Words(usize),
    /// A text in another case than that of the comparison.
    Case(LetterCase),
    /// A number.
    Number,
    /// A BLOB of this text.
    TextAsBlob(String),
    /// A BLOB that is no word.
    Blob,
}

/// A block whose comparisons are checked.
struct ComparedBlock<'a> {
    session: &'a Session,
    query: &'a Query,
    block: &'a Block,
    binding: u64,
    interrupt: &'a Interrupt,
    /// The memory of values and compiled patterns.
    values: ValueMemory,
    /// The program with the values that do not depend on the row; none if it cannot be made, which building the query reports.
    program: OnceCell<Option<Program>>,
    tokenizers: &'a RefCell<HashMap<String, Option<Tokenizer>>>,
}

impl<'a> ComparedBlock<'a> {
    fn notices(&self) -> Vec<Notice> {
        let mut notices = Vec::new();
        match &self.block.source {
            Source::Relation(Relation::FilesWith { corpus, words }) => {
                let text = ComparedText {
                    corpus,
                    n: None,
                    case: None,
                };
                for word in words {
                    let value = match std::str::from_utf8(word) {
                        Ok(word) => Value::from(word),
                        Err(_) => Value::Blob(word.clone()),
                    };
                    notices.extend(self.of_value(&[text], &value, Collation::Binary));
                }
            }
            Source::Relation(Relation::Corpora) => notices.extend(self.of_missing_database()),
            _ => {}
        }
        for expression in &self.block.expressions {
            match expression {
                Expression::Compare {
                    comparison: Comparison::Equal | Comparison::Is,
                    left,
                    right,
                    collation,
                } => {
                    for (text, value) in [(*left, *right), (*right, *left)] {
                        let texts = self.texts(text);
                        if !texts.is_empty()
                            && let Some(value) = self.constant(value)
                        {
                            notices.extend(self.of_value(&texts, value, *collation));
                        }
                    }
                }
                Expression::In {
                    operand,
                    list,
                    negated: false,
                    collation,
                } => {
                    let texts = self.texts(*operand);
                    let list = list.iter().filter(|_| !texts.is_empty());
                    let values = list.filter_map(|&item| self.constant(item));
                    let values =
                        values.filter_map(|value| self.of_value(&texts, value, *collation));
                    notices.extend(values.take(NOTICES_MAX));
                }
                Expression::InValues {
                    operand,
                    values,
                    negated: false,
                    collation,
                } => notices.extend(self.of_values(&self.texts(*operand), values, *collation)),
                Expression::Match {
                    matcher,
                    text,
                    pattern,
                    escape,
                    negated: false,
                } => {
                    let texts = self.texts(*text);
                    if !texts.is_empty() {
                        notices.extend(self.of_pattern(&texts, *matcher, *pattern, *escape));
                    }
                }
                _ => {}
            }
        }
        notices
    }

    /// The notice on a list of corpora, which is empty as there is no database.
    fn of_missing_database(&self) -> Option<Notice> {
        let path = self.session.missing_directory()?;
        let text = format!("there is no database at {} yet", PathText(&path));
        Some(Notice::new(text, Some("the first change makes it".into())))
    }

    /// The words or n-grams that an expression is for every row; empty if it may be something else.
    fn texts(&self, id: ExpressionId) -> Vec<ComparedText<'a>> {
        texts_of(self.query, self.block, id)
    }

    /// The value of an expression that does not depend on the row.
    fn constant(&self, id: ExpressionId) -> Option<&Value> {
        match &self.block.expressions[id.0 as usize] {
            Expression::Value(value) => return Some(value),
            Expression::Column(_) | Expression::Key(_) | Expression::Aggregate(_) => return None,
            _ => {}
        }
        let layout = Layout::default();
        let program = self.program.get_or_init(|| {
            let expressions = &self.block.expressions;
            Program::new(
                expressions,
                &layout,
                self.binding,
                self.interrupt,
                &self.values,
            )
            .ok()
        });
        program.as_ref()?.constant(id)
    }

    fn tokenizer(&self, corpus: &str) -> Option<Tokenizer> {
        if let Some(known) = self.tokenizers.borrow().get(corpus) {
            return *known;
        }
        // For a missing corpus, opening the scan is the error.
        let corpus_of = |name| {
            self.session
                .corpus(name)
                .and_then(|corpus| corpus.settings())
        };
        let tokenizer = corpus_of(corpus).ok().map(|settings| settings.tokenizer);
        let mut tokenizers = self.tokenizers.borrow_mut();
        tokenizers.insert(corpus.to_owned(), tokenizer);
        tokenizer
    }

    /// The notice on a value that none of the texts equals.
    fn of_value(
        &self,
        texts: &[ComparedText<'_>],
        value: &Value,
        collation: Collation,
    ) -> Option<Notice> {
        let fault = self.fault(texts, value, collation)?;
        let text = texts.first()?;
        let tokenizer = self.tokenizer(text.corpus)?.name();
        let what = text.name();
        let said = |why: String| format!("no {what} equals {}, {why}", written(value));
        let column = text.column();
        Some(match (fault, value) {
            (ValueFault::Words(words), Value::Text(literal)) => Notice::new(
                said(format!(
                    "in which the tokenizer `{tokenizer}` finds {}",
                    counted(words)
                )),
                self.hint(text, literal, words),
            ),
            (ValueFault::Case(case), Value::Text(literal)) => {
                let other = Value::Text(case.of(literal));
                Notice::new(
                    said(format!("which is not in {} case", case.name())),
                    Some(format!("write {column} = {}", written(&other))),
                )
            }
            (ValueFault::Number, _) => Notice::new(
                said("which is a number, and it is a text".into()),
                Some(format!("text is written in single quotes: '{value}'")),
            ),
            (ValueFault::TextAsBlob(literal), _) => Notice::new(
                said("which is a BLOB, and what is UTF-8 is TEXT".into()),
                Some(format!(
                    "write {column} = {}",
                    written(&Value::Text(literal))
                )),
            ),
            _ => Notice::new(
                said(format!("which is no word of the tokenizer `{tokenizer}`")),
                None,
            ),
        })
    }

    /// The notice on the values of a subquery if none of the texts equals any of them.
    fn of_values(
        &self,
        texts: &[ComparedText<'_>],
        values: &[Arc<Value>],
        collation: Collation,
    ) -> Option<Notice> {
        if texts.is_empty() {
            return None;
        }
        let mut values = values.iter().filter(|value| ***value != Value::Null);
        let first = values.next()?;
        let notice = self.of_value(texts, first, collation)?;
        let mut others = 0u64;
        for value in values {
            self.fault(texts, value, collation)?;
            others += 1;
        }
        if others == 0 {
            return Some(notice);
        }
        let count = others + 1;
        let text = format!(
            "{}; nor any of the other {others} of {count} values",
            notice.text()
        );
        Some(Notice::new(text, notice.hint().map(str::to_owned)))
    }

    /// The reason why none of the texts equals a value; none if one may.
    fn fault(
        &self,
        texts: &[ComparedText<'_>],
        value: &Value,
        collation: Collation,
    ) -> Option<ValueFault> {
        let mut first = None;
        for text in texts {
            let fault = self.fault_of(*text, value, collation)?;
            first.get_or_insert(fault);
        }
        first
    }

    fn fault_of(
        &self,
        text: ComparedText<'_>,
        value: &Value,
        collation: Collation,
    ) -> Option<ValueFault> {
        match value {
            Value::Null => None,
            Value::Integer(_) | Value::Real(_) => Some(ValueFault::Number),
            Value::Blob(_) if text.case.is_some() => None,
            Value::Blob(bytes) => match std::str::from_utf8(bytes) {
                Ok(word) => Some(ValueFault::TextAsBlob(word.to_owned())),
                Err(_) if text.n.is_some() || bytes.len() > LITERAL_BYTES_MAX => None,
                Err(_) => {
                    let tokenizer = self.tokenizer(text.corpus)?;
                    (!is_word(tokenizer, bytes)).then_some(ValueFault::Blob)
                }
            },
            Value::Text(literal) if literal.len() > LITERAL_BYTES_MAX => None,
            Value::Text(literal) => {
                let is_binary = collation == Collation::Binary;
                if let Some(case) = text.case.filter(|_| is_binary)
                    && case.of(literal) != *literal
                {
                    return Some(ValueFault::Case(case));
                }
                let n = text.n.unwrap_or(1);
                if n == 1 && is_plain_word(literal) {
                    return None;
                }
                if (text.case.is_some() || !is_binary) && is_cut_by_case(literal) {
                    return None;
                }
                let tokenizer = self.tokenizer(text.corpus)?;
                let words = || words_of(tokenizer, literal).len();
                (!is_sequence(tokenizer, literal, n)).then(|| ValueFault::Words(words()))
            }
        }
    }

    /// The notice on a pattern that none of the texts matches.
    fn of_pattern(
        &self,
        texts: &[ComparedText<'_>],
        matcher: Matcher,
        pattern: ExpressionId,
        escape: Option<ExpressionId>,
    ) -> Option<Notice> {
        let value = self.constant(pattern)?;
        let escape = match escape {
            Some(escape) => Some(self.constant(escape)?),
            None => None,
        };
        let Value::Text(pattern) = value else {
            return None;
        };
        if pattern.len() > LITERAL_BYTES_MAX {
            return None;
        }
        let runs = Pattern::new(matcher, value, escape, &self.values)
            .ok()??
            .fixed_runs()?;
        let is_cased = texts.iter().any(|text| text.case.is_some());
        if is_cased && runs.iter().any(|run| is_cut_by_case(&run.text)) {
            return None;
        }
        let fault_of = |text: &ComparedText<'_>, n| {
            let tokenizer = self.tokenizer(text.corpus)?;
            pattern_fault(tokenizer, &runs, n).map(|fault| (tokenizer, fault))
        };
        let mut first = None;
        for text in texts {
            let fault = fault_of(text, text.n.unwrap_or(1))?;
            first.get_or_insert((text, fault));
        }
        let (text, (tokenizer, fault)) = first?;
        let operator = match matcher {
            Matcher::Like => "LIKE",
            Matcher::Glob => "GLOB",
            Matcher::Regexp => "REGEXP",
        };
        let quoted = |text: &str| written(&Value::from(text));
        let name = tokenizer.name();
        let why = match &fault {
            PatternFault::Words(words) => {
                format!("in which the tokenizer `{name}` finds {}", counted(*words))
            }
            PatternFault::NeverWithin(text) => {
                format!(
                    "as no word of the tokenizer `{name}` has {} in it",
                    quoted(text)
                )
            }
            PatternFault::NoWord(text) => {
                format!("as {} is no word of the tokenizer `{name}`", quoted(text))
            }
            PatternFault::Space => "as its words have one space between them".to_owned(),
            PatternFault::TooMany(words) => format!("which has at least {}", counted(*words)),
        };
        let what = text.name();
        let said = format!("no {what} is {operator} {}, {why}", written(value));
        // The same pattern may be one of longer n-grams.
        let ngram = ComparedText {
            n: Some(0),
            ..*text
        };
        let longer = (2..=NGRAM_WORDS_MAX)
            .find(|&n| Some(n) != text.n && pattern_fault(tokenizer, &runs, n).is_none());
        let hint = match (&fault, &runs[..]) {
            (PatternFault::Words(words), [run]) if Some(*words) == text.n => {
                let words = words_of(tokenizer, &run.text).join(" ");
                let is_plain = !words.contains(['%', '_', '*', '?', '[']);
                (is_plain && matcher != Matcher::Regexp).then(|| {
                    let column = text.column();
                    format!("write {column} {operator} {}", quoted(&words))
                })
            }
            _ => longer.map(|n| {
                format!(
                    "FROM ngrams({}, {n}) WHERE {} {operator} {} finds these words",
                    quoted(text.corpus),
                    ngram.column(),
                    written(value)
                )
            }),
        };
        Some(Notice::new(said, hint))
    }

    /// The hint that finds the words of a literal.
    fn hint(&self, text: &ComparedText<'_>, literal: &str, words: usize) -> Option<String> {
        let tokenizer = self.tokenizer(text.corpus)?;
        let joined = Value::Text(words_of(tokenizer, literal).join(" "));
        match words {
            0 => None,
            _ if words == text.n.unwrap_or(1) => {
                Some(format!("write {} = {}", text.column(), written(&joined)))
            }
            1..=NGRAM_WORDS_MAX => Some(format!(
                "FROM ngrams({}, {words}) WHERE {} = {} finds these words",
                written(&Value::from(text.corpus)),
                ComparedText {
                    n: Some(words),
                    ..*text
                }
                .column(),
                written(&joined)
            )),
            _ => None,
        }
    }
}

impl ComparedText<'_> {
    /// The column in SQL.
    fn column(&self) -> String {
        let column = match self.n {
            None => "word",
            Some(_) => "ngram",
        };
        match self.case {
            None => column.to_owned(),
            Some(case) => format!("{}({column})", case.name()),
        }
    }

    /// The name in a notice.
    fn name(&self) -> String {
        let column = self.column();
        match self.n {
            None => format!("`{column}`"),
            Some(n) => format!("`{column}` of {}", counted(n)),
        }
    }
}

/// The words or n-grams that an expression of a block is for every row; empty if it may be something else. Recursion is as deep
/// as blocks read one another, which binding bounds.
fn texts_of<'a>(query: &'a Query, block: &'a Block, id: ExpressionId) -> Vec<ComparedText<'a>> {
    match &block.expressions[id.0 as usize] {
        Expression::Column(column) => texts_of_column(query, &block.source, *column),
        Expression::Key(key) => {
            let aggregation = block.aggregation.as_ref();
            let key = aggregation.and_then(|aggregation| aggregation.keys.get(*key));
            key.map_or_else(Vec::new, |key| texts_of(query, block, key.expression))
        }
        Expression::Call {
            function: function @ (Function::Lower | Function::Upper),
            arguments,
            ..
        } => {
            let [argument] = arguments[..] else {
                return Vec::new();
            };
            let case = match function {
                Function::Lower => LetterCase::Lower,
                _ => LetterCase::Upper,
            };
            let mut texts = texts_of(query, block, argument);
            if texts.iter().any(|text| text.case.is_some()) {
                return Vec::new();
            }
            for text in &mut texts {
                text.case = Some(case);
            }
            texts
        }
        _ => Vec::new(),
    }
}

fn texts_of_column<'a>(
    query: &'a Query,
    source: &'a Source,
    column: usize,
) -> Vec<ComparedText<'a>> {
    let of_block = |block: usize| {
        let block = &query.blocks[block];
        let output = block.outputs.get(column);
        output.map_or_else(Vec::new, |output| texts_of(query, block, output.expression))
    };
    let text = |corpus, n| {
        vec![ComparedText {
            corpus,
            n,
            case: None,
        }]
    };
    match source {
        Source::Relation(Relation::Words { corpus }) if column == WordsColumn::Word as usize => {
            text(corpus, None)
        }
        Source::Relation(Relation::TermVectors { corpus, .. })
            if column == TermVectorsColumn::Word as usize =>
        {
            text(corpus, None)
        }
        Source::Relation(Relation::Ngrams { corpus, n })
            if column == NgramsColumn::Ngram as usize =>
        {
            text(corpus, Some(*n as usize)) // 1 to 8
        }
        Source::Block(block) => of_block(*block),
        Source::Union(blocks) => {
            let mut all: Vec<ComparedText<'a>> = Vec::new();
            for &block in blocks {
                let texts = of_block(block);
                if texts.is_empty() {
                    return texts;
                }
                all.extend(texts);
            }
            all.dedup();
            all
        }
        _ => Vec::new(),
    }
}

/// The number of words, with its noun.
fn counted(words: usize) -> String {
    match words {
        0 => "no word".to_owned(),
        1 => "1 word".to_owned(),
        count => format!("{count} words"),
    }
}

/// A value in SQL, shortened.
fn written(value: &Value) -> String {
    const SHOWN: usize = 60;
    let Value::Text(text) = value else {
        let text = value.to_string();
        return match text.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}...", &text[..end]),
            None => text,
        };
    };
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    format!("'{}'", shown.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{CorpusSettings, Database};

    fn database(text: &str) -> Database {
        let database = Database::in_memory().unwrap();
        let corpus = database
            .create_corpus("c", CorpusSettings::default())
            .unwrap();
        corpus.append_many(&[("f", text)]).unwrap();
        database
    }

    fn said(database: &Database, sql: &str) -> Vec<String> {
        let rows = database.query(sql, ()).unwrap();
        rows.notices().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn literals_that_nothing_can_equal_are_reported() {
        let database = database("mail user@example.com of the day");
        let of_the = "no `word` equals 'the of', in which the tokenizer `unicode` finds 2 words; \
                      hint: FROM ngrams('c', 2) WHERE ngram = 'the of' finds these words";
        for (sql, notice) in [
            ("FROM c WHERE word = 'the of'", of_the),
            ("FROM c WHERE 'the of' IS word", of_the),
            ("FROM c WHERE word = 'the ' || 'of'", of_the),
            ("FROM c WHERE word = (SELECT 'the of')", of_the),
            ("FROM c WHERE word IN (SELECT 'the of')", of_the),
            ("FROM c GROUP BY word HAVING word = 'the of'", of_the),
            ("FROM files_with('c', 'mail', 'the of')", of_the),
            ("FROM term_vectors('c') WHERE word = 'the of'", of_the),
            (
                "FROM (SELECT word AS w FROM c GROUP BY word) WHERE w = 'the of'",
                of_the,
            ),
            (
                "FROM (SELECT word FROM c UNION ALL SELECT word FROM term_vectors('c')) WHERE word = 'the of'",
                of_the,
            ),
            (
                "FROM c WHERE word IN ('mail', 'user@example.com')",
                "no `word` equals 'user@example.com', in which the tokenizer `unicode` finds 2 words; \
                 hint: FROM ngrams('c', 2) WHERE ngram = 'user example.com' finds these words",
            ),
            (
                "FROM c WHERE word IN (SELECT ngram FROM ngrams('c', 2))",
                "no `word` equals 'example.com of', in which the tokenizer `unicode` finds 2 words; nor any of the other 4 of 5 \
                 values; hint: FROM ngrams('c', 2) WHERE ngram = 'example.com of' finds these words",
            ),
            (
                "FROM c WHERE word = ' mail'",
                "no `word` equals ' mail', in which the tokenizer `unicode` finds 1 word; hint: write word = 'mail'",
            ),
            (
                "FROM c WHERE word = '--'",
                "no `word` equals '--', in which the tokenizer `unicode` finds no word",
            ),
            (
                "FROM c WHERE word = -5",
                "no `word` equals '-5', in which the tokenizer `unicode` finds 1 word; hint: write word = '5'",
            ),
            (
                "FROM c WHERE word = X'6d61696c'",
                "no `word` equals X'6d61696c', which is a BLOB, and what is UTF-8 is TEXT; hint: write word = 'mail'",
            ),
            (
                "FROM c WHERE word = X'ff'",
                "no `word` equals X'ff', which is no word of the tokenizer `unicode`",
            ),
            (
                "FROM c WHERE lower(word) = 'the of'",
                "no `lower(word)` equals 'the of', in which the tokenizer `unicode` finds 2 words; \
                 hint: FROM ngrams('c', 2) WHERE lower(ngram) = 'the of' finds these words",
            ),
            (
                "FROM c WHERE upper(word) IN ('THE', 'Of')",
                "no `upper(word)` equals 'Of', which is not in upper case; hint: write upper(word) = 'OF'",
            ),
            (
                "FROM c WHERE lower(word) = 5",
                "no `lower(word)` equals 5, which is a number, and it is a text; hint: text is written in single quotes: '5'",
            ),
            (
                "FROM ngrams('c', 3) WHERE ngram = 'of the'",
                "no `ngram` of 3 words equals 'of the', in which the tokenizer `unicode` finds 2 words; \
                 hint: FROM ngrams('c', 2) WHERE ngram = 'of the' finds these words",
            ),
            (
                "FROM ngrams('c', 2) WHERE ngram = 'a b c d e f g h i'",
                "no `ngram` of 2 words equals 'a b c d e f g h i', in which the tokenizer `unicode` finds 9 words",
            ),
            (
                "FROM ngrams('c', 2) WHERE lower(ngram) = 'of  the'",
                "no `lower(ngram)` of 2 words equals 'of  the', in which the tokenizer `unicode` finds 2 words; \
                 hint: write lower(ngram) = 'of the'",
            ),
            (
                "FROM ngrams('c', 2) WHERE ngram LIKE 'of  the'",
                "no `ngram` of 2 words is LIKE 'of  the', in which the tokenizer `unicode` finds 2 words; \
                 hint: write ngram LIKE 'of the'",
            ),
            (
                "FROM ngrams('c', 2) WHERE ngram LIKE '%  the'",
                "no `ngram` of 2 words is LIKE '%  the', as its words have one space between them",
            ),
            (
                "FROM ngrams('c', 2) WHERE ngram GLOB 'of the day*'",
                "no `ngram` of 2 words is GLOB 'of the day*', which has at least 3 words; \
                 hint: FROM ngrams('c', 3) WHERE ngram GLOB 'of the day*' finds these words",
            ),
            (
                "FROM c WHERE word LIKE 'the of%'",
                "no `word` is LIKE 'the of%', as no word of the tokenizer `unicode` has 'the of' in it; \
                 hint: FROM ngrams('c', 2) WHERE ngram LIKE 'the of%' finds these words",
            ),
            (
                "FROM c WHERE lower(word) REGEXP '^user@'",
                "no `lower(word)` is REGEXP '^user@', as no word of the tokenizer `unicode` has 'user@' in it",
            ),
        ] {
            let sql = format!("SELECT COUNT(*) {sql}");
            let count = database.query(&sql, ()).unwrap().next();
            let is_zero = count.is_none_or(|row| row.unwrap()[0] == Value::Integer(0));
            assert!(is_zero || sql.contains(" IN ("), "{sql}");
            assert_eq!(said(&database, &sql), [notice], "{sql}");
            assert_eq!(
                said(&database, &format!("EXPLAIN {sql}")),
                [notice],
                "{sql}"
            );
        }
    }

    #[test]
    fn what_may_be_equal_is_not_reported() {
        let database = database("mail user@example.com of the day");
        for sql in [
            "FROM c WHERE word = 'absent'",
            "FROM c WHERE word = NULL",
            "FROM c WHERE word <> 'the of'",
            "FROM c WHERE word NOT IN ('the of') AND word NOT LIKE 'the of'",
            "FROM c WHERE word < 'the of'",
            "FROM c WHERE file = 'the of'",
            "FROM c WHERE word = 1984 OR word = 1.5",
            "FROM c WHERE lower(word) = 'The' COLLATE NOCASE",
            "FROM c WHERE word IN (SELECT 'the of' UNION ALL SELECT 'the')",
            "FROM c WHERE word IN (SELECT word FROM c WHERE word = 'absent')",
            "FROM c WHERE word LIKE '% %' OR word LIKE 'd_y' OR word GLOB '*@*'",
            "FROM files_with('c', 'absent')",
            "FROM ngrams('c', 2) WHERE ngram = 'user@example.com'",
            "FROM ngrams('c', 2) WHERE ngram LIKE 'of%the' OR ngram LIKE '%m%e d%'",
            "FROM (SELECT word || ' x' AS word FROM c) WHERE word = 'the x'",
            "FROM (SELECT word FROM c UNION ALL SELECT ngram FROM ngrams('c', 2)) WHERE word = 'of the'",
            "FROM (SELECT word FROM c UNION ALL SELECT file FROM c) WHERE word = 'a b'",
        ] {
            let sql = format!("SELECT COUNT(*) {sql}");
            assert_eq!(said(&database, &sql), [""; 0], "{sql}");
        }
        let sql = "FROM c WHERE word IN ('a b', 'a c', 'a d', 'a e', 'a f', 'a g', 'a h', 'a b')";
        let notices = said(&database, &format!("EXPLAIN SELECT COUNT(*) {sql}"));
        assert_eq!(notices.len(), NOTICES_MAX);
    }

    #[test]
    fn statements_that_read_and_write_say_it_too() {
        let folder = tempfile::tempdir().unwrap();
        let database = database("of the day");
        let path = folder.path().join("x.csv");
        for sql in [
            "DELETE FROM c WHERE file IN (SELECT file FROM c WHERE word = 'of the')",
            "INSERT INTO c (file, content) SELECT word, 'x' FROM c WHERE word = 'of the'",
            &format!(
                "COPY (SELECT file FROM c WHERE word = 'of the') TO '{}'",
                path.display()
            ),
        ] {
            assert_eq!(said(&database, sql).len(), 1, "{sql}");
        }
        let sql = "DELETE FROM c WHERE file IN (SELECT file FROM c WHERE word = ?)";
        let sets = ["of the", "the", "of the"].map(|word| vec![Value::from(word)]);
        let rows = database.query_many(sql, &sets).unwrap();
        assert_eq!(rows.notices().len(), 1);
    }
}
