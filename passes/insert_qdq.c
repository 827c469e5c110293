// SPDX-License-Identifier: Apache-2.0
/* insert-qdq: quantizes what kernels of integers read, as pairs of QuantizeLinear and
 * DequantizeLinear.
 *
 * Before: y = Conv(x, w, b); z = Relu(y); v = Conv(z, u)
 * After:  xd = DQ(Q(x, s, o), s, o); w = DQ(wq, ws, wo); b = DQ(bq, bs, bo)
 *         y = Conv(xd, w, b); z = Relu(y); zd = DQ(Q(z, t, p), t, p); u = DQ(uq, us, uo)
 *         v = Conv(zd, u)
 *
 * Which values and weights they are is decided by qdq_plan.h: by operators' classes, or as `values`
 * and `weights-of` name them. A value that is quantized is followed by one pair, which all that read
 * it share; weights are stored as integers, float8, or float4, and keep their name behind a DequantizeLinear;
 * biases are int32 of their operands' scales, less what rounding adds to a channel's sum of weights
 * times the mean of what it multiplies, where that was measured. Types of inputs, outputs and all other values stay.
 * Scales come from `ranges`, which were measured when the float model ran. Every node gets a note:
 * what it computes with, and the reason.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cast_node.h"
#include "node_exclude.h"
#include "node_pattern.h"
#include "op_types.h"
#include "passes.h"
#include "precise_nodes.h"
#include "qdq_node.h"
#include "qdq_plan.h"
#include "qdq_store.h"
#include "setting_names.h"

typedef struct InsertQdqOptions {
    int activations, weights, others, rounding;
    bool per_tensor, symmetric, zeros, allow_unmatched;
    int biases, tables, channels, joins;
    int64_t block;
    PassStrings blocks;
    PassStrings ranges, values, weights_of, keep, keep_ops, only;
} InsertQdqOptions;

enum { JOINS_FLOAT = 1 };
enum { BIASES_FLOAT = 1 };
enum { CHANNELS_CONVOLUTIONS = 1, CHANNELS_INTEGERS };
static const char *const bias_names[] = {"int32", "float", NULL};
static const char *const join_names[] = {"quantized", "float", NULL};
static const char *const table_names[] = {"rows", "float", "blocks", "packed",
                                          NULL}; /* QdqTables */
static const char *const channel_names[] = {"all", "convolutions", "integers", NULL};

