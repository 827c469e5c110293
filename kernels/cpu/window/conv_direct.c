// SPDX-License-Identifier: Apache-2.0
/* Direct convolutions; see conv_direct.h.
 *
 * float: a group's input planes are copied with their padding, so that the inner loop knows no
 * borders, or it masks what lies beyond them where the instruction set can; then each row of
 * outputs is a sum over taps. One axis counts as two, the first of size 1.
 */
#include "conv_direct.h"

#include <string.h>

#include "kernel_parts.h"
#include "tap_lines.h"

enum { FEW_FILTERS = 8, SLACK = 32, AT_ONCE = 8, SMALL_PLANE = 2048 };

bool conv_direct_suits(const ConvOperands *conv) {
    const Window *w = conv->window;
    return w->groups > 1 && conv->filters < FEW_FILTERS && w->rank >= 1 && w->rank <= 2;
}

typedef struct Planes {
    const ConvOperands *conv;
    WindowAxis y, x;
    uint64_t height, width; /* of a padded plane */
    bool copied;            /* false: the input needs no padding and is used as it is, or */
    bool edges;             /* the loops know where it ends */
    const TapLoops *loops;
    const KernelCall *call;
} Planes;

static uint64_t padded_size(const WindowAxis *axis) {
    return (uint64_t)((axis->out - 1) * axis->stride + (axis->taps - 1) * axis->dilation + 1);
}

static Planes planes_of(const KernelCall *call, const ConvOperands *conv) {
    const Window *w = conv->window;
    Planes p = {.conv = conv, .call = call, .loops = tap_loops(isa_here())};
    p.y = (WindowAxis){.in = 1, .out = 1, .taps = 1, .stride = 1, .dilation = 1};
    if (w->rank == 2) p.y = w->axes[0];
    p.x = w->axes[w->rank - 1];
    p.height = padded_size(&p.y);
    p.width = padded_size(&p.x);
    p.copied = p.y.begin || p.x.begin || p.height > (uint64_t)p.y.in || p.width > (uint64_t)p.x.in;
    p.edges = p.copied && p.loops->edges && p.y.taps == 3 && p.x.taps == 3 && p.x.dilation == 1 &&
              p.y.dilation == 1 && p.x.stride == p.y.stride && p.x.stride <= 2;
    if (p.edges) p.copied = false;
    if (!p.copied) p.width = (uint64_t)p.x.in;
    return p;
}

static void copy_plane(const Planes *p, const float *from, float *to) {
    const TapPlane plane = {.from = from,
                            .in_height = (uint64_t)p->y.in,
                            .in_width = (uint64_t)p->x.in,
                            .top = (uint64_t)p->y.begin,
                            .left = (uint64_t)p->x.begin,
                            .height = p->height,
                            .width = p->width};
    p->loops->pad(to, &plane);
}

/* One filter's output plane from the group's padded planes. False where the run ended before. */
static bool run_filter(const Planes *p, const float *planes, uint64_t plane, uint64_t filter,
                       float *y, unsigned lane) {
    const ConvOperands *conv = p->conv;
    Taps taps = {.row = p->width * (uint64_t)p->y.dilation,
                 .rows = (uint32_t)p->y.taps,
                 .taps = (uint32_t)p->x.taps,
                 .stride = (uint64_t)p->x.stride,
                 .step = (uint64_t)p->x.dilation,
                 .lines = (uint64_t)p->y.out,
                 .line = (uint64_t)p->y.stride * p->width,
                 .count = (uint64_t)p->x.out};
    const TapEdges edges = {.in_height = (uint64_t)p->y.in,
                            .in_width = (uint64_t)p->x.in,
                            .top = (uint64_t)p->y.begin,
                            .left = (uint64_t)p->x.begin};
    if (conv->bias) taps.bias = ((const float *)conv->bias)[filter];
    for (uint64_t c = 0; c < conv->channels; c++) {
        taps.weights =
            (const float *)conv->weights + (filter * conv->channels + c) * conv->window->taps;
        taps.add = c > 0;
        taps.from = planes + c * plane;
        if (p->edges)
            p->loops->edges(y, &taps, &edges);
        else if (!tap_lines(p->call, lane, p->loops->taps, y, &taps))
            return false;
    }
    return true;
}

/* Plane `plane` of y, of all images and groups. */
static void finish_plane(const ConvOperands *conv, uint64_t plane, float *y) {
    const uint64_t out = conv->window->out;
    Epilogue epilogue = *conv->epilogue;
    if (epilogue.residual) epilogue.residual += plane * out;
    epilogue_apply(&epilogue, &(EpilogueBlock){.y = y, .y_row = out, .rows = 1, .columns = out});
}

/* Planes of several groups are copied before the first is used: what was just stored is slow to
 * load in other pieces. */
typedef struct DirectTask {
    uint64_t first, count; /* groups of all images */
    uint64_t plane;
    float *buffer; /* NULL: not copied */
    unsigned lane;
} DirectTask;

