// SPDX-License-Identifier: Apache-2.0
/* equalize: cross-layer equalization. Powers of two move from the channels that a layer gives to the weights of
 * the layers that read them, where quantization of 8 bits is then expected to lose less (channel_scales.h).
 *
 *   h = Conv(x, W, b); r = Relu(h); y = Conv(r, V)
 *       ->  h = Conv(x, W / s, b / s); r = Relu(h); y = Conv(r, V * s)      s: a power of two a channel
 *
 * What the floating-point model gives stays the same to the last bit, as long as no number leaves the normal
 * range of float. Values inside, such as h and r, change: ranges that were measured before do not hold of them.
 * Which ways channels go, channel_paths.h says. A second run changes nothing.
 *
 * Where what matrix products read has no layer that could be scaled, since others read it, too, or it comes of an
 * operator that is not homogeneous, it is multiplied at run time (SmoothQuant, Xiao et al., 2023, but by powers of two).
 * That takes data, and a larger gain:
 *
 *   y = MatMul(x, V); z = Add(x, r)  ->  t = Mul(x, 1 / s); y = MatMul(t, V * s); z = Add(x, r)
 *
 * What channels reach is measured where there is data (channel_data.h), or else estimated from the weights that a
 * channel is a sum of, for inputs that are uncorrelated and of root mean square 1 where nothing is known of them.
 * With `scales`, that was done before: they have what came of it.
 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "channel_data.h"
#include "channel_paths.h"
#include "channel_scales.h"
#include "node_exclude.h"
#include "qdq_node.h"
#include "setting_names.h"

typedef struct EqualizeOptions {
    int64_t levels;
    PassStrings scales;
    bool convolutions;
    PassStrings keep, keep_ops, only;
    bool allow_unmatched;
} EqualizeOptions;

/* What a channel reaches, as a multiple of its root mean square, where that is all that is known: a normal
 * distribution's largest of some thousands. */
static const double PEAK = 4;

/* The least that noise is to decrease by: 1 dB; and 3 dB for a multiplication at run time. */
static const double GAIN = 1.26, GAIN_OF_VALUE = 2;

typedef struct Path {
    ChannelPath way;
    size_t request;           /* the first of its readers' */
    double *rms, *low, *high; /* [channels] */
    bool *frozen;             /* [channels]: they stay as they are */
} Path;

typedef struct Equalize {
    Fuse fuse;
    double levels;
    const PassStrings *scales;
    VEC(Path) paths;              /* in the order of layers */
    VEC(ChannelRequest) requests; /* what each reader reads, path by path */
    ChannelReach *reach;          /* [requests]; NULL: nothing is measured */
    const double *
        *rms; /* [value_count]: of channels of what an earlier path led to; NULL: unknown */
    uint32_t value_count;
    const char **excluded; /* [node_count]: why a node stays as it is, or NULL */
    bool convolutions;     /* what they read may be multiplied, too */
    bool *taken; /* [node_count]: products that have a layer to be scaled, or stay as they are */
    bool *seen;  /* [value_count] */
    size_t layers, values; /* whose channels were scaled */
} Equalize;

/* ---- what channels reach ----------------------------------------------------------------------- */

/* What lies between elements whose scaling is exact. */
static bool is_safe(float size) {
    return size == 0 || (size > 0x1p-90F && size < 0x1p90F);
}

/* Its elements; NULL where they cannot be read. */
static const float *read_scaled(Path *path, const Scaled *at) {
    uint64_t count;
    const float *items = fuse_floats(path->way.fuse, at->value, &count);
    for (uint64_t i = 0; items && i < count; i++)
        if (!is_safe(fabsf(items[i]))) path->frozen[channel_path_at(&path->way, at, i)] = true;
    return items;
}

/* ---- the layer ------------------------------------------------------------------------------- */

/* The root of the sum of squares of what each output channel's weights multiply; `of`: root mean squares of
 * what they do, NULL: 1. */
