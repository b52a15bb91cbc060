"""A submission as rules see it: parsed, joined with its round's data, never judged.

Every class has ``path`` (where it is, relative to the tree), ``division`` and ``subject``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from checker.parse.accuracy_log import LogEnds
from checker.parse.accuracy_txt import AccuracyText
from checker.parse.detail import DetailLog
from checker.parse.documents import Document
from checker.parse.power import seconds_of
from checker.parse.reading import Fault, File, Folder
from checker.parse.summary import SummaryLog
from checker.parse.user_conf import Conf
from checker.parse.verify import Verification
from schemas.report import Subject
from schemas.round import Benchmark, Category, Gate, Round, Scenario

if TYPE_CHECKING:
    from checker.compliance.answers import Comparison
    from checker.compliance.evidence import Evidence, Test
    from checker.compliance.performance import Comparison as Speed
    from checker.compliance.tokens import Tokens
    from checker.parse.endpoints import Endpoints
    from checker.parse.power import PowerLogs

SCENARIOS = ("SingleStream", "MultiStream", "Server", "Offline", "Interactive")
DIVISIONS = ("closed", "open", "network")


class Tree(msgspec.Struct):
    """The whole listing. scope says what TREE is: tree, submitter, system, benchmark, result, run."""

    root: Folder
    scope: str
    submitters: list[Submitter] = []
    stray_divisions: list[str] = []
    path: str = "."
    division: str | None = None
    complete: bool = True

    @property
    def subject(self) -> Subject:
        """Everything."""
        return Subject()

    @property
    def results(self) -> tuple[str, ...]:
        """The keys of all results."""
        return tuple(key for submitter in self.submitters for key in submitter.results)


class Submitter(msgspec.Struct):
    """One submitter in one division.

    copies: (system, document) of system descriptions that also lie among the results. walked: see
    `entries`.
    """

    division: str
    name: str
    path: str
    folder: Folder
    round: Round
    systems: list[System] = []
    benchmarks: list[BenchmarkFolder] = []
    result_systems: list[str] = []
    mapping: Document | None = None
    copies: list[tuple[str, Document]] = []
    complete: bool = True
    walked: list[tuple[str, str, File | Folder]] | None = None

    @property
    def subject(self) -> Subject:
        """All of this submitter's results in this division."""
        return Subject(self.division, self.name)

    @property
    def entries(self) -> Iterable[tuple[str, str, File | Folder]]:
        """(path, name, entry) of everything below the folder. Walked once for a dozen rules, but each
        time where folders are packed: a list of all their entries would undo that."""
        if self.walked is not None:
            return self.walked
        if self.folder.holds_packed:
            return self._entries()
        self.walked = list(self._entries())
        return self.walked

    def _entries(self) -> Iterator[tuple[str, str, File | Folder]]:
        for here in self.folder.walk():
            for part in (here.folders, here.files):
                for name, entry in part.items():
                    if entry.path:
                        yield entry.path, name, entry

    @property
    def results(self) -> tuple[str, ...]:
        """The keys of this submitter's results in this division."""
        return tuple(key for group in self.benchmarks for key in group.results)


class System(msgspec.Struct):
    """One system: its description (``document`` is None when there is no such file).

    meant: where a system with results has no description, that of another name that is probably its.
    """

    division: str
    submitter: str
    name: str
    path: str
    document: Document | None = None
    has_results: bool = False
    power_document: File | None = None
    result_copies: list[Document] = []
    complete: bool = True
    results: tuple[str, ...] = ()
    meant: str | None = None

    @property
    def subject(self) -> Subject:
        """All results of this system."""
        return Subject(self.division, self.submitter, self.name)

    @property
    def fields(self) -> dict[str, Any]:
        """The description's top-level object, {} when it has none."""
        return self.document.fields if self.document is not None else {}

    @property
    def category(self) -> str | None:
        """``datacenter``, ``edge`` or ``datacenter,edge``, as the description says; None if not."""
        value = self.fields.get("system_type")
        if not isinstance(value, str):
            return None
        parts = {p.strip().lower() for p in value.split(",")}
        if not parts or not parts <= {"datacenter", "edge"}:
            return None
        return ",".join(sorted(parts))

    @property
    def is_network(self) -> bool | None:
        """``is_network`` as a boolean (text counts); None when absent or unreadable."""
        value = self.fields.get("is_network")
        if isinstance(value, bool):
            return value
        if isinstance(value, str):
            return {"true": True, "yes": True, "false": False, "no": False, "": False}.get(
                value.strip().lower()
            )
        return None


