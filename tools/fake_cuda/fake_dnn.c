// SPDX-License-Identifier: Apache-2.0
/* A libcudnn.so.9 for tests: the functions of kernels/cuda/cuda_dnn.def, for graphs of a convolution
 * with what may follow it. Descriptors are checked as they are set and finished. Of a graph there are
 * two engines: the first has the note of tensor cores, both that of code that is made at run time
 * unless the order is the one that cuDNN has precompiled engines for: residual, bias, ReLU, all of the
 * result's type. */
#include "fake_dnn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_dnn.h"
#include "dnn_line.h"

#define DNN(name, symbol, arguments) int symbol arguments;
#include "cuda_dnn.def"
#undef DNN
size_t cudnnGetVersion(void);

enum {
    BAD_PARAM = 2000,
    NOT_SUPPORTED = 3000,
    EXECUTION_FAILED = 5000,
    NOT_INITIALIZED = 1001,
    HANDLE = 0x646e6e,
    WORKSPACE_SIZE = 1024,
    ENGINES = 2
};

/* Kinds of descriptors, by cudnnBackendDescriptorType_t. */
typedef enum Kind {
    POINTWISE = 0,
    CONVOLUTION = 1,
    ENGINE = 2,
    CONFIG = 3,
    HEURISTIC = 4,
    PLAN = 5,
    CONVOLVE = 10,
    APPLY = 13,
    GRAPH = 15,
    PACK = 16,
    TENSOR = 17
} Kind;

typedef enum Type {
    T_HANDLE,
    T_DATA_TYPE,
    T_BOOLEAN,
    T_INT64,
    T_FLOAT,
    T_POINTER = 6,
    T_CONV_MODE = 7,
    T_HEUR_MODE = 8,
    T_NUMERICAL_NOTE = 11,
    T_POINTWISE_MODE = 14,
    T_DESCRIPTOR = 15,
    T_BEHAVIOR_NOTE = 19
} Type;

/* Every attribute that may be set: of which kind, its number, type, most elements, and whether a
 * descriptor is finished without. */
typedef struct Attribute {
    int kind, name, type;
    int64_t most;
    bool optional;
} Attribute;
static const Attribute attributes[] = {
    {POINTWISE, 0, T_POINTWISE_MODE, 1, false}, {POINTWISE, 1, T_DATA_TYPE, 1, false},
    {CONVOLUTION, 100, T_DATA_TYPE, 1, false},  {CONVOLUTION, 101, T_CONV_MODE, 1, false},
    {CONVOLUTION, 102, T_INT64, 3, false},      {CONVOLUTION, 103, T_INT64, 3, false},
    {CONVOLUTION, 104, T_INT64, 3, false},      {CONVOLUTION, 105, T_INT64, 3, false},
    {CONVOLUTION, 106, T_INT64, 1, false},      {HEURISTIC, 200, T_HEUR_MODE, 1, false},
    {HEURISTIC, 201, T_DESCRIPTOR, 1, false},   {PLAN, 400, T_HANDLE, 1, false},
    {PLAN, 401, T_DESCRIPTOR, 1, false},        {CONVOLVE, 700, T_FLOAT, 1, false},
    {CONVOLVE, 701, T_FLOAT, 1, false},         {CONVOLVE, 702, T_DESCRIPTOR, 1, false},
    {CONVOLVE, 703, T_DESCRIPTOR, 1, false},    {CONVOLVE, 704, T_DESCRIPTOR, 1, false},
    {CONVOLVE, 705, T_DESCRIPTOR, 1, false},    {APPLY, 750, T_DESCRIPTOR, 1, false},
    {APPLY, 751, T_DESCRIPTOR, 1, false},       {APPLY, 752, T_DESCRIPTOR, 1, true},
    {APPLY, 753, T_DESCRIPTOR, 1, false},       {GRAPH, 800, T_HANDLE, 1, false},
    {GRAPH, 801, T_DESCRIPTOR, 4, false},       {TENSOR, 900, T_INT64, 1, false},
    {TENSOR, 901, T_DATA_TYPE, 1, false},       {TENSOR, 902, T_INT64, 5, false},
    {TENSOR, 903, T_INT64, 5, false},           {TENSOR, 906, T_INT64, 1, false},
    {TENSOR, 907, T_BOOLEAN, 1, true},          {PACK, 1000, T_INT64, 8, false},
    {PACK, 1001, T_POINTER, 8, false},          {PACK, 1003, T_POINTER, 1, false},
};
enum {
    ATTRIBUTES = sizeof attributes / sizeof *attributes,
    MOST = 8,
    MODE_ADD = 0,
    MODE_RELU = 100
};

