// SPDX-License-Identifier: Apache-2.0
/* Look-up in op_class.def (sorted, binary search), lists that change it, and the conditions its last
 * column names. */
#include "op_class.h"

#include <string.h>

#include "constants.h"
#include "ops.h"
#include "text_distance.h"
#include "text_order.h"

typedef enum Condition {
    ALWAYS,
    POW,        /* low only for exponents that square */
    DIV,        /* fp32 where the numerator is a constant */
    SCATTER,    /* fp32 where the reduction accumulates */
    CAST,       /* depends on the types it converts between */
    DEQUANTIZE, /* fp32: what is quantized stays as it is */
    ATTENTION,  /* fp32 where masked scores are an output */
} Condition;

typedef struct Row {
    const char *domain, *name;
    uint8_t classes[3]; /* OpClass by Policy */
    uint8_t condition;
} Row;

static const Row rows[] = {
#define X(domain, name, float16, bfloat16, fast, condition)                                        \
    {domain, name, {CLASS_##float16, CLASS_##bfloat16, CLASS_##fast}, condition},
#include "op_class.def"
#undef X
};

enum { ROW_COUNT = sizeof rows / sizeof *rows };

struct OpClasses {
    Policy policy;
    uint8_t classes[ROW_COUNT]; /* OpClass */
};

static int compare(const Row *row, const char *domain, const char *name) {
    int order = text_order(row->domain, domain);
    return order ? order : text_order(row->name, name);
}

static const Row *find_row(const char *domain, const char *name) {
    size_t low = 0, high = ROW_COUNT;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = compare(&rows[middle], domain, name);
        if (order == 0) return &rows[middle];
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    return NULL;
}

OpClass op_class_lookup(const char *domain, const char *op_type, Policy policy) {
    const Row *row = find_row(ops_domain(domain), op_type);
    return row ? (OpClass)row->classes[policy] : CLASS_NONE;
}

const char *op_class_name(OpClass op_class) {
    switch (op_class) {
    case CLASS_NONE: return "NONE";
    case CLASS_LOW: return "LOW";
    case CLASS_FP32: return "FP32";
    case CLASS_FOLLOW: return "FOLLOW";
    case CLASS_WIDEST: return "WIDEST";
    }
    return "NONE";
}

/* ---- lists --------------------------------------------------------------------------------------- */

typedef struct ListMerge {
    uint8_t named[ROW_COUNT]; /* the OpClass whose list has the row, or CLASS_NONE */
    bool plain[ROW_COUNT];    /* it is named without a plus */
    bool replaced[CLASS_WIDEST + 1];
    Err *err;
} ListMerge;

static const char *list_name(OpClass op_class) {
    switch (op_class) {
    case CLASS_NONE: break;
    case CLASS_LOW: return "low-ops";
    case CLASS_FP32: return "fp32-ops";
    case CLASS_FOLLOW: return "follow-ops";
    case CLASS_WIDEST: return "widest-ops";
    }
    return "no list";
}

/* OPERATOR of the default domain, or DOMAIN.OPERATOR. */
static const Row *find_named(const char *name) {
    char domain[64] = "";
    const char *dot = strrchr(name, '.');
    size_t length = dot ? (size_t)(dot - name) : 0;
    if (length >= sizeof domain) return NULL;
    memcpy(domain, name, length);
    domain[length] = '\0';
    return find_row(ops_domain(domain), dot ? dot + 1 : name);
}

static bool unknown_operator(ListMerge *m, OpClass op_class, const char *name) {
    err_set(m->err, ERR_USAGE, "%s: no operator is called '%s'", list_name(op_class), name);
    NearestName nearest = nearest_name_of(name);
    for (size_t i = 0; i < ROW_COUNT; i++) nearest_name_try(&nearest, rows[i].name);
    if (nearest.best) err_hint(m->err, "did you mean '%s'?", nearest.best);
    return false;
}

static bool take_list(ListMerge *m, OpClass op_class, const PassStrings *list) {
    for (size_t i = 0; i < list->count; i++) {
        bool plain = list->items[i][0] != '+';
        const char *name = list->items[i] + !plain;
        const Row *row = find_named(name);
        if (!row) return unknown_operator(m, op_class, name);
        size_t at = (size_t)(row - rows);
        if (m->named[at] && m->named[at] != op_class)
            return err_set(m->err, ERR_USAGE, "operator '%s' is in %s and in %s", name,
                           list_name((OpClass)m->named[at]), list_name(op_class));
        m->named[at] = (uint8_t)op_class;
        m->plain[at] |= plain;
        m->replaced[op_class] |= plain;
    }
    return true;
}

static bool merge_row(ListMerge *m, size_t i, OpClasses *classes) {
    OpClass usual = (OpClass)rows[i].classes[classes->policy], named = (OpClass)m->named[i];
    classes->classes[i] = (uint8_t)(named ? named : m->replaced[usual] ? CLASS_NONE : usual);
    if (!m->plain[i] || named == usual || m->replaced[usual]) return true;
    err_set(m->err, ERR_USAGE, "operator '%s' is in %s and, by default, in %s", rows[i].name,
            list_name(named), list_name(usual));
    err_hint(m->err, "+%s moves it", rows[i].name);
    return false;
}

const OpClasses *op_classes_new(Policy policy, const OpClassLists *lists, Arena *arena, Err *err) {
    ListMerge m = {.err = err};
    OpClasses *classes = ARENA_NEW(arena, OpClasses);
    classes->policy = policy;
    if (!take_list(&m, CLASS_LOW, &lists->low) || !take_list(&m, CLASS_FP32, &lists->fp32) ||
        !take_list(&m, CLASS_FOLLOW, &lists->follow) ||
        !take_list(&m, CLASS_WIDEST, &lists->widest))
        return NULL;
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (!merge_row(&m, i, classes)) return NULL;
    return classes;
}

/* ---- conditions ------------------------------------------------------------------------------------ */

static const Value *input_of(const Node *node, uint32_t i) {
    return i < node->input_count ? node->inputs[i].value : NULL;
}

static Dtype input_dtype(const Node *node, uint32_t i) {
    const Value *value = input_of(node, i);
    return value ? type_dtype(value->type) : DTYPE_UNDEFINED;
}

static OpClassAnswer pow_class(const Node *node, OpClass op_class, Policy policy) {
    if (op_class != CLASS_FOLLOW) return (OpClassAnswer){op_class, NULL};
    float exponent;
    const Value *value = input_of(node, 1);
    bool known = value && constant_scalar(value, &exponent);
    bool low = known && (exponent == 2.0f ||
                         (policy == POLICY_FAST && (exponent == 0.5f || exponent == 3.0f)));
    return low ? (OpClassAnswer){CLASS_FOLLOW, NULL}
               : (OpClassAnswer){CLASS_FP32, "Pow runs low only to square"};
}

static OpClassAnswer scatter_class(const Node *node, OpClass op_class, Policy policy) {
    const Attr *reduction = node_attr(node, "reduction");
    if (!reduction || reduction->type != ATTR_STRING || policy == POLICY_FAST)
        return (OpClassAnswer){op_class, NULL};
    const Bytes s = reduction->v.s;
    bool sums = s.size == 3 && (!memcmp(s.data, "add", 3) || !memcmp(s.data, "mul", 3));
    return sums ? (OpClassAnswer){CLASS_FP32, "its reduction accumulates"}
                : (OpClassAnswer){op_class, NULL};
}

/* float -> integer, bool, string reads fp32, and integer -> float writes it: rounding to 16 bits on
 * the way would change the result. double -> float would lose the author's rounding. */
static OpClassAnswer cast_class(const Node *node) {
    Dtype from = input_dtype(node, 0);
    const Value *out = node->output_count ? node->outputs[0] : NULL;
    Dtype to = out ? type_dtype(out->type) : DTYPE_UNDEFINED;
    bool between_floats = dtype_is_float(from) && dtype_is_float(to) && from != DTYPE_DOUBLE;
    return between_floats ? (OpClassAnswer){CLASS_FOLLOW, NULL}
                          : (OpClassAnswer){CLASS_FP32, "converts to or from another kind of type"};
}

/* Scores that Attention masks itself are the type's lowest value, which is -3.4e38 in fp32 and can't
 * be that in 16 bit: where they are an output, the node stays. Modes as of Attention-23: 1 and 2 show
 * the scores with the mask, before softmax. */
static OpClassAnswer attention_class(const Node *node, OpClass op_class) {
    int64_t mode = node_attr_int(node, "qk_matmul_output_mode", 0);
    const Value *scores = node->output_count > 3 ? node->outputs[3] : NULL;
    bool masks = node_attr_int(node, "is_causal", 0) || input_dtype(node, 3) == DTYPE_BOOL;
    if (scores && scores->uses && masks && (mode == 1 || mode == 2))
        return (OpClassAnswer){CLASS_FP32, "its masked scores are an output"};
    return (OpClassAnswer){op_class, NULL};
}

OpClassAnswer op_class_of(const Node *node, const OpClasses *classes) {
    const char *domain = domain_is_default(node->domain) ? "" : sym_text(node->domain);
    const Row *row = find_row(domain, sym_text(node->op_type));
    if (!row) return (OpClassAnswer){CLASS_NONE, "an operator demi does not know"};
    OpClass op_class = (OpClass)classes->classes[row - rows];
    Policy policy = classes->policy;
    if (op_class == CLASS_NONE) return (OpClassAnswer){CLASS_NONE, "in no list of the policy"};
    switch ((Condition)row->condition) {
    case ALWAYS: break;
    case POW: return pow_class(node, op_class, policy);
    case SCATTER: return scatter_class(node, op_class, policy);
    case CAST: return cast_class(node);
    case DIV:
        if (input_of(node, 0) && value_is_constant(input_of(node, 0)))
            return (OpClassAnswer){CLASS_FP32, "divides a constant"};
        break;
    case DEQUANTIZE: return (OpClassAnswer){CLASS_FP32, "quantized"};
    case ATTENTION: return attention_class(node, op_class);
    }
    return (OpClassAnswer){op_class, NULL};
}
