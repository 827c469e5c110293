// SPDX-License-Identifier: Apache-2.0
/* Values that runs hand on, and those that grow in place; see carry.h. */
#include "carry.h"

#include <string.h>

#include "checked.h"
#include "exec_memory.h"
#include "op_attrs.h"
#include "step_specialization.h"

/* Blocks of `width` bytes, `from` and `to` of which lie so many bytes apart. */
typedef struct Rows {
    uint64_t count, width, from, to;
} Rows;

static void copy_rows(void *to, const void *from, const Rows *rows) {
    for (uint64_t i = 0; rows->width && i < rows->count; i++)
        memcpy((char *)to + i * rows->to, (const char *)from + i * rows->from, rows->width);
}

/* Bytes of `slices` slices of the axis. */
static uint64_t slices_size(const KernelTensor *tensor, uint32_t axis, int64_t slices) {
    return (uint64_t)slices * kernel_span(tensor, axis + 1, tensor->rank) *
           kernel_element_size(tensor->dtype);
}

static int64_t room_of(const KernelTensor *tensor, uint32_t axis) {
    return tensor->room && tensor->grown == axis ? tensor->room : tensor->dims[axis];
}

/* ---- who may grow ---------------------------------------------------------------------------- */

static bool reads(const LoadedStep *step, uint32_t value) {
    for (uint32_t i = 0; i < step->plan->inputs.count; i++)
        if (step->inputs[i] == value) return true;
    return false;
}

/* All rows of the step take the value where it lies. */
static bool takes_room(const LoadedStep *step, const PlanValue *value) {
    for (size_t i = 0; i < step->row_count; i++) {
        const KernelRow *row = &step->rows[i];
        if (!(row->flags & KERNEL_ROOM) ||
            !(row->flags & KERNEL_BYTES || row->types >> value->dtype & 1))
            return false;
    }
    return !step->exec && step->row_count;
}

static bool appends(const LoadedStep *step, uint32_t from, uint32_t to) {
    return !step->exec && step->row_count == 1 && step->rows->flags & KERNEL_JOINS &&
           step->plan->inputs.count == 2 && step->inputs[0] == from && step->inputs[1] != from &&
           step->inputs[1] != PLAN_NONE && step->outputs[0] == to;
}

/* One of the two caches that a step's kernel adds rows to. */
static bool adds_rows(const LoadedStep *step, const PlanValue *values, uint32_t from, uint32_t to) {
    enum { CACHES = 2 };
    uint32_t found = CACHES, readers = 0;
    if (step->exec || step->row_count != 1 || !(step->rows->flags & KERNEL_CACHES)) return false;
    const uint32_t first = KERNEL_CACHES_FIRST(step->rows->flags);
    for (uint32_t i = 0; i < step->plan->inputs.count; i++) readers += step->inputs[i] == from;
    for (uint32_t i = 0; i < CACHES; i++)
        if (first + i < step->plan->inputs.count && 1 + i < step->plan->outputs.count &&
            step->inputs[first + i] == from && step->outputs[1 + i] == to)
            found = i;
    return found < CACHES && readers == 1 && step->rows->types >> values[from].dtype & 1;
}

/* An inner graph that gives the value makes another one of it. */
static bool leaves_graph(const Plan *plan, uint32_t value) {
    for (uint32_t g = 1; g < plan->graph_count; g++) {
        const PlanSpan outputs = plan->graphs[g].outputs;
        for (uint32_t i = 0; i < outputs.count; i++)
            if (plan->operands[outputs.first + i] == value) return true;
    }
    return false;
}

uint32_t carry_step(const LoadedPlan *loaded, uint32_t from, uint32_t to) {
    const Plan *plan = &loaded->plan;
    const PlanSpan main = plan->graphs[0].steps;
    uint32_t found = PLAN_NONE;
    if (leaves_graph(plan, from) || leaves_graph(plan, to)) return PLAN_NONE;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const LoadedStep *step = &loaded->steps[i];
        const bool here = i >= main.first && i - main.first < main.count;
        if (here && found == PLAN_NONE &&
            (appends(step, from, to) || adds_rows(step, plan->values, from, to)))
            found = i;
        else if ((reads(step, from) && !takes_room(step, &plan->values[from])) ||
                 (reads(step, to) && !takes_room(step, &plan->values[to])))
            return PLAN_NONE;
    }
    return found;
}

/* ---- growing --------------------------------------------------------------------------------- */