typedef struct Descriptor {
    int magic, kind;
    bool finished;
    int64_t counts[ATTRIBUTES];
    union {
        int64_t whole;
        void *pointer;
        float real;
        int number;
        bool flag;
    } values[ATTRIBUTES][MOST];
    /* what finishing made of it */
    DnnGraph graph;
    DnnTensor tensor;
    bool precompiled;
    int engine;
} Descriptor;

#define CHECK(condition, ...)                                                                      \
    if (!(condition)) FAKE_RETURN(fake_complain(BAD_PARAM, __VA_ARGS__))

typedef struct Handle {
    int magic, device;
    void *stream;
} Handle;

/* Of the device whose context the thread has. */
static bool is_handle(const void *handle) {
    const Handle *h = handle;
    return h && h->magic == HANDLE && h->device == fake_device();
}
static bool is(const Descriptor *d, int kind, bool finished) {
    return d && d->magic == HANDLE + 1 && d->kind == kind && (d->finished || !finished);
}

static size_t size_of(int type) {
    switch (type) {
    case T_HANDLE:
    case T_POINTER:
    case T_DESCRIPTOR:
    case T_INT64: return 8;
    case T_BOOLEAN: return 1;
    default: return 4;
    }
}

static int index_of(int kind, int name) {
    for (int i = 0; i < ATTRIBUTES; i++)
        if (attributes[i].kind == kind && attributes[i].name == name) return i;
    return -1;
}
/* Element k of an attribute that finished descriptors have. */
#define VALUE(descriptor, name, k) ((descriptor)->values[index_of((descriptor)->kind, name)][k])
#define COUNT(descriptor, name)    ((descriptor)->counts[index_of((descriptor)->kind, name)])
static Descriptor *part(const Descriptor *d, int name) {
    return VALUE(d, name, 0).pointer;
}

/* ---- handles and descriptors ----------------------------------------------------------------- */

size_t cudnnGetVersion(void) {
    return (size_t)fake_settings()->cudnn;
}

int cudnnCreate(void **handle) {
    FAKE_ENTER("cudnnCreate");
    if (fake_device() < 0)
        FAKE_RETURN(fake_complain(NOT_INITIALIZED, "cudnnCreate without a context"));
    Handle *h = calloc(1, sizeof *h);
    if (!h) abort();
    h->magic = HANDLE;
    h->device = fake_device();
    *handle = h;
    fake_made("handles of cuDNN", 1);
    FAKE_RETURN(0);
}
int cudnnDestroy(void *handle) {
    FAKE_ENTER("cudnnDestroy");
    CHECK(is_handle(handle), "cudnnDestroy of something else");
    free(handle);
    fake_made("handles of cuDNN", -1);
    FAKE_RETURN(0);
}
int cudnnSetStream(void *handle, void *stream) {
    FAKE_ENTER("cudnnSetStream");
    CHECK(is_handle(handle) && fake_is_stream(stream), "cudnnSetStream of something else");
    ((Handle *)handle)->stream = stream;
    FAKE_RETURN(0);
}

