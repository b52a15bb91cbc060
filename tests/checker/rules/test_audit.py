"""Family R: a good tree has no finding of a rule; one thing changed gives one, at its place."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checker.rules.audit import origin
from tests.checker.audit.real import shared_tree
from tests.checker.rules.breaking import not_plain, place_of
from tests.conftest import Grow
from tests.trees import ACCURACY, DELETE, DETAIL, MARKER, GoodTree, good_tree

EDGE: dict[str, Any] = {"benchmark": "yolo-99", "category": "edge"}
DEMO: dict[str, Any] = {"round": "demo", "benchmark": "digits", "category": "datacenter"}
TOKENS: dict[str, Any] = {"benchmark": "llama2-70b-99", "category": "datacenter"}
REAL: dict[str, Any] = {"real": True}
TEXT: dict[str, Any] = {"round": "v0.7", "benchmark": "3d-unet-99", "text": True}


@dataclasses.dataclass(frozen=True)
class Change:
    """change: what is done to the good tree ``tree``; place: where the finding is, as in `Break`
    (a trailing ``*`` means below); line: whether it names one; before: done to both."""

    change: Callable[[GoodTree], Any]
    place: str
    tree: dict[str, Any] = dataclasses.field(default_factory=lambda: EDGE)
    line: bool = True
    severity: str | None = None
    before: Callable[[GoodTree], Any] | None = None


def _set(scenario: str, key: str, value: Any, run: str = "detail") -> Callable[[GoodTree], None]:
    def change(tree: GoodTree) -> None:
        place = tree.result(scenario)
        tree.set_log(place.detail if run == "detail" else place.accuracy_detail, key, value)

    return change


def _text_date(tree: GoodTree) -> None:
    place = tree.result("Offline").accuracy_detail
    text, count = re.subn(r"(?<=Date \+ time of test: )[\d-]+T", "", place.read_text())
    assert count == 1
    place.write_text(text)


def _record(scenario: str, key: str, name: str, value: Any) -> Callable[[GoodTree], None]:
    """One value of a record's metadata, or its time, replaced."""

    def change(tree: GoodTree) -> None:
        place = tree.result(scenario).detail
        lines = place.read_text().splitlines()
        at = next(n for n, line in enumerate(lines) if f'"key": "{key}"' in line)
        record = json.loads(lines[at][len(MARKER) :])
        (record if name == "time_ms" else record["metadata"])[name] = value
        lines[at] = MARKER + json.dumps(record)
        place.write_text("\n".join(lines) + "\n")

    return change


def _typed(tree: GoodTree) -> None:
    place = tree.result("Server").detail
    for number, name in enumerate(("97.00", "99.00", "99.90"), 2):
        tree.set_log(place, f"result_{name}_percentile_latency_ns", number * 100_000_000)


def _committed(tree: GoodTree) -> None:
    """Every log of a checkout of one commit."""
    for place in tree.root.rglob(DETAIL):
        tree.set_log(place, "loadgen_git_log_message", f"{'ab' * 20} A commit")
        tree.set_log(place, "loadgen_git_commit_date", "2026-01-02T03:04:05+00:00")


def _scale(scenario: str, key: str, factor: float) -> Callable[[GoodTree], None]:
    def change(tree: GoodTree) -> None:
        place = tree.result(scenario).detail
        old = tree.get_log(place, key)
        new = old * factor
        tree.set_log(place, key, int(new) if isinstance(old, int) and new >= 10 else new)

    return change


def _text(scenario: str, key: str, old: str, new: str) -> Callable[[GoodTree], None]:
    def change(tree: GoodTree) -> None:
        place = tree.result(scenario).detail
        text = tree.get_log(place, key)
        assert old in text, text
        tree.set_log(place, key, text.replace(old, new))

    return change


def _say(scenario: str, key: str, text: str, **metadata: Any) -> Callable[[GoodTree], None]:
    return lambda tree: tree.add_log(tree.result(scenario).detail, key, text, **metadata)


def _summary(scenario: str, label: str, text: Any) -> Callable[[GoodTree], None]:
    return lambda tree: tree.set_summary(tree.result(scenario).summary, label, text)


