// SPDX-License-Identifier: Apache-2.0
/* A libcublasLt.so.13 for tests: the functions of kernels/cuda/cuda_blas.def. Descriptors are checked
 * against what cuBLASLt documents (types, alignments, layouts, epilogues), which the library itself
 * hardly does, and products are computed one by one in the order of their sums. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_blas.h"
#include "fake_numbers.h"

#define BLAS(name, symbol, arguments) int symbol arguments;
#include "cuda_blas.def"
#undef BLAS

/* Numbers of cublasLt.h, and not as demi's header has them: see fake_driver.c. */
enum {
    LT_FLOAT = 0,
    LT_DOUBLE = 1,
    LT_FLOAT16 = 2,
    LT_BFLOAT16 = 14,
    LT_COMPUTE_32F = 68,
    LT_COMPUTE_64F = 70,
    LT_COMPUTE_TF32 = 77,
    LT_TRANSPOSED_A = 3,
    LT_TRANSPOSED_B = 4,
    LT_EPILOGUE = 7,
    LT_BIAS = 8,
    LT_EPILOGUE_NONE = 1,
    LT_EPILOGUE_RELU = 2,
    LT_EPILOGUE_BIAS = 4,
    LT_EPILOGUE_GELU = 32,
    LT_BATCHES = 5,
    LT_BATCH_STRIDE = 6,
    LT_WORKSPACE = 1
};

enum {
    NOT_INITIALIZED = 1,
    INVALID = 7,
    NOT_SUPPORTED = 15,
    EXECUTION_FAILED = 13,
    HANDLE = 0x626c6173,
    PRODUCT,
    LAYOUT,
    PREFERENCE,
    ALGORITHM,
    LEAST_A = 5, /* attributes of a preference: alignments of A, B, C, D */
    LEAST_D = 8,
    LEAST = 256, /* what they are where nothing is said */
    BIAS_ALIGNMENT = 16,
    WORKSPACE_SIZE = 4096
};

typedef struct Handle {
    int kind, device;
} Handle;

typedef struct Product {
    int kind, compute, scale;
    int32_t transposed[2], epilogue;
    const void *bias;
} Product;

typedef struct Layout {
    int kind, type;
    uint64_t rows, columns;
    int64_t leading, stride;
    int32_t batches;
} Layout;

typedef struct Preference {
    int kind;
    uint64_t workspace;
    uint32_t least[4];
} Preference;

/* Sets what is in `found.algorithm`: what the algorithm takes for granted. */
typedef struct Algorithm {
    int kind;
    uint32_t least[4];
    uint64_t workspace;
    uint64_t shape; /* of the product that it was found for */
} Algorithm;

_Static_assert(sizeof(Algorithm) <= sizeof(BlasAlgorithm), "an algorithm has no room");

#define CHECK(condition, ...)                                                                      \
    if (!(condition)) FAKE_RETURN(fake_complain(INVALID, __VA_ARGS__))

static bool is(const void *object, int kind) {
    return object && *(const int *)object == kind;
}
/* A handle of the device whose context the thread has. */
static bool is_handle(const void *object) {
    return is(object, HANDLE) && ((const Handle *)object)->device == fake_device();
}
static void *make(int kind, size_t size) {
    int *made = calloc(1, size);
    if (!made) abort();
    *made = kind;
    fake_made("objects of cuBLASLt", 1);
    return made;
}
static int end(void *object, int kind, const char *function) {
    FAKE_ENTER(function);
    CHECK(is(object, kind), "%s of something else", function);
    *(int *)object = 0;
    free(object);
    fake_made("objects of cuBLASLt", -1);
    FAKE_RETURN(0);
}

/* ---- objects --------------------------------------------------------------------------------- */

int cublasLtCreate(void **handle) {
    FAKE_ENTER("cublasLtCreate");
    if (fake_device() < 0)
        FAKE_RETURN(fake_complain(NOT_INITIALIZED, "cublasLtCreate without a context"));
    Handle *made = make(HANDLE, sizeof *made);
    made->device = fake_device();
    *handle = made;
    FAKE_RETURN(0);
}
int cublasLtDestroy(void *handle) {
    return end(handle, HANDLE, "cublasLtDestroy");
}

