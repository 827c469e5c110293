// SPDX-License-Identifier: Apache-2.0
/* Counting of what placements cost; see placement_cost.h for the measure. Sums stop at their type's
 * largest value instead of wrapping. */
#include "placement_cost.h"

#include "constants.h"
#include "op_types.h"

enum { UNKNOWN_DIM = 64, UNKNOWN_RANK = 4096 };

static const uint64_t MOST_ELEMENTS = UINT64_C(1) << 40;

uint64_t placement_elements(const Value *value) {
    const Type *type = value->type;
    while (type && type->kind != TYPE_TENSOR && type->kind != TYPE_SPARSE_TENSOR) type = type->elem;
    if (!type || !type->has_shape) return UNKNOWN_RANK;
    uint64_t count = 1;
    for (uint32_t i = 0; i < type->rank; i++) {
        const Dim *dim = &type->dims[i];
        uint64_t size =
            dim->kind == DIM_KNOWN && dim->size >= 0 ? (uint64_t)dim->size : UNKNOWN_DIM;
        if (size && count > MOST_ELEMENTS / size) return MOST_ELEMENTS;
        count *= size;
    }
    return count ? count : 1; /* even an empty cast is a node to run */
}

static uint64_t sum_of(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

uint64_t placement_cost_sum(PlacementCost cost) {
    uint64_t casts =
        cost.casts > UINT64_MAX / COST_BYTES_A_CAST ? UINT64_MAX : cost.casts * COST_BYTES_A_CAST;
    return sum_of(sum_of(cost.bytes_converted, casts), cost.bytes_fp32 / 8);
}

void placement_cost_add_cast(PlacementCost *cost, const Value *value) {
    cost->casts++;
    cost->bytes_converted = sum_of(cost->bytes_converted, 6 * placement_elements(value));
}

void placement_cost_add_fp32(PlacementCost *cost, const Value *value) {
    cost->bytes_fp32 = sum_of(cost->bytes_fp32, 4 * placement_elements(value));
}

/* Constants that nobody reads are dead weight of the file, but cost no run. */
static void add_value(PlacementCost *cost, const Value *value) {
    if (!value || type_dtype(value->type) != DTYPE_FLOAT) return;
    if (!value->uses && value_is_constant(value)) return;
    placement_cost_add_fp32(cost, value);
}

static void add_node(PlacementCost *cost, const Node *node) {
    if (node_is_own_cast(node)) {
        placement_cost_add_cast(cost, node->outputs[0]);
        return;
    }
    for (uint32_t i = 0; i < node->output_count; i++) add_value(cost, node->outputs[i]);
}

PlacementCost placement_cost_of_model(const Model *model, Arena *scratch) {
    PlacementCost cost = {0};
    GraphList graphs = model_graphs(model, scratch);
    for (size_t i = 0; i < graphs.count; i++) {
        const Graph *graph = graphs.items[i];
        for (size_t k = 0; k < graph->initializers.count; k++)
            if (!graph->initializers.items[k]->input)
                add_value(&cost, graph->initializers.items[k]);
        for (const Node *node = graph->first; node; node = node_after(node)) add_node(&cost, node);
    }
    return cost;
}
