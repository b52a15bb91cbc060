"""Opening files of an untrusted tree.

Nothing here judges. A file that cannot be read gives a `Fault` (what, where, how to fix it), never
an exception that ends the run; only regular files are opened, so a named pipe cannot hang the
checker; a size cap keeps a hostile file from exhausting memory.
"""

from __future__ import annotations

import errno
import hashlib
import math
import operator
import os
import re
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from schemas.machine import MachineFault, exhausted

MAX_DOCUMENT_BYTES = 64 * 1024 * 1024
"""Greatest size of a file that is read as a whole (system descriptions, conf files, texts)."""

MAX_LINE_BYTES = 32 * 1024 * 1024
"""Greatest length of one log line; published ones reach 6 MB (``loaded_qsl_set``)."""

CHUNK = 1 << 20

_BOM = b"\xef\xbb\xbf"


class Fault(msgspec.Struct, frozen=True):
    """Something in a file that could not be read.

    kind: ``missing``, ``unreadable``, ``too-large``, ``encoding``, ``nul``, ``syntax``, ``empty``,
    ``unusable`` (a value that is needed; ``pointer`` is its name).
    """

    path: str
    kind: str
    message: str
    line: int | None = None
    fix: str | None = None
    pointer: str | None = None


class File(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One file of the tree. ``path`` is posix and relative to the tree; ``real`` opens it.

    state: ``file``, or why it is not one: ``dangling``, ``escaping``, ``loop``, ``special``
    (pipe, socket, device), ``unreadable``. changed_ns, status_ns, inode: modification and status
    time and the number of a regular file, by which a later check knows it again.
    """

    path: str
    real: str
    size: int
    state: str = "file"
    link: bool = False
    changed_ns: int = 0
    status_ns: int = 0
    inode: int = 0

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[-1]


class Folder:
    """One folder of the tree with everything below it. Names are as on disk, in their order.

    Of a very large tree the folders of results are packed: what is asked of one is unpacked each
    time, `whole` unpacks it for good.
    """

    __slots__ = ("_base", "_faults", "_files", "_folders", "_packed", "link", "path")

    def __init__(
        self,
        path: str,
        files: dict[str, File] | None = None,
        folders: dict[str, Folder] | None = None,
        faults: list[Fault] | None = None,
        link: bool = False,
    ) -> None:
        self.path = path
        self.link = link
        self._files = {} if files is None else files
        self._folders = {} if folders is None else folders
        self._faults = [] if faults is None else faults
        self._packed: bytes | None = None
        self._base = ""

    def __reduce__(self) -> tuple[Any, ...]:
        if self._packed is not None:
            return _unpacked, (self.path, self._base, self._packed, self.link)
        return Folder, (self.path, self._files, self._folders, self._faults, self.link)

    def __repr__(self) -> str:
        return f"Folder({self.path!r}, {len(self.files)} files, {len(self.folders)} folders)"

    @property
    def files(self) -> dict[str, File]:
        """The files in it, by name."""
        return self._files if self._packed is None else self.whole()._files

    @property
    def folders(self) -> dict[str, Folder]:
        """The folders in it, by name."""
        return self._folders if self._packed is None else self.whole()._folders

    @property
    def faults(self) -> list[Fault]:
        """What could not be listed."""
        return self._faults if self._packed is None else self.whole()._faults

    @property
    def is_packed(self) -> bool:
        """Whether its content is unpacked each time."""
        return self._packed is not None

    @property
    def holds_packed(self) -> bool:
        """Whether it or a folder below is packed."""
        stack = [self]
        while stack:
            here = stack.pop()
            if here.is_packed:
                return True
            stack.extend(here._folders.values())
        return False

    def sort(self) -> None:
        """Put its files and folders in the order of their names."""
        self._files = dict(sorted(self._files.items()))
        self._folders = dict(sorted(self._folders.items()))

    def pack(self, base: str) -> None:
        """Keep everything below as bytes. base: what makes most paths here those on disk."""
        try:
            self._packed = zlib.compress(msgspec.msgpack.encode(_pack(self, base)), 1)
        except UnicodeEncodeError:  # a name on disk that is not text
            return
        self._base = base
        self._files, self._folders, self._faults = _NO_FILES, _NO_FOLDERS, _NO_FAULTS

    def whole(self) -> Folder:
        """This folder, or its copy that is not packed."""
        if self._packed is None:
            return self
        return _unpacked(self.path, self._base, self._packed, self.link)

    @property
    def name(self) -> str:
        """The last part of the path ("" for the root)."""
        return self.path.rsplit("/", 1)[-1]

    def folder(self, *names: str) -> Folder | None:
        """The folder at this relative path, exact names first, then without regard to case."""
        here: Folder | None = self
        for name in names:
            if here is None:
                return None
            below = here.folders
            found = below.get(name)
            if found is None and below:
                low = name.lower()
                alike = [n for n in below if n.lower() == low]
                found = below[min(alike)] if alike else None
            here = found
        return here

    def at(self, path: str) -> Folder | None:
        """The folder at ``path`` relative to this one, exact names only."""
        here: Folder | None = self
        for name in path.split("/"):
            if name and here is not None:
                here = here.folders.get(name)
        return here

    def file_at(self, path: str) -> File | None:
        """The file at ``path`` relative to this folder, exact names only."""
        head, _, name = path.rpartition("/")
        folder = self.at(head) if head else self
        return folder.files.get(name) if folder is not None else None

    def walk(self) -> Iterator[Folder]:
        """This folder and every folder below it, in the order of their names."""
        stack = [self]
        while stack:
            here = stack.pop()
            if here._packed is not None:
                here = here.whole()
            yield here
            if here._folders:
                stack.extend(reversed(here._folders.values()))

    def all_files(self) -> Iterator[File]:
        """Every file in and below this folder, in the order of their names."""
        for folder in self.walk():
            yield from folder.files.values()


_NO_FILES: dict[str, File] = {}
_NO_FOLDERS: dict[str, Folder] = {}
_NO_FAULTS: list[Fault] = []


class _Packed(msgspec.Struct, array_like=True):
    """A folder without paths; a file's last part is where it is on disk, if its path does not say it."""

    files: dict[str, tuple[int, str, bool, int, int, int, str | None]]
    folders: dict[str, _Packed]
    faults: list[Fault]
    link: bool


_unpack = msgspec.msgpack.Decoder(_Packed).decode


def _pack(folder: Folder, base: str) -> _Packed:
    folder = folder.whole()
    files = {
        name: (
            file.size,
            file.state,
            file.link,
            file.changed_ns,
            file.status_ns,
            file.inode,
            None if file.real == base + file.path else file.real,
        )
        for name, file in folder.files.items()
    }
    below = {name: _pack(child, base) for name, child in folder.folders.items()}
    return _Packed(files, below, folder.faults, folder.link)


def _unpacked(path: str, base: str, data: bytes, link: bool) -> Folder:
    folder = _folder_of(path, base, _unpack(zlib.decompress(data)))
    folder.link = link
    return folder


def _folder_of(path: str, base: str, packed: _Packed) -> Folder:
    files = {}
    for name, (size, state, link, changed, status, inode, real) in packed.files.items():
        where = f"{path}/{name}"
        real = base + where if real is None else real
        files[name] = File(where, real, size, state, link, changed, status, inode)
    below = {
        name: _folder_of(f"{path}/{name}", base, child) for name, child in packed.folders.items()
    }
    return Folder(path, files, below, packed.faults, packed.link)


_STATES = {
    "dangling": "is a symbolic link to nothing",
    "escaping": "is a symbolic link that leaves the tree; it was not followed",
    "loop": "is a symbolic link that points back to itself or to a folder above it",
    "special": "is not a regular file (a named pipe, socket or device)",
    "unreadable": "cannot be looked at (no permission)",
}


class Unreadable(Exception):
    """A file could not be read; carries the Fault."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


def open_file(file: File) -> int:
    """Open a regular file for reading without ever blocking. Raises Unreadable."""
    return _opened(file)[0]


def _opened(file: File) -> tuple[int, int]:
    """A descriptor of a regular file and its size now."""
    if file.state != "file":
        raise Unreadable(
            Fault(
                file.path,
                "unreadable",
                f"the file {_STATES.get(file.state, 'cannot be read')}",
                fix="replace it by the regular file that belongs there",
            )
        )
    try:
        handle = os.open(
            file.real, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        )
    except OSError as error:
        if exhausted(error):
            raise MachineFault(f"the file cannot be opened: {error.strerror}") from error
        kind = "missing" if error.errno == errno.ENOENT else "unreadable"
        raise Unreadable(
            Fault(
                file.path,
                kind,
                f"the file cannot be opened: {error.strerror}",
                fix="make the file readable for the user who runs the check",
            )
        ) from error
    try:
        status = os.fstat(handle)
    except OSError:
        status = None
    if status is None or not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise Unreadable(Fault(file.path, "unreadable", f"the file {_STATES['special']}"))
    return handle, status.st_size


def read_bytes(file: File, limit: int = MAX_DOCUMENT_BYTES) -> bytes:
    """The whole content. Raises Unreadable, also when it is larger than ``limit`` bytes."""
    handle, size = _opened(file)
    try:
        try:
            if size > limit:
                raise Unreadable(
                    Fault(
                        file.path,
                        "too-large",
                        f"the file has {size:,} bytes; at most {limit:,} bytes of a file of this kind are read",
                        fix="shorten the file",
                    )
                )
            chunks = []
            got = 0
            # One byte more than the file has: a shorter answer is its end.
            while chunk := os.read(handle, wanted := min(max(size - got, 0), limit - got) + 1):
                chunks.append(chunk)
                got += len(chunk)
                if (len(chunk) < wanted and got >= size) or got > limit:
                    break
        except OSError as error:
            raise Unreadable(
                Fault(file.path, "unreadable", f"the file cannot be read: {error.strerror}")
            ) from error
    finally:
        os.close(handle)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def read_first(file: File, count: int) -> bytes:
    """The first ``count`` bytes, fewer where the file is shorter. Raises Unreadable."""
    handle, _ = _opened(file)
    with os.fdopen(handle, "rb") as stream:
        try:
            return stream.read(count)
        except OSError as error:
            raise Unreadable(
                Fault(file.path, "unreadable", f"the file cannot be read: {error.strerror}")
            ) from error


def read_text(file: File, limit: int = MAX_DOCUMENT_BYTES) -> tuple[str, list[Fault]]:
    """The content as text: UTF-8, with or without byte order mark; line ends are LF.

    Other bytes are kept readable (as ``\\xNN``), NULs are taken away; each is reported as a Fault
    of kind ``encoding`` or ``nul``. Raises Unreadable.
    """
    data = read_bytes(file, limit)
    if data.startswith(_BOM):
        data = data[len(_BOM) :]
    if b"\r\n" in data:
        data = data.replace(b"\r\n", b"\n")
    faults: list[Fault] = []
    if b"\0" in data:
        faults.append(nul_fault(file.path, data.count(b"\n", 0, data.index(b"\0")) + 1))
        data = data.replace(b"\0", b"")
    if _CONFLICT in data:
        faults.extend(_conflict(file.path, data))
    try:
        return data.decode("utf-8"), faults
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        fault = Fault(
            path=file.path,
            kind="encoding",
            message=f"line {line} is not UTF-8 text (byte 0x{data[error.start]:02x})",
            line=line,
            fix="save the file as UTF-8",
        )
        return data.decode("utf-8", "backslashreplace"), [*faults, fault]


_CONFLICT = b">>>>>>> "


def _conflict(path: str, data: bytes) -> Iterator[Fault]:
    """What git leaves in a file that two branches changed and nobody resolved."""
    lines = data.split(b"\n")
    marks = [n for n, line in enumerate(lines, 1) if line.startswith((b"<<<<<<< ", _CONFLICT))]
    if len(marks) > 1 and b"=======" in lines[marks[0] :]:
        yield Fault(
            path=path,
            kind="syntax",
            message=f"line {marks[0]} begins a merge conflict that was not resolved",
            line=marks[0],
            fix="keep one of the two versions, and take the marks <<<<<<<, ======= and >>>>>>> out",
        )


def read_lines(file: File) -> Iterator[bytes]:
    """Every line without its end, in constant memory whatever the file's size.

    A line longer than MAX_LINE_BYTES is given as its first bytes only, cut at that length, so
    that its reader sees damaged text. Raises Unreadable.
    """
    handle = open_file(file)
    with os.fdopen(handle, "rb", buffering=CHUNK) as stream:
        try:
            skipping = False
            while line := stream.readline(MAX_LINE_BYTES):
                complete = line.endswith(b"\n")
                if skipping:
                    skipping = not complete
                    continue
                skipping = not complete and len(line) == MAX_LINE_BYTES
                yield line.rstrip(b"\r\n")
        except OSError as error:
            raise Unreadable(
                Fault(file.path, "unreadable", f"the file cannot be read: {error.strerror}")
            ) from error


_NUMBER = re.compile(r"[-+]?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][-+]?\d{1,6})?")
_SPECIAL = {"nan": math.nan, "inf": math.inf, "infinity": math.inf}
_WRAPPED = re.compile(r"\b(?:np|numpy)\.(?:float|int|uint)\d{0,3}\(\s*([^()]{0,500}?)\s*\)")
_MAX_DIGITS = 400


def plain(text: str) -> str:
    """Text as Python prints it, without NumPy's wrapping: ``np.float64(44.4)`` is ``44.4``."""
    return _WRAPPED.sub(r"\1", text) if "np." in text or "numpy." in text else text


def number_of(text: str) -> float | None:
    """The number that a text states, infinite where it is too large for a float; None: none.

    Blanks around it, a percent sign and NumPy's wrapping do not matter; a decimal comma or a
    thousands separator does: ``76,064`` is not a number here, for it can be read in two ways.
    """
    text = plain(text).strip().removesuffix("%").rstrip()
    if not _NUMBER.fullmatch(text):
        special = _SPECIAL.get(text.lstrip("+-").lower())
        return None if special is None else -special if text.startswith("-") else special
    return float(text)


def integer_of(text: str) -> int | None:
    """The whole number that a text states, of at most 400 digits; None: none."""
    text = plain(text).strip()
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS):
        return None
    return int(text)


