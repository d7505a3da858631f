"""Ten tasks with zipfdb, sqlite3 (FTS5), duckdb and tantivy, each as short as its documentation suggests.

    python scripts/tasks.py FOLDER [--rounds N]

prints a table with the lines of code and the milliseconds of each: the median of N rounds after the first. FOLDER has texts (`*.txt`).
Engines differ in what they call a word, so answers are similar, not equal. A task that an engine has no function for, and no short SQL,
is left out.
"""

from __future__ import annotations

import argparse
import inspect
import pathlib
import sqlite3
import statistics
import tempfile
import time
from typing import Any

TASKS = ["import", "count", "frequent", "by_file", "context", "phrase", "ranked", "bigrams", "near", "frame"]


class Zipfdb:
    def __init__(self, folder: pathlib.Path, scratch: pathlib.Path) -> None:
        import zipfdb

        self.folder = folder
        self.con = zipfdb.connect(scratch / "texts.zdb")

    def task_import(self) -> Any:
        self.texts = self.con.create_corpus("texts")
        return self.texts.copy_from(self.folder)

    def task_count(self) -> Any:
        return self.texts.count("freedom")

    def task_frequent(self) -> Any:
        return self.con.sql("SELECT word, COUNT(*) AS n FROM texts GROUP BY word ORDER BY n DESC LIMIT 10").fetchall()

    def task_by_file(self) -> Any:
        return self.con.sql("SELECT file, COUNT(*) FROM texts WHERE word = 'freedom' GROUP BY file").fetchall()

    def task_context(self) -> Any:
        return self.texts.concordance('"freedom"', left=5, right=5).fetchall()

    def task_phrase(self) -> Any:
        return self.texts.phrase_search(["United", "States"])

    def task_ranked(self) -> Any:
        return self.texts.ranked("freedom peace", limit=10, excerpt=True).fetchall()

    def task_bigrams(self) -> Any:
        return self.texts.ngrams(2, limit=10).fetchall()

    def task_near(self) -> Any:
        return self.texts.collocations('"freedom"', window="5:5", measures="logdice").fetchmany(10)

    def task_frame(self) -> Any:
        return self.con.sql("SELECT file, COUNT(*) AS n FROM texts GROUP BY file").df()


class Sqlite3:
    def __init__(self, folder: pathlib.Path, scratch: pathlib.Path) -> None:
        self.folder = folder
        self.con = sqlite3.connect(scratch / "texts.db")

    def task_import(self) -> Any:
        self.con.execute("CREATE VIRTUAL TABLE texts USING fts5(file UNINDEXED, content, tokenize = 'unicode61')")
        self.con.execute("CREATE VIRTUAL TABLE words USING fts5vocab(texts, 'row')")
        self.con.execute("CREATE VIRTUAL TABLE places USING fts5vocab(texts, 'instance')")
        rows = ((path.name, path.read_text()) for path in self.folder.glob("*.txt"))
        self.con.executemany("INSERT INTO texts VALUES (?, ?)", rows)
        self.con.commit()

    def task_count(self) -> Any:
        return self.con.execute("SELECT cnt FROM words WHERE term = 'freedom'").fetchone()

    def task_frequent(self) -> Any:
        return self.con.execute("SELECT term, cnt FROM words ORDER BY cnt DESC LIMIT 10").fetchall()

    def task_by_file(self) -> Any:
        sql = "SELECT file, COUNT(*) FROM places JOIN texts ON doc = texts.rowid WHERE term = 'freedom' GROUP BY file"
        return self.con.execute(sql).fetchall()

    def task_phrase(self) -> Any:
        return self.con.execute("""SELECT file FROM texts WHERE texts MATCH '"united states"'""").fetchall()

    def task_ranked(self) -> Any:
        sql = "SELECT file, snippet(texts, 1, '<b>', '</b>', '...', 12) FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT 10"
        return self.con.execute(sql, ["freedom OR peace"]).fetchall()

    def task_frame(self) -> Any:
        import pandas

        return pandas.read_sql("SELECT doc, COUNT(*) AS n FROM places GROUP BY doc", self.con)


