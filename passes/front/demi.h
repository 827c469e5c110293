// SPDX-License-Identifier: Apache-2.0
/* libdemi's C interface: reads an ONNX model, converts it to mixed precision, and writes it.
 *
 *     DemiError error = DEMI_ERROR_INIT;
 *     DemiConvertOptions options = DEMI_CONVERT_OPTIONS_INIT;
 *     DemiModel *model = NULL;
 *     if (demi_load_file("in.onnx", NULL, &model, &error) == DEMI_OK &&
 *         demi_convert(model, &options, NULL, &error) == DEMI_OK)
 *         demi_save_file(model, "out.onnx", NULL, &error);
 *     if (error.status != DEMI_OK) fprintf(stderr, "%s\n", error.message);
 *     demi_free(model);
 *
 * Conventions
 * - Handles (DemiModel, DemiReport, DemiPasses) are opaque. One function makes each, and its
 *   counterpart, which accepts NULL, frees it once. No handle depends on another, so they may be
 *   freed in any order: a report may outlive its model.
 * - Functions that can fail return a DemiStatus and fill the caller's DemiError, which may be NULL.
 *   The first error wins: a DemiError that already holds one is not changed. Every such function
 *   may return DEMI_ERR_ENV if memory runs out. It may return DEMI_ERR_USAGE if a structure has no
 *   size, or sets members that this library does not know. Each function documents its other
 *   errors.
 * - The caller's structures begin with `uint32_t size`, which their INIT macro sets. A program that
 *   was built with an older header keeps working. NULL options mean the defaults.
 * - Threads: a DemiModel belongs to one thread at a time. Threads may use different models at the
 *   same time. Several threads may read a finished DemiReport, or a DemiPasses to which nothing is
 *   added; then several threads may also run its passes. Functions without a handle may be called
 *   from any thread.
 * - The library prints nothing and installs no signal handlers. Callbacks run in the calling
 *   thread, before the function returns (except DemiDataReadFn, which any thread may call). A
 *   callback must not call the library with the same model.
 * - Declarations between #ifdef DEMI_EXPERIMENTAL and #endif may change in any release. To use
 *   them, define the macro before including this header.
 * - Memory comes from the C library's malloc, except what contexts compute in (DemiAllocator).
 * - Strings are as found in the file, normally UTF-8. The handle from which a pointer was obtained
 *   owns what it points to, for as long as the handle lives.
 *
 * Global state. The library has only this, all of which is safe to use from several threads:
 * - The table of temporary files that are currently open for writing.
 * - The CPU's instruction set, detected once per process. If the CPU has AMX, kernels also ask
 *   Linux once for the permission to use it.
 * - Libraries that are opened when a context first needs them, and stay open until the process
 *   ends: oneDNN (also opened by demi_onednn_version), and for a GPU, CUDA's driver, cuBLAS, and
 *   cuDNN. If demi is the one that opens oneDNN, it also limits oneDNN's cache of primitives.
 * - CUDA devices in use. Contexts share them; the last context closes them. Each thread counts how
 *   deeply its calls into CUDA are nested.
 * - The seed of the JSON library's hash tables, chosen once.
 * - Two hooks for the demi command (progress and files read), which stay unset in other programs.
 */
#ifndef DEMI_H
#define DEMI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "demi_error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- version --------------------------------------------------------------------------------- */

/* The version of this header. Before 1.0, a new minor version may change the interface. From 1.0
 * on, only a new major version may, which then also changes the shared library's soname. */
#define DEMI_VERSION_MAJOR  0
#define DEMI_VERSION_MINOR  1
#define DEMI_VERSION_PATCH  0
#define DEMI_VERSION_STRING "0.1.0"

/* The version of the library at run time: "MAJOR.MINOR.PATCH", and major * 10000 + minor * 100 +
 * patch. */
DEMI_API const char *demi_version(void);
DEMI_API uint32_t demi_version_number(void);

/* The newest opset of the default domain, and the newest IR version, that demi_convert accepts. */
DEMI_API int64_t demi_newest_opset(void);
DEMI_API int64_t demi_newest_ir(void);

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct DemiModel DemiModel;

/* External data that the caller supplies, by the location that the model names. DemiDataSizeFn
 * returns the number of bytes at that location; a negative number means that there is no such data,
 * which is an error. DemiDataReadFn copies `size` bytes, beginning at `offset`, to buffer, and
 * returns false if that fails. Any thread may call it, several at once, for as long as the model
 * lives. */
typedef int64_t (*DemiDataSizeFn)(void *user, const char *location);
typedef bool (*DemiDataReadFn)(void *user, const char *location, uint64_t offset, void *buffer,
                               uint64_t size);

typedef struct DemiLoadOptions {
    uint32_t size;
    bool allow_hardlinks; /* accept external data files with more than one hard link */
    /* Folder that must contain the external data. NULL: the folder of the model file; a model that
     * does not come from a path then has no external data. */
    const char *data_root;
    const char *name; /* what messages call the input; NULL: its path, or "model" */
    /* If set, both: external data comes from these functions instead of files, so that a model of
     * more than 2 GB need not be a file. NULL: from files. */
    DemiDataSizeFn data_size;
    DemiDataReadFn data_read;
    void *data_user;
} DemiLoadOptions;

