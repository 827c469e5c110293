// SPDX-License-Identifier: Apache-2.0
/* Operators' names, sorted by domain and name (op_record_test.c), and the search among them. */
#include "op_id.h"

#include "text_order.h"

static const struct {
    const char *domain, *name;
} names[OP_ID_COUNT] = {
    {"", ""},
#define OP_ID(domain, name) {OP_DOMAIN_##domain, #name},
#include "op_ids.inc"
#undef OP_ID
};

OpId op_id(const char *domain, const char *name) {
    int low = OP_NONE + 1, high = OP_ID_COUNT;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        int order = text_order(names[middle].domain, domain);
        if (!order) order = text_order(names[middle].name, name);
        if (!order) return (OpId)middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return OP_NONE;
}

const char *op_domain(OpId op) {
    return names[op].domain;
}

const char *op_name(OpId op) {
    return names[op].name;
}
