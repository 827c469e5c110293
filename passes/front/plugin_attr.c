// SPDX-License-Identifier: Apache-2.0
/* Attributes as plug-ins read and set them. An attribute that stands for a function's parameter has
 * no value, and one of another type than asked for is as good as none. */
#include <string.h>

#include "plugin.h"

#define MISUSE(run, what) plugin_misuse((run), __func__ + 4, (what))

/* ---- reading --------------------------------------------------------------------------------- */

static DemiAttr *api_node_first_attr(const DemiNode *node) {
    return node ? attr_out(node_of(node)->attrs) : NULL;
}

static DemiAttr *api_attr_next(const DemiAttr *attr) {
    return attr ? attr_out(attr_of(attr)->next) : NULL;
}

static DemiAttr *api_node_attr(const DemiNode *node, const char *name) {
    return node && name ? attr_out(node_attr(node_of(node), name)) : NULL;
}

static const char *api_attr_name(const DemiAttr *attr) {
    return attr ? sym_text(attr_of(attr)->name) : "";
}

static DemiAttrType api_attr_type(const DemiAttr *attr) {
    return attr ? (DemiAttrType)attr_of(attr)->type : DEMI_ATTR_UNDEFINED;
}

_Static_assert((int)DEMI_ATTR_TYPES == (int)ATTR_TYPES && (int)DEMI_ATTR_GRAPH == (int)ATTR_GRAPH &&
                   (int)DEMI_ATTR_INTS == (int)ATTR_INTS,
               "attribute types have the same numbers inside and outside");

static const char *api_attr_parameter(const DemiAttr *attr) {
    return attr && attr_of(attr)->ref ? sym_text(attr_of(attr)->ref) : NULL;
}

static int64_t api_attr_int(const DemiAttr *handle, int64_t otherwise) {
    int64_t number;
    return attr_int(attr_of(handle), &number) ? number : otherwise;
}

static double api_attr_float(const DemiAttr *handle, double otherwise) {
    float number;
    return attr_float(attr_of(handle), &number) ? (double)number : otherwise;
}

static const char *api_attr_string(DemiPassRun *run, const DemiAttr *handle, size_t *size) {
    Bytes text;
    if (size) *size = 0;
    return attr_string(attr_of(handle), &text) ? plugin_text(run, text, size) : NULL;
}

static const DemiTensor *api_attr_tensor(const DemiAttr *handle) {
    return tensor_out(attr_tensor(attr_of(handle)));
}

static DemiGraph *api_attr_graph(const DemiAttr *handle) {
    return graph_out(attr_graph(attr_of(handle)));
}

static const DemiType *api_attr_type_value(const DemiAttr *handle) {
    return type_out(attr_type(attr_of(handle)));
}

static size_t api_attr_count(const DemiAttr *attr) {
    return attr ? attr_of(attr)->count : 0;
}

static const int64_t *api_attr_ints(const DemiAttr *handle) {
    uint32_t count;
    return attr_ints(attr_of(handle), &count);
}

static const float *api_attr_floats(const DemiAttr *handle) {
    uint32_t count;
    return attr_floats(attr_of(handle), &count);
}

static const char *api_attr_string_at(DemiPassRun *run, const DemiAttr *handle, size_t i,
                                      size_t *size) {
    uint32_t count;
    const Bytes *strings = attr_strings(attr_of(handle), &count);
    if (size) *size = 0;
    return i < count ? plugin_text(run, strings[i], size) : NULL;
}

static const DemiTensor *api_attr_tensor_at(const DemiAttr *handle, size_t i) {
    uint32_t count;
    const Tensor *const *tensors = attr_tensors(attr_of(handle), &count);
    return i < count ? tensor_out(tensors[i]) : NULL;
}

static DemiGraph *api_attr_graph_at(const DemiAttr *handle, size_t i) {
    uint32_t count;
    Graph *const *graphs = attr_graphs(attr_of(handle), &count);
    return i < count ? graph_out(graphs[i]) : NULL;
}

/* ---- setting --------------------------------------------------------------------------------- */

static bool holds_graph(const Node *node, const char *name) {
    const Attr *attr = node_attr(node, name);
    return attr && (attr->type == ATTR_GRAPH || attr->type == ATTR_GRAPHS);
}

