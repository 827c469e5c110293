// SPDX-License-Identifier: Apache-2.0
/* Weights of a plan that is being made, packed for the kernels that will read them. Which layouts
 * those want is found by making the forms of all steps (step_form.h) as a run would, of operands of
 * the declared dims; open ones are taken to be many. A constant is packed if every step that reads
 * it asks for one and the same layout and says that it will not read the elements; whatever else
 * reads it would have to unpack it.
 */
#include <string.h>

#include "attr_layout.h"
#include "checked.h"
#include "exec.h"
#include "plan.h"
#include "step_form.h"

enum { OPEN_SIZE = 64 }; /* of a dimension that is not known */

/* ---- instruction sets ------------------------------------------------------------------------ */

PlanIsa plan_isa_here(void) {
    const IsaLevel level = isa_best();
    if (level == ISA_AVX512) return PLAN_ISA_AVX512;
    return level == ISA_AVX2 ? PLAN_ISA_AVX2 : PLAN_ISA_PORTABLE;
}

/* That of any but none. */
static IsaLevel level_of(PlanIsa isa) {
    if (isa == PLAN_ISA_AVX512) return ISA_AVX512;
    return isa == PLAN_ISA_AVX2 ? ISA_AVX2 : ISA_PORTABLE;
}

const char *plan_isa_name(PlanIsa isa) {
    return isa == PLAN_ISA_NONE ? "none" : isa_name(level_of(isa));
}

/* ---- what kernels want ----------------------------------------------------------------------- */

/* What is known of a constant. */
typedef enum Wish { WISH_OTHER, WISH_OPEN, WISH_LAYOUT } Wish;

typedef struct Packer {
    PlanBuilder *b;
    Wish *wishes;          /* [value_count]: OTHER, where it stays as it is */
    WeightLayout *layouts; /* [value_count] */
    LoadedPlan loaded;
    Exec exec;
    LayoutNotes notes;
    Err err; /* of a step whose form can't be made: its constants stay */
} Packer;

static void packer_free(void *data) {
    Packer *p = data;
    exec_free(&p->exec);
}

static bool is_large(const PlanValue *value) {
    return value->data != PLAN_NO_DATA && value->size > PLAN_SMALL;
}

static void leave_span(Packer *p, PlanSpan span) {
    for (uint32_t i = 0; i < span.count; i++) {
        uint32_t value = p->b->operands.items[span.first + i];
        if (value != PLAN_NONE) p->wishes[value] = WISH_OTHER;
    }
}

/* Constants that may be packed at all: no others have their data. */
static void find_open(Packer *p) {
    const PlanBuilder *b = p->b;
    uint32_t *owners = ARENA_ARRAY(b->arena, uint32_t, b->constants.count + 1); /* 1 + value */
    for (uint32_t i = 0; i < b->values.count; i++) {
        const PlanValue *value = &b->values.items[i];
        if (!is_large(value)) continue;
        uint32_t *owner = &owners[plan_constant_of(b, value) - b->constants.items];
        const bool typed = value->dtype == DTYPE_FLOAT || value->dtype == DTYPE_INT8;
        if (typed && !value->stored && !*owner) p->wishes[i] = WISH_OPEN;
        if (*owner) p->wishes[*owner - 1] = WISH_OTHER;
        *owner = i + 1;
    }
    for (size_t i = 0; i < b->attrs.count; i++)
        if (b->attrs.items[i].kind == PLAIN_TENSOR) p->wishes[b->attrs.items[i].value] = WISH_OTHER;
    for (size_t g = 0; g < b->graphs.count; g++) {
        leave_span(p, b->graphs.items[g].outputs);
        leave_span(p, b->graphs.items[g].defaults);
    }
}

/* The plan in the builder's own tables, with the data of small constants; large ones are there
 * without. */
