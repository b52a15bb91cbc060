"""The report as one HTML file: no network, no other files, usable without JavaScript."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from reports import arrange, figures, pictures
from reports.escape import NAME_LIMIT, html_text
from reports.page import asset, environment, policy_hash
from schemas.report import Finding, Report, Result, RunFacts

if TYPE_CHECKING:
    from markupsafe import Markup

# A page that nobody can open helps nobody: what is over these counts is counted, and the JSON
# report has all of it.
PLACES_PER_RULE = 200
FINDINGS_PER_RESULT = 40
SETTINGS_PER_RUN = 60

_NOT_LATENCY = ("min", "mean", "max")


def render(report: Report) -> str:
    """The report as one self-contained HTML document."""
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
        ns=figures.nanoseconds,
        secs=figures.seconds,
        count=lambda value: f"{value:,}",
        picture=Markup,
    )
    page = _Page(report)
    html = env.get_template("report.html").render(
        report=report,
        page=page,
        arrange=arrange,
        figures=figures,
        pictures=pictures,
        style=Markup(style),
        script=Markup(script),
        style_hash=policy_hash(style),
        script_hash=policy_hash(script),
        places_limit=PLACES_PER_RULE,
        findings_limit=FINDINGS_PER_RESULT,
    )
    return f"{html.rstrip()}\n"


def _percent(fraction: float | None) -> float | None:
    """A percentile in percent: the round states a fraction, logs state percent."""
    return None if fraction is None else round(fraction * 100 if fraction <= 1 else fraction, 4)


class _Tally:
    """Counts of one group of results."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.results = self.valid = self.invalid = 0
        self._errors: set[int] = set()
        self._warnings: set[int] = set()

    def add(self, result: Result, findings: Sequence[Finding]) -> None:
        self.results += 1
        self.valid += result.status == "valid"
        self.invalid += result.status == "invalid"
        # One finding on a system description belongs to many results and is still one.
        for finding in findings:
            if finding.waived is None and finding.severity == "error":
                self._errors.add(id(finding))
            elif finding.waived is None and finding.severity == "warning":
                self._warnings.add(id(finding))

    @property
    def errors(self) -> int:
        return len(self._errors)

    @property
    def warnings(self) -> int:
        return len(self._warnings)


