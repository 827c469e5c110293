// SPDX-License-Identifier: Apache-2.0
/* strip-casts: takes insert-casts back.
 *
 * Before: x1 = Cast(x, float16) @own; y1 = Conv(x1, w1); y = Cast(y1, float) @own
 * After:  y = Conv(x, w)
 *
 * Casts that demi inserted go, attributes that it changed get their old types, and float spreads
 * again from the graph inputs; inputs and outputs that it lowered are float again. Constants that
 * cast-params stored in 16 bit become float once more, with the rounding they have had; kept ones
 * give back the original graph. Where something else is 16 bit, a cast is put where it meets the
 * rest. What comes out has right types (strict_types.h) where what went in had, or the pass fails.
 *
 * Which 16-bit constants were float is told by what else has their types (type_classes.h).
 */
#include <stdlib.h>
#include <string.h>

#include "cast_node.h"
#include "compare.h"
#include "constants.h"
#include "declared_types.h"
#include "default_import.h"
#include "infer_dtypes.h"
#include "op_facts.h"
#include "op_types.h"
#include "passes.h"
#include "strict_types.h"
#include "type_classes.h"

static bool is_low(Dtype dtype) {
    return dtype_is_reduced(dtype);
}

/* ---- removing -------------------------------------------------------------------------------- */

typedef struct Restore {
    PassCtx *ctx;
    Value **mentions; /* [value_count], by the id of what had the entry; NULL: there are none yet */
    uint32_t value_count;
} Restore;

/* An entry for an output that a cast gave its name to is not demi's: the file had two of it, and
 * the other one is with the value that the cast reads. It stays, as a mention (mentions.h), which
 * takes its place when the graph's casts are gone. */
static void keep_repeated_info(Restore *r, Value *result) {
    Graph *graph = result->graph;
    if (!r->mentions) {
        r->value_count = graph->model->value_count;
        r->mentions = ARENA_ARRAY(r->ctx->scratch, Value *, r->value_count);
    }
    Value *mention = value_new(graph, result->name);
    mention->info = result->info;
    mention->type = result->type;
    r->mentions[result->id] = mention;
    result->info = NULL;
    graph->model->mentions = true;
}

static void list_mentions(const Restore *r, Graph *graph) {
    for (size_t i = 0; r->mentions && i < graph->infos.count; i++) {
        const uint32_t id = graph->infos.items[i]->id;
        if (id < r->value_count && r->mentions[id]) graph->infos.items[i] = r->mentions[id];
    }
}

static void remove_cast(Restore *r, Node *cast) {
    Value *result = cast->outputs[0], *source = cast->inputs[0].value;
    if (value_is_named_output(result)) {
        if (source->input || source->graph != result->graph || value_is_named_output(source))
            return;
        if (result->info && source->info) keep_repeated_info(r, result);
        value_swap_names(result, source);
    }
    value_replace_uses(result, source);
    node_remove_unswept(cast);
    r->ctx->counts->casts_removed++;
    r->ctx->counts->rewrites++;
}

/* The one number that a tensor had: its bits in hex, '#' in raw_data or '~' in float_data. */
static const Tensor *restore_number(Arena *arena, const Tensor *tensor, char kind,
                                    const char *hex) {
    uint32_t bits = (uint32_t)strtoul(hex, NULL, 16);
    Tensor *number = ARENA_NEW(arena, Tensor);
    *number = *tensor;
    number->dtype = DTYPE_FLOAT;
    number->storage = kind == '#' ? TENSOR_RAW : TENSOR_FLOATS;
    number->source = NULL;
    number->cast_of = NULL;
    number->factors = NULL;
    number->bytes = arena_copy(arena, &bits, sizeof bits);
    number->size = sizeof bits;
    return number;
}

