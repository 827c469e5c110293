// SPDX-License-Identifier: Apache-2.0
/* Look-ups in the generated tables of ops.def. An operator is found by a hash of its name in a
 * table that the generator filled by the same function; its versions follow each other, oldest
 * first, so that the one in force is a short walk. */
#include "ops.h"

#include <string.h>

#include "fused_ops.h"
#include "text_order.h"

/* One row of `families`. */
typedef struct OpFamily {
    uint16_t first, count;
} OpFamily;

/* What the rows of ops.def are written with: indices into its earlier tables. */
#define VAR(index)     NULL, (index)
#define FIXED(index)   &type_sets[index], OP_NO_VAR
#define INTS(index)    &int_lists[index]
#define STRINGS(index) &string_lists[index]

#include "ops.def"

enum { LONGEST_NAME = 63 }; /* of names that ops_nearest_name compares */

static uint32_t hash_name(const char *name, size_t length) {
    uint32_t hash = 2166136261u; /* FNV-1a, as in gen_ops.py */
    for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)name[i]) * 16777619u;
    return hash;
}

static bool text_is(const char *text, const char *bytes, size_t length) {
    return strncmp(text, bytes, length) == 0 && text[length] == '\0' &&
           (length == 0 || memchr(bytes, '\0', length) == NULL);
}

const char *ops_domain(const char *domain) {
    return !domain || text_equals(domain, "ai.onnx") ? "" : domain;
}

static const OpFamily *family_find(const char *domain, const char *name, size_t length) {
    const size_t slot_count = sizeof slots / sizeof *slots;
    domain = ops_domain(domain);
    for (size_t slot = hash_name(name, length) % slot_count; slots[slot];
         slot = (slot + 1) % slot_count) {
        const OpFamily *family = &families[slots[slot] - 1];
        const OpSchema *schema = &schemas[family->first];
        if (text_is(schema->name, name, length) && text_equals(schema->domain, domain))
            return family;
    }
    return NULL;
}

/* A fused operator, where the domain is theirs. */
static const OpSchema *find_fused(const char *domain, const char *name, size_t length) {
    return domain && text_equals(domain, FUSED_DOMAIN) ? fused_ops_find(name, length) : NULL;
}

static const OpSchema *family_version(const OpFamily *family, int64_t opset) {
    if (!family) return NULL;
    for (size_t i = family->count; i-- > 0;) {
        const OpSchema *schema = &schemas[family->first + i];
        if (schema->since <= opset) return schema;
    }
    return NULL;
}

const OpSchema *ops_find(const char *domain, const char *name, int64_t opset) {
    const OpSchema *fused = find_fused(domain, name, strlen(name));
    if (fused) return fused->since <= opset ? fused : NULL;
    return family_version(family_find(domain, name, strlen(name)), opset);
}

const OpSchema *ops_find_sym(Sym domain, Sym name, int64_t opset) {
    if (!name || (domain && memchr(domain->text, '\0', domain->length))) return NULL;
    const OpSchema *fused = find_fused(sym_text(domain), name->text, name->length);
    if (fused) return fused->since <= opset ? fused : NULL;
    return family_version(family_find(sym_text(domain), name->text, name->length), opset);
}

bool ops_exists(const char *domain, const char *name) {
    const size_t length = strlen(name);
    return find_fused(domain, name, length) || family_find(domain, name, length);
}

int64_t ops_latest_opset(const char *domain) {
    static const struct {
        const char *domain;
        int64_t opset;
    } latest[] = {
        {"", OPS_OPSET_ONNX},
        {"ai.onnx.ml", OPS_OPSET_ML},
        {"ai.onnx.preview", OPS_OPSET_PREVIEW},
        {"ai.onnx.preview.training", OPS_OPSET_TRAINING},
        {"com.microsoft", OPS_OPSET_MICROSOFT},
        {FUSED_DOMAIN, FUSED_OPSET},
    };
    for (size_t i = 0; i < sizeof latest / sizeof *latest; i++)
        if (strcmp(latest[i].domain, ops_domain(domain)) == 0) return latest[i].opset;
    return 0;
}

