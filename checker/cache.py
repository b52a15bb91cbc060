"""What an earlier check of the same files found, so that a check after an edit reads only what changed.

One file a system (``units``) and one a submitter and tree (``wide``) below the user's cache folder. An
entry holds only while every file that it was made from has the same path, size, times and number,
and nothing else that a finding depends on has changed: the program, the round, the rules, the
options. What cannot be read is ignored; writing replaces whole files, so that several checks may run
at a time. Only MessagePack of known types is read: nothing in a cache can run.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from checker.discover import ResultPlan
from checker.parse.reading import File, Folder
from checker.unit import Outcome
from schemas.report import Finding
from schemas.writing import replace_file

MAX_BYTES = 512 * 1024 * 1024
"""How much all caches of a user may hold; the least recently used files go first."""

MAX_FILE_BYTES = 64 * 1024 * 1024
"""A larger file is neither read nor written."""

SETTLED_NS = 2_000_000_000
"""A file that changed less than this before the check may change again with the same times."""

_USED_S = 86_400
_UNFINISHED_S = 600
_DIGEST = 16
_PACKAGES = ("checker", "schemas", "assay")
_T = TypeVar("_T")


class Wide(msgspec.Struct):
    """What was found about a submitter or tree as a whole.

    descriptions: each system's, safe to print, by the system's name.
    """

    findings: list[Finding]
    descriptions: dict[str, dict[str, Any]] = {}


class _Entry(msgspec.Struct, array_like=True):
    mark: bytes
    value: msgspec.Raw


class _Shard(msgspec.Struct, array_like=True):
    entries: dict[str, _Entry]


def cache_folder() -> Path:
    """Where this user's caches are; XDG_CACHE_HOME and its like are honoured."""
    from platformdirs import user_cache_path

    return user_cache_path("assay", appauthor=False) / "check"


def clear(folder: Path) -> tuple[int, int]:
    """Remove every cache. Returns how many files and bytes those were."""
    count = size = 0
    for path, status in _files(folder):
        with contextlib.suppress(OSError):
            path.unlink()
            count += 1
            size += status.st_size
    return count, size


