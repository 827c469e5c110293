// SPDX-License-Identifier: Apache-2.0
/* Decoded kernels, and what runs of them: for the files of the emulator alone.
 *
 * A register is 32 lanes side by side, in the file of its warp; an instruction is a function that
 * does all lanes at once. Constants and special registers are registers too, filled before the warp
 * starts. A function that is called has registers of its own in the same file: there is no recursion.
 *
 * Lanes of a warp have a counter each. Of those that differ, the lowest go on until they meet others
 * or jump, so that lanes meet again behind what they did differently. */
#ifndef FAKE_PTX_CODE_H
#define FAKE_PTX_CODE_H

#include "ptx.h"
#include "ptx_half.h"

enum { PTX_LANES = 32, PTX_OPERANDS = 14, PTX_ALL = -1 };

typedef struct PtxWarp PtxWarp;
typedef struct PtxInstr PtxInstr;
typedef void PtxRun(PtxWarp *warp, const PtxInstr *instr, uint32_t lanes);

typedef enum PtxKind {
    PTX_PLAIN,
    PTX_BRANCH,
    PTX_CALL,   /* target; at[0]: where its return goes */
    PTX_RETURN, /* at[0] */
    PTX_EXIT,
    PTX_SYNC,    /* run, when all lanes are there that at[3] names */
    PTX_ALIGNED, /* run, when all lanes of the warp are there */
    PTX_BARRIER, /* of the block */
    PTX_WAIT     /* for all threads of the cluster to arrive */
} PtxKind;

typedef enum PtxSpace {
    PTX_GLOBAL,
    PTX_SHARED,
    PTX_LOCAL,
    PTX_PARAM,
    PTX_CLUSTER, /* shared memory of the block, or of another one of its cluster */
    PTX_GENERIC  /* global memory or that */
} PtxSpace;

/* Addresses of the cluster's shared memory: those of the block's own from 0 on, and those of the block
 * of rank r from (r + 1) << PTX_RANK_SHIFT on. Generic ones are behind PTX_WINDOW. */
enum { PTX_RANK_SHIFT = 24 };
#define PTX_WINDOW (UINT64_C(1) << 62)

struct PtxInstr {
    PtxRun *run;
    const char *text;          /* its statement */
    uint32_t guard;            /* register of its predicate, 0 for none */
    uint32_t target;           /* of a branch or call */
    int64_t offset;            /* behind an address */
    uint8_t kind;              /* a PtxKind */
    bool negated;              /* its predicate */
    bool sign;                 /* what is loaded is widened as signed */
    bool fixed;                /* its address is a constant, the same for all lanes */
    uint8_t space;             /* a PtxSpace */
    uint8_t count;             /* of elements loaded or stored */
    uint8_t size;              /* bytes of one */
    uint8_t width;             /* bytes of the register that has it */
    uint8_t address_width;     /* of that with the address */
    uint32_t at[PTX_OPERANDS]; /* registers, results first */
};

/* Registers that have their value from the start. */
typedef struct PtxConstant {
    uint64_t value;
    uint32_t at;
    uint8_t width;
} PtxConstant;
typedef enum PtxSpecial {
    PTX_TID = 0, /* x, y, z */
    PTX_NTID = 3,
    PTX_CTAID = 6,
    PTX_NCTAID = 9,
    PTX_LANE = 12,
    PTX_CLUSTER_RANK = 13,
    PTX_CLUSTER_SIZE = 14,
    PTX_SPECIALS = 15
} PtxSpecial;

struct PtxKernel {
    PtxKernel *next;
    const char *name;
    PtxKernelInfo info;
    const PtxModule *module;
    PtxInstr *code;
    uint32_t count, room, entry;
    uint32_t registers; /* bytes of a warp's file; the first are never used */
    uint32_t local;     /* bytes of local memory a lane */
    uint32_t shift;     /* 2^shift bytes of shared memory are written at least at a time */
    bool joins;         /* it has barriers of the cluster */
    PtxConstant *constants;
    uint32_t constant_count, constant_room;
    uint8_t *ways;  /* [count], PTX_WENT_…: what became of each instruction with a predicate */
    uint8_t *image; /* a warp's file before it starts: with constants, and what nobody set */
    uint32_t specials[PTX_SPECIALS]; /* registers, 0: not used */
};

/* Who was at a granule of shared memory last. */
typedef struct PtxMark {
    uint32_t write_epoch,
        read_epoch;                 /* counts the block's barriers, and those of blocks before it */
    uint32_t write_sync, read_sync; /* counts the warp's */
    uint32_t write_tick, read_tick; /* counts barriers of some of the block's warps */
    uint32_t readers;               /* warps */
    uint16_t writer, reader;        /* threads */
    uint8_t spread;                 /* of the readers: 0 one thread, 1 a warp's, 2 several warps' */
    uint8_t pending;                /* copies to it that were not waited for */
} PtxMark;

/* The same of a block in a cluster: how many barriers of the cluster the latest that was there had
 * arrived at; 0: none was. */
