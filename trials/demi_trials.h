// SPDX-License-Identifier: Apache-2.0
/* Holding models against each other: what differs between two files, and whether one is the other
 * but for precision.
 *
 *     DemiError error = DEMI_ERROR_INIT;
 *     DemiSource reference = DEMI_SOURCE_INIT;
 *     DemiModel *model = NULL;
 *     reference.path = "model.onnx";
 *     if (demi_load_file("model.fp16.onnx", NULL, &model, &error) == DEMI_OK &&
 *         demi_against(model, &reference, NULL, print_line, NULL, &error) == DEMI_OK)
 *         ...
 *     demi_free(model);
 *
 * Conventions are demi.h's: opaque handles with a free function that accepts NULL, a DemiStatus and
 * a DemiError of the caller's, structures that begin with their size, callbacks in the calling
 * thread. Nothing is printed, and no signal is caught: who wants an end says so from a callback.
 */
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

#define DEMI_SOURCE_INIT {sizeof(DemiSource), NULL, NULL, NULL, NULL}

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
    const char *graph;   /* path; "" for the main graph */
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

#define DEMI_DIFF_OPTIONS_INIT {sizeof(DemiDiffOptions), false}

/* Calls `visit` for each difference between two models, in a's order, then what only b has. Parts
 * are matched by name, nodes without one by their first output's; weights are compared by value and
 * read in pieces. Order, doc strings, metadata and where weights are stored do not count. The models
 * stay as they are. DEMI_ERR_MODEL or DEMI_ERR_ENV where weights can't be read. */
DEMI_API DemiStatus demi_diff(DemiModel *a, DemiModel *b, const DemiDiffOptions *options,
                              DemiDiffFn visit, void *user, DemiError *error);

/* ---- one model but for precision ------------------------------------------------------------- */

typedef struct DemiAgainstOptions {
    uint32_t size;
    const DemiConvertOptions *made_by; /* the model must also be what this conversion makes of the
                                          reference; NULL: any will do */
} DemiAgainstOptions;

#define DEMI_AGAINST_OPTIONS_INIT {sizeof(DemiAgainstOptions), NULL}

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
                                 const DemiAgainstOptions *options, DemiAgainstFn visit,
                                 void *user, DemiError *error);

#ifdef __cplusplus
}
#endif
#endif
