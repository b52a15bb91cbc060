"""Family W: the measurement: its uncertainty, its ranging run, and what is published of it."""

from __future__ import annotations

import math
import re
from typing import Any

from checker import metrics
from checker.model import PoweredRun, RangingRun, Result
from checker.parse.detail import DetailLog
from checker.parse.documents import Document
from checker.parse.power import PowerLogs, SampleLog
from checker.rule import ERROR, NOTE, WARNING, Problem, Problems, rule
from checker.rules.comparing import stated_in
from checker.rules.power.records import SERVER, exchange, has_power, testing_value, while_measured
from checker.wording import number, quantity, rounded, shown
from schemas.round import Round

_UNCERTAIN = re.compile(r"^WARNING: Uncertainty ([\d.]+)%, which is above ([\d.]+)% limit")
_UNKNOWN = re.compile(r"^WARNING: Uncertainty unknown")
_CHECKED = re.compile(r"^Uncertainty checking for .{1,100} is activated")
_MAX_UNCERTAINTY = 0.01
_DURATION_PERCENT = 5.0
_ENOUGH_RANGING_S = 240.0
_SHORTENED = 1.5
"""A ranging run that was shortened on purpose (the run took this many times its time) and still
lasted so long has found its ranges."""

_AGREEMENT_PERCENT = 1.0
_SETTINGS = (
    "effective_scenario", "effective_test_mode", "effective_target_qps", "qsl_name",
    "effective_min_query_count",
)  # fmt: skip
_RANGING = {"logs": "performance.power", "before": "ranging.power"}


def _measured(logs: PowerLogs) -> float:
    """Seconds that LoadGen's interval lasted; 0 where it is not known."""
    return logs.end - logs.begin if logs.begin is not None and logs.end is not None else 0.0


@rule(
    "W112",
    ERROR,
    cases={"samples": WARNING, "unknown": NOTE, "unchecked": WARNING},
    when=has_power,
    needs={**SERVER, "logs": "performance.power"},
)
def uncertainty(
    result: Result, round: Round, server: Document, stated: dict[str, Any], logs: PowerLogs
) -> Problems:
    """The meter's uncertainty during the run was below 1%.

    Why: fixed ranges that do not fit the load make the reading inaccurate.
    Fix: let the ranging run find the ranges (it measures the same load) and measure again.
    Source: power_measurement.adoc: uncertainty of 1%; PTDaemon's Uncertainty reply.
    """
    value = testing_value(server, "Uncertainty")
    if value is not None and not 0 <= value < _MAX_UNCERTAINTY:
        found = "an unknown uncertainty" if value < 0 else f"{quantity(value * 100, '%')}"
        text = f"found {found}; expected less than 1%"
        yield stated_in(server, "ptd_messages", text, value, f"< {_MAX_UNCERTAINTY}")
    if logs.ptd and not any(_CHECKED.match(message.text) for message in logs.ptd):
        yield Problem(
            'found no message "Uncertainty checking for … is activated"; expected PTDaemon to check '
            "the uncertainty of every sample",
            path=logs.ptd_path,
            fix="let PTDaemon check the uncertainty, and measure again",
            case="unchecked",
        )
    total = len(logs.inside)
    replied = any(command == "Uncertainty" for command, _ in exchange(server, "ptd_messages"))
    for pattern, what, case in (
        (_UNCERTAIN, "an uncertainty above the limit", "samples"),
        (_UNKNOWN, "an unknown uncertainty", "unknown"),
    ):
        found_in = [m for m in logs.ptd if pattern.match(m.text) and while_measured(logs, m)]
        if found_in and total and not (case == "unknown" and replied):
            yield Problem(
                f"found {what} in {number(len(found_in))} of {number(total)} samples; expected none",
                path=logs.ptd_path,
                line=found_in[0].line,
                found=len(found_in),
                required=0,
                case=case,
                count=len(found_in),
            )


@rule("W113", ERROR, when=has_power, needs=_RANGING)
def power_as_in_ranging(
    result: Result, round: Round, logs: PowerLogs, before: PowerLogs
) -> Problems:
    """The run's average power is not far below the ranging run's.

    Why: the meter's ranges were set for the ranging run's load; a much lower one is read badly,
        and shows that another load was measured.
    Fix: let the system settle before, and run the same load in both runs.
    Source: the round's power checker: at least 95% of the ranging run's average power.
    """
    tested, ranged = logs.average_watts, before.average_watts
    share = 1 - round.power.max_drop_percent / 100
    if tested is not None and ranged is not None and tested < ranged * share:
        yield Problem(
            f"found an average of {quantity(tested, 'W', digits=4)}; expected at least "
            f"{quantity(ranged * share, 'W', digits=4)}, {number(share * 100)}% of the ranging run's",
            path=logs.samples.path if logs.samples is not None else logs.path,
            found=tested,
            required=ranged * share,
        )


