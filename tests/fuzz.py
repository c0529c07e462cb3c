"""Random programs by the thousand, in a child process that may crash or hang: `python -m fuzz KIND --first SEED --count N`.

Each kind is a function of a test file that checks the program of one seed, and raises if anything differs. The child says which
seed it begins; if it dies, or needs longer than SECONDS for one program, that seed is reported with the stack, and the next child
goes on after it.
"""

import argparse
import faulthandler
import importlib.util
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
    "statements": ("test_random_statements.py", "check"),
    "zeros": ("extreme.py", "check"),
    "masks": ("extreme.py", "check_masks"),
}
SECONDS = 60  # for one program
AT_ONCE = 500  # programs of one child, so that what it holds is given back


def checker(kind):
    path, name = HERE / KINDS[kind][0], KINDS[kind][1]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def child(kind, seeds, seconds):
    """Check programs; one line on stdout as each begins, everything about a difference on stderr."""
    check = checker(kind)
    warnings.simplefilter("ignore")
    end = time.monotonic() + seconds
    for seed in seeds:
        if seed > seeds[0] and time.monotonic() > end:
            break
        print(seed, flush=True)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        try:
            check(seed)
        except Exception:
            print(f"---- {kind} {seed} differs\n{traceback.format_exc()}", file=sys.stderr, flush=True)
    faulthandler.cancel_dump_traceback_later()


def run(kind, first, count, seconds, log):
    """How many programs were run, and the seeds of those that differ or crash."""
    end, seed, bad = time.monotonic() + seconds, first, []
    while seed < first + count and time.monotonic() < end:
        upto = min(seed + AT_ONCE, first + count)
        seeds = ["--first", str(seed), "--count", str(upto - seed), "--seconds", str(end - time.monotonic())]
        command = [sys.executable, "-X", "faulthandler", "-m", "fuzz", kind, "--child", *seeds]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HERE)
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
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no further program after this time")
    parser.add_argument("--log", type=argparse.FileType("a"), default=sys.stderr)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        child(asked.kind, range(asked.first, asked.first + asked.count), asked.seconds)
        return
    ran, bad = run(asked.kind, asked.first, asked.count, asked.seconds, asked.log)
    print(f"{asked.kind}: {ran} programs from seed {asked.first}; bad: {bad or 'none'}")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
