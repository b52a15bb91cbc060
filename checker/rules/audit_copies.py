"""Family R, copies: a log, or a test's answers, that is another run's in disguise."""

from __future__ import annotations

from collections.abc import Iterator

from checker.audit.evidence import evidence
from checker.audit.traces import Answers, ResultTrace, RunTrace, base_name
from checker.rule import ERROR, WARNING, NotJudged, Problem, rule
from checker.wording import number
from schemas.round import Round


@rule("R308", ERROR, needs=("field", "latencies"))
def latencies_of_its_own(run: RunTrace, round: Round) -> Iterator[Problem]:
    """No run's latency figures are another run's times one factor.

    The natural logarithms of the ratios of mean, greatest and six percentile latencies differ by
    less than 2e-5, where each log's own figures spread by more than 5 %. No pair among 2,000 logs of
    v0.5 to v6.1, nor across rounds.

    Why: two runs never have one shape to five digits; such a pair is one log and a scaled copy.
    Fix: put each run's own log into its folder, as LoadGen wrote it.
    Source: LoadGen results.cc: latency percentiles; published rounds.
    """
    assert run.field is not None
    pair = run.field.scaled.get(id(run))
    if pair is None:
        return
    other, factor = pair
    # Each pair is one finding, at its later path; which of the two is genuine is not said.
    if run.path < other.path and run.field.scaled.get(id(other), (None, 0.0))[0] is run:
        return
    yield Problem(
        f"all eight latency figures are those of {other.path} times {number(factor)}: one of the two "
        "logs is a scaled copy of the other",
        path=run.path,
        line=run.lines.get("result_mean_latency_ns"),
        found=[other.path],
        required="latencies of its own",
        results=tuple(dict.fromkeys([*run.results, *other.results])),
        evidence=evidence(
            "spread of log(ratio) of eight latency figures < 2e-5",
            "certain",
            {
                "this log": run.path,
                "other log": other.path,
                "factor": float(f"{factor:.8g}"),
                "mean latency here, ns": run.latencies[0],
                "mean latency there, ns": other.latencies[0],
            },
        ),
    )


@rule("R309", ERROR, needs=("field", "answers"), cases={"same test": WARNING})
def answers_of_its_own(result: ResultTrace, round: Round) -> Iterator[Problem]:
    """A compliance test's answer log is that test's own.

    Why: a test logs the answers of its own run; the accuracy run's log in its place proves nothing.
    Fix: run the test again and keep its own mlperf_log_accuracy.json.
    Source: compliance tests: every test logs accuracy itself; SHA-256 of the accuracy logs. One
    run may stand for 99 and 99.9 twins and for inferred scenarios.
    """
    assert result.field is not None
    for own in result.answers:
        if own.kind == "accuracy":
            continue
        others = [
            (trace, log)
            for trace, log in result.field.by_answers[own.digest]
            if log is not own and not (log.kind == own.kind and _one_run(result, trace, round))
        ]
        if not others:
            continue
        # Two tests of one kind: one finding, at the later path.
        same = all(log.kind == own.kind for _, log in others)
        if same and min(log.path for _, log in others) > own.path:
            continue
        trace, other = min(others, key=lambda pair: (pair[1].kind == own.kind, pair[1].path))
        yield Problem(
            f"the answers of {own.kind} are byte for byte those of {other.path} ({other.kind})",
            path=own.path,
            found=[log.path for _, log in others[:20]],
            required="answers of the test's own run",
            case="same test" if same and _one_task(result, others) else None,
            results=tuple(dict.fromkeys([*result.results, *trace.results])),
            evidence=evidence(
                "SHA-256 of two accuracy logs is equal",
                "certain",
                {"this log": own.path, "other log": other.path, "SHA-256": own.digest},
            ),
        )


def _one_task(one: ResultTrace, others: list[tuple[ResultTrace, Answers]]) -> bool:
    """Whether all of the others are of the same benchmark: the same model may answer alike twice."""
    own = base_name(one.subject.benchmark)
    return all(base_name(trace.subject.benchmark) == own for trace, _ in others)


def _one_run(one: ResultTrace, other: ResultTrace, round: Round) -> bool:
    """Whether two results may share one run: accuracy twins, inferred scenarios, two divisions."""
    a, b = one.subject, other.subject
    if (a.submitter, a.system) != (b.submitter, b.system) or one.round != other.round:
        return False
    if base_name(a.benchmark) != base_name(b.benchmark):
        return False
    if one.scenario == other.scenario:
        return True
    pair = {one.scenario, other.scenario}
    return any({i.source, i.target} == pair for i in round.inference)


_TOKENS_APART = 1.05


@rule("R316", ERROR, needs=("field", "tokens"))
def tokens_as_in_other_scenarios(result: ResultTrace, round: Round) -> Iterator[Problem]:
    """A system's runs of one benchmark give as many tokens per sample in every scenario.

    Within 3.7 % in all closed systems of v4.1 to v6.1 that have several scenarios.

    Why: the same model answers the same samples; a token rate that was raised alone stands out.
    Fix: make all runs with the same build and limits on output length.
    Source: LoadGen: token and sample rates; published v4.1 to v6.1.
    """
    assert result.field is not None and result.tokens is not None
    subject = result.subject
    group = [
        one
        for key, members in result.field.by_task.items()
        if key[:4] == (result.tree, subject.division, subject.submitter, subject.system)
        for one in members
        if one.tokens is not None and result in members and one.inferred_from is None
    ]
    others = sorted(o.tokens for o in group if o is not result and o.tokens is not None)
    if not others or result.inferred_from is not None:
        raise NotJudged
    usual = others[len(others) // 2]
    ratio = max(result.tokens, usual) / min(result.tokens, usual)
    # Of two that differ neither is known to be wrong: told at the later.
    if ratio <= _TOKENS_APART or (
        len(others) == 1 and result.path < max(o.path for o in group if o is not result)
    ):
        return
    yield Problem(
        f"the run gave {number(result.tokens)} tokens per sample, the system's other scenarios "
        f"{number(usual)}; expected a difference of at most 5%",
        path=result.detail_path,
        line=result.line,
        found=float(f"{result.tokens:.6g}"),
        required=float(f"{usual:.6g}"),
        evidence=evidence(
            "tokens per sample of one system and benchmark agree within 5 %",
            "high",
            {one.detail_path: float(f"{one.tokens or 0:.6g}") for one in group[:8]},
        ),
    )
