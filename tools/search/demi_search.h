// SPDX-License-Identifier: Apache-2.0
/* Mixed-precision search: finds the cheapest precisions that keep a model accurate enough.
 *
 *     DemiError error = DEMI_ERROR_INIT;
 *     DemiSource model = DEMI_SOURCE_INIT;
 *     DemiSearchOptions options = DEMI_SEARCH_OPTIONS_INIT;
 *     DemiSearch *search = NULL;
 *     const char *const precisions[] = {"float", "float16", "a8w8"};
 *     model.path = "model.onnx";
 *     options.candidates = precisions;
 *     options.candidate_count = 3;
 *     options.target = 40; // signal-to-noise ratio in dB
 *     if (demi_search_run(&model, &options, &search, &error) == DEMI_OK)
 *         convert_by(demi_search_policy(search)); // DemiConvertOptions.policy
 *     demi_search_free(search);
 *
 * The model is divided into groups: the output of one node, or one input, with the weights of all
 * products that read it. Each group gets one of the candidates. The sensitivity of the outputs to
 * each candidate of each group is measured first, by running again what depends on the group. Then
 * promising assignments are solved for, converted, and run. The result is the cheapest assignment
 * whose run was accurate enough; an assignment that was not run is never the result. If there are
 * enough sets of inputs, it was also accurate enough on sets that the search did not use.
 *
 * The conventions are those of demi_trials.h. */
#ifndef DEMI_SEARCH_H
#define DEMI_SEARCH_H

#include "demi_trials.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The quality metric: a score of a converted model, where more is better, over all sets of inputs
 * and compared with the results of the float32 model. A model that computes NaN or Inf where the
 * float32 model has numbers is never accurate enough. */
typedef enum DemiMetric {
    DEMI_METRIC_SQNR = 0,   /* the lowest signal-to-noise ratio of the outputs in dB, at most 100 */
    DEMI_METRIC_COSINE = 1, /* the lowest cosine similarity of the outputs */
    DEMI_METRIC_TOP1 = 2,   /* the share of rows of the first output whose largest element is at the
                               same position */
    DEMI_METRIC_ACCURACY = 3, /* the share of these rows whose largest element is where the label
                                 says */
    DEMI_METRIC_ERROR = 4,    /* the largest difference, relative to the output's largest magnitude,
                                 negated */
    DEMI_METRIC_SCORE = 5,    /* what `score` returns */
} DemiMetric;

/* Scores a converted model and sets *score. The callee owns the model: it may save or compile it,
 * and must free it. Any status but DEMI_OK ends the search with that status. */
typedef DemiStatus (*DemiScoreFn)(void *user, DemiModel *model, double *score, DemiError *error);

typedef enum DemiSearchAlgorithm {
    DEMI_SEARCH_SOLVE = 0,               /* solve, verify, and repair; also follows AIMET's order */
    DEMI_SEARCH_AIMET_BINARY = 1,        /* AIMET's choose_mixed_precision, by binary search */
    DEMI_SEARCH_AIMET_INTERPOLATION = 2, /* the same by interpolation */
    DEMI_SEARCH_AIMET_BRUTE_FORCE = 3,   /* the same point by point */
} DemiSearchAlgorithm;

/* How to find the sensitivity of a group. */
typedef enum DemiSearchSensitivity {
    DEMI_SENSITIVITY_MEASURED = 0, /* run again what depends on the group */
    /* Estimate it from gradients of the outputs and from how far elements are rounded, without runs
     * per group. This assumes small, independent errors. DEMI_ERR_MODEL names an operator that has
     * no gradient. */
    DEMI_SENSITIVITY_GRADIENT = 1,
    /* Convert the model with the group alone at the candidate, and score it by `sensitivity_score`: by
     * how much the score is lower. It should add up over groups, as error rates nearly do. */
    DEMI_SENSITIVITY_SCORE = 2,
} DemiSearchSensitivity;

/* The cost to minimize. */
typedef enum DemiSearchCost {
    DEMI_COST_BITOPS = 0,  /* multiplications times the bit widths of both factors */
    DEMI_COST_BYTES = 1,   /* bytes of weights, and of what nodes compute */
    DEMI_COST_LATENCY = 2, /* seconds, from steps that are measured on this machine */
} DemiSearchCost;

