"""Which round a tree is from: seeds first, then LoadGen's version, then the layout."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import msgspec

from checker.parse.detail_file import read_start
from checker.parse.reading import File, Folder, Unreadable, read_text
from schemas.load import load_round, round_marks, round_names
from schemas.machine import MachineFault

_SAMPLE = 24
_SETTINGS = (
    "effective_qsl_rng_seed",
    "effective_sample_index_rng_seed",
    "effective_schedule_rng_seed",
)


class Detected(msgspec.Struct, frozen=True):
    """A round's name and why, in words. ``sure`` is False when nothing in the tree shows it."""

    name: str
    reason: str
    sure: bool = True


def _detail_logs(listing: Folder) -> list[File]:
    logs = [
        file
        for folder in listing.walk()
        if (file := folder.files.get("mlperf_log_detail.txt")) and "TEST" not in file.path
    ]
    performance = [file for file in logs if "/accuracy/" not in f"/{file.path}"]
    logs = performance or logs
    step = max(1, len(logs) // _SAMPLE)
    return list(islice(logs[::step], _SAMPLE))


def detect_round(listing: Folder, above: tuple[str, ...] = ()) -> Detected:
    """The round a tree was made for. ``above``: names of the folders it is in.

    Never raises for what the tree holds: where looking at it fails, the newest round is assumed.
    """
    try:
        return _detect(listing, above)
    except (MachineFault, MemoryError):
        raise
    except Exception as error:
        newest = [mark.name for mark in round_marks() if mark.official][-1]
        what = f"looking for its round ended with {type(error).__name__}; the newest is assumed"
        return Detected(newest, what, sure=False)


def _folder_names(listing: Folder, above: tuple[str, ...]) -> set[str]:
    return {name for here in islice(listing.walk(), 20_000) for name in here.folders}.union(above)


def _detect(listing: Folder, above: tuple[str, ...]) -> Detected:
    """By seeds, version or layout.

    Seeds decide; rounds that share seeds are distinguished by LoadGen's version and by the names
    of benchmark folders (the demo round borrows the seeds of the newest LoadGen).
    """
    marks = round_marks()
    by_seeds = {
        (m.seeds.qsl_rng_seed, m.seeds.sample_index_rng_seed, m.seeds.schedule_rng_seed): m.name
        for m in marks
        if m.official
    }
    logs = [read_start(file, (*_SETTINGS, "loadgen_version")) for file in _detail_logs(listing)]
    votes: Counter[str] = Counter()
    for log in logs:
        seeds = tuple(str(log.integer(key)) for key in _SETTINGS)
        name = by_seeds.get(seeds)  # type: ignore[arg-type]
        if name is not None:
            votes[name] += 1
    unofficial = [mark for mark in marks if not mark.official]
    if votes:
        name, count = votes.most_common(1)[0]
        voted = next(mark for mark in marks if mark.name == name)
        alike = [mark.name for mark in unofficial if mark.seeds == voted.seeds]
        folders = _folder_names(listing, above) if alike else set()
        for other in alike:
            own = set(load_round(other).benchmarks) & folders
            if own and not set(load_round(name).benchmarks) & folders:
                return Detected(
                    other, f"benchmark folder {sorted(own)[0]} and the seeds of its LoadGen logs"
                )
        return Detected(name, f"seeds of {count} of {len(logs)} LoadGen logs looked at")
    folders = _folder_names(listing, above)
    rounds = {name: load_round(name) for name in round_names()}
    for other in (mark.name for mark in unofficial):
        own = set(rounds[other].benchmarks) & folders
        if own:
            return Detected(other, f"benchmark folder {sorted(own)[0]}")
    for file in islice((f for f in listing.all_files() if f.name == "config.yaml"), _SAMPLE):
        try:
            text, _ = read_text(file, 1 << 20)
        except Unreadable:
            continue
        for name, r in reversed(list(rounds.items())):
            if r.official and r.layout.endpoints and r.seeds.schedule_rng_seed in text:
                return Detected(name, f"seeds in {file.path}")
    versions: Counter[str] = Counter()
    for log in logs:
        text_version = log.text("loadgen_version") or ""
        version = ".".join(text_version.split("@")[0].strip().split(".")[:2])
        listing_it = [
            (known.index(version) > 0, -index, name)
            for index, (name, r) in enumerate(rounds.items())
            if r.official and version in (known := r.loadgen.versions)
        ]
        if listing_it:
            # The round that names this version first, else the newest that accepts it.
            versions[min(listing_it)[2]] += 1
    if versions:
        name, count = versions.most_common(1)[0]
        return Detected(
            name,
            f"LoadGen version of {count} of {len(logs)} logs looked at (their seeds are of no round)",
        )
    newest = [name for name, r in rounds.items() if r.official][-1]
    names = {file.name for file in islice(listing.all_files(), 200_000)}
    if "audit" in folders and "compliance" not in folders:
        return Detected("v0.5", "folder audit/")
    if {"code", "measurements"} & folders and "src" not in folders:
        older = [n for n, r in rounds.items() if r.official and "code" in r.layout.code]
        return Detected(older[-1], "folders code/ and measurements/", sure=False)
    if "measurements.json" in names and "src" in folders:
        return Detected(newest, "folder src/ and files measurements.json", sure=False)
    return Detected(
        newest, "nothing in the tree shows the round; the newest is assumed", sure=False
    )
