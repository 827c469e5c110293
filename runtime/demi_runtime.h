// SPDX-License-Identifier: Apache-2.0
/* demi's runtime: runs plans, which `demi compile` or demi_compile make of ONNX models.
 *
 *     DemiError error = DEMI_ERROR_INIT;
 *     DemiPlan *plan = NULL;
 *     DemiContext *context = NULL;
 *     float x[4] = {1, 2, 3, 4};
 *     const int64_t dims[] = {1, 4};
 *     DemiData input = DEMI_DATA_TENSOR(DEMI_FLOAT, 2, dims, x);
 *     if (demi_plan_load("model.plan", &plan, &error) == DEMI_OK &&
 *         demi_context_new(plan, NULL, &context, &error) == DEMI_OK &&
 *         demi_context_set_input(context, "x", &input, &error) == DEMI_OK &&
 *         demi_context_run(context, &error) == DEMI_OK) {
 *         const DemiData *y = demi_context_output(context, 0);
 *         ...
 *     }
 *     if (error.status != DEMI_OK) fprintf(stderr, "%s\n", error.message);
 *     demi_context_free(context);
 *     demi_plan_free(plan);
 *
 * Conventions are demi.h's: opaque handles with a free function that accepts NULL, a DemiStatus and
 * a DemiError of the caller's, structures that begin with their size.
 *
 * Ownership: a context holds a counted reference to its plan, and outputs that are taken stand alone,
 * so handles may be freed in any order, each once: a plan that was freed lives on until its last
 * context is freed. What the caller lends (a plan's bytes, borrowed inputs, bound memory, an allocator)
 * must stay as long as the last handle that uses it.
 *
 * Threads: a plan never changes and may be used by any number of threads; a context belongs to one
 * thread at a time, but for demi_context_cancel. There is no global state. A context computes with as many threads as its
 * options say: the caller's, and others that begin with its first run, sleep between runs and end
 * with it. Signals are blocked in those.
 */
#ifndef DEMI_RUNTIME_H
#define DEMI_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "demi_dtype.h"
#include "demi_error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- values ---------------------------------------------------------------------------------- */

typedef enum DemiDataKind {
    DEMI_DATA_NONE = 0, /* an empty optional */
    DEMI_DATA_TENSOR_KIND = 1,
    DEMI_DATA_SEQUENCE_KIND = 2,
} DemiDataKind;

typedef struct DemiString {
    uint64_t size;
    const char *text; /* not NUL-terminated */
} DemiString;

/* A tensor, or a sequence of tensors. */
typedef struct DemiData {
    uint32_t size;
    DemiDataKind kind;
    int32_t dtype;
    uint32_t rank;
    const int64_t *dims; /* [rank] */
    const void *data;    /* row-major; a byte for each element of less than a byte, in its low bits;
                            DemiString for strings */
    size_t count;        /* of a sequence */
    const struct DemiData *items; /* [count] */
} DemiData;

#define DEMI_DATA_TENSOR(dtype, rank, dims, data)                                                  \
    { sizeof(DemiData), DEMI_DATA_TENSOR_KIND, dtype, rank, dims, data, 0, NULL }
#define DEMI_DATA_SEQUENCE(count, items)                                                           \
    { sizeof(DemiData), DEMI_DATA_SEQUENCE_KIND, 0, 0, NULL, NULL, count, items }
#define DEMI_DATA_INIT                                                                             \
    { sizeof(DemiData), DEMI_DATA_NONE, 0, 0, NULL, NULL, 0, NULL }

/* ---- plans ----------------------------------------------------------------------------------- */

typedef struct DemiPlan DemiPlan;

/* Opens a plan file: tables and small constants are read, weights are mapped and never copied.
 * Makes a plan in *plan, to be freed with demi_plan_free, before or after its contexts; on error
 * *plan is NULL. DEMI_ERR_USAGE where there is no such file; DEMI_ERR_MODEL where it is not a plan,
 * damaged, made by another version, or has an operator that demi has no kernel for; DEMI_ERR_ENV
 * where it can't be read.
 *
 * The file must not change while the plan is in use. What is written to it changes weights and
 * nothing else; where it becomes shorter, or its disk fails, they are gone, and a run ends the
 * program with SIGBUS. Who can't rule that out calls demi_plan_read. (Replace plans by renaming a
 * new file over the old one, as demi does: the old one stays while it is open.) */
