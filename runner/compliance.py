"""Compliance tests: more performance runs, each with the test's audit.config, then verified.

Which tests a benchmark needs in a scenario, and their settings, is the round's data; whether one
passed is `checker.compliance`'s to say.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from checker.compliance import Outcome, verify
from checker.compliance.audit import settings_of
from runner import logs
from runner.errors import RunnerError, SettingsError, StalledRun
from runner.progress import Progress
from runner.run import ERROR_REASON, Job, Measurement, measure
from runner.scoring import score
from schemas import Round

# What LoadGen reads from an audit.config; a test's other settings are its verification's.
_LOADGEN_KEYS = frozenset(
    {
        "mode",
        "accuracy_log_rng_seed",
        "accuracy_log_probability",
        "accuracy_log_sampling_target",
        "performance_issue_unique",
        "performance_issue_same",
        "performance_issue_same_index",
        "min_query_count",
        "max_query_count",
        "min_duration",
        "max_duration",
        "sample_concatenate_permutation",
        "test05",
        "test05_qsl_rng_seed",
        "test05_sample_index_rng_seed",
        "test05_schedule_rng_seed",
    }
)


@dataclass(frozen=True)
class ComplianceRun:
    """One compliance test, run and verified.

    Attributes:
        folder: where its logs lie.
        passed: None where it cannot be decided.
        failures: why not, each a sentence; notes: what else should be known.
        texts: files to be written into the test's folder, by name.
        sampled: whether the run logged answers, which belong to the test.
        by_speed: whether nothing but the speed, or LoadGen's verdict, speaks against it: then
            noise may be the cause, and another try is worth it.
    """

    name: str
    folder: Path
    passed: bool | None
    failures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    sampled: bool = False
    by_speed: bool = False


def required_tests(round: Round, task: str | None, scenario: str) -> tuple[str, ...]:
    """The tests that the round asks for, in its order.

    Raises:
        SettingsError: the round does not know the benchmark.
    """
    benchmark = round.benchmarks.get(task or "")
    if benchmark is None:
        raise SettingsError(
            f"found benchmark {task!r}, which round {round.name} does not have, so that it asks "
            f"for no compliance test; expected one of {', '.join(round.benchmarks)}."
        )
    rules = benchmark.scenarios.get(scenario)
    return tuple(rules.compliance) if rules is not None else ()


def audit_text(round: Round, test: str, task: str, scenario: str, loadgen: str = "") -> str:
    """The audit.config of a test, from the round's data.

    Args:
        scenario: the result's; loadgen: LoadGen's, where it is not the same (Interactive).
    """
    lines = [f"# {test} of round {round.name}: {round.compliance[test].purpose}"]
    for key, value in settings_of(round, test, task, scenario).items():
        if key in _LOADGEN_KEYS:
            lines.append(f"*.{loadgen or scenario}.{key} = {value}")
    return "\n".join(lines) + "\n"


def run_test(
    test: str,
    round: Round,
    task: str,
    job: Job,
    runs: Path,
    performance: Measurement,
    accuracy: Measurement,
    progress: Progress,
    grader: str | None = None,
) -> ComplianceRun:
    """Run one test and verify it against the result's own runs.

    Args:
        job: the performance run's; the test runs with the user.conf that was run there.
        runs: the result's folder of runs; the test's own lies there too.
        performance: lies in `runs/performance`; accuracy: in `runs/accuracy`, its log whole.
        grader: the command that grades code.

    Raises:
        RunnerError: the run failed.
    """
    folder, scenario = runs / test, job.settings.result
    shutil.rmtree(folder, ignore_errors=True)
    config = runs / f"{test}.audit.config"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(
        audit_text(round, test, task, scenario, job.settings.scenario), encoding="utf-8"
    )
    settings = replace(
        job.settings,
        user_conf=performance.user_conf,
        audit_conf=str(config),
        least_duration_ms=0,
    )
    job = replace(job, settings=settings, use=test)
    try:
        run = measure(job, folder, progress)
    finally:
        config.unlink(missing_ok=True)
    texts: dict[str, str] = {}
    sampled = "accuracy_log_sampling_target" in settings_of(round, test, task, scenario)
    value: float | None = None
    if sampled:
        text, value = _scored(job, folder / logs.ACCURACY, grader)
        texts["accuracy/accuracy.txt"] = text
    outcome = verify(test, runs, folder, round, task, scenario, score=value)
    if test == "TEST01" and outcome.answers is not None and outcome.answers.passed is False:
        outcome = _fall_back(outcome, round, task, accuracy.folder, folder, job, grader, texts)
    texts.update(outcome.files)
    failures = list(outcome.failures)
    # A test that sets min_duration 0 is too short for early stopping: of its run only errors count.
    short = settings_of(round, test, task, scenario).get("min_duration") == 0
    failures += [
        f"the test's run is not VALID: {reason}"
        for reason in run.reasons
        if not short or reason.startswith(ERROR_REASON)
    ]
    slow = outcome.performance is not None and not outcome.performance.passed
    others = len(outcome.failures) - (1 if slow else 0)
    return ComplianceRun(
        name=test,
        folder=folder,
        passed=False if failures else outcome.passed,
        failures=tuple(failures),
        notes=tuple(outcome.notes),
        texts=texts,
        sampled=sampled,
        by_speed=bool(failures) and others == 0,
    )


def _fall_back(
    outcome: Outcome,
    round: Round,
    task: str,
    accuracy: Path,
    folder: Path,
    job: Job,
    grader: str | None,
    texts: dict[str, str],
) -> Outcome:
    """Answers differ bit by bit: then their accuracies decide, over the same samples."""
    wanted = {entry["qsl_idx"] for entry in json.loads((folder / logs.ACCURACY).read_bytes())}
    if not wanted:
        return outcome
    everything = json.loads((accuracy / logs.ACCURACY).read_bytes())
    part = folder / "baseline.json"
    part.write_text(json.dumps([e for e in everything if e["qsl_idx"] in wanted]))
    written = {
        "accuracy/baseline_accuracy.txt": _scored(job, part, grader)[0],
        "accuracy/compliance_accuracy.txt": texts["accuracy/accuracy.txt"],
    }
    part.unlink()
    for name, text in written.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    texts.update(written)
    again = verify("TEST01", accuracy.parent, folder, round, task, job.settings.result)
    shutil.rmtree(folder / "accuracy", ignore_errors=True)
    return again


def _scored(job: Job, log: Path, grader: str | None) -> tuple[str, float | None]:
    """The text of accuracy.txt, and the score where there is one."""
    try:
        found = score(job, log, grader)
    except StalledRun:
        raise
    except RunnerError as error:
        return f"not computed: {' '.join(str(error).split())}\n", None
    return found.line + "\n", found.value


def summary(tests: Sequence[ComplianceRun]) -> str:
    """What failed, in one line; "" when all passed."""
    return "; ".join(
        f"{test.name} {'failed' if test.passed is False else 'is not decided'}: "
        f"{'; '.join(test.failures or test.notes)}"
        for test in tests
        if test.passed is not True
    )
