// SPDX-License-Identifier: Apache-2.0
/* Properties of fuse-casts and move-casts, judged by a reference evaluator (cast_reference.h):
 *   - every chain of two casts over 13 types, on all 65,536 float16 and bfloat16 values and on the
 *     boundary values of the other types, gives after fuse-casts what it gave before; and a chain
 *     that stays has a value that shows why it must;
 *   - so do random graphs of casts and data movement, after fuse-casts, and after move-casts with
 *     any of the casts marked as demi's own;
 *   - move-casts never converts more elements, and a second run changes nothing. */
#include <assert.h>

#include "cast_reference.h"
#include "passes.h"

enum { BOUNDARY_MAX = 4096, STEPS = 12, LINE = 160 };

/* ---- values ---------------------------------------------------------------------------------- */

typedef struct Bits {
    uint64_t items[BOUNDARY_MAX];
    size_t count;
} Bits;

static void add_bits(Bits *bits, const RefType *type, uint64_t value) {
    if (bits->count < BOUNDARY_MAX) bits->items[bits->count++] = value & ref_low_bits(type->width);
}

/* Fractions around the halfway points of every narrower type, at exponents where some type begins,
 * ends or loses its last place. */
static void float_boundaries(Bits *bits, const RefType *type) {
    static const int exponents[] = {-1022, -150, -149, -134, -133, -127, -126, -25, -24, -15, -14,
                                    -9,    -2,   -1,   0,    1,    7,    8,    11,  12,  15,  16,
                                    23,    24,   31,   32,   53,   63,   64,   127, 128, 1023};
    static const int narrower[] = {7, 10, 23};
    int bias = (1 << (type->exponent - 1)) - 1, top = (1 << type->exponent) - 1;
    uint64_t fractions[32] = {0, 1, 2, ref_low_bits(type->mantissa),
                              ref_low_bits(type->mantissa) - 1};
    size_t count = 5;
    for (size_t i = 0; i < 3; i++) {
        if (narrower[i] >= type->mantissa) continue;
        uint64_t half = UINT64_C(1) << (type->mantissa - narrower[i] - 1);
        for (uint64_t odd = 1; odd < 5; odd += 2)
            for (int d = -1; d < 2; d++) fractions[count++] = odd * half + (uint64_t)d;
    }
    for (size_t e = 0; e < sizeof exponents / sizeof *exponents + 3; e++) {
        size_t from_end = sizeof exponents / sizeof *exponents;
        int field = e < from_end        ? exponents[e] + bias
                    : e == from_end     ? 0
                    : e == from_end + 1 ? 1
                                        : top;
        if (field < 0 || field > top) continue;
        for (size_t i = 0; i < count; i++)
            for (uint64_t sign = 0; sign < 2; sign++)
                add_bits(bits, type,
                         sign << (type->width - 1) | (uint64_t)field << type->mantissa |
                             (fractions[i] & ref_low_bits(type->mantissa)));
    }
}

/* Around powers of two, and around the halfway points of every float type. */
static void integer_boundaries(Bits *bits, const RefType *type) {
    static const int precisions[] = {8, 11, 24, 53};
    for (int k = 0; k < type->width; k++)
        for (int d = -2; d < 3; d++) {
            add_bits(bits, type, (UINT64_C(1) << k) + (uint64_t)d);
            add_bits(bits, type, 0 - (UINT64_C(1) << k) + (uint64_t)d);
            for (size_t p = 0; p < 4; p++)
                if (k > precisions[p])
                    add_bits(bits, type,
                             (UINT64_C(1) << k) + (UINT64_C(1) << (k - precisions[p])) +
                                 (uint64_t)d);
        }
}

/* All values of a type of up to 16 bits where `whole`; else those at which something may happen. */
static RefVector values_of(const RefType *type, bool whole, Arena *arena) {
    static Bits bits;
    bits.count = 0;
    if (whole && type->width <= 16 && type->dtype != DTYPE_BOOL) {
        RefVector all = ref_vector(arena, type, (size_t)1 << type->width);
        for (size_t i = 0; i < all.count; i++) all.items[i].bits = i;
        return all;
    }
    if (type->dtype == DTYPE_BOOL)
        bits = (Bits){{0, 1}, 2};
    else if (ref_is_float(type))
        float_boundaries(&bits, type);
    else
        integer_boundaries(&bits, type);
    RefVector vector = ref_vector(arena, type, bits.count);
    for (size_t i = 0; i < bits.count; i++) vector.items[i].bits = bits.items[i];
    return vector;
}

