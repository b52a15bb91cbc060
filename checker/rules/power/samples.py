"""Family W: the samples of one run: complete, evenly spaced and plausible."""

from __future__ import annotations

import itertools
import math
from array import array

from checker.model import PoweredRun
from checker.parse.detail import DetailLog
from checker.parse.power import PowerLogs, SampleLog
from checker.rule import ERROR, NOTE, WARNING, Problem, Problems, rule
from checker.rules.power.records import SAMPLES, at_sample, has_power
from checker.wording import number, quantity, rounded
from schemas.round import Round

_MAX_GAP_S = 5.0
_RATE_HZ = (0.95, 1.05)
_PRODUCT_PERCENT = 2.0
_AGREEMENT_PERCENT = 1.0
_OFTEN = 0.05


def _measured(logs: PowerLogs) -> float:
    """Seconds that LoadGen's interval lasted; 0 where it is not known."""
    return logs.end - logs.begin if logs.begin is not None and logs.end is not None else 0.0


@rule("W115", ERROR, when=has_power, needs=SAMPLES)
def sample_rate(
    run: PoweredRun, round: Round, logs: PowerLogs, samples: SampleLog, inside: list[int]
) -> Problems:
    """The meter was read about once a second during the run.

    Why: slower sampling misses peaks; two samples a second come from something else.
    Fix: use PTDaemon's interval of 1,000 ms and a connection that keeps up with it.
    Source: power_measurement.adoc: sampling interval of one second.
    """
    seconds = _measured(logs)
    low, high = _RATE_HZ
    if seconds >= 20 and not low <= len(inside) / seconds <= high:
        rate = len(inside) / seconds
        text = (
            f"found {number(rate, 3)} samples/s ({number(len(inside))} in {seconds:,.1f} s); "
            f"expected {low} to {high} samples/s"
        )
        yield Problem(text, path=samples.path, found=float(f"{rate:.4g}"), required=[low, high])


@rule("W116", ERROR, when=has_power, needs=SAMPLES)
def no_gaps(
    run: PoweredRun, round: Round, logs: PowerLogs, samples: SampleLog, inside: list[int]
) -> Problems:
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


@rule("W117", WARNING, cases={"ranging": NOTE}, when=has_power, needs=SAMPLES)
def watts_sound(
    run: PoweredRun, round: Round, logs: PowerLogs, samples: SampleLog, inside: list[int]
) -> Problems:
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
            case="ranging" if run.kind == "ranging" else None,
            count=len(bad),
        )


@rule("W118", WARNING, when=has_power, needs={**SAMPLES, "average": "power.average_watts"})
def energy_agrees(
    run: PoweredRun,
    round: Round,
    logs: PowerLogs,
    samples: SampleLog,
    inside: list[int],
    average: float,
) -> Problems:
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
    run: PoweredRun, round: Round, logs: PowerLogs, samples: SampleLog, inside: list[int]
) -> Problems:
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
            text = f"found {what.format(f'{missing:,.1f}')}; expected at most {_MAX_GAP_S:g} s"
            yield at_sample(samples, at, text, rounded(missing), _MAX_GAP_S)


@rule("W120", ERROR, when=has_power, needs={"logs": "power", "times": "power.samples.times"})
def samples_in_interval(
    run: PoweredRun, round: Round, logs: PowerLogs, times: array[float], detail: DetailLog
) -> Problems:
    """There are samples inside LoadGen's interval.

    Why: without one there is no power to publish.
    Fix: submit spl.txt of the measured run; check the clocks and time zones of both machines.
    Source: power_measurement.adoc: samples between power_begin and power_end.
    """
    if logs.begin is None or logs.end is None:
        text = "found no power_begin and power_end; expected both"
        yield Problem(text, path=run.detail_path, required=["power_begin", "power_end"])
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
    run: PoweredRun, round: Round, logs: PowerLogs, samples: SampleLog, inside: list[int]
) -> Problems:
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
        text = (
            f"found watts that are not volts x amperes x power factor in {number(len(apart))} of "
            f"{total} samples; expected them within {_PRODUCT_PERCENT:g}%"
        )
        yield at_sample(samples, apart[0], text, len(apart), 0, count=len(apart))
    if beyond:
        text = (
            f"found a power factor above 1 in {number(len(beyond))} of {total} samples; expected at "
            "most 1"
        )
        yield at_sample(samples, beyond[0], text, len(beyond), 0, count=len(beyond))
