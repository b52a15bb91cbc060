"""Family M: the measurements document, user.conf and what stands beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from checker.model import Result
from checker.parse.detail import DetailLog
from checker.parse.documents import Document
from checker.parse.reading import Folder
from checker.parse.user_conf import Conf, Setting
from checker.rule import ERROR, NOTE, WARNING, NotJudged, Problem, rule
from checker.rules.structure import MAX_HINTS, listed, nearest
from schemas.report import Severity
from schemas.round import Round

MAX_TEXT = 20_000
"""Longest text in characters that a field may hold; published ones stay below 1000."""

_REL = 1e-5
"""LoadGen logs numbers with six significant digits."""

_TYPES = {
    "fp64", "fp32", "fp16", "fp8", "fp6", "fp4", "bf16", "bfloat16", "bfloat8", "tf32", "float64",
    "float32", "float16", "float8", "float4", "int64", "int32", "int16", "int8", "int4", "int2",
    "int1",
    "uint64", "uint32", "uint16", "uint8", "uint4", "mxfp8", "mxfp6", "mxfp4", "mxint8", "nvfp4",
    "nf4",
    "hf8", "bool", "binary", "ternary", "string", "text", "utf-8", "utf8", "fp11", "fp9", "bfp16",
    "msfp",
    "hybrid", "mixed", "double", "half", "long", "w4a8", "w8a8", "w4a16", "w8a16",
}  # fmt: skip
_NO = {"no", "n", "none", "false", "not", "no.", "nope", "0", "n/a", "na"}
_YES = {"yes", "y", "true", "retrained", "1", "qat"}

_SEEDS = {"qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed"}
_RULED = {
    "target_latency_percentile": "the percentile is the round's",
    "sample_concatenate_permutation": "the equal-issue mode is the round's",
    "ttft_latency": "the token latency limits are the round's",
    "tpot_latency": "the token latency limits are the round's",
    "use_token_latencies": "whether token latencies count is the round's",
    "accuracy_log_rng_seed": "it belongs to a compliance test's audit.config",
    "accuracy_log_probability": "it belongs to a compliance test's audit.config",
    "accuracy_log_sampling_target": "it belongs to a compliance test's audit.config",
    "performance_issue_unique": "it belongs to a compliance test's audit.config",
    "performance_issue_same": "it belongs to a compliance test's audit.config",
    "performance_issue_same_index": "it belongs to a compliance test's audit.config",
    "mode": "it belongs to a compliance test's audit.config",
    "test05": "it belongs to a compliance test's audit.config",
}
_FREE = {
    "target_qps", "target_latency", "min_duration", "max_duration", "min_query_count",
    "max_query_count", "performance_sample_count", "performance_sample_count_override",
    "coalesce_queries", "max_async_queries", "samples_per_query", "multi_stream_samples_per_query",
    "target_duration", "accuracy_sample_count_override", "print_timestamps",
    "server_num_issue_query_threads", "num_issue_query_threads", "token_latency_scaling_factor",
    "infer_token_latencies", "server_find_peak_qps_decimals_of_precision",
    "server_find_peak_qps_boundary_step_size", "target_qps_rampup", "multi_stream_target_qps",
    "multi_stream_max_async_queries",
}  # fmt: skip

_LOGGED = {
    ("min_duration", None): ("requested_min_duration_ms", 1.0, "ms"),
    ("max_duration", None): ("requested_max_duration_ms", 1.0, "ms"),
    ("min_query_count", None): ("requested_min_query_count", 1.0, "queries"),
    ("max_query_count", None): ("requested_max_query_count", 1.0, "queries"),
    ("performance_sample_count_override", None): (
        "requested_performance_sample_count_override", 1.0, "samples",
    ),
    ("target_qps", "Server"): ("requested_server_target_qps", 1.0, "queries/s"),
    ("target_qps", "Offline"): ("requested_offline_expected_qps", 1.0, "samples/s"),
    ("target_latency", "Server"): ("requested_server_target_latency_ns", 1e6, "ns"),
    ("target_latency", "SingleStream"): ("requested_single_stream_expected_latency_ns", 1e6, "ns"),
    ("target_latency", "MultiStream"): ("requested_multi_stream_expected_latency_ns", 1e6, "ns"),
    ("samples_per_query", "MultiStream"): ("requested_multi_stream_samples_per_query", 1.0,
    "samples"),
}  # fmt: skip


def _folder(result: Result) -> Folder:
    """The folder of the measurements. Raises NotJudged where it was not given to be checked."""
    if result.measurement_folder is None or not result.complete:
        raise NotJudged
    return result.measurement_folder


def _fields(result: Result) -> Document:
    """The measurements document, where it is an object. Raises NotJudged."""
    document = result.measurements
    if document is None or not isinstance(document.value, dict):
        raise NotJudged
    return document


def _at(document: Document, key: str) -> dict[str, Any]:
    return {"path": document.path, "line": document.line_of(key), "pointer": f"/{key}"}


def _strict(round: Round) -> Severity | None:
    """Before v3.1 empty files and fields were not looked at."""
    return None if round.measurements.non_empty else NOTE


@rule("M101", ERROR)
def measurements_present(result: Result, round: Round) -> Iterator[Problem]:
    """Every result has its measurements document.

    Why: it says with which data types and weights the result was made.
    Fix: add the document, named as the round asks.
    Source: submission_rules.adoc, "Directory structure": measurements.
    """
    if not result.complete:
        raise NotJudged
    expected = f"{result.measurement_path}/{result.measurement_expected}"
    if result.measurement_folder is None:
        if not result.surrounded:
            raise NotJudged
        yield Problem(
            f"{result.path} has no measurements: the folder {result.measurement_path} is missing",
            path=result.measurement_path, required=expected,
        )  # fmt: skip
    elif result.measurements is None:
        names = sorted(n for n in result.measurement_folder.files if n.lower().endswith(".json"))
        hint = f"; found {listed(names)}" if names else ""
        yield Problem(f"{expected} is missing{hint}", path=expected, found=names, required=expected)


@rule("M102", ERROR, needs="measurements")
def measurements_is_object(result: Result, round: Round) -> Iterator[Problem]:
    """The measurements document is one JSON object of field names and values.

    Why: no field can be found in anything else.
    Fix: write the document as {"field": "value", ...}.
    Source: submission_rules.adoc, "Measurements": fields.
    """
    document = result.measurements
    if document is None or any(fault.kind != "encoding" for fault in document.faults):
        raise NotJudged
    if not isinstance(document.value, dict):
        kind = "null" if document.value is None else type(document.value).__name__
        yield Problem(
            f"{document.path} holds {kind}, an object was asked for", path=document.path,
            found=kind,
            required="object",
        )  # fmt: skip


@rule("M103", ERROR, needs="measurements")
def measurement_fields(result: Result, round: Round) -> Iterator[Problem]:
    """The measurements document has every field that the round requires.

    Why: they say what was done to the model.
    Fix: add the field.
    Source: submission_rules.adoc, "Measurements": fields.
    """
    document = _fields(result)
    required = round.measurements.required
    unknown = [key for key in document.fields if key not in required][:MAX_HINTS]
    for key in required:
        if key not in document.fields:
            near = nearest(key, unknown, 0.75)
            hint = f"; was it meant by {near!r}?" if near else ""
            yield Problem(
                f"{document.path} has no field {key}{hint}", path=document.path,
                line=document.line_of(near) if near else None, pointer=f"/{key}", found=near,
                required=key,
                fix=f'rename "{near}" to "{key}"' if near else None,
            )  # fmt: skip


@rule("M104", ERROR, needs="measurements")
def measurement_fields_filled(result: Result, round: Round) -> Iterator[Problem]:
    """No required field of the measurements is empty.

    Why: an empty field tells the reader nothing.
    Fix: fill the field; where nothing was done, say so ("none").
    Source: submission_rules.adoc, "Measurements": fields.
    """
    document = _fields(result)
    for key in round.measurements.required:
        value = document.fields.get(key, "-")
        empty = not value.strip() if isinstance(value, str) else not value and value is not False
        if empty or (value is False and key != "retraining"):
            yield Problem(
                f"{key} is empty", **_at(document, key), found=value,
                required="a meaningful response",
                severity=_strict(round),
            )  # fmt: skip


def _texts(value: Any) -> list[str] | None:
    """The texts of a value: one text, a list or an object of texts; None when it is none."""
    if isinstance(value, str):
        return [value]
    items = list(value.values()) if isinstance(value, dict) else value
    if isinstance(items, list) and items and all(isinstance(item, str) for item in items):
        return list(items)
    return None


@rule("M105", WARNING, needs="measurements")
def measurement_types(result: Result, round: Round) -> Iterator[Problem]:
    """The measurements hold text; data types may also be a list or an object of texts.

    Why: tables and other tools expect plain values.
    Fix: write the value as text.
    Source: submission_rules.adoc, "Measurements": the sample's values are text.
    """
    document = _fields(result)
    for key in round.measurements.required:
        value = document.fields.get(key)
        if not value:
            continue
        texts = _texts(value)
        plain = isinstance(value, str) or (key == "retraining" and isinstance(value, bool))
        if texts is None and not plain:
            kind = type(value).__name__
            yield Problem(
                f"{key} is of type {kind}, text was asked for", **_at(document, key), found=kind,
                required="text",
            )  # fmt: skip
        elif texts is not None and sum(map(len, texts)) > MAX_TEXT:
            yield Problem(
                f"{key} has {sum(map(len, texts))} characters, at most {MAX_TEXT} are sensible",
                **_at(document, key), found=sum(map(len, texts)), required=MAX_TEXT,
            )  # fmt: skip


@rule("M106", WARNING, divisions=("closed", "network"), needs="measurements")
def not_retrained(result: Result, round: Round) -> Iterator[Problem]:
    """The model of a closed result was not retrained.

    Why: the closed division compares systems on the same weights.
    Fix: use the reference weights, or submit the result in the open division.
    Source: inference_rules.adoc, "Closed division": retraining is not allowed.
    """
    document = _fields(result)
    value = document.fields.get("retraining")
    if isinstance(value, bool):
        answer = "yes" if value else "no"
    elif isinstance(value, str) and value.strip():
        answer = value.strip().lower()
    else:
        raise NotJudged
    words = re.findall(r"[a-z0-9/]+", answer)
    if words and words[0] in _YES:
        yield Problem(
            f"retraining is {value!r}, which the {result.division} division does not allow",
            **_at(document, "retraining"), found=value, required="no",
        )  # fmt: skip
    elif not words or (
        words[0] not in _NO and not re.search(r"\b(no|not|none|without|don)\b", answer)
    ):
        yield Problem(
            f"retraining is {str(value)[:100]!r}, yes or no was asked for", **_at(document,
            "retraining"),
            found=str(value)[:100], required="no", severity=NOTE,
        )  # fmt: skip


@rule("M107", NOTE, needs="measurements")
def data_types_known(result: Result, round: Round) -> Iterator[Problem]:
    """Data types of weights and inputs have their usual names.

    Why: readers filter results by them.
    Fix: write for example fp16, int8, fp8, mxfp4; several with commas.
    Source: inference_rules.adoc, "Quantization": allowed numerical formats.
    """
    document = _fields(result)
    for key in ("weight_data_types", "input_data_types"):
        texts = _texts(document.fields.get(key)) or []
        odd = []
        for text in texts:
            if len(text) > 1000:
                continue
            pieces = [p.rsplit(":", 1)[-1] for p in re.split(r"[,;+&/]|\band\b|\(|\)", text)]
            words = [w for p in pieces for w in p.strip().lower().split()]
            odd += [w for w in words if not _known_type(w)]
        if odd:
            near = nearest(odd[0], sorted(_TYPES), 0.7)
            hint = f"; did you mean {near}?" if near else ""
            yield Problem(
                f"{key}: {listed(dict.fromkeys(odd))} is no usual name of a data type{hint}",
                **_at(document, key), found=odd[:20], required=near or "fp16, int8, fp8, …",
            )  # fmt: skip


def _known_type(word: str) -> bool:
    plain = re.sub(r"[_-](?:t|e\dm\d\w*)$|[_.-]$", "", word).replace("_", "")
    return plain in _TYPES or re.sub(r"[\s_-]", "", word) in _TYPES


@rule("M108", ERROR)
def measurement_files_present(result: Result, round: Round) -> Iterator[Problem]:
    """The files that belong to the measurements are there: README.md, user.conf.

    Why: they say how the run was started and with which settings.
    Fix: add the file.
    Source: submission_rules.adoc, "Directory structure": measurements.
    """
    folder = _folder(result)
    for name in round.layout.measurement_files.required:
        if name in folder.files or (name.endswith(".conf") and result.endpoints is not None):
            continue
        near = nearest(name, folder.files, 0.85)
        hint = f"; did you mean {near}?" if near else ""
        path = f"{folder.path}/{name}" if folder.path else name
        yield Problem(f"{path} is missing{hint}", path=path, found=near, required=name)


@rule("M109", ERROR)
def measurement_files_filled(result: Result, round: Round) -> Iterator[Problem]:
    """The files that belong to the measurements are not empty.

    Why: an empty file tells nothing about the run.
    Fix: write the settings into user.conf and the commands of the run into README.md.
    Source: submission_rules.adoc, "Directory structure": measurements.
    """
    folder = _folder(result)
    confs = {"user.conf": result.user_conf, "mlperf.conf": result.mlperf_conf}
    for name in round.layout.measurement_files.required:
        file = folder.files.get(name)
        if file is None or file.state != "file":
            continue
        conf = confs.get(name)
        if file.size == 0 or (conf is not None and conf.empty):
            yield Problem(
                f"{file.path} is empty", path=file.path, found=file.size, required="> 0 bytes",
                severity=_strict(round),
            )  # fmt: skip


def _conf(result: Result) -> Conf:
    conf = result.user_conf
    if conf is None or any(fault.kind != "encoding" for fault in conf.faults):
        raise NotJudged
    return conf


@rule("M110", ERROR, needs="user_conf")
def user_conf_readable(result: Result, round: Round) -> Iterator[Problem]:
    """Every line of user.conf reads model.scenario.key = value.

    Why: LoadGen does not use what it cannot read, so the setting has no effect.
    Fix: write the line as "*.Offline.target_qps = 1000".
    Source: LoadGen's configuration file format.
    """
    conf = _conf(result)
    for line, text in conf.odd_lines:
        # One odd line among settings is a slip; a cut line at the end, or a file without any
        # setting, is no user.conf.
        slip = bool(conf.settings) and not (conf.cut and (line, text) == conf.odd_lines[-1])
        yield Problem(
            f"{text[:100]!r} is no setting that LoadGen can read", path=conf.path, line=line,
            found=text[:100], required="model.scenario.key = value",
            severity=WARNING if slip else None,
        )  # fmt: skip


@rule("M111", NOTE, needs="user_conf")
def user_conf_keys(result: Result, round: Round) -> Iterator[Problem]:
    """user.conf sets keys that LoadGen knows, each to a number.

    Why: a misspelt key has no effect, and the run was made with another setting.
    Fix: correct the key.
    Source: LoadGen's configuration file format and its settings.
    """
    conf = _conf(result)
    known = {*_FREE, *_RULED, *_SEEDS}
    hints = 0
    for setting in conf.settings:
        key = setting.key
        if key not in known:
            hints += 1
            if hints > MAX_HINTS:
                break
            near = nearest(key, sorted(known), 0.85)
            hint = f"; did you mean {near}?" if near else ""
            yield Problem(
                f"{key} is no setting of LoadGen{hint}", path=conf.path, line=setting.line,
                found=key,
                required=near, severity=WARNING if near else None,
            )  # fmt: skip
        elif setting.number is None and not re.fullmatch(
            r"(?i)true|false|0x[0-9a-f]+", setting.value
        ):
            yield Problem(
                f"{key} is {setting.value[:80]!r}, a number was asked for", path=conf.path,
                line=setting.line, found=setting.value[:80], required="a number", severity=WARNING,
            )  # fmt: skip


@rule("M112", ERROR, divisions=("closed", "network"), needs="user_conf")
def user_conf_seeds(result: Result, round: Round) -> Iterator[Problem]:
    """user.conf does not set LoadGen's seeds.

    Why: the seeds are announced and come from the official configuration; others would choose
        other samples.
    Fix: remove the line.
    Source: inference_rules.adoc, "LoadGen": seeds; what a submitter may choose.
    """
    conf = _conf(result)
    for setting in conf.settings:
        if setting.key in _SEEDS:
            same = setting.value == getattr(round.seeds, setting.key)
            yield Problem(
                f"user.conf sets {setting.key} to {setting.value[:40]}; it is not the submitter's "
                "to set",
                path=conf.path, line=setting.line, found=setting.value[:40],
                required=getattr(round.seeds, setting.key), severity=NOTE if same else None,
            )  # fmt: skip


@rule("M113", WARNING, divisions=("closed", "network"), needs="user_conf")
def user_conf_ruled_keys(result: Result, round: Round) -> Iterator[Problem]:
    """user.conf does not set what the rules set: percentiles, permutation, token latency limits.

    Why: what belongs to the rules or to a compliance test is not the submitter's to choose.
    Fix: remove the line; the official configuration inside LoadGen sets the value.
    Source: inference_rules.adoc, "LoadGen": user.conf holds only what a submitter may choose.
    """
    conf = _conf(result)
    for setting in conf.settings:
        why = _RULED.get(setting.key)
        if setting.key == "samples_per_query" and round.number >= (2, 0):
            why = "the number of samples in a query is the round's"
        if why and _concerns(setting, result):
            yield Problem(
                f"user.conf sets {setting.key} to {setting.value[:40]}: {why}", path=conf.path,
                line=setting.line, found=f"{setting.key} = {setting.value[:40]}",
                required="no such line",
            )  # fmt: skip


def _concerns(setting: Setting, result: Result) -> bool:
    """Whether a setting of user.conf is for the result's scenario."""
    scenarios = {"*", result.scenario, result.loadgen_scenario, result.inferred_from}
    return setting.scenario in scenarios