DEMI_API DemiStatus demi_plan_load(const char *path, DemiPlan **plan, DemiError *error);
/* The same, but reads the whole file into memory: nothing that happens to it later matters. */
DEMI_API DemiStatus demi_plan_read(const char *path, DemiPlan **plan, DemiError *error);
/* The same of bytes, which are borrowed: they must stay, unchanged, until the plan and all contexts
 * of it are freed. DEMI_ERR_USAGE where they are not aligned to 64 bytes. */
DEMI_API DemiStatus demi_plan_from_memory(const void *bytes, size_t size, DemiPlan **plan,
                                          DemiError *error);
/* The caller's reference ends: no new context can be made of the plan. Contexts of it go on. */
DEMI_API void demi_plan_free(DemiPlan *plan);

/* Reads all bytes of the plan, weights too, and compares them with the hash (XXH64) that was written
 * with them. DEMI_ERR_MODEL where they are not what was written. Loading reads no weights, so it
 * does not notice. It finds damage, not who makes a plan look undamaged. */
DEMI_API DemiStatus demi_plan_verify(const DemiPlan *plan, DemiError *error);

/* What the plan was compiled from: two hashes (XXH64, seeds 0 and 1) of the model file's bytes, its
 * external data aside; both 0 where it was read as text or made in memory. A plan of another model
 * than the one at hand is to be compiled again. */
DEMI_API void demi_plan_source(const DemiPlan *plan, uint64_t hash[2]);

typedef struct DemiPlanIo {
    uint32_t size;
    const char *name;
    DemiDataKind kind; /* of an optional: of what it may hold */
    bool optional;
    int32_t dtype;
    bool has_rank;
    uint32_t rank;
    const int64_t *dims;          /* [rank]; -1 where a size is open */
    bool has_default;             /* an input that need not be set */
    const char *const *dim_names; /* [rank]: what the model calls an open size; NULL for others */
} DemiPlanIo;

#define DEMI_PLAN_IO_INIT                                                                          \
    { sizeof(DemiPlanIo), NULL, DEMI_DATA_NONE, false, 0, false, 0, NULL, false, NULL }

DEMI_API size_t demi_plan_input_count(const DemiPlan *plan);
DEMI_API size_t demi_plan_output_count(const DemiPlan *plan);
/* Fills *io, whose size is set; pointers live as long as the plan. False beyond the count. */
DEMI_API bool demi_plan_input(const DemiPlan *plan, size_t i, DemiPlanIo *io);
DEMI_API bool demi_plan_output(const DemiPlan *plan, size_t i, DemiPlanIo *io);

/* ---- running --------------------------------------------------------------------------------- */

typedef struct DemiContext DemiContext;

/* Whose kernels run where there are several. */
typedef enum DemiKernels {
    DEMI_KERNELS_AUTO = 0,   /* each where it was measured to be better */
    DEMI_KERNELS_OWN = 1,    /* demi's own alone */
    DEMI_KERNELS_ONEDNN = 2, /* oneDNN's wherever it can; where it is not usable, demi's own */
} DemiKernels;

/* The version of oneDNN that is there to be used, "3.2.0"; NULL with the reason in *error where
 * there is none. Opens the library (libdnnl.so.3, where the system looks for libraries) unless a
 * context already did; it stays open as long as the program runs. */
DEMI_API const char *demi_onednn_version(DemiError *error);

/* Memory of the caller's. `size` is a multiple of `align`, a power of two. NULL: there is none, which is
 * DEMI_ERR_ENV. Both are called in the thread that calls the library, must not call it, and may be
 * called until the context, and what was taken of it, is freed. */
