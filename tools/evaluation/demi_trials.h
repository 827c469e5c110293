// SPDX-License-Identifier: Apache-2.0
/* Comparing models: what differs between two files, whether they are the same model except for
 * precision, and how far apart their results are on sets of inputs. This also finds what a
 * conversion needs to know: which values come close to the limits of a type's range, and which
 * nodes must be kept in float32 for results to be accurate enough.
 *
 *     DemiError error = DEMI_ERROR_INIT;
 *     DemiSource model = DEMI_SOURCE_INIT;
 *     DemiConvertOptions convert = DEMI_CONVERT_OPTIONS_INIT;
 *     DemiTrials *trials = NULL;
 *     DemiVerdict *verdict = NULL;
 *     model.path = "model.onnx";
 *     if (demi_trials_new(&model, NULL, &trials, &error) == DEMI_OK &&
 *         demi_trials_run(trials, &convert, &verdict, &error) == DEMI_OK)
 *         printf("off by %g\n", demi_verdict_totals(verdict)->error);
 *     demi_verdict_free(verdict);
 *     demi_trials_free(trials);
 *
 * The conventions are those of demi.h: opaque handles with a free function that accepts NULL, a
 * DemiStatus and the caller's DemiError, structures that begin with their size, and callbacks in
 * the calling thread. Nothing is printed, and no signal is caught: callers end a call from a
 * callback. A DemiTrials belongs to one thread at a time. Several threads may read results. */
#ifndef DEMI_TRIALS_H
#define DEMI_TRIALS_H

#include "demi.h"
#include "demi_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- where models come from ------------------------------------------------------------------ */

/* Makes a model in *model, which the library frees; on error, *model is NULL. It is called each
 * time a model is needed, since conversions and compilations consume models, and must make the same
 * model each time. */
typedef DemiStatus (*DemiOpenFn)(void *user, DemiModel **model, DemiError *error);

typedef struct DemiSource {
    uint32_t size;
    const char *path;            /* of an ONNX file or text; with `open`, what messages call it */
    const DemiLoadOptions *load; /* how to read it; NULL: the defaults */
    DemiOpenFn open;             /* makes the model, in place of the path; may be NULL */
    void *open_user;
} DemiSource;

#define DEMI_SOURCE_INIT                                                                           \
    { sizeof(DemiSource), NULL, NULL, NULL, NULL }

/* Compiles the source's model to a plan, or maps the plan at its path. Large files of the model are
 * also mapped, and weights stay there if kernels can read them as they are. For these files, the
 * same holds as for the file of demi_plan_load, if they change. demi_plan_free frees the plan; on
 * error, *plan is NULL. `options` may be NULL; they have no effect if the path is that of a plan.
 * Errors: those of the source, of demi_compile, and of demi_plan_load. */
DEMI_API DemiStatus demi_plan_open(const DemiSource *source, const DemiCompileOptions *options,
                                   DemiPlan **plan, DemiError *error);

/* The same, but makes a context of the plan, which is freed with the context; demi_context_plan
 * describes its inputs. Both kinds of options may be NULL.
 * Errors: also those of demi_context_new. */
DEMI_API DemiStatus demi_context_open(const DemiSource *source, const DemiCompileOptions *compile,
                                      const DemiContextOptions *options, DemiContext **context,
                                      DemiError *error);

/* ---- what differs ---------------------------------------------------------------------------- */

typedef enum DemiDiffChange {
    DEMI_DIFF_REMOVED = 0, /* only the first model has it */
    DEMI_DIFF_ADDED = 1,   /* only the second model has it */
    DEMI_DIFF_CHANGED = 2,
} DemiDiffChange;

typedef enum DemiDiffKind {
    DEMI_DIFF_MODEL = 0,  /* versions and imports; with `strict`, anything else */
    DEMI_DIFF_INPUT = 1,  /* of a graph */
    DEMI_DIFF_OUTPUT = 2, /* of a graph */
    DEMI_DIFF_WEIGHT = 3, /* initializer */
    DEMI_DIFF_NODE = 4,
    DEMI_DIFF_TYPE = 5, /* of a value that a node computes */
    DEMI_DIFF_FUNCTION = 6,
} DemiDiffKind;

