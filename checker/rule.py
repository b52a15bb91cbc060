"""What a rule is: a function with an id, a severity and a docstring that explains it.

A rule takes the smallest thing it can judge and the round's data and yields a `Problem` for
everything that is wrong. It never opens a file. Its docstring is its documentation: the demand,
then ``Why:``, ``Fix:`` and ``Source:``.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any, TypeVar

import msgspec

from schemas.report import RuleFacts, Severity
from schemas.round import Round

ERROR: Severity = "error"
WARNING: Severity = "warning"
NOTE: Severity = "note"

FAMILIES = {
    "S": "structure",
    "D": "system description",
    "M": "measurements and configuration",
    "P": "performance",
    "A": "accuracy",
    "C": "compliance",
    "W": "power",
    "N": "network division",
    "R": "audit",
    "X": "the tool itself",
}


_T = TypeVar("_T")


class NotJudged(Exception):
    """Raised by a rule before it yields, where a computation of its own shows that it cannot judge.

    Absence is not a reason: what a rule needs is a parameter. Nor is another kind of thing: ``only``
    says which kind it is for.
    """


def given(value: _T | None) -> _T:
    """A value that a rule computes or reads for itself. Raises NotJudged where there is none."""
    if value is None:
        raise NotJudged
    return value


class Problem(msgspec.Struct, frozen=True):
    """One thing wrong. ``message`` says what was found, then what was expected, with units.

    path, line: where, when it is not the judged thing's own path. case: which of the rule's cases
    this is. evidence: for audit rules, the values side by side. results: the keys of the results
    that it concerns, where these are not all of the judged thing's. count: how many places, where
    what repeats is one finding. invalidates: the keys of the results that an error makes invalid,
    where these are not all that it concerns. damage: the file at ``path`` is truncated or cannot be
    read. if_whole: the path of a file without which this would be no problem of its own (default:
    ``path``, where no line of it is named): it follows from that file's damage, if it has any.
    """

    message: str
    found: Any = None
    required: Any = None
    path: str | None = None
    line: int | None = None
    pointer: str | None = None
    fix: str | None = None
    case: str | None = None
    evidence: dict[str, Any] | None = None
    results: tuple[str, ...] | None = None
    count: int | None = None
    invalidates: tuple[str, ...] | None = None
    damage: bool = False
    if_whole: str | None = None


Problems = Iterator[Problem]
"""What a rule's function returns."""

Check = Callable[..., Problems]


class Need(msgspec.Struct, frozen=True):
    """One thing a rule needs of what it judges: a dotted attribute, handed over by position.

    optional: the rule is applied without it too (and gets None).
    """

    path: str
    optional: bool = False


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A registered rule.

    target: the type (or union of types) it judges. needs: what is handed over, in the order of the
    function's parameters; required: what must be there besides. only: attributes with the values that
    they must have. cases: named degrees with their
    severity. invalidates: whether an error of the rule makes every result that it concerns invalid;
    None: unless the thing is a submitter or a tree.
    """

    id: str
    name: str
    severity: Severity
    check: Check
    target: Any
    needs: tuple[Need, ...]
    required: tuple[str, ...]
    only: tuple[tuple[str, tuple[Any, ...]], ...]
    cases: Mapping[str, Severity]
    divisions: tuple[str, ...]
    when: Callable[[Round], bool] | None
    invalidates: bool | None

    @property
    def summary(self) -> str:
        """What the rule demands."""
        return _docstring(self.check)["summary"]

    @property
    def why(self) -> str:
        """Why it is demanded."""
        return _docstring(self.check)["why"]

    @property
    def fix(self) -> str:
        """How to fix what it finds."""
        return _docstring(self.check)["fix"]

    @property
    def source(self) -> str:
        """Who demands it."""
        return _docstring(self.check)["source"]

    @property
    def family(self) -> str:
        """The family's letter."""
        return self.id[0]

    def facts(self) -> RuleFacts:
        """The rule as a report carries it."""
        return RuleFacts(
            id=self.id,
            name=self.name,
            family=FAMILIES[self.family],
            severity=self.severity,
            summary=self.summary,
            why=self.why,
            fix=self.fix,
            source=self.source,
        )


