"""Verify one compliance test from its own logs, and write the texts that the round asks for.

``verify`` reads folders; the rules of family C judge the same pieces on a loaded submission. The
runner calls ``verify`` and ``write`` after each test run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from checker.accuracy.log import Progress
from checker.accuracy.problem import AccuracyError
from checker.compliance import answers, audit, fallback, performance, tokens
from checker.compliance.answers import Comparison as Answers
from checker.compliance.fallback import Delta
from checker.compliance.performance import Comparison as Performance
from checker.compliance.tokens import Tokens
from checker.parse.accuracy_txt import AccuracyText, read_accuracy
from checker.parse.detail import DetailLog, read_detail
from checker.parse.reading import File
from checker.writing import replace_file
from schemas.load import load_round
from schemas.round import Round

_DETAIL = "mlperf_log_detail.txt"
_ACCURACY = "mlperf_log_accuracy.json"


@dataclass(slots=True)
class Outcome:
    """What verifying one test gave.

    passed: the verdict; None when it cannot be known (logs cut, files missing). failures: why not,
    each a sentence; notes: what was not or only partly looked at. files: the texts to be written,
    by their name inside the test's folder.
    """

    test: str
    passed: bool | None = None
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    answers: Answers | None = None
    performance: Performance | None = None
    tokens: Tokens | None = None
    deltas: list[Delta] = field(default_factory=list)
    settings: list[audit.Difference] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)


def verify(
    test_name: str,
    main_dir: str | Path,
    test_dir: str | Path,
    round: Round | str,
    benchmark: str,
    scenario: str,
    *,
    score: float | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Verify one test of one result.

    main_dir: the result's folder (``performance/run_1``, ``accuracy``); test_dir: the test's
    folder; its logs lie in ``performance/run_1``, in ``accuracy`` or directly in it. benchmark:
    the round's name; scenario: the one that was run. score: TEST07's accuracy, when it is not in
    ``accuracy/accuracy.txt``. Never raises for what the files hold; raises KeyError when the round
    has no such test.
    """
    rules = load_round(round) if isinstance(round, str) else round
    if test_name not in rules.compliance:
        known = ", ".join(sorted(rules.compliance)) or "none"
        raise KeyError(f"{rules.name} has no compliance test {test_name}; it has {known}")
    job = _Job(
        test_name, Path(main_dir), Path(test_dir), rules, benchmark, scenario, score, progress
    )
    outcome = Outcome(test_name)
    detail = job.detail(job.test_dir)
    if detail is not None:
        wanted = audit.settings_of(rules, test_name, benchmark, scenario)
        outcome.settings = audit.differences(detail, wanted)
        for one in outcome.settings:
            text = f"{one.key} was {one.found}, the test asks for {one.required}"
            (outcome.failures if one.key in audit.NEEDED else outcome.notes).append(text)
    verdicts = _CHECKS[test_name](job, outcome, detail)
    if outcome.failures or False in verdicts:
        outcome.passed = False
    elif None in verdicts or not verdicts:
        outcome.passed = None
    else:
        outcome.passed = True
    return outcome


def write(outcome: Outcome, test_dir: str | Path) -> list[Path]:
    """Write the test's verification texts into its folder; returns the files written.

    What has their names is replaced; a link there is not followed. Raises OSError.
    """
    folder = Path(test_dir)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in outcome.files.items():
        path = folder / name
        replace_file(path, text.encode("utf-8"))
        written.append(path)
    return written


@dataclass(slots=True)
class _Job:
    test: str
    main_dir: Path
    test_dir: Path
    round: Round
    benchmark: str
    scenario: str
    score: float | None
    progress: Progress | None

    def detail(self, folder: Path) -> DetailLog | None:
        path = _first(folder, ("performance/run_1", "performance", "."), _DETAIL)
        log = read_detail(_file(path)) if path is not None else None
        return log or None

    def main_answers(self) -> Path | None:
        return _first(self.main_dir, ("accuracy", "."), _ACCURACY)

    def test_answers(self) -> Path | None:
        # accuracy/ holds the copy that is published, perhaps cut; the run's own log is whole.
        return _first(
            self.test_dir, ("performance/run_1", "performance", ".", "accuracy"), _ACCURACY
        )

    def text(self, name: str) -> AccuracyText | None:
        path = _first(self.test_dir, ("accuracy", "."), name)
        return (
            read_accuracy(_file(path), self.round.accuracy_patterns) if path is not None else None
        )


