"""What every score says of the accuracy log that it was read from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Self

from checker.accuracy.log import SampleReader
from checker.accuracy.problem import Problem, Problems


@dataclass(frozen=True, slots=True, kw_only=True)
class LogScore(ABC):
    """A score, and what its log was like.

    ``missing`` samples of the ground truth have no record and are not in the score; ``truncated``:
    the log's middle was cut out; ``sha256`` is the log's hash where it was computed; ``problems``
    is what was irregular. A score of predictions that come from no log has the defaults.
    """

    missing: int = 0
    truncated: bool = False
    sha256: str | None = None
    problems: list[Problem] = field(default_factory=list)

    @abstractmethod
    def line(self) -> str:
        """The line that rounds expect in accuracy.txt."""

    @property
    @abstractmethod
    def count(self) -> int | None:
        """How many samples the score is of; None where it is of something else, such as pairs."""

    @property
    def notes(self) -> list[str]:
        """What the score does not show, each a sentence."""
        return []

    def read_from(self, samples: SampleReader, problems: Problems) -> Self:
        """The same score, with what its log was like once it was read to its end."""
        return replace(
            self,
            missing=samples.missing,
            truncated=samples.truncated,
            sha256=samples.log.sha256,
            problems=samples.problems + problems.listed(),
        )
