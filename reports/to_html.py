"""The report as one HTML file: no network, no other files, usable without JavaScript.

Of a report with very many results, the details of the valid ones are compressed, and the page's
script unpacks them when one is opened; without JavaScript those are not shown.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reports import accelerators, arrange, charts, figures, links, margins, pictures, run_charts
from reports.escape import NAME_LIMIT, html_text, visible
from reports.page import asset, environment, policy_hash
from reports.since import Since
from schemas.report import SEVERITIES, Finding, Report, Result, RunFacts

if TYPE_CHECKING:
    from markupsafe import Markup

# A page that nobody can open helps nobody: what is over these counts is counted, and the JSON
# report has all of it.
FINDINGS = 3000
PACKED_ABOVE = 300
FINDINGS_PER_RESULT = 40
GONE = 500
SETTINGS_PER_RESULT = 60

WHOLE_TREE = "whole tree"
_KINDS = {
    "latency": "Query latency",
    "ttft": "Time to first token",
    "tpot": "Time per output token",
}
_CLOSING = re.compile(r"</(?:td|th|tr|li|dt|dd|option)>\s*")


def render(report: Report, *, repository: str | None = None) -> str:
    """The report as one self-contained HTML document.

    ``repository`` is the address below which the tree's files are, for example
    ``https://github.com/mlcommons/inference_results_v5.1/blob/main``: each finding and result then
    links to its file. Raises ReportError where it is not an address of that form.
    """
    from markupsafe import Markup

    env = environment()
    style, script = asset("style.css"), asset("script.js")

    def text(value: object, limit: int = NAME_LIMIT) -> Markup:
        return Markup(html_text("" if value is None else str(value), limit))

    env.filters.update(
        t=text,
        long=lambda value: text(value, 2000),
        num=figures.number,
        shown=lambda value: text(figures.shown(value)),
        # A bound's sign stays with its number.
        bound=lambda value: text(str(value).replace("≥ ", "≥\u00a0").replace("≤ ", "≤\u00a0")),
        ns=figures.nanoseconds,
        secs=figures.seconds,
        count=lambda value: f"{value:,}",
        picture=Markup,
    )
    html = env.get_template("report.html").render(
        report=report,
        page=_Page(report, links.repository(repository)),
        arrange=arrange,
        figures=figures,
        pictures=pictures,
        links=links,
        findings_limit=FINDINGS_PER_RESULT,
        gone_limit=GONE,
        style=Markup(style),
        script=Markup(script),
        style_hash=policy_hash(style),
        script_hash=policy_hash(script),
    )
    # HTML allows these end tags to be left out: a tenth of a large report. All text is escaped, so
    # that nothing else looks like one.
    return _CLOSING.sub("", f"{html.rstrip()}\n")


class _Choices:
    """The filters of one table: the values of each, and where a row's values are among them."""

    def __init__(self, values: dict[str, Iterable[str]]) -> None:
        self.values = {
            name: list(dict.fromkeys(visible(value, NAME_LIMIT) for value in of))
            for name, of in values.items()
        }
        self.values = {name: of for name, of in self.values.items() if of}
        self._index = {
            name: {value: str(n) for n, value in enumerate(of)} for name, of in self.values.items()
        }

    def key(self, **of: Iterable[str]) -> str:
        """A row's values as the script reads them: ``0|3|1,2``, a part for each filter."""
        return "|".join(
            ",".join(index[visible(value, NAME_LIMIT)] for value in of[name])
            for name, index in self._index.items()
        )


@dataclass(frozen=True)
class _Found:
    """A finding as a row of the table."""

    finding: Finding
    anchor: str
    severity: str
    submitters: list[str]
    benchmarks: list[str]
    results: list[Result]
    follows: str
    since: str


@dataclass(frozen=True)
class _Times:
    """One kind of latency of a run."""

    name: str
    bound: margins.Bound | None
    cells: dict[str, tuple[str, bool]]
    picture: str


