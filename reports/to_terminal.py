"""The report for a terminal: verdicts per system, findings per rule, one line that sums it up."""

from __future__ import annotations

import io
import os
import re
import shutil
from typing import TYPE_CHECKING, TextIO

from reports import arrange, figures
from reports.escape import NAME_LIMIT, one_line
from reports.since import Since
from schemas.report import AccuracyScore, Finding, Report, Result

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.table import Table
    from rich.text import Text

NARROWEST, WIDEST = 60, 200
_WIDE_ENOUGH_FOR_SCORES = 100
_WIDE_ENOUGH_FOR_NUMBERS = 80
_SEVERITY_STYLE = {"error": "bold red", "warning": "yellow", "note": "cyan"}
_STATUS_STYLE = {"valid": "green", "invalid": "bold red"}
_RESULTS_IN_FULL = 50
"""A report of more results is summed up by submitter, unless all of it is wanted."""
# How much of each section of such a report is shown: together less than 120 lines.
_CAUSES, _INVALID, _SUBMITTERS, _OTHERS, _UNCHECKED = 6, 12, 21, 12, 6
_ROUND_CHANGES = 4
_CHANGE_STYLE = {"verdict": "bold", "new": "bold magenta", "gone": "green"}
_MESSAGE_SHOWN = 600


def render(
    report: Report,
    *,
    width: int = 100,
    colour: bool = False,
    verbose: bool = False,
    quiet: bool = False,
    places: int = 10,
    ascii_only: bool = False,
) -> str:
    """The report as text of at most ``width`` columns.

    ``places`` is how many findings of one rule are shown before the rest is only counted;
    ``verbose`` shows all. ``quiet`` gives one line. ``ascii_only`` draws with ASCII alone.
    What changed since the report's baseline comes first, and new findings are marked.
    """
    since = Since.of(report)
    if quiet:
        if since is not None:
            return _plain(f"{_one_line_verdict(report)}\n{since.headline}\n", ascii_only)
        return _plain(f"{_one_line_verdict(report)}\n", ascii_only)

    from rich.console import Console

    out = io.StringIO()
    console = Console(
        file=out,
        width=min(max(width, NARROWEST), WIDEST),
        force_terminal=colour,
        no_color=not colour,
        color_system="standard" if colour else None,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        safe_box=ascii_only,
        _environ={},  # the caller has decided; the environment must not change golden output
    )
    _show(console, report, limit=None if verbose else places, since=since)
    text = "\n".join(line.rstrip() for line in out.getvalue().split("\n"))
    return _plain(text, ascii_only)


def write(
    report: Report,
    stream: TextIO,
    *,
    verbose: bool = False,
    quiet: bool = False,
) -> None:
    """Write the report to ``stream``, with colour and width as the stream allows.

    A stream that is not a terminal gets plain text 100 columns wide; ``NO_COLOR`` is obeyed; a
    stream that cannot encode a character gets its escape.
    """
    is_terminal = stream.isatty()
    encoding = getattr(stream, "encoding", None) or "utf-8"
    text = render(
        report,
        width=shutil.get_terminal_size((100, 24)).columns if is_terminal else 100,
        colour=is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb",
        verbose=verbose,
        quiet=quiet,
        ascii_only=not encoding.lower().replace("-", "").startswith("utf"),
    )
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))


def prepare() -> None:
    """Import what a report of more than one line is drawn with."""
    import rich.box
    import rich.console
    import rich.padding
    import rich.table
    import rich.text  # noqa: F401


def _one_line_verdict(report: Report) -> str:
    tree = one_line(report.tree, NAME_LIMIT)
    return f"{tree}: {arrange.verdict_text(report).removeprefix('SUMMARY: ')}"


_ASCII = str.maketrans({"≥": ">=", "≤": "<=", "→": "->", "·": "-", "…": "...", "µ": "u", "─": "-"})


def _plain(text: str, ascii_only: bool) -> str:
    if not ascii_only:
        return text
    return text.translate(_ASCII).encode("ascii", "backslashreplace").decode("ascii")


