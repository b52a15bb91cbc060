"""Every call of TensorRT and of CUDA's bindings that the backend makes exists: in 10 and in 11.

TensorRT's Python bindings are small wheels (1.2 MB each, three of them); its libraries (2 GB) are not
needed: three stub libraries with the nine functions that the bindings look for let them be
imported.  That shows names, and the signatures that the bindings tell in their docstrings, with no
GPU; it does not show behaviour.

The bindings come from a folder of `ASSAY_TRT_BINDINGS` (`a:b`), else from the package index, once;
without either, without gcc or with `ASSAY_OFFLINE=1` these tests skip and say so.  cuda-bindings'
wheels are larger, so they are fetched by `make contracts` only.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.backends.trt import api
from runner.backends.trt.memory import BindingsMemory
from tests.runner.trt import fake

VERSIONS = {
    "10.1.0": ("tensorrt_cu12_bindings", 10),
    "10.16.1.11": ("tensorrt_cu12_bindings", 10),
    "11.4.0.106": ("tensorrt_cu13_bindings", 11),
}
CALLED_BACK = ("IOutputAllocator",)  # whose methods the bindings tell of in the docstring alone
STUB = """
#include <stddef.h>
void* createInferBuilder_INTERNAL(void* a, int v) { return NULL; }
void* createInferRefitter_INTERNAL(void* a, void* b, int v) { return NULL; }
void* createInferRuntime_INTERNAL(void* a, int v) { return NULL; }
void* getPluginRegistry(void) { return NULL; }
void* getBuilderPluginRegistry(int c) { return NULL; }
int initLibNvInferPlugins(void* a, const char* b) { return 0; }
void* createNvOnnxParserRefitter_INTERNAL(void* a, void* b, int v) { return NULL; }
void* createNvOnnxParser_INTERNAL(void* a, void* b, int v) { return NULL; }
int getNvOnnxParserVersion(void) { return 0; }
"""
ASK = """
import json, sys
import tensorrt_bindings as trt
asked = json.loads(sys.argv[1])
told = {"": dir(trt), "version": trt.__version__}
for name in asked:
    thing = getattr(trt, name, None)
    told[name] = [] if thing is None else dir(thing)
    told[name + ".doc"] = getattr(thing, "__doc__", "") or ""
    told[name + ".docs"] = {n: getattr(getattr(thing, n), "__doc__", "") or "" for n in told[name]}
