"""Seeded damage to whole submissions: none may end a check, and none may go unseen.

Damage is "unseen" when rules read something else of the file than before and no finding names the
file or a folder that it is in. Where there is a corpus, small real submissions are damaged too.
"""

from __future__ import annotations

import random
import re
import shutil
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checker.engine import Options, check
from checker.model import SCENARIOS
from checker.parse import reading
from schemas.load import load_round
from schemas.report import Finding, Report, decode, encode
from tests.corpus import corpus_rounds, unpacked
from tests.fuzz.damage import (
    DAMAGES,
    FOLDERS,
    FOLDERS_RENAMED,
    OTHERS,
    PLACES,
    RENAMED,
    copy_of,
    folder_replaced,
    mixed_up,
    renamed,
    replaced,
)
from tests.fuzz.readings import Asked, reading_of
from tests.fuzz.seeds import TREES
from tests.trees import good_tree

PLAIN_DAMAGE = {
    *PLACES, *RENAMED, *FOLDERS, *FOLDERS_RENAMED, *OTHERS, "emptied", "cut", "beginning gone", "bit", "noise",
    "nul", "other encoding", "bytes", "record wrong", "value wrong", "key twice", "nested",
    "block cut", "padded", "compressed", "LFS pointer", "conflict", "excerpt", "line shortened",
    "line wrapped", "lines marked", "field twice", "in a list", "by Python", "CRLF", "marked as UTF-8",
    "two documents", "other output", "decimal comma", "line ends mixed", "curly quotes", "apostrophes",
    "comment", "comma last", "date otherwise", "digit", "other unit", "sign", "grouped", "fraction gone",
    "word in another case", "in an archive", "as text of bytes", "written twice", "lines sorted",
    "a web page", "blank", "another document",
}  # fmt: skip
"""Damage that leaves nothing which somebody may have meant."""

_CUT = {"cut", "beginning gone", "block cut", "excerpt", "line wrapped", "line shortened"}
_NOT_THERE = {
    *RENAMED, *FOLDERS_RENAMED, "gone", "folder", "folder with a file", "folder gone", "folder emptied",
    "folder doubled",
}  # fmt: skip
_VALUES = {
    "digit", "other unit", "sign", "grouped", "fraction gone", "decimal comma", "word in another case",
    "date otherwise", "lines sorted",
}  # fmt: skip
"""What changes a value to one that somebody may have meant: seen where something contradicts it, by an
audit."""

_SCENARIO = rf"(?i)/({'|'.join(SCENARIOS)})/[^/]+$"