/* Returns "node", "weight", …; "" if it is not a kind. */
DEMI_API const char *demi_diff_kind_name(DemiDiffKind kind);

/* Made by the library. All pointers are valid until the callback returns. */
typedef struct DemiDifference {
    uint32_t size;
    DemiDiffKind kind;
    DemiDiffChange change;
    const char *graph; /* path; "" for the main graph */
    const char *name;
    const char *op_type; /* of a node; otherwise "" */
    const char *what;    /* CHANGED: which part of it; otherwise "" */
    const char *a, *b;   /* the old and the new value; "" if absent, or too large to print */
} DemiDifference;

/* Return false to cancel: the call then returns DEMI_ERR_CANCELLED. */
typedef bool (*DemiDiffFn)(void *user, const DemiDifference *difference);

typedef struct DemiDiffOptions {
    uint32_t size;
    /* If nothing else differs, report the first difference in anything in the files, including
     * order, doc strings, metadata, and unknown fields. */
    bool strict;
} DemiDiffOptions;

#define DEMI_DIFF_OPTIONS_INIT                                                                     \
    { sizeof(DemiDiffOptions), false }

/* Calls `visit` for each difference between two models, in the order of a, then for what only b
 * has. Parts are matched by name, nodes without a name by that of their first output. Weights are
 * compared by value, and read piece by piece. Order, doc strings, metadata, and the place where
 * weights are stored do not count. The models do not change.
 * Errors: DEMI_ERR_MODEL or DEMI_ERR_ENV if weights cannot be read. */
DEMI_API DemiStatus demi_diff(DemiModel *a, DemiModel *b, const DemiDiffOptions *options,
                              DemiDiffFn visit, void *user, DemiError *error);

/* ---- the same model except for precision ----------------------------------------------------- */

typedef struct DemiAgainstOptions {
    uint32_t size;
    /* The model must also be what this conversion makes of the reference; NULL: any conversion. */
    const DemiConvertOptions *made_by;
} DemiAgainstOptions;

#define DEMI_AGAINST_OPTIONS_INIT                                                                  \
    { sizeof(DemiAgainstOptions), NULL }

/* Receives a difference from the reference as one line, which is valid until the callback returns.
 * Return false to cancel: the call then returns DEMI_ERR_CANCELLED. */
typedef bool (*DemiAgainstFn)(void *user, const char *difference);

/* Checks whether `model` is the reference except for precision: calls `visit` for each difference
 * that is not one of precision. Without any, it is the reference. Except for casts, both then have
 * the same nodes, inputs, outputs, shapes, and metadata. Weights are equal, or those of the
 * reference rounded to nearest even. Wherever a type is declared, float32 may be float16 or
 * bfloat16. The opset may be higher, with operators in the form that upgrade-opset makes. The model
 * must have passed demi_check. Afterward, the types of its values are known; apart from that, the
 * model does not change.
 * Errors: those of opening the reference and of the conversion; DEMI_ERR_MODEL or DEMI_ERR_ENV if
 * weights cannot be read. */
DEMI_API DemiStatus demi_against(DemiModel *model, const DemiSource *reference,
                                 const DemiAgainstOptions *options, DemiAgainstFn visit, void *user,
                                 DemiError *error);

/* ---- inputs ---------------------------------------------------------------------------------- */

/* A value of a set of inputs. Sets are numbered from 0. */
typedef struct DemiInputValue {
    size_t set;
    const char *name;
    const DemiData *value; /* what it points to must stay as long as what runs on it */
} DemiInputValue;

/* The sets of inputs that models run on. The value of each input comes from the first of these that
 * has one: `files`; the set's values, or its files in `data`; random values. Random values of a
 * seed are the same on every machine: floats are approximately normally distributed, and integers,
 * masks, and counts suit the operators that read them. Dynamic sizes are those that options or
 * given values fix. Otherwise, batches are 1, sequences 16, and images 64x64, or another size that
 * the model accepts. */
