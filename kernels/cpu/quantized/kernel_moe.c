// SPDX-License-Identifier: Apache-2.0
/* com.microsoft's MoE and QMoE, mixtures of experts: of each token's row, the experts of the largest
 * router numbers compute two layers, or three, and the results are added by their shares.
 *
 *   share = softmax(router)          of all experts; of the chosen ones alone where that is asked for
 *   y     = sum of share * (W2 f(W1 x + b1) + b2),  where there is W3: f(W1 x + b1) * (W3 x + b3)
 *
 * SwiGLU multiplies two numbers: of W1 and W3, of neighboring rows of W1, or of its halves. QMoE's
 * weights are bytes of 8, 4 or 2 bits, the first element in the lowest, with a scale for each row or
 * each block of one. A row of weights is read, and widened, once for all tokens of its expert. */
#include <math.h>
#include <string.h>

#include "gemm.h"
#include "kernel_functions.h"
#include "kernel_parts.h"
#include "kernel_reals.h"
#include "op_attrs.h"

enum { INPUT, ROUTER, LAYERS = 3, MOST_EXPERTS = 1 << 20 };

/* Which inputs are what, of each layer; 0: none is. */
typedef struct Places {
    uint32_t weights[LAYERS], bias[LAYERS], scales[LAYERS], zeros[LAYERS], shares;
} Places;

/* Weights [experts][rows][columns] of a layer. */
typedef struct Layer {
    const void *weights; /* floats, or bytes where there are bits; NULL: there is no such layer */
    const float *scales, *bias;
    const uint8_t *zeros;
    uint32_t bits;
    uint64_t rows, columns, block, blocks;
    bool lists; /* scales and zero points are lists of rows, not of blocks, however few */
} Layer;

typedef struct Mixture {
    const ExpertAttrs *attrs;
    const Places *places;
    const float *x, *router, *shares; /* shares: router numbers, or others that say them */
    float *y;
    uint64_t tokens, experts, width, inner, chosen;
    Layer layers[LAYERS];
    const GemmLoops *loops;
} Mixture;

/* ---- operands -------------------------------------------------------------------------------- */

static uint64_t packed_size(const Layer *layer, uint64_t count) {
    const uint64_t each = 8 / layer->bits;
    return count / each + (count % each != 0);
}

/* Blocks say the dims of scales and zero points: rows, or rows and blocks. */
static bool find_factors(KernelCall *call, const Mixture *m, uint32_t i, Layer *layer) {
    const KernelTensor *scales = kernel_input(call, m->places->scales[i]),
                       *zeros = kernel_input(call, m->places->zeros[i]);
    const uint64_t block = m->attrs->block > 0 ? (uint64_t)m->attrs->block : layer->columns;
    layer->block = block ? block : 1;
    layer->lists = m->attrs->block <= 0;
    layer->blocks = layer->lists ? 1 : layer->columns / layer->block;
    if (!layer->lists && layer->columns % layer->block)
        return kernel_fail(call, "rows that are not whole blocks");
    if (!scales) return kernel_fail(call, "quantized weights without scales");
    const uint64_t lines = m->experts * layer->rows;
    if (!kernel_want_count(call, scales, lines * layer->blocks, "scales")) return false;
    layer->scales = scales->data;
    if (!zeros) return true;
    layer->zeros = zeros->data;
    return kernel_want_count(call, zeros,
                             layer->lists ? m->experts * packed_size(layer, layer->rows)
                                          : lines * packed_size(layer, layer->blocks),
                             "zero points");
}

static bool find_bits(KernelCall *call, const Mixture *m, uint32_t i, Layer *layer) {
    const int64_t own = m->attrs->layer_bits[i], bits = own > 0 ? own : m->attrs->bits;
    if (bits != 2 && bits != 4 && bits != 8)
        return kernel_fail(call, "weights of %lld bits", (long long)bits);
    layer->bits = (uint32_t)bits;
    return true;
}

