// SPDX-License-Identifier: Apache-2.0
/* Export of tensors: their fields, and where their data goes.
 *
 * What was read as raw_data or external data, and every lazy cast, is "raw": it may go to raw_data
 * or to the data file. Typed fields stay the fields they were, but in a model that is too large. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "checked.h"
#include "export_parts.h"

/* How a tensor's data is written. */
typedef enum DataForm { FORM_NONE, FORM_TYPED, FORM_RAW, FORM_SPILLED } DataForm;

typedef struct TensorData {
    DataForm form;
    uint64_t size; /* RAW, SPILLED */
} TensorData;

/* ---- deciding -------------------------------------------------------------------------------- */

static uint64_t offset_alignment(uint64_t size) {
    if (size >= 1 << 20) return 1 << 16;
    return size >= 1 << 16 ? 1 << 12 : 64;
}

static bool tensor_is_raw(const Tensor *tensor) {
    return tensor->cast_of || tensor->storage == TENSOR_RAW || tensor->storage == TENSOR_EXTERNAL;
}

static bool tensor_has_typed_field(const Tensor *tensor) {
    return !tensor_is_raw(tensor) && tensor->storage != TENSOR_NO_DATA &&
           tensor->storage != TENSOR_STRINGS;
}

/* The data was read from an external file, cast since or not. */
static bool tensor_was_external(const Tensor *tensor) {
    while (tensor->cast_of) tensor = tensor->cast_of;
    return tensor->storage == TENSOR_EXTERNAL;
}

static bool tensor_must_leave(const ExportPlan *plan, const TensorField *field,
                              const Tensor *tensor) {
    if (plan->spill == SPILL_ALL) return true;
    if (plan->spill == SPILL_NONE || !tensor_is_raw(tensor)) return false;
    return field->role == ROLE_INITIALIZER || tensor_was_external(tensor);
}

static void tensor_fail(ExportPlan *plan, const TensorField *field, const Tensor *tensor) {
    Sym name = field->name ? field->name : tensor->name;
    err_operand(plan->w.err, "tensor '%s'", sym_text(name));
    plan->w.failed = true;
}

/* The raw size of what is raw. False where a tensor can't be written: a cast of a broken tensor, or
 * external data that nobody read. */
static bool raw_size(ExportPlan *plan, const Tensor *tensor, uint64_t *size) {
    *size = tensor->size;
    if (tensor->cast_of) {
        if (!tensor_check(tensor, plan->w.err)) return false;
        *size = tensor_raw_size(tensor);
    }
    bool unread = !tensor->cast_of && tensor->storage == TENSOR_EXTERNAL && !tensor->source &&
                  !tensor->bytes && !tensor_check(tensor, NULL);
    return !unread || err_set(plan->w.err, ERR_MODEL, "its external data was not read");
}

static bool tensor_decide(ExportPlan *plan, const TensorField *field, const Tensor *tensor,
                          TensorData *data) {
    *data = (TensorData){.form = FORM_NONE};
    if (tensor->storage == TENSOR_NO_DATA && !tensor->cast_of) return true;
    bool leave = tensor_must_leave(plan, field, tensor);
    if (!tensor_is_raw(tensor)) {
        data->form = FORM_TYPED;
        if (!leave || !tensor_has_typed_field(tensor) || !tensor_check(tensor, NULL)) return true;
        data->size = tensor_raw_size(tensor);
        if (data->size >= EXPORT_EXTERNAL_MIN) data->form = FORM_SPILLED;
        return true;
    }
    if (!raw_size(plan, tensor, &data->size)) return false;
    bool large = data->size >= EXPORT_EXTERNAL_MIN || tensor_was_external(tensor);
    data->form = leave && large ? FORM_SPILLED : FORM_RAW;
    return true;
}

/* ---- fields ---------------------------------------------------------------------------------- */