bool ops_domain_is_whole(const char *domain) {
    return ops_latest_opset(domain) && !text_equals(ops_domain(domain), "com.microsoft");
}

size_t ops_count(void) {
    return sizeof schemas / sizeof *schemas;
}

const OpSchema *ops_at(size_t index) {
    return &schemas[index];
}

/* ---- names spelt alike ----------------------------------------------------------------------- */

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static unsigned least(unsigned a, unsigned b, unsigned c) {
    unsigned ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* Edit distance in half steps: a letter more, less or other costs 2, another case 1. */
static unsigned name_distance(const char *a, const char *b) {
    unsigned row[LONGEST_NAME + 1];
    size_t length = strlen(b);
    for (size_t j = 0; j <= length; j++) row[j] = (unsigned)(2 * j);
    for (size_t i = 0; a[i]; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)(2 * (i + 1));
        for (size_t j = 1; j <= length; j++) {
            unsigned change = a[i] == b[j - 1] ? 0 : lower(a[i]) == lower(b[j - 1]) ? 1 : 2;
            unsigned best = least(row[j] + 2, row[j - 1] + 2, diagonal + change);
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[length];
}

/* True where `name` is the beginning of `full`, whatever the case: BatchNorm for its long form. */
static bool name_begins(const char *full, const char *name) {
    while (*name && lower(*full) == lower(*name)) full++, name++;
    return *name == '\0';
}

const char *ops_nearest_name(const char *domain, const char *name) {
    const size_t length = strlen(name);
    if (length == 0 || length > LONGEST_NAME) return NULL;
    /* Within a third of the letters, so that a hint is not a guess; letters of the wrong case
     * always. */
    unsigned limit = (unsigned)(length < 3 ? 2 : length / 3 * 2);
    if (limit < length) limit = (unsigned)length;
    const char *nearest = NULL;
    const size_t published = sizeof families / sizeof *families;
    for (size_t i = 0; i < published + fused_ops_count(); i++) {
        const OpSchema *schema =
            i < published ? &schemas[families[i].first] : fused_ops_at(i - published);
        if (strcmp(schema->domain, ops_domain(domain)) != 0) continue;
        bool begins = length > 3 && name_begins(schema->name, name);
        unsigned distance = begins ? 2 : name_distance(name, schema->name);
        if (distance >= limit) continue;
        limit = distance;
        nearest = schema->name;
    }
    return nearest;
}

/* ---- parameters and attributes --------------------------------------------------------------- */

static const OpParam *param_at(const OpParam *params, size_t count, size_t index) {
    if (index < count) return &params[index];
    return count && params[count - 1].option == OP_VARIADIC ? &params[count - 1] : NULL;
}

static bool operand_is_required(const OpParam *params, size_t count, size_t index) {
    const OpParam *param = param_at(params, count, index);
    if (!param || param->option == OP_OPTIONAL) return false;
    return param->option == OP_SINGLE || index < count - 1 + param->min_arity;
}

const OpParam *op_schema_input(const OpSchema *schema, size_t index) {
    return param_at(schema->inputs, schema->input_count, index);
}

const OpParam *op_schema_output(const OpSchema *schema, size_t index) {
    return param_at(schema->outputs, schema->output_count, index);
}

bool op_schema_input_is_required(const OpSchema *schema, size_t index) {
    return operand_is_required(schema->inputs, schema->input_count, index);
}

bool op_schema_output_is_required(const OpSchema *schema, size_t index) {
    return operand_is_required(schema->outputs, schema->output_count, index);
}

bool op_param_is_required(const OpParam *param) {
    return param->option == OP_SINGLE || (param->option == OP_VARIADIC && param->min_arity > 0);
}

const TypeSet *op_param_types(const OpSchema *schema, const OpParam *param) {
    return param->fixed ? param->fixed : schema->vars[param->var].types;
}

const OpAttr *op_schema_attr(const OpSchema *schema, const char *name) {
    for (size_t i = 0; i < schema->attr_count; i++)
        if (text_equals(schema->attrs[i].name, name)) return &schema->attrs[i];
    return NULL;
}

const OpTypeVar *op_schema_var(const OpSchema *schema, const char *name) {
    for (size_t i = 0; i < schema->var_count; i++)
        if (text_equals(schema->vars[i].name, name)) return &schema->vars[i];
    return NULL;
}

/* ---- types ----------------------------------------------------------------------------------- */

/* Of tensor, sequence of tensors, …: the same inside an optional or a sequence. COUNT: none. */
static OpTypeKind kind_wrapped(TypeKind wrapper, OpTypeKind inner) {
    if (wrapper == TYPE_OPTIONAL)
        return inner == OPTYPE_TENSOR ? OPTYPE_OPTIONAL
               : inner == OPTYPE_SEQ  ? OPTYPE_OPTIONAL_SEQ
                                      : OPTYPE_COUNT;
    return inner == OPTYPE_TENSOR       ? OPTYPE_SEQ
           : inner == OPTYPE_MAP_INT64  ? OPTYPE_SEQ_MAP_INT64
           : inner == OPTYPE_MAP_STRING ? OPTYPE_SEQ_MAP_STRING
                                        : OPTYPE_COUNT;
}

static OpTypeKind kind_of_map(const Type *map) {
    if (!map->elem || map->elem->kind != TYPE_TENSOR) return OPTYPE_COUNT;
    return map->dtype == DTYPE_INT64    ? OPTYPE_MAP_INT64
           : map->dtype == DTYPE_STRING ? OPTYPE_MAP_STRING
                                        : OPTYPE_COUNT;
}

bool op_type_from(const Type *type, OpType *out) {
    /* No known type nests deeper than two wrappers: what does is refused, not walked. */
    const Type *wrappers[2];
    size_t depth = 0;
    while (type && (type->kind == TYPE_SEQUENCE || type->kind == TYPE_OPTIONAL)) {
        if (depth == sizeof wrappers / sizeof *wrappers) return false;
        wrappers[depth++] = type;
        type = type->elem;
    }
    if (!type) return false;
    OpTypeKind kind = type->kind == TYPE_TENSOR          ? OPTYPE_TENSOR
                      : type->kind == TYPE_SPARSE_TENSOR ? OPTYPE_SPARSE
                      : type->kind == TYPE_MAP           ? kind_of_map(type)
                                                         : OPTYPE_COUNT;
    while (depth-- > 0 && kind != OPTYPE_COUNT) kind = kind_wrapped(wrappers[depth]->kind, kind);
    if (kind == OPTYPE_COUNT) return false;
    int32_t dtype = type->kind == TYPE_MAP ? type->elem->dtype : type->dtype;
    if (dtype <= DTYPE_UNDEFINED || dtype >= DTYPE_COUNT) return false;
    *out = (OpType){kind, (Dtype)dtype};
    return true;
}

/* ---- type sets ------------------------------------------------------------------------------- */

bool type_set_has(const TypeSet *set, OpTypeKind kind, Dtype dtype) {
    if ((unsigned)kind >= OPTYPE_COUNT || (unsigned)dtype >= DTYPE_COUNT) return false;
    return (set->dtypes[kind] >> dtype & 1u) != 0;
}

size_t type_set_count(const TypeSet *set) {
    size_t count = 0;
    for (size_t kind = 0; kind < OPTYPE_COUNT; kind++)
        for (uint32_t rest = set->dtypes[kind]; rest; rest &= rest - 1) count++;
    return count;
}

bool type_set_single(const TypeSet *set, OpTypeKind *kind, Dtype *dtype) {
    if (type_set_count(set) != 1) return false;
    for (unsigned k = 0; k < OPTYPE_COUNT; k++)
        for (unsigned d = 0; d < DTYPE_COUNT; d++)
            if (set->dtypes[k] >> d & 1u) {
                *kind = (OpTypeKind)k;
                *dtype = (Dtype)d;
            }
    return true;
}
