"""Family M: the measurements document and the files beside it."""

from __future__ import annotations

import functools
import re
from typing import Any

from checker.model import Result
from checker.near import MAX_HINTS, hint, nearest
from checker.parse.documents import Document
from checker.parse.reading import Folder
from checker.rule import ERROR, NOTE, WARNING, Problem, Problems, rule
from checker.rules.structure.entries import listed
from checker.rules.system.values import at
from checker.wording import number, quantity, shown
from schemas.round import Round

MAX_TEXT = 20_000
"""Longest text in characters that a field may hold; published ones stay below 1000."""

_TYPES = {
    "fp64", "fp32", "fp16", "fp8", "fp6", "fp4", "bf16", "bfloat16", "bfloat8", "tf32",
    "float64", "float32", "float16", "float8", "float4", "int64", "int32", "int16", "int8",
    "int4", "int2", "int1", "uint64", "uint32", "uint16", "uint8", "uint4", "mxfp8", "mxfp6",
    "mxfp4", "mxint8", "nvfp4", "nf4", "hf8", "bool", "binary", "ternary", "string", "text",
    "utf-8", "utf8", "fp11", "fp9", "bfp16", "msfp", "hybrid", "mixed", "double", "half",
    "long", "w4a8", "w8a8", "w4a16", "w8a16", "e2m1", "e4m3", "e5m2", "e8m0", "none",
}  # fmt: skip
_DOCUMENT = {"document": "measurements", "fields": "measurements.fields"}
_FOLDER = {"folder": "measurement_folder", "complete": "complete"}
_NO = {"no", "n", "none", "false", "not", "no.", "nope", "0", "n/a", "na"}
_YES = {"yes", "y", "true", "retrained", "1", "qat"}


@rule("M101", ERROR, needs="complete")
def measurements_present(result: Result, round: Round) -> Problems:
    """Every result has its measurements document.

    Why: it says with which data types and weights the result was made.
    Fix: add the document under the name that the round expects.
    Source: submission_rules.adoc, "Directory structure": measurements.
    """
    folder, name = result.measurement_folder, result.measurement_expected
    expected = f"{result.measurement_path}/{name}"
    if folder is None and result.surrounded:
        text = f"found no measurements folder for the result; expected one with {name}"
        yield Problem(text, path=result.measurement_path, required=expected)
    elif folder is not None and result.measurements is None:
        names = sorted(n for n in folder.files if n.lower().endswith(".json"))
        near = names[0] if len(names) == 1 else nearest(name, names)
        yield Problem(
            f"found {listed(names) if names else 'no measurements document'}; expected {name}",
            path=expected,
            found=names,
            required=expected,
            fix=f"git mv {folder.path}/{near} {expected}" if near else None,
        )


@rule("M102", ERROR, needs={"document": "measurements"})
def measurements_is_object(result: Result, round: Round, document: Document) -> Problems:
    """The measurements document is one JSON object of field names and values.

    Why: no field can be found in anything else.
    Fix: write the document as {"field": "value", ...}.
    Source: submission_rules.adoc, "Measurements": fields.
    """
    unread = any(fault.kind != "encoding" for fault in document.faults)
    if not unread and not isinstance(document.value, dict):
        text = f"found {shown(document.value)}; expected an object"
        yield Problem(
            text, path=document.path, found=type(document.value).__name__, required="object"
        )


@rule("M103", ERROR, needs={"document": "measurements"})
def measurement_fields(result: Result, round: Round, document: Document) -> Problems:
    """The measurements document has every field that the round requires.

    Why: they say what was done to the model.
    Fix: add the field.
    Source: submission_rules.adoc, "Measurements": fields.
    """
    required = round.measurements.required if isinstance(document.value, dict) else []
    unknown = [key for key in document.fields if key not in required][:MAX_HINTS]
    for key in required:
        if key not in document.fields:
            near = nearest(key, unknown)
            yield Problem(
                f"found no field {key}{hint(near)}",
                path=document.path,
                line=document.line_of(near) if near else None,
                pointer=f"/{key}",
                found=near,
                required=key,
                fix=f'rename "{near}" to "{key}"' if near else None,
            )


@rule("M104", ERROR, needs=_DOCUMENT)
def measurement_fields_filled(
    result: Result, round: Round, document: Document, fields: dict[str, Any]
) -> Problems:
    """No required field of the measurements is empty.

    Why: an empty field tells the reader nothing.
    Fix: fill in the field; where nothing was done, write "none".
    Source: submission_rules.adoc, "Measurements": fields.
    """
    for key in round.measurements.required:
        value = fields.get(key, "-")
        empty = not value.strip() if isinstance(value, str) else not value and value is not False
        if empty or (value is False and key != "retraining"):
            text = f"found nothing in {key}; expected an answer"
            yield Problem(text, **at(document, key), found=value, required="a meaningful response")


def _texts(value: Any) -> list[str] | None:
    """The texts of a value: one text, a list or an object of texts; None when it is none."""
    if isinstance(value, str):
        return [value]
    items = list(value.values()) if isinstance(value, dict) else value
    if isinstance(items, list) and items and all(isinstance(item, str) for item in items):
        return list(items)
    return None


