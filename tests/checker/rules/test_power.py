"""Family W: a good measurement has no finding; one thing broken gives exactly what is listed."""

from __future__ import annotations

import datetime
import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checker.rules import RULES
from checker.rules.power.records import sources_digest
from tests.checker.rules.breaking import place_of
from tests.conftest import Grow
from tests.trees import DELETE, DETAIL, GoodTree, stamp

MEASURED: dict[str, Any] = {"benchmark": "resnet", "category": "edge", "power": True}
LATER: dict[str, Any] = {**MEASURED, "round": "v6.1"}
OLDER: dict[str, Any] = {**MEASURED, "round": "v3.0"}
TOP = "Offline/performance"

Change = Callable[[GoodTree], None]
Case = tuple[Change, list[tuple[str, str]], dict[str, Any]]


def _at(tree: GoodTree, name: str, scenario: str = "Offline") -> Path:
    return tree.result(scenario).performance.parent / name


def _rehash(tree: GoodTree) -> None:
    """Record the files' checksums again, after a change that is not about them."""
    top = tree.result("Offline").performance.parent
    for which in ("client", "server"):

        def change(document: dict[str, Any]) -> None:
            for name in document["results"]:
                if (top / name).exists():
                    data = (top / name).read_bytes()
                    document["results"][name] = hashlib.sha1(data).hexdigest()

        tree.edit_json(top / f"power/{which}.json", change)


def _json(which: str, edit: Callable[[dict[str, Any]], object]) -> Change:
    def change(tree: GoodTree) -> None:
        def into(document: dict[str, Any]) -> None:
            edit(document)

        for name in ("client", "server") if which == "both" else (which,):
            tree.edit_json(_at(tree, f"power/{name}.json"), into)

    return change


def _reply(command: str, reply: str) -> Change:
    """Change what PTDaemon answered to a command, everywhere."""

    def edit(document: dict[str, Any]) -> None:
        for entry in document["ptd_messages"]:
            if entry["cmd"].startswith(command):
                entry["reply"] = reply

    return _json("server", edit)


def _samples(edit: Callable[[list[str]], list[str]], run: str = "run_1") -> Change:
    def change(tree: GoodTree) -> None:
        place = _at(tree, f"{run}/spl.txt")
        lines = edit(place.read_text().splitlines())
        place.write_text("\n".join(lines) + "\n")
        _rehash(tree)

    return change


def _watts(line: str, value: object) -> str:
    return re.sub(r"Watts,[^,]*", f"Watts,{value}", line)


def _scaled(factor: float) -> Callable[[list[str]], list[str]]:
    def edit(lines: list[str]) -> list[str]:
        made = []
        for line in lines:
            fields = line.split(",")
            for at in (3, 7):  # watts and amperes
                fields[at] = f"{float(fields[at]) * factor:.6f}"
            made.append(",".join(fields))
        return made

    return edit


def _two_channels(lines: list[str], *, first: float = 0.5, second: float = 0.5) -> list[str]:
    """Each sample with two channels that carry these shares of its watts and amperes."""
    made = []
    for line in lines:
        watts, amps = (float(line.split(",")[at]) for at in (3, 7))
        channels = "".join(
            f",Ch{number},Watts,{watts * share:.6f},Volts,230.000000,Amps,{amps * share:.6f},PF,0.980000"
            for number, share in ((1, first), (2, second))
        )
        made.append(line + channels)
    return made


def _unlike_product(lines: list[str]) -> list[str]:
    """The second channel states a power factor that its watts do not have."""
    return [line.removesuffix("0.980000") + "0.500000" for line in _two_channels(lines)]


def _remove(name: str) -> Change:
    def change(tree: GoodTree) -> None:
        tree.remove(_at(tree, name))

    return change


def _ptd_message(text: str) -> Change:
    def change(tree: GoodTree) -> None:
        begin = tree.get_log(_at(tree, f"run_1/{DETAIL}"), "power_begin")
        tree.append(_at(tree, "power/ptd_logs.txt"), f"{begin}: {text}\n")
        _rehash(tree)

    return change


def _without_check(tree: GoodTree) -> None:
    place = tree.path_of(_at(tree, "power/ptd_logs.txt"))
    kept = [line for line in place.read_text().splitlines() if "is activated" not in line]
    place.write_text("\n".join(kept) + "\n")
    _rehash(tree)


