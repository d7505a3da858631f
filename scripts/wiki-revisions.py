#!/usr/bin/env python3
"""Writes the revisions of a wiki page: a text as repetitive as `einstein.en.txt` of the Pizza&Chili corpus.

    scripts/wiki-revisions.py DIRECTORY [REVISIONS [SEED]]

A page of markup grows from about 20 to 90 kB. Each revision is the one before with one small edit: words replaced, inserted or
deleted, a sentence moved or written, a reference added; one in 40 is vandalism, undone by the next. Each revision is a file. The
default of 8,000 revisions has about 470 MB. The result depends on the arguments alone.
"""
import pathlib
import random
import sys


def main():
    directory = pathlib.Path(sys.argv[1])
    revisions = int(sys.argv[2]) if len(sys.argv) > 2 else 8000
    numbers = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 42)
    directory.mkdir(parents=True, exist_ok=True)
    syllables = [a + b for a in "b c d f g l m n p r s t v st tr ch".split() for b in "a e i o u ai or en".split()]
    vocabulary = ["".join(numbers.choices(syllables, k=numbers.choice([1, 1, 2, 2, 3]))) for _ in range(6000)]
    weights = [1 / (rank + 3) for rank in range(len(vocabulary))]

    def words(count):
        return numbers.choices(vocabulary, weights, k=count)

    def sentence():
        made = words(numbers.randint(5, 30))
        for at in range(len(made)):
            if numbers.random() < 0.06:
                made[at] = f"[[{made[at]}]]"
            elif numbers.random() < 0.05:
                made[at] += ","
        made[0] = made[0].capitalize()
        made[-1] += "."
        if numbers.random() < 0.15:
            name = numbers.choice(vocabulary)
            made.append(f"<ref>{{{{cite journal | title={' '.join(words(6))} | year={numbers.randint(1890, 2006)} | last={name}}}}}</ref>")
        return made

    page = [sentence() for _ in range(160)]
    final = 90_000
    vandalized = None
    for revision in range(revisions):
        if vandalized is not None:
            page, vandalized = vandalized, None
        elif numbers.random() < 1 / 40:
            vandalized = [list(made) for made in page]
            at = numbers.randrange(len(page))
            page[at : at + numbers.randint(1, 20)] = [words(numbers.randint(1, 6))]
        else:
            at = numbers.randrange(len(page))
            size = sum(len(word) + 1 for made in page for word in made)
            wanted = 20_000 + (final - 20_000) * revision / revisions
            kind = numbers.random()
            if kind < 0.5:
                place = numbers.randrange(len(page[at]))
                page[at][place : place + numbers.randint(0, 3)] = words(numbers.randint(1, 3))
            elif kind < 0.7:
                place = numbers.randrange(len(page[at]))
                del page[at][place : place + numbers.randint(1, 2)]
            elif kind < 0.75:
                page.insert(numbers.randrange(len(page)), page.pop(at))
            elif size < wanted:
                page[at:at] = [sentence() for _ in range(numbers.randint(1, 3))]
            elif len(page) > 100:
                del page[at]
            page = [made for made in page if made]
        lines, line = [f"== Revision {revision} of {2001 + revision % 6} =="], []
        for number, made in enumerate(page):
            line += made
            if number % 6 == 5:
                lines.append(" ".join(line))
                line = []
        lines.append(" ".join(line))
        (directory / f"{revision:05}.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
