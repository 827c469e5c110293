# SPDX-License-Identifier: Apache-2.0
"""Models whose matrices alone are quantized: the constant second operand of MatMul and Gemm in
blocks of 32 along the depth, symmetric, with 4 or 8 bits. The same numbers are written in two ways:
as DequantizeLinear of opset 21 in front of it, and as com.microsoft's MatMulNBits."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BLOCK = 32
TYPES = {4: TensorProto.INT4, 8: TensorProto.INT8}


def quantize(weights: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """[depth, columns] as numbers, and scales [blocks, columns]; blocks may end early."""
    depth, columns = weights.shape
    blocks = -(-depth // BLOCK)
    padded = np.zeros((blocks * BLOCK, columns), np.float32)
    padded[:depth] = weights
    most = 2 ** (bits - 1) - 1
    scales = np.abs(padded.reshape(blocks, BLOCK, columns)).max(1) / most
    scales = np.where(scales == 0, 1, scales).astype(np.float32)
    numbers = np.rint(padded / np.repeat(scales, BLOCK, 0)).astype(np.int8)
    return numbers[:depth], scales


def pack(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Bytes, the first of two in the low half, of numbers whose last axis has an even length."""
    if bits == 8:
        return numbers.astype(np.uint8)
    low, high = numbers[..., 0::2].astype(np.uint8) & 15, numbers[..., 1::2].astype(np.uint8) & 15
    return low | high << 4


def dequantized(name: str, numbers: np.ndarray, scales: np.ndarray, bits: int,
                turned: bool) -> tuple[list[onnx.TensorProto], list[onnx.NodeProto]]:
    if turned:
        numbers, scales = numbers.T, np.ascontiguousarray(scales.T)
    flat = numbers.reshape(-1)
    flat = np.append(flat, np.zeros(flat.size % 2, np.int8))
    constant = TensorProto(name=f"{name}_q", data_type=TYPES[bits], dims=numbers.shape,
                           raw_data=pack(flat, bits).tobytes())
    node = helper.make_node("DequantizeLinear", [f"{name}_q", f"{name}_s"], [name],
                            axis=int(turned), block_size=BLOCK)
    return [constant, numpy_helper.from_array(scales, f"{name}_s")], [node]


def nbits(node: onnx.NodeProto, name: str, numbers: np.ndarray, scales: np.ndarray,
          bits: int) -> list[onnx.TensorProto]:
    """Makes the MatMul or Gemm such a node."""
    depth, columns = numbers.shape
    blocks, middle = scales.shape[0], 2 ** (bits - 1)
    padded = np.full((columns, blocks * BLOCK), middle, np.uint8)
    padded[:, :depth] = (numbers.astype(np.int16) + middle).T
    node.op_type, node.domain = "MatMulNBits", "com.microsoft"
    bias = ["", "", node.input[2]] if len(node.input) > 2 else []
    node.input[1:] = [f"{name}_n", f"{name}_ns", *bias]
    del node.attribute[:]
    for key, value in (("K", depth), ("N", columns), ("bits", bits), ("block_size", BLOCK)):
        node.attribute.append(helper.make_attribute(key, value))
    return [numpy_helper.from_array(pack(padded.reshape(columns, blocks, BLOCK), bits),
                                    f"{name}_n"),
            numpy_helper.from_array(np.ascontiguousarray(scales.T).reshape(-1), f"{name}_ns")]


def turns(node: onnx.NodeProto) -> bool | None:
    """Whether the second operand is transposed; None where the node is no plain product."""
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    turned = bool(given.pop("transB", 0))
    plain = {"transA": 0, "alpha": 1.0, "beta": 1.0}
    if node.op_type not in ("MatMul", "Gemm") or any(plain[k] != v for k, v in given.items()):
        return None
    return turned


def convert(model: onnx.ModelProto, bits: int, as_nbits: bool) -> int:
    """Changes the model, of opset 21 at least, in place; how many matrices became such."""
    graph, made = model.graph, 0
    constants = {t.name: t for t in graph.initializer}
    nodes: list[onnx.NodeProto] = []
    for node in list(graph.node):
        turned = turns(node)
        tensor = None if turned is None else constants.get(node.input[1])
        if tensor is not None and len(tensor.dims) == 2 and tensor.data_type == TensorProto.FLOAT:
            weights, name = numpy_helper.to_array(tensor), f"matrix{made}"
            numbers, scales = quantize(weights.T if turned else weights, bits)
            made += 1
            if as_nbits:
                graph.initializer.extend(nbits(node, name, numbers, scales, bits))
            else:
                added, before = dequantized(name, numbers, scales, bits, turned)
                graph.initializer.extend(added)
                nodes += before
                node.input[1] = name
        nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)
    read = {name for node in nodes for name in node.input}
    kept = [t for t in graph.initializer if t.name in read]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    if as_nbits:
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    model.ir_version = max(model.ir_version, 10)
    return made
