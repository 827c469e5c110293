// SPDX-License-Identifier: Apache-2.0
/* Counting of what placements cost; see placement_cost.h for the measure. Sums stop at their type's
 * largest value instead of wrapping. */
#include "placement_cost.h"

#include "constants.h"
#include "op_types.h"

enum { UNKNOWN_DIM = 64, UNKNOWN_RANK = 4096 };

bool node_takes_rows(const Node *node) {
    return op_record_has(node_record(node), OP_TAKES_ROWS);
}

static const uint64_t MOST_ELEMENTS = UINT64_C(1) << 40;

/* Elements of the constant that the value's producer takes rows of; 0 where it takes none. */
static uint64_t table_elements(const Value *value) {
    const Node *node = value->producer;
    if (!node || node->input_count == 0 || !node->inputs[0].value) return 0;
    const Value *table = node->inputs[0].value;
    return node_takes_rows(node) && value_is_constant(table) ? placement_elements(table) : 0;
}

uint64_t placement_elements(const Value *value) {
    const Type *type = value->type;
    bool known = true;
    while (type && type->kind != TYPE_TENSOR && type->kind != TYPE_SPARSE_TENSOR) type = type->elem;
    if (!type || !type->has_shape) return UNKNOWN_RANK;
    uint64_t count = 1;
    for (uint32_t i = 0; i < type->rank; i++) {
        const Dim *dim = &type->dims[i];
        bool sized = dim->kind == DIM_KNOWN && dim->size >= 0;
        uint64_t size = sized ? (uint64_t)dim->size : UNKNOWN_DIM;
        known = known && sized;
        if (size && count > MOST_ELEMENTS / size) return MOST_ELEMENTS;
        count *= size;
    }
    uint64_t table = known ? 0 : table_elements(value);
    if (table && count > table / 4) count = table / 4;
    return count ? count : 1; /* even an empty cast is a node to run */
}

static uint64_t sum_of(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

uint64_t placement_cost_sum(PlacementCost cost) {
    uint64_t casts =
        cost.casts > UINT64_MAX / COST_BYTES_A_CAST ? UINT64_MAX : cost.casts * COST_BYTES_A_CAST;
    uint64_t given = cost.bytes_fp32 - cost.bytes_stored;
    return sum_of(sum_of(cost.bytes_converted, casts), sum_of(cost.bytes_stored, given / 8));
}

void placement_cost_add_cast(PlacementCost *cost, const Value *value) {
    cost->casts++;
    cost->bytes_converted = sum_of(cost->bytes_converted, 6 * placement_elements(value));
}

void placement_cost_add_fp32(PlacementCost *cost, const Value *value) {
    cost->bytes_fp32 = sum_of(cost->bytes_fp32, 4 * placement_elements(value));
}

void placement_cost_add_stored(PlacementCost *cost, const Value *value) {
    uint64_t before = cost->bytes_fp32;
    placement_cost_add_fp32(cost, value);
    cost->bytes_stored += cost->bytes_fp32 - before;
}

/* Constants that nobody reads are dead weight of the file, but cost no run. */
static void add_value(PlacementCost *cost, const Value *value) {
    if (!value || type_dtype(value->type) != DTYPE_FLOAT) return;
    if (!value_is_constant(value))
        placement_cost_add_fp32(cost, value);
    else if (value->uses)
        placement_cost_add_stored(cost, value);
}

static void add_node(PlacementCost *cost, const Node *node) {
    if (node_is_own_cast(node)) {
        placement_cost_add_cast(cost, node->inputs[0].value);
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
