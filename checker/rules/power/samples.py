"""Family W: the samples: complete, plausible, of this run, and what is published of them."""

from __future__ import annotations

import itertools
import math
import re
from array import array
from collections.abc import Iterator
from typing import Any

from checker import metrics
from checker.model import PerformanceRun, Result
from checker.parse.detail import DetailLog
from checker.parse.documents import Document
from checker.parse.power import PowerLogs, SampleLog
from checker.rule import ERROR, NOTE, WARNING, Problem, rule
from checker.rules.power.records import (
    SAMPLES,
    SERVER,
    exchange,
    has_power,
    rounded,
    testing_value,
    while_measured,
)
from checker.wording import number, quantity, shown
from schemas.round import Round

_UNCERTAIN = re.compile(r"^WARNING: Uncertainty ([\d.]+)%, which is above ([\d.]+)% limit")
_UNKNOWN = re.compile(r"^WARNING: Uncertainty unknown")
_MAX_UNCERTAINTY = 0.01
_MAX_GAP_S = 5.0
_RATE_HZ = (0.95, 1.05)
_DURATION_PERCENT = 5.0
_ENOUGH_RANGING_S = 240.0
_SHORTENED = 1.5
"""A ranging run that was shortened on purpose (the run took this many times its time) and still
lasted so long has found its ranges."""

_PRODUCT_PERCENT = 2.0
_AGREEMENT_PERCENT = 1.0
_OFTEN = 0.05
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
    cases={"samples": WARNING, "unknown": NOTE},
    when=has_power,
    needs={**SERVER, "logs": "performance.power"},
)
def uncertainty(
    result: Result, round: Round, server: Document, stated: dict[str, Any], logs: PowerLogs
) -> Iterator[Problem]:
    """The meter's uncertainty during the run was below 1%.

    Why: fixed ranges that do not fit the load make the reading inaccurate.
    Fix: let the ranging run find the ranges (it measures the same load) and measure again.
    Source: power_measurement.adoc: uncertainty of 1%; PTDaemon's Uncertainty reply.
    """
    value = testing_value(server, "Uncertainty")
    if value is not None and not 0 <= value < _MAX_UNCERTAINTY:
        found = "an unknown uncertainty" if value < 0 else f"{quantity(value * 100, '%')}"
        yield Problem(
            f"found {found}; expected less than 1%",
            path=server.path,
            line=server.line_of("ptd_messages"),
            found=value,
            required=f"< {_MAX_UNCERTAINTY}",
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
) -> Iterator[Problem]:
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
) -> Iterator[Problem]:
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


@rule("W115", ERROR, when=has_power, needs=SAMPLES)
def sample_rate(
    run: PerformanceRun, round: Round, logs: PowerLogs, samples: SampleLog, inside: list[int]
) -> Iterator[Problem]:
    """The meter was read about once a second during the run.

    Why: slower sampling misses peaks; two samples a second come from something else.
    Fix: use PTDaemon's interval of 1,000 ms and a connection that keeps up with it.
    Source: power_measurement.adoc: sampling interval of one second.
    """
    seconds = _measured(logs)
    low, high = _RATE_HZ
    if seconds >= 20 and not low <= len(inside) / seconds <= high:
        rate = len(inside) / seconds
        yield Problem(
            f"found {number(rate, 3)} samples/s ({number(len(inside))} in {seconds:,.1f} s); "
            f"expected {low} to {high} samples/s",
            path=samples.path,
            found=float(f"{rate:.4g}"),
            required=[low, high],
        )


@rule("W116", ERROR, when=has_power, needs=SAMPLES)
def no_gaps(
    run: PerformanceRun, round: Round, logs: PowerLogs, samples: SampleLog, inside: list[int]
) -> Iterator[Problem]:
    """No more than 5 s pass between two samples of the run, and their times only go forward.

    Why: what happened in a gap is not in the average.
    Fix: fix the meter's connection and measure again.
    Source: power_measurement.adoc: sampling interval of one second.
    """
    gaps = [
        (samples.times[after] - samples.times[before], samples.lines[after])
        for before, after in itertools.pairwise(inside)
        if not 0 <= samples.times[after] - samples.times[before] <= _MAX_GAP_S
    ]
    if gaps and _measured(logs) > 0:
        gap, line = max(gaps, key=lambda entry: abs(entry[0]))
        what = f"{gap:,.1f} s after" if gap > 0 else f"{-gap:,.1f} s before"
        more = f" (the largest of {number(len(gaps))} gaps)" if len(gaps) > 1 else ""
        yield Problem(
            f"found a sample {what} the one above it{more}; expected at most {_MAX_GAP_S:g} s",
            path=samples.path,
            line=line,
            found=rounded(gap),
            required=_MAX_GAP_S,
            count=len(gaps),
        )