static void sum_squares(Path *path, const WeightOrder *order, const float *items,
                        const double *of) {
    const uint64_t rows = order->outputs / order->groups;
    const uint64_t count = order->outputs * order->inputs * order->taps;
    for (uint64_t k = 0; k < count; k++) {
        const uint64_t o = weight_order_output(order, k), i = weight_order_input(order, k);
        const double term = (double)items[k] * (of ? of[o / rows * order->inputs + i] : 1);
        path->rms[o] += term * term;
    }
    for (uint64_t o = 0; o < order->outputs; o++) path->rms[o] = sqrt(path->rms[o]);
}

/* Of the channels, from the constants of the layer and those that are added; a normalization's channels are of
 * root mean square 1 before. `of`: those of what a product reads. */
static bool estimate(Path *path, const double *of) {
    for (size_t i = 0; i < path->way.divided.count; i++) {
        WeightOrder order;
        const float *items = read_scaled(path, &path->way.divided.items[i]);
        if (!items) return false;
        if (i == 0 && path->way.product) {
            if (!weight_order_find(path->way.layer, &order)) return false;
            sum_squares(path, &order, items, of);
            continue;
        }
        for (uint64_t c = 0; c < path->way.channels; c++)
            path->rms[c] = hypot(path->rms[c], (double)items[c]);
    }
    for (uint64_t c = 0; c < path->way.channels; c++) path->high[c] = PEAK * path->rms[c];
    return true;
}

/* What was measured of all that its readers read; false where it was not. */
static bool take_measured(Path *path, const ChannelReach *reach) {
    for (size_t i = 0; i < path->way.divided.count; i++)
        if (!read_scaled(path, &path->way.divided.items[i])) return false;
    for (size_t i = 0; i < path->way.readers.count; i++) {
        const ChannelReach *of = &reach[path->request + i];
        if (!of->rms) return false;
        for (uint64_t c = 0; c < path->way.channels; c++) {
            path->rms[c] = fmax(path->rms[c], of->rms[c]);
            path->low[c] = fmin(path->low[c], of->low[c]);
            path->high[c] = fmax(path->high[c], of->high[c]);
        }
    }
    return true;
}

static bool find_reach(const Equalize *e, Path *path) {
    Arena *scratch = path->way.fuse->ctx->scratch;
    path->rms = ARENA_ARRAY(scratch, double, path->way.channels + 1);
    path->low = ARENA_ARRAY(scratch, double, path->way.channels + 1);
    path->high = ARENA_ARRAY(scratch, double, path->way.channels + 1);
    path->frozen = ARENA_ARRAY(scratch, bool, path->way.channels + 1);
    if (e->reach) return take_measured(path, e->reach);
    const Value *x = fuse_input(path->way.layer, 0);
    return estimate(path, x->id < e->value_count ? e->rms[x->id] : NULL);
}

/* ---- choosing -------------------------------------------------------------------------------- */

static bool read_reader(Path *path, const PathReader *from, ScaleReader *to) {
    Arena *scratch = path->way.fuse->ctx->scratch;
    WeightOrder order;
    const float *items = read_scaled(path, &from->weights);
    if (!items || !weight_order_find(from->node, &order)) return false;
    const uint64_t count = order.outputs * order.inputs * order.taps;
    const uint64_t rows = order.outputs / order.groups;
    float *peaks = ARENA_ARRAY(scratch, float, order.outputs *order.inputs);
    double *power = ARENA_ARRAY(scratch, double, path->way.channels);
    for (uint64_t k = 0; k < count; k++) {
        const uint64_t o = weight_order_output(&order, k), i = weight_order_input(&order, k);
        float *peak = &peaks[o * order.inputs + i];
        *peak = fmaxf(*peak, fabsf(items[k]));
        power[o / rows * order.inputs + i] += (double)items[k] * (double)items[k];
    }
    *to = (ScaleReader){order.outputs, order.groups, (double)order.taps, peaks, power};
    return true;
}

