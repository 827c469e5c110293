// SPDX-License-Identifier: Apache-2.0
/* What `demi simplify` runs, as text. */
#ifndef DEMI_SIMPLIFY_TEXT_H
#define DEMI_SIMPLIFY_TEXT_H

#include "demi.h"
#include "graph.h"
#include "pipeline_put.h"

/* The passes after which results are the same bits. */
void simplify_put_exact(PipelineText *text);

/* Which inputs with defaults become constants. */
typedef struct Freeze {
    bool all; /* from IR version 4 on, too */
    const char *const *fed;
    size_t fed_count;
} Freeze;

/* True where an input has a default. */
bool freeze_can(const Model *model);

/* freeze-inputs, where it has something to do. */
void freeze_put(PipelineText *text, const Model *model, const Freeze *freeze);

/* All of them, for these options. */
void simplify_put(PipelineText *text, const DemiSimplifyOptions *options);

#endif
