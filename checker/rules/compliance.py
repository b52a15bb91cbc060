"""Family C: the compliance tests: were they run, as the round asks, and what do their logs show."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from checker.compliance import audit, fallback, performance
from checker.compliance.verify import mean_output_tokens
from checker.model import ComplianceRun, ComplianceTest, Result, Run
from checker.parse.detail import DetailLog
from checker.parse.verify import Verification
from checker.rule import ERROR, NOTE, WARNING, NotJudged, Problem, rule
from checker.rules.performance import UNCOMMITTED, same_value, seed_problems
from schemas.report import Severity
from schemas.round import Round

_JUDGED = ("closed", "network")
_SPEED = ("TEST01", "TEST04", "TEST04-A", "TEST05")
"""Tests with a verify_performance.txt."""
_FULL_RUN = ("TEST01", "TEST04", "TEST05")
"""Tests whose performance run is held to the rules of a submitted one."""
_TRIPLE = (
    "result_mean_latency_ns", "result_max_latency_ns", "result_min_latency_ns", "result_query_count",
)  # fmt: skip
_TEXTS = {
    "TEST07": "verify_accuracy.txt", "TEST08": "verify_accuracy.txt", "TEST09": "verify_output_len.txt",
}  # fmt: skip
_TOKEN_AGREEMENT = 0.01


def _has_tests(round: Round) -> bool:
    return bool(round.compliance)


def _detail(run: Run) -> DetailLog:
    if run.detail is None or not run.detail:
        raise NotJudged
    return run.detail


def _text(test: ComplianceTest, name: str) -> Verification:
    found = test.verifications.get(name)
    if found is None or not found.text.strip():
        raise NotJudged
    return found


def _known(test: ComplianceTest, round: Round) -> None:
    if test.name not in round.compliance:
        raise NotJudged


def _lowered(run: ComplianceRun) -> Severity | None:
    """No round looked at the performance logs of the other tests."""
    return None if run.test in _FULL_RUN else WARNING


def _needed(test: ComplianceTest) -> bool:
    rules = test.result.rules
    return rules is not None and test.name in rules.compliance


@rule("C101", ERROR, divisions=_JUDGED, when=_has_tests)
def compliance_tests_present(result: Result, round: Round) -> Iterator[Problem]:
    """Every compliance test that the round asks for in this benchmark and scenario is there.

    Why: the tests show that the measured system answers as the accuracy run did and caches nothing.
    Fix: run the missing test with its audit.config and put its logs and verification texts there.
    Source: submission_rules.adoc, "Compliance testing"; the round's tests per benchmark.
    """
    rules = result.rules
    if rules is None or not rules.compliance or result.endpoints is not None:
        raise NotJudged
    inside = result.compliance_folder is result.folder
    if not (result.complete if inside else result.surrounded):
        raise NotJudged
    base = result.compliance_path or result.path
    there = result.compliance_folder is not None
    for name in rules.compliance:
        if name not in result.tests:
            where = f"{base}/{name}"
            why = "there is no such folder" if there else f"there is no folder {base}"
            yield Problem(
                f"{name} is missing for {result.name} {result.scenario}: {why}; {where} was asked for",
                path=where, found=sorted(result.tests), required=name,
            )  # fmt: skip


@rule("C102", ERROR, divisions=_JUDGED, when=_has_tests)
def compliance_files_present(test: ComplianceTest, round: Round) -> Iterator[Problem]:
    """A compliance test's folder holds the files that the round asks for.

    Why: without its logs and texts nobody can see that the test passed.
    Fix: put the named file there: logs come from LoadGen, texts from the verification script.
    Source: submission_rules.adoc, "Compliance testing": directory structure.
    """
    _known(test, round)
    if not _needed(test):
        raise NotJudged
    for name in round.compliance[test.name].files:
        folder, _, file_name = name.rpartition("/")
        here = test.folder.folder(*folder.split("/")) if folder else test.folder
        if here is None or file_name not in here.files:
            if "/" not in name and name in test.verifications:
                continue
            yield Problem(
                f"{test.name} has no {name}; the round asks for it", path=f"{test.path}/{name}",
                required=name,
            )  # fmt: skip


@rule("C103", NOTE, divisions=_JUDGED, when=_has_tests)
def compliance_test_not_asked_for(test: ComplianceTest, round: Round) -> Iterator[Problem]:
    """A test that the round does not ask for here is not judged as a demand.

    Why: a reader should know that the folder has no bearing on the result.
    Fix: remove the folder, or leave it for the reader's information.
    Source: the round's tests per benchmark and scenario.
    """
    rules = test.result.rules
    if rules is None:
        raise NotJudged
    if test.name not in rules.compliance:
        asked = ", ".join(rules.compliance) or "no test"
        yield Problem(
            f"{test.name} is not asked for in {test.result.name} {test.result.scenario}; the round "
            f"asks for {asked}",
            found=test.name, required=list(rules.compliance),
        )  # fmt: skip


@rule("C104", ERROR, divisions=_JUDGED, when=_has_tests)
def verification_passed(test: ComplianceTest, round: Round) -> Iterator[Problem]:
    """The verification texts say TEST PASS.

    Why: a test that did not pass shows a run that is not what it was submitted as.
    Fix: find out why the test failed, mend it, and run the test and its verification again.
    Source: submission_rules.adoc, "Compliance testing": tests must pass.
    """
    _known(test, round)
    if not _needed(test):
        raise NotJudged
    name = "verify_performance.txt" if test.name in _SPEED else _TEXTS.get(test.name)
    if name is None:
        raise NotJudged
    text = _text(test, name)
    if text.passes:
        return
    said = "says TEST FAIL" if text.fails else "does not say TEST PASS"
    yield Problem(
        f"{name} of {test.name} {said}; TEST PASS was asked for", path=text.path,
        line=text.fails[0] if text.fails else None, found="TEST FAIL" if text.fails else None,
        required="TEST PASS",
    )  # fmt: skip


@rule("C105", ERROR, divisions=_JUDGED, when=_has_tests)
def verification_unambiguous(test: ComplianceTest, round: Round) -> Iterator[Problem]:
    """A verification text does not say both TEST PASS and TEST FAIL.

    Why: two verdicts in one file: one of them was added, or two runs were mixed.
    Fix: run the verification script once and save its output alone.
    Source: compliance tests: the script prints one verdict.
    """
    for text in test.verifications.values():
        if text.passes and text.fails:
            yield Problem(
                f"{text.path} says TEST PASS on line {text.passes[0]} and TEST FAIL on line "
                f"{text.fails[0]}; one verdict was asked for",
                path=text.path, line=text.fails[0], found=["TEST PASS", "TEST FAIL"],
                required="one verdict",
            )  # fmt: skip


@rule("C106", ERROR, divisions=_JUDGED, when=_has_tests)
def test01_accuracy(test: ComplianceTest, round: Round) -> Iterator[Problem]:
    """TEST01: the sampled answers are those of the accuracy run, or are as accurate as those.

    Why: a run that is fast because it answers worse than in accuracy mode is no measurement.
    Fix: run the accuracy run and TEST01 with one build; where answers may differ bit by bit, add
    accuracy/baseline_accuracy.txt and accuracy/compliance_accuracy.txt.
    Source: compliance test TEST01: verify_accuracy and its fallback for non-deterministic models.
    """
    if test.name != "TEST01" or "TEST01" not in round.compliance or not _needed(test):
        raise NotJudged
    text = _text(test, "verify_accuracy.txt")
    if text.passes:
        raise NotJudged
    baseline, compliance = test.baseline, test.compliance
    if baseline is None or compliance is None:
        gone = [
            name for name, there in (
                ("baseline_accuracy.txt", baseline), ("compliance_accuracy.txt", compliance)
            ) if there is None
        ]  # fmt: skip
        said = "TEST FAIL" if text.fails else "no verdict"
        yield Problem(
            f"verify_accuracy.txt says {said}, and {' and '.join(gone)} of the fallback "
            f"{'is' if len(gone) == 1 else 'are'} not in {test.path}/accuracy",
            path=text.path, line=text.fails[0] if text.fails else None, found=said,
            required="TEST PASS or both accuracies",
        )  # fmt: skip
        return
    found = fallback.deltas(baseline, compliance, round, test.result.name, test.result.benchmark)
    if not found:
        yield Problem(
            f"verify_accuracy.txt says no TEST PASS, and {baseline.path} and {compliance.path} state "
            "no accuracy metric of the benchmark in common",
            path=baseline.path, found=[sorted(baseline.values), sorted(compliance.values)],
            required=sorted({g.metric for g in test.result.gates}),
        )  # fmt: skip
    for delta in found:
        if not delta.passed:
            yield Problem(
                f"{delta.metric} over the sampled answers is {delta.compliance:g} in the test and "
                f"{delta.baseline:g} in the accuracy run, {delta.percent:.3g} % apart; at most "
                f"{delta.limit:g} % is allowed",
                path=compliance.path, found=delta.percent, required=delta.limit,
            )  # fmt: skip


@rule("C107", ERROR, divisions=_JUDGED, when=_has_tests)
def test06_checks(test: ComplianceTest, round: Round) -> Iterator[Problem]:
    """TEST06: first token, end-of-sequence token and sample length passed.

    Why: tokens reported before they exist, or answers padded past their end, inflate the numbers.
    Fix: report the first token when it is made, cut the answer at its end token, and count tokens
    as they are; then run TEST06 again.
    Source: compliance test TEST06: the three lines of verify_accuracy.txt.
    """
    if test.name != "TEST06" or not _needed(test):
        raise NotJudged
    text = _text(test, "verify_accuracy.txt")
    for name, label, accepted in (
        ("first token", "First token check", ("true", "skipped")),
        ("eos", "EOS check", ("true",)),
        ("sample length", "Sample length check", ("true",)),
    ):
        state, line = text.checks.get(name, (None, None))
        if state in accepted:
            continue
        wanted = " or ".join(a.capitalize() for a in accepted)
        said = f"is {state.capitalize()}" if state else "is not stated"
        yield Problem(
            f"{label} {said} in {text.path}; {label} pass: {wanted} was asked for", path=text.path,
            line=line, found=state, required=wanted,
        )  # fmt: skip


@rule("C108", WARNING, divisions=_JUDGED, when=_has_tests)
def test06_first_token_checked(test: ComplianceTest, round: Round) -> Iterator[Problem]:
    """TEST06: the first token was checked wherever it is reported.

    Why: in Server and Interactive the time to the first token counts, so that token must be real.
    Fix: run TEST06's verification without leaving out the first token.
    Source: compliance test TEST06: the check is skipped for Offline only.
    """
    if test.name != "TEST06" or test.tokens is None:
        raise NotJudged
    text = _text(test, "verify_accuracy.txt")
    state, line = text.checks.get("first token", (None, None))
    if state == "skipped" and test.tokens.first_checked:
        yield Problem(
            f"the first token was not checked (Skipped), and {test.tokens.first_checked} answers of "
            f"the {test.result.scenario} run report one",
            path=text.path, line=line, found="Skipped", required="True",
        )  # fmt: skip


@rule("C109", ERROR, divisions=_JUDGED, when=_has_tests, needs="tokens")
def test06_answers(test: ComplianceTest, round: Round) -> Iterator[Problem]:
    """TEST06, computed again: first tokens, ends and lengths of the logged answers are right.

    Why: the text can be written by hand; the answers themselves show whether it is true.
    Fix: mend how the system reports tokens and their count, and run TEST06 again.
    Source: compliance test TEST06; LoadGen's token_data and token_count.
    """
    found = test.tokens
    if test.name != "TEST06" or found is None or not found.records:
        raise NotJudged
    path = test.accuracy_log.path if test.accuracy_log is not None else test.path
    for count, samples, what in (
        (found.first_failures, found.first_differs, "begin with another token than the one reported first"),
        (found.length_failures, found.length_differs, "do not have as many tokens as were counted"),
        (found.end_failures, found.end_repeated, "go on after their end-of-sequence token"),
    ):  # fmt: skip
        if count:
            shown = ", ".join(str(s) for s in samples[:5])
            yield Problem(
                f"{count} of {found.records} answers {what} (samples {shown}); none was asked for",
                path=path, found=count, required=0,
            )  # fmt: skip


@rule("C110", ERROR, divisions=_JUDGED, when=_has_tests)
def test07_accuracy(test: ComplianceTest, round: Round) -> Iterator[Problem]:
    """TEST07: the accuracy of the answers given in performance mode reaches its threshold.

    Why: a run that trades answers' quality for speed would pass with the accuracy run's number.
    Fix: run TEST07 with the build that made the accuracy run, and verify it again.
    Source: compliance test TEST07: accuracy threshold of its audit.config.
    """
    if test.name != "TEST07" or not _needed(test):
        raise NotJudged
    text = _text(test, "verify_accuracy.txt")
    settings = audit.settings_of(round, "TEST07", test.result.name, test.result.scenario)
    threshold = settings.get("test07_accuracy_threshold")
    yield from _failed_checks(text)
    stated = text.values.get("accuracy score")
    limit = text.values.get("accuracy threshold")
    if threshold is None:
        return
    needed = float(threshold)
    if stated is None:
        if text.passes:
            yield Problem(
                f"{text.path} says TEST PASS and states no accuracy score; at least {needed:g} was "
                "asked for",
                path=text.path, required=needed, severity=WARNING,
            )  # fmt: skip
    elif not stated >= needed:
        yield Problem(
            f"the accuracy in performance mode is {stated:g}, at least {needed:g} was asked for",
            path=text.path, line=text.value_lines.get("accuracy score"), found=stated,
            required=needed,
        )  # fmt: skip
    if limit is not None and limit < needed - 1e-9:
        yield Problem(
            f"the text compares with a threshold of {limit:g}, the round's is {needed:g}",
            path=text.path, line=text.value_lines.get("accuracy threshold"), found=limit,
            required=needed,
        )  # fmt: skip


def _failed_checks(text: Verification) -> Iterator[Problem]:
    for name, (state, line) in text.checks.items():
        if state == "false" and text.passes:
            yield Problem(
                f"{text.path} says TEST PASS, and line {line} says that the {name} check did not pass",
                path=text.path, line=line, found=False, required=True,
            )  # fmt: skip


@rule("C111", ERROR, divisions=_JUDGED, when=_has_tests)
def test08_counts(test: ComplianceTest, round: Round) -> Iterator[Problem]:
    """TEST08: every answer was matched, and none is beyond the tolerance.

    Why: an unmatched answer was compared with nothing.
    Fix: run the accuracy run and TEST08 with one build and one data set, and verify again.
    Source: compliance test TEST08: normalized entropy per query within its tolerance.
    """
    if test.name != "TEST08" or not _needed(test):
        raise NotJudged
    text = _text(test, "verify_accuracy.txt")
    for key, what in (
        ("num_unmatched", "answers have no counterpart in the accuracy run"),
        ("num_ne_mismatch", "answers are beyond the tolerance"),
    ):
        count = text.counts.get(key)
        if count:
            yield Problem(
                f"{count} {what}; 0 was asked for", path=text.path, line=text.count_lines.get(key),
                found=count, required=0,
            )  # fmt: skip
    if text.counts.get("num_matched") == 0:
        yield Problem(
            "no answer was compared (num_matched = 0): no answers were logged; was audit.config read?",
            path=text.path, line=text.count_lines.get("num_matched"), found=0, required="> 0",
        )  # fmt: skip
    allowed = round.compliance["TEST08"].accuracy_delta_percent
    stated = text.values.get("tolerance")
    if allowed is not None and stated is not None and stated > allowed + 1e-9:
        yield Problem(
            f"the text compares within {stated:g} %, the round allows {allowed:g} %", path=text.path,
            line=text.value_lines.get("tolerance"), found=stated, required=allowed,
        )  # fmt: skip


@rule("C112", ERROR, divisions=_JUDGED, when=_has_tests)
def test09_length(test: ComplianceTest, round: Round) -> Iterator[Problem]:
    """TEST09: the answers' mean length is within the round's limits, stated and computed again.

    Why: shorter answers than the reference's are less work.
    Fix: generate with the benchmark's own settings, and run TEST09 again.
    Source: compliance test TEST09: least and greatest mean output tokens of its audit.config.
    """
    if test.name != "TEST09" or not _needed(test):
        raise NotJudged
    text = _text(test, "verify_output_len.txt")
    settings = audit.settings_of(round, "TEST09", test.result.name, test.result.scenario)
    low, high = settings.get("test09_min_output_tokens"), settings.get("test09_max_output_tokens")
    yield from _failed_checks(text)
    if low is None or high is None:
        return
    stated = text.values.get("mean output tokens")
    line = text.value_lines.get("mean output tokens")
    if stated is None:
        if text.passes:
            yield Problem(
                f"{text.path} says TEST PASS and states no mean of output tokens; {float(low):g} to "
                f"{float(high):g} was asked for",
                path=text.path, required=[low, high], severity=WARNING,
            )  # fmt: skip
    elif not float(low) <= stated <= float(high):
        yield Problem(
            f"answers are {stated:g} tokens long on the mean, {float(low):g} to {float(high):g} was "
            "asked for",
            path=text.path, line=line, found=stated, required=[low, high],
        )  # fmt: skip
    counted = _mean_tokens(test)
    if counted is None:
        return
    if not float(low) <= counted <= float(high):
        yield Problem(
            f"the run's own log gives {counted:.2f} tokens an answer, {float(low):g} to "
            f"{float(high):g} was asked for",
            path=test.run.detail_path if test.run is not None else test.path, found=counted,
            required=[low, high],
        )  # fmt: skip
    elif stated is not None and abs(stated - counted) > _TOKEN_AGREEMENT * counted:
        yield Problem(
            f"{text.path} states a mean of {stated:g} tokens; the run's own log gives {counted:.2f}",
            path=text.path, line=line, found=stated, required=round_to(counted), severity=WARNING,
        )  # fmt: skip


def _mean_tokens(test: ComplianceTest) -> float | None:
    if test.tokens is not None and not test.tokens.truncated and test.tokens.records:
        return test.tokens.mean
    if test.run is not None and test.run.detail:
        return mean_output_tokens(test.run.detail)
    return None


def round_to(value: float, digits: int = 6) -> float:
    """A number with ``digits`` significant digits, as LoadGen prints one."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else value