def _swap_lines(tree: GoodTree) -> None:
    path = tree.result("Offline").detail
    lines = path.read_text().splitlines()
    lines[3], lines[-3] = lines[-3], lines[3]
    path.write_text("\n".join(lines) + "\n")


def _shift(scenario: str, key: str, seconds: float) -> Callable[[GoodTree], None]:
    def change(tree: GoodTree) -> None:
        path = tree.result(scenario).detail
        when = datetime.datetime.fromisoformat(tree.get_log(path, key).replace("Z", "+00:00"))
        moved = when + datetime.timedelta(seconds=seconds)
        tree.set_log(path, key, moved.strftime("%Y-%m-%dT%H:%M:%SZ"))

    return change


def _dated(text: str) -> Callable[[GoodTree], None]:
    return _set("Offline", "test_datetime", text)


def _other_sources(tree: GoodTree) -> None:
    path = tree.result("Offline").accuracy_detail
    sources = dict(tree.get_log(path, "loadgen_file_sha1"))
    sources["/results.cc"] = "0" * 40
    tree.set_log(path, "loadgen_file_sha1", sources)


def _built_before_commit(tree: GoodTree) -> None:
    path = tree.result("Offline").detail
    tree.set_log(path, "loadgen_build_date_utc", "2026-01-01T00:00:00")
    tree.set_log(path, "loadgen_git_commit_date", "2026-01-09T00:00:00+02:00")


def _with_sources(tree: GoodTree) -> None:
    """Every log states its LoadGen's sources."""
    sources = {f"/{name}.cc": name[0] * 40 for name in ("loadgen", "results", "logging")}
    for path in tree.root.rglob(DETAIL):
        tree.set_log(path, "loadgen_file_sha1", sources)


def _errors_in_summary(tree: GoodTree) -> None:
    path = tree.result("Offline").summary
    text = path.read_text()
    assert "No errors encountered" in text
    path.write_text(text.replace("No errors encountered", "1 ERROR encountered"))


def _other_hash(tree: GoodTree) -> None:
    path = tree.result("Offline").accuracy_text
    lines = [line for line in path.read_text().splitlines() if not line.startswith("hash")]
    path.write_text("\n".join([*lines, f"hash={'a' * 64}"]) + "\n")


def _swapped_set(tree: GoodTree) -> None:
    path = tree.result("Offline").detail
    loaded = tree.get_log(path, "loaded_qsl_set")
    loaded[7], loaded[400] = loaded[400], loaded[7]
    tree.set_log(path, "loaded_qsl_set", loaded)


def _records(
    change: Callable[[list[dict[str, Any]]], Any], test: bool = False
) -> Callable[[GoodTree], None]:
    def apply(tree: GoodTree) -> None:
        place = tree.result("Offline")
        path = tree.root / place.path / "TEST01/accuracy" / ACCURACY if test else place.accuracy_log
        records = json.loads(path.read_text())
        change(records)
        path.write_text("[\n" + ",\n".join(json.dumps(r) for r in records) + "\n]\n")

    return apply


def _exchange(records: list[dict[str, Any]]) -> None:
    records[3]["qsl_idx"], records[4]["qsl_idx"] = records[4]["qsl_idx"], records[3]["qsl_idx"]


def _next_sample(records: list[dict[str, Any]]) -> None:
    records[5]["seq_id"] += 1


def _twice(records: list[dict[str, Any]]) -> None:
    records[9]["seq_id"] = records[8]["seq_id"]


def _accuracy_is_performance(tree: GoodTree) -> None:
    place = tree.result("Offline")
    shutil.copyfile(place.detail, place.accuracy_detail)


def _test_is_performance(*changes: tuple[str, Any]) -> Callable[[GoodTree], None]:
    def change(tree: GoodTree) -> None:
        place = tree.result("Offline")
        target = place.compliance("TEST01") / "performance/run_1" / DETAIL
        shutil.copyfile(place.detail, target)
        for key, value in changes:
            tree.set_log(target, key, value)

    return change


