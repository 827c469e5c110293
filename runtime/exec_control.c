// SPDX-License-Identifier: Apache-2.0
/* If, Loop, Scan and SequenceMap: operators that run graphs. A body's inputs are values like any
 * other; they are set before it runs and its outputs taken after, so nothing is copied between
 * iterations. Scratch memory ends with every step of a body, so what must survive one lies in the
 * pool: RtLists that collect slices. */
#include <setjmp.h>
#include <string.h>

#include "exec_operators.h"

static void set_input(Exec *exec, uint32_t graph, uint32_t i, RtValue value) {
    const Plan *plan = &exec->loaded->plan;
    const PlanGraph *body = &plan->graphs[graph];
    if (i < body->inputs.count)
        rt_value_set(&exec->values[plan->operands[body->inputs.first + i]], value);
    else
        rt_value_clear(&value);
}

static uint32_t output_count(const Exec *exec, uint32_t graph) {
    return exec->loaded->plan.graphs[graph].outputs.count;
}

static RtValue tensor_value(RtTensor *tensor) {
    return (RtValue){.state = tensor ? RT_TENSOR : RT_UNSET, .tensor = tensor};
}

static bool scalar_value(Exec *exec, Dtype dtype, int64_t number, RtValue *value) {
    RtTensor *tensor = rt_tensor_new(&exec->pool, dtype, 0, NULL, exec->err);
    *value = tensor_value(tensor);
    if (!tensor) return false;
    if (dtype == DTYPE_BOOL)
        *(uint8_t *)tensor->tensor.data = number != 0;
    else
        *(int64_t *)tensor->tensor.data = number;
    return true;
}

static bool truth(Exec *exec, const LoadedStep *step, const RtValue *value, bool *result) {
    int64_t number;
    if (!value || value->state != RT_TENSOR || value->tensor->tensor.dtype != DTYPE_BOOL)
        return exec_fail(exec, step, "a condition is not a bool");
    if (!exec_scalar(exec, step, value->tensor, &number)) return false;
    *result = number != 0;
    return true;
}

/* ---- If -------------------------------------------------------------------------------------- */

bool exec_if(Exec *exec, const LoadedStep *step) {
    bool condition = false;
    if (!truth(exec, step, exec_input(exec, step, 0), &condition)) return false;
    uint32_t graph = exec_graph_attr(step, condition ? "then_branch" : "else_branch");
    if (graph == PLAN_NONE) return exec_fail(exec, step, "a branch is missing");
    if (!exec_graph(exec, graph)) return false;
    for (uint32_t i = 0; i < step->plan->outputs.count; i++) {
        if (i >= output_count(exec, graph)) return exec_fail(exec, step, "output %u is missing", i);
        exec_output(exec, step, i, exec_graph_output(exec, graph, i));
    }
    return true;
}

/* ---- collecting slices ----------------------------------------------------------------------- */

/* Slices of one scan output, in order. */
typedef struct Slices {
    RtList *list; /* NULL at first; list->count is the room */
    uint32_t count;
} Slices;

static bool push(Exec *exec, Slices *slices, RtValue value) {
    uint32_t room = slices->list ? slices->list->count : 0;
    if (slices->count == room) {
        RtList *larger = rt_list_new(&exec->pool, room ? 2 * room : 8, exec->err);
        if (!larger) {
            rt_value_clear(&value);
            return false;
        }
        for (uint32_t i = 0; i < room; i++) {
            larger->items[i] = slices->list->items[i];
            slices->list->items[i] = (RtValue){.state = RT_UNSET};
        }
        RtValue old = {.state = RT_LIST, .list = slices->list};
        if (slices->list) rt_value_clear(&old);
        slices->list = larger;
    }
    slices->list->items[slices->count++] = value;
    return true;
}

static void drop(Slices *slices) {
    RtValue value = {.state = RT_LIST, .list = slices->list};
    if (slices->list) rt_value_clear(&value);
    *slices = (Slices){0};
}