@rule("M114", WARNING, needs="user_conf")
def user_conf_as_run(result: Result, round: Round) -> Iterator[Problem]:
    """The values in user.conf are those that the run was made with.

    Why: a reader must be able to repeat the run with the files that are published.
    Fix: publish the user.conf of the performance run, not that of a later one.
    Source: submission_rules.adoc, "Measurements": user.conf; LoadGen's requested_ settings.
    """
    conf = _conf(result)
    run = result.performance
    detail: DetailLog | None = run.detail if run is not None else None
    if run is None or detail is None or not detail or run.scenario is None:
        raise NotJudged
    if result.scenario is None:
        raise NotJudged
    model = result.benchmark.conf_model if result.benchmark is not None else None
    for (key, scenario), (logged, scale, unit) in _LOGGED.items():
        if scenario is not None and scenario != run.scenario:
            continue
        setting = None
        if result.scenario == "Interactive" and model:
            setting = conf.lookup(f"{model}-interactive", run.scenario, key)
        setting = setting or conf.lookup(model or result.directory, run.scenario, key)
        found = detail.number(logged)
        if setting is None or setting.number is None or found is None:
            continue
        asked = setting.number * scale
        if abs(asked - found) > _REL * max(abs(asked), abs(found)) + (1 if scale > 1 else 0):
            yield Problem(
                f"user.conf sets {key} to {setting.value}, the run was made with {found:g} {unit} "
                f"({logged})",
                path=conf.path, line=setting.line, found=asked, required=found,
                # user.conf is often a compliance run's; only the duration stays the same in it.
                severity=None if key == "min_duration" else NOTE,
            )  # fmt: skip


@rule("M115", NOTE, needs="mlperf_conf")
def mlperf_conf_seeds(result: Result, round: Round) -> Iterator[Problem]:
    """A copy of mlperf.conf holds the round's seeds.

    Why: with another round's file also the limits are another round's.
    Fix: use the mlperf.conf of the round's LoadGen; from v5.0 on none is needed.
    Source: mlperf.conf of the round.
    """
    conf = result.mlperf_conf
    if conf is None or conf.faults:
        raise NotJudged
    for key in sorted(_SEEDS):
        setting = conf.lookup("*", "*", key)
        wanted = getattr(round.seeds, key)
        if setting is not None and setting.value != wanted:
            yield Problem(
                f"mlperf.conf sets {key} to {setting.value[:40]}, the round's is {wanted}",
                path=conf.path, line=setting.line, found=setting.value[:40], required=wanted,
            )  # fmt: skip
