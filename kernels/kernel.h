// SPDX-License-Identifier: Apache-2.0
/* Kernels: what computes an operator, on plain data.
 *
 * A kernel is a row of its operator (KERNEL of rewrite/base/operators/) and a function. It sees
 * tensors and its attributes as a struct, and nothing of graphs or plans. The host (runtime/) has
 * already
 *  - found the outputs' dtypes, and their dims and memory, unless the row says KERNEL_SIZES;
 *  - checked the operands against the operator's definition (kernel_check): there are no more than
 *    it allows; those that it requires are there, and every input of a variadic one, while of a
 *    variadic output some may miss; where it says a type they have it, and where it names a type
 *    variable all of that name have one type;
 *  - checked that the row takes all their dtypes (kernel_row_takes);
 *  - converted those that it does not take: 16-bit and smaller floats to float, 2- and 4-bit
 *    integers to 8-bit ones. A kernel written for float thereby serves float16 and bfloat16 with
 *    one rounding of its result.
 *
 * A kernel repeats none of that: required operands are call->inputs[i] and call->outputs[i], and
 * kernel_input and kernel_result are for optional ones. (Only a row that asked for a constant as it
 * is stored, by kernel_take_stored, has two types where the definition has one.) Shapes, attributes
 * and index data are the file's, so a kernel checks what its arithmetic relies on and fails with
 * kernel_fail; it never reads or writes outside of its tensors.
 *
 * Memory: elements of every dtype fill whole bytes here, those of 2, 4 and 6 bits one byte each, in
 * its low bits. Data is 64-byte aligned, but what callers lend, and constants that stay in a model's
 * file, only as an element is, 8 bytes at most; that of empty tensors may not be read. Inputs are never
 * written. Several kernels may run at once on one plan: kernels hold no state.
 *
 * Preparing. Steps run again and again with the same shapes and weights. A row may name a
 * KernelPrepare, whose `make` the host calls once for a step and the dtypes and dims of its
 * operands; what it leaves in call->prepared (a library's primitive, tables, packed weights) the
 * host hands to every later call of the step that has the same dtypes, dims and constants. Two
 * kinds of memory:
 *  - kernel_keep: of the context, gone with what was prepared;
 *  - kernel_share: what a constant becomes, say packed or widened weights: made once a plan, used
 *    by all contexts and threads, gone with the plan. By kernel_weights, of layouts that plans can
 *    have in their files, it may be there already.
 *
 * What only one call needs is kernel_workspace's. All count against the memory budget.
 *
 * Choices. A row may have several ways to compute the same, and a rule for when to take which. Hosts
 * can tell it instead: KernelPrepare.choices says how many ways there are to be told, and `make` takes
 * the one that call->choice says, or declines where the operands do not allow it. Results of all are
 * within what the operator's definition allows, but not the same to the last bit: faithful hosts
 * choose nothing. Which is the fastest is measured (runtime/plan_tune.h).
 */
#ifndef DEMI_KERNEL_H
#define DEMI_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "attr_layout.h"
#include "dtype.h"
#include "err.h"
#include "isa.h"
#include "op_id.h"
#include "weight_layout.h"
#include "workers.h"

/* An element of a string tensor. Not NUL-terminated. */
typedef struct KernelString {
    uint64_t size;
    const char *text;
} KernelString;

typedef struct KernelTensor {
    bool present; /* false: an omitted operand, nothing else is set */
    Dtype dtype;
    uint32_t rank;
    const int64_t *dims; /* [rank], none negative */
    uint64_t count;      /* their product */
    void *data;          /* [count] elements, row-major; of strings, KernelString */
    int64_t room; /* 0; or, for rows with KERNEL_ROOM alone, how many slices of axis `grown` there
                     is memory for: elements lie as if it were that long */
    uint32_t grown;
} KernelTensor;

/* Bytes of one element in memory; 0 for undefined dtypes. */
size_t kernel_element_size(Dtype dtype);

typedef struct KernelRow KernelRow;
typedef struct KernelCall KernelCall;
typedef struct KernelHost KernelHost;
typedef bool (*KernelFunction)(KernelCall *call);

