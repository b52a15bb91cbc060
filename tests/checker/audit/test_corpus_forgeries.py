"""Forgeries of real published submissions are seen, and never blamed on the genuine log."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.checker.audit.corpus_forgeries import CASES, judged
from tests.corpus import corpus_root

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(corpus_root() is None, reason="needs real submissions (ASSAY_CORPUS)"),
]


def test_forgeries_are_seen() -> None:
    verdicts = judged()
    assert len(verdicts) == len(CASES) >= 60
    counts = Counter(verdict.severity for verdict in verdicts)
    unseen = [verdict.name for verdict in verdicts if verdict.severity == "nothing"]
    assert counts["error"] >= 0.85 * len(verdicts), counts
    assert len(unseen) <= 0.05 * len(verdicts), unseen
