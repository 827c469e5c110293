// SPDX-License-Identifier: Apache-2.0
/* Constants of a plan that is being made: steps whose operands are all constant are executed now, by
 * the kernels that would execute them in every run, and their results stored instead. That goes for
 * steps in bodies of If and Loop, too: constants belong to no graph.
 *
 * Left alone are steps that hold graphs or make anything but tensors of numbers, those that differ
 * from run to run, those that fail, and those whose results are more than twice their operands (or
 * all constants there are) and 1 MiB: such are cheaper to make than to read. All results together
 * are at most twice the constants of the model and 8 MiB, or what the builder's budget leaves; that
 * is counted before a step runs, as many small results would be as much as a large one; a result
 * that only such steps read goes when the last of them has run. What no step reads any more is
 * dropped from the plan.
 *
 * Left alone, too, are steps whose operators' work grows faster than their operands (OpWork), where it
 * may be beyond what is left of FOLD_WORK multiply-adds for all of them, a second or some: a megabyte
 * of constants can ask for hours. It is a bound from the operands' sizes, the same on every machine.
 *
 * A cast to float of what is 16 bit is not computed but declared: its result is the same data, in
 * the plan once, and the runtime widens it where it is read.
 */
#include <string.h>

#include "attr_layout.h"
#include "checked.h"
#include "exec.h"
#include "op_record.h"
#include "processors.h"
#include "step_specialization.h"

enum { RESULT_FACTOR = 2, RESULT_BYTES = 1 << 20, TOTAL_BYTES = 8 << 20 };
static const double FOLD_WORK = 17179869184.0; /* 2^34 */
/* Steps that are executed together at least, and more where constants have more bytes for each. */
enum { BATCH_STEPS = 1024, BATCH_READ = 4096 };
enum { STEP_SHARE = 4, RESULT_SHARE = 1 + STEP_SHARE }; /* what a step needs besides a result */

typedef struct Fold {
    PlanBuilder *b;
    Arena *within; /* of what ends with folding */
    Err *err;
    bool *constant;  /* [value_count]: known now, if no step before fails */
    bool *read;      /* [value_count]: by a step that may be executed */
    uint32_t *steps; /* [step_count]: numbers of such steps, in the order they may run in */
    uint32_t step_count;
    bool *gone;       /* [builder's step count]: executed */
    uint32_t *alias;  /* [value_count]: the value that this one is in float; PLAN_NONE: of none */
    uint32_t *placed; /* [value_count]: the new value that has this one's data; PLAN_NONE: none */
    uint32_t *wanted; /* [value_count]: by how many operands of steps that are yet to be executed */
    bool *stays;      /* [value_count]: something else reads it */
    uint64_t left;    /* bytes that results may still have */
    double work_left; /* multiply-adds that steps may still take */
    uint32_t *numbers;          /* [value_count]: in the batch at hand; PLAN_NONE: not there */
    const KernelTensor **found; /* [value_count]: results; NULL: none */
    Workers *workers;
} Fold;

/* Some of the steps, as a plan of their own. What runs here may run out of memory at any place: this ends with
 * the builder's arena. Large results stay in its pool, and are read from it when the plan is written. */
typedef struct FoldRun {
    LoadedPlan loaded;
    Exec exec;
    Err err; /* of a step that fails: it will do so when the plan runs */
} FoldRun;

/* Its tables, in which values are numbered anew. */
typedef struct Batch {
    Arena *arena;
    FoldRun *run;
    uint32_t first, count; /* of Fold.steps */
    VEC(uint32_t) own;     /* the builder's number of each value */
    VEC(PlanValue) values;
    VEC(uint32_t) operands;
    VEC(PlanAttr) attrs;
} Batch;

static void run_free(void *data) {
    FoldRun *run = data;
    exec_free(&run->exec);
}

/* ---- what may be executed -------------------------------------------------------------------- */

/* NUL-terminated, as look-ups want it. */
static const char *text_of(const Fold *f, uint32_t text) {
    PlanSpan span = f->b->texts.items[text];
    return arena_copy(f->within, f->b->chars.items + span.first, span.count);
}