def _accuracy_during_performance(tree: GoodTree) -> None:
    place = tree.result("Offline")
    tree.set_log(
        place.accuracy_detail, "test_datetime", tree.get_log(place.detail, "test_datetime")
    )
    for path in (place.detail, place.accuracy_detail):
        lines = path.read_text().splitlines()
        record = json.loads(lines[-1][len(MARKER) :])
        record["time_ms"] = 600_000.0
        path.write_text("\n".join([*lines[:-1], MARKER + json.dumps(record)]) + "\n")


def _other_source_line(tree: GoodTree) -> None:
    path = tree.result("Offline").detail
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines):
        if '"result_samples_per_second"' in line:
            record = json.loads(line[len(MARKER) :])
            record["metadata"]["line_no"] += 40
            lines[number] = MARKER + json.dumps(record)
    path.write_text("\n".join(lines) + "\n")


def _submitters(tree: GoodTree) -> None:
    """Three more submitters with the same system."""
    for name in ("Bravo", "Charlie", "Delta"):
        good_tree(tree.root.parent, submitter=name, into=tree, **EDGE)
    _with_sources(tree)


def _sources_of_one(tree: GoodTree) -> None:
    path = tree.result("Offline").detail
    sources = dict(tree.get_log(path, "loadgen_file_sha1"))
    sources["/results.cc"] = "1" * 40
    tree.set_log(path, "loadgen_file_sha1", sources)


def _second_system(tree: GoodTree) -> None:
    good_tree(tree.root.parent, system="box2", into=tree, **EDGE)
    tree.edit_json(tree.root / tree.system_path, lambda d: d.update(hw_notes="the first of two"))


def _same_description(tree: GoodTree) -> None:
    first = tree.root / tree.system_path
    second = first.with_name("box2.json")
    described = json.loads(second.read_text())
    first.write_text(json.dumps(described))