typedef struct DemiInputOptions {
    uint32_t size;
    const DemiInputValue *values; /* [value_count] the program's own sets, in place of `data` */
    size_t value_count;
    /* An .npz whose arrays have the names of the inputs; a folder with NAME.npy or ONNX's
     * input_N.pb; or a folder of these, each of which is one set. NULL: none. */
    const char *data;
    const char *const *files; /* [file_count] "NAME=FILE", or an .npz: the same in all sets */
    size_t file_count;
    const char *const *shapes; /* [shape_count] "NAME=1x3x224x224": dynamic sizes of an input */
    size_t shape_count;
    const char *const *dims; /* [dim_count] "NAME=N": a dynamic size, in all inputs */
    size_t dim_count;
    bool random; /* inputs without any other value are random, as without `values` and `data` */
    uint64_t seed;
    /* The number of random sets, without `values` and `data`; 0: one. Each has its own seed and its
     * own dynamic sizes. */
    size_t sets;
    /* How a message explains how to supply inputs, if random ones are not suitable; the word NAME
     * in it becomes the name of an input. NULL: a default text. */
    const char *hint;
} DemiInputOptions;

#define DEMI_INPUT_OPTIONS_INIT                                                                    \
    { sizeof(DemiInputOptions), NULL, 0, NULL, NULL, 0, NULL, 0, NULL, 0, false, 0, 0, NULL }

/* ---- differences between results ------------------------------------------------------------- */

/* How far a value is from its reference. NaN equals NaN, and Inf equals Inf of the same sign. Made
 * by the library. */
typedef struct DemiDistance {
    const char *mismatch; /* why they cannot be compared: type, shape, kind; otherwise NULL */
    uint64_t count;       /* elements */
    uint64_t beyond; /* elements that differ by more than the tolerance; in trials, by anything */
    uint64_t worst;  /* index, within its tensor, of the element that is furthest beyond it */
    double worst_got, worst_want;
    uint64_t special; /* elements that are NaN or Inf on only one side, or of opposite sign */
    uint64_t broken;  /* of these, the ones whose reference is a number */
    double max_abs, mean_abs; /* differences of finite elements; Inf if `special` is not 0 */
    double scale;   /* the largest finite magnitude of the reference; Inf if it has no finite
                                 element */
    double error;   /* max_abs / scale: 0 if both are 0, Inf if only scale is 0 */
    double ulp;     /* the largest distance in units in the last place; Inf as for max_abs */
    int32_t ulp_of; /* the dtype of these units */
    double sqnr;    /* in dB: 10 log10(sum want^2 / sum (got - want)^2); Inf if equal, -Inf
                                 if `special` is not 0 */
    double cosine;  /* of the angle between both as vectors; NaN if one is 0, or if `special`
                                 is not 0 */
} DemiDistance;

/* The limit for the error of an output. */
typedef struct DemiLimit {
    uint32_t size;
    /* The largest difference, relative to the largest magnitude of the reference. Negative: 0.1 if
     * the model has quantized values and the reference has none, 0.02 if one of them has 16-bit
     * values, otherwise 1e-4. */
    double error;
    /* Absolute differences up to this are always within the limit. Negative: 6.2e-5 if one of them
     * has 16-bit values, otherwise 1e-7. */
    double least;
} DemiLimit;

#define DEMI_LIMIT_INIT                                                                            \
    { sizeof(DemiLimit), -1, -1 }

/* Whether the difference is beyond the limit, whose numbers must not be negative. Always true if
 * the values cannot be compared, or an element is NaN or Inf on only one side. */
DEMI_API bool demi_limit_beyond(const DemiLimit *limit, const DemiDistance *distance);

/* A different selection than that of the reference, by an operator such as TopK, ArgMax,
 * NonMaxSuppression, or a comparison. Outputs are then compared with the reference's selection, row
 * by row with what belongs together. The selection itself is judged by how far it is from a tie.
 * Made by the library. */
typedef struct DemiPick {
    const char *node, *op_type;
    uint64_t count,
        same;      /* what the reference selected, and how much of it this model also selects */
    double margin; /* distance from a tie, relative to the largest magnitude of the candidates */
} DemiPick;

