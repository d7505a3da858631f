#!/usr/bin/env python3
"""The statements of suite `sql` beside DuckDB and SQLite FTS5, on the same machine in the same run.

    alternatives.py --suite target/release/zipfdb-bench --zipf target/release/zipf --corpus PATH...

It needs the Python packages `duckdb` and `pyarrow`; SQLite comes with Python. Prints a table in Markdown for each corpus:

    ZipfDB   batches of the Rust API, as suite `sql` takes them, and `COPY ... TO` a CSV file
    DuckDB   the same statements over Parquet files (word, file, n) and (ngram, file, n), made of ZipfDB's own answers: record
             batches of Arrow, and `COPY ... TO` a CSV file. So it reads counts that were made before, and knows no text
    FTS5     `fts5vocab` over a table with a row for each file; it folds case, so it has fewer words, and knows no n-grams

Every time is the median of RUNS after one that is not counted; rows of ZipfDB and DuckDB must be as many.
"""
import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import tempfile
import time

import duckdb

PAIRS = "(SELECT word, file, n FROM 'words.parquet')"
NGRAMS = "(SELECT ngram, file, n FROM 'ngrams.parquet')"

# Names of suite `sql`'s statements: for DuckDB, and for FTS5 where it can answer.
STATEMENTS = {
    "words by count": (
        f"SELECT word, SUM(n)::BIGINT AS n FROM {PAIRS} GROUP BY word ORDER BY n DESC",
        "SELECT term, cnt FROM terms ORDER BY cnt DESC",
    ),
    "words of files": (
        f"SELECT word, file, n FROM {PAIRS}",
        "SELECT term, doc, COUNT(*) FROM places GROUP BY term, doc",
    ),
    "words of files, ranked": (
        f"SELECT word, file, n FROM {PAIRS} ORDER BY word, n DESC, file",
        "SELECT term, doc, COUNT(*) AS n FROM places GROUP BY term, doc ORDER BY term, n DESC, doc",
    ),
    "3-grams": (f"SELECT ngram, SUM(n)::BIGINT FROM {NGRAMS} GROUP BY ngram", None),
    "3-grams, first 100": (
        f"SELECT ngram, SUM(n)::BIGINT AS n FROM {NGRAMS} GROUP BY ngram ORDER BY n DESC LIMIT 100",
        None,
    ),
    "3-grams of files": (f"SELECT ngram, file, n FROM {NGRAMS}", None),
    "3-grams of files, ranked": (
        f"SELECT ngram, file, n FROM {NGRAMS} ORDER BY ngram, n DESC, file",
        None,
    ),
}


def median_of(runs, work):
    """Milliseconds of the median run, and what the last run gave."""
    seconds = []
    for run in range(runs + 1):
        begin = time.perf_counter()
        given = work()
        if run > 0:
            seconds.append(time.perf_counter() - begin)
    return 1000 * statistics.median(seconds), given


def files_of(path):
    if os.path.isfile(path):
        yield os.path.basename(path), path
    for folder, _, names in os.walk(path):
        for name in names:
            whole = os.path.join(folder, name)
            yield os.path.relpath(whole, path), whole


def size_of(path):
    return sum(os.path.getsize(whole) for _, whole in files_of(path))


def suite(options, corpus, folder):
    """What suite `sql` measures, by the name of the statement."""
    report = os.path.join(folder, "suite.json")
    command = [options.suite, "sql", "--runs", str(options.runs), "--threads", str(options.threads)]
    command += ["--json", report, "--corpus", corpus]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(report) as file:
        measured = json.load(file)["results"]
    return dict(zip(STATEMENTS, measured, strict=True))


def answers(options, corpus, folder):
    """Makes a database, and CSV files of its pairs of words and files, and of 3-grams and files."""
    database = os.path.join(folder, "c.zdb")
    statements = [
        "CREATE CORPUS c",
        f"COPY c FROM '{os.path.abspath(corpus)}'",
        f"COPY (SELECT word, file, COUNT(*) AS n FROM c GROUP BY word, file) TO '{folder}/words.csv'",
        "COPY (SELECT ngram, file, COUNT(*) AS n FROM ngrams('c', 3) GROUP BY ngram, file) "
        f"TO '{folder}/ngrams.csv'",
    ]
    for statement in statements:
        subprocess.run([options.zipf, database, "-c", statement], check=True, stdout=subprocess.DEVNULL)
    return size_of(database)