typedef enum KernelReady {
    KERNEL_FAILED,   /* with the error set: these operands are wrong for the operator */
    KERNEL_READY,    /* the row's function may run; call->prepared is what it wants, perhaps NULL */
    KERNEL_DECLINED, /* not by this row (a library or an instruction is missing, too little memory,
                        another row is better at such shapes): the host asks the rows behind */
} KernelReady;

/* How a row gets ready. */
typedef struct KernelPrepare {
    /* Sees the call as the row's function will: its attributes, dtypes and dims, those of outputs
     * too unless the row says KERNEL_SIZES. Nothing has data yet; kernel_constant gives that of
     * constants. Sets call->prepared, to memory of kernel_keep's. */
    KernelReady (*make)(KernelCall *call);
    /* Ends what call->prepared holds beside memory. It is called for every call->prepared that make
     * set, even where make then failed or ran out of memory, so set it before anything is opened.
     * May be NULL. */
    void (*release)(void *prepared);
    uint32_t choices; /* call->choice may be up to that */
} KernelPrepare;

/* Whose kernels may run, where there are several. */
typedef enum KernelProvider {
    KERNEL_PROVIDER_AUTO,   /* each where it was measured to be better */
    KERNEL_PROVIDER_OWN,    /* demi's own alone */
    KERNEL_PROVIDER_ONEDNN, /* oneDNN's wherever it can */
    KERNEL_PROVIDER_COUNT
} KernelProvider;

/* Bits of KernelRow.flags. */
enum {
    KERNEL_SIZES = 1, /* output dims depend on data: the kernel calls kernel_output for each */
    KERNEL_BYTES = 2, /* looks at elements as so many bytes: all dtypes are taken as they are */
    KERNEL_VIEW = 4,  /* output 0 has input 0's elements in their order: the host may let them share
                         memory and not call the function at all */
    KERNEL_INPLACE = 8, /* element i of output 0 depends on no element but i of those inputs that
                           have its dtype and dims, and is written after they are read: output 0 may
                           lie where one of them does, or several that are the same tensor. Other
                           inputs never overlap it */
    KERNEL_ROOM = 16,   /* finds elements of inputs by kernel_stride alone, or reads none */
    KERNEL_FIRST = 64,  /* of a device's: gives output 0 alone, and takes no call that has others */
    KERNEL_PICKS = 128, /* of a device's: reads no more of input 0 than it gives */
    KERNEL_MIXES =
        256, /* of a device's: takes operands of several float types where the operator has
                           them of one, and gives any: the host leaves casts beside it to it */
    KERNEL_TURNS = 512, /* Transpose's: KERNEL_VIEW where kernel_keeps_order says so */
    KERNEL_CACHES =
        1024, /* with KERNEL_CACHES_AT: outputs 1 and 2 are two inputs with rows added along axis 2,
                             and all four are found by kernel_stride. Such an output may lie where its input does: then
                             its first rows are there already */
    KERNEL_JOINS = 32, /* output 0 is the inputs side by side along JoinAttrs' axis: the host may
                          append them to what it keeps, and not call the function at all */
};

/* Flags of a row whose caches are inputs `first` and the next, and which input that is. */
#define KERNEL_CACHES_AT(first)    (KERNEL_CACHES | (first) << 16)
#define KERNEL_CACHES_FIRST(flags) ((flags) >> 16)

#define KERNEL_TYPE(name) (UINT64_C(1) << DTYPE_##name)
#define KERNEL_FLOATS     (KERNEL_TYPE(FLOAT) | KERNEL_TYPE(DOUBLE))
#define KERNEL_HALVES     (KERNEL_TYPE(FLOAT16) | KERNEL_TYPE(BFLOAT16))
#define KERNEL_ALL_FLOATS (KERNEL_FLOATS | KERNEL_HALVES)
#define KERNEL_SIGNED                                                                              \
    (KERNEL_TYPE(INT8) | KERNEL_TYPE(INT16) | KERNEL_TYPE(INT32) | KERNEL_TYPE(INT64))
#define KERNEL_UNSIGNED                                                                            \
    (KERNEL_TYPE(UINT8) | KERNEL_TYPE(UINT16) | KERNEL_TYPE(UINT32) | KERNEL_TYPE(UINT64))
#define KERNEL_INTS (KERNEL_SIGNED | KERNEL_UNSIGNED)
#define KERNEL_WIDE_INTS                                                                           \
    (KERNEL_TYPE(INT32) | KERNEL_TYPE(INT64) | KERNEL_TYPE(UINT32) | KERNEL_TYPE(UINT64))
