"""Families P, A and C for the endpoints kind of result (from v6.1): config.yaml,
result_summary.json and accuracy_results.json take the place of LoadGen's logs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from checker import metrics
from checker.model import Result
from checker.parse.documents import Document
from checker.parse.endpoints import Endpoints, as_number
from checker.rule import ERROR, WARNING, Problem, rule
from checker.wording import listed, milliseconds, number, pair, quantity, shown
from schemas.round import Benchmark, Round, Scenario

_KINDS = ("config", "performance", "accuracy")
_SCHEMAS = {
    "config": "endpoints_config",
    "performance": "endpoints_summary",
    "accuracy": "endpoints_accuracy",
}
_MAX_SHOWN = 20
_TIMER_SLACK = 0.999
"""A measured duration may fall short of the setting by the client's own timer."""


@rule("P151", ERROR, cases={"config-beside-summary": WARNING})
def endpoints_files(result: Result, round: Round, endpoints: Endpoints) -> Iterator[Problem]:
    """An endpoints result has its three documents, under their names.

    Why: they take the place of LoadGen's logs; what a missing one holds cannot be checked.
    Fix: add the file that the endpoints client wrote.
    Source: the official checker of v6.1: layout of endpoints submissions.
    """
    for kind in _KINDS:
        expected = round.layout.endpoints[kind]
        path = f"{result.path}/{expected}"
        document = endpoints.document(kind)
        if document is None:
            yield Problem(f"found no {expected}", path=path, required=expected)
            continue
        found = document.path.removeprefix(f"{result.path}/")
        if found in (expected, "config.yml"):
            continue
        folder, _, name = found.rpartition("/")
        beside = kind == "config" and folder == "performance" and name == expected
        yield Problem(
            f"found {found}; expected {expected}",
            path=document.path,
            found=found,
            required=expected,
            fix=f"git mv {document.path} {path}",
            case="config-beside-summary" if beside else None,
        )


@rule("P152", ERROR)
def endpoints_documents(result: Result, round: Round, endpoints: Endpoints) -> Iterator[Problem]:
    """The endpoints documents have the structure that the client writes.

    Why: a value of another type or a missing part cannot be judged.
    Fix: use the documents as the endpoints client wrote them.
    Source: schemas/endpoints_*.schema.json, made from published files.
    """
    import jsonschema

    from schemas import load_schema

    for kind, schema in _SCHEMAS.items():
        document = endpoints.document(kind)
        if document is None or document.faults:
            continue
        validator = jsonschema.Draft202012Validator(load_schema(schema))
        errors = sorted(
            validator.iter_errors(document.value), key=lambda e: [str(p) for p in e.absolute_path]
        )
        for error in errors[:_MAX_SHOWN]:
            pointer = "/" + "/".join(str(p) for p in error.absolute_path)
            yield Problem(
                _misfit(pointer, error),
                path=document.path,
                pointer=pointer,
                found=shown(error.instance),
            )


def _misfit(pointer: str, error: Any) -> str:
    """One error of the JSON Schema validator in words."""
    wanted = error.validator_value
    if error.validator == "required":
        missing = [key for key in wanted if key not in error.instance]
        return f"found no {listed(missing)} in {pointer}"
    if error.validator == "type":
        types = [wanted] if isinstance(wanted, str) else wanted
        return f"{pointer} is {shown(error.instance)}; expected {listed(types, 'or')}"
    if error.validator == "minimum":
        return f"{pointer} is {shown(error.instance)}; expected {number(wanted)} or more"
    if error.validator == "pattern":
        return f"found the key {shown(error.instance)} in {pointer}; expected a percentile, as 99.0"
    return f"{pointer} is {shown(error.instance)}; expected {error.validator} {shown(wanted)}"


@rule("P153", ERROR, divisions=("closed", "network"), needs="endpoints")
def endpoints_benchmark(result: Result, round: Round, benchmark: Benchmark) -> Iterator[Problem]:
    """The benchmark may be submitted through endpoints.

    Why: the round allows this kind of result for some benchmarks only.
    Fix: measure this benchmark with LoadGen.
    Source: the official checker of v6.1: models of endpoints submissions.
    """
    if not benchmark.endpoints:
        allowed = [name for name, other in round.benchmarks.items() if other.endpoints]
        yield Problem(
            f"found an endpoints result of {result.name}; expected one of "
            f"{listed(allowed, 'or', limit=len(allowed))}",
            found=result.name,
            required=allowed,
        )


