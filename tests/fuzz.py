"""Random programs by the thousand, in a child process that may crash or hang: `python -m fuzz KIND --first SEED --count N`.

    python -m fuzz mixed compiled zeros --first 7000000 7000000 2000000 --processes 16 --seconds 300

shares several kinds among processes: process p runs the programs of kind p mod 3, N of them from FIRST + N·⌊p/3⌋ on, and says
in one line which seeds it has run, and which of them differ.

Each kind is a function of a test file that checks the program of one seed, and raises if anything differs. The child says which
seed it begins; if it dies, or needs longer than LIMIT seconds for one program, that seed is reported with the stack, and the next
child goes on after it.
"""

import argparse
import faulthandler
import importlib.util
import os
import subprocess
import sys
import time
import traceback
import warnings
from pathlib import Path

HERE = Path(__file__).parent
KINDS = {
    "inplace": ("numpy/test_inplace_programs.py", "check"),
    "mixed": ("test_mixed_programs.py", "check_eager"),
    "compiled": ("test_mixed_programs.py", "check_compiled"),
    "wide": ("test_wide_programs.py", "check_eager"),
    "wide-compiled": ("test_wide_programs.py", "check_compiled"),
    "statements": ("test_random_statements.py", "check"),
    "stateful": ("test_random_state.py", "check"),
    "nests": ("test_random_nests.py", "check"),
    "stencils": ("test_random_stencils.py", "check"),
    "whole": ("test_whole_programs.py", "check"),
    "zeros": ("extreme.py", "check"),
    "masks": ("extreme.py", "check_masks"),
}
LIMIT = 60  # seconds for one program; on a machine that is busy with other work, pass more
AT_ONCE = 500  # programs of one child, so that what it holds is given back


def checker(kind):
    path, name = HERE / KINDS[kind][0], KINDS[kind][1]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def child(kind, seeds, seconds, limit):
    """Check programs; one line on stdout as each begins, everything about a difference on stderr."""
    check = checker(kind)
    warnings.simplefilter("ignore")
    end = time.monotonic() + seconds
    for seed in seeds:
        if seed > seeds[0] and time.monotonic() > end:
            break
        print(seed, flush=True)
        faulthandler.dump_traceback_later(limit, exit=True)
        try:
            check(seed)
        except Exception:
            print(f"---- {kind} {seed} differs\n{traceback.format_exc()}", file=sys.stderr, flush=True)
    faulthandler.cancel_dump_traceback_later()


def environment():
    """That of a child, which imports what this process does, from whatever folder; each has one core."""
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def share(kinds, firsts, count, seconds, limit, processes):
    """Whether all programs that these processes have run agree; each prints its last line when it is done."""
    running = []
    for number in range(processes):
        turn, which = divmod(number, len(kinds))
        options = ["--first", str(firsts[which] + turn * count), "--count", str(count), "--seconds", str(seconds)]
        command = [sys.executable, "-m", "fuzz", kinds[which], *options, "--limit", str(limit)]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HERE, env=environment()))
    agree = True
    for number, process in enumerate(running):
        lines = process.communicate()[0].splitlines()
        print(f"process {number}: {lines[-1] if lines else 'nothing was run'} (exit {process.returncode})", flush=True)
        agree &= process.returncode == 0
    return agree


def run(kind, first, count, seconds, limit, log):
    """How many programs were run, and the seeds of those that differ or crash."""
    end, seed, bad = time.monotonic() + seconds, first, []
    while seed < first + count and time.monotonic() < end:
        upto = min(seed + AT_ONCE, first + count)
        seeds = ["--first", str(seed), "--count", str(upto - seed), "--seconds", str(end - time.monotonic())]
        command = [sys.executable, "-X", "faulthandler", "-m", "fuzz", kind, "--child", *seeds, "--limit", str(limit)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HERE, env=environment())
        bad += [int(line.split()[2]) for line in done.stderr.splitlines() if line.startswith("---- ")]
        log.write(done.stderr)
        begun = [int(line) for line in done.stdout.split()]
        if done.returncode:
            if not begun:
                raise RuntimeError(done.stderr)
            bad.append(begun[-1])
            log.write(f"---- {kind} {begun[-1]} ended the process: {done.returncode}\n")
        seed = begun[-1] + 1
        log.flush()
        print(f"{kind}: {first} to {seed - 1}, {len(bad)} bad", flush=True)
    return seed - first, bad


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", choices=KINDS, nargs="+", metavar="kind", help=", ".join(KINDS))
    parser.add_argument("--first", type=int, nargs="+", default=[0], help="a seed, or one for each kind")
    parser.add_argument("--count", type=int, help="programs of each kind and process; 1000, or 100000 for several processes")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no further program after this time")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for one program")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--log", type=argparse.FileType("a"), default=sys.stderr)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    firsts = asked.first * len(asked.kinds) if len(asked.first) == 1 else asked.first
    if len(firsts) != len(asked.kinds):
        parser.error(f"--first gives {len(firsts)} seeds for {len(asked.kinds)} kinds")
    if asked.processes > 1:
        sys.exit(not share(asked.kinds, firsts, asked.count or 100_000, asked.seconds, asked.limit, asked.processes))
    count, agree = asked.count or 1000, True
    for kind, first in zip(asked.kinds, firsts, strict=True):
        if asked.child:
            child(kind, range(first, first + count), asked.seconds, asked.limit)
            continue
        ran, bad = run(kind, first, count, asked.seconds, asked.limit, asked.log)
        print(f"{kind}: {ran} programs, seeds {first} to {first + ran - 1}; differing: {bad or 'none'}")
        agree &= not bad
    sys.exit(not agree)


if __name__ == "__main__":
    main()
