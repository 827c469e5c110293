// SPDX-License-Identifier: Apache-2.0
/* libdemi's C interface. Reads an ONNX model, converts it to mixed precision, writes it.
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
 * - Handles (DemiModel, DemiReport, DemiPasses) are opaque; each is made by one function and freed
 *   by its pair, once, which accepts NULL. None needs another, so they may be freed in any order: a
 *   report may outlive its model.
 * - Functions that can fail return a DemiStatus and fill a DemiError of the caller's, which may be
 *   NULL. The first error wins: a DemiError that already holds one is left alone. Every such
 *   function may answer DEMI_ERR_ENV, where memory runs out, and DEMI_ERR_USAGE, where a structure
 *   has no size or sets what this library does not know; its other errors are said at it.
 * - Structures of the caller's begin with `uint32_t size`, set by their INIT macro; a program built
 *   against an older header keeps working. NULL options mean the defaults.
 * - Threads: a DemiModel belongs to one thread at a time; different ones may be used in different
 *   threads at once. A finished DemiReport may be read by several threads, and so may a DemiPasses
 *   that nothing is added to; then several may run its passes, too. Functions without a
 *   handle may be called anywhere. There is no global state, but for a fixed table of the temporary
 *   files that are open, safe for threads.
 * - Nothing is printed and no signal handler is installed. Callbacks are called in the calling
 *   thread, but for DemiDataReadFn, before the function returns, and must not call the library with
 *   the same model.
 * - What is between #ifdef DEMI_EXPERIMENTAL and #endif may change in any release; a program that
 *   defines the macro before it includes this header says that it can bear that.
 * - Memory comes from the C library's malloc, but for what contexts compute in (DemiAllocator).
 * - Strings are as found in the file, normally UTF-8. Pointers that the library returns are owned
 *   by the handle they were asked of and live as long as it.
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

/* Of this header. Before 1.0 a new minor version may change the interface; from 1.0 on only a new
 * major one, which also changes the shared library's soname. */
#define DEMI_VERSION_MAJOR  0
#define DEMI_VERSION_MINOR  1
#define DEMI_VERSION_PATCH  0
#define DEMI_VERSION_STRING "0.1.0"

/* Of the library that runs: "MAJOR.MINOR.PATCH", and major * 10000 + minor * 100 + patch. */
DEMI_API const char *demi_version(void);
DEMI_API uint32_t demi_version_number(void);

/* The newest default-domain opset and the newest IR version that demi_convert accepts. */
DEMI_API int64_t demi_newest_opset(void);
DEMI_API int64_t demi_newest_ir(void);

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct DemiModel DemiModel;

/* External data that the caller has: how many bytes there are of that location, as the model calls it;
 * below 0: none, which is an error. And `size` bytes of it, beginning at `offset`; false: it failed.
 * The second may be called in any thread, in several at once, as long as the model lives. */
typedef int64_t (*DemiDataSizeFn)(void *user, const char *location);
typedef bool (*DemiDataReadFn)(void *user, const char *location, uint64_t offset, void *buffer,
                               uint64_t size);

typedef struct DemiLoadOptions {
    uint32_t size;
    bool allow_hardlinks;  /* accept external data files with more than one hard link */
    const char *data_root; /* folder that external data must lie in; NULL: the model file's own.
                              A model that comes from no path has none unless it is given here */
    const char *name;      /* what to call the input in messages; NULL: its path, or "model" */
    DemiDataSizeFn
        data_size; /* both: external data comes from these, from no file, so that a model of
                                 more than 2 GB need not be one. NULL: from files */
    DemiDataReadFn data_read;
    void *data_user;
} DemiLoadOptions;

#define DEMI_LOAD_OPTIONS_INIT                                                                     \
    { sizeof(DemiLoadOptions), false, NULL, NULL, NULL, NULL, NULL }

/* Reads `size` bytes at most into buffer; returns the number read, 0 at the end, -1 on error. */
typedef int64_t (*DemiReadFn)(void *user, void *buffer, size_t size);

