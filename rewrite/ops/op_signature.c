// SPDX-License-Identifier: Apache-2.0
/* Parser of signatures; see op_signature.h for the grammar. */
#include "op_signature.h"

#include <ctype.h>
#include <string.h>

enum { MOST_OPERANDS = 64, MOST_VARS = 16 };

typedef struct Parser {
    Arena *arena;
    Err *err;
    const char *text, *at;
    OpTypeVar vars[MOST_VARS];
    bool bound[MOST_VARS]; /* occurs among the inputs */
    size_t var_count;
} Parser;

typedef struct Operands {
    OpParam *items;
    size_t count;
} Operands;

static bool fail(Parser *p, const char *what) {
    err_set(p->err, ERR_USAGE, "declared operator: %s", what);
    err_actual(p->err, "'%s' at character %d", p->text, (int)(p->at - p->text) + 1);
    err_hint(p->err, "for example: com.x.Op(T, T?) -> T; T = float|float16");
    return false;
}

static void skip_spaces(Parser *p) {
    while (*p->at == ' ') p->at++;
}

static bool accept(Parser *p, const char *token) {
    skip_spaces(p);
    size_t length = strlen(token);
    if (strncmp(p->at, token, length) != 0) return false;
    p->at += length;
    return true;
}

static const char *parse_name(Parser *p) {
    skip_spaces(p);
    const char *start = p->at;
    while (isalnum((unsigned char)*p->at) || *p->at == '_' || (*p->at == '-' && p->at[1] != '>') ||
           (*p->at == '.' && p->at[1] != '.'))
        p->at++;
    return arena_copy(p->arena, start, (size_t)(p->at - start));
}

static const TypeSet *set_of(Parser *p, Dtype dtype, const TypeSet *others) {
    TypeSet *set = ARENA_NEW(p->arena, TypeSet);
    if (others) *set = *others;
    set->dtypes[OPTYPE_TENSOR] |= UINT32_C(1) << dtype;
    return set;
}

/* The variable's index; a new one where it is met first. */
static uint8_t var_named(Parser *p, const char *name) {
    for (size_t i = 0; i < p->var_count; i++)
        if (!strcmp(p->vars[i].name, name)) return (uint8_t)i;
    if (p->var_count == MOST_VARS) return OP_NO_VAR;
    p->vars[p->var_count] = (OpTypeVar){.name = name};
    return (uint8_t)p->var_count++;
}

static bool parse_operand(Parser *p, Operands *operands, bool input) {
    const char *name = parse_name(p);
    if (!name[0]) return fail(p, "a dtype or type variable is missing");
    if (operands->count == MOST_OPERANDS) return fail(p, "too many operands");
    if (operands->count && operands->items[operands->count - 1].option == OP_VARIADIC)
        return fail(p, "only the last operand may be repeated");
    OpParam *param = &operands->items[operands->count];
    *param = (OpParam){.var = OP_NO_VAR, .homogeneous = true};
    param->name = arena_printf(p->arena, "%s%zu", input ? "input" : "output", operands->count++);
    Dtype dtype = dtype_from_name(name, strlen(name));
    if (dtype) {
        param->fixed = set_of(p, dtype, NULL);
    } else {
        param->var = var_named(p, name);
        if (param->var == OP_NO_VAR) return fail(p, "too many type variables");
        if (input) p->bound[param->var] = true;
        if (!p->bound[param->var]) return fail(p, "no input has the type variable of the output");
    }
    param->option = accept(p, "...") ? OP_VARIADIC : accept(p, "?") ? OP_OPTIONAL : OP_SINGLE;
    return true;
}

static bool parse_operands(Parser *p, Operands *operands, bool input) {
    operands->items = ARENA_ARRAY(p->arena, OpParam, MOST_OPERANDS);
    if (!accept(p, "(")) {
        if (input) return fail(p, "expected '('");
        return parse_operand(p, operands, input);
    }
    if (accept(p, ")")) return true;
    do {
        if (!parse_operand(p, operands, input)) return false;
    } while (accept(p, ","));
    return accept(p, ")") || fail(p, "expected ',' or ')'");
}

