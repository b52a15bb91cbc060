"""Family R: a log that is another run's, or another run's in disguise.

R301, R302, R303, R307 and R308 are one family: `checker.audit.copies` names each pair of runs, or of
systems, once, by the strongest of the five. What P149 (one log for two systems) or C124 (a test's
copy of the submitted run) names in the same audit is left to them.
"""

from __future__ import annotations

from checker.audit.copies import CopiedRuns, Relation
from checker.audit.evidence import Confidence, evidence, moment
from checker.rule import ERROR, WARNING, NotJudged, Problem, Problems, rule
from checker.wording import number, quantity
from schemas.round import Round

_CASES = {"no measurement": WARNING}

_FAR = 20
"""Most logs that one finding names."""


def _problems(copied: CopiedRuns, relation: Relation, what: str, formula: str) -> Problems:
    if copied.relation != relation:
        raise NotJudged
    genuine, first, other = copied.genuine, copied.runs[0], copied.runs[1]
    if genuine is not None:
        first, other = copied.copies[0], genuine
    more = len(copied.runs) - 2
    also = f" and {quantity(more, 'other log')}" if more else ""
    if len(copied.groups) > 1:
        also = (
            f", and in {quantity(len(copied.groups) - 1, 'other pair')} of logs of the two systems"
        )
    doubt = ""
    if genuine is not None and first.contradictions:
        doubt = (
            f"; this log contradicts itself or its place ({', '.join(first.contradictions[:4])})"
        )
    both = f"as in {other.path}" if genuine is not None else f"in {first.path} and {other.path}"
    yield Problem(
        f"found {what} {both}{also}; expected a log of its own for each run{doubt}",
        path=copied.path,
        line=first.lines.get("result_mean_latency_ns") or first.lines.get("test_datetime")
        if genuine is not None
        else None,
        found=[run.path for group in copied.groups for run in group][:_FAR],
        required="a log of its own for each run",
        case="no measurement" if copied.no_measurement else None,
        results=copied.results,
        # Of two submitters' runs one may be genuine.
        invalidates=None if genuine is not None or copied.one_submitter else (),
        count=len(copied.groups),
        evidence=_evidence(copied, formula, "certain"),
    )


def _evidence(copied: CopiedRuns, formula: str, confidence: Confidence) -> dict[str, object]:
    """The runs side by side."""
    values: dict[str, object] = {}
    lines: dict[str, int] = {}
    for index, run in enumerate(copied.runs[:_FAR], 1):
        values |= {
            f"log {index}": run.path,
            f"log {index}: kind of run": run.kind,
            f"log {index}: SHA-256": run.digest,
            f"log {index}: date": moment(run.began),
            f"log {index}: mean, longest latency (ns), queries": list(run.triple)
            if run.triple
            else None,
            f"log {index}: contradicted by": ", ".join(run.contradictions) or None,
        }
        line = run.lines.get("result_mean_latency_ns") or run.lines.get("test_datetime")
        if line:
            lines[run.path] = line
    if copied.factor is not None:
        values["factor"] = float(f"{copied.factor:.8g}")
    return evidence(formula, confidence, values, lines)


@rule("R301", ERROR, cases=_CASES)
def log_of_its_own(copied: CopiedRuns, round: Round) -> Problems:
    """No two runs have the same log, except where the rules allow a shared one.

    Why: two runs never have the same times to the nanosecond. One run may be used for both accuracy
    targets (99 and 99.9), for inferred scenarios and for the open copy of a closed result.
    Fix: put each run's own log into its folder.
    Source: submission_rules.adoc, "Directory structure"; SHA-256 of the detail logs.
    """
    yield from _problems(copied, "bytes", "the same bytes", "SHA-256 of the detail logs is equal")


@rule("R302", ERROR)
def measurement_of_its_own(copied: CopiedRuns, round: Round) -> Problems:
    """No two logs of different bytes state the same mean, longest latency and query count.

    Why: the three never meet by chance; two such logs are one log and a changed copy.
    Fix: put each run's own log into its folder, as LoadGen wrote it.
    Source: LoadGen results.cc: latencies in nanoseconds.
    """
    # What text logs state is in their summaries.
    third = "shortest latency" if copied.runs[0].text_format else "query count"
    yield from _problems(
        copied,
        "measurement",
        f"the same mean latency, longest latency and {third}",
        "(mean, longest latency, queries) of logs that differ are different",
    )


@rule("R303", ERROR)
def content_of_its_own(copied: CopiedRuns, round: Round) -> Problems:
    """No two logs have the same content apart from dates, times and process ids.

    Why: two runs never measure the same; such a pair is one log and a copy under another date.
    Fix: put each run's own log into its folder, as LoadGen wrote it.
    Source: every record's key and value but dates; no such pair in published rounds.
    """
    yield from _problems(
        copied,
        "content",
        "the same records, dates and process ids aside,",
        "all records but dates are equal",
    )


@rule("R307", ERROR, cases=_CASES)
def process_of_its_own(copied: CopiedRuns, round: Round) -> Problems:
    """No two runs were made by the same process at the same millisecond.

    Why: a process runs one test at a time on one machine, whatever its log says of the results.
    Fix: put each run's own log into its folder, as LoadGen wrote it.
    Source: LoadGen: pid, test_datetime and power_begin of every log; allowed copies as in R301.
    """
    yield from _problems(
        copied,
        "process",
        "the same process id, test_datetime and power_begin",
        "(pid, test_datetime, power_begin) differ between runs",
    )


@rule("R308", ERROR)
def latencies_of_its_own(copied: CopiedRuns, round: Round) -> Problems:
    """No run's latency figures are another run's times one factor.

    The natural logarithms of the ratios of mean, greatest and six percentile latencies differ by
    less than 2e-5, where each log's own figures spread by more than 5%. No pair among 2,000 logs of
    v0.5 to v6.1, nor across rounds.

    Why: two runs never have one shape to five digits; such a pair is one log and a scaled copy.
    Fix: put each run's own log into its folder, as LoadGen wrote it.
    Source: LoadGen results.cc: latency percentiles; published rounds.
    """
    factor = number(copied.factor) if copied.factor is not None else "one factor"
    yield from _problems(
        copied,
        "scaled",
        f"eight latency figures that differ by the factor {factor}",
        "spread of log(ratio) of eight latency figures < 2e-5",
    )