@rule("C113", ERROR, divisions=_JUDGED, when=_has_tests, needs="detail")
def sampling_seed(run: ComplianceRun, round: Round) -> Iterator[Problem]:
    """The test sampled answers with the seed of its audit.config.

    Why: without it LoadGen logs no answers, or others than the ones everybody is compared by.
    Fix: put the test's audit.config, under that very name, into the working directory and run again.
    Source: compliance tests: accuracy_log_rng_seed of audit.config; LoadGen's effective settings.
    """
    for one in _differences(run, round):
        if one.key == "accuracy_log_rng_seed":
            yield _setting(run, one)


@rule("C114", WARNING, divisions=_JUDGED, when=_has_tests, needs="detail")
def audit_settings(run: ComplianceRun, round: Round) -> Iterator[Problem]:
    """The settings of the test's audit.config were in effect.

    Why: issue_same and the sampling target are what makes the run a test.
    Fix: put the test's audit.config, under that very name, into the working directory and run again.
    Source: compliance tests: audit.config of the round; LoadGen's requested and effective settings.
    """
    for one in _differences(run, round):
        if one.key not in ("accuracy_log_rng_seed", "mode") and not one.key.endswith("rng_seed"):
            yield _setting(run, one)


def _differences(run: ComplianceRun, round: Round) -> list[audit.Difference]:
    if run.test not in round.compliance:
        raise NotJudged
    detail = _detail(run)
    settings = audit.settings_of(round, run.test, run.result.name, run.scenario)
    if not settings:
        raise NotJudged
    return audit.differences(detail, settings)


