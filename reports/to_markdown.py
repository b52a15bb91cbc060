"""The report as a comment on a pull request: the verdict first, details folded, never too long."""

from __future__ import annotations

from collections.abc import Iterator

from reports import arrange, figures
from reports.escape import markdown_code, markdown_html, markdown_text
from reports.since import Since, mark
from schemas.report import Finding, Report, Result

LIMIT = 65_000  # GitHub refuses a comment of more than 65,536 characters
_MARK = {"error": "🔴", "warning": "🟡", "note": "🔵"}
_NAME, _MESSAGE = 120, 500
_PLACES_PER_RULE = 25
_RULES = 30


def render(report: Report, *, limit: int = LIMIT) -> str:
    """The report as GitHub Markdown of at most ``limit`` characters, the rest counted.

    What changed since the report's baseline comes first, and new findings are marked.
    """
    page = _Page(limit)
    page.add(_head(report))
    since = Since.of(report)
    if since is not None:
        page.add(f"### {markdown_text(since.headline, _MESSAGE)}\n\n")
        page.add_list("", _since(since), "\n")
    folded = arrange.Folded(report.findings)
    groups = arrange.by_rule(report, folded)
    # Causes, then the results they make invalid, then everything else.
    causes = arrange.causes(groups)
    page.add(_rules(causes))
    invalid = [result for result in report.results if result.status == "invalid"]
    if not _results(page, invalid, "Invalid results", whole=True):
        page.add_list(*_named(invalid, "Invalid results"))
    others = _rules([group for group in groups if group not in causes])
    page.add(f"\n{others}" if others else "")
    for group in groups:
        page.add_list(*_group(group, folded))
    _results(page, [r for r in report.results if r.status == "valid"], "Valid results")
    unchecked = _unchecked(report)
    page.add_list("\n<details><summary>Not checked</summary>\n\n", unchecked, "\n</details>\n")
    return page.text()


class _Page:
    """Text that knows how much room is left, and what did not fit.

    A section is written whole or cut between its lines, so that no fence or fold stays open.
    """

    _ROOM_FOR_LAST_LINE = 200

    def __init__(self, limit: int) -> None:
        self._parts: list[str] = []
        self._room = limit - self._ROOM_FOR_LAST_LINE
        self._left_out = 0

    @property
    def room(self) -> int:
        """How many characters are left."""
        return self._room

    def add(self, text: str) -> None:
        """Add text that belongs together, if it fits."""
        if len(text) <= self._room:
            self._parts.append(text)
            self._room -= len(text)
        else:
            self._left_out += text.count("\n")

    def add_list(self, head: str, lines: list[str], foot: str) -> None:
        """Add a head, as many lines as fit, and a foot."""
        if not lines:
            return
        room = self._room - len(head) - len(foot)
        fitting = 0
        for line in lines:
            room -= len(line)
            if room < 0:
                break
            fitting += 1
        self._left_out += len(lines) - fitting
        if fitting:
            self._parts += [head, *lines[:fitting], foot]
            self._room -= len(head) + len(foot) + sum(map(len, lines[:fitting]))

    def text(self) -> str:
        if self._left_out:
            self._parts.append(
                f"\n_{figures.plural(self._left_out, 'more line')} left out to fit a comment; "
                "the HTML and JSON reports hold everything._\n"
            )
        return "".join(self._parts)


def _head(report: Report) -> str:
    bad = report.failed or not report.summary.results
    title = f"## {'❌' if bad else '✅'} Assay: "
    verdict = arrange.verdict_text(report).removeprefix("SUMMARY: ")
    lines = [
        f"{title}{'errors found' if report.failed else 'nothing checked' if bad else 'no errors'}",
        "",
        f"**{markdown_text(verdict)}**",
        "",
        f"Tree {markdown_code(report.tree)}, round {markdown_code(report.round or 'unknown')}, "
        f"{markdown_text(report.tool.name)} {markdown_text(report.tool.version)}",
        "",
    ]
    return "\n".join(lines) + "\n"


def _since(since: Since) -> list[str]:
    lines = []
    for change in since.changes():
        where = f" ({markdown_code(change.place)})" if change.place else ""
        lines.append(f"- **{change.word}** {markdown_text(change.text, _MESSAGE)}{where}\n")
    return lines


def _rules(groups: list[arrange.RuleGroup]) -> str:
    if not groups:
        return ""
    lines = ["| | Rule | Findings | Results | Submitters | Fix |", "|---|---|---|--:|---|---|"]
    for group in groups[:_RULES]:
        fix = group.fixes[0] if group.fixes else ""
        lines.append(
            f"| {_MARK[group.severity] if group.standing else '⚪'} {group.severity} "
            f"| {markdown_code(f'{group.rule} {group.name}', _NAME, in_table=True)} "
            f"| {'; '.join(filter(None, (group.counts, group.folded)))} | {len(group.results):,} "
            f"| {markdown_text(', '.join(group.submitters[:5]), 200)} | {markdown_text(fix, 300)} |"
        )
    if len(groups) > _RULES:
        lines.append(f"| | and {len(groups) - _RULES:,} more rules | | | | |")
    return "\n".join(lines) + "\n"


