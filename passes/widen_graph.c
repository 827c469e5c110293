// SPDX-License-Identifier: Apache-2.0
/* widen-values: 16-bit values become float between nodes, for plans of processors that do not
 * compute in 16 bit.
 *
 *   y = Add(x, w), all float16  ->  y = Cast(Add(Cast(x, float), w'), float16)
 *
 * x and y being the model's own input and output, w' the constant w widened; of a chain of nodes
 * only its ends have casts, and those that rounded inside are gone. A kernel that widens what it
 * reads and rounds what it gives, once in every step, is slower than one of float. Nothing rounds
 * between nodes then, so the results are nearer to those of the float model; faithful plans do
 * without. What an author rounds to widen it again stays rounded.
 *
 * What stays in 16 bit: inputs and outputs of the model; operands of operators that take no float
 * there, that look at bits, of functions (their bodies have some call's types) and of unknown ones;
 * constant tables that rows are picked from; and what follows from constants alone and is no larger
 * than they are, which is computed once, when compiling. Whatever else reads such a value reads it
 * behind a cast. Casts of constants are not executed either: plan_fold stores what they give in
 * 16 bit, as lower-plan does constants. Models with sequences or optionals of 16-bit values are
 * left as they are.
 */
#include <stddef.h>

#include "cast_node.h"
#include "constants.h"
#include "declared_types.h"
#include "fuse_casts.h"
#include "infer_dtypes.h"
#include "isa.h"
#include "op_facts.h"
#include "op_types.h"
#include "passes.h"

typedef enum Bfloat16 { BFLOAT16_MACHINE, BFLOAT16_WIDEN, BFLOAT16_KEEP } Bfloat16;
static const char *const bfloat16_names[] = {"machine", "widen", "keep", NULL};

typedef struct WidenOptions {
    int bfloat16;
} WidenOptions;

static const PassOption options_table[] = {
    {"bfloat16", OPTION_CHOICE, offsetof(WidenOptions, bfloat16), bfloat16_names, "machine",
     "what becomes of bfloat16; machine: kept if this CPU computes in it, else widened"},
    {0},
};

/* A constant that is 16 bit for some readers and float for others is in the plan once from so many
 * elements on. */
enum { LARGE = 1024 };

typedef struct Widen {
    PassCtx *ctx;
    bool bfloat16;
    uint32_t known; /* values that there were in the beginning; those made later are casts */
    uint8_t *was;   /* [known]: the 16-bit type that the value had; 0: none */
    Value **wide;   /* [known]: the same in float; NULL: not needed yet */
    Value **narrow; /* [known]: a widened value in the type it had */
    bool *settled;  /* [known]: follows from constants, and is computed when compiling */
} Widen;

/* ---- questions ------------------------------------------------------------------------------- */

static bool is_low_dtype(const Widen *w, int64_t dtype) {
    return dtype == DTYPE_FLOAT16 || (w->bfloat16 && dtype == DTYPE_BFLOAT16);
}

static bool is_low(const Widen *w, const Value *value) {
    return is_low_dtype(w, type_dtype(value->type));
}

static bool is_constant(const Widen *w, const Value *value) {
    return value_is_constant(value) || (value->id < w->known && w->settled[value->id]);
}

static bool is_main(const Widen *w, const Graph *graph) {
    return graph == w->ctx->model->graph;
}

/* Elements of a value of known dims; -1 for others. */
static int64_t count_of(const Value *value) {
    const Type *type = value_shaped_type(value);
    int64_t count = 1;
    for (uint32_t i = 0; type && i < type->rank; i++) {
        const Dim *dim = &type->dims[i];
        if (dim->kind != DIM_KNOWN || dim->size < 0 ||
            __builtin_mul_overflow(count, dim->size, &count))
            return -1;
    }
    return type ? count : -1;
}

/* The operator's definition; NULL where operands stay as they are, whatever it says. */
static const OpSchema *schema_of(const Node *node) {
    if (model_find_function(node->graph->model, node)) return NULL;
    return op_record_has(node_record(node), OP_BITS) ? NULL : node_schema(node);
}

