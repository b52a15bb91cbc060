"""Endpoints results (from v6.1): config.yaml, result_summary.json and accuracy_results.json take
the place of LoadGen's logs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from checker.model import Result
from checker.parse.documents import Document
from checker.parse.endpoints import Endpoints
from checker.rule import ERROR, WARNING, Problem, Problems, rule
from checker.wording import listed, number, shown
from schemas.round import Benchmark, Round

_KINDS = ("config", "performance", "accuracy")


_SCHEMAS = {
    "config": "endpoints_config",
    "performance": "endpoints_summary",
    "accuracy": "endpoints_accuracy",
}


_MAX_SHOWN = 20


@rule("P151", ERROR, cases={"config-beside-summary": WARNING})
def endpoints_files(result: Result, round: Round, endpoints: Endpoints) -> Problems:
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


@rule("P152", ERROR, cases={"near-name": WARNING})
def endpoints_documents(result: Result, round: Round, endpoints: Endpoints) -> Problems:
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
        whole = load_schema(schema)
        validator = jsonschema.Draft202012Validator(whole)
        errors = sorted(
            validator.iter_errors(document.value), key=lambda e: [str(p) for p in e.absolute_path]
        )
        for error in errors[:_MAX_SHOWN]:
            pointer = "/" + "/".join(str(p) for p in error.absolute_path)
            text = _misfit(pointer, error)
            yield Problem(text, path=document.path, pointer=pointer, found=shown(error.instance))
        for place, key, name in islice(_near_names(document.value, whole, whole), _MAX_SHOWN):
            yield Problem(
                f"found the key {shown(key)} in {place or '/'}; expected {shown(name)}",
                path=document.path,
                pointer=f"{place}/{key}",
                found=key,
                required=name,
                fix=f"rename {shown(key)} to {shown(name)}",
                case="near-name",
            )


def _near_names(
    value: Any, schema: Any, whole: Any, place: str = ""
) -> Iterator[tuple[str, str, str]]:
    """Keys that nothing reads, which are a known one but for case and dashes: where, key, known."""
    if "$ref" in schema:
        schema = whole["$defs"][schema["$ref"].rpartition("/")[2]]
    known = schema.get("properties")
    if not isinstance(value, dict) or not known:
        return
    folded = {_folded(name): name for name in known if name not in value}
    for key, below in value.items():
        if key in known:
            yield from _near_names(below, known[key], whole, f"{place}/{key}")
        elif (name := folded.get(_folded(key))) is not None:
            yield place, key, name


def _folded(key: object) -> str:
    return str(key).casefold().replace("-", "_").strip()


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
def endpoints_benchmark(result: Result, round: Round, benchmark: Benchmark) -> Problems:
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
) -> Problems:
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
