"""Threads, signals, forked processes, sub-interpreters, and the start of the module."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import zipfdb

# A statement that takes far longer than a test.
ENDLESS = "SELECT COUNT(*) FROM long WHERE word REGEXP '(a|b|ab)*c' OR " + " OR ".join(
    f"upper(lower(word) || '{number}') LIKE '%{number}_x%'" for number in range(300)
)


@pytest.fixture
def long_con(con):
    con.create_corpus("long").append("f", " ".join(f"w{number}" for number in range(300_000)))
    return con


def alarm(seconds):
    """Ctrl-C after some time."""
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


def test_ctrl_c_ends_a_statement(long_con):
    timer = alarm(0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            for _ in range(1000):
                long_con.execute(ENDLESS).fetchall()
    finally:
        timer.join()
    assert long_con.execute("SELECT 1").fetchone() == (1,)


def test_another_thread_ends_a_statement(long_con):
    ended = []

    def run():
        try:
            for _ in range(1000):
                long_con.session().execute(ENDLESS).fetchall()
        except zipfdb.Interrupted as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while not ended:
        long_con.interrupt()
        time.sleep(0.01)
    thread.join()
    assert isinstance(ended[0], zipfdb.OperationalError)


def test_a_timeout_is_an_error_of_its_own(long_con):
    long_con.execute("SET statement_timeout = 1")
    with pytest.raises(zipfdb.Timeout):
        for _ in range(1000):
            long_con.execute(ENDLESS).fetchall()


def test_other_threads_run_while_a_statement_does(long_con):
    ended = threading.Event()

    def run():
        with pytest.raises(zipfdb.Interrupted):
            for _ in range(1000):
                long_con.session().execute(ENDLESS).fetchall()
        ended.set()

    thread = threading.Thread(target=run)
    thread.start()
    # With the lock held this thread would not run before the statements are over.
    time.sleep(0.1)
    while not ended.is_set():
        long_con.interrupt()
        time.sleep(0.01)
    thread.join()


def test_threads_share_a_connection(con):
    results = []

    def read():
        for _ in range(50):
            results.append((con.corpus("pets").count("dog"), con.execute("SELECT COUNT(*) FROM pets").fetchone()[0]))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [(3, 17)] * 400


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_opens_its_own(con, tmp_path):
    rows = con.sql("SELECT word FROM pets")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = []
        for use in (lambda: con.execute("SELECT 1"), rows.fetchall, lambda: con.corpus("pets").count("dog")):
            try:
                use()
            except zipfdb.OperationalError as error:
                said.append("forked from" in str(error))
        with zipfdb.connect(tmp_path / "child.zdb") as own:
            own.create_corpus("c").append("f", "one")
            said.append(own.corpus("c").count("one") == 1)
        os.write(writer, repr(said).encode())
        os._exit(0)
    os.close(writer)
    assert os.read(reader, 1000) == b"[True, True, True, True]"
    assert os.waitpid(child, 0)[1] == 0
    assert len(rows.fetchall()) == 17


def run_python(code):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_second_interpreter_is_refused_with_an_error():
    code = """
        import sys
        import zipfdb
        name = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
        interpreters = __import__(name)
        other = interpreters.create()
        script = '''
        import sys
        sys.path[:] = %r
        try:
            import zipfdb
            print("imported", flush=True)
        except ImportError as error:
            print("ImportError:", error, flush=True)
        ''' % (sys.path,)
        import textwrap
        interpreters.run_string(other, textwrap.dedent(script))
        interpreters.destroy(other)
    """
    assert run_python(code).startswith("ImportError:")


def test_the_module_needs_no_other_and_starts_soon():
    code = """
        import sys, time
        start = time.perf_counter()
        import zipfdb
        print(sorted({"numpy", "pandas", "polars", "pyarrow"} & set(sys.modules)))
    """
    assert run_python(code).strip() == "[]"


def test_open_handles_do_not_delay_the_end():
    code = """
        import zipfdb
        con = zipfdb.connect()
        con.create_corpus("c").append("f", "one two")
        rows = con.sql("SELECT word FROM c")
        edits = con.transaction()
        print(rows.fetchone())
    """
    assert run_python(code).strip() == "('one',)"