@rule("W117", WARNING, when=has_power, needs=SAMPLES)
def watts_sound(
    run: PerformanceRun, round: Round, logs: PowerLogs, samples: SampleLog, inside: list[int]
) -> Iterator[Problem]:
    """Every sample of the run is a finite number of watts above 0.

    Why: a meter that reads -1 or NaN had nothing to read; such samples are left out of the mean.
    Fix: fix the meter's connection and measure again.
    Source: power_measurement.adoc; published samples of -1 W.
    """
    bad = [i for i in inside if not 0 < samples.watts[i] < 1e9]
    if bad and _measured(logs) > 0:
        yield Problem(
            f"found {quantity(samples.watts[bad[0]], 'W')}, and no power in {number(len(bad))} of "
            f"{number(len(inside))} samples; expected more than 0 W",
            path=samples.path,
            line=samples.lines[bad[0]],
            found=len(bad),
            required=0,
            count=len(bad),
        )


@rule("W118", WARNING, when=has_power, needs={**SAMPLES, "average": "power.average_watts"})
def energy_agrees(
    run: PerformanceRun,
    round: Round,
    logs: PowerLogs,
    samples: SampleLog,
    inside: list[int],
    average: float,
) -> Iterator[Problem]:
    """Average power times time is the energy under the samples.

    Why: they differ when samples are not evenly spaced or some were left out.
    Fix: look for gaps and for samples without power in spl.txt, and measure again.
    Source: energy is the integral of power over time.
    """
    energy = _energy(samples, inside)
    span = samples.times[inside[-1]] - samples.times[inside[0]]
    if len(inside) < 20 or not math.isfinite(energy) or span <= 0 or _measured(logs) <= 0:
        return
    if abs(energy / (average * span) - 1) * 100 > _AGREEMENT_PERCENT:
        yield Problem(
            f"found {quantity(energy, 'J')} under the samples; expected "
            f"{quantity(average * span, 'J')} (average power times time) within "
            f"{_AGREEMENT_PERCENT:g}%",
            path=samples.path,
            found=float(f"{energy:.6g}"),
            required=float(f"{average * span:.6g}"),
        )


def _energy(samples: SampleLog, inside: list[int]) -> float:
    times, watts = samples.times, samples.watts
    return sum(
        (times[after] - times[before]) * (watts[before] + watts[after]) / 2
        for before, after in itertools.pairwise(inside)
    )


@rule("W119", ERROR, when=has_power, needs=SAMPLES)
def interval_covered(
    run: PerformanceRun, round: Round, logs: PowerLogs, samples: SampleLog, inside: list[int]
) -> Iterator[Problem]:
    """Samples cover LoadGen's interval from its begin to its end.

    Why: the average is meant over the whole run, not over a part of it.
    Fix: keep the meter running until LoadGen has ended (the power client does so).
    Source: power_measurement.adoc: samples between power_begin and power_end.
    """
    if logs.begin is None or logs.end is None:
        return
    first, last = samples.times[inside[0]] - logs.begin, logs.end - samples.times[inside[-1]]
    for missing, what, at in (
        (first, "the first sample {} s after LoadGen's begin", inside[0]),
        (last, "the last sample {} s before LoadGen's end", inside[-1]),
    ):
        if missing > _MAX_GAP_S:
            yield Problem(
                f"found {what.format(f'{missing:,.1f}')}; expected at most {_MAX_GAP_S:g} s",
                path=samples.path,
                line=samples.lines[at],
                found=rounded(missing),
                required=_MAX_GAP_S,
            )


@rule(
    "W120",
    ERROR,
    when=has_power,
    needs={"logs": "power", "times": "power.samples.times", "detail": "detail"},
)
def samples_in_interval(
    run: PerformanceRun, round: Round, logs: PowerLogs, times: array[float], detail: DetailLog
) -> Iterator[Problem]:
    """There are samples inside LoadGen's interval.

    Why: without one there is no power to publish.
    Fix: submit spl.txt of the measured run; check the clocks and time zones of both machines.
    Source: power_measurement.adoc: samples between power_begin and power_end.
    """
    if logs.begin is None or logs.end is None:
        yield Problem(
            "found no power_begin and power_end; expected both",
            path=run.detail_path,
            required=["power_begin", "power_end"],
        )
    elif not logs.inside:
        apart = max(times[0] - logs.end if times[0] >= logs.end else logs.begin - times[-1], 0)
        zone = f" ({apart / 3600:.2f} h: a time zone?)" if apart > 1800 else ""
        yield Problem(
            f"found {number(len(times))} samples {apart:,.0f} s away from LoadGen's interval{zone}; "
            "expected them inside it",
            path=logs.samples.path if logs.samples is not None else None,
            found=[times[0], times[-1]],
            required=[logs.begin, logs.end],
        )


