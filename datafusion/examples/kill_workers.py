"""Kills and stops workers at random while they answer, and compares each answer with that of one process.

python3 kill_workers.py ZIPF_FULL URL CORPUS [KILLS [SEED [WORKERS [THREADS [EVERY]]]]]

Three workers of one thread answer on this machine, or as many as are wanted. Queries are asked one after the other, and meanwhile a random worker is killed
at random moments, on average EVERY seconds apart (2 if nothing is said), and started again at once; every fourth one is stopped instead, and killed once it
was silent for longer than coordinators wait. Ends with 1 at the first answer that differs, or is an error.
"""

import random
import signal
import subprocess
import sys
import threading
import time

SILENCE_SECONDS = 2


def queries(corpus):
    return [
        f"SELECT word, COUNT(*) AS n FROM {corpus} GROUP BY word ORDER BY n DESC, word LIMIT 1000",
        f"SELECT file, COUNT(*) AS n FROM {corpus} WHERE word = 'the' GROUP BY file ORDER BY n DESC, file LIMIT 1000",
        f'SELECT COUNT(*) AS n, SUM("offset") AS s FROM {corpus} WHERE word IN (\'the\', \'of\')',
        f"SELECT file, word FROM term_vectors('{corpus}', 3) ORDER BY file, word LIMIT 1000",
        f"SELECT COUNT(DISTINCT file) AS n FROM {corpus} WHERE word LIKE 'inter%'",
    ]


class Worker:
    def __init__(self, program, url, listen="127.0.0.1:0", more=(), threads=1):
        arguments = ["worker", "--listen", listen, "--database", url, "--threads", str(threads), "--memory-limit", "1GiB"]
        self.process = subprocess.Popen([program, *arguments, *more], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        self.address = line.removeprefix("listening on ").split(",")[0]

    def end(self):
        self.process.kill()
        self.process.wait()


def ask(program, url, sql, workers=None):
    arguments = [program, url, "-c", sql]
    if workers:
        arguments += ["--worker-silence", f"{SILENCE_SECONDS}s", "--workers", ",".join(worker.address for worker in workers)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


class Killer(threading.Thread):
    """Kills workers until it has killed as many as it should or is stopped, each of which is replaced by a new one at the same address."""

    def __init__(self, workers, start, kills, every, numbers):
        super().__init__(daemon=True)
        self.workers, self.start_worker, self.kills, self.every, self.numbers = workers, start, kills, every, numbers
        self.done, self.hit, self.asked = 0, 0, None
        self.stopped = threading.Event()

    def stop(self):
        self.stopped.set()
        self.join()

    def run(self):
        for number in range(self.kills):
            if self.stopped.wait(self.numbers.uniform(0, 2 * self.every)):
                return
            place = self.numbers.randrange(len(self.workers))
            victim, asked = self.workers[place], self.asked
            self.hit += asked is not None and asked.poll() is None
            if number % 4 == 3:
                victim.process.send_signal(signal.SIGSTOP)
                time.sleep(2 * SILENCE_SECONDS)
            victim.end()
            self.workers[place] = self.start_worker(victim.address)
            self.done = number + 1


def main():
    program, url, corpus = sys.argv[1:4]
    kills = int(sys.argv[4]) if len(sys.argv) > 4 else 200
    seed = int(sys.argv[5]) if len(sys.argv) > 5 else random.randrange(1 << 32)
    count = int(sys.argv[6]) if len(sys.argv) > 6 else 3
    threads = int(sys.argv[7]) if len(sys.argv) > 7 else 1
    every = float(sys.argv[8]) if len(sys.argv) > 8 else 2
    print(f"seed {seed}", flush=True)
    numbers = random.Random(seed)
    expected = []
    for sql in queries(corpus):
        asked = ask(program, url, sql)
        answer = asked.communicate()[0]
        if asked.returncode:
            sys.exit(f"one process fails: {sql}\n{answer}")
        expected.append((sql, answer))

    def start(listen="127.0.0.1:0"):
        return Worker(program, url, listen, threads=threads)

    workers = [start() for _ in range(count)]
    for sql, answer in expected:
        if ask(program, url, sql, workers).communicate()[0] != answer:
            sys.exit(f"differs without any kill: {sql}")
    print("all answers are equal without kills", flush=True)
    killer = Killer(workers, start, kills, every, random.Random(seed + 1))
    killer.start()
    answers, longest = 0, 0
    while killer.is_alive():
        sql, answer = expected[numbers.randrange(len(expected))]
        begin = time.monotonic()
        killer.asked = ask(program, url, sql, workers)
        found = killer.asked.communicate()[0]
        if found != answer:
            sys.exit(f"differs after {killer.done} kills: {sql}\n{found[:2000]}")
        answers += 1
        longest = max(longest, time.monotonic() - begin)
        print(f"{killer.done} kills, {answers} answers, all equal", flush=True)
    for worker in workers:
        worker.end()
    hit = f"{killer.hit} of them while a query went on"
    print(f"{kills} kills, {hit}; {answers} answers, the slowest after {longest:.1f} s; all are equal")


if __name__ == "__main__":
    main()
