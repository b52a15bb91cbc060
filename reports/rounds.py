"""Rounds as text: the list, one round's tables, and what changed between two (Markdown)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from schemas.round import Benchmark, Category, Gate, Round, Scenario


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table with columns padded, so that it reads as plain text too."""
    body = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    widths = [max([len(h), *(len(row[i]) for row in body)]) for i, h in enumerate(head)]

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)) + " |"

    return [line(head), "|" + "|".join("-" * (w + 2) for w in widths) + "|", *map(line, body)]


def _number(value: float | int | None) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def overview(rounds: Sequence[Round]) -> str:
    """Every round in one table."""
    rows = [
        (
            r.name, r.deadline or "", r.published or "", str(len(r.benchmarks)),
            ", ".join(r.divisions), ", ".join(r.compliance) or "none",
            ", ".join(r.loadgen.versions),
        )
        for r in rounds
    ]  # fmt: skip
    head = (
        "round",
        "deadline",
        "published",
        "benchmarks",
        "divisions",
        "compliance tests",
        "LoadGen",
    )
    return "\n".join(_table(head, rows)) + "\n"


def gate_text(gate: Gate, sign: str) -> str:
    """A gate in words: ``F1 >= 90.783 (0.999 x 90.874)``."""
    shown = f"{gate.metric} {sign} {gate.bound:.6g}"
    return shown if gate.factor is None else f"{shown} ({gate.factor:g} x {gate.reference:g})"


def _demand(category: Category) -> str:
    parts = list(category.required)
    parts += [" or ".join(group) for group in category.one_of]
    chosen = {s for group in category.one_of for s in group}
    optional = [s for s in category.optional if s not in category.required and s not in chosen]
    return ", ".join(parts) + (f" (optional: {', '.join(optional)})" if optional else "")


def _limits(rules: Scenario) -> str:
    parts = []
    if rules.min_query_count is not None:
        parts.append(f"{rules.min_query_count:,} queries")
    if rules.min_samples_per_query is not None:
        parts.append(f"{rules.min_samples_per_query:,} samples")
    if rules.samples_per_query is not None:
        parts.append(f"{rules.samples_per_query} samples a query")
    if rules.target_latency_ns:
        parts.append(f"latency {rules.target_latency_ns / 1e6:g} ms")
    if rules.ttft_ms is not None:
        parts.append(f"TTFT {rules.ttft_ms:g} ms")
    if rules.tpot_ms is not None:
        parts.append(f"TPOT {rules.tpot_ms:g} ms")
    if rules.early_stopping:
        parts.append("early stopping")
    if rules.equal_issue:
        parts.append("equal issue")
    if rules.runs != 1:
        parts.append(f"{rules.runs} runs")
    return ", ".join(parts)


def tables(round: Round) -> str:
    """One round: its gates, its scenarios and its limits as Markdown tables."""
    lines = [f"# {round.title}", ""]
    if not round.official:
        lines += ["This is no MLPerf round.", ""]
    lines += [
        f"Deadline {round.deadline or 'none'}, published {round.published or 'none'}. Divisions: "
        f"{', '.join(round.divisions)}. LoadGen: {', '.join(round.loadgen.versions) or 'any'}.",
        "",
        f"Seeds: qsl {round.seeds.qsl_rng_seed}, sample index {round.seeds.sample_index_rng_seed}, "
        f"schedule {round.seeds.schedule_rng_seed}.",
        "",
        "## Benchmarks",
        "",
    ]
    rows = [
        (
            name, b.task, b.dataset.name, _number(b.dataset.size), _number(b.performance_sample_count),
            "; ".join([*(gate_text(g, ">=") for g in b.accuracy), *(gate_text(g, "<=") for g in b.accuracy_limits)]),
        )
        for name, b in round.benchmarks.items()
    ]  # fmt: skip
    lines += _table(("benchmark", "task", "data set", "samples", "loaded", "accuracy"), rows)
    lines += ["", "## Required scenarios", ""]
    lines += _table(
        ("benchmark", "category", "scenarios"),
        [(n, c, _demand(d)) for n, b in round.benchmarks.items() for c, d in b.categories.items()],
    )
    lines += ["", "## Scenarios", ""]
    lines += _table(
        ("benchmark", "scenario", "metric", "unit", "seconds", "limits", "compliance"),
        [
            (
                n,
                s,
                r.metric.key,
                r.metric.unit,
                f"{r.min_duration_ms / 1000:g}",
                _limits(r),
                ", ".join(r.compliance),
            )
            for n, b in round.benchmarks.items()
            for s, r in b.scenarios.items()
        ],
    )
    if round.inference:
        lines += ["", "## Results that may be inferred", ""]
        lines += _table(
            ("from", "to", "value", "categories"),
            [
                (i.source, i.target, f"{i.scale:g} / {i.key}" if i.inverse else f"{i.scale:g} x {i.key}",
                 ", ".join(i.categories) or "any")
                for i in round.inference
            ],
        )  # fmt: skip
    return "\n".join(lines) + "\n"


