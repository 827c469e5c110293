// SPDX-License-Identifier: Apache-2.0
/* The plan file: what `demi compile` writes and the runtime executes, without any ONNX code.
 *
 * Little-endian, meant to be mapped: a header, then sections that are arrays of the structs below,
 * then data. Everything refers to everything else by index, so a plan is position-free; every index
 * is checked once, by plan_check, before anything uses it: a plan file is untrusted input.
 *
 *     OPS       operators in use: domain, name, opset
 *     VALUES    tensors, sequences and optionals, each with its name, type and, for constants, data
 *     GRAPHS    the main graph is 0; bodies of If, Loop, Scan and SequenceMap follow
 *     STEPS     by graph, in order of execution
 *     ATTRS     by step
 *     OPERANDS  indices of values (PLAN_NONE: omitted), and of texts
 *     NUMBERS   int64: dims and integer lists        FLOATS   float: float lists
 *     TEXTS     spans of CHARS
 *     PACKS     of constants that are packed for their kernels, or have what kernels make of them
 *               beside them: how (weight_layout.h); by value
 *     CHOICES   of steps that were measured to be faster another way than by kernels' own rules; by
 *               step
 *     DATA      constants, each 64-byte aligned: elements as kernel.h lays them out, or as PACKS
 *               says; strings as uint32 indices of texts
 *
 * Packed weights are there once, in the layout that kernels of one instruction set read in place,
 * mapped from the file: they are shared by all processes, and nothing is packed or copied. Where a
 * kernel wants another layout, or elements in their order, they are made of the packed ones. What
 * they can't be made of again (weight_layout_loses) lies beside them: who does not read it does not
 * have it in memory.
 *
 * The last 64 bytes are a PlanSum. What loads a plan does not look at it, as it reads no weights.
 *
 * A plan that a process makes for itself need not hold what files have as kernels read it: these files
 * lie behind it in memory (plan_end), mapped, and constants refer to them.
 *
 * A plan is a cache: where format or kernel table differ it is recompiled, never migrated.
 */
#ifndef DEMI_PLAN_H
#define DEMI_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "dtype.h"
#include "err.h"
#include "isa.h"
#include "source.h"
#include "vec.h"
#include "weight_layout.h"

enum {
    PLAN_VERSION = 5,
    PLAN_ALIGN = 64, /* of DATA and every constant in it */
    PLAN_RANK_LIMIT = 1024,
    PLAN_SMALL = 4096, /* bytes of a constant up to which it is read where the plan is loaded */
    /* What one call writes: a file system that keeps that in the memory of a large page gives it to
     * processes that map it as such (ext4 from Linux 6.16 on). They come to the weights with a 500th of
     * the faults, and read them without page walks. */
    PLAN_BLOCK = 2 << 20,
};
#define PLAN_NONE    UINT32_MAX /* no value, no rank, no text */
#define PLAN_NO_DATA UINT64_MAX /* no constant */
/* In a builder, of a constant that is left in its file: `data` of the files' first byte. */
#define PLAN_FILES (UINT64_C(1) << 62)

typedef enum PlanSectionKind {
    PLAN_OPS,
    PLAN_VALUES,
    PLAN_GRAPHS,
    PLAN_STEPS,
    PLAN_ATTRS,
    PLAN_OPERANDS,
    PLAN_NUMBERS,
    PLAN_FLOATS,
    PLAN_TEXTS,
    PLAN_CHARS,
    PLAN_PACKS,
    PLAN_CHOICES,
    PLAN_DATA,
    PLAN_SECTION_COUNT
} PlanSectionKind;

/* What its results may differ in from the model's: a property of the plan, as it is decided by what
 * was fused. Faithful: every operator's 16-bit result is rounded once, as if nothing was fused. */
typedef enum PlanNumerics { PLAN_FAST, PLAN_FAITHFUL, PLAN_NUMERICS_COUNT } PlanNumerics;

/* What weights are packed for. */
typedef enum PlanIsa {
    PLAN_ISA_NONE, /* nothing: all are as they were */
    PLAN_ISA_PORTABLE,
    PLAN_ISA_AVX2,
    PLAN_ISA_AVX512,
    PLAN_ISA_COUNT
} PlanIsa;

/* That of this machine; and "none", "portable", ... */
PlanIsa plan_isa_here(void);
const char *plan_isa_name(PlanIsa isa);