def _first(folder: Path, places: tuple[str, ...], name: str) -> Path | None:
    for place in places:
        path = folder / place / name
        if path.is_file() and path.stat().st_size:
            return path
    return None


def _file(path: Path) -> File:
    return File(path.as_posix(), str(path), path.stat().st_size)


Verdicts = list[bool | None]


def _answers(job: _Job, outcome: Outcome, tolerance: float | None) -> bool | None:
    main, test = job.main_answers(), job.test_answers()
    if main is None or test is None:
        where = "the test's folder" if test is None else "the accuracy run"
        outcome.notes.append(f"no accuracy log in {where}: the answers were not compared")
        return None
    try:
        if tolerance is None:
            found = answers.verify_accuracy(main, test, progress=job.progress)
        else:
            found = answers.verify_values(main, test, tolerance=tolerance, progress=job.progress)
    except (AccuracyError, OSError) as error:
        outcome.notes.append(f"the answers were not compared: {error}")
        return None
    outcome.answers = found
    if not found.whole:
        outcome.notes.append(found.describe())
    if not found.test_records and not found.test_truncated:
        outcome.failures.append("the test run logged no answers: audit.config was not read")
        return False
    return found.passed


def _performance(job: _Job, outcome: Outcome, detail: DetailLog | None) -> bool | None:
    rules = job.round.compliance[job.test]
    if job.test == "TEST04-A":
        main, detail = detail, job.detail(job.test_dir.parent / "TEST04-B")
    else:
        main = job.detail(job.main_dir)
    found = None
    if main is not None and detail is not None:
        tolerance = rules.performance_tolerance
        found = performance.compare(
            main, detail, job.test, job.scenario, 0.10 if tolerance is None else tolerance,
            rules.low_latency_tolerance,
        )  # fmt: skip
    if found is None:
        outcome.notes.append("a detail log or its score is missing: performance was not compared")
        return None
    outcome.performance = found
    if not found.passed:
        side = "above" if found.one_sided else "apart from"
        outcome.failures.append(
            f"{found.key} gives {found.test:g} {found.unit} in the test and {found.reference:g} in "
            f"the reference: more than {found.tolerance * 100:g} % {side} it"
        )
    first, second = ("TEST04-A", "TEST04-B") if job.test == "TEST04-A" else ("reference", "test")
    outcome.files["verify_performance.txt"] = (
        "Verifying performance.\n"
        f"{first} score = {found.reference!r}\n{second} score = {found.test!r}\n"
        + _verdict(found.passed, "Test score invalid")
    )
    return found.passed


def _verdict(passed: bool | None, why: str = "") -> str:
    if passed:
        return "TEST PASS\n"
    return f"TEST FAIL: {why}\n" if why else "TEST FAIL\n"


def _test01(job: _Job, outcome: Outcome, detail: DetailLog | None) -> Verdicts:
    same = _answers(job, outcome, None)
    found = outcome.answers
    if found is not None:
        outcome.files["verify_accuracy.txt"] = (
            "Verifying accuracy.\n"
            f"num_acc_log_entries = {found.reference_records}\n"
            f"num_acc_log_duplicate_keys = {found.reference_duplicates}\n"
            f"num_acc_log_data_mismatch = {found.reference_contradictions}\n"
            f"num_perf_log_entries = {found.test_records}\n"
            f"num_perf_log_qsl_idx_match = {found.compared}\n"
            f"num_perf_log_data_mismatch = {found.mismatched}\n"
            f"num_missing_qsl_idxs = {found.missing}\n" + _verdict(same)
        )
    if same is not True:
        baseline, compliance = (
            job.text("baseline_accuracy.txt"),
            job.text("compliance_accuracy.txt"),
        )
        if baseline is not None and compliance is not None:
            known = job.round.benchmarks.get(job.benchmark)
            outcome.deltas = fallback.deltas(baseline, compliance, job.round, job.benchmark, known)
            if outcome.deltas:
                same = all(delta.passed for delta in outcome.deltas)
                outcome.notes.append(
                    "the answers are not the same bit by bit: the accuracies over the sampled "
                    "answers decide"
                )
    if same is False:
        outcome.failures.append(_why(found, outcome.deltas))
    return [same, _performance(job, outcome, detail)]