/* Each makes a model in *model, to be freed with demi_free; on error *model is NULL. ONNX protobuf
 * files and text (".onnxtxt") are told apart by their contents. Weights of files are read when they
 * are needed, so the files must not change until demi_free.
 * Errors: DEMI_ERR_USAGE where there is no such file, DEMI_ERR_MODEL where it is not a valid model,
 * DEMI_ERR_ENV where it can't be read. */
DEMI_API DemiStatus demi_load_file(const char *path, const DemiLoadOptions *options,
                                   DemiModel **model, DemiError *error);
/* The descriptor is read to its end and not closed. */
DEMI_API DemiStatus demi_load_fd(int fd, const DemiLoadOptions *options, DemiModel **model,
                                 DemiError *error);
/* Reads until `read` returns 0. */
DEMI_API DemiStatus demi_load_callback(DemiReadFn read, void *user, const DemiLoadOptions *options,
                                       DemiModel **model, DemiError *error);
/* The bytes are borrowed: they must stay, unchanged, until demi_free. */
DEMI_API DemiStatus demi_load_memory(const void *bytes, size_t size, const DemiLoadOptions *options,
                                     DemiModel **model, DemiError *error);

DEMI_API void demi_free(DemiModel *model);

/* ---- writing --------------------------------------------------------------------------------- */

typedef enum DemiFormat {
    DEMI_FORMAT_BY_NAME = 0, /* text where the path ends in ".onnxtxt", protobuf otherwise */
    DEMI_FORMAT_ONNX = 1,
    DEMI_FORMAT_TEXT = 2,
} DemiFormat;

/* Takes `size` bytes; returns false on error, which ends the writing. Called in the thread that
 * called the library, which it must return to: no longjmp, no exception. */
typedef bool (*DemiWriteFn)(void *user, const void *bytes, size_t size);

typedef struct DemiSaveOptions {
    uint32_t size;
    DemiFormat format;
    const char
        *data_name;   /* of demi_save_callback: what the model calls its external data. Weights of
                              1 KiB and more then go to `data`, before the model is written; NULL: all
                              are inside */
    DemiWriteFn data; /* takes the external data from front to back, as one file */
    void *data_user;
} DemiSaveOptions;

#define DEMI_SAVE_OPTIONS_INIT                                                                     \
    { sizeof(DemiSaveOptions), DEMI_FORMAT_BY_NAME, NULL, NULL, NULL }

/* Writes to a temporary file beside `path`, reads it back, compares it with the model, then renames
 * it; on any error what was at `path` is untouched. Weights go to one file beside it where the
 * input kept them outside, or where the model would pass 2^31 - 1 bytes. An unedited model is
 * written as the bytes it was read from. The model stays as it is, here and in the two below.
 * Errors: DEMI_ERR_USAGE where the folder is not there or `path` is one, DEMI_ERR_ENV where it
 * can't be written or does not read back, DEMI_ERR_MODEL where ONNX's form can't hold the model. */
DEMI_API DemiStatus demi_save_file(DemiModel *model, const char *path,
                                   const DemiSaveOptions *options, DemiError *error);
/* Writes to a callback, all weights inside or (DemiSaveOptions.data_name) to another one. Errors:
 * DEMI_ERR_ENV above 2^31 - 1 bytes and where a callback returns false, DEMI_ERR_USAGE where of
 * data_name and data there is one alone, DEMI_ERR_MODEL as above. */
DEMI_API DemiStatus demi_save_callback(DemiModel *model, DemiWriteFn write, void *user,
                                       const DemiSaveOptions *options, DemiError *error);

/* Prints the model as text. full: everything, can be read back; otherwise tensors of more than 16
 * elements are left out, and the text says so. DEMI_ERR_ENV where `write` returns false. */
DEMI_API DemiStatus demi_print(DemiModel *model, bool full, DemiWriteFn write, void *user,
                               DemiError *error);

/* ---- passes ---------------------------------------------------------------------------------- */

/* The passes a pipeline can name: the library's own and those of plug-ins, which demi_plugin.h is
 * for. Functions take NULL for the library's own alone. */
typedef struct DemiPasses DemiPasses;

/* Makes a set of the library's passes in *passes, to be freed with demi_passes_free; on error it is
 * NULL. Freeing closes the shared objects: no pipeline that uses them may be running. Models and
 * reports hold nothing of it. */
