// SPDX-License-Identifier: Apache-2.0
/* demi's runtime: runs execution plans, which `demi compile` or demi_compile makes from ONNX
 * models.
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
 * The conventions are those of demi.h: opaque handles with a free function that accepts NULL, a
 * DemiStatus and the caller's DemiError, and structures that begin with their size.
 *
 * Ownership: a context holds a counted reference to its plan, and outputs that were taken are
 * independent of their context. Handles may therefore be freed in any order, each once: a plan that
 * was freed lives until its last context is freed. What the caller lends (the bytes of a plan,
 * borrowed inputs, bound memory, an allocator) must stay as long as the last handle that uses it.
 *
 * Threads: a plan never changes, and any number of threads may use it. A context belongs to one
 * thread at a time, except for demi_context_cancel. demi.h lists the library's global state. A
 * context computes with as many threads as its options say: the caller's, and others that start
 * with its first run, sleep between runs, and end with the context. Signals are blocked in these
 * other threads.
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
    uint64_t size;    /* bytes */
    const char *text; /* not NUL-terminated */
} DemiString;

/* A tensor, or a sequence of tensors. */
typedef struct DemiData {
    uint32_t size;
    DemiDataKind kind;
    int32_t dtype; /* a DemiDtype */
    uint32_t rank;
    const int64_t *dims; /* [rank] */
    /* Elements in row-major order. Elements of less than a byte take one byte each, in its low
     * bits. Strings are DemiString. */
    const void *data;
    size_t count;                 /* of a sequence */
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

/* Opens a plan file: reads tables and small constants, and maps weights, which are never copied.
 * Makes a plan in *plan, which demi_plan_free frees, before or after its contexts; on error, *plan
 * is NULL.
 *
 * The file must not change while the plan is in use. If it is overwritten in place, weights change,
 * and nothing else. If it becomes shorter, or its disk fails, the weights are gone, and a run ends
 * the program with SIGBUS. Callers that cannot rule this out use demi_plan_read. (To replace a
 * plan, rename a new file over the old one, as demi does: the old file stays while it is open.)
 * Errors: DEMI_ERR_USAGE if there is no such file; DEMI_ERR_MODEL if it is not a plan, is damaged,
 * was made by another version, or has an operator for which demi has no kernel; DEMI_ERR_ENV if it
 * cannot be read. */
DEMI_API DemiStatus demi_plan_load(const char *path, DemiPlan **plan, DemiError *error);
/* The same, but reads the whole file into memory: later changes to the file do not matter. */
DEMI_API DemiStatus demi_plan_read(const char *path, DemiPlan **plan, DemiError *error);
/* The same for bytes, which are borrowed: they must stay unchanged until the plan and all its
 * contexts are freed.
 * Errors: also DEMI_ERR_USAGE if they are not aligned to 64 bytes. */
DEMI_API DemiStatus demi_plan_from_memory(const void *bytes, size_t size, DemiPlan **plan,
                                          DemiError *error);
/* Ends the caller's reference: no new context can be made from the plan. Its contexts continue to
 * work. */
DEMI_API void demi_plan_free(DemiPlan *plan);

/* Reads all bytes of the plan, including weights, and compares them with the hash (XXH64) that was
 * written with them. Loading does not read weights, so it does not notice their damage. This finds
 * accidental damage, not tampering.
 * Errors: DEMI_ERR_MODEL if the bytes are not those that were written. */
DEMI_API DemiStatus demi_plan_verify(const DemiPlan *plan, DemiError *error);

/* Returns what the plan was compiled from: two hashes (XXH64, seeds 0 and 1) of the bytes of the
 * model file, without its external data. Both are 0 if the model was read as text or made in
 * memory. If they are not those of the current model, compile again. */
DEMI_API void demi_plan_source(const DemiPlan *plan, uint64_t hash[2]);

typedef struct DemiPlanIo {
    uint32_t size;
    const char *name;
    DemiDataKind kind; /* of an optional: the kind that it may hold */
    bool optional;
    int32_t dtype;
    bool has_rank;
    uint32_t rank;
    const int64_t *dims;          /* [rank]; -1 for a dynamic size */
    bool has_default;             /* an input that need not be set */
    const char *const *dim_names; /* [rank] names of dynamic sizes; NULL for other sizes */
} DemiPlanIo;

#define DEMI_PLAN_IO_INIT                                                                          \
    { sizeof(DemiPlanIo), NULL, DEMI_DATA_NONE, false, 0, false, 0, NULL, false, NULL }

DEMI_API size_t demi_plan_input_count(const DemiPlan *plan);
DEMI_API size_t demi_plan_output_count(const DemiPlan *plan);
/* Fills *io, whose `size` must be set; its pointers live as long as the plan. Returns false if i is
 * not less than the count. */
DEMI_API bool demi_plan_input(const DemiPlan *plan, size_t i, DemiPlanIo *io);
DEMI_API bool demi_plan_output(const DemiPlan *plan, size_t i, DemiPlanIo *io);

/* ---- running --------------------------------------------------------------------------------- */

typedef struct DemiContext DemiContext;

/* Which kernels run a step if there are several. */
typedef enum DemiKernels {
    DEMI_KERNELS_AUTO = 0, /* those that were measured to be better */
    DEMI_KERNELS_OWN = 1,  /* only demi's own */
    DEMI_KERNELS_ONEDNN =
        2, /* oneDNN's wherever it can run the step; demi's own if it is missing */
} DemiKernels;

/* Returns the version of oneDNN that can be used, such as "3.2.0", or NULL with the reason in
 * *error. Opens the library (libdnnl.so.3, where the system looks for libraries) unless a context
 * already did. It stays open as long as the program runs. */
DEMI_API const char *demi_onednn_version(DemiError *error);

/* The caller's memory. `size` is a multiple of `align`, which is a power of two. `allocate` returns
 * NULL if there is no memory, which is DEMI_ERR_ENV. Both functions run in the thread that calls
 * the library, and must not call it. They may be called until the context, and outputs taken from
 * it, are freed. */
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
    uint32_t threads;       /* 0: as many as there are CPUs to use */
    uint64_t memory_budget; /* bytes for values and workspace; 0: 3/4 of physical memory */
    uint64_t seed;          /* for random operators that have none */
    /* The most steps that a run may take, where each iteration of a loop counts; 0: no limit. A
     * loop in a model that is not trusted may never end. */
    uint64_t step_limit;
    DemiKernels kernels;
    /* The most seconds that a run may take; 0: no limit. It is checked between steps, and during
     * demi's own long-running kernels on the CPU. What oneDNN or a device computes is not
     * interrupted. */
    double time_limit;
    /* Constants stay in 16-bit in memory, as plans store them, and are widened in every run, a part
     * at a time. Otherwise, they are widened once, for all contexts of the plan. */
    bool small;
    /* What runs the steps; demi_context_new reads it. NULL or "cpu": the CPU; "cuda" or
     * "cuda:NUMBER": an NVIDIA GPU. Steps for which the GPU has no kernels run on the CPU, with
     * copies in between. */
    const char *device;
    /* Called in the thread that runs, where time_limit is checked, about every twentieth of a
     * second. Return false to end the run with DEMI_ERR_CANCELLED. It must not use the context.
     * NULL: none. */
    bool (*go_on)(void *user);
    void *go_on_user;
    /* Allocates values, workspaces, and outputs that are taken. It does not allocate tables, nor
     * what the contexts of a plan share. The structure is copied. NULL: the C library's. */
    const DemiAllocator *allocator;
    /* The most bytes of device memory for values, workspace, and constants; 0: no limit. Memory of
     * the driver and of libraries does not count. A run that needs more ends with DEMI_ERR_ENV. */
    uint64_t device_memory;
    /* A CUstream of the device's primary context, which must stay as long as the context. NULL: one
     * of the context's own. See "devices" below. */
    void *device_stream;
    bool device_steps; /* never record and replay runs as a CUDA graph */
    /* float32 products and convolutions may round their factors to TF32 (10 bits of mantissa) on
     * devices that are faster with it. */
    bool tf32;
} DemiContextOptions;

