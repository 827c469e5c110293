// SPDX-License-Identifier: Apache-2.0
/* Statuses and errors, as all of demi's public headers give them to their callers. */
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
    DEMI_ERR_USAGE = 2,     /* options, pipeline, unmatched pattern, missing input dtype */
    DEMI_ERR_ENV = 3,       /* disk, memory */
    DEMI_ERR_CANCELLED = 4, /* a callback, or demi_context_cancel, asked to stop */
} DemiStatus;

/* What went wrong, whole and in parts. Parts that do not apply are empty strings. */
typedef struct DemiError {
    uint32_t size;
    DemiStatus status;
    char message[2048]; /* one line, without final newline or hint */
    char hint[320];     /* what to do about it */
    char file[1024];
    char graph[160];   /* path of the graph within the model; empty for the main graph */
    char node[160];    /* the node's name, or its first output's */
    char op_type[64];  /* the node's operator */
    char operand[160]; /* such as: input 'W' */
    char what[320];
    char expected[200];
    char actual[200];
} DemiError;

#define DEMI_ERROR_INIT                                                                            \
    { sizeof(DemiError), DEMI_OK, "", "", "", "", "", "", "", "", "", "" }

#ifdef __cplusplus
}
#endif
#endif
