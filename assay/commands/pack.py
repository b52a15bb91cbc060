"""``assay pack``: checks a tree and makes an archive of it, with manifest and report."""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from typing import Any

from assay.arguments import add_no_progress
from assay.progress import Line
from assay.signals import held
from assay.status import EXIT_ERRORS, EXIT_OK, Usage
from assay.terminal import say, write


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "pack",
        allow_abbrev=False,
        help="make a reproducible archive of a submission that checks, with manifest and report",
    )
    parser.description = (
        "Check TREE and, if no error is found, write an archive that is the same byte for byte whenever "
        "it is made of the same tree; beside it S.manifest.json with the SHA-256 of every file, and "
        "S.report.json. assay check S --manifest verifies it."
    )
    parser.add_argument("tree", type=Path, metavar="TREE", help="the submission's folder")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="S", help="the archive: .tar.gz or .tar.zst"
    )
    parser.add_argument(
        "--round", metavar="R", help="the round to check by (default: detected from the tree)"
    )
    parser.add_argument(
        "--anyway", action="store_true", help="pack a tree with errors; the manifest says so"
    )
    parser.add_argument(
        "--age-recipient", metavar="KEY", help="encrypt for this public key too, as S.age, by age"
    )
    parser.add_argument(
        "--openssl-passphrase",
        type=Path,
        metavar="FILE",
        help="encrypt too, as S.enc, by openssl with the passphrase in FILE (AES-256, PBKDF2)",
    )
    add_no_progress(parser)
    parser.set_defaults(handler=run)


def run(options: argparse.Namespace) -> int:
    """Exit status: 0 packed; 1 the tree has errors (with ``--anyway`` it was packed all the same); 2
    no archive for another reason."""
    with held():
        import checker.engine  # noqa: F401
        from assay.prepare import packing
    from assay.preparing import checked, round_of, verdict

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