@rule("P154", ERROR, needs={"config": "endpoints.config"})
def endpoints_seeds(
    result: Result, round: Round, endpoints: Endpoints, config: Document
) -> Iterator[Problem]:
    """config.yaml uses the round's sample and schedule seeds.

    Why: announced seeds decide which samples are issued and when, the same for every submitter.
    Fix: set settings.runtime.dataloader_random_seed and scheduler_random_seed to the round's seeds.
    Source: inference_rules.adoc, "LoadGen"; the official checker compares these two.
    """
    if config.value is None:
        return
    for key, required in (
        ("dataloader_random_seed", round.seeds.sample_index_rng_seed),
        ("scheduler_random_seed", round.seeds.schedule_rng_seed),
    ):
        found = endpoints.setting("settings", "runtime", key)
        if str(found) != required:
            # A seed is a name, not a quantity: no thousands separators.
            text = str(found) if isinstance(found, int) else shown(found)
            yield Problem(
                f"settings.runtime.{key} is {text}; expected {required}",
                path=config.path,
                pointer=f"/settings/runtime/{key}",
                found=found,
                required=required,
            )


@rule("P155", ERROR, needs={"summary": "endpoints.summary"})
def endpoints_complete(
    result: Result, round: Round, endpoints: Endpoints, summary: Document
) -> Iterator[Problem]:
    """The run ended, and every sample that was issued was answered.

    Why: a failed or missing answer is a lost query; the run is not valid.
    Fix: run again until no sample fails.
    Source: inference_rules.adoc: a run must be valid; result_summary.json: n_samples_failed, complete.
    """
    failed = endpoints.measured("n_samples_failed")
    if failed:
        yield Problem(
            f"n_samples_failed is {shown(failed)}; expected 0",
            path=summary.path,
            pointer="/n_samples_failed",
            found=failed,
            required=0,
        )
    issued, done = endpoints.number("n_samples_issued"), endpoints.number("n_samples_completed")
    if issued is not None and done is not None and done < issued:
        yield Problem(
            f"n_samples_completed is {number(done)}; expected {number(issued)}, as many as issued",
            path=summary.path,
            pointer="/n_samples_completed",
            found=done,
            required=issued,
        )
    complete, state = endpoints.measured("complete"), endpoints.measured("state")
    if complete is False or state not in (None, "complete"):
        yield Problem(
            f"state is {shown(state)} and complete is {shown(complete)}; expected a run that ended",
            path=summary.path,
            pointer="/complete",
            found=state,
            required="complete",
        )


@rule("P156", ERROR, cases={"offline-ended-early": WARNING})
def endpoints_duration(
    result: Result, round: Round, endpoints: Endpoints, rules: Scenario
) -> Iterator[Problem]:
    """The run was set to last at least the round's minimum duration, and did.

    Why: a short run shows neither thermal limits nor rare slow queries. Offline issues all samples
    at once, so that its measured time may be shorter than the setting.
    Fix: raise settings.runtime.min_duration_ms and run again.
    Source: inference_rules.adoc, "Scenarios": minimum duration.
    """
    least = rules.min_duration_ms
    asked = as_number(endpoints.setting("settings", "runtime", "min_duration_ms"))
    if endpoints.config is not None and asked is not None and not asked >= least:
        yield Problem(
            f"min_duration_ms is {quantity(asked, 'ms')}; expected at least {quantity(least, 'ms')}",
            path=endpoints.config.path,
            pointer="/settings/runtime/min_duration_ms",
            found=asked,
            required=least,
        )
    lasted = endpoints.number("duration_ns")
    if endpoints.summary is None or lasted is None or lasted / 1e6 >= least * _TIMER_SLACK:
        return
    decided = asked is not None and asked >= least and result.scenario == "Offline"
    yield Problem(
        f"the run lasted {quantity(lasted / 1e9, 's')}; expected at least "
        f"{quantity(least / 1000, 's')}",
        path=endpoints.summary.path,
        pointer="/duration_ns",
        found=lasted,
        required=least * 1_000_000,
        case="offline-ended-early" if decided else None,
    )