def is_present(value: Any) -> bool:
    """Whether a need's value is there: numbers always, a flag where it is set, all else when it is
    not empty."""
    return bool(value) or (isinstance(value, int | float) and not isinstance(value, bool))


def attribute(thing: Any, path: str) -> Any:
    """The value of a dotted attribute; None where any part of it is absent."""
    if "." not in path:
        return getattr(thing, path, None)
    for part in path.split("."):
        thing = getattr(thing, part, None)
        if thing is None:
            return None
    return thing


def rule(
    id: str,
    severity: Severity,
    *,
    needs: str | tuple[str, ...] | Mapping[str, str] = (),
    only: Mapping[str, Any] | None = None,
    cases: Mapping[str, Severity] | None = None,
    divisions: tuple[str, ...] = (),
    when: Callable[[Round], bool] | None = None,
    invalidates: bool | None = None,
) -> Callable[[Check], Rule]:
    """Make a rule of a function ``(thing, round, *needs)``.

    The parameters after the first two are what the rule needs: each is an attribute of the thing
    with that name, and the rule is not applied where one is absent. A parameter with a default is
    optional. ``needs`` maps a parameter to a dotted attribute where the name differs
    (``needs={"size": "benchmark.dataset.size"}``), or names attributes that must be there without
    being handed over.

    only: a dotted attribute and its value, or a tuple of values: the rule is not applied to a thing with
    another (``only={"scenario": "Server"}``).
    cases: the rule's named degrees and their severities, for `Problem.case`.
    when: whether the round has such a rule at all.
    invalidates: whether an error makes the results that it concerns invalid. Default: where the
    thing is a system, a benchmark or less; what is wrong with a submitter or a tree does not.
    """
    paths = dict(needs) if isinstance(needs, Mapping) else {}
    required = () if isinstance(needs, Mapping) else (needs,) if isinstance(needs, str) else needs

    def decorate(check: Check) -> Rule:
        # functools.partial and the like never reach here: rules are plain functions. What
        # `inspect` and `typing` would say costs a tenth of a second for all rules.
        function: Any = check
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        optional = len(function.__defaults__ or ())
        needed = names[2 : len(names) - optional]
        handed = tuple(Need(paths.get(name, name), name not in needed) for name in names[2:])
        target = function.__annotations__[names[0]]
        if isinstance(target, str):
            kinds = (function.__globals__[name.strip()] for name in target.split("|"))
            target = functools.reduce(operator.or_, kinds)
        unknown = set(paths) - set(names[2:])
        if unknown:
            raise TypeError(f"{id}: needs names {sorted(unknown)}, which are not parameters")
        return Rule(
            id=id,
            name=function.__name__.replace("_", "-"),
            severity=severity,
            check=check,
            target=target,
            needs=handed,
            required=tuple(required),
            only=tuple(
                (path, wanted if isinstance(wanted, tuple) else (wanted,))
                for path, wanted in (only or {}).items()
            ),
            cases=dict(cases or {}),
            divisions=divisions,
            when=when,
            invalidates=invalidates,
        )

    return decorate


def rules_of(module: ModuleType) -> list[Rule]:
    """The rules that a module defines, in the order of their ids."""
    return sorted((v for v in vars(module).values() if isinstance(v, Rule)), key=lambda r: r.id)


_HEADINGS = re.compile(r"^[ \t]*(Why|Fix|Source):\s*", re.MULTILINE)


@functools.cache
def _docstring(check: Check) -> dict[str, str]:
    # The indentation need not be taken away first, as `inspect` does: all blanks become one below.
    pieces = _HEADINGS.split(check.__doc__ or "")
    parts = {"summary": pieces[0], "why": "", "fix": "", "source": ""}
    for heading, body in zip(pieces[1::2], pieces[2::2], strict=True):
        parts[heading.lower()] = body
    return {key: " ".join(value.split()) for key, value in parts.items()}