#define DEMI_LOAD_OPTIONS_INIT                                                                     \
    { sizeof(DemiLoadOptions), false, NULL, NULL, NULL, NULL, NULL }

/* Reads at most `size` bytes into buffer. Returns the number of bytes read, 0 at the end, or -1 on
 * error. */
typedef int64_t (*DemiReadFn)(void *user, void *buffer, size_t size);

/* Each of these functions reads a model into *model, which demi_free frees; on error, *model is
 * NULL. The contents decide whether the input is an ONNX protobuf file or text (".onnxtxt").
 * Weights in files are read when they are needed, so the files must not change before demi_free.
 * Errors: DEMI_ERR_USAGE if there is no such file; DEMI_ERR_MODEL if it is not a valid model;
 * DEMI_ERR_ENV if it cannot be read. */
DEMI_API DemiStatus demi_load_file(const char *path, const DemiLoadOptions *options,
                                   DemiModel **model, DemiError *error);
/* Reads the descriptor to its end, and does not close it. */
DEMI_API DemiStatus demi_load_fd(int fd, const DemiLoadOptions *options, DemiModel **model,
                                 DemiError *error);
/* Calls `read` until it returns 0. */
DEMI_API DemiStatus demi_load_callback(DemiReadFn read, void *user, const DemiLoadOptions *options,
                                       DemiModel **model, DemiError *error);
/* Borrows the bytes, which must stay unchanged until demi_free. */
DEMI_API DemiStatus demi_load_memory(const void *bytes, size_t size, const DemiLoadOptions *options,
                                     DemiModel **model, DemiError *error);

DEMI_API void demi_free(DemiModel *model);

/* ---- writing --------------------------------------------------------------------------------- */

typedef enum DemiFormat {
    DEMI_FORMAT_BY_NAME = 0, /* text if the path ends in ".onnxtxt", otherwise protobuf */
    DEMI_FORMAT_ONNX = 1,
    DEMI_FORMAT_TEXT = 2,
} DemiFormat;

/* Receives `size` bytes. Returns false on error, which ends the writing. It runs in the thread that
 * called the library and must return to it: no longjmp, no exception. */
typedef bool (*DemiWriteFn)(void *user, const void *bytes, size_t size);

typedef struct DemiSaveOptions {
    uint32_t size;
    DemiFormat format;
    /* For demi_save_callback: the name that the model uses for its external data. Weights of 1 KiB
     * and more then go to `data`, before the model is written. NULL: all weights are inside. */
    const char *data_name;
    DemiWriteFn data; /* receives the external data from beginning to end, as one file */
    void *data_user;
} DemiSaveOptions;

#define DEMI_SAVE_OPTIONS_INIT                                                                     \
    { sizeof(DemiSaveOptions), DEMI_FORMAT_BY_NAME, NULL, NULL, NULL }

/* Writes the model to a temporary file in the same folder as `path`, reads it back, compares it
 * with the model, and renames it to `path`. On any error, what was at `path` is untouched. Weights
 * go to one file next to it if the input kept them outside, or if the model would exceed 2^31 - 1
 * bytes. A model that was not edited is written as the bytes that it was read from. Saving does not
 * change the model; nor do the two functions below.
 * Errors: DEMI_ERR_USAGE if the folder does not exist, or `path` is a folder; DEMI_ERR_ENV if the
 * file cannot be written, or reads back differently; DEMI_ERR_MODEL if ONNX's format cannot hold
 * the model. */
DEMI_API DemiStatus demi_save_file(DemiModel *model, const char *path,
                                   const DemiSaveOptions *options, DemiError *error);
/* Writes the model to a callback, with all weights inside, or (DemiSaveOptions.data_name) to a
 * second callback.
 * Errors: DEMI_ERR_ENV above 2^31 - 1 bytes, or if a callback returns false; DEMI_ERR_USAGE if only
 * one of data_name and data is set; DEMI_ERR_MODEL as above. */
DEMI_API DemiStatus demi_save_callback(DemiModel *model, DemiWriteFn write, void *user,
                                       const DemiSaveOptions *options, DemiError *error);

/* Prints the model as text. With `full`, the text has everything and can be read back. Otherwise it
 * omits the elements of tensors that have more than 16, and says so.
 * Errors: DEMI_ERR_ENV if `write` returns false. */
DEMI_API DemiStatus demi_print(DemiModel *model, bool full, DemiWriteFn write, void *user,
                               DemiError *error);

/* ---- passes ---------------------------------------------------------------------------------- */

/* The passes that a pipeline can name: the library's own, and those of plug-ins (demi_plugin.h).
 * Functions accept NULL for only the library's own. */
typedef struct DemiPasses DemiPasses;

/* Makes a set of the library's passes in *passes, which demi_passes_free frees; on error, *passes
 * is NULL. Freeing it closes the shared objects, so no pipeline that uses them may be running.
 * Models and reports do not refer to the set. */
DEMI_API DemiStatus demi_passes_new(DemiPasses **passes, DemiError *error);
DEMI_API void demi_passes_free(DemiPasses *passes);

/* Adds the passes of a shared object, whose code runs with the rights of the program. On error, the
 * set does not change.
 * Errors: DEMI_ERR_USAGE if the file is not a plug-in, was built for another version, or has a pass
 * whose name is taken. */