/* Whether the selection is further from a tie than the limit for outputs. */
DEMI_API bool demi_pick_beyond(const DemiLimit *limit, const DemiPick *pick);

/* ---- trials ---------------------------------------------------------------------------------- */

/* A model and sets of inputs, on which conversions of the model, and other models, are run and
 * compared with it. The model's own results on a set are kept for the next trial, as far as memory
 * allows: at most 512 MiB, and a quarter of the memory budget. */
typedef struct DemiTrials DemiTrials;

/* Combines what several processes have found: each word becomes the bitwise OR of that word in all
 * processes. It is called by all of them, in the same order and with the same count, and returns in
 * each when all have called it. Return false if that fails, as it must in all others if the call of
 * one process ends with an error. */
typedef bool (*DemiCombineFn)(void *user, uint64_t *words, size_t count);

typedef struct DemiTrialOptions {
    uint32_t size;
    const DemiInputOptions *inputs;    /* NULL: one random set */
    const DemiCompileOptions *compile; /* NULL: faithful, with all values kept, to measure only the
                                          rounding of the models themselves */
    const DemiContextOptions *context; /* of runs: threads, memory, time; NULL: the defaults */
    /* Called before each run with its purpose ("verifying", "calibrating", or "finding nodes to
     * keep"), the number of runs completed, and their total. Return false to cancel. Only the
     * context's time_limit interrupts a run that has begun. May be NULL. */
    DemiProgressFn progress;
    void *progress_user;
    /* For several processes that make the same calls with the same model, data, and options: each
     * runs its share of the sets, and all get the same results. They do not depend on the number of
     * processes, to the last bit, since what the sets give is combined in the order of sets.
     * `parts` 0: only this process. */
    size_t part, parts;
    DemiCombineFn combine;
    void *combine_user;
} DemiTrialOptions;

#define DEMI_TRIAL_OPTIONS_INIT                                                                    \
    { sizeof(DemiTrialOptions), NULL, NULL, NULL, NULL, NULL, 0, 0, NULL, NULL }

/* Opens the model and finds the sets of inputs; the model itself runs only when it is needed. Makes
 * *trials, which demi_trials_free frees; on error, *trials is NULL. Texts of the options are
 * copied. Values of inputs, what `open` and `progress` use, and what the context and load options
 * point to must stay.
 * Errors: those of the source; DEMI_ERR_MODEL if the model cannot be compiled or run;
 * DEMI_ERR_USAGE if there are no such inputs, or if processes that share them find different ones;
 * DEMI_ERR_ENV, here and in all other calls, if `combine` fails. */
DEMI_API DemiStatus demi_trials_new(const DemiSource *model, const DemiTrialOptions *options,
                                    DemiTrials **trials, DemiError *error);
DEMI_API void demi_trials_free(DemiTrials *trials);

DEMI_API size_t demi_trials_set_count(const DemiTrials *trials);

/* Returns the largest input file of at least 8 MiB that has several rows but runs as one batch. Its
 * rows may not be samples, since the first axis is not dynamic in every input and output of the
 * model. *bytes receives the size of its arrays. Returns NULL if there is no such file. The trials
 * own the text. */
DEMI_API const char *demi_trials_uncut_file(const DemiTrials *trials, uint64_t *bytes);

/* The result of a trial, which demi_verdict_free frees. It may outlive the trials. */
typedef struct DemiVerdict DemiVerdict;

/* Converts the model with these options, and runs the result on each set as it would later run on a
 * device that accumulates in float32: each 16-bit result is rounded once. *verdict is NULL on
 * error. `progress` and `text` of convert->run are not used. After an error, the trials can
 * continue, except after DEMI_ERR_ENV because memory ran out; then they are good only for
 * demi_trials_free.
 * Errors: those of demi_convert, of compiling, and of runs; DEMI_ERR_CANCELLED. */
DEMI_API DemiStatus demi_trials_run(DemiTrials *trials, const DemiConvertOptions *convert,
                                    DemiVerdict **verdict, DemiError *error);

/* The same for another model, whose inputs and outputs have the same names. `limit` may be NULL for
 * the defaults. */
