"""Family R: what the compliance tests' verification texts say of the runs that they compared."""

from __future__ import annotations

from checker.audit.evidence import evidence
from checker.audit.field import Field
from checker.audit.traces import Named, ResultTrace, base_name
from checker.discover import canonical_scenario
from checker.rule import ERROR, Problem, Problems, rule
from schemas.names import benchmark_name
from schemas.round import Round


@rule("R317", ERROR, needs=("field", "named"))
def verified_its_own_runs(result: ResultTrace, round: Round) -> Problems:
    """The paths in a test's verification text are those of the result's own runs.

    The last folder of a path that is a scenario's name, the folder before it where it is a
    benchmark's, and the one before that where it is a system's of the same submitter. No text
    of the 39 results of v2.1 to v6.1 that hold such paths names another.

    Why: the verification scripts print which logs they compared; a text of another benchmark,
    scenario or system proves nothing of this one.
    Fix: run the verification script on the result's own logs and save its output.
    Source: compliance tests: run_verification.py and LoadGen's log parser print the logs' paths.
    """
    for one in result.named:
        wrong = _other(result, one, round)
        if wrong is not None:
            what, found, expected = wrong
            yield Problem(
                f"found a path of the {what} {found}; expected the {what} {expected}",
                path=one.path,
                line=one.line,
                found=found,
                required=expected,
                evidence=evidence(
                    "the path names the result's own benchmark, scenario and system",
                    "high",
                    {"path": "/".join(one.folders)},
                    {one.path: one.line},
                ),
            )
            return


def _other(result: ResultTrace, named: Named, round: Round) -> tuple[str, str, str] | None:
    """What the path names that is not the result's: (kind, found, expected)."""
    folders = named.folders
    at = max(
        (i for i, name in enumerate(folders) if canonical_scenario(name, round.aliases)),
        default=None,
    )
    if at is None or at < 2:
        return None
    scenario = canonical_scenario(folders[at], round.aliases)
    own = {result.scenario, result.ran} | {
        i.source for i in round.inference if i.target == result.scenario
    }
    if scenario not in own:
        return "scenario", scenario or folders[at], result.scenario
    benchmark = benchmark_name(folders[at - 1], round, {}, "closed")
    mine = result.subject.benchmark or result.directory
    if benchmark is None or folders[at - 1] == result.directory:
        return None
    if base_name(benchmark) != base_name(mine):
        return "benchmark", folders[at - 1], result.directory
    field: Field = result.field
    system = result.subject.system or ""
    others = field.systems[result.tree, result.subject.submitter] - {system}
    if folders[at - 2] in others and system not in folders:
        return "system", folders[at - 2], system
    return None
