// SPDX-License-Identifier: Apache-2.0
/* Export of nodes and attributes. */
#include "export_parts.h"
#include "fused_ops.h"

/* ---- attributes ------------------------------------------------------------------------------ */

static void put_floats(WireWriter *w, const Attr *attr) {
    for (uint32_t i = 0; i < attr->count; i++)
        writer_put_float(w, PB_ATTR_FLOATS, attr->v.floats[i]);
}

static void put_ints(WireWriter *w, const Attr *attr) {
    for (uint32_t i = 0; i < attr->count; i++)
        writer_put_varint(w, PB_ATTR_INTS, (uint64_t)attr->v.ints[i]);
}

static void put_strings(WireWriter *w, const Attr *attr) {
    for (uint32_t i = 0; i < attr->count; i++)
        writer_put_bytes(w, PB_ATTR_STRINGS, attr->v.strings[i].data, attr->v.strings[i].size);
}

static void put_messages(ExportPlan *plan, const Attr *attr) {
    const TensorField tensors = {.number = PB_ATTR_TENSORS, .role = ROLE_OTHER};
    const TensorField sparses = {.number = PB_ATTR_SPARSE_TENSORS, .role = ROLE_OTHER};
    for (uint32_t i = 0; i < attr->count; i++) {
        if (attr->type == ATTR_TENSORS) put_tensor(plan, &tensors, attr->v.tensors[i]);
        if (attr->type == ATTR_GRAPHS) put_graph(plan, PB_ATTR_GRAPHS, attr->v.graphs[i]);
        if (attr->type == ATTR_TYPES) put_type(plan, PB_ATTR_TYPE_PROTOS, attr->v.types[i]);
        if (attr->type == ATTR_SPARSE_TENSORS)
            put_sparse_tensor(plan, &sparses, attr->v.sparses[i]);
    }
}

/* The one value that this part of an attribute holds. */
static void put_attr_value(ExportPlan *plan, const Attr *attr) {
    WireWriter *w = &plan->w;
    const TensorField tensor = {.number = PB_ATTR_T, .role = ROLE_OTHER};
    const TensorField sparse = {.number = PB_ATTR_SPARSE_TENSOR, .role = ROLE_OTHER};
    switch (attr->type) {
    case ATTR_UNDEFINED: return;
    case ATTR_FLOAT:
        if (attr->has_value) writer_put_float(w, PB_ATTR_F, attr->v.f);
        return;
    case ATTR_INT:
        if (attr->has_value) writer_put_varint(w, PB_ATTR_I, (uint64_t)attr->v.i);
        return;
    case ATTR_STRING:
        if (attr->has_value) writer_put_bytes(w, PB_ATTR_S, attr->v.s.data, attr->v.s.size);
        return;
    case ATTR_TENSOR:
        if (attr->v.t) put_tensor(plan, &tensor, attr->v.t);
        return;
    case ATTR_GRAPH:
        if (attr->v.g) put_graph(plan, PB_ATTR_G, attr->v.g);
        return;
    case ATTR_SPARSE_TENSOR:
        if (attr->v.sparse) put_sparse_tensor(plan, &sparse, attr->v.sparse);
        return;
    case ATTR_TYPE:
        if (attr->v.tp) put_type(plan, PB_ATTR_TP, attr->v.tp);
        return;
    case ATTR_FLOATS: put_floats(w, attr); return;
    case ATTR_INTS: put_ints(w, attr); return;
    case ATTR_STRINGS: put_strings(w, attr); return;
    case ATTR_TENSORS:
    case ATTR_GRAPHS:
    case ATTR_SPARSE_TENSORS:
    case ATTR_TYPES: put_messages(plan, attr); return;
    }
}

/* The values whose field numbers lie between those of doc_string and ref_attr_name, in that order;
 * `types` ends with UNDEFINED. */
static void put_attr_values(ExportPlan *plan, const Attr *attr, const AttrType *types) {
    for (; *types != ATTR_UNDEFINED; types++)
        for (const Attr *part = attr; part; part = part->also)
            if (part->type == *types) put_attr_value(plan, part);
}

