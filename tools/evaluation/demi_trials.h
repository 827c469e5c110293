// SPDX-License-Identifier: Apache-2.0
/* Holding models against each other: what differs between two files, whether one is the other but
 * for precision, and how far apart their results are on sets of inputs. With it, what is to be
 * known for a conversion: which values come near the end of a type's range, and which nodes must
 * stay float for results to be near enough.
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
 * Conventions are demi.h's: opaque handles with a free function that accepts NULL, a DemiStatus and
 * a DemiError of the caller's, structures that begin with their size, callbacks in the calling
 * thread. Nothing is printed, and no signal is caught: who wants an end says so from a callback. A
 * DemiTrials belongs to one thread at a time; results may be read by several threads. */
#ifndef DEMI_TRIALS_H
#define DEMI_TRIALS_H

#include "demi.h"
#include "demi_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- where models come from ------------------------------------------------------------------ */

/* Makes a model in *model, which the library frees; on error *model is NULL. It is called each time
 * one is needed, since conversions and compilations use models up, and makes the same each time. */
typedef DemiStatus (*DemiOpenFn)(void *user, DemiModel **model, DemiError *error);

typedef struct DemiSource {
    uint32_t size;
    const char *path;            /* of an ONNX file or text; with `open` what messages call it */
    const DemiLoadOptions *load; /* how it is read; NULL: the defaults */
    DemiOpenFn open;             /* makes the model, instead of the path; may be NULL */
    void *open_user;
} DemiSource;

#define DEMI_SOURCE_INIT                                                                           \
    { sizeof(DemiSource), NULL, NULL, NULL, NULL }

/* The source's model, compiled, as a plan; or the plan at its path, mapped. Large files of the model
 * are mapped, too, and weights stay there where kernels read them as they are: what demi_plan_load says of
 * changes to a plan's file holds for them. It is freed with demi_plan_free; on error *plan is NULL. `options` may be NULL, and mean nothing where
 * there is a plan. Errors: the source's; those of demi_compile and demi_plan_load. */
DEMI_API DemiStatus demi_plan_open(const DemiSource *source, const DemiCompileOptions *options,
                                   DemiPlan **plan, DemiError *error);

/* The same to a context of it, whose plan ends with it: demi_context_plan tells of its inputs. Either
 * kind of options may be NULL. Errors: those of demi_context_new, too. */
DEMI_API DemiStatus demi_context_open(const DemiSource *source, const DemiCompileOptions *compile,
                                      const DemiContextOptions *options, DemiContext **context,
                                      DemiError *error);

/* ---- what differs ---------------------------------------------------------------------------- */

typedef enum DemiDiffChange {
    DEMI_DIFF_REMOVED = 0, /* only the first model has it */
    DEMI_DIFF_ADDED = 1,   /* only the second */
    DEMI_DIFF_CHANGED = 2,
} DemiDiffChange;

typedef enum DemiDiffKind {
    DEMI_DIFF_MODEL = 0,  /* versions and imports; what else `strict` finds */
    DEMI_DIFF_INPUT = 1,  /* of a graph */
    DEMI_DIFF_OUTPUT = 2, /* of a graph */
    DEMI_DIFF_WEIGHT = 3, /* initializer */
    DEMI_DIFF_NODE = 4,
    DEMI_DIFF_TYPE = 5, /* of a value that a node gives */
    DEMI_DIFF_FUNCTION = 6,
} DemiDiffKind;

/* "node", "weight", …; "" for what is none. */
DEMI_API const char *demi_diff_kind_name(DemiDiffKind kind);

/* Made by the library; all pointers end when the callback returns. */
typedef struct DemiDifference {
    uint32_t size;
    DemiDiffKind kind;
    DemiDiffChange change;
    const char *graph; /* path; "" for the main graph */
    const char *name;
    const char *op_type; /* of a node; else "" */
    const char *what;    /* CHANGED: what of it; else "" */
    const char *a, *b;   /* what it was and is; "" where it is not there, or too large to say */
} DemiDifference;