def _show(console: Console, report: Report, limit: int | None, since: Since | None) -> None:
    from rich.padding import Padding
    from rich.text import Text

    head = Text()
    head.append(f"{report.tool.name} {report.tool.version}", style="bold")
    head.append(f"  {one_line(report.tree, NAME_LIMIT)}")
    head.append(f"  round {one_line(report.round or 'unknown', 40)}")
    if report.round_detected_from:
        head.append(f" ({one_line(report.round_detected_from, 200)})", style="dim")
    console.print(_safe(head))
    if since is not None:
        brief = limit is not None and len(report.results) > _RESULTS_IN_FULL
        _show_since(console, since, min(limit, _ROUND_CHANGES) if brief and limit else limit)

    if limit is not None and len(report.results) > _RESULTS_IN_FULL:
        _show_round(console, report)
        return
    for (division, submitter, system), results in arrange.by_system(report):
        console.print()
        title = " / ".join(one_line(part, NAME_LIMIT) for part in (division, submitter, system))
        console.print(_safe(Text(title, style="bold")))
        console.print(Padding(_verdicts(results, console.width), (0, 0, 0, 2)))

    folded = arrange.Folded(report.findings)
    groups = arrange.by_rule(report, folded)
    causes = arrange.causes(groups)
    groups = [*causes, *(group for group in groups if group not in causes)]
    if groups:
        console.print()
        console.print(Text("Findings", style="bold underline"))
    for group in groups:
        console.print()
        _show_group(console, group, limit, folded)

    _show_unchecked(console, report)
    console.print()
    style = "bold red" if report.failed or not report.summary.results else "bold green"
    console.print(_safe(Text(arrange.verdict_text(report), style=style)))


def _show_round(console: Console, report: Report) -> None:
    """A whole round on two or three screens: what to fix first, then a line for each of the rest."""
    from rich.padding import Padding
    from rich.text import Text

    def section(title: str, lines: list[Text], shown: int, noun: str) -> None:
        if not lines:
            return
        console.print()
        console.print(Text(title, style="bold underline"))
        for line in lines[:shown]:
            line.truncate(console.width - 2, overflow="ellipsis")
            console.print(Padding(line, (0, 0, 0, 2)))
        if len(lines) > shown:
            rest = (
                f"… and {figures.plural(len(lines) - shown, f'more {noun}')} (--verbose shows all)"
            )
            console.print(Padding(_safe(Text(rest, style="dim")), (0, 0, 0, 2)))

    groups = arrange.by_rule(report, arrange.Folded(report.findings))
    causes = arrange.causes(groups)
    # A cause has four lines: the rule, its first place, its message, its fix.
    lines = [line for group in causes[:_CAUSES] for line in _cause(group)]
    section("What to fix first", lines, len(lines), "line")
    if len(causes) > _CAUSES:
        console.print(
            Text(f"  … and {figures.plural(len(causes) - _CAUSES, 'more rule')} with errors")
        )
    invalid = [result for result in report.results if result.status == "invalid"]
    titles = [Text(one_line(arrange.title_of(result), NAME_LIMIT)) for result in invalid]
    section(f"Invalid results ({len(invalid):,})", titles, _INVALID, "invalid result")
    rows = [("Submitter", "Valid", "Invalid", "Errors", "Warnings", "Notes")]
    for tally in arrange.tallies(report):
        counts = (tally.valid, tally.invalid, tally.error, tally.warning, tally.note)
        rows.append((one_line(tally.name, 60), *(f"{count:,}" for count in counts)))  # type: ignore[arg-type]
    name = max(len(row[0]) for row in rows)
    name = min(name, console.width - 52)
    table = []
    for row in rows:
        line = Text(row[0])
        line.truncate(name, overflow="ellipsis", pad=True)
        table.append(line.append("".join(f"{cell:>10}" for cell in row[1:])))
    section("Submitters", table, _SUBMITTERS, "submitter")
    others = [group for group in groups if group not in causes]
    section("Other findings", [_rule_line(g) for g in others], _OTHERS, "rule")
    unchecked = [Text(f"- {one_line(item)}") for item in arrange.unapplied_words(report)]
    section("Not checked", unchecked, _UNCHECKED, "line")
    console.print()
    style = "bold red" if report.failed else "bold green"
    console.print(_safe(Text(arrange.verdict_text(report), style=style)))


def _rule_line(group: arrange.RuleGroup) -> Text:
    from rich.text import Text

    style = "dim" if not group.standing else _SEVERITY_STYLE[group.severity]
    line = Text(f"{group.severity} ", style=style)
    line.append(f"{one_line(group.rule, 60)} {one_line(group.name, 100)}", style="not dim bold")
    places = f"  {group.counts}"
    if group.results:
        places += f" on {figures.plural(len(group.results), 'result')}"
    new = _new(group)
    places += f", {new:,} new" if new else ""
    return line.append(f"{places}; {group.folded}" if group.following else places)


def _new(group: arrange.RuleGroup) -> int:
    return sum(f.baseline == "new" for f in [*group.findings, *group.following])