typedef struct DemiSearchOptions {
    uint32_t size;
    /* Further options of the conversions; NULL: none. The search chooses `to` itself. `runtime`,
     * `activations`, `symmetric`, `block`, and `rest` hold for all candidates that they concern: a
     * candidate that the runtime does not take is an error. What a node reads that is to stay in
     * float32, by `keep`, `keep_ops`, or `only`, is not converted. `rest` is the type of candidates
     * that would be in float32. */
    const DemiConvertOptions *convert;
    /* "float", "float16", "bfloat16"; "aXwY", integers with X bits for activations and Y for weights,
     * such as "a8w4"; "wY", weights only; or "ACTIVATIONS:WEIGHTS", two types of quantization or
     * floating point, such as "int8:int4" or "float:fp8". At most one 16-bit floating-point type.
     * NULL: float, float16, and a8w8; with `rest` float16 or bfloat16, that type and a8w8. */
    const char *const *candidates;
    size_t candidate_count;
    /* JSON: the candidates that operators support, in the form of AIMET's supported_kernels; NULL:
     * what demi knows about them. */
    const char *supported;
    bool all_candidates;               /* ignore `supported` */
    const DemiInputOptions *inputs;    /* NULL: one random set */
    const DemiContextOptions *context; /* of runs */
    DemiMetric metric;
    /* [label_count] for DEMI_METRIC_ACCURACY: the position for each row, over all sets of `inputs`. */
    const int64_t *labels;
    size_t label_count;
    /* For DEMI_METRIC_SCORE. It is called only for whole conversions; sensitivities are measured as
     * noise, unless `sensitivity` says otherwise. */
    DemiScoreFn score;
    void *score_user;
    /* What the result must reach: `target` if it is not NaN, otherwise the float32 model's score
     * minus `drop`. Both NaN: find the whole curve, and return the model as it is. */
    double target, drop;
    /* Not NaN: find the best score at this cost, which is relative to that of the float32 model. */
    double most_cost;
    DemiSearchCost cost;
    DemiSearchAlgorithm algorithm;
    bool reverse;           /* AIMET's: start from the lowest precisions */
    bool fewer_conversions; /* AIMET's third phase: save less, for fewer conversions */
    uint64_t cache_bytes;   /* for values of a run that are kept; 0: 256 MiB */
    /* The number of sets on which groups are measured, one by one. 0: 2 to 8, as many as it takes
     * to know the noise of a group well; 2 for gradients; all for AIMET's algorithms. Scores use
     * all sets. */
    size_t probes;
    size_t evaluations; /* the most conversions to run; 0: 200 */
    double seconds;     /* start no evaluation after this time; 0: no limit */
    /* A file that records every measurement; NULL: none. A search that was interrupted resumes from
     * there, and another search of the same model, data, candidates, and metric, with another
     * target, cost, or algorithm, measures only what is missing. */
    const char *journal;
    /* For several processes that make the same call, as in DemiTrialOptions: each runs its share of
     * the sets for calibration, scores, and acceptance, and measures every parts-th group. The first
     * process decides what to run. Its result does not depend on their number. In the others,
     * *search is NULL. `parts` 0: only this process. */
    size_t part, parts;
    DemiCombineFn combine;
    void *combine_user;
    DemiProgressFn progress;
    void *progress_user;
    const DemiInputOptions *probe_inputs; /* the sets to measure groups on; NULL: `inputs` */
    DemiSearchSensitivity sensitivity;
    /* A score is too good on the sets that a result was chosen by. Some of the sets of `inputs` are
     * therefore held out: a result must also reach the target on these (DemiSearchTotals), and some
     * of many sets are only for calibration. search_sets.h has the rule; demi_search_totals tells
     * what was used for what. Sets of their own, NULL: some of `inputs`: */
    const DemiInputOptions *calibration_inputs; /* for ranges */
    const DemiInputOptions *holdout_inputs;     /* held out */
    /* The share of the sets that is held out, from 0 (none) to less than 1; NaN: about a third of 8
     * sets or more. */
    double holdout;
    /* [holdout_label_count] for DEMI_METRIC_ACCURACY: of the sets of `holdout_inputs`. */
    const int64_t *holdout_labels;
    size_t holdout_label_count;
    /* For DEMI_METRIC_SCORE: a score on data that was held out. It should be the lower end of an
     * interval, since it is what must reach the target. NULL: nothing is held out. */
    DemiScoreFn holdout_score;
    void *holdout_score_user;
    bool
        quantize_outputs; /* also consider integers for the model's outputs; false: they are float32 */
    /* For DEMI_SENSITIVITY_SCORE: a score that may be of less data than `score`; NULL: `score`. */
    DemiScoreFn sensitivity_score;
    void *sensitivity_user;
    /* What the journal calls the two scores, so that it does not serve others; NULL: nothing. */
    const char *score_name, *sensitivity_name;
    /* Not NaN, in place of `target` and `most_cost`: find the best score with this many bits per
     * element of the groups' weights on average, without scales. The cost is the bytes of weights.
     * `candidates` NULL then means w8 and w4. */
    double bits;
} DemiSearchOptions;

