// SPDX-License-Identifier: Apache-2.0
/* Finding and making the forms of steps; see step_form.h. Everything a form owns is the pool's, so
 * that the budget bounds it. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "step_form.h"

#include <setjmp.h>
#include <sys/mman.h>

#include "checked.h"
#include "element_convert.h"
#include "plan_share.h"
#include "value_key.h"

/* ---- finding --------------------------------------------------------------------------------- */

static uint64_t content_bytes(const KernelTensor *tensor) {
    return tensor->count * kernel_element_size(tensor->dtype);
}

static bool matches(const StepForm *form, const Exec *exec, const LoadedStep *step) {
    const uint64_t *key = form->key;
    for (uint32_t i = 0; i < step->varying_count; i++) {
        const RtValue *value = &exec->values[step->inputs[step->varying[i]]];
        key = value_key_match(value, key);
        if (!key) return false;
        if (form->contents == FORM_NONE) continue;
        const KernelTensor *tensor = &value->tensor->tensor;
        if (!step_shapes_looks(tensor, form->contents)) continue;
        uint64_t bytes = content_bytes(tensor);
        if (bytes && memcmp(key, tensor->data, bytes) != 0) return false;
        key += (bytes + 7) / 8;
    }
    return true;
}

static uint64_t key_size(const Exec *exec, const LoadedStep *step, FormContents contents) {
    uint64_t size = 0;
    for (uint32_t i = 0; i < step->varying_count; i++) {
        const RtValue *value = &exec->values[step->inputs[step->varying[i]]];
        const KernelTensor *tensor = &value->tensor->tensor;
        size += value_key_size(value);
        if (step_shapes_looks(tensor, contents)) size += (content_bytes(tensor) + 7) / 8;
    }
    return size;
}

static void write_key(const Exec *exec, const LoadedStep *step, StepForm *form) {
    uint64_t *to = form->key;
    for (uint32_t i = 0; i < step->varying_count; i++) {
        const RtValue *value = &exec->values[step->inputs[step->varying[i]]];
        const KernelTensor *tensor = &value->tensor->tensor;
        to = value_key_write(value, to);
        if (!step_shapes_looks(tensor, form->contents)) continue;
        uint64_t bytes = content_bytes(tensor);
        if (bytes) memcpy(to, tensor->data, bytes);
        to += (bytes + 7) / 8;
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool takes(const KernelRow *row, Dtype dtype) {
    return row->types >> dtype & 1;
}

/* What the row takes instead of the dtype. */
static Dtype step_given(const KernelRow *row, Dtype dtype) {
    return takes(row, dtype) || row->flags & KERNEL_BYTES ? dtype : element_wide(dtype);
}

static bool row_serves(const KernelRow *row, const KernelCall *call, bool widened) {
    if (!widened) return kernel_row_takes(row, call);
    if (row->flags & KERNEL_BYTES) return true;
    for (uint32_t i = 0; i < call->input_count + call->output_count; i++) {
        const KernelTensor *t =
            i < call->input_count ? &call->inputs[i] : &call->outputs[i - call->input_count];
        if (t->present && !takes(row, step_given(row, t->dtype))) return false;
    }
    return true;
}

/* The row that takes the operands, perhaps widened, behind `after` (NULL: any). Rows that take them
 * as they are come first. */
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

/* ---- making ---------------------------------------------------------------------------------- */

/* What is known of a form before it has memory. */
typedef struct Draft {
    Exec *exec;
    const LoadedStep *step;
    KernelCall call; /* operands in the plan's dtypes, inputs with data, all in scratch */
    FormContents contents;
} Draft;

static bool collect(Draft *d) {
    Exec *exec = d->exec;
    const LoadedStep *step = d->step;
    uint32_t in = step->plan->inputs.count, out = step->plan->outputs.count;
    KernelTensor *inputs = ARENA_ARRAY(&exec->scratch, KernelTensor, in + 1);
    d->call = (KernelCall){.attrs = step->kernel_attrs,
                           .inputs = inputs,
                           .outputs = ARENA_ARRAY(&exec->scratch, KernelTensor, out + 1),
                           .input_count = in,
                           .output_count = out,
                           .opset = step->opset,
                           .constant = step->constant,
                           .err = exec->err};
    for (uint32_t i = 0; i < in; i++) {
        RtValue *value = exec_input(exec, step, i);
        if (!value) continue;
        if (value->state != RT_TENSOR) return exec_fail(exec, step, "input %u is not a tensor", i);
        inputs[i] = value->tensor->tensor;
        if (step->constant[i])
            inputs[i].dtype = (Dtype)exec->loaded->plan.values[step->inputs[i]].dtype;
    }
    for (uint32_t i = 0; i < out; i++) {
        if (step->outputs[i] == PLAN_NONE) continue;
        Dtype dtype = (Dtype)exec->loaded->plan.values[step->outputs[i]].dtype;
        if (!kernel_element_size(dtype))
            return exec_fail(exec, step, "the type of output %u is unknown", i);
        d->call.outputs[i] = (KernelTensor){.present = true, .dtype = dtype};
    }
    return true;
}

/* Output dims by as few contents as they need: what a step once needed it will need again. */
static bool find_dims(Draft *d) {
    Exec *exec = d->exec;
    uint8_t *known = &exec->forms.memos[d->step - exec->loaded->steps].contents;
    bool open = true;
    for (unsigned contents = *known; open; contents++) {
        d->contents = (FormContents)contents;
        if (!step_shapes(exec, d->step, &d->call, d->contents, &open)) return false;
    }
    *known = (uint8_t)d->contents;
    for (uint32_t i = 0; i < d->call.output_count; i++) {
        KernelTensor *out = &d->call.outputs[i];
        if (out->present && !checked_count(out->dims, out->rank, &out->count))
            return err_set(exec->err, ERR_ENV, "a tensor is larger than memory can be");
    }
    return true;
}

/* The type of the elements that input i has in memory. */
static Dtype stored_dtype(const Draft *d, uint32_t i) {
    return d->step->constant[i] ? d->exec->loaded->constants[d->step->inputs[i]].dtype
                                : d->call.inputs[i].dtype;
}

static bool is_view(const Draft *d) {
    const KernelCall *call = &d->call;
    return call->row->flags & KERNEL_VIEW && call->output_count && call->input_count &&
           call->outputs[0].present && call->inputs[0].present &&
           call->outputs[0].dtype == call->inputs[0].dtype &&
           stored_dtype(d, 0) == call->inputs[0].dtype &&
           (call->output_count == 1 || !call->outputs[1].present);
}

static uint64_t total_rank(const KernelTensor *tensors, uint32_t count) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; i++) total += tensors[i].rank;
    return total;
}

