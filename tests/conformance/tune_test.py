"""weft tune as a person meets it: what it prints, what it leaves on disk, and that other commands then use it.

Tiny shapes and budgets: what is found is no matter here, that it is right and kept is. WEFT_CLI is the built command,
WEFT_LAUNCHER what to start it behind (a Dawn build needs its loader). Issue 8, point 3.
"""

import json
import os
import pty
import shlex
import subprocess

import numpy as np
import pytest

CLI = shlex.split(os.environ.get("WEFT_LAUNCHER", "")) + [os.environ["WEFT_CLI"]]


@pytest.fixture
def weft(tmp_path):
    """Runs the command with a cache of its own."""
    base = {k: v for k, v in os.environ.items() if k not in ("WEFT_CACHE", "WEFT_CACHE_BYTES", "WEFT_TUNE")}
    base |= {"XDG_CACHE_HOME": str(tmp_path / "cache"), "MESA_SHADER_CACHE_DISABLE": "true"}

    def run(*args, env=None):
        return subprocess.run([*CLI, *map(str, args)], cwd=tmp_path, env={**base, **(env or {})}, capture_output=True,
                              text=True, timeout=240, stdin=subprocess.DEVNULL)

    run.env = base
    run.tables = lambda: [p for p in (tmp_path / "cache/weft/tuning").rglob("*") if p.is_file() and p.suffix != ".lock"]
    return run


def runs(result):
    """What is the same for each kind of device: one, or two on Dawn."""
    out = json.loads(done(result))
    assert len(out["runs"]) in (1, 2) and [r["library_kernels_only"] for r in out["runs"]] == [False, True][:len(out["runs"])]
    return out["runs"]


def tables(result):
    return [t["choices"] for t in json.loads(done(result))["tables"]]


SMALL = ["tune", "--ops", "matmul", "--dtypes", "float32", "--shapes", "32x32x32", "--budget", "60"]


def done(result):
    assert result.returncode == 0, result.stderr
    return result.stdout


def failed(result):
    assert result.returncode == 2, (result.stdout, result.stderr)
    assert result.stdout == ""
    assert result.stderr.startswith("weft: ") and result.stderr.count("Fix: ") == 1, result.stderr
    return result.stderr


def test_tunes_keeps_lists_uses_and_clears(weft, tmp_path):
    assert "0 stored choices" in done(weft("tune", "--list"))
    assert "0 stored choices of kernels for it; weft tune makes them" in done(weft("info"))
    result = weft(*SMALL)
    assert result.stderr == ""
    out = done(result)
    kinds = out.count("matmul float32 32x32x32")
    assert kinds in (1, 2) and out.count("1 shape in ") == kinds and out.count("; 0 had a choice") == kinds
    assert len(weft.tables()) == kinds

    listed = tables(weft("tune", "--list", "--json"))
    assert [len(t) for t in listed] == [1] * kinds
    assert all(t[0]["key"].startswith("matmul float32 ") for t in listed)
    assert "1 stored choice of kernels" in done(weft("info"))
    assert json.loads(done(weft("info", "--json")))["tuned_choices"] == 1

    for run in runs(weft(*SMALL, "--json")):
        assert run["results"] == [] and run["stored_before"] == 1
    for run in runs(weft(*SMALL, "--json", "--again")):
        row, = run["results"]
        assert row["failures"] == [] and row["candidates"] >= 2
        assert 0 < row["seconds"] <= row["default_seconds"]

    # Every program of this device reads it; off means off.
    assert json.loads(done(weft("info", "--json", env={"WEFT_TUNE": "off"})))["tuned_choices"] == 0
    assert "WEFT_TUNE" in failed(weft("info", "--json", env={"WEFT_TUNE": "yes"}))
    assert done(weft("tune", "--clear")).count("1 choice forgotten\n") == kinds
    assert weft.tables() == []
    assert [t["forgotten"] for t in json.loads(done(weft("tune", "--clear", "--json")))["tables"]] == [0] * kinds
    assert "0 stored choices" in done(weft("tune", "--list"))