/* The entries of a typed field, which lie in memory as an array of its C type. */
static void put_packed(WireWriter *w, uint32_t number, const Tensor *tensor) {
    if (tensor->size == 0) return; /* an empty packed field is never written */
    writer_open_packed(w, number);
    if (tensor->storage == TENSOR_INT32S) {
        for (uint64_t i = 0; i < tensor->size; i += sizeof(int32_t)) {
            int32_t entry;
            memcpy(&entry, tensor->bytes + i, sizeof entry);
            writer_raw_varint(w, (uint64_t)(int64_t)entry);
        }
    } else if (tensor->storage == TENSOR_INT64S || tensor->storage == TENSOR_UINT64S) {
        for (uint64_t i = 0; i < tensor->size; i += sizeof(uint64_t)) {
            uint64_t entry;
            memcpy(&entry, tensor->bytes + i, sizeof entry);
            writer_raw_varint(w, entry);
        }
    } else {
        writer_raw_bytes(w, tensor->bytes, tensor->size);
    }
    writer_close(w);
}

static void put_strings(WireWriter *w, const Tensor *tensor) {
    for (uint64_t i = 0; i < tensor->string_count; i++)
        writer_put_bytes(w, PB_TENSOR_STRING_DATA, tensor->strings[i].data,
                         tensor->strings[i].size);
}

/* The typed field of that storage, if it is the tensor's. */
static void put_typed(WireWriter *w, uint32_t number, const Tensor *tensor, TensorStorage storage) {
    if (tensor->storage != storage) return;
    if (storage == TENSOR_STRINGS)
        put_strings(w, tensor);
    else
        put_packed(w, number, tensor);
}

static void put_raw(ExportPlan *plan, const TensorField *field, const Tensor *tensor,
                    uint64_t size) {
    WireWriter *w = &plan->w;
    writer_put_head(w, PB_TENSOR_RAW_DATA, size);
    if (plan_counts(plan)) {
        writer_skip(w, size);
        if (size >= EXPORT_EXTERNAL_MIN) plan->streamed++;
        return;
    }
    const Spilled what = {.tensor = tensor, .size = size};
    if (!w->failed && !export_stream_tensor(plan, NULL, &what, w->err))
        tensor_fail(plan, field, tensor);
}

static void put_entry(WireWriter *w, const char *key, const char *value) {
    writer_open(w, PB_TENSOR_EXTERNAL_DATA, &onnx__string_string_entry_proto__descriptor,
                (Bytes){0});
    writer_put_bytes(w, PB_ENTRY_KEY, key, strlen(key));
    writer_put_bytes(w, PB_ENTRY_VALUE, value, strlen(value));
    writer_close(w);
}

/* The entry says where the data was, or what file that was: not true of the new one. */
static bool entry_is_replaced(const KeyValue *entry) {
    return sym_equals(entry->key, "location") || sym_equals(entry->key, "offset") ||
           sym_equals(entry->key, "length") || sym_equals(entry->key, "checksum");
}

static void put_external(ExportPlan *plan, const Tensor *tensor, const Spilled *spilled) {
    WireWriter *w = &plan->w;
    char number[24];
    put_entry(w, "location", plan->data_name);
    snprintf(number, sizeof number, "%" PRIu64, spilled->offset);
    put_entry(w, "offset", number);
    snprintf(number, sizeof number, "%" PRIu64, spilled->size);
    put_entry(w, "length", number);
    for (const KeyValue *entry = tensor->external; entry; entry = entry->next) {
        if (entry_is_replaced(entry)) continue;
        KeyValue alone = *entry;
        alone.next = NULL;
        put_entries(plan, PB_TENSOR_EXTERNAL_DATA, &alone);
    }
}

/* Counting: gives the tensor its place; writing: finds the place it got. A tensor without elements
 * is placed at 0: some readers refuse an offset that is the end of the file, even to read nothing.
 */