/* Whether output i of the step is on the device. */
static bool is_there(const Exec *exec, const LoadedStep *step, uint32_t i) {
    return i < step->plan->outputs.count && step->outputs[i] != PLAN_NONE &&
           exec_is_remote(exec, step->outputs[i]);
}

/* No slice was made: the shape is what the body declares, behind an axis of size 0. */
static RtTensor *join_none(Exec *exec, uint32_t graph, uint32_t output, bool there) {
    const Plan *plan = &exec->loaded->plan;
    uint32_t number = plan->operands[plan->graphs[graph].outputs.first + output];
    const PlanValue *value = &plan->values[number];
    uint32_t rank = value->rank == PLAN_NONE ? 0 : value->rank;
    int64_t *dims = ARENA_ARRAY(&exec->scratch, int64_t, rank + 1);
    for (uint32_t i = 0; i < rank; i++) {
        int64_t dim = plan->numbers[value->dims + i];
        dims[1 + i] = dim < 0 ? 0 : dim;
    }
    const KernelTensor like = {.dtype = (Dtype)value->dtype, .rank = rank + 1, .dims = dims};
    return exec_tensor_in(exec, &like, there);
}

/* How slices become one tensor. */
typedef struct Joining {
    uint32_t axis;
    bool there;
} Joining;

static bool join(Exec *exec, const LoadedStep *step, const Slices *slices, Joining how,
                 RtTensor **result) {
    RtTensor **parts = ARENA_ARRAY(&exec->scratch, RtTensor *, slices->count);
    for (uint32_t i = 0; i < slices->count; i++) {
        if (slices->list->items[i].state != RT_TENSOR)
            return exec_fail(exec, step, "a scan output is not a tensor");
        parts[i] = slices->list->items[i].tensor;
    }
    if (how.axis > parts[0]->tensor.rank)
        return exec_fail(exec, step, "a scan axis is out of range");
    const JoinParts all = {parts, slices->count, how.axis, true, how.there};
    *result = exec_join(exec, step, &all);
    return *result;
}

/* ---- what jumps out of a body ---------------------------------------------------------------- */

/* Runs turns(data). What jumps out of a body (memory that runs out, the end of the run) lands here:
 * *jumped then, and the caller jumps on by arena_exhausted when it has let go of what it holds. */
static bool guarded(Exec *exec, bool (*turns)(void *data), void *data, bool *jumped) {
    MemTrap *before = exec->scratch.trap, trap;
    volatile bool ok = false;
    *jumped = true;
    if (!setjmp(trap.env)) {
        exec_set_trap(exec, &trap);
        ok = turns(data);
        *jumped = false;
    }
    exec_set_trap(exec, before);
    return ok;
}

/* ---- Loop ------------------------------------------------------------------------------------ */

typedef struct Loop {
    Exec *exec;
    const LoadedStep *step;
    uint32_t body, carried, scans;
    int64_t trips;  /* -1: no limit */
    Slices *slices; /* [scans], in a pool buffer */
} Loop;

static bool loop_start(Loop *loop, bool *going) {
    Exec *exec = loop->exec;
    RtValue *trips = exec_input(exec, loop->step, 0), *condition = exec_input(exec, loop->step, 1);
    loop->trips = -1;
    *going = true;
    if (trips &&
        (trips->state != RT_TENSOR || !exec_scalar(exec, loop->step, trips->tensor, &loop->trips)))
        return exec_fail(exec, loop->step, "the trip count is not an integer");
    if (trips && loop->trips < 0) loop->trips = 0;
    if (condition && !truth(exec, loop->step, condition, going)) return false;
    for (uint32_t i = 0; i < loop->carried; i++) {
        RtValue *value = exec_input(exec, loop->step, 2 + i);
        if (!value) return exec_fail(exec, loop->step, "input %u is missing", 2 + i);
        set_input(exec, loop->body, 2 + i, rt_value_ref(*value));
    }
    return true;
}