/* ---- running --------------------------------------------------------------------------------- */

/* Runs the passes; true where they changed something. */
static bool run_passes(Model *model, const char *text) {
    Arena arena, scratch;
    arena_init(&arena, &test_trap);
    arena_init(&scratch, &test_trap);
    PassCounts counts = {0};
    Pipeline pipeline;
    PassCtx ctx = {.model = model, .scratch = &scratch, .counts = &counts};
    PipelineOptions options = {.verify_each = true};
    Err err = {0};
    char line[1024];
    uint64_t edits = model->edits;
    bool ok = pipeline_parse(&demi_passes, &arena, text, &pipeline, &err) &&
              pipeline_run(&pipeline, &ctx, &options, &err);
    err_format(&err, line, sizeof line);
    if (!ok) fail_msg("%s", line);
    arena_free(&scratch);
    arena_free(&arena);
    return model->edits != edits;
}

typedef struct Outputs {
    RefVector items[3];
    size_t count;
} Outputs;

static Outputs evaluate(const Model *model, RefVector input, Arena *arena) {
    RefRun run = ref_run(model, input, arena);
    Outputs outputs = {.count = model->graph->outputs.count};
    for (size_t i = 0; i < outputs.count; i++) outputs.items[i] = ref_output(&run, model, i);
    return outputs;
}

static void assert_same(const Outputs *a, const Outputs *b, const char *what) {
    assert_int_equal(a->count, b->count);
    for (size_t o = 0; o < a->count; o++) {
        const RefVector *x = &a->items[o], *y = &b->items[o];
        assert_ptr_equal(x->type, y->type);
        assert_int_equal(x->count, y->count);
        for (size_t i = 0; i < x->count; i++)
            if (!ref_agree(x->type, x->items[i], y->items[i]))
                fail_msg("output %zu, element %zu: %#llx became %#llx in\n%s", o, i,
                         (unsigned long long)x->items[i].bits, (unsigned long long)y->items[i].bits,
                         what);
    }
}

/* ---- chains of two --------------------------------------------------------------------------- */

/* True where some value shows that a cast by way of `b` is another thing than a direct one. */
static bool has_witness(RefVector x, const RefType *b, const RefType *c) {
    for (size_t i = 0; i < x.count; i++) {
        RefElement through = ref_cast(b, c, ref_cast(x.type, b, x.items[i]));
        RefElement direct = ref_cast(x.type, c, x.items[i]);
        if (through.open != direct.open || !ref_agree(c, through, direct)) return true;
    }
    return false;
}

/* Whether a float that becomes an integer can be cast at once is a matter of what is undefined. */
static bool asks_undefined(const RefType *a, const RefType *c) {
    return ref_is_float(a) && !ref_is_float(c) && c->dtype != DTYPE_BOOL;
}

static void check_chain(const RefType *a, const RefType *b, const RefType *c) {
    char text[512];
    Arena arena;
    arena_init(&arena, &test_trap);
    snprintf(text, sizeof text,
             "g (%s[n] x) => (%s[n] y) { p = Cast <to = %d> (x)\n q = Cast <to = %d> (p)\n"
             " y = Identity (q) }",
             a->name, c->name, (int)b->dtype, (int)c->dtype);
    Model *model = test_model(text);
    RefVector input = values_of(a, true, &arena);
    uint32_t before = model->graph->node_count;
    run_passes(model, "infer-dtypes,fuse-casts");
    if (model->graph->node_count < before) {
        Model *source = test_model(text);
        Outputs was = evaluate(source, input, &arena), is = evaluate(model, input, &arena);
        assert_same(&was, &is, text);
        model_free(source);
    } else if (!asks_undefined(a, c) && !has_witness(input, b, c)) {
        fail_msg("%s -> %s -> %s stays, although nothing shows why", a->name, b->name, c->name);
    }
    model_free(model);
    arena_free(&arena);
}

