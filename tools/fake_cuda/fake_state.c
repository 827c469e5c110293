// SPDX-License-Identifier: Apache-2.0
/* Settings, the lock, and what is said at the end; see fake_cuda.h. */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_cuda.h"

enum { WORD = 128, COUNTS = 1024, SITES = 4096, FRAMES = 64, BAD_END = 97 };

typedef struct Count {
    const char *from[2]; /* what it was first counted by: most often the same text again */
    char kind[16], name[WORD];
    uint64_t count;
    long live; /* of things that are given back */
} Count;

/* Where the program calls a function: all calls of it that come the same way, by their numbers. */
typedef struct Site {
    const char *function;
    uint64_t way;
    unsigned long first, last, count;
} Site;

static struct State {
    pthread_mutex_t lock;
    bool sites, ready, bad, failed, excused; /* what could not be given back */
    FakeSettings settings;
    char fails[WORD], log[4 * WORD];
    unsigned long fails_at;
    int fails_with, lost;
    Count counts[COUNTS];
    unsigned count_count;
    Site found[SITES];
    unsigned site_count;
} state = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .settings = {.driver = 13000, .capability = 90, .cudnn = 91900, .memory = UINT64_C(4) << 30}};

/* ---- settings -------------------------------------------------------------------------------- */

static void read_word(char *word) {
    char *value = strchr(word, '=');
    if (value) *value++ = 0;
    if (strcmp(word, "no-device") == 0) {
        state.settings.no_device = true;
    } else if (strcmp(word, "idle") == 0) {
        state.settings.idle = true;
    } else if (strcmp(word, "sites") == 0) {
        state.sites = true;
    } else if (value && strcmp(word, "driver") == 0) {
        state.settings.driver = atoi(value);
    } else if (value && strcmp(word, "capability") == 0) {
        state.settings.capability = atoi(value);
    } else if (value && strcmp(word, "second") == 0) {
        state.settings.second = atoi(value);
    } else if (value && strcmp(word, "cudnn") == 0) {
        state.settings.cudnn = atoi(value);
    } else if (value && strcmp(word, "memory") == 0) {
        state.settings.memory = strtoull(value, NULL, 10);
    } else if (value && strcmp(word, "plans") == 0) {
        snprintf(state.settings.plans, sizeof state.settings.plans, "%s", value);
    } else if (value && strcmp(word, "log") == 0) {
        snprintf(state.log, sizeof state.log, "%s", value);
    } else if (value && strcmp(word, "fail") == 0) {
        char *number = strchr(value, ':'), *code = number ? strchr(number + 1, ':') : NULL;
        if (number) *number++ = 0;
        state.fails_at = number ? strtoul(number, NULL, 10) : 1;
        state.fails_with = code ? atoi(code + 1) : FAKE_UNKNOWN;
        snprintf(state.fails, sizeof state.fails, "%s", value);
    } else {
        fprintf(stderr, "fake CUDA: what is '%s' in FAKE_CUDA?\n", word);
        state.bad = true;
    }
}

static void read_settings(void) {
    const char *text = getenv("FAKE_CUDA");
    char copy[8 * WORD], *word = copy;
    state.ready = true;
    if (!text || !*text) return;
    snprintf(copy, sizeof copy, "%s", text);
    while (word) {
        char *next = strchr(word, ',');
        if (next) *next++ = 0;
        if (*word) read_word(word);
        word = next;
    }
}

const FakeSettings *fake_settings(void) {
    return &state.settings;
}

/* ---- counting -------------------------------------------------------------------------------- */

static Count *count_of(const char *kind, const char *name) {
    for (unsigned i = 0; i < state.count_count; i++)
        if (state.counts[i].from[0] == kind && state.counts[i].from[1] == name &&
            strcmp(state.counts[i].name, name) == 0)
            return &state.counts[i];
    for (unsigned i = 0; i < state.count_count; i++)
        if (strcmp(state.counts[i].name, name) == 0 && strcmp(state.counts[i].kind, kind) == 0)
            return &state.counts[i];
    if (state.count_count == COUNTS) abort();
    Count *c = &state.counts[state.count_count++];
    c->from[0] = kind;
    c->from[1] = name;
    snprintf(c->kind, sizeof c->kind, "%s", kind);
    snprintf(c->name, sizeof c->name, "%s", name);
    return c;
}

