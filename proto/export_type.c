// SPDX-License-Identifier: Apache-2.0
/* Export of the small messages: types, declarations, key-value entries, opset imports. */
#include "export_parts.h"

void put_entries(ExportPlan *plan, uint32_t number, const KeyValue *entries) {
    WireWriter *w = &plan->w;
    for (const KeyValue *entry = entries; entry; entry = entry->next) {
        writer_open(w, number, &onnx__string_string_entry_proto__descriptor, entry->rest);
        writer_put_sym(w, PB_ENTRY_KEY, entry->key);
        writer_put_sym(w, PB_ENTRY_VALUE, entry->value);
        writer_close(w);
    }
}

void put_name_ref(ExportPlan *plan, uint32_t number, const NameRef *ref) {
    writer_put_sym(&plan->w, number, ref->value && ref->name ? ref->value->name : ref->name);
}

void put_opsets(ExportPlan *plan, uint32_t number, const OpsetImports *opsets) {
    WireWriter *w = &plan->w;
    for (size_t i = 0; i < opsets->count; i++) {
        const OpsetImport *import = &opsets->items[i];
        writer_open(w, number, &onnx__operator_set_id_proto__descriptor, import->rest);
        writer_put_sym(w, PB_OPSET_DOMAIN, import->domain);
        if (import->has_version) writer_put_varint(w, PB_OPSET_VERSION, (uint64_t)import->version);
        writer_close(w);
    }
}

static void put_dim(WireWriter *w, const Dim *dim) {
    writer_open(w, PB_SHAPE_DIM, &onnx__tensor_shape_proto__dimension__descriptor,
                dim->extra ? dim->extra->rest : (Bytes){0});
    if (dim->kind == DIM_KNOWN) writer_put_varint(w, PB_DIM_DIM_VALUE, (uint64_t)dim->size);
    if (dim->kind == DIM_SYMBOL) writer_put_sym(w, PB_DIM_DIM_PARAM, dim->symbol);
    if (dim->extra) writer_put_sym(w, PB_DIM_DENOTATION, dim->extra->denotation);
    writer_close(w);
}

/* TypeProto.Tensor and TypeProto.SparseTensor, which have the same fields. */
static void put_tensor_type(WireWriter *w, const Type *type) {
    static const TypeExtra none;
    const TypeExtra *extra = type->extra ? type->extra : &none;
    bool sparse = type->kind == TYPE_SPARSE_TENSOR;
    writer_open(w, sparse ? PB_TYPE_SPARSE_TENSOR_TYPE : PB_TYPE_TENSOR_TYPE,
                sparse ? &onnx__type_proto__sparse_tensor__descriptor
                       : &onnx__type_proto__tensor__descriptor,
                extra->inner_rest);
    if (type->has_dtype)
        writer_put_varint(w, PB_TYPE_TENSOR_ELEM_TYPE, (uint64_t)(int64_t)type->dtype);
    if (type->has_shape) {
        writer_open(w, PB_TYPE_TENSOR_SHAPE, &onnx__tensor_shape_proto__descriptor,
                    extra->shape_rest);
        for (uint32_t i = 0; i < type->rank; i++) put_dim(w, &type->dims[i]);
        writer_close(w);
    }
    writer_close(w);
}

static void put_sequence_type(ExportPlan *plan, const Type *type) {
    bool optional = type->kind == TYPE_OPTIONAL;
    writer_open(&plan->w, optional ? PB_TYPE_OPTIONAL_TYPE : PB_TYPE_SEQUENCE_TYPE,
                optional ? &onnx__type_proto__optional__descriptor
                         : &onnx__type_proto__sequence__descriptor,
                type->extra ? type->extra->inner_rest : (Bytes){0});
    if (type->elem) put_type(plan, PB_TYPE_SEQUENCE_ELEM_TYPE, type->elem);
    writer_close(&plan->w);
}

static void put_map_type(ExportPlan *plan, const Type *type) {
    WireWriter *w = &plan->w;
    writer_open(w, PB_TYPE_MAP_TYPE, &onnx__type_proto__map__descriptor,
                type->extra ? type->extra->inner_rest : (Bytes){0});
    if (type->has_dtype) writer_put_varint(w, PB_TYPE_MAP_KEY_TYPE, (uint64_t)(int64_t)type->dtype);
    if (type->elem) put_type(plan, PB_TYPE_MAP_VALUE_TYPE, type->elem);
    writer_close(w);
}

void put_type(ExportPlan *plan, uint32_t number, const Type *type) {
    WireWriter *w = &plan->w;
    writer_open(w, number, &onnx__type_proto__descriptor,
                type->extra ? type->extra->rest : (Bytes){0});
    if (!w->failed) { /* not deeper than what the writer can hold */
        if (type->kind == TYPE_TENSOR) put_tensor_type(w, type);
        if (type->kind == TYPE_SEQUENCE) put_sequence_type(plan, type);
        if (type->kind == TYPE_MAP) put_map_type(plan, type);
        if (type->extra) writer_put_sym(w, PB_TYPE_DENOTATION, type->extra->denotation);
        if (type->kind == TYPE_SPARSE_TENSOR) put_tensor_type(w, type);
        if (type->kind == TYPE_OPTIONAL) put_sequence_type(plan, type);
    }
    writer_close(w);
}

void put_value_info(ExportPlan *plan, uint32_t number, Sym name, const ValueDecl *decl) {
    WireWriter *w = &plan->w;
    writer_open(w, number, &onnx__value_info_proto__descriptor, decl->rest);
    writer_put_sym(w, PB_VALUE_NAME, name);
    if (decl->type) put_type(plan, PB_VALUE_TYPE, decl->type);
    writer_put_sym(w, PB_VALUE_DOC_STRING, decl->doc);
    put_entries(plan, PB_VALUE_METADATA_PROPS, decl->metadata);
    writer_close(w);
}
