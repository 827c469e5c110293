// SPDX-License-Identifier: Apache-2.0
/* Steps that are run one by one on a device that is only described; see place_declined.h. Dims that are
 * open are once this and once that: what is declined in both cases is declined whatever they are. */
#include "place_declined.h"

#include "checked.h"
#include "exec_device.h"
#include "step_call.h"

enum { MOST_AXES = 16 };

typedef struct Asking {
    LoadedPlan loaded;
    Exec exec;
    LayoutNotes notes;
    Err err; /* of a step that can't be asked */
} Asking;

static void end(void *data) {
    Asking *a = data;
    Device *device = a->loaded.device;
    exec_free(&a->exec);
    if (device) device->kind->close(device);
}

/* Where the processor is to compute a step, which is all that is to be found out. */
static bool run_nowhere(Exec *exec, const LoadedStep *step, uint64_t seed) {
    (void)exec, (void)step, (void)seed;
    return false;
}
static void free_nothing(Exec *exec) {
    (void)exec;
}
static const DeclinedSteps nowhere = {run_nowhere, free_nothing};

static bool begin(Asking *a, const StepPlacement *placement, const DeviceKind *kind, Arena *arena) {
    const PoolFrom unbounded = {.budget = UINT64_MAX};
    const ExecDeviceOptions options = {.memory = UINT64_MAX, .steps = true, .declined = &nowhere};
    LoadedPlan *loaded = &a->loaded;
    loaded->plan = placement->plan;
    loaded->remote = placement->remote;
    loaded->reasons = placement->reasons;
    loaded->origins = placement->origins;
    arena_defer(arena, end, a);
    loaded->device = kind->described->open(0, &a->err);
    if (!loaded->device || !plan_load(loaded, arena, &a->err) ||
        !exec_init(&a->exec, loaded, &unbounded, arena, &a->err) ||
        !exec_device_init(&a->exec, &options))
        return false;
    a->notes.cpu = isa_here();
    a->exec.options.notes = &a->notes;
    a->exec.options.keeps_values = true;
    return true;
}

/* An operand of the plan's dims without elements, where no step has made it. */
static bool set_operand(Asking *a, uint32_t number, int64_t open) {
    const Plan *plan = &a->loaded.plan;
    const PlanValue *value = &plan->values[number];
    RtValue *to = &a->exec.values[number];
    int64_t dims[MOST_AXES];
    if (to->state == RT_TENSOR) return true;
    if (value->kind != PLAN_TENSOR || value->rank > MOST_AXES ||
        !kernel_element_size((Dtype)value->dtype))
        return false;
    KernelTensor tensor = {
        .present = true, .dtype = (Dtype)value->dtype, .rank = value->rank, .dims = dims};
    for (uint32_t i = 0; i < value->rank; i++) {
        const int64_t dim = plan->numbers[value->dims + i];
        dims[i] = dim < 0 ? open : dim;
    }
    if (!checked_count(dims, tensor.rank, &tensor.count)) return false;
    RtTensor *made = rt_tensor_borrow(&a->exec.pool, &tensor, &a->err);
    if (made) *to = (RtValue){.state = RT_TENSOR, .tensor = made};
    return made;
}

/* What the processor reads has to be a constant: else there is nothing to be read. */
static bool set_operands(Asking *a, const LoadedStep *step, int64_t open) {
    for (uint32_t i = 0; i < step->plan->inputs.count; i++) {
        if (step->inputs[i] == PLAN_NONE) continue;
        for (size_t r = 0; r < step->row_count; r++)
            if (i < 32 && step->rows[r].host >> i & 1 && !step->constant[i]) return false;
        if (!set_operand(a, step->inputs[i], open)) return false;
    }
    return true;
}

static const char *ask(Asking *a, const LoadedStep *step, int64_t open) {
    const StepMemo *memo = &a->exec.forms.memos[step - a->loaded.steps];
    if (!step->device || step->exec || !set_operands(a, step, open)) return NULL;
    exec_kernel(&a->exec, step);
    arena_free(&a->exec.scratch);
    a->err = (Err){0};
    return memo->forms ? memo->forms->declined : NULL;
}

const char *const *place_declined(const StepPlacement *placement, const DeviceKind *kind,
                                  Arena *arena) {
    static const int64_t sizes[] = {1, 64};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    const uint32_t count = placement->plan.step_count;
    const char **reasons = ARENA_ARRAY(arena, const char *, count);
    for (int k = 0; k < SIZES; k++) {
        Asking *a = ARENA_NEW(arena, Asking);
        const bool ready = begin(a, placement, kind, arena);
        for (uint32_t s = 0; s < count; s++) {
            const char *why = ready ? ask(a, &a->loaded.steps[s], sizes[k]) : NULL;
            reasons[s] = k && !reasons[s] ? NULL : why;
        }
    }
    return reasons;
}
