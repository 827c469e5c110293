// SPDX-License-Identifier: Apache-2.0
/* Recognizes them; see peer_fault.h. */
#include "peer_fault.h"

#include "constants.h"

/* [1, 2, …, rank - 2] and then 0 and rank - 1 in either order. */
static bool moves_batch_inward(const Node *node) {
    uint32_t rank;
    const int64_t *perm = attr_ints(node_attr(node, "perm"), &rank);
    if (!perm || rank < 3) return false;
    for (uint32_t i = 0; i + 2 < rank; i++)
        if (perm[i] != (int64_t)i + 1) return false;
    int64_t a = perm[rank - 2], b = perm[rank - 1];
    return (a == 0 && b == (int64_t)rank - 1) || (a == (int64_t)rank - 1 && b == 0);
}

static bool is_constant_matrix(const Value *value) {
    const Tensor *tensor = value ? constant_tensor(value, &value->graph->model->arena) : NULL;
    return tensor && tensor->rank == 2;
}

bool peer_fault_transpose(const Node *node) {
    if (!sym_equals(node->op_type, "Transpose") || !domain_is_default(node->domain) ||
        node->output_count == 0 || !node->outputs[0] || !moves_batch_inward(node))
        return false;
    for (const Use *use = node->outputs[0]->uses; use; use = use->next) {
        const Node *reader = use->node;
        if (!reader || !sym_equals(reader->op_type, "MatMul") ||
            !domain_is_default(reader->domain) || reader->input_count < 2)
            continue;
        if (is_constant_matrix(reader->inputs[1 - use->index].value)) return true;
    }
    return false;
}

static bool is_made_by(const Value *value, const char *op) {
    const Node *made = value ? value->producer : NULL;
    return made && sym_equals(made->op_type, op) && domain_is_default(made->domain);
}

bool peer_fault_join(const Node *node) {
    if (!sym_equals(node->op_type, "Concat") || !domain_is_default(node->domain) ||
        node->output_count == 0 || !node->outputs[0] || !node->outputs[0]->uses)
        return false;
    for (uint32_t i = 0; i < node->input_count; i++)
        if (!is_made_by(node->inputs[i].value, "DequantizeLinear")) return false;
    for (const Use *use = node->outputs[0]->uses; use; use = use->next)
        if (!use->node || !sym_equals(use->node->op_type, "QuantizeLinear") ||
            !domain_is_default(use->node->domain))
            return false;
    return true;
}