class Duckdb:
    def __init__(self, folder: pathlib.Path, scratch: pathlib.Path) -> None:
        import duckdb

        self.folder = folder
        self.con = duckdb.connect(str(scratch / "texts.duckdb"))

    def task_import(self) -> Any:
        files = f"read_text('{self.folder}/*.txt')"
        self.con.execute(f"CREATE TABLE texts AS SELECT parse_filename(filename) AS file, content FROM {files}")
        words = r"unnest(regexp_extract_all(content, '\w+'))"
        self.con.execute(f"CREATE VIEW words AS SELECT file, {words} AS word, generate_subscripts(regexp_extract_all(content, '\\w+'), 1) AS place FROM texts")

    def task_count(self) -> Any:
        return self.con.execute("SELECT COUNT(*) FROM words WHERE word = 'freedom'").fetchone()

    def task_frequent(self) -> Any:
        return self.con.execute("SELECT word, COUNT(*) AS n FROM words GROUP BY word ORDER BY n DESC LIMIT 10").fetchall()

    def task_by_file(self) -> Any:
        return self.con.execute("SELECT file, COUNT(*) FROM words WHERE word = 'freedom' GROUP BY file").fetchall()

    def task_context(self) -> Any:
        pattern = r"(?:\S+\s+){0,5}\bfreedom\b(?:\s+\S+){0,5}"
        return self.con.execute("SELECT file, unnest(regexp_extract_all(content, ?)) FROM texts", [pattern]).fetchall()

    def task_phrase(self) -> Any:
        return self.con.execute(r"SELECT file FROM texts WHERE regexp_matches(content, '\bUnited\s+States\b')").fetchall()

    def task_bigrams(self) -> Any:
        pairs = "SELECT word || ' ' || lead(word) OVER (PARTITION BY file ORDER BY place) AS pair FROM words"
        return self.con.execute(f"SELECT pair, COUNT(*) AS n FROM ({pairs}) GROUP BY pair ORDER BY n DESC LIMIT 10").fetchall()

    def task_frame(self) -> Any:
        return self.con.sql("SELECT file, COUNT(*) AS n FROM words GROUP BY file").df()


class Tantivy:
    def __init__(self, folder: pathlib.Path, scratch: pathlib.Path) -> None:
        self.folder, self.place = folder, scratch / "tantivy"
        self.place.mkdir()

    def task_import(self) -> Any:
        import tantivy

        schema = tantivy.SchemaBuilder().add_text_field("file", stored=True, tokenizer_name="raw")
        schema = schema.add_text_field("content", stored=True).build()
        self.index = tantivy.Index(schema, str(self.place))
        writer = self.index.writer()
        for path in self.folder.glob("*.txt"):
            writer.add_document(tantivy.Document(file=path.name, content=path.read_text()))
        writer.commit()
        writer.wait_merging_threads()
        self.index.reload()
        self.searcher = self.index.searcher()

    def task_phrase(self) -> Any:
        query = self.index.parse_query('"united states"', ["content"])
        return [self.searcher.doc(place)["file"] for _, place in self.searcher.search(query, 10_000).hits]

    def task_ranked(self) -> Any:
        import tantivy

        query = self.index.parse_query("freedom peace", ["content"])
        found = [(score, self.searcher.doc(place)) for score, place in self.searcher.search(query, 10).hits]
        snippets = tantivy.SnippetGenerator.create(self.searcher, query, self.index.schema, "content")
        return [(document["file"], score, snippets.snippet_from_doc(document).to_html()) for score, document in found]


ENGINES = [Zipfdb, Sqlite3, Duckdb, Tantivy]


def lines(function: Any) -> int:
    """Lines of the body of a function that are not empty."""
    source = inspect.getsource(function).splitlines()[1:]
    return sum(bool(line.strip()) for line in source)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    print("| task | " + " | ".join(engine.__name__.lower() for engine in ENGINES) + " |")
    print("|---|" + "--:|" * len(ENGINES))
    with tempfile.TemporaryDirectory() as scratch:
        engines = []
        for engine in ENGINES:
            place = pathlib.Path(scratch) / engine.__name__
            place.mkdir()
            engines.append(engine(arguments.folder, place))
        for task in TASKS:
            cells = []
            for engine in engines:
                function = getattr(engine, f"task_{task}", None)
                if function is None:
                    cells.append("-")
                    continue
                times = []
                for _ in range(1 if task == "import" else arguments.rounds + 1):
                    start = time.perf_counter()
                    function()
                    times.append((time.perf_counter() - start) * 1e3)
                time_ms = statistics.median(times[1:] or times)
                cells.append(f"{lines(getattr(type(engine), f'task_{task}'))} / {time_ms:.2f}")
            print(f"| {task} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