told["TensorRt.docs"] = {
    n: (trt.__dict__[n].__init__ if isinstance(trt.__dict__[n], type) else trt.__dict__[n]).__doc__
    for n in ("Builder", "OnnxParser", "Runtime", "init_libnvinfer_plugins")
}
print(json.dumps(told))
"""


def used() -> dict[str, set[str]]:
    """Class of TensorRT to the names of it that the backend uses."""
    result = {}
    for name, thing in vars(api).items():
        if name.endswith("Api") and inspect.isclass(thing):
            names = set(getattr(thing, "__annotations__", {}))
            names |= {key for key in vars(thing) if not key.startswith("_")}
            result[name.removesuffix("Api")] = names
    return result


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("no gcc to make the stub libraries with")
    folder = tmp_path_factory.mktemp("stubs")
    (folder / "stub.c").write_text(STUB)
    for major in (10, 11):
        for library in ("nvinfer", "nvinfer_plugin", "nvonnxparser"):
            name = f"lib{library}.so.{major}"
            command = [gcc, "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", str(folder / name)]
            subprocess.run([*command, str(folder / "stub.c")], check=True)
    return folder


def fetched(request: pytest.FixtureRequest, package: str, version: str, *more: str) -> Path:
    """A folder that holds this package: one of `ASSAY_TRT_BINDINGS`, or pip's into pytest's cache."""
    pattern = f"{package}-{version}.dist-info"
    for entry in filter(None, os.environ.get("ASSAY_TRT_BINDINGS", "").split(os.pathsep)):
        if list(Path(entry).glob(pattern)):
            return Path(entry)
    if os.environ.get("ASSAY_OFFLINE") or sys.platform != "linux":
        pytest.skip(f"no {package} {version} here, and none is fetched")
    cache = getattr(request.config, "cache", None)
    if cache is None:
        pytest.skip("pytest keeps no cache here to fetch wheels into")
    folder = Path(cache.mkdir(f"{package}-{version}"))
    if not list(folder.glob(pattern)):
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--retries", "0"]
        command += ["--timeout", "15", "--only-binary", ":all:", "--target", str(folder)]
        try:
            done = subprocess.run(
                [*command, f"{package}=={version}", *more],
                capture_output=True,
                text=True,
                timeout=240,
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"the package index did not give {package} in time")
        if done.returncode:
            shutil.rmtree(folder, ignore_errors=True)
            pytest.skip(f"pip cannot install {package}: {done.stderr.strip()[-200:]}")
    return folder


@pytest.fixture(params=VERSIONS, scope="module")
def told(request: pytest.FixtureRequest, stubs: Path) -> dict[str, Any]:
    folder = fetched(request, VERSIONS[request.param][0], request.param)
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": os.pathsep.join([str(stubs), os.environ.get("LD_LIBRARY_PATH", "")]),
        "PYTHONPATH": str(folder),
    }
    command = [sys.executable, "-c", ASK, json.dumps(sorted(used()))]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode and ("No module named" in done.stderr or "GLIBC" in done.stderr):
        pytest.skip(f"these bindings do not fit this Python: {done.stderr.strip()[-200:]}")
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    assert answer["version"] == request.param
    return answer


def test_every_name_is_in_the_bindings(told: dict[str, Any]) -> None:
    absent = []
    for owner, names in used().items():
        if owner == "TensorRt":
            absent += [name for name in names if name not in told[""]]
        elif owner in CALLED_BACK:
            absent += [f"{owner}.{n}" for n in names if f"def {n}(" not in told[f"{owner}.doc"]]
        else:
            absent += [f"{owner}.{n}" for n in names if n not in told[owner]]
    assert absent == []


Signature = tuple[list[tuple[str, bool]], str]  # (type, has a default) of each argument; result


def signatures(doc: str) -> list[Signature]:
    """What pybind11 writes at the head of a docstring, one for each overload; without self."""
    found: list[Signature] = []
    for line in doc.splitlines():
        match = re.match(r"(?:\d+\. )?\w+\((.*)\) -> (.+)$", line.strip())
        if match is None or match[1].startswith("*args"):
            continue
        parts, depth, begin = [], 0, 0
        for place, character in enumerate(match[1]):
            depth += {"[": 1, "<": 1, "(": 1, "]": -1, ">": -1, ")": -1}.get(character, 0)
            if character == "," and depth == 0:
                parts.append(match[1][begin:place])
                begin = place + 1
        parts.append(match[1][begin:])
        typed = [part.strip().partition(": ")[2] for part in parts if part.strip()]
        if parts[0].startswith("self"):
            typed = typed[1:]
        found.append(([(t.split(" = ")[0], " = " in t) for t in typed], match[2].strip()))
    return found


_SAME = {
    "int": {"int", "typing.SupportsInt"},
    "str": {"str"},
    "str | None": {"str"},
    "bool": {"bool"},
    "bytes": {"buffer", "typing_extensions.Buffer", "collections.abc.Buffer"},
    "None": {"None"},
    "Sequence[int]": {"tuple", "list", "Dims", "List[int]", "list[int]"},
    "Sequence[DimsApi]": {
        "List[tensorrt_bindings.tensorrt.Dims]",
        "list[tensorrt_bindings.tensorrt.Dims]",
    },
    "Sequence[str]": {"List[str]", "list[str]"},
    # IParserError has no name of its own in the bindings' module.
    "ParserErrorApi": {"nvonnxparser::IParserError", "ParserError"},
}


def agrees(ours: str, theirs: str) -> bool:
    """Whether the bindings take or give what the contract writes."""
    plain = ours.removesuffix(" | None") if ours.endswith("Api | None") else ours
    last = theirs.rsplit(".", 1)[-1]
    if plain == "Any":
        return True
    return theirs in _SAME.get(plain, ()) or last in {
        *_SAME.get(plain, ()),
        plain.removesuffix("Api"),
    }


def mismatches(told: dict[str, Any]) -> Iterator[str]:
    for name, thing in vars(api).items():
        owner = name.removesuffix("Api")
        if owner == name or not inspect.isclass(thing) or owner in CALLED_BACK:
            continue
        for method, function in vars(thing).items():
            if method.startswith("_") or not inspect.isfunction(function):
                continue
            doc = told[f"{owner}.docs"].get(method)
            theirs = signatures(doc or "")
            made_by_init = owner == "TensorRt" and method in ("Builder", "OnnxParser", "Runtime")
            wanted = inspect.signature(function)
            ours = [str(p.annotation) for p in wanted.parameters.values() if p.name != "self"]
            for arguments, result in theirs:
                needed = [t for t, default in arguments if not default]
                if (
                    len(needed) <= len(ours) <= len(arguments)
                    and all(agrees(a, b) for a, (b, _) in zip(ours, arguments, strict=False))
                    and (made_by_init or agrees(str(wanted.return_annotation), result))
                ):
                    break
            else:
                yield f"{owner}.{method}{wanted}: {theirs}"


def test_every_call_has_the_signature_of_the_bindings(told: dict[str, Any]) -> None:
    assert list(mismatches(told)) == []


def test_a_call_of_another_form_would_be_seen() -> None:
    doc = "f(*args, **kwargs)\n1. f(self: t.C, a: int, b: t.E = <E.A: 0>) -> t.I\n"
    assert signatures(doc) == [([("int", False), ("t.E", True)], "t.I")]
    assert agrees("IApi | None", "t.I") and not agrees("JApi", "t.I")
    assert agrees("Sequence[int]", "tuple") and not agrees("int", "str")
    empty: dict[str, Any] = {
        f"{n.removesuffix('Api')}.docs": {} for n in vars(api) if n.endswith("Api")
    }
    assert len(list(mismatches(empty))) >= 30


def test_the_contract_is_not_empty() -> None:
    names = used()
    assert len(names) >= 18 and sum(len(n) for n in names.values()) >= 60
    # Gone from 11, or about to: none of these may come back.
    everything = {name for values in names.values() for name in values}
    assert not everything & {
        "FP16",
        "INT8_CALIBRATOR",
        "int8_calibrator",
        "precision",
        "EXPLICIT_BATCH",
        "device_memory_size",
        "execute_v2",
    }


def test_only_the_contract_is_used() -> None:
    """Nothing but `api` imports TensorRT, so the type checker sees every use of it."""
    for path in Path(api.__file__).parent.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.name != "api.py":
            assert "import tensorrt" not in text and 'import_module("tensorrt' not in text


def test_the_played_tensorrt_has_the_names_too() -> None:
    classes = {
        "Builder": fake.Builder,
        "IBuilderConfig": fake.Config,
        "INetworkDefinition": fake.Network,
        "OnnxParser": fake.OnnxParser,
        "IOptimizationProfile": fake.Profile,
        "Runtime": fake.Runtime,
        "ICudaEngine": fake.Engine,
        "IExecutionContext": fake.Context,
        "IHostMemory": fake.HostBytes,
    }
    names = used()
    for owner, thing in classes.items():
        source = inspect.getsource(thing)
        for name in names[owner]:
            assert hasattr(thing, name) or f"self.{name}" in source, f"{owner}.{name}"


# --- CUDA --------------------------------------------------------------------------------------


# 12 MB each to fetch and 107 MB unpacked: `make contracts` sets ASSAY_FETCH_CUDA.
CUDA_VERSIONS = ("12.9.4", "13.0.3")
# Called by a name that is data.
DESTROYED = ("cudaGraphExecDestroy", "cudaEventDestroy", "cudaStreamDestroy")
ASK_CUDA = """
import json, sys
from cuda.bindings import runtime
asked = json.loads(sys.argv[1])
print(json.dumps({n: (getattr(runtime, n).__doc__ or "") if hasattr(runtime, n) else None for n in asked}))
"""


def cuda_calls() -> dict[str, set[int]]:
    """Each function of the CUDA runtime that `BindingsMemory` calls, with how many arguments."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(BindingsMemory)))
    stored: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            targets = (
                node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else node.targets
            )
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            for target, value in zip(targets, values, strict=False):
                if isinstance(target, ast.Attribute) and isinstance(value, ast.Attribute):
                    stored[target.attr] = value.attr
    calls: dict[str, set[int]] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr == "_call" and isinstance(node.args[0], ast.Constant):
            calls.setdefault(str(node.args[0].value), set()).add(len(node.args) - 1)
        elif stored.get(node.func.attr, "").startswith("cuda"):
            calls.setdefault(stored[node.func.attr], set()).add(len(node.args))
    return calls


