// SPDX-License-Identifier: Apache-2.0
/* The converted model's main graph, for the drawing on the report's page: for each node its
 * operator, type, row in the report, and which nodes it reads. Numbers are written as text, since
 * 50,000 nodes have 200,000 of them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "demi_front.h"
#include "dtype.h"
#include "report_out.h"
#include "sym.h"

typedef struct Numbers {
    Arena *arena;
    VEC(char) text;
} Numbers;

static void put_number(Numbers *numbers, uint64_t number) {
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64 " ", number);
    for (int i = 0; i < length; i++) VEC_PUSH(numbers->arena, &numbers->text, digits[i]);
}

static void write_numbers(JsonWriter *json, const char *key, const Numbers *numbers) {
    size_t count = numbers->text.count;
    json_bytes(json, key, count ? numbers->text.items : "", count ? count - 1 : 0);
}

typedef struct Drawing {
    Arena *arena;
    SymTable ops, dtypes;
    Numbers op, dtype, row, reads;
    uint32_t *place; /* of nodes, by id: 1 + place in the order of the graph */
} Drawing;

static const char *op_name(Arena *arena, const Node *node) {
    const char *domain = node->domain ? sym_text(node->domain) : "";
    return domain[0] ? arena_printf(arena, "%s.%s", domain, sym_text(node->op_type))
                     : sym_text(node->op_type);
}

static Dtype dtype_of(const Node *node) {
    const Value *value = node->output_count ? node->outputs[0] : NULL;
    return value && value->type ? type_dtype(value->type) : DTYPE_UNDEFINED;
}

/* Reads of nodes in this graph, bodies' too, by how far back they are: small numbers. */
typedef struct Reads {
    Drawing *drawing;
    const Graph *graph;
    uint32_t at;
    uint64_t count;
    VEC(uint32_t) back;
} Reads;

static void take_value(Reads *reads, const Value *value) {
    const Node *producer = value ? value->producer : NULL;
    uint32_t place =
        producer && producer->graph == reads->graph ? reads->drawing->place[producer->id] : 0;
    if (!place || place >= reads->at) return;
    for (size_t i = 0; i < reads->back.count; i++)
        if (reads->back.items[i] == reads->at - place) return;
    VEC_PUSH(reads->drawing->arena, &reads->back, reads->at - place);
}

static void take_graph(Graph *graph, void *data);

static void take_node(Reads *reads, const Node *node) {
    for (uint32_t i = 0; i < node->input_count; i++) take_value(reads, node->inputs[i].value);
    node_each_graph(node, take_graph, reads);
}

static void take_graph(Graph *graph, void *data) {
    Reads *reads = data;
    for (const Node *node = graph->first; node; node = node_after(node)) take_node(reads, node);
    for (size_t i = 0; i < graph->outputs.count; i++)
        take_value(reads, graph->outputs.items[i]->use.value);
}

static void add_node(Drawing *d, const Graph *graph, const Node *node, uint32_t at) {
    Reads reads = {.drawing = d, .graph = graph, .at = at};
    put_number(&d->op, sym_intern_cstr(&d->ops, op_name(d->arena, node))->number);
    put_number(&d->dtype, sym_intern_cstr(&d->dtypes, dtype_name(dtype_of(node)))->number);
    d->place[node->id] = at;
    take_node(&reads, node);
    put_number(&d->reads, reads.back.count);
    for (size_t i = 0; i < reads.back.count; i++) put_number(&d->reads, reads.back.items[i]);
}

static void write_words(JsonWriter *json, const char *key, const SymTable *table) {
    json_open(json, key, '[');
    for (size_t i = 0; i < table->count; i++) json_text(json, NULL, table->names[i]->text);
    json_close(json, ']');
}

/* The report lists the main graph's nodes in their order, less the casts that demi inserted. */
static bool is_row(const DemiReport *report, size_t row, const Node *node) {
    if (row >= demi_report_node_count(report)) return false;
    const DemiReportNode *known = demi_report_node(report, row);
    return !known->graph[0] && strcmp(known->name, node_label(node)) == 0 &&
           strcmp(known->op_type, sym_text(node->op_type)) == 0;
}

void report_write_graph(const DemiReport *report, const DemiModel *model, Arena *arena,
                        JsonWriter *json) {
    const Model *inner = demi_front_model(model);
    const Graph *graph = inner->graph;
    Drawing d = {.arena = arena,
                 .op.arena = arena,
                 .dtype.arena = arena,
                 .row.arena = arena,
                 .reads.arena = arena};
    sym_table_init(&d.ops, arena);
    sym_table_init(&d.dtypes, arena);
    d.place = ARENA_ARRAY(arena, uint32_t, inner->node_count + 1u);
    size_t row = 0;
    uint32_t at = 0;
    for (const Node *node = graph->first; node; node = node_after(node)) {
        bool listed = is_row(report, row, node);
        put_number(&d.row, listed ? ++row : 0); /* 0: none */
        add_node(&d, graph, node, ++at);
    }
    json_open(json, "graph", '{');
    write_words(json, "ops", &d.ops);
    write_words(json, "dtypes", &d.dtypes);
    write_numbers(json, "op", &d.op);
    write_numbers(json, "dtype", &d.dtype);
    write_numbers(json, "row", &d.row);
    write_numbers(json, "reads", &d.reads);
    json_close(json, '}');
}
