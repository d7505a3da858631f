//! Table functions of search: their names, arguments and columns.
//!
//! Invariant: an argument that is named here has a value of its type, or was not given. What a query in it means is decided by
//! the database, which reads the languages of search.

use crate::affinity::Affinity;
use crate::value::Value;

/// A call of a table function of search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchCall {
    /// Which.
    pub function: SearchFunction,
    /// The corpus.
    pub corpus: String,
    /// The corpus that `keywords` compares it with.
    pub reference: Option<String>,
    /// The other arguments that were given, by name.
    pub arguments: Vec<(&'static str, Value)>,
    /// The measures that `collocations` and `keywords` have a column for each, in order.
    pub measures: Vec<String>,
}

impl SearchCall {
    /// The value of an argument; none if it was not given.
    pub fn argument(&self, name: &str) -> Option<&Value> {
        let found = self.arguments.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value)
    }

    /// The text of an argument; none if it was not given.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.argument(name)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The integer of an argument; none if it was not given.
    pub fn integer(&self, name: &str) -> Option<i64> {
        match self.argument(name)? {
            Value::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// The number of an argument; none if it was not given.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.argument(name)? {
            Value::Integer(value) => Some(*value as f64),
            Value::Real(value) => Some(*value),
            _ => None,
        }
    }

    /// Whether its rows are hits in the order of files, so that a condition on files leaves out work.
    pub fn has_hits_by_file(&self) -> bool {
        match self.function {
            SearchFunction::Hits => true,
            SearchFunction::Concordance => {
                self.argument("sort").is_none() && self.argument("sample").is_none()
            }
            _ => false,
        }
    }

    /// Whether each of its rows names a file, in its first column. Rows of all other functions are of many files: conditions on
    /// metadata choose these, but rows have no metadata.
    pub fn names_files(&self) -> bool {
        SearchFunction::OF_FILES.contains(&self.function)
    }

    /// Its columns, in the order of `*`.
    pub fn columns(&self) -> impl Iterator<Item = (&str, Affinity)> {
        let measures = self.measures.iter();
        let measures = measures.map(|measure| (measure.as_str(), Affinity::Real));
        self.function.columns().iter().copied().chain(measures)
    }
}

/// The type of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentKind {
    /// TEXT.
    Text,
    /// INTEGER of at least this.
    Integer(i64),
    /// INTEGER or REAL.
    Number,
    /// TEXT or INTEGER.
    Any,
}

/// A table function of search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SearchFunction {
    /// Files or units that match a simple query, with a score.
    Search,
    /// Spans that match a query in CQL.
    Hits,
    /// Spans with the words around them.
    Concordance,
    /// Hits grouped by words in or around them.
    Frequencies,
    /// Words around hits, with measures of association.
    Collocations,
    /// Words that are more frequent in one corpus than in another.
    Keywords,
    /// How evenly hits are spread over parts.
    Dispersion,
    /// Hits by part of the corpus.
    Distribution,
    /// Distinct words by the number of words read.
    VocabularyGrowth,
}

/// The argument that every function has first.
const CORPUS: (&str, ArgumentKind) = ("corpus", ArgumentKind::Text);
const QUERY: (&str, ArgumentKind) = ("query", ArgumentKind::Text);

impl SearchFunction {
    /// All functions.
    pub const ALL: [SearchFunction; 9] = [
        SearchFunction::Search,
        SearchFunction::Hits,
        SearchFunction::Concordance,
        SearchFunction::Frequencies,
        SearchFunction::Collocations,
        SearchFunction::Keywords,
        SearchFunction::Dispersion,
        SearchFunction::Distribution,
        SearchFunction::VocabularyGrowth,
    ];

