// SPDX-License-Identifier: Apache-2.0
/* Models that library calls open for themselves (DemiSource): they end with an arena, however the
 * call ends. And copies of the options that say how. */
#ifndef DEMI_MODEL_SOURCE_H
#define DEMI_MODEL_SOURCE_H

#include "arena.h"
#include "demi_trials.h"
#include "err.h"

/* A place for a model, NULL at first, that is freed with the arena: what is opened there can't get
 * lost where memory runs out. */
DemiModel **model_hold(Arena *arena);
/* Frees the model before the arena ends. */
void model_drop(DemiModel **held);

/* Takes copies of what the caller's options hold that is used after the call: texts and lists. What
 * values and options of loading point at is borrowed. */
const char *const *texts_copy(Arena *arena, const char *const *texts, size_t count);
void source_copy(Arena *arena, DemiSource *source);
void inputs_copy(Arena *arena, DemiInputOptions *inputs);

/* The source's model, by its callback or from its path, one of which it has. */
DemiStatus demi_source_open(const DemiSource *source, DemiModel **model, DemiError *error);

/* Opens the source's model into a place that holds none. The error says its path. */
bool model_open(const DemiSource *source, DemiModel **held, Err *err);

#endif
