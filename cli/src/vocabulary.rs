//! The words of the dialect, for completion and `.schema`: keywords, functions, relations and their columns, settings.
//!
//! Invariant: the tests hold every list against the database, so that nothing here is unknown there.

use zipfdb::storage::Section;

/// Beginnings of statements.
pub const STATEMENTS: &[&str] = &[
    "ALTER CORPUS",
    "BEGIN",
    "CHECK",
    "COMMIT",
    "COPY",
    "CREATE CORPUS",
    "CREATE INDEX",
    "CREATE TEMP VIEW",
    "CREATE VIEW",
    "DELETE FROM",
    "DROP CORPUS",
    "DROP INDEX",
    "DROP VIEW",
    "EXPLAIN",
    "INSERT INTO",
    "RECOMPRESS",
    "REPLACE INTO",
    "RESET",
    "ROLLBACK",
    "SELECT",
    "SET",
    "UPDATE",
    "WITH",
];

/// Keywords within queries.
pub const KEYWORDS: &[&str] = &[
    "ALL",
    "AND",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "COLLATE",
    "DESC",
    "DISTINCT",
    "ELSE",
    "END",
    "ESCAPE",
    "EXISTS",
    "FALSE",
    "FILTER",
    "FIRST",
    "FROM",
    "GLOB",
    "GROUP BY",
    "HAVING",
    "IF",
    "IN",
    "IS",
    "LAST",
    "LIKE",
    "LIMIT",
    "NOCASE",
    "NOT",
    "NULL",
    "NULLS",
    "OFFSET",
    "OR",
    "ORDER BY",
    "REGEXP",
    "SELECT",
    "THEN",
    "TO",
    "TRUE",
    "UNION",
    "UNION ALL",
    "WHEN",
    "WHERE",
    "WITH",
    "WITHIN GROUP",
];

/// Functions of one row and aggregates.
pub const FUNCTIONS: &[&str] = &[
    "abs",
    "avg",
    "binding",
    "ceil",
    "char",
    "coalesce",
    "concat",
    "concat_ws",
    "count",
    "date",
    "date_trunc",
    "datetime",
    "day",
    "exp",
    "floor",
    "format",
    "glob",
    "greatest",
    "group_concat",
    "hex",
    "ifnull",
    "iif",
    "instr",
    "json_extract",
    "julianday",
    "least",
    "length",
    "like",
    "ln",
    "log",
    "log10",
    "log2",
    "lower",
    "ltrim",
    "max",
    "median",
    "min",
    "month",
    "nullif",
    "octet_length",
    "percentile_cont",
    "pow",
    "printf",
    "quote",
    "regexp",
    "regexp_extract",
    "regexp_replace",
    "replace",
    "round",
    "rtrim",
    "sign",
    "split_part",
    "sqrt",
    "stddev",
    "stddev_pop",
    "strftime",
    "string_agg",
    "substr",
    "sum",
    "time",
    "total",
    "trim",
    "typeof",
    "unicode",
    "unixepoch",
    "upper",
    "var_pop",
    "variance",
    "year",
    "zipfdb_version",
];

/// Columns of a corpus, with their types.
pub const WORDS: &[(&str, &str)] = &[
    ("file", "TEXT"),
    ("word", "TEXT"),
    ("position", "INTEGER"),
    ("offset", "INTEGER"),
    ("length", "INTEGER"),
];

/// A table function.
pub struct TableFunction {
    /// Its name.
    pub name: &'static str,
    /// Its first argument is a corpus.
    pub is_of_corpus: bool,
    columns: &'static [&'static str],
}