def _shift_phase(document: dict[str, Any]) -> None:
    for name in ("ranging", "testing"):
        for instant in document["phases"][name]:
            instant[0] += 7200


def _testing_early(document: dict[str, Any]) -> None:
    testing = document["phases"]["testing"]
    length = testing[2][0] - testing[1][0]
    testing[2][0] -= length / 2
    testing[2][1] -= length / 2


def _clock_off(document: dict[str, Any]) -> None:
    document["phases"]["testing"][1][0] += 1.0
    document["phases"]["testing"][1][1] += 1.0


def _backwards(document: dict[str, Any]) -> None:
    first, last = document["phases"]["ranging"][0], document["phases"]["ranging"][3]
    document["phases"]["ranging"][0], document["phases"]["ranging"][3] = last, first


def _log(key: str, value: Any, run: str = "run_1") -> Change:
    def change(tree: GoodTree) -> None:
        tree.set_log(_at(tree, f"{run}/{DETAIL}"), key, value)
        _rehash(tree)

    return change


def _shorter_ranging(tree: GoodTree) -> None:
    """The ranging run ended a minute earlier than it did."""
    end = tree.get_log(_at(tree, f"ranging/{DETAIL}"), "power_end")
    time = datetime.datetime.strptime(end, "%m-%d-%Y %H:%M:%S.%f") - datetime.timedelta(minutes=1)
    _log("power_end", stamp(time), "ranging")(tree)


def _drop(first: int, count: int) -> Callable[[list[str]], list[str]]:
    return lambda lines: lines[:first] + lines[first + count :]


def _other_day(lines: list[str]) -> list[str]:
    return [re.sub(r"Time,(\d\d)-(\d\d)-(\d{4})", r"Time,\1-\2-2001", line) for line in lines]


def _docs(tree: GoodTree) -> None:
    for path in tree.root.rglob("power_settings.md"):
        path.unlink()


def _nameplate(tree: GoodTree) -> None:
    for path in tree.root.rglob("*_power.yaml"):
        path.unlink()


SERVER = f"{TOP}/power/server.json"
CLIENT = f"{TOP}/power/client.json"
SPL = f"{TOP}/run_1/spl.txt"

