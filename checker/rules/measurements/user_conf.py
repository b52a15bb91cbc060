"""Family M: user.conf and mlperf.conf, the settings that LoadGen was given."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from checker.model import PerformanceRun, Result
from checker.near import MAX_HINTS, hint, nearest
from checker.parse.detail import DetailLog
from checker.parse.user_conf import Conf, Setting
from checker.rule import ERROR, NOTE, WARNING, Problem, Problems, rule
from checker.rules.structure.entries import listed
from checker.wording import pair, shown
from schemas.round import Round

_REL = 1e-5
"""LoadGen logs numbers with six significant digits."""

_FAR = 2.0
"""An expected rate or latency is a guess; a rate off by more than this factor is another run's."""

_SEEDS = ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed")
_OF_ROUND = {
    "target_latency_percentile",
    "sample_concatenate_permutation",
    "ttft_latency",
    "tpot_latency",
    "use_token_latencies",
}
_OF_TEST = {
    "accuracy_log_rng_seed",
    "accuracy_log_probability",
    "accuracy_log_sampling_target",
    "performance_issue_unique",
    "performance_issue_same",
    "performance_issue_same_index",
    "mode",
    "test05",
}
_FREE = {
    "target_qps", "target_latency", "min_duration", "max_duration", "min_query_count",
    "max_query_count", "performance_sample_count", "performance_sample_count_override",
    "coalesce_queries", "max_async_queries", "samples_per_query",
    "multi_stream_samples_per_query", "target_duration", "accuracy_sample_count_override",
    "print_timestamps", "server_num_issue_query_threads", "num_issue_query_threads",
    "token_latency_scaling_factor", "infer_token_latencies",
    "server_find_peak_qps_decimals_of_precision", "server_find_peak_qps_boundary_step_size",
    "target_qps_rampup", "multi_stream_target_qps", "multi_stream_max_async_queries",
}  # fmt: skip
_KNOWN = {*_FREE, *_OF_ROUND, *_OF_TEST, *_SEEDS}

_LOGGED = (
    ("min_duration", None, "requested_min_duration_ms", 1.0, "ms"),
    ("max_duration", None, "requested_max_duration_ms", 1.0, "ms"),
    ("min_query_count", None, "requested_min_query_count", 1.0, "query"),
    ("max_query_count", None, "requested_max_query_count", 1.0, "query"),
    ("performance_sample_count_override", None, "requested_performance_sample_count_override", 1.0,
     "sample"),
    ("target_qps", "Server", "requested_server_target_qps", 1.0, "queries/s"),
    ("target_qps", "Offline", "requested_offline_expected_qps", 1.0, "samples/s"),
    ("target_latency", "Server", "requested_server_target_latency_ns", 1e6, "ms"),
    ("target_latency", "SingleStream", "requested_single_stream_expected_latency_ns", 1e6, "ms"),
    ("target_latency", "MultiStream", "requested_multi_stream_expected_latency_ns", 1e6, "ms"),
    ("samples_per_query", "MultiStream", "requested_multi_stream_samples_per_query", 1.0, "sample"),
)  # fmt: skip
"""Setting, scenario (None: any), the log's key, how many of the log's units one of the setting's
is, the setting's unit."""

_SCENARIOS = ("SingleStream", "MultiStream", "Server", "Offline", "*")

_WORDS = re.compile(r"[A-Za-z]{2,}")
_CONF = {"conf": "user_conf"}
_COMPARABLE = ("closed", "network")


def _readable(conf: Conf) -> bool:
    return all(fault.kind == "encoding" for fault in conf.faults)


@rule("M110", ERROR, cases={"slip": WARNING, "prose": ERROR}, needs=_CONF)
def user_conf_readable(result: Result, round: Round, conf: Conf) -> Problems:
    """Every line of user.conf reads model.scenario.key = value.

    Why: LoadGen does not use what it cannot read, so the setting has no effect.
    Fix: write the line as "*.Offline.target_qps = 1000".
    Source: LoadGen's configuration file format.
    """
    lines = conf.odd_lines if _readable(conf) else []
    # One odd line among settings is a slip; a text that points elsewhere is not a user.conf.
    case = "slip" if conf.settings else "prose" if _is_prose(lines) else None
    if lines and conf.settings and conf.cut:
        line, text = lines[-1]
        if _last_line(conf) <= line:
            lines = lines[:-1]
            yield _odd(conf, line, text, 1, None)
    if lines:
        yield _odd(conf, *lines[0], len(lines), case)


def _is_prose(lines: Sequence[tuple[int, str]]) -> bool:
    """Whether a sentence or a TODO is among the lines, and not just what is left of a damaged file."""
    return any("todo" in text.lower() or len(_WORDS.findall(text)) >= 3 for _, text in lines)


