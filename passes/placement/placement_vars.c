// SPDX-License-Identifier: Apache-2.0
/* The variables of a placement problem: what is tied, what is pinned; and what all that pins asks.
 * See placement.h. */
#include "op_types.h"
#include "placement.h"

VarId placement_root(Placement *p, VarId var) {
    while (p->vars.items[var].tie != var) {
        p->vars.items[var].tie = p->vars.items[p->vars.items[var].tie].tie; /* path halving */
        var = p->vars.items[var].tie;
    }
    return var;
}

bool placement_is_low(Placement *p, VarId var) {
    return var != VAR_NONE && p->vars.items[placement_root(p, var)].low;
}

VarId placement_new_var(Placement *p, const Node *node) {
    PlaceVar var = {.tie = (VarId)p->vars.count, .node = node, .culprit = VAR_NONE};
    VEC_PUSH(p->scratch, &p->vars, var);
    return var.tie;
}

void placement_tie(Placement *p, VarId a, VarId b) {
    if (a == VAR_NONE || b == VAR_NONE) return;
    a = placement_root(p, a);
    b = placement_root(p, b);
    if (a == b) return;
    if (a > b) { /* the older one leads, so that VAR_FP32 always does */
        VarId swap = a;
        a = b;
        b = swap;
    }
    PlaceVar *to = &p->vars.items[a], *from = &p->vars.items[b];
    from->tie = a;
    if (!to->pinned) to->culprit = from->culprit;
    to->pinned |= from->pinned;
    to->wants_low |= from->wants_low;
    to->all = true; /* a group goes low only as a whole */
    to->slot = true;
}

void placement_pin(Placement *p, VarId var, NoteKind kind, const char *reason) {
    if (var == VAR_NONE || var == VAR_FP32) return;
    PlaceVar *own = &p->vars.items[var], *root = &p->vars.items[placement_root(p, var)];
    if (!own->reason) {
        own->reason = reason;
        own->kind = (uint8_t)kind;
    }
    if (!root->pinned) root->culprit = var;
    own->pinned = root->pinned = true;
}

bool value_holds_float(const Value *value) {
    OpType type;
    return value && op_type_from(value->type, &type) && type.dtype == DTYPE_FLOAT &&
           (type.kind == OPTYPE_TENSOR || type.kind == OPTYPE_SEQ || type.kind == OPTYPE_OPTIONAL ||
            type.kind == OPTYPE_OPTIONAL_SEQ || type.kind == OPTYPE_SPARSE);
}

bool placement_casts_are_legal(const Placement *p, const Graph *graph) {
    int64_t opset = opset_version(graph->opsets, NULL);
    const OpSchema *cast = ops_find("", "Cast", opset ? opset : OPS_OPSET_ONNX);
    return cast &&
           type_set_has(op_param_types(cast, &cast->inputs[0]), OPTYPE_TENSOR, p->request.target);
}

const char *placement_no_cast_reason(const Placement *p) {
    return p->request.target == DTYPE_BFLOAT16
               ? "bfloat16 is illegal for Cast here; legal from opset 13"
               : "no cast to the target at this opset";
}
