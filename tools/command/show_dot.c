// SPDX-License-Identifier: Apache-2.0
/* A model as a Graphviz drawing; see show_model.h. Each node is a box, each use of a node's output
 * an arrow labeled with the value's type; weights are not drawn, they would bury the rest. */
#include <string.h>

#include "show_model.h"
#include "escaped.h"

static void put_escaped(FILE *out, const char *text) {
    for (size_t left = strlen(text); left;) {
        char shown[SHOWN_MOST];
        size_t size, taken = escaped_take(text, left, shown, &size);
        if (shown[0] == '"' || shown[0] == '\\') fputc('\\', out);
        fputs(shown, out);
        text += taken;
        left -= taken;
    }
}

static void put_type(FILE *out, const Type *type) {
    if (!type || type_dtype(type) == DTYPE_UNDEFINED) return;
    fputs(dtype_name(type_dtype(type)), out);
    if (type->kind != TYPE_TENSOR || !type->has_shape) return;
    for (uint32_t i = 0; i < type->rank; i++) {
        const Dim *dim = &type->dims[i];
        fputc(i ? 'x' : ' ', out);
        if (dim->kind == DIM_KNOWN)
            fprintf(out, "%lld", (long long)dim->size);
        else
            put_escaped(out, dim->kind == DIM_SYMBOL ? sym_text(dim->symbol) : "?");
    }
}

static const char *node_color(const Node *node) {
    Dtype dtype = node->output_count && node->outputs[0] ? type_dtype(node->outputs[0]->type)
                                                         : DTYPE_UNDEFINED;
    if (dtype == DTYPE_FLOAT16) return "#cfe8cf";
    if (dtype == DTYPE_BFLOAT16) return "#d5e0f5";
    return dtype == DTYPE_FLOAT ? "#f5e3cf" : "#eeeeee";
}

static void write_arrows(const Node *node, FILE *out) {
    for (uint32_t i = 0; i < node->input_count; i++) {
        const Value *value = node->inputs[i].value;
        if (!value || (!value->producer && !value->input)) continue;
        if (value->producer)
            fprintf(out, "  n%u -> n%u [label=\"", value->producer->id, node->id);
        else
            fprintf(out, "  v%u -> n%u [label=\"", value->id, node->id);
        put_type(out, value->type);
        fputs("\"];\n", out);
    }
}

static void write_graph(const Graph *graph, FILE *out);

static void write_cluster(Graph *graph, void *data) {
    FILE *out = data;
    /* Named after its owner and its first node or input, which no other graph shares. */
    fprintf(out, "  subgraph cluster_%u_%u {\n  label=\"", graph->owner->id,
            graph->first ? graph->first->id : UINT32_MAX);
    put_escaped(out, sym_text(graph->name));
    fputs("\";\n", out);
    write_graph(graph, out);
    fputs("  }\n", out);
}

static void write_value(const Value *value, const char *shape, FILE *out) {
    fprintf(out, "  v%u [shape=%s, label=\"", value->id, shape);
    put_escaped(out, sym_text(value->name));
    fputs("\\n", out);
    put_type(out, value->type);
    fputs("\"];\n", out);
}

static void write_graph(const Graph *graph, FILE *out) {
    for (size_t i = 0; i < graph->inputs.count; i++)
        write_value(graph->inputs.items[i], "ellipse", out);
    for (const Node *node = graph->first; node; node = node_after(node)) {
        fprintf(out, "  n%u [fillcolor=\"%s\", label=\"", node->id, node_color(node));
        put_escaped(out, sym_text(node->op_type));
        fputs("\\n", out);
        put_escaped(out, node_label(node));
        fputs("\"];\n", out);
        write_arrows(node, out);
        node_each_graph(node, write_cluster, out);
    }
    for (size_t i = 0; i < graph->outputs.count; i++) {
        const Value *value = graph->outputs.items[i]->use.value;
        char kind = value->producer ? 'n' : 'v';
        uint32_t id = value->producer ? value->producer->id : value->id;
        fprintf(out, "  o%c%u_%zu [shape=ellipse, label=\"", kind, id, i);
        put_escaped(out, sym_text(value->name));
        fprintf(out, "\"];\n  %c%u -> o%c%u_%zu;\n", kind, id, kind, id, i);
    }
}

void show_write_dot(const Model *model, FILE *out) {
    fputs("digraph model {\n  node [shape=box, style=filled, fontname=\"sans-serif\"];\n", out);
    write_graph(model->graph, out);
    fputs("}\n", out);
}
