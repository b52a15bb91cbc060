"""Every name of TensorRT, and of CUDA's bindings, that the backend uses is there: in 10 and in 11.

TensorRT's Python bindings are small wheels; its libraries are not, and need no GPU to be absent.
Three stub libraries with the nine functions that the bindings look for let them be imported, which
shows their names though not their behaviour.

The bindings come from a folder of `ASSAY_TRT_BINDINGS` (`a:b`), else from the package index, once;
without either, without gcc or with `ASSAY_OFFLINE=1` these tests skip and say so.
"""

from __future__ import annotations

import inspect
import json
import os
import shutil
import subprocess
import sys
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


def bindings(version: str, request: pytest.FixtureRequest) -> Path:
    """A folder in which `tensorrt_bindings` of this version lies."""
    for entry in filter(None, os.environ.get("ASSAY_TRT_BINDINGS", "").split(os.pathsep)):
        if list(Path(entry).glob(f"tensorrt_*_bindings-{version}.dist-info")):
            return Path(entry)
    if os.environ.get("ASSAY_OFFLINE") or sys.platform != "linux":
        pytest.skip(f"no TensorRT {version} bindings here, and none are fetched")
    cache = getattr(request.config, "cache", None)
    if cache is None:
        pytest.skip("pytest keeps no cache here to fetch the bindings into")
    folder = Path(cache.mkdir(f"tensorrt-bindings-{version}"))
    if not list(folder.glob("*.dist-info")):
        package = f"{VERSIONS[version][0]}=={version}"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--retries", "0"]
        command += ["--timeout", "15", "--only-binary", ":all:", "--target", str(folder), package]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            pytest.skip(f"the package index did not give {package} in time")
        if done.returncode:
            shutil.rmtree(folder, ignore_errors=True)
            pytest.skip(f"pip cannot install {package}: {done.stderr.strip()[-200:]}")
    return folder


@pytest.fixture(params=VERSIONS, scope="module")
def told(request: pytest.FixtureRequest, stubs: Path) -> dict[str, Any]:
    folder = bindings(request.param, request)
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


def test_the_contract_is_not_empty() -> None:
    names = used()
    assert len(names) >= 18 and sum(len(n) for n in names.values()) >= 60
    # Gone from 11, or about to: none of these may come back.
    everything = {name for values in names.values() for name in values}
    assert not everything & {"FP16", "INT8_CALIBRATOR", "int8_calibrator", "set_flag", "precision",
                             "EXPLICIT_BATCH", "device_memory_size", "execute_v2"}  # fmt: skip


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


def runtime_names() -> Iterator[str]:
    import re

    text = inspect.getsource(BindingsMemory)
    yield from set(re.findall(r'"(cuda[A-Z]\w+)"', text))
    yield from set(re.findall(r"\brt\.(cuda\w+)", text))
    yield from set(re.findall(r"self\._rt\.(cuda\w+)", text))


def test_every_cuda_name_is_in_the_bindings() -> None:
    runtime = pytest.importorskip(
        "cuda.bindings.runtime", reason="cuda-bindings is not installed", exc_type=ImportError
    )
    names = sorted(set(runtime_names()))
    assert len(names) >= 20
    assert [name for name in names if not hasattr(runtime, name)] == []