int cublasLtMatmulDescCreate(void **product, int compute, int scale) {
    FAKE_ENTER("cublasLtMatmulDescCreate");
    CHECK(((compute == LT_COMPUTE_32F || compute == LT_COMPUTE_TF32) && scale == LT_FLOAT) ||
              (compute == LT_COMPUTE_64F && scale == LT_DOUBLE),
          "no product is computed in %d with factors of type %d", compute, scale);
    Product *p = make(PRODUCT, sizeof *p);
    p->compute = compute;
    p->scale = scale;
    p->epilogue = LT_EPILOGUE_NONE;
    *product = p;
    FAKE_RETURN(0);
}
int cublasLtMatmulDescDestroy(void *product) {
    return end(product, PRODUCT, "cublasLtMatmulDescDestroy");
}

static bool known_epilogue(int32_t e) {
    const int32_t act = e & ~LT_EPILOGUE_BIAS;
    return e == LT_EPILOGUE_NONE || e == LT_EPILOGUE_BIAS || act == LT_EPILOGUE_RELU ||
           act == LT_EPILOGUE_GELU;
}
int cublasLtMatmulDescSetAttribute(void *product, int attribute, const void *value, size_t size) {
    FAKE_ENTER("cublasLtMatmulDescSetAttribute");
    Product *p = product;
    int32_t number = 0;
    CHECK(is(p, PRODUCT) && value, "an attribute of no product");
    if (attribute == LT_BIAS) {
        CHECK(size == sizeof p->bias, "a bias of %zu bytes", size);
        memcpy(&p->bias, value, size);
        FAKE_RETURN(0);
    }
    CHECK(size == sizeof number, "an attribute of %zu bytes", size);
    memcpy(&number, value, size);
    if (attribute == LT_TRANSPOSED_A || attribute == LT_TRANSPOSED_B) {
        CHECK(number == 0 || number == 1, "a factor transposed in way %d", number);
        p->transposed[attribute - LT_TRANSPOSED_A] = number;
    } else {
        CHECK(attribute == LT_EPILOGUE && known_epilogue(number), "attribute %d may not be %d",
              attribute, number);
        p->epilogue = number;
    }
    FAKE_RETURN(0);
}

static FakeType type_of(int type) {
    switch (type) {
    case LT_FLOAT: return FAKE_F32;
    case LT_DOUBLE: return FAKE_F64;
    case LT_FLOAT16: return FAKE_F16;
    case LT_BFLOAT16: return FAKE_BF16;
    default: return FAKE_NO_TYPE;
    }
}
int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t columns,
                               int64_t leading) {
    FAKE_ENTER("cublasLtMatrixLayoutCreate");
    CHECK(type_of(type) != FAKE_NO_TYPE && rows && columns && leading >= (int64_t)rows,
          "a layout of type %d, %llu x %llu, %lld apart", type, (unsigned long long)rows,
          (unsigned long long)columns, (long long)leading);
    Layout *l = make(LAYOUT, sizeof *l);
    *l = (Layout){LAYOUT, type, rows, columns, leading, 0, 1};
    *layout = l;
    FAKE_RETURN(0);
}
int cublasLtMatrixLayoutDestroy(void *layout) {
    return end(layout, LAYOUT, "cublasLtMatrixLayoutDestroy");
}
int cublasLtMatrixLayoutSetAttribute(void *layout, int attribute, const void *value, size_t size) {
    FAKE_ENTER("cublasLtMatrixLayoutSetAttribute");
    Layout *l = layout;
    CHECK(is(l, LAYOUT) && value, "an attribute of no layout");
    if (attribute == LT_BATCHES) {
        CHECK(size == sizeof l->batches, "batches of %zu bytes", size);
        memcpy(&l->batches, value, size);
        CHECK(l->batches > 0, "%d batches", l->batches);
    } else {
        CHECK(attribute == LT_BATCH_STRIDE && size == sizeof l->stride,
              "attribute %d of a layout, %zu bytes", attribute, size);
        memcpy(&l->stride, value, size);
    }
    FAKE_RETURN(0);
}

int cublasLtMatmulPreferenceCreate(void **preference) {
    FAKE_ENTER("cublasLtMatmulPreferenceCreate");
    Preference *w = make(PREFERENCE, sizeof *w);
    for (int i = 0; i < 4; i++) w->least[i] = LEAST;
    *preference = w;
    FAKE_RETURN(0);
}
int cublasLtMatmulPreferenceDestroy(void *preference) {
    return end(preference, PREFERENCE, "cublasLtMatmulPreferenceDestroy");
}
int cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value,
                                         size_t size) {
    FAKE_ENTER("cublasLtMatmulPreferenceSetAttribute");
    Preference *w = preference;
    CHECK(is(w, PREFERENCE) && value, "an attribute of no preference");
    if (attribute == LT_WORKSPACE) {
        CHECK(size == sizeof w->workspace, "a workspace's size of %zu bytes", size);
        memcpy(&w->workspace, value, size);
    } else {
        CHECK(attribute >= LEAST_A && attribute <= LEAST_D && size == sizeof w->least[0],
              "attribute %d of a preference, %zu bytes", attribute, size);
        memcpy(&w->least[attribute - LEAST_A], value, size);
    }
    FAKE_RETURN(0);
}