def nul_fault(path: str, line: int) -> Fault:
    """The Fault of a text that holds NUL bytes; they are what a broken copy leaves."""
    return Fault(
        path=path,
        kind="nul",
        message=f"line {line} holds NUL bytes",
        line=line,
        fix="copy the file again: NUL bytes are left where a copy or a disk write was cut short",
    )


_AT_ONCE = 4 * 1024 * 1024


def sound_lines(file: File, *, limit: int = 64 * 1024) -> list[str] | None:
    """The lines of a text of moderate size in which nothing is to be reported, replaced or cut; None:
    there may be. Raises Unreadable."""
    if file.size > _AT_ONCE:
        return None
    data = read_bytes(file)
    if not data or b"\0" in data:
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    lines = [line.rstrip() for line in text.removesuffix("\n").split("\n")]
    # Characters are counted here, and bytes where lines are cut.
    return None if max(map(len, lines)) > limit // 4 else lines


def text_lines(
    file: File, faults: list[Fault], *, limit: int = 64 * 1024
) -> Iterator[tuple[int, str]]:
    """Every line of a text as (number, text), streaming, whatever its line ends.

    A byte order mark, blanks at the end, CR and NULs are taken away; a line is cut after ``limit``
    bytes. The first line that is not UTF-8, and the first that holds NULs, is a Fault, added to
    ``faults``. Raises Unreadable.
    """
    sound = sound_lines(file, limit=limit)
    if sound is not None:
        yield from enumerate(sound, 1)
        return
    undecodable = nul = False
    for number, raw in enumerate(read_lines(file), 1):
        if len(raw) > limit:
            raw = raw[:limit]
        if number == 1 and raw.startswith(_BOM):
            raw = raw[len(_BOM) :]
        if b"\0" in raw:
            if not nul:
                nul = True
                faults.append(nul_fault(file.path, number))
            raw = raw.replace(b"\0", b"")
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            if not undecodable and error.end < limit - 4:
                undecodable = True
                faults.append(
                    Fault(
                        path=file.path,
                        kind="encoding",
                        message=f"line {number} is not UTF-8 text",
                        line=number,
                        fix="save the file as UTF-8",
                    )
                )
            line = raw.decode("utf-8", "backslashreplace")
        yield number, line.rstrip()


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a text that `read_text` gave as (number, line without blanks at its end)."""
    for number, line in enumerate(text.split("\n"), 1):
        yield number, line.rstrip()


def sha256_of(file: File) -> str:
    """SHA-256 of the content as 64 hex digits, streaming. Raises Unreadable."""
    handle = open_file(file)
    digest = hashlib.sha256()
    with os.fdopen(handle, "rb", buffering=0) as stream:
        try:
            while chunk := stream.read(CHUNK):
                digest.update(chunk)
        except OSError as error:
            raise Unreadable(
                Fault(file.path, "unreadable", f"the file cannot be read: {error.strerror}")
            ) from error
    return digest.hexdigest()


def printable(name: str) -> str:
    """A file name as text that any output can carry (undecodable bytes as ``\\xNN``)."""
    if name.isascii():
        return name
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return os.fsencode(name).decode("utf-8", "backslashreplace")
    return name


_NAME = operator.attrgetter("name")

LARGE = 100_000
"""After so many entries of a tree the folders of further results are packed."""

_RUNS = frozenset({"performance", "accuracy"})


class TooLarge(Exception):
    """A tree has more than `LARGE` entries."""


def list_tree(
    root: Path, *, max_depth: int = 64, max_entries: int = 5_000_000, packing: bool = True
) -> Folder:
    """List everything below ``root`` once. Never raises for what it finds in the tree.

    Without ``packing`` a tree whose folders would be packed raises TooLarge.

    Symbolic links are resolved: one that stays in the tree counts as what it points to, one that
    leaves it, points nowhere or back up is kept as a File with that state. ``.git`` is left out.
    """
    top = os.path.realpath(root)
    base = top.rstrip(os.sep) + os.sep
    entries = 0

    def inside(real: str) -> bool:
        return real == top or real.startswith(base)

    def scan(real: str, path: str, depth: int) -> Folder:
        nonlocal entries
        folder = Folder(path)
        respelt = False
        try:
            with os.scandir(real) as found:
                names = sorted(found, key=_NAME)
        except OSError as error:
            if exhausted(error):
                raise MachineFault(f"{path or '.'} cannot be listed: {error.strerror}") from error
            folder.faults.append(
                Fault(
                    path or ".",
                    "unreadable",
                    f"{path or '.'} cannot be listed: {error.strerror}",
                    fix="make the folder readable for the user who runs the check",
                )
            )
            return folder
        for entry in names:
            entries += 1
            if entries > max_entries:
                folder.faults.append(
                    Fault(
                        path or ".",
                        "too-large",
                        f"the tree has more than {max_entries:,} entries; the rest was not looked at",
                    )
                )
                break
            if entry.name == ".git":
                continue
            name = printable(entry.name)
            respelt = respelt or name != entry.name
            below = f"{path}/{name}" if path else name
            target = entry.path
            link = False
            try:
                # What the listing knows by itself: most entries are files and folders.
                status: os.stat_result | None = None
                if entry.is_dir(follow_symlinks=False):
                    pass
                elif entry.is_symlink():
                    link = True
                    target = os.path.realpath(entry.path)
                    state = None
                    if not inside(target):
                        state = "escaping" if os.path.lexists(target) else "dangling"
                    elif not os.path.lexists(target):
                        state = "dangling"
                    elif (
                        Path(target).is_symlink()
                        or real == target
                        or (real + os.sep).startswith(target + os.sep)
                    ):
                        state = "loop"
                    if state:
                        folder.files[name] = File(below, entry.path, 0, state, True)
                        continue
                    status = Path(target).stat()
                else:
                    status = entry.stat(follow_symlinks=False)
            except OSError as error:
                state = "loop" if error.errno == errno.ELOOP else "unreadable"
                folder.files[name] = File(below, entry.path, 0, state, link)
                continue
            if status is None or stat.S_ISDIR(status.st_mode):
                if depth >= max_depth:
                    folder.faults.append(
                        Fault(
                            below,
                            "too-large",
                            f"{below} is nested more than {max_depth} folders deep; it was not looked at",
                        )
                    )
                    continue
                child = scan(target, below, depth + 1)
                child.link = link
                if entries > LARGE and not packing:
                    raise TooLarge
                if entries > LARGE and not _RUNS.isdisjoint(map(str.lower, child.folders)):
                    child.pack(base)
                folder.folders[name] = child
            elif stat.S_ISREG(status.st_mode):
                folder.files[name] = File(
                    below,
                    target,
                    status.st_size,
                    "file",
                    link,
                    status.st_mtime_ns,
                    status.st_ctime_ns,
                    status.st_ino,
                )
            else:
                folder.files[name] = File(below, entry.path, 0, "special", link)
        if respelt:
            # Names that cannot be printed may sort in another way once they can.
            folder.sort()
        return folder

    return scan(top, "", 0)