@rule("W121", WARNING, when=has_power, needs=SAMPLES)
def readings_consistent(
    run: PerformanceRun, round: Round, logs: PowerLogs, samples: SampleLog, inside: list[int]
) -> Iterator[Problem]:
    """Watts are volts times amperes times power factor, and the power factor is at most 1.

    Why: the meter measures all four at once; where they disagree, one of them was changed.
    Fix: submit spl.txt as PTDaemon wrote it.
    Source: power factor is active power over apparent power.
    """
    apart, beyond = [], []
    # Amperes are not summed over channels: each channel is judged by itself.
    for i in inside if not samples.channels else ():
        watts, product = samples.watts[i], samples.volts[i] * samples.amps[i] * samples.factors[i]
        if math.isfinite(watts) and math.isfinite(product) and watts > 0 and product > 0:
            apart += [i] if abs(product / watts - 1) * 100 > _PRODUCT_PERCENT else []
            beyond += [i] if samples.factors[i] > 1.005 else []
    total = number(len(inside))
    # The meter prints few digits, so a single sample may be off; many are not.
    if len(apart) > len(inside) * _OFTEN:
        yield Problem(
            f"found watts that are not volts x amperes x power factor in {number(len(apart))} of "
            f"{total} samples; expected them within {_PRODUCT_PERCENT:g}%",
            path=samples.path,
            line=samples.lines[apart[0]],
            found=len(apart),
            required=0,
            count=len(apart),
        )
    if beyond:
        yield Problem(
            f"found a power factor above 1 in {number(len(beyond))} of {total} samples; expected at "
            "most 1",
            path=samples.path,
            line=samples.lines[beyond[0]],
            found=len(beyond),
            required=0,
            count=len(beyond),
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
        "complete": "complete",
    },
)
def power_metric_present(
    result: Result,
    round: Round,
    logs: PowerLogs,
    samples: SampleLog,
    detail: DetailLog,
    complete: bool,
) -> Iterator[Problem]:
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
    needs={
        "samples": "power.samples",
        "marks": "power.samples.marks",
        "server": "power.server",
    },
)
def samples_of_session(
    run: PerformanceRun, round: Round, samples: SampleLog, marks: dict[str, int], server: Document
) -> Iterator[Problem]:
    """The samples are marked with the session and the phase that the records name.

    Why: samples of another session are of another run.
    Fix: submit the spl.txt that belongs to client.json and server.json.
    Source: PTDaemon's Mark field; session_name of server.json.
    """
    session = server.fields.get("session_name")
    wanted = f"{session}_{'ranging' if run.kind == 'ranging' else 'testing'}"
    for mark, count in marks.items() if isinstance(session, str) and session else ():
        if mark and mark != wanted:
            yield Problem(
                f"found {quantity(count, 'sample')} marked {shown(mark)}; expected {shown(wanted)}",
                path=samples.path,
                found=mark[:80],
                required=wanted,
                count=count,
            )


@rule(
    "W127",
    WARNING,
    when=has_power,
    needs={**SERVER, "samples": "performance.power.samples"},
)
def meter_average_agrees(
    result: Result, round: Round, server: Document, stated: dict[str, Any], samples: SampleLog
) -> Iterator[Problem]:
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
        yield Problem(
            f"found an average of {quantity(mean, 'W')}; expected {quantity(reported, 'W')} within "
            f"{_AGREEMENT_PERCENT:g}%, as PTDaemon reported",
            path=samples.path,
            found=float(f"{mean:.6g}"),
            required=reported,
        )


@rule(
    "W129",
    WARNING,
    when=has_power,
    needs={
        "folder": "power_folder",
        "ranging": "ranging",
        "ranged": "ranging.detail",
        "detail": "performance.detail",
    },
)
def ranging_is_the_same_run(
    result: Result,
    round: Round,
    folder: object,
    ranging: PerformanceRun,
    ranged: DetailLog,
    detail: DetailLog,
) -> Iterator[Problem]:
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
