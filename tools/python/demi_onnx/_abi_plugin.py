# SPDX-License-Identifier: Apache-2.0
"""The structures of plug-ins (demi_plugin.h) as ctypes has them.

Written by tools/gen/gen_python.py from the public headers; not to be changed by hand.
"""

from __future__ import annotations

from ctypes import (CDLL, CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_double,
                    c_float, c_int, c_int32, c_int64, c_size_t, c_uint, c_uint8, c_uint32, c_uint64,
                    c_void_p, sizeof)
from typing import Any

from ._abi import (Sized)


class DemiPluginOption(Sized):
    size: int
    kind: int
    name: bytes | None
    help: bytes | None
    otherwise: bytes | None
    choices: Any


class DemiPluginPass(Sized):
    size: int
    scope: int
    name: bytes | None
    summary: bytes | None
    needs: int
    gives: int
    breaks: int
    idempotent: bool
    option_count: int
    options: Any
    run: Any


class DemiPlugin(Sized):
    size: int
    api_size: int
    pass_count: int
    passes: Any


class DemiNewNode(Sized):
    size: int
    op_type: bytes | None
    domain: bytes | None
    name: bytes | None
    before: int | None
    inputs: Any
    input_count: int
    outputs: Any
    output_count: int


class DemiApi(Sized):
    size: int
    version: int
    demi_version: bytes | None
    fail: Any
    hint: Any
    failed: Any
    rewrote: Any
    print: Any
    alloc: Any
    facts: Any
    option_bool: Any
    option_int: Any
    option_string: Any
    option_choice: Any
    option_strings: Any
    main_graph: Any
    graphs: Any
    ir_version: Any
    model_metadata: Any
    model_set_metadata: Any
    function_count: Any
    function_at: Any
    called_function: Any
    function_name: Any
    function_domain: Any
    function_body: Any
    graph_name: Any
    graph_parent: Any
    graph_owner: Any
    graph_function: Any
    graph_first: Any
    graph_last: Any
    graph_node_count: Any
    graph_input_count: Any
    graph_input: Any
    graph_output_count: Any
    graph_output: Any
    graph_output_type: Any
    graph_initializer_count: Any
    graph_initializer: Any
    graph_find_value: Any
    graph_opset: Any
    graph_import: Any
    node_next: Any
    node_previous: Any
    node_graph: Any
    node_op_type: Any
    node_domain: Any
    node_name: Any
    node_label: Any
    node_is_known: Any
    node_input_count: Any
    node_input: Any
    node_input_use: Any
    node_output_count: Any
    node_output: Any
    node_metadata: Any
    node_new: Any
    node_set_name: Any
    node_set_op: Any
    node_set_input: Any
    node_set_input_count: Any
    node_add_output: Any
    node_omit_output: Any
    node_move: Any
    node_remove: Any
    node_set_metadata: Any
    value_name: Any
    value_graph: Any
    value_producer: Any
    value_output_index: Any
    value_use_count: Any
    value_first_use: Any
    value_type: Any
    value_dtype: Any
    value_is_input: Any
    value_is_output: Any
    value_is_initializer: Any
    value_is_referenced: Any
    value_constant: Any
    value_initializer: Any
    use_next: Any
    use_value: Any
    use_node: Any
    use_graph: Any
    use_index: Any
    use_set: Any
    value_replace: Any
    value_rename: Any
    value_set_type: Any
    graph_declare_input: Any
    graph_declare_output: Any
    initializer_new: Any
    constant_set: Any
    initializer_remove: Any
    subgraph_new: Any
    graph_add_input: Any
    graph_add_output: Any
    node_first_attr: Any
    attr_next: Any
    node_attr: Any
    attr_name: Any
    attr_type: Any
    attr_parameter: Any
    attr_int: Any
    attr_float: Any
    attr_string: Any
    attr_tensor: Any
    attr_graph: Any
    attr_type_value: Any
    attr_count: Any
    attr_ints: Any
    attr_floats: Any
    attr_string_at: Any
    attr_tensor_at: Any
    attr_graph_at: Any
    node_set_int: Any
    node_set_float: Any
    node_set_string: Any
    node_set_tensor: Any
    node_set_type: Any
    node_set_ints: Any
    node_set_floats: Any
    node_set_strings: Any
    node_remove_attr: Any
    dtype_name: Any
    dtype_from_name: Any
    dtype_bits: Any
    type_kind: Any
    type_dtype: Any
    type_element: Any
    type_has_rank: Any
    type_rank: Any
    type_dim: Any
    type_tensor: Any
    type_sequence: Any
    type_optional: Any
    type_with_dtype: Any
    tensor_dtype: Any
    tensor_rank: Any
    tensor_dims: Any
    tensor_count: Any
    tensor_bytes: Any
    tensor_read: Any
    tensor_read_floats: Any
    tensor_read_ints: Any
    tensor_string: Any
    tensor_new: Any
    tensor_new_strings: Any
    tensor_new_cast: Any