/// All table functions.
pub const TABLE_FUNCTIONS: &[TableFunction] = &[
    TableFunction {
        name: "attribute",
        is_of_corpus: true,
        columns: &[
            "position",
            "words",
            "text_offset",
            "text_length",
            "count",
            "file",
            "offset",
        ],
    },
    TableFunction {
        name: "caches",
        is_of_corpus: true,
        columns: &["segment", "kind", "bytes", "price", "uses"],
    },
    TableFunction {
        name: "collocations",
        is_of_corpus: true,
        columns: &["word", "count", "total", "logdice", "mi", "t", "g2"],
    },
    TableFunction {
        name: "concordance",
        is_of_corpus: true,
        columns: &[
            "file", "position", "words", "offset", "length", "left", "hit", "right",
        ],
    },
    TableFunction {
        name: "corpora",
        is_of_corpus: false,
        columns: &[
            "corpus",
            "tokenizer",
            "segments",
            "files",
            "bytes",
            "words",
            "size",
            "ratio",
            "pending",
            "recompressed",
            "recompress_error",
        ],
    },
    TableFunction {
        name: "devices",
        is_of_corpus: false,
        columns: &[
            "device",
            "model",
            "architecture",
            "memory",
            "memory_limit",
            "used",
            "resident",
            "failures",
        ],
    },
    TableFunction {
        name: "dispersion",
        is_of_corpus: true,
        columns: &[
            "hits",
            "parts",
            "range",
            "dp",
            "dp_norm",
            "juilland_d",
            "carroll_d2",
            "rosengren_s",
            "kld",
            "arf",
            "ald",
            "awt",
            "word",
        ],
    },
    TableFunction {
        name: "distribution",
        is_of_corpus: true,
        columns: &["part", "position", "words", "hits", "per_million"],
    },
    TableFunction {
        name: "duplicates",
        is_of_corpus: true,
        columns: &[
            "words", "count", "files", "file", "position", "offset", "length",
        ],
    },
    TableFunction {
        name: "files",
        is_of_corpus: true,
        columns: &["file", "content", "bytes", "words"],
    },
    TableFunction {
        name: "files_with",
        is_of_corpus: true,
        columns: &["file"],
    },
    TableFunction {
        name: "frequencies",
        is_of_corpus: true,
        columns: &["text", "count", "files", "relative"],
    },
    TableFunction {
        name: "grep",
        is_of_corpus: true,
        columns: &["file", "offset", "length", "line", "match"],
    },
    TableFunction {
        name: "hits",
        is_of_corpus: true,
        columns: &[
            "file", "position", "words", "offset", "length", "hit", "captures",
        ],
    },
    TableFunction {
        name: "indexes",
        is_of_corpus: true,
        columns: &[
            "name",
            "kind",
            "codec",
            "unit",
            "reorder",
            "segment",
            "bytes",
            "build_time",
            "uses",
        ],
    },
    TableFunction {
        name: "keywords",
        is_of_corpus: true,
        columns: &[
            "word",
            "count",
            "reference_count",
            "per_million",
            "reference_per_million",
            "simple_maths",
            "g2",
            "log_ratio",
        ],
    },
    TableFunction {
        name: "lines",
        is_of_corpus: true,
        columns: &["file", "line", "offset", "length", "text"],
    },
    TableFunction {
        name: "longest_matches",
        is_of_corpus: true,
        columns: &["position", "words", "count", "file", "offset", "text"],
    },
    TableFunction {
        name: "next_words",
        is_of_corpus: true,
        columns: &["word", "count", "probability", "context_words"],
    },
    TableFunction {
        name: "ngrams",
        is_of_corpus: true,
        columns: &["ngram", "file", "position", "offset"],
    },
    TableFunction {
        name: "overlap",
        is_of_corpus: true,
        columns: &[
            "words", "covered", "share", "longest", "position", "count", "file", "offset",
        ],
    },
    TableFunction {
        name: "phrase",
        is_of_corpus: true,
        columns: &["file", "position", "offset", "length"],
    },
    TableFunction {
        name: "search",
        is_of_corpus: true,
        columns: &[
            "file", "score", "hits", "position", "words", "offset", "length",
        ],
    },
    TableFunction {
        name: "segments",
        is_of_corpus: true,
        columns: &[
            "segment",
            "files",
            "bytes",
            "words",
            "size",
            "tokens",
            "rules",
            "depth",
            "symbols",
            "root_symbols",
            "ratio",
            "recompressed",
            "form",
        ],
    },
    TableFunction {
        name: "rejects",
        is_of_corpus: false,
        columns: &["file", "line", "column", "error"],
    },
    TableFunction {
        name: "settings",
        is_of_corpus: false,
        columns: &["setting", "value", "default", "description"],
    },
    TableFunction {
        name: "term_vectors",
        is_of_corpus: true,
        columns: &["file", "word", "count", "rank"],
    },
    TableFunction {
        name: "vocabulary_growth",
        is_of_corpus: true,
        columns: &["words", "types", "hapaxes", "type_token_ratio"],
    },
];

