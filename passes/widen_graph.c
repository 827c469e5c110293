// SPDX-License-Identifier: Apache-2.0
/* Values of narrow types become float node by node; see widen_graph.h. */
#include "widen_graph.h"

#include <float.h>
#include <math.h>

#include "cast_node.h"
#include "constant_store.h"
#include "constants.h"
#include "declared_types.h"
#include "fuse_casts.h"
#include "infer_dtypes.h"
#include "op_facts.h"
#include "op_types.h"

/* A constant that is 16 bit for some readers and float for others is in the plan once from so many
 * elements on. */
enum { LARGE = 1024 };

typedef struct Widen {
    PassCtx *ctx;
    const WidenRequest *request;
    ConstantStore store;
    Err *err;
    bool failed;    /* *err is set */
    uint32_t known; /* values that there were in the beginning; those made later are casts */
    uint8_t *was;   /* [known]: the 16-bit type that the value had; 0: none */
    Value **wide;   /* [known]: the same in float; NULL: not needed yet */
    Value **narrow; /* [known]: a widened value in the type it had */
    bool *settled;  /* [known]: follows from constants, and is computed when compiling */
} Widen;

/* ---- questions ------------------------------------------------------------------------------- */

static bool is_low_dtype(const Widen *w, int64_t dtype) {
    return dtype >= 0 && dtype < DTYPE_COUNT && w->request->types >> dtype & 1;
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

/* True where an attribute's tensor has the operand's type, as TreeEnsemble's splits: rounding both would move
 * what is compared. */
static bool has_data_of(const Node *node, const OpSchema *schema, uint32_t i) {
    const OpParam *param = op_schema_input(schema, i);
    for (const Attr *attr = node->attrs; attr; attr = attr->next) {
        const OpTypeVar *var =
            attr_tensor(attr) ? op_tensor_attr_var(schema, sym_text(attr->name)) : NULL;
        if (var && param && param->var == (int)(var - schema->vars)) return true;
    }
    return false;
}

/* True where the node reads operand i, which is 16 bit, as float. */
static bool takes_float(const Widen *w, const Node *node, uint32_t i) {
    const OpSchema *schema = schema_of(node);
    const Value *value = node->inputs[i].value;
    if (!schema || !allows_float(schema, op_schema_input(schema, i))) return false;
    if (w->request->file && has_data_of(node, schema, i)) return false;
    bool rows = !w->request->file && i == 0 && op_record_has(node_record(node), OP_TAKES_ROWS);
    return !(rows && is_constant(w, value));
}

/* True where nobody reads the value as float: outputs of the model, and operands that can't be. */
static bool stays_low(const Widen *w, const Value *value) {
    for (const Use *use = value->uses; use; use = use->next)
        if (use->node ? takes_float(w, use->node, use->index)
                      : w->request->io || !is_main(w, value->graph))
            return false;
    return true;
}

/* True where the node follows from constants and gives no more than they are, so that plan_fold
 * computes it: that does so in the main graph alone. */
static bool is_settled(const Widen *w, const Node *node) {
    int64_t given = 0, made = 0;
    if (w->request->file || !is_main(w, node->graph) || !schema_of(node) || !node->input_count ||
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

/* True where everybody who reads the constant reads it as float. */
static bool all_take_float(const Widen *w, const Value *value) {
    for (const Use *use = value->uses; use; use = use->next)
        if (!use->node || !takes_float(w, use->node, use->index)) return false;
    return true;
}

/* Says how many doubles of the constant are past the largest float. False where it can't be read. */
static bool count_clamped(Widen *w, const Value *value, const Tensor *tensor) {
    enum { PART = 1024 };
    double window[PART];
    ValueStatistics statistics = {.count = tensor_count(tensor)};
    for (uint64_t first = 0; first < statistics.count; first += PART) {
        const uint64_t left = statistics.count - first, now = left < PART ? left : PART;
        if (!tensor_read_raw(tensor, first * sizeof *window, window, now * sizeof *window, w->err))
            return false;
        for (uint64_t i = 0; i < now; i++)
            statistics.overflow += fabs(window[i]) > FLT_MAX && !isinf(window[i]);
    }
    PassCounts *counts = w->ctx->counts;
    counts->overflow += statistics.overflow;
    if (!statistics.overflow) return true;
    statistics.max_abs = FLT_MAX;
    pass_note_loss(counts, &w->ctx->model->arena,
                   (TensorLoss){.name = sym_text(value->name),
                                .fate = LOSS_CLAMPED,
                                .statistics = statistics});
    return true;
}

/* In a file, a constant keeps its name and place. NULL where it can't. */
static Value *constant_in_place(Widen *w, Value *value) {
    const Tensor *tensor = w->request->file && value_is_constant(value) && !value->referenced
                               ? constant_tensor(value, &w->ctx->model->arena)
                               : NULL;
    if (!tensor || !tensor_check(tensor, NULL) || !all_take_float(w, value)) return NULL;
    if (tensor->dtype == DTYPE_DOUBLE && !w->failed) w->failed = !count_clamped(w, value, tensor);
    constant_store(&w->store, value, tensor, DTYPE_FLOAT);
    w->ctx->counts->rewrites++;
    return value;
}

static Value *widened(Widen *w, Value *value) {
    Value *wide = value->id < w->known ? w->wide[value->id] : NULL;
    if (wide) return wide;
    wide = constant_in_place(w, value);
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

/* A type by its name in upper case, as Cast had it until opset 5. */
static bool is_low_text(const Widen *w, const Attr *attr) {
    return (is_low_dtype(w, DTYPE_FLOAT16) && attr_is_text(attr, "FLOAT16")) ||
           (is_low_dtype(w, DTYPE_BFLOAT16) && attr_is_text(attr, "BFLOAT16")) ||
           (is_low_dtype(w, DTYPE_DOUBLE) && attr_is_text(attr, "DOUBLE"));
}

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
        else if (is_low_text(w, attr))
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
    if (is_low(w, to)) return stays_low(w, to) || (!w->request->file && rounds_on_purpose(w, cast));
    if (w->request->stored && type_dtype(from->type) == w->request->stored &&
        type_dtype(to->type) == DTYPE_FLOAT && value_is_constant(from) && node_is_own_cast(cast))
        return true;
    int64_t count = count_of(from);
    bool small = count >= 0 && count < LARGE;
    return is_low(w, from) && !(value_is_constant(from) && (small || w->request->file));
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

/* True where the value is one to be widened, which is noted. *held: it is inside a sequence or an optional. */
static bool survey_value(Widen *w, const Value *value, bool *held) {
    if (!value || !is_low(w, value)) return false;
    *held |= holds_low(w, value);
    w->was[value->id] = (uint8_t)type_dtype(value->type);
    return true;
}

/* Notes values that are to be widened. False where there is nothing to do: there are none, or some are elements
 * of sequences or optionals. */
static bool survey(Widen *w, const GraphList *graphs) {
    bool any = false, held = false;
    for (size_t g = 0; g < graphs->count; g++) {
        const Graph *graph = graphs->items[g];
        for (size_t i = 0; i < graph->inputs.count; i++)
            any |= survey_value(w, graph->inputs.items[i], &held);
        for (size_t i = 0; w->request->file && i < graph->initializers.count; i++)
            any |= survey_value(w, graph->initializers.items[i], &held);
        for (const Node *node = graph->first; node; node = node_after(node))
            for (uint32_t i = 0; i < node->output_count; i++)
                any |= survey_value(w, node->outputs[i], &held);
    }
    return any && !held;
}

/* The graphs of the model that plans are made of: but functions' and training's. */
static GraphList own_graphs(PassCtx *ctx) {
    GraphList all = model_graphs(ctx->model, ctx->scratch), own = {0};
    for (size_t i = 0; i < all.count; i++)
        if (graph_is_within(all.items[i], ctx->model->graph))
            VEC_PUSH(ctx->scratch, &own, all.items[i]);
    return own;
}

/* In a file, casts of an author that were between floats of different types and change nothing any more go as
 * demi's own do; others stay as they are. */
static void mark_idle_casts(Widen *w, const Graph *graph) {
    for (Node *node = graph->first; node; node = node_after(node)) {
        if (!node_is_cast(node) || node_is_own_cast(node)) continue;
        const Value *from = node->inputs[0].value, *to = node->outputs[0];
        const bool changed =
            (to->id < w->known && w->was[to->id]) || from->id >= w->known || w->was[from->id];
        if (changed && type_dtype(from->type) == DTYPE_FLOAT && type_dtype(to->type) == DTYPE_FLOAT)
            node_add_metadata(node, "demi.inserted", "cast");
    }
}

/* Inputs and outputs of the model become float themselves. */
static void widen_inputs(Widen *w, const Graph *graph) {
    for (size_t i = 0; i < graph->inputs.count; i++) {
        Value *value = graph->inputs.items[i];
        if (!is_low(w, value)) continue;
        value_set_type(value, type_as(w, value, DTYPE_FLOAT));
        value_declare_input(value, DTYPE_FLOAT);
        if (value->init) value_set_init(value, constant_as(&w->store, value->init, DTYPE_FLOAT));
        w->ctx->counts->rewrites++;
    }
}

static void widen_outputs(Widen *w, Graph *graph) {
    for (size_t i = 0; i < graph->outputs.count; i++) {
        GraphOutput *output = graph->outputs.items[i];
        Value *value = output->use.value;
        if (!is_low(w, value) && !was_widened(w, value)) continue;
        if (is_low(w, value)) {
            Value *wide = widened(w, value);
            use_set(&output->use, wide);
            if (wide != value && !value_is_named_output(value))
                cast_name_output(w->ctx, value, wide);
        }
        graph_declare_output(graph, (uint32_t)i, DTYPE_FLOAT);
    }
}

static bool holds_types(const Widen *w, const GraphList *graphs) {
    for (size_t g = 0; g < graphs->count; g++) {
        const Graph *graph = graphs->items[g];
        for (size_t i = 0; i < graph->inputs.count; i++)
            if (is_low(w, graph->inputs.items[i])) return true;
        for (size_t i = 0; i < graph->initializers.count; i++)
            if (is_low(w, graph->initializers.items[i])) return true;
        for (const Node *node = graph->first; node; node = node_after(node))
            for (uint32_t i = 0; i < node->output_count; i++)
                if (node->outputs[i] && is_low(w, node->outputs[i])) return true;
    }
    return false;
}

bool widen_graph(PassCtx *ctx, const WidenRequest *request, Err *err) {
    uint32_t known = ctx->model->value_count;
    Widen w = {.ctx = ctx,
               .request = request,
               .store = {.ctx = ctx, .clamp = true},
               .err = err,
               .known = known};
    GraphList graphs = own_graphs(ctx);
    Graph *graph = ctx->model->graph;
    if (!holds_types(&w, &graphs)) return true; /* as most models do not */
    w.was = ARENA_ARRAY(ctx->scratch, uint8_t, known + 1);
    w.wide = ARENA_ARRAY(ctx->scratch, Value *, known + 1);
    w.narrow = ARENA_ARRAY(ctx->scratch, Value *, known + 1);
    w.settled = ARENA_ARRAY(ctx->scratch, bool, known + 1);
    if (!survey(&w, &graphs)) return true;
    if (request->io) widen_inputs(&w, graph);
    const InferHook hook = {.before_node = visit, .data = &w};
    bool again = true;
    while (again) {
        again = false;
        if (!infer_dtypes(ctx, NULL, &hook, err) || w.failed) return false;
        for (size_t i = 0; i < graphs.count; i++) again |= widen_inner_outputs(&w, graphs.items[i]);
    }
    if (request->io)
        widen_outputs(&w, graph);
    else
        narrow_outputs(&w, graph);
    for (size_t i = 0; i < graphs.count; i++) join_constants(&w, graphs.items[i]);
    for (size_t i = 0; i < graphs.count; i++) declared_types_follow(graphs.items[i]);
    for (size_t i = 0; request->file && i < graphs.count; i++) mark_idle_casts(&w, graphs.items[i]);
    fuse_casts(ctx, request->file ? FUSE_OWN : FUSE_ALL);
    return true;
}
