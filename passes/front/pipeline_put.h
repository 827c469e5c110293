// SPDX-License-Identifier: Apache-2.0
/* Writing the text of a pipeline, pass by pass: what a conversion and a simplification are made of. */
#ifndef DEMI_PIPELINE_PUT_H
#define DEMI_PIPELINE_PUT_H

#include <stdbool.h>
#include <stddef.h>

#include "arena.h"
#include "vec.h"

/* Starts as {.arena = …}, which the text is of. */
typedef struct PipelineText {
    Arena *arena;
    VEC(char) out;
    bool options; /* of the pass being written: one was */
} PipelineText;

/* A pass begins, and its options end. */
void pipeline_put_pass(PipelineText *text, const char *name);
void pipeline_end_pass(PipelineText *text);

/* An option of the pass: a key with a word; with a JSON string, which may hold any character; with a
 * list of such. An empty list is left out. */
void pipeline_put_choice(PipelineText *text, const char *key, const char *value);
void pipeline_put_string(PipelineText *text, const char *key, const char *value);
/* Options as text, "a=1,b=2"; nothing where it is empty. */
void pipeline_put_options(PipelineText *text, const char *options);
void pipeline_put_list(PipelineText *text, const char *key, const char *const *items, size_t count);

/* The whole text, NUL-terminated. */
const char *pipeline_text(PipelineText *text);

#endif
