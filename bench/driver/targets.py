"""Every target of docs/benchmarks.md: what is wanted, and how the figure comes from the rows.

A figure is None when a row that it needs was not measured. What bounds a missed target is told in bench/missed.md, under
the target's key. The verdict follows from the figure alone.
"""
import dataclasses
import typing

H200 = "nvidia-h200"


@dataclasses.dataclass
class Figure:
    value: float
    text: str


@dataclasses.dataclass(frozen=True)
class Target:
    key: str
    what: str
    sign: str  # "≥" or "≤"
    wanted: float
    unit: str
    figure: typing.Callable
    needs: str  # what must have been measured, for the report when it was not
    on: str = "any"  # "any", "cpu", "gpu" or a device
    implementation: str = "any"
    stretch: float = 0

    def applies(self, device):
        fits = self.on in ("any", device.name) or self.on == ("cpu" if device.cpu else "gpu")
        return fits and self.implementation in ("any", device.implementation)

    def reached(self, figure):
        return figure.value >= self.wanted if self.sign == "≥" else figure.value <= self.wanted

    def wanted_text(self):
        text = f"{self.sign} {self.wanted:,g}{self.unit}" if self.wanted else "none"
        return text + (f" (stretch {self.stretch:,g})" if self.stretch else "")


def rate(row, unit, scale, name, who="weft"):
    """The rate of one row."""
    def figure(d):
        value = d.rate(row, unit, who)
        return value and Figure(value / scale, f"{value / scale:,.3g} {name}" if value / scale < 1000 else f"{value / scale:,.0f} {name}")
    return figure


def worst_rate(rows, unit, scale, name):
    """The lowest rate of several rows, all of which must be there."""
    def figure(d):
        values = [d.rate(r, unit) for r in rows]
        if not all(values):
            return None
        low, high = min(values) / scale, max(values) / scale
        return Figure(low, f"{low:,.3g} to {high:,.3g} {name}" if len(rows) > 1 else f"{low:,.3g} {name}")
    return figure


def times_as_fast(rows, peer, who="weft"):
    """How many times as fast as the peer: the lowest over the rows that both ran. `rows`: names, or a rule for names."""
    def figure(d):
        names = [r for r in d.rows if rows(r)] if callable(rows) else rows
        found = {r: d.ratio(r, peer, who) for r in names}
        found = {r: v for r, v in found.items() if v}
        if not found or not callable(rows) and len(found) < len([r for r in rows if d.figure(r, who)]):
            return None
        low = min(found, key=found.get)
        text = f"{found[low]:.2f} ×" if len(found) == 1 else f"{found[low]:.2f} × ({low}) to {max(found.values()):.3g} ×"
        if callable(rows):
            least = sum(v >= 2 for v in found.values())
            text += f"; {least} of {len(found)} rows at 2 or more"
        return Figure(found[low], text)
    return figure


def against(way, base, rows):
    """Time of `way` over time of `base`: the highest over the rows."""
    def figure(d):
        found = {r: d.ratio(r, way, base) for r in rows}
        if not all(found.values()):
            return None
        high = max(found, key=found.get)
        text = f"{found[high]:.2f}" if len(rows) == 1 else f"{min(found.values()):.2f} to {found[high]:.2f} ({high.removeprefix('dispatch/')})"
        return Figure(found[high], text)
    return figure


def counted(names, rows):
    """The highest of what the rows counted while recording a dispatch, less what bare webgpu.h counts (Dawn's own allocations go
    through the same operator new). To hundredths: in batches of 1,000 what belongs to the batch is less."""
    def figure(d):
        worst = dict.fromkeys(names, 0)
        for row in rows:
            raw = d.figure(row, "raw")
            for way in ("stream", "graph"):
                ours = d.figure(row, way)
                if not raw or not ours or any(n not in ours or n not in raw for n in names):
                    return None
                for n in names:
                    worst[n] = max(worst[n], round(ours[n] - raw[n], 2))
        return Figure(max(worst.values()), ", ".join(f"{v:.2g} {n}" for n, v in worst.items()))
    return figure