TEST(chains_of_two) {
    for (size_t i = 0; i < REF_TYPES * REF_TYPES * REF_TYPES; i++)
        check_chain(&ref_types[i / REF_TYPES / REF_TYPES], &ref_types[i / REF_TYPES % REF_TYPES],
                    &ref_types[i % REF_TYPES]);
}

/* ---- random graphs --------------------------------------------------------------------------- */

typedef struct Made {
    const RefType *type;
    size_t count; /* elements */
} Made;

typedef struct Maker {
    uint64_t random;
    bool marks;
    size_t used, saved; /* characters; elements that need no conversion any more */
    char text[6000], data[2000];
    Made values[STEPS + 1];
    size_t count;
} Maker;

static uint32_t pick(Maker *m, uint32_t below) {
    return test_random(&m->random, below);
}

static void put(Maker *m, const char *format, ...) {
    va_list args;
    va_start(args, format);
    m->used += (size_t)vsnprintf(m->text + m->used, sizeof m->text - m->used, format, args);
    va_end(args);
    assert_true(m->used < sizeof m->text);
}

/* Mostly there and back between a few types, so that something can move. */
static const RefType *pick_type(Maker *m, const RefType *from) {
    static const Dtype pairs[][2] = {{DTYPE_FLOAT16, DTYPE_FLOAT}, {DTYPE_BFLOAT16, DTYPE_FLOAT},
                                     {DTYPE_FLOAT, DTYPE_DOUBLE},  {DTYPE_INT32, DTYPE_INT64},
                                     {DTYPE_BOOL, DTYPE_INT32},    {DTYPE_INT8, DTYPE_INT16},
                                     {DTYPE_UINT16, DTYPE_FLOAT},  {DTYPE_INT32, DTYPE_DOUBLE}};
    for (int tries = 0; tries < 20 && pick(m, 8); tries++) {
        const Dtype *pair = pairs[pick(m, 8)];
        if (pair[0] == from->dtype) return ref_type(pair[1]);
        if (pair[1] == from->dtype) return ref_type(pair[0]);
    }
    return &ref_types[pick(m, REF_TYPES)];
}

/* An earlier value like `like`, or the count of values where there is none. */
static size_t pick_like(Maker *m, Made like) {
    size_t first = pick(m, (uint32_t)m->count);
    for (size_t i = 0; i < m->count; i++) {
        size_t k = (first + i) % m->count;
        if (m->values[k].type == like.type && m->values[k].count == like.count) return k;
    }
    return m->count;
}

static Made make_pad(Maker *m, size_t from) {
    Made made = m->values[from];
    bool is_float = ref_is_float(made.type), low = is_float && made.type->width == 16;
    const char *fills[2] = {is_float ? low ? "0.5v" : "0.5" : "1",
                            is_float ? low ? "0.1v" : "0.1" : "1"};
    made.count += 3;
    if (pick(m, 2)) {
        put(m, "Pad (v%zu, pads)", from);
        return made;
    }
    size_t used = strlen(m->data);
    snprintf(m->data + used, sizeof m->data - used, ", %s f%zu = {%s}", made.type->name, m->count,
             fills[pick(m, 2)]);
    put(m, "Pad (v%zu, pads, f%zu)", from, m->count);
    return made;
}

static Made make_step(Maker *m, size_t from) {
    Made made = m->values[from];
    size_t like = pick_like(m, made), most = 3 * m->values[0].count;
    uint32_t which = pick(m, 16);
    if (which < 7) {
        made.type = pick_type(m, made.type);
        put(m, "Cast <to = %d> (v%zu)%s", (int)made.type->dtype, from,
            m->marks && pick(m, 5) ? " @meta[\"demi.inserted\": \"cast\"]" : "");
    } else if (which == 7 && made.count > 8) {
        put(m, "Slice (v%zu, from, to)", from);
        made.count = 5;
    } else if (which == 8 && made.count >= 8) {
        put(m, "Gather (v%zu, at)", from);
        made.count = 6;
    } else if (which == 9 && made.count < most) {
        put(m, "Tile (v%zu, two)", from);
        made.count *= 2;
    } else if (which == 10 && made.count < most) {
        put(m, "Concat <axis = 0> (v%zu, v%zu)", from, like);
        made.count *= 2;
    } else if (which == 11) {
        put(m, "Where (yes, v%zu, v%zu)", from, like);
    } else if (which < 14) {
        made = make_pad(m, from);
    } else {
        put(m, "%s (v%zu)", pick(m, 2) ? "Identity" : "Transpose", from);
    }
    return made;
}