DEMI_API DemiStatus demi_passes_new(DemiPasses **passes, DemiError *error);
DEMI_API void demi_passes_free(DemiPasses *passes);

/* Adds the passes of a shared object, whose code runs with the program's rights. On an error the
 * set is as it was: DEMI_ERR_USAGE where the file is not a plug-in, was made for another version,
 * or has a pass of a name that is taken. */
DEMI_API DemiStatus demi_passes_load(DemiPasses *passes, const char *path, DemiError *error);

#ifdef DEMI_EXPERIMENTAL
struct DemiApi;
struct DemiPlugin;
/* The same of a plug-in that the program holds itself. What its description points at must stay
 * until this returns, its run functions as long as the set. */
DEMI_API DemiStatus demi_passes_add(DemiPasses *passes,
                                    const struct DemiPlugin *(*entry)(const struct DemiApi *api),
                                    DemiError *error);
#endif

/* Pass i < demi_pass_count() in a fixed order, loaded ones last; NULL beyond. The strings live as
 * long as the set. */
DEMI_API size_t demi_pass_count(const DemiPasses *passes);
DEMI_API const char *demi_pass_name(const DemiPasses *passes, size_t i);
DEMI_API const char *demi_pass_summary(const DemiPasses *passes, size_t i);

/* Options of pass i: option j's name, what it takes ("true|false", "N", "TEXT", "[TEXT,...]",
 * "float16|bfloat16"), its default (NULL: none) and help. False where there is no such option.
 * `size` must be set. */
typedef struct DemiPassOption {
    uint32_t size;
    const char *name, *otherwise, *help; /* as long as the set */
    char takes[128];
} DemiPassOption;

#define DEMI_PASS_OPTION_INIT                                                                      \
    { sizeof(DemiPassOption), NULL, NULL, NULL, "" }

DEMI_API bool demi_pass_option(const DemiPasses *passes, size_t i, size_t j,
                               DemiPassOption *option);

/* ---- checking and rewriting ------------------------------------------------------------------ */

typedef struct DemiReport DemiReport;

/* Checks names and form, every known operator against its definition, and all types and shapes, as
 * they follow from inputs and constants, against operators, subgraphs and declarations: what ONNX's
 * full check and strict inference refuse is refused. DEMI_ERR_MODEL names the first fault. The model
 * stays as it is. */
DEMI_API DemiStatus demi_check(DemiModel *model, DemiError *error);

/* After step `done` of `total` of a pipeline. Return false to cancel: the call then returns
 * DEMI_ERR_CANCELLED, and the model is good only for demi_free: what else is called with it, answers
 * DEMI_ERR_USAGE. */
typedef bool (*DemiProgressFn)(void *user, const char *pass, size_t done, size_t total);

typedef struct DemiRunOptions {
    uint32_t size;
    bool verify_each; /* check the model after every pass */
    DemiWriteFn text; /* where the `print` pass writes; NULL: dropped */
    void *text_user;
    DemiProgressFn progress; /* may be NULL */
    void *progress_user;
    const char *print_after; /* print the model to `text` after each pass of this name ("all": after
                                every one), after a line "# after PASS"; NULL: none */
    const DemiPasses *passes; /* that a pipeline can name; NULL: the library's own */
    DemiWriteFn artifact;     /* where lower-plan writes the plan; NULL: dropped */
    void *artifact_user;
    bool
        unchecked; /* names and structure alone are checked, before and behind the passes: they take models
                       that demi_check refuses, and may give such */
    bool runs_here; /* the model runs on this machine: the report tells what its processor lacks */
} DemiRunOptions;

#define DEMI_RUN_OPTIONS_INIT                                                                      \
    { sizeof(DemiRunOptions), false, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, false }