static bool choose(const Equalize *e, Path *path, int *exponents) {
    Arena *scratch = path->way.fuse->ctx->scratch;
    const size_t count = path->way.readers.count;
    ScaleReader *readers = ARENA_ARRAY(scratch, ScaleReader, count + 1);
    if (!find_reach(e, path)) return false;
    for (size_t i = 0; i < count; i++)
        if (!read_reader(path, &path->way.readers.items[i], &readers[i])) return false;
    const ChannelScales scales = {.channels = path->way.channels,
                                  .rms = path->rms,
                                  .low = path->low,
                                  .high = path->high,
                                  .frozen = path->frozen,
                                  .readers = readers,
                                  .reader_count = count,
                                  .levels = e->levels,
                                  .gain = path->way.layer ? GAIN : GAIN_OF_VALUE};
    return channel_scales_choose(&scales, scratch, exponents);
}

/* ---- scaling --------------------------------------------------------------------------------- */

static void scale(const Path *path, const Scaled *at, const int *exponents, int sign) {
    Arena *arena = &path->way.fuse->ctx->model->arena;
    float *factors = ARENA_ARRAY(arena, float, at->count);
    for (uint64_t i = 0; i < at->count; i++)
        factors[i] = ldexpf(1, sign * exponents[channel_path_at(&path->way, at, i * at->each)]);
    value_set_init(at->value, tensor_new_scaled(arena, at->value->init,
                                                (TensorFactors){factors, at->each, at->count}));
}

/* A multiplication of the value, whose results the products read. */
static void insert(const Path *path, const int *exponents) {
    PassCtx *ctx = path->way.fuse->ctx;
    const uint64_t count = path->way.channels;
    Value *from = path->way.from;
    const int64_t rank = fuse_rank(from) - path->way.axis;
    float *factors = ARENA_ARRAY(ctx->scratch, float, count);
    int64_t *dims = ARENA_ARRAY(ctx->scratch, int64_t, (uint64_t)rank);
    for (uint64_t c = 0; c < count; c++) factors[c] = ldexpf(1, -exponents[c]);
    for (int64_t i = 0; i < rank; i++) dims[i] = i ? 1 : (int64_t)count;
    const Tensor *tensor = tensor_new_raw(&ctx->model->arena, DTYPE_FLOAT, dims, (uint32_t)rank,
                                          factors, sizeof *factors * count);
    const QdqOperands operands = {.scale = qdq_constant(ctx, from, "channel_scale", tensor),
                                  .axis = -1};
    Value *result = qdq_value(ctx, from, "scaled", DTYPE_FLOAT);
    qdq_insert(ctx, "Mul", from, &operands, result);
    for (size_t i = 0; i < path->way.readers.count; i++)
        node_set_input(path->way.readers.items[i].node, 0, result);
}

static void apply(Path *path, const int *exponents) {
    if (!path->way.layer) insert(path, exponents);
    for (size_t i = 0; i < path->way.divided.count; i++)
        scale(path, &path->way.divided.items[i], exponents, -1);
    for (size_t i = 0; i < path->way.readers.count; i++)
        scale(path, &path->way.readers.items[i].weights, exponents, 1);
    for (uint64_t c = 0; path->rms && c < path->way.channels; c++)
        path->rms[c] = ldexp(path->rms[c], -exponents[c]);
    path->way.fuse->ctx->counts->rewrites++;
}

/* Later layers read those. */
static void keep_rms(Equalize *e, const Path *path, Arena *arena) {
    const double *rms = arena_copy(arena, path->rms, path->way.channels * sizeof *rms);
    for (size_t i = 0; i < path->way.values.count; i++)
        if (path->way.values.items[i]->id < e->value_count)
            e->rms[path->way.values.items[i]->id] = rms;
}

/* ---- what was chosen before ------------------------------------------------------------------ */

/* "NAME=E,E,...": the exponents behind the name; NULL where it is another one. */
static const char *exponents_of(const char *text, const char *name) {
    const size_t length = strlen(name);
    const bool same = strncmp(text, name, length) == 0 && text[length] == '=';
    return same && !strchr(text + length + 1, '=') ? text + length + 1 : NULL;
}

static bool read_exponents(const char *text, uint64_t channels, int *exponents) {
    for (uint64_t c = 0; c < channels; c++) {
        char *end;
        const long number = strtol(text, &end, 10);
        const bool last = c + 1 == channels;
        if (end == text || labs(number) > CHANNEL_EXPONENT_MOST || *end != (last ? '\0' : ','))
            return false;
        exponents[c] = (int)number;
        text = end + !last;
    }
    return true;
}

