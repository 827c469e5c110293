// SPDX-License-Identifier: Apache-2.0
/* Outputs as callers have them: in the context's memory until the next run, in memory of the
 * caller's that was bound before, or taken out of the context for good.
 *
 * A step writes into bound memory itself wherever its output is one of its own (exec_new_tensor). All
 * else is copied there after the run: constants, inputs that are handed on, what lies where an input
 * was or in a carried cache, results of subgraphs and of devices. What is taken is copied, too, but
 * for a tensor that nobody else holds in memory of its own, which an output has from the run after it
 * was first taken on. */
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "carry.h"
#include "checked.h"
#include "context.h"
#include "exec_memory.h"

static int compare_name(const void *name, const void *io) {
    return strcmp(name, (*(const DemiPlanIo *const *)io)->name);
}

/* The place in `list` of what `sorted` has under that name; count where there is none. */
static size_t find(const DemiPlanIo *list, const DemiPlanIo *const *sorted, size_t count,
                   const char *name) {
    const DemiPlanIo *const *at =
        count ? bsearch(name, sorted, count, sizeof *at, compare_name) : NULL;
    return at ? (size_t)(*at - list) : count;
}

size_t plan_find_input(const DemiPlan *plan, const char *name) {
    return find(plan->inputs, plan->inputs_by_name, plan->input_count, name);
}

size_t plan_find_output(const DemiPlan *plan, const char *name) {
    return find(plan->outputs, plan->outputs_by_name, plan->output_count, name);
}

void context_let_last(DemiContext *context, uint32_t value) {
    bool *lasting = context->owned.lasting;
    if (!lasting)
        lasting = ARENA_ARRAY(&context->arena, bool, context->exec.loaded->plan.value_count + 1);
    context->owned.lasting = lasting;
    context->exec.owned.lasting = lasting;
    if (!lasting[value]) exec_memory_forget(&context->exec);
    lasting[value] = true;
}

/* ---- bound ----------------------------------------------------------------------------------- */

static bool may_bind(const DemiPlanIo *io, const void *data, Err *err) {
    const size_t element = kernel_element_size((Dtype)io->dtype);
    if (io->kind != DEMI_DATA_TENSOR_KIND || io->dtype == DEMI_STRING)
        return err_set(err, ERR_USAGE, "only numeric tensors can be bound");
    if ((uintptr_t)data % (element < 8 ? element : 8))
        return err_set(err, ERR_USAGE, "the memory is not aligned to the element size");
    return true;
}

/* False where there is no memory for its tables. */
static bool bind(DemiContext *context, size_t i, struct OwnMemory memory) {
    ContextOwned *owned = &context->owned;
    Exec *exec = &context->exec;
    MemTrap trap;
    if (setjmp(trap.env)) return false;
    context->arena.trap = &trap;
    if (!owned->bound) {
        owned->bound =
            ARENA_ARRAY(&context->arena, struct OwnMemory, exec->loaded->plan.value_count + 1);
        owned->given = ARENA_ARRAY(&context->arena, struct OwnMemory, context->plan->output_count);
    }
    const uint32_t value = context_output_value(context, i);
    if (!owned->given[i].data != !memory.data)
        exec_memory_forget(exec); /* its place is not needed */
    owned->given[i] = memory;
    owned->bound[value] = memory;
    exec->owned.bound = owned->bound;
    return true;
}

DemiStatus demi_context_bind_output(DemiContext *context, const char *name, void *data,
                                    uint64_t size, DemiError *error) {
    const DemiPlan *plan = context->plan;
    const size_t i = plan_find_output(plan, name);
    Err err = {0};
    if (i == plan->output_count)
        err_set(&err, ERR_USAGE, "the model has no such output");
    else if (data)
        may_bind(&plan->outputs[i], data, &err);
    if (err.code == ERR_NONE && !bind(context, i, (struct OwnMemory){data, data ? size : 0}))
        err_out_of_memory(&err);
    if (err.code != ERR_NONE) err_operand(&err, "output '%s'", name);
    return context_end(&err, error);
}