/* Return false to cancel: the call then returns DEMI_ERR_CANCELLED. */
typedef bool (*DemiDiffFn)(void *user, const DemiDifference *difference);

typedef struct DemiDiffOptions {
    uint32_t size;
    bool strict; /* where nothing else differs, the first difference in anything that the files
                    say: order, doc strings, metadata, unknown fields, too */
} DemiDiffOptions;

#define DEMI_DIFF_OPTIONS_INIT                                                                     \
    { sizeof(DemiDiffOptions), false }

/* Calls `visit` for each difference between two models, in a's order, then what only b has. Parts
 * are matched by name, nodes without one by their first output's; weights are compared by value and
 * read in pieces. Order, doc strings, metadata and where weights are stored do not count. The
 * models stay as they are. DEMI_ERR_MODEL or DEMI_ERR_ENV where weights can't be read. */
DEMI_API DemiStatus demi_diff(DemiModel *a, DemiModel *b, const DemiDiffOptions *options,
                              DemiDiffFn visit, void *user, DemiError *error);

/* ---- one model but for precision ------------------------------------------------------------- */

typedef struct DemiAgainstOptions {
    uint32_t size;
    const DemiConvertOptions *made_by; /* the model must also be what this conversion makes of the
                                          reference; NULL: any will do */
} DemiAgainstOptions;

#define DEMI_AGAINST_OPTIONS_INIT                                                                  \
    { sizeof(DemiAgainstOptions), NULL }

/* A difference from the reference, as one line that ends when the callback returns. Return false
 * to cancel: the call then returns DEMI_ERR_CANCELLED. */
typedef bool (*DemiAgainstFn)(void *user, const char *difference);

/* Is `model` the reference but for precision? Calls `visit` for each difference that is none of
 * precision; none: it is. The same nodes, inputs, outputs, shapes, metadata, casts apart; weights
 * equal or the reference's rounded to nearest even; float as float16 or bfloat16 wherever a type is
 * said; opsets may be raised, and operators then have the form that upgrade-opset gives them. The
 * model's values have their types afterwards, else it stays as it is; it must have passed
 * demi_check. Errors: those of opening the reference and of the conversion; DEMI_ERR_MODEL or
 * DEMI_ERR_ENV where weights can't be read. */
DEMI_API DemiStatus demi_against(DemiModel *model, const DemiSource *reference,
                                 const DemiAgainstOptions *options, DemiAgainstFn visit, void *user,
                                 DemiError *error);

/* ---- inputs ---------------------------------------------------------------------------------- */

/* A value of a set of inputs; sets are numbered from 0. */
typedef struct DemiInputValue {
    size_t set;
    const char *name;
    const DemiData *value; /* what it points at must stay as long as what runs on it */
} DemiInputValue;

/* The sets of inputs that models run on. Each input is what the first of these gives for it:
 * `files`, then the set's values or its files in `data`, then random values, the same for a seed on
 * every machine: floats near normal, integers, masks and counts what the operators that read them
 * take. Sizes that a model leaves open are those that are said or given; else batches are 1,
 * sequences 16 and images 64x64, or what else the model takes. */
typedef struct DemiInputOptions {
    uint32_t size;
    const DemiInputValue *values; /* [value_count] sets of the program's own; instead of: */
    size_t value_count;
    /* An .npz, whose arrays are called like the inputs; a folder of NAME.npy or of ONNX's
     * input_N.pb; or a folder of such, each one a set; NULL: none */
    const char *data;
    const char *const *files; /* [file_count] "NAME=FILE", or an .npz: the same in all sets */
    size_t file_count;
    const char *const *shapes; /* [shape_count] "NAME=1x3x224x224": of an input's open sizes */
    size_t shape_count;
    const char *const *dims; /* [dim_count] "NAME=N": of an open size, in all inputs */
    size_t dim_count;
    bool random; /* what nothing else gives is random; so it is without `values` and `data` */
    uint64_t seed;
    size_t sets;      /* of random inputs, without `values` and `data`; 0: one. Each has a seed and
                         open sizes of its own */
    const char *hint; /* how a message says that inputs can be given, where random ones do not do;
                         the word NAME in it becomes an input's. NULL: in words of its own */
} DemiInputOptions;