def _setting(run: ComplianceRun, one: audit.Difference) -> Problem:
    found = "not logged" if one.found is None else one.found
    return Problem(
        f"{one.log_key} is {found} in {run.test}, its audit.config asks for {one.required}",
        path=run.detail_path, line=one.line, found=one.found, required=one.required,
    )  # fmt: skip


@rule("C115", WARNING, divisions=_JUDGED, when=_has_tests, needs="detail")
def audit_config_read(run: ComplianceRun, round: Round) -> Iterator[Problem]:
    """LoadGen read an audit.config file in the test's run.

    Why: under another name (audit.conf) or in another folder the file is not read, and the run is
    an ordinary one.
    Fix: put audit.config into the folder the run is started from, and run again.
    Source: LoadGen: it says so in a warning when it finds the file.
    """
    detail = _detail(run)
    if run.test not in round.compliance or detail.format != "mllog":
        raise NotJudged
    if not audit.audit_config_read(detail):
        yield Problem(
            f"{run.detail_path} has no record that an audit.config was read; {run.test} needs one",
            path=run.detail_path, required="Found Audit Config file",
        )  # fmt: skip


@rule("C116", ERROR, divisions=_JUDGED, when=_has_tests, needs="detail")
def test_run_valid(run: ComplianceRun, round: Round) -> Iterator[Problem]:
    """LoadGen called the test's performance run VALID.

    Why: TEST01, TEST04 and TEST05 are held to what holds for the submitted run.
    Fix: follow the recommendations at the end of mlperf_log_summary.txt and run the test again.
    Source: submission_rules.adoc, "Compliance testing": the performance run is a valid one.
    """
    if run.test not in _FULL_RUN or run.test not in round.compliance:
        raise NotJudged
    detail = _detail(run)
    validity = detail.text("result_validity")
    if validity != "VALID":
        said = validity or "not said to be VALID (no result_validity)"
        yield Problem(
            f"the run of {run.test} is {said}, VALID was asked for", path=run.detail_path,
            line=detail.line("result_validity"), found=validity, required="VALID",
        )  # fmt: skip