static bool loop_once(Loop *loop, int64_t iteration, bool *going) {
    Exec *exec = loop->exec;
    RtValue value;
    if (!scalar_value(exec, DTYPE_INT64, iteration, &value)) return false;
    set_input(exec, loop->body, 0, value);
    if (!scalar_value(exec, DTYPE_BOOL, *going, &value)) return false;
    set_input(exec, loop->body, 1, value);
    if (!exec_graph(exec, loop->body)) return false;
    RtValue condition = exec_graph_output(exec, loop->body, 0);
    bool ok = truth(exec, loop->step, &condition, going);
    rt_value_clear(&condition);
    for (uint32_t i = 0; ok && i < loop->scans; i++)
        ok = push(exec, &loop->slices[i],
                  exec_graph_output(exec, loop->body, 1 + loop->carried + i));
    /* All are read before any is set: a body may hand its inputs out in another order. */
    RtValue *next = ARENA_ARRAY(&exec->scratch, RtValue, loop->carried);
    for (uint32_t i = 0; ok && i < loop->carried; i++)
        next[i] = exec_graph_output(exec, loop->body, 1 + i);
    for (uint32_t i = 0; ok && i < loop->carried; i++) set_input(exec, loop->body, 2 + i, next[i]);
    return ok;
}

static bool loop_end(Loop *loop) {
    Exec *exec = loop->exec;
    const Plan *plan = &exec->loaded->plan;
    const PlanGraph *body = &plan->graphs[loop->body];
    for (uint32_t i = 0; i < loop->carried; i++)
        exec_output(exec, loop->step, i,
                    rt_value_ref(exec->values[plan->operands[body->inputs.first + 2 + i]]));
    for (uint32_t i = 0; i < loop->scans; i++) {
        RtTensor *joined = NULL;
        const Joining how = {0, is_there(exec, loop->step, loop->carried + i)};
        if (loop->slices[i].count == 0)
            joined = join_none(exec, loop->body, 1 + loop->carried + i, how.there);
        else if (!join(exec, loop->step, &loop->slices[i], how, &joined))
            return false;
        if (!joined) return false;
        exec_output(exec, loop->step, loop->carried + i, tensor_value(joined));
    }
    return true;
}

static bool loop_turns(void *data) {
    Loop *loop = data;
    bool going, ok = loop_start(loop, &going);
    for (int64_t i = 0; ok && going && (loop->trips < 0 || i < loop->trips); i++)
        ok = loop_once(loop, i, &going);
    return ok && loop_end(loop);
}

bool exec_loop(Exec *exec, const LoadedStep *step) {
    Loop loop = {.exec = exec, .step = step, .body = exec_graph_attr(step, "body")};
    if (loop.body == PLAN_NONE) return exec_fail(exec, step, "it has no body");
    uint32_t inputs = exec->loaded->plan.graphs[loop.body].inputs.count;
    uint32_t outputs = output_count(exec, loop.body);
    if (inputs < 2 || outputs < inputs - 1 || step->plan->inputs.count < inputs)
        return exec_fail(exec, step, "its body's inputs and outputs do not fit");
    loop.carried = inputs - 2;
    loop.scans = outputs - 1 - loop.carried;
    Buffer *buffer = buffer_new(&exec->pool, loop.scans * sizeof *loop.slices + 1, exec->err);
    if (!buffer) return false;
    loop.slices = buffer_data(buffer);
    memset(loop.slices, 0, loop.scans * sizeof *loop.slices);
    bool jumped, ok = guarded(exec, loop_turns, &loop, &jumped);
    for (uint32_t i = 0; i < loop.scans; i++) drop(&loop.slices[i]);
    buffer_unref(buffer);
    if (jumped) arena_exhausted(&exec->scratch);
    return ok;
}

/* ---- Scan ------------------------------------------------------------------------------------ */

typedef struct Scan {
    Exec *exec;
    const LoadedStep *step;
    uint32_t body, first; /* the first state operand: 1 in opset 8, behind sequence_lens */
    uint32_t states, inputs, outputs;
    int64_t batch; /* the item of opset 8's batch axis; -1 where there is none */
    int64_t length;
    Slices *slices;   /* [outputs] */
    RtValue *results; /* [states + outputs], in a pool buffer */
    Slices *batches;  /* the same of each item of a batch */
} Scan;