impl TableFunction {
    /// The one of this name, in any case.
    pub fn find(name: &str) -> Option<&'static TableFunction> {
        let mut all = TABLE_FUNCTIONS.iter();
        all.find(|function| function.name.eq_ignore_ascii_case(name))
    }

    /// The names of its columns.
    pub fn columns(&self) -> Vec<String> {
        let mut columns: Vec<String> = self.columns.iter().copied().map(String::from).collect();
        if self.name == "segments" {
            let sections = Section::ALL.iter();
            columns.extend(sections.map(|section| format!("{}_size", section.name())));
        }
        columns
    }
}

/// What CREATE INDEX builds.
pub const INDEX_KINDS: &[&str] = &["ngrams", "occurrences", "postings", "suffixes"];

/// Settings and options with the values they can have as text.
pub const VALUES: &[(&str, &[&str])] = &[
    ("batch_window", &["0", "100us", "1ms"]),
    ("busy_timeout", &["0", "5s", "1min"]),
    (
        "codec",
        &[
            "auto",
            "bp128",
            "ef",
            "hs128_lrc",
            "hs256_lrc",
            "lrc",
            "lrcseg",
            "newpfd",
            "parapfd",
            "pfd",
            "roaring",
            "seglrc",
        ],
    ),
    ("compression", &["fast", "grammar"]),
    ("device", &["auto", "cpu", "cuda"]),
    ("durability", &["full", "normal", "off"]),
    ("encoding", &["auto", "bytes", "latin-1", "utf-16", "utf-8"]),
    ("format", &["csv", "json", "jsonl", "tsv"]),
    ("gpu_memory_limit", &["auto", "8GiB", "64GiB"]),
    ("ingest", &["auto", "fast", "grammar"]),
    ("memory_limit", &["auto", "256MiB", "1GiB", "4GiB"]),
    ("on_conflict", &["error", "replace", "skip"]),
    ("on_error", &["skip", "stop"]),
    ("positions", &["off"]),
    ("recompress_at_exit", &["off", "on"]),
    ("recompress_interval", &["0", "1min", "1h"]),
    ("recompress_rate", &["0", "16MiB", "64MiB"]),
    ("recompress_threads", &["auto", "0", "1"]),
    ("recompress_threshold", &["64MiB", "256MiB", "1GiB"]),
    ("records", &["line", "paragraph"]),
    ("reorder", &["off", "on"]),
    ("segment_size", &["64MiB", "256MiB", "1GiB"]),
    ("statement_timeout", &["10s", "1min", "1h"]),
    (
        "strategy",
        &[
            "auto",
            "decode",
            "file_weights",
            "local_tables",
            "parents",
            "root_stream",
            "totals",
            "weights",
        ],
    ),
    ("strip", &["nothing", "tags"]),
    ("tokenizer", &["alnum", "unicode", "whitespace"]),
    ("unit", &["block:4096", "file"]),
    ("value_size_limit", &["1MiB", "64MiB", "1GiB"]),
];

/// Settings of SET.
pub const SETTINGS: &[&str] = &[
    "batch_window",
    "busy_timeout",
    "device",
    "durability",
    "gpu_memory_limit",
    "memory_limit",
    "recompress_at_exit",
    "recompress_interval",
    "recompress_rate",
    "recompress_threads",
    "statement_timeout",
    "strategy",
    "value_size_limit",
];

/// Columns of INSERT.
pub const INSERTED: &[&str] = &["file", "offset", "content"];