#define DEMI_CONTEXT_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(DemiContextOptions), 0, 0, 0, 0, DEMI_KERNELS_AUTO, 0.0, false, NULL, NULL, NULL,   \
            NULL, 0, NULL, false, false                                                            \
    }

/* Makes a context in *context: the inputs, memory, and outputs that runs of a plan need.
 * demi_context_free frees it, before or after the plan; on error, *context is NULL. NULL options
 * mean the defaults.
 * Errors: DEMI_ERR_USAGE if `kernels` is not a value of its enumeration, or the allocator lacks a
 * function. */
DEMI_API DemiStatus demi_context_new(const DemiPlan *plan, const DemiContextOptions *options,
                                     DemiContext **context, DemiError *error);
DEMI_API void demi_context_free(DemiContext *context);

/* Returns the plan of the context, which the context holds: it is valid until demi_context_free. */
DEMI_API const DemiPlan *demi_context_plan(const DemiContext *context);

/* Sets an input by name; the whole value is copied. Inputs stay set for later runs, also after a
 * failed one. On error, the input does not change.
 * Errors: DEMI_ERR_USAGE if the model has no input of that name, or if type or shape do not fit;
 * DEMI_ERR_ENV beyond the memory budget. */
DEMI_API DemiStatus demi_context_set_input(DemiContext *context, const char *name,
                                           const DemiData *value, DemiError *error);
