"""Rounds as text: the list, one round's tables, and their history (Markdown)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from reports.round_changes import changes, demand, gate_text, inferred_value
from schemas.round import Round, Scenario


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
            r.name,
            r.deadline or "",
            r.published or "",
            str(len(r.benchmarks)),
            ", ".join(r.divisions),
            ", ".join(r.compliance) or "none",
            ", ".join(r.loadgen.versions),
        )
        for r in rounds
    ]
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
        lines += ["This is not an MLPerf round.", ""]
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
            name,
            b.task,
            b.dataset.name,
            _number(b.dataset.size),
            _number(b.performance_sample_count),
            "; ".join(
                [
                    *(gate_text(g, ">=") for g in b.accuracy),
                    *(gate_text(g, "<=") for g in b.accuracy_limits),
                ]
            ),
        )
        for name, b in round.benchmarks.items()
    ]
    lines += _table(("benchmark", "task", "data set", "samples", "loaded", "accuracy"), rows)
    lines += ["", "## Required scenarios", ""]
    lines += _table(
        ("benchmark", "category", "scenarios"),
        [(n, c, demand(d)) for n, b in round.benchmarks.items() for c, d in b.categories.items()],
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
                (i.source, i.target, inferred_value(i), ", ".join(i.categories) or "any")
                for i in round.inference
            ],
        )
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
