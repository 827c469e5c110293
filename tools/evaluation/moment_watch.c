// SPDX-License-Identifier: Apache-2.0
/* See moment_watch.h. Windows of a convolution are brought together a part at a time. Of large pictures, whose windows
 * overlap or resemble each other, some that lie evenly are enough. */
#include "moment_watch.h"

#include <math.h>
#include <string.h>

#include "dtype.h"
#include "qdq_scale.h"
#include "value_io.h"

enum {
    LEAST_ROOM = 1 << 20, /* floats of the buffer */
    LEAST_VECTORS = 64,   /* that it has room for at least */
    MOST_WINDOWS = 8192,  /* of a convolution in one run */
    TASK = 16,            /* vectors that a thread brings together at once */
    MOST_TAPS = 1024      /* of a convolution's kernel */
};

uint64_t moment_watch_bytes(const MomentRequest *request) {
    return request->groups * request->size * request->size * sizeof(float);
}

static WatchedName *name_of(MomentWatch *w, const char *name, Arena *arena) {
    const Sym sym = sym_intern_cstr(&w->names, name);
    if (sym->number >= w->values.count) VEC_PUSH(arena, &w->values, (WatchedName){0});
    return &w->values.items[sym->number];
}

MomentWatch moment_watch_new(const MomentRequest *requests, size_t count, Workers *workers,
                             Arena *arena) {
    MomentWatch w = {.count = count, .workers = workers, .room = LEAST_ROOM};
    sym_table_init(&w.names, arena);
    w.sums = ARENA_ARRAY(arena, MomentSums, count);
    w.odd = ARENA_ARRAY(arena, bool, count);
    for (size_t i = 0; i < count; i++) {
        const MomentRequest *r = &requests[i];
        w.sums[i] = (MomentSums){.groups = r->groups,
                                 .size = r->size,
                                 .sums = ARENA_ARRAY(arena, float, r->groups * r->size * r->size)};
        if (r->groups * r->size * LEAST_VECTORS > w.room)
            w.room = r->groups * r->size * LEAST_VECTORS;
        for (size_t k = 0; k < r->count; k++) {
            WatchedName *name = name_of(&w, r->rows[k].value, arena);
            const WatchedRows rows = {&r->rows[k], i, name->first};
            VEC_PUSH(arena, &w.rows, rows);
            name->first = w.rows.count;
        }
    }
    w.vectors = arena_alloc_raw(arena, w.room * sizeof(float));
    return w;
}

/* ---- windows --------------------------------------------------------------------------------- */

/* A convolution's operand, and the windows that it has. */
typedef struct Windows {
    const MomentWindow *window;
    const float *items;
    int64_t sizes[MOMENT_AXES], outs[MOMENT_AXES], begins[MOMENT_AXES];
    uint64_t channels, places, taps; /* places: of a channel, [sizes...]; taps: of the kernel */
    uint64_t all, step;              /* windows of a picture; which ones are taken */
    /* at hand: */
    float *vectors;
    uint64_t picture, first, count;
} Windows;

static bool find_outs(Windows *w, const DemiData *x) {
    const MomentWindow *window = w->window;
    w->all = w->places = w->taps = 1;
    for (uint32_t i = 0; i < window->axes; i++) {
        const int64_t size = x->dims[i + 2],
                      reach = (window->kernel[i] - 1) * window->dilations[i] + 1;
        int64_t begin = window->pads[i], end = window->pads[window->axes + i];
        int64_t out = (size + begin + end - reach) / window->strides[i] + 1;
        if (window->same) {
            out = (size + window->strides[i] - 1) / window->strides[i];
            const int64_t pads = (out - 1) * window->strides[i] + reach - size;
            begin = pads <= 0 ? 0 : window->same > 0 ? pads / 2 : (pads + 1) / 2;
        } else if (size + begin + end < reach) {
            return false;
        }
        w->sizes[i] = size;
        w->outs[i] = out;
        w->begins[i] = begin;
        w->all *= (uint64_t)out;
        w->places *= (uint64_t)size;
        w->taps *= (uint64_t)window->kernel[i];
    }
    return w->all > 0 && w->taps <= MOST_TAPS;
}

/* So that no column of a picture is left out where it is large. */
static uint64_t step_of(const Windows *w, uint64_t pictures) {
    const uint64_t row = (uint64_t)w->outs[w->window->axes - 1];
    uint64_t step = (w->all * pictures + MOST_WINDOWS - 1) / MOST_WINDOWS;
    while (step > 1 && row % step == 0) step++;
    return step;
}

/* Where in a channel the taps of a window lie; -1: in padding. */
static void find_taps(const Windows *w, uint64_t window, int64_t places[MOST_TAPS]) {
    int64_t at[MOMENT_AXES] = {0};
    for (uint32_t i = w->window->axes; i-- > 0; window /= (uint64_t)w->outs[i])
        at[i] = (int64_t)(window % (uint64_t)w->outs[i]) * w->window->strides[i] - w->begins[i];
    for (uint64_t t = 0; t < w->taps; t++) {
        uint64_t rest = t;
        int64_t place = 0, stride = 1;
        for (uint32_t i = w->window->axes; i-- > 0; rest /= (uint64_t)w->window->kernel[i]) {
            const int64_t tap = (int64_t)(rest % (uint64_t)w->window->kernel[i]);
            const int64_t x = at[i] + tap * w->window->dilations[i];
            place = place < 0 || x < 0 || x >= w->sizes[i] ? -1 : place + x * stride;
            stride *= w->sizes[i];
        }
        places[t] = place;
    }
}

