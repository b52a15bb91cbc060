"""Which batch, how many threads and how many streams?  Short runs of every combination, and the best.

Offline: short runs in turns, one of each combination before the second of any, so that a machine that
becomes slower is slower for all; the median counts, and half the range is the noise.  Server: one search
a combination for the highest rate that meets the latency limit (`runner.search`), within its tolerance.

A combination that fails is a row with its reason.  The best is the highest rate; of those that are
within noise of it, the smallest setting.
"""

from __future__ import annotations

import itertools
import math
import shutil
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from runner.backends import preflight
from runner.errors import RunFailed, RunnerError, SettingsError
from runner.plan import Plan, plan_of
from runner.preparing import backend_options, fitted, job_of, made_with, verify_streaming
from runner.progress import Progress, Silent
from runner.run import DISTURBED
from runner.search import OVERHEAD_S, ProbeLog, Search, find, probe_once, probes_of_server
from schemas.run_file import BadRunFile, RunFile, with_options
from schemas.scratch import scratch_folder

SCENARIOS = ("Offline", "Server")
UNKNOWN_NOISE = 0.05  # of a single run: what a quiet machine shows from one to the next
TOLERANCE = 0.1  # of a Server search
SLOWER = 3  # than foreseen a short run may be: large models load slowly, and machines are shared
NO_TIME = "the time was over"


@dataclass(frozen=True, kw_only=True, order=True)
class Setting:
    """One combination; None: not varied.  Smaller settings sort first."""

    batch: int | None = None
    threads: int | None = None
    streams: int | None = None

    @property
    def size(self) -> tuple[int, int, int]:
        """What it takes of a machine: threads in all, samples in work, streams."""
        threads, streams, batch = self.threads or 1, self.streams or 1, self.batch or 1
        return threads * streams, batch * streams, streams

    @property
    def shared(self) -> tuple[int | None, int | None]:
        """What one run file says for all its scenarios; the batch is a setting of each."""
        return self.threads, self.streams

    def __str__(self) -> str:
        named = {k: v for k, v in asdict(self).items() if v is not None}
        return ", ".join(f"{name} {value}" for name, value in named.items())


@dataclass(kw_only=True)
class Row:
    """What was measured of one combination in one scenario.

    Attributes:
        rates: samples (Offline) or queries (Server) a second, a value for each short run or search.
        tolerance: within which a search finds a rate; 0 for runs.
        disturbed: the worst of them, see `runner.run.Measurement`.
        reason: why there are none, or fewer than wanted; "" otherwise.
    """

    scenario: str
    setting: Setting
    rates: list[float] = field(default_factory=list)
    tolerance: float = 0.0
    disturbed: float = 0.0
    reason: str = ""

    @property
    def rate(self) -> float | None:
        """The median; None where nothing was measured."""
        return statistics.median(self.rates) if self.rates else None

    @property
    def noise(self) -> float:
        """Within which the rate is known, in its unit: half the range, at least the tolerance."""
        if not self.rates:
            return math.inf
        if len(self.rates) == 1:
            return self.rates[0] * (self.tolerance or UNKNOWN_NOISE)
        spread = (max(self.rates) - min(self.rates)) / 2
        return max(spread, self.tolerance * statistics.median(self.rates))


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """What to sweep, and how.

    Attributes:
        run_file: everything that is not varied.
        settings: the combinations.
        scenarios: some of `SCENARIOS`.
        probe_s: least length of a short run; `repeats`: short runs of each combination in Offline.
        limit_s: when no further short run is begun; None: what is foreseen at the most.
    """

    run_file: RunFile
    settings: tuple[Setting, ...]
    scenarios: tuple[str, ...] = ("Offline",)
    probe_s: float = 2.0
    repeats: int = 3
    limit_s: float | None = None

    def __post_init__(self) -> None:
        unknown = [s for s in self.scenarios if s not in SCENARIOS]
        if unknown or not self.scenarios:
            raise SettingsError(
                f"found scenario {', '.join(unknown) or 'none'}; a sweep measures "
                f"{' and '.join(SCENARIOS)}."
            )
        if not self.settings or self.settings == (Setting(),):
            raise SettingsError("found nothing to vary; give --batch, --threads or --streams.")

    @property
    def search(self) -> Search:
        """How Server's rates are searched for."""
        return Search(probe_s=self.probe_s, tolerance=TOLERANCE, longest=1)

    def foresee(self) -> tuple[float, float]:
        """Seconds that the whole takes: on a machine that loads the model at once, and at the most."""
        step = self.probe_s + OVERHEAD_S
        least = most = 0.0
        if "Offline" in self.scenarios:
            least += len(self.settings) * self.repeats * step
            most += SLOWER * len(self.settings) * self.repeats * step
        if "Server" in self.scenarios:
            few, many = probes_of_server(self.search)
            least += len(self.settings) * few * step
            most += len(self.settings) * many * step
        return least, most if self.limit_s is None else self.limit_s


