//! Statements of every kind, by name.

/// A name and the statement. The corpus is `c`; words and files are such as every text in English has.
pub const STATEMENTS: &[(&str, &str)] = &[
    ("all words", "SELECT word, COUNT(*) FROM c GROUP BY word"),
    (
        "all words by count",
        "SELECT word, COUNT(*) AS n FROM c GROUP BY word ORDER BY n DESC, word",
    ),
    (
        "first ten words by count",
        "SELECT word, COUNT(*) AS n FROM c GROUP BY word ORDER BY n DESC, word LIMIT 10",
    ),
    (
        "number of distinct words",
        "SELECT COUNT(DISTINCT word) FROM c",
    ),
    (
        "count of a word",
        "SELECT COUNT(*) FROM c WHERE word = 'the'",
    ),
    (
        "count of a word in either case",
        "SELECT COUNT(*) FROM c WHERE word = 'the' COLLATE NOCASE",
    ),
    (
        "count of words by LIKE",
        "SELECT COUNT(*) FROM c WHERE word LIKE 'th%'",
    ),
    (
        "words with files",
        "SELECT word, file, COUNT(*) FROM c GROUP BY word, file",
    ),
    (
        "words with files in order",
        "SELECT word, file FROM c GROUP BY word, file ORDER BY word, file",
    ),
    (
        "files of a word",
        "SELECT file, COUNT(*) FROM c WHERE word = 'the' GROUP BY file",
    ),
    (
        "words of files",
        "SELECT file, word, COUNT(*) FROM c GROUP BY file, word",
    ),
    ("term vectors", "SELECT * FROM term_vectors('c', k => 10)"),
    (
        "files with words",
        "SELECT file FROM files_with('c', 'of', 'the')",
    ),
    (
        "words of each file",
        "SELECT file, COUNT(*) FROM c GROUP BY file",
    ),
    (
        "places of a word",
        "SELECT file, offset FROM c WHERE word = 'the'",
    ),
    (
        "first places of a word",
        "SELECT file, offset FROM c WHERE word = 'the' LIMIT 10",
    ),
    (
        "all 3-grams",
        "SELECT ngram, COUNT(*) FROM ngrams('c', 3) GROUP BY ngram",
    ),
    (
        "first ten 3-grams by count",
        "SELECT ngram, COUNT(*) AS n FROM ngrams('c', 3) GROUP BY ngram ORDER BY n DESC, ngram LIMIT 10",
    ),
    (
        "3-grams in order",
        "SELECT ngram, COUNT(*) FROM ngrams('c', 3) GROUP BY ngram ORDER BY ngram",
    ),
    (
        "3-grams with files",
        "SELECT ngram, file, COUNT(*) FROM ngrams('c', 3) GROUP BY ngram, file",
    ),
    (
        "3-grams with files in order",
        "SELECT ngram, file, COUNT(*) AS n FROM ngrams('c', 3) GROUP BY ngram, file ORDER BY ngram, n DESC, file",
    ),
    (
        "3-grams by LIKE",
        "SELECT ngram, COUNT(*) FROM ngrams('c', 3) WHERE ngram LIKE 'of the %' GROUP BY ngram",
    ),
    (
        "count of a 2-gram",
        "SELECT COUNT(*) FROM ngrams('c', 2) WHERE ngram = 'of the'",
    ),
    (
        "places of a 2-gram",
        "SELECT file, offset FROM ngrams('c', 2) WHERE ngram = 'of the'",
    ),
    (
        "files by content",
        "SELECT file FROM files('c') WHERE content LIKE '%of the%'",
    ),
    (
        "files by size",
        "SELECT file, bytes, words FROM files('c') ORDER BY bytes DESC LIMIT 10",
    ),
    (
        "an extract of each file",
        "SELECT substr(content, 1, 20) FROM files('c')",
    ),
];
