"""`weft eval` over files larger than the memory it may use: what runs in blocks, what is refused, what is left on disk.

Issue 8, point 4. Values are stream_test.py's part.
"""

import json
import os
import resource
import signal
import subprocess
import time

import numpy as np
import pytest

from cli_test import CLI, done, failed, load, on_a_terminal, weft


@pytest.fixture
def box(tmp_path):
    rng = np.random.default_rng(5)
    np.save(tmp_path / "x.npy", rng.standard_normal((2000, 50)).astype("f4"))
    np.save(tmp_path / "w.npy", rng.standard_normal((50, 20)).astype("f4"))
    return tmp_path


def sparse(path, rows, columns=1024):
    """An array of zeros that takes no room on the disk."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
        f.truncate(f.tell() + rows * columns * 4)


def stats(result):
    return json.loads(done(result))["stats"]


def files(box):
    return {f for f in os.listdir(box) if f not in ("x.npy", "w.npy", "big.npy")}


def test_what_fits_runs_at_once(box):
    assert stats(weft("eval", "x * 2", "x=x.npy", "-o", "out.npy", "--json", cwd=box))["blocks"] == 0


def test_what_is_past_the_memory_runs_in_blocks(box):
    x = load(box, "x.npy")
    for extra, env in [(["--memory", "300K"], {}), ([], {"WEFT_MEMORY_BYTES": "300K"}), (["--stream", "--block-bytes", "50K"], {})]:
        s = stats(weft("eval", "x * 2 + 1", "x=x.npy", "-o", "out.npy", "--json", *extra, cwd=box, env=env))
        assert s["blocks"] > 2 and s["block_passes"] == 1
        assert s["bytes_streamed"] == 2 * x.nbytes and s["bytes_uploaded"] == x.nbytes == s["bytes_read"]
        np.testing.assert_array_equal(load(box), x * 2 + 1)
        assert files(box) == {"out.npy"}
    s = stats(weft("eval", "x * 2 + 1", "x=x.npy", "-o", "out.npy", "--json", "--memory", "300K", cwd=box))
    assert s["peak_bytes"] <= 400_000


def test_results_without_a_file_are_printed(box):
    for text in ["x * 2", "max(x, 0)", "(x @ w).max()"]:
        words = ["eval", text, "x=x.npy", *(["w=w.npy"] if "w" in text else [])]
        assert done(weft(*words, "--stream", "--block-bytes", "50K", cwd=box)) == done(weft(*words, cwd=box))


def test_stats_tell_of_blocks(box):
    result = weft("eval", "x - mean(x, 0)", "x=x.npy", "-o", "out.npy", "--memory", "300K", "--stats", cwd=box)
    assert result.returncode == 0
    assert "blocks and 2 passes" in result.stderr


def test_a_device_writes_in_order(box):
    done(weft("eval", "x * 2", "x=x.npy", "-o", "out.npy", cwd=box))
    for place in ["/dev/stdout", "-"]:
        result = subprocess.run([*CLI, "eval", "x * 2", "x=x.npy", "-o", place, "--stream", "--block-bytes", "50K"], cwd=box,
                                capture_output=True)
        assert result.returncode == 0, result.stderr
        assert result.stdout == (box / "out.npy").read_bytes()
    assert files(box) == {"out.npy"}
    assert "both go to the standard output" in failed(weft("eval", "x * 2", "x=x.npy", "-o", "-", "--json", cwd=box))


def test_refusals_come_before_any_work(box):
    message = failed(weft("eval", "cumsum(x, 0) + cumsum(x, 1)", "x=x.npy", "-o", "out.npy", "--memory", "300K", cwd=box))
    assert "can't be evaluated in blocks" in message and "cumsum(x, 1)" in message and "300 KiB" in message
    message = failed(weft("eval", "x @ w", "x=x.npy", "w=w.npy", "-o", "out.npy", "--memory", "4K", cwd=box))
    assert "too large even in blocks" in message and "the input 'w' of shape (50, 20) stays whole" in message
    message = failed(weft("eval", "softmax(x, 0) * softmax(x, 1)", "x=x.npy", "-o", "out.npy", "--stream", cwd=box))
    assert "can't be evaluated in blocks" in message
    assert files(box) == set()


def test_no_stream_means_at_once(box):
    s = stats(weft("eval", "x * 2", "x=x.npy", "-o", "out.npy", "--json", "--no-stream", "--memory", "300K", cwd=box))
    assert s["blocks"] == 0


@pytest.mark.parametrize("words", [["--stream", "--no-stream"], ["--memory", "much"], ["--memory", "0"], ["--block-bytes", "-1"]])
def test_bad_options(box, words):
    failed(weft("eval", "x * 2", "x=x.npy", *words, cwd=box))


def test_a_wrong_setting_is_named(box):
    message = failed(weft("eval", "x * 2", "x=x.npy", cwd=box, env={"WEFT_MEMORY_BYTES": "lots"}))
    assert "WEFT_MEMORY_BYTES" in message


def test_an_expression_may_begin_with_a_sign(box):
    done(weft("eval", "--memory", "300K", "-x", "x=x.npy", "-o", "out.npy", cwd=box))
    np.testing.assert_array_equal(load(box), -load(box, "x.npy"))


def test_errors_in_the_middle_leave_nothing(box):
    big = np.arange(100_000).reshape(2000, 50)
    big[1999, 3] = 2**40
    np.save(box / "big.npy", big)
    (box / "out.npy").write_bytes(b"as it was")
    message = failed(weft("eval", "x * 2", "x=big.npy", "-o", "out.npy", "--allow-downcast", "--stream", "--block-bytes", "20K",
                          cwd=box))
    assert "1099511627776 at index (1999, 3) does not fit" in message
    assert (box / "out.npy").read_bytes() == b"as it was"
    assert files(box) == {"out.npy"}


def test_notes_count_over_all_blocks(box):
    x = np.zeros((2000, 50))
    x[5, 7] = x[1999, 3] = 1e300
    np.save(box / "big.npy", x)
    result = weft("eval", "x * 2", "x=big.npy", "-o", "out.npy", "--allow-downcast", "--stream", "--block-bytes", "20K", cwd=box)
    assert result.returncode == 0
    assert "note: big.npy: float64 read as float32 (2 values overflowed to inf)" in result.stderr


def start_long(box, stderr=subprocess.PIPE):
    sparse(box / "big.npy", 2_000_000)
    return subprocess.Popen([*CLI, "eval", "softmax(x)", "x=big.npy", "-o", "out.npy", "--stream", "--block-bytes", "1M"],
                            cwd=box, stderr=stderr, stdout=subprocess.PIPE, text=True)


def wait_for_blocks(box, process):
    """Until the process writes into a file of this folder, which may have no name yet."""
    for _ in range(2400):
        for fd in os.listdir(f"/proc/{process.pid}/fd"):
            try:
                target = os.readlink(f"/proc/{process.pid}/fd/{fd}")
            except OSError:
                continue
            if target.startswith(str(box)) and (target.endswith("(deleted)") or target.endswith(".tmp")):
                time.sleep(0.5)
                return
        time.sleep(0.05)
    raise AssertionError("no output file came")


def has_unnamed_files(box):
    try:
        os.close(os.open(box, os.O_TMPFILE | os.O_WRONLY))
    except OSError:
        return False
    return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_leave_no_file(box, number):
    (box / "out.npy").write_bytes(b"as it was")
    process = start_long(box)
    wait_for_blocks(box, process)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number and out == "" and err == ""
    assert (box / "out.npy").read_bytes() == b"as it was"
    assert files(box) == {"out.npy"}


def test_even_a_killed_process_leaves_no_file(box):
    (box / "out.npy").write_bytes(b"as it was")
    process = start_long(box)
    wait_for_blocks(box, process)
    process.kill()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert (box / "out.npy").read_bytes() == b"as it was"
    left = files(box) - {"out.npy"}
    if has_unnamed_files(box):
        assert left == set()
    else:  # such a file system keeps the temporary file
        assert len(left) == 1 and left.pop().endswith(".tmp")


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE])
def test_signals_of_the_surroundings_leave_no_file_either(box, number):
    """A terminal that closes, a reader that leaves: the process ends by that signal, as without a handler."""
    process = start_long(box)
    wait_for_blocks(box, process)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode in (-number, 128 + number)  # behind a loader of its own, a shell's
    assert [f for f in os.listdir(box) if f.endswith(".tmp")] == []


def test_a_result_past_the_limit_on_file_sizes(box):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

    # In blocks, which are below the limit: Mesa 26's lavapipe keeps each buffer in a memory file, to which it applies too,
    # and dies of SIGBUS there.
    (box / "out.npy").write_bytes(b"as it was")
    result = subprocess.run([*CLI, "eval", "x * 2", "x=x.npy", "-o", "out.npy", "--stream", "--block-bytes", "50K"], cwd=box,
                            preexec_fn=limit, capture_output=True, text=True, env={**os.environ, "WEFT_CACHE": "0"})
    message = failed(result)
    assert "out.npy: cannot write 400128 bytes behind byte 0" in message and "File too large" in message
    assert (box / "out.npy").read_bytes() == b"as it was"
    assert files(box) == {"out.npy"}


def test_a_file_that_is_cut_short_while_it_is_read(box):
    process = start_long(box)
    wait_for_blocks(box, process)
    os.truncate(box / "big.npy", 4096)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2 and "big.npy: became shorter while it was read" in err, err
    assert files(box) == set()


def test_a_mapped_file_that_is_cut_short_is_no_crash(box):
    """All at once: the file is cut between its header's reading and its upload, as a device that takes long to open
    leaves time for."""
    sparse(box / "big.npy", 400_000)
    process = subprocess.Popen([*CLI, "eval", "sum(x)", "x=big.npy", "--no-stream", "--memory", "100G"], cwd=box,
                               stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    maps = ""
    for _ in range(2000):
        with open(f"/proc/{process.pid}/maps") as f:
            maps = f.read()
        if "big.npy" in maps or process.poll() is not None:
            break
        time.sleep(0.005)
    assert "big.npy" in maps
    os.truncate(box / "big.npy", 4096)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2 and out == "", (process.returncode, err)
    assert "became shorter while it was read" in err and err.count("Fix: ") == 1, err


@pytest.mark.parametrize("mode", [["--stream", "--block-bytes", "50K"], ["--no-stream"]])
def test_a_full_device_is_an_error(box, mode):
    message = failed(weft("eval", "x * 2", "x=x.npy", "-o", "/dev/full", *mode, cwd=box))
    assert "/dev/full: cannot write" in message and "No space left on device" in message


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small tmpfs")
def test_a_full_disk_leaves_the_old_file(box):
    disk = box / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], capture_output=True).returncode != 0:
        pytest.skip("no right to mount")
    try:
        (disk / "out.npy").write_bytes(b"as it was")
        for mode in (["--stream", "--block-bytes", "50K"], ["--no-stream"]):
            message = failed(weft("eval", "x * 2", "x=x.npy", "-o", disk / "out.npy", *mode, cwd=box))
            assert "cannot write" in message and "bytes are free there" in message and "No space left" in message
            assert os.listdir(disk) == ["out.npy"] and (disk / "out.npy").read_bytes() == b"as it was"
    finally:
        subprocess.run(["umount", disk], check=True)


def test_an_input_may_be_replaced_by_the_result(box):
    for text in ["x * 2 + 1", "x - mean(x, 0)"]:
        x = load(box, "x.npy")
        done(weft("eval", text, "x=x.npy", "-o", "x.npy", "--stream", "--block-bytes", "50K", cwd=box))
        np.testing.assert_allclose(load(box, "x.npy"), x * 2 + 1 if "2" in text else x - x.mean(0), rtol=1e-5, atol=1e-5)
    assert files(box) == set()


def test_a_named_pipe_takes_blocks_in_order(box):
    os.mkfifo(box / "pipe")
    with open(box / "got", "wb") as got:
        reader = subprocess.Popen(["cat", "pipe"], cwd=box, stdout=got)
        done(weft("eval", "x * 2", "x=x.npy", "-o", "pipe", "--stream", "--block-bytes", "50K", cwd=box))
        assert reader.wait(timeout=60) == 0
    done(weft("eval", "x * 2", "x=x.npy", "-o", "out.npy", cwd=box))
    assert (box / "got").read_bytes() == (box / "out.npy").read_bytes()
    # A result that comes in columns can't go into a pipe.
    reader = subprocess.Popen(["cat", "pipe"], cwd=box, stdout=subprocess.DEVNULL)
    message = failed(weft("eval", "softmax(x, 0)", "x=x.npy", "-o", "pipe", "--stream", "--block-bytes", "50K", cwd=box))
    assert "no file in which one can go back" in message
    assert reader.wait(timeout=60) == 0


def test_a_place_that_takes_no_files_is_refused(box):
    for place, what in [("none/out.npy", "there is no folder"), ("n" * 300 + ".npy", "too long"), ("/proc/out.npy", "")]:
        assert what in failed(weft("eval", "x * 2", "x=x.npy", "-o", place, "--stream", "--block-bytes", "50K", cwd=box))
    assert files(box) == set()


def test_a_device_that_runs_out_of_memory_gets_smaller_blocks(box):
    x = load(box, "x.npy")
    for text, expected in [("x * 2 + 1", x * 2 + 1), ("sum(x, 0)", x.sum(0)), ("x - mean(x, 0)", x - x.mean(0))]:
        for mode in ([], ["--stream"]):
            result = weft("eval", text, "x=x.npy", "-o", "out.npy", "--json", *mode, cwd=box,
                          env={"WEFT_TEST_LARGEST_BUFFER": "100000"})
            assert stats(result)["blocks"] >= 4
            assert "note: the device ran out of memory: once more, in " in result.stderr
            np.testing.assert_allclose(load(box), expected, rtol=1e-4, atol=1e-4)
            assert files(box) == {"out.npy"}
    # What is written already can't be written again; what has no smaller blocks is told as it was.
    result = weft("eval", "x * 2", "x=x.npy", "-o", "/dev/null", "--stream", cwd=box,
                  env={"WEFT_TEST_LARGEST_BUFFER": "100000"})
    assert "over a test's 100000" in failed(result, 1)
    result = weft("eval", "cumsum(x, 0) + cumsum(x, 1)", "x=x.npy", cwd=box, env={"WEFT_TEST_LARGEST_BUFFER": "100000"})
    assert "over a test's 100000" in failed(result, 1)


def test_memory_of_the_process_is_bounded(box):
    """A file of 1 GB, and as much written."""
    sparse(box / "big.npy", 250_000)
    pid = os.fork()
    if pid == 0:
        os.chdir(box)
        null = os.open("/dev/null", os.O_WRONLY)
        os.dup2(null, 2)
        os.execvp(CLI[0], [*CLI, "eval", "x * 2 + 1", "x=big.npy", "-o", "out.npy", "--stream"])
    _, status, usage = os.wait4(pid, 0)
    assert status == 0
    assert usage.ru_maxrss < 600_000, f"{usage.ru_maxrss} KiB"
    ones = np.load(box / "out.npy", mmap_mode="r")
    assert ones.shape == (250_000, 1024) and ones[0, 0] == ones[-1, -1] == ones[200_000, 512] == 1


def test_progress_has_a_bar_and_the_time_left(box):
    sparse(box / "big.npy", 1_000_000)
    words = ["eval", "softmax(x)", "x=big.npy", "-o", "out.npy", "--stream"]
    start = time.monotonic()
    status, shown = on_a_terminal(words, box, interrupt_when=lambda shown: b" left" in shown)
    assert status == 130
    assert "streaming [" in shown and "% " in shown and " left" in shown and "B/s" in shown
    later = time.monotonic() + (time.monotonic() - start) + 1  # past when the other one had shown it
    status, shown = on_a_terminal([*words, "--no-progress"], box, interrupt_when=lambda _: time.monotonic() > later)
    assert status == 130 and "streaming" not in shown
    assert files(box) == set()
