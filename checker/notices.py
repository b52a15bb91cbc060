"""Remarks on the check itself: findings that no rule makes, and what was not checked."""

from __future__ import annotations

from collections.abc import Iterator

from checker.clean import clean
from checker.detect import Detected
from checker.discover import Place, Plan
from checker.options import Options
from schemas.load import load_round
from schemas.report import Finding
from schemas.round import Round


def about_round(options: Options, detected: Detected, round: Round) -> Iterator[Finding]:
    if not options.round or not detected.sure or detected.name == round.name:
        return
    # Seeds are the evidence; of rounds that share them either may be meant.
    if load_round(detected.name).seeds != round.seeds:
        yield Finding(
            rule="X004",
            name="round-contradicts-tree",
            severity="warning",
            message=f"the tree looks like {detected.name} ({detected.reason}), but --round is {round.name}",
            path=".",
            found=detected.name,
            required=round.name,
            fix=f"leave --round out, or say --round {detected.name}",
        )


def no_limits(place: Place, round: Round) -> Finding:
    return Finding(
        rule="X008",
        name="limits-not-applied",
        severity="warning",
        message=clean(
            f"the run's benchmark is not known ({place.benchmark!r} is none of {round.name}): none of the "
            "round's limits was applied to it",
            1000,
        ),
        path=".",
        fix="say which it is: --benchmark B --scenario S, and --round R if it is another round's",
    )


def nothing_checked(plan: Plan, options: Options) -> Finding:
    seen = sorted({f"{s.division}/{s.name}" for s in plan.tree.submitters})
    if options.submitters:
        asked = ", ".join(sorted(options.submitters))
        message = f"nothing was checked: no results of submitter {asked}"
        near = [
            n for n in plan.other_submitters if n.lower() in {a.lower() for a in options.submitters}
        ]
        if near:
            message += f"; did you mean {' or '.join(near)}?"
        elif plan.other_submitters:
            message += f"; there are {', '.join(plan.other_submitters[:20])}"
    elif seen:
        message = f"nothing was checked: no result folder below {', '.join(seen[:5])}"
    else:
        message = "nothing was checked: no folder closed/, open/ or network/ with results in it"
    return Finding(
        rule="X003",
        name="nothing-checked",
        severity="error",
        message=clean(message, 1000),
        path=".",
        fix="give the folder that holds closed/, open/ or network/, a submitter's folder, or one run's folder",
    )


def not_checked(place: Place) -> list[str]:
    outside = (
        "system description, code, documentation and, before v6.0, measurements and compliance "
        "tests: they are outside the folder that was given"
    )
    return {
        "tree": [],
        "division": ["files beside the division's folder"],
        "submitter": ["files beside the submitter's folder"],
        "system": [outside],
        "benchmark": [outside, "the system's other benchmarks"],
        "result": [outside, "whether the benchmark's other required scenarios are there"],
        "run": [
            "everything but this run's own logs: accuracy, measurements, compliance tests and "
            "system description are outside the folder that was given"
        ],
    }[place.scope]