static void bring_task(void *data, unsigned task, unsigned lane) {
    const Windows *w = data;
    const uint64_t first = task * (uint64_t)TASK,
                   end = first + TASK < w->count ? first + TASK : w->count;
    const float *items = w->items + w->picture * w->channels * w->places;
    int64_t places[MOST_TAPS];
    (void)lane;
    for (uint64_t v = first; v < end; v++) {
        float *to = w->vectors + v * w->channels * w->taps;
        find_taps(w, (w->first + v) * w->step, places);
        for (uint64_t c = 0; c < w->channels; c++)
            for (uint64_t t = 0; t < w->taps; t++)
                *to++ = places[t] < 0 ? 0 : items[c * w->places + (uint64_t)places[t]];
    }
}

static bool add_windows(const MomentWatch *watch, const WatchedRows *rows, const DemiData *x) {
    MomentSums *sums = &watch->sums[rows->sum];
    Windows w = {.window = &rows->rows->window, .items = x->data, .vectors = watch->vectors};
    if (x->rank != w.window->axes + 2 || !find_outs(&w, x)) return false;
    w.channels = (uint64_t)x->dims[1];
    if (w.channels * w.taps != sums->groups * sums->size) return false;
    w.step = step_of(&w, (uint64_t)x->dims[0]);
    const uint64_t taken = (w.all + w.step - 1) / w.step,
                   most = watch->room / (sums->groups * sums->size);
    for (w.picture = 0; w.picture < (uint64_t)x->dims[0]; w.picture++)
        for (w.first = 0; w.first < taken; w.first += w.count) {
            w.count = taken - w.first < most ? taken - w.first : most;
            workers_run(watch->workers, (unsigned)((w.count + TASK - 1) / TASK), bring_task, &w);
            moment_sums_add(sums, w.vectors, w.count, watch->workers);
        }
    return true;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Of a matrix that is read turned. */
static bool add_columns(const MomentWatch *watch, MomentSums *sums, const DemiData *x) {
    if (x->rank != 2 || (uint64_t)x->dims[0] != sums->size) return false;
    const uint64_t all = (uint64_t)x->dims[1], most = watch->room / sums->size;
    const float *items = x->data;
    for (uint64_t first = 0, count; first < all; first += count) {
        count = all - first < most ? all - first : most;
        for (uint64_t v = 0; v < count; v++)
            for (uint64_t k = 0; k < sums->size; k++)
                watch->vectors[v * sums->size + k] = items[k * all + first + v];
        moment_sums_add(sums, watch->vectors, count, watch->workers);
    }
    return true;
}

static uint64_t count_of(const DemiData *x) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < x->rank; i++) count *= (uint64_t)x->dims[i];
    return count;
}

static bool add_value(const MomentWatch *watch, const WatchedRows *rows, const DemiData *x) {
    MomentSums *sums = &watch->sums[rows->sum];
    if (rows->rows->window.axes) return add_windows(watch, rows, x);
    if (rows->rows->columns) return add_columns(watch, sums, x);
    if (x->rank < 1 || (uint64_t)x->dims[x->rank - 1] != sums->size) return false;
    moment_sums_add(sums, x->data, count_of(x) / sums->size, watch->workers);
    return true;
}

static void note_floats(MomentWatch *w, Sym name, const DemiData *x) {
    if (!w->bad && !qdq_weights_finite(x->data, count_of(x))) w->bad = name->text;
    for (size_t i = w->values.items[name->number].first; i; i = w->rows.items[i - 1].next) {
        const WatchedRows *rows = &w->rows.items[i - 1];
        if (!add_value(w, rows, x)) w->odd[rows->sum] = true;
    }
}

/* Of a model in 16 bits or double, the numbers that its values have in float32. */
static void note(MomentWatch *w, Sym name, const DemiData *x) {
    const Dtype dtype = (Dtype)x->dtype;
    if (x->kind != DEMI_DATA_TENSOR_KIND || !count_of(x)) return;
    if (dtype == DTYPE_FLOAT) {
        note_floats(w, name, x);
    } else if (dtype_is_float(dtype) && dtype_bits(dtype) >= 16) {
        const DemiData wide = value_convert(&w->scratch, x, DTYPE_FLOAT);
        note_floats(w, name, &wide);
        arena_free(&w->scratch);
    }
}

void moment_watch_begin(MomentWatch *w) {
    for (size_t i = 0; i < w->values.count; i++) w->values.items[i].noted = false;
}

static void note_step(MomentWatch *w, const DemiStep *step) {
    for (size_t i = 0; i < step->input_count; i++) {
        const Sym name = sym_find(&w->names, step->input_names[i], strlen(step->input_names[i]));
        WatchedName *value = name ? &w->values.items[name->number] : NULL;
        if (!value || value->made || value->noted) continue;
        value->noted = true;
        note(w, name, &step->inputs[i]);
    }
    for (size_t i = 0; i < step->output_count; i++) {
        const Sym name = sym_find(&w->names, step->output_names[i], strlen(step->output_names[i]));
        if (!name) continue;
        w->values.items[name->number].made = true;
        note(w, name, &step->outputs[i]);
    }
}

void moment_watch_step(void *data, const DemiStep *step) {
    MomentWatch *w = data;
    if (w->failed) return;
    if (setjmp(w->trap.env)) {
        arena_free(&w->scratch);
        w->failed = true;
        return;
    }
    arena_init(&w->scratch, &w->trap);
    note_step(w, step);
}