def _cause(group: arrange.RuleGroup) -> list[Text]:
    from rich.text import Text

    first = min(group.standing, key=lambda f: arrange.rank(f.severity))
    head = _rule_line(group)
    if group.submitters:
        head.append(f": {one_line(', '.join(group.submitters), NAME_LIMIT)}")
    message = one_line(first.message, _MESSAGE_SHOWN)
    lines = [head, Text(f"  {one_line(arrange.place(first), NAME_LIMIT)}"), Text(f"  {message}")]
    return [*lines, Text(f"  fix: {one_line(group.fixes[0])}")] if group.fixes else lines


def _show_since(console: Console, since: Since, limit: int | None) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console.print()
    console.print(_safe(Text(since.headline, style="bold")))
    for change in since.changes(limit):
        line = Text(f"{change.word} ", style=_CHANGE_STYLE.get(change.word, ""))
        line.append(one_line(change.text, _MESSAGE_SHOWN), style="not bold default")
        console.print(Padding(_safe(line), (0, 0, 0, 2)))
        if change.place:
            where = _broken_at_slashes(one_line(change.place, NAME_LIMIT), console.width - 6)
            console.print(Padding(_safe(Text(where)), (0, 0, 0, 6)))


def _verdicts(results: list[Result], width: int) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        show_edge=False,
        padding=(0, 1),
        collapse_padding=True,
    )
    table.add_column("Benchmark", overflow="fold")
    table.add_column("Scenario", overflow="fold", min_width=12)
    table.add_column("Verdict", no_wrap=True)
    table.add_column("Result", justify="right", overflow="fold")
    table.add_column("Accuracy", overflow="fold", min_width=8)
    for result in results:
        name = one_line(arrange.benchmark_of(result), NAME_LIMIT)
        if result.directory != name:
            name += f" ({one_line(result.directory, NAME_LIMIT)})"
        scenario = Text(one_line(result.scenario, 60))
        if result.inferred_from is not None:
            scenario.append(f" (from {one_line(result.inferred_from, 60)})", style="dim")
        table.add_row(
            Text(name),
            scenario,
            Text(_verdict_word(result), style=_STATUS_STYLE[result.status]),
            Text(_result_text(result, " " if width >= _WIDE_ENOUGH_FOR_NUMBERS else "\n")),
            _scores(result.accuracy, width),
        )
    return table


def _verdict_word(result: Result) -> str:
    # Capitals, so that the word stands out where there is no colour.
    return "valid" if result.status == "valid" else "INVALID"


def _result_text(result: Result, between: str) -> str:
    if result.metric is None:
        return "none"
    return "\n".join(
        f"{figures.number(metric.value)}{between}{one_line(metric.unit, 40)}"
        for metric in (result.metric, result.power)
        if metric is not None
    )


def _scores(scores: list[AccuracyScore], width: int) -> Text:
    """One line a score; in a narrow terminal only those that decide, or just the verdict."""
    from rich.text import Text

    text = Text()
    if not scores:
        return Text("none", style="dim")
    if width < _WIDE_ENOUGH_FOR_NUMBERS:
        verdicts = {score.passed for score in scores}
        if False in verdicts:
            return Text("FAIL", style="red")
        return Text("ok", style="green") if True in verdicts else Text("no gate", style="dim")
    shown = scores
    if width < _WIDE_ENOUGH_FOR_SCORES:
        failed = [score for score in scores if score.passed is False]
        shown = failed or [score for score in scores if score.passed is not None][:1] or scores[:1]
    for index, score in enumerate(shown):
        if index:
            text.append("\n")
        text.append(f"{one_line(score.metric, 60)} {figures.number(score.value)}")
        gate = arrange.gate_text(score)
        if gate:
            text.append(f" {gate}", style="dim")
        if score.passed is not None:
            text.append(
                " ok" if score.passed else " FAIL", style="green" if score.passed else "red"
            )
    if len(shown) < len(scores):
        text.append(f"\n+ {len(scores) - len(shown)} more", style="dim")
    return text


def _show_group(
    console: Console, group: arrange.RuleGroup, limit: int | None, folded: arrange.Folded
) -> None:
    from rich.padding import Padding
    from rich.text import Text

    head = Text()
    style = "dim" if not group.standing else _SEVERITY_STYLE[group.severity]
    head.append(f"{group.severity} ", style=style)
    head.append(f"{one_line(group.rule, 60)} {one_line(group.name, 100)}", style="bold")
    head.append(f"  ({group.counts}{'; ' if group.following else ''}{group.folded})")
    new = _new(group)
    if new:
        head.append(f"  {new:,} new", style="bold magenta")
    console.print(_safe(head))
    if group.facts:
        console.print(Padding(_safe(Text(one_line(group.facts.summary))), (0, 0, 0, 2)))

    fixes = group.fixes
    shared_fix = fixes[0] if len(fixes) == 1 else None
    # What is new must not be among what is only counted.
    findings = sorted(group.findings, key=lambda finding: finding.baseline != "new")
    shown = findings if limit is None else findings[:limit]
    for finding in shown:
        renderable = _finding(finding, shared_fix, console.width - 4, verbose=limit is None)
        if finding.baseline == "new":
            console.print(Padding(Text("new", style="bold magenta"), (0, 0, 0, 4)))
        console.print(Padding(renderable, (0, 0, 0, 4)))
        _show_following(console, finding, folded.following(finding), limit)
    if len(shown) < len(group.findings):
        rest = len(group.findings) - len(shown)
        line = f"… and {figures.plural(rest, 'more place')} (--verbose shows all)"
        console.print(Padding(Text(line, style="dim"), (0, 0, 0, 4)))
    if shared_fix:
        console.print(Padding(_fix(shared_fix), (0, 0, 0, 2)))


