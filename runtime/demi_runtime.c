// SPDX-License-Identifier: Apache-2.0
/* The runtime's front: handles, traps for out-of-memory, and what callers see of values. Everything
 * behind is written as if small allocations succeed; here the jump ends. */
#define _DEFAULT_SOURCE /* sysconf */
#include "demi_runtime.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "carry.h"
#include "checked.h"
#include "context.h"
#include "onednn.h"
#include "plan_own.h"
#include "exec_device.h"
#include "exec_here.h"
#include "exec_record.h"
#include "exec_memory.h"
#include "input_use.h"
#include "processors.h"
#include "step_cost.h"
#include "step_specialization.h"
#include "step_replace.h"
#include "step_share.h"

/* ---- plans ----------------------------------------------------------------------------------- */

static DemiPlanIo io_of(DemiPlan *plan, uint32_t number) {
    const Plan *view = &plan->loaded.plan;
    const PlanValue *value = &view->values[number];
    DemiPlanIo io = DEMI_PLAN_IO_INIT;
    io.name = plan_text(view, value->name, &plan->arena);
    bool sequence = value->kind == PLAN_SEQUENCE || value->kind == PLAN_OPTIONAL_SEQUENCE;
    io.kind = sequence ? DEMI_DATA_SEQUENCE_KIND : DEMI_DATA_TENSOR_KIND;
    io.optional = value->kind == PLAN_OPTIONAL || value->kind == PLAN_OPTIONAL_SEQUENCE;
    io.dtype = value->dtype;
    if (value->rank == PLAN_NONE) return io;
    int64_t *dims = ARENA_ARRAY(&plan->arena, int64_t, value->rank + 1);
    const char **names = ARENA_ARRAY(&plan->arena, const char *, value->rank + 1);
    for (uint32_t i = 0; i < value->rank; i++) {
        int64_t dim = view->numbers[value->dims + i];
        dims[i] = dim < 0 ? -1 : dim;
        const char *name = dim <= -2 ? plan_text(view, (uint32_t)(-2 - dim), &plan->arena) : "";
        if (name[0]) names[i] = name;
    }
    io.dim_names = names;
    io.has_rank = true;
    io.rank = value->rank;
    io.dims = dims;
    return io;
}

static void note_defaults(DemiPlan *plan) {
    const Plan *view = &plan->loaded.plan;
    PlanSpan defaults = view->graphs[0].defaults;
    for (uint32_t i = 0; i < defaults.count; i++)
        plan->inputs[i].has_default = view->operands[defaults.first + i] != PLAN_NONE;
}

static DemiPlanIo *ios_of(DemiPlan *plan, PlanSpan span, size_t *count) {
    DemiPlanIo *list = ARENA_ARRAY(&plan->arena, DemiPlanIo, span.count);
    for (uint32_t i = 0; i < span.count; i++)
        list[i] = io_of(plan, plan->loaded.plan.operands[span.first + i]);
    *count = span.count;
    return list;
}

static int compare_names(const void *a, const void *b) {
    return strcmp((*(const DemiPlanIo *const *)a)->name, (*(const DemiPlanIo *const *)b)->name);
}

static const DemiPlanIo **by_name(DemiPlan *plan, const DemiPlanIo *list, size_t count) {
    const DemiPlanIo **sorted = ARENA_ARRAY(&plan->arena, const DemiPlanIo *, count);
    for (size_t i = 0; i < count; i++) sorted[i] = &list[i];
    if (count) qsort(sorted, count, sizeof *sorted, compare_names);
    return sorted;
}

