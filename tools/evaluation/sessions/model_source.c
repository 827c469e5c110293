// SPDX-License-Identifier: Apache-2.0
/* Models that library calls open for themselves, and copies of their options; see model_source.h. */
#include "model_source.h"

#include <string.h>

#include "error_fill.h"

static void free_held(void *held) {
    model_drop(held);
}

DemiModel **model_hold(Arena *arena) {
    DemiModel **held = ARENA_NEW(arena, DemiModel *);
    arena_defer(arena, free_held, held);
    return held;
}

void model_drop(DemiModel **held) {
    demi_free(*held);
    *held = NULL;
}

DemiStatus demi_source_open(const DemiSource *source, DemiModel **model, DemiError *error) {
    return source->open ? source->open(source->open_user, model, error)
                        : demi_load_file(source->path, source->load, model, error);
}

bool model_open(const DemiSource *source, DemiModel **held, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    if (!source->open && !source->path)
        return err_set(err, ERR_USAGE, "a source of models without a path: set one, or `open`");
    DemiStatus status = demi_source_open(source, held, &error);
    if (error_take(err, status, &error)) return true;
    if (source->path) err_file(err, source->path);
    return false;
}

static const char *text_copy(Arena *arena, const char *text) {
    return text ? arena_copy(arena, text, strlen(text)) : NULL;
}

const char *const *texts_copy(Arena *arena, const char *const *texts, size_t count) {
    const char **copies = ARENA_ARRAY(arena, const char *, count + 1);
    for (size_t i = 0; i < count; i++) copies[i] = text_copy(arena, texts[i]);
    return copies;
}

void source_copy(Arena *arena, DemiSource *source) {
    source->path = text_copy(arena, source->path);
    if (source->load) source->load = arena_copy(arena, source->load, source->load->size);
}

void inputs_copy(Arena *arena, DemiInputOptions *inputs) {
    DemiInputValue *values = ARENA_ARRAY(arena, DemiInputValue, inputs->value_count + 1);
    for (size_t i = 0; i < inputs->value_count; i++) {
        values[i] = inputs->values[i];
        values[i].name = text_copy(arena, values[i].name);
    }
    inputs->values = values;
    inputs->data = text_copy(arena, inputs->data);
    inputs->hint = text_copy(arena, inputs->hint);
    inputs->files = texts_copy(arena, inputs->files, inputs->file_count);
    inputs->shapes = texts_copy(arena, inputs->shapes, inputs->shape_count);
    inputs->dims = texts_copy(arena, inputs->dims, inputs->dim_count);
}