static void restore_attr(Node *node, char *name) {
    Arena *arena = &node->graph->model->arena;
    char *was = strpbrk(name, "#~");
    char kind = was ? *was : 0;
    if (was) *was = '\0';
    const Attr *attr = node_attr(node, name);
    const Tensor *tensor = attr_tensor(attr);
    if (!attr || attr->ref) return; /* insert-casts leaves a function's parameter alone */
    if (was && tensor && tensor_check(tensor, NULL) && tensor_count(tensor) == 1) {
        node_set_attr_tensor(node, name, restore_number(arena, tensor, kind, was + 1));
        return;
    }
    if (attr->type == ATTR_INT)
        node_set_attr_int(node, name, DTYPE_FLOAT);
    else if (attr->type == ATTR_STRING)
        node_set_attr_string(node, name, "FLOAT");
    else if (tensor)
        node_set_attr_tensor(node, name, tensor_new_cast(arena, tensor, DTYPE_FLOAT));
    else if (attr_type(attr))
        node_set_attr_type(node, name, type_with_dtype(arena, attr_type(attr), DTYPE_FLOAT));
}

/* The next entry of demi.was in a list of metadata, or the list's end. */
static KeyValue **find_was(KeyValue **at) {
    while (*at && !(sym_equals((*at)->key, "demi.was") && (*at)->value)) at = &(*at)->next;
    return at;
}

/* May insert-casts have written this entry? Only attributes that say a type are changed, and only
 * those are added that a node can do without; anybody may write entries. */
static bool is_own_mark(const Node *node, const char *name, bool absent) {
    const OpSchema *schema = node_schema(node);
    const OpAttr *formal = schema ? op_schema_attr(schema, name) : NULL;
    if (!formal || model_find_function(node->graph->model, node)) return false;
    OpAttrRole role = op_attr_role(schema, name);
    if (role != OP_ATTR_OUTPUT && role != OP_ATTR_COMPUTE) return false;
    return !absent || (!formal->required && !sym_equals(node->op_type, "Constant"));
}

/* demi.was entries: NAME, NAME= where the attribute was absent, or NAME and the number it held. */
static void restore_attrs(PassCtx *ctx, Node *node) {
    for (KeyValue **at = find_was(&node->metadata); *at; at = find_was(at)) {
        const KeyValue *entry = *at;
        size_t length = entry->value->length;
        bool absent = length && entry->value->text[length - 1] == '=';
        char *name = arena_copy(ctx->scratch, entry->value->text, absent ? length - 1 : length);
        const char *bare = arena_copy(ctx->scratch, name, strcspn(name, "#~"));
        if (!is_own_mark(node, bare, absent)) {
            at = &(*at)->next;
            continue;
        }
        if (absent)
            node_remove_attr(node, name);
        else
            restore_attr(node, name);
        *at = entry->next;
        model_touch(ctx->model); /* the attribute may be as it was all the same */
        ctx->counts->rewrites++;
    }
}

/* True where the declaration is of an input or output that demi lowered; forgets it. */
static bool was_float(PassCtx *ctx, ValueDecl *decl) {
    KeyValue **at = find_was(&decl->metadata);
    if (!*at) return false;
    *at = (*at)->next;
    model_touch(ctx->model);
    ctx->counts->rewrites++;
    return true;
}

static void restore_interface(PassCtx *ctx, Graph *graph) {
    Arena *arena = &graph->model->arena;
    for (size_t i = 0; i < graph->inputs.count; i++) {
        Value *value = graph->inputs.items[i];
        if (!was_float(ctx, value->input)) continue;
        value_declare_input(value, DTYPE_FLOAT);
        value_set_type(value, type_with_dtype(arena, value->type, DTYPE_FLOAT));
        if (value->init) value_set_init(value, tensor_new_cast(arena, value->init, DTYPE_FLOAT));
    }
    for (size_t i = 0; i < graph->outputs.count; i++)
        if (was_float(ctx, graph->outputs.items[i]->decl))
            graph_declare_output(graph, (uint32_t)i, DTYPE_FLOAT);
}

/* ---- constants ------------------------------------------------------------------------------- */

typedef VEC(Value *) ValueList;

