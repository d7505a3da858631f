"""A connection with a small corpus."""

import signal

import pytest

import zipfdb

# A process that was started in the background ignores Ctrl-C, and so would its tests.
signal.signal(signal.SIGINT, signal.default_int_handler)

TEXTS = {
    "a.txt": "the cat and the dog",
    "b.txt": "a dog sat. The dog ran after the cat",
    "c/d.txt": "\u00e4pfel und \u00e4pfel",
}


@pytest.fixture
def con():
    with zipfdb.connect(":memory:") as connection:
        pets = connection.create_corpus("pets", {"author": "TEXT", "day": "DATE", "at": "TIMESTAMP", "good": "BOOLEAN", "likes": "INTEGER"})
        pets.append_many((name, text) for name, text in TEXTS.items())
        yield connection
