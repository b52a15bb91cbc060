"""`python -m tests.fuzz --seconds 600 [--only detail] [--trees 1000] [--seed 7]`

Coverage-guided fuzzing of every parser (atheris), then seeded damage to whole trees. The time is
divided among the parsers; each runs in a process of its own. Prints what was tried, the lines of
checker/parse that were reached, and each finding; exit status 1 if there is one.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOUND = Path(__file__).parent / "found"
SLOWEST_S = 10
MOST_MIB = 2048
LEAST_COVERED = 0.9


def main() -> int:
    options = _arguments()
    if options.child:
        return _child(options.child, options.rest)
    from tests.fuzz.made import MADE
    from tests.fuzz.parsers import PARSERS
    from tests.fuzz.seeds import seeds
    from tests.fuzz.trees import damage_trees

    try:
        import atheris  # noqa: F401
    except ImportError:
        print('fuzzing needs atheris: pip install -e ".[fuzz]"', file=sys.stderr)
        return 2
    names = options.only or list(PARSERS)
    keep = Path(options.corpus or tempfile.mkdtemp(prefix="assay-fuzz-corpus-"))
    bad = 0
    with tempfile.TemporaryDirectory(prefix="assay-fuzz-seeds-") as folder:
        start = seeds(Path(folder))
    each = max(2, int(options.seconds * 0.8 / len(names)))
    for name in names:
        corpus = keep / name
        corpus.mkdir(parents=True, exist_ok=True)
        for number, content in enumerate(start.get(name, [])):
            (corpus / f"seed-{number}").write_bytes(content)
        for number, content in enumerate(MADE.get(name, [])):
            (corpus / f"made-{number}").write_bytes(content)
        for number, place in enumerate(sorted(FOUND.glob(f"{name}-*"))):
            (corpus / f"found-{number}").write_bytes(place.read_bytes())
        bad += _fuzz(name, corpus, each, options.seed)
    # One parser alone reaches its own file only.
    bad += 0 if options.only else _coverage(keep, names)
    if options.trees:
        found = damage_trees(
            options.trees, seed=options.seed, seconds=max(2.0, options.seconds * 0.2)
        )
        print(found.text())
        bad += len(found.wrong)
    return 1 if bad else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--only", action="append", help="one parser; may be given several times")
    parser.add_argument("--trees", type=int, default=1000, help="how many trees to damage")
    parser.add_argument("--seed", type=int, default=0, help="0: another one each time")
    parser.add_argument("--corpus", help="folder whose inputs are kept from one run to the next")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.seed = options.seed or int(time.time())
    return options


def _fuzz(name: str, corpus: Path, seconds: int, seed: int) -> int:
    """One parser in one process. Returns how many findings there were."""
    crashes = corpus.parent / f"{name}-crashes"
    crashes.mkdir(exist_ok=True)
    began, count, bad = time.monotonic(), 0, 0
    while True:
        left = max(1, round(began + seconds - time.monotonic()))
        before = set(crashes.iterdir())
        done = _child_process(
            [
                name,
                "--",
                f"-max_total_time={left}",
                f"-timeout={SLOWEST_S}",
                f"-rss_limit_mb={MOST_MIB}",
                f"-seed={seed % 2**31}",
                "-max_len=24000",
                "-print_final_stats=1",
                f"-artifact_prefix={crashes}/",
                str(corpus),
            ]
        )
        said = done.stdout + done.stderr
        found = re.search(r"stat::number_of_executed_units:\s*(\d+)", said)
        count += int(found[1]) if found else 0
        new = sorted(set(crashes.iterdir()) - before)
        held_up = [place for place in new if _was_held_up(name, place)]
        for place in held_up:
            place.unlink()
        # A machine that was stopped for a while stops the fuzzer too, as if its input were slow.
        if held_up == new != [] and time.monotonic() - began < seconds:
            continue
        break
    print(f"{name:<14} {count:>10,} inputs in {seconds} s, seed {seed}")
    if done.returncode and not new:
        print(f"  the fuzzer itself ended with {done.returncode}:\n{said[-2000:]}")
        return 1
    for place in sorted(set(new) - set(held_up)):
        bad += 1
        print(f"  FOUND {place}; keep it as tests/fuzz/found/{name}-…\n{_traceback(said)}")
    return bad


def _child_process(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--child", *arguments],
        capture_output=True,
        text=True,
        errors="replace",
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def _was_held_up(name: str, place: Path) -> bool:
    """Whether an input that took too long takes no time when it is tried again by itself."""
    if not place.name.startswith("timeout-"):
        return False
    began = os.times()
    done = _child_process([name, "--", f"-timeout={SLOWEST_S * 10}", str(place)])
    ended = os.times()
    took = ended.children_user + ended.children_system
    took -= began.children_user + began.children_system
    return done.returncode == 0 and took < SLOWEST_S


def _traceback(said: str) -> str:
    at = said.find("=== Uncaught Python exception")
    return said[at : at + 2000] if at >= 0 else said[-1500:]


def _child(name: str, rest: list[str]) -> int:
    import atheris

    with atheris.instrument_imports(include=["checker", "schemas"]):
        from tests.fuzz.parsers import PARSERS
    atheris.Setup([sys.argv[0], *rest], PARSERS[name])
    atheris.Fuzz()
    return 0


def _coverage(keep: Path, names: list[str]) -> int:
    """Lines of checker/parse that the collected inputs reach; how many files have too few."""
    try:
        import coverage
    except ImportError:
        print("coverage is not installed: lines reached are not known")
        return 0
    code = (
        "import sys\nfrom pathlib import Path\nfrom tests.fuzz.parsers import PARSERS\n"
        "for name in sys.argv[2:]:\n"
        "  for place in sorted((Path(sys.argv[1]) / name).iterdir()): PARSERS[name](place.read_bytes())\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        script, data = Path(folder) / "replay.py", f"{folder}/data"
        script.write_text(code)
        subprocess.run(
            [
                sys.executable,
                "-m",
                "coverage",
                "run",
                f"--data-file={data}",
                "--include=*/checker/parse/*",
                str(script),
                str(keep),
                *names,
            ],
            cwd=ROOT,
            check=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        lines = coverage.Coverage(data_file=data)
        lines.load()
        lines.report(skip_empty=True)
        low = []
        for place in sorted(lines.get_data().measured_files()):
            _, statements, _, missing, _ = lines.analysis2(place)
            if len(missing) > len(statements) * (1 - LEAST_COVERED):
                low.append(Path(place).name)
        if low:
            print(f"  FOUND less than {LEAST_COVERED:.0%} of the lines of {', '.join(low)} reached")
        return len(low)


if __name__ == "__main__":
    sys.exit(main())
