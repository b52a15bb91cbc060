"""Family N: a good tree has no finding; one thing broken gives exactly what is listed here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.checker.rules.breaking import Break, broken, run_break
from tests.conftest import Grow
from tests.trees import DELETE, GoodTree

NETWORK: dict[str, Any] = {
    "benchmark": "rgat", "category": "datacenter", "division": "network", "network": True,
}  # fmt: skip
CLOSED: dict[str, Any] = {"benchmark": "rgat", "category": "datacenter"}
PLACE = "/network/Acme/systems/box1.json"


def _set(**fields: Any) -> Callable[[GoodTree], None]:
    def change(tree: GoodTree) -> None:
        def edit(value: Any) -> None:
            for key, new in fields.items():
                if new is DELETE:
                    value.pop(key, None)
                else:
                    value[key] = new

        tree.edit_json(tree.system_path, edit)

    return change


def _log(key: str, value: Any) -> Callable[[GoodTree], None]:
    return lambda tree: tree.set_log(tree.result("Offline").detail, key, value)


def _other_name(tree: GoodTree) -> None:
    place = tree.result("Offline")
    tree.set_log(place.accuracy_detail, "sut_name", "Acme")


BREAKS: dict[str, list[Break]] = {
    "N101": [
        Break(_set(is_network=False), [("N101", PLACE)], NETWORK),
        Break(_set(is_network="maybe"), [("N101", PLACE)], NETWORK),
        Break(_set(is_network=DELETE), [("N101", PLACE)], NETWORK),
        Break(
            _set(is_network="yes"),
            [("N101", "/closed/Acme/systems/box1.json")]
            + [("N102", "/closed/Acme/systems/box1.json")] * 12,
            CLOSED,
        ),
    ],
    "N102": [
        Break(_set(nic_sut=DELETE), [("N102", PLACE)], NETWORK),
        Break(_set(nic_sut=""), [("N102", PLACE)], NETWORK),
    ],
    "N103": [
        Break(
            lambda t: None,
            [("N103", PLACE)],
            {**NETWORK, "benchmark": "whisper", "category": "datacenter,edge"},
        )
    ],
    "N104": [
        Break(_set(network_type="wire"), [("N104", PLACE)], NETWORK),
        Break(_set(network_type=["wire"]), [("N104", PLACE)], NETWORK),
    ],
    "N105": [Break(_other_name, [("N105", "Offline/accuracy/detail")], NETWORK)],
    "N106": [
        Break(
            _log("get_sut_name_duration_ns", 300), [("N106", "Offline/detail")], NETWORK, notes=True
        )
    ],
    "N107": [
        Break(
            lambda t: t.remove("network/Acme/src/qdl"),
            [("N107", "/network/Acme")],
            NETWORK,
            notes=True,
        ),
        Break(
            lambda t: t.remove("network/Acme/src/qdl/network.svg"),
            [("N107", "/network/Acme")],
            NETWORK,
            notes=True,
        ),
    ],
}


@pytest.mark.parametrize(("rule", "case"), broken(BREAKS))
def test_break(rule: str, case: Break, grow: Grow) -> None:
    run_break(rule, case, grow)


def test_good(grow: Grow) -> None:
    tree = grow(**NETWORK)
    assert tree.findings(notes=True) == []


@pytest.mark.parametrize("written", ["false", "False", "no", "", False, None])
def test_case_019_and_020_not_a_network(written: Any, grow: Grow) -> None:
    tree = grow(**CLOSED)
    _set(is_network=written)(tree)
    assert tree.findings() == []


@pytest.mark.parametrize("written", ["true", "True", "yes", True])
def test_case_020_a_network(written: Any, grow: Grow) -> None:
    tree = grow(**NETWORK)
    _set(is_network=written)(tree)
    assert tree.findings() == []


def test_network_results_are_invalid_without_the_claim(grow: Grow) -> None:
    tree = grow(**NETWORK)
    _set(is_network=False)(tree)
    assert [row.status for row in tree.check().results] == ["invalid"]


def test_rounds_before_the_network_division(grow: Grow) -> None:
    tree = grow(round="v2.0", benchmark="resnet", category="edge")
    _set(is_network=True)(tree)
    assert tree.findings(select=("N",)) == []