typedef struct PlanSection {
    uint64_t offset, count; /* from the file's start, a multiple of 64; of items */
} PlanSection;

typedef struct PlanHeader {
    char magic[8]; /* PLAN_MAGIC */
    uint16_t version;
    uint8_t numerics, small; /* a PlanNumerics; 1 where 16-bit values were kept for memory's sake */
    uint32_t header_size;
    uint64_t file_size;
    uint64_t kernels;   /* kernel_table_version */
    uint64_t source[2]; /* source_hash of the model's file; 0 where unknown */
    uint32_t isa;       /* a PlanIsa: what weights were packed for */
    uint16_t tuned; /* a PlanIsa: that of the machine that CHOICES were measured on, with so many */
    uint16_t threads; /* threads; both 0 where there are none. Elsewhere they are not heeded */
    PlanSection sections[PLAN_SECTION_COUNT];
} PlanHeader;
#define PLAN_MAGIC "DEMIPLAN"

/* The last bytes of the file. `hash` is the XXH64 of all before it. */
typedef struct PlanSum {
    char magic[8]; /* PLAN_SUM_MAGIC */
    uint64_t hash;
    uint64_t zero[6];
} PlanSum;
#define PLAN_SUM_MAGIC "DEMISUM\n"

typedef struct PlanSpan {
    uint32_t first, count;
} PlanSpan;

typedef struct PlanOp {
    uint32_t domain, name; /* texts; "" for ai.onnx */
    int64_t opset;         /* of that domain */
} PlanOp;

/* What a value is; a sequence's or optional's dtype and dims are its tensors'. */
typedef enum PlanKind {
    PLAN_TENSOR,
    PLAN_SEQUENCE,
    PLAN_OPTIONAL,
    PLAN_OPTIONAL_SEQUENCE,
    PLAN_KIND_COUNT
} PlanKind;

typedef struct PlanValue {
    uint32_t name;
    uint8_t kind, dtype;
    uint8_t stored; /* a constant of FLOAT whose data is FLOAT16 or BFLOAT16, to be widened where
                       it is read: that type; else UNDEFINED */
    uint8_t packed; /* 1: its data is as the first PlanPack says that has its number */
    uint32_t rank;  /* PLAN_NONE where unknown */
    uint32_t dims;  /* first of `rank` NUMBERS: a size, -1 unknown, -2 - t named by text t */
    uint64_t data, size; /* offset in DATA and bytes of a constant; PLAN_NO_DATA and 0 */
} PlanValue;

/* How a constant of FLOAT or INT8 lies in DATA; or, where the layout loses something, what lies beside
 * it. A value has one of each at most, in this order. */
typedef struct PlanPack {
    uint32_t value, zero; /* ascending, and so is their data */
    uint64_t data;        /* offset in DATA; the value's own, or that of what is beside it */
    WeightLayout layout;
} PlanPack;

/* The type of the elements that a constant has in DATA. */
static inline Dtype plan_stored(const PlanValue *value) {
    return (Dtype)(value->stored ? value->stored : value->dtype);
}

/* A value has one place that defines it: a constant, an input of a graph, or an output of a
 * step. */
typedef struct PlanGraph {
    uint32_t name, zero;
    PlanSpan inputs, outputs; /* OPERANDS */
    PlanSpan defaults; /* OPERANDS, as many as inputs, or none: constants for inputs that are not
                          set, PLAN_NONE where there is none; of the main graph only */
    PlanSpan steps;    /* STEPS */
} PlanGraph;

typedef struct PlanStep {
    uint32_t op, name;
    PlanSpan inputs, outputs; /* OPERANDS */
    PlanSpan attrs;           /* ATTRS */
} PlanStep;

/* How a kernel step is computed, for operands of certain dtypes and dims. */
typedef struct PlanChoice {
    uint32_t step;       /* ascending, then by `shapes`: no two are the same */
    uint8_t row;         /* 1 + that of the operator's rows; 0: the one that takes the operands */
    uint8_t choice;      /* KernelCall.choice, for that row */
    uint8_t alone, zero; /* 1: by the calling thread alone */
    uint64_t shapes;     /* step_choice_shapes: a hash of what it was measured for */
} PlanChoice;

/* attr_layout.h's PlainAttr. `value` is the number, the bits of the float, the text, the first of
 * `count` NUMBERS, FLOATS or OPERANDS (of texts), a value that is a constant, or a graph. */