/* Runs a pipeline such as "infer-dtypes,insert-casts{to=float16},fuse-casts". *report (may be NULL)
 * is freed with demi_report_free; it is NULL on error. A model that demi_check refuses is refused, before the
 * passes and behind them, but for what other tools often leave and nothing depends on: unsorted nodes, types
 * and shapes that are declared as operators do not give them, graphs without a name. That is repaired, and
 * the report says so. Inputs and outputs without a
 * declared shape, and deprecated operators, are taken as they are. A model newer than this library knows is checked as `unchecked` has it. After an error while a pass runs the model
 * is good only for demi_free: it may be half rewritten, and every other call with it is refused with
 * DEMI_ERR_USAGE. A pipeline that can't be parsed (DEMI_ERR_USAGE) leaves it as it
 * was. Other errors are the passes': DEMI_ERR_MODEL where one can't work with the model,
 * DEMI_ERR_USAGE where the model does not have what its options name, DEMI_ERR_ENV where a callback
 * fails. */
DEMI_API DemiStatus demi_run_pipeline(DemiModel *model, const char *pipeline,
                                      const DemiRunOptions *options, DemiReport **report,
                                      DemiError *error);

/* What a plan's results may differ in from the model's. */
typedef enum DemiNumerics {
    DEMI_NUMERICS_FAST = 0, /* operators are fused where it saves time: 16-bit values between them
                               are not rounded, and sums may be made in another order */
    DEMI_NUMERICS_FAITHFUL = 1, /* every operator's 16-bit result is rounded once, as if nothing was
                                   fused: what a mixed model is judged by */
} DemiNumerics;

/* What instruction set a plan's weights are laid out for. It runs on any machine: another one makes
 * a layout of its own when it first needs it. */
typedef enum DemiIsa {
    DEMI_ISA_NATIVE = 0, /* this machine's */
    DEMI_ISA_NONE = 1,   /* weights stay as the model has them */
    DEMI_ISA_PORTABLE = 2,
    DEMI_ISA_AVX2 = 3,
    DEMI_ISA_AVX512 = 4,
} DemiIsa;

typedef struct DemiCompileOptions {
    uint32_t size;
    DemiNumerics numerics;
    bool keep_values; /* nothing is fused or computed in advance, so that every value of the model
                         can be watched; such a plan is faithful */
    uint64_t memory_budget; /* most bytes that may be taken for what is computed in advance and for
                               what functions' calls make of the model beyond its own size; 0: in
                               proportion to that. Beyond it less is computed in advance, and
                               calls that make more are refused */
    bool small; /* 16-bit values stay so between steps, which takes less memory and more time where
                   the processor does not compute in 16 bit; of fast plans, as faithful ones do so
                   anyway */
    DemiIsa isa;
    bool for_device; /* a fast plan for a GPU: 16-bit values stay so, channels are last, and weights
                        are as the model has them, whatever `small` and `isa` say. Processors run it,
                        too */
} DemiCompileOptions;

#define DEMI_COMPILE_OPTIONS_INIT                                                                  \
    { sizeof(DemiCompileOptions), DEMI_NUMERICS_FAST, false, 0, false, DEMI_ISA_NATIVE, false }

/* Compiles the model to a plan, as demi_runtime.h runs them, handed to `write` piece by piece.
 * `options` may be NULL. The model is good only for demi_free afterwards, and refused by every other call. Errors: DEMI_ERR_MODEL
 * where the model is not valid or has what plans do not, DEMI_ERR_ENV where `write` returns false.
 * That the runtime has a kernel for each operator is found when the plan is loaded. */
DEMI_API DemiStatus demi_compile(DemiModel *model, const DemiCompileOptions *options,
                                 DemiWriteFn write, void *user, DemiError *error);

/* Choices: 0 is what the policy says, else the one marked default. Constants of settings are written
 * by tools/gen/gen_settings.py. */
typedef enum DemiTarget {
    DEMI_TO_DEFAULT = 0,
    DEMI_TO_FLOAT16 = 1,      /* default: IEEE 754's binary16 */
    DEMI_TO_BFLOAT16 = 2,     /* float32's upper half */
    DEMI_TO_INT8 = 3,         /* values and weights that products read are quantized, to 8 bits or
                                 as activations says; their ranges must be known */
    DEMI_TO_INT8_WEIGHTS = 4, /* weights alone, which are read as float */
    DEMI_TO_INT4_WEIGHTS = 5, /* weights of matrix products in 4 bits, by blocks, which are read as
                                 float */
    DEMI_TO_FP8_WEIGHTS = 6,  /* weights as float8e4m3fn, which are read as float */
} DemiTarget;

