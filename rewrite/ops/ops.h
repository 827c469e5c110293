// SPDX-License-Identifier: Apache-2.0
/* Operator schemas as data: every version of every operator of the published domains, up to opset
 * 28 of ai.onnx, and of some of com.microsoft. The tables are ops.def, which tools/gen/gen_ops.py writes from the published
 * definitions; nothing here is kept by hand (op_facts.h holds what the definitions do not say).
 *
 * A schema says, per formal parameter, either the type variable it shares with other parameters or
 * a fixed type; casts are therefore decided per operand, never per node. All schemas are static and
 * constant: pointers stay valid, == compares schemas, and nothing is built at start-up.
 *
 * The domains "" and "ai.onnx" (and NULL) are one; schemas spell it "". Look-ups by name know
 * demi's own domain, demi.fused, too (fused_ops.h).
 */
#ifndef DEMI_OPS_H
#define DEMI_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dtype.h"
#include "graph.h"
#include "sym.h"

/* The newest opsets the tables know. */
enum {
    OPS_OPSET_ONNX = 28,     /* "" */
    OPS_OPSET_ML = 5,        /* ai.onnx.ml */
    OPS_OPSET_PREVIEW = 1,   /* ai.onnx.preview */
    OPS_OPSET_TRAINING = 1,  /* ai.onnx.preview.training */
    OPS_OPSET_MICROSOFT = 1, /* com.microsoft, of which single operators are known */
};

/* What a value is, apart from its element type. The schemas nest no deeper than this. For maps the
 * element type is that of the map's values; keys are int64 or string. No schema takes a sparse
 * tensor; the kind exists so that every type of a graph value has an answer. */
typedef enum OpTypeKind {
    OPTYPE_TENSOR,
    OPTYPE_SEQ,            /* sequence of tensors */
    OPTYPE_OPTIONAL,       /* optional tensor */
    OPTYPE_OPTIONAL_SEQ,   /* optional sequence of tensors */
    OPTYPE_SPARSE,         /* sparse tensor */
    OPTYPE_MAP_INT64,      /* map with int64 keys */
    OPTYPE_MAP_STRING,     /* map with string keys */
    OPTYPE_SEQ_MAP_INT64,  /* sequence of maps with int64 keys */
    OPTYPE_SEQ_MAP_STRING, /* sequence of maps with string keys */
    OPTYPE_COUNT
} OpTypeKind;

/* A type as far as schemas go. */
typedef struct OpType {
    OpTypeKind kind;
    Dtype dtype;
} OpType;

/* The schema's view of a value's type. False where the type is unknown, has no element type, or is
 * nested as no schema's is; *out is then untouched. */
bool op_type_from(const Type *type, OpType *out);

/* A set of types: bit d of dtypes[k] is set where kind k with element type d is a member. */
typedef struct TypeSet {
    uint32_t dtypes[OPTYPE_COUNT];
} TypeSet;

/* A type variable ("T", "T1", "V", …) of one schema and the types it may take. */
typedef struct OpTypeVar {
    const char *name;
    const TypeSet *types;
} OpTypeVar;

typedef enum OpParamOption { OP_SINGLE, OP_OPTIONAL, OP_VARIADIC } OpParamOption;

enum { OP_NO_VAR = 255 }; /* OpParam.var of a parameter with a fixed type */

/* A formal input or output. */
typedef struct OpParam {
    const char *name;
    const TypeSet *fixed; /* the fixed type, one member; NULL where `var` says the type */
    uint8_t var;          /* index into OpSchema.vars, or OP_NO_VAR */
    uint8_t option;       /* an OpParamOption */
    bool homogeneous;     /* of a variadic one: all actual operands have one type. False for Loop,
                             Scan, If, …: each actual operand is a variable of its own */
    uint8_t min_arity;    /* of a variadic one: fewest actual operands */
} OpParam;

/* An attribute and its default. No published schema has a default that is a tensor, graph or type;
 * "absent means the input's dtype" and the like are not defaults but rows of op_facts.h. */
typedef struct OpAttr {
    const char *name;
    uint8_t type; /* an AttrType of graph.h */
    bool required;
    bool has_default;
    uint8_t count; /* elements of a list default */
    union {
        int64_t i;
        double f; /* a float's value */
        const char *s;
        const int64_t *ints;
        const double *floats;
        const char *const *strings;
    } value; /* by `type`; only where has_default */
} OpAttr;

