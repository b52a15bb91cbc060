"""Truncate accuracy logs as rounds publish them: plan first, keep every original.

A published log keeps its first and last 4096 bytes around ``\\n\\n...\\n\\n``; the SHA-256 of the
whole log is kept as ``hash=…`` in accuracy.txt of the same folder. Nothing is truncated before
its copy in the backup has been read back and has the same hash; nothing is truncated or hashed
twice; no link is followed. Files are streamed: the memory needed does not grow with the logs.

Source: submission rules of MLPerf Inference (v0.7 on); lessons of the official tool's issues.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final, Literal

from checker.accuracy.log import CHUNK, GAP, Progress
from checker.accuracy.problem import AccuracyError
from schemas.machine import storage
from schemas.writing import kept_if, new_copy, replace_file

KEPT: Final = 4096
MARK: Final = b"\n\n...\n\n"
LIMIT: Final = 10 * 1024
"""Largest log, in bytes, that rounds accept in a submission."""

LOG: Final = "mlperf_log_accuracy.json"
SCORES: Final = "accuracy.txt"
WHOLE: Final = frozenset({"TEST06", "TEST08"})
"""Compliance tests that verify the tokens of the whole log: theirs are published whole."""
_HASH = re.compile(rb"(?:^|\n)\s*hash\s*=\s*([0-9A-Fa-f]{64})\b")
_MAX_SCORES: Final = 16 << 20

Kind = Literal["truncate", "hash", "done", "skip"]


@dataclass(frozen=True, slots=True)
class Action:
    """What is to be done with one accuracy log.

    ``kind``: "truncate" (and add the hash unless it is there), "hash" (small enough; only the
    hash line is missing), "done" (nothing to do), "skip" (cannot be done; ``reason`` says why).
    ``relative`` is the log's path below ``root`` and so its place in the backup; ``size`` is in
    bytes; ``stated`` the hash that accuracy.txt already has.
    """

    kind: Kind
    root: Path
    relative: PurePosixPath
    size: int
    stated: str | None
    reason: str

    @property
    def path(self) -> Path:
        """The log."""
        return self.root / self.relative

    @property
    def scores(self) -> Path:
        """The accuracy.txt that takes the hash."""
        return self.path.with_name(SCORES)

    def line(self) -> str:
        """One line for people."""
        return f"{self.kind}: {self.relative} ({self.size} bytes): {self.reason}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was done with one log: ``sha256`` of the whole log, ``backup`` its verified copy.

    ``done`` is False when the log was left as it was; ``reason`` says why. ``fault``: it is the
    machine's, such as a full disk.
    """

    action: Action
    done: bool
    reason: str
    sha256: str | None = None
    backup: Path | None = None
    fault: bool = False


def stated_hash(scores: Path) -> str | None:
    """The SHA-256 (lower case hex) that an accuracy.txt states, the last if several, or None.

    Links and files over 16 MiB are not read.
    """
    try:
        with _open(scores) as stream:
            found = _HASH.findall(stream.read(_MAX_SCORES))
    except OSError:
        return None
    return found[-1].decode("ascii").lower() if found else None


def plan(tree: Path | str | Iterable[Path | str], *, limit: int = LIMIT) -> list[Action]:
    """Say what truncation would do, without doing anything.

    ``tree`` is a submission tree or several result folders. Logs in folders called ``accuracy``
    are considered (results and compliance tests of every division, but those in `WHOLE`), sorted by path; links to
    files or folders are never followed. Raises ``AccuracyError`` when a path is not a folder.
    """
    limit = max(limit, 2 * KEPT + len(MARK))
    roots = [tree] if isinstance(tree, (str, Path)) else list(tree)
    actions = []
    for root in map(Path, roots):
        if not root.is_dir():
            raise AccuracyError(f"{root}: not a folder")
        top = root.resolve()
        for folder, folders, files in os.walk(top, followlinks=False):
            folders.sort()
            here = Path(folder)
            if here.name == "accuracy" and LOG in files and here.parent.name.upper() not in WHOLE:
                actions.append(_look(top, here / LOG, limit))
    unique = {action.path: action for action in actions}
    return [unique[path] for path in sorted(unique)]


def _look(root: Path, log: Path, limit: int) -> Action:
    relative = PurePosixPath(log.relative_to(root).as_posix())
    scores = log.with_name(SCORES)

    def action(kind: Kind, reason: str, size: int = 0, stated: str | None = None) -> Action:
        return Action(
            kind=kind, root=root, relative=relative, size=size, stated=stated, reason=reason
        )

    try:
        status = log.lstat()
    except OSError as error:
        return action("skip", f"cannot be read ({error})")
    if stat.S_ISLNK(status.st_mode):
        return action("skip", "it is a link: replace it by the file itself")
    if not stat.S_ISREG(status.st_mode):
        return action("skip", "it is not a regular file")
    size = status.st_size
    try:
        marked = scores.lstat()
        if not stat.S_ISREG(marked.st_mode):
            return action("skip", f"{SCORES} is a link or no regular file", size)
        if marked.st_size > _MAX_SCORES:
            return action("skip", f"{SCORES} is over {_MAX_SCORES} bytes", size)
    except FileNotFoundError:
        pass
    except OSError as error:
        return action("skip", f"{SCORES} cannot be read ({error})", size)
    stated = stated_hash(scores)
    try:
        cut = size <= limit and GAP in log.read_bytes()
    except OSError as error:
        return action("skip", f"cannot be read ({error})", size)
    missing = "" if scores.exists() else f" ({SCORES} is missing and will be made)"
    if cut:
        if stated:
            return action("done", "truncated before, hash is there", size, stated)
        return action(
            "skip",
            "truncated before but without hash: put the whole log back and run again",
            size,
        )
    if size <= limit:
        if stated:
            return action("done", f"at most {limit} bytes, hash is there", size, stated)
        return action("hash", f"at most {limit} bytes; the hash will be added{missing}", size)
    if stated:
        return action("truncate", "hash is there and will be compared", size, stated)
    return action("truncate", f"truncated, and its hash added{missing}", size)


