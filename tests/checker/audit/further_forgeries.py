"""Forgeries of further kinds: spliced logs, borrowed runs, retyped figures, edited power sessions."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from tests.checker.audit.careful_forgeries import (
    LAMBDA,
    ORIN,
    SEEDS,
    TRITON,
    U1,
    ZEN,
    answers,
    both,
    clock,
    dropped,
    meter,
    moved_in,
    other_process,
    setting,
    tested,
)
from tests.checker.audit.corpus_forgeries import B300, DC, EDGE, LLM, P99, RACK, SLIM, TPS
from tests.checker.audit.forging import (
    ANSWERS,
    DETAIL,
    SUMMARY,
    Case,
    Copy,
    Edit,
    scaled,
    stated,
    taken,
    text,
)


def _records(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()


def _key(line: str) -> str:
    return re.findall(r'"key": "([^"]+)"', line)[0]


def _write(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(lines) + "\n", "utf-8")


def _one_pid(copy: Copy, lines: list[str]) -> list[str]:
    pid = re.findall(r'"pid": (\d+)', lines[0])[0]
    return [re.sub(r'"pid": \d+, "tid": \d+', f'"pid": {pid}, "tid": {pid}', one) for one in lines]


def results_of(log: str) -> Edit:
    """The results of another log behind this one's settings, under one process."""

    def edit(copy: Copy) -> None:
        mine, theirs = _records(copy.detail), _records(copy.base / log / DETAIL)
        head = [one for one in mine if not _key(one).startswith(("result_", "early_stopping"))]
        tail = [one for one in theirs if _key(one).startswith(("result_", "early_stopping"))]
        _write(copy.detail, _one_pid(copy, [*head, *tail]))
        shutil.copyfile(copy.base / log / SUMMARY, copy.summary)

    return edit


def made_of(target: str, log: str, *changes: Edit) -> Edit:
    """A test's run made from another log: its settings are the test's, the rest is the other's."""

    def edit(copy: Copy) -> None:
        place = copy.tests / target / "performance" / "run_1"
        keep = {
            _key(one): one
            for one in _records(place / DETAIL)
            if _key(one).startswith(("requested_", "effective_"))
        }
        lines = [keep.get(_key(one), one) for one in _records(copy.base / log / DETAIL)]
        _write(place / DETAIL, _one_pid(copy, lines))
        shutil.copyfile(copy.base / log / SUMMARY, place / SUMMARY)
        for change in changes:
            change(copy)

    return edit


def _all_dates(days: int) -> Edit:
    """Every date of the run and of its build moved alike."""
    return clock(86_400 * days, "test_datetime", "power_begin", "power_end")


def _plain_watts(copy: Copy) -> None:
    """The meter reads the same from the first second to the last."""
    path = copy.detail.parent / "spl.txt"
    path.write_text(re.sub(r"(Watts,)[\d.]+", r"\g<1>420.000000", path.read_text()))


def _repeated_watts(copy: Copy) -> None:
    """The readings of the first ten seconds over and over."""
    path = copy.detail.parent / "spl.txt"
    lines = path.read_text().splitlines()
    values = [one.split(",", 2)[2] for one in lines[:10]]
    path.write_text(
        "\n".join(f"{','.join(one.split(',')[:2])},{values[n % 10]}" for n, one in enumerate(lines))
        + "\n"
    )


def _shifted_meter(copy: Copy) -> None:
    """The meter's clock an hour on, so that the idle hour after the run counts."""
    path = copy.detail.parent / "spl.txt"

    def moved(match: re.Match[str]) -> str:
        return f"{match[1]}{(int(match[2]) + 1) % 24:02d}:"

    path.write_text(re.sub(r"(Time,\d\d-\d\d-\d{4} )(\d\d):", moved, path.read_text()))


def _indices(copy: Copy) -> None:
    """The easiest samples answered again and again."""
    path = copy.result / "accuracy" / ANSWERS
    data = path.read_text("utf-8", "surrogateescape").split("\n")
    first = re.findall(r'"qsl_idx" : (\d+)', data[1])[0]
    data[5:40] = [re.sub(r'("qsl_idx" : )\d+', rf"\g<1>{first}", one) for one in data[5:40]]
    path.write_text("\n".join(data), "utf-8", "surrogateescape")


def _threads(copy: Copy) -> None:
    lines = _records(copy.detail)
    half = len(lines) // 2
    _write(
        copy.detail,
        lines[:half] + [re.sub(r'"tid": \d+', '"tid": 77', one) for one in lines[half:]],
    )