/* Constants in 16 bit, in the order of the file. */
static ValueList low_constants(PassCtx *ctx, const GraphList *graphs) {
    ValueList found = {0};
    for (size_t g = 0; g < graphs->count; g++) {
        const Graph *graph = graphs->items[g];
        for (size_t i = 0; i < graph->initializers.count; i++)
            if (value_is_constant(graph->initializers.items[i]) &&
                is_low((Dtype)graph->initializers.items[i]->init->dtype))
                VEC_PUSH(ctx->scratch, &found, graph->initializers.items[i]);
        for (Node *node = graph->first; node; node = node_after(node)) {
            Value *value = node->output_count == 1 && !node->input_count ? node->outputs[0] : NULL;
            const Tensor *tensor =
                value && value_is_constant(value) ? constant_tensor(value, ctx->scratch) : NULL;
            if (tensor && is_low((Dtype)tensor->dtype)) VEC_PUSH(ctx->scratch, &found, value);
        }
    }
    return found;
}

/* Weights that an author stores in 16 bit are cast where they are read. */
static bool is_cast_by_author(const Value *value) {
    for (const Use *use = value->uses; use; use = use->next)
        if (!node_is_cast(use->node)) return false;
    return true;
}

/* In a model of demi's a 16-bit constant that is read is demi's too, but where its class has a
 * 16-bit type of the author's own. Where both are said, nothing is known, and casts bring them
 * together. */
static bool was_narrowed(TypeClasses *classes, const Value *value) {
    unsigned said = type_classes_said(classes, value);
    if (!value->uses || value->referenced) return false;
    return said == TYPE_SAID_FLOAT || (said == 0 && !is_cast_by_author(value));
}

/* Gives a constant of 16 bit its old type. */
static void widen(PassCtx *ctx, Value *value) {
    Arena *arena = &value->graph->model->arena;
    const Tensor *tensor = constant_tensor(value, arena);
    constant_replace(value, tensor_new_cast(arena, tensor, DTYPE_FLOAT));
    value_set_type(value, type_with_dtype(arena, value->type, DTYPE_FLOAT));
    ctx->counts->rewrites++;
}

/* True where `copy` is what cast-params{both=true} makes of `from`: its rounding. */
static bool is_rounding(PassCtx *ctx, const Tensor *copy, const Tensor *from) {
    if (from->dtype != DTYPE_FLOAT || from->rank != copy->rank || !tensor_check(from, NULL) ||
        !tensor_check(copy, NULL))
        return false;
    for (uint32_t i = 0; i < from->rank; i++)
        if (from->dims[i] != copy->dims[i]) return false;
    const Tensor *rounded = tensor_new_cast(ctx->scratch, from, (Dtype)copy->dtype);
    const Tensor *clamped = tensor_new_cast_clamped(ctx->scratch, from, (Dtype)copy->dtype);
    Err ignored = {0}, also = {0};
    uint64_t size = tensor_raw_size(copy);
    return tensor_compare_raw(copy, rounded, size, &ignored) ||
           tensor_compare_raw(copy, clamped, size, &also);
}

/* Float constants by their names' numbers, of one graph at a time. */
typedef struct Originals {
    const Graph *graph;
    Value **by_name; /* [count]; those of other graphs count for nothing */
    size_t count;
} Originals;

static void originals_fill(Originals *o, const Graph *graph) {
    o->graph = graph;
    for (size_t i = 0; i < graph->initializers.count; i++)
        o->by_name[graph->initializers.items[i]->name->number] = graph->initializers.items[i];
    for (Node *node = graph->first; node; node = node_after(node))
        if (node->output_count == 1 && !node->input_count && node->outputs[0])
            o->by_name[node->outputs[0]->name->number] = node->outputs[0];
}

/* The float constant of that name in the graph of `copy`, where that is its rounding; else NULL. */
static Value *original_named(PassCtx *ctx, Originals *o, const Value *copy, Sym name) {
    if (!name || name->number >= o->count) return NULL;
    if (o->graph != copy->graph) originals_fill(o, copy->graph);
    Value *value = o->by_name[name->number];
    if (!value || value->graph != copy->graph || !value_is_constant(value) || value->referenced)
        return NULL;
    const Tensor *tensor = constant_tensor(copy, ctx->scratch);
    const Tensor *from = constant_tensor(value, ctx->scratch);
    return from && is_rounding(ctx, tensor, from) ? value : NULL;
}