DEMI_API DemiStatus demi_passes_load(DemiPasses *passes, const char *path, DemiError *error);

#ifdef DEMI_EXPERIMENTAL
struct DemiApi;
struct DemiPlugin;
/* The same for a plug-in inside the program. What its description points to must stay until this
 * function returns; its run functions must stay as long as the set. */
DEMI_API DemiStatus demi_passes_add(DemiPasses *passes,
                                    const struct DemiPlugin *(*entry)(const struct DemiApi *api),
                                    DemiError *error);
#endif

/* Pass i < demi_pass_count(), in a fixed order, with loaded passes last; NULL beyond the count. The
 * strings live as long as the set. */
DEMI_API size_t demi_pass_count(const DemiPasses *passes);
DEMI_API const char *demi_pass_name(const DemiPasses *passes, size_t i);
DEMI_API const char *demi_pass_summary(const DemiPasses *passes, size_t i);

/* Option j of pass i: its name, what it takes ("true|false", "N", "TEXT", "[TEXT,...]",
 * "float16|bfloat16"), its default (NULL: none), and its help text. */
typedef struct DemiPassOption {
    uint32_t size;
    const char *name, *otherwise, *help; /* live as long as the set; otherwise: the default */
    char takes[320];
} DemiPassOption;

#define DEMI_PASS_OPTION_INIT                                                                      \
    { sizeof(DemiPassOption), NULL, NULL, NULL, "" }

/* Fills *option, whose `size` must be set. Returns false if there is no such option. */
DEMI_API bool demi_pass_option(const DemiPasses *passes, size_t i, size_t j,
                               DemiPassOption *option);

/* ---- checking and rewriting ------------------------------------------------------------------ */

typedef struct DemiReport DemiReport;

/* Checks names and form, and every known operator against its definition. Also checks all types and
 * shapes, as they follow from inputs and constants, against operators, subgraphs, and declarations.
 * It refuses what ONNX's full check with strict shape inference refuses. The model does not change.
 * Errors: DEMI_ERR_MODEL, which names the first fault. */
DEMI_API DemiStatus demi_check(DemiModel *model, DemiError *error);

/* Called after step `done` of `total` of a pipeline. Return false to cancel. The call then returns
 * DEMI_ERR_CANCELLED, and demi_free is the only valid call for the model: every other call with it
 * returns DEMI_ERR_USAGE. */
typedef bool (*DemiProgressFn)(void *user, const char *pass, size_t done, size_t total);

/* Quantized weights of a model, rounded on data; see demi_trials.h. */
typedef struct DemiRoundedWeights DemiRoundedWeights;

typedef struct DemiRunOptions {
    uint32_t size;
    bool verify_each; /* check the model after each pass */
    DemiWriteFn text; /* receives what the `print` pass writes; NULL: it is discarded */
    void *text_user;
    DemiProgressFn progress; /* may be NULL */
    void *progress_user;
    /* Print the model to `text` after each pass of this name ("all": after every pass), preceded by
     * a line "# after PASS"; NULL: none. */
    const char *print_after;
    const DemiPasses *passes; /* passes that a pipeline can name; NULL: the library's own */
    DemiWriteFn artifact;     /* receives the plan that lower-plan writes; NULL: it is discarded */
    void *artifact_user;
    /* Check only names and structure, before and after the passes. The passes then accept models
     * that demi_check refuses, and may produce such models. */
    bool unchecked;
    bool runs_here; /* the model will run on this machine: the report says what its CPU lacks */
    /* Weights that were rounded on calibration data (demi_trials_round), which insert-qdq stores with
     * rounding=gptq. They must stay during the call, and conversions in several threads may use them.
     * NULL: none. */
    DemiRoundedWeights *rounded;
} DemiRunOptions;

#define DEMI_RUN_OPTIONS_INIT                                                                      \
    {                                                                                              \
        sizeof(DemiRunOptions), false, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, false,      \
            false, NULL                                                                            \
    }

/* Runs a pipeline such as "infer-dtypes,insert-casts{to=float16},fuse-casts". *report, which
 * demi_report_free frees, is NULL on error; `report` may be NULL.
 *
 * The model is checked as by demi_check before and after the passes. Some faults that other tools
 * often leave, and on which nothing depends, are repaired instead, and the report says so: unsorted
 * nodes, declared types and shapes that contradict the operators, and graphs without a name. Inputs
 * and outputs without a declared shape, and deprecated operators, are accepted. A model that is
 * newer than this library is checked as with `unchecked`.
 *
 * After an error during a pass, the model may be half rewritten, and demi_free is the only valid
 * call: every other call with it returns DEMI_ERR_USAGE. A pipeline that cannot be parsed
 * (DEMI_ERR_USAGE) leaves the model as it was.
 * Errors of the passes: DEMI_ERR_MODEL if a pass cannot work with the model; DEMI_ERR_USAGE if the
 * model lacks what a pass's options name; DEMI_ERR_ENV if a callback fails. */
DEMI_API DemiStatus demi_run_pipeline(DemiModel *model, const char *pipeline,
                                      const DemiRunOptions *options, DemiReport **report,
                                      DemiError *error);