@rule("M105", WARNING, needs=_DOCUMENT)
def measurement_types(
    result: Result, round: Round, document: Document, fields: dict[str, Any]
) -> Problems:
    """The measurements hold text; data types may also be a list or an object of texts.

    Why: tables and other tools expect plain values.
    Fix: write the value as text.
    Source: submission_rules.adoc, "Measurements": the sample's values are text.
    """
    for key in round.measurements.required:
        value = fields.get(key)
        texts = _texts(value)
        if not value or (key == "retraining" and isinstance(value, bool)):
            continue
        length = sum(map(len, texts or []))
        if texts is None or length > MAX_TEXT:
            found = shown(value) if texts is None else quantity(length, "character")
            required = "text" if texts is None else f"at most {number(MAX_TEXT)}"
            text = f"found {found} in {key}; expected {required}"
            yield Problem(text, **at(document, key), found=found, required=required)


@rule("M106", WARNING, cases={"unclear": NOTE}, divisions=("closed", "network"), needs=_DOCUMENT)
def not_retrained(
    result: Result, round: Round, document: Document, fields: dict[str, Any]
) -> Problems:
    """The model of a closed result was not retrained.

    Why: the closed division compares systems on the same weights.
    Fix: use the reference weights, or submit the result in the open division.
    Source: inference_rules.adoc, "Closed division": retraining is not allowed.
    """
    value = fields.get("retraining")
    if isinstance(value, bool):
        answer = "yes" if value else "no"
    else:
        answer = value.strip().lower() if isinstance(value, str) else ""
    if not answer:
        return
    words = re.findall(r"[a-z0-9/]+", answer)
    yes = bool(words) and words[0] in _YES
    no = bool(words) and (words[0] in _NO or re.search(r"\b(no|not|none|without|don)\b", answer))
    if yes or not no:
        yield Problem(
            f"found retraining {shown(value)}; expected "
            + (f"no in the {result.division} division" if yes else "yes or no"),
            **at(document, "retraining"),
            found=shown(value),
            required="no",
            case=None if yes else "unclear",
        )


@rule("M107", NOTE, needs=_DOCUMENT)
def data_types_known(
    result: Result, round: Round, document: Document, fields: dict[str, Any]
) -> Problems:
    """Data types of weights and inputs have their usual names.

    Why: readers filter results by them.
    Fix: write for example fp16, int8, fp8, mxfp4; several with commas.
    Source: inference_rules.adoc, "Quantization": allowed numerical formats.
    """
    keys = ("weight_data_types", "input_data_types")
    odd = {key: words for key in keys if (words := _odd_types(fields.get(key)))}
    if odd:
        words = list(dict.fromkeys(word for many in odd.values() for word in many))
        near = _near_type(words[0])
        yield Problem(
            f"found {listed(words)} in {listed(odd)}; expected a usual data type{hint(near)}",
            **at(document, next(iter(odd))),
            found=words[:20],
            required=near or "fp16, int8, fp8, …",
            count=len(odd),
        )


@functools.lru_cache(maxsize=256)
def _near_type(word: str) -> str | None:
    # A submitter spells a type in one way, in all results.
    return nearest(word, _TYPES, 0.7)


def _odd_types(value: Any) -> list[str]:
    """Words that stand where a data type is expected; a type may be explained (in parentheses)."""
    return [word for text in _texts(value) or [] for word in _odd_words(text[:1000])]


@functools.lru_cache(maxsize=256)  # a round has a few dozen such texts
def _odd_words(text: str) -> list[str]:
    odd: list[str] = []
    plain = re.sub(r"\([^()]*\)", " ", text)
    for piece in re.split(r"[,;+&/]|\band\b", plain):
        words = piece.rsplit(":", 1)[-1].strip().lower().split()
        if words and not any(_is_type(word) for word in words):
            odd += words
    return odd


def _is_type(word: str) -> bool:
    plain = re.sub(r"[_-](?:t|e\dm\d\w*)$|[_.-]$", "", word).replace("_", "")
    return plain in _TYPES or re.sub(r"[\s_-]", "", word) in _TYPES


@rule("M108", ERROR, needs=_FOLDER)
def measurement_files_present(
    result: Result, round: Round, folder: Folder, complete: bool
) -> Problems:
    """The files that belong to the measurements are there: README.md, user.conf.

    Why: they say how the run was started and with which settings.
    Fix: add the file.
    Source: submission_rules.adoc, "Directory structure": measurements.
    """
    for name in round.layout.measurement_files.required if complete else ():
        if name in folder.files or (name.endswith(".conf") and result.endpoints is not None):
            continue
        near = nearest(name, folder.files, 0.85)
        path = f"{folder.path}/{name}" if folder.path else name
        yield Problem(
            f"found no {name}{hint(near)}",
            path=path,
            found=near,
            required=name,
            fix=f"git mv {folder.path}/{near} {path}" if near else None,
        )


@rule("M109", ERROR, needs=_FOLDER)
def measurement_files_filled(
    result: Result, round: Round, folder: Folder, complete: bool
) -> Problems:
    """The files that belong to the measurements are not empty.

    Why: an empty file says nothing about the run.
    Fix: write the settings into user.conf and the commands of the run into README.md.
    Source: submission_rules.adoc, "Directory structure": measurements.
    """
    confs = {"user.conf": result.user_conf, "mlperf.conf": result.mlperf_conf}
    for name in round.layout.measurement_files.required if complete else ():
        file, conf = folder.files.get(name), confs.get(name)
        if file is None or file.state != "file":
            continue
        if file.size == 0 or (conf is not None and conf.empty):
            text = "found an empty file; expected how the run was made"
            yield Problem(text, path=file.path, found=file.size, required="> 0 bytes")