def combinations(
    batches: Sequence[int], threads: Sequence[int], streams: Sequence[int]
) -> tuple[Setting, ...]:
    """Every combination once, the smallest first; an empty list: not varied."""
    lists: list[list[int | None]] = [[*values] or [None] for values in (batches, threads, streams)]
    found = {Setting(batch=b, threads=t, streams=s) for b, t, s in itertools.product(*lists)}
    return tuple(sorted(found, key=lambda setting: setting.size))


def with_setting(
    run_file: RunFile, setting: Setting, *, batch: bool = True, max_batch: bool = True
) -> RunFile:
    """The run file with these values; `batch` and `max_batch` say for which scenarios the batch is.

    Raises:
        SettingsError: a value cannot be.
    """
    options: dict[str, Any] = {}
    if setting.batch is not None:
        options |= {"batch": setting.batch} if batch else {}
        options |= {"max_batch": setting.batch} if max_batch else {}
    if setting.threads is not None:
        options["threads"] = setting.threads
    if setting.streams is not None:
        if run_file.execution.backend == "tensorrt":
            own = {**run_file.execution.backend_options, "streams": setting.streams}
            options["backend_options"] = own
        else:
            options["workers"] = setting.streams
    try:
        return with_options(run_file, options)
    except BadRunFile as error:
        raise SettingsError(str(error)) from error


def prepare(sweep: Sweep) -> None:
    """See that what every combination needs is there.

    Raises:
        SettingsError, BackendError, DatasetError: nothing can be measured.
    """
    plan = _plan(sweep.run_file, Path("tree"))
    benchmark = fitted(plan)
    made_with(plan, benchmark)
    verify_streaming(plan, benchmark)
    preflight(plan.execution.backend, backend_options(plan, benchmark))
    benchmark.make_dataset(plan.inputs.data)


def _plan(run_file: RunFile, tree: Path) -> Plan:
    try:
        return plan_of(with_options(run_file, {"out": str(tree)}))
    except BadRunFile as error:
        raise SettingsError(str(error)) from error


def rows_of(sweep: Sweep) -> dict[str, list[Row]]:
    """A row for each combination, by scenario, with nothing measured yet."""
    return {
        scenario: [Row(scenario=scenario, setting=setting) for setting in sweep.settings]
        for scenario in SCENARIOS
        if scenario in sweep.scenarios
    }


def measure_rows(
    sweep: Sweep, rows: dict[str, list[Row]], progress: Progress | None = None
) -> Iterator[Row]:
    """Fill the rows; yields each as something was added to it.

    Raises:
        OutputError: the disk is full.
        Interrupted: Ctrl-C; the rows hold what was measured.
    """
    listener = progress or Silent()
    deadline = time.monotonic() + sweep.foresee()[1]
    with scratch_folder("assay-sweep-") as folder:
        for _ in range(sweep.repeats):
            for row in rows.get("Offline", ()):
                if row.reason:
                    continue
                _fill(row, sweep, folder, deadline, listener)
                yield row
        for row in rows.get("Server", ()):
            _fill(row, sweep, folder, deadline, listener)
            yield row