_LLM_OFFLINE = {**TOKENS, "scenarios": ["Offline", "Server"]}
BREAKS: dict[str, list[Change]] = {
    "R101": [
        Change(_set("Offline", "result_min_queries_met", False), "Offline/detail"),
        Change(_set("Server", "effective_min_query_count", 10**7), "Server/detail", DEMO),
    ],
    "R102": [
        Change(_set(scenario, "result_min_duration_met", False), f"{scenario}/detail", tree)
        for scenario, tree in (("Offline", EDGE), ("SingleStream", EDGE), ("Server", DEMO))
    ],
    "R103": [Change(_scale("Offline", "result_samples_per_second", 1.3), "Offline/detail")],
    "R104": [
        Change(_scale("SingleStream", "result_mean_latency_ns", 1.5), "SingleStream/detail"),
        Change(_scale("SingleStream", "result_qps_with_loadgen_overhead", 2), "SingleStream/detail"),
    ],
    "R105": [
        Change(_scale("Server", "result_scheduled_samples_per_sec", 1.3), "Server/detail", DEMO),
        Change(_scale("Server", "result_completed_samples_per_sec", 1.3), "Server/detail", DEMO),
    ],
    "R106": [
        Change(_set("Server", "result_perf_constraints_met", False), "Server/detail", DEMO),
        Change(_set("Server", "result_perf_constraints_met", False), "Server/detail", TOKENS),
    ],
    "R107": [
        Change(_text("SingleStream", "early_stopping_result", "discard ", "discard 9"), "SingleStream/detail"),
        Change(_text("SingleStream", "early_stopping_result", "queries (", "queries (9"), "SingleStream/detail"),
        Change(_text("MultiStream", "early_stopping_result", "estimate: ", "estimate: 9"), "MultiStream/detail"),
        Change(_set("Server", "early_stopping_result", " * Only processed 5 queries."), "Server/detail", REAL),
    ],
    "R108": [
        Change(_scale("SingleStream", "early_stopping_latency_ss", 1.2), "SingleStream/detail"),
        Change(_scale("SingleStream", "early_stopping_latency_ms", 0.9), "SingleStream/detail"),
        Change(_scale("MultiStream", "early_stopping_latency_ms", 0.9), "MultiStream/detail"),
    ],
    "R109": [
        Change(_set("Server", "early_stopping_met", False), "Server/detail", DEMO),
        Change(_set("Server", "result_overlatency_query_count", 400), "Server/detail", DEMO),
    ],
    "R110": [Change(_set("SingleStream", "early_stopping_latency_ms", 0), "SingleStream/detail")],
    "R111": [
        Change(_set("Offline", "requested_min_duration_ms", 1), "Offline/detail"),
        Change(_set("Offline", "effective_qsl_rng_seed", 1, "accuracy"), "Offline/accuracy/detail"),
        Change(_set("Server", "requested_server_target_qps", 1), "Server/detail", DEMO),
    ],
    "R112": [
        Change(_set("Offline", "effective_target_duration_ms", 600_000), "Offline/detail"),
        Change(_set("SingleStream", "effective_target_duration_ms", 0), "SingleStream/detail"),
    ],
    "R113": [Change(_scale("Offline", "effective_samples_per_query", 1.1), "Offline/detail")],
    "R114": [Change(_scale("Offline", "generated_samples_per_query", 1.1), "Offline/detail")],
    "R115": [
        Change(
            _say("Offline", "warning_generic_message", "Found Audit Config file (audit.config)."),
            "Offline/detail",
        )
    ],
    "R116": [
        Change(_other_sources, "Offline/accuracy/detail", before=_with_sources),
        Change(
            _set("Offline", "effective_sample_concatenate_permutation", True, "accuracy"),
            "Offline/accuracy/detail",
        ),
    ],
    "R117": [
        Change(_dated("2026-05-08T01:02:03Z"), "Offline/detail"),
        Change(_dated("2025-01-02T01:02:03Z"), "Offline/detail"),
    ],
    "R118": [Change(_dated("2025-12-02T01:02:03Z"), "Offline/detail")],
    "R119": [Change(_built_before_commit, "Offline/detail")],
    "R120": [Change(_shift("Offline", "test_datetime", 300), "Offline/detail")],
    "R121": [Change(_say("Offline", "generic_message", "x", pid=7, tid=7), "Offline/detail")],
    "R122": [Change(_say("Offline", "generic_message", "x", pid=7), "Offline/detail")],
    "R123": [Change(_swap_lines, "Offline/detail")],
    "R124": [
        Change(
            _scale("Server", "result_first_token_99.00_percentile_latency_ns", 1000), "Server/detail", TOKENS
        )
    ],
    "R125": [
        Change(_scale("Offline", "result_mean_latency_ns", 1.9), "Offline/detail"),
        Change(_scale("Server", "result_first_token_mean_latency_ns", 0.2), "Server/detail", TOKENS),
    ],
    "R126": [
        Change(_errors_in_summary, "Offline/summary", line=False),
        Change(_summary("SingleStream", "90.0th percentile latency (ns)", 17), "SingleStream/summary"),
        Change(
            _summary("SingleStream", "* Early stopping 99.0th percentile estimate", 17), "SingleStream/summary"
        ),
    ],
    "R127": [
        Change(_summary("Offline", "Samples per second", 1), "Offline/summary"),
        Change(_summary("SingleStream", "QPS w/o loadgen overhead", 1), "SingleStream/summary"),
        Change(_summary("Server", "Completed samples per second", 10**6), "Server/summary", DEMO),
        Change(_summary("Offline", "99.00 percentile latency (ns)", 1), "Offline/summary"),
    ],
    "R128": [Change(_scale("Offline", "result_tokens_per_second", 0.8), "Offline/detail", TOKENS)],
    "R129": [Change(_scale("Server", "effective_target_qps", 1.5), "Server/detail", DEMO)],
    "R130": [
        Change(
            _say("Offline", "warning_generic_message", "PerfClock and system_clock differ by 0.2%"),
            "Offline/detail",
        )
    ],
    "R142": [
        Change(_set("Offline", "result_99.00_percentile_latency_ns", 154_900_000), "Offline/detail", REAL),
        Change(_typed, "Server/detail", REAL, severity="error"),
    ],
    "R143": [
        Change(_record("Server", "result_validity", "tid", 77), "Server/detail", REAL),
        Change(_record("Offline", "effective_target_qps", "tid", 77), "Offline/detail", REAL),
    ],
    "R144": [
        Change(_set("Offline", "loadgen_build_date_utc", "2026-01-02T03:04:05.000006"), "Offline/detail", REAL)
    ],
    "R147": [
        Change(_set("Offline", "power_end", "2026-01-02 03:04"), "Offline/detail", REAL),
        Change(_set("Offline", "loadgen_git_commit_date", "2026-01-02T03:04:05,5"), "Offline/detail", REAL),
        Change(_set("Offline", "loadgen_git_commit_date", "20260102T030405"), "Offline/detail", REAL),
        Change(_text_date, "Offline/accuracy/detail", TEXT),
        Change(_set("Offline", "loadgen_build_date_utc", 20260102, "accuracy"), "Offline/accuracy/detail", REAL),
    ],
    "R145": [
        Change(_record("Server", "result_query_count", "time_ms", 12.5), "Server/detail", REAL),
    ],
    "R146": [
        Change(_record("Server", "result_query_count", "file", "/home/x/results.cc"), "Server/detail", REAL)
    ],
    "R131": [Change(_other_hash, "Offline/accuracy/accuracy.txt", REAL)],
    "R201": [
        Change(_swapped_set, "Offline/detail", REAL),
        Change(_set("Offline", "effective_qsl_rng_seed", 5), "Offline/detail", REAL),
    ],
    "R202": [
        Change(_set("Server", "effective_target_qps", 4100), "Server/detail", REAL),
        Change(_scale("Server", "generated_query_duration", 1.0001), "Server/detail", REAL),
        Change(_set("Server", "effective_schedule_rng_seed", 5), "Server/detail", REAL),
        Change(_scale("SingleStream", "generated_query_count", 2), "SingleStream/detail", REAL),
    ],
    "R203": [
        Change(_records(_exchange), f"Offline/accuracy/{ACCURACY}", REAL),
        Change(_records(_next_sample, test=True), f"Offline/TEST01/accuracy/{ACCURACY}", REAL),
    ],
    "R204": [Change(_records(_next_sample, test=True), f"Offline/TEST01/accuracy/{ACCURACY}", REAL)],
    "R205": [Change(_scale("Server", "result_scheduled_samples_per_sec", 1.01), "Server/detail", REAL)],
    "R206": [
        Change(_records(_twice), f"Offline/accuracy/{ACCURACY}", REAL),
        Change(_records(lambda r: r.pop()), f"Offline/accuracy/{ACCURACY}", REAL, line=False),
    ],
    "R301": [
        Change(_accuracy_is_performance, f"Offline/accuracy/{DETAIL}"),
        Change(_test_is_performance(), f"Offline/TEST01/performance/run_1/{DETAIL}"),
    ],
    "R302": [
        Change(
            _test_is_performance(("result_min_latency_ns", 12)),
            f"Offline/TEST01/performance/run_1/{DETAIL}",
        ),
    ],
    "R303": [
        Change(
            _test_is_performance(("test_datetime", "2026-02-03T04:05:06Z")),
            f"Offline/TEST01/performance/run_1/{DETAIL}",
        )
    ],
    "R304": [Change(_accuracy_during_performance, "Offline/*", severity="note")],
    "R305": [Change(_other_source_line, "Offline/detail", REAL)],
    "R306": [Change(_sources_of_one, "Offline/detail", before=_submitters, severity="note")],
    "R307": [
        Change(
            _test_is_performance(("result_mean_latency_ns", 12)),
            f"Offline/TEST01/performance/run_1/{DETAIL}",
        )
    ],
    "R318": [
        Change(
            _set("Offline", "loadgen_git_commit_date", "2020-01-02T03:04:05+00:00"), "Offline/detail", REAL,
            before=_committed,
        )
    ],
    "R319": [
        Change(
            _set("Offline", "loadgen_build_date_utc", "2026-01-02T03:04:05.000006", run="accuracy"),
            f"Offline/accuracy/{DETAIL}", REAL, severity="note",
        )
    ],
    "R311": [Change(_scale("Offline", "result_tokens_per_second", 0.01), "Server/detail", _LLM_OFFLINE)],
    "R312": [
        Change(
            _scale("Offline", "result_samples_per_second", 1.5), "Offline/detail", before=_submitters,
            severity="note",
        )
    ],
    "R313": [Change(_same_description, "/*", before=_second_system, line=False, severity="note")],
    "R314": [
        Change(
            _scale("MultiStream", "result_99.00_percentile_per_query_latency_ns", 0.001),
            "MultiStream/detail", line=False, severity="note",
        )
    ],
    "R321": [
        Change(_scale("Offline", "result_samples_per_second", 1.05), "Offline/detail", severity="note"),
        Change(_scale("Offline", "result_samples_per_second", 0.5), "Offline/detail", severity="warning"),
    ],
}  # fmt: skip

