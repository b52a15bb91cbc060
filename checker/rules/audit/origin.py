"""Family R: where a log comes from: LoadGen's sources, its build, the dates of the run."""

from __future__ import annotations

import datetime
import functools
from typing import Any

from checker import loadgen_keys as keys
from checker.audit.evidence import evidence, moment
from checker.audit.field import Field
from checker.audit.lines import KNOWN_LINES
from checker.audit.traces import RunTrace
from checker.rule import ERROR, NOTE, WARNING, NotJudged, Problem, Problems, rule
from checker.rules.audit.found import HOUR, utc
from checker.wording import quantity, shown
from schemas import round_names
from schemas.load import load_round
from schemas.round import Round


def _together(runs: list[RunTrace]) -> dict[str, Any]:
    """What a finding about several runs of one system and kind says: which, and how many."""
    return {
        "results": tuple(dict.fromkeys(key for run in runs for key in run.results)),
        "count": len(runs),
    }


def _submitted(field: Field, run: RunTrace) -> RunTrace | None:
    """The performance run of the run's result."""
    return next((field.submitted.get((run.tree, key)) for key in run.results), None)


def _also(runs: list[RunTrace]) -> str:
    return f", and {quantity(len(runs) - 1, 'more log')} of the system" if len(runs) > 1 else ""


@rule("R116", WARNING)
def same_sources(run: RunTrace, round: Round, field: Field) -> Problems:
    """The run was made with the LoadGen sources and the order mode of the performance run.

    One finding for a system and a kind of run.

    Why: runs of one result should come from one build.
    Fix: make all runs of a result with one LoadGen.
    Source: LoadGen: loadgen_file_sha1; inference_rules.adoc, "LoadGen".
    """
    if run.kind in ("performance", "ranging") or run.text_format:
        raise NotJudged

    def other_sources(one: RunTrace) -> list[str]:
        main = _submitted(field, one)
        mine, theirs = dict(one.sources), dict(main.sources) if main is not None else {}
        return [name for name in mine if name in theirs and mine[name] != theirs[name]]

    def other_mode(one: RunTrace) -> bool:
        main = _submitted(field, one)
        modes = one.equal_issue, main.equal_issue if main is not None else None
        return one.kind == "accuracy" and None not in modes and modes[0] != modes[1]

    runs = field.first_of(run, "sources", lambda one: bool(other_sources(one)))
    main = _submitted(field, run)
    if runs and main is not None:
        names = other_sources(run)
        found, expected = dict(run.sources)[names[0]], dict(main.sources)[names[0]]
        yield Problem(
            f"found SHA-1 {found} of LoadGen's {names[0][1:]}{_also(runs)}; expected {expected}, as in "
            f"the performance run ({len(names)} of {len(run.sources)} core sources differ)",
            path=run.path,
            line=run.lines.get("loadgen_file_sha1"),
            found=found,
            required=expected,
            evidence=evidence(
                "the core sources of both runs have the same SHA-1",
                "moderate",
                {
                    "differing sources": ", ".join(name[1:] for name in names),
                    "this run": run.version,
                    "performance run": main.version,
                    "performance log": main.path,
                },
                {run.path: run.lines.get("loadgen_file_sha1", 0)},
            ),
            **_together(runs),
        )
    runs = field.first_of(run, "mode", other_mode)
    if runs and main is not None:
        key = keys.EQUAL_ISSUE
        ours, theirs = shown(run.equal_issue), shown(main.equal_issue)
        yield Problem(
            f"found {key} {ours}{_also(runs)}; expected {theirs}, as in the performance run",
            path=run.path,
            line=run.lines.get(key),
            found=run.equal_issue,
            required=main.equal_issue,
            evidence=evidence(
                "one value in both runs",
                "moderate",
                {"this run": run.equal_issue, "performance run": main.equal_issue},
            ),
            **_together(runs),
        )


def _date(text: str | None) -> datetime.datetime | None:
    return utc(text) if text else None


