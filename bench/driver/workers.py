"""Processes that serve rows (see bench/bench_main.h and bench/peers/worker.py), with a time limit on each answer."""
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading

STARTS = 4  # a worker that died so often is given up


class WorkerError(Exception):
    pass


def stop(process):
    """Ends a process and what it started: asks first, then insists."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            break
        try:
            process.wait(5)
            break
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def run_once(command, env, limit):
    """(stdout, stderr, seconds of wall time). WorkerError past the limit or with another exit status than 0."""
    import time
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                               env=env, start_new_session=True)
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        stop(process)
        raise WorkerError(f"no end within {limit:.0f} s; stopped") from None
    except BaseException:
        stop(process)
        raise
    took = time.perf_counter() - start
    if process.returncode != 0:
        raise WorkerError(f"exit status {process.returncode}: {last_line(err)}")
    return out, err, took


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "nothing on stderr"


class Worker:
    """One serving process, started when first needed and again after it died. `hello` is what it said of itself."""

    def __init__(self, name, command, env, start_limit=120):
        self.name, self.command, self.env, self.start_limit = name, command, env, start_limit
        self.hello, self.process, self.starts = None, None, 0

    def start(self):
        if self.starts >= STARTS:
            raise WorkerError(f"given up after it ended {STARTS} times; last: {self.said()}")
        self.starts += 1
        self.errors = tempfile.TemporaryFile("w+", errors="replace")
        try:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                            text=True, env=self.env, start_new_session=True)
        except OSError as e:
            raise WorkerError(f"does not start: {e}") from None
        self.lines = queue.Queue()
        threading.Thread(target=self.read, args=(self.process.stdout, self.lines), daemon=True).start()
        self.hello = self.answer(self.start_limit)

    @staticmethod
    def read(stream, lines):
        for line in stream:
            lines.put(line)
        lines.put(None)

    def answer(self, limit):
        try:
            line = self.lines.get(timeout=limit)
        except queue.Empty:
            self.close()
            raise WorkerError(f"no answer within {limit:.0f} s; stopped") from None
        except BaseException:
            self.close()
            raise
        if line is None:
            status = self.process.wait()
            self.process = None
            raise WorkerError(f"ended with status {status}: {self.said()}")
        try:
            return json.loads(line)
        except ValueError:
            self.close()
            raise WorkerError(f"said what is no JSON: {line[:100]!r}") from None

    def said(self):
        self.errors.seek(0)
        return last_line(self.errors.read())

    def request(self, row, limit):
        if self.process is None:
            self.start()
        try:
            self.process.stdin.write(row + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the answer says with what it ended
        reply = self.answer(limit)
        if "error" in reply:
            raise WorkerError(reply["error"])
        return reply

    def close(self):
        if self.process is not None:
            process, self.process = self.process, None
            try:
                process.stdin.close()
            except OSError:
                pass
            try:
                process.wait(1)
            except subprocess.TimeoutExpired:
                stop(process)
