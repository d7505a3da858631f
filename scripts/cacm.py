#!/usr/bin/env python3
"""Measures search() on the CACM collection: mean average precision and precision at 30.

    cacm.py ZIPF FOLDER

ZIPF is the program, FOLDER has cacm.tar.gz (one page a file), cacm.topics.txt and cacm.qrels.txt, as castorini/anserini has them.
Each judged topic is a query of its words in the lenient mode, and an answer is cut at 1,000 files. Variants are with and without
the 33 stop words of Lucene in queries, with and without stems, and with the parameters of Lucene (1.2, 0.75) and of Anserini (0.9,
0.4). Stop words stay in files, where they count for lengths, as no others are left out there.
"""
import csv
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile

STOP_WORDS = set(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was "
    "will with".split()
)
CUT = 1000


def topics(text):
    found = re.findall(r"<DOCNO>\s*(\d+)\s*</DOCNO>(.*?)</DOC>", text, re.S)
    return {int(number): re.findall(r"[A-Za-z0-9]+", words) for number, words in found}


def judgements(text):
    relevant = {}
    for line in text.splitlines():
        topic, _, document, grade = line.split()
        if int(grade) > 0:
            relevant.setdefault(int(topic), set()).add(document)
    return relevant


def statement(words, options):
    query = " ".join(words).replace("'", "''")
    call = ", ".join(["'cacm'", f"'{query}'", "mode => 'lenient'", *options])
    return f"SELECT file FROM search({call}) LIMIT {CUT};\nSELECT '----' AS file;\n"


def answers(program, database, statements):
    done = subprocess.run(
        [program, database, "--readonly", "--format", "csv"],
        input="".join(statements),
        capture_output=True,
        text=True,
        check=True,
    )
    lists, files = [], []
    for row in csv.reader(io.StringIO(done.stdout)):
        if row == ["----"]:
            lists.append(files)
            files = []
        elif row and row[0].endswith(".html"):
            files.append(os.path.splitext(os.path.basename(row[0]))[0])
    return lists


def average_precision(files, relevant):
    found, total = 0, 0.0
    for rank, name in enumerate(files, 1):
        if name in relevant:
            found += 1
            total += found / rank
    return total / len(relevant)


def main():
    program, folder = sys.argv[1:3]
    read = lambda name: open(os.path.join(folder, name), encoding="utf-8").read()
    asked, relevant = topics(read("cacm.topics.txt")), judgements(read("cacm.qrels.txt"))
    judged = sorted(set(asked) & set(relevant))
    with tempfile.TemporaryDirectory() as scratch:
        pages, database = os.path.join(scratch, "pages"), os.path.join(scratch, "cacm.zdb")
        with tarfile.open(os.path.join(folder, "cacm.tar.gz")) as archive:
            archive.extractall(pages, filter="data")
        script = f"CREATE CORPUS cacm; COPY cacm FROM '{pages}';"
        subprocess.run([program, database, "-c", script], check=True, stdout=subprocess.DEVNULL)
        print(f"{len(judged)} topics")
        print("| k1, b | stop words in queries | stems | MAP | P30 |\n|---|---|---|---|---|")
        for parameters in ((1.2, 0.75), (0.9, 0.4)):
            for has_stop_words in (True, False):
                for stemmer in ("none", "english"):
                    options = [f"stemmer => '{stemmer}'", f"k1 => {parameters[0]}", f"b => {parameters[1]}"]
                    kept = lambda word: has_stop_words or word.lower() not in STOP_WORDS
                    queries = [[word for word in asked[topic] if kept(word)] for topic in judged]
                    lists = answers(program, database, [statement(query, options) for query in queries])
                    pairs = [(files, relevant[topic]) for files, topic in zip(lists, judged, strict=True)]
                    mean = sum(average_precision(*pair) for pair in pairs) / len(pairs)
                    at_30 = sum(len(set(files[:30]) & known) / 30 for files, known in pairs) / len(pairs)
                    kinds = ["yes" if has_stop_words else "no", stemmer]
                    print(f"| {parameters[0]}, {parameters[1]} | {' | '.join(kinds)} | {mean:.4f} | {at_30:.4f} |")


if __name__ == "__main__":
    main()
