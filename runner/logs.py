"""Reading back the logs of a run that just ended: was it written whole, what does it say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runner.errors import RunFailed

SUMMARY = "mlperf_log_summary.txt"
DETAIL = "mlperf_log_detail.txt"
ACCURACY = "mlperf_log_accuracy.json"
TRACE = "mlperf_log_trace.json"
_MARK = ":::MLLOG "

# Scenario to (log key, name of the quantity, factor, unit): what a submission is ranked by.
METRICS = {
    "SingleStream": ("early_stopping_latency_ss", 1e-6, "ms"),
    "MultiStream": ("early_stopping_latency_ms", 1e-6, "ms"),
    "Server": ("result_completed_samples_per_sec", 1.0, "samples/s"),
    "Offline": ("result_samples_per_second", 1.0, "samples/s"),
}
# The same where LoadGen takes token latencies; its SingleStream estimate is then of first tokens.
TOKEN_METRICS = {
    "SingleStream": ("result_90.00_percentile_latency_ns", 1e-6, "ms"),
    "Server": ("result_completed_tokens_per_second", 1.0, "tokens/s"),
    "Offline": ("result_tokens_per_second", 1.0, "tokens/s"),
}


def metric(detail: Mapping[str, Any], scenario: str) -> tuple[float | None, str]:
    """What a performance run is ranked by, and its unit; None where the log has no such number.

    scenario: LoadGen's: Interactive is Server there.
    """
    tokens = detail.get("requested_use_token_latencies") is True
    key, factor, unit = (TOKEN_METRICS if tokens else METRICS)[scenario]
    value = detail.get(key)
    return (value * factor if isinstance(value, (int, float)) else None), unit


def read_detail(path: Path) -> tuple[dict[str, Any], list[str]]:
    """The last value of every key of a detail log, and the texts of its errors.

    Raises:
        RunFailed: a line is cut off or no JSON, or the file has no record at all.
    """
    values: dict[str, Any] = {}
    errors = []
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            if not line.startswith(_MARK):
                continue
            try:
                record = json.loads(line[len(_MARK) :])
                values[record["key"]] = record["value"]
                if record["metadata"]["is_error"]:
                    errors.append(f"{record['key']}: {record['value']}")
            except (ValueError, KeyError, TypeError) as error:
                raise RunFailed(
                    f"{path}:{number}: found a record that cannot be read ({error}); the log was "
                    "not written whole. Is the disk full?"
                ) from error
    if not values:
        raise RunFailed(
            f"{path}: found no LoadGen record; the run left an empty log. Is the disk full, or the "
            "folder no longer writable?"
        )
    return values, errors


def verify(
    folder: Path, mode: str, samples: int, empty_answers: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """Check that LoadGen wrote its logs to the end; return what `read_detail` does.

    Args:
        samples: size of the data set; an accuracy log must hold an answer for each.
        empty_answers: an empty answer counts, as of a picture in which nothing was found.

    Raises:
        RunFailed: something is missing.
    """
    for name in (SUMMARY, DETAIL, ACCURACY):
        if not (folder / name).is_file():
            raise RunFailed(
                f"{folder}: found no {name} after the run; LoadGen could not write there. Look at "
                "the folder's permissions and at the free space."
            )
    values, errors = read_detail(folder / DETAIL)
    if mode == "performance":
        if "result_validity" not in values or not (folder / SUMMARY).stat().st_size:
            raise RunFailed(
                f"{folder}: found logs without a result; they were not written to the end. Is "
                "the disk full?"
            )
        return values, errors
    answered = set()
    try:
        for entry in json.loads((folder / ACCURACY).read_bytes()):
            if entry["data"] or empty_answers:
                answered.add(entry["qsl_idx"])
    except (ValueError, KeyError, TypeError) as error:
        raise RunFailed(
            f"{folder / ACCURACY}: cannot be read ({error}); the log was not written whole. Is the "
            "disk full?"
        ) from error
    if len(answered) != samples:
        raise RunFailed(
            f"{folder / ACCURACY}: found answers for {len(answered)} samples; expected all "
            f"{samples} of the data set."
        )
    return values, errors