/* Layer i, of `columns` to so many rows that `rows` is told where it is 0. */
static bool find_layer(KernelCall *call, Mixture *m, uint32_t i, uint64_t columns) {
    const bool bytes = m->places->scales[0] != 0;
    Layer *layer = &m->layers[i];
    const KernelTensor *w = kernel_input(call, m->places->weights[i]),
                       *bias = kernel_input(call, m->places->bias[i]);
    if (!w) return kernel_fail(call, "layer %u has no weights", i + 1);
    if (bytes && !find_bits(call, m, i, layer)) return false;
    layer->columns = columns;
    const uint64_t row = bytes ? packed_size(layer, columns) : columns;
    if (w->rank != 3 || (uint64_t)w->dims[0] != m->experts || (uint64_t)w->dims[2] != row ||
        (bytes && columns % (8 / layer->bits)) || (w->dtype == DTYPE_UINT8) != bytes)
        return kernel_fail(call, "weights of layer %u have different dims", i + 1);
    layer->rows = (uint64_t)w->dims[1];
    layer->weights = w->data;
    layer->bias = bias ? bias->data : NULL;
    if (bias && !kernel_want_count(call, bias, m->experts * layer->rows, "biases")) return false;
    return !bytes || find_factors(call, m, i, layer);
}

static bool find_layers(KernelCall *call, Mixture *m) {
    const bool third = kernel_input(call, m->places->weights[2]) != NULL;
    const bool pairs = m->attrs->activation == EXPERT_SWIGLU && m->attrs->fusion != 0;
    if (!find_layer(call, m, 0, m->width)) return false;
    m->inner = m->layers[0].rows;
    if (pairs && (m->inner % 2 || third || m->attrs->fusion < 0 || m->attrs->fusion > 2))
        return kernel_fail(call, "swiglu_fusion=%lld of these layers", (long long)m->attrs->fusion);
    if (m->attrs->activation == EXPERT_SWIGLU && !pairs && !third)
        return kernel_fail(call, "swiglu of one layer");
    if (pairs) m->inner /= 2;
    if (third && !find_layer(call, m, 2, m->width)) return false;
    if (third && m->layers[2].rows != m->inner)
        return kernel_fail(call, "layers with different numbers of rows");
    return find_layer(call, m, 1, m->inner) &&
           (m->layers[1].rows == m->width ||
            kernel_fail(call, "a last layer with a different number of rows"));
}

static bool is_integers(const AttrText *text) {
    return !text->present || (text->size == 3 && memcmp(text->text, "int", 3) == 0);
}

static bool refuse_unknown(KernelCall *call, const Mixture *m) {
    const ExpertAttrs *attrs = m->attrs;
    for (uint32_t i = m->places->shares + 1; m->places->shares && i < call->input_count; i++)
        if (kernel_input(call, i)) return kernel_fail(call, "input %u is not supported", i);
    if (attrs->activation < 0) return kernel_fail(call, "activation_type is unknown");
    if (attrs->sparse) return kernel_fail(call, "use_sparse_mixer is not supported");
    if (attrs->prepacked > 0) return kernel_fail(call, "weights_prepacked is not supported");
    if (!is_integers(&attrs->quantized)) return kernel_fail(call, "quant_type is not 'int'");
    return true;
}

static bool find_operands(KernelCall *call, Mixture *m) {
    const KernelTensor *x = &call->inputs[INPUT], *router = &call->inputs[ROUTER],
                       *shares = m->places->shares ? kernel_input(call, m->places->shares) : NULL;
    if ((x->rank != 2 && x->rank != 3) || router->rank != 2)
        return kernel_fail(call, "an input of rank %u, router_probs of rank %u", x->rank,
                           router->rank);
    m->width = (uint64_t)x->dims[x->rank - 1];
    m->tokens = kernel_span(x, 0, x->rank - 1);
    m->experts = (uint64_t)router->dims[1];
    if (!m->width || !m->experts || m->experts > MOST_EXPERTS ||
        (uint64_t)router->dims[0] != m->tokens)
        return kernel_fail(call, "router_probs do not fit the input");
    if (m->attrs->chosen < 1 || (uint64_t)m->attrs->chosen > m->experts)
        return kernel_fail(call, "%lld of %llu experts", (long long)m->attrs->chosen,
                           (unsigned long long)m->experts);
    m->chosen = (uint64_t)m->attrs->chosen;
    if (shares && !kernel_want_count(call, shares, router->count, "router_weights")) return false;
    m->x = x->data;
    m->router = router->data;
    m->shares = shares ? shares->data : NULL;
    m->y = call->outputs[0].data;
    return kernel_want_count(call, &call->outputs[0], x->count, "the output") &&
           find_layers(call, m);
}

/* ---- which experts --------------------------------------------------------------------------- */

