// SPDX-License-Identifier: Apache-2.0
/* Passes and pipelines.
 *
 * A pass is a row of a table: name, contract, options, function. A pipeline is text,
 *
 *     infer-dtypes,insert-casts{to=float16,keep=["/a/b"]},fuse-casts
 *
 * parsed against a table that the caller hands in, checked as a whole (each pass's needs are given
 * by an earlier pass and not broken in between) before anything runs. Printing a parsed pipeline
 * and parsing it again is the identity.
 *
 * Grammar: pipeline = [ pass { "," pass } ]; pass = name [ "{" option { "," option } "}" ];
 * option = key "=" value; value = word | string | "[" [ value { "," value } ] "]";
 * word = characters other than , { } [ ] = " and space; string = JSON string in double quotes.
 * Spaces between tokens mean nothing. '_' and '-' are equal in option keys. An option is given
 * once.
 */
#ifndef DEMI_PASS_H
#define DEMI_PASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data_rounding.h"
#include "statistics.h"
#include "graph.h"
#include "source.h"
#include "tensor_statistics.h"

/* Facts about a model that a pass may need, give or break. */
typedef enum PassFact {
    FACT_DTYPES = 1 << 0, /* every value's type->dtype is exact */
    FACT_SHAPES = 1 << 1, /* shapes are as exact as infer-shapes can make them */
} PassFact;

/* Where the text goes that a pass writes: `print`, and passes of plug-ins. */
typedef struct TextSink {
    void (*write)(void *data, const char *text, size_t size);
    void *data;
} TextSink;

/* What became of a constant that the target type can't hold exactly enough. */
typedef enum LossFate {
    LOSS_STORED,  /* stored in the target type: overflow is Inf, underflow 0 */
    LOSS_CLAMPED, /* stored so, overflow as the largest finite value */
    LOSS_KEPT,    /* stays; what reads it stays in fp32 */
} LossFate;

typedef struct TensorLoss {
    struct TensorLoss *next;
    const char *name; /* of the value, or of the attribute */
    LossFate fate;
    ValueStatistics statistics;
} TensorLoss;

/* Something that a pass left undone, or did otherwise than its user would expect. */
typedef struct PassRemark {
    struct PassRemark *next;
    const char *text; /* one line */
} PassRemark;

typedef struct PassCounts {
    uint64_t rewrites; /* by the pass that runs; pipelines read and reset it */
    uint64_t casts_added, casts_removed, casts_fused; /* over the whole pipeline */
    uint64_t overflow, underflow, subnormal; /* values of constants that the target can't hold */
    TensorLoss *losses, *last_loss;          /* by constant, in the order they were met */
    PassRemark *remarks;                     /* newest first */
} PassCounts;

/* Appends a copy of `loss`, made in `arena`, which must outlive the pipeline; the name is
 * borrowed. */
void pass_note_loss(PassCounts *counts, Arena *arena, TensorLoss loss);

/* Remarks `text`, which is borrowed, as the list's memory is taken from `arena`: both must outlive
 * the pipeline. */
void pass_remark(PassCounts *counts, Arena *arena, const char *text);

/* Where a pass's one artifact goes, piece by piece: lower-plan's plan. A sink that keeps it in this
 * process's memory may have `map`, which is called once, before anything is written: files that the
 * artifact, of `size` bytes, refers to instead of holding what they have. They lie behind it, in this
 * order, each `at` that many bytes from its first one. */
typedef struct ArtifactSink {
    bool (*write)(void *data, const void *bytes, size_t size, Err *err);
    bool (*map)(void *data, uint64_t size, const MappedFile *files, size_t count,
                Err *err); /* NULL: it holds all */
    void *data;
} ArtifactSink;

typedef struct PassCtx {
    Model *model;
    Arena *scratch;               /* freed after each pass */
    const TextSink *text;         /* NULL: text is dropped */
    const ArtifactSink *artifact; /* NULL: it is dropped */
    PassCounts *counts;
    StatisticsMemo *statistics;   /* of the model's tensors; what passes that narrow them ask */
    const struct PassInfo *pass;  /* the one that runs; pipelines set it */
    uint32_t facts;               /* PassFact bits that hold before it; pipelines keep them */
    bool sketch;                  /* nobody will read what constants become: large ones need not be
                                    read nor made, and count as finite */
    DataRounding *rounding;       /* of weights, for insert-qdq; NULL: there is no data */
    struct ChannelData *channels; /* for equalize (channel_data.h); NULL: there is no data */
    bool spends; /* nobody reads the model behind the passes: the last may empty it */
} PassCtx;

typedef enum PassOptionKind {
    OPTION_BOOL,    /* bool: true | false */
    OPTION_INT,     /* int64_t */
    OPTION_STRING,  /* const char *, NULL by default */
    OPTION_STRINGS, /* PassStrings */
    OPTION_CHOICE,  /* int: index into choices */
} PassOptionKind;

typedef struct PassStrings {
    const char **items;
    size_t count;
} PassStrings;

/* One option of a pass: writes at `offset` of the pass's options struct. */
typedef struct PassOption {
    const char *name;
    PassOptionKind kind;
    size_t offset;
    const char *const *choices; /* CHOICE: NULL-terminated names */
    const char *otherwise;      /* default, as text; NULL: zeroed */
    const char *help;
} PassOption;

typedef struct PassInfo {
    const char *name, *summary;
    uint32_t needs, gives, breaks; /* PassFact bits */
    const PassOption *options;     /* ended by a row without name; NULL: none */
    size_t options_size;           /* of the options struct */
    bool idempotent;               /* a second run changes nothing */
    bool foreign;                  /* a plug-in's */
    bool keeps_shapes;             /* what it changes is element types and casts, if anything */
    bool (*run)(PassCtx *ctx, const void *options, Err *err);
} PassInfo;

/* What a pass was called in an earlier version. */
typedef struct FormerName {
    const char *former, *name;
} FormerName;

typedef struct PassTable {
    const PassInfo *const *passes;
    size_t count;
    const FormerName *former; /* accepted for the passes of these names; never printed */
    size_t former_count;
} PassTable;

typedef struct PassStep {
    const PassInfo *info;
    void *options; /* info->options_size bytes, defaults filled in */
} PassStep;

typedef struct Pipeline {
    VEC(PassStep) steps;
} Pipeline;

/* The pass of that name, or of that former name; NULL: there is none. */
const PassInfo *pass_find(const PassTable *table, const char *name, size_t length);

/* Parses into `arena`. ERR_USAGE with the offending text, and near names for unknown ones. */
bool pipeline_parse(const PassTable *table, Arena *arena, const char *text, Pipeline *pipeline,
                    Err *err);

/* Canonical text; options that have their default value are left out. */
const char *pipeline_print(const Pipeline *pipeline, Arena *arena);

/* ERR_USAGE where a pass needs a fact that no earlier pass gives, or that was broken since. */
bool pipeline_check(const Pipeline *pipeline, Err *err);

typedef struct PipelineOptions {
    bool verify_each; /* a check after every pass; a failure names the pass */
    bool (*check)(Model *model, Arena *scratch,
                  Err *err); /* it, and behind foreign passes anyway; NULL:
                                                              model_verify, if verify_each */
    void (*after)(void *data, const PassStep *step, const PassCounts *counts, double seconds);
    void *data; /* for after; may be NULL */
} PipelineOptions;

/* Checks, then runs every step. ctx->scratch is freed after each. Stops at the first error. */
bool pipeline_run(const Pipeline *pipeline, PassCtx *ctx, const PipelineOptions *options, Err *err);

#endif
