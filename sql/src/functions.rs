//! The names of functions: what each stands for, and how many arguments it takes.
//!
//! Invariant: names are lower case. What a function computes is the executor's business, what it may be applied to is
//! decided in `bind`.

use crate::query::{AggregateFunction, Function, Matcher};

/// Table functions.
pub(crate) const TABLE: [&str; 28] = [
    "corpora",
    "segments",
    "indexes",
    "caches",
    "files",
    "files_with",
    "grep",
    "lines",
    "ngrams",
    "term_vectors",
    "phrase",
    "next_words",
    "longest_matches",
    "attribute",
    "overlap",
    "duplicates",
    "settings",
    "rejects",
    "devices",
    "search",
    "hits",
    "concordance",
    "frequencies",
    "collocations",
    "keywords",
    "dispersion",
    "distribution",
    "vocabulary_growth",
];

/// What the name of a function stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    Scalar(Function),
    Aggregate(AggregateFunction),
    /// MIN or MAX: an aggregate of one argument, else the scalar function.
    Extreme(AggregateFunction, Function),
    /// `like(pattern, text)` and so on.
    Matcher(Matcher),
}

/// A function by its name in lower case.
pub(crate) fn find(name: &str) -> Option<Named> {
    let index = NAMES.binary_search_by_key(&name, |(known, _)| known).ok()?;
    Some(NAMES[index].1)
}

/// The names of all functions.
pub fn names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(|(name, _)| *name)
}

/// Functions by name, sorted.
const NAMES: &[(&str, Named)] = &[
    ("abs", Named::Scalar(Function::Abs)),
    ("avg", Named::Aggregate(AggregateFunction::Avg)),
    ("binding", Named::Scalar(Function::Binding)),
    ("ceil", Named::Scalar(Function::Ceiling)),
    ("ceiling", Named::Scalar(Function::Ceiling)),
    ("char", Named::Scalar(Function::Char)),
    ("char_length", Named::Scalar(Function::Length)),
    ("character_length", Named::Scalar(Function::Length)),
    ("coalesce", Named::Scalar(Function::Coalesce)),
    ("concat", Named::Scalar(Function::Concat)),
    ("concat_ws", Named::Scalar(Function::ConcatWs)),
    ("count", Named::Aggregate(AggregateFunction::Count)),
    ("date", Named::Scalar(Function::Date)),
    ("date_trunc", Named::Scalar(Function::DateTrunc)),
    ("datetime", Named::Scalar(Function::DateTime)),
    ("day", Named::Scalar(Function::Day)),
    ("exp", Named::Scalar(Function::Exponential)),
    ("floor", Named::Scalar(Function::Floor)),
    ("format", Named::Scalar(Function::Format)),
    ("glob", Named::Matcher(Matcher::Glob)),
    ("greatest", Named::Scalar(Function::Greatest)),
    (
        "group_concat",
        Named::Aggregate(AggregateFunction::GroupConcat),
    ),
    ("hex", Named::Scalar(Function::Hex)),
    ("highlight", Named::Scalar(Function::Highlight)),
    ("if", Named::Scalar(Function::Iif)),
    ("ifnull", Named::Scalar(Function::IfNull)),
    ("iif", Named::Scalar(Function::Iif)),
    ("instr", Named::Scalar(Function::Instr)),
    ("json_extract", Named::Scalar(Function::JsonExtract)),
    ("julianday", Named::Scalar(Function::JulianDay)),
    ("least", Named::Scalar(Function::Least)),
    ("length", Named::Scalar(Function::Length)),
    ("like", Named::Matcher(Matcher::Like)),
    ("ln", Named::Scalar(Function::NaturalLogarithm)),
    ("log", Named::Scalar(Function::Logarithm)),
    ("log10", Named::Scalar(Function::Logarithm10)),
    ("log2", Named::Scalar(Function::Logarithm2)),
    ("lower", Named::Scalar(Function::Lower)),
    ("ltrim", Named::Scalar(Function::LeftTrim)),
    ("max", Named::Extreme(AggregateFunction::Max, Function::Max)),
    ("median", Named::Aggregate(AggregateFunction::Median)),
    ("min", Named::Extreme(AggregateFunction::Min, Function::Min)),
    ("month", Named::Scalar(Function::Month)),
    ("nullif", Named::Scalar(Function::NullIf)),
    ("octet_length", Named::Scalar(Function::OctetLength)),
    (
        "percentile_cont",
        Named::Aggregate(AggregateFunction::PercentileCont),
    ),
    ("pow", Named::Scalar(Function::Power)),
    ("power", Named::Scalar(Function::Power)),
    ("printf", Named::Scalar(Function::Format)),
    ("quote", Named::Scalar(Function::Quote)),
    ("regexp", Named::Matcher(Matcher::Regexp)),
    ("regexp_extract", Named::Scalar(Function::RegexpExtract)),
    ("regexp_replace", Named::Scalar(Function::RegexpReplace)),
    ("replace", Named::Scalar(Function::Replace)),
    ("round", Named::Scalar(Function::Round)),
    ("rtrim", Named::Scalar(Function::RightTrim)),
    ("sign", Named::Scalar(Function::Sign)),
    ("snippet", Named::Scalar(Function::Snippet)),
    ("split_part", Named::Scalar(Function::SplitPart)),
    ("sqrt", Named::Scalar(Function::SquareRoot)),
    ("stddev", Named::Aggregate(AggregateFunction::StddevSamp)),
    ("stddev_pop", Named::Aggregate(AggregateFunction::StddevPop)),
    (
        "stddev_samp",
        Named::Aggregate(AggregateFunction::StddevSamp),
    ),
    ("strftime", Named::Scalar(Function::Strftime)),
    (
        "string_agg",
        Named::Aggregate(AggregateFunction::GroupConcat),
    ),
    ("substr", Named::Scalar(Function::Substr)),
    ("substring", Named::Scalar(Function::Substr)),
    ("sum", Named::Aggregate(AggregateFunction::Sum)),
    ("time", Named::Scalar(Function::Time)),
    ("total", Named::Aggregate(AggregateFunction::Total)),
    ("trim", Named::Scalar(Function::Trim)),
    ("typeof", Named::Scalar(Function::TypeOf)),
    ("unicode", Named::Scalar(Function::Unicode)),
    ("unixepoch", Named::Scalar(Function::UnixEpoch)),
    ("upper", Named::Scalar(Function::Upper)),
    ("var_pop", Named::Aggregate(AggregateFunction::VarPop)),
    ("var_samp", Named::Aggregate(AggregateFunction::VarSamp)),
    ("variance", Named::Aggregate(AggregateFunction::VarSamp)),
    ("year", Named::Scalar(Function::Year)),
    ("zipfdb_version", Named::Scalar(Function::Version)),
];