void fake_count(const char *kind, const char *name) {
    count_of(kind, name)->count++;
}
void fake_made(const char *what, int by) {
    count_of("made", what)->live += by;
}

static bool is_fake(const char *file) {
    return strstr(file, "libcuda.so") || strstr(file, "libcublasLt.so") ||
           strstr(file, "libcudnn.so");
}

/* The functions that led to a call, as far as they are of the library that calls: a hash of where they call
 * each other. */
static uint64_t way_here(void) {
    void *frames[FRAMES];
    const void *library = NULL;
    uint64_t way = 0;
    const int count = backtrace(frames, FRAMES);
    for (int i = 0; i < count; i++) {
        Dl_info info;
        if (!dladdr(frames[i], &info) || (!library && is_fake(info.dli_fname))) continue;
        if (!library) library = info.dli_fbase;
        if (info.dli_fbase != library) break;
        way = (way ^ (uint64_t)((const char *)frames[i] - (const char *)library)) *
              UINT64_C(0x9e3779b97f4a7c15);
    }
    return way;
}

static void note_site(const char *function, unsigned long number) {
    const uint64_t way = way_here();
    Site *s = state.found, *end = state.found + state.site_count;
    while (s < end && !(s->way == way && strcmp(s->function, function) == 0)) s++;
    if (s == state.found + SITES) abort();
    if (s == end) state.site_count++, *s = (Site){function, way, number, number, 0};
    s->last = number;
    s->count++;
}

/* Where such a call fails, there is nothing more that a program could do. */
static bool gives_back(const char *function) {
    static const char *const words[] = {"Free", "Destroy", "Unload", "Release", "CtxPush"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(function, words[i])) return true;
    return false;
}

int fake_enter(const char *function) {
    pthread_mutex_lock(&state.lock);
    if (!state.ready) read_settings();
    const unsigned long number = (unsigned long)++count_of("call", function)->count;
    if (state.sites) note_site(function, number);
    if (strcmp(state.fails, function) == 0 && (number == state.fails_at || state.fails_at == 0)) {
        if (state.fails_with >= FAKE_ILLEGAL_ADDRESS && state.fails_with < 800)
            state.lost = state.fails_with;
        state.failed = true;
        state.excused = gives_back(function);
        return state.fails_with;
    }
    return strncmp(function, "cuGetError", 10) == 0 ? 0 : state.lost;
}
void fake_leave(void) {
    pthread_mutex_unlock(&state.lock);
}

bool fake_has_failed(void) {
    return state.failed || state.bad;
}

void fake_lose(int code) {
    state.lost = code;
}

int fake_complain(int code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("fake CUDA: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    state.bad = true;
    return code;
}

/* ---- the end --------------------------------------------------------------------------------- */

void fake_write_counts(FILE *to) {
    for (unsigned i = 0; i < state.count_count; i++)
        if (state.counts[i].count)
            fprintf(to, "%s %s %llu\n", state.counts[i].kind, state.counts[i].name,
                    (unsigned long long)state.counts[i].count);
}

static void write_log(void) {
    FILE *to = fopen(state.log, "w");
    if (!to) return;
    fake_write_counts(to);
    for (const Site *s = state.found; s < state.found + state.site_count; s++)
        fprintf(to, "site %s:%016llx:%lu:%lu %lu\n", s->function, (unsigned long long)s->way,
                s->first, s->last, s->count);
    fclose(to);
}

/* A device that was lost takes all with it; and what a failed call was to give back stays. */
static __attribute__((destructor)) void end(void) {
    for (unsigned i = 0; i < state.count_count; i++)
        if (state.counts[i].live > 0 && !state.lost && !state.excused)
            fake_complain(0, "%ld %s not given back", state.counts[i].live, state.counts[i].name);
    if (state.log[0]) write_log();
    if (!state.bad) return;
    fflush(NULL);
    _exit(BAD_END);
}
