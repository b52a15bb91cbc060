"""Family R: the records of a log: one process, in the order of their times, on one clock."""

from __future__ import annotations

import datetime
import operator
import re
from collections import Counter

from checker import loadgen_keys as keys
from checker.audit.evidence import Look, evidence
from checker.model import LoggedRun
from checker.parse.detail import DetailLog, Entry
from checker.parse.power import seconds_of
from checker.rule import ERROR, WARNING, NotJudged, Problem, Problems, given, rule
from checker.rules.audit.found import HOUR, dated, json_log, utc
from checker.wording import pair, quantity, shown
from schemas.round import Round

_LINE = operator.attrgetter("line")


def _in_order(detail: DetailLog) -> list[Entry]:
    if all(len(found) == 1 for found in detail.entries.values()):
        return [found[0] for found in detail.entries.values()]
    return sorted((e for found in detail.entries.values() for e in found), key=_LINE)


@rule("R121", ERROR, needs="detail")
def one_process(run: LoggedRun, round: Round) -> Problems:
    """Every record of a log was written by one process.

    Why: a run is one process; two process ids mean that logs were joined or lines changed.
    Fix: use the log of one run as LoadGen wrote it.
    Source: LoadGen logging.cc: pid in every record.
    """
    detail = json_log(run)
    if len(detail.pids) < 2:
        return
    entries = [e for e in _in_order(detail) if e.pid]
    first = entries[0]
    other = next(e for e in entries if e.pid != first.pid)
    yield Problem(
        f"found records of {len(detail.pids)} processes: pid {first.pid} on line {first.line}, "
        f"{other.pid} on line {other.line}; expected one",
        path=run.detail_path,
        line=other.line,
        found=sorted(detail.pids)[:10],
        required="one pid",
        evidence=evidence(
            "one pid in all records",
            "certain",
            {
                "first pid": first.pid,
                "other pid": other.pid,
                "records of the other": sum(e.pid == other.pid for e in entries),
                "records": len(entries),
            },
            {"first": first.line, "other": other.line},
        ),
    )


@rule("R122", ERROR, needs="detail")
def threads_of_one_process(run: LoggedRun, round: Round) -> Problems:
    """Every thread of a log belongs to one process.

    Why: a thread id belongs to one process at a time; the same id under two processes means that
    lines of two logs were mixed.
    Fix: use the log of one run as LoadGen wrote it.
    Source: LoadGen logging.cc: pid and tid in every record; Linux: the main thread's tid is the pid.
    """
    detail = json_log(run)
    if len(detail.pids) < 2:
        return
    owner: dict[int, Entry] = {}
    for entry in _in_order(detail):
        if not entry.tid or not entry.pid:
            continue
        first = owner.setdefault(entry.tid, entry)
        if first.pid != entry.pid:
            yield Problem(
                f"found thread {entry.tid} in process {entry.pid}; expected process {first.pid}, as on line "
                f"{first.line}",
                path=run.detail_path,
                line=entry.line,
                found=entry.pid,
                required=first.pid,
                evidence=evidence(
                    "one pid for each tid",
                    "certain",
                    {"tid": entry.tid, "pid": first.pid, "other pid": entry.pid},
                    {"first": first.line, "other": entry.line},
                ),
            )
            return


_MAIN_THREAD = ("requested_", "effective_", "generated_", "result_", "early_stopping_", "qsl_")
_AT_ONCE = ("loadgen", "requested", "effective", "result")
"""What LoadGen writes in one go: its version, the settings as requested and as used, the results."""


@rule("R143", ERROR, needs="detail")
def settings_and_results_of_one_thread(run: LoggedRun, round: Round) -> Problems:
    """Settings and results of a run were written by one thread.

    So it is in all 1,522 logs of v1.0 to v6.0.

    Why: the thread that starts a test logs its settings and, at the end, its results; another one
    means that lines of two logs were joined or changed.
    Fix: use the log of one run as LoadGen wrote it.
    Source: LoadGen loadgen.cc, StartTest; logging.cc: tid of every record.
    """
    detail = json_log(run)
    first: Entry | None = None
    tid = 0
    for key, found in detail.entries.items():
        entry = found[-1]
        if entry.metadata.tid == tid or not key.startswith(_MAIN_THREAD) or not entry.tid:
            continue
        if first is None:
            first, tid = entry, entry.tid
        elif entry.pid == first.pid:
            yield Problem(
                f"found {key} written by thread {entry.tid}; expected thread {first.tid}, which wrote "
                f"{first.key} on line {first.line}",
                path=run.detail_path,
                line=entry.line,
                found=entry.tid,
                required=first.tid,
                evidence=evidence(
                    "one tid in settings and results",
                    "high",
                    {
                        f"tid of {first.key}": first.tid,
                        f"tid of {key}": entry.tid,
                        "pid": entry.pid,
                    },
                    {first.key: first.line, key: entry.line},
                ),
            )
            return


