// SPDX-License-Identifier: Apache-2.0
/* The rules behind report_advice.h. */
#include "report_advice.h"

#include <stddef.h>

#include "constants.h"
#include "integer_products.h"
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

static bool multiplies_integers(const Node *node) {
    const OpRecord *record = node_record(node);
    return record && record->work > WORK_MOVES;
}

/* ---- sizes that matrices have ---------------------------------------------------------------- */

/* Of a 16-bit product; NULL where it has none of known sizes. */
static const Type *weights_of(const Node *node) {
    const bool low = dtype_is_reduced(node->note->dtype);
    const OpRecord *record = low && is_heavy(node) ? node_record(node) : NULL;
    const bool counted = record && record->work < WORK_ATTENTION;
    const uint32_t operand = counted ? record->weights : 0;
    const Value *value =
        counted && operand < node->input_count ? node->inputs[operand].value : NULL;
    const Type *type = value ? value_shaped_type(value) : NULL;
    return type && type->rank >= 2 ? type : NULL;
}

static uint64_t elements_of(const Type *type) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < type->rank; i++)
        if (type->dims[i].kind == DIM_KNOWN && type->dims[i].size > 0)
            count *= (uint64_t)type->dims[i].size;
    return count;
}

const Type *advice_uneven(const Node *node) {
    enum { EVEN = 8, FEW_CHANNELS = 4 };
    const Type *type = weights_of(node);
    if (!type) return NULL;
    const uint8_t work = node_record(node)->work;
    const bool filters = work == WORK_CONV || work == WORK_DECONV;
    const Dim *dims = filters ? type->dims : type->dims + type->rank - 2;
    bool uneven = false;
    for (int i = 0; i < 2; i++) {
        if (dims[i].kind != DIM_KNOWN || dims[i].size <= 1) return NULL;
        if (filters && dims[1].size <= FEW_CHANNELS && i == 1) continue;
        uneven = uneven || dims[i].size % EVEN;
    }
    return uneven ? type : NULL;
}

static void take_sizes(AdviceFacts *facts, const Node *node) {
    const Type *type = weights_of(node), *uneven = advice_uneven(node);
    if (type) facts->low_elements += elements_of(type);
    if (!uneven) return;
    facts->uneven++;
    facts->uneven_elements += elements_of(type);
    if (facts->uneven_type && elements_of(facts->uneven_type) >= elements_of(type)) return;
    facts->uneven_type = type;
    facts->uneven_label = node_label(node);
}

/* "512 by 77". */
static const char *sizes_text(const AdviceFacts *facts, Arena *arena) {
    const Type *type = facts->uneven_type;
    const char *text = "";
    for (uint32_t i = 0; i < type->rank; i++)
        text =
            arena_printf(arena, "%s%s%lld", text, i ? " by " : "", (long long)type->dims[i].size);
    return text;
}

/* ---- what could be computed into weights ----------------------------------------------------- */

static bool is_op(const Node *node, const char *op) {
    return node && node->note && domain_is_default(node->domain) && sym_equals(node->op_type, op) &&
           !model_find_function(node->graph->model, node);
}

