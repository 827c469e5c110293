// SPDX-License-Identifier: Apache-2.0
/* cuDNN: loading it, and convolutions as graphs of operations; see cuda_dnn.h.
 *
 * conv -> add residual -> add bias -> ReLU, with a bias of the result's type, is the order that
 * cuDNN has ready-made engines for; others it compiles when a plan is made. */
#include "cuda_dnn.h"

#include <stdlib.h>

#include "cuda_library.h"
#include "shared_object.h"

/* ---- loading --------------------------------------------------------------------------------- */

enum {
    MAJOR = 9, /* of the interface that cuda_dnn.def has */
    PER_MAJOR = 10000,
    PARTS_DIFFER = 1002, /* statuses */
    PART_MISSING = 1008
};

static const char file[] = "libcudnn.so.9";
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CudaDnn table;
static bool loaded, absent; /* absent: it was looked for */

/* A file of that name may be of another version: links are made by hand, too. */
static bool check_version(void *library, Err *err) {
    size_t (*get)(void);
    *(void **)&get = cuda_library_symbol(library, file, "cudnnGetVersion", err);
    if (!get) return false;
    const size_t version = get();
    if (version / PER_MAJOR == MAJOR) return true;
    err_set(err, ERR_ENV, "%s is not cuDNN %d", file, MAJOR);
    err_expected(err, "a version of %d to %d", MAJOR * PER_MAJOR, (MAJOR + 1) * PER_MAJOR - 1);
    err_actual(err, "%zu", version);
    err_hint(err, "install cuDNN %d, or name its folder in LD_LIBRARY_PATH", MAJOR);
    return false;
}

