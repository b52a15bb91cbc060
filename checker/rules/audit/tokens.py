"""Family R: token rates and token latencies, which bind each other within a log and across runs."""

from __future__ import annotations

from checker import loadgen_keys as keys
from checker.audit import figures
from checker.audit.evidence import evidence
from checker.audit.traces import ResultTrace
from checker.consistency import exact_tokens_per_sample
from checker.model import MeasuredRun, Result
from checker.parse.detail import DetailLog
from checker.rule import ERROR, WARNING, NotJudged, Problem, Problems, given, rule
from checker.rules.audit.found import QUOTIENT, measured_log
from checker.wording import number, quantity
from schemas.round import Round


@rule("R128", WARNING, needs="accuracy.text", only={"inferred_from": None})
def tokens_per_sample(result: Result, round: Round) -> Problems:
    """The performance run gave as many tokens per sample as the accuracy run.

    Why: shorter answers are faster; both runs must be made with the same output lengths.
    Fix: make both runs with the same build and the same limits on output length.
    Source: LoadGen: token and sample rates; accuracy.txt: tokens per sample.
    """
    run, text = result.performance, result.accuracy.text if result.accuracy is not None else None
    if run is None or text is None:
        raise NotJudged
    gates = {gate.metric for gate in [*result.gates, *result.limits]}
    stated = given(text.first("TOKENS_PER_SAMPLE") if "TOKENS_PER_SAMPLE" in gates else None)
    if not stated.value:
        raise NotJudged
    look = measured_log(run, "Offline", "Server")
    tokens = given(
        look.number(
            "result_tokens_per_second"
            if run.scenario == "Offline"
            else "result_completed_tokens_per_second"
        )
        or None
    )
    samples = given(
        look.number(
            "result_samples_per_second"
            if run.scenario == "Offline"
            else "result_completed_samples_per_sec"
        )
        or None
    )
    measured = tokens / samples
    if abs(measured / stated.value - 1) > 0.05:
        key = (
            "result_tokens_per_second"
            if run.scenario == "Offline"
            else "result_completed_tokens_per_second"
        )
        yield Problem(
            f"found {number(measured)} tokens per sample; expected {number(stated.value)} within 5%, as in "
            f"accuracy.txt (line {stated.line})",
            path=run.detail_path,
            line=look.detail.line(key),
            found=float(f"{measured:.6g}"),
            required=stated.value,
            evidence=look.evidence(
                "token rate / sample rate = tokens per sample in accuracy.txt, within 5%",
                "high",
                **{"accuracy.txt": stated.value, "accuracy.txt line": stated.line},
            ),
        )


@rule("R132", WARNING, cases={"impossible": ERROR})
def token_times_add_up(run: MeasuredRun, round: Round, detail: DetailLog) -> Problems:
    """Mean latency is mean time to first token plus the mean time of the other tokens.

    (mean latency - mean TTFT) / (mean TPOT x (tokens per sample - 1)) is 0.96 to 1.01 in 85 runs of
    500 and more queries of v4.1 to v6.1, but for one of deepseek-r1 (0.84), whose answers differ
    most in length. Outside 0.8 to 1.1 it is an error.

    Why: the three means are of the same queries; one that is changed alone no longer fits.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc: latency, TTFT and TPOT of every query; published v4.1 to v6.1.
    """
    look = measured_log(run, "Server")
    figure = figures.TOKEN_TIME
    ratio = given(figures.token_time(run, look))
    if not figure.holds(ratio):
        yield Problem(
            f"found mean latency - mean TTFT {number(ratio)} times mean TPOT x (tokens per sample - "
            f"1); expected {figure.low:g} to {figure.high:g} times",
            path=run.detail_path,
            line=detail.line(keys.PER_TOKEN.mean),
            found=float(f"{ratio:.5g}"),
            required=[figure.low, figure.high],
            case=None if 0.8 <= ratio <= 1.1 else "impossible",
            evidence=look.evidence(
                figure.formula, "moderate", tokens_per_sample=exact_tokens_per_sample(detail)
            ),
        )


@rule("R133", ERROR)
def token_throughput_follows(run: MeasuredRun, round: Round, detail: DetailLog) -> Problems:
    """Token throughput is tokens per sample over mean latency.

    Equal to 1e-4, the six digits that LoadGen prints, in all 123 Server runs of v4.1 to v6.1.

    Why: LoadGen divides the same tokens once by the run's time and once by the latencies.
    Fix: use the detail log as LoadGen wrote it.
    Source: LoadGen results.cc: result_token_throughput; published v4.1 to v6.1.
    """
    look = measured_log(run, "Server")
    tokens = given(exact_tokens_per_sample(detail) or None)
    stated = given(look.number(keys.TOKEN_THROUGHPUT) or None)
    mean = given(look.number(keys.LATENCY.mean) or None)
    look.number(keys.COMPLETED_TOKENS_PER_SECOND), look.number(keys.COMPLETED_SAMPLES_PER_SECOND)
    expected = tokens / mean
    if abs(stated / expected - 1) > 5 * QUOTIENT:
        yield Problem(
            f"{keys.TOKEN_THROUGHPUT} is {quantity(stated * 1e9, 'tokens/s')} per query; the token "
            f"rate, the sample rate and the mean latency give {quantity(expected * 1e9, 'tokens/s')}",
            path=run.detail_path,
            line=detail.line(keys.TOKEN_THROUGHPUT),
            found=stated,
            required=float(f"{expected:.6g}"),
            evidence=look.evidence(
                "token rate / sample rate / mean latency = token throughput", "certain"
            ),
        )


_TOKENS_APART = 1.05


@rule("R316", ERROR, needs=("field", "tokens"), only={"inferred_from": None})
def tokens_as_in_other_scenarios(result: ResultTrace, round: Round) -> Problems:
    """A system's runs of one benchmark give as many tokens per sample in every scenario.

    Within 3.7% in all closed systems of v4.1 to v6.1 that have several scenarios.

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
    others = given(
        sorted(o.tokens for o in group if o is not result and o.tokens is not None) or None
    )
    if result.inferred_from is not None:
        raise NotJudged
    usual = others[len(others) // 2]
    ratio = max(result.tokens, usual) / min(result.tokens, usual)
    # Of two that differ neither is known to be wrong: reported at the later.
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
            "tokens per sample of one system and benchmark agree within 5%",
            "high",
            {one.detail_path: float(f"{one.tokens or 0:.6g}") for one in group[:8]},
        ),
    )