/* Shares of the experts for a token; 0 of those that are not chosen. */
static void share_out(const Mixture *m, uint64_t token, float *share) {
    const float *router = m->router + token * m->experts;
    float top = router[0];
    double sum = 0, kept = 0;
    for (uint64_t e = 1; e < m->experts; e++) top = router[e] > top ? router[e] : top;
    for (uint64_t e = 0; e < m->experts; e++) sum += exp((double)(router[e] - top));
    for (uint64_t e = 0; e < m->experts; e++) share[e] = -1;
    for (uint64_t i = 0; i < m->chosen; i++) {
        uint64_t best = m->experts;
        for (uint64_t e = 0; e < m->experts; e++)
            if (share[e] < 0 && (best == m->experts || router[e] > router[best])) best = e;
        const double own = m->shares ? (double)m->shares[token * m->experts + best]
                                     : exp((double)(router[best] - top)) / sum;
        share[best] = own > 0 ? (float)own : 0;
        kept += own;
    }
    for (uint64_t e = 0; e < m->experts; e++) {
        if (share[e] < 0) share[e] = 0;
        if (m->attrs->normalize && kept != 0) share[e] = (float)((double)share[e] / kept);
    }
}

/* ---- layers ---------------------------------------------------------------------------------- */

static float zero_of(const Layer *layer, uint64_t line, uint64_t expert, uint64_t block) {
    if (!layer->zeros) return (float)(1u << (layer->bits - 1));
    const uint64_t each = 8 / layer->bits, i = layer->lists ? line % layer->rows : block;
    const uint64_t start = layer->lists ? expert * packed_size(layer, layer->rows)
                                        : line * packed_size(layer, layer->blocks);
    const uint32_t shift = (uint32_t)(i % each) * layer->bits;
    return (float)((uint32_t)layer->zeros[start + i / each] >> shift & ((1u << layer->bits) - 1));
}

/* A row of an expert's weights, widened in `space`. */
static const float *row_of(const Layer *layer, uint64_t expert, uint64_t row, float *space) {
    const uint64_t line = expert * layer->rows + row;
    if (!layer->bits) return (const float *)layer->weights + line * layer->columns;
    const uint8_t *from =
        (const uint8_t *)layer->weights + line * packed_size(layer, layer->columns);
    const uint32_t each = 8 / layer->bits, mask = (1u << layer->bits) - 1;
    for (uint64_t b = 0; b < layer->blocks; b++) {
        const float scale = layer->scales[line * layer->blocks + b],
                    zero = zero_of(layer, line, expert, b);
        for (uint64_t c = b * layer->block; c < (b + 1) * layer->block; c++) {
            const uint32_t byte = from[c / each],
                           number = byte >> (uint32_t)(c % each) * layer->bits & mask;
            space[c] = ((float)number - zero) * scale;
        }
    }
    return space;
}

/* A layer of an expert on some rows. */
typedef struct Product {
    const Layer *layer;
    const GemmLoops *loops;
    uint64_t expert, tokens;
    const float *x; /* [tokens][columns] */
    float *y;       /* [rows][tokens] */
    float *space;   /* a row for each thread */
} Product;

static void product_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const Product *p = data;
    const Layer *layer = p->layer;
    float *space = p->space + lane * layer->columns;
    for (uint64_t r = first; r < end; r++) {
        const float *row = row_of(layer, p->expert, r, space);
        const float bias = layer->bias ? layer->bias[p->expert * layer->rows + r] : 0;
        float *y = p->y + r * p->tokens;
        for (uint64_t t = 0; t < p->tokens; t++) y[t] = 0;
        p->loops->dots(y, p->x, layer->columns, row, p->tokens, layer->columns);
        for (uint64_t t = 0; t < p->tokens; t++) y[t] += bias;
    }
}

static void multiply(KernelCall *call, const Product *p) {
    const double work = (double)p->layer->rows * (double)p->layer->columns * (double)p->tokens;
    kernel_run_parts(call->workers, kernel_work_cut(call, work, p->layer->rows), product_part, p);
}

/* ---- activations ----------------------------------------------------------------------------- */

static float sigmoid(float x) {
    return 1 / (1 + expf(-x));
}

static float activated(const ExpertAttrs *attrs, float x) {
    switch ((ExpertActivation)attrs->activation) {
    case EXPERT_RELU: return x > 0 ? x : 0;
    case EXPERT_GELU: return 0.5F * x * (1 + tanhf(0.7978845608F * (x + 0.044715F * x * x * x)));
    case EXPERT_SILU:
    case EXPERT_SWIGLU: return x * sigmoid(x);
    case EXPERT_IDENTITY: break;
    }
    return x;
}

static float swiglu(const ExpertAttrs *attrs, float gate, float line) {
    if (attrs->limit.count) {
        const float limit = attrs->limit.items[0];
        gate = gate > limit ? limit : gate;
        line = line > limit ? limit : line < -limit ? -limit : line;
    }
    return gate * sigmoid(attrs->alpha * gate) * (line + attrs->beta);
}