def program_mark() -> bytes:
    """A digest that changes with any file of the program (by time and size, which is quick)."""
    top = Path(__file__).resolve().parent.parent
    state = hashlib.blake2b(digest_size=16)
    for package in _PACKAGES:
        for folder, folders, names in os.walk(top / package):
            folders[:] = sorted(f for f in folders if f != "__pycache__")
            with os.scandir(folder) as found:
                states = {entry.name: entry for entry in found}
            for name in sorted(names):
                status = states[name].stat()
                state.update(f"{folder}/{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return state.digest()


class Cache:
    """The caches of one user, as one check uses them. ``notes``: what was wrong with them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notes: list[str] = []
        self.found = 0
        self._program: bytes | None = None

    def of(self, root: str, context: Sequence[Any]) -> TreeCache:
        """The part for one tree at an absolute path. context: all else that findings depend on."""
        if self._program is None:
            self._program = program_mark()
        data = msgspec.msgpack.encode([os.fsencode(root), self._program, list(context)])
        return TreeCache(self, hashlib.blake2b(data, digest_size=16).digest())

    def note(self, text: str) -> None:
        """Remember, once, that something could not be used."""
        if text not in self.notes:
            self.notes.append(text)

    def read(self, name: str) -> dict[str, _Entry]:
        """The entries of one file; none where it is absent, damaged or too large."""
        path = self.folder / name
        try:
            data = path.read_bytes() if path.stat().st_size <= MAX_FILE_BYTES else b""
            if time.time() - path.stat().st_mtime > _USED_S:
                os.utime(path)
        except OSError:
            return {}
        if hashlib.blake2b(data[_DIGEST:], digest_size=_DIGEST).digest() == data[:_DIGEST]:
            with contextlib.suppress(msgspec.DecodeError, RecursionError):
                return msgspec.msgpack.decode(memoryview(data)[_DIGEST:], type=_Shard).entries
        self.note(f"the cache in {self.folder} is damaged; what is damaged is ignored")
        return {}

    def write(self, name: str, entries: dict[str, _Entry]) -> None:
        """Replace one file. That it cannot be written is not the check's fault."""
        data = msgspec.msgpack.encode(_Shard(entries))
        data = hashlib.blake2b(data, digest_size=_DIGEST).digest() + data
        if len(data) > MAX_FILE_BYTES:
            return
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(self.folder / name, data, synced=False)
        except OSError as error:
            self.note(f"the cache in {self.folder} cannot be written: {error.strerror}")

    def trim(self) -> None:
        """Keep the folder within its bound."""
        files = sorted(_files(self.folder), key=lambda item: item[1].st_mtime)
        for path, status in files:
            if path.name.startswith(".") and status.st_mtime < time.time() - _UNFINISHED_S:
                with contextlib.suppress(OSError):  # a killed check was writing it
                    path.unlink()
        total = sum(status.st_size for _, status in files)
        if total <= MAX_BYTES:
            return
        for path, status in files:
            with contextlib.suppress(OSError):
                path.unlink()
            total -= status.st_size
            if total <= MAX_BYTES * 3 // 4:
                return


class TreeCache:
    """What is known of one tree under one set of options."""

    def __init__(self, cache: Cache, mark: bytes) -> None:
        self._cache = cache
        self._mark = mark
        self._digests: dict[int, tuple[bytes, int]] = {}
        self._shard: tuple[str, dict[str, _Entry]] = ("", {})
        self._missing: dict[str, int] = {}
        self._changed: dict[str, dict[str, _Entry]] = {}
        self._written = False
        self._began = time.time_ns()

    def outcome(self, plan: ResultPlan) -> Outcome | None:
        """What was found about a result, if nothing of it has changed."""
        unit = self._unit(plan)
        found = self._get(unit, plan.key, self._of_plan(plan), Outcome)
        if found is None:
            self._missing[unit] = self._missing.get(unit, 0) + 1
        return found

    def keep_outcome(self, plan: ResultPlan, outcome: Outcome) -> None:
        """Remember what was found about a result that was not known; with a system's last one, write."""
        unit = self._unit(plan)
        self._put(unit, plan.key, self._of_plan(plan), outcome)
        self._missing[unit] -= 1
        if not self._missing[unit]:
            self._write(unit)

    def wide(self, name: str, folders: Iterable[Folder]) -> Wide | None:
        """What was found about a submitter or tree, if nothing below ``folders`` has changed."""
        return self._get(f"wide/{name}", "", self._of_folders(folders, ()), Wide)

    def keep_wide(self, name: str, folders: Iterable[Folder], found: Wide) -> None:
        """Remember what was found about a submitter or tree."""
        self._put(f"wide/{name}", "", self._of_folders(folders, ()), found)

    def save(self) -> None:
        """Write what is new."""
        for name in list(self._changed):
            self._write(name)
        if self._written:
            self._cache.trim()

    def _write(self, name: str) -> None:
        entries = self._changed.pop(name, None)
        if entries:
            self._cache.write(self._file(name), {**self._read(name), **entries})
            self._shard = ("", {})
            self._written = True

    def _read(self, name: str) -> dict[str, _Entry]:
        """The entries of one file; results come system by system, so that one file is kept."""
        if self._shard[0] != name:
            self._shard = (name, self._cache.read(self._file(name)))
        return self._shard[1]

    @staticmethod
    def _unit(plan: ResultPlan) -> str:
        return f"units/{plan.division}/{plan.submitter}/{plan.system}"

    def _file(self, name: str) -> str:
        state = hashlib.blake2b(self._mark, digest_size=16)
        state.update(name.encode("utf-8", "surrogateescape"))
        return state.hexdigest()

    def _get(self, shard: str, key: str, mark: bytes | None, kind: type[_T]) -> _T | None:
        entry = self._read(shard).get(key)
        if entry is None or mark is None or entry.mark != mark:
            return None
        try:
            value = msgspec.msgpack.decode(entry.value, type=kind)
        except (msgspec.DecodeError, RecursionError):
            self._cache.note(
                f"the cache in {self._cache.folder} is damaged; what is damaged is ignored"
            )
            return None
        self._cache.found += 1
        return value

    def _put(self, shard: str, key: str, mark: bytes | None, value: object) -> None:
        if mark is None:
            return
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            # A value that MessagePack cannot hold is judged again each time.
            raw = msgspec.Raw(msgspec.msgpack.encode(value))
            self._changed.setdefault(shard, {})[key] = _Entry(mark, raw)

    def _of_plan(self, plan: ResultPlan) -> bytes | None:
        folders = [plan.folder, plan.measurement_folder, plan.compliance_folder]
        names = (
            plan.name, plan.scenario, plan.scope, plan.system_path, plan.measurement_path,
            plan.compliance_path, _facts(plan.system_file),
        )  # fmt: skip
        return self._of_folders([f for f in folders if f is not None], names, plan.system_file)

    def _of_folders(
        self, folders: Iterable[Folder], facts: tuple[Any, ...], *files: File | None
    ) -> bytes | None:
        """A digest of everything below the folders; None where it may still be changing."""
        newest = max((f.status_ns for f in files if f is not None), default=0)
        digests = []
        for folder in folders:
            digest, time_ns = self._of_folder(folder)
            digests.append(digest)
            newest = max(newest, time_ns)
        if newest > self._began - SETTLED_NS:
            return None
        data = msgspec.msgpack.encode([self._mark, digests, facts])
        return hashlib.blake2b(data, digest_size=16).digest()

    def _of_folder(self, folder: Folder) -> tuple[bytes, int]:
        known = self._digests.get(id(folder))
        if known is None:
            known = self._digests[id(folder)] = self._digest(folder.whole(), not folder.is_packed)
        return known

    def _digest(self, folder: Folder, lasting: bool) -> tuple[bytes, int]:
        """lasting: whether the folders below are there as long as the tree, and known by their id."""
        newest, below = 0, []
        for name, child in folder.folders.items():
            digest, time_ns = self._of_folder(child) if lasting else self._digest(child, False)
            newest = max(newest, time_ns)
            below.append((name, digest))
        files = list(folder.files.values())
        for file in files:
            newest = max(newest, file.status_ns)
        facts: list[Any] = [folder.path, folder.link, folder.faults, files, below]
        try:
            data = msgspec.msgpack.encode(facts)
        except UnicodeEncodeError:  # a name on disk that is not text; what is shown of it is
            facts[3] = [_facts(file) for file in files]
            data = msgspec.msgpack.encode(facts)
        return hashlib.blake2b(data, digest_size=16).digest(), newest


def _facts(file: File | None) -> Any:
    if file is None:
        return None
    return (
        file.path,
        file.size,
        file.state,
        file.link,
        file.changed_ns,
        file.status_ns,
        file.inode,
    )


def _files(folder: Path) -> list[tuple[Path, os.stat_result]]:
    found = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.is_file(follow_symlinks=False):
                    found.append((Path(entry.path), entry.stat(follow_symlinks=False)))
    return found