/* True where the operator is computed by kernels, which take and make tensors, and the same in each
 * run. */
static bool is_settled(const Fold *f, const PlanOp *op) {
    const char *domain = text_of(f, op->domain), *name = text_of(f, op->name);
    const OpRecord *record = op_record_find(domain, name);
    return !op_record_has(record, OP_RANDOM) && !op_record_has(record, OP_RANDOM_TRAINING) &&
           !exec_find(domain, name);
}

static bool may_execute(const Fold *f, const PlanStep *step) {
    const PlanBuilder *b = f->b;
    const PlanOp *op = &b->ops.items[step->op];
    bool any = false;
    for (uint32_t i = 0; i < step->inputs.count; i++) {
        uint32_t value = b->operands.items[step->inputs.first + i];
        if (value != PLAN_NONE && !f->constant[value]) return false;
    }
    for (uint32_t i = 0; i < step->outputs.count; i++) {
        uint32_t number = b->operands.items[step->outputs.first + i];
        if (number == PLAN_NONE) continue;
        const PlanValue *value = &b->values.items[number];
        if (value->kind != PLAN_TENSOR || value->dtype == DTYPE_STRING ||
            !kernel_element_size(value->dtype))
            return false;
        any = true;
    }
    return any && is_settled(f, op);
}

typedef void (*ValueVisitor)(uint32_t *value, uint32_t *numbers);

static void each_operand(PlanBuilder *b, PlanSpan span, ValueVisitor visit, uint32_t *numbers) {
    for (uint32_t i = 0; i < span.count; i++)
        if (b->operands.items[span.first + i] != PLAN_NONE)
            visit(&b->operands.items[span.first + i], numbers);
}

static void count_use(uint32_t *value, uint32_t *numbers) {
    numbers[*value]++;
}

/* Which values something reads that is not executed now. Inputs' defaults have data, and stay anyway. */
static void find_staying(Fold *f) {
    PlanBuilder *b = f->b;
    uint32_t *uses = ARENA_ARRAY(f->within, uint32_t, b->values.count);
    for (size_t s = 0; s < b->steps.count; s++) {
        const PlanStep *step = &b->steps.items[s];
        each_operand(b, step->inputs, count_use, uses);
        for (uint32_t i = 0; i < step->attrs.count; i++) {
            const PlanAttr *attr = &b->attrs.items[step->attrs.first + i];
            if (attr->kind == PLAIN_TENSOR) f->stays[attr->value] = true;
        }
    }
    for (size_t g = 0; g < b->graphs.count; g++)
        each_operand(b, b->graphs.items[g].outputs, count_use, uses);
    for (uint32_t i = 0; i < f->step_count; i++)
        each_operand(b, b->steps.items[f->steps[i]].inputs, count_use, f->wanted);
    for (size_t i = 0; i < b->values.count; i++) f->stays[i] |= uses[i] > f->wanted[i];
}

/* The step may be executed: what it gives counts as known from here on. */
static void add_step(Fold *f, uint32_t number) {
    const PlanBuilder *b = f->b;
    const PlanStep *step = &b->steps.items[number];
    f->steps[f->step_count++] = number;
    for (uint32_t i = 0; i < step->inputs.count + step->outputs.count; i++) {
        bool input = i < step->inputs.count;
        uint32_t at = input ? step->inputs.first + i : step->outputs.first + i - step->inputs.count;
        uint32_t value = b->operands.items[at];
        if (value != PLAN_NONE) *(input ? &f->read[value] : &f->constant[value]) = true;
    }
    for (uint32_t i = 0; i < step->attrs.count; i++) {
        const PlanAttr *attr = &b->attrs.items[step->attrs.first + i];
        if (attr->kind == PLAIN_TENSOR) f->read[attr->value] = true;
    }
}

