"""What a plan will take, and what will keep its result from being accepted: said before it runs."""

from __future__ import annotations

import math
import re

from checker.compliance.audit import settings_of
from runner.backends import NETWORKED
from runner.benchmarks import get_benchmark
from runner.compliance import required_tests
from runner.errors import RunnerError
from runner.layout import get_round
from runner.plan import Plan
from runner.preparing import fitted, job_of
from runner.search import estimate
from runner.settings import DEFAULT_DURATION_MS, SAMPLES_PER_QUERY, loadgen_minimum
from schemas import Round, load_round, round_names
from schemas.round import Benchmark

LOADGEN_FEW = 100  # samples of an Offline query, of a model that LoadGen does not know
START_S = 1.5  # what every run takes beside LoadGen: process, model, data, warm-up


def foresee(plan: Plan) -> str:
    """What the plan will take, before anything is known of the machine's speed; one line."""
    benchmark = fitted(plan)
    least = most = 0.0
    parts = []
    runs = tests = 0
    for scenario in plan.scenarios:
        settings = job_of(plan, benchmark, scenario, "performance").settings
        given = settings.given()
        full = given.get("min_duration", DEFAULT_DURATION_MS) / 1000
        least_queries = loadgen_minimum(settings.model, settings.scenario)[1]
        queries = given.get("min_query_count", least_queries)
        if settings.scenario == "Server" and given.get("target_qps"):
            full = max(full, queries / given["target_qps"])
        elif scenario in ("Offline", "MultiStream") and queries > LOADGEN_FEW:
            # How long they take depends on the machine alone, not on target_qps.
            samples = queries * SAMPLES_PER_QUERY.get(scenario, 1)
            parts.append(f"{samples:,.0f} samples or more in {scenario}, however long they take")
        low, high = START_S, START_S
        if plan.conduct.search is not None:
            search = estimate(plan.conduct.search, settings.scenario, full)
            low, high = low + search[0], high + search[1]
        else:
            low, high = low + full + START_S, high + plan.conduct.attempts * (full + START_S)
        if plan.conduct.compliance:
            round, task = get_round(plan.rules.round), plan.rules.task or benchmark.name
            asked = required_tests(round, task, scenario)
            tests += len(asked)
            for test in asked:  # some are as long as they have samples
                short = settings_of(round, test, task, scenario).get("min_duration") == 0
                length = START_S + (0 if short else full)
                low, high = low + length, high + plan.conduct.attempts * length
        runs += 2
        least, most = least + low, most + high
    parts.insert(0, f"{runs} runs (accuracy and performance)")
    if tests:
        parts.append(f"{tests} compliance test{'s' * (tests != 1)}")
    if plan.conduct.search is not None:
        parts.append("a search for the load each")
    # At a low rate a short run lasts as long as its queries need.
    searched = plan.conduct.search is not None and {"Server", "Interactive"} & set(plan.scenarios)
    later = "; the search in Server says its longest time after the first short run"
    size = 0
    for tensor in benchmark.inputs:
        bits = re.search(r"\d+$", tensor.dtype)
        values = math.prod(n for n in tensor.shape if n is not None)
        size += values * (int(bits[0]) if bits else 8) // 8
    held = (plan.rules.performance_sample_count or benchmark.performance_sample_count) * size
    if (count := _sample_count(plan)) is not None:
        held = min(held, count * size)
    return (
        f"{', '.join(plan.scenarios)}: {', '.join(parts)}; at least {duration_text(least)} and "
        f"the accuracy runs' own time, up to {duration_text(most)} if all is repeated{later if searched else ''}; "
        f"{held / 1e6:.0f} MB of samples in memory"
    )


def sample_count(plan: Plan) -> int:
    """Samples of the plan's data set.

    Raises:
        DatasetError: it cannot be opened.
    """
    return len(fitted(plan).make_dataset(plan.inputs.data))


def duration_text(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def cautions(plan: Plan) -> list[str]:
    """What will keep the result from being accepted, said before hours are spent on it."""
    round = get_round(plan.rules.round)
    rules = round.benchmarks.get(plan.rules.task or "")
    if rules is None:
        return [f"round {round.name} does not know {plan.benchmark}: see --as, --division open"]
    found = _other_name(plan, round, rules)
    if rules.categories and plan.tree.system_type not in rules.categories:
        found.append(
            f"{plan.rules.task} is not a benchmark of {plan.tree.system_type} systems in round {round.name}; "
            f"expected --system-type {' or '.join(rules.categories)}"
        )
    elif "datacenter" in plan.tree.system_type and not {"datacenter", "none"} & set(
        rules.categories
    ):
        found.append(
            f"{plan.rules.task} is not in the datacenter suite of round {round.name}: the result counts "
            "for edge only"
        )
    if plan.execution.backend in NETWORKED and plan.execution.backend_options.get("url"):
        found.append(
            "this machine cannot see what the system under test is made of: fill in its description; "
            "where number_of_nodes or accelerators_per_node is not a number, the official checker of "
            "v6.1 ends with a traceback"
        )
    dataset = rules.dataset
    stated = any(dataset.least(scenario) is not None for scenario in plan.scenarios)
    count = _sample_count(plan) if stated else None
    for scenario in plan.scenarios:
        asked = rules.scenarios.get(scenario)
        if asked is None:
            found.append(f"{scenario} is not a scenario of {plan.rules.task} in round {round.name}")
            continue
        if (
            plan.load.min_duration_ms is not None
            and plan.load.min_duration_ms < asked.min_duration_ms
        ):
            found.append(
                f"{scenario} runs for {plan.load.min_duration_ms / 1000:g} s; the round requires "
                f"{asked.min_duration_ms / 1000:g} s, so no check will accept it"
            )
        least = dataset.least(scenario)
        if count is not None and least is not None and count < least:
            found.append(
                f"{scenario} has {count:,} samples; round {round.name} requires {least:,} of "
                f"{plan.rules.task or plan.benchmark}, so that no check will accept it: see --data"
            )
        if asked.compliance and not plan.conduct.compliance and plan.tree.division != "open":
            found.append(
                f"{scenario} needs {', '.join(asked.compliance)} in the {plan.tree.division} division: "
                "add --compliance"
            )
    return found


def _other_name(plan: Plan, round: Round, rules: Benchmark) -> list[str]:
    """A benchmark that the round scores as another one: said, with its own reference."""
    own = get_benchmark(plan.benchmark).name
    task = plan.rules.task or own
    if plan.rules.renamed or task == own or not rules.accuracy or plan.tree.division == "open":
        return []
    gate = rules.accuracy[0]
    text = f"round {round.name} scores {own} as {task}: {gate.metric} of at least {gate.bound:.5g}"
    for name in reversed(round_names()):
        known = load_round(name).benchmarks.get(own)
        if known is not None and known.accuracy and known.accuracy[0].reference < gate.bound:
            return [
                f"{text}, which its own reference of round {name}, {known.accuracy[0].reference:.5g}, "
                "cannot meet: see --division open"
            ]
    return [text] if own not in task and task not in own else []


def _sample_count(plan: Plan) -> int | None:
    """None where the data set cannot be opened: the run will say why."""
    try:
        return sample_count(plan)
    except RunnerError:
        return None