class BenchmarkFolder(msgspec.Struct):
    """One ``results/<system>/<benchmark>`` folder: which scenarios are there.

    twins: the other folders of the system that mean the same benchmark. keys: the key of each
    result by the name of its scenario's folder.
    """

    division: str
    submitter: str
    system: str
    directory: str
    path: str
    name: str | None
    benchmark: Benchmark | None
    category: str | None
    scenarios: dict[str, str] = {}
    unknown_scenarios: list[str] = []
    folder: Folder | None = None
    twins: list[str] = []
    keys: dict[str, str] = {}
    complete: bool = True

    @property
    def subject(self) -> Subject:
        """All scenarios of this benchmark."""
        return Subject(self.division, self.submitter, self.system, self.name or self.directory)

    @property
    def results(self) -> tuple[str, ...]:
        """The keys of the results in this folder."""
        return tuple(self.keys.values())

    @property
    def demands(self) -> Category | None:
        """Which scenarios the round asks for here; None when the benchmark has no such category."""
        return demands_of(self.benchmark, self.category)


def demands_of(benchmark: Benchmark | None, category: str | None) -> Category | None:
    """The scenarios a benchmark needs in a category; rounds without categories use ``none``."""
    if benchmark is None:
        return None
    if "none" in benchmark.categories:
        return benchmark.categories["none"]
    return benchmark.categories.get(category) if category else None


class Run(msgspec.Struct):
    """One LoadGen run's folder: ``detail`` is falsy when it could not be read (see its faults)."""

    result: Result
    kind: str
    path: str
    folder: Folder | None
    detail: DetailLog | None = None
    summary: SummaryLog | None = None

    @property
    def division(self) -> str:
        """The division of the result."""
        return self.result.division

    @property
    def subject(self) -> Subject:
        """The result this run belongs to."""
        return self.result.subject

    @property
    def results(self) -> tuple[str, ...]:
        """The key of the result."""
        return (self.result.key,)

    @property
    def detail_path(self) -> str:
        """Where the detail log is or should be."""
        return self.detail.path if self.detail is not None else f"{self.path}/mlperf_log_detail.txt"

    @property
    def summary_path(self) -> str:
        """Where the summary log is or should be."""
        return (
            self.summary.path if self.summary is not None else f"{self.path}/mlperf_log_summary.txt"
        )

    @property
    def scenario(self) -> str | None:
        """The scenario that LoadGen logged."""
        return self.detail.text("effective_scenario") if self.detail is not None else None

    @property
    def mode(self) -> str | None:
        """The test mode that LoadGen logged."""
        return self.detail.text("effective_test_mode") if self.detail is not None else None

    @property
    def loadgen_version(self) -> str | None:
        """LoadGen's version without its commit, e.g. ``5.0.25``; ``.5a1`` is 0.5a1."""
        text = self.detail.text("loadgen_version") if self.detail is not None else None
        if text is None:
            return None
        version = text.split("@")[0].strip()
        return f"0{version}" if version.startswith(".") else version

    @property
    def lasted(self) -> float | None:
        """Seconds between LoadGen's power_begin and power_end; None when either is missing."""
        if self.detail is None:
            return None
        begin, end = self.detail.text("power_begin"), self.detail.text("power_end")
        first = seconds_of(begin) if begin is not None else None
        last = seconds_of(end) if end is not None else None
        return last - first if first is not None and last is not None else None

    @property
    def limits(self) -> Scenario | None:
        """The round's limits for what was run: the folder's scenario, or where the result is
        inferred the scenario it is inferred from."""
        inferred = self.result.inferred_from
        return self.result.rules_of(inferred) if inferred else self.result.rules

    def faults(self) -> Iterator[Fault]:
        """Every problem met while reading this run's files."""
        if self.detail is not None:
            yield from self.detail.faults
        if self.summary is not None:
            yield from self.summary.faults


