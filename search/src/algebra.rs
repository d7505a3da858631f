//! The algebra of spans: what a query in either language means.
//!
//! A file is a sequence of words; between two of them lies a gap, which may be empty. A *span* is a range of words of one file,
//! `start..end`, perhaps empty. A query denotes a set of spans. Invariant: every type is plain data and names words by text; which
//! words of a corpus pass a test is found once for each dictionary.

use std::borrow::Cow;

/// A condition on the text of a word.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TextTest {
    /// What the whole text must be.
    pub pattern: Pattern,
    /// Case is ignored: by simple case folding, as the `lc` attribute does.
    pub folds_case: bool,
    /// Diacritics are ignored: combining marks after canonical decomposition.
    pub folds_diacritics: bool,
}

/// A pattern for a whole text. Patterns are compared in the folded form where the test folds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// The text itself.
    Literal(Vec<u8>),
    /// A text that begins so.
    Prefix(Vec<u8>),
    /// A text with `*` for any characters, `?` for one, and `\` before a character that stands for itself.
    Wildcard(Vec<u8>),
    /// A regular expression in the syntax of the crate `regex`, for the whole text.
    Regex(String),
    /// A text at most `edits` insertions, deletions, substitutions and transpositions of neighbours away.
    Fuzzy {
        /// The text.
        text: Vec<u8>,
        /// At most this many edits, 0 to 2.
        edits: u8,
    },
    /// One of these texts; sorted and distinct.
    List(Vec<Vec<u8>>),
    /// A text of the same stem.
    Stem(Stemmer, Vec<u8>),
}

/// A rule for stems, the parts of words that inflection leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stemmer {
    /// Porter's second stemmer for English, of the Snowball project.
    English,
}

impl Stemmer {
    /// The stemmer of a name.
    pub fn named(name: &str) -> Option<Stemmer> {
        (name == "english").then_some(Stemmer::English)
    }

    /// The stem of a text in lower case; a text that is not UTF-8 is its own.
    pub fn stem(self, text: &[u8]) -> Cow<'_, [u8]> {
        let Stemmer::English = self;
        let Ok(text) = str::from_utf8(text) else {
            return Cow::Borrowed(text);
        };
        let stemmer = rust_stemmers::Stemmer::create(rust_stemmers::Algorithm::English);
        match stemmer.stem(text) {
            Cow::Borrowed(stem) => Cow::Borrowed(stem.as_bytes()),
            Cow::Owned(stem) => Cow::Owned(stem.into_bytes()),
        }
    }
}

/// A comparison of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Comparison {
    /// Whether `left` compares so with `right`.
    pub fn holds<T: Ord>(self, left: &T, right: &T) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
        }
    }
}

/// A condition on one word of a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WordTest {
    /// Every word.
    Any,
    /// On its text.
    Text(TextTest),
    /// On the number of its occurrences in the corpus, `f(word) >= n`.
    Frequency(Comparison, u64),
    /// On the gap before or after it; not a property of the dictionary's word alone.
    Gap(Side, TextTest),
    /// On its 0-based number in the file; not a property of the dictionary's word alone.
    Position(Comparison, u64),
    /// On the offset of its first byte in the file; not a property of the dictionary's word alone.
    Offset(Comparison, u64),
    /// Words that do not pass.
    Not(Box<WordTest>),
    /// Words that pass all; at least one test.
    All(Vec<WordTest>),
    /// Words that pass one; at least one test.
    AnyOf(Vec<WordTest>),
}

impl WordTest {
    /// Whether the test depends on more than the word: on gaps, position or offset.
    pub fn is_contextual(&self) -> bool {
        self.has(&|test| matches!(test, Self::Gap(..) | Self::Position(..) | Self::Offset(..)))
    }

    /// Whether the test depends on frequencies.
    pub fn needs_frequency(&self) -> bool {
        self.has(&|test| matches!(test, Self::Frequency(..)))
    }

    /// Whether the test or one in it is of this kind.
    fn has(&self, is_kind: &dyn Fn(&Self) -> bool) -> bool {
        is_kind(self)
            || match self {
                Self::Not(test) => test.has(is_kind),
                Self::All(tests) | Self::AnyOf(tests) => tests.iter().any(|test| test.has(is_kind)),
                _ => false,
            }
    }
}

/// A side of a word or span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// Before it.
    Before,
    /// After it.
    After,
}

/// A unit that a file is divided into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// The whole file.
    File,
    /// A record; a file until corpora have records.
    Record,
    /// What ends with a line break: LF, CR LF, or CR.
    Line,
    /// What ends with an empty line: two line breaks with only spaces and tabs between them, or U+2029.
    Paragraph,
    /// A sentence of UAX #29.
    Sentence,
    /// This number of consecutive words, counted from the begin of the file.
    Window(u32),
}

