// SPDX-License-Identifier: Apache-2.0
/* Declarations that are corrected; see wrong_shapes.h. */
#include "wrong_shapes.h"

#include "op_types.h"

static bool contradicts(const Type *declared, const Type *found) {
    return declared && found && declared->kind == TYPE_TENSOR && found->kind == TYPE_TENSOR &&
           shapes_differ(declared, found);
}

static void take(PassCtx *ctx, Value *value, ValueDecl *decl, WrongShapes *found) {
    if (!decl || !contradicts(decl->type, value->type)) return;
    VEC_PUSH(ctx->scratch, found, ((WrongShape){value, decl}));
}

void wrong_shapes_find(PassCtx *ctx, const GraphList *graphs, WrongShapes *found) {
    for (size_t i = 0; i < graphs->count; i++) {
        const Graph *graph = graphs->items[i];
        if (graph->function) continue;
        for (size_t k = 0; k < graph->outputs.count; k++)
            take(ctx, graph->outputs.items[k]->use.value, graph->outputs.items[k]->decl, found);
        for (const Node *node = graph->first; node; node = node_after(node))
            for (uint32_t k = 0; k < node->output_count; k++)
                if (node->outputs[k]) take(ctx, node->outputs[k], node->outputs[k]->info, found);
    }
}

void wrong_shapes_correct(PassCtx *ctx, const WrongShapes *found, const char *when) {
    Arena *arena = &ctx->model->arena;
    for (size_t i = 0; i < found->count; i++) {
        const WrongShape *wrong = &found->items[i];
        const Dtype declared = type_dtype(wrong->decl->type);
        decl_set_type(ctx->model, wrong->decl,
                      type_with_dtype(arena, wrong->value->type, declared));
    }
    if (found->count == 0) return;
    const bool one = found->count == 1;
    pass_remark(ctx->counts, arena,
                arena_printf(arena,
                             "the model declares %zu shape%s that contradict its operators, such "
                             "as that of '%s': %s corrects %s",
                             found->count, one ? "" : "s", sym_text(found->items[0].value->name),
                             when, one ? "it" : "them"));
}