typedef enum DemiIo {
    DEMI_IO_DEFAULT = 0,
    DEMI_IO_KEEP = 1, /* default: inputs and outputs keep their types */
    DEMI_IO_LOW = 2,  /* float inputs and outputs take the target type */
} DemiIo;

/* What a conversion does to the default domain's opset; any other number raises it to that one. */
enum {
    DEMI_OPSET_DEFAULT = 0,
    DEMI_OPSET_AUTO =
        -1, /* default for all but float16: raise it as far as the operators worth the target
                             type need to take it; a model that can't be raised so far keeps it */
    DEMI_OPSET_KEEP = -2, /* default for float16 */
};

/* What values are quantized to, with DEMI_TO_INT8. */
typedef enum DemiActivations {
    DEMI_ACTIVATIONS_DEFAULT = 0,
    DEMI_ACTIVATIONS_UINT8 = 1,  /* default: 8 bits, of which Relu's results use all */
    DEMI_ACTIVATIONS_INT8 = 2,   /* 8 bits with a sign */
    DEMI_ACTIVATIONS_UINT16 = 3, /* 16 bits, from opset 21 on */
    DEMI_ACTIVATIONS_INT16 = 4,  /* 16 bits with a sign, from opset 21 on */
} DemiActivations;

/* How it is decided which nodes run in the target type. */
typedef enum DemiPlacement {
    DEMI_PLACEMENT_DEFAULT = 0,
    DEMI_PLACEMENT_MINCUT = 1, /* default: of all decisions the rules allow, the one that converts
                                  least when the model runs */
    DEMI_PLACEMENT_GREEDY = 2, /* whatever may follow a neighbor in the target type does */
} DemiPlacement;

/* Constants that are read in the target type. */
typedef enum DemiParameters {
    DEMI_PARAMETERS_DEFAULT = 0,
    DEMI_PARAMETERS_OFFLINE = 1, /* default: stored in it, unless they are read as float as well */
    DEMI_PARAMETERS_RUNTIME = 2, /* stay float, and are cast when the model runs */
    DEMI_PARAMETERS_BOTH = 3,    /* stored in it, and as float as well where that is read */
} DemiParameters;

/* Constants with values that the target type can't hold. */
typedef enum DemiOverflow {
    DEMI_OVERFLOW_DEFAULT = 0,
    DEMI_OVERFLOW_PIN = 1,   /* default: what reads them stays fp32 */
    DEMI_OVERFLOW_CLAMP = 2, /* the largest finite value is stored instead */
    DEMI_OVERFLOW_INF = 3,   /* they become infinite */
    DEMI_OVERFLOW_ERROR = 4, /* an error (DEMI_ERR_MODEL) names the first */
} DemiOverflow;

