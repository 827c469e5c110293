// SPDX-License-Identifier: Apache-2.0
/* Reads a plan's header and checks everything that the runtime will index by; see plan.h. After it,
 * code may use any index of the plan without a look. */
#include <string.h>

#include "attr_layout.h"
#include "checked.h"
#include "hash64.h"
#include "plan.h"
#include "work_progress.h"

typedef struct Check {
    Plan *plan;
    uint64_t counts[PLAN_SECTION_COUNT];
    uint32_t packs;      /* of PACKS, how many were met */
    uint64_t packed_end; /* of the last one's data */
    uint64_t files,
        end;          /* of files behind the plan, as offsets in DATA; UINT64_MAX: there are none */
    uint8_t *defined; /* [value_count] */
    uint8_t *held;    /* [graph_count]: graphs that a step holds, as each must be but once */
    uint8_t *walked;  /* [step_count]: steps of some graph, as each must be of one */
    Arena *scratch;
    Err *err;
} Check;

static bool damaged(Check *c, const char *what, uint64_t index) {
    err_set(c->err, ERR_MODEL, "the plan is damaged: %s %llu", what, (unsigned long long)index);
    err_hint(c->err, "compile it again");
    return false;
}

static bool span_ok(const Check *c, PlanSpan span, PlanSectionKind kind) {
    return (uint64_t)span.first + span.count <= c->counts[kind];
}

static bool text_ok(const Check *c, uint32_t text) {
    return text < c->counts[PLAN_TEXTS];
}

/* ---- header ---------------------------------------------------------------------------------- */

static bool check_header(Check *c, const void *bytes, uint64_t size) {
    static const uint32_t item_sizes[PLAN_SECTION_COUNT] = {[PLAN_OPS] = sizeof(PlanOp),
                                                            [PLAN_VALUES] = sizeof(PlanValue),
                                                            [PLAN_GRAPHS] = sizeof(PlanGraph),
                                                            [PLAN_STEPS] = sizeof(PlanStep),
                                                            [PLAN_ATTRS] = sizeof(PlanAttr),
                                                            [PLAN_OPERANDS] = sizeof(uint32_t),
                                                            [PLAN_NUMBERS] = sizeof(int64_t),
                                                            [PLAN_FLOATS] = sizeof(float),
                                                            [PLAN_TEXTS] = sizeof(PlanSpan),
                                                            [PLAN_CHARS] = 1,
                                                            [PLAN_PACKS] = sizeof(PlanPack),
                                                            [PLAN_CHOICES] = sizeof(PlanChoice),
                                                            [PLAN_DATA] = 1};
    const PlanHeader *header = bytes;
    if (size < sizeof *header || memcmp(header->magic, PLAN_MAGIC, sizeof header->magic) != 0)
        return err_set(c->err, ERR_MODEL, "this is not a plan");
    if (header->version != PLAN_VERSION || header->header_size != sizeof *header) {
        err_set(c->err, ERR_MODEL, "the plan has format version %u", header->version);
        err_expected(c->err, "%d", PLAN_VERSION);
        err_hint(c->err, "compile it again");
        return false;
    }
    if (header->numerics >= PLAN_NUMERICS_COUNT) return damaged(c, "numerics", header->numerics);
    if (header->small > 1) return damaged(c, "numerics", header->small);
    if (header->isa >= PLAN_ISA_COUNT) return damaged(c, "instruction set", header->isa);
    if (header->file_size != size) return damaged(c, "its size is not", header->file_size);
    uint64_t end = sizeof *header;
    for (int i = 0; i < PLAN_SECTION_COUNT; i++) {
        const PlanSection *section = &header->sections[i];
        uint64_t bytes_of;
        if (section->offset % PLAN_ALIGN || section->offset < end || section->offset > size ||
            !checked_mul(section->count, item_sizes[i], &bytes_of) ||
            bytes_of > size - section->offset || (i != PLAN_DATA && section->count >= UINT32_MAX))
            return damaged(c, "section", (uint64_t)i);
        end = section->offset + bytes_of;
        c->counts[i] = section->count;
    }
    return true;
}