int cudnnBackendCreateDescriptor(int kind, void **descriptor) {
    FAKE_ENTER("cudnnBackendCreateDescriptor");
    Descriptor *d = calloc(1, sizeof *d);
    if (!d) abort();
    d->magic = HANDLE + 1;
    d->kind = kind;
    *descriptor = d;
    fake_made("descriptors of cuDNN", 1);
    FAKE_RETURN(0);
}
int cudnnBackendDestroyDescriptor(void *descriptor) {
    FAKE_ENTER("cudnnBackendDestroyDescriptor");
    Descriptor *d = descriptor;
    CHECK(d && d->magic == HANDLE + 1, "a descriptor is destroyed that is none");
    d->magic = 0;
    free(d);
    fake_made("descriptors of cuDNN", -1);
    FAKE_RETURN(0);
}
int cudnnBackendSetAttribute(void *descriptor, int name, int type, int64_t count,
                             const void *items) {
    FAKE_ENTER("cudnnBackendSetAttribute");
    Descriptor *d = descriptor;
    CHECK(d && d->magic == HANDLE + 1 && !d->finished, "an attribute of no open descriptor");
    const int i = index_of(d->kind, name);
    CHECK(i >= 0 && type == attributes[i].type && count > 0 && count <= attributes[i].most,
          "attribute %d of descriptor %d: type %d, %lld elements", name, d->kind, type,
          (long long)count);
    const size_t size = size_of(type);
    for (int64_t k = 0; k < count; k++)
        memcpy(&d->values[i][k], (const char *)items + (size_t)k * size, size);
    d->counts[i] = count;
    FAKE_RETURN(0);
}

/* ---- finishing ------------------------------------------------------------------------------- */

static const char *finish_tensor(Descriptor *d) {
    DnnTensor *t = &d->tensor;
    const int type = VALUE(d, 901, 0).number;
    t->axes = COUNT(d, 902);
    t->id = VALUE(d, 906, 0).whole;
    t->alignment = VALUE(d, 900, 0).whole;
    t->inner = COUNT(d, 907) && VALUE(d, 907, 0).flag;
    t->type = type == 0 ? FAKE_F32 : type == 2 ? FAKE_F16 : type == 9 ? FAKE_BF16 : FAKE_NO_TYPE;
    if (t->axes < 4 || COUNT(d, 903) != t->axes) return "axes";
    if (t->type == FAKE_NO_TYPE) return "type";
    if (t->alignment < 1 || t->alignment & (t->alignment - 1)) return "alignment";
    for (int64_t i = 0; i < t->axes; i++) {
        t->dims[i] = VALUE(d, 902, i).whole;
        t->strides[i] = VALUE(d, 903, i).whole;
        if (t->dims[i] < 1 || t->strides[i] < 1) return "sizes or strides";
    }
    return NULL;
}

static const char *finish_geometry(Descriptor *d) {
    DnnGraph *g = &d->graph;
    g->spatial = VALUE(d, 106, 0).whole;
    if (g->spatial < 2 || g->spatial > 3 || VALUE(d, 100, 0).number != 0 ||
        VALUE(d, 101, 0).number != 1)
        return "axes, precision or mode";
    for (int name = 102; name <= 105; name++)
        if (COUNT(d, name) != g->spatial) return "number of axes";
    for (int64_t i = 0; i < g->spatial; i++) {
        g->dilations[i] = VALUE(d, 102, i).whole;
        g->strides[i] = VALUE(d, 103, i).whole;
        g->ends[i] = VALUE(d, 104, i).whole;
        g->begins[i] = VALUE(d, 105, i).whole;
        if (g->dilations[i] < 1 || g->strides[i] < 1 || g->begins[i] < 0 || g->ends[i] < 0)
            return "dilations, strides or pads";
    }
    return NULL;
}

