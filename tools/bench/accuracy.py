"""How fast accuracy logs are read, and in how much memory: ``python -m tools.bench.accuracy``.

Writes a log of 2 GB (or ``--gigabytes``) into a temporary folder, reads it, scores one, and
prints MB/s and peak memory. Two shapes: small records (labels) and large ones (images of 3 MiB).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

PROGRAM = textwrap.dedent(
    """
    import resource, sys, time
    from checker.accuracy.log import read_samples
    from checker.accuracy.top1 import score_log
    kind, path = sys.argv[1:]
    start = time.perf_counter()
    if kind == "score":
        count = score_log(path, [499] * 50_000, sha256=True).total
    else:
        count = sum(1 for _ in read_samples(path, sha256=kind == "hash"))
    took = time.perf_counter() - start
    busy = time.process_time()
    print(count, took, busy, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
    """
)


def small() -> Iterator[bytes]:
    """Blocks of label records, forever."""
    while True:
        yield b"".join(
            b'{ "seq_id" : %d, "qsl_idx" : %d, "data" : "0080F943" },\n' % (at, at)
            for at in range(50_000)
        )


def large() -> Iterator[bytes]:
    """Records of 3 MiB of data each, forever."""
    text = os.urandom(3 << 20).hex().upper().encode()
    at = 0
    while True:
        yield b'{ "seq_id" : %d, "qsl_idx" : %d, "data" : "%s" },\n' % (at, at, text)
        at += 1


def main() -> None:
    """Write, read and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    size = parser.parse_args().gigabytes * 1e9
    root = Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory() as folder:
        for name, blocks, kinds in (
            ("labels", small(), ("read", "hash", "score")),
            ("images", large(), ("read", "hash")),
        ):
            path = Path(folder) / f"{name}.json"
            with path.open("wb") as out:
                out.write(b"[\n")
                while out.tell() < size:
                    out.write(next(blocks))
                out.write(b"]\n")
            written = path.stat().st_size
            for kind in kinds:
                done = subprocess.run(
                    [sys.executable, "-c", PROGRAM, kind, str(path)],
                    capture_output=True,
                    text=True,
                    check=True,
                    cwd=root,
                )
                count, took, busy, peak = done.stdout.split()
                print(
                    f"{name:7} {kind:6} {written / 1e9:.2f} GB  {count:>7} samples  "
                    f"{written / 1e6 / float(took):6.0f} MB/s  "
                    f"{written / 1e6 / float(busy):6.0f} MB per CPU second  "
                    f"peak {peak} MB"
                )
            path.unlink()


if __name__ == "__main__":
    main()
