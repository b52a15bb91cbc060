"""The TensorRT backend: an ONNX model built into an engine and run on NVIDIA GPUs.

Precision is in the ONNX file, which is how TensorRT 10 and 11 both take it.

| module | what it is for |
|---|---|
| `backend` | the options, and what `runner` sees |
| `plan` | what is built and how a batch is cut up: arithmetic alone |
| `model`, `fp16`, `int8`, `onnx_file` | the ONNX file before TensorRT reads it |
| `builder`, `cache` | from ONNX to an engine, and engines on disk |
| `session` | an engine, ready to run |
| `memory` | devices, streams, events and graphs |
| `pipeline` | how batches flow through a device |
| `api` | the part of TensorRT that is used |
"""
