// SPDX-License-Identifier: Apache-2.0
/* The executor: one step after the other; see exec.h.
 *
 * A kernel step: operands as tensors, output shapes by the operator's shape function (from dims and
 * the contents of small operands, which are at hand now), memory, and the first kernel that takes the
 * dtypes. Where none does, operands are widened and results rounded once, so a float kernel serves
 * 16-bit types as a GPU with float accumulation would.
 */
#define _DEFAULT_SOURCE /* clock_gettime */
#include "exec.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "element_convert.h"

enum { SMALL_FLOATS = 64, DEPTH_LIMIT = 128 };

/* ---- messages ---------------------------------------------------------------------------------- */

static void name_step(Exec *exec, const LoadedStep *step) {
    if (!exec->err || exec->err->node[0]) return;
    snprintf(exec->err->node, sizeof exec->err->node, "%s", step->name);
    snprintf(exec->err->op_type, sizeof exec->err->op_type, "%s", step->op);
}

bool exec_fail(Exec *exec, const LoadedStep *step, const char *format, ...) {
    char text[320];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    err_set(exec->err, ERR_MODEL, "%s", text);
    name_step(exec, step);
    return false;
}

/* ---- operands ---------------------------------------------------------------------------------- */

RtValue *exec_input(Exec *exec, const LoadedStep *step, uint32_t i) {
    if (i >= step->plan->inputs.count || step->inputs[i] == PLAN_NONE) return NULL;
    return &exec->values[step->inputs[i]];
}

void exec_output(Exec *exec, const LoadedStep *step, uint32_t i, RtValue value) {
    if (i >= step->plan->outputs.count || step->outputs[i] == PLAN_NONE)
        rt_value_clear(&exec->pool, &value);
    else
        rt_value_set(&exec->pool, &exec->values[step->outputs[i]], value);
}

RtTensor *exec_tensor(Exec *exec, const LoadedStep *step, uint32_t i) {
    RtValue *value = exec_input(exec, step, i);
    if (value && value->state == RT_TENSOR) return value->tensor;
    exec_fail(exec, step, "input %u is no tensor", i);
    return NULL;
}

bool exec_scalar(Exec *exec, const LoadedStep *step, const RtTensor *tensor, int64_t *value) {
    KernelCall call = {.scratch = &exec->scratch, .err = exec->err};
    const int64_t *items = tensor->tensor.count ? kernel_ints(&call, &tensor->tensor) : NULL;
    if (!items) return exec_fail(exec, step, "an integer scalar is missing");
    *value = items[0];
    return true;
}

uint32_t exec_graph_attr(const LoadedStep *step, const char *name) {
    for (uint32_t i = 0; i < step->plan->attrs.count; i++)
        if (step->attrs[i].kind == PLAIN_GRAPH && step->attrs[i].name.size == strlen(name) &&
            memcmp(step->attrs[i].name.text, name, strlen(name)) == 0)
            return step->attrs[i].v.graph;
    return PLAN_NONE;
}

int64_t exec_int_attr(const LoadedStep *step, const char *name, int64_t otherwise) {
    for (uint32_t i = 0; i < step->plan->attrs.count; i++)
        if (step->attrs[i].kind == PLAIN_INT && step->attrs[i].name.size == strlen(name) &&
            memcmp(step->attrs[i].name.text, name, strlen(name)) == 0)
            return step->attrs[i].v.i;
    return otherwise;
}

/* ---- shapes ------------------------------------------------------------------------------------ */

static bool read_items(const KernelTensor *tensor, ShapeNum *items) {
    bool real = dtype_is_float(tensor->dtype);
    for (uint64_t i = 0; i < tensor->count; i++)
        if (real) items[i] = (ShapeNum){.kind = SHAPE_REAL, .real = kernel_real(tensor, i)};
    return real;
}

