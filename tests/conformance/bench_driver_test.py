"""The driver of script/bench against programs that misbehave: what a row, a verdict and the page then say.

The programs here are scripts that speak the protocol of bench/bench_main.h; no device is needed.
Issue 8, point 1.
"""
import json
import pathlib
import subprocess
import sys
import time
import xml.etree.ElementTree

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.driver import plots, report, svg, targets  # noqa: E402
from bench.driver.results import Device, device_name  # noqa: E402

PROGRAM = """#!{python}
import json, os, sys, time
if sys.argv[1:2] != ["--serve"]:
    sys.exit("no served program")
say = lambda line: print(json.dumps(line), flush=True)
say({{"worker": "weft", "version": "1", "webgpu": "fake 1", "implementation": "fake", "adapter": "Fake GPU (2)", "driver": "d",
     "cpu": {cpu}, "rows": ["control/iterations:4/real_time"] + [r + "/real_time" for r in {rows}]}})
controls = 0
for line in sys.stdin:
    row = line.strip().removesuffix("/real_time")
    if row.startswith("control"):
        controls += 1
        say({{"row": row, "seconds": 1e-3 * (4 if controls == 2 else 1)}})
    elif "relu_read" in row:
        time.sleep(600)
    elif "peak" in row:
        sys.stderr.write("first\\nthe card caught fire\\n")
        os._exit(3)
    elif "in/" in row:
        say({{"row": row, "error": "the device lacks f16"}})
    else:
        say({{"row": row, "seconds": 8e-6, "counters": {{"items_per_second": 5e5, "FLOP/s": 1e12}}}})
"""


@pytest.fixture
def run(tmp_path):
    """run(rows of weft_bench_ops, *arguments): the written JSON, and what was said."""
    def start(rows, *arguments, cpu=False, check=True):
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        program = folder / "weft_bench_ops"
        program.write_text(PROGRAM.format(python=sys.executable, rows=json.dumps(rows), cpu=cpu))
        program.chmod(0o755)
        out = tmp_path / "results"
        done = subprocess.run([sys.executable, "-m", "bench.driver", "--bin", str(folder), "--out", str(out), "--no-peers", *arguments], cwd=ROOT,
                              capture_output=True, text=True, timeout=120)
        if not check:
            return done
        assert done.returncode == 0, done.stderr
        return json.loads((out / "fake-gpu-fake.json").read_text()), done.stdout
    return start


def test_rounds_and_medians(run):
    data, said = run(["matmul/f32_256", "matmul/f32_512"], "--rounds", "4", "--filter", "matmul")
    assert set(data["rows"]) == {"matmul/f32_256", "matmul/f32_512"}
    row = data["rows"]["matmul/f32_256"]
    # One op is what the items say, not the iteration; its work follows from the rate.
    assert row["by"]["weft"]["us"] == pytest.approx(2) and row["by"]["weft"]["rounds_us"] == pytest.approx([2] * 4)
    assert row["flop"] == pytest.approx(2e6)
    (run_id, about), = data["runs"].items()
    assert row["by"]["weft"]["run"] == run_id
    assert about["absent"]["weft_bench_layers"] == "no weft_bench_layers among the programs"
    assert "matmul/f32_512" in said


def test_control_flags_its_round(run):
    data, _ = run(["matmul/f32_256", "matmul/f32_512"], "--rounds", "3", "--filter", "matmul")
    assert data["rows"]["matmul/f32_256"]["by"]["weft"]["flagged"] == [1]
    assert "flagged" not in data["rows"]["matmul/f32_512"]["by"]["weft"]
    control, = (r["control"] for r in data["runs"].values())
    assert control["flagged"] == 1 and control["rounds"] == 6 and control["share"] == 0.1


def test_failures_are_rows_that_say_why(run):
    start = time.monotonic()
    data, said = run(["peak/f32", "relu_read/4096", "in/add/4", "matmul/f32_256"], "--rounds", "2", "--row-limit", "5",
                     "--filter", "peak|relu_read|in/|matmul")
    assert time.monotonic() - start < 100  # not the 600 s that one row would take
    reason = {row: r["by"]["weft"].get("error") for row, r in data["rows"].items()}
    assert reason["peak/f32"] == "ended with status 3: the card caught fire"
    assert reason["relu_read"] == "no answer within 5 s; stopped"
    assert reason["in/add/4"] == "the device lacks f16"
    assert reason["matmul/f32_256"] is None and data["rows"]["matmul/f32_256"]["by"]["weft"]["us"] == pytest.approx(2)
    assert "failed (the card caught fire" in said or "failed (ended with status 3" in said


def test_no_process_stays(run, tmp_path):
    run(["relu_read/4096"], "--rounds", "1", "--row-limit", "1", "--filter", "relu_read")
    left = [p for p in pathlib.Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path).encode() in read(p)]
    assert left == []


def read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_partial_run_keeps_other_rows(run):
    run(["matmul/f32_256", "matmul/f32_512"], "--rounds", "1", "--filter", "256")
    time.sleep(1.1)  # runs are named by the second
    data, _ = run(["matmul/f32_256", "matmul/f32_512"], "--rounds", "1", "--filter", "512")
    assert set(data["rows"]) == {"matmul/f32_256", "matmul/f32_512"} and len(data["runs"]) == 2
    runs = {r["by"]["weft"]["run"] for r in data["rows"].values()}
    assert runs == set(data["runs"])