EXCEPTIONS: tuple[tuple[str, set[str], str], ...] = (
    (r"/(user\.conf|config\.yaml)$", _CUT, "fewer lines are settings, too"),
    (r"/user\.conf$", {"two documents"}, "every setting twice, with one value"),
    (r"^open/.*/TEST\d\d", {*_CUT, *_NOT_THERE, *OTHERS, "emptied", "blank", "other output", "another document"},
     "an open result needs no test"),
    (r"^open/[^/]+/audit/", PLAIN_DAMAGE, "v0.5 has tests in the closed division only (S104)"),
    (r"/accuracy/mlperf_log_summary\.txt$", {*_CUT}, "an accuracy run's results are none"),
    (_SCENARIO, {"folder in another case"}, "a scenario may be spelled in any case"),
    (r"/(config\.yaml|result_summary\.json|accuracy_results\.json)$", {"value wrong"},
     "most of what an endpoints client writes is read by no rule"),
    (r"/result_summary\.json$", {"digit"}, "a percentile between its neighbours has no second source"),
    (r"/(client|server)\.json$", {"value wrong", *_VALUES},
     "the messages' texts and times are read by no rule"),
    (r"/systems/[^/]+\.json$", {"value wrong", "in a list"}, "fields on power may be of any type"),
    (r"/systems/[^/]+\.json$", {"decimal comma"}, "versions are any text"),
    (r"/TEST\d\d/.*/mlperf_log_accuracy\.json$", {*OTHERS},
     "which answers a test logs follows from seeds that not every round's logs state"),
    (r"/TEST\d\d/.*/mlperf_log_summary\.txt$", {"digit"}, "logs of v0.7 state latencies in the summary alone"),
    (r"/TEST01/accuracy/[a-z]+_accuracy\.txt$", {*_NOT_THERE, "folder is a file"}, "read where the verdict is not PASS"),
    (r"/TEST06/(performance|accuracy)/", {*_NOT_THERE, "folder is a file"}, "the round requires TEST06's verdict alone"),
    (r"/(systems|measurements)/.*\.json$|/measurements\.json$", {*_VALUES, *OTHERS, "comma last"},
     "what a person states of a system or an implementation has no second source"),
    (r"/user\.conf$", {"lines sorted", "written twice"}, "every setting with its value"),
    (r"/user\.conf$", {*_VALUES}, "not every setting is in a log"),
    (r"/mlperf_log_(summary|detail)\.txt$", {"lines sorted"}, "every value with its name"),
    (r"/accuracy_results\.json$", {*OTHERS}, "does not say of which result it is"),
    (r"/accuracy\.txt$|/accuracy_results\.json$", {*_VALUES, "exchanged with another"},
     "a score and a hash have no second source once the log is shortened"),
    (r"/config\.yaml$", {*_VALUES}, "not every setting is in a log"),
    (r"/verify_\w+\.txt$", {*_VALUES, *OTHERS}, "counts over logs that are shortened"),
    (r"/mlperf_log_accuracy\.json$", {*_VALUES}, "an answer has no second source"),
    (r"/mlperf_log_accuracy\.json$", {"excerpt"}, "published logs are shortened in the middle"),
    (r"/mlperf\.conf$", _NOT_THERE, "LoadGen has its own"),
    (r"/accuracy\.txt$", {*_CUT, "other output"}, "what is left may be a whole text"),
)  # fmt: skip
"""Damage that is no finding: path, kinds, why."""


def must_be_seen(path: str, kind: str) -> bool:
    """Whether damage that changes what rules read must be a finding that names the file."""
    excepted = any(kind in kinds and re.search(place, path) for place, kinds, _ in EXCEPTIONS)
    return kind in PLAIN_DAMAGE and not excepted


SLOWEST_S = 20.0
_SMALL = 4 << 20
_FILES = 60


@dataclass(slots=True)
class Tried:
    """How many trees were damaged, how, and which went wrong."""

    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    unseen: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    slowest: float = 0.0

    def text(self) -> str:
        """For people."""
        lines = [
            f"trees: {self.counts.total():,} damaged in {self.seconds:.0f} s, slowest "
            f"{self.slowest:.1f} s, seed {self.seed} ({_counted(self.counts)})",
            f"  of them {self.unseen.total():,} with another content that is as good as the first to "
            f"every rule ({_counted(self.unseen)})",
        ]
        return "\n".join([*lines, *(f"  FOUND {one}" for one in self.wrong)])


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def damage_trees(count: int, *, seed: int, seconds: float, real: bool = True) -> Tried:
    """Damage one file of a tree, check or audit, put it back; so many times or so long."""
    tried = Tried(seed)
    with tempfile.TemporaryDirectory(prefix="assay-fuzz-trees-") as folder:
        trees = list(_trees(Path(folder), real))
        began = time.monotonic()
        for number in range(count):
            if time.monotonic() - began > seconds:
                break
            chance = random.Random(seed * 1_000_003 + number)
            tree = chance.choice(trees)
            start = time.process_time()  # the machine may be held up meanwhile
            done = tree.damage(chance)
            took = time.process_time() - start
            if done is None:
                continue
            tried.counts[done.kind] += 1
            tried.slowest = max(tried.slowest, took)
            where = f"seed {seed}, tree {number}, {tree.name}: {done.kind} in {done.path}"
            if took > SLOWEST_S:
                tried.wrong.append(f"{where}: took {took:.0f} s")
            if done.wrong:
                tried.wrong.append(f"{where}: {done.wrong}")
            if done.unseen:
                if must_be_seen(done.path, done.kind):
                    tried.wrong.append(f"{where}: no finding names it")
                else:
                    tried.unseen[done.kind] += 1
    tried.seconds = time.monotonic() - began
    return tried


