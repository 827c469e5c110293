// SPDX-License-Identifier: Apache-2.0
/* Which nodes are to be kept in float for a mixed model to come near enough to its float model.
 *
 * They are those whose own computation in 16 bits brings the error: the error of what such a node
 * makes is far above that of what it reads, and outputs that are beyond the bound follow from it.
 * Where both models are at hand the advice is tried: the float model is converted anew with these
 * nodes kept, and what is then still beyond adds to the advice; where no such node is left, the
 * nodes are searched for by trial as convert --max-error does.
 */
#ifndef DEMI_COMPARE_ADVICE_H
#define DEMI_COMPARE_ADVICE_H

#include "compare_runs.h"
#include "outfile.h"

typedef enum AdviceState {
    ADVICE_NONE,    /* no node that runs in 16 bits brings an error */
    ADVICE_UNTRIED, /* a folder or plan can't be converted */
    ADVICE_REACHES, /* with the nodes kept the outputs are within the bound */
    ADVICE_FAILS,   /* no choice of nodes was found with which they are */
} AdviceState;

/* The first node, in order of execution, that brings an error. */
typedef struct AdviceFirst {
    const char *node, *op_type; /* node: NULL where there is none */
    const char *value, *type;
    ValueDiff diff;
    double before; /* the largest error of what it reads */
} AdviceFirst;

typedef struct Advice {
    AdviceState state;
    Words keep;   /* patterns, as --keep takes them */
    double error; /* REACHES, FAILS: of the outputs, by scale, with them kept */
    AdviceFirst first;
    DemiConvertOptions options; /* of a conversion with these kept */
} Advice;

typedef struct AdviceCase {
    Program *program;
    const Parsed *parsed;
    Comparison *comparison; /* of both models, judged */
    Session *reference, *other;
    bool may_try; /* both are models */
    bool beyond;  /* an output or pick is; else there is nothing to keep */
    const Limit *limit;
} AdviceCase;

/* What the comparison has found stays. */
void compare_advise(const AdviceCase *ac, Advice *advice);

/* Writes the conversion as a policy, for convert --policy. */
bool compare_write_policy(const AdviceCase *ac, const Advice *advice, OutFile *file, Err *err);

#endif
