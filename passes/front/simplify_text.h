// SPDX-License-Identifier: Apache-2.0
/* What `demi simplify` runs, as text. */
#ifndef DEMI_SIMPLIFY_TEXT_H
#define DEMI_SIMPLIFY_TEXT_H

#include "demi.h"
#include "pipeline_put.h"

/* The passes after which results are the same bits. */
void simplify_put_exact(PipelineText *text);

/* All of them, for these options. */
void simplify_put(PipelineText *text, const DemiSimplifyOptions *options);

#endif
