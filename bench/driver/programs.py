"""The one list of what script/bench runs: our programs, the peers, and how rows of different programs come together.

A new Google Benchmark program needs a line in PROGRAMS and one in bench/CMakeLists.txt; its rows are asked from itself.
"""
import dataclasses
import re
import typing


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a benchmark stands in the results."""
    row: str             # what is measured, under the same name on all sides: "matmul/f32_1024"
    who: str             # whose figure it is: "weft", "raw", a peer's name
    match: str           # rows of one match run in turns
    large: bool = False  # for GPUs, or with --large
    full: bool = False   # left out by --quick


def plain(name):
    """A row that peers have by the same name, or nobody else."""
    family = name.split("/")[0]
    seldom = family in ("sort", "topk32", "fft", "random_normal", "embedding", "cumsum", "var", "rms_norm", "gemm")
    return Place(name, "weft", name, full=seldom)


def bandwidth(name):
    """Arrays of one size are each other's company: copy first of all."""
    family, mi = name.split("/")
    return Place(name, "weft", f"arrays/{mi}", large=int(mi) >= 256, full=family in ("exp_op", "sum_columns"))


def memory(name):
    way, _, size = name.partition("/")
    if way in ("queue_write", "ring_write"):
        return Place(f"upload/{size}", way, f"upload/{size}", full=True)
    found = re.fullmatch(r"(raw|weft)_(upload|readback)(_view)?", way)
    if found:
        who = "view" if found[3] else found[1]
        row = f"{found[2]}/{size}"
        return Place(row, who, row, large=int(size) >= 256 << 20)
    match = f"pool/{size}" if size else name
    return Place(name, "weft", match, full=way == "churn")


def dispatch(name):
    way, kind, batch = name.split("/")
    row = f"dispatch/{kind}/{batch}"
    return Place(row, way, row, full=way in ("stream_named", "stream_batched"))


def ops(name):
    if name.startswith("relu_chain/"):
        way = name.split("/")[1]
        return Place("relu_chain", "weft" if way == "eager" else way, "relu_chain")
    return plain("relu_read" if name == "relu_read/4096" else name)


# Program (weft_bench_NAME, served) -> where each of its benchmarks stands.
PROGRAMS = {
    "bandwidth": bandwidth,
    "ops": ops,
    "layers": plain,
    "gemm": plain,
    "memory": memory,
    "dispatch": dispatch,
}


def printed_start(told):
    return (told["compile_ms"] + told["first_run_ms"]) / 1e3


@dataclasses.dataclass(frozen=True)
class OneShot:
    """A whole process as a row: its wall time, or what `take` finds in the JSON that it prints."""
    row: str
    who: str
    program: str            # in the folder of programs
    arguments: tuple = ()   # {array}: a .npy file of four floats
    take: typing.Callable | None = None
    caches: str = "none"    # of compiled pipelines, ours and the driver's: "none"; "empty" at first; "left" by the one before


# Run in this order, round by round.
ONE_SHOTS = (
    OneShot("start", "bare", "weft_bench_bare_start"),
    OneShot("start", "weft", "weft", ("eval", "1+1")),
    OneShot("start", "bare with a kernel", "weft_bench_bare_start", ("--kernel",)),
    OneShot("start", "weft eval a+1", "weft", ("eval", "a+1", "a={array}")),
    OneShot("cold_start/first", "weft", "weft_bench_cold_start", take=printed_start, caches="empty"),
    OneShot("cold_start/second", "weft", "weft_bench_cold_start", take=printed_start, caches="left"),
)

# Peers: how each is started, {peers} being bench/peers and {python} an interpreter that has `needs`. `webgpu`: through
# the launch prefix, as our programs; `on`: which devices.
PEERS = {
    "onnxruntime": {"python": "ort_worker.py", "needs": ("onnxruntime", "onnx", "numpy"), "webgpu": True, "on": "any"},
    "oxicuda-webgpu": {"binary": "oxicuda-peer", "webgpu": True, "on": "any"},
    "pytorch": {"python": "torch_worker.py", "needs": ("torch",), "webgpu": False, "on": "gpu"},
    "numpy": {"python": "numpy_worker.py", "needs": ("numpy",), "webgpu": False, "on": "cpu"},
}