DEMI_API DemiStatus demi_trials_judge(DemiTrials *trials, const DemiSource *model,
                                      const DemiLimit *limit, DemiVerdict **verdict,
                                      DemiError *error);

/* Searches for nodes to keep in float32 so that the error of no output of the conversion exceeds
 * `most` times its largest magnitude. The verdict lists the nodes, and is that of the conversion
 * that keeps them. Found only by trial conversions, at most 64. If the search is cancelled, the
 * verdict is the best found by then, and its totals say so.
 * Errors: DEMI_ERR_CANCELLED if nothing was accurate enough by then; DEMI_ERR_MODEL if no choice of
 * nodes is, because inputs or outputs have reduced precision, or constants do not fit. */
DEMI_API DemiStatus demi_trials_search(DemiTrials *trials, const DemiConvertOptions *convert,
                                       double most, DemiVerdict **verdict, DemiError *error);

DEMI_API void demi_verdict_free(DemiVerdict *verdict);

/* The library makes the structures below. They belong to the verdict, and later versions may add
 * fields at their ends. Item i is NULL if i is not less than the count. */
typedef struct DemiVerdictTotals {
    double error;  /* the largest relative error of outputs and margin of selections; Inf if one
                            cannot be compared */
    bool broken;   /* an output has NaN or Inf, but the reference has a number */
    bool stopped;  /* a search was cancelled: fewer nodes to keep may be enough */
    size_t beyond; /* outputs and selections that are beyond the limit */
    size_t sets;   /* of inputs */
    size_t trials; /* that this DemiTrials has run by now */
    const char *assumed; /* "seq_len 16, 24; batch 1": dynamic sizes that were not given; else "" */
    DemiLimit limit;     /* for demi_trials_judge and demi_trials_search; otherwise zeros */
} DemiVerdictTotals;
DEMI_API const DemiVerdictTotals *demi_verdict_totals(const DemiVerdict *verdict);

/* The worst error of an output over all sets. */
typedef struct DemiOutputError {
    const char *name;
    const char *set; /* path of the files with which it is the worst; "" for other inputs */
    DemiDistance diff;
} DemiOutputError;
DEMI_API size_t demi_verdict_output_count(const DemiVerdict *verdict);
DEMI_API const DemiOutputError *demi_verdict_output(const DemiVerdict *verdict, size_t i);

/* Selections that differ, over all sets. */
DEMI_API size_t demi_verdict_pick_count(const DemiVerdict *verdict);
DEMI_API const DemiPick *demi_verdict_pick(const DemiVerdict *verdict, size_t i);

/* Where the NaN or Inf of outputs begins: the first node in order of execution. */
typedef struct DemiBroken {
    const char *node, *op_type;
    const char *value; /* what it computed */
    const char *text;  /* the same as a phrase */
    int32_t dtype;
    bool nan;       /* otherwise, it is infinite */
    bool cast;      /* it is the result of casting `value`, which did not fit */
    double reached; /* the largest magnitude of that value in the reference; NaN: unknown */
} DemiBroken;
/* Returns NULL if no output of a conversion is broken, or no node was found that breaks it. */
DEMI_API const DemiBroken *demi_verdict_broken(const DemiVerdict *verdict);

/* Names of the nodes that demi_trials_search keeps in float32. */
DEMI_API size_t demi_verdict_kept_count(const DemiVerdict *verdict);
DEMI_API const char *demi_verdict_kept(const DemiVerdict *verdict, size_t i);
/* The same as patterns, after those that the conversion had: use them as DemiConvertOptions.keep.
 * If nodes are kept, also set `allow_unmatched`: a node that raising the opset adds may be absent
 * if nothing requires raising it anymore. Other verdicts have no patterns. */
DEMI_API const char *const *demi_verdict_keep(const DemiVerdict *verdict, size_t *count);

/* ---- calibration ----------------------------------------------------------------------------- */

/* The calibration ranges of floating-point values over all sets. */
typedef struct DemiRanges DemiRanges;

