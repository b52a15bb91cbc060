"""An empty submission of a round for one system: everything that a person fills in, and nothing made up.

What is not known is empty, never a placeholder that could pass: every finding of a check says what to
fill in, and a check without errors says that all of it was.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from assay.prepare.fields import MEASUREMENTS, SYSTEM
from checker.model import demands_of
from checker.near import hint, nearest
from schemas.load import load_round
from schemas.round import Category, Round


class BadWish(ValueError):
    """No such tree can be made; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Skeleton:
    """What a new tree is for. category: datacenter, edge or "datacenter,edge"; "" where it is not said."""

    round: str
    submitter: str
    system: str
    division: str = "closed"
    category: str = ""
    benchmarks: Sequence[str] = ()


def files_of(wanted: Skeleton) -> dict[str, str]:
    """Every file of the new tree by its path. Raises BadWish and schemas.UnknownRound."""
    round = load_round(wanted.round)
    for name in (wanted.submitter, wanted.system):
        if not name or name.startswith(".") or any(c in name for c in " /\\\0"):
            raise BadWish(
                f"{name!r} cannot be a folder's name: expected no blank, no slash, no leading dot"
            )
    if wanted.division not in round.divisions:
        raise BadWish(f"{round.name} has no division {wanted.division}")
    names = {"division": wanted.division, "submitter": wanted.submitter, "system": wanted.system}
    base = f"{wanted.division}/{wanted.submitter}"
    documentation = (round.layout.documentation or base).format(**names)
    found = {
        round.layout.system.format(**names): _json(_description(round, wanted)),
        f"{documentation}/to-fill-in.md": guide(round),
    }
    if round.layout.calibration:
        # Elsewhere an empty document would be taken for one.
        found[f"{documentation}/calibration.md"] = ""
    code = f"{base}/{round.layout.code[0]}"
    for benchmark in wanted.benchmarks:
        for scenario in _scenarios(round, benchmark, wanted.category):
            place = {**names, "benchmark": benchmark, "scenario": scenario}
            found.update(_result(round, place))
        found[f"{code}/{benchmark}/README.md"] = ""
    if not wanted.benchmarks:
        found[f"{code}/README.md"] = ""
    return found


def _description(round: Round, wanted: Skeleton) -> dict[str, str]:
    known = {
        "division": wanted.division, "submitter": wanted.submitter, "system_name": wanted.system,
        "system_type": wanted.category,
    }  # fmt: skip
    fields = list(round.system_description.required)
    if wanted.division == "network":
        fields += [f for f in round.system_description.network if f not in fields]
        known["is_network"] = "true"
    return {field: known.get(field, "") for field in fields}


def _scenarios(round: Round, name: str, category: str) -> list[str]:
    """The scenarios that a benchmark must have, and the first of each group of alternatives."""
    benchmark = round.benchmarks.get(name)
    if benchmark is None:
        raise BadWish(
            f"{round.name} has no benchmark {name}{hint(nearest(name, round.benchmarks, 0.6))}"
        )
    demands: Category | None = demands_of(benchmark, category or None)
    if demands is None:
        suites = ", ".join(sorted(benchmark.categories))
        raise BadWish(f"{name} is in the suites {suites}; give one of them as --category")
    return list(dict.fromkeys([*demands.required, *(group[0] for group in demands.one_of)]))


def _result(round: Round, place: dict[str, str]) -> dict[str, str]:
    """What a person writes of one result; logs come from LoadGen."""
    layout = round.layout
    folder = layout.measurements.format(**place)
    document = layout.measurements_file[0].format(**place).replace("*", "")
    found = {f"{folder}/{document}": _json(dict.fromkeys(round.measurements.required, ""))}
    found.update({f"{folder}/{name}": "" for name in layout.measurement_files.required})
    if ".gitkeep" in layout.ignored_files:
        found[f"{layout.results.format(**place)}/performance/run_1/.gitkeep"] = ""
        found[f"{layout.results.format(**place)}/accuracy/.gitkeep"] = ""
    return found


def _json(fields: dict[str, str]) -> str:
    return json.dumps(fields, indent=4, ensure_ascii=False) + "\n"


def guide(round: Round) -> str:
    """What every field means and what else is to be written, as Markdown."""
    layout, about = round.layout, round.system_description
    lines = [
        f"# To fill in ({round.title})",
        "",
        "`assay check` names what is still empty. Where a field does not apply, write N/A. Remove this file at the end.",
        "",
        "## systems/SYSTEM.json",
        "",
        "| field | needed | meaning |",
        "|---|---|---|",
    ]
    needed = [*about.required, *(f for f in about.network if f not in about.required)]
    for field in needed:
        answer = "an answer" if field in about.non_empty else "may be empty"
        answer = "network division" if field not in about.required else answer
        lines.append(f"| {field} | {answer} | {SYSTEM.get(field, '')} |")
    document = _shown(layout.measurements_file[0]).replace("*", "_IMPLEMENTATION")
    lines += ["", f"## {document} of a result", "", "| field | meaning |", "|---|---|"]
    lines += [
        f"| {field} | {MEASUREMENTS.get(field, '')} |" for field in round.measurements.required
    ]
    lines += [
        "",
        "## Documents and logs",
        "",
        f"* `{_shown(layout.measurements)}`: user.conf as the run was given it, README.md with how to run it again",
        f"* `{_shown(layout.results)}/performance/run_1`: LoadGen's {', '.join(layout.performance.required)}",
        f"* `{_shown(layout.results)}/accuracy`: {', '.join(layout.accuracy.required)}; `assay prepare` truncates the log",
        f"* `{layout.code[0]}/BENCHMARK`: the code, and how to build and run it",
        "* calibration.md: how the model was quantized and calibrated, or that it was not",
        "* bandwidth.md beside it, for datacenter systems: that the network could carry the load",
    ]
    if layout.compliance:
        lines.append(
            f"* `{_shown(layout.compliance)}`: the folder of each compliance test of the benchmark"
        )
    return "\n".join(lines) + "\n"


def _shown(pattern: str) -> str:
    """A layout's pattern for people: SYSTEM/BENCHMARK/SCENARIO."""
    names = ("division", "submitter", "system", "benchmark", "scenario")
    return pattern.format(**{name: name.upper() for name in names})
