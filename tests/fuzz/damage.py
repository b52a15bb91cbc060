"""Kinds of damage to one file of a tree, seeded: what broken disks, copies, editors and attackers do.

Each takes a random number generator and the file's content and gives the new content, or None where
it does not fit. Those of `PLACES` change what the file is.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import random
import re
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

Damage = Callable[[random.Random, bytes], bytes | None]

_HUGE = (b"9" * 400, b"9" * 5000, b"1e999", b"-1e400", b"1e308", b"18446744073709551616")
_WRONG = (
    b"null",
    b"{}",
    b"[[]]",
    b'{"a": [1]}',
    b'"\\u0000"',
    b'"\\ud800"',
    b"[" * 900 + b"]" * 900,
)
_ODD = (b"NaN", b"-Infinity", b'""', b"true", b"-1", b"0", b"4.9e-324", b"1_000", "١٢".encode())
_NUMBER = re.compile(rb"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.])")
_RECORD = re.compile(rb'"value": (.{0,2000}?), "(?:time_ms|metadata)"')
_FIELD = re.compile(
    rb'"(?:key|time_ms|pid|tid|file|line_no|is_error|is_warning|event_type|metadata)": ("[^"\n]*"|[\w.]+)'
)
_BYTES = (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe9t\xe9")
_LOOKED_AT = 200_000


def _at(chance: random.Random, content: bytes) -> int:
    return chance.randrange(len(content))


def _lines(change: Callable[[random.Random, list[bytes]], bool]) -> Damage:
    def damage(chance: random.Random, content: bytes) -> bytes | None:
        lines = content.split(b"\n")
        return b"\n".join(lines) if change(chance, lines) else None

    return damage


def _replace(pattern: re.Pattern[bytes], values: tuple[bytes, ...]) -> Damage:
    def damage(chance: random.Random, content: bytes) -> bytes | None:
        group = pattern.groups
        places = [m.span(group) for m in pattern.finditer(content[:_LOOKED_AT])]
        if not places:
            return None
        begin, end = chance.choice(places)
        return content[:begin] + chance.choice(values) + content[end:]

    return damage


def _flipped(chance: random.Random, content: bytes) -> bytes:
    """A bit that turns text into something that is none."""
    at = _at(chance, content)
    return content[:at] + bytes([content[at] | 0x80]) + content[at + 1 :]


def _bits(chance: random.Random, content: bytes) -> bytes:
    new = bytearray(content)
    for _ in range(chance.choice((1, 1, 4, 32))):
        new[_at(chance, content)] ^= 1 << chance.randrange(8)
    return bytes(new)


def _noise(chance: random.Random, content: bytes) -> bytes:
    at, length = _at(chance, content), chance.choice((16, 64, 1024))
    return content[:at] + chance.randbytes(length) + content[at + length :]


def _nul(chance: random.Random, content: bytes) -> bytes:
    at, length = _at(chance, content), chance.choice((1, 1, 32, 512))
    return content[:at] + bytes(length) + content[at + length :]


def _encoded(chance: random.Random, content: bytes) -> bytes | None:
    try:
        return content.decode().encode(chance.choice(("utf-16", "utf-16-le", "utf-32")))
    except UnicodeDecodeError:
        return None


def _swap(chance: random.Random, lines: list[bytes]) -> bool:
    one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return True


def _twice(chance: random.Random, lines: list[bytes]) -> bool:
    lines.insert(chance.randrange(len(lines)), chance.choice(lines))
    return True


def _gone(chance: random.Random, lines: list[bytes]) -> bool:
    at = chance.randrange(len(lines))
    del lines[at : at + chance.choice((1, 1, 5))]
    return True


def _long(chance: random.Random, lines: list[bytes]) -> bool:
    at = chance.randrange(len(lines))
    lines[at] = lines[at][:2000] * 1000
    return True


def _json(change: Callable[[random.Random, Any, Any], bytes]) -> Damage:
    """A change to one value of a JSON document, found by walking it."""

    def damage(chance: random.Random, content: bytes) -> bytes | None:
        if len(content) > _LOOKED_AT:
            return None
        try:
            value = json.loads(content)
        except ValueError:
            return None
        places: list[tuple[Any, Any]] = []
        below = [value]
        while below:
            here = below.pop()
            keys = here if isinstance(here, dict) else range(len(here))
            for key in keys:
                places.append((here, key))
                if isinstance(here[key], dict | list):
                    below.append(here[key])
        if not places:
            return None
        here, key = chance.choice(places)
        old, here[key] = here[key], "@@here@@"
        new = change(chance, key, old)
        return json.dumps(value, indent=1).encode().replace(b'"@@here@@"', new)

    return damage


def _repeated(chance: random.Random, key: Any, old: Any) -> bytes:
    first = json.dumps(old).encode()
    if not isinstance(key, str):
        return first
    return first + b", " + json.dumps(key).encode() + b": " + chance.choice((b'"other"', b"7"))


def _block_cut(chance: random.Random, content: bytes) -> bytes | None:
    """Cut where a block of a disk, a pipe or a buffer ends."""
    sizes = [1 << n for n in range(9, 20) if 1 << n < len(content)]
    return content[: chance.choice(sizes)] if sizes else None


def _pointer(chance: random.Random, content: bytes) -> bytes:
    """What Git LFS leaves where the content was not fetched."""
    digest = hashlib.sha256(content).hexdigest()
    text = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {len(content)}\n"
    return text.encode()


def _conflict(chance: random.Random, lines: list[bytes]) -> bool:
    at = chance.randrange(len(lines))
    other = _NUMBER.sub(b"17", lines[at])
    lines[at : at + 1] = [
        b"<<<<<<< HEAD", lines[at], b"=======", other, b">>>>>>> results"
    ]  # fmt: skip
    return True


def _excerpt(chance: random.Random, lines: list[bytes]) -> bool:
    """As pasted from a terminal: the first lines, dots, the last ones."""
    if len(lines) < 9:
        return False
    first = chance.randrange(1, len(lines) // 2)
    last = chance.randrange(1, len(lines) // 2)
    lines[first:-last] = [b"..."]
    return True


def _shortened(chance: random.Random, lines: list[bytes]) -> bool:
    """A line cut off where a terminal or an editor ends its lines."""
    width = chance.choice((80, 120, 200))
    long = [n for n, line in enumerate(lines) if len(line) > width]
    if not long:
        return False
    at = chance.choice(long)
    lines[at] = lines[at][:width]
    return True


def _marked(chance: random.Random, lines: list[bytes]) -> bool:
    """A patch, a quotation or a numbered listing in place of the file."""
    mark = chance.choice((b"+", b"> ", b"| ", b"%d: "))
    lines[:] = [(mark % n if b"%" in mark else mark) + line for n, line in enumerate(lines, 1)]
    return True


def _wrapped(chance: random.Random, lines: list[bytes]) -> bool:
    """A long line that became two."""
    long = [n for n, line in enumerate(lines) if len(line) > 40]
    if not long:
        return False
    at = chance.choice(long)
    split = chance.randrange(20, len(lines[at]) - 10)
    lines[at : at + 1] = [lines[at][:split], lines[at][split:]]
    return True


def _other_output(chance: random.Random, content: bytes) -> bytes:
    """What another program wrote into the same file meanwhile."""
    at = _at(chance, content)
    text = chance.choice((b"Killed\n", b"\x1b[31mCUDA error\x1b[0m\n", b"100%|####| 5/5 [00:01]\r"))
    return content[:at] + text + content[at:]


def _field_twice(chance: random.Random, content: bytes) -> bytes | None:
    places = list(_RECORD.finditer(content[:_LOOKED_AT]))
    if not places:
        return None
    at = chance.choice(places)
    other = chance.choice((b"1", b'"VALID"', at[1]))
    return content[: at.start()] + b'"value": ' + other + b", " + content[at.start() :]


def _listed(chance: random.Random, content: bytes) -> bytes | None:
    places = [m.span(1) for m in _RECORD.finditer(content[:_LOOKED_AT])]
    if not places:
        return b"[" + content + b"]"
    begin, end = chance.choice(places)
    return content[:begin] + b"[" + content[begin:end] + b"]" + content[end:]


def _python(chance: random.Random, content: bytes) -> bytes | None:
    """A document printed by Python in place of json.dump."""
    try:
        return repr(json.loads(content)).encode(errors="surrogateescape")
    except (ValueError, RecursionError):
        return None


def _comma(chance: random.Random, content: bytes) -> bytes | None:
    """A number as some countries write it."""
    places = [m.span() for m in _NUMBER.finditer(content[:_LOOKED_AT]) if b"." in m[0]]
    if not places:
        return None
    begin, end = chance.choice(places)
    return content[:begin] + content[begin:end].replace(b".", b",") + content[end:]


def _quoted(chance: random.Random, content: bytes) -> bytes | None:
    places = [m.span() for m in _NUMBER.finditer(content[:_LOOKED_AT])]
    if not places:
        return None
    begin, end = chance.choice(places)
    return content[:begin] + b'"' + content[begin:end] + b'"' + content[end:]


def _ends_mixed(chance: random.Random, lines: list[bytes]) -> bool:
    """Some lines by an editor that ends them otherwise."""
    for at in chance.sample(range(len(lines)), max(1, len(lines) // 2)):
        lines[at] += b"\r"
    return len(lines) > 1


def _curly(chance: random.Random, lines: list[bytes]) -> bool:
    """Quotation marks as an office program writes them."""
    quoted = [n for n, line in enumerate(lines) if line.count(b'"') > 1]
    if not quoted:
        return False
    at = chance.choice(quoted)
    lines[at] = re.sub(rb'"([^"]*)"', "“\\1”".encode(), lines[at])
    return True


def _apostrophes(chance: random.Random, lines: list[bytes]) -> bool:
    quoted = [n for n, line in enumerate(lines) if line.count(b'"') > 1]
    if not quoted:
        return False
    at = chance.choice(quoted)
    lines[at] = lines[at].replace(b'"', b"'")
    return True


def _commented(chance: random.Random, lines: list[bytes]) -> bool:
    at = chance.randrange(len(lines))
    lines.insert(
        at, chance.choice((b"// to be checked", b"/* old */", b"# to be checked", b"-- x"))
    )
    return True


def _comma_last(chance: random.Random, content: bytes) -> bytes | None:
    places = [m.start() for m in re.finditer(rb"(?<=[\w\"\]}])\s*[\]}]", content[:_LOOKED_AT])]
    if not places:
        return None
    at = chance.choice(places)
    return content[:at] + b"," + content[at:]


_DATE = re.compile(rb"(\d{4})-(\d\d)-(\d\d)([ T])(\d\d):(\d\d):(\d\d)")


def _dated(chance: random.Random, content: bytes) -> bytes | None:
    """A date as other countries and programs write it."""
    places = list(_DATE.finditer(content[:_LOOKED_AT]))
    if not places:
        return None
    at = chance.choice(places)
    forms = (
        rb"\2/\3/\1 \5:\6:\7",
        rb"\3.\2.\1 \5:\6:\7",
        rb"\1\2\3T\5\6\7",
        rb"\1-\2-\3",
        rb"\5:\6:\7",
    )
    return content[: at.start()] + at.expand(chance.choice(forms)) + content[at.end() :]


def _numbers(change: Callable[[random.Random, bytes], bytes]) -> Damage:
    def damage(chance: random.Random, content: bytes) -> bytes | None:
        places = [m.span() for m in _NUMBER.finditer(content[:_LOOKED_AT])]
        if not places:
            return None
        begin, end = chance.choice(places)
        return content[:begin] + change(chance, content[begin:end]) + content[end:]

    return damage


def _typed(chance: random.Random, number: bytes) -> bytes:
    """One digit for another."""
    at = chance.choice([n for n, byte in enumerate(number) if chr(byte).isdigit()])
    return number[:at] + str((number[at] - 47) % 10).encode() + number[at + 1 :]


def _other_unit(chance: random.Random, number: bytes) -> bytes:
    value = float(number) * chance.choice((1e3, 1e-3, 1e6, 1e-6, 8, 60))
    return str(int(value) if value.is_integer() and abs(value) < 1e18 else value).encode()


def _grouped(chance: random.Random, number: bytes) -> bytes:
    whole, dot, rest = number.partition(b".")
    return f"{int(whole):,}".encode() + dot + rest if whole.lstrip(b"-").isdigit() else number


def _words(chance: random.Random, content: bytes) -> bytes | None:
    """A word in another case."""
    places = [m.span() for m in re.finditer(rb"\b[A-Za-z]{3,}\b", content[:_LOOKED_AT])]
    if not places:
        return None
    begin, end = chance.choice(places)
    return content[:begin] + content[begin:end].swapcase() + content[end:]


def _packed(chance: random.Random, content: bytes) -> bytes:
    """In an archive of the same name."""
    packed = io.BytesIO()
    if chance.random() < 0.5:
        with zipfile.ZipFile(packed, "w") as zip:
            zip.writestr("content", content)
    else:
        with tarfile.open(fileobj=packed, mode="w") as tar:
            member = tarfile.TarInfo("content")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def _interleaved(chance: random.Random, lines: list[bytes]) -> bool:
    """Two processes wrote the same log."""
    lines[:] = [line for one in lines for line in (one, one)]
    return len(lines) > 3


def _sorted(chance: random.Random, lines: list[bytes]) -> bool:
    before = list(lines)
    lines.sort()
    return lines != before


_PAGE = (
    b"<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head><body>gone</body></html>\n"
)


DAMAGES: dict[str, Damage] = {
    "emptied": lambda chance, content: b"",
    "cut": lambda chance, content: content[: _at(chance, content)],
    "beginning gone": lambda chance, content: content[_at(chance, content) :],
    "bit": _flipped,
    "bits": _bits,
    "noise": _noise,
    "nul": _nul,
    "other encoding": _encoded,
    "bytes": lambda chance, content: (
        content[: (at := _at(chance, content))] + chance.choice(_BYTES) + content[at:]
    ),
    "record wrong": _replace(_RECORD, _WRONG),
    "record odd": _replace(_RECORD, _ODD + _HUGE),
    "field": _replace(_FIELD, _WRONG + _ODD + _HUGE),
    "number": _replace(_NUMBER, _HUGE + _ODD),
    "value wrong": _json(lambda chance, key, old: chance.choice(_WRONG)),
    "value odd": _json(lambda chance, key, old: chance.choice(_ODD + _HUGE)),
    "key twice": _json(_repeated),
    "nested": lambda chance, content: b"[" * 5000 + content + b"]" * 5000,
    "lines swapped": _lines(_swap),
    "line twice": _lines(_twice),
    "lines gone": _lines(_gone),
    "line long": _lines(_long),
    "block cut": _block_cut,
    "padded": lambda chance, content: content + bytes(-len(content) % 4096 or 4096),
    "compressed": lambda chance, content: gzip.compress(content, 1, mtime=0),
    "LFS pointer": _pointer,
    "conflict": _lines(_conflict),
    "excerpt": _lines(_excerpt),
    "line shortened": _lines(_shortened),
    "line wrapped": _lines(_wrapped),
    "lines marked": _lines(_marked),
    "other output": _other_output,
    "field twice": _field_twice,
    "in a list": _listed,
    "by Python": _python,
    "two documents": lambda chance, content: content + chance.choice((b"", b"\n")) + content,
    "decimal comma": _comma,
    "number quoted": _quoted,
    "CRLF": lambda chance, content: content.replace(b"\n", b"\r\n"),
    "marked as UTF-8": lambda chance, content: b"\xef\xbb\xbf" + content,
    "line ends mixed": _lines(_ends_mixed),
    "curly quotes": _lines(_curly),
    "apostrophes": _lines(_apostrophes),
    "comment": _lines(_commented),
    "comma last": _comma_last,
    "date otherwise": _dated,
    "digit": _numbers(_typed),
    "other unit": _numbers(_other_unit),
    "sign": _numbers(lambda chance, number: number[1:] if number[:1] == b"-" else b"-" + number),
    "grouped": _numbers(_grouped),
    "fraction gone": _numbers(lambda chance, number: number.partition(b".")[0] or b"0"),
    "word in another case": _words,
    "in an archive": _packed,
    "as text of bytes": lambda chance, content: base64.encodebytes(content),
    "written twice": _lines(_interleaved),
    "lines sorted": _lines(_sorted),
    "a web page": lambda chance, content: _PAGE,
    "blank": lambda chance, content: chance.choice((b"\n", b" " * 4096, b"\n" * 50)),
    "another document": lambda chance, content: chance.choice((b"{}", b"[]", b"null\n", b'""')),
    "one line": lambda chance, content: content.replace(b"\n", chance.choice((b"\r", b"", b" "))),
}  # fmt: skip
"""What may happen to the content of a file."""


def _folder(place: Path) -> None:
    place.mkdir()


def _folder_with_file(place: Path) -> None:
    place.mkdir()
    (place / place.name).write_bytes(b"x\n")


PLACES: dict[str, Callable[[Path], None]] = {
    "gone": lambda place: None,
    "folder": _folder,
    "folder with a file": _folder_with_file,
    "pipe": lambda place: os.mkfifo(place),
    "dangling link": lambda place: place.symlink_to("nowhere"),
    "link to itself": lambda place: place.symlink_to(place.name),
    "link upwards": lambda place: place.symlink_to(".."),
    "link out of the tree": lambda place: place.symlink_to("/etc/hostname"),
    "device": lambda place: place.symlink_to("/dev/zero"),
}
"""What may lie where a file was."""


RENAMED: dict[str, Callable[[str], str]] = {
    "name in another case": str.swapcase,
    "name of a copy": lambda name: f"{Path(name).stem} (1){Path(name).suffix}",
    "name of a backup": lambda name: f"{name}~",
    "name with a blank": lambda name: f"{name} ",
    "name with another ending": lambda name: f"{name}.txt",
    "name of an archive": lambda name: f"{name}.gz",
    "hidden name": lambda name: f".{name}",
}
"""What a file may be called instead."""


def _loop(folder: Path, aside: Path) -> None:
    folder.symlink_to(folder.parent)


def _nothing(folder: Path, aside: Path) -> None:
    """The folder is not there."""


def _doubled(folder: Path, aside: Path) -> None:
    """As an archive that was unpacked into a folder of its name."""
    shutil.copytree(aside, folder / folder.name, symlinks=True)


def _copied(folder: Path, aside: Path) -> None:
    """As by a backup beside it."""
    shutil.copytree(aside, folder, symlinks=True)
    shutil.copytree(aside, copy_of(folder), symlinks=True)


def copy_of(folder: Path) -> Path:
    """Where "folder copied" puts the copy."""
    return folder.with_name(f"{folder.name}_copy")


def _file_instead(folder: Path, aside: Path) -> None:
    folder.write_bytes(b"x\n")


FOLDERS: dict[str, Callable[[Path, Path], None]] = {
    "folder emptied": lambda folder, aside: folder.mkdir(),
    "folder gone": _nothing,
    "folder is a file": _file_instead,
    "folder loops": _loop,
    "folder doubled": _doubled,
    "folder copied": _copied,
}
"""What may be where the file's folder was, which is kept aside."""

