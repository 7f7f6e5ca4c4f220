"""docs/benchmarks.md and its plots, from bench/results/*.json, bench/benchmarks.head.md and bench/missed.md."""
import os
import re

from . import plots
from .results import ROOT
from .targets import TARGETS, copy_rate

DOCS = ROOT / "docs"
HEAD = ROOT / "bench" / "benchmarks.head.md"
MISSED = ROOT / "bench" / "missed.md"
PEERS = {"onnxruntime": "ONNX Runtime", "oxicuda-webgpu": "oxicuda", "pytorch": "PyTorch", "numpy": "numpy"}


def table(head, rows):
    if not rows:
        return ""
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(r) + " |" for r in rows)]) + "\n"


def time_text(us):
    for unit, size in (("s", 1e6), ("ms", 1e3), ("µs", 1), ("ns", 1e-3)):
        if us >= size:
            value = us / size
            return f"{value:.2f} {unit}" if value < 10 else f"{value:.1f} {unit}" if value < 100 else f"{value:,.0f} {unit}"
    return f"{us * 1e3:.2g} ns"


def bounds():
    """key -> prose of bench/missed.md: sections `## key`."""
    if not MISSED.exists():
        return {}
    parts = re.split(r"^## (\S+)\n", MISSED.read_text(), flags=re.M)
    return {key: text.strip() for key, text in zip(parts[1::2], parts[2::2])}


def targets(devices, prose):
    """One table a device, then what bounds the missed ones."""
    text, missed = "", {}
    for name in names_of(devices):
        of = of_device(devices, name)
        rows = []
        for t in TARGETS:
            if not any(t.applies(d) for d in of):
                continue
            line = [t.what, t.wanted_text()]
            for d in of:
                if not t.applies(d):
                    line.append("–")
                    continue
                figure = t.figure(d)
                if figure is None:
                    line.append(f"not measured ({t.needs})")
                    continue
                reached = t.reached(figure)
                if not reached:
                    missed.setdefault(t.key, (t, []))[1].append(f"{plots.label_of(d)} on {d.context['adapter']}")
                line.append(("**reached** " if reached else "missed ") + figure.text)
            rows.append(line)
        text += f"\n### {of[0].context['adapter']}\n\n" + table(["target", "wanted", *(plots.label_of(d) for d in of)], rows)
    if missed:
        text += "\n### What bounds those missed\n\n"
        for key, (t, where) in missed.items():
            text += f"- **{t.what}** ({', '.join(where)}): {' '.join(prose.get(key, 'not found yet.').split())}\n"
    return text


def names_of(devices):
    """GPUs first."""
    return sorted({d.name for d in devices}, key=lambda n: (next(d.cpu for d in devices if d.name == n), n))


def of_device(devices, name):
    return sorted((d for d in devices if d.name == name), key=lambda d: d.implementation != "wgpu-native")


def peers_of(d, rows):
    return [p for p in PEERS if any(d.figure(r, p) for r in rows)]


def rate_text(d, row):
    flop, moved = d.rate(row, "flop"), d.rate(row, "bytes")
    if flop and not moved:
        return f"{flop / 1e12:.2f} TFLOP/s" if flop > 1e12 else f"{flop / 1e9:.1f} GFLOP/s"
    if moved:
        copy = copy_rate(d)
        return f"{moved / 1e9:,.1f} GB/s" + (f" ({moved / copy:.2f})" if copy else "")
    return "–"


def layers(d, title, rows):
    """Rows beside peers: how many times as fast Weft is."""
    rows = [r for r in rows if d.figure(r) or d.error(r)]
    peers = peers_of(d, rows)
    out = []
    for row in rows:
        if not d.figure(row):
            out.append([row, "failed: " + d.error(row), ""] + [""] * len(peers))
            continue
        line = [row + (" ⚑" if d.figure(row).get("flagged") else ""), time_text(d.figure(row)["us"]), rate_text(d, row)]
        for p in peers:
            ratio = d.ratio(row, p, "weft")
            line.append(f"{ratio:.2f} ({time_text(d.figure(row, p)['us'])})" if ratio else "failed" if d.error(row, p) else "–")
        out.append(line)
    made = table([title, "Weft", "rate (of copy)", *(f"× {PEERS[p]}" for p in peers)], out)
    return made and "\n" + made


