# SPDX-License-Identifier: Apache-2.0
"""Models whose matrices alone are quantized: MatMul's constant second operand in blocks of 32 along
the depth, symmetric, with 4 or 8 bits. The same numbers are written in two ways: as
DequantizeLinear of opset 21 in front of MatMul, and as com.microsoft's MatMulNBits."""

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


def dequantized(name: str, numbers: np.ndarray, scales: np.ndarray,
                bits: int) -> tuple[list[onnx.TensorProto], list[onnx.NodeProto]]:
    flat = numbers.reshape(-1)
    flat = np.append(flat, np.zeros(flat.size % 2, np.int8))
    constant = TensorProto(name=f"{name}_q", data_type=TYPES[bits], dims=numbers.shape,
                           raw_data=pack(flat, bits).tobytes())
    node = helper.make_node("DequantizeLinear", [f"{name}_q", f"{name}_s"], [name], axis=0,
                            block_size=BLOCK)
    return [constant, numpy_helper.from_array(scales, f"{name}_s")], [node]


def nbits(node: onnx.NodeProto, name: str, numbers: np.ndarray, scales: np.ndarray,
          bits: int) -> list[onnx.TensorProto]:
    """Makes the MatMul such a node."""
    depth, columns = numbers.shape
    blocks, middle = scales.shape[0], 2 ** (bits - 1)
    padded = np.full((columns, blocks * BLOCK), middle, np.uint8)
    padded[:, :depth] = (numbers.astype(np.int16) + middle).T
    node.op_type, node.domain = "MatMulNBits", "com.microsoft"
    node.input[1:] = [f"{name}_n", f"{name}_ns"]
    for key, value in (("K", depth), ("N", columns), ("bits", bits), ("block_size", BLOCK)):
        node.attribute.append(helper.make_attribute(key, value))
    return [numpy_helper.from_array(pack(padded.reshape(columns, blocks, BLOCK), bits),
                                    f"{name}_n"),
            numpy_helper.from_array(np.ascontiguousarray(scales.T).reshape(-1), f"{name}_ns")]


def convert(model: onnx.ModelProto, bits: int, as_nbits: bool) -> int:
    """Changes the model, of opset 21 at least, in place; how many matrices became such."""
    graph, made = model.graph, 0
    constants = {t.name: t for t in graph.initializer}
    done: set[str] = set()
    nodes: list[onnx.NodeProto] = []
    for node in list(graph.node):
        name = node.input[1] if node.op_type == "MatMul" else ""
        tensor = constants.get(name)
        if tensor is not None and len(tensor.dims) == 2 and tensor.data_type == TensorProto.FLOAT:
            numbers, scales = quantize(numpy_helper.to_array(tensor), bits)
            made += 1
            if as_nbits:
                graph.initializer.extend(nbits(node, name, numbers, scales, bits))
            elif name not in done:
                added, before = dequantized(f"{name}_d", numbers, scales, bits)
                graph.initializer.extend(added)
                nodes += before
            if not as_nbits:
                node.input[1] = f"{name}_d"
            done.add(name)
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
