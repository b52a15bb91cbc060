"""The test's LoadGen run: valid, whole, and a run of its own."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from checker.compliance.evidence import Evidence
from checker.model import ComplianceRun, PerformanceRun, Result, Run
from checker.parse.detail import DetailLog
from checker.rule import ERROR, NOTE, WARNING, Problem, Problems, rule
from checker.rules.comparing import UNCOMMITTED, at, seed_problems
from checker.rules.compliance.scope import JUDGED, has_tests
from checker.wording import number
from schemas.round import Benchmark, Round, Scenario, Seeds

_IDENTITY = (
    "result_mean_latency_ns",
    "result_max_latency_ns",
    "result_min_latency_ns",
    "result_query_count",
)


_CONF_FILES = "Multiple conf files are used"
"""What LoadGen says when audit.config is read on top of mlperf.conf: so a test is run."""


_OTHER = {"other test": WARNING}
"""No round looked at the performance logs of the tests that are judged by their answers."""


def _case(run: ComplianceRun) -> str | None:
    return None if run.is_full_run else "other test"


@rule("C116", ERROR, divisions=JUDGED, when=has_tests, needs="is_full_run")
def test_run_valid(run: ComplianceRun, round: Round, detail: DetailLog) -> Problems:
    """LoadGen called the test's performance run VALID.

    Why: TEST01, TEST04 and TEST05 are held to what holds for the submitted run.
    Fix: follow the recommendations at the end of mlperf_log_summary.txt and run the test again.
    Source: submission_rules.adoc, "Compliance testing": the performance run is a valid one.
    """
    validity = detail.text("result_validity")
    if validity != "VALID":
        text = f"found {validity or 'no result_validity'} for the run of {run.test}; expected VALID"
        yield at(run, "result_validity", text, validity, "VALID")


@rule("C117", ERROR, divisions=JUDGED, when=has_tests, cases=_OTHER)
def test_run_without_errors(run: ComplianceRun, round: Round, detail: DetailLog) -> Problems:
    """LoadGen recorded no error in the test's run.

    Why: an error record means that LoadGen could not run the test as it was set up.
    Fix: read the error's text in the log, fix its cause and run the test again.
    Source: inference_rules.adoc, "LoadGen"; the log's records with is_error.
    """
    waived = (UNCOMMITTED, _CONF_FILES, *round.loadgen.ignored_errors)
    errors = [
        entry
        for entry in detail.errors
        if entry.key != "error_uncommitted_loadgen_changes"
        and not any(part in str(entry.value) for part in waived)
    ]
    if errors:
        # LoadGen counts more than the log keeps; where all are kept, those waived do not count.
        count = max(len(errors), detail.error_count - (len(detail.errors) - len(errors)))
        text = str(errors[0].value)[:300]
        many = f"{count:,} error records" if count > 1 else "1 error record"
        yield Problem(
            f"found {many} of LoadGen in {run.test}; expected none. The first is {errors[0].key}: {text}",
            found=text,
            required="no error record",
            path=run.detail_path,
            line=errors[0].line,
            case=_case(run),
            count=count,
        )


@rule("C118", ERROR, divisions=JUDGED, when=has_tests, cases=_OTHER)
def test_run_mode(run: ComplianceRun, round: Round, detail: DetailLog, mode: str) -> Problems:
    """The test was run in performance mode.

    Why: the tests ask what the system does while it is measured.
    Fix: run the test with TestMode.PerformanceOnly (audit.config sets it).
    Source: compliance tests: mode = 2 in audit.config.
    """
    if mode != "PerformanceOnly":
        text = f"found test mode {mode} in {run.test}; expected PerformanceOnly"
        yield at(run, "effective_test_mode", text, mode, "PerformanceOnly", case=_case(run))


@rule("C119", ERROR, divisions=JUDGED, when=has_tests, cases=_OTHER)
def test_run_seeds(
    run: ComplianceRun, round: Round, detail: DetailLog, evidence: Evidence
) -> Problems:
    """The test's run used the round's seeds; TEST05 used TEST05's.

    Why: TEST05 asks whether other seeds give another speed; all other tests issue the round's.
    Fix: use the round's LoadGen, and for TEST05 its audit.config, and run the test again.
    Source: inference_rules.adoc, "LoadGen"; compliance test TEST05: alternate seeds.
    """
    if run.test != "TEST05":
        for problem in seed_problems(run, round, detail):
            yield msgspec.structs.replace(problem, case=_case(run))
    elif round.test05_seeds is not None:
        yield from _test05_seeds(run, round, round.test05_seeds, detail)


def _test05_seeds(run: ComplianceRun, round: Round, seeds: Seeds, detail: DetailLog) -> Problems:
    for key in ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed"):
        required, value = getattr(seeds, key), detail.integer(f"effective_{key}")
        if value is None or str(value) == required:
            continue
        usual = ", the round's ordinary seed" if str(value) == getattr(round.seeds, key) else ""
        text = f"found {key} {value}{usual}; expected {required}, TEST05's own"
        yield at(run, f"effective_{key}", text, str(value), required)


@rule(
    "C120",
    ERROR,
    divisions=JUDGED,
    when=has_tests,
    cases=_OTHER,
    needs={"submitted": "result.performance.scenario"},
)
def test_run_scenario(
    run: ComplianceRun, round: Round, detail: DetailLog, scenario: str, submitted: str
) -> Problems:
    """The test was run in the scenario of the submitted run.

    Why: a test in another scenario says nothing about this result.
    Fix: run the test in the result's scenario, or move it (`git mv`) to the folder it belongs to.
    Source: submission_rules.adoc, "Compliance testing": one set of tests a benchmark and scenario.
    """
    if scenario != submitted:
        text = f"found {run.test} run in {scenario}; expected {submitted}, as the submitted run"
        yield at(run, "effective_scenario", text, scenario, submitted, case=_case(run))


@rule("C124", ERROR, divisions=JUDGED, when=has_tests, needs={"main": "performance"})
def test_run_is_its_own(result: Result, round: Round, main: PerformanceRun) -> Problems:
    """Every test has a run of its own, not a copy of the submitted run or of another test's.

    Why: two runs never have the same latencies to the nanosecond.
    Fix: run the test, and put its own logs into its folder.
    Source: submission_rules.adoc, "Compliance testing": each test is a run with its audit.config.
    """
    known: dict[tuple[float | None, ...], tuple[str, str]] = {}
    runs: list[tuple[str, Run | None]] = [("the submitted run", main)]
    runs.extend((name, test.run) for name, test in sorted(result.tests.items()))
    for name, run in runs:
        if run is None or not run.detail:
            continue
        marks = tuple(run.detail.number(key) for key in _IDENTITY)
        if None in marks[:2]:
            continue
        before, path = known.setdefault(marks, (name, run.detail_path))
        if path != run.detail_path:
            yield Problem(
                f"found the latencies and query count of {before} in {name}; expected a run of its own",
                found=list(marks),
                required="another run",
                path=run.detail_path,
                line=run.detail.line("result_mean_latency_ns"),
                evidence={"the same log": path},
            )


@rule(
    "C128",
    WARNING,
    divisions=JUDGED,
    when=has_tests,
    cases={"build": NOTE, "system": WARNING, "data set": ERROR},
    needs={"main": "result.performance.detail"},
)
def test_run_same_system(
    run: ComplianceRun, round: Round, detail: DetailLog, main: DetailLog
) -> Problems:
    """The test was run with the submitted run's LoadGen and data set.

    Why: a test of another build or benchmark says nothing about the submitted one.
    Fix: make the submitted run and its tests with one build and one QSL.
    Source: submission_rules.adoc, "Compliance testing": the tests are run on the submitted system.
    """
    # TEST07 has a data set of its own.
    data = () if run.test == "TEST07" else ("qsl_name", "qsl_reported_total_count")
    for keys, case in ((data, None), (("sut_name",), "system"), (("loadgen_version",), "build")):
        pairs = [(key, detail.get(key), main.get(key)) for key in keys]
        pairs = [(key, a, b) for key, a, b in pairs if a is not None and b is not None and a != b]
        # A submitted run whose own QSL is not the data set is P127's to report.
        pairs = [pair for pair in pairs if not _is_whole_set(run, *pair)]
        if not pairs:
            continue
        if case is None and _is_another_set(run, detail):
            case = "data set"
        found = ", ".join(f"{key} {_shown(mine)}" for key, mine, _ in pairs)
        expected = ", ".join(f"{key} {_shown(theirs)}" for key, _, theirs in pairs)
        text = f"found {found} in {run.test}; expected {expected}, as in the submitted run"
        yield at(run, pairs[0][0], text, pairs[0][1], pairs[0][2], case=case)


def _is_whole_set(run: ComplianceRun, key: str, found: object, submitted: object) -> bool:
    """Whether the test's QSL is the data set, and only the submitted run's is not."""
    size = run.result.benchmark.dataset.size if run.result.benchmark is not None else None
    return key == "qsl_reported_total_count" and size is not None and found == size != submitted


def _shown(value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number(value)
    return str(value).strip() or "(blank)"


def _is_another_set(run: ComplianceRun, detail: DetailLog) -> bool:
    """Whether the test's QSL has a size that nothing of the benchmark has."""
    benchmark, total = run.result.benchmark, detail.integer("qsl_reported_total_count")
    main = run.result.performance
    if benchmark is None or total is None or benchmark.dataset.size is None:
        return False
    known = {
        benchmark.dataset.size,
        benchmark.dataset.accuracy_sample_count,
        *benchmark.dataset.accuracy_sample_count_by_scenario.values(),
        benchmark.performance_sample_count,
        main.detail.integer("qsl_reported_total_count") if main and main.detail else None,
    }
    return total not in known