def apply(
    actions: Sequence[Action], backup: Path | str, *, progress: Progress | None = None
) -> list[Outcome]:
    """Carry out a plan; each original is copied below ``backup`` and read back first.

    A log that changed since the plan, whose stated hash is another, or whose copy cannot be
    verified is left as it is, and its outcome says so. Running it twice does nothing the second
    time. ``progress`` counts bytes of logs. Raises ``AccuracyError`` when the backup is inside
    a tree that is truncated.
    """
    kept = Path(backup).resolve()
    for action in actions:
        if kept == action.root or action.root in kept.parents:
            raise AccuracyError(f"{backup}: the backup must lie outside the tree {action.root}")
    total = sum(action.size for action in actions)
    done = 0
    outcomes = []
    for action in actions:
        if action.kind in ("done", "skip"):
            outcomes.append(Outcome(action, False, action.reason, action.stated))
        else:
            offset = done

            def step(bytes_done: int, _: int, base: int = offset) -> None:
                if progress:
                    progress(base + bytes_done, total)

            try:
                outcomes.append(_carry_out(action, kept, step))
            except _Half as error:
                outcomes.append(Outcome(action, False, str(error), error.digest, fault=error.fault))
            except OSError as error:
                reason = error.strerror or str(error)
                outcomes.append(
                    Outcome(action, False, f"left as it was: {reason}", fault=storage(error))
                )
        done += action.size
    return outcomes


def _carry_out(action: Action, kept: Path, progress: Progress) -> Outcome:
    files = (action.path, action.scores)
    before = [_identity(path) for path in files]
    with kept_if(lambda: [_identity(path) for path in files] != before) as made:
        return _with_copies(action, kept, progress, made)


def _identity(path: Path) -> tuple[int, int] | None:
    """Another one once a file was replaced."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_ino, status.st_size


def _with_copies(action: Action, kept: Path, progress: Progress, made: list[Path]) -> Outcome:
    log, scores = action.path, action.scores
    with _open(log) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size != action.size:
            return Outcome(action, False, "it changed since the plan: plan again")
        if action.kind == "hash":
            digest = _digest(stream, None, progress, size)
            copy = None
        else:
            copy = kept / action.relative
            digest = _back_up(stream, copy, progress, size, made)
    stated = stated_hash(scores)  # perhaps written since the plan
    if stated and stated != digest:
        return Outcome(
            action=action,
            done=False,
            reason=f"{SCORES} states hash {stated[:12]}…, the log has {digest[:12]}…: "
            "one of them is of another run",
            sha256=digest,
            backup=copy,
        )
    if copy is not None:
        if not copy.is_file() or _file_digest(copy) != digest:
            return Outcome(
                action=action,
                done=False,
                reason="the copy in the backup differs",
                sha256=digest,
                backup=copy,
            )
        if scores.exists():
            with _open(scores) as stream:
                _back_up(stream, kept / action.relative.with_name(SCORES), None, 0, made)
    if stated is None:
        _append(scores, f"\nhash={digest}\n".encode("ascii"))
    if copy is not None:
        try:
            with _open(copy) as stream:
                head = stream.read(KEPT)
                stream.seek(-KEPT, os.SEEK_END)
                tail = stream.read(KEPT)
            replace_file(log, head + MARK + tail)
        except OSError as error:
            reason = error.strerror or str(error)
            if stated is not None:
                raise
            raise _Half(
                f"{SCORES} has the hash now, the log is whole as it was: {reason}; run again",
                digest,
                storage(error),
            ) from error
    return Outcome(action=action, done=True, reason=action.reason, sha256=digest, backup=copy)


class _Half(OSError):
    """A log that has its hash and is not truncated yet."""

    def __init__(self, message: str, digest: str, fault: bool) -> None:
        super().__init__(message)
        self.digest, self.fault = digest, fault


def _open(path: Path) -> BinaryIO:
    """Open for reading without following a link in the last place."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    handle = os.open(path, flags | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(f"{path}: not a regular file")
    return os.fdopen(handle, "rb", buffering=0)


def _digest(stream: BinaryIO, copy: BinaryIO | None, progress: Progress | None, total: int) -> str:
    digest = hashlib.sha256()
    done = 0
    while block := stream.read(CHUNK):
        digest.update(block)
        if copy is not None:
            copy.write(block)
        done += len(block)
        if progress:
            progress(done, total)
    return digest.hexdigest()


def _file_digest(path: Path) -> str:
    with _open(path) as stream:
        return _digest(stream, None, None, 0)


def _back_up(
    stream: BinaryIO, copy: Path, progress: Progress | None, size: int, made: list[Path]
) -> str:
    """Copy into the backup; a copy that is already there is never overwritten."""
    if copy.exists():
        return _digest(stream, None, progress, size)
    with new_copy(copy, made) as target:
        return _digest(stream, target, progress, size)


def _append(path: Path, line: bytes) -> None:
    """Add to a text by replacing it: another hard link to it keeps what it had."""
    content = b""
    if os.path.lexists(path):
        with _open(path) as stream:
            content = stream.read(_MAX_SCORES + 1)
        if len(content) > _MAX_SCORES:
            raise OSError(f"{path.name} is over {_MAX_SCORES} bytes")
    replace_file(path, content + line)
