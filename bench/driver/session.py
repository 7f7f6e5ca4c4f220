"""One run of script/bench: starts our programs and the peers, runs rows of one match in turns, keeps the figures."""
import json
import os
import pathlib
import re
import statistics
import struct
import sys
import tempfile
import time

from . import programs
from .workers import Worker, WorkerError, run_once

LONG = 2.5  # seconds of a round of one row

PEERS = pathlib.Path(__file__).resolve().parent.parent / "peers"


class Side:
    """Our programs on one WebGPU implementation."""

    def __init__(self, folder, launch, min_time, env):
        self.folder, self.launch, self.env = pathlib.Path(folder).resolve(), launch, env
        self.workers, self.missing = {}, {}
        self.entries = []  # (program, benchmark, Place)
        self.hello = None
        for program, place in programs.PROGRAMS.items():
            path = self.folder / f"weft_bench_{program}"
            if not path.exists():
                self.missing[program] = f"no {path.name} among the programs"
                continue
            worker = Worker(program, [*launch, str(path), "--serve", f"--benchmark_min_time={min_time}"], env)
            try:
                worker.start()
            except WorkerError as e:
                self.missing[program] = str(e)
                continue
            self.workers[program] = worker
            self.hello = self.hello or {k: v for k, v in worker.hello.items() if k != "rows"}
            for name in worker.hello["rows"]:
                short = re.sub(r"/(real_time|manual_time|iterations:\d+)", "", name)
                if short != "control":
                    self.entries.append((program, name, place(short)))

    def control(self, program):
        worker = self.workers[program]
        name = next(n for n in worker.hello["rows"] if n.startswith("control/"))
        return each(worker.request(name, 60))

    def close(self):
        for worker in self.workers.values():
            worker.close()


def is_cpu(folder, launch, env):
    """Whether the device is a CPU: asked of the first program that answers, since programs are started accordingly."""
    for program in programs.PROGRAMS:
        path = pathlib.Path(folder).resolve() / f"weft_bench_{program}"
        worker = Worker(program, [*launch, str(path), "--serve"], env)
        try:
            if path.exists():
                worker.start()
                return worker.hello["cpu"]
        except WorkerError:
            continue
        finally:
            worker.close()
    return False


def each(reply):
    """Seconds of one op."""
    rate = reply.get("counters", {}).get("items_per_second")
    return 1 / rate if rate else reply["seconds"]


def work_of(reply):
    """What one op reads and writes and calculates, where the program told."""
    counters = reply.get("counters", {})
    rest = {k: v for k, v in counters.items() if k not in ("items_per_second", "bytes_per_second", "FLOP/s")}
    if "FLOP/s" in counters:
        rest["flop"] = counters["FLOP/s"] * each(reply)
    if "bytes_per_second" in counters:
        rest["bytes"] = counters["bytes_per_second"] * each(reply)
    return rest


class Entry:
    """One figure in the making: `who` in `row`, by one worker; of one side, or of a peer for all sides."""

    def __init__(self, row, who, side, worker, name):
        self.row, self.who, self.side, self.worker, self.name = row, who, side, worker, name
        self.seconds, self.work, self.error, self.longest = [], {}, None, 0

    def run(self, limit):
        """One round, unless the row failed, or is so long that two rounds are enough."""
        if self.error or self.longest > LONG and len(self.seconds) >= 2:
            return
        begin = time.monotonic()
        try:
            reply = self.worker.request(self.name, limit)
            self.seconds.append(each(reply))
            self.work = work_of(reply)
        except WorkerError as e:
            self.error = str(e)
        self.longest = max(self.longest, time.monotonic() - begin)

    def result(self):
        if self.error:
            return {"error": self.error}
        q = statistics.quantiles(self.seconds, n=4, method="inclusive") if len(self.seconds) > 1 else [self.seconds[0]] * 3
        return {"us": statistics.median(self.seconds) * 1e6, "spread": (q[2] - q[0]) / q[1], "rounds_us": [s * 1e6 for s in self.seconds],
                **{k: v for k, v in self.work.items() if k not in ("flop", "bytes")}}