@rule("C129", ERROR, divisions=JUDGED, when=has_tests, needs={"benchmark": "result.benchmark"})
def test_run_limits(
    run: ComplianceRun,
    round: Round,
    is_full_run: bool,
    detail: DetailLog,
    benchmark: Benchmark,
    limits: Scenario | None = None,
) -> Problems:
    """The test's run keeps the round's sample count and latency bound.

    Why: TEST01, TEST04 and TEST05 are held to what holds for the submitted run.
    Fix: run the test with the settings of the submitted run, and the test's audit.config beside it.
    Source: submission_rules.adoc, "Compliance testing"; inference_rules.adoc, "Benchmarks".
    """
    key = "effective_performance_sample_count"
    least, count = benchmark.performance_sample_count, detail.integer(key)
    if least is not None and count is not None and count < least:
        text = (
            f"found performance_sample_count {count:,} in {run.test}; expected at least {least:,}"
        )
        yield at(run, key, text, count, least)
    key = "effective_target_latency_ns"
    bound, asked = limits.target_latency_ns if limits else None, detail.number(key)
    if bound is not None and asked is not None and run.scenario == "Server" and not asked <= bound:
        text = (
            f"found target_latency {number(asked / 1e6)} ms in {run.test}; expected at most "
            f"{number(bound / 1e6)} ms"
        )
        yield at(run, key, text, asked, bound)


