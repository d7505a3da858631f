"""Kills and stops workers at random while they answer, and compares each answer with that of one process.

python3 kill_workers.py ZIPF_FULL URL CORPUS [ROUNDS [SEED [WORKERS [THREADS]]]]

Three workers of one thread answer on this machine, or as many as are wanted. In each round a query is asked, and at a random moment of it a random worker is killed, or in
every fourth round stopped, and started again when the answer is there. Ends with 1 at the first answer that differs.
"""

import random
import subprocess
import sys
import time

SILENCE = "2s"


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
        arguments += ["--worker-silence", SILENCE, "--workers", ",".join(worker.address for worker in workers)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def main():
    program, url, corpus = sys.argv[1:4]
    rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 200
    seed = int(sys.argv[5]) if len(sys.argv) > 5 else random.randrange(1 << 32)
    count = int(sys.argv[6]) if len(sys.argv) > 6 else 3
    threads = int(sys.argv[7]) if len(sys.argv) > 7 else 1
    print(f"seed {seed}", flush=True)
    numbers = random.Random(seed)
    expected = []
    for sql in queries(corpus):
        asked = ask(program, url, sql)
        answer = asked.communicate()[0]
        if asked.returncode:
            sys.exit(f"one process fails: {sql}\n{answer}")
        expected.append((sql, answer))
    workers = [Worker(program, url, threads=threads) for _ in range(count)]
    seconds = []
    for sql, answer in expected:
        begin = time.monotonic()
        if ask(program, url, sql, workers).communicate()[0] != answer:
            sys.exit(f"differs without any kill: {sql}")
        seconds.append(time.monotonic() - begin)
    hit = 0
    for number in range(rounds):
        query = numbers.randrange(len(expected))
        sql, answer = expected[query]
        asked = ask(program, url, sql, workers)
        time.sleep(numbers.random() * seconds[query])
        hit += asked.poll() is None
        victim = numbers.randrange(len(workers))
        if number % 4 == 3:
            workers[victim].process.send_signal(19)
        else:
            workers[victim].process.kill()
        found = asked.communicate()[0]
        if found != answer:
            sys.exit(f"round {number} differs: {sql}\n{found[:2000]}")
        address = workers[victim].address
        workers[victim].end()
        workers[victim] = Worker(program, url, address, threads=threads)
        if (number + 1) % 20 == 0:
            print(f"{number + 1} rounds, {hit} of them hit a query; all answers are equal so far", flush=True)
    for worker in workers:
        worker.end()
    print(f"{rounds} rounds, {hit} of them hit a query that was going on; all answers are equal")


if __name__ == "__main__":
    main()
