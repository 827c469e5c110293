// SPDX-License-Identifier: Apache-2.0
/* Attribute layouts against the operators' definitions: every attribute that a layout names exists,
 * is of the kind and has the default of every version that its rows serve, and every attribute of a
 * definition is read by the layout of the shape function or of the kernel, or is listed here with
 * the reason why neither reads it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fused_ops.h"
#include "kernel.h"
#include "op_record.h"
#include "ops.h"
#include "shape.h"

typedef struct Excuse {
    const char *op, *attr, *reason; /* op: "*" for all operators */
} Excuse;

/* Attributes that no layout reads. */
static const Excuse unread[] = {
    {"*", "consumed_inputs", "said what an implementation of version 1 may overwrite"},
    {"*", "output_sequence", "that the output is there says it"},
    {"*", "stash_type", "the arithmetic is float's or double's, never less"},
    {"*", "dtype", "the plan has the outputs' types"},
    {"*", "output_dtype", "the plan has the outputs' types"},
    {"*", "output_datatype", "the plan has the outputs' types"},
    {"Affine", "to", "the plan has the outputs' types"},
    {"Attention", "to", "the plan has the outputs' types"},
    {"BitCast", "to", "the plan has the outputs' types"},
    {"AveragePoolLast", "to", "the plan has the outputs' types"},
    {"Conv", "to", "the plan has the outputs' types"},
    {"ConvLast", "to", "the plan has the outputs' types"},
    {"ConvTransposeLast", "to", "the plan has the outputs' types"},
    {"Gelu", "to", "the plan has the outputs' types"},
    {"LayerNormalization", "low", "the plan has the outputs' types"},
    {"LayerNormalization", "sum", "the plan has the outputs' types"},
    {"LayerNormalization", "to", "the plan has the outputs' types"},
    {"MatMul", "to", "the plan has the outputs' types"},
    {"QMoE", "accuracy_level", "rows stay float: a hint of how inexact it may be"},
    {"MatMulBits", "to", "the plan has the outputs' types"},
    {"MaxPoolLast", "to", "the plan has the outputs' types"},
    {"QAdd", "to", "the plan has the outputs' types"},
    {"QAveragePool", "to", "the plan has the outputs' types"},
    {"QAveragePoolLast", "to", "the plan has the outputs' types"},
    {"QConv", "to", "the plan has the outputs' types"},
    {"QConvLast", "to", "the plan has the outputs' types"},
    {"QConvTranspose", "to", "the plan has the outputs' types"},
    {"QConvTransposeLast", "to", "the plan has the outputs' types"},
    {"QDiv", "to", "the plan has the outputs' types"},
    {"QMatMul", "to", "the plan has the outputs' types"},
    {"QMean", "to", "the plan has the outputs' types"},
    {"QMul", "to", "the plan has the outputs' types"},
    {"QResize", "to", "the plan has the outputs' types"},
    {"QTable", "to", "the plan has the outputs' types"},
    {"QuantizeRows", "to", "the plan has the outputs' types"},
    {"Rotary", "to", "the plan has the outputs' types"},
    {"RoundSteps", "to", "the plan has the outputs' types"},
    {"SeparableConvLast", "to", "the plan has the outputs' types"},
    {"Optional", "type", "only the type of what is made depends on it"},
    {"*", "body", "a graph: runtime/exec_control.c finds it by its name"},
    {"If", "then_branch", "a graph: runtime/exec_control.c finds it by its name"},
    {"If", "else_branch", "a graph: runtime/exec_control.c finds it by its name"},
    {"FlexAttention", "score_mod", "a graph: runtime/exec_flex.c finds it by its name"},
    {"FlexAttention", "prob_mod", "a graph: runtime/exec_flex.c finds it by its name"},
    {"FlexAttention", "scale", "runtime/exec_flex.c finds it by its name"},
    {"FlexAttention", "softmax_precision", "runtime/exec_flex.c finds it by its name"},
    {"Scan", "num_scan_inputs", "runtime/exec_control.c finds it by its name"},
    {"Scan", "directions", "runtime/exec_control.c finds it by its name"},
    {"Scan", "scan_input_axes", "runtime/exec_control.c finds it by its name"},
    {"Scan", "scan_input_directions", "runtime/exec_control.c finds it by its name"},
    {"Scan", "scan_output_axes", "runtime/exec_control.c finds it by its name"},
    {"Scan", "scan_output_directions", "runtime/exec_control.c finds it by its name"},
    {"Dropout", "ratio", "from version 7 on nothing is dropped unless an input says so"},
    {"Gemm", "broadcast", "C broadcasts wherever its dims allow"},
    {"TopK", "sorted", "what is found is sorted in any case"},
    {"LinearAttention", "chunk_size", "says how to compute, not what"},
    {"StringNormalizer", "locale", "kernel_letters.h knows no locales"},
    {"LinearClassifier", "multi_class", "how it was trained"},
    {"*", "nodes_hitrates", "statistics of the training"},
    {"*", "nodes_hitrates_as_tensor", "statistics of the training"},
    {"ImageDecoder", "pixel_format", "no kernel"},
    {"CastMap", "cast_to", "maps: no kernel"},
    {"CastMap", "map_form", "maps: no kernel"},
    {"CastMap", "max_map", "maps: no kernel"},
    {"DictVectorizer", "int64_vocabulary", "maps: no kernel"},
    {"DictVectorizer", "string_vocabulary", "maps: no kernel"},
    {"ZipMap", "classlabels_int64s", "maps: no kernel"},
    {"ZipMap", "classlabels_strings", "maps: no kernel"},
    {"Gradient", "xs", "no kernel"},
    {"Gradient", "y", "no kernel"},
    {"Gradient", "zs", "no kernel"},
};

