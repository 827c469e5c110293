# SPDX-License-Identifier: Apache-2.0
"""A model with float32 in place of a 16-bit type, for engines that lack its kernels."""

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from suite import walk


def widened(model: onnx.ModelProto, low: int) -> onnx.ModelProto:
    """A copy in which every type, constant and dtype attribute that says low is float32."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for message in walk.messages(result):
        if isinstance(message, TensorProto) and message.data_type == low:
            array = numpy_helper.to_array(message).astype(np.float32)
            message.CopyFrom(numpy_helper.from_array(array, message.name))
        elif isinstance(message, (onnx.TypeProto.Tensor, onnx.TypeProto.SparseTensor)):
            if message.elem_type == low:
                message.elem_type = TensorProto.FLOAT
        elif isinstance(message, onnx.AttributeProto) and message.name in walk.DTYPE_ATTRIBUTES:
            if message.i == low:
                message.i = TensorProto.FLOAT
    # ONNX Runtime drops casts that change nothing even where a subgraph reads them.
    inferred = onnx.shape_inference.infer_shapes(result)
    floats = {value.name for message in walk.messages(inferred)
              if isinstance(message, onnx.GraphProto)
              for value in [*message.input, *message.value_info]
              if value.type.tensor_type.elem_type == TensorProto.FLOAT}
    for node in walk.model_nodes(result):
        own = any(p.key == "demi.inserted" for p in node.metadata_props)
        if own and node.input[0] in floats and node.attribute[0].i == TensorProto.FLOAT:
            node.op_type = "Identity"
            del node.attribute[:]
    return result


def fed(feeds: dict[str, object], low: str) -> dict[str, object]:
    """The inputs for a widened model."""
    return {name: value.astype(np.float32) if getattr(value, "dtype", None) == low else value
            for name, value in feeds.items()}