class Session:
    def __init__(self, args, sides, env):
        self.args, self.sides, self.env = args, sides, env
        self.cpu = all(side.hello["cpu"] for side in sides)
        self.started = time.time()
        self.controls = {id(side): [] for side in sides}  # (match, round, seconds)
        self.peers, self.peer_errors = {}, {}
        self.load = [os.getloadavg()[0]]

    # -- peers ------------------------------------------------------------------------------------------------------

    def start_peers(self):
        launch = self.sides[0].launch
        for name, how in programs.PEERS.items():
            if how["on"] not in ("any", "cpu" if self.cpu else "gpu"):
                continue
            if "binary" in how:
                found = next((p for p in [pathlib.Path(b) / how["binary"] for b in self.args.peer_bin] if p.exists()), None)
                if found is None:
                    self.peer_errors[name] = f"{how['binary']} was not built"
                    continue
                command = [str(found.resolve())]
            else:
                python = python_with(how["needs"], self.args.peer_python, self.env)
                if python is None:
                    self.peer_errors[name] = f"no Python here has {', '.join(how['needs'])}"
                    continue
                command = [python, str(PEERS / how["python"])]
            # A peer that is a program of its own needs no loader of ours; Debian 12's lavapipe does (see __main__).
            prefix = self.args.peer_launch if self.args.peer_launch is not None else launch
            command = [*(prefix if how["webgpu"] else []), *command, "--min-time", str(self.args.min_time), *(["--cpu"] if self.cpu else [])]
            worker = Worker(name, command, self.env)
            try:
                worker.start()
                self.peers[name] = worker
            except WorkerError as e:
                self.peer_errors[name] = str(e)

    # -- matches ------------------------------------------------------------------------------------------------------

    def matches(self):
        """match -> entries, ours first, in the order of the programs' own lists."""
        large = self.args.large or not self.cpu
        wanted = re.compile(self.args.filter)
        out, rows_of = {}, {}
        for side in self.sides:
            for program, name, place in side.entries:
                if place.large and not large or place.full and self.args.quick or not wanted.search(place.row):
                    continue
                out.setdefault(place.match, []).append(Entry(place.row, place.who, side, side.workers[program], name))
                out[place.match][-1].program = program
                rows_of.setdefault(place.row, place.match)
        for name, worker in self.peers.items():
            for told in worker.hello["rows"]:
                row, _, variant = told.partition("#")
                if row in rows_of:
                    who = f"{name} {variant}" if variant else name
                    out[rows_of[row]].append(Entry(row, who, None, worker, told))
        for entries in out.values():  # all that run one row side by side, so that little time lies between them
            order = list(dict.fromkeys(e.row for e in entries))
            entries.sort(key=lambda e: order.index(e.row))
        return out

    def run(self, results):
        matches = self.matches()
        saved = time.monotonic()
        for at, (match, entries) in enumerate(matches.items()):
            if self.out_of_time():
                results.note(f"stopped after {self.args.minutes} minutes: {len(matches) - at} of {len(matches)} matches were not run")
                break
            self.run_match(match, entries)
            for entry in entries:
                for side in self.sides if entry.side is None else [entry.side]:
                    results.add(side, entry, self.flags(match, side))
            print(summary(f"{at + 1}/{len(matches)} {match}", entries), flush=True)
            self.load.append(os.getloadavg()[0])
            if time.monotonic() - saved > 30:
                results.save(self)
                saved = time.monotonic()

    def out_of_time(self):
        return self.args.minutes is not None and time.time() - self.started > self.args.minutes * 60

    def run_match(self, match, entries):
        begin = time.monotonic()
        for r in range(self.args.rounds):
            for side in self.sides:
                program = next((e.program for e in entries if e.side is side), None)
                try:
                    self.controls[id(side)].append((match, r, side.control(program)) if program else None)
                except WorkerError:
                    pass  # the row itself then says what is wrong
            turn = r % len(entries)
            for entry in entries[turn:] + entries[:turn]:
                entry.run(self.args.row_limit)
            took = time.monotonic() - begin
            if r >= 2 and took > 10 or r >= 1 and took > 40 or took > 90:
                break  # long rows: fewer rounds

    def control_median(self, side):
        values = [c[2] for c in self.controls[id(side)] if c]
        return statistics.median(values) if values else None

    def flags(self, match, side):
        """A function of the run's end: rounds of this match whose control was off by more than the share."""
        def found():
            middle = self.control_median(side)
            share = self.args.control_share
            return [c[1] for c in self.controls[id(side)] if c and c[0] == match and not 1 / (1 + share) < c[2] / middle < 1 + share]
        return found

    # -- whole processes ----------------------------------------------------------------------------------------------

    def run_one_shots(self, results):
        wanted = re.compile(self.args.filter)
        shots = [s for s in programs.ONE_SHOTS if wanted.search(s.row)]
        if not shots:
            return
        if self.out_of_time():
            results.note("no time was left for whole processes")
            return
        for side in self.sides:
            entries = [Entry(s.row, s.who, side, None, s.program) for s in shots]
            with tempfile.TemporaryDirectory() as folder:
                array = write_array(f"{folder}/array.npy", [1.0, 2.0, 3.0, 4.0])
                for r in range(self.args.rounds):
                    for i, (shot, entry) in enumerate(zip(shots, entries)):
                        env = dict(self.env)
                        if shot.caches == "none":
                            env |= {"WEFT_CACHE": "0", "MESA_SHADER_CACHE_DISABLE": "true"}
                        else:
                            env["XDG_CACHE_HOME"] = f"{folder}/{r}-{i if shot.caches == 'empty' else i - 1}"
                            os.makedirs(env["XDG_CACHE_HOME"], exist_ok=True)
                        self.one_shot(side, shot, entry, env, array)
            for entry in entries:
                results.add(side, entry, lambda: [])
            print(summary("whole processes", entries), flush=True)

    def one_shot(self, side, shot, entry, env, array):
        if entry.error:
            return
        path = side.folder / shot.program
        try:
            if not path.exists():
                raise WorkerError(f"no {path.name} among the programs")
            arguments = [a.format(array=array) for a in shot.arguments]
            out, _, took = run_once([*side.launch, str(path), *arguments], env, self.args.row_limit)
            if shot.take:
                took = shot.take(json.loads(out))
            entry.seconds.append(took)
        except (WorkerError, ValueError, KeyError) as e:
            entry.error = str(e)

    def run_in_blocks(self, results):
        """Rows eval/EXPRESSION: an evaluation of a large file in blocks, beside the slowest of its parts (in_blocks.cpp)."""
        if not re.search(self.args.filter, "eval/"):
            return
        if self.out_of_time():
            results.note("no time was left for evaluations in blocks")
            return
        size, seconds = ("192M", 15) if self.cpu else ("2G", 20)
        for side in self.sides:
            path = side.folder / "weft_bench_in_blocks"
            try:
                if not path.exists():
                    raise WorkerError(f"no {path.name} among the programs")
                with tempfile.TemporaryDirectory() as folder:
                    run_once([*side.launch, str(path), "--bytes", size,
                              "--dir", folder, "--seconds", str(seconds), "--json", f"{folder}/out.json"], self.env, 10 * self.args.row_limit)
                    with open(f"{folder}/out.json") as file:
                        found = json.load(file)["results"]
            except (WorkerError, OSError, ValueError) as e:
                entry = Entry("eval/in blocks", "weft", side, None, "")
                entry.error = str(e)
                results.add(side, entry, lambda: [])
                continue
            for expression, told in found.items():
                parts = {"disk": lambda s: max(s["read"], s["write"])}
                slowest = parts.get(told["slowest"], lambda s: s[told["slowest"]])
                for who, of in (("weft", lambda s: s["streamed"]), ("slowest part", slowest)):
                    entry = Entry(f"eval/{expression}", who, side, None, "")
                    entry.seconds = [of(s) for s in told["samples"]]
                    entry.work = {"part": told["slowest"]}
                    results.add(side, entry, lambda: [])
            print("evaluations in blocks: " + ", ".join(f"{e} {t['share_of_slowest']:.2f} of {t['slowest']}" for e, t in found.items()), flush=True)

    # -- Weft's Python package beside ONNX Runtime's --------------------------------------------------------------------

    def run_python_ops(self, results):
        """Rows python/NAME: one process that runs both in turns (peers/ort_ops.py), numpy arrays in and out."""
        if not re.search(self.args.filter, "python/"):
            return
        if self.out_of_time():
            results.note("no time was left for ops through Python")
            return
        how = programs.PEERS["onnxruntime"]
        for side in self.sides:
            package = next((p for p in (side.folder / "python", side.folder.parent / "python") if (p / "weft").is_dir()), None)
            python = python_with(how["needs"], self.args.peer_python, self.env)
            if package is None or python is None:
                self.peer_errors["python/ rows"] = "no Python package beside the programs" if package is None else "no Python here has " + ", ".join(how["needs"])
                continue
            path = os.pathsep.join([str(package), *filter(None, [self.env.get("PYTHONPATH")])])
            with tempfile.TemporaryDirectory() as folder:
                command = [*side.launch, python, str(PEERS / "ort_ops.py"), "--rounds", str(self.args.rounds), "--out", f"{folder}/out.json"]
                try:
                    run_once(command, {**self.env, "PYTHONPATH": path}, 10 * self.args.row_limit)
                    with open(f"{folder}/out.json") as file:
                        rows = json.load(file)["rows"]
                except (WorkerError, OSError, ValueError) as e:
                    self.peer_errors["python/ rows"] = str(e)
                    continue
            for name, times in rows.items():
                for who in ("weft", "onnxruntime"):
                    entry = Entry(f"python/{name}", who, side, None, name)
                    entry.seconds, entry.error = times.get(who, []), times.get("error")
                    results.add(side, entry, lambda: [])
            print(f"python/: {len(rows)} ops beside ONNX Runtime's on {side.hello['implementation']}", flush=True)

    def close(self):
        for worker in self.peers.values():
            worker.close()
        for side in self.sides:
            side.close()


def write_array(path, values):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(values)},), }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}f", *values))
    return path


def python_with(needs, candidates, env):
    for python in [*candidates, sys.executable]:
        if not os.path.exists(python):
            continue
        try:
            run_once([python, "-c", "; ".join(f"import importlib.util as u; assert u.find_spec('{n}')" for n in needs)], env, 30)
            return python
        except (WorkerError, OSError):
            continue
    return None


def time_text(seconds):
    for unit, size in (("s", 1), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.2g} s"


def summary(name, entries):
    parts = []
    for e in entries:
        where = f"{e.row} " if e.row not in name else ""
        parts.append(f"{where}{e.who} " + (f"failed ({e.error[:60]})" if e.error else time_text(statistics.median(e.seconds))))
    return f"{name}: " + ", ".join(parts)