def _trees(folder: Path, real: bool) -> Iterator[_Tree]:
    for number, options in enumerate(TREES):
        made = good_tree(folder / str(number), **options)
        yield _Tree(made.root, made.round.name, f"{made.round.name} good")
    for name in corpus_rounds(rebuilt=True) if real else ():
        for number, submitter in enumerate(_small(unpacked(name))):
            root = folder / name / str(number)
            division = submitter.parent.name
            shutil.copytree(submitter, root / division / submitter.name, symlinks=True)
            yield _Tree(root, name, f"{name} {division}/{submitter.name}")


def _small(root: Path) -> list[Path]:
    """Up to three submitters of a round that a check reads in a moment."""
    found = []
    for division in ("closed", "open", "network"):
        for place in sorted((root / division).glob("*")):
            files = [p for p in place.rglob("*") if p.is_file() and not p.is_symlink()]
            size = sum(p.stat().st_size for p in files)
            if len(files) > 5 and size < _SMALL:
                found.append((len(files) > _FILES, size, place))
    return [place for *_, place in sorted(found)[:3]]


@dataclass(frozen=True, slots=True)
class _Done:
    kind: str
    path: str
    wrong: str = ""
    unseen: bool = False


class _Tree:
    """A tree, its reports, and the files that its rules read."""

    def __init__(self, root: Path, round: str, name: str) -> None:
        self.root, self.round, self.name = root, load_round(round), name
        asked = Asked()
        opened: set[str] = set()
        with asked.listening(), _opening(opened):
            self.good = {audit: self._check(audit) for audit in (False, True)}
        self.asked = asked
        self.known = {a: {_key(f) for f in r.findings} for a, r in self.good.items()}
        self.faulty = {f.path for f in self.good[False].findings if f.severity == "error"}
        self.unread = tuple(f"{f.path}/" for f in self.good[False].findings if f.rule == "P138")
        below = str(root.resolve())
        self.by_name: dict[str, list[Path]] = defaultdict(list)
        for real in sorted(opened):
            place = Path(real)
            path = place.relative_to(below).as_posix() if real.startswith(below) else ""
            if path.startswith(self.unread):
                continue
            if place.name == "user.conf" and any(place.parent.rglob("config.yaml")):
                continue  # an endpoints result needs none
            if "/compliance/" in path and "/TEST" not in path:
                continue  # read to detect the round, not judged
            if path and not place.is_symlink() and place.stat().st_size:
                self.by_name[_like(place)].append(place)

    def _check(self, audit: bool) -> Report:
        return check(self.root, Options(jobs=1, round=self.round.name, audit=audit))

    def damage(self, chance: random.Random) -> _Done | None:
        """One damage; None where it did not fit or changed nothing."""
        place = chance.choice(self.by_name[chance.choice(sorted(self.by_name))])
        path = self._path(place)
        audit = chance.random() < 0.5
        names = (path, path)
        others = [p for p in self.by_name[_like(place)] if p.read_bytes() != place.read_bytes()]
        if others and chance.random() < 0.1:
            kind, other = chance.choice(sorted(OTHERS)), chance.choice(others)
            before = reading_of(place, self.round, self.asked)
            back = mixed_up(place, other, kind)
            changed = reading_of(place, self.round, self.asked) != before
        elif chance.random() < 0.2:
            kind = chance.choice(_OF_PLACES)
            back, there = _otherwise(place, kind, self.root.parent / "aside")
            names = (path if kind in (*PLACES, *RENAMED) else _folder_of(path), self._path(there))
            changed = True
        else:
            kind = chance.choice(sorted(DAMAGES))
            content = place.read_bytes()
            new = DAMAGES[kind](chance, content)
            if new is None or new == content:
                return None
            before = reading_of(place, self.round, self.asked)
            place.write_bytes(new)

            def back() -> None:
                place.write_bytes(content)

            changed = reading_of(place, self.round, self.asked) != before
        audit = audit or kind in _VALUES or kind in OTHERS
        try:
            report = self._check(audit)
            wrong = next((f.message[:300] for f in report.findings if f.rule == "X001"), "")
            if decode(encode(report)) != report:
                wrong = "the report is not the same after it was saved"
        except Exception as error:
            return _Done(kind, path, f"the check ended with {type(error).__name__}: {error}")
        finally:
            back()
        seen = self._seen(report, path, audit, *names)
        unseen = changed and path not in self.faulty and not seen
        return _Done(kind, path, wrong, unseen)

    def _path(self, place: Path) -> str:
        return place.relative_to(self.root.resolve()).as_posix()

    def _seen(self, report: Report, path: str, audit: bool, old: str, new: str) -> bool:
        """Whether a finding names the file, or a new one a folder that it is in or a file beside it
        that was expected. new: what old, the file or a folder that it is in, is called now."""
        known = self.known[audit]
        folders = _above(path)
        beside = path.rpartition("/")[0]
        return any(
            f.path == path
            or f.rule == "X003"  # nothing is left to check
            or path in f.message
            or (_key(f) not in known and path.rpartition("/")[2] in f.message)
            or (new != old and f.path == new)
            or (new != old and _key(f) not in known and new.rpartition("/")[2] in f.message)
            or (
                _key(f) not in known
                and _key(f, new, old) not in known
                and (
                    f.path in folders
                    or (f.path or "").startswith(f"{new}/")
                    or (f.path or "").rpartition("/")[0] in (beside, *folders)
                )
            )
            for f in report.findings
        )