/* The constant that a 16-bit one was made of and put beside, told by their names and data: w of
 * w_float16, or y_float of y where y is an output. NULL where there is none. */
static Value *original_of(PassCtx *ctx, Originals *o, const Value *copy) {
    const Tensor *tensor = constant_tensor(copy, ctx->scratch);
    const char *name = copy->name->text, *end = NULL;
    const char *suffix = tensor->dtype == DTYPE_FLOAT16 ? "_float16" : "_bfloat16";
    const SymTable *syms = &ctx->model->syms;
    if (value_is_named_output(copy)) {
        const char *kept = arena_printf(ctx->scratch, "%s_float", name);
        return original_named(ctx, o, copy, sym_find(syms, kept, strlen(kept)));
    }
    for (const char *at = strstr(name, suffix); at; at = strstr(at + 1, suffix)) end = at;
    return end ? original_named(ctx, o, copy, sym_find(syms, name, (size_t)(end - name))) : NULL;
}

static void drop_copy(PassCtx *ctx, Value *copy, Value *original) {
    if (value_is_named_output(copy)) value_swap_names(copy, original);
    value_replace_uses(copy, original);
    if (copy->producer)
        node_remove(copy->producer);
    else
        graph_remove_initializer(copy);
    ctx->counts->rewrites++;
}

/* Constants that demi stored in 16 bit, or a second time in 16 bit, are as they were, but for the
 * rounding of the former. */
static void restore_constants(PassCtx *ctx, const GraphList *graphs, TypeClasses *classes) {
    ValueList constants = low_constants(ctx, graphs);
    Originals originals = {.count = ctx->model->syms.count};
    originals.by_name = ARENA_ARRAY(ctx->scratch, Value *, originals.count);
    model_batch_removals(ctx->model);
    for (size_t i = 0; i < constants.count; i++) {
        Value *value = constants.items[i];
        if (!was_narrowed(classes, value)) continue;
        Value *original = original_of(ctx, &originals, value);
        if (original && value_is_named_output(value) && value_is_named_output(original))
            original = NULL;
        if (original)
            drop_copy(ctx, value, original);
        else
            widen(ctx, value);
    }
    model_sweep(ctx->model, ctx->scratch);
}

/* ---- bringing types together again ----------------------------------------------------------- */

static Value *as_float(PassCtx *ctx, Node *reader, Value *value) {
    Model *model = value->graph->model;
    const Tensor *tensor = constant_tensor(value, &model->arena);
    const Type *type = type_with_dtype(&model->arena, value->type, DTYPE_FLOAT);
    ctx->counts->rewrites++;
    if (tensor && tensor_check(tensor, NULL)) {
        constant_replace(value, tensor_new_cast(&model->arena, tensor, DTYPE_FLOAT));
        value_set_type(value, type);
        return value;
    }
    Node *cast = node_new(reader->graph, reader, sym_intern_cstr(&model->syms, "Cast"), NULL);
    node_resize_inputs(cast, 1);
    node_resize_outputs(cast, 1);
    node_set_input(cast, 0, value);
    Value *result = value_new(
        reader->graph,
        sym_fresh(&model->syms, arena_printf(ctx->scratch, "%s_to_float", value->name->text)));
    node_set_output(cast, 0, result);
    cast_set_to(cast, DTYPE_FLOAT);
    value_set_type(result, type);
    return result;
}

static Dtype dtype_of(const Use *use) {
    return use->value ? type_dtype(use->value->type) : DTYPE_UNDEFINED;
}