typedef struct DemiConvertOptions {
    uint32_t size;
    DemiTarget to;
    DemiIo io;
    bool allow_unmatched; /* a pattern that matches nothing is not an error */
    /* [keep_count] patterns of nodes that stay fp32: each a node's name, which is its first
     * output's where it has none; a glob of * and ?; "name:NAME", exactly that; "re:REGEX", of the
     * whole name; "out:NAME", what makes a value; or "from:A,to:B", all between two values. */
    const char *const *keep;
    size_t keep_count;
    const char *const *keep_ops; /* [keep_op_count] operators that stay fp32 */
    size_t keep_op_count;
    const char *const *input_dtypes; /* [input_dtype_count] "NAME=DTYPE", where a file lacks them */
    size_t input_dtype_count;
    const DemiRunOptions *run; /* NULL: defaults */
    /* "float16", "bfloat16" or "fast", or a policy as JSON, which the options beside it add to or
     * override. NULL: that of the target type. */
    const char *policy;
    DemiParameters parameters;
    DemiOverflow overflow;
    const char *const *only; /* [only_count] patterns: nothing else is converted */
    size_t only_count;
    /* Operators by class: NAMEs replace the policy's list, +NAME moves one to it, -NAME takes one
     * out of it. A name may be DOMAIN.OPERATOR. */
    const char *const *low_ops; /* run in the target type */
    size_t low_op_count;
    const char *const *fp32_ops; /* stay fp32 */
    size_t fp32_op_count;
    const char *const *follow_ops; /* take the target type where an input has it */
    size_t follow_op_count;
    const char *const *widest_ops; /* take it where all inputs have it */
    size_t widest_op_count;
    const char *const *fp32_when; /* [fp32_when_count] "OPERATOR.ATTRIBUTE=VALUE": stay fp32 */
    size_t fp32_when_count;
    const char *const *low_inputs; /* [low_input_count] graph inputs that take the target type */
    size_t low_input_count;
    const char *const *low_outputs; /* [low_output_count] graph outputs likewise */
    size_t low_output_count;
    /* [declared_op_count] types of custom operators: "com.x.Op(T, T?) -> T; T = float|float16" */
    const char *const *declared_ops;
    size_t declared_op_count;
    int64_t opset; /* a DEMI_OPSET constant, or 1 to demi_newest_opset() */
    DemiPlacement placement;
    /* [range_count] "NAME=MAX": the largest magnitude a value was measured to reach when the float
     * model ran on real data, or "NAME=MIN:MAX", or "NAME=MIN:MAX:MEAN", with which biases make up for
     * what weights, as they are rounded, add to a quantized product. Where range_margin times it is past a 16-bit
     * target's range, the value stays float, and so does what computes and reads it. Quantized
     * values have their scales of it; DEMI_TO_INT8 needs some (demi_trials_calibrate). */
    const char *const *ranges;
    size_t range_count;
    int64_t range_margin; /* 0: what the policy says, else 2 */
    /* Pipelines to run before and after the conversion's own; NULL: none. */
    const char *before, *after;
    DemiActivations activations; /* of DEMI_TO_INT8 */
    bool symmetric;              /* quantized values have the zero point 0, or the middle */
    int64_t block; /* quantized weights of matrices have a scale for as many of what is summed; 0:
                      for each channel, and for 32 where weights have 4 bits */
    /* [value_count], [weight_count] "NAME=TYPE": just these values and constants are quantized, to
     * int8, uint8, int16 or uint16, constants to int8, int16, int4, uint4 or fp8. Values need
     * ranges. With a 16-bit target that is done before, and what is left may run in 16 bit. */
    const char *const *values;
    size_t value_count;
    const char *const *weights;
    size_t weight_count;
    bool
        fold; /* normalizations, scales and shifts behind convolutions are computed into their weights
                  before; names are those that are left then */
    bool simplify; /* what demi_simplify does by default comes before; names as with `fold` */
    bool
        freeze_inputs; /* inputs with defaults become constants from IR version 4 on, too: before that
                           they are, for no runtime takes others */
    const char *const *fed; /* [fed_count] inputs that callers do feed: they stay */
    size_t fed_count;
} DemiConvertOptions;

#define DEMI_CONVERT_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(DemiConvertOptions), DEMI_TO_DEFAULT, DEMI_IO_DEFAULT, false, NULL, 0, NULL, 0,     \
            NULL, 0, NULL, NULL, DEMI_PARAMETERS_DEFAULT, DEMI_OVERFLOW_DEFAULT, NULL, 0, NULL, 0, \
            NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, NULL, 0, DEMI_OPSET_DEFAULT,     \
            DEMI_PLACEMENT_DEFAULT, NULL, 0, 0, NULL, NULL, DEMI_ACTIVATIONS_DEFAULT, false, 0,    \
            NULL, 0, NULL, 0, false, false, false, NULL, 0                                         \
    }

/* Converts the model to mixed precision, or quantizes it: runs the pipeline that demi_convert_pipeline prints.
 * DEMI_ERR_MODEL where the opset or IR version is newer than this library knows, or an operator
 * can't be raised to the opset asked for; DEMI_ERR_USAGE where the model is past it, where options
 * exclude each other, and where a pattern or name is nothing in the model. *report, and what the
 * model is good for after an error, as for demi_run_pipeline. */
DEMI_API DemiStatus demi_convert(DemiModel *model, const DemiConvertOptions *options,
                                 DemiReport **report, DemiError *error);