/* A graph has a higher number than the one around it, whose values it may read. */
static void find_steps(Fold *f) {
    const PlanBuilder *b = f->b;
    for (size_t i = 0; i < b->values.count; i++) {
        f->constant[i] = b->values.items[i].data != PLAN_NO_DATA;
        f->alias[i] = f->placed[i] = f->numbers[i] = PLAN_NONE;
    }
    for (size_t g = 0; g < b->graphs.count; g++) {
        PlanSpan steps = b->graphs.items[g].steps;
        for (uint32_t s = steps.first; s < steps.first + steps.count; s++)
            if (may_execute(f, &b->steps.items[s])) add_step(f, s);
    }
}

/* ---- executing them -------------------------------------------------------------------------- */

/* Bytes of the constants that are read. */
static uint64_t constants_size(const Fold *f) {
    uint64_t total = 0;
    for (size_t i = 0; i < f->b->values.count; i++)
        if (f->read[i] && f->b->values.items[i].data != PLAN_NO_DATA)
            total += f->b->values.items[i].size + PLAN_ALIGN;
    return total;
}

/* The batch's number of a value of the builder. */
static uint32_t number_in(Fold *f, Batch *batch, uint32_t value) {
    if (value == PLAN_NONE) return PLAN_NONE;
    if (f->numbers[value] == PLAN_NONE) {
        f->numbers[value] = (uint32_t)batch->own.count;
        VEC_PUSH(batch->arena, &batch->own, value);
        VEC_PUSH(batch->arena, &batch->values, f->b->values.items[value]);
    }
    return f->numbers[value];
}

static PlanSpan add_span(Fold *f, Batch *batch, PlanSpan span) {
    const uint32_t first = (uint32_t)batch->operands.count;
    for (uint32_t i = 0; i < span.count; i++)
        VEC_PUSH(batch->arena, &batch->operands,
                 number_in(f, batch, f->b->operands.items[span.first + i]));
    return (PlanSpan){first, span.count};
}

static PlanSpan add_attrs(Fold *f, Batch *batch, PlanSpan span) {
    const uint32_t first = (uint32_t)batch->attrs.count;
    for (uint32_t i = 0; i < span.count; i++) {
        PlanAttr attr = f->b->attrs.items[span.first + i];
        if (attr.kind == PLAIN_TENSOR) attr.value = number_in(f, batch, (uint32_t)attr.value);
        if (attr.kind == PLAIN_TEXTS) {
            const uint32_t *texts = f->b->operands.items + attr.value;
            attr.value = (int64_t)batch->operands.count;
            for (uint32_t k = 0; k < attr.count; k++)
                VEC_PUSH(batch->arena, &batch->operands, texts[k]);
        }
        VEC_PUSH(batch->arena, &batch->attrs, attr);
    }
    return (PlanSpan){first, span.count};
}