/* Memory for as many slices as `whole` has room for, the old ones in it; NULL with the error set. */
static Buffer *move_out(Pool *pool, const KernelTensor *old, const KernelTensor *whole, Err *err) {
    const uint32_t axis = whole->grown;
    Rows rows = {.count = kernel_span(whole, 0, axis),
                 .width = slices_size(old, axis, old->dims[axis]),
                 .from = slices_size(old, axis, room_of(old, axis)),
                 .to = slices_size(whole, axis, 1)};
    uint64_t size;
    if (!checked_mul(rows.to, (uint64_t)whole->room, &rows.to) ||
        !checked_mul(rows.to, rows.count, &size))
        size = UINT64_MAX;
    Buffer *buffer = buffer_new(pool, size, err);
    if (buffer) copy_rows(buffer_data(buffer), old->data, &rows);
    return buffer;
}

/* Half as much again. */
static int64_t ample_room(const KernelTensor *whole) {
    enum { LEAST = 32 };
    const int64_t need = whole->dims[whole->grown], more = need / 2 > LEAST ? need / 2 : LEAST;
    return need < INT64_MAX - more ? need + more : need;
}

/* There is more for later runs, if the budget has it. */
static Buffer *make_room(Pool *pool, const KernelTensor *old, KernelTensor *whole, Err *err) {
    const int64_t need = whole->dims[whole->grown];
    Err ignored = {0};
    whole->room = ample_room(whole);
    Buffer *buffer = move_out(pool, old, whole, &ignored);
    if (buffer) return buffer;
    whole->room = need ? need : 1;
    return move_out(pool, old, whole, err);
}

/* Whether the slices behind the tensor's own are free: they lie in memory that was made for this
 * output, whose tensors grow one out of the other. */
static bool has_room(const RtTensor *tensor, const KernelTensor *whole, uint32_t output) {
    return tensor->buffer && tensor->buffer->owner == output && tensor->tensor.room &&
           tensor->tensor.grown == whole->grown && tensor->tensor.room >= whole->dims[whole->grown];
}

bool carry_append(Exec *exec, const LoadedStep *step) {
    const JoinAttrs *attrs = step->kernel_attrs;
    const StepSpecialization *form = step_specialization_get(exec, step);
    if (!form) return exec_name_step(exec, step);
    RtTensor *old = exec->values[step->inputs[0]].tensor;
    const KernelTensor *added = &exec->values[step->inputs[1]].tensor->tensor;
    KernelTensor whole = form->outputs[0];
    KernelCall call = {.err = exec->err};
    if (!kernel_axis(&call, attrs->axis, whole.rank, &whole.grown))
        return exec_name_step(exec, step);
    whole.room = old->tensor.room;
    Buffer *buffer = old->buffer;
    if (has_room(old, &whole, step->outputs[0]))
        buffer->refs++;
    else if (!(buffer = make_room(&exec->pool, &old->tensor, &whole, exec->err)))
        return exec_name_step(exec, step);
    buffer->owner = step->outputs[0];
    whole.data = buffer_data(buffer);
    const uint32_t axis = whole.grown;
    const Rows rows = {.count = kernel_span(&whole, 0, axis),
                       .width = slices_size(added, axis, added->dims[axis]),
                       .from = slices_size(added, axis, added->dims[axis]),
                       .to = slices_size(&whole, axis, whole.room)};
    copy_rows((char *)whole.data + slices_size(&whole, axis, old->tensor.dims[axis]), added->data,
              &rows);
    RtTensor *result = rt_tensor_in(&exec->pool, &whole, buffer, exec->err);
    if (!result) return exec_name_step(exec, step);
    exec->progress.row = form->row;
    exec_output(exec, step, 0, (RtValue){.state = RT_TENSOR, .tensor = result});
    return true;
}

/* Memory for as many rows as `whole` has room for; NULL with the error set. */
static Buffer *new_rows(Pool *pool, const KernelTensor *whole, Err *err) {
    uint64_t size = slices_size(whole, whole->grown, 1);
    if (!checked_mul(size, (uint64_t)whole->room, &size) ||
        !checked_mul(size, kernel_span(whole, 0, whole->grown), &size))
        size = UINT64_MAX;
    return buffer_new(pool, size, err);
}

static bool same_rows(const KernelTensor *a, const KernelTensor *b) {
    return a->rank == b->rank && a->dtype == b->dtype && a->dims[0] == b->dims[0] &&
           a->dims[1] == b->dims[1] && a->dims[3] == b->dims[3];
}

