"""Carrying out a plan: a new tree beside the old one, complete or not there.

The new tree is made under a name of our own in the folder that takes it and renamed at the end; whole
logs go to the backup first, and each is read back. TREE is only read. Whatever ends the process, TREE is
as it was, and NEW is either complete or absent; what is left under our own name the next run removes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from assay.prepare.draft import real
from assay.prepare.plan import Plan, Step, encode
from checker.accuracy.truncate import KEPT, MARK, SCORES, stated_hash
from checker.parse.reading import CHUNK, File, list_tree, open_file, read_bytes
from schemas.locking import Held, locked
from schemas.writing import kept_if, naming, new_copy, write_file

Progress = Callable[[int, int], None]


class CannotAct(RuntimeError):
    """The plan cannot be carried out; nothing of NEW was written. The message says why."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was done. notes: logs that are not as planned, each with the reason."""

    new: Path
    record: Path
    backup: Path | None
    notes: list[str] = field(default_factory=list)


def record_of(new: Path) -> Path:
    """Where the plan of a new tree is saved: beside it."""
    return new.with_name(f"{new.name}.plan.json")


def backup_of(new: Path) -> Path:
    """Where whole logs go unless it is said otherwise: beside the new tree."""
    return new.with_name(f"{new.name}.whole-logs")


def carry_out(
    plan: Plan, tree: Path, new: Path, backup: Path | None = None, progress: Progress | None = None
) -> Outcome:
    """Make the new tree of a plan.

    ``progress`` counts bytes. Raises CannotAct or OSError (a full disk, say), and leaves no NEW.
    """
    backup = backup or backup_of(new)
    _refuse(tree, new, backup)
    files = {file.path: file for file in list_tree(tree).all_files()}
    for step in plan.steps:
        _check(step, files)
    total = sum(step.size for step in plan.steps if step.destination or step.backup)
    done = 0
    notes: list[str] = []
    kept = False
    with (
        under_construction(new) as part,
        # Which of the two names its folder has says whether NEW is there; else TREE has every log.
        kept_if(lambda: not part.is_dir()) as made,
    ):
        digests: dict[str, str] = {}
        for step in sorted(plan.steps, key=lambda s: s.kind == "hash"):
            if step.backup is not None and step.path is not None:
                digests[step.path] = _keep(files[step.path], backup / step.backup, made)
                kept = True
            if step.destination is not None:
                _write(step, files, part / step.destination, digests, backup, notes)
            done += step.size
            if progress:
                progress(done, total)
        record = record_of(new)
        if not record.exists():
            made.append(record)
        write_file(record, encode(plan))
        take_place(part, new)
    return Outcome(new, record, backup if kept else None, notes)


def create(files: Mapping[str, str], new: Path) -> None:
    """Make a new tree of texts by their paths. Raises CannotAct or OSError, and leaves no NEW."""
    if os.path.lexists(new):
        raise CannotAct(f"{new} exists already; give a name that is free")
    if not new.absolute().parent.is_dir():
        raise CannotAct(f"found no folder {new.absolute().parent}; create it first")
    with under_construction(new) as part:
        for path, text in files.items():
            target = part / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        take_place(part, new)


def _refuse(tree: Path, new: Path, backup: Path) -> None:
    if os.path.lexists(new):
        raise CannotAct(f"{new} exists already; give a name that is free")
    if not new.absolute().parent.is_dir():
        raise CannotAct(f"found no folder {new.absolute().parent}; create it first")
    places = {"NEW": real(new), "the backup": real(backup)}
    source = real(tree)
    for what, place in places.items():
        if _within(place, source) or _within(source, place):
            raise CannotAct(f"{what} must be outside TREE, and TREE outside it")
    if _within(places["the backup"], places["NEW"]) or _within(places["NEW"], places["the backup"]):
        raise CannotAct("the backup must be outside NEW")


def _within(inner: str, outer: str) -> bool:
    return inner == outer or inner.startswith(outer.rstrip(os.sep) + os.sep)


def _check(step: Step, files: dict[str, File]) -> None:
    """The step's file is as planned, and its paths stay where they belong."""
    for path in (step.destination, step.backup):
        if path is None:
            continue
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or ".." in parts:
            raise CannotAct(f"the plan names a path outside the tree: {path}")
    if step.path is None or (step.destination is None and step.backup is None):
        return
    file = files.get(step.path)
    if file is None or file.size != step.size:
        raise CannotAct(f"{step.path} changed since the plan was made; plan again")


