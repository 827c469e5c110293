// SPDX-License-Identifier: Apache-2.0
/* set-shapes: gives inputs the sizes that a model is to be run with.
 *
 *   set-shapes{shapes=["x=1x3x224x224"],dims=["seq=128"]}
 *   g (float[N, 3, ?, ?] x, int64[N, seq] y)  ->  g (float[1, 3, 224, 224] x, int64[1, 128] y)
 *
 * A size that had a name is that size wherever the name is declared, of outputs and inner values,
 * too. What the model knows can't be changed, only said again.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "passes.h"

typedef struct SetShapesOptions {
    PassStrings shapes, dims;
} SetShapesOptions;

static const PassOption options_table[] = {
    {"shapes", OPTION_STRINGS, offsetof(SetShapesOptions, shapes), NULL, NULL,
     "NAME=1x3x224x224: the sizes of an input"},
    {"dims", OPTION_STRINGS, offsetof(SetShapesOptions, dims), NULL, NULL,
     "NAME=N: a dynamic size, by its name in the model"},
    {0},
};

/* A named size that is known from now on. */
typedef struct Size {
    Sym name;
    int64_t size;
    bool found;
} Size;

typedef struct Set {
    PassCtx *ctx;
    VEC(Size) sizes;
    size_t name_count;
    uint32_t *size_at; /* by a name's number: its place in sizes, + 1 */
    Value **inputs;    /* by a name's number */
    Err *err;
} Set;

/* `more` names may come. */
static Set set_new(PassCtx *ctx, size_t more, Err *err) {
    const Graph *graph = ctx->model->graph;
    Set set = {.ctx = ctx, .name_count = ctx->model->syms.count + more, .err = err};
    set.size_at = ARENA_ARRAY(ctx->scratch, uint32_t, set.name_count + 1);
    set.inputs = ARENA_ARRAY(ctx->scratch, Value *, set.name_count + 1);
    for (size_t i = graph->inputs.count; i-- > 0;)
        set.inputs[graph->inputs.items[i]->name->number] = graph->inputs.items[i];
    return set;
}

/* ---- what is asked for ----------------------------------------------------------------------- */

static bool malformed(Set *set, const char *text, const char *expected) {
    err_set(set->err, ERR_USAGE, "'%s' does not give sizes", text);
    err_expected(set->err, "%s", expected);
    return false;
}

/* One number at *text, which moves behind it. */
static bool take_size(const char **text, int64_t *size) {
    char *end;
    if (**text < '0' || **text > '9') return false;
    errno = 0;
    *size = strtoll(*text, &end, 10);
    *text = end;
    return errno == 0;
}

static Size *size_named(const Set *set, Sym name) {
    const uint32_t at = set->size_at[name->number];
    return at ? &set->sizes.items[at - 1] : NULL;
}

static bool set_size(Set *set, Sym name, int64_t size) {
    const Size *have = size_named(set, name);
    if (have)
        return have->size == size ||
               err_set(set->err, ERR_USAGE, "'%s' is given as both %lld and %lld", sym_text(name),
                       (long long)have->size, (long long)size);
    VEC_PUSH(set->ctx->scratch, &set->sizes, ((Size){.name = name, .size = size}));
    set->size_at[name->number] = (uint32_t)set->sizes.count;
    return true;
}