/* Writes the pipeline of these options to buffer, NUL-terminated and cut to `size` bytes (buffer
 * may be NULL where size is 0). Returns the length of the whole text, as snprintf does; 0 with
 * *error filled where the options are wrong. */
DEMI_API size_t demi_convert_pipeline(const DemiConvertOptions *options, char *buffer, size_t size,
                                      DemiError *error);

/* The same for the whole policy that these options stand for, as JSON: it may be given as
 * DemiConvertOptions.policy, alone, and means the same. */
DEMI_API size_t demi_convert_policy(const DemiConvertOptions *options, char *buffer, size_t size,
                                    DemiError *error);

/* ---- simplifying ----------------------------------------------------------------------------- */

typedef struct DemiSimplifyOptions {
    uint32_t size;
    bool inexact; /* also what may round otherwise than the model did: normalizations, scales and
                     shifts are computed into convolutions' weights, products and their biases
                     joined, and constants computed of which operator soever. Else all results are
                     the same bits */
    const char *const *shapes; /* [shape_count] "NAME=1x3x224x224": sizes of inputs, from now on */
    size_t shape_count;
    const char *const
        *dims; /* [dim_count] "NAME=N": sizes by the names that the model has for them */
    size_t dim_count;
    const DemiRunOptions *run; /* NULL: defaults */
    bool
        strip_doc_strings; /* what exporters note of nodes, values, graphs and functions goes, too: doc strings,
                         and metadata such as the line of Python that a node was made by */
    bool freeze_inputs; /* as DemiConvertOptions has them */
    const char *const *fed;
    size_t fed_count;
} DemiSimplifyOptions;

#define DEMI_SIMPLIFY_OPTIONS_INIT                                                                 \
    { sizeof(DemiSimplifyOptions), false, NULL, 0, NULL, 0, NULL, false, false, NULL, 0 }

/* Makes the model smaller: runs the pipeline that demi_simplify_pipeline prints. Constant nodes become
 * initializers; what is computed of constants and known sizes becomes constant, unless it takes more
 * bytes than it replaces; branches that are always taken come in place of their If; nodes that give
 * what they read, that compute the same as another one, or that nobody reads go. Shapes that are
 * declared wrong are corrected. Inputs, outputs, metadata and functions stay. `options` may be NULL.
 * DEMI_ERR_USAGE where a size is malformed, contradicts the model, or names nothing in it. *report,
 * and what the model is good for after an error, as for demi_run_pipeline. */
DEMI_API DemiStatus demi_simplify(DemiModel *model, const DemiSimplifyOptions *options,
                                  DemiReport **report, DemiError *error);

/* Writes the pipeline of these options to buffer, as demi_convert_pipeline does. */
DEMI_API size_t demi_simplify_pipeline(const DemiSimplifyOptions *options, char *buffer,
                                       size_t size, DemiError *error);

/* ---- reports --------------------------------------------------------------------------------- */

/* Facts of a model as it is: a report whose "before" and "after" are the same. *report is freed
 * with demi_report_free; it is NULL on error. */
DEMI_API DemiStatus demi_describe(DemiModel *model, DemiReport **report, DemiError *error);
DEMI_API void demi_report_free(DemiReport *report);

/* Structures below are made by the library alone, so that later versions can add fields at their
 * ends. They belong to the report; item i is NULL from the count on. */
typedef struct DemiReportTotals {
    uint64_t nodes_before, nodes_after; /* in all graphs and functions */
    uint64_t bytes_before, bytes_after; /* of weights: initializers and constants everywhere */
    uint64_t casts_added, casts_removed, casts_fused;
    uint64_t casts_remaining; /* inserted casts in the model as it is now; QuantizeLinear and
                                 DequantizeLinear are none */
    uint64_t overflow, underflow, subnormal; /* values of constants the target can't hold */
    uint64_t rewrites;                       /* made by all passes */
    double seconds;                          /* of all passes */
    int64_t ir_before, ir_after;             /* IR version; 0 where the file has none */
    /* What a run of the model as it is now costs: bytes that inserted casts read and write; bytes
     * of the float32 values that other nodes give and constants hold; and what placement=mincut
     * makes least: the bytes converted, 4096 for each cast, those of constants, and an eighth of the
     * other float32 bytes. A symbolic or unknown dimension counts as 64, an unknown rank as 4096
     * elements in all. */
    uint64_t run_bytes_converted, run_bytes_fp32, run_cost;
    uint64_t run_bytes_stored; /* of run_bytes_fp32, those that constants hold */
} DemiReportTotals;
DEMI_API const DemiReportTotals *demi_report_totals(const DemiReport *report);