@rule("C117", ERROR, divisions=_JUDGED, when=_has_tests, needs="detail")
def test_run_without_errors(run: ComplianceRun, round: Round) -> Iterator[Problem]:
    """LoadGen recorded no error in the test's run.

    Why: an error record means that LoadGen could not run the test as it was set up.
    Fix: read the error's text in the log, mend its cause and run the test again. "Multiple conf
    files are used" means that the program calls FromConfig for audit.config: LoadGen reads it alone.
    Source: inference_rules.adoc, "LoadGen"; the log's records with is_error.
    """
    detail = _detail(run)
    lowered = _lowered(run)
    for entry in detail.errors:
        text = str(entry.value)
        known = any(part in text for part in round.loadgen.ignored_errors)
        if UNCOMMITTED in text or known or entry.key == "error_uncommitted_loadgen_changes":
            continue
        yield Problem(
            f"LoadGen recorded an error in {run.test}: {entry.key}: {text[:300]}",
            path=run.detail_path, line=entry.line, found=text[:300], required="no error record",
            severity=lowered,
        )  # fmt: skip


@rule("C118", ERROR, divisions=_JUDGED, when=_has_tests, needs="detail")
def test_run_mode(run: ComplianceRun, round: Round) -> Iterator[Problem]:
    """The test was run in performance mode.

    Why: the tests ask what the system does while it is measured.
    Fix: run the test with TestMode.PerformanceOnly (audit.config sets it).
    Source: compliance tests: mode = 2 in audit.config.
    """
    detail = _detail(run)
    if run.mode is not None and run.mode != "PerformanceOnly":
        yield Problem(
            f"the test mode of {run.test} is {run.mode}, PerformanceOnly was asked for",
            path=run.detail_path, line=detail.line("effective_test_mode"), found=run.mode,
            required="PerformanceOnly", severity=_lowered(run),
        )  # fmt: skip