#define DEMI_INPUT_OPTIONS_INIT                                                                    \
    { sizeof(DemiInputOptions), NULL, 0, NULL, NULL, 0, NULL, 0, NULL, 0, false, 0, 0, NULL }

/* ---- how far results are off ----------------------------------------------------------------- */

/* How far a value is from what is expected of it. NaN equals NaN, and Inf the Inf of its sign. Made
 * by the library. */
typedef struct DemiDistance {
    const char *mismatch; /* why they can't be compared: type, shape, kind; else NULL */
    uint64_t count;       /* elements */
    uint64_t beyond;      /* elements that differ by more than is tolerated: in trials, at all */
    uint64_t worst;       /* index of the element that is furthest beyond it, within its tensor */
    double worst_got, worst_want;
    uint64_t special;         /* NaN or Inf on one side alone, or of other sign */
    uint64_t broken;          /* of these, where the expected one is a number */
    double max_abs, mean_abs; /* of finite elements; Inf where `special` is not 0 */
    double scale;             /* the largest finite magnitude of what is expected; Inf where no
                                 element of it is finite */
    double error;             /* max_abs / scale: 0 where both are 0, Inf where only scale is */
    double ulp;               /* largest distance in units in the last place; Inf as max_abs */
    int32_t ulp_of;           /* of this dtype */
    double sqnr;              /* dB: 10 log10(sum want^2 / sum (got - want)^2), Inf where equal,
                                 -Inf where `special` is not 0 */
    double cosine;            /* of the angle between them as vectors; NaN where one is 0, or
                                 `special` is not */
} DemiDistance;

/* What an output may be off by. */
typedef struct DemiLimit {
    uint32_t size;
    double error; /* largest difference, by the largest magnitude of the reference; below 0: 0.1
                     where it has quantized values that the reference has not, 0.02 where one of
                     both has 16-bit values, else 1e-4 */
    double least; /* differences up to it are fine all the same; below 0: 6.2e-5 where one of both
                     has 16-bit values, else 1e-7 */
} DemiLimit;

#define DEMI_LIMIT_INIT                                                                            \
    { sizeof(DemiLimit), -1, -1 }

/* Is it off by more than the limit, whose numbers are not below 0? Of what can't be compared, or is
 * NaN or Inf on one side alone, always. */
DEMI_API bool demi_limit_beyond(const DemiLimit *limit, const DemiDistance *distance);

/* What an operator such as TopK, ArgMax, NonMaxSuppression or a comparison selected otherwise than
 * the reference's. Outputs are then compared with the reference's picks, row by row with what
 * belongs together, and the pick itself by how far it is from a tie. Made by the library. */
typedef struct DemiPick {
    const char *node, *op_type;
    uint64_t count, same; /* what the reference picked, and what of it this model picks too */
    double margin;        /* how far from a tie, by the largest magnitude of what is picked from */
} DemiPick;

/* Is it further from a tie than outputs may be off? */
DEMI_API bool demi_pick_beyond(const DemiLimit *limit, const DemiPick *pick);

/* ---- trials ---------------------------------------------------------------------------------- */

/* A model and sets of inputs: conversions of it, and other models, are run on these beside it. What
 * it makes of a set is kept for the next trial, as far as memory goes (512 MiB). */
typedef struct DemiTrials DemiTrials;