/* What is wrong with setting that attribute; NULL: nothing. */
static const char *attr_fault(const DemiNode *handle, const char *name, size_t count,
                              const void *values) {
    if (!handle || !name || !name[0]) return "node or name is missing";
    if (count > UINT32_MAX || (count && !values)) return "no values, or too many";
    return holds_graph(node_of(handle), name) ? "the attribute holds a graph" : NULL;
}

/* Begins a function that sets an attribute. */
#define ENTER_SET(run, node, name, values, count)                                                  \
    const char *fault = attr_fault(node, name, count, values);                                     \
    if (fault) return MISUSE(run, fault);                                                          \
    ENTER(run, false)

static bool api_node_set_int(DemiPassRun *run, DemiNode *node, const char *name, int64_t value) {
    ENTER_SET(run, node, name, NULL, 0);
    node_set_attr_int(node_in(node), name, value);
    return true;
}

static bool api_node_set_float(DemiPassRun *run, DemiNode *node, const char *name, double value) {
    ENTER_SET(run, node, name, NULL, 0);
    node_set_attr_float(node_in(node), name, (float)value);
    return true;
}

static bool api_node_set_string(DemiPassRun *run, DemiNode *node, const char *name,
                                const char *value) {
    ENTER_SET(run, node, name, value, 1);
    node_set_attr_string(node_in(node), name, value);
    return true;
}

static bool api_node_set_tensor(DemiPassRun *run, DemiNode *node, const char *name,
                                const DemiTensor *tensor) {
    ENTER_SET(run, node, name, tensor, 1);
    node_set_attr_tensor(node_in(node), name, tensor_of(tensor));
    return true;
}

static bool api_node_set_type(DemiPassRun *run, DemiNode *node, const char *name,
                              const DemiType *type) {
    ENTER_SET(run, node, name, type, 1);
    node_set_attr_type(node_in(node), name, type_of(type));
    return true;
}

static bool api_node_set_ints(DemiPassRun *run, DemiNode *node, const char *name,
                              const int64_t *values, size_t count) {
    ENTER_SET(run, node, name, values, count);
    node_set_attr_ints(node_in(node), name, values, (uint32_t)count);
    return true;
}

static bool api_node_set_floats(DemiPassRun *run, DemiNode *node, const char *name,
                                const float *values, size_t count) {
    ENTER_SET(run, node, name, values, count);
    node_set_attr_floats(node_in(node), name, values, (uint32_t)count);
    return true;
}

static bool api_node_set_strings(DemiPassRun *run, DemiNode *node, const char *name,
                                 const char *const *values, size_t count) {
    for (size_t i = 0; values && i < count; i++)
        if (!values[i]) return MISUSE(run, "a string is NULL");
    ENTER_SET(run, node, name, values, count);
    node_set_attr_strings(node_in(node), name, values, (uint32_t)count);
    return true;
}

static bool api_node_remove_attr(DemiPassRun *run, DemiNode *node, const char *name) {
    ENTER_SET(run, node, name, NULL, 0);
    node_remove_attr(node_in(node), name);
    return true;
}

void plugin_fill_attr(DemiApi *api) {
    api->node_first_attr = api_node_first_attr;
    api->attr_next = api_attr_next;
    api->node_attr = api_node_attr;
    api->attr_name = api_attr_name;
    api->attr_type = api_attr_type;
    api->attr_parameter = api_attr_parameter;
    api->attr_int = api_attr_int;
    api->attr_float = api_attr_float;
    api->attr_string = api_attr_string;
    api->attr_tensor = api_attr_tensor;
    api->attr_graph = api_attr_graph;
    api->attr_type_value = api_attr_type_value;
    api->attr_count = api_attr_count;
    api->attr_ints = api_attr_ints;
    api->attr_floats = api_attr_floats;
    api->attr_string_at = api_attr_string_at;
    api->attr_tensor_at = api_attr_tensor_at;
    api->attr_graph_at = api_attr_graph_at;
    api->node_set_int = api_node_set_int;
    api->node_set_float = api_node_set_float;
    api->node_set_string = api_node_set_string;
    api->node_set_tensor = api_node_set_tensor;
    api->node_set_type = api_node_set_type;
    api->node_set_ints = api_node_set_ints;
    api->node_set_floats = api_node_set_floats;
    api->node_set_strings = api_node_set_strings;
    api->node_remove_attr = api_node_remove_attr;
}
