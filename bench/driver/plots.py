"""The four plots of a device: roofline, dispatches, products, transfers. One file each, all implementations in it."""
import re

from . import svg

NAMES = {"wgpu-native": "wgpu-native", "dawn": "Dawn"}


def label_of(device):
    return NAMES.get(device.implementation, device.implementation)


def bytes_text(n):
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= size:
            return f"{n // size} {unit}"
    return f"{n} B"


def significant(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def intensity(row, device):
    """(FLOP, bytes at least moved) of one op of this row, or None. Softmax counts 5 an element, layer norm 8."""
    n = [int(v) for v in re.findall(r"\d+", row.partition("/")[2])]
    family = row.split("/")[0]
    known = device.rows[row]
    size = 2 if "f16" in row else 4
    if family == "matmul":
        return 2.0 * n[1] ** 3, 3.0 * size * n[1] ** 2
    if family == "batched_matmul":
        return 2.0 * n[1] * n[2] ** 3, 3.0 * 4 * n[1] * n[2] ** 2
    if family in ("matvec", "matvec_transposed"):
        return 2.0 * n[1] ** 2, 4.0 * n[1] ** 2
    if family == "conv" and "flop" in known:
        batch, channels, h, w, outs, window, _, stride = n
        side = (h + 2 * (window // 2) - window) // stride + 1
        return known["flop"], 4.0 * (batch * channels * h * w + outs * channels * window**2 + batch * outs * side**2)
    if family == "attention" and "flop" in known:
        _, heads, queries, keys, dim = n
        return known["flop"], size * 1.0 * heads * dim * (2 * queries + 2 * keys)
    each = {"softmax": 5, "layer_norm": 8, "rms_norm": 4, "sum_rows": 1, "add": 1, "sum_op": 1}
    if family in each and "bytes" in known:
        elements = n[0] * n[1] if len(n) > 1 else n[0] << 20
        return each[family] * float(elements), known["bytes"]
    return None


SHORT = {"matvec": "matrix · vector", "sum_op": "sum", "layer_norm": "layer norm"}


def short(row):
    """What a point is called; its colour tells the type."""
    family, _, rest = row.partition("/")
    n = re.findall(r"\d+", rest)
    if family == "matmul":
        return f"product {n[1]}³"
    if family == "batched_matmul":
        return f"{n[1]} products {n[2]}³"
    if family == "conv":
        return f"conv {n[5]}×{n[5]}, {n[1]} to {n[4]}" + (f", {n[0]} images" if n[0] != "1" else "")
    if family == "attention":
        return f"attention, {n[2]} × {n[3]}" if n[2] != "1" else f"attention, 1 × {n[3]}"
    return SHORT.get(family, family.replace("_", " "))


def roofline(devices):
    # Few enough to tell apart; of what comes in several sizes the largest that the device ran.
    wanted = re.compile(r"^((add|sum_op)/(16|256)|(softmax|layer_norm)/(1024|16384)x4096|matvec/.*|batched_matmul/.*"
                        r"|conv/(1|8)x64x56x56_(64x3x3|64x1x1|256x1x1)_s1|conv/8x512x7x7_512x3x3_s1|matmul/f32_(1024|4096)|matmul/f16_(1024|8192)"
                        r"|attention/(decode_)?f(32|16)_(16x1x4096x64|32x1x32768x128|16x1024x1024x64|32x4096x4096x128))$")
    panels, best = [], []
    for d in devices:
        points = []
        rows = [r for r in d.rows if wanted.match(r) and d.figure(r)]
        if any(r.startswith("conv/8x64x56x56_64x3x3") for r in rows):
            rows = [r for r in rows if not r.startswith("conv/1x")]
        biggest = {re.sub(r"/.*", "", r): r for r in sorted(rows, key=lambda r: d.rows[r].get("bytes", 0)) if r.startswith(("add", "sum_op", "softmax", "layer_norm"))}
        for row in rows:
            family = row.split("/")[0]
            if family in biggest and biggest[family] != row:
                continue
            work = intensity(row, d)
            if work:
                points.append((1 if "f16" in row else 0, work[0] / work[1], work[0] / d.seconds(row), short(row)))
        copies = [d.rate(r, "bytes") for r in ("copy/16", "copy/256") if d.rate(r, "bytes")]
        if not points or not copies:
            continue
        peaks = {t: d.rate(f"peak/{t}", "flop") for t in ("f32", "f16")}
        vendor = d.rate("matmul/f16_8192", "flop", "pytorch")
        best.append((d, points, max(copies), peaks, vendor))
    if not best:
        return None
    ys = [p[2] for _, points, *_ in best for p in points] + [v for *_, peaks, vendor in best for v in (*peaks.values(), vendor) if v]
    low_x, high_x = svg.span([p[1] for _, points, *_ in best for p in points], pad=1.6)
    low_y, high_y = svg.span(ys, pad=2)
    for d, points, copy, peaks, vendor in best:
        scale = 1e12 if high_y > 3e12 else 1e9
        unit = "TFLOP/s" if scale == 1e12 else "GFLOP/s"
        panel = svg.Panel(f"on {label_of(d)}", svg.Axis("operations a byte moved at least (FLOP/B)", low_x, high_x),
                          svg.Axis(unit, low_y / scale, high_y / scale))
        top = max(v for v in (*peaks.values(), vendor, max(p[2] for p in points)) if v)
        start = max(low_x, low_y / copy)
        panel.roof([(start, start * copy / scale), (min(high_x, top / copy), min(high_x * copy, top) / scale)], f"copy: {significant(copy / 1e9)} GB/s")
        for kind, value in peaks.items():
            if value:
                panel.roof([(max(low_x, value / copy), value / scale), (high_x, value / scale)], f"multiply-adds {kind}: {significant(value / scale)}")
        if vendor:
            panel.roof([(max(low_x, vendor / copy), vendor / scale), (high_x, vendor / scale)], f"cuBLAS f16 8192³: {significant(vendor / scale)}")
        for series, x, y, label in points:
            panel.point(series, x, y / scale, label)
        panels.append(panel)
    device = devices[0].context["adapter"]
    return svg.figure(f"Roofline of {device}", "Weft's kernels against what the device reached: vec4 copies, and multiply-adds on registers alone.",
                      {0: "float32", 1: "float16, sums in float32"}, panels, columns=1, panel_size=(860, 430))


def dispatches(devices):
    ways = {0: ("raw", "bare webgpu.h"), 1: ("stream", "Weft, stream"), 2: ("graph", "Weft, graph replayed")}
    batches = (1, 16, 64, 256, 1000)
    panels = []
    found = {}
    for d in devices:
        for kind, text in (("vary_submit", "CPU time, recorded and submitted"), ("vary_complete", "until it is done")):
            lines = {s: [d.seconds(f"dispatch/{kind}/{b}", way) for b in batches] for s, (way, _) in ways.items()}
            if any(any(v) for v in lines.values()):
                found[label_of(d), text] = lines
    if not found:
        return None
    low, high = svg.span([v * 1e6 for lines in found.values() for line in lines.values() for v in line if v])
    for (name, text), lines in found.items():
        panel = svg.Panel(f"{name}: {text}", svg.Axis("dispatches in a batch", 0.8, 1250, ticks={b: f"{b:,}" for b in batches}),
                          svg.Axis("µs a dispatch", low, high))
        for series, line in lines.items():
            panel.line(series, batches, [v and v * 1e6 for v in line])
        panels.append(panel)
    return svg.figure(f"Small dispatches on {devices[0].context['adapter']}",
                      "A chain of relu over 4,096 floats, each dispatch with parameters of its own; the batch is one submit.",
                      {s: text for s, (_, text) in ways.items()}, panels)


def products(devices):
    whos = [("weft", None), ("onnxruntime", "ONNX Runtime WebGPU"), ("oxicuda-webgpu", "oxicuda-webgpu"), ("pytorch", "PyTorch (cuBLAS)"),
            ("numpy", "numpy (OpenBLAS), host")]
    sizes = (256, 512, 1024, 2048, 4096, 8192)
    found = {"f32": {}, "f16": {}}
    names = {}
    for kind, lines in found.items():
        for i, d in enumerate(devices):
            rates = [d.rate(f"matmul/{kind}_{n}", "flop") for n in sizes]
            if any(rates):
                lines[i] = rates
                names[i] = f"Weft on {label_of(d)}"
        for j, (who, text) in enumerate(whos[1:]):
            # A peer's line is of the latest run that it took part in.
            rates = max(([d.rate(f"matmul/{kind}_{n}", "flop", who) for n in sizes] for d in devices), key=lambda r: sum(map(bool, r)))
            if any(rates):
                lines[2 + j] = rates
                names[2 + j] = text
    values = [v for lines in found.values() for line in lines.values() for v in line if v]
    if not values:
        return None
    scale, unit = (1e12, "TFLOP/s") if max(values) > 3e12 else (1e9, "GFLOP/s")
    low, high = svg.span([v / scale for v in values], pad=1.4)
    used = [n for i, n in enumerate(sizes) if any(line[i] for lines in found.values() for line in lines.values())]
    panels = []
    for kind, lines in found.items():
        if not lines:
            continue
        panel = svg.Panel(f"float{kind[1:]}" + (", sums in float32" if kind == "f16" else ""),
                          svg.Axis("n, of n×n times n×n", used[0] / 1.2, used[-1] * 1.2, ticks={n: f"{n:,}" for n in used}), svg.Axis(unit, low, high))
        for series, line in sorted(lines.items()):
            panel.line(series, sizes, [v and v / scale for v in line])
        panels.append(panel)
    return svg.figure(f"Matrix products on {devices[0].context['adapter']}", "Operands on the device, warm, medians; all in one run, in turns.",
                      dict(sorted(names.items())), panels)


def transfers(devices):
    names, panels = {}, []
    whos = [("weft", "Weft"), ("raw", "bare webgpu.h")]
    found = {}
    for way in ("upload", "readback"):
        sizes = sorted({int(r.split("/")[1]) for d in devices for r in d.rows if r.startswith(way + "/")})
        sizes = [s for s in sizes if s >= 4096]
        lines = {}
        for i, d in enumerate(devices):
            for j, (who, text) in enumerate(whos):
                rates = [(s / d.seconds(f"{way}/{s}", who) if d.seconds(f"{way}/{s}", who) else None) for s in sizes]
                if any(rates):
                    lines[2 * i + j] = rates
                    names[2 * i + j] = f"{text} on {label_of(d)}"
        for j, (who, text) in enumerate([("pytorch", "PyTorch, pageable"), ("pytorch pinned", "PyTorch, pinned")]):
            rates = max(([(s / d.seconds(f"{way}/{s}", who) if d.seconds(f"{way}/{s}", who) else None) for s in sizes] for d in devices),
                        key=lambda r: sum(map(bool, r)))
            if any(rates):
                lines[4 + j] = rates
                names[4 + j] = text
        found[way] = (sizes, lines)
    values = [v / 1e9 for _, lines in found.values() for line in lines.values() for v in line if v]
    if not values:
        return None
    low, high = svg.span(values, pad=1.4)
    for way, (sizes, lines) in found.items():
        if not lines:
            continue
        used = [s for i, s in enumerate(sizes) if any(line[i] for line in lines.values())]
        marks = {s: bytes_text(s) for s in (4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20) if used[0] <= s <= used[-1]}
        panel = svg.Panel({"upload": "upload: host to device", "readback": "readback: device to host"}[way],
                          svg.Axis("size", used[0] / 1.5, used[-1] * 1.5, ticks=marks), svg.Axis("GB/s", low, high))
        for series, line in sorted(lines.items()):
            panel.line(series, sizes, [v and v / 1e9 for v in line])
        panels.append(panel)
    return svg.figure(f"Transfers on {devices[0].context['adapter']}", "From ordinary host memory and back, each waited for.",
                      dict(sorted(names.items())), panels)


PLOTS = {"roofline": roofline, "dispatch": dispatches, "gemm": products, "transfers": transfers}


def write(devices, folder):
    """Writes DEVICE-PLOT.svg for each device; {device name: {plot: path}}."""
    folder.mkdir(parents=True, exist_ok=True)
    out = {}
    for name in sorted({d.name for d in devices}):
        of = sorted((d for d in devices if d.name == name), key=lambda d: d.implementation != "wgpu-native")
        for plot, make in PLOTS.items():
            path = folder / f"{name}-{plot}.svg"
            text = make(of)
            if text is None:
                path.unlink(missing_ok=True)
                continue
            path.write_text(text)
            out.setdefault(name, {})[plot] = path
    return out
