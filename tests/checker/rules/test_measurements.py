"""Family M: a good tree has no finding; one thing broken gives exactly what is listed here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.checker.rules.breaking import Break, broken, run_break
from tests.conftest import Grow
from tests.trees import DELETE, GoodTree

RGAT: dict[str, Any] = {"benchmark": "rgat", "category": "datacenter"}
OLD: dict[str, Any] = {"round": "v5.1", "benchmark": "rgat", "category": "datacenter"}
FIRST: dict[str, Any] = {
    "round": "v1.0",
    "benchmark": "resnet",
    "category": "datacenter",
    "scenarios": ["Offline", "Server"],
}
DEMO: dict[str, Any] = {"round": "demo", "benchmark": "digits", "category": "datacenter"}
DOCUMENT = "Offline/measurements.json"
CONF = "Offline/user.conf"
OLD_FOLDER = "/closed/Acme/measurements/box1/rgat/Offline"
LARGE = "x" * 10_000_000


def _set(key: str, value: Any) -> Callable[[GoodTree], None]:
    def change(tree: GoodTree) -> None:
        def edit(fields: Any) -> None:
            if value is DELETE:
                del fields[key]
            else:
                fields[key] = value

        tree.edit_json(tree.measurements("Offline"), edit)

    return change


def _file(name: str, content: str | None) -> Callable[[GoodTree], None]:
    """Write a file beside the Offline measurements, or with None remove it."""

    def change(tree: GoodTree) -> None:
        place = tree.result("Offline").measurements / name
        if content is None:
            tree.remove(place)
        else:
            tree.write(place, content)

    return change


def _conf(line: str) -> Callable[[GoodTree], None]:
    return lambda tree: tree.append(tree.result("Offline").measurements / "user.conf", f"{line}\n")


def _whole_conf(line: str) -> Callable[[GoodTree], None]:
    return lambda tree: tree.write(tree.result("Offline").measurements / "user.conf", f"{line}\n")


def _text(content: str) -> Callable[[GoodTree], Any]:
    return lambda tree: tree.write(tree.measurements("Offline"), content)


def _rename_key(old: str, new: str) -> Callable[[GoodTree], None]:
    def change(tree: GoodTree) -> None:
        tree.edit_json(tree.measurements("Offline"), lambda d: d.update({new: d.pop(old)}))

    return change


def _move_document(tree: GoodTree) -> None:
    place = tree.measurements("Offline")
    place.rename(place.with_name("model-info.json"))


def _other_conf(tree: GoodTree) -> None:
    tree.edit_text(
        tree.result("Offline").measurements / "mlperf.conf",
        "schedule_rng_seed = ",
        "schedule_rng_seed = 1",
    )


BREAKS: dict[str, list[Break]] = {
    "M101": [
        Break(
            lambda t: t.remove(t.measurements("Offline")), [("M101", DOCUMENT)], RGAT
        ),
        Break(_move_document, [("M101", DOCUMENT)], RGAT),
        Break(
            lambda t: t.remove(t.result("Offline").measurements),
            [("M101", OLD_FOLDER), ("S125", "/closed/Acme/measurements/box1/rgat")],
            OLD,
        ),
    ],
    "M102": [
        Break(_text("[]"), [("M102", DOCUMENT)], RGAT),
        Break(_text("null"), [("M102", DOCUMENT)], RGAT),
    ],
    "M103": [
        Break(_set("retraining", DELETE), [("M103", DOCUMENT)], RGAT),
        Break(
            _rename_key("weight_data_types", "weight data types"), [("M103", DOCUMENT)], RGAT
        ),
    ],
    "M104": [
        Break(_set("retraining", ""), [("M104", DOCUMENT)], RGAT),
        Break(_set("weight_data_types", []), [("M104", DOCUMENT)], RGAT),
        Break(_set("weight_transformations", None), [("M104", DOCUMENT)], RGAT),
    ],
    "M105": [
        Break(_set("starting_weights_filename", 5), [("M105", DOCUMENT)], RGAT),
        Break(_set("weight_data_types", [["int8"]]), [("M105", DOCUMENT)], RGAT),
        Break(_set("weight_transformations", LARGE), [("M105", DOCUMENT)], RGAT),
    ],
    "M106": [
        Break(_set("retraining", "yes"), [("M106", DOCUMENT)], RGAT),
        Break(_set("retraining", True), [("M106", DOCUMENT)], RGAT),
        Break(_set("retraining", "see README"), [("M106", DOCUMENT)], RGAT, notes=True),
    ],
    "M107": [Break(_set("weight_data_types", "in8"), [("M107", DOCUMENT)], RGAT, notes=True)],
    "M108": [
        Break(_file("user.conf", None), [("M108", CONF)], RGAT),
        Break(_file("README.md", None), [("M108", "Offline/README.md")], RGAT),
        Break(
            _file("mlperf.conf", None),
            [("M108", "/closed/Acme/measurements/box1/resnet/Offline/mlperf.conf")],
            {**FIRST, "round": "v4.1"},
        ),
    ],
    "M109": [
        Break(_file("user.conf", "\n"), [("M109", CONF)], RGAT),
        Break(_file("README.md", ""), [("M109", "Offline/README.md")], RGAT),
    ],
    "M110": [Break(_conf("target_qps: 100"), [("M110", CONF)], RGAT)],
    "M111": [
        Break(_conf("*.Offline.target_qsp = 100"), [("M111", CONF)], RGAT),
        Break(_conf("*.Server.target_qps = many"), [("M111", CONF)], RGAT),
        Break(_conf("*.Server.target_qps = 1e999"), [("M111", CONF)], RGAT),
        Break(_conf("*.Offline.colour = 100"), [("M111", CONF)], RGAT, notes=True),
        Break(_conf("*.offline.target_qps = 100"), [("M111", CONF)], RGAT),
        Break(_conf("*.Interactive.target_qps = 100"), [("M111", CONF)], RGAT, notes=True),
    ],
    "M112": [
        Break(_conf("*.*.qsl_rng_seed = 1"), [("M112", CONF)], RGAT),
    ],
    "M113": [
        Break(_conf("*.Offline.sample_concatenate_permutation = 1"), [("M113", CONF)], RGAT),
        Break(_conf("*.Offline.samples_per_query = 8"), [("M113", CONF)], RGAT),
    ],
    "M114": [
        Break(_conf("*.Offline.min_duration = 60000"), [("M114", CONF)], RGAT),
        Break(_conf("rgat.Offline.target_qps = 5"), [("M114", CONF)], RGAT, notes=True),
    ],
    "M116": [
        Break(_whole_conf("*.Server.target_qps = 100"), [("M116", CONF)], RGAT),
        Break(_whole_conf("resnet50.Offline.target_qps = 100"), [("M116", CONF)], RGAT),
    ],
    "M115": [
        Break(
            _other_conf,
            [("M115", "/closed/Acme/measurements/box1/resnet/Offline/mlperf.conf")],
            FIRST,
            notes=True,
        )
    ],
}  # fmt: skip


@pytest.mark.parametrize(("rule", "case"), broken(BREAKS))
def test_break(rule: str, case: Break, grow: Grow) -> None:
    run_break(rule, case, grow)


@pytest.mark.parametrize(
    "options", [RGAT, OLD, FIRST, DEMO, {"benchmark": "llama2-70b-99", "category": "datacenter"}]
)
def test_good(options: dict[str, Any], grow: Grow) -> None:
    assert grow(**options).findings(notes=True, select=("M",)) == []


def _findings(tree: GoodTree, rule: str) -> list[tuple[str, str]]:
    return [(f.severity, f.message) for f in tree.check().findings if f.rule == rule]


MUTANTS: dict[str, Any] = {
    "null": None, "empty": "", "list": [], "object": {}, "negative": -1, "infinite": float("inf"),
    "large": LARGE, "deleted": DELETE,
}  # fmt: skip


@pytest.mark.parametrize("mutant", [*MUTANTS, "formula"])
def test_every_field_spoiled(mutant: str, grow: Grow) -> None:
    """Every field of the measurements, each spoiled alone: no crash, and no silence where the
    round asks for something."""
    tree = grow(**DEMO)
    place = tree.measurements("Offline")
    whole = place.read_text()
    for key in tree.round.measurements.required:
        tree.write(place, whole)
        _set(key, MUTANTS.get(mutant, "=1+1"))(tree)
        report = tree.check(select=("M", "S", "X"))
        rules = [f.rule for f in report.findings]
        assert "X001" not in rules, (key, rules)
        if mutant != "formula":
            assert any(rule[0] == "M" for rule in rules), (key, mutant)
        if mutant in ("null", "empty", "list", "object", "deleted"):
            assert [r.status for r in report.results if r.scenario == "Offline"] == ["invalid"]


@pytest.mark.parametrize(
    "value",
    [["int8", "fp16"], {"unet": "fp8", "vae": "fp32"}, "int8, fp16", "int8 and bf16", "int8_t"],
)
def test_case_012_data_types_as_list_or_object(value: Any, grow: Grow) -> None:
    tree = grow(**RGAT)
    _set("weight_data_types", value)(tree)
    assert tree.findings(notes=True) == []


def test_case_013_name_from_the_rules_table(grow: Grow) -> None:
    tree = grow(**RGAT)
    _rename_key("weight_data_types", "weight data types")(tree)
    ((severity, message),) = _findings(tree, "M103")
    assert severity == "error"
    assert "did you mean weight data types?" in message


def test_case_025_setting_without_effect(grow: Grow) -> None:
    tree = grow(**RGAT)
    _conf("custom.Offline.sample_concatenate_permutation = 1")(tree)
    ((severity, message),) = _findings(tree, "M113")
    assert severity == "warning"
    assert "as the round sets them" in message


def test_case_037_empty_readme_and_fields(grow: Grow) -> None:
    tree = grow(**RGAT)
    _file("README.md", "")(tree)
    _set("retraining", "")(tree)
    assert sorted(f[0] for f in tree.findings()) == ["M104", "M109"]
    assert tree.check().summary.valid == 0


def test_case_046_broken_measurements(grow: Grow) -> None:
    tree = grow(**RGAT)
    _text('{"retraining": ')(tree)
    assert [f[0] for f in tree.findings()] == ["X002"]
    _text("\ufeff" + grow(**RGAT).measurements("Offline").read_text())(tree)
    assert tree.findings() == []


def test_case_082_the_expected_path_is_shown(grow: Grow) -> None:
    tree = grow(**OLD)
    tree.remove(tree.measurements("Offline"))
    (finding,) = [f for f in tree.check().findings if f.rule == "M101"]
    assert finding.path is not None
    assert finding.path.startswith("closed/Acme/measurements/box1/rgat/Offline/box1")


@pytest.mark.parametrize("written", ["no", "No", "N", "none", "None", "We don't retrain.", False])
def test_not_retrained(written: Any, grow: Grow) -> None:
    tree = grow(**RGAT)
    _set("retraining", written)(tree)
    assert tree.findings(notes=True) == []


def test_open_may_retrain(grow: Grow) -> None:
    tree = grow(**RGAT, division="open")
    _set("retraining", "yes")(tree)
    assert tree.findings(notes=True) == []


def test_announced_seeds_in_user_conf_are_a_note(grow: Grow) -> None:
    tree = grow(**RGAT)
    _conf(f"*.*.qsl_rng_seed = {tree.round.seeds.qsl_rng_seed}")(tree)
    assert _findings(tree, "M112")[0][0] == "note"


def test_empty_files_before_they_were_looked_at(grow: Grow) -> None:
    tree = grow(**FIRST)
    _file("README.md", "")(tree)
    assert _findings(tree, "M109")[0][0] == "note"