FOLDERS_RENAMED: dict[str, Callable[[str], str]] = {
    "folder in another case": str.swapcase,
    "folder of a copy": lambda name: f"{name} - Copy",
    "folder with a blank": lambda name: f"{name} ",
    "folder of old": lambda name: f"{name}.old",
}
"""What the file's folder may be called instead."""


def _other_content(place: Path, other: Path) -> None:
    place.write_bytes(other.read_bytes())


def _exchanged(place: Path, other: Path) -> None:
    one, two = place.read_bytes(), other.read_bytes()
    place.write_bytes(two)
    other.write_bytes(one)


def _linked(place: Path, other: Path) -> None:
    place.unlink()
    place.symlink_to(os.path.relpath(other, place.parent))


OTHERS: dict[str, Callable[[Path, Path], None]] = {
    "content of another": _other_content,
    "exchanged with another": _exchanged,
    "link to another": _linked,
}
"""What one may do with a file and another result's file of the same name."""


def mixed_up(place: Path, other: Path, kind: str) -> Callable[[], None]:
    """Do one of OTHERS; call what is returned to undo it."""
    one, two = place.read_bytes(), other.read_bytes()
    OTHERS[kind](place, other)

    def back() -> None:
        place.unlink()
        place.write_bytes(one)
        other.write_bytes(two)

    return back


def renamed(place: Path, name: str) -> Callable[[], None]:
    """Rename a file or a folder; call what is returned to put it back."""
    there = place.rename(place.with_name(name))

    def back() -> None:
        there.rename(place)

    return back


def folder_replaced(folder: Path, kind: str, aside: Path) -> Callable[[], None]:
    """Put something else where a folder is, which is kept aside; call what is returned to put it back."""
    folder.rename(aside)
    FOLDERS[kind](folder, aside)

    def back() -> None:
        shutil.rmtree(copy_of(folder), ignore_errors=True)
        if folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder)
        else:
            folder.unlink(missing_ok=True)
        aside.rename(folder)

    return back


def replaced(place: Path, kind: str) -> Callable[[], None]:
    """Put something else where a file is; call what is returned to put it back."""
    content, mode = place.read_bytes(), place.stat().st_mode
    place.unlink()
    PLACES[kind](place)

    def back() -> None:
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
        place.write_bytes(content)
        place.chmod(mode)

    return back
