// SPDX-License-Identifier: Apache-2.0
/* What every operator is, as far as it holds of all its versions: one record each, for whoever
 * asks, from the passes to the runtime and the tools. They are the rows IS of operators/, kept by
 * hand: a list of operators' names stands nowhere else. A new fact is a member here, a macro in
 * op_record.c and a word in the rows it holds of.
 *
 * What the published definitions say as data (operands, attributes, types of each version) is
 * ops.h's, what they mean for types op_facts.h's; how a shape follows is shape.h's, what computes
 * an operator kernel.h's.
 */
#ifndef DEMI_BASE_OP_RECORD_H
#define DEMI_BASE_OP_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "op_id.h"

/* In which precision a policy wants the operator, before legality, exclusions and neighbors have
 * their say; op_class.h. "Low" means the reduced precision of a conversion, float16 or bfloat16. */
typedef enum OpClass {
    CLASS_NONE,   /* takes and gives no floats, or is not an operator demi knows: keeps its types */
    CLASS_LOW,    /* reduced precision wherever that is legal */
    CLASS_FP32,   /* float32 */
    CLASS_FOLLOW, /* reduced precision if its data already has it */
    CLASS_WIDEST, /* reduced precision only if every float that it reads has it */
} OpClass;

typedef enum Policy { POLICY_FLOAT16, POLICY_BFLOAT16, POLICY_FAST, POLICY_COUNT } Policy;

/* What of a node may make its class another; op_class.c. */
typedef enum OpUnless {
    UNLESS_NOTHING,
    UNLESS_POW,       /* low only for exponents that square */
    UNLESS_DIV,       /* fp32 where the numerator is a constant */
    UNLESS_SQUARE,    /* of Mul: a value times itself is as Pow to the exponent 2 */
    UNLESS_SCATTER,   /* fp32 where the reduction accumulates */
    UNLESS_CAST,      /* of Cast and CastLike: depends on the types they convert between */
    UNLESS_SCALES,    /* fp32: scales have no other type at this opset */
    UNLESS_ATTENTION, /* fp32 where masked scores are an output */
} OpUnless;

/* What becomes of the typical magnitude (root mean square) of what is read; value_magnitude.c.
 * Operators that only move data (op_facts.h) need none. */
typedef enum OpMagnitude {
    MAGNITUDE_UNSAID,   /* as MAGNITUDE_UNKNOWN */
    MAGNITUDE_UNKNOWN,  /* nothing can be said of the result */
    MAGNITUDE_SAME,     /* as the first operand, at most */
    MAGNITUDE_CLIP,     /* and within its range */
    MAGNITUDE_UNIT,     /* 1 at most */
    MAGNITUDE_SHARES,   /* 1 at most, and each row adds up to 1: a product with it is a mean */
    MAGNITUDE_SUM,      /* of uncorrelated operands */
    MAGNITUDE_PRODUCT,  /* of uncorrelated operands */
    MAGNITUDE_QUOTIENT, /* the first operand by the second */
    MAGNITUDE_SQUARE,   /* where the exponent is 2 */
    MAGNITUDE_ROOT,     /* square root */
    MAGNITUDE_INVERSE,  /* one by it */
    MAGNITUDE_DOT,      /* sums of products along the first operand's channels */
    MAGNITUDE_NORM,     /* scale and shift are operands 1 and 2; what comes in does not count */
    MAGNITUDE_WEIGHTED, /* as the third operand, of which it is a mean */
} OpMagnitude;

/* What an absolute error of what is read becomes; placement_precise.c. Operators that only move
 * data carry it, and need no word. */
typedef enum OpExact {
    EXACT_NONE,
    EXACT_CARRIES, /* arithmetic: an error of an operand is one of the result */
    EXACT_ENDS, /* squashes into a bounded range: that is what has to be exact, not the operand. A
                   sigmoid that a logarithm is taken of must not become 0 */
    EXACT_PRODUCT, /* sums of products. Frequencies times positions is one; so is a layer of a
                      network, behind which values are not coordinates */
} OpExact;

/* Where the time of a step goes, and how its multiplications follow from shapes; step_cost.c. */
typedef enum OpWork {
    WORK_FEW,       /* at most a few operations an element */
    WORK_MOVES,     /* none: it moves or converts data */
    WORK_CONV,      /* every output element: the weights of one output channel */
    WORK_DECONV,    /* every input element: the weights of one input channel */
    WORK_MATMUL,    /* every output element: the left operand's dim that is not the output's */
    WORK_GEMM,      /* every output element: what the left operand has for a row of the output */
    WORK_LAYER,     /* every step of time and sample: all weights */
    WORK_SEPARABLE, /* a convolution by channel, and the products of each pixel's channels around it,
                       which are operands 3 and 5 */
    WORK_ATTENTION, /* every query element and output element: all keys, those of the past too */
    WORK_OTHER,     /* grows faster than its operands, in a way that nobody counts yet */
} OpWork;

