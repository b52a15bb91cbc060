"""Family R: the meter's settings against its readings in the ranging run."""

from __future__ import annotations

from checker.audit import figures
from checker.audit.evidence import evidence, moment
from checker.model import Result
from checker.parse.documents import Document
from checker.parse.power import Message, PowerLogs, seconds_of
from checker.rule import ERROR, NotJudged, Problem, Problems, given, rule
from checker.wording import pair
from schemas.round import Round

_NEAR = 1e-3


@rule("R139", ERROR, needs={"server": "performance.power.server", "ranging": "ranging.power"})
def ranges_as_read(result: Result, round: Round, server: Document, ranging: object) -> Problems:
    """The meter's ranges follow from the readings of the ranging run.

    The volts are the greatest reading, the amperes 1 or 1.1 times the greatest. Equal to six digits in
    all 40 measurements of v2.1 to v4.1 with a meter of one channel; found in v4.1, verified on v2.1,
    v3.0 and v3.1.

    Why: the power server reads the ranging run's samples and sets the meter from them; readings that
    were scaled later no longer fit what server.json logged.
    Fix: use spl.txt and server.json as the power server wrote them.
    Source: power_measurement.adoc, "Ranging"; server.json: SR,A and SR,V before the measured run.
    """
    found = given(figures.ranges(result) or None)
    for one in found:
        factors = figures.RANGE_FACTORS if one.command == "SR,A" else (1.0,)
        if any(abs(one.ratio / factor - 1) <= _NEAR for factor in factors):
            continue
        unit = "A" if one.command == "SR,A" else "V"
        set_to, greatest = pair(one.set_to, one.greatest, unit)
        times = " or ".join(f"{factor:g}" for factor in factors)
        yield Problem(
            f"found a range of {set_to} set before the run; expected {times} times {greatest}, the "
            "greatest reading of the ranging run",
            path=server.path,
            found=one.set_to,
            required=one.greatest,
            evidence=evidence(
                figures.CURRENT_RANGE.formula,
                "high",
                {one.command: one.set_to, "greatest reading": one.greatest, "ratio": one.ratio},
            ),
        )


_AFTER_S = 900.0


@rule("R140", ERROR, needs={"logs": "performance.power", "messages": "performance.power.ptd"})
def messages_of_the_run(
    result: Result, round: Round, logs: PowerLogs, messages: list[Message]
) -> Problems:
    """PTDaemon's messages begin before the run and end within 15 minutes after it.

    The last message is 12 to 74 s after the run, the first 11 minutes and more before it, in all 36
    measurements of v2.1 to v4.1.

    Why: one session ranges, measures and stops the meter; messages of another time are another
    session's.
    Fix: use the ptd_logs.txt of the session that measured the run.
    Source: power_measurement.adoc; ptd_logs.txt: the time of every message.
    """
    times = given([time for m in messages if (time := seconds_of(m.stamp)) is not None] or None)
    if logs.begin is None or logs.end is None:
        raise NotJudged
    first, last = min(times), max(times)
    if first <= logs.begin and logs.end <= last <= logs.end + _AFTER_S:
        return
    yield Problem(
        f"found messages from {moment(first)} to {moment(last)}; expected messages of the session that "
        f"measured the run from {moment(logs.begin)} to {moment(logs.end)}",
        path=logs.ptd_path,
        found=[moment(first), moment(last)],
        required=[moment(logs.begin), moment(logs.end)],
        evidence=evidence(
            "first message <= begin of the run; end of the run <= last message <= end + 900 s",
            "high",
            {
                "first message": moment(first),
                "last message": moment(last),
                "begin of the run": moment(logs.begin),
                "end of the run": moment(logs.end),
            },
        ),
    )
