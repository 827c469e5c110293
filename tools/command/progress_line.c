// SPDX-License-Identifier: Apache-2.0
/* See progress_line.h. */
#define _DEFAULT_SOURCE /* TIOCGWINSZ */
#include "progress_line.h"

#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "console.h"
#include "thread_start.h"
#include "work_progress.h"

enum { LINE = 256, REDRAW = 200 /* milliseconds */ };
static const double patience = 1.0; /* seconds before anything is shown */
static const char erase[] = "\r\033[K";

static struct {
    pthread_mutex_t lock; /* of all, and of writing */
    pthread_cond_t ends;
    pthread_t thread;
    bool runs, ended;
    bool silent;         /* for good */
    bool shared, yields; /* the main thread's: standard output is a terminal, too; text has come */
    atomic_bool shown;   /* it may be: from before it is written until after it is erased */
    atomic_bool drawing; /* the thread is about to write, or does */
    atomic_bool left;    /* a signal's handler ends the program: nothing is drawn any more */
    double started;
} line = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- the text -------------------------------------------------------------------------------- */

typedef struct Text {
    char chars[LINE];
    size_t size;
} Text;

__attribute__((format(printf, 2, 3))) static void put(Text *text, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const size_t room = sizeof text->chars - text->size;
    const int size = vsnprintf(text->chars + text->size, room, format, args);
    va_end(args);
    if (size > 0) text->size += (size_t)size < room ? (size_t)size : room - 1;
}

static void put_bytes(Text *text, double bytes) {
    if (bytes < 1e9)
        put(text, "%.0f MB", bytes / 1e6);
    else
        put(text, "%.1f GB", bytes / 1e9);
}

static void put_piece(Text *text, const ProgressPiece *piece, bool inner) {
    enum { MUCH = 10000000 };
    const bool counts = piece->unit == PROGRESS_PARTS || piece->unit == PROGRESS_STEPS;
    const uint64_t number =
        piece->done + (piece->unit == PROGRESS_PARTS); /* the one that it is at */
    if (counts && piece->total > 1)
        put(text, "[%llu/%llu] ",
            (unsigned long long)(number < piece->total ? number : piece->total),
            (unsigned long long)piece->total);
    put(text, "%s", piece->what);
    if (!counts && piece->total >= MUCH && piece->done <= piece->total) {
        put(text, ", %.0f %% of ", 100 * (double)piece->done / (double)piece->total);
        put_bytes(text, (double)piece->total);
    } else if (inner && piece->total && piece->read >= MUCH) {
        put(text, ", ");
        put_bytes(text, (double)piece->read);
        put(text, " read");
    }
}

static void put_left(Text *text, const ProgressPiece *pieces, unsigned count) {
    const double left = progress_left(pieces, count);
    if (left >= 90)
        put(text, ", about %.0f min left", left / 60);
    else if (left >= 0)
        put(text, ", about %.0f s left", left);
}

/* The outermost piece and the innermost one. */
static void put_line(Text *text, const ProgressPiece *pieces, unsigned count) {
    put_piece(text, &pieces[0], count == 1);
    if (count > 1) put(text, ": ");
    if (count > 1) put_piece(text, &pieces[count - 1], true);
    put_left(text, pieces, count);
}

/* ---- the line -------------------------------------------------------------------------------- */

/* Columns of the terminal but the last, behind which a line would be continued. */
static size_t columns(void) {
    struct winsize size = {.ws_col = 0};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2) return 79;
    return size.ws_col - 1u;
}

static void put_out(const char *bytes, size_t size) {
    if (write(STDERR_FILENO, bytes, size) < 0) line.silent = true; /* the terminal has gone */
}

static void take_away(void) {
    if (!atomic_load(&line.shown)) return;
    put_out(erase, sizeof erase - 1);
    atomic_store(&line.shown, false);
}

/* A handler that comes between two of these steps either keeps the line from being written, or waits
 * until it is and erases it. */
static void show(const Text *text) {
    const size_t most = sizeof erase - 1 + columns();
    atomic_store(&line.drawing, true);
    if (!atomic_load(&line.left)) {
        atomic_store(&line.shown, true);
        put_out(text->chars, text->size < most ? text->size : most);
    }
    atomic_store(&line.drawing, false);
}

static void draw(void) {
    ProgressPiece pieces[PROGRESS_DEPTH];
    const unsigned count = progress_pieces(pieces);
    Text text = {.size = 0};
    if (!count || line.silent || console_seconds() - line.started < patience) return;
    put(&text, "%s", erase);
    put_line(&text, pieces, count);
    show(&text);
}

static void *redraw(void *unused) {
    struct timespec until;
    (void)unused;
    pthread_mutex_lock(&line.lock);
    while (!line.ended) {
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += REDRAW * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        pthread_cond_timedwait(&line.ends, &line.lock, &until);
        if (!line.ended) draw();
    }
    pthread_mutex_unlock(&line.lock);
    return NULL;
}

static void end_line(bool for_good) {
    if (!line.runs) return;
    pthread_mutex_lock(&line.lock);
    line.silent |= for_good;
    take_away();
    pthread_mutex_unlock(&line.lock);
}

void progress_line_clear(void) {
    end_line(false);
}

void progress_line_yield(bool to_output) {
    if (!line.yields && (!to_output || line.shared)) {
        line.yields = true;
        end_line(true);
    }
}

static void clear(void *unused) {
    (void)unused;
    end_line(false);
}

/* Waits by the clock that nobody sets. */
static bool init_ends(void) {
    pthread_condattr_t by;
    if (pthread_condattr_init(&by) != 0) return false;
    const bool ok = pthread_condattr_setclock(&by, CLOCK_MONOTONIC) == 0 &&
                    pthread_cond_init(&line.ends, &by) == 0;
    pthread_condattr_destroy(&by);
    return ok;
}

void progress_line_start(double started) {
    if (!isatty(STDERR_FILENO) || !init_ends()) return;
    line.started = started;
    line.ended = line.silent = line.yields = false;
    line.shared = isatty(STDOUT_FILENO);
    progress_listen(clear, NULL);
    line.runs = thread_start(&line.thread, redraw, NULL);
    if (!line.runs) progress_listen(NULL, NULL);
}

void progress_line_end(void) {
    if (!line.runs) return;
    progress_listen(NULL, NULL);
    pthread_mutex_lock(&line.lock);
    line.ended = true;
    take_away();
    pthread_cond_signal(&line.ends);
    pthread_mutex_unlock(&line.lock);
    pthread_join(line.thread, NULL);
    pthread_cond_destroy(&line.ends);
    line.runs = false;
}

void progress_line_leave(void) {
    enum { WAIT = 100 }; /* milliseconds: a terminal that is stopped takes nothing */
    atomic_store(&line.left, true);
    for (int i = 0; i < WAIT && atomic_load(&line.drawing); i++) poll(NULL, 0, 1);
    if (atomic_load(&line.shown) && write(STDERR_FILENO, erase, sizeof erase - 1) < 0) return;
}