static bool allows_float(const OpSchema *schema, const OpParam *param) {
    return param && type_set_has(op_param_types(schema, param), OPTYPE_TENSOR, DTYPE_FLOAT);
}

/* True where the node reads operand i, which is 16 bit, as float. */
static bool takes_float(const Widen *w, const Node *node, uint32_t i) {
    const OpSchema *schema = schema_of(node);
    const Value *value = node->inputs[i].value;
    if (!schema || !allows_float(schema, op_schema_input(schema, i))) return false;
    bool rows = i == 0 && op_record_has(node_record(node), OP_TAKES_ROWS);
    return !(rows && is_constant(w, value));
}

/* True where nobody reads the value as float: outputs of the model, and operands that can't be. */
static bool stays_low(const Widen *w, const Value *value) {
    for (const Use *use = value->uses; use; use = use->next)
        if (use->node ? takes_float(w, use->node, use->index) : !is_main(w, value->graph))
            return false;
    return true;
}

/* True where the node follows from constants and gives no more than they are, so that plan_fold
 * computes it: that does so in the main graph alone. */
static bool is_settled(const Widen *w, const Node *node) {
    int64_t given = 0, made = 0;
    if (!is_main(w, node->graph) || !schema_of(node) || !node->input_count ||
        op_record_has(node_record(node), OP_RANDOM))
        return false;
    for (const Attr *attr = node->attrs; attr; attr = attr->next)
        if (attr->type == ATTR_GRAPH || attr->type == ATTR_GRAPHS) return false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const Value *value = node->inputs[i].value;
        if (value && (!is_constant(w, value) || count_of(value) < 0)) return false;
        if (value) given += count_of(value);
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        const Value *value = node->outputs[i];
        if (value && (!is_low(w, value) || count_of(value) < 0)) return false;
        if (value) made += count_of(value);
    }
    return made <= given;
}

/* ---- casts ----------------------------------------------------------------------------------- */

static const Type *type_as(const Widen *w, const Value *value, Dtype dtype) {
    return type_with_dtype(&w->ctx->model->arena, value->type, dtype);
}

/* A constant beside that is the same in float; its data is read when it is written. */
static Value *widened_constant(Widen *w, const Value *value) {
    Model *model = w->ctx->model;
    const Tensor *tensor = value_is_constant(value) ? constant_tensor(value, &model->arena) : NULL;
    if (!tensor || !tensor_check(tensor, NULL)) return NULL;
    const char *stem = arena_printf(w->ctx->scratch, "%s_to_float", sym_text(value->name));
    Value *twin = value_new(value->graph, sym_fresh(&model->syms, stem));
    value_set_type(twin, type_as(w, value, DTYPE_FLOAT));
    value_set_init(twin, tensor_new_cast(&model->arena, tensor, DTYPE_FLOAT));
    w->ctx->counts->rewrites++;
    return twin;
}

static Value *widened(Widen *w, Value *value) {
    Value *wide = value->id < w->known ? w->wide[value->id] : NULL;
    if (wide) return wide;
    wide = widened_constant(w, value);
    if (!wide) wide = cast_insert(w->ctx, value, type_as(w, value, DTYPE_FLOAT), NULL);
    if (value->id < w->known) w->wide[value->id] = wide;
    return wide;
}

/* A value that was widened, in the type it had. */
static Value *narrowed(Widen *w, Value *value) {
    Value **narrow = &w->narrow[value->id];
    if (!*narrow)
        *narrow = cast_insert(w->ctx, value, type_as(w, value, (Dtype)w->was[value->id]), NULL);
    return *narrow;
}