class PerformanceRun(Run):
    """A performance run; ``index`` is N of run_N."""

    index: int = 1
    power: PowerLogs | None = None

    @property
    def logged_answers(self) -> File | None:
        """The accuracy log beside the performance run, which few rounds require."""
        return self.folder.files.get("mlperf_log_accuracy.json") if self.folder else None


class RangingRun(Run):
    """The run before a power measurement that finds the analyzer's ranges; nothing is published of
    it."""

    power: PowerLogs | None = None


class Recomputed(msgspec.Struct, frozen=True):
    """Accuracy computed again from the accuracy log and ground truth that was given.

    scores: by the round's metric names; problem: why there are none; notes: what a reader should
    know (a truncated log, a whole one taken from elsewhere); log: the file that was read.
    """

    scores: dict[str, float]
    problem: str | None = None
    notes: tuple[str, ...] = ()
    log: str | None = None
    hash_agrees: bool | None = None


class AccuracyRun(Run):
    """The accuracy run: LoadGen logs, the accuracy log (``log_file``), accuracy.txt (``text``)."""

    log_file: File | None = None
    log_ends: LogEnds | None = None
    text: AccuracyText | None = None
    text_path: str = ""
    recomputed: Recomputed | None = None

    def faults(self) -> Iterator[Fault]:
        """Every problem met while reading this run's files."""
        yield from Run.faults(self)
        if self.text is not None:
            yield from self.text.faults
        if self.log_ends is not None and self.log_file is not None:
            yield from self.log_ends.damage(self.log_file.path)


class ComplianceRun(Run):
    """The performance run of one compliance test."""

    test: str = ""

    @property
    def is_full_run(self) -> bool | None:
        """Whether the run is held to the rules of a submitted one; None: the round has no such
        test."""
        kind = _test_of(self.test, self.result.round)
        return None if kind is None else kind.full_run or None

    @property
    def evidence(self) -> Evidence | None:
        """What the test is judged by; None: the round has no such test."""
        test = self.result.tests.get(self.test)
        return test.evidence if test is not None else None


PoweredRun = PerformanceRun | RangingRun
MeasuredRun = PerformanceRun | ComplianceRun
LoggedRun = PerformanceRun | ComplianceRun | AccuracyRun
"""What rules about several kinds of run take."""


def _test_of(name: str, round: Round) -> Test | None:
    from checker.compliance.tests import TESTS

    return TESTS.get(name) if name in round.compliance else None