/* ---- products -------------------------------------------------------------------------------- */

typedef struct Call {
    Product product;
    Layout a, b, c, d;
    uint64_t at[4]; /* addresses of a, b, c, d */
    double alpha, beta;
    uint64_t workspace, workspace_size;
} Call;

static uint64_t mix(uint64_t hash, uint64_t x) {
    return (hash ^ x) * UINT64_C(0x9e3779b97f4a7c15);
}
static uint64_t shape_of(const Product *p, const Layout *const *l) {
    uint64_t hash = mix((uint64_t)p->compute, (uint64_t)p->epilogue);
    hash = mix(hash, (uint64_t)(p->transposed[0] * 2 + p->transposed[1]));
    for (int i = 0; i < 4; i++) {
        hash = mix(mix(mix(hash, l[i]->rows), l[i]->columns), (uint64_t)l[i]->leading);
        hash = mix(mix(hash, (uint64_t)l[i]->batches), (uint64_t)l[i]->type);
    }
    return hash;
}

/* Types that it is documented for: of factors, of results, of scales. */
static bool types_fit(const Product *p, const Layout *a, const Layout *b, const Layout *c,
                      const Layout *d) {
    if (a->type != b->type || c->type != d->type) return false;
    if (p->compute == LT_COMPUTE_64F) return a->type == LT_DOUBLE && d->type == LT_DOUBLE;
    const bool half = a->type == LT_FLOAT16 || a->type == LT_BFLOAT16;
    return (half && (d->type == a->type || d->type == LT_FLOAT)) ||
           (a->type == LT_FLOAT && d->type == LT_FLOAT);
}

/* NULL, or what of them does not fit. */
static const char *wrong_shape(const Product *p, const Layout *const *l) {
    const Layout *a = l[0], *b = l[1], *c = l[2], *d = l[3];
    const uint64_t m = p->transposed[0] ? a->columns : a->rows;
    const uint64_t k = p->transposed[0] ? a->rows : a->columns;
    if (!types_fit(p, a, b, c, d)) return "its types";
    if (m != d->rows || (p->transposed[1] ? b->rows : b->columns) != d->columns ||
        k != (p->transposed[1] ? b->columns : b->rows) || c->rows != d->rows ||
        c->columns != d->columns)
        return "its shapes";
    if (a->batches != d->batches || b->batches != d->batches || c->batches != d->batches)
        return "its batches";
    if (d->batches > 1 && d->stride < d->leading * (int64_t)(d->columns - 1) + (int64_t)d->rows)
        return "results that overlap";
    if (p->compute == LT_COMPUTE_64F && p->epilogue != LT_EPILOGUE_NONE) return "its epilogue";
    return NULL;
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, void *product, void *a, void *b, void *c, void *d,
                                   void *preference, int most, BlasFound *found, int *count) {
    FAKE_ENTER("cublasLtMatmulAlgoGetHeuristic");
    const Preference *w = preference;
    const Layout *l[4] = {a, b, c, d};
    *count = 0;
    CHECK(is_handle(handle) && is(product, PRODUCT) && is(w, PREFERENCE) && most > 0 &&
              is(a, LAYOUT) && is(b, LAYOUT) && is(c, LAYOUT) && is(d, LAYOUT),
          "cublasLtMatmulAlgoGetHeuristic of something else");
    const char *wrong = wrong_shape(product, l);
    CHECK(!wrong, "a product is asked for that cuBLASLt does not have: %s", wrong);
    Algorithm algorithm = {ALGORITHM, {w->least[0], w->least[1], w->least[2], w->least[3]}, 0, 0};
    algorithm.shape = shape_of(product, l);
    algorithm.workspace = w->workspace < WORKSPACE_SIZE ? w->workspace : WORKSPACE_SIZE;
    *found = (BlasFound){.workspace = algorithm.workspace, .waves = 1};
    memcpy(&found->algorithm, &algorithm, sizeof algorithm);
    *count = 1;
    FAKE_RETURN(0);
}