@rule("R145", ERROR, needs="detail")
def written_at_once(run: LoggedRun, round: Round) -> Problems:
    """All results of a log have one time_ms, and so have its settings and its version.

    So it is in all 1,522 logs of v1.0 to v6.0.

    Why: LoadGen takes the time once for everything that it writes together; a record with another
    time comes from another log or from a person.
    Fix: use the log of one run as LoadGen wrote it.
    Source: LoadGen logging.cc, AsyncDetail: one time for all records of a call.
    """
    detail = json_log(run)
    groups: dict[str, list[Entry]] = {name: [] for name in _AT_ONCE}
    for key, found in detail.entries.items():
        group = groups.get(key.partition("_")[0])
        if group is not None:
            group.append(found[0])
    for name, group in groups.items():
        counts = Counter(entry.time_ms for entry in group)
        if len(counts) < 2:
            continue
        usual, count = counts.most_common(1)[0]
        one = next(entry for entry in group if entry.time_ms == usual)
        other = next(entry for entry in group if entry.time_ms != usual)
        yield Problem(
            f"found {other.key} at {pair(other.time_ms, usual, 'ms')[0]}; expected "
            f"{pair(other.time_ms, usual, 'ms')[1]}, the time of {quantity(count, 'other record')} that are "
            "written with it",
            path=run.detail_path,
            line=other.line,
            found=other.time_ms,
            required=usual,
            evidence=evidence(
                f"one time_ms in all {name}_ records",
                "high",
                {
                    f"{one.key} (ms)": usual,
                    f"{other.key} (ms)": other.time_ms,
                    "records": count,
                },
                {one.key: one.line, other.key: other.line},
            ),
        )
        return


@rule("R146", ERROR, needs="detail")
def written_from_one_checkout(run: LoggedRun, round: Round) -> Problems:
    """All records were written from LoadGen sources in one folder.

    So it is in all 1,522 logs of v1.0 to v6.0.

    Why: LoadGen logs the path of its source with each record; a line with another path comes from
    the log of another build.
    Fix: use the log of one run as LoadGen wrote it.
    Source: LoadGen logging: file of every record.
    """
    detail = json_log(run)
    first: Entry | None = None
    known: set[str] = set()
    for found in detail.entries.values():
        entry = found[-1]
        source = entry.metadata.file
        if not source or source in known:
            continue
        known.add(source)
        first = first or entry
        if _folder(source) != _folder(first.source):
            yield Problem(
                f"found {entry.key} written from {entry.source}; expected a file of {_folder(first.source) or 'no folder'}, "
                f"as {first.key} on line {first.line}",
                path=run.detail_path,
                line=entry.line,
                found=entry.source,
                required=_folder(first.source),
                evidence=evidence(
                    "one folder of sources",
                    "high",
                    {first.key: first.source, entry.key: entry.source},
                    {first.key: first.line, entry.key: entry.line},
                ),
            )
            return


def _folder(source: str) -> str:
    return source.rpartition("/")[0]


@rule("R144", ERROR, needs="detail")
def build_dates_agree(run: LoggedRun, round: Round) -> Problems:
    """LoadGen's two build dates are one moment, in local time and in UTC.

    They differ by whole quarter hours, to the millisecond, in all 1,522 logs of v1.0 to v6.0.

    Why: both are taken when LoadGen is built; where they disagree one was changed.
    Fix: use the log as LoadGen wrote it.
    Source: LoadGen version_generator.py: loadgen_build_date_local and loadgen_build_date_utc.
    """
    look = Look(json_log(run))
    texts = [look.text(key) for key in (keys.LOADGEN_BUILD_DATE, "loadgen_build_date_local")]
    in_utc, local = (given(utc(text)) for text in texts)
    apart = (in_utc - local).total_seconds()
    rest = (apart + 450.0) % 900.0 - 450.0
    if abs(rest) > 1 or abs(apart) > 15 * HOUR:
        yield Problem(
            f"found LoadGen's build date {texts[1]} local and {texts[0]} UTC, {abs(apart):,.1f} s apart; "
            "expected one moment, whole quarter hours of a time zone aside",
            path=run.detail_path,
            line=look.detail.line(keys.LOADGEN_BUILD_DATE),
            found=float(f"{apart:.1f}"),
            required="a multiple of 900 s",
            evidence=look.evidence(
                "loadgen_build_date_utc - loadgen_build_date_local is a multiple of 900 s, within 1 s",
                "high",
            ),
        )


_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?: ?(?:Z|[+-]\d\d:?\d\d))?")


def _iso(text: str) -> datetime.datetime | None:
    """ISO 8601 allows forms that LoadGen does not write, such as 20250930T124538,703."""
    return utc(text) if _ISO.fullmatch(text.strip()) else None


_DATES = {
    "test_datetime": _iso,
    keys.LOADGEN_BUILD_DATE: _iso,
    "loadgen_build_date_local": _iso,
    keys.LOADGEN_COMMIT_DATE: _iso,
    "power_begin": seconds_of,
    "power_end": seconds_of,
}
_UNKNOWN = {"", "NA"}