typedef enum OpBody {
    OP_BODY_NONE,
    OP_BODY_FUNCTION, /* the definition gives a function body */
    OP_BODY_CONTEXT,  /* the body depends on attributes, opset and types */
} OpBody;

typedef enum OpDeterminism {
    OP_DETERMINISM_UNKNOWN, /* the definition does not say */
    OP_DETERMINISTIC,
    OP_NONDETERMINISTIC, /* or may be, because of a subgraph; op_record.h says which are random */
} OpDeterminism;

enum { OP_UNBOUNDED = 0xFFFF }; /* max_input, max_output: as many as one likes */

/* True where a schema's least and most allow so many operands. */
static inline bool op_allows(uint32_t count, uint16_t least, uint16_t most) {
    return count >= least && (count <= most || most == OP_UNBOUNDED);
}

/* One version of an operator. */
typedef struct OpSchema {
    const char *domain; /* "", "ai.onnx.ml", … */
    const char *name;
    int32_t since; /* first opset with this version */
    int32_t until; /* last opset with it: INT32_MAX for the newest version */
    bool deprecated;
    bool experimental;
    uint8_t body;        /* an OpBody */
    uint8_t determinism; /* an OpDeterminism */
    uint16_t min_input, max_input, min_output, max_output;
    uint8_t input_count, output_count, var_count, attr_count; /* of formal parameters, … */
    const OpParam *inputs, *outputs;
    const OpTypeVar *vars;
    const OpAttr *attrs; /* sorted by name */
} OpSchema;

/* The version of the operator that is in force at `opset`: the newest with since <= opset, also if
 * it is deprecated (see its flag). NULL where there is none. An opset past the newest known one
 * gives the newest version; refusing such models is the caller's business. O(1). */
const OpSchema *ops_find(const char *domain, const char *name, int64_t opset);

/* The same for interned names, which may hold NULs; an absent domain is "". */
const OpSchema *ops_find_sym(Sym domain, Sym name, int64_t opset);

/* True where any version of the operator exists. */
bool ops_exists(const char *domain, const char *name);

/* The newest opset known of the domain; 0 for a domain that is none of ours. */
int64_t ops_latest_opset(const char *domain);

/* True where all operators of the domain are known, so that there is none of another name; of others
 * a model may have any. */
bool ops_domain_is_whole(const char *domain);

/* "" for NULL, "" and "ai.onnx", else the domain itself: the spelling schemas use. */
const char *ops_domain(const char *domain);

/* The operator of that domain whose name is spelt most alike, for hints ("did you mean"); NULL
 * where none is near. Differences of case alone count least. */
const char *ops_nearest_name(const char *domain, const char *name);

/* All schemas, ordered by domain, name, since: 0 <= index < ops_count(). */
size_t ops_count(void);
const OpSchema *ops_at(size_t index);

/* The formal parameter of the actual operand `index`: a final variadic one stands for all from its
 * place on. NULL where the schema has no such operand. */
const OpParam *op_schema_input(const OpSchema *schema, size_t index);
const OpParam *op_schema_output(const OpSchema *schema, size_t index);

/* True where the actual operand `index` must be there: a single parameter, or one of the first
 * min_arity of a variadic one. Optional parameters may be absent (an empty name, or left out). */
bool op_schema_input_is_required(const OpSchema *schema, size_t index);
bool op_schema_output_is_required(const OpSchema *schema, size_t index);

/* True where the parameter itself must be there: single, or variadic with min_arity > 0. */
bool op_param_is_required(const OpParam *param);

/* The types a parameter of this schema may have: its variable's, or its fixed one. Never NULL. */
const TypeSet *op_param_types(const OpSchema *schema, const OpParam *param);

/* The attribute of that name, or NULL. */
const OpAttr *op_schema_attr(const OpSchema *schema, const char *name);

/* The type variable of that name, or NULL. */
const OpTypeVar *op_schema_var(const OpSchema *schema, const char *name);

/* True where kind with element type dtype is a member. False for a dtype out of range. */
bool type_set_has(const TypeSet *set, OpTypeKind kind, Dtype dtype);

static inline bool type_set_holds(const TypeSet *set, OpType type) {
    return type_set_has(set, type.kind, type.dtype);
}

/* Number of members. */
size_t type_set_count(const TypeSet *set);

/* The only member, in *kind and *dtype; false where there is none or more than one. */
bool type_set_single(const TypeSet *set, OpTypeKind *kind, Dtype *dtype);

#endif
