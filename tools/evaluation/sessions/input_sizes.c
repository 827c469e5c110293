// SPDX-License-Identifier: Apache-2.0
/* Open sizes by name; see input_sizes.h. */
#include "input_sizes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"

/* ---- what a size is of ----------------------------------------------------------------------- */

static bool has_word(const char *name, const char *const *words) {
    for (; *words; words++) {
        size_t length = strlen(*words);
        for (const char *at = name; *at; at++) {
            size_t i = 0;
            while (i < length && (at[i] | 32) == (*words)[i]) i++;
            if (i == length) return true;
        }
    }
    return false;
}

static bool is_letter(const char *name, const char *letters) {
    return name[0] && !name[1] && strchr(letters, name[0] | 32);
}

/* Planes come before (NCHW) or after them (NHWC). */
static bool is_image_axis(const DemiPlanIo *io, uint32_t axis) {
    bool last = io->rank >= 4 && io->dims[io->rank - 1] > 0 && io->dims[io->rank - 1] <= 4;
    if (io->rank < 4 || io->kind != DEMI_DATA_TENSOR_KIND) return false;
    return last ? axis > 0 && axis + 1 < io->rank : axis > 1;
}

/* Of a recurrent layer's state it is layers, batch, width. */
static bool is_state_batch(const DemiPlanIo *io, uint32_t axis) {
    static const char *const state[] = {"state", "hidden", "h0", "c0", NULL};
    if (io->rank != 3 || axis != 1 || io->dims[0] < 0 || io->dims[2] < 0) return false;
    return io->dims[0] > 1 || has_word(io->name, state);
}

static InputSizeKind kind_of(const DemiPlanIo *io, uint32_t axis, const char *name) {
    static const char *const batch[] = {"batch", NULL}, *const past[] = {"past", "cache", NULL},
                             *const image[] = {"height", "width", NULL},
                             *const sequence[] = {"seq",  "len",    "time", "frame", "token",
                                                  "step", "sample", "word", NULL};
    if (has_word(name, batch) || is_letter(name, "bn")) return INPUT_SIZE_BATCH;
    if (has_word(name, past)) return INPUT_SIZE_PAST;
    if (has_word(name, image) || is_letter(name, "hw")) return INPUT_SIZE_IMAGE;
    if (has_word(name, sequence) || is_letter(name, "stl")) return INPUT_SIZE_SEQUENCE;
    if (axis == 0 || is_state_batch(io, axis)) return INPUT_SIZE_BATCH;
    if (is_image_axis(io, axis)) return INPUT_SIZE_IMAGE;
    if (io->rank >= 4 && axis == 1) return INPUT_SIZE_CHANNELS;
    return INPUT_SIZE_SEQUENCE;
}

/* ---- the list -------------------------------------------------------------------------------- */

/* "?" is how some exporters spell that there is no name. */
static const char *name_at(const DemiPlanIo *io, uint32_t axis) {
    const char *name = io->dim_names ? io->dim_names[axis] : NULL;
    return name && strcmp(name, "?") != 0 && strcmp(name, "-1") != 0 ? name : "";
}

static InputSize *find(const InputSizes *sizes, const char *name) {
    for (size_t i = 0; name[0] && i < sizes->items.count; i++)
        if (strcmp(sizes->items.items[i].name, name) == 0) return &sizes->items.items[i];
    return NULL;
}

static InputSize *find_axis(const InputSizes *sizes, size_t input, uint32_t axis,
                            const char *name) {
    if (name[0]) return find(sizes, name);
    for (size_t i = 0; i < sizes->items.count; i++) {
        InputSize *size = &sizes->items.items[i];
        if (!size->name[0] && size->input == input && size->axis == axis) return size;
    }
    return NULL;
}

void input_sizes_find(InputSizes *sizes, const DemiPlanIo *inputs, size_t count, Arena *arena) {
    *sizes = (InputSizes){.arena = arena};
    for (size_t i = 0; i < count; i++)
        for (uint32_t axis = 0; inputs[i].has_rank && axis < inputs[i].rank; axis++) {
            const char *name = name_at(&inputs[i], axis);
            if (inputs[i].dims[axis] >= 0 || find_axis(sizes, i, axis, name)) continue;
            InputSize size = {name, i, axis, kind_of(&inputs[i], axis, name), INPUT_SIZE_OPEN, -1};
            VEC_PUSH(arena, &sizes->items, size);
        }
}

void input_sizes_reset(InputSizes *sizes) {
    for (size_t i = 0; i < sizes->items.count; i++) {
        sizes->items.items[i].state = INPUT_SIZE_OPEN;
        sizes->items.items[i].size = -1;
    }
}

static void bind(InputSize *size, int64_t to) {
    if (!size || size->state == INPUT_SIZE_BOUND) return;
    size->state = INPUT_SIZE_BOUND;
    size->size = to;
}

bool input_sizes_bind(InputSizes *sizes, const char *name, int64_t size) {
    bind(find(sizes, name), size);
    return find(sizes, name) != NULL;
}

void input_sizes_bind_shape(InputSizes *sizes, size_t input, const DemiPlanIo *declared,
                            const int64_t *dims, uint32_t rank) {
    if (!declared->has_rank || declared->rank != rank) return;
    for (uint32_t axis = 0; axis < rank; axis++)
        if (declared->dims[axis] < 0)
            bind(find_axis(sizes, input, axis, name_at(declared, axis)), dims[axis]);
}

int64_t input_sizes_of(const InputSizes *sizes, const char *name) {
    const InputSize *size = find(sizes, name);
    return size ? size->size : -1;
}