@contextmanager
def under_construction(new: Path) -> Iterator[Path]:
    """A folder beside NEW for this process alone; gone at the end unless it became NEW."""
    part = new.with_name(f".{new.name[:200]}.assay-part")
    try:
        with locked(part.with_name(f"{part.name}.lock")):
            try:
                if os.path.lexists(part):
                    shutil.rmtree(part)
                part.mkdir()
                with naming(new):
                    yield part
            except BaseException:
                shutil.rmtree(part, ignore_errors=True)
                raise
    except Held as held:
        raise CannotAct(f"another process is preparing the same NEW ({held})") from None


def take_place(part: Path, new: Path) -> None:
    """The finished folder gets its name, unless somebody took it meanwhile."""
    if os.path.lexists(new):
        raise CannotAct(f"{new} was made meanwhile; give a name that is free")
    part.rename(new)


def _keep(file: File, copy: Path, made: list[Path]) -> str:
    """The file in the backup, read back; its SHA-256. What is there already is not overwritten.

    made: gets what was not there before.
    """
    if not os.path.lexists(copy):
        with new_copy(copy, made) as target:
            digest = _copy(file, target)
    else:
        digest = _digest(file)
    if copy.is_symlink() or not copy.is_file() or _digest(File(file.path, str(copy), 0)) != digest:
        raise CannotAct(f"{copy} is another file than {file.path}; give another --backup")
    return digest


def _copy(file: File, target: object) -> str:
    digest = hashlib.sha256()
    write = target.write  # type: ignore[attr-defined]
    with os.fdopen(open_file(file), "rb", buffering=0) as stream:
        while block := stream.read(CHUNK):
            digest.update(block)
            write(block)
    return digest.hexdigest()


def _digest(file: File) -> str:
    digest = hashlib.sha256()
    with os.fdopen(open_file(file), "rb", buffering=0) as stream:
        while block := stream.read(CHUNK):
            digest.update(block)
    return digest.hexdigest()


def content_of(step: Step, files: Mapping[str, File]) -> bytes | None:
    """What a step writes in place of its source's bytes; None where it keeps them.

    Raises CannotAct where accuracy.txt has another hash than the log that is to be truncated.
    """
    if step.kind == "hash":
        before = b""
        if step.content is not None:
            before = step.content.encode("utf-8", "surrogateescape")
        elif step.path is not None:
            before = read_bytes(files[step.path])
        return before + f"\nhash={_digest(files[step.log or ''])}\n".encode("ascii")
    if step.kind == "truncate" and step.path is not None:
        file = files[step.path]
        stated = stated_hash(Path(file.real).with_name(SCORES)) if "A111" in step.rules else None
        if stated is not None and stated != _digest(file):
            raise CannotAct(f"{step.path}: accuracy.txt has the hash of another log")
        return _ends(Path(file.real))
    return step.content.encode("utf-8", "surrogateescape") if step.content is not None else None


def _ends(log: Path) -> bytes:
    """Both ends of a log, as it is published."""
    with log.open("rb") as stream:
        head = stream.read(KEPT)
        stream.seek(-KEPT, os.SEEK_END)
        return head + MARK + stream.read(KEPT)


def _write(
    step: Step,
    files: dict[str, File],
    target: Path,
    digests: dict[str, str],
    backup: Path,
    notes: list[str],
) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    file = files[step.path] if step.path is not None else None
    if step.kind == "hash":
        _with_hash(step, files, file, target, digests)
    elif step.kind == "truncate" and file is not None and step.backup is not None:
        _truncated(step, file, target, backup / step.backup, digests, notes)
    elif step.content is not None:
        target.write_bytes(step.content.encode("utf-8", "surrogateescape"))
    elif file is not None:
        with target.open("xb") as stream:
            _copy(file, stream)
    if file is not None:
        status = Path(file.real).stat()
        target.chmod(stat.S_IMODE(status.st_mode) & 0o777 | 0o600)
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _with_hash(
    step: Step, files: dict[str, File], file: File | None, target: Path, digests: dict[str, str]
) -> None:
    log = step.log or ""
    digest = digests.get(log) or _digest(files[log])
    with target.open("xb") as stream:
        if step.content is not None:
            stream.write(step.content.encode("utf-8", "surrogateescape"))
        elif file is not None:
            _copy(file, stream)
        stream.write(f"\nhash={digest}\n".encode("ascii"))


def _truncated(
    step: Step, file: File, target: Path, copy: Path, digests: dict[str, str], notes: list[str]
) -> None:
    """Both ends of a log whose copy was read back; whole where accuracy.txt has another hash."""
    scores = Path(file.real).with_name(SCORES)
    stated = stated_hash(scores) if "A111" in step.rules else None
    digest = digests[file.path]
    if stated is not None and stated != digest:
        notes.append(
            f"{step.destination}: accuracy.txt has hash {stated[:12]}…, the log has {digest[:12]}…; one of "
            "them is of another run. The log was left whole"
        )
        with target.open("xb") as stream:
            _copy(file, stream)
        return
    target.write_bytes(_ends(copy))