/* How the results of a plan may differ from those of the model. */
typedef enum DemiNumerics {
    DEMI_NUMERICS_FAST = 0, /* operators are fused where that saves time: 16-bit values between them
                               are not rounded, and sums may be computed in a different order */
    DEMI_NUMERICS_FAITHFUL = 1, /* the 16-bit result of each operator is rounded once, as if nothing
                                   were fused: shows the accuracy of a mixed-precision model */
} DemiNumerics;

/* The instruction set whose packed weights a plan contains. The plan runs on any machine: other
 * machines repack the weights when they first need them. */
typedef enum DemiIsa {
    DEMI_ISA_NATIVE = 0, /* that of this machine */
    DEMI_ISA_NONE = 1,   /* weights stay as the model has them */
    DEMI_ISA_PORTABLE = 2,
    DEMI_ISA_AVX2 = 3,
    DEMI_ISA_AVX512 = 4,
} DemiIsa;

typedef struct DemiCompileOptions {
    uint32_t size;
    DemiNumerics numerics;
    bool keep_values; /* fuse nothing and compute nothing in advance, so that every value of the
                         model can be watched; such a plan is faithful */
    /* The most bytes that constants computed in advance may take, and that inlined function calls
     * may add to the model's own size; 0: in proportion to that size. Beyond this limit, less is
     * computed in advance, and function calls that add more are refused. */
    uint64_t memory_budget;
    /* For fast plans: 16-bit values stay in 16-bit between steps. This takes less memory, but more
     * time if the CPU does not compute in 16-bit. Faithful plans always do so. */
    bool small;
    DemiIsa isa;
    /* Make a fast plan for a GPU, whatever `small` and `isa` say: values stay in 16-bit, layouts
     * are channels-last, and weights stay as the model has them. CPUs can also run it. */
    bool for_device;
} DemiCompileOptions;

#define DEMI_COMPILE_OPTIONS_INIT                                                                  \
    { sizeof(DemiCompileOptions), DEMI_NUMERICS_FAST, false, 0, false, DEMI_ISA_NATIVE, false }

/* Compiles the model to an execution plan, which demi_runtime.h runs, and passes it to `write`
 * piece by piece. `options` may be NULL. Afterward, demi_free is the only valid call for the model;
 * every other call refuses it. Whether the runtime has a kernel for each operator is checked when
 * the plan is loaded.
 * Errors: DEMI_ERR_MODEL if the model is not valid, or contains what plans do not support;
 * DEMI_ERR_ENV if `write` returns false. */
DEMI_API DemiStatus demi_compile(DemiModel *model, const DemiCompileOptions *options,
                                 DemiWriteFn write, void *user, DemiError *error);

/* Choices of a conversion. 0 means the policy's choice, or if it has none, the one marked default.
 * tools/gen/gen_settings.py writes the constants of settings. */
typedef enum DemiTarget {
    DEMI_TO_DEFAULT = 0,
    DEMI_TO_FLOAT16 = 1,          /* default: IEEE 754's binary16 */
    DEMI_TO_BFLOAT16 = 2,         /* the upper half of float32 */
    DEMI_TO_INT8 = 3,             /* activations and weights of products are quantized, to 8 bits or
                                     as activations says; requires calibration ranges */
    DEMI_TO_INT8_WEIGHTS = 4,     /* weight-only quantization to 8 bits; activations stay in
                                     floating point */
    DEMI_TO_INT4_WEIGHTS = 5,     /* weight-only quantization of matrix products to 4 bits, in
                                     blocks */
    DEMI_TO_FP8_WEIGHTS = 6,      /* weight-only quantization to float8e4m3fn */
    DEMI_TO_FLOAT32 = 7,          /* single precision everywhere; what is quantized is
                                     dequantized */
    DEMI_TO_FLOAT16_WEIGHTS = 8,  /* weights are stored in float16, and all nodes compute in
                                     float32 */
    DEMI_TO_BFLOAT16_WEIGHTS = 9, /* weights are stored in bfloat16, and all nodes compute in
                                     float32 */
    DEMI_TO_FP8 = 10,             /* inputs and weights of products are quantized to float8e4m3fn;
                                     requires calibration ranges */
    DEMI_TO_MXFP8_WEIGHTS = 11,   /* weight-only quantization to MXFP8: float8e4m3fn in blocks of
                                     32, whose scales are powers of two */
    DEMI_TO_MXFP4_WEIGHTS = 12,   /* weight-only quantization to MXFP4: float4e2m1 in blocks of 32,
                                     whose scales are powers of two */
    DEMI_TO_NVFP4_WEIGHTS = 13,   /* weight-only quantization to NVFP4: float4e2m1 in blocks of 16,
                                     whose scales are float8e4m3fn times one float32 */
    DEMI_TO_INT2_WEIGHTS = 14,    /* weight-only quantization of matrix products to 2 bits, in
                                     blocks */
    DEMI_TO_INT8_DYNAMIC = 15,    /* dynamic quantization: weights as int8-weights, and activations
                                     of matrix products to 8 bits at run time, with a scale per row;
                                     requires no data */
} DemiTarget;

typedef enum DemiIo {
    DEMI_IO_DEFAULT = 0,
    DEMI_IO_KEEP = 1, /* default: inputs and outputs keep their types */
    DEMI_IO_LOW = 2,  /* floating-point inputs and outputs get the target type */
} DemiIo;