#define DEMI_SEARCH_OPTIONS_INIT                                                                   \
    {                                                                                              \
        sizeof(DemiSearchOptions), NULL, NULL, 0, NULL, false, NULL, NULL, DEMI_METRIC_SQNR, NULL, \
            0, NULL, NULL, __builtin_nan(""), __builtin_nan(""), __builtin_nan(""),                \
            DEMI_COST_BITOPS, DEMI_SEARCH_SOLVE, false, false, 0, 0, 0, 0.0, NULL, 0, 0, NULL,     \
            NULL, NULL, NULL, NULL, DEMI_SENSITIVITY_MEASURED, NULL, NULL, __builtin_nan(""),      \
            NULL, 0, NULL, NULL, false, NULL, NULL, NULL, NULL, __builtin_nan("")                  \
    }

typedef enum DemiSearchOutcome {
    DEMI_FOUND = 0,         /* the cheapest assignment whose run was accurate enough */
    DEMI_FOUND_TRIVIAL = 1, /* the cheapest candidates everywhere were accurate enough */
    /* Not even the widest candidates are accurate enough: there is nothing to write. */
    DEMI_FOUND_NOTHING = 2,
    DEMI_FOUND_SO_FAR = 3, /* the best when time, evaluations, or the caller ended the search */
    /* No target was given: the model as it is, and the curve of what each change costs. */
    DEMI_FOUND_CURVE = 4,
    /* The target was reached on the sets of the search, but on those that were held out, no interval's
     * lower end reached it: there is nothing to write. */
    DEMI_FOUND_UNCONFIRMED = 5,
} DemiSearchOutcome;

typedef struct DemiSearch DemiSearch;

/* Searches. demi_search_free frees *search, which is NULL on error.
 * Errors: those of the source, of conversions, and of runs; DEMI_ERR_USAGE for options that exclude
 * each other, for unknown candidates and those that the runtime does not take, and for the journal
 * of a different search (the error names the first difference); DEMI_ERR_CANCELLED if nothing was accurate enough by then. */
DEMI_API DemiStatus demi_search_run(const DemiSource *model, const DemiSearchOptions *options,
                                    DemiSearch **search, DemiError *error);
DEMI_API void demi_search_free(DemiSearch *search);

/* The library makes the structures below. They belong to the search, and later versions may add
 * fields at their ends. Item i is NULL if i is not less than the count. */

/* An assignment of candidates that was run. */
typedef struct DemiSearchPoint {
    double score; /* of the converted model, on the sets for selection */
    double cost;  /* by DemiSearchOptions.cost */
    double bitops, activation_bytes, weight_bytes;
    double seconds;      /* predicted, per run; NaN except for DEMI_COST_LATENCY */
    double measured;     /* median of measured runs, alternating with others; NaN: not measured */
    uint64_t boundaries; /* places where a group of another candidate reads a group */
    const uint8_t *candidates; /* [demi_search_group_count] */
    bool feasible; /* it reaches the target; if sets are held out, DemiSearchTotals.aim */
    bool on_front; /* it is on the Pareto front */
    /* The standard error of the score because there are few sets: how much other sets, or the
     * rounding of another runtime, would change it. NaN: unknown. */
    double score_error;
} DemiSearchPoint;

/* What the result was accepted by. */
typedef enum DemiHoldout {
    DEMI_HOLDOUT_NONE = 0, /* nothing: too few sets, none were asked for, or no target */
    DEMI_HOLDOUT_SETS =
        1, /* some of the sets of `inputs`, or of the parts that they were cut into */
    DEMI_HOLDOUT_GIVEN = 2, /* DemiSearchOptions.holdout_inputs */
    DEMI_HOLDOUT_SCORE = 3, /* DemiSearchOptions.holdout_score */
} DemiHoldout;