static double activate(int32_t epilogue, double x) {
    const int32_t act = epilogue & ~LT_EPILOGUE_BIAS;
    if (act == LT_EPILOGUE_RELU) return x > 0 || x != x ? x : 0;
    if (act != LT_EPILOGUE_GELU) return x;
    return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

/* What is multiplied and summed up: in float, as the library does, or double. */
typedef union Numbers {
    float *narrow;
    double *wide;
} Numbers;

static Numbers numbers(bool wide, uint64_t count) {
    Numbers n;
    void *memory = malloc(count * (wide ? sizeof *n.wide : sizeof *n.narrow));
    if (!memory) abort();
    if (wide)
        n.wide = memory;
    else
        n.narrow = memory;
    return n;
}
static void numbers_free(bool wide, Numbers n) {
    free(wide ? (void *)n.wide : (void *)n.narrow);
}

/* A factor's elements, turned: row by row rather than column by column. */
static void unpack(const Call *call, const Layout *l, const uint8_t *data, bool turned,
                   Numbers to) {
    const FakeType type = type_of(l->type);
    const int compute = call->product.compute;
    for (uint64_t c = 0; c < l->columns; c++)
        for (uint64_t r = 0; r < l->rows; r++) {
            const uint64_t at = turned ? r * l->columns + c : c * l->rows + r;
            const double x = fake_get(type, data, c * (uint64_t)l->leading + r);
            if (compute == LT_COMPUTE_64F)
                to.wide[at] = x;
            else
                to.narrow[at] = compute == LT_COMPUTE_TF32 ? fake_tf32((float)x) : (float)x;
        }
}

static uint64_t extent(const Layout *l) {
    return ((l->columns - 1) * (uint64_t)l->leading + l->rows) * fake_size(type_of(l->type));
}

/* Column c of the result: each sum in its order, all side by side. */
#define SUM_COLUMN(T, a, b, sums)                                                                  \
    do {                                                                                           \
        T *const to = (sums);                                                                      \
        for (uint64_t r = 0; r < rows; r++) to[r] = 0;                                             \
        for (uint64_t k = 0; k < depth; k++) {                                                     \
            const T x = (b)[c * depth + k], *const row = (a) + k * rows;                           \
            for (uint64_t r = 0; r < rows; r++) to[r] += row[r] * x;                               \
        }                                                                                          \
    } while (0)
static void column(const Call *call, Numbers a, Numbers b, uint64_t depth, uint64_t c,
                   Numbers sums) {
    const uint64_t rows = call->d.rows;
    if (call->product.compute == LT_COMPUTE_64F)
        SUM_COLUMN(double, a.wide, b.wide, sums.wide);
    else
        SUM_COLUMN(float, a.narrow, b.narrow, sums.narrow);
}

static bool batch(const Call *call, uint64_t n, Numbers a, Numbers b, Numbers sums) {
    const Layout *l[4] = {&call->a, &call->b, &call->c, &call->d};
    const bool wide = call->product.compute == LT_COMPUTE_64F;
    const FakeType type = type_of(call->d.type);
    const uint64_t depth = call->product.transposed[0] ? call->a.rows : call->a.columns;
    uint8_t *data[4] = {NULL};
    for (int i = 0; i < 4; i++) {
        const uint64_t offset = n * (uint64_t)l[i]->stride * fake_size(type_of(l[i]->type));
        if (i == 2 && call->beta == 0) continue;
        data[i] = fake_memory(call->at[i] + offset, extent(l[i]), i == 3 ? FAKE_MAKES : FAKE_READS,
                              "a product of cuBLASLt");
        if (!data[i]) return false;
    }
    const uint8_t *bias = NULL;
    if (call->product.epilogue & LT_EPILOGUE_BIAS) {
        bias = fake_memory((uintptr_t)call->product.bias, call->d.rows * fake_size(type),
                           FAKE_READS, "the bias of cuBLASLt's product");
        if (!bias) return false;
    }
    unpack(call, &call->a, data[0], call->product.transposed[0], a);
    unpack(call, &call->b, data[1], call->product.transposed[1], b);
    for (uint64_t c = 0; c < call->d.columns; c++) {
        column(call, a, b, depth, c, sums);
        for (uint64_t r = 0; r < call->d.rows; r++) {
            double x = call->alpha * (wide ? sums.wide[r] : (double)sums.narrow[r]);
            if (data[2])
                x += call->beta * fake_get(type, data[2], c * (uint64_t)call->c.leading + r);
            if (bias) x += fake_get(type, bias, r);
            fake_set(type, data[3], c * (uint64_t)call->d.leading + r,
                     activate(call->product.epilogue, x));
        }
    }
    return true;
}

static bool run(const void *data) {
    const Call *call = data;
    bool ok = true;
    if (call->workspace_size) {
        uint8_t *workspace = fake_memory(call->workspace, call->workspace_size, FAKE_MAKES,
                                         "the workspace of cuBLASLt's product");
        if (!workspace) return false;
        memset(workspace, 0xff, call->workspace_size);
    }
    const bool wide = call->product.compute == LT_COMPUTE_64F;
    const Numbers a = numbers(wide, call->a.rows * call->a.columns);
    const Numbers b = numbers(wide, call->b.rows * call->b.columns);
    const Numbers sums = numbers(wide, call->d.rows);
    for (uint64_t n = 0; ok && n < (uint64_t)call->d.batches; n++) ok = batch(call, n, a, b, sums);
    numbers_free(wide, a);
    numbers_free(wide, b);
    numbers_free(wide, sums);
    return ok;
}

/* NULL, or what the call gets wrong. */
static const char *wrong_call(const Call *call, const Algorithm *algorithm) {
    const Layout *l[4] = {&call->a, &call->b, &call->c, &call->d};
    const char *wrong = wrong_shape(&call->product, l);
    if (wrong) return wrong;
    if (algorithm->shape != shape_of(&call->product, l)) return "an algorithm of another product";
    if (call->product.epilogue & LT_EPILOGUE_BIAS &&
        (!call->product.bias || (uintptr_t)call->product.bias % BIAS_ALIGNMENT))
        return "a bias that is not aligned to 16 bytes";
    if (call->workspace_size < algorithm->workspace || call->workspace % 16)
        return "too small a workspace, or not aligned to 16 bytes";
    if (call->at[2] == call->at[3] && call->beta != 0 && call->c.leading != call->d.leading)
        return "a result in the place of an operand of another layout";
    return NULL;
}

/* For the log: which kind of a product it is, and whether it rounds floats. */
static void note(const Call *call) {
    static const char *const types[] = {"float", "double", "float16", "bfloat16"};
    char kind[64];
    snprintf(kind, sizeof kind, "%s-%s-%d%d-%d-%s%s%s", types[type_of(call->a.type)],
             types[type_of(call->d.type)], call->product.transposed[0], call->product.transposed[1],
             call->product.epilogue, call->d.batches > 1 ? "batched" : "one",
             call->beta != 0 ? "-added" : "", call->d.columns == 1 ? "-row" : "");
    fake_count("product", kind);
    if (call->product.compute == LT_COMPUTE_TF32) fake_count("engine", "tf32");
}

int cublasLtMatmul(void *handle, void *product, const void *alpha, const void *a, void *a_layout,
                   const void *b, void *b_layout, const void *beta, const void *c, void *c_layout,
                   void *d, void *d_layout, const BlasAlgorithm *algorithm, void *workspace,
                   size_t workspace_size, void *stream) {
    FAKE_ENTER("cublasLtMatmul");
    Algorithm how;
    CHECK(is_handle(handle) && is(product, PRODUCT) && is(a_layout, LAYOUT) &&
              is(b_layout, LAYOUT) && is(c_layout, LAYOUT) && is(d_layout, LAYOUT),
          "cublasLtMatmul of something else");
    memcpy(&how, algorithm, sizeof how);
    CHECK(how.kind == ALGORITHM, "cublasLtMatmul by no algorithm");
    Call call = {.product = *(Product *)product,
                 .a = *(Layout *)a_layout,
                 .b = *(Layout *)b_layout,
                 .c = *(Layout *)c_layout,
                 .d = *(Layout *)d_layout,
                 .at = {(uintptr_t)a, (uintptr_t)b, (uintptr_t)c, (uintptr_t)d},
                 .workspace = (uintptr_t)workspace,
                 .workspace_size = workspace_size};
    const bool wide = call.product.scale == LT_DOUBLE;
    call.alpha = wide ? *(const double *)alpha : (double)*(const float *)alpha;
    call.beta = wide ? *(const double *)beta : (double)*(const float *)beta;
    const char *wrong = wrong_call(&call, &how);
    CHECK(!wrong, "a product of cuBLASLt: %s", wrong);
    for (int i = 0; i < 4; i++)
        CHECK((i == 2 && call.beta == 0) || call.at[i] % how.least[i] == 0,
              "a product of cuBLASLt: %c at 0x%llx, the preference said a multiple of %u",
              "ABCD"[i], (unsigned long long)call.at[i], how.least[i]);
    note(&call);
    FAKE_RETURN(fake_put_library(stream, run, &call, sizeof call) ? EXECUTION_FAILED : 0);
}
