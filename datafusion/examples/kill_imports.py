"""Kills and stops workers, and coordinators, at random while they import, and compares what is published with a local import.

python3 kill_imports.py ZIPF ZIPF_FULL PATH [ROUNDS [SEED]]

In each round three workers on this machine import PATH to an empty database. At a random moment a random worker is killed, in every
fourth round stopped; in every fifth the coordinator is killed instead. Ends with 1 if anything else than all of PATH or nothing is
published, or less than all while the coordinator lives.
"""

import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

from kill_workers import Worker

QUERIES = [
    "SELECT word, COUNT(*) AS n FROM c GROUP BY word ORDER BY n DESC, word LIMIT 100000",
    "SELECT file, bytes, words FROM files('c') ORDER BY file",
    "SELECT COUNT(*) AS n, SUM(\"offset\") AS s FROM c WHERE word IN ('the', 'of')",
]


def output(*arguments):
    return subprocess.run(arguments, check=True, capture_output=True, text=True).stdout


def answers(zipf_full, url):
    return [output(zipf_full, url, "-c", sql) for sql in QUERIES]


def main():
    zipf, zipf_full, path = sys.argv[1:4]
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 50
    seed = int(sys.argv[5]) if len(sys.argv) > 5 else random.randrange(1 << 32)
    print(f"seed {seed}", flush=True)
    numbers = random.Random(seed)
    folder = pathlib.Path(tempfile.mkdtemp())
    empty = str(folder / "empty.zdb")
    output(zipf, empty, "-c", "CREATE CORPUS c")
    local = str(folder / "local.zdb")
    output(zipf, local, "-c", f"CREATE CORPUS c; COPY c FROM '{path}'")
    expected = answers(zipf_full, local)
    took, hit, published = None, 0, 0
    for number in range(-1, rounds):
        url = f"file://{folder}/round"
        output(zipf_full, "push", "--replace", empty, url)
        scratch = folder / "scratch"
        scratch.mkdir()
        more = ["--import-from", path, "--scratch", str(scratch)]
        workers = [Worker(zipf_full, url, more=more) for _ in range(3)]
        addresses = ",".join(worker.address for worker in workers)
        arguments = [zipf_full, "import", url, "c", path, "--workers", addresses, "--worker-silence", "2s"]
        begin = time.monotonic()
        importing = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        is_ended = False
        # The first round is left alone: it tells how long an import takes.
        if number >= 0:
            time.sleep(numbers.random() * took)
            hit += importing.poll() is None
            victim = workers[numbers.randrange(len(workers))].process
            is_ended = number % 5 == 4
            if is_ended:
                importing.kill()
            elif number % 4 == 3:
                victim.send_signal(19)
            else:
                victim.kill()
        shown = importing.communicate()[0]
        took = took or time.monotonic() - begin
        for worker in workers:
            worker.end()
        versions = output(zipf_full, "versions", url).split()
        if len(versions) > 1:
            published += 1
            if answers(zipf_full, url) != expected:
                sys.exit(f"round {number}: something else was published")
        elif not is_ended or importing.returncode == 0:
            sys.exit(f"round {number}: nothing was published: {shown}")
        shutil.rmtree(folder / "round")
        shutil.rmtree(scratch)
    shutil.rmtree(folder)
    print(f"{rounds} rounds, {hit} of them hit an import that was going on; {published} of {rounds + 1} were published, each whole")


main()
