// SPDX-License-Identifier: Apache-2.0
/* Constants as kernels want them; see step_share.h. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "step_share.h"

#include <setjmp.h>
#include <string.h>
#include <sys/mman.h>

#include "element_convert.h"
#include "plan_share.h"

/* What plan_share_get needs to pack a constant: by a KernelPack, by a layout, or not at all, where
 * its elements are widened. */
typedef struct PackJob {
    StepCall *s;
    uint32_t input;
    KernelPack pack;
    const WeightLayout *layout;
    uint64_t size, variant;
} PackJob;

static uint32_t value_of(const StepCall *s, uint32_t i) {
    return s->step->inputs[i];
}

static const void *packed_data(const LoadedPlan *loaded, uint32_t value) {
    return loaded->plan.data + loaded->plan.values[value].data;
}

bool step_stored_narrow(const StepCall *s, uint32_t i) {
    Dtype dtype = s->exec->loaded->constants[value_of(s, i)].dtype;
    bool narrow = dtype_is_reduced(dtype);
    return narrow && s->call.inputs[i].dtype == DTYPE_FLOAT;
}

/* ---- elements -------------------------------------------------------------------------------- */

/* What a constant has become is read instead of it: its pages of a file need not stay. */
static void forget(const LoadedPlan *loaded, uint32_t value) {
    if (loaded->file)
        plan_file_forget(loaded->file, packed_data(loaded, value),
                         (size_t)loaded->plan.values[value].size);
}

/* Elements that end where the wider ones will. */
static void widen_up(Dtype dtype, char *to, const KernelTensor *from, const char *plain) {
    enum { PIECE = 1024, WIDEST = 2 };
    char piece[PIECE * WIDEST];
    const uint64_t stored = kernel_element_size(from->dtype), size = kernel_element_size(dtype);
    for (uint64_t i = 0, count; i < from->count; i += count) {
        count = from->count - i < PIECE ? from->count - i : PIECE;
        memcpy(piece, plain + i * stored, count * stored);
        element_convert(dtype, to + i * size, from->dtype, piece, count);
    }
}

/* Of a file's pages those that were read go, a few at a time: widened or not, it is in memory
 * once. */
bool step_write_plain(const LoadedPlan *loaded, uint32_t value, Dtype dtype, void *to) {
    enum { PIECE = 1 << 18 };
    const KernelTensor *from = &loaded->constants[value];
    const uint64_t stored = kernel_element_size(from->dtype), size = kernel_element_size(dtype);
    if (loaded->layouts[value]) {
        if (size < stored) return false;
        /* at the end, from where what is widened is moved up */
        char *plain = (char *)to + from->count * (size - stored);
        weight_layout_unpack(loaded->layouts[value], packed_data(loaded, value), plain);
        forget(loaded, value);
        if (dtype != from->dtype) widen_up(dtype, to, from, plain);
        return true;
    }
    for (uint64_t i = 0; i < from->count; i += PIECE) {
        uint64_t count = from->count - i < PIECE ? from->count - i : PIECE;
        const char *piece = (const char *)from->data + i * stored;
        element_convert(dtype, (char *)to + i * size, from->dtype, piece, count);
        /* all so far: where a page is read, those around it come, too */
        if (loaded->file)
            plan_file_forget(loaded->file, from->data, (size_t)((i + count) * stored));
    }
    return true;
}

const KernelTensor *step_constant(KernelCall *call, uint32_t i) {
    StepCall *s = step_call_of(call);
    const LoadedPlan *loaded = s->exec->loaded;
    const KernelTensor *from = &loaded->constants[value_of(s, i)];
    Dtype wide = call->inputs[i].dtype;
    const bool packed = loaded->layouts[value_of(s, i)] != NULL;
    if (!packed && !from->data && from->count) return NULL; /* not read where plans are made */
    if (wide == from->dtype && !packed) return from;
    uint64_t size = from->count * kernel_element_size(wide); /* checked with the dims */
    KernelTensor *to = arena_copy(&s->exec->scratch, from, sizeof *from);
    to->dtype = wide;
    to->data = step_host_workspace(call, size);
    return to->data && step_write_plain(loaded, value_of(s, i), wide, to->data) ? to : NULL;
}

