"""The driver of script/bench: measures, writes bench/results/, docs/benchmarks.md and its plots.

Runs our programs and the peers in turns on one device. From the repository's root, with programs that are ready:

    python3 -m bench.driver --bin DIR [--launch 'PREFIX WORDS'] [--bin DIR2 --launch ...] [options]
"""
import argparse
import os
import pathlib
import shlex
import signal
import sys
import tempfile

from . import report
from .results import FOLDER, Results, load_all
from .session import Session, Side, is_cpu


def parse():
    p = argparse.ArgumentParser(prog="script/bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", action="append", default=[], metavar="DIR", help="folder of weft_bench_* (and weft); several: one an implementation, in turns")
    p.add_argument("--launch", action="append", default=[], metavar="WORDS", help="what the programs of each --bin are started with, in the same order")
    p.add_argument("--peer-bin", action="append", default=[], metavar="DIR", help="where oxicuda-peer is, besides each --bin")
    p.add_argument("--peer-python", action="append", default=[], metavar="PYTHON", help="an interpreter that has a peer's packages, besides this one")
    p.add_argument("--peer-launch", metavar="WORDS", help="what peers on WebGPU are started with (as the first --launch)")
    p.add_argument("--filter", default=".", metavar="REGEX", help="only rows that match; others keep the figures they have")
    p.add_argument("--large", action="store_true", help="on a CPU device too: arrays of 1 GiB and transfers of 256 MiB (minutes)")
    p.add_argument("--quick", action="store_true", help="3 short rounds of the rows that targets and plots need")
    p.add_argument("--rounds", type=int, help="of each match (5; 3 with --quick)")
    p.add_argument("--min-time", type=float, help="seconds of each row and round (0.05; 0.02 with --quick and on CPU devices)")
    p.add_argument("--minutes", type=float, help="start no further match after so long")
    p.add_argument("--row-limit", type=float, default=60, help="seconds after which a row's program is stopped (60)")
    p.add_argument("--control-share", type=float, help="a round is flagged when its control is off by more (0.1; 0.25 on CPU devices)")
    p.add_argument("--no-peers", action="store_true")
    p.add_argument("--list", action="store_true", help="print what would run, and end")
    p.add_argument("--out", default=str(FOLDER), metavar="DIR", help="where the JSON goes (bench/results)")
    p.add_argument("--no-report", action="store_true", help="leave docs/benchmarks.md and its plots as they are")
    p.add_argument("--report-only", action="store_true", help="write docs/benchmarks.md and its plots from the JSON, and end")
    return p.parse_args()


def main():
    args = parse()
    if args.report_only:
        for path in report.write(load_all(args.out)):
            print(f"wrote {os.path.relpath(path)}")
        return
    if not args.bin:
        raise SystemExit("script/bench: no programs. Fix: name their folder with --bin, or start script/bench.")
    if args.launch and len(args.launch) != len(args.bin):
        raise SystemExit("script/bench: --launch must be given for each --bin or for none. Fix: --launch '' for a plain start.")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended too
    options = " ".join(a for a in sys.argv[1:] if a in ("--quick", "--large", "--no-peers")) + (f" --filter {args.filter}" if args.filter != "." else "")
    with tempfile.TemporaryDirectory() as folder:
        env = {"XDG_RUNTIME_DIR": folder, **os.environ}
        args.rounds = args.rounds or (3 if args.quick else 5)
        launches = [shlex.split(w) for w in args.launch] or [[]] * len(args.bin)
        cpu = is_cpu(args.bin[0], launches[0], env)
        args.min_time = args.min_time or (0.02 if args.quick or cpu else 0.05)
        args.control_share = args.control_share or (0.25 if cpu else 0.1)
        sides = [Side(b, launch, args.min_time, env) for b, launch in zip(args.bin, launches)]
        for side in sides:
            if side.hello is None:
                why = "; ".join(f"{p}: {w}" for p, w in side.missing.items())
                raise SystemExit(f"script/bench: nothing in {side.folder} runs ({why}). Fix: build it, or see --launch.")
        session = Session(args, sides, env)
        args.peer_bin += args.bin
        args.peer_launch = None if args.peer_launch is None else shlex.split(args.peer_launch)
        try:
            if not args.no_peers:
                session.start_peers()
            for side in sides:
                print(f"{side.hello['adapter']}, {side.hello['driver']}, {side.hello['webgpu']}")
            for name, why in session.peer_errors.items():
                print(f"without {name}: {why}")
            if args.list:
                for match, entries in session.matches().items():
                    print(match + ": " + ", ".join(sorted({f"{e.row} ({e.who})" if e.row != match else e.who for e in entries})))
                return
            results = Results(session, options.strip(), args.out)
            try:
                session.run(results)
                session.run_one_shots(results)
                session.run_in_blocks(results)
                if not args.no_peers and not args.quick:
                    session.run_python_ops(results)
                results.finished = True
            except KeyboardInterrupt:
                results.note("interrupted")
            written = results.save(session)
        finally:
            session.close()
    for path in written:
        print(f"wrote {os.path.relpath(path)}")
    if not args.no_report and pathlib.Path(args.out).resolve() == FOLDER:
        for path in report.write(load_all()):
            print(f"wrote {os.path.relpath(path)}")


main()