@rule("R147", WARNING, needs="detail")
def dates_readable(run: LoggedRun, round: Round) -> Problems:
    """Every date in a log is in the form in which LoadGen writes it.

    An empty date, and NA of a LoadGen that was not built in a checkout, are as LoadGen writes them.

    Why: what a log states of its time cannot be compared with anything unless it is a date.
    Fix: use the log as LoadGen wrote it.
    Source: LoadGen logging.cc and version_generator.py; no other form in a published log of v1.0 to v6.1.
    """
    detail = given(run.detail or None)
    for key, read in _DATES.items():
        text = detail.get(key)
        known = isinstance(text, str) and (text in _UNKNOWN or read(text) is not None)
        if text is None or known:
            continue
        like = "09-30-2025 12:45:38.703" if read is seconds_of else "2025-09-30T12:45:38"
        yield Problem(
            f"found {key} {shown(text)}; expected a date such as {like}",
            path=run.detail_path,
            line=detail.line(key),
            found=str(text)[:100],
            required="a date",
            evidence=evidence(
                f"{key} is a date", "certain", {key: str(text)[:100]}, {key: detail.line(key) or 0}
            ),
        )


@rule("R123", ERROR, needs="detail")
def time_rises(run: LoggedRun, round: Round) -> Problems:
    """The records of one thread are in the order of their times.

    Not judged: the sets that an accuracy run loads while it still answers the one before.

    Why: LoadGen sorts a thread's records by time before it writes them.
    Fix: use the log of one run as LoadGen wrote it.
    Source: LoadGen logging.cc: time_ms; no record falls behind in any published log of v1.0 to v6.1.
    """
    detail = json_log(run)
    before: dict[int | None, Entry] = {}
    sets = 0
    for entry in _in_order(detail):
        # Unsigned times of a negative delta wrap around.
        if entry.time_ms >= 1e11:
            continue
        sets += entry.key == keys.LOADED_SET
        if entry.key == keys.LOADED_SET and sets > 1 and run.mode == "AccuracyOnly":
            continue
        tid = entry.metadata.tid
        last = before.get(tid)
        before[tid] = entry
        if last is not None and entry.time_ms < last.time_ms:
            yield Problem(
                f"found {entry.key} at {pair(entry.time_ms, last.time_ms, 'ms')[0]}; expected "
                f"{pair(entry.time_ms, last.time_ms, 'ms')[1]} or later, the time of {last.key} on line {last.line}",
                path=run.detail_path,
                line=entry.line,
                found=entry.time_ms,
                required=f">= {last.time_ms:g}",
                evidence=evidence(
                    "time_ms of a thread never falls from line to line",
                    "high",
                    {f"{last.key} (ms)": last.time_ms, f"{entry.key} (ms)": entry.time_ms},
                    {last.key: last.line, entry.key: entry.line},
                ),
            )
            return


@rule("R120", WARNING, needs="detail", cases={"apart": ERROR})
def log_clocks_agree(run: LoggedRun, round: Round) -> Problems:
    """The three clocks of a log agree: date of the test, power interval and time_ms.

    Within -1.01 to 1.6 s in 1,500 performance and compliance runs of v1.0 to v6.1, up to 54 s in accuracy
    runs, which write the record later. Error where they are more than a minute, or a day, apart.

    Why: the log's beginning plus its running time is its end, whatever time zone the dates are in.
    Fix: use the log as LoadGen wrote it.
    Source: LoadGen: test_datetime, time_ms, power_end; zones differ by multiples of 15 minutes.
    """
    detail, when = dated(run)
    entry = detail.entry("power_end")
    ended = given(seconds_of(str(entry.value)) if entry is not None else None)
    if entry is None or not 0 <= entry.time_ms < 1e11:
        raise NotJudged
    off = when.timestamp() + entry.time_ms / 1000 - ended
    quarter = 900.0
    rest = (off + quarter / 2) % quarter - quarter / 2
    # The record can be written a while after the time that it states; it cannot be written before.
    late = 120 if run.mode == "AccuracyOnly" else 60
    if not -5 <= rest <= late or abs(off) > 27 * HOUR:
        look = Look(detail)
        look.text("test_datetime"), look.text("power_end")
        yield Problem(
            f"found power_end {entry.value}, {abs(off):,.1f} s {'before' if off > 0 else 'after'} the time at which it was "
            f"written ({when.isoformat()} + {entry.time_ms / 1000:,.3f} s); expected the same time, whole "
            "quarter hours of a time zone aside",
            path=run.detail_path,
            line=entry.line,
            found=float(f"{off:.1f}"),
            required="a multiple of 900 s",
            case="apart" if not -60 <= rest <= 120 or abs(off) > 27 * HOUR else None,
            evidence=look.evidence(
                "test_datetime + time_ms of power_end - power_end is a whole number of quarter hours "
                "(-5 to +60 s) within a day",
                "moderate",
                time_ms=entry.time_ms,
            ),
        )