typedef struct DemiAllocator {
    uint32_t size;
    void *(*allocate)(void *user, size_t size, size_t align);
    void (*release)(void *user, void *memory, size_t size);
    void *user;
} DemiAllocator;

#define DEMI_ALLOCATOR_INIT                                                                        \
    { sizeof(DemiAllocator), NULL, NULL, NULL }

typedef struct DemiContextOptions {
    uint32_t size;
    uint32_t threads;       /* 0: as many as there are processors to use */
    uint64_t memory_budget; /* bytes for values and workspace; 0: three quarters of the memory */
    uint64_t seed;          /* for random operators that have none */
    uint64_t step_limit;    /* most steps a run may take, those of loops counted each time; 0: any
                               number. A loop of a model that is not trusted may never end */
    DemiKernels kernels;
    double time_limit; /* seconds that a run may take, 0: any number. Asked between steps, and in
                          those of demi's own kernels on the processor that take long; what oneDNN
                          or a device computes is not interrupted */
    bool small; /* constants stay in 16 bit in memory, as plans have them, and are widened in every
                   run, some at a time; otherwise once, for all contexts of the plan */
    const char
        *device; /* what steps run on, read by demi_context_new: NULL or "cpu" for the processor,
                           "cuda" or "cuda:NUMBER" for an NVIDIA GPU. Steps that it has no kernels for
                           run on the processor, with copies between */
    bool (*go_on)(void *user); /* called in the thread that runs, where time_limit is asked too,
                                  every twentieth of a second or so; false ends the run with DEMI_ERR_CANCELLED. It must
                                  not use the context. NULL: none */
    void *go_on_user;
    const DemiAllocator
        *allocator; /* of values, workspaces, and outputs that are taken; NULL: the C
                                       library's. Tables and what the plan's contexts share are not
                                       its. It is copied */
    uint64_t
        device_memory; /* most bytes of the device's memory, for values, workspace and constants;
                               0: any number. What the driver and libraries have for themselves is not
                               counted. A run that needs more is DEMI_ERR_ENV */
    void *
        device_stream; /* a CUstream of the device's primary context, which must stay as long as the
                               context; NULL: one of the context's own. See "devices" below */
    bool device_steps; /* runs are never recorded and repeated as a CUDA graph */
    bool tf32;         /* products and convolutions of floats may round their factors to TF32, 10
                               bits of mantissa, on devices that are faster so */
} DemiContextOptions;

#define DEMI_CONTEXT_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(DemiContextOptions), 0, 0, 0, 0, DEMI_KERNELS_AUTO, 0.0, false, NULL, NULL, NULL,   \
            NULL, 0, NULL, false, false                                                            \
    }

/* Makes a context in *context, what runs of a plan need: inputs, memory, outputs. It is freed with
 * demi_context_free, before or after the plan; on error it is NULL. NULL options are the defaults.
 * DEMI_ERR_USAGE where `kernels` is none of its enumeration, or the allocator lacks a function. */
DEMI_API DemiStatus demi_context_new(const DemiPlan *plan, const DemiContextOptions *options,
                                     DemiContext **context, DemiError *error);
DEMI_API void demi_context_free(DemiContext *context);

/* The plan that the context is of, which it holds: good until demi_context_free. */
DEMI_API const DemiPlan *demi_context_plan(const DemiContext *context);

/* Sets an input by name; all of the value is copied. Inputs stay set for later runs, also after a
 * failed one. DEMI_ERR_USAGE where the model has none of that name, or type or shape do not fit;
 * DEMI_ERR_ENV past the memory budget. The input is as it was then. */
DEMI_API DemiStatus demi_context_set_input(DemiContext *context, const char *name,
                                           const DemiData *value, DemiError *error);
/* The same without a copy of the elements: what `data` of the value and of its items points at, and
 * the text of strings, must stay, unchanged, until the input is set again or the context freed. */
DEMI_API DemiStatus demi_context_borrow_input(DemiContext *context, const char *name,
                                              const DemiData *value, DemiError *error);

/* Forgets what an input was set to: it has its default again, or has none. What was borrowed is not
 * looked at any more. DEMI_ERR_USAGE where the model has none of that name. */