/// Functions of other databases, and what to use here.
pub(crate) const FOREIGN: &[(&str, &str)] = &[
    (
        "array_agg",
        "`COPY (SELECT ...) TO 'file.json'` writes rows as JSON",
    ),
    ("chr", "`char(codepoint)` gives a character"),
    ("extract", ""),
    ("lcase", "it is called `lower`"),
    ("left", "`substr(x, 1, n)` gives the first n characters"),
    ("likelihood", ""),
    ("mean", "it is called `avg`"),
    ("nvl", "it is called `ifnull`"),
    ("position", "`instr(text, part)` gives the place"),
    ("random", ""),
    ("regexp_like", "`x REGEXP pattern` matches"),
    ("regexp_matches", "`x REGEXP pattern` matches"),
    ("right", "`substr(x, -n)` gives the last n characters"),
    ("row_number", ""),
    ("strlen", "it is called `length`"),
    ("strpos", "it is called `instr`"),
    ("ucase", "it is called `upper`"),
    ("version", "it is called `zipfdb_version`"),
];

/// How many arguments a function takes, at least and at most, and in words.
pub(crate) fn arguments(function: Function) -> (usize, usize, &'static str) {
    const ANY: usize = usize::MAX;
    match function {
        Function::Binding | Function::Version => (0, 0, "no arguments"),
        Function::Abs
        | Function::Ceiling
        | Function::Day
        | Function::Exponential
        | Function::Floor
        | Function::Hex
        | Function::Length
        | Function::Logarithm10
        | Function::Logarithm2
        | Function::Lower
        | Function::Month
        | Function::NaturalLogarithm
        | Function::OctetLength
        | Function::Quote
        | Function::Sign
        | Function::SquareRoot
        | Function::TypeOf
        | Function::Unicode
        | Function::Upper
        | Function::Year => (1, 1, "one argument"),
        Function::LeftTrim | Function::RightTrim | Function::Trim => {
            (1, 2, "a text and perhaps the characters to trim")
        }
        Function::Logarithm => (1, 2, "a number, or a base and a number"),
        Function::Power => (2, 2, "a base and an exponent"),
        Function::DateTrunc => (2, 2, "a part such as 'month', and a moment"),
        Function::JsonPart | Function::JsonValue => (2, 2, "a text and a path"),
        Function::JsonExtract => (2, ANY, "a text and at least one path"),
        Function::RegexpExtract => (2, 3, "a text, a pattern and perhaps the number of a group"),
        Function::RegexpReplace => (3, 4, "a text, a pattern, a replacement and perhaps options"),
        Function::SplitPart => (3, 3, "a text, a separator and the number of a part"),
        Function::Format => (1, ANY, "a pattern and what it shows"),
        Function::Greatest | Function::Least => (1, ANY, "at least one argument"),
        Function::Date
        | Function::DateTime
        | Function::JulianDay
        | Function::Time
        | Function::UnixEpoch => (0, ANY, "a moment and modifiers"),
        Function::Strftime => (1, ANY, "a format, a moment and modifiers"),
        Function::Round => (1, 2, "a number and perhaps the digits"),
        Function::IfNull | Function::NullIf => (2, 2, "two arguments"),
        Function::Instr => (2, 2, "where to look and what for"),
        Function::Iif => (2, 3, "a condition and one or two values"),
        Function::Highlight => (0, 2, "perhaps a text before and after each match"),
        Function::Snippet => (
            0,
            4,
            "perhaps a text before and after each match, one for what is left out, and a number of words",
        ),
        Function::Substr => (2, 3, "a value, a start and perhaps a length"),
        Function::Replace => (3, 3, "a text, what to replace and by what"),
        Function::Coalesce => (2, ANY, "at least two arguments"),
        // One argument is the aggregate.
        Function::Max | Function::Min => (2, ANY, "at least one argument"),
        Function::Char => (0, ANY, "any arguments"),
        Function::Concat => (1, ANY, "at least one argument"),
        Function::ConcatWs => (2, ANY, "a separator and at least one value"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found() {
        assert!(NAMES.is_sorted_by_key(|(name, _)| name));
        for (name, named) in NAMES {
            assert_eq!(find(name), Some(*named));
        }
        assert_eq!(find("no_such_function"), None);
        for (name, _) in FOREIGN {
            assert_eq!(find(name), None, "{name}");
        }
    }
}