#define KERNEL_NUMBERS     (KERNEL_FLOATS | KERNEL_INTS)
#define KERNEL_ALL_NUMBERS (KERNEL_NUMBERS | KERNEL_HALVES)
#define KERNEL_BOOL        KERNEL_TYPE(BOOL)
#define KERNEL_STRING      KERNEL_TYPE(STRING)
#define KERNEL_COMPLEX     (KERNEL_TYPE(COMPLEX64) | KERNEL_TYPE(COMPLEX128))
#define KERNEL_ANY         UINT64_MAX

/* One kernel. Several rows may have one operator: the first that takes the operands' dtypes runs.
 */
struct KernelRow {
    int32_t since; /* of operator versions from this one on, until the operator's next */
    KernelFunction run;
    const AttrLayout *layout; /* the same for all rows of one operator and since */
    uint64_t types;           /* KERNEL_TYPE bits: dtypes it takes and gives without conversion */
    uint32_t flags;
    const char *name;             /* of the function, for profiles */
    const KernelPrepare *prepare; /* NULL: there is nothing to prepare */
    uint32_t host; /* of a device's rows (device.h): bit i where the processor reads input i */
};

struct KernelCall {
    const KernelRow *row;
    const void *attrs;          /* the row's struct */
    const KernelTensor *inputs; /* [input_count] */
    KernelTensor *outputs;      /* [output_count]; dtype set, with KERNEL_SIZES nothing else */
    uint32_t input_count, output_count;
    int64_t opset;    /* the operator's version, where one function serves several */
    Workers *workers; /* the threads to use; NULL: the caller's alone */
    KernelProvider provider;
    bool faithful;   /* 16-bit results are to be those of the own rows, to the last bit */
    bool small;      /* memory before time: constants are to stay as they are stored */
    bool unread;     /* no step reads output 0: it is for the caller, and need not be in a cache */
    uint32_t choice; /* for `make`: 0 for the row's own rule, else one of the row's choices */
    const IsaSet *cpu; /* of the machine to prepare for, where the call will not run; else NULL */
    uint64_t seed;  /* for random operators without a seed of their own: differs from run to run */
    Arena *scratch; /* freed after the call; not to be touched by parts of it (kernel_parts.h) */
    Err *err;
    void *prepared;                /* what the row's prepare made; this context's alone */
    const bool *constant;          /* [input_count]: see kernel_is_constant; NULL: none is */
    const struct KernelHost *host; /* the host's own; kernel_output uses it */
    RunEnd *end;                   /* what may end the run early; NULL: nothing */
    struct DeviceQueue *queue;     /* of a device's row: where its work goes (device.h) */
    const char *declined;          /* kernel_decline's reason; NULL: it was not called */
};

/* The rows of the operator, at the version in force at `opset`: *count of them from the result on;
 * NULL where there is none. The domain is "" for ai.onnx. */
const KernelRow *kernel_find(const char *domain, const char *op, int64_t opset, size_t *count);
/* All rows of the operator, *count of them, sorted by since. */
const KernelRow *kernel_rows(OpId op, size_t *count);

/* What operands the operator has, and which of them have one element type (kernel_signatures.def).
 * NULL for unknown operators. */
const char *kernel_signature_find(const char *domain, const char *op, int64_t opset);

/* The check that every host makes before it runs a kernel, on operands as they are given, before
 * any are converted; call->row need not be set. False with the error set, also where `types`, the
 * operator's signature, is NULL. `mixes`: where operands are to have one type, float types up to 32
 * bits are one (KERNEL_MIXES). */
bool kernel_check(KernelCall *call, const char *types, bool mixes);

/* True where the row takes all operands' dtypes without conversion. */
bool kernel_row_takes(const KernelRow *row, const KernelCall *call);

/* Changes whenever a plan made for another table could mean something else. */
uint64_t kernel_table_version(void);

/* ---- within kernels -------------------------------------------------------------------------- */

/* KERNEL_SIZES: gives output i its dims and memory (in outputs[i]). False with the error set where
 * it is larger than the memory budget allows. An output that is not present is not to be made. */
bool kernel_output(KernelCall *call, uint32_t i, uint32_t rank, const int64_t *dims);