typedef struct DemiTrialOptions {
    uint32_t size;
    const DemiInputOptions *inputs;    /* NULL: one set of random ones */
    const DemiCompileOptions *compile; /* NULL: faithful, with every value kept, so that what is
                                          measured is the models' own rounding */
    const DemiContextOptions *context; /* of runs: threads, memory, time; NULL: the defaults */
    /* Before each run, with what it is for: "verifying", "calibrating", "looking for nodes to
     * keep", and how many of how many are done. Return false to cancel. A run that has begun is not
     * interrupted, but by the context's time_limit. */
    DemiProgressFn progress; /* may be NULL */
    void *progress_user;
} DemiTrialOptions;

#define DEMI_TRIAL_OPTIONS_INIT                                                                    \
    { sizeof(DemiTrialOptions), NULL, NULL, NULL, NULL, NULL }

/* Opens the model, which is run by itself only when it is needed, and finds the sets of inputs.
 * Makes *trials, to be freed with demi_trials_free; on error it is NULL. Texts of the options are
 * copied; values of inputs, what `open` and `progress` use and what the context's and load options
 * point at must stay. Errors: the source's; DEMI_ERR_MODEL where the model can't be compiled or
 * run, DEMI_ERR_USAGE where there are no such inputs. */
DEMI_API DemiStatus demi_trials_new(const DemiSource *model, const DemiTrialOptions *options,
                                    DemiTrials **trials, DemiError *error);
DEMI_API void demi_trials_free(DemiTrials *trials);

DEMI_API size_t demi_trials_set_count(const DemiTrials *trials);

/* The largest input file of 8 MiB or more that has several rows but is run as one batch, because not every input
 * and output of the model leaves its first axis open: its rows may not be samples. *bytes gets the size of its
 * arrays. NULL if there is no such file. The text is the trials'. */
DEMI_API const char *demi_trials_uncut_file(const DemiTrials *trials, uint64_t *bytes);

/* What a trial found; freed with demi_verdict_free. It may outlive the trials. */
typedef struct DemiVerdict DemiVerdict;

/* Converts the model so and runs that on each set, as what is later written of it would run on a
 * device that accumulates in float: every 16-bit result is rounded once. *verdict is NULL on error:
 * those of demi_convert, of compiling and of runs; DEMI_ERR_CANCELLED. The trials can go on after
 * an error; after DEMI_ERR_ENV for want of memory they are good only for demi_trials_free. Progress
 * and text of convert->run are not used. */
DEMI_API DemiStatus demi_trials_run(DemiTrials *trials, const DemiConvertOptions *convert,
                                    DemiVerdict **verdict, DemiError *error);

/* The same for another model, whose inputs and outputs are called like the model's. `limit` may be
 * NULL: the defaults. */
DEMI_API DemiStatus demi_trials_judge(DemiTrials *trials, const DemiSource *model,
                                      const DemiLimit *limit, DemiVerdict **verdict,
                                      DemiError *error);

/* Looks for nodes that must stay float for no output of the conversion to be off by more than
 * `most` of its largest magnitude; the verdict has them, and is that of the conversion with them.
 * Found by trial alone, in 64 at most. Cancelled while it looks for nodes, it gives the best
 * that was found by then, which its totals say; DEMI_ERR_CANCELLED where nothing was good enough by
 * then. DEMI_ERR_MODEL where no choice of nodes is: inputs or outputs are low, or constants do not
 * fit. */
DEMI_API DemiStatus demi_trials_search(DemiTrials *trials, const DemiConvertOptions *convert,
                                       double most, DemiVerdict **verdict, DemiError *error);

DEMI_API void demi_verdict_free(DemiVerdict *verdict);

/* Structures below are made by the library, belong to the verdict, and may get more fields at their
 * ends; item i is NULL from the count on. */
