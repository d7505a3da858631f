#!/usr/bin/env python3
"""The statements of suite `sql` beside DuckDB and SQLite FTS5, on the same machine in the same run.

    alternatives.py --zipf target/release/zipf --corpus PATH...

It needs the Python packages `duckdb` and `pyarrow`; SQLite comes with Python. Prints a table in Markdown for each corpus:

    ZipfDB   the rows of each statement counted by a statement around it, which takes them in batches, and `COPY ... TO` a CSV
             file; one process of the command line for all, which is asked through a pipe
    DuckDB   the same statements over Parquet files (word, file, n) and (ngram, file, n), made of ZipfDB's own answers: record
             batches of Arrow, and `COPY ... TO` a CSV file. So it reads counts that were made before, and knows no text
    FTS5     `fts5vocab` over a table with a row for each file; it folds case, so it has fewer words, and knows no n-grams

Every time is the median of RUNS after one that is not counted; rows of ZipfDB and DuckDB must be as many.
"""
import argparse
import os
import sqlite3
import statistics
import subprocess
import tempfile
import time

import duckdb

PAIRS = "(SELECT word, file, n FROM 'words.parquet')"
NGRAMS = "(SELECT ngram, file, n FROM 'ngrams.parquet')"

# The statements of suite `sql` by name: for ZipfDB, for DuckDB, and for FTS5 where it can answer.
STATEMENTS = {
    "words by count": (
        "SELECT word, COUNT(*) AS n FROM c GROUP BY word ORDER BY n DESC",
        f"SELECT word, SUM(n)::BIGINT AS n FROM {PAIRS} GROUP BY word ORDER BY n DESC",
        "SELECT term, cnt FROM terms ORDER BY cnt DESC",
    ),
    "words of files": (
        "SELECT word, file, COUNT(*) AS n FROM c GROUP BY word, file",
        f"SELECT word, file, n FROM {PAIRS}",
        "SELECT term, doc, COUNT(*) FROM places GROUP BY term, doc",
    ),
    "words of files, ranked": (
        "SELECT word, file, COUNT(*) AS n FROM c GROUP BY word, file ORDER BY word, n DESC, file",
        f"SELECT word, file, n FROM {PAIRS} ORDER BY word, n DESC, file",
        "SELECT term, doc, COUNT(*) AS n FROM places GROUP BY term, doc ORDER BY term, n DESC, doc",
    ),
    "beginnings of words, of files": (
        "SELECT SUBSTR(word, 1, 3) AS front, file, COUNT(*) AS n FROM c GROUP BY SUBSTR(word, 1, 3), file",
        f"SELECT substr(word, 1, 3) AS front, file, SUM(n)::BIGINT AS n FROM {PAIRS} GROUP BY front, file",
        None,
    ),
    "different beginnings of files": (
        "SELECT file, COUNT(DISTINCT SUBSTR(word, 1, 5)) AS n FROM c GROUP BY file",
        f"SELECT file, COUNT(DISTINCT substr(word, 1, 5)) AS n FROM {PAIRS} GROUP BY file",
        None,
    ),
    "3-grams": (
        "SELECT ngram, COUNT(*) AS n FROM ngrams('c', 3) GROUP BY ngram",
        f"SELECT ngram, SUM(n)::BIGINT FROM {NGRAMS} GROUP BY ngram",
        None,
    ),
    "3-grams, first 100": (
        "SELECT ngram, COUNT(*) AS n FROM ngrams('c', 3) GROUP BY ngram ORDER BY n DESC LIMIT 100",
        f"SELECT ngram, SUM(n)::BIGINT AS n FROM {NGRAMS} GROUP BY ngram ORDER BY n DESC LIMIT 100",
        None,
    ),
    "3-grams of files": (
        "SELECT ngram, file, COUNT(*) AS n FROM ngrams('c', 3) GROUP BY ngram, file",
        f"SELECT ngram, file, n FROM {NGRAMS}",
        None,
    ),
    "3-grams of files, ranked": (
        "SELECT ngram, file, COUNT(*) AS n FROM ngrams('c', 3) GROUP BY ngram, file "
        "ORDER BY ngram, n DESC, file",
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


class Zipf:
    """A process of the command line that answers one statement after the other."""

    def __init__(self, options, database):
        command = [options.zipf, database, "--threads", str(options.threads), "--format", "csv"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, sql):
        """The first row of an answer of one row, which is asked for behind statements that have none."""
        self.process.stdin.write(sql + ";\n")
        self.process.stdin.flush()
        self.process.stdout.readline()
        return self.process.stdout.readline().strip()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def in_zipf(options, corpus, folder):
    """Times and rows, and CSV files of all pairs of words and files, and of 3-grams and files."""
    database = os.path.join(folder, "c.zdb")
    zipf = Zipf(options, database)
    zipf.ask(f"CREATE CORPUS c; COPY c FROM '{corpus}'; SELECT 1")
    found = {}
    for name, (sql, _, _) in options.statements.items():
        rows = lambda: int(zipf.ask(f"SELECT COUNT(*) FROM (SELECT n FROM ({sql}))"))
        copy = lambda: zipf.ask(f"COPY ({sql}) TO '{folder}/out.csv'; SELECT 1")
        batches, count = median_of(options.runs, rows)
        csv, _ = median_of(options.runs, copy)
        found[name] = (batches, csv, count)
    for name, file in (("words of files", "words"), ("3-grams of files", "ngrams")):
        zipf.ask(f"COPY ({STATEMENTS[name][0]}) TO '{folder}/{file}.csv'; SELECT 1")
    zipf.close()
    return found, size_of(database)


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
    for name, (_, sql, _) in options.statements.items():
        rows = lambda: sum(batch.num_rows for batch in connection.sql(sql).to_arrow_reader(8192))
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
    for name, (_, _, sql) in options.statements.items():
        if sql is not None:
            rows = lambda: sum(1 for _ in connection.execute(sql))
            found[name] = median_of(options.runs, rows)
    connection.close()
    return found, os.path.getsize(path)


def digits(number):
    return f"{number:.3g}" if number < 1000 else f"{number:.0f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--zipf", required=True, help="the program zipf")
    parser.add_argument("--corpus", required=True, nargs="+", help="files or directories")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--statement", action="append", choices=list(STATEMENTS), help="only some of the statements")
    options = parser.parse_args()
    options.zipf = os.path.abspath(options.zipf)
    options.statements = {name: STATEMENTS[name] for name in options.statement or STATEMENTS}
    corpora = [os.path.abspath(corpus) for corpus in options.corpus]
    print(f"DuckDB {duckdb.__version__}, SQLite {sqlite3.sqlite_version}, {options.threads} threads")
    for corpus in corpora:
        with tempfile.TemporaryDirectory() as folder:
            ours, database = in_zipf(options, corpus, folder)
            duck, parquet = in_duckdb(options, folder)
            fts5, index = in_fts5(options, corpus, folder)
            os.chdir("/")
        megabytes = [digits(size / 1e6) for size in (database, *parquet, index)]
        print(f"\n## {os.path.basename(corpus)}\n")
        print("MB: ZipfDB {}, Parquet of words {}, of 3-grams {}, FTS5 {}\n".format(*megabytes))
        print("| ms | rows | ZipfDB | DuckDB | FTS5 | ZipfDB, CSV | DuckDB, CSV |")
        print("|---|--:|--:|--:|--:|--:|--:|")
        for name in options.statements:
            (own, own_csv, own_count), (batches, csv, count) = ours[name], duck[name]
            if own_count != count:
                raise SystemExit(f"{name}: {own_count} rows of ZipfDB, {count} of DuckDB")
            other = digits(fts5[name][0]) if name in fts5 else ""
            cells = [digits(own), digits(batches), other, digits(own_csv), digits(csv)]
            print(f"| {name} | {count} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