/* What a conversion does to the opset of the default domain. Any other number is the opset to raise
 * it to. */
enum {
    DEMI_OPSET_DEFAULT = 0,
    /* Default for all targets but float16: raise the opset as far as the operators that matter need
     * it to support the target type. A model that cannot be raised so far keeps its opset. */
    DEMI_OPSET_AUTO = -1,
    DEMI_OPSET_KEEP = -2, /* default for float16 */
};

/* The type of quantized activations, with DEMI_TO_INT8. */
typedef enum DemiActivations {
    DEMI_ACTIVATIONS_DEFAULT = 0,
    DEMI_ACTIVATIONS_UINT8 = 1,  /* default: unsigned 8-bit; uses the full range after a Relu */
    DEMI_ACTIVATIONS_INT8 = 2,   /* signed 8-bit */
    DEMI_ACTIVATIONS_UINT16 = 3, /* unsigned 16-bit, from opset 21 on */
    DEMI_ACTIVATIONS_INT16 = 4,  /* signed 16-bit, from opset 21 on */
    DEMI_ACTIVATIONS_FP8 = 5,    /* float8e4m3fn, from opset 19 on; that of fp8, which has no
                                    other */
} DemiActivations;

/* Which floating-point types to convert. */
typedef enum DemiSourceTypes {
    DEMI_SOURCE_DEFAULT = 0,
    DEMI_SOURCE_ANY = 1,     /* default: float32, float16, bfloat16, and models in double */
    DEMI_SOURCE_FLOAT32 = 2, /* only float32; other types stay */
} DemiSourceTypes;

/* With quantization, the type of what is not quantized. */
typedef enum DemiRest {
    DEMI_REST_DEFAULT = 0,
    DEMI_REST_KEEP = 1,         /* default: floating-point values stay in the type that they have */
    DEMI_REST_FLOAT32 = 2,      /* in float32 */
    DEMI_REST_FLOAT16 = 3,      /* in mixed precision with float16, scales too */
    DEMI_REST_BFLOAT16 = 4,     /* in mixed precision with bfloat16, scales too */
    DEMI_REST_INT8_WEIGHTS = 5, /* weights that cannot have scales by blocks have int8, with int8
                                   and fp8 also tables that Gather reads; floating-point values stay
                                   (default where weights have blocks, such as int4-weights) */
} DemiRest;

/* The runtime whose rules the result follows. */
typedef enum DemiRuntimeRules {
    DEMI_RUNTIME_DEFAULT = 0,
    DEMI_RUNTIME_ANY = 1,         /* default: no rules but those of ONNX */
    DEMI_RUNTIME_ONNXRUNTIME = 2, /* ONNX Runtime: tables of 4 bits are read by an operator of its
                                     own */
    DEMI_RUNTIME_OPENVINO = 3,    /* OpenVINO */
    DEMI_RUNTIME_TENSORRT = 4,    /* TensorRT */
    DEMI_RUNTIME_QNN = 5,         /* Qualcomm's processors, by ONNX Runtime's QNN provider */
    DEMI_RUNTIME_DEMI = 6,        /* demi's own runtime, which has that operator */
} DemiRuntimeRules;

/* How quantized weights are rounded, in weight-only quantization. */
typedef enum DemiRounding {
    DEMI_ROUNDING_DEFAULT = 0,
    DEMI_ROUNDING_NEAREST = 1, /* default: to the nearest number */
    DEMI_ROUNDING_GPTQ = 2,    /* one after the other, each making up for the error of those before
                                  it, by what calibration measures of the products' inputs */
} DemiRounding;

/* Cross-layer equalization. */
typedef enum DemiEqualize {
    DEMI_EQUALIZE_DEFAULT = 0,
    DEMI_EQUALIZE_DATA = 1,    /* default: by what calibration measures, if activations are
                                  quantized */
    DEMI_EQUALIZE_WEIGHTS = 2, /* by estimates from the weights, which need no data */
    DEMI_EQUALIZE_NEVER = 3,   /* not at all */
    DEMI_EQUALIZE_ALL = 4,     /* as data, and also what convolutions read, by multiplications at
                                  run time */
} DemiEqualize;

/* Precision assignment: how to choose the nodes that run in the target type. */
typedef enum DemiPlacement {
    DEMI_PLACEMENT_DEFAULT = 0,
    DEMI_PLACEMENT_MINCUT = 1, /* default: of all assignments that the rules allow, the one that
                                  converts the least data at run time */
    DEMI_PLACEMENT_GREEDY = 2, /* every node that may follow a neighbor in the target type does */
} DemiPlacement;

/* How to store constants that are read in the target type. */
typedef enum DemiParameters {
    DEMI_PARAMETERS_DEFAULT = 0,
    DEMI_PARAMETERS_OFFLINE = 1, /* default: stored in it, unless they are also read in float32 */
    DEMI_PARAMETERS_RUNTIME = 2, /* stored in float32, and cast when the model runs */
    DEMI_PARAMETERS_BOTH = 3,    /* stored in it, and also in float32 if they are read in both */
} DemiParameters;

