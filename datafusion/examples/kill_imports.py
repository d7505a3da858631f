"""Kills and stops workers, and coordinators, at random while they import, and compares what is published with a local import.

python3 kill_imports.py ZIPF ZIPF_FULL PATH [KILLS [SEED [WORKERS [THREADS [EVERY]]]]]

Three workers of one thread on this machine import PATH to an empty database, or as many as are wanted, round after round until they
were killed KILLS times (50 if nothing is said): a random one at random moments, on average EVERY seconds apart (2 if nothing is said), started
again at once. Every fourth one of a round is stopped instead, and killed once it was silent for longer than coordinators wait. In every fifth
round the coordinator is killed, too. Ends with 1 if anything else than all of PATH or nothing is published, or less than all while the
coordinator lives.
"""

import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from kill_workers import SILENCE_SECONDS, Killer, Worker

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
    kills = int(sys.argv[4]) if len(sys.argv) > 4 else 50
    seed = int(sys.argv[5]) if len(sys.argv) > 5 else random.randrange(1 << 32)
    count = int(sys.argv[6]) if len(sys.argv) > 6 else 3
    threads = int(sys.argv[7]) if len(sys.argv) > 7 else 1
    every = float(sys.argv[8]) if len(sys.argv) > 8 else 2
    print(f"seed {seed}", flush=True)
    numbers = random.Random(seed)
    folder = pathlib.Path(tempfile.mkdtemp())
    empty = str(folder / "empty.zdb")
    output(zipf, empty, "-c", "CREATE CORPUS c")
    local = str(folder / "local.zdb")
    output(zipf, local, "-c", f"CREATE CORPUS c; COPY c FROM '{path}'")
    expected = answers(zipf_full, local)
    shutil.rmtree(local)
    url, scratch = f"file://{folder}/round", folder / "scratch"
    more = ["--import-from", path, "--scratch", str(scratch)]

    def start(listen="127.0.0.1:0"):
        return Worker(zipf_full, url, listen, more, threads)

    rounds, hit, killed, ended, published, took = 0, 0, 0, 0, 0, None
    while killed < kills:
        output(zipf_full, "push", "--replace", empty, url)
        scratch.mkdir()
        workers = [start() for _ in range(count)]
        addresses = ",".join(worker.address for worker in workers)
        arguments = [zipf_full, "import", url, "c", path, "--workers", addresses, "--worker-silence", f"{SILENCE_SECONDS}s"]
        begin = time.monotonic()
        importing = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        killer = Killer(workers, start, kills - killed, every, random.Random(seed + rounds))
        killer.asked = importing
        # The first round is left alone: it measures how long an import takes.
        if took is not None:
            killer.start()
        is_ended = rounds % 5 == 4
        if is_ended:
            threading.Timer(numbers.random() * took, importing.kill).start()
        shown = importing.communicate()[0]
        seconds = time.monotonic() - begin
        if took is not None:
            killer.stop()
        took = took or seconds
        for worker in workers:
            worker.end()
        killed, hit, ended = killed + killer.done, hit + killer.hit, ended + (importing.returncode == -9)
        versions = output(zipf_full, "versions", url).split()
        if len(versions) > 1:
            published += 1
            if answers(zipf_full, url) != expected:
                sys.exit(f"round {rounds}: something else was published")
        elif importing.returncode != -9:
            sys.exit(f"round {rounds}: nothing was published: {shown}")
        shutil.rmtree(folder / "round")
        shutil.rmtree(scratch)
        rounds += 1
        print(f"round {rounds}: {seconds:.1f} s, {killer.done} kills", flush=True)
    shutil.rmtree(folder)
    during = f"{hit} of them during an import, and {ended} coordinators"
    print(f"{rounds} imports, {killed} workers killed, {during}; {published} were published, each whole")


main()
