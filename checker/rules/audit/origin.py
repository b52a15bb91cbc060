"""Family R: where a log comes from: LoadGen's sources, its build, the dates of the run."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Iterator

from checker.audit.evidence import Look, evidence
from checker.audit.lines import KNOWN_LINES
from checker.audit.traces import CORE, Field, RunTrace
from checker.model import AccuracyRun, ComplianceRun, PerformanceRun
from checker.parse.detail import DetailLog
from checker.rule import ERROR, NOTE, WARNING, NotJudged, Problem, rule
from checker.rules.audit.found import (
    HOUR,
    dated,
    json_log,
    utc,
)
from checker.wording import shown
from schemas import round_names
from schemas.load import load_round
from schemas.round import Round


def sources_of(detail: DetailLog) -> dict[str, str]:
    """SHA-1 of LoadGen's core sources as the log states them; {} where it does not."""
    value = detail.get("loadgen_file_sha1")
    if not isinstance(value, dict):
        return {}
    return {name: str(value[name]) for name in CORE if name in value}


@rule("R116", WARNING, needs="detail")
def same_sources(run: AccuracyRun | ComplianceRun, round: Round) -> Iterator[Problem]:
    """The run was made with the LoadGen sources and the order mode of the performance run.

    Why: runs of one result should come from one build.
    Fix: make all runs of a result with one LoadGen.
    Source: LoadGen: loadgen_file_sha1; inference_rules.adoc, "LoadGen".
    """
    main = run.result.performance
    detail = json_log(run)
    if main is None or main.detail is None or not main.detail:
        raise NotJudged
    mine, theirs = sources_of(detail), sources_of(main.detail)
    other = [name for name in mine if name in theirs and mine[name] != theirs[name]]
    if other:
        name = other[0]
        yield Problem(
            f"found SHA-1 {mine[name]} of LoadGen's {name[1:]}; expected {theirs[name]}, as in the "
            f"performance run ({len(other)} of {len(mine)} core sources differ)",
            path=run.detail_path,
            line=detail.line("loadgen_file_sha1"),
            found=mine[name],
            required=theirs[name],
            evidence=evidence(
                "the core sources of both runs have the same SHA-1",
                "moderate",
                {
                    "differing sources": ", ".join(n[1:] for n in other),
                    "this run": run.loadgen_version,
                    "performance run": main.loadgen_version,
                },
                {
                    run.detail_path: detail.line("loadgen_file_sha1") or 0,
                    main.detail_path: main.detail.line("loadgen_file_sha1") or 0,
                },
            ),
        )
    key = "effective_sample_concatenate_permutation"
    ours, first = detail.boolean(key), main.detail.boolean(key)
    if isinstance(run, AccuracyRun) and None not in (ours, first) and ours != first:
        yield Problem(
            f"found {key} {shown(ours)}; expected {shown(first)}, as in the performance run",
            path=run.detail_path,
            line=detail.line(key),
            found=ours,
            required=first,
            evidence=evidence(
                "one value in both runs", "moderate", {"this run": ours, "performance run": first}
            ),
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


@rule("R117", WARNING, needs="detail")
def date_in_round(
    run: PerformanceRun | ComplianceRun | AccuracyRun, round: Round
) -> Iterator[Problem]:
    """The run's date lies between the round before and the publication of its own.

    Why: the round's seeds were not known before, and a published run was made before publication.
    Fix: use the log as LoadGen wrote it; set the system's clock before a run.
    Source: LoadGen: test_datetime; the round's dates.
    """
    detail, when = dated(run)
    latest, earliest = _date(round.published), _seeds_known_from(round.number)
    deadline = _date(round.deadline)
    if not round.official or latest is None:
        raise NotJudged
    day = when.date().isoformat()
    wrong = None
    if when > latest + datetime.timedelta(days=1):
        wrong = f"after {round.name} was published on {latest.date().isoformat()}"
    elif earliest is not None and when < earliest:
        wrong = f"before the deadline of the round before, {earliest.date().isoformat()}"
    if wrong:
        yield Problem(
            f"found test_datetime {day}, {wrong}; expected a date within the round",
            path=run.detail_path,
            line=detail.line("test_datetime"),
            found=day,
            required=f"{earliest.date().isoformat() if earliest else '…'} to {latest.date().isoformat()}",
            evidence=evidence(
                "deadline of the round before <= test_datetime <= publication",
                "high",
                {
                    "test_datetime": detail.text("test_datetime"),
                    "deadline": deadline.date().isoformat() if deadline else None,
                    "published": latest.date().isoformat(),
                },
                {"test_datetime": detail.line("test_datetime") or 0},
            ),
        )


@rule("R118", WARNING, needs="detail")
def run_after_build(
    run: PerformanceRun | ComplianceRun | AccuracyRun, round: Round
) -> Iterator[Problem]:
    """The run is not older than the LoadGen it was made with.

    Why: a program cannot run before it is built. Fourteen hours are allowed for clocks that
    report local time as UTC.
    Fix: use the log as LoadGen wrote it; set the system's clock before a run.
    Source: LoadGen: test_datetime and loadgen_build_date_utc.
    """
    detail, when = dated(run)
    built = utc(detail.text("loadgen_build_date_utc"))
    if built is None:
        raise NotJudged
    hours = (built - when).total_seconds() / HOUR
    if hours > 14:
        look = Look(detail)
        look.text("test_datetime"), look.text("loadgen_build_date_utc")
        yield Problem(
            f"found test_datetime {when.isoformat()}; expected it after LoadGen's build, which is "
            f"{hours:,.1f} h later ({built.isoformat(timespec='seconds')})",
            path=run.detail_path,
            line=detail.line("test_datetime"),
            found=when.isoformat(),
            required=f">= {built.isoformat(timespec='seconds')}",
            evidence=look.evidence("test_datetime >= loadgen_build_date_utc - 14 h", "high"),
        )


@rule("R119", ERROR, needs="detail")
def build_after_commit(
    run: PerformanceRun | ComplianceRun | AccuracyRun, round: Round
) -> Iterator[Problem]:
    """LoadGen was not built before the commit it says it was built from.

    Why: a build cannot contain a later commit.
    Fix: use the log as LoadGen wrote it.
    Source: LoadGen: loadgen_build_date_utc and loadgen_git_commit_date.
    """
    detail = json_log(run)
    built = utc(detail.text("loadgen_build_date_utc"))
    committed = utc(detail.text("loadgen_git_commit_date"))
    if built is None or committed is None:
        raise NotJudged
    hours = (committed - built).total_seconds() / HOUR
    if hours > 14:
        look = Look(detail)
        look.text("loadgen_build_date_utc"), look.text("loadgen_git_commit_date")
        yield Problem(
            f"found LoadGen built at {built.isoformat(timespec='seconds')}; expected it after its commit, "
            f"which is {hours:,.1f} h later ({committed.isoformat()})",
            path=run.detail_path,
            line=detail.line("loadgen_build_date_utc"),
            found=built.isoformat(timespec="seconds"),
            required=f">= {committed.isoformat()}",
            evidence=look.evidence(
                "loadgen_build_date_utc >= loadgen_git_commit_date - 14 h", "high"
            ),
        )


def _spread(places: dict[tuple[str, int], int]) -> tuple[str, int]:
    """The source line that most logs have."""
    return max(places, key=lambda place: (places[place], place))


_SEVERAL = {"early_stopping_latency_ms", "result_validity", "result_invalid_reason"}


_SOURCE_ROOM = 3


@rule("R305", ERROR)
def source_lines_agree(run: RunTrace, round: Round, field: Field) -> Iterator[Problem]:
    """A record comes from the source line from which all logs of the same LoadGen sources write it.

    Why: one source file writes a key in one place; another line number means another source than
    the one whose SHA-1 the log states, or a line that LoadGen did not write.
    Fix: use the log as LoadGen wrote it, and an unaltered LoadGen.
    Source: LoadGen logging: file and line_no of every record; compilers differ by up to 3 lines.
    """
    if not run.places:
        raise NotJudged
    table = field.source_lines
    wrong: list[tuple[str, tuple[str, int, int], tuple[str, int], int]] = []
    for key, (file, line, at) in run.places.items():
        if key in _SEVERAL:
            continue
        places = table[run.sources, key]
        known = KNOWN_LINES.get(run.sources, {}).get(key)
        usual = known or _spread(places)
        if (file, abs(line - usual[1]) > _SOURCE_ROOM) == (usual[0], False):
            continue
        total = sum(places.values())
        if known is None and (total < 3 or places[usual] <= total / 2):
            continue
        wrong.append((key, (file, line, at), usual, total))
    if wrong:
        key, (file, line, at), usual, total = wrong[0]
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
                    "keys": ", ".join(w[0] for w in wrong[:20]),
                    "logs compared": total,
                    **{name[1:]: sha for name, sha in run.sources[:2]},
                },
                {key: at},
            ),
        )


@rule("R306", NOTE)
def sources_of_several(run: RunTrace, round: Round, field: Field) -> Iterator[Problem]:
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
            line=run.places.get("loadgen_file_sha1", ("", 0, 0))[2] or None,
            found={name[1:]: sha for name, sha in own},
            required="sources that others have too",
            evidence=evidence(
                "each core source's SHA-1 occurs with two submitters or more",
                "low",
                {name[1:]: sha for name, sha in own},
            ),
        )
