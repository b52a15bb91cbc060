"""MobileNet v1 on ImageNet.

The known file: mobilenet_v1_1.0_224.onnx (`input:0`, NCHW or NHWC,
`MobilenetV1/Predictions/Reshape_1:0` of 1001 scores, the first of a background).
"""

from runner.benchmarks.classification import make

MOBILENET = make(
    "mobilenet",
    "image classification on ImageNet by MobileNet v1, 1000 classes",
    preprocessing="mobilenet",
    input_name="input:0",
)