/* How the operator hands back what is asked of its result to its operands; input_use.c. */
typedef enum OpAnswers {
    ANSWERS_NOTHING,
    ANSWERS_SUM,
    ANSWERS_PRODUCT,
    ANSWERS_COMPARISON,
    ANSWERS_CHOICE,
    ANSWERS_LOGIC,
} OpAnswers;

/* What an operator that chooses by floats gives: places, or what a comparison says; picks.c. */
typedef enum OpPick {
    PICK_NOTHING,
    PICK_TOPK,       /* places of the largest */
    PICK_ARG,        /* the place of the largest, or smallest */
    PICK_BOXES,      /* numbers of boxes */
    PICK_NONZERO,    /* places that are not 0 */
    PICK_CAST,       /* the integers below */
    PICK_COMPARISON, /* which side of a threshold */
} OpPick;

/* How the operator can work on data whose channels are last, (N, spatial …, C); choose_layouts.c. */
typedef enum OpLayout {
    LAYOUT_FIRST, /* not: it takes and gives (N, C, spatial …) */
    LAYOUT_EACH,  /* as it is: elementwise, all operands broadcast from the right */
    LAYOUT_DATA, /* as it is: elementwise in operand 0, others are laid out otherwise; so are single
                      numbers that come out behind the first output */
    LAYOUT_AXIS, /* along its attribute `axis`, by another number */
    LAYOUT_AXES, /* over `axes`, an attribute or operand 1, by other numbers, if it keeps them */
    LAYOUT_SLICES, /* operand 3 has its axes, or they are all */
    LAYOUT_PADS,   /* operand 1 has numbers for both sides of each axis */
    LAYOUT_SIZES,  /* operands 2 and 3 have a number for each axis */
    LAYOUT_RANK,   /* spatial axes come or go, whose numbers are constant in `axes` or operand 1 */
    LAYOUT_ORDER,  /* it changes the axes' order itself: two such may cancel */
    LAYOUT_WINDOW, /* by an operator of demi.fused, which is called as it is and `Last` */
    LAYOUT_MEAN,   /* as ReduceMean or ReduceMax of the spatial axes */
    LAYOUT_MOST,
} OpLayout;

/* What of the operator can be computed with quantized values; passes/quantize/qdq_plan.h. */
typedef enum OpQuantized {
    QUANTIZED_NOT,     /* nothing: it stays float */
    QUANTIZED_PRODUCT, /* of operand 0, and of its weights (`weights`, `channels`, `bias`) */
    QUANTIZED_WEIGHTS, /* of its weights alone, which are stored so: no kernel of integers computes it */
    QUANTIZED_PAIR,   /* elementwise of two operands, each with a scale of its own */
    QUANTIZED_TABLE,  /* elementwise, of one operand whose other ones are constants: looked up */
    QUANTIZED_BOUND,  /* the same, between bounds, which a result of integers has anyway */
    QUANTIZED_MEAN,   /* means of elements of operand 0, with a scale of their own */
    QUANTIZED_MOVE,   /* output 0 has elements of operand 0, or zeros: it keeps the scale */
    QUANTIZED_PAD,    /* the same where what it fills with, operand 2, is 0 or not used */
    QUANTIZED_RESIZE, /* the same where `mode` is nearest; means else */
    QUANTIZED_JOIN,   /* elements of all operands */
} OpQuantized;

/* Which axis of a product's weights has its output's channels: one scale each. */
typedef enum OpChannels {
    CHANNELS_NONE,
    CHANNELS_FIRST,
    CHANNELS_SECOND,
    CHANNELS_LAST,
    CHANNELS_TRANS_B,  /* the first where the attribute transB is set, else the second */
    CHANNELS_EQUATION, /* one that Einsum's equation keeps */
} OpChannels;

enum OpTrait {
    OP_RANDOM = 1,          /* outputs differ from run to run, or depend on a seeded stream */
    OP_RANDOM_TRAINING = 2, /* the same, in training mode, which some versions have */
    OP_LINEAR = 4,          /* what comes out is proportional to what goes in, or a sum with that */
    OP_STEADY = 8,          /* what comes out differs by no more than what goes in */
    OP_SELECTS = 16,        /* gives elements of operand 0, from places that others tell */
    OP_TAKES_ROWS = 32,     /* rows of operand 0, and mostly few of many */
    OP_NOT_NEGATIVE = 64,   /* output 0 is of places or counts: integers that are never negative */
    OP_EPILOGUE = 128,      /* an activation without attributes that demi's own products take by the
                               operator's name (operators/fused.def) */
    OP_BITS = 256, /* it looks at elements as so many bits: what has their values in another type is
                      no operand of it */
    OP_SAME_BITS = 512, /* every engine gives the same bits: an element is rounded once, as IEEE 754
                           has it, or not at all; but for what is picked among zeros of two signs and
                           NaN. Operators that only move data, or of integers alone, need no word */
    OP_IN_ORDER =
        1024,         /* elements of operand 0 come out in their order, from the first on: with the
                           same shape they are the same value */
    OP_OF_ONE = 2048, /* with one operand it gives that */
    OP_DECOMPOSED =
        4096, /* plans have it decomposed into other operators (passes/decompose.c), which reads its
                         attributes: there is no kernel for it */
    OP_NORMALIZES =
        8192,        /* divides data by its own spread, row by row, or is the first step of what
                             does so in several operators (ReduceMean) */
    OP_SKIP = 16384, /* adds a residual, operand 1, to operand 0 before anything else */
    OP_ZERO_SIGN = 32768, /* gives the same bits for 0 and -0 */
    OP_HOMOGENEOUS =
        65536, /* a channel (axis 1) of operand 0 times a positive number comes out in output 0
                               times it; elementwise ones: an element, whatever the axis */
};