/* One node of the model as it is now; casts that demi inserted are not listed. */
typedef struct DemiReportNode {
    const char *name; /* or its first output's */
    const char *op_type;
    const char *domain; /* "" for ai.onnx */
    const char *graph;  /* path; "" for the main graph */
    const char *dtype;  /* precision it was given, or its first output's type; "" if unknown */
    const char *reason; /* why it has that precision; "" where no pass decided */
    const char *kind;   /* which sort of reason: low, policy, excluded, illegal, value, unknown,
                            fixed, follows, reads, tied, cheaper, moved, constant, "no float"; ""
                            where no pass decided */
} DemiReportNode;
DEMI_API size_t demi_report_node_count(const DemiReport *report);
DEMI_API const DemiReportNode *demi_report_node(const DemiReport *report, size_t i);

/* A constant of which not all values survive the target type. */
typedef enum DemiTensorFate {
    DEMI_TENSOR_STORED = 0,  /* stored in the target type: overflow is infinite, underflow 0 */
    DEMI_TENSOR_CLAMPED = 1, /* stored so, overflow as the largest finite value */
    DEMI_TENSOR_KEPT = 2,    /* stays fp32, and so does what reads it */
} DemiTensorFate;

typedef struct DemiReportTensor {
    const char *name;
    DemiTensorFate fate;
    uint64_t count, overflow, underflow, subnormal; /* values */
    double max_abs, min_abs;                        /* of the finite values that are not 0 */
} DemiReportTensor;
DEMI_API size_t demi_report_tensor_count(const DemiReport *report);
DEMI_API const DemiReportTensor *demi_report_tensor(const DemiReport *report, size_t i);

typedef enum DemiReportList {
    DEMI_REPORT_OPERATORS = 0, /* name: "Conv", "com.x.Op"; before, after: nodes */
    DEMI_REPORT_WEIGHTS = 1,   /* name: dtype; before, after: bytes */
    DEMI_REPORT_REASONS = 2,   /* name: reason, less what is particular to a node; after: nodes
                                  of float type with it */
    DEMI_REPORT_INPUTS = 3,    /* name; text_before, text_after: type such as float[N,3] */
    DEMI_REPORT_OUTPUTS = 4,   /* as INPUTS */
    DEMI_REPORT_OPSETS = 5,    /* name: domain, "ai.onnx" for the default; before, after: version */
    DEMI_REPORT_PASSES = 6,    /* name; seconds; after: rewrites */
    DEMI_REPORT_ADVICE = 7,    /* name: one sentence on what to expect of this model */
    DEMI_REPORT_UNEVEN = 8,    /* name: a 16-bit product of weights with sizes that are no multiples
                                  of 8, which tensor cores pad or leave; text_after: their type */
    DEMI_REPORT_TRAINING = 9,  /* name: what the model's trainings read, give and update;
                                  text_before: "input", "output", "update"; text_after: its type */
    DEMI_REPORT_REMARKS =
        10, /* name: one sentence on what was found and done beside what was asked for,
                                  as repairs of the model; ADVICE begins with these */
} DemiReportList;

typedef struct DemiReportRow {
    const char *name;
    const char *text_before, *text_after; /* "" where the list has none */
    uint64_t before, after;
    double seconds;
} DemiReportRow;
/* Rows of a list, most frequent (after, then before) first for OPERATORS, WEIGHTS and REASONS, in
 * the file's or the pipeline's order otherwise. */
DEMI_API size_t demi_report_row_count(const DemiReport *report, DemiReportList list);
DEMI_API const DemiReportRow *demi_report_row(const DemiReport *report, DemiReportList list,
                                              size_t i);

#ifdef __cplusplus
}
#endif

#endif