    /// Those whose rows name a file each, in the first column.
    pub(crate) const OF_FILES: [SearchFunction; 3] = [
        SearchFunction::Search,
        SearchFunction::Hits,
        SearchFunction::Concordance,
    ];

    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            SearchFunction::Search => "search",
            SearchFunction::Hits => "hits",
            SearchFunction::Concordance => "concordance",
            SearchFunction::Frequencies => "frequencies",
            SearchFunction::Collocations => "collocations",
            SearchFunction::Keywords => "keywords",
            SearchFunction::Dispersion => "dispersion",
            SearchFunction::Distribution => "distribution",
            SearchFunction::VocabularyGrowth => "vocabulary_growth",
        }
    }

    /// Its arguments, in order: names and types.
    pub fn arguments(self) -> &'static [(&'static str, ArgumentKind)] {
        use ArgumentKind::{Any, Integer, Number, Text};
        match self {
            SearchFunction::Search => &[
                CORPUS,
                QUERY,
                ("unit", Text),
                ("size", Integer(1)),
                ("mode", Text),
                ("stemmer", Text),
                ("k1", Number),
                ("b", Number),
            ],
            SearchFunction::Hits => &[CORPUS, QUERY],
            SearchFunction::Concordance => &[
                CORPUS,
                QUERY,
                ("left", Integer(0)),
                ("right", Integer(0)),
                ("unit", Text),
                ("sort", Text),
                ("sample", Any),
                ("seed", Integer(0)),
            ],
            SearchFunction::Frequencies => &[CORPUS, QUERY, ("by", Text), ("per", Number)],
            SearchFunction::Collocations => &[
                CORPUS,
                QUERY,
                ("window", Text),
                ("measures", Text),
                ("min", Integer(1)),
                ("window_factor", Integer(0)),
            ],
            SearchFunction::Keywords => &[
                CORPUS,
                ("reference", Text),
                ("measures", Text),
                ("min", Integer(1)),
                ("files", Text),
            ],
            SearchFunction::Dispersion => &[CORPUS, QUERY, ("by", Text), ("slices", Integer(1))],
            SearchFunction::Distribution => &[CORPUS, QUERY, ("slices", Integer(1)), ("by", Text)],
            SearchFunction::VocabularyGrowth => &[CORPUS, ("steps", Integer(1))],
        }
    }

    /// The number of arguments that must be given.
    pub(crate) fn required(self) -> usize {
        match self {
            SearchFunction::Frequencies
            | SearchFunction::Keywords
            | SearchFunction::Dispersion
            | SearchFunction::VocabularyGrowth => 1,
            _ => 2,
        }
    }

    /// What an error says of the arguments.
    pub(crate) fn expected(self) -> &'static str {
        match self.required() {
            1 => "a corpus in single quotes, then arguments by name",
            _ => "a corpus and a query in single quotes, then arguments by name",
        }
    }

    /// The measures that it has where none are named.
    pub(crate) fn measures(self) -> &'static str {
        match self {
            SearchFunction::Collocations => "logdice,mi,t,g2",
            SearchFunction::Keywords => "simple_maths,g2,log_ratio",
            _ => "",
        }
    }

    /// Its columns but those of measures, in the order of `*`: names and kinds.
    pub fn columns(self) -> &'static [(&'static str, Affinity)] {
        use Affinity::{Integer, Real, Text};
        match self {
            SearchFunction::Search => &[
                ("file", Text),
                ("score", Real),
                ("hits", Integer),
                ("position", Integer),
                ("words", Integer),
                ("offset", Integer),
                ("length", Integer),
            ],
            SearchFunction::Hits => &[
                ("file", Text),
                ("position", Integer),
                ("words", Integer),
                ("offset", Integer),
                ("length", Integer),
                ("hit", Text),
                ("captures", Text),
            ],
            SearchFunction::Concordance => &[
                ("file", Text),
                ("position", Integer),
                ("words", Integer),
                ("offset", Integer),
                ("length", Integer),
                ("left", Text),
                ("hit", Text),
                ("right", Text),
            ],
            SearchFunction::Frequencies => &[
                ("text", Text),
                ("count", Integer),
                ("files", Integer),
                ("relative", Real),
            ],
            SearchFunction::Collocations => {
                &[("word", Text), ("count", Integer), ("total", Integer)]
            }
            SearchFunction::Keywords => &[
                ("word", Text),
                ("count", Integer),
                ("reference_count", Integer),
                ("per_million", Real),
                ("reference_per_million", Real),
            ],
            SearchFunction::Dispersion => &[
                ("hits", Integer),
                ("parts", Integer),
                ("range", Integer),
                ("dp", Real),
                ("dp_norm", Real),
                ("juilland_d", Real),
                ("carroll_d2", Real),
                ("rosengren_s", Real),
                ("kld", Real),
                ("arf", Real),
                ("ald", Real),
                ("awt", Real),
                ("word", Text),
            ],
            SearchFunction::Distribution => &[
                ("part", Text),
                ("position", Integer),
                ("words", Integer),
                ("hits", Integer),
                ("per_million", Real),
            ],
            SearchFunction::VocabularyGrowth => &[
                ("words", Integer),
                ("types", Integer),
                ("hapaxes", Integer),
                ("type_token_ratio", Real),
            ],
        }
    }

    /// The function of a name in lower case.
    pub(crate) fn named(name: &str) -> Option<SearchFunction> {
        SearchFunction::ALL
            .into_iter()
            .find(|function| function.name() == name)
    }
}
