"""What concerns the whole process: threads, Ctrl-C, forks, the interpreter's end, memory.

Most run in a process of their own, started by WEFT_TEST_PYTHON.
"""

import gc
import os
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import weft

PYTHON = os.environ.get("WEFT_TEST_PYTHON", sys.executable)

# Some seconds of work on a CPU adapter. `busy(s)` records about s seconds; where the driver runs what is submitted before
# it takes more (Mesa 22's lavapipe), some three of them are left when it returns.
BUSY = """
import time
import numpy as np, weft
def busy(seconds):
    x = weft.asarray(np.full((1024, 1024), 1 / 1024, np.float32))
    once = 1e9
    for _ in range(4):  # the shortest: on a loaded machine one try may take many times as long
        start = time.perf_counter()
        (x @ x).numpy()
        once = min(once, time.perf_counter() - start)
    y = x
    for _ in range(max(1, int(seconds / once))):
        y = y @ x
    return y
"""


def run(program, timeout=120):
    text = BUSY + textwrap.dedent(program)
    return subprocess.run([PYTHON, "-c", text], capture_output=True, text=True, timeout=timeout)


def check(program, timeout=120):
    done = run(program, timeout)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_ctrl_c_in_a_wait():
    out = check(
        """
        import os, signal, threading
        def unfinished():
            try:
                weft.synchronize(timeout=0)
            except weft.TimedOut:
                return True
        for wait in ("numpy", "synchronize"):
            for _ in range(4):  # the machine may have been done before the signal came
                over = False
                timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
                y = busy(8)
                try:
                    timer.start()
                    y.numpy() if wait == "numpy" else weft.synchronize()
                    over = True
                    timer.join()
                    time.sleep(1)
                except KeyboardInterrupt:
                    if not over:
                        print("interrupted", unfinished())
                        break
        print(weft.asarray([1, 2]).shape, flush=True)  # all stays usable
        os._exit(0)
        """
    )
    assert out.count("interrupted True") == 2 and "(2,)" in out


def test_a_handlers_exception_ends_a_wait():
    out = check(
        """
        import os, signal
        class Stop(Exception): pass
        def handler(*_): raise Stop("from the handler")
        signal.signal(signal.SIGALRM, handler)
        y = busy(5)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            y.numpy()
        except Stop as e:
            print("got", e, flush=True)
        os._exit(0)
        """
    )
    assert "got from the handler" in out


def test_timeout():
    out = check(
        """
        import os
        y = busy(4)
        try:
            y.numpy(timeout=0.2)
        except TimeoutError as e:
            print(type(e).__name__, e)
        try:
            weft.synchronize(timeout=0)  # the work is not done, so the read did not wait for it
        except weft.TimedOut:
            print("twice")
        print(y.numpy(timeout=100).shape)
        try:
            y.numpy(timeout=-1)
        except ValueError as e:
            print(e)
        """
    )
    assert "TimedOut" in out and "0.2 s" in out and "Fix: " in out and "twice" in out
    assert "(1024, 1024)" in out and "-1 s" in out


def test_fork_after_use():
    out = check(
        """
        import os, signal, sys
        x = weft.asarray([1.0, 2.0])
        y = (x + 1)
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            signal.alarm(30)  # a hang ends in a signal
            for call in (lambda: x + 1, lambda: y.numpy(), lambda: weft.zeros(3), lambda: weft.devices(),
                         lambda: weft.Device.open(), weft.synchronize, lambda: weft.sum(np.ones(3))):
                try:
                    call()
                    print("no error")
                except weft.Error as e:
                    assert "fork" in str(e) and "spawn" in str(e), str(e)
            print(x.shape, "child done", flush=True)
            del x, y
            sys.exit(7)
        _, status = os.waitpid(child, 0)
        assert os.WIFEXITED(status) and os.WEXITSTATUS(status) == 7, status
        print(y.numpy())
        """
    )
    assert "child done" in out and "no error" not in out and "[2. 3.]" in out


