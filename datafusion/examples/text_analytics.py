"""Asks examples/text_analytics.sql of zipf-full and of DuckDB, compares the answers, and prints the seconds of both.

Usage: text_analytics.py ZIPF_FULL DATABASE

DATABASE has a corpus `words`. DuckDB (pip install duckdb) reads its rows from Parquet that zipf-full writes, into a table of its
own, before the clock starts. Seconds of zipf-full include its start and the opening of the database.
"""

import pathlib
import subprocess
import sys
import tempfile
import time

import duckdb

program, database = sys.argv[1:]
script = pathlib.Path(__file__).with_name("text_analytics.sql").read_text()
lines = [line for line in script.splitlines() if not line.startswith("--")]
questions = [sql.strip() for sql in "\n".join(lines).split(";") if sql.strip()]
SHELVES = "SELECT file, bytes % 7 AS shelf FROM files('words')"

with tempfile.TemporaryDirectory() as directory:
    path = pathlib.Path(directory)

    def zipf(sql):
        begin = time.perf_counter()
        subprocess.run([program, database, "-c", sql], check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - begin

    zipf(f"COPY (SELECT file, position, word FROM words) TO '{path}/words.parquet'")
    zipf(f"COPY ({SHELVES}) TO '{path}/shelves.parquet'")
    duck = duckdb.connect()
    for table in ("words", "shelves"):
        duck.execute(f"CREATE TABLE {table} AS FROM '{path}/{table}.parquet'")
    external = f"CREATE EXTERNAL TABLE shelves STORED AS PARQUET LOCATION '{path}/shelves.parquet'; "
    different = 0
    for number, sql in enumerate(questions, 1):
        answer = path / f"{number}.parquet"
        seconds = zipf(f"{external}COPY ({sql}) TO '{answer}'")
        begin = time.perf_counter()
        expected = duck.execute(sql).fetchall()
        duck_seconds = time.perf_counter() - begin
        # An answer without rows has no file.
        rows = duck.execute(f"FROM '{answer}'").fetchall() if answer.exists() else []
        is_same = rows == expected
        different += not is_same
        verdict = "same" if is_same else "DIFFERENT"
        print(f"{number:2} zipf-full {seconds:8.3f} DuckDB {duck_seconds:8.3f} {verdict}", flush=True)
sys.exit(different > 0)
