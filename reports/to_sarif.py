"""SARIF 2.1.0, the format that code scanning services read."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any
from urllib.parse import quote

from reports import arrange, links
from reports.escape import json_text, markdown_text, one_line, visible
from schemas.report import Finding, Report, RuleFacts

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
VERSION = "2.1.0"


def render(
    report: Report,
    *,
    prefix: str = "",
    repository: str | None = None,
) -> str:
    """The findings as one SARIF run; ``prefix`` is the tree's path inside the repository.

    Waived findings are there with an accepted suppression. A finding without a path is placed on
    the tree itself, because code scanning services refuse a result that is nowhere.

    ``repository`` is the address of the tree on the web: each result then links to its file.
    Of a report that was compared with a baseline each result says whether it is new or unchanged, and
    those that are gone are there as absent. Raises ReportError where the repository is not an
    address.
    """
    repository = links.repository(repository)
    rules = _rules(report)
    index = {rule["id"]: number for number, rule in enumerate(rules)}
    seen: Counter[str] = Counter()
    results = []
    for finding in report.findings:
        made = _result(finding, index[one_line(finding.rule)], prefix, repository, seen)
        if finding.baseline is not None:
            made["baselineState"] = finding.baseline
        results.append(made)
    for finding in report.baseline.gone if report.baseline is not None else ():
        made = _result(finding, index.get(one_line(finding.rule)), prefix, None, seen)
        results.append({**made, "baselineState": "absent"})
    # A service keeps the results of one round and folder apart from those of another.
    category = ["assay", report.round or "unknown", prefix.strip("/")]
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
                "automationDetails": {
                    "id": "/".join(one_line(part) for part in category if part) + "/",
                    "description": {"text": arrange.verdict_text(report)},
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
                "results": results,
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
    parts = (("Why", facts.why), ("Fix", facts.fix), ("Source", facts.source))
    why = visible(facts.why)
    policy = links.policy(facts.source)
    return {
        "id": one_line(facts.id),
        "name": one_line(facts.name),
        "shortDescription": {"text": one_line(facts.summary) or one_line(facts.name)},
        "fullDescription": {"text": f"{visible(facts.summary)}\n\n{why}"},
        **({"helpUri": policy} if policy is not None else {}),
        "help": {
            "text": "\n\n".join(f"{name}: {visible(text)}" for name, text in parts),
            "markdown": "\n\n".join(f"**{name}:** {markdown_text(text)}" for name, text in parts),
        },
        "defaultConfiguration": {"level": facts.severity},
        "properties": {"tags": [f"family-{one_line(facts.family)}"]},
    }


def _result(
    finding: Finding,
    rule: int | None,
    prefix: str,
    repository: str | None,
    seen: Counter[str],
) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": one_line(finding.rule),
        **({"ruleIndex": rule} if rule is not None else {}),
        "level": finding.severity,
        "message": {"text": _message(finding)},
        "locations": [_location(finding, prefix)],
        "partialFingerprints": {"assayFinding/v1": _fingerprint(finding, seen)},
    }
    if finding.id:
        follows = {"follows": one_line(finding.follows)} if finding.follows else {}
        result["properties"] = {"id": one_line(finding.id), **follows}
    address = links.file(repository, finding.path, finding.line)
    if address is not None:
        result["hostedViewerUri"] = address
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
    # Services show no result without a region: one of a whole file is at its beginning.
    physical["region"] = {"startLine": max(finding.line or 1, 1)}
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