/* ERR_MODEL with a printf'd phrase; the host adds node and operator. Returns false. */
bool kernel_fail(KernelCall *call, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Of rows of a device, in `make` or their function: these operands are not for it, `why` says in a
 * few words that last. It is no error: the host drops the outputs and has the processor compute the
 * step. Returns false. */
static inline bool kernel_decline(KernelCall *call, const char *why) {
    call->declined = why;
    return false;
}

/* Operand i, or NULL where there is none or it was omitted. */
static inline const KernelTensor *kernel_input(const KernelCall *call, uint32_t i) {
    return i < call->input_count && call->inputs[i].present ? &call->inputs[i] : NULL;
}
static inline KernelTensor *kernel_result(const KernelCall *call, uint32_t i) {
    return i < call->output_count && call->outputs[i].present ? &call->outputs[i] : NULL;
}

/* `axis` of a tensor of that rank, counted from the end where negative. False with the error set
 * where it is out of range. */
bool kernel_axis(KernelCall *call, int64_t axis, uint32_t rank, uint32_t *result);

/* The elements of an integer tensor (any width, signed or not) or bool as int64_t, in scratch;
 * those past 2^63 - 1 become that. NULL with the error set for other dtypes. */
const int64_t *kernel_ints(KernelCall *call, const KernelTensor *tensor);

/* Element i of any numeric tensor, as double: scalars such as bounds and scales. */
double kernel_real(const KernelTensor *tensor, uint64_t i);

/* The same, in line for float. */
static inline double kernel_number(const KernelTensor *tensor, uint64_t i) {
    return tensor->dtype == DTYPE_FLOAT ? (double)((const float *)tensor->data)[i]
                                        : kernel_real(tensor, i);
}

/* Sets element i of a numeric tensor: floats round to nearest, integers are cut towards zero and to
 * their range, and are 0 for NaN. */
void kernel_set_real(KernelTensor *tensor, uint64_t i, double value);

/* How many threads the call may use, at least 1. */
static inline unsigned kernel_threads(const KernelCall *call) {
    return call->workers ? workers_lanes(call->workers) : 1;
}

/* Where the run has ended, does not return: it leaves as running out of memory does. For kernels whose
 * work grows faster than their operands: called in an outer loop, every microsecond at most and every
 * tenth of a second at least; not in parts (kernel_parts.h), which are asked for them. */
static inline void kernel_checkpoint(const KernelCall *call) {
    if (call->end && run_end_came(call->end, true)) run_end_leave(call->end);
}

/* For long parts and tasks, in their lane: whether the run has ended, and they are to return. */
static inline bool kernel_ended(const KernelCall *call, unsigned lane) {
    return call->end && run_end_came(call->end, lane == 0);
}

/* Product of dims[from, to). */
uint64_t kernel_span(const KernelTensor *tensor, uint32_t from, uint32_t to);
/* Elements from one index of the axis to the next. */
uint64_t kernel_stride(const KernelTensor *tensor, uint32_t axis);

/* Memory for the text of new strings, zeroed, of any alignment: it lives until the next run begins,
 * so KernelStrings in outputs may point to it. (They may point into the text of inputs and
 * attributes just as well, which lives as long.) Out of memory jumps, as with arenas. */
char *kernel_chars(KernelCall *call, uint64_t size);

/* Whether a Transpose of input 0 moves nothing but axes of one element, which leaves all elements in their
 * order. False of what the shape function refuses. */
bool kernel_keeps_order(const KernelCall *call);

/* `size` bytes for this call alone, 64-byte aligned, not zeroed, kept by the host for the next
 * call: what large scratch memory is taken from. NULL with the error set past the memory budget. */
void *kernel_workspace(KernelCall *call, uint64_t size);

/* ---- preparing ------------------------------------------------------------------------------- */

/* True where input i is a constant of the plan, whose elements never change. */
static inline bool kernel_is_constant(const KernelCall *call, uint32_t i) {
    return i < call->input_count && call->constant && call->constant[i];
}

/* For `make`, and for a row's function of an input that was set unread: input i with its elements,
 * which are widened or unpacked now where they need to be; NULL where it is not a constant, or with
 * the error set past the memory budget. Valid until make or the function returns. */
const KernelTensor *kernel_constant(KernelCall *call, uint32_t i);

/* For `make`: `size` zeroed bytes, 64-byte aligned, that live as long as call->prepared. NULL past
 * the memory budget, without an error: make goes without, declines, or fails. */
void *kernel_keep(KernelCall *call, uint64_t size);

/* Writes the `size` bytes that the constant `from`, which is input i, becomes to `to` (64-byte
 * aligned, not zeroed). They must be the same in every context, whatever its threads. It may use
 * scratch and workspace memory, but nothing of the call that `variant` does not tell. False: it
 * can't be done. */
typedef struct KernelPackJob {
    const KernelTensor *from;
    void *to;
    uint64_t size, variant;
} KernelPackJob;
typedef bool (*KernelPack)(KernelCall *call, const KernelPackJob *job);

/* For `make`: what `pack` makes of the constant input i, in memory that all contexts of the plan
 * share. Made where it is not there yet; one thread packs, others that want it wait. It is known by
 * the constant, its dtype, `pack`, `variant` and size: `variant` says what the bytes depend on
 * besides (groups, a layout, an instruction set). NULL past the memory budget or where pack failed,
 * without an error. */
const void *kernel_share(KernelCall *call, uint32_t i, KernelPack pack, uint64_t variant,
                         uint64_t size);

/* The same by a layout; in place where the plan stores the constant so, or what it becomes beside it.
 * What compiles plans asks `make` for its layouts by this, for one that loses nothing and for one
 * that does: nothing is read then, and the row's function never runs. */
const void *kernel_weights(KernelCall *call, uint32_t i, const WeightLayout *layout);

/* Whether that is a layout of bfloat16 for an input of float. Such constants have it that plans store as
 * bfloat16, in memory that contexts share; of others kernel_weights gives NULL. */
static inline bool kernel_narrows(const KernelCall *call, uint32_t i, const WeightLayout *layout) {
    return weight_layout_dtype(layout) == DTYPE_BFLOAT16 && call->inputs[i].dtype == DTYPE_FLOAT;
}

/* For `make`: the constant input i where the plan stores it by that layout, else NULL. */
const void *kernel_stored_weights(KernelCall *call, uint32_t i, const WeightLayout *layout);

/* For `make`: the processor to lay weights out for. */
static inline IsaSet kernel_cpu(const KernelCall *call) {
    return call->cpu ? *call->cpu : isa_here();
}

/* For `make`: says that the row's function will not read the elements of the constant input i,
 * because it has them packed: the host need not keep them widened. Their data may be NULL then; the
 * rare run that wants them has them by kernel_constant. */
void kernel_set_unread(KernelCall *call, uint32_t i);

/* For `make`: asks for the constant input i as the plan stores it, where that is float16 or
 * bfloat16 and the row takes float: the call then has the input in that dtype, and the host keeps
 * no widened copy. Gives that dtype; DTYPE_UNDEFINED, which is 0, where it stays float. */
Dtype kernel_take_stored(KernelCall *call, uint32_t i);

/* Checks by the operator's signature `types`, prepares, runs and releases: for hosts that keep nothing,
 * such as tests. Where the row declines what call->choice says, which is 0 then, it goes by its rule.
 * Where it does not take the operands or declines, the operator's rows behind it are asked; where all
 * do, it fails. */
bool kernel_run_once(KernelCall *call, const char *types);

/* The host's: how memory that outlives the call is come by. Where a host leaves one but the first
 * NULL, or there is none, memory comes from call->scratch and nothing is shared. */
struct KernelHost {
    bool (*output)(KernelCall *call, uint32_t i, uint32_t rank, const int64_t *dims);
    char *(*chars)(KernelCall *call, uint64_t size);
    void *(*workspace)(KernelCall *call, uint64_t size);
    void *(*keep)(KernelCall *call, uint64_t size);
    const void *(*share)(KernelCall *call, uint32_t i, KernelPack pack, uint64_t variant,
                         uint64_t size);
    const void *(*weights)(KernelCall *call, uint32_t i, const WeightLayout *layout);
    const void *(*stored_weights)(KernelCall *call, uint32_t i, const WeightLayout *layout);
    void (*set_unread)(KernelCall *call, uint32_t i);
    Dtype (*take_stored)(KernelCall *call, uint32_t i);
    const KernelTensor *(*constant)(KernelCall *call, uint32_t i);
};

#endif