static void shape_operand(Exec *exec, const KernelTensor *tensor, ShapeOperand *operand) {
    *operand = (ShapeOperand){.present = tensor->present, .has_rank = true,
                              .dtype = tensor->dtype, .rank = tensor->rank};
    if (!tensor->present) return;
    ShapeNum *dims = ARENA_ARRAY(&exec->scratch, ShapeNum, tensor->rank);
    for (uint32_t i = 0; i < tensor->rank; i++)
        dims[i] = (ShapeNum){SHAPE_KNOWN, {tensor->dims[i]}};
    operand->dims = dims;
    bool integers = dtype_is_integer(tensor->dtype) || tensor->dtype == DTYPE_BOOL;
    bool floats = tensor->dtype == DTYPE_FLOAT || tensor->dtype == DTYPE_DOUBLE;
    uint64_t most = integers ? SHAPE_ITEM_LIMIT : floats ? SMALL_FLOATS : 0;
    if (tensor->rank > 1 || tensor->count > most || dtype_bits(tensor->dtype) < 8) return;
    ShapeNum *items = ARENA_ARRAY(&exec->scratch, ShapeNum, tensor->count + 1);
    if (!read_items(tensor, items)) {
        KernelCall call = {.scratch = &exec->scratch};
        const int64_t *numbers = kernel_ints(&call, tensor);
        for (uint64_t i = 0; i < tensor->count; i++)
            items[i] = (ShapeNum){SHAPE_KNOWN, {numbers[i]}};
    }
    operand->items = items;
    operand->item_count = (uint32_t)tensor->count;
}

static bool infer_shapes(Exec *exec, const LoadedStep *step, KernelCall *call) {
    if (!step->shape) return exec_fail(exec, step, "it has no shape function");
    ShapeOperand *inputs = ARENA_ARRAY(&exec->scratch, ShapeOperand, call->input_count);
    ShapeOperand *outputs = ARENA_ARRAY(&exec->scratch, ShapeOperand, call->output_count);
    for (uint32_t i = 0; i < call->input_count; i++)
        shape_operand(exec, &call->inputs[i], &inputs[i]);
    for (uint32_t i = 0; i < call->output_count; i++)
        outputs[i].present = call->outputs[i].present;
    ShapeCall shape = {.arena = &exec->scratch, .attrs = step->shape_attrs, .inputs = inputs,
                       .outputs = outputs, .input_count = call->input_count,
                       .output_count = call->output_count};
    if (!shape_infer(step->shape, &shape)) return exec_fail(exec, step, "%s", shape.reason);
    for (uint32_t i = 0; i < call->output_count; i++) {
        if (!outputs[i].present) continue;
        int64_t *dims = ARENA_ARRAY(&exec->scratch, int64_t, outputs[i].rank + 1);
        bool known = outputs[i].has_rank;
        for (uint32_t k = 0; known && k < outputs[i].rank; k++) {
            known = outputs[i].dims[k].kind == SHAPE_KNOWN;
            dims[k] = outputs[i].dims[k].value;
        }
        if (!known) return exec_fail(exec, step, "the shape of output %u can't be told", i);
        call->outputs[i].rank = outputs[i].rank;
        call->outputs[i].dims = dims;
    }
    return true;
}

/* ---- kernels ----------------------------------------------------------------------------------- */

typedef struct StepCall {
    KernelCall call;
    KernelHost host;
    Exec *exec;
    const LoadedStep *step;
    RtTensor **results; /* [output_count]: in the plan's dtypes */
    Dtype *dtypes;      /* [output_count]: those the kernel writes */
    bool *constant;     /* [input_count] */
    Buffer *workspace;  /* by sibling: back to the pool after the step */
} StepCall;

static bool takes(const KernelRow *row, Dtype dtype) { return row->types >> dtype & 1; }

static Dtype given(const KernelRow *row, Dtype dtype) {
    return takes(row, dtype) || row->flags & KERNEL_BYTES ? dtype : element_wide(dtype);
}