static Spilled spill(ExportPlan *plan, const Tensor *tensor, uint64_t size) {
    if (!plan_counts(plan)) return plan->spilled.items[plan->next_spilled++];
    Spilled spilled = {.tensor = tensor, .size = size};
    uint64_t end = plan->data_size;
    bool placed =
        size == 0 || (checked_align(plan->data_size, offset_alignment(size), &spilled.offset) &&
                      checked_add(spilled.offset, size, &end) && end <= INT64_MAX);
    if (!placed) {
        err_set(plan->w.err, ERR_MODEL, "the data of all tensors passes 2^63 - 1 bytes");
        plan->w.failed = true;
        return spilled;
    }
    plan->data_size = end;
    plan->streamed++;
    VEC_PUSH(plan->arena, &plan->spilled, spilled);
    return spilled;
}

void put_tensor(ExportPlan *plan, const TensorField *field, const Tensor *tensor) {
    WireWriter *w = &plan->w;
    TensorData data;
    if (w->failed) return;
    if (!tensor_decide(plan, field, tensor, &data)) {
        tensor_fail(plan, field, tensor);
        return;
    }
    const TensorExtra *extra = tensor_extra(tensor);
    bool typed = data.form == FORM_TYPED, was_external = tensor_was_external(tensor);
    if (was_external) plan->was_external = true;
    writer_open(w, field->number, &onnx__tensor_proto__descriptor, extra->rest);
    if (was_external || data.form == FORM_SPILLED) {
        writer_drop(w, PB_TENSOR_EXTERNAL_DATA);
        writer_drop(w, PB_TENSOR_DATA_LOCATION);
    }
    for (uint32_t i = 0; i < tensor->rank; i++)
        writer_put_varint(w, PB_TENSOR_DIMS, (uint64_t)tensor->dims[i]);
    if (tensor->has_dtype)
        writer_put_varint(w, PB_TENSOR_DATA_TYPE, (uint64_t)(int64_t)tensor->dtype);
    if (typed) put_typed(w, PB_TENSOR_FLOAT_DATA, tensor, TENSOR_FLOATS);
    if (typed) put_typed(w, PB_TENSOR_INT32_DATA, tensor, TENSOR_INT32S);
    if (typed) put_typed(w, PB_TENSOR_STRING_DATA, tensor, TENSOR_STRINGS);
    if (typed) put_typed(w, PB_TENSOR_INT64_DATA, tensor, TENSOR_INT64S);
    writer_put_sym(w, PB_TENSOR_NAME, field->name ? field->name : tensor->name);
    if (data.form == FORM_RAW) put_raw(plan, field, tensor, data.size);
    if (typed) put_typed(w, PB_TENSOR_DOUBLE_DATA, tensor, TENSOR_DOUBLES);
    if (typed) put_typed(w, PB_TENSOR_UINT64_DATA, tensor, TENSOR_UINT64S);
    writer_put_sym(w, PB_TENSOR_DOC_STRING, extra->doc);
    if (data.form == FORM_SPILLED) {
        Spilled spilled = spill(plan, tensor, data.size);
        put_external(plan, tensor, &spilled);
        writer_put_varint(w, PB_TENSOR_DATA_LOCATION, ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL);
    }
    put_entries(plan, PB_TENSOR_METADATA_PROPS, extra->metadata);
    writer_close(w);
}

void put_sparse_tensor(ExportPlan *plan, const TensorField *field, const SparseTensor *sparse) {
    WireWriter *w = &plan->w;
    const TensorField values = {
        .number = PB_SPARSE_VALUES, .role = ROLE_OTHER, .name = field->name};
    const TensorField indices = {.number = PB_SPARSE_INDICES, .role = ROLE_OTHER};
    writer_open(w, field->number, &onnx__sparse_tensor_proto__descriptor, sparse->rest);
    if (sparse->values) put_tensor(plan, &values, sparse->values);
    if (sparse->indices) put_tensor(plan, &indices, sparse->indices);
    for (uint32_t i = 0; i < sparse->rank; i++)
        writer_put_varint(w, PB_SPARSE_DIMS, (uint64_t)sparse->dims[i]);
    writer_close(w);
}
