"""A small server of the Open Inference Protocol for tests: `python -m tests.runner.oip_server`.

HTTP with binary tensors, or gRPC; serves one ONNX model with ONNX Runtime, one inference at a
time, and can be told to misbehave.  Prints its port when it is ready.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

TYPES = {"tensor(float)": "FP32", "tensor(int64)": "INT64", "tensor(int32)": "INT32"}
NUMPY = {"FP32": np.float32, "INT64": np.int64, "INT32": np.int32}
NAMES = {np.dtype(kind): name for name, kind in NUMPY.items()}


class Model:
    """The model, and what goes wrong with it."""

    def __init__(self, options: argparse.Namespace) -> None:
        import onnxruntime

        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(options.model), settings)
        self.options = options
        self.name = options.name
        self.asked = 0
        self.lock = threading.Lock()

    def metadata(self) -> dict[str, Any]:
        def told(tensors: Any) -> list[dict[str, Any]]:
            return [
                {
                    "name": t.name,
                    "datatype": TYPES[t.type],
                    "shape": [d if isinstance(d, int) else -1 for d in t.shape],
                }
                for t in tensors
            ]

        return {
            "name": self.name,
            "versions": ["1"],
            "platform": "onnx_onnxv1",
            "inputs": told(self.session.get_inputs()),
            "outputs": told(self.session.get_outputs()),
        }

    def infer(self, feed: dict[str, Any], outputs: list[str]) -> dict[str, Any] | int:
        """The outputs; or an HTTP status in their place."""
        o = self.options
        with self.lock:
            self.asked += 1
            number = self.asked
        if o.die_after and number > o.die_after:
            os._exit(9)
        if o.hang_after and number > o.hang_after:
            time.sleep(3600)
        if o.busy and number % o.busy == 0:
            return 503
        if o.refuse and number > o.refuse:
            return 400
        names = outputs or [t.name for t in self.session.get_outputs()]
        with self.lock:
            found = dict(zip(names, self.session.run(names, feed), strict=True))
        if o.cut and number > o.cut:
            found = {name: array[:-1] for name, array in found.items()}
        return found


class Handler(BaseHTTPRequestHandler):
    """HTTP, with the binary tensor extension."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    model: Model

    def log_message(self, *_: Any) -> None:
        pass

    def answer(self, status: int, content: Any, binary: bytes = b"") -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header(
            "Content-Type", "application/octet-stream" if binary else "application/json"
        )
        if binary:
            self.send_header("Inference-Header-Content-Length", str(len(body)))
        self.send_header("Content-Length", str(len(body) + len(binary)))
        self.end_headers()
        self.wfile.write(body + binary)
        self.wfile.flush()

    def do_GET(self) -> None:
        name = self.model.name
        if self.path in ("/v2/health/live", "/v2/health/ready", f"/v2/models/{name}/ready"):
            return self.answer(200, {})
        if self.path == "/v2":
            return self.answer(200, {"name": "test-server", "version": "1.0", "extensions": []})
        if self.path == f"/v2/models/{name}":
            return self.answer(200, self.model.metadata())
        return self.answer(404, {"error": f"no such thing: {self.path}"})

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path != f"/v2/models/{self.model.name}/infer":
            return self.answer(404, {"error": f"no such model: {self.path}"})
        length = int(self.headers.get("Inference-Header-Content-Length", len(content)))
        asked, raw = json.loads(content[:length]), content[length:]
        feed = {}
        for tensor in asked["inputs"]:
            kind, size = (
                NUMPY[tensor["datatype"]],
                tensor.get("parameters", {}).get("binary_data_size"),
            )
            if size is not None:
                if self.model.options.json_only:
                    return self.answer(400, {"error": "binary tensors are not known here"})
                array = np.frombuffer(raw[:size], kind)
                raw = raw[size:]
            else:
                array = np.array(tensor["data"], kind)
            feed[tensor["name"]] = array.reshape(tensor["shape"])
        wanted = {
            t["name"]: bool(t.get("parameters", {}).get("binary_data"))
            for t in asked.get("outputs", [])
        }
        found = self.model.infer(feed, list(wanted))
        if isinstance(found, int):
            return self.answer(found, {"error": f"status {found} was asked for"})
        outputs, binary = [], b""
        for name, array in found.items():
            one: dict[str, Any] = {
                "name": name, "datatype": NAMES[array.dtype], "shape": list(array.shape),
            }  # fmt: skip
            if wanted.get(name):
                one["parameters"] = {"binary_data_size": array.nbytes}
                binary += array.tobytes()
            else:
                one["data"] = array.ravel().tolist()
            outputs.append(one)
        return self.answer(200, {"model_name": self.model.name, "outputs": outputs}, binary)


def serve_http(model: Model) -> None:
    Handler.model = model
    ThreadingHTTPServer.request_queue_size = 128
    server = ThreadingHTTPServer(("127.0.0.1", model.options.port), Handler)
    server.daemon_threads = True
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever(poll_interval=3600)


def serve_grpc(model: Model) -> None:
    from concurrent.futures import ThreadPoolExecutor

    import grpc
    from tritonclient.grpc import service_pb2 as messages
    from tritonclient.grpc import service_pb2_grpc as services

    codes = {503: grpc.StatusCode.UNAVAILABLE, 400: grpc.StatusCode.INVALID_ARGUMENT}

    class Service(services.GRPCInferenceServiceServicer):  # type: ignore[misc]
        def ServerMetadata(self, request: Any, context: Any) -> Any:
            return messages.ServerMetadataResponse(name="test-server", version="1.0")

        def ModelReady(self, request: Any, context: Any) -> Any:
            return messages.ModelReadyResponse(ready=request.name == model.name)

        def ModelMetadata(self, request: Any, context: Any) -> Any:
            return messages.ModelMetadataResponse(**model.metadata())

        def ModelInfer(self, request: Any, context: Any) -> Any:
            feed = {
                tensor.name: np.frombuffer(raw, NUMPY[tensor.datatype]).reshape(tensor.shape)
                for tensor, raw in zip(request.inputs, request.raw_input_contents, strict=True)
            }
            found = model.infer(feed, [output.name for output in request.outputs])
            if isinstance(found, int):
                context.abort(codes[found], "was asked for")
            answer = messages.ModelInferResponse(model_name=model.name)
            for name, array in found.items():
                answer.outputs.add(name=name, datatype=NAMES[array.dtype], shape=array.shape)
                answer.raw_output_contents.append(array.tobytes())
            return answer

    server = grpc.server(ThreadPoolExecutor(32))
    services.add_GRPCInferenceServiceServicer_to_server(Service(), server)
    port = server.add_insecure_port(f"127.0.0.1:{model.options.port}")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    server.wait_for_termination()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--name", default="digits")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--grpc", action="store_true")
    parser.add_argument("--json-only", action="store_true", help="refuse binary tensors")
    for fault in ("die-after", "hang-after", "busy", "refuse", "cut"):
        parser.add_argument(f"--{fault}", type=int, default=0, metavar="N")
    options = parser.parse_args()
    model = Model(options)
    (serve_grpc if options.grpc else serve_http)(model)


if __name__ == "__main__":
    main()
