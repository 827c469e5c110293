// SPDX-License-Identifier: Apache-2.0
/* Searching for the cheapest precisions that keep a model as good as it has to be.
 *
 *     DemiError error = DEMI_ERROR_INIT;
 *     DemiSource model = DEMI_SOURCE_INIT;
 *     DemiSearchOptions options = DEMI_SEARCH_OPTIONS_INIT;
 *     DemiSearch *search = NULL;
 *     const char *const precisions[] = {"float", "float16", "a8w8"};
 *     model.path = "model.onnx";
 *     options.candidates = precisions;
 *     options.candidate_count = 3;
 *     options.target = 40; // dB of signal to noise
 *     if (demi_search_run(&model, &options, &search, &error) == DEMI_OK)
 *         convert_by(demi_search_policy(search)); // DemiConvertOptions.policy
 *     demi_search_free(search);
 *
 * A model is cut into groups: what one node makes, or one input, with the weights of all products that
 * read it. Each gets one of the candidates. What lowering one group alone does to the outputs is
 * measured first, by running again what follows from it; then assignments are solved for, converted
 * and run, and the cheapest of those that were seen to be good enough is the result. Nothing that was
 * not run is ever given out.
 *
 * Conventions are demi_trials.h's. */
#ifndef DEMI_SEARCH_H
#define DEMI_SEARCH_H

#include "demi_trials.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How good a converted model is, a number of which more is better; over all sets of inputs, and beside
 * what the float model makes of them. NaN and infinity where the float model has numbers are never
 * good enough. */
typedef enum DemiMetric {
    DEMI_METRIC_SQNR = 0,   /* the least of the outputs' signal to noise in dB, 100 at most */
    DEMI_METRIC_COSINE = 1, /* the least of the outputs' cosines */
    DEMI_METRIC_TOP1 = 2, /* share of the first output's rows that have their largest element at the
                                 same place */
    DEMI_METRIC_ACCURACY = 3, /* share of these where it is at the place that a label says */
    DEMI_METRIC_ERROR = 4, /* the largest difference by the output's largest magnitude, negative */
    DEMI_METRIC_SCORE = 5, /* what `score` says */
} DemiMetric;

/* Scores a converted model, which is the callee's to save, compile and free, and sets *score. Another
 * status than DEMI_OK ends the search with it. */
typedef DemiStatus (*DemiScoreFn)(void *user, DemiModel *model, double *score, DemiError *error);

/* Puts together what several processes found: each word becomes the bitwise or of all processes' words.
 * False where that fails. */
typedef bool (*DemiCombineFn)(void *user, uint64_t *words, size_t count);

typedef enum DemiSearchAlgorithm {
    DEMI_SEARCH_SOLVE = 0, /* solved for, verified, repaired; and AIMET's order is walked, too */
    DEMI_SEARCH_AIMET_BINARY = 1,        /* AIMET's choose_mixed_precision, by halving, */
    DEMI_SEARCH_AIMET_INTERPOLATION = 2, /* by interpolation, */
    DEMI_SEARCH_AIMET_BRUTE_FORCE = 3,   /* point by point */
} DemiSearchAlgorithm;

/* How it is found what a candidate does to a group alone. */
typedef enum DemiSearchSensitivity {
    DEMI_SENSITIVITY_MEASURED = 0, /* by running again what follows from the group */
    DEMI_SENSITIVITY_GRADIENT =
        1, /* estimated from gradients of the outputs and how far elements are
                                      rounded, without runs for each group: the noise of small
                                      independent errors. DEMI_ERR_MODEL names an operator that has
                                      no gradient */
} DemiSearchSensitivity;

/* What is to be least. */
typedef enum DemiSearchCost {
    DEMI_COST_BITOPS = 0,  /* multiplications by the bits of both factors */
    DEMI_COST_BYTES = 1,   /* of weights, and of what nodes make */
    DEMI_COST_LATENCY = 2, /* seconds, of steps that are measured on this machine */
} DemiSearchCost;