RtTensor *carry_cache(Exec *exec, const LoadedStep *step, uint32_t output,
                      const KernelTensor *shape) {
    enum { ROWS = 2, RANK = 4 }; /* the axis that grows */
    const uint32_t input = KERNEL_CACHES_FIRST(step->rows->flags) + output - 1;
    RtTensor *old = exec->values[step->inputs[input]].tensor;
    KernelTensor whole = *shape;
    Err ignored = {0};
    if (whole.rank != RANK) return exec_new_tensor(exec, step->outputs[output], shape);
    whole.grown = ROWS;
    whole.count = kernel_span(&whole, 0, RANK);
    Buffer *buffer = old->buffer;
    if (same_rows(&old->tensor, &whole) && has_room(old, &whole, step->outputs[output])) {
        whole.room = old->tensor.room;
        buffer->refs++;
    } else {
        const int64_t need = whole.dims[ROWS] ? whole.dims[ROWS] : 1;
        const bool grows = old->tensor.rank != RANK || old->tensor.dims[ROWS] != whole.dims[ROWS];
        whole.room = grows ? ample_room(&whole) : need;
        buffer = new_rows(&exec->pool, &whole, &ignored);
        if (!buffer) {
            whole.room = need;
            buffer = new_rows(&exec->pool, &whole, exec->err);
        }
    }
    if (!buffer) return NULL;
    buffer->owner = step->outputs[output];
    whole.data = buffer_data(buffer);
    return rt_tensor_in(&exec->pool, &whole, buffer, exec->err);
}

/* ---- from run to run ------------------------------------------------------------------------- */

void carry_copy(void *to, const KernelTensor *tensor) {
    const uint32_t axis = tensor->room ? tensor->grown : 0;
    if (!tensor->room) {
        if (tensor->count)
            memcpy(to, tensor->data, tensor->count * kernel_element_size(tensor->dtype));
        return;
    }
    const uint64_t width = slices_size(tensor, axis, tensor->dims[axis]);
    copy_rows(to, tensor->data,
              &(Rows){kernel_span(tensor, 0, axis), width, slices_size(tensor, axis, tensor->room),
                      width});
}

/* A copy in memory of its own. */
static RtTensor *copy_of(Pool *pool, const KernelTensor *tensor, Err *err) {
    RtTensor *copy = rt_tensor_new(pool, tensor->dtype, tensor->rank, tensor->dims, err);
    if (copy) carry_copy(copy->tensor.data, tensor);
    return copy;
}

static RtTensor *same(RtTensor *tensor) {
    tensor->refs++;
    return tensor;
}

RtTensor *carry_plain(Pool *pool, RtTensor *tensor, Err *err) {
    return tensor->tensor.room ? copy_of(pool, &tensor->tensor, err) : same(tensor);
}

/* What lies in the caller's memory, or in a place that the next run has for something else, is
 * copied. */
static RtTensor *keep_tensor(Exec *exec, RtTensor *tensor, Err *err) {
    const Buffer *buffer = tensor->buffer;
    const bool lasts = buffer && buffer->size_class != BUFFER_PLACED;
    return lasts ? same(tensor) : copy_of(&exec->pool, &tensor->tensor, err);
}

RtValue carry_keep(Exec *exec, const RtValue *value, Err *err) {
    RtValue kept = {.state = value->state};
    if (value->state == RT_TENSOR) {
        kept.tensor = keep_tensor(exec, value->tensor, err);
        if (!kept.tensor) kept.state = RT_UNSET;
    } else if (value->state == RT_LIST) {
        const RtList *from = value->list;
        kept.list = rt_list_new(&exec->pool, from->count, err);
        if (!kept.list) kept.state = RT_UNSET;
        for (uint32_t i = 0; kept.list && i < from->count; i++) {
            kept.list->items[i] = carry_keep(exec, &from->items[i], err);
            if (kept.list->items[i].state != RT_UNSET) continue;
            rt_value_clear(&kept);
            break;
        }
    }
    return kept;
}

/* A tensor of other dims on the same elements. */
static RtTensor *cut_view(Pool *pool, RtTensor *tensor, uint32_t axis, int64_t length, Err *err) {
    RtTensor *cut = rt_tensor_view(pool, tensor, tensor->tensor.rank, tensor->tensor.dims, err);
    if (!cut) return NULL;
    int64_t *dims = (int64_t *)(cut + 1); /* what its dims point to */
    dims[axis] = length;
    cut->tensor.count = kernel_span(&cut->tensor, 0, cut->tensor.rank);
    cut->tensor.room = room_of(&tensor->tensor, axis);
    cut->tensor.grown = axis;
    return cut;
}

static void drop(RtTensor *tensor) {
    RtValue value = {.state = RT_TENSOR, .tensor = tensor};
    rt_value_clear(&value);
}

RtTensor *carry_cut(Pool *pool, RtTensor *tensor, uint32_t axis, int64_t length, Err *err) {
    if (length == tensor->tensor.dims[axis]) return same(tensor);
    if (tensor->tensor.room && tensor->tensor.grown == axis)
        return cut_view(pool, tensor, axis, length, err);
    RtTensor *plain = carry_plain(pool, tensor, err);
    if (!plain) return NULL;
    RtTensor *view = cut_view(pool, plain, axis, length, err);
    RtTensor *cut = view ? copy_of(pool, &view->tensor, err) : NULL;
    if (view) drop(view);
    drop(plain);
    return cut;
}
