"""Names and folders in the round's spelling: divisions, submitters' folders, benchmarks, scenarios, runs."""

from __future__ import annotations

import re

from assay.prepare.draft import RESULT_TOPS, Draft, Entry
from checker.discover import canonical_scenario
from checker.near import nearest
from schemas.round import Round

_ENTRY_SLIPS = {
    "result": "results", "system": "systems", "measurement": "measurements", "docs": "documentation",
    "doc": "documentation", "source": "code", "sources": "code", "codes": "code",
}  # fmt: skip
_RUN = re.compile(r"run[\s_.-]*0*(\d*)")
_TEST = re.compile(r"test[\s_.-]*(\d\d)")
_FIXED = ("performance", "accuracy", "power", "ranging")
_SPACES = re.compile(r"\s+")

# What a check says where a folder or file has another name: it does not find it.
_UNREAD = (
    "X003", "S101", "S105", "S108", "S110", "S112", "S113", "S114", "S115", "S116", "S117", "D101",
)  # fmt: skip
_NO_RUN = (
    "P101", "P130", "A101", "A102", "A110", "A118", "C101", "C102", "S115", "S132", "S137",
)  # fmt: skip
_NO_FILE = (*_NO_RUN, "M101", "M108")


def spell(draft: Draft) -> None:
    """Give every folder and file its name in the round's spelling.

    What a submitter's own code and documents are called is left alone: other files refer to it.
    """
    _unwrap(draft)
    _flatten(draft)
    _divisions(draft)
    _submitter_entries(draft)
    _flatten(draft)
    _results(draft)
    _systems(draft)
    _files(draft)


def _rename(
    entry: Entry, parts: list[str], depth: int, name: str, reason: str, *rules: str
) -> None:
    parts[depth] = name
    entry.move("/".join(parts), reason, *rules)


def _unwrap(draft: Draft) -> None:
    """A folder around the whole tree is left away."""
    divisions = {name.lower() for name in draft.round.divisions}
    for _ in range(3):
        children = draft.children()
        top = children.get("", set())
        if any(name.lower() in divisions for name in top):
            return
        holding = [
            name for name in top if any(c.lower() in divisions for c in children.get(name, ()))
        ]
        folders = [name for name in top if name in children]
        if not holding and len(folders) == 1:
            holding = [f for f in folders if len(children[f]) == 1]
        if len(holding) != 1:
            return
        for entry in draft.kept():
            if entry.path.startswith(f"{holding[0]}/"):
                entry.move(
                    entry.path[len(holding[0]) + 1 :],
                    f"the folder {holding[0]} around the tree",
                    *_UNREAD,
                )


def _flatten(draft: Draft) -> None:
    """A folder that holds only a folder of its own name becomes one: Offline/Offline."""
    for _ in range(8):
        children = draft.children()
        double = [
            path
            for path, names in children.items()
            if path
            and len(names) == 1
            and _repeats(path, next(iter(names)))
            and f"{path}/{next(iter(names))}" in children
        ]
        double = [path for path in double if _ours(path)]
        if not double:
            return
        path = min(double, key=len)
        for entry in draft.kept():
            if entry.path.startswith(f"{path}/"):
                rest = entry.path[len(path) + 1 :].split("/", 1)
                entry.move(
                    f"{path}/{rest[1]}",
                    f"{path.rpartition('/')[2]} stood in itself",
                    *_UNREAD,
                    *_NO_RUN,
                )


def _repeats(path: str, name: str) -> bool:
    return path.rsplit("/", 1)[-1].lower() == name.lower()


def _ours(path: str) -> bool:
    parts = path.split("/")
    return len(parts) < 4 or parts[2].lower() in (*RESULT_TOPS, "result", "measurement")


def _divisions(draft: Draft) -> None:
    known = {name.lower(): name for name in draft.round.divisions}
    for entry in draft.kept():
        parts = entry.parts
        name = known.get(parts[0].strip().lower())
        if len(parts) > 1 and name is not None:
            _rename(entry, parts, 0, name, f"the division is spelled {name}", *_UNREAD)


def _submitter_entries(draft: Draft) -> None:
    layout = draft.round.layout
    code = layout.code[0]
    expected = list(dict.fromkeys([*layout.submitter_entries, *layout.code, *RESULT_TOPS]))
    children = draft.children()
    for entry in draft.kept():
        parts = entry.parts
        if len(parts) < 4 or parts[0] not in draft.round.divisions or parts[2] in expected:
            continue
        low = parts[2].strip().lower()
        slip = _ENTRY_SLIPS.get(low)
        name = code if slip == "code" else slip or next((e for e in expected if e == low), None)
        if name is None and (near := nearest(parts[2], expected, 0.85)) is not None:
            name = near
        if name is not None and (name not in children["/".join(parts[:2])] or low == name):
            _rename(
                entry,
                parts,
                2,
                name,
                f"the folder {parts[2]} is called {name}",
                "S104",
                *_UNREAD,
                *_NO_FILE,
            )


def _results(draft: Draft) -> None:
    """System, benchmark, scenario and what is below, in results, measurements and compliance."""
    round = draft.round
    children = draft.children()
    for entry in draft.kept():
        parts = entry.parts
        if len(parts) < 4 or parts[2] not in RESULT_TOPS:
            continue
        original = list(parts)
        for depth in range(3, len(parts) - 1):
            spelled = _spelled(depth, parts, original, children, round)
            if spelled is not None and spelled[0] != parts[depth]:
                _rename(entry, parts, depth, *spelled)
        _with_run(entry, parts, original, children, round)


