"""Watching a run: when is it certain that LoadGen will call it INVALID?

Only what leaves no way back counts; everything else is LoadGen's to judge.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

SPEED_UP = 4.0  # Offline: even if the rest of the run were so much slower, it would be too short


@dataclass(frozen=True)
class Limits:
    """What the run is held to.

    `queries`: the most that LoadGen can issue (Server), or the samples of its query (Offline);
    `share`: of the queries that may be late; `limit_s`: the latency limit; `rate`: queries a second
    (Server); `what` is late: whole queries, or the first tokens of a language model.
    """

    scenario: str
    duration_s: float
    queries: int
    share: float = 0.0
    limit_s: float = math.inf
    rate: float = 0.0
    what: str = "queries"


def most_queries(target_qps: float, duration_s: float, least: int) -> int:
    """More queries than a Poisson schedule of this rate can hold, short of a miracle."""
    expected = target_qps * duration_s
    return max(least, math.ceil(expected + 6 * math.sqrt(expected) + 16))


@dataclass
class Watch:
    """Looks at a run's counters now and then; `verdict` is what can be said for certain."""

    limits: Limits
    _issued: deque[tuple[float, int]] = field(default_factory=deque)

    def due(self, now: float) -> int:
        """At least so many queries are due by now, by the schedule's rate."""
        expected = self.limits.rate * min(now, self.limits.duration_s)
        return max(0, int(expected - 6 * math.sqrt(expected) - 16))

    def overdue(self, now: float, issued: int, done: int) -> int:
        """Queries that have waited longer than the limit and are not answered.

        Right where answers come in the order of the queries, else at worst too few.
        """
        self._issued.append((now, issued))
        while len(self._issued) > 1 and self._issued[1][0] <= now - self.limits.limit_s:
            self._issued.popleft()
        seen, then = self._issued[0]
        return max(0, then - done) if seen <= now - self.limits.limit_s else 0

    def verdict(self, now: float, done: int, issued: int = 0, late: int = 0) -> str | None:
        """Why the run can only become INVALID; None while it may still be VALID.

        Args:
            now: seconds since LoadGen began.
            done: samples answered; issued: samples issued (Server).
            late: answered after the limit (Server).
        """
        limits = self.limits
        if limits.scenario == "Server":
            waiting = self.overdue(now, issued, done)
            bound = limits.share * limits.queries
            if late + waiting > bound:
                backlog = f", and {issued - done:,} are waiting" if issued > done else ""
                advice = "Lower target_qps" + (
                    ""
                    if issued > done
                    else " or, since no queue is seen, look at how long one inference takes and what else "
                    "runs on the machine"
                )
                return (
                    f"found {late + waiting:,} {limits.what} later than {limits.limit_s * 1000:g} ms "
                    f"after {now:.1f} s{backlog}; of the at most {limits.queries:,} queries of "
                    f"the run {int(bound):,} may be. {advice}"
                )
        elif limits.scenario == "Offline" and 0 < done < limits.queries and now >= 1:
            rest = now * (limits.queries - done) / done
            if now + SPEED_UP * rest < limits.duration_s:
                return (
                    f"found {done:,} of {limits.queries:,} samples answered after {now:.1f} s: "
                    f"the run would end after {now + rest:.1f} s; expected at least "
                    f"{limits.duration_s:g} s. Raise target_qps to {1.2 * done / now:.4g}"
                )
        return None
