"""TEST04: is one sample, asked again and again, answered faster? That would be a cache.

Before v2.1 a pair of runs: TEST04-A issues unique samples, TEST04-B one sample.

Source: the round's compliance test TEST04.
"""

from __future__ import annotations

from checker.compliance.evidence import Evidence, Test


def _needs_the_log(evidence: Evidence) -> str | None:
    return None if evidence.detail else "the test's detail log is missing"


TEST = Test(text="verify_performance.txt", speed=True, full_run=True)
PAIR = Test(text="verify_performance.txt", speed=True)
SECOND_OF_PAIR = Test(undecided=_needs_the_log)
"""TEST04-B has no text of its own: TEST04-A is compared with it."""