BREAKS_APART = {"R320": "test_a_record_that_all_logs_of_its_kind_hold"}

CASES = [
    pytest.param(rule, case, id=f"{rule}-{index}")
    for rule, cases in BREAKS.items()
    for index, case in enumerate(cases)
]


def _made(case: Change, grow: Grow, folder: Path) -> GoodTree:
    if not case.tree.get("real"):
        return grow(**case.tree)
    tree = copy.copy(shared_tree())
    tree.root = folder / "real" / "submission"
    shutil.copytree(shared_tree().root, tree.root)
    return tree


@pytest.mark.parametrize(("rule", "case"), CASES)
def test_change_is_seen(rule: str, case: Change, grow: Grow, tmp_path: Path) -> None:
    tree = _made(case, grow, tmp_path)
    if case.before is not None:
        case.before(tree)
    options: dict[str, Any] = {"select": (rule,)}
    known = {f.path for f in tree.check(**options).findings if "/box2/" not in (f.path or "")}
    if rule == "R321":
        options["since"] = tree.check()
    elif not case.place.endswith("*"):
        assert place_of(tree, case.place) not in known
    case.change(tree)
    findings = [f for f in tree.check(**options).findings if f.path not in known]
    assert [words for f in findings if (words := not_plain(f))] == []
    told = "\n".join(f"{f.rule} {f.severity} {f.path}:{f.line} {f.message}" for f in findings)
    wanted = place_of(tree, case.place.rstrip("*"))
    starred = case.place.endswith("*")
    here = [
        f for f in findings if f.path == wanted or (starred and (f.path or "").startswith(wanted))
    ]
    assert here, told
    assert {f.rule for f in findings} == {rule}, told
    for finding in here:
        assert finding.line is not None or not case.line, finding
        assert finding.severity == (case.severity or finding.severity)
        assert finding.message and finding.fix and finding.evidence, finding
        assert finding.evidence["formula"] and finding.evidence["confidence"]


