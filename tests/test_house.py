"""The house of CONTRIBUTING.md holds: imports point down, output has one door, the wheel is whole."""

from __future__ import annotations

import ast
import functools
import graphlib
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Set
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("assay", "checker", "reports", "runner", "schemas")

ALLOWED: dict[str, set[str]] = {
    "assay": {"assay", "checker", "reports", "runner", "schemas"},
    "runner": {
        "runner",
        "schemas",
        "checker.accuracy",
        "checker.compliance",
        "checker.early_stopping",
        "checker.parse.user_conf",
        "checker.replay",
    },
    "reports": {"reports", "schemas"},
    "checker": {"checker", "schemas"},
    "schemas": {"schemas"},
}
"""What a package may import of the others. The runner uses the checker for scoring, and for what has
one place: the arithmetic of early stopping and of LoadGen's schedule, and the reader of user.conf."""

HEAVY = (
    "numpy", "onnxruntime", "onnx", "mlperf_loadgen", "rich", "jinja2", "pycocotools", "sacrebleu",
    "jsonschema", "tensorrt", "pycuda", "matplotlib", "xlsxwriter", "yaml",
)  # fmt: skip


def _modules(*packages: str) -> Iterator[Path]:
    for package in packages or PACKAGES:
        yield from sorted((ROOT / package).rglob("*.py"))


@functools.cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def _imported(path: Path, without: Set[ast.AST] = frozenset()) -> Iterator[tuple[str, int]]:
    """Every module that a file imports, anywhere in it, as (dotted name, line)."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(_parsed(path)):
        if node in without:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*package[: len(package) - node.level + 1], *filter(None, [base])])
            for alias in node.names:
                yield f"{base}.{alias.name}", node.lineno


def _inside(name: str, allowed: set[str]) -> bool:
    return any(name == module or name.startswith(f"{module}.") for module in allowed)


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_only_point_down(package: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in _modules(package)
        for name, line in _imported(path)
        if name.split(".")[0] in PACKAGES and not _inside(name, ALLOWED[package])
    ]
    assert wrong == []


def _for_types(tree: ast.Module) -> set[ast.AST]:
    """What is below ``if TYPE_CHECKING``: it is not imported when the program runs."""
    return {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.dump(block.test)
        for node in ast.walk(block)
    }


def test_no_import_circles() -> None:
    """No module needs itself through others, also not by an import inside a function."""
    files = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in _modules()
    }
    needs: dict[str, set[str]] = {}
    for module, path in files.items():
        found = {
            name if name in files else name.rpartition(".")[0]
            for name, _ in _imported(path, without=_for_types(_parsed(path)))
        }
        # A module's own packages are loaded before it, whatever it imports.
        needs[module] = {
            name for name in found & files.keys() if not f"{module}.".startswith(f"{name}.")
        }
    tuple(graphlib.TopologicalSorter(needs).static_order())  # raises CycleError, which names them


def test_what_a_killed_command_would_leave_is_made_in_one_place() -> None:
    """`schemas.scratch` and `schemas.writing` name a folder or a file before they make it."""
    other = {"mkdtemp", "mkstemp", "TemporaryDirectory", "NamedTemporaryFile"}
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.attr}"
        for path in _modules()
        for node in ast.walk(_parsed(path))
        if isinstance(node, ast.Attribute) and node.attr in other
    ]
    assert wrong == []


def test_what_makes_a_submission_does_not_know_the_command_line() -> None:
    """``assay/prepare`` is used by the command and by programs: it prints nothing and parses nothing."""
    allowed = {"assay.prepare", "checker", "reports", "schemas"}
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in sorted((ROOT / "assay/prepare").rglob("*.py"))
        for name, line in _imported(path)
        if name.split(".")[0] in PACKAGES and not _inside(name, allowed)
    ]
    assert wrong == []


def test_nothing_imports_the_tests() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in _modules()
        for name, line in _imported(path)
        if name.split(".")[0] == "tests"
    ]
    assert wrong == []


def test_no_star_imports() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in _modules()
        for name, line in _imported(path)
        if name.endswith(".*")
    ]
    assert wrong == []


MAY_PRINT = {"assay/terminal.py", "reports/to_terminal.py"}


def _when_run(tree: ast.Module) -> set[ast.AST]:
    """What stands below ``if __name__ == "__main__"``: scripts that developers run."""
    return {
        node
        for top in tree.body
        if isinstance(top, ast.If) and "__name__" in ast.dump(top.test)
        for node in ast.walk(top)
    }


def test_one_door_for_output() -> None:
    """Standard output carries the report alone, so only the command line writes to it."""
    wrong = []
    for path in _modules():
        if path.relative_to(ROOT).as_posix() in MAY_PRINT:
            continue
        scripts = _when_run(_parsed(path))
        for node in ast.walk(_parsed(path)):
            if node in scripts:
                continue
            name = ""
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                name = node.func.id
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                name = f"{node.value.id}.{node.attr}"
            if name in ("print", "pprint", "breakpoint", "input", "eval", "exec", "sys.stdout"):
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno} {name}")
    assert wrong == []


def test_no_rule_opens_a_file() -> None:
    """Rules judge what was parsed; reading is the parsers' work alone."""
    wrong = []
    for path in sorted((ROOT / "checker/rules").rglob("*.py")):
        for node in ast.walk(_parsed(path)):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
            if name in (
                "open",
                "read_text",
                "read_bytes",
                "read_json",
                "read_detail",
                "read_lines",
            ):
                wrong.append(f"{path.name}:{node.lineno} {name}")
    assert wrong == []