typedef struct PlanAttr {
    uint32_t name, kind;
    uint32_t count, zero;
    int64_t value;
} PlanAttr;

/* ---- reading --------------------------------------------------------------------------------- */

/* A checked plan: typed views of its bytes, which must outlive it. */
typedef struct Plan {
    const PlanHeader *header; /* NULL while a plan is being made (plan_fold.c) */
    const PlanOp *ops;
    const PlanValue *values;
    const PlanGraph *graphs;
    const PlanStep *steps;
    const PlanAttr *attrs;
    const uint32_t *operands;
    const int64_t *numbers;
    const float *floats;
    const PlanSpan *texts;
    const char *chars;
    const PlanPack *packs;
    const PlanChoice *choices;
    const unsigned char *data;
    uint32_t op_count, value_count, graph_count, step_count, text_count, pack_count, choice_count;
} Plan;

/* Checks every offset, index and count, that values are defined once and before they are used, and
 * that sizes fit dims and dtypes. `bytes` must be 8-byte aligned. Tables go to scratch. ERR_MODEL
 * where the bytes are not a plan, damaged, or made for another version ("recompile"). */
bool plan_check(Plan *plan, const void *bytes, uint64_t size, Arena *scratch, Err *err);
/* The same of a plan of `size` bytes with files behind it, up to byte `end`. */
bool plan_check_here(Plan *plan, const void *bytes, uint64_t size, uint64_t end, Arena *scratch,
                     Err *err);

/* The text that element i of a constant of strings is: some text, whatever its data became since it
 * was checked. */
static inline uint32_t plan_data_text(const Plan *plan, const PlanValue *value, uint64_t i) {
    const volatile uint32_t *texts = (const void *)(plan->data + value->data);
    const uint32_t text = texts[i];
    return text < plan->text_count ? text : 0;
}

/* Compares the bytes of a checked plan with the hash behind them. ERR_MODEL where they differ, or
 * there is none. */
bool plan_check_sum(const void *bytes, uint64_t size, Err *err);

/* The text with that index, NUL-terminated, in `arena`. */
const char *plan_text(const Plan *plan, uint32_t text, Arena *arena);

/* Writes a checked plan as text: one line a value, step and attribute. */
typedef struct PlanSink {
    void (*write)(void *data, const char *text, size_t size);
    void *data;
} PlanSink;
void plan_show(const Plan *plan, const PlanSink *sink);

/* ---- writing --------------------------------------------------------------------------------- */

/* Gives the bytes [offset, offset + size) of a constant. It is called in several threads at once. */
typedef bool (*PlanDataFn)(void *data, uint64_t offset, void *buffer, uint64_t size, Err *err);

typedef struct PlanConstant {
    uint64_t offset, size;
    PlanDataFn read;
    void *data;
    const WeightLayout *layout; /* that it has in the plan; NULL: that which `read` gives */
    uint64_t plain;             /* bytes that `read` gives */
    bool whole;                 /* which it gives at once: `read` gets the whole range */
    const Source *file;         /* whose bytes from `at` on it is; NULL: of none */
    uint64_t at;
} PlanConstant;

/* A plan that is being made. Fill `source`, `numerics`, `small`, `isa` and `budget`; the rest is these
 * functions'. */
typedef struct PlanBuilder {
    Arena *arena;
    uint64_t source[2];
    PlanNumerics numerics;
    bool small;    /* see the header's */
    PlanIsa isa;   /* plan_pack's */
    PlanIsa tuned; /* the header's, and of how many threads, where there are choices */
    uint16_t threads;
    uint64_t budget; /* most bytes that plan_fold may take; 0: what the constants' sizes say */
    bool maps;       /* plan_pack may leave constants in their files, by plan_set_files */
    VEC(PlanOp) ops;
    VEC(PlanValue) values;
    VEC(PlanGraph) graphs;
    VEC(PlanStep) steps;
    VEC(PlanAttr) attrs;
    VEC(uint32_t) operands;
    VEC(int64_t) numbers;
    VEC(float) floats;
    VEC(PlanSpan) texts;
    VEC(char) chars;
    VEC(PlanPack) packs;
    VEC(PlanChoice) choices;
    VEC(PlanConstant) constants; /* by offset */
    uint32_t *text_slots;        /* open addressing by hash: 1 + index */
    size_t text_capacity;
    uint64_t data_size;
    VEC(MappedFile) files; /* that constants are left in */
    uint64_t files_size;   /* of what they take, from the first one on */
} PlanBuilder;

