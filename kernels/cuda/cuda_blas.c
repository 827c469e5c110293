// SPDX-License-Identifier: Apache-2.0
/* Loading cuBLASLt; see cuda_blas.h. */
#include "cuda_blas.h"

#include <stdlib.h>

#include "cuda_library.h"

static const char file[] = "libcublasLt.so.13";
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CudaBlas table;
static bool loaded, absent; /* absent: it was looked for, which takes a while */

bool cuda_blas_ok(int status, Err *err, const char *what) {
    return status == 0 || err_set(err, ERR_ENV, "cuBLASLt: %s: status %d", what, status);
}

static bool load(Err *err) {
    void *library = absent ? NULL : cuda_library_open(file, err);
    absent = !library;
    if (absent) return err_set(err, ERR_ENV, "%s is missing", file);
#define BLAS(name, symbol, arguments)                                                              \
    *(void **)&table.name = cuda_library_symbol(library, file, #symbol, err);                      \
    if (!table.name) return false;
#include "cuda_blas.def"
#undef BLAS
    return true;
}

const CudaBlas *cuda_blas(Err *err) {
    pthread_mutex_lock(&lock);
    if (!loaded) loaded = load(err);
    const bool ok = loaded;
    pthread_mutex_unlock(&lock);
    return ok ? &table : NULL;
}

static void end(void *handle) {
    table.destroy(handle);
}

void *cuda_blas_handle(CudaDevice *device, const CudaBlas *blas, Err *err) {
    pthread_mutex_lock(&device->lock);
    void **handle = &device->libraries[CUDA_BLAS];
    if (!*handle && cuda_blas_ok(blas->create(handle), err, "a handle"))
        device->library_free[CUDA_BLAS] = end;
    pthread_mutex_unlock(&device->lock);
    return *handle;
}