static bool row_serves(const KernelRow *row, const KernelCall *call, bool widened) {
    for (uint32_t i = 0; i < call->input_count + call->output_count; i++) {
        const KernelTensor *t =
            i < call->input_count ? &call->inputs[i] : &call->outputs[i - call->input_count];
        if (!t->present) continue;
        if (!widened && !takes(row, t->dtype) && !(row->flags & KERNEL_BYTES)) return false;
        if (widened && !takes(row, given(row, t->dtype)) && !(row->flags & KERNEL_BYTES))
            return false;
    }
    return true;
}

/* The row that takes the operands, perhaps widened, behind `after` (NULL: any). Rows that take them as
 * they are come first. */
static const KernelRow *choose_row(const LoadedStep *step, const KernelCall *call,
                                   const KernelRow *after) {
    bool behind = !after;
    for (int widened = 0; widened < 2; widened++)
        for (size_t i = 0; i < step->row_count; i++) {
            const KernelRow *row = &step->rows[i];
            if (!row_serves(row, call, widened) || (widened && row_serves(row, call, false)))
                continue;
            if (behind) return row;
            behind = row == after;
        }
    return NULL;
}

static bool widen_inputs(StepCall *s, KernelTensor *inputs) {
    for (uint32_t i = 0; i < s->call.input_count; i++) {
        KernelTensor *t = &inputs[i];
        Dtype wide = t->present ? given(s->call.row, t->dtype) : t->dtype;
        if (!t->present || wide == t->dtype) continue;
        void *data = arena_array(&s->exec->scratch, t->count + 1, kernel_element_size(wide));
        element_convert(wide, data, t->dtype, t->data, t->count);
        t->data = data;
        t->dtype = wide;
    }
    return true;
}

/* Memory for output i, its dims being known: the result's own, or a wider array to round from. */
static bool make_output(StepCall *s, uint32_t i, uint32_t rank, const int64_t *dims) {
    KernelTensor *out = &s->call.outputs[i];
    Dtype dtype = (Dtype)s->dtypes[i];
    if (s->results[i]) return exec_fail(s->exec, s->step, "output %u is made twice", i);
    RtTensor *result = rt_tensor_new(&s->exec->pool, dtype, rank, dims, s->exec->err);
    if (!result) {
        name_step(s->exec, s->step);
        return false;
    }
    s->results[i] = result;
    *out = result->tensor;
    Dtype wide = given(s->call.row, dtype);
    if (wide == dtype) return true;
    out->dtype = wide;
    out->data = arena_array(&s->exec->scratch, out->count + 1, kernel_element_size(wide));
    return true;
}

static bool host_output(KernelCall *call, uint32_t i, uint32_t rank, const int64_t *dims) {
    StepCall *s = (StepCall *)((char *)call - offsetof(StepCall, call));
    return make_output(s, i, rank, dims);
}

static char *host_chars(KernelCall *call, uint64_t size) {
    StepCall *s = (StepCall *)((char *)call - offsetof(StepCall, call));
    return arena_array(&s->exec->run, size, 1);
}

static void *host_workspace(KernelCall *call, uint64_t size) {
    StepCall *s = (StepCall *)((char *)call - offsetof(StepCall, call));
    Buffer *buffer = buffer_new(&s->exec->pool, size, s->exec->err);
    if (!buffer) return NULL;
    buffer->sibling = s->workspace;
    s->workspace = buffer;
    return buffer_data(buffer);
}

