// SPDX-License-Identifier: Apache-2.0
/* A placement problem that is made and not solved; see precise_nodes.h. Of float16, to which casts are legal
 * at every opset, with nothing lowered and no look at values. */
#include "precise_nodes.h"

#include "op_types.h"
#include "placement.h"

/* No problem is made of a model without. */
static bool any_asks(const GraphList *graphs) {
    for (size_t g = 0; g < graphs->count; g++)
        for (const Node *node = graphs->items[g]->first; node; node = node_after(node)) {
            const OpRecord *record = node_schema(node) ? node_record(node) : NULL;
            if (record && record->asks) return true;
        }
    return false;
}

static const char *reason_of(Placement *p, const Node *node) {
    for (uint32_t i = 0; i < node->output_count; i++) {
        const Value *out = node->outputs[i];
        const VarId var = out ? p->value_vars[out->id] : VAR_NONE;
        if (var == VAR_NONE) continue;
        const PlaceVar *root = &p->vars.items[placement_root(p, var)];
        if (root->precise) return root->reason ? root->reason : "16 bits are too few for it";
    }
    return NULL;
}

const char **precise_nodes(PassCtx *ctx, Err *err) {
    Model *model = ctx->model;
    const GraphList graphs = model_graphs(model, ctx->scratch);
    const char **reasons = ARENA_ARRAY(ctx->scratch, const char *, model->node_count + 1u);
    if (!any_asks(&graphs)) return reasons;
    Placement p = {.model = model,
                   .scratch = ctx->scratch,
                   .counts = ctx->counts,
                   .statistics = ctx->statistics};
    p.request = (PlacementRequest){
        .target = DTYPE_FLOAT16,
        .policy = POLICY_FLOAT16,
        .classes =
            op_classes_new(POLICY_FLOAT16, &(OpClassLists){.declared_count = 0}, ctx->scratch, err),
        .excluded = ARENA_ARRAY(ctx->scratch, const char *, model->node_count + 1u),
        .guard = GUARD_NONE,
    };
    if (!p.request.classes || !placement_build(&p, err)) return NULL;
    for (size_t g = 0; g < graphs.count; g++)
        for (const Node *node = graphs.items[g]->first; node; node = node_after(node))
            reasons[node->id] = reason_of(&p, node);
    return reasons;
}