def of_copy(row):
    """Share of the copy rate: of the copy of the same size in the same rounds where there is one."""
    def figure(d):
        value, copy = d.rate(row, "bytes"), copy_rate(d)
        if not value or not copy:
            return None
        share, beside = value / copy, "copy/" + row.partition("/")[2]
        if d.ratio(beside, "weft", "weft", below_row=row):
            share = d.ratio(beside, "weft", "weft", below_row=row) * d.rows[row]["bytes"] / d.rows[beside]["bytes"]
        return Figure(share, f"{share:.2f} ({value / 1e9:,.3g} GB/s)")
    return figure


def copy_rate(d):
    return max((v for v in (d.rate(f"copy/{mi}", "bytes") for mi in (16, 256)) if v), default=None)


def retained(d):
    found = d.figure("mixed_10000")
    if not found or "retained_bytes" not in found:
        return None
    value = found["retained_bytes"] / found["cap_bytes"] + (1e9 if found["live_bytes"] else 0)
    return Figure(value, f"live {found['live_bytes']:g}, retained {found['retained_bytes'] / 2**20:.0f} of {found['cap_bytes'] / 2**20:.0f} MiB")


def second_start(d):
    value = d.ratio("cold_start/second", "weft", "weft", below_row="cold_start/first")
    return value and Figure(value, f"{value:.2f}")


def blocks_against_slowest(d):
    """The lowest over the expressions."""
    found = {r: d.ratio(r, "slowest part", "weft") for r in d.rows if r.startswith("eval/")}
    found = {r: v for r, v in found.items() if v}
    if not found:
        return None
    low = min(found, key=found.get)
    each = ", ".join(f"{v:.2f} {r.removeprefix('eval/')} ({d.figure(r)['part']})" for r, v in found.items())
    return Figure(found[low], each)


def lowest_of(figures):
    """Several figures of which the lowest counts."""
    def figure(d):
        found = [f(d) for f in figures]
        return None if not all(found) else Figure(min(f.value for f in found), "; ".join(f.text for f in found))
    return figure


BATCHES = (1, 16, 64, 256, 1000)
SUBMITS = [f"dispatch/{p}_submit/{b}" for p in ("same", "vary") for b in BATCHES]
RECORDS = [f"dispatch/{p}_record/1000" for p in ("same", "vary")]
BIG = 256 << 20
GEMM_CPU = [f"matmul/f32_{n}" for n in (256, 512, 1024)]
GEMM_GPU = [f"matmul/f32_{n}" for n in (256, 512, 1024, 2048, 4096)]
ATTENTION = "attention/f16_32x4096x4096x128"
RESNET = ["conv/8x64x56x56_64x3x3_s1", "conv/8x64x56x56_256x1x1_s1", "conv/8x128x28x28_128x3x3_s1", "conv/8x256x14x14_256x3x3_s1",
          "conv/8x512x7x7_512x3x3_s1"]


def on_device(row):
    """Rows whose operands lie on the device; those with transfers are a target of their own."""
    return not row.startswith(("in/", "python/")) and row not in ("relu_read",)


