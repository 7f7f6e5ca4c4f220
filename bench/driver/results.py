"""bench/results/DEVICE-IMPLEMENTATION.json: what one run adds, and what the report reads.

rows: {ROW: {"flop", "bytes" (of one op), "by": {WHO: {"us", "spread", "rounds_us", "run", "flagged"} or {"error", "run"}}}}
runs: {RUN: who took part and how it went}. Figures of two runs are never set against each other.
"""
import json
import os
import pathlib
import platform
import re
import statistics
import time

SCHEMA = 2
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "bench" / "results"


def device_name(adapter):
    """llvmpipe (LLVM 15.0.6, 256 bits) -> llvmpipe"""
    return re.sub("[^a-z0-9]+", "-", re.sub(r"\(.*", "", adapter).lower()).strip("-")


def dumps(data):
    """One row a line, so that a diff shows rows."""
    lines = []
    for key in ("schema", "context"):
        lines.append(f" {json.dumps(key)}: {json.dumps(data[key], sort_keys=True)}")
    for key in ("runs", "rows"):
        inner = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v, sort_keys=True)}" for k, v in sorted(data[key].items()))
        lines.append(f" {json.dumps(key)}: {{\n{inner}\n }}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, list):
        return [rounded(v) for v in value]
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    return value


class Results:
    def __init__(self, session, options, folder=FOLDER):
        self.run = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(session.started))
        self.options, self.notes, self.added, self.folder = options, [], [], pathlib.Path(folder)
        self.whole = not session.args.quick and session.args.filter == "."
        self.finished = False
        self.kept = {}
        for side in session.sides:
            path = self.path(side)
            old = json.loads(path.read_text()) if path.exists() else {}
            self.kept[id(side)] = old if old.get("schema") == SCHEMA else {}

    def path(self, side):
        return self.folder / f"{device_name(side.hello['adapter'])}-{side.hello['implementation']}.json"

    def note(self, text):
        self.notes.append(text)

    def add(self, side, entry, flags):
        self.added.append((side, entry, flags))

    def data(self, session, side):
        # Rows that this run did not measure stay, with the run that they are of, until a whole one has come to its end.
        old = {} if self.whole and self.finished and not self.notes else self.kept[id(side)]
        rows = {name: {**row, "by": dict(row["by"])} for name, row in old.get("rows", {}).items()}
        for of, entry, flags in self.added:
            if of is not side:
                continue
            row = rows.setdefault(entry.row, {"by": {}})
            found = {**entry.result(), "run": self.run}
            if "us" in found and (flagged := flags()):
                found["flagged"] = flagged
            row["by"][entry.who] = found
            if entry.side is not None:
                row.update({k: entry.work[k] for k in ("flop", "bytes") if k in entry.work})
        controls = [c for c in session.controls[id(side)] if c]
        run = {"rounds": session.args.rounds, "min_time_s": session.args.min_time, "options": self.options, "notes": self.notes,
               "load": [session.load[0], max(session.load)], "minutes": (time.time() - session.started) / 60,
               "peers": {n: {k: v for k, v in w.hello.items() if k != "rows"} for n, w in session.peers.items()},
               "absent": {**session.peer_errors, **{f"weft_bench_{p}": why for p, why in side.missing.items()}}}
        if controls:
            middle = session.control_median(side)
            q = statistics.quantiles([c[2] for c in controls], n=4, method="inclusive") if len(controls) > 1 else [middle] * 3
            share = session.args.control_share
            off = sum(not 1 / (1 + share) < c[2] / middle < 1 + share for c in controls)
            run["control"] = {"us": middle * 1e6, "spread": (q[2] - q[0]) / middle, "share": share, "rounds": len(controls), "flagged": off}
        runs = {**old.get("runs", {}), self.run: run}
        used = {f["run"] for row in rows.values() for f in row["by"].values()}
        hello = side.hello
        context = {"adapter": hello["adapter"], "driver": hello["driver"], "webgpu": hello["webgpu"], "weft": hello["version"],
                   "cpu": hello["cpu"], "cores": os.cpu_count(), "machine": platform.machine(), "date": self.run[:10],
                   "implementation": hello["implementation"]}
        return rounded({"schema": SCHEMA, "context": context, "runs": {r: v for r, v in runs.items() if r in used or r == self.run}, "rows": rows})

    def save(self, session):
        self.folder.mkdir(parents=True, exist_ok=True)
        written = []
        for side in session.sides:
            path = self.path(side)
            partial = path.with_suffix(".tmp")
            partial.write_text(dumps(self.data(session, side)))
            os.replace(partial, path)
            written.append(path)
        return written


class Device:
    """One file, read: the figures of one device and implementation."""

    def __init__(self, path):
        data = json.loads(pathlib.Path(path).read_text())
        if data.get("schema") != SCHEMA:
            raise ValueError(f"{path} is of another schema. Fix: measure again with script/bench.")
        self.path, self.context, self.runs, self.rows = pathlib.Path(path), data["context"], data["runs"], data["rows"]
        self.cpu = self.context["cpu"]
        self.implementation = self.context["implementation"]
        self.name = device_name(self.context["adapter"])

    def figure(self, row, who="weft"):
        """The figure, or None when it was not measured or failed."""
        found = self.rows.get(row, {}).get("by", {}).get(who)
        return found if found and "us" in found else None

    def error(self, row, who="weft"):
        return self.rows.get(row, {}).get("by", {}).get(who, {}).get("error")

    def seconds(self, row, who="weft"):
        found = self.figure(row, who)
        return found["us"] * 1e-6 if found else None

    def rate(self, row, unit, who="weft"):
        """FLOP or bytes a second."""
        seconds, work = self.seconds(row, who), self.rows.get(row, {}).get(unit)
        return work / seconds if seconds and work else None

    def ratio(self, row, above, below, below_row=None):
        """Time of `above` over time of `below`: the median over rounds that both ran side by side."""
        a, b = self.figure(row, above), self.figure(below_row or row, below)
        if not a or not b or a["run"] != b["run"]:
            return None
        return statistics.median(x / y for x, y in zip(a["rounds_us"], b["rounds_us"]))


def load_all(folder=FOLDER):
    return [Device(p) for p in sorted(pathlib.Path(folder).glob("*.json"))]