DEMI_API DemiStatus demi_context_unset_input(DemiContext *context, const char *name,
                                             DemiError *error);

/* Declares that an output is an input of the next run: a recurrent state, the keys and values that a
 * language model has seen. After every run that succeeds the input is what the output was, as if it
 * was set, and nothing is copied where memory allows. Where the model appends to that input what the
 * output is (`present` is `past` and more), it grows in place: a run takes the time of what it adds,
 * and asking for the output that of a copy. Setting the input begins anew. An output and an input
 * are carried once, for as long as the context lives. DEMI_ERR_USAGE where there is none of that
 * name, their types differ, or they are strings; a shape that the model does not take is an error of
 * the next run. */
DEMI_API DemiStatus demi_context_carry(DemiContext *context, const char *output, const char *input,
                                       DemiError *error);
/* Of a carried input, a tensor, keeps the first `length` slices of that axis: so a cache goes back to
 * a text's beginning. Nothing is copied of one that grows along it. DEMI_ERR_USAGE where it is not
 * carried or not set, or has no such axis or fewer slices; DEMI_ERR_ENV past the memory budget. */
DEMI_API DemiStatus demi_context_cut(DemiContext *context, const char *input, uint32_t axis,
                                     int64_t length, DemiError *error);

/* In the next run random operators that have no seed draw what they would in the first one of a context
 * with this seed (DemiContextOptions); runs behind it go on from there. */
DEMI_API void demi_context_seed(DemiContext *context, uint64_t seed);

/* Computes the outputs. DEMI_ERR_USAGE where an input is not set; DEMI_ERR_MODEL where a node
 * fails, which the error names; DEMI_ERR_ENV past the memory budget, the step or the time limit;
 * DEMI_ERR_CANCELLED where the caller ended it. The context may run again after an error, too. */
DEMI_API DemiStatus demi_context_run(DemiContext *context, DemiError *error);

/* Ends the run that is under way with DEMI_ERR_CANCELLED, or, where none is, the next one. May be
 * called in any thread, as long as the context is there. It ends where time_limit is asked, too. */
DEMI_API void demi_context_cancel(DemiContext *context);

/* Output i of the last run; NULL beyond the count, without a run, after a failed one, where it was
 * taken, or where a carried one can't be copied within the memory budget. It lives until the next run
 * or demi_context_free. Its data may be an input's, borrowed ones included, where the model hands that
 * on as it is, or another output's, bound ones included, where that has the same elements. */
DEMI_API const DemiData *demi_context_output(const DemiContext *context, size_t i);

/* Has an output's elements lie at `data` after each later run that succeeds, `size` bytes at most,
 * until it is bound anew; `data` NULL: no more. Its sizes are demi_context_output's to say, whose
 * `data` is this one. Nothing is copied where a step makes the output. The memory must stay until
 * then, must be aligned as an element is, 8 bytes at most, and must overlap neither what inputs borrow
 * nor what other outputs are bound to. A failed run may have written anything there. An empty optional
 * writes nothing. DEMI_ERR_USAGE where the model has no output of that name, or it is a sequence or of
 * strings; so ends a run that gives more bytes than there is room for. */
DEMI_API DemiStatus demi_context_bind_output(DemiContext *context, const char *name, void *data,
                                             uint64_t size, DemiError *error);

/* Output i of the last run as the caller's own, with all that it points to: it outlives later runs,
 * the context and the plan, until demi_data_free. The context has it no longer. Where it is taken
 * after every run, nothing is copied from the second one on, but of what is something else, too: an
 * input, a constant, a carried cache, bound, of strings, or on a device. DEMI_ERR_USAGE where
 * demi_context_output gives NULL; then *taken is NULL. */
DEMI_API DemiStatus demi_context_take_output(DemiContext *context, size_t i, DemiData **taken,
                                             DemiError *error);
/* Of what demi_context_take_output made, and NULL. */
DEMI_API void demi_data_free(DemiData *taken);

/* Bytes in use at most during the last run: for values, for kernels' workspace and what they
 * prepared, and for what the context remembers. Packed weights that contexts share count in
 * each. */