static void run_groups(const Planes *p, const DirectTask *task) {
    const ConvOperands *conv = p->conv;
    const Window *w = conv->window;
    const float *x = (const float *)conv->x + task->first * conv->channels * w->in;
    for (uint64_t c = 0; task->buffer && c < task->count * conv->channels; c++)
        copy_plane(p, x + c * w->in, task->buffer + c * task->plane);
    if (task->buffer) x = task->buffer;
    for (uint64_t i = 0; i < task->count; i++) {
        uint64_t group = task->first + i;
        for (uint64_t f = 0; f < conv->filters; f++) {
            float *y = (float *)conv->y + (group * conv->filters + f) * w->out;
            if (!run_filter(p, x + i * conv->channels * task->plane, task->plane,
                            group % w->groups * conv->filters + f, y, task->lane))
                return;
            if (conv->epilogue) finish_plane(conv, group * conv->filters + f, y);
        }
    }
}

typedef struct DirectJob {
    const Planes *planes;
    uint64_t groups, together, plane; /* all of them; those of a task; elements of a plane */
    float *buffers;                   /* one a lane, NULL: none is needed */
    uint64_t size;                    /* of a buffer */
} DirectJob;

static void direct_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const DirectJob *job = data;
    for (uint64_t i = first; i < end; i++) {
        DirectTask task = {
            .first = i * job->together, .count = job->together, .plane = job->plane, .lane = lane};
        if (task.count > job->groups - task.first) task.count = job->groups - task.first;
        if (job->buffers) task.buffer = job->buffers + job->size * lane;
        run_groups(job->planes, &task);
    }
}

void conv_direct(KernelCall *call, const ConvOperands *conv) {
    const Window *w = conv->window;
    const Planes p = planes_of(call, conv);
    uint64_t groups = conv->images * w->groups, plane = p.copied ? p.height * p.width : w->in;
    uint64_t together = plane * conv->channels < SMALL_PLANE ? AT_ONCE : 1;
    uint64_t tasks = (groups + together - 1) / together;
    double work = (double)groups * (double)(conv->filters * conv->channels) * (double)w->taps *
                  (double)w->out;
    DirectJob job = {.planes = &p, .groups = groups, .together = together, .plane = plane};
    job.size = together * conv->channels * plane + SLACK;
    if (p.copied)
        job.buffers = arena_array(call->scratch, kernel_threads(call), job.size * sizeof(float));
    kernel_run_parts(call->workers, kernel_work_cut(call, work, tasks), direct_part, &job);
}

/* ---- double ---------------------------------------------------------------------------------- */

static void add_tap(const Window *w, const double *x, double weight, const int64_t *tap,
                    WindowOverlap *o, double *y) {
    if (!window_overlap(w, tap, o)) return;
    do {
        for (int64_t k = 0; k < o->count; k++) y[o->out + k] += weight * x[o->in + k * o->step];
    } while (window_overlap_next(w, tap, o));
}

static void run_double(const KernelCall *call, const ConvOperands *conv, uint64_t task,
                       int64_t *index, unsigned lane) {
    const Window *w = conv->window;
    enum { WORK_BETWEEN = 1 << 20 };
    uint64_t work = 0;
    uint64_t filter = task % (w->groups * conv->filters),
             image = task / (w->groups * conv->filters);
    uint64_t group = filter / conv->filters;
    const double *x =
        (const double *)conv->x + (image * w->groups + group) * conv->channels * w->in;
    const double *weight = (const double *)conv->weights + filter * conv->channels * w->taps;
    double *y = (double *)conv->y + task * w->out;
    double bias = conv->bias ? ((const double *)conv->bias)[filter] : 0;
    for (uint64_t i = 0; i < w->out; i++) y[i] = bias;
    WindowOverlap overlap = {.first = index + w->rank,
                             .last = index + 2 * (uint64_t)w->rank,
                             .index = index + 3 * (uint64_t)w->rank};
    for (uint64_t c = 0; c < conv->channels; c++, x += w->in) {
        memset(index, 0, w->rank * sizeof *index);
        for (uint64_t t = 0; t < w->taps; t++, window_next_tap(w, index)) {
            add_tap(w, x, *weight++, index, &overlap, y);
            work += w->out;
            if (work < WORK_BETWEEN) continue;
            if (kernel_ended(call, lane)) return;
            work = 0;
        }
    }
}

typedef struct DoubleJob {
    const KernelCall *call;
    const ConvOperands *conv;
    int64_t *indices; /* `size` of them a lane */
    uint64_t size;
} DoubleJob;

static void double_part(const void *data, uint64_t first, uint64_t end, unsigned lane) {
    const DoubleJob *job = data;
    for (uint64_t task = first; task < end; task++)
        run_double(job->call, job->conv, task, job->indices + job->size * lane, lane);
}

void conv_double(KernelCall *call, const ConvOperands *conv) {
    const Window *w = conv->window;
    uint64_t tasks = conv->images * w->groups * conv->filters;
    double work = (double)tasks * (double)conv->channels * (double)w->taps * (double)w->out;
    DoubleJob job = {.call = call, .conv = conv, .size = 4 * (uint64_t)w->rank + 8};
    job.indices = ARENA_ARRAY(call->scratch, int64_t, job.size * kernel_threads(call));
    kernel_run_parts(call->workers, kernel_work_cut(call, work, tasks), double_part, &job);
}