static bool parse_var(Parser *p) {
    const char *name = parse_name(p);
    OpTypeVar *var = NULL;
    for (size_t i = 0; i < p->var_count; i++)
        if (!strcmp(p->vars[i].name, name)) var = &p->vars[i];
    if (!var) return fail(p, "no operand has this type variable");
    if (!accept(p, "=")) return fail(p, "expected '='");
    do {
        const char *dtype_text = parse_name(p);
        Dtype dtype = dtype_from_name(dtype_text, strlen(dtype_text));
        if (!dtype) return fail(p, "unknown dtype");
        var->types = set_of(p, dtype, var->types);
    } while (accept(p, "|"));
    return true;
}

static bool parse_vars(Parser *p) {
    while (accept(p, ";"))
        if (!parse_var(p)) return false;
    if (*p->at) return fail(p, "expected ';' or the end");
    for (size_t i = 0; i < p->var_count; i++) {
        if (p->vars[i].types) continue;
        err_set(p->err, ERR_USAGE, "declared operator: type variable '%s' has no dtypes",
                p->vars[i].name);
        err_actual(p->err, "'%s'", p->text);
        return false;
    }
    return true;
}

static bool parse_op(Parser *p, OpSchema *schema) {
    char *name = (char *)parse_name(p);
    char *dot = strrchr(name, '.');
    if (!dot || dot == name || !dot[1]) return fail(p, "expected DOMAIN.OPERATOR");
    *dot = '\0';
    schema->domain = name;
    schema->name = dot + 1;
    if (ops_domain_is_whole(name))
        return fail(p, "operators of this domain are known and cannot be declared");
    return true;
}

static void count_operands(const Operands *operands, uint16_t *least, uint16_t *most) {
    *least = 0;
    *most = (uint16_t)operands->count;
    for (size_t i = 0; i < operands->count; i++) {
        if (operands->items[i].option == OP_SINGLE) *least = (uint16_t)(i + 1);
        if (operands->items[i].option == OP_VARIADIC) *most = OP_UNBOUNDED;
    }
}

static const OpSchema *parse(Arena *arena, const char *text, Err *err) {
    Parser p = {.arena = arena, .err = err, .text = text, .at = text};
    OpSchema *schema = ARENA_NEW(arena, OpSchema);
    Operands inputs = {0}, outputs = {0};
    *schema = (OpSchema){.since = 1, .until = INT32_MAX};
    bool ok = parse_op(&p, schema) && parse_operands(&p, &inputs, true) &&
              (accept(&p, "->") || fail(&p, "expected '->'")) &&
              parse_operands(&p, &outputs, false) && parse_vars(&p);
    if (!ok) return NULL;
    count_operands(&inputs, &schema->min_input, &schema->max_input);
    count_operands(&outputs, &schema->min_output, &schema->max_output);
    schema->inputs = inputs.items;
    schema->outputs = outputs.items;
    schema->input_count = (uint8_t)inputs.count;
    schema->output_count = (uint8_t)outputs.count;
    schema->vars = arena_copy(arena, p.vars, p.var_count * sizeof *p.vars);
    schema->var_count = (uint8_t)p.var_count;
    return schema;
}

bool op_signatures_parse(const PassStrings *texts, Arena *arena, OpSignatures *out, Err *err) {
    const OpSchema **items = ARENA_ARRAY(arena, const OpSchema *, texts->count);
    *out = (OpSignatures){.items = items, .count = texts->count};
    for (size_t i = 0; i < texts->count; i++) {
        items[i] = parse(arena, texts->items[i], err);
        if (!items[i]) return false;
        for (size_t k = 0; k < i; k++)
            if (!strcmp(items[k]->name, items[i]->name) &&
                !strcmp(items[k]->domain, items[i]->domain))
                return err_set(err, ERR_USAGE, "operator '%s.%s' is declared twice",
                               items[i]->domain, items[i]->name);
    }
    return true;
}