/* The same without a copy of the elements. What `data` of the value and of its items points to, and
 * the text of strings, must stay unchanged until the input is set again or the context is freed. */
DEMI_API DemiStatus demi_context_borrow_input(DemiContext *context, const char *name,
                                              const DemiData *value, DemiError *error);

/* Unsets an input: it has its default value again, or no value. Memory that it borrowed is not read
 * anymore.
 * Errors: DEMI_ERR_USAGE if the model has no input of that name. */
DEMI_API DemiStatus demi_context_unset_input(DemiContext *context, const char *name,
                                             DemiError *error);

/* Declares that an output is an input of the next run: the state of a recurrent network, or the KV
 * cache of a language model. After every successful run, the input has the value of the output, as
 * if it were set. Nothing is copied if memory allows that. If the model appends to the input
 * (`present` is `past` and more), the cache grows in place: a run takes the time of what it adds,
 * and reading the output takes the time of a copy. Setting the input starts again from that value.
 * An output can be carried to one input, and an input from one output, for as long as the context
 * lives.
 * Errors: DEMI_ERR_USAGE if there is no output or input of that name, if their types differ, or if
 * they are strings. A shape that the model does not accept is an error of the next run. */
DEMI_API DemiStatus demi_context_carry(DemiContext *context, const char *output, const char *input,
                                       DemiError *error);
/* Shortens a carried input, a tensor, to its first `length` slices along that axis, so that a cache
 * returns to a prefix of its text. A cache that grows along that axis is not copied.
 * Errors: DEMI_ERR_USAGE if the input is not carried or not set, has no such axis, or has fewer
 * slices; DEMI_ERR_ENV beyond the memory budget. */
DEMI_API DemiStatus demi_context_cut(DemiContext *context, const char *input, uint32_t axis,
                                     int64_t length, DemiError *error);

/* Sets the seed: in the next run, random operators that have no seed draw what they would in the
 * first run of a context with this seed (DemiContextOptions). Later runs continue from there. */
DEMI_API void demi_context_seed(DemiContext *context, uint64_t seed);

/* Computes the outputs. The context may run again, also after an error.
 * Errors: DEMI_ERR_USAGE if an input is not set; DEMI_ERR_MODEL if a node fails, which the error
 * names; DEMI_ERR_ENV beyond the memory budget, the step limit, or the time limit;
 * DEMI_ERR_CANCELLED if the caller ended the run. */
DEMI_API DemiStatus demi_context_run(DemiContext *context, DemiError *error);

/* Ends the current run with DEMI_ERR_CANCELLED, or if there is none, the next one. It may be called
 * from any thread while the context exists. The run ends where time_limit is checked. */
DEMI_API void demi_context_cancel(DemiContext *context);

/* Returns output i of the last run, which is valid until the next run or demi_context_free. Returns
 * NULL beyond the count, before the first run, after a failed run, if the output was taken, or if a
 * carried output cannot be copied within the memory budget. Its data may be that of an input, also
 * a borrowed one, if the model returns the input unchanged. It may also be that of another output,
 * also a bound one, with the same elements. */
DEMI_API const DemiData *demi_context_output(const DemiContext *context, size_t i);

/* Places the elements of an output at `data` in each later successful run, at most `size` bytes,
 * until the output is bound again; `data` NULL: not anymore. demi_context_output then returns the
 * shape, with `data` as its elements. If a step computes the output, it writes there directly,
 * without a copy. The memory must stay until the output is bound again. It must be aligned as an
 * element is (to 8 bytes at most), and must not overlap borrowed inputs or other bound outputs. A
 * failed run may have written anything there. An empty optional writes nothing.
 * Errors: DEMI_ERR_USAGE if the model has no output of that name, or it is a sequence or has
 * strings. A run whose output needs more than `size` bytes also ends with it. */
DEMI_API DemiStatus demi_context_bind_output(DemiContext *context, const char *name, void *data,
                                             uint64_t size, DemiError *error);