static int64_t item_of(const LoadedStep *step, const char *name, uint32_t i, int64_t otherwise) {
    for (uint32_t k = 0; k < step->plan->attrs.count; k++) {
        const PlainAttr *attr = &step->attrs[k];
        if (attr->kind == PLAIN_INTS && attr->name.size == strlen(name) &&
            memcmp(attr->name.text, name, attr->name.size) == 0)
            return i < attr->count ? attr->v.ints[i] : otherwise;
    }
    return otherwise;
}

/* The axis an input is cut along, or an output joined along: of the slices' rank + 1. */
static bool scan_axis(const Scan *scan, const char *name, uint32_t i, uint32_t rank,
                      uint32_t *axis) {
    int64_t given = item_of(scan->step, name, i, 0);
    if (given < 0) given += rank;
    if (given < 0 || given >= (int64_t)rank)
        return exec_fail(scan->exec, scan->step, "%s[%u] is out of range", name, i);
    *axis = (uint32_t)given;
    return true;
}

static bool is_reversed(const Scan *scan, const char *name, uint32_t i) {
    const char *old = scan->batch >= 0 && name[5] == 'i' ? "directions" : name;
    return item_of(scan->step, old, i, 0) != 0;
}

static RtTensor *scan_operand(Scan *scan, uint32_t i) {
    return exec_tensor(scan->exec, scan->step, scan->first + i);
}

static bool scan_lengths(Scan *scan) {
    for (uint32_t i = 0; i < scan->inputs; i++) {
        RtTensor *tensor = scan_operand(scan, scan->states + i);
        uint32_t axis = 0, skipped = scan->batch >= 0;
        if (!tensor) return false;
        if (tensor->tensor.rank <= skipped)
            return exec_fail(scan->exec, scan->step, "scan input %u has too few axes", i);
        if (!scan_axis(scan, "scan_input_axes", i, tensor->tensor.rank - skipped, &axis))
            return false;
        int64_t length = tensor->tensor.dims[axis + skipped];
        if (i && length != scan->length)
            return exec_fail(scan->exec, scan->step, "scan inputs have different lengths");
        scan->length = length;
    }
    return true;
}

/* The item of the batch that is at work, of operand i; the operand itself without a batch. */
static RtTensor *batch_item(Scan *scan, uint32_t i) {
    RtTensor *tensor = scan_operand(scan, i);
    if (!tensor) return NULL;
    const SliceRange item = {.start = scan->batch};
    if (scan->batch >= 0) return exec_take(scan->exec, tensor, &item);
    tensor->refs++;
    return tensor;
}

static bool scan_once(Scan *scan, int64_t iteration) {
    Exec *exec = scan->exec;
    for (uint32_t i = 0; i < scan->inputs; i++) {
        uint32_t axis = 0;
        RtTensor *item = batch_item(scan, scan->states + i);
        if (!item) return false;
        RtValue old = tensor_value(item);
        bool backwards = is_reversed(scan, "scan_input_directions", i);
        RtTensor *slice = NULL;
        if (scan_axis(scan, "scan_input_axes", i, item->tensor.rank, &axis)) {
            const uint32_t operand = scan->step->inputs[scan->first + scan->states + i];
            const SliceRange one = {.axis = axis,
                                    .start = backwards ? scan->length - 1 - iteration : iteration,
                                    .there = exec_is_remote(exec, operand)};
            slice = exec_take(exec, item, &one);
        }
        rt_value_clear(&old);
        if (!slice) return false;
        set_input(exec, scan->body, scan->states + i, tensor_value(slice));
    }
    if (!exec_graph(exec, scan->body)) return false;
    for (uint32_t i = 0; i < scan->outputs; i++)
        if (!push(exec, &scan->slices[i], exec_graph_output(exec, scan->body, scan->states + i)))
            return false;
    RtValue *next = ARENA_ARRAY(&exec->scratch, RtValue, scan->states);
    for (uint32_t i = 0; i < scan->states; i++) next[i] = exec_graph_output(exec, scan->body, i);
    for (uint32_t i = 0; i < scan->states; i++) set_input(exec, scan->body, i, next[i]);
    return true;
}