def in_duckdb(options, folder):
    connection = duckdb.connect()
    connection.execute(f"SET threads = {options.threads}")
    os.chdir(folder)
    for name, column in (("words", "word"), ("ngrams", "ngram")):
        connection.execute(
            f"COPY (SELECT {column}, file, n FROM read_csv('{name}.csv', header = true, "
            f"columns = {{'{column}': 'VARCHAR', 'file': 'VARCHAR', 'n': 'BIGINT'}})) "
            f"TO '{name}.parquet' (FORMAT parquet)"
        )
        os.remove(f"{name}.csv")
    found = {}
    for name, (sql, _) in STATEMENTS.items():
        rows = lambda: sum(batch.num_rows for batch in connection.execute(sql).to_arrow_reader(8192))
        copy = lambda: connection.execute(f"COPY ({sql}) TO 'out.csv' (FORMAT csv)")
        batches, count = median_of(options.runs, rows)
        csv, _ = median_of(options.runs, copy)
        found[name] = (batches, csv, count)
    sizes = [os.path.getsize(f"{name}.parquet") for name in ("words", "ngrams")]
    return found, sizes


def in_fts5(options, corpus, folder):
    path = os.path.join(folder, "fts5.db")
    connection = sqlite3.connect(path)
    connection.execute("CREATE VIRTUAL TABLE texts USING fts5(text, tokenize = 'unicode61 remove_diacritics 0')")
    for _, whole in sorted(files_of(corpus)):
        with open(whole, "rb") as file:
            text = file.read().decode("utf-8", "replace")
        connection.execute("INSERT INTO texts (text) VALUES (?)", (text,))
    connection.execute("CREATE VIRTUAL TABLE terms USING fts5vocab(texts, row)")
    connection.execute("CREATE VIRTUAL TABLE places USING fts5vocab(texts, instance)")
    connection.commit()
    found = {}
    for name, (_, sql) in STATEMENTS.items():
        if sql is not None:
            rows = lambda: sum(1 for _ in connection.execute(sql))
            found[name] = median_of(options.runs, rows)
    connection.close()
    return found, os.path.getsize(path)


def digits(number):
    return f"{number:.3g}" if number < 1000 else f"{number:.0f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--suite", required=True, help="the program zipfdb-bench")
    parser.add_argument("--zipf", required=True, help="the program zipf")
    parser.add_argument("--corpus", required=True, nargs="+", help="files or directories")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    options.suite, options.zipf = os.path.abspath(options.suite), os.path.abspath(options.zipf)
    corpora = [os.path.abspath(corpus) for corpus in options.corpus]
    print(f"DuckDB {duckdb.__version__}, SQLite {sqlite3.sqlite_version}, {options.threads} threads")
    for corpus in corpora:
        with tempfile.TemporaryDirectory() as folder:
            ours = suite(options, corpus, folder)
            database = answers(options, corpus, folder)
            duck, parquet = in_duckdb(options, folder)
            fts5, index = in_fts5(options, corpus, folder)
            os.chdir("/")
        megabytes = [digits(size / 1e6) for size in (database, *parquet, index)]
        print(f"\n## {os.path.basename(corpus)}\n")
        print("MB: ZipfDB {}, Parquet of words {}, of 3-grams {}, FTS5 {}\n".format(*megabytes))
        print("| ms | rows | ZipfDB | DuckDB | FTS5 | ZipfDB, CSV | DuckDB, CSV |")
        print("|---|--:|--:|--:|--:|--:|--:|")
        for name in STATEMENTS:
            measured, (batches, csv, count) = ours[name], duck[name]
            if measured["rows"] != count:
                raise SystemExit(f"{name}: {measured['rows']} rows of ZipfDB, {count} of DuckDB")
            own = [1000 * statistics.median(measured[way]) for way in ("batches", "csv")]
            other = digits(fts5[name][0]) if name in fts5 else ""
            cells = [digits(own[0]), digits(batches), other, digits(own[1]), digits(csv)]
            print(f"| {name} | {count} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
