"""Families P and A for the endpoints kind of result (from v6.1): the same demands, made of
config.yaml, result_summary.json and accuracy_results.json instead of LoadGen's logs."""

from __future__ import annotations

import math
from collections.abc import Iterator

from checker.model import Result
from checker.parse.documents import Document
from checker.parse.endpoints import Endpoints, as_number
from checker.rule import ERROR, WARNING, NotJudged, Problem, rule
from schemas.round import Round


def _endpoints(result: Result) -> Endpoints:
    if result.endpoints is None:
        raise NotJudged
    return result.endpoints


def _path(result: Result, round: Round, kind: str) -> str:
    return f"{result.path}/{round.layout.endpoints.get(kind, kind)}"


def _document(result: Result, kind: str) -> Document | None:
    endpoints = _endpoints(result)
    return {
        "config": endpoints.config,
        "performance": endpoints.summary,
        "accuracy": endpoints.accuracy,
    }[kind]


@rule("P151", ERROR, needs="endpoints")
def endpoints_files(result: Result, round: Round) -> Iterator[Problem]:
    """An endpoints result holds its three documents.

    Why: they stand in for LoadGen's logs; a missing one leaves its part unproved.
    Fix: add the file that the endpoints client wrote.
    Source: the official checker of v6.1: layout of endpoints submissions.
    """
    for kind in ("config", "performance", "accuracy"):
        if _document(result, kind) is None:
            path = _path(result, round, kind)
            yield Problem(
                f"{path} is missing", path=path, required=round.layout.endpoints.get(kind)
            )


@rule("P152", ERROR, needs="endpoints")
def endpoints_documents(result: Result, round: Round) -> Iterator[Problem]:
    """The endpoints documents have the shape that the client writes.

    Why: a value of another type or a missing part cannot be judged.
    Fix: use the documents as the endpoints client wrote them.
    Source: schemas/endpoints_*.schema.json, made from published files.
    """
    import jsonschema

    from schemas import load_schema

    names = {
        "config": "endpoints_config",
        "performance": "endpoints_summary",
        "accuracy": "endpoints_accuracy",
    }
    for kind, schema in names.items():
        document = _document(result, kind)
        if document is None or document.faults:
            continue
        validator = jsonschema.Draft202012Validator(load_schema(schema))
        errors = sorted(
            validator.iter_errors(document.value), key=lambda e: [str(p) for p in e.absolute_path]
        )
        for error in errors[:20]:
            pointer = "/" + "/".join(str(p) for p in error.absolute_path)
            yield Problem(
                f"{document.path} {pointer}: {error.message[:300]}", path=document.path,
                pointer=pointer, found=str(error.instance)[:200],
            )  # fmt: skip


@rule("P153", ERROR, needs=("endpoints", "benchmark"))
def endpoints_benchmark(result: Result, round: Round) -> Iterator[Problem]:
    """The benchmark may be submitted through endpoints.

    Why: the round allows this kind of result for some benchmarks only.
    Fix: measure this benchmark with LoadGen.
    Source: the official checker of v6.1: models of endpoints submissions.
    """
    if (
        result.benchmark is not None
        and not result.benchmark.endpoints
        and result.division != "open"
    ):
        allowed = [name for name, b in round.benchmarks.items() if b.endpoints]
        yield Problem(
            f"{result.name} cannot be submitted through endpoints; {', '.join(allowed)} can",
            path=result.path, found=result.name, required=allowed,
        )  # fmt: skip


@rule("P154", ERROR, needs="endpoints.config")
def endpoints_seeds(result: Result, round: Round) -> Iterator[Problem]:
    """config.yaml uses the round's sample and schedule seeds.

    Why: announced seeds fix which samples are issued when, the same for everybody.
    Fix: set settings.runtime.dataloader_random_seed and scheduler_random_seed to the round's seeds.
    Source: inference_rules.adoc, "LoadGen"; the official checker compares these two.
    """
    endpoints = _endpoints(result)
    for key, required in (
        ("dataloader_random_seed", round.seeds.sample_index_rng_seed),
        ("scheduler_random_seed", round.seeds.schedule_rng_seed),
    ):
        found = endpoints.setting("settings", "runtime", key)
        if str(found) != required:
            yield Problem(
                f"settings.runtime.{key} is {found}, the round's is {required}",
                path=_path(result, round, "config"), pointer=f"/settings/runtime/{key}",
                found=str(found), required=required,
            )  # fmt: skip