static const char *finish_convolve(Descriptor *d) {
    const Descriptor *conv = part(d, 702), *x = part(d, 704), *w = part(d, 703), *y = part(d, 705);
    if (!is(conv, CONVOLUTION, true) || !is(x, TENSOR, true) || !is(w, TENSOR, true) ||
        !is(y, TENSOR, true))
        return "parts";
    DnnGraph *g = &d->graph;
    *g = conv->graph;
    g->x = x->tensor;
    g->w = w->tensor;
    g->y = y->tensor;
    if (VALUE(d, 700, 0).real != 1 || VALUE(d, 701, 0).real != 0) return "factors";
    if (g->x.axes != g->spatial + 2 || g->w.axes != g->x.axes || g->y.axes != g->x.axes)
        return "axes";
    if (g->x.type != g->w.type || g->x.dims[1] % g->w.dims[1] || g->y.dims[1] != g->w.dims[0] ||
        g->w.dims[0] % (g->x.dims[1] / g->w.dims[1]) || g->x.dims[0] != g->y.dims[0])
        return "types or channels";
    for (int64_t i = 0; i < g->spatial; i++) {
        const int64_t reach = g->dilations[i] * (g->w.dims[2 + i] - 1) + 1;
        const int64_t room = g->x.dims[2 + i] + g->begins[i] + g->ends[i] - reach;
        if (room < 0 || room / g->strides[i] + 1 != g->y.dims[2 + i]) return "sizes";
    }
    return NULL;
}

static const char *finish_apply(Descriptor *d) {
    const Descriptor *how = part(d, 750), *x = part(d, 751), *y = part(d, 753);
    const Descriptor *b = COUNT(d, 752) ? part(d, 752) : NULL;
    if (!is(how, POINTWISE, true) || !is(x, TENSOR, true) || !is(y, TENSOR, true)) return "parts";
    const int mode = VALUE(how, 0, 0).number;
    if ((mode != MODE_ADD && mode != MODE_RELU) || VALUE(how, 1, 0).number != 0)
        return "mode or precision";
    if ((mode == MODE_ADD) != (b != NULL) || (b && !is(b, TENSOR, true))) return "operands";
    for (int64_t i = 0; i < y->tensor.axes; i++)
        if (x->tensor.dims[i] != y->tensor.dims[i] ||
            (b && b->tensor.dims[i] != 1 && b->tensor.dims[i] != y->tensor.dims[i]))
            return "sizes";
    return NULL;
}

/* Whether there are engines that are ready-made: residual, then bias, then ReLU; 16 bit channels-last. */
static bool is_precompiled(const DnnGraph *g) {
    int rank = 0;
    for (int64_t s = 0; s < g->step_count; s++) {
        const DnnStep *step = &g->steps[s];
        const int next = step->relu ? 3 : step->b.dims[2] == 1 && step->b.dims[3] == 1 ? 2 : 1;
        if (next <= rank || (!step->relu && step->b.type != g->y.type)) return false;
        rank = next;
    }
    return g->y.type == g->x.type && (g->x.type == FAKE_F32 || g->x.strides[1] == 1);
}

/* A convolution, and operations each of which reads what the one before it writes. */
static const char *finish_graph(Descriptor *d) {
    const Descriptor *conv = part(d, 801);
    if (!is_handle(VALUE(d, 800, 0).pointer)) return "handle";
    if (!is(conv, CONVOLVE, true)) return "first operation";
    d->graph = conv->graph;
    DnnGraph *g = &d->graph;
    for (int64_t i = 1; i < COUNT(d, 801); i++) {
        const Descriptor *apply = VALUE(d, 801, i).pointer;
        if (!is(apply, APPLY, true)) return "operations";
        const DnnTensor *x = &part(apply, 751)->tensor;
        if (!g->y.inner || x->id != g->y.id) return "order of operations";
        DnnStep *step = &g->steps[g->step_count++];
        step->relu = VALUE(part(apply, 750), 0, 0).number == MODE_RELU;
        if (!step->relu) step->b = part(apply, 752)->tensor;
        if (!step->relu && step->b.inner) return "operands within the graph";
        g->y = part(apply, 753)->tensor;
    }
    if (g->y.inner) return "result, which is within the graph";
    d->precompiled = is_precompiled(g);
    return NULL;
}

