"""Waivers: findings that somebody looked at and answers for. Shown as waived, never dropped."""

from __future__ import annotations

import datetime
import fnmatch
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from schemas.report import Finding, Waived

MAX_BYTES = 1 << 20
MAX_LINE = 8192


class BadWaivers(ValueError):
    """The waivers file cannot be used; the message names file, entry and what is wrong."""


class Waiver(msgspec.Struct):
    """One entry: which rule where, why, who answers, until when."""

    rule: str
    path: str
    reason: str
    owner: str
    expires: datetime.date | None
    index: int
    used: int = 0

    def covers(self, finding: Finding) -> bool:
        """Whether this waiver is about a finding (rule id or name, path by pattern)."""
        if self.rule not in (finding.rule, finding.name):
            return False
        path = finding.path or "."
        return fnmatch.fnmatchcase(path, self.path) or (
            self.path.endswith("/**") and path == self.path.removesuffix("/**")
        )


def load_waivers(path: Path) -> list[Waiver]:
    """Read a waivers file. Raises BadWaivers."""
    import tomllib

    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise BadWaivers(f"{path}: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise BadWaivers(
            f"{path}: found over {MAX_BYTES:,} bytes; expected a file of a few waivers"
        )
    # The reader's time grows with the square of the parts of one dotted key.
    longest = max(map(len, data.splitlines()), default=0)
    if longest > MAX_LINE:
        raise BadWaivers(
            f"{path}: found a line of {longest:,} bytes; expected {MAX_LINE:,} at most"
        )
    try:
        table = tomllib.loads(data.decode("utf-8"))
    except RecursionError as error:
        raise BadWaivers(f"{path}: its values are nested too deeply") from error
    except ValueError as error:  # not UTF-8, not TOML, a number of thousands of digits
        raise BadWaivers(f"{path}: {error}") from error
    unknown = set(table) - {"waiver"}
    if unknown:
        raise BadWaivers(f"{path}: unknown table {sorted(unknown)[0]!r}; entries are [[waiver]]")
    entries = table.get("waiver", [])
    if not isinstance(entries, list):
        raise BadWaivers(f"{path}: waiver must be a list of tables, written [[waiver]]")
    waivers = []
    for index, entry in enumerate(entries, 1):
        waivers.append(_waiver(entry, index, path))
    return waivers


def _waiver(entry: Any, index: int, path: Path) -> Waiver:
    known = {"rule", "path", "reason", "owner", "expires"}
    where = f"{path}: waiver {index}"
    if not isinstance(entry, dict):
        raise BadWaivers(f"{where} is not a table")
    odd = set(entry) - known
    if odd:
        raise BadWaivers(
            f"{where}: unknown key {sorted(odd)[0]!r}; known: {', '.join(sorted(known))}"
        )
    for key in ("rule", "path", "reason", "owner"):
        if not isinstance(entry.get(key), str) or not entry[key].strip():
            raise BadWaivers(f"{where}: {key} must be given as text")
    from checker.rules import UnknownRule, find_facts

    try:
        find_facts(entry["rule"])
    except UnknownRule as error:
        raise BadWaivers(f"{where}: {error}") from error
    expires = entry.get("expires")
    if isinstance(expires, datetime.datetime):
        expires = expires.date()
    if expires is not None and not isinstance(expires, datetime.date):
        raise BadWaivers(f"{where}: expires must be a date such as 2026-12-31")
    return Waiver(
        rule=entry["rule"],
        path=entry["path"],
        reason=entry["reason"],
        owner=entry["owner"],
        expires=expires,
        index=index,
    )


def apply_waivers(
    findings: Sequence[Finding], path: Path | None, *, today: datetime.date | None = None
) -> list[Finding]:
    """Mark what is waived; an expired or unused waiver becomes a finding itself (X006, X007)."""
    if path is None:
        return list(findings)
    today = today or datetime.datetime.now(datetime.UTC).date()
    waivers = load_waivers(path)
    marked = []
    for finding in findings:
        for waiver in waivers:
            if not waiver.covers(finding):
                continue
            waiver.used += 1
            if waiver.expires is not None and waiver.expires < today:
                continue
            expires = waiver.expires.isoformat() if waiver.expires else None
            finding = msgspec.structs.replace(
                finding,
                waived=Waived(waiver.reason[:500], waiver.owner[:200], expires),
                invalidates=(),
            )
            break
        marked.append(finding)
    for waiver in waivers:
        what = f"waiver {waiver.index} ({waiver.rule} at {waiver.path})"
        if waiver.expires is not None and waiver.expires < today:
            marked.append(
                Finding(
                    rule="X006",
                    name="waiver-expired",
                    severity="warning",
                    message=f"{what} expired on {waiver.expires.isoformat()}; it no longer counts",
                    path=path.name,
                    fix="fix what it waives, or have its owner renew it",
                )
            )
        elif not waiver.used:
            marked.append(
                Finding(
                    rule="X007",
                    name="waiver-unused",
                    severity="warning",
                    message=f"{what} matches no finding",
                    path=path.name,
                    fix="remove it, or correct its rule or path",
                )
            )
    return marked