def _why(found: Answers | None, deltas: list[Delta]) -> str:
    wrong = [d for d in deltas if not d.passed]
    if wrong:
        one = wrong[0]
        return (
            f"{one.metric} is {one.baseline:g} in the accuracy run and {one.compliance:g} in the "
            f"test, {one.percent:.3g} % apart; {one.limit:g} % is allowed"
        )
    if found is None:
        return "the accuracies could not be read"
    if found.mismatched:
        return f"{found.mismatched} of {found.compared} answers differ from the accuracy run's"
    if found.missing:
        return f"{found.missing} answers are for samples that the accuracy run did not answer"
    return "no answer of the test could be compared with the accuracy run's"


def _speed(job: _Job, outcome: Outcome, detail: DetailLog | None) -> Verdicts:
    return [_performance(job, outcome, detail)]


def _same_sample(job: _Job, outcome: Outcome, detail: DetailLog | None) -> Verdicts:
    # TEST04-B has no text of its own: TEST04-A is compared with it.
    return [True if detail is not None else None]


def _tokens(job: _Job, outcome: Outcome) -> Tokens | None:
    log = job.test_answers()
    if log is None:
        outcome.notes.append("no accuracy log in the test's folder: its answers were not read")
        return None
    try:
        found = tokens.read_tokens(
            log, ends=tokens.end_tokens(job.benchmark), progress=job.progress
        )
    except (AccuracyError, OSError) as error:
        outcome.notes.append(f"the answers were not read: {error}")
        return None
    outcome.tokens = found
    if found.truncated:
        outcome.notes.append(f"the log is cut in the middle: {found.records} answers were read")
    if not found.records and not found.truncated:
        outcome.failures.append("the test run logged no answers: audit.config was not read")
        return None
    return found


def _test06(job: _Job, outcome: Outcome, detail: DetailLog | None) -> Verdicts:
    found = _tokens(job, outcome)
    if found is None:
        return [None]
    if not found.end_checked:
        outcome.notes.append(f"the end token of {job.benchmark} is not known: it was not checked")
    first = "Skipped" if not found.first_checked else str(not found.first_failures)
    outcome.files["verify_accuracy.txt"] = (
        f"First token check pass: {first}\n"
        f"EOS check pass: {not found.end_failures}\n"
        f"Sample length check pass: {not found.length_failures}\n"
        "TEST06 verification complete\n"
    )
    for count, what in (
        (found.first_failures, "begin with another token than the one reported first"),
        (found.end_failures, "go on after their end token"),
        (found.length_failures, "have another length than their token count"),
    ):
        if count:
            outcome.failures.append(f"{count} of {found.records} answers {what}")
    return [None if found.truncated and found.passed else found.passed]


def _test07(job: _Job, outcome: Outcome, detail: DetailLog | None) -> Verdicts:
    wanted = audit.settings_of(job.round, job.test, job.benchmark, job.scenario)
    threshold = float(wanted.get("test07_accuracy_threshold", 0.0))
    samples = int(float(wanted.get("min_query_count", 0)))
    found = _tokens(job, outcome)
    complete: bool | None = None
    if found is not None and not found.truncated:
        complete = found.samples >= samples
        if not complete:
            outcome.failures.append(
                f"the run answered {found.samples} different samples, the test asks for {samples}"
            )
    score = job.score
    if score is None:
        score = _stated(job, job.text("compliance_accuracy.txt") or job.text("accuracy.txt"))
    if score is None:
        outcome.notes.append("the accuracy of the test's answers is not stated")
        return [complete, None]
    passed = score >= threshold
    if not passed:
        outcome.failures.append(f"the accuracy is {score:g}, at least {threshold:g} was asked for")
    outcome.files["verify_accuracy.txt"] = (
        "TEST07 Verification Summary\n"
        f"Accuracy score: {score:g}\nAccuracy threshold: {threshold:g}\n"
        f"Accuracy check pass: {passed}\n" + _verdict(passed and complete is not False)
    )
    return [complete, passed] if complete is False else [passed]


