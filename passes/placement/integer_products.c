// SPDX-License-Identifier: Apache-2.0
/* Counting products by what their weights are; see integer_products.h. */
#include "integer_products.h"

#include "constants.h"
#include "op_class.h"
#include "op_types.h"

const char integer_products_reason[] = "already int8: products with weights multiply integers";

/* Weights, or what they are computed of by nodes in a row that read one value and constants. */
static bool is_weights(const Value *value) {
    enum { MOST_STEPS = 8 };
    for (int step = 0; value && step < MOST_STEPS; step++) {
        if (value_is_constant(value)) return true;
        const Node *node = value->producer;
        if (!node || !node->input_count) return false;
        for (uint32_t i = 1; i < node->input_count; i++)
            if (node->inputs[i].value && !value_is_constant(node->inputs[i].value)) return false;
        value = node->inputs[0].value;
    }
    return false;
}

static void count_node(IntegerProducts *products, const Node *node) {
    const OpRecord *record = node_schema(node) ? node_record(node) : NULL;
    if (!record || record->work <= WORK_MOVES || record->weights >= node->input_count) return;
    const Value *weights = node->inputs[record->weights].value;
    const bool lowered = op_class_is_product(record->domain, record->name);
    const Dtype dtype = weights ? type_dtype(weights->type) : DTYPE_UNDEFINED;
    const bool integer = !lowered && dtype_is_integer(dtype) && dtype_bits(dtype) == 8;
    if ((!lowered && !integer) || !is_weights(weights)) return;
    products->all++;
    products->integers += integer;
}

IntegerProducts integer_products_count(const Model *model, Arena *scratch) {
    IntegerProducts products = {0};
    GraphList graphs = model_graphs(model, scratch);
    for (size_t i = 0; i < graphs.count; i++)
        for (const Node *node = graphs.items[i]->first; node; node = node_after(node))
            if (!model_find_function(model, node)) count_node(&products, node);
    return products;
}

bool integer_products_are_most(IntegerProducts products) {
    return products.integers > 0 && products.integers * 10 >= products.all * 9;
}

void integer_products_exclude(const Model *model, const char **excluded, Arena *scratch) {
    GraphList graphs = model_graphs(model, scratch);
    for (size_t i = 0; i < graphs.count; i++)
        for (const Node *node = graphs.items[i]->first; node; node = node_after(node)) {
            const OpRecord *record = node_schema(node) ? node_record(node) : NULL;
            if (excluded[node->id] || op_record_has(record, OP_TAKES_ROWS)) continue;
            excluded[node->id] = integer_products_reason;
        }
}

void integer_products_exclude_rows(const Model *model, const char **excluded, Arena *scratch) {
    GraphList graphs = model_graphs(model, scratch);
    for (size_t i = 0; i < graphs.count; i++)
        for (const Node *node = graphs.items[i]->first; node; node = node_after(node)) {
            if (excluded[node->id] || !node_is_own_quantizer(node)) continue;
            const Sym mark = node_metadata(node, OWN_QUANTIZER);
            if (sym_equals(mark, QUANTIZER_OF_ROWS) || sym_equals(mark, QUANTIZER_OF_PRODUCTS))
                excluded[node->id] = "it scales rows that are quantized at run time";
        }
}