BREAKS: dict[str, list[Case]] = {
    "W101": [
        (_remove("power/ptd_logs.txt"), [("W101", f"{TOP}/power/ptd_logs.txt")], MEASURED),
        (_remove("ranging/spl.txt"), [("W101", f"{TOP}/ranging/spl.txt")], MEASURED),
        (_remove("ranging"), [("W101", f"{TOP}/ranging")], MEASURED),
    ],
    "W102": [(_json("server", lambda d: d.pop("ptd_messages")), [("W102", SERVER), ("W103", SERVER)], MEASURED)],
    "W103": [
        (
            lambda tree: tree.edit_text(_at(tree, "power/server.json"), "version=1.11.1", "version=1.2.3"),
            [("W103", SERVER)], MEASURED,
        ),
    ],
    "W104": [
        (_reply("Identify", "Multimeter,1000,1,version=1.11.1-0"), [("W104", SERVER)], MEASURED),
        (_json("server", lambda d: d["ptd_config"].update(device_type=3)), [("W104", SERVER)], MEASURED),
    ],
    "W105": [(_json("server", lambda d: d.update(debug=True)), [("W105", SERVER)], MEASURED)],
    "W106": [(_json("client", _clock_off), [("W106", SERVER)], MEASURED)],
    "W107": [
        (_json("client", lambda d: d["uuid"].update(client="another")), [("W107", SERVER)], MEASURED),
        (_json("client", lambda d: d.update(session_name="another")), [("W107", SERVER)], MEASURED),
        (_json("client", lambda d: d["messages"].pop()), [("W107", SERVER)], MEASURED),
    ],
    "W108": [
        (_json("both", _testing_early), [("W108", f"{TOP}/run_1/{DETAIL}")], MEASURED),
        (
            _json("both", _shift_phase),
            [("W108", f"{TOP}/ranging/{DETAIL}"), ("W108", f"{TOP}/run_1/{DETAIL}")], MEASURED,
        ),
    ],
    "W109": [
        (lambda tree: tree.append(_at(tree, "power/client.log"), "more\n"), [("W109", f"{TOP}/power/client.log")], MEASURED),
        (
            _json("server", lambda d: d["results"].pop("run_1/spl.txt")),
            [("W109", f"{TOP}/run_1/spl.txt")], MEASURED,
        ),
    ],
    "W110": [
        (_json("both", lambda d: d.update(sources={"client.py": "2" * 40})), [("W110", SERVER)], MEASURED),
        (_json("client", lambda d: d.update(sources={"client.py": "2" * 40})), [("W110", SERVER)], MEASURED),
        (_json("client", lambda d: d.update(sources={})), [("W110", CLIENT)], MEASURED),
    ],
    "W111": [(_ptd_message("ERROR: lost the connection"), [("W111", f"{TOP}/power/ptd_logs.txt")], MEASURED)],
    "W112": [
        (_reply("Uncertainty", "Uncertainty,0.0200,0.01,0.03,10,0,10,0"), [("W112", SERVER)], MEASURED),
        (
            _ptd_message("WARNING: Uncertainty 1.31%, which is above 1.00% limit for the last sample!"),
            [("W112", f"{TOP}/power/ptd_logs.txt")], MEASURED,
        ),
        (_without_check, [("W112", f"{TOP}/power/ptd_logs.txt")], MEASURED),
    ],
    "W113": [
        (_samples(_scaled(1.2), "ranging"), [("W113", f"{TOP}/run_1/spl.txt")], MEASURED),
    ],
    "W114": [(_shorter_ranging, [("W114", f"{TOP}/run_1/{DETAIL}")], MEASURED)],
    "W115": [(_samples(lambda lines: lines[::2]), [("W115", SPL)], MEASURED)],
    "W116": [(_samples(_drop(60, 8)), [("W116", SPL)], MEASURED)],
    "W117": [
        (_samples(lambda lines: [*lines[:50], _watts(lines[50], "-1.0"), *lines[51:]]), [("W117", SPL)], MEASURED),
        (_samples(lambda lines: [*lines[:50], _watts(lines[50], "nan"), *lines[51:]]), [("W117", SPL)], MEASURED),
    ],
    "W118": [
        (
            _samples(lambda lines: [_watts(line, "-1.0") if i % 10 == 0 else line for i, line in enumerate(lines)]),
            [("W117", SPL), ("W118", SPL)], MEASURED,
        ),
    ],
    "W119": [(_samples(lambda lines: lines[:-14]), [("W119", SPL)], MEASURED)],
    "W120": [
        (_samples(_other_day), [("W120", SPL), ("W124", SPL)], MEASURED),
        (
            _log("power_begin", DELETE),
            [("P165", f"{TOP}/run_1/{DETAIL}"), ("W120", f"{TOP}/run_1/{DETAIL}"), ("W124", SPL)], MEASURED,
        ),
    ],
    "W121": [
        (_samples(lambda lines: [line.replace("PF,0.980000", "PF,0.500000") for line in lines]), [("W121", SPL)], MEASURED),
    ],
    "W122": [(_json("server", lambda d: d.update(timezone=28800)), [("W122", SERVER)], MEASURED)],
    "W123": [(_docs, [("W123", "/{division}/{submitter}/results/{system}")], MEASURED)],
    "W124": [
        (
            _samples(lambda lines: [_watts(line, "0.0") for line in lines]),
            [("W117", SPL), ("W124", SPL)], MEASURED,
        ),
    ],
    "W125": [
        (_reply("SR,V", "Error: range is not known"), [("W125", SERVER)] * 2, MEASURED),
    ],
    "W126": [(_samples(lambda lines: [line.replace("_testing", "_other") for line in lines]), [("W126", SPL)], MEASURED)],
    "W127": [
        (_samples(_scaled(1.05)), [("W127", SPL)], MEASURED),
    ],
    "W128": [(_nameplate, [("W128", "/{division}/{submitter}/systems/{system}_power.yaml")], LATER)],
    "W129": [
        (_log("qsl_name", "another", "ranging"), [("W129", f"{TOP}/ranging/{DETAIL}")], MEASURED),
    ],
    "W131": [
        (_samples(lambda lines: _two_channels(lines, first=1.25, second=-0.25)), [("W131", SPL)], MEASURED),
    ],
    "W132": [(_samples(_unlike_product), [("W132", SPL)], MEASURED)],
    "W133": [(_samples(lambda lines: _two_channels(lines, second=0.25)), [("W133", SPL)], MEASURED)],
    "W130": [(_json("both", _backwards), [("W130", CLIENT), ("W130", SERVER)] * 2, MEASURED)],
}  # fmt: skip

