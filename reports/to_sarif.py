"""SARIF 2.1.0, the format that code scanning services read."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any
from urllib.parse import quote

from reports import arrange
from reports.escape import json_text, one_line, visible
from schemas.report import Finding, Report, RuleFacts

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
VERSION = "2.1.0"


def render(report: Report, *, prefix: str = "") -> str:
    """The findings as one SARIF run; ``prefix`` is the tree's path inside the repository.

    Waived findings are there with an accepted suppression. A finding without a path is placed on
    the tree itself, because code scanning services refuse a result that is nowhere.
    """
    rules = _rules(report)
    index = {rule["id"]: number for number, rule in enumerate(rules)}
    seen: Counter[str] = Counter()
    document = {
        "$schema": SCHEMA,
        "version": VERSION,
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": one_line(report.tool.name),
                        "version": one_line(report.tool.version),
                        "rules": rules,
                    }
                },
                "invocations": [
                    {
                        "executionSuccessful": True,
                        "toolExecutionNotifications": [
                            {"level": "note", "message": {"text": f"not checked: {visible(item)}"}}
                            for item in arrange.unchecked(report)
                        ],
                    }
                ],
                "columnKind": "unicodeCodePoints",
                "results": [
                    _result(finding, index[one_line(finding.rule)], prefix, seen)
                    for finding in report.findings
                ],
                "properties": {
                    "round": one_line(report.round or ""),
                    "summary": arrange.verdict_text(report),
                },
            }
        ],
    }
    text = json.dumps(document, indent=2, ensure_ascii=False)
    return json_text(text) + "\n"


def _rules(report: Report) -> list[dict[str, Any]]:
    """Every rule that has a finding, and every other that the report describes."""
    described: dict[str, dict[str, Any]] = {}
    for facts in report.rules:
        described.setdefault(one_line(facts.id), _rule(facts))
    for finding in report.findings:
        described.setdefault(
            one_line(finding.rule),
            {
                "id": one_line(finding.rule),
                "name": one_line(finding.name),
                "shortDescription": {"text": one_line(finding.name) or "no description"},
                "defaultConfiguration": {"level": finding.severity},
            },
        )
    return list(described.values())


def _rule(facts: RuleFacts) -> dict[str, Any]:
    why, fix, source = visible(facts.why), visible(facts.fix), visible(facts.source)
    return {
        "id": one_line(facts.id),
        "name": one_line(facts.name),
        "shortDescription": {"text": one_line(facts.summary) or one_line(facts.name)},
        "fullDescription": {"text": f"{visible(facts.summary)}\n\n{why}"},
        "help": {"text": f"Why: {why}\n\nFix: {fix}\n\nSource: {source}"},
        "defaultConfiguration": {"level": facts.severity},
        "properties": {"tags": [f"family-{one_line(facts.family)}"]},
    }


def _result(finding: Finding, rule: int, prefix: str, seen: Counter[str]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": one_line(finding.rule),
        "ruleIndex": rule,
        "level": finding.severity,
        "message": {"text": _message(finding)},
        "locations": [_location(finding, prefix)],
        "partialFingerprints": {"assayFinding/v1": _fingerprint(finding, seen)},
    }
    if finding.waived:
        until = f", until {finding.waived.expires}" if finding.waived.expires else ""
        reason = f"{finding.waived.reason} ({finding.waived.owner}{until})"
        result["suppressions"] = [
            {"kind": "external", "status": "accepted", "justification": visible(reason)}
        ]
    return result


def _message(finding: Finding) -> str:
    text = visible(finding.message) or one_line(finding.name) or one_line(finding.rule)
    if finding.fix:
        text += f"\nFix: {visible(finding.fix)}"
    return text


def _location(finding: Finding, prefix: str) -> dict[str, Any]:
    path = finding.path or "."
    if prefix:
        path = f"{prefix.rstrip('/')}/{path}" if finding.path else prefix.rstrip("/")
    uri = quote(path.encode("utf-8", "surrogateescape" if _is_utf8(path) else "replace"), safe="/")
    physical: dict[str, Any] = {"artifactLocation": {"uri": uri.lstrip("/") or "."}}
    if finding.line is not None and finding.line >= 1:
        physical["region"] = {"startLine": finding.line}
    location: dict[str, Any] = {"physicalLocation": physical}
    logical = finding.pointer or arrange.subject_text(finding.subject)
    if logical:
        location["logicalLocations"] = [{"fullyQualifiedName": one_line(logical, 1000)}]
    return location


def _is_utf8(text: str) -> bool:
    """Whether the text is UTF-8, or bytes of a file name that Python carried as surrogates."""
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _fingerprint(finding: Finding, seen: Counter[str]) -> str:
    """What makes a finding the same one in the next upload: not its line, which moves."""
    subject = arrange.subject_text(finding.subject)
    parts = (finding.rule, finding.path or "", finding.pointer or "", subject)
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest()[:32]
    seen[digest] += 1
    return f"{digest}:{seen[digest]}"