/* The data of constants, and where it lies. */
static bool read_constants(Fold *f, Batch *batch, const unsigned char **data) {
    PlanValue *values = batch->values.items;
    uint64_t total = PLAN_ALIGN, at = 0;
    for (size_t i = 0; i < batch->values.count; i++)
        if (values[i].data != PLAN_NO_DATA) total += values[i].size + PLAN_ALIGN;
    unsigned char *memory = arena_alloc(batch->arena, (size_t)total);
    memory += -(uintptr_t)memory % PLAN_ALIGN;
    for (size_t i = 0; i < batch->values.count; i++) {
        if (values[i].data == PLAN_NO_DATA) continue;
        const PlanConstant *constant = plan_constant_of(f->b, &values[i]);
        if (!constant->read(constant->data, 0, memory + at, constant->size, f->err)) return false;
        values[i].data = at;
        at += (constant->size + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
    }
    *data = memory;
    return true;
}

/* A plan of the batch's steps alone. Of the builder's tables it has texts and numbers. */
static bool load_steps(Fold *f, Batch *batch) {
    LoadedPlan *loaded = &batch->run->loaded;
    PlanStep *steps = ARENA_ARRAY(batch->arena, PlanStep, batch->count);
    PlanGraph *graph = ARENA_NEW(batch->arena, PlanGraph);
    VEC_BEGIN(batch->arena, &batch->attrs);
    VEC_BEGIN(batch->arena, &batch->operands);
    for (uint32_t i = 0; i < batch->count; i++) {
        const PlanStep *from = &f->b->steps.items[f->steps[batch->first + i]];
        steps[i] = *from;
        steps[i].inputs = add_span(f, batch, from->inputs);
        steps[i].outputs = add_span(f, batch, from->outputs);
        steps[i].attrs = add_attrs(f, batch, from->attrs);
    }
    graph->steps.count = batch->count;
    Plan *plan = &loaded->plan;
    *plan = plan_of_builder(f->b);
    plan->values = batch->values.items;
    plan->operands = batch->operands.items;
    plan->attrs = batch->attrs.items;
    plan->graphs = graph;
    plan->steps = steps;
    plan->value_count = (uint32_t)batch->values.count;
    plan->graph_count = 1;
    plan->step_count = batch->count;
    return read_constants(f, batch, &plan->data) && plan_load(loaded, batch->arena, f->err);
}

static uint64_t bytes_of(const RtValue *value) {
    const KernelTensor *tensor = &value->tensor->tensor;
    return tensor->count * kernel_element_size(tensor->dtype);
}

/* Bytes that the step's results may have; false where an operand is not known after all. They are
 * held against all constants of the model, too: a chain of steps may double them again and
 * again. */
static bool allowed(const Fold *f, const Exec *exec, const LoadedStep *step, uint64_t *bytes) {
    uint64_t operands = 0;
    for (uint32_t i = 0; i < step->plan->inputs.count; i++) {
        if (step->inputs[i] == PLAN_NONE) continue;
        const RtValue *value = &exec->values[step->inputs[i]];
        if (value->state != RT_TENSOR) return false;
        operands += bytes_of(value);
    }
    if (operands > f->b->data_size) operands = f->b->data_size;
    *bytes = RESULT_FACTOR * operands + RESULT_BYTES;
    if (*bytes > f->left) *bytes = f->left;
    return true;
}

/* Product of dims [from, rank); 1 of no tensor. */
static double span_of(const KernelTensor *tensor, uint32_t from) {
    double span = 1;
    for (uint32_t i = from; tensor && i < tensor->rank; i++) span *= (double)tensor->dims[i];
    return span;
}

static const KernelTensor *operand_of(const Exec *exec, const LoadedStep *step, uint32_t i) {
    if (i >= step->plan->inputs.count || step->inputs[i] == PLAN_NONE) return NULL;
    return &exec->values[step->inputs[i]].tensor->tensor;
}

/* The smallest size that both have, at least 1: sums of products are along one of those. */
static double common_dim(const KernelTensor *a, const KernelTensor *b) {
    double common = 0;
    for (uint32_t i = 0; i < a->rank; i++)
        for (uint32_t k = 0; k < b->rank; k++)
            if (a->dims[i] == b->dims[k] && (common == 0 || (double)a->dims[i] < common))
                common = (double)a->dims[i];
    return common > 1 ? common : 1;
}

/* Of products of matrices: batches that both have are not multiplied with each other. */
static double matmul_work(const KernelTensor *a, const KernelTensor *b) {
    if (b->rank < 2) return span_of(a, 0);
    double shared = 1;
    for (uint32_t i = 3; i <= a->rank && i <= b->rank; i++)
        if (a->dims[a->rank - i] == b->dims[b->rank - i] && a->dims[a->rank - i])
            shared *= (double)a->dims[a->rank - i];
    const double batches = span_of(b, 0) / span_of(b, b->rank - 2);
    return span_of(a, 0) * (double)b->dims[b->rank - 1] * batches / shared;
}

/* Multiply-adds that the step takes at most, of known operands and results of so many bytes; 0 where
 * they are in proportion to these. */
static double most_work(const Exec *exec, const LoadedStep *step, uint64_t bytes) {
    const OpRecord *record = op_record_find(step->domain, step->op);
    const KernelTensor *a = operand_of(exec, step, 0);
    const KernelTensor *b = record ? operand_of(exec, step, record->weights) : NULL;
    double most = 0;
    if (!record || !a || !b) return 0;
    for (uint32_t i = 0; i < step->plan->inputs.count; i++) {
        const double count = span_of(operand_of(exec, step, i), 0);
        if (count > most) most = count;
    }
    switch ((OpWork)record->work) {
    case WORK_FEW:
    case WORK_MOVES: return 0;
    case WORK_MATMUL: return matmul_work(a, b);
    case WORK_GEMM: return span_of(a, 0) * span_of(b, 0) / common_dim(a, b);
    case WORK_CONV: return (double)bytes * span_of(b, 1);
    case WORK_DECONV: return span_of(a, 0) * span_of(b, 1);
    case WORK_LAYER: return span_of(a, 0) * most;
    case WORK_SEPARABLE:
    case WORK_ATTENTION:
    case WORK_OTHER: return most * most;
    }
    return 0;
}

/* True for a cast of known 16-bit elements to float, whose result needs no data of its own. */
static bool is_widening(const FoldRun *run, const LoadedStep *step) {
    const PlanValue *values = run->loaded.plan.values;
    if (step->domain[0] || strcmp(step->op, "Cast") != 0 || step->plan->inputs.count != 1 ||
        step->plan->outputs.count != 1 || step->inputs[0] == PLAN_NONE ||
        step->outputs[0] == PLAN_NONE)
        return false;
    uint8_t from = values[step->inputs[0]].dtype;
    return run->exec.values[step->inputs[0]].state == RT_TENSOR && dtype_is_reduced(from) &&
           values[step->outputs[0]].dtype == DTYPE_FLOAT;
}

static bool is_constant(const Fold *f, uint32_t value) {
    return f->b->values.items[value].data != PLAN_NO_DATA;
}

/* Notes what a value was found to be, for as long as the builder is there. Small results, of which there are
 * many, are copied out of their buffers, as are those in a constant's memory; true of others, which stay
 * where they are. */
static bool keep_result(Fold *f, uint32_t value, const RtTensor *tensor) {
    Arena *arena = f->b->arena;
    KernelTensor *kept = arena_copy(arena, &tensor->tensor, sizeof *kept);
    const uint64_t size = kept->count * kernel_element_size(kept->dtype);
    const bool held = !is_constant(f, value) && tensor->buffer && size > PLAN_SMALL;
    kept->dims = arena_copy(arena, kept->dims, kept->rank * sizeof *kept->dims);
    if (is_constant(f, value))
        kept->data = NULL; /* the builder has it */
    else if (!held)
        kept->data = arena_copy(arena, kept->data, (size_t)size);
    f->found[value] = kept;
    return held;
}

/* An operand of a step that was executed, or not. */
static void note_read(Fold *f, RtValue *operand, uint32_t value, bool executed) {
    f->wanted[value]--;
    if (!executed) f->stays[value] = true;
    if (f->wanted[value] || f->stays[value] || is_constant(f, value) || operand->state != RT_TENSOR)
        return;
    f->left += bytes_of(operand);
    rt_value_clear(operand);
}

static void note_reads(Fold *f, const Batch *batch, const LoadedStep *step, bool executed) {
    for (uint32_t k = 0; k < step->plan->inputs.count; k++)
        if (step->inputs[k] != PLAN_NONE)
            note_read(f, &batch->run->exec.values[step->inputs[k]],
                      batch->own.items[step->inputs[k]], executed);
}

/* A widening's result is its operand's data. */
static void note_alias(Fold *f, const Batch *batch, const LoadedStep *step) {
    const uint32_t from = batch->own.items[step->inputs[0]];
    f->alias[batch->own.items[step->outputs[0]]] = from;
    f->stays[from] = true;
    if (is_constant(f, from)) keep_result(f, from, batch->run->exec.values[step->inputs[0]].tensor);
}

static void execute(Fold *f, const Batch *batch, uint32_t number) {
    const LoadedStep *step = &batch->run->loaded.steps[number];
    bool *gone = &f->gone[f->steps[batch->first + number]];
    Exec *exec = &batch->run->exec;
    uint64_t most, made = 0;
    if (is_widening(batch->run, step)) {
        note_alias(f, batch, step);
        *gone = true;
        if (!f->wanted[batch->own.items[step->outputs[0]]])
            return; /* else others compute with it */
    }
    if (!allowed(f, exec, step, &most)) return;
    const double work = most_work(exec, step, most);
    if (work > f->work_left) return;
    f->work_left -= work;
    /* operands and results may be widened for the kernel, which may need workspace */
    exec->pool.budget = exec->pool.used + STEP_SHARE * most;
    batch->run->err = (Err){0};
    bool ok = exec_kernel(exec, step);
    arena_free(&exec->scratch);
    step_memo_free(&exec->forms.memos[number]); /* it runs once */
    for (uint32_t i = 0; ok && i < step->plan->outputs.count; i++)
        if (step->outputs[i] != PLAN_NONE) made += bytes_of(&exec->values[step->outputs[i]]);
    ok = ok && made <= most;
    *gone |= ok;
    if (ok) f->left -= made;
    for (uint32_t i = 0; i < step->plan->outputs.count; i++)
        if (step->outputs[i] != PLAN_NONE && !ok) rt_value_clear(&exec->values[step->outputs[i]]);
}

/* Takes what the batch found. Large results stay in its pool, which is all that is left then. */
static void take_results(Fold *f, const Batch *batch) {
    Exec *exec = &batch->run->exec;
    bool any = false;
    for (uint32_t i = 0; i < batch->own.count; i++) {
        const uint32_t value = batch->own.items[i];
        RtValue *result = &exec->values[i];
        f->numbers[value] = PLAN_NONE;
        const bool held = result->state == RT_TENSOR && !is_constant(f, value) &&
                          keep_result(f, value, result->tensor);
        any |= held;
        if (!held) rt_value_clear(result);
    }
    if (any) {
        exec->loaded = NULL; /* its tables end with the batch's */
        exec->values = NULL;
        exec->forms.memos = NULL;
        pool_trim(&exec->pool);
    } else {
        exec_free(exec);
        *exec = (Exec){.loaded = NULL};
    }
}

static bool execute_batch(Fold *f, uint32_t first, uint32_t count) {
    const PoolFrom unbounded = {.budget = UINT64_MAX};
    FoldRun *run = ARENA_NEW(f->b->arena, FoldRun);
    Batch batch = {.arena = arena_child(f->within), .run = run, .first = first, .count = count};
    arena_defer(f->b->arena, run_free, run);
    if (!load_steps(f, &batch) ||
        !exec_init(&run->exec, &run->loaded, &unbounded, batch.arena, f->err))
        return false;
    run->exec.err = &run->err;
    run->exec.options.workers = f->workers;
    /* no plan should depend on its maker's libraries */
    run->exec.options.provider = KERNEL_PROVIDER_OWN;
    run->exec.options.faithful = f->b->numerics == PLAN_FAITHFUL;
    run->exec.options.keeps_values = true; /* steps that stay may read them */
    for (uint32_t i = 0; i < count; i++) {
        execute(f, &batch, i);
        note_reads(f, &batch, &run->loaded.steps[i], f->gone[f->steps[first + i]]);
    }
    take_results(f, &batch);
    arena_free(batch.arena);
    return true;
}

/* Of each value the last of Fold.steps that reads it. */
static uint32_t *last_reads(const Fold *f) {
    const PlanBuilder *b = f->b;
    uint32_t *last = ARENA_ARRAY(f->within, uint32_t, b->values.count);
    for (uint32_t i = 0; i < f->step_count; i++) {
        const PlanSpan inputs = b->steps.items[f->steps[i]].inputs;
        for (uint32_t k = 0; k < inputs.count; k++)
            if (b->operands.items[inputs.first + k] != PLAN_NONE)
                last[b->operands.items[inputs.first + k]] = i;
    }
    return last;
}

/* How many steps from `first` on are a batch, of at least so many: no step behind them reads what they give. */
static uint32_t batch_size(const Fold *f, const uint32_t *last, uint32_t first, uint64_t least) {
    uint32_t reach = first;
    for (uint32_t i = first; i < f->step_count; i++) {
        const PlanSpan outputs = f->b->steps.items[f->steps[i]].outputs;
        for (uint32_t k = 0; k < outputs.count; k++) {
            const uint32_t value = f->b->operands.items[outputs.first + k];
            if (value != PLAN_NONE && last[value] > reach) reach = last[value];
        }
        if (i >= reach && i + 1 - first >= least) return i + 1 - first;
    }
    return f->step_count - first;
}

static bool execute_steps(Fold *f) {
    const uint32_t *last = last_reads(f);
    const uint64_t read = constants_size(f) / BATCH_READ; /* each batch may read all of them */
    const uint64_t least = read > BATCH_STEPS ? read : BATCH_STEPS;
    f->workers = workers_new(f->within, processors_usable());
    for (uint32_t first = 0, count; first < f->step_count; first += count) {
        count = batch_size(f, last, first, least);
        if (!execute_batch(f, first, count)) return false;
    }
    return true;
}

/* ---- the plan without them ------------------------------------------------------------------- */

static bool read_result(void *data, uint64_t offset, void *buffer, uint64_t size, Err *err) {
    (void)err;
    memcpy(buffer, (const char *)data + offset, size);
    return true;
}

/* Steps that are left move together. */
static void drop_steps(Fold *f) {
    PlanBuilder *b = f->b;
    uint32_t *before = ARENA_ARRAY(f->within, uint32_t, b->steps.count + 1); /* left before each */
    uint32_t left = 0;
    for (uint32_t i = 0; i < b->steps.count; i++) {
        before[i] = left;
        if (!f->gone[i]) b->steps.items[left++] = b->steps.items[i];
    }
    before[b->steps.count] = left;
    b->steps.count = left;
    for (size_t g = 0; g < b->graphs.count; g++) {
        PlanSpan *steps = &b->graphs.items[g].steps;
        uint32_t end = before[steps->first + steps->count];
        steps->first = before[steps->first];
        steps->count = end - steps->first;
    }
}

/* Every place of the plan that names a value. */
static void each_value(PlanBuilder *b, ValueVisitor visit, uint32_t *numbers) {
    for (size_t s = 0; s < b->steps.count; s++) {
        const PlanStep *step = &b->steps.items[s];
        each_operand(b, step->inputs, visit, numbers);
        each_operand(b, step->outputs, visit, numbers);
        for (uint32_t i = 0; i < step->attrs.count; i++) {
            PlanAttr *attr = &b->attrs.items[step->attrs.first + i];
            if (attr->kind != PLAIN_TENSOR) continue;
            uint32_t value = (uint32_t)attr->value;
            visit(&value, numbers);
            attr->value = value;
        }
    }
    for (size_t g = 0; g < b->graphs.count; g++) {
        const PlanGraph *graph = &b->graphs.items[g];
        each_operand(b, graph->inputs, visit, numbers);
        each_operand(b, graph->outputs, visit, numbers);
        each_operand(b, graph->defaults, visit, numbers);
    }
}

static void note_used(uint32_t *value, uint32_t *numbers) {
    numbers[*value] = 0;
}
static void renumber(uint32_t *value, uint32_t *numbers) {
    *value = numbers[*value];
}

/* Value `from` becomes number `to`, with the data it has or was found to have. `constants` are those
 * that there were, by value. */
static void move_value(Fold *f, uint32_t from, uint32_t to, const PlanConstant *const *constants) {
    PlanBuilder *b = f->b;
    PlanValue value = b->values.items[from];
    uint32_t of = f->alias[from] == PLAN_NONE ? from : f->alias[from];
    const KernelTensor *tensor = f->found[of]; /* of constants, too, where they are others' data */
    const PlanConstant *constant = constants[of];
    bool known = !constant && tensor;
    if (known || of != from) {
        value.rank = tensor->rank;
        value.dims = plan_add_numbers(b, tensor->dims, tensor->rank);
        if (of != from) value.stored = (uint8_t)tensor->dtype;
    }
    b->values.items[to] = value;
    if (f->placed[of] != PLAN_NONE)
        plan_share_data(b, to, f->placed[of]);
    else if (known)
        plan_set_data(b, to, tensor->count * kernel_element_size(tensor->dtype), read_result,
                      tensor->data);
    else if (constant)
        plan_set_constant(b, to, constant);
    else
        return;
    f->placed[of] = to;
}

static void drop_values(Fold *f) {
    PlanBuilder *b = f->b;
    uint32_t *numbers = ARENA_ARRAY(f->within, uint32_t, b->values.count), left = 0;
    const PlanConstant **constants = ARENA_ARRAY(f->within, const PlanConstant *, b->values.count);
    PlanConstant *old = b->constants.items;
    const size_t old_size = b->constants.capacity * sizeof *old;
    for (size_t i = 0; i < b->values.count; i++) numbers[i] = PLAN_NONE;
    each_value(b, note_used, numbers);
    for (size_t i = 0; i < b->values.count; i++) {
        if (numbers[i] != PLAN_NONE) numbers[i] = left++;
        if (b->values.items[i].data != PLAN_NO_DATA)
            constants[i] = plan_constant_of(b, &b->values.items[i]);
    }
    memset(&b->constants, 0, sizeof b->constants);
    b->data_size = 0;
    for (uint32_t i = 0; i < b->values.count; i++)
        if (numbers[i] != PLAN_NONE) move_value(f, i, numbers[i], constants);
    arena_release(b->arena, old, old_size);
    b->values.count = left;
    each_value(b, renumber, numbers);
}

/* False where the budget is too small for anything to be computed with the constants. */
static bool set_limits(Fold *f) {
    uint64_t data = f->b->data_size, budget = f->b->budget, read = constants_size(f);
    bool large = data > (UINT64_MAX - TOTAL_BYTES) / RESULT_FACTOR;
    f->left = large ? UINT64_MAX / 8 : RESULT_FACTOR * data + TOTAL_BYTES;
    if (budget == 0) return true;
    if (read >= budget) return false;
    if (f->left > (budget - read) / RESULT_SHARE) f->left = (budget - read) / RESULT_SHARE;
    return true;
}

static bool fold(Fold *f) {
    find_steps(f);
    if (f->step_count == 0 || !set_limits(f)) return true;
    find_staying(f);
    if (!execute_steps(f)) return false;
    drop_steps(f);
    drop_values(f);
    return true;
}

bool plan_fold(PlanBuilder *builder, Err *err) {
    Arena *within = arena_child(builder->arena);
    Fold f = {.b = builder,
              .within = within,
              .err = err,
              .constant = ARENA_ARRAY(within, bool, builder->values.count),
              .read = ARENA_ARRAY(within, bool, builder->values.count),
              .steps = ARENA_ARRAY(within, uint32_t, builder->steps.count),
              .gone = ARENA_ARRAY(within, bool, builder->steps.count),
              .alias = ARENA_ARRAY(within, uint32_t, builder->values.count),
              .placed = ARENA_ARRAY(within, uint32_t, builder->values.count),
              .wanted = ARENA_ARRAY(within, uint32_t, builder->values.count),
              .stays = ARENA_ARRAY(within, bool, builder->values.count),
              .numbers = ARENA_ARRAY(within, uint32_t, builder->values.count),
              .found = ARENA_ARRAY(within, const KernelTensor *, builder->values.count),
              .work_left = FOLD_WORK};
    if (!fold(&f)) return false; /* what runs ends before what it runs in */
    arena_free(within);
    return true;
}