static bool was_widened(const Widen *w, const Value *value) {
    return value->id < w->known && w->was[value->id] && !is_low(w, value);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Attributes that say a 16-bit type say float, where the outputs may be float. */
static void widen_attrs(Widen *w, Node *node, const OpSchema *schema) {
    Arena *arena = &w->ctx->model->arena;
    if (!node->output_count || !allows_float(schema, op_schema_output(schema, 0))) return;
    for (const Attr *attr = node->attrs, *next; attr; attr = next) {
        const char *name = sym_text(attr->name);
        const Tensor *tensor = attr_tensor(attr);
        OpAttrRole role = op_attr_role(schema, name);
        int64_t number;
        next = attr->next;
        if (role != OP_ATTR_OUTPUT && role != OP_ATTR_COMPUTE) continue;
        if (attr_int(attr, &number) && is_low_dtype(w, number))
            node_set_attr_int(node, name, DTYPE_FLOAT);
        else if (attr_is_text(attr, "FLOAT16") || (w->bfloat16 && attr_is_text(attr, "BFLOAT16")))
            node_set_attr_string(node, name, "FLOAT");
        else if (tensor && is_low_dtype(w, tensor->dtype) && tensor_check(tensor, NULL))
            node_set_attr_tensor(node, name, tensor_new_cast(arena, tensor, DTYPE_FLOAT));
        else
            continue;
        w->ctx->counts->rewrites++;
    }
}

/* An author's cast of a float value that is only cast back: there is nothing else it could be for. */
static bool rounds_on_purpose(const Widen *w, const Node *cast) {
    const Value *from = cast->inputs[0].value, *to = cast->outputs[0];
    if (node_is_own_cast(cast) || type_dtype(from->type) != DTYPE_FLOAT || was_widened(w, from) ||
        !to->uses)
        return false;
    for (const Use *use = to->uses; use; use = use->next)
        if (!node_is_cast(use->node) || type_dtype(use->node->outputs[0]->type) != DTYPE_FLOAT)
            return false;
    return true;
}

/* Casts that stay as they are: of what is 16 bit to another type, and to 16 bit for those that want
 * it. Of a small constant it is as well a constant. */
static bool is_wanted_cast(const Widen *w, const Node *cast) {
    const Value *from = cast->inputs[0].value, *to = cast->outputs[0];
    if (!from || !to) return false;
    if (is_low(w, to)) return stays_low(w, to) || rounds_on_purpose(w, cast);
    int64_t count = count_of(from);
    return is_low(w, from) && !(value_is_constant(from) && count >= 0 && count < LARGE);
}

/* A Constant stays: where it is 16 bit, a float one is put beside it. */
static bool is_constant_node(const Node *node) {
    return !node->input_count && node->output_count && node->outputs[0] &&
           value_is_constant(node->outputs[0]);
}

/* Gives a node its operands in the types it is to have; called where those of its operands are
 * known already. */
static void visit(void *data, Node *node) {
    Widen *w = data;
    if (!graph_is_within(node->graph, w->ctx->model->graph)) return;
    if (is_settled(w, node)) {
        for (uint32_t i = 0; i < node->output_count; i++)
            if (node->outputs[i] && node->outputs[i]->id < w->known)
                w->settled[node->outputs[i]->id] = true;
        return;
    }
    if (node_is_cast(node) && is_wanted_cast(w, node)) return;
    for (uint32_t i = 0; i < node->input_count; i++) {
        Value *value = node->inputs[i].value;
        if (!value) continue;
        bool takes = takes_float(w, node, i);
        if (is_low(w, value) && takes)
            node_set_input(node, i, widened(w, value));
        else if (was_widened(w, value) && !takes)
            node_set_input(node, i, narrowed(w, value));
    }
    const OpSchema *schema = schema_of(node);
    if (schema && !is_constant_node(node)) widen_attrs(w, node, schema);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* What inner graphs give, which their nodes' other operands and graphs must agree with. True where
 * something changed. */
static bool widen_inner_outputs(Widen *w, const Graph *graph) {
    bool changed = false;
    if (is_main(w, graph) || !graph->owner || !schema_of(graph->owner)) return false;
    for (size_t i = 0; i < graph->outputs.count; i++) {
        GraphOutput *output = graph->outputs.items[i];
        if (!is_low(w, output->use.value)) continue;
        use_set(&output->use, widened(w, output->use.value));
        changed = true;
    }
    return changed;
}

/* The model's outputs have the types they had. */
static void narrow_outputs(Widen *w, Graph *graph) {
    for (size_t i = 0; i < graph->outputs.count; i++) {
        GraphOutput *output = graph->outputs.items[i];
        Value *value = output->use.value;
        if (!was_widened(w, value)) continue;
        Value *narrow = narrowed(w, value);
        use_set(&output->use, narrow);
        if (!value_is_named_output(value)) cast_name_output(w->ctx, value, narrow);
    }
}

/* Constants that are read in both types: a cast of the one is the other. */
static void join_constants(Widen *w, const Graph *graph) {
    for (size_t i = 0; i < graph->initializers.count; i++) {
        Value *value = graph->initializers.items[i];
        Value *wide = value->id < w->known ? w->wide[value->id] : NULL;
        if (!wide || !wide->init || !wide->uses || !value->uses || count_of(value) < LARGE)
            continue;
        value_replace_uses(wide, cast_insert(w->ctx, value, wide->type, NULL));
    }
}

static bool holds_low(const Widen *w, const Value *value) {
    TypeKind kind = value ? value_type(value)->kind : TYPE_NONE;
    return (kind == TYPE_SEQUENCE || kind == TYPE_OPTIONAL) && is_low(w, value);
}

/* Notes 16-bit values. False where there is nothing to do: there are none, or some are elements of
 * sequences or optionals. */
static bool survey(Widen *w, const GraphList *graphs) {
    bool any = false;
    for (size_t g = 0; g < graphs->count; g++) {
        const Graph *graph = graphs->items[g];
        for (size_t i = 0; i < graph->inputs.count; i++) {
            const Value *value = graph->inputs.items[i];
            if (holds_low(w, value)) return false;
            any |= is_low(w, value);
            if (is_low(w, value)) w->was[value->id] = (uint8_t)type_dtype(value->type);
        }
        for (const Node *node = graph->first; node; node = node_after(node))
            for (uint32_t i = 0; i < node->output_count; i++) {
                const Value *value = node->outputs[i];
                if (!value) continue;
                if (holds_low(w, value)) return false;
                any |= is_low(w, value);
                if (is_low(w, value)) w->was[value->id] = (uint8_t)type_dtype(value->type);
            }
    }
    return any;
}

/* The graphs of the model that plans are made of: but functions' and training's. */
static GraphList own_graphs(PassCtx *ctx) {
    GraphList all = model_graphs(ctx->model, ctx->scratch), own = {0};
    for (size_t i = 0; i < all.count; i++)
        if (graph_is_within(all.items[i], ctx->model->graph))
            VEC_PUSH(ctx->scratch, &own, all.items[i]);
    return own;
}

static bool run(PassCtx *ctx, const void *opts, Err *err) {
    const WidenOptions *options = opts;
    uint32_t known = ctx->model->value_count;
    Widen w = {.ctx = ctx,
               .bfloat16 = options->bfloat16 == BFLOAT16_WIDEN ||
                           (options->bfloat16 == BFLOAT16_MACHINE && !isa_has_bfloat16()),
               .known = known,
               .was = ARENA_ARRAY(ctx->scratch, uint8_t, known + 1),
               .wide = ARENA_ARRAY(ctx->scratch, Value *, known + 1),
               .narrow = ARENA_ARRAY(ctx->scratch, Value *, known + 1),
               .settled = ARENA_ARRAY(ctx->scratch, bool, known + 1)};
    GraphList graphs = own_graphs(ctx);
    if (!survey(&w, &graphs)) return true;
    const InferHook hook = {.before_node = visit, .data = &w};
    bool again = true;
    while (again) {
        again = false;
        if (!infer_dtypes(ctx, NULL, &hook, err)) return false;
        for (size_t i = 0; i < graphs.count; i++) again |= widen_inner_outputs(&w, graphs.items[i]);
    }
    narrow_outputs(&w, ctx->model->graph);
    for (size_t i = 0; i < graphs.count; i++) join_constants(&w, graphs.items[i]);
    for (size_t i = 0; i < graphs.count; i++) declared_types_follow(graphs.items[i]);
    fuse_casts(ctx, FUSE_ALL);
    return true;
}

const PassInfo widen_values_pass = {
    .name = "widen-values",
    .summary =
        "widen 16-bit values to float32 between nodes, for plans for CPUs that compute in float32",
    .needs = FACT_DTYPES,
    .gives = FACT_DTYPES,
    .options = options_table,
    .options_size = sizeof(WidenOptions),
    .idempotent = true,
    .run = run,
};