/* How to find the calibration range of a value, for quantization. Elements outside are clipped. */
typedef enum DemiCalibration {
    DEMI_CALIBRATION_MINMAX = 0,     /* the least and the greatest number that occurred */
    DEMI_CALIBRATION_PERCENTILE = 1, /* the range that contains all but a few elements */
    DEMI_CALIBRATION_MSE =
        2, /* the range with the least squared error, in which clipping counts ten
                                 times */
    /* The one of these whose conversion is the closest to the model on these sets, with or without
     * bias correction. Ranges may be narrowed to the part that makes a difference to a function. If
     * so, the best of these and MINMAX are also tried without narrowing, which is taken if it is
     * closer by 1 dB. */
    DEMI_CALIBRATION_BEST = 3,
} DemiCalibration;

typedef struct DemiCalibrateOptions {
    uint32_t size;
    /* Measure both ends of the range of every float32 value, for quantization. Otherwise, measure
     * magnitudes that reach 64, which 16-bit types need. */
    bool ends;
    DemiCalibration method; /* of finding `ends` */
    double percentile;      /* PERCENTILE: the share of elements inside the range, in percent */
    uint32_t levels;        /* MSE: the number of levels of the quantized type */
    bool symmetric;         /* MSE: the zero point will be 0, or the middle */
    /* The conversion that will use the ranges, which are added to its own. Values that it keeps in
     * float32 get MINMAX, which takes less time. NULL: all values are used; not with BEST, which
     * tries the conversion. */
    const DemiConvertOptions *convert;
    /* Cross-layer equalization, as `convert` has it: measure the equalized model. Its channel
     * scales are demi_ranges_scales, which the conversion then needs, too. */
    bool equalizes;
    /* MSE: the quantized type where it is no integer: DEMI_FLOAT8E4M3FN. Neither levels nor
     * symmetric matter then, and BEST tries no bias correction. DEMI_UNDEFINED: an integer. */
    DemiDtype type;
} DemiCalibrateOptions;

#define DEMI_CALIBRATE_OPTIONS_INIT                                                                \
    {                                                                                              \
        sizeof(DemiCalibrateOptions), false, DEMI_CALIBRATION_MINMAX, 99.999, 256, false, NULL,    \
            false, DEMI_UNDEFINED                                                                  \
    }

/* Runs the model on all sets. The result depends neither on their order nor on the number of
 * threads. `options` may be NULL for the defaults. demi_ranges_free frees *ranges, which is NULL on
 * error.
 * Errors: those of runs; DEMI_ERR_USAGE if an option is out of its range; DEMI_ERR_MODEL if the
 * outputs on a given set are all NaN or infinite, or have no elements on any; DEMI_ERR_CANCELLED. */
DEMI_API DemiStatus demi_trials_calibrate(DemiTrials *trials, const DemiCalibrateOptions *options,
                                          DemiRanges **ranges, DemiError *error);
DEMI_API void demi_ranges_free(DemiRanges *ranges);

/* A range, in the order in which values first occur. Made by the library. */
typedef struct DemiRange {
    const char *name;
    double most;       /* the largest magnitude; may be Inf */
    double low, high;  /* with `ends`, the range to quantize; otherwise -most and most */
    int32_t axis;      /* the axis of the channels that a product reads; -1 is the last */
    size_t mean_count; /* the number of channels; 0 if their means were not measured */
    const double *means;
    /* The average error that quantizing between low and high adds to each channel; NULL if it was
     * not measured. */
    const double *errors;
} DemiRange;
DEMI_API size_t demi_ranges_count(const DemiRanges *ranges);
DEMI_API const DemiRange *demi_ranges_item(const DemiRanges *ranges, size_t i);
/* Returns how the ranges were found: for BEST, which of the methods was the best. */
DEMI_API DemiCalibration demi_ranges_method(const DemiRanges *ranges);
/* Returns all ranges as texts for DemiConvertOptions.ranges: "NAME=MAX", or with `ends`,
 * "NAME=MIN:MAX" or "NAME=MIN:MAX:AXIS:MEAN,...:ERROR,...". */
DEMI_API const char *const *demi_ranges_texts(const DemiRanges *ranges);
/* Returns the channel scales that `equalizes` found, *count texts for
 * DemiConvertOptions.channel_scales, in place of its own. None, if nothing is to be equalized. */