class _Page:
    """What the template shows, computed once."""

    def __init__(self, report: Report, repository: str | None) -> None:
        self.report = report
        self.repository = repository
        self.anchors = links.Anchors(report)
        attached = arrange.Attached(report)
        self._attached = {result.key: attached.of(result) for result in report.results}
        self.loose = attached.loose
        self.folded = arrange.Folded(report.findings)
        self.since = Since.of(report)
        self.groups = arrange.by_rule(report)
        self.systems = arrange.by_system(report)
        self.unapplied = arrange.unapplied(report)
        self.causes = arrange.causes(arrange.by_rule(report, self.folded))
        self.packing = len(report.results) > PACKED_ABOVE
        self._bodies: list[str] = []
        self._families: dict[str, set[str]] = {}
        for rule in report.rules:
            self._families.setdefault(rule.family, set()).add(rule.id)
        self._fixes = {rule.id: rule.fix for rule in report.rules}
        self.narrowed = arrange.selection_text(report)
        self.verdict = arrange.verdict_text(report).removeprefix("SUMMARY: ")
        self.invalid = [r for r in report.results if r.status == "invalid"]
        self._any_folded = any(map(self.folded.cause, report.findings))
        self.found = self._found()
        rows = {id(row.finding): row for row in self.found}
        ordered = self.folded.in_order(report.findings)
        self.shown = [rows[id(finding)] for finding in ordered[:FINDINGS]]
        self.tallies = {
            "submitter": arrange.counted(
                ((r.submitter, r.status) for r in report.results),
                ((f.severity, f.submitters) for f in self.found),
            ),
            "benchmark": arrange.counted(
                ((arrange.benchmark_of(r), r.status) for r in report.results),
                ((f.severity, f.benchmarks) for f in self.found),
            ),
        }
        self.choices = {
            "results": self._result_choices(),
            "findings": _Choices(
                {
                    "severity": (
                        s for s in _SEVERITIES if any(f.severity == s for f in self.found)
                    ),
                    "rule": sorted({finding.rule for finding in report.findings}),
                    "submitter": sorted({name for f in self.found for name in f.submitters}),
                    "benchmark": sorted({name for f in self.found for name in f.benchmarks}),
                    "follows": sorted({f.follows for f in self.found if self._any_folded}),
                    "since": sorted({f.since for f in self.found if self.since}),
                }
            ),
        }
        self.comparisons = accelerators.comparisons(report)
        self.largest = sorted(self.comparisons, key=lambda group: -group.systems)[:2]
        self.margins = margins.pictures(report)

    def pack(self, body: str) -> int:
        """Keep the details of a result for ``packed``; their number there."""
        self._bodies.append(_CLOSING.sub("", body))
        return len(self._bodies) - 1

    def packed(self) -> str:
        """The kept details: base64 of gzip of a JSON list of HTML texts."""
        data = json.dumps(self._bodies, ensure_ascii=False).encode("utf-8", "replace")
        return base64.b64encode(gzip.compress(data, 6, mtime=0)).decode("ascii")

    def _found(self) -> list[_Found]:
        by_key = {result.key: result for result in self.report.results}
        found = []
        for finding in self.report.findings:
            results = [by_key[key] for key in finding.results if key in by_key]
            about = finding.subject
            submitters = {r.submitter for r in results} | {about.submitter or ""} - {""}
            benchmarks = {arrange.benchmark_of(r) for r in results}
            if about.benchmark and not results:
                benchmarks = {about.benchmark}
            found.append(
                _Found(
                    finding=finding,
                    anchor=self.anchors.finding(finding),
                    severity="waived" if finding.waived else finding.severity,
                    submitters=sorted(submitters) or [WHOLE_TREE],
                    benchmarks=sorted(benchmarks),
                    results=results,
                    follows="no" if self.folded.cause(finding) is None else "yes",
                    since=finding.baseline or "unknown",
                )
            )
        return found

    def why(self, result: Result) -> tuple[Finding | None, str]:
        """What makes a result invalid, and how many more errors it has, in words."""
        found = self._attached[result.key]
        first, more = self.folded.why(found)
        if first is None or not more:
            return first, ""
        following = {id(f) for f in self.folded.following(first)}
        follow = sum(id(f) in following and f.severity == "error" for f in found) == more
        text = f"and {figures.plural(more, 'more error')}"
        return first, f"{text} that follow{'s' if more == 1 else ''} from it" if follow else text

    def _result_choices(self) -> _Choices:
        results = self.report.results
        return _Choices(
            {
                "verdict": [s for s in ("valid", "invalid") if any(r.status == s for r in results)],
                "submitter": sorted({r.submitter for r in results}),
                "benchmark": sorted({arrange.benchmark_of(r) for r in results}),
                "scenario": sorted({arrange.scenario_of(r) for r in results}),
                "division": sorted({r.division for r in results}),
                "category": sorted({r.category or "unknown" for r in results}),
            }
        )

    def result_key(self, result: Result) -> str:
        """A result's place among the filters' values."""
        return self.choices["results"].key(
            verdict=[result.status],
            submitter=[result.submitter],
            benchmark=[arrange.benchmark_of(result)],
            scenario=[arrange.scenario_of(result)],
            division=[result.division],
            category=[result.category or "unknown"],
        )

    def finding_key(self, found: _Found) -> str:
        """A finding's place among the filters' values."""
        return self.choices["findings"].key(
            severity=[found.severity],
            rule=[found.finding.rule],
            submitter=found.submitters,
            benchmark=found.benchmarks,
            **({"follows": [found.follows]} if self._any_folded else {}),
            **({"since": [found.since]} if self.since else {}),
        )

    def spread(self) -> str:
        """How many results each division and category has, as words."""
        counts: dict[str, int] = {}
        for result in self.report.results:
            name = f"{result.division} {result.category or 'without category'}"
            counts[name] = counts.get(name, 0) + 1
        return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))

    def of(self, result: Result) -> list[Finding]:
        """The findings of a result, errors first, causes before what follows from them."""
        return sorted(
            self._attached[result.key],
            key=lambda f: (
                f.waived is not None,
                self.folded.cause(f) is not None,
                SEVERITIES.index(f.severity),
            ),
        )

    def counts(self, result: Result) -> dict[str, int]:
        """How many standing findings of each severity a result has."""
        standing = [f.severity for f in self._attached[result.key] if f.waived is None]
        return {s: standing.count(s) for s in SEVERITIES}

    def fix_of(self, rule: str) -> str | None:
        """The fix that a rule states for all its findings."""
        return self._fixes.get(rule)

    def file(self, path: str | None, line: int | None = None) -> str | None:
        """The address of a file of the tree; None where no repository was given."""
        return links.file(self.repository, path, line)

    @staticmethod
    def columns_of(tallies: Sequence[arrange.Tally]) -> dict[str, str]:
        """The columns of a table of counts with their heads, without those that hold only zeros."""
        heads = {"valid": "Valid", "invalid": "Invalid", "error": "Errors", "warning": "Warnings"}
        kept = {
            field: head for field, head in heads.items() if any(getattr(t, field) for t in tallies)
        }
        return kept or {"valid": "Valid"}

    @staticmethod
    def margin_text(result: Result) -> str:
        """The smallest distance to an accuracy gate, in percent."""
        tightest = arrange.tightest(result)
        return "" if tightest is None else f"{tightest[1] * 100:+.2f}%"

    @staticmethod
    def times(result: Result, run: RunFacts) -> list[_Times]:
        """Each kind of latency of a run: its figures as text, which are over the limit, a picture."""
        bounds = margins.bounds(result, run)
        shown = []
        for kind, name in _KINDS.items():
            values, bound = margins.times(run, kind), bounds.get(kind)
            cells = {
                f"p{p:g}": (figures.nanoseconds(value), pictures.over(p, value, bound))
                for p, value in pictures.percentiles(values)
            }
            for key in ("min", "mean", "max"):
                if key in values:
                    cells[key] = (figures.nanoseconds(values[key]), False)
            if cells:
                shown.append(_Times(name, bound, cells, pictures.latency(values, bound)))
        return shown

    def charts(self, result: Result, run: RunFacts) -> str:
        """A performance run's percentiles, and how it went over time; only where it is all the report is about."""
        if len(self.report.results) != 1 or run.kind != "performance":
            return ""
        found = run_charts.charts_of(result, run)
        return charts.to_svg(found) if found else ""

    @staticmethod
    def columns(times: Sequence[_Times]) -> list[str]:
        """The figures that any of the kinds has, in order."""
        return list(dict.fromkeys(name for each in times for name in each.cells))

    @staticmethod
    def settings(result: Result) -> tuple[list[RunFacts], list[tuple[str, list[str]]]]:
        """The runs that state settings, and each setting's value in each of them.

        One value stands for all runs that agree on it.
        """
        runs = [run for run in result.runs if run.settings]
        names = list(dict.fromkeys(name for run in runs for name in sorted(run.settings)))
        rows = []
        for name in names[:SETTINGS_PER_RESULT]:
            values = [figures.shown(run.settings.get(name)) for run in runs]
            rows.append((name, values[:1] if len(set(values)) == 1 else values))
        if len(names) > SETTINGS_PER_RESULT:
            rest = len(names) - SETTINGS_PER_RESULT
            rows.append(("…", [f"{rest:,} more in the JSON report"]))
        return runs, rows

    @staticmethod
    def limits(result: Result) -> list[tuple[str, str]]:
        """The round's limits for a result, as words; those on latency as far as they apply."""
        limits = result.limits
        if limits is None:
            return []
        bounds: dict[str, margins.Bound] = {}
        for run in result.runs:
            bounds |= margins.bounds(result, run)
        shown = [
            (f"{name} limit", f"{figures.nanoseconds(bound.limit)} at p{bound.percentile:g}")
            for kind, name in _KINDS.items()
            if (bound := bounds.get(kind)) is not None
        ]
        if limits.min_duration_ms is not None:
            shown.append(("Min. duration", figures.seconds(limits.min_duration_ms / 1000)))
        if limits.min_query_count is not None:
            shown.append(("Min. queries", f"{limits.min_query_count:,}"))
        if limits.min_samples_per_query is not None:
            shown.append(("Min. samples per query", f"{limits.min_samples_per_query:,}"))
        return shown

    def rules_not_applied(self, result: Result) -> str:
        """The rules that were not applied to a result: many of a family as a count, others by id."""
        left = set(result.rules_not_applied)
        parts = []
        for family, rules in self._families.items():
            absent = rules & left
            if len(absent) > 8:
                parts.append(f"{family} ({len(absent)} of {len(rules)})")
                left -= absent
        return ", ".join([*sorted(left), *parts])

    @staticmethod
    def evidence(finding: Finding) -> tuple[list[str], list[tuple[str, list[str]]]]:
        """Evidence as a table: heads and rows. Two or more records of the same shape stand side
        by side, anything else as name and value."""
        items: dict[str, Any] = finding.evidence or {}
        sides = {key: value for key, value in items.items() if isinstance(value, dict)}
        if len(sides) >= 2 and len(sides) == len(items):
            rows = list(dict.fromkeys(key for side in sides.values() for key in side))[:40]
            return list(sides)[:6], [
                (row, [figures.shown(side.get(row)) for side in list(sides.values())[:6]])
                for row in rows
            ]
        return [], [(key, [figures.shown(value)]) for key, value in list(items.items())[:40]]


_SEVERITIES = (*SEVERITIES, "waived")