/* Attributes that a layout reads otherwise than one of the versions defines them. */
static const Excuse other[] = {
    {"Cast", "to", "a string in version 1, whose shape function does not ask for it"},
    {"GRU", "direction", "version 1's default is a misspelt \"forward\""},
    {"Concat", "axis", "version 1's default is told in its text"},
    {"Split", "axis", "version 1 has no default, later ones do"},
    {"Clip", "min", "kernel_choose.c: from version 6 on the smallest float, before that none"},
    {"Clip", "max", "kernel_choose.c: from version 6 on the largest float, before that none"},
    {"MeanVarianceNormalization", "axes", "kernel_local_norm.c has the default list"},
    {"RNN", "activations", "kernel_recurrent.c has the default list"},
};

enum { LIST_MOST = 256 };

static unsigned failures;

static void fail_at(const OpSchema *op, const char *attr, const char *what) {
    print_error("%s%s%s-%d.%s: %s\n", op->domain, *op->domain ? ":" : "", op->name, (int)op->since,
                attr, what);
    failures++;
}

/* True where the list has the attribute; marks what was of use. */
static bool listed(const Excuse *list, size_t count, bool *used, const OpSchema *op,
                   const char *attr) {
    for (size_t i = 0; i < count; i++)
        if ((!strcmp(list[i].op, op->name) || !strcmp(list[i].op, "*")) &&
            !strcmp(list[i].attr, attr))
            return used[i] = true;
    return false;
}

static bool unread_used[LIST_MOST], other_used[LIST_MOST];
#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool same_float(float a, float b) {
    return memcmp(&a, &b, sizeof a) == 0;
}

static const char told[] = "it has no default, but the layout has one";
static const char differs[] = "another default than the layout's";

static const char *wrong_choice(const AttrField *field, const OpAttr *attr) {
    if (!attr->has_default) return field->otherwise == -1 ? NULL : told;
    return field->otherwise >= 0 && !strcmp(field->choices[field->otherwise], attr->value.s)
               ? NULL
               : differs;
}

/* What is wrong with the default; NULL: nothing. */
static const char *wrong_default(const AttrField *field, const OpAttr *attr) {
    switch (field->kind) {
    case ATTR_FIELD_INT:
        if (!attr->has_default) return field->otherwise == ATTR_ABSENT ? NULL : told;
        return field->otherwise == attr->value.i ? NULL : differs;
    case ATTR_FIELD_REAL: /* one that is required may be any number where it is missing */
        if (!attr->has_default) return attr->required && field->real == 0 ? NULL : told;
        return same_float(field->real, (float)attr->value.f) ? NULL : differs;
    case ATTR_FIELD_CHOICE: return wrong_choice(field, attr);
    case ATTR_FIELD_TEXT:
        if (!attr->has_default) return field->text ? told : NULL;
        return field->text && !strcmp(field->text, attr->value.s) ? NULL : differs;
    case ATTR_FIELD_INTS:
    case ATTR_FIELD_FLOAT:
    case ATTR_FIELD_FLOATS:
    case ATTR_FIELD_TEXTS:
    case ATTR_FIELD_TENSOR:
        return attr->has_default ? "a default, which the layout can't say" : NULL;
    case ATTR_FIELD_VALUES: break;
    }
    return NULL;
}