def _show_following(
    console: Console, cause: Finding, following: list[Finding], limit: int | None
) -> None:
    """What is folded into a finding: a line each, with its file where that is another one."""
    from rich.padding import Padding
    from rich.text import Text

    shown = following if limit is None else following[:limit]
    for finding in shown:
        line = Text("follows: ", style="dim")
        style = "dim" if finding.waived else _SEVERITY_STYLE[finding.severity]
        line.append(f"{finding.severity} ", style=f"not dim {style}")
        line.append(f"{one_line(finding.rule, 60)} {one_line(finding.name, 100)}: ")
        text = "waived; " if finding.waived else "new; " if finding.baseline == "new" else ""
        text += one_line(finding.message, _MESSAGE_SHOWN)
        if finding.path != cause.path:
            text += f" ({one_line(arrange.place(finding), NAME_LIMIT)})"
        console.print(Padding(_safe(line.append(text)), (0, 0, 0, 6)))
    if len(shown) < len(following):
        rest = figures.plural(len(following) - len(shown), "more finding")
        text = f"… and {rest} that follow (--verbose shows all)"
        console.print(Padding(Text(text, style="dim"), (0, 0, 0, 6)))


def _finding(finding: Finding, shared_fix: str | None, width: int, verbose: bool) -> Group:
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    style = "dim" if finding.waived else ""
    where = _broken_at_slashes(one_line(arrange.place(finding), NAME_LIMIT), width)
    lines = [Text(one_line(finding.message, _MESSAGE_SHOWN), style=style)]
    # The message says it; as data it is worth its line only where everything is wanted.
    asked = []
    if verbose and finding.found is not None:
        asked.append(f"found {one_line(figures.shown(finding.found), NAME_LIMIT)}")
    if verbose and finding.required is not None:
        asked.append(f"required {one_line(figures.shown(finding.required), NAME_LIMIT)}")
    if asked:
        lines.append(Text(", ".join(asked), style="dim" if finding.waived else "bold"))
    if verbose and finding.evidence:
        lines.extend(
            Text(f"{one_line(key, 100)}: {one_line(figures.shown(value), _MESSAGE_SHOWN)}")
            for key, value in finding.evidence.items()
        )
    if finding.fix and finding.fix != shared_fix:
        lines.append(_fix(finding.fix))
    if finding.waived:
        until = f", until {one_line(finding.waived.expires, 40)}" if finding.waived.expires else ""
        reason, owner = one_line(finding.waived.reason), one_line(finding.waived.owner, 100)
        lines.append(Text(f"waived: {reason} ({owner}{until})", style="magenta"))
    return Group(
        _safe(Text(where, style=style)),
        *(Padding(_safe(line), (0, 0, 0, 2)) for line in lines),
    )


def _broken_at_slashes(place: str, width: int) -> str:
    """A long path on several lines, each but the first set in, none broken inside a name."""
    lines = [""]
    for part in re.findall(r"[^/]*/|[^/]+$", place):
        if lines[-1].strip() and len(lines[-1]) + len(part) > width:
            lines.append("  ")
        lines[-1] += part
    return "\n".join(lines)


def _fix(fix: str) -> Text:
    from rich.text import Text

    text = Text("fix: ", style="green")
    text.append(one_line(fix, _MESSAGE_SHOWN), style="not green")
    return _safe(text)


def _show_unchecked(console: Console, report: Report) -> None:
    from rich.padding import Padding
    from rich.text import Text

    items = arrange.unapplied_words(report)
    if not items:
        return
    console.print()
    console.print(Text("Not checked", style="bold underline"))
    for item in items:
        console.print(Padding(_safe(Text(f"- {one_line(item)}")), (0, 0, 0, 2)))


def _safe(text: Text) -> Text:
    """Long words (paths) break at the edge rather than run over it."""
    text.overflow = "fold"
    return text