static void reverse(Slices *slices) {
    for (uint32_t i = 0; i < slices->count / 2; i++) {
        RtValue *a = &slices->list->items[i], *b = &slices->list->items[slices->count - 1 - i];
        RtValue kept = *a;
        *a = *b;
        *b = kept;
    }
}

static bool scan_join(Scan *scan, uint32_t i, RtTensor **joined) {
    Slices *slices = &scan->slices[i];
    Joining how = {0, is_there(scan->exec, scan->step, scan->states + i)};
    if (slices->count == 0) {
        *joined = join_none(scan->exec, scan->body, scan->states + i, how.there);
        return *joined;
    }
    if (slices->list->items[0].state != RT_TENSOR)
        return exec_fail(scan->exec, scan->step, "scan output %u is not a tensor", i);
    if (is_reversed(scan, "scan_output_directions", i)) reverse(slices);
    uint32_t rank = slices->list->items[0].tensor->tensor.rank + 1;
    return scan_axis(scan, "scan_output_axes", i, rank, &how.axis) &&
           join(scan->exec, scan->step, slices, how, joined);
}

/* One sequence: states and scan outputs end up in results. */
static bool scan_sequence(Scan *scan, RtValue *results) {
    Exec *exec = scan->exec;
    const Plan *plan = &exec->loaded->plan;
    const PlanGraph *body = &plan->graphs[scan->body];
    for (uint32_t i = 0; i < scan->states; i++) {
        RtTensor *state = batch_item(scan, i);
        if (!state) return false;
        set_input(exec, scan->body, i, tensor_value(state));
    }
    for (int64_t i = 0; i < scan->length; i++)
        if (!scan_once(scan, i)) return false;
    for (uint32_t i = 0; i < scan->states; i++)
        results[i] = rt_value_ref(exec->values[plan->operands[body->inputs.first + i]]);
    for (uint32_t i = 0; i < scan->outputs; i++) {
        RtTensor *joined = NULL;
        if (!scan_join(scan, i, &joined)) return false;
        results[scan->states + i] = tensor_value(joined);
        drop(&scan->slices[i]);
    }
    return true;
}

/* Opset 8: every operand has a batch axis in front, and each item its own length. */
static bool scan_batch(Scan *scan, RtValue *results, Slices *batches) {
    Exec *exec = scan->exec;
    RtTensor *any = scan_operand(scan, 0);
    RtValue *lengths = exec_input(exec, scan->step, 0);
    if (!any || any->tensor.rank == 0 || any->tensor.dims[0] == 0)
        return exec_fail(exec, scan->step, "a scan needs a batch");
    int64_t size = any->tensor.dims[0], longest = scan->length;
    uint32_t total = scan->states + scan->outputs;
    for (scan->batch = 0; scan->batch < size; scan->batch++) {
        if (lengths && lengths->state == RT_TENSOR) {
            const KernelTensor *t = &lengths->tensor->tensor;
            if (t->dtype != DTYPE_INT64 || t->count != (uint64_t)size)
                return exec_fail(exec, scan->step, "sequence_lens does not fit the batch");
            scan->length = ((const int64_t *)t->data)[scan->batch];
            if (scan->length < 0 || scan->length > longest)
                return exec_fail(exec, scan->step, "a sequence's length is out of range");
        }
        if (!scan_sequence(scan, results)) return false;
        for (uint32_t i = 0; i < total; i++) {
            RtValue value = results[i];
            results[i] = (RtValue){.state = RT_UNSET};
            if (!push(exec, &batches[i], value)) return false;
        }
    }
    for (uint32_t i = 0; i < total; i++) {
        RtTensor *joined = NULL;
        if (!join(exec, scan->step, &batches[i], (Joining){0, false}, &joined)) return false;
        results[i] = tensor_value(joined);
    }
    return true;
}