/* Operands of one type variable of which some are float again and some still 16 bit. */
static void unite_operands(void *data, Node *node) {
    PassCtx *ctx = data;
    const OpSchema *schema = node_schema(node);
    if (!schema) return;
    bool is_float[256] = {false};
    for (uint32_t i = 0; i < node->input_count; i++) {
        const OpParam *param = op_schema_input(schema, i);
        if (param && param->var != OP_NO_VAR && dtype_of(&node->inputs[i]) == DTYPE_FLOAT)
            is_float[param->var] = true;
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        const OpParam *param = op_schema_input(schema, i);
        bool shared = param && param->var != OP_NO_VAR &&
                      (param->option != OP_VARIADIC || param->homogeneous);
        if (!shared || !is_float[param->var] || !is_low(dtype_of(&node->inputs[i]))) continue;
        node_set_input(node, i, as_float(ctx, node, node->inputs[i].value));
    }
}

/* Outputs that are declared low are low still. */
static void lower_outputs(PassCtx *ctx, Graph *graph) {
    Model *model = graph->model;
    for (size_t i = 0; i < graph->outputs.count; i++) {
        GraphOutput *output = graph->outputs.items[i];
        Value *value = output->use.value;
        Dtype declared = type_dtype(output->decl->type);
        if (!is_low(declared) || type_dtype(value->type) != DTYPE_FLOAT) continue;
        Node *cast = node_new(graph, NULL, sym_intern_cstr(&model->syms, "Cast"), NULL);
        node_resize_inputs(cast, 1);
        node_resize_outputs(cast, 1);
        char *stem = arena_printf(ctx->scratch, "%s_float", value->name->text);
        Value *result = value_new(graph, sym_fresh(&model->syms, stem));
        node_set_output(cast, 0, result);
        use_set(&output->use, result);
        value_swap_names(value, result);
        node_set_input(cast, 0, value);
        cast_set_to(cast, declared);
        value_set_type(result, type_with_dtype(&model->arena, value->type, declared));
        ctx->counts->rewrites++;
    }
}

static void restore_nodes(PassCtx *ctx, const GraphList *graphs) {
    Restore r = {.ctx = ctx};
    for (size_t i = 0; i < graphs->count; i++) {
        for (Node *node = graphs->items[i]->first, *next; node; node = next) {
            next = node->next;
            if (node_is_own_cast(node))
                remove_cast(&r, node);
            else
                restore_attrs(ctx, node);
        }
        list_mentions(&r, graphs->items[i]);
        graph_sweep(graphs->items[i]);
    }
}

/* A model that was edited since it was converted may not come together again. Entries of value_info
 * that were wrong before are not looked at: the others follow their values. */
static bool check_result(PassCtx *ctx, Err *err) {
    if (strict_types(ctx, false, err)) return true;
    err_hint(err, "cannot remove the casts: the model was changed after demi inserted them");
    return false;
}

static bool run(PassCtx *ctx, const void *options, Err *err) {
    (void)options;
    GraphList graphs = model_graphs(ctx->model, ctx->scratch);
    if (!casts_left_mark(ctx->model, &graphs)) return true; /* nothing of ours in this model */
    Err fault = {.code = ERR_NONE};
    bool sound = strict_types(ctx, false, &fault);
    if (!sound && !infer_dtypes(ctx, NULL, NULL, err)) return false;
    TypeClasses classes = type_classes_build(ctx->model, ctx->scratch);
    restore_interface(ctx, ctx->model->graph);
    restore_nodes(ctx, &graphs);
    restore_constants(ctx, &graphs, &classes);
    InferHook hook = {.before_node = unite_operands, .data = ctx};
    if (!infer_dtypes(ctx, NULL, &hook, err)) return false;
    for (size_t i = 0; i < graphs.count; i++) declared_types_follow(graphs.items[i]);
    lower_outputs(ctx, ctx->model->graph);
    default_imports_restore(ctx->model);
    while (model_take_mark(ctx->model, NULL, "demi.was", CONSTANTS_MARK)) {
    }
    return !sound || check_result(ctx, err); /* what was wrong before may stay so */
}

const PassInfo strip_casts_pass = {
    .name = "strip-casts",
    .summary = "remove the casts that demi inserted, and restore the types of constants",
    .breaks = FACT_SHAPES,
    .idempotent = true,
    .run = run,
};