class _Page:
    """What the template shows, computed once. Results and rules get numbers as anchors, so that
    no text of a submission ever stands in an address."""

    def __init__(self, report: Report) -> None:
        self.report = report
        attached = arrange.Attached(report)
        self.loose = attached.loose
        self.findings = [attached.of(result) for result in report.results]
        self.number = {id(result): n for n, result in enumerate(report.results)}
        self.groups = arrange.by_rule(report)
        self.rule_number = {group.rule: n for n, group in enumerate(self.groups)}
        self.systems = arrange.by_system(report)
        self.not_applied = arrange.not_applied(report)
        self.causes = arrange.causes(report)
        self.verdict = arrange.verdict_text(report).removeprefix("SUMMARY: ")
        self.tallies = {
            "Division": self._tally(lambda r: r.division),
            "Category": self._tally(lambda r: r.category or "unknown"),
            "Submitter": self._tally(lambda r: r.submitter),
            "Benchmark": self._tally(arrange.benchmark_of),
        }
        self.choices = {
            "division": sorted({r.division for r in report.results}),
            "category": sorted({r.category or "unknown" for r in report.results}),
            "scenario": sorted({r.scenario for r in report.results}),
        }
        self.comparisons = _comparisons(report)

    def _tally(self, key: Callable[[Result], str]) -> list[_Tally]:
        tallies: dict[str, _Tally] = {}
        for result, findings in zip(self.report.results, self.findings, strict=True):
            tallies.setdefault(key(result), _Tally(key(result))).add(result, findings)
        return [tallies[name] for name in sorted(tallies)]

    @staticmethod
    def key(result: Result) -> int:
        """What ``number`` knows a result by: two results may be equal in all they hold."""
        return id(result)

    def of(self, result: Result) -> list[Finding]:
        """The findings of a result."""
        return self.findings[self.number[id(result)]]

    def counts(self, result: Result) -> dict[str, int]:
        """How many standing findings of each severity a result has."""
        standing = [f.severity for f in self.of(result) if f.waived is None]
        return {s: standing.count(s) for s in ("error", "warning", "note")}

    @staticmethod
    def margin_text(result: Result) -> str:
        """The smallest distance to an accuracy gate, in percent."""
        tightest = arrange.tightest(result)
        return "" if tightest is None else f"{tightest[1] * 100:+.2f} %"

    @staticmethod
    def latencies(result: Result, run: RunFacts) -> list[tuple[str, str, dict[str, float]]]:
        """For each kind of latency of a run: its name, its picture, and min, mean, max."""
        limits = result.limits
        at = _percent(limits.percentile) if limits else None
        # Where tokens are limited the whole query's latency is not.
        tokens = limits is not None and (limits.ttft_ms or limits.tpot_ms)
        bound = limits.target_latency_ns if limits is not None and not tokens else None
        kinds = [
            ("Query latency", run.latency_ns, _whole(bound)),
            ("Time to first token", run.ttft_ns, _from_ms(limits.ttft_ms if limits else None)),
            ("Time per output token", run.tpot_ns, _from_ms(limits.tpot_ms if limits else None)),
        ]
        shown = []
        for name, values, limit in kinds:
            picture = pictures.latency(values, limit, at, name)
            rest = {key: values[key] for key in _NOT_LATENCY if key in values}
            if picture or rest:
                asked = f"{name}, limit {figures.nanoseconds(limit)}" if limit else name
                if limit and at is not None:
                    asked += f" at p{at:g}"
                shown.append((asked, picture, rest))
        return shown

    @staticmethod
    def settings(run: RunFacts) -> list[tuple[str, str]]:
        """The settings of a run that fit on the page."""
        items = [(key, figures.shown(value)) for key, value in sorted(run.settings.items())]
        if len(items) > SETTINGS_PER_RUN:
            rest = len(items) - SETTINGS_PER_RUN
            items = [*items[:SETTINGS_PER_RUN], ("…", f"{rest:,} more in the JSON report")]
        return items

    @staticmethod
    def limits(result: Result) -> list[tuple[str, str]]:
        """The round's limits for a result, as words."""
        limits = result.limits
        if limits is None:
            return []
        shown: list[tuple[str, str | None]] = [
            (
                "Latency limit",
                None if limits.ttft_ms or limits.tpot_ms else _ns(limits.target_latency_ns),
            ),
            ("TTFT limit", None if limits.ttft_ms is None else f"{limits.ttft_ms:g} ms"),
            ("TPOT limit", None if limits.tpot_ms is None else f"{limits.tpot_ms:g} ms"),
            ("Percentile", None if limits.percentile is None else f"p{_percent(limits.percentile):g}"),
            (
                "Min. duration",
                None if limits.min_duration_ms is None
                else figures.seconds(limits.min_duration_ms / 1000),
            ),
            ("Min. queries", _count(limits.min_query_count)),
            ("Min. samples per query", _count(limits.min_samples_per_query)),
        ]  # fmt: skip
        return [(name, value) for name, value in shown if value is not None]

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


class _Comparison:
    """Valid results of one benchmark, scenario and division, per accelerator."""

    def __init__(self, division: str, benchmark: str, scenario: str, unit: str) -> None:
        self.division, self.benchmark = division, benchmark
        self.scenario, self.unit = scenario, unit
        self.rows: list[tuple[float, float, Result]] = []


def _comparisons(report: Report) -> list[_Comparison]:
    """Throughput per accelerator, best first, wherever two systems can be compared.

    Latencies are left out: more accelerators do not divide them.
    """
    groups: dict[tuple[str, str, str, str], _Comparison] = {}
    for result in report.results:
        count = arrange.accelerators(result)
        if result.status != "valid" or result.metric is None or not count:
            continue
        if not result.metric.unit.endswith("/s"):
            continue
        scenario = result.scenario.casefold()
        key = (result.division, arrange.benchmark_of(result), scenario, result.metric.unit)
        group = groups.setdefault(key, _Comparison(key[0], key[1], result.scenario, key[3]))
        group.rows.append((result.metric.value / count, count, result))
    for group in groups.values():
        group.rows.sort(key=lambda row: (-row[0], row[2].path))
    return [groups[key] for key in sorted(groups) if len(groups[key].rows) > 1]


def _whole(value: int | None) -> float | None:
    return None if value is None else float(value)


def _from_ms(value: float | None) -> float | None:
    return None if value is None else value * 1e6


def _ns(value: int | None) -> str | None:
    return None if value is None else figures.nanoseconds(value)


def _count(value: int | None) -> str | None:
    return None if value is None else f"{value:,}"