@functools.cache
def _seeds_known_from(number: tuple[int, ...]) -> datetime.datetime | None:
    """No run with a round's seeds can be older: the deadline of the round before."""
    rounds = [load_round(name) for name in round_names()]
    before = [one for one in rounds if one.number and one.number < number]
    last = max(before, key=lambda r: r.number, default=None)
    return _date(last.deadline) if last is not None else None


_DAY_S = 86_400.0


@rule("R117", WARNING, cases={"after publication": ERROR})
def date_in_round(run: RunTrace, round: Round, field: Field) -> Problems:
    """The run's date lies between the round before and the publication of its own.

    One finding for a system and a kind of run. No run of 14 rounds is dated after its publication.

    Why: the round's seeds were not known before, and a published run was made before publication.
    Fix: use the log as LoadGen wrote it; set the system's clock before a run.
    Source: LoadGen: test_datetime; the round's dates.
    """
    latest, earliest = _date(round.published), _seeds_known_from(round.number)
    if run.began is None or run.kind == "ranging" or run.text_format:
        raise NotJudged
    if not round.official or latest is None:
        raise NotJudged
    first = earliest.timestamp() if earliest is not None else 0.0
    last = latest.timestamp() + _DAY_S
    runs = field.first_of(
        run, "date", lambda one: one.began is not None and not first <= one.began <= last
    )
    if runs:
        day = (moment(run.began) or "")[:10]
        wrong = f"after {round.name} was published on {latest.date().isoformat()}"
        if earliest is not None and run.began < first:
            wrong = f"before the deadline of the round before, {earliest.date().isoformat()}"
        deadline = _date(round.deadline)
        yield Problem(
            f"found test_datetime {day}, {wrong}{_also(runs)}; expected a date within the round",
            path=run.path,
            line=run.lines.get("test_datetime"),
            found=day,
            required=f"{earliest.date().isoformat() if earliest else '…'} to {latest.date().isoformat()}",
            case="after publication" if run.began > last else None,
            evidence=evidence(
                "deadline of the round before <= test_datetime <= publication",
                "high",
                {
                    "test_datetime": moment(run.began),
                    "deadline": deadline.date().isoformat() if deadline else None,
                    "published": latest.date().isoformat(),
                },
                {"test_datetime": run.lines.get("test_datetime", 0)},
            ),
            **_together(runs),
        )


_MONTH_S = 31 * _DAY_S
_LEAST_RIGHT = 3

_ZONES_S = 14 * HOUR
"""Clocks that report local time as UTC are off by as much."""


@rule("R118", WARNING, cases={"one clock": ERROR})
def run_after_build(run: RunTrace, round: Round, field: Field) -> Problems:
    """The run is not older than the LoadGen it was made with.

    One finding for a system and a kind of run: it is mostly the clock of a system. Error where three
    other logs of the system, of the same month, are younger than their LoadGen: its clock was right.

    Why: a program cannot run before it is built. Fourteen hours are allowed for clocks that
    report local time as UTC.
    Fix: use the log as LoadGen wrote it; set the system's clock before a run.
    Source: LoadGen: test_datetime and loadgen_build_date_utc.
    """
    if run.began is None or run.built is None or run.kind == "ranging":
        raise NotJudged

    def early(one: RunTrace) -> bool:
        dates = one.built is not None and one.began is not None
        return dates and (one.built or 0.0) - (one.began or 0.0) > _ZONES_S

    runs = field.first_of(run, "build", early)
    if runs:
        hours = (run.built - run.began) / HOUR
        right = [
            one
            for one in field.by_owner[run.tree, *run.owner]
            if one.built is not None
            and one.began is not None
            and one.built <= one.began
            and abs(one.began - run.began) < _MONTH_S
        ]
        yield Problem(
            f"found test_datetime {moment(run.began)}{_also(runs)}; expected it after LoadGen's build, "
            f"which is {hours:,.1f} h later ({moment(run.built)})",
            path=run.path,
            line=run.lines.get("test_datetime"),
            found=moment(run.began),
            required=f">= {moment(run.built)}",
            case="one clock" if len(right) >= _LEAST_RIGHT else None,
            evidence=evidence(
                "test_datetime >= loadgen_build_date_utc - 14 h",
                "high",
                {
                    "test_datetime": moment(run.began),
                    "loadgen_build_date_utc": moment(run.built),
                    "logs of the system that are younger than their LoadGen": len(right),
                },
                {key: run.lines.get(key, 0) for key in ("test_datetime", "loadgen_build_date_utc")},
            ),
            **_together(runs),
        )