def _benchmark_changes(old: Benchmark, new: Benchmark) -> Iterator[str]:
    before = {g.metric: g for g in old.accuracy}
    after = {g.metric: g for g in new.accuracy}
    for metric in dict.fromkeys([*before, *after]):
        a, b = before.get(metric), after.get(metric)
        if a is None and b is not None:
            yield f"gate added: {gate_text(b, '>=')}"
        elif b is None and a is not None:
            yield f"gate removed: {gate_text(a, '>=')}"
        elif a is not None and b is not None and a != b:
            yield f"gate {gate_text(a, '>=')} -> {gate_text(b, '>=')}"
    uppers = (
        {g.metric: g for g in old.accuracy_limits},
        {g.metric: g for g in new.accuracy_limits},
    )
    for metric in dict.fromkeys([*uppers[0], *uppers[1]]):
        a, b = uppers[0].get(metric), uppers[1].get(metric)
        if a != b:
            left = gate_text(a, "<=") if a else "none"
            yield f"upper bound {left} -> {gate_text(b, '<=') if b else 'none'}"
    for label, attribute in (("performance samples", "performance_sample_count"),):
        x, y = getattr(old, attribute), getattr(new, attribute)
        if x != y:
            yield f"{label} {_number(x) or 'none'} -> {_number(y) or 'none'}"
    if old.dataset.size != new.dataset.size:
        yield f"data set {_number(old.dataset.size) or 'none'} -> {_number(new.dataset.size) or 'none'} samples"
    for category in dict.fromkeys([*old.categories, *new.categories]):
        x_demand = _demand(old.categories[category]) if category in old.categories else "not in it"
        y_demand = _demand(new.categories[category]) if category in new.categories else "not in it"
        if x_demand != y_demand:
            yield f"{category}: {x_demand} -> {y_demand}"
    for scenario in dict.fromkeys([*old.scenarios, *new.scenarios]):
        x_rules, y_rules = old.scenarios.get(scenario), new.scenarios.get(scenario)
        if x_rules is None or y_rules is None:
            yield f"{scenario}: {'added' if x_rules is None else 'removed'}"
            continue
        yield from _scenario_changes(scenario, x_rules, y_rules)


def _scenario_changes(name: str, old: Scenario, new: Scenario) -> Iterator[str]:
    if (old.metric.key, old.metric.unit, old.metric.scale) != (
        new.metric.key,
        new.metric.unit,
        new.metric.scale,
    ):
        yield f"{name}: metric {old.metric.key} ({old.metric.unit}) -> {new.metric.key} ({new.metric.unit})"
    if old.min_duration_ms != new.min_duration_ms:
        yield f"{name}: {old.min_duration_ms / 1000:g} s -> {new.min_duration_ms / 1000:g} s"
    before, after = _limits(old), _limits(new)
    if before != after:
        yield f"{name}: {before or 'no limits'} -> {after or 'no limits'}"
    if old.compliance != new.compliance:
        yield f"{name}: tests {', '.join(old.compliance) or 'none'} -> {', '.join(new.compliance) or 'none'}"


def changes(old: Round, new: Round) -> str:
    """What changed from one round to another, as release notes made from the data."""
    lines = [f"# {old.name} to {new.name}", ""]
    general: list[str] = []
    if old.seeds != new.seeds:
        general.append("new seeds")
    for label, x, y in (
        ("results folder", old.layout.results, new.layout.results),
        ("measurements folder", old.layout.measurements, new.layout.measurements),
        ("compliance folder", old.layout.compliance or "none", new.layout.compliance or "none"),
        ("code folder", ", ".join(old.layout.code), ", ".join(new.layout.code)),
        ("LoadGen", ", ".join(old.loadgen.versions), ", ".join(new.loadgen.versions)),
        (
            "compliance tests",
            ", ".join(old.compliance) or "none",
            ", ".join(new.compliance) or "none",
        ),
        (
            "accuracy log",
            _number(old.accuracy_log.max_bytes) or "any size",
            _number(new.accuracy_log.max_bytes) or "any size",
        ),
    ):
        if x != y:
            general.append(f"{label}: {x} -> {y}")
    added = [f for f in new.system_description.required if f not in old.system_description.required]
    removed = [
        f for f in old.system_description.required if f not in new.system_description.required
    ]
    if added:
        general.append(f"system description: now required {', '.join(added)}")
    if removed:
        general.append(f"system description: no longer required {', '.join(removed)}")
    pairs = [{(i.source, i.target) for i in r.inference} for r in (old, new)]
    for source, target in sorted(pairs[1] - pairs[0]):
        general.append(f"{target} may now be inferred from {source}")
    for source, target in sorted(pairs[0] - pairs[1]):
        general.append(f"{target} may no longer be inferred from {source}")
    lines += [f"* {text}" for text in general] or ["* nothing outside the benchmarks"]
    gone = [n for n in old.benchmarks if n not in new.benchmarks]
    come = [n for n in new.benchmarks if n not in old.benchmarks]
    if come:
        lines += ["", f"New benchmarks: {', '.join(come)}."]
    if gone:
        lines += ["", f"Benchmarks that are gone: {', '.join(gone)}."]
    for name, benchmark in new.benchmarks.items():
        if name in old.benchmarks:
            found = list(_benchmark_changes(old.benchmarks[name], benchmark))
            if found:
                lines += ["", f"## {name}", "", *(f"* {text}" for text in found)]
    return "\n".join(lines) + "\n"


def history(rounds: Sequence[Round]) -> str:
    """``docs/rounds.md``: every official round's place in the sequence and what it changed."""
    official = [r for r in rounds if r.official]
    lines = [
        "# What changed when",
        "",
        "Generated from `schemas/rounds/*.toml` by `make docs`; do not edit. `assay rounds R` shows one",
        "round, `assay rounds R --diff R2` compares any two.",
        "",
        overview(official).rstrip("\n"),
    ]
    for old, new in itertools.pairwise(official):
        text = changes(old, new).rstrip("\n").replace("\n## ", "\n### ")
        lines += ["", "#" + text]
    return "\n".join(lines) + "\n"