#define ROW(kind, name, member, choices, otherwise, help)                                          \
    {name, OPTION_##kind, offsetof(InsertQdqOptions, member), choices, otherwise, help},
static const PassOption options_table[] = {
    ROW(CHOICE, "activations", activations, CHOICE_NAMES(ACTIVATIONS), NULL,
        "type of quantized activations; their ranges must be known")
        ROW(CHOICE, "weights", weights, quantized_weight_words, NULL,
            "type of quantized weights of convolutions and matrix products: integers, of which "
            "uint4 "
            "and uint2 have zero points, fp8 (float8e4m3fn), or a format that has scales of its "
            "own: mxfp8, mxfp4, or nvfp4")
            ROW(CHOICE, "others", others, quantized_weight_words, NULL,
                "type of weights that cannot have the blocks that a format needs, and of tables "
                "that Gather reads by rows") ROW(BOOL, "zeros", zeros, NULL, "true",
                                                 "4-bit weights have zero points where their type "
                                                 "has (uint4); false: int4")
                ROW(CHOICE, "biases", biases, bias_names, "int32",
                    "biases between quantized operands; float: they stay")
                    ROW(CHOICE, "joins", joins, join_names, "quantized",
                        "Concat: between quantized values, or float")
                        ROW(CHOICE, "tables", tables, table_names, "packed",
                            "tables that Gather reads: quantized by rows, float, or with 4 bits "
                            "where weights "
                            "have 4; blocks: by com.microsoft's GatherBlockQuantized; packed: two "
                            "numbers "
                            "per byte, by ONNX's operators of opset 18")
                            ROW(CHOICE, "channels", channels, channel_names, "all",
                                "weights with a scale per channel: of all products, of "
                                "convolutions alone, or integers alone")
                                ROW(STRINGS, "blocks", blocks, NULL, NULL,
                                    "block sizes to choose from: the first "
                                    "that divides what is summed")
                                    ROW(BOOL, "per-tensor", per_tensor, NULL, NULL,
                                        "one scale per weight tensor instead of one per channel")
#define OF_INSERT_QDQ ROW
#include "policy.def"
                                        {0},
};

enum { ZEROS = 1 << 8 };

typedef struct Realize {
    PassCtx *ctx;
    QdqPlan *plan;
    QdqScale *scales;            /* [value_count]: of values that are quantized */
    Value **scale_of, **zero_of; /* [value_count]: of whose scale others have; NULL: not made yet */
    const Tensor *zeros[ZEROS];  /* zero points that were made, by number: many are alike */
    VEC(Use *) uses;             /* of the value at hand */
    Node *marked;                /* whose lists other quantizers of values share; NULL: none yet */
    const char *reasons[QUANTIZED_FORMATS + 1]; /* note_quantized's, by the weights' format */
} Realize;

/* ---- values ---------------------------------------------------------------------------------- */

static const Tensor *zero_tensor(Realize *r, Dtype dtype, int32_t zero) {
    const unsigned char bytes[2] = {(unsigned char)zero, (unsigned char)((uint32_t)zero >> 8)};
    const size_t size = dtype_bits(dtype) / 8;
    const Tensor **made = &r->zeros[bytes[0]];
    if (*made && (*made)->dtype == (int32_t)dtype && memcmp((*made)->bytes, bytes, size) == 0)
        return *made;
    return *made = tensor_new_raw(&r->ctx->model->arena, dtype, NULL, 0, bytes, size);
}

/* The constants of a value's scale, which those that have the same share: they lie where all see them
 * (qdq_plan_link). */
static QdqOperands operands_of(Realize *r, const QdqValue *at) {
    Arena *arena = &r->ctx->model->arena;
    uint32_t id = qdq_plan_scale_of(r->plan, at->value->id);
    const QdqScale *scale = &r->scales[at->value->id];
    const Value *of = r->plan->values[id].value;
    if (!r->scale_of[id]) {
        const Tensor *number = tensor_new_float_scalar(arena, scale->scale);
        const Dtype floats = type_dtype(of->type);
        if (floats != DTYPE_FLOAT) number = tensor_new_cast(arena, number, floats);
        r->scale_of[id] = qdq_constant(r->ctx, of, "scale", number);
        r->zero_of[id] =
            qdq_constant(r->ctx, of, "zero_point", zero_tensor(r, at->dtype, scale->zero));
    }
    return (QdqOperands){r->scale_of[id], r->zero_of[id], -1, 0, DTYPE_UNDEFINED};
}

/* Does what reads the value there compute with what was quantized? */
static bool takes(const Realize *r, const QdqValue *at, const Use *use) {
    if (!use->node) return at->as_output;
    if (at->for_all) return true;
    return r->plan->nodes[use->node->id].role == QDQ_PRODUCT && use->index == 0;
}

/* As a quantizer of a value, which has no attributes. */
static void mark(Realize *r, Node *node) {
    if (r->marked) {
        node_share_lists(node, r->marked);
        return;
    }
    node_add_metadata(node, OWN_QUANTIZER, QDQ_MARK_VALUE);
    r->marked = node;
}

static void quantize_value(Realize *r, const QdqValue *at) {
    Value *value = at->value;
    bool named = false;
    r->uses.count = 0;
    for (Use *use = value->uses; use; use = use->next)
        if (takes(r, at, use)) VEC_PUSH(r->ctx->scratch, &r->uses, use);
    if (!r->uses.count) return;
    const QdqOperands operands = operands_of(r, at);
    Value *quantized = qdq_value(r->ctx, value, "quantized", at->dtype);
    Value *result = qdq_value(r->ctx, value, "dequantized", type_dtype(value->type));
    Node *q = qdq_insert(r->ctx, "QuantizeLinear", value, &operands, quantized);
    Node *dq = qdq_insert(r->ctx, "DequantizeLinear", quantized, &operands, result);
    mark(r, q);
    mark(r, dq);
    for (size_t i = 0; i < r->uses.count; i++) {
        Use *use = r->uses.items[i];
        named |= !use->node && !use_graph(use)->owner;
        use_set(use, result);
    }
    if (named) cast_name_output(r->ctx, value, result);
}

/* ---- scales ---------------------------------------------------------------------------------- */

static void find_scales(Realize *r) {
    for (uint32_t id = 0; id < r->plan->value_count; id++) {
        QdqValue *at = &r->plan->values[id];
        if (!at->dtype) continue;
        const QdqValue *like = &r->plan->values[qdq_plan_scale_of(r->plan, id)];
        const double range[2] = {like->range->low, like->range->high};
        qdq_scale_in(type_dtype(like->value->type), at->dtype, r->plan->request.symmetric, range,
                     &r->scales[id]);
    }
}

static void realize(Realize *r, const QdqStore *store) {
    qdq_store_put(store);
    /* each goes right behind its producer, or first in the graph: backwards they end up in order */
    for (uint32_t id = r->plan->value_count; id-- > 0;)
        if (r->plan->values[id].dtype) quantize_value(r, &r->plan->values[id]);
}

/* ---- notes ----------------------------------------------------------------------------------- */

/* The floating-point type that the node gives, or else reads; UNDEFINED where there is none. */
static Dtype float_of(const Node *node) {
    for (uint32_t i = 0; i < node->output_count; i++)
        if (qdq_is_float(node->outputs[i])) return type_dtype(node->outputs[i]->type);
    for (uint32_t i = 0; i < node->input_count; i++)
        if (qdq_is_float(node->inputs[i].value)) return type_dtype(node->inputs[i].value->type);
    return DTYPE_UNDEFINED;
}

/* Of a node that stays float. */
static NodeNote note_float(const Realize *r, const Node *node) {
    const QdqNode *at = &r->plan->nodes[node->id];
    const OpRecord *record = node_schema(node) ? node_record(node) : NULL;
    const bool product = record && (record->quantized == QUANTIZED_PRODUCT ||
                                    record->quantized == QUANTIZED_WEIGHTS);
    const Dtype stored = product
                             ? qdq_weight_stored(qdq_input(node, qdq_weights_operand(node, record)))
                             : DTYPE_UNDEFINED;
    NodeNote note = {.dtype = float_of(node), .kind = at->kind, .reason = at->reason};
    if (stored && !r->plan->request.activations && at->reason)
        return (NodeNote){.dtype = stored, .kind = NOTE_QUANTIZED, .reason = at->reason};
    if (!note.dtype)
        return (NodeNote){.dtype = node->output_count && node->outputs[0]
                                       ? type_dtype(node->outputs[0]->type)
                                       : DTYPE_UNDEFINED,
                          .kind = NOTE_NO_FLOAT,
                          .reason = "it has no floating-point values that can be quantized"};
    if (at->kind != NOTE_NONE) return note;
    note.kind = NOTE_POLICY;
    if (node->input_count == 0) {
        note.kind = NOTE_CONSTANT;
        note.reason = "a constant that is read as it is";
    } else if (node->graph->function || !record) {
        note.kind = NOTE_UNKNOWN;
        note.reason = record ? "it is in a function" : "its operator is unknown";
    } else if (record->quantized == QUANTIZED_NOT) {
        note.reason = "its operator has no integer kernel";
    } else {
        note.reason = "it is not between quantized nodes";
    }
    return note;
}

/* As a note calls it: the type alone, where that says all. */
static const char *name_of(const QuantizedFormat *format) {
    return format->scales ? format->word : dtype_name(format->dtype);
}

/* NULL: it has no weights that are quantized. */
static NodeNote note_quantized(Realize *r, const Node *node, const QuantizedFormat *weights) {
    const Dtype dtype = r->plan->request.activations;
    Arena *arena = &r->ctx->model->arena;
    NodeNote note = {.dtype = dtype || !weights ? dtype : weights->dtype, .kind = NOTE_QUANTIZED};
    const char **made = &r->reasons[weights ? quantized_format_number(weights) : QUANTIZED_FORMATS];
    if ((dtype || !weights) && r->plan->nodes[node->id].role != QDQ_PRODUCT)
        note.reason = "between quantized nodes";
    else if (*made)
        note.reason = *made;
    else if (weights && !dtype)
        note.reason = *made = arena_printf(arena, "its weights are %s", name_of(weights));
    else if (weights && dtype)
        note.reason = *made =
            arena_printf(arena, "%s activations, %s weights", dtype_name(dtype), name_of(weights));
    else
        note.reason = *made = arena_printf(arena, "%s values", dtype_name(dtype));
    return note;
}

/* Told by names, nodes are what their values are. */
static void find_named_roles(Realize *r) {
    for (size_t g = 0; g < r->plan->graphs.count; g++)
        for (const Node *node = r->plan->graphs.items[g]->first; node; node = node_after(node))
            for (uint32_t i = 0; i < node->output_count; i++)
                if (node->outputs[i] && r->plan->values[node->outputs[i]->id].dtype &&
                    r->plan->nodes[node->id].role == QDQ_FLOAT)
                    r->plan->nodes[node->id].role = QDQ_FLOW;
}

static void note_nodes(Realize *r) {
    Model *model = r->ctx->model;
    const QuantizedFormat **weights =
        ARENA_ARRAY(r->ctx->scratch, const QuantizedFormat *, r->plan->node_count);
    for (size_t i = 0; i < r->plan->weights.count; i++)
        if (r->plan->weights.items[i].product)
            weights[r->plan->weights.items[i].product->id] = r->plan->weights.items[i].format;
    GraphList graphs = model_graphs(model, r->ctx->scratch);
    for (size_t g = 0; g < graphs.count; g++)
        for (Node *node = graphs.items[g]->first; node; node = node_after(node)) {
            const bool low = r->plan->nodes[node->id].role != QDQ_FLOAT || weights[node->id];
            NodeNote note = low ? note_quantized(r, node, weights[node->id]) : note_float(r, node);
            note.settled = true;
            note.label = sym_is_empty(node->name) ? node_label(node) : NULL;
            node->note = arena_copy(&model->arena, &note, sizeof note);
        }
}

/* ---- the pass -------------------------------------------------------------------------------- */

static bool is_named(const InsertQdqOptions *options) {
    return options->values.count || options->weights_of.count;
}

/* A model in double holds none. */
static bool holds_any_float(const Model *model, Arena *scratch) {
    const GraphList graphs = model_graphs(model, scratch);
    for (size_t g = 0; g < graphs.count; g++)
        for (const Node *node = graphs.items[g]->first; node; node = node_after(node))
            if (float_of(node)) return true;
    return false;
}

static bool read_blocks(const PassStrings *texts, QdqRequest *request, Err *err) {
    for (size_t i = 0; i < texts->count; i++) {
        char *end;
        const long size = strtol(texts->items[i], &end, 10);
        if (size < 1 || size > INT32_MAX || *end || i == QDQ_BLOCKS_MOST)
            return err_set(err, ERR_USAGE, "blocks has '%s': expected at most %d sizes from 1 on",
                           texts->items[i], QDQ_BLOCKS_MOST);
        request->blocks[i] = (uint64_t)size;
    }
    return true;
}

/* By the number of a choice; NULL: none. */
static const QuantizedFormat *weight_format(int choice) {
    return choice ? quantized_format_named(quantized_weight_words[choice], true) : NULL;
}

/* But for nodes that stay float. */
static bool read_options(const InsertQdqOptions *options, QdqRequest *request, Err *err) {
    *request = (QdqRequest){.activations = quantized_value_types[options->activations],
                            .weights = weight_format(options->weights),
                            .others = weight_format(options->others),
                            .per_tensor = options->per_tensor,
                            .symmetric = options->symmetric,
                            .float_biases = options->biases == BIASES_FLOAT,
                            .float_joins = options->joins == JOINS_FLOAT,
                            .tables = (QdqTables)options->tables,
                            .conv_channels = options->channels == CHANNELS_CONVOLUTIONS,
                            .integer_channels = options->channels == CHANNELS_INTEGERS,
                            .block = (uint64_t)options->block,
                            .values = options->values,
                            .weights_of = options->weights_of};
    if (!options->zeros && request->weights)
        request->weights = quantized_format_without_zeros(request->weights);
    if (!read_blocks(&options->blocks, request, err)) return false;
    if (options->block >= 0 && options->block <= INT32_MAX) return true;
    err_set(err, ERR_USAGE, "block is %lld", (long long)options->block);
    err_expected(err, "0 to %d", INT32_MAX);
    return false;
}

/* `floats`: the model holds some. */
static bool make_request(PassCtx *ctx, const InsertQdqOptions *options, bool floats,
                         QdqRequest *request, Err *err) {
    const NodePatterns all = {.allow_unmatched = true}; /* what is named says itself what it is */
    const NodePatterns patterns = {.keep = options->keep,
                                   .keep_ops = options->keep_ops,
                                   .only = options->only,
                                   .allow_unmatched = options->allow_unmatched};
    const bool named = is_named(options);
    if (!read_options(options, request, err)) return false;
    if (!named && !request->activations && !request->weights) {
        err_set(err, ERR_USAGE, "insert-qdq has nothing to quantize");
        err_hint(err, "give activations, weights, values, or weights-of");
        return false;
    }
    if (!named && request->activations && !options->ranges.count && floats) {
        err_set(err, ERR_USAGE, "quantizing activations requires their ranges");
        err_hint(err,
                 "--calibrate DIR measures them on your data, --calibrate random on random data");
        return false;
    }
    _Static_assert(CHOICE_COUNT(ROUNDING) == 2, "all but the first need data");
    if (options->rounding && !ctx->rounding && !ctx->sketch) {
        err_set(err, ERR_USAGE, "rounding 'gptq' needs calibration data");
        err_hint(err, "demi convert --calibrate DIR measures it; 'nearest' needs none");
        return false;
    }
    request->excluded = node_exclusions(ctx->model, named ? &all : &patterns, ctx->scratch, err);
    if (request->excluded && !named) request->precise = precise_nodes(ctx, err);
    return request->excluded && (named || request->precise);
}

static bool make_plan(QdqPlan *plan, const InsertQdqOptions *options, Err *err) {
    if (!qdq_plan_begin(plan, &options->ranges, err)) return false;
    if (is_named(options)) return qdq_plan_by_names(plan, err);
    qdq_plan_by_class(plan);
    return true;
}

typedef struct Attempt {
    const InsertQdqOptions *options;
    QdqRequest request;
    bool *broken; /* [value_count]: weights that were found not to be finite */
    bool done;
} Attempt;

/* Plans and reads the weights. Where one is not finite, which is seen first then, nothing more is done. */
static bool attempt(Attempt *a, PassCtx *ctx, Err *err) {
    QdqPlan plan = {.model = ctx->model, .scratch = ctx->scratch, .request = a->request};
    if (!make_plan(&plan, a->options, err)) return false;
    Realize r = {.ctx = ctx,
                 .plan = &plan,
                 .scales = ARENA_ARRAY(ctx->scratch, QdqScale, plan.value_count),
                 .scale_of = ARENA_ARRAY(ctx->scratch, Value *, plan.value_count),
                 .zero_of = ARENA_ARRAY(ctx->scratch, Value *, plan.value_count)};
    QdqStore store = {
        .ctx = ctx, .plan = &plan, .scales = r.scales, .on_data = a->options->rounding};
    find_scales(&r);
    if (ctx->sketch)
        store.sound = true; /* none is stored */
    else if (!qdq_store_read(&store, a->broken, err))
        return false;
    a->done = store.sound;
    if (!a->done) return true;
    if (is_named(a->options)) find_named_roles(&r);
    note_nodes(&r);
    realize(&r, &store);
    return true;
}

static bool run(PassCtx *ctx, const void *opts, Err *err) {
    Attempt a = {.options = opts,
                 .broken = ARENA_ARRAY(ctx->scratch, bool, ctx->model->value_count + 1)};
    const bool floats = holds_any_float(ctx->model, ctx->scratch);
    bool ok = make_request(ctx, a.options, floats, &a.request, err);
    a.request.broken = a.broken;
    if (ok && !is_named(a.options) && !floats)
        pass_remark(ctx->counts, &ctx->model->arena,
                    "nothing to quantize: the model has no floating-point values of 16 or 32 bits");
    while (ok && !a.done) {
        model_batch_removals(ctx->model);
        ok = attempt(&a, ctx, err);
        model_sweep(ctx->model, ctx->scratch);
    }
    return ok;
}

const PassInfo insert_qdq_pass = {
    .name = "insert-qdq",
    .summary =
        "quantize activations and weights, as pairs of QuantizeLinear and DequantizeLinear (Q/DQ)",
    .needs = FACT_DTYPES | FACT_SHAPES,
    .gives = FACT_DTYPES | FACT_SHAPES,
    .options = options_table,
    .options_size = sizeof(InsertQdqOptions),
    .idempotent = false, /* a second run quantizes what the first made */
    .run = run,
};

bool qdq_request_read(const char *pass, Arena *arena, QdqRequest *request, Err *err) {
    static const PassInfo *const passes[] = {&insert_qdq_pass};
    const PassTable table = {.passes = passes, .count = 1};
    Pipeline pipeline = {.steps = {0}};
    return pipeline_parse(&table, arena, pass, &pipeline, err) &&
           read_options(pipeline.steps.items[0].options, request, err);
}