/* `end`: of the files behind it, or of itself. */
static bool open_plan(DemiPlan *plan, const void *bytes, size_t size, size_t end, Err *err) {
    Arena scratch;
    MemTrap trap;
    if (setjmp(trap.env)) {
        arena_free(&scratch);
        return err_out_of_memory(err);
    }
    arena_init(&scratch, &trap);
    arena_init(&plan->arena, &trap);
    bool ok = plan_check_here(&plan->loaded.plan, bytes, size, end, &scratch, err);
    if (ok && plan->loaded.plan.header->kernels != kernel_table_version()) {
        ok = err_set(err, ERR_MODEL, "the plan was made by another version of demi");
        err_hint(err, "compile it again");
    }
    ok = ok && plan_load(&plan->loaded, &plan->arena, err);
    if (ok && (!(plan->loaded.share = plan_share_new(NULL, plan->loaded.plan.value_count)) ||
               !(plan->devices = plan_devices_new())))
        ok = err_out_of_memory(err);
    if (ok) {
        const PlanGraph *main = &plan->loaded.plan.graphs[0];
        plan->inputs = ios_of(plan, main->inputs, &plan->input_count);
        plan->outputs = ios_of(plan, main->outputs, &plan->output_count);
        plan->inputs_by_name = by_name(plan, plan->inputs, plan->input_count);
        plan->outputs_by_name = by_name(plan, plan->outputs, plan->output_count);
        note_defaults(plan);
    }
    arena_free(&scratch);
    return ok;
}

/* `file` holds the bytes, and files that lie behind them, or is NULL; it is taken over. */
static DemiStatus make_plan(const void *bytes, size_t size, PlanFile *file, DemiPlan **plan,
                            Err *err, DemiError *error) {
    DemiPlan *made = calloc(1, sizeof *made);
    *plan = NULL;
    if (made) atomic_init(&made->holders, 1);
    if (!made) {
        err_out_of_memory(err);
    } else if ((uintptr_t)bytes % PLAN_ALIGN) {
        err_set(err, ERR_USAGE, "the plan's memory is not aligned to %d bytes", PLAN_ALIGN);
    } else {
        made->bytes = bytes;
        made->size = size;
        made->loaded.changes = file && file->mapped;
        made->loaded.file = &made->file;
        open_plan(made, bytes, size, file ? file->size : size, err);
    }
    if (made && file)
        made->file = *file;
    else if (file)
        plan_file_close(file);
    if (err->code == ERR_NONE)
        *plan = made;
    else
        demi_plan_free(made);
    return context_end(err, error);
}

DemiStatus demi_plan_from_memory(const void *bytes, size_t size, DemiPlan **plan,
                                 DemiError *error) {
    Err err = {0};
    return make_plan(bytes, size, NULL, plan, &err, error);
}

static DemiStatus open_file(const char *path, bool copy, DemiPlan **plan, DemiError *error) {
    Err err = {0};
    PlanFile file;
    *plan = NULL;
    err_file(&err, path);
    if (!plan_file_open(&file, path, copy, &err)) return context_end(&err, error);
    return make_plan(file.bytes, file.size, &file, plan, &err, error);
}

DemiStatus demi_plan_own(PlanRoom *room, DemiPlan **plan, DemiError *error) {
    Err err = {0};
    DemiStatus status = make_plan(room->file.bytes, room->written, &room->file, plan, &err, error);
    *room = (PlanRoom){.room = 0};
    return status;
}

const DemiPlan *demi_context_plan(const DemiContext *context) {
    return context->plan;
}

DemiStatus demi_plan_load(const char *path, DemiPlan **plan, DemiError *error) {
    return open_file(path, false, plan, error);
}

DemiStatus demi_plan_read(const char *path, DemiPlan **plan, DemiError *error) {
    return open_file(path, true, plan, error);
}

DemiStatus demi_plan_verify(const DemiPlan *plan, DemiError *error) {
    Err err = {0};
    plan_check_sum(plan->bytes, plan->size, &err);
    return context_end(&err, error);
}

/* Nothing else of a plan ever changes, so that whoever has one may hold it. */
static DemiPlan *plan_holder(const DemiPlan *plan) {
    return (DemiPlan *)(uintptr_t)plan;
}

