// SPDX-License-Identifier: Apache-2.0
/* Loading libcuda.so.1; see cuda_driver.h. */
#include "cuda_driver.h"

#include <pthread.h>
#include <stdbool.h>

#include "shared_object.h"

enum { OLDEST_DRIVER = 13000 }; /* what the kernels' machine code and PTX ask for: CUDA 13.0 */

static const char file[] = "libcuda.so.1";
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CudaDriver table;
static bool loaded;

bool cuda_ok(const CudaDriver *driver, CuResult result, Err *err, const char *what) {
    const char *name = NULL, *text = NULL;
    if (result == 0) return true;
    if (driver->error_name(result, &name) != 0 || !name) name = "unknown";
    if (driver->error_string(result, &text) != 0 || !text) text = "no explanation";
    return err_set(err, ERR_ENV, "CUDA: %s: %s (%d, %s)", what, text, result, name);
}

static bool find_symbols(void *library, Err *err) {
    /* POSIX has no way but this from an object's address to that of a function */
#define DRIVER(name, symbol, arguments)                                                            \
    *(void **)&table.name = object_symbol(library, #symbol);                                       \
    if (!table.name) {                                                                             \
        err_set(err, ERR_ENV, "the CUDA driver, %s, has no %s", file, #symbol);                    \
        err_hint(err, "install a driver for CUDA 13.0, 580 or later");                             \
        return false;                                                                              \
    }
#include "cuda_driver.def"
#undef DRIVER
    return true;
}

static bool begin(Err *err) {
    int version = 0;
    const CuResult ready = table.init(0);
    if (ready == CU_NO_DEVICE) return err_set(err, ERR_ENV, "there is no CUDA device");
    if (!cuda_ok(&table, ready, err, "the driver cannot be initialized") ||
        !cuda_ok(&table, table.driver_version(&version), err, "the driver's version"))
        return false;
    if (version >= OLDEST_DRIVER) return true;
    err_set(err, ERR_ENV, "the CUDA driver is too old");
    err_expected(err, "CUDA %d.%d or later", OLDEST_DRIVER / 1000, OLDEST_DRIVER % 1000 / 10);
    err_actual(err, "%d.%d", version / 1000, version % 1000 / 10);
    return false;
}

static bool load(Err *err) {
    const char *why;
    void *library = object_open(file, OBJECT_ALONE, &why);
    if (!library) return err_set(err, ERR_ENV, "cannot load the CUDA driver: %s", why);
    if (find_symbols(library, err) && begin(err)) return true;
    object_close(library);
    return false;
}

const CudaDriver *cuda_driver(Err *err) {
    pthread_mutex_lock(&lock);
    if (!loaded) loaded = load(err);
    const bool ok = loaded;
    pthread_mutex_unlock(&lock);
    return ok ? &table : NULL;
}