typedef struct DemiVerdictTotals {
    double error;        /* the largest of outputs and picks, by scale; Inf where one can't be
                           compared */
    bool broken;         /* an output has NaN or Inf where the reference has a number */
    bool stopped;        /* a search was cancelled: there may be fewer nodes to keep */
    size_t beyond;       /* outputs and picks that are beyond the limit */
    size_t sets;         /* of inputs */
    size_t trials;       /* that these trials have run by now */
    const char *assumed; /* "seq_len 16, 24; batch 1": sizes of inputs that nobody said; else "" */
    DemiLimit limit;     /* of demi_trials_judge and demi_trials_search; else zeros */
} DemiVerdictTotals;
DEMI_API const DemiVerdictTotals *demi_verdict_totals(const DemiVerdict *verdict);

/* The worst of an output over all sets. */
typedef struct DemiOutputError {
    const char *name;
    const char *set; /* path of the files it is the worst with; "" for other inputs */
    DemiDistance diff;
} DemiOutputError;
DEMI_API size_t demi_verdict_output_count(const DemiVerdict *verdict);
DEMI_API const DemiOutputError *demi_verdict_output(const DemiVerdict *verdict, size_t i);

/* Picks that differ, over all sets. */
DEMI_API size_t demi_verdict_pick_count(const DemiVerdict *verdict);
DEMI_API const DemiPick *demi_verdict_pick(const DemiVerdict *verdict, size_t i);

/* Where NaN or infinity begins that outputs follow from: the first node in order of execution. */
typedef struct DemiBroken {
    const char *node, *op_type;
    const char *value; /* what it made */
    const char *text;  /* that, as a phrase */
    int32_t dtype;
    bool nan;       /* else infinite */
    bool cast;      /* it is what a cast made of `value`, which did not fit */
    double reached; /* the largest magnitude of that value in the reference; NaN: not known */
} DemiBroken;
/* NULL where no output of a conversion is broken, or no node was found that breaks it. */
DEMI_API const DemiBroken *demi_verdict_broken(const DemiVerdict *verdict);

/* Names of nodes that demi_trials_search keeps float. */
DEMI_API size_t demi_verdict_kept_count(const DemiVerdict *verdict);
DEMI_API const char *demi_verdict_kept(const DemiVerdict *verdict, size_t i);
/* The same as patterns, behind those that the conversion had: what DemiConvertOptions.keep is to
 * be. Where nodes are kept, `allow_unmatched` is to be set, too: a node that raising the opset made
 * is not there where nothing is left to raise it for. None for other verdicts. */
DEMI_API const char *const *demi_verdict_keep(const DemiVerdict *verdict, size_t *count);

/* ---- calibration ----------------------------------------------------------------------------- */

/* What each float value reached over all sets. */
typedef struct DemiRanges DemiRanges;

/* How the ends of a value's range are found, where quantizing is what it is for. Beyond them a
 * quantized value is their nearest. */
typedef enum DemiCalibration {
    DEMI_CALIBRATION_MINMAX = 0,     /* the least and the greatest number that was met */
    DEMI_CALIBRATION_PERCENTILE = 1, /* those that all but a few elements lie between */
    DEMI_CALIBRATION_MSE = 2,  /* those that leave the least squared error, in which what is cut off
                                        counts ten times */
    DEMI_CALIBRATION_BEST = 3, /* of these what makes the conversion that is the closest to the
                                        model on these sets, with biases that make up for rounded weights
                                        or without; where ends are drawn in to what makes a difference to a
                                        function, the best of these and MINMAX also without that, which
                                        is taken where it is closer by 1 dB */
} DemiCalibration;

typedef struct DemiCalibrateOptions {
    uint32_t size;
    bool ends; /* of every float32 value, both ends, for quantizing; else magnitudes that reach 64,
                  as 16-bit types need them */
    DemiCalibration method; /* of ends */
    double percentile;      /* PERCENTILE: share of elements that lie within, in percent */
    uint32_t levels;        /* MSE: of the quantized type */
    bool symmetric;         /* MSE: its zero point will be 0, or the middle */
    const DemiConvertOptions
        *convert; /* what the ends are for, to whose ranges they are added: of values
                                          that it leaves float they are MINMAX's, which takes less time.
                                          NULL: all are for something; not of BEST, which tries it */
} DemiCalibrateOptions;