/* What to do with constants whose values exceed the range of the target type. */
typedef enum DemiOverflow {
    DEMI_OVERFLOW_DEFAULT = 0,
    DEMI_OVERFLOW_PIN = 1,   /* default: their readers are kept in float32 */
    DEMI_OVERFLOW_CLAMP = 2, /* the largest finite value is stored instead */
    DEMI_OVERFLOW_INF = 3,   /* they become infinite */
    DEMI_OVERFLOW_ERROR = 4, /* an error (DEMI_ERR_MODEL) names the first */
} DemiOverflow;

typedef struct DemiConvertOptions {
    uint32_t size;
    DemiTarget to;
    DemiIo io;
    bool allow_unmatched; /* accept patterns that match nothing */
    /* [keep_count] patterns of nodes to keep in float32. A pattern is the name of a node (or of its
     * first output, if it has none); a glob with * and ?; "name:NAME", exactly that name;
     * "re:REGEX", which must match the whole name; "out:NAME", the node that computes a value; or
     * "from:A,to:B", all nodes between two values. */
    const char *const *keep;
    size_t keep_count;
    const char *const *keep_ops; /* [keep_op_count] operators to keep in float32 */
    size_t keep_op_count;
    const char *const *input_dtypes; /* [input_dtype_count] "NAME=DTYPE": types that a file lacks */
    size_t input_dtype_count;
    const DemiRunOptions *run; /* NULL: the defaults */
    /* "float16", "bfloat16", "fast", or a policy as JSON; other options add to it or override it.
     * NULL: the policy of the target type. */
    const char *policy;
    DemiParameters parameters;
    DemiOverflow overflow;
    const char *const *only; /* [only_count] patterns: convert nothing else */
    size_t only_count;
    /* Operators by class: NAMEs replace the policy's list, +NAME moves an operator to this list,
     * and -NAME removes it from the list. A name may be DOMAIN.OPERATOR. */
    const char *const *low_ops; /* run in the target type */
    size_t low_op_count;
    const char *const *fp32_ops; /* are kept in float32 */
    size_t fp32_op_count;
    const char *const *follow_ops; /* run in the target type if an input has it */
    size_t follow_op_count;
    const char *const *widest_ops; /* run in the target type if all inputs have it */
    size_t widest_op_count;
    const char *const *fp32_when; /* [fp32_when_count] "OPERATOR.ATTRIBUTE=VALUE": nodes to keep in
                                     float32 because of an attribute */
    size_t fp32_when_count;
    const char *const *low_inputs; /* [low_input_count] graph inputs that get the target type */
    size_t low_input_count;
    const char *const *low_outputs; /* [low_output_count] graph outputs that get the target type */
    size_t low_output_count;
    /* [declared_op_count] signatures of custom operators: "com.x.Op(T, T?) -> T; T =
     * float|float16" */
    const char *const *declared_ops;
    size_t declared_op_count;
    int64_t opset; /* a DEMI_OPSET constant, or 1 to demi_newest_opset() */
    DemiPlacement placement;
    /* [range_count] calibration ranges, measured while the float32 model ran on real data:
     * "NAME=MAX", the largest magnitude of a value; "NAME=MIN:MAX"; or
     * "NAME=MIN:MAX:AXIS:MEAN,...:ERROR,...". The last form adds the means of the channels along an
     * axis, and optionally their quantization errors, for bias correction of quantized products. If
     * a range times range_margin exceeds a 16-bit target's range, the value and the nodes that
     * compute and read it stay in float32. Quantized values get their scales from the ranges;
     * DEMI_TO_INT8 requires some (demi_trials_calibrate). */
    const char *const *ranges;
    size_t range_count;
    int64_t range_margin; /* 0: the policy's, or if it has none, 2 */
    /* Pipelines to run before and after that of the conversion; NULL: none. */
    const char *before, *after;
    DemiActivations activations; /* for DEMI_TO_INT8 */
    bool symmetric; /* the zero point of quantized values is 0, or the middle of an unsigned type */
    /* Block size of quantized matrix weights: the number of elements along the summed axis that
     * share a scale. 0: one scale per channel, or blocks of 32 for 4-bit weights. */
    int64_t block;
    /* [value_count], [weight_count] "NAME=TYPE": quantize only these values (to int8, uint8, int16,
     * or uint16) and these constants (to int8, int16, int4, uint4, or fp8). Values need ranges.
     * With a 16-bit target, this is done first, and the remaining nodes may run in 16-bit. */
    const char *const *values;
    size_t value_count;
    const char *const *weights;
    size_t weight_count;
    /* First fold normalizations, scales, and shifts after convolutions into their weights. Names in
     * other options are those that remain afterward. */
    bool fold;
    bool simplify; /* first simplify as demi_simplify does by default; names as with `fold` */
    /* Turn inputs with default values into constants, also from IR version 4 on. Before version 4,
     * they always become constants, since no runtime accepts other values for them. */
    bool freeze_inputs;
    const char *const *fed; /* [fed_count] inputs that callers provide: they stay inputs */
    size_t fed_count;
    DemiRest rest;            /* with quantization: what becomes of everything else */
    DemiSourceTypes source;   /* which floating-point types to convert */
    DemiRuntimeRules runtime; /* whose rules the result follows */
    /* DEMI_ROUNDING_GPTQ also needs DemiRunOptions.rounded, which demi_trials_round makes. */
    DemiRounding rounding;
    DemiEqualize equalize;
    /* [channel_scale_count] "NAME=EXPONENT,...": by which powers of two the channels of a layer are
     * divided, which the layers after it undo. demi_trials_calibrate finds them; ranges are then
     * those of the equalized model. */
    const char *const *channel_scales;
    size_t channel_scale_count;
} DemiConvertOptions;

