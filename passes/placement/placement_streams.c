// SPDX-License-Identifier: Apache-2.0
/* What 8 bits of mantissa lose for little: residual streams, and what is behind the last product.
 *
 *     b = Add(a, MatMul(...))   n = LayerNormalization(b)   c = Add(b, MatMul(n ...))
 *
 * A residual stream is what layer after layer adds to: in bfloat16 every addition rounds all that the
 * layers before have given. Its additions stay float32, and so does a norm whose result is added to
 * in turn (BERT). Matrix products write float32 sums anyway, and the norm between the stream and the
 * next product is where a cast costs next to nothing: a stream that a product reads without a norm
 * between them (ResNet's) would be converted in memory for each, and stays as it was.
 *
 * What only outputs of the model depend on (a last Sigmoid, the decoding of boxes) is rounded once
 * where the last product gives it, and not at each operator behind it again. What gives elements as
 * they are (Relu) rounds nothing.
 *
 * Nodes are looked at once from the last to the first, and once forward; linear in the number of
 * uses. Bodies of subgraphs and functions are streams of their own.
 */
#include "constants.h"
#include "op_facts.h"
#include "op_record.h"
#include "op_types.h"
#include "placement.h"

static const char stream_reason[] =
    "adds to a residual stream, which bfloat16 would round each time";
static const char norm_reason[] =
    "computes a residual stream, which bfloat16 would round each time";
static const char tail_reason[] = "only outputs depend on it: bfloat16 would round them once more";

/* What a node is to a stream. */
typedef enum Part {
    PART_OTHER,
    PART_PRODUCT,  /* a stream ends there */
    PART_RESIDUAL, /* adds computed values */
    PART_NORM,
    PART_SQUARE, /* what a norm in parts begins with */
    PART_MOVES,
} Part;

/* Of a value. */
enum {
    TO_PRODUCT = 1, /* a product reads it as it is, or in other places */
    TO_NORM = 2,    /* so does a norm */
    TO_ADD = 4,     /* so does a residual addition */
    LATER_ADD = 8,  /* it comes to such an addition through whatever is not a product */
    TO_INSIDE = 16, /* not to outputs alone */
    FROM_ADD = 32,  /* it comes from such an addition */
    OF_STREAM = 64, /* what an addition of a stream gives, maybe in other places */
};

typedef struct Streams {
    Placement *p;
    uint8_t *values; /* [value_count]: bits as above */
    uint8_t *parts;  /* [node_count]: Parts */
} Streams;

static bool is_computed(const Placement *p, const Use *use) {
    return use->value && !p->constant[use->value->id] && placement_use_var(p, use) != VAR_NONE;
}

static bool adds_computed(const Placement *p, const Node *node) {
    uint32_t computed = 0;
    for (uint32_t i = 0; i < node->input_count; i++) computed += is_computed(p, &node->inputs[i]);
    return computed >= 2;
}

static Part find_part(const Placement *p, const Node *node) {
    const OpSchema *schema = node_schema(node);
    const OpRecord *record = schema ? node_record(node) : NULL;
    if (!record || placement_holds_bodies(node)) return PART_PRODUCT; /* or anything else */
    if (op_class_is_product(record->domain, record->name)) return PART_PRODUCT;
    if (op_record_has(record, OP_SKIP)) return PART_RESIDUAL;
    if (domain_is_default(node->domain) &&
        (sym_equals(node->op_type, "Add") || sym_equals(node->op_type, "Sum")))
        return adds_computed(p, node) ? PART_RESIDUAL : PART_OTHER;
    if (op_record_has(record, OP_NORMALIZES)) return PART_NORM;
    if (placement_node_squares(node)) return PART_SQUARE;
    return op_has_flags(schema, OP_MOVES) || node_is_cast(node) ? PART_MOVES : PART_OTHER;
}

static uint8_t results_of(const Streams *s, const Node *node) {
    uint8_t bits = 0;
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i]) bits |= s->values[node->outputs[i]->id];
    return bits;
}

