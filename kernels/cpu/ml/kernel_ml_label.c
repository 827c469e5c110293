// SPDX-License-Identifier: Apache-2.0
/* ai.onnx.ml: LabelEncoder in its three forms, and CategoryMapper: a table from keys to values.
 * Keys are sorted for each call and found by bisection; of equal keys the last one counts. */
#include <string.h>

#include "kernel_functions.h"
#include "kernel_order.h"

/* ---- lists as tensors ------------------------------------------------------------------------ */

static KernelTensor of_texts(KernelCall *call, const AttrTexts *texts) {
    KernelString *strings = ARENA_ARRAY(call->scratch, KernelString, texts->count);
    for (uint32_t i = 0; i < texts->count; i++)
        strings[i] = (KernelString){texts->items[i].size, texts->items[i].text};
    return (KernelTensor){
        .present = texts->present, .dtype = DTYPE_STRING, .count = texts->count, .data = strings};
}

static KernelTensor of_list(Dtype dtype, bool present, uint64_t count, const void *items) {
    return (KernelTensor){
        .present = present, .dtype = dtype, .count = count, .data = (void *)(uintptr_t)items};
}

/* Whichever of the four lists is given. */
static KernelTensor given(KernelCall *call, const AttrTensor *tensor, const AttrTexts *texts,
                          const AttrInts *ints, const AttrFloats *floats) {
    if (tensor->data) return *tensor->data;
    if (texts->present) return of_texts(call, texts);
    if (ints->present) return of_list(DTYPE_INT64, true, ints->count, ints->items);
    return of_list(DTYPE_FLOAT, floats->present, floats->count, floats->items);
}

/* ---- tables ---------------------------------------------------------------------------------- */

typedef struct Table {
    KernelTensor keys, values;
    const uint64_t *order; /* of the keys */
    KernelTensor otherwise;
} Table;

static int compare_elements(const KernelTensor *a, uint64_t i, const KernelTensor *b, uint64_t k) {
    if (a->dtype == DTYPE_STRING)
        return order_strings((const KernelString *)a->data + i, (const KernelString *)b->data + k);
    uint64_t x = order_key(a, i, 0), y = order_key(b, k, 0);
    return (x > y) - (x < y);
}

static int compare_keys(const void *context, uint64_t a, uint64_t b) {
    const KernelTensor *keys = context;
    return compare_elements(keys, a, keys, b);
}

static bool table_init(KernelCall *call, Table *table) {
    const KernelTensor *in = &call->inputs[0], *out = &call->outputs[0];
    if (!table->keys.present || !table->values.present || table->keys.count != table->values.count)
        return kernel_fail(call, "keys and values are missing, or their numbers differ");
    if (table->keys.dtype != in->dtype || table->values.dtype != out->dtype)
        return kernel_fail(call, "it maps %s to %s, not %s to %s", dtype_name(table->keys.dtype),
                           dtype_name(table->values.dtype), dtype_name(in->dtype),
                           dtype_name(out->dtype));
    if (table->otherwise.present &&
        (table->otherwise.dtype != out->dtype || table->otherwise.count != 1))
        return kernel_fail(call, "the default is not a single %s", dtype_name(out->dtype));
    table->order = order_sort(call, table->keys.count, compare_keys, &table->keys);
    return true;
}

/* The place of the last key equal to element i of the input; -1 where there is none. */
static int64_t table_find(const Table *table, const KernelTensor *in, uint64_t i) {
    uint64_t low = 0, high = table->keys.count; /* after the last one not above it */
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (compare_elements(in, i, &table->keys, table->order[middle]) >= 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || compare_elements(in, i, &table->keys, table->order[low - 1]) != 0) return -1;
    return (int64_t)table->order[low - 1];
}

static bool table_run(KernelCall *call, Table *table) {
    const KernelTensor *in = &call->inputs[0];
    KernelTensor *out = &call->outputs[0];
    size_t size = kernel_element_size(out->dtype);
    if (!table_init(call, table)) return false;
    for (uint64_t i = 0; i < in->count; i++) {
        int64_t place = table_find(table, in, i);
        const char *from = place >= 0 ? (char *)table->values.data + (uint64_t)place * size
                                      : table->otherwise.data;
        memcpy((char *)out->data + i * size, from, size);
    }
    return true;
}

/* The default of the output's type: given or as the operator has it. */
static KernelTensor default_of(KernelCall *call) {
    const LabelAttrs *attrs = call->attrs;
    KernelTensor *out = &call->outputs[0];
    KernelTensor one = {.present = true,
                        .dtype = out->dtype,
                        .count = 1,
                        .data = arena_alloc(call->scratch, sizeof(KernelString))};
    if (attrs->otherwise.data) return *attrs->otherwise.data;
    if (out->dtype == DTYPE_STRING)
        *(KernelString *)one.data =
            (KernelString){attrs->default_text.size, attrs->default_text.text};
    else if (out->dtype == DTYPE_INT64)
        *(int64_t *)one.data = attrs->default_int;
    else
        kernel_set_real(&one, 0,
                        dtype_is_integer(out->dtype) ? (double)attrs->default_int
                                                     : (double)attrs->default_float);
    return one;
}

bool kernel_label_encoder(KernelCall *call) {
    const LabelAttrs *attrs = call->attrs;
    Table table = {
        .keys = given(call, &attrs->keys, &attrs->key_texts, &attrs->key_ints, &attrs->key_floats),
        .values = given(call, &attrs->values, &attrs->value_texts, &attrs->value_ints,
                        &attrs->value_floats),
        .otherwise = default_of(call)};
    return table_run(call, &table);
}

/* Strings to integers or back, whichever the input is. */
static bool two_way(KernelCall *call, KernelTensor texts, KernelTensor ints) {
    bool text = call->inputs[0].dtype == DTYPE_STRING;
    Table table = {
        .keys = text ? texts : ints, .values = text ? ints : texts, .otherwise = default_of(call)};
    return table_run(call, &table);
}

/* LabelEncoder-1: classes are numbered. */
bool kernel_label_encoder_1(KernelCall *call) {
    const LabelAttrs *attrs = call->attrs;
    uint32_t count = attrs->key_texts.count;
    int64_t *numbers = ARENA_ARRAY(call->scratch, int64_t, count);
    for (uint32_t i = 0; i < count; i++) numbers[i] = i;
    return two_way(call, of_texts(call, &attrs->key_texts),
                   of_list(DTYPE_INT64, true, count, numbers));
}

bool kernel_category_mapper(KernelCall *call) {
    const LabelAttrs *attrs = call->attrs;
    return two_way(call, of_texts(call, &attrs->key_texts),
                   of_list(DTYPE_INT64, attrs->key_ints.present, attrs->key_ints.count,
                           attrs->key_ints.items));
}
