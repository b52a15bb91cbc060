"""Family W, channels: a meter with several channels, and several meters, each judged by itself."""

from __future__ import annotations

import math
from itertools import compress

from checker.model import PoweredRun
from checker.parse.power import PowerLogs, Readings, SampleLog
from checker.rule import WARNING, Problem, Problems, rule
from checker.rules.power.records import at_sample
from schemas.round import Round

_PRODUCT_PERCENT = 5.0
"""How far apart watts and volts x amperes x power factor may be: meters print few digits."""

_SUM_PERCENT = 1.0
"""How far apart the total and the sum of its channels may be."""

_OFTEN = 0.05
"""A single sample may be off; a share of the run's samples above this is not chance."""


@rule(
    "W131",
    WARNING,
    needs={"logs": "power", "samples": "power.samples", "channels": "power.samples.channels"},
)
def channel_watts_sound(
    run: PoweredRun,
    round: Round,
    logs: PowerLogs,
    samples: SampleLog,
    channels: dict[str, Readings],
) -> Problems:
    """Every channel reads a finite power of 0 W or more throughout the run.

    Why: a channel that reads below 0 W is wired backwards, and lowers the total that is published.
    Fix: check the wiring of that channel and measure again.
    Source: power_measurement.adoc; active power of a load is not negative.
    """
    inside = logs.inside
    for name, channel in channels.items():
        bad = [i for i in inside if not 0 <= channel.watts[i] < 1e9]
        if bad:
            first = channel.watts[bad[0]]
            shown = f"{first:,.6g} W" if math.isfinite(first) else "no power"
            yield Problem(
                f"channel {name} reads {shown} on line {samples.lines[bad[0]]}, and no power of 0 W "
                f"or more in {len(bad):,} of {len(inside):,} samples; expected 0 W or more",
                path=samples.path,
                line=samples.lines[bad[0]],
                found=first if math.isfinite(first) else None,
                required=">= 0 W",
                count=len(bad),
            )


@rule(
    "W132",
    WARNING,
    needs={"logs": "power", "samples": "power.samples", "channels": "power.samples.channels"},
)
def channel_readings_consistent(
    run: PoweredRun,
    round: Round,
    logs: PowerLogs,
    samples: SampleLog,
    channels: dict[str, Readings],
) -> Problems:
    """Each channel's watts are its volts times amperes times power factor.

    Why: the meter measures all four at once; where they disagree, one of them was changed.
    Fix: submit spl.txt as PTDaemon wrote it.
    Source: power factor is active power over apparent power.
    """
    inside = logs.inside
    for name, channel in channels.items():
        apart = [i for i in inside if _apart(channel, i)]
        if len(apart) > len(inside) * _OFTEN:
            text = (
                f"in {len(apart):,} of {len(inside):,} samples the watts of channel {name} are more "
                f"than {_PRODUCT_PERCENT:g}% off its volts x amperes x power factor"
            )
            yield at_sample(samples, apart[0], text, len(apart), 0, count=len(apart))


def _apart(channel: Readings, at: int) -> bool:
    watts = channel.watts[at]
    product = channel.volts[at] * channel.amps[at] * channel.factors[at]
    if not (math.isfinite(watts) and math.isfinite(product)) or watts <= 0 or product <= 0:
        return False
    return abs(product / watts - 1) * 100 > _PRODUCT_PERCENT


@rule(
    "W133",
    WARNING,
    needs={"logs": "power", "samples": "power.samples", "channels": "power.samples.channels"},
)
def channels_sum_to_total(
    run: PoweredRun,
    round: Round,
    logs: PowerLogs,
    samples: SampleLog,
    channels: dict[str, Readings],
) -> Problems:
    """The total power, which is published, is the sum of the channels.

    Why: with a channel left out the published power is that of a part of the system.
    Fix: submit spl.txt as PTDaemon wrote it, with every channel of every meter.
    Source: PTDaemon: the first Watts of a sample are the sum over its channels.
    """
    inside = logs.inside
    sums = [math.fsum(channel.watts[i] for channel in channels.values()) for i in inside]
    stated = [samples.watts[i] for i in inside]
    apart = [
        math.isfinite(total + summed)
        and abs(total - summed) > max(_SUM_PERCENT / 100 * abs(total), 0.5)
        for total, summed in zip(stated, sums, strict=True)
    ]
    wrong = list(compress(range(len(inside)), apart))
    if len(wrong) > len(inside) * _OFTEN:
        at = wrong[0]
        text = (
            f"the total on line {samples.lines[inside[at]]} is {stated[at]:,.6g} W; its "
            f"{len(channels)} channels sum to {sums[at]:,.6g} W ({len(wrong):,} of {len(inside):,} "
            "samples differ)"
        )
        yield at_sample(samples, inside[at], text, stated[at], sums[at], count=len(wrong))