CASES = [
    pytest.param(rule, case, id=f"{rule}-{index}")
    for rule, cases in BREAKS.items()
    for index, case in enumerate(cases)
]


@pytest.mark.parametrize(("rule", "case"), CASES)
def test_one_thing_broken(rule: str, case: Case, grow: Grow) -> None:
    change, expected, options = case
    tree = grow(**options)
    change(tree)
    report = tree.check()
    found = sorted((f.rule, f.path or "") for f in report.findings)
    told = "\n".join(f"{f.rule} {f.severity} {f.path} {f.message}" for f in report.findings)
    assert found == sorted((r, place_of(tree, p)) for r, p in expected), told
    assert all(f.message and f.fix for f in report.findings if f.rule == rule)


def test_every_rule_is_broken_once() -> None:
    assert {r.id for r in RULES if r.family == "W"} == set(BREAKS)


@pytest.mark.parametrize("round", ["v1.0", "v1.1", "v2.1", "v3.0", "v4.1", "v5.1", "v6.0", "v6.1"])
def test_good_measurement_has_no_finding(round: str, grow: Grow) -> None:
    assert grow(**{**MEASURED, "round": round}).findings(notes=True) == []


def test_the_power_of_a_meter_with_channels_is_the_total(grow: Grow) -> None:
    """The kind of the 453 published results whose lines end in Ch1, Ch2, ...: the first Watts count."""
    one = grow(**MEASURED).check()
    tree = grow(**MEASURED)
    _samples(_two_channels)(tree)
    several = tree.check()
    assert several.findings == []
    assert one.results[0].power is not None
    assert [r.power for r in several.results] == [r.power for r in one.results]


@pytest.mark.parametrize("scenario", ["Offline", "SingleStream"])
def test_v1_0_has_a_power_figure(scenario: str, grow: Grow) -> None:
    """W in Offline; in SingleStream J per sample, watts over the rate that LoadGen logged."""
    tree = grow(**{**MEASURED, "round": "v1.0"})
    report = tree.check()
    result = next(r for r in report.results if r.scenario == scenario)
    if scenario == "SingleStream" and result.power is None:
        pytest.skip("the good tree measures power in Offline alone")
    assert result.power is not None
    assert result.power.unit == ("W" if scenario == "Offline" else "J/sample")
    if scenario == "Offline":
        assert result.power.value == pytest.approx(515.0, abs=0.2)
    else:
        rate = tree.get_log(tree.result(scenario).detail, "result_qps_with_loadgen_overhead")
        assert result.power.value == pytest.approx(515.0 / rate, rel=1e-3)


def test_no_power_no_rule(grow: Grow) -> None:
    """A result without a measurement is judged by no power rule that needs one."""
    tree = grow(benchmark="resnet", category="edge")
    assert tree.findings(select=("W",), notes=True) == []


def test_rounds_that_checked_on_request_warn(grow: Grow) -> None:
    tree = grow(**OLDER)
    _samples(lambda lines: lines[::2])(tree)
    assert {(f.rule, f.severity) for f in tree.check().findings} == {("W115", "warning")}


def test_case_21_durations_warn_and_power_fails(grow: Grow) -> None:
    """Systems throttle: another duration is a warning with both numbers, less power an error."""
    tree = grow(**MEASURED)
    _shorter_ranging(tree)
    report = tree.check()
    assert [(f.rule, f.severity) for f in report.findings] == [("W114", "warning")]
    assert re.search(
        r"found a run of [\d.]+ s; expected [\d.]+ s within 5%", report.findings[0].message
    )