DEMI_API const char *const *demi_ranges_scales(const DemiRanges *ranges, size_t *count);

/* ---- rounding -------------------------------------------------------------------------------- */

/* Rounds the weights that the conversion quantizes by GPTQ: the model runs on all sets, once or, if
 * memory does not suffice for all second moments, several times. Conversions of the same model then
 * store these weights, with DEMI_ROUNDING_GPTQ in their options and *weights in
 * DemiRunOptions.rounded. `convert` must have that rounding, too. The result does not depend on the
 * number of threads. Of each output channel, the weights are those rounded to nearest if these change
 * the results less on all sets. demi_rounded_free frees *weights, which is NULL on error.
 * Errors: those of demi_convert and of runs; DEMI_ERR_MODEL if a product has NaN or infinite inputs,
 * and as demi_trials_calibrate; DEMI_ERR_ENV if the moments of one product exceed the memory;
 * DEMI_ERR_CANCELLED. */
DEMI_API DemiStatus demi_trials_round(DemiTrials *trials, const DemiConvertOptions *convert,
                                      DemiRoundedWeights **weights, DemiError *error);
DEMI_API void demi_rounded_free(DemiRoundedWeights *weights);

/* A constant that was rounded. Made by the library, and owned by the rounded weights. */
typedef struct DemiRoundedItem {
    const char *name;
    /* Sums over all sets of the squared errors of the products that read it, in float32 and without
     * any other error: rounded to nearest, and as it was chosen. */
    double nearest, chosen;
} DemiRoundedItem;
DEMI_API size_t demi_rounded_count(const DemiRoundedWeights *weights);
/* In the order of rounding; NULL if i is not less than the count. */
DEMI_API const DemiRoundedItem *demi_rounded_item(const DemiRoundedWeights *weights, size_t i);

/* ---- value by value -------------------------------------------------------------------------- */

/* Two runs on the same inputs, and how far each value of the second is from the value of the same
 * name in the first. */
typedef struct DemiComparison DemiComparison;

typedef struct DemiCompareOptions {
    uint32_t size;
    const DemiInputOptions *inputs;    /* inputs without a value are random */
    const DemiCompileOptions *compile; /* as in DemiTrialOptions */
    const DemiContextOptions *context;
    const DemiLimit *limit; /* NULL: the defaults */
    /* As in DemiTrialOptions: "comparing", before each set if there are several; for advice,
     * "trying which nodes to keep" and "finding nodes to keep". May be NULL. */
    DemiProgressFn progress;
    void *progress_user;
} DemiCompareOptions;

#define DEMI_COMPARE_OPTIONS_INIT                                                                  \
    { sizeof(DemiCompareOptions), NULL, NULL, NULL, NULL, NULL, NULL }

/* Runs both models on each set of inputs. The comparison is about the worst set: one that is beyond
 * the limit before others, then the one with the largest error of an output. The path of a source
 * may be that of a plan, which runs as it is. The reference may also be a folder of values that
 * were saved from a run on one set: output_N.pb and NAME.npy, including intermediate values. Makes
 * *comparison, which demi_comparison_free frees; on error, *comparison is NULL. What callbacks use,
 * and the values of inputs, must stay as long as the comparison.
 * Errors: those of the sources; DEMI_ERR_MODEL if a model cannot be compiled or run, or a file of
 * values is damaged; DEMI_ERR_USAGE if inputs or outputs do not match. */
DEMI_API DemiStatus demi_compare(const DemiSource *reference, const DemiSource *model,
                                 const DemiCompareOptions *options, DemiComparison **comparison,
                                 DemiError *error);
DEMI_API void demi_comparison_free(DemiComparison *comparison);

/* The library makes the structures below. They belong to the comparison, and later versions may add
 * fields at their ends. Item i is NULL if i is not less than the count. */
