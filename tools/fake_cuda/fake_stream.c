// SPDX-License-Identifier: Apache-2.0
/* Work in streams, done late; see fake_cuda.h. */
#include <stdlib.h>
#include <string.h>

#include "fake_cuda.h"

/* ---- lists ----------------------------------------------------------------------------------- */

FakeWork *fake_work(FakeKind kind, uint64_t bytes) {
    FakeWork *w = calloc(1, sizeof *w + bytes);
    if (!w) abort();
    w->kind = kind;
    w->bytes = bytes;
    return w;
}

void fake_list_add(FakeList *list, FakeWork *w) {
    w->next = NULL;
    if (list->last)
        list->last->next = w;
    else
        list->first = w;
    list->last = w;
}

static FakeWork *list_take(FakeList *list) {
    FakeWork *w = list->first;
    if (w && !(list->first = w->next)) list->last = NULL;
    return w;
}

void fake_list_free(FakeList *list) {
    for (FakeWork *w; (w = list_take(list));) free(w);
}

void fake_list_repeat(FakeList *to, const FakeList *from) {
    for (const FakeWork *w = from->first; w; w = w->next) {
        FakeWork *copy = fake_work(w->kind, w->bytes);
        memcpy(copy, w, sizeof *w + w->bytes);
        fake_list_add(to, copy);
    }
}

/* ---- doing ----------------------------------------------------------------------------------- */

static bool upload(const FakeWork *w) {
    const void *from = w->bytes ? w->data : (const void *)(uintptr_t)w->from;
    uint8_t *to = fake_memory(w->to, w->size, FAKE_SENDS, "a copy to the device");
    if (to && !w->bytes && !fake_is_pinned(from, w->size))
        return fake_complain(0, "a copy from pinned memory that was given back"), false;
    if (to) memcpy(to, from, w->size);
    return to;
}

static bool download(const FakeWork *w) {
    const uint8_t *from = fake_memory(w->from, w->size, FAKE_READS, "a copy from the device");
    if (from) memcpy((void *)(uintptr_t)w->to, from, w->size);
    return from;
}

static bool launch(const FakeWork *w) {
    char why[PTX_WHY];
    PtxLaunch launched = w->launch;
    launched.params = w->data;
    launched.find = fake_find;
    if (ptx_run(w->kernel, &launched, why)) return true;
    return fake_complain(0, "%s", why), false;
}

static bool run(const FakeWork *w) {
    if (fake_settings()->idle) {
        if (w->kind == FAKE_DOWNLOAD) memset((void *)(uintptr_t)w->to, 0, w->size);
        return true;
    }
    switch (w->kind) {
    case FAKE_UPLOAD: return upload(w);
    case FAKE_DOWNLOAD: return download(w);
    case FAKE_MOVE: return fake_copy(w->to, w->from, w->size);
    case FAKE_KERNEL: return launch(w);
    case FAKE_LIBRARY: return w->run(w->data);
    }
    return false;
}

int fake_finish(CuStream stream) {
    fake_work_on(stream->device);
    for (FakeWork *w; (w = list_take(&stream->work));) {
        const bool ok = run(w);
        free(w);
        if (ok) continue;
        fake_list_free(&stream->work);
        fake_lose(FAKE_LAUNCH_FAILED);
        return FAKE_LAUNCH_FAILED;
    }
    return 0;
}

int fake_put(CuStream stream, FakeWork *w) {
    if (stream->broken) {
        free(w);
        return FAKE_CAPTURE_INVALIDATED;
    }
    fake_list_add(stream->captures ? &stream->captured : &stream->work, w);
    stream->thread = pthread_self();
    return 0;
}

int fake_put_library(void *stream, FakeRun *does, const void *data, size_t size) {
    if (!fake_is_stream(stream))
        return fake_complain(FAKE_INVALID_HANDLE, "work of a library in no stream");
    FakeWork *w = fake_work(FAKE_LIBRARY, size);
    w->run = does;
    memcpy(w->data, data, size);
    return fake_put(stream, w);
}
