// SPDX-License-Identifier: Apache-2.0
#include "model_source.h"

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

bool model_open(const DemiSource *source, DemiModel **held, Err *err) {
    DemiError error = DEMI_ERROR_INIT;
    if (!source->open && !source->path)
        return err_set(err, ERR_USAGE, "a source of models without a path: set one, or `open`");
    DemiStatus status = source->open ? source->open(source->open_user, held, &error)
                                     : demi_load_file(source->path, source->load, held, &error);
    if (error_take(err, status, &error)) return true;
    if (source->path) err_file(err, source->path);
    return false;
}