void put_attr(ExportPlan *plan, uint32_t number, const Attr *attr) {
    /* By field number. */
    static const AttrType before_doc[] = {ATTR_FLOAT,   ATTR_INT,    ATTR_STRING,   ATTR_TENSOR,
                                          ATTR_GRAPH,   ATTR_FLOATS, ATTR_INTS,     ATTR_STRINGS,
                                          ATTR_TENSORS, ATTR_GRAPHS, ATTR_UNDEFINED};
    static const AttrType before_type[] = {ATTR_TYPE, ATTR_TYPES, ATTR_UNDEFINED};
    static const AttrType last[] = {ATTR_SPARSE_TENSOR, ATTR_SPARSE_TENSORS, ATTR_UNDEFINED};
    WireWriter *w = &plan->w;
    writer_open(w, number, &onnx__attribute_proto__descriptor, attr->rest);
    writer_put_sym(w, PB_ATTR_NAME, attr->name);
    put_attr_values(plan, attr, before_doc);
    writer_put_sym(w, PB_ATTR_DOC_STRING, attr->doc);
    put_attr_values(plan, attr, before_type);
    if (attr->has_type) writer_put_varint(w, PB_ATTR_TYPE, (uint64_t)attr->type);
    writer_put_sym(w, PB_ATTR_REF_ATTR_NAME, attr->ref);
    put_attr_values(plan, attr, last);
    writer_close(w);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void put_device(ExportPlan *plan, const DeviceConfig *device) {
    WireWriter *w = &plan->w;
    writer_open(w, PB_NODE_DEVICE_CONFIGURATIONS,
                &onnx__node_device_configuration_proto__descriptor, device->rest);
    for (uint32_t i = 0; i < device->spec_count; i++) {
        const ShardingSpec *spec = &device->specs[i];
        writer_open(w, PB_DEVICE_SHARDING_SPEC, &onnx__sharding_spec_proto__descriptor, spec->rest);
        put_name_ref(plan, PB_SHARDING_TENSOR_NAME, &spec->tensor);
        writer_close(w);
    }
    writer_close(w);
}

static void put_value_name(WireWriter *w, uint32_t number, const Value *value) {
    if (value)
        writer_put_sym(w, number, value->name);
    else
        writer_put_bytes(w, number, "", 0); /* an omitted operand keeps its place */
}

/* Operators that only demi's own runtime knows have no meaning in a file for others. */
static bool is_exportable(ExportPlan *plan, const Node *node) {
    if (!sym_equals(node->domain, FUSED_DOMAIN)) return true;
    node_error(node, plan->w.err, ERR_MODEL,
               "a fused operator (domain demi.fused) can't be written to an ONNX file");
    plan->w.failed = true;
    return false;
}

void put_node(ExportPlan *plan, uint32_t number, const Node *node) {
    WireWriter *w = &plan->w;
    if (node->domain && !is_exportable(plan, node)) return;
    const NodeExtra *extra = node_extra(node);
    writer_open(w, number, &onnx__node_proto__descriptor, extra->rest);
    for (uint32_t i = 0; i < node->input_count; i++)
        put_value_name(w, PB_NODE_INPUT, node->inputs[i].value);
    for (uint32_t i = 0; i < node->output_count; i++)
        put_value_name(w, PB_NODE_OUTPUT, node->outputs[i]);
    writer_put_sym(w, PB_NODE_NAME, node->name);
    writer_put_sym(w, PB_NODE_OP_TYPE, node->op_type);
    for (const Attr *attr = node->attrs; attr; attr = attr->next)
        put_attr(plan, PB_NODE_ATTRIBUTE, attr);
    writer_put_sym(w, PB_NODE_DOC_STRING, extra->doc);
    writer_put_sym(w, PB_NODE_DOMAIN, node->domain);
    writer_put_sym(w, PB_NODE_OVERLOAD, extra->overload);
    put_entries(plan, PB_NODE_METADATA_PROPS, node->metadata);
    for (uint32_t i = 0; i < extra->device_count; i++) put_device(plan, &extra->devices[i]);
    writer_close(w);
}