void demi_plan_free(DemiPlan *plan) {
    if (!plan || atomic_fetch_sub(&plan->holders, 1) > 1) return;
    plan_devices_free(plan->devices);
    plan_share_free(plan->loaded.share);
    arena_free(&plan->arena);
    plan_file_close(&plan->file);
    free(plan);
}

void demi_plan_source(const DemiPlan *plan, uint64_t hash[2]) {
    for (int i = 0; i < 2; i++) hash[i] = plan->loaded.plan.header->source[i];
}

size_t demi_plan_input_count(const DemiPlan *plan) {
    return plan->input_count;
}
size_t demi_plan_output_count(const DemiPlan *plan) {
    return plan->output_count;
}

static bool give_io(const DemiPlanIo *list, size_t count, size_t i, DemiPlanIo *io) {
    if (i >= count) return false;
    uint32_t size = io->size;
    memcpy(io, &list[i], size < sizeof *io ? size : sizeof *io);
    io->size = size;
    return true;
}

bool demi_plan_input(const DemiPlan *plan, size_t i, DemiPlanIo *io) {
    return give_io(plan->inputs, plan->input_count, i, io);
}
bool demi_plan_output(const DemiPlan *plan, size_t i, DemiPlanIo *io) {
    return give_io(plan->outputs, plan->output_count, i, io);
}

const LoadedPlan *demi_plan_loaded(const DemiPlan *plan) {
    return &plan->loaded;
}

/* ---- contexts -------------------------------------------------------------------------------- */

static uint64_t default_budget(void) {
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGE_SIZE);
    if (pages <= 0 || size <= 0) return UINT64_C(1) << 33;
    return (uint64_t)pages * (uint64_t)size / 4 * 3;
}

static Allocator allocator_of(const DemiAllocator *given) {
    if (!given) return (Allocator){0};
    return (Allocator){given->allocate, given->release, given->user};
}

static void context_fill(DemiContext *context, const DemiContextOptions *options) {
    Exec *exec = &context->exec;
    const uint64_t budget = options->memory_budget ? options->memory_budget : default_budget();
    const LoadedPlan *loaded = &context->plan->loaded;
    if (options->device && strcmp(options->device, "cpu") != 0)
        loaded = plan_devices_get(context->plan->devices, loaded, options->device, &context->err);
    const PoolFrom from = {budget, allocator_of(options->allocator)};
    if (!loaded || !exec_init(exec, loaded, &from, &context->arena, &context->err)) return;
    const ExecDeviceOptions device = {.config = {options->device_stream, options->tf32},
                                      .memory = options->device_memory ? options->device_memory
                                                                       : UINT64_MAX,
                                      .steps = options->device_steps,
                                      .declined = &exec_here};
    if (loaded->device && !exec_device_init(exec, &device)) return;
    exec->options.workers =
        workers_new(&context->arena, options->threads ? options->threads : processors_usable());
    exec->options.provider = (KernelProvider)options->kernels;
    exec->options.small = options->small;
    const PlanHeader *header = context->plan->loaded.plan.header;
    exec->options.tuned = header->tuned == plan_isa_here() && !options->small &&
                          header->threads == workers_lanes(exec->options.workers) &&
                          exec->options.provider == KERNEL_PROVIDER_AUTO;
    exec->progress.seed = options->seed;
    if (options->step_limit) exec->options.step_limit = options->step_limit;
    context->time_limit = options->time_limit;
    context->end.go_on = options->go_on;
    context->end.user = options->go_on_user;
    exec->options.end = &context->end;
    workers_set_end(exec->options.workers, &context->end);
    context->inputs = ARENA_ARRAY(&context->arena, RtValue, context->plan->input_count);
    context->used = ARENA_ARRAY(&context->arena, RtValue, context->plan->input_count);
    context->outputs = ARENA_ARRAY(&context->arena, DemiData, context->plan->output_count);
}

_Static_assert((int)DEMI_KERNELS_OWN == (int)KERNEL_PROVIDER_OWN &&
                   (int)DEMI_KERNELS_ONEDNN == (int)KERNEL_PROVIDER_ONEDNN,
               "they are one choice");

