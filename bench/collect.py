"""Joins the JSON files of Google Benchmark programs into one result file, and writes docs/benchmarks.md from all of them.

    collect.py join OUT.json PROGRAM.json...     one device and implementation, into what OUT has already
    collect.py report                            docs/benchmarks.md from bench/results/*.json

Figures are medians over repetitions that were run in random order beside their control rows.
"""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def join(out, inputs):
    known = pathlib.Path(out)
    merged = json.loads(known.read_text()) if known.exists() else {"context": {}, "rows": {}}
    fresh = set()
    for path in inputs:
        data = json.loads(pathlib.Path(path).read_text())
        if "benchmarks" not in data:  # a program that prints one line of its own
            merged["rows"]["chain/%d" % (data["floats"] >> 20)] = data
            continue
        context = data["context"]
        merged["context"].update(
            {k: context[k] for k in ("adapter", "driver", "webgpu", "weft", "date", "num_cpus") if k in context}
        )
        for row in data["benchmarks"]:
            if row.get("aggregate_name") not in ("median", "stddev"):
                continue
            name = re.sub(r"/(real_time|manual_time|iterations:\d+)", "", row["run_name"])
            scale = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}[row["time_unit"]]
            if name not in fresh:  # rows that this run did not measure stay, with their dates
                merged["rows"][name] = {"date": context["date"][:16]}
                fresh.add(name)
            entry = merged["rows"][name]
            if row["aggregate_name"] == "stddev":
                entry["stddev_us"] = row["real_time"] * scale
                continue
            entry["us"] = row["real_time"] * scale
            for key in ("bytes_per_second", "FLOP/s", "items_per_second"):
                if key in row:
                    entry[key] = row[key]
            entry.update({k: v for k, v in row.items() if k.startswith("count_")})
    pathlib.Path(out).write_text(json.dumps(merged, indent=1, sort_keys=True) + "\n")


def human(n):
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= size:
            return f"{n // size} {unit}"
    return f"{n} B"


def table(head, rows):
    if not rows:
        return ""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(r) + " |" for r in rows]) + "\n"


def transfers(rows):
    out = []
    for size in sorted({int(n.split("/")[1]) for n in rows if n.startswith("weft_readback/")}):
        line = [human(size)]
        for kind in ("upload", "readback"):
            raw, ours = rows.get(f"raw_{kind}/{size}"), rows.get(f"weft_{kind}/{size}")
            if not raw or not ours:
                line += ["–"] * 3
                continue
            rate = ours.get("bytes_per_second", 0) / 1e9
            line += [f"{raw['us']:.1f}", f"{ours['us']:.1f}" + (f" ({rate:.1f} GB/s)" if size >= 1 << 20 else ""),
                     f"{ours['us'] / raw['us']:.2f}"]
        out.append(line)
    return table(["size", "upload raw, µs", "Weft, µs", "ratio", "readback raw, µs", "Weft, µs", "ratio"], out)


def bandwidth(rows):
    names = ["copy", "add", "exp_op", "sum_op", "sum_columns", "softmax_rows", "layer_norm_rows"]
    sizes = sorted({int(n.split("/")[1]) for n in rows if "/" in n and n.split("/")[0] in names and n.split("/")[1].isdigit()})
    out = []
    for name in names:
        line = [name]
        for size in sizes:
            row, copy = rows.get(f"{name}/{size}"), rows.get(f"copy/{size}")
            line.append(f"{row['bytes_per_second'] / 1e9:.1f} ({row['bytes_per_second'] / copy['bytes_per_second']:.2f})" if row and copy else "–")
        if any(c != "–" for c in line[1:]):
            out.append(line)
    for size in sizes:
        row = rows.get(f"chain/{size}")
        if row:
            out.append([f"relu(a*b + c), {size} Mi, median of ratios"] + [f"{row['chain_GBps']:.1f} ({row['ratio']:.2f})" if s == size else "" for s in sizes])
    return table(["op"] + [f"{s} Mi floats, GB/s (of copy)" for s in sizes], out)


def flops(rows):
    out = [[n, f"{r['us']:.0f}", f"{r['FLOP/s'] / 1e9:,.1f}"] for n, r in rows.items()
           if "FLOP/s" in r and n.split("/")[0] in ("gemm", "gemv")]
    return table(["product", "µs", "GFLOP/s"], out)


