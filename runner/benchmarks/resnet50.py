"""ResNet-50 v1.5 on ImageNet.

The known files: resnet50_v1.onnx (`input_tensor:0`, NCHW, `ArgMax:0` and `softmax_tensor:0` of
1001 classes, the first a background) and PyTorch's export (1000 scores).  For a model that was
trained with PyTorch's preprocessing, say `preprocessing = "pytorch"` beside it.
"""

from runner.benchmarks.classification import make

RESNET50 = make(
    "resnet50",
    "image classification on ImageNet by ResNet-50 v1.5, 1000 classes",
    preprocessing="resnet50",
    input_name="input_tensor:0",
)
