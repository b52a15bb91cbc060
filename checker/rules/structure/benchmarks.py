"""Family S: folders of benchmarks and scenarios, and which of them a round requires."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from checker.discover import canonical_scenario
from checker.model import SCENARIOS, BenchmarkFolder, Result, demands_of
from checker.near import hint, nearest
from checker.parse.reading import Folder
from checker.rule import ERROR, NOTE, WARNING, Problem, Problems, rule
from checker.rules.structure.entries import listed
from schemas.round import Category, Round


@rule("S112", ERROR, cases={"open": WARNING}, needs="complete")
def benchmark_known(result: Result, round: Round) -> Problems:
    """A result's benchmark folder is named after a benchmark of the round.

    Why: a result's limits and metric are those of its benchmark.
    Fix: rename the folder with git mv; in the open division, name the benchmark of your own model
        in model_mapping.json.
    Source: submission_rules.adoc, "Directory structure": benchmark names.
    """
    if result.name is None:
        yield _unknown(result.directory, result.division, round, "the result was not judged")


def _unknown(directory: str, division: str, round: Round, effect: str) -> Problem:
    near = nearest(directory, [*round.benchmarks, *round.aliases.exact], 0.6)
    names = sorted(round.benchmarks)
    file = (round.aliases.mapping_file or "").rsplit("/", 1)[-1] if division == "open" else ""
    how = f", or an entry in {file}" if file else ""
    return Problem(
        f"found {directory}, so {effect}; expected a benchmark of {round.name} "
        f"({listed(names, 40)}){how}{hint(near)}",
        found=directory,
        required=names,
        case="open" if division == "open" and not file else None,
        fix=f'add "{directory}": "BENCHMARK" to {file} in the submitter\'s folder'
        if file
        else None,
    )


@rule("S113", ERROR, needs="complete")
def benchmark_folder(group: BenchmarkFolder, round: Round) -> Problems:
    """A system's folder in results holds only folders of benchmarks.

    Why: another folder there is a leftover, or a result that nobody will find.
    Fix: remove the folder with git rm -r, or rename it to the benchmark with git mv.
    Source: submission_rules.adoc, "Directory structure": results.
    """
    # A folder with results in it is reported once for each of them, by benchmark-known.
    if group.name is None and not group.scenarios and not _has_result(group.folder):
        problem = _unknown(group.directory, "closed", round, "it holds no result")
        yield Problem(problem.message, found=group.directory, required=problem.required)


def _has_result(folder: Folder | None) -> bool:
    return folder is not None and any(_is_result(below) for below in folder.folders.values())


def _is_result(folder: Folder) -> bool:
    return bool({name.lower() for name in folder.folders} & {"performance", "accuracy"})


@rule("S114", ERROR, needs="complete")
def scenario_known(result: Result, round: Round) -> Problems:
    """A result's folder is named after a scenario.

    Why: a result's limits and metric are those of its scenario.
    Fix: rename the folder to the scenario that was run, with git mv.
    Source: inference_rules.adoc, "Scenarios".
    """
    if result.scenario is None:
        near = nearest(result.scenario_folder, SCENARIOS, 0.6)
        yield Problem(
            f"found {result.scenario_folder}, so the result was not judged; expected a scenario "
            f"({listed(SCENARIOS)}){hint(near)}",
            found=result.scenario_folder,
            required=list(SCENARIOS),
        )


@rule("S115", ERROR, needs={"names": "unknown_scenarios"}, invalidates=False)
def scenario_folder(
    group: BenchmarkFolder, round: Round, folder: Folder, names: list[str]
) -> Problems:
    """A benchmark's folder holds only folders of scenarios.

    Why: another folder there is a leftover, or a result that nobody will find.
    Fix: remove the folder with git rm -r, or rename it to the scenario with git mv.
    Source: submission_rules.adoc, "Directory structure": results.
    """
    for name in names if group.complete else ():
        below = folder.folders.get(name)
        if below is not None and not _is_result(below):
            near = nearest(name, SCENARIOS)
            yield Problem(
                f"found {name}; expected a scenario ({listed(SCENARIOS)}){hint(near)}",
                path=below.path,
                found=name,
                required=list(SCENARIOS),
                fix=f"git mv {below.path} {group.path}/{near}" if near else None,
            )


@rule("S116", ERROR, divisions=("closed", "network"))
def required_scenarios(
    group: BenchmarkFolder, round: Round, demands: Category, complete: bool
) -> Problems:
    """Every scenario that the benchmark requires in the system's category is there.

    Why: in the closed division a benchmark counts only with all its required scenarios.
    Fix: add the missing scenario's result, or submit the benchmark in the open division.
    Source: inference_rules.adoc, "Benchmarks": required scenarios of each category.
    """
    missing = [name for name in demands.required if name not in group.scenarios]
    if missing and complete:
        found = sorted(group.scenarios)
        yield Problem(
            f"found {listed(found)}; expected {listed(demands.required)} of "
            f"{group.name}{_category(group.category)}. Missing: {listed(missing)}; the scenarios "
            "found would be valid in the open division",
            found=found,
            required=demands.required,
        )


def _category(category: str | None) -> str:
    return f" in category {category}" if category else ""


@rule("S117", ERROR, divisions=("closed", "network"))
def one_of_scenarios(group: BenchmarkFolder, round: Round, demands: Category) -> Problems:
    """Of scenarios that can replace each other at least one is there.

    Why: benchmarks with an Interactive scenario require Server or Interactive.
    Fix: add the result of one of them, or submit the benchmark in the open division.
    Source: inference_rules.adoc, "Benchmarks": required scenarios of each category.
    """
    for choice in demands.one_of if group.complete else ():
        if not set(choice) & set(group.scenarios):
            yield Problem(
                f"found {listed(sorted(group.scenarios))}; expected {' or '.join(choice)} of "
                f"{group.name}{_category(group.category)}. The scenarios found would be valid in "
                "the open division",
                found=sorted(group.scenarios),
                required=choice,
            )


@rule("S118", ERROR, divisions=("closed", "network"), needs=("benchmark", "scenario", "complete"))
def scenario_allowed(result: Result, round: Round) -> Problems:
    """A result's scenario is one that the benchmark has in the system's category.

    Why: the round sets no limits for another scenario.
    Fix: remove the result, or submit it in the open division.
    Source: inference_rules.adoc, "Benchmarks": required and optional scenarios.
    """
    demands = demands_of(result.benchmark, result.category)
    if demands is not None and result.scenario not in demands.allowed:
        yield Problem(
            f"found {result.scenario}; expected {listed(demands.allowed)}, the scenarios of "
            f"{result.name}{_category(result.category)}",
            found=result.scenario,
            required=demands.allowed,
        )


@rule("S119", ERROR, divisions=("closed", "network"), needs=("benchmark", "category"))
def benchmark_in_category(result: Result, round: Round) -> Problems:
    """The benchmark belongs to the category (datacenter, edge) of the system.

    Why: each category has its own suite of benchmarks.
    Fix: correct system_type, remove the result, or submit it in the open division.
    Source: inference_rules.adoc, "Benchmarks": suites.
    """
    if demands_of(result.benchmark, result.category) is None:
        names = sorted(n for n, b in round.benchmarks.items() if demands_of(b, result.category))
        yield Problem(
            f"found {result.name}; expected a benchmark of the {result.category} suite of "
            f"{round.name}: {listed(names, 40)}",
            found=result.name,
            required=names,
        )


@rule("S120", ERROR, divisions=("closed", "network"))
def one_folder_per_benchmark(group: BenchmarkFolder, round: Round) -> Problems:
    """A system has one folder per benchmark and one per scenario.

    Why: of two results for one cell of the table nobody can say which one counts.
    Fix: remove one of the folders, or describe the second setup as a system of its own.
    Source: submission_rules.adoc, "Directory structure": results.
    """
    earlier = [path for path in group.twins if path < group.path]
    if earlier:
        text = f"found {listed([*earlier, group.path])} for {group.name}; expected one folder"
        yield Problem(text, found=[*earlier, group.path], required="one folder")
    meant: dict[str, list[str]] = defaultdict(list)
    for name in sorted(group.folder.folders) if group.folder and group.complete else ():
        scenario = canonical_scenario(name, round.aliases)
        if scenario is not None:
            meant[scenario].append(name)
    for scenario, names in meant.items():
        if len(names) > 1:
            yield Problem(
                f"found {listed(names)} for {scenario}; expected one folder",
                path=f"{group.path}/{names[-1]}",
                found=names,
                required="one folder",
                results=tuple(group.keys[name] for name in names if name in group.keys),
            )


@rule("S137", ERROR, cases={"without run_1": ERROR}, needs="complete")
def run_folders_spelled(result: Result, round: Round) -> Problems:
    """The folders of a result's runs and compliance tests are spelled as in the rules.

    Why: the official checker looks for performance/run_1, accuracy and TEST01, and finds no other name.
    Fix: rename the folder with git mv.
    Source: submission_rules.adoc, "Directory structure": results.
    """
    wanted = {"performance": result.folder, "accuracy": result.folder}
    performance = result.folder.folder("performance")
    if performance is not None:
        wanted |= {"ranging": performance, "power": performance}
    for name, parent in wanted.items():
        folder = parent.folder(name)
        if folder is not None and folder.name != name:
            yield _misspelled(folder, name)
    for run in result.runs:
        folder = run.folder
        if folder is None or folder.name == f"run_{run.index}":
            continue
        if folder is performance:
            yield Problem(
                "found LoadGen's logs directly in performance; expected them in performance/run_1",
                path=folder.path,
                found=folder.name,
                required="run_1",
                case="without run_1",
            )
        else:
            yield _misspelled(folder, f"run_{run.index}")
    for test in result.tests.values():
        below = test.folder.folder("performance")
        runs = below and below.folder("run_1")
        expected = {test.name: test.folder, "performance": below, "run_1": runs}
        for name, folder in {**expected, "accuracy": test.folder.folder("accuracy")}.items():
            if folder is not None and folder.name != name:
                yield _misspelled(folder, name)


def _misspelled(folder: Folder, name: str) -> Problem:
    parent = folder.path.rpartition("/")[0]
    return Problem(
        f"found {folder.name}; expected {name}",
        path=folder.path,
        found=folder.name,
        required=name,
        fix=f"git mv {folder.path} {parent}/{name}",
    )


_LOGS = re.compile(
    r"mlperf_log_(?:detail|summary)\.txt|mlperf_log_accuracy\.json|verify_\w+\.txt|result_summary\.json"
    r"|accuracy_results\.json|spl\.txt|ptd_logs\.txt|(?:client|server)\.(?:json|log)"
)


@rule("S138", WARNING, cases={"test": NOTE}, needs="complete")
def logs_in_known_folders(result: Result, round: Round) -> Problems:
    """The logs of a run or a test are in folders whose names the rules give.

    Why: logs in any other folder are read by nobody, and what was not checked must not look like passed.
    Fix: rename the folder if it is a result or a test, or remove it with git rm -r.
    Source: submission_rules.adoc, "Directory structure": results and compliance.
    """
    tests = result.tests.values()
    runs = [*result.runs, result.accuracy, result.ranging, *(test.run for test in tests)]
    folders = [run.folder for run in runs if run is not None]
    folders += [result.power_folder, *(test.folder for test in tests)]
    folders += [test.folder.folder("accuracy") for test in tests]
    read = {folder.path for folder in folders if folder is not None} | {*result.extra_runs}
    if result.endpoints is not None:
        documents = [one.path for one in result.endpoints.documents if one is not None]
        read |= {path.rpartition("/")[0] for path in documents}
    tops = {top.path: top for top in (result.compliance_folder, result.folder) if top is not None}
    for path, top in tops.items():
        for folder in _unread(top, read):
            yield Problem(
                f"found logs in {folder.path.removeprefix(f'{path}/')}, which nothing reads; expected "
                "them in folders that the rules name",
                path=folder.path,
                found=folder.name,
                case=None if top is result.folder else "test",
            )


def _unread(folder: Folder, read: set[str]) -> Iterator[Folder]:
    """The folders below that hold logs of which none is read."""
    for name, below in folder.folders.items():
        inside = f"{below.path}/"
        if below.path in read or any(path.startswith(inside) for path in read):
            yield from _unread(below, read)
        elif name.lower() == "ranging":
            continue  # without power results nothing asks for it
        elif any(_LOGS.fullmatch(file) for here in below.walk() for file in here.files):
            yield below