@rule("C119", ERROR, divisions=_JUDGED, when=_has_tests, needs="detail")
def test_run_seeds(run: ComplianceRun, round: Round) -> Iterator[Problem]:
    """The test's run used the round's seeds; TEST05 used TEST05's.

    Why: TEST05 asks whether other seeds give another speed; all other tests issue the round's.
    Fix: use the round's LoadGen, and for TEST05 its audit.config, and run the test again.
    Source: inference_rules.adoc, "LoadGen"; compliance test TEST05: alternate seeds.
    """
    if run.test not in round.compliance:
        raise NotJudged
    if run.test != "TEST05":
        for problem in seed_problems(run, round):
            yield dataclasses.replace(problem, severity=_lowered(run))
        return
    if round.test05_seeds is None:
        raise NotJudged
    detail = _detail(run)
    for key in ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed"):
        required = getattr(round.test05_seeds, key)
        value = detail.integer(f"effective_{key}")
        if value is None or str(value) == required:
            continue
        hint = (
            "; these are the round's ordinary seeds"
            if str(value) == getattr(round.seeds, key)
            else ""
        )
        yield Problem(
            f"{key} is {value} in TEST05, its own is {required}{hint}", path=run.detail_path,
            line=detail.line(f"effective_{key}"), found=str(value), required=required,
        )  # fmt: skip


@rule("C120", ERROR, divisions=_JUDGED, when=_has_tests, needs="detail")
def test_run_scenario(run: ComplianceRun, round: Round) -> Iterator[Problem]:
    """The test was run in the scenario of the submitted run.

    Why: a test in another scenario says nothing about this result.
    Fix: run the test in the result's scenario, or put it into the folder it belongs to.
    Source: submission_rules.adoc, "Compliance testing": one set of tests a benchmark and scenario.
    """
    main = run.result.performance
    detail = _detail(run)
    if main is None or main.scenario is None or run.scenario is None:
        raise NotJudged
    if run.scenario != main.scenario:
        yield Problem(
            f"{run.test} was run in {run.scenario}, the submitted run in {main.scenario}",
            path=run.detail_path, line=detail.line("effective_scenario"), found=run.scenario,
            required=main.scenario, severity=_lowered(run),
        )  # fmt: skip


