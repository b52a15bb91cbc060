"""The table of enforcement: well formed, about rules that exist, and decided as documented."""

from __future__ import annotations

import pytest

from checker.rules import RULES, all_facts
from schemas.enforcement import (
    decide,
    entries,
    entries_of,
    overlaps,
)
from schemas.enforcement_file import BadEnforcement, Entry, Severity, parse_enforcement
from schemas.load import round_names


def test_entries_name_rules_and_cases_that_exist() -> None:
    cases = {facts.id: set[str]() for facts in all_facts()}
    cases |= {rule.id: set(rule.cases) for rule in RULES}
    families = {id[0] for id in cases}
    for entry in entries():
        assert entry.rule in cases or entry.rule in families, entry.rule
        if entry.case is not None:
            assert entry.case in cases[entry.rule], entry
        assert entry.reason, entry


def test_entries_change_something() -> None:
    """An entry that states the severity that holds without it says nothing."""
    own = {rule.id: rule for rule in RULES}
    for entry in entries():
        if entry.is_family or entry.rule not in own:
            continue
        rule = own[entry.rule]
        default = rule.severity if entry.case is None else rule.cases[entry.case]
        others = [other for other in entries_of(entry.rule) if other is not entry]

        def without(
            round: str,
            audit: bool,
            *,
            entry: Entry = entry,
            default: Severity = default,
            others: list[Entry] = others,
        ) -> Severity:
            division = entry.divisions[0] if entry.divisions else None
            return decide(
                others, default, round=round, case=entry.case, division=division, audit=audit
            )[0]

        covered = [name for name in round_names() if entry.covers(name)]
        assert any(
            entry.severity(audit=audit) != without(name, audit)
            for name in covered
            for audit in (False, True)
        ), entry


def test_of_two_entries_one_is_the_more_specific() -> None:
    assert overlaps(entries()) == []


TABLE = """
[[enforcement]]
rule = "C"
until = "v2.0"
check = "warning"
reason = "logged"
[[enforcement]]
rule = "C101"
check = "note"
audit = "error"
reason = "published"
[[enforcement]]
rule = "C101"
case = "blank"
divisions = ["open"]
since = "v6.0"
check = "off"
reason = "open"
"""


def test_the_most_specific_entry_decides() -> None:
    table = parse_enforcement(TABLE, round_names())

    def severity(rule: str, **where: object) -> str:
        candidates = [e for e in table if e.rule in (rule, rule[0])]
        given: dict[str, object] = {"round": "v2.0", **where}
        return decide(candidates, where.pop("default", "error"), **given)[0]  # type: ignore[arg-type]

    assert severity("C102") == "warning"
    assert severity("C102", round="v2.1") == "error"
    assert severity("C101") == "note"
    assert severity("C101", audit=True) == "error"
    assert severity("C101", case="blank", division="open", round="v6.1") == "off"
    assert severity("C101", case="blank", division="closed", round="v6.1") == "note"


def test_a_family_only_lowers() -> None:
    (family, *_) = parse_enforcement(TABLE, round_names())
    assert decide([family], "note", round="v1.0")[0] == "note"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('[[enforcement]]\nrule = "P104"\ncheck = "fatal"\nreason = "x"', "fatal"),
        ('[[enforcement]]\nrule = "P104"\nsince = "v9"\ncheck = "off"\nreason = "x"', "v9"),
        ("[[enforcement]", "enforcement.toml"),
    ],
)
def test_a_bad_table_is_refused(text: str, reason: str) -> None:
    with pytest.raises(BadEnforcement, match=reason):
        parse_enforcement(text, round_names())
