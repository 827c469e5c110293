// SPDX-License-Identifier: Apache-2.0
/* Errors as values: `bool f(..., Err *err)` returns false and fills *err.
 *
 * An Err holds fixed buffers, so that reporting never allocates; longer texts are cut with "...".
 * The first error wins: filling an Err that is already set changes nothing. `err` may be NULL.
 * The libraries never print; err_format makes the one line that a command prints:
 *
 *     FILE: graph 'g/then_branch': node 'n' (Conv), input 'W': WHAT: expected E, got A; hint: HINT
 */
#ifndef DEMI_BASE_ERR_H
#define DEMI_BASE_ERR_H

#include <stdbool.h>
#include <stddef.h>

typedef enum ErrCode {
    ERR_NONE = 0,
    ERR_MODEL = 1,     /* the model or data is at fault */
    ERR_USAGE = 2,     /* options, policy, pipeline, unmatched pattern, missing input dtype */
    ERR_ENV = 3,       /* disk, memory, device; these are the command's exit codes */
    ERR_CANCELLED = 4, /* the caller ended it, by a callback or from another thread */
} ErrCode;             /* the values are DemiStatus's */

typedef struct Err {
    ErrCode code;
    char file[1024];
    char graph[160];   /* path of graph names from the main graph, '' for the main graph */
    char node[160];    /* name, or first output of an unnamed node */
    char op_type[64];  /* the node's operator */
    char operand[160]; /* "input 'W'", "attribute 'axis'", … */
    char what[320];    /* what is wrong, a phrase without full stop */
    char expected[200];
    char actual[200];
    char hint[320];
} Err;

/* Sets code and what (printf); returns false, so that callers write `return err_set(...)`. */
bool err_set(Err *err, ErrCode code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Fill one field of an error that was just set; printf formats; no effect where err is NULL or the
 * field is already filled. */
void err_file(Err *err, const char *path);
void err_operand(Err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
void err_expected(Err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
void err_actual(Err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
void err_hint(Err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ERR_ENV "WHAT: strerror(error_number)". Returns false. */
bool err_errno(Err *err, int error_number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ERR_ENV "out of memory". Returns false. */
bool err_out_of_memory(Err *err);

/* Writes the error's line into buffer, always NUL-terminated, without a final newline. What the
 * file says is shown as escaped.h has it, so that the line stays one line. Returns the length
 * written. */
size_t err_format(const Err *err, char *buffer, size_t size);

#endif
