"""`Corpus` and `CorpusView`: files of a corpus, edited and asked without SQL."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _arrays, _sql
from ._relation import Relation
from ._zipfdb import Edits as _Edits
from ._zipfdb import Snapshot as _Snapshot

if TYPE_CHECKING:
    from ._zipfdb import Database, Reader, Transaction

Text = str | bytes
Record = tuple[Any, ...]
Progress = Callable[[str, int, int], Any]

# Records of an iterable that are written at a time.
_RECORDS = 20_000


class CorpusView:
    """Questions about one corpus; made by `Snapshot.corpus`, and the base of `Corpus`.

    Words are str, or bytes where a word is not UTF-8. Offsets are those of bytes. Arrays are of numpy (`int64`) if it is installed, else
    `array.array`. Methods `.._many` take lists, or columns of numpy, Arrow, pandas and polars, and answer all of their questions together.
    """

    def __init__(self, handle: Database | Reader | Transaction, name: str) -> None:
        self._handle = handle
        self._name = name

    @property
    def name(self) -> str:
        """The name of the corpus."""
        return self._name

    def __repr__(self) -> str:
        return f"<zipfdb.{type(self).__name__} {self._name!r}>"

    def _snapshot(self) -> _Snapshot:
        return self._handle.snapshot(self._name)

    def _relation(self, sql: str, params: Sequence[Any] = ()) -> Relation:
        handle = self._handle
        return Relation(lambda: handle.run(sql, params), True)

    def _call(self, function: str, positional: list[Any], named: dict[str, Any]) -> Relation:
        call, values = _sql.call(function, self._name, positional, named)
        return self._relation(f"SELECT * FROM {call}", values)

    def files(self) -> list[tuple[str, int, int]]:
        """Names, bytes and numbers of words of all files, in order of name."""
        return self._snapshot().files()

    def __len__(self) -> int:
        """The number of files."""
        return self._snapshot().file_count()

    @property
    def total_words(self) -> int:
        """The number of words."""
        return self._snapshot().total_words()

    def words(self, file: str | None = None) -> tuple[list[Text], Any]:
        """All words of the corpus, or of a file, in dictionary order, and an array of their counts."""
        words, counts = self._snapshot().words(file)
        return words, _arrays.integers(counts)

    def count(self, word: Text, file: str | None = None) -> int:
        """How often a word occurs in the corpus, or in a file."""
        return self._snapshot().count(word, file)

    def count_many(self, words: Any, files: Any = None) -> Any:
        """For each word the result of `count`, as an array; with `files` each word is counted in its file."""
        names = None if files is None else _arrays.words(files)
        return _arrays.integers(self._snapshot().count_many(_arrays.words(words), names))

    def search(self, word: Text, file: str | None = None) -> Any:
        """The files that have a word, each with an array of offsets; with `file` the offsets in it."""
        if file is not None:
            return _arrays.integers(self._snapshot().search_in(file, word))
        return [(name, _arrays.integers(offsets)) for name, offsets in self._snapshot().search(word)]

    def search_many(self, words: Any, files: Any = None) -> list[Any]:
        """For each word the result of `search`; with `files` each word is looked up in its file."""
        snapshot = self._snapshot()
        if files is None:
            found = snapshot.search_many(_arrays.words(words))
            return [[(name, _arrays.integers(offsets)) for name, offsets in places] for places in found]
        counts, offsets = snapshot.search_in_many(_arrays.words(files), _arrays.words(words))
        all_offsets = _arrays.integers(offsets)
        ends = list(itertools.accumulate(_arrays.integers(counts).tolist()))
        return [all_offsets[start:end] for start, end in zip([0] + ends[:-1], ends)]

    def phrase_count(self, words: Sequence[Text]) -> int:
        """The number of places where the words follow each other, whatever stands between them."""
        return self._snapshot().phrase_count(list(words))

    def phrase_search(self, words: Sequence[Text]) -> list[tuple[str, Any]]:
        """The files where the words follow each other, each with an array of offsets."""
        found = self._snapshot().phrase_search(list(words))
        return [(name, _arrays.integers(offsets)) for name, offsets in found]

    def extract(self, file: str, offset: int = 0, length: int | None = None) -> bytes:
        """The bytes of a file from an offset on, as far as it goes."""
        return self._snapshot().extract(file, offset, 2**64 - 1 if length is None else length)

    def extract_many(self, files: Any, offsets: Any, lengths: Any) -> list[bytes]:
        """For each file, offset and length the result of `extract`. Offsets and lengths may be arrays of numpy."""
        offsets, lengths = _arrays.integer_bytes(offsets), _arrays.integer_bytes(lengths)
        return self._snapshot().extract_many(_arrays.words(files), offsets, lengths)

    def metadata(self, file: str) -> dict[str, Any]:
        """The values of a file in all columns of `files()` but its content."""
        relation = self._relation(f"SELECT * FROM files({_sql.literal(self._name)}) LIMIT 0")
        columns = [column for column in relation.columns if column.lower() != "content"]
        shown = ", ".join(map(_sql.name, columns))
        found = self._relation(f"SELECT {shown} FROM files({_sql.literal(self._name)}) WHERE file = ?", [file]).fetchone()
        if found is None:
            raise KeyError(file)
        return dict(zip(columns, found))

    def ngrams(self, n: int, limit: int | None = None) -> Relation:
        """All sequences of `n` words of a file with their counts, the most frequent first."""
        end = "" if limit is None else f" LIMIT {int(limit)}"
        source = f"ngrams({_sql.literal(self._name)}, {int(n)})"
        return self._relation(f"SELECT ngram, COUNT(*) AS count FROM {source} GROUP BY ngram ORDER BY count DESC, ngram{end}")

    def term_vectors(self, k: int = 10, file: str | None = None) -> Relation:
        """The `k` most frequent words of each file, or of one."""
        source = f"SELECT * FROM term_vectors({_sql.literal(self._name)}, {int(k)})"
        if file is None:
            return self._relation(source)
        return self._relation(source + " WHERE file = ? ORDER BY rank", [file])

    def ranked(self, query: str, *, limit: int | None = 10, excerpt: bool = False, **options: Any) -> Relation:
        """The files that match a query in the simple language, best first, with `snippet` if `excerpt` is set.

        Options are those of `search()` in SQL: `unit`, `size`, `mode`, `stemmer`, `k1`, `b`.
        """
        call, values = _sql.call("search", self._name, [query], options)
        shown = "*, snippet() AS snippet" if excerpt else "*"
        end = "" if limit is None else f" LIMIT {int(limit)}"
        return self._relation(f"SELECT {shown} FROM {call}{end}", values)

    def hits(self, query: str) -> Relation:
        """The spans that match a query in CQL."""
        return self._call("hits", [query], {})

    def concordance(self, query: str, **options: Any) -> Relation:
        """The spans that match a query in CQL, with the text around them.

        Options are those of `concordance()` in SQL: `left`, `right`, `unit`, `sort`, `sample`, `seed`.
        """
        return self._call("concordance", [query], options)

    def collocations(self, query: str, **options: Any) -> Relation:
        """The words near the spans of a query. Options are `window`, `measures`, `min` and `window_factor`."""
        return self._call("collocations", [query], options)

    def keywords(self, reference: str | None = None, **options: Any) -> Relation:
        """The words that are typical of the corpus beside another, or of its `files => 'a/*'` beside the others."""
        return self._call("keywords", [reference], options)

    def dispersion(self, query: str, **options: Any) -> Relation:
        """How evenly the spans of a query are spread. Option `slices` compares equal parts in place of files."""
        return self._call("dispersion", [query], options)


class CorpusEdits(CorpusView):
    """A corpus that can be written: by a connection, each call a transaction of its own, or within a transaction."""

    def append(self, file: str | None, text: Text, /, **metadata: Any) -> None:
        """Appends a text to a file, which is created if it is missing, and sets its metadata. Without a name it gets a number."""
        self._handle.edit(self._name, _Edits.append([(file, text, metadata)]))  # type: ignore[union-attr]

    def append_many(self, records: Iterable[Record]) -> None:
        """Appends texts in one step: tuples of a name or None, a text, and perhaps a mapping of metadata."""
        self._handle.edit(self._name, _Edits.append(list(records)))  # type: ignore[union-attr]

    def insert(self, file: str, offset: int, text: Text) -> None:
        """Inserts a text into a file, before a byte."""
        self.insert_many([(file, offset, text)])

    def insert_many(self, rows: Iterable[tuple[str, int, Text]]) -> None:
        """Inserts texts in one step. Offsets are those before the call."""
        self._handle.edit(self._name, _Edits.insert(list(rows)))  # type: ignore[union-attr]

    def replace(self, file: str, text: Text) -> None:
        """Gives a file a new text, and creates it if it is missing."""
        self.replace_many([(file, text)])

    def replace_many(self, rows: Iterable[tuple[str, Text]]) -> None:
        """Gives files new texts, in one step."""
        self._handle.edit(self._name, _Edits.replace(list(rows)))  # type: ignore[union-attr]

    def delete(self, *files: str) -> None:
        """Deletes files, in one step."""
        self._handle.edit(self._name, _Edits.delete(list(files)))  # type: ignore[union-attr]

    def set_metadata(self, file: str, /, **values: Any) -> None:
        """Sets values of a file in declared columns. None takes a value back."""
        self._handle.edit(self._name, _Edits.set_metadata(file, values))  # type: ignore[union-attr]


class Corpus(CorpusEdits):
    """A corpus of a database; made by `Connection.corpus`. Each call sees the newest state, and each edit is a transaction of its own."""

    _handle: Database

    def copy_from(
        self,
        source: Any,
        *,
        file: str = "file",
        content: str = "content",
        progress: Progress | None = None,
        **options: Any,
    ) -> int:
        """Imports texts, all or none, and returns their number.

        `source` is a path of a file, directory or glob, which is copied as `COPY ... FROM` does, with its `options` (`format`, `on_error`,
        `on_conflict`, ...); a DataFrame of pandas or polars, a table of pyarrow, a dataset, or whatever else has a stream of Arrow, with
        columns `file` and `content` and declared ones; or an iterable of paths or of tuples of a name, a text and perhaps metadata.
        `progress` is called with a stage, the bytes done and their total while paths are copied.
        """
        if isinstance(source, (str, os.PathLike)):
            sql = f"COPY {_sql.name(self._name)} FROM {_sql.literal(os.fspath(source))}{_sql.options(options)}"
            return self._handle.run(sql, None, progress).changed
        source = getattr(source, "data", source) if hasattr(source, "set_format") else source
        if hasattr(source, "__arrow_c_stream__"):
            return self._handle.append_stream(self._name, source, file, content)
        records = iter(source)
        first = next(records, None)
        if first is None:
            return 0
        records = itertools.chain([first], records)
        if isinstance(first, (str, os.PathLike)):
            return sum(self.copy_from(path, progress=progress, **options) for path in records)
        count = 0
        transaction = self._handle.begin()
        try:
            while batch := list(itertools.islice(records, _RECORDS)):
                transaction.edit(self._name, _Edits.append([_as_tuple(record, file, content) for record in batch]))
                count += len(batch)
            transaction.commit()
        except BaseException:
            if transaction.is_open:
                transaction.rollback()
            raise
        return count

    def copy_to(self, path: str | os.PathLike[str], *, progress: Progress | None = None, **options: Any) -> int:
        """Writes all files below a directory, as `COPY ... TO` does, and returns their number."""
        sql = f"COPY {_sql.name(self._name)} TO {_sql.literal(os.fspath(path))}{_sql.options(options)}"
        return self._handle.run(sql, None, progress).changed

    def recompress(self, *, progress: Progress | None = None) -> None:
        """Merges all edits into segments."""
        self._handle.run(f"RECOMPRESS {_sql.name(self._name)}", None, progress)

    def snapshot(self) -> FrozenCorpus:
        """Questions about the corpus as it is now, whatever is written later."""
        return FrozenCorpus(self._handle.reader(), self._name, True)


class FrozenCorpus(CorpusView):
    """One state of a corpus. Questions by SQL see that state too."""

    def __init__(self, handle: Reader, name: str, owns_handle: bool = False) -> None:
        super().__init__(handle, name)
        self._frozen = handle.snapshot(name)
        self._owns_handle = owns_handle

    def _snapshot(self) -> _Snapshot:
        return self._frozen

    def __enter__(self) -> FrozenCorpus:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        """Gives back what the state keeps in memory and on disk."""
        self._frozen.close()
        if self._owns_handle:
            self._handle.close()  # type: ignore[union-attr]


def _as_tuple(record: Any, file: str, content: str) -> Record:
    """A record as a tuple: of a mapping by names of columns, or as it is."""
    if isinstance(record, Mapping):
        metadata = {key: value for key, value in record.items() if key not in (file, content)}
        return record.get(file), record[content], metadata
    return record