def test_every_cuda_call_is_seen() -> None:
    calls = cuda_calls()
    assert len(calls) >= 18 and calls["cudaMemcpyAsync"] == {5}
    assert calls["cudaStreamWaitEvent"] == {3} and calls["cudaMalloc"] == {1}
    named = set(re.findall(r'"(cuda[A-Z]\w+)"', inspect.getsource(BindingsMemory)))
    assert named - {"cudaErrorNoDevice"} <= set(calls) | set(DESTROYED)


@pytest.mark.parametrize("version", CUDA_VERSIONS)
def test_every_cuda_call_has_the_arguments_of_the_bindings(
    version: str, request: pytest.FixtureRequest
) -> None:
    if not os.environ.get("ASSAY_FETCH_CUDA") and not os.environ.get("ASSAY_TRT_BINDINGS"):
        pytest.skip("12 MB that are fetched only by `make contracts` (ASSAY_FETCH_CUDA=1)")
    folder = fetched(request, "cuda_bindings", version, "cuda-pathfinder")
    calls = cuda_calls()
    calls |= {name: {1} for name in DESTROYED}
    command = [sys.executable, "-c", ASK_CUDA, json.dumps(sorted(calls))]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    wrong = []
    for name, doc in json.loads(done.stdout).items():
        head = re.match(rf"{name}\((.*)\)", (doc or "").splitlines()[0] if doc else "")
        given = len([part for part in head[1].split(",") if part.strip()]) if head else -1
        if calls[name] != {given}:
            wrong.append(f"{name}: called with {calls[name]}, takes {given}")
    assert wrong == []
