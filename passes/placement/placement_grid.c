// SPDX-License-Identifier: Apache-2.0
/* Constants that count cells, and what is computed with them.
 *
 *     boxes = Mul(Add(centers, offsets), strides)        centers: 0.5, 1.5, 2.5, …
 *
 * A tensor of many different multiples of one half is a ramp of places: the centers of a detector's
 * cells, positions, time steps. No layer's weights are that. Arithmetic on it gives coordinates, of
 * hundreds of pixels, where a 16-bit type has steps of half a pixel (float16) or four (bfloat16):
 * it stays fp32, up to the first operator that computes something else of it. A product of matrices
 * that reads one stays fp32 where the target can't hold all its numbers.
 */
#include "constants.h"
#include "op_facts.h"
#include "op_types.h"
#include "placement.h"

enum {
    CHUNK = 256,
    LEAST_COUNT = 16,    /* elements */
    LEAST_DIFFERENT = 8, /* of them, */
    LOOK_AHEAD = 4096,   /* among the first so many: most other tensors are done with by then */
    MOST_COUNT = 1 << 24,
};

static const char reason_text[] = "computes coordinates, and 16 bits are too few for them";

typedef struct Grids {
    Placement *p;
    uint8_t *grid; /* [value_count]: 0: no; 1: it counts cells; 2: and the target can't hold it */
    bool any;
} Grids;

typedef struct Look {
    float different[LEAST_DIFFERENT];
    size_t count;
    bool inexact;
} Look;

static bool is_known(const Look *look, float number) {
    for (size_t i = 0; i < look->count; i++)
        if (look->different[i] == number) return true;
    return false;
}

/* Of a multiple of a half. Both types hold small ones. */
static bool is_exact(float number, Dtype target) {
    uint64_t bits;
    double rounded;
    if (number >= -128 && number <= 128) return true;
    return dtype_from_double(target, (double)number, &bits) &&
           dtype_to_double(target, bits, &rounded) && rounded == (double)number;
}

/* False from the first element on that is not a multiple of a half. */
static bool look_at(Look *look, const float *numbers, uint64_t count, Dtype target) {
    for (uint64_t i = 0; i < count; i++) {
        float twice = numbers[i] * 2;
        if (!(twice >= -0x1p24f && twice <= 0x1p24f) || twice != (float)(int32_t)twice)
            return false;
        if (look->count < LEAST_DIFFERENT && !is_known(look, numbers[i]))
            look->different[look->count++] = numbers[i];
        look->inexact = look->inexact || !is_exact(numbers[i], target);
    }
    return true;
}

static bool look_at_constant(Grids *g, const Value *value, Err *err) {
    const Tensor *tensor = constant_tensor(value, &g->p->model->arena);
    if (!tensor || tensor->dtype != DTYPE_FLOAT || !tensor_check(tensor, NULL)) return true;
    uint64_t count = tensor_count(tensor);
    Look look = {0};
    if (count < LEAST_COUNT || count > MOST_COUNT) return true;
    for (uint64_t at = 0; at < count; at += CHUNK) {
        float numbers[CHUNK];
        uint64_t some = count - at < CHUNK ? count - at : CHUNK;
        if (!tensor_read_floats(tensor, at, some, numbers, err)) return false;
        if (!look_at(&look, numbers, some, g->p->request.target)) return true;
        if (at >= LOOK_AHEAD && look.count < LEAST_DIFFERENT) return true;
    }
    if (look.count < LEAST_DIFFERENT) return true;
    g->grid[value->id] = look.inexact ? 2 : 1;
    g->any = true;
    return true;
}

static uint8_t most_of(const Grids *g, const Node *node) {
    uint8_t most = 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const Value *value = node->inputs[i].value;
        if (value && g->grid[value->id] > most) most = g->grid[value->id];
    }
    return most;
}

static void pin(Placement *p, const Node *node) {
    for (uint32_t i = 0; i < node->output_count; i++) {
        const Value *out = node->outputs[i];
        VarId var = out ? p->value_vars[out->id] : VAR_NONE;
        if (var == VAR_NONE) continue;
        placement_pin(p, var, NOTE_PRECISE, reason_text);
        p->vars.items[placement_root(p, var)].precise = true;
    }
}

static void visit(Grids *g, const Node *node) {
    uint8_t most = most_of(g, node);
    if (!most) return;
    const OpSchema *schema = node_schema(node);
    OpExact role = placement_precise_role(g->p, schema);
    if (role == EXACT_PRODUCT && most == 2) pin(g->p, node);
    if (role != EXACT_CARRIES) return;
    bool moves = op_has_flags(schema, OP_MOVES);
    if (!moves) pin(g->p, node);
    for (uint32_t i = 0; i < node->output_count; i++)
        if (node->outputs[i]) g->grid[node->outputs[i]->id] = moves ? most : 2;
}

bool placement_keep_grids(Placement *p, Err *err) {
    Grids g = {.p = p, .grid = ARENA_ARRAY(p->scratch, uint8_t, p->value_count)};
    for (uint32_t id = 0; id < p->value_count; id++) {
        const Value *value = placement_value(p, id);
        if (!value || !p->constant[id] || p->value_vars[id] == VAR_NONE) continue;
        if (!look_at_constant(&g, value, err)) return false;
    }
    for (size_t i = 0; g.any && i < p->graphs.count; i++)
        for (const Node *node = p->graphs.items[i]->first; node; node = node_after(node))
            visit(&g, node);
    return true;
}