def _last_line(conf: Conf) -> int:
    return max(setting.line for setting in conf.settings)


def _odd(conf: Conf, line: int, text: str, count: int, case: str | None) -> Problem:
    more = f" (and {count - 1} more lines)" if count > 1 else ""
    return Problem(
        f"found {shown(text)}{more}; expected model.scenario.key = value",
        path=conf.path,
        line=line,
        found=text[:100],
        required="model.scenario.key = value",
        case=case,
        count=count,
    )


@rule("M111", NOTE, cases={"misspelt": WARNING, "no-number": WARNING}, needs=_CONF)
def user_conf_keys(result: Result, round: Round, conf: Conf) -> Problems:
    """user.conf sets keys that LoadGen knows, of its scenarios, each to a number.

    Why: a misspelt key or scenario has no effect, and the run was made with another setting.
    Fix: correct the key.
    Source: LoadGen's configuration file format and its settings.
    """
    unknown = 0
    for setting in conf.settings if _readable(conf) else ():
        key, near, case = setting.key, None, "no-number"
        if setting.scenario not in _SCENARIOS:
            unknown += 1
            if unknown > MAX_HINTS:
                break
            near = nearest(setting.scenario, _SCENARIOS)
            yield Problem(
                f"found scenario {setting.scenario}; expected one of LoadGen's or *{hint(near)}",
                path=conf.path,
                line=setting.line,
                found=setting.scenario,
                required=near or list(_SCENARIOS),
                case="misspelt" if near else None,
            )
            continue
        if key not in _KNOWN:
            unknown += 1
            if unknown > MAX_HINTS:
                break
            near = nearest(key, _KNOWN, 0.85)
            case = "misspelt" if near else ""
            message = f"found {key}; expected a setting of LoadGen{hint(near)}"
        elif not math.isfinite(math.nan if setting.number is None else setting.number) and (
            not re.fullmatch(r"(?i)true|false|0x[0-9a-f]+", setting.value)
        ):
            message = f"found {shown(setting.value)} for {key}; expected a number"
        else:
            continue
        yield Problem(
            message,
            path=conf.path,
            line=setting.line,
            found=key if key not in _KNOWN else setting.value[:80],
            required=near if key not in _KNOWN else "a number",
            case=case or None,
        )


@rule("M112", ERROR, cases={"same": NOTE}, divisions=_COMPARABLE, needs=_CONF)
def user_conf_seeds(result: Result, round: Round, conf: Conf) -> Problems:
    """user.conf does not set LoadGen's seeds.

    Why: the seeds are announced and come from the official configuration; others would choose
        other samples.
    Fix: delete the line.
    Source: inference_rules.adoc, "LoadGen": seeds; what a submitter may choose.
    """
    found = [s for s in conf.settings if s.key in _SEEDS] if _readable(conf) else []
    for case in ("same", None):
        which = [s for s in found if (s.value == getattr(round.seeds, s.key)) == (case == "same")]
        if which:
            others = "the round's own values" if case else "other values than the round's"
            yield Problem(
                f"found {others} for {listed(dict.fromkeys(s.key for s in which))}; expected no "
                "such line",
                path=conf.path,
                line=which[0].line,
                found=which[0].value[:40],
                required=getattr(round.seeds, which[0].key),
                case=case,
                count=len(which),
            )


@rule("M113", WARNING, divisions=_COMPARABLE, needs=_CONF)
def user_conf_ruled_keys(result: Result, round: Round, conf: Conf) -> Problems:
    """user.conf does not set what the rules set: percentiles, permutation, token latency limits.

    Why: what belongs to the rules or to a compliance test is not the submitter's choice.
    Fix: delete the line; the official configuration inside LoadGen sets the value.
    Source: inference_rules.adoc, "LoadGen": user.conf holds only what a submitter may choose.
    """
    ruled = set(_OF_ROUND)
    scenarios = [s for b in round.benchmarks.values() for s in b.scenarios.values()]
    if any(scenario.samples_per_query is not None for scenario in scenarios):
        ruled.add("samples_per_query")
    for keys, owner in ((ruled, "the round sets them"), (_OF_TEST, "audit.config sets them")):
        found = [s for s in conf.settings if s.key in keys and _concerns(s, result)]
        if found and _readable(conf):
            yield Problem(
                f"found {listed(f'{s.key} = {s.value[:40]}' for s in found)}; expected no such "
                f"line, as {owner}",
                path=conf.path,
                line=found[0].line,
                found=[f"{s.key} = {s.value[:40]}" for s in found[:20]],
                required="no such line",
                count=len(found),
            )