@rule("R119", WARNING, cases={"one build": ERROR})
def build_after_commit(run: RunTrace, round: Round, field: Field) -> Problems:
    """LoadGen was not built before the commit it says it was built from.

    One finding for a system and a kind of run: it is mostly the clock of the machine that built it.
    Error where other logs of the very same build name another commit date.

    Why: a build cannot contain a later commit.
    Fix: use the log as LoadGen wrote it.
    Source: LoadGen: loadgen_build_date_utc and loadgen_git_commit_date.
    """
    if run.built is None or run.committed is None or run.kind == "ranging":
        raise NotJudged

    def early(one: RunTrace) -> bool:
        dates = one.built is not None and one.committed is not None
        return dates and (one.committed or 0.0) - (one.built or 0.0) > _ZONES_S

    runs = field.first_of(run, "commit", early)
    if runs:
        hours = (run.committed - run.built) / HOUR
        builds = field.commits[run.tree, run.owner, run.built]
        yield Problem(
            f"found LoadGen built at {moment(run.built)}{_also(runs)}; expected it after its commit, "
            f"which is {hours:,.1f} h later ({moment(run.committed)})",
            path=run.path,
            line=run.lines.get("loadgen_build_date_utc"),
            found=moment(run.built),
            required=f">= {moment(run.committed)}",
            case="one build" if len(builds) > 1 else None,
            evidence=evidence(
                "loadgen_build_date_utc >= loadgen_git_commit_date - 14 h",
                "high",
                {
                    "loadgen_build_date_utc": moment(run.built),
                    "loadgen_git_commit_date": moment(run.committed),
                    "commit dates of that build": ", ".join(
                        sorted(moment(b) or "" for b in builds)
                    ),
                },
                {"loadgen_build_date_utc": run.lines.get("loadgen_build_date_utc", 0)},
            ),
            **_together(runs),
        )


def _spread(places: dict[tuple[str, int], int]) -> tuple[str, int]:
    """The source line that most logs have."""
    return max(places, key=lambda place: (places[place], place))


def _odd_lines(run: RunTrace) -> list[tuple[int, str, tuple[str, int], tuple[str, int], int]]:
    """The records from other source lines than usual: number, key, place, the usual place, logs."""
    assert run.written is not None
    table = run.field.source_lines
    known_lines = KNOWN_LINES.get(run.sources, {})
    wrong = []
    for number, (key, (file, line)) in enumerate(run.written.places.items()):
        if key in _SEVERAL:
            continue
        places = table[run.sources, key]
        known = known_lines.get(key)
        usual = known or _spread(places)
        if (file, abs(line - usual[1]) > _SOURCE_ROOM) == (usual[0], False):
            continue
        total = sum(places.values())
        if known is None and (total < 3 or places[usual] <= total / 2):
            continue
        wrong.append((number, key, (file, line), usual, total))
    return wrong


_SEVERAL = {"early_stopping_latency_ms", "result_validity", "result_invalid_reason"}


_SOURCE_ROOM = 3