def test_a_run_that_ran_out_of_time_drops_nothing(run):
    run(["matmul/f32_256", "matmul/f32_512"], "--rounds", "1")
    time.sleep(1.1)
    data, _ = run(["matmul/f32_256"], "--rounds", "1", "--minutes", "0")
    assert {"matmul/f32_256", "matmul/f32_512"} <= set(data["rows"])
    assert any("stopped after 0" in n for r in data["runs"].values() for n in r["notes"])
    time.sleep(1.1)
    data, _ = run(["matmul/f32_256"], "--rounds", "1")
    assert "matmul/f32_512" not in data["rows"] and len(data["runs"]) == 1


def test_absent_whole_processes_are_told(run):
    data, _ = run(["matmul/f32_256"], "--rounds", "1", "--filter", "^start$")
    assert data["rows"]["start"]["by"]["bare"]["error"] == "no weft_bench_bare_start among the programs"
    assert data["rows"]["start"]["by"]["weft"]["error"] == "no weft among the programs"


def test_bad_arguments(run, tmp_path):
    nothing = run([], "--launch", "env", "--launch", "env", check=False)
    assert nothing.returncode == 1 and "Fix:" in nothing.stderr
    (tmp_path / "none").mkdir()
    done = subprocess.run([sys.executable, "-m", "bench.driver", "--bin", str(tmp_path / "none")], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1 and "no weft_bench_bandwidth" in done.stderr and "Fix:" in done.stderr


def device(tmp_path, rows, name="NVIDIA H200", implementation="dawn", cpu=False):
    path = tmp_path / f"{device_name(name)}-{implementation}.json"
    by = lambda figures: {w: {"us": sorted(us)[len(us) // 2], "spread": 0, "rounds_us": us, "run": run} for w, (us, run) in figures.items()}
    path.write_text(json.dumps({
        "schema": 2, "runs": {"r": {"rounds": 3, "notes": [], "load": [0, 0], "peers": {}, "absent": {}}},
        "context": {"adapter": name, "driver": "d", "webgpu": "w", "weft": "1", "cpu": cpu, "cores": 2, "implementation": implementation},
        "rows": {row: {**work, "by": by(figures)} for row, (work, figures) in rows.items()}}))
    return Device(path)


def find(key, d):
    return next(t for t in targets.TARGETS if t.key == key and t.applies(d))


@pytest.mark.parametrize("us, reached", [(100, True), (1000, False)])
def test_verdicts_follow_from_the_data(tmp_path, us, reached):
    d = device(tmp_path, {"matmul/f32_4096": ({"flop": 1e9}, {"weft": ([us] * 3, "r"), "pytorch": ([90, 95, 900], "r")})})
    t = find("gemm-f32", d)
    assert t.reached(t.figure(d)) == reached
    assert t.figure(d).value == pytest.approx(95 / us)
    text = report.targets([d], {"gemm-f32": "Bound by\nthat."})
    line = next(l for l in text.splitlines() if l.startswith("| product float32 4096³, of cuBLAS"))
    assert ("**reached**" in line) == reached and ("missed" in line) != reached
    assert ("Bound by that." in text) != reached
    assert "not measured (rows)" in text  # what the file lacks is told, not passed over


def test_ratios_pair_rounds_and_never_runs(tmp_path):
    d = device(tmp_path, {"a": ({}, {"weft": ([1, 2, 4], "r"), "raw": ([2, 4, 40], "r"), "numpy": ([1, 1, 1], "another")})})
    assert d.ratio("a", "raw", "weft") == 2
    assert d.ratio("a", "numpy", "weft") is None


def test_every_target_has_a_figure_or_none(tmp_path):
    empty = device(tmp_path, {})
    assert all(t.figure(empty) is None for t in targets.TARGETS)
    keys = {(t.key, t.on) for t in targets.TARGETS}
    assert len(keys) == len(targets.TARGETS)
    assert set(report.bounds()) <= {t.key for t in targets.TARGETS}


def test_plots_are_svg_without_overlapping_labels(tmp_path):
    panel = svg.Panel("p", svg.Axis("x", 1, 100), svg.Axis("y", 1, 100))
    for i in range(12):
        panel.point(i % 2, 10 + i / 10, 10 + i / 5, f"label <{i}>")
    text = svg.figure("t & t", "s", {0: "a", 1: "b"}, [panel])
    root = xml.etree.ElementTree.fromstring(text)
    labels = [t for t in root.iter("{http://www.w3.org/2000/svg}text") if (t.text or "").startswith("label")]
    assert len(labels) == 12
    boxes = []
    for t in labels:
        x, y, w = float(t.get("x")), float(t.get("y")), svg.width_of(t.text, 11.5)
        left = x - {"start": 0, "end": w, "middle": w / 2}[t.get("text-anchor")]
        boxes.append((left, y - 11, left + w, y + 3))
    assert not any(svg.overlap(a, b) for i, a in enumerate(boxes) for b in boxes[:i])
    d = device(tmp_path, {"matmul/f32_256": ({"flop": 1e9}, {"weft": ([5], "r")}), "copy/16": ({"bytes": 1e6}, {"weft": ([5], "r")})})
    made = plots.write([d], tmp_path / "plots")
    assert "gemm" in made["nvidia-h200"]
    for path in made["nvidia-h200"].values():
        xml.etree.ElementTree.parse(path)


def test_committed_results_are_read():
    for path in (ROOT / "bench" / "results").glob("*.json"):
        d = Device(path)
        assert d.rows and d.context["adapter"]