def _concerns(setting: Setting, result: Result) -> bool:
    """Whether a setting of user.conf is for the result's scenario."""
    scenarios = {"*", result.scenario, result.loadgen_scenario, result.inferred_from}
    return setting.scenario in scenarios


@rule(
    "M114",
    WARNING,
    cases={"other-setting": NOTE, "rate": NOTE, "guess": NOTE},
    needs={**_CONF, "run": "performance", "detail": "performance.detail"},
)
def user_conf_as_run(
    result: Result, round: Round, conf: Conf, run: PerformanceRun, detail: DetailLog
) -> Problems:
    """The values in user.conf are those that the run was made with.

    Why: a reader must be able to repeat the run with the files that are published.
    Fix: publish the user.conf of the performance run, not that of another one.
    Source: submission_rules.adoc, "Measurements": user.conf; LoadGen's requested_ settings.
    """
    if run.scenario is None or result.scenario is None or not _readable(conf):
        return
    model = result.benchmark.conf_model if result.benchmark is not None else None
    differ: dict[str | None, list[tuple[Setting, str, float, float]]] = {}
    given = {key for _, _, key in conf.last}
    for key, scenario, logged, scale, unit in _LOGGED:
        if key not in given or (scenario is not None and scenario != run.scenario):
            continue
        found = detail.number(logged)
        if found is None:
            continue
        setting = None
        if result.scenario == "Interactive" and model:
            setting = conf.lookup(f"{model}-interactive", run.scenario, key)
        setting = setting or conf.lookup(model or result.directory, run.scenario, key)
        if setting is None or setting.number is None:
            continue
        asked = setting.number * scale
        if abs(asked - found) <= _REL * max(abs(asked), abs(found)) + (1 if scale > 1 else 0):
            continue
        case: str | None = None if key == "min_duration" else "other-setting"
        if key == "target_qps" or (key == "target_latency" and scenario != "Server"):
            far = min(asked, found) * _FAR < max(asked, found)
            case = "rate" if far and key == "target_qps" else "guess"
        texts = pair(setting.number, found / scale, unit)
        differ.setdefault(case, []).append(
            (setting, f"{key} {texts[0]} (run: {texts[1]})", asked, found)
        )
    for case, settings in differ.items():
        first, _, asked, found = settings[0]
        yield Problem(
            f"found {listed(text for _, text, _, _ in settings)}; expected the values of the run",
            path=conf.path,
            line=first.line,
            found=asked,
            required=found,
            case=case,
            count=len(settings),
        )


@rule("M116", WARNING, needs={**_CONF, "run": "performance"})
def user_conf_concerns_run(
    result: Result, round: Round, conf: Conf, run: PerformanceRun
) -> Problems:
    """user.conf has a setting for the run's benchmark and scenario.

    Why: LoadGen takes nothing from a file that is for other benchmarks and scenarios alone; such a
    file is another result's.
    Fix: publish the user.conf of the performance run.
    Source: LoadGen test_settings_internal.cc: settings of the model and scenario, or of *.
    """
    if run.scenario is None or not conf.settings or not _readable(conf):
        return
    own = result.benchmark.conf_model if result.benchmark is not None else None
    models = {"*", own, f"{own}-interactive", result.directory}
    # A model that is mapped to a benchmark may have run under a name of its own.
    known = result.directory == result.name
    if any(
        (_concerns(s, result) or s.scenario == run.scenario) and (s.model in models or not known)
        for s in conf.settings
    ):
        return
    first = conf.settings[0]
    yield Problem(
        f"found settings for {listed(dict.fromkeys(f'{s.model}.{s.scenario}' for s in conf.settings))}; "
        f"expected one for {own or result.directory}.{run.scenario} or *.{run.scenario}",
        path=conf.path,
        line=first.line,
        found=f"{first.model}.{first.scenario}",
        required=f"{own or result.directory}.{run.scenario}",
        count=len(conf.settings),
    )


@rule("M115", NOTE, needs={"conf": "mlperf_conf"})
def mlperf_conf_seeds(result: Result, round: Round, conf: Conf) -> Problems:
    """A copy of mlperf.conf holds the round's seeds.

    Why: in another round's file the limits are another round's too.
    Fix: use the mlperf.conf of the round's LoadGen; from v5.0 on none is needed.
    Source: mlperf.conf of the round.
    """
    found = [conf.lookup("*", "*", key) for key in _SEEDS] if not conf.faults else []
    other = [s for s in found if s is not None and s.value != getattr(round.seeds, s.key)]
    if other:
        yield Problem(
            f"found other values than the round's for {listed(s.key for s in other)}; expected "
            f"{other[0].key} = {getattr(round.seeds, other[0].key)}",
            path=conf.path,
            line=other[0].line,
            found=other[0].value[:40],
            required=getattr(round.seeds, other[0].key),
            count=len(other),
        )
