"""Corpora without SQL: edits, imports, questions, snapshots, transactions."""

import array

import numpy
import polars
import pyarrow
import pytest

import zipfdb


def test_edits_are_seen_at_once(con):
    notes = con.create_corpus("notes", {"author": "TEXT"})
    notes.append("a", "the cat", author="Ann")
    notes.insert("a", 4, b"black ")
    notes.append(None, "without a name")
    notes.replace("b", "a dog")
    assert notes.extract("a") == b"the black cat"
    assert notes.metadata("a")["author"] == "Ann"
    assert len(notes) == 3
    notes.delete("a", "b")
    ((name, size, words),) = notes.files()
    assert name.isdigit() and (size, words) == (14, 3)
    with pytest.raises(zipfdb.ProgrammingError):
        notes.delete("a")
    with pytest.raises(zipfdb.DataError):
        notes.append("a", 7)
    con.drop_corpus("notes")
    with pytest.raises(zipfdb.ProgrammingError):
        con.corpus("notes")


def test_look_ups_take_lists_and_arrays(con):
    pets = con.corpus("PETS")
    assert pets.name == "pets"
    assert (pets.count("dog"), pets.count(b"dog", "b.txt"), pets.count("none")) == (3, 2, 0)
    words = ["dog", "cat", "none"]
    for given in [words, tuple(words), numpy.array(words), pyarrow.array(words), polars.Series(words)]:
        counts = pets.count_many(given)
        assert isinstance(counts, numpy.ndarray) and counts.tolist() == [3, 2, 0]
    assert pets.count_many(["dog", "the"], ["b.txt", "a.txt"]).tolist() == [2, 2]
    with pytest.raises(TypeError):
        pets.count_many("dog")
    with pytest.raises(zipfdb.DataError):
        pets.count_many(["dog"], ["a.txt", "b.txt"])
    found = pets.search("dog")
    assert [(name, offsets.tolist()) for name, offsets in found] == [("a.txt", [16]), ("b.txt", [2, 15])]
    assert pets.search("dog", "b.txt").tolist() == [2, 15]
    many = pets.search_many(["dog", "none", "the"], ["b.txt", "a.txt", "a.txt"])
    assert [offsets.tolist() for offsets in many] == [[2, 15], [], [0, 12]]
    assert [[name for name, _ in found] for found in pets.search_many(["cat", "und"])] == [["a.txt", "b.txt"], ["c/d.txt"]]
    assert pets.phrase_count(["the", "cat"]) == 2
    assert pets.phrase_search(["the", "dog"])[0][1].tolist() == [12]
    assert pets.extract("a.txt", 4, 3) == b"cat"
    files, starts = ["a.txt", "b.txt"], numpy.array([4, 2])
    for lengths in (numpy.array([3, 3], dtype="uint64"), [3, 3], array.array("i", [3, 3]), numpy.array([3, 3], dtype="int32")):
        assert pets.extract_many(files, starts, lengths) == [b"cat", b"dog"]
    with pytest.raises(OverflowError):
        pets.extract_many(files, numpy.array([-1, 2]), [3, 3])
    words, counts = pets.words("a.txt")
    assert dict(zip(words, counts.tolist())) == {"and": 1, "cat": 1, "dog": 1, "the": 2}
    assert pets.total_words == 17


def test_questions_become_relations(con):
    pets = con.corpus("pets")
    assert pets.ngrams(2, limit=1).fetchall() == [("the cat", 2)]
    assert pets.term_vectors(1, "a.txt").fetchall()[0][0:3] == con.execute("SELECT * FROM term_vectors('pets', 1) WHERE file = 'a.txt'").fetchone()[0:3]
    assert [row[0] for row in pets.ranked("+dog cat")] == [row[0] for row in con.execute("SELECT file FROM search('pets', '+dog cat')")]
    assert "<b>dog</b>" in pets.ranked("dog", excerpt=True).df()["snippet"][0]
    assert len(pets.hits('"the" []').fetchall()) == 3
    lines = pets.concordance('"cat"', left=2, right=2, sort="file")
    assert [row[lines.columns.index("hit")] for row in lines] == ["cat", "cat"]
    assert pets.collocations('"cat"', window="2:2").columns[0] == "word"
    assert pets.keywords(files="a*").columns[0] == "word"
    assert pets.dispersion('"dog"').fetchone()[0] == 3