@rule("C121", ERROR, divisions=_JUDGED, when=_has_tests)
def test_performance(test: ComplianceTest, round: Round) -> Iterator[Problem]:
    """The test's run is as fast as the submitted run, within the test's tolerance.

    Why: TEST01 and TEST05 must not change the speed; TEST04 must not be faster, for that would
    show a cache.
    Fix: run both with the same build and settings; find out what the test makes faster or slower.
    Source: compliance tests TEST01, TEST04, TEST05: verify_performance, computed from both logs.
    """
    rules = round.compliance.get(test.name)
    if test.name not in _SPEED or rules is None or test.run is None:
        raise NotJudged
    tested: Run = test.run
    main: Run | None = test.result.performance
    if test.name == "TEST04-A":
        other = test.result.tests.get("TEST04-B")
        main, tested = test.run, other.run if other is not None and other.run else test.run
        if tested is main:
            raise NotJudged
    if main is None or main.scenario is None or main.scenario != tested.scenario:
        raise NotJudged
    tolerance = rules.performance_tolerance
    found = performance.compare(
        _detail(main), _detail(tested), test.name, main.scenario,
        0.10 if tolerance is None else tolerance, rules.low_latency_tolerance,
    )  # fmt: skip
    if found is None:
        raise NotJudged
    if not found.passed:
        bound = "at most" if found.one_sided else "within"
        first, second = (
            ("TEST04-A", "TEST04-B")
            if test.name == "TEST04-A"
            else ("the submitted run", test.name)
        )
        yield Problem(
            f"{second} gives {found.test:g} {found.unit}, {first} {found.reference:g} "
            f"({found.key}): {found.ratio:.4g} times; {bound} {found.tolerance * 100:g} % "
            f"{'above' if found.one_sided else 'of it'} is allowed",
            path=tested.detail_path, found=round_to(found.ratio),
            required=f"{'<= ' if found.one_sided else '1 +- '}"
            f"{1 + found.tolerance if found.one_sided else found.tolerance:g}",
        )  # fmt: skip


@rule("C122", WARNING, divisions=_JUDGED, when=_has_tests)
def stated_scores(test: ComplianceTest, round: Round) -> Iterator[Problem]:
    """The scores that verify_performance.txt states stand in the two runs' logs.

    Why: otherwise the text is of other runs than those submitted.
    Fix: run the verification script on the submitted logs.
    Source: compliance tests: verify_performance prints both runs' scores.
    """
    if test.name not in _SPEED or test.run is None:
        raise NotJudged
    text = _text(test, "verify_performance.txt")
    other = test.result.tests.get("TEST04-B")
    pairs: list[tuple[str, Run | None]] = [
        ("reference", test.result.performance), ("test", test.run),
        ("test04-a", test.run), ("test04-b", other.run if other is not None else None),
    ]  # fmt: skip
    judged = False
    for which, run in pairs:
        stated = text.scores.get(which)
        if stated is None or run is None or run.detail is None or not run.detail:
            continue
        judged = True
        if _occurs(run.detail, stated):
            continue
        now = performance.score(run.detail, run.scenario or "")
        yield Problem(
            f"{text.path} states a {which} score of {stated:g}, which is no result of {run.detail_path}"
            + (f" ({now[0]} is {now[1]:g})" if now is not None else ""),
            path=text.path, line=text.score_lines.get(which), found=stated,
            required=now[1] if now is not None else None,
        )  # fmt: skip
    if not judged:
        raise NotJudged


def _occurs(detail: DetailLog, stated: float) -> bool:
    for key in detail.entries:
        if not key.startswith(("result_", "early_stopping_latency")):
            continue
        value = detail.get(key)  # of any kind: which one it is is the question
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
        ):
            continue
        if same_value(value, stated) or (value > 0 and same_value(1e9 / value, stated)):
            return True
    return False


@rule("C123", ERROR, divisions=_JUDGED, when=_has_tests)
def stated_counts(test: ComplianceTest, round: Round) -> Iterator[Problem]:
    """The counts in verify_accuracy.txt agree with its verdict and with the data set.

    Why: a comparison of nothing passes anything.
    Fix: check that LoadGen read audit.config and logged answers; run the test and verify it again.
    Source: compliance test TEST01: num_* lines of verify_accuracy.txt.
    """
    if test.name not in ("TEST01", "TEST08"):
        raise NotJudged
    text = _text(test, "verify_accuracy.txt")
    counts = text.counts
    if not counts:
        raise NotJudged
    if counts.get("num_perf_log_entries") == 0:
        yield Problem(
            "no answers were sampled in the performance run (num_perf_log_entries = 0); was "
            "audit.config read?",
            path=text.path, line=text.count_lines.get("num_perf_log_entries"), found=0, required="> 0",
        )  # fmt: skip
    if text.passes:
        for key in ("num_perf_log_data_mismatch", "num_missing_qsl_idxs"):
            if counts.get(key):
                yield Problem(
                    f"{text.path} says TEST PASS with {key} = {counts[key]}; 0 was asked for",
                    path=text.path, line=text.count_lines.get(key), found=counts[key], required=0,
                )  # fmt: skip
    entries, matched = counts.get("num_perf_log_entries"), counts.get("num_perf_log_qsl_idx_match")
    if entries is not None and matched is not None and matched > entries:
        yield Problem(
            f"{matched} answers were matched of {entries} logged", path=text.path,
            line=text.count_lines.get("num_perf_log_qsl_idx_match"), found=matched, required=entries,
        )  # fmt: skip
    yield from _dataset(test, text)