/* A line of dnn_line.h, for who asks cuDNN itself whether it has that plan. */
static void note_plan(const Descriptor *d) {
    const DnnGraph *g = &d->graph;
    FILE *to = fake_settings()->plans[0] ? fopen(fake_settings()->plans, "a") : NULL;
    if (!to) return;
    DnnLine line = {.ready_made = d->precompiled,
                    .dtype = g->x.type == FAKE_F32   ? DTYPE_FLOAT
                             : g->x.type == FAKE_F16 ? DTYPE_FLOAT16
                                                     : DTYPE_BFLOAT16,
                    .axes = g->x.axes,
                    .flags = g->tf32 ? 8 : 0};
    for (int64_t s = 0; s < g->step_count; s++)
        line.flags |= g->steps[s].relu                                     ? 4
                      : g->steps[s].b.dims[2] * g->steps[s].b.dims[3] == 1 ? 2
                                                                           : 1;
    for (int64_t i = 0; i < g->x.axes; i++) {
        line.x[i] = g->x.dims[i], line.x_strides[i] = g->x.strides[i];
        line.w[i] = g->w.dims[i], line.w_strides[i] = g->w.strides[i];
        line.y[i] = g->y.dims[i], line.y_strides[i] = g->y.strides[i];
        line.strides[i] = g->strides[i], line.dilations[i] = g->dilations[i];
        line.begins[i] = g->begins[i], line.ends[i] = g->ends[i];
    }
    int64_t numbers[DNN_LINE];
    memcpy(numbers, &line, sizeof line);
    for (int i = 0; i < DNN_LINE; i++)
        fprintf(to, "%lld%c", (long long)numbers[i], i + 1 < DNN_LINE ? ' ' : '\n');
    fclose(to);
}

static const char *finish_plan(Descriptor *d) {
    const Descriptor *config = part(d, 401);
    if (!is_handle(VALUE(d, 400, 0).pointer)) return "handle";
    if (!is(config, CONFIG, true)) return "configuration";
    d->graph = config->graph;
    d->engine = config->engine;
    d->graph.tf32 = d->graph.x.type == FAKE_F32 && d->engine == 0;
    d->precompiled = config->precompiled;
    note_plan(d);
    return NULL;
}

static const char *finish(Descriptor *d) {
    for (int i = 0; i < ATTRIBUTES; i++)
        if (attributes[i].kind == d->kind && !d->counts[i] && !attributes[i].optional)
            return "attributes";
    switch (d->kind) {
    case TENSOR: return finish_tensor(d);
    case CONVOLUTION: return finish_geometry(d);
    case CONVOLVE: return finish_convolve(d);
    case APPLY: return finish_apply(d);
    case GRAPH: return finish_graph(d);
    case PLAN: return finish_plan(d);
    case HEURISTIC: return is(part(d, 201), GRAPH, true) ? NULL : "graph";
    case PACK: return COUNT(d, 1000) == COUNT(d, 1001) ? NULL : "number of pointers";
    case POINTWISE: return NULL;
    default: return "kind";
    }
}