def transfers(d):
    out = []
    sizes = sorted({int(r.split("/")[1]) for r in d.rows if r.startswith(("upload/", "readback/"))})
    torch = any(d.figure(f"upload/{s}", "pytorch") for s in sizes)
    for size in sizes:
        line = [plots.bytes_text(size)]
        for way in ("upload", "readback"):
            row = f"{way}/{size}"
            ours, ratio = d.figure(row), d.ratio(row, "weft", "raw")
            if not ours or not ratio:
                line += ["–"] * (3 if torch else 2)
                continue
            line += [time_text(ours["us"]) + (f" ({size / ours['us'] / 1e3:.1f} GB/s)" if size >= 1 << 20 else ""), f"{ratio:.2f}"]
            if torch:
                times = d.ratio(row, "pytorch", "weft")
                line.append(f"{times:.2f}" if times else "–")
        if any(c != "–" for c in line[1:]):
            out.append(line)
    head = ["size"]
    for way in ("upload", "readback"):
        head += [way, "of raw"] + (["× PyTorch"] if torch else [])
    made = table(head, out)
    return made and "\n" + made


def dispatch(d):
    """Microseconds a dispatch: recorded and submitted (CPU time of the thread), and to completion (wall time)."""
    out = []
    for batch in (1, 16, 64, 256, 1000):
        for params in ("same", "vary"):
            line = [f"{batch:,}", params]
            for phase in ("submit", "complete"):
                row = f"dispatch/{params}_{phase}/{batch}"
                raw = d.figure(row, "raw")
                ratios = [d.ratio(row, way, "raw") for way in ("stream", "graph")]
                if not raw or not all(ratios):
                    break
                line += [f"{raw['us']:.2f}"] + [f"{d.figure(row, w)['us']:.2f} ({r:.2f})" for w, r in zip(("stream", "graph"), ratios)]
            if len(line) == 8:
                out.append(line)
    made = table(["batch", "parameters", "to submit: raw, µs", "stream (of raw)", "graph (of raw)", "to completion: raw, µs", "stream (of raw)",
                  "graph (of raw)"], out)
    return made and "\n" + made


def small(d):
    rows = {"relu_chain": "a relu of 4,096 floats, 1,000 in a row", "relu_read": "one relu and four bytes back", "start": "whole process, no caches",
            "cold_start/first": "20 pipelines, first process", "cold_start/second": "20 pipelines, second process"}
    rows.update({r: f"{r.removeprefix('eval/')} of a large file in blocks" for r in d.rows if r.startswith("eval/")})
    out = []
    for row, text in rows.items():
        by = d.rows.get(row, {}).get("by", {})
        found = [f"{PEERS.get(w, w)} {time_text(f['us'])}" for w, f in by.items() if "us" in f]
        if found:
            out.append([text, ", ".join(sorted(found, key=lambda s: not s.startswith("weft"))).replace("weft ", "Weft ", 1)])
    for row in d.rows:
        if row.split("/")[0] in ("raw_create", "pool_hit", "pool_miss", "churn", "mixed_10000", "peak") and d.figure(row):
            out.append([row, time_text(d.figure(row)["us"]) + (f", {rate_text(d, row)}" if "flop" in d.rows[row] else "")])
    made = table(["small things", "each"], out)
    return made and "\n" + made


def failures(d):
    """Each reason once, with its rows."""
    by = {}
    for row, r in d.rows.items():
        for who, f in r["by"].items():
            if "error" in f:
                by.setdefault((who, f["error"]), []).append(row)
    return [f"{PEERS.get(who, who)}: {', '.join(rows)}: {why}" for (who, why), rows in by.items()]