/* *any: the layer has some. */
static bool find_chosen(const Equalize *e, const Path *path, int *exponents, bool *any, Err *err) {
    const char *name = path->way.from->name->text;
    for (size_t i = 0; i < e->scales->count; i++) {
        const char *text = exponents_of(e->scales->items[i], name);
        if (!text) continue;
        *any = true;
        if (read_exponents(text, path->way.channels, exponents)) return true;
        err_set(err, ERR_USAGE, "the channel scales of '%s' are '%.40s'", name, text);
        err_expected(err, "%llu exponents from %d to %d, with commas between them",
                     (unsigned long long)path->way.channels, -CHANNEL_EXPONENT_MOST,
                     CHANNEL_EXPONENT_MOST);
        return false;
    }
    return true;
}

static const char *chosen_text(const Path *path, const int *exponents, Arena *arena) {
    enum { DIGITS = 4 };
    const uint64_t channels = path->way.channels;
    char *text = arena_alloc(arena, channels * DIGITS + 1);
    size_t length = 0;
    for (uint64_t c = 0; c < channels; c++)
        length += (size_t)snprintf(text + length, channels * DIGITS + 1 - length, "%s%d",
                                   c ? "," : "", exponents[c]);
    return arena_printf(arena, "%s=%s", path->way.from->name->text, text);
}

/* ---- the pass -------------------------------------------------------------------------------- */

static void add_path(Equalize *e, const Path *path) {
    PassCtx *ctx = e->fuse.ctx;
    for (size_t i = 0; i < path->way.readers.count; i++) {
        const PathReader *reader = &path->way.readers.items[i];
        const ChannelRequest request = {reader->node->inputs[0].value->name->text,
                                        (int32_t)reader->axis, path->way.channels};
        VEC_PUSH(ctx->scratch, &e->requests, request);
        e->taken[reader->node->id] = true;
    }
    VEC_PUSH(ctx->scratch, &e->paths, *path);
}

/* An earlier layer is scaled for one of its products, such as the normalization before a Mul. */
static bool is_taken(const Equalize *e, const Path *path) {
    for (size_t i = 0; i < path->way.readers.count; i++)
        if (e->taken[path->way.readers.items[i].node->id]) return true;
    return false;
}

static void visit(PassCtx *ctx, Node *node, void *data) {
    Equalize *e = data;
    Path path = {.request = e->requests.count};
    (void)ctx;
    if (channel_path_find(&e->fuse, node, &path.way) && !is_taken(e, &path)) add_path(e, &path);
}

/* Those that are not to be multiplied for. */
static void visit_others(PassCtx *ctx, Node *node, void *data) {
    Equalize *e = data;
    const OpRecord *record = fuse_record(node);
    const bool convolution = record && record->channels == CHANNELS_FIRST;
    (void)ctx;
    if (e->excluded[node->id] || (convolution && !e->convolutions)) e->taken[node->id] = true;
}

/* What products read that have no layer to be scaled by. */
static void visit_value(PassCtx *ctx, Node *node, void *data) {
    Equalize *e = data;
    Path path = {.request = e->requests.count};
    Value *value = fuse_input(node, 0);
    (void)ctx;
    if (!value || value->id >= e->value_count || e->seen[value->id]) return;
    e->seen[value->id] = true;
    if (channel_path_into(&e->fuse, value, e->taken, &path.way)) add_path(e, &path);
}

static bool measure(Equalize *e, Err *err) {
    const ChannelData *data = e->fuse.ctx->channels;
    if (!data || e->scales->count || !e->requests.count) return true;
    e->reach = ARENA_ARRAY(e->fuse.ctx->scratch, ChannelReach, e->requests.count);
    return data->measure(data->user, e->requests.items, e->requests.count, e->reach, err);
}