DEMI_API uint64_t demi_context_peak(const DemiContext *context);

/* Bytes that it holds now, counted as above: values, and memory that is kept for the next run. */
DEMI_API uint64_t demi_context_held(const DemiContext *context);

/* Gives back what it holds for the next run, which then costs what a first one does. Outputs of the last
 * run are gone; inputs that were set or carried stay. A run that was started is waited for. */
DEMI_API void demi_context_trim(DemiContext *context);

/* The memory_budget of the options, from now on; 0: three quarters of the memory. What is held beyond it
 * stays held until a run or demi_context_trim lets it go. For callers who share one budget among several
 * contexts. */
DEMI_API void demi_context_set_budget(DemiContext *context, uint64_t bytes);
DEMI_API uint64_t demi_context_budget(const DemiContext *context);

/* ---- devices --------------------------------------------------------------------------------- */

/* All that a context has a device do goes through one stream, its own or the caller's, in order: copies
 * of inputs, the steps, copies of outputs. So a run reads what work that was put into the caller's
 * stream before has written, and work that is put there later reads what the run writes; nothing else
 * is ordered with it, other streams by events of the caller's. demi_context_run waits for the stream
 * and returns with the outputs there; demi_context_start does not. Constants are copied when a step
 * first needs them, and that is waited for.
 *
 * Runs are recorded as a CUDA graph and repeated, where inputs have the same sizes and the caller's
 * memory on the device is the same as in the run before. While the caller captures the stream himself,
 * a run is refused with DEMI_ERR_USAGE, and the capture goes on; captures of other streams, of any mode,
 * are not disturbed. */

/* Puts a run into the device's stream and returns: demi_context_run without its end, which is
 * demi_context_wait's. Until that returns the context has no outputs, and what inputs borrow must stay
 * as it is; outputs on the device are there for work that comes later in the stream. The next run waits
 * for the last one first. On a processor the run has ended when it returns. */
DEMI_API DemiStatus demi_context_start(DemiContext *context, DemiError *error);
/* Waits for what demi_context_start began, whose errors it gives; at once where nothing is under way. */
DEMI_API DemiStatus demi_context_wait(DemiContext *context, DemiError *error);

/* As demi_context_borrow_input, of a tensor whose `data` is memory of the context's device: aligned as
 * its elements are, and to 256 bytes so that nothing is copied. Where the processor reads the input,
 * too, every run copies it and waits. DEMI_ERR_USAGE where the context has no device, too. */
DEMI_API DemiStatus demi_context_borrow_device_input(DemiContext *context, const char *name,
                                                     const DemiData *value, DemiError *error);
/* As demi_context_bind_output, with `size` bytes of the device's memory: demi_context_output then has
 * that address, which is not to be read by the host. Nothing is copied where the device makes the
 * output and the memory is aligned to 256 bytes. DEMI_ERR_USAGE where the context has no device or
 * carries the output, too. */
DEMI_API DemiStatus demi_context_bind_device_output(DemiContext *context, const char *name,
                                                    void *data, uint64_t size, DemiError *error);

/* What a context had its device do since it was made. */
typedef struct DemiDeviceCounts {
    uint32_t size;
    uint64_t launches; /* of kernels and of libraries' products and convolutions */
    uint64_t bytes;    /* that these read and wrote in the device's memory: operands by their sizes,
                          each once a step, and what one launch of a step leaves to the next */
    uint64_t uploads, downloads; /* copies from and to the processor's memory */
    uint64_t upload_bytes, download_bytes;
    uint64_t replays; /* runs that repeated what was recorded; what they did is counted above */
    uint64_t tf32;    /* of the launches, those that may round factors to TF32 */
    uint64_t memory;  /* bytes of the device's memory that the context uses now, and used at most */
    uint64_t memory_peak;
    uint64_t
        declined; /* steps that ran on the processor, with copies, as the device's kernels do not
                          take the operands that they had */
    uint64_t
        without; /* steps that were prepared without a library of the device's, as it is missing:
                         they run by kernels that are slower */
} DemiDeviceCounts;

