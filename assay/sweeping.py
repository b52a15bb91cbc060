"""What a sweep found, as a table, as JSON and as charts."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from reports.charts import Chart
    from runner.sweep import Row, Sweep

_UNITS = {"Offline": "samples/s", "Server": "queries/s"}
_VARIED = ("batch", "threads", "streams")


def varied(sweep: Sweep) -> list[str]:
    """Which of batch, threads and streams the sweep varies."""
    return [name for name in _VARIED if getattr(sweep.settings[0], name) is not None]


def table(sweep: Sweep, rows: dict[str, list[Row]], chosen: dict[str, Row], out: TextIO) -> str:
    """A table for each scenario, the best row marked, and what it means in a sentence.

    Args:
        out: where it will go: its width and whether it takes colours.
    """
    from rich.console import Console

    text = io.StringIO()
    terminal = out.isatty()
    console = Console(
        file=text, force_terminal=terminal, width=None if terminal else 100, highlight=False
    )
    for scenario, of in rows.items():
        console.print(_table(sweep, scenario, of, chosen.get(scenario)))
        console.print(
            _meaning(sweep, scenario, of, chosen.get(scenario)), soft_wrap=True, markup=False
        )
    return text.getvalue()


def _table(sweep: Sweep, scenario: str, rows: list[Row], chosen: Row | None) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    top = max((row.rate for row in rows if row.rate is not None), default=0.0)
    made = Table(title=f"{scenario}, {_UNITS[scenario]}", title_justify="left", box=box.SIMPLE_HEAD)
    for name in varied(sweep):
        made.add_column(name, justify="right")
    for name in ("rate", "noise", "of the highest"):
        made.add_column(name, justify="right")
    made.add_column("")
    for row in rows:
        cells = [f"{getattr(row.setting, name):,}" for name in varied(sweep)]
        if row.rate is None:
            cells += ["none", "", ""]
        else:
            cells += [_rate(row.rate), f"± {row.noise / row.rate:.1%}", f"{row.rate / top:.1%}"]
        remarks = [row.reason] if row.reason else []
        if row is chosen:
            remarks.insert(0, "best")
        made.add_row(
            *cells, Text("; ".join(remarks)), style="bold green" if row is chosen else None
        )
    return made


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:,.4g}"


def _meaning(sweep: Sweep, scenario: str, rows: list[Row], chosen: Row | None) -> str:
    from runner.sweep import best_of

    if chosen is None or chosen.rate is None:
        return f"{scenario}: nothing was measured.\n"
    first, near = best_of(rows)
    text = f"{scenario}: {chosen.setting} has {_rate(chosen.rate)} {_UNITS[scenario]}"
    others = len(near) - 1
    if chosen is first and others:
        text += (
            f"; {others} other {'setting is' if others == 1 else 'settings are'} within noise of the highest "
            "rate, and this is the smallest of them"
        )
    elif chosen is not first and first is not None:
        text += (
            f"; {first.setting} is the best for this scenario alone, but all scenarios of a run file share "
            "threads and streams"
        )
    return f"{text}.\n"


def as_json(
    sweep: Sweep, rows: dict[str, list[Row]], chosen: dict[str, Row], seconds: float
) -> dict[str, Any]:
    """The whole sweep; rates are samples (Offline) or queries (Server) a second."""
    import msgspec

    return {
        "format": "assay-sweep",
        "format_version": 1,
        "run_file": msgspec.to_builtins(sweep.run_file),
        "probe_s": sweep.probe_s,
        "repeats": sweep.repeats,
        "seconds": round(seconds, 1),
        "rows": [
            {
                "scenario": scenario,
                **{name: getattr(row.setting, name) for name in _VARIED},
                "unit": _UNITS[scenario],
                "rates": row.rates,
                "rate": row.rate,
                "noise": row.noise if row.rates else None,
                "disturbed": round(row.disturbed, 4),
                "reason": row.reason,
                "best": row is chosen.get(scenario),
            }
            for scenario, of in rows.items()
            for row in of
        ],
    }


def charts(sweep: Sweep, rows: dict[str, list[Row]], chosen: dict[str, Row]) -> list[Chart]:
    """Rate over the first quantity that is varied, a line for each combination of the others."""
    from reports import figures
    from reports.charts import Axis, Bound, Chart, Series, linear, log

    names = varied(sweep)
    across, *others = sorted(names, key=lambda n: len({getattr(s, n) for s in sweep.settings}) == 1)
    made = []
    for scenario, of in rows.items():
        known = [row for row in of if row.rate is not None]
        if not known:
            continue
        values = sorted({getattr(row.setting, across) for row in known})
        room = max(0.1, (log(values[-1]) - log(values[0])) * 0.06)
        x = Axis(
            label=across,
            low=log(values[0]) - room,
            high=log(values[-1]) + room,
            ticks=tuple((log(value), f"{value:,}") for value in values),
        )
        lines: dict[str, list[Row]] = {}
        for row in known:
            name = ", ".join(f"{n} {getattr(row.setting, n)}" for n in others)
            lines.setdefault(name, []).append(row)
        series = []
        for name, line in lines.items():
            line.sort(key=lambda row: getattr(row.setting, across))
            series.append(
                Series(
                    name=name,
                    points=tuple((log(getattr(r.setting, across)), r.rate or 0.0) for r in line),
                    dots=True,
                    spread=tuple(r.noise for r in line),
                )
            )
        best = chosen.get(scenario)
        bounds = []
        if best is not None:
            bounds = [Bound(label="best", x=log(getattr(best.setting, across)))]
        made.append(
            Chart(
                title=f"{sweep.run_file.benchmark}, {scenario}",
                x=x,
                y=linear(
                    _UNITS[scenario], [(r.rate or 0.0) + r.noise for r in known], figures.number
                ),
                series=tuple(series),
                bounds=tuple(bounds),
                words=f"{scenario}: "
                + "; ".join(
                    f"{r.setting}: {_rate(r.rate or 0.0)} {_UNITS[scenario]}" for r in known
                ),
            )
        )
    return made