def test_file_names_say_what_is_inside() -> None:
    banned = {"utils", "util", "helpers", "helper", "common", "manager", "misc", "main"}
    wrong = [p.relative_to(ROOT).as_posix() for p in _modules() if p.stem.lower() in banned]
    assert wrong == []


def test_every_folder_with_code_is_a_package() -> None:
    folders = {path.parent for path in _modules()}
    assert [
        f.relative_to(ROOT).as_posix() for f in sorted(folders) if not (f / "__init__.py").is_file()
    ] == []


def test_every_module_is_explained() -> None:
    wrong = [
        path.relative_to(ROOT).as_posix()
        for path in _modules()
        if path.read_text(encoding="utf-8").strip() and not ast.get_docstring(_parsed(path))
    ]
    assert wrong == []


HOT = {
    f"checker/{name}.py"
    for name in ("accuracy/log", "parse/detail", "parse/detail_file", "parse/reading")
}
"""Where an object is made for every record, and keywords would take time."""


def test_long_records_are_made_with_keywords() -> None:
    """More than four values in a row say nothing about what they are."""
    ours = {
        node.name
        for path in _modules()
        for node in ast.walk(_parsed(path))
        if isinstance(node, ast.ClassDef)
    }
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.func.id}"
        for path in _modules()
        if path.relative_to(ROOT).as_posix() not in HOT
        for node in ast.walk(_parsed(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ours
        if sum(not isinstance(argument, ast.Starred) for argument in node.args) > 4
    ]
    assert wrong == []


def test_only_tables_are_laid_out_by_hand() -> None:
    """``fmt: skip`` is for data in columns: it ends a bracket of several lines."""
    wrong = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in _modules()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if "# fmt: skip" in line and line.lstrip()[:1] not in ")]}"
    ]
    assert wrong == []


# --- what importing costs -----------------------------------------------------------------------


def _loaded_by(code: str) -> set[str]:
    """The heavy modules that are loaded after running code in a fresh interpreter."""
    script = f"import sys\n{code}\nprint(' '.join(sorted(m.split('.')[0] for m in sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=True,
    )
    return set(done.stdout.split()) & set(HEAVY)


@pytest.mark.parametrize(
    "code",
    [
        "import assay",
        "import checker",
        "import reports",
        "import schemas",
        "import runner",
        "import assay.cli",
        "import checker.engine, checker.rules",
        "import schemas; schemas.load_round('v6.0')",
    ],
)
def test_imports_stay_light(code: str) -> None:
    assert _loaded_by(code) == set()


def test_a_check_stays_light(tmp_path: Path) -> None:
    """Checking a tree of LoadGen logs needs none of the measuring and scoring libraries."""
    from tests.trees import good_tree

    tree = good_tree(tmp_path, round="demo", benchmark="digits", category="datacenter")
    code = f"import assay\nassert assay.check({str(tree.root)!r}, jobs=1).summary.valid == 2"
    assert _loaded_by(code) <= {"numpy"}


