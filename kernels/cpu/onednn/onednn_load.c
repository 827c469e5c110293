// SPDX-License-Identifier: Apache-2.0
/* Opens oneDNN, once a process; see onednn_load.h.
 *
 * The version is looked at first, then how it was built, then whether it gives an engine: builds
 * for SYCL have the same name and functions, and no CPU engine.
 */
#define _DEFAULT_SOURCE
#include "onednn_load.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared_object.h"

#define LIBRARY "libdnnl.so.3"

/* The one state of this folder that is not a call's: a library is loaded once a process, whoever
 * asks first, and stays. Written inside pthread_once alone. */
static struct {
    pthread_once_t once;
    bool usable;
    Onednn lib;
    char problem[256];
} loaded = {.once = PTHREAD_ONCE_INIT};

static bool refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool refuse(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(loaded.problem, sizeof loaded.problem, format, args);
    va_end(args);
    return false;
}

/* C has no cast from object to function pointers; on systems with dlsym they are alike. */
static bool find(void *handle, const char *name, void *function) {
    void *symbol = object_symbol(handle, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol || refuse("%s has no %s", LIBRARY, name);
}

static bool find_functions(void *handle, Onednn *lib) {
#define ONEDNN_FIND(name)                                                                          \
    if (!find(handle, "dnnl_" #name, &lib->name)) return false;
    ONEDNN_FUNCTIONS(ONEDNN_FIND)
#undef ONEDNN_FIND
    return true;
}

static bool check_version(const dnnl_version_t *version, Onednn *lib) {
    snprintf(lib->text, sizeof lib->text, "%d.%d.%d", version->major, version->minor,
             version->patch);
    if (version->major != 3 || version->minor < 2)
        return refuse("oneDNN is version %s; demi needs 3.2 or a later 3", lib->text);
    return true;
}

/* Threads are the OpenMP's that the library itself was linked with. */
static bool find_threads(void *handle, unsigned runtime, Onednn *lib) {
    if (runtime == DNNL_RUNTIME_SEQ) return true;
    if (runtime != DNNL_RUNTIME_OMP)
        return refuse("oneDNN %s was built for %s; demi needs a build for OpenMP", lib->text,
                      runtime == DNNL_RUNTIME_TBB          ? "TBB"
                      : runtime == DNNL_RUNTIME_THREADPOOL ? "a thread pool"
                      : runtime == DNNL_RUNTIME_SYCL       ? "SYCL"
                                                           : "no CPU");
    return find(handle, "omp_set_num_threads", &lib->set_threads) &&
           find(handle, "omp_get_max_threads", &lib->most_threads);
}

static bool has(unsigned isa, unsigned wanted) {
    return (isa & wanted) == wanted;
}

static bool check_engine(Onednn *lib) {
    dnnl_status_t status = lib->engine_create(&lib->engine, dnnl_cpu, 0);
    if (status != dnnl_success)
        return refuse("oneDNN %s cannot create a CPU engine (status %d)", lib->text, (int)status);
    unsigned isa = (unsigned)lib->get_effective_cpu_isa();
    lib->bytes = has(isa, dnnl_cpu_isa_avx512_core_vnni) || has(isa, dnnl_cpu_isa_avx2_vnni);
    lib->bfloat16 = has(isa, dnnl_cpu_isa_avx512_core_bf16);
    return true;
}

/* oneDNN keeps the last 1,024 primitives of the process, whose code alone may be 30 MB. Contexts
 * keep those of the shapes at hand, so few more are enough; unless the user said how many, or the
 * program has oneDNN for something else, too. */
static void limit_cache(const Onednn *lib, bool is_ours) {
    enum { CACHED = 64 };
    if (is_ours && !getenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY"))
        lib->set_primitive_cache_capacity(CACHED);
}

static bool open_library(Onednn *lib) {
    const char *why;
    const bool before = object_is_loaded(LIBRARY);
    void *handle = object_open(LIBRARY, OBJECT_ALONE, &why);
    if (!handle) return refuse("%s", why);
    /* It is never closed: threads of its OpenMP may outlive any call. */
    if (!find(handle, "dnnl_version", &lib->version)) return false;
    const dnnl_version_t *version = lib->version();
    if (!check_version(version, lib) || !find_functions(handle, lib) ||
        !find_threads(handle, version->cpu_runtime, lib) || !check_engine(lib))
        return false;
    limit_cache(lib, !before);
    return true;
}

static void load(void) {
    loaded.usable = open_library(&loaded.lib);
}

const Onednn *onednn_get(void) {
    pthread_once(&loaded.once, load);
    return loaded.usable ? &loaded.lib : NULL;
}

const char *onednn_version(void) {
    const Onednn *lib = onednn_get();
    return lib ? lib->text : NULL;
}

const char *onednn_problem(void) {
    return onednn_get() ? "" : loaded.problem;
}

#define TEXT_OF(number)                 #number
#define VERSION_OF(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *onednn_built_with(void) {
    return VERSION_OF(DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, DNNL_VERSION_PATCH);
}

int onednn_enter(const Onednn *lib) {
    if (!lib->set_threads) return 0;
    int before = lib->most_threads();
    if (before != 1) lib->set_threads(1);
    return before;
}

void onednn_leave(const Onednn *lib, int before) {
    if (lib->set_threads && lib->most_threads() != before) lib->set_threads(before);
}
