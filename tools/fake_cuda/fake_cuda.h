// SPDX-License-Identifier: Apache-2.0
/* What the fake driver and the fake libraries share: settings, complaints, memory, and work in streams.
 * One lock is around each call of the driver's and libraries' functions (FAKE_ENTER). */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cuda_driver.h"
#include "ptx.h"

/* Errors that cuda.h has, and not as demi's headers have them: see fake_driver.c. */
enum {
    FAKE_INVALID_VALUE = 1,
    FAKE_OUT_OF_MEMORY = 2,
    FAKE_DEINITIALIZED = 4,
    FAKE_NO_DEVICE = 100,
    FAKE_INVALID_CONTEXT = 201,
    FAKE_NO_BINARY = 209,
    FAKE_PTX_VERSION = 222,
    FAKE_INVALID_HANDLE = 400,
    FAKE_NOT_FOUND = 500,
    FAKE_ILLEGAL_ADDRESS = 700,
    FAKE_LAUNCH_FAILED = 719,
    FAKE_CAPTURE_UNSUPPORTED = 900,
    FAKE_CAPTURE_INVALIDATED = 901,
    FAKE_UNKNOWN = 999
};
enum { FAKE_DEVICES = 2 };

/* ---- settings and complaints (fake_state.c) -------------------------------------------------- */

/* By the variable FAKE_CUDA, words separated by commas:
 *   no-device            cuInit finds none
 *   driver=12080         cuDriverGetVersion
 *   capability=75        10 major + minor
 *   second=80            the same of the second device, where it is another
 *   memory=BYTES         of each device
 *   cudnn=91900          cudnnGetVersion
 *   fail=NAME:N[:CODE]   the N-th call of that function gives CODE (999); N 0: each
 *   plans=FILE           where plans of cuDNN are noted, a line each (dnn_line.h)
 *   idle                 work in streams is not done, and what is fetched is 0: for what is counted
 *   log=FILE             at the end: how often each function was called, and each kernel launched
 *   sites                the log has the ways that led to calls, too: FUNCTION:WAY:FIRST:LAST and how many,
 *                        where first and last are which of the function's calls */
typedef struct FakeSettings {
    bool no_device, idle;
    int driver, capability, second, cudnn;
    uint64_t memory;
    char plans[256]; /* "": nowhere */
} FakeSettings;
const FakeSettings *fake_settings(void);

/* Notes that a function was called, and takes the lock; what it has to return where it is to fail, 0
 * where not. A device that was lost stays so. */
int fake_enter(const char *function);
void fake_leave(void);
#define FAKE_ENTER(function)                                                                       \
    do {                                                                                           \
        const int to_fail = fake_enter(function);                                                  \
        if (to_fail) {                                                                             \
            fake_leave();                                                                          \
            return to_fail;                                                                        \
        }                                                                                          \
    } while (0)
#define FAKE_RETURN(code)                                                                          \
    do {                                                                                           \
        const int to_return = (code);                                                              \
        fake_leave();                                                                              \
        return to_return;                                                                          \
    } while (0)

/* Something that the program may not do: said on stderr; the process ends with 97 then, whatever else
 * it would have said. Returns the code. */
int fake_complain(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Whether a call failed, as the settings say or by a complaint: from then on the program may give back
 * what it has without a wait. */
bool fake_has_failed(void);
/* From now on, all calls fail with it. */
void fake_lose(int code);
/* Counts for the log. */
void fake_count(const char *kind, const char *name);
void fake_write_counts(FILE *to);
/* Things that have to be given back before the end. */
void fake_made(const char *what, int by);

/* ---- memory (fake_memory.c) ------------------------------------------------------------------ */

/* Regions have addresses that are those of nothing else, never used again, and not to be read by the
 * host. What is allocated holds NaN, and may not be read before it is written. They are those of the
 * device of the thread's context. */
uint64_t fake_allocate(uint64_t size);
bool fake_free(uint64_t address);
/* What follows is work of that device: memory of another one is none of its. */
void fake_work_on(int device);
PtxFind fake_find;
/* What comes: the device reads it or writes it, or the host writes it. */
typedef enum FakeUse { FAKE_READS, FAKE_MAKES, FAKE_SENDS } FakeUse;
/* Where [address, address + size) lies; NULL with a complaint where it is in no allocation, or is to be
 * read and was not written yet. Where it is to be written, it then counts as written. */
uint8_t *fake_memory(uint64_t address, uint64_t size, FakeUse use, const char *what);
bool fake_copy(uint64_t to, uint64_t from, uint64_t size);
void *fake_pin(uint64_t size);
bool fake_unpin(void *memory);
bool fake_is_pinned(const void *memory, uint64_t size);
/* The number of the device whose memory the address is in; -1: none's. */
int fake_device_of(uint64_t address);

/* ---- work (fake_stream.c) -------------------------------------------------------------------- */

/* Work is done when something waits for it, and no sooner. */
typedef enum FakeKind { FAKE_UPLOAD, FAKE_DOWNLOAD, FAKE_MOVE, FAKE_KERNEL, FAKE_LIBRARY } FakeKind;

/* What a library does when its turn comes; false with a complaint made. */
typedef bool FakeRun(const void *data);

typedef struct FakeWork {
    struct FakeWork *next;
    FakeKind kind;
    uint64_t to, from, size; /* of copies: addresses of the device or host */
    const PtxKernel *kernel;
    PtxLaunch launch;
    FakeRun *run;
    uint64_t bytes; /* behind it: parameters, data, or what a copy of pageable memory took along */
    _Alignas(16) uint8_t data[];
} FakeWork;

typedef struct FakeList {
    FakeWork *first, *last;
} FakeList;

struct CuStreamOpaque {
    struct CuStreamOpaque *next;
    int device;
    FakeList work;
    pthread_t thread;      /* that put work into it last */
    bool captures, broken; /* a graph is made of what comes; that can't be made any more */
    bool global;           /* no thread may disturb that */
    FakeList captured;
};

/* Room for work with so many bytes behind it. */
FakeWork *fake_work(FakeKind kind, uint64_t bytes);
/* Puts it into the stream or what the stream captures, and owns it; a CUresult. */
int fake_put(CuStream stream, FakeWork *work);
/* Does all that is in the stream; a CUresult. */
int fake_finish(CuStream stream);
void fake_list_add(FakeList *list, FakeWork *work);
void fake_list_free(FakeList *list);
/* All of it once more, behind `to`. */
void fake_list_repeat(FakeList *to, const FakeList *from);
/* Puts a library's work into the stream, with a copy of data; a CUresult. The lock is held. */
int fake_put_library(void *stream, FakeRun *run, const void *data, size_t size);
/* Whether it is a stream of the device of the thread's context. */
bool fake_is_stream(const void *stream);
/* The device of the thread's context; -1: it has none. */
int fake_device(void);

#endif