@pytest.mark.parametrize(
    ("arguments", "expected"), [(["--version"], set()), (["check"], {"check"})]
)
def test_a_command_imports_no_other(arguments: list[str], expected: set[str]) -> None:
    """What a command does not need is not loaded: every check pays for it."""
    code = (
        "import sys; from assay.cli import main\n"
        f"main({arguments})\n"
        "print(*[m for m in sys.modules if m.startswith('assay.commands.')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    found = [word.removeprefix("assay.commands.") for word in done.stdout.split("\n")[-2].split()]
    assert set(found) == expected


# --- the wheel ----------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names in a wheel that is built from this repository, without network."""
    pytest.importorskip("hatchling", reason="hatchling builds the wheel")
    target = tmp_path_factory.mktemp("wheel")
    code = (
        "from hatchling.builders.wheel import WheelBuilder\n"
        f"print(*WheelBuilder({str(ROOT)!r}).build(directory={str(target)!r}, versions=['standard']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    built = list(target.glob("*.whl"))
    assert len(built) == 1
    with zipfile.ZipFile(built[0]) as packed:
        return set(packed.namelist())


def _data_files() -> list[str]:
    """Every file of the packages that is no Python and that the repository keeps."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *PACKAGES],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    if listed.returncode == 0 and listed.stdout:
        names = listed.stdout.splitlines()
    else:
        names = [
            p.relative_to(ROOT).as_posix() for name in PACKAGES for p in (ROOT / name).rglob("*")
        ]
    return [
        n
        for n in names
        if (ROOT / n).is_file() and "__pycache__" not in n and not n.endswith(".py")
    ]


def test_wheel_holds_every_module(wheel: set[str]) -> None:
    modules = {path.relative_to(ROOT).as_posix() for path in _modules()}
    assert modules - wheel == set()


def test_wheel_holds_every_data_file(wheel: set[str]) -> None:
    """Rounds, schemas, templates, models, data: a folder in .gitignore would silently be lost."""
    data = set(_data_files())
    assert data - wheel == set()
    for suffix, least in (
        (".toml", 15),
        (".schema.json", 5),
        (".html", 1),
        (".onnx", 2),
        (".npz", 1),
    ):
        assert sum(name.endswith(suffix) for name in wheel) >= least, suffix


def test_wheel_holds_compiled_tables(wheel: set[str], tmp_path: Path) -> None:
    """Compiled tables are those of the TOML files."""
    import msgspec

    from schemas import compiling
    from schemas.enforcement import entries
    from schemas.enforcement_file import Entry, parse_enforcement
    from schemas.hardware_file import Hardware, parse_hardware
    from schemas.load import load_round, round_names
    from schemas.power import Power, parse_power
    from schemas.round import Round
    from schemas.round_file import parse_round

    assert "schemas/compiled.msgpack" in wheel
    top = Path(compiling.__file__).parent
    texts = {n: (top / "rounds" / f"{n}.toml").read_text(encoding="utf-8") for n in round_names()}
    rounds = [parse_round(text, name) for name, text in texts.items()]
    read = parse_enforcement((top / "enforcement.toml").read_text(encoding="utf-8"), round_names())
    assert (rounds, read) == ([load_round(name) for name in round_names()], entries())
    hardware = parse_hardware((top / "hardware.toml").read_text(encoding="utf-8"))
    power = parse_power((top / "power.toml").read_text(encoding="utf-8"))
    data = compiling.compile_tables(rounds, entries(), hardware, power)
    made = msgspec.msgpack.decode(data, type=compiling.Compiled)
    assert list(made.rounds) == round_names()
    assert [msgspec.msgpack.decode(raw, type=Round) for raw in made.rounds.values()] == rounds
    assert msgspec.msgpack.decode(made.enforcement, type=tuple[Entry, ...]) == entries()
    assert msgspec.msgpack.decode(made.hardware, type=Hardware) == hardware
    assert msgspec.msgpack.decode(made.power, type=Power) == power


def test_wheel_holds_nothing_else(wheel: set[str]) -> None:
    tops = {name.split("/")[0] for name in wheel}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)
    assert not [n for n in wheel if "__pycache__" in n or n.endswith((".pyc", ".orig", ".tmp"))]
    assert any(name.endswith("licenses/LICENSE") for name in wheel)
    assert any(name.endswith("entry_points.txt") for name in wheel)
