// SPDX-License-Identifier: Apache-2.0
/* Finding and making the forms of steps; see step_specialization.h. Everything a form owns is the pool's, so
 * that the budget bounds it. */
#include "step_specialization.h"

#include "checked.h"
#include "element_convert.h"
#include "step_choice.h"
#include "step_share.h"
#include "value_key.h"

/* ---- finding --------------------------------------------------------------------------------- */

/* Whether the operand's contents are part of the key: those in a device's memory never are. */
static bool looks(const Exec *exec, const LoadedStep *step, uint32_t i, FormContents contents) {
    const uint32_t value = step->inputs[step->varying[i]];
    return contents != FORM_NONE && !exec_is_remote(exec, value) &&
           step_shapes_looks(&exec->values[value].tensor->tensor, contents);
}

static uint64_t content_bytes(const KernelTensor *tensor) {
    return tensor->count * kernel_element_size(tensor->dtype);
}

static bool matches(const StepSpecialization *form, const Exec *exec, const LoadedStep *step) {
    const uint64_t *key = form->key;
    for (uint32_t i = 0; i < step->varying_count; i++) {
        const RtValue *value = &exec->values[step->inputs[step->varying[i]]];
        key = value_key_match(value, key);
        if (!key) return false;
        if (form->contents == FORM_NONE) continue;
        const KernelTensor *tensor = &value->tensor->tensor;
        if (!looks(exec, step, i, form->contents)) continue;
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
        if (looks(exec, step, i, contents)) size += (content_bytes(tensor) + 7) / 8;
    }
    return size;
}

static void write_key(const Exec *exec, const LoadedStep *step, StepSpecialization *form) {
    uint64_t *to = form->key;
    for (uint32_t i = 0; i < step->varying_count; i++) {
        const RtValue *value = &exec->values[step->inputs[step->varying[i]]];
        const KernelTensor *tensor = &value->tensor->tensor;
        to = value_key_write(value, to);
        if (!looks(exec, step, i, form->contents)) continue;
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
    for (int widened = 0; widened < (step->device ? 1 : 2); widened++)
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
        else if (exec_is_remote(exec, step->inputs[i]))
            inputs[i].data = NULL; /* not the host's to read */
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
        if (open && exec->options.notes) return exec_fail(exec, d->step, "its dims depend on data");
    }
    *known = (uint8_t)d->contents;
    for (uint32_t i = 0; i < d->call.output_count; i++) {
        KernelTensor *out = &d->call.outputs[i];
        if (out->present && !checked_count(out->dims, out->rank, &out->count))
            return err_set(exec->err, ERR_ENV, "a tensor is larger than the address space");
    }
    return true;
}

/* The type of the elements that input i has in memory. */
static Dtype stored_dtype(const Draft *d, uint32_t i) {
    return d->step->constant[i] ? d->exec->loaded->constants[d->step->inputs[i]].dtype
                                : d->call.inputs[i].dtype;
}

/* Constants that kernels alone read may lie otherwise than their elements do: rows of KERNEL_VIEW have none
 * such (plan_load.c). */
static bool stays_in_order(const Draft *d) {
    const uint32_t flags = d->call.row->flags;
    return flags & KERNEL_VIEW ||
           (flags & KERNEL_TURNS && !d->step->constant[0] && kernel_keeps_order(&d->call));
}

static bool is_view(const Draft *d) {
    const KernelCall *call = &d->call;
    return call->output_count && call->input_count && stays_in_order(d) &&
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
        to[i].room = 0;
        if (from[i].rank) memcpy(*dims, from[i].dims, from[i].rank * sizeof **dims);
        to[i].dims = *dims;
        *dims += from[i].rank;
    }
    return to;
}