/// An expression for a set of spans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Span {
    /// The empty span at every place.
    Empty,
    /// One word.
    Word(WordTest),
    /// One after the other.
    Sequence(Vec<Span>),
    /// All of the spans of each.
    Alternation(Vec<Span>),
    /// The same again, `minimum` to `maximum` times; no maximum: any number.
    Repeat {
        /// What is repeated.
        span: Box<Span>,
        /// At least.
        minimum: u32,
        /// At most.
        maximum: Option<u32>,
    },
    /// The span gets a name, which constraints, `show` and the columns of captures use.
    Capture {
        /// The name.
        name: String,
        /// What it names.
        span: Box<Span>,
    },
    /// The empty span where `span` does (or does not) match on that side.
    Look {
        /// Before: look-behind. After: look-ahead.
        side: Side,
        /// It must not match.
        is_negated: bool,
        /// What is looked for.
        span: Box<Span>,
    },
    /// The empty span at the start of each unit.
    UnitStart(Unit),
    /// The empty span at the end of each unit.
    UnitEnd(Unit),
    /// Each unit.
    Unit(Unit),
    /// Spans of `span` that lie within one of `container`, or with `is_negated` in none.
    Within {
        /// The spans that are kept.
        span: Box<Span>,
        /// What they are compared with.
        container: Box<Span>,
        /// In none.
        is_negated: bool,
    },
    /// Spans of `span` of at most `words` words.
    WithinWords {
        /// The spans that are kept.
        span: Box<Span>,
        /// At most.
        words: u32,
    },
    /// Spans of `span` that contain one of `content`, or with `is_negated` none.
    Containing {
        /// The spans that are kept.
        span: Box<Span>,
        /// What they are compared with.
        content: Box<Span>,
        /// None.
        is_negated: bool,
    },
    /// Spans that are in all sets; at least one.
    Intersection(Vec<Span>),
    /// Spans that are not in the set; each is a nonempty span of one file. Only under [`Span::Intersection`] or for one word.
    Complement(Box<Span>),
    /// `(meet a b l r)`: spans of `first` with the start of one of `second` from `left` to `right` words away of their start
    /// (negative: before).
    Meet {
        /// The spans that are kept.
        first: Box<Span>,
        /// What must be near.
        second: Box<Span>,
        /// From.
        left: i32,
        /// To, at least `left`.
        right: i32,
    },
    /// Spans in which each part matches once, no two parts share a word, and the words between neighbours number at most
    /// `distance` in all; in any order unless `is_ordered`.
    Near {
        /// At least two.
        parts: Vec<Span>,
        /// Words that are in no part, in all.
        distance: u32,
        /// In the order of `parts`.
        is_ordered: bool,
    },
    /// Spans from the first to the last of words of which the `i`-th passes the `i`-th test, no two the same: with `p[i]` the number
    /// of that word in the file, the largest `p[i] - i` exceeds the smallest by at most `slop`. Words in the order of the tests so
    /// have at most `slop` others between them; two neighbours change places for 2.
    Slop {
        /// At least two.
        words: Vec<WordTest>,
        /// How far the words may be moved in all.
        slop: u32,
    },
}

impl Span {
    /// The spans that it is made of.
    fn parts(&self) -> Vec<&Span> {
        match self {
            Span::Empty
            | Span::Word(_)
            | Span::UnitStart(_)
            | Span::UnitEnd(_)
            | Span::Unit(_)
            | Span::Slop { .. } => Vec::new(),
            Span::Sequence(spans) | Span::Alternation(spans) | Span::Intersection(spans) => {
                spans.iter().collect()
            }
            Span::Near { parts, .. } => parts.iter().collect(),
            Span::Repeat { span, .. }
            | Span::Capture { span, .. }
            | Span::Look { span, .. }
            | Span::WithinWords { span, .. }
            | Span::Complement(span) => vec![span],
            Span::Within {
                span, container, ..
            } => vec![span, container],
            Span::Containing { span, content, .. } => vec![span, content],
            Span::Meet { first, second, .. } => vec![first, second],
        }
    }

    /// Calls `visit` with the span and all that it is made of. Recursion is as deep as the span.
    pub fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a Span)) {
        visit(self);
        for part in self.parts() {
            part.visit(visit);
        }
    }
}

/// A value of a capture that constraints compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaptureValue {
    /// Text of the words, joined by one space; folded where asked.
    Text {
        /// The capture.
        capture: String,
        /// Case is ignored.
        folds_case: bool,
        /// Diacritics are ignored.
        folds_diacritics: bool,
    },
    /// Number of occurrences of its first word in the corpus.
    Frequency(String),
    /// Number of the first word in the file.
    Start(String),
    /// Number of the word behind the last in the file.
    End(String),
    /// Words from the start of one to the start of the other; negative if the second comes first.
    Distance(String, String),
    /// A number.
    Number(i64),
    /// A text.
    Literal(Vec<u8>),
}

/// A condition on the captures of one match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Constraint {
    /// Values compare so; texts by bytes, both folded as either asks. A capture without a span makes it false.
    Compare(CaptureValue, Comparison, CaptureValue),
    /// It does not hold.
    Not(Box<Constraint>),
    /// All hold.
    All(Vec<Constraint>),
    /// One holds.
    AnyOf(Vec<Constraint>),
}

impl Constraint {
    /// Whether the condition depends on frequencies.
    pub fn needs_frequency(&self) -> bool {
        match self {
            Constraint::Compare(left, _, right) => [left, right]
                .iter()
                .any(|value| matches!(value, CaptureValue::Frequency(_))),
            Constraint::Not(constraint) => constraint.needs_frequency(),
            Constraint::All(constraints) | Constraint::AnyOf(constraints) => {
                constraints.iter().any(Constraint::needs_frequency)
            }
        }
    }
}

/// Which spans of the set are hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Strategy {
    /// Of the spans with one start the shortest nonempty one.
    #[default]
    Shortest,
    /// Of the spans with one start the longest, without those that lie in a longer hit.
    Longest,
    /// Every nonempty span of the set, once.
    All,
}

/// A query for spans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanQuery {
    /// The set.
    pub span: Span,
    /// A condition on captures. Spans compete for being hits only if a match of them passes.
    pub constraint: Option<Constraint>,
    /// Which spans of the set are hits.
    pub strategy: Strategy,
    /// `show a .. b`: hits are shown as from the start of one capture to the end of another.
    pub show: Option<(String, String)>,
}
