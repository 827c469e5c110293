// SPDX-License-Identifier: Apache-2.0
/* Weights of a plan that is being made, packed for the kernels that will read them. Which layouts
 * those want is found by making the forms of all steps (step_specialization.h) as a run would, of operands of
 * the declared dims; open ones are taken to be many. A constant is packed if every step that reads
 * it asks for one and the same layout and says that it will not read the elements; whatever else
 * reads it would have to unpack it. What kernels make of constants that loses something is put beside
 * them.
 */
#include <string.h>

#include "attr_layout.h"
#include "checked.h"
#include "exec.h"
#include "plan.h"
#include "plan_file.h"
#include "step_specialization.h"

enum { OPEN_SIZE = 64 }; /* of a dimension that is not known */

/* ---- instruction sets ------------------------------------------------------------------------ */

/* The row that stands for each, which a machine of that kind has, and what else such machines may have. */
static const struct {
    Isa least;
    IsaSet most;
} kinds[PLAN_ISA_COUNT] = {
    [PLAN_ISA_PORTABLE] = {ISA_PORTABLE, 0},
    [PLAN_ISA_AVX2] = {ISA_AVX2, CPU_F16C | CPU_AVX2},
    [PLAN_ISA_AVX512] = {ISA_AVX512,
                         CPU_F16C | CPU_AVX2 | CPU_AVX512 | CPU_AVX512_VNNI | CPU_AVX512_BF16},
};

PlanIsa plan_isa_here(void) {
    for (unsigned isa = PLAN_ISA_COUNT; isa-- > PLAN_ISA_PORTABLE;)
        if (isa_runs(kinds[isa].least, isa_here())) return (PlanIsa)isa;
    return PLAN_ISA_PORTABLE;
}

/* The processor to pack for: this one, where it is of that kind; else the best of the kind. */
static IsaSet set_of(PlanIsa isa) {
    const bool here = isa_runs(kinds[isa].least, isa_here());
    return here ? isa_here() & kinds[isa].most : kinds[isa].most;
}

const char *plan_isa_name(PlanIsa isa) {
    return isa == PLAN_ISA_NONE ? "none" : isa_name(kinds[isa].least);
}

/* ---- what kernels want ----------------------------------------------------------------------- */

/* What is known of a constant: how it may lie in the plan, and what lies beside it. */
typedef enum PackState { PACK_NEVER, PACK_OPEN, PACK_LAYOUT } PackState;
typedef struct PackRequest {
    PackState state;
    bool has_beside, is_open; /* is_open: it may have something beside it */
    WeightLayout layout, beside;
} PackRequest;