/* Takes output i of the last run out of the context, with everything that it points to. The caller
 * owns *taken until demi_data_free; it outlives later runs, the context, and the plan. If an output
 * is taken after every run, nothing is copied from the second run on, unless its memory has another
 * use: an input, a constant, a carried cache, a bound output, strings, or an output on a device.
 * Errors: DEMI_ERR_USAGE if demi_context_output returns NULL; then *taken is NULL. */
DEMI_API DemiStatus demi_context_take_output(DemiContext *context, size_t i, DemiData **taken,
                                             DemiError *error);
/* Frees what demi_context_take_output returned; accepts NULL. */
DEMI_API void demi_data_free(DemiData *taken);

/* Returns the largest number of bytes in use during the last run: values, workspace of kernels,
 * what kernels prepared, and what the context remembers. Packed weights that contexts share count
 * in each. */
DEMI_API uint64_t demi_context_peak(const DemiContext *context);

/* Returns the bytes that the context holds now, counted in the same way: values, and memory that it
 * keeps for the next run. */
DEMI_API uint64_t demi_context_held(const DemiContext *context);

/* Releases what the context holds for the next run, which then takes as long as a first run.
 * Outputs of the last run are gone. Inputs that were set or carried stay. Waits for a run that was
 * started. */
DEMI_API void demi_context_trim(DemiContext *context);

/* Changes the memory_budget of the options from now on; 0: three quarters of physical memory.
 * Memory held beyond the new budget stays until a run or demi_context_trim releases it. This is for
 * callers that share one budget among several contexts. */
DEMI_API void demi_context_set_budget(DemiContext *context, uint64_t bytes);
DEMI_API uint64_t demi_context_budget(const DemiContext *context);

/* ---- devices --------------------------------------------------------------------------------- */

/* Everything that a context does on a device goes through one stream, its own or the caller's, in
 * this order: copies of inputs, the steps, copies of outputs. A run therefore reads what earlier
 * work in the caller's stream wrote, and later work in it reads what the run writes. Nothing else
 * is ordered with the run: the caller orders other streams by events. demi_context_run waits for
 * the stream and returns with the outputs ready; demi_context_start does not wait. Constants are
 * copied when a step first needs them, and these copies are waited for.
 *
 * A run is recorded as a CUDA graph and replayed while inputs have the same sizes, and the caller's
 * device memory is the same, as in the run before. While the caller captures the stream, a run is
 * refused with DEMI_ERR_USAGE, and the capture continues. Captures of other streams, in any mode,
 * are not disturbed. */

/* Puts a run into the device's stream and returns: demi_context_run without its end, for which
 * demi_context_wait waits. Until that returns, the context has no outputs, and borrowed inputs must
 * stay unchanged. Work that comes later in the stream can use outputs on the device. The next run
 * first waits for this one. On the CPU, the run has ended when this function returns. */
DEMI_API DemiStatus demi_context_start(DemiContext *context, DemiError *error);
/* Waits for the run that demi_context_start began, and returns its errors. Returns immediately if
 * there is none. */
DEMI_API DemiStatus demi_context_wait(DemiContext *context, DemiError *error);

/* The same as demi_context_borrow_input for a tensor whose `data` is memory of the context's
 * device. It must be aligned as its elements are, and to 256 bytes so that nothing is copied. If
 * the CPU also reads the input, every run copies it and waits.
 * Errors: also DEMI_ERR_USAGE if the context has no device. */
DEMI_API DemiStatus demi_context_borrow_device_input(DemiContext *context, const char *name,
                                                     const DemiData *value, DemiError *error);
/* The same as demi_context_bind_output for `size` bytes of device memory: demi_context_output then
 * returns that address, which the host must not read. Nothing is copied if the device computes the
 * output and the memory is aligned to 256 bytes.
 * Errors: also DEMI_ERR_USAGE if the context has no device, or carries the output. */
DEMI_API DemiStatus demi_context_bind_device_output(DemiContext *context, const char *name,
                                                    void *data, uint64_t size, DemiError *error);

/* What a context did on its device since it was made. */
typedef struct DemiDeviceCounts {
    uint32_t size;
    uint64_t launches; /* of kernels, and of libraries' products and convolutions */
    /* Bytes that these read and wrote in device memory: operands by their sizes, each once per
     * step, and what one launch of a step leaves to the next. */
    uint64_t bytes;
    uint64_t uploads, downloads; /* copies to and from the device */
    uint64_t upload_bytes, download_bytes;
    uint64_t replays;     /* runs that replayed a recording; what they did is counted above */
    uint64_t tf32;        /* launches that may round factors to TF32 */
    uint64_t memory;      /* bytes of device memory that the context uses now */
    uint64_t memory_peak; /* the most bytes of device memory that it used */
    uint64_t declined;    /* steps that ran on the CPU, with copies, because the device's kernels do
                             not take their operands */
    uint64_t without;     /* steps that slower kernels run, because a library of the device was
                             missing when they were prepared */
} DemiDeviceCounts;