static void set_views(Plan *plan, const void *bytes) {
    const char *base = bytes;
    const PlanSection *s = plan->header->sections;
    plan->ops = (const void *)(base + s[PLAN_OPS].offset);
    plan->values = (const void *)(base + s[PLAN_VALUES].offset);
    plan->graphs = (const void *)(base + s[PLAN_GRAPHS].offset);
    plan->steps = (const void *)(base + s[PLAN_STEPS].offset);
    plan->attrs = (const void *)(base + s[PLAN_ATTRS].offset);
    plan->operands = (const void *)(base + s[PLAN_OPERANDS].offset);
    plan->numbers = (const void *)(base + s[PLAN_NUMBERS].offset);
    plan->floats = (const void *)(base + s[PLAN_FLOATS].offset);
    plan->texts = (const void *)(base + s[PLAN_TEXTS].offset);
    plan->chars = base + s[PLAN_CHARS].offset;
    plan->packs = (const void *)(base + s[PLAN_PACKS].offset);
    plan->choices = (const void *)(base + s[PLAN_CHOICES].offset);
    plan->data = (const void *)(base + s[PLAN_DATA].offset);
    plan->op_count = (uint32_t)s[PLAN_OPS].count;
    plan->value_count = (uint32_t)s[PLAN_VALUES].count;
    plan->graph_count = (uint32_t)s[PLAN_GRAPHS].count;
    plan->step_count = (uint32_t)s[PLAN_STEPS].count;
    plan->pack_count = (uint32_t)s[PLAN_PACKS].count;
    plan->choice_count = (uint32_t)s[PLAN_CHOICES].count;
    plan->text_count = (uint32_t)s[PLAN_TEXTS].count;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static bool check_texts(Check *c) {
    for (uint64_t i = 0; i < c->counts[PLAN_TEXTS]; i++)
        if (!span_ok(c, c->plan->texts[i], PLAN_CHARS)) return damaged(c, "text", i);
    for (uint64_t i = 0; i < c->counts[PLAN_OPS]; i++)
        if (!text_ok(c, c->plan->ops[i].domain) || !text_ok(c, c->plan->ops[i].name))
            return damaged(c, "operator", i);
    return true;
}

static size_t stored_size(Dtype dtype) {
    return dtype == DTYPE_STRING ? sizeof(uint32_t) : (dtype_bits(dtype) + 7) / 8;
}

/* True where data of the one type may stand for the other. */
static bool stored_ok(const PlanValue *value) {
    if (!value->stored) return true;
    return value->dtype == DTYPE_FLOAT && value->data != PLAN_NO_DATA &&
           dtype_is_reduced(value->stored);
}

/* The bytes that the next of PACKS, which must be this value's, makes of its elements. What it says
 * of their order may be anything that stays within them. */
static bool check_pack(Check *c, const PlanValue *value, uint64_t count, uint64_t *bytes) {
    if (c->packs == c->plan->pack_count) return false;
    const PlanPack *pack = &c->plan->packs[c->packs++];
    bool ok = pack->value == (uint32_t)(value - c->plan->values) && value->packed == 1 &&
              !value->stored && pack->data == value->data && value->data >= c->packed_end &&
              !weight_layout_loses(&pack->layout) &&
              weight_layout_fits(&pack->layout, (Dtype)value->dtype, count, bytes);
    c->packed_end = value->data + value->size;
    return ok;
}

static bool is_data(const Check *c, uint64_t at, uint64_t size) {
    return at % PLAN_ALIGN == 0 && at <= c->counts[PLAN_DATA] && size <= c->counts[PLAN_DATA] - at;
}

/* In a file behind the plan, whose elements are aligned as in what callers lend. */
static bool is_in_file(const Check *c, const PlanValue *value, size_t element) {
    enum { ALIGN_MAX = 8 };
    return !value->packed && value->dtype != DTYPE_STRING && value->data >= c->files &&
           value->data <= c->end && value->size <= c->end - value->data &&
           value->data % (element < ALIGN_MAX ? element : ALIGN_MAX) == 0;
}

/* The next of PACKS, where it is what lies beside this constant. */
static bool check_beside(Check *c, const PlanValue *value, uint64_t count) {
    const PlanPack *pack = &c->plan->packs[c->packs];
    uint64_t bytes;
    if (c->packs == c->plan->pack_count || pack->value != (uint32_t)(value - c->plan->values))
        return true;
    if (value->stored || pack->data < c->packed_end || !weight_layout_loses(&pack->layout) ||
        !weight_layout_fits(&pack->layout, (Dtype)value->dtype, count, &bytes) ||
        !is_data(c, pack->data, bytes))
        return false;
    c->packs++;
    c->packed_end = pack->data + bytes;
    return true;
}

static bool check_constant(Check *c, const PlanValue *value) {
    uint64_t count, bytes, size = stored_size(plan_stored(value));
    if (value->kind != PLAN_TENSOR || value->rank == PLAN_NONE || !size ||
        !(is_data(c, value->data, value->size) || is_in_file(c, value, size)) ||
        !checked_count(c->plan->numbers + value->dims, value->rank, &count) ||
        !(value->packed ? check_pack(c, value, count, &bytes) : checked_mul(count, size, &bytes)) ||
        bytes != value->size || !check_beside(c, value, count))
        return false;
    const uint32_t *texts = (const void *)(c->plan->data + value->data);
    for (uint64_t i = 0; value->dtype == DTYPE_STRING && i < count; i++)
        if (!text_ok(c, texts[i])) return false;
    return true;
}

static bool check_values(Check *c) {
    for (uint32_t i = 0; i < c->plan->value_count; i++) {
        const PlanValue *value = &c->plan->values[i];
        bool ok = text_ok(c, value->name) && value->kind < PLAN_KIND_COUNT &&
                  value->dtype < DTYPE_COUNT && stored_ok(value);
        if (ok && value->rank != PLAN_NONE) {
            ok = value->rank <= PLAN_RANK_LIMIT &&
                 span_ok(c, (PlanSpan){value->dims, value->rank}, PLAN_NUMBERS);
            for (uint32_t k = 0; ok && k < value->rank; k++) {
                int64_t dim = c->plan->numbers[value->dims + k];
                ok = dim >= -1 ||
                     (dim >= -2 - (int64_t)UINT32_MAX && text_ok(c, (uint32_t)(-2 - dim)));
            }
        }
        if (ok && value->data != PLAN_NO_DATA)
            ok = check_constant(c, value);
        else
            ok = ok && !value->packed;
        if (!ok) return damaged(c, "value", i);
        c->defined[i] = value->data != PLAN_NO_DATA;
    }
    return c->packs == c->plan->pack_count || damaged(c, "packed constant", c->packs);
}

static bool check_attr(Check *c, const PlanAttr *attr) {
    uint64_t at = (uint64_t)attr->value;
    if (!text_ok(c, attr->name) || attr->kind >= PLAIN_KIND_COUNT) return false;
    PlanSpan list = {(uint32_t)at, attr->count};
    bool narrow = at < UINT32_MAX;
    switch ((PlainAttrKind)attr->kind) {
    case PLAIN_INT:
    case PLAIN_FLOAT: return true;
    case PLAIN_TEXT: return narrow && text_ok(c, (uint32_t)at);
    case PLAIN_INTS: return narrow && span_ok(c, list, PLAN_NUMBERS);
    case PLAIN_FLOATS: return narrow && span_ok(c, list, PLAN_FLOATS);
    case PLAIN_TEXTS:
        if (!narrow || !span_ok(c, list, PLAN_OPERANDS)) return false;
        for (uint32_t i = 0; i < list.count; i++)
            if (!text_ok(c, c->plan->operands[list.first + i])) return false;
        return true;
    case PLAIN_TENSOR: return at < c->plan->value_count && c->plan->values[at].data != PLAN_NO_DATA;
    case PLAIN_GRAPH:
        if (at == 0 || at >= c->plan->graph_count || c->held[at]) return false;
        c->held[at] = true;
        return true;
    case PLAIN_KIND_COUNT: return false;
    }
    return false;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* Values that may be read, or that get their one definition. */
static bool check_uses(Check *c, PlanSpan span, bool may_be_none) {
    if (!span_ok(c, span, PLAN_OPERANDS)) return false;
    for (uint32_t i = 0; i < span.count; i++) {
        uint32_t value = c->plan->operands[span.first + i];
        if (value == PLAN_NONE ? !may_be_none : value >= c->plan->value_count || !c->defined[value])
            return false;
    }
    return true;
}

static bool check_defaults(Check *c, const PlanGraph *graph) {
    if (!span_ok(c, graph->defaults, PLAN_OPERANDS)) return false;
    if (graph->defaults.count && graph->defaults.count != graph->inputs.count) return false;
    for (uint32_t i = 0; i < graph->defaults.count; i++) {
        uint32_t value = c->plan->operands[graph->defaults.first + i];
        if (value != PLAN_NONE &&
            (value >= c->plan->value_count || c->plan->values[value].data == PLAN_NO_DATA))
            return false;
    }
    return true;
}

static bool check_definitions(Check *c, PlanSpan span, bool may_be_none) {
    if (!span_ok(c, span, PLAN_OPERANDS)) return false;
    for (uint32_t i = 0; i < span.count; i++) {
        uint32_t value = c->plan->operands[span.first + i];
        if (value == PLAN_NONE && may_be_none) continue;
        if (value >= c->plan->value_count || c->defined[value]) return false;
        c->defined[value] = true;
    }
    return true;
}

typedef struct Place {
    uint32_t graph, step, attr;
} Place;

/* What no walk from the main graph meets was not looked at. */
static bool nothing_is_left(Check *c) {
    for (uint32_t i = 1; i < c->plan->graph_count; i++)
        if (!c->held[i]) return damaged(c, "graph", i);
    for (uint32_t i = 0; i < c->plan->step_count; i++)
        if (!c->walked[i]) return damaged(c, "step", i);
    return true;
}

/* Graphs nest, and a file may nest them as deep as it likes: so the walk keeps its own stack. A
 * graph is held by one step of an enclosing one, checked as `held`, so the walk ends. */
static bool check_graphs(Check *c) {
    VEC(Place) stack = {0};
    Plan *plan = c->plan;
    VEC_PUSH(c->scratch, &stack, ((Place){0}));
    if (plan->graph_count == 0) return damaged(c, "graph", 0);
    for (uint32_t i = 0; i < plan->graph_count; i++)
        if (!text_ok(c, plan->graphs[i].name) || !span_ok(c, plan->graphs[i].steps, PLAN_STEPS))
            return damaged(c, "graph", i);
    for (uint32_t i = 0; i < plan->graph_count; i++)
        if (!check_defaults(c, &plan->graphs[i])) return damaged(c, "graph", i);
    if (!check_definitions(c, plan->graphs[0].inputs, false)) return damaged(c, "graph", 0);
    while (stack.count) {
        Place *at = &stack.items[stack.count - 1];
        const PlanGraph *graph = &plan->graphs[at->graph];
        if (at->step == graph->steps.count) {
            if (!check_uses(c, graph->outputs, false)) return damaged(c, "graph", at->graph);
            stack.count--;
            continue;
        }
        uint32_t number = graph->steps.first + at->step;
        const PlanStep *step = &plan->steps[number];
        if (at->attr == 0 && c->walked[number]) return damaged(c, "step", number);
        if (at->attr == 0 &&
            (step->op >= plan->op_count || !text_ok(c, step->name) ||
             !span_ok(c, step->attrs, PLAN_ATTRS) || !check_uses(c, step->inputs, true)))
            return damaged(c, "step", number);
        c->walked[number] = true;
        uint32_t inner = 0;
        while (!inner && at->attr < step->attrs.count) {
            const PlanAttr *attr = &plan->attrs[step->attrs.first + at->attr++];
            if (!check_attr(c, attr)) return damaged(c, "step", number);
            if (attr->kind == PLAIN_GRAPH) inner = (uint32_t)attr->value;
        }
        if (inner) {
            if (!check_definitions(c, plan->graphs[inner].inputs, false))
                return damaged(c, "graph", inner);
            VEC_PUSH(c->scratch, &stack, ((Place){.graph = inner}));
            continue;
        }
        if (!check_definitions(c, step->outputs, true)) return damaged(c, "step", number);
        at->step++;
        at->attr = 0;
    }
    return nothing_is_left(c);
}

/* Their rows are plan_load's to check, which knows the kernels. */
static bool check_choices(Check *c) {
    const Plan *plan = c->plan;
    const PlanHeader *header = plan->header;
    const bool any = plan->choice_count > 0;
    if (header->tuned >= PLAN_ISA_COUNT || (header->tuned != PLAN_ISA_NONE) != any ||
        (header->threads > 0) != any)
        return damaged(c, "choices", plan->choice_count);
    for (uint32_t i = 0; i < plan->choice_count; i++) {
        const PlanChoice *choice = &plan->choices[i], *last = choice - 1;
        const bool follows = !i || choice->step > last->step ||
                             (choice->step == last->step && choice->shapes > last->shapes);
        if (choice->step >= plan->step_count || !follows || choice->alone > 1 || choice->zero)
            return damaged(c, "choice", i);
    }
    return true;
}

bool plan_check(Plan *plan, const void *bytes, uint64_t size, Arena *scratch, Err *err) {
    return plan_check_here(plan, bytes, size, size, scratch, err);
}

bool plan_check_here(Plan *plan, const void *bytes, uint64_t size, uint64_t end, Arena *scratch,
                     Err *err) {
    Check c = {.plan = plan, .scratch = scratch, .err = err};
    *plan = (Plan){.header = bytes};
    if (!check_header(&c, bytes, size)) return false;
    set_views(plan, bytes);
    c.end = end - plan->header->sections[PLAN_DATA].offset;
    c.files = end > size ? plan_end(size) - plan->header->sections[PLAN_DATA].offset : UINT64_MAX;
    c.defined = ARENA_ARRAY(scratch, uint8_t, plan->value_count);
    c.walked = ARENA_ARRAY(scratch, uint8_t, plan->step_count);
    c.held = ARENA_ARRAY(scratch, uint8_t, plan->graph_count);
    return check_texts(&c) && check_values(&c) && check_graphs(&c) && check_choices(&c);
}

static uint64_t hash_of(const char *bytes, uint64_t size) {
    enum { PIECE = 1 << 24 };
    Hash64 hash;
    const unsigned piece = progress_begin("reading the plan", size, PROGRESS_BYTES);
    hash64_init(&hash, 0);
    for (uint64_t at = 0; at < size; at += PIECE) {
        progress_at(piece, at);
        hash64_update(&hash, bytes + at, size - at < PIECE ? (size_t)(size - at) : PIECE);
    }
    progress_end(piece);
    return hash64_final(&hash);
}

bool plan_check_sum(const void *bytes, uint64_t size, Err *err) {
    PlanSum sum = {.magic = ""};
    bool has = size >= sizeof(PlanHeader) + sizeof sum;
    if (has) memcpy(&sum, (const char *)bytes + size - sizeof sum, sizeof sum);
    if (has && memcmp(sum.magic, PLAN_SUM_MAGIC, sizeof sum.magic) == 0 &&
        sum.hash == hash_of(bytes, size - sizeof sum))
        return true;
    err_set(err, ERR_MODEL, "its checksum does not match");
    err_hint(err, "compile it again");
    return false;
}

const char *plan_text(const Plan *plan, uint32_t text, Arena *arena) {
    const PlanSpan *span = &plan->texts[text];
    return arena_copy(arena, plan->chars + span->first, span->count);
}