static bool right_type(AttrFieldKind kind, uint8_t type) {
    static const uint8_t types[] = {
        [ATTR_FIELD_INT] = ATTR_INT,       [ATTR_FIELD_INTS] = ATTR_INTS,
        [ATTR_FIELD_REAL] = ATTR_FLOAT,    [ATTR_FIELD_FLOAT] = ATTR_FLOAT,
        [ATTR_FIELD_FLOATS] = ATTR_FLOATS, [ATTR_FIELD_TEXT] = ATTR_STRING,
        [ATTR_FIELD_TEXTS] = ATTR_STRINGS, [ATTR_FIELD_CHOICE] = ATTR_STRING,
        [ATTR_FIELD_TENSOR] = ATTR_TENSOR};
    return types[kind] == type || (kind == ATTR_FIELD_TENSOR && type == ATTR_SPARSE_TENSOR);
}

static void check_layout(const OpSchema *op, const AttrLayout *layout) {
    for (const AttrField *field = layout->fields; field->name; field++) {
        const OpAttr *attr = *field->name ? op_schema_attr(op, field->name) : NULL;
        if (!attr) continue;
        const char *wrong =
            right_type(field->kind, attr->type) ? wrong_default(field, attr) : "of another type";
        if (wrong && !listed(other, COUNT(other), other_used, op, field->name))
            fail_at(op, field->name, wrong);
    }
}

static const AttrLayout *shape_layout(const OpSchema *op) {
    const ShapeRow *row = shape_find(op->domain, op->name, op->since);
    return row ? row->layout : NULL;
}

static const AttrLayout *kernel_layout(const OpSchema *op) {
    size_t count;
    const KernelRow *row = kernel_find(op->domain, op->name, op->since, &count);
    return row ? row->layout : NULL;
}

static bool reads(const AttrLayout *layout, const char *name) {
    return layout && attr_layout_find(layout, name, strlen(name));
}

/* There is a recipe for it, which reads its attributes, and no kernel. */
static bool is_decomposed(const OpSchema *op) {
    return op_record_has(op_record_find(op->domain, op->name), OP_DECOMPOSED);
}

static const OpSchema *schema_at(size_t i) {
    return i < ops_count() ? ops_at(i) : fused_ops_at(i - ops_count());
}
static size_t schema_count(void) {
    return ops_count() + fused_ops_count();
}

static void check_use(const Excuse *list, size_t count, const bool *used) {
    for (size_t i = 0; i < count; i++) {
        if (used[i]) continue;
        print_error("%s.%s is listed (%s), but nothing is wrong with it\n", list[i].op,
                    list[i].attr, list[i].reason);
        failures++;
    }
}

static void test_definitions(void **state) {
    (void)state;
    failures = 0;
    for (size_t i = 0; i < schema_count(); i++) {
        const OpSchema *op = schema_at(i);
        const AttrLayout *shape = shape_layout(op), *kernel = kernel_layout(op);
        if (shape) check_layout(op, shape);
        if (kernel && kernel != shape) check_layout(op, kernel);
        if (kernel && shape && kernel != shape && kernel->fields->name && shape->fields->name)
            fail_at(op, "*", "its shape function and its kernel have two layouts");
        for (uint8_t k = 0; k < op->attr_count; k++) {
            const char *name = op->attrs[k].name;
            if (!reads(shape, name) && !reads(kernel, name) && !is_decomposed(op) &&
                !listed(unread, COUNT(unread), unread_used, op, name))
                fail_at(op, name, "no layout reads it");
        }
    }
    check_use(unread, COUNT(unread), unread_used);
    check_use(other, COUNT(other), other_used);
    assert_int_equal(failures, 0);
}

/* True where an operator version whose row has the layout has the attribute. */
static bool known(const AttrLayout *layout, const char *name) {
    for (size_t i = 0; i < schema_count(); i++) {
        const OpSchema *op = schema_at(i);
        if ((shape_layout(op) == layout || kernel_layout(op) == layout) && op_schema_attr(op, name))
            return true;
    }
    return false;
}

static void check_names(const char *op, const AttrLayout *layout) {
    for (const AttrField *field = layout->fields; field->name; field++)
        if (*field->name && !known(layout, field->name)) {
            print_error("%s: no operator of its layout has %s\n", op, field->name);
            failures++;
        }
}

static void test_names(void **state) {
    (void)state;
    failures = 0;
    for (int op = OP_NONE; op < OP_ID_COUNT; op++) {
        size_t count;
        const ShapeRow *shapes = shape_rows((OpId)op, &count);
        for (size_t i = 0; i < count; i++) check_names(op_name((OpId)op), shapes[i].layout);
        const KernelRow *kernels = kernel_rows((OpId)op, &count);
        for (size_t i = 0; i < count; i++) check_names(op_name((OpId)op), kernels[i].layout);
    }
    assert_int_equal(failures, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_definitions),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
