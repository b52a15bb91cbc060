"""Where the members of an archive go: a folder of our own, files first, links last.

While files are written the folder holds no link, so that none can be followed. Every link is looked
at again once all are there. A member that cannot be kept is a finding, and the rest goes on.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec

from checker.clean import clean
from schemas.machine import MachineFault, storage
from schemas.report import Finding

MAX_PATH = 4096
MAX_NAME = 255
_BLOCK = 1 << 20

Read = Callable[[int], bytes]


class BadArchive(ValueError):
    """The archive cannot be unpacked; the message says why, and at last names the archive."""


class Limits(msgspec.Struct, frozen=True):
    """How much may be unpacked: files, bytes, and bytes for each byte of the archive.

    ratio: None where the archive is trusted to be that large.
    """

    files: int = 2_000_000
    bytes: int = 200 * 1024**3
    ratio: int | None = 200
    free_bytes: int = 64 * 1024 * 1024
    """What is unpacked without regard to the ratio."""

    def check(self, files: int, size: int, packed: int) -> None:
        """Raises BadArchive beyond a limit."""
        if files > self.files:
            raise BadArchive(
                f"the archive has more than {self.files:,} members; --unpack-files N allows more"
            )
        most = self.bytes
        if self.ratio is not None:
            most = min(most, self.free_bytes + packed * self.ratio)
        if size > most:
            raise BadArchive(
                f"the archive has {packed:,} bytes and unpacks to more than {most:,}; if you trust it, "
                "--unpack-limit SIZE allows more"
            )


class Folder:
    """The folder that takes the members; ``findings`` says what it did not take."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.findings: list[Finding] = []
        self._made = {""}
        self._links: list[tuple[str, str, bool]] = []

    def refuse(self, name: str, why: str) -> None:
        """Note a member that is not unpacked."""
        safe = clean(name.encode("utf-8", "backslashreplace").decode("utf-8"), 300)
        self.findings.append(
            Finding(
                rule="X005",
                name="archive-member-refused",
                severity="error",
                message=f"archive member '{safe}' {why}",
                path=".",
                fix="pack the tree again with plain files and relative paths inside it",
            )
        )

    def place(self, name: str) -> str | None:
        """A member's path below the folder, or None (and a finding) where it has none."""
        if name.startswith("/") or re.match(r"[A-Za-z]:[\\/]", name):
            self.refuse(name, "has an absolute path; it was not unpacked")
            return None
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if ".." in parts:
            self.refuse(name, "leaves the tree; it was not unpacked")
            return None
        if "\0" in name:
            self.refuse(name, "has a name with a NUL byte; it was not unpacked")
            return None
        encoded = [os.fsencode(part) for part in parts]
        if sum(map(len, encoded)) + len(parts) > MAX_PATH - 512 or any(
            len(part) > MAX_NAME for part in encoded
        ):
            self.refuse(name, "has a path that is too long; it was not unpacked")
            return None
        return "/".join(parts)

    def add_folder(self, name: str) -> None:
        """A folder that the archive states."""
        path = self.place(name)
        if path is not None:
            self._folder(path, name)

    def _folder(self, path: str, member: str) -> bool:
        """Make a folder and those above it; False (and a finding) where something is in the way."""
        if path in self._made:
            return True
        head = path.rpartition("/")[0]
        if not self._folder(head, member):
            return False
        target = self.top / path
        try:
            target.mkdir(mode=0o755)
        except FileExistsError:
            self.refuse(member, f"needs a folder {path}, which is a file; it was not unpacked")
            return False
        except OSError as error:
            self._failed(error, member)
            return False
        self._made.add(path)
        return True

    def add_file(self, name: str, size: int, read: Read, changed: float | None = None) -> bool:
        """A file of ``size`` bytes. ``read`` gives at most so many bytes of it, none at its end.

        Returns whether it was kept. Raises BadArchive where it ends early.
        """
        path = self.place(name)
        if path is None:
            return False
        if not path or path in self._made:
            self.refuse(name, "is a file and a folder; the folder was kept")
            return False
        if not self._folder(path.rpartition("/")[0], name):
            return False
        target = self.top / path
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        flags |= getattr(os, "O_BINARY", 0)
        try:
            try:
                handle = os.open(target, flags, 0o644)
            except FileExistsError:
                target.unlink()
                handle = os.open(target, flags, 0o644)
                self.refuse(name, "is there more than once; the last one was kept")
        except OSError as error:
            self._failed(error, name)
            return False
        with os.fdopen(handle, "wb", buffering=0) as sink:
            left = size
            while left:
                block = read(min(left, _BLOCK))
                if not block:
                    raise BadArchive(f"the archive ends inside its member '{name}'")
                left -= len(block)
                try:
                    _write(sink.fileno(), block)
                except OSError as error:
                    raise _machine(error) from error
            if changed is not None and os.utime in os.supports_fd:
                with contextlib.suppress(OSError, OverflowError, ValueError):
                    os.utime(sink.fileno(), (changed, changed))
        return True

    def add_link(self, name: str, target: str, *, hard: bool) -> None:
        """A link, made when everything else is there. A hard link's target is a member's name."""
        path = self.place(name)
        if path is None:
            return
        if not path:
            self.refuse(name, "is a link in place of the tree; it was not unpacked")
        elif len(os.fsencode(target)) > MAX_PATH - 512:
            self.refuse(name, "is a link with a path that is too long; it was not unpacked")
        elif not target or "\0" in target or target.startswith("/") or _leaves(path, target, hard):
            self.refuse(name, "is a link that leaves the tree; it was not unpacked")
        else:
            self._links.append((path, target, hard))

    def finish(self) -> None:
        """Make the links, hard ones first, and look at each again when all are there."""
        for path, target, _ in [link for link in self._links if link[2]]:
            self._hard_link(path, target)
        symbolic = [link for link in self._links if not link[2]]
        made = []
        for path, target, _ in symbolic:
            if not self._folder(path.rpartition("/")[0], path):
                continue
            place = self.top / path
            if os.path.lexists(place):
                self.refuse(path, "is there more than once; the first one was kept")
                continue
            try:
                place.symlink_to(target)
                made.append(path)
            except OSError as error:
                self._failed(error, path)
        top = os.path.realpath(self.top)
        for path in made:
            real = os.path.realpath(self.top / path)
            if real != top and not real.startswith(top + os.sep):
                (self.top / path).unlink()
                self.refuse(path, "is a link that leaves the tree; it was not unpacked")

    def _hard_link(self, path: str, target: str) -> None:
        source = "/".join(part for part in target.split("/") if part not in ("", "."))
        if not self._folder(path.rpartition("/")[0], path):
            return
        place = self.top / path
        try:
            if not stat.S_ISREG((self.top / source).lstat().st_mode):
                raise FileNotFoundError
            if os.path.lexists(place):
                self.refuse(path, "is there more than once; the first one was kept")
                return
            os.link(self.top / source, place, follow_symlinks=False)
        except FileNotFoundError:
            self.refuse(path, "is a link to a file that the archive does not have")
        except OSError as error:
            self._failed(error, path)

    def _failed(self, error: OSError, name: str) -> None:
        if storage(error):
            raise _machine(error) from error
        self.refuse(name, f"cannot be unpacked here ({error.strerror})")


def _leaves(path: str, target: str, hard: bool) -> bool:
    """Whether a link's target, read as text, is outside the tree."""
    depth = 0 if hard else path.count("/")
    for part in target.split("/"):
        if part == "..":
            depth -= 1
        elif part not in ("", "."):
            depth += 1
        if depth < 0:
            return True
    return False


def _write(handle: int, block: bytes) -> None:
    view = memoryview(block)
    while view:
        view = view[os.write(handle, view) :]


def _machine(error: OSError) -> MachineFault:
    return MachineFault(
        f"the archive cannot be unpacked: {error.strerror}; TMPDIR=FOLDER names another place"
    )