static bool equalize(Equalize *e, Path *path, Err *err) {
    PassCtx *ctx = e->fuse.ctx;
    ChannelData *data = ctx->channels;
    if (data) data->arena->trap = ctx->scratch->trap; /* what is kept is made now */
    Arena *scratch = ctx->scratch, *within = arena_child(scratch);
    int *exponents = ARENA_ARRAY(within, int, path->way.channels + 1);
    bool any = false, ok = true;
    ctx->scratch = within;
    if (e->scales->count)
        ok = find_chosen(e, path, exponents, &any, err);
    else
        any = choose(e, path, exponents);
    if (ok && any) {
        apply(path, exponents);
        if (path->way.layer)
            e->layers++;
        else
            e->values++;
        if (data) VEC_PUSH(data->arena, &data->chosen, chosen_text(path, exponents, data->arena));
    }
    if (path->rms) keep_rms(e, path, scratch);
    ctx->scratch = scratch;
    arena_free(within);
    return ok;
}

static void remark(const Equalize *e) {
    Arena *arena = &e->fuse.ctx->model->arena;
    if (e->layers)
        pass_remark(e->fuse.ctx->counts, arena,
                    arena_printf(arena,
                                 "cross-layer equalization scaled the channels of %zu layer%s by "
                                 "powers of two, which the layers after them undo",
                                 e->layers, e->layers == 1 ? "" : "s"));
    if (e->values)
        pass_remark(
            e->fuse.ctx->counts, arena,
            arena_printf(arena,
                         "the channels of %zu value%s that products read are multiplied by powers "
                         "of two first, which the weights undo (SmoothQuant)",
                         e->values, e->values == 1 ? "" : "s"));
}

static bool run(PassCtx *ctx, const void *options, Err *err) {
    const EqualizeOptions *own = options;
    if (own->levels < 2) {
        err_set(err, ERR_USAGE, "levels is %lld", (long long)own->levels);
        err_expected(err, "2 at least");
        return false;
    }
    if (ctx->sketch) return true;
    Equalize e = {.fuse = {.ctx = ctx},
                  .levels = (double)own->levels - 1,
                  .scales = &own->scales,
                  .convolutions = own->convolutions,
                  .value_count = ctx->model->value_count};
    e.rms = ARENA_ARRAY(ctx->scratch, const double *, e.value_count + 1);
    const NodePatterns patterns = {.keep = own->keep,
                                   .keep_ops = own->keep_ops,
                                   .only = own->only,
                                   .allow_unmatched = own->allow_unmatched};
    e.excluded = node_exclusions(ctx->model, &patterns, ctx->scratch, err);
    if (!e.excluded) return false;
    e.taken = ARENA_ARRAY(ctx->scratch, bool, ctx->model->node_count + 1);
    e.seen = ARENA_ARRAY(ctx->scratch, bool, e.value_count + 1);
    each_node(ctx, visit, &e);
    each_node(ctx, visit_others, &e);
    if (ctx->channels || e.scales->count) each_node(ctx, visit_value, &e);
    bool ok = measure(&e, err);
    for (size_t i = 0; ok && i < e.paths.count; i++) ok = equalize(&e, &e.paths.items[i], err);
    remark(&e);
    return ok;
}

static const PassOption options_table[] = {
    {"levels", OPTION_INT, offsetof(EqualizeOptions, levels), NULL, "256",
     "numbers that the type of quantized activations has"},
    {"convolutions", OPTION_BOOL, offsetof(EqualizeOptions, convolutions), NULL, NULL,
     "multiply what convolutions read, too, where no layer is scaled"},
#define OF_EQUALIZE(kind, name, member, choices, otherwise, help)                                  \
    {name, OPTION_##kind, offsetof(EqualizeOptions, member), choices, otherwise, help},
#include "policy.def"
    {0},
};

const PassInfo equalize_pass = {
    .name = "equalize",
    .summary = "cross-layer equalization: move powers of two from channels to the weights of the "
               "next layers",
    .needs = FACT_DTYPES | FACT_SHAPES,
    .gives = FACT_DTYPES | FACT_SHAPES,
    .options = options_table,
    .options_size = sizeof(EqualizeOptions),
    .idempotent = true,
    .run = run,
};