static bool scan_fits(Scan *scan) {
    const Plan *plan = &scan->exec->loaded->plan;
    const PlanGraph *body = &plan->graphs[scan->body];
    int64_t inputs = exec_int_attr(scan->step, "num_scan_inputs", 0);
    uint32_t operands = scan->step->plan->inputs.count;
    if (inputs < 1 || operands < scan->first || inputs > operands - scan->first ||
        body->inputs.count != operands - scan->first ||
        body->outputs.count < body->inputs.count - inputs)
        return exec_fail(scan->exec, scan->step, "its body's inputs and outputs do not fit");
    scan->inputs = (uint32_t)inputs;
    scan->states = operands - scan->first - scan->inputs;
    scan->outputs = body->outputs.count - scan->states;
    return true;
}

static bool scan_turns(void *data) {
    Scan *scan = data;
    return scan->batch < 0 ? scan_sequence(scan, scan->results)
                           : scan_batch(scan, scan->results, scan->batches);
}

bool exec_scan(Exec *exec, const LoadedStep *step) {
    bool old = step->opset < 9;
    Scan scan = {.exec = exec,
                 .step = step,
                 .body = exec_graph_attr(step, "body"),
                 .first = old,
                 .batch = old ? 0 : -1};
    if (scan.body == PLAN_NONE) return exec_fail(exec, step, "it has no body");
    if (!scan_fits(&scan) || !scan_lengths(&scan)) return false;
    uint32_t total = scan.states + scan.outputs;
    uint64_t size = total * (2 * sizeof(Slices) + sizeof(RtValue));
    Buffer *buffer = buffer_new(&exec->pool, size + 1, exec->err);
    if (!buffer) return false;
    RtValue *results = scan.results = buffer_data(buffer);
    memset(results, 0, size);
    Slices *batches = scan.batches = (Slices *)(results + total);
    scan.slices = batches + total;
    bool jumped, ok = guarded(exec, scan_turns, &scan, &jumped);
    for (uint32_t i = 0; i < total; i++) {
        if (ok)
            exec_output(exec, step, i, results[i]);
        else
            rt_value_clear(&results[i]);
        drop(&batches[i]);
        drop(&scan.slices[i]);
    }
    buffer_unref(buffer);
    if (jumped) arena_exhausted(&exec->scratch);
    return ok;
}

/* ---- SequenceMap ----------------------------------------------------------------------------- */

static bool map_item(Exec *exec, const LoadedStep *step, uint32_t body, uint32_t index) {
    for (uint32_t i = 0; i < step->plan->inputs.count; i++) {
        RtValue *value = exec_input(exec, step, i);
        if (!value) return exec_fail(exec, step, "input %u is missing", i);
        if (value->state != RT_LIST) {
            set_input(exec, body, i, rt_value_ref(*value));
            continue;
        }
        if (index >= value->list->count)
            return exec_fail(exec, step, "its sequences have different lengths");
        set_input(exec, body, i, rt_value_ref(value->list->items[index]));
    }
    return exec_graph(exec, body);
}

bool exec_sequence_map(Exec *exec, const LoadedStep *step) {
    uint32_t body = exec_graph_attr(step, "body"), outputs = step->plan->outputs.count;
    RtValue *first = exec_input(exec, step, 0);
    if (body == PLAN_NONE || !first || first->state != RT_LIST ||
        output_count(exec, body) < outputs)
        return exec_fail(exec, step, "it has no body, no sequence, or too few outputs");
    uint32_t count = first->list->count;
    for (uint32_t i = 0; i < outputs; i++) {
        RtList *list = rt_list_new(&exec->pool, count, exec->err);
        if (!list) return false;
        exec_output(exec, step, i, (RtValue){.state = RT_LIST, .list = list});
    }
    for (uint32_t k = 0; k < count; k++) {
        if (!map_item(exec, step, body, k)) return false;
        for (uint32_t i = 0; i < outputs; i++) {
            if (step->outputs[i] == PLAN_NONE) continue;
            exec->values[step->outputs[i]].list->items[k] = exec_graph_output(exec, body, i);
        }
    }
    return true;
}
