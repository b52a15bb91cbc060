"""Forgeries of real published submissions are seen, and never blamed on the genuine log."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.checker.audit.careful_forgeries import CASES as CAREFUL
from tests.checker.audit.corpus_forgeries import CASES as ONE_EDIT
from tests.checker.audit.corpus_forgeries import all_cases
from tests.checker.audit.forging import Case, judged
from tests.checker.audit.further_forgeries import CASES as FURTHER
from tests.corpus import corpus_root

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(corpus_root() is None, reason="needs real submissions (ASSAY_CORPUS)"),
]


@pytest.mark.parametrize(
    ("cases", "errors", "unseen"),
    [(ONE_EDIT, 0.95, 0.0), (CAREFUL, 0.9, 0.03), (FURTHER, 0.8, 0.06)],
    ids=["one edit", "careful", "further"],
)
def test_forgeries_are_seen(cases: list[Case], errors: float, unseen: float) -> None:
    """Of all together more than 85 % are an error and less than 5 % are not seen."""
    verdicts = judged(cases)
    assert len({verdict.name for verdict in verdicts}) == len(cases)
    counts = Counter(verdict.severity for verdict in verdicts)
    silent = [verdict.name for verdict in verdicts if verdict.severity == "nothing"]
    assert counts["error"] >= errors * len(verdicts), counts
    assert len(silent) <= unseen * len(verdicts), silent
    # What is made invalid is the forged result, or a result of the same system and benchmark.
    for verdict in verdicts:
        forged = "/".join(verdict.result.split("/")[:2])
        others = [key for key in verdict.blamed if f"/{forged}/" not in key]
        assert others == [], (verdict.name, others)


def test_there_are_more_than_two_hundred() -> None:
    assert len({name for name, *_ in all_cases()}) == len(all_cases()) > 200