def _stated(job: _Job, text: AccuracyText | None) -> float | None:
    known = job.round.benchmarks.get(job.benchmark)
    if text is None:
        return None
    for metric in [gate.metric for gate in known.accuracy] if known else sorted(text.values):
        value = text.last(metric)
        if value is not None:
            return value.value
    return None


def _test08(job: _Job, outcome: Outcome, detail: DetailLog | None) -> Verdicts:
    percent = job.round.compliance[job.test].accuracy_delta_percent or 0.1
    same = _answers(job, outcome, percent / 100)
    found = outcome.answers
    if found is not None:
        outcome.files["verify_accuracy.txt"] = (
            "Verifying accuracy.\n"
            f"num_acc_log_entries = {found.reference_records}\n"
            f"num_perf_log_entries = {found.test_records}\n"
            f"num_matched = {found.compared}\n"
            f"num_unmatched = {found.missing}\n"
            f"num_ne_mismatch = {found.mismatched}\n"
            f"tolerance = {percent:.2f}%\n" + _verdict(same) + "TEST08 verification complete\n"
        )
        if same is False:
            outcome.failures.append(_why(found, []))
    return [same]


def _test09(job: _Job, outcome: Outcome, detail: DetailLog | None) -> Verdicts:
    wanted = audit.settings_of(job.round, job.test, job.benchmark, job.scenario)
    low = float(wanted.get("test09_min_output_tokens", 0.0))
    high = float(wanted.get("test09_max_output_tokens", float("inf")))
    samples = int(float(wanted.get("min_query_count", 0)))
    found = _tokens(job, outcome)
    mean = found.mean if found is not None and not found.truncated else None
    if mean is None:
        mean = mean_output_tokens(detail) if detail is not None else None
        if mean is not None:
            outcome.notes.append("the mean was computed from the detail log's throughputs")
    if mean is None:
        return [None]
    enough = found is None or found.truncated or found.records >= samples
    if not enough and found is not None:
        outcome.failures.append(f"{found.records} answers were logged, {samples} were asked for")
    passed = low <= mean <= high
    if not passed:
        outcome.failures.append(
            f"answers are {mean:.2f} tokens long on the mean, {low:g} to {high:g} were asked for"
        )
    count = found.records if found is not None and not found.truncated else samples
    outcome.files["verify_output_len.txt"] = (
        "TEST09: Verify Output Token Length in Performance Mode\n"
        f"Total samples: {count}\nMean output tokens: {mean:.2f}\n"
        f"Min threshold: {low:g}\nMax threshold: {high:g}\n"
        f"Min check pass: {mean >= low}\nMax check pass: {mean <= high}\n\n"
        + _verdict(passed and enough)
    )
    return [passed and enough]


def mean_output_tokens(detail: DetailLog) -> float | None:
    """Mean tokens of an answer from a run's token and sample throughput; None without them."""
    for tokens_key, samples_key in (
        ("result_tokens_per_second", "result_samples_per_second"),
        ("result_completed_tokens_per_second", "result_completed_samples_per_sec"),
    ):
        rate, samples = detail.number(tokens_key), detail.number(samples_key)
        if rate is not None and samples:
            return rate / samples
    return None


_CHECKS = {
    "TEST01": _test01,
    "TEST04": _speed,
    "TEST04-A": _speed,
    "TEST04-B": _same_sample,
    "TEST05": _speed,
    "TEST06": _test06,
    "TEST07": _test07,
    "TEST08": _test08,
    "TEST09": _test09,
}
