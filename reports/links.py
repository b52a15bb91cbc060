"""Where a report's parts can be found: anchors inside a page, files of a repository, policy texts.

Anchors are made from what a result or a finding is, not from its place in the report, so that a
link still holds after the next check. They consist of letters, digits and ``._/-`` alone: no text
of a submission gets into an address as it is.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from urllib.parse import quote, urlencode, urlsplit

from reports import ReportError
from reports.escape import NAME_LIMIT, visible
from schemas.report import Report

POLICIES = {
    "inference_rules.adoc": (
        "https://github.com/mlcommons/inference_policies/blob/master/inference_rules.adoc"
    ),
    "power_measurement.adoc": (
        "https://github.com/mlcommons/inference_policies/blob/master/power_measurement.adoc"
    ),
    "submission_rules.adoc": (
        "https://github.com/mlcommons/policies/blob/master/submission_rules.adoc"
    ),
}
"""MLCommons' documents, by the name that a rule's source calls them."""

_ANCHOR_LIMIT = 160
_FOREIGN = re.compile(r"[^A-Za-z0-9._/-]+")
_DOCUMENT = re.compile("|".join(map(re.escape, POLICIES)))


def anchor(*parts: str) -> str:
    """An anchor for a path or an id, joined by ``/``.

    Where a character had to be replaced or the text is too long, a digest keeps it distinct.

    >>> anchor("r", "closed/Example/DX-8/resnet/Server")
    'r/closed/Example/DX-8/resnet/Server'
    >>> anchor("r", "a b")
    'r/a_b.c8687a08'
    """
    text = "/".join(parts)
    safe = _FOREIGN.sub("_", text[:_ANCHOR_LIMIT])
    if safe == text:
        return safe
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:8]
    return f"{safe}.{digest}"


class Anchors:
    """The anchors of a report: ``r/KEY`` of a result, ``rule/ID`` of a rule, ``ID/PATH`` of a finding.

    A finding that shares its rule and path with earlier ones has its ordinal among them as well.
    """

    def __init__(self, report: Report) -> None:
        self._results = {result.key: anchor("r", result.key) for result in report.results}
        seen: Counter[str] = Counter()
        self._findings: dict[int, str] = {}
        for finding in report.findings:
            name = anchor(finding.rule or "finding", finding.path or "tree")
            seen[name] += 1
            self._findings[id(finding)] = name if seen[name] == 1 else f"{name}.{seen[name]}"

    def result(self, key: str) -> str:
        """The anchor of a result of the report, by its key."""
        return self._results[key]

    def finding(self, finding: object) -> str:
        """The anchor of a finding of the report."""
        return self._findings[id(finding)]

    @staticmethod
    def rule(rule: str) -> str:
        """The anchor of a rule."""
        return anchor("rule", rule)


def query(section: str, chosen: Mapping[str, str]) -> str:
    """The address inside a page of a section whose table is filtered.

    >>> query("findings", {"severity": "error", "rule": "P104"})
    '#findings?f-severity=error&f-rule=P104'
    """
    named = {
        f"{section[0]}-{name}": visible(value, NAME_LIMIT).encode("utf-8", "replace")
        for name, value in chosen.items()
    }
    return f"#{section}?{urlencode(named)}"


def repository(address: str | None) -> str | None:
    """The address below which a tree's files are, without a slash at its end.

    For example ``https://github.com/mlcommons/inference_results_v5.1/blob/main``. Raises ReportError
    where it is not an http or https address.
    """
    if address is None:
        return None
    try:
        parts = urlsplit(address)
    except ValueError:
        parts = urlsplit("")
    plain = re.fullmatch(r"[!-~]+", address) and not re.search(r"[\"'<>\\^`{|}?#]", address)
    if parts.scheme not in ("http", "https") or not parts.hostname or not plain:
        raise ReportError(
            f"repository {visible(address, NAME_LIMIT)}: expected an address such as "
            "https://github.com/OWNER/NAME/blob/main"
        )
    return address.rstrip("/")


def file(repository: str | None, path: str | None, line: int | None = None) -> str | None:
    """The address of a file or folder of the tree, with its line; None without a repository.

    None as well for a path that would leave the repository.
    """
    if repository is None or not path or any(part in (".", "..") for part in path.split("/")):
        return None
    safe = quote(path.encode("utf-8", "replace").lstrip(b"/"), safe="/")
    return f"{repository}/{safe}" + (f"#L{line}" if line is not None and line >= 1 else "")


def policy(source: str) -> str | None:
    """The address of the first policy document that a rule's source names.

    >>> policy('submission_rules.adoc, "Directory structure"')
    'https://github.com/mlcommons/policies/blob/master/submission_rules.adoc'
    """
    named = _DOCUMENT.search(source)
    return POLICIES[named.group()] if named else None