def _like(place: Path) -> str:
    """What files of one kind have in common."""
    return place.name.lstrip("0123456789")[-24:]


def _opening(opened: set[str]) -> Any:
    import contextlib

    real = reading._opened

    @contextlib.contextmanager
    def noting() -> Iterator[None]:
        def note(file: reading.File) -> tuple[int, int]:
            opened.add(file.real)
            return real(file)

        reading._opened = note
        try:
            yield
        finally:
            reading._opened = real

    return noting()


_OF_PLACES = sorted({*PLACES, *RENAMED, *FOLDERS, *FOLDERS_RENAMED})


def _otherwise(place: Path, kind: str, aside: Path) -> tuple[Callable[[], None], Path]:
    """Damage to what a file or its folder is or is called: what puts it back, and its name now."""
    if kind in PLACES:
        return replaced(place, kind), place
    if kind in FOLDERS:
        there = copy_of(place.parent) if kind == "folder copied" else place.parent
        return folder_replaced(place.parent, kind, aside), there
    of_file = kind in RENAMED
    one = place if of_file else place.parent
    name = (RENAMED if of_file else FOLDERS_RENAMED)[kind](one.name)
    return renamed(one, name), one.with_name(name)


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def _above(path: str) -> set[str]:
    parts = path.split("/")
    return {"/".join(parts[:n]) for n in range(5, len(parts))} | {"/".join(parts[:-1])}


def _key(finding: Finding, new: str = "", old: str = "") -> tuple[Any, ...]:
    """What makes two findings one, where a path was called otherwise."""
    if new == old:
        return (finding.rule, finding.path, finding.message)
    return (finding.rule, (finding.path or "").replace(new, old), finding.message.replace(new, old))