def _dataset(test: ComplianceTest, text: Verification) -> Iterator[Problem]:
    benchmark = test.result.benchmark
    entries = text.counts.get("num_acc_log_entries")
    if benchmark is None or entries is None or benchmark.dataset.size is None:
        return
    size = benchmark.dataset.size
    if entries < (benchmark.dataset.least(test.result.scenario) or size):
        yield Problem(
            f"the accuracy log compared with held {entries} answers, the data set has {size} samples",
            path=text.path, line=text.count_lines.get("num_acc_log_entries"), found=entries,
            required=size, severity=WARNING,
        )  # fmt: skip


@rule("C124", ERROR, divisions=_JUDGED, when=_has_tests)
def test_run_is_its_own(result: Result, round: Round) -> Iterator[Problem]:
    """Every test has a run of its own, not a copy of the submitted run or of another test's.

    Why: two runs never have the same latencies to the nanosecond.
    Fix: run the test, and put its own logs into its folder.
    Source: submission_rules.adoc, "Compliance testing": each test is a run with its audit.config.
    """
    known: dict[tuple[float | None, ...], tuple[str, str]] = {}
    main = result.performance
    if not result.tests or main is None:
        raise NotJudged
    runs: list[tuple[str, Run | None]] = [("the submitted run", main)]
    runs.extend((name, test.run) for name, test in sorted(result.tests.items()))
    for name, run in runs:
        if run is None or run.detail is None:
            continue
        marks = tuple(run.detail.number(key) for key in _TRIPLE)
        if None in marks[:2]:
            continue
        before = known.setdefault(marks, (name, run.detail_path))
        if before[1] != run.detail_path:
            yield Problem(
                f"the log of {name} has the same latencies and query count as that of {before[0]} "
                f"({before[1]}); a run of its own was asked for",
                path=run.detail_path, line=run.detail.line("result_mean_latency_ns"),
                found=list(marks), required="another run",
            )  # fmt: skip


@rule("C125", ERROR, divisions=_JUDGED, when=_has_tests, needs="answers")
def test_answers_equal(test: ComplianceTest, round: Round) -> Iterator[Problem]:
    """Computed again: the logged answers of the test are those of the accuracy run.

    Why: the text can be written by hand; the answers themselves show whether it is true.
    Fix: run the accuracy run and the test with one build; where answers may differ bit by bit, add
    the two accuracy texts of the fallback.
    Source: compliance tests TEST01 and TEST08: the answers of both runs, sample by sample.
    """
    found = test.answers
    if found is None or (not found.compared and not found.missing):
        raise NotJudged
    path = test.accuracy_log.path if test.accuracy_log is not None else test.path
    text = test.verifications.get("verify_accuracy.txt")
    excused = text is not None and not text.passes and test.compliance is not None
    # In a log that was cut for publication a few answers say little: they may lie on the cut.
    lowered: Severity | None = NOTE if excused else None if found.whole else WARNING
    if found.mismatched:
        shown = ", ".join(str(s) for s in found.samples[:5])
        yield Problem(
            f"{found.mismatched} of {found.compared} answers differ from the accuracy run's (samples "
            f"{shown}); {found.describe()}",
            path=path, found=found.mismatched, required=0, severity=lowered,
        )  # fmt: skip
    if found.missing:
        yield Problem(
            f"{found.missing} answers are for samples that the accuracy run did not answer",
            path=path, found=found.missing, required=0, severity=lowered,
        )  # fmt: skip


@rule("C126", ERROR, divisions=_JUDGED, when=_has_tests, needs="accuracy_log")
def test_answers_logged(test: ComplianceTest, round: Round) -> Iterator[Problem]:
    """The test's log holds answers.

    Why: without audit.config LoadGen logs none in performance mode, and nothing was compared.
    Fix: put the test's audit.config, under that very name, into the working directory and run again.
    Source: compliance tests: accuracy_log_sampling_target of audit.config.
    """
    log = test.accuracy_log
    settings = audit.settings_of(round, test.name, test.result.name, test.result.scenario)
    if log is None or not settings.get("accuracy_log_sampling_target"):
        raise NotJudged
    held = None
    if test.answers is not None:
        held = test.answers.test_records if not test.answers.test_truncated else None
    elif test.tokens is not None:
        held = test.tokens.records if not test.tokens.truncated else None
    if log.size == 0 or held == 0:
        yield Problem(
            f"{log.path} holds no answers ({log.size} bytes): audit.config was not read",
            path=log.path, found=0, required="> 0 answers",
        )  # fmt: skip
    elif test.log_ends is not None and not (test.log_ends.begins and test.log_ends.ends):
        yield Problem(
            f"{log.path} is not LoadGen's list of answers, from its beginning to its end",
            path=log.path, found=f"{log.size} bytes", required='[ {"seq_id" : … ]',
        )  # fmt: skip