/* Copies operands without data, their dims to *dims, which moves on. */
static KernelTensor *copy_operands(KernelTensor *to, const KernelTensor *from, uint32_t count,
                                   int64_t **dims) {
    for (uint32_t i = 0; i < count; i++) {
        to[i] = from[i];
        to[i].data = NULL;
        if (from[i].rank) memcpy(*dims, from[i].dims, from[i].rank * sizeof **dims);
        to[i].dims = *dims;
        *dims += from[i].rank;
    }
    return to;
}

/* The form in memory of its own, all but its row. */
static StepForm *form_new(const Draft *d) {
    Exec *exec = d->exec;
    uint32_t in = d->call.input_count, out = d->call.output_count;
    uint64_t keys = key_size(exec, d->step, d->contents);
    uint64_t dims = total_rank(d->call.inputs, in) + total_rank(d->call.outputs, out);
    uint64_t size = sizeof(StepForm) + (uint64_t)(in + out) * sizeof(KernelTensor) +
                    out * sizeof(RtTensor *) + (keys + dims) * sizeof(uint64_t) + 3 * (uint64_t)in;
    Buffer *self = buffer_new(&exec->pool, size, exec->err);
    if (!self) return NULL;
    StepForm *form = buffer_data(self);
    memset(form, 0, size);
    form->self = self;
    form->contents = d->contents;
    form->in_place = PLAN_NONE;
    form->inputs = (KernelTensor *)(form + 1);
    form->outputs = form->inputs + in;
    form->results = (RtTensor **)(form->outputs + out);
    form->key = (uint64_t *)(form->results + out);
    int64_t *numbers = (int64_t *)(form->key + keys);
    copy_operands(form->inputs, d->call.inputs, in, &numbers);
    copy_operands(form->outputs, d->call.outputs, out, &numbers);
    form->late = (bool *)numbers;
    form->unread = form->late + in;
    form->stored = form->unread + in;
    write_key(exec, d->step, form);
    return form;
}

static void release(const KernelRow *row, void *prepared) {
    if (prepared && row && row->prepare && row->prepare->release) row->prepare->release(prepared);
}