#define DEMI_DEVICE_COUNTS_INIT                                                                    \
    { sizeof(DemiDeviceCounts), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Fills *counts, whose size is set. False, with all of them 0, where the context has no device. */
DEMI_API bool demi_context_device_counts(const DemiContext *context, DemiDeviceCounts *counts);

/* ---- tuning ---------------------------------------------------------------------------------- */

typedef struct DemiTuneOptions {
    uint32_t size;
    double seconds; /* to take for it at most, but for runs that have begun; 0: 30 */
} DemiTuneOptions;

#define DEMI_TUNE_OPTIONS_INIT                                                                     \
    { sizeof(DemiTuneOptions), 0.0 }

/* What was found. */
typedef struct DemiTuned {
    uint32_t size;
    size_t kinds;         /* of steps that can be computed in several ways: those that were timed */
    size_t changed;       /* of them, those that are computed otherwise from now on */
    size_t steps;         /* of these kinds */
    size_t runs;          /* that it took */
    double before, after; /* seconds of a run, not tuned and tuned; equal where nothing changed */
    double seconds;       /* that it took */
    bool ended_early;     /* there was not time enough to measure anything */
} DemiTuned;

#define DEMI_TUNED_INIT                                                                            \
    { sizeof(DemiTuned), 0, 0, 0, 0, 0.0, 0.0, 0.0, false }

/* Takes `size` bytes; returns false on error. demi.h's DemiWriteFn. */
typedef bool (*DemiPlanWriteFn)(void *user, const void *bytes, size_t size);

/* Runs the plan again and again on the context's inputs, its steps in all the ways that kernels know,
 * and writes it anew with those that are faster. They hold on machines of this one's instruction set,
 * in contexts of as many threads with default `kernels` and without `small`, for steps of the same
 * shapes; everywhere else the plan runs as it did. Last places of results may change with them. A way
 * is only taken where it was faster beyond what the times are uncertain by, and all together only if
 * a whole run is, of both plans in temporary files: else what is written is the plan as it is.
 *
 * `options` may be NULL, and so may `tuned`, whose size is set. Errors: those of demi_context_run;
 * DEMI_ERR_USAGE where the plan is faithful, the context's kernels are not the default ones, or it
 * carries outputs on;
 * DEMI_ERR_ENV where `write` returns false. */
DEMI_API DemiStatus demi_context_tune(DemiContext *context, const DemiTuneOptions *options,
                                      DemiPlanWriteFn write, void *user, DemiTuned *tuned,
                                      DemiError *error);

/* ---- watching -------------------------------------------------------------------------------- */

/* A step that was just executed: what profiles and comparisons are made of. All pointers end when
 * the callback returns. */
typedef struct DemiStep {
    uint32_t size;
    uint32_t number;  /* within the plan; the same each time the step is executed */
    uint32_t depth;   /* 0 in the main graph, one more in each body of If, Loop, Scan, … */
    const char *name; /* the node's, or that of its first output */
    const char *domain, *op_type; /* domain: "" for ai.onnx */
    const char *kernel;           /* what computed it; "" where the runtime itself did */
    double start;                 /* seconds, of a clock that only runs forward */
    double seconds;               /* with those of steps inside it */
    size_t input_count, output_count;
    const char *const *input_names, *const *output_names;
    const DemiData *inputs, *outputs; /* DEMI_DATA_NONE where omitted */
    double multiplications; /* each with an addition: of convolutions, matrix products, attention
                               and recurrent layers, from the shapes it ran on; 0 of all others */
} DemiStep;

typedef void (*DemiStepFn)(void *user, const DemiStep *step);

/* Has `step` called after each step of later runs, in the thread that runs; NULL: no more. It must
 * not use the context. Times do not include it, but for those of steps around the one it is called
 * for. */
DEMI_API DemiStatus demi_context_watch(DemiContext *context, DemiStepFn step, void *user,
                                       DemiError *error);

#ifdef __cplusplus
}
#endif
#endif