@rule("C127", WARNING, divisions=_JUDGED, when=_has_tests, needs="answers")
def test_answers_consistent(test: ComplianceTest, round: Round) -> Iterator[Problem]:
    """One sample has one answer in the test's log, and one in the accuracy run's.

    Why: several answers to one question show a system that does not answer the same twice.
    Fix: find out what changes between two answers; compare the accuracies where that is allowed.
    Source: compliance test TEST01: num_acc_log_data_mismatch.
    """
    found = test.answers
    if found is None:
        raise NotJudged
    path = test.accuracy_log.path if test.accuracy_log is not None else test.path
    for count, where in (
        (found.contradictions, "the test"), (found.reference_contradictions, "the accuracy run"),
    ):  # fmt: skip
        if count:
            yield Problem(
                f"{count} repeated samples have another answer than before in {where}", path=path,
                found=count, required=0,
            )  # fmt: skip


@rule("C128", WARNING, divisions=_JUDGED, when=_has_tests, needs="detail")
def test_run_same_system(run: ComplianceRun, round: Round) -> Iterator[Problem]:
    """The test was run with the submitted run's LoadGen and data set.

    Why: a test of another build says nothing about the submitted one.
    Fix: make the submitted run and its tests with one build and one QSL.
    Source: submission_rules.adoc, "Compliance testing": the tests are run on the submitted system.
    """
    main = run.result.performance
    detail = _detail(run)
    if main is None or main.detail is None or not main.detail:
        raise NotJudged
    # TEST07 has a data set of its own.
    same_data = run.test != "TEST07"
    for key, severity in (
        ("qsl_name", None), ("qsl_reported_total_count", None), ("sut_name", NOTE),
        ("loadgen_version", NOTE),
    ):  # fmt: skip
        if key.startswith("qsl_") and not same_data:
            continue
        mine, theirs = detail.get(key), main.detail.get(key)
        if mine is not None and theirs is not None and mine != theirs:
            yield Problem(
                f"{key} is {mine!r} in {run.test} and {theirs!r} in the submitted run",
                path=run.detail_path, line=detail.line(key), found=mine, required=theirs,
                severity=severity,
            )  # fmt: skip


@rule("C129", ERROR, divisions=_JUDGED, when=_has_tests, needs="detail")
def test_run_limits(run: ComplianceRun, round: Round) -> Iterator[Problem]:
    """The test's run keeps the round's sample count and latency bound.

    Why: TEST01, TEST04 and TEST05 are held to what holds for the submitted run.
    Fix: run the test with the settings of the submitted run, and the test's audit.config beside it.
    Source: submission_rules.adoc, "Compliance testing"; inference_rules.adoc, "Benchmarks".
    """
    benchmark, rules = run.result.benchmark, run.rules
    if run.test not in _FULL_RUN or run.test not in round.compliance or benchmark is None:
        raise NotJudged
    detail = _detail(run)
    least = benchmark.performance_sample_count
    count = detail.integer("effective_performance_sample_count")
    if least is not None and count is not None and count < least:
        yield Problem(
            f"performance_sample_count was {count} in {run.test}, the round asks for at least {least}",
            path=run.detail_path, line=detail.line("effective_performance_sample_count"),
            found=count, required=least,
        )  # fmt: skip
    bound = rules.target_latency_ns if rules is not None else None
    asked = detail.number("effective_target_latency_ns")
    if bound is not None and asked is not None and run.scenario == "Server" and not asked <= bound:
        yield Problem(
            f"target_latency was set to {asked / 1e6:g} ms in {run.test}, the round allows at most "
            f"{bound / 1e6:g} ms",
            path=run.detail_path, line=detail.line("effective_target_latency_ns"), found=asked,
            required=bound,
        )  # fmt: skip


@rule("C130", ERROR, divisions=_JUDGED, when=_has_tests)
def whole_set_answered(test: ComplianceTest, round: Round) -> Iterator[Problem]:
    """TEST07 and TEST09 answered the whole set of samples that the test asks for.

    Why: drawn with replacement, a run answers only some of the samples, some of them twice.
    Fix: issue every sample once (performance_issue_unique) and run the test again.
    Source: compliance tests TEST07 and TEST09: number of samples of their audit.config.
    """
    if test.name not in ("TEST07", "TEST09") or not _needed(test):
        raise NotJudged
    settings = audit.settings_of(round, test.name, test.result.name, test.result.scenario)
    asked = settings.get("min_query_count")
    if asked is None:
        raise NotJudged
    wanted = int(float(asked))
    found = test.tokens
    if found is not None and not found.truncated and found.samples < wanted:
        yield Problem(
            f"{found.samples} different samples were answered, {wanted} were asked for",
            path=test.accuracy_log.path if test.accuracy_log is not None else test.path,
            found=found.samples, required=wanted,
        )  # fmt: skip
    text = test.verifications.get(_TEXTS[test.name])
    stated = text.values.get("total samples") if text is not None else None
    if text is not None and stated is not None and stated < wanted:
        yield Problem(
            f"{text.path} is about {stated:g} samples, {wanted} were asked for", path=text.path,
            line=text.value_lines.get("total samples"), found=stated, required=wanted,
            severity=WARNING,
        )  # fmt: skip