static void form_free(Exec *exec, StepForm *form) {
    release(form->row, form->prepared);
    buffer_unref_all(&exec->pool, form->kept);
    buffer_unref(&exec->pool, form->self);
}

void step_memo_free(Exec *exec, StepMemo *memo) {
    for (StepForm *form = memo->forms, *next; form; form = next) {
        next = form->next;
        form_free(exec, form);
    }
    memo->forms = NULL;
}

/* ---- getting ready --------------------------------------------------------------------------- */

static void *host_keep(KernelCall *call, uint64_t size) {
    StepCall *s = step_call_of(call);
    Err ignored = {0};
    Buffer *buffer = buffer_new(&s->exec->pool, size, &ignored);
    if (!buffer) return NULL;
    buffer->sibling = s->form->kept;
    s->form->kept = buffer;
    return memset(buffer_data(buffer), 0, size);
}

static const KernelTensor *host_constant(KernelCall *call, uint32_t i) {
    StepCall *s = step_call_of(call);
    const KernelTensor *from = &s->exec->loaded->constants[s->step->inputs[i]];
    Dtype wide = call->inputs[i].dtype;
    if (wide == from->dtype) return from;
    uint64_t size = from->count * kernel_element_size(wide); /* checked with the dims */
    KernelTensor *to = arena_copy(&s->exec->scratch, from, sizeof *from);
    to->dtype = wide;
    to->data = kernel_workspace(call, size);
    if (!to->data) return NULL;
    element_convert(wide, to->data, from->dtype, from->data, from->count);
    return to;
}

static void host_set_unread(KernelCall *call, uint32_t i) {
    step_call_of(call)->form->unread[i] = kernel_is_constant(call, i);
}

/* True where what the row takes as float is 16 bit in the plan. */
static bool is_stored_narrow(const StepCall *s, uint32_t i) {
    Dtype dtype = s->exec->loaded->constants[s->step->inputs[i]].dtype;
    bool narrow = dtype == DTYPE_FLOAT16 || dtype == DTYPE_BFLOAT16;
    return narrow && s->call.inputs[i].dtype == DTYPE_FLOAT;
}

static bool host_take_stored(KernelCall *call, uint32_t i) {
    StepCall *s = step_call_of(call);
    return s->form->stored[i] = is_stored_narrow(s, i);
}

/* What plan_share_get needs to call a KernelPack; without one, the elements are widened. */
typedef struct PackJob {
    StepCall *s;
    uint32_t input;
    KernelPack pack;
    uint64_t size, variant;
} PackJob;

/* What a constant has become is read instead of it: its pages of a file need not stay. */
static void forget(const LoadedPlan *loaded, uint32_t value) {
    const KernelTensor *tensor = &loaded->constants[value];
    uint64_t size = tensor->count * kernel_element_size(tensor->dtype);
    if (loaded->file) plan_file_forget(loaded->file, tensor->data, (size_t)size);
}

/* The constant in the call's type. Of a file's pages those that were read go, a few at a time: widened
 * or not, it is in memory once. */
static bool widen(const PackJob *job, char *to) {
    enum { PIECE = 1 << 18 };
    const LoadedPlan *loaded = job->s->exec->loaded;
    const KernelTensor *from = &loaded->constants[job->s->step->inputs[job->input]];
    const Dtype wide = job->s->call.inputs[job->input].dtype;
    const uint64_t stored = kernel_element_size(from->dtype), size = kernel_element_size(wide);
    for (uint64_t i = 0; i < from->count; i += PIECE) {
        uint64_t count = from->count - i < PIECE ? from->count - i : PIECE;
        const char *piece = (const char *)from->data + i * stored;
        element_convert(wide, to + i * size, from->dtype, piece, count);
        /* all so far: where a page is read, those around it come, too */
        if (loaded->file)
            plan_file_forget(loaded->file, from->data, (size_t)((i + count) * stored));
    }
    return true;
}

/* A constant in the call's type for the while that it is packed, in memory that the system has back
 * at once: what is packed next to it is to stay. */
typedef struct Copy {
    KernelTensor tensor;
    uint64_t size; /* 0: there is none */
} Copy;

static bool copy_take(const PackJob *job, Copy *copy) {
    Exec *exec = job->s->exec;
    copy->tensor = exec->loaded->constants[job->s->step->inputs[job->input]];
    copy->tensor.dtype = job->s->call.inputs[job->input].dtype;
    uint64_t size = copy->tensor.count * kernel_element_size(copy->tensor.dtype);
    if (!pool_charge(&exec->pool, size)) return false;
    void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
        pool_discharge(&exec->pool, size);
        return false;
    }
    copy->tensor.data = data;
    copy->size = size;
    return widen(job, data);
}