static bool find_symbols(void *library, Err *err) {
#define DNN(name, symbol, arguments)                                                               \
    *(void **)&table.name = cuda_library_symbol(library, file, #symbol, err);                      \
    if (!table.name) return false;
#include "cuda_dnn.def"
#undef DNN
    return true;
}

static bool load(Err *err) {
    Err missing = {0};
    void *library = absent ? NULL : cuda_library_open(file, &missing);
    absent = !library;
    if (absent) return true;
    loaded = check_version(library, err) && find_symbols(library, err);
    if (!loaded) object_close(library);
    return loaded;
}

bool cuda_dnn(const CudaDnn **dnn, Err *err) {
    pthread_mutex_lock(&lock);
    const bool ok = loaded || load(err);
    *dnn = loaded ? &table : NULL;
    pthread_mutex_unlock(&lock);
    return ok;
}

/* Whether the status says that the library's parts, which it loads when it wants them, are not whole. */
static bool is_broken(int status) {
    return status == PARTS_DIFFER || status == PART_MISSING;
}

static bool status_ok(int status, Err *err, const char *what) {
    if (!status) return true;
    if (status == PARTS_DIFFER)
        err_set(err, ERR_ENV, "cuDNN: its libraries have different versions");
    else if (status == PART_MISSING)
        err_set(err, ERR_ENV, "cuDNN: cannot load one of its libraries");
    else
        return err_set(err, ERR_ENV, "cuDNN: %s: status %d", what, status);
    err_hint(err, "put libcudnn_*.so.%d of the same release next to %s", MAJOR, file);
    return false;
}

static void end(void *handle) {
    table.destroy(handle);
}

void *cuda_dnn_handle(CudaDevice *device, const CudaDnn *dnn, Err *err) {
    pthread_mutex_lock(&device->lock);
    void **handle = &device->libraries[CUDA_DNN];
    const int status = *handle ? 0 : dnn->create(handle);
    if (status_ok(status, err, "a handle")) device->library_free[CUDA_DNN] = end;
    pthread_mutex_unlock(&device->lock);
    return *handle;
}

/* ---- descriptors ----------------------------------------------------------------------------- */

/* Of the binary interface: kinds of descriptors, types of attributes, and their names. */
enum {
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
    TENSOR = 17,
    T_HANDLE = 0,
    T_DATA_TYPE = 1,
    T_BOOLEAN = 2,
    T_INT64 = 3,
    T_FLOAT = 4,
    T_POINTER = 6,
    T_CONV_MODE = 7,
    T_HEUR_MODE = 8,
    T_NUMERICAL_NOTE = 11,
    T_POINTWISE_MODE = 14,
    T_DESCRIPTOR = 15,
    T_BEHAVIOR_NOTE = 19,
    POINTWISE_MODE = 0,
    POINTWISE_PRECISION = 1,
    CONV_PRECISION = 100,
    CONV_MODE,
    CONV_DILATIONS,
    CONV_STRIDES,
    CONV_ENDS,
    CONV_BEGINS,
    CONV_AXES,
    HEURISTIC_MODE = 200,
    HEURISTIC_GRAPH,
    HEURISTIC_RESULTS,
    CONFIG_ENGINE = 300,
    PLAN_HANDLE = 400,
    PLAN_CONFIG,
    PLAN_WORKSPACE,
    CONVOLVE_ALPHA = 700,
    CONVOLVE_BETA,
    CONVOLVE_CONV,
    CONVOLVE_W,
    CONVOLVE_X,
    CONVOLVE_Y,
    APPLY_POINTWISE = 750,
    APPLY_X,
    APPLY_B,
    APPLY_Y,
    GRAPH_HANDLE = 800,
    GRAPH_OPERATIONS,
    TENSOR_ALIGNMENT = 900,
    TENSOR_TYPE,
    TENSOR_DIMS,
    TENSOR_STRIDES,
    TENSOR_ID = 906,
    TENSOR_VIRTUAL,
    PACK_IDS = 1000,
    PACK_POINTERS,
    PACK_WORKSPACE = 1003,
    ENGINE_NUMERICAL = 1303,
    ENGINE_BEHAVIOR = 1305,
    CROSS_CORRELATION = 1,
    MODE_FALLBACK = 2,
    MODE_A = 3,
    ADD = 0,
    RELU = 100,
    NOTE_TENSOR_CORE = 0,
    NOTE_COMPILED = 0,
    FLOAT_TYPE = 0
};

enum { MOST_DESCRIPTORS = 32, MOST_CONFIGS = 24, MOST_OPERATIONS = 4, MOST_NOTES = 16 };

/* What numbers tensors have. */
enum { ID_X = 1, ID_W, ID_BIAS, ID_RESIDUAL, ID_Y, ID_INNER };

/* A graph in the making: all that was made, so that it can be given back. */
typedef struct Draft {
    const CudaDnn *dnn;
    const DnnConv *conv;
    void *made[MOST_DESCRIPTORS];
    int count;
    bool ok;
    int broken; /* the status that said so (is_broken), else 0 */
    void *operations[MOST_OPERATIONS];
    int64_t operation_count;
} Draft;

/* Whether a call went well. */
static bool went(Draft *d, int status) {
    if (is_broken(status)) d->broken = status;
    return status == 0;
}

static void *begin(Draft *d, int kind) {
    void *made = NULL;
    if (d->ok) d->ok = d->count < MOST_DESCRIPTORS && went(d, d->dnn->make(kind, &made));
    if (d->ok) d->made[d->count++] = made;
    return made;
}
static void put(Draft *d, void *descriptor, int name, int type, int64_t count, const void *items) {
    d->ok = d->ok && went(d, d->dnn->set(descriptor, name, type, count, items));
}
static void finish(Draft *d, void *descriptor) {
    d->ok = d->ok && went(d, d->dnn->finish(descriptor));
}
static void give_back(Draft *d) {
    while (d->count) d->dnn->free(d->made[--d->count]);
}

static int type_of(Dtype dtype) {
    return dtype == DTYPE_FLOAT16 ? 2 : dtype == DTYPE_BFLOAT16 ? 9 : FLOAT_TYPE;
}

/* ---- the graph ------------------------------------------------------------------------------- */

static void *tensor(Draft *d, int64_t id, Dtype dtype, const int64_t *dims, const int64_t *strides,
                    bool inner) {
    void *t = begin(d, TENSOR);
    const int type = type_of(dtype);
    const int64_t alignment = 16;
    put(d, t, TENSOR_TYPE, T_DATA_TYPE, 1, &type);
    put(d, t, TENSOR_DIMS, T_INT64, d->conv->axes, dims);
    put(d, t, TENSOR_STRIDES, T_INT64, d->conv->axes, strides);
    put(d, t, TENSOR_ID, T_INT64, 1, &id);
    put(d, t, TENSOR_ALIGNMENT, T_INT64, 1, &alignment);
    put(d, t, TENSOR_VIRTUAL, T_BOOLEAN, 1, &inner);
    finish(d, t);
    return t;
}

static void *geometry(Draft *d) {
    const DnnConv *c = d->conv;
    void *g = begin(d, CONVOLUTION);
    const int precision = FLOAT_TYPE, mode = CROSS_CORRELATION;
    const int64_t axes = c->axes - 2;
    put(d, g, CONV_AXES, T_INT64, 1, &axes);
    put(d, g, CONV_PRECISION, T_DATA_TYPE, 1, &precision);
    put(d, g, CONV_MODE, T_CONV_MODE, 1, &mode);
    put(d, g, CONV_BEGINS, T_INT64, axes, c->begins);
    put(d, g, CONV_ENDS, T_INT64, axes, c->ends);
    put(d, g, CONV_STRIDES, T_INT64, axes, c->strides);
    put(d, g, CONV_DILATIONS, T_INT64, axes, c->dilations);
    finish(d, g);
    return g;
}

static void convolve(Draft *d, void *x, void *w, void *y) {
    void *conv = geometry(d), *operation = begin(d, CONVOLVE);
    const float alpha = 1, beta = 0;
    put(d, operation, CONVOLVE_X, T_DESCRIPTOR, 1, &x);
    put(d, operation, CONVOLVE_W, T_DESCRIPTOR, 1, &w);
    put(d, operation, CONVOLVE_Y, T_DESCRIPTOR, 1, &y);
    put(d, operation, CONVOLVE_CONV, T_DESCRIPTOR, 1, &conv);
    put(d, operation, CONVOLVE_ALPHA, T_FLOAT, 1, &alpha);
    put(d, operation, CONVOLVE_BETA, T_FLOAT, 1, &beta);
    finish(d, operation);
    d->operations[d->operation_count++] = operation;
}

static void apply(Draft *d, int mode, void *x, void *b, void *y) {
    void *how = begin(d, POINTWISE), *operation = begin(d, APPLY);
    const int precision = FLOAT_TYPE;
    put(d, how, POINTWISE_MODE, T_POINTWISE_MODE, 1, &mode);
    put(d, how, POINTWISE_PRECISION, T_DATA_TYPE, 1, &precision);
    finish(d, how);
    put(d, operation, APPLY_POINTWISE, T_DESCRIPTOR, 1, &how);
    put(d, operation, APPLY_X, T_DESCRIPTOR, 1, &x);
    if (b) put(d, operation, APPLY_B, T_DESCRIPTOR, 1, &b);
    put(d, operation, APPLY_Y, T_DESCRIPTOR, 1, &y);
    finish(d, operation);
    d->operations[d->operation_count++] = operation;
}

/* What an operation writes: the result, or a value within the graph, which is float. */
static void *output(Draft *d, bool last, int64_t id) {
    const DnnConv *c = d->conv;
    return tensor(d, last ? ID_Y : id, last ? c->dtype : DTYPE_FLOAT, c->y, c->y_strides, !last);
}

static void *make_graph(Draft *d, void *handle) {
    const DnnConv *c = d->conv;
    int left = c->residual + c->bias + c->relu;
    void *x = tensor(d, ID_X, c->dtype, c->x, c->x_strides, false);
    void *w = tensor(d, ID_W, c->dtype, c->w, c->w_strides, false);
    void *y = output(d, !left, ID_INNER);
    convolve(d, x, w, y);
    if (c->residual) {
        void *z = tensor(d, ID_RESIDUAL, c->dtype, c->y, c->y_strides, false);
        void *sum = output(d, !--left, ID_INNER + 1);
        apply(d, ADD, y, z, sum);
        y = sum;
    }
    if (c->bias) {
        int64_t dims[DNN_AXES], strides[DNN_AXES];
        for (uint32_t i = 0; i < c->axes; i++) {
            dims[i] = i == 1 ? c->y[1] : 1;
            strides[i] = i == 1 ? 1 : c->y[1];
        }
        void *bias = tensor(d, ID_BIAS, c->dtype, dims, strides, false);
        void *sum = output(d, !--left, ID_INNER + 2);
        apply(d, ADD, y, bias, sum);
        y = sum;
    }
    if (c->relu) apply(d, RELU, y, NULL, output(d, true, 0));
    void *graph = begin(d, GRAPH);
    put(d, graph, GRAPH_HANDLE, T_HANDLE, 1, &handle);
    put(d, graph, GRAPH_OPERATIONS, T_DESCRIPTOR, d->operation_count, d->operations);
    finish(d, graph);
    return graph;
}

/* ---- plans ----------------------------------------------------------------------------------- */

struct DnnPlan {
    void *plan;
    int64_t workspace;
    bool residual, bias;
};

static bool has_note(const CudaDnn *dnn, void *engine, int name, int type, int note) {
    int notes[MOST_NOTES];
    int64_t count = 0;
    if (dnn->get(engine, name, type, MOST_NOTES, &count, notes) != 0) return false;
    for (int64_t i = 0; i < count && i < MOST_NOTES; i++)
        if (notes[i] == note) return true;
    return false;
}

/* Whether the configuration's engine is there already, and computes in what it may. */
static bool may_use(const Draft *d, void *config, bool compiled) {
    void *engine = NULL;
    int64_t count = 0;
    if (d->dnn->make(ENGINE, &engine) != 0) return false;
    bool ok =
        d->dnn->get(config, CONFIG_ENGINE, T_DESCRIPTOR, 1, &count, &engine) == 0 && count == 1;
    ok = ok &&
         (compiled || !has_note(d->dnn, engine, ENGINE_BEHAVIOR, T_BEHAVIOR_NOTE, NOTE_COMPILED));
    if (d->conv->dtype == DTYPE_FLOAT && !d->conv->tf32) /* tensor cores round to TF32 */
        ok = ok && !has_note(d->dnn, engine, ENGINE_NUMERICAL, T_NUMERICAL_NOTE, NOTE_TENSOR_CORE);
    d->dnn->free(engine);
    return ok;
}

static DnnPlan *try_config(Draft *d, void *handle, void *config, int64_t most) {
    void *plan = NULL;
    int64_t workspace = 0, count = 0;
    const CudaDnn *dnn = d->dnn;
    if (dnn->make(PLAN, &plan) != 0) return NULL;
    bool ok =
        dnn->set(plan, PLAN_HANDLE, T_HANDLE, 1, &handle) == 0 &&
        dnn->set(plan, PLAN_CONFIG, T_DESCRIPTOR, 1, &config) == 0 && went(d, dnn->finish(plan)) &&
        dnn->get(plan, PLAN_WORKSPACE, T_INT64, 1, &count, &workspace) == 0 && workspace <= most;
    DnnPlan *made = ok ? calloc(1, sizeof *made) : NULL;
    if (made)
        *made = (DnnPlan){plan, workspace, d->conv->residual, d->conv->bias};
    else
        dnn->free(plan);
    return made;
}

/* The first usable of those that a heuristic names, which it orders by the time that they take. */
static DnnPlan *search(Draft *d, void *handle, void *graph, int mode, int64_t most, bool compiled) {
    const CudaDnn *dnn = d->dnn;
    void *heuristic = NULL, *configs[MOST_CONFIGS];
    int64_t count = 0;
    int made = 0;
    DnnPlan *plan = NULL;
    if (dnn->make(HEURISTIC, &heuristic) != 0) return NULL;
    bool ok = dnn->set(heuristic, HEURISTIC_GRAPH, T_DESCRIPTOR, 1, &graph) == 0 &&
              dnn->set(heuristic, HEURISTIC_MODE, T_HEUR_MODE, 1, &mode) == 0 &&
              went(d, dnn->finish(heuristic));
    while (ok && made < MOST_CONFIGS && dnn->make(CONFIG, &configs[made]) == 0) made++;
    ok = ok && went(d, dnn->get(heuristic, HEURISTIC_RESULTS, T_DESCRIPTOR, made, &count, configs));
    for (int64_t i = 0; ok && !plan && i < count && i < made; i++)
        if (may_use(d, configs[i], compiled)) plan = try_config(d, handle, configs[i], most);
    while (made) dnn->free(configs[--made]);
    dnn->free(heuristic);
    return plan;
}

DnnPlan *dnn_plan_new(const CudaDnn *dnn, void *handle, const DnnConv *conv, bool compiled,
                      Err *err) {
    const int64_t most = conv->workspace;
    Draft d = {.dnn = dnn, .conv = conv, .ok = true};
    void *graph = make_graph(&d, handle);
    DnnPlan *plan = d.ok ? search(&d, handle, graph, MODE_A, most, compiled) : NULL;
    if (d.ok && !plan) plan = search(&d, handle, graph, MODE_FALLBACK, most, compiled);
    give_back(&d);
    if (!d.broken) return plan;
    dnn_plan_free(dnn, plan);
    status_ok(d.broken, err, "a plan");
    return NULL;
}

int64_t dnn_plan_workspace(const DnnPlan *plan) {
    return plan->workspace;
}

void dnn_plan_free(const CudaDnn *dnn, DnnPlan *plan) {
    if (!plan) return;
    dnn->free(plan->plan);
    free(plan);
}

bool dnn_plan_run(const CudaDnn *dnn, void *handle, CuStream stream, const DnnPlan *plan,
                  const DnnData *data, Err *err) {
    int64_t ids[ID_INNER] = {ID_X, ID_W, ID_Y};
    const void *pointers[ID_INNER] = {data->x, data->w, data->y};
    int64_t count = 3;
    void *pack = NULL;
    if (plan->bias) ids[count] = ID_BIAS, pointers[count++] = data->bias;
    if (plan->residual) ids[count] = ID_RESIDUAL, pointers[count++] = data->residual;
    int status = dnn->make(PACK, &pack);
    if (!status) status = dnn->set(pack, PACK_IDS, T_INT64, count, ids);
    if (!status) status = dnn->set(pack, PACK_POINTERS, T_POINTER, count, pointers);
    if (!status) status = dnn->set(pack, PACK_WORKSPACE, T_POINTER, 1, &data->workspace);
    if (!status) status = dnn->finish(pack);
    if (!status) status = dnn->set_stream(handle, stream);
    if (!status) status = dnn->run(handle, plan->plan, pack);
    if (pack) dnn->free(pack);
    return status_ok(status, err, "a convolution");
}