def test_a_record_that_all_logs_of_its_kind_hold(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(origin, "_LEAST_OTHERS", 2)
    tree = _made(Change(_typed, "", REAL), lambda **_: None, tmp_path)  # type: ignore[arg-type, return-value]
    assert tree.check(select=("R320",)).findings == []
    place = tree.result("Offline").detail
    tree.set_log(place, "generated_query_duration", DELETE)
    (finding,) = tree.check(select=("R320",)).findings
    assert (finding.path, finding.required) == (tree.relative(place), "generated_query_duration")
    assert finding.message == (
        "found no record generated_query_duration; expected it, as in 2 logs of the same LoadGen, "
        "scenario and mode"
    )


def test_plain_check_leaves_the_family_out(grow: Grow) -> None:
    assert not {r.id for r in grow(**EDGE).check().rules if r.family == "audit"}


def test_missing_values_are_not_judged(grow: Grow) -> None:
    """A log without results, and with results of another kind, raises nothing."""
    tree = grow(**EDGE)
    for scenario in tree.scenarios:
        place = tree.result(scenario).detail
        keys = [json.loads(x[len(MARKER) :])["key"] for x in place.read_text().splitlines()]
        for number, key in enumerate(dict.fromkeys(keys)):
            if number % 3 == 0:
                tree.set_log(place, key, DELETE)
            elif number % 3 == 1:
                tree.set_log(place, key, ["odd", {"value": None}])
    report = tree.check(select=("R", "X"))
    assert not [f for f in report.findings if f.rule == "X001"]