/* ---- packing --------------------------------------------------------------------------------- */

/* A constant in the call's type for the while that it is packed, in memory that the system has back
 * at once: what is packed next to it is to stay. */
typedef struct Copy {
    KernelTensor tensor;
    uint64_t size; /* 0: there is none */
} Copy;

static bool copy_take(const PackJob *job, Dtype dtype, Copy *copy) {
    Exec *exec = job->s->exec;
    const uint32_t value = value_of(job->s, job->input);
    copy->tensor = exec->loaded->constants[value];
    copy->tensor.dtype = dtype;
    uint64_t size = copy->tensor.count * kernel_element_size(copy->tensor.dtype);
    if (!pool_charge(&exec->pool, size)) return false;
    void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
        pool_discharge(&exec->pool, size);
        return false;
    }
    copy->tensor.data = data;
    copy->size = size;
    return step_write_plain(exec->loaded, value, copy->tensor.dtype, data);
}

static void copy_free(Pool *pool, Copy *copy) {
    if (!copy->size) return;
    munmap(copy->tensor.data, copy->size);
    pool_discharge(pool, copy->size);
}

/* Other threads wait meanwhile: what would jump out of here ends here. */
static bool pack_by_function(PackJob *job, const KernelTensor *from, void *to) {
    KernelCall *call = &job->s->call;
    Exec *exec = job->s->exec;
    MemTrap *before = exec->scratch.trap, trap;
    Err *err = call->err, ignored = {0};
    volatile bool ok = false;
    call->err = &ignored;
    if (!setjmp(trap.env)) {
        exec_set_trap(exec, &trap);
        KernelPackJob pack = {from, to, job->size, job->variant};
        ok = job->pack(call, &pack);
    }
    exec_set_trap(exec, before);
    call->err = err;
    return ok;
}

static bool fill(void *data, void *to) {
    PackJob *job = data;
    const LoadedPlan *loaded = job->s->exec->loaded;
    const uint32_t value = value_of(job->s, job->input);
    const KernelTensor *stored = &loaded->constants[value];
    const KernelCall *call = &job->s->call;
    const bool narrows = job->layout && kernel_narrows(call, job->input, job->layout);
    const Dtype dtype = narrows ? DTYPE_BFLOAT16 : call->inputs[job->input].dtype;
    if (!job->pack && !job->layout) return step_write_plain(loaded, value, dtype, to);
    bool as_is = (stored->dtype == dtype && !loaded->layouts[value]) || !stored->count;
    Copy copy = {.size = 0};
    bool ok = as_is || copy_take(job, dtype, &copy);
    const KernelTensor *from = as_is ? stored : &copy.tensor;
    if (ok && job->layout)
        weight_layout_pack(job->layout, from->data, to);
    else
        ok = ok && pack_by_function(job, from, to);
    if (ok) forget(loaded, value);
    copy_free(&job->s->exec->pool, &copy);
    return ok;
}

/* ---- sharing --------------------------------------------------------------------------------- */

/* What contexts share counts in each that uses it, once, as it stays as long as the plan. */
static bool is_counted(const Exec *exec, uint32_t number) {
    const uint8_t *counted = exec->forms.counted ? buffer_data(exec->forms.counted) : NULL;
    return counted && number < exec->forms.counted->size && counted[number];
}

static void set_counted(Exec *exec, uint32_t number) {
    uint64_t room = exec->forms.counted ? exec->forms.counted->size : 0;
    Err ignored = {0};
    if (number >= room) {
        Buffer *larger = buffer_new(&exec->pool, 2 * (uint64_t)number + 64, &ignored);
        if (!larger) return; /* it counts again the next time */
        memset(buffer_data(larger), 0, larger->size);
        if (room) memcpy(buffer_data(larger), buffer_data(exec->forms.counted), room);
        buffer_unref(exec->forms.counted);
        exec->forms.counted = larger;
    }
    ((uint8_t *)buffer_data(exec->forms.counted))[number] = 1;
}

/* Entries of the host and of a device have numbers of their own. */
static uint32_t counted_as(const StepCall *s, uint32_t number) {
    return 2 * number + s->step->device;
}

