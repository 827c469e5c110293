// SPDX-License-Identifier: Apache-2.0
/* The rules behind report_advice.h. */
#include "report_advice.h"

#include <stddef.h>

#include "isa.h"
#include "op_class.h"
#include "op_types.h"
#include "peer_fault.h"

/* Where a model's arithmetic is: the operators whose work grows faster than their operands, in
 * floats that a policy may lower. */
static bool is_heavy(const Node *node) {
    const OpRecord *record = node_record(node);
    return record && record->work > WORK_MOVES && op_class_is_product(record->domain, record->name);
}

void advice_take_node(AdviceFacts *facts, const Node *node) {
    const bool quantized = node->note->kind == NOTE_QUANTIZED;
    bool low =
        quantized || node->note->dtype == DTYPE_FLOAT16 || node->note->dtype == DTYPE_BFLOAT16;
    if (!low && node->note->dtype != DTYPE_FLOAT) return;
    uint64_t heavy = is_heavy(node) ? 1 : 0;
    facts->float16 += node->note->dtype == DTYPE_FLOAT16;
    facts->bfloat16 += node->note->dtype == DTYPE_BFLOAT16;
    if (node->note->dtype == DTYPE_FLOAT16 && peer_fault_transpose(node) && facts->faults++ == 0)
        facts->fault = node_label(node);
    if (low) {
        facts->low++;
        facts->heavy_low += heavy;
    } else {
        facts->full++;
        facts->heavy_full += heavy;
    }
}

const char *advice_text(const AdviceFacts *facts, Advice kind, Arena *arena) {
    bool bfloat16 = facts->bfloat16 > facts->float16;
    const char *name = bfloat16 ? "bfloat16" : "float16";
    uint64_t heavy = facts->heavy_low + facts->heavy_full;
    switch (kind) {
    case ADVICE_NOTHING_LOW:
        if (facts->low || !facts->full) return NULL;
        return "no node was lowered: the model will be no faster";
    case ADVICE_HEAVY_FULL:
        if (!facts->low || facts->heavy_full * 2 <= heavy) return NULL;
        return arena_printf(arena,
                            "%llu of %llu convolutions and matrix products stay fp32: "
                            "expect little speed",
                            (unsigned long long)facts->heavy_full, (unsigned long long)heavy);
    case ADVICE_CASTS:
        if (!facts->low || facts->casts * 2 <= facts->low) return NULL;
        return arena_printf(arena, "%llu casts for %llu %s nodes: they may cost what is gained",
                            (unsigned long long)facts->casts, (unsigned long long)facts->low, name);
    case ADVICE_PROCESSOR:
        if (!facts->float16 && !facts->bfloat16) return NULL; /* quantized nodes alone */
        if (!facts->low || (bfloat16 ? isa_has_bfloat16() : isa_has_float16())) return NULL;
        return arena_printf(arena,
                            "this machine's processor has no %s arithmetic: here the model is "
                            "smaller, not faster",
                            name);
    case ADVICE_BFLOAT16_CPU:
        if (!facts->bfloat16) return NULL;
        return "ONNX Runtime's CPU provider cannot load bfloat16 models; use a GPU provider or "
               "float16";
    case ADVICE_FAULT:
        if (!facts->faults) return NULL;
        return arena_printf(arena,
                            "ONNX Runtime 1.31's optimizer ends with SIGSEGV on %llu Transpose%s, "
                            "as '%s': --keep these, or disable its MatmulTransposeFusion",
                            (unsigned long long)facts->faults, facts->faults == 1 ? "" : "s",
                            facts->fault);
    case ADVICE_COUNT: break;
    }
    return NULL;
}