const int64_t *input_sizes_dims(const InputSizes *sizes, size_t input, const DemiPlanIo *declared) {
    int64_t *dims = ARENA_ARRAY(sizes->arena, int64_t, declared->rank + 1);
    for (uint32_t axis = 0; axis < declared->rank; axis++) {
        const InputSize *size = find_axis(sizes, input, axis, name_at(declared, axis));
        dims[axis] = declared->dims[axis] >= 0 || !size ? declared->dims[axis] : size->size;
    }
    return dims;
}

/* ---- assuming -------------------------------------------------------------------------------- */

static int64_t stretched(int64_t base, InputSizeKind kind, unsigned variant) {
    if (base <= 1 || variant == 0) return base;
    if (kind ==
        INPUT_SIZE_IMAGE) /* multiples of 32 stay such: halvings of an image come out even */
        return variant % 4 == 1 ? base + base / 2 : variant % 4 == 3 ? 2 * base : base;
    return variant % 4 == 1 ? base + base / 2 : variant % 4 == 2 ? base / 2 - 1 : 2 * base + 1;
}

static int64_t assumed(InputSizeKind kind, unsigned attempt, unsigned variant) {
    static const int64_t images[INPUT_SIZE_ATTEMPTS] = {64, 224, 256, 640, 1},
                         sequences[INPUT_SIZE_ATTEMPTS] = {16, 64, 512, 16000, 1},
                         pasts[INPUT_SIZE_ATTEMPTS] = {8, 8, 0, 0, 1};
    switch (kind) {
    case INPUT_SIZE_BATCH: return 1;
    case INPUT_SIZE_CHANNELS: return attempt + 1 < INPUT_SIZE_ATTEMPTS ? 3 : 1;
    case INPUT_SIZE_IMAGE: return stretched(images[attempt], kind, variant);
    case INPUT_SIZE_SEQUENCE: return stretched(sequences[attempt], kind, variant);
    case INPUT_SIZE_PAST: return pasts[attempt];
    }
    return 1;
}

/* A number or a name, at *text, which is moved past it; -1 where it is neither, or open. */
static int64_t term(const InputSizes *sizes, const char **text) {
    char name[256];
    size_t size = 0;
    while (**text == ' ' || **text == '(' || **text == ')') ++*text;
    while (**text && !strchr(" +*()", **text) && size + 1 < sizeof name) name[size++] = *(*text)++;
    name[size] = '\0';
    while (**text == ' ' || **text == ')') ++*text;
    if (name[0] >= '0' && name[0] <= '9') return strtol(name, NULL, 10);
    return name[0] ? input_sizes_of(sizes, name) : -1;
}

/* What "a + b" or "2*a" comes to; -1 for anything else. */
static int64_t sum(const InputSizes *sizes, const char *text) {
    int64_t total = term(sizes, &text);
    while (total >= 0 && *text) {
        char op = *text++;
        int64_t next = term(sizes, &text), limit = INT32_MAX;
        if (next < 0 || next > limit || total > limit || (op != '+' && op != '*')) return -1;
        total = op == '+' ? total + next : total * next;
    }
    return total;
}

static bool is_sum(const char *name) {
    return strpbrk(name, "+*") != NULL;
}

/* "total_sequence_length", of what is past and what is new. */
static int64_t total_of(const InputSizes *sizes) {
    int64_t past = -1, sequence = -1;
    for (size_t i = 0; i < sizes->items.count; i++) {
        const InputSize *size = &sizes->items.items[i];
        if (is_sum(size->name)) continue;
        if (size->kind == INPUT_SIZE_PAST && past < 0) past = size->size;
        if (size->kind == INPUT_SIZE_SEQUENCE && !strstr(size->name, "total") && sequence < 0)
            sequence = size->size;
    }
    return past >= 0 && sequence >= 0 ? past + sequence : -1;
}

bool input_sizes_assume(InputSizes *sizes, unsigned attempt, unsigned variant) {
    bool any = false;
    for (size_t i = 0; i < sizes->items.count; i++) {
        InputSize *size = &sizes->items.items[i];
        if (size->state == INPUT_SIZE_BOUND) continue;
        size->state = INPUT_SIZE_ASSUMED;
        size->size = assumed(size->kind, attempt, variant);
    }
    for (size_t i = 0; i < sizes->items.count; i++) {
        InputSize *size = &sizes->items.items[i];
        if (size->state == INPUT_SIZE_BOUND) continue;
        int64_t made = is_sum(size->name)            ? sum(sizes, size->name)
                       : strstr(size->name, "total") ? total_of(sizes)
                                                     : -1;
        if (made >= 0) size->size = made;
        any = any || size->size != 1;
    }
    return any;
}

/* ---- saying it ------------------------------------------------------------------------------- */

const char *input_sizes_text(const InputSizes *sizes, const DemiPlanIo *inputs) {
    const char *text = "";
    for (size_t i = 0; i < sizes->items.count; i++) {
        const InputSize *size = &sizes->items.items[i];
        if (size->state != INPUT_SIZE_ASSUMED) continue;
        const char *name = size->name[0] ? size->name
                                         : arena_printf(sizes->arena, "axis %u of %s", size->axis,
                                                        inputs[size->input].name);
        text = arena_printf(sizes->arena, "%s%s%s %" PRId64, text, text[0] ? ", " : "", name,
                            size->size);
    }
    return text;
}

const char *input_sizes_names(const InputSizes *sizes) {
    const char *text = "";
    for (size_t i = 0; i < sizes->items.count; i++)
        if (sizes->items.items[i].name[0])
            text = arena_printf(sizes->arena, "%s%s%s", text, text[0] ? ", " : "",
                                sizes->items.items[i].name);
    return text;
}