#define DEMI_CONVERT_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(DemiConvertOptions), DEMI_TO_DEFAULT, DEMI_IO_DEFAULT, false, NULL, 0, NULL, 0,     \
            NULL, 0, NULL, NULL, DEMI_PARAMETERS_DEFAULT, DEMI_OVERFLOW_DEFAULT, NULL, 0, NULL, 0, \
            NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, DEMI_OPSET_DEFAULT,     \
            DEMI_PLACEMENT_DEFAULT, NULL, 0, 0, NULL, NULL, DEMI_ACTIVATIONS_DEFAULT, false, 0,    \
            NULL, 0, NULL, 0, false, false, false, NULL, 0, DEMI_REST_DEFAULT,                     \
            DEMI_SOURCE_DEFAULT, DEMI_RUNTIME_DEFAULT, DEMI_ROUNDING_DEFAULT,                      \
            DEMI_EQUALIZE_DEFAULT, NULL, 0                                                         \
    }

/* Converts the model to mixed precision, or quantizes it, by the pipeline that
 * demi_convert_pipeline prints. *report, and the state of the model after an error, are as for
 * demi_run_pipeline.
 * Errors: DEMI_ERR_MODEL if the opset or IR version is newer than this library knows, or if an
 * operator cannot be raised to the requested opset; DEMI_ERR_USAGE if the model's opset is newer
 * than the requested one, if options exclude each other, or if a pattern or name matches nothing in
 * the model. */
DEMI_API DemiStatus demi_convert(DemiModel *model, const DemiConvertOptions *options,
                                 DemiReport **report, DemiError *error);

/* Writes the pipeline of these options to buffer, NUL-terminated and truncated to `size` bytes;
 * buffer may be NULL if size is 0. Returns the length of the whole text, as snprintf does. If the
 * options are wrong, returns 0 and fills *error. */
DEMI_API size_t demi_convert_pipeline(const DemiConvertOptions *options, char *buffer, size_t size,
                                      DemiError *error);

/* The same for the complete policy of these options, as JSON. As DemiConvertOptions.policy, without
 * any other option, it means the same as these options. */
DEMI_API size_t demi_convert_policy(const DemiConvertOptions *options, char *buffer, size_t size,
                                    DemiError *error);

/* ---- simplifying ----------------------------------------------------------------------------- */

typedef struct DemiSimplifyOptions {
    uint32_t size;
    /* Also make changes that may round differently: fold normalizations, scales, and shifts into
     * the weights of convolutions, merge products with their biases, and fold constants of any
     * operator. Otherwise, all results are bit-identical. */
    bool inexact;
    const char *const *shapes; /* [shape_count] "NAME=1x3x224x224": sizes of inputs to fix */
    size_t shape_count;
    const char *const *dims; /* [dim_count] "NAME=N": dynamic sizes to fix, by their names */
    size_t dim_count;
    const DemiRunOptions *run; /* NULL: the defaults */
    /* Also remove what exporters record about nodes, values, graphs, and functions: doc strings,
     * and metadata such as the line of Python that made a node. */
    bool strip_doc_strings;
    bool freeze_inputs; /* as in DemiConvertOptions, and so is `fed` */
    const char *const *fed;
    size_t fed_count;
} DemiSimplifyOptions;

#define DEMI_SIMPLIFY_OPTIONS_INIT                                                                 \
    { sizeof(DemiSimplifyOptions), false, NULL, 0, NULL, 0, NULL, false, false, NULL, 0 }

/* Makes the model smaller, by the pipeline that demi_simplify_pipeline prints. Constant nodes
 * become initializers. What depends only on constants and known sizes becomes constant, unless it
 * takes more bytes than it replaces. An If whose branch is known is replaced by that branch. Nodes
 * are removed if they return their input, compute the same as another node, or are not read.
 * Declared shapes that are wrong are corrected. Inputs, outputs, metadata, and functions stay.
 * `options` may be NULL. *report, and the state of the model after an error, are as for
 * demi_run_pipeline.
 * Errors: DEMI_ERR_USAGE if a size is malformed, contradicts the model, or names nothing in it. */
DEMI_API DemiStatus demi_simplify(DemiModel *model, const DemiSimplifyOptions *options,
                                  DemiReport **report, DemiError *error);

/* Writes the pipeline of these options to buffer, as demi_convert_pipeline does. */
DEMI_API size_t demi_simplify_pipeline(const DemiSimplifyOptions *options, char *buffer,
                                       size_t size, DemiError *error);

/* ---- reports --------------------------------------------------------------------------------- */

/* Describes a model as it is, in a report whose "before" and "after" are the same. *report, which
 * demi_report_free frees, is NULL on error. */
DEMI_API DemiStatus demi_describe(DemiModel *model, DemiReport **report, DemiError *error);
DEMI_API void demi_report_free(DemiReport *report);

/* Only the library makes the structures below, so that later versions can add fields at their ends.
 * They belong to the report. Item i is NULL if i is not less than the count. */