static bool take_dim(Set *set, const char *text) {
    const char *at = strrchr(text, '=');
    const char *number = at ? at + 1 : text;
    int64_t size;
    if (!at || at == text || !take_size(&number, &size) || *number)
        return malformed(set, text, "NAME=N");
    return set_size(set, sym_intern(&set->ctx->model->syms, text, (size_t)(at - text)), size);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static Value *find_input(Set *set, const char *name, size_t length) {
    const Sym wanted = sym_find(&set->ctx->model->syms, name, length);
    Value *input = wanted ? set->inputs[wanted->number] : NULL;
    if (!input) err_set(set->err, ERR_USAGE, "the model has no input '%.*s'", (int)length, name);
    return input;
}

/* A size below 0, which exporters write for an open one, is one. */
static bool take_input_dim(Set *set, const Value *input, Dim *dim, int64_t size) {
    if (dim->kind == DIM_KNOWN && dim->size >= 0 && dim->size != size) {
        err_set(set->err, ERR_USAGE, "input '%s' has a fixed size", sym_text(input->name));
        err_expected(set->err, "%lld", (long long)dim->size);
        err_actual(set->err, "%lld", (long long)size);
        return false;
    }
    if (dim_is_named(dim) && !set_size(set, dim->symbol, size)) return false;
    *dim = (Dim){.kind = DIM_KNOWN, .size = size, .extra = dim->extra};
    return true;
}

static const Type *with_dims(Model *model, const Type *type, const Dim *dims, uint32_t rank) {
    Type *changed = ARENA_NEW(&model->arena, Type);
    *changed = *type;
    changed->has_shape = true;
    changed->rank = rank;
    changed->dims = dims;
    return changed;
}

static void declare(Model *model, ValueDecl *decl, Value *value, const Type *type) {
    decl_set_type(model, decl, type);
    value_set_type(value, type);
}

static bool take_shape(Set *set, const char *text) {
    Model *model = set->ctx->model;
    const char *at = strrchr(text, '=');
    const char *sizes = at ? at + 1 : text;
    Value *input = at ? find_input(set, text, (size_t)(at - text)) : NULL;
    VEC(Dim) dims = {0};
    if (!at) return malformed(set, text, "NAME=1x3x224x224");
    if (!input) return false;
    const Type *type = input->input->type;
    if (!type || type->kind != TYPE_TENSOR)
        return err_set(set->err, ERR_USAGE, "input '%s' is not a tensor", sym_text(input->name));
    while (*sizes) {
        Dim dim = {.kind = DIM_UNKNOWN};
        int64_t size;
        if (type->has_shape && dims.count < type->rank) dim = type->dims[dims.count];
        if (!take_size(&sizes, &size) || (*sizes && *sizes != 'x' && *sizes != ','))
            return malformed(set, text, "NAME=1x3x224x224");
        if (*sizes && !*++sizes) return malformed(set, text, "NAME=1x3x224x224");
        if (!take_input_dim(set, input, &dim, size)) return false;
        VEC_PUSH(&model->arena, &dims, dim);
    }
    if (type->has_shape && type->rank != dims.count) {
        err_set(set->err, ERR_USAGE, "input '%s' has %u dimensions", sym_text(input->name),
                type->rank);
        err_actual(set->err, "%zu", dims.count);
        return false;
    }
    declare(model, input->input, input, with_dims(model, type, dims.items, (uint32_t)dims.count));
    set->ctx->counts->rewrites++;
    return true;
}

/* ---- names of sizes everywhere --------------------------------------------------------------- */

static Size *size_of(Set *set, const Dim *dim) {
    return dim_is_named(dim) ? size_named(set, dim->symbol) : NULL;
}

/* The type with known sizes in place of names, inside sequences and optionals, too; itself where
 * nothing changes. */
static const Type *resolve(Set *set, const Type *type) {
    Model *model = set->ctx->model;
    Dim *dims = NULL;
    if (!type) return NULL;
    if (type->kind == TYPE_SEQUENCE || type->kind == TYPE_OPTIONAL) {
        const Type *elem = resolve(set, type->elem);
        if (elem == type->elem) return type;
        Type *changed = ARENA_NEW(&model->arena, Type);
        *changed = *type;
        changed->elem = elem;
        return changed;
    }
    for (uint32_t i = 0; type->has_shape && i < type->rank; i++) {
        Size *size = size_of(set, &type->dims[i]);
        if (!size) continue;
        if (!dims) {
            dims = ARENA_ARRAY(&model->arena, Dim, type->rank);
            memcpy(dims, type->dims, type->rank * sizeof *dims);
        }
        dims[i] = (Dim){.kind = DIM_KNOWN, .size = size->size, .extra = dims[i].extra};
        size->found = true;
    }
    return dims ? with_dims(model, type, dims, type->rank) : type;
}

static void resolve_decl(Set *set, ValueDecl *decl, Value *value) {
    const Type *type = decl ? resolve(set, decl->type) : NULL;
    if (type && type != decl->type) {
        decl_set_type(set->ctx->model, decl, type);
        set->ctx->counts->rewrites++;
    }
    value_set_type(value, resolve(set, value->type));
}

static void resolve_graph(Set *set, Graph *graph) {
    for (size_t i = 0; i < graph->inputs.count; i++)
        resolve_decl(set, graph->inputs.items[i]->input, graph->inputs.items[i]);
    for (size_t i = 0; i < graph->outputs.count; i++)
        resolve_decl(set, graph->outputs.items[i]->decl, graph->outputs.items[i]->use.value);
    for (size_t i = 0; i < graph->infos.count; i++)
        resolve_decl(set, graph->infos.items[i]->info, graph->infos.items[i]);
}

static bool run(PassCtx *ctx, const void *data, Err *err) {
    const SetShapesOptions *options = data;
    Set set = set_new(ctx, options->dims.count, err);
    for (size_t i = 0; i < options->dims.count; i++)
        if (!take_dim(&set, options->dims.items[i])) return false;
    size_t named = set.sizes.count;
    for (size_t i = 0; i < options->shapes.count; i++)
        if (!take_shape(&set, options->shapes.items[i])) return false;
    GraphList graphs = model_graphs(ctx->model, ctx->scratch);
    for (size_t i = 0; i < graphs.count; i++)
        if (graph_is_within(graphs.items[i], ctx->model->graph))
            resolve_graph(&set, graphs.items[i]);
    for (size_t i = 0; i < named; i++)
        if (!set.sizes.items[i].found)
            return err_set(err, ERR_USAGE, "the model has no size named '%s'",
                           sym_text(set.sizes.items[i].name));
    return true;
}

const PassInfo set_shapes_pass = {
    .name = "set-shapes",
    .summary = "fix the sizes of inputs",
    .options = options_table,
    .options_size = sizeof(SetShapesOptions),
    .run = run,
};
