"""The arguments of the commands that make a submission: prepare, pack, new, fix and final-report."""

from __future__ import annotations

import argparse
from pathlib import Path

_DIVISIONS = ("closed", "open", "network")


def _chores(text: str) -> list[str]:
    from assay.prepare.planning import CHORES

    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in CHORES:
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(CHORES)}")
    return names


def add_prepare_options(parser: argparse.ArgumentParser) -> None:
    """What ``assay prepare`` takes."""
    parser.description = (
        "Say what a submission made of TREE would hold, step by step, and then make it: junk left "
        "out, names and layout as the round has them, allowed results inferred, accuracy logs "
        "truncated. TREE is only read. docs/preparing.md explains every step."
    )
    parser.add_argument("tree", type=Path, metavar="TREE", help="a submission, or a part of one")
    parser.add_argument("--round", required=True, metavar="R", help="the round to prepare for")
    parser.add_argument(
        "--out", type=Path, metavar="NEW", help="the new tree; its folder exists, NEW does not"
    )
    parser.add_argument("--dry-run", action="store_true", help="only show the plan")
    parser.add_argument("--format", choices=("terminal", "json"), default="terminal")
    parser.add_argument(
        "--backup",
        type=Path,
        metavar="FOLDER",
        help="where whole logs are kept (default: NEW.whole-logs)",
    )
    parser.add_argument(
        "--skip",
        type=_chores,
        action="extend",
        default=[],
        metavar="CHORE,…",
        help="leave chores out: junk, names, layout, describe, infer, failed, truncate",
    )
    parser.add_argument(
        "--infer-beyond",
        action="store_true",
        help="infer also scenarios that a benchmark does not have in the round (open division only)",
    )
    failed = parser.add_mutually_exclusive_group()
    failed.add_argument(
        "--keep-failed", action="store_true", help="keep results that fail (default: left out)"
    )
    failed.add_argument(
        "--move-failed-to-open",
        action="store_true",
        help="move results that fail to the open division, with model_mapping.json",
    )
    parser.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="PATTERN",
        help="leave out what matches, in .gitignore's syntax (repeatable; extra: prepare)",
    )
    parser.add_argument(
        "--exclude-from",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="read such patterns from a file",
    )
    parser.add_argument(
        "--division", choices=_DIVISIONS, help="where TREE belongs, if it is a part of a submission"
    )
    parser.add_argument("--submitter", metavar="NAME", help="whose it is, likewise")
    parser.add_argument("--system", metavar="NAME", help="which system's, likewise")
    parser.add_argument(
        "--names-from",
        type=Path,
        metavar="PLAN.json",
        help="undo the moves of an earlier plan, to convert a layout back",
    )
    parser.add_argument("--no-progress", action="store_true", help="no progress on standard error")


def add_pack_options(parser: argparse.ArgumentParser) -> None:
    """What ``assay pack`` takes."""
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
    parser.add_argument("--no-progress", action="store_true", help="no progress on standard error")


def add_new_options(parser: argparse.ArgumentParser) -> None:
    """What ``assay new`` takes."""
    parser.description = (
        "Make an empty submission for one system: every field and document that the round asks for, with "
        "what they mean in documentation/to-fill-in.md. assay check names what is still empty."
    )
    parser.add_argument("--round", required=True, metavar="R", help="the round to submit to")
    parser.add_argument("--submitter", required=True, metavar="S", help="the submitter's folder")
    parser.add_argument("--system", required=True, metavar="X", help="the system's name")
    parser.add_argument("--division", choices=_DIVISIONS, default="closed")
    parser.add_argument(
        "--category",
        choices=("datacenter", "edge", "datacenter,edge"),
        default="",
        help="the suite of benchmarks",
    )
    parser.add_argument(
        "--benchmark",
        action="append",
        default=[],
        metavar="B",
        help="add the folders of its required scenarios (repeatable; needs --category)",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="NEW", help="the new tree")


def add_fix_options(parser: argparse.ArgumentParser) -> None:
    """What ``assay fix`` takes."""
    parser.description = (
        "Fix in TREE what a check finds and a machine can fix; assay rules ID says which rules these are. "
        "What is moved, changed or taken out goes to an undo folder beside TREE."
    )
    parser.add_argument("tree", type=Path, metavar="TREE", help="the submission's folder")
    parser.add_argument("--round", metavar="R", help="the round (default: detected from the tree)")
    parser.add_argument("--dry-run", action="store_true", help="only show the fixes")
    parser.add_argument("--format", choices=("terminal", "json"), default="terminal")
    parser.add_argument(
        "--select", action="append", default=[], metavar="ID,…", help="only findings of these rules"
    )
    parser.add_argument(
        "--path",
        action="append",
        default=[],
        metavar="PATTERN",
        help="only files that match, such as 'closed/Acme/*' (repeatable)",
    )
    parser.add_argument(
        "--undo",
        type=Path,
        metavar="FOLDER",
        help="restore what a fix changed, from its undo folder",
    )


def add_final_report_options(parser: argparse.ArgumentParser) -> None:
    """What ``assay final-report`` takes."""
    parser.description = (
        "Write the workbook of a round: a sheet for each category and division, and for power; a row for "
        "each system, a column for each benchmark, scenario and unit. Every valid result is in exactly one "
        "cell; two for one cell, or one result in two reports, are an error."
    )
    parser.add_argument(
        "reports",
        type=Path,
        nargs="+",
        metavar="REPORT.json",
        help="from assay check TREE --output REPORT.json",
    )
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="the .xlsx file")
    parser.add_argument(
        "--ids",
        type=Path,
        metavar="FILE",
        help="JSON file of the systems' IDs: read, and written with those of new systems",
    )
    parser.add_argument(
        "--repository",
        metavar="URL",
        help="address of the published tree, for the links of Details and Code",
    )