/* Puts output i where it is bound to. */
static bool put(DemiContext *context, size_t i) {
    const struct OwnMemory *to = &context->owned.given[i];
    const RtValue *value = &context->exec.values[context_output_value(context, i)];
    if (!to->data || value->state != RT_TENSOR || context_is_there(context, i)) return true;
    const KernelTensor *tensor = &value->tensor->tensor;
    const uint64_t size = tensor->count * kernel_element_size(tensor->dtype);
    if (size > to->size) {
        err_set(&context->err, ERR_USAGE, "it is larger than the memory that it is bound to");
        err_operand(&context->err, "output '%s'", context->plan->outputs[i].name);
        err_expected(&context->err, "at most %llu bytes", (unsigned long long)to->size);
        err_actual(&context->err, "%llu", (unsigned long long)size);
        return false;
    }
    if (tensor->data != to->data) carry_copy(to->data, tensor);
    context->outputs[i].data = to->data;
    return true;
}

/* ---- of a run -------------------------------------------------------------------------------- */

bool context_collect(DemiContext *context) {
    const size_t count = context->plan->output_count;
    for (size_t i = 0; i < count; i++) {
        context->outputs[i] =
            context_give(&context->result, &context->exec.values[context_output_value(context, i)]);
        if (context_is_there(context, i))
            context->outputs[i].data = context->owned.given_there[i].data;
        if (context->owned.given && !put(context, i)) return false;
    }
    context->output_count = (uint32_t)count;
    return true;
}

/* One that grows is made plain when it is asked for: the context's values are its own to change. */
const DemiData *demi_context_output(const DemiContext *context, size_t i) {
    if (i >= context->output_count) return NULL;
    RtValue *value = &context->exec.values[context_output_value(context, i)];
    if (value->state == RT_UNSET) return NULL; /* taken */
    if (value->state != RT_TENSOR) return &context->outputs[i];
    if (value->tensor->tensor.room && !(context->owned.given && context->owned.given[i].data)) {
        Err ignored = {0};
        Pool *pool = (Pool *)(uintptr_t)&context->exec.pool;
        RtTensor *plain = carry_plain(pool, value->tensor, &ignored);
        if (!plain) return NULL;
        rt_value_set(value, (RtValue){.state = RT_TENSOR, .tensor = plain});
        context->outputs[i] = context_give(NULL, value); /* a tensor needs no arena */
    }
    return &context->outputs[i];
}

/* ---- taken ----------------------------------------------------------------------------------- */

/* What a caller has taken: all that it points to lies behind it, but for elements that were the
 * context's. */
typedef struct Taken {
    DemiData data;
    Allocator allocator; /* of all of it */
    void *elements;      /* NULL, or to be given back, with their size */
    size_t size, own;    /* own: of this */
} Taken;

enum { LINE = 64 }; /* elements are aligned to it */

/* Where the next piece of a block goes. Without a block it is only measured. */
typedef struct Block {
    char *at;
    uint64_t size;
    bool fits;
} Block;

static void *block_piece(Block *block, uint64_t size) {
    void *piece = block->at ? block->at + block->size : NULL;
    block->fits =
        block->fits && checked_add(block->size, size, &block->size) && block->size < SIZE_MAX / 2;
    if (block->fits) block->size = (block->size + LINE - 1) / LINE * LINE;
    return piece;
}

static void copy_text(Block *block, DemiString *to, const DemiData *of, uint64_t count) {
    const DemiString *strings = of->data;
    for (uint64_t i = 0, size; i < count; i++) {
        size = strings[i].size;
        char *text = block_piece(block, size);
        if (!text) continue;
        if (size) memcpy(text, strings[i].text, (size_t)size);
        to[i] = (DemiString){size, text};
    }
}