typedef struct OpRecord {
    const char *domain, *name;     /* "" for ai.onnx */
    uint8_t classes[POLICY_COUNT]; /* OpClass by Policy */
    uint8_t unless;                /* an OpUnless */
    uint8_t magnitude;             /* an OpMagnitude */
    uint8_t exact;                 /* an OpExact */
    uint8_t asks;         /* bit i: an error of formal input i is an error of the result however
                             large the operand is: rounding it to 16 bits makes mere noise */
    const char *asks_for; /* what that operand is, as reports say it; NULL where there is none */
    uint8_t work;         /* an OpWork */
    uint8_t weights;      /* of OpWorks that count: the operand that is the weights, or the keys */
    uint16_t gives;    /* bit i: elements of operand i come out as they are, if in other places, of
                         another type or within bounds; the last bit is for all that follow too */
    uint8_t answers;   /* an OpAnswers */
    uint8_t pick;      /* an OpPick */
    uint8_t pick_out;  /* the output that is the pick */
    uint8_t layout;    /* an OpLayout */
    uint8_t quantized; /* an OpQuantized */
    uint8_t channels;  /* an OpChannels */
    uint8_t bias;      /* of products: the operand that is added for each channel; 0: none */
    uint32_t traits;   /* OpTraits */
} OpRecord;

/* The operator's record, or NULL. The domain is "" for ai.onnx. O(log operators). */
const OpRecord *op_record_find(const char *domain, const char *name);

/* All of them, sorted by domain and name; op_record_place is the reverse. */
size_t op_record_count(void);
const OpRecord *op_record_at(size_t place);
size_t op_record_place(const OpRecord *record);

/* Of NULL as of operators without: no trait, nothing given. */
bool op_record_has(const OpRecord *record, unsigned traits); /* all of these */
bool op_record_gives(const OpRecord *record, uint32_t operand);

/* ---- rows of single operands ----------------------------------------------------------------- */

/* What values an operand takes, for inputs that are made up; input_use.c. */
typedef enum InputFact {
    INPUT_FACT_INDEX,       /* into operand 0 along `axis`; number: where the attribute is absent */
    INPUT_FACT_COORDINATES, /* into the leading sizes of operand 0, after batch_dims */
    INPUT_FACT_POSITION,    /* into the table that operand 1 is, in order */
    INPUT_FACT_DEPTH,       /* below operand 1 */
    INPUT_FACT_FILL,        /* number serves whatever the rest is */
    INPUT_FACT_DIVISOR,     /* not 0, of integers */
    INPUT_FACT_CONDITION, /* of a branch: either will do, but of what is compared with a constant */
    INPUT_FACT_ASCENDING, /* axes */
    INPUT_FACT_RESHAPE,   /* a shape */
    INPUT_FACT_LENGTHS,   /* at most what operand 0 has along its time axis */
    INPUT_FACT_PARTS,     /* sizes that add up to what operand 0 has along `axis` */
} InputFact;

typedef struct OpInput {
    uint32_t operand;
    InputFact fact;
    double number;
} OpInput;

/* The rows of an operator, `*count` of them; NULL and 0 where there are none. */
const OpInput *op_inputs_find(const char *domain, const char *name, size_t *count);

/* Operands that stay in fp32 although their type variable could go low: statistics, scales,
 * coordinates and counts, whose values a 16-bit type would spoil. */
typedef enum OpKeepWhen {
    KEEP_ALWAYS,
    KEEP_BFLOAT16, /* as MXNet's bfloat16 list has it */
    KEEP_INEXACT,  /* but a number that the target holds exactly, which is not spoiled */
} OpKeepWhen;

typedef struct OpKeep {
    int32_t since, until; /* of the operator's versions, both inclusive */
    const char *var;      /* the type variable */
    OpKeepWhen when;
} OpKeep;

/* As op_inputs_find; of all versions. */
const OpKeep *op_keeps_find(const char *domain, const char *name, size_t *count);

/* The operator of demi.fused that computes what this one does, and which of this one's operands
 * each of its operands is, -1 none. */
enum { FORM_OPERANDS = 4 };
typedef struct OpForm {
    const char *fused;
    int8_t operands[FORM_OPERANDS];
} OpForm;

/* NULL where there is none. */
const OpForm *op_form_find(const char *domain, const char *name);

#endif