typedef struct Packer {
    PlanBuilder *b;
    Arena *within;         /* of what ends with packing, this too */
    PackRequest *requests; /* [value_count]; NULL: there are none */
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

static bool has_large(const PlanBuilder *b) {
    for (size_t i = 0; i < b->values.count; i++)
        if (is_large(&b->values.items[i])) return true;
    return false;
}

static void leave_span(Packer *p, PlanSpan span) {
    for (uint32_t i = 0; i < span.count; i++) {
        uint32_t value = p->b->operands.items[span.first + i];
        if (value != PLAN_NONE) p->requests[value].state = PACK_NEVER;
    }
}

static void leave_tensors(Packer *p, PlanSpan attrs) {
    for (uint32_t i = 0; i < attrs.count; i++) {
        const PlanAttr *attr = &p->b->attrs.items[attrs.first + i];
        if (attr->kind == PLAIN_TENSOR) p->requests[attr->value].state = PACK_NEVER;
    }
}

/* Constants that may be packed at all: no others have their data. False where there are none. */
static bool find_open(Packer *p) {
    const PlanBuilder *b = p->b;
    bool any = false;
    uint32_t *owners = ARENA_ARRAY(p->within, uint32_t, b->constants.count + 1); /* 1 + value */
    for (uint32_t i = 0; i < b->values.count; i++) {
        const PlanValue *value = &b->values.items[i];
        if (!is_large(value)) continue;
        uint32_t *owner = &owners[plan_constant_of(b, value) - b->constants.items];
        const bool typed = value->dtype == DTYPE_FLOAT || value->dtype == DTYPE_BFLOAT16 ||
                           value->dtype == DTYPE_INT8;
        if (typed && !value->stored && !*owner)
            p->requests[i] = (PackRequest){.state = PACK_OPEN, .is_open = any = true};
        if (*owner) p->requests[*owner - 1] = (PackRequest){.state = PACK_NEVER};
        *owner = i + 1;
    }
    for (size_t s = 0; s < b->steps.count; s++) /* attributes of folded steps name values no more */
        leave_tensors(p, b->steps.items[s].attrs);
    for (size_t g = 0; g < b->graphs.count; g++) {
        leave_span(p, b->graphs.items[g].outputs);
        leave_span(p, b->graphs.items[g].defaults);
    }
    return any;
}

/* The plan in the builder's own tables, with the data of small constants; large ones are there
 * without. */
static bool load(Packer *p, Err *err) {
    PlanBuilder *b = p->b;
    PlanValue *values = arena_copy(p->within, b->values.items, b->values.count * sizeof *values);
    uint64_t total = 0, at = 0;
    for (size_t i = 0; i < b->values.count; i++)
        if (values[i].data != PLAN_NO_DATA && !is_large(&values[i]))
            total += values[i].size + PLAN_ALIGN;
    unsigned char *data = arena_alloc(p->within, (size_t)total + PLAN_ALIGN);
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
    p->loaded.plan = plan_of_builder(b);
    p->loaded.plan.values = values;
    p->loaded.plan.data = data;
    return plan_load(&p->loaded, p->within, err);
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

/* The one layout that the step asked for of input i, of those that lose something or that do not; or
 * NULL. */
static const WeightLayout *wanted(const Packer *p, const StepSpecialization *form, uint32_t i,
                                  bool loses) {
    const LayoutNotes *notes = &p->notes;
    const WeightLayout *found = NULL;
    if (!form || form->is_view || !form->unread[i] ||
        notes->count > sizeof notes->items / sizeof *notes->items)
        return NULL;
    for (uint32_t k = 0; k < notes->count; k++) {
        const WeightLayout *layout = &notes->items[k].layout;
        if (notes->items[k].input != i || weight_layout_loses(layout) != loses) continue;
        if (found) return NULL;
        found = layout;
    }
    return found;
}

static bool fits(const Packer *p, uint32_t value, const WeightLayout *layout) {
    uint64_t size;
    const PlanValue *v = &p->b->values.items[value];
    const uint64_t count = v->size / kernel_element_size((Dtype)v->dtype);
    return layout && weight_layout_fits(layout, (Dtype)v->dtype, count, &size);
}

static void note_request(Packer *p, uint32_t value, const WeightLayout *layout) {
    PackRequest *request = &p->requests[value];
    if (request->state == PACK_OPEN && fits(p, value, layout)) {
        request->state = PACK_LAYOUT;
        request->layout = *layout;
    } else if (!layout || request->state != PACK_LAYOUT ||
               !weight_layout_equals(layout, &request->layout)) {
        request->state = PACK_NEVER;
    }
}

/* Of several that differ the first; the others are made where they are read. */
static void note_beside(Packer *p, uint32_t value, const WeightLayout *layout) {
    PackRequest *request = &p->requests[value];
    if (request->has_beside || !fits(p, value, layout)) return;
    request->has_beside = true;
    request->beside = *layout;
}

static void ask_step(Packer *p, const LoadedStep *step) {
    bool any = false;
    for (uint32_t i = 0; i < step->plan->inputs.count; i++)
        any |= step->inputs[i] != PLAN_NONE && p->requests[step->inputs[i]].is_open;
    if (!any) return;
    p->err = (Err){0};
    p->notes.count = 0;
    const bool makes = !step->exec && set_operands(p, step);
    StepSpecialization *form = makes ? step_specialization_make(&p->exec, step) : NULL;
    for (uint32_t i = 0; i < step->plan->inputs.count; i++) {
        const uint32_t value = step->inputs[i];
        if (value == PLAN_NONE || !p->requests[value].is_open) continue;
        note_request(p, value, wanted(p, form, i, false));
        note_beside(p, value, wanted(p, form, i, true));
    }
    if (form) step_specialization_free(form);
    arena_free(&p->exec.scratch);
}

static bool ask(Packer *p, Err *err) {
    const PoolFrom unbounded = {.budget = UINT64_MAX};
    PlanBuilder *b = p->b;
    if (!find_open(p)) return true;
    if (!load(p, err) || !exec_init(&p->exec, &p->loaded, &unbounded, p->within, err)) return false;
    for (uint32_t i = 0; i < b->values.count; i++)
        if (is_large(&b->values.items[i])) {
            p->loaded.constants[i].data = NULL;
            if (p->exec.values[i].state == RT_TENSOR) p->exec.values[i].tensor->tensor.data = NULL;
        }
    p->notes.cpu = set_of(b->isa);
    p->exec.err = &p->err;
    p->exec.options.notes = &p->notes;
    p->exec.options.provider = KERNEL_PROVIDER_OWN;
    p->exec.options.faithful = b->numerics == PLAN_FAITHFUL;
    p->exec.options.small = b->small;
    for (uint32_t s = 0; s < p->loaded.plan.step_count; s++) ask_step(p, &p->loaded.steps[s]);
    return true;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Where a constant lies among the builder's files, one more if need be. */
static uint64_t place_in_file(PlanBuilder *b, const PlanConstant *constant) {
    size_t i = b->files.count;
    while (i > 0 && b->files.items[i - 1].source != constant->file) i--;
    if (i > 0) return b->files.items[i - 1].at + constant->at;
    const uint64_t at = b->files_size;
    VEC_PUSH(b->arena, &b->files, ((MappedFile){constant->file, at}));
    b->files_size = plan_end(at + constant->file->size);
    return at + constant->at;
}

/* Whether kernels can read a constant where its file has it: as they do inputs that are lent to them, in
 * whole elements. Small files, and small constants, are read whole, as those of plans are. */
static bool stays(const PlanBuilder *b, const PlanValue *value, const PlanConstant *constant) {
    enum { ALIGN_MAX = 8 };
    if (!b->maps || !constant->file || constant->size <= PLAN_SMALL ||
        constant->file->size <= PLAN_FILE_SMALL || !source_is_file(constant->file))
        return false;
    const uint64_t size = kernel_element_size(plan_stored(value));
    return size && constant->at % (size < ALIGN_MAX ? size : ALIGN_MAX) == 0;
}

/* ---- all constants --------------------------------------------------------------------------- */

/* A constant as it is, in its file or in the plan. */
static void place_plain(PlanBuilder *b, uint32_t i, const PlanConstant *plain) {
    PlanValue *value = &b->values.items[i];
    if (stays(b, value, plain)) {
        value->data = PLAN_FILES + place_in_file(b, plain);
        return;
    }
    plan_set_constant(b, i, plain);
}

/* Gives a value its data anew, and what is beside it. */
static void place_constant(Packer *p, uint32_t i, const PlanConstant *plain) {
    PlanBuilder *b = p->b;
    static const PackRequest none = {.state = PACK_NEVER};
    const PackRequest *request = p->requests ? &p->requests[i] : &none;
    if (request->state == PACK_LAYOUT) {
        PlanValue *value = &b->values.items[i];
        value->data = plan_add_packed(b, plain, &request->layout);
        value->size = weight_layout_size(&request->layout);
        value->packed = 1;
        VEC_PUSH(b->arena, &b->packs, ((PlanPack){i, 0, value->data, request->layout}));
    } else {
        place_plain(b, i, plain);
    }
    if (request->has_beside) {
        const uint64_t at = plan_add_packed(b, plain, &request->beside);
        VEC_PUSH(b->arena, &b->packs, ((PlanPack){i, 0, at, request->beside}));
    }
}

/* All values, in their order. */
static void place_constants(Packer *p) {
    PlanBuilder *b = p->b;
    PlanConstant *old = b->constants.items;
    const size_t old_size = b->constants.capacity * sizeof *old;
    const PlanConstant **of = ARENA_ARRAY(p->within, const PlanConstant *, b->values.count + 1);
    uint32_t *placed = ARENA_ARRAY(p->within, uint32_t, b->constants.count + 1); /* 1 + value */
    for (uint32_t i = 0; i < b->values.count; i++)
        if (b->values.items[i].data != PLAN_NO_DATA)
            of[i] = plan_constant_of(b, &b->values.items[i]);
    memset(&b->constants, 0, sizeof b->constants);
    b->data_size = 0;
    for (uint32_t i = 0; i < b->values.count; i++) {
        if (!of[i]) continue;
        uint32_t *owner = &placed[of[i] - old];
        if (*owner) {
            plan_share_data(b, i, *owner - 1);
            continue;
        }
        *owner = i + 1;
        place_constant(p, i, of[i]);
    }
    arena_release(b->arena, old, old_size);
}

bool plan_pack(PlanBuilder *b, Err *err) {
    if (b->isa == PLAN_ISA_NONE && !b->maps) return true;
    Arena *within = arena_child(b->arena);
    Packer *p = ARENA_NEW(within, Packer);
    p->b = b;
    p->within = within;
    const bool asks = b->isa != PLAN_ISA_NONE && has_large(b); /* small ones stay as they are */
    if (asks) p->requests = ARENA_ARRAY(within, PackRequest, b->values.count + 1);
    arena_defer(within, packer_free, p);
    const bool ok = !asks || ask(p, err);
    if (ok) place_constants(p);
    arena_free(within);
    return ok;
}
