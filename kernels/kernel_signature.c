// SPDX-License-Identifier: Apache-2.0
/* Which operands of an operator have one element type: kernel_signatures.def and
 * the SIGNATURE rows of operators/, and the check that a call's operands agree with them, which is
 * made before every kernel. tools/gen/gen_kernel_signatures.py says what the letters mean. */
#include <string.h>

#include "kernel.h"

typedef struct SignatureRow {
    const char *domain, *op;
    int32_t since;
    const char *types; /* "inputs>outputs" */
} SignatureRow;

static const SignatureRow rows[] = {
#define KERNEL_SIGNATURE(domain, op, since, types) {domain, op, since, types},
#include "kernel_signatures.def"
#undef KERNEL_SIGNATURE
};

enum { ROW_COUNT = sizeof rows / sizeof *rows };

/* demi's own operators, which have one version. */
typedef struct FusedSignature {
    const char *types;
} FusedSignature;

#define SIGNATURE(types) ROW(types)
#define OP_TABLE_TYPE    FusedSignature
#define OP_TABLE         fused
#include "op_table.inc"

const char *kernel_signature_find(const char *domain, const char *op, int64_t opset) {
    const OpSpan own = fused_of[op_id(domain, op)];
    if (own.count) return fused[own.first].types;
    size_t low = 0, high = ROW_COUNT;
    while (low < high) { /* the first row of the operator */
        size_t middle = low + (high - low) / 2;
        int order = strcmp(domain, rows[middle].domain);
        if (order == 0) order = strcmp(op, rows[middle].op);
        if (order > 0)
            low = middle + 1;
        else
            high = middle;
    }
    const char *found = NULL;
    for (; low < ROW_COUNT && strcmp(domain, rows[low].domain) == 0 &&
           strcmp(op, rows[low].op) == 0 && rows[low].since <= opset;
         low++)
        found = rows[low].types;
    return found;
}

typedef struct Item {
    bool optional, variadic, alone;
    char letter; /* '\0' and '>': no more */
} Item;

static Item item_at(const char *text) {
    Item item = {.optional = *text == ':'};
    text += item.optional;
    item.alone = *text == '~';
    item.variadic = item.alone || *text == '*';
    item.letter = text[item.variadic];
    return item;
}

static const char *behind(const char *text) {
    Item item = item_at(text);
    return text + item.optional + item.variadic + 1;
}

/* The types of letters so far. */
typedef struct Bound {
    Dtype types[26];
    bool mixes;
} Bound;

static bool fits(const Item *item, Dtype dtype, Bound *bound) {
    if (bound->mixes && dtype_is_reduced(dtype)) dtype = DTYPE_FLOAT;
    if (item->alone || item->letter == '?') return true;
    if (item->letter >= 'a' && item->letter <= 'z') return dtype == (Dtype)(item->letter - 'a');
    Dtype *own = &bound->types[item->letter - 'A'];
    if (*own && *own != dtype) return false;
    *own = dtype;
    return true;
}

/* Looks at `count` operands by the items from `text` on.
 * Of variadic ones some may be missing: outputs that nobody wants. */
static bool check(const char *text, const KernelTensor *operands, uint32_t count, Bound *bound,
                  bool may_miss) {
    bool started = false; /* the variadic item has an operand */
    for (uint32_t i = 0; i < count; i++) {
        Item item = item_at(text);
        if (item.letter == '\0' || item.letter == '>') return false; /* more than there can be */
        if (!item.variadic) text = behind(text);
        started |= item.variadic;
        if (!operands[i].present && !item.optional && !(item.variadic && may_miss)) return false;
        if (operands[i].present && !fits(&item, operands[i].dtype, bound)) return false;
    }
    for (;; text = behind(text)) { /* the rest must be optional */
        Item item = item_at(text);
        if (item.letter == '\0' || item.letter == '>') return true;
        if (!item.optional && !(item.variadic && started)) return false;
    }
}

bool kernel_check(KernelCall *call, const char *types, bool mixes) {
    Bound bound = {.mixes = mixes};
    return (types && check(types, call->inputs, call->input_count, &bound, false) &&
            check(strchr(types, '>') + 1, call->outputs, call->output_count, &bound, true)) ||
           kernel_fail(call, "it does not support this combination of operand types");
}
