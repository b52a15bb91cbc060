"""``assay pack``: checks a tree and makes an archive of it, with manifest and report."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Callable
from pathlib import Path

from assay.progress import Line
from assay.signals import held

Write = Callable[[str], None]


def pack(options: argparse.Namespace, write: Write, say: Write) -> int:
    """Exit status: 0 packed; 1 the tree has errors (with ``--anyway`` it was packed all the same); 2
    no archive for another reason."""
    with held():
        import checker.engine  # noqa: F401
        from assay.prepare import packing
    from assay.preparing import checked, round_of, verdict
    from assay.status import EXIT_ERRORS, EXIT_OK, Usage

    if not options.tree.is_dir():
        raise Usage(f"{options.tree}: not a folder")
    try:
        packing.refuse(options.tree, options.out)
    except packing.CannotPack as error:
        raise Usage(str(error)) from error
    report = checked(options.tree, round_of(options.round) if options.round else None)
    write(f"{options.tree}: {verdict(report)}\n")
    if report.summary.errors and not options.anyway:
        say(
            f"assay: not packed: {options.tree} does not check. See assay check; --anyway packs it all the "
            "same, and the manifest says so"
        )
        return EXIT_ERRORS
    line = Line(enabled=not options.no_progress)

    def progress(done: int, total: int) -> None:
        line.show(f"packing {done / 1e6:,.0f} of {total / 1e6:,.0f} MB", force=done == total)

    try:
        made = packing.pack(options.tree, options.out, report, progress)
        line.clear()
        write(
            f"{made.path}: {made.files:,} files, {made.bytes:,} bytes, SHA-256 {made.sha256}\n"
            f"{made.manifest}: the manifest\n{made.report}: the report\n"
        )
        if options.age_recipient:
            write(_encrypted(packing.encrypt_for(made.path, options.age_recipient), "age"))
        if options.openssl_passphrase:
            place = packing.encrypt_with(made.path, options.openssl_passphrase)
            write(_encrypted(place, "openssl"))
    except packing.CannotPack as error:
        raise Usage(str(error)) from error
    finally:
        line.clear()
    return EXIT_ERRORS if report.summary.errors else EXIT_OK


def _encrypted(place: Path, program: str) -> str:
    """The file and its hashes: the results chair asks for the SHA-1."""
    with place.open("rb") as stream:
        sha1 = hashlib.file_digest(stream, lambda: hashlib.sha1(usedforsecurity=False)).hexdigest()
        stream.seek(0)
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    return f"{place}: encrypted by {program}, SHA-1 {sha1}, SHA-256 {sha256}\n"
