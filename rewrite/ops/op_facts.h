// SPDX-License-Identifier: Apache-2.0
/* What the published operator definitions mean but do not say as data: where an output's type comes
 * from when no input shares its type variable, which variables must agree although they are two,
 * how a subgraph's formals map to its node's operands, and what an operator does with values.
 *
 * The rows are OUTPUT, …, FLAGS of operators/, kept by hand; op_facts_test.c proves that, with them, the type of
 * every output of every version of every operator is determined. Precision classes are not here:
 * they are policy, these are facts.
 *
 * How a node's output types follow, exactly:
 *   1. Each present input binds its parameter's type variable (not where it is heterogeneous).
 *   2. An output with a fixed type, or whose variable allows one type only, has that type.
 *   3. An output whose variable is bound has that type (not where the output is heterogeneous).
 *   4. Else the rows of op_output_rules decide: the first that applies. There always is one, or the
 *      node is invalid (OP_FROM_NOWHERE).
 */
#ifndef DEMI_OP_FACTS_H
#define DEMI_OP_FACTS_H

#include "ops.h"

/* Every row begins with the versions of its operator that it speaks of, since <= schema->since <=
 * until; those of an operator are sorted by since. */
typedef struct OpRange {
    int32_t since, until;
} OpRange;

/* How one type is made of another. */
typedef enum OpWrap {
    OP_WRAP_SAME,
    OP_WRAP_TENSOR,         /* a tensor of the same element type, whatever it was */
    OP_WRAP_SEQ,            /* a sequence of tensors of that element type */
    OP_WRAP_OPTIONAL,       /* tensor -> optional, sequence -> optional sequence */
    OP_WRAP_CONTENT,        /* the reverse; tensors and sequences stay as they are */
    OP_WRAP_ELEMENT,        /* sequence -> tensor; tensors stay as they are */
    OP_WRAP_SEQ_MAP_INT64,  /* sequence of maps from int64 to that element type */
    OP_WRAP_SEQ_MAP_STRING, /* sequence of maps from string to that element type */
} OpWrap;

/* Applies `wrap`. False where it has no meaning for that type; *out is then untouched. */
bool op_type_wrap(OpWrap wrap, OpType in, OpType *out);

/* ---- output types ---------------------------------------------------------------------------- */

typedef enum OpFrom {
    /* The type of actual input `input`; the next row where that operand is absent. */
    OP_FROM_INPUT,
    /* Attribute `attr` is an element type: an int (TensorProto.DataType) or, for Cast before opset
     * 6, its name as a string in upper case. The schema's default counts; the next row where there
     * is neither, or the number is 0. */
    OP_FROM_DTYPE_ATTR,
    /* The element type of the tensor, or of a sparse tensor's values, in `attr`; the next row where
     * absent. */
    OP_FROM_TENSOR_ATTR,
    /* The type in `attr`; the next row where absent. */
    OP_FROM_TYPE_ATTR,
    /* `dtype` where `attr` is present (and, a list, not empty); else the next row. */
    OP_FROM_ATTR_PRESENCE,
    /* `dtype` where the string `attr`, or its default, is `text`; else the next row. */
    OP_FROM_ATTR_TEXT,
    /* `dtype` where input `input` has element type `other`; else the next row. */
    OP_FROM_INPUT_DTYPE,
    /* `dtype`, always. */
    OP_FROM_DEFAULT,
    /* The graph attribute: op_body_slots. */
    OP_FROM_BODY,
    /* Actual output i has the type of actual input i. */
    OP_FROM_SAME_PLACE,
    /* The variadic inputs from `input` on are equal groups, one a letter of `text` before the '>',
     * the outputs are groups as after it: in "XGH>XH", with n inputs a group, actual output g*n + k
     * has the type of member k of the g-th letter's input group. */
    OP_FROM_GROUPS,
    /* A node that comes here is invalid: it has none of what the rows above ask for. */
    OP_FROM_NOWHERE,
} OpFrom;

typedef struct OpOutputRule {
    int32_t since, until;
    uint8_t output;   /* formal output */
    uint8_t from;     /* an OpFrom */
    uint8_t input;    /* actual input */
    uint8_t wrap;     /* an OpWrap: what becomes of the type, or of a tensor of the dtype, found */
    const char *attr; /* or NULL */
    const char *text; /* or NULL */
    uint8_t dtype, other;
    bool rewritable; /* a conversion may change, or add, the attribute to give the output another
                        float type. False where it must be kept (LayerNormalization.stash_type,
                        QuantizeLinear.output_dtype, BitCast.to, …) */
    bool given; /* only where the attribute is there, and the input that rules without it has no
                        type that is converted: else the output follows that */
} OpOutputRule;

/* The rules of formal output `output`, in order, `*count` of them; NULL and 0 where none. Only for
 * outputs that steps 1 to 3 may leave undetermined. */
const OpOutputRule *op_output_rules(const OpSchema *schema, size_t output, size_t *count);

/* The rule by whose attribute a conversion can give this output any float type it allows: an
 * attribute with a dtype (Cast.to, EyeLike.dtype, DequantizeLinear.output_dtype, …), a tensor
 * (Constant.value, ConstantOfShape.value) or a type (Optional.type; only without its input). NULL
 * where there is none. Where the attribute is absent it is to be added; where another attribute
 * rules instead (Constant.value_float) that one is to be replaced. */
const OpOutputRule *op_output_rewritable(const OpSchema *schema, size_t output);

/* ---- attributes ------------------------------------------------------------------------------ */