const char *demi_onednn_version(DemiError *error) {
    Err err = {0};
    const char *version = onednn_version();
    if (version) return version;
    err_set(&err, ERR_ENV, "%s", onednn_problem());
    context_end(&err, error);
    return NULL;
}

DemiStatus demi_context_new(const DemiPlan *plan, const DemiContextOptions *given,
                            DemiContext **context, DemiError *error) {
    DemiContextOptions options = DEMI_CONTEXT_OPTIONS_INIT;
    Err err = {0};
    MemTrap trap;
    *context = NULL;
    if (given) memcpy(&options, given, given->size < sizeof options ? given->size : sizeof options);
    if ((unsigned)options.kernels >= KERNEL_PROVIDER_COUNT) {
        err_set(&err, ERR_USAGE, "kernels is %d", (int)options.kernels);
        return context_end(&err, error);
    }
    if (options.allocator && (!options.allocator->allocate || !options.allocator->release)) {
        err_set(&err, ERR_USAGE, "an allocator without functions");
        return context_end(&err, error);
    }
    DemiContext *volatile made = calloc(1, sizeof *made);
    if (!made) {
        err_out_of_memory(&err);
        return context_end(&err, error);
    }
    made->plan = plan;
    atomic_fetch_add(&plan_holder(plan)->holders, 1);
    if (setjmp(trap.env)) {
        err_out_of_memory(&made->err);
    } else {
        arena_init(&made->arena, &trap);
        context_fill(made, &options);
    }
    err = made->err;
    if (err.code == ERR_NONE)
        *context = made;
    else
        demi_context_free(made);
    return context_end(&err, error);
}

