"""TEST05: is the run as fast with other seeds?

Source: the round's compliance test TEST05; its alternate seeds are the round's ``test05_seeds``.
"""

from __future__ import annotations

from checker.compliance.evidence import Test

TEST = Test(text="verify_performance.txt", speed=True, full_run=True)
