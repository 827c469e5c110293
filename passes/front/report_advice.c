// SPDX-License-Identifier: Apache-2.0
/* The rules behind report_advice.h. */
#include "report_advice.h"

#include <stddef.h>

#include "op_class.h"
#include "op_types.h"
#include "peer_fault.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* Where a model's arithmetic is: the operators whose work grows faster than their operands, in
 * floats that a policy may lower. */
static bool is_heavy(const Node *node) {
    const OpRecord *record = node_record(node);
    return record && record->work > WORK_MOVES && op_class_is_product(record->domain, record->name);
}

void advice_take_node(AdviceFacts *facts, const Node *node) {
    bool low = node->note->dtype == DTYPE_FLOAT16 || node->note->dtype == DTYPE_BFLOAT16;
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

#if defined(__x86_64__)
/* CPUID leaf 7: subleaf 0 EDX bit 23 is AVX512-FP16, bit 22 AMX-BF16; subleaf 1 EAX bit 5 is
 * AVX512-BF16, bit 21 AMX-FP16 (Intel's and AMD's manuals). */
static bool has_native(bool bfloat16) {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    bool fp16 = d & (1u << 23), bf16 = d & (1u << 22);
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d)) {
        bf16 = bf16 || (a & (1u << 5));
        fp16 = fp16 || (a & (1u << 21));
    }
    return bfloat16 ? bf16 : fp16;
}
#else
/* Unknown: then nothing is claimed. */
static bool has_native(bool bfloat16) {
    (void)bfloat16;
    return true;
}
#endif

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
        if (!facts->low || has_native(bfloat16)) return NULL;
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