/* No more than half the budget goes into what saves time only: the rest is for values. */
static const void *share(PackJob *job) {
    StepCall *s = job->s;
    Exec *exec = s->exec;
    const uint64_t size = job->size;
    PlanShare *shared = s->step->device ? exec->loaded->remote_share : exec->loaded->share;
    if (exec->options.notes && s->step->device) return exec->options.notes; /* not read, as below */
    if (!shared || exec->options.notes ||
        (exec->options.small && !s->step->device && step_stored_narrow(s, job->input)))
        return NULL;
    ShareKey key = {value_of(s, job->input),
                    s->call.inputs[job->input].dtype,
                    job->pack,
                    job->variant,
                    size,
                    {.word = 0}};
    if (job->layout) key.layout = *job->layout;
    ShareFill filling = {fill, job, exec->err};
    uint32_t number = 0;
    const void *bytes = plan_share_get(shared, &key, NULL, &number);
    if (bytes && is_counted(exec, counted_as(s, number))) return bytes;
    Pool *pool = step_pool(s);
    const uint64_t most = pool->budget / 2;
    const bool fits = s->step->device || (size <= most && exec->forms.shared <= most - size);
    if (!fits || !pool_charge(pool, size)) return NULL;
    if (!bytes) bytes = plan_share_get(shared, &key, &filling, &number);
    if (!bytes) {
        pool_discharge(pool, size);
        return NULL;
    }
    if (!s->step->device) exec->forms.shared += size;
    set_counted(exec, counted_as(s, number));
    return bytes;
}

const void *step_share(KernelCall *call, uint32_t i, KernelPack pack, uint64_t variant,
                       uint64_t size) {
    PackJob job = {step_call_of(call), i, pack, NULL, size, variant};
    return share(&job);
}

const void *step_stored_weights(KernelCall *call, uint32_t i, const WeightLayout *layout) {
    const StepCall *s = step_call_of(call);
    const LoadedPlan *loaded = s->exec->loaded;
    const uint32_t value = value_of(s, i);
    if (loaded->constants[value].dtype != call->inputs[i].dtype) return NULL;
    if (weight_layout_loses(layout)) {
        const PlanPack *beside = loaded->beside[value];
        bool there = beside && weight_layout_equals(&beside->layout, layout);
        return there ? loaded->plan.data + beside->data : NULL;
    }
    const WeightLayout *stored = loaded->layouts[value];
    return stored && weight_layout_equals(stored, layout) ? packed_data(loaded, value) : NULL;
}

/* Where a plan is made: what is not NULL, and not read. */
static const void *note(LayoutNotes *notes, uint32_t i, const WeightLayout *layout) {
    const size_t room = sizeof notes->items / sizeof *notes->items;
    if (notes->count < room) notes->items[notes->count] = (LayoutNote){i, *layout};
    notes->count++;
    return notes;
}

const void *step_weights(KernelCall *call, uint32_t i, const WeightLayout *layout) {
    StepCall *s = step_call_of(call);
    const bool narrows = kernel_narrows(call, i, layout);
    if (narrows && s->exec->loaded->constants[value_of(s, i)].dtype != DTYPE_BFLOAT16) return NULL;
    if (s->exec->options.notes) return note(s->exec->options.notes, i, layout);
    const void *stored = step_stored_weights(call, i, layout);
    PackJob job = {s, i, NULL, layout, weight_layout_size(layout), 0};
    return stored ? stored : share(&job);
}

/* ---- watching -------------------------------------------------------------------------------- */

typedef struct PlainJob {
    const LoadedPlan *loaded;
    uint32_t value;
} PlainJob;

static bool fill_plain(void *data, void *to) {
    const PlainJob *job = data;
    return step_write_plain(job->loaded, job->value, job->loaded->constants[job->value].dtype, to);
}

const void *step_plain(const LoadedPlan *loaded, uint32_t value) {
    const KernelTensor *tensor = &loaded->constants[value];
    PlainJob job = {loaded, value};
    ShareFill filling = {fill_plain, &job, NULL};
    ShareKey key = {.value = value,
                    .dtype = tensor->dtype,
                    .size = tensor->count * kernel_element_size(tensor->dtype)};
    uint32_t number;
    return loaded->share ? plan_share_get(loaded->share, &key, &filling, &number) : NULL;
}
