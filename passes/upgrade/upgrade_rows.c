// SPDX-License-Identifier: Apache-2.0
/* The UPGRADE rows that are data: what each kind needs and does. */
#include <string.h>

#include "upgrade.h"

static bool refuse_parameter(const Upgrade *upgrade, const Node *node, const Attr *attr, Err *err) {
    return upgrade_refuse(upgrade, node, err, "'%s' is a parameter of the function",
                          attr->name->text);
}

/* A default is written only where the attribute is absent, which must be known. */
static bool check_default(const Upgrade *upgrade, const Node *node, const Attr *attr, Err *err) {
    if (!upgrade_may_be_absent(node, attr)) return true;
    return upgrade_refuse(upgrade, node, err, "calls of the function may omit '%s'",
                          attr->name->text);
}

/* A parameter becomes an input through a Constant node: opset 12 has those for lists. What the old
 * definition lets out and the new one requires would leave an invalid node: Reshape's shape. */
static bool check_input(const Upgrade *upgrade, const Node *node, const OpsetStep *row,
                        const OpSchema *older, Err *err) {
    enum { VALUE_INTS_OPSET = 12 };
    const Attr *attr = node_attr(node, row->attr);
    const OpSchema *newer = ops_find("", older->name, row->to);
    const OpAttr *formal = op_schema_attr(older, row->attr);
    bool optional = formal && !formal->required; /* else an earlier step gives it */
    if (!attr && optional && newer && op_schema_input_is_required(newer, (size_t)row->input))
        return upgrade_refuse(upgrade, node, err, "'%s' is missing", row->attr);
    if (!upgrade_is_parameter(attr)) return true;
    if (upgrade->to < VALUE_INTS_OPSET) return refuse_parameter(upgrade, node, attr, err);
    return (formal && formal->required) || check_default(upgrade, node, attr, err);
}

bool upgrade_check_row(Upgrade *upgrade, const Node *node, const OpsetStep *row,
                       const OpSchema *older, Err *err) {
    const Attr *attr = row->attr ? node_attr(node, row->attr) : NULL;
    int64_t number;
    switch (row->kind) {
    case STEP_SAME:
    case STEP_NARROWER:
    case STEP_DROP:
    case STEP_RENAME:
    case STEP_OPERATOR: return true;
    case STEP_ONLY_INT:
        if (!attr || (attr_int(attr, &number) && number == row->integer)) return true;
        if (attr->ref) return refuse_parameter(upgrade, node, attr, err);
        return upgrade_refuse(upgrade, node, err, "'%s' must be %lld from this opset on", row->attr,
                              (long long)row->integer);
    case STEP_RENAME_VALUE:
        return !upgrade_is_parameter(attr) || refuse_parameter(upgrade, node, attr, err);
    case STEP_DEFAULT_INT:
    case STEP_DEFAULT_FLOAT:
    case STEP_DEFAULT_STRING: return check_default(upgrade, node, attr, err);
    case STEP_INTS_INPUT:
    case STEP_FLOATS_INPUT:
    case STEP_INT_INPUT: return check_input(upgrade, node, row, older, err);
    case STEP_CODE: return row->check(upgrade, node, err);
    case STEP_REFUSE: return upgrade_refuse(upgrade, node, err, "%s", row->text);
    }
    return true;
}

static void attr_to_input(Upgrade *upgrade, Node *node, const OpsetStep *row, const Attr *attr) {
    if (!attr) return;
    Value *value = upgrade_attr_value(upgrade, node, attr, (uint32_t)row->rank);
    upgrade_set_input(node, (uint32_t)row->input, value);
    node_remove_attr(node, row->attr);
}

void upgrade_apply_row(Upgrade *upgrade, Node *node, const OpsetStep *row) {
    Attr *attr = row->attr ? node_attr(node, row->attr) : NULL;
    SymTable *syms = &upgrade->model->syms;
    switch (row->kind) {
    case STEP_SAME:
    case STEP_NARROWER:
    case STEP_REFUSE: break;
    case STEP_DROP:
    case STEP_ONLY_INT: node_remove_attr(node, row->attr); break;
    case STEP_RENAME: node_rename_attr(node, row->attr, row->text); break;
    case STEP_RENAME_VALUE:
        if (upgrade_attr_is(node, row->attr, row->text))
            node_set_attr_string(node, row->attr, row->word);
        break;
    case STEP_DEFAULT_INT:
        if (!attr) node_set_attr_int(node, row->attr, row->integer);
        break;
    case STEP_DEFAULT_FLOAT:
        if (!attr) node_set_attr_float(node, row->attr, row->number);
        break;
    case STEP_DEFAULT_STRING:
        if (!attr) node_set_attr_string(node, row->attr, row->text);
        break;
    case STEP_INTS_INPUT:
    case STEP_FLOATS_INPUT:
    case STEP_INT_INPUT: attr_to_input(upgrade, node, row, attr); break;
    case STEP_OPERATOR:
        upgrade->upsampled = node;
        node->op_type = sym_intern_cstr(syms, row->text);
        model_touch(upgrade->model);
        break;
    case STEP_CODE: row->apply(upgrade, node); break;
    }
}
