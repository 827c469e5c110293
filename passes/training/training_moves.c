// SPDX-License-Identifier: Apache-2.0
/* Walking back through nodes that only move data; see training_moves.h. */
#include "training_moves.h"

#include "gradient.h"
#include "op_types.h"
#include "simplify_graph.h"

const TrainingRow *training_row(const Node *node) {
    static const TrainingRow rows[] = {
#define PARAMETERS(op, operands, least) {op, operands, least},
#include "training_parameters.def"
#undef PARAMETERS
    };
    if (!domain_is_default(node->domain)) return NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (sym_equals(node->op_type, rows[i].op)) return &rows[i];
    return NULL;
}

bool training_row_has(const TrainingRow *row, uint32_t operand) {
    return row && operand < 32 && row->operands >> operand & 1;
}

TrainingMoves training_moves(PassCtx *ctx) {
    const size_t values = ctx->model->value_count, nodes = ctx->model->node_count;
    return (TrainingMoves){.scratch = ctx->scratch,
                           .seen = ARENA_ARRAY(ctx->scratch, uint32_t, values + 1),
                           .passed = ARENA_ARRAY(ctx->scratch, uint32_t, nodes + 1),
                           .value_count = values,
                           .node_count = nodes};
}

bool training_moves_operand(const Node *node, uint32_t i) {
    const OpRecord *record = node_record(node);
    return record && record->work == WORK_MOVES && domain_is_default(node->domain) &&
           op_record_gives(record, i) && gradient_flows(node, i, true) &&
           !training_row_has(training_row(node), i);
}

/* A node whose operands are walked one after the other. */
typedef struct Walked {
    Node *node;
    uint32_t next;
} Walked;

typedef VEC(Walked) Walk;

/* The first operand from `i` on that the node moves; input_count where there is none. */
static uint32_t next_moved(const Node *node, uint32_t i) {
    while (i < node->input_count && !training_moves_operand(node, i)) i++;
    return i;
}

static void meet(TrainingMoves *moves, Walk *walk, Value *value) {
    if (!value || value->id >= moves->value_count || moves->seen[value->id] == moves->walk ||
        !dtype_is_float(type_dtype(value->type)))
        return;
    moves->seen[value->id] = moves->walk;
    Node *node = value->producer;
    if (value->init || (node && simplify_is(node, "Constant"))) {
        VEC_PUSH(moves->scratch, &moves->list, value);
        return;
    }
    if (!node || node->id >= moves->node_count || moves->passed[node->id] == moves->walk) return;
    const Walked walked = {node, next_moved(node, 0)};
    if (walked.next == node->input_count) return;
    moves->passed[node->id] = moves->walk;
    VEC_PUSH(moves->scratch, walk, walked);
}

void training_walk(TrainingMoves *moves, Value *value) {
    Walk walk = {0};
    moves->walk++;
    moves->list.count = moves->nodes.count = 0;
    meet(moves, &walk, value);
    while (walk.count) {
        Walked *top = &walk.items[walk.count - 1];
        Node *node = top->node;
        if (top->next == node->input_count) {
            walk.count--;
            VEC_PUSH(moves->scratch, &moves->nodes, node);
            continue;
        }
        Value *operand = node->inputs[top->next].value;
        top->next = next_moved(node, top->next + 1);
        meet(moves, &walk, operand);
    }
}