typedef struct DemiComparisonTotals {
    bool beyond;          /* an output or selection is beyond the limit */
    size_t values_beyond; /* the number of values beyond the limit */
    const char *assumed;  /* "seq_len 16, batch 1": dynamic sizes that were not given; else "" */
    DemiLimit limit;      /* the limit that applies */
    bool quantized;       /* the model has quantized values, and the reference has none */
    size_t sets;          /* of inputs that both ran on */
    size_t set;           /* the worst of them, which everything else is about */
    const char *set_name; /* for files, the last part of their path; otherwise "" */
} DemiComparisonTotals;
DEMI_API const DemiComparisonTotals *demi_comparison_totals(const DemiComparison *comparison);

DEMI_API size_t demi_comparison_output_count(const DemiComparison *comparison);
DEMI_API const DemiOutputError *demi_comparison_output(const DemiComparison *comparison, size_t i);
DEMI_API size_t demi_comparison_pick_count(const DemiComparison *comparison);
DEMI_API const DemiPick *demi_comparison_pick(const DemiComparison *comparison, size_t i);

/* A value that both runs have, in order of execution. */
typedef struct DemiComparedValue {
    const char *name;
    const char *type;           /* such as float16[1,3] */
    const char *node, *op_type; /* what computed it */
    int32_t dtype, dtype_reference;
    DemiDistance diff;
} DemiComparedValue;
DEMI_API size_t demi_comparison_value_count(const DemiComparison *comparison);
DEMI_API const DemiComparedValue *demi_comparison_value(const DemiComparison *comparison, size_t i);
/* Returns the first value that is beyond the limit; NULL if there is none. */
DEMI_API const DemiComparedValue *demi_comparison_first(const DemiComparison *comparison);

/* The inputs that both ran on; those of the reference if it was run. demi_comparison_input returns
 * input i as declared, with the sizes that it had; demi_comparison_input_value returns its value,
 * or NULL if it had none. Both return NULL if i is not less than the count. */
DEMI_API size_t demi_comparison_input_count(const DemiComparison *comparison);
DEMI_API const DemiPlanIo *demi_comparison_input(const DemiComparison *comparison, size_t i);
DEMI_API const DemiData *demi_comparison_input_value(const DemiComparison *comparison, size_t i);

/* ---- advice ---------------------------------------------------------------------------------- */

/* If an output is beyond the limit, finds the nodes whose own computation in 16-bit causes the
 * error. With `try_it`, if both sources are models, converts the reference again with these nodes
 * kept in float32, until they are enough. If no such node can be identified, the nodes are searched
 * for as by demi_trials_search. After DEMI_ERR_CANCELLED, the advice is what was found by then. */
DEMI_API DemiStatus demi_comparison_advise(DemiComparison *comparison, bool try_it,
                                           DemiError *error);

typedef enum DemiAdviceState {
    DEMI_ADVICE_NONE = 0,    /* no node that runs in 16-bit causes an error */
    DEMI_ADVICE_UNTRIED = 1, /* it was not tried, or cannot be */
    DEMI_ADVICE_REACHES = 2, /* with the nodes kept, the outputs are within the limit */
    DEMI_ADVICE_FAILS = 3,   /* no choice of nodes was found that keeps them within the limit */
} DemiAdviceState;

typedef struct DemiAdvice {
    DemiAdviceState state;
    double error; /* REACHES, FAILS: relative error of the outputs with the nodes kept */
    /* The first node, in order of execution, that causes an error; NULL if there is none. The
     * members below are about it. */
    const char *node, *op_type;
    const char *value, *type; /* what it computes */
    double before;            /* the largest relative error of what it reads */
    DemiDistance diff;        /* of what it computes */
} DemiAdvice;
/* Before demi_comparison_advise, the state is NONE, without a node. */
DEMI_API const DemiAdvice *demi_comparison_advice(const DemiComparison *comparison);

/* Returns the nodes to keep, as patterns for DemiConvertOptions.keep. */
DEMI_API const char *const *demi_comparison_keep(const DemiComparison *comparison, size_t *count);

/* Writes the conversion of the reference that keeps these nodes, as a policy
 * (DemiConvertOptions.policy), as demi_convert_policy does. */
DEMI_API size_t demi_comparison_policy(const DemiComparison *comparison, char *buffer, size_t size,
                                       DemiError *error);

#ifdef __cplusplus
}
#endif
#endif