static bool load(Packer *p, Err *err) {
    PlanBuilder *b = p->b;
    PlanValue *values = arena_copy(b->arena, b->values.items, b->values.count * sizeof *values);
    uint64_t total = 0, at = 0;
    for (size_t i = 0; i < b->values.count; i++)
        if (values[i].data != PLAN_NO_DATA && !is_large(&values[i]))
            total += values[i].size + PLAN_ALIGN;
    unsigned char *data = arena_alloc(b->arena, (size_t)total + PLAN_ALIGN);
    data += -(uintptr_t)data % PLAN_ALIGN;
    for (size_t i = 0; i < b->values.count; i++) {
        if (values[i].data == PLAN_NO_DATA) continue;
        const PlanConstant *constant = plan_constant_of(b, &b->values.items[i]);
        values[i].data = 0;
        if (is_large(&b->values.items[i])) {
            const bool read = values[i].dtype == DTYPE_STRING || values[i].stored;
            if (read) values[i].data = PLAN_NO_DATA; /* as if it was computed */
            continue;
        }
        if (!constant->read(constant->data, 0, data + at, constant->size, err)) return false;
        values[i].data = at;
        at += (constant->size + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
    }
    p->loaded.plan = (Plan){.ops = b->ops.items,
                            .values = values,
                            .graphs = b->graphs.items,
                            .steps = b->steps.items,
                            .attrs = b->attrs.items,
                            .operands = b->operands.items,
                            .numbers = b->numbers.items,
                            .floats = b->floats.items,
                            .texts = b->texts.items,
                            .chars = b->chars.items,
                            .data = data,
                            .op_count = (uint32_t)b->ops.count,
                            .value_count = (uint32_t)b->values.count,
                            .graph_count = (uint32_t)b->graphs.count,
                            .step_count = (uint32_t)b->steps.count,
                            .text_count = (uint32_t)b->texts.count};
    return plan_load(&p->loaded, b->arena, err);
}

/* An operand of the declared dims; false where they are not known. */
static bool set_operand(Packer *p, uint32_t number) {
    const PlanValue *value = &p->b->values.items[number];
    RtValue *to = &p->exec.values[number];
    int64_t dims[8];
    if (to->state == RT_TENSOR) return true;
    if (value->kind != PLAN_TENSOR || value->rank > sizeof dims / sizeof *dims ||
        !kernel_element_size((Dtype)value->dtype))
        return false;
    KernelTensor tensor = {
        .present = true, .dtype = (Dtype)value->dtype, .rank = value->rank, .dims = dims};
    for (uint32_t i = 0; i < value->rank; i++) {
        int64_t dim = p->b->numbers.items[value->dims + i];
        dims[i] = dim < 0 ? OPEN_SIZE : dim;
    }
    if (!checked_count(dims, tensor.rank, &tensor.count)) return false;
    RtTensor *made = rt_tensor_borrow(&p->exec.pool, &tensor, &p->err);
    if (made) *to = (RtValue){.state = RT_TENSOR, .tensor = made};
    return made != NULL;
}

static bool set_operands(Packer *p, const LoadedStep *step) {
    for (uint32_t i = 0; i < step->plan->inputs.count; i++)
        if (step->inputs[i] != PLAN_NONE && !set_operand(p, step->inputs[i])) return false;
    return true;
}

/* The one layout that the step asked for of input i, or NULL. */
static const WeightLayout *wanted(const Packer *p, const StepForm *form, uint32_t i) {
    const LayoutNotes *notes = &p->notes;
    const WeightLayout *found = NULL;
    if (!form || !form->unread[i] || notes->count > sizeof notes->items / sizeof *notes->items)
        return NULL;
    for (uint32_t k = 0; k < notes->count; k++) {
        if (notes->items[k].input != i) continue;
        if (found) return NULL;
        found = &notes->items[k].layout;
    }
    return found;
}

static void note_wish(Packer *p, uint32_t value, const WeightLayout *layout) {
    uint64_t size;
    const PlanValue *v = &p->b->values.items[value];
    const uint64_t count = v->size / kernel_element_size((Dtype)v->dtype);
    if (p->wishes[value] == WISH_OPEN && layout &&
        weight_layout_fits(layout, (Dtype)v->dtype, count, &size)) {
        p->wishes[value] = WISH_LAYOUT;
        p->layouts[value] = *layout;
    } else if (!layout || p->wishes[value] != WISH_LAYOUT ||
               !weight_layout_equals(layout, &p->layouts[value])) {
        p->wishes[value] = WISH_OTHER;
    }
}

static void ask_step(Packer *p, const LoadedStep *step) {
    bool any = false;
    for (uint32_t i = 0; i < step->plan->inputs.count; i++)
        any |= step->inputs[i] != PLAN_NONE && p->wishes[step->inputs[i]] != WISH_OTHER;
    if (!any) return;
    p->err = (Err){0};
    p->notes.count = 0;
    const bool makes = !step->exec && set_operands(p, step);
    StepForm *form = makes ? step_form_make(&p->exec, step) : NULL;
    for (uint32_t i = 0; i < step->plan->inputs.count; i++)
        if (step->inputs[i] != PLAN_NONE && p->wishes[step->inputs[i]] != WISH_OTHER)
            note_wish(p, step->inputs[i], form && !form->is_view ? wanted(p, form, i) : NULL);
    if (form) step_form_free(&p->exec, form);
    arena_free(&p->exec.scratch);
}

static bool ask(Packer *p, Err *err) {
    PlanBuilder *b = p->b;
    find_open(p);
    if (!load(p, err) || !exec_init(&p->exec, &p->loaded, UINT64_MAX, b->arena, err)) return false;
    for (uint32_t i = 0; i < b->values.count; i++)
        if (is_large(&b->values.items[i])) {
            p->loaded.constants[i].data = NULL;
            if (p->exec.values[i].state == RT_TENSOR) p->exec.values[i].tensor->tensor.data = NULL;
        }
    p->notes.isa = level_of(b->isa);
    p->exec.err = &p->err;
    p->exec.options.notes = &p->notes;
    p->exec.options.provider = KERNEL_PROVIDER_OWN;
    p->exec.options.faithful = b->numerics == PLAN_FAITHFUL;
    p->exec.options.small = b->small;
    for (uint32_t s = 0; s < p->loaded.plan.step_count; s++) ask_step(p, &p->loaded.steps[s]);
    return true;
}

/* ---- packing --------------------------------------------------------------------------------- */

/* A constant that is packed where the plan is written: in memory from its first piece to its last. */
typedef struct PackedConstant {
    Arena *arena;
    PlanConstant plain;
    WeightLayout layout;
    uint64_t size;
    void *bytes; /* of an allocation with room for PLAN_ALIGN more */
} PackedConstant;

static char *aligned(void *bytes) {
    return (char *)bytes + -(uintptr_t)bytes % PLAN_ALIGN;
}

static bool make_packed(PackedConstant *c, Err *err) {
    const size_t size = (size_t)c->plain.size;
    void *plain = arena_alloc(c->arena, size);
    bool ok = c->plain.read(c->plain.data, 0, plain, size, err);
    if (ok) {
        c->bytes = arena_alloc(c->arena, (size_t)c->size + PLAN_ALIGN);
        weight_layout_pack(&c->layout, plain, aligned(c->bytes));
    }
    arena_release(c->arena, plain, size);
    return ok;
}

static bool read_packed(void *data, uint64_t offset, void *buffer, uint64_t size, Err *err) {
    PackedConstant *c = data;
    if (!c->bytes && !make_packed(c, err)) return false;
    memcpy(buffer, aligned(c->bytes) + offset, size);
    if (offset + size < c->size) return true;
    arena_release(c->arena, c->bytes, (size_t)c->size + PLAN_ALIGN);
    c->bytes = NULL;
    return true;
}

/* Gives all values their data anew, in their order. */
static void place_constants(Packer *p) {
    PlanBuilder *b = p->b;
    const PlanConstant *old = b->constants.items;
    const PlanConstant **of = ARENA_ARRAY(b->arena, const PlanConstant *, b->values.count + 1);
    uint32_t *placed = ARENA_ARRAY(b->arena, uint32_t, b->constants.count + 1); /* 1 + value */
    for (uint32_t i = 0; i < b->values.count; i++)
        if (b->values.items[i].data != PLAN_NO_DATA)
            of[i] = plan_constant_of(b, &b->values.items[i]);
    memset(&b->constants, 0, sizeof b->constants); /* the old ones stay in the arena */
    b->data_size = 0;
    for (uint32_t i = 0; i < b->values.count; i++) {
        if (!of[i]) continue;
        uint32_t *owner = &placed[of[i] - old];
        if (*owner) {
            plan_share_data(b, i, *owner - 1);
            continue;
        }
        *owner = i + 1;
        if (p->wishes[i] != WISH_LAYOUT) {
            plan_set_data(b, i, of[i]->size, of[i]->read, of[i]->data);
            continue;
        }
        PackedConstant *packed = ARENA_NEW(b->arena, PackedConstant);
        *packed = (PackedConstant){b->arena, *of[i], p->layouts[i],
                                   weight_layout_size(&p->layouts[i]), NULL};
        VEC_PUSH(b->arena, &b->packs, ((PlanPack){i, 0, p->layouts[i]}));
        b->values.items[i].packed = 1;
        plan_set_data(b, i, packed->size, read_packed, packed);
    }
}

bool plan_pack(PlanBuilder *b, Err *err) {
    if (b->isa == PLAN_ISA_NONE) return true;
    Packer *p = ARENA_NEW(b->arena, Packer);
    p->b = b;
    p->wishes = ARENA_ARRAY(b->arena, Wish, b->values.count + 1);
    p->layouts = ARENA_ARRAY(b->arena, WeightLayout, b->values.count + 1);
    arena_defer(b->arena, packer_free, p);
    if (!ask(p, err)) return false;
    place_constants(p);
    return true;
}