int cudnnBackendFinalize(void *descriptor) {
    FAKE_ENTER("cudnnBackendFinalize");
    Descriptor *d = descriptor;
    CHECK(d && d->magic == HANDLE + 1 && !d->finished, "no open descriptor is finished");
    const char *wrong = finish(d);
    CHECK(!wrong, "a descriptor of cuDNN, %d: its %s", d->kind, wrong);
    d->finished = true;
    FAKE_RETURN(0);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static int get_results(const Descriptor *d, int64_t room, int64_t *count, void *items) {
    const Descriptor *graph = part(d, 201);
    *count = ENGINES;
    for (int k = 0; k < ENGINES && k < room; k++) {
        Descriptor *config = ((void **)items)[k];
        if (!is(config, CONFIG, false)) return BAD_PARAM;
        config->graph = graph->graph;
        config->precompiled = graph->precompiled;
        config->engine = k;
        config->finished = true;
    }
    return 0;
}

static int get_notes(const Descriptor *d, int name, int64_t *count, int *items) {
    const bool has = name == 1303 ? d->engine == 0 : !d->precompiled;
    *count = has;
    if (has) items[0] = 0;
    return 0;
}

static int get(const Descriptor *d, int name, int type, int64_t room, int64_t *count, void *items) {
    if (!d || d->magic != HANDLE + 1 || !d->finished || room < 0) return BAD_PARAM;
    if (!room && name != 202) return BAD_PARAM;
    *count = 1;
    if (d->kind == HEURISTIC && name == 202 && type == T_DESCRIPTOR)
        return get_results(d, room, count, items);
    if (d->kind == CONFIG && name == 300 && type == T_DESCRIPTOR) {
        Descriptor *engine = *(void **)items;
        if (!is(engine, ENGINE, false)) return BAD_PARAM;
        engine->engine = d->engine;
        engine->precompiled = d->precompiled;
        engine->finished = true;
        return 0;
    }
    if (d->kind == ENGINE &&
        ((name == 1303 && type == T_NUMERICAL_NOTE) || (name == 1305 && type == T_BEHAVIOR_NOTE)))
        return get_notes(d, name, count, items);
    if (d->kind == PLAN && name == 402 && type == T_INT64) {
        *(int64_t *)items = WORKSPACE_SIZE;
        return 0;
    }
    return BAD_PARAM;
}
int cudnnBackendGetAttribute(void *descriptor, int name, int type, int64_t room, int64_t *count,
                             void *items) {
    FAKE_ENTER("cudnnBackendGetAttribute");
    const int status = get(descriptor, name, type, room, count, items);
    CHECK(status == 0, "attribute %d of a descriptor of cuDNN can't be asked for", name);
    FAKE_RETURN(0);
}

/* ---- running --------------------------------------------------------------------------------- */

/* For the log: which kind of a convolution it is, and by what engine. */
static void note_run(const Descriptor *plan) {
    static const char *const types[] = {"float", "double", "float16", "bfloat16"};
    const DnnGraph *g = &plan->graph;
    bool unequal = false, padded = false;
    char kind[96], steps[DNN_MOST_OPERATIONS + 1] = "";
    for (int64_t s = 0; s < g->step_count; s++)
        steps[s] = g->steps[s].relu                                     ? 'r'
                   : g->steps[s].b.dims[2] * g->steps[s].b.dims[3] == 1 ? 'b'
                                                                        : 'z';
    for (int64_t i = 0; i < g->spatial; i++) {
        padded = padded || g->begins[i] || g->ends[i];
        unequal = unequal || g->strides[i] != g->strides[0] || g->dilations[i] != g->dilations[0];
    }
    snprintf(kind, sizeof kind, "%s-%d-%s-%s%s%s%s", types[g->x.type], (int)g->spatial, steps,
             g->x.strides[1] == 1 ? "last" : "first", g->x.dims[1] != g->w.dims[1] ? "-groups" : "",
             unequal ? "-unequal" : "", padded ? "-padded" : "");
    fake_count("convolution", kind);
    fake_count("engine", plan->precompiled ? "precompiled" : "compiled");
    if (g->tf32) fake_count("engine", "tf32");
}

int cudnnBackendExecute(void *handle, void *plan, void *pack) {
    FAKE_ENTER("cudnnBackendExecute");
    const Descriptor *p = plan, *data = pack;
    CHECK(is_handle(handle) && is(p, PLAN, true) && is(data, PACK, true) &&
              VALUE(p, 400, 0).pointer == handle,
          "cudnnBackendExecute of something else");
    DnnRun run = {.graph = p->graph,
                  .count = COUNT(data, 1000),
                  .workspace = (uintptr_t)VALUE(data, 1003, 0).pointer,
                  .workspace_size = WORKSPACE_SIZE};
    for (int64_t i = 0; i < run.count; i++) {
        run.ids[i] = VALUE(data, 1000, i).whole;
        run.at[i] = (uintptr_t)VALUE(data, 1001, i).pointer;
    }
    note_run(p);
    FAKE_RETURN(fake_put_library(((Handle *)handle)->stream, dnn_compute, &run, sizeof run)
                    ? EXECUTION_FAILED
                    : 0);
}
