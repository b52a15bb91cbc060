"""Endpoints results: the statistics of a run can be those of one set of samples."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from checker.model import Result
from checker.parse.documents import Document
from checker.parse.endpoints import Endpoints, as_number
from checker.rule import ERROR, WARNING, Problem, Problems, rule
from checker.wording import milliseconds, number, pair, quantity, shown
from schemas.round import Round

_CLOSE = 1e-6
"""Relative: the client writes its numbers in full, so that only rounding may differ."""

_TIMES = ("ttft", "tpot", "latency")


class _Point(NamedTuple):
    """One value of a statistic on the way from the smallest to the largest sample."""

    name: str
    value: float


@rule("P166", ERROR, needs={"summary": "endpoints.summary"})
def endpoints_statistics(
    result: Result, round: Round, endpoints: Endpoints, summary: Document
) -> Problems:
    """Minimum, percentiles, maximum, mean and total of a run are those of one set of samples.

    Why: the client computes them all from the same samples. Percentiles that fall, a median that is
    not the 50th percentile, a mean outside of the range, a total that is not the mean times the
    samples, or a first token after the last one mean that a number was changed. Compared to 1e-6.
    Fix: use result_summary.json as the endpoints client wrote it.
    Source: result_summary.json: ttft, tpot, latency and output_sequence_lengths; all nine published
        endpoints results of v6.1 agree.
    """
    samples = endpoints.number("n_samples_completed")
    for name in (*_TIMES, "output_sequence_lengths"):
        table = endpoints.measured(name)
        if isinstance(table, dict) and table:
            for field, text, found, expected in _contradictions(name, table, samples):
                yield Problem(
                    text,
                    path=summary.path,
                    pointer=f"/{name}/{field}",
                    found=found,
                    required=expected,
                )
    for percent, first in _percentiles(endpoints.measured("ttft")):
        whole = endpoints.percentile("latency", percent)
        if whole is not None and first > whole * (1 + _CLOSE):
            yield Problem(
                f"the {number(percent)}th percentile of ttft is {milliseconds(first)}; expected at most "
                f"{milliseconds(whole)}, that of latency",
                path=summary.path,
                pointer="/ttft/percentiles",
                found=first,
                required=whole,
            )


@rule("P168", ERROR, needs={"summary": "endpoints.summary"})
def endpoints_tokens_counted(
    result: Result, round: Round, endpoints: Endpoints, summary: Document
) -> Problems:
    """Times to first token and latencies are above 0, and every answer has a token.

    Why: a time of zero or less means that the start, the first token or the end of an answer was not
    recorded, and it passes every limit; an answer without a token is empty.
    Fix: fix the client or the server's stream, and run again.
    Source: result_summary.json: ttft, tpot, latency and output_sequence_lengths; inference_rules.adoc:
        limits on TTFT and TPOT.
    """
    for name, least in (("ttft", "above 0"), ("tpot", "0 or more"), ("latency", "above 0")):
        table = endpoints.measured(name)
        known = table if isinstance(table, dict) else {}
        values = [(key, as_number(known.get(key))) for key in ("min", "avg", "median", "max")]
        for kind in ("percentiles", "early_stopping_percentiles"):
            values += [(kind, value) for _, value in _percentiles(table, kind)]
        low = [
            (key, value)
            for key, value in values
            if value is not None and (value < 0 or (value == 0 and name != "tpot"))
        ]
        if low:
            key, value = low[0]
            yield Problem(
                f"{key} of {name} is {quantity(value, 'ns')}; expected {least}",
                path=summary.path,
                pointer=f"/{name}/{key}",
                found=value,
                required=least,
                count=len(low),
            )
    fewest = endpoints.number("output_sequence_lengths", "min")
    if fewest is not None and fewest < 1:
        yield Problem(
            f"the shortest answer has {number(fewest)} tokens; expected 1 or more",
            path=summary.path,
            pointer="/output_sequence_lengths/min",
            found=fewest,
            required=1,
        )


def _contradictions(
    name: str, table: dict[str, Any], samples: float | None
) -> Iterator[tuple[str, str, float, float]]:
    """(field, sentence, found, expected) for each value that contradicts another of ``table``."""
    least, most, mean, median, total, spread = (
        as_number(table.get(key)) for key in ("min", "max", "avg", "median", "total", "std_dev")
    )
    points = [_Point("min", least)] if least is not None else []
    points += [
        _Point(f"the {number(percent)}th percentile", value)
        for percent, value in _percentiles(table)
    ]
    points += [_Point("max", most)] if most is not None else []
    for below, above in pairwise(points):
        if above.value < below.value * (1 - _CLOSE):
            found, expected = _pair(name, above.value, below.value)
            text = f"{above.name} of {name} is {found}; expected at least {expected}, {below.name}"
            field = "percentiles" if above.name.startswith("the") else above.name
            yield field, text, above.value, below.value
            break
    middle = dict(_percentiles(table)).get(50.0)
    if median is not None and middle is not None and not _near(median, middle):
        found, expected = _pair(name, median, middle)
        text = f"the median of {name} is {found}; expected {expected}, its 50th percentile"
        yield "median", text, median, middle
    if mean is not None and least is not None and most is not None:
        slack = _CLOSE * max(abs(least), abs(most))
        if not least - slack <= mean <= most + slack:
            shown_mean, low = _pair(name, mean, least)
            _, high = _pair(name, mean, most)
            text = f"the mean of {name} is {shown_mean}; expected {low} (min) to {high} (max)"
            yield "avg", text, mean, least
        if spread is not None and not 0 <= spread <= most - least + slack:
            found, expected = _pair(name, spread, most - least)
            text = f"std_dev of {name} is {found}; expected 0 to {expected}, as min and max allow"
            yield "std_dev", text, spread, most - least
    if mean is not None and total is not None and samples:
        whole = mean * samples
        if not _near(total, whole):
            found, expected = _pair(name, total, whole)
            text = (
                f"the total of {name} is {found}; expected {expected}, the mean times the samples"
            )
            yield "total", text, total, whole


def _percentiles(table: Any, kind: str = "percentiles") -> list[tuple[float, float]]:
    """(percent, value) in the order of percents; what is not a number is left out."""
    values = table.get(kind) if isinstance(table, dict) else None
    found = []
    for key, value in values.items() if isinstance(values, dict) else ():
        amount = as_number(value)
        try:
            percent = float(key)
        except ValueError:
            continue
        if amount is not None and 0 <= percent <= 100:
            found.append((percent, amount))
    return sorted(found)


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= _CLOSE * max(abs(one), abs(other))


def _pair(name: str, found: float, expected: float) -> tuple[str, str]:
    if name in _TIMES:
        return pair(found / 1e6, expected / 1e6, "ms")
    return pair(found, expected, "tokens")


@rule("P167", WARNING, needs={"summary": "endpoints.summary", "config": "endpoints.config"})
def endpoints_run_config(
    result: Result, round: Round, endpoints: Endpoints, summary: Document, config: Document
) -> Problems:
    """The settings that the client copied into its summary are those of config.yaml.

    Why: where they differ, config.yaml is of another run, or one of the two was changed.
    Fix: submit the config.yaml with which the run was made.
    Source: result_summary.json: run_config.
    """
    for copied, setting in (
        (("load_pattern", "type"), ("load_pattern", "type")),
        (("load_pattern", "target_qps"), ("load_pattern", "target_qps")),
        (("load_pattern", "target_concurrency"), ("load_pattern", "target_concurrency")),
        (("scheduler_random_seed",), ("runtime", "scheduler_random_seed")),
        (("dataloader_random_seed",), ("runtime", "dataloader_random_seed")),
    ):
        found = endpoints.setting("settings", *setting)
        expected = endpoints.measured("run_config", *copied)
        if found is None or expected is None or found == expected:
            continue
        yield Problem(
            f"settings.{'.'.join(setting)} is {_setting(found)}; the run had {_setting(expected)}",
            path=config.path,
            pointer="/settings/" + "/".join(setting),
            found=found,
            required=expected,
        )


def _setting(value: Any) -> str:
    # A seed is a name, not a quantity: no thousands separators.
    return str(value) if isinstance(value, int) and value > 1_000_000 else shown(value)