static bool collect(StepCall *s, KernelTensor *inputs) {
    Exec *exec = s->exec;
    const LoadedStep *step = s->step;
    for (uint32_t i = 0; i < step->plan->inputs.count; i++) {
        RtValue *value = exec_input(exec, step, i);
        if (!value) continue;
        if (value->state != RT_TENSOR) return exec_fail(exec, step, "input %u is no tensor", i);
        inputs[i] = value->tensor->tensor;
        s->constant[i] = exec->loaded->constants[step->inputs[i]].present;
    }
    for (uint32_t i = 0; i < step->plan->outputs.count; i++) {
        if (step->outputs[i] == PLAN_NONE) continue;
        Dtype dtype = (Dtype)exec->loaded->plan.values[step->outputs[i]].dtype;
        if (!kernel_element_size(dtype))
            return exec_fail(exec, step, "the type of output %u is unknown", i);
        s->call.outputs[i] = (KernelTensor){.present = true, .dtype = dtype};
        s->dtypes[i] = dtype;
    }
    return true;
}

static void finish(StepCall *s, bool ok) {
    for (uint32_t i = 0; i < s->call.output_count; i++) {
        RtTensor *result = s->results[i];
        if (!result) continue;
        RtValue value = {.state = RT_TENSOR, .tensor = result};
        if (!ok) {
            rt_value_clear(&s->exec->pool, &value);
            continue;
        }
        const KernelTensor *out = &s->call.outputs[i];
        if (out->dtype != result->tensor.dtype)
            element_convert(result->tensor.dtype, result->tensor.data, out->dtype, out->data,
                            out->count);
        exec_output(s->exec, s->step, i, value);
    }
}

/* Output 0 is input 0 under another shape: nothing is copied. */
static bool run_view(StepCall *s) {
    RtTensor *source = exec_input(s->exec, s->step, 0)->tensor;
    const KernelTensor *out = &s->call.outputs[0];
    uint64_t count = 1;
    for (uint32_t i = 0; i < out->rank; i++) count *= (uint64_t)out->dims[i];
    if (count != source->tensor.count)
        return exec_fail(s->exec, s->step, "%llu elements can't become %llu",
                         (unsigned long long)source->tensor.count, (unsigned long long)count);
    RtTensor *view = rt_tensor_view(&s->exec->pool, source, out->rank, out->dims, s->exec->err);
    if (!view) return false;
    exec_output(s->exec, s->step, 0, (RtValue){.state = RT_TENSOR, .tensor = view});
    return true;
}

static bool is_view(const StepCall *s) {
    const KernelCall *call = &s->call;
    return call->row->flags & KERNEL_VIEW && call->output_count && call->input_count &&
           call->outputs[0].present && call->inputs[0].present &&
           call->outputs[0].dtype == call->inputs[0].dtype &&
           (call->output_count == 1 || !call->outputs[1].present);
}

static void release(StepCall *s) {
    const KernelPrepare *prepare = s->call.row->prepare;
    if (prepare && prepare->release && s->call.prepared) prepare->release(s->call.prepared);
    s->call.prepared = NULL;
    for (Buffer *buffer = s->workspace, *next; buffer; buffer = next) {
        next = buffer->sibling;
        buffer_unref(&s->exec->pool, buffer);
    }
    s->workspace = NULL;
}

/* Gets the row ready, or the next one that takes the operands where it declines. */
static KernelReady prepare(StepCall *s) {
    for (;;) {
        const KernelRow *row = s->call.row;
        KernelReady ready = row->prepare ? row->prepare->make(&s->call) : KERNEL_READY;
        if (ready != KERNEL_DECLINED) return ready;
        release(s);
        s->call.row = choose_row(s->step, &s->call, row);
        if (!s->call.row) {
            exec_fail(s->exec, s->step, "no kernel of it takes these operands");
            return KERNEL_FAILED;
        }
    }
}

static bool run_row(StepCall *s, KernelTensor *inputs) {
    bool sizes = s->call.row->flags & KERNEL_SIZES;
    if (!sizes && !infer_shapes(s->exec, s->step, &s->call)) return false;
    if (!sizes && is_view(s)) return run_view(s);
    bool ok = prepare(s) == KERNEL_READY;
    for (uint32_t i = 0; ok && !sizes && i < s->call.output_count; i++) {
        const KernelTensor shape = s->call.outputs[i];
        if (shape.present && !make_output(s, i, shape.rank, shape.dims)) return false;
    }
    ok = ok && widen_inputs(s, inputs) && s->call.row->run(&s->call);
    if (!ok) name_step(s->exec, s->step);
    for (uint32_t i = 0; ok && i < s->call.output_count; i++)
        if (s->call.outputs[i].present && !s->results[i])
            ok = exec_fail(s->exec, s->step, "output %u was not made", i);
    return ok;
}