@rule("P157", ERROR, needs={"summary": "endpoints.summary"})
def endpoints_latency(
    result: Result, round: Round, endpoints: Endpoints, summary: Document, rules: Scenario
) -> Iterator[Problem]:
    """Tail latencies are within the limits of the folder's scenario.

    Why: the result is the load at which the tail stays below the limits.
    Fix: lower settings.load_pattern.target_qps and run again.
    Source: inference_rules.adoc, "Benchmarks": TTFT, TPOT and latency at the 99th percentile, by the
        early-stopping estimate.
    """
    if summary.value is None or result.scenario not in ("Server", "Interactive"):
        return
    percent = (rules.percentile or 0.99) * 100
    latency = None if rules.token_latencies else rules.target_latency_ns
    for name, limit in (
        ("ttft", rules.ttft_ms and rules.ttft_ms * 1e6),
        ("tpot", rules.tpot_ms and rules.tpot_ms * 1e6),
        ("latency", latency),
    ):
        if not limit:
            continue
        # The estimate is null where the samples are too few for it.
        value = endpoints.percentile(name, percent, early=True)
        if value is None:
            value = endpoints.percentile(name, percent)
        if value is None or not value <= limit:
            found = milliseconds(value)
            expected = milliseconds(limit)
            if value is not None:
                found, expected = pair(value / 1e6, limit / 1e6, "ms")
            yield Problem(
                f"the {number(percent)}th percentile of {name} is {found}; {result.scenario} allows "
                f"at most {expected}",
                path=summary.path,
                pointer=f"/{name}",
                found=value,
                required=limit,
            )


@rule("P158", WARNING, cases={"published": ERROR}, needs={"summary": "endpoints.summary"})
def endpoints_arithmetic(
    result: Result, round: Round, endpoints: Endpoints, summary: Document
) -> Iterator[Problem]:
    """The rates follow from the counts and the duration.

    Why: the client computes them from these; where they disagree, one of them was changed, or has
    another unit. An error where the rate is the result's published metric.
    Fix: use result_summary.json as the endpoints client wrote it.
    Source: result_summary.json: qps and tps over the measuring window.
    """
    metric = metrics.metric_of(result)
    spans = [
        endpoints.number("legacy_loadgen_window_duration_ns"),
        endpoints.number("duration_ns"),
    ]
    for name, unit, count in (
        ("qps", "samples/s", endpoints.number("n_samples_completed")),
        ("tps", "tokens/s", endpoints.number("output_sequence_lengths", "total")),
    ):
        rate = endpoints.number(name)
        if rate is None or count is None:
            continue
        computed = [count * 1e9 / span for span in spans if span]
        if not computed or any(abs(rate - value) <= 1e-3 * abs(value) for value in computed):
            continue
        found, expected = pair(rate, computed[0], unit)
        yield Problem(
            f"{name} is {found}; expected {expected} ({number(count)} {unit.removesuffix('/s')} in the "
            "run's time)",
            path=summary.path,
            pointer=f"/{name}",
            found=rate,
            required=computed[0],
            case="published" if metric is not None and metric.name == name else None,
        )


@rule("A151", ERROR, needs={"accuracy": "endpoints.accuracy"})
def endpoints_accuracy_complete(
    result: Result, round: Round, accuracy: Document, benchmark: Benchmark
) -> Iterator[Problem]:
    """The accuracy report scores every sample that the scenario requires.

    Why: a score over a part of the data set does not show that the target is reached.
    Fix: let the accuracy run end and score every answer.
    Source: accuracy_results.json: complete, total_samples (unit_samples, num_repeats times),
        response_counts; the official checker of v6.1: samples of each scenario.
    """
    entries = accuracy.fields.get("accuracy_scores")
    counts = []
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        if not isinstance(entry, dict) or entry.get("dataset_type") == "performance":
            continue
        if entry.get("complete") is False:
            yield Problem(
                f"accuracy_scores[{index}].complete is false; expected true",
                path=accuracy.path,
                pointer=f"/accuracy_scores/{index}/complete",
                found=False,
                required=True,
            )
        responses = entry.get("response_counts")
        missing = as_number(responses.get("missing")) if isinstance(responses, dict) else None
        if missing:
            yield Problem(
                f"found {quantity(missing, 'missing answer')} in accuracy_scores[{index}]; expected 0",
                path=accuracy.path,
                pointer=f"/accuracy_scores/{index}/response_counts/missing",
                found=missing,
                required=0,
            )
        scored = _scored(entry)
        if scored is not None:
            counts.append(scored)
    expected = benchmark.dataset.least(result.scenario)
    if expected is None or accuracy.value is None:
        return
    if not sum(counts) >= expected:
        yield Problem(
            f"found {quantity(sum(counts), 'scored sample')}; expected at least {number(expected)}",
            path=accuracy.path,
            pointer="/accuracy_scores",
            found=sum(counts),
            required=expected,
        )