TARGETS = [
    # Dispatch and transfers
    Target("dispatch", "warm dispatch through a stream, CPU time recorded and submitted, of bare webgpu.h", "≤", 1.25, "",
           against("stream", "raw", SUBMITS), "dispatch rows"),
    Target("dispatch-counts", "heap allocations and WebGPU objects made a warm dispatch, more than bare webgpu.h's", "≤", 0, "", counted(("allocs", "made"), RECORDS),
           "dispatch rows"),
    Target("graph", "graph replay, CPU time a dispatch, of bare webgpu.h", "≤", 1.10, "", against("graph", "raw", SUBMITS), "dispatch rows"),
    Target("small-ops", "1,000 small ops in a row, of PyTorch eager", "≥", 4, " ×", times_as_fast(["relu_chain"], "pytorch"), "PyTorch", on=H200),
    Target("small-ops-fused", "the same from a graph of fused chains, as weft.jit makes it", "≥", 4, " ×", times_as_fast(["relu_chain"], "pytorch", "fused"),
           "PyTorch", on=H200),
    Target("readback-small", "readback of 4 KiB, of bare webgpu.h with one pre-made staging buffer", "≤", 1.15, "",
           against("weft", "raw", ["readback/4096"]), "transfers"),
    Target("upload", "upload of 256 MiB", "≥", 25, " GB/s", rate(f"upload/{BIG}", "bytes", 1e9, "GB/s"), "transfers", on=H200),
    Target("readback", "readback of 256 MiB", "≥", 25, " GB/s", rate(f"readback/{BIG}", "bytes", 1e9, "GB/s"), "transfers", on=H200),
    Target("start", "`weft eval 1+1` with no cache, of a bare program that opens adapter and device", "≤", 1.5, "", against("weft", "bare", ["start"]),
           "whole processes"),
    Target("cold-start", "20 pipelines in a second process, of the first", "≤", 0.3, "", second_start, "whole processes"),
    Target("memory", "retained after 10,000 mixed allocations and frees, of the cap, with nothing live", "≤", 1, "", retained, "memory rows"),
    Target("stream", "`weft eval` of a large file in blocks, of the slowest of disk, upload, compute, readback", "≥", 0.8, "",
           blocks_against_slowest, "whole processes"),
    # Arrays and rows
    Target("arrays", "copy, add, sum over 1 GiB, of PyTorch", "≥", 0.97, " ×",
           lowest_of([times_as_fast([f"{op}/256"], "pytorch") for op in ("copy", "add", "sum_op")]), "PyTorch, 1 GiB", on=H200),
    Target("softmax", "softmax over rows of 4096", "≥", 3700, " GB/s", rate("softmax/16384x4096", "bytes", 1e9, "GB/s"), "rows", on=H200),
    Target("layer-norm", "layer norm over rows of 4096", "≥", 3700, " GB/s", rate("layer_norm/16384x4096", "bytes", 1e9, "GB/s"), "rows", on=H200),
    Target("sum-rows", "sums of rows of 4096, of PyTorch", "≥", 0.97, " ×", times_as_fast(["sum_rows/16384x4096"], "pytorch"), "PyTorch", on=H200),
    Target("chain", "relu(a*b + c) fused, 16 Mi floats, of the copy rate", "≥", 0.8, "", of_copy("fused_chain/16"), "arrays"),
    # Products
    Target("gemm-f32", "product float32 4096³, of cuBLAS without TF32", "≥", 0.85, " ×", times_as_fast(["matmul/f32_4096"], "pytorch"), "PyTorch", on=H200),
    Target("gemm-f16", "product float16 8192³ with float32 sums, of cuBLAS", "≥", 0.5, " ×", times_as_fast(["matmul/f16_8192"], "pytorch"), "PyTorch",
           on=H200, implementation="dawn", stretch=0.65),
    Target("gemm-i8", "product int8 to int32 8192³ by matrix units, of cuBLAS", "≥", 0.5, " ×", times_as_fast(["matmul/i8_8192"], "pytorch"),
           "PyTorch", on=H200, implementation="dawn"),
    Target("gemm-ort", "products float32 of 256 to 1024, of ONNX Runtime WebGPU", "≥", 2, " ×", times_as_fast(GEMM_CPU, "onnxruntime"), "ONNX Runtime", on="cpu"),
    Target("gemm-ort", "products float32 of 256 to 4096, of ONNX Runtime WebGPU", "≥", 2, " ×", times_as_fast(GEMM_GPU, "onnxruntime"), "ONNX Runtime", on="gpu"),
    Target("gemm-f16-ort", "product float16 4096³, of ONNX Runtime WebGPU", "≥", 8, " ×", times_as_fast(["matmul/f16_4096"], "onnxruntime"), "ONNX Runtime",
           on=H200, implementation="dawn"),
    # Convolution and attention
    Target("conv", "conv2d float32 8x64x56x56, 64 of 3x3", "≥", 15, " TFLOP/s", rate("conv/8x64x56x56_64x3x3_s1", "flop", 1e12, "TFLOP/s"), "conv rows", on=H200),
    Target("conv-resnet", "conv2d float32, 3x3 and 1x1 of ResNet-50, 8 images", "≥", 15, " TFLOP/s", worst_rate(RESNET, "flop", 1e12, "TFLOP/s"), "conv rows", on=H200),
    Target("conv-ort", "conv2d, of ONNX Runtime WebGPU", "≥", 2, " ×", times_as_fast(lambda r: r.startswith("conv/"), "onnxruntime"), "ONNX Runtime"),
    Target("attention", "attention float16, 32 heads, 4096 tokens, head 128", "≥", 100, " TFLOP/s", rate(ATTENTION, "flop", 1e12, "TFLOP/s"), "attention rows",
           on=H200, implementation="dawn", stretch=200),
    Target("attention-causal", "the same, causal", "≥", 100, " TFLOP/s", rate(ATTENTION + "_causal", "flop", 1e12, "TFLOP/s"), "attention rows", on=H200,
           implementation="dawn", stretch=200),
    Target("attention-ort", "the same, causal and not, of ONNX Runtime WebGPU", "≥", 5, " ×", times_as_fast([ATTENTION, ATTENTION + "_causal"], "onnxruntime"),
           "ONNX Runtime", on=H200),
    Target("attention-decode", "attention of one query row, 32 heads, 32,768 keys, of the copy rate", "≥", 0.8, "", of_copy("attention/decode_f16_32x1x32768x128"),
           "attention rows", on=H200),
    # Peers on WebGPU
    Target("ort", "every row that ONNX Runtime WebGPU has, operands on the device", "≥", 2, " ×", times_as_fast(on_device, "onnxruntime"), "ONNX Runtime"),
    Target("ort-transfers", "every row that ONNX Runtime WebGPU has, with transfers", "≥", 2, " ×", times_as_fast(lambda r: r.startswith(("in/", "python/")), "onnxruntime"),
           "ONNX Runtime"),
    Target("ort-half", "no row slower than half of ONNX Runtime WebGPU", "≥", 0.5, " ×", times_as_fast(lambda r: True, "onnxruntime"), "ONNX Runtime"),
    Target("softmax-ort", "softmax over rows of 4096, of ONNX Runtime WebGPU", "≥", 25, " ×", times_as_fast(["softmax/16384x4096"], "onnxruntime"), "ONNX Runtime",
           on=H200),
    Target("oxicuda-gemm-f32", "product float32 4096³, of oxicuda-webgpu", "≥", 10, " ×", times_as_fast(["matmul/f32_4096"], "oxicuda-webgpu"), "oxicuda-webgpu", on=H200),
    Target("oxicuda-gemm-f16", "product float16 4096³, of oxicuda-webgpu", "≥", 80, " ×", times_as_fast(["matmul/f16_4096"], "oxicuda-webgpu"), "oxicuda-webgpu",
           on=H200, implementation="dawn"),
    Target("oxicuda-small-ops", "small ops in a row, of oxicuda-webgpu", "≥", 5, " ×", times_as_fast(["relu_chain"], "oxicuda-webgpu"), "oxicuda-webgpu", on=H200),
    Target("oxicuda-attention", "attention float32 16x1024x1024x64, of oxicuda-webgpu", "≥", 50, " ×",
           times_as_fast(["attention/f32_16x1024x1024x64"], "oxicuda-webgpu"), "oxicuda-webgpu", on=H200),
]
