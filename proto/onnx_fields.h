// SPDX-License-Identifier: Apache-2.0
/* Numbers of the ONNX message fields that the export writes itself: F(enumerator, message as
 * protobuf-c spells it, field name, number). A test compares every row with the generated
 * descriptors. Fields that the graph does not model are missing: they pass through as `rest` bytes.
 */
#ifndef DEMI_ONNX_FIELDS_H
#define DEMI_ONNX_FIELDS_H

// clang-format off
#define ONNX_FIELDS(F) \
    F(PB_MODEL_IR_VERSION, model_proto, ir_version, 1) \
    F(PB_MODEL_PRODUCER_NAME, model_proto, producer_name, 2) \
    F(PB_MODEL_PRODUCER_VERSION, model_proto, producer_version, 3) \
    F(PB_MODEL_DOMAIN, model_proto, domain, 4) \
    F(PB_MODEL_MODEL_VERSION, model_proto, model_version, 5) \
    F(PB_MODEL_DOC_STRING, model_proto, doc_string, 6) \
    F(PB_MODEL_GRAPH, model_proto, graph, 7) \
    F(PB_MODEL_OPSET_IMPORT, model_proto, opset_import, 8) \
    F(PB_MODEL_METADATA_PROPS, model_proto, metadata_props, 14) \
    F(PB_MODEL_TRAINING_INFO, model_proto, training_info, 20) \
    F(PB_MODEL_FUNCTIONS, model_proto, functions, 25) \
    F(PB_TRAINING_INITIALIZATION, training_info_proto, initialization, 1) \
    F(PB_TRAINING_ALGORITHM, training_info_proto, algorithm, 2) \
    F(PB_TRAINING_INITIALIZATION_BINDING, training_info_proto, initialization_binding, 3) \
    F(PB_TRAINING_UPDATE_BINDING, training_info_proto, update_binding, 4) \
    F(PB_GRAPH_NODE, graph_proto, node, 1) \
    F(PB_GRAPH_NAME, graph_proto, name, 2) \
    F(PB_GRAPH_INITIALIZER, graph_proto, initializer, 5) \
    F(PB_GRAPH_DOC_STRING, graph_proto, doc_string, 10) \
    F(PB_GRAPH_INPUT, graph_proto, input, 11) \
    F(PB_GRAPH_OUTPUT, graph_proto, output, 12) \
    F(PB_GRAPH_VALUE_INFO, graph_proto, value_info, 13) \
    F(PB_GRAPH_QUANTIZATION_ANNOTATION, graph_proto, quantization_annotation, 14) \
    F(PB_GRAPH_SPARSE_INITIALIZER, graph_proto, sparse_initializer, 15) \
    F(PB_GRAPH_METADATA_PROPS, graph_proto, metadata_props, 16) \
    F(PB_FUNCTION_NAME, function_proto, name, 1) \
    F(PB_FUNCTION_INPUT, function_proto, input, 4) \
    F(PB_FUNCTION_OUTPUT, function_proto, output, 5) \
    F(PB_FUNCTION_ATTRIBUTE, function_proto, attribute, 6) \
    F(PB_FUNCTION_NODE, function_proto, node, 7) \
    F(PB_FUNCTION_DOC_STRING, function_proto, doc_string, 8) \
    F(PB_FUNCTION_OPSET_IMPORT, function_proto, opset_import, 9) \
    F(PB_FUNCTION_DOMAIN, function_proto, domain, 10) \
    F(PB_FUNCTION_ATTRIBUTE_PROTO, function_proto, attribute_proto, 11) \
    F(PB_FUNCTION_VALUE_INFO, function_proto, value_info, 12) \
    F(PB_FUNCTION_OVERLOAD, function_proto, overload, 13) \
    F(PB_FUNCTION_METADATA_PROPS, function_proto, metadata_props, 14) \
    F(PB_NODE_INPUT, node_proto, input, 1) \
    F(PB_NODE_OUTPUT, node_proto, output, 2) \
    F(PB_NODE_NAME, node_proto, name, 3) \
    F(PB_NODE_OP_TYPE, node_proto, op_type, 4) \
    F(PB_NODE_ATTRIBUTE, node_proto, attribute, 5) \
    F(PB_NODE_DOC_STRING, node_proto, doc_string, 6) \
    F(PB_NODE_DOMAIN, node_proto, domain, 7) \
    F(PB_NODE_OVERLOAD, node_proto, overload, 8) \
    F(PB_NODE_METADATA_PROPS, node_proto, metadata_props, 9) \
    F(PB_NODE_DEVICE_CONFIGURATIONS, node_proto, device_configurations, 10) \
    F(PB_ATTR_NAME, attribute_proto, name, 1) \
    F(PB_ATTR_F, attribute_proto, f, 2) \
    F(PB_ATTR_I, attribute_proto, i, 3) \
    F(PB_ATTR_S, attribute_proto, s, 4) \
    F(PB_ATTR_T, attribute_proto, t, 5) \
    F(PB_ATTR_G, attribute_proto, g, 6) \
    F(PB_ATTR_FLOATS, attribute_proto, floats, 7) \
    F(PB_ATTR_INTS, attribute_proto, ints, 8) \
    F(PB_ATTR_STRINGS, attribute_proto, strings, 9) \
    F(PB_ATTR_TENSORS, attribute_proto, tensors, 10) \
    F(PB_ATTR_GRAPHS, attribute_proto, graphs, 11) \
    F(PB_ATTR_DOC_STRING, attribute_proto, doc_string, 13) \
    F(PB_ATTR_TP, attribute_proto, tp, 14) \
    F(PB_ATTR_TYPE_PROTOS, attribute_proto, type_protos, 15) \
    F(PB_ATTR_TYPE, attribute_proto, type, 20) \
    F(PB_ATTR_REF_ATTR_NAME, attribute_proto, ref_attr_name, 21) \
    F(PB_ATTR_SPARSE_TENSOR, attribute_proto, sparse_tensor, 22) \
    F(PB_ATTR_SPARSE_TENSORS, attribute_proto, sparse_tensors, 23) \
    F(PB_TENSOR_DIMS, tensor_proto, dims, 1) \
    F(PB_TENSOR_DATA_TYPE, tensor_proto, data_type, 2) \
    F(PB_TENSOR_FLOAT_DATA, tensor_proto, float_data, 4) \
    F(PB_TENSOR_INT32_DATA, tensor_proto, int32_data, 5) \
    F(PB_TENSOR_STRING_DATA, tensor_proto, string_data, 6) \
    F(PB_TENSOR_INT64_DATA, tensor_proto, int64_data, 7) \
    F(PB_TENSOR_NAME, tensor_proto, name, 8) \
    F(PB_TENSOR_RAW_DATA, tensor_proto, raw_data, 9) \
    F(PB_TENSOR_DOUBLE_DATA, tensor_proto, double_data, 10) \
    F(PB_TENSOR_UINT64_DATA, tensor_proto, uint64_data, 11) \
    F(PB_TENSOR_DOC_STRING, tensor_proto, doc_string, 12) \
    F(PB_TENSOR_EXTERNAL_DATA, tensor_proto, external_data, 13) \
    F(PB_TENSOR_DATA_LOCATION, tensor_proto, data_location, 14) \
    F(PB_TENSOR_METADATA_PROPS, tensor_proto, metadata_props, 16) \
    F(PB_SPARSE_VALUES, sparse_tensor_proto, values, 1) \
    F(PB_SPARSE_INDICES, sparse_tensor_proto, indices, 2) \
    F(PB_SPARSE_DIMS, sparse_tensor_proto, dims, 3) \
    F(PB_VALUE_NAME, value_info_proto, name, 1) \
    F(PB_VALUE_TYPE, value_info_proto, type, 2) \
    F(PB_VALUE_DOC_STRING, value_info_proto, doc_string, 3) \
    F(PB_VALUE_METADATA_PROPS, value_info_proto, metadata_props, 4) \
    F(PB_TYPE_TENSOR_TYPE, type_proto, tensor_type, 1) \
    F(PB_TYPE_SEQUENCE_TYPE, type_proto, sequence_type, 4) \
    F(PB_TYPE_MAP_TYPE, type_proto, map_type, 5) \
    F(PB_TYPE_DENOTATION, type_proto, denotation, 6) \
    F(PB_TYPE_SPARSE_TENSOR_TYPE, type_proto, sparse_tensor_type, 8) \
    F(PB_TYPE_OPTIONAL_TYPE, type_proto, optional_type, 9) \
    F(PB_TYPE_TENSOR_ELEM_TYPE, type_proto__tensor, elem_type, 1) \
    F(PB_TYPE_TENSOR_SHAPE, type_proto__tensor, shape, 2) \
    F(PB_TYPE_SEQUENCE_ELEM_TYPE, type_proto__sequence, elem_type, 1) \
    F(PB_TYPE_OPTIONAL_ELEM_TYPE, type_proto__optional, elem_type, 1) \
    F(PB_TYPE_MAP_KEY_TYPE, type_proto__map, key_type, 1) \
    F(PB_TYPE_MAP_VALUE_TYPE, type_proto__map, value_type, 2) \
    F(PB_SHAPE_DIM, tensor_shape_proto, dim, 1) \
    F(PB_DIM_DIM_VALUE, tensor_shape_proto__dimension, dim_value, 1) \
    F(PB_DIM_DIM_PARAM, tensor_shape_proto__dimension, dim_param, 2) \
    F(PB_DIM_DENOTATION, tensor_shape_proto__dimension, denotation, 3) \
    F(PB_ENTRY_KEY, string_string_entry_proto, key, 1) \
    F(PB_ENTRY_VALUE, string_string_entry_proto, value, 2) \
    F(PB_OPSET_DOMAIN, operator_set_id_proto, domain, 1) \
    F(PB_OPSET_VERSION, operator_set_id_proto, version, 2) \
    F(PB_ANNOTATION_TENSOR_NAME, tensor_annotation, tensor_name, 1) \
    F(PB_ANNOTATION_PARAMS, tensor_annotation, quant_parameter_tensor_names, 2) \
    F(PB_DEVICE_SHARDING_SPEC, node_device_configuration_proto, sharding_spec, 2) \
    F(PB_SHARDING_TENSOR_NAME, sharding_spec_proto, tensor_name, 1)
// clang-format on

#define ONNX_FIELD_ENUMERATOR(enumerator, message, name, number) enumerator = number,
enum OnnxField { ONNX_FIELDS(ONNX_FIELD_ENUMERATOR) };
#undef ONNX_FIELD_ENUMERATOR

#endif
