"""Family A: the accuracy run: was the model good enough, on the whole data set."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from checker import metrics
from checker.model import AccuracyRun, Result
from checker.parse.accuracy_txt import AccuracyText
from checker.rule import ERROR, NOTE, WARNING, NotJudged, Problem, rule
from checker.rules.performance import seed_problems
from schemas.round import Round

_HEX64 = re.compile(r"^[0-9a-fA-F]{64}$")
_EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def _text(run: AccuracyRun) -> AccuracyText:
    if run.text is None:
        raise NotJudged
    return run.text


@rule("A101", ERROR)
def accuracy_run_present(result: Result, round: Round) -> Iterator[Problem]:
    """The accuracy run is there: its folder and its detail log.

    Why: no performance counts unless the model reaches its accuracy.
    Fix: run LoadGen in AccuracyOnly mode and put its logs and accuracy.txt into accuracy/.
    Source: submission_rules.adoc, "Directory structure": accuracy.
    """
    if result.scope == "run" or result.endpoints is not None:
        raise NotJudged
    run = result.accuracy
    if run is None:
        yield Problem(
            f"{result.path} has no folder accuracy/", path=result.path, required="accuracy/"
        )
    elif run.detail is None:
        yield Problem(f"{run.path} has no mlperf_log_detail.txt", path=run.detail_path)


@rule("A102", ERROR)
def accuracy_text_present(run: AccuracyRun, round: Round) -> Iterator[Problem]:
    """accuracy.txt, the accuracy script's output, is there.

    Why: it holds the metric that is compared with the gate.
    Fix: run the benchmark's accuracy script on mlperf_log_accuracy.json and save its output.
    Source: submission_rules.adoc, "Directory structure": accuracy/accuracy.txt.
    """
    if run.text is None:
        yield Problem(f"{run.path} has no accuracy.txt", path=run.text_path)


@rule("A103", ERROR, needs="text")
def accuracy_metric_readable(run: AccuracyRun, round: Round) -> Iterator[Problem]:
    """accuracy.txt reports every metric of the benchmark.

    Why: a gate that cannot be read is not passed; an open result must state its accuracy too.
    Fix: save the whole output of the benchmark's accuracy script.
    Source: inference_rules.adoc, "Benchmarks": quality; open division: accuracy is reported.
    """
    text = _text(run)
    gates = run.result.gates
    if not text.lines:
        raise NotJudged
    lenient = run.division == "open" and not round.open_states_accuracy
    if run.result.benchmark is None:
        if not text.values:
            yield Problem(
                f"{text.path} states no accuracy metric that is known", path=text.path,
                severity=WARNING if lenient else None,
            )  # fmt: skip
        return
    wanted = list(dict.fromkeys(g.metric for g in [*gates, *run.result.limits]))
    missing = [metric for metric in wanted if not text.values.get(metric)]
    if missing and run.division == "open" and len(missing) < len(wanted):
        yield Problem(
            f"{text.path} does not state {', '.join(missing)}", path=text.path,
            found=sorted(text.values), required=wanted, severity=WARNING,
        )  # fmt: skip
    elif missing:
        yield Problem(
            f"{text.path} does not state {', '.join(missing)}; {run.result.name} is judged by "
            f"{', '.join(wanted)}",
            path=text.path, found=sorted(text.values), required=wanted,
            severity=WARNING if lenient else None,
        )  # fmt: skip


@rule("A104", ERROR, divisions=("closed", "network"))
def accuracy_gate(result: Result, round: Round) -> Iterator[Problem]:
    """Every accuracy metric reaches its target.

    Why: performance may not be bought with quality.
    Fix: raise the model's accuracy, or submit the result in the open division.
    Source: inference_rules.adoc, "Benchmarks": quality target, a factor of the reference model's.
    """
    for score in metrics.accuracy_of(result):
        if score.target is None or not math.isfinite(score.value) or score.value >= score.target:
            continue
        factor = (
            f"{score.factor:g} x {score.reference:g}" if score.factor else f"{score.reference:g}"
        )
        below = score.target - score.value
        yield Problem(
            f"{score.metric} is {score.value:g}, at least {score.target:.6g} ({factor}) was asked for; "
            f"{below:.4g} is missing. The result would stand in the open division",
            path=_where(result), line=_line(result, score.metric), found=score.value,
            required=score.target,
        )  # fmt: skip


@rule("A105", ERROR, divisions=("closed", "network"))
def accuracy_limit(result: Result, round: Round) -> Iterator[Problem]:
    """No accuracy metric exceeds its upper bound.

    Why: a longer or different output than the reference's is another workload.
    Fix: use the benchmark's generation settings, or submit the result in the open division.
    Source: inference_rules.adoc, "Benchmarks": upper bounds on output length and image metrics.
    """
    for score in metrics.accuracy_of(result):
        if score.limit is None or not math.isfinite(score.value) or score.value <= score.limit:
            continue
        yield Problem(
            f"{score.metric} is {score.value:g}, at most {score.limit:.6g} is allowed",
            path=_where(result), line=_line(result, score.metric), found=score.value,
            required=score.limit,
        )  # fmt: skip


def _where(result: Result) -> str:
    if result.accuracy is not None:
        return result.accuracy.text_path
    return f"{result.path}/accuracy/accuracy_results.json" if result.endpoints else result.path


def _line(result: Result, metric: str) -> int | None:
    run = result.accuracy
    if run is None or run.text is None:
        return None
    value = metrics.reported(run.text, metric, result.round)
    return value.line if value is not None else None


@rule("A106", ERROR, needs="text")
def accuracy_metric_sound(run: AccuracyRun, round: Round) -> Iterator[Problem]:
    """Accuracy metrics are finite and not negative.

    Why: NaN or infinity compares with no gate; it comes from a broken evaluation.
    Fix: mend the evaluation and run the accuracy script again.
    Source: inference_rules.adoc, "Benchmarks": quality.
    """
    text = _text(run)
    names = {g.metric for g in [*run.result.gates, *run.result.limits]} or set(text.values)
    for name in sorted(names):
        for value in text.values.get(name, [])[:20]:
            if not math.isfinite(value.value) or value.value < 0:
                yield Problem(
                    f"{name} is {value.text}; a finite number, 0 or more, was asked for", path=text.path,
                    line=value.line, found=value.text, required=">= 0",
                )  # fmt: skip


@rule("A107", ERROR, needs="text")
def accuracy_values_agree(run: AccuracyRun, round: Round) -> Iterator[Problem]:
    """Where accuracy.txt states a metric more than once, the values agree.

    Why: with two values a reader cannot know which one is the result's.
    Fix: save the output of one evaluation only.
    Source: accuracy scripts print each metric once.
    """
    text = _text(run)
    gates, limits = metrics.bounds_of(run.result)
    for name in sorted(set(gates) | set(limits)):
        values = [v for v in text.values.get(name, []) if math.isfinite(v.value)]
        if len({v.value for v in values}) < 2:
            continue
        counted = metrics.reported(text, name, round)
        if counted is None:
            continue
        verdicts = {metrics.passes(v.value, gates.get(name), limits.get(name)) for v in values}
        other = next((v for v in values if v.value != counted.value), counted)
        # Values on both sides of the gate leave the verdict open; on one side they do not.
        yield Problem(
            f"{name} is stated as {counted.text} on line {counted.line} and as {other.text} on line "
            f"{other.line}" + ("; one reaches the target and one does not" if len(verdicts) > 1 else ""),
            path=text.path, line=other.line, found=[counted.value, other.value], required="one value",
            severity=None if len(verdicts) > 1 and run.division != "open" else WARNING,
        )  # fmt: skip


@rule("A108", ERROR, needs="text")
def accuracy_hash_present(run: AccuracyRun, round: Round) -> Iterator[Problem]:
    """accuracy.txt ends with the accuracy log's hash.

    Why: it binds the published, shortened log to the whole one that the submitter keeps.
    Fix: run `assay truncate`, which shortens the log and adds the line hash=<SHA-256>.
    Source: submission_rules.adoc, "Truncation of accuracy logs".
    """
    text = _text(run)
    if not round.accuracy_log.hash_required or not text.lines:
        raise NotJudged
    if not text.hashes:
        yield Problem(
            f"{text.path} has no line hash=<SHA-256>", path=text.path, required="hash=<64 hex digits>",
            severity=WARNING if run.division == "open" else None,
        )  # fmt: skip


@rule("A109", ERROR, needs="text")
def accuracy_hash_sound(run: AccuracyRun, round: Round) -> Iterator[Problem]:
    """The hash is a SHA-256: 64 hexadecimal digits, and not that of an empty file.

    Why: any other word binds nothing.
    Fix: run `assay truncate` on the whole accuracy log.
    Source: submission_rules.adoc, "Truncation of accuracy logs"; SHA-256.
    """
    text = _text(run)
    if not round.accuracy_log.hash_required:
        raise NotJudged
    for value, line in text.hashes:
        if not _HEX64.match(value):
            yield Problem(
                f"hash={value[:80]} is not 64 hexadecimal digits", path=text.path, line=line,
                found=value[:80], required="64 hex digits",
            )  # fmt: skip
        elif value.lower() == _EMPTY_SHA256:
            yield Problem(
                "the hash is that of an empty file", path=text.path, line=line, found=value,
                required="the SHA-256 of mlperf_log_accuracy.json",
            )  # fmt: skip
    if len({value.lower() for value, _ in text.hashes}) > 1:
        yield Problem(
            f"{text.path} states {len(text.hashes)} hashes that differ", path=text.path,
            line=text.hashes[-1][1], found=[v for v, _ in text.hashes][:5], required="one hash",
            severity=WARNING,
        )  # fmt: skip


@rule("A110", ERROR)
def accuracy_log_present(run: AccuracyRun, round: Round) -> Iterator[Problem]:
    """The accuracy log mlperf_log_accuracy.json is there and not empty.

    Why: it holds the model's answers, from which the metric can be computed again.
    Fix: put LoadGen's mlperf_log_accuracy.json into accuracy/ and run `assay truncate`.
    Source: submission_rules.adoc, "Directory structure": accuracy/mlperf_log_accuracy.json.
    """
    if run.log_file is None:
        yield Problem(
            f"{run.path} has no mlperf_log_accuracy.json", path=f"{run.path}/mlperf_log_accuracy.json",
            severity=WARNING if run.division == "open" else None,
        )  # fmt: skip
    elif run.log_file.state != "file":
        yield Problem(
            f"{run.log_file.path} is not a readable file ({run.log_file.state})", path=run.log_file.path,
            found=run.log_file.state,
        )  # fmt: skip
    elif run.log_file.size == 0:
        yield Problem(
            f"{run.log_file.path} is empty", path=run.log_file.path, found=0, required="> 0 bytes"
        )


@rule("A111", ERROR, needs="log_file")
def accuracy_log_truncated(run: AccuracyRun, round: Round) -> Iterator[Problem]:
    """The accuracy log is shortened to what the round publishes.

    Why: whole logs reach many GB; the published tree keeps their ends and their hash.
    Fix: run `assay truncate TREE --backup FOLDER`; it keeps the whole log in the backup.
    Source: submission_rules.adoc, "Truncation of accuracy logs".
    """
    limit = round.accuracy_log.max_bytes
    file = run.log_file
    if limit is None or file is None:
        raise NotJudged
    if file.size > limit:
        yield Problem(
            f"{file.path} is {file.size} bytes, at most {limit} bytes are published", path=file.path,
            found=file.size, required=limit, severity=WARNING if run.division == "open" else None,
        )  # fmt: skip


@rule("A112", ERROR, needs=("detail", "result.benchmark"))
def dataset_covered(run: AccuracyRun, round: Round) -> Iterator[Problem]:
    """The accuracy run covered the whole data set.

    Why: accuracy on a part of the data set says nothing of the gate.
    Fix: let the QSL report the data set's size and run again.
    Source: inference_rules.adoc, "Benchmarks": data set; LoadGen's qsl_reported_total_count.
    """
    benchmark = run.result.benchmark
    if benchmark is None or benchmark.dataset.size is None or run.detail is None:
        raise NotJudged
    size = benchmark.dataset.size
    enough = benchmark.dataset.least(run.result.scenario) or size
    count = run.detail.integer("effective_accuracy_sample_count")
    total = run.detail.integer("qsl_reported_total_count")
    if count is None and total is None:
        yield Problem(
            f"{run.detail_path} does not state qsl_reported_total_count",
            path=run.detail_path,
            required=size,
        )
        return
    for key, found in (
        ("effective_accuracy_sample_count", count),
        ("qsl_reported_total_count", total),
    ):
        if found is not None and found < enough:
            yield Problem(
                f"the accuracy run covered {found} samples ({key}), the data set has {size}",
                path=run.detail_path, line=run.detail.line(key), found=found, required=size,
            )  # fmt: skip
            return


@rule("A113", ERROR, needs="detail")
def accuracy_mode(run: AccuracyRun, round: Round) -> Iterator[Problem]:
    """The accuracy run was made in accuracy mode.

    Why: performance mode logs no answers, or only some.
    Fix: run LoadGen with TestMode.AccuracyOnly for accuracy/.
    Source: inference_rules.adoc, "LoadGen": modes of operation.
    """
    mode = run.mode
    if mode not in ("AccuracyOnly", "SubmissionRun") and run.detail is not None:
        yield Problem(
            f"the test mode is {mode}, AccuracyOnly was asked for", path=run.detail_path,
            line=run.detail.line("effective_test_mode"), found=mode, required="AccuracyOnly",
        )  # fmt: skip


@rule("A114", WARNING, needs="detail")
def accuracy_seeds(run: AccuracyRun, round: Round) -> Iterator[Problem]:
    """The accuracy run used the round's announced seeds.

    Why: other seeds show that the official configuration was not loaded.
    Fix: use the LoadGen release of the round and run again.
    Source: mlperf.conf of the round; published accuracy logs with seeds 0 exist, so this only warns.
    """
    yield from seed_problems(run, round)


@rule("A115", WARNING, needs="detail")
def accuracy_scenario(run: AccuracyRun, round: Round) -> Iterator[Problem]:
    """The accuracy run was made in the performance run's scenario.

    Why: batching and scheduling differ between scenarios, and with them the answers can.
    Fix: run accuracy in the scenario of the folder.
    Source: submission_rules.adoc, "Directory structure": one accuracy run a scenario.
    """
    result = run.result
    allowed = {result.loadgen_scenario, result.inferred_from, result.scenario}
    if run.scenario is None or run.detail is None or result.scenario is None:
        raise NotJudged
    if run.scenario not in allowed:
        yield Problem(
            f"the accuracy run is of scenario {run.scenario}, the folder of {result.scenario}",
            path=run.detail_path, line=run.detail.line("effective_scenario"), found=run.scenario,
            required=result.loadgen_scenario,
        )  # fmt: skip


@rule("A116", WARNING, needs=("text", "result.benchmark"))
def accuracy_total(run: AccuracyRun, round: Round) -> Iterator[Problem]:
    """The number of samples that the accuracy script counted is the data set's.

    Why: a metric over fewer answers is a metric of a part of the data set.
    Fix: evaluate the whole accuracy log before it is shortened.
    Source: accuracy scripts print total=N.
    """
    benchmark = run.result.benchmark
    text = _text(run)
    if benchmark is None or benchmark.dataset.size is None or not text.totals:
        raise NotJudged
    total, line = text.totals[0]
    if total < benchmark.dataset.size:
        yield Problem(
            f"the accuracy script counted total={total} answers, the data set has {benchmark.dataset.size}",
            path=text.path, line=line, found=total, required=benchmark.dataset.size,
        )  # fmt: skip


@rule("A117", NOTE)
def accuracy_images(result: Result, round: Round) -> Iterator[Problem]:
    """The images or videos that the round asks for are beside the accuracy logs.

    Why: reviewers look at the same ten samples of every submission.
    Fix: save the outputs of the named samples into accuracy/images or accuracy/videos.
    Source: inference_rules.adoc, "Benchmarks"; publication strips them, so this is only a note.
    """
    benchmark = result.benchmark
    run = result.accuracy
    if benchmark is None or run is None or run.folder is None or result.division == "open":
        raise NotJudged
    for kind, wanted in (("images", benchmark.images), ("videos", benchmark.videos)):
        if not wanted:
            continue
        folder = run.folder.folder(kind)
        there = {name.rsplit(".", 1)[0] for name in folder.files} if folder is not None else set()
        missing = [stem for stem in wanted if stem not in there]
        if missing:
            yield Problem(
                f"{run.path}/{kind} lacks {len(missing)} of {len(wanted)} asked-for samples: "
                f"{', '.join(missing[:10])}",
                path=f"{run.path}/{kind}", found=len(wanted) - len(missing), required=len(wanted),
            )  # fmt: skip


@rule("A118", ERROR)
def accuracy_summary_present(run: AccuracyRun, round: Round) -> Iterator[Problem]:
    """The accuracy run's summary log is there.

    Why: it is one of the required files of the accuracy folder.
    Fix: put LoadGen's mlperf_log_summary.txt beside mlperf_log_detail.txt.
    Source: submission_rules.adoc, "Directory structure": accuracy.
    """
    if run.summary is None:
        yield Problem(f"{run.path} has no mlperf_log_summary.txt", path=run.summary_path)


@rule("A119", ERROR, needs="recomputed")
def accuracy_recomputed(run: AccuracyRun, round: Round) -> Iterator[Problem]:
    """The metric computed again from the accuracy log is the one that accuracy.txt states.

    Why: the gate is judged by accuracy.txt, which anybody can type.
    Fix: run the accuracy script on this run's mlperf_log_accuracy.json and save its output.
    Source: the log, the ground truth given with --data, and the metric's definition.
    """
    again = run.recomputed
    if again is None or (not again.scores and again.problem is None):
        raise NotJudged
    path = run.log_file.path if run.log_file is not None else run.path
    if again.problem is not None:
        yield Problem(
            f"the accuracy cannot be computed again: {again.problem}", path=path, severity=NOTE,
            fix="give the whole log and its ground truth",
        )  # fmt: skip
        return
    if again.hash_agrees is False:
        yield Problem(
            "the SHA-256 of the whole accuracy log is not the hash in accuracy.txt", path=path,
            found="another hash", required="the hash in accuracy.txt",
        )  # fmt: skip
    for name, value in sorted(again.scores.items()):
        stated = metrics.reported(run.text, name, round) if run.text is not None else None
        if stated is None:
            continue
        decimals = (
            len(stated.text.split(".")[1])
            if "." in stated.text and "e" not in stated.text.lower()
            else 0
        )
        room = max(0.6 * 10.0**-decimals, 1e-6 * abs(value))
        if abs(stated.value - value) > room:
            yield Problem(
                f"{name} is stated as {stated.text}; computed again from the log it is {value:.6g}",
                path=run.text_path, line=stated.line, found=stated.value, required=value,
            )  # fmt: skip


@rule("A121", ERROR, needs="log_ends")
def accuracy_log_is_loadgens(run: AccuracyRun, round: Round) -> Iterator[Problem]:
    """The accuracy log is LoadGen's list of answers, whole or shortened as the round asks.

    Why: what is not that list proves nothing, whatever its hash.
    Fix: put LoadGen's mlperf_log_accuracy.json into accuracy/ and shorten it with `assay truncate`.
    Source: LoadGen logging.cc; submission_rules.adoc, "Truncation of accuracy logs": both ends stay.
    """
    ends = run.log_ends
    if ends is None or run.log_file is None or not ends.size:
        raise NotJudged
    path = run.log_file.path
    if not ends.begins or not (ends.answers or ends.ends):
        yield Problem(
            f"{path} is no list of answers: it does not begin as LoadGen's does", path=path,
            found=f"{ends.size} bytes", required='[ {"seq_id" : …',
        )  # fmt: skip
    elif not ends.answers:
        yield Problem(
            f"{path} holds no answer", path=path, found=0, required="> 0",
            severity=WARNING if run.division == "open" else None,
        )  # fmt: skip
    elif not ends.ends:
        yield Problem(
            f"{path} is cut off: its end is not the end of LoadGen's list", path=path, required="]",
            severity=WARNING if run.division == "open" else None,
        )  # fmt: skip
