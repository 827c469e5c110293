// SPDX-License-Identifier: Apache-2.0
/* What decodes kernels (ptx_read.c) and their instructions (ptx_read_ops.c) share. */
#ifndef FAKE_PTX_READ_H
#define FAKE_PTX_READ_H

#include "ptx_text.h"

enum { PTX_FORMALS = 8 };

typedef enum PtxSymbolKind {
    PTX_REGISTER,
    PTX_REGISTERS, /* by prefix, [count] */
    PTX_VALUE,     /* a parameter or result of a call: a register */
    PTX_ADDRESS    /* in shared or local memory: at */
} PtxSymbolKind;

typedef struct PtxSymbol {
    PtxSlice name;
    PtxSymbolKind kind;
    uint8_t width;
    uint32_t at, count;
} PtxSymbol;

typedef struct PtxJump {
    PtxSlice name;
    uint32_t at; /* instruction: that jumps, or that the label is of */
} PtxJump;

/* A function that was decoded into this kernel. */
typedef struct PtxCalled {
    const PtxFunction *function;
    uint32_t entry, returns; /* instruction; register that has where to go on */
    uint32_t result, formals[PTX_FORMALS], count;
    uint8_t result_width, widths[PTX_FORMALS];
} PtxCalled;

typedef struct PtxReader {
    PtxModule *module;
    PtxKernel *kernel;
    char *why;
    bool ok;
    uint32_t depth, returns; /* of a function: where it returns to; 0 in a kernel */
    PtxSlice params;         /* name of the kernel's parameter */
    const char *text;        /* the statement */
    uint32_t guard;
    bool negated;
    PtxSymbol *symbols; /* of the function */
    PtxJump *labels, *jumps;
    PtxCalled *called;
    uint32_t symbol_count, symbol_room, label_count, label_room, jump_count, jump_room,
        called_count, called_room;
} PtxReader;

/* Notes that it can't be decoded; false. The first reason stays. */
bool ptx_refuse(PtxReader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));

PtxSymbol *ptx_symbol(PtxReader *reader, PtxSlice name);
PtxCalled *ptx_called(PtxReader *reader, PtxSlice name);
uint32_t ptx_register(PtxReader *reader, PtxSlice name, uint32_t *width);
uint32_t ptx_operand(PtxReader *reader, PtxSlice text, uint32_t width);
/* One that no name has. */
uint32_t ptx_new_register(PtxReader *reader, uint32_t width);
uint32_t ptx_constant(PtxReader *reader, uint64_t value, uint32_t width);
int ptx_type_size(PtxSlice type);
/* Appends an instruction, with the statement's predicate. It may move when the next one is. */
PtxInstr *ptx_emit(PtxReader *reader, PtxRun *run, PtxKind kind);

/* ptx_read_ops.c: appends what a statement says. */
void ptx_read_instruction(PtxReader *reader, const PtxStatement *statement);

#endif
