#!/usr/bin/env python3
"""The questions of suite `records` to DuckDB, over files that the suite has left with `--keep DIR`.

    records.py [--word WORD] posts.jsonl access.log ...

It needs the Python package `duckdb`. A `.jsonl` is imported to Parquet with zstd, a `.log` by a regular expression; printed are
seconds, bytes and, for each question, ms of the first time and the median of RUNS later ones. Words are found by `regexp_matches`, as
DuckDB has no index of words, so counts are of records.
"""
import argparse
import os
import statistics
import tempfile
import time

import duckdb

RUNS = 5

LOG = r"""SELECT regexp_extract(line, '\[([^\]]*)\]', 1)::TIMESTAMP AS moment,
    regexp_extract(line, '" (\d+) (\d+)', 1)::INTEGER AS status,
    regexp_extract(line, '" (\d+) (\d+)', 2)::BIGINT AS size, line AS content
    FROM read_csv('{source}', columns = {{'line': 'VARCHAR'}}, delim = chr(1), quote = '', escape = '', header = false)"""

QUESTIONS = {
    ".jsonl": {
        "a word by year": r"SELECT year(day), COUNT(*) FROM r WHERE regexp_matches(content, '\b{word}\b') GROUP BY 1",
        "a word by author": r"SELECT author, COUNT(*) FROM r WHERE regexp_matches(content, '\b{word}\b') GROUP BY 1",
        "a word of a month": r"SELECT COUNT(*) FROM r WHERE regexp_matches(content, '\b{word}\b') AND day BETWEEN '2019-05-01' AND '2019-05-31'",
        "records by year": "SELECT year(day), COUNT(*) FROM r GROUP BY 1",
    },
    ".log": {
        "errors by hour": "SELECT date_trunc('hour', moment), COUNT(*) FROM r WHERE status >= 500 GROUP BY 1",
        "bytes by status": "SELECT status, SUM(size) FROM r GROUP BY 1",
    },
}


def milliseconds(connection, sql):
    start = time.perf_counter()
    connection.execute(sql).fetchall()
    return (time.perf_counter() - start) * 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--word", default="security")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("source", nargs="+")
    arguments = parser.parse_args()
    for source in arguments.source:
        kind = os.path.splitext(source)[1]
        rows = LOG.format(source=source) if kind == ".log" else f"SELECT * FROM read_json('{source}', format = 'newline_delimited')"
        with tempfile.TemporaryDirectory() as folder:
            connection = duckdb.connect()
            connection.execute(f"SET threads = {arguments.threads}")
            parquet = os.path.join(folder, "records.parquet")
            start = time.perf_counter()
            connection.execute(f"COPY ({rows}) TO '{parquet}' (FORMAT parquet, COMPRESSION zstd)")
            seconds = time.perf_counter() - start
            megabytes = os.path.getsize(source) / 1e6
            print(f"{os.path.basename(source)}: {megabytes / seconds:.1f} MB/s, {os.path.getsize(parquet) / 1e6:.2f} MB of {megabytes:.1f}")
            connection.execute(f"CREATE VIEW r AS FROM '{parquet}'")
            for name, sql in QUESTIONS[kind].items():
                sql = sql.format(word=arguments.word)
                first = milliseconds(connection, sql)
                again = [milliseconds(connection, sql) for _ in range(RUNS)]
                print(f"  {name}: first {first:.1f} ms, warm {statistics.median(again):.1f} ms")


if __name__ == "__main__":
    main()