/* What reading a value there says of it. */
static uint8_t bits_of_use(const Streams *s, const Use *use, const Graph *graph) {
    const Node *node = use->node;
    if (!node) {
        if (graph != s->p->model->graph || use_graph(use) != graph) return TO_PRODUCT | TO_INSIDE;
        return placement_use_var(s->p, use) == VAR_FP32 ? 0 : TO_INSIDE;
    }
    if (node->graph != graph) return TO_PRODUCT | TO_INSIDE;
    const OpSchema *schema = node_schema(node);
    if (schema && op_has_flags(schema, OP_SHAPE_ONLY)) return 0;
    const uint8_t behind = results_of(s, node), kept = behind & (LATER_ADD | TO_INSIDE);
    switch ((Part)s->parts[node->id]) {
    case PART_PRODUCT: return TO_PRODUCT | TO_INSIDE;
    case PART_RESIDUAL: return TO_ADD | LATER_ADD | kept;
    case PART_NORM: return TO_NORM | kept;
    case PART_SQUARE: return (behind & TO_NORM) | kept;
    case PART_MOVES: return behind & (TO_PRODUCT | TO_NORM | TO_ADD | LATER_ADD | TO_INSIDE);
    case PART_OTHER: break;
    }
    return kept;
}

static void look_ahead(Streams *s, const Graph *graph) {
    for (const Node *node = graph->last; node; node = node->prev)
        for (uint32_t i = 0; i < node->output_count; i++) {
            const Value *out = node->outputs[i];
            for (const Use *use = out ? out->uses : NULL; use; use = use->next)
                s->values[out->id] |= bits_of_use(s, use, graph);
        }
}

static void keep(const Streams *s, const Node *node, const char *reason) {
    Placement *p = s->p;
    if (op_class_of(node, p->request.classes).op_class == CLASS_LOW) return; /* as the user says */
    for (uint32_t i = 0; i < node->output_count; i++) {
        const Value *out = node->outputs[i];
        const VarId var = out ? p->value_vars[out->id] : VAR_NONE;
        if (var != VAR_NONE) placement_pin(p, var, NOTE_PRECISE, reason);
    }
}

/* A residual addition is a stream's where another one follows or came before, and no product reads it
 * but through a norm. A SkipLayerNormalization is both. */
static bool is_of_stream(const Node *node, uint8_t read, uint8_t given) {
    if (!((read & FROM_ADD) || (given & LATER_ADD))) return false;
    const OpRecord *record = node_record(node);
    if (op_record_has(record, OP_SKIP)) return true;
    return (given & TO_NORM) && !(given & TO_PRODUCT);
}

/* False where a 16-bit operand has an exact 16-bit result: elements as they are, or of another sign. */
static bool rounds(Part part, const Node *node) {
    const OpRecord *record = node_record(node);
    if (part == PART_MOVES || record->gives || record->quantized == QUANTIZED_MOVE) return false;
    return record->magnitude != MAGNITUDE_SAME ||
           !(record->traits & (OP_SAME_BITS | OP_RANDOM_TRAINING));
}

static void visit(Streams *s, const Node *node) {
    const Part part = (Part)s->parts[node->id];
    const uint8_t given = results_of(s, node);
    uint8_t read = 0, pass = 0;
    for (uint32_t i = 0; i < node->input_count; i++)
        if (is_computed(s->p, &node->inputs[i])) read |= s->values[node->inputs[i].value->id];
    if (part == PART_PRODUCT) return;
    if (part == PART_MOVES) pass = read & OF_STREAM;
    if (part == PART_RESIDUAL && is_of_stream(node, read, given)) {
        keep(s, node, stream_reason);
        pass = OF_STREAM;
    } else if (part == PART_NORM && (read & OF_STREAM) && (given & TO_ADD)) {
        keep(s, node, norm_reason);
    } else if (!(given & TO_INSIDE) && rounds(part, node)) {
        keep(s, node, tail_reason);
    }
    if (part == PART_RESIDUAL) pass |= FROM_ADD;
    pass |= read & FROM_ADD;
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i]) s->values[node->outputs[i]->id] |= pass;
}

void placement_keep_streams(Placement *p) {
    Streams s = {.p = p,
                 .values = ARENA_ARRAY(p->scratch, uint8_t, p->value_count),
                 .parts = ARENA_ARRAY(p->scratch, uint8_t, p->model->node_count + 1)};
    for (size_t g = 0; g < p->graphs.count; g++)
        for (const Node *node = p->graphs.items[g]->first; node; node = node_after(node))
            s.parts[node->id] = (uint8_t)find_part(p, node);
    for (size_t g = 0; g < p->graphs.count; g++) {
        look_ahead(&s, p->graphs.items[g]);
        for (const Node *node = p->graphs.items[g]->first; node; node = node_after(node))
            visit(&s, node);
    }
}