@rule("P155", ERROR, needs="endpoints.summary")
def endpoints_complete(result: Result, round: Round) -> Iterator[Problem]:
    """The run ended, and every sample that was issued was answered.

    Why: a failed or missing answer is a lost query; the run is not valid.
    Fix: run again until no sample fails.
    Source: inference_rules.adoc: a run must be valid; result_summary.json: n_samples_failed, complete.
    """
    endpoints = _endpoints(result)
    path = _path(result, round, "performance")
    failed = endpoints.measured("n_samples_failed")
    if failed:
        yield Problem(
            f"n_samples_failed is {failed}, 0 was asked for",
            path=path,
            pointer="/n_samples_failed",
            found=failed,
            required=0,
        )
    issued, done = endpoints.number("n_samples_issued"), endpoints.number("n_samples_completed")
    if issued is not None and done is not None and done < issued:
        yield Problem(
            f"{done:g} of {issued:g} issued samples were completed",
            path=path,
            pointer="/n_samples_completed",
            found=done,
            required=issued,
        )
    if endpoints.measured("complete") is False or endpoints.measured("state") not in (
        None,
        "complete",
    ):
        yield Problem(
            f"the run's state is {endpoints.measured('state')!r}, complete {endpoints.measured('complete')}",
            path=path, pointer="/complete", found=endpoints.measured("state"), required="complete",
        )  # fmt: skip


@rule("P156", ERROR, needs=("endpoints", "rules"))
def endpoints_duration(result: Result, round: Round) -> Iterator[Problem]:
    """The run was set to last, and lasted, at least the round's minimum duration.

    Why: a short run shows neither thermal limits nor rare slow queries.
    Fix: raise settings.runtime.min_duration_ms and run again.
    Source: inference_rules.adoc, "Scenarios": minimum duration.
    """
    endpoints = _endpoints(result)
    rules = result.rules
    if rules is None:
        raise NotJudged
    if endpoints.config is not None:
        asked = as_number(endpoints.setting("settings", "runtime", "min_duration_ms"))
        if asked is not None and not asked >= rules.min_duration_ms:
            yield Problem(
                f"min_duration_ms is {asked:g}, the round asks for at least {rules.min_duration_ms}",
                path=_path(result, round, "config"), pointer="/settings/runtime/min_duration_ms",
                found=asked, required=rules.min_duration_ms,
            )  # fmt: skip
    lasted = endpoints.number("duration_ns")
    if lasted is not None and not lasted / 1e6 >= rules.min_duration_ms * 0.999:
        yield Problem(
            f"the run lasted {lasted / 1e9:g} s, the round asks for at least {rules.min_duration_ms / 1000:g} s",
            path=_path(result, round, "performance"), pointer="/duration_ns", found=lasted,
            required=rules.min_duration_ms * 1_000_000,
        )  # fmt: skip


@rule("P157", ERROR, needs=("endpoints.summary", "rules"))
def endpoints_latency(result: Result, round: Round) -> Iterator[Problem]:
    """Tail latencies are within the limits of the folder's scenario.

    Why: the result is the load at which the tail stays below the bounds.
    Fix: lower settings.load_pattern.target_qps and run again.
    Source: inference_rules.adoc, "Benchmarks": TTFT, TPOT and latency at the 99th percentile, by the
        early-stopping estimate.
    """
    endpoints = _endpoints(result)
    rules = result.rules
    if rules is None or result.scenario not in ("Server", "Interactive"):
        raise NotJudged
    percent = (rules.percentile or 0.99) * 100
    latency = (
        None
        if rules.token_latencies or not rules.target_latency_ns
        else rules.target_latency_ns / 1e6
    )
    for quantity, limit in (("ttft", rules.ttft_ms), ("tpot", rules.tpot_ms), ("latency", latency)):
        if limit is None:
            continue
        value = endpoints.percentile(quantity, percent, early=True)
        if value is None:
            value = endpoints.percentile(quantity, percent)
        path = _path(result, round, "performance")
        if value is None:
            yield Problem(
                f"{path} does not state the {percent:g}th percentile of {quantity}", path=path,
                pointer=f"/{quantity}", required=limit * 1e6,
            )  # fmt: skip
        elif not value <= limit * 1e6:
            yield Problem(
                f"the {percent:g}th percentile of {quantity} is {value / 1e6:.6g} ms, {result.scenario} allows at "
                f"most {limit:g} ms",
                path=path, pointer=f"/{quantity}", found=value, required=limit * 1e6,
            )  # fmt: skip


@rule("P158", WARNING, needs="endpoints.summary")
def endpoints_arithmetic(result: Result, round: Round) -> Iterator[Problem]:
    """The published rates follow from the counts and the duration.

    Why: the client computes them from these; where they disagree, one of them was changed.
    Fix: use result_summary.json as the endpoints client wrote it.
    Source: result_summary.json: qps and tps over the measuring window.
    """
    endpoints = _endpoints(result)
    done = endpoints.number("n_samples_completed")
    whole = endpoints.number("duration_ns")
    window = endpoints.number("legacy_loadgen_window_duration_ns")
    path = _path(result, round, "performance")
    tokens = endpoints.number("output_sequence_lengths", "total")
    for name, count in (("qps", done), ("tps", tokens)):
        rate = endpoints.number(name)
        if rate is None or count is None:
            continue
        computed = [count * 1e9 / span for span in (window, whole) if span]
        if computed and not any(abs(rate - value) <= 1e-3 * abs(value) for value in computed):
            yield Problem(
                f"{name} is {rate:g}, but {count:g} over the run's time gives {computed[0]:.6g}",
                path=path, pointer=f"/{name}", found=rate, required=computed[0],
            )  # fmt: skip