DemiPluginOption._fields_ = [
    ("size", c_uint32), ("kind", c_int), ("name", c_char_p), ("help", c_char_p),
    ("otherwise", c_char_p), ("choices", POINTER(c_char_p))]
DemiPluginPass._fields_ = [
    ("size", c_uint32), ("scope", c_int), ("name", c_char_p), ("summary", c_char_p),
    ("needs", c_uint32), ("gives", c_uint32), ("breaks", c_uint32), ("idempotent", c_bool),
    ("option_count", c_size_t), ("options", POINTER(DemiPluginOption)),
    ("run", CFUNCTYPE(c_bool, c_void_p, c_void_p, c_void_p))]
DemiPlugin._fields_ = [
    ("size", c_uint32), ("api_size", c_uint32), ("pass_count", c_size_t),
    ("passes", POINTER(DemiPluginPass))]
DemiNewNode._fields_ = [
    ("size", c_uint32), ("op_type", c_char_p), ("domain", c_char_p), ("name", c_char_p),
    ("before", c_void_p), ("inputs", POINTER(c_void_p)), ("input_count", c_size_t),
    ("outputs", POINTER(c_char_p)), ("output_count", c_size_t)]
DemiApi._fields_ = [
    ("size", c_uint32), ("version", c_uint32), ("demi_version", c_char_p),
    ("fail", CFUNCTYPE(c_bool, c_void_p, c_int, c_void_p, c_char_p)),
    ("hint", CFUNCTYPE(c_bool, c_void_p, c_char_p)), ("failed", CFUNCTYPE(c_bool, c_void_p)),
    ("rewrote", CFUNCTYPE(None, c_void_p, c_uint64)),
    ("print", CFUNCTYPE(c_bool, c_void_p, c_char_p)),
    ("alloc", CFUNCTYPE(c_void_p, c_void_p, c_size_t)), ("facts", CFUNCTYPE(c_uint32, c_void_p)),
    ("option_bool", CFUNCTYPE(c_bool, c_void_p, c_char_p)),
    ("option_int", CFUNCTYPE(c_int64, c_void_p, c_char_p)),
    ("option_string", CFUNCTYPE(c_char_p, c_void_p, c_char_p)),
    ("option_choice", CFUNCTYPE(c_size_t, c_void_p, c_char_p)),
    ("option_strings", CFUNCTYPE(c_void_p, c_void_p, c_char_p, POINTER(c_size_t))),
    ("main_graph", CFUNCTYPE(c_void_p, c_void_p)),
    ("graphs", CFUNCTYPE(c_void_p, c_void_p, POINTER(c_size_t))),
    ("ir_version", CFUNCTYPE(c_int64, c_void_p)),
    ("model_metadata", CFUNCTYPE(c_char_p, c_void_p, c_char_p)),
    ("model_set_metadata", CFUNCTYPE(c_bool, c_void_p, c_char_p, c_char_p)),
    ("function_count", CFUNCTYPE(c_size_t, c_void_p)),
    ("function_at", CFUNCTYPE(c_void_p, c_void_p, c_size_t)),
    ("called_function", CFUNCTYPE(c_void_p, c_void_p, c_void_p)),
    ("function_name", CFUNCTYPE(c_char_p, c_void_p)),
    ("function_domain", CFUNCTYPE(c_char_p, c_void_p)),
    ("function_body", CFUNCTYPE(c_void_p, c_void_p)),
    ("graph_name", CFUNCTYPE(c_char_p, c_void_p)), ("graph_parent", CFUNCTYPE(c_void_p, c_void_p)),
    ("graph_owner", CFUNCTYPE(c_void_p, c_void_p)),
    ("graph_function", CFUNCTYPE(c_void_p, c_void_p)),
    ("graph_first", CFUNCTYPE(c_void_p, c_void_p)), ("graph_last", CFUNCTYPE(c_void_p, c_void_p)),
    ("graph_node_count", CFUNCTYPE(c_size_t, c_void_p)),
    ("graph_input_count", CFUNCTYPE(c_size_t, c_void_p)),
    ("graph_input", CFUNCTYPE(c_void_p, c_void_p, c_size_t)),
    ("graph_output_count", CFUNCTYPE(c_size_t, c_void_p)),
    ("graph_output", CFUNCTYPE(c_void_p, c_void_p, c_size_t)),
    ("graph_output_type", CFUNCTYPE(c_void_p, c_void_p, c_size_t)),
    ("graph_initializer_count", CFUNCTYPE(c_size_t, c_void_p)),
    ("graph_initializer", CFUNCTYPE(c_void_p, c_void_p, c_size_t)),
    ("graph_find_value", CFUNCTYPE(c_void_p, c_void_p, c_char_p)),
    ("graph_opset", CFUNCTYPE(c_int64, c_void_p, c_char_p)),
    ("graph_import", CFUNCTYPE(c_bool, c_void_p, c_void_p, c_char_p, c_int64)),
    ("node_next", CFUNCTYPE(c_void_p, c_void_p)), ("node_previous", CFUNCTYPE(c_void_p, c_void_p)),
    ("node_graph", CFUNCTYPE(c_void_p, c_void_p)), ("node_op_type", CFUNCTYPE(c_char_p, c_void_p)),
    ("node_domain", CFUNCTYPE(c_char_p, c_void_p)), ("node_name", CFUNCTYPE(c_char_p, c_void_p)),
    ("node_label", CFUNCTYPE(c_char_p, c_void_p)), ("node_is_known", CFUNCTYPE(c_bool, c_void_p)),
    ("node_input_count", CFUNCTYPE(c_size_t, c_void_p)),
    ("node_input", CFUNCTYPE(c_void_p, c_void_p, c_size_t)),
    ("node_input_use", CFUNCTYPE(c_void_p, c_void_p, c_size_t)),
    ("node_output_count", CFUNCTYPE(c_size_t, c_void_p)),
    ("node_output", CFUNCTYPE(c_void_p, c_void_p, c_size_t)),
    ("node_metadata", CFUNCTYPE(c_char_p, c_void_p, c_char_p)),
    ("node_new", CFUNCTYPE(c_void_p, c_void_p, c_void_p, POINTER(DemiNewNode))),
    ("node_set_name", CFUNCTYPE(c_bool, c_void_p, c_void_p, c_char_p)),
    ("node_set_op", CFUNCTYPE(c_bool, c_void_p, c_void_p, c_char_p, c_char_p)),
    ("node_set_input", CFUNCTYPE(c_bool, c_void_p, c_void_p, c_size_t, c_void_p)),
    ("node_set_input_count", CFUNCTYPE(c_bool, c_void_p, c_void_p, c_size_t)),
    ("node_add_output", CFUNCTYPE(c_void_p, c_void_p, c_void_p, c_char_p)),
    ("node_omit_output", CFUNCTYPE(c_bool, c_void_p, c_void_p, c_size_t)),
    ("node_move", CFUNCTYPE(c_bool, c_void_p, c_void_p, c_void_p)),
    ("node_remove", CFUNCTYPE(c_bool, c_void_p, c_void_p)),
    ("node_set_metadata", CFUNCTYPE(c_bool, c_void_p, c_void_p, c_char_p, c_char_p)),
    ("value_name", CFUNCTYPE(c_char_p, c_void_p)), ("value_graph", CFUNCTYPE(c_void_p, c_void_p)),
    ("value_producer", CFUNCTYPE(c_void_p, c_void_p)),
    ("value_output_index", CFUNCTYPE(c_size_t, c_void_p)),
    ("value_use_count", CFUNCTYPE(c_size_t, c_void_p)),
    ("value_first_use", CFUNCTYPE(c_void_p, c_void_p)),
    ("value_type", CFUNCTYPE(c_void_p, c_void_p)), ("value_dtype", CFUNCTYPE(c_int, c_void_p)),
    ("value_is_input", CFUNCTYPE(c_bool, c_void_p)),
    ("value_is_output", CFUNCTYPE(c_bool, c_void_p)),
    ("value_is_initializer", CFUNCTYPE(c_bool, c_void_p)),
    ("value_is_referenced", CFUNCTYPE(c_bool, c_void_p)),
    ("value_constant", CFUNCTYPE(c_void_p, c_void_p, c_void_p)),
    ("value_initializer", CFUNCTYPE(c_void_p, c_void_p)),
    ("use_next", CFUNCTYPE(c_void_p, c_void_p)), ("use_value", CFUNCTYPE(c_void_p, c_void_p)),
    ("use_node", CFUNCTYPE(c_void_p, c_void_p)), ("use_graph", CFUNCTYPE(c_void_p, c_void_p)),
    ("use_index", CFUNCTYPE(c_size_t, c_void_p)),
    ("use_set", CFUNCTYPE(c_bool, c_void_p, c_void_p, c_void_p)),
    ("value_replace", CFUNCTYPE(c_bool, c_void_p, c_void_p, c_void_p)),
    ("value_rename", CFUNCTYPE(c_bool, c_void_p, c_void_p, c_char_p)),
    ("value_set_type", CFUNCTYPE(c_bool, c_void_p, c_void_p, c_void_p)),
    ("graph_declare_input", CFUNCTYPE(c_bool, c_void_p, c_void_p, c_size_t, c_int)),
    ("graph_declare_output", CFUNCTYPE(c_bool, c_void_p, c_void_p, c_size_t, c_int)),
    ("initializer_new", CFUNCTYPE(c_void_p, c_void_p, c_void_p, c_char_p, c_void_p)),
    ("constant_set", CFUNCTYPE(c_bool, c_void_p, c_void_p, c_void_p)),
    ("initializer_remove", CFUNCTYPE(c_bool, c_void_p, c_void_p)),
    ("subgraph_new", CFUNCTYPE(c_void_p, c_void_p, c_void_p, c_char_p)),
    ("graph_add_input", CFUNCTYPE(c_void_p, c_void_p, c_void_p, c_char_p, c_void_p)),
    ("graph_add_output", CFUNCTYPE(c_bool, c_void_p, c_void_p, c_void_p)),
    ("node_first_attr", CFUNCTYPE(c_void_p, c_void_p)),
    ("attr_next", CFUNCTYPE(c_void_p, c_void_p)),
    ("node_attr", CFUNCTYPE(c_void_p, c_void_p, c_char_p)),
    ("attr_name", CFUNCTYPE(c_char_p, c_void_p)), ("attr_type", CFUNCTYPE(c_int, c_void_p)),
    ("attr_parameter", CFUNCTYPE(c_char_p, c_void_p)),
    ("attr_int", CFUNCTYPE(c_int64, c_void_p, c_int64)),
    ("attr_float", CFUNCTYPE(c_double, c_void_p, c_double)),
    ("attr_string", CFUNCTYPE(c_char_p, c_void_p, c_void_p, POINTER(c_size_t))),
    ("attr_tensor", CFUNCTYPE(c_void_p, c_void_p)), ("attr_graph", CFUNCTYPE(c_void_p, c_void_p)),
    ("attr_type_value", CFUNCTYPE(c_void_p, c_void_p)),
    ("attr_count", CFUNCTYPE(c_size_t, c_void_p)), ("attr_ints", CFUNCTYPE(c_void_p, c_void_p)),
    ("attr_floats", CFUNCTYPE(c_void_p, c_void_p)),
    ("attr_string_at", CFUNCTYPE(c_char_p, c_void_p, c_void_p, c_size_t, POINTER(c_size_t))),
    ("attr_tensor_at", CFUNCTYPE(c_void_p, c_void_p, c_size_t)),
    ("attr_graph_at", CFUNCTYPE(c_void_p, c_void_p, c_size_t)),
    ("node_set_int", CFUNCTYPE(c_bool, c_void_p, c_void_p, c_char_p, c_int64)),
    ("node_set_float", CFUNCTYPE(c_bool, c_void_p, c_void_p, c_char_p, c_double)),
    ("node_set_string", CFUNCTYPE(c_bool, c_void_p, c_void_p, c_char_p, c_char_p)),
    ("node_set_tensor", CFUNCTYPE(c_bool, c_void_p, c_void_p, c_char_p, c_void_p)),
    ("node_set_type", CFUNCTYPE(c_bool, c_void_p, c_void_p, c_char_p, c_void_p)),
    ("node_set_ints", CFUNCTYPE(c_bool, c_void_p, c_void_p, c_char_p, POINTER(c_int64), c_size_t)),
    ("node_set_floats", CFUNCTYPE(c_bool, c_void_p, c_void_p, c_char_p, POINTER(c_float), c_size_t)),
    ("node_set_strings", CFUNCTYPE(c_bool, c_void_p, c_void_p, c_char_p, POINTER(c_char_p), c_size_t)),
    ("node_remove_attr", CFUNCTYPE(c_bool, c_void_p, c_void_p, c_char_p)),
    ("dtype_name", CFUNCTYPE(c_char_p, c_int)), ("dtype_from_name", CFUNCTYPE(c_int, c_char_p)),
    ("dtype_bits", CFUNCTYPE(c_uint, c_int)), ("type_kind", CFUNCTYPE(c_int, c_void_p)),
    ("type_dtype", CFUNCTYPE(c_int, c_void_p)), ("type_element", CFUNCTYPE(c_void_p, c_void_p)),
    ("type_has_rank", CFUNCTYPE(c_bool, c_void_p)), ("type_rank", CFUNCTYPE(c_size_t, c_void_p)),
    ("type_dim", CFUNCTYPE(c_int64, c_void_p, c_size_t, POINTER(c_char_p))),
    ("type_tensor", CFUNCTYPE(c_void_p, c_void_p, c_int, POINTER(c_int64), POINTER(c_char_p), c_size_t)),
    ("type_sequence", CFUNCTYPE(c_void_p, c_void_p, c_void_p)),
    ("type_optional", CFUNCTYPE(c_void_p, c_void_p, c_void_p)),
    ("type_with_dtype", CFUNCTYPE(c_void_p, c_void_p, c_void_p, c_int)),
    ("tensor_dtype", CFUNCTYPE(c_int, c_void_p)), ("tensor_rank", CFUNCTYPE(c_size_t, c_void_p)),
    ("tensor_dims", CFUNCTYPE(c_void_p, c_void_p)),
    ("tensor_count", CFUNCTYPE(c_uint64, c_void_p)),
    ("tensor_bytes", CFUNCTYPE(c_uint64, c_void_p)),
    ("tensor_read", CFUNCTYPE(c_bool, c_void_p, c_void_p, c_uint64, c_void_p, c_uint64)),
    ("tensor_read_floats", CFUNCTYPE(c_bool, c_void_p, c_void_p, c_uint64, c_uint64, POINTER(c_float))),
    ("tensor_read_ints", CFUNCTYPE(c_bool, c_void_p, c_void_p, c_uint64, c_uint64, POINTER(c_int64))),
    ("tensor_string", CFUNCTYPE(c_char_p, c_void_p, c_void_p, c_uint64, POINTER(c_size_t))),
    ("tensor_new", CFUNCTYPE(c_void_p, c_void_p, c_int, POINTER(c_int64), c_size_t, c_void_p)),
    ("tensor_new_strings", CFUNCTYPE(c_void_p, c_void_p, POINTER(c_int64), c_size_t, POINTER(c_char_p))),
    ("tensor_new_cast", CFUNCTYPE(c_void_p, c_void_p, c_void_p, c_int))]