typedef enum OpAttrRole {
    OP_ATTR_PLAIN,        /* holds no element type */
    OP_ATTR_OUTPUT,       /* determines an output's; a conversion may rewrite it */
    OP_ATTR_OUTPUT_FIXED, /* determines an output's; kept as it is */
    OP_ATTR_COMPUTE,      /* the precision of the computation inside; kept as it is */
} OpAttrRole;

/* What an attribute's element type, or tensor, is for. OP_ATTR_PLAIN for tensors that determine no
 * output; see op_tensor_attr_var. */
OpAttrRole op_attr_role(const OpSchema *schema, const char *attr);

/* The type variable that the tensor in attribute `attr` has the element type of: Constant.value's
 * is T. NULL where it is none (TreeEnsemble.nodes_modes is uint8; the tensors of
 * TreeEnsembleClassifier and -Regressor are double where X is, else float), or for other
 * attributes. */
const OpTypeVar *op_tensor_attr_var(const OpSchema *schema, const char *attr);

/* ---- type variables that must agree ---------------------------------------------------------- */

typedef enum OpTieWhy {
    OP_TIE_ELEMENT, /* one holds values of the other: sequence, optional, map */
    OP_TIE_STRICT,  /* the definition allows two types, inference of the output does not */
    OP_TIE_BODY, /* the operator's body casts one to the other: a difference would round silently */
    OP_TIE_WIDTH, /* elements of equal width: neither can change alone, or at all by a cast */
} OpTieWhy;

/* Two type variables of one node that need one element type (OP_TIE_WIDTH: one width). */
typedef struct OpTie {
    int32_t since, until;
    const char *a, *b; /* names of type variables */
    uint8_t why;       /* an OpTieWhy */
    int8_t
        unless_input; /* the tie does not hold where this input is present; -1: it always holds */
    bool floats_only; /* it holds where both are floats (a mask may also be bool) */
} OpTie;

/* The ties of the operator, `*count` of them. */
const OpTie *op_ties(const OpSchema *schema, size_t *count);

/* ---- types that the definition allows and strict checking refuses ---------------------------- */

typedef struct OpRefusal {
    int32_t since, until;
    const char *var; /* type variable */
    uint32_t dtypes; /* bit d: element type d is refused */
    const char *why; /* one phrase for reports */
} OpRefusal;

/* Why ONNX's full check refuses this element type for the type variable, though the schema has it;
 * NULL where it does not. */
const char *op_refusal(const OpSchema *schema, const char *var, Dtype dtype);

/* ---- subgraphs ------------------------------------------------------------------------------- */

typedef enum OpStates {
    OP_STATES_NONE,
    OP_STATES_ALL,     /* every operand passed in is a state (Loop) */
    OP_STATES_LEADING, /* all but the last num_scan_inputs (an attribute) of them (Scan) */
} OpStates;

/* How the formals of the graph in attribute `attr` map to the node's operands:
 *   - body input  body_input + k   has the type of node input node_input + k  through in_wrap;
 *   - node output node_output + k  has the type of body output body_output + k through out_wrap;
 *   - state k: body output body_output + k has the type of node input node_input + k, and so has
 *     node output node_output + k. Slices and stacks of scanned tensors keep the element type only.
 * A place of -1: nothing is passed that way. */
typedef struct OpBodySlots {
    int32_t since, until;
    const char *attr;
    int8_t node_input, body_input, node_output, body_output;
    uint8_t states;            /* an OpStates */
    uint8_t in_wrap, out_wrap; /* OpWraps */
    uint8_t leading_in[2];     /* dtypes of the body inputs before body_input (Loop: int64, bool) */
    uint8_t leading_out;       /* dtype of the one before body_output (Loop: bool), or UNDEFINED */
    const char *precision; /* an attribute whose dtype all formals have; absent: double where node
                              input 0 is double, else float (FlexAttention). NULL: none */
} OpBodySlots;

/* The slots of graph attribute `attr`; NULL where the operator has no such attribute. */
const OpBodySlots *op_body_slots(const OpSchema *schema, const char *attr);

/* Number of states of a node with that many inputs: for OP_STATES_LEADING give the attribute
 * num_scan_inputs, which comes from a file: a number out of range gives 0 states. */
size_t op_body_state_count(const OpBodySlots *slots, size_t node_inputs, int64_t scan_inputs);

/* ---- what becomes of values ------------------------------------------------------------------ */

enum {
    OP_MOVES = 1,      /* every output element is an element of a moved input, or zero */
    OP_SHAPE_ONLY = 2, /* outputs depend on the inputs' shapes and types, not on their values */
    /* Of OP_MOVES, where the definition says how many elements an output has, whatever the
     * shapes: */
    OP_KEEPS_COUNT = 4, /* as many as the moved input */
    OP_SHRINKS = 8,     /* at most as many as the moved input */
    OP_GROWS = 16,      /* at least as many as each moved input */
};

typedef struct OpFlags {
    int32_t since, until;
    uint8_t flags;
    uint8_t moved;           /* OP_MOVES: bit i: formal input i is moved */
    const char *unless_attr; /* OP_MOVES holds where this attribute is absent or has its default (a
                                scatter that adds, a padding that is not zero); NULL: always */
} OpFlags;

/* The row of the operator, or NULL: it computes. */
const OpFlags *op_flags(const OpSchema *schema);

/* True where the operator has all of these flags; unless_attr is for the caller to look at. */
bool op_has_flags(const OpSchema *schema, unsigned flags);

#endif