def _results(page: _Page, results: list[Result], title: str, *, whole: bool = False) -> bool:
    """Add a table of results. ``whole``: only if all of it fits; False where it does not."""
    head = (
        f"\n<details><summary>{title} ({len(results):,})</summary>\n\n"
        "| Submitter | System | Benchmark | Scenario | Result | Accuracy margin |\n"
        "|---|---|---|---|--:|--:|\n"
    )
    rows = [_result(result) for result in results]
    if whole and len(head) + sum(map(len, rows)) + 20 > page.room // 2:
        return False
    page.add_list(head, rows, "\n</details>\n")
    return True


def _named(results: list[Result], title: str) -> tuple[str, list[str], str]:
    """Results by name alone, a line for each system: for more than a table has room for."""
    systems: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for result in results:
        benchmarks = systems.setdefault(arrange.system_key(result), {})
        benchmarks.setdefault(result.directory, []).append(result.scenario)
    head = f"\n<details><summary>{title} ({len(results):,})</summary>\n\n"
    lines = []
    for (division, submitter, system), benchmarks in systems.items():
        listed = "; ".join(
            f"{markdown_text(name, _NAME)} {markdown_text(', '.join(scenarios), _NAME)}"
            for name, scenarios in benchmarks.items()
        )
        place = markdown_text(f"{division} / {submitter}", _NAME)
        lines.append(f"- {place} {markdown_code(system, _NAME)}: {listed}\n")
    return head, lines, "\n</details>\n"


def _result(result: Result) -> str:
    metric = "none"
    if result.metric is not None:
        metric = f"{figures.number(result.metric.value)} {markdown_text(result.metric.unit, 40)}"
    tightest = arrange.tightest(result)
    cells = (
        markdown_text(f"{result.division} / {result.submitter}", _NAME),
        markdown_code(result.system, _NAME, in_table=True),
        markdown_code(arrange.benchmark_of(result), _NAME, in_table=True),
        markdown_text(result.scenario, _NAME),
        metric,
        "" if tightest is None else f"{tightest[1] * 100:+.2f}%",
    )
    return f"| {' | '.join(cells)} |\n"


def _group(group: arrange.RuleGroup, folded: arrange.Folded) -> tuple[str, list[str], str]:
    count = "; ".join(filter(None, (group.counts, group.folded)))
    name = markdown_html(f"{group.rule} {group.name}", _NAME)
    head = f"\n<details><summary>{_MARK[group.severity]} {name}: {count}</summary>\n\n"
    if group.facts:
        head += f"{markdown_text(group.facts.summary, _MESSAGE)}\n\n"
        head += f"Why: {markdown_text(group.facts.why, _MESSAGE)}\n"
        head += f"Source: {markdown_text(group.facts.source, _MESSAGE)}\n\n"
    # What is new must not be among what is only counted.
    shown = sorted(group.findings, key=lambda finding: finding.baseline != "new")
    lines = [
        _finding(finding) + "".join(_following(finding, folded.following(finding)))
        for finding in shown[:_PLACES_PER_RULE]
    ]
    rest = len(group.findings) - _PLACES_PER_RULE
    if rest > 0:
        lines.append(f"- and {figures.plural(rest, 'more place')}\n")
    return head, lines, "\n</details>\n"


def _following(cause: Finding, following: list[Finding]) -> Iterator[str]:
    """What is folded into a finding, a line each."""
    for finding in following[:_PLACES_PER_RULE]:
        name = markdown_code(f"{finding.rule} {finding.name}", _NAME)
        where = "" if finding.path == cause.path else f" {markdown_code(arrange.place(finding))}"
        words = [mark(finding), "waived" if finding.waived else "", finding.severity]
        text = markdown_text(finding.message, _MESSAGE)
        yield f"  - follows: {' '.join(filter(None, words))} {name}{where}: {text}\n"
    rest = len(following) - _PLACES_PER_RULE
    if rest > 0:
        yield f"  - and {figures.plural(rest, 'more finding')} that follow\n"


def _finding(finding: Finding) -> str:
    place = markdown_code(arrange.place(finding))
    new = "**new** " if mark(finding) else ""
    line = f"- {new}{place}: {markdown_text(finding.message, _MESSAGE)}"
    if finding.waived:
        reason = markdown_text(finding.waived.reason, _MESSAGE)
        line += f" — **waived**: {reason} ({markdown_text(finding.waived.owner, _NAME)})"
    return f"{line}\n"


def _unchecked(report: Report) -> list[str]:
    words = arrange.unapplied_words(report)
    return [f"- {markdown_text(item, _MESSAGE)}\n" for item in words]
