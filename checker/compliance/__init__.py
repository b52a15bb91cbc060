"""The compliance tests, verified from their own logs: what the rules judge, what the runner writes.

``verify(test, main_dir, test_dir, round, benchmark, scenario)`` gives an `Outcome` with the
verdict, the numbers behind it and the texts the round asks for; ``write`` writes those texts.
"""

from checker.compliance.verify import Outcome, verify, write

__all__ = ["Outcome", "verify", "write"]
