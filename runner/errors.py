"""What can go wrong in a measurement, as exceptions whose text says how to fix it."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence


class RunnerError(Exception):
    """Base of every error the runner raises on purpose."""


class SettingsError(RunnerError):
    """The settings contradict each other, the round or LoadGen."""


class UserConfError(SettingsError):
    """A user.conf line is unknown, forbidden or has a wrong value; `line` is 1-based."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


class OutputError(RunnerError):
    """The output folder cannot take the result (permissions, space, an older result)."""


class DatasetError(RunnerError):
    """The data set is absent, incomplete or of another shape."""


class BackendError(RunnerError):
    """The backend, its execution provider or the model file cannot be used as asked."""


class InferenceError(RunnerError):
    """An inference raised or gave outputs that no result may rest on."""


class LostQuery(InferenceError):
    """A query that a system behind a network left unanswered."""

    @classmethod
    def of(cls, reason: str, samples: Sequence[int]) -> LostQuery:
        """No answer for these samples, by their places in the data set."""
        return cls(f"sample {_listed(samples)}: {reason}")

    def named(self, ids: Sequence[int]) -> LostQuery:
        """The same with the ids that LoadGen gave the samples."""
        return LostQuery(f"lost query {_listed(ids)}, {self}")


def _listed(numbers: Sequence[int], most: int = 5) -> str:
    text = ", ".join(str(number) for number in numbers[:most])
    return text if len(numbers) <= most else f"{text} and {len(numbers) - most} more"


class ResourceError(RunnerError):
    """The run needs more memory or disk than the machine has free."""


class HopelessRun(RunnerError):
    """A performance run that was ended early, because it could only become INVALID.

    `values`: the user.conf settings that were in effect; `rate`: samples per second so far;
    `disturbed`: see `Measurement.disturbed`.
    """

    def __init__(
        self,
        message: str,
        values: Mapping[str, float] | None = None,
        rate: float = 0.0,
        disturbed: float = 0.0,
    ) -> None:
        super().__init__(message)
        self.values = dict(values or {})
        self.rate = rate
        self.disturbed = disturbed


class StalledRun(RunnerError):
    """A run that was ended because a model, backend or data set stopped making progress."""


class RunFailed(RunnerError):
    """A LoadGen run ended without a usable log; the text carries the first cause."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, or another signal: the run was ended and nothing of it is claimed.

    A KeyboardInterrupt, so that callers that know nothing of the runner leave with 130; `number`
    is the signal's.
    """

    def __init__(self, message: str, number: int = signal.SIGINT) -> None:
        super().__init__(message)
        self.number = number
