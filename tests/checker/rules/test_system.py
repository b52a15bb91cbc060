"""Family D: a good tree has no finding; one thing broken gives exactly what is listed here."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from checker.rules.system.hardware import counts_in_name
from tests.checker.rules.breaking import Break, broken, run_break
from tests.conftest import Grow
from tests.trees import GoodTree, good_tree

RGAT: dict[str, Any] = {"benchmark": "rgat", "category": "datacenter"}
EDGE: dict[str, Any] = {"benchmark": "whisper", "category": "edge"}
POWER: dict[str, Any] = {**EDGE, "power": True}
NEWEST: dict[str, Any] = {
    "round": "v6.1",
    "benchmark": "whisper",
    "category": "edge",
    "power": True,
}
PLACE = "/closed/Acme/systems/box1.json"
LARGE = "x" * 10_000_000

_DELETE = object()


def _set(**fields: Any) -> Callable[[GoodTree], None]:
    """Change fields of the description; ``__`` in a name stands for -."""

    def change(tree: GoodTree) -> None:
        def edit(value: Any) -> None:
            for key, new in fields.items():
                name = key.replace("__", "-")
                if new is _DELETE:
                    del value[name]
                else:
                    value[name] = new

        tree.edit_json(tree.system_path, edit)

    return change


def _text(content: str) -> Callable[[GoodTree], Any]:
    return lambda tree: tree.write(tree.system_path, content)


def _copy(tree: GoodTree) -> None:
    fields = json.loads(tree.path_of(tree.system_path).read_text())
    fields["accelerators_per_node"] = "2"
    tree.write("closed/Acme/results/box1/box1.json", json.dumps(fields))


def _without_power_fields(tree: GoodTree) -> None:
    _set(power_management=_DELETE)(tree)


def _spelled_twice(tree: GoodTree) -> None:
    good_tree(tree.root.parent, **RGAT, system="box2", into=tree)
    spellings = {"box1": "NVIDIA H200-SXM-141GB", "box2": "Nvidia H200 SXM 141 GB"}
    for name, spelling in spellings.items():
        path = tree.path_of(f"{tree.base}/systems/{name}.json")
        fields = json.loads(path.read_text())
        path.write_text(json.dumps({**fields, "accelerator_model_name": spelling}))


BREAKS: dict[str, list[Break]] = {
    "D101": [
        Break(
            lambda t: t.path_of(t.system_path).rename(t.path_of(f"{t.base}/systems/box2.json")),
            [("D101", PLACE), ("S106", "/closed/Acme/systems/box2.json")],
            RGAT,
        ),
    ],
    "D102": [
        Break(_text("[]"), [("D102", PLACE)], RGAT),
        Break(_text("null"), [("D102", PLACE)], RGAT),
    ],
    "D103": [
        Break(_set(cooling=_DELETE), [("D103", PLACE)], RGAT),
        Break(_set(submitter=_DELETE, sumitter="Acme"), [("D103", PLACE)], RGAT),
        Break(
            _set(host_network_card_count=_DELETE, host_networking_card_count="1x 25GbE"),
            [("D103", PLACE)],
            RGAT,
        ),
    ],
    "D104": [
        Break(_set(cooling=""), [("D104", PLACE)], RGAT),
        Break(_set(framework=None), [("D104", PLACE)], RGAT),
        Break(_set(framework=[]), [("D104", PLACE)], RGAT),
    ],
    "D105": [Break(_set(cooling="TBD"), [("D105", PLACE)], RGAT)],
    "D106": [
        Break(_set(division="open"), [("D106", PLACE)], RGAT),
        Break(_set(division=-1), [("D106", PLACE)], RGAT),
    ],
    "D107": [Break(_set(submitter="Acne"), [("D107", PLACE)], RGAT)],
    "D108": [
        Break(_set(status="availible"), [("D108", PLACE)], RGAT),
        Break(_set(status="available "), [("D108", PLACE)], RGAT),
    ],
    "D109": [
        Break(_set(system_type="Datacenter"), [("D109", PLACE)], RGAT),
        Break(_set(system_type="data center"), [("D109", PLACE)], RGAT),
    ],
    "D110": [
        Break(_set(accelerators_per_node="N/A"), [("D110", PLACE)], RGAT),
        Break(_set(number_of_nodes="1 (virtual)"), [("D110", PLACE)], RGAT),
    ],
    "D111": [
        Break(_set(accelerators_per_node=4000), [("D111", PLACE)], RGAT),
        Break(_set(number_of_nodes="-1"), [("D111", PLACE)], RGAT),
    ],
    "D112": [
        Break(
            _set(accelerators_per_node=4),
            [("D112", "/closed/Acme/systems/A1x8.json")],
            {**RGAT, "system": "A1x8"},
        ),
        # The processors' count does not speak for the accelerators'.
        Break(
            _set(accelerators_per_node=4, accelerator_model_name="NVIDIA L40S"),
            [("D112", "/closed/Acme/systems/8xL40S_2xCPU.json")],
            {**RGAT, "system": "8xL40S_2xCPU"},
        ),
    ],
    "D113": [
        Break(_set(accelerators_per_node="0"), [("D113", PLACE)], RGAT),
        Break(_set(accelerator_model_name="N/A"), [("D113", PLACE)], RGAT),
    ],
    "D114": [Break(_set(host_memory_capacity="512 GB"), [("D114", PLACE)], RGAT, notes=True)],
    "D115": [Break(_set(hw_notes="ECC off"), [("D115", PLACE)], RGAT)],
    "D123": [
        Break(_set(accelerator_model_name="NVIDIA GB20O"), [("D123", PLACE)], RGAT, notes=True)
    ],
    "D122": [Break(_spelled_twice, [("D122", PLACE)], RGAT, notes=True)],
    "D116": [Break(_set(host_networking="N/A"), [("D116", PLACE)], RGAT, notes=True)],
    "D117": [
        Break(_set(my_field="x"), [("D117", PLACE)], RGAT, notes=True),
        Break(_set(sumitter="Acme"), [("D117", PLACE)], RGAT),
    ],
    "D118": [Break(_set(framework="PyTorch"), [("D118", PLACE)], RGAT, notes=True)],
    "D119": [
        Break(_set(hw_notes=None), [("D119", PLACE)], RGAT),
        Break(_set(hw_notes=[]), [("D119", PLACE)], RGAT),
        Break(_set(hw_notes=LARGE), [("D119", PLACE)], RGAT),
        Break(_set(other_software_stack={"python": "3.12"}), [("D119", PLACE)], RGAT, notes=True),
    ],
    "D120": [Break(_copy, [("D120", "/closed/Acme/results/box1/box1.json")], RGAT)],
    "D121": [Break(_without_power_fields, [("D121", PLACE)], POWER, notes=True)],
}


@pytest.mark.parametrize(("rule", "case"), broken(BREAKS))
def test_break(rule: str, case: Break, grow: Grow) -> None:
    run_break(rule, case, grow)


@pytest.mark.parametrize("options", [RGAT, EDGE, POWER, NEWEST])
def test_good(options: dict[str, Any], grow: Grow) -> None:
    assert grow(**options).findings(notes=True, select=("D",)) == []


def _findings(tree: GoodTree, rule: str) -> list[tuple[str, str]]:
    return [(f.severity, f.message) for f in tree.check().findings if f.rule == rule]


def _valid(tree: GoodTree) -> bool:
    return all(row.status == "valid" for row in tree.check().results)


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("8xMI300X_2xEPYC-9374F", [8, 2]),
        ("H200-SXM-141GBx8_TRT", [8]),
        ("GB200-NVL72_GB200-186GB_aarch64x72_TRT", [72]),
        ("h100_x8", [8]),
        ("box9", []),
        ("linux2", []),
        ("node_x86", []),
        ("amd_x86_64", []),
        ("IBM_Cloud_gx3-48x240x2l40s_vLLM", []),
        ("xd670_h200_x16_vllm_092", [16]),
    ],
)
def test_counts_in_name(name: str, counts: list[int]) -> None:
    assert [named.number for named in counts_in_name(name)] == counts


MUTANTS: dict[str, Any] = {
    "null": None, "empty": "", "list": [], "object": {}, "negative": -1, "infinite": float("inf"),
    "formula": "=1+1", "large": LARGE, "deleted": _DELETE,
}  # fmt: skip
_SILENT = {
    ("empty", False),
    ("negative", False),
    ("negative", True),
    ("formula", False),
    ("formula", True),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_every_field_spoiled(mutant: str, grow: Grow) -> None:
    """Every field of the description, each spoiled alone: no crash, and no silence where the
    round asks for something."""
    tree = grow(round="demo", benchmark="digits", category="datacenter")
    place = tree.path_of(tree.system_path)
    whole = place.read_text()
    description = tree.round.system_description
    checked = {"division", "submitter", "status", "system_type", *description.numeric}
    for key in json.loads(whole):
        tree.write(tree.system_path, whole)
        _set(**{key.replace("-", "__"): MUTANTS[mutant]})(tree)
        report = tree.check(select=("D", "S", "X"))
        rules = [f.rule for f in report.findings]
        assert "X001" not in rules, (key, rules)
        if (mutant, key in description.non_empty) not in _SILENT or key in checked:
            assert any(rule[0] == "D" for rule in rules), (key, mutant, rules)
        if mutant == "deleted" or (mutant == "empty" and key in description.non_empty):
            assert not all(row.status == "valid" for row in report.results), key


def test_case_010_other_name_of_a_field(grow: Grow) -> None:
    tree = grow(**RGAT)
    _set(host_network_card_count=_DELETE, host_networking_card_count="1x 25GbE")(tree)
    ((severity, message),) = _findings(tree, "D103")
    assert severity == "warning"
    assert "but host_networking_card_count in its place" in message
    assert _valid(tree)


def test_case_011_vcpu_count(grow: Grow) -> None:
    tree = grow(**RGAT)
    _set(host_processor_core_count=_DELETE, host_processor_vcpu_count="96")(tree)
    assert [severity for severity, _ in _findings(tree, "D103")] == ["warning"]
    assert _valid(tree)
    both = grow(**RGAT)
    _set(host_processor_vcpu_count="96")(both)
    assert both.findings(notes=True, select=("D",)) == []


@pytest.mark.parametrize("written", ["datacenter, edge", "Datacenter,edge", "EDGE,datacenter"])
def test_case_017_system_type_spelled_otherwise(written: str, grow: Grow) -> None:
    tree = grow(benchmark="whisper", category="datacenter,edge")
    _set(system_type=written)(tree)
    assert [f[0] for f in tree.findings()] == ["D109"]
    assert _findings(tree, "D109")[0][0] == "warning"
    assert tree.check().results[0].category == "datacenter,edge"


def test_case_033_description_without_results_is_judged_mildly(grow: Grow) -> None:
    tree = grow(**RGAT)
    tree.write("closed/Acme/systems/other.json", '{"division": "open"}')
    report = tree.check(select=("D",))
    assert {f.severity for f in report.findings if f.path.endswith("other.json")} == {"warning"}


def test_case_043_description_missing(grow: Grow) -> None:
    tree = grow(**RGAT)
    good_tree(tree.root.parent, **RGAT, system="box2", into=tree)
    tree.remove(tree.system_path)
    report = tree.check()
    assert [(f.rule, f.severity) for f in report.findings] == [("D101", "error")]
    assert {row.system: row.status for row in report.results} == {
        "box1": "invalid",
        "box2": "valid",
    }


def test_case_046_byte_order_mark_and_broken_json(grow: Grow) -> None:
    tree = grow(**RGAT)
    text = tree.path_of(tree.system_path).read_text()
    _text("\ufeff" + text)(tree)
    assert tree.findings() == []
    _text(text[:-10])(tree)
    assert tree.findings() == [("X002", PLACE[1:])]
    assert not _valid(tree)


@pytest.mark.parametrize(
    ("field", "value"),
    [("accelerators_per_node", "N/A"), ("accelerators_per_node", "-"),
     ("number_of_nodes", "1 (virtual)"), ("host_processors_per_node", "2 (big); 4 (LITTLE)")],
)  # fmt: skip
def test_case_047_count_with_words(field: str, value: str, grow: Grow) -> None:
    tree = grow(**RGAT)
    _set(**{field: value})(tree)
    assert tree.findings() == [("D110", PLACE[1:])]
    assert _valid(tree)


def test_case_047_no_accelerators(grow: Grow) -> None:
    for none in (0, "0"):
        tree = grow(**RGAT)
        _set(accelerators_per_node=none, accelerator_model_name="N/A")(tree)
        assert tree.findings(notes=True) == []


def test_case_069_words_in_a_count_are_a_finding(grow: Grow) -> None:
    tree = grow(**RGAT)
    _set(number_of_nodes="one")(tree)
    assert _findings(tree, "D110") == [
        ("warning", 'found "one" in number_of_nodes; expected a whole number')
    ]


def test_case_105_misspelt_key(grow: Grow) -> None:
    tree = grow(**RGAT)
    _set(submitter=_DELETE, sumitter="Acme")(tree)
    ((severity, message),) = _findings(tree, "D103")
    assert severity == "error"
    assert "did you mean sumitter?" in message


def test_case_105_count_in_the_name(grow: Grow) -> None:
    tree = grow(**RGAT, system="8xA1")
    assert [f[0] for f in tree.findings()] == ["D112"]
    _set(accelerators_per_node=8)(tree)
    assert tree.findings() == []