void plan_builder_init(PlanBuilder *builder, Arena *arena);
/* The index of a text, added if need be. */
uint32_t plan_add_text(PlanBuilder *builder, const char *text, size_t size);
uint32_t plan_add_op(PlanBuilder *builder, const char *domain, const char *name, int64_t opset);
PlanSpan plan_add_operands(PlanBuilder *builder, const uint32_t *items, size_t count);
uint32_t plan_add_numbers(PlanBuilder *builder, const int64_t *items, size_t count);
uint32_t plan_add_floats(PlanBuilder *builder, const float *items, size_t count);
/* Gives value `value` constant data of `size` bytes, read when the plan is written. */
void plan_set_data(PlanBuilder *builder, uint32_t value, uint64_t size, PlanDataFn read,
                   void *data);
/* The same of a constant that the builder has, or had. */
void plan_set_constant(PlanBuilder *builder, uint32_t value, const PlanConstant *constant);
/* Data that is no value's own, the constant's in that layout; its offset. */
uint64_t plan_add_packed(PlanBuilder *builder, const PlanConstant *plain,
                         const WeightLayout *layout);
/* Says that the data that was added last can be read as a whole only. */
void plan_note_whole(PlanBuilder *builder);
/* Says that the data that was added last are the file's, from that byte on. */
void plan_note_file(PlanBuilder *builder, const Source *file, uint64_t at);
/* Gives it the data that `other` has. */
void plan_share_data(PlanBuilder *builder, uint32_t value, uint32_t other);

/* Fills a builder that plan_builder_init made with a plan that is loaded, weights in their order,
 * whatever they were packed for. The plan must stay as long as the builder. */
struct LoadedPlan;
void plan_builder_take(PlanBuilder *builder, const struct LoadedPlan *loaded);

/* Its tables, without data: for plan_load, of what it is to find. Growing tables move. */
Plan plan_of_builder(const PlanBuilder *builder);

/* Executes steps whose operands are all constant, and drops what nothing reads any more
 * (plan_fold.c says what is left alone). All must be in the builder; results lie in its arena.
 * False where a constant can't be read. */
bool plan_fold(PlanBuilder *builder, Err *err);

/* The constant that is the value's data. */
const PlanConstant *plan_constant_of(const PlanBuilder *builder, const PlanValue *value);

/* Packs constants of float and int8 that one kernel alone will read, or several in the same layout,
 * for builder->isa: it asks the kernels of all steps, by the dims that values are declared to have.
 * Behind plan_fold. Reads no large constant: they are packed when the plan is written. False where a
 * small one can't be read. With builder->maps, those that stay as they are, and are in large files at a
 * multiple of their elements' size, are left there. */
bool plan_pack(PlanBuilder *builder, Err *err);

/* Behind plan_pack, where builder->files has any: decides where they lie in memory behind the plan, whose
 * size it returns, each `at` bytes from the plan's first. Nothing is added from then on. */
uint64_t plan_set_files(PlanBuilder *builder);
/* The first byte behind a plan of so many bytes that a file may lie at. */
static inline uint64_t plan_end(uint64_t size) {
    return (size + PLAN_BLOCK - 1) / PLAN_BLOCK * PLAN_BLOCK;
}

/* Where each section begins, and what the file is as a whole. */
typedef struct PlanSections {
    struct {
        const void *items; /* of DATA NULL: constants lie one by one */
        uint64_t count, size;
    } of[PLAN_SECTION_COUNT];
    PlanSection places[PLAN_SECTION_COUNT];
    uint64_t file_size;
} PlanSections;
PlanSections plan_sections(const PlanBuilder *builder);

/* The whole plan, handed to `write`, in the caller's thread, in blocks of at most PLAN_BLOCK. What is
 * next is read and packed meanwhile (plan_stream.c). */
typedef bool (*PlanWriteFn)(void *data, const void *bytes, size_t size, Err *err);
bool plan_write(PlanBuilder *builder, PlanWriteFn write, void *data, Err *err);

/* True where the runtime has the operator, in the version in force at that opset; for some dtypes
 * at least. The domain is "" for ai.onnx. */
bool plan_has_operator(const char *domain, const char *op, int64_t opset);

#endif