/* A graph of STEPS nodes behind x, with three outputs. */
static void make_graph(Maker *m, const RefType *type, size_t count, char *out, size_t size) {
    m->used = m->count = 0;
    m->text[0] = m->data[0] = '\0';
    m->values[m->count++] = (Made){type, count};
    put(m, " v0 = Identity (x)\n");
    while (m->count <= STEPS) {
        size_t back = pick(m, m->count < 3 ? (uint32_t)m->count : 3);
        put(m, " v%zu = ", m->count);
        Made made = make_step(m, m->count - 1 - back);
        put(m, "\n");
        m->values[m->count++] = made;
    }
    char heads[3 * LINE] = "";
    for (size_t o = 0; o < 3; o++) {
        size_t k = o ? pick(m, (uint32_t)m->count) : m->count - 1, used = strlen(heads);
        snprintf(heads + used, sizeof heads - used, "%s%s[%zu] y%zu", o ? ", " : "",
                 m->values[k].type->name, m->values[k].count, o);
        put(m, " y%zu = Identity (v%zu)\n", o, k);
    }
    int used = snprintf(out, size,
                        "g (%s[%zu] x) => (%s)\n<int64[2] pads = {1, 2}, int64[1] from = {1}, "
                        "int64[1] to = {6}, int64[6] at = {0, 7, 3, 3, 1, 5}, int64[1] two = {2}, "
                        "bool[1] yes = {%u}%s>\n{\n%s}\n",
                        type->name, count, heads, pick(m, 2), m->data, m->text);
    assert_true(used > 0 && (size_t)used < size);
}

/* Elements that demi's casts convert. */
static size_t converted(const Model *model, RefVector input, Arena *arena) {
    RefRun run = ref_run(model, input, arena);
    size_t total = 0;
    for (const Node *node = model->graph->first; node; node = node_after(node))
        if (node_is_own_cast(node)) total += run.values[node->outputs[0]->id].count;
    return total;
}

typedef struct Property {
    const char *passes;
    bool marks, whole; /* marks: some casts are demi's; whole: all values of the input's type */
    int graphs;
    uint64_t seed;
} Property;

/* One random graph; true where the passes changed it. */
static bool check_graph(Maker *m, const Property *property) {
    static char text[8000];
    Arena arena;
    arena_init(&arena, &test_trap);
    const RefType *type = &ref_types[pick(m, property->whole ? 2 : REF_TYPES)];
    RefVector input = values_of(type, property->whole, &arena);
    make_graph(m, type, input.count, text, sizeof text);
    Model *source = test_model(text), *model = test_model(text);
    bool changed = run_passes(model, property->passes);
    if (changed) {
        Outputs was = evaluate(source, input, &arena), is = evaluate(model, input, &arena);
        assert_same(&was, &is, text);
    }
    if (property->marks) {
        size_t before = converted(source, input, &arena), after = converted(model, input, &arena);
        assert_true(after <= before);
        m->saved += before - after;
    }
    if (run_passes(model, property->passes)) fail_msg("a second run changes\n%s", text);
    model_free(source);
    model_free(model);
    arena_free(&arena);
    return changed;
}

static void check_graphs(const Property *property) {
    static Maker maker;
    int changed = 0;
    maker = (Maker){.random = property->seed, .marks = property->marks};
    for (int i = 0; i < property->graphs; i++) changed += check_graph(&maker, property);
    assert_true(changed > property->graphs / 10); /* or nothing is tested */
    assert_true(!property->marks || maker.saved > 0);
}

TEST(fused_graphs) {
    check_graphs(&(Property){"infer-dtypes,fuse-casts", false, false, 1500, 1});
    check_graphs(&(Property){"infer-dtypes,fuse-casts", false, true, 30, 2});
}

TEST(moved_casts) {
    check_graphs(&(Property){"infer-dtypes,infer-shapes,move-casts", true, false, 1500, 3});
    check_graphs(&(Property){"infer-dtypes,infer-shapes,move-casts", true, true, 30, 4});
}