def test_fork_before_use():
    out = check(
        """
        import os, sys
        child = os.fork()
        if child == 0:
            print(weft.asarray([1.0, 2.0]).numpy(), flush=True)
            sys.exit(0)
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        print(weft.asarray([3.0, 4.0]).numpy())
        """
    )
    assert "[1. 2.]" in out and "[3. 4.]" in out


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing(method, tmp_path):
    # A file of its own: spawned workers import the main module.
    file = tmp_path / "main.py"
    file.write_text(
        textwrap.dedent(
            f"""
            import multiprocessing as mp, sys
            import numpy as np, weft
            def work(n):
                try:
                    return float(weft.sum(np.ones(n)))
                except weft.Error as e:
                    return str(e)
            if __name__ == "__main__":
                print(work(3))
                mp.set_executable({PYTHON!r})
                with mp.get_context({method!r}).Pool(2) as pool:
                    print(pool.map(work, [5, 6], chunksize=1))
            """
        )
    )
    done = subprocess.run([PYTHON, str(file)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert ("[5.0, 6.0]" if method == "spawn" else "do not survive a fork") in done.stdout


ENDINGS = {
    "work in flight": "y = busy(1)",
    "much work in flight": "y = busy(9)",
    "array in a cycle": "y = busy(0.5); c = [y]; c.append(c)",
    "array held by a module": "import json; json.y = busy(0.5)",
    "array held by an exception": "try:\n    y = busy(0.5); y[5000]\nexcept IndexError as e:\n    kept = e",
    "reading daemon thread": "import threading\ny = busy(3)\nthreading.Thread(target=y.numpy, daemon=True).start()\ntime.sleep(0.1)",
    "reading thread": "import threading\ny = busy(1)\nthreading.Thread(target=y.numpy).start()",
    "several devices": "d = weft.Device.open(); x = weft.asarray([1.0], device=d); y = busy(0.5); z = x + 1",
    "recorded only": "y = weft.asarray([1.0]) + 1",
    "compiling": "import threading\nx = weft.asarray([1.0])\nthreading.Thread(target=lambda: weft.nn.softmax(x), daemon=True).start()",
    "an exit in a function": "def f():\n    y = busy(0.5)\n    raise SystemExit(0)\nf()",
    "at exit": "import atexit\ny = busy(0.2)\natexit.register(lambda: print(y.numpy().shape))",
    "dropped device": "weft.default_device().destroy()",
    "nothing": "",
}


@pytest.mark.parametrize("name", ENDINGS)
def test_interpreter_ends(name):
    check(ENDINGS[name])


def test_memory_stays_flat():
    def round_of(n):
        for i in range(n):
            x = weft.asarray(np.full(64, i % 7, np.float32))
            y = x + 1
            if i % 1000 == 0:
                assert float(y[0]) == i % 7 + 1
        del x, y
        weft.synchronize()
        gc.collect()

    def resident():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    round_of(3000)
    live, host = weft.stats()["live_bytes"], resident()
    round_of(10000)
    assert weft.stats()["live_bytes"] == live
    assert resident() - host < 8 << 20
    keep = [weft.zeros(1000) for _ in range(100)]
    assert weft.stats()["live_bytes"] >= live + 100 * 4000
    del keep
    assert weft.stats()["live_bytes"] == live


def test_exceptions_leak_nothing():
    x = weft.zeros((3, 4))
    weft.synchronize()
    gc.collect()
    live = weft.stats()["live_bytes"]
    for _ in range(200):
        with pytest.raises(ValueError):
            x @ x
        with pytest.raises(IndexError):
            x[7]
        with pytest.raises(TypeError):
            x + "a"
    gc.collect()
    assert weft.stats()["live_bytes"] == live


def test_the_lock_is_released_in_waits():  # P06
    x = weft.asarray(np.full((512, 512), 1 / 512, np.float32))
    y = x
    for _ in range(30):
        y = y @ x
    counted = []

    def count():
        n = 0
        while not done.is_set():
            n += 1
            if n % 1000 == 0:
                time.sleep(0)
        counted.append(n)

    done = threading.Event()
    counter = threading.Thread(target=count)
    counter.start()
    start = time.perf_counter()
    y.numpy()
    took = time.perf_counter() - start
    done.set()
    counter.join()
    assert took > 0.05, "the work was over too soon to show anything"
    assert counted[0] > 1000


def test_threads_with_their_own_data():  # P06
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        a = rng.integers(-4, 5, (17, 23)).astype(np.float32)
        b = rng.integers(-4, 5, (23, 9)).astype(np.float32)
        for _ in range(100):
            if not np.array_equal((weft.asarray(a) @ weft.asarray(b)).numpy(), a @ b):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_first_use_from_many_threads():
    out = check(
        """
        import threading
        found = []
        threads = [threading.Thread(target=lambda: found.append(weft.asarray([1.0]).device.id)) for _ in range(8)]
        for t in threads: t.start()
        for t in threads: t.join()
        print(len(found), len(set(found)))
        """
    )
    assert "8 1" in out


def test_adapter_by_environment():
    env = dict(os.environ, WEFT_ADAPTER="no such adapter")
    program = "import weft\ntry:\n    weft.zeros(1)\nexcept weft.Error as e:\n    print(e)"
    done = subprocess.run([PYTHON, "-c", program], capture_output=True, text=True, timeout=60, env=env)
    assert "no such adapter" in done.stdout and "Fix: " in done.stdout


ENDS = {
    "an awaited read given up": """
        import asyncio
        async def main():
            given_up = (weft.ones((512, 512)) @ weft.ones((512, 512))).numpy_async()
            given_up.cancel()
            await weft.ones(2).numpy_async()
        asyncio.run(main())
    """,
    "a read whose loop is closed": """
        import asyncio
        async def main():
            (weft.ones((512, 512)) @ weft.ones((512, 512))).numpy_async()
        asyncio.run(main())
        weft.synchronize()
    """,
    "callbacks that use arrays": """
        x = weft.ones(8)
        for k in range(100):
            x = x + 1
            weft.default_device().stream.on_complete(lambda error: (weft.ones(2) + 1).numpy())
    """,
}


@pytest.mark.parametrize("name", ENDS)
def test_the_interpreter_ends_while_callbacks_run(name):
    """pybind/pybind11#1360, python/cpython#124619: a callback that asks for the interpreter's lock too late aborts."""
    for _ in range(6):
        check(ENDS[name])


def test_a_running_callback_is_waited_for():
    out = check("""
        started = __import__("threading").Event()
        def slow(error):
            started.set()
            time.sleep(0.5)
            print("done", flush=True)
        weft.ones(8) + 1
        weft.default_device().stream.on_complete(slow)
        started.wait(30)
    """)
    assert out == "done\n"