bool exec_kernel(Exec *exec, const LoadedStep *step) {
    uint32_t in = step->plan->inputs.count, out = step->plan->outputs.count;
    KernelTensor *inputs = ARENA_ARRAY(&exec->scratch, KernelTensor, in + 1);
    StepCall s = {.host = {.output = host_output, .chars = host_chars, .workspace = host_workspace},
                  .exec = exec,
                  .step = step,
                  .results = ARENA_ARRAY(&exec->scratch, RtTensor *, out + 1),
                  .dtypes = ARENA_ARRAY(&exec->scratch, Dtype, out + 1),
                  .constant = ARENA_ARRAY(&exec->scratch, bool, in + 1)};
    s.call = (KernelCall){.attrs = step->kernel_attrs,
                          .inputs = inputs,
                          .outputs = ARENA_ARRAY(&exec->scratch, KernelTensor, out + 1),
                          .input_count = in,
                          .output_count = out,
                          .opset = step->opset,
                          .threads = exec->threads,
                          .seed = exec->seed++,
                          .scratch = &exec->scratch,
                          .text = &exec->run,
                          .err = exec->err,
                          .constant = s.constant,
                          .host = &s.host};
    if (!collect(&s, inputs)) return false;
    if (!step->types || !kernel_signature_agrees(step->types, &s.call))
        return exec_fail(exec, step, "its operands' types are none that it can have together");
    s.call.row = choose_row(step, &s.call, NULL);
    if (!s.call.row) {
        const char *dtype = in && inputs[0].present ? dtype_name(inputs[0].dtype) : "these types";
        return exec_fail(exec, step, "demi has no kernel of it for %s", dtype);
    }
    bool ok = run_row(&s, inputs);
    exec->row = s.call.row;
    release(&s);
    finish(&s, ok);
    return ok;
}

/* ---- graphs ------------------------------------------------------------------------------------ */

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static bool run_step(Exec *exec, const LoadedStep *step) {
    if (exec->steps++ >= exec->step_limit) {
        err_set(exec->err, ERR_ENV, "more than %llu steps",
                (unsigned long long)exec->step_limit);
        name_step(exec, step);
        return false;
    }
    double start = exec->after ? now() : 0;
    bool ok = step->exec ? step->exec(exec, step) : exec_kernel(exec, step);
    if (!ok) return false;
    if (exec->after) exec->after(exec->after_data, step, start, now() - start);
    for (uint32_t i = 0; i < step->dead_count; i++)
        rt_value_clear(&exec->pool, &exec->values[step->dead[i]]);
    return true;
}

bool exec_graph(Exec *exec, uint32_t graph) {
    const PlanGraph *plan = &exec->loaded->plan.graphs[graph];
    if (exec->depth == DEPTH_LIMIT)
        return err_set(exec->err, ERR_MODEL, "graphs are nested more than %d deep", DEPTH_LIMIT);
    exec->depth++;
    bool ok = true;
    for (uint32_t i = 0; ok && i < plan->steps.count; i++) {
        ok = run_step(exec, &exec->loaded->steps[plan->steps.first + i]);
        arena_free(&exec->scratch);
    }
    exec->depth--;
    return ok;
}

RtValue exec_graph_output(Exec *exec, uint32_t graph, uint32_t i) {
    const Plan *plan = &exec->loaded->plan;
    uint32_t value = plan->operands[plan->graphs[graph].outputs.first + i];
    return rt_value_ref(exec->values[value]);
}