static void copy_free(Pool *pool, Copy *copy) {
    if (!copy->size) return;
    munmap(copy->tensor.data, copy->size);
    pool_discharge(pool, copy->size);
}

/* Other threads wait meanwhile: what would jump out of here ends here. */
static bool fill(void *data, void *to) {
    PackJob *job = data;
    if (!job->pack) return widen(job, to);
    KernelCall *call = &job->s->call;
    Exec *exec = job->s->exec;
    const KernelTensor *stored = &exec->loaded->constants[job->s->step->inputs[job->input]];
    MemTrap *scratch = exec->scratch.trap, trap;
    Err *err = call->err, ignored = {0};
    Copy copy = {.size = 0};
    volatile bool ok = false;
    bool as_is = stored->dtype == call->inputs[job->input].dtype || !stored->count;
    if (!as_is && !copy_take(job, &copy)) return false;
    call->err = &ignored;
    if (!setjmp(trap.env)) {
        exec->scratch.trap = &trap;
        KernelPackJob pack = {as_is ? stored : &copy.tensor, to, job->size, job->variant};
        ok = job->pack(call, &pack);
    }
    if (ok) forget(exec->loaded, job->s->step->inputs[job->input]);
    exec->scratch.trap = scratch;
    call->err = err;
    copy_free(&exec->pool, &copy);
    return ok;
}

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
        buffer_unref(&exec->pool, exec->forms.counted);
        exec->forms.counted = larger;
    }
    ((uint8_t *)buffer_data(exec->forms.counted))[number] = 1;
}

/* No more than half the budget goes into what saves time only: the rest is for values. */
static const void *host_share(KernelCall *call, uint32_t i, KernelPack pack, uint64_t variant,
                              uint64_t size) {
    StepCall *s = step_call_of(call);
    Exec *exec = s->exec;
    if (!exec->loaded->share || (exec->options.small && is_stored_narrow(s, i))) return NULL;
    ShareKey key = {s->step->inputs[i], call->inputs[i].dtype, pack, variant, size};
    PackJob job = {s, i, pack, size, variant};
    ShareFill filling = {fill, &job};
    uint32_t number = 0;
    const void *bytes = plan_share_get(exec->loaded->share, &key, NULL, &number);
    if (bytes && is_counted(exec, number)) return bytes;
    uint64_t most = exec->pool.budget / 2;
    if (size > most || exec->forms.shared > most - size || !pool_charge(&exec->pool, size))
        return NULL;
    if (!bytes) bytes = plan_share_get(exec->loaded->share, &key, &filling, &number);
    if (!bytes) {
        pool_discharge(&exec->pool, size);
        return NULL;
    }
    exec->forms.shared += size;
    set_counted(exec, number);
    return bytes;
}

static const KernelHost preparing = {.workspace = step_workspace,
                                     .keep = host_keep,
                                     .share = host_share,
                                     .set_unread = host_set_unread,
                                     .take_stored = host_take_stored,
                                     .constant = host_constant};

/* Operands as the row is given them. */
static void set_dtypes(const Draft *d, StepForm *form) {
    form->widens = false;
    for (uint32_t i = 0; i < d->call.input_count; i++) {
        form->unread[i] = form->stored[i] = false;
        form->inputs[i].dtype = step_given(form->row, d->call.inputs[i].dtype);
        form->widens |= form->inputs[i].dtype != d->call.inputs[i].dtype;
    }
    for (uint32_t i = 0; i < d->call.output_count; i++) {
        form->outputs[i].dtype = step_given(form->row, d->call.outputs[i].dtype);
        form->widens |= form->outputs[i].dtype != d->call.outputs[i].dtype;
    }
}

/* Constants have their elements for good: the plan's, or widened ones that contexts share, where
 * the budget has room for them. */
static void set_constants(const Draft *d, StepCall *s) {
    for (uint32_t i = 0; i < s->call.input_count; i++) {
        KernelTensor *tensor = &s->form->inputs[i];
        if (!tensor->present) continue;
        Dtype stored = stored_dtype(d, i);
        if (s->form->stored[i]) tensor->dtype = stored;
        bool as_is = tensor->dtype == stored;
        s->form->late[i] = !as_is && !s->form->unread[i];
        if (!d->step->constant[i] || s->form->unread[i]) continue;
        if (as_is) {
            tensor->data = d->call.inputs[i].data;
            continue;
        }
        const void *wide =
            host_share(&s->call, i, NULL, 0, tensor->count * kernel_element_size(tensor->dtype));
        s->form->late[i] = !wide;
        s->form->widens |= !wide;
        tensor->data = (void *)(uintptr_t)wide; /* kernels only read */
    }
}

