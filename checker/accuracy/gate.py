"""The quality gate: a score against factor x reference."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gate:
    """The demand on one metric: ``reference`` x ``factor`` is the lower bound.

    ``limit`` is an upper bound in the metric's own unit, for the few that have one (generated
    length, FID). Units are the metric's own; score and reference must agree.
    """

    metric: str
    reference: float | None
    factor: float = 0.99
    limit: float | None = None

    @property
    def target(self) -> float | None:
        """The lower bound, or None where the metric has only an upper one."""
        return None if self.reference is None else self.reference * self.factor

    def verdict(self, score: float) -> Verdict:
        """Hold a score against the gate; a score that is not a number does not pass."""
        target = self.target
        valid = math.isfinite(score)
        margin: float | None = None
        if target is not None:
            margin = score - target
            valid = valid and score >= target
        if self.limit is not None:
            room = self.limit - score
            margin = room if margin is None else min(margin, room)
            valid = valid and score <= self.limit
        return Verdict(gate=self, score=score, target=target, valid=valid, margin=margin)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate said: ``margin`` is how far inside the nearest bound the score is.

    A negative margin is how much is lacking; None where there is no bound.
    """

    gate: Gate
    score: float
    target: float | None
    valid: bool
    margin: float | None

    def line(self) -> str:
        """One line for people: score, demand, margin, verdict."""
        margin = f", margin {self.margin:+.4f}" if self.margin is not None else ""
        return self.demand() + margin + (": valid" if self.valid else ": INVALID")

    def demand(self) -> str:
        """The score and what is required of it, without a verdict."""
        gate = self.gate
        parts = [f"{gate.metric} {self.score:.4f}"]
        if self.target is not None:
            parts.append(
                f"required >= {self.target:.4f} ({gate.factor:g} x reference {gate.reference:g})"
            )
        if gate.limit is not None:
            parts.append(f"required <= {gate.limit:g}")
        return ", ".join(parts)
