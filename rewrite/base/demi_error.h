// SPDX-License-Identifier: Apache-2.0
/* Statuses and errors of all of demi's public headers. */
#ifndef DEMI_ERROR_H
#define DEMI_ERROR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define DEMI_API __attribute__((visibility("default")))
#else
#define DEMI_API
#endif

typedef enum DemiStatus {
    DEMI_OK = 0,
    DEMI_ERR_MODEL = 1,     /* the model or its data is at fault */
    DEMI_ERR_USAGE = 2,     /* wrong options or pipeline, unmatched pattern, missing input dtype */
    DEMI_ERR_ENV = 3,       /* disk, memory, time, or a device failed */
    DEMI_ERR_CANCELLED = 4, /* a callback or demi_context_cancel ended the call */
} DemiStatus;

/* An error: the complete message and its parts. Parts that do not apply are empty strings. Texts
 * that are too long are truncated. */
typedef struct DemiError {
    uint32_t size;
    DemiStatus status;
    char message[2048]; /* one line, without a final newline and without the hint */
    char hint[320];     /* what to do about it */
    char file[1024];
    char graph[160];   /* path of the graph in the model; empty for the main graph */
    char node[160];    /* name of the node, or of its first output */
    char op_type[64];  /* operator of the node */
    char operand[160]; /* such as: input 'W' */
    char what[320];    /* what is wrong */
    char expected[200];
    char actual[200];
} DemiError;

#define DEMI_ERROR_INIT                                                                            \
    { sizeof(DemiError), DEMI_OK, "", "", "", "", "", "", "", "", "", "" }

#ifdef __cplusplus
}
#endif
#endif
