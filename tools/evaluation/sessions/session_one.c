// SPDX-License-Identifier: Apache-2.0
/* One input of a session: found by its name, read from a file, named in messages; see session.h. */
#include <string.h>

#include "session.h"
#include "text_distance.h"
#include "value_io.h"

bool session_blame(const Session *s, Arena *arena, size_t input, Err *err) {
    err_operand(err, "input '%s'", s->inputs[input].name);
    err_hint(err, "the inputs are: %s", session_list(arena, s->inputs, s->input_count));
    return false;
}

bool session_no_input(const Session *s, Arena *arena, const char *file, const char *name,
                      const char *option, Err *err) {
    NearestName nearest = nearest_name_of(name);
    for (size_t i = 0; i < s->input_count; i++) nearest_name_try(&nearest, s->inputs[i].name);
    if (option)
        err_set(err, ERR_USAGE, "the model has no input '%s' ('--%s')", name, option);
    else
        err_set(err, ERR_USAGE, "the model has no input '%s'", name);
    err_file(err, file);
    const char *list = session_list(arena, s->inputs, s->input_count);
    if (nearest.best)
        err_hint(err, "did you mean '%s'? the inputs are: %s", nearest.best, list);
    else
        err_hint(err, "the inputs are: %s", list);
    return false;
}

void session_take_value(Session *s, size_t i) {
    const DemiData *value = &s->values[i];
    s->given[i] = true;
    if (value->kind == DEMI_DATA_TENSOR_KIND)
        input_sizes_bind_shape(&s->sizes, i, &s->declared[i], value->dims, value->rank);
}

bool session_read_input(Session *s, Arena *arena, size_t i, const char *path, Err *err) {
    bool ok = value_read_file(arena, path, &s->inputs[i], &s->values[i], err) &&
              value_check(arena, &s->values[i], &s->inputs[i], err);
    if (!ok) {
        err_file(err, path);
        return session_blame(s, arena, i, err);
    }
    session_take_value(s, i);
    return true;
}