typedef struct DemiReportTotals {
    uint64_t nodes_before, nodes_after; /* in all graphs and functions */
    uint64_t bytes_before, bytes_after; /* of weights: initializers and constants everywhere */
    uint64_t casts_added, casts_removed, casts_fused;
    uint64_t casts_remaining; /* inserted casts in the model as it is now; QuantizeLinear and
                                 DequantizeLinear do not count */
    uint64_t overflow, underflow, subnormal; /* elements of constants that the target cannot hold */
    uint64_t rewrites;                       /* made by all passes */
    double seconds;                          /* taken by all passes */
    int64_t ir_before, ir_after;             /* IR version; 0 if the file has none */
    /* What one run of the model as it is now costs. run_bytes_converted: bytes that inserted casts
     * read and write. run_bytes_fp32: bytes of float32 values that other nodes compute, and of
     * float32 constants. run_cost: what placement=mincut minimizes, that is, the bytes converted,
     * 4096 per cast, the bytes of float32 constants, and an eighth of the other float32 bytes. A
     * symbolic or unknown size counts as 64, and a value of unknown rank as 4096 elements. */
    uint64_t run_bytes_converted, run_bytes_fp32, run_cost;
    uint64_t run_bytes_stored; /* the part of run_bytes_fp32 that is constants */
} DemiReportTotals;
DEMI_API const DemiReportTotals *demi_report_totals(const DemiReport *report);

/* A node of the model as it is now. Casts that demi inserted are not listed. */
typedef struct DemiReportNode {
    const char *name; /* or the name of its first output */
    const char *op_type;
    const char *domain; /* "" for ai.onnx */
    const char *graph;  /* path; "" for the main graph */
    const char *dtype;  /* its precision, or the type of its first output; "" if unknown */
    const char *reason; /* why it has that precision; "" if no pass decided */
    /* The kind of reason: low, policy, excluded, illegal, value, precise, unknown, fixed, follows,
     * reads, tied, quantized, cheaper, moved, constant, or "no float"; "" if no
     * pass decided. */
    const char *kind;
} DemiReportNode;
DEMI_API size_t demi_report_node_count(const DemiReport *report);
DEMI_API const DemiReportNode *demi_report_node(const DemiReport *report, size_t i);

/* What became of a constant with elements that the target type cannot hold. */
typedef enum DemiTensorFate {
    DEMI_TENSOR_STORED = 0,  /* stored in the target type: overflow became Inf, underflow 0 */
    DEMI_TENSOR_CLAMPED = 1, /* the same, but overflow became the largest finite value */
    DEMI_TENSOR_KEPT = 2,    /* kept in float32, and so are its readers */
} DemiTensorFate;

typedef struct DemiReportTensor {
    const char *name;
    DemiTensorFate fate;
    uint64_t count, overflow, underflow, subnormal; /* numbers of elements */
    double max_abs, min_abs;                        /* of the finite elements that are not 0 */
} DemiReportTensor;
DEMI_API size_t demi_report_tensor_count(const DemiReport *report);
DEMI_API const DemiReportTensor *demi_report_tensor(const DemiReport *report, size_t i);

typedef enum DemiReportList {
    DEMI_REPORT_OPERATORS = 0, /* name: "Conv", "com.x.Op"; before, after: nodes */
    DEMI_REPORT_WEIGHTS = 1,   /* name: dtype; before, after: bytes */
    DEMI_REPORT_REASONS = 2,   /* name: reason, without what is particular to a node; after: nodes
                                  of floating-point type with this reason */
    DEMI_REPORT_INPUTS = 3,    /* name; text_before, text_after: type such as float[N,3] */
    DEMI_REPORT_OUTPUTS = 4,   /* as INPUTS */
    DEMI_REPORT_OPSETS = 5,    /* name: domain, "ai.onnx" for the default; before, after: version */
    DEMI_REPORT_PASSES = 6,    /* name; seconds; after: rewrites */
    DEMI_REPORT_ADVICE = 7,    /* name: one sentence on what to expect of this model */
    DEMI_REPORT_UNEVEN = 8,    /* name: a 16-bit product with weights whose sizes are not multiples
                                  of 8: tensor cores pad it or do not run it; text_after: their
                                  type */
    DEMI_REPORT_TRAINING = 9,  /* name: what the model's training_info reads, returns, or updates;
                                  text_before: "input", "output", "update"; text_after: its type */
    /* name: one sentence on what demi found and did in addition to what was requested, such as
     * repairs of the model; ADVICE begins with these. */
    DEMI_REPORT_REMARKS = 10,
} DemiReportList;

typedef struct DemiReportRow {
    const char *name;
    const char *text_before, *text_after; /* "" if the list has none */
    uint64_t before, after;
    double seconds;
} DemiReportRow;
/* Rows of a list. OPERATORS, WEIGHTS, and REASONS are sorted by frequency (after, then before),
 * most frequent first. Other lists have the order of the file or the pipeline. */
DEMI_API size_t demi_report_row_count(const DemiReport *report, DemiReportList list);
DEMI_API const DemiReportRow *demi_report_row(const DemiReport *report, DemiReportList list,
                                              size_t i);

#ifdef __cplusplus
}
#endif

#endif