def _time_ms(copy: Copy) -> None:
    """The log's own clock runs at 0.8 of its speed."""

    def slower(match: re.Match[str]) -> str:
        return f"{match[1]}{float(match[2]) * 0.8:.6f}"

    text = copy.detail.read_text("utf-8")
    copy.detail.write_text(re.sub(r'("time_ms": )([\d.]+)', slower, text), "utf-8")


def _more_accelerators(copy: Copy) -> None:
    for path in (copy.base / "systems").glob("B300*.json"):
        fields = json.loads(path.read_text())
        fields["accelerators_per_node"] = 4
        path.write_text(json.dumps(fields, indent=4))


def _error_lines(copy: Copy) -> None:
    """An error is logged and its count set back to 0."""
    lines = _records(copy.detail)
    at = next(n for n, one in enumerate(lines) if _key(one) == "power_begin")
    lines[at] = lines[at].replace('"is_error": false', '"is_error": true')
    _write(copy.detail, lines)


def _typed(copy: Copy) -> None:
    """A percentile typed by hand, in both logs, between its neighbours."""
    low = copy.number("result_97.00_percentile_latency_ns")
    value = round(low / 100_000 + 1) * 100_000
    copy.set(P99, value)
    copy.replace(
        copy.summary,
        r"(?m)^99\.00 percentile latency \(ns\)( *): \d+",
        rf"99.00 percentile latency (ns)\g<1>: {value}",
    )


def _line_of(log: str, key: str) -> Edit:
    """One record of another log in the place of this one's, under this one's process."""

    def edit(copy: Copy) -> None:
        lines = _records(copy.detail)
        theirs = next(one for one in _records(copy.base / log / DETAIL) if _key(one) == key)
        at = next(n for n, one in enumerate(lines) if _key(one) == key)
        lines[at] = _one_pid(copy, [lines[0], theirs])[1]
        _write(copy.detail, lines)

    return edit


def _second_record(copy: Copy) -> None:
    """A better figure written behind the real one."""
    lines = _records(copy.detail)
    rate = next(one for one in lines if _key(one) == "result_samples_per_second")
    value = copy.number("result_samples_per_second") * 1.3
    lines.append(re.sub(r'("value": )[\d.]+', rf"\g<1>{value:.6g}", rate))
    _write(copy.detail, lines)
    copy.retell("Samples per second", 1.3)


def _valid_again(copy: Copy) -> None:
    """A run over its limit, called valid."""
    limit = copy.number("requested_server_tpot_latency")
    copy.set("result_time_per_output_token_99.00_percentile_ns", round(limit * 1.07))
    copy.set("result_time_per_output_token_99.90_percentile_ns", round(limit * 1.13))


def _fewer_tokens(copy: Copy) -> None:
    """TEST06 states fewer tokens than its answers hold."""
    path = copy.tests / "TEST06" / "accuracy" / ANSWERS
    data = path.read_text("utf-8")
    changed = re.sub(r'("token_count" : )(\d+)', lambda m: f"{m[1]}{int(m[2]) // 2}", data)
    assert changed != data
    path.write_text(changed, "utf-8")


def _decimated(copy: Copy) -> None:
    """Every reading over the mean taken out."""
    path = copy.detail.parent / "spl.txt"
    lines = [one for one in path.read_text().splitlines() if "Watts" in one]
    watts = [float(re.findall(r"Watts,([\d.]+)", one)[0]) for one in lines]
    mean = sum(watts) / len(watts)
    path.write_text(
        "\n".join(one for one, value in zip(lines, watts, strict=True) if value < mean) + "\n"
    )


def _redated_accuracy(copy: Copy) -> None:
    """The whole accuracy run of another system, under another date and process."""
    source = copy.base / "results" / U1 / "offline" / "accuracy"
    for path in source.iterdir():
        shutil.copyfile(path, copy.result / "accuracy" / path.name)
    log = copy.result / "accuracy" / DETAIL
    text = re.sub(r'("(?:pid|tid)": )\d+', r"\g<1>4242", log.read_text("utf-8"))
    log.write_text(
        re.sub(r'("key": "test_datetime", "value": ")[^"]+', r"\g<1>2024-07-24T03:04:05Z", text)
    )


def _no_overlatency(copy: Copy) -> None:
    """The queries over the limit gone: their count, the early stopping's and the longest latency."""
    over = copy.number("result_overlatency_query_count")
    copy.set("result_overlatency_query_count", 0)
    copy.scale(1 - over / copy.number("result_query_count"), "result_query_count")