typedef struct DemiSearchOptions {
    uint32_t size;
    const DemiConvertOptions
        *convert; /* what conversions are told beside; NULL: nothing. Its `to` is
                                          the search's to choose */
    /* "float", "float16", "bfloat16", "a16w16", "a16w8", "a8w16", "a8w8", "w8", "w4"; NULL: float,
     * float16 and a8w8. One 16-bit float type at most */
    const char *const *candidates;
    size_t candidate_count;
    const char
        *supported;      /* JSON: which candidates operators take, as AIMET's supported_kernels has
                              it; NULL: what demi knows of them */
    bool all_candidates; /* `supported` is not heeded */
    const DemiInputOptions *inputs;    /* NULL: one set of random ones */
    const DemiContextOptions *context; /* of runs */
    DemiMetric metric;
    const int64_t
        *labels; /* [label_count], of DEMI_METRIC_ACCURACY: a row's place, over all sets */
    size_t label_count;
    DemiScoreFn
        score; /* of DEMI_METRIC_SCORE; called for whole conversions alone: what one group does
                          is measured as noise */
    void *score_user;
    /* What the result has to reach: `target` where it is not NaN, else the float model's score less
     * `drop`; both NaN: the whole curve, and the model as it is. */
    double target, drop;
    double
        most_cost; /* not NaN: the best score at this cost, by the float model's, is looked for */
    DemiSearchCost cost;
    DemiSearchAlgorithm algorithm;
    bool reverse;           /* AIMET's: from the lowest precisions up */
    bool fewer_conversions; /* AIMET's third phase: some of what is saved is given up for them */
    uint64_t cache_bytes;   /* of values that are kept of a run; 0: 256 MiB */
    size_t
        probes; /* how many sets groups are measured on, one by one; 0: 2 to 8, as many as it takes
                      for a group's noise to be known well, and 2 for gradients; scores are of all
                      sets */
    size_t evaluations;  /* conversions that are run at most; 0: 200 */
    double seconds;      /* no evaluation begins after; 0: any time */
    const char *journal; /* a file that everything measured is noted in, so that a search that was
                             ended goes on where it was; NULL: none */
    /* Several processes that are called alike: each measures every parts-th group, and the first does
     * the rest; what it finds is the same for any number. Of others *search is NULL. */
    size_t part, parts; /* 0 parts: this one alone */
    DemiCombineFn combine;
    void *combine_user;
    DemiProgressFn progress;
    void *progress_user;
    const DemiInputOptions
        *probe_inputs; /* that groups are measured on one by one; NULL: `inputs` */
    DemiSearchSensitivity sensitivity;
} DemiSearchOptions;

#define DEMI_SEARCH_OPTIONS_INIT                                                                   \
    {                                                                                              \
        sizeof(DemiSearchOptions), NULL, NULL, 0, NULL, false, NULL, NULL, DEMI_METRIC_SQNR, NULL, \
            0, NULL, NULL, __builtin_nan(""), __builtin_nan(""), __builtin_nan(""),                \
            DEMI_COST_BITOPS, DEMI_SEARCH_SOLVE, false, false, 0, 0, 0, 0.0, NULL, 0, 0, NULL,     \
            NULL, NULL, NULL, NULL, DEMI_SENSITIVITY_MEASURED                                      \
    }

typedef enum DemiSearchOutcome {
    DEMI_FOUND = 0,         /* the cheapest that was seen to be good enough */
    DEMI_FOUND_TRIVIAL = 1, /* the cheapest there is was good enough at once */
    DEMI_FOUND_NOTHING =
        2, /* not even the widest candidates are good enough: nothing is to be written */
    DEMI_FOUND_SO_FAR = 3, /* what was good enough when time, evaluations or the caller ended it */
    DEMI_FOUND_CURVE =
        4, /* no target was given: the model as it is, and what it costs to change it */
} DemiSearchOutcome;

typedef struct DemiSearch DemiSearch;

/* Searches. *search is freed with demi_search_free; on error it is NULL. Errors: the source's; those
 * of conversions and runs; DEMI_ERR_USAGE for options that exclude each other, unknown candidates, and
 * a journal of another search, whose first difference is named; DEMI_ERR_CANCELLED where nothing was
 * good enough by then. */
DEMI_API DemiStatus demi_search_run(const DemiSource *model, const DemiSearchOptions *options,
                                    DemiSearch **search, DemiError *error);