#define DEMI_DEVICE_COUNTS_INIT                                                                    \
    { sizeof(DemiDeviceCounts), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Fills *counts, whose `size` must be set. If the context has no device, returns false, and all
 * counts are 0. */
DEMI_API bool demi_context_device_counts(const DemiContext *context, DemiDeviceCounts *counts);

/* ---- tuning ---------------------------------------------------------------------------------- */

typedef struct DemiTuneOptions {
    uint32_t size;
    double seconds; /* the most time to take, except that runs that began are completed; 0: 30 */
} DemiTuneOptions;

#define DEMI_TUNE_OPTIONS_INIT                                                                     \
    { sizeof(DemiTuneOptions), 0.0 }

/* The result of tuning. */
typedef struct DemiTuned {
    uint32_t size;
    size_t kinds;         /* distinct steps with several kernel variants, which were timed */
    size_t changed;       /* of these, the ones that now use a different variant */
    size_t steps;         /* steps of these kinds */
    size_t runs;          /* runs that the tuning took */
    double before, after; /* seconds per run, untuned and tuned; equal if nothing changed */
    double seconds;       /* time that the tuning took */
    bool ended_early;     /* there was not enough time to measure anything */
} DemiTuned;

#define DEMI_TUNED_INIT                                                                            \
    { sizeof(DemiTuned), 0, 0, 0, 0, 0.0, 0.0, 0.0, false }

/* Receives `size` bytes; returns false on error. The same as DemiWriteFn of demi.h. */
typedef bool (*DemiPlanWriteFn)(void *user, const void *bytes, size_t size);

/* Autotuning: runs the plan repeatedly on the context's inputs, times all kernel variants of its
 * steps, and writes the plan again with the faster ones. The selections apply on machines with the
 * same instruction set, in contexts with the same number of threads, default `kernels`, and without
 * `small`, for steps of the same shapes. Everywhere else, the plan runs as before. They may change
 * the last bits of results. A variant is selected only if it is faster beyond the uncertainty of
 * the measurements. All selections together are kept only if a whole run is faster, measured with
 * both plans in temporary files. Otherwise, the plan is written as it is.
 *
 * `options` and `tuned` may be NULL; `size` of *tuned must be set.
 * Errors: those of demi_context_run; DEMI_ERR_USAGE if the plan is faithful, if the context does
 * not have the default kernels, or if it carries outputs; DEMI_ERR_ENV if `write` returns false. */
DEMI_API DemiStatus demi_context_tune(DemiContext *context, const DemiTuneOptions *options,
                                      DemiPlanWriteFn write, void *user, DemiTuned *tuned,
                                      DemiError *error);

/* ---- watching -------------------------------------------------------------------------------- */

/* A step that was just executed, for profiling and comparisons. All pointers are valid until the
 * callback returns. */
typedef struct DemiStep {
    uint32_t size;
    uint32_t number;  /* within the plan; the same each time the step is executed */
    uint32_t depth;   /* 0 in the main graph, one more in each body of If, Loop, Scan, … */
    const char *name; /* of the node, or of its first output */
    const char *domain, *op_type; /* domain: "" for ai.onnx */
    const char *kernel;           /* what computed it; "" for the runtime itself */
    double start;                 /* seconds, of a monotonic clock */
    double seconds;               /* including those of steps inside it */
    size_t input_count, output_count;
    const char *const *input_names, *const *output_names;
    const DemiData *inputs, *outputs; /* DEMI_DATA_NONE if omitted */
    double multiplications; /* each with an addition: of convolutions, matrix products, attention,
                               and recurrent layers, from the shapes that it ran on; otherwise 0 */
} DemiStep;

typedef void (*DemiStepFn)(void *user, const DemiStep *step);

/* Sets a callback for after each step of later runs, in the thread that runs; NULL: none. It must
 * not use the context. The seconds of a step do not include its own callback, but do include those
 * of steps inside it. */
DEMI_API DemiStatus demi_context_watch(DemiContext *context, DemiStepFn step, void *user,
                                       DemiError *error);

#ifdef __cplusplus
}
#endif
#endif