CASES: list[Case] = [
    # --- logs put together of two runs -------------------------------------------------------------
    ("spliced: results of another system's log", SLIM, f"{EDGE}/singlestream",
     results_of(f"results/{U1}/singlestream/performance/run_1")),
    ("spliced: results of the test's run", SLIM, f"{EDGE}/offline",
     results_of(f"compliance/{EDGE}/offline/TEST01/performance/run_1")),
    ("spliced: results of another scenario", B300, f"{LLM}/Server",
     results_of(f"results/{LLM}/Offline/performance/run_1")),
    ("TEST01 made of the accuracy run", SLIM, f"{EDGE}/offline",
     made_of("TEST01", f"results/{EDGE}/offline/accuracy")),
    ("TEST01 made of the submitted run", SLIM, f"{EDGE}/offline",
     made_of("TEST01", f"results/{EDGE}/offline/performance/run_1",
             lambda copy: copy.set("test_datetime", "2024-07-24T01:02:03Z",
                                   copy.tests / "TEST01/performance/run_1" / DETAIL))),
    ("submitted run made of TEST04's", SLIM, f"{EDGE}/offline",
     taken("performance/run_1", f"compliance/{EDGE}/offline/TEST04/performance/run_1")),
    ("spliced: one line of another system's log", SLIM, f"{EDGE}/multistream",
     _line_of(f"results/{U1}/multistream/performance/run_1", "result_99.90_percentile_latency_ns")),
    ("spliced: one line of the accuracy run", B300, f"{LLM}/Server",
     _line_of(f"results/{LLM}/Server/accuracy", "effective_min_query_count")),
    ("a second, better record", SLIM, f"{EDGE}/offline", _second_record),
    ("accuracy run of another system, redated", SLIM, f"{EDGE}/offline", _redated_accuracy),
    ("TEST04 and TEST05 exchanged", SLIM, f"{EDGE}/offline",
     both(moved_in("SPARE", f"{EDGE}/offline/TEST04"), moved_in("TEST04", f"{EDGE}/offline/TEST05"),
          moved_in("TEST05", f"{EDGE}/offline/SPARE"),
          lambda copy: shutil.rmtree(copy.tests / "SPARE"))),
    ("SUT of another name", SLIM, f"{EDGE}/offline", stated("sut_name", "OTHER_SERVER")),
    ("results of another checkout", SLIM, f"{EDGE}/offline",
     lambda copy: copy.replace(copy.detail, r'("key": "result_[^\n]*"file": ")[^"]*/loadgen/', r"\g<1>/home/me/loadgen/")),
    # --- figures ----------------------------------------------------------------------------------
    ("over the limit, yet valid", B300, f"{LLM}/Server", _valid_again),
    ("summary alone: doubled rate", SLIM, f"{EDGE}/offline",
     lambda copy: copy.retell("Samples per second", 2)),
    ("summary alone: latency", SLIM, f"{EDGE}/singlestream",
     lambda copy: copy.retell("90.00 percentile latency", 0.5)),
    ("a percentile typed by hand", DC, f"{RACK}/server", _typed),
    ("queries over the limit removed", DC, f"{RACK}/server", _no_overlatency),
    ("tokens per sample consistent in one scenario", B300, f"{LLM}/Offline",
     both(scaled(1.2, "result_tokens_per_second", "Tokens per second"),
          lambda copy: copy.replace(copy.result / "accuracy/accuracy.txt", r"('tokens_per_sample': )([\d.]+)",
                                    r"\g<1>353.3"))),
    ("fewer tokens in all figures", B300, f"{LLM}/Server",
     both(scaled(1.1, TPS, "Completed tokens per second"),
          scaled(1.1, "result_token_throughput"),
          scaled(1 / 1.1, "result_time_to_output_token_mean"))),
    ("early stopping: discarded queries", DC, f"{RACK}/server",
     stated("early_stopping_result", " * Only processed 5 queries.")),
    # --- seeds, clocks, processes -----------------------------------------------------------------
    ("seeds of the round in a log of others", TRITON, f"{LAMBDA}/Server",
     both(*(setting(seed, number, seed) for seed, number in
            zip(SEEDS, (2465351861681999779, 14276810075590677512, 3936089224930324775), strict=True)))),
    ("all dates before the round", SLIM, f"{EDGE}/offline", _all_dates(-200)),
    ("all dates a month later", SLIM, f"{EDGE}/offline", _all_dates(60)),
    ("built after the run", SLIM, f"{EDGE}/offline",
     both(stated("loadgen_build_date_utc", "2024-07-30T01:00:00.000001"),
          stated("loadgen_build_date_local", "2024-07-30T01:00:00.000001"))),
    ("another build in the submitted run alone", SLIM, f"{EDGE}/offline",
     both(stated("loadgen_build_date_utc", "2024-07-18T16:37:30.697039"),
          stated("loadgen_build_date_local", "2024-07-18T16:37:30.697023"))),
    ("another commit of LoadGen", SLIM, f"{EDGE}/offline",
     stated("loadgen_git_commit_date", "2024-06-19T11:36:14-05:00")),
    ("thread of the second half", SLIM, f"{EDGE}/offline", _threads),
    ("the log's own clock slower", B300, f"{LLM}/Server", _time_ms),
    ("error unmarked in the count", B300, f"{LLM}/Server", _error_lines),
    ("records before the run removed", B300, f"{LLM}/Server", dropped("generated_query_duration")),
    # --- answers and accuracy ---------------------------------------------------------------------
    ("accuracy: easy samples again and again", SLIM, f"{EDGE}/offline", _indices),
    ("accuracy: answers of another system", SLIM, f"{EDGE}/offline",
     taken(f"accuracy/{ANSWERS}", f"results/{U1}/offline/accuracy/{ANSWERS}")),
    ("accuracy: everything of another system but the detail log", SLIM, f"{EDGE}/singlestream",
     both(taken(f"accuracy/{ANSWERS}", f"results/{U1}/singlestream/accuracy/{ANSWERS}"),
          taken("accuracy/accuracy.txt", f"results/{U1}/singlestream/accuracy/accuracy.txt"))),
    ("accuracy: good and accuracy together", SLIM, f"{EDGE}/offline",
     text("accuracy/accuracy.txt", r"accuracy=[\d.]+%, good=\d+", "accuracy=77.000%, good=38500")),
    ("accuracy: all scores a little", B300, f"{LLM}/Offline",
     lambda copy: copy.replace(copy.result / "accuracy/accuracy.txt", r"('rouge\w+': )(\d+)\.", r"\g<1>\g<2>9.")),
    ("TEST06: fewer tokens stated", B300, f"{LLM}/Server", _fewer_tokens),
    ("TEST06 cut to half its samples", B300, f"{LLM}/Server",
     answers(lambda records: [*records[:50], records[-2].rstrip(","), records[-1]], "TEST06", "accuracy")),
    ("TEST01: both scores raised", SLIM, f"{EDGE}/offline",
     both(tested("TEST01", "verify_performance.txt", r"reference score = [\d.]+", "reference score = 200000"),
          tested("TEST01", "verify_performance.txt", r"test score = [\d.]+", "test score = 200001"))),
    ("TEST01: another system's texts", SLIM, f"{EDGE}/offline",
     lambda copy: [shutil.copyfile(copy.base / f"compliance/{U1}/offline/TEST01" / name, copy.tests / "TEST01" / name)
                   for name in ("verify_performance.txt", "verify_accuracy.txt")] and None),
    # --- descriptions and settings ----------------------------------------------------------------
    ("half the accelerators", B300, f"{LLM}/Server", _more_accelerators),
    ("user.conf of another rate", B300, f"{LLM}/Server",
     lambda copy: copy.replace(copy.result / "user.conf", r"target_qps = [\d.]+", "target_qps = 900")),
    ("measurements of another benchmark", B300, f"{LLM}/Server",
     taken("measurements.json", "results/B300-SXM-270GBx8_TRT/wan-2.2-t2v-a14b/Offline/measurements.json")),
    ("copied run with other latencies, one process", SLIM, f"{EDGE}/multistream",
     both(taken("performance/run_1", f"results/{U1}/multistream/performance/run_1"),
          scaled(0.9, "result_mean_latency_ns", "Mean latency"), clock(7_200, "test_datetime"), other_process)),
    # --- power ------------------------------------------------------------------------------------
    ("power: the same reading throughout", DC, f"{RACK}/offline", _plain_watts),
    ("power: ten readings repeated", DC, f"{RACK}/offline", _repeated_watts),
    ("power: readings over the mean removed", DC, f"{RACK}/offline", _decimated),
    ("power: meter's clock moved", DC, f"{RACK}/offline", _shifted_meter),
    ("power: session of another result", DC, f"{RACK}/offline",
     both(taken("performance/power", f"results/{RACK}/server/performance/power"),
          taken("performance/run_1/spl.txt", f"results/{RACK}/server/performance/run_1/spl.txt"))),
    ("power: ranging run of another result", DC, f"{RACK}/offline",
     taken("performance/ranging", f"results/{RACK}/server/performance/ranging")),
    ("power: readings of v3.0 without the peaks", ORIN, f"{ZEN}/offline", meter(r"(Watts,)([3-9]\d\d\.\d+|[1-9]\d\.\d+)", 0.9)),
]  # fmt: skip