#define DEMI_CALIBRATE_OPTIONS_INIT                                                                \
    { sizeof(DemiCalibrateOptions), false, DEMI_CALIBRATION_MINMAX, 99.999, 256, false, NULL }

/* Runs the model on all sets. What is found depends neither on their order nor on threads. `options`
 * may be NULL: the defaults. *ranges is freed with demi_ranges_free; NULL on error: those of runs,
 * DEMI_ERR_USAGE where an option is out of its range, DEMI_ERR_CANCELLED. */
DEMI_API DemiStatus demi_trials_calibrate(DemiTrials *trials, const DemiCalibrateOptions *options,
                                          DemiRanges **ranges, DemiError *error);
DEMI_API void demi_ranges_free(DemiRanges *ranges);

/* In the order the values are first met. Made by the library. */
typedef struct DemiRange {
    const char *name;
    double most;      /* the largest magnitude; may be Inf */
    double low, high; /* with `ends`: between which it is to be quantized; else -most and most */
    int32_t axis; /* of the channels that a product reads, -1 being the last, and what each is */
    size_t mean_count; /* on average; 0 where that was not measured */
    const double *means;
    const double
        *errors; /* what quantizing between low and high adds to each on average; NULL where that
                             was not measured */
} DemiRange;
DEMI_API size_t demi_ranges_count(const DemiRanges *ranges);
DEMI_API const DemiRange *demi_ranges_item(const DemiRanges *ranges, size_t i);
/* How ends were found: of BEST, which of them was the best. */
DEMI_API DemiCalibration demi_ranges_method(const DemiRanges *ranges);
/* All of them as "NAME=MAX", or with `ends` as "NAME=MIN:MAX" or "NAME=MIN:MAX:AXIS:MEAN,...:ERROR,...":
 * what DemiConvertOptions.ranges takes. */
DEMI_API const char *const *demi_ranges_texts(const DemiRanges *ranges);

/* ---- value by value -------------------------------------------------------------------------- */

/* Two runs on the same inputs, and how far each value of the second is from that of the same name
 * in the first. */
typedef struct DemiComparison DemiComparison;

typedef struct DemiCompareOptions {
    uint32_t size;
    const DemiInputOptions *inputs;    /* what nothing gives is random */
    const DemiCompileOptions *compile; /* as of DemiTrialOptions */
    const DemiContextOptions *context;
    const DemiLimit *limit; /* NULL: the defaults */
    DemiProgressFn
        progress; /* "comparing", before a set where there are several; of advice: "trying
                                what to keep", "looking for nodes to keep"; as of DemiTrialOptions;
                                may be NULL */
    void *progress_user;
} DemiCompareOptions;

#define DEMI_COMPARE_OPTIONS_INIT                                                                  \
    { sizeof(DemiCompareOptions), NULL, NULL, NULL, NULL, NULL, NULL }

/* Runs both, on each set of inputs; what is given back is about the set that is furthest off: one
 * that is beyond the limit before others, then the one with the largest error of an output. A
 * source's path may be a plan's, which runs as it is. The reference may also be a folder of values
 * that were saved, by a run on one set: output_N.pb and NAME.npy, of inner values too. Makes
 * *comparison, to be freed with demi_comparison_free; on error it is NULL. What callbacks use must
 * stay as long as it does, values of inputs too. Errors: the sources'; DEMI_ERR_MODEL where a model
 * can't be compiled or run, or a file of values is damaged; DEMI_ERR_USAGE where inputs or outputs
 * do not belong together. */