/* The form in memory of its own, all but its row. */
static StepSpecialization *form_new(const Draft *d) {
    Exec *exec = d->exec;
    uint32_t in = d->call.input_count, out = d->call.output_count;
    uint64_t keys = key_size(exec, d->step, d->contents);
    uint64_t dims = total_rank(d->call.inputs, in) + total_rank(d->call.outputs, out);
    uint64_t size = sizeof(StepSpecialization) + (uint64_t)(in + out) * sizeof(KernelTensor) +
                    out * sizeof(RtTensor *) + (keys + dims) * sizeof(uint64_t) + 3 * (uint64_t)in;
    Buffer *self = buffer_new(&exec->pool, size, exec->err);
    if (!self) return NULL;
    StepSpecialization *form = buffer_data(self);
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

void step_specialization_free(StepSpecialization *form) {
    release(form->row, form->prepared);
    buffer_unref_all(form->kept);
    buffer_unref(form->self);
}

void step_memo_free(StepMemo *memo) {
    for (StepSpecialization *form = memo->forms, *next; form; form = next) {
        next = form->next;
        step_specialization_free(form);
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

static void host_set_unread(KernelCall *call, uint32_t i) {
    step_call_of(call)->form->unread[i] = kernel_is_constant(call, i);
}

static Dtype host_take_stored(KernelCall *call, uint32_t i) {
    StepCall *s = step_call_of(call);
    s->form->stored[i] = step_stored_narrow(s, i);
    return s->form->stored[i] ? s->exec->loaded->constants[s->step->inputs[i]].dtype
                              : DTYPE_UNDEFINED;
}

static const KernelHost preparing = {.workspace = step_workspace,
                                     .keep = host_keep,
                                     .share = step_share,
                                     .weights = step_weights,
                                     .stored_weights = step_stored_weights,
                                     .set_unread = host_set_unread,
                                     .take_stored = host_take_stored,
                                     .constant = step_constant};

/* Operands as the row is given them. */
static void set_dtypes(const Draft *d, StepSpecialization *form) {
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

/* A constant in the device's memory, where all contexts read it. */
static bool set_remote_constant(StepCall *s, uint32_t i) {
    KernelTensor *tensor = &s->form->inputs[i];
    if (s->form->unread[i] || !tensor->count) return true;
    const uint64_t size = tensor->count * kernel_element_size(tensor->dtype);
    tensor->data = (void *)(uintptr_t)step_share(&s->call, i, NULL, 0, size);
    if (tensor->data || s->exec->err->code != ERR_NONE) return tensor->data;
    const uint64_t limit = s->exec->device.pool.budget;
    if (limit != UINT64_MAX)
        return err_set(s->exec->err, ERR_ENV,
                       "the run needs more device memory than the limit of %llu bytes",
                       (unsigned long long)limit);
    return err_set(s->exec->err, ERR_ENV,
                   "the device has no memory left for a constant of %llu bytes",
                   (unsigned long long)size);
}

/* Constants have their elements for good: the plan's, or widened ones that contexts share, where
 * the budget has room for them. */
static bool set_constants(const Draft *d, StepCall *s) {
    for (uint32_t i = 0; i < s->call.input_count; i++) {
        KernelTensor *tensor = &s->form->inputs[i];
        if (!tensor->present) continue;
        Dtype stored = stored_dtype(d, i);
        if (s->form->stored[i]) tensor->dtype = stored;
        bool as_is = tensor->dtype == stored && !d->exec->loaded->layouts[d->step->inputs[i]];
        const bool remote = d->step->device && !(i < 32 && s->form->row->host >> i & 1);
        if (remote && !d->step->constant[i]) continue;
        if (remote && !set_remote_constant(s, i)) return false;
        if (remote) continue;
        s->form->late[i] = !as_is && !s->form->unread[i];
        if (!d->step->constant[i] || s->form->unread[i]) continue;
        if (as_is) {
            tensor->data = d->call.inputs[i].data;
            continue;
        }
        const void *wide =
            step_share(&s->call, i, NULL, 0, tensor->count * kernel_element_size(tensor->dtype));
        s->form->late[i] = !wide;
        s->form->widens |= !wide;
        tensor->data = (void *)(uintptr_t)wide; /* kernels only read */
    }
    return true;
}

/* Gets the form's row ready, or cleans up behind it. */
static KernelReady make_ready(const Draft *d, StepSpecialization *form, StepCall *s) {
    set_dtypes(d, form);
    step_call_init(s, d->exec, d->step, form, &preparing);
    const KernelPrepare *prepare = form->row->prepare;
    KernelReady ready = prepare ? prepare->make(&s->call) : KERNEL_READY;
    form->prepared = s->call.prepared;
    if (s->call.declined) ready = KERNEL_DECLINED;
    if (ready == KERNEL_READY && !set_constants(d, s)) ready = KERNEL_FAILED;
    step_workspace_free(d->exec);
    if (ready == KERNEL_DECLINED) {
        release(form->row, form->prepared);
        form->prepared = NULL;
    }
    return ready;
}

/* The row of the form's way, by its choice. */
static KernelReady make_chosen(const Draft *d, StepSpecialization *form, StepCall *s) {
    const KernelRow *first = form->row, *row = &d->step->rows[form->way.row - 1];
    const uint32_t alike = KERNEL_SIZES | KERNEL_VIEW | KERNEL_ROOM;
    const bool serves = row_serves(row, &d->call, false) || row_serves(row, &d->call, true);
    if (!serves || (row->flags ^ first->flags) & alike) return KERNEL_DECLINED;
    form->row = row;
    const KernelReady ready = make_ready(d, form, s);
    if (ready == KERNEL_DECLINED) form->row = first;
    return ready;
}

/* Gets the row ready that is chosen, else the first that takes the operands and does not decline. */
static bool get_ready(const Draft *d, StepSpecialization *form) {
    StepCall *s = ARENA_NEW(&d->exec->scratch, StepCall);
    d->exec->call.making = s; /* should make jump, step_specialization_drop ends it */
    form->way = step_choice_way(d->exec, d->step, &d->call);
    if (form->way.row) {
        const KernelReady ready = make_chosen(d, form, s);
        if (ready != KERNEL_DECLINED) return ready == KERNEL_READY;
        form->way = (StepWay){.kind = form->way.kind};
    }
    for (;;) {
        const KernelReady ready = make_ready(d, form, s);
        if (ready != KERNEL_DECLINED) return ready == KERNEL_READY;
        const KernelRow *next = choose_row(d->step, &d->call, form->row);
        if (!next && d->step->device) {
            form->declined =
                s->call.declined ? s->call.declined : "none of its kernels supports these";
            return true;
        }
        form->row = next;
        if (!form->row)
            return exec_fail(d->exec, d->step, "none of its kernels supports these operands");
    }
}

void step_specialization_drop(Exec *exec) {
    if (!exec->call.making) return;
    StepSpecialization *form = exec->call.making->form;
    form->prepared = exec->call.making->call.prepared;
    exec->call.making = NULL;
    step_specialization_free(form);
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

StepSpecialization *step_specialization_make(Exec *exec, const LoadedStep *step) {
    Draft d = {.exec = exec, .step = step};
    if (!collect(&d)) return NULL;
    const bool mixes = step->device && step->row_count && step->rows->flags & KERNEL_MIXES;
    if (!kernel_check(&d.call, step->types, mixes)) return NULL;
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
        exec_fail(exec, step, "cannot convert %llu elements to %llu",
                  (unsigned long long)d.call.inputs[0].count,
                  (unsigned long long)d.call.outputs[0].count);
        return NULL;
    }
    StepSpecialization *form = form_new(&d);
    if (!form) return NULL;
    form->row = d.call.row;
    form->is_view = !sizes && is_view(&d);
    if (form->is_view) return form;
    if (!get_ready(&d, form)) {
        step_specialization_drop(exec);
        return NULL;
    }
    exec->call.making = NULL;
    if (!form->declined) form->in_place = place_of(&d, form->row);
    return form;
}

StepSpecialization *step_specialization_get(Exec *exec, const LoadedStep *step) {
    StepMemo *memo = &exec->forms.memos[step - exec->loaded->steps];
    StepSpecialization **at = &memo->forms, *form = *at;
    unsigned count = 0;
    for (; form && !matches(form, exec, step); form = *at, count++) {
        if (count + 1 == STEP_SPECIALIZATION_LIMIT && !form->next) { /* not used for longest */
            *at = NULL;
            step_specialization_free(form);
        } else {
            at = &form->next;
        }
    }
    if (form)
        *at = form->next;
    else
        form = step_specialization_make(exec, step);
    if (!form) return NULL;
    form->next = memo->forms;
    memo->forms = form;
    return form;
}
