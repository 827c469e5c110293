// SPDX-License-Identifier: Apache-2.0
/* The classes of operators/, lists that change them, and the conditions that its UNLESS names.
 */
#include "op_class.h"

#include <string.h>

#include "constants.h"
#include "op_condition.h"
#include "op_types.h"
#include "text_distance.h"
#include "text_order.h"

/* An operator that a list names: a row of the table, or one that the user declared. */
typedef struct Own {
    const OpSchema *schema;
    uint8_t op_class;
} Own;

struct OpClasses {
    Policy policy;
    uint8_t *classes; /* OpClass, by the record's place */
    Own *own;         /* [own_count]: declared operators, in their order */
    size_t own_count;
    const OpConditions *conditions;
    PassStrings condition_texts;
};

/* The operator's record; NULL where it has no class. */
static const OpRecord *find_row(const char *domain, const char *name) {
    const OpRecord *record = op_record_find(domain, name);
    return record && record->classes[POLICY_FLOAT16] != CLASS_NONE ? record : NULL;
}

OpClass op_class_lookup(const char *domain, const char *op_type, Policy policy) {
    const OpRecord *row = find_row(ops_domain(domain), op_type);
    return row ? (OpClass)row->classes[policy] : CLASS_NONE;
}

bool op_class_is_product(const char *domain, const char *op_type) {
    const OpRecord *row = find_row(ops_domain(domain), op_type);
    for (size_t i = 0; row && i < sizeof row->classes; i++)
        if (row->classes[i] == CLASS_LOW) return true;
    return false;
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

/* ---- lists ----------------------------------------------------------------------------------- */

typedef struct ListMerge {
    OpClasses *classes;
    uint8_t *named; /* [op_record_count() + own_count]: the OpClass whose list has the operator, or
                       NONE */
    uint8_t *left;  /* the OpClass it was taken out of, or NONE */
    bool *plain;    /* it is named without a sign */
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

static const char *row_domain(const OpClasses *classes, size_t i) {
    return i < op_record_count() ? op_record_at(i)->domain
                                 : classes->own[i - op_record_count()].schema->domain;
}

static const char *row_name(const OpClasses *classes, size_t i) {
    return i < op_record_count() ? op_record_at(i)->name
                                 : classes->own[i - op_record_count()].schema->name;
}

static OpClass usual_class(const OpClasses *classes, size_t i) {
    return i < op_record_count() ? (OpClass)op_record_at(i)->classes[classes->policy] : CLASS_NONE;
}

/* OPERATOR of the default domain, or DOMAIN.OPERATOR, to its index; SIZE_MAX where unknown. */
static size_t find_named(const OpClasses *classes, const char *name) {
    char domain[128] = "";
    const char *dot = strrchr(name, '.');
    size_t length = dot ? (size_t)(dot - name) : 0;
    if (length >= sizeof domain) return SIZE_MAX;
    memcpy(domain, name, length);
    domain[length] = '\0';
    const OpRecord *row = find_row(ops_domain(domain), dot ? dot + 1 : name);
    if (row) return op_record_place(row);
    for (size_t i = 0; i < classes->own_count; i++) {
        const OpSchema *schema = classes->own[i].schema;
        if (!strcmp(schema->domain, ops_domain(domain)) &&
            !strcmp(schema->name, dot ? dot + 1 : name))
            return op_record_count() + i;
    }
    return SIZE_MAX;
}

/* Operators without a class are those that neither take nor give floats. */
static bool has_no_floats(const char *name) {
    char domain[128];
    const char *dot = strrchr(name, '.');
    size_t length = dot ? (size_t)(dot - name) : 0;
    if (length >= sizeof domain) return false;
    memcpy(domain, name, length);
    domain[length] = '\0';
    return ops_exists(ops_domain(domain), dot ? dot + 1 : name);
}

static bool unknown_operator(ListMerge *m, OpClass op_class, const char *name) {
    if (has_no_floats(name))
        return err_set(m->err, ERR_USAGE,
                       "%s: '%s' has no class, because it has no floating-point operands",
                       list_name(op_class), name);
    err_set(m->err, ERR_USAGE, "%s: there is no operator '%s'", list_name(op_class), name);
    NearestName nearest = nearest_name_of(name);
    for (size_t i = 0; i < op_record_count(); i++)
        if (op_record_at(i)->classes[POLICY_FLOAT16])
            nearest_name_try(&nearest, op_record_at(i)->name);
    if (nearest.best)
        err_hint(m->err, "did you mean '%s'?", nearest.best);
    else if (strchr(name, '.'))
        err_hint(m->err, "declare custom operators with declare-ops");
    return false;
}

static bool take_out(ListMerge *m, OpClass op_class, size_t at, const char *name) {
    OpClass usual = usual_class(m->classes, at);
    m->left[at] = (uint8_t)op_class;
    if (usual == op_class) return true;
    return err_set(m->err, ERR_USAGE, "%s: '-%s' is not in the list, it is in %s",
                   list_name(op_class), name, list_name(usual));
}

static bool put_in(ListMerge *m, OpClass op_class, size_t at, bool plain) {
    if (m->named[at] && m->named[at] != op_class)
        return err_set(m->err, ERR_USAGE, "operator '%s' is in %s and in %s",
                       row_name(m->classes, at), list_name((OpClass)m->named[at]),
                       list_name(op_class));
    m->named[at] = (uint8_t)op_class;
    m->plain[at] |= plain;
    m->replaced[op_class] |= plain;
    return true;
}

static bool take_list(ListMerge *m, OpClass op_class, const PassStrings *list) {
    for (size_t i = 0; i < list->count; i++) {
        char sign = list->items[i][0];
        bool plain = sign != '+' && sign != '-';
        const char *name = list->items[i] + !plain;
        if (strcmp(list->items[i], "-*") == 0) {
            m->replaced[op_class] = true;
            continue;
        }
        size_t at = find_named(m->classes, name);
        if (at == SIZE_MAX) return unknown_operator(m, op_class, name);
        if (sign == '-' ? !take_out(m, op_class, at, name) : !put_in(m, op_class, at, plain))
            return false;
    }
    return true;
}

static bool merge_row(ListMerge *m, size_t i) {
    OpClasses *classes = m->classes;
    OpClass usual = usual_class(classes, i), named = (OpClass)m->named[i];
    bool gone = m->replaced[usual] || (m->left[i] && m->left[i] == usual);
    uint8_t merged = (uint8_t)(named ? named : gone ? CLASS_NONE : usual);
    *(i < op_record_count() ? &classes->classes[i]
                            : &classes->own[i - op_record_count()].op_class) = merged;
    if (!m->plain[i] || named == usual || gone || usual == CLASS_NONE) return true;
    err_set(m->err, ERR_USAGE, "operator '%s' is in %s and, by default, in %s",
            row_name(classes, i), list_name(named), list_name(usual));
    err_hint(m->err, "+%s moves it", row_name(classes, i));
    return false;
}

static OpClasses *classes_start(Policy policy, const OpClassLists *lists, Arena *arena) {
    OpClasses *classes = ARENA_NEW(arena, OpClasses);
    classes->policy = policy;
    classes->classes = ARENA_ARRAY(arena, uint8_t, op_record_count());
    classes->own_count = lists->declared_count;
    classes->own = ARENA_ARRAY(arena, Own, classes->own_count);
    for (size_t i = 0; i < classes->own_count; i++) classes->own[i].schema = lists->declared[i];
    classes->condition_texts = lists->fp32_when;
    return classes;
}

const OpClasses *op_classes_new(Policy policy, const OpClassLists *lists, Arena *arena, Err *err) {
    OpClasses *classes = classes_start(policy, lists, arena);
    size_t count = op_record_count() + classes->own_count;
    ListMerge m = {.classes = classes,
                   .named = ARENA_ARRAY(arena, uint8_t, count),
                   .left = ARENA_ARRAY(arena, uint8_t, count),
                   .plain = ARENA_ARRAY(arena, bool, count),
                   .err = err};
    if (!take_list(&m, CLASS_LOW, &lists->low) || !take_list(&m, CLASS_FP32, &lists->fp32) ||
        !take_list(&m, CLASS_FOLLOW, &lists->follow) ||
        !take_list(&m, CLASS_WIDEST, &lists->widest))
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (!merge_row(&m, i)) return NULL;
    classes->conditions = op_conditions_new(lists, arena, err);
    return classes->conditions ? classes : NULL;
}

/* ---- lists back from classes ----------------------------------------------------------------- */

typedef VEC(const char *) Names;

static OpClass class_at(const OpClasses *classes, size_t i) {
    return (OpClass)(i < op_record_count() ? classes->classes[i]
                                           : classes->own[i - op_record_count()].op_class);
}

static void push_name(const OpClasses *classes, size_t i, const char *sign, Names *names,
                      Arena *arena) {
    const char *domain = row_domain(classes, i);
    VEC_PUSH(
        arena, names,
        arena_printf(arena, "%s%s%s%s", sign, domain, domain[0] ? "." : "", row_name(classes, i)));
}

PassStrings op_classes_list(const OpClasses *classes, OpClass op_class, Arena *arena) {
    Names names = {0};
    for (size_t i = 0; i < op_record_count() + classes->own_count; i++)
        if (class_at(classes, i) == op_class) push_name(classes, i, "", &names, arena);
    return (PassStrings){names.items, names.count};
}

OpClassLists op_classes_changes(const OpClasses *classes, Arena *arena) {
    Names lists[CLASS_WIDEST + 1] = {0};
    for (size_t i = 0; i < op_record_count() + classes->own_count; i++) {
        OpClass now = class_at(classes, i), usual = usual_class(classes, i);
        if (now == usual) continue;
        if (now == CLASS_NONE)
            push_name(classes, i, "-", &lists[usual], arena);
        else
            push_name(classes, i, "+", &lists[now], arena);
    }
    return (OpClassLists){
        .low = {lists[CLASS_LOW].items, lists[CLASS_LOW].count},
        .fp32 = {lists[CLASS_FP32].items, lists[CLASS_FP32].count},
        .follow = {lists[CLASS_FOLLOW].items, lists[CLASS_FOLLOW].count},
        .widest = {lists[CLASS_WIDEST].items, lists[CLASS_WIDEST].count},
        .fp32_when = classes->condition_texts,
    };
}

/* ---- conditions ------------------------------------------------------------------------------ */

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
               : (OpClassAnswer){CLASS_FP32, "Pow runs in 16-bit only to square"};
}

/* The square of 300 is beyond float16's range; sums of squares are what norms are made of. */
static OpClassAnswer square_class(const Node *node, OpClass op_class, Policy policy) {
    const Value *value = input_of(node, 0);
    bool square = policy == POLICY_FLOAT16 && op_class == CLASS_WIDEST && value &&
                  value == input_of(node, 1) && !value_is_constant(value);
    return square
               ? (OpClassAnswer){CLASS_FP32, "computes a square, which may exceed float16's range"}
               : (OpClassAnswer){op_class, NULL};
}

static OpClassAnswer scatter_class(const Node *node, OpClass op_class, Policy policy) {
    const Attr *reduction = node_attr(node, "reduction");
    bool sums = attr_is_text(reduction, "add") || attr_is_text(reduction, "mul");
    return sums && policy != POLICY_FAST ? (OpClassAnswer){CLASS_FP32, "its reduction accumulates"}
                                         : (OpClassAnswer){op_class, NULL};
}

enum { EXACT_INTEGER = 256 }; /* as large as every 16-bit type holds all integers */

/* A float constant, which the value guard looks at, or one small integer. */
static bool is_plain_constant(const Node *node, const Value *value) {
    Arena *arena = &node->graph->model->arena;
    if (!value || !value_is_constant(value)) return false;
    if (type_dtype(value->type) == DTYPE_FLOAT) return true;
    const Tensor *tensor = constant_tensor(value, arena);
    int64_t *values;
    uint64_t count;
    return tensor && tensor_check(tensor, NULL) &&
           tensor_read_ints(tensor, arena, 1, &values, &count) && count == 1 &&
           values[0] >= -EXACT_INTEGER && values[0] <= EXACT_INTEGER;
}

/* float -> integer, bool, string reads fp32, and integer -> float writes it: rounding to 16 bits on
 * the way would change the result. double -> float would lose the author's rounding. A constant
 * that CastLike gives the type of its neighbors is one of them: it follows them, as other
 * constants do. */
static OpClassAnswer cast_class(const Node *node) {
    Dtype from = input_dtype(node, 0);
    const Value *out = node->output_count ? node->outputs[0] : NULL;
    Dtype to = out ? type_dtype(out->type) : DTYPE_UNDEFINED;
    bool between_floats = dtype_is_float(from) && dtype_is_float(to) && from != DTYPE_DOUBLE;
    bool like = sym_equals(node->op_type, "CastLike") && dtype_is_float(to);
    if (like && is_plain_constant(node, input_of(node, 0))) between_floats = true;
    return between_floats ? (OpClassAnswer){CLASS_FOLLOW, NULL}
                          : (OpClassAnswer){CLASS_FP32, "converts to or from another kind of type"};
}

/* Scores that Attention masks itself are the type's lowest value, which is -3.4e38 in fp32 and
 * can't be that in 16 bit: where they are an output, the node stays. Modes as of Attention-23: 1
 * and 2 show the scores with the mask, before softmax. */
static OpClassAnswer attention_class(const Node *node, OpClass op_class) {
    int64_t mode = node_attr_int(node, "qk_matmul_output_mode", 0);
    const Value *scores = node->output_count > 3 ? node->outputs[3] : NULL;
    bool masks = node_attr_int(node, "is_causal", 0) || input_dtype(node, 3) == DTYPE_BOOL;
    if (scores && scores->uses && masks && (mode == 1 || mode == 2))
        return (OpClassAnswer){CLASS_FP32, "its masked scores are an output"};
    return (OpClassAnswer){op_class, NULL};
}

static OpClassAnswer own_class(const Node *node, const char *domain, const OpClasses *classes) {
    for (size_t i = 0; i < classes->own_count; i++) {
        const OpSchema *schema = classes->own[i].schema;
        if (strcmp(schema->domain, domain) || !sym_equals(node->op_type, schema->name)) continue;
        if (classes->own[i].op_class == CLASS_NONE) break;
        return (OpClassAnswer){(OpClass)classes->own[i].op_class, NULL};
    }
    return (OpClassAnswer){CLASS_NONE, classes->own_count
                                           ? "in no list of the policy"
                                           : "type unknown: an operator that demi does not know"};
}

bool op_takes_reduced_scales(const Node *node) {
    enum { SCALE = 1 };
    const OpSchema *schema = node_schema(node);
    const OpParam *scale = schema ? op_schema_input(schema, SCALE) : NULL;
    return scale && type_set_has(op_param_types(schema, scale), OPTYPE_TENSOR, DTYPE_FLOAT16);
}

OpClassAnswer op_class_of(const Node *node, const OpClasses *classes) {
    const char *domain = domain_is_default(node->domain) ? "" : sym_text(node->domain);
    const char *condition = op_conditions_hold(classes->conditions, node);
    if (condition) return (OpClassAnswer){CLASS_FP32, condition};
    const OpRecord *row = find_row(domain, sym_text(node->op_type));
    if (!row) return own_class(node, domain, classes);
    OpClass op_class = (OpClass)classes->classes[op_record_place(row)];
    Policy policy = classes->policy;
    if (op_class == CLASS_NONE) return (OpClassAnswer){CLASS_NONE, "in no list of the policy"};
    switch ((OpUnless)row->unless) {
    case UNLESS_NOTHING: break;
    case UNLESS_POW: return pow_class(node, op_class, policy);
    case UNLESS_SCATTER: return scatter_class(node, op_class, policy);
    case UNLESS_CAST: return cast_class(node);
    case UNLESS_SQUARE: return square_class(node, op_class, policy);
    case UNLESS_DIV:
        if (input_of(node, 0) && value_is_constant(input_of(node, 0)))
            return (OpClassAnswer){CLASS_FP32, "divides a constant"};
        break;
    case UNLESS_SCALES:
        if (!op_takes_reduced_scales(node)) return (OpClassAnswer){CLASS_FP32, "quantized"};
        break;
    case UNLESS_ATTENTION: return attention_class(node, op_class);
    }
    return (OpClassAnswer){op_class, NULL};
}