class ComplianceTest(msgspec.Struct):
    """One compliance test's folder.

    answers: TEST01's and TEST08's answers against the accuracy run's; tokens: what the answers of
    TEST06, TEST07 and TEST09 say; None where the logs are absent or too large for a check.
    """

    result: Result
    name: str
    path: str
    folder: Folder
    run: ComplianceRun | None = None
    accuracy_log: File | None = None
    log_ends: LogEnds | None = None
    verifications: dict[str, Verification] = {}
    baseline: AccuracyText | None = None
    compliance: AccuracyText | None = None
    answers: Comparison | None = None
    tokens: Tokens | None = None
    answer_faults: list[Fault] = []

    @property
    def is_known(self) -> bool | None:
        """Whether the round has such a test (None: no)."""
        return self.name in self.result.round.compliance or None

    @property
    def is_required(self) -> bool | None:
        """Whether the round requires it for this benchmark and scenario (None: no)."""
        limits = self.result.rules
        return (self.is_known and limits is not None and self.name in limits.compliance) or None

    @property
    def has_speed(self) -> bool:
        """Whether its speed is compared with the submitted run's."""
        kind = _test_of(self.name, self.result.round)
        return kind is not None and kind.speed

    @property
    def evidence(self) -> Evidence | None:
        """What the test is judged by; None: the round has no such test."""
        from checker.compliance.evidence import Evidence

        if not self.is_known:
            return None
        run = self.run
        return Evidence(
            test=self.name,
            round=self.result.round,
            benchmark=self.result.name,
            scenario=self.result.scenario,
            detail=run.detail if run is not None else None,
            answers=self.answers,
            tokens=self.tokens,
            baseline=self.baseline,
            compliance=self.compliance,
        )

    def _text(self, name: str | None) -> Verification | None:
        text = self.verifications.get(name or "")
        return text if text is not None and text.text.strip() else None

    @property
    def verdict_text(self) -> Verification | None:
        """The verification text that carries the verdict; None where it is absent or blank."""
        kind = _test_of(self.name, self.result.round)
        return self._text(kind.text) if kind is not None else None

    @property
    def accuracy_text(self) -> Verification | None:
        """verify_accuracy.txt; None where it is absent or blank."""
        return self._text("verify_accuracy.txt")

    @property
    def performance_text(self) -> Verification | None:
        """verify_performance.txt; None where it is absent or blank."""
        return self._text("verify_performance.txt")

    @property
    def length_text(self) -> Verification | None:
        """verify_output_len.txt; None where it is absent or blank."""
        return self._text("verify_output_len.txt")

    @property
    def partner(self) -> ComplianceRun | None:
        """The run of TEST04-B, for TEST04-A."""
        other = self.result.tests.get("TEST04-B")
        return other.run if self.name == "TEST04-A" and other is not None else None

    @property
    def speed(self) -> Speed | None:
        """The test's run against the submitted one; TEST04-B's against TEST04-A's."""
        from checker.compliance import performance

        main: Run | None = self.result.performance
        tested: Run | None = self.run
        if self.name == "TEST04-A":
            main, tested = self.run, self.partner
        if not self.has_speed or main is None or tested is None or main.scenario != tested.scenario:
            return None
        return performance.of_test(
            self.result.round, self.name, main.scenario, main.detail, tested.detail
        )

    @property
    def compared_path(self) -> str:
        """The log whose speed is judged."""
        run = self.partner or self.run
        return run.detail_path if run is not None else self.path

    @property
    def log_path(self) -> str:
        """Where the test's accuracy log is, or else its folder."""
        return self.accuracy_log.path if self.accuracy_log is not None else self.path

    @property
    def answers_held(self) -> int | None:
        """How many answers the test's log holds; None where it was cut or not read."""
        if self.answers is not None:
            return None if self.answers.test_truncated else self.answers.test_records
        if self.tokens is not None:
            return None if self.tokens.truncated else self.tokens.records
        return None

    @property
    def division(self) -> str:
        """The division of the result."""
        return self.result.division

    @property
    def subject(self) -> Subject:
        """The result this test belongs to."""
        return self.result.subject

    @property
    def results(self) -> tuple[str, ...]:
        """The key of the result."""
        return (self.result.key,)

    def faults(self) -> Iterator[Fault]:
        """Every problem met while reading this test's files."""
        if self.run is not None:
            yield from self.run.faults()
        for verification in self.verifications.values():
            yield from verification.faults
        for text in (self.baseline, self.compliance):
            if text is not None:
                yield from text.faults
        yield from self.answer_faults
        if self.log_ends is not None and self.accuracy_log is not None:
            yield from self.log_ends.damage(self.accuracy_log.path)