def _scored(entry: dict[str, Any]) -> float | None:
    """How many samples an entry scores: its total, but no more than its unit times its repeats."""
    unit, total = as_number(entry.get("unit_samples")), as_number(entry.get("total_samples"))
    repeats = as_number(entry.get("num_repeats", 1))
    stated = [total] if total is not None else []
    if unit is not None and repeats is not None:
        stated.append(unit * repeats)
    return min(stated, default=None)


@rule("A152", ERROR, cases={"no-token-count": WARNING}, needs={"accuracy": "endpoints.accuracy"})
def endpoints_accuracy_sound(
    result: Result, round: Round, endpoints: Endpoints, accuracy: Document, benchmark: Benchmark
) -> Iterator[Problem]:
    """The accuracy report holds a finite score for every metric of the benchmark.

    Why: a target that cannot be compared is not reached.
    Fix: score the answers with the benchmark's evaluation and save its report.
    Source: accuracy_results.json: accuracy_scores[].score.
    """
    scores = metrics.endpoints_scores(result)
    for gate in result.gates:
        value = scores.get(gate.metric)
        counted = gate.metric == "TOKENS_PER_SAMPLE"
        if counted and value is None and endpoints.summary is None:
            # The performance report counts tokens; that it is missing is P151.
            continue
        if value is None:
            yield Problem(
                f"found no {gate.metric}; expected a score for every metric of the benchmark",
                path=accuracy.path,
                found=sorted(scores),
                required=gate.metric,
                case="no-token-count" if counted else None,
            )
        elif not math.isfinite(value) or value < 0:
            yield Problem(
                f"{gate.metric} is {number(value)}; expected a finite number, 0 or more",
                path=accuracy.path,
                found=str(value),
                required=">= 0",
            )


@rule("C151", ERROR, divisions=("closed", "network"))
def endpoints_audits(
    result: Result, round: Round, endpoints: Endpoints, rules: Scenario
) -> Iterator[Problem]:
    """The compliance documents of an endpoints result show that their test passed.

    Why: they take the place of the compliance tests' logs.
    Fix: run the named test with the endpoints client and add its document.
    Source: the official checker of v6.1: audit/audit_*.json with test and passed.
    """
    folder = f"{result.path}/{round.layout.endpoints['audit']}"
    for name in rules.compliance:
        test = round.compliance.get(name)
        if test is None or test.endpoints_file is None:
            continue
        document = endpoints.audits.get(test.endpoints_file)
        if document is None:
            if result.name in test.endpoints_required:
                yield Problem(
                    f"found no {test.endpoints_file}; expected it, as {name} is required",
                    path=f"{folder}/{test.endpoints_file}",
                    required=test.endpoints_file,
                )
            continue
        if document.faults:
            continue
        passed, stated = document.fields.get("passed"), document.fields.get("test")
        if passed is not True:
            yield Problem(
                f"passed is {shown(passed)}; expected true",
                path=document.path,
                pointer="/passed",
                found=passed,
                required=True,
            )
        if stated != test.endpoints_name:
            yield Problem(
                f'test is {shown(stated)}; expected "{test.endpoints_name}" ({name})',
                path=document.path,
                pointer="/test",
                found=stated,
                required=test.endpoints_name,
            )
        tolerance = test.endpoints_tolerance.get(result.scenario or "")
        if tolerance is not None:
            yield from _rates(document, tolerance)


def _rates(document: Document, tolerance: float) -> Iterator[Problem]:
    """Whether the test's rate exceeds the reference's by no more than the tolerance."""
    threshold = as_number(document.fields.get("threshold"))
    if threshold is not None and not threshold <= tolerance:
        yield Problem(
            f"threshold is {number(threshold)}; expected {number(tolerance)}",
            path=document.path,
            pointer="/threshold",
            found=threshold,
            required=tolerance,
        )
    reference = as_number(document.fields.get("ref_qps"))
    rate = as_number(document.fields.get("audit_qps"))
    if reference is None or rate is None:
        return
    limit = reference * (1 + tolerance)
    if not rate < limit:
        found, expected = pair(rate, limit, "samples/s")
        yield Problem(
            f"audit_qps is {found}; expected less than {expected}, the reference's rate and "
            f"{number(tolerance * 100)}%",
            path=document.path,
            pointer="/audit_qps",
            found=rate,
            required=limit,
        )
