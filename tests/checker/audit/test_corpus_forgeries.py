"""Forgeries of real published submissions are seen, and never blamed on the genuine log."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.checker.audit.corpus_forgeries import all_cases
from tests.checker.audit.forging import judged
from tests.corpus import corpus_root

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(corpus_root() is None, reason="needs real submissions (ASSAY_CORPUS)"),
]


def test_forgeries_are_seen() -> None:
    cases = all_cases()
    verdicts = judged(cases)
    assert len(verdicts) == len(cases) >= 100
    assert len({verdict.name for verdict in verdicts}) == len(verdicts)
    counts = Counter(verdict.severity for verdict in verdicts)
    unseen = [verdict.name for verdict in verdicts if verdict.severity == "nothing"]
    assert counts["error"] >= 0.85 * len(verdicts), counts
    assert len(unseen) <= 0.05 * len(verdicts), unseen
    # What is made invalid is the forged result, or a result of the same system and benchmark.
    for verdict in verdicts:
        forged = "/".join(verdict.result.split("/")[:2])
        others = [key for key in verdict.blamed if f"/{forged}/" not in key]
        assert others == [], (verdict.name, others)