void demi_context_free(DemiContext *context) {
    if (!context) return;
    exec_free(&context->exec);
    arena_free(&context->result);
    arena_free(&context->arena);
    demi_plan_free(plan_holder(context->plan));
    free(context);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* A copy of strings. Their text lies behind them in the same memory, and ends with it. */
static RtTensor *copy_strings(Pool *pool, const KernelTensor *from, Err *err) {
    const KernelString *strings = from->data;
    uint64_t size;
    bool fits = checked_mul(from->count, sizeof *strings, &size);
    for (uint64_t i = 0; fits && i < from->count; i++)
        fits = checked_add(size, strings[i].size, &size);
    Buffer *buffer = buffer_new(pool, fits ? size : UINT64_MAX, err);
    if (!buffer) return NULL;
    KernelTensor to = *from;
    KernelString *copies = to.data = buffer_data(buffer);
    char *text = (char *)(copies + from->count);
    for (uint64_t i = 0; i < from->count; i++) {
        copies[i] = (KernelString){strings[i].size, text};
        if (strings[i].size) memcpy(text, strings[i].text, strings[i].size);
        text += strings[i].size;
    }
    return rt_tensor_in(pool, &to, buffer, err);
}

/* Whether there is memory for what is said to be there. */
static bool has_elements(const KernelTensor *tensor) {
    const KernelString *strings = tensor->data;
    if (!tensor->data || tensor->dtype != DTYPE_STRING) return tensor->data;
    for (uint64_t i = 0; i < tensor->count; i++)
        if (strings[i].size && !strings[i].text) return false;
    return true;
}

static RtTensor *take_tensor(DemiContext *context, const DemiData *value, bool borrow, Err *err) {
    Dtype dtype = (Dtype)value->dtype;
    Pool *pool = &context->exec.pool;
    KernelTensor view = {.present = true,
                         .dtype = dtype,
                         .rank = value->rank,
                         .dims = value->dims,
                         .data = (void *)(uintptr_t)value->data};
    if (!kernel_element_size(dtype) || !checked_count(value->dims, value->rank, &view.count)) {
        err_set(err, ERR_USAGE, "a tensor with an invalid type or shape");
        return NULL;
    }
    if (view.count && !has_elements(&view)) {
        err_set(err, ERR_USAGE, "a tensor without memory");
        return NULL;
    }
    if (borrow) return rt_tensor_borrow(pool, &view, err);
    if (dtype == DTYPE_STRING) return copy_strings(pool, &view, err);
    RtTensor *tensor = rt_tensor_new(pool, dtype, value->rank, value->dims, err);
    if (tensor && view.count)
        memcpy(tensor->tensor.data, value->data, view.count * kernel_element_size(dtype));
    return tensor;
}

static bool take_value(DemiContext *context, const DemiData *value, bool borrow, RtValue *taken,
                       Err *err) {
    *taken = (RtValue){.state = RT_NONE};
    if (value->kind == DEMI_DATA_NONE) return true;
    if (value->kind == DEMI_DATA_TENSOR_KIND) {
        RtTensor *tensor = take_tensor(context, value, borrow, err);
        if (!tensor) return false;
        *taken = (RtValue){.state = RT_TENSOR, .tensor = tensor};
        return true;
    }
    if (value->count > UINT32_MAX) return err_set(err, ERR_USAGE, "the sequence is too long");
    RtList *list = rt_list_new(&context->exec.pool, (uint32_t)value->count, err);
    if (!list) return false;
    *taken = (RtValue){.state = RT_LIST, .list = list};
    for (uint32_t i = 0; i < list->count; i++) {
        const DemiData *item = &value->items[i];
        if (item->kind != DEMI_DATA_TENSOR_KIND)
            return err_set(err, ERR_USAGE, "item %u of the sequence is not a tensor", i);
        RtTensor *tensor = take_tensor(context, item, borrow, err);
        if (!tensor) return false;
        list->items[i] = (RtValue){.state = RT_TENSOR, .tensor = tensor};
    }
    return true;
}

static bool replace_input(DemiContext *context, size_t i, const DemiData *value, bool borrow,
                          Err *err) {
    RtValue taken = {.state = RT_UNSET};
    if (i == context->plan->input_count)
        return err_set(err, ERR_USAGE, "the model has no such input");
    if (!context_fits(&context->plan->inputs[i], value, err) ||
        !take_value(context, value, borrow, &taken, err)) {
        rt_value_clear(&taken);
        return false;
    }
    rt_value_set(&context->inputs[i], taken);
    return true;
}

static DemiStatus set_input(DemiContext *context, const char *name, const DemiData *value,
                            bool borrow, DemiError *error) {
    const DemiPlan *plan = context->plan;
    Err err = {0};
    size_t i = plan_find_input(plan, name);
    if (replace_input(context, i, value, borrow, &err))
        context_device_give(context, i, NULL);
    else
        err_operand(&err, "input '%s'", name);
    return context_end(&err, error);
}

DemiStatus demi_context_set_input(DemiContext *context, const char *name, const DemiData *value,
                                  DemiError *error) {
    return set_input(context, name, value, false, error);
}

DemiStatus demi_context_borrow_input(DemiContext *context, const char *name, const DemiData *value,
                                     DemiError *error) {
    return set_input(context, name, value, true, error);
}

DemiStatus demi_context_borrow_device_input(DemiContext *context, const char *name,
                                            const DemiData *value, DemiError *error) {
    const DemiPlan *plan = context->plan;
    const size_t i = plan_find_input(plan, name);
    Err err = {0};
    if (context_device_may_give(context, value, &err) &&
        replace_input(context, i, value, true, &err) &&
        !context_device_give(context, i, value->data)) {
        rt_value_clear(&context->inputs[i]);
        err_out_of_memory(&err);
    }
    if (err.code != ERR_NONE) err_operand(&err, "input '%s'", name);
    return context_end(&err, error);
}

DemiStatus demi_context_unset_input(DemiContext *context, const char *name, DemiError *error) {
    const size_t i = plan_find_input(context->plan, name);
    Err err = {0};
    if (i < context->plan->input_count) {
        rt_value_clear(&context->inputs[i]);
        context_device_give(context, i, NULL);
        return DEMI_OK;
    }
    err_set(&err, ERR_USAGE, "the model has no such input");
    err_operand(&err, "input '%s'", name);
    return context_end(&err, error);
}

/* ---- running --------------------------------------------------------------------------------- */

static bool bind_inputs(DemiContext *context) {
    const DemiPlan *plan = context->plan;
    const Plan *view = &context->exec.loaded->plan;
    PlanSpan defaults = view->graphs[0].defaults;
    for (uint32_t i = 0; i < plan->input_count; i++) {
        uint32_t other = defaults.count ? view->operands[defaults.first + i] : PLAN_NONE;
        if (context->inputs[i].state == RT_UNSET && other != PLAN_NONE)
            context->inputs[i] = rt_value_ref(context->exec.values[other]);
        if (context->inputs[i].state == RT_UNSET && !plan->inputs[i].optional) {
            err_set(&context->err, ERR_USAGE, "it is not set");
            err_operand(&context->err, "input '%s'", plan->inputs[i].name);
            return false;
        }
        uint32_t value = view->operands[view->graphs[0].inputs.first + i];
        RtValue bound = rt_value_ref(context->inputs[i]);
        if (bound.state == RT_UNSET) bound.state = RT_NONE;
        rt_value_set(&context->exec.values[value], bound);
        if (!context_device_fetch(context, i)) return false;
        /* outputs point into it until the next run, though it be set anew before */
        if (context_has_text(&bound)) context->used[i] = rt_value_ref(bound);
    }
    return true;
}

/* The last run's values, all but constants, and the text that they point to. */
static void clear_values(DemiContext *context) {
    Exec *exec = &context->exec;
    const LoadedPlan *loaded = exec->loaded;
    for (uint32_t i = 0; i < loaded->plan.value_count; i++)
        if (!loaded->constants[i].present) rt_value_clear(&exec->values[i]);
    for (size_t i = 0; i < context->plan->input_count; i++) rt_value_clear(&context->used[i]);
    exec_text_free(exec);
    arena_free(&context->result);
}

/* Of a run that has ended. */
static void collect(DemiContext *context) {
    if (context_collect(context) && !context_carry_on(context)) context->output_count = 0;
}

/* With memory at hand for small things; what jumps lands in the caller. */
static void run(DemiContext *context) {
    Exec *exec = &context->exec;
    /* what other shapes left behind: the shapes of now may never ask for it */
    if (exec->pool.kept > 2 * exec->pool.peak + (1 << 20)) pool_trim(&exec->pool);
    exec->pool.peak = exec->pool.used;
    if (exec->device.queue && !exec->loaded->device->kind->ready(exec->device.queue, &context->err))
        return;
    if (!bind_inputs(context) || !context_carried_fit(context)) return;
    if (!exec->again)
        exec_memory_begin(exec);
    else if (!exec->again->begin(exec->again->data)) /* values live longer than places are for */
        return;
    bool ok = exec->device.queue ? exec_record_run(exec) : exec_graph(exec, 0);
    if (exec->device.queue) ok = context_device_end(context, ok);
    if (ok && !exec->device.flies) collect(context);
}

/* False where the run was not ended. Else that is the error, whatever what it was ended in says, and
 * the step is named that had begun. */
static bool say_end(DemiContext *context) {
    Exec *exec = &context->exec;
    if (!run_end_seen(&context->end)) return false;
    context->err = (Err){0};
    run_end_fail(&context->end, &context->err);
    if (exec->progress.step) exec_name_step(exec, exec->progress.step);
    return true;
}

void demi_context_seed(DemiContext *context, uint64_t seed) {
    context->exec.progress.seed = seed;
}

/* `waits`: until the device has done it. */
static DemiStatus run_once(DemiContext *context, bool waits, DemiError *error) {
    Exec *exec = &context->exec;
    MemTrap trap;
    if (exec_device_works(exec)) exec_device_wait(exec); /* and forget */
    context->err = (Err){0};
    context->output_count = 0;
    context->starts = !waits;
    exec->progress.depth = 0;
    exec->progress.steps = 0;
    exec->progress.step = NULL;
    run_end_begin(&context->end, context->time_limit, &trap);
    clear_values(context);
    if (setjmp(trap.env)) {
        if (!say_end(context)) err_out_of_memory(&context->err);
        step_specialization_drop(exec);
        exec_drop_results(exec);
        if (exec->device.queue) exec_record_abandon(exec);
    } else {
        arena_init(&exec->scratch, &trap);
        arena_init(&context->result, &trap);
        exec->scratch.budget = context->result.budget = exec->pool.budget;
        run(context);
        if (context->err.code != ERR_NONE) say_end(context);
    }
    exec_memory_end(exec, context->err.code == ERR_NONE);
    arena_free(&exec->scratch);
    return context_end(&context->err, error);
}

DemiStatus demi_context_run(DemiContext *context, DemiError *error) {
    return run_once(context, true, error);
}

DemiStatus demi_context_start(DemiContext *context, DemiError *error) {
    return run_once(context, false, error);
}

DemiStatus demi_context_wait(DemiContext *context, DemiError *error) {
    Exec *exec = &context->exec;
    MemTrap trap;
    if (!exec->device.flies) return DEMI_OK;
    context->err = (Err){0};
    if (setjmp(trap.env)) {
        context->output_count = 0;
        err_out_of_memory(&context->err);
    } else {
        context->result.trap = context->arena.trap = &trap;
        if (exec_device_wait(exec)) collect(context);
    }
    return context_end(&context->err, error);
}

void demi_context_cancel(DemiContext *context) {
    atomic_store(&context->end.cancel, true);
}

uint64_t demi_context_peak(const DemiContext *context) {
    return context->exec.pool.peak;
}

uint64_t demi_context_held(const DemiContext *context) {
    return context->exec.pool.used + context->exec.pool.kept;
}

void demi_context_trim(DemiContext *context) {
    Exec *exec = &context->exec;
    if (exec_device_works(exec)) exec_device_wait(exec);
    context->output_count = 0;
    clear_values(context);
    exec_memory_trim(exec);
    pool_trim(&exec->pool);
    pool_trim(&exec->device.pool);
}

void demi_context_set_budget(DemiContext *context, uint64_t bytes) {
    context->exec.pool.budget = bytes ? bytes : default_budget();
}

uint64_t demi_context_budget(const DemiContext *context) {
    return context->exec.pool.budget;
}

bool demi_context_device_counts(const DemiContext *context, DemiDeviceCounts *counts) {
    const DeviceQueue *queue = context->exec.device.queue;
    const size_t size = counts->size < sizeof *counts ? counts->size : sizeof *counts;
    DemiDeviceCounts made = {.size = (uint32_t)size};
    if (queue) {
        const DeviceCounts *have = &queue->counts;
        made.launches = have->launches;
        made.bytes = have->bytes;
        made.uploads = have->uploads;
        made.downloads = have->downloads;
        made.upload_bytes = have->upload_bytes;
        made.download_bytes = have->download_bytes;
        made.replays = have->replays;
        made.tf32 = have->tf32;
        made.declined = have->declined;
        made.without = have->without;
        made.memory = context->exec.device.pool.used + context->exec.device.pool.kept;
        made.memory_peak = context->exec.device.pool.peak;
    }
    memcpy(counts, &made, size);
    return queue != NULL;
}

/* ---- watching -------------------------------------------------------------------------------- */

typedef struct Watched {
    const char **names;
    DemiData *values;
    size_t count;
} Watched;

static Watched watched(DemiContext *context, const uint32_t *numbers, uint32_t count) {
    Arena *arena = &context->exec.scratch; /* emptied after the step */
    Watched w = {ARENA_ARRAY(arena, const char *, count), ARENA_ARRAY(arena, DemiData, count),
                 count};
    for (uint32_t i = 0; i < count; i++) {
        bool none = numbers[i] == PLAN_NONE;
        w.names[i] = none ? "" : context->names[numbers[i]];
        w.values[i] = (DemiData)DEMI_DATA_INIT;
        if (none) continue;
        const RtValue *value = &context->exec.values[numbers[i]];
        w.values[i] = context_give(arena, value);
        if (exec_is_remote(&context->exec, numbers[i]) ||
            (context->owned.there && context->owned.there[numbers[i]].data))
            w.values[i].data = exec_record_fetch(&context->exec, value->tensor, arena);
        if (value->state == RT_TENSOR && value->tensor->tensor.room) {
            const KernelTensor *tensor = &value->tensor->tensor;
            void *plain = arena_alloc(arena, tensor->count * kernel_element_size(tensor->dtype));
            carry_copy(plain, tensor);
            w.values[i].data = plain;
        }
        if (!context->exec.loaded->layouts[numbers[i]]) continue;
        w.values[i].data = step_plain(&context->plan->loaded, numbers[i]);
        if (!w.values[i].data) arena_exhausted(arena);
    }
    return w;
}

static void after_step(void *data, const LoadedStep *loaded, double start, double seconds) {
    DemiContext *context = data;
    const LoadedPlan *plan = context->exec.loaded;
    Watched in = watched(context, loaded->inputs, loaded->plan->inputs.count);
    Watched out = watched(context, loaded->outputs, loaded->plan->outputs.count);
    DemiStep step = {.size = sizeof step,
                     .number = (uint32_t)(loaded - plan->steps),
                     .depth = context->exec.progress.depth - 1,
                     .name = loaded->name,
                     .domain = loaded->domain,
                     .op_type = loaded->op,
                     .kernel = "",
                     .start = start,
                     .seconds = seconds,
                     .input_count = in.count,
                     .output_count = out.count,
                     .input_names = in.names,
                     .inputs = in.values,
                     .output_names = out.names,
                     .outputs = out.values};
    step.multiplications = step_multiplications(&step, loaded->kernel_attrs);
    if (!loaded->exec && context->exec.progress.row) step.kernel = context->exec.progress.row->name;
    context->watched = loaded;
    context->watch(context->watch_user, &step);
    context->watched = NULL;
}

bool step_replace(DemiContext *context, uint32_t output, const DemiData *value, Err *err) {
    const LoadedStep *step = context->watched;
    RtValue taken = {.state = RT_UNSET};
    if (!step || output >= step->plan->outputs.count || step->outputs[output] == PLAN_NONE)
        return true;
    if (!take_value(context, value, false, &taken, err)) {
        rt_value_clear(&taken);
        return false;
    }
    rt_value_set(&context->exec.values[step->outputs[output]], taken);
    return true;
}

static void make_names(DemiContext *context) {
    const Plan *plan = &context->exec.loaded->plan;
    const char **names = ARENA_ARRAY(&context->arena, const char *, plan->value_count);
    for (uint32_t i = 0; i < plan->value_count; i++)
        names[i] = plan_text(plan, plan->values[i].name, &context->arena);
    context->names = names;
}

DemiStatus demi_context_watch(DemiContext *context, DemiStepFn step, void *user, DemiError *error) {
    Err err = {0};
    MemTrap trap;
    exec_memory_forget(&context->exec); /* watched steps never work in place */
    if (setjmp(trap.env)) {
        err_out_of_memory(&err);
        return context_end(&err, error);
    }
    context->arena.trap = &trap;
    if (step && !context->names) make_names(context);
    context->watch = step;
    context->watch_user = user;
    context->exec.options.after = step ? after_step : NULL;
    context->exec.options.keeps_values = step != NULL; /* it sees inputs as they were */
    context->exec.options.after_data = context;
    return DEMI_OK;
}