/* A copy of the value in the block; `elements` false: but for its elements. */
static void copy_data(Block *block, DemiData *to, const DemiData *of, bool elements) {
    uint64_t count = 0;
    DemiData *items = NULL;
    *to = *of;
    if (of->kind == DEMI_DATA_TENSOR_KIND) {
        int64_t *dims = block_piece(block, of->rank * sizeof *dims);
        if (dims && of->rank) memcpy(dims, of->dims, of->rank * sizeof *dims);
        to->dims = dims;
        if (!elements || !checked_count(of->dims, of->rank, &count)) return;
        const uint64_t size = count * kernel_element_size((Dtype)of->dtype);
        void *data = block_piece(block, size);
        if (data && size) memcpy(data, of->data, (size_t)size);
        if (of->dtype == DEMI_STRING) copy_text(block, data, of, count);
        to->data = data;
    } else if (of->kind == DEMI_DATA_SEQUENCE_KIND) {
        to->items = items = block_piece(block, of->count * sizeof *items);
        for (size_t i = 0; i < of->count; i++)
            copy_data(block, items ? &items[i] : &(DemiData){0}, &of->items[i], true);
    }
}

/* Is the value's memory to be had without a copy: nobody else holds it, it is no other output's, and
 * its own? */
static bool is_free(const DemiContext *context, size_t output, const RtValue *value) {
    const uint32_t number = context_output_value(context, output);
    for (size_t i = 0; i < context->plan->output_count; i++)
        if (i != output && context_output_value(context, i) == number) return false;
    const RtTensor *tensor = value->state == RT_TENSOR ? value->tensor : NULL;
    return tensor && tensor->refs == 1 && !tensor->tensor.room && tensor->buffer &&
           tensor->tensor.dtype != DTYPE_STRING &&
           tensor->tensor.data == context->outputs[output].data &&
           buffer_is_apart(tensor->buffer, tensor->tensor.data);
}

/* From the next run on the output has memory of its own, if there is any for saying so. */
static void let_last(DemiContext *context, size_t i) {
    MemTrap trap;
    if (setjmp(trap.env)) return;
    context->arena.trap = &trap;
    context_let_last(context, context_output_value(context, i));
}

static Taken *take(DemiContext *context, size_t i, const DemiData *output, Err *err) {
    RtValue *value = &context->exec.values[context_output_value(context, i)];
    const bool moved = is_free(context, i, value);
    Block measure = {.fits = true};
    DemiData ignored;
    block_piece(&measure, sizeof(Taken));
    copy_data(&measure, &ignored, output, !moved);
    Block block = {.fits = true};
    const Allocator *allocator = &context->exec.pool.allocator;
    block.at = measure.fits ? allocator_take(allocator, (size_t)measure.size, LINE) : NULL;
    if (!block.at) {
        err_out_of_memory(err);
        return NULL;
    }
    Taken *taken = block_piece(&block, sizeof *taken);
    copy_data(&block, &taken->data, output, !moved);
    taken->allocator = *allocator;
    taken->own = (size_t)measure.size;
    taken->elements = NULL;
    if (moved) {
        taken->elements = buffer_release(value->tensor->buffer, &taken->size);
        value->tensor->buffer = NULL;
        rt_value_clear(value);
    } else {
        let_last(context, i);
    }
    return taken;
}

DemiStatus demi_context_take_output(DemiContext *context, size_t i, DemiData **taken,
                                    DemiError *error) {
    Err err = {0};
    const DemiData *output = demi_context_output(context, i);
    if (!output) err_set(&err, ERR_USAGE, "there is no output %zu to take", i);
    if (output && context_is_there(context, i)) {
        err_set(&err, ERR_USAGE, "output %zu is in device memory", i);
        output = NULL;
    }
    Taken *made = output ? take(context, i, output, &err) : NULL;
    *taken = made ? &made->data : NULL;
    return context_end(&err, error);
}

void demi_data_free(DemiData *taken) {
    if (!taken) return;
    Taken *all = (Taken *)taken; /* its first member */
    const Allocator allocator = all->allocator;
    if (all->elements) allocator_give(&allocator, all->elements, all->size);
    allocator_give(&allocator, all, all->own);
}