typedef struct DemiSearchTotals {
    DemiSearchOutcome outcome;
    double target;      /* NaN: none */
    double float_score; /* the score of the float32 model */
    size_t evaluations; /* conversions that were run */
    /* Runs of what depends on one group. For DEMI_SENSITIVITY_GRADIENT, runs of the model with its
     * gradients; for DEMI_SENSITIVITY_SCORE, scores. */
    size_t replays;
    double replayed; /* the average share of a whole run that these took, in steps */
    double seconds;  /* that the search took */
    double
        float_seconds;   /* per run of the float32 model, measured as for points; 0: not measured */
    size_t best;         /* the point of the result */
    size_t widest;       /* the point of the first candidate everywhere */
    const char *assumed; /* dynamic sizes of inputs that were not given; otherwise "" */
    double groups_seconds; /* part of `seconds`: sensitivities, with waiting for processes */
    /* The best point on sets that were held out, with its confidence interval. Only an assignment
     * whose lower end reaches the target is accepted. NaN: not known. The interval is paired with
     * the float32 model, sample by sample: by Student's t on a logarithmic scale for
     * sqnr and cosine; Wilson's for shares of rows; for error, between which ends the largest error
     * of as many new samples lies. */
    double holdout_score, holdout_low, holdout_high;
    /* What holdout_low must reach: the target, or the float32 model's score on the same sets minus
     * the drop. NaN: no target. */
    double holdout_target;
    double confidence; /* of the interval, together for all acceptance tests that are allowed */
    /* Acceptance tests: assignments that were run on held-out sets, and how many may be. */
    size_t holdout_tests, holdout_tests_most;
    double aim; /* the score on the selection sets from which assignments were tested; NaN: none */
    /* Numbers of sets; the sets for selection are also for calibration if there are no others. */
    size_t calibration_sets, selection_sets, holdout_sets;
    size_t holdout_samples; /* independent ones that the interval is of */
    bool holdout_rows;      /* the samples are rows along the first axis of the sets */
    DemiHoldout holdout;
    DemiRuntimeRules runtime; /* whose rules the result follows, by DemiSearchOptions.convert */
} DemiSearchTotals;
DEMI_API const DemiSearchTotals *demi_search_totals(const DemiSearch *search);

/* All points, in the order in which they were run. */
DEMI_API size_t demi_search_point_count(const DemiSearch *search);
DEMI_API const DemiSearchPoint *demi_search_point(const DemiSearch *search, size_t i);

/* The candidates of the search. */
DEMI_API size_t demi_search_candidate_count(const DemiSearch *search);
DEMI_API const char *demi_search_candidate(const DemiSearch *search, size_t i);
/* The name of the type that candidate i stores activations or weights in, such as "int8"; "float": that
 * which they have. */
DEMI_API const char *demi_search_candidate_type(const DemiSearch *search, size_t i, bool weights);

/* Values and weights that have one precision in common. */
typedef struct DemiSearchGroup {
    const char *name;           /* of the first of its values */
    const char *node, *op_type; /* what computes it; "" for an input */
    size_t values, weights;     /* their numbers; their names: */
    const char *const *value_names, *const *weight_names;
    double multiplications; /* of products that read it */
    double elements, weight_elements;
    /* [candidates] the noise of the outputs, relative to their signal, if only this group has that
     * candidate. Groups that save next to nothing are measured several at a time, and have their
     * share of the noise. NaN: not measured. */
    const double *noise;
    size_t candidate;   /* in the result */
    const char *reason; /* why, as a phrase */
} DemiSearchGroup;
DEMI_API size_t demi_search_group_count(const DemiSearch *search);
DEMI_API const DemiSearchGroup *demi_search_group(const DemiSearch *search, size_t i);

/* AIMET's lists, only for its algorithms: the effect of each candidate of each group, in the order
 * in which candidates are applied; and the places of that list that were tried. */
typedef struct DemiSearchEntry {
    size_t group, candidate;
    double score;     /* if only this group has the candidate */
    double reduction; /* of the cost, by only this change */
} DemiSearchEntry;
DEMI_API size_t demi_search_entry_count(const DemiSearch *search);
DEMI_API const DemiSearchEntry *demi_search_entry(const DemiSearch *search, size_t i);

typedef struct DemiSearchPlace {
    double relative; /* cost, relative to that where the search began */
    double score;
    size_t group, candidate; /* of the entry at this place */
    size_t entry;            /* the number of that entry */
} DemiSearchPlace;
DEMI_API size_t demi_search_place_count(const DemiSearch *search);
DEMI_API const DemiSearchPlace *demi_search_place(const DemiSearch *search, size_t i);

/* The weights that were rounded on the calibration data, for DemiRunOptions.rounded of conversions by
 * the policy; NULL if `convert` has no such rounding. They belong to the search. */
DEMI_API DemiRoundedWeights *demi_search_rounded(const DemiSearch *search);

/* Returns the conversion of the result, as DemiConvertOptions.policy. It lives as long as the
 * search. */
DEMI_API const char *demi_search_policy(const DemiSearch *search);

#ifdef __cplusplus
}
#endif
#endif
