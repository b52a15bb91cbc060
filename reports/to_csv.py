"""The official ``summary.csv``: the columns, order and value forms that existing scripts read."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

from reports import arrange, figures
from reports.escape import spreadsheet_cell
from schemas.report import AccuracyScore, Metric, Report, Result

COLUMNS: tuple[str, ...] = (
    "Organization",
    "Availability",
    "Division",
    "SystemType",
    "SystemName",
    "Platform",
    "Model",
    "MlperfModel",
    "Scenario",
    "Result",
    "Accuracy",
    "number_of_nodes",
    "host_processor_model_name",
    "host_processors_per_node",
    "host_processor_core_count",
    "accelerator_model_name",
    "accelerators_per_node",
    "total_accelerators",
    "Location",
    "framework",
    "operating_system",
    "notes",
    "compliance",
    "errors",
    "version",
    "inferred",
    "has_power",
    "Units",
    "weight_data_types",
    "design_power_watts",
    "PrivateID",
)

# The generated length is a count of tokens; the official column shows it as the whole number that
# the accuracy script prints, and every other score as a decimal number.
_WHOLE_SCORES = frozenset({"GEN_LEN"})


def render(report: Report) -> str:
    """One row per valid result, a second row for its power metric; every cell quoted.

    Of a report that was compared with a baseline there is one more column, Baseline: new, changed or
    unchanged. Rows of results that were valid in the baseline and are not any more come last, as gone.
    """
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    compared = report.baseline is not None
    writer.writerow([*COLUMNS, "Baseline"] if compared else COLUMNS)
    attached = arrange.Attached(report)
    for row in _rows(report, attached):
        writer.writerow([row[column] for column in COLUMNS] + [row["Baseline"]] * compared)
    for result in _gone(report):
        for metric in filter(None, (result.metric, result.power)):
            row = _row(report, result, metric, 0) | {"errors": ""}
            writer.writerow([*(row[column] for column in COLUMNS), "gone"])
    return out.getvalue()


def _gone(report: Report) -> Iterator[Result]:
    """Results that were valid in the baseline and are not any more: as they are now, else as they
    were."""
    if report.baseline is not None:
        fallen = {v.result for v in report.baseline.verdicts if v.old == "valid"}
        yield from (r for r in report.results if arrange.title_of(r) in fallen)
        yield from (r for r in report.baseline.results_gone if r.status == "valid")


def rows(report: Report, attached: arrange.Attached | None = None) -> list[dict[str, str]]:
    """The rows as text cells that are safe in a spreadsheet, keyed by column."""
    return list(_rows(report, attached or arrange.Attached(report)))


def _rows(report: Report, attached: arrange.Attached) -> Iterator[dict[str, str]]:
    for result in report.results:
        if result.status != "valid" or result.metric is None:
            continue
        errors = arrange.standing_errors(attached.of(result))
        yield _row(report, result, result.metric, errors)
        if result.power is not None:
            yield _row(report, result, result.power, errors)


def _row(report: Report, result: Result, metric: Metric, errors: int) -> dict[str, str]:
    described = result.system_description

    def told(key: str) -> str:
        value = described.get(key)
        return "" if value is None else spreadsheet_cell(_text(value))

    return {
        "Organization": spreadsheet_cell(result.submitter),
        "Availability": told("status"),
        "Division": spreadsheet_cell(result.division),
        "SystemType": told("system_type") or spreadsheet_cell(result.category or ""),
        "SystemName": told("system_name"),
        "Platform": spreadsheet_cell(result.system),
        "Model": spreadsheet_cell(result.directory),
        "MlperfModel": spreadsheet_cell(result.benchmark or ""),
        "Scenario": spreadsheet_cell(result.scenario),
        "Result": figures.plain(metric.value),
        "Accuracy": spreadsheet_cell(accuracy_text(result.accuracy)),
        "number_of_nodes": told("number_of_nodes"),
        "host_processor_model_name": told("host_processor_model_name"),
        "host_processors_per_node": told("host_processors_per_node"),
        "host_processor_core_count": told("host_processor_core_count"),
        "accelerator_model_name": told("accelerator_model_name"),
        "accelerators_per_node": told("accelerators_per_node"),
        "total_accelerators": total_accelerators(result),
        "Location": spreadsheet_cell(location(result)),
        "framework": told("framework"),
        "operating_system": told("operating_system"),
        "notes": spreadsheet_cell(notes(result)),
        "compliance": spreadsheet_cell(result.division),
        "errors": str(errors),
        "version": spreadsheet_cell(report.round or ""),
        "inferred": "1" if result.inferred_from is not None else "0",
        "has_power": str(result.power is not None),
        "Units": spreadsheet_cell(metric.unit),
        "weight_data_types": spreadsheet_cell(result.weight_data_types or ""),
        "design_power_watts": told("design_power_watts"),
        "PrivateID": told("private_id"),
        "Baseline": _baseline(report, result),
    }


def _baseline(report: Report, result: Result) -> str:
    # A result that was invalid had no row.
    risen = report.baseline.verdicts if report.baseline is not None else []
    if any(v.new == "valid" and v.result == arrange.title_of(result) for v in risen):
        return "new"
    return result.baseline or ""


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int | float) else figures.shown(value)


def accuracy_text(scores: list[AccuracyScore]) -> str:
    """The scores as the official column has them: ``ROUGE1: 44.5439  ROUGE2: 22.1342``."""
    return "  ".join(f"{score.metric}: {_score(score)}" for score in scores)


def _score(score: AccuracyScore) -> str:
    if score.printed is not None and len(score.printed) <= 40:
        # The official column repeats the script's own spelling, trailing zeros included.
        return score.printed
    whole = score.metric.upper() in _WHOLE_SCORES and float(score.value).is_integer()
    return str(int(score.value)) if whole else figures.plain(score.value)


def total_accelerators(result: Result) -> str:
    """Nodes times accelerators per node, blank where the description gives no numbers."""
    total = arrange.accelerators(result)
    if total is None:
        return ""
    return str(int(total)) if total == int(total) else figures.plain(total)


def location(result: Result) -> str:
    """The performance run's folder, the place that the official column names."""
    return f"{result.path}/performance/run_1"


def notes(result: Result) -> str:
    """Hardware notes, then software notes, as the official column joins them."""
    parts = (result.system_description.get(key) for key in ("hw_notes", "sw_notes"))
    return ". ".join(_text(part) for part in parts if part)