/* Rounded to bfloat16 of their own, a normalization's factors move whole channels. */
static bool may_fold(const Node *node) {
    if (node->note->dtype != DTYPE_BFLOAT16 || !is_op(node, "BatchNormalization") ||
        node->output_count != 1 || node_attr_int(node, "training_mode", 0))
        return false;
    for (uint32_t i = 1; i < node->input_count; i++)
        if (!value_is_constant(node->inputs[i].value)) return false;
    const Value *x = node->inputs[0].value;
    return x && x->use_count == 1 && !x->referenced && is_op(x->producer, "Conv") &&
           value_is_constant(x->producer->inputs[1].value);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

void advice_take_node(AdviceFacts *facts, const Node *node) {
    const bool quantized = node->note->kind == NOTE_QUANTIZED;
    const bool own = node->note->kind == NOTE_NO_FLOAT;
    bool low = quantized || dtype_is_reduced(node->note->dtype);
    facts->own_double += own && node->note->dtype == DTYPE_DOUBLE;
    facts->own_low += own && low;
    facts->integer = facts->integer || node->note->reason == integer_products_reason;
    if (!low && node->note->dtype != DTYPE_FLOAT) return;
    uint64_t heavy = is_heavy(node) || (quantized && multiplies_integers(node)) ? 1 : 0;
    facts->float16 += node->note->dtype == DTYPE_FLOAT16;
    facts->bfloat16 += node->note->dtype == DTYPE_BFLOAT16;
    if (node->note->dtype == DTYPE_FLOAT16 && peer_fault_transpose(node) && facts->faults++ == 0)
        facts->fault = node_label(node);
    take_sizes(facts, node);
    facts->norms += may_fold(node);
    if (low && !own) {
        facts->low++;
        facts->heavy_low += heavy;
    } else if (!low) {
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
        if (facts->low || facts->integer) return NULL; /* a remark says why */
        if (facts->full) return "no node was converted: the model will not be faster";
        if (facts->own_low)
            return arena_printf(
                arena, "nothing to convert: the model's floating-point values are already %s",
                name);
        return facts->own_double ? "nothing to convert: the model's floating-point values are "
                                   "double, and only float32 is converted"
                                 : NULL;
    case ADVICE_HEAVY_FULL:
        if (!facts->low || facts->integer || facts->heavy_full * 2 <= heavy) return NULL;
        return arena_printf(arena,
                            "%llu of %llu convolutions and matrix products are kept in float32: "
                            "expect little speedup",
                            (unsigned long long)facts->heavy_full, (unsigned long long)heavy);
    case ADVICE_CASTS:
        if (!facts->low || facts->casts * 2 <= facts->low) return NULL;
        return arena_printf(arena,
                            "%llu casts for %llu %s nodes: they may cost as much as is gained",
                            (unsigned long long)facts->casts, (unsigned long long)facts->low, name);
    case ADVICE_PROCESSOR:
        if (!facts->here) return NULL;
        if (!facts->float16 && !facts->bfloat16) return NULL; /* quantized nodes alone */
        if (!facts->low || (bfloat16 ? isa_has_bfloat16() : isa_has_float16())) return NULL;
        return arena_printf(
            arena, "this machine's CPU has no %s arithmetic: here the model is %snot faster", name,
            facts->smaller ? "smaller, " : "");
    case ADVICE_BFLOAT16_CPU:
        if (!facts->bfloat16) return NULL;
        return "ONNX Runtime's CPU provider cannot load bfloat16 models; use a GPU provider or "
               "float16";
    case ADVICE_FAULT:
        if (!facts->faults) return NULL;
        return arena_printf(arena,
                            "ONNX Runtime 1.31's optimizer crashes on %llu Transpose%s, such as "
                            "'%s': use --keep, or disable its MatmulTransposeFusion",
                            (unsigned long long)facts->faults, facts->faults == 1 ? "" : "s",
                            facts->fault);
    case ADVICE_UNEVEN:
        /* a layer of few outputs at the end of a large model costs nothing */
        if (!facts->uneven || facts->uneven_elements * 20 < facts->low_elements) return NULL;
        return arena_printf(arena,
                            "%llu %s product%s sizes that are not multiples of 8, such as '%s' "
                            "(%s): tensor cores pad them, or are not used",
                            (unsigned long long)facts->uneven, name,
                            facts->uneven == 1 ? " has" : "s have", facts->uneven_label,
                            sizes_text(facts, arena));
    case ADVICE_FOLD:
        if (!facts->norms) return NULL;
        return arena_printf(arena,
                            "--fold folds %llu normalization%s into the preceding convolution%s, "
                            "whose weights are then rounded only once: more accurate in bfloat16",
                            (unsigned long long)facts->norms, facts->norms == 1 ? "" : "s",
                            facts->norms == 1 ? "" : "s");
    case ADVICE_COUNT: break;
    }
    return NULL;
}