def test_imports_take_paths_and_records(con, tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "one.txt").write_text("from a path")
    stages = []
    pets = con.corpus("pets")
    assert pets.copy_from(tmp_path / "texts", progress=lambda *stage: stages.append(stage)) == 1
    assert pets.extract("one.txt") == b"from a path"
    assert stages and all(len(stage) == 3 for stage in stages)
    with pytest.raises(zipfdb.IntegrityError):
        pets.copy_from(tmp_path / "texts")
    assert pets.copy_from(tmp_path / "texts", on_conflict="skip") == 0
    records = [("r1", "one"), ("r2", b"two", {"likes": 3}), {"file": "r3", "content": "three", "author": "Ann"}]
    assert pets.copy_from(iter(records)) == 3
    assert pets.metadata("r2")["likes"] == 3 and pets.metadata("r3")["author"] == "Ann"
    assert pets.copy_from([]) == 0

    def failing():
        yield ("r4", "four")
        raise ValueError

    with pytest.raises(ValueError):
        pets.copy_from(failing())
    assert pets.count("four") == 0
    # The failed import has ended its transaction.
    pets.append("r4", "four")
    assert pets.copy_to(tmp_path / "copy") == len(pets)
    assert (tmp_path / "copy" / "r1").read_text() == "one"


def test_snapshots_stay(con):
    pets = con.corpus("pets")
    with con.snapshot() as before, pets.snapshot() as frozen:
        assert before.corpus("pets").count("dog") == 3
        pets.append("z", "a dog")
        assert before.corpus("pets").count("dog") == frozen.count("dog") == 3
        assert before.sql("SELECT COUNT(*) FROM pets WHERE word = 'dog'").fetchone() == (3,)
        assert frozen.hits('"dog"').arrow().num_rows == 3
        with pytest.raises(zipfdb.Error):
            before.sql("DELETE FROM pets")
        assert pets.count("dog") == 4
    with pytest.raises(zipfdb.InterfaceError):
        frozen.count("dog")
    with pytest.raises(zipfdb.InterfaceError):
        before.sql("SELECT 1")


def test_transactions_happen_whole_or_not_at_all(con):
    pets = con.corpus("pets")
    with con.transaction() as edits:
        edits.corpus("pets").append("t", "new words", likes=1)
        edits.sql("DELETE FROM pets WHERE file = ?", ["a.txt"])
        assert edits.corpus("pets").count("new") == 1
        assert edits.corpus("pets").ngrams(2, limit=1).fetchone() is not None
        assert pets.count("new") == 0 and pets.count("and") == 1
        # It would wait for itself.
        with pytest.raises(zipfdb.ProgrammingError, match="transaction open"):
            pets.append("t", "x")
        with pytest.raises(zipfdb.ProgrammingError, match="transaction open"):
            con.execute("DELETE FROM pets")
    assert pets.count("new") == 1 and pets.count("and") == 0
    with pytest.raises(KeyError):
        with con.transaction() as edits:
            edits.corpus("pets").delete("t")
            raise KeyError
    assert pets.count("new") == 1
    with pytest.raises(zipfdb.InterfaceError):
        edits.commit()


def test_relations_are_shown(con):
    pets = con.corpus("pets")
    assert repr(con.sql("SELECT 1 AS one, NULL AS none")).splitlines() == ["one  none", "---  ----", "1    NULL"]
    relation = con.sql("SELECT '<b>' AS text, 2 AS n")
    assert "&lt;b&gt;" in relation._repr_html_()
    # Nothing is lost by showing it.
    assert relation.fetchall() == [("<b>", 2)]
    html = pets.concordance('"cat"')._repr_html_()
    assert "<b>cat</b>" in html and "text-align: right" in html
    many = con.sql("SELECT word FROM pets UNION ALL SELECT word FROM pets")
    assert "the first 20 rows" in many._repr_html_()
    assert len(many.fetchall()) == 34
    assert "EXPLAIN" not in con.sql("EXPLAIN SELECT COUNT(*) FROM pets")._repr_html_()
    assert repr(pets) == "<zipfdb.Corpus 'pets'>"
    assert repr(con.sql("DELETE FROM pets")) == "<zipfdb.Relation: 3 rows changed>"
