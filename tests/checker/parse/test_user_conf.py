"""user.conf as LoadGen reads it."""

from __future__ import annotations

import pytest

from checker.parse.user_conf import read_conf
from tests.checker.parse.conftest import MakeFile

TEXT = """# comment
*.Offline.target_qps = 100
resnet50.Offline.target_qps=200   # more
*.*.min_duration = 600000
llama3.1-8b.Server.target_qps = 3.5
llama2-70b-interactive.Server.target_qps = 4
"""


def test_settings(as_file: MakeFile) -> None:
    conf = read_conf(as_file(TEXT))
    assert conf.faults == [] and conf.odd_lines == [] and not conf.empty
    assert [(s.model, s.scenario, s.key, s.value, s.line) for s in conf.settings] == [
        ("*", "Offline", "target_qps", "100", 2),
        ("resnet50", "Offline", "target_qps", "200", 3),
        ("*", "*", "min_duration", "600000", 4),
        ("llama3.1-8b", "Server", "target_qps", "3.5", 5),
        ("llama2-70b-interactive", "Server", "target_qps", "4", 6),
    ]


@pytest.mark.parametrize(
    ("model", "scenario", "key", "value"),
    [
        ("resnet50", "Offline", "target_qps", "100"), ("bert", "Offline", "target_qps", "100"),
        ("resnet50", "Server", "min_duration", "600000"), ("llama3.1-8b", "Server", "target_qps", "3.5"),
        ("resnet50", "Server", "target_qps", None),
    ],
)  # fmt: skip
def test_lookup(model: str, scenario: str, key: str, value: str | None, as_file: MakeFile) -> None:
    found = read_conf(as_file(TEXT)).lookup(model, scenario, key)
    expected = (
        "200" if (model, key) == ("resnet50", "target_qps") and scenario == "Offline" else value
    )
    assert (found.value if found else None) == expected


@pytest.mark.parametrize(
    "line",
    ["target_qps = 5", "*.Offline.target_qps", "*.Offline.target_qps = ", "a.b = c", "[]", "{}"],
)
def test_odd_lines(line: str, as_file: MakeFile) -> None:
    conf = read_conf(as_file(f"*.Offline.target_qps = 1\n{line}\n"))
    assert conf.odd_lines == [(2, line.strip())] and len(conf.settings) == 1


def test_numbers_and_emptiness(as_file: MakeFile) -> None:
    conf = read_conf(as_file("*.Offline.target_qps = many\n*.Server.target_qps = 1e3\n"))
    assert [s.number for s in conf.settings] == [None, 1000.0]
    assert read_conf(as_file(" \n\n", "b")).empty
