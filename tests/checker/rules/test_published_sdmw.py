"""Published and reported cases of the tree, descriptions, measurements and power: one test each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import Grow
from tests.trees import GoodTree

RGAT: dict[str, Any] = {"benchmark": "rgat", "category": "datacenter"}
MEASURED: dict[str, Any] = {"benchmark": "resnet", "category": "edge", "power": True}


def _describe(tree: GoodTree, **fields: Any) -> None:
    place = tree.path_of(tree.system_path)
    place.write_text(json.dumps({**json.loads(place.read_text()), **fields}))


def _found(tree: GoodTree, rule: str, *, audit: bool = False) -> list[tuple[str, int]]:
    findings = tree.check(audit=audit).findings
    return [(f.severity, f.count) for f in findings if f.rule == rule]


@pytest.mark.parametrize(("value", "severity"), [(" ", "warning"), ("", "error")])
def test_d104_a_blank_warns_and_an_empty_field_is_an_error(
    value: str, severity: str, grow: Grow
) -> None:
    tree = grow(**RGAT)
    _describe(tree, host_networking_topology=value)
    assert _found(tree, "D104") == [(severity, 1)]


def test_d104_empty_framework_and_status_of_rounds_that_did_not_look(grow: Grow) -> None:
    tree = grow(**MEASURED, round="v3.0")
    _describe(tree, framework="", status="")
    assert _found(tree, "D104") == [("note", 1), ("note", 1)]


@pytest.mark.parametrize(
    ("configuration", "capacity", "findings"),
    [
        ("17 x 128GB DDR5, 7 x 128GB DDR5", "3.0 TB", []),
        ("17 x 128GB DDR5, 7 x 128GB DDR5", "1.0 TB", [("note", 1)]),
    ],
)
def test_d114_adds_up_all_modules(
    configuration: str, capacity: str, findings: list[tuple[str, int]], grow: Grow
) -> None:
    tree = grow(**RGAT)
    _describe(tree, host_memory_configuration=configuration, host_memory_capacity=capacity)
    assert _found(tree, "D114") == findings


@pytest.mark.parametrize(
    ("written", "findings"),
    [
        ("nvfp4 (E2M1 with block scales)", []),
        ("FP8 (KV cache)", []),
        ("unset", [("note", 1)]),
    ],
)
def test_m107_knows_real_types(written: str, findings: list[tuple[str, int]], grow: Grow) -> None:
    tree = grow(**RGAT)
    place = tree.measurements("Offline")
    place.write_text(json.dumps({**json.loads(place.read_text()), "weight_data_types": written}))
    assert _found(tree, "M107") == findings


@pytest.mark.parametrize(
    ("round", "severity"), [("v5.1", "warning"), ("v6.0", "warning"), ("v6.1", "error")]
)
@pytest.mark.parametrize("text", ["Same as the one at ../Server/user.conf\n", "TODO\n"])
def test_m110_text_that_refers_elsewhere(text: str, round: str, severity: str, grow: Grow) -> None:
    tree = grow(**RGAT, round=round)
    tree.write(tree.measurements("Offline").parent / "user.conf", text)
    assert _found(tree, "M110") == [(severity, 1)]


def test_m114_a_guessed_rate_is_for_the_audit(grow: Grow) -> None:
    tree = grow(**RGAT)
    place = tree.measurements("Offline").parent / "user.conf"
    asked = next(
        float(line.split("=")[1]) for line in place.read_text().splitlines() if "target_qps" in line
    )
    place.write_text(f"*.Offline.target_qps = {asked * 1.2}\n")
    assert _found(tree, "M114") == []
    assert _found(tree, "M114", audit=True) == [("note", 1)]


def test_m113_one_finding_a_file(grow: Grow) -> None:
    tree = grow(**RGAT)
    keys = ("performance_issue_unique", "performance_issue_same", "mode")
    lines = [f"*.Offline.{key} = 1\n" for key in keys]
    tree.append(tree.measurements("Offline").parent / "user.conf", "".join(lines))
    assert _found(tree, "M113") == [("warning", 3)]


def test_s122_a_submitter_with_a_blank_warns(grow: Grow) -> None:
    tree = grow(**RGAT, submitter="Orrick Industries")
    assert _found(tree, "S122") == [("warning", 1)]


def test_near_miss_of_a_description_is_one_finding_that_names_both(grow: Grow) -> None:
    tree = grow(**RGAT, system="box-1_gpu")
    place = tree.path_of(tree.system_path)
    place.rename(place.with_name("box_1_gpu.json"))
    report = tree.check(select=("S", "D"))
    (finding,) = report.findings
    assert (finding.rule, finding.severity) == ("D101", "error")
    assert "box_1_gpu.json" in finding.message and "box-1_gpu.json" in finding.message
    assert finding.fix == (
        "git mv closed/Acme/systems/box_1_gpu.json closed/Acme/systems/box-1_gpu.json"
    )
    assert finding.invalidates


def test_a_leftover_description_is_one_finding(grow: Grow) -> None:
    tree = grow(**RGAT)
    for name in ("old1", "old2"):
        text = json.loads(tree.path_of(tree.system_path).read_text())
        tree.write(f"closed/Acme/systems/{name}.json", json.dumps({**text, "division": "open"}))
    assert [(f.rule, f.severity, f.count) for f in tree.check(select=("S", "D")).findings] == [
        ("S106", "warning", 2)
    ]


def test_s126_a_file_of_51_mb_is_noted_in_rounds_without_a_limit(grow: Grow) -> None:
    import os

    for round, severity in (("v2.1", "note"), ("v3.0", "error")):
        tree = grow(**MEASURED, round=round)
        os.truncate(tree.write("closed/Acme/code/weights.bin", "x"), 53_500_000)
        assert _found(tree, "S126") == [(severity, 1)]


def test_a_file_in_a_results_folder_names_the_result(grow: Grow) -> None:
    tree = grow(**RGAT)
    tree.path_of("closed/Acme/results/box1/rgat/Offline/accuracy/empty").mkdir()
    (finding,) = tree.check(select=("S125",)).findings
    assert finding.results == ("closed/Acme/box1/rgat/Offline",)


@pytest.mark.parametrize("name", ["power/server.json", "power/client.log", "power/ptd_logs.txt"])
@pytest.mark.parametrize("round", ["v1.0", "v2.1", "v3.0"])
def test_w101_old_rounds_refuse_a_measurement_without_records(
    name: str, round: str, grow: Grow
) -> None:
    tree = grow(**MEASURED, round=round)
    tree.remove(tree.result("Offline").performance.parent / name)
    assert _found(tree, "W101") == [("error", 1)]
