"""A runtime for MLServer that serves an ONNX model: what a user of MLServer would write."""

from __future__ import annotations

from typing import Any

import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class Onnx(MLModel):
    """The ONNX file of the model's `uri`."""

    async def load(self) -> bool:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        uri = self.settings.parameters.uri
        self.session: Any = onnxruntime.InferenceSession(uri, options)
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        feed = {tensor.name: NumpyCodec.decode_input(tensor) for tensor in payload.inputs}
        names = [output.name for output in self.session.get_outputs()]
        found = self.session.run(names, feed)
        outputs = [
            NumpyCodec.encode_output(n, array) for n, array in zip(names, found, strict=True)
        ]
        return InferenceResponse(id=payload.id, model_name=self.name, outputs=outputs)