@rule("A151", ERROR, needs=("endpoints.accuracy", "benchmark"))
def endpoints_accuracy_complete(result: Result, round: Round) -> Iterator[Problem]:
    """The accuracy report scores every sample of the data set, and says so.

    Why: a score over a part of the data set says nothing of the gate.
    Fix: let the accuracy run end and score every answer.
    Source: accuracy_results.json: complete, total_samples, response_counts.
    """
    endpoints = _endpoints(result)
    path = _path(result, round, "accuracy")
    entries = endpoints.accuracy.fields.get("accuracy_scores") if endpoints.accuracy else None
    size = result.benchmark.dataset.size if result.benchmark is not None else None
    scored = 0
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        if not isinstance(entry, dict) or entry.get("dataset_type") == "performance":
            continue
        if entry.get("complete") is False:
            yield Problem(
                f"accuracy_scores[{index}] is not complete",
                path=path,
                pointer=f"/accuracy_scores/{index}/complete",
                found=False,
                required=True,
            )
        counts = entry.get("response_counts")
        missing = as_number(counts.get("missing")) if isinstance(counts, dict) else None
        if missing:
            yield Problem(
                f"{missing:g} answers are missing in accuracy_scores[{index}]",
                path=path,
                pointer=f"/accuracy_scores/{index}/response_counts/missing",
                found=missing,
                required=0,
            )
        unit = as_number(entry.get("unit_samples"))
        scored += int(unit) if unit is not None and math.isfinite(unit) else 0
    if size is not None and scored and scored < size:
        yield Problem(
            f"{scored} samples were scored, the data set has {size}", path=path,
            pointer="/accuracy_scores", found=scored, required=size,
        )  # fmt: skip


@rule("A152", ERROR, needs=("endpoints.accuracy", "benchmark"))
def endpoints_accuracy_sound(result: Result, round: Round) -> Iterator[Problem]:
    """The accuracy report holds a finite score for every metric of the benchmark.

    Why: a gate that cannot be read is not passed.
    Fix: score the answers with the benchmark's evaluation and save its report.
    Source: accuracy_results.json: accuracy_scores[].score.
    """
    from checker import metrics

    scores = metrics.endpoints_scores(result)
    path = _path(result, round, "accuracy")
    for gate in result.gates:
        value = scores.get(gate.metric)
        if value is None:
            # Output lengths stand in the performance report, which may lack them.
            optional = gate.metric == "TOKENS_PER_SAMPLE"
            yield Problem(
                f"{path} states no {gate.metric}", path=path, found=sorted(scores),
                required=gate.metric, severity=WARNING if optional else None,
            )  # fmt: skip
        elif not math.isfinite(value) or value < 0:
            yield Problem(
                f"{gate.metric} is {value}; a finite number, 0 or more, was asked for", path=path,
                found=str(value), required=">= 0",
            )  # fmt: skip


@rule("C151", ERROR, needs=("endpoints", "rules"), divisions=("closed", "network"))
def endpoints_audits(result: Result, round: Round) -> Iterator[Problem]:
    """The compliance documents of an endpoints result say that their test passed.

    Why: they stand in for the compliance tests' logs.
    Fix: run the named test with the endpoints client and add its document.
    Source: the official checker of v6.1: audit/audit_*.json with test and passed.
    """
    endpoints = _endpoints(result)
    folder = f"{result.path}/{round.layout.endpoints.get('audit', 'audit')}"
    rules = result.rules
    for name in rules.compliance if rules is not None else []:
        test = round.compliance.get(name)
        if test is None or test.endpoints_file is None:
            continue
        document = endpoints.audits.get(test.endpoints_file)
        path = f"{folder}/{test.endpoints_file}"
        if document is None:
            if result.name in test.endpoints_required:
                yield Problem(
                    f"{path} is missing: {name} is asked for",
                    path=path,
                    required=test.endpoints_file,
                )
            continue
        if document.fields.get("passed") is not True:
            yield Problem(
                f"{name}: passed is {document.fields.get('passed')!r}, true was asked for", path=path,
                pointer="/passed", found=document.fields.get("passed"), required=True,
            )  # fmt: skip
        if document.fields.get("test") not in (None, name):
            yield Problem(
                f"{path} is of test {document.fields.get('test')!r}, {name} was asked for", path=path,
                pointer="/test", found=document.fields.get("test"), required=name,
            )  # fmt: skip