def _spelled(
    depth: int, parts: list[str], original: list[str], children: dict[str, set[str]], round: Round
) -> tuple[str, ...] | None:
    """(name, reason, rules) of one folder; None where its name is left alone."""
    name = parts[depth]
    low = name.strip().lower()
    if depth == 3:
        return _joined(name)
    if depth == 4:
        return _benchmark(name, parts[0], round) or _joined(name)
    if depth == 5:
        scenario = canonical_scenario(_bare(name), round.aliases) or canonical_scenario(
            name.strip(), round.aliases
        )
        if scenario is not None:
            return scenario, f"the scenario is spelled {scenario}", "S114", "S115", "S116"
        return None
    test = _TEST.fullmatch(low)
    if test is not None:
        return f"TEST{test[1]}", f"the test is spelled TEST{test[1]}", *_NO_RUN
    if low in _FIXED:
        return low, f"the folder is spelled {low}", *_NO_RUN
    run = _RUN.fullmatch(low)
    if run is not None and parts[depth - 1] == "performance":
        siblings = children.get("/".join(original[:depth]), set())
        runs = [n for n in siblings if _RUN.fullmatch(n.strip().lower())]
        number = "1" if len(runs) == 1 else run[1]
        if number and number != "0":
            return f"run_{number}", f"the run's folder is run_{number}", *_NO_RUN
    return None


def _bare(name: str) -> str:
    return re.sub(r"[\s_.-]+", "", name)


def _joined(name: str) -> tuple[str, ...] | None:
    if _SPACES.search(name):
        return _SPACES.sub("_", name.strip()), "a name has no blanks", "S122"
    return None


def _benchmark(name: str, division: str, round: Round) -> tuple[str, ...] | None:
    """The round's own name of a benchmark. In open, where a model may have any name, only its case."""
    if name in round.benchmarks:
        return None
    exact = round.aliases.exact
    target = exact.get(name) if division != "open" else None
    if target is None:
        plain = {_plain(b): b for b in round.benchmarks}
        target = plain.get(_plain(name))
    if target is None and division != "open":
        plain = {_plain(a): b for a, b in exact.items()}
        target = plain.get(_plain(name))
    if target is None or target not in round.benchmarks:
        return None
    return target, f"{round.name} calls the benchmark {target}", "S112", "S113"


def _plain(name: str) -> str:
    return re.sub(r"[\s_.-]+", "_", name.strip().casefold())


def _with_run(
    entry: Entry, parts: list[str], original: list[str], children: dict[str, set[str]], round: Round
) -> None:
    """LoadGen's logs directly in performance belong in performance/run_1."""
    if len(parts) < 2 or parts[-2] != "performance" or not entry.is_log:
        return
    if round.number and round.number < (1, 0):
        return
    siblings = children.get("/".join(original[:-1]), set())
    if not any(_RUN.fullmatch(name.strip().lower()) for name in siblings):
        path = "/".join([*parts[:-1], "run_1", parts[-1]])
        entry.move(path, "a run's logs are in performance/run_1", *_NO_RUN)


def _systems(draft: Draft) -> None:
    """A description has the name of the system's folder in results."""
    tried: dict[str, set[str]] = {}
    for entry in draft.kept():
        parts = entry.parts
        if len(parts) > 4 and parts[2] == "results":
            tried.setdefault("/".join(parts[:2]), set()).add(parts[3])
    described: dict[str, set[str]] = {}
    documents = [e for e in draft.kept() if len(e.parts) == 4 and e.parts[2] == "systems"]
    for entry in documents:
        if entry.name.endswith(".json"):
            described.setdefault("/".join(entry.parts[:2]), set()).add(entry.name[:-5])
    for entry in documents:
        base, name = "/".join(entry.parts[:2]), entry.name
        suffix = next((s for s in ("_power.yaml", ".json") if name.lower().endswith(s)), None)
        if suffix is None:
            continue
        system = name[: -len(suffix)]
        free = tried.get(base, set()) - described.get(base, set())
        if system in tried.get(base, set()) and name.endswith(suffix):
            continue
        near = next((n for n in sorted(free) if _bare(n).lower() == _bare(system).lower()), None)
        near = near or nearest(system, free, 0.9)
        if near is not None:
            entry.move(
                f"{base}/systems/{near}{suffix}",
                "a description has the name of the system's folder in results",
                "D101",
                "S122",
            )


def _files(draft: Draft) -> None:
    """Files that the rules name, in their own case."""
    layout = draft.round.layout
    lists = (
        layout.performance, layout.accuracy, layout.measurement_files, layout.power_run, layout.power,
    )  # fmt: skip
    known = {n for files in lists for n in (*files.required, *files.optional)}
    known |= {"mlperf.conf", "measurements.json", *layout.ignored_files}
    known |= {n for test in draft.round.compliance.values() for n in test.files}
    by_case = {n.rsplit("/", 1)[-1].lower(): n.rsplit("/", 1)[-1] for n in known}
    taken = draft.paths()
    for entry in draft.kept():
        parts = entry.parts
        if len(parts) < 5 or parts[2] not in RESULT_TOPS:
            continue
        name = by_case.get(entry.name.strip().lower())
        if name is None or name == entry.name:
            continue
        path = "/".join([*parts[:-1], name])
        if path not in taken:
            entry.move(path, f"the file is called {name}", *_NO_FILE)
