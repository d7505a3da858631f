//! The names of functions: what each stands for, and how many arguments it takes.
//!
//! Invariant: names are lower case. What a function computes is the executor's business, what it may be applied to is
//! decided in `bind`.

use crate::query::{AggregateFunction, Function, Matcher};

/// Table functions.
pub(crate) const TABLE: [&str; 8] = [
    "corpora",
    "segments",
    "caches",
    "files",
    "ngrams",
    "term_vectors",
    "settings",
    "devices",
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

/// All names.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(|(name, _)| *name)
}

/// Sorted by name.
const NAMES: &[(&str, Named)] = &[
    ("abs", Named::Scalar(Function::Abs)),
    ("avg", Named::Aggregate(AggregateFunction::Avg)),
    ("binding", Named::Scalar(Function::Binding)),
    ("char", Named::Scalar(Function::Char)),
    ("char_length", Named::Scalar(Function::Length)),
    ("character_length", Named::Scalar(Function::Length)),
    ("coalesce", Named::Scalar(Function::Coalesce)),
    ("concat", Named::Scalar(Function::Concat)),
    ("concat_ws", Named::Scalar(Function::ConcatWs)),
    ("count", Named::Aggregate(AggregateFunction::Count)),
    ("glob", Named::Matcher(Matcher::Glob)),
    ("hex", Named::Scalar(Function::Hex)),
    ("if", Named::Scalar(Function::Iif)),
    ("ifnull", Named::Scalar(Function::IfNull)),
    ("iif", Named::Scalar(Function::Iif)),
    ("instr", Named::Scalar(Function::Instr)),
    ("length", Named::Scalar(Function::Length)),
    ("like", Named::Matcher(Matcher::Like)),
    ("lower", Named::Scalar(Function::Lower)),
    ("ltrim", Named::Scalar(Function::LeftTrim)),
    ("max", Named::Extreme(AggregateFunction::Max, Function::Max)),
    ("min", Named::Extreme(AggregateFunction::Min, Function::Min)),
    ("nullif", Named::Scalar(Function::NullIf)),
    ("octet_length", Named::Scalar(Function::OctetLength)),
    ("quote", Named::Scalar(Function::Quote)),
    ("regexp", Named::Matcher(Matcher::Regexp)),
    ("replace", Named::Scalar(Function::Replace)),
    ("round", Named::Scalar(Function::Round)),
    ("rtrim", Named::Scalar(Function::RightTrim)),
    ("sign", Named::Scalar(Function::Sign)),
    ("substr", Named::Scalar(Function::Substr)),
    ("substring", Named::Scalar(Function::Substr)),
    ("sum", Named::Aggregate(AggregateFunction::Sum)),
    ("total", Named::Aggregate(AggregateFunction::Total)),
    ("trim", Named::Scalar(Function::Trim)),
    ("typeof", Named::Scalar(Function::TypeOf)),
    ("unicode", Named::Scalar(Function::Unicode)),
    ("upper", Named::Scalar(Function::Upper)),
    ("zipfdb_version", Named::Scalar(Function::Version)),
];

/// Functions of other databases, and what to use here.
pub(crate) const FOREIGN: &[(&str, &str)] = &[
    (
        "array_agg",
        "`COPY (SELECT ...) TO 'file.json'` writes rows as JSON",
    ),
    ("ceil", "`round(x)` rounds to the nearest integer"),
    ("ceiling", "`round(x)` rounds to the nearest integer"),
    ("chr", "`char(codepoint)` gives a character"),
    ("extract", ""),
    ("floor", "`round(x)` rounds to the nearest integer"),
    ("format", "`||` joins texts"),
    (
        "group_concat",
        "`COPY (SELECT ...) TO 'file.json'` writes rows as JSON",
    ),
    ("lcase", "it is called `lower`"),
    ("left", "`substr(x, 1, n)` gives the first n characters"),
    ("likelihood", ""),
    ("mean", "it is called `avg`"),
    ("nvl", "it is called `ifnull`"),
    ("position", "`instr(text, part)` gives the place"),
    ("printf", "`||` joins texts"),
    ("random", ""),
    ("regexp_like", "`x REGEXP pattern` matches"),
    ("regexp_matches", "`x REGEXP pattern` matches"),
    ("right", "`substr(x, -n)` gives the last n characters"),
    ("row_number", ""),
    (
        "string_agg",
        "`COPY (SELECT ...) TO 'file.json'` writes rows as JSON",
    ),
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
        | Function::Hex
        | Function::Length
        | Function::Lower
        | Function::OctetLength
        | Function::Quote
        | Function::Sign
        | Function::TypeOf
        | Function::Unicode
        | Function::Upper => (1, 1, "one argument"),
        Function::LeftTrim | Function::RightTrim | Function::Trim => {
            (1, 2, "a text and perhaps the characters to trim")
        }
        Function::Round => (1, 2, "a number and perhaps the digits"),
        Function::IfNull | Function::NullIf => (2, 2, "two arguments"),
        Function::Instr => (2, 2, "where to look and what for"),
        Function::Iif => (2, 3, "a condition and one or two values"),
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