typedef struct PtxShare {
    uint32_t written, read, read_far; /* far: by another block */
} PtxShare;

/* A copy to shared memory on its way. */
typedef struct PtxCopy {
    uint32_t at, lane, group, size;
    uint8_t bytes[16];
} PtxCopy;

/* A block that runs: one of a cluster, whose blocks run together. */
typedef struct PtxBlock {
    struct PtxGrid *grid;
    uint32_t at[3], rank;
    uint8_t *shared;
    PtxMark *marks;   /* one a granule */
    PtxShare *shares; /* the same; NULL where there is nothing of clusters */
    uint32_t epoch, first_epoch;
    uint32_t tick;     /* grows with each barrier of some of its warps */
    uint32_t read_far; /* latest PtxShare.read_far of all */
    bool ended;        /* all its threads have */
    PtxWarp *warps;
} PtxBlock;

typedef struct PtxGrid {
    const PtxKernel *kernel;
    const PtxLaunch *launch;
    PtxBlock *blocks; /* [cluster] that run */
    uint32_t cluster, shared_size, warp_count;
    /* Barriers of the cluster that were waited for, through all clusters of a launch, from 1 on; and how
     * many that was at the last that writes were ordered by. */
    uint32_t waits, fenced;
    bool relaxed;          /* a thread arrived at the next one without its writes */
    const PtxRegion *last; /* region that was found */
    bool failed;
    char *why;
} PtxGrid;

struct PtxWarp {
    PtxGrid *grid;
    PtxBlock *block;
    uint8_t *registers;
    uint8_t *local; /* [lanes][kernel->local] */
    uint32_t number;
    uint32_t sync; /* grows with each barrier of the warp */
    uint32_t barrier,
        members; /* that it is blocked in: its number, 0 that of all; of how many warps */
    uint32_t
        joined[PTX_LANES]; /* by warp: what it did before this tick is behind a barrier of both */
    uint32_t alive, waiting, blocked; /* lanes: not ended; in a PTX_SYNC; in a barrier */
    uint32_t arrived, held;           /* at a barrier of the cluster; and wait there */
    uint32_t unfenced;                /* lanes that stored to global memory since a fence */
    uint32_t released; /* lanes that did not write to shared memory since a fence of the cluster */
    uint32_t begun;    /* lanes that need not wait for what is before the launch */
    uint32_t pc[PTX_LANES], groups[PTX_LANES]; /* groups of copies that were closed */
    PtxCopy *copies;
    uint32_t copy_count, copy_room;
};

#define PTX_REG(T, warp, at) ((T *)(void *)((warp)->registers + (at)))

/* What a loop reads and writes of other lanes' is its own: registers are whole ones, or the same. */
#ifdef __clang__
#define PTX_VECTOR _Pragma("clang loop vectorize(assume_safety)")
#else
#define PTX_VECTOR _Pragma("GCC ivdep")
#endif

/* BODY for lane l of those in `lanes`. */
#define PTX_EACH(BODY)                                                                             \
    if (lanes == UINT32_MAX) {                                                                     \
        PTX_VECTOR for (int l = 0; l < PTX_LANES; l++) {                                           \
            BODY                                                                                   \
        }                                                                                          \
    } else {                                                                                       \
        for (int l = 0; l < PTX_LANES; l++)                                                        \
            if (lanes >> l & 1) {                                                                  \
                BODY                                                                               \
            }                                                                                      \
    }

/* Ends the launch with a message about the lane, PTX_ALL for all. */
void ptx_fault(PtxWarp *warp, const PtxInstr *instr, int lane, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ptx_warp.c: runs until all lanes have ended or are in a barrier. */
void ptx_warp_run(PtxWarp *warp);

/* ptx_memory.c, ptx_matrix.c: what instructions of the families of this name do. */
PtxRun ptx_load, ptx_store, ptx_prefetch, ptx_atomic_add, ptx_fence, ptx_load_param, ptx_copy_async,
    ptx_commit, ptx_wait_group, ptx_move_pair, ptx_split_pair, ptx_map_rank, ptx_map_rank_generic,
    ptx_arrive, ptx_begin, ptx_nothing;
PtxRun ptx_mma_f16, ptx_mma_bf16, ptx_load_matrices, ptx_load_turned;
/* What a lane reads or writes. */
typedef struct PtxAccess {
    PtxWarp *warp;
    const PtxInstr *instr;
    int lane;
    uint32_t size;
    uint64_t at;
} PtxAccess;
/* Reads shared memory, checked; false after a fault. */
bool ptx_shared_read(const PtxAccess *access, void *to);
/* The module's own data at that address. */
const PtxRegion *ptx_module_data(const PtxModule *module, uint64_t address);

/* ptx_ops.c: the operation of that name, NULL for none. */
typedef struct PtxOp {
    const char *names; /* separated by | */
    PtxRun *run;
    uint8_t count;    /* of operands */
    uint8_t width[5]; /* bytes of each register, 0 for a predicate */
    uint8_t kind;
} PtxOp;
const PtxOp *ptx_op(const char *name, uint32_t length);

#endif