/* What goes from the first layers, [rows][tokens], into the last: [tokens][inner]. */
static void activate(const Mixture *m, uint64_t tokens, const float *first, const float *third,
                     float *to) {
    const ExpertAttrs *attrs = m->attrs;
    const bool gates = attrs->activation == EXPERT_SWIGLU, near = attrs->fusion == 1;
    for (uint64_t i = 0; i < m->inner; i++)
        for (uint64_t t = 0; t < tokens; t++) {
            float *y = &to[t * m->inner + i];
            if (gates && third)
                *y = swiglu(attrs, first[i * tokens + t], third[i * tokens + t]);
            else if (gates)
                *y = swiglu(attrs, first[(near ? 2 * i : i) * tokens + t],
                            first[(near ? 2 * i + 1 : m->inner + i) * tokens + t]);
            else
                *y = activated(attrs, first[i * tokens + t]) * (third ? third[i * tokens + t] : 1);
        }
}

/* ---- the kernel ------------------------------------------------------------------------------ */

/* Memory for all tokens in one expert. */
typedef struct Space {
    uint64_t *of; /* the tokens */
    float *share; /* [tokens][experts] */
    float *x, *first, *third, *between, *last, *rows;
} Space;

static Space make_space(KernelCall *call, const Mixture *m) {
    const uint64_t most = m->width > m->inner ? m->width : m->inner, n = m->tokens;
    return (Space){
        .of = ARENA_ARRAY(call->scratch, uint64_t, n + 1),
        .share = arena_array(call->scratch, n + 1, m->experts * sizeof(float)),
        .x = arena_array(call->scratch, n + 1, m->width * sizeof(float)),
        .first = arena_array(call->scratch, n + 1, (m->layers[0].rows + 1) * sizeof(float)),
        .third = arena_array(call->scratch, n + 1, (m->layers[2].rows + 1) * sizeof(float)),
        .between = arena_array(call->scratch, n + 1, (m->inner + 1) * sizeof(float)),
        .last = arena_array(call->scratch, n + 1, m->width * sizeof(float)),
        .rows = arena_array(call->scratch, kernel_threads(call), (most + 1) * sizeof(float))};
}

static void run_expert(KernelCall *call, const Mixture *m, const Space *space, uint64_t expert) {
    uint64_t count = 0;
    for (uint64_t t = 0; t < m->tokens; t++)
        if (space->share[t * m->experts + expert] > 0) {
            memcpy(space->x + count * m->width, m->x + t * m->width, m->width * sizeof(float));
            space->of[count++] = t;
        }
    if (!count) return;
    Product p = {&m->layers[0], m->loops, expert, count, space->x, space->first, space->rows};
    multiply(call, &p);
    if (m->layers[2].weights) {
        p.layer = &m->layers[2];
        p.y = space->third;
        multiply(call, &p);
    }
    activate(m, count, space->first, m->layers[2].weights ? space->third : NULL, space->between);
    p.layer = &m->layers[1];
    p.x = space->between;
    p.y = space->last;
    multiply(call, &p);
    for (uint64_t i = 0; i < count; i++) {
        const float share = space->share[space->of[i] * m->experts + expert];
        float *y = m->y + space->of[i] * m->width;
        for (uint64_t c = 0; c < m->width; c++) y[c] += share * space->last[c * count + i];
    }
}

static bool run_mixture(KernelCall *call, const Places *places) {
    Mixture m = {.attrs = call->attrs, .places = places, .loops = gemm_loops(isa_here())};
    if (!refuse_unknown(call, &m) || !find_operands(call, &m)) return false;
    if (!m.tokens) return true;
    const Space space = make_space(call, &m);
    memset(m.y, 0, m.tokens * m.width * sizeof *m.y);
    for (uint64_t t = 0; t < m.tokens; t++) share_out(&m, t, space.share + t * m.experts);
    for (uint64_t e = 0; e < m.experts; e++) run_expert(call, &m, &space, e);
    return true;
}

bool kernel_moe(KernelCall *call) {
    static const Places places = {.weights = {2, 4, 6}, .bias = {3, 5, 7}};
    return run_mixture(call, &places);
}

bool kernel_q_moe(KernelCall *call) {
    static const Places places = {.weights = {2, 5, 8},
                                  .bias = {4, 7, 10},
                                  .scales = {3, 6, 9},
                                  .zeros = {11, 12, 13},
                                  .shares = 14};
    return run_mixture(call, &places);
}