def _fill(row: Row, sweep: Sweep, folder: Path, deadline: float, listener: Progress) -> None:
    """One short run, or one search, of a combination."""
    if time.monotonic() + sweep.probe_s > deadline:
        row.reason = NO_TIME
        return
    try:
        plan = _plan(with_setting(sweep.run_file, row.setting), folder / "tree")
        job = job_of(plan, fitted(plan), row.scenario, "performance")
        runs = folder / "runs"
        shutil.rmtree(runs, ignore_errors=True)
        runs.mkdir()
        if row.scenario == "Server":
            log = ProbeLog(runs / "probes.jsonl", {})
            found = find(
                sweep.search, job, runs, log, listener, lambda _: None, 0.99,
                ends=deadline,
            )  # fmt: skip
            row.rates.append(found.best)
            row.tolerance = TOLERANCE
            row.disturbed = max(row.disturbed, found.disturbed)
        else:
            # However long it lasts: a rate is wanted, not a VALID run.
            whole = replace(job, early_stop=False)
            probe = probe_once(whole, runs, sweep.probe_s, listener)
            if not probe.metric:
                raise RunFailed(probe.reason or "no sample was answered")
            row.rates.append(probe.metric)
            row.disturbed = max(row.disturbed, probe.disturbed)
    except RunnerError as error:
        row.reason = _short(str(error))


def _short(reason: str) -> str:
    """Without the name of the run in front: the row says which it is."""
    _, between, rest = reason.partition(" performance run: ")
    # A short run leaves no files, so there are no stacks to be read.
    return (rest if between else reason).partition(" The stacks of all threads")[0]


def best_of(rows: Iterable[Row]) -> tuple[Row | None, list[Row]]:
    """The best row, and those that are within noise of the highest rate, it among them.

    The highest rate is the one that is highest less its noise, and a row's own noise excuses no more
    than a quiet machine shows: one disturbed run must not make every setting as good as the best.
    """
    measured = [row for row in rows if row.rates]
    if not measured:
        return None, []
    top = max(measured, key=lambda row: (row.rate or 0.0) - row.noise)

    def nears(row: Row) -> bool:
        rate = row.rate or 0.0
        return rate >= (top.rate or 0.0) - max(top.noise, min(row.noise, UNKNOWN_NOISE * rate))

    near = [row for row in measured if nears(row)]
    return min(near, key=lambda row: row.setting.size), near


def choose(rows: dict[str, list[Row]]) -> dict[str, Row]:
    """The best row of each scenario, all with the same threads and streams.

    Of several scenarios those threads and streams are taken whose best rows come nearest to each
    scenario's own best, in the geometric mean.
    """
    alone = {scenario: best_of(of)[0] for scenario, of in rows.items()}
    known = {scenario: row for scenario, row in alone.items() if row is not None}
    if len({row.setting.shared for row in known.values()}) <= 1:
        return known
    candidates = []
    for shared in {row.setting.shared for scenario in known for row in rows[scenario] if row.rates}:
        chosen = {
            s: best_of(row for row in rows[s] if row.setting.shared == shared)[0] for s in known
        }
        found = {s: row for s, row in chosen.items() if row is not None}
        if len(found) == len(known):
            shares = [(row.rate or 0.0) / (known[s].rate or 1.0) for s, row in found.items()]
            size = max(row.setting.size for row in found.values())
            candidates.append((-round(statistics.geometric_mean(shares), 2), size, found))
    return min(candidates, key=lambda each: each[:2])[2] if candidates else known


def best_run_file(sweep: Sweep, chosen: dict[str, Row]) -> RunFile:
    """The run file of the best setting, for the scenarios that were swept."""
    run_file = sweep.run_file
    for scenario, row in chosen.items():
        run_file = with_setting(
            run_file, row.setting, batch=scenario == "Offline", max_batch=scenario == "Server"
        )
    return with_options(run_file, {"scenarios": [s for s in SCENARIOS if s in sweep.scenarios]})


def disturbance(rows: dict[str, list[Row]]) -> float:
    """The worst of all rows; 0 where it was little."""
    worst = max((row.disturbed for of in rows.values() for row in of), default=0.0)
    return worst if worst >= DISTURBED else 0.0