/// A corpus' name as it is written in SQL: in quotes if it is no plain word.
pub fn name(name: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let is_word = |list: &[&str]| {
        let mut words = list.iter().flat_map(|entry| entry.split(' '));
        words.any(|word| word.eq_ignore_ascii_case(name))
    };
    let is_bare = name.chars().all(is_plain)
        && name.starts_with(|first: char| !first.is_ascii_digit())
        && !is_word(STATEMENTS)
        && !is_word(KEYWORDS);
    if is_bare {
        name.to_string()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// A text as it is written in SQL.
pub fn text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use zipfdb::output::RowFormat;
    use zipfdb::{Database, Value};

    fn columns(database: &Database, sql: &str) -> Vec<String> {
        let rows = database.query(sql, ()).unwrap();
        let columns = rows.columns().iter();
        columns.map(|column| column.name().to_string()).collect()
    }

    #[test]
    fn relations_have_the_columns_of_the_database() {
        let database = Database::in_memory().unwrap();
        database.execute_batch("CREATE CORPUS c").unwrap();
        let words: Vec<&str> = WORDS.iter().map(|(name, _)| *name).collect();
        assert_eq!(columns(&database, "SELECT * FROM c"), words);
        for function in TABLE_FUNCTIONS {
            let arguments = match (function.name, function.is_of_corpus) {
                ("ngrams", _) => "'c', 2",
                (
                    "files_with" | "grep" | "search" | "hits" | "concordance" | "collocations"
                    | "dispersion" | "distribution",
                    _,
                ) => "'c', '\"word\"'",
                ("attribute" | "longest_matches" | "next_words" | "overlap" | "phrase", _) => {
                    "'c', 'text'"
                }
                (_, true) => "'c'",
                (_, false) => "",
            };
            let sql = format!("SELECT * FROM {}({arguments})", function.name);
            assert_eq!(columns(&database, &sql), function.columns(), "{sql}");
        }
    }

    #[test]
    fn functions_are_known_to_the_database() {
        let database = Database::in_memory().unwrap();
        for function in FUNCTIONS {
            let complaint = database
                .query(&format!("SELECT {function}()"), ())
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default();
            assert!(!complaint.contains("no such"), "{complaint}");
        }
    }

    #[test]
    fn settings_and_values_are_those_of_the_database() {
        let database = Database::in_memory().unwrap();
        database.execute_batch("CREATE CORPUS c").unwrap();
        for kind in INDEX_KINDS {
            let sql = format!("CREATE INDEX {kind} ON c USING {kind}");
            database.execute_batch(&sql).unwrap();
        }
        let rows = database.query("SELECT setting FROM settings() ORDER BY 1", ());
        let settings: Vec<Value> = rows
            .unwrap()
            .map(|row| row.unwrap().into_values().remove(0))
            .collect();
        assert_eq!(
            settings,
            SETTINGS
                .iter()
                .map(|name| Value::Text((*name).into()))
                .collect::<Vec<_>>()
        );
        let formats = VALUES.iter().find(|(name, _)| *name == "format");
        let mut names = RowFormat::ALL.map(RowFormat::name);
        names.sort_unstable();
        assert_eq!(formats.map(|(_, names)| *names), Some(&names[..]));
        for (name, values) in VALUES {
            for (number, value) in values.iter().enumerate() {
                let sql = match *name {
                    "ingest" | "tokenizer" | "segment_size" => {
                        format!("CREATE CORPUS {name}{number} WITH ({name} = '{value}')")
                    }
                    "codec" | "positions" | "reorder" | "unit" => format!(
                        "CREATE INDEX {name}{number} ON c USING postings WITH ({name} = '{value}')"
                    ),
                    // These values are options of COPY, which would need files, and of
                    // changes. Not every machine has a GPU.
                    // Not every machine has a GPU.
                    "device" if *value == "cuda" => continue,
                    "compression"
                    | "encoding"
                    | "format"
                    | "on_conflict"
                    | "on_error"
                    | "recompress_threshold"
                    | "records"
                    | "strip" => continue,
                    _ => format!("SET {name} = '{value}'"),
                };
                database.execute_batch(&sql).unwrap();
            }
        }
    }

    #[test]
    fn names_are_quoted_where_they_must_be() {
        let database = Database::in_memory().unwrap();
        for (plain, written) in [
            ("notes", "notes"),
            ("my notes", "\"my notes\""),
            ("a\"b", "\"a\"\"b\""),
            ("1941", "\"1941\""),
            ("select", "\"select\""),
            ("From", "\"From\""),
        ] {
            assert_eq!(name(plain), written);
            database
                .execute_batch(&format!("CREATE CORPUS {written}"))
                .unwrap();
            assert!(database.corpora().contains(&plain.to_string()));
        }
        assert_eq!(text("it's"), "'it''s'");
    }
}