@rule("C131", ERROR, divisions=JUDGED, when=has_tests)
def test_run_whole(
    run: ComplianceRun,
    round: Round,
    is_full_run: bool,
    detail: DetailLog,
    limits: Scenario,
    evidence: Evidence,
) -> Problems:
    """The run of TEST01, TEST04 or TEST05 is a whole one: as long and with as many queries as a
    submitted run.

    Why: a cache or a shortcut may show only after minutes; a cut run is not the submitted workload.
    Fix: take min_duration, max_duration and max_query_count out of user.conf and run the test again.
    Source: submission_rules.adoc, "Compliance testing": tests are full runs of the benchmark.
    """
    for key, found, expected, unit in _cuts(run, detail, limits, evidence):
        bound = "no bound" if expected == 0 else f"at least {number(expected)}{unit}"
        text = f"found {key} {number(found)}{unit} in {run.test}; expected {bound}"
        yield at(run, key, text, found, expected)


def _cuts(
    run: ComplianceRun, detail: DetailLog, limits: Scenario, evidence: Evidence
) -> Iterator[tuple[str, float, float, str]]:
    """Everything that shows a cut run, as (key, found, expected, unit); expected 0: no bound."""
    own = evidence.settings
    key = "effective_min_duration_ms"
    duration = detail.number(key)
    if "min_duration" not in own and duration is not None and duration < limits.min_duration_ms:
        yield key, duration, limits.min_duration_ms, " ms"
    key = "effective_min_query_count"
    asked, least = detail.integer(key), limits.min_query_count
    if "min_query_count" not in own and least and asked is not None and asked < least:
        yield key, asked, least, " queries"
    key = "effective_samples_per_query"
    samples, least = detail.integer(key), limits.min_samples_per_query
    held = run.scenario == "Offline" and run.division == "closed"
    if held and "min_query_count" not in own and least and samples is not None and samples < least:
        yield key, samples, least, " samples"
    key = "result_query_count"
    count = detail.integer(key)
    if asked and count is not None and count < asked and run.scenario != "Offline":
        yield key, count, asked, " queries"
    lasted = run.lasted
    if lasted is not None and duration is not None and "min_duration" not in own:
        # The clock's milliseconds, one query, and Server's last query, which ends the run.
        room = 50 + 0.03 * duration + (detail.number("result_max_latency_ns") or 0) / 1e6
        if lasted * 1000 + room < duration:
            yield "power_end", lasted * 1000, duration, " ms"
