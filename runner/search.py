"""`--find-qps`: which load does this system carry?  Short runs find it, a full one confirms it.

Server: the rate is doubled (or halved) until one short run is VALID and one is not, then bisected.
A short run is good when LoadGen calls it VALID, which its early stopping says with 99% confidence;
bad when so many queries were late that a system at the limit would show it in 1 of 100 runs only;
else it is made again, twice as long.  A bad run is made once more and, if the two contradict, a
third time: on a shared machine one bad second is no proof.
Offline: short runs until two agree; the rate is only needed for the length of the run.
SingleStream and MultiStream: one short run measures the latency that LoadGen wants as a hint.

The time that the search may take is announced once the first short run has shown the rate, and then
holds.  Where probes contradict one another, the warm-up or the full runs, more than chance allows, or
where other processes took part of each run that was not carried, the search ends and says that the
machine was disturbed: no rate found under such conditions means anything.  (A rate that was carried is
carried on a quiet machine too; it is the bad runs that a disturbance makes.)

Every probe is one line of a log, written as it ends.  A search that was interrupted starts from
that log: the steps follow from the probes alone, so those already made are not made again.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from checker.early_stopping import CONFIDENCE, total_queries
from runner.disturbance import Ticks
from runner.errors import HopelessRun, OutputError, ResourceError, RunFailed, SettingsError
from runner.progress import Event, Progress
from runner.run import DISTURBED, Job, Measurement, measure
from runner.settings import SERVER_QUERIES, RunSettings

Verdict = Literal["good", "bad", "unclear"]
OVERHEAD_S = 1.5  # what a probe takes beside its own time: start, load, warm-up
WORTH = 2.5  # short runs are made so much longer than early stopping needs at no late query
CONTRADICTIONS = 2  # rates that were both carried and not carried
LOADGEN_S = 150e-6  # that LoadGen, Python and a queue add to an inference in Server, at the most
ROOMY = 40  # a latency limit of so many inferences leaves room for nearly the whole capacity
LEAST_SHARE = 0.75  # of what the warm-up suggests, where the limit is roomy
# As much where some run was disturbed: an inference of constant length reaches 0.95, and the
# counters see less of what a busy machine does to short sleeps and wake-ups than it costs.
LIKELY_SHARE = 0.88
# A bad run proves nothing if others took more of it: one standstill of 60 ms in 3 s makes 1 % late.
UNPROVED = 0.02


@dataclass(frozen=True)
class Search:
    """How to search.

    Attributes:
        probe_s: least length of a short run.
        tolerance: the search ends when the bad rate is at most this share above the good one.
        margin: how far below the highest good rate the full run goes; for Offline and the
            latency hints, how far on the safe side.
        confirmations: full runs at most; each goes further to the safe side than the last.
        longest: an unclear short run is repeated up to so many times as long.
    """

    probe_s: float = 3.0
    tolerance: float = 0.05
    margin: float = 0.05
    confirmations: int = 5
    longest: int = 4

    def __post_init__(self) -> None:
        if not (self.probe_s > 0 and 0 < self.tolerance < 1 and 0 <= self.margin < 0.5):
            raise SettingsError(
                f"found probes of {self.probe_s} s, tolerance {self.tolerance} and margin "
                f"{self.margin}; expected more than 0 s, a tolerance between 0 and 1 and a margin "
                "from 0 up to 0.5."
            )


@dataclass(frozen=True)
class Probe:
    """One short run.

    `asked`: the rate, or latency hint in ms, it was made with (None: left to the warm-up);
    `value`: the rate or hint that was in effect; `metric`: what the scenario is ranked by;
    `disturbed`: the larger of `Measurement.disturbed` and `disturbance.Ticks.share`.
    """

    number: int
    asked: float | None
    duration_s: float
    verdict: Verdict
    value: float
    metric: float | None = None
    mean_ms: float | None = None
    queries: int = 0
    late: int = 0
    reason: str = ""
    seconds: float = 0.0
    limit_s: float = 0.0
    disturbed: float = 0.0

    @property
    def proves(self) -> bool:
        """Whether the verdict would be the same on a quiet machine.

        Good is good.  A bad run counts if little was taken from it, or if what it answered in a
        second is too little even with twice as much added as was taken.
        """
        if self.verdict == "good" or self.disturbed < UNPROVED:
            return True
        left = 1 - 2 * self.disturbed
        return bool(self.metric) and left > 0 and self.value > (self.metric or 0) / left


@dataclass(frozen=True)
class Found:
    """What the search recommends.

    `key`, `value`: the user.conf setting; `best`: the highest good rate (Server), the rate
    measured (Offline) or the mean latency in ms; `text`: how it was found, in a sentence;
    `disturbed`: the worst of the probes, see `Measurement.disturbed`; `deadline`: when the full runs
    must have ended, by `time.monotonic`.
    """

    key: str
    value: float
    best: float
    probes: int
    text: str
    disturbed: float = 0.0
    deadline: float = field(default=math.inf, compare=False)


class OutOfTime(Exception):
    """The announced time is over."""


Say = Callable[[str], None]


class ProbeLog:
    """The probes of one search, one JSON object a line; reopened, it gives them back in order.

    Args:
        signature: what the probes depend on; a log of another signature is put aside.

    Raises:
        OutputError: the log cannot be written.
    """

    def __init__(self, path: Path, signature: dict[str, Any]) -> None:
        self.path = path
        self.earlier: list[Probe] = []
        self._made = 0
        text = json.dumps(signature, sort_keys=True, default=str)
        head = {"kind": "search", **signature, "key": hashlib.sha256(text.encode()).hexdigest()}
        try:
            lines = self._read()
            if lines and lines[0].get("key") == head["key"] and lines[-1]["kind"] != "confirmed":
                for line in lines[1:]:
                    if line["kind"] == "probe":
                        self.earlier.append(Probe(**line["probe"]))
                    elif line["kind"] == "another way":
                        del self.earlier[line["after"] :]
                return
            if path.exists():
                number = 1
                while (aside := path.with_name(f"{path.stem}.{number}{path.suffix}")).exists():
                    number += 1
                path.replace(aside)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._append(json.loads(json.dumps(head, default=str)))
        except OSError as error:
            raise OutputError(f"{path}: the log of probes cannot be written ({error}).") from error

    def _read(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        found = []
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                break  # the line that was being written when it stopped
        return found

    def _append(self, line: dict[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")

    def again(self, asked: float | None, duration_s: float) -> Probe | None:
        """The probe that was made at this step before; None where it is to be made."""
        if self._made >= len(self.earlier):
            return None
        probe = self.earlier[self._made]
        if probe.asked != asked or probe.duration_s != duration_s:
            del self.earlier[self._made :]
            self.note("another way", after=self._made)
            return None
        self._made += 1
        return probe

    def add(self, probe: Probe) -> None:
        """Write a probe down."""
        self.earlier.append(probe)
        self._made += 1
        self.note("probe", probe=asdict(probe))

    def note(self, kind: str, **content: Any) -> None:
        """Write anything else down."""
        try:
            self._append({"kind": kind, "time": round(time.time(), 3), **content})
        except OSError as error:
            raise OutputError(
                f"{self.path}: the log of probes cannot be written ({error})."
            ) from error


def judge(detail: dict[str, Any], valid: bool, percentile: float) -> tuple[Verdict, str]:
    """Whether a Server run shows that the system carries the rate, with 99% confidence.

    Args:
        detail: keys and values of the run's detail log.
        valid: LoadGen's verdict.
        percentile: the share of queries that must be in time.
    """
    queries, late = int(detail["result_query_count"]), int(detail["result_overlatency_query_count"])
    share = f"{late} of {queries} queries were late"
    if valid:
        return "good", f"{share}: VALID, {CONFIDENCE * 100:.0f}% confidence by early stopping"
    if late and queries and chance_of(late, queries, 1 - percentile) < 1 - CONFIDENCE:
        return "bad", f"{share}, {CONFIDENCE * 100:.0f}% confidence that it is too many"
    return "unclear", f"{share}, too few queries to tell"


def judge_tokens(
    detail: dict[str, Any], valid: bool, percentile: float, settings: RunSettings
) -> tuple[Verdict, str]:
    """As `judge`, where the times to first token and per output token have the limits.

    LoadGen counts no late queries then: with a latency limit of 0 it counts them all.
    """
    queries = int(detail["result_query_count"])
    found, over = [], False
    for name, key, limit in (
        ("TTFT", "result_first_token_99.00_percentile_latency_ns", settings.ttft_ms),
        ("TPOT", "result_time_per_output_token_99.00_percentile_ns", settings.tpot_ms),
    ):
        value = detail.get(key)
        if limit is not None and isinstance(value, (int, float)):
            over = over or value >= limit * 1e6
            found.append(f"{name} {value / 1e6:.4g} of {limit:g} ms")
    text = f"99th percentile of {queries} queries: {', '.join(found)}"
    if valid:
        return "good", f"{text}: VALID, {CONFIDENCE * 100:.0f}% confidence by early stopping"
    # Below the queries that early stopping needs, one late query can make the percentile.
    if over and queries >= total_queries(0, percentile):
        return "bad", f"{text}, too long"
    return "unclear", f"{text}, too few queries to tell"


def chance_of(late: int, queries: int, share: float) -> float:
    """The chance of at least `late` late ones among `queries`, each late with chance `share`."""
    if late <= 0:
        return 1.0
    if late > queries:
        return 0.0
    term = math.exp(
        math.lgamma(queries + 1)
        - math.lgamma(late + 1)
        - math.lgamma(queries - late + 1)
        + late * math.log(share)
        + (queries - late) * math.log1p(-share)
    )
    odds, total = share / (1 - share), 0.0
    if late <= queries * share:
        return 1.0 if late < queries * share - 1 else 0.5
    for count in range(late, queries + 1):
        total += term
        if term < total * 1e-12:
            break
        term *= odds * (queries - count) / (count + 1)
    return min(1.0, total)


class _Quiet:
    """Passes on how a probe goes; what it found is told by the search."""

    def __init__(self, listener: Progress) -> None:
        self._listener = listener
        self.ticks: Ticks | None = None

    def on_event(self, event: Event) -> None:
        if event.phase == "ready" and self.ticks is not None:
            self.ticks.reset()  # loading is not timed
        if event.phase in ("start", "load", "warm-up", "running"):
            self._listener.on_event(event)


class _Prober:
    """Makes short runs, or takes them from the log."""

    def __init__(self, job: Job, runs: Path, log: ProbeLog, progress: Progress, say: Say) -> None:
        self._job, self._runs, self._log = job, runs, log
        self._progress, self._say = _Quiet(progress), say
        self.key = (
            "target_qps" if job.settings.scenario in ("Server", "Offline") else ("target_latency")
        )
        self.count = 0
        self.deadline = math.inf
        self.made: list[Probe] = []

    @property
    def disturbed(self) -> float:
        """The worst of the probes so far."""
        return max((probe.disturbed for probe in self.made), default=0.0)

    def run(self, asked: float | None, duration_s: float, least: int) -> Probe:
        """One short run at this rate (or with this hint).

        Raises:
            OutOfTime: it would end after the deadline.
        """
        probe = self._run(asked, round(duration_s, 3), least)
        self.made.append(probe)
        return probe

    def _run(self, asked: float | None, duration_s: float, least: int) -> Probe:
        self.count += 1
        earlier = self._log.again(asked, duration_s)
        if earlier is not None:
            return earlier
        beside = self.made[-1].seconds - self.made[-1].duration_s if self.made else 0.0
        if time.monotonic() + duration_s + max(0.0, beside) > self.deadline:
            raise OutOfTime
        settings = self._settings(asked, duration_s, least)
        folder = self._runs / f"probe-{self.count}"
        shutil.rmtree(folder, ignore_errors=True)
        began = time.monotonic()
        job = replace(self._job, settings=settings, profile=False)
        with Ticks() as ticks:
            self._progress.ticks = ticks
            try:
                result = measure(job, folder, self._progress)
            except HopelessRun as error:
                for left in self._runs.glob(f"{folder.name}.failed*"):
                    shutil.rmtree(left, ignore_errors=True)
                probe = Probe(
                    number=self.count,
                    asked=asked,
                    duration_s=duration_s,
                    verdict="bad",
                    value=error.values.get(self.key) or asked or 0.0,
                    metric=error.rate,
                    reason=str(error).partition(": ")[2],
                    disturbed=error.disturbed,
                )
            else:
                probe = self._read(result, asked, duration_s)
                shutil.rmtree(folder, ignore_errors=True)
            lost = ticks.share()
        probe = replace(
            probe,
            seconds=round(time.monotonic() - began, 2),
            disturbed=max(probe.disturbed, lost),
        )
        self._log.add(probe)
        return probe

    def _settings(self, asked: float | None, duration_s: float, least: int) -> RunSettings:
        settings = self._job.settings
        kept = [
            line
            for number, line in enumerate(settings.user_conf.splitlines(), 1)
            if number
            not in {
                conf.line
                for conf in settings.conf().settings
                if conf.key in ("min_duration", "min_query_count", self.key)
            }
        ]
        rate = self.key == "target_qps"
        return replace(
            settings,
            user_conf="\n".join(kept),
            least_duration_ms=0,
            min_duration_ms=max(1, round(duration_s * 1000)),
            min_query_count=max(1, least),
            target_qps=asked if rate else None,
            expected_latency_ms=None if rate else asked,
        )

    def _read(self, result: Measurement, asked: float | None, duration_s: float) -> Probe:
        detail = dict(result.detail)
        scenario = self._job.settings.scenario
        verdict: Verdict = "good" if result.valid else "bad"
        reason = "; ".join(result.reasons)
        if scenario == "Server":
            percentile = float(detail["effective_target_latency_percentile"])
            settings = self._job.settings
            if settings.token_latencies:
                verdict, reason = judge_tokens(detail, result.valid, percentile, settings)
                detail["result_overlatency_query_count"] = 0  # see there
            else:
                verdict, reason = judge(detail, result.valid, percentile)
        metric = result.metric
        if scenario == "Offline" and metric is not None:
            # The rate that is searched for; a language benchmark's metric is of tokens.
            metric = float(detail.get("result_samples_per_second") or metric)
        value = (
            float(detail["effective_target_qps"])
            if self.key == "target_qps"
            else float(detail["effective_target_latency_ns"]) / 1e6
        )
        return Probe(
            number=self.count,
            asked=asked,
            duration_s=duration_s,
            verdict=verdict,
            value=value,
            metric=metric,
            mean_ms=float(detail["result_mean_latency_ns"]) / 1e6,
            queries=int(detail.get("result_query_count") or 0),
            late=int(detail.get("result_overlatency_query_count") or 0),
            reason=reason,
            limit_s=_limit_s(self._job.settings, detail) if scenario == "Server" else 0,
            disturbed=result.disturbed,
        )


def _limit_s(settings: RunSettings, detail: dict[str, Any]) -> float:
    """How long a query of Server may wait: for its answer, or for its first token."""
    if settings.token_latencies:
        return (settings.ttft_ms or 0.0) / 1000
    return float(detail["effective_target_latency_ns"]) / 1e9


def find(
    search: Search,
    job: Job,
    runs: Path,
    log: ProbeLog,
    progress: Progress,
    say: Say,
    percentile: float,
    full_s: float = 0.0,
    ends: float = math.inf,
) -> Found:
    """The setting for the full run.

    Args:
        job: of the full run; its rate or hint is what is looked for.
        percentile: Server's share of queries that must be in time.
        say: hears of every step, a line each.
        full_s: least duration of a full run, for the announcement.
        ends: no probe is begun that would end later, by `time.monotonic`.

    Raises:
        SettingsError: the user.conf sets already what is to be found.
        RunFailed: no rate is carried, or the machine was disturbed.
    """
    prober = _Prober(job=job, runs=runs, log=log, progress=progress, say=say)
    prober.deadline = ends
    scenario = job.settings.scenario
    if any(
        c.key == prober.key for c in job.settings.conf().settings if c.scenario in (scenario, "*")
    ):
        raise SettingsError(
            f"found {prober.key} for {scenario} in the user.conf and a search for it; expected "
            "one of them. Delete the line."
        )
    if log.earlier:
        say(f"{len(log.earlier)} probes of an interrupted search are taken from {log.path}")
    try:
        if scenario == "Server":
            found = _server(search, prober, say, percentile, full_s, job)
        elif scenario == "Offline":
            found = _offline(search, prober, say)
        else:
            found = _stream(search, prober, say, scenario)
    except OutOfTime:
        raise RunFailed("the time for the search was over before a rate was found.") from None
    found = replace(found, disturbed=prober.disturbed)
    log.note("found", setting=found.key, value=found.value, best=found.best, text=found.text)
    return found


def probe_once(job: Job, runs: Path, duration_s: float, progress: Progress) -> Probe:
    """One short run with the warm-up's own rate or hint, whatever its verdict is.

    Args:
        runs: a folder to run in.

    Raises:
        RunnerError: there was no run to its end.
    """
    prober = _Prober(
        job=job,
        runs=runs,
        log=ProbeLog(runs / "probes.jsonl", {}),
        progress=progress,
        say=lambda _: None,
    )
    return prober.run(None, duration_s, 1)


def probes_of_server(search: Search) -> tuple[int, int]:
    """How many short runs a search in Server makes: without a repetition, and at the most."""
    return 2 + _bisections(search), _most_probes(search)


def estimate(search: Search, scenario: str, full_s: float) -> tuple[float, float]:
    """Seconds that a search takes, with its full run: at the least, and if all is repeated."""
    step = search.probe_s + OVERHEAD_S
    full = full_s + OVERHEAD_S
    if scenario == "Server":
        most = _most_probes(search) * step + search.confirmations * full
        return (2 + _bisections(search)) * step + full, most
    if scenario == "Offline":
        return 2 * step + full, 6 * step + search.confirmations * full
    return step + full, step + search.confirmations * full


def confirmations(search: Search, found: Found, scenario: str) -> Iterator[float]:
    """The values to make full runs with, one after another until one is VALID."""
    value = found.value
    for number in range(1, search.confirmations + 1):
        yield float(f"{value:.4g}")
        if scenario == "Offline":
            value *= 1.3  # the run was too short
        elif scenario == "Server":
            value *= 1 - max(search.margin, 0.02) * number
        else:
            value *= 0.5  # LoadGen ran out of queries


def _server(
    search: Search, prober: _Prober, say: Say, percentile: float, full_s: float, job: Job
) -> Found:
    needed = math.ceil(WORTH * total_queries(0, percentile))
    least = search.probe_s

    def try_once(rate: float | None) -> Probe:
        seconds = least if rate is None else max(least, needed / rate)
        for factor in _factors(search.longest):
            probe = prober.run(rate, factor * seconds, needed)
            say(_told(probe))
            if probe.verdict != "unclear":
                return probe
        return replace(probe, verdict="bad", reason=f"{probe.reason}, taken for bad")

    def carries(rate: float) -> bool:
        try:
            if try_once(rate).verdict == "good":
                return True
            if try_once(rate).verdict == "bad":
                return False
            found = try_once(rate).verdict == "good"
        except ResourceError as error:
            say(f"{rate:g} queries/s: {error}")
            return False
        refuse_contradictions(prober.made)
        return found

    first = try_once(None)
    # A load that is too high by the tolerance must have the time to make queries late.
    least = max(least, round(first.limit_s / search.tolerance, 3))
    rate = float(f"{first.value:.4g}")
    if "min_query_count" not in job.settings.given():
        full_s = max(full_s, SERVER_QUERIES / rate)
    step = max(least, needed / rate) + max(OVERHEAD_S, 1.5 * (first.seconds - first.duration_s))
    most = _most_probes(search) * step
    prober.deadline = min(prober.deadline, time.monotonic() + most)
    deadline = prober.deadline + search.confirmations * (full_s + step - least)
    say(f"the search takes at most {most + deadline - prober.deadline:,.0f} s with its full runs")
    low: float | None = rate if first.verdict == "good" else None
    high: float | None = None
    late = ""
    try:
        for _ in range(24):
            if low is not None and high is not None:
                break
            rate = float(f"{(low * 2 if low is not None else rate / 2):.4g}")
            if rate < 1e-3:
                break
            if carries(rate):
                low = rate
            else:
                high = rate
        while low is not None and high is not None and high > low * (1 + search.tolerance):
            middle = float(f"{math.sqrt(low * high):.4g}")
            if not low < middle < high:
                break
            if carries(middle):
                low = middle
            else:
                high = middle
    except OutOfTime:
        late = ", when the time announced for the search was over"
    if low is None:
        disturbed = "" if all(probe.proves for probe in prober.made) else "machine disturbed: "
        raise RunFailed(
            f"{disturbed}found no rate that the system carries, down to {rate:g} queries/s{late}"
            f"{_disturbance(prober.disturbed)}; look at the latency limit and at what else runs on "
            "the machine."
        )
    # The first probe's rate is a share of what the warm-up did one by one.
    inference = job.settings.load / first.value
    expected = job.workers / (inference + LOADGEN_S)
    least_share = LIKELY_SHARE if prober.disturbed >= UNPROVED else LEAST_SHARE
    if first.limit_s > ROOMY * inference and low < least_share * expected:
        raise RunFailed(
            f"machine disturbed: found {low:g} queries/s carried; the warm-up suggests about "
            f"{expected:,.4g}{_disturbance(prober.disturbed)}. Search again on a quiet machine, or "
            "give --target-qps."
        )
    value = float(f"{low * (1 - search.margin):.4g}")
    above = f"{high:g} was not carried" if high is not None else "no higher one was tried"
    refused = [p for p in prober.made if p.value == high and p.verdict != "good"]
    if refused and not any(probe.proves for probe in refused):
        raise RunFailed(
            f"machine disturbed: found {low:g} queries/s carried and {above}, but other processes took "
            f"at least {min(p.disturbed for p in refused):.1%} of each of its runs, so the system may "
            "carry more. Search again on a quiet machine, or give --target-qps."
        )
    if late and high is not None and high > 1.1 * low and prober.disturbed >= DISTURBED:
        raise RunFailed(
            f"machine disturbed: found {low:g} queries/s carried and {above}{late}"
            f"{_disturbance(prober.disturbed)}. Search again on a quiet machine, or give --target-qps."
        )
    return Found(
        key="target_qps",
        value=value,
        best=low,
        probes=prober.count,
        text=f"{low:g} queries/s were carried in short runs of {search.probe_s:g} s or more "
        f"({CONFIDENCE * 100:.0f}% confidence by early stopping), {above}{late}; target_qps is "
        f"{search.margin * 100:g}% lower",
        deadline=deadline,
    )


def refuse_contradictions(made: Sequence[Probe]) -> None:
    """Chance gives a wrong verdict once in a hundred times, not again and again.

    Raises:
        RunFailed: rates were both carried and not carried.
    """
    verdicts: dict[float, set[str]] = {}
    for probe in made:
        verdicts.setdefault(probe.value, set()).add(probe.verdict)
    both = sorted(rate for rate, found in verdicts.items() if {"good", "bad"} <= found)
    if len(both) >= CONTRADICTIONS:
        raise RunFailed(
            f"machine disturbed: {' and '.join(f'{rate:g}' for rate in both)} queries/s were carried "
            f"in one short run and not in another{_disturbance(max(p.disturbed for p in made))}. "
            "Search again on a quiet machine, or give --target-qps."
        )


def _disturbance(share: float) -> str:
    """What was measured of it, as a clause; "" where it was little."""
    if share < DISTURBED:
        return ""
    return f", while other processes kept this one waiting for a processor {share:.0%} of the time"


def _most_probes(search: Search) -> int:
    """Short runs of Server, if the bracket is wide and each is made three times."""
    return 8 + 3 * _bisections(search)


def _bisections(search: Search) -> int:
    return math.ceil(math.log2(math.log(2) / math.log(1 + search.tolerance)))


def _factors(longest: int) -> Iterator[int]:
    factor = 1
    while factor <= longest:
        yield factor
        factor *= 2


def _offline(search: Search, prober: _Prober, say: Say) -> Found:
    rates: list[float] = []
    asked: float | None = None
    for number in range(6):
        probe = prober.run(asked, search.probe_s * (1 if number == 0 else 2), 1)
        say(_told(probe))
        if probe.metric:
            rates.append(probe.metric)
            asked = float(f"{1.1 * max(rates[-2:]):.4g}")
        if len(rates) > 1 and abs(rates[-1] - rates[-2]) <= search.tolerance * rates[-1]:
            break
    if not rates:
        raise RunFailed("found no throughput in any short run; see the reasons above.")
    best = max(rates[-2:])
    agreed = len(rates) > 1 and abs(rates[-1] - rates[-2]) <= search.tolerance * rates[-1]
    return Found(
        key="target_qps",
        value=float(f"{best * (1 + search.margin):.4g}"),
        best=best,
        probes=prober.count,
        text=f"{best:g} samples/s in short runs"
        + (
            f", the last two within {search.tolerance * 100:g}%"
            if agreed
            else f", which did not come within {search.tolerance * 100:g}% of each other"
        )
        + f"; target_qps is {search.margin * 100:g}% higher, so that the run lasts",
    )


def _stream(search: Search, prober: _Prober, say: Say, scenario: str) -> Found:
    probe = prober.run(None, search.probe_s, 64)
    say(_told(probe))
    if not probe.mean_ms:
        raise RunFailed(f"found no latency in the short run: {probe.reason}")
    value = float(f"{0.75 * (1 - search.margin) * probe.mean_ms:.4g}")
    return Found(
        key="target_latency",
        value=value,
        best=probe.mean_ms,
        probes=prober.count,
        text=f"a {scenario} query took {probe.mean_ms:.4g} ms in the mean of a short run; the hint is "
        f"{value / probe.mean_ms:.0%} of it, so that LoadGen does not run out of queries",
    )


def _told(probe: Probe) -> str:
    asked = f"{probe.value:g}" if probe.value else "the warm-up's hint"
    length = f"{probe.duration_s:g} s"
    return f"probe {probe.number}, {asked} for {length}: {probe.verdict}; {probe.reason or 'VALID'}"