/* Gets the row ready, or the next that takes the operands where it declines. */
static bool get_ready(const Draft *d, StepForm *form) {
    StepCall *s = ARENA_NEW(&d->exec->scratch, StepCall);
    d->exec->call.making = s; /* should make jump, step_form_drop ends it */
    for (;;) {
        set_dtypes(d, form);
        step_call_init(s, d->exec, d->step, form, &preparing);
        const KernelPrepare *prepare = form->row->prepare;
        KernelReady ready = prepare ? prepare->make(&s->call) : KERNEL_READY;
        form->prepared = s->call.prepared;
        if (ready == KERNEL_READY) set_constants(d, s);
        step_workspace_free(d->exec);
        if (ready != KERNEL_DECLINED) return ready == KERNEL_READY;
        release(form->row, form->prepared);
        form->prepared = NULL;
        form->row = choose_row(d->step, &d->call, form->row);
        if (!form->row) return exec_fail(d->exec, d->step, "no kernel of it takes these operands");
    }
}

void step_form_drop(Exec *exec) {
    if (!exec->call.making) return;
    StepForm *form = exec->call.making->form;
    form->prepared = exec->call.making->call.prepared;
    exec->call.making = NULL;
    form_free(exec, form);
}

/* The first operand that ends with the step and has output 0's dims and dtype. */
static uint32_t place_of(const Draft *d, const KernelRow *row) {
    const KernelTensor *out = &d->call.outputs[0];
    if (!(row->flags & KERNEL_INPLACE) || !d->call.output_count || !out->present) return PLAN_NONE;
    for (uint32_t i = 0; i < d->call.input_count; i++) {
        const KernelTensor *in = &d->call.inputs[i];
        if (in->present && d->step->ends[i] && in->dtype == out->dtype && in->rank == out->rank &&
            (!in->rank || memcmp(in->dims, out->dims, in->rank * sizeof *in->dims) == 0))
            return i;
    }
    return PLAN_NONE;
}

static StepForm *form_make(Exec *exec, const LoadedStep *step) {
    Draft d = {.exec = exec, .step = step};
    if (!collect(&d)) return NULL;
    if (!kernel_check(&d.call, step->types)) return NULL;
    d.call.row = choose_row(step, &d.call, NULL);
    if (!d.call.row) {
        bool has = d.call.input_count && d.call.inputs[0].present;
        exec_fail(exec, step, "demi has no kernel of it for %s",
                  has ? dtype_name(d.call.inputs[0].dtype) : "these types");
        return NULL;
    }
    bool sizes = d.call.row->flags & KERNEL_SIZES;
    if (!sizes && !find_dims(&d)) return NULL;
    if (!sizes && is_view(&d) && d.call.outputs[0].count != d.call.inputs[0].count) {
        exec_fail(exec, step, "%llu elements can't become %llu",
                  (unsigned long long)d.call.inputs[0].count,
                  (unsigned long long)d.call.outputs[0].count);
        return NULL;
    }
    StepForm *form = form_new(&d);
    if (!form) return NULL;
    form->row = d.call.row;
    form->is_view = !sizes && is_view(&d);
    if (form->is_view) return form;
    if (!get_ready(&d, form)) {
        step_form_drop(exec);
        return NULL;
    }
    exec->call.making = NULL;
    form->in_place = place_of(&d, form->row);
    return form;
}

StepForm *step_form_get(Exec *exec, const LoadedStep *step) {
    StepMemo *memo = &exec->forms.memos[step - exec->loaded->steps];
    StepForm **at = &memo->forms, *form = *at;
    unsigned count = 0;
    for (; form && !matches(form, exec, step); form = *at, count++) {
        if (count + 1 == STEP_FORM_LIMIT && !form->next) { /* not used for longest */
            *at = NULL;
            form_free(exec, form);
        } else {
            at = &form->next;
        }
    }
    if (form)
        *at = form->next;
    else
        form = form_make(exec, step);
    if (!form) return NULL;
    form->next = memo->forms;
    memo->forms = form;
    return form;
}