def dispatch(rows):
    """Microseconds a dispatch: recorded and submitted (CPU time of the thread), and to completion (wall time)."""
    out = []
    for batch in (1, 16, 64, 256, 1000):
        for params in ("same", "vary"):
            line = [str(batch), params]
            for phase in ("submit", "complete"):
                found = {way: rows.get(f"{way}/{params}_{phase}/{batch}") for way in ("raw", "stream", "graph")}
                if not all(found.values()):
                    break
                each = {way: row["us"] / batch for way, row in found.items()}
                line += [f"{each['raw']:.2f}"] + [f"{each[w]:.2f} ({each[w] / each['raw']:.2f})" for w in ("stream", "graph")]
            if len(line) == 8:
                out.append(line)
    return table(["batch", "parameters", "to submit: raw, µs", "stream (of raw)", "graph (of raw)",
                  "to completion: raw, µs", "stream (of raw)", "graph (of raw)"], out)


LAYERS = ("conv", "attention", "softmax", "layer_norm", "rms_norm", "var", "sum_rows", "cumsum", "sort", "topk32", "fft",
          "random_normal", "embedding", "matmul", "matmul_bias_gelu", "matvec", "matvec_transposed")


def layers(rows, peer):
    """Rows of bench/layers.cpp, by calls a second, beside the same in PyTorch where that was measured on this device."""
    out = []
    for name, row in rows.items():
        if name.split("/")[0] not in LAYERS or "items_per_second" not in row:
            continue
        line = [name.replace("/", " "), f"{1e6 / row['items_per_second']:,.1f}"]
        if "FLOP/s" in row and "bytes_per_second" not in row:
            line.append(f"{row['FLOP/s'] / 1e12:.2f} TFLOP/s" if row["FLOP/s"] > 1e12 else f"{row['FLOP/s'] / 1e9:.1f} GFLOP/s")
        else:
            line.append(f"{row['bytes_per_second'] / 1e9:,.1f} GB/s" if "bytes_per_second" in row else "–")
        other = peer.get(name)
        line.append(f"{row['items_per_second'] / other['items_per_second']:.2f}" if other else "–")
        out.append(line)
    return table(["layer", "µs", "rate", "of PyTorch"], out)


def peers():
    """ONNX Runtime's WebGPU provider beside Weft, op by op."""
    text = ""
    for path in sorted((ROOT / "bench" / "results" / "peers").glob("ort_*.json")):
        data = json.loads(path.read_text())
        out = [[n, f"{r['onnxruntime_ms']:.2f}", f"{r['weft_ms']:.2f}", f"{r['ratio']:.2f}"] for n, r in data["rows"].items()]
        text += (f"\n## ONNX Runtime WebGPU {data['onnxruntime']} beside Weft, {data['device']}\n\n{data['note']} {data['date'][:10]}; "
                 f"`bench/results/peers/{path.name}`, by `bench/peers/ort_ops.py`.\n\n")
        text += table(["op", "ONNX Runtime, ms", "Weft, ms", "times as fast"], out)
    return text


def pool(rows):
    out = [[n, f"{rows[n]['us']:.2f}"] for n in rows if n.split("/")[0] in ("raw_create", "pool_hit", "pool_miss", "churn")]
    return table(["pool", "µs"], out)


def report():
    text = (ROOT / "bench" / "benchmarks.head.md").read_text()
    for path in sorted((ROOT / "bench" / "results").glob("*.json")):
        data = json.loads(path.read_text())
        c, rows = data["context"], data["rows"]
        text += f"\n## {c['adapter']}, {c['webgpu']}\n\nDriver {c['driver']}; {c['num_cpus']} CPU cores; {c['date'][:10]}; `bench/results/{path.name}`.\n"
        beside = ROOT / "bench" / "results" / "peers" / f"pytorch_{path.stem.rsplit('-wgpu-native', 1)[0].rsplit('-dawn', 1)[0]}.json"
        peer = json.loads(beside.read_text())["rows"] if beside.exists() else {}
        for part in (transfers, pool, bandwidth, flops, lambda r: layers(r, peer), dispatch):
            made = part(rows)
            if made:
                text += "\n" + made
    text += peers()
    (ROOT / "docs" / "benchmarks.md").write_text(text)


if __name__ == "__main__":
    if sys.argv[1] == "join":
        join(sys.argv[2], sys.argv[3:])
    else:
        report()