@rule("W114", WARNING, cases={"ranged-long-enough": NOTE}, when=has_power, needs=_RANGING)
def duration_as_in_ranging(
    result: Result, round: Round, logs: PowerLogs, before: PowerLogs
) -> Problems:
    """The run and the ranging run took about the same time.

    Why: a run of another length may have been another run; systems that throttle differ a little.
    Fix: use the same settings in both runs.
    Source: the round's power checker: durations within 5%, a warning.
    """
    tested, ranged = _measured(logs), _measured(before)
    if tested <= 0 or ranged <= 0:
        return
    off = abs(tested / ranged - 1) * 100
    if off > _DURATION_PERCENT:
        enough = ranged >= _ENOUGH_RANGING_S and tested > ranged * _SHORTENED
        yield Problem(
            f"found a run of {tested:,.1f} s; expected {ranged:,.1f} s within "
            f"{_DURATION_PERCENT:g}%, as in the ranging run",
            path=result.performance.detail_path if result.performance is not None else logs.path,
            found=rounded(off),
            required=_DURATION_PERCENT,
            case="ranged-long-enough" if enough else None,
        )


@rule(
    "W124",
    ERROR,
    cases={"no-unit": WARNING},
    when=has_power,
    needs={
        "logs": "performance.power",
        "samples": "performance.power.samples",
        "detail": "performance.detail",
    },
)
def power_metric_present(
    result: Result,
    round: Round,
    logs: PowerLogs,
    samples: SampleLog,
    detail: DetailLog,
    complete: bool,
) -> Problems:
    """A measured result has a finite power metric above 0.

    Why: it is what is published for it.
    Fix: submit spl.txt of the measured run and the LoadGen logs of that run.
    Source: submission_rules.adoc, "Power": average power, or energy per query for single streams.
    """
    if result.power_folder is None:
        return
    found = metrics.power_of(result)
    rules = metrics.scenario_rules(result, result.scenario)
    has_unit = rules is not None and rules.power_unit is not None
    if found is not None and 0 < found.value < math.inf:
        return
    if found is not None:
        what = f"found {quantity(found.value, found.unit)}"
    elif logs.average_watts is None:
        what = "found no sample above 0 W in the run"
    elif not has_unit:
        what = f"found no power metric of {result.name or result.directory} {result.scenario} in {round.name}"
    else:
        what = "found no time or query count in the log"
    yield Problem(
        f"{what}; expected a power metric above 0",
        path=samples.path,
        found=found.value if found is not None else None,
        required="> 0",
        case=None if has_unit or found is not None else "no-unit",
    )


@rule(
    "W126",
    WARNING,
    when=has_power,
    needs={"samples": "power.samples", "marks": "power.samples.marks", "server": "power.server"},
)
def samples_of_session(
    run: PoweredRun, round: Round, samples: SampleLog, marks: dict[str, int], server: Document
) -> Problems:
    """The samples are marked with the session and the phase that the records name.

    Why: samples of another session are of another run.
    Fix: submit the spl.txt that belongs to client.json and server.json.
    Source: PTDaemon's Mark field; session_name of server.json.
    """
    session = server.fields.get("session_name")
    wanted = f"{session}_{'ranging' if run.kind == 'ranging' else 'testing'}"
    for mark, count in marks.items() if isinstance(session, str) and session else ():
        if mark and mark != wanted:
            text = (
                f"found {quantity(count, 'sample')} marked {shown(mark)}; expected {shown(wanted)}"
            )
            yield Problem(text, path=samples.path, found=mark[:80], required=wanted, count=count)


@rule("W127", WARNING, when=has_power, needs={**SERVER, "samples": "performance.power.samples"})
def meter_average_agrees(
    result: Result, round: Round, server: Document, stated: dict[str, Any], samples: SampleLog
) -> Problems:
    """The average that PTDaemon itself reported is that of the submitted samples.

    Why: both are of the same samples; where they disagree, samples were changed or left out.
    Fix: submit spl.txt as PTDaemon wrote it.
    Source: PTDaemon's Watts reply in server.json.
    """
    reported = testing_value(server, "Watts")
    watts = [w for w in samples.watts if 0 < w < 1e9]
    if reported is None or reported <= 0 or not watts:
        return
    mean = sum(watts) / len(watts)
    if abs(mean / reported - 1) * 100 > _AGREEMENT_PERCENT:
        text = (
            f"found an average of {quantity(mean, 'W')}; expected {quantity(reported, 'W')} within "
            f"{_AGREEMENT_PERCENT:g}%, as PTDaemon reported"
        )
        yield Problem(text, path=samples.path, found=float(f"{mean:.6g}"), required=reported)


@rule(
    "W129",
    WARNING,
    when=has_power,
    needs={"folder": "power_folder", "ranged": "ranging.detail", "detail": "performance.detail"},
)
def ranging_is_the_same_run(
    result: Result,
    round: Round,
    folder: object,
    ranging: RangingRun,
    ranged: DetailLog,
    detail: DetailLog,
) -> Problems:
    """The ranging run was made with the run's scenario and settings.

    Why: ranges found under another load do not fit.
    Fix: run the same command in both phases (the power client does so).
    Source: power_measurement.adoc: the ranging run is a run of the same workload.
    """
    for key in _SETTINGS:
        mine, theirs = ranged.get(key), detail.get(key)
        if mine is not None and theirs is not None and mine != theirs:
            yield Problem(
                f"found {key} {shown(mine)} in the ranging run; expected {shown(theirs)}, as in the "
                "measured run",
                path=ranging.detail_path,
                line=ranged.line(key),
                found=mine,
                required=theirs,
            )