@rule("R305", ERROR)
def source_lines_agree(run: RunTrace, round: Round, field: Field) -> Problems:
    """A record comes from the source line from which all logs of the same LoadGen sources write it.

    Why: one source file writes a key in one place; another line number means another source than
    the one whose SHA-1 the log states, or a line that LoadGen did not write.
    Fix: use the log as LoadGen wrote it, and an unaltered LoadGen.
    Source: LoadGen logging: file and line_no of every record; compilers differ by up to 3 lines.
    """
    if run.written is None or not run.at:
        raise NotJudged
    wrong = field.odd_lines(run, _odd_lines)
    if wrong:
        number, key, (file, line), usual, total = wrong[0]
        at = run.at[number]
        more = f" ({len(wrong)} keys in all)" if len(wrong) > 1 else ""
        yield Problem(
            f"found {key} written from {file}:{line}{more}; expected {usual[0]}:{usual[1]}, as in other logs "
            "with the same LoadGen sources",
            path=run.path,
            line=at,
            found=f"{file}:{line}",
            required=f"{usual[0]}:{usual[1]}",
            evidence=evidence(
                "one source line for each key of one source set (+-3 lines)",
                "high",
                {
                    "keys": ", ".join(w[1] for w in wrong[:20]),
                    "logs compared": total,
                    **{name[1:]: sha for name, sha in run.sources[:2]},
                },
                {key: at},
            ),
        )


@rule("R318", ERROR, cases={"sources": WARNING})
def commit_of_one_date(run: RunTrace, round: Round, field: Field) -> Problems:
    """Logs that name the same LoadGen commit name the same commit date and core sources.

    So it is for all 67 commits in 1,522 logs of v1.0 to v6.0. Judged against the date that most of at
    least three logs name. Other sources of a commit: a warning, as a checkout can be changed.

    Why: a commit has one date; where a log names another, a line of it was changed.
    Fix: use the log as LoadGen wrote it.
    Source: LoadGen version_generator.py: loadgen_git_log_message, loadgen_git_commit_date.
    """
    if run.commit is None or run.committed is None or run.kind == "ranging":
        raise NotJudged
    dates = field.dates_of_commits[run.commit]
    logs = dates.total()
    usual, count = dates.most_common(1)[0]
    if logs < 3 or 2 * count <= logs:
        raise NotJudged
    if run.committed != usual:
        yield Problem(
            f"found LoadGen's commit {run.commit[:10]} dated {moment(run.committed)}; expected "
            f"{moment(usual)}, as in {quantity(count, 'other log')}",
            path=run.path,
            line=run.lines.get("loadgen_git_commit_date"),
            found=moment(run.committed),
            required=moment(usual),
            evidence=evidence(
                "one loadgen_git_commit_date for each commit",
                "high",
                {"commit": run.commit, "logs": logs, "with the usual date": count},
                {"loadgen_git_commit_date": run.lines.get("loadgen_git_commit_date", 0)},
            ),
        )
    sources = field.sources_of_commits[run.commit]
    common, count = sources.most_common(1)[0] if sources else ((), 0)
    if run.sources and run.sources != common and 2 * count > sources.total():
        theirs = dict(common)
        name = next((n for n, sha in run.sources if theirs.get(n) != sha), run.sources[0][0])
        yield Problem(
            f"found SHA-1 {dict(run.sources)[name]} of LoadGen's {name[1:]} at commit {run.commit[:10]}; expected "
            f"{theirs.get(name, 'none')}, as in {quantity(count, 'other log')}",
            path=run.path,
            line=run.lines.get("loadgen_file_sha1"),
            found=dict(run.sources)[name],
            required=theirs.get(name),
            case="sources",
            evidence=evidence(
                "one SHA-1 of each core source for each commit",
                "moderate",
                {"commit": run.commit, "logs": sources.total(), "with the usual sources": count},
            ),
        )


@rule("R319", NOTE)
def one_build(run: RunTrace, round: Round, field: Field) -> Problems:
    """The run was made with the LoadGen build of the performance run.

    One note for a system and a kind of run. 86 of 1,088 accuracy runs and tests of v1.0 to v6.0 were
    made with another build, mostly in another container.

    Why: runs of one result mostly come from one installation; another build is a run of another day
    or another machine.
    Fix: nothing, where LoadGen was installed again; else run again on the machine described.
    Source: LoadGen: loadgen_build_date_utc.
    """
    if run.kind in ("performance", "ranging") or run.built is None:
        raise NotJudged

    def other_build(one: RunTrace) -> bool:
        main = _submitted(field, one)
        return main is not None and None not in (one.built, main.built) and one.built != main.built

    runs = field.first_of(run, "build of the run", other_build)
    main = _submitted(field, run)
    if runs and main is not None:
        yield Problem(
            f"found a LoadGen built at {moment(run.built)}{_also(runs)}; expected {moment(main.built)}, the "
            "build of the performance run",
            path=run.path,
            line=run.lines.get("loadgen_build_date_utc"),
            found=moment(run.built),
            required=moment(main.built),
            evidence=evidence(
                "one loadgen_build_date_utc in the runs of a result",
                "low",
                {
                    "this run": moment(run.built),
                    "performance run": moment(main.built),
                    "performance log": main.path,
                },
            ),
            **_together(runs),
        )


