"""The plain text logs of v0.5 and v0.7 come out as today's records."""

from __future__ import annotations

import datetime
import re

import pytest

from checker.parse.detail_file import read_detail
from checker.parse.detail_text import canonical_mode, canonical_scenario, plain_value
from checker.parse.summary import into_detail, read_summary
from schemas.load import load_round
from tests.checker.parse.conftest import MakeFile
from tests.trees import Log, Setup, make_log

SCENARIOS = ["SingleStream", "MultiStream", "Server", "Offline"]


def log_of(scenario: str, kind: str = "performance") -> Log:
    round = load_round("v0.7")
    about = round.benchmarks["resnet"]
    start = datetime.datetime(2020, 9, 1)
    return make_log(Setup(round, about, "resnet", scenario, about.scenarios[scenario], kind, start))


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("kind", ["performance", "accuracy"])
def test_text_says_what_the_records_say(scenario: str, kind: str, as_file: MakeFile) -> None:
    made = log_of(scenario, kind)
    new = read_detail(as_file(made.detail(), "new"))
    old = read_detail(as_file(made.text(), "old"))
    assert old.format == "text" and old.faults == []
    for key in old.entries:
        if key == "generic_message":
            continue
        assert [e.value for e in old.all(key)] == [e.value for e in new.all(key)], key
    lacking = {
        key
        for key in new.entries
        if key not in old and not key.startswith(("result_", "early_", "num_"))
    }
    assert lacking == set()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_results_come_from_the_summary(scenario: str, as_file: MakeFile) -> None:
    made = log_of(scenario)
    new = read_detail(as_file(made.detail(), "new"))
    old = read_detail(as_file(made.text(), "old"))
    summary = read_summary(as_file(made.summary(text=True), "summary"))
    into_detail(summary, old)
    assert old.text("result_validity") == "VALID"
    compared = 0
    for key in new.entries:
        if key.startswith("result_") and key in old:
            a, b = old.get(key), new.get(key)
            assert a == b or abs(float(a) - float(b)) <= 0.0051, key
            compared += 1
    assert compared >= 12
    key = load_round("v0.7").benchmarks["resnet"].scenarios[scenario].metric.key
    assert old.number(key) is not None


def test_records_that_span_lines(as_file: MakeFile) -> None:
    head = '"pid": 1, "tid": 2, "ts": 5000000ns : '
    text = "\n".join(
        [
            head + "LoadgenVersionInfo:",
            head + "git_log :",
            "",
            "0" * 40 + " A commit",
            "",
            head + "git_status :",
            "",
            " M loadgen.cc",
            "",
            head + "SHA1 of files :",
            "",
            "a" * 40 + " /loadgen.cc",
            "b" * 40 + " /logging.cc",
            "",
            head + "Date + time of test: 2020-09-18T13:28:05Z",
        ]
    )
    log = read_detail(as_file(text + "\n"))
    assert log.faults == []
    assert log.get("loadgen_file_sha1") == {"/loadgen.cc": "a" * 40, "/logging.cc": "b" * 40}
    assert "loadgen.cc" in log.get("loadgen_git_status_message")
    assert log.get("test_datetime") == "2020-09-18T13:28:05Z"
    entry = log.entry("test_datetime")
    assert entry is not None and (entry.pid, entry.tid, entry.time_ms, entry.line) == (
        1,
        2,
        5.0,
        15,
    )


def test_errors_in_text_logs(as_file: MakeFile) -> None:
    head = '"pid": 1, "tid": 2, "ts": 5ns : '
    log = read_detail(
        as_file(f"{head}ERROR: no answer\n{head}WARNING: slow\n{head}Found Audit Config file\n")
    )
    assert [(e.value, e.line) for e in log.errors] == [("no answer", 1)]
    assert [e.value for e in log.all("warning_generic_message")] == [
        "slow",
        "Found Audit Config file",
    ]


def test_cut_off_text_log(as_file: MakeFile) -> None:
    log = read_detail(as_file('"pid": 1, "tid": 2, "ts": 5ns : version : .5a1\n"pid": 1, "ti'))
    assert [f.line for f in log.faults] == [2]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("False", False),
        ("12", 12),
        ("-3", -3),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("x", "x"),
        ("", ""),
    ],
)
def test_plain_values(text: str, value: object) -> None:
    found = plain_value(text)
    assert found == value and type(found) is type(value)


def test_names() -> None:
    assert canonical_scenario("Single Stream") == "SingleStream"
    assert canonical_scenario("MultiStream") == "MultiStream"
    assert canonical_mode("Performance") == "PerformanceOnly"
    assert canonical_mode("AccuracyOnly") == "AccuracyOnly"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (r"(target_qps : \d)", r"\1,", "as the value of effective_target_qps"),
        (r"ns : (min_duration)", r"ns : \n\1", "is not a record: 'min_duration (ms)"),
    ],
)
def test_a_setting_that_is_no_value_is_a_fault(
    old: str, new: str, message: str, as_file: MakeFile
) -> None:
    """A decimal comma, and a line that an editor wrapped."""
    text = log_of("Server").text()
    at = text.index("Effective Settings")
    broken = text[:at] + re.sub(old, new, text[at:], count=1)
    (fault,) = read_detail(as_file(broken, "broken")).faults
    assert message in fault.message


def test_another_program_s_output_in_a_loaded_set(as_file: MakeFile) -> None:
    """After the settings no line continues the one above, and a set is whole."""
    text = log_of("Offline").text()
    broken, count = re.subn(r'("set" : "?\[\d+,\d)', r"\1Killed\n", text, count=1)
    assert count == 1
    line = broken[: broken.index("Killed")].count("\n") + 1
    first, second = read_detail(as_file(broken, "broken")).faults
    assert first.message == f"line {line} holds no whole list of samples"
    assert second.message.startswith(f"line {line + 1} is not a record: ")