def about(d):
    c = d.context
    text = f"{c['driver']}; {c['webgpu']}; Weft {c['weft']}; {c['cores']} CPU cores; [`{d.path.name}`](../bench/results/{d.path.name}).\n"
    flagged = sum(bool(f.get("flagged")) for r in d.rows.values() for f in r["by"].values())
    for run, r in d.runs.items():
        text += f"\nRun of {run[:16].replace('T', ' ')}: up to {r['rounds']} rounds in turns"
        if r.get("control"):
            k = r["control"]
            text += (f"; control {time_text(k['us'])}, spread {100 * k['spread']:.0f} %, {k['flagged']} of {k['rounds']} rounds off by more than "
                     f"{100 * k['share']:.0f} %")
        if r["load"][1]:
            text += f"; load of the machine {r['load'][0]:.1f}, at most {r['load'][1]:.1f}"
            if r["load"][1] > 2 * c["cores"]:
                text += f" on {c['cores']} cores: **busy with other work, so single ratios mean little; to be repeated when idle**"
        text += "." + "".join(f" {n[0].upper()}{n[1:]}." for n in r["notes"])
        peers = [f"{n} {p['version']}" + (f" ({p['toggles']})" if p.get("toggles") else "") for n, p in r["peers"].items()]
        if peers:
            text += " Beside it: " + "; ".join(peers) + "."
        for n, why in r["absent"].items():
            text += f" Without {n}: {why}."
        text += "\n"
    if flagged:
        text += f"\n⚑ marks rows with a round whose control was off; such rounds count as the others do ({flagged} figures).\n"
    return text


def section(d):
    rows = list(d.rows)
    pick = lambda *families: sorted((r for r in rows if r.split("/")[0] in families),
                                    key=lambda r: (families.index(r.split("/")[0]), [int(v) for v in re.findall(r"\d+", r)]))
    text = f"\n### {d.context['adapter']}, {plots.label_of(d)}\n\n{about(d)}"
    text += layers(d, "products", pick("matmul", "batched_matmul", "matmul_bias_gelu", "gemm", "matvec", "matvec_transposed"))
    text += layers(d, "convolution, attention", pick("conv", "attention"))
    text += layers(d, "rows", pick("softmax", "layer_norm", "rms_norm", "var", "sum_rows", "cumsum", "sort", "topk32", "fft", "random_normal", "embedding"))
    text += layers(d, "arrays (Mi floats)", pick("copy", "add", "relu_op", "exp_op", "sum_op", "sum_columns", "softmax_rows", "layer_norm_rows", "fused_chain"))
    text += layers(d, "with transfers in and out", pick("in"))
    known = ("matmul", "batched_matmul", "matmul_bias_gelu", "gemm", "matvec", "matvec_transposed", "conv", "attention", "softmax", "layer_norm", "rms_norm", "var",
             "sum_rows", "cumsum", "sort", "topk32", "fft", "random_normal", "embedding", "copy", "add", "relu_op", "exp_op", "sum_op", "sum_columns",
             "softmax_rows", "layer_norm_rows", "fused_chain", "in", "relu_chain", "relu_read", "start", "cold_start", "eval", "raw_create", "pool_hit", "pool_miss", "churn",
             "mixed_10000", "peak", "upload", "readback", "dispatch", "python")
    text += layers(d, "through Python, numpy in and out", pick("python"))
    text += layers(d, "others", sorted(r for r in rows if r.split("/")[0] not in known))
    text += transfers(d) + small(d) + dispatch(d)
    failed = failures(d)
    if failed:
        text += "\nWhat could not run:\n\n" + "\n".join(f"- {f}" for f in failed) + "\n"
    return text


TITLES = {"roofline": "Roofline", "gemm": "Matrix products against size", "dispatch": "Dispatch cost against batch", "transfers": "Transfers against size"}


def write(devices):
    if not devices:
        return []
    made = plots.write(devices, DOCS / "plots")
    text = HEAD.read_text().rstrip() + "\n\n## Targets\n" + targets(devices, bounds())
    text += "\n## Plots\n"
    for name in names_of(devices):
        for plot, title in TITLES.items():
            if plot in made.get(name, {}):
                path = os.path.relpath(made[name][plot], DOCS)
                text += f"\n![{title}, {of_device(devices, name)[0].context['adapter']}]({path})\n"
    text += ("\n## All rows\n\nMedians over rounds. «× PEER»: how many times as fast as the peer Weft was, the median of the rounds' ratios, and the peer's "
             "own time. «of copy»: share of the rate of a plain vec4 copy.\n")
    for name in names_of(devices):
        for d in of_device(devices, name):
            text += section(d)
    page = DOCS / "benchmarks.md"
    page.write_text(text)
    return [page, *(p for of in made.values() for p in of.values())]