DEMI_API void demi_search_free(DemiSearch *search);

/* Structures below are made by the library, belong to the search, and may get more fields at their
 * ends; item i is NULL from the count on. */

/* An assignment of candidates, as it was run. */
typedef struct DemiSearchPoint {
    double score; /* of the converted model */
    double cost;  /* what was to be least */
    double bitops, activation_bytes, weight_bytes;
    double seconds;            /* of a run: predicted; NaN but for DEMI_COST_LATENCY */
    double measured;           /* of a run, by turns with others: the median; NaN: not measured */
    uint64_t boundaries;       /* where a group is read by one of another candidate */
    const uint8_t *candidates; /* [demi_search_group_count] */
    bool feasible;             /* it reaches the target */
    bool on_front;             /* no other is better and cheaper */
    double score_error; /* the score's standard error, as far as it is of few sets: how much other
                                  sets, or another runtime's rounding, would make of it; NaN: not known */
} DemiSearchPoint;

typedef struct DemiSearchTotals {
    DemiSearchOutcome outcome;
    double target;        /* NaN: none */
    double float_score;   /* the model's own */
    size_t evaluations;   /* conversions that were run */
    size_t replays;       /* runs from one group on; of DEMI_SENSITIVITY_GRADIENT, of the model with
                             its gradients */
    double replayed;      /* share of a whole run that these took on average, in steps */
    double seconds;       /* that the search took */
    double float_seconds; /* of a run of the float model, as points are measured; 0: it was not */
    size_t best;          /* the result's point */
    size_t widest;        /* the point of the first candidates alone */
    const char *assumed;  /* sizes of inputs that nobody said; else "" */
    double groups_seconds; /* of `seconds`: what groups do alone, waiting for other processes too */
} DemiSearchTotals;
DEMI_API const DemiSearchTotals *demi_search_totals(const DemiSearch *search);

/* All points, in the order in which they were run. */
DEMI_API size_t demi_search_point_count(const DemiSearch *search);
DEMI_API const DemiSearchPoint *demi_search_point(const DemiSearch *search, size_t i);

/* The candidates that were searched. */
DEMI_API size_t demi_search_candidate_count(const DemiSearch *search);
DEMI_API const char *demi_search_candidate(const DemiSearch *search, size_t i);

/* What was decided about together. */
typedef struct DemiSearchGroup {
    const char *name;           /* of the first of its values */
    const char *node, *op_type; /* that makes it; "" where it is an input */
    size_t values, weights;     /* how many, and what they are called: */
    const char *const *value_names, *const *weight_names;
    double multiplications; /* of products that read it */
    double elements, weight_elements;
    const double *noise; /* [candidates]: of the outputs, by their signal, where it alone has that
                            candidate; of groups that save next to nothing their share of what
                            several together do; NaN: not measured */
    size_t candidate;    /* that it has in the result */
    const char *reason;  /* why, as a phrase */
} DemiSearchGroup;
DEMI_API size_t demi_search_group_count(const DemiSearch *search);
DEMI_API const DemiSearchGroup *demi_search_group(const DemiSearch *search, size_t i);

/* AIMET's lists, of its algorithms alone. What each candidate does to each group alone, in the order in
 * which it is applied; and the places of that list that were tried. */
typedef struct DemiSearchEntry {
    size_t group, candidate;
    double score;     /* of the group alone */
    double reduction; /* of the cost, by this alone */
} DemiSearchEntry;
DEMI_API size_t demi_search_entry_count(const DemiSearch *search);
DEMI_API const DemiSearchEntry *demi_search_entry(const DemiSearch *search, size_t i);

typedef struct DemiSearchPlace {
    double relative; /* cost, by where the search began */
    double score;
    size_t group, candidate; /* of the entry there */
    size_t entry;            /* its number */
} DemiSearchPlace;
DEMI_API size_t demi_search_place_count(const DemiSearch *search);
DEMI_API const DemiSearchPlace *demi_search_place(const DemiSearch *search, size_t i);

/* The result's conversion: DemiConvertOptions.policy; it lives as long as the search. */
DEMI_API const char *demi_search_policy(const DemiSearch *search);

#ifdef __cplusplus
}
#endif
#endif