DEMI_API DemiStatus demi_compare(const DemiSource *reference, const DemiSource *model,
                                 const DemiCompareOptions *options, DemiComparison **comparison,
                                 DemiError *error);
DEMI_API void demi_comparison_free(DemiComparison *comparison);

/* Structures below are made by the library, belong to the comparison, and may get more fields at
 * their ends; item i is NULL from the count on. */
typedef struct DemiComparisonTotals {
    bool beyond;          /* an output or pick is beyond the limit */
    size_t values_beyond; /* how many values are */
    const char *assumed;  /* "seq_len 16, batch 1": sizes of inputs that nobody said; else "" */
    DemiLimit limit;      /* that holds */
    bool quantized;       /* the model has quantized values, and the reference has none */
    size_t sets;          /* of inputs that both ran on */
    size_t set;           /* the one that all else is about: of them the furthest off */
    const char *set_name; /* of files the last part of their path; else "" */
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
    const char *node, *op_type; /* that made it */
    int32_t dtype, dtype_reference;
    DemiDistance diff;
} DemiComparedValue;
DEMI_API size_t demi_comparison_value_count(const DemiComparison *comparison);
DEMI_API const DemiComparedValue *demi_comparison_value(const DemiComparison *comparison, size_t i);
/* The first that is beyond the limit; NULL where none is. */
DEMI_API const DemiComparedValue *demi_comparison_first(const DemiComparison *comparison);

/* The inputs that both ran on, those of the reference where it was run: input i as it is declared,
 * with the sizes it had, and its value, NULL where it had none. Both are NULL beyond the count. */
DEMI_API size_t demi_comparison_input_count(const DemiComparison *comparison);
DEMI_API const DemiPlanIo *demi_comparison_input(const DemiComparison *comparison, size_t i);
DEMI_API const DemiData *demi_comparison_input_value(const DemiComparison *comparison, size_t i);

/* ---- advice ---------------------------------------------------------------------------------- */

/* Finds the nodes whose own computation in 16 bits brings the error, where an output is beyond the
 * limit. With `try_it`, and where both were models, the reference is converted anew with these kept
 * in float, until they are enough; where no such node is to be seen, they are searched for as by
 * demi_trials_search. After DEMI_ERR_CANCELLED the advice is what was found by then. */
DEMI_API DemiStatus demi_comparison_advise(DemiComparison *comparison, bool try_it,
                                           DemiError *error);

typedef enum DemiAdviceState {
    DEMI_ADVICE_NONE = 0,    /* no node that runs in 16 bits brings an error */
    DEMI_ADVICE_UNTRIED = 1, /* it was not tried, or can't be */
    DEMI_ADVICE_REACHES = 2, /* with the nodes kept the outputs are within the limit */
    DEMI_ADVICE_FAILS = 3,   /* no choice of nodes was found with which they are */
} DemiAdviceState;

typedef struct DemiAdvice {
    DemiAdviceState state;
    double error; /* REACHES, FAILS: of the outputs, by scale, with the nodes kept */
    /* The first node, in order of execution, that brings an error; NULL where there is none: */
    const char *node, *op_type;
    const char *value, *type; /* what it makes */
    double before;            /* the largest error of what it reads, by scale */
    DemiDistance diff;        /* of what it makes */
} DemiAdvice;
/* Before demi_comparison_advise: of state NONE, without a node. */
DEMI_API const DemiAdvice *demi_comparison_advice(const DemiComparison *comparison);

/* The nodes to keep, as patterns for DemiConvertOptions.keep. */
DEMI_API const char *const *demi_comparison_keep(const DemiComparison *comparison, size_t *count);

/* The conversion of the reference with these nodes kept, as a policy (DemiConvertOptions.policy),
 * written as demi_convert_policy writes one. */
DEMI_API size_t demi_comparison_policy(const DemiComparison *comparison, char *buffer, size_t size,
                                       DemiError *error);

#ifdef __cplusplus
}
#endif
#endif