class Result(msgspec.Struct, eq=False):
    """One result: system x benchmark x scenario, with everything that was submitted for it.

    name: the round's benchmark name (None: the folder's name means no benchmark of the round);
    scenario: the canonical name of the folder's scenario (None: unknown). key: what findings call
    it.
    """

    division: str
    submitter: str
    system: System
    directory: str
    scenario_folder: str
    path: str
    round: Round
    name: str | None
    benchmark: Benchmark | None
    scenario: str | None
    folder: Folder
    key: str
    scope: str = "tree"
    runs: list[PerformanceRun] = []
    extra_runs: list[str] = []
    accuracy: AccuracyRun | None = None
    measurement_path: str = ""
    measurement_folder: Folder | None = None
    measurement_expected: str = ""
    measurements: Document | None = None
    user_conf: Conf | None = None
    mlperf_conf: Conf | None = None
    compliance_path: str | None = None
    compliance_folder: Folder | None = None
    tests: dict[str, ComplianceTest] = {}
    power_folder: Folder | None = None
    ranging: RangingRun | None = None
    endpoints: Endpoints | None = None

    @property
    def subject(self) -> Subject:
        """This result."""
        return Subject(
            division=self.division,
            submitter=self.submitter,
            system=self.system.name,
            benchmark=self.name or self.directory,
            scenario=self.scenario or self.scenario_folder,
        )

    @property
    def results(self) -> tuple[str, ...]:
        """The key, as a run or a system gives those it concerns."""
        return (self.key,)

    @property
    def performance(self) -> PerformanceRun | None:
        """The run that gives the result: run_1, or the first there is."""
        return self.runs[0] if self.runs else None

    @property
    def complete(self) -> bool:
        """Whether what belongs beside the runs was in what was given to be checked."""
        return self.scope != "run"

    @property
    def uses_loadgen(self) -> bool:
        """Whether the result was measured with LoadGen, not through endpoints."""
        return self.endpoints is None

    @property
    def surrounded(self) -> bool:
        """Whether the submitter's other folders were in what was given to be checked."""
        return self.scope in ("tree", "division", "submitter")

    @property
    def category(self) -> str | None:
        """The system's category."""
        return self.system.category

    def rules_of(self, scenario: str | None) -> Scenario | None:
        """The round's limits of this benchmark in any scenario."""
        if self.benchmark is None or scenario is None:
            return None
        return self.benchmark.scenarios.get(scenario)

    @property
    def rules(self) -> Scenario | None:
        """The round's limits of this benchmark in the scenario that the folder claims."""
        return self.rules_of(self.scenario)

    @property
    def loadgen_scenario(self) -> str | None:
        """The scenario a LoadGen log of this folder has when nothing is inferred."""
        rules = self.rules
        if rules is not None and rules.loadgen_scenario:
            return rules.loadgen_scenario
        return "Server" if self.scenario == "Interactive" else self.scenario

    @property
    def inferred_from(self) -> str | None:
        """The scenario that was really run, where it is not the folder's; else None."""
        run = self.performance
        ran = run.scenario if run is not None else None
        if ran is None or self.scenario is None or ran in (self.scenario, self.loadgen_scenario):
            return None
        return ran

    @property
    def gates(self) -> list[Gate]:
        """The lower accuracy bounds of this benchmark in this scenario."""
        if self.benchmark is None:
            return []
        return self.benchmark.accuracy_by_scenario.get(self.scenario or "", self.benchmark.accuracy)

    @property
    def limits(self) -> list[Gate]:
        """The upper accuracy bounds of this benchmark."""
        return [] if self.benchmark is None else self.benchmark.accuracy_limits

    def faults(self) -> Iterator[Fault]:
        """Problems met while reading the result's own documents (its runs' are theirs)."""
        for document in (self.measurements, self.user_conf, self.mlperf_conf):
            if document is not None:
                yield from document.faults
        yield from self.folder.faults