_SOMETIMES = {
    "result_invalid_reason",
    "result_inferred_tokens_per_second",
    "result_inferred_completed_tokens_per_second",
}
"""Records that depend on more than LoadGen, scenario and mode."""


@rule("R320", ERROR)
def all_records_of_its_kind(run: RunTrace, round: Round, field: Field) -> Problems:
    """A log holds every record that all other logs of the same LoadGen sources, scenario and mode hold.

    In 80 groups of four and more such logs of v1.0 to v6.0 no other record is missing in one alone than
    those that depend on settings. Judged where there are three other logs.

    Why: LoadGen writes the same records in every run of a kind; a missing one was taken out.
    Fix: use the log as LoadGen wrote it.
    Source: LoadGen test_settings_internal.cc, results.cc; published rounds.
    """
    if run.written is None or run.kind == "ranging":
        raise NotJudged
    logs = field.logs_of_its_kind(run)
    own = run.written
    others = sum(map(len, logs.values())) - 1
    if others < _LEAST_OTHERS:
        raise NotJudged
    if len(logs[own.digest]) > 1:
        return
    theirs = [runs[0] for digest, runs in logs.items() if digest != own.digest]
    places = [one.written.places for one in theirs if one.written is not None]
    missing = [
        key
        for key in places[0]
        if key not in own.places and key not in _SOMETIMES and all(key in one for one in places)
    ]
    # What is set in one place is missing with its twin.
    missing = [
        key for key in missing if not key.startswith(("requested_", "effective_sample_concat"))
    ]
    if missing:
        more = f", nor {quantity(len(missing) - 1, 'more')}" if len(missing) > 1 else ""
        yield Problem(
            f"found no record {missing[0]}{more}; expected it, as in {quantity(others, 'log')} of the same "
            "LoadGen, scenario and mode",
            path=run.path,
            found=None,
            required=missing[0],
            evidence=evidence(
                "records of one kind of log are the same",
                "high",
                {
                    "missing": ", ".join(missing[:20]),
                    "logs compared": others,
                    "one of them": theirs[0].path,
                },
            ),
        )


_LEAST_OTHERS = 3


@rule("R306", NOTE)
def sources_of_several(run: RunTrace, round: Round, field: Field) -> Problems:
    """LoadGen's core sources are those that other submitters of the round used too.

    Why: sources that only one submitter has are worth a comparison with the official ones.
    Fix: use the LoadGen release of the round.
    Source: LoadGen: loadgen_file_sha1. Judged where a round has three submitters or more.
    """
    if not run.sources or run.kind != "performance" or len(field.submitters.get(run.round, ())) < 3:
        raise NotJudged
    users = field.source_users[run.round, run.sources]
    if len(users) > 1:
        return
    common: dict[tuple[str, str], int] = {}
    for (name, sources), who in field.source_users.items():
        if name == run.round:
            for source in sources:
                common[source] = common.get(source, 0) + len(who)
    own = [source for source in run.sources if common[source] == 1]
    if own:
        names = ", ".join(name[1:] for name, _ in own)
        yield Problem(
            f"found SHA-1 of {names} in no other submission of {run.round}; expected sources that other "
            "submitters used too",
            path=run.path,
            line=run.lines.get("loadgen_file_sha1"),
            found={name[1:]: sha for name, sha in own},
            required="sources that others have too",
            evidence=evidence(
                "each core source's SHA-1 occurs with two submitters or more",
                "low",
                {name[1:]: sha for name, sha in own},
            ),
        )