def test_case_22_usb_is_accepted(grow: Grow) -> None:
    tree = grow(**MEASURED)
    _ptd_message("ERROR: USB.")(tree)
    assert tree.findings(notes=True) == []


def test_case_23_unknown_sources_warn_with_their_checksum(grow: Grow) -> None:
    tree = grow(**MEASURED)
    _json("both", lambda d: d.update(sources={"client.py": "2" * 40}))(tree)
    (finding,) = tree.check().findings
    assert (finding.rule, finding.severity) == ("W110", "warning")
    assert finding.found == sources_digest({"client.py": "2" * 40})
    assert str(finding.found) in finding.message


def test_case_104_no_sample_in_the_window(grow: Grow) -> None:
    tree = grow(**MEASURED)
    _samples(_other_day)(tree)
    report = tree.check()
    assert ("W120", "error") in {(f.rule, f.severity) for f in report.findings}
    assert next(r for r in report.results if r.scenario == "Offline").power is None


def test_case_124_time_zones(grow: Grow) -> None:
    """One hour of summer time is tolerated; a zone's shift says how far away the samples are."""
    tree = grow(**MEASURED)

    def later(document: dict[str, Any]) -> None:
        for name in ("ranging", "testing"):
            for instant in document["phases"][name]:
                instant[0] += 3600

    _json("both", later)(tree)
    assert tree.findings(select=("W108",)) == []
    tree = grow(**MEASURED)

    def shifted(lines: list[str]) -> list[str]:
        return [re.sub(r" (\d\d):", lambda m: f" {(int(m[1]) + 8) % 24:02d}:", x) for x in lines]

    _samples(shifted)(tree)
    (finding,) = tree.check(select=("W120",)).findings
    assert "time zone" in finding.message


def test_case_125_blank_lines_are_no_samples(grow: Grow) -> None:
    tree = grow(**MEASURED)
    _samples(lambda lines: [*lines, "", "   "])(tree)
    assert tree.findings(notes=True) == []


def test_case_129_slow_sampling(grow: Grow) -> None:
    tree = grow(**MEASURED)
    _samples(lambda lines: lines[::3])(tree)
    assert ("W115", "error") in {(f.rule, f.severity) for f in tree.check().findings}


def test_case_130_nameplate_only_where_the_round_has_it(grow: Grow) -> None:
    tree = grow(**MEASURED)
    assert tree.findings(select=("W128",)) == []


def test_line_ends_are_a_note(grow: Grow) -> None:
    """Files whose line ends were converted after the measurement are the same text."""
    tree = grow(**MEASURED)
    place = _at(tree, "power/client.log")
    data = place.read_bytes()
    place.write_bytes(data.replace(b"\n", b"\r\n"))
    _rehash(tree)
    place.write_bytes(data)
    assert [(f.rule, f.severity) for f in tree.check().findings] == [("W109", "note")]


ODD: list[Any] = [
    None,
    "",
    [],
    {},
    -1,
    "text",
    1e308,
    [[1]],
    {"testing": [[None]]},
    {"testing": "x"},
]


@pytest.mark.parametrize("key", ["phases", "messages", "ptd_messages", "uuid", "results", "sources",
                                 "timezone", "ptd_config", "session_name"])  # fmt: skip
def test_no_value_ends_a_rule(key: str, grow: Grow) -> None:
    tree = grow(**{**MEASURED, "scenarios": ["Offline"]})
    for value in ODD:
        for which in ("client", "server"):
            tree.edit_json(_at(tree, f"power/{which}.json"), lambda d, v=value: {**d, key: v})
        assert "X001" not in {f.rule for f in tree.check(select=("W", "X")).findings}, value


@pytest.mark.corpus
@pytest.mark.parametrize("round", ["v2.1", "v3.0", "v4.1"])
def test_published_measurements_have_no_error(round: str) -> None:
    from checker.engine import Options, check

    corpus = os.environ.get("ASSAY_CORPUS")
    if not corpus or not Path(corpus, round).is_dir():
        pytest.skip(f"ASSAY_CORPUS names no folder with a tree {round}")
    report = check(Path(corpus, round), Options(round=round, select=("W",), jobs=1))
    assert [f.message for f in report.findings if f.severity == "error"] == []
    assert sum(r.power is not None for r in report.results) > 3
