"""Endpoints results: the compliance tests' documents."""

from __future__ import annotations

from checker.model import Result
from checker.parse.documents import Document
from checker.parse.endpoints import Endpoints, as_number
from checker.rule import ERROR, Problem, Problems, rule
from checker.wording import number, pair, shown
from schemas.round import Round, Scenario


@rule("C151", ERROR, divisions=("closed", "network"))
def endpoints_audits(
    result: Result, round: Round, endpoints: Endpoints, rules: Scenario
) -> Problems:
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
            text = f"passed is {shown(passed)}; expected true"
            yield Problem(text, path=document.path, pointer="/passed", found=passed, required=True)
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


def _rates(document: Document, tolerance: float) -> Problems:
    """Whether the test's rate exceeds the reference's by no more than the tolerance."""
    threshold = as_number(document.fields.get("threshold"))
    if threshold is not None and not threshold <= tolerance:
        text = f"threshold is {number(threshold)}; expected {number(tolerance)}"
        yield Problem(
            text, path=document.path, pointer="/threshold", found=threshold, required=tolerance
        )
    reference = as_number(document.fields.get("ref_qps"))
    rate = as_number(document.fields.get("audit_qps"))
    if reference is None or rate is None:
        return
    limit = reference * (1 + tolerance)
    if not rate < limit:
        found, expected = pair(rate, limit, "samples/s")
        text = (
            f"audit_qps is {found}; expected less than {expected}, the reference's rate and "
            f"{number(tolerance * 100)}%"
        )
        yield Problem(text, path=document.path, pointer="/audit_qps", found=rate, required=limit)