def test_results_stay_right_with_choices(weft, tmp_path):
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((60, 70)).astype("f4"), rng.standard_normal((70, 50)).astype("f4")
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "w.npy", w)
    done(weft("tune", "--ops", "matmul", "--dtypes", "float32", "--shapes", "64x64x64", "--budget", "60"))
    plan = tables(weft("tune", "--list", "--json"))[-1][0]["plan"]  # weft eval's device is the last kind
    shown = json.loads(done(weft("eval", "x @ w", "x=x.npy", "w=w.npy", "-o", "out.npy", "--json")))
    assert shown["stats"]["tuned_ops"] == (0 if plan == "default" else 1)
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), x.astype("f8") @ w, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("op, shape", [("conv", "1x4x8x8x4x3"), ("attention", "1x2x2x1x128x16"), ("rows", "4x4096t"),
                                       ("reduce", "4x8192t")])
def test_tunes_every_op(weft, op, shape):
    for run in runs(weft("tune", "--ops", op, "--dtypes", "float32", "--shapes", shape, "--budget", "120", "--json")):
        row, = run["results"]
        assert row["op"] == op and row["key"].startswith(f"{op} float32 ")
        assert row["failures"] == [] and row["candidates"] >= 2
        assert 0 < row["seconds"] <= row["default_seconds"]
    assert all(len(t) == 1 for t in tables(weft("tune", "--list", "--json")))


def test_nothing_is_kept_when_it_may_not_be(weft):
    assert "nothing was kept" in done(weft(*SMALL, "--dry-run"))
    assert weft.tables() == []
    assert "WEFT_CACHE" in failed(weft(*SMALL, env={"WEFT_CACHE": "0"}))
    assert all(len(r["results"]) == 1 for r in runs(weft(*SMALL, "--dry-run", "--json", env={"WEFT_CACHE": "0"})))
    assert weft.tables() == []


def test_damage_is_dropped(weft):
    done(weft(*SMALL))
    good = {table: table.read_bytes() for table in weft.tables()}
    for table, data in good.items():
        table.write_bytes(data[:-1] + b"?")
    assert not any(tables(weft("tune", "--list", "--json")))
    assert weft.tables() == []
    for table, data in good.items():
        table.write_bytes(data)
    assert all(len(t) == 1 for t in tables(weft("tune", "--list", "--json")))


def test_the_budget_ends_it(weft):
    for run in runs(weft("tune", "--ops", "conv", "--budget", "0.001", "--json")):
        assert run["left"] > 0 and run["results"] == []


@pytest.mark.parametrize("args", [["--ops", "softmin"], ["--shapes", "1x1x1"], ["--ops", "matmul", "--shapes", "1x1"],
                                  ["--dtypes", "float99"], ["--budget", "0"], ["--budget", "nan"], ["--list", "--clear"],
                                  ["--list", "--ops", "matmul"], ["--clear", "--dry-run"], ["--ops"], ["--budget", "x"]])
def test_refuses(weft, args):
    failed(weft("tune", *args))


def test_says_when_a_shape_has_one_kernel_alone(weft):
    args = ["tune", "--ops", "matmul", "--dtypes", "float32", "--shapes", "2x2x2", "--dry-run"]
    assert "0 shapes in " in (out := done(weft(*args))) and "; 1 with one kernel alone; 0 left" in out
    assert [run["without_choice"] for run in runs(weft(*args, "--json"))] == [1] * out.count("0 shapes in ")


def test_the_progress_bar_is_for_terminals_and_goes(weft):
    """On a terminal a bar stands while it runs, and is cleared at the end; stdout has the table alone."""
    leader, follower = pty.openpty()
    process = subprocess.Popen([*CLI, "tune", "--ops", "conv", "--dtypes", "float32", "--shapes", "1x64x56x56x64x3",
                                "--budget", "120", "--dry-run"], env=weft.env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=follower)
    os.close(follower)
    seen = b""
    while True:
        try:
            piece = os.read(leader, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        seen += piece
    os.close(leader)
    out = process.stdout.read()
    assert process.wait(timeout=60) == 0
    assert b"\x1b" not in out and b"conv float32 1x64x56x56x64x3" in out
    text = seen.decode()
    assert "0 of 1" in text and " s, conv float32 1x64" in text and "[" in text
    assert text.endswith("\r\x1b[2K")
